/* emit.h - one function per op: checks shapes, fills the arguments, records. Operand order is that of op.h; RT_NONE for
 * an optional operand that is absent. Errors stick to the plan; nothing here returns a status. */
#ifndef RT_OP_EMIT_H
#define RT_OP_EMIT_H

#include "op/plan.h"

void rt_emit_embed_fwd(rt_plan *p, rt_view y, rt_view table, rt_view ids);
void rt_emit_embed_bwd(rt_plan *p, rt_view dtable, rt_view dy, rt_view ids);
/* heads: groups per row, each as wide as w. scale, here and below: of y as codes; else RT_NONE. */
void rt_emit_rmsnorm_fwd(rt_plan *p, rt_view y, rt_view scale, rt_view x, rt_view w, uint32_t heads, float eps);
void rt_emit_rmsnorm_bwd(rt_plan *p, rt_view dx, rt_view dw, rt_view dy, rt_view x, rt_view w, uint32_t heads,
                         float eps);
void rt_emit_add_rmsnorm_fwd(rt_plan *p, rt_view y, rt_view scale, rt_view h, rt_view x, rt_view res, rt_view w,
                             float eps);
void rt_emit_add_rmsnorm_bwd(rt_plan *p, rt_view dx, rt_view dw, rt_view dy, rt_view h, rt_view w, rt_view dres,
                             float eps);
/* Transposes: 'n' or 't' for a and b. Quantised b: "nt" (x W') and "nn" (dy W). */
void rt_emit_matmul(rt_plan *p, rt_view out, rt_view a, rt_view b, rt_view bias, const char *transposes, float alpha);
/* out = or += a b' + bias: rows of Q8_0 times packed weights (rt_int8_takes). */
void rt_emit_matmul_int8(rt_plan *p, rt_view out, rt_view a, rt_view b, rt_view bias);
/* out = or += sa[i] sb[j] (a b')[i,j] + bias[j]; scales are columns (rows,1). */
void rt_emit_matmul_scaled(rt_plan *p, rt_view out, rt_view a, rt_view sa, rt_view b, rt_view sb, rt_view bias);
void rt_emit_bias_grad(rt_plan *p, rt_view db, rt_view dy);
void rt_emit_rope_fwd(rt_plan *p, rt_view y, rt_view x, rt_view freq, rt_view pos, float scale);
void rt_emit_rope_bwd(rt_plan *p, rt_view dx, rt_view dy, rt_view freq, rt_view pos, float scale);

typedef struct rt_attn_shape {
    uint32_t T, H, K, D; /* B is rows / T */
    uint32_t window;     /* 0: none */
    float scale;         /* 0: 1/sqrt(D) */
    uint32_t page;       /* attn_decode with a table: rows of a page */
    bool rounded;        /* attn_fwd, attn_bwd: weights may be rounded to the dtype of q where they are multiplied */
} rt_attn_shape;
void rt_emit_attn_fwd(rt_plan *p, rt_view o, rt_view lse, rt_view q, rt_view k, rt_view v, rt_view start,
                      const rt_attn_shape *s);
void rt_emit_attn_bwd(rt_plan *p, rt_view dq, rt_view dk, rt_view dv, rt_view d_o, rt_view q, rt_view k, rt_view v,
                      rt_view o, rt_view lse, rt_view start, const rt_attn_shape *s);
/* s->T: new tokens per sequence (Q of the op); without a table the cache has kc.rows / B rows per sequence. */
void rt_emit_attn_decode(rt_plan *p, rt_view o, rt_view q, rt_view kc, rt_view vc, rt_view len, rt_view table,
                         const rt_attn_shape *s);

void rt_emit_swiglu_fwd(rt_plan *p, rt_view y, rt_view scale, rt_view g, rt_view u);
/* y: RT_NONE where nobody reads it. */
void rt_emit_swiglu_bwd(rt_plan *p, rt_view dg, rt_view du, rt_view y, rt_view dy, rt_view g, rt_view u);
void rt_emit_add(rt_plan *p, rt_view y, rt_view a, rt_view b);
void rt_emit_scale(rt_plan *p, rt_view y, rt_view x, rt_view s, float alpha);
void rt_emit_cast(rt_plan *p, rt_view y, rt_view x);
void rt_emit_copy(rt_plan *p, rt_view y, rt_view x, rt_view rows);
void rt_emit_fill(rt_plan *p, rt_view y, float value);
void rt_emit_dequant(rt_plan *p, rt_view y, rt_view x);
void rt_emit_quant(rt_plan *p, rt_view y, rt_view x);
void rt_emit_quant_rows(rt_plan *p, rt_view y, rt_view scale, rt_view x);
/* Ops of one stream drop the same elements: those of forward and backward share one, others do not. */
void rt_emit_dropout(rt_plan *p, rt_view y, rt_view x, rt_view step, float drop, uint32_t stream);

typedef struct rt_kd_io {
    rt_view logits, sums, ce, div, top1, fault, target, step;
    rt_view teacher;                 /* full logits, or */
    rt_view tk_id, tk_logp, tk_rest; /* top-k; with neither, kd_weight must be 0 and only CE is computed */
    rt_view vmask;                   /* required when the two vocabularies differ in size */
} rt_kd_io;
typedef struct rt_kd_opts {
    rt_divergence divergence;
    float T, mix, ce_weight, kd_weight;
    bool t2, grad;
    uint32_t site;
} rt_kd_opts;
/* What mix is to a divergence. */
typedef enum rt_div_mix { RT_MIX_NONE, RT_MIX_BETA, RT_MIX_SKEW } rt_div_mix;
rt_div_mix rt_divergence_mix(rt_divergence d);
void rt_emit_kd_loss(rt_plan *p, const rt_kd_io *io, const rt_kd_opts *o);

typedef struct rt_adamw_opts {
    float beta1, beta2, eps, weight_decay;
    uint32_t stream, row; /* which parameter this is, and which of its rows the first is: rounding of narrow moments */
} rt_adamw_opts;
typedef struct rt_adamw_io {
    rt_view param;
    rt_view master; /* required unless param is f32 (or f64), which is then its own master */
    rt_view m, v;
    rt_view exps; /* (rows, rt_moment_exps(cols)): required when m and v are u8 */
    rt_view grad, step, gscale, fault;
} rt_adamw_io;
void rt_emit_adamw(rt_plan *p, const rt_adamw_io *io, const rt_adamw_opts *o);
void rt_emit_norm_sq(rt_plan *p, rt_view out, rt_view x, rt_view fault, rt_view step, uint32_t site);
void rt_emit_clip(rt_plan *p, rt_view scale, rt_view norm, rt_view nsq, rt_view fault, rt_view step, float max_norm,
                  uint32_t site);
/* On the comm queue, whichever is set. fault or RT_NONE. */
void rt_emit_all_reduce(rt_plan *p, rt_view x, rt_view fault, uint32_t ranks);
/* The slice of a rank in a row of elements. */
typedef struct rt_slice {
    uint32_t first, count; /* count 0: it has none */
    uint32_t most;         /* elements of the largest slice of any rank */
} rt_slice;
/* own RT_NONE: this rank has no slice. */
void rt_emit_reduce_scatter(rt_plan *p, rt_view own, rt_view x, rt_slice s, uint32_t ranks);
void rt_emit_all_gather(rt_plan *p, rt_view x, rt_slice s, uint32_t ranks);
/* One teacher more of a mixture: y0 is what the ones before it gave, RT_NONE for the first. The shares of all teachers
 * are w times weight, which is 1 where it is absent. */
void rt_emit_mix_logits(rt_plan *p, rt_view y, rt_view y0, rt_view x, rt_view weight, rt_view vmask, float T, float w);
/* id and logp as a top-k teacher of kd_loss takes them, with a rest of 0; key (rows,2). */
void rt_emit_draw(rt_plan *p, rt_view id, rt_view logp, rt_view entropy, rt_view x, rt_view vmask, rt_view key,
                  rt_view step, float T);
void rt_emit_topk(rt_plan *p, rt_view id, rt_view logp, rt_view rest, rt_view x, rt_view vmask, float T);
void rt_emit_sample(rt_plan *p, rt_view id, rt_view logp, rt_view seen, rt_view x, rt_view key, rt_view how);

#endif
