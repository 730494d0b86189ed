/* cpu_rows.c - the plain row ops: add, scale, cast, copy, fill, bias_grad, norm_sq. Memory-bound; one pass each. */
#include "backend/cpu/cpu_split.h"

/* ---- y = a + b ---- */
RT_INLINE void add_body(void *y, const void *a, const void *b, uint64_t n, rt_dtype d)
{
    uint64_t i = 0;
    for (; i + VL <= n; i += VL) vstore_t(y, i, vload_t(a, i, d) + vload_t(b, i, d), d);
    for (; i < n; i++) store_t(y, i, load_t(a, i, d) + load_t(b, i, d), d);
}
static void add_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    void *y = span_ptr(&o->slot[RT_ROWS_Y], s);
    const void *a = span_ptr(&o->slot[RT_ROWS_X], s), *b = span_ptr(&o->slot[RT_ROWS_B], s);
    (void)ctx;
    RT_FOR_FLOAT(o->slot[RT_ROWS_Y].dtype, D, add_body(y, a, b, s.n, D));
}
void RT_CPU(add)(const rt_cpu_ctx *c, const rt_bound_op *o) { split_run(c, o, 3, add_span, NULL); }
RT_CPU_NO_WORK(add)

/* ---- y = alpha s x ---- */
RT_INLINE void scale_body(void *y, const void *x, float f, uint64_t n, rt_dtype d)
{
    uint64_t i = 0;
    for (; i + VL <= n; i += VL) vstore_t(y, i, vload_t(x, i, d) * vset(f), d);
    for (; i < n; i++) store_t(y, i, load_t(x, i, d) * f, d);
}
static void scale_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    void *y = span_ptr(&o->slot[RT_ROWS_Y], s);
    const void *x = span_ptr(&o->slot[RT_ROWS_X], s);
    float f = *(const float *)ctx;
    RT_FOR_FLOAT(o->slot[RT_ROWS_Y].dtype, D, scale_body(y, x, f, s.n, D));
}
void RT_CPU(scale)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const float *s = rt_host_ptr(&o->slot[RT_ROWS_B]);
    float f = o->args.rows.alpha * (s ? *s : 1.0f);
    split_run(c, o, 2, scale_span, &f);
}
RT_CPU_NO_WORK(scale)

/* ---- y = x in another dtype ---- */
RT_INLINE void cast_body(void *y, const void *x, uint64_t n, rt_dtype dy, rt_dtype dx)
{
    uint64_t i = 0;
    for (; i + VL <= n; i += VL) vstore_t(y, i, vload_t(x, i, dx), dy);
    for (; i < n; i++) store_t(y, i, load_t(x, i, dx), dy);
}
static void cast_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    void *y = span_ptr(&o->slot[RT_ROWS_Y], s);
    const void *x = span_ptr(&o->slot[RT_ROWS_X], s);
    (void)ctx;
    RT_FOR_FLOAT(o->slot[RT_ROWS_Y].dtype, DY,
                 RT_FOR_FLOAT(o->slot[RT_ROWS_X].dtype, DX, cast_body(y, x, s.n, DY, DX)));
}
void RT_CPU(cast)(const rt_cpu_ctx *c, const rt_bound_op *o) { split_run(c, o, 2, cast_span, NULL); }
RT_CPU_NO_WORK(cast)

/* ---- y = value ---- */
RT_INLINE void fill_body(void *y, float value, uint64_t n, rt_dtype d)
{
    uint64_t i = 0;
    for (; i + VL <= n; i += VL) vstore_t(y, i, vset(value), d);
    for (; i < n; i++) store_t(y, i, value, d);
}
static void fill_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    void *y = span_ptr(&o->slot[RT_ROWS_Y], s);
    (void)ctx;
    RT_FOR_FLOAT(o->slot[RT_ROWS_Y].dtype, D, fill_body(y, o->args.rows.alpha, s.n, D));
}
void RT_CPU(fill)(const rt_cpu_ctx *c, const rt_bound_op *o) { split_run(c, o, 1, fill_span, NULL); }
RT_CPU_NO_WORK(fill)

/* ---- y = x, any dtype; or y[rows[i]] = x[i] ---- */
static void copy_rows(void *ctx, uint32_t chunk, uint32_t worker)
{
    const rt_bound_op *o = ctx;
    const rt_operand *y = &o->slot[RT_ROWS_Y], *x = &o->slot[RT_ROWS_X];
    uint64_t bytes = rt_dtype_bytes(x->dtype, x->cols), ys = rt_dtype_bytes(y->dtype, y->stride);
    uint64_t xs = rt_dtype_bytes(x->dtype, x->stride), per = RT_SPLIT_ELEMS / x->cols + 1;
    uint64_t end = (chunk + 1) * per < x->rows ? (chunk + 1) * per : x->rows;
    (void)worker;
    for (uint64_t i = chunk * per; i < end; i++)
        memcpy((uint8_t *)rt_host_ptr(y) + i * ys, (const uint8_t *)rt_host_ptr(x) + i * xs, bytes);
}
/* In order on one thread: of two rows with the same index the later one must win, and rows are few (cache appends). */
static void copy_scatter(const rt_bound_op *o)
{
    const rt_operand *y = &o->slot[RT_ROWS_Y], *x = &o->slot[RT_ROWS_X], *r = &o->slot[RT_ROWS_B];
    const int32_t *rows = rt_host_ptr(r);
    uint64_t bytes = rt_dtype_bytes(x->dtype, x->cols), ys = rt_dtype_bytes(y->dtype, y->stride);
    uint64_t xs = rt_dtype_bytes(x->dtype, x->stride);
    for (uint64_t i = 0; i < x->rows; i++) {
        int64_t to = rows[i * r->stride];
        if (to >= 0 && to < (int64_t)y->rows)
            memcpy((uint8_t *)rt_host_ptr(y) + (uint64_t)to * ys, (const uint8_t *)rt_host_ptr(x) + i * xs, bytes);
    }
}
void RT_CPU(copy)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_operand *x = &o->slot[RT_ROWS_X];
    if (o->slot[RT_ROWS_B].mem) {
        copy_scatter(o);
    } else {
        uint64_t per = RT_SPLIT_ELEMS / x->cols + 1;
        rt_pool_run(c->pool, (uint32_t)((x->rows + per - 1) / per), copy_rows, (void *)(uintptr_t)o);
    }
}
RT_CPU_NO_WORK(copy)

/* ---- db (C) = or += sum over rows of dy (N,C): a chunk is a stripe of columns; rows are summed in blocks of 64, so
 * the rounding error grows with N/64 and not with N ---- */
enum { STRIPE = 4 * VL, ROW_BLOCK = 64 };

RT_INLINE void bias_stripe(float *sum /* (STRIPE) = */, const rt_operand *dy, uint64_t col, uint32_t n, rt_dtype d)
{
    const uint8_t *base = rt_host_ptr(dy);
    uint64_t size = rt_dtype_table[d].block_bytes;
    vf total[STRIPE / VL] = { { 0 } };
    for (uint64_t r = 0; r < dy->rows;) {
        vf part[STRIPE / VL] = { { 0 } };
        uint64_t end = r + ROW_BLOCK < dy->rows ? r + ROW_BLOCK : dy->rows;
        for (; r < end; r++) {
            const void *x = base + (r * dy->stride + col) * size;
            for (uint32_t j = 0; j < STRIPE / VL; j++) {
                uint32_t at = j * VL;
                if (at + VL <= n)
                    part[j] += vload_t(x, at, d);
                else if (at < n)
                    part[j] += vload_tn(x, at, n - at, d);
            }
        }
        for (uint32_t j = 0; j < STRIPE / VL; j++) total[j] += part[j];
    }
    for (uint32_t j = 0; j < STRIPE / VL; j++) vstore(sum + j * VL, total[j]);
}
static void bias_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const rt_bound_op *o = ctx;
    const rt_operand *db = &o->slot[RT_BIASG_DB], *dy = &o->slot[RT_BIASG_DY];
    uint64_t col = (uint64_t)chunk * STRIPE;
    uint32_t n = dy->cols - col < STRIPE ? (uint32_t)(dy->cols - col) : STRIPE;
    float sum[STRIPE];
    void *out = rt_host_ptr(db);
    (void)worker;
    RT_FOR_FLOAT(dy->dtype, D, bias_stripe(sum, dy, col, n, D));
    for (uint32_t j = 0; j < n; j++)
        store_t(out, col + j, (o->acc & 1 ? load_t(out, col + j, db->dtype) : 0.0f) + sum[j], db->dtype);
}
void RT_CPU(bias_grad)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    rt_pool_run(c->pool, (o->slot[RT_BIASG_DY].cols + STRIPE - 1) / STRIPE, bias_chunk, (void *)(uintptr_t)o);
}
RT_CPU_NO_WORK(bias_grad)

/* ---- out = or += sum of x^2; partial sums per chunk, added in order. A lane adds at most SQ_RUN squares in f32, and
 * all above that is double: small squares added to a large sum round down more often than up, so the error of a lane
 * grows with the number it adds and not with its root ---- */
enum { SQ_RUN = 32 };

typedef struct norm_job {
    const rt_operand *x;
    double *part; /* (chunks) */
    uint64_t rows_per;
} norm_job;

RT_INLINE double row_sq(const void *x, uint64_t n, rt_dtype d)
{
    double sum = 0;
    for (uint64_t i = 0; i < n;) {
        vf a = { 0 }, b = { 0 };
        uint64_t end = i + SQ_RUN * 2 * VL < n ? i + SQ_RUN * 2 * VL : n;
        for (; i + 2 * VL <= end; i += 2 * VL) {
            vf u = vload_t(x, i, d), v = vload_t(x, i + VL, d);
            a = vfma(u, u, a);
            b = vfma(v, v, b);
        }
        sum += vsum(a + b);
        for (; i < end; i++) sum += (double)load_t(x, i, d) * load_t(x, i, d);
    }
    return sum;
}
static void norm_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const norm_job *j = ctx;
    uint64_t r = chunk * j->rows_per, end = r + j->rows_per < j->x->rows ? r + j->rows_per : j->x->rows;
    double sum = 0;
    (void)worker;
    for (; r < end; r++) {
        const void *x = span_ptr(j->x, (rt_cpu_span){ r, 0, 0 });
        RT_FOR_FLOAT(j->x->dtype, D, sum += row_sq(x, j->x->cols, D));
    }
    j->part[chunk] = sum;
}
static uint64_t norm_rows_per(uint32_t cols) { return RT_SPLIT_ELEMS / cols + 1; }

static uint32_t first_bad_row(const rt_operand *x)
{
    for (uint64_t r = 0; r < x->rows; r++)
        for (uint64_t i = 0; i < x->cols; i++)
            if (!isfinite(load_t(span_ptr(x, (rt_cpu_span){ r, 0, 0 }), i, x->dtype))) return (uint32_t)r;
    return 0;
}

uint64_t RT_CPU(work_norm_sq)(const rt_cpu_work *w)
{
    uint64_t per = norm_rows_per(w->args->rows.C);
    return (w->args->rows.N + per - 1) / per * sizeof(double);
}
void RT_CPU(norm_sq)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_operand *x = &o->slot[RT_NSQ_X];
    norm_job job = { x, rt_host_ptr(&o->work), norm_rows_per(x->cols) };
    uint32_t chunks = (uint32_t)((x->rows + job.rows_per - 1) / job.rows_per);
    float *out = rt_host_ptr(&o->slot[RT_NSQ_OUT]);
    double sum = 0;
    rt_pool_run(c->pool, chunks, norm_chunk, &job);
    for (uint32_t i = 0; i < chunks; i++) sum += job.part[i];
    rt_fault *fault = rt_host_ptr(&o->slot[RT_NSQ_FAULT]);
    if (fault && !fault->set && !isfinite(sum))
        *fault = (rt_fault){ 1, ((const rt_step *)rt_host_ptr(&o->slot[RT_NSQ_STEP]))->step, o->args.rows.site,
                             first_bad_row(x) };
    *out = (float)((o->acc & 1 ? *out : 0.0) + sum);
}
