/* test_draw.c - random draws from a teacher, and what kd_loss makes of them: unbiased, a function of seed and key
 * alone.
 *
 * Draws are made with fixed seeds, so every figure here is the same each time. What is said to be unbiased is also
 * tried on something that is not, by the same measure. */
#include "kd_ref.h"
#include "num/draw.h"

enum { WIDE = 1000, DRAWS = 50, SEEDS = 1000 };

typedef struct drawn {
    int32_t id[RT_DRAW_MOST];
    double logp[RT_DRAW_MOST], entropy;
} drawn;

/* One row of V logits. */
static drawn draw_row(const double *x, const uint32_t *vmask, uint32_t V, uint32_t n, float T, uint64_t seed,
                      const uint32_t *key)
{
    static double work[3 * WIDE];
    drawn d;
    rt_step step = { .step = 3, .tokens = 1, .seed = seed };
    rt_args args = { .draw = { 1, V, n, T } };
    rt_ref_call c = { .args = &args, .work = work };
    assert_true(rt_ref_work(RT_OP_DRAW, &args) <= 3 * WIDE);
    c.s[RT_DRAW_ID] = d.id;
    c.s[RT_DRAW_LOGP] = d.logp;
    c.s[RT_DRAW_ENTROPY] = &d.entropy;
    c.s[RT_DRAW_X] = (void *)(uintptr_t)x;
    c.s[RT_DRAW_VMASK] = (void *)(uintptr_t)vmask;
    c.s[RT_DRAW_KEY] = (void *)(uintptr_t)key;
    c.s[RT_DRAW_STEP] = &step;
    rt_ref_table_double[RT_OP_DRAW](&c);
    return d;
}

static const uint32_t a_key[2] = { 123456789, 0xfedcba98 };

/* ---- weights ---- */

/* T in f32: 2^-24 of the exponent; of the polynomial: 2^-28; and what is below a whole number. */
static void weights_are_exponentials(void **state)
{
    static const float temperature[] = { 1, 0.3f, 2.5f, 7 };
    (void)state;
    for (int t = 0; t < 4; t++) {
        double scale = rt_draw_scale(temperature[t]);
        assert_true(rt_draw_weight(rt_draw_depth(0, scale)) == RT_DRAW_ONE);
        for (uint64_t i = 0; i < 20000; i++) {
            float below = (float)((1 + noise(5, i)) * 30);
            double y = (double)below / (double)temperature[t], want = exp(-y) * (double)RT_DRAW_ONE;
            uint64_t depth = rt_draw_depth(below, scale);
            near((double)rt_draw_weight(depth), want, want * (y * 0x1p-24 + 0x1p-28) + 1);
            if (y < 43) near((double)depth * 0x1p-32 * 0.69314718055994531, y, y * 0x1p-24 + 0x1p-33);
        }
        assert_true(rt_draw_weight(rt_draw_depth(INFINITY, scale)) == 0);
    }
    assert_true(rt_draw_weight(rt_draw_depth(0, rt_draw_scale(1e-45f))) == RT_DRAW_ONE);
    assert_true(rt_draw_weight(rt_draw_depth(1, rt_draw_scale(1e-45f))) == 0);
}

/* A mark is below the sum whatever the bits, and each whole number below it has its share of them. */
static void marks_are_below_the_sum(void **state)
{
    (void)state;
    assert_true(rt_draw_mark(UINT64_MAX, 1) == 0 && rt_draw_mark(UINT64_MAX, UINT64_C(1) << 62) < UINT64_C(1) << 62);
    assert_true(rt_draw_mark(0, 77) == 0 && rt_draw_mark(UINT64_MAX, 77) == 76);
    assert_true(rt_draw_mark(UINT64_C(1) << 63, 10) == 5 && rt_draw_mark((UINT64_C(1) << 63) - 1, 10) == 4);
}

/* ---- the list ---- */

/* Rising ids of the mask, shares of n that add up to 1, then unused entries; the ids are those that the draws, one by
 * one and with plain sums of exponentials, fall on. */
static void a_list_of_what_was_drawn(void **state)
{
    uint32_t vmask[2] = { 0xfffef7f7, 0xff };
    double x[IDS];
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint32_t n = 1 + (uint32_t)seed % 70, count[IDS] = { 0 }, k = 0;
        double sum = 0, plain = 0;
        for (uint32_t v = 0; v < IDS; v++) {
            x[v] = (double)(float)(3 * noise(seed, v));
            if (vmask[v / 32] >> v % 32 & 1) sum += exp(x[v] / 1.5);
        }
        x[3] = NAN; /* outside the mask */
        drawn d = draw_row(x, vmask, IDS, n, 1.5f, seed, a_key);
        for (uint32_t j = 0; j < n; j++) {
            rt_rng4 r = rt_philox(seed, (uint64_t)a_key[1] << 32 | a_key[0], 0xffffffff00000000u | j / 2);
            double u = r.v[2 * (j % 2) + 1] * 0x1p-32, upto = 0;
            uint32_t v = 0;
            for (;; v++) {
                if (vmask[v / 32] >> v % 32 & 1) upto += exp(x[v] / 1.5) / sum;
                if (upto > u) break;
            }
            count[v]++;
        }
        for (uint32_t v = 0; v < IDS; v++) {
            if (!count[v]) continue;
            assert_int_equal(d.id[k], v);
            near(d.logp[k++], log((double)count[v] / n), 1e-15);
        }
        for (; k < n; k++) assert_true(d.id[k] == -1 && d.logp[k] == 0);
        for (uint32_t v = 0; v < IDS; v++)
            if (vmask[v / 32] >> v % 32 & 1) plain -= exp(x[v] / 1.5) / sum * (x[v] / 1.5 - log(sum));
        near(d.entropy, plain, 1e-6);
    }
}

static bool same_draws(const drawn *a, const drawn *b, uint32_t n)
{
    return memcmp(a->id, b->id, n * sizeof *a->id) == 0 && memcmp(a->logp, b->logp, n * sizeof *a->logp) == 0;
}

/* A row of a batch has the draws that it has alone, whatever the step; another seed or word of the key gives others. */
static void draws_belong_to_the_key(void **state)
{
    enum { N = 3, V = 40, n = 20 };
    double x[N * V], logp[N * n], entropy[N], work[3 * V];
    uint32_t keys[N][2] = { { 1, 2 }, { 123456789, 0xfedcba98 }, { 2, 1 } }, other[2] = { a_key[0] ^ 1, a_key[1] };
    int32_t id[N * n];
    (void)state;
    for (uint32_t i = 0; i < N * V; i++) x[i] = noise(8, i);
    rt_step step = { .step = 99, .tokens = 1, .seed = 7, .row = 5 };
    rt_args args = { .draw = { N, V, n, 1 } };
    rt_ref_call c = { .args = &args, .work = work };
    void *slot[] = { id, logp, entropy, x, NULL, keys, &step };
    memcpy(c.s, slot, sizeof slot);
    rt_ref_table_double[RT_OP_DRAW](&c);
    drawn alone = draw_row(x + V, NULL, V, n, 1, 7, a_key), seed = draw_row(x + V, NULL, V, n, 1, 8, a_key);
    assert_true(memcmp(alone.id, id + n, n * sizeof *id) == 0 && memcmp(alone.logp, logp + n, n * sizeof *logp) == 0);
    assert_true(alone.entropy == entropy[1]);
    assert_false(same_draws(&alone, &seed, n));
    drawn low = draw_row(x + V, NULL, V, n, 1, 7, other);
    other[0] = a_key[0], other[1] = a_key[1] ^ 1;
    drawn high = draw_row(x + V, NULL, V, n, 1, 7, other);
    assert_false(same_draws(&alone, &low, n) || same_draws(&alone, &high, n) || same_draws(&low, &high, n));
}

static void a_row_of_one_id_or_none(void **state)
{
    double x[IDS] = { 0 };
    uint32_t one[2] = { 1u << 9, 0 }, none[2] = { 0, 0 };
    (void)state;
    x[9] = -3e38;
    drawn d = draw_row(x, one, IDS, 5, 1, 1, a_key);
    assert_true(d.id[0] == 9 && d.logp[0] == 0 && d.id[1] == -1 && d.entropy == 0);
    d = draw_row(x, none, IDS, 5, 1, 1, a_key);
    assert_true(d.id[0] == -1 && d.id[4] == -1 && d.logp[0] == 0 && d.entropy == 0);
}

/* ---- means ---- */

/* Logits that make every id likely enough for SEEDS * DRAWS draws to say something of it. */
static void wide_logits(double *p, double *x, uint64_t seed)
{
    for (uint32_t v = 0; v < WIDE; v++) x[v] = (double)(float)(1.5 * noise(seed, v));
    softmax(p, x, WIDE, 1);
}

typedef struct beyond {
    uint32_t three, five; /* coordinates that far from what they should be, in standard errors */
} beyond;

/* mean of SEEDS lists of DRAWS draws against p: the standard error of a share is sqrt(p (1 - p) / draws). */
static beyond judge(const double *mean, const double *want, const double *p, uint32_t V)
{
    beyond b = { 0, 0 };
    for (uint32_t v = 0; v < V; v++) {
        double z = fabs(mean[v] - want[v]) / sqrt(p[v] * (1 - p[v]) / ((double)SEEDS * DRAWS));
        b.three += z > 3;
        b.five += z > 5;
    }
    return b;
}

static void shares_have_the_mean_p(void **state)
{
    double x[IDS], p[IDS], mean[IDS] = { 0 }, distinct[IDS] = { 0 };
    (void)state;
    for (uint32_t v = 0; v < IDS; v++) x[v] = (double)(float)(3 * noise(21, v));
    softmax(p, x, IDS, 2);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint32_t k = 0;
        drawn d = draw_row(x, NULL, IDS, DRAWS, 2, seed, a_key);
        while (k < DRAWS && d.id[k] >= 0) k++;
        for (uint32_t j = 0; j < k; j++) {
            mean[d.id[j]] += exp(d.logp[j]) / SEEDS;
            distinct[d.id[j]] += 1.0 / k / SEEDS; /* as if the counts did not matter */
        }
    }
    assert_int_equal(judge(mean, p, p, IDS).five, 0);
    assert_true(judge(distinct, p, p, IDS).five > IDS / 2);
}

/* ---- through the loss ---- */

typedef struct outcome {
    double grad[WIDE], div;
    bool fault;
} outcome;

/* Forward KL alone, of one position: the teacher as a list without rest, or (k 0) in full. */
static outcome loss(const double *z, const double *teacher, uint32_t V, const int32_t *id, const double *logp,
                    uint32_t k)
{
    static double work[5 * WIDE + 3];
    outcome o = { .div = NAN };
    double sums[4] = { 0 }, ce, top1, rest = 0;
    int32_t target = 0;
    rt_fault fault = { 0 };
    rt_step step = { .step = STEP, .tokens = 1 };
    rt_args args = { .kd = { 1, V, k ? 0 : V, k, RT_DIV_FORWARD_KL, 1, 0, 0, 1, 0, 1, SITE } };
    rt_ref_call c = { .args = &args, .work = work };
    assert_true(rt_ref_work(RT_OP_KD_LOSS, &args) <= sizeof work / sizeof *work);
    memcpy(o.grad, z, V * sizeof *z);
    c.s[RT_KD_LOGITS] = o.grad;
    c.s[RT_KD_SUMS] = sums;
    c.s[RT_KD_CE] = &ce;
    c.s[RT_KD_DIV] = &o.div;
    c.s[RT_KD_TOP1] = &top1;
    c.s[RT_KD_FAULT] = &fault;
    c.s[RT_KD_TARGET] = &target;
    c.s[RT_KD_STEP] = &step;
    c.s[RT_KD_TEACHER] = k ? NULL : (void *)(uintptr_t)teacher;
    c.s[RT_KD_TK_ID] = (void *)(uintptr_t)id;
    c.s[RT_KD_TK_LOGP] = (void *)(uintptr_t)logp;
    c.s[RT_KD_TK_REST] = &rest;
    rt_ref_table_double[RT_OP_KD_LOSS](&c);
    o.fault = fault.set;
    return o;
}

/* The k likeliest ids with their probabilities made to add up to 1: what draws are better than. */
static uint32_t likeliest(const double *p, int32_t *id, double *logp, uint32_t k)
{
    double least = 0, kept = 0;
    uint32_t n = 0;
    for (;; least += 1e-5) {
        n = 0;
        for (uint32_t v = 0; v < WIDE; v++) n += p[v] > least;
        if (n <= k) break;
    }
    n = 0;
    for (uint32_t v = 0; v < WIDE; v++)
        if (p[v] > least) {
            id[n++] = (int32_t)v;
            kept += p[v];
        }
    for (uint32_t j = 0; j < n; j++) logp[j] = log(p[id[j]] / kept);
    return n;
}

/* The mean gradient is the full one, and the mean of D + H(shares) - H(p) is the full D. D alone is not. */
static void the_loss_of_draws_is_unbiased(void **state)
{
    static double x[WIDE], z[WIDE], p[WIDE], q[WIDE], mean[WIDE];
    double div = 0, alone = 0, first = 0, second = 0;
    (void)state;
    wide_logits(p, x, 22);
    wide_logits(q, z, 23);
    outcome full = loss(z, x, WIDE, NULL, NULL, 0);
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        drawn d = draw_row(x, NULL, WIDE, DRAWS, 1, seed, a_key);
        outcome o = loss(z, NULL, WIDE, d.id, d.logp, DRAWS);
        double shares = 0;
        assert_false(o.fault);
        for (uint32_t j = 0; j < DRAWS && d.id[j] >= 0; j++) shares -= exp(d.logp[j]) * d.logp[j];
        for (uint32_t v = 0; v < WIDE; v++) mean[v] += o.grad[v] / SEEDS;
        div += (o.div + shares - d.entropy) / SEEDS;
        alone += o.div / SEEDS;
    }
    beyond b = judge(mean, full.grad, p, WIDE);
    assert_true(b.five == 0 && b.three <= WIDE * 8 / 1000);
    for (uint32_t v = 0; v < WIDE; v++) { /* -log q under p */
        first -= p[v] * log(q[v]);
        second += p[v] * log(q[v]) * log(q[v]);
    }
    double error = sqrt((second - first * first) / ((double)SEEDS * DRAWS));
    near(div, full.div, 3 * error);
    assert_true(fabs(alone - full.div) > 100 * error);

    int32_t id[DRAWS];
    double logp[DRAWS];
    outcome cut = loss(z, NULL, WIDE, id, logp, likeliest(p, id, logp, DRAWS));
    b = judge(cut.grad, full.grad, p, WIDE);
    assert_true(b.five > WIDE / 2);
}

/* A logit that is no number names itself, and the loss of such a row is a fault. */
static void bad_logits_reach_the_loss(void **state)
{
    static const double bad[] = { NAN, INFINITY, -INFINITY };
    double x[IDS], z[IDS] = { 0 };
    (void)state;
    for (int b = 0; b < 3; b++) {
        for (uint32_t v = 0; v < IDS; v++) x[v] = noise(4, v);
        x[17] = x[30] = bad[b];
        drawn d = draw_row(x, NULL, IDS, 5, 1, 1, a_key);
        assert_true(d.id[0] == 17 && isnan(d.logp[0]) && d.id[1] == -1 && isnan(d.logp[4]) && isnan(d.entropy));
        assert_true(loss(z, NULL, IDS, d.id, d.logp, 5).fault);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_are_exponentials),      cmocka_unit_test(marks_are_below_the_sum),
        cmocka_unit_test(a_list_of_what_was_drawn),      cmocka_unit_test(draws_belong_to_the_key),
        cmocka_unit_test(a_row_of_one_id_or_none),       cmocka_unit_test(shares_have_the_mean_p),
        cmocka_unit_test(the_loss_of_draws_is_unbiased), cmocka_unit_test(bad_logits_reach_the_loss)
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
