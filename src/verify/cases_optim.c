/* cases_optim.c - the cases of the update: norm_sq, clip, adamw.
 *
 * Big: a chunk of the cpu's elementwise kernels is 16384 elements of the whole op, or of one row where operands have
 * gaps; norm_sq goes by about as many in whole rows and sums up to 1024 at a time. */
#include "verify/values.h"

#include <math.h>

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

enum { GSCALE, ADAM_FAULT, STEP, DECAY, ADAM_OPS };
static const rt_op_flag adam_flags[] = { RT_FLAG("gscale", "", "gscale"), RT_RARE("fault", "", "fault", "fault-set"),
                                         RT_FLAG("step", "step1", "step2", "step1000"), RT_FLAG("decay", "", "decay"),
                                         RT_OPS_FLAG };
static const rt_op_shape adam_shapes[] = { { RT_SHAPE_ODD, { 37, 19 } },
                                           { RT_SHAPE_ONE, { 1, 1 } },
                                           { RT_SHAPE_BIG, { 4, 33001 } } };

static rt_adamw_opts adam_opts(const rt_op_case *c)
{
    return (rt_adamw_opts){ 0.9f, 0.999f, 1e-8f, c->flag[DECAY] ? 0.1f : 0.0f };
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

static void adam_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    bool master = has_master(c);
    /* In double the parameter is its own master, so what is wanted of it is in the master's place. */
    l->slot[RT_ADAM_PARAM] = RT_SLOT(d[N], d[C], fill_param, .want_from = master ? 1 + RT_ADAM_MASTER : 0);
    if (master) l->slot[RT_ADAM_MASTER] = RT_SLOT(d[N], d[C], rt_fill_normal);
    l->slot[RT_ADAM_M] = RT_SLOT(d[N], d[C], rt_fill_normal, 0, 0.1);
    l->slot[RT_ADAM_V] = RT_SLOT(d[N], d[C], rt_fill_positive, 0, 0.01);
    l->slot[RT_ADAM_GRAD] = RT_SLOT(d[N], d[C], rt_fill_normal);
    l->slot[RT_ADAM_STEP] = RT_SLOT(1, sizeof(rt_step), rt_fill_step, step_of(c), 34);
    if (c->flag[GSCALE]) l->slot[RT_ADAM_GSCALE] = RT_SLOT(1, 1, rt_fill_const, 0.37);
    if (c->flag[ADAM_FAULT]) l->slot[RT_ADAM_FAULT] = RT_SLOT(1, 4, rt_fill_fault, c->flag[ADAM_FAULT] == 2);
}

static void adam_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    enum { MOST = 37 }; /* more than a launch takes */
    rt_adamw_opts o = adam_opts(c);
    bool wide = p->policy.act == RT_DTYPE_F64, own = wide || !has_master(c);
    rt_view param = has_master(c) && wide ? v[RT_ADAM_MASTER] : v[RT_ADAM_PARAM];
    rt_view master = own ? RT_NONE : v[RT_ADAM_MASTER], m = v[RT_ADAM_M], s = v[RT_ADAM_V], g = v[RT_ADAM_GRAD];
    uint32_t ops = rt_case_ops(param, c->flag[ADAM_OPS], MOST);
    for (uint32_t i = 0; i < ops; i++)
        rt_emit_adamw(p, rt_case_part(p, param, i, ops), rt_case_part(p, master, i, ops), rt_case_part(p, m, i, ops),
                      rt_case_part(p, s, i, ops), rt_case_part(p, g, i, ops), v[RT_ADAM_STEP], v[RT_ADAM_GSCALE],
                      v[RT_ADAM_FAULT], &o);
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
    RT_TABLE(flags, adam_flags),
    .layout = adam_layout,
    .emit = adam_emit,
    .terms = adam_terms,
    .serial_terms = correction_squared,
    .large = { .signature = "bf16.f32", .dim = { 61, 1536 }, .flag = { [GSCALE] = 1, [STEP] = 2, [DECAY] = 1 } }
};
