/* test_step.c - the step as a whole: it learns, it learns nothing at a learning rate of 0, it stops at a number that is
 * not finite without touching a weight; and what must not change its numbers does not: chunks of the head,
 * micro-batches, packing against padding, recomputation, threads. */
#include "pair_case.h"

#include "train/schedule.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 8, LONG = 16, V = 37 };

typedef struct rows {
    int32_t ids[ROWS * LONG], pos[ROWS * LONG], start[ROWS * LONG], target[ROWS * LONG];
} rows;

static rt_model_config student_config, teacher_config;

static rt_step_opts options(uint32_t B, uint32_t T)
{
    student_config = pair_config(32, V);
    teacher_config = pair_config(40, V);
    return (rt_step_opts){
        .B = B,
        .T = T,
        .chunk = 16,
        .loss = { .divergence = RT_DIV_FORWARD_KL, .temperature = 1.0, .ce_weight = 0.1, .kd_weight = 0.9, .t2 = true },
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.01,
        .max_grad_norm = 1.0,
        .policy = rt_policy_f32,
        .student = &student_config,
        .teacher = &teacher_config
    };
}

static rt_dev *open_device(const char *name, uint32_t threads)
{
    const rt_backend *b;
    rt_dev *d = NULL;
    rt_err e = { 0 };
    char count[RT_DEV_COUNT_TEXT];
    assert_int_equal(rt_backend_find(name, &b, &e), RT_OK);
    if (b->open(&d, 0, &RT_DEV_OPTIONS({ "threads", rt_dev_count(count, threads) }), &e) < 0) fail_msg("%s", e.text);
    return d;
}

static rt_trainer *open_trainer(rt_dev *d, const rt_step_opts *o)
{
    static float zero[1 << 16];
    static const uint32_t none[4];
    rt_trainer *t = NULL;
    rt_err e = { 0 };
    if (rt_trainer_open(&t, d, o, &(rt_seal_opts){ .poison = true, .guards = true }, &e) < 0) fail_msg("%s", e.text);
    pair_fill(t, t->plan->student, 100, 0.05);
    if (t->plan->teacher) pair_fill(t, t->plan->teacher, 900, 0.25);
    for (uint32_t i = 0; i < t->plan->student->param_count; i++) {
        if (!t->plan->student->params[i].grad.buf) continue;
        assert_int_equal(rt_trainer_write(t, 'm', i, zero, &e), RT_OK);
        assert_int_equal(rt_trainer_write(t, 'v', i, zero, &e), RT_OK);
        if (!t->plan->moments[i].master.buf) continue;
        static float w[1 << 16];
        assert_int_equal(rt_read_param(t->x, t->plan->student, i, w, &e), RT_OK);
        assert_int_equal(rt_trainer_write(t, 'w', i, w, &e), RT_OK);
    }
    assert_int_equal(rt_exec_write(t->x, t->plan->fault, none, sizeof none, &e), RT_OK);
    return t;
}

/* Rows of T positions, one document each, every fourth target masked. */
static void make_rows(rows *r, uint32_t B, uint32_t T)
{
    for (uint32_t i = 0; i < B * T; i++) {
        uint32_t t = i % T, row = i / T;
        r->ids[i] = (int32_t)((row * 11 + t * 7 + t * t) % V);
        r->pos[i] = (int32_t)t;
        r->start[i] = 0;
    }
    for (uint32_t i = 0; i < B * T; i++) r->target[i] = i % T == T - 1 || i % 4 == 1 ? -1 : r->ids[i + 1];
}

static rt_batch part(const rows *r, uint32_t at)
{
    return (rt_batch){ r->ids + at, r->pos + at, r->start + at, r->target + at, NULL };
}

static rt_step_result step(rt_trainer *t, const rt_batch *b, uint32_t n, uint32_t index, double lr)
{
    rt_step_result r;
    rt_err e = { 0 };
    if (rt_trainer_step(t, b, n, index, lr, 1, &r, &e) < 0) fail_msg("%s", e.text);
    if (rt_exec_check(t->x, &e) < 0) fail_msg("%s", e.text);
    return r;
}

static void test_learns(void **state)
{
    (void)state;
    rt_dev *d = open_device("cpu", 2);
    rt_step_opts o = options(ROWS, LONG);
    rt_trainer *t = open_trainer(d, &o);
    rows r;
    make_rows(&r, ROWS, LONG);
    rt_batch b = part(&r, 0);
    rt_step_result first = step(t, &b, 1, 1, 3e-3), last = first;
    for (uint32_t i = 2; i <= 60; i++) last = step(t, &b, 1, i, 3e-3);
    print_message("divergence %.4f -> %.4f, agreement %.3f -> %.3f\n", first.div, last.div, first.agreement,
                  last.agreement);
    assert_true(last.div < 0.25 * first.div);
    assert_true(last.agreement > first.agreement + 0.3);
    assert_true(first.trained == rt_batch_trained(&b, ROWS * LONG));
    assert_true(fabs(first.loss - (0.1 * first.ce + 0.9 * first.div)) < 1e-6);
    rt_trainer_free(t);
    d->api->close(d);
}

/* What a GPU stores: weights and activations in 16 bits, masters, moments and accumulated gradients in f32. It starts
 * where the f32 run starts, up to rounding, and learns as much; two micro-batches add up. */
static void test_bf16(void **state)
{
    (void)state;
    double div[2][2]; /* policy; first and last */
    for (int k = 0; k < 2; k++) {
        rt_dev *d = open_device("cpu", 2);
        rt_step_opts o = options(ROWS / 2, LONG);
        o.accumulate = true;
        o.policy = k ? rt_policy_bf16 : rt_policy_f32;
        rt_trainer *t = open_trainer(d, &o);
        rows r;
        make_rows(&r, ROWS, LONG);
        rt_batch b[] = { part(&r, 0), part(&r, ROWS / 2 * LONG) };
        for (uint32_t i = 1; i <= 60; i++) {
            double now = step(t, b, 2, i, 3e-3).div;
            if (i == 1) div[k][0] = now;
            div[k][1] = now;
        }
        assert_int_equal(t->plan->moments[0].master.buf != 0, k);
        rt_trainer_free(t);
        d->api->close(d);
    }
    print_message("divergence in f32 %.4f -> %.4f, in bf16 %.4f -> %.4f\n", div[0][0], div[0][1], div[1][0], div[1][1]);
    assert_true(fabs(div[1][0] - div[0][0]) < 0.02 * div[0][0] && div[1][0] != div[0][0]);
    assert_true(div[1][1] < 0.25 * div[1][0] && fabs(div[1][1] - div[0][1]) < 0.05 * div[0][0]);
}

static void test_head_chunks(void **state)
{
    (void)state;
    assert_int_equal(rt_head_chunk(8192, 607744, 1280u << 20), 2048); /* four, where 2,208 tokens would fit */
    assert_int_equal(rt_head_chunk(100, 1000, 1 << 20), 100);         /* all at once */
    assert_int_equal(rt_head_chunk(100, 1000, 50000), 48);            /* 48, 48, 4: whole steps of 16 within the room */
    assert_int_equal(rt_head_chunk(1000, 1 << 20, 1), 16);            /* never less */
    for (uint32_t n = 1; n < 400; n++) {
        uint32_t c = rt_head_chunk(n, 1000, 70000);
        assert_true(c == n || (c % 16 == 0 && c <= 64));
    }
}

/* The control of test_learns: without a learning rate nothing may be learned. */
static void test_rate_zero(void **state)
{
    (void)state;
    rt_dev *d = open_device("cpu", 2);
    rt_step_opts o = options(ROWS, LONG);
    o.weight_decay = 0.5; /* decay is scaled by the rate, so it must do nothing either */
    rt_trainer *t = open_trainer(d, &o);
    rows r;
    make_rows(&r, ROWS, LONG);
    rt_batch b = part(&r, 0);
    rt_step_result first = step(t, &b, 1, 1, 0.0), last = first;
    for (uint32_t i = 2; i <= 10; i++) last = step(t, &b, 1, i, 0.0);
    assert_true(last.div == first.div && last.ce == first.ce && last.grad_norm == first.grad_norm);
    rt_trainer_free(t);
    d->api->close(d);
}

/* Weights and gradients of a parameter after one step. */
typedef struct outcome {
    rt_step_result result;
    float grads[1 << 16], weights[1 << 16];
    uint64_t n;
} outcome;

static void run_one(outcome *out, const char *backend, uint32_t threads, const rt_step_opts *o, const rt_batch *b,
                    uint32_t count)
{
    rt_dev *d = open_device(backend, threads);
    rt_trainer *t = open_trainer(d, o);
    rt_err e = { 0 };
    out->result = step(t, b, count, 1, 1e-3);
    out->n = 0;
    for (uint32_t i = 0; i < t->plan->student->param_count; i++) {
        uint64_t n = rt_trainer_elems(t, i);
        assert_true(out->n + n <= 1 << 16);
        assert_int_equal(rt_trainer_read(t, 'g', i, out->grads + out->n, &e), RT_OK);
        assert_int_equal(rt_trainer_read(t, 'w', i, out->weights + out->n, &e), RT_OK);
        out->n += n;
    }
    rt_trainer_free(t);
    d->api->close(d);
}

/* The gradients differ by less than limit of their norm; 0: same bits, weights too. */
static void assert_same(const outcome *a, const outcome *b, double limit, const char *what)
{
    double diff = 0, norm = 0;
    assert_true(a->n == b->n && a->n > 0);
    assert_true(a->result.trained == b->result.trained);
    for (uint64_t i = 0; i < a->n; i++) {
        diff += ((double)a->grads[i] - b->grads[i]) * ((double)a->grads[i] - b->grads[i]);
        norm += (double)a->grads[i] * a->grads[i];
    }
    double ratio = sqrt(diff / norm), loss = fabs(a->result.loss - b->result.loss) / fabs(a->result.loss);
    print_message("%s: gradients differ by %.2g of their norm, losses by %.2g\n", what, ratio, loss);
    if (limit > 0) {
        assert_true(norm > 0 && ratio < limit && loss < limit);
        return;
    }
    assert_memory_equal(a->grads, b->grads, a->n * sizeof(float));
    assert_memory_equal(a->weights, b->weights, a->n * sizeof(float));
    assert_true(a->result.loss == b->result.loss);
}

static void test_invariants(void **state)
{
    (void)state;
    static outcome plain, other;
    rows r;
    make_rows(&r, ROWS, LONG);
    rt_batch whole = part(&r, 0), each[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) each[i] = part(&r, i * LONG);
    rt_step_opts o = options(ROWS, LONG);
    run_one(&plain, "cpu", 1, &o, &whole, 1);
    run_one(&other, "cpu", 3, &o, &whole, 1);
    assert_same(&plain, &other, 0, "3 threads");
    o.recompute = rt_recompute_every(RT_RECOMPUTE_BLOCK);
    run_one(&other, "cpu", 2, &o, &whole, 1);
    assert_same(&plain, &other, 0, "recomputed blocks");
    o = options(ROWS, LONG);
    o.chunk = 7;
    run_one(&other, "cpu", 2, &o, &whole, 1);
    assert_same(&plain, &other, 2e-6, "chunks of 7");
    o = options(1, LONG);
    o.accumulate = true;
    run_one(&other, "cpu", 2, &o, each, ROWS);
    assert_same(&plain, &other, 2e-6, "8 micro-batches of 1 row");
    for (o.ahead = 2; o.ahead <= 8; o.ahead += 3) { /* 2, 5 (8 is not a multiple of it), 8 */
        run_one(&other, "cpu", 2, &o, each, ROWS);
        assert_same(&plain, &other, 2e-6, "a teacher that reads ahead");
    }
    o = options(ROWS, LONG);
    run_one(&other, "ref", 1, &o, &whole, 1);
    assert_same(&plain, &other, 1e-5, "ref");
}

/* Two documents packed into one row against the same two in rows of their own, filled up with padding. */
static void test_packing(void **state)
{
    (void)state;
    static outcome packed, padded;
    rows short_rows, one, two;
    uint32_t half = LONG / 2;
    make_rows(&short_rows, 2, half);
    memset(&two, 0, sizeof two);
    memset(&one, 0, sizeof one);
    for (uint32_t i = 0; i < 2 * LONG; i++) two.target[i] = -1, two.pos[i] = (int32_t)(i % LONG);
    for (uint32_t d = 0; d < 2; d++)
        for (uint32_t i = 0; i < half; i++) {
            uint32_t from = d * half + i, to = d * LONG + i;
            one.ids[from] = two.ids[to] = short_rows.ids[from];
            one.target[from] = two.target[to] = short_rows.target[from];
            one.pos[from] = two.pos[to] = (int32_t)i;
            one.start[from] = (int32_t)(d * half);
        }
    for (uint32_t i = half; i < LONG; i++) two.start[i] = two.start[LONG + i] = (int32_t)half;
    rt_step_opts o = options(1, LONG);
    rt_batch b = part(&one, 0);
    run_one(&packed, "cpu", 2, &o, &b, 1);
    o = options(2, LONG);
    b = part(&two, 0);
    run_one(&padded, "cpu", 2, &o, &b, 1);
    assert_same(&packed, &padded, 2e-6, "packed against padded");
}

/* A weight that is not finite: the step says so and leaves every other weight as it was. */
static void test_not_finite(void **state)
{
    (void)state;
    static float before[1 << 16], after[1 << 16];
    rt_dev *d = open_device("cpu", 2);
    rt_step_opts o = options(2, LONG);
    rt_trainer *t = open_trainer(d, &o);
    rows r;
    rt_err e = { 0 };
    rt_step_result out;
    make_rows(&r, 2, LONG);
    rt_batch b = part(&r, 0);
    for (uint32_t i = 1; i <= 3; i++) step(t, &b, 1, i, 1e-3);
    uint32_t embed = t->plan->student->embed;
    assert_int_equal(rt_trainer_read(t, 'w', embed, before, &e), RT_OK);
    float nan_row[32];
    for (int i = 0; i < 32; i++) nan_row[i] = NAN;
    uint32_t norm = t->plan->student->layers[1].mlp_norm;
    assert_int_equal(rt_trainer_write(t, 'w', norm, nan_row, &e), RT_OK);
    assert_int_equal(rt_trainer_step(t, &b, 1, 4, 1e-3, 1, &out, &e), RT_NONFINITE);
    assert_non_null(strstr(e.text, "step 4"));
    assert_int_equal(rt_trainer_read(t, 'w', embed, after, &e), RT_OK);
    assert_memory_equal(before, after, rt_trainer_elems(t, embed) * sizeof(float));
    /* sticky: later steps change nothing either, and still name the first */
    assert_int_equal(rt_trainer_step(t, &b, 1, 5, 1e-3, 1, &out, &e), RT_NONFINITE);
    assert_non_null(strstr(e.text, "step 4"));
    rt_trainer_free(t);
    d->api->close(d);
}

/* A fault in any chunk of the head is told by its row and position. */
static void test_fault_position(void **state)
{
    (void)state;
    for (uint32_t at = 0; at < 4 * LONG; at += LONG + 2) { /* of four chunks, another position of each */
        rt_dev *d = open_device("cpu", 1);
        rt_step_opts o = options(4, LONG);
        rt_trainer *t = open_trainer(d, &o);
        rows r;
        rt_err e = { 0 };
        rt_step_result out;
        char where[64];
        make_rows(&r, 4, LONG);
        r.target[at] = V;
        rt_batch b = part(&r, 0);
        assert_int_equal(rt_trainer_step(t, &b, 1, 1, 1e-3, 1, &out, &e), RT_NONFINITE);
        snprintf(where, sizeof where, "row %u, position %u of", at / LONG, at % LONG);
        if (!strstr(e.text, where)) fail_msg("%s, not %s", e.text, where);
        rt_trainer_free(t);
        d->api->close(d);
    }
}

static void test_nothing_trained(void **state)
{
    (void)state;
    rt_dev *d = open_device("cpu", 1);
    rt_step_opts o = options(1, LONG);
    rt_trainer *t = open_trainer(d, &o);
    rows r;
    rt_err e = { 0 };
    rt_step_result out;
    make_rows(&r, 1, LONG);
    for (uint32_t i = 0; i < LONG; i++) r.target[i] = -1;
    rt_batch b = part(&r, 0);
    assert_int_equal(rt_trainer_step(t, &b, 1, 1, 1e-3, 1, &out, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "no position"));
    rt_trainer_free(t);
    d->api->close(d);
}

/* Evaluation gives by position what a step sums up. */
static void test_evaluation(void **state)
{
    (void)state;
    static float ce[ROWS * LONG], div[ROWS * LONG], kl[ROWS * LONG], top1[ROWS * LONG], own[ROWS * LONG];
    rt_dev *d = open_device("cpu", 2);
    rt_step_opts o = options(ROWS, LONG);
    o.loss.divergence = RT_DIV_REVERSE_KL;
    o.loss.temperature = 2.0;
    rt_trainer *t = open_trainer(d, &o);
    rows r;
    rt_err e = { 0 };
    double sum[4] = { 0 };
    make_rows(&r, ROWS, LONG);
    rt_batch b = part(&r, 0);
    rt_eval_out out = { ce, div, kl, top1, own };
    if (rt_trainer_eval(t, &b, &out, &e) < 0) fail_msg("%s", e.text);
    for (uint32_t i = 0; i < ROWS * LONG; i++) {
        if (r.target[i] < 0) continue;
        sum[0] += ce[i], sum[1] += div[i], sum[2] += top1[i], sum[3] += 1;
        assert_true(kl[i] > 0 && own[i] > 0 && fabsf(kl[i] - div[i]) > 0);
    }
    rt_step_result s = step(t, &b, 1, 1, 0.0);
    assert_true(fabs(sum[0] / sum[3] - s.ce) < 1e-5 * s.ce);
    assert_true(fabs(sum[1] / sum[3] - s.div) < 1e-5 * s.div);
    assert_true(sum[2] / sum[3] == s.agreement && sum[3] == (double)s.trained);
    rt_trainer_free(t);
    d->api->close(d);
}

static void test_schedule(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_schedule s = { .kind = RT_SCHEDULE_COSINE, .lr = 2.0, .floor = 0.1, .warmup = 10, .steps = 110 };
    assert_true(rt_schedule_lr(&s, 1) == 0.2 && rt_schedule_lr(&s, 10) == 2.0);
    assert_true(fabs(rt_schedule_lr(&s, 60) - 1.1) < 1e-12 && fabs(rt_schedule_lr(&s, 110) - 0.2) < 1e-12);
    s.kind = RT_SCHEDULE_LINEAR;
    assert_true(fabs(rt_schedule_lr(&s, 60) - 1.1) < 1e-12 && fabs(rt_schedule_lr(&s, 110) - 0.2) < 1e-12);
    s.steps = 10; /* the whole run is warm-up: it ends where the rate is reached */
    assert_true(rt_schedule_lr(&s, 5) == 1.0 && rt_schedule_lr(&s, 10) == 2.0);
    s.steps = 110;
    s.kind = RT_SCHEDULE_CONSTANT;
    assert_true(rt_schedule_lr(&s, 11) == 2.0 && rt_schedule_lr(&s, 110) == 2.0);
    s.kind = RT_SCHEDULE_WSD;
    s.decay = 20;
    assert_true(rt_schedule_lr(&s, 90) == 2.0 && fabs(rt_schedule_lr(&s, 100) - 1.1) < 1e-12);
    assert_true(fabs(rt_schedule_lr(&s, 110) - 0.2) < 1e-12);
    assert_int_equal(rt_schedule_check(&s, &e), RT_OK);
    s.decay = 101;
    assert_int_equal(rt_schedule_check(&s, &e), RT_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_learns),     cmocka_unit_test(test_head_chunks),     cmocka_unit_test(test_bf16),
        cmocka_unit_test(test_fault_position),
        cmocka_unit_test(test_rate_zero),  cmocka_unit_test(test_invariants),      cmocka_unit_test(test_packing),
        cmocka_unit_test(test_not_finite), cmocka_unit_test(test_nothing_trained), cmocka_unit_test(test_evaluation),
        cmocka_unit_test(test_schedule),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
