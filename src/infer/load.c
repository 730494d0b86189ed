/* load.c - see load.h. Rows go through staging buffers of a few megabytes, so a whole tensor never exists twice;
 * several are prepared at the same time, and written in order. */
#include "infer/load.h"

#include "base/pool.h"

#include "num/e4m3.h"
#include "num/quant.h"

#include <math.h>

enum { STAGE_BYTES = 4 << 20, MOST_PIECES = 8 };

static const rt_tensor *stored(const rt_model_file *m, const rt_param *p)
{
    char name[RT_NAME_BYTES];
    return rt_model_file_find(m, rt_role_hf_name(name, p->role, p->layer));
}

int rt_load_dtypes(rt_dtype *dtypes, const rt_model_file *m, rt_err *e)
{
    rt_param p = { 0 };
    char name[RT_NAME_BYTES];
    for (uint32_t i = 0; rt_param_at(&m->config, i, &p.role, &p.layer); i++) {
        const rt_tensor *t = stored(m, &p);
        if (!t)
            return rt_fail(e, RT_FORMAT, "%s: tensor %s is missing", m->spec, rt_role_hf_name(name, p.role, p.layer));
        bool plain = t->store == RT_STORE_PLAIN && rt_dtype_is_float(t->dtype) && t->dtype != RT_DTYPE_F64;
        bool packed = t->store == RT_STORE_PLAIN && rt_dtype_is_quant(t->dtype) && t->rank == 2;
        dtypes[i] = plain || packed ? t->dtype : RT_DTYPE_F32;
    }
    return RT_OK;
}

/* The first value that is not finite. Quantised rows are dequantised to be looked at. */
static bool all_finite(const void *rows, rt_dtype d, uint64_t n, float *scratch, uint64_t *where)
{
    const float *x = rows;
    if (d != RT_DTYPE_F32) {
        if (rt_dtype_is_quant(d))
            rt_quant_to_f32(scratch, rows, d, n);
        else
            rt_float_to_f32(scratch, rows, d, n);
        x = scratch;
    }
    float bad = 0; /* x - x is 0 for a finite x and NaN else; one sum over the run vectorises */
    for (uint64_t i = 0; i < n; i++) bad += x[i] - x[i];
    if (bad == 0) return true;
    for (*where = 0; *where < n && isfinite(x[*where]);) ++*where;
    return false;
}

/* One piece of a tensor on its way: rows, and what was found in them. */
typedef struct piece {
    void *rows;     /* of the buffer's dtype */
    float *scratch; /* the same rows as f32 */
    float *scale;   /* (rows) of e4m3, */
    double *wide;   /* and as f64, for the specification */
    uint64_t first, count;
    bool finite;
    uint64_t where; /* the first value that is not */
} piece;

/* Pieces that are prepared at the same time; they are written in order. */
typedef struct stage {
    rt_pool *pool;
    piece piece[MOST_PIECES];
    uint32_t pieces;
    uint64_t rows_at_once, room; /* rows of a piece; values that its memory holds, */
    uint64_t scale_room;         /* and scales */
    const rt_tensor *tensor;
    rt_dtype dtype, scale_dtype;
    bool stays; /* in the file: it is looked through alone */
} stage;

static void stage_close(stage *s)
{
    for (uint32_t i = 0; i < MOST_PIECES; i++) {
        rt_free(s->piece[i].rows);
        rt_free(s->piece[i].scratch);
        rt_free(s->piece[i].scale);
        rt_free(s->piece[i].wide);
    }
    rt_pool_free(s->pool);
}

static int stage_open(stage *s, rt_err *e)
{
    uint32_t threads = rt_cpu_count();
    s->pieces = threads < MOST_PIECES ? threads : MOST_PIECES;
    return rt_pool_new(&s->pool, s->pieces, e);
}

/* Memory for rows of so many values. */
static int stage_widen(stage *s, uint64_t cols, rt_err *e)
{
    s->rows_at_once = STAGE_BYTES / (cols * sizeof(float)) + 1;
    uint64_t need = s->rows_at_once * cols;
    if (need <= s->room) return RT_OK;
    s->room = need;
    for (uint32_t i = 0; i < s->pieces; i++) {
        piece *p = &s->piece[i];
        rt_free(p->rows);
        rt_free(p->scratch);
        p->rows = rt_alloc(need * sizeof(double), 64);
        p->scratch = rt_alloc(need * sizeof(float), 64);
        if (!p->rows || !p->scratch)
            return rt_fail(e, RT_NOMEM, "no memory to load rows of %llu values", (unsigned long long)cols);
    }
    return RT_OK;
}

/* Memory for a scale of each row, of e4m3. */
static int stage_scales(stage *s, rt_err *e)
{
    if (s->dtype != RT_DTYPE_E4M3 || s->rows_at_once <= s->scale_room) return RT_OK;
    s->scale_room = s->rows_at_once;
    for (uint32_t i = 0; i < s->pieces; i++) {
        piece *p = &s->piece[i];
        rt_free(p->scale);
        rt_free(p->wide);
        p->scale = rt_alloc(s->scale_room * sizeof *p->scale, 64);
        p->wide = rt_alloc(s->scale_room * sizeof *p->wide, 64);
        if (!p->scale || !p->wide) return rt_no_memory(e, "the scales of rows");
    }
    return RT_OK;
}

/* Codes and scales. Looked through before: codes do not tell where a value was not finite. */
static void prepare_e4m3(const stage *s, piece *p, uint64_t cols)
{
    rt_tensor_to_f32(p->scratch, s->tensor, p->first, p->count);
    p->finite = all_finite(p->scratch, RT_DTYPE_F32, p->count * cols, NULL, &p->where);
    rt_e4m3_rows(p->rows, p->scale, p->scratch, p->count, cols);
    for (uint64_t i = 0; i < p->count; i++) p->wide[i] = p->scale[i];
}

/* Rows in the buffer's dtype, looked through. f64 exists for the specification alone. */
static void prepare(void *ctx, uint32_t chunk, uint32_t worker)
{
    stage *s = ctx;
    piece *p = &s->piece[chunk];
    uint64_t cols = rt_tensor_cols(s->tensor), n = p->count * cols;
    (void)worker;
    if (s->dtype == RT_DTYPE_E4M3) {
        prepare_e4m3(s, p, cols);
        return;
    }
    if (s->dtype != RT_DTYPE_F64) {
        rt_tensor_to_dtype(p->rows, s->dtype, s->tensor, p->first, p->count, p->scratch);
    } else {
        rt_tensor_to_f32(p->scratch, s->tensor, p->first, p->count);
        for (uint64_t i = 0; i < n; i++) ((double *)p->rows)[i] = p->scratch[i];
    }
    p->finite = all_finite(p->rows, s->dtype, n, p->scratch, &p->where);
}

/* The rows of a piece. */
static rt_view rows_of(rt_view v, const stage *s, const piece *p)
{
    if (rt_tensor_rows(s->tensor) > 1) {
        v.off += p->first * v.stride;
        v.rows = (uint32_t)p->count;
    }
    return v;
}

static int write_piece(rt_exec *x, const stage *s, const piece *p, const rt_param *to, const char *spec, rt_err *e)
{
    int rc;
    const rt_tensor *t = s->tensor;
    uint64_t cols = rt_tensor_cols(t);
    if (!p->finite)
        return rt_fail(e, RT_NONFINITE,
                       "%s: tensor %s has a value that is not finite at row %llu, column %llu; "
                       "the file is damaged or came from a run that diverged",
                       spec, t->name, (unsigned long long)(p->first + p->where / cols),
                       (unsigned long long)(p->where % cols));
    if (s->stays) return RT_OK;
    RT_TRY(rt_exec_write(x, rows_of(to->value, s, p), p->rows, rt_dtype_bytes(s->dtype, p->count * cols), e));
    if (!to->scale.buf) return RT_OK;
    const void *scale = s->scale_dtype == RT_DTYPE_F64 ? (const void *)p->wide : (const void *)p->scale;
    RT_TRY(rt_exec_write(x, rows_of(to->scale, s, p), scale, rt_dtype_bytes(s->scale_dtype, p->count), e));
out:
    return rc;
}

static int load_one(rt_exec *x, stage *s, const rt_param *p, const rt_tensor *t, const char *spec, rt_err *e)
{
    int rc;
    uint64_t rows = rt_tensor_rows(t), cols = rt_tensor_cols(t), row = 0;
    if (rows * cols != (uint64_t)p->value.rows * p->value.cols)
        return rt_fail(e, RT_FORMAT, "%s: tensor %s has another shape than the configuration says", spec, t->name);
    s->tensor = t;
    s->dtype = rt_plan_dtype(rt_exec_plan(x, 0), p->value);
    s->stays = rt_plan_buffer(rt_exec_plan(x, 0), p->value)->cls == RT_CLASS_DISK;
    if (p->scale.buf) s->scale_dtype = rt_plan_dtype(rt_exec_plan(x, 0), p->scale);
    RT_TRY(stage_widen(s, cols, e));
    RT_TRY(stage_scales(s, e));
    while (row < rows) {
        uint32_t n = 0;
        for (; n < s->pieces && row < rows; n++) {
            s->piece[n].first = row;
            s->piece[n].count = rows - row < s->rows_at_once ? rows - row : s->rows_at_once;
            row += s->piece[n].count;
        }
        rt_pool_run(s->pool, n, prepare, s);
        for (uint32_t i = 0; i < n; i++) RT_TRY(write_piece(x, s, &s->piece[i], p, spec, e));
    }
out:
    return rc;
}

int rt_load_rope(rt_exec *x, const rt_decoder *d, rt_err *e)
{
    int rc;
    uint32_t half = d->config.head_dim / 2;
    rt_dtype t = rt_plan_dtype(rt_exec_plan(x, 0), d->freq);
    float scale, *freq = rt_alloc(half * sizeof *freq, 16);
    double *wide = rt_alloc(half * sizeof *wide, 16);
    if (!freq || !wide) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a rope table"));
    RT_TRY(rt_rope_freqs(freq, &scale, d->config.head_dim, &d->config.rope, e));
    for (uint32_t i = 0; i < half; i++) wide[i] = freq[i];
    RT_TRY(rt_exec_write(x, d->freq, t == RT_DTYPE_F64 ? (void *)wide : (void *)freq, rt_dtype_bytes(t, half), e));
out:
    rt_free(freq);
    rt_free(wide);
    return rc;
}

int rt_load_weights(rt_exec *x, const rt_decoder *d, const rt_model_file *m, const rt_watch *watch, rt_err *e)
{
    int rc;
    char name[RT_NAME_BYTES];
    stage s = { 0 };
    RT_TRY(stage_open(&s, e));
    for (uint32_t i = 0; i < d->model_params; i++) {
        const rt_tensor *t = stored(m, &d->params[i]);
        if (!t) RT_TRY(rt_fail(e, RT_FORMAT, "%s: tensor %s is missing", m->spec, rt_param_name(name, &d->params[i])));
        RT_TRY(rt_watch_step(watch, "loading weights", i, d->model_params, e));
        RT_TRY(load_one(x, &s, &d->params[i], t, m->spec, e));
        rt_model_file_done_with(m, t);
    }
    if (d->freq.buf) RT_TRY(rt_load_rope(x, d, e)); /* a head alone has none */
out:
    stage_close(&s);
    return rc;
}

/* Codes and scales of an e4m3 parameter, in either direction: raw (elements), scale (rows) as the plan keeps them. */
static int move_e4m3(rt_exec *x, const rt_param *p, uint8_t *codes, float *scale, bool write, rt_err *e)
{
    int rc;
    uint64_t rows = p->value.rows, n = rows * p->value.cols;
    bool wide = rt_plan_dtype(rt_exec_plan(x, 0), p->scale) == RT_DTYPE_F64;
    double *as_f64 = NULL;
    if (wide && !(as_f64 = rt_alloc(rows * sizeof *as_f64, 64))) RT_TRY(rt_no_memory(e, "the scales of rows"));
    void *kept = wide ? (void *)as_f64 : (void *)scale;
    uint64_t bytes = rows * (wide ? sizeof *as_f64 : sizeof *scale);
    for (uint64_t i = 0; wide && write && i < rows; i++) as_f64[i] = scale[i];
    RT_TRY(write ? rt_exec_write(x, p->value, codes, n, e) : rt_exec_read(x, p->value, codes, n, e));
    RT_TRY(write ? rt_exec_write(x, p->scale, kept, bytes, e) : rt_exec_read(x, p->scale, kept, bytes, e));
    for (uint64_t i = 0; wide && !write && i < rows; i++) scale[i] = (float)as_f64[i];
out:
    rt_free(as_f64);
    return rc;
}

/* to null: in is written; else it is read. */
static int e4m3_param(rt_exec *x, const rt_param *p, float *to, const float *in, rt_err *e)
{
    int rc;
    uint64_t rows = p->value.rows, cols = p->value.cols;
    uint8_t *codes = rt_alloc(rows * cols, 64);
    float *scale = rt_alloc(rows * sizeof *scale, 64);
    if (!codes || !scale) RT_TRY(rt_no_memory(e, "the codes of a parameter"));
    if (in) rt_e4m3_rows(codes, scale, in, rows, cols);
    RT_TRY(move_e4m3(x, p, codes, scale, in != NULL, e));
    if (to) rt_e4m3_rows_to_f32(to, codes, scale, rows, cols);
out:
    rt_free(codes);
    rt_free(scale);
    return rc;
}

int rt_read_param(rt_exec *x, const rt_decoder *d, uint32_t i, float *out, rt_err *e)
{
    int rc;
    const rt_param *p = &d->params[i];
    rt_dtype t = rt_plan_dtype(rt_exec_plan(x, 0), p->value);
    uint64_t n = (uint64_t)p->value.rows * p->value.cols, bytes = rt_dtype_bytes(t, n);
    void *raw = NULL;
    if (t == RT_DTYPE_F32) return rt_exec_read(x, p->value, out, bytes, e);
    if (t == RT_DTYPE_E4M3) return e4m3_param(x, p, out, NULL, e);
    if (!(raw = rt_alloc(bytes, 64))) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to read a parameter back"));
    RT_TRY(rt_exec_read(x, p->value, raw, bytes, e));
    if (rt_dtype_is_quant(t))
        rt_quant_to_f32(out, raw, t, n);
    else
        rt_float_to_f32(out, raw, t, n);
out:
    rt_free(raw);
    return rc;
}

int rt_write_param(rt_exec *x, const rt_decoder *d, uint32_t i, const float *in, rt_err *e)
{
    int rc;
    const rt_param *p = &d->params[i];
    rt_dtype t = rt_plan_dtype(rt_exec_plan(x, 0), p->value);
    uint64_t n = (uint64_t)p->value.rows * p->value.cols, bytes = rt_dtype_bytes(t, n);
    void *raw = NULL;
    if (t == RT_DTYPE_F32) return rt_exec_write(x, p->value, in, bytes, e);
    if (t == RT_DTYPE_E4M3) return e4m3_param(x, p, NULL, in, e);
    if (!(raw = rt_alloc(bytes, 64))) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to write a parameter"));
    if (rt_dtype_is_quant(t))
        rt_quant_from_f32(raw, in, t, n);
    else
        rt_float_from_f32(raw, in, t, n);
    RT_TRY(rt_exec_write(x, p->value, raw, bytes, e));
out:
    rt_free(raw);
    return rc;
}
