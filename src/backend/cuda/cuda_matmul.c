/* cuda_matmul.c - the ops matmul and matmul_scaled: by cuBLASLt where it takes the operands, by kernels of ours where
 * it does not.
 *
 * GEMMs are of operands of one dtype. A weight of another (quantised ones among them) is dequantised into the
 * activations' dtype first, and a bias that the library cannot add exactly is cast to the output's: `need` says so and
 * seal does it. Where no algorithm of the library adds a bias with one rounding, the bias is written into the output
 * first and the GEMM added to it. Codes (matmul_scaled) are multiplied with a scale for each row of both operands. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_matmul_own.h"
#include "backend/cuda/cuda_op.h"

#include <stdio.h>

enum { SIDES = RT_MMS_BIAS + 1 };
/* Where an op has them. */
typedef struct places {
    uint32_t out, a, b, bias;
} places;

static places places_of(rt_op_kind kind)
{
    if (kind == RT_OP_MATMUL_SCALED) return (places){ RT_MMS_OUT, RT_MMS_A, RT_MMS_B, RT_MMS_BIAS };
    return (places){ RT_MM_OUT, RT_MM_A, RT_MM_B, RT_MM_BIAS };
}

/* A GEMM as decisions see it. */
typedef struct gemm {
    rt_op_kind kind;
    const rt_matmul_args *m;
    bool acc;
    places at;
    rt_cuda_side s[SIDES];
} gemm;

static uint32_t alignment(uint64_t offset) { return (uint32_t)((offset | 256) & -(offset | 256)); }

/* Sees the op before it is bound; offsets and strides are what they will be then. */
static gemm of_plan(const rt_plan *p, const rt_op *op)
{
    gemm g = { .kind = op->kind, .m = &op->args.matmul, .acc = op->acc & 1, .at = places_of(op->kind) };
    RT_FOR_SLOTS (i, op->kind) {
        rt_view v = op->slot[i];
        if (!v.buf) continue;
        rt_dtype d = rt_plan_dtype(p, v);
        g.s[i] = (rt_cuda_side){ true, d, v.rows == 1 ? v.cols : v.stride, alignment(rt_dtype_bytes(d, v.off)) };
    }
    return g;
}

static int find(rt_cuda_dev *d, const gemm *g, bool acc, bool bias, rt_cuda_gemm **out, rt_err *e)
{
    const rt_matmul_args *m = g->m;
    const rt_cuda_side *y = &g->s[g->at.out], *a = &g->s[g->at.a], *b = &g->s[g->at.b], *plus = &g->s[g->at.bias];
    rt_cuda_gemm_key k = { .M = m->M,
                           .N = m->N,
                           .K = m->K,
                           .ta = m->ta,
                           .tb = m->tb,
                           .acc = acc,
                           .type = a->dtype,
                           .out_type = y->dtype,
                           .bias_type = bias ? plus->dtype : RT_CUDA_NO_BIAS,
                           .align_a = a->align,
                           .align_b = b->align,
                           .align_out = y->align,
                           .align_bias = bias ? plus->align : 0,
                           .fast = d->fast_sums && a->dtype == RT_DTYPE_E4M3,
                           .stride_a = a->stride,
                           .stride_b = b->stride,
                           .stride_out = y->stride };
    return rt_cuda_gemm_find(d, &k, out, e);
}

/* Codes: what the library asks of their shape, and scales without gaps. */
static bool library_takes(const gemm *g)
{
    const rt_cuda_side *a = &g->s[g->at.a], *b = &g->s[g->at.b], *sa = &g->s[RT_MMS_SA], *sb = &g->s[RT_MMS_SB];
    if (g->kind == RT_OP_MATMUL) return true;
    return (g->m->K | g->m->N | a->stride | b->stride) % 16 == 0 && a->align >= 16 && b->align >= 16 &&
           sa->stride == 1 && sb->stride == 1 && sa->align >= 16 && sb->align >= 16;
}

/* How a GEMM is done: by kernels for few rows, by the library, or where gemm is null by the other kernels of ours.
 * Decided in `need`, done in `emit`. */
typedef struct way {
    rt_cuda_gemm *gemm;
    bool bias_first; /* out = bias, then out += the GEMM */
    bool few_rows;   /* by those, or */
    union {
        rt_cuda_few few;
        rt_cuda_own own;
    };
} way;

/* Of the library's part. */
static int choose(rt_cuda_dev *d, const gemm *g, way *w, rt_err *e)
{
    int rc = RT_OK;
    const rt_cuda_side *out = &g->s[g->at.out], *bias = &g->s[g->at.bias];
    bool same = bias->dtype == out->dtype;
    *w = (way){ 0 };
    if (!d->lt_handle || !library_takes(g)) return RT_OK;
    if (!bias->there) return find(d, g, g->acc, false, &w->gemm, e);
    if (g->acc) return RT_OK;
    if (same) RT_TRY(find(d, g, false, true, &w->gemm, e));
    if (w->gemm || (!same && out->dtype != RT_DTYPE_F32)) return RT_OK;
    RT_TRY(find(d, g, true, false, &w->gemm, e));
    w->bias_first = true;
out:
    return rc;
}

static bool recast(rt_need *need, rt_op_kind kind, uint32_t slot, rt_dtype from, rt_dtype to, const char *why)
{
    need->recast = 1 + slot;
    need->recast_to = to;
    snprintf(need->why_not, sizeof need->why_not, "%s is %s; %s", rt_op_specs[kind].slot[slot].name,
             rt_dtype_name(from), why);
    return false;
}

static bool need_few(const rt_cuda_caps *c, const rt_op *op, const gemm *g, rt_need *need)
{
    way w = { .few_rows = true, .few = rt_cuda_few_choose(c, &op->args.matmul, g->s) };
    if (!w.few.text) return false;
    need->kernel = w.few.text;
    need->work_bytes = w.few.work_bytes;
    CUDA_CHOOSE(need, w);
    return true;
}

static bool need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    rt_cuda_dev *d = rt_cuda_dev_of(c);
    gemm g = of_plan(p, op);
    rt_dtype a = g.s[g.at.a].dtype, b = g.s[g.at.b].dtype, out = g.s[g.at.out].dtype, bias = g.s[g.at.bias].dtype;
    if (op->kind == RT_OP_MATMUL && need_few(c, op, &g, need)) return true;
    if (a != b) return recast(need, op->kind, g.at.b, b, a, "a GEMM takes operands of one dtype");
    way w;
    rt_err e = { 0 };
    need->failed = choose(d, &g, &w, &e);
    if (need->failed < 0) {
        snprintf(need->why_not, sizeof need->why_not, "%.150s", e.text);
        return false;
    }
    if (w.gemm) {
        need->work_bytes = rt_cuda_gemm_work(w.gemm);
        need->kernel = rt_cuda_gemm_text(w.gemm);
        CUDA_CHOOSE(need, w);
        return true;
    }
    bool other = g.s[g.at.bias].there && !g.acc && out != RT_DTYPE_F32 && bias != out;
    if (d->lt_handle && library_takes(&g) && other)
        return recast(need, op->kind, g.at.bias, bias, out, "it is added in the output's dtype");
    if (op->kind == RT_OP_MATMUL_SCALED)
        w.own = (rt_cuda_own){ .text = RT_CUDA_OWN_SCALED, .plain = "codes that cuBLASLt does not take" };
    else
        w.own = rt_cuda_own_choose(c, &op->args.matmul, g.s);
    need->work_bytes = w.own.work_bytes;
    need->kernel = w.own.text;
    need->plain = w.own.plain;
    CUDA_CHOOSE(need, w);
    return true;
}

/* op and the GEMMs of few rows that follow it. */
static void push_few(rt_cuda_builder *b, const rt_bound_op *op)
{
    enum { MOST = 8 };
    rt_cuda_few few[MOST];
    uint32_t n = 0;
    for (; n < rt_cuda_neighbours(b) && n < MOST; n++) {
        way w;
        CUDA_CHOSEN(&op[n], w);
        if (!w.few_rows) break;
        few[n] = w.few;
    }
    rt_cuda_took(b, rt_cuda_few_push(b, op, few, n));
}

static void emit(rt_cuda_builder *b, const rt_bound_op *op)
{
    bool scaled = op->kind == RT_OP_MATMUL_SCALED;
    places at = places_of(op->kind);
    way w;
    CUDA_CHOSEN(op, w);
    if (w.few_rows) {
        push_few(b, op);
        return;
    }
    if (!w.gemm && !w.own.text) {
        rt_cuda_builder_fail(b, RT_INTERNAL, "nothing was decided about the GEMM before it was sealed");
        return;
    }
    if (!w.gemm) {
        if (scaled)
            rt_cuda_own_scaled_push(b, op);
        else
            rt_cuda_own_push(b, op, &w.own);
        return;
    }
    if (w.bias_first) rt_cuda_bias_push(b, &op->slot[at.out], &op->slot[at.bias]);
    rt_cuda_gemm_io io = { .a = rt_cuda_addr(&op->slot[at.a]),
                           .b = rt_cuda_addr(&op->slot[at.b]),
                           .out = rt_cuda_addr(&op->slot[at.out]),
                           .bias = rt_cuda_addr(&op->slot[at.bias]),
                           .work = rt_cuda_addr(&op->work),
                           .alpha = op->args.matmul.alpha,
                           .scale_a = scaled ? rt_cuda_addr(&op->slot[RT_MMS_SA]) : 0,
                           .scale_b = scaled ? rt_cuda_addr(&op->slot[RT_MMS_SB]) : 0 };
    rt_cuda_push_gemm(b, w.gemm, &io);
}

/* Never emitted. */
static bool need_int8(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    (void)c;
    (void)p;
    (void)op;
    snprintf(need->why_not, sizeof need->why_not, "int8 activations are computed on the CPU; give --device cpu");
    return false;
}

const rt_cuda_op rt_cuda_matmul_int8 = { need_int8, NULL };
const rt_cuda_op rt_cuda_matmul = { need, emit };
const rt_cuda_op rt_cuda_matmul_scaled = { need, emit };
