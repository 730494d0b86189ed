/* cpu_rmsnorm.c - rmsnorm forward and backward, plain, per head and with the residual sum fused.
 *
 * A row is H groups of D; each group is normalised by itself. Two passes over a group, the second from L1. The weight
 * gradient is summed over rows: each chunk of rows has its own partial sum, and the partial sums are added in order.
 * While the second pass writes a row, the next one is prefetched: else the memory would rest from reading meanwhile.
 * A forward whose y is codes writes each row to scratch, as it would be stored, and codes it there. */
#include "backend/cpu/cpu_codes.h"
#include "backend/cpu/cpu_split.h"

/* Partial weight gradients: enough chunks for any machine, few enough that adding them costs nothing. */
enum { MAX_CHUNKS = 64 };

static uint64_t rows_per_chunk(uint64_t N, uint64_t C)
{
    uint64_t fit = RT_SPLIT_ELEMS / C + 1, least = (N + MAX_CHUNKS - 1) / MAX_CHUNKS;
    return fit > least ? fit : least;
}
static uint32_t chunks_of(uint64_t N, uint64_t per) { return (uint32_t)((N + per - 1) / per); }

/* ---- forward ---- */

/* h (n) f32 scratch = x + res from i on, stored to hout as well; n: VL, or what is left of a row */
RT_INLINE vf add_vector(float *h, void *hout, const void *x, const void *res, uint32_t i, uint32_t n, rt_dtype d)
{
    if (n >= VL) {
        vf v = vload_t(x, i, d) + vload_t(res, i, d);
        vstore(h + i, v);
        vstore_t(hout, i, v, d);
        return v;
    }
    vf v = vload_tn(x, i, n, d) + vload_tn(res, i, n, d);
    vstore_n(h + i, v, n);
    vstore_tn(hout, i, v, n, d);
    return v;
}
/* h (D) = x + res; returns the sum of squares before rounding, summed in the order of sum_squares: a block that is
 * recomputed from h has the same norm to the bit. */
RT_INLINE float add_residual(float *h, void *hout, const void *x, const void *res, uint32_t D, rt_dtype d)
{
    vf a = { 0 }, b = { 0 };
    uint32_t i = 0;
    for (; i + 2 * VL <= D; i += 2 * VL) {
        vf u = add_vector(h, hout, x, res, i, VL, d), v = add_vector(h, hout, x, res, i + VL, VL, d);
        a = vfma(u, u, a);
        b = vfma(v, v, b);
    }
    for (; i < D; i += VL) {
        vf u = add_vector(h, hout, x, res, i, D - i, d);
        a = vfma(u, u, a);
    }
    return vsum(a + b);
}
RT_INLINE float sum_squares(const void *x, uint32_t D, rt_dtype d)
{
    vf a = { 0 }, b = { 0 };
    uint32_t i = 0;
    for (; i + 2 * VL <= D; i += 2 * VL) {
        vf u = vload_t(x, i, d), v = vload_t(x, i + VL, d);
        a = vfma(u, u, a);
        b = vfma(v, v, b);
    }
    for (; i < D; i += VL) {
        vf u = i + VL <= D ? vload_t(x, i, d) : vload_tn(x, i, D - i, d);
        a = vfma(u, u, a);
    }
    return vsum(a + b);
}
/* Asks for the elements from i on of a row that will be read next; null: there is none. */
RT_INLINE void ask_for(const void *next, uint32_t i, rt_dtype d)
{
    if (next) __builtin_prefetch((const uint8_t *)next + (uint64_t)i * rt_dtype_table[d].block_bytes);
}
/* next, next2: rows of y's dtype that will be read after this one, or null */
RT_INLINE void normalise(void *y, const void *x, const void *w, const void *next, const void *next2, float rstd,
                         uint32_t D, rt_dtype dy, rt_dtype dx, rt_dtype dw)
{
    uint32_t i = 0;
    for (; i + VL <= D; i += VL) {
        ask_for(next, i, dy);
        ask_for(next2, i, dy);
        vstore_t(y, i, vload_t(x, i, dx) * vset(rstd) * vload_t(w, i, dw), dy);
    }
    if (i < D) vstore_tn(y, i, vload_tn(x, i, D - i, dx) * vset(rstd) * vload_tn(w, i, D - i, dw), D - i, dy);
}

typedef struct norm_job {
    const rt_bound_op *o;
    uint64_t per;
    float *scratch; /* (workers, D): the f32 sum of the residual form; backward (chunks, D) */
    uint8_t *rows;  /* (workers, row): y before it is coded; null: y is no codes */
    uint64_t row;   /* bytes */
} norm_job;

/* Where y is codes: rows of scratch, at `at`. */
static void own_rows(norm_job *j, bool codes, rt_dtype d, void *at)
{
    j->row = own_row_bytes(codes, d, j->o->args.rmsnorm.D);
    j->rows = codes ? at : NULL;
}

static void fwd_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const norm_job *j = ctx;
    const rt_rmsnorm_args *a = &j->o->args.rmsnorm;
    const rt_operand *y = &j->o->slot[RT_RMS_Y], *x = &j->o->slot[RT_RMS_X], *w = &j->o->slot[RT_RMS_W];
    uint64_t end = (chunk + 1) * j->per < a->N ? (chunk + 1) * j->per : a->N;
    const void *wp = rt_host_ptr(w);
    for (uint64_t r = chunk * j->per; r < end; r++)
        for (uint32_t g = 0; g < a->H; g++) {
            rt_cpu_span s = { r, (uint64_t)g * a->D, a->D };
            void *yp = j->rows ? j->rows + worker * j->row : span_ptr(y, s);
            const void *xp = span_ptr(x, s),
                       *next = r + 1 < a->N ? span_ptr(x, (rt_cpu_span){ r + 1, s.col, 0 }) : NULL;
            float ss;
            RT_FOR_FLOAT(x->dtype, D, ss = sum_squares(xp, a->D, D));
            float rstd = 1.0f / sqrtf(ss / (float)a->D + a->eps);
            RT_FOR_FLOAT(x->dtype, DX,
                         RT_FOR_FLOAT(w->dtype, DW, normalise(yp, xp, wp, next, NULL, rstd, a->D, DX, DX, DW)));
            if (j->rows) code_own_row(j->o, r, yp, x->dtype);
        }
}
void RT_CPU(rmsnorm_fwd)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_rmsnorm_args *a = &o->args.rmsnorm;
    norm_job j = { .o = o, .per = rows_per_chunk(a->N, (uint64_t)a->H * a->D) };
    own_rows(&j, o->slot[RT_RMS_SCALE].mem != NULL, o->slot[RT_RMS_X].dtype, rt_host_ptr(&o->work));
    rt_pool_run(c->pool, chunks_of(a->N, j.per), fwd_chunk, &j);
}
uint64_t RT_CPU(work_rmsnorm_fwd)(const rt_cpu_work *w)
{
    return w->threads * own_row_bytes(w->present[RT_RMS_SCALE], w->dtype[RT_RMS_X], w->args->rmsnorm.D);
}

static void add_fwd_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const norm_job *j = ctx;
    const rt_rmsnorm_args *a = &j->o->args.rmsnorm;
    const rt_operand *slot = j->o->slot;
    rt_dtype dx = slot[RT_ARMS_X].dtype, dw = slot[RT_ARMS_W].dtype;
    uint64_t end = (chunk + 1) * j->per < a->N ? (chunk + 1) * j->per : a->N;
    float *h = j->scratch + (uint64_t)worker * a->D;
    const void *wp = rt_host_ptr(&slot[RT_ARMS_W]);
    for (uint64_t r = chunk * j->per; r < end; r++) {
        rt_cpu_span s = { r, 0, a->D };
        void *yp = j->rows ? j->rows + worker * j->row : span_ptr(&slot[RT_ARMS_Y], s);
        void *hp = span_ptr(&slot[RT_ARMS_H], s);
        const void *xp = span_ptr(&slot[RT_ARMS_X], s), *rp = span_ptr(&slot[RT_ARMS_RES], s);
        const void *next_x = NULL, *next_res = NULL;
        if (r + 1 < a->N) {
            next_x = span_ptr(&slot[RT_ARMS_X], (rt_cpu_span){ r + 1, 0, 0 });
            next_res = span_ptr(&slot[RT_ARMS_RES], (rt_cpu_span){ r + 1, 0, 0 });
        }
        float ss;
        RT_FOR_FLOAT(dx, D, ss = add_residual(h, hp, xp, rp, a->D, D));
        float rstd = 1.0f / sqrtf(ss / (float)a->D + a->eps);
        RT_FOR_FLOAT(dx, DY,
                     RT_FOR_FLOAT(dw, DW, normalise(yp, h, wp, next_x, next_res, rstd, a->D, DY, RT_DTYPE_F32, DW)));
        if (j->rows) code_own_row(j->o, r, yp, dx);
    }
}
uint64_t RT_CPU(work_add_rmsnorm_fwd)(const rt_cpu_work *w)
{
    uint32_t D = w->args->rmsnorm.D;
    return w->threads * (own_row_bytes(w->present[RT_ARMS_SCALE], w->dtype[RT_ARMS_X], D) + D * sizeof(float));
}
void RT_CPU(add_rmsnorm_fwd)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_rmsnorm_args *a = &o->args.rmsnorm;
    norm_job j = { .o = o, .per = rows_per_chunk(a->N, a->D), .scratch = rt_host_ptr(&o->work) };
    own_rows(&j, o->slot[RT_ARMS_SCALE].mem != NULL, o->slot[RT_ARMS_X].dtype, j.scratch + (uint64_t)c->threads * a->D);
    rt_pool_run(c->pool, chunks_of(a->N, j.per), add_fwd_chunk, &j);
}

/* ---- backward: rstd = 1/sqrt(mean(x^2)+eps), recomputed;
 *      dx = rstd (dy w - x rstd^2 mean(dy w x)) [+ dres] [+ dx], dw += sum over rows of dy x rstd ---- */

RT_INLINE void bwd_sums(float *ss, float *dot, const void *dy, const void *x, const void *w, uint32_t D, rt_dtype d,
                        rt_dtype dw)
{
    vf a = { 0 }, b = { 0 };
    uint32_t i = 0;
    for (; i + VL <= D; i += VL) {
        vf vx = vload_t(x, i, d);
        a = vfma(vx, vx, a);
        b = vfma(vload_t(dy, i, d) * vload_t(w, i, dw), vx, b);
    }
    if (i < D) {
        vf vx = vload_tn(x, i, D - i, d);
        a = vfma(vx, vx, a);
        b = vfma(vload_tn(dy, i, D - i, d) * vload_tn(w, i, D - i, dw), vx, b);
    }
    *ss = vsum(a);
    *dot = vsum(b);
}
/* One vector, or n < VL lanes of one, of the second pass; part may be null (no weight gradient wanted). */
RT_INLINE void bwd_lanes(void *dx, float *part, const void *dy, const void *x, const void *w, const void *dres,
                         bool acc, float rstd, float coef, uint32_t i, uint32_t n, rt_dtype d, rt_dtype dw)
{
    bool full = n == VL;
    vf vy = full ? vload_t(dy, i, d) : vload_tn(dy, i, n, d), vx = full ? vload_t(x, i, d) : vload_tn(x, i, n, d);
    vf vw = full ? vload_t(w, i, dw) : vload_tn(w, i, n, dw);
    vf r = vy * vw * vset(rstd) - vx * vset(coef);
    if (dres) r += full ? vload_t(dres, i, d) : vload_tn(dres, i, n, d);
    if (acc) r += full ? vload_t(dx, i, d) : vload_tn(dx, i, n, d);
    vf p = vy * vx * vset(rstd);
    if (full) {
        vstore_t(dx, i, r, d);
        if (part) vstore(part + i, vload(part + i) + p);
    } else {
        vstore_tn(dx, i, r, n, d);
        if (part) vstore_n(part + i, vload_n(part + i, n) + p, n);
    }
}
RT_INLINE void bwd_group(void *dx, float *part, const void *dy, const void *x, const void *w, const void *dres,
                         bool acc, const void *next_dy, const void *next_x, uint32_t D, float eps, rt_dtype d,
                         rt_dtype dw)
{
    float ss, dot;
    bwd_sums(&ss, &dot, dy, x, w, D, d, dw);
    float rstd = 1.0f / sqrtf(ss / (float)D + eps), coef = dot / (float)D * rstd * rstd * rstd;
    uint32_t i = 0;
    for (; i + VL <= D; i += VL) {
        ask_for(next_dy, i, d);
        ask_for(next_x, i, d);
        bwd_lanes(dx, part, dy, x, w, dres, acc, rstd, coef, i, VL, d, dw);
    }
    if (i < D) bwd_lanes(dx, part, dy, x, w, dres, acc, rstd, coef, i, D - i, d, dw);
}

static void bwd_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const norm_job *j = ctx;
    const rt_bound_op *o = j->o;
    const rt_rmsnorm_args *a = &o->args.rmsnorm;
    const rt_operand *slot = o->slot;
    rt_dtype dx = slot[RT_RMSB_DX].dtype, dw = slot[RT_RMSB_W].dtype;
    uint64_t end = (chunk + 1) * j->per < a->N ? (chunk + 1) * j->per : a->N;
    bool has_res = o->kind == RT_OP_ADD_RMSNORM_BWD;
    float *part = j->scratch ? j->scratch + (uint64_t)chunk * a->D : NULL;
    const void *wp = rt_host_ptr(&slot[RT_RMSB_W]);
    (void)worker;
    if (part) memset(part, 0, a->D * sizeof *part);
    for (uint64_t r = chunk * j->per; r < end; r++)
        for (uint32_t g = 0; g < a->H; g++) {
            rt_cpu_span s = { r, (uint64_t)g * a->D, a->D };
            void *dxp = span_ptr(&slot[RT_RMSB_DX], s);
            const void *dyp = span_ptr(&slot[RT_RMSB_DY], s), *xp = span_ptr(&slot[RT_RMSB_X], s);
            const void *resp = has_res ? span_ptr(&slot[RT_RMSB_DRES], s) : NULL, *next_dy = NULL, *next_x = NULL;
            if (r + 1 < a->N) {
                next_dy = span_ptr(&slot[RT_RMSB_DY], (rt_cpu_span){ r + 1, s.col, 0 });
                next_x = span_ptr(&slot[RT_RMSB_X], (rt_cpu_span){ r + 1, s.col, 0 });
            }
            RT_FOR_FLOAT(dx, D,
                         RT_FOR_FLOAT(dw, DW,
                                      bwd_group(dxp, part, dyp, xp, wp, resp, o->acc >> RT_RMSB_DX & 1, next_dy, next_x,
                                                a->D, a->eps, D, DW)));
        }
}
static void bwd(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_rmsnorm_args *a = &o->args.rmsnorm;
    const rt_operand *dw = &o->slot[RT_RMSB_DW];
    norm_job j = { .o = o, .per = rows_per_chunk(a->N, (uint64_t)a->H * a->D) };
    if (dw->mem) j.scratch = rt_host_ptr(&o->work);
    uint32_t chunks = chunks_of(a->N, j.per);
    rt_pool_run(c->pool, chunks, bwd_chunk, &j);
    if (!dw->mem) return;
    void *out = rt_host_ptr(dw);
    for (uint32_t i = 0; i < a->D; i++) {
        float sum = 0.0f;
        for (uint32_t k = 0; k < chunks; k++) sum += j.scratch[(uint64_t)k * a->D + i];
        store_t(out, i, (o->acc >> RT_RMSB_DW & 1 ? load_t(out, i, dw->dtype) : 0.0f) + sum, dw->dtype);
    }
}
static uint64_t bwd_work(const rt_cpu_work *w)
{
    const rt_rmsnorm_args *a = &w->args->rmsnorm;
    if (!w->present[RT_RMSB_DW]) return 0;
    return (uint64_t)chunks_of(a->N, rows_per_chunk(a->N, (uint64_t)a->H * a->D)) * a->D * sizeof(float);
}
void RT_CPU(rmsnorm_bwd)(const rt_cpu_ctx *c, const rt_bound_op *o) { bwd(c, o); }
void RT_CPU(add_rmsnorm_bwd)(const rt_cpu_ctx *c, const rt_bound_op *o) { bwd(c, o); }
uint64_t RT_CPU(work_rmsnorm_bwd)(const rt_cpu_work *w) { return bwd_work(w); }
uint64_t RT_CPU(work_add_rmsnorm_bwd)(const rt_cpu_work *w) { return bwd_work(w); }
