/* cuda_matmul_own.h - GEMMs by our own kernels: which of them, how the work is cut, the launches.
 *
 * Owns: the decision, from operands as they are before they are bound, and what is launched then. Leaves to
 * cuda_matmul.c: whether the library does it instead. */
#ifndef RT_BACKEND_CUDA_MATMUL_OWN_H
#define RT_BACKEND_CUDA_MATMUL_OWN_H

#include "backend/cuda/cuda_launch.h"

/* An operand as decisions see it. */
typedef struct rt_cuda_side {
    bool there;
    rt_dtype dtype;
    uint64_t stride;
    uint32_t align; /* bytes, at most 256: every buffer begins at a multiple of that */
} rt_cuda_side;

typedef struct rt_cuda_own {
    const char *text, *plain;         /* for the plan printer; why tensor cores do not do it, null: they do, or f32 */
    uint32_t stages;                  /* on tensor cores: steps in shared memory; 0: on ordinary cores */
    uint32_t tile_m, tile_n;          /* elements */
    uint32_t tiles_m, tiles_n, whole; /* tiles of out; those that are a block each */
    uint32_t parts, part_K;           /* of the others: blocks of each */
    uint64_t blocks, work_bytes;      /* work: sums of the parts */
} rt_cuda_own;

/* s: (4) by slot; a and b of one dtype. Never refuses. */
rt_cuda_own rt_cuda_own_choose(const rt_cuda_caps *c, const rt_matmul_args *m, const rt_cuda_side *s);
void rt_cuda_own_push(rt_cuda_builder *b, const rt_bound_op *op, const rt_cuda_own *own);
/* GEMMs of few rows (cuda_matmul_few.c): weights are read as they are stored. */
typedef struct rt_cuda_few {
    const char *text; /* for the plan printer; null: it is no such GEMM */
    uint32_t split;   /* of K */
    uint64_t work_bytes;
} rt_cuda_few;
/* s: (4) by slot, of any dtypes. */
rt_cuda_few rt_cuda_few_choose(const rt_cuda_caps *c, const rt_matmul_args *m, const rt_cuda_side *s);
/* The first of n neighbours, which are such GEMMs, and those after it that one launch takes with it; few: (n) what was
 * chosen of each. Returns how many. */
uint32_t rt_cuda_few_push(rt_cuda_builder *b, const rt_bound_op *ops, const rt_cuda_few *few, uint32_t n);
/* The one kernel for codes, which takes any operands (matmul_scaled). */
#define RT_CUDA_OWN_SCALED "own tiles 64x64 of e4m3"
void rt_cuda_own_scaled_push(rt_cuda_builder *b, const rt_bound_op *op);
/* out = bias in every row. */
void rt_cuda_bias_push(rt_cuda_builder *b, const rt_operand *out, const rt_operand *bias);

#endif
