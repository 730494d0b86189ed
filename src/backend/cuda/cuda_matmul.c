/* cuda_matmul.c - the op matmul: by cuBLASLt where it takes the operands, by a kernel of ours where it does not.
 *
 * The library multiplies operands of one dtype. A weight of another (quantised ones among them) is expanded into the
 * activations' dtype first, and a bias that its epilogue does not take is cast to the output's: `need` says so and seal
 * does it. */
#include "backend/cuda/kernels/cuda_matmul.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_op.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

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

static rt_cuda_gemm *find(rt_cuda_dev *d, const rt_matmul_args *m, bool acc, const side s[4])
{
    rt_cuda_gemm_key k;
    memset(&k, 0, sizeof k);
    if (s[RT_MM_A].dtype != s[RT_MM_B].dtype) return NULL;
    k = (rt_cuda_gemm_key){ .M = m->M,
                            .N = m->N,
                            .K = m->K,
                            .ta = m->ta,
                            .tb = m->tb,
                            .acc = acc,
                            .type = s[RT_MM_A].dtype,
                            .out_type = s[RT_MM_OUT].dtype,
                            .bias_type = s[RT_MM_BIAS].there ? s[RT_MM_BIAS].dtype : RT_CUDA_NO_BIAS,
                            .align_a = s[RT_MM_A].align,
                            .align_b = s[RT_MM_B].align,
                            .align_out = s[RT_MM_OUT].align,
                            .align_bias = s[RT_MM_BIAS].align,
                            .stride_a = s[RT_MM_A].stride,
                            .stride_b = s[RT_MM_B].stride,
                            .stride_out = s[RT_MM_OUT].stride };
    return rt_cuda_gemm_find(d, &k);
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
    rt_cuda_gemm *g = find(d, &op->args.matmul, op->acc & 1u << RT_MM_OUT, s);
    if (g) {
        need->work_bytes = rt_cuda_gemm_work(g);
        need->kernel = rt_cuda_gemm_text(g);
        return true;
    }
    if (d->lt_handle && a != b) return recast(need, RT_MM_B, b, a, "cuBLASLt multiplies operands of one dtype");
    if (d->lt_handle && s[RT_MM_BIAS].there && s[RT_MM_BIAS].dtype != s[RT_MM_OUT].dtype)
        return recast(need, RT_MM_BIAS, s[RT_MM_BIAS].dtype, s[RT_MM_OUT].dtype,
                      "cuBLASLt adds a bias of the output's dtype");
    need->kernel = "matmul tiles 64x64";
    return true;
}

static uint32_t kernel_type(rt_dtype d)
{
    return d == RT_DTYPE_F32 ? RT_CUDA_F32 : d == RT_DTYPE_BF16 ? RT_CUDA_BF16 : RT_CUDA_F16;
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
    rt_cuda_gemm *g = find(rt_cuda_builder_dev(b), &op->args.matmul, op->acc & 1u << RT_MM_OUT, s);
    if (!g) {
        push_own(b, op);
        return;
    }
    rt_cuda_gemm_io io = { .a = rt_cuda_addr(&op->slot[RT_MM_A]),
                           .b = rt_cuda_addr(&op->slot[RT_MM_B]),
                           .out = rt_cuda_addr(&op->slot[RT_MM_OUT]),
                           .bias = rt_cuda_addr(&op->slot[RT_MM_BIAS]),
                           .work = rt_cuda_addr(&op->work),
                           .alpha = op->args.matmul.alpha };
    rt_cuda_push_gemm(b, g, &io);
}

const rt_cuda_op rt_cuda_matmul = { need, emit };
