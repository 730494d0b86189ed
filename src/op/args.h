/* args.h - one plain struct of scalars per op family: what a kernel is told besides its operands.
 *
 * Included by host C and by device code, so it includes nothing but fixed-width integers and holds no pointers. Each
 * struct is at most 128 bytes (the least that Vulkan promises for push constants). Dimension letters are those of
 * docs/numerics.md. Nothing that changes from step to step is here: that is `rt_step`, read from device memory. */
#ifndef RT_OP_ARGS_H
#define RT_OP_ARGS_H

#include <stdint.h>

/* The step values: written by the host once per optimizer step into a buffer of class STEP, 64 bytes; where dropout
 * counts rows, once per micro-batch. */
typedef struct rt_step {
    uint32_t step;   /* 1 for the first optimizer step: the t of AdamW's bias correction */
    uint32_t tokens; /* |M|: trained positions of the whole optimizer step, all micro-batches; never 0 */
    float lr;
    uint32_t row; /* positions of the step before this micro-batch: dropout counts rows from it */
    uint64_t seed;
    uint32_t unused[10];
} rt_step;

/* The non-finite flag: sticky, in a buffer of class STATE, (1,4) u32. The first fault is kept; later ones change
 * nothing. `site` is the op's own name for itself (its argument `site`), `row` the first bad row in it. */
typedef struct rt_fault {
    uint32_t set; /* 0; or 1, and of a run with several ranks 1 + the rank */
    uint32_t step, site, row;
} rt_fault;

typedef struct rt_embed_args {
    uint32_t N, V, C;
} rt_embed_args;

typedef struct rt_rmsnorm_args {
    uint32_t N, H, D; /* a row of x is H groups of D, each normalised by itself; H = 1 is the plain form */
    float eps;
} rt_rmsnorm_args;

typedef struct rt_matmul_args { /* matmul; and matmul_scaled, matmul_int8, whose ta is 0, tb is 1 and alpha is 1 */
    uint32_t M, N, K;           /* out (M,N) = alpha * op(a) (M,K) * op(b) (K,N) + bias */
    uint32_t ta, tb;            /* 1: a is stored (K,M), b is stored (N,K) */
    float alpha;
} rt_matmul_args;

/* add, scale, cast, copy, fill, quant, dequant, quant_rows, bias_grad, norm_sq, all_reduce */
typedef struct rt_rows_args {
    uint32_t N, C;
    uint32_t R;    /* copy with row indices: rows of the destination; all_reduce: ranks; else 0 */
    float alpha;   /* scale: factor; fill: value */
    uint32_t site; /* norm_sq: name for the fault record */
} rt_rows_args;

/* reduce_scatter, all_gather. Each rank owns a slice of the C elements; slices follow one another in the order of the
 * ranks, and each rank knows its own. */
typedef struct rt_slice_args {
    uint32_t C, R;         /* elements; ranks */
    uint32_t first, count; /* the slice of this rank; count 0: it has none */
    uint32_t most;         /* elements of the largest slice of any rank */
} rt_slice_args;

typedef struct rt_rope_args {
    uint32_t N, H, D;
    float scale; /* on cos and sin: yarn's attention factor; 1 otherwise */
} rt_rope_args;

typedef struct rt_attn_args {
    uint32_t B, T, H, K, D;
    uint32_t window;  /* position i sees j with i - j < window; 0: no window */
    float scale;      /* on q.k, usually 1/sqrt(D) */
    uint32_t rounded; /* 1: weights, p and ds, may be rounded to the dtype of q where they are multiplied */
} rt_attn_args;

typedef struct rt_decode_args {
    uint32_t B, Q, S, H, K, D; /* Q new tokens per sequence, S rows of cache per sequence */
    uint32_t window;
    float scale;
    uint32_t page; /* rows of a page of the cache, a multiple of RT_CACHE_PAGE; 0: each sequence has S rows in a row */
} rt_decode_args;
enum { RT_CACHE_PAGE = 64 }; /* whole tiles of keys on every backend */

typedef struct rt_swiglu_args {
    uint32_t N, F;
} rt_swiglu_args;

/* p teacher, q student:
 *   FORWARD_KL  KL(p||q)
 *   REVERSE_KL  KL(q||p)
 *   JSD         mix KL(p||m) + (1-mix) KL(q||m), m = mix p + (1-mix) q; mix 0, 1: forward, reverse KL
 *   SKEW_FKL    KL(p || mix p + (1-mix) q)
 *   SKEW_RKL    KL(q || mix q + (1-mix) p)
 *   TV          1/2 sum |p - q|
 * name, word of settings, label of cases, title, what mix is: NONE (not used), BETA (0 to 1), SKEW (0 to below 1) */
#define RT_DIVERGENCE_LIST(X)                                                                                          \
    X(FORWARD_KL, "forward-kl", "fkl", "KL(teacher||student)", NONE)                                                   \
    X(REVERSE_KL, "reverse-kl", "rkl", "KL(student||teacher)", NONE)                                                   \
    X(JSD, "jsd", "jsd", "JSD", BETA)                                                                                  \
    X(SKEW_FKL, "skew-forward", "skew-fkl", "skewed KL(teacher||student)", SKEW)                                       \
    X(SKEW_RKL, "skew-reverse", "skew-rkl", "skewed KL(student||teacher)", SKEW)                                       \
    X(TV, "tv", "tv", "total variation", NONE)
typedef enum rt_divergence {
#define X(name, word, label, title, mix) RT_DIV_##name,
    RT_DIVERGENCE_LIST(X)
#undef X
        RT_DIV_COUNT
} rt_divergence;

typedef struct rt_kd_args {
    uint32_t N, V; /* positions, student columns */
    uint32_t U;    /* teacher columns (full logits); 0 when the teacher is given as top-k */
    uint32_t k;    /* teacher entries per position (top-k); 0 when full logits are given */
    uint32_t divergence;
    float T;   /* temperature > 0 of the divergence; CE is at 1 */
    float mix; /* beta of JSD, lambda of the skewed forms */
    float ce_weight, kd_weight;
    uint32_t t2;   /* 1: the divergence's weight is multiplied by T^2 */
    uint32_t grad; /* 1: logits become their gradient; 0: logits are left as they are */
    uint32_t site; /* name for the fault record */
} rt_kd_args;

/* Moments that are stored narrower than f32 are rounded by chance (num/moment.h): m of element (i,j) by the lower and v
 * by the upper half of word j % 4 of Philox at (seed, rt_adamw_stream, (row + i) << 32 | j / 4). */
typedef struct rt_adamw_args {
    uint32_t N, C;
    float beta1, beta2, eps, weight_decay;
    uint32_t moments;     /* rt_dtype of m and v; f32: they are not rounded */
    uint32_t stream, row; /* which parameter this is, and which of its rows the first is */
} rt_adamw_args;
/* Apart from the streams of dropout, which count from 0, and from rt_sample_stream. */
static inline uint64_t rt_adamw_stream(uint32_t stream, uint32_t step)
{
    return (uint64_t)(0x80000000u | stream) << 32 | step;
}

typedef struct rt_clip_args {
    float max_norm; /* scale = min(1, max_norm / (norm + 1e-6)); <= 0: scale 1, the norm is still measured */
    uint32_t site;
} rt_clip_args;

typedef struct rt_topk_args {
    uint32_t N, V, k;
    float T;
} rt_topk_args;

typedef struct rt_sample_args {
    uint32_t N, V;
} rt_sample_args;
/* The columns of how, by which a row chooses; what they do, in order, is in backend/ref/ref_sample.c. */
enum {
    RT_HOW_TEMPERATURE, /* 0: the most likely id */
    RT_HOW_TOP_K,       /* a whole number; 0: no limit */
    RT_HOW_TOP_P,       /* 1: no limit */
    RT_HOW_MIN_P,       /* 0: no limit */
    RT_HOW_PENALTY,     /* of seen ids: logits above 0 are divided by it, others multiplied; 1: none */
    RT_HOW_COLS
};
/* The random number of a row is the first word of Philox at (0, rt_sample_stream, key). */
#define rt_sample_stream ((uint64_t)0x40000000u << 32)
static inline uint32_t rt_sample_most(float top_k, uint32_t V)
{
    return top_k >= 1 && top_k < (float)V ? (uint32_t)top_k : V;
}

/* Element (i,j) of a step with this stream is dropped when its random word is below p 2^32: word j % 4 of Philox at
 * (seed, stream << 32 | step, (row + i) << 32 | j / 4), where row, step and seed are the step values'. */
typedef struct rt_dropout_args {
    uint32_t N, C;
    float p; /* 0 <= p < 1 */
    uint32_t stream;
} rt_dropout_args;
static inline uint32_t rt_dropout_below(float p) { return (uint32_t)((double)p * 4294967296.0); }
static inline double rt_dropout_scale(float p) { return 1.0 / (1.0 - (double)p); }

/* What is drawn for a row depends on the step values' seed, the row's key and its logits alone: num/draw.h. */
typedef struct rt_draw_args {
    uint32_t N, V, n; /* n: draws for a row */
    float T;
} rt_draw_args;

typedef struct rt_mix_args {
    uint32_t N, V, U; /* columns of y, of x */
    float T, w;
} rt_mix_args;
#define RT_MIX_FLOOR (-61440.0f) /* a logit of mix_logits that stands for no probability: every float dtype has it */

typedef union rt_args {
    rt_embed_args embed;
    rt_rmsnorm_args rmsnorm;
    rt_matmul_args matmul;
    rt_rows_args rows;
    rt_slice_args slice;
    rt_rope_args rope;
    rt_attn_args attn;
    rt_decode_args decode;
    rt_swiglu_args swiglu;
    rt_kd_args kd;
    rt_adamw_args adamw;
    rt_clip_args clip;
    rt_topk_args topk;
    rt_sample_args sample;
    rt_dropout_args dropout;
    rt_draw_args draw;
    rt_mix_args mix;
    uint32_t words[32];
} rt_args;

#ifndef __cplusplus
_Static_assert(sizeof(rt_step) == 64, "step values are 64 bytes on every device");
_Static_assert(sizeof(rt_fault) == 16, "the fault record is four words");
_Static_assert(sizeof(rt_args) == 128, "push constants: at most 128 bytes");
#endif

#endif
