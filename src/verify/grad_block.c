/* grad_block.c - the decoder block: its gradients against differences in double, its parameters and its input; and the
 * data that any run of it needs, so that thread and placement tests can use it too. */
#include "verify/grad_block.h"

#include <math.h>

/* Shapes: plain; with bias, q/k norm, documents; with a window and another divergence. */
static const rt_block_shape shapes[] = {
    { .B = 1,
      .T = 6,
      .C = 12,
      .H = 2,
      .K = 2,
      .D = 8,
      .F = 10,
      .V = 19,
      .chunks = 1,
      .divergence = RT_DIV_FORWARD_KL,
      .temperature = 1.0f },
    { .B = 2,
      .T = 5,
      .C = 14,
      .H = 4,
      .K = 2,
      .D = 8,
      .F = 9,
      .V = 23,
      .chunks = 2,
      .bias = true,
      .qk_norm = true,
      .documents = true,
      .divergence = RT_DIV_JSD,
      .temperature = 2.0f,
      .mix = 0.4f },
    { .B = 2,
      .T = 6,
      .C = 10,
      .H = 3,
      .K = 1,
      .D = 16,
      .F = 11,
      .V = 17,
      .chunks = 3,
      .window = 3,
      .bias = true,
      .divergence = RT_DIV_REVERSE_KL,
      .temperature = 1.5f },
};

bool rt_block_gradient_shape(uint32_t index, rt_block_shape *out)
{
    if (index >= sizeof shapes / sizeof *shapes) return false;
    *out = shapes[index];
    return true;
}

static double elem(const rt_block_data *d, rt_view v, uint64_t k)
{
    return d->spread * rt_test_normal(d->seed + 31 * v.buf, k);
}

/* Any float dtype: made in double, rounded once. */
static int put_float(rt_exec *x, const rt_block *b, const rt_block_data *d, rt_view v, rt_err *e)
{
    int rc;
    if (!v.buf) return RT_OK;
    rt_dtype t = rt_plan_dtype(b->step, v);
    uint64_t n = (uint64_t)v.rows * v.cols, bytes = rt_dtype_bytes(t, n);
    double *wide = rt_alloc(n * sizeof *wide, 16);
    void *stored = rt_alloc(bytes, 16);
    if (!wide || !stored) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the block's data"));
    for (uint64_t k = 0; k < n; k++) wide[k] = elem(d, v, k);
    rt_float_from_f64(stored, wide, t, n);
    RT_TRY(rt_exec_write(x, v, stored, bytes, e));
out:
    rt_free(wide);
    rt_free(stored);
    return rc;
}

/* Positions, document starts, targets (every fifth masked): what is not a float. Returns |M|. */
static uint32_t fill_ints(const rt_block *b, int32_t *pos, int32_t *start, int32_t *target)
{
    const rt_block_shape *s = &b->shape;
    uint32_t tokens = 0;
    for (uint32_t i = 0; i < s->B * s->T; i++) {
        uint32_t t = i % s->T, first = s->documents && t >= s->T / 2 ? s->T / 2 : 0;
        start[i] = (int32_t)first;
        pos[i] = (int32_t)(t - first);
        target[i] = i % 5 == 4 ? -1 : (int32_t)((i * 7 + 3) % s->V);
        tokens += target[i] >= 0;
    }
    return tokens;
}

static void fill_freq(double *freq, uint32_t half)
{
    for (uint32_t j = 0; j < half; j++) freq[j] = pow(100.0, -(double)j / half);
}

int rt_block_fill(rt_exec *x, const rt_block *b, const rt_block_data *d, rt_err *e)
{
    int rc;
    const rt_block_shape *s = &b->shape;
    uint32_t N = s->B * s->T;
    const uint32_t no_fault[4] = { 0 };
    rt_dtype scalar = rt_plan_dtype(b->step, b->freq);
    int32_t *ints = rt_alloc(3 * (uint64_t)N * sizeof *ints, 16);
    double *freq = rt_alloc(s->D * sizeof *freq, 16); /* the second half is room for the rounded copy */
    if (!ints || !freq) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the block's data"));
    rt_step step = { .step = 1, .seed = d->seed, .lr = 1e-3f };
    step.tokens = fill_ints(b, ints, ints + N, ints + 2 * (uint64_t)N);
    fill_freq(freq, s->D / 2);
    rt_float_from_f64(freq + s->D / 2, freq, scalar, s->D / 2);
    RT_TRY(rt_exec_write(x, b->freq, freq + s->D / 2, rt_dtype_bytes(scalar, s->D / 2), e));
    RT_TRY(rt_exec_write(x, b->pos, ints, N * sizeof *ints, e));
    if (s->documents) RT_TRY(rt_exec_write(x, b->start, ints + N, N * sizeof *ints, e));
    RT_TRY(rt_exec_write(x, b->target, ints + 2 * (uint64_t)N, N * sizeof *ints, e));
    RT_TRY(rt_exec_write(x, b->stepval, &step, sizeof step, e));
    RT_TRY(rt_exec_write(x, b->fault, no_fault, sizeof no_fault, e));
    RT_TRY(put_float(x, b, d, b->x, e));
    RT_TRY(put_float(x, b, d, b->teacher, e));
    for (int i = 0; i < RT_BLOCK_PARAMS; i++) RT_TRY(put_float(x, b, d, b->param[i], e));
out:
    rt_free(ints);
    rt_free(freq);
    return rc;
}

/* Everything the engine holds still; the buffers live as long as the check. */
typedef struct fixed {
    int32_t *ints;
    double *freq, *teacher;
    rt_step step;
    uint32_t fault[4];
    double weights[4];
} fixed;

static int fix_data(rt_grad_problem *g, const rt_block *b, fixed *f, rt_err *e)
{
    const rt_block_shape *s = &b->shape;
    uint64_t N = s->B * s->T;
    f->ints = rt_alloc(3 * N * sizeof *f->ints, 16);
    f->freq = rt_alloc(s->D / 2 * sizeof *f->freq, 16);
    f->teacher = rt_alloc(N * s->V * sizeof *f->teacher, 16);
    if (!f->ints || !f->freq || !f->teacher) return rt_fail(e, RT_NOMEM, "no memory for the block's data");
    f->step = (rt_step){ .step = 1, .tokens = fill_ints(b, f->ints, f->ints + N, f->ints + 2 * N) };
    fill_freq(f->freq, s->D / 2);
    for (uint64_t k = 0; k < N * s->V; k++) f->teacher[k] = 1.5 * rt_test_normal(5, k);
    const rt_grad_data data[] = { { b->freq, f->freq },     { b->pos, f->ints },    { b->target, f->ints + 2 * N },
                                  { b->stepval, &f->step }, { b->fault, f->fault }, { b->teacher, f->teacher },
                                  { b->start, f->ints + N } };
    g->ndata = s->documents ? 7 : 6;
    for (uint32_t i = 0; i < g->ndata; i++) g->data[i] = data[i];
    f->weights[0] = (double)0.3f / f->step.tokens; /* as recorded in block.c */
    f->weights[1] = (double)0.7f * s->temperature * s->temperature / f->step.tokens;
    g->out[0] = (rt_grad_out){ b->sums, RT_NONE, f->weights };
    g->nouts = 1;
    return RT_OK;
}

int rt_block_gradient_check(rt_dev *ref_double, uint32_t index, uint32_t samples, rt_grad_report *report, rt_err *e)
{
    int rc;
    rt_block *b = NULL;
    fixed f = { 0 };
    RT_TRY(rt_block_new(&b, &shapes[index], &rt_policy_f64, e));
    rt_grad_problem g = { .space = b->space,
                          .forward = b->eval,
                          .backward = b->step,
                          .seed = 4242 + index,
                          .spread = 0.7,
                          .samples = samples };
    g.var[g.nvars++] = (rt_grad_var){ b->x, b->dx, "x (the block's input)" };
    for (int i = 0; i < RT_BLOCK_PARAMS; i++)
        if (b->param[i].buf) g.var[g.nvars++] = (rt_grad_var){ b->param[i], b->grad[i], rt_block_param_name(i) };
    RT_TRY(fix_data(&g, b, &f, e));
    RT_TRY(rt_grad_check(ref_double, &g, report, e));
out:
    rt_free(f.ints);
    rt_free(f.freq);
    rt_free(f.teacher);
    rt_block_free(b);
    return rc;
}
