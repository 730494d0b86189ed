/* rope_freq.c - the inverse frequencies of rotary embedding, as transformers' modeling_rope_utils defines them.
 *
 * Owns: the formulas of rope_freq.h. They are evaluated in double and rounded once, except for two quantities that
 * transformers rounds to f32 on the way and that the result is sensitive to: the exponent 2i/D and the yarn ramp. Doing
 * the same keeps the two within a few units of the last place. The op that applies the table is elsewhere. */
#include "num/rope_freq.h"

#include <math.h>

#define TWO_PI 6.283185307179586476925286766559

static bool positive(double v) { return v > 0 && isfinite(v); }

/* A named check, so that the message says which field of the model's configuration is at fault. */
static int require(bool good, const char *field, double value, const char *rule, rt_err *e)
{
    if (good) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "rope %s is %g, but must be %s: correct the rope parameters of the model's configuration", field,
                   value, rule);
}

static int check_yarn(const rt_rope_scaling *s, rt_err *e)
{
    int rc = RT_OK;
    RT_TRY(require(s->theta > 1, "theta", s->theta, "above 1 for yarn", e));
    RT_TRY(require(s->beta_fast == 0 || positive(s->beta_fast), "beta_fast", s->beta_fast, "positive", e));
    RT_TRY(require(s->beta_slow == 0 || positive(s->beta_slow), "beta_slow", s->beta_slow, "positive", e));
    RT_TRY(require(s->attention_factor == 0 || positive(s->attention_factor), "attention_factor", s->attention_factor,
                   "positive", e));
    RT_TRY(require(s->mscale >= 0 && isfinite(s->mscale), "mscale", s->mscale, "positive", e));
    RT_TRY(require(s->mscale_all_dim >= 0 && isfinite(s->mscale_all_dim), "mscale_all_dim", s->mscale_all_dim,
                   "positive", e));
out:
    return rc;
}

static int check(uint32_t D, const rt_rope_scaling *s, rt_err *e)
{
    int rc = RT_OK;
    RT_TRY(require(D >= 2 && D % 2 == 0, "head width", D, "even and at least 2", e));
    RT_TRY(require(positive(s->theta), "theta", s->theta, "positive", e));
    if (s->kind == RT_ROPE_PLAIN) goto out;
    RT_TRY(require(positive(s->factor), "factor", s->factor, "positive", e));
    if (s->kind == RT_ROPE_LINEAR) goto out;
    RT_TRY(
        require(positive(s->original_context), "original_max_position_embeddings", s->original_context, "positive", e));
    if (s->kind == RT_ROPE_YARN) {
        RT_TRY(check_yarn(s, e));
    } else if (s->kind == RT_ROPE_LLAMA3) {
        RT_TRY(require(positive(s->low_freq), "low_freq_factor", s->low_freq, "positive", e));
        RT_TRY(require(s->high_freq > s->low_freq && isfinite(s->high_freq), "high_freq_factor", s->high_freq,
                       "above low_freq_factor", e));
    } else {
        rc = rt_fail(e, RT_INVALID, "rope scaling kind %d is unknown", (int)s->kind);
    }
out:
    return rc;
}

/* theta^(-2i/D) */
static double plain(uint32_t i, uint32_t D, double theta)
{
    float exponent = (float)(2.0 * i) / (float)D;
    return 1.0 / pow(theta, exponent);
}

/* Long waves are slowed by the factor, short ones kept, and those between blended by how often they turn within the
 * original context. */
static double llama3(double f, const rt_rope_scaling *s)
{
    double wave = TWO_PI / f;
    if (wave < s->original_context / s->high_freq) return f;
    if (wave > s->original_context / s->low_freq) return f / s->factor;
    double smooth = (s->original_context / wave - s->low_freq) / (s->high_freq - s->low_freq);
    return (1 - smooth) * f / s->factor + smooth * f;
}

/* The (fractional) pair index whose wave turns `turns` times within the original context. */
static double yarn_dim(double turns, uint32_t D, const rt_rope_scaling *s)
{
    return (D * log(s->original_context / (turns * TWO_PI))) / (2 * log(s->theta));
}

/* Pairs up to *low keep their frequency, pairs from *high on are slowed by the factor, in between a linear ramp. */
static void yarn_range(double *low, double *high, uint32_t D, const rt_rope_scaling *s)
{
    *low = yarn_dim(s->beta_fast != 0 ? s->beta_fast : 32, D, s);
    *high = yarn_dim(s->beta_slow != 0 ? s->beta_slow : 1, D, s);
    if (!s->no_truncate) {
        *low = floor(*low);
        *high = ceil(*high);
    }
    *low = fmax(*low, 0);
    *high = fmin(*high, D - 1.0);
    if (*low == *high) *high += 0.001;
}

static double yarn(double f, uint32_t i, double low, double high, double factor)
{
    float ramp = ((float)i - (float)low) / (float)(high - low);
    float keep = 1.0f - fminf(fmaxf(ramp, 0), 1);
    return f / factor * (double)(1.0f - keep) + f * (double)keep;
}

static double yarn_mscale(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1; }

static double yarn_attention(const rt_rope_scaling *s)
{
    if (s->attention_factor != 0) return s->attention_factor;
    if (s->mscale != 0 && s->mscale_all_dim != 0) {
        return yarn_mscale(s->factor, s->mscale) / yarn_mscale(s->factor, s->mscale_all_dim);
    }
    return yarn_mscale(s->factor, 1);
}

int rt_rope_freqs(float *freq, float *scale, uint32_t D, const rt_rope_scaling *s, rt_err *e)
{
    int rc = RT_OK;
    double low = 0, high = 1;
    RT_TRY(check(D, s, e));
    if (s->kind == RT_ROPE_YARN) yarn_range(&low, &high, D, s);
    for (uint32_t i = 0; i < D / 2; i++) {
        double f = plain(i, D, s->theta);
        if (s->kind == RT_ROPE_LINEAR) f /= s->factor;
        if (s->kind == RT_ROPE_LLAMA3) f = llama3(f, s);
        if (s->kind == RT_ROPE_YARN) f = yarn(f, i, low, high, s->factor);
        freq[i] = (float)f;
    }
    *scale = s->kind == RT_ROPE_YARN ? (float)yarn_attention(s) : 1.0f;
out:
    return rc;
}
