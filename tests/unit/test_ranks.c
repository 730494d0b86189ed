/* test_ranks.c - steps of several ranks, threads here, against those of one process: losses, gradients, weights and
 * moments, in double to 1e-12 of each tensor's norm over 20 steps, in f32 to rounding; the same bits on every rank and
 * in a second run; rows that do not divide, micro-batches, adapters with dropout; and whose number is not finite. */
#include "pair_case.h"

#include "thread_peers.h"
#include "train/follow.h"

#include <math.h>
#include <stdio.h>

enum { ROWS = 8, T = 16, V = 37, STEPS = 20, PARAMS = 64, MOST = 1 << 15 };

typedef struct ranks_case {
    const char *device;
    bool wide; /* in double */
    bool lora;
    rt_zero zero;
    const rt_policy *policy; /* null: by wide */
    rt_dtype moments;
    bool no_clip;
    const rt_preset *preset; /* the student; null: pair_config */
    uint32_t ranks, B;       /* B: rows of a micro-batch */
    uint32_t steps;
    int faulty; /* the rank whose weights are not finite; -1: none */
    /* what came of it; gradients of the last step */
    double loss[STEPS], norm[STEPS];
    uint32_t params;
    uint64_t elems[PARAMS];
    float *value[THREAD_RANKS][PARAMS][4]; /* w, m, v, g */
    rt_hash128 state;                      /* all that a checkpoint would have, read by rank 0 */
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
        .zero = c->zero,
        .accumulate = rt_rank_rows(ROWS, c->ranks) > c->B,
        .chunk = 16,
        .loss = { .divergence = RT_DIV_FORWARD_KL, .temperature = 1.0, .ce_weight = 0.1, .kd_weight = 0.9, .t2 = true },
        .beta1 = 0.9,
        .beta2 = 0.95,
        .eps = 1e-8,
        .weight_decay = 0.01,
        .max_grad_norm = c->no_clip ? 0 : 1.0,
        .moments = c->moments,
        .policy = c->policy ? *c->policy
                  : c->wide ? rt_policy_f64
                            : rt_policy_f32,
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
    if ((*t)->plan->masters) RT_TRY(rt_exec_run((*t)->x, (*t)->plan->index[RT_PROGRAM_START], NULL, e));
    for (uint32_t i = 0; i < s->param_count; i++)
        for (const char *k = "mvs"; *k; k++) {
            uint64_t n = rt_trainer_state_elems(*t, *k, i);
            if (n) RT_TRY(rt_trainer_write_state(*t, *k, i, 0, n, zero, e));
        }
    RT_TRY(rt_exec_write((*t)->x, (*t)->plan->fault, none, sizeof none, e));
    if (c->faulty == (int)p->rank) RT_TRY(rt_trainer_write_part(*t, 'w', 0, 0, 1, &(float){ NAN }, e));
out:
    return rc;
}

/* What a rank has of a tensor: of state that is shared out rank 0 alone is given all, and of gradients each has its own
 * rows' there. */
static bool is_kept(const ranks_case *c, uint32_t rank, int kind)
{
    bool masters = c->policy && c->policy->weight != c->policy->scalar,
         moment = kinds[kind] == 'm' || kinds[kind] == 'v';
    if (moment && c->moments != RT_DTYPE_F32) return false;
    if (!c->zero || c->ranks == 1) return true;
    return kinds[kind] != 'g' && (rank == 0 || (!moment && !masters));
}

/* What a plan of this rank says before there is anything is what it has, to the byte. */
static int check_memory(const rt_trainer *t, rt_dev *d, uint32_t rank, rt_step_opts *o, rt_err *e)
{
    int rc;
    rt_trainer *dry = NULL;
    rt_exec_memory said, is;
    o->rank = rank;
    RT_TRY(rt_trainer_open(&dry, d, o, &(rt_seal_opts){ .dry = true }, e));
    rt_exec_memory_query(dry->x, &said);
    rt_exec_memory_query(t->x, &is);
    if (memcmp(said.by_class, is.by_class, sizeof is.by_class) != 0 || said.total != is.total)
        RT_TRY(rt_fail(e, RT_INTERNAL, "%llu bytes were planned, and there are %llu", (unsigned long long)said.total,
                       (unsigned long long)is.total));
out:
    rt_trainer_free(dry);
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
            if (!is_kept(c, rank, k)) continue;
            c->value[rank][i][k] = rt_alloc(rt_trainer_elems(t, i) * sizeof(float), 64);
            RT_TRY(rt_trainer_read(t, kinds[k], i, c->value[rank][i][k], e));
        }
out:
    return rc;
}

static int hash_state(rt_trainer *t, rt_hash128 *out, rt_err *e)
{
    int rc = RT_OK;
    static uint8_t raw[MOST * sizeof(float)];
    rt_hasher *h = rt_hasher_new();
    for (uint32_t i = 0; i < t->plan->student->param_count; i++)
        for (const char *k = "wmvs"; *k; k++) {
            uint64_t n = rt_trainer_state_elems(t, *k, i);
            if (!n) continue;
            RT_TRY(rt_trainer_read_state(t, *k, i, 0, n, raw, e));
            rt_hasher_add(h, raw, rt_dtype_bytes(rt_trainer_state_dtype(t, *k, i), n));
        }
    *out = rt_hasher_digest(h);
out:
    rt_hasher_free(h);
    return rc;
}

/* Moments that rank 0 has been given by their owners, given back to them: nothing changes. */
static int put_back(rt_trainer *t, const ranks_case *c, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < c->params; i++)
        for (int k = 0; k < 3 && c->value[0][i][k]; k++) {
            uint64_t n = c->elems[i], half = n / 2;
            float *again = rt_alloc(n * sizeof *again, 64);
            rc = rt_trainer_put_state(t, kinds[k], i, 0, half, c->value[0][i][k], e);
            if (rc >= 0) rc = rt_trainer_put_state(t, kinds[k], i, half, n - half, c->value[0][i][k] + half, e);
            if (rc >= 0) rc = rt_trainer_read(t, kinds[k], i, again, e);
            if (rc >= 0 && memcmp(again, c->value[0][i][k], n * sizeof *again) != 0)
                rc = rt_fail(e, RT_INTERNAL, "%c of parameter %u came back as another", kinds[k], i);
            rt_free(again);
            RT_TRY(rc);
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
    rt_model_config student = pair_config(32, V);
    if (c->preset) rt_preset_fill(c->preset, &student);
    rt_model_config teacher = pair_config(40, student.vocab);
    rt_step_opts o = options(c, &student, &teacher);
    RT_TRY(rt_backend_find(c->device, &b, e));
    RT_TRY(b->open(&d, 0, &RT_DEV_OPTIONS({ "threads", "1" }), e));
    RT_TRY(open_trainer(&t, d, c, &o, p, e));
    RT_TRY(check_memory(t, d, p->rank, &o, e));
    rc = p->rank == 0 ? lead(t, c, e) : RT_OK;
    if (p->rank == 0 && rc >= 0) rc = keep(t, c, 0, e);
    if (p->rank == 0 && rc >= 0) rc = hash_state(t, &c->state, e);
    if (p->rank == 0 && rc >= 0 && t->peers && c->zero) rc = put_back(t, c, e);
    if (p->rank == 0 && t->peers) {
        rt_err first = why;
        rt_word_say(p, &(rt_word){ .kind = RT_WORD_CLOSE });
        why = first;
    }
    if (p->rank) RT_TRY(follow(t, e));
    t->peers = NULL; /* it was closed */
    if (p->rank == 0) c->rc = rc;
    RT_TRY(rc);
    if (p->rank) RT_TRY(keep(t, c, p->rank, e));
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
        for (int k = 0; k < 4; k++) {
            if (!a->value[ra][i][k] || !b->value[rb][i][k]) continue;
            assert_memory_equal(a->value[ra][i][k], b->value[rb][i][k], a->elems[i] * sizeof(float));
        }
}

/* Largest difference, in norms of the tensor. */
static double distance(const ranks_case *a, const ranks_case *b, int kind)
{
    double worst = 0;
    for (uint32_t i = 0; i < a->params; i++) {
        const float *x = a->value[0][i][kind], *y = b->value[0][i][kind];
        double off = 0, norm = 0;
        for (uint64_t n = 0; x && y && n < a->elems[i]; n++) {
            off += ((double)x[n] - (double)y[n]) * ((double)x[n] - (double)y[n]);
            norm += (double)x[n] * (double)x[n];
        }
        if (norm > 0 && sqrt(off / norm) > worst) worst = sqrt(off / norm);
    }
    return worst;
}

static void compare(const ranks_case *of, double limit_loss, double limit)
{
    static ranks_case one, many, again;
    const struct {
        uint32_t ranks, B;
    } split[] = { { 2, 4 }, { 3, 3 }, { 4, 2 }, { 2, 3 }, { 3, 1 }, { 8, 1 } };
    one = *of;
    one.ranks = 1;
    one.B = 8;
    one.faulty = -1;
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
        for (uint32_t i = 0; i < one.steps; i++) {
            worst = fmax(worst, fabs(many.loss[i] / one.loss[i] - 1));
            worst = fmax(worst, fabs(many.norm[i] / one.norm[i] - 1));
        }
        print_message("%s%s %s, zero %d, %u ranks of %u rows: loss and norm %.1e, w %.1e, m %.1e, v %.1e, g %.1e\n",
                      one.device, one.lora ? " lora" : "", one.preset ? one.preset->name : "", (int)one.zero,
                      many.ranks, many.B, worst, distance(&one, &many, 0), distance(&one, &many, 1),
                      distance(&one, &many, 2), distance(&one, &many, 3));
        assert_true(worst <= limit_loss);
        for (int k = 0; k < 4; k++) assert_true(distance(&one, &many, k) <= limit);
        for (uint32_t r = 1; r < many.ranks; r++) assert_same_bits(&many, 0, &many, r);
        assert_same_bits(&many, 0, &again, 0);
        forget(&many);
        forget(&again);
    }
    forget(&one);
}

/* With all that ranks may share out. */
static void compare_all(ranks_case c, double limit_loss, double limit)
{
    for (c.zero = RT_ZERO_NONE; c.zero < RT_ZERO_COUNT; c.zero++) compare(&c, limit_loss, limit);
}

/* Values come back as f32, so that what is equal to 1e-12 may differ in its last bit there. */
static void test_double(void **state)
{
    (void)state;
    compare_all((ranks_case){ .device = "ref", .wide = true, .steps = STEPS }, 1e-12, 1e-7);
}

static void test_cpu(void **state)
{
    (void)state;
    compare_all((ranks_case){ .device = "cpu", .steps = STEPS }, 1e-5, 2e-4);
}

/* What is dropped follows the place of a row in the step, not its rank. */
static void test_dropout(void **state)
{
    (void)state;
    compare_all((ranks_case){ .device = "ref", .wide = true, .lora = true, .steps = 5 }, 1e-12, 1e-7);
}

/* Whatever is shared out. Gradients that are shared out are added up in another order where micro-batches are. */
static void same_state(const ranks_case *of)
{
    static ranks_case whole, shared;
    bool accumulates = rt_rank_rows(ROWS, of->ranks) > of->B;
    whole = *of;
    run(&whole);
    for (rt_zero z = RT_ZERO_STATE; z < (accumulates ? RT_ZERO_GRADS : RT_ZERO_COUNT); z++) {
        shared = *of;
        shared.zero = z;
        run(&shared);
        if (!rt_hash_equal(whole.state, shared.state))
            fail_msg("%s with %s moments, %u ranks, zero %d: another state", of->device, rt_dtype_name(of->moments),
                     of->ranks, (int)z);
        for (uint32_t r = 0; r < of->ranks; r++) assert_same_bits(&whole, r, &shared, r);
        forget(&shared);
    }
    forget(&whole);
}

/* Without clipping, whose norm is added up in another order, sharing out changes no bit: of masters and weights in 16
 * bits, of moments that are rounded by chance, of adapters. */
static void test_shared_bits(void **state)
{
    (void)state;
    static const struct {
        const char *device;
        const rt_policy *policy;
        rt_dtype moments;
        bool lora;
    } of[] = { { "cpu", &rt_policy_f32, RT_DTYPE_F32, false },
               { "cpu", &rt_policy_f32, RT_DTYPE_BF16, false },
               { "cpu", &rt_policy_f32, RT_DTYPE_U8, true },
               { "ref", &rt_policy_bf16, RT_DTYPE_U8, false } };
    for (size_t i = 0; i < sizeof of / sizeof *of; i++)
        for (uint32_t ranks = 2; ranks < 5; ranks++)
            same_state(&(ranks_case){ .device = of[i].device,
                                      .policy = of[i].policy,
                                      .moments = of[i].moments,
                                      .lora = of[i].lora,
                                      .no_clip = true,
                                      .ranks = ranks,
                                      .B = 2,
                                      .steps = 3,
                                      .faulty = -1 });
}

/* The tiny model of each family; `test_ranks families`, since it takes minutes. */
static void test_families(void **state)
{
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    (void)state;
    for (uint32_t i = 0; i < count; i++) {
        if (strncmp(p[i].name, "tiny-", 5) != 0) continue;
        compare_all((ranks_case){ .device = "ref", .wide = true, .preset = &p[i], .steps = STEPS }, 1e-12, 1e-7);
        compare_all((ranks_case){ .device = "cpu", .preset = &p[i], .steps = STEPS }, 1e-5, 2e-4);
    }
}

static void test_not_finite(void **state)
{
    (void)state;
    for (int i = 0; i < 3 * RT_ZERO_COUNT; i++) {
        int rank = i % 3;
        ranks_case c = { .device = "cpu", .zero = (rt_zero)(i / 3), .ranks = 3, .B = 3, .steps = 1, .faulty = rank };
        char name[16];
        run(&c);
        assert_int_equal(c.rc, RT_NONFINITE);
        snprintf(name, sizeof name, "rank %d", rank);
        if (!strstr(c.why[0], name)) fail_msg("not named: %s", c.why[0]);
        forget(&c);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest families[] = { cmocka_unit_test(test_families) };
    if (argc > 1 && strcmp(argv[1], "families") == 0) return cmocka_run_group_tests(families, NULL, NULL);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_double),      cmocka_unit_test(test_cpu),        cmocka_unit_test(test_dropout),
        cmocka_unit_test(test_shared_bits), cmocka_unit_test(test_not_finite),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
