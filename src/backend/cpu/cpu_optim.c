/* cpu_optim.c - adamw and clip. The master weights and all arithmetic are f32; the bias corrections are computed once
 * per call in double from the step number. Moments are f32, or narrower: then a block of a row at a time, which is what
 * shares an exponent (num/moment.h). */
#include "backend/cpu/cpu_random.h"
#include "backend/cpu/cpu_split.h"
#include "num/moment.h"

typedef struct adam_consts {
    float b1, b2, eps, decay, lr;
    float inv_bc1, inv_bc2; /* 1/(1 - beta^t) */
    float gscale;
    uint64_t seed, stream; /* of the rounding of narrow moments */
} adam_consts;

/* m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr (mhat / (sqrt(vhat) + eps) + decay w) */
RT_INLINE vf adam_lanes(vf *m, vf *v, vf w, vf g, const adam_consts *k)
{
    g = g * vset(k->gscale);
    *m = *m * vset(k->b1) + g * vset(1.0f - k->b1);
    *v = *v * vset(k->b2) + g * g * vset(1.0f - k->b2);
    vf mhat = *m * vset(k->inv_bc1), vhat = *v * vset(k->inv_bc2);
    return w - vset(k->lr) * (mhat / (vsqrt(vhat) + vset(k->eps)) + vset(k->decay) * w);
}

/* w (n) f32: the master; p: the stored copy, or null when the master is the parameter */
RT_INLINE void adam_body(float *w, void *p, float *m, float *v, const void *g, uint64_t n, const adam_consts *k,
                         rt_dtype dp, rt_dtype dg)
{
    uint64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf vm = vload(m + i), vv = vload(v + i);
        vf r = adam_lanes(&vm, &vv, vload(w + i), vload_t(g, i, dg), k);
        vstore(m + i, vm);
        vstore(v + i, vv);
        vstore(w + i, r);
        if (p) vstore_t(p, i, r, dp);
    }
    if (i < n) {
        uint32_t t = (uint32_t)(n - i);
        vf vm = vload_n(m + i, t), vv = vload_n(v + i, t);
        vf r = adam_lanes(&vm, &vv, vload_n(w + i, t), vload_tn(g, i, t, dg), k);
        vstore_n(m + i, vm, t);
        vstore_n(v + i, vv, t);
        vstore_n(w + i, r, t);
        if (p) vstore_tn(p, i, r, t, dp);
    }
}

static void adam_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    const rt_operand *param = &o->slot[RT_ADAM_PARAM], *master = &o->slot[RT_ADAM_MASTER];
    float *m = span_ptr(&o->slot[RT_ADAM_M], s), *v = span_ptr(&o->slot[RT_ADAM_V], s);
    const void *g = span_ptr(&o->slot[RT_ADAM_GRAD], s);
    float *w = span_ptr(master->mem ? master : param, s);
    void *p = master->mem ? span_ptr(param, s) : NULL;
    const adam_consts *k = ctx;
    if (p)
        RT_FOR_FLOAT(param->dtype, DP,
                     RT_FOR_FLOAT(o->slot[RT_ADAM_GRAD].dtype, DG, adam_body(w, p, m, v, g, s.n, k, DP, DG)));
    else
        RT_FOR_FLOAT(o->slot[RT_ADAM_GRAD].dtype, DG, adam_body(w, NULL, m, v, g, s.n, k, RT_DTYPE_F32, DG));
}

/* ---- moments narrower than f32 ---- */

enum { BLOCK = RT_MOMENT_BLOCK };
typedef uint8_t vb __attribute__((vector_size(VL)));

/* x (BLOCK) = n elements from p, 0 behind them; and back */
static void load_block(float *x, const void *p, uint64_t at, uint32_t n, rt_dtype d)
{
    uint32_t i = 0;
    RT_FOR_FLOAT(d, D, for (; i + VL <= n; i += VL) vstore(x + i, vload_t(p, at + i, D)));
    if (i < n) RT_FOR_FLOAT(d, D, vstore(x + i, vload_tn(p, at + i, n - i, D)));
    for (i = (n + VL - 1) / VL * VL; i < BLOCK; i += VL) vstore(x + i, vset(0.0f));
}
static void store_block(void *p, uint64_t at, const float *x, uint32_t n, rt_dtype d)
{
    uint32_t i = 0;
    RT_FOR_FLOAT(d, D, for (; i + VL <= n; i += VL) vstore_t(p, at + i, vload(x + i), D));
    if (i < n) RT_FOR_FLOAT(d, D, vstore_tn(p, at + i, vload(x + i), n - i, D));
}

/* Moments in bf16, rounded by 16 bits of each element's word. */
static void store_bf16(uint16_t *p, const float *x, const uint32_t *word, uint32_t shift, uint32_t n)
{
    uint16_t out[BLOCK];
    for (uint32_t i = 0; i < n; i += VL) {
        vf v = vload(x + i);
        vi finite = (vi)(((vu)v & 0x7f800000u) != 0x7f800000u);
        vu chance = vload_u(word + i) >> shift & 0xffffu;
        vh by_chance = v_narrow_u16((((vu)v + chance) & (vu)finite) >> 16), kept = v_to_bf16(v);
        vh mask = v_narrow_u16((vu)finite & 0xffffu), h = (by_chance & mask) | (kept & ~mask);
        memcpy(out + i, &h, sizeof h);
    }
    memcpy(p, out, n * sizeof *out);
}

/* x (BLOCK) from n codes; sign: the sign bit of a code */
static void load_codes(float *x, const uint8_t *p, uint32_t exp, uint32_t sign, uint32_t n)
{
    uint8_t in[BLOCK] = { 0 };
    const vf quantum = vset(rt_f32_from_bits(exp << 23));
    memcpy(in, p, n);
    for (uint32_t i = 0; i < BLOCK; i += VL) {
        vb b;
        memcpy(&b, in + i, sizeof b);
        vu c = __builtin_convertvector(b, vu), code = c & ~sign;
        vf quanta = vselect((vi)(code < 8), __builtin_convertvector((vi)code, vf), (vf)((code << 20) + (129u << 23)));
        vu minus = sign ? c >> 7 << 31 : c & 0;
        vstore(x + i, (vf)((vu)(quanta * quantum) | minus));
    }
    for (uint32_t i = n; i < BLOCK; i++) x[i] = 0; /* of a block that is not finite too */
}

/* The exponent of x (BLOCK). */
static uint32_t exp_of(const float *x, uint32_t top)
{
    vu most = { 0 };
    uint32_t best = 0;
    for (uint32_t i = 0; i < BLOCK; i += VL) {
        vu u = (vu)vload(x + i) & 0x7fffffffu;
        vi larger = (vi)(u > most);
        most = (u & (vu)larger) | (most & ~(vu)larger);
    }
    for (uint32_t i = 0; i < VL; i++) best = most[i] > best ? most[i] : best;
    return rt_moment_exp(rt_f32_from_bits(best), top);
}

static void store_codes(uint8_t *p, const float *x, uint32_t exp, uint32_t sign, const uint32_t *word, uint32_t shift,
                        uint32_t n)
{
    uint8_t out[BLOCK] = { 0 };
    const vf scale = vset(rt_f32_from_bits((254 - exp) << 23));
    for (uint32_t i = 0; i < n && exp != 0 && exp != 255; i += VL) {
        vu u = (vu)vload(x + i), chance = vload_u(word + i) >> shift & 0xffffu;
        vf quanta = (vf)(u & 0x7fffffffu) * scale;
        vu below = (vu)(quanta < vset(8.0f)) & 8u;
        vf moved = quanta + __builtin_convertvector((vi)below, vf);
        vu code = (((vu)moved + (chance << 4 | 8u)) >> 20) - (129u << 3) - below;
        if (sign)
            code |= (vu)(code != 0) & u >> 31 << 7;
        else
            code |= (vu)(code == 0) & (vu)((vf)u > vset(0.0f)) & 1u;
        vb b = __builtin_convertvector(code, vb);
        memcpy(out + i, &b, sizeof b);
    }
    memcpy(p, out, n);
}

/* A block of a row. */
static void adam_block(const rt_bound_op *o, rt_cpu_span s, const adam_consts *k)
{
    const rt_operand *param = &o->slot[RT_ADAM_PARAM], *master = &o->slot[RT_ADAM_MASTER];
    const rt_operand *grad = &o->slot[RT_ADAM_GRAD], *exps = &o->slot[RT_ADAM_EXPS];
    void *at_m = span_ptr(&o->slot[RT_ADAM_M], s), *at_v = span_ptr(&o->slot[RT_ADAM_V], s);
    uint8_t *exp = exps->mem ? span_ptr(exps, (rt_cpu_span){ s.row, s.col / BLOCK * 2, 2 }) : NULL;
    float *w = span_ptr(master->mem ? master : param, s), m[BLOCK], v[BLOCK], g[BLOCK], x[BLOCK];
    uint32_t word[BLOCK], n = (uint32_t)s.n;
    if (exp) {
        load_codes(m, at_m, exp[0], 0x80, n);
        load_codes(v, at_v, exp[1], 0, n);
    } else {
        load_block(m, at_m, 0, n, RT_DTYPE_BF16);
        load_block(v, at_v, 0, n, RT_DTYPE_BF16);
    }
    load_block(g, span_ptr(grad, s), 0, n, grad->dtype);
    load_block(x, w, 0, n, RT_DTYPE_F32);
    for (uint32_t i = 0; i < n; i += VL) { /* 0 stays 0 behind it */
        vf vm = vload(m + i), vv = vload(v + i);
        vstore(x + i, adam_lanes(&vm, &vv, vload(x + i), vload(g + i), k));
        vstore(m + i, vm);
        vstore(v + i, vv);
    }
    store_block(w, 0, x, n, RT_DTYPE_F32);
    if (master->mem) store_block(span_ptr(param, s), 0, x, n, param->dtype);
    for (uint32_t i = 0; i < n; i += RT_RANDOM_WORDS)
        random_words(word + i, k->seed, k->stream, o->args.adamw.row + (uint32_t)s.row, ((uint32_t)s.col + i) / 4);
    if (!exp) {
        store_bf16(at_m, m, word, 0, n);
        store_bf16(at_v, v, word, 16, n);
        return;
    }
    exp[0] = (uint8_t)exp_of(m, RT_MOMENT_M_TOP);
    exp[1] = (uint8_t)exp_of(v, RT_MOMENT_V_TOP);
    store_codes(at_m, m, exp[0], 0x80, word, 0, n);
    store_codes(at_v, v, exp[1], 0, word, 16, n);
}

/* Spans begin at multiples of a block: rows are never taken together. */
static void adam_narrow_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    for (uint64_t done = 0; done < s.n; done += BLOCK)
        adam_block(o, (rt_cpu_span){ s.row, s.col + done, s.n - done < BLOCK ? s.n - done : BLOCK }, ctx);
}

void RT_CPU(adamw)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_adamw_args *a = &o->args.adamw;
    const rt_step *step = rt_host_ptr(&o->slot[RT_ADAM_STEP]);
    const float *gscale = rt_host_ptr(&o->slot[RT_ADAM_GSCALE]);
    const rt_fault *fault = rt_host_ptr(&o->slot[RT_ADAM_FAULT]);
    if (fault && fault->set) return;
    adam_consts k = { .b1 = a->beta1, .b2 = a->beta2, .eps = a->eps, .decay = a->weight_decay, .lr = step->lr };
    k.inv_bc1 = (float)(1.0 / (1.0 - pow(a->beta1, step->step)));
    k.inv_bc2 = (float)(1.0 / (1.0 - pow(a->beta2, step->step)));
    k.gscale = gscale ? *gscale : 1.0f;
    k.seed = step->seed;
    k.stream = rt_adamw_stream(a->stream, step->step);
    if (a->moments == RT_DTYPE_F32)
        split_run(c, o, RT_ADAM_GRAD + 1, adam_span, &k);
    else
        split_rows(c, o, adam_narrow_span, &k);
}
RT_CPU_NO_WORK(adamw)

void RT_CPU(clip)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const float *nsq = rt_host_ptr(&o->slot[RT_CLIP_NSQ]);
    float *scale = rt_host_ptr(&o->slot[RT_CLIP_SCALE]), *norm = rt_host_ptr(&o->slot[RT_CLIP_NORM]);
    rt_fault *fault = rt_host_ptr(&o->slot[RT_CLIP_FAULT]);
    double n = sqrt((double)*nsq), max = o->args.clip.max_norm;
    (void)c;
    *norm = (float)n;
    if (!isfinite(n)) {
        *scale = 0.0f;
        if (fault && !fault->set)
            *fault =
                (rt_fault){ 1, ((const rt_step *)rt_host_ptr(&o->slot[RT_CLIP_STEP]))->step, o->args.clip.site, 0 };
    } else {
        *scale = max > 0 && max < n + 1e-6 ? (float)(max / (n + 1e-6)) : 1.0f;
    }
}
RT_CPU_NO_WORK(clip)
