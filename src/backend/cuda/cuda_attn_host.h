/* cuda_attn_host.h - what the host sides of the attention ops share: which kernels an op may use, and its operands.
 *
 * The tensor-core kernels want sm_80, 16-bit operands that begin and step on 16-byte boundaries, and heads that are not
 * too narrow: below 32 columns most of a tile would be zeros, and verify's limits leave no room for weights of 17 bits.
 * Everything else is for the plain kernels. */
#ifndef RT_BACKEND_CUDA_CUDA_ATTN_HOST_H
#define RT_BACKEND_CUDA_CUDA_ATTN_HOST_H

#include "backend/cuda/cuda_launch.h"
#include "backend/cuda/kernels/cuda_attn.h"
#include "base/mem.h"

#include <stdio.h>

enum { RT_CUDA_ATTN_NARROW = 32, RT_CUDA_ATTN_ALIGN = 8 }; /* columns; elements of 16 bits */
#define RT_CUDA_LOG2E 0x1.715476p+0f

/* Width of the tensor-core kernels that take heads of D columns; 0: none does. A negative scale would turn the largest
 * product into the smallest score. */
static inline uint32_t rt_cuda_attn_width(const rt_cuda_caps *c, uint32_t D, float scale)
{
    if (c->sm < 80 || D < RT_CUDA_ATTN_NARROW || !(scale > 0)) return 0;
    return D <= 64 ? 64 : D <= 96 ? 96 : D <= 128 ? 128 : 256;
}

/* Why no tensor-core kernel takes an op of these operands; null for f32, which none is for. takes: it has one for their
 * type. */
static inline const char *rt_cuda_attn_plain_why(const rt_cuda_caps *c, rt_dtype d, uint32_t D, float scale,
                                                 bool aligned, bool takes)
{
    if (d != RT_DTYPE_BF16 && d != RT_DTYPE_F16) return NULL;
    if (c->sm < 80) return "kernels for GPUs before sm_80";
    if (D < RT_CUDA_ATTN_NARROW) return "heads of fewer than 32 columns";
    if (!aligned) return "views that are not on 16-byte boundaries";
    if (!takes) return "f16 backward";
    if (!(scale > 0)) return "a scale that is not above 0";
    return "the GPU has too little shared memory for their tiles";
}

/* Do kernels of Hopper take heads of D columns that are as wide as their tiles? They are in its machine code alone, and
 * have no zeros behind D. */
static inline bool rt_cuda_attn_hopper(const rt_cuda_caps *c, uint32_t D, uint32_t width)
{
    return c->sm == 90 && !c->ptx && c->maps && D == width;
}

/* Bytes of shared memory of so many rows of tiles of a tensor-core kernel. */
static inline uint32_t rt_cuda_attn_rows_bytes(uint32_t rows, uint32_t width)
{
    return rows * (width + RT_CUDA_ATTN_PAD) * 2;
}

/* Of the plain kernels: two slices and so many tiles of weights. */
static inline uint32_t rt_cuda_attn_plain_bytes(uint32_t weights)
{
    const uint32_t slice = RT_CUDA_ATTN_PLAIN_SLICE + RT_CUDA_ATTN_PLAIN_PAD;
    const uint32_t tile = RT_CUDA_ATTN_PLAIN_TILE + RT_CUDA_ATTN_PLAIN_PAD;
    return 4 * RT_CUDA_ATTN_PLAIN_TILE * (2 * slice + weights * tile);
}

/* Do the views of the slots in `mask` begin and step on 16-byte boundaries? Buffers begin on wider
 * ones. */
static inline bool rt_cuda_attn_views_aligned(const rt_op *op, uint32_t mask)
{
    for (uint32_t i = 0; i < RT_MAX_SLOTS; i++)
        if (mask >> i & 1 && (op->slot[i].off % RT_CUDA_ATTN_ALIGN || op->slot[i].stride % RT_CUDA_ATTN_ALIGN))
            return false;
    return true;
}

/* The same of operands, which have addresses. */
static inline bool rt_cuda_attn_aligned(const rt_bound_op *op, uint32_t mask)
{
    for (uint32_t i = 0; i < op->nslots; i++)
        if (mask >> i & 1 && (rt_cuda_addr(&op->slot[i]) % 16 || op->slot[i].stride % RT_CUDA_ATTN_ALIGN)) return false;
    return true;
}

static inline uint32_t rt_cuda_attn_dtype(rt_dtype d)
{
    return d == RT_DTYPE_F32 ? RT_CUDA_ATTN_F32 : d == RT_DTYPE_BF16 ? RT_CUDA_ATTN_BF16 : RT_CUDA_ATTN_F16;
}

static inline rt_cuda_attn_mat rt_cuda_attn_mat_of(const rt_operand *o)
{
    return (rt_cuda_attn_mat){ rt_cuda_addr(o), o->stride };
}

/* Heads that lie side by side in an operand of B times T rows, for the copy engine. */
static inline rt_cuda_tensor_map rt_cuda_attn_map(rt_cuda_builder *b, const rt_operand *o, const rt_attn_args *a,
                                                  uint32_t heads)
{
    rt_cuda_tensor_map m = { { 0 } };
    rt_cuda_panel_map(b, &m, rt_cuda_addr(o), o->stride, heads * a->D, a->T, a->B);
    return m;
}

/* What no kernel takes: f64, and more rows or blocks than they count. false: need->why_not says so. */
static inline bool rt_cuda_attn_counts(rt_dtype d, uint64_t positions, uint64_t blocks, rt_need *need)
{
    if (d == RT_DTYPE_F64)
        snprintf(need->why_not, sizeof need->why_not, "f64 is for backend ref alone");
    else if (positions > INT32_MAX / 2)
        snprintf(need->why_not, sizeof need->why_not, "%llu positions in a row; at most %d",
                 (unsigned long long)positions, INT32_MAX / 2);
    else if (blocks > INT32_MAX)
        snprintf(need->why_not, sizeof need->why_not, "%llu blocks in one launch; at most %d",
                 (unsigned long long)blocks, INT32_MAX);
    else
        return true;
    return false;
}

static inline void rt_cuda_attn_push(rt_cuda_builder *b, const char *module, const char *kernel, uint64_t blocks,
                                     uint32_t threads, uint32_t shared, const void *params, uint32_t bytes)
{
    const uint32_t grid[3] = { (uint32_t)blocks, 1, 1 };
    rt_cuda_push(b, module, kernel, grid, threads, shared, params, bytes);
}

#endif
