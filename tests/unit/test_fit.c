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

/* 1,000 bytes of weights (400 with adapters, 600 more where the teacher's are dequantised), 2 for every position, of
 * which 8 layers have an equal part and can spare a 16th (norms), a quarter (mlp) or half (block) of it, 4 a position
 * of the head at a time. 100 of work a position, of which recomputing adds 1, 8 or 30 %, and `begin` for every
 * micro-batch. With its layers away from the device the teacher takes 500 bytes less of it. What is recomputed in any
 * case may be kept, for 100 bytes; packed weights that are quantised to fp8 at every use take none. */
enum { LAYERS = 8, AWAY = 500, TRANSFER = 4000 };
static uint32_t asked;
static double begin;
static const uint32_t kept64[] = { 16, 15, 12, 8 }, work_more[] = { 0, 1, 8, 30 };
static uint64_t spared = 50;      /* by dequantising once */
static int64_t coded_bytes = 300; /* of fp8 beside native */
static double coded_work = 0.8;   /* share of the time that is left with fp8 */
static double used_work = 1;      /* the same with fp8 made at every use, */
static double keep_work = 1;      /* and with norms and activations kept */
static int formula(void *ctx, const rt_fit_config *c, rt_fit_need *out, rt_err *e)
{
    uint64_t positions = (uint64_t)c->micro_batch * c->seq_len, chunk = c->head_chunk ? c->head_chunk : 100;
    (void)e;
    asked++;
    if (ctx && ++*(int *)ctx > 3) return rt_fail(e, RT_UNSUPPORTED, "asked too often");
    bool wide = c->weights == RT_WEIGHTS_BF16, coded = c->weights == RT_WEIGHTS_FP8;
    bool used = c->weights == RT_WEIGHTS_FP8_NATIVE;
    *out = (rt_fit_need){ .dequant = wide ? 50 : 50 + spared };
    rt_recompute level[LAYERS];
    uint64_t kept = 0, work = 0;
    rt_recompute_levels(&c->recompute, 0, LAYERS, level);
    for (int i = 0; i < LAYERS; i++) {
        int r = level[i] == RT_RECOMPUTE_NOTHING ? RT_RECOMPUTE_NONE : (int)level[i];
        kept += kept64[r], work += work_more[r];
    }
    out->layers = LAYERS;
    out->work = ((31 + c->micro_batch) / c->micro_batch) * (begin + positions * (100.0 + work / 8.0));
    out->bytes = (c->lora_rank ? 400 : 1000) + positions * kept / 64 + 4 * chunk;
    out->bytes += (c->ahead > 1 ? c->ahead * positions : 0) + (wide ? 600 : coded ? coded_bytes : 0);
    if (coded) out->work *= coded_work;
    if (used) out->work *= used_work;
    if (c->recompute.keep) out->work *= keep_work;
    if (c->recompute.keep) out->bytes += 100;
    if (c->memory == RT_TEACHER_DEVICE) return RT_OK;
    out->bytes -= AWAY; /* and every pass of the teacher takes a transfer that hides the more the more rows it has */
    out->work += TRANSFER / (c->ahead > 1 ? c->ahead : 1);
    if (c->memory == RT_TEACHER_HOST) out->host = AWAY + (coded ? 100 : 0);
    return RT_OK;
}

static const char *said(const rt_fit *f)
{
    static char text[RT_RECOMPUTE_TEXT];
    return rt_recompute_text(text, &f->chosen.recompute);
}

static rt_fit fitted(uint64_t limit, const rt_fit_ask *base)
{
    rt_err e = { 0 };
    rt_fit f;
    rt_fit_ask ask = *base;
    ask.limit = limit;
    asked = 0;
    assert_int_equal(rt_fit_choose(&f, &ask, formula, NULL, &e), RT_OK);
    assert_true(asked < (ask.memory_free ? 400 : 150)); /* a dry seal takes a moment */
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

/* fp8 is a run of its own: what it spares is spent on rows, and what it takes is weighed against its time. */
static void fp8_is_weighed_against_the_rest(void **state)
{
    static const rt_fp8 near = { RT_FP8_MEASURED, 0.03, 1, 100 }, far = { RT_FP8_MEASURED, 0.2, 1, 100 },
                        later = { .state = RT_FP8_LATER };
    static const struct {
        const rt_fp8 *fp8;
        uint64_t limit;
        int64_t bytes; /* of fp8 */
        double work;
        rt_weights_why why;
        uint32_t micro;
    } table[] = {
        { &near, 100000, 300, 0.8, RT_WEIGHTS_FASTER, 8 },
        { &later, 100000, 300, 0.8, RT_WEIGHTS_FASTER, 8 }, /* a plan */
        { &far, 100000, 300, 0.8, RT_WEIGHTS_GAIN, 8 },
        { &near, 100000, 300, 1.0, RT_WEIGHTS_GAIN, 8 }, /* no faster */
        { &near, 3448 + 300, 300, 0.8, RT_WEIGHTS_FASTER, 8 },
        { &near, 3448, 300, 0.8, RT_WEIGHTS_FASTER, 4 },        /* half the rows cost nothing here, */
        { &near, 1528, 300, 0.8, RT_WEIGHTS_NO_ROOM, 1 },       /* but there it does not fit at all */
        { &near, 3448 - 200, -200, 0.8, RT_WEIGHTS_FASTER, 8 }, /* a teacher of bf16: fp8 makes room */
        { &near, 1528 - 100, -200, 1.5, RT_WEIGHTS_FASTER, 1 }, /* and with fp8 alone it fits */
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rt_fit_ask ask = free_ask;
        ask.teacher = ask.weights_free = ask.weights_differ = true;
        ask.fp8 = *table[i].fp8;
        coded_bytes = table[i].bytes;
        coded_work = table[i].work;
        rt_fit f = fitted(table[i].limit, &ask);
        if (!f.fits || f.weights.why != table[i].why || f.chosen.micro_batch != table[i].micro)
            fail_msg("%zu: fits %d, why %d, %u rows", i, f.fits, f.weights.why, f.chosen.micro_batch);
        bool coded = table[i].why == RT_WEIGHTS_FASTER;
        assert_int_equal(f.chosen.weights == RT_WEIGHTS_FP8, coded);
        assert_int_equal(f.weights.weights, f.chosen.weights);
        assert_int_equal(f.weights.fp8.state, table[i].fp8->state); /* the figures are said either way */
        assert_true(f.need <= table[i].limit && f.ask.weights_free);
        rt_str text = { 0 };
        rt_fit_chosen(&text, &f);
        if (text.len && strstr(text.data, "--teacher-weights")) fail_msg("%s", text.data);
        rt_str_free(&text);
    }
    coded_bytes = 300;
    coded_work = 0.8;
    rt_fit_ask ask = free_ask; /* what was asked for is no question */
    ask.teacher = ask.weights_differ = true;
    ask.fp8 = near;
    assert_int_equal(fitted(100000, &ask).weights.why, RT_WEIGHTS_ASKED);
}

/* Where it does not fit when it is quantised once, a packed teacher is at every use. */
static void packed_weights_are_quantised_at_every_use(void **state)
{
    (void)state;
    rt_fit_ask ask = free_ask;
    rt_str text = { 0 };
    ask.teacher = ask.weights_free = ask.weights_differ = true;
    ask.fp8 = (rt_fp8){ .state = RT_FP8_LATER };
    coded_bytes = 3000;
    used_work = 0.81;
    rt_fit f = fitted(100000, &ask);
    assert_int_equal(f.chosen.weights, RT_WEIGHTS_FP8);
    f = fitted(3448, &ask);
    assert_true(f.fits && f.chosen.weights == RT_WEIGHTS_FP8_NATIVE && f.weights.weights == RT_WEIGHTS_FP8_NATIVE);
    assert_true(f.weights.why == RT_WEIGHTS_FASTER && f.chosen.micro_batch == 8 && f.need <= 3448);
    rt_weights_say(&text, &f.weights);
    assert_non_null(strstr(text.data, "stay as they are stored, and are quantised to fp8 at every use"));
    rt_str_free(&text);
    ask.weights_differ = false; /* nothing is packed: fp8 makes it smaller, and that is all */
    f = fitted(3448, &ask);
    assert_true(f.fits && f.chosen.weights == RT_WEIGHTS_NATIVE);
    coded_bytes = 300;
    used_work = 1;
}

/* Norms and activations are kept where all else is and a 200th of the time is spared; it is not said, for it is no
 * sacrifice. */
static void norms_are_kept_where_it_pays(void **state)
{
    (void)state;
    rt_str text = { 0 };
    rt_fit plain = fitted(100000, &free_ask);
    keep_work = 0.99;
    rt_fit f = fitted(100000, &free_ask);
    assert_true(f.chosen.recompute.keep && f.need == plain.need + 100 && f.slower == 0 && f.again == 0);
    assert_string_equal(said(&f), "keep");
    rt_fit_chosen(&text, &f);
    assert_int_equal(text.len, 0);
    assert_false(fitted(plain.need + 99, &free_ask).chosen.recompute.keep); /* it does not fit */
    assert_true(fitted(plain.need + 100, &free_ask).chosen.recompute.keep);
    f = fitted(plain.need - 1, &free_ask); /* others are recomputed, or rows fewer */
    assert_true(f.fits && (!f.chosen.recompute.keep || f.chosen.micro_batch < 8));
    rt_fit_ask ask = free_ask;
    ask.recompute_free = false;
    assert_false(fitted(100000, &ask).chosen.recompute.keep);
    keep_work = 0.996;
    assert_false(fitted(100000, &free_ask).chosen.recompute.keep);
    keep_work = 1;
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

/* Beside the device where nothing fits on it: in the host's memory, else on disk, and nothing is said of it else. */
static void layers_are_away_where_nothing_else_fits(void **state)
{
    static const struct {
        uint64_t limit, host_limit;
        bool host; /* the device's memory is the host's */
        bool fits;
        rt_teacher_memory memory;
        rt_memory_why why;
        const char *said;
    } table[] = {
        { 100000, 100000, false, true, RT_TEACHER_DEVICE, RT_MEMORY_FITS, NULL },
        { 1528, 100000, false, true, RT_TEACHER_DEVICE, RT_MEMORY_FITS, NULL }, /* one row, recomputed, but it fits */
        { 1527, 100000, false, true, RT_TEACHER_HOST, RT_MEMORY_NO_ROOM,
          "the teacher's layers are in the host's memory: on the device the run would take at least 1.49 KiB, and the "
          "limit is 1.49 KiB" },
        { 1028, AWAY, false, true, RT_TEACHER_HOST, RT_MEMORY_NO_ROOM, NULL },
        { 1028, AWAY - 1, false, true, RT_TEACHER_DISK, RT_MEMORY_NO_HOST,
          "the teacher's layers are on disk: on the device the run would take at least 1.49 KiB, and the limit is 1.00 "
          "KiB; in host memory they would take 500 B, and 499 B is available" },
        { 1527, 0, true, true, RT_TEACHER_DISK, RT_MEMORY_NO_HOST,
          "the teacher's layers are on disk: on the device the run would take at least 1.49 KiB, and the limit is 1.49 "
          "KiB" },
        { 1027, 100000, false, false, RT_TEACHER_DEVICE, RT_MEMORY_FITS, NULL }, /* not even so */
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rt_str text = { 0 };
        rt_fit_ask ask = free_ask;
        ask.teacher = ask.weights_free = ask.memory_free = ask.rows_free = true;
        ask.host = table[i].host;
        ask.host_limit = table[i].host_limit;
        rt_fit f = fitted(table[i].limit, &ask);
        if (f.fits != table[i].fits || f.chosen.memory != table[i].memory || f.memory.why != table[i].why)
            fail_msg("%zu: fits %d, memory %d, why %d", i, f.fits, f.chosen.memory, f.memory.why);
        assert_int_equal(f.memory.memory, f.chosen.memory);
        assert_true(!f.fits || f.need <= table[i].limit);
        rt_memory_say(&text, &f.memory);
        if (table[i].said) assert_string_equal(text.data, table[i].said);
        assert_true((text.len > 0) == (f.chosen.memory != RT_TEACHER_DEVICE));
        rt_str_free(&text);
        if (f.chosen.memory == RT_TEACHER_DEVICE) continue;
        assert_true(f.chosen.weights == RT_WEIGHTS_NATIVE && f.weights.why == RT_WEIGHTS_AWAY);
        assert_true(f.wanted_need > table[i].limit); /* of what was wanted, on the device */
        rt_fit_chosen(&text, &f);
        const char *name = f.chosen.memory == RT_TEACHER_HOST ? "--teacher-memory host" : "--teacher-memory disk";
        assert_non_null(strstr(text.data, name));
        rt_str_free(&text);
    }
}

/* Away from the device as many rows at once as fit; where their number was said, no more. */
static void a_teacher_that_is_away_reads_many_rows(void **state)
{
    (void)state;
    rt_fit_ask ask = free_ask;
    ask.teacher = ask.rows_free = true;
    ask.wanted.memory = RT_TEACHER_HOST;
    ask.host_limit = AWAY;
    ask.teacher_rows = 8; /* what the device wants */
    assert_int_equal(fitted(100000, &ask).chosen.ahead, 4);
    assert_int_equal(fitted(100000, &ask).memory.why, RT_MEMORY_ASKED);
    ask.rows_free = false;
    assert_int_equal(fitted(100000, &ask).chosen.ahead, 0);
    ask.wanted.memory = RT_TEACHER_DEVICE;
    ask.rows_free = true;
    assert_int_equal(fitted(100000, &ask).chosen.ahead, 0);
    ask.wanted.memory = RT_TEACHER_HOST; /* and what was asked for stays, whether it fits or not */
    ask.host_limit = AWAY - 1;
    rt_fit f = fitted(100000, &ask);
    assert_true(!f.fits && f.chosen.memory == RT_TEACHER_HOST);
    assert_true(f.host == AWAY && rt_fit_lacks_host(&f)); /* which is not the device's fault */
    f = fitted(1000, &ask);
    assert_true(!f.fits && !rt_fit_lacks_host(&f));
}

/* From disk weights come as they are stored. */
static void what_is_read_from_disk_is_not_converted(void **state)
{
    (void)state;
    rt_fit_ask ask = free_ask;
    ask.teacher = ask.weights_differ = ask.memory_free = true;
    ask.wanted.weights = RT_WEIGHTS_BF16;
    assert_false(fitted(1528 + 600 - AWAY, &ask).fits); /* not in the host's memory, which has none, and not on disk */
    ask.host_limit = AWAY;
    assert_int_equal(fitted(1528 + 600 - AWAY, &ask).chosen.memory, RT_TEACHER_HOST);
    ask.wanted.weights = RT_WEIGHTS_NATIVE;
    ask.weights_free = true;
    ask.host_limit = 0;
    rt_fit f = fitted(1527, &ask); /* bf16 would spare a step something, and would fit: it is not taken */
    assert_true(f.fits && f.chosen.memory == RT_TEACHER_DISK && f.chosen.weights == RT_WEIGHTS_NATIVE);
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
    assert_true(f.slower == 0 && f.again == 0);
    assert_string_equal(said(&f), "none");
    f = fitted(need - 1, &free_ask); /* one byte less */
    assert_true(f.fits && f.need < need && f.wanted_need == need);
    assert_int_equal(f.chosen.micro_batch, 4); /* 5 x 7 rows would be three for nothing */
}

static void rows_and_recomputing_are_weighed_by_time(void **state)
{
    static const struct {
        double begin; /* of a micro-batch */
        uint64_t limit;
        uint32_t rows;
        const char *recompute;
    } table[] = {
        { 0, 1400 + 4 * 256, 4, "none" }, /* fewer rows cost nothing: they come first */
        { 0, 1400 + 1 * 256, 1, "none" },
        { 0, 1400 + 1 * 256 - 1, 1, "norms:1" }, /* the last without, the first with */
        { 0, 1400 + 242, 1, "norms:7" },         /* the last layer last of all */
        { 0, 1400 + 192, 1, "block:1,mlp:6" },
        { 0, 1400 + 128, 1, "block" },
        { 1e6, 1400 + 8 * 256 - 1, 8, "norms:1" }, /* they cost a lot: never fewer than must be */
        { 1e6, 1400 + 8 * 192, 8, "block:1,mlp:6" },
        { 1e6, 1400 + 8 * 128, 8, "block" },
        { 1e6, 1400 + 8 * 128 - 1, 4, "norms:1" }, /* twice the micro-batches, and nearly all is kept again */
        { 5000, 1400 + 8 * 256 - 1, 8, "norms:1" },
        { 5000, 1400 + 8 * 192, 4, "none" }, /* 4 x 5,000 more, where MLPs of seven layers take 4 x 7,168 */
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        begin = table[i].begin;
        rt_fit f = fitted(table[i].limit, &free_ask);
        assert_true(f.fits && f.need <= table[i].limit);
        if (f.chosen.micro_batch != table[i].rows || strcmp(said(&f), table[i].recompute) != 0)
            fail_msg("case %zu: %u rows, %s", i, f.chosen.micro_batch, said(&f));
        assert_true(f.chosen.seq_len == 128 && f.chosen.lora_rank == 0 && f.chosen.head_chunk == 0);
    }
    begin = 0;
}

/* Rows and counts of every level, all of them: the least work that fits. */
static double least_work(uint64_t limit)
{
    double best = INFINITY;
    for (uint32_t rows = 8; rows; rows--) {
        if (rt_fit_rows(32, rows) != rows) continue;
        for (uint32_t at = 0; at < 9 * 9 * 9; at++) {
            rt_fit_config c = { .micro_batch = rows, .seq_len = 128 };
            rt_fit_need n;
            c.recompute.count[RT_RECOMPUTE_NORMS] = at % 9;
            c.recompute.count[RT_RECOMPUTE_MLP] = at / 9 % 9;
            c.recompute.count[RT_RECOMPUTE_BLOCK] = at / 81;
            if (rt_recompute_named(&c.recompute) > LAYERS) continue;
            formula(NULL, &c, &n, NULL);
            if (n.bytes <= limit && n.work < best) best = n.work;
        }
    }
    return best;
}

/* Every limit at once: what is chosen fits, is within a layer of the best of all there are, and more memory is never
 * slower. */
static void more_memory_is_never_slower(void **state)
{
    static const double begins[] = { 0, 2000, 20000 };
    double block = (100 + 30) / 100.0 - 1, layer = 0.30 / 8;
    (void)state;
    for (int i = 0; i < 3; i++) {
        double before = INFINITY, kept = 4 * (begins[i] + 8 * 128 * 100.0);
        for (uint64_t limit = 1528; limit < 3500; limit += 13) {
            begin = begins[i];
            rt_fit f = fitted(limit, &free_ask);
            assert_true(f.fits && f.need <= limit);
            double best = least_work(limit) / kept - 1;
            if (f.slower > before || f.slower > best + layer || f.slower < best - 1e-12)
                fail_msg("%llu bytes, begin %g: %g, before %g, the best %g", (unsigned long long)limit, begin, f.slower,
                         before, best);
            before = f.slower;
            assert_true(f.again <= block + 1e-12);
            assert_true((f.again > 0) == (strcmp(said(&f), "none") != 0));
        }
        assert_true(before == 0);
    }
    begin = 0;
}

static void what_the_user_said_stays(void **state)
{
    (void)state;
    rt_str text = { 0 };
    rt_fit_ask ask = free_ask;
    ask.micro_free = false;
    rt_fit f = fitted(1400 + 8 * 128, &ask);
    assert_true(f.fits && f.chosen.micro_batch == 8 && strcmp(said(&f), "block") == 0);
    f = fitted(1400 + 8 * 128 - 1, &ask);
    assert_false(f.fits);
    assert_int_equal(f.nearest_count, 1); /* the same loss with fewer rows: nothing else is offered */
    assert_true(f.nearest[0].micro_batch < 8 && f.nearest[0].seq_len == 128 && f.nearest_need[0] < 1400 + 8 * 128);
    rt_fit_offers(&text, &f);
    assert_string_equal(text.data, "--micro-batch 2 (1.87 KiB)");
    rt_str_free(&text);
    ask.micro_free = true;
    ask.recompute_free = false;
    f = fitted(1400 + 128 + 1, &ask);
    assert_false(f.fits);
    assert_true(f.chosen.micro_batch == 1 && strcmp(said(&f), "none") == 0);
    assert_true(f.nearest_count == 1 && f.nearest[0].recompute.count[RT_RECOMPUTE_BLOCK] == RT_RECOMPUTE_ALL);
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
    assert_true(f.chosen.micro_batch == 1 && strcmp(said(&f), "block") == 0 && f.need == 1528);
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
        cmocka_unit_test(fp8_is_weighed_against_the_rest),
        cmocka_unit_test(packed_weights_are_quantised_at_every_use),
        cmocka_unit_test(norms_are_kept_where_it_pays),
        cmocka_unit_test(weights_that_were_asked_for_stay),
        cmocka_unit_test(layers_are_away_where_nothing_else_fits),
        cmocka_unit_test(a_teacher_that_is_away_reads_many_rows),
        cmocka_unit_test(what_is_read_from_disk_is_not_converted),
        cmocka_unit_test(what_is_wanted_is_taken_where_it_fits),
        cmocka_unit_test(rows_and_recomputing_are_weighed_by_time),
        cmocka_unit_test(more_memory_is_never_slower),
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
