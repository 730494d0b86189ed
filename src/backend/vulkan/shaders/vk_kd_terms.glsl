/* vk_kd_terms.glsl - one outcome of a divergence: its term of D, and g = Q dD/dQ. op/args.h has the formulas. */
#ifndef VK_KD_TERMS_GLSL
#define VK_KD_TERMS_GLSL

const uint FORWARD_KL = 0, REVERSE_KL = 1, JSD = 2, SKEW_FKL = 3, SKEW_RKL = 4, TV = 5;

/* w x, where nothing times anything is nothing: 0 log 0 = 0 */
float times(float w, float x) { return w == 0 ? 0.0 : w * x; }

/* log(exp(a) + exp(b)) */
float logaddexp(float a, float b)
{
    float hi = a > b ? a : b, lo = a > b ? b : a;
    return hi + log1p_of(exp_of(lo - hi));
}

uint kind_of(uint divergence, float mix_of)
{
    if (divergence == JSD && mix_of == 0) return FORWARD_KL;
    if (divergence == JSD && mix_of == 1) return REVERSE_KL;
    return divergence;
}

/* The share of b in their mixture m = mix a + (1-mix) b; from the logarithms where m is all but 0. */
float share_in(float mix_of, vec2 log_mix, float a, float b, float lb, float lm)
{
    float m = mix_of * a + (1.0 - mix_of) * b;
    return m > 1e-30 ? (1.0 - mix_of) * quotient(b, m) : exp_of(log_mix.y + lb - lm);
}

/* term, g. p and q beside their logarithms, because a probability from its logarithm has all of that's error; log_mix:
 * log(mix), log(1 - mix). */
vec2 term(uint kind, float mix_of, vec2 log_mix, float lp, float lq, float p, float q)
{
    float lm, d, g;
    switch (kind) {
    case FORWARD_KL: return vec2(times(p, lp - lq), -p);
    case REVERSE_KL: g = times(q, lq - lp); return vec2(g, g);
    case JSD:
        lm = logaddexp(log_mix.x + lp, log_mix.y + lq);
        g = (1.0 - mix_of) * times(q, lq - lm);
        return vec2(mix_of * times(p, lp - lm) + g, g);
    case SKEW_FKL:
        lm = logaddexp(log_mix.x + lp, log_mix.y + lq);
        return vec2(times(p, lp - lm), -times(p, share_in(mix_of, log_mix, p, q, lq, lm)));
    case SKEW_RKL:
        lm = logaddexp(log_mix.x + lq, log_mix.y + lp);
        d = times(q, lq - lm);
        return vec2(d, d + times(q, share_in(mix_of, log_mix, q, p, lp, lm)));
    default: return vec2(abs(p - q) / 2.0, q > p ? q / 2.0 : q < p ? -q / 2.0 : 0.0);
    }
}

#endif
