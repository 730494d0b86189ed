/* load.c - see load.h. Rows go through a staging buffer of a few megabytes, so a whole tensor never exists twice. */
#include "infer/load.h"

#include "num/quant.h"

#include <math.h>

enum { STAGE_BYTES = 4 << 20 };

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

/* The first value that is not finite. Quantised rows are expanded to be looked at. */
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

typedef struct stage {
    void *rows;     /* of the buffer's dtype */
    float *scratch; /* the same rows as f32 */
    uint64_t rows_at_once;
} stage;

static void stage_free(stage *s)
{
    rt_free(s->rows);
    rt_free(s->scratch);
}

static int stage_new(stage *s, uint64_t cols, rt_err *e)
{
    s->rows_at_once = STAGE_BYTES / (cols * sizeof(float)) + 1;
    s->rows = rt_alloc(s->rows_at_once * cols * sizeof(double), 64);
    s->scratch = rt_alloc(s->rows_at_once * cols * sizeof(float), 64);
    return s->rows && s->scratch
               ? RT_OK
               : rt_fail(e, RT_NOMEM, "no memory to load rows of %llu values", (unsigned long long)cols);
}

/* Rows in dtype d into s->rows. f64 exists for the specification alone. */
static void convert(stage *s, rt_dtype d, const rt_tensor *t, uint64_t row, uint64_t rows)
{
    uint64_t n = rows * rt_tensor_cols(t);
    if (d != RT_DTYPE_F64) {
        rt_tensor_to_dtype(s->rows, d, t, row, rows, s->scratch);
        return;
    }
    rt_tensor_to_f32(s->scratch, t, row, rows);
    for (uint64_t i = 0; i < n; i++) ((double *)s->rows)[i] = s->scratch[i];
}

static int load_one(rt_exec *x, const rt_param *p, const rt_tensor *t, const char *spec, rt_err *e)
{
    int rc;
    stage s = { 0 };
    uint64_t rows = rt_tensor_rows(t), cols = rt_tensor_cols(t), where;
    rt_dtype d = rt_plan_dtype(rt_exec_plan(x, 0), p->value);
    if (rows * cols != (uint64_t)p->value.rows * p->value.cols)
        return rt_fail(e, RT_FORMAT, "%s: tensor %s has another shape than the configuration says", spec, t->name);
    RT_TRY(stage_new(&s, cols, e));
    for (uint64_t r = 0; r < rows; r += s.rows_at_once) {
        uint64_t n = rows - r < s.rows_at_once ? rows - r : s.rows_at_once;
        rt_view v = p->value;
        convert(&s, d, t, r, n);
        if (!all_finite(s.rows, d, n * cols, s.scratch, &where))
            RT_TRY(rt_fail(e, RT_NONFINITE,
                           "%s: tensor %s has a value that is not finite at row %llu, column %llu; "
                           "the file is damaged or came from a run that diverged",
                           spec, t->name, (unsigned long long)(r + where / cols), (unsigned long long)(where % cols)));
        if (rows > 1) {
            v.off += r * v.stride;
            v.rows = (uint32_t)n;
        }
        RT_TRY(rt_exec_write(x, v, s.rows, rt_dtype_bytes(d, n * cols), e));
    }
out:
    stage_free(&s);
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

int rt_load_weights(rt_exec *x, const rt_decoder *d, const rt_model_file *m, rt_err *e)
{
    int rc;
    char name[RT_NAME_BYTES];
    for (uint32_t i = 0; i < d->model_params; i++) {
        const rt_tensor *t = stored(m, &d->params[i]);
        if (!t) RT_TRY(rt_fail(e, RT_FORMAT, "%s: tensor %s is missing", m->spec, rt_param_name(name, &d->params[i])));
        RT_TRY(load_one(x, &d->params[i], t, m->spec, e));
        rt_model_file_done_with(m, t);
    }
    RT_TRY(rt_load_rope(x, d, e));
out:
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
