/* test_ranks.c - steps of several ranks, threads here, against those of one process: losses, gradients, weights and
 * moments, in double to 1e-12 of each tensor's norm over 20 steps, in f32 to rounding; the same bits on every rank and
 * in a second run; rows that do not divide, micro-batches, adapters with dropout; and whose number is not finite. */
#include "pair_case.h"

#include "thread_peers.h"
#include "train/follow.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 8, T = 16, V = 37, STEPS = 20, PARAMS = 64, MOST = 1 << 14 };

typedef struct ranks_case {
    const char *device;
    bool wide; /* in double */
    bool lora;
    uint32_t ranks, B; /* B: rows of a micro-batch */
    uint32_t steps;
    int faulty; /* the rank whose weights are not finite; -1: none */
    /* what came of it; gradients of the last step */
    double loss[STEPS], norm[STEPS];
    uint32_t params;
    uint64_t elems[PARAMS];
    float *value[THREAD_RANKS][PARAMS][4]; /* w, m, v, g */
    int rc;
    char why[THREAD_RANKS][500];
} ranks_case;

static const char kinds[] = "wmvg";

static void fill_rows(int32_t *ids, int32_t *pos, int32_t *start, int32_t *target, uint32_t row, uint32_t step)
{
    for (uint32_t t = 0; t < T; t++) {
        ids[t] = (int32_t)((row * 11 + t * 7 + t * t + step * 3) % V);
        pos[t] = (int32_t)t;
        start[t] = 0;
    }
    for (uint32_t t = 0; t < T; t++) target[t] = t == T - 1 || (t + row) % 4 == 1 ? -1 : ids[t + 1];
}

/* The rows of a step as the loop lays them out: so many micro-batches for each rank, what is left over is padding. */
typedef struct step_rows {
    int32_t ids[64 * T], pos[64 * T], start[64 * T], target[64 * T];
    rt_batch micro[64];
    uint32_t count;
} step_rows;

static void lay_rows(step_rows *r, const ranks_case *c, uint32_t step)
{
    uint32_t own = (rt_rank_rows(ROWS, c->ranks) + c->B - 1) / c->B;
    r->count = own * c->ranks;
    for (uint32_t i = 0; i < r->count * c->B * T; i++) {
        r->ids[i] = r->start[i] = 0;
        r->pos[i] = (int32_t)(i % T);
        r->target[i] = -1;
    }
    for (uint32_t rank = 0; rank < c->ranks; rank++)
        for (uint32_t row = rt_rank_first(ROWS, rank, c->ranks); row < rt_rank_first(ROWS, rank + 1, c->ranks); row++) {
            uint32_t at = (rank * own * c->B + row - rt_rank_first(ROWS, rank, c->ranks)) * T;
            fill_rows(r->ids + at, r->pos + at, r->start + at, r->target + at, row, step);
        }
    for (uint32_t i = 0; i < r->count; i++) {
        uint32_t at = i * c->B * T;
        r->micro[i] = (rt_batch){ r->ids + at, r->pos + at, r->start + at, r->target + at, NULL };
    }
}

static rt_step_opts options(const ranks_case *c, const rt_model_config *student, const rt_model_config *teacher)
{
    rt_step_opts o = {
        .B = c->B,
        .T = T,
        .ranks = c->ranks,
        .accumulate = rt_rank_rows(ROWS, c->ranks) > c->B,
        .chunk = 16,
        .loss = { .divergence = RT_DIV_FORWARD_KL, .temperature = 1.0, .ce_weight = 0.1, .kd_weight = 0.9, .t2 = true },
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.01,
        .max_grad_norm = 1.0,
        .policy = c->wide ? rt_policy_f64 : rt_policy_f32,
        .student = student,
        .teacher = teacher
    };
    if (c->lora) o.lora = (rt_lora){ .rank = 4, .alpha = 8, .roles = RT_LORA_ROLES, .dropout = 0.2 };
    return o;
}

/* pair_fill has one scratch for all. */
static pthread_mutex_t filling = PTHREAD_MUTEX_INITIALIZER;

static int fill_models(rt_trainer *t, rt_err *e)
{
    int rc = RT_OK;
    const rt_decoder *s = t->plan->student;
    static float w[MOST];
    pthread_mutex_lock(&filling);
    pair_fill(t, s, 100, 0.05);
    pair_fill(t, t->plan->teacher, 900, 0.25);
    for (uint32_t i = s->model_params; i < s->param_count; i++) {
        rt_adapter_init(w, &s->params[i], i, 5);
        RT_TRY(rt_trainer_write(t, 'w', i, w, e));
    }
out:
    pthread_mutex_unlock(&filling);
    return rc;
}

static int open_trainer(rt_trainer **t, rt_dev *d, const ranks_case *c, const rt_step_opts *o, rt_peers *p, rt_err *e)
{
    int rc;
    static const float zero[MOST];
    const uint32_t none[4] = { 0 };
    RT_TRY(rt_trainer_open(t, d, o, &(rt_seal_opts){ .peers = c->ranks > 1 ? p : NULL }, e));
    const rt_decoder *s = (*t)->plan->student;
    RT_TRY(fill_models(*t, e));
    for (uint32_t i = 0; i < s->param_count; i++)
        for (const char *k = "mv"; *k && s->params[i].grad.buf; k++) RT_TRY(rt_trainer_write(*t, *k, i, zero, e));
    RT_TRY(rt_exec_write((*t)->x, (*t)->plan->fault, none, sizeof none, e));
    if (c->faulty == (int)p->rank) RT_TRY(rt_trainer_write_part(*t, 'w', 0, 0, 1, &(float){ NAN }, e));
out:
    return rc;
}

static int keep(rt_trainer *t, ranks_case *c, uint32_t rank, rt_err *e)
{
    int rc = RT_OK;
    const rt_decoder *s = t->plan->student;
    if (s->param_count > PARAMS) return rt_fail(e, RT_INTERNAL, "%u parameters", s->param_count);
    if (rank == 0) c->params = s->param_count;
    for (uint32_t i = 0; i < s->param_count; i++)
        for (int k = 0; k < 4 && s->params[i].grad.buf; k++) {
            if (rank == 0) c->elems[i] = rt_trainer_elems(t, i);
            c->value[rank][i][k] = rt_alloc(rt_trainer_elems(t, i) * sizeof(float), 64);
            RT_TRY(rt_trainer_read(t, kinds[k], i, c->value[rank][i][k], e));
        }
out:
    return rc;
}

static int lead(rt_trainer *t, ranks_case *c, rt_err *e)
{
    int rc = RT_OK;
    step_rows *r = rt_alloc(sizeof *r, 64);
    rt_step_result result;
    for (uint32_t i = 0; i < c->steps; i++) {
        lay_rows(r, c, i);
        t->rank_batch = ROWS;
        RT_TRY(rt_trainer_step(t, r->micro, r->count, i + 1, 3e-3, 1, &result, e));
        c->loss[i] = result.loss;
        c->norm[i] = result.grad_norm;
    }
out:
    rt_free(r);
    return rc;
}

static int follow(rt_trainer *t, rt_err *e)
{
    int rc = RT_OK;
    rt_word w;
    for (rt_word_hear(t->peers, &w); w.kind != RT_WORD_CLOSE; rt_word_hear(t->peers, &w))
        RT_TRY(rt_trainer_follow(t, &w, e));
out:
    return rc;
}

static void one_rank(rt_peers *p, void *ctx)
{
    ranks_case *c = ctx;
    int rc;
    rt_err why = { 0 }, *e = &why;
    const rt_backend *b;
    rt_dev *d = NULL;
    rt_trainer *t = NULL;
    rt_model_config student = pair_config(32, V), teacher = pair_config(40, V);
    rt_step_opts o = options(c, &student, &teacher);
    RT_TRY(rt_backend_find(c->device, &b, e));
    RT_TRY(b->open(&d, 0, &RT_DEV_OPTIONS({ "threads", "1" }), e));
    RT_TRY(open_trainer(&t, d, c, &o, p, e));
    rc = p->rank == 0 ? lead(t, c, e) : RT_OK;
    if (p->rank == 0 && t->peers) {
        rt_err first = why;
        rt_word_say(p, &(rt_word){ .kind = RT_WORD_CLOSE });
        why = first;
    }
    if (p->rank) RT_TRY(follow(t, e));
    t->peers = NULL; /* it was closed */
    if (p->rank == 0) c->rc = rc;
    RT_TRY(rc);
    RT_TRY(keep(t, c, p->rank, e));
out:
    if (rc < 0) snprintf(c->why[p->rank], sizeof c->why[0], "%.499s", why.text);
    rt_trainer_free(t);
    if (d) d->api->close(d);
}

static ranks_case *run(ranks_case *c)
{
    thread_world_run(c->ranks, one_rank, c);
    for (uint32_t r = 0; r < c->ranks && c->faulty < 0; r++)
        if (*c->why[r]) fail_msg("rank %u of %u: %s", r, c->ranks, c->why[r]);
    return c;
}

static void forget(ranks_case *c)
{
    for (uint32_t r = 0; r < c->ranks; r++)
        for (uint32_t i = 0; i < PARAMS; i++)
            for (int k = 0; k < 4; k++) rt_free(c->value[r][i][k]);
}

static void assert_same_bits(const ranks_case *a, uint32_t ra, const ranks_case *b, uint32_t rb)
{
    for (uint32_t i = 0; i < a->params; i++)
        for (int k = 0; k < 4 && a->value[ra][i][k]; k++)
            assert_memory_equal(a->value[ra][i][k], b->value[rb][i][k], a->elems[i] * sizeof(float));
}

/* Largest difference, in norms of the tensor. */
static double distance(const ranks_case *a, const ranks_case *b, int kind)
{
    double worst = 0;
    for (uint32_t i = 0; i < a->params; i++) {
        const float *x = a->value[0][i][kind], *y = b->value[0][i][kind];
        double off = 0, norm = 0;
        for (uint64_t n = 0; x && n < a->elems[i]; n++) {
            off += ((double)x[n] - (double)y[n]) * ((double)x[n] - (double)y[n]);
            norm += (double)x[n] * (double)x[n];
        }
        if (norm > 0 && sqrt(off / norm) > worst) worst = sqrt(off / norm);
    }
    return worst;
}

static void compare(const char *device, bool wide, bool lora, uint32_t steps, double limit_loss, double limit)
{
    static ranks_case one, many, again;
    const struct {
        uint32_t ranks, B;
    } split[] = { { 2, 4 }, { 3, 3 }, { 4, 2 }, { 2, 3 }, { 3, 1 }, { 8, 1 } };
    one =
        (ranks_case){ .device = device, .wide = wide, .lora = lora, .ranks = 1, .B = 8, .steps = steps, .faulty = -1 };
    run(&one);
    for (size_t s = 0; s < sizeof split / sizeof *split; s++) {
        many = one;
        memset(many.value, 0, sizeof many.value);
        many.ranks = split[s].ranks;
        many.B = split[s].B;
        again = many;
        run(&many);
        run(&again);
        double worst = 0;
        for (uint32_t i = 0; i < steps; i++) {
            worst = fmax(worst, fabs(many.loss[i] / one.loss[i] - 1));
            worst = fmax(worst, fabs(many.norm[i] / one.norm[i] - 1));
        }
        print_message("%s%s, %u ranks of %u rows: loss and norm %.1e, w %.1e, m %.1e, v %.1e, g %.1e\n", device,
                      lora ? " lora" : "", many.ranks, many.B, worst, distance(&one, &many, 0),
                      distance(&one, &many, 1), distance(&one, &many, 2), distance(&one, &many, 3));
        assert_true(worst <= limit_loss);
        for (int k = 0; k < 4; k++) assert_true(distance(&one, &many, k) <= limit);
        for (uint32_t r = 1; r < many.ranks; r++) assert_same_bits(&many, 0, &many, r);
        assert_same_bits(&many, 0, &again, 0);
        forget(&many);
        forget(&again);
    }
    forget(&one);
}

/* Values come back as f32, so that what is equal to 1e-12 may differ in its last bit there. */
static void test_double(void **state)
{
    (void)state;
    compare("ref", true, false, STEPS, 1e-12, 1e-7);
}

static void test_cpu(void **state)
{
    (void)state;
    compare("cpu", false, false, STEPS, 1e-5, 2e-4);
}

/* What is dropped follows the place of a row in the step, not its rank. */
static void test_dropout(void **state)
{
    (void)state;
    compare("ref", true, true, 5, 1e-12, 1e-7);
}

static void test_not_finite(void **state)
{
    (void)state;
    for (int rank = 0; rank < 3; rank++) {
        ranks_case c = { .device = "cpu", .ranks = 3, .B = 3, .steps = 1, .faulty = rank };
        char name[16];
        run(&c);
        assert_int_equal(c.rc, RT_NONFINITE);
        snprintf(name, sizeof name, "rank %d", rank);
        if (!strstr(c.why[0], name)) fail_msg("not named: %s", c.why[0]);
        forget(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double),
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
