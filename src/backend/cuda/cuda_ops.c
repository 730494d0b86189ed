/* cuda_ops.c - the table from op kind to its entry. An empty slot means that the op is not supported here. */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_op.h"

#define RT_CUDA_OP_LIST(X)                                                                                             \
    X(EMBED_FWD, embed_fwd)                                                                                            \
    X(EMBED_BWD, embed_bwd)                                                                                            \
    X(RMSNORM_FWD, rmsnorm_fwd)                                                                                        \
    X(RMSNORM_BWD, rmsnorm_bwd)                                                                                        \
    X(ADD_RMSNORM_FWD, add_rmsnorm_fwd)                                                                                \
    X(ADD_RMSNORM_BWD, add_rmsnorm_bwd)                                                                                \
    X(MATMUL, matmul)                                                                                                  \
    X(BIAS_GRAD, bias_grad)                                                                                            \
    X(ROPE_FWD, rope_fwd)                                                                                              \
    X(ROPE_BWD, rope_bwd)                                                                                              \
    X(ATTN_FWD, attn_fwd)                                                                                              \
    X(ATTN_BWD, attn_bwd)                                                                                              \
    X(ATTN_DECODE, attn_decode)                                                                                        \
    X(SWIGLU_FWD, swiglu_fwd)                                                                                          \
    X(SWIGLU_BWD, swiglu_bwd)                                                                                          \
    X(ADD, add)                                                                                                        \
    X(SCALE, scale)                                                                                                    \
    X(CAST, cast)                                                                                                      \
    X(COPY, copy)                                                                                                      \
    X(FILL, fill)                                                                                                      \
    X(DEQUANT, dequant)                                                                                                \
    X(KD_LOSS, kd_loss)                                                                                                \
    X(ADAMW, adamw)                                                                                                    \
    X(NORM_SQ, norm_sq)                                                                                                \
    X(CLIP, clip)                                                                                                      \
    X(TOPK, topk)                                                                                                      \
    X(SAMPLE, sample)

static const rt_cuda_op *const table[RT_OP_COUNT] = {
#define X(kind, name) [RT_OP_##kind] = &rt_cuda_##name,
    RT_CUDA_OP_LIST(X)
#undef X
};

const rt_cuda_op *rt_cuda_op_find(rt_op_kind kind) { return table[kind]; }
