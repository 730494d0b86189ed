/* cuda_ops.c - the table from op kind to its entry. An empty slot means that the op is not supported here. */
#include "backend/cuda/cuda_internal.h"

#define RT_CUDA_OP_LIST(X) X(MATMUL, matmul)

#define X(kind, name) extern const rt_cuda_op rt_cuda_##name;
RT_CUDA_OP_LIST(X)
#undef X

static const rt_cuda_op *const table[RT_OP_COUNT] = {
#define X(kind, name) [RT_OP_##kind] = &rt_cuda_##name,
    RT_CUDA_OP_LIST(X)
#undef X
};

const rt_cuda_op *rt_cuda_op_find(rt_op_kind kind) { return table[kind]; }
