/* pair_case.h - for tests of the step: a student and its teachers in memory, tiny and of one vocabulary. */
#ifndef RT_TESTS_PAIR_CASE_H
#define RT_TESTS_PAIR_CASE_H

#include "train/step.h"
#include "verify/grad.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static inline rt_model_config pair_config(uint32_t width, uint32_t vocab)
{
    return (rt_model_config){ .family = rt_family_find("qwen2"),
                              .layers = 2,
                              .width = width,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_dim = 8,
                              .hidden = 2 * width,
                              .vocab = vocab,
                              .context = 64,
                              .qkv_bias = true,
                              .tied = true,
                              .norm_eps = 1e-6,
                              .rope = { .kind = RT_ROPE_PLAIN, .theta = 10000.0 },
                              .init_range = 0.02,
                              .bos = -1,
                              .pad = -1 };
}

/* Of B rows of T, all of whose positions are picked. */
static inline rt_step_opts pair_options(uint32_t B, uint32_t T, rt_divergence d, double temperature)
{
    return (rt_step_opts){ .B = B,
                           .T = T,
                           .chunk = 16,
                           .picks = B * T,
                           .loss = { .divergence = d,
                                     .mix = 0.3,
                                     .temperature = temperature,
                                     .ce_weight = 0.1,
                                     .kd_weight = 0.9,
                                     .t2 = true },
                           .beta1 = 0.9,
                           .beta2 = 0.95,
                           .eps = 1e-8,
                           .policy = rt_policy_f32 };
}

/* Matrices random, norms near 1; a teacher with large weights has opinions that can be learned. */
static inline void pair_fill(rt_trainer *t, const rt_decoder *d, uint64_t seed, double spread)
{
    static float w[1 << 16];
    rt_err e = { 0 };
    for (uint32_t i = 0; i < d->model_params; i++) {
        uint64_t n = (uint64_t)d->params[i].value.rows * d->params[i].value.cols;
        bool norm = d->params[i].role == RT_ROLE_ATTN_NORM || d->params[i].role == RT_ROLE_MLP_NORM ||
                    d->params[i].role == RT_ROLE_FINAL_NORM;
        assert_true(n <= 1 << 16);
        for (uint64_t k = 0; k < n; k++) w[k] = (float)((norm ? 1.0 : 0.0) + spread * rt_test_normal(seed + i, k));
        assert_int_equal(rt_write_param(t->x, d, i, w, &e), RT_OK);
    }
    if (d->freq.buf) assert_int_equal(rt_load_rope(t->x, d, &e), RT_OK);
}

/* Weights are written: masters are made of them, and nothing is at fault. */
static inline void pair_begin(rt_trainer *t)
{
    static const uint32_t none[4];
    rt_err e = { 0 };
    if (t->plan->plan[RT_PROGRAM_START])
        assert_int_equal(rt_exec_run(t->x, t->plan->index[RT_PROGRAM_START], NULL, &e), RT_OK);
    assert_int_equal(rt_exec_write(t->x, t->plan->fault, none, sizeof none, &e), RT_OK);
}

/* The largest difference of all gradients, as a share of their norm. */
static inline double pair_gradients_apart(rt_trainer *a, rt_trainer *b)
{
    static float x[1 << 16], y[1 << 16];
    double norm = 0, worst = 0;
    rt_err e = { 0 };
    for (uint32_t i = 0; i < a->plan->student->param_count; i++) {
        assert_int_equal(rt_trainer_read(a, 'g', i, x, &e), RT_OK);
        assert_int_equal(rt_trainer_read(b, 'g', i, y, &e), RT_OK);
        for (uint64_t k = 0; k < rt_trainer_elems(a, i); k++) {
            norm += (double)x[k] * x[k];
            worst = fmax(worst, fabs((double)x[k] - y[k]));
        }
    }
    return worst / sqrt(norm);
}

#endif
