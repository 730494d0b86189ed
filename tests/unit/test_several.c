/* test_several.c - several teachers in one step: a mixture of one teacher with itself is that teacher, shares of 1 and
 * 0 are one of the two, the mixture of two is what double arithmetic makes of their logits, each row is asked of its
 * own teachers alone, and cutting rows otherwise changes nothing; then what --teacher may say. */
#include "kd_ref.h"
#include "pair_case.h"

#include "teacher/several.h"

enum { B = 2, T = 12, N = B * T, V = 37, GROUPS = 2, TEACHERS = 2, MEASURED = 5 };

static rt_model_config student_config, configs[TEACHERS];
static rt_dev *device;
static int32_t ids[N], pos[N], start[N], target[N], group[N];

static rt_step_opts options(rt_divergence d, double temperature)
{
    rt_step_opts o = pair_options(B, T, d, temperature);
    o.student = &student_config;
    o.vmask = true;
    return o;
}

static bool reused; /* places in the arena: not between guards */

/* which: the teachers, 0 or 1 each. Ids are all below V, the first 35 of them common. */
static rt_trainer *open_trainer(rt_step_opts o, const int *which, uint32_t count, const double *shares)
{
    static rt_step_other others[RT_TEACHERS_MOST];
    const uint32_t vmask[2] = { UINT32_MAX, 7 };
    rt_trainer *t = NULL;
    rt_err e = { 0 };
    o.teacher = &configs[which[0]];
    for (uint32_t k = 1; k < count; k++) others[k - 1] = (rt_step_other){ .config = &configs[which[k]] };
    o.others = others;
    o.other_count = count - 1;
    o.shares = shares;
    o.share_groups = GROUPS;
    if (rt_trainer_open(&t, device, &o, &(rt_seal_opts){ .poison = !reused, .guards = !reused }, &e) < 0)
        fail_msg("%s", e.text);
    pair_fill(t, t->plan->student, 100, 0.05);
    for (uint32_t k = 0; k < count; k++)
        pair_fill(t, k ? t->plan->more[k - 1].decoder : t->plan->teacher, 900 + 1000 * (uint64_t)which[k], 0.25);
    pair_begin(t);
    assert_int_equal(rt_exec_write(t->x, t->plan->vmask, vmask, sizeof vmask, &e), RT_OK);
    return t;
}

static const rt_batch *batch(void)
{
    static rt_batch b = { ids, pos, start, target, group };
    return &b;
}

static rt_step_result step(rt_trainer *t)
{
    rt_step_result r;
    rt_err e = { 0 };
    uint32_t rows = t->plan->opts.B, count = B / rows;
    rt_batch b[B];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t at = i * rows * T;
        b[i] = (rt_batch){ ids + at, pos + at, start + at, target + at, group + at };
    }
    if (rt_trainer_step(t, b, count, 1, 0.0, 1, &r, &e) < 0) fail_msg("%s", e.text);
    if (rt_exec_check(t->x, &e) < 0) fail_msg("%s", e.text);
    return r;
}

typedef struct measured {
    float of[MEASURED][N]; /* as in rt_eval_out: ce, div, kl, top1, teacher_ce */
} measured;

static void measure(rt_trainer *t, measured *m)
{
    rt_err e = { 0 };
    const rt_eval_out out = { m->of[0], m->of[1], m->of[2], m->of[3], m->of[4] };
    if (rt_trainer_eval(t, batch(), &out, &e) < 0) fail_msg("%s", e.text);
    if (rt_exec_check(t->x, &e) < 0) fail_msg("%s", e.text);
}

static bool close_to(double a, double b, double tolerance) { return fabs(a - b) <= tolerance * (1 + fabs(b)); }

/* Step, gradients and evaluation of two trainers, to rounding. */
static void same_runs(rt_trainer *a, rt_trainer *b)
{
    static measured x, y;
    rt_step_result want = step(a), got = step(b);
    assert_true(close_to(got.loss, want.loss, 2e-6) && close_to(got.div, want.div, 2e-6));
    assert_true(want.ce == got.ce && want.agreement == got.agreement && want.trained == got.trained);
    near(pair_gradients_apart(a, b), 0, 2e-5);
    measure(a, &x);
    measure(b, &y);
    for (int k = 0; k < MEASURED; k++)
        for (int i = 0; i < N; i++)
            if (!close_to(y.of[k][i], x.of[k][i], 1e-5))
                fail_msg("measure %d of position %d: %g, want %g", k, i, (double)y.of[k][i], (double)x.of[k][i]);
}

static void all_in_group(int32_t g)
{
    for (int i = 0; i < N; i++) group[i] = g;
}

static const int first[] = { 0 }, second[] = { 1 }, both[] = { 0, 1 }, twice[] = { 0, 0 };

static void test_with_itself(void **state)
{
    (void)state;
    static const double shares[] = { 0.3, 0.7, 0.5, 0.5 };
    all_in_group(0);
    for (int d = 0; d < RT_DIV_COUNT; d++)
        for (int temperature = 1; temperature < 4; temperature += 2) {
            rt_step_opts o = options((rt_divergence)d, temperature);
            rt_trainer *one = open_trainer(o, first, 1, NULL), *two = open_trainer(o, twice, 2, shares);
            same_runs(one, two);
            rt_trainer_free(one);
            rt_trainer_free(two);
        }
}

static void test_limits(void **state)
{
    (void)state;
    static const double shares[] = { 1, 0, 0, 1 }, nearly[] = { 1 - 1e-7, 1e-7, 0.5, 0.5 };
    for (int d = 0; d < RT_DIV_COUNT; d++) {
        rt_step_opts o = options((rt_divergence)d, 2);
        rt_trainer *a = open_trainer(o, first, 1, NULL), *b = open_trainer(o, second, 1, NULL);
        rt_trainer *mixed = open_trainer(o, both, 2, shares), *limit = open_trainer(o, both, 2, nearly);
        all_in_group(0);
        same_runs(a, mixed);
        same_runs(a, limit);
        all_in_group(1);
        same_runs(b, mixed);
        assert_true(pair_gradients_apart(a, b) > 1e-2); /* and they are two */
        rt_trainer_free(a);
        rt_trainer_free(b);
        rt_trainer_free(mixed);
        rt_trainer_free(limit);
    }
}

/* ---- against double arithmetic ---- */

enum { WIDEST = V + 3 };
static float student_logits[N * V], logits[TEACHERS][N * WIDEST];

static void read_logits(rt_trainer *t, float *teacher)
{
    int32_t all[N];
    rt_err e = { 0 };
    for (int i = 0; i < N; i++) all[i] = i;
    if (rt_trainer_logits(t, batch(), all, student_logits, teacher, &e) < 0) fail_msg("%s", e.text);
}

enum { COMMON = 35 }; /* ids of the mask */

static void probabilities(double *p, const float *x, int n, double temperature)
{
    double z[WIDEST];
    for (int v = 0; v < n; v++) z[v] = x[v];
    softmax(p, z, n, temperature);
}

/* The mixture of position i, over the ids in common. */
static void mixture(double *p, const double *shares, int i, double temperature)
{
    double one[WIDEST];
    for (int v = 0; v < COMMON; v++) p[v] = 0;
    for (int k = 0; k < TEACHERS; k++) {
        probabilities(one, logits[k] + (size_t)i * configs[k].vocab, COMMON, temperature);
        for (int v = 0; v < COMMON; v++) p[v] += shares[k] * one[v];
    }
}

static double divergence(uint32_t d, const double *shares, int i, double temperature)
{
    double p[WIDEST], q[WIDEST], sum = 0;
    mixture(p, shares, i, temperature);
    probabilities(q, student_logits + (size_t)i * V, COMMON, temperature);
    for (int v = 0; v < COMMON; v++) sum += term(d, 0.3, p[v], q[v]);
    return sum;
}

static double teacher_ce(const double *shares, int i)
{
    double p[WIDEST], sum = 0;
    for (int k = 0; k < TEACHERS; k++) {
        probabilities(p, logits[k] + (size_t)i * configs[k].vocab, (int)configs[k].vocab, 1);
        sum += shares[k] * p[target[i]];
    }
    return -log(sum);
}

/* of_trained: other positions of a teacher with a prompt mean nothing. */
static void compare_with_double(rt_trainer *t, const double *shares, bool of_trained)
{
    static measured m;
    static float mixed[N * V];
    const rt_loss_opts *o = &t->plan->opts.loss;
    double T_ = o->temperature, sum = 0, p[WIDEST], y[WIDEST];
    int count = 0;
    measure(t, &m);
    read_logits(t, mixed);
    for (int i = 0; i < N; i++) {
        const double *s = shares + group[i] * TEACHERS;
        if (of_trained && target[i] < 0) continue;
        probabilities(y, mixed + (size_t)i * V, COMMON, T_);
        mixture(p, s, i, T_);
        for (int v = 0; v < COMMON; v++) near(y[v], p[v], 2e-6);
        if (target[i] < 0) continue;
        double div = divergence(o->divergence, s, i, T_);
        near(m.of[1][i], div, 2e-6 * (1 + div));
        near(m.of[2][i], divergence(RT_DIV_FORWARD_KL, s, i, 1), 1e-5);
        near(m.of[4][i], teacher_ce(s, i), 1e-5);
        sum += div;
        count++;
    }
    near(step(t).div, sum / count, 2e-6 * (1 + sum / count));
}

static void test_outside(void **state)
{
    (void)state;
    static const double shares[] = { 0.25, 0.75, 0.9, 0.1 };
    for (int d = 0; d < RT_DIV_COUNT; d++) {
        rt_step_opts o = options((rt_divergence)d, 1.5);
        rt_trainer *one[TEACHERS] = { open_trainer(o, first, 1, NULL), open_trainer(o, second, 1, NULL) };
        rt_trainer *t = open_trainer(o, both, 2, shares);
        for (int i = 0; i < N; i++) group[i] = i / 3 % 2;
        for (int k = 0; k < TEACHERS; k++) read_logits(one[k], logits[k]);
        compare_with_double(t, shares, false);
        rt_trainer_free(t);
        for (int k = 0; k < TEACHERS; k++) rt_trainer_free(one[k]);
    }
}

/* ---- rows and their teachers ---- */

/* Positions of group g have teacher g's measures, and those of the other are others. */
static void test_rows(void **state)
{
    (void)state;
    static const double shares[] = { 1, 0, 0, 1 };
    static measured m, of[TEACHERS];
    rt_step_opts o = options(RT_DIV_REVERSE_KL, 2);
    rt_trainer *one[TEACHERS] = { open_trainer(o, first, 1, NULL), open_trainer(o, second, 1, NULL) };
    rt_trainer *t = open_trainer(o, both, 2, shares);
    int apart[TEACHERS] = { 0 };
    double sum = 0;
    for (int i = 0; i < N; i++) group[i] = i / 5 % 2;
    measure(t, &m);
    for (int k = 0; k < TEACHERS; k++) measure(one[k], &of[k]);
    for (int i = 0; i < N; i++) {
        if (target[i] < 0) continue;
        int g = group[i];
        for (int k = 0; k < MEASURED; k++) assert_true(close_to(m.of[k][i], of[g].of[k][i], 1e-5));
        apart[g] += !close_to(m.of[1][i], of[1 - g].of[1][i], 1e-3);
        sum += of[g].of[1][i];
    }
    assert_true(apart[0] > 4 && apart[1] > 4);
    rt_step_result r = step(t);
    near(r.div * (double)r.trained, sum, 1e-5 * sum);
    for (int i = 0; i < N; i++) group[i] = 1 - group[i]; /* the other way round is another loss */
    assert_false(close_to(step(t).div, r.div, 1e-3));
    rt_trainer_free(t);
    for (int k = 0; k < TEACHERS; k++) rt_trainer_free(one[k]);
}

/* Row by row, with teachers that read ahead, in other chunks of the head: the same loss and gradients. */
static void test_cut_otherwise(void **state)
{
    (void)state;
    static const double shares[] = { 0.25, 0.75, 1, 0 };
    rt_step_opts o = options(RT_DIV_JSD, 2), by_row = o, ahead = o, chunks = o;
    by_row.B = ahead.B = 1;
    by_row.accumulate = ahead.accumulate = true;
    ahead.ahead = 2;
    chunks.chunk = 5;
    rt_trainer *whole = open_trainer(o, both, 2, shares);
    rt_trainer *others[] = { open_trainer(by_row, both, 2, shares), open_trainer(ahead, both, 2, shares),
                             open_trainer(chunks, both, 2, shares) };
    for (int i = 0; i < N; i++) group[i] = i / 3 % 2;
    rt_step_result want = step(whole);
    for (int k = 0; k < 3; k++) {
        rt_step_result got = step(others[k]);
        assert_true(close_to(got.loss, want.loss, 2e-6) && close_to(got.div, want.div, 2e-6));
        near(pair_gradients_apart(whole, others[k]), 0, 2e-5);
        rt_trainer_free(others[k]);
    }
    rt_trainer_free(whole);
}

/* ---- a prompt of its own ---- */

enum { OPEN = 7, LONG = 5, PUT = 4 };
static const int32_t opening[] = { OPEN }, said[PUT] = { 9, 4, 11, OPEN }, in_front[PUT] = { 9, 4, 11, 12 };
/* In the place of the first id, or before a document. */
static const rt_teacher_prompt replaces = { opening, said, 1, PUT, 1 }, precedes = { opening, in_front, 1, PUT, 0 };

/* Documents of `length` positions, every third of which begins with another id than the prompt wants. */
static void cut_documents(int length)
{
    for (int i = 0; i < N; i++) {
        int t = i % T, begin = t / length * length, number = i / T * T / length + t / length;
        start[i] = begin;
        pos[i] = t - begin;
        ids[i] = t > begin ? (i * 5 + i * i) % COMMON : number % 3 == 2 ? OPEN + 1 : OPEN;
    }
    for (int i = 0; i < N; i++)
        target[i] = i + 1 < N && start[i + 1] == start[i] && i / T == (i + 1) / T && i % 4 != 2 ? ids[i + 1] : -1;
}

/* A teacher's logits of a document that it reads by itself: at[i] of them are asked for. */
static void read_document(const int32_t *text, int count, const int32_t *at, int asked, float *out)
{
    enum { MOST = T + PUT };
    static float student[N * V], all[N * V];
    static int32_t row[MOST], place[MOST], none[MOST], zero[MOST];
    rt_err e = { 0 };
    rt_step_opts o = options(RT_DIV_FORWARD_KL, 1);
    o.B = 1;
    o.T = MOST;
    rt_trainer *t = open_trainer(o, first, 1, NULL);
    for (int i = 0; i < MOST; i++) row[i] = i < count ? text[i] : 0, place[i] = i, none[i] = -1;
    const rt_batch b = { row, place, zero, none, NULL };
    int32_t pick[N] = { 0 };
    memcpy(pick, at, (size_t)asked * sizeof *at);
    if (rt_trainer_logits(t, &b, pick, student, all, &e) < 0) fail_msg("%s", e.text);
    memcpy(out, all, (size_t)asked * V * sizeof *out);
    rt_trainer_free(t);
}

static rt_trainer *open_prompted(rt_step_opts o, const rt_teacher_prompt *p)
{
    o.prompts[0] = p;
    return open_trainer(o, first, 1, NULL);
}

/* Every trained position has the logits that the teacher has when it reads prompt and document alone. */
static void same_logits(const float *got, const rt_teacher_prompt *p)
{
    static float want[T * V];
    for (int i = 0; i < N; i++) {
        if (start[i] != i % T) continue;
        int32_t text[T + PUT], at[T], from[T], n = 0, asked = 0, add = 0;
        bool prompted = ids[i] == OPEN;
        for (uint32_t k = 0; prompted && k < p->put_count; k++) text[n++] = p->put[k];
        add = prompted ? n - (int32_t)p->skip : 0;
        for (int k = i + (prompted ? (int)p->skip : 0); k < N && k / T == i / T && start[k] == start[i]; k++)
            text[n++] = ids[k];
        for (int k = i; k < N && k / T == i / T && start[k] == start[i]; k++)
            if (target[k] >= 0) at[asked] = k - i + add, from[asked++] = k;
        if (!asked) continue;
        read_document(text, n, at, asked, want);
        for (int k = 0; k < asked * V; k++) near((double)got[from[k / V] * V + k % V], (double)want[k], 1e-4);
    }
}

static void test_prompt(void **state)
{
    (void)state;
    static float with[N * V], without[N * V];
    static measured m;
    const rt_teacher_prompt *const kinds[] = { &replaces, &precedes };
    all_in_group(0);
    for (int length = 3; length <= T; length += 3)
        for (int kind = 0; kind < 2; kind++) {
            double apart = 0;
            rt_err e = { 0 };
            rt_step_opts o = options(RT_DIV_FORWARD_KL, 1), by_row = o;
            cut_documents(length);
            rt_trainer *t = open_prompted(o, kinds[kind]), *plain = open_trainer(o, first, 1, NULL);
            by_row.B = 1;
            by_row.accumulate = true;
            rt_trainer *rows = open_prompted(by_row, kinds[kind]);
            read_logits(t, with);
            read_logits(plain, without);
            assert_true(length > 3 || rt_trainer_passes(t, batch(), &e) > 1);
            same_logits(with, kinds[kind]);
            for (int i = 0; i < N * V; i++)
                if (target[i / V] >= 0) apart = fmax(apart, fabs((double)with[i] - without[i]));
            assert_true(apart > 0.1);
            rt_step_result a = step(t), b = step(rows);
            assert_true(close_to(a.loss, b.loss, 2e-6) && a.trained == b.trained);
            near(pair_gradients_apart(t, rows), 0, 2e-5);
            measure(t, &m);
            rt_trainer_free(t);
            rt_trainer_free(plain);
            rt_trainer_free(rows);
        }
}

/* One of two teachers has a prompt: the mixture is of what each says by itself. */
static void test_prompt_of_one(void **state)
{
    (void)state;
    static const double shares[] = { 0.25, 0.75, 0.9, 0.1 };
    rt_step_opts o = options(RT_DIV_JSD, 2);
    cut_documents(LONG - 1);
    for (int i = 0; i < N; i++) group[i] = i / 3 % 2;
    rt_trainer *one[TEACHERS] = { open_prompted(o, &replaces), open_trainer(o, second, 1, NULL) };
    for (int k = 0; k < TEACHERS; k++) read_logits(one[k], logits[k]);
    o.prompts[0] = &replaces;
    rt_trainer *t = open_trainer(o, both, 2, shares);
    compare_with_double(t, shares, true);
    rt_trainer_free(t);
    for (int k = 0; k < TEACHERS; k++) rt_trainer_free(one[k]);
}

/* Every trained position once, with its id, in a document that begins where it says. */
static void test_reading(void **state)
{
    (void)state;
    for (int length = 1; length <= T; length++) {
        rt_err e = { 0 };
        int met[N + 1] = { 0 };
        rt_reading r = { .rows = B, .len = T + PUT };
        const rt_reading_of of = { ids, start, target, B, T };
        cut_documents(length);
        for (int again = 0; again < 2; again++)
            if (rt_reading_make(&r, &precedes, &of, &e) < 0) fail_msg("%s", e.text);
        uint32_t n = r.passes * r.rows * r.len;
        for (uint32_t k = 0; k < n; k++) {
            uint32_t column = k % r.len;
            assert_true(r.place[k] >= -1 && r.place[k] < N);
            met[r.place[k] < 0 ? N : r.place[k]]++;
            assert_int_equal(r.pos[k], column - (uint32_t)r.start[k]);
            assert_true((uint32_t)r.start[k] <= column && r.start[k - column + (uint32_t)r.start[k]] == r.start[k]);
            if (r.place[k] >= 0) assert_int_equal(r.ids[k], ids[r.place[k]]);
        }
        for (int i = 0; i < N; i++) assert_int_equal(met[i] > 1 || (target[i] >= 0 && !met[i]), 0);
        assert_true(r.prompted < r.documents || r.documents < 3);
        rt_reading_free(&r);
    }
}

/* The prompt stands where a position is trained. */
static void test_prompt_refused(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_reading r = { .rows = B, .len = T + PUT };
    const rt_reading_of of = { ids, start, target, B, T };
    cut_documents(LONG);
    const int32_t two[] = { OPEN, ids[1] };
    const rt_teacher_prompt p = { two, said, 2, PUT, 2 };
    assert_int_equal(rt_reading_make(&r, &p, &of, &e), RT_INVALID);
    target[0] = -1;
    assert_int_equal(rt_reading_make(&r, &p, &of, &e), RT_OK);
    assert_int_equal(r.prompted, 1);
    rt_reading_free(&r);
}

/* What one teacher needs while it computes, the next has after it. */
static void test_memory(void **state)
{
    (void)state;
    static const double shares[] = { 0.5, 0.5, 0.5, 0.5 };
    rt_exec_memory one, two;
    rt_step_opts o = options(RT_DIV_FORWARD_KL, 1);
    reused = true;
    rt_trainer *a = open_trainer(o, first, 1, NULL), *b = open_trainer(o, twice, 2, shares);
    rt_exec_memory_query(a->x, &one);
    rt_exec_memory_query(b->x, &two);
    uint64_t mixture = (uint64_t)o.chunk * V * sizeof(float) + 256;
    reused = false;
    assert_true(two.by_class[RT_CLASS_ACT] <= one.by_class[RT_CLASS_ACT] + mixture);
    assert_true(two.by_class[RT_CLASS_PARAM] > one.by_class[RT_CLASS_PARAM]);
    rt_trainer_free(a);
    rt_trainer_free(b);
}

/* ---- what --teacher says ---- */

static rt_arena arena;

static int parse(rt_teachers *t, uint32_t count, const char *const *texts, rt_err *e)
{
    return rt_teachers_parse(t, texts, count, &arena, e);
}

static void test_words(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_teachers t;
    const char *const texts[] = { "org/a", "b,weight=0.25,data=code.jsonl,data=more.jsonl", "with,comma" };
    assert_int_equal(parse(&t, 3, texts, &e), RT_OK);
    assert_string_equal(t.list[0].model, "org/a");
    assert_true(t.list[0].weight == 1 && t.list[0].data_count == 0);
    assert_string_equal(t.list[1].model, "b");
    assert_true(t.list[1].weight == 0.25 && t.list[1].data_count == 2);
    assert_string_equal(t.list[2].model, "with,comma");
    assert_null(t.list[2].prompt);
    assert_int_equal(parse(&t, 1, (const char *const[]){ "a,prompt=dir/p.txt,weight=2" }, &e), RT_OK);
    assert_string_equal(t.list[0].prompt, "dir/p.txt");
    static const char *const bad[] = { "a,weight=0",   "a,weight=-1",         "a,weight=x",
                                       "a,weight=",    "a,weight=nan",        "a,data=",
                                       "a,temp=2",     "a,prompt=",           ",weight=0.5",
                                       "a,weight=1e9", "a,weight=1,weight=2", "a,prompt=p,prompt=q" };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (parse(&t, 1, bad + i, &e) != RT_USAGE) fail_msg("%s was taken", bad[i]);
    const char *many[RT_TEACHERS_MOST + 1];
    for (int i = 0; i <= RT_TEACHERS_MOST; i++) many[i] = "a";
    assert_int_equal(parse(&t, RT_TEACHERS_MOST + 1, many, &e), RT_USAGE);
}

static void test_shares(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_teachers t;
    uint32_t groups[3];
    const char *const names[] = { "text.jsonl", "code.jsonl", "held.jsonl" };
    const char *const texts[] = { "a", "b,weight=0.3,data=./code.jsonl", "c,weight=0.1,data=code.jsonl" };
    assert_int_equal(parse(&t, 3, texts, &e), RT_OK);
    assert_int_equal(rt_teachers_assign(&t, names, 3, 2, groups, &e), RT_OK);
    assert_true(t.group_count == 2 && groups[0] == groups[2] && groups[1] != groups[0]);
    assert_true(rt_teachers_share(&t, groups[0], 0) == 1 && rt_teachers_share(&t, groups[0], 1) == 0);
    near(rt_teachers_share(&t, groups[1], 1), 0.75, 1e-15);
    near(rt_teachers_share(&t, groups[1], 2), 0.25, 1e-15);
    assert_true(rt_teachers_share(&t, groups[1], 0) == 0);

    const char *const mix[] = { "a", "b,weight=3" };
    assert_int_equal(parse(&t, 2, mix, &e), RT_OK);
    assert_int_equal(rt_teachers_assign(&t, names, 3, 2, groups, &e), RT_OK);
    assert_true(t.group_count == 1 && rt_teachers_share(&t, 0, 1) == 0.75);
}

static void refused(uint32_t count, const char *const *texts, const char *words)
{
    rt_err e = { 0 };
    rt_teachers t;
    uint32_t groups[3];
    const char *const names[] = { "text.jsonl", "code.jsonl", "held.jsonl" };
    assert_int_equal(parse(&t, count, texts, &e), RT_OK);
    assert_int_equal(rt_teachers_assign(&t, names, 3, 2, groups, &e), RT_INVALID);
    if (!strstr(e.text, words)) fail_msg("'%s' does not say '%s'", e.text, words);
}

static void test_refused(void **state)
{
    (void)state;
    refused(1, (const char *const[]){ "a,data=code.jsonl" }, "text.jsonl has no teacher");
    refused(2, (const char *const[]){ "a", "b,data=other.jsonl" }, "data=other.jsonl is not one of --data");
    refused(2, (const char *const[]){ "a", "b,data=held.jsonl" }, "has no data to teach");
    refused(3, (const char *const[]){ "a,data=text.jsonl,data=held.jsonl", "b,data=code.jsonl", "c" },
            "--teacher c has no data to teach");
}

static int set_up(void **state)
{
    (void)state;
    const rt_backend *b;
    rt_err e = { 0 };
    char count[RT_DEV_COUNT_TEXT];
    student_config = pair_config(32, V);
    configs[0] = pair_config(40, V);
    configs[1] = pair_config(24, V + 3);
    for (int i = 0; i < N; i++) {
        int t = i % T, row = i / T;
        ids[i] = (row * 11 + t * 7 + t * t) % COMMON;
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
    rt_arena_free(&arena);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_with_itself),   cmocka_unit_test(test_limits),
                                        cmocka_unit_test(test_outside),       cmocka_unit_test(test_rows),
                                        cmocka_unit_test(test_cut_otherwise), cmocka_unit_test(test_memory),
                                        cmocka_unit_test(test_prompt),        cmocka_unit_test(test_prompt_of_one),
                                        cmocka_unit_test(test_reading),       cmocka_unit_test(test_prompt_refused),
                                        cmocka_unit_test(test_words),         cmocka_unit_test(test_shares),
                                        cmocka_unit_test(test_refused) };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
