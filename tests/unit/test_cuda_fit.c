/* test_cuda_fit.c - fitting pairs of published shapes into the memory of a GPU, over the stand-in driver: what a card
 * of 24 GB takes, a teacher that is larger than the card, what each limit costs. Seconds of planning on one thread: no
 * run is made. */
#include "run_case.h"
#include "standin_case.h"

#include "job/prepare/fit.h"

static int set_up(void **state)
{
    (void)state;
    *s = (standin){ STANDIN_MACHINE, .clean = 1 };
    return 0;
}

typedef struct pair_of {
    rt_dev *dev;
    rt_model_config teacher, student;
    rt_dtype *dtypes[RT_WEIGHTS_KINDS];
    rt_dtype moments; /* of AdamW */
    rt_fp8 fp8;
    uint32_t batch;
    bool plain;    /* the teacher is stored in bf16 */
    uint64_t host; /* that the machine has to give to a teacher beside the device; 0: it stays on it */
} pair_of;

static int need_of(void *ctx, const rt_fit_config *c, rt_fit_need *out, rt_err *e)
{
    const pair_of *p = ctx;
    rt_step_opts o = step_options(&p->student, &p->teacher, c->micro_batch, c->seq_len);
    o.accumulate = c->micro_batch < p->batch;
    o.ahead = c->ahead;
    o.chunk = c->head_chunk;
    o.recompute = c->recompute;
    o.vmask = p->teacher.vocab != p->student.vocab;
    o.policy = *rt_device_policy(p->dev);
    o.teacher_dtypes = p->dtypes[c->weights];
    o.teacher_coded = rt_weights_coded(&p->teacher, c->weights);
    if (p->moments) o.moments = p->moments;
    o.teacher_home = rt_teacher_memory_class(c->memory);
    if (c->lora_rank) o.lora = (rt_lora){ .rank = c->lora_rank, .alpha = 1, .roles = RT_LORA_ROLES };
    return rt_fit_need_of(p->dev, &o, (p->batch - 1) / c->micro_batch + 1, out, e);
}

/* Shapes of Qwen2.5. */
static rt_model_config shape(uint32_t layers, uint32_t width, uint32_t hidden, uint32_t heads, uint32_t kv, bool tied)
{
    rt_model_config c = { 0 };
    rt_preset_fill(rt_preset_find("tiny-qwen2"), &c);
    c.layers = layers;
    c.width = width;
    c.hidden = hidden;
    c.heads = heads;
    c.kv_heads = kv;
    c.head_dim = width / heads;
    c.vocab = tied ? 151936 : 152064;
    c.tied = tied;
    c.context = 32768;
    return c;
}

static rt_fit fit_pair(pair_of *p, uint32_t batch, uint32_t T, uint64_t limit)
{
    rt_err e = { 0 };
    rt_fit f;
    uint64_t dims[2];
    rt_role role;
    uint32_t layer, n = rt_param_count(&p->teacher);
    p->batch = batch;
    for (int w = 0; w < RT_WEIGHTS_KINDS; w++) p->dtypes[w] = rt_alloc(n * sizeof **p->dtypes, 16);
    rt_dtype *stored = p->dtypes[RT_WEIGHTS_NATIVE];
    for (uint32_t i = 0; i < n; i++) {
        assert_true(rt_param_at(&p->teacher, i, &role, &layer));
        bool matrix = rt_role_shape(&p->teacher, role, dims) == 2, finer = role == RT_ROLE_V || role == RT_ROLE_DOWN;
        stored[i] = p->plain             ? RT_DTYPE_BF16
                    : !matrix            ? RT_DTYPE_F32
                    : finer && layer % 2 ? RT_DTYPE_Q6_K
                                         : RT_DTYPE_Q4_K;
    }
    for (int w = 1; w < RT_WEIGHTS_KINDS; w++)
        rt_weights_dtypes(p->dtypes[w], stored, &p->teacher, (rt_teacher_weights)w);
    uint32_t rows = 8192 / T;
    rt_fit_ask ask = { .wanted = { .micro_batch = rt_fit_rows(batch, rows), .seq_len = T },
                       .batch = batch,
                       .micro_free = true,
                       .recompute_free = true,
                       .lora_free = true,
                       .teacher = true,
                       .teacher_rows = rows,
                       .weights_free = true,
                       .weights_differ = !p->plain,
                       .fp8 = p->fp8,
                       .memory_free = p->host > 0,
                       .rows_free = p->host > 0,
                       .host_limit = p->host,
                       .limit = limit,
                       .limit_is = RT_FIT_GIVEN };
    if (rt_fit_choose(&f, &ask, need_of, p, &e) < 0) fail_msg("%s", e.text);
    for (int w = 0; w < RT_WEIGHTS_KINDS; w++) rt_free(p->dtypes[w]);
    return f;
}

static void what_fits_a_card_of_24_gb(void **state)
{
    rt_err e = { 0 };
    rt_str text = { 0 };
    const uint64_t GiB = 1ull << 30;
    (void)state;
    s->memory = 141 * GiB;
    s->lt_refuses = 1; /* products of this size are not tried on scratch: the stand-in's memory is the host's */
    pair_of p = { .teacher = shape(28, 3584, 18944, 28, 4, false), .student = shape(24, 896, 4864, 14, 2, true) };
    if (rt_device_open(&p.dev, "cuda", &(rt_dev_opts){ 0 }, NULL, &e) < 0) fail_msg("%s", e.text);
    uint64_t used = s->used;
    rt_fit f = fit_pair(&p, 32, 2048, 22 * GiB); /* 7B Q4_K to 0.5B runs */
    assert_true(f.fits && f.need <= 22 * GiB);
    assert_int_equal(f.weights.why, RT_WEIGHTS_NO_ROOM);
    f = fit_pair(&p, 16, 512, 100 * GiB); /* and where there is room its matrices are expanded once */
    assert_true(f.fits && f.weights.why == RT_WEIGHTS_GAIN);
    assert_true(f.weights.facts.bf16 - f.weights.facts.native > 8 * GiB);
    p.student = shape(28, 1536, 8960, 12, 2, true);
    f = fit_pair(&p, 32, 2048, 22 * GiB); /* 7B to 1.5B in full cannot */
    assert_false(f.fits);
    assert_true(f.need > 22 * GiB && f.nearest_count > 0);
    rt_fit_chosen(&text, &f);
    assert_string_equal(text.data, "--micro-batch 1 --recompute block"); /* not even so */
    rt_str_free(&text);
    rt_fit_offers(&text, &f);
    print_message("7B to 1.5B needs %.1f GiB; under 22 GiB: %s\n", (double)f.need / (double)GiB, text.data);
    assert_memory_equal(text.data, "--lora (", 8); /* a flag that can be copied */
    assert_true(f.nearest[0].lora_rank == 32 && f.nearest_need[0] <= 22 * GiB);
    rt_str_free(&text);
    assert_int_equal(s->used, used); /* nothing was allocated to know it */
    p.dev->api->close(p.dev);
    assert_int_equal(s->live, 0);
}

/* 7B Q4_K to 0.5B, 16 rows of 512: quantised to fp8 once where there is room, else at every use, which takes no more
 * than a packed teacher does. */
static void a_packed_teacher_is_quantised_where_it_stands(void **state)
{
    rt_err e = { 0 };
    const uint64_t GiB = 1ull << 30;
    (void)state;
    s->memory = 141 * GiB;
    s->lt_refuses = 1;
    pair_of p = { .teacher = shape(28, 3584, 18944, 28, 4, false),
                  .student = shape(24, 896, 4864, 14, 2, true),
                  .moments = RT_DTYPE_BF16 };
    if (rt_device_open(&p.dev, "cuda", &(rt_dev_opts){ 0 }, NULL, &e) < 0) fail_msg("%s", e.text);
    rt_fit native = fit_pair(&p, 16, 512, 14 * GiB);
    assert_true(native.fits && native.chosen.weights == RT_WEIGHTS_NATIVE);
    p.fp8.state = RT_FP8_LATER;
    rt_fit wide = fit_pair(&p, 16, 512, 24 * GiB), small = fit_pair(&p, 16, 512, 14 * GiB);
    assert_true(wide.fits && wide.chosen.weights == RT_WEIGHTS_FP8 && wide.slower == 0);
    assert_true(small.fits && small.need <= 14 * GiB && small.chosen.weights == RT_WEIGHTS_FP8_NATIVE);
    assert_int_equal(small.weights.why, RT_WEIGHTS_FASTER);
    assert_true(small.chosen.micro_batch == 16 && small.chosen.memory == RT_TEACHER_DEVICE);
    assert_true(rt_recompute_same(&small.chosen.recompute, &native.chosen.recompute));
    print_message("7B Q4_K to 0.5B under 14 GiB: %.2f of the time of a native teacher; with room for fp8 once, %.2f\n",
                  small.work / native.work, wide.work / native.work);
    assert_true(small.work < 0.85 * native.work && wide.work < small.work);
    p.dev->api->close(p.dev);
}

/* What a teacher that is larger than the card does not need of it. */
static void a_teacher_larger_than_the_card_is_streamed(void **state)
{
    rt_err e = { 0 };
    rt_str text = { 0 };
    const uint64_t GiB = 1ull << 30;
    (void)state;
    s->memory = 141 * GiB;
    s->lt_refuses = 1;
    pair_of p = { .student = shape(24, 896, 4864, 14, 2, true), .host = 64 * GiB };
    rt_preset_fill(rt_preset_find("qwen2.5-32b"), &p.teacher);
    if (rt_device_open(&p.dev, "cuda", &(rt_dev_opts){ 0 }, NULL, &e) < 0) fail_msg("%s", e.text);
    rt_fit f = fit_pair(&p, 16, 512, 24 * GiB);
    assert_true(f.fits && f.need <= 24 * GiB);
    assert_int_equal(f.chosen.memory, RT_TEACHER_HOST);
    assert_int_equal(f.memory.why, RT_MEMORY_NO_ROOM);
    assert_int_equal(f.chosen.weights, RT_WEIGHTS_NATIVE);
    rt_memory_say(&text, &f.memory);
    uint32_t rows = f.chosen.micro_batch * (f.chosen.ahead ? f.chosen.ahead : 1);
    print_message("32B Q4_K to 0.5B, 16 x 512 under 24 GiB: %.1f GiB, %.1f GiB on the host, %u rows of the teacher at "
                  "once, %.1f %% hidden; %s\n",
                  (double)f.need / (double)GiB, (double)f.memory.host / (double)GiB, rows, 100 * f.hidden, text.data);
    assert_true(rows == 16 && f.hidden > 0.9 && f.hidden < 1); /* all but the first layer */
    assert_non_null(strstr(text.data, "in the host's memory: on the device the run would take at least 2"));
    rt_str_free(&text);
    f = fit_pair(&p, 2, 512, 24 * GiB); /* a pass of 1,024 positions hides less, as 54 GB/s have it */
    assert_true(f.fits && f.hidden > 0.1 && f.hidden < 0.5);
    p.host = 4 * GiB; /* a host that is smaller still */
    f = fit_pair(&p, 16, 512, 24 * GiB);
    assert_true(f.fits && f.chosen.memory == RT_TEACHER_DISK && f.memory.why == RT_MEMORY_NO_HOST);
    p.host = 0; /* the negative control: without it there is no such run */
    f = fit_pair(&p, 16, 512, 24 * GiB);
    assert_false(f.fits);
    p.host = 64 * GiB;
    rt_preset_fill(rt_preset_find("qwen2.5-7b"), &p.teacher); /* 12 GiB are too few for 7B beside the student too */
    f = fit_pair(&p, 16, 512, 12 * GiB);
    assert_true(f.fits && f.need <= 12 * GiB && f.chosen.memory == RT_TEACHER_HOST);
    print_message(
        "7B Q4_K to 0.5B, 16 x 512 under 12 GiB: %.1f GiB, %.1f GiB on the host, %u rows at a time, %u of the "
        "teacher, %.1f %% hidden\n",
        (double)f.need / (double)GiB, (double)f.memory.host / (double)GiB, f.chosen.micro_batch,
        f.chosen.micro_batch * (f.chosen.ahead ? f.chosen.ahead : 1), 100 * f.hidden);
    f = fit_pair(&p, 16, 512, 100 * GiB);
    assert_true(f.fits && f.chosen.memory == RT_TEACHER_DEVICE && f.memory.why == RT_MEMORY_FITS);
    p.dev->api->close(p.dev);
    assert_int_equal(s->live, 0);
}

/* An evaluation beside it is away from the card too; where the host has no room either, on disk. */
static void an_evaluation_streams_its_teacher(void **state)
{
    rt_err e = { 0 };
    rt_memory_choice memory;
    rt_weights_choice weights;
    pair_of p = { .student = shape(24, 896, 4864, 14, 2, true), .teacher = shape(24, 896, 4864, 14, 2, true) };
    (void)state;
    s->memory = 16ull << 30;
    s->lt_refuses = 1;
    if (rt_device_open(&p.dev, "cuda", &(rt_dev_opts){ 0 }, NULL, &e) < 0) fail_msg("%s", e.text);
    for (int large = 0; large < 2; large++) {
        if (large) rt_preset_fill(rt_preset_find("qwen2.5-32b"), &p.teacher);
        uint32_t n = rt_param_count(&p.teacher);
        rt_dtype *stored = rt_alloc(n * sizeof *stored, 16);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t dims[2];
            rt_role role;
            uint32_t layer;
            assert_true(rt_param_at(&p.teacher, i, &role, &layer));
            bool packs = rt_role_shape(&p.teacher, role, dims) == 2 && dims[1] % 256 == 0;
            stored[i] = packs ? RT_DTYPE_Q4_K : RT_DTYPE_F32;
        }
        rt_step_opts o = step_options(&p.student, &p.teacher, 4, 512);
        o.eval_only = true;
        o.vmask = large;
        o.policy = *rt_device_policy(p.dev);
        o.teacher_dtypes = stored;
        if (rt_fit_evaluation(p.dev, &o, RT_WEIGHTS_NATIVE, stored, &weights, &e) < 0) fail_msg("%s", e.text);
        if (rt_fit_evaluation_memory(p.dev, &o, true, &memory, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(memory.memory != RT_TEACHER_DEVICE, large);
        assert_int_equal(o.teacher_home, rt_teacher_memory_class(memory.memory));
        assert_true(large ? memory.why == RT_MEMORY_NO_ROOM || memory.why == RT_MEMORY_NO_HOST
                          : memory.why == RT_MEMORY_FITS);
        assert_true(large ? memory.host > 16ull << 30 : memory.host == 0); /* which the note names */
        rt_free(stored);
    }
    p.dev->api->close(p.dev);
    assert_int_equal(s->live, 0);
}

/* 1.5B to 0.5B, 16 rows of 512, from all that is wanted down to the least: what each limit takes and costs. */
static void what_a_limit_costs(void **state)
{
    rt_err e = { 0 };
    const uint64_t GiB = 1ull << 30;
    char text[RT_RECOMPUTE_TEXT];
    double before = 0;
    (void)state;
    s->memory = 141 * GiB;
    s->lt_refuses = 1;
    pair_of p = { .teacher = shape(28, 1536, 8960, 12, 2, true),
                  .student = shape(24, 896, 4864, 14, 2, true),
                  .plain = true };
    if (rt_device_open(&p.dev, "cuda", &(rt_dev_opts){ 0 }, NULL, &e) < 0) fail_msg("%s", e.text);
    rt_fit f = fit_pair(&p, 16, 512, 100 * GiB);
    uint64_t most = f.need, limit = most;
    uint32_t mixes = 0;
    assert_true(f.slower == 0 && f.chosen.micro_batch == 16);
    for (f.fits = true; f.fits; limit -= most / 20) {
        f = fit_pair(&p, 16, 512, limit);
        print_message("%5.2f GiB: %5.2f GiB, %2u rows, %s, %.1f %% more\n", (double)limit / (double)GiB,
                      (double)f.need / (double)GiB, f.chosen.micro_batch, rt_recompute_text(text, &f.chosen.recompute),
                      100 * f.slower);
        assert_true(!f.fits || (f.need <= limit && f.slower >= before));
        before = f.slower;
        mixes += f.fits && strchr(text, ':');
    }
    assert_true(mixes > 0 && limit < most * 3 / 4);
    p.dev->api->close(p.dev);
}

int main(void)
{
#define C(f) cmocka_unit_test_setup(f, set_up)
    const struct CMUnitTest tests[] = {
        C(what_fits_a_card_of_24_gb),
        C(a_packed_teacher_is_quantised_where_it_stands),
        C(a_teacher_larger_than_the_card_is_streamed),
        C(an_evaluation_streams_its_teacher),
        C(what_a_limit_costs),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
