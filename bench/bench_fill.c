/* bench_fill.c - see bench_fill.h. */
#include "bench_fill.h"
#include "op_rows.h"

#include "base/rng.h"
#include "cli/cli.h"
#include "format/model_write.h"
#include "num/e4m3.h"
#include "num/quant.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PIECE = BENCH_PIECE }; /* elements: a random piece is repeated as often as a buffer holds it */

/* Normal, as values of a model are: of uniform ones hundreds of columns would share a row's largest, and kd_loss looks
 * at each that does. */
static const void *noise(rt_dtype d)
{
    static void *made[RT_DTYPE_COUNT];
    if (made[d]) return made[d];
    float *f = rt_alloc(PIECE * sizeof *f, 64);
    made[d] = rt_alloc(rt_dtype_bytes(d, PIECE), 64);
    if (!f || !made[d]) bench_die("out of memory", NULL);
    for (uint32_t i = 0; i < PIECE; i += 4) {
        rt_rng4 r = rt_philox(1, d, i);
        for (uint32_t k = 0; k < 4; k += 2) { /* two of them of two uniform ones */
            float far = sqrtf(-2.0f * logf(1.0f - rt_rng_unit(r.v[k]))), turn = 6.2831853f * rt_rng_unit(r.v[k + 1]);
            f[i + k] = 0.05f * far * cosf(turn);
            f[i + k + 1] = 0.05f * far * sinf(turn);
        }
    }
    float scale;
    if (rt_dtype_is_quant(d))
        rt_quant_from_f32(made[d], f, d, PIECE);
    else if (d == RT_DTYPE_E4M3)
        rt_e4m3_rows(made[d], &scale, f, 1, PIECE);
    else
        rt_float_from_f32(made[d], f, d, PIECE);
    rt_free(f);
    return made[d];
}

void bench_put(rt_exec *x, rt_view v, const void *data, uint64_t bytes)
{
    rt_err e = { 0 };
    if (rt_exec_write(x, v, data, bytes, &e) < 0) bench_die("writing", &e);
}

static void fill_noise(rt_exec *x, const rt_buffer *b, uint32_t index)
{
    uint64_t all = (uint64_t)b->rows * b->cols;
    for (uint64_t at = 0; at < all; at += PIECE) {
        uint64_t n = all - at < PIECE ? all - at : PIECE;
        bench_put(x, (rt_view){ index + 1, 1, (uint32_t)n, at, n }, noise(b->dtype), rt_dtype_bytes(b->dtype, n));
    }
}

/* Everything that holds values when a program starts; states: those of the optimizer too, where no program makes them.
 */
void bench_fill_space(rt_exec *x, const rt_space *s, bool states)
{
    for (uint32_t i = 0; i < s->nbufs; i++) {
        const rt_buffer *b = &s->bufs[i];
        bool wanted = b->cls == RT_CLASS_PARAM || b->cls == RT_CLASS_INPUT || (states && b->cls == RT_CLASS_STATE);
        bool values = rt_dtype_is_float(b->dtype) || rt_dtype_is_quant(b->dtype) || b->dtype == RT_DTYPE_E4M3;
        if (wanted && values) fill_noise(x, b, i);
    }
}

/* A column of i32: ids below `below`, or with 0 the positions of rows of T. */
void bench_fill_column(rt_exec *x, rt_view v, uint32_t below, uint32_t T)
{
    int32_t *ids = rt_alloc(v.rows * sizeof *ids, 64);
    if (!ids) bench_die("out of memory", NULL);
    for (uint32_t i = 0; i < v.rows; i++)
        ids[i] = below ? (int32_t)(rt_philox(2, v.buf, i).v[0] % below) : (int32_t)(T ? i % T : 0);
    bench_put(x, v, ids, v.rows * sizeof *ids);
    rt_free(ids);
}

void bench_fill_step(rt_exec *x, rt_view step, rt_view fault, uint32_t tokens)
{
    bench_put(x, step, &(rt_step){ .step = 2, .tokens = tokens, .lr = 1e-5f, .seed = 1 }, sizeof(rt_step));
    bench_put(x, fault, &(rt_fault){ 0 }, sizeof(rt_fault));
}

void bench_fill_bits(rt_exec *x, rt_view v)
{
    uint32_t *ones = rt_alloc(v.cols * sizeof *ones, 64);
    if (!ones) bench_die("out of memory", NULL);
    memset(ones, 0xff, v.cols * sizeof *ones);
    bench_put(x, v, ones, v.cols * sizeof *ones);
    rt_free(ones);
}

rt_dtype *bench_mixed_dtypes(const rt_model_config *c, const char *mix)
{
    rt_err e = { 0 };
    uint32_t n = rt_param_count(c);
    rt_out_tensor *t = rt_alloc(n * sizeof *t, 16);
    rt_dtype *d = rt_alloc(n * sizeof *d, 16);
    if (!t || !d) bench_die("out of memory", NULL);
    if (rt_mix_apply(rt_mix_find(mix), c, RT_CONTAINER_GGUF, t, NULL, NULL, &e) < 0) bench_die(mix, &e);
    for (uint32_t i = 0; i < n; i++) d[i] = t[i].dtype;
    rt_free(t);
    return d;
}

rt_dev *bench_open(const char *name, const char *cublaslt)
{
    rt_err e = { 0 };
    rt_dev *dev;
    char why[RT_JOB_WHY];
    rt_job_env env = rt_cli_env(0);
    rt_settings s = { .device = name, .cublaslt = cublaslt, .given[RT_SETTING_ID_device] = true };
    if (rt_job_device_open(&dev, &s, false, env.environment, why, &e) < 0) bench_die(name, &e);
    rt_print_device(dev, why);
    return dev;
}
