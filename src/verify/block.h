/* block.h - one decoder block with its head and loss, forward and backward recorded by hand: the smallest plan that has
 * every kind of path a model has (residuals, grouped heads, packed projections, a chunked head).
 *
 * Owns: the buffers and the two plans. The gradient cases difference it in double, the thread cases run it on a
 * backend, and the executor's tests seal it. It is not the model room's decoder: it exists to prove the ops together.
 */
#ifndef RT_VERIFY_BLOCK_H
#define RT_VERIFY_BLOCK_H

#include "op/emit.h"

typedef struct rt_block_shape {
    uint32_t B, T, C, H, K, D, F, V;
    uint32_t chunks; /* of tokens in the head: B*T must be a multiple */
    uint32_t window; /* 0: none */
    bool bias, qk_norm, documents;
    rt_divergence divergence;
    float temperature, mix;
} rt_block_shape;

/* Parameters, each with a gradient; a null shape column means "absent in this shape". */
#define RT_BLOCK_PARAM_LIST(X)                                                                                         \
    X(NORM1, "norm1")                                                                                                  \
    X(QKV, "w_qkv")                                                                                                    \
    X(QKV_BIAS, "b_qkv")                                                                                               \
    X(QNORM, "q_norm")                                                                                                 \
    X(KNORM, "k_norm")                                                                                                 \
    X(OUT, "w_out")                                                                                                    \
    X(NORM2, "norm2")                                                                                                  \
    X(GATE_UP, "w_gate_up")                                                                                            \
    X(DOWN, "w_down")                                                                                                  \
    X(NORMF, "norm_final")                                                                                             \
    X(HEAD, "w_head")
enum {
#define X(id, name) RT_BLOCK_##id,
    RT_BLOCK_PARAM_LIST(X)
#undef X
        RT_BLOCK_PARAMS
};

typedef struct rt_block {
    rt_block_shape shape;
    rt_space *space;
    rt_plan *step;                                         /* forward, loss, backward */
    rt_plan *eval;                                         /* forward and loss alone */
    rt_view param[RT_BLOCK_PARAMS], grad[RT_BLOCK_PARAMS]; /* RT_NONE where absent */
    rt_view x, dx;                                         /* (B*T,C): the block's input and its gradient */
    rt_view freq, pos, start, target, teacher, stepval, fault, sums;
} rt_block;

/* Recording errors are in the plans; rt_exec_seal reports them. */
int rt_block_new(rt_block **out, const rt_block_shape *s, const rt_policy *policy, rt_err *e);
void rt_block_free(rt_block *b); /* accepts null */
/* "w_qkv" */
const char *rt_block_param_name(int i);

#endif
