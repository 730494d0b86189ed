/* cuda_matmul.c - the op matmul: by cuBLASLt where it takes the operands, by a kernel of ours where it does not.
 *
 * The library multiplies operands of one dtype. A weight of another (quantised ones among them) is expanded into the
 * activations' dtype first, and a bias that cannot be added exactly is cast to the output's: `need` says so and seal
 * does it. Where no algorithm of the library adds a bias with one rounding, the bias is written into the output first
 * and the product added to it. */
#include "backend/cuda/kernels/cuda_matmul.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_op.h"

#include <limits.h>
#include <stdio.h>

/* What `need` sees of an operand in a plan, and `emit` in a program. */
typedef struct side {
    bool there;
    rt_dtype dtype;
    uint64_t stride;
    uint32_t align; /* bytes, at most 256: every buffer begins at a multiple of that */
} side;

static uint32_t alignment(uint64_t offset) { return (uint32_t)((offset | 256) & -(offset | 256)); }

static side of_view(const rt_plan *p, rt_view v)
{
    if (!v.buf) return (side){ 0 };
    rt_dtype d = rt_plan_dtype(p, v);
    return (side){ true, d, v.rows == 1 ? v.cols : v.stride, alignment(rt_dtype_bytes(d, v.off)) };
}

static side of_operand(const rt_operand *o)
{
    if (!o->mem) return (side){ 0 };
    return (side){ true, o->dtype, o->stride, alignment(o->off) };
}

static bool plain(rt_dtype d) { return d == RT_DTYPE_F32 || d == RT_DTYPE_BF16 || d == RT_DTYPE_F16; }

static int find(rt_cuda_dev *d, const rt_matmul_args *m, bool acc, bool bias, const side s[4], rt_cuda_gemm **out,
                rt_err *e)
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

/* How a product is done; gemm null: by our own kernel, which takes everything. */
typedef struct way {
    rt_cuda_gemm *gemm;
    bool bias_first; /* out = bias, then out += product */
} way;

static int choose(rt_cuda_dev *d, const rt_matmul_args *m, bool acc, const side s[4], way *w, rt_err *e)
{
    int rc = RT_OK;
    const side *out = &s[RT_MM_OUT], *bias = &s[RT_MM_BIAS];
    bool same = bias->dtype == out->dtype;
    *w = (way){ 0 };
    if (!d->lt_handle || s[RT_MM_A].dtype != s[RT_MM_B].dtype) return RT_OK;
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
    side s[4];
    for (uint32_t i = 0; i < 4; i++) s[i] = of_view(p, op->slot[i]);
    rt_dtype a = s[RT_MM_A].dtype, b = s[RT_MM_B].dtype;
    if (!plain(b)) return recast(need, RT_MM_B, b, a, "products are of plain numbers");
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
        return true;
    }
    rt_dtype out = s[RT_MM_OUT].dtype, bias = s[RT_MM_BIAS].dtype;
    if (d->lt_handle && a != b) return recast(need, RT_MM_B, b, a, "cuBLASLt multiplies operands of one dtype");
    if (d->lt_handle && s[RT_MM_BIAS].there && !acc && out != RT_DTYPE_F32 && bias != out)
        return recast(need, RT_MM_BIAS, bias, out, "it is added in the output's dtype");
    need->kernel = "matmul tiles 64x64";
    return true;
}

static uint32_t kernel_type(rt_dtype d)
{
    return d == RT_DTYPE_F32 ? RT_CUDA_F32 : d == RT_DTYPE_BF16 ? RT_CUDA_BF16 : RT_CUDA_F16;
}

static uint32_t blocks_for(uint64_t elements)
{
    uint64_t n = (elements + RT_MATMUL_THREADS - 1) / RT_MATMUL_THREADS;
    return n < 65536 ? (uint32_t)n : 65536; /* each walks on by the whole grid */
}

static void push_bias(rt_cuda_builder *b, const rt_bound_op *op)
{
    const rt_operand *out = &op->slot[RT_MM_OUT], *bias = &op->slot[RT_MM_BIAS];
    rt_cuda_bias_params p = { .out = rt_cuda_addr(out),
                              .bias = rt_cuda_addr(bias),
                              .out_row = out->stride,
                              .M = op->args.matmul.M,
                              .N = op->args.matmul.N,
                              .out_type = kernel_type(out->dtype),
                              .bias_type = kernel_type(bias->dtype) };
    rt_cuda_push(b, "cuda_matmul", "rt_matmul_bias", (uint32_t[]){ blocks_for((uint64_t)p.M * p.N), 1, 1 },
                 RT_MATMUL_THREADS, 0, &p, sizeof p);
}

static void push_own(rt_cuda_builder *b, const rt_bound_op *op)
{
    const rt_matmul_args *m = &op->args.matmul;
    const rt_operand *out = &op->slot[RT_MM_OUT], *x = &op->slot[RT_MM_A], *w = &op->slot[RT_MM_B],
                     *bias = &op->slot[RT_MM_BIAS];
    uint64_t tiles_m = (m->M + RT_MATMUL_TILE - 1ull) / RT_MATMUL_TILE;
    uint64_t tiles_n = (m->N + RT_MATMUL_TILE - 1ull) / RT_MATMUL_TILE;
    if (tiles_m * tiles_n > INT_MAX) {
        rt_cuda_builder_fail(b, RT_UNSUPPORTED, "the product has more tiles than a launch has blocks");
        return;
    }
    rt_cuda_matmul_params p = { .a = rt_cuda_addr(x),
                                .b = rt_cuda_addr(w),
                                .bias = rt_cuda_addr(bias),
                                .out = rt_cuda_addr(out),
                                .a_row = m->ta ? 1 : x->stride,
                                .a_col = m->ta ? x->stride : 1,
                                .b_row = m->tb ? 1 : w->stride,
                                .b_col = m->tb ? w->stride : 1,
                                .out_row = out->stride,
                                .M = m->M,
                                .N = m->N,
                                .K = m->K,
                                .acc = op->acc >> RT_MM_OUT & 1u,
                                .a_type = kernel_type(x->dtype),
                                .b_type = kernel_type(w->dtype),
                                .bias_type = kernel_type(bias->dtype),
                                .out_type = kernel_type(out->dtype),
                                .tiles_n = (uint32_t)tiles_n,
                                .alpha = m->alpha };
    rt_cuda_push(b, "cuda_matmul", "rt_matmul_tiles", (uint32_t[]){ (uint32_t)(tiles_m * tiles_n), 1, 1 },
                 RT_MATMUL_THREADS, 0, &p, sizeof p);
}

static void emit(rt_cuda_builder *b, const rt_bound_op *op)
{
    side s[4];
    for (uint32_t i = 0; i < 4; i++) s[i] = of_operand(&op->slot[i]);
    way w;
    rt_err e = { 0 };
    int rc = choose(rt_cuda_builder_dev(b), &op->args.matmul, op->acc >> RT_MM_OUT & 1, s, &w, &e);
    if (rc < 0) {
        rt_cuda_builder_fail(b, rc, e.text);
        return;
    }
    if (!w.gemm) {
        push_own(b, op);
        return;
    }
    if (w.bias_first) push_bias(b, op);
    rt_cuda_gemm_io io = { .a = rt_cuda_addr(&op->slot[RT_MM_A]),
                           .b = rt_cuda_addr(&op->slot[RT_MM_B]),
                           .out = rt_cuda_addr(&op->slot[RT_MM_OUT]),
                           .bias = rt_cuda_addr(&op->slot[RT_MM_BIAS]),
                           .work = rt_cuda_addr(&op->work),
                           .alpha = op->args.matmul.alpha };
    rt_cuda_push_gemm(b, w.gemm, &io);
}

const rt_cuda_op rt_cuda_matmul = { need, emit };
