/* test_source.c - one teacher, given in every form that a source has: hidden states give the live teacher's loss and
 * gradients to the bit, lists of all ids the same to rounding, draws the same on average; and what is wrong on purpose
 * is seen. */
#include "pair_case.h"

#include "base/rng.h"

#include <math.h>
#include <string.h>

enum { B = 2, T = 12, N = B * T, V = 37, WIDTH = 40, DRAWS = 16, SEEDS = 1000, COORDINATES = 1000 };

static rt_model_config student_config, teacher_config;
static rt_dev *device;
static int32_t ids[N], pos[N], start[N], target[N];
static double logp[N][V];  /* of the teacher, at the temperature of the loss */
static double plain[N][V]; /* at temperature 1 */

static rt_step_opts options(rt_divergence d, double temperature)
{
    rt_step_opts o = pair_options(B, T, d, temperature);
    o.student = &student_config;
    o.teacher = &teacher_config;
    return o;
}

/* live: whose head it gets; null: it is the live one. */
static rt_trainer *open_trainer(const rt_step_opts *o, const rt_trainer *live)
{
    static float head[V * WIDTH];
    rt_trainer *t = NULL;
    rt_err e = { 0 };
    if (rt_trainer_open(&t, device, o, &(rt_seal_opts){ .poison = true, .guards = true }, &e) < 0)
        fail_msg("%s", e.text);
    pair_fill(t, t->plan->student, 100, 0.05);
    if (!live) pair_fill(t, t->plan->teacher, 900, 0.25);
    if (live && t->plan->teacher) {
        assert_int_equal(t->plan->teacher->param_count, 1);
        assert_int_equal(rt_read_param(live->x, live->plan->teacher, live->plan->teacher->head, head, &e), RT_OK);
        assert_int_equal(rt_write_param(t->x, t->plan->teacher, 0, head, &e), RT_OK);
    }
    pair_begin(t);
    return t;
}

static rt_step_result step(rt_trainer *t)
{
    const rt_batch b = { ids, pos, start, target, NULL };
    rt_step_result r;
    rt_err e = { 0 };
    if (rt_trainer_step(t, &b, 1, 1, 0.0, 1, &r, &e) < 0) fail_msg("%s", e.text);
    if (rt_exec_check(t->x, &e) < 0) fail_msg("%s", e.text);
    return r;
}

/* ---- sources ---- */

typedef struct fake {
    rt_source seam;
    float hidden[N * WIDTH];
    uint32_t n;         /* entries */
    uint64_t seed;      /* of draws */
    bool renormalised;  /* wrong on purpose: the listed ids alone are all there is */
    bool draws, no_add; /* no_add: wrong on purpose */
} fake;

static int give_hidden(rt_source *s, rt_source_use use, const rt_source_rows *rows, const rt_source_out *out, rt_err *e)
{
    (void)use, (void)e;
    assert_int_equal(rows->B * rows->T, N);
    assert_int_equal(out->dtype, RT_DTYPE_F32);
    memcpy(out->hidden, ((fake *)s)->hidden, sizeof((fake *)s)->hidden);
    return RT_OK;
}

/* Ids by falling probability. */
static void rank(const double *lp, int32_t *order)
{
    for (int v = 0; v < V; v++) {
        int k = v;
        for (; k > 0 && lp[order[k - 1]] < lp[v]; k--) order[k] = order[k - 1];
        order[k] = v;
    }
}

static int give_topk(rt_source *s, rt_source_use use, const rt_source_rows *rows, const rt_source_out *out, rt_err *e)
{
    const fake *f = (const fake *)s;
    int32_t order[V];
    (void)rows, (void)e;
    for (int i = 0; i < N; i++) {
        const double *lp = use == RT_USE_HELD ? plain[i] : logp[i];
        double mass = 0;
        rank(lp, order);
        for (uint32_t j = 0; j < f->n; j++) mass += exp(lp[order[j]]);
        for (uint32_t j = 0; j < f->n; j++) {
            out->id[i * f->n + j] = order[j];
            out->logp[i * f->n + j] = (float)(lp[order[j]] - (f->renormalised ? log(mass) : 0));
        }
        out->rest[i] = f->renormalised || f->n == V ? 0 : (float)(1 - mass);
        out->add[i] = 0;
        out->target_logp[i] = target[i] < 0 ? 0 : (float)lp[target[i]];
    }
    return RT_OK;
}

static int give_draws(rt_source *s, rt_source_use use, const rt_source_rows *rows, const rt_source_out *out, rt_err *e)
{
    const fake *f = (const fake *)s;
    (void)rows, (void)e;
    assert_int_equal(use, RT_USE_TRAIN);
    for (int i = 0; i < N; i++) {
        uint32_t count[V] = { 0 };
        double entropy = 0, drawn = 0;
        for (uint32_t k = 0; k < f->n; k++) {
            double u = rt_rng_unit(rt_philox(f->seed, (uint64_t)i, k).v[0]), at = 0;
            int v = 0;
            for (; v < V - 1 && (at += exp(logp[i][v])) <= u; v++)
                ;
            count[v]++;
        }
        uint32_t j = 0;
        for (int v = 0; v < V; v++) {
            entropy -= exp(logp[i][v]) * logp[i][v];
            if (!count[v]) continue;
            double p = (double)count[v] / f->n;
            drawn -= p * log(p);
            out->id[i * f->n + j] = v;
            out->logp[i * f->n + j++] = (float)log(p);
        }
        for (; j < f->n; j++) out->id[i * f->n + j] = -1, out->logp[i * f->n + j] = 0;
        out->rest[i] = 0;
        out->add[i] = f->no_add ? 0 : (float)(drawn - entropy);
    }
    return RT_OK;
}

/* ---- the same numbers ---- */

/* The live teacher's logits as log-probabilities at temperature t. */
static void read_teacher(rt_trainer *live, double (*to)[V], double t)
{
    static float student[N * V], teacher[N * V];
    int32_t all[N];
    rt_err e = { 0 };
    const rt_batch b = { ids, pos, start, target, NULL };
    for (int i = 0; i < N; i++) all[i] = i;
    if (rt_trainer_logits(live, &b, all, student, teacher, &e) < 0) fail_msg("%s", e.text);
    for (int i = 0; i < N; i++) {
        double most = -INFINITY, sum = 0;
        for (int v = 0; v < V; v++) most = fmax(most, teacher[i * V + v] / t);
        for (int v = 0; v < V; v++) sum += exp(teacher[i * V + v] / t - most);
        for (int v = 0; v < V; v++) to[i][v] = teacher[i * V + v] / t - most - log(sum);
    }
}

static void test_hidden(void **state)
{
    (void)state;
    static fake f = { .seam.fill = give_hidden };
    for (int d = 0; d < RT_DIV_COUNT; d++) {
        rt_err e = { 0 };
        rt_step_opts o = options((rt_divergence)d, 2.0);
        rt_trainer *live = open_trainer(&o, NULL);
        rt_step_result want = step(live);
        assert_int_equal(rt_exec_read(live->x, live->plan->teacher_hidden, f.hidden, sizeof f.hidden, &e), RT_OK);
        o.source.form = RT_FORM_HIDDEN;
        rt_trainer *t = open_trainer(&o, live);
        assert_null(t->plan->plan[RT_PROGRAM_TEACHER]);
        t->source = &f.seam;
        rt_step_result got = step(t);
        assert_true(want.loss == got.loss && want.div == got.div && want.grad_norm == got.grad_norm);
        assert_true(pair_gradients_apart(live, t) == 0);
        f.hidden[2 * WIDTH] += 1; /* another teacher is another gradient */
        step(t);
        assert_true(pair_gradients_apart(live, t) > 0);
        rt_trainer_free(t);
        rt_trainer_free(live);
    }
}

/* Every divergence from lists of all ids, at two temperatures; evaluation too, which reads those at 1 and the loss's.
 */
static void test_all_ids(void **state)
{
    (void)state;
    static float a[5][N], b[5][N];
    const rt_batch rows = { ids, pos, start, target, NULL };
    for (int d = 0; d < 2 * RT_DIV_COUNT; d++) {
        rt_err e = { 0 };
        const double at = d < RT_DIV_COUNT ? 1 : 2.5;
        rt_step_opts o = options((rt_divergence)(d % RT_DIV_COUNT), at);
        rt_trainer *live = open_trainer(&o, NULL);
        fake f = { .seam.fill = give_topk, .n = V };
        read_teacher(live, logp, at);
        read_teacher(live, plain, 1);
        o.teacher = NULL;
        o.source = (rt_source_shape){ .form = RT_FORM_TOPK, .n = V, .held_n = V };
        rt_trainer *t = open_trainer(&o, live);
        t->source = &f.seam;
        rt_step_result want = step(live), got = step(t);
        assert_true(fabs(want.loss - got.loss) < 2e-6 * (1 + fabs(want.loss)));
        assert_true(want.agreement == got.agreement && want.trained == got.trained);
        assert_true(pair_gradients_apart(live, t) < 2e-5);
        const rt_eval_out x = { a[0], a[1], a[2], a[3], a[4] }, y = { b[0], b[1], b[2], b[3], b[4] };
        assert_int_equal(rt_trainer_eval(live, &rows, &x, &e), RT_OK);
        assert_int_equal(rt_trainer_eval(t, &rows, &y, &e), RT_OK);
        for (int k = 0; k < 5; k++)
            for (int i = 0; i < N; i++) assert_true(fabsf(a[k][i] - b[k][i]) < 1e-5f * (1 + fabsf(a[k][i])));
        rt_trainer_free(t);
        rt_trainer_free(live);
    }
}

/* The gradient of the tied embedding, COORDINATES of it. */
static void read_gradient(rt_trainer *t, double *out)
{
    static float w[1 << 16];
    rt_err e = { 0 };
    assert_int_equal(rt_trainer_read(t, 'g', t->plan->student->embed, w, &e), RT_OK);
    for (int k = 0; k < COORDINATES; k++) out[k] = w[k];
}

typedef struct spread {
    double beyond3, beyond5; /* shares of coordinates whose mean is so many standard errors off */
    double div, div_error;   /* of the mean divergence from the full one */
} spread;

static spread average(rt_trainer *t, fake *f, const double *full, double full_div)
{
    static double sum[COORDINATES], squares[COORDINATES], g[COORDINATES];
    double div = 0, div2 = 0;
    memset(sum, 0, sizeof sum);
    memset(squares, 0, sizeof squares);
    for (f->seed = 1; f->seed <= SEEDS; f->seed++) {
        rt_step_result r = step(t);
        read_gradient(t, g);
        for (int k = 0; k < COORDINATES; k++) sum[k] += g[k], squares[k] += g[k] * g[k];
        div += r.div;
        div2 += r.div * r.div;
    }
    spread s = { 0 };
    for (int k = 0; k < COORDINATES; k++) {
        double mean = sum[k] / SEEDS, error = sqrt(fmax(squares[k] / SEEDS - mean * mean, 0) / SEEDS);
        double off = fabs(mean - full[k]), round = 1e-7 * fabs(full[k]) + 1e-9;
        s.beyond3 += (off > 3 * error + round) / (double)COORDINATES;
        s.beyond5 += (off > 5 * error + round) / (double)COORDINATES;
    }
    s.div = div / SEEDS - full_div;
    s.div_error = sqrt(fmax(div2 / SEEDS - div / SEEDS * (div / SEEDS), 0) / SEEDS);
    return s;
}

static void test_draws(void **state)
{
    (void)state;
    static double full[COORDINATES];
    rt_step_opts o = options(RT_DIV_FORWARD_KL, 1.0);
    rt_trainer *live = open_trainer(&o, NULL);
    rt_step_result want = step(live);
    read_gradient(live, full);
    read_teacher(live, logp, 1);
    o.teacher = NULL;
    o.source = (rt_source_shape){ .form = RT_FORM_DRAWS, .n = DRAWS, .held_n = 8 };
    rt_trainer *t = open_trainer(&o, live);
    fake f = { .seam.fill = give_draws, .n = DRAWS, .draws = true };
    t->source = &f.seam;
    spread s = average(t, &f, full, want.div);
    assert_true(s.beyond3 <= 0.008);
    assert_true(s.beyond5 == 0);
    assert_true(fabs(s.div) < 4 * s.div_error);
    f.no_add = true; /* without the teacher's entropy the divergence is another */
    s = average(t, &f, full, want.div);
    assert_true(fabs(s.div) > 20 * s.div_error);
    rt_trainer_free(t);
    o.source = (rt_source_shape){ .form = RT_FORM_TOPK, .n = 8, .held_n = 8 };
    t = open_trainer(&o, live);
    f = (fake){ .seam.fill = give_topk, .n = 8, .renormalised = true }; /* biased: nothing averages it away */
    t->source = &f.seam;
    s = average(t, &f, full, want.div);
    assert_true(s.beyond5 > 0.5);
    rt_trainer_free(t);
    rt_trainer_free(live);
}

/* Other rows, of which as many positions are trained. */
static void make_rows(uint64_t m)
{
    for (int i = 0; i < N; i++) ids[i] = (int32_t)(rt_rng_unit(rt_philox(20, m, (uint64_t)i).v[0]) * V);
    for (int i = 0; i < N; i++) target[i] = i % T == T - 1 || i % 4 == 1 ? -1 : ids[i + 1];
}

static double degrees(const double *a, const double *b)
{
    double aa = 0, bb = 0, ab = 0;
    for (int k = 0; k < COORDINATES; k++) aa += a[k] * a[k], bb += b[k] * b[k], ab += a[k] * b[k];
    return acos(fmin(1, ab / sqrt(aa * bb))) * 57.29577951308232;
}

/* How far each kind of list is from the full gradient's direction: draws come nearer with every position, what the
 * likeliest ids leave out stays. */
static void test_angles(void **state)
{
    (void)state;
    enum { FEW = 4, MICROS = 256 }; /* 16 positions each are trained: 64 and 4,096 */
    static double sum[4][COORDINATES], g[COORDINATES], angle[2][4];
    rt_step_opts o = options(RT_DIV_FORWARD_KL, 1.0);
    rt_trainer *t[4] = { open_trainer(&o, NULL) };
    fake f[4] = { [1] = { .seam.fill = give_draws, .n = DRAWS },
                  [2] = { .seam.fill = give_topk, .n = 8 },
                  [3] = { .seam.fill = give_topk, .n = 8, .renormalised = true } };
    o.teacher = NULL;
    for (int k = 1; k < 4; k++) {
        o.source = (rt_source_shape){ .form = k == 1 ? RT_FORM_DRAWS : RT_FORM_TOPK, .n = f[k].n, .held_n = 8 };
        t[k] = open_trainer(&o, t[0]);
        t[k]->source = &f[k].seam;
    }
    for (uint64_t m = 1; m <= MICROS; m++) {
        make_rows(m);
        read_teacher(t[0], logp, 1);
        f[1].seed = m;
        for (int k = 0; k < 4; k++) {
            step(t[k]);
            read_gradient(t[k], g);
            for (int i = 0; i < COORDINATES; i++) sum[k][i] += g[i];
        }
        for (int k = 1; k < 4 && (m == FEW || m == MICROS); k++) angle[m == MICROS][k] = degrees(sum[0], sum[k]);
    }
    for (int i = 0; i < 2; i++)
        print_message(
            "degrees from the full gradient over %d positions: %d draws %.2f, top-8 %.2f, renormalised %.2f\n",
            16 * (i ? MICROS : FEW), DRAWS, angle[i][1], angle[i][2], angle[i][3]);
    assert_true(angle[1][1] < angle[0][1] / 3);
    assert_true(angle[1][2] > angle[0][2] / 2 && angle[1][2] < angle[1][3]);
    for (int k = 0; k < 4; k++) rt_trainer_free(t[k]);
}

static void test_serves(void **state)
{
    (void)state;
    rt_err e = { 0 };
    for (int d = 0; d < RT_DIV_COUNT; d++) {
        assert_int_equal(rt_source_check(RT_FORM_HIDDEN, (rt_divergence)d, 0.5, &e), RT_OK);
        assert_int_equal(rt_source_check(RT_FORM_TOPK, (rt_divergence)d, 0.5, &e), RT_OK);
        int want = d == RT_DIV_FORWARD_KL ? RT_OK : RT_INVALID;
        assert_int_equal(rt_source_check(RT_FORM_DRAWS, (rt_divergence)d, 0.5, &e), want);
    }
    assert_int_equal(rt_source_check(RT_FORM_DRAWS, RT_DIV_JSD, 0, &e), RT_OK);
    assert_int_equal(rt_source_check(RT_FORM_DRAWS, RT_DIV_SKEW_FKL, 0, &e), RT_OK);
    assert_int_equal(rt_source_check(RT_FORM_DRAWS, RT_DIV_SKEW_RKL, 0, &e), RT_INVALID);
}

static int set_up(void **state)
{
    (void)state;
    const rt_backend *b;
    rt_err e = { 0 };
    char count[RT_DEV_COUNT_TEXT];
    student_config = pair_config(32, V);
    teacher_config = pair_config(WIDTH, V);
    for (int i = 0; i < N; i++) {
        int t = i % T, row = i / T;
        ids[i] = (row * 11 + t * 7 + t * t) % V;
        pos[i] = t;
    }
    for (int i = 0; i < N; i++) target[i] = i % T == T - 1 || i % 4 == 1 ? -1 : ids[i + 1];
    if (rt_backend_find("cpu", &b, &e) < 0) return -1;
    return b->open(&device, 0, &RT_DEV_OPTIONS({ "threads", rt_dev_count(count, 2) }), &e);
}

static int tear_down(void **state)
{
    (void)state;
    device->api->close(device);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_serves), cmocka_unit_test(test_hidden),
                                        cmocka_unit_test(test_all_ids), cmocka_unit_test(test_draws),
                                        cmocka_unit_test(test_angles) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
