/* cpu_attn.h - what the attention kernels of this backend share: lanes, packing, exp2, the softmax of a tile.
 *
 * How all of them compute. A block of up to AT_Q queries of one head lies across vector lanes: q is kept transposed as
 * (D,AT_Q), scores as (keys,AT_Q), the output as (D,AT_Q). Keys come in tiles of AT_K rows, stored as they are. So the
 * GEMMs need no other transpose, maxima and sums of the softmax run down the lanes and need no horizontal step,
 * and what a lane may see is two integers per lane: the first and the last key. Scores are in units of log 2 (q is
 * packed times scale * log2 e), so exp is exp2 of a difference. A tile that every lane sees whole pays for no mask; a
 * tile that no lane sees is never visited. A masked weight is -0, which no visible one is, so that a key, value or
 * query that is not finite reaches only what sees it (tile_add_sparse).
 *
 * Leaves the loops over blocks, the threads and the shape of scratch to cpu_attn_fwd.c, _bwd.c and _decode.c. */
#ifndef RT_BACKEND_CPU_CPU_ATTN_H
#define RT_BACKEND_CPU_CPU_ATTN_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_microgemm.h"
#include "base/mem.h"

#include <float.h>

enum {
    AT_Q = 64,    /* queries of a block: a multiple of every VL */
    AT_K = 64,    /* keys of a tile */
    AT_STEP = 16, /* keys of a tile that needs a mask; lanes are masked out of a tile in groups of so many */
    AT_HEADS = 4, /* at most so many heads share a packed tile of keys; more would not fit the second-level cache */
    AT_TAIL = VL > 8 ? 8 : 0 /* D is a multiple of 8: so many elements may be left after whole vectors */
};
#define AT_LOG2E 0x1.715476p+0f
#define AT_LN2 0x1.62e430p-1f

/* 2^x: within 2 units in the last place from -126 to 127; from -127 down 0, from 128 up infinity; NaN stays NaN. The
 * polynomial is the minimax one of degree 6 on [-1/2, 1/2], relative error 1.9e-9. */
RT_INLINE vf vexp2(vf x)
{
    const vf magic = vset(0x1.8p23f + 127.0f); /* the sum's low bits are round(x) + 127: the exponent of 2^round(x) */
    x = vmax(vset(-127.0f), x);                /* operands in this order keep NaN */
    x = vmin(vset(128.0f), x);
    vf t = x + magic;
    vf f = x - (t - magic);
    vf p = vset(0x1.41d334p-13f);
    p = vfma(p, f, vset(0x1.5f456ap-10f));
    p = vfma(p, f, vset(0x1.3b2dbcp-7f));
    p = vfma(p, f, vset(0x1.c6aed4p-5f));
    p = vfma(p, f, vset(0x1.ebfbdap-3f));
    p = vfma(p, f, vset(0x1.62e430p-1f));
    p = vfma(p, f, vset(1.0f));
    return p * (vf)((vi)t << 23);
}

/* ---- scratch ---- */

/* Scratch begins on a 256-byte boundary, and so does every piece of it; one more line keeps pieces, whose sizes are
 * mostly powers of two, from falling onto the same sets of the first-level cache. */
static inline uint64_t piece_floats(uint64_t n) { return rt_align_up(n, 64) + 64; }
static inline float *take(float **p, uint64_t n)
{
    float *at = *p;
    *p += piece_floats(n);
    return at;
}
static inline uint32_t padded(uint32_t D) { return (uint32_t)rt_align_up(D, VL); }

/* Query heads of one kv head are cut into parts of at most AT_HEADS, fewer when heads are wide. */
typedef struct head_parts {
    uint32_t parts, heads; /* of a kv head; of a part (the last may have fewer) */
} head_parts;
static inline head_parts cut_heads(uint32_t group, uint32_t D)
{
    uint32_t most = 256 / D;
    most = most < 1 ? 1 : most > AT_HEADS ? AT_HEADS : most;
    head_parts h = { .parts = (group + most - 1) / most };
    h.heads = (group + h.parts - 1) / h.parts;
    return h;
}

/* ---- rows in and out ---- */

RT_INLINE bool pack_rows_as(float *dst, uint32_t ld, const rt_operand *x, uint64_t at, uint32_t n, uint32_t D,
                            float scale, rt_dtype d)
{
    const void *p = rt_host_ptr(x);
    const vf s = vset(scale);
    vu bits = { 0 }; /* the sign bit is set once an exponent is all ones */
    for (uint32_t r = 0; r < n; r++, at += x->stride, dst += ld) {
        uint32_t i = 0;
        for (; i + VL <= D; i += VL) {
            vf v = vload_t(p, at + i, d) * s;
            bits |= ((vu)v & 0x7fffffffu) + 0x00800000u;
            vstore(dst + i, v);
        }
        if (AT_TAIL > 0 && i < D) {
            vf v = vload_tn(p, at + i, AT_TAIL, d) * s;
            bits |= ((vu)v & 0x7fffffffu) + 0x00800000u;
            vstore(dst + i, v);
        }
    }
    uint32_t all = 0;
    for (int i = 0; i < VL; i++) all |= bits[i];
    return (all >> 31) == 0;
}
/* dst (n,ld) = scale * n rows of D elements of x from element `at` on, padded with 0 to ld. Returns whether
 * all are finite. */
RT_OUTLINE bool pack_rows(float *dst, uint32_t ld, const rt_operand *x, uint64_t at, uint32_t n, uint32_t D,
                          float scale)
{
    bool finite = true;
    RT_FOR_FLOAT(x->dtype, E, finite = pack_rows_as(dst, ld, x, at, n, D, scale, E));
    return finite;
}

RT_INLINE void unpack_rows_as(const rt_operand *y, uint64_t at, uint32_t n, uint32_t D, const float *src, uint32_t ld,
                              float scale, rt_dtype d)
{
    void *p = rt_host_ptr(y);
    const vf s = vset(scale);
    for (uint32_t r = 0; r < n; r++, at += y->stride, src += ld) {
        uint32_t i = 0;
        for (; i + VL <= D; i += VL) vstore_t(p, at + i, vload(src + i) * s, d);
        if (AT_TAIL > 0 && i < D) vstore_tn(p, at + i, vload(src + i) * s, AT_TAIL, d);
    }
}
/* n rows of D elements of y from element `at` on = scale * src (n,ld), rounded once. */
RT_OUTLINE void unpack_rows(const rt_operand *y, uint64_t at, uint32_t n, uint32_t D, const float *src, uint32_t ld,
                            float scale)
{
    RT_FOR_FLOAT(y->dtype, E, unpack_rows_as(y, at, n, D, src, ld, scale, E));
}

typedef float f4 __attribute__((vector_size(16)));
RT_INLINE f4 f4_load(const float *p)
{
    f4 v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* dst (cols,ldd) = src (rows,lds) transposed; rows and cols are multiples of 4. */
RT_OUTLINE void transpose(float *dst, uint32_t ldd, const float *src, uint32_t lds, uint32_t rows, uint32_t cols)
{
    for (uint32_t r = 0; r < rows; r += 4)
        for (uint32_t c = 0; c < cols; c += 4) {
            const float *x = src + (uint64_t)r * lds + c;
            float *y = dst + (uint64_t)c * ldd + r;
            f4 a = f4_load(x), b = f4_load(x + lds), e = f4_load(x + 2 * lds), f = f4_load(x + 3 * lds);
            f4 ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5), ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
            f4 ef0 = __builtin_shufflevector(e, f, 0, 4, 1, 5), ef1 = __builtin_shufflevector(e, f, 2, 6, 3, 7);
            const f4 out[4] = { __builtin_shufflevector(ab0, ef0, 0, 1, 4, 5),
                                __builtin_shufflevector(ab0, ef0, 2, 3, 6, 7),
                                __builtin_shufflevector(ab1, ef1, 0, 1, 4, 5),
                                __builtin_shufflevector(ab1, ef1, 2, 3, 6, 7) };
            for (uint32_t i = 0; i < 4; i++) memcpy(y + i * ldd, &out[i], sizeof out[i]);
        }
}

/* ---- lanes ---- */

/* The queries of a block, and what each of them sees: keys lo to hi of its row; none when lo > hi. The rest is what
 * that means for each group of AT_STEP lanes: no lane sees a key outside of first .. last (first > last: they see none
 * at all), and every lane sees keys lo_max .. hi_min. */
typedef struct lanes {
    int32_t lo[AT_Q], hi[AT_Q];
    uint32_t n, width;   /* in use; rounded up to whole vectors */
    int32_t first, last; /* of all groups */
    struct lane_group {
        int32_t first, last, lo_max, hi_min;
    } group[AT_Q / AT_STEP];
} lanes;

/* Fills what follows from n, lo and hi of the lanes in use. Lanes not in use see what the last one does: their numbers
 * stay finite and nobody reads them. */
static inline void lanes_close(lanes *x)
{
    x->width = (uint32_t)rt_align_up(x->n, VL);
    x->first = INT32_MAX;
    x->last = -1;
    for (uint32_t i = x->n; i < x->width; i++) {
        x->lo[i] = x->lo[x->n - 1];
        x->hi[i] = x->hi[x->n - 1];
    }
    for (uint32_t g = 0; g * AT_STEP < x->width; g++) {
        struct lane_group *r = &x->group[g];
        *r = (struct lane_group){ .first = INT32_MAX, .last = -1, .lo_max = -1, .hi_min = INT32_MAX };
        for (uint32_t i = g * AT_STEP; i < (g + 1) * AT_STEP && i < x->width; i++) {
            int32_t lo = x->lo[i], hi = x->hi[i];
            if (lo > r->lo_max) r->lo_max = lo;
            if (hi < r->hi_min) r->hi_min = hi;
            if (lo <= hi && lo < r->first) r->first = lo;
            if (lo <= hi && hi > r->last) r->last = hi;
        }
        if (r->first < x->first) x->first = r->first;
        if (r->last > x->last) x->last = r->last;
    }
}
/* First key that position i sees; `start` is where its document begins, and may be anything. */
static inline int32_t first_key(int32_t i, int32_t start, uint32_t window)
{
    int32_t lo = window > 0 && (uint32_t)i >= window ? i - (int32_t)window + 1 : 0;
    return start > lo ? start : lo;
}
/* n positions from i0 on of a row of T; start (n) is null when there are no documents, its stride is in elements. */
static inline void lanes_positions(lanes *x, uint32_t i0, uint32_t n, const int32_t *start, uint64_t stride,
                                   uint32_t window)
{
    x->n = n;
    for (uint32_t i = 0; i < n; i++) {
        x->hi[i] = (int32_t)(i0 + i);
        x->lo[i] = first_key(x->hi[i], start ? start[i * stride] : 0, window);
    }
    lanes_close(x);
}

/* A tile of keys and values, packed, and the lanes that see any of it. */
typedef struct key_tile {
    float *k, *v; /* (AT_K,ld) */
    uint32_t ld, n;
    int32_t j0; /* position of its first key */
    bool k_finite, v_finite;
    bool masked;     /* some of those lanes do not see all of it */
    uint32_t c0, c1; /* lanes c0 .. c1-1: whole vectors */
} key_tile;

/* Finds n and the lanes of the tile that begins at j0; no key from `end` on. Where a mask is needed tiles are short, so
 * that little is computed in vain: along the diagonal, and where documents and windows begin. */
static inline void tile_cut(key_tile *t, const lanes *x, int32_t end)
{
    for (uint32_t most = AT_K;; most = AT_STEP) {
        t->n = end - t->j0 < (int32_t)most ? (uint32_t)(end - t->j0) : most;
        t->masked = false;
        t->c0 = AT_Q;
        t->c1 = 0;
        const int32_t j1 = t->j0 + (int32_t)t->n - 1;
        for (uint32_t c = 0; c < x->width; c += AT_STEP) {
            const struct lane_group *g = &x->group[c / AT_STEP];
            if (g->first > j1 || g->last < t->j0) continue;
            if (t->c1 == 0) t->c0 = c;
            t->c1 = c + AT_STEP < x->width ? c + AT_STEP : x->width;
        }
        for (uint32_t c = t->c0; c < t->c1; c += AT_STEP)
            if (t->j0 < x->group[c / AT_STEP].lo_max || j1 > x->group[c / AT_STEP].hi_min) t->masked = true;
        if (!t->masked || most == AT_STEP) return;
    }
}

RT_INLINE vi vi_load(const int32_t *p)
{
    vi v;
    memcpy(&v, p, sizeof v);
    return v;
}
RT_INLINE vi vi_set(int32_t x) { return x - (vi){ 0 }; }
/* Lanes that see key j. */
RT_INLINE vi sees(vi lo, vi hi, int32_t j) { return (vi_set(j) >= lo) & (vi_set(j) <= hi); }

/* ---- the forward step over one tile of keys ---- */

/* One head of a block while it is computed. */
typedef struct head_state {
    float *q;         /* (D,AT_Q) times scale * log2 e */
    float *o;         /* (D,AT_Q) not yet divided by sum */
    float *max, *sum; /* (AT_Q) of scores, of 2^(score - max) */
} head_state;
static inline uint64_t head_floats(uint32_t D) { return 2 * piece_floats((uint64_t)D * AT_Q) + 2 * piece_floats(AT_Q); }
static inline head_state head_take(float **p, uint32_t D)
{
    head_state h;
    h.q = take(p, (uint64_t)D * AT_Q);
    h.o = take(p, (uint64_t)D * AT_Q);
    h.max = take(p, AT_Q);
    h.sum = take(p, AT_Q);
    return h;
}
static inline void head_clear(head_state *h, uint32_t D)
{
    memset(h->o, 0, sizeof(float) * D * AT_Q);
    for (uint32_t i = 0; i < AT_Q; i++) {
        h->max[i] = -FLT_MAX; /* and not -inf: the difference of two of these must be 0 */
        h->sum[i] = 0.0f;
    }
}

/* s (t->n,AT_Q), lanes of the tile: becomes 2^(s - max); max and sum are brought up to date; shrink (AT_Q) is by what
 * earlier sums and outputs have to be multiplied. A NaN score makes its weight NaN, and so the lane's sum and output.
 */
RT_INLINE void softmax_tile(float *s, const key_tile *t, const lanes *x, head_state *h, float *shrink, bool masked)
{
    for (uint32_t c = t->c0; c < t->c1; c += VL) {
        const vi lo = vi_load(x->lo + c), hi = vi_load(x->hi + c);
        const vf before = vload(h->max + c);
        vf max = before, sum = vset(0.0f);
        for (uint32_t j = 0; j < t->n; j++) {
            vf v = vload(s + j * AT_Q + c);
            if (masked) {
                v = vselect(sees(lo, hi, t->j0 + (int32_t)j), v, vset(-INFINITY));
                vstore(s + j * AT_Q + c, v);
            }
            max = vmax(max, v);
        }
        for (uint32_t j = 0; j < t->n; j++) {
            vf p = vexp2(vload(s + j * AT_Q + c) - max);
            if (masked) p = vselect(sees(lo, hi, t->j0 + (int32_t)j), p, vset(-0.0f));
            vstore(s + j * AT_Q + c, p);
            sum += p;
        }
        vf f = vexp2(before - max);
        vstore(shrink + c, f);
        vstore(h->sum + c, vfma(vload(h->sum + c), f, sum));
        vstore(h->max + c, max);
    }
}

/* One head over one tile; s (AT_K,AT_Q) and shrink (AT_Q) are scratch. */
RT_OUTLINE void head_step(head_state *h, const key_tile *t, const lanes *x, uint32_t D, float *s, float *shrink)
{
    const uint32_t c0 = t->c0, N = t->c1 - c0;
    const tile_product qk = { s + c0, AT_Q, { t->k, t->ld, 1 }, { h->q + c0, AT_Q }, t->n, N, D, NULL };
    const tile_product pv = { h->o + c0, AT_Q, { t->v, 1, t->ld }, { s + c0, AT_Q }, D, N, t->n, shrink + c0 };
    tile_set(&qk);
    if (t->masked)
        softmax_tile(s, t, x, h, shrink, true);
    else
        softmax_tile(s, t, x, h, shrink, false);
    if (t->masked && !t->v_finite)
        tile_add_sparse(&pv, false);
    else
        tile_scale_add(&pv);
}

#endif
