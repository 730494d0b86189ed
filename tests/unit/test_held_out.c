/* test_held_out.c - which records are held out: exactly so many, of distinct content, by seed; copies on no side. */
#include "data_case.h"
#include "memory_case.h"

#include "text/data/data_held.h"

enum { T = 16, DISTINCT = 40, LENGTH = 9 };

/* Records by their first id: 100 + i, and each third of them three times. */
static rt_shard *write_records(const char *name, uint32_t first, uint32_t count, bool copies)
{
    rt_err e = { 0 };
    rt_shard_writer *w = NULL;
    rt_shard *s = NULL;
    rt_encoded r = { .kind = RT_RECORD_TEXT, .all_targets = true, .trained = LENGTH - 1 };
    const rt_shard_identity id = { { 7, 7 }, 1000 };
    assert_int_equal(rt_shard_writer_new(&w, in_folder(name), &id, &e), RT_OK);
    assert_true(rt_grow((void **)&r.ids.ids, &r.ids.cap, LENGTH, 4));
    r.ids.count = LENGTH;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t copy = 0; copy < (copies && i % 3 == 0 ? 3 : 1); copy++) {
            for (uint32_t k = 0; k < LENGTH; k++) r.ids.ids[k] = k ? 100 + first + i + k : 100 + first + i;
            assert_int_equal(rt_shard_writer_add(w, &r, 0, RT_PART_WHOLE, &e), RT_OK);
        }
    assert_int_equal(rt_shard_writer_commit(w, "{}", &e), RT_OK);
    rt_shard_writer_free(w);
    rt_encoded_free(&r);
    assert_int_equal(rt_shard_open(&s, in_folder(name), &(rt_shard_expect){ 0 }, &e), RT_OK);
    return s;
}

/* How often each record is in a side; returns the rows' count of it. */
static rt_rows_count count_side(const rt_rows_source *sources, uint32_t count, const rt_held *h, rt_rows_side side,
                                uint32_t *times)
{
    static int32_t ids[T], target[T], start[T], pos[T];
    rt_row row = { .ids = ids, .target = target, .start = start, .pos = pos };
    rt_rows_opts o = {
        .seq_len = T, .one_each = true, .epochs = 1, .held = h, .held_out = (double)rt_held_count(h), .side = side
    };
    rt_rows *r = NULL;
    rt_rows_count all = { 0 };
    rt_err e = { 0 };
    int rc;
    memset(times, 0, DISTINCT * sizeof *times);
    if (rt_rows_open(&r, sources, count, &o, &e) < 0) fail_msg("%s", e.text);
    while ((rc = rt_rows_next(r, &row, &e)) == 1) times[row.ids[0] - 100]++;
    assert_int_equal(rc, 0);
    for (uint32_t i = 0; i < count; i++) {
        const rt_rows_count *c = rt_rows_of_source(r, i);
        all.held += c->held;
        all.copies += c->copies;
        all.units += c->units;
    }
    rt_rows_close(r);
    return all;
}

static void choose(rt_held **h, const rt_rows_source *sources, uint32_t count, uint64_t seed, uint64_t n, double share)
{
    rt_err e = { 0 };
    const rt_rows_opts o = { .seq_len = T, .seed = seed };
    if (rt_held_choose(h, sources, count, &o, n, share, &e) < 0) fail_msg("%s", e.text);
    assert_non_null(*h);
}

/* Every number that there can be: so many records are held out, each once, and nothing of them is trained. */
static void test_exact(void **state)
{
    (void)state;
    uint32_t held[DISTINCT], train[DISTINCT];
    rt_shard *s = write_records("copies.rtok", 0, DISTINCT, true);
    const rt_rows_source source = { .name = "a", .shards = &s, .count = 1 };
    for (uint64_t n = 1; n < DISTINCT; n++) {
        rt_held *h;
        uint64_t copies = 0, all = 0;
        choose(&h, &source, 1, n % 4, n, 0);
        rt_rows_count a = count_side(&source, 1, h, RT_SIDE_HELD, held);
        rt_rows_count b = count_side(&source, 1, h, RT_SIDE_TRAIN, train);
        for (uint32_t i = 0; i < DISTINCT; i++) {
            uint32_t there = i % 3 == 0 ? 3 : 1;
            assert_true(held[i] <= 1 && train[i] == (held[i] ? 0 : there));
            all += held[i];
            copies += held[i] ? there - 1 : 0;
        }
        assert_int_equal(all, n);
        assert_true(a.held == n && b.held == n && a.units == n && a.copies == copies && b.copies == copies);
        rt_held_free(h);
    }
    rt_shard_close(s);
}

/* Two sources that share records: weights change nothing of the choice; seeds do; what is chosen is the same again. */
static void test_weights_and_seeds(void **state)
{
    (void)state;
    uint32_t held[3][DISTINCT], train[DISTINCT];
    rt_shard *a = write_records("a.rtok", 0, 30, false), *b = write_records("b.rtok", 20, 20, true);
    rt_rows_source sources[2] = { { .name = "a", .shards = &a, .count = 1 },
                                  { .name = "b", .shards = &b, .count = 1 } };
    for (int k = 0; k < 3; k++) {
        rt_held *h;
        sources[0].weight = k == 1 ? 0.25 : 1;
        sources[1].weight = k == 1 ? 3 : 1;
        choose(&h, sources, 2, k == 2, 12, 0);
        rt_rows_source once[2] = { sources[0], sources[1] };
        once[0].weight = once[1].weight = 1;
        assert_int_equal(count_side(once, 2, h, RT_SIDE_HELD, held[k]).held, 12);
        count_side(sources, 2, h, RT_SIDE_TRAIN, train);
        for (int i = 0; i < DISTINCT; i++) assert_false(held[k][i] && train[i]);
        rt_held_free(h);
    }
    assert_memory_equal(held[0], held[1], sizeof held[0]);
    assert_memory_not_equal(held[0], held[2], sizeof held[0]);
    rt_shard_close(a);
    rt_shard_close(b);
}

/* A share is of records of distinct content, at least one and never all. */
static void test_share(void **state)
{
    (void)state;
    static const struct {
        double share;
        uint64_t n;
    } cases[] = { { 0.1, 4 }, { 1e-9, 1 }, { 0.5, 20 }, { 0.9999, DISTINCT - 1 } };
    rt_shard *s = write_records("share.rtok", 0, DISTINCT, true);
    const rt_rows_source source = { .name = "a", .shards = &s, .count = 1 };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_held *h;
        choose(&h, &source, 1, 0, 0, cases[i].share);
        assert_int_equal(rt_held_count(h), cases[i].n);
        rt_held_free(h);
    }
    rt_shard_close(s);
}

/* All of them are refused, copies or not; of one content there is nothing to choose. */
static void test_all_of_them(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_held *h;
    const rt_rows_opts o = { .seq_len = T };
    rt_shard *s = write_records("all.rtok", 0, 5, true), *one = write_records("one.rtok", 0, 1, true);
    rt_rows_source source = { .name = "a", .shards = &s, .count = 1 };
    assert_int_equal(rt_held_choose(&h, &source, 1, &o, 5, 0, &e), RT_INVALID);
    assert_null(h);
    assert_non_null(strstr(e.text, "--held-out 5: the data has 5 records of distinct content"));
    assert_int_equal(rt_held_choose(&h, &source, 1, &o, 4, 0, &e), RT_OK);
    rt_held_free(h);
    source.shards = &one;
    assert_int_equal(rt_held_choose(&h, &source, 1, &o, 1, 0, &e), RT_OK);
    assert_null(h);
    rt_shard_close(s);
    rt_shard_close(one);
}

typedef struct job {
    const rt_rows_source *source;
} job;

static int choose_once(void *ctx, rt_err *e)
{
    rt_held *h = NULL;
    const rt_rows_opts o = { .seq_len = T };
    int rc = rt_held_choose(&h, ((job *)ctx)->source, 1, &o, 3, 0, e);
    rt_held_free(h);
    return rc;
}

static void test_allocations_fail(void **state)
{
    (void)state;
    rt_shard *s = write_records("oom.rtok", 0, 8, true);
    const rt_rows_source source = { .name = "a", .shards = &s, .count = 1 };
    fail_every(1, choose_once, &(job){ &source }, 0);
    rt_shard_close(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact),       cmocka_unit_test(test_weights_and_seeds), cmocka_unit_test(test_share),
        cmocka_unit_test(test_all_of_them), cmocka_unit_test(test_allocations_fail),
    };
    return cmocka_run_group_tests(tests, open_case, close_case);
}
