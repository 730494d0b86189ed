/* test_preview.c - what is looked at before and besides training: the overlap of held-out and training text against a
 * count by hand, whole and sampled, and logits of picked positions against evaluation. */
#include "train_case.h"

#include "base/rng.h"
#include "job/prepare/overlap.h"

#include <math.h>

enum { T = 64, ROWS = 40 };

static int32_t ids[ROWS * T], start[ROWS * T], target[ROWS * T], pos[ROWS * T];

static rt_batch held(void) { return (rt_batch){ ids, pos, start, target, NULL }; }

static uint32_t random_at(uint64_t i) { return rt_philox(7, 1, i).v[0]; }

/* Rows of two documents and some padding; every third document has a prompt of ten tokens without targets. */
static void fill(uint32_t vocab)
{
    for (uint32_t i = 0; i < ROWS; i++) {
        uint32_t second = 20 + i % 20, end = T - i % 7;
        for (uint32_t k = 0; k < T; k++) {
            uint32_t at = i * T + k, first = k < second ? 0 : k < end ? second : end;
            ids[at] = (int32_t)(k < end ? random_at(at) % vocab : 0);
            start[at] = (int32_t)first;
            pos[at] = (int32_t)(k - first);
        }
        for (uint32_t k = 0; k < T; k++) {
            uint32_t at = i * T + k;
            bool last = k + 1 == T || start[at + 1] != start[at], prompt = (i + (k >= second)) % 3 == 0 && pos[at] < 9;
            target[at] = last || prompt || k >= end ? -1 : ids[at + 1];
        }
    }
}

static bool same_gram(const int32_t *a, const int32_t *b) { return memcmp(a, b, RT_OVERLAP_N * sizeof *a) == 0; }

/* Grams as a person would compare them: n tokens of training text that are one document. */
static rt_overlap_result by_hand(const int32_t *train, uint32_t n)
{
    rt_overlap_result r = { .one_in = 1 };
    for (uint32_t at = 0; at < ROWS * T; at++) {
        static bool any, touched;
        if (pos[at] == 0) any = touched = false;
        if (pos[at] < RT_OVERLAP_N - 1 || target[at - 1] < 0) continue;
        bool shared = false;
        for (uint32_t k = 0; k + RT_OVERLAP_N <= n; k++)
            shared = shared || same_gram(train + k, ids + at - RT_OVERLAP_N + 1);
        r.grams++;
        r.shared += shared;
        r.texts += !any;
        r.touched += shared && !touched;
        any = true;
        touched = touched || shared;
    }
    return r;
}

static rt_overlap_result measured(const int32_t *train, const int32_t *starts, uint32_t n, uint64_t most)
{
    rt_err e = { 0 };
    rt_overlap *o = NULL;
    rt_batch h = held();
    if (rt_overlap_new(&o, &h, ROWS, T, most, &e) < 0) fail_msg("%s", e.text);
    rt_overlap_read(o, train, starts, n);
    rt_overlap_result r = rt_overlap_count(o);
    rt_overlap_free(o);
    return r;
}

static void assert_same(rt_overlap_result a, rt_overlap_result b)
{
    assert_int_equal(a.grams, b.grams);
    assert_int_equal(a.shared, b.shared);
    assert_int_equal(a.texts, b.texts);
    assert_int_equal(a.touched, b.touched);
    assert_int_equal(a.one_in, b.one_in);
}

static void test_overlap(void **state)
{
    (void)state;
    static int32_t train[1000], one[1000], each[1000];
    for (uint32_t vocab = 2; vocab <= 300; vocab += 149) { /* of two ids much is shared by chance */
        fill(vocab);
        for (uint32_t k = 0; k < 1000; k++) {
            train[k] = (int32_t)(random_at(1 << 20 | k) % vocab);
            each[k] = (int32_t)k;
        }
        rt_overlap_result none = by_hand(train, 1000);
        assert_true(none.grams > 900 && none.texts > 60);
        assert_same(measured(train, one, 1000, 1u << 20), none);
        if (vocab > 100) assert_int_equal(none.shared, 0);
        memcpy(train + 100, ids + T * 3 + 2, 15 * sizeof *ids); /* three grams of one document */
        memcpy(train + 300, ids + T * 9, 12 * sizeof *ids);     /* one token too few */
        memcpy(train + 500, ids + T * 20 + start[T * 20 + 45], 19 * sizeof *ids);
        rt_overlap_result some = by_hand(train, 1000);
        assert_true(vocab < 100 || (some.shared > 3 && some.touched == 2));
        assert_same(measured(train, one, 1000, 1u << 20), some);
        /* Grams end with their document: when each token is one, there are none. */
        assert_int_equal(measured(train, each, 1000, 1u << 20).shared, 0);
        assert_same(measured(ids, start, 0, 1u << 20), (rt_overlap_result){ some.grams, 0, some.texts, 0, 1 });
    }
}

/* A share of the grams, chosen by their hash, is near the whole; of everything shared it is everything. */
static void test_sampled(void **state)
{
    (void)state;
    fill(300);
    rt_overlap *o = NULL;
    rt_err e = { 0 };
    rt_batch h = held();
    for (uint64_t most = 1; most < 1000; most *= 4) {
        assert_int_equal(rt_overlap_new(&o, &h, ROWS, T, most, &e), RT_OK);
        for (uint32_t i = 0; i < ROWS / 2; i++) rt_overlap_read(o, ids + i * T, start + i * T, T);
        rt_overlap_result r = rt_overlap_count(o);
        assert_true(r.grams <= most && r.one_in > 1);
        if (most == 256) assert_true(r.shared * 10 > r.grams * 4 && r.shared * 10 < r.grams * 6);
        for (uint32_t i = 0; i < ROWS; i++) rt_overlap_read(o, ids + i * T, start + i * T, T);
        r = rt_overlap_count(o);
        assert_int_equal(r.shared, r.grams);
        rt_overlap_free(o);
    }
    rt_overlap_free(NULL);
}

static void test_short(void **state)
{
    (void)state;
    fill(300);
    for (uint32_t k = 0; k < ROWS * T; k++) {
        pos[k] = (int32_t)(k % 8);
        start[k] = (int32_t)(k % T / 8 * 8);
    }
    assert_same(measured(ids, start, T, 100), (rt_overlap_result){ .one_in = 1 });
}

static int life(void *ctx, rt_err *e)
{
    rt_overlap *o = NULL;
    rt_batch h = held();
    (void)ctx;
    int rc = rt_overlap_new(&o, &h, ROWS, T, 64, e);
    rt_overlap_free(o);
    return rc;
}

static void test_memory(void **state)
{
    (void)state;
    fill(300);
    fail_each(life, NULL, 0);
}

/* ---- logits of picked positions ---- */

/* Against the cross-entropy that evaluation gives for the same positions. */
static void test_logits(void **state)
{
    (void)state;
    enum { B = 2, L = 16, PICKS = 5 };
    rt_err e = { 0 };
    rt_model_config c = tiny_config("tiny-qwen2", 1), d = tiny_config("tiny-llama", 2);
    rt_trainer *t = NULL;
    rt_dev *dev = open_device("cpu", 1);
    static int32_t zero[B * L];
    int32_t some[B * L], next[B * L], place[B * L], pick[PICKS] = { 3, 30, 0, 17, 3 };
    float ce[B * L], teacher_ce[B * L];
    write_model(in_dir("c"), &c, RT_DTYPE_F32, true);
    write_model(in_dir("d"), &d, RT_DTYPE_F32, true);
    rt_model_file *student = open_model(in_dir("c")), *teacher = open_model(in_dir("d"));
    rt_step_opts o = step_options(&c, &d, B, L);
    o.picks = PICKS;
    if (rt_trainer_open(&t, dev, &o, &(rt_seal_opts){ 0 }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, student, teacher, NULL, 1, &e) < 0) fail_msg("%s", e.text);
    for (uint32_t i = 0; i < B * L; i++) {
        some[i] = (int32_t)(random_at(i) % c.vocab);
        next[i] = (int32_t)(random_at(i + 99) % c.vocab);
        place[i] = (int32_t)(i % L);
    }
    rt_batch b = { some, place, zero, next, NULL };
    rt_eval_out out = { .ce = ce, .teacher_ce = teacher_ce };
    if (rt_trainer_eval(t, &b, &out, &e) < 0) fail_msg("%s", e.text);
    float *logits[2] = { calloc(PICKS * c.vocab, sizeof(float)), calloc(PICKS * d.vocab, sizeof(float)) };
    if (rt_trainer_logits(t, &b, pick, logits[0], logits[1], &e) < 0) fail_msg("%s", e.text);
    for (int who = 0; who < 2; who++)
        for (uint32_t i = 0; i < PICKS; i++) {
            uint32_t V = who ? d.vocab : c.vocab;
            const float *row = logits[who] + i * V;
            double sum = 0, want = who ? teacher_ce[pick[i]] : ce[pick[i]];
            for (uint32_t v = 0; v < V; v++) sum += exp(row[v]);
            double got = log(sum) - row[next[pick[i]]];
            if (!(fabs(got - want) < 1e-5 * want))
                fail_msg("model %d, position %d: %g, not %g", who, pick[i], got, want);
        }
    assert_memory_equal(logits[0], logits[0] + 4 * c.vocab, c.vocab * sizeof(float)); /* the same position twice */
    free(logits[0]);
    free(logits[1]);
    rt_trainer_free(t);
    rt_model_file_close(student);
    rt_model_file_close(teacher);
    dev->api->close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_overlap), cmocka_unit_test(test_sampled), cmocka_unit_test(test_short),
        cmocka_unit_test(test_memory),  cmocka_unit_test(test_logits),
    };
    return cmocka_run_group_tests(tests, make_test_dir, remove_test_dir);
}
