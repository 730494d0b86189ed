/* test_cuda_run.c - ops that are taken together: which neighbours share a launch and which must not, counted on a
 * stand-in driver. That a run computes what its ops compute one by one is proved by `retort verify` on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "standin_case.h"

#include "backend/cuda/kernels/cuda_dequant.h"
#include "backend/cuda/kernels/cuda_optim.h"
#include "backend/cuda/kernels/cuda_sums.h"
#include "exec/exec.h"
#include "op/emit.h"

/* ---- the buffers of an update ---- */

enum { TENSORS = 100, WIDE = 19, PACKED = 20, BLOCK = 256 };

typedef struct update {
    rt_plan *p;
    rt_view param[TENSORS], master[TENSORS], m[TENSORS], v[TENSORS], grad[TENSORS];
    rt_view half_m[TENSORS], half_v[TENSORS], codes_m[TENSORS], codes_v[TENSORS], exps[TENSORS]; /* narrow moments */
    rt_view wide_grad; /* f32, as large as the others */
    rt_view sum, other_sum, scale, fault, step;
    rt_view packed[PACKED], plain[PACKED]; /* of two quantised types in turn; bf16 */
    rt_view wide_plain;                    /* f32 */
    rt_view ids;
} update;

typedef void (*record_fn)(update *u);

static rt_view state(rt_space *sp, rt_dtype d) { return rt_space_buf(sp, RT_CLASS_STATE, d, 3, WIDE, "tensor"); }

/* How many kernels what fn records is launched with. */
static uint64_t launches(record_fn fn)
{
    rt_err e = { 0 };
    rt_space *sp;
    rt_exec *x;
    rt_dev *d;
    const rt_backend *cuda;
    update u;
    assert_int_equal(rt_backend_find("cuda", &cuda, NULL), RT_OK);
    if (cuda->open(&d, 0, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_space_new(&sp, &e), RT_OK);
    for (int i = 0; i < TENSORS; i++) {
        u.param[i] = state(sp, RT_DTYPE_BF16);
        u.master[i] = state(sp, RT_DTYPE_F32);
        u.m[i] = state(sp, RT_DTYPE_F32);
        u.v[i] = state(sp, RT_DTYPE_F32);
        u.grad[i] = state(sp, RT_DTYPE_BF16);
        u.half_m[i] = state(sp, RT_DTYPE_BF16);
        u.half_v[i] = state(sp, RT_DTYPE_BF16);
        u.codes_m[i] = state(sp, RT_DTYPE_U8);
        u.codes_v[i] = state(sp, RT_DTYPE_U8);
        u.exps[i] = rt_space_buf(sp, RT_CLASS_STATE, RT_DTYPE_U8, 3, 2, "exponents");
    }
    u.wide_grad = state(sp, RT_DTYPE_F32);
    u.sum = rt_space_buf(sp, RT_CLASS_OUTPUT, RT_DTYPE_F32, 1, 1, "sum");
    u.other_sum = rt_space_buf(sp, RT_CLASS_OUTPUT, RT_DTYPE_F32, 1, 1, "another sum");
    u.scale = rt_space_buf(sp, RT_CLASS_STATE, RT_DTYPE_F32, 1, 1, "scale");
    u.fault = rt_space_buf(sp, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault");
    u.step = rt_space_buf(sp, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step");
    for (int i = 0; i < PACKED; i++) {
        rt_dtype type = i % 2 ? RT_DTYPE_Q6_K : RT_DTYPE_Q4_K;
        u.packed[i] = rt_space_buf(sp, RT_CLASS_PARAM, type, 3, BLOCK, "packed");
        u.plain[i] = rt_space_buf(sp, RT_CLASS_OUTPUT, RT_DTYPE_BF16, 3, BLOCK, "plain");
    }
    u.wide_plain = rt_space_buf(sp, RT_CLASS_OUTPUT, RT_DTYPE_F32, 3, BLOCK, "plain");
    u.ids = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_I32, 3, 1, "ids");
    assert_int_equal(rt_plan_new(&u.p, sp, "update", &rt_policy_bf16, &e), RT_OK);
    fn(&u);
    s->launches = 0;
    if (rt_exec_seal(&x, d, (const rt_plan *const *)&u.p, 1, NULL, &e) < 0) fail_msg("%s", e.text);
    uint64_t count = s->launches;
    rt_exec_free(x);
    rt_plan_free(u.p);
    rt_space_free(sp);
    d->api->close(d);
    assert_int_equal(s->live, 0);
    return count;
}

/* ---- norm_sq: two launches for each run ---- */

static void norm(update *u, rt_view sum, rt_view x) { rt_emit_norm_sq(u->p, sum, x, u->fault, u->step, 0); }

static void all_norms(update *u)
{
    for (int i = 0; i < TENSORS; i++) norm(u, u->sum, u->grad[i]);
}
static void norms_of_two_types(update *u)
{
    norm(u, u->sum, u->grad[0]);
    norm(u, u->sum, u->wide_grad);
    norm(u, u->sum, u->grad[1]);
}
static void norms_of_two_sums(update *u)
{
    norm(u, u->sum, u->grad[0]);
    norm(u, u->other_sum, u->grad[1]);
}
static void norms_with_something_between(update *u)
{
    norm(u, u->sum, u->grad[0]);
    rt_emit_fill(u->p, u->grad[1], 0.0f); /* one launch */
    norm(u, u->sum, u->grad[1]);
}
static void norm_without_a_record(update *u)
{
    norm(u, u->sum, u->grad[0]);
    rt_emit_norm_sq(u->p, u->sum, u->grad[1], RT_NONE, RT_NONE, 0);
}
/* The second reads what the first adds to. */
static void norm_of_the_sum(update *u)
{
    norm(u, u->sum, u->wide_grad);
    norm(u, u->other_sum, u->sum);
    norm(u, u->other_sum, u->wide_grad);
}

static void norms_share_launches(void **test)
{
    (void)test;
    assert_int_equal(launches(all_norms), 2 * ((TENSORS + RT_CUDA_NORM_RUN - 1) / RT_CUDA_NORM_RUN));
    assert_int_equal(launches(norms_of_two_types), 6);
    assert_int_equal(launches(norms_of_two_sums), 4);
    assert_int_equal(launches(norms_with_something_between), 5);
    assert_int_equal(launches(norm_without_a_record), 4);
    assert_int_equal(launches(norm_of_the_sum), 4);
}

/* ---- adamw: one launch for each run ---- */

static const rt_adamw_opts PLAIN = { 0.9f, 0.999f, 1e-8f, 0.0f, 0, 0 };

static void adam(update *u, int i, rt_view grad, rt_view scale, rt_adamw_opts o)
{
    rt_adamw_io io = { u->param[i], u->master[i], u->m[i], u->v[i], RT_NONE, grad, u->step, scale, u->fault };
    rt_emit_adamw(u->p, &io, &o);
}

static void all_adams(update *u)
{
    for (int i = 0; i < TENSORS; i++) { /* decay is each tensor's own */
        rt_adamw_opts o = PLAIN;
        o.weight_decay = i % 2 ? 0.1f : 0.0f;
        adam(u, i, u->grad[i], u->scale, o);
    }
}
static void adams_of_two_types(update *u)
{
    adam(u, 0, u->grad[0], u->scale, PLAIN);
    adam(u, 1, u->wide_grad, u->scale, PLAIN);
}
static void adams_of_two_kinds(update *u)
{
    rt_adamw_opts other = PLAIN;
    other.beta1 = 0.8f;
    adam(u, 0, u->grad[0], u->scale, PLAIN);
    adam(u, 1, u->grad[1], u->scale, other);
    adam(u, 2, u->grad[2], RT_NONE, other);
}
/* Twice the same parameter: the second begins where the first ended. */
static void one_parameter_twice(update *u)
{
    adam(u, 0, u->grad[0], u->scale, PLAIN);
    adam(u, 1, u->grad[1], u->scale, PLAIN);
    adam(u, 0, u->grad[2], u->scale, PLAIN);
}
/* The gradient of the second is the parameter of the first. */
static void one_reads_what_another_writes(update *u)
{
    adam(u, 0, u->grad[0], u->scale, PLAIN);
    adam(u, 1, u->param[0], u->scale, PLAIN);
}
/* Reading the same is no reason. */
static void two_read_the_same(update *u)
{
    adam(u, 0, u->grad[0], u->scale, PLAIN);
    adam(u, 1, u->grad[0], u->scale, PLAIN);
}

/* d: of the moments */
static void narrow_adam(update *u, int i, rt_dtype d)
{
    rt_adamw_io io = { .param = u->param[i],
                       .master = u->master[i],
                       .m = d == RT_DTYPE_U8 ? u->codes_m[i] : u->half_m[i],
                       .v = d == RT_DTYPE_U8 ? u->codes_v[i] : u->half_v[i],
                       .grad = u->grad[i],
                       .step = u->step };
    if (d == RT_DTYPE_U8) io.exps = u->exps[i];
    rt_emit_adamw(u->p, &io, &PLAIN);
}
static void all_half_adams(update *u)
{
    for (int i = 0; i < TENSORS; i++) narrow_adam(u, i, RT_DTYPE_BF16);
}
static void all_code_adams(update *u)
{
    for (int i = 0; i < TENSORS; i++) narrow_adam(u, i, RT_DTYPE_U8);
}
static void adams_of_three_moments(update *u)
{
    adam(u, 0, u->grad[0], RT_NONE, PLAIN);
    narrow_adam(u, 1, RT_DTYPE_BF16);
    narrow_adam(u, 2, RT_DTYPE_U8);
    narrow_adam(u, 3, RT_DTYPE_U8);
}

static void adams_share_launches(void **test)
{
    (void)test;
    assert_int_equal(launches(all_adams), (TENSORS + RT_CUDA_ADAM_RUN - 1) / RT_CUDA_ADAM_RUN);
    assert_int_equal(launches(adams_of_two_types), 2);
    assert_int_equal(launches(adams_of_two_kinds), 3);
    assert_int_equal(launches(one_parameter_twice), 2);
    assert_int_equal(launches(one_reads_what_another_writes), 2);
    assert_int_equal(launches(two_read_the_same), 1);
    assert_int_equal(launches(all_half_adams), (TENSORS + RT_CUDA_NARROW_RUN - 1) / RT_CUDA_NARROW_RUN);
    assert_int_equal(launches(all_code_adams), (TENSORS + RT_CUDA_NARROW_RUN - 1) / RT_CUDA_NARROW_RUN);
    assert_int_equal(launches(adams_of_three_moments), 3);
}

/* ---- dequant: one launch for each run ---- */

static void all_expanded(update *u)
{
    for (int i = 0; i < PACKED; i++) rt_emit_dequant(u->p, u->plain[i], u->packed[i]);
}
static void expanded_to_two_types(update *u)
{
    rt_emit_dequant(u->p, u->plain[0], u->packed[0]);
    rt_emit_dequant(u->p, u->wide_plain, u->packed[1]);
    rt_emit_dequant(u->p, u->plain[1], u->packed[1]);
}
static void expanded_with_something_between(update *u)
{
    rt_emit_dequant(u->p, u->plain[0], u->packed[0]);
    rt_emit_fill(u->p, u->plain[1], 0.0f); /* one launch */
    rt_emit_dequant(u->p, u->plain[1], u->packed[1]);
}
/* The second writes over a row of the first, which must not come later. */
static void one_row_expanded_twice(update *u)
{
    rt_emit_dequant(u->p, u->plain[0], u->packed[0]);
    rt_emit_dequant(u->p, rt_view_rows(u->p, u->plain[0], 2, 1), rt_view_rows(u->p, u->packed[1], 0, 1));
}
/* Rows that only lie beside one another do not meet. */
static void two_parts_expanded(update *u)
{
    rt_emit_dequant(u->p, rt_view_rows(u->p, u->plain[0], 0, 2), rt_view_rows(u->p, u->packed[0], 1, 2));
    rt_emit_dequant(u->p, rt_view_rows(u->p, u->plain[0], 2, 1), rt_view_rows(u->p, u->packed[1], 0, 1));
}
static void one_weight_expanded_twice(update *u)
{
    rt_emit_dequant(u->p, u->plain[0], u->packed[0]);
    rt_emit_dequant(u->p, u->plain[1], u->packed[0]);
}
/* The same kernel, but another op. */
static void expanded_and_looked_up(update *u)
{
    rt_emit_dequant(u->p, u->plain[0], u->packed[0]);
    rt_emit_embed_fwd(u->p, u->plain[1], u->packed[1], u->ids);
    rt_emit_embed_fwd(u->p, u->plain[2], u->packed[0], u->ids);
}

static void expansions_share_launches(void **test)
{
    (void)test;
    assert_int_equal(launches(all_expanded), (PACKED + RT_CUDA_DEQUANT_TENSORS - 1) / RT_CUDA_DEQUANT_TENSORS);
    assert_int_equal(launches(expanded_to_two_types), 3);
    assert_int_equal(launches(expanded_with_something_between), 3);
    assert_int_equal(launches(one_row_expanded_twice), 2);
    assert_int_equal(launches(two_parts_expanded), 1);
    assert_int_equal(launches(one_weight_expanded_twice), 1);
    assert_int_equal(launches(expanded_and_looked_up), 3);
}

/* ---- bias_grad and the weight of rmsnorm_bwd: partial sums by one launch each, and one that ends them all ---- */

static rt_view gradient(update *u, int i) { return rt_view_rows(u->p, u->master[i], 0, 1); }
static void bias(update *u, int i) { rt_emit_bias_grad(u->p, gradient(u, i), u->grad[i]); }

static void all_biases(update *u)
{
    for (int i = 0; i < TENSORS; i++) bias(u, i);
}
static void biases_with_something_between(update *u)
{
    bias(u, 0);
    rt_emit_fill(u->p, u->m[0], 0.0f); /* one launch */
    bias(u, 1);
}
static void bias_and_weight(update *u)
{
    bias(u, 0);
    rt_emit_rmsnorm_bwd(u->p, u->param[1], gradient(u, 1), u->grad[1], u->param[2],
                        rt_view_rows(u->p, u->param[3], 0, 1), 1, 1e-6f);
}
/* The second adds to what the first has to have written. */
static void one_bias_twice(update *u)
{
    bias(u, 0);
    bias(u, 0);
}
/* Two sums are wanted here, and the third later: without the reader they would be one launch. */
static void a_sum_that_is_read(update *u)
{
    bias(u, 0);
    bias(u, 1);
    norm(u, u->sum, gradient(u, 0)); /* two launches */
    bias(u, 2);
}
static void a_sum_that_is_written_over(update *u)
{
    bias(u, 0);
    rt_emit_fill(u->p, u->master[0], 0.0f); /* one launch */
    bias(u, 1);
}

static void sums_share_launches(void **test)
{
    (void)test;
    assert_int_equal(launches(all_biases), TENSORS + (TENSORS + RT_CUDA_COLUMNS_RUN - 1) / RT_CUDA_COLUMNS_RUN);
    assert_int_equal(launches(biases_with_something_between), 4);
    assert_int_equal(launches(bias_and_weight), 3);
    assert_int_equal(launches(one_bias_twice), 4);
    assert_int_equal(launches(a_sum_that_is_read), 7);
    assert_int_equal(launches(a_sum_that_is_written_over), 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(norms_share_launches),
        cmocka_unit_test(adams_share_launches),
        cmocka_unit_test(expansions_share_launches),
        cmocka_unit_test(sums_share_launches),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
