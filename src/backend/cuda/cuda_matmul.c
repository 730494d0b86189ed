/* cuda_matmul.c - the op matmul: by cuBLASLt where it takes the operands, by kernels of ours where it does not.
 *
 * GEMMs are of operands of one dtype. A weight of another (quantised ones among them) is dequantised into the
 * activations' dtype first, and a bias that the library cannot add exactly is cast to the output's: `need` says so and
 * seal does it. Where no algorithm of the library adds a bias with one rounding, the bias is written into the output
 * first and the GEMM added to it. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_matmul_own.h"
#include "backend/cuda/cuda_op.h"

#include <stdio.h>

static uint32_t alignment(uint64_t offset) { return (uint32_t)((offset | 256) & -(offset | 256)); }

/* An operand as decisions see it. */
static rt_cuda_side of_view(const rt_plan *p, rt_view v)
{
    if (!v.buf) return (rt_cuda_side){ 0 };
    rt_dtype d = rt_plan_dtype(p, v);
    return (rt_cuda_side){ true, d, v.rows == 1 ? v.cols : v.stride, alignment(rt_dtype_bytes(d, v.off)) };
}

static int find(rt_cuda_dev *d, const rt_matmul_args *m, bool acc, bool bias, const rt_cuda_side s[4],
                rt_cuda_gemm **out, rt_err *e)
{
    rt_cuda_gemm_key k = { .M = m->M,
                           .N = m->N,
                           .K = m->K,
                           .ta = m->ta,
                           .tb = m->tb,
                           .acc = acc,
                           .type = s[RT_MM_A].dtype,
                           .out_type = s[RT_MM_OUT].dtype,
                           .bias_type = bias ? s[RT_MM_BIAS].dtype : RT_CUDA_NO_BIAS,
                           .align_a = s[RT_MM_A].align,
                           .align_b = s[RT_MM_B].align,
                           .align_out = s[RT_MM_OUT].align,
                           .align_bias = bias ? s[RT_MM_BIAS].align : 0,
                           .stride_a = s[RT_MM_A].stride,
                           .stride_b = s[RT_MM_B].stride,
                           .stride_out = s[RT_MM_OUT].stride };
    return rt_cuda_gemm_find(d, &k, out, e);
}

/* How a GEMM is done: by the library, or where gemm is null by kernels of ours. Decided in `need`, done in `emit`. */
typedef struct way {
    rt_cuda_gemm *gemm;
    bool bias_first; /* out = bias, then out += the GEMM */
    rt_cuda_own own;
} way;

/* Of the library's part. */
static int choose(rt_cuda_dev *d, const rt_matmul_args *m, bool acc, const rt_cuda_side s[4], way *w, rt_err *e)
{
    int rc = RT_OK;
    const rt_cuda_side *out = &s[RT_MM_OUT], *bias = &s[RT_MM_BIAS];
    bool same = bias->dtype == out->dtype;
    *w = (way){ 0 };
    if (!d->lt_handle) return RT_OK;
    if (!bias->there) return find(d, m, acc, false, s, &w->gemm, e);
    if (acc) return RT_OK;
    if (same) RT_TRY(find(d, m, false, true, s, &w->gemm, e));
    if (w->gemm || (!same && out->dtype != RT_DTYPE_F32)) return RT_OK;
    RT_TRY(find(d, m, true, false, s, &w->gemm, e));
    w->bias_first = true;
out:
    return rc;
}

static bool recast(rt_need *need, uint32_t slot, rt_dtype from, rt_dtype to, const char *why)
{
    need->recast = 1 + slot;
    need->recast_to = to;
    snprintf(need->why_not, sizeof need->why_not, "%s is %s; %s", rt_op_specs[RT_OP_MATMUL].slot[slot].name,
             rt_dtype_name(from), why);
    return false;
}

static bool need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    rt_cuda_dev *d = rt_cuda_dev_of(c);
    rt_cuda_side s[4];
    for (uint32_t i = 0; i < 4; i++) s[i] = of_view(p, op->slot[i]);
    rt_dtype a = s[RT_MM_A].dtype, b = s[RT_MM_B].dtype;
    if (a != b) return recast(need, RT_MM_B, b, a, "a GEMM takes operands of one dtype");
    bool acc = op->acc >> RT_MM_OUT & 1;
    way w;
    rt_err e = { 0 };
    need->failed = choose(d, &op->args.matmul, acc, s, &w, &e);
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
    rt_dtype out = s[RT_MM_OUT].dtype, bias = s[RT_MM_BIAS].dtype;
    if (d->lt_handle && s[RT_MM_BIAS].there && !acc && out != RT_DTYPE_F32 && bias != out)
        return recast(need, RT_MM_BIAS, bias, out, "it is added in the output's dtype");
    w.own = rt_cuda_own_choose(c, &op->args.matmul, s);
    need->work_bytes = w.own.work_bytes;
    need->kernel = w.own.text;
    CUDA_CHOOSE(need, w);
    return true;
}

static void emit(rt_cuda_builder *b, const rt_bound_op *op)
{
    way w;
    CUDA_CHOSEN(op, w);
    if (!w.gemm && !w.own.text) {
        rt_cuda_builder_fail(b, RT_INTERNAL, "nothing was decided about the GEMM before it was sealed");
        return;
    }
    if (!w.gemm) {
        rt_cuda_own_push(b, op, &w.own);
        return;
    }
    if (w.bias_first) rt_cuda_bias_push(b, op);
    rt_cuda_gemm_io io = { .a = rt_cuda_addr(&op->slot[RT_MM_A]),
                           .b = rt_cuda_addr(&op->slot[RT_MM_B]),
                           .out = rt_cuda_addr(&op->slot[RT_MM_OUT]),
                           .bias = rt_cuda_addr(&op->slot[RT_MM_BIAS]),
                           .work = rt_cuda_addr(&op->work),
                           .alpha = op->args.matmul.alpha };
    rt_cuda_push_gemm(b, w.gemm, &io);
}

const rt_cuda_op rt_cuda_matmul = { need, emit };
