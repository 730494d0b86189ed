/* block.h - a small decoder of the model room with its head and loss, recorded as a training step records them: what is
 * proven together here is what trains.
 *
 * Owns: the shapes, the two plans, the data they read, and the gradient check over them. The ops of forward and
 * backward are model/decoder.h's. Every token of the batch is another one, so a row of the embedding is the input of
 * one position and the row of its gradient is that input's: a dropped residual path passes the check of every other
 * parameter. */
#ifndef RT_VERIFY_BLOCK_H
#define RT_VERIFY_BLOCK_H

#include "model/decoder.h"
#include "verify/grad.h"

enum { RT_BLOCK_LAYERS = 4 }; /* at most */
typedef struct rt_block_shape {
    rt_model_config config; /* family, rope, norm_eps and context need not be set */
    uint32_t B, T;          /* B*T is at most the vocabulary */
    uint32_t chunk;         /* tokens of the head at a time; the last chunk may be shorter */
    bool documents;         /* the second half of each row is another document */
    rt_recompute recompute[RT_BLOCK_LAYERS];
    rt_lora lora; /* with adapters the model's own parameters are differenced too */
    rt_divergence divergence;
    float temperature, mix;
    double h; /* of the differences; 0: that of grad.h. Adapters multiply weights, so higher derivatives are larger */
} rt_block_shape;
#define RT_BLOCK_DIMS(L, C, H, K, D, F, V)                                                                             \
    .layers = (L), .width = (C), .heads = (H), .kv_heads = (K), .head_dim = (D), .hidden = (F), .vocab = (V)

/* The shapes whose gradients are checked; null past the last. */
const rt_block_shape *rt_block_gradient_shape(uint32_t index);

enum { RT_BLOCK_INPUTS = 8 };
typedef struct rt_block {
    rt_block_shape shape;
    rt_space *space;
    rt_decoder *decoder;
    rt_plan *step; /* forward, loss, backward */
    rt_plan *eval; /* forward and loss alone */
    rt_tokens tokens;
    rt_view target, teacher, stepval, fault;
    rt_view each[3];                     /* (N,1): CE, D and top-1 agreement of every position */
    rt_view sums;                        /* (1,4): their sums, and the number of trained positions */
    rt_grad_data input[RT_BLOCK_INPUTS]; /* all that the plans read besides parameters, with its values */
    uint32_t inputs;
    double weights[4]; /* of the sums in the loss */
    rt_arena arena;
} rt_block;

/* Recording errors are in the plans; rt_exec_seal reports them. */
int rt_block_new(rt_block **out, const rt_block_shape *s, const rt_policy *policy, rt_err *e);
void rt_block_free(rt_block *b); /* accepts null */
/* Writes everything that the block's two plans read; parameters are random, rounded once to the stored dtype. */
int rt_block_fill(rt_exec *x, const rt_block *b, rt_err *e);
/* Every parameter against central differences, in double; samples as in grad.h. */
int rt_block_gradient_check(rt_dev *ref_double, const rt_block_shape *s, uint32_t samples, rt_grad_report *report,
                            rt_err *e);

#endif
