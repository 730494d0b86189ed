/* cuda_ops.c - the table from op kind to its entry. No slot is empty. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_op.h"

static const rt_cuda_op *const table[RT_OP_COUNT] = {
#define X(kind, name, args, text) [RT_OP_##kind] = &rt_cuda_##name,
    RT_OP_LIST(X)
#undef X
};

const rt_cuda_op *rt_cuda_op_find(rt_op_kind kind) { return table[kind]; }
