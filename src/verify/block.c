/* block.c - see block.h. Forward first, then backward in the opposite order; every gradient says `=` or `+=`. */
#include "verify/block.h"

static const char *const param_names[RT_BLOCK_PARAMS] = {
#define X(id, name) name,
    RT_BLOCK_PARAM_LIST(X)
#undef X
};

const char *rt_block_param_name(int i) { return param_names[i]; }

static const float EPS = 1e-5f;

/* What forward keeps for backward. */
typedef struct saved {
    rt_view n1, qkv, q, k, v; /* normed input; packed projection and its parts */
    rt_view qn, kn, qr, kr;   /* after q/k norm, after rope */
    rt_view o, lse, h, n2;    /* attention; residual stream after it, normed */
    rt_view gu, act;          /* gate and up side by side; their product */
    rt_view h2, nf;           /* residual stream at the end, normed */
} saved;

static void declare_params(rt_block *b, const rt_policy *p)
{
    const rt_block_shape *s = &b->shape;
    uint32_t qd = s->H * s->D, kd = s->K * s->D;
    uint32_t shape[RT_BLOCK_PARAMS][2] = {
        [RT_BLOCK_NORM1] = { 1, s->C }, [RT_BLOCK_QKV] = { qd + 2 * kd, s->C },  [RT_BLOCK_OUT] = { s->C, qd },
        [RT_BLOCK_NORM2] = { 1, s->C }, [RT_BLOCK_GATE_UP] = { 2 * s->F, s->C }, [RT_BLOCK_DOWN] = { s->C, s->F },
        [RT_BLOCK_NORMF] = { 1, s->C }, [RT_BLOCK_HEAD] = { s->V, s->C },
    };
    if (s->bias) shape[RT_BLOCK_QKV_BIAS][0] = 1, shape[RT_BLOCK_QKV_BIAS][1] = qd + 2 * kd;
    if (s->qk_norm)
        for (int i = RT_BLOCK_QNORM; i <= RT_BLOCK_KNORM; i++) shape[i][0] = 1, shape[i][1] = s->D;
    for (int i = 0; i < RT_BLOCK_PARAMS; i++) {
        if (!shape[i][0]) continue;
        /* the head is written once per chunk: its gradient is of the "many" kind */
        rt_dtype g = i == RT_BLOCK_HEAD ? p->grad_many : p->grad;
        b->param[i] = rt_space_buf(b->space, RT_CLASS_PARAM, p->weight, shape[i][0], shape[i][1], param_names[i]);
        b->grad[i] = rt_space_buf(b->space, RT_CLASS_GRAD, g, shape[i][0], shape[i][1], param_names[i]);
    }
}

static void declare_data(rt_block *b, const rt_policy *p)
{
    const rt_block_shape *s = &b->shape;
    uint32_t N = s->B * s->T;
    rt_space *sp = b->space;
    b->x = rt_space_buf(sp, RT_CLASS_INPUT, p->act, N, s->C, "x");
    b->dx = rt_space_buf(sp, RT_CLASS_OUTPUT, p->act, N, s->C, "dx");
    b->freq = rt_space_buf(sp, RT_CLASS_INPUT, p->scalar, 1, s->D / 2, "freq");
    b->pos = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "pos");
    if (s->documents) b->start = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "start");
    b->target = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "target");
    b->teacher = rt_space_buf(sp, RT_CLASS_INPUT, p->logits, N, s->V, "teacher");
    b->stepval = rt_space_buf(sp, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step");
    b->fault = rt_space_buf(sp, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault");
    b->sums = rt_space_buf(sp, RT_CLASS_OUTPUT, p->scalar, 1, 4, "sums");
}

static rt_attn_shape attn_shape(const rt_block_shape *s)
{
    return (rt_attn_shape){ .T = s->T, .H = s->H, .K = s->K, .D = s->D, .window = s->window };
}

/* Attention half: x -> h = x + w_out attention(...), n2 = norm(h). */
static void forward_attention(rt_block *b, rt_plan *p, saved *v)
{
    const rt_block_shape *s = &b->shape;
    uint32_t N = s->B * s->T, qd = s->H * s->D, kd = s->K * s->D;
    rt_dtype A = p->policy.act;
    rt_attn_shape as = attn_shape(s);
    rt_plan_label(p, "attention");
    v->n1 = rt_act(p, A, N, s->C, "n1");
    rt_emit_rmsnorm_fwd(p, v->n1, b->x, b->param[RT_BLOCK_NORM1], 1, EPS);
    v->qkv = rt_act(p, A, N, qd + 2 * kd, "qkv");
    rt_emit_matmul(p, v->qkv, v->n1, b->param[RT_BLOCK_QKV], b->param[RT_BLOCK_QKV_BIAS], "nt", 1.0f);
    v->q = rt_view_cols(p, v->qkv, 0, qd);
    v->k = rt_view_cols(p, v->qkv, qd, kd);
    v->v = rt_view_cols(p, v->qkv, qd + kd, kd);
    v->qn = v->q;
    v->kn = v->k;
    if (s->qk_norm) {
        v->qn = rt_act(p, A, N, qd, "qn");
        v->kn = rt_act(p, A, N, kd, "kn");
        rt_emit_rmsnorm_fwd(p, v->qn, v->q, b->param[RT_BLOCK_QNORM], s->H, EPS);
        rt_emit_rmsnorm_fwd(p, v->kn, v->k, b->param[RT_BLOCK_KNORM], s->K, EPS);
    }
    v->qr = rt_act(p, A, N, qd, "qr");
    v->kr = rt_act(p, A, N, kd, "kr");
    rt_emit_rope_fwd(p, v->qr, v->qn, b->freq, b->pos, 1.0f);
    rt_emit_rope_fwd(p, v->kr, v->kn, b->freq, b->pos, 1.0f);
    v->o = rt_act(p, A, N, qd, "o");
    v->lse = rt_act(p, p->policy.scalar, N, s->H, "lse");
    rt_emit_attn_fwd(p, v->o, v->lse, v->qr, v->kr, v->v, b->start, &as);
    rt_view proj = rt_act(p, A, N, s->C, "proj");
    rt_emit_matmul(p, proj, v->o, b->param[RT_BLOCK_OUT], RT_NONE, "nt", 1.0f);
    v->h = rt_act(p, A, N, s->C, "h");
    v->n2 = rt_act(p, A, N, s->C, "n2");
    rt_emit_add_rmsnorm_fwd(p, v->n2, v->h, proj, b->x, b->param[RT_BLOCK_NORM2], EPS);
}

/* MLP half: n2, h -> h2 = h + w_down swiglu(w_gate_up n2), nf = norm(h2). */
static void forward_mlp(rt_block *b, rt_plan *p, saved *v)
{
    const rt_block_shape *s = &b->shape;
    uint32_t N = s->B * s->T;
    rt_dtype A = p->policy.act;
    rt_plan_label(p, "mlp");
    v->gu = rt_act(p, A, N, 2 * s->F, "gate_up");
    rt_emit_matmul(p, v->gu, v->n2, b->param[RT_BLOCK_GATE_UP], RT_NONE, "nt", 1.0f);
    v->act = rt_act(p, A, N, s->F, "act");
    rt_emit_swiglu_fwd(p, v->act, rt_view_cols(p, v->gu, 0, s->F), rt_view_cols(p, v->gu, s->F, s->F));
    rt_view down = rt_act(p, A, N, s->C, "down");
    rt_emit_matmul(p, down, v->act, b->param[RT_BLOCK_DOWN], RT_NONE, "nt", 1.0f);
    v->h2 = rt_act(p, A, N, s->C, "h2");
    v->nf = rt_act(p, A, N, s->C, "nf");
    rt_emit_add_rmsnorm_fwd(p, v->nf, v->h2, down, v->h, b->param[RT_BLOCK_NORMF], EPS);
}

/* Head and loss, one chunk of tokens at a time; with grad, dnf = and dhead += as well. Returns dnf. */
static rt_view head(rt_block *b, rt_plan *p, const saved *v, bool grad)
{
    const rt_block_shape *s = &b->shape;
    uint32_t N = s->B * s->T, n = N / s->chunks;
    rt_view dnf = grad ? rt_act(p, p->policy.act, N, s->C, "dnf") : RT_NONE;
    rt_kd_opts o = { .divergence = s->divergence,
                     .T = s->temperature,
                     .mix = s->mix,
                     .ce_weight = 0.3f,
                     .kd_weight = 0.7f,
                     .t2 = true,
                     .grad = grad };
    for (uint32_t i = 0; i < s->chunks; i++) {
        rt_plan_label(p, "head chunk %u", i);
        rt_view nf = rt_view_rows(p, v->nf, i * n, n), logits = rt_act(p, p->policy.logits, n, s->V, "logits");
        rt_emit_matmul(p, logits, nf, b->param[RT_BLOCK_HEAD], RT_NONE, "nt", 1.0f);
        rt_kd_io io = { .logits = logits,
                        .sums = b->sums,
                        .fault = b->fault,
                        .step = b->stepval,
                        .target = rt_view_rows(p, b->target, i * n, n),
                        .teacher = rt_view_rows(p, b->teacher, i * n, n) };
        rt_emit_kd_loss(p, &io, &o);
        if (!grad) continue;
        rt_emit_matmul(p, rt_view_rows(p, dnf, i * n, n), logits, b->param[RT_BLOCK_HEAD], RT_NONE, "nn", 1.0f); /* = */
        rt_emit_matmul(p, b->grad[RT_BLOCK_HEAD], logits, nf, RT_NONE, "tn", 1.0f); /* += from the second chunk on */
    }
    return dnf;
}

/* Returns dh (N,C): the gradient that reaches the residual stream between the two halves. */
static rt_view backward_mlp(rt_block *b, rt_plan *p, const saved *v, rt_view dnf)
{
    const rt_block_shape *s = &b->shape;
    uint32_t N = s->B * s->T;
    rt_dtype A = p->policy.act;
    rt_plan_label(p, "mlp backward");
    rt_view dh2 = rt_act(p, A, N, s->C, "dh2"), dact = rt_act(p, A, N, s->F, "dact");
    rt_emit_rmsnorm_bwd(p, dh2, b->grad[RT_BLOCK_NORMF], dnf, v->h2, b->param[RT_BLOCK_NORMF], 1, EPS); /* = */
    rt_emit_matmul(p, b->grad[RT_BLOCK_DOWN], dh2, v->act, RT_NONE, "tn", 1.0f);                        /* = */
    rt_emit_matmul(p, dact, dh2, b->param[RT_BLOCK_DOWN], RT_NONE, "nn", 1.0f);                         /* = */
    rt_view dgu = rt_act(p, A, N, 2 * s->F, "dgate_up");
    rt_emit_swiglu_bwd(p, rt_view_cols(p, dgu, 0, s->F), rt_view_cols(p, dgu, s->F, s->F), dact,
                       rt_view_cols(p, v->gu, 0, s->F), rt_view_cols(p, v->gu, s->F, s->F));
    rt_emit_matmul(p, b->grad[RT_BLOCK_GATE_UP], dgu, v->n2, RT_NONE, "tn", 1.0f); /* = */
    rt_view dn2 = rt_act(p, A, N, s->C, "dn2");
    rt_emit_matmul(p, dn2, dgu, b->param[RT_BLOCK_GATE_UP], RT_NONE, "nn", 1.0f); /* = */
    /* the residual path joins here, in place: dh2 becomes dh */
    rt_emit_add_rmsnorm_bwd(p, dh2, b->grad[RT_BLOCK_NORM2], dn2, v->h, b->param[RT_BLOCK_NORM2], dh2, EPS);
    return dh2;
}

static void backward_attention(rt_block *b, rt_plan *p, const saved *v, rt_view dh)
{
    const rt_block_shape *s = &b->shape;
    uint32_t N = s->B * s->T, qd = s->H * s->D, kd = s->K * s->D;
    rt_dtype A = p->policy.act;
    rt_attn_shape as = attn_shape(s);
    rt_plan_label(p, "attention backward");
    rt_emit_matmul(p, b->grad[RT_BLOCK_OUT], dh, v->o, RT_NONE, "tn", 1.0f); /* = */
    rt_view d_o = rt_act(p, A, N, qd, "do");
    rt_emit_matmul(p, d_o, dh, b->param[RT_BLOCK_OUT], RT_NONE, "nn", 1.0f); /* = */
    rt_view dqkv = rt_act(p, A, N, qd + 2 * kd, "dqkv");
    rt_view dq = rt_view_cols(p, dqkv, 0, qd), dk = rt_view_cols(p, dqkv, qd, kd),
            dv = rt_view_cols(p, dqkv, qd + kd, kd);
    rt_view dqr = s->qk_norm ? rt_act(p, A, N, qd, "dqr") : dq, dkr = s->qk_norm ? rt_act(p, A, N, kd, "dkr") : dk;
    rt_emit_attn_bwd(p, dqr, dkr, dv, d_o, v->qr, v->kr, v->v, v->o, v->lse, b->start, &as);
    rt_emit_rope_bwd(p, dqr, dqr, b->freq, b->pos, 1.0f);
    rt_emit_rope_bwd(p, dkr, dkr, b->freq, b->pos, 1.0f);
    if (s->qk_norm) {
        rt_emit_rmsnorm_bwd(p, dq, b->grad[RT_BLOCK_QNORM], dqr, v->q, b->param[RT_BLOCK_QNORM], s->H, EPS); /* = */
        rt_emit_rmsnorm_bwd(p, dk, b->grad[RT_BLOCK_KNORM], dkr, v->k, b->param[RT_BLOCK_KNORM], s->K, EPS); /* = */
    }
    if (s->bias) rt_emit_bias_grad(p, b->grad[RT_BLOCK_QKV_BIAS], dqkv);        /* = */
    rt_emit_matmul(p, b->grad[RT_BLOCK_QKV], dqkv, v->n1, RT_NONE, "tn", 1.0f); /* = */
    rt_view dn1 = rt_act(p, A, N, s->C, "dn1");
    rt_emit_matmul(p, dn1, dqkv, b->param[RT_BLOCK_QKV], RT_NONE, "nn", 1.0f);                                /* = */
    rt_emit_add_rmsnorm_bwd(p, b->dx, b->grad[RT_BLOCK_NORM1], dn1, b->x, b->param[RT_BLOCK_NORM1], dh, EPS); /* = */
}

static void record(rt_block *b, rt_plan *p, bool grad)
{
    saved v = { 0 };
    forward_attention(b, p, &v);
    forward_mlp(b, p, &v);
    rt_view dnf = head(b, p, &v, grad);
    if (grad) backward_attention(b, p, &v, backward_mlp(b, p, &v, dnf));
}

int rt_block_new(rt_block **out, const rt_block_shape *s, const rt_policy *policy, rt_err *e)
{
    int rc;
    rt_block *b = rt_alloc_zero(sizeof *b, 16);
    if (!b) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a block"));
    b->shape = *s;
    RT_TRY(rt_space_new(&b->space, e));
    declare_params(b, policy);
    declare_data(b, policy);
    RT_TRY(rt_plan_new(&b->step, b->space, "block step", policy, e));
    RT_TRY(rt_plan_new(&b->eval, b->space, "block evaluation", policy, e));
    record(b, b->step, true);
    record(b, b->eval, false);
    *out = b;
    b = NULL;
out:
    rt_block_free(b);
    return rc;
}

void rt_block_free(rt_block *b)
{
    if (!b) return;
    rt_plan_free(b->step);
    rt_plan_free(b->eval);
    rt_space_free(b->space);
    rt_free(b);
}
