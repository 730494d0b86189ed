/* cases_optim.c - the cases of the update: norm_sq, clip, adamw.
 *
 * Big: a chunk of the cpu's elementwise kernels is 16384 elements of the whole op, or of one row where operands have
 * gaps; norm_sq goes by about as many in whole rows and sums up to 1024 at a time. */
#include "base/rng.h"
#include "num/moment.h"
#include "verify/values.h"

#include <math.h>
#include <stdio.h>

enum { N, C }; /* dimensions */
enum { SITE = 41 };

/* ---- norm_sq ---- */

enum { ACC, FAULT, VALUES, NORM_OPS };
static const rt_op_flag norm_flags[] = { RT_FLAG("out", "", "acc"), RT_FLAG("fault", "", "fault", "fault-set"),
                                         RT_RARE("values", "", "inf", "nan"), RT_OPS_FLAG };
static const rt_op_shape norm_shapes[] = { { RT_SHAPE_ODD, { 7, 19 } },
                                           { RT_SHAPE_ONE, { 1, 1 } },
                                           { RT_SHAPE_BIG, { 29, 2309 } } };

static void fill_gradient(const rt_op_case *c, const rt_fill *f)
{
    rt_fill_normal(c, f);
    if (c->flag[VALUES]) f->x[(uint64_t)f->rows * f->cols * 2 / 3] = c->flag[VALUES] == 1 ? -INFINITY : NAN;
}

static void norm_layout(const rt_op_case *c, rt_layout *l)
{
    l->slot[RT_NSQ_OUT] = RT_SLOT(1, 1, c->flag[ACC] ? rt_fill_positive : NULL, 3, 1);
    l->slot[RT_NSQ_X] = RT_SLOT(c->dim[N], c->dim[C], fill_gradient);
    if (!c->flag[FAULT]) return;
    l->slot[RT_NSQ_FAULT] = RT_SLOT(1, 4, rt_fill_fault, c->flag[FAULT] == 2);
    l->slot[RT_NSQ_STEP] = RT_SLOT(1, sizeof(rt_step), rt_fill_step, 12, 34);
}

static void norm_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    enum { MOST = 3 }; /* each adds a rounding to f32 */
    rt_view x = v[RT_NSQ_X];
    uint32_t ops = rt_case_ops(x, c->flag[NORM_OPS], MOST);
    for (uint32_t i = 0; i < ops; i++)
        rt_emit_norm_sq(p, v[RT_NSQ_OUT], rt_case_part(p, x, i, ops), v[RT_NSQ_FAULT], v[RT_NSQ_STEP], SITE + i);
}

static double elements(const rt_op_case *c) { return (double)c->dim[N] * c->dim[C]; }

const rt_op_set rt_op_set_norm_sq = { .kind = RT_OP_NORM_SQ,
                                      .ndims = 2,
                                      RT_TABLE(shapes, norm_shapes),
                                      RT_TABLE(flags, norm_flags),
                                      .layout = norm_layout,
                                      .emit = norm_emit,
                                      .serial_terms = elements,
                                      .large = { .signature = "f32", .dim = { 61, 1536 }, .flag = { [FAULT] = 1 } } };

/* ---- clip ---- */

enum { NSQ, LIMIT, CLIP_FAULT };
static const rt_op_flag clip_flags[] = { RT_RARE("nsq", "", "zero", "tiny", "inf", "nan"),
                                         RT_FLAG("max_norm", "", "off", "loose", "negative"),
                                         RT_FLAG("fault", "", "fault", "fault-set") };
static const rt_op_shape clip_shapes[] = { { RT_SHAPE_ODD | RT_SHAPE_ONE, { 1 } } };

/* Three numbers and no more: there is one shape. */
static void clip_fix(rt_op_case *c) { c->dim[0] = 1; }

static void clip_layout(const rt_op_case *c, rt_layout *l)
{
    static const double nsq[] = { 123.456, 0, 1e-20, INFINITY, NAN };
    l->slot[RT_CLIP_SCALE] = RT_SLOT(1, 1, NULL);
    l->slot[RT_CLIP_NORM] = RT_SLOT(1, 1, NULL);
    l->slot[RT_CLIP_NSQ] = RT_SLOT(1, 1, rt_fill_const, nsq[c->flag[NSQ]]);
    if (!c->flag[CLIP_FAULT]) return;
    l->slot[RT_CLIP_FAULT] = RT_SLOT(1, 4, rt_fill_fault, c->flag[CLIP_FAULT] == 2);
    l->slot[RT_CLIP_STEP] = RT_SLOT(1, sizeof(rt_step), rt_fill_step, 12, 34);
}

static void clip_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    static const float limit[] = { 0.7f, 0.0f, 1e9f, -1.0f };
    rt_emit_clip(p, v[RT_CLIP_SCALE], v[RT_CLIP_NORM], v[RT_CLIP_NSQ], v[RT_CLIP_FAULT], v[RT_CLIP_STEP],
                 limit[c->flag[LIMIT]], SITE);
}

const rt_op_set rt_op_set_clip = { .kind = RT_OP_CLIP,
                                   .ndims = 1,
                                   RT_TABLE(shapes, clip_shapes),
                                   RT_TABLE(flags, clip_flags),
                                   .fix = clip_fix,
                                   .layout = clip_layout,
                                   .emit = clip_emit };

/* ---- adamw ---- */

enum { GSCALE, ADAM_FAULT, STEP, DECAY, ADAM_OPS, GRAD };
enum { STREAM = 7, ROW = 5000 }; /* of the rounding of narrow moments */
static const rt_op_flag adam_flags[] = { RT_FLAG("gscale", "", "gscale"),
                                         RT_RARE("fault", "", "fault", "fault-set"),
                                         RT_FLAG("step", "step1", "step2", "step1000"),
                                         RT_FLAG("decay", "", "decay"),
                                         RT_OPS_FLAG,
                                         RT_FLAG("grad", "", "small-grad") };
static const rt_op_shape adam_shapes[] = { { RT_SHAPE_ODD, { 37, 19 } },
                                           { RT_SHAPE_ONE, { 1, 1 } },
                                           { RT_SHAPE_BIG, { 4, 33001 } } };
/* One off a block of moments, a block, several and a part. */
static const rt_op_shape adam_more[] = { { RT_SHAPE_WIDTH, { 5, 127 } },
                                         { RT_SHAPE_WIDTH, { 3, 128 } },
                                         { RT_SHAPE_WIDTH, { 5, 129 } },
                                         { RT_SHAPE_WIDTH, { 2, 576 } } };

static rt_adamw_opts adam_opts(const rt_op_case *c)
{
    return (rt_adamw_opts){ 0.9f, 0.999f, 1e-8f, c->flag[DECAY] ? 0.1f : 0.0f, .stream = STREAM };
}

static double step_of(const rt_op_case *c)
{
    static const double step[] = { 1, 2, 1000 };
    return step[c->flag[STEP]];
}

static bool has_master(const rt_op_case *c) { return c->sig.dtype[RT_ADAM_PARAM] != RT_DTYPE_F32; }

/* A parameter is its master, rounded: the same numbers, drawn as the master's. */
static void fill_param(const rt_op_case *c, const rt_fill *f)
{
    rt_fill same = *f;
    if (has_master(c)) same.stream = RT_ADAM_MASTER;
    rt_fill_normal(c, &same);
}

static rt_dtype moments_of(const rt_op_case *c) { return c->sig.dtype[RT_ADAM_M]; }

static bool one_in(uint32_t n, const rt_fill *f, uint64_t i)
{
    return rt_philox(f->seed, 0x736d616c6c, i).v[0] % n == 0;
}

/* Moments as codes. Every code occurs; where v is small m is too, as the two are: else a few updates that no gradients
 * lead to would be all of the sum of squares. */
static uint8_t code_of_v(const rt_fill *f, uint64_t i)
{
    uint32_t word = rt_philox(f->seed, RT_ADAM_V, i).v[0];
    return (uint8_t)(one_in(64, f, i) ? 0 : one_in(4, f, i) ? word % 192 : 192 + word % 64);
}
static void fill_codes(const rt_fill *f, bool is_m)
{
    for (uint64_t i = 0; i < (uint64_t)f->rows * f->cols; i++) {
        uint32_t w = rt_fill_word(f, i);
        uint8_t v = code_of_v(f, i);
        f->b[i] = !is_m ? v : (uint8_t)(v == 0 ? 0 : v < 192 ? w & 0x87 : w);
    }
}

/* With 8 bits and flag GRAD, a gradient whose square is below the least code where v is 0. */
static void fill_grad(const rt_op_case *c, const rt_fill *f)
{
    rt_fill_normal(c, f);
    for (uint64_t i = 0; c->flag[GRAD] && i < (uint64_t)f->rows * f->cols; i++)
        if (code_of_v(f, i) == 0) f->x[i] *= 0x1p-24;
}
static uint32_t adam_allowed(const rt_op_case *c, uint32_t flag)
{
    return flag == GRAD && moments_of(c) != RT_DTYPE_U8 ? 1 : ~0u;
}
static void fill_m(const rt_op_case *c, const rt_fill *f)
{
    if (moments_of(c) == RT_DTYPE_U8)
        fill_codes(f, true);
    else
        rt_fill_normal(c, f);
}
static void fill_v(const rt_op_case *c, const rt_fill *f)
{
    if (moments_of(c) == RT_DTYPE_U8)
        fill_codes(f, false);
    else
        rt_fill_positive(c, f);
}

/* Such that the largest m of a block is some hundredths and the largest v some tenths; sometimes a block of zeros. */
static void fill_exps(const rt_op_case *c, const rt_fill *f)
{
    (void)c;
    for (uint64_t i = 0; i < (uint64_t)f->rows * f->cols; i++) {
        uint32_t w = rt_fill_word(f, i / 2); /* of m and of v */
        f->b[i] = (uint8_t)(w % 17 == 0 ? 0 : (i % 2 ? 89 : 104) + w / 17 % 4);
    }
}

static void adam_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    bool master = has_master(c);
    /* In double the parameter is its own master, so what is wanted of it is in the master's place. */
    l->slot[RT_ADAM_PARAM] = RT_SLOT(d[N], d[C], fill_param, .want_from = master ? 1 + RT_ADAM_MASTER : 0);
    if (master) l->slot[RT_ADAM_MASTER] = RT_SLOT(d[N], d[C], rt_fill_normal);
    l->slot[RT_ADAM_M] = RT_SLOT(d[N], d[C], fill_m, 0, 0.1);
    l->slot[RT_ADAM_V] = RT_SLOT(d[N], d[C], fill_v, 0, 0.01);
    if (moments_of(c) == RT_DTYPE_U8) l->slot[RT_ADAM_EXPS] = RT_SLOT(d[N], (uint32_t)rt_moment_exps(d[C]), fill_exps);
    l->slot[RT_ADAM_GRAD] = RT_SLOT(d[N], d[C], fill_grad);
    l->slot[RT_ADAM_STEP] = RT_SLOT(1, sizeof(rt_step), rt_fill_step, step_of(c), 34);
    if (c->flag[GSCALE]) l->slot[RT_ADAM_GSCALE] = RT_SLOT(1, 1, rt_fill_const, 0.37);
    if (c->flag[ADAM_FAULT]) l->slot[RT_ADAM_FAULT] = RT_SLOT(1, 4, rt_fill_fault, c->flag[ADAM_FAULT] == 2);
}

/* ---- moments narrower than f32: exact in the double run, and what is stored is a rounding of that ---- */

static const uint8_t *byte_at(const rt_values *v, uint32_t slot, uint8_t *const *bytes, uint32_t row, uint32_t col)
{
    rt_view w = v->view[slot];
    return (const uint8_t *)(bytes ? bytes[w.buf - 1] : v->buf[w.buf - 1].init) + w.off + row * w.stride + col;
}

static uint32_t exp_at(const rt_values *v, uint32_t slot, uint8_t *const *bytes, uint32_t row, uint32_t col)
{
    return *byte_at(v, RT_ADAM_EXPS, bytes, row, 2 * (col / RT_MOMENT_BLOCK) + (slot == RT_ADAM_V));
}

static double decoded(uint32_t slot, uint8_t code, uint32_t exp)
{
    return (double)(slot == RT_ADAM_M ? rt_moment_m_value(code, exp) : rt_moment_v_value(code, exp));
}

static int adam_prepare(rt_values *v, rt_verify_env *env, rt_err *e)
{
    (void)env;
    for (uint32_t slot = RT_ADAM_M; slot <= RT_ADAM_V && moments_of(v->c) == RT_DTYPE_U8; slot++) {
        rt_value_buf *b = &v->buf[v->view[slot].buf - 1];
        rt_view w = v->view[slot];
        b->wide = RT_DTYPE_F64;
        b->wide_bytes = (uint64_t)b->rows * b->cols * sizeof(double);
        double *wide = rt_values_scratch(v, b->wide_bytes);
        double *dense = v->dense[slot] = rt_values_scratch(v, (uint64_t)w.rows * w.cols * sizeof *dense);
        if (!wide || !dense) return rt_fail(e, RT_NOMEM, "no memory for the moments of case %s", v->c->name);
        for (uint32_t r = 0; r < w.rows; r++)
            for (uint32_t k = 0; k < w.cols; k++) {
                double x = decoded(slot, *byte_at(v, slot, NULL, r, k), exp_at(v, slot, NULL, r, k));
                wide[w.off + r * w.stride + k] = dense[(uint64_t)r * w.cols + k] = x;
            }
        b->init_wide = (uint8_t *)wide;
    }
    return RT_OK;
}

static bool adam_by_chance(const rt_op_case *c, uint32_t slot)
{
    return moments_of(c) != RT_DTYPE_F32 && slot >= RT_ADAM_M && slot <= RT_ADAM_EXPS;
}

static double rounded(uint32_t slot, rt_dtype d, double x, uint32_t exp, uint32_t chance)
{
    float f = (float)x;
    if (slot == RT_ADAM_V && f < 0) f = 0;
    if (d == RT_DTYPE_BF16) return (double)rt_bf16_to_f32(rt_moment_bf16(f, chance));
    return decoded(slot, slot == RT_ADAM_M ? rt_moment_m(f, exp, chance) : rt_moment_v(f, exp, chance), exp);
}

/* The exponent of a block, n elements from column col on: that of its largest, within slack. */
static bool exp_right(uint32_t slot, const double *want, const double *slack, uint32_t n, uint32_t exp)
{
    double low = 0, high = 0;
    uint32_t top = slot == RT_ADAM_M ? RT_MOMENT_M_TOP : RT_MOMENT_V_TOP;
    for (uint32_t i = 0; i < n; i++) {
        low = fmax(low, fabs(want[i]) - slack[i]);
        high = fmax(high, fabs(want[i]) + slack[i]);
    }
    return rt_moment_exp((float)low, top) <= exp && exp <= rt_moment_exp((float)high, top);
}

static bool adam_rounds(rt_values *v, uint32_t slot, uint8_t *const *got, const double *want, const double *slack,
                        char text[RT_ROUNDS_TEXT])
{
    rt_dtype d = moments_of(v->c);
    rt_view w = v->view[slot];
    double *now = rt_values_scratch(v, w.cols * sizeof *now);
    const rt_step *step = (const rt_step *)(const void *)byte_at(v, RT_ADAM_STEP, NULL, 0, 0);
    uint64_t stream = rt_adamw_stream(STREAM, step->step);
    bool still = v->c->flag[ADAM_FAULT] == 2; /* nothing was done */
    for (uint32_t r = 0; r < w.rows && now; r++) {
        const double *x = want + (uint64_t)r * w.cols, *room = slack + (uint64_t)r * w.cols;
        rt_view row = { .rows = 1, .cols = w.cols, .off = w.off + r * w.stride, .stride = w.cols };
        if (d == RT_DTYPE_BF16) rt_values_widen(now, got[w.buf - 1], row, d);
        for (uint32_t k = 0; k < w.cols; k++) {
            uint32_t exp = d == RT_DTYPE_U8 ? exp_at(v, slot, got, r, k) : 0, left = w.cols - k;
            uint32_t word = rt_philox(step->seed, stream, (uint64_t)(ROW + r) << 32 | k / 4).v[k % 4];
            uint32_t chance = slot == RT_ADAM_M ? word & 0xffff : word >> 16;
            if (d == RT_DTYPE_U8) now[k] = decoded(slot, *byte_at(v, slot, got, r, k), exp);
            if (d == RT_DTYPE_U8 && k % RT_MOMENT_BLOCK == 0 && !still &&
                !exp_right(slot, x + k, room + k, left < RT_MOMENT_BLOCK ? left : RT_MOMENT_BLOCK, exp)) {
                snprintf(text, RT_ROUNDS_TEXT, "row %u, column %u: its block has exponent %u", r, k, exp);
                return false;
            }
            double low = still ? x[k] : rounded(slot, d, x[k] - room[k], exp, chance);
            double high = still ? x[k] : rounded(slot, d, x[k] + room[k], exp, chance);
            if (low <= now[k] && now[k] <= high) continue;
            snprintf(text, RT_ROUNDS_TEXT, "row %u, column %u: got %.9g, want %.9g rounded to %.9g (or %.9g)", r, k,
                     now[k], x[k], low, high);
            return false;
        }
    }
    return true;
}

static void adam_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    enum { MOST = 37 }; /* more than a launch takes */
    rt_adamw_opts o = adam_opts(c);
    bool wide = p->policy.act == RT_DTYPE_F64, own = wide || !has_master(c);
    rt_view param = has_master(c) && wide ? v[RT_ADAM_MASTER] : v[RT_ADAM_PARAM];
    rt_view master = own ? RT_NONE : v[RT_ADAM_MASTER], exps = wide ? RT_NONE : v[RT_ADAM_EXPS];
    uint32_t ops = rt_case_ops(param, c->flag[ADAM_OPS], MOST);
    for (uint32_t i = 0; i < ops; i++) {
        rt_adamw_io io = { .param = rt_case_part(p, param, i, ops),
                           .master = rt_case_part(p, master, i, ops),
                           .m = rt_case_part(p, v[RT_ADAM_M], i, ops),
                           .v = rt_case_part(p, v[RT_ADAM_V], i, ops),
                           .exps = rt_case_part(p, exps, i, ops),
                           .grad = rt_case_part(p, v[RT_ADAM_GRAD], i, ops),
                           .step = v[RT_ADAM_STEP],
                           .gscale = v[RT_ADAM_GSCALE],
                           .fault = v[RT_ADAM_FAULT] };
        o.row = ROW + (uint32_t)((uint64_t)param.rows * i / ops);
        rt_emit_adamw(p, &io, &o);
    }
}

/* m: b1 |m| + (1-b1) |g|;  w: |w| + lr (|m| so / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + decay |w|) */
static void adam_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    rt_adamw_opts o = adam_opts(v->c);
    const double *m = rt_values_dense(v, RT_ADAM_M), *s = rt_values_dense(v, RT_ADAM_V);
    const double *g = rt_values_dense(v, RT_ADAM_GRAD);
    const double *w = rt_values_dense(v, has_master(v->c) ? RT_ADAM_MASTER : RT_ADAM_PARAM);
    double b1 = (double)o.beta1, b2 = (double)o.beta2, t = step_of(v->c), factor = v->c->flag[GSCALE] ? 0.37 : 1;
    (void)want;
    for (uint64_t i = 0; i < (uint64_t)v->c->dim[N] * v->c->dim[C] && m && s && g && w; i++) {
        double x = factor * g[i], first = b1 * fabs(m[i]) + (1 - b1) * fabs(x), second = b2 * s[i] + (1 - b2) * x * x;
        double update = first / (1 - pow(b1, t)) / (sqrt(second / (1 - pow(b2, t))) + (double)o.eps);
        scale[i] = slot == RT_ADAM_M ? first : fabs(w[i]) + 0.0123 * (update + (double)o.weight_decay * fabs(w[i]));
    }
}

/* `ref` in float has 1 - b2^t in float: at the first steps most of it cancels. */
static double correction_squared(const rt_op_case *c)
{
    double left = 1 - pow((double)adam_opts(c).beta2, step_of(c));
    return 1 / (left * left);
}

const rt_op_set rt_op_set_adamw = {
    .kind = RT_OP_ADAMW,
    .ndims = 2,
    RT_TABLE(shapes, adam_shapes),
    RT_TABLE(more, adam_more),
    RT_TABLE(flags, adam_flags),
    .allowed = adam_allowed,
    .layout = adam_layout,
    .emit = adam_emit,
    .prepare = adam_prepare,
    .by_chance = adam_by_chance,
    .rounds = adam_rounds,
    .terms = adam_terms,
    .serial_terms = correction_squared,
    .large = { .signature = "bf16.f32.f32", .dim = { 61, 1536 }, .flag = { [GSCALE] = 1, [STEP] = 2, [DECAY] = 1 } }
};
