/* ref_attn.c - attention, forward, backward and over a cache. Query head h reads key head h / (H/K).
 *
 * Position i of a row of T sees j when first(i) <= j <= i, where first is the start of its document or, with a
 * window, the oldest position inside it. Over those j:
 *   s_j = scale q_i.k_j;  lse = log sum exp(s);  p_j = exp(s_j - lse);  o_i = sum p_j v_j
 *   delta = do_i.o_i;  ds_j = p_j (do_i.v_j - delta)
 *   dq_i += scale ds_j k_j;  dk_j += scale ds_j q_i;  dv_j += p_j do_i
 * Scratch of the forward forms: the scores of one query (T or S elements). */
#include "backend/ref/ref.h"

#include <tgmath.h>

static real dot(const real *a /* (D) */, const real *b /* (D) */, size_t D)
{
    real sum = 0;
    for (size_t d = 0; d < D; d++) sum += a[d] * b[d];
    return sum;
}

/* y += f x */
static void add_scaled(real *y /* (D) */, real f, const real *x /* (D) */, size_t D)
{
    for (size_t d = 0; d < D; d++) y[d] += f * x[d];
}

/* The oldest position that i may see. */
static size_t first_seen(size_t i, uint32_t window, int32_t start)
{
    size_t first = start > 0 ? (size_t)start : 0;
    if (window && i >= window && i - window + 1 > first) first = i - window + 1;
    return first;
}

/* Where row j of a sequence lies: there, or where the table of pages says. */
static size_t row_at(const int32_t *table, size_t page, size_t j)
{
    return table ? (size_t)table[j / page] * page + j % page : j;
}

/* One query over rows first..last of k and v, whose rows are `stride` apart, in pages or (table null) not. Returns lse;
 * with nothing to see o is NaN. */
static real attend(real *o /* (D) */, const real *q /* (D) */, const real *k, const real *v, size_t stride,
                   const int32_t *table, size_t page, size_t first, size_t last, size_t D, real scale, real *score)
{
    real max = -(real)INFINITY, sum = 0;
    for (size_t j = first; j <= last; j++) {
        score[j] = scale * dot(q, k + row_at(table, page, j) * stride, D);
        max = fmax(max, score[j]);
    }
    for (size_t d = 0; d < D; d++) o[d] = 0;
    for (size_t j = first; j <= last; j++) {
        real w = exp(score[j] - max);
        sum += w;
        add_scaled(o, w, v + row_at(table, page, j) * stride, D);
    }
    for (size_t d = 0; d < D; d++) o[d] /= sum;
    return max + log(sum);
}

void REF(attn_fwd)(const rt_ref_call *c)
{
    const rt_attn_args *a = &c->args->attn;
    size_t T = a->T, H = a->H, K = a->K, D = a->D;
    real *o = c->s[RT_ATTN_O], *lse = c->s[RT_ATTN_LSE];                         /* (B*T,H*D), (B*T,H) */
    const real *q = c->s[RT_ATTN_Q], *k = c->s[RT_ATTN_K], *v = c->s[RT_ATTN_V]; /* k, v (B*T,K*D) */
    const int32_t *start = c->s[RT_ATTN_START];                                  /* (B*T,1) or null */
    for (size_t b = 0; b < a->B; b++)
        for (size_t i = 0; i < T; i++)
            for (size_t h = 0; h < H; h++) {
                size_t row = b * T + i, kv = b * T * K * D + h / (H / K) * D;
                size_t first = first_seen(i, a->window, start ? start[row] : 0);
                lse[row * H + h] = attend(o + (row * H + h) * D, q + (row * H + h) * D, k + kv, v + kv, K * D, NULL, 0,
                                          first, i, D, a->scale, c->work);
            }
}

/* Gradients of one query over rows first..last. */
static void attend_back(real *dq, real *dk, real *dv, const real *d_o, const real *q, const real *k, const real *v,
                        const real *o, real lse, size_t stride, size_t first, size_t last, size_t D, real scale)
{
    real delta = dot(d_o, o, D);
    for (size_t j = first; j <= last; j++) {
        size_t at = j * stride;
        real p = exp(scale * dot(q, k + at, D) - lse);
        real ds = p * (dot(d_o, v + at, D) - delta);
        add_scaled(dq, scale * ds, k + at, D);
        add_scaled(dk + at, scale * ds, q, D);
        add_scaled(dv + at, p, d_o, D);
    }
}

void REF(attn_bwd)(const rt_ref_call *c)
{
    const rt_attn_args *a = &c->args->attn;
    size_t T = a->T, H = a->H, K = a->K, D = a->D, rows = a->B * T;
    real *dq = c->s[RT_ATTNB_DQ], *dk = c->s[RT_ATTNB_DK], *dv = c->s[RT_ATTNB_DV];    /* = */
    const real *d_o = c->s[RT_ATTNB_DO], *q = c->s[RT_ATTNB_Q], *o = c->s[RT_ATTNB_O]; /* (B*T,H*D) */
    const real *k = c->s[RT_ATTNB_K], *v = c->s[RT_ATTNB_V];                           /* (B*T,K*D) */
    const real *lse = c->s[RT_ATTNB_LSE];                                              /* (B*T,H) */
    const int32_t *start = c->s[RT_ATTNB_START];                                       /* (B*T,1) or null */
    for (size_t i = 0; i < rows * H * D; i++) dq[i] = 0;
    for (size_t i = 0; i < rows * K * D; i++) dk[i] = dv[i] = 0;
    for (size_t b = 0; b < a->B; b++)
        for (size_t i = 0; i < T; i++)
            for (size_t h = 0; h < H; h++) {
                size_t row = b * T + i, at = (row * H + h) * D, kv = b * T * K * D + h / (H / K) * D;
                size_t first = first_seen(i, a->window, start ? start[row] : 0);
                attend_back(dq + at, dk + kv, dv + kv, d_o + at, q + at, k + kv, v + kv, o + at, lse[row * H + h],
                            K * D, first, i, D, a->scale);
            }
}

/* The Q newest tokens of each sequence, whose keys and values are the last of the len rows of cache in use. */
void REF(attn_decode)(const rt_ref_call *c)
{
    const rt_decode_args *a = &c->args->decode;
    size_t Q = a->Q, S = a->S, H = a->H, K = a->K, D = a->D;
    real *o = c->s[RT_DEC_O];                                                     /* (B*Q,H*D) */
    const real *q = c->s[RT_DEC_Q], *kc = c->s[RT_DEC_KC], *vc = c->s[RT_DEC_VC]; /* kc, vc (B*S,K*D) */
    const int32_t *len = c->s[RT_DEC_LEN];                                        /* (B,1) */
    const int32_t *table = c->s[RT_DEC_TABLE];                                    /* (B,S/page) or null */
    for (size_t b = 0; b < a->B; b++) {
        bool sound = len[b] >= 0 && (size_t)len[b] >= Q && (size_t)len[b] <= S;
        for (size_t n = 0; n < Q; n++)
            for (size_t h = 0; h < H; h++) {
                size_t at = ((b * Q + n) * H + h) * D, kv = (table ? 0 : b * S * K * D) + h / (H / K) * D;
                if (!sound) {
                    for (size_t d = 0; d < D; d++) o[at + d] = (real)NAN;
                    continue;
                }
                size_t i = (size_t)len[b] - Q + n;
                attend(o + at, q + at, kc + kv, vc + kv, K * D, table ? table + b * (S / a->page) : NULL, a->page,
                       first_seen(i, a->window, 0), i, D, a->scale, c->work);
            }
    }
}
