/* convert_check.c - what was written, read back through the same door as any model and compared with what was read.
 *
 * Every tensor is cut into chunks of a fixed number of elements; each chunk sums in double, in a fixed order, and the
 * chunks' sums are added in their order. So the figures do not depend on the number of threads. */
#include "format/convert.h"

#include <math.h>

enum {
    CHUNK_ELEMS = 1 << 20, /* of one unit of work, where a row is not longer */
    PIECE_ELEMS = 1 << 15, /* that are in f32 at a time, likewise */
    BATCH = 64,            /* chunks between two calls of progress */
    LANES = 8,
};

typedef struct sums {
    double error_squares, value_squares, max_error;
    double change_squares; /* of what an adapter adds */
    uint64_t nonfinite, lost;
    bool same;
} sums;

typedef struct pair {
    const rt_tensor *a, *b;  /* read, written */
    uint64_t rows, cols;     /* rows 1 for a vector */
    uint64_t rows_per_chunk; /* at least 1 */
    uint32_t first, count;   /* chunks */
    bool bytes;              /* the stored rows can be compared as they are */
} pair;

typedef struct check {
    pair *pairs;
    uint32_t pair_count, chunk_count, offset; /* offset: of the running batch */
    sums *of_chunk;
    float *scratch;    /* (threads, 3, per_part) */
    uint64_t per_part; /* elements of a third of a thread's scratch */
} check;

/* ---- one piece ---- */

static bool either_nonfinite(const float *a, const float *b, uint64_t i) { return !isfinite(a[i]) || !isfinite(b[i]); }

/* The piece again, value by value, when something in it is not finite. */
static void sum_slowly(sums *s, const float *a, const float *b, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        if (!isfinite(a[i])) s->nonfinite++;
        if (isfinite(a[i]) && !isfinite(b[i])) s->lost++;
        if (either_nonfinite(a, b, i)) {
            if (rt_f32_bits(a[i]) != rt_f32_bits(b[i]) && !(isnan(a[i]) && isnan(b[i]))) s->same = false;
            continue;
        }
        double d = (double)b[i] - (double)a[i];
        s->error_squares += d * d;
        s->value_squares += (double)a[i] * (double)a[i];
        if (fabs(d) > s->max_error) s->max_error = fabs(d);
        if (rt_f32_bits(a[i]) != rt_f32_bits(b[i])) s->same = false;
    }
}

static void sum_piece(sums *s, const float *a, const float *b, uint64_t n)
{
    double errors[LANES] = { 0 }, values[LANES] = { 0 }, most[LANES] = { 0 };
    uint64_t whole = n / LANES * LANES;
    for (uint64_t i = 0; i < whole; i += LANES)
        for (int k = 0; k < LANES; k++) {
            double d = (double)b[i + (uint64_t)k] - (double)a[i + (uint64_t)k];
            errors[k] += d * d;
            values[k] += (double)a[i + (uint64_t)k] * (double)a[i + (uint64_t)k];
            most[k] = fabs(d) > most[k] ? fabs(d) : most[k];
        }
    sums piece = { .same = s->same };
    for (int k = 0; k < LANES; k++) {
        piece.error_squares += errors[k];
        piece.value_squares += values[k];
        piece.max_error = most[k] > piece.max_error ? most[k] : piece.max_error;
    }
    /* A difference of f32 values cannot overflow in double: these are finite exactly when all values are. */
    if (!isfinite(piece.error_squares) || !isfinite(piece.value_squares)) {
        sum_slowly(s, a, b, n);
        return;
    }
    if (whole < n) sum_slowly(&piece, a + whole, b + whole, n - whole);
    if (piece.same && memcmp(a, b, n * sizeof *a) != 0) piece.same = false;
    s->error_squares += piece.error_squares;
    s->value_squares += piece.value_squares;
    s->max_error = piece.max_error > s->max_error ? piece.max_error : s->max_error;
    s->nonfinite += piece.nonfinite;
    s->lost += piece.lost;
    s->same = piece.same;
}

/* Of differences that are finite. */
static double squares_between(const float *a, const float *b, uint64_t n)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        double d = (double)b[i] - (double)a[i];
        if (isfinite(d)) sum += d * d;
    }
    return sum;
}

/* ---- one chunk ---- */

/* True when the stored bytes of rows [row, row + rows) are the same; then their non-finite values are counted. */
static bool same_bytes(sums *s, const pair *p, uint64_t row, uint64_t rows)
{
    bool in_order = !p->a->swap_heads && !p->b->swap_heads;
    uint64_t bytes, step = in_order ? PIECE_ELEMS / p->cols : 1, nonfinite = 0;
    if (step == 0) step = 1;
    for (uint64_t r = row; r < row + rows; r += step) {
        uint64_t n = row + rows - r < step ? row + rows - r : step;
        const void *a = rt_tensor_row(p->a, r, &bytes), *b = rt_tensor_row(p->b, r, NULL);
        if (memcmp(a, b, n * bytes) != 0) return false;
        nonfinite += rt_count_nonfinite(a, p->a->dtype, n * p->cols);
    }
    s->nonfinite += nonfinite;
    return true;
}

static void compare_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const check *c = ctx;
    uint32_t low = 0, high = c->pair_count - 1;
    chunk += c->offset;
    while (low < high) { /* the last pair whose first chunk is not after this one */
        uint32_t middle = low + (high - low + 1) / 2;
        if (c->pairs[middle].first <= chunk)
            low = middle;
        else
            high = middle - 1;
    }
    const pair *p = &c->pairs[low];
    uint64_t row = (chunk - p->first) * p->rows_per_chunk, rows = p->rows - row;
    if (rows > p->rows_per_chunk) rows = p->rows_per_chunk;
    sums *s = &c->of_chunk[chunk];
    s->same = true;
    if (p->bytes && same_bytes(s, p, row, rows)) return;
    float *a = c->scratch + 3 * worker * c->per_part, *b = a + c->per_part, *base = b + c->per_part;
    uint64_t step = c->per_part / p->cols;
    for (uint64_t r = row; r < row + rows; r += step) {
        uint64_t n = row + rows - r < step ? row + rows - r : step;
        rt_tensor_to_f32(a, p->a, r, n);
        rt_tensor_to_f32(b, p->b, r, n);
        sum_piece(s, a, b, n * p->cols);
        if (p->a->store != RT_STORE_MERGED) continue;
        rt_tensor_to_f32(base, rt_tensor_under(p->a), r, n);
        s->change_squares += squares_between(base, a, n * p->cols);
    }
}

/* ---- the whole ---- */

static int make_pairs(check *c, const rt_convert *v, const rt_model_file *back, rt_arena *a, rt_err *e)
{
    char name[RT_NAME_BYTES];
    uint64_t chunks = 0;
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        const rt_convert_tensor *t = &v->tensors[i];
        pair *p = &c->pairs[i];
        p->a = t->from;
        p->b = rt_model_file_find(back, rt_role_hf_name(name, t->role, t->layer));
        if (!p->b || p->b->dtype != t->to || p->b->store != RT_STORE_PLAIN || p->b->rank != p->a->rank ||
            memcmp(p->a->shape, p->b->shape, p->a->rank * sizeof *p->a->shape) != 0)
            return rt_fail(e, RT_INTERNAL, "%s: tensor %s was not read back as it was written", v->opts.path, name);
        p->cols = rt_tensor_cols(p->a);
        p->rows = rt_tensor_rows(p->a);
        p->rows_per_chunk = CHUNK_ELEMS / p->cols ? CHUNK_ELEMS / p->cols : 1;
        p->first = (uint32_t)chunks;
        p->count = (uint32_t)((p->rows + p->rows_per_chunk - 1) / p->rows_per_chunk);
        p->bytes = p->a->store == RT_STORE_PLAIN && p->a->dtype == p->b->dtype &&
                   (p->a->rank == 2 || (!p->a->swap_heads && !p->b->swap_heads));
        chunks += p->count;
        if (chunks > UINT32_MAX) return rt_fail(e, RT_UNSUPPORTED, "%s is too large to be compared", v->opts.path);
    }
    c->chunk_count = (uint32_t)chunks;
    c->of_chunk = rt_arena_alloc(a, c->chunk_count * sizeof *c->of_chunk);
    return c->of_chunk ? RT_OK : rt_no_memory(e, v->opts.path);
}

static int run_chunks(check *c, rt_convert_progress_fn progress, void *ctx, rt_pool *pool, rt_err *e)
{
    for (c->offset = 0; c->offset < c->chunk_count; c->offset += BATCH) {
        uint32_t n = c->chunk_count - c->offset < BATCH ? c->chunk_count - c->offset : BATCH;
        rt_pool_run(pool, n, compare_chunk, c);
        int rc = progress ? progress(ctx, "comparing", c->offset + n, c->chunk_count) : RT_OK;
        if (rc < 0) return rt_fail(e, rc, "stopped while the output was compared; nothing was written");
    }
    return RT_OK;
}

static void add_up(rt_convert *v, const check *c)
{
    double errors = 0, changed_errors = 0, changed_values = 0, merged_errors = 0, merged_changes = 0;
    v->same = 0;
    v->nonfinite = v->lost = 0;
    v->max_error = 0;
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        rt_convert_tensor *t = &v->tensors[i];
        t->same = true;
        t->nonfinite = t->lost = 0;
        t->error_squares = t->value_squares = t->max_error = 0;
        for (uint32_t k = 0; k < c->pairs[i].count; k++) {
            const sums *s = &c->of_chunk[c->pairs[i].first + k];
            t->same &= s->same;
            t->nonfinite += s->nonfinite;
            t->lost += s->lost;
            t->error_squares += s->error_squares;
            merged_changes += s->change_squares;
            t->value_squares += s->value_squares;
            t->max_error = s->max_error > t->max_error ? s->max_error : t->max_error;
        }
        errors += t->error_squares;
        if (t->from->store == RT_STORE_MERGED) merged_errors += t->error_squares;
        if (!t->same) {
            changed_errors += t->error_squares;
            changed_values += t->value_squares;
        }
        v->same += t->same;
        v->nonfinite += t->nonfinite;
        v->lost += t->lost;
        v->max_error = t->max_error > v->max_error ? t->max_error : v->max_error;
    }
    v->rmse = v->elems ? sqrt(errors / (double)v->elems) : 0;
    v->of_change = merged_changes > 0 ? sqrt(merged_errors / merged_changes) : 0;
    v->relative = changed_values > 0 ? sqrt(changed_errors / changed_values) : 0;
}

static int judge(const rt_convert *v, rt_err *e)
{
    char name[RT_NAME_BYTES];
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        const rt_convert_tensor *t = &v->tensors[i];
        bool plain = t->from->store == RT_STORE_PLAIN;
        bool exact = (plain && t->to == t->from->dtype) ||
                     (t->to == RT_DTYPE_F32 && (!plain || rt_dtype_is_quant(t->from->dtype) ||
                                                t->from->dtype == RT_DTYPE_F16 || t->from->dtype == RT_DTYPE_BF16));
        rt_role_hf_name(name, t->role, t->layer);
        if (exact && !t->same)
            return rt_fail(
                e, RT_IO,
                "%s: tensor %s read back is not what was written: the disk or the memory is at fault; nothing was kept",
                v->opts.path, name);
        if (t->lost)
            return rt_fail(
                e, RT_NONFINITE,
                "%llu values of %s became infinite or NaN in %s: %s; take --dtype bf16 or f32; nothing was kept",
                (unsigned long long)t->lost, name, rt_dtype_name(t->to),
                t->nonfinite ? "the input holds values that are not finite, and a block shares its scale"
                             : "they are beyond what it can hold");
    }
    return RT_OK;
}

int rt_convert_compare(rt_convert *v, const char *path, rt_convert_progress_fn progress, void *ctx, rt_pool *pool,
                       rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    rt_model_file *back = NULL;
    check c = { .pair_count = v->tensor_count };
    uint64_t bytes;
    const rt_hub_env env = { 0 };
    RT_TRY(rt_model_file_open(&back, path, &env, e));
    RT_TRY(rt_model_file_check(back, e));
    c.per_part = rt_align_up(v->largest_cols > PIECE_ELEMS ? v->largest_cols : PIECE_ELEMS, 64);
    c.pairs = rt_arena_alloc(&a, v->tensor_count * sizeof *c.pairs);
    if (!c.pairs || !rt_mul_u64(3 * c.per_part * sizeof(float), rt_pool_threads(pool), &bytes) ||
        !(c.scratch = rt_alloc(bytes, 64))) {
        rc = rt_no_memory(e, v->opts.path);
        goto out;
    }
    RT_TRY(make_pairs(&c, v, back, &a, e));
    RT_TRY(run_chunks(&c, progress, ctx, pool, e));
    add_up(v, &c);
    RT_TRY(judge(v, e));
    v->file_bytes = 0;
    for (uint32_t i = 0; i < back->part_count; i++) v->file_bytes += back->parts[i].map.size;
out:
    rt_free(c.scratch);
    rt_arena_free(&a);
    rt_model_file_close(back);
    return rc;
}
