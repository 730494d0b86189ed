/* cpu_rope.c - rotary embedding, half-split pairing: (x[j], x[j + D/2]) is rotated by pos * freq[j].
 *
 * Cosines and sines are computed once per row and used by all its heads. The angle is formed and reduced to a quarter
 * turn in double, because pos * freq loses all its fraction in f32 at long context; the polynomials after that are f32,
 * below 1.5 units in the last place. Backward is the rotation by the opposite angle. */
#include "backend/cpu/cpu_split.h"

/* c (half), s (half) = cos and sin of pos*freq, times scale; s is negated for backward */
static void rotation(float *c, float *s, const float *freq, int32_t pos, uint32_t half, float scale, bool backward)
{
    const double two_over_pi = 0x1.45f306dc9c883p-1, pio2_hi = 0x1.921fb54400000p+0, pio2_lo = 0x1.0b4611a626331p-34;
    const double magic = 0x1.8p52;
    for (uint32_t at = 0; at < half; at += VL) {
        uint32_t n = half - at < (uint32_t)VL ? half - at : (uint32_t)VL;
        float rf[VL] = { 0 };
        int32_t quarter[VL] = { 0 };
        for (uint32_t i = 0; i < n; i++) {
            double angle = (double)pos * freq[at + i];
            double q = (angle * two_over_pi + magic) - magic;
            rf[i] = (float)((angle - q * pio2_hi) - q * pio2_lo);
            quarter[i] = (int32_t)(int64_t)q; /* |q| < 2^31 for any 32-bit position and frequency <= 1 */
        }
        vf r = vload(rf), z = r * r;
        vi q;
        memcpy(&q, quarter, sizeof q);
        vf ps = vset(-0x1.a01a02p-13f) + z * vset(0x1.71de3ap-19f); /* -1/5040, 1/362880 */
        ps = r + r * z * (vset(-0x1.555556p-3f) + z * (vset(0x1.111112p-7f) + z * ps));
        vf pc = vset(0x1.a01a02p-16f) + z * vset(-0x1.27e4fcp-22f); /* 1/40320, -1/3628800 */
        pc = vset(1.0f) + z * (vset(-0.5f) + z * (vset(0x1.555556p-5f) + z * (vset(-0x1.6c16c2p-10f) + z * pc)));
        vi odd = -(q & 1);
        vf vc = vselect(odd, ps, pc), vs = vselect(odd, pc, ps);
        vc = (vf)((vi)vc ^ (((q + 1) & 2) << 30)); /* cos is negative in quarters 1 and 2 */
        vs = (vf)((vi)vs ^ ((q & 2) << 30));       /* sin in 2 and 3 */
        vstore_n(c + at, vc * vset(scale), n);
        vstore_n(s + at, vs * vset(backward ? -scale : scale), n);
    }
}

RT_INLINE void rotate(void *y, const void *x, const float *c, const float *s, uint32_t half, rt_dtype d)
{
    uint32_t j = 0;
    for (; j + VL <= half; j += VL) {
        vf a = vload_t(x, j, d), b = vload_t(x, j + half, d), vc = vload(c + j), vs = vload(s + j);
        vstore_t(y, j, a * vc - b * vs, d);
        vstore_t(y, j + half, b * vc + a * vs, d);
    }
    if (j < half) {
        uint32_t n = half - j;
        vf a = vload_tn(x, j, n, d), b = vload_tn(x, j + half, n, d), vc = vload_n(c + j, n), vs = vload_n(s + j, n);
        vstore_tn(y, j, a * vc - b * vs, n, d);
        vstore_tn(y, j + half, b * vc + a * vs, n, d);
    }
}

typedef struct rope_job {
    const rt_bound_op *o;
    uint64_t per;
    bool backward;
} rope_job;

static void rope_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const rope_job *j = ctx;
    const rt_rope_args *a = &j->o->args.rope;
    const rt_operand *y = &j->o->slot[RT_ROPE_Y], *x = &j->o->slot[RT_ROPE_X], *pos = &j->o->slot[RT_ROPE_POS];
    const float *freq = rt_host_ptr(&j->o->slot[RT_ROPE_FREQ]);
    uint32_t half = a->D / 2;
    float *c = (float *)rt_host_ptr(&j->o->work) + (uint64_t)worker * a->D, *s = c + half;
    uint64_t end = (chunk + 1) * j->per < a->N ? (chunk + 1) * j->per : a->N;
    for (uint64_t r = chunk * j->per; r < end; r++) {
        rotation(c, s, freq, *(const int32_t *)span_ptr(pos, (rt_cpu_span){ r, 0, 0 }), half, a->scale, j->backward);
        for (uint32_t h = 0; h < a->H; h++) {
            rt_cpu_span at = { r, (uint64_t)h * a->D, 0 };
            void *yp = span_ptr(y, at);
            const void *xp = span_ptr(x, at);
            RT_FOR_FLOAT(y->dtype, D, rotate(yp, xp, c, s, half, D));
        }
    }
}
static void rope(const rt_cpu_ctx *c, const rt_bound_op *o, bool backward)
{
    const rt_rope_args *a = &o->args.rope;
    rope_job j = { o, RT_SPLIT_ELEMS / ((uint64_t)a->H * a->D) + 1, backward };
    rt_pool_run(c->pool, (uint32_t)((a->N + j.per - 1) / j.per), rope_chunk, &j);
}
static uint64_t rope_work(const rt_cpu_work *w) { return (uint64_t)w->threads * w->args->rope.D * sizeof(float); }

void RT_CPU(rope_fwd)(const rt_cpu_ctx *c, const rt_bound_op *o) { rope(c, o, false); }
void RT_CPU(rope_bwd)(const rt_cpu_ctx *c, const rt_bound_op *o) { rope(c, o, true); }
uint64_t RT_CPU(work_rope_fwd)(const rt_cpu_work *w) { return rope_work(w); }
uint64_t RT_CPU(work_rope_bwd)(const rt_cpu_work *w) { return rope_work(w); }
