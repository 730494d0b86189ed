/* grad_ops.c - a gradient problem for every differentiable op, small enough that every element is differenced.
 *
 * Each builder declares double buffers, records the op into the forward plan, and the op with its backward into the
 * other. Shapes are odd; values are order one; total variation uses a small step, away from its ties. */
#include "verify/grad.h"

#include <math.h>

#define F64 RT_DTYPE_F64

static rt_view in(rt_grad_problem *g, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_space_buf(g->space, RT_CLASS_INPUT, F64, rows, cols, name);
}
static rt_view out(rt_grad_problem *g, uint32_t rows, uint32_t cols, const char *name)
{
    return rt_space_buf(g->space, RT_CLASS_OUTPUT, F64, rows, cols, name);
}
static rt_view ints(rt_grad_problem *g, uint32_t rows, const int32_t *data, const char *name)
{
    rt_view v = rt_space_buf(g->space, RT_CLASS_INPUT, RT_DTYPE_I32, rows, 1, name);
    g->data[g->ndata++] = (rt_grad_data){ v, data };
    return v;
}
static rt_view raw(rt_grad_problem *g, rt_class cls, rt_dtype d, uint32_t cols, const void *data, const char *name)
{
    rt_view v = rt_space_buf(g->space, cls, d, 1, cols, name);
    g->data[g->ndata++] = (rt_grad_data){ v, data };
    return v;
}
/* An input with its gradient; returns the input, the gradient through dx. */
static rt_view var(rt_grad_problem *g, uint32_t rows, uint32_t cols, const char *name, rt_view *dx)
{
    rt_view x = in(g, rows, cols, name);
    *dx = out(g, rows, cols, name);
    g->var[g->nvars++] = (rt_grad_var){ x, *dx, name };
    return x;
}
/* An output and the buffer its upstream gradient is read from. */
static rt_view output(rt_grad_problem *g, uint32_t rows, uint32_t cols, const char *name, rt_view *dy)
{
    rt_view y = out(g, rows, cols, name);
    *dy = in(g, rows, cols, name);
    g->out[g->nouts++] = (rt_grad_out){ y, *dy, NULL };
    return y;
}

static void build_embed(rt_grad_problem *g, uint32_t variant)
{
    static const int32_t ids[] = { 3, 0, 3, 6, 1, 3 }; /* repeated, and some never used */
    rt_view dt, dy, table = var(g, 7, 5, "table", &dt), y = output(g, 6, 5, "y", &dy), id = ints(g, 6, ids, "ids");
    (void)variant;
    rt_emit_embed_fwd(g->forward, y, table, id);
    rt_emit_embed_bwd(g->backward, dt, dy, id);
}

/* variant: 0 plain, 1 per head, 2 large eps */
static void build_rmsnorm(rt_grad_problem *g, uint32_t variant)
{
    uint32_t heads = variant == 1 ? 3 : 1, D = 7;
    float eps = variant == 2 ? 0.5f : 1e-5f;
    rt_view dx, dw, dy, x = var(g, 4, heads * D, "x", &dx), w = var(g, 1, D, "w", &dw);
    rt_view y = output(g, 4, heads * D, "y", &dy);
    rt_emit_rmsnorm_fwd(g->forward, y, RT_NONE, x, w, heads, eps);
    rt_emit_rmsnorm_bwd(g->backward, dx, dw, dy, x, w, heads, eps);
}

/* Both outputs carry a gradient: that of h arrives at dres. */
static void build_add_rmsnorm(rt_grad_problem *g, uint32_t variant)
{
    float eps = variant ? 0.5f : 1e-5f;
    rt_view dx, dres, dw, dy, dh, x = var(g, 4, 7, "x", &dx), res = var(g, 4, 7, "res", &dres),
                                  w = var(g, 1, 7, "w", &dw);
    rt_view y = output(g, 4, 7, "y", &dy), h = output(g, 4, 7, "h", &dh);
    rt_plan *p = g->backward;
    rt_emit_add_rmsnorm_fwd(g->forward, y, RT_NONE, h, x, res, w, eps);
    rt_view sum = rt_act(p, F64, 4, 7, "sum");
    rt_emit_add(p, sum, x, res);
    rt_emit_add_rmsnorm_bwd(p, dx, dw, dy, sum, w, dh, eps);
    rt_emit_copy(p, dres, dx, RT_NONE); /* the sum passes its gradient to both */
}

/* variant: 0 nn, 1 nt, 2 tn, 3 tt; with bias and alpha */
static void build_matmul(rt_grad_problem *g, uint32_t variant)
{
    static const char *const trans[] = { "nn", "nt", "tn", "tt" };
    bool ta = variant & 2, tb = variant & 1;
    uint32_t M = 5, N = 3, K = 4;
    float alpha = 0.75f;
    rt_view da, db, dbias, dy, a = var(g, ta ? K : M, ta ? M : K, "a", &da),
                               b = var(g, tb ? N : K, tb ? K : N, "b", &db);
    rt_view bias = var(g, 1, N, "bias", &dbias), y = output(g, M, N, "y", &dy);
    rt_plan *p = g->backward;
    rt_emit_matmul(g->forward, y, a, b, bias, trans[variant], alpha);
    /* dA = alpha dY B', dB = alpha A' dY, each in the layout in which the operand is stored */
    if (ta)
        rt_emit_matmul(p, da, b, dy, RT_NONE, tb ? "tt" : "nt", alpha);
    else
        rt_emit_matmul(p, da, dy, b, RT_NONE, tb ? "nn" : "nt", alpha);
    if (tb)
        rt_emit_matmul(p, db, dy, a, RT_NONE, ta ? "tt" : "tn", alpha);
    else
        rt_emit_matmul(p, db, a, dy, RT_NONE, ta ? "nn" : "tn", alpha);
    rt_emit_bias_grad(p, dbias, dy);
}

static void build_rope(rt_grad_problem *g, uint32_t variant)
{
    static const double freq[] = { 1.0, 0.31, 0.017 };
    static const int32_t pos[] = { 0, 1, 7, 1000, 2 };
    rt_view dx, dy, x = var(g, 5, 12, "x", &dx), y = output(g, 5, 12, "y", &dy);
    rt_view f = raw(g, RT_CLASS_INPUT, F64, 3, freq, "freq"), p = ints(g, 5, pos, "pos");
    float scale = variant ? 1.3f : 1.0f;
    rt_emit_rope_fwd(g->forward, y, x, f, p, scale);
    rt_emit_rope_bwd(g->backward, dx, dy, f, p, scale);
}

/* variant: bit 0 window, bit 1 documents, bit 2 one kv head per query head */
static void build_attn(rt_grad_problem *g, uint32_t variant)
{
    static const int32_t start[] = { 0, 0, 0, 3, 3, 5, 5, 0, 0, 2, 2, 2, 2, 6 };
    rt_attn_shape s = { .T = 7, .H = 4, .K = variant & 4 ? 4 : 2, .D = 8, .window = variant & 1 ? 3 : 0 };
    uint32_t N = 14;
    rt_view dq, dk, dv, dy, q = var(g, N, s.H * s.D, "q", &dq), k = var(g, N, s.K * s.D, "k", &dk);
    rt_view v = var(g, N, s.K * s.D, "v", &dv), o = output(g, N, s.H * s.D, "o", &dy);
    rt_view st = variant & 2 ? ints(g, N, start, "start") : RT_NONE;
    for (int i = 0; i < 2; i++) {
        rt_plan *p = i ? g->backward : g->forward;
        rt_view oo = i ? rt_act(p, F64, N, s.H * s.D, "o") : o, lse = rt_act(p, F64, N, s.H, "lse");
        rt_emit_attn_fwd(p, oo, lse, q, k, v, st, &s);
        if (i) rt_emit_attn_bwd(p, dq, dk, dv, dy, q, k, v, oo, lse, st, &s);
    }
}

static void build_swiglu(rt_grad_problem *g, uint32_t variant)
{
    rt_view dg, du, dy, a = var(g, 5, 7, "g", &dg), u = var(g, 5, 7, "u", &du), y = output(g, 5, 7, "y", &dy);
    g->spread = variant ? 4.0 : 1.0;
    rt_emit_swiglu_fwd(g->forward, y, RT_NONE, a, u);
    rt_emit_swiglu_bwd(g->backward, dg, du, RT_NONE, dy, a, u);
}

/* The linear row ops: their backward is a row op too. */
static void build_rows(rt_grad_problem *g, uint32_t variant)
{
    rt_view da, db, dy, a = var(g, 3, 5, "a", &da), b = var(g, 3, 5, "b", &db), y = output(g, 3, 5, "y", &dy);
    rt_plan *p = g->backward;
    (void)variant;
    rt_view t = rt_act(g->forward, F64, 3, 5, "t"), c = rt_act(g->forward, F64, 3, 5, "c");
    rt_emit_scale(g->forward, t, a, RT_NONE, -1.5f);
    rt_emit_cast(g->forward, c, b);
    rt_emit_add(g->forward, y, t, c);
    rt_emit_scale(p, da, dy, RT_NONE, -1.5f);
    rt_emit_copy(p, db, dy, RT_NONE);
}

/* variant: p 0.1, 0.5, 0.9. What is dropped is fixed by the step values, so differences see what backward does. */
static void build_dropout(rt_grad_problem *g, uint32_t variant)
{
    static const float p[] = { 0.1f, 0.5f, 0.9f };
    static const rt_step values = { .step = 3, .tokens = 1, .row = 100, .seed = 77 };
    rt_view dx, dy, x = var(g, 5, 9, "x", &dx), y = output(g, 5, 9, "y", &dy);
    rt_view step = raw(g, RT_CLASS_STEP, RT_DTYPE_U8, sizeof values, &values, "step");
    rt_emit_dropout(g->forward, y, x, step, p[variant], 4);
    rt_emit_dropout(g->backward, dx, dy, step, p[variant], 4);
}

/* ---- kd_loss: variant = divergence + 8 * (0 full, 1 full with bitmap, 2 top-k, 3 top-k with bitmap) + 32 *
 * temperature ---- */

enum { KD_N = 4, KD_V = 11, KD_K = 4, KD_TOKENS = 3 };
static const rt_step kd_step = { .step = 1, .tokens = KD_TOKENS };
static const uint32_t kd_fault[4];
static const int32_t kd_target[KD_N] = { 2, -1, 10, 0 }; /* one masked */
static const uint32_t kd_mask = 0x6f7;                   /* ids 3 and 8 are outside Vc */
static const int32_t kd_ids[KD_N * KD_K] = { 0, 5, 2, 9, 1, 2, 4, 5, 10, 6, 7, 0, 2, 9, 4, -1 };
static const double kd_logp[KD_N * KD_K] = {
    -0.7, -1.5, -2.9, -4.0, -1, -1, -2, -2, -0.2, -3, -5, -6, -0.5, -2, -3, 0
};
static const double kd_rest[KD_N] = { 0.20, 0.02, 0.12, 0.21 }; /* about what is left */
static const float kd_temps[] = { 1.0f, 2.0f, 0.5f };

static void build_kd(rt_grad_problem *g, uint32_t variant)
{
    static double weights[4];
    uint32_t form = variant / 8 % 4;
    float T = kd_temps[variant / 32 % 3];
    rt_kd_opts o = { .divergence = (rt_divergence)(variant % 8),
                     .T = T,
                     .mix = 0.3f,
                     .ce_weight = 0.4f,
                     .kd_weight = 0.6f,
                     .t2 = true };
    rt_view dx, x = var(g, KD_N, KD_V, "logits", &dx), sums = out(g, 1, 4, "sums");
    rt_kd_io io = { .step = raw(g, RT_CLASS_STEP, RT_DTYPE_U8, sizeof kd_step, &kd_step, "step"),
                    .fault = raw(g, RT_CLASS_STATE, RT_DTYPE_U32, 4, kd_fault, "fault"),
                    .target = ints(g, KD_N, kd_target, "target") };
    if (form & 1) io.vmask = raw(g, RT_CLASS_INPUT, RT_DTYPE_U32, 1, &kd_mask, "vmask");
    if (form < 2) {
        static double teacher[KD_N * KD_V];
        for (int i = 0; i < KD_N * KD_V; i++) teacher[i] = 1.5 * rt_test_normal(99, (uint64_t)i);
        io.teacher = in(g, KD_N, KD_V, "teacher");
        g->data[g->ndata++] = (rt_grad_data){ io.teacher, teacher };
    } else {
        io.tk_id = rt_space_buf(g->space, RT_CLASS_INPUT, RT_DTYPE_I32, KD_N, KD_K, "tk_id");
        io.tk_logp = in(g, KD_N, KD_K, "tk_logp");
        io.tk_rest = in(g, KD_N, 1, "tk_rest");
        g->data[g->ndata++] = (rt_grad_data){ io.tk_id, kd_ids };
        g->data[g->ndata++] = (rt_grad_data){ io.tk_logp, kd_logp };
        g->data[g->ndata++] = (rt_grad_data){ io.tk_rest, kd_rest };
    }
    weights[0] = o.ce_weight / (double)KD_TOKENS;
    weights[1] = o.kd_weight * (double)T * T / KD_TOKENS;
    g->out[g->nouts++] = (rt_grad_out){ sums, RT_NONE, weights };
    g->spread = 1.5;
    if (o.divergence == RT_DIV_TV) g->h = 1e-4;
    for (int i = 0; i < 2; i++) {
        rt_plan *p = i ? g->backward : g->forward;
        io.logits = i ? dx : rt_act(p, F64, KD_N, KD_V, "logits");
        io.sums = i ? rt_act(p, F64, 1, 4, "sums") : sums;
        rt_emit_copy(p, io.logits, x, RT_NONE);
        o.grad = i;
        rt_emit_kd_loss(p, &io, &o);
    }
}

/* ---- the list ---- */

typedef struct entry {
    const char *name;
    void (*build)(rt_grad_problem *g, uint32_t variant);
    uint32_t variants;
} entry;

static const entry entries[] = {
    { "embed", build_embed, 1 },     { "rmsnorm", build_rmsnorm, 3 }, { "add_rmsnorm", build_add_rmsnorm, 2 },
    { "matmul", build_matmul, 4 },   { "rope", build_rope, 2 },       { "attn", build_attn, 8 },
    { "swiglu", build_swiglu, 2 },   { "rows", build_rows, 1 },       { "kd_loss", build_kd, 96 },
    { "dropout", build_dropout, 3 },
};

/* Variants of kd_loss whose low three bits name no divergence are left out. */
static bool exists(const entry *t, uint32_t variant) { return t->build != build_kd || variant % 8 < RT_DIV_COUNT; }

bool rt_grad_op(uint32_t index, const char **name, uint32_t *variant)
{
    for (size_t i = 0; i < sizeof entries / sizeof *entries; i++)
        for (uint32_t v = 0; v < entries[i].variants; v++)
            if (exists(&entries[i], v) && index-- == 0) {
                *name = entries[i].name;
                *variant = v;
                return true;
            }
    return false;
}

int rt_grad_op_check(rt_dev *ref_double, const char *name, uint32_t variant, rt_grad_report *report, rt_err *e)
{
    int rc;
    rt_grad_problem g = { .seed = 12345 + variant };
    const entry *t = entries;
    while (strcmp(t->name, name) != 0) t++;
    RT_TRY(rt_space_new(&g.space, e));
    RT_TRY(rt_plan_new(&g.forward, g.space, name, &rt_policy_f64, e));
    RT_TRY(rt_plan_new(&g.backward, g.space, name, &rt_policy_f64, e));
    t->build(&g, variant);
    RT_TRY(rt_grad_check(ref_double, &g, report, e));
out:
    rt_plan_free(g.forward);
    rt_plan_free(g.backward);
    rt_space_free(g.space);
    return rc;
}
