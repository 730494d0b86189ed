/* op.h - the list of ops, and what each says about its operands.
 *
 * Owns: the one X-macro of ops, the slots of each (name, access, dtype rule), arithmetic cost. A slot is one operand.
 * Slots are numbered in the order written here, outputs first; backends index operands by these numbers. What an op
 * computes is defined by `backend/ref`. */
#ifndef RT_OP_OP_H
#define RT_OP_OP_H

#include "num/dtype.h"
#include "op/args.h"

#include <stdbool.h>

/* How an op touches an operand. */
typedef enum rt_access {
    RT_READ,
    RT_WRITE,        /* every element, never read */
    RT_READ_WRITE,   /* in place */
    RT_ACCUM,        /* `=` or `+=`: the recorder decides (op->acc bit) */
    RT_ACCUM_SPARSE, /* `+=` into some rows: what was not written before is filled with 0 first */
    RT_WRITE_SPARSE  /* some rows are overwritten: the rest must be defined */
} rt_access;

/* Which dtypes a slot takes. F64 is legal only when every float slot of the op is F64. */
typedef enum rt_dtype_rule {
    RT_RULE_ACT,    /* A: f32, bf16 or f16; all A slots of an op agree */
    RT_RULE_CODED,  /* E: the op's A, or e4m3 codes */
    RT_RULE_FLOAT,  /* F: f32, bf16 or f16, on its own */
    RT_RULE_WEIGHT, /* W: a float on its own, or a quantised type */
    RT_RULE_GRAD,   /* G: f32, or the op's A */
    RT_RULE_F32,    /* f32 */
    RT_RULE_MOMENT, /* f32, bf16 or u8 codes; all such slots agree */
    RT_RULE_I32,
    RT_RULE_U32,
    RT_RULE_U8,
    RT_RULE_STEP,  /* u8: an rt_step */
    RT_RULE_QUANT, /* a quantised type */
    RT_RULE_Q8_0,
    RT_RULE_INT8, /* a quantised type that rt_int8_takes */
    RT_RULE_E4M3,
    RT_RULE_ANY /* anything; all such slots agree */
} rt_dtype_rule;

enum { RT_MAX_SLOTS = 14 };

/* kind, name, args member, one-line definition. Slots are in op_spec.c and, for reading, after each line here:
 * output slots first; [x] optional; += marks ACCUM. An op whose y is E makes what a GEMM reads, as A or at once as
 * codes: y and [scale] (N,1) f32 are then what quant_rows makes of the A that y would be, to the bit. */
#define RT_OP_LIST(X)                                                                                                  \
    /* y (N,C) A; table (V,C) W; ids (N,1) i32. An id outside [0,V) gives a row of NaN. */                             \
    X(EMBED_FWD, embed_fwd, embed, "y[i] = table[ids[i]]")                                                             \
    /* dtable (V,C) G += sparse; dy (N,C) A; ids (N,1). Ids outside [0,V) are skipped. Summed in order of i. */        \
    X(EMBED_BWD, embed_bwd, embed, "dtable[ids[i]] += dy[i]")                                                          \
    /* y (N,H*D) E; [scale], where H is 1; x (N,H*D) A; w (1,D) F. y may be x. */                                      \
    X(RMSNORM_FWD, rmsnorm_fwd, rmsnorm, "y = x / sqrt(mean(x^2) + eps) * w")                                          \
    /* dx (N,H*D) A +=; [dw] (1,D) G +=; dy A; x A; w F */                                                             \
    X(RMSNORM_BWD, rmsnorm_bwd, rmsnorm, "dx, dw of rmsnorm_fwd from dy and x")                                        \
    /* y E; [scale]; h A; x A; res A; w F. h may be x or res in place. */                                              \
    X(ADD_RMSNORM_FWD, add_rmsnorm_fwd, rmsnorm, "h = x + res; y = rmsnorm(h) * w")                                    \
    /* dx A +=; [dw] G +=; dy A; h A; w F; dres A (gradient that reaches h from elsewhere). dx may be dres in place.   \
     */                                                                                                                \
    X(ADD_RMSNORM_BWD, add_rmsnorm_bwd, rmsnorm, "dx = dres + (dx of rmsnorm_bwd); dw")                                \
    /* out (M,N) G +=; a (M,K) or (K,M) A; b (K,N) or (N,K) W; [bias] (1,N) F */                                       \
    X(MATMUL, matmul, matmul, "out = alpha op(a) op(b) + bias")                                                        \
    /* db (1,C) G +=; dy (N,C) A */                                                                                    \
    X(BIAS_GRAD, bias_grad, rows, "db = sum over rows of dy")                                                          \
    /* y (N,H*D) A; x A; freq (1,D/2) f32; pos (N,1) i32. y may be x. Half-split: pair (j, j + D/2). */                \
    X(ROPE_FWD, rope_fwd, rope, "rotate pairs by pos*freq, times scale")                                               \
    /* dx A; dy A; freq; pos. dx may be dy. */                                                                         \
    X(ROPE_BWD, rope_bwd, rope, "rotate pairs by -pos*freq, times scale")                                              \
    /* o (B*T,H*D) A; lse (B*T,H) f32; q (B*T,H*D) A; k, v (B*T,K*D) A; [start] (B*T,1) i32: for each position the     \
     * first position, within its row of T, of its document; never decreasing along a row */                           \
    X(ATTN_FWD, attn_fwd, attn, "o = softmax(scale q k') v, causal, by document")                                      \
    /* dq, dk, dv A; do A; q, k, v, o A; lse f32; [start] */                                                           \
    X(ATTN_BWD, attn_bwd, attn, "dq, dk, dv of attn_fwd")                                                              \
    /* o (B*Q,H*D) A; q (B*Q,H*D) A; kc, vc (B*S,K*D) A; len (B,1) i32: rows of cache in use, the Q new ones last.     \
     * A row with len < Q or len > S gives NaN. [table] (B,S/page) i32: row j of a sequence is row j % page of page    \
     * table[j / page] of kc and vc, which have any whole number of pages; those in use have to be there. */           \
    X(ATTN_DECODE, attn_decode, decode, "attention of the newest Q tokens over the cache")                             \
    /* y (N,F) E; [scale]; g A; u A. y may be g or u. */                                                               \
    X(SWIGLU_FWD, swiglu_fwd, swiglu, "y = g sigmoid(g) u")                                                            \
    /* dg A; du A; [y] A: what swiglu_fwd gives, to the bit; dy A; g A; u A. dg may be g, du may be u, y may be dy. */ \
    X(SWIGLU_BWD, swiglu_bwd, swiglu, "dg, du of swiglu_fwd, and y again")                                             \
    /* y (N,C) A; a A; b A. y may be a or b. */                                                                        \
    X(ADD, add, rows, "y = a + b")                                                                                     \
    /* y A; x A; [s] (1,1) f32. y may be x. */                                                                         \
    X(SCALE, scale, rows, "y = alpha s x")                                                                             \
    /* y F; x F */                                                                                                     \
    X(CAST, cast, rows, "y = x in another dtype")                                                                      \
    /* y any; x any, same dtype; [rows] (N,1) i32: y[rows[i]] = x[i], last one wins, outside [0,R) skipped */          \
    X(COPY, copy, rows, "y = x, or y[rows[i]] = x[i]")                                                                 \
    /* y F */                                                                                                          \
    X(FILL, fill, rows, "y = alpha")                                                                                   \
    /* y F; x quantised */                                                                                             \
    X(DEQUANT, dequant, rows, "y = values of the blocks x")                                                            \
    /* y quantised; x F */                                                                                             \
    X(QUANT, quant, rows, "y = blocks for the values x")                                                               \
    /* logits (N,V) A in place; sums (1,4) f32 +=: CE, D, top-1 agreements, trained positions; [ce] [div] [top1]       \
     * (N,1) f32; fault (1,4) u32; target (N,1) i32, negative: masked; step; [teacher] (N,U) F; [tk_id] (N,k) i32,     \
     * [tk_logp] (N,k) f32, [tk_rest] (N,1) f32; [vmask] (1,ceil(V/32)) u32: bit v set when id v is in Vc. Without a   \
     * teacher div and top1 are 0. */                                                                                  \
    X(KD_LOSS, kd_loss, kd, "loss of section 5 of the design; logits become their gradient")                           \
    /* param F in place; [master] f32; m, v f32, bf16 or u8; [exps] (N, 2 for each 128 of C) u8, with u8 moments alone \
     * (num/moment.h); grad F; step; [gscale] (1,1) f32; [fault]: nothing is done once set */                          \
    X(ADAMW, adamw, adamw, "AdamW with decoupled decay and bias correction")                                           \
    /* out (1,1) f32 +=; x F; [fault]; [step] (given together) */                                                      \
    X(NORM_SQ, norm_sq, rows, "out = sum of x^2")                                                                      \
    /* scale (1,1) f32; norm (1,1) f32; nsq (1,1) f32; [fault]; [step] (given together) */                             \
    X(CLIP, clip, clip, "norm = sqrt(nsq); scale = min(1, max_norm / (norm + 1e-6))")                                  \
    /* id (N,k) i32; logp (N,k) f32; rest (N,1) f32; x (N,V) A; [vmask]. Descending, ties by lower id. */              \
    X(TOPK, topk, topk, "the k most likely ids at temperature T over Vc, and the mass left")                           \
    /* id (N,1) i32; [logp] (N,1) f32: of id at temperature 1, whatever how says; [seen] (N,ceil(V/32)) u32: bit v set \
     * for the ids that the penalty is for, and for id afterwards; x (N,V) A; key (N,2) u32: the place of the row's    \
     * random number; how (N,5) f32: see args.h */                                                                     \
    X(SAMPLE, sample, sample, "one id per row: penalty, top-k, temperature, top-p, min-p")                             \
    /* y (N,C) A +=; x (N,C) A; step. Which elements are kept: args.h. */                                              \
    X(DROPOUT, dropout, dropout, "y = x / (1 - p) where it is kept, x 0 where it is dropped")                          \
    /* y (N,C) e4m3; scale (N,1) f32; x (N,C) F. What the scale of a row is: num/e4m3.h. */                            \
    X(QUANT_ROWS, quant_rows, rows, "codes of x by rows, each with a scale of its own: y = x / scale")                 \
    /* out (M,N) F +=; a (M,K) e4m3; b (N,K) e4m3; sa (M,1) f32; sb (N,1) f32; [bias] (1,N) F */                       \
    X(MATMUL_SCALED, matmul_scaled, matmul, "out[i,j] = sa[i] sb[j] (a b')[i,j] + bias[j]")                            \
    /* id (N,n) i32; logp (N,n) f32; entropy (N,1) f32; x (N,V) A; [vmask]; key (N,2) u32; step. The distinct ids of n \
     * draws, rising, with log(count / n); behind them id -1, logp 0; nats of entropy. Which are drawn: num/draw.h. A  \
     * logit of Vc that is not finite: the first such id, then -1; logp and entropy NaN. */                            \
    X(DRAW, draw, draw, "n draws with replacement from softmax(x / T) over Vc, and its entropy")                       \
    /* y (N,V) A; [y0] (N,V) A; x (N,U) F; [weight] (N,1) f32; [vmask]. y may be y0. Vc: ids below U whose bit is set; \
     * the others are 0. At or below RT_MIX_FLOOR is nothing. A weight of 0 leaves y0 as it is, and x unread. */       \
    X(MIX_LOGITS, mix_logits, mix, "y = T log([exp(y0 / T)] + w weight softmax(x / T))")                               \
    /* out (M,N) F +=; a (M,K) q8_0; b (N,K), of a type that rt_int8_takes; [bias] (1,N) F. Slots are matmul's. */     \
    X(MATMUL_INT8, matmul_int8, matmul, "out = a b' + bias, of codes of 8 bits and packed weights")                    \
    /* x (N,C) f32 in place; [fault] (1,4) u32: becomes that of the first rank that has one. On the comm queue; there  \
     * are R ranks, each of which runs the same ops in the same order and gets the same bits. */                       \
    X(ALL_REDUCE, all_reduce, rows, "x = sum over the ranks of x, in their order")                                     \
    /* [own] (1,count) f32 +=, absent for a rank without a slice; x (1,C) f32. On the comm queue, as all_reduce. */    \
    X(REDUCE_SCATTER, reduce_scatter, slice, "own = sum over the ranks of this rank's slice of x, in their order")     \
    /* x (1,C) F in place. On the comm queue, as all_reduce. */                                                        \
    X(ALL_GATHER, all_gather, slice, "every slice of x = what the rank that owns it has there")

typedef enum rt_op_kind {
#define X(kind, name, args, text) RT_OP_##kind,
    RT_OP_LIST(X)
#undef X
        RT_OP_COUNT
} rt_op_kind;

typedef struct rt_slot_spec {
    const char *name;
    uint8_t access;   /* rt_access */
    uint8_t rule;     /* rt_dtype_rule */
    uint8_t optional; /* 1: may be absent */
    uint16_t alias;   /* bit i: this output may be exactly the same view as input slot i; it then assigns */
} rt_slot_spec;

typedef struct rt_op_spec {
    const char *name, *text;
    const rt_slot_spec *slot; /* rt_op_slots(kind) of them */
} rt_op_spec;

extern const rt_op_spec rt_op_specs[RT_OP_COUNT];
static inline const char *rt_op_name(rt_op_kind k) { return rt_op_specs[k].name; }
uint32_t rt_op_slots(rt_op_kind kind);
/* The slots of an op, present or not: RT_FOR_SLOTS(i, kind) { ... } */
#define RT_FOR_SLOTS(i, kind) for (uint32_t i = 0; i < rt_op_slots(kind); i++)
/* Does the first slot take codes, with their scales in the next? */
static inline bool rt_op_codes(rt_op_kind k) { return rt_op_specs[k].slot->rule == RT_RULE_CODED; }
/* Ranks that an op was recorded for; 0: it is not done together. */
uint32_t rt_op_ranks(rt_op_kind kind, const rt_args *args);
/* Packed weights that matmul_int8 takes. */
static inline bool rt_int8_takes(rt_dtype d)
{
    return d == RT_DTYPE_Q8_0 || d == RT_DTYPE_Q4_0 || d == RT_DTYPE_Q4_1 || d == RT_DTYPE_Q4_K || d == RT_DTYPE_Q5_K ||
           d == RT_DTYPE_Q6_K;
}
/* By name; false when there is none. */
bool rt_op_find(const char *name, rt_op_kind *out);

/* Slot numbers, for those who bind or read operands by name. */
enum { RT_EMBED_Y, RT_EMBED_TABLE, RT_EMBED_IDS };
enum { RT_EMBED_DTABLE, RT_EMBED_DY, RT_EMBED_BIDS };
enum { RT_CODED_Y, RT_CODED_SCALE }; /* of every op whose y is E */
enum { RT_RMS_Y, RT_RMS_SCALE, RT_RMS_X, RT_RMS_W };
enum { RT_RMSB_DX, RT_RMSB_DW, RT_RMSB_DY, RT_RMSB_X, RT_RMSB_W, RT_RMSB_DRES };
enum { RT_ARMS_Y, RT_ARMS_SCALE, RT_ARMS_H, RT_ARMS_X, RT_ARMS_RES, RT_ARMS_W };
enum { RT_MM_OUT, RT_MM_A, RT_MM_B, RT_MM_BIAS };
enum { RT_MMS_OUT, RT_MMS_A, RT_MMS_B, RT_MMS_SA, RT_MMS_SB, RT_MMS_BIAS };
enum { RT_BIASG_DB, RT_BIASG_DY };
enum { RT_ROPE_Y, RT_ROPE_X, RT_ROPE_FREQ, RT_ROPE_POS };
enum { RT_ATTN_O, RT_ATTN_LSE, RT_ATTN_Q, RT_ATTN_K, RT_ATTN_V, RT_ATTN_START };
enum {
    RT_ATTNB_DQ,
    RT_ATTNB_DK,
    RT_ATTNB_DV,
    RT_ATTNB_DO,
    RT_ATTNB_Q,
    RT_ATTNB_K,
    RT_ATTNB_V,
    RT_ATTNB_O,
    RT_ATTNB_LSE,
    RT_ATTNB_START
};
enum { RT_DEC_O, RT_DEC_Q, RT_DEC_KC, RT_DEC_VC, RT_DEC_LEN, RT_DEC_TABLE };
enum { RT_GLU_Y, RT_GLU_SCALE, RT_GLU_G, RT_GLU_U };
enum { RT_GLUB_DG, RT_GLUB_DU, RT_GLUB_Y, RT_GLUB_DY, RT_GLUB_G, RT_GLUB_U };
enum { RT_ROWS_Y, RT_ROWS_X, RT_ROWS_B }; /* add: a, b; scale: x, s; copy: x, rows; cast, fill, quant, dequant */
enum { RT_REDUCE_X, RT_REDUCE_FAULT };
enum { RT_SCATTER_OWN, RT_SCATTER_X };
enum { RT_GATHER_X };
enum { RT_QROWS_Y, RT_QROWS_SCALE, RT_QROWS_X };
enum {
    RT_KD_LOGITS,
    RT_KD_SUMS,
    RT_KD_CE,
    RT_KD_DIV,
    RT_KD_TOP1,
    RT_KD_FAULT,
    RT_KD_TARGET,
    RT_KD_STEP,
    RT_KD_TEACHER,
    RT_KD_TK_ID,
    RT_KD_TK_LOGP,
    RT_KD_TK_REST,
    RT_KD_VMASK
};
enum {
    RT_ADAM_PARAM,
    RT_ADAM_MASTER,
    RT_ADAM_M,
    RT_ADAM_V,
    RT_ADAM_EXPS,
    RT_ADAM_GRAD,
    RT_ADAM_STEP,
    RT_ADAM_GSCALE,
    RT_ADAM_FAULT
};
enum { RT_NSQ_OUT, RT_NSQ_X, RT_NSQ_FAULT, RT_NSQ_STEP };
enum { RT_CLIP_SCALE, RT_CLIP_NORM, RT_CLIP_NSQ, RT_CLIP_FAULT, RT_CLIP_STEP };
enum { RT_TOPK_ID, RT_TOPK_LOGP, RT_TOPK_REST, RT_TOPK_X, RT_TOPK_VMASK };
enum { RT_SAMPLE_ID, RT_SAMPLE_LOGP, RT_SAMPLE_SEEN, RT_SAMPLE_X, RT_SAMPLE_KEY, RT_SAMPLE_HOW };
enum { RT_DROP_Y, RT_DROP_X, RT_DROP_STEP };
enum { RT_DRAW_ID, RT_DRAW_LOGP, RT_DRAW_ENTROPY, RT_DRAW_X, RT_DRAW_VMASK, RT_DRAW_KEY, RT_DRAW_STEP };
enum { RT_MIX_Y, RT_MIX_Y0, RT_MIX_X, RT_MIX_WEIGHT, RT_MIX_VMASK };

#endif
