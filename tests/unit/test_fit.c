/* test_fit.c - the policy by which a run is made to fit, over a formula in the place of a dry seal; and durations, what
 * a run takes, how many steps fit into a time. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "job/prepare/fit.h"
#include "job/prepare/pace.h"

#include <math.h>
#include <string.h>

/* 1,000 bytes of weights (400 with adapters, 600 more where the teacher's are dequantised), 2 for every position and 1
 * of them only without recomputing, 4 a position of the head at a time. */
static uint32_t asked;
static uint64_t spared = 50; /* by dequantising once */
static int formula(void *ctx, const rt_fit_config *c, rt_fit_need *out, rt_err *e)
{
    uint64_t positions = (uint64_t)c->micro_batch * c->seq_len, chunk = c->head_chunk ? c->head_chunk : 100;
    (void)e;
    asked++;
    if (ctx && ++*(int *)ctx > 3) return rt_fail(e, RT_UNSUPPORTED, "asked too often");
    bool wide = c->weights == RT_WEIGHTS_BF16;
    *out = (rt_fit_need){ .dequant = wide ? 50 : 50 + spared };
    out->bytes = (c->lora_rank ? 400 : 1000) + positions * (c->recompute == RT_RECOMPUTE_BLOCK ? 1 : 2) + 4 * chunk;
    out->bytes += (c->ahead > 1 ? c->ahead * positions : 0) + (wide ? 600 : 0);
    return RT_OK;
}

static rt_fit fitted(uint64_t limit, const rt_fit_ask *base)
{
    rt_err e = { 0 };
    rt_fit f;
    rt_fit_ask ask = *base;
    ask.limit = limit;
    asked = 0;
    assert_int_equal(rt_fit_choose(&f, &ask, formula, NULL, &e), RT_OK);
    assert_true(asked < 60); /* a dry seal takes a moment */
    return f;
}

static const rt_fit_ask free_ask = { .wanted = { .micro_batch = 8, .seq_len = 128 },
                                     .batch = 32,
                                     .micro_free = true,
                                     .recompute_free = true,
                                     .lora_free = true };

/* Where the student's rows had to shrink, the teacher may read more of them at once: as many as pay, if they fit. */
static void the_teacher_reads_ahead_where_that_fits(void **state)
{
    static const struct {
        uint32_t micro, rows, ahead;
        uint64_t limit;
    } table[] = {
        { 8, 32, 4, 10000 },                         /* 1,000 + 2,048 + 400, and 4,096 for four */
        { 8, 32, 2, 7000 },                          /* four would be 7,544 */
        { 8, 32, 0, 5000 },                          /* two would be 5,496 */
        { 8, 16, 2, 100000 }, { 8, 100, 4, 100000 }, /* no more than there are */
        { 8, 15, 0, 100000 }, { 8, 0, 0, 100000 },   { 32, 32, 0, 100000 }, /* one micro-batch: nothing is ahead */
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rt_fit_ask ask = free_ask;
        ask.wanted.micro_batch = table[i].micro;
        ask.teacher_rows = table[i].rows;
        rt_fit f = fitted(table[i].limit, &ask);
        assert_true(f.fits && f.need <= table[i].limit);
        assert_int_equal(f.chosen.micro_batch, table[i].micro);
        assert_int_equal(f.chosen.ahead, table[i].ahead);
    }
}

/* Expanded weights are taken where all that was chosen without them still fits, and never for fewer rows. */
static void weights_are_expanded_where_that_fits_beside_the_rest(void **state)
{
    static const struct {
        uint64_t limit, spared;
        uint32_t rows, micro, ahead;
        bool differ;
        rt_weights_why why;
    } table[] = {
        { 3448 + 600, 50, 0, 8, 0, true, RT_WEIGHTS_GAIN },
        { 3448 + 599, 50, 0, 8, 0, true, RT_WEIGHTS_NO_ROOM }, /* and not eight rows for fewer */
        { 3448, 50, 0, 8, 0, true, RT_WEIGHTS_NO_ROOM },
        { 3447, 50, 0, 4, 0, true, RT_WEIGHTS_GAIN }, /* what eight rows left free is enough */
        { 100000, 0, 0, 8, 0, true, RT_WEIGHTS_NO_GAIN },
        { 100000, 50, 0, 8, 0, false, RT_WEIGHTS_SAME },
        { 7544 + 600, 50, 32, 8, 4, true, RT_WEIGHTS_GAIN },
        { 7544 + 599, 50, 32, 8, 4, true, RT_WEIGHTS_NO_ROOM }, /* the teacher's rows come first */
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rt_fit_ask ask = free_ask;
        rt_str text = { 0 };
        ask.teacher = ask.weights_free = true;
        ask.weights_differ = table[i].differ;
        ask.teacher_rows = table[i].rows;
        spared = table[i].spared;
        rt_fit f = fitted(table[i].limit, &ask);
        bool wide = table[i].why == RT_WEIGHTS_GAIN;
        assert_true(f.fits && f.need <= table[i].limit);
        assert_int_equal(f.weights.why, table[i].why);
        assert_int_equal(f.weights.weights, wide ? RT_WEIGHTS_BF16 : RT_WEIGHTS_NATIVE);
        assert_int_equal(f.chosen.weights, f.weights.weights);
        assert_int_equal(f.chosen.micro_batch, table[i].micro);
        assert_int_equal(f.chosen.ahead, table[i].ahead);
        rt_fit_chosen(&text, &f); /* what is dequantised is no sacrifice to memory */
        if (text.len && strstr(text.data, "--teacher-weights")) fail_msg("%s", text.data);
        rt_str_free(&text);
    }
    spared = 50;
    rt_fit f = fitted(100000, &free_ask); /* no teacher */
    assert_int_equal(f.weights.why, RT_WEIGHTS_UNSAID);
}

static void weights_that_were_asked_for_stay(void **state)
{
    (void)state;
    rt_str text = { 0 };
    rt_fit_ask ask = free_ask;
    ask.teacher = ask.weights_differ = true;
    ask.wanted.weights = RT_WEIGHTS_NATIVE;
    rt_fit f = fitted(100000, &ask);
    assert_true(f.weights.why == RT_WEIGHTS_ASKED && f.chosen.weights == RT_WEIGHTS_NATIVE);
    ask.wanted.weights = RT_WEIGHTS_BF16; /* also where rows have to give way */
    f = fitted(3448, &ask);
    assert_true(f.fits && f.weights.why == RT_WEIGHTS_ASKED && f.chosen.weights == RT_WEIGHTS_BF16);
    assert_int_equal(f.chosen.micro_batch, 4);
    f = fitted(1528 + 599, &ask); /* one row, recomputed, is a byte too much; as stored it is not */
    assert_false(f.fits);
    assert_int_equal(f.weights.why, RT_WEIGHTS_UNSAID);
    assert_int_equal(f.nearest_count, 1);
    rt_fit_offers(&text, &f);
    assert_memory_equal(text.data, "--teacher-weights native (", 26);
    rt_str_free(&text);
    f = fitted(1528 - 65, &ask); /* not that either: both are said */
    assert_true(!f.fits && f.nearest_count > 0);
    rt_fit_offers(&text, &f);
    assert_memory_equal(text.data, "--teacher-weights native --head-chunk 16 (", 42);
    rt_str_free(&text);
}

static void rows_cover_the_batch(void **state)
{
    (void)state;
    assert_int_equal(rt_fit_rows(32, 32), 32);
    assert_int_equal(rt_fit_rows(32, 100), 32);
    assert_int_equal(rt_fit_rows(32, 31), 16);
    assert_int_equal(rt_fit_rows(32, 15), 11); /* 3 x 11 is one row of padding */
    assert_int_equal(rt_fit_rows(31, 16), 16);
    assert_int_equal(rt_fit_rows(6, 4), 3);
    assert_int_equal(rt_fit_rows(7, 6), 1); /* 2 x 4 would be a row of 8 for nothing */
    assert_int_equal(rt_fit_rows(1, 1), 1);
    assert_int_equal(rt_fit_rows(5, 0), 1);
    for (uint32_t batch = 1; batch < 200; batch++)
        for (uint32_t most = 1; most <= batch; most++) {
            uint32_t rows = rt_fit_rows(batch, most), count = (batch + rows - 1) / rows;
            assert_true(rows >= 1 && rows <= most && rows * count - batch <= batch / 16);
            if (batch % most == 0) assert_int_equal(rows, most); /* nothing is wasted and nothing larger fits */
        }
}

static void what_is_wanted_is_taken_where_it_fits(void **state)
{
    (void)state;
    uint64_t need = 1000 + 8 * 128 * 2 + 400;
    rt_fit f = fitted(need, &free_ask);
    assert_true(f.fits && f.need == need && f.wanted_need == need);
    assert_int_equal(f.chosen.micro_batch, 8);
    assert_int_equal(f.chosen.recompute, RT_RECOMPUTE_NONE);
    f = fitted(need - 1, &free_ask); /* one byte less */
    assert_true(f.fits && f.need < need && f.wanted_need == need);
    assert_int_equal(f.chosen.micro_batch, 4); /* 5 x 7 rows would be three for nothing */
}

static void fewer_rows_come_before_recomputing(void **state)
{
    (void)state;
    rt_fit f = fitted(1000 + 400 + 4 * 128 * 2, &free_ask);
    assert_true(f.fits);
    assert_int_equal(f.chosen.micro_batch, 4);
    assert_int_equal(f.chosen.recompute, RT_RECOMPUTE_NONE);
    f = fitted(1000 + 400 + 1 * 128 * 2, &free_ask); /* the last without */
    assert_true(f.fits && f.chosen.micro_batch == 1 && f.chosen.recompute == RT_RECOMPUTE_NONE);
    f = fitted(1000 + 400 + 1 * 128 * 2 - 1, &free_ask); /* the first with */
    assert_true(f.fits && f.chosen.micro_batch == 1 && f.chosen.recompute == RT_RECOMPUTE_BLOCK);
    assert_true(f.chosen.seq_len == 128 && f.chosen.lora_rank == 0 && f.chosen.head_chunk == 0);
}

/* Every limit at once: what is chosen fits, and the next larger that would be tried does not. */
static void the_largest_that_fits_is_found(void **state)
{
    (void)state;
    for (uint64_t limit = 1528; limit < 3500; limit += 13) {
        rt_fit f = fitted(limit, &free_ask);
        assert_true(f.fits && f.need <= limit);
        uint64_t per = f.chosen.recompute == RT_RECOMPUTE_BLOCK ? 128 : 256;
        for (uint32_t rows = f.chosen.micro_batch + 1; rows <= 8; rows++)
            if (rt_fit_rows(32, rows) == rows) assert_true(1400 + rows * per > limit);
        if (per == 128) assert_true(1400 + 256 > limit);
    }
}

static void what_the_user_said_stays(void **state)
{
    (void)state;
    rt_str text = { 0 };
    rt_fit_ask ask = free_ask;
    ask.micro_free = false;
    rt_fit f = fitted(1400 + 8 * 128, &ask);
    assert_true(f.fits && f.chosen.micro_batch == 8 && f.chosen.recompute == RT_RECOMPUTE_BLOCK);
    f = fitted(1400 + 8 * 128 - 1, &ask);
    assert_false(f.fits);
    assert_int_equal(f.nearest_count, 1); /* the same loss with fewer rows: nothing else is offered */
    assert_true(f.nearest[0].micro_batch < 8 && f.nearest[0].seq_len == 128 && f.nearest_need[0] < 1400 + 8 * 128);
    rt_fit_offers(&text, &f);
    assert_string_equal(text.data, "--micro-batch 3 (2.12 KiB)");
    rt_str_free(&text);
    ask.micro_free = true;
    ask.recompute_free = false;
    f = fitted(1400 + 128 + 1, &ask);
    assert_false(f.fits);
    assert_true(f.chosen.micro_batch == 1 && f.chosen.recompute == RT_RECOMPUTE_NONE);
    assert_true(f.nearest_count == 1 && f.nearest[0].recompute == RT_RECOMPUTE_BLOCK);
    rt_fit_offers(&text, &f);
    assert_string_equal(text.data, "--recompute block (1.49 KiB)");
    rt_str_free(&text);
}

static void what_cannot_fit_is_told_what_would(void **state)
{
    (void)state;
    rt_str text = { 0 };
    rt_fit f = fitted(1400 + 128 - 1, &free_ask); /* a shorter head first: the same loss */
    assert_false(f.fits);
    assert_true(f.chosen.micro_batch == 1 && f.chosen.recompute == RT_RECOMPUTE_BLOCK && f.need == 1528);
    assert_true(f.nearest_count == 1 && f.nearest[0].head_chunk == 16 && f.nearest[0].seq_len == 128);
    rt_fit_offers(&text, &f);
    assert_memory_equal(text.data, "--head-chunk 16 (", 17); /* rows at a time are chosen anew: not said */
    rt_str_free(&text);
    rt_fit_ask ask = free_ask;
    ask.wanted.head_chunk = 16;
    ask.wanted.seq_len = 512;
    f = fitted(1064 + 512 - 1, &ask); /* then shorter rows, and adapters */
    assert_false(f.fits);
    assert_int_equal(f.nearest_count, 2);
    assert_true(f.nearest[0].seq_len == 256 && f.nearest[0].lora_rank == 0);
    assert_true(f.nearest[1].seq_len == 512 && f.nearest[1].lora_rank == 32);
    rt_fit_offers(&text, &f);
    assert_non_null(strstr(text.data, "--seq-len 256 ("));
    assert_non_null(strstr(text.data, ", or --lora ("));
    rt_str_free(&text);
    ask.lora_free = false;
    f = fitted(1064 + 512 - 1, &ask);
    assert_int_equal(f.nearest_count, 1);
    ask.lora_free = true;
    f = fitted(464 + 128, &ask); /* only both together */
    assert_true(!f.fits && f.nearest_count == 1 && f.nearest[0].lora_rank == 32 && f.nearest[0].seq_len == 128);
    f = fitted(100, &ask);
    assert_true(!f.fits && f.nearest_count == 0);
    rt_fit_offers(&text, &f);
    assert_non_null(
        strstr(text.data, "smaller models, or a limit of 1.54 KiB")); /* of what was asked for, at its least */
    rt_str_free(&text);
}

static void faults_of_a_seal_come_through(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_fit f;
    int calls = 0;
    rt_fit_ask ask = free_ask;
    ask.limit = 1;
    assert_int_equal(rt_fit_choose(&f, &ask, formula, &calls, &e), RT_UNSUPPORTED);
    assert_string_equal(e.text, "asked too often");
}

static void a_margin_stays_free(void **state)
{
    (void)state;
    assert_true(rt_fit_budget(0) == 0 && rt_fit_budget(64u << 20) == 0);
    assert_true(rt_fit_budget(20ull << 30) == (19ull << 30) - (64u << 20));
}

/* ---- time ---- */

static void durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double seconds;
    } good[] = { { "8h", 28800 },     { "90m", 5400 },   { "1h30m", 5400 }, { "45s", 45 },
                 { "1h0m20s", 3620 }, { "1h20s", 3620 }, { "1.5h", 5400 },  { "2m30s", 150 } };
    static const char *const bad[] = { "",      "8",  "h",    "8x",  "30m1h", "8h30", "-1h",
                                       "1h-5m", "0s", "1h1h", " 8h", "8h ",   "nan",  "infh" };
    rt_err e = { 0 };
    double s;
    char buf[32];
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_int_equal(rt_parse_duration(good[i].text, &s, &e), RT_OK);
        assert_true(s == good[i].seconds);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (rt_parse_duration(bad[i], &s, &e) != RT_USAGE || !strstr(e.text, "--time")) fail_msg("'%s'", bad[i]);
    assert_string_equal(rt_format_duration(buf, 45), "0:45");
    assert_string_equal(rt_format_duration(buf, 3599), "59:59");
    assert_string_equal(rt_format_duration(buf, 8 * 3600 + 300), "8h05");
    assert_string_equal(rt_format_duration(buf, NAN), "0:00");
    assert_string_equal(rt_format_seconds(buf, 0.00912), "9.12 ms");
    assert_string_equal(rt_format_seconds(buf, 1.5), "1.5 s");
    assert_string_equal(rt_format_seconds(buf, 150), "2.5 min");
}

static void a_run_is_the_sum_of_its_parts(void **state)
{
    (void)state;
    const rt_pace p = { .step = 1, .eval = 10, .save = 100, .best = 200, .finish = 500 };
    const rt_settings share = { .eval_every = { 25, true }, .save_every = { 50, true } },
                      count = { .eval_every = { 30, false }, .save_every = { 100, false } };
    assert_true(rt_pace_total(&p, 0, 100, &share) == 100 + 5 * 10 + 2 * 100 + 4 * 200 + 500);
    assert_true(rt_pace_total(&p, 0, 100, &count) == 100 + 5 * 10 + 1 * 100 + 4 * 200 + 500); /* 30 60 90 100 */
    assert_true(rt_pace_total(&p, 60, 100, &count) == 40 + 2 * 10 + 1 * 100 + 2 * 200 + 500);
    /* Of step 60, which has just ended, the evaluation is still to come; of step 61 nothing is. */
    assert_true(rt_pace_left(&p, 60, 100, &count) == 40 + 3 * 10 + 1 * 100 + 3 * 200 + 500);
    assert_true(rt_pace_left(&p, 61, 100, &count) == 39 + 2 * 10 + 1 * 100 + 2 * 200 + 500);
    assert_true(rt_pace_left(&p, 100, 100, &count) == 10 + 100 + 200 + 500);
    /* A checkpoint every half hour, however many steps that is. */
    const rt_pace slow = { .step = 3600, .save = 1 };
    const rt_settings once = { .eval_every = { 100, true }, .save_every = { 100, true } };
    assert_true(rt_pace_total(&slow, 0, 10, &once) == 10 * 3600 + 20);
}

static void steps_fill_a_time(void **state)
{
    (void)state;
    const rt_pace p = { .step = 0.5, .eval = 2, .save = 3, .best = 0.25, .finish = 7 };
    const rt_settings every[] = { { .eval_every = { 5, true }, .save_every = { 10, true } },
                                  { .eval_every = { 10, false }, .save_every = { 25, false } },
                                  { .eval_every = { 1, false }, .save_every = { 100, true } } };
    for (int i = 0; i < 3; i++)
        for (double t = 13; t < 5000; t *= 1.3) {
            uint64_t n = rt_pace_steps(&p, t, &every[i]);
            if (n) assert_true(rt_pace_total(&p, 0, n, &every[i]) <= t);
            assert_true(rt_pace_total(&p, 0, n + 1, &every[i]) > t);
        }
    assert_int_equal(rt_pace_steps(&p, 5, &every[0]), 0); /* not even one */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_cover_the_batch),
        cmocka_unit_test(the_teacher_reads_ahead_where_that_fits),
        cmocka_unit_test(weights_are_expanded_where_that_fits_beside_the_rest),
        cmocka_unit_test(weights_that_were_asked_for_stay),
        cmocka_unit_test(what_is_wanted_is_taken_where_it_fits),
        cmocka_unit_test(fewer_rows_come_before_recomputing),
        cmocka_unit_test(the_largest_that_fits_is_found),
        cmocka_unit_test(what_the_user_said_stays),
        cmocka_unit_test(what_cannot_fit_is_told_what_would),
        cmocka_unit_test(faults_of_a_seal_come_through),
        cmocka_unit_test(a_margin_stays_free),
        cmocka_unit_test(durations),
        cmocka_unit_test(a_run_is_the_sum_of_its_parts),
        cmocka_unit_test(steps_fill_a_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
