/* convert.c - the plan of a conversion and its run; the comparison is convert_check.c. */
#include "format/convert.h"

#include "base/sys.h"
#include "num/quant.h"

#include <math.h>

enum { SCRATCH_ELEMS = 64 * 1024 }; /* f32 values that a worker converts at a time, where a row is not longer */

/* ---- plan ---- */

/* The input's tensor for each parameter of the output. */
static int find_sources(rt_convert *v, rt_err *e)
{
    char name[RT_NAME_BYTES];
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        rt_convert_tensor *t = &v->tensors[i];
        uint64_t shape[2];
        rt_param_at(v->config, i, &t->role, &t->layer);
        uint32_t layer = v->opts.layers && rt_role_per_layer(t->role) ? v->opts.layers[t->layer] : t->layer;
        t->from = rt_model_file_find(v->in, rt_role_hf_name(name, t->role, layer));
        if (!t->from) return rt_fail(e, RT_FORMAT, "%s has no tensor %s", v->in->path, name);
        uint32_t rank = rt_role_shape(v->config, t->role, shape);
        t->elems = shape[0] * (rank == 2 ? shape[1] : 1);
        if (rt_tensor_elems(t->from) != t->elems)
            return rt_fail(e, RT_FORMAT, "%s: tensor %s has another shape than the configuration says", v->in->path,
                           name);
        if (rt_tensor_cols(t->from) > v->largest_cols) v->largest_cols = rt_tensor_cols(t->from);
    }
    return RT_OK;
}

static bool is_matrix(const rt_convert_tensor *t) { return t->from->rank == 2; }

/* Whether every value of a (short) tensor survives rounding to d. */
static bool fits_exactly(const rt_tensor *t, rt_dtype d, float *x /* (elems) */, uint16_t *y /* (elems) */)
{
    uint64_t n = rt_tensor_elems(t);
    rt_tensor_to_f32(x, t, 0, 1);
    rt_float_from_f32(y, x, d, n);
    for (uint64_t i = 0; i < n; i++) {
        float back = d == RT_DTYPE_F16 ? rt_f16_to_f32(y[i]) : rt_bf16_to_f32(y[i]);
        if (rt_f32_bits(back) != rt_f32_bits(x[i])) return false;
    }
    return true;
}

/* The one 16-bit type that all matrices of the output have; F32 when there is none. */
static rt_dtype narrow_type(const rt_convert *v)
{
    rt_dtype d = RT_DTYPE_COUNT;
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        const rt_convert_tensor *t = &v->tensors[i];
        if (!is_matrix(t)) continue;
        if (d != RT_DTYPE_COUNT && d != t->to) return RT_DTYPE_F32;
        d = t->to;
    }
    return d == RT_DTYPE_BF16 || d == RT_DTYPE_F16 ? d : RT_DTYPE_F32;
}

static rt_dtype as_stored(rt_convert *v, const rt_convert_tensor *t)
{
    const rt_tensor *from = rt_tensor_under(t->from); /* merging rounds to the type of the base */
    rt_dtype d = from->dtype;
    if (from->store != RT_STORE_PLAIN) return RT_DTYPE_F32;
    bool plain_file = v->opts.to == RT_CONTAINER_HF || v->opts.to == RT_CONTAINER_SAFETENSORS;
    if (!is_matrix(t) && !plain_file) return RT_DTYPE_F32;
    if ((rt_dtype_is_quant(d) || d == RT_DTYPE_F32 || d == RT_DTYPE_F16 || d == RT_DTYPE_BF16) &&
        rt_container_holds(v->opts.to, d))
        return d;
    if (!rt_dtype_is_quant(d) || !is_matrix(t)) return RT_DTYPE_F32;
    v->dequantised++;
    return rt_container_holds(v->opts.to, RT_DTYPE_BF16) ? RT_DTYPE_BF16 : RT_DTYPE_F32;
}

static int plan_as_stored(rt_convert *v, rt_err *e)
{
    for (uint32_t i = 0; i < v->tensor_count; i++) v->tensors[i].to = as_stored(v, &v->tensors[i]);
    rt_dtype narrow = narrow_type(v);
    if (narrow == RT_DTYPE_F32 || (v->opts.to != RT_CONTAINER_HF && v->opts.to != RT_CONTAINER_SAFETENSORS))
        return RT_OK;
    float *x = rt_alloc(v->largest_cols * sizeof *x, 64);
    uint16_t *y = rt_alloc(v->largest_cols * sizeof *y, 64);
    for (uint32_t i = 0; x && y && i < v->tensor_count; i++) {
        rt_convert_tensor *t = &v->tensors[i];
        if (!is_matrix(t) && t->to == RT_DTYPE_F32 && fits_exactly(t->from, narrow, x, y)) t->to = narrow;
    }
    int rc = x && y ? RT_OK : rt_no_memory(e, v->in->path);
    rt_free(x);
    rt_free(y);
    return rc;
}

static int plan_mixture(rt_convert *v, rt_err *e)
{
    bool *fell = rt_arena_alloc(&v->arena, v->tensor_count * sizeof *fell);
    if (!fell) return rt_no_memory(e, v->opts.path);
    int rc = rt_mix_apply(v->opts.mix, v->config, v->opts.to, v->out, fell, &v->fallbacks, e);
    for (uint32_t i = 0; rc >= 0 && i < v->tensor_count; i++) {
        v->tensors[i].to = v->out[i].dtype;
        v->tensors[i].fell = fell[i];
    }
    return rc;
}

int rt_convert_plan(rt_convert *v, const rt_model_file *in, const rt_convert_opts *o, rt_err *e)
{
    int rc;
    v->in = in;
    v->opts = *o;
    v->config = o->config ? o->config : &in->config;
    RT_TRY(rt_model_file_check(in, e));
    v->tensor_count = rt_param_count(v->config);
    v->tensors = rt_arena_alloc(&v->arena, v->tensor_count * sizeof *v->tensors);
    v->out = rt_arena_alloc(&v->arena, v->tensor_count * sizeof *v->out);
    if (!v->tensors || !v->out) {
        rc = rt_no_memory(e, o->path);
        goto out;
    }
    RT_TRY(find_sources(v, e));
    RT_TRY(o->mix ? plan_mixture(v, e) : plan_as_stored(v, e));
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        rt_convert_tensor *t = &v->tensors[i];
        v->out[i] = (rt_out_tensor){ t->role, t->layer, t->to };
        t->bytes = rt_dtype_bytes(t->to, t->elems);
        v->elems += t->elems;
        v->bytes_in += t->from->bytes;
        v->bytes_out += t->bytes;
    }
out:
    if (rc < 0) rt_convert_free(v);
    return rc;
}

void rt_convert_free(rt_convert *v)
{
    rt_arena_free(&v->arena);
    *v = (rt_convert){ 0 };
}

double rt_convert_rmse(const rt_convert_tensor *t) { return t->elems ? sqrt(t->error_squares / (double)t->elems) : 0; }

/* ---- run ---- */

typedef struct job {
    rt_convert *v;
    rt_pool *pool;
    rt_convert_progress_fn progress;
    void *ctx;
    float *scratch; /* (threads, per_worker) */
    uint64_t per_worker;
} job;

static int fill_rows(void *ctx, uint32_t i, uint64_t row, uint64_t rows, void *dst, uint32_t worker, rt_err *e)
{
    const job *j = ctx;
    const rt_convert_tensor *t = &j->v->tensors[i];
    uint64_t cols = rt_tensor_cols(t->from), step = j->per_worker / cols;
    float *scratch = j->scratch + worker * j->per_worker;
    (void)e;
    for (uint64_t r = 0; r < rows; r += step) {
        uint64_t n = rows - r < step ? rows - r : step;
        rt_tensor_to_dtype((uint8_t *)dst + rt_dtype_bytes(t->to, r * cols), t->to, t->from, row + r, n, scratch);
    }
    return RT_OK;
}

static int on_progress(void *ctx, uint64_t done, uint64_t total)
{
    const job *j = ctx;
    return j->progress ? j->progress(j->ctx, "writing", done, total) : RT_OK;
}

static int compare_output(void *ctx, const char *path, rt_err *e)
{
    const job *j = ctx;
    double start = rt_now();
    int rc = rt_convert_compare(j->v, path, j->progress, j->ctx, j->pool, e);
    j->v->compare_seconds = rt_now() - start;
    return rc;
}

int rt_convert_run(rt_convert *v, rt_convert_progress_fn progress, void *ctx, rt_pool *pool, rt_err *e)
{
    double start = rt_now();
    /* Every byte is read anyway, so the checksum costs little, and a damaged file is not passed on. */
    int damaged = rt_model_file_check_bytes(v->in, pool, e);
    if (damaged < 0) return damaged;
    job j = { .v = v, .pool = pool, .progress = progress, .ctx = ctx };
    j.per_worker = rt_align_up(v->largest_cols > SCRATCH_ELEMS ? v->largest_cols : SCRATCH_ELEMS, 64);
    uint64_t bytes;
    if (!rt_mul_u64(j.per_worker * sizeof(float), rt_pool_threads(pool), &bytes) || !(j.scratch = rt_alloc(bytes, 64)))
        return rt_no_memory(e, v->in->path);
    const rt_model_out o = {
        .to = v->opts.to,
        .path = v->opts.path,
        .name = v->opts.name ? v->opts.name : v->in->name,
        .config = v->config,
        .text = v->opts.text,
        .tensors = v->out,
        .tensor_count = v->tensor_count,
        .shard_bytes = v->opts.shard_bytes,
        .replace = v->opts.replace,
    };
    const rt_model_write_calls calls = { fill_rows, on_progress, compare_output, &j };
    int rc = rt_model_write(&o, &calls, pool, e);
    v->write_seconds = rt_now() - start - v->compare_seconds;
    rt_free(j.scratch);
    return rc;
}
