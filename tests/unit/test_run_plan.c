/* test_run_plan.c - a plan says what its run allocates, to the byte: twelve runs of different kinds are planned, opened
 * on a backend that counts its allocations, and compared. Checkpoints have the size that was planned. A limit one byte
 * below a plan is refused. */
#include "train_case.h"

#include "job/run/run_cost.h"
#include "job/run/run_internal.h"

#include <math.h>

/* ---- a cpu that counts ---- */

static rt_backend counting;
static uint64_t allocated, sealed;
static int (*real_new)(rt_dev *d, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e);
static int (*real_seal)(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e);

static int count_new(rt_dev *d, uint64_t bytes, rt_mem_kind kind, rt_mem **out, rt_err *e)
{
    allocated += bytes;
    return real_new(d, bytes, kind, out, e);
}

static int count_seal(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    sealed++;
    return real_seal(d, ops, nops, out, e);
}

static rt_dev *counting_device(void)
{
    rt_dev *d = open_device("cpu", 1);
    counting = *d->api;
    real_new = counting.mem_new;
    real_seal = counting.seal;
    counting.mem_new = count_new;
    counting.seal = count_seal;
    d->api = &counting;
    allocated = sealed = 0;
    return d;
}

/* ---- models and data ---- */

/* Settings keep what they are given: paths stay. */
static const char *path_of(const char *name)
{
    static char paths[64][160];
    static uint32_t used;
    for (uint32_t i = 0; i < used; i++)
        if (strcmp(rt_path_base(paths[i]), name) == 0) return paths[i];
    assert_true(used < 64);
    snprintf(paths[used], sizeof paths[used], "%s", in_dir(name));
    return paths[used++];
}

static void make_models(void)
{
    static const char *const families[] = { "tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-mistral", "tiny-smollm3" };
    for (uint32_t i = 0; i < 5; i++) {
        rt_model_config c = tiny_config(families[i], i + 1);
        write_model(path_of(families[i] + 5), &c, i == 1 ? RT_DTYPE_BF16 : RT_DTYPE_F32, false);
    }
    rt_model_config deep = tiny_config("tiny-qwen3", 7);
    deep.layers = 6;
    write_model(path_of("deep"), &deep, RT_DTYPE_F32, false);
    rt_model_config c = tiny_config("tiny-llama", 9);
    c.width = 64; /* rows that fill blocks of 32 */
    c.hidden = 96;
    c.tied = false;
    write_model(path_of("teacher"), &c, RT_DTYPE_F32, false);
}

static void make_data(void)
{
    FILE *f = fopen(path_of("d.jsonl"), "w");
    assert_non_null(f);
    for (int i = 0; i < 90; i++)
        fprintf(f, "{\"text\": \"record %d of some words that are all there is to learn, %d\"}\n", i, i * 7919 % 1000);
    fclose(f);
}

static int set_up(void **state)
{
    rt_err e = { 0 };
    if (make_test_dir(state) != 0) return -1;
    make_models();
    pack_model(path_of("teacher"), path_of("q.gguf"), "q8_0");
    make_data();
    return rt_dir_make(path_of("scratch"), &e);
}

typedef struct flags {
    const char *name, *value;
} flags;

static void put(rt_settings *s, const char *name, const char *value)
{
    rt_err e = { 0 };
    if (rt_settings_set(s, rt_setting_find(name), value, &e) < 0) fail_msg("%s", e.text);
}

/* teacher null: none */
static rt_settings settings(const char *teacher, const char *student, const flags *f)
{
    rt_settings s = { 0 };
    if (teacher) put(&s, "teacher", path_of(teacher));
    put(&s, "student", path_of(student));
    put(&s, "data", path_of("d.jsonl"));
    put(&s, "batch", "8");
    put(&s, "seq_len", "32");
    put(&s, "steps", "3");
    put(&s, "threads", "1");
    for (; f && f->name; f++) put(&s, f->name, f->value);
    return s;
}

static rt_run *open_run(rt_settings *s, rt_dev *dev, bool dry, const char *out)
{
    static rt_run_opts o;
    static rt_hub_env env;
    static const rt_run_events none;
    rt_err e = { 0 };
    rt_run *r = NULL;
    o = (rt_run_opts){ .env = &env, .events = &none, .dry = dry, .scratch = path_of("scratch"), .dev = dev };
    if (out) put(s, "out", path_of(out));
    if (rt_run_open(&r, s, &o, &e) < 0) fail_msg("%s", e.text);
    return r;
}

/* ---- the twelve ---- */

static uint64_t folder_bytes(const char *path)
{
    rt_arena a = { 0 };
    rt_err e = { 0 };
    char **names;
    uint32_t count;
    uint64_t sum = 0, one;
    if (rt_dir_list(&names, &count, &a, path, &e) < 0) fail_msg("%s", e.text);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], "state.json") == 0) continue;
        assert_int_equal(rt_file_size(rt_path_join(&a, path, names[i]), &one, &e), RT_OK);
        sum += one;
    }
    rt_arena_free(&a);
    return sum;
}

static void same_costs(const rt_run_cost *a, const rt_run_cost *b)
{
    assert_memory_equal(&a->memory, &b->memory, sizeof a->memory);
    assert_true(a->teacher == b->teacher && a->student == b->student && a->update == b->update);
    assert_true(a->checkpoint == b->checkpoint && a->model == b->model && a->disk == b->disk);
    assert_string_equal(a->peak_program, b->peak_program);
}

/* Plans a run, then opens it: the backend must have been asked for exactly what the plan says. With train, a checkpoint
 * must be as large as planned. */
static void plan_and_run(const char *teacher, const char *student, const flags *f, const char *out, bool train)
{
    rt_err e = { 0 };
    rt_run_cost plan, real;
    rt_dev *dev = counting_device();
    rt_settings s = settings(teacher, student, f), t = s;
    rt_hash128 dry_hash, real_hash;
    rt_run *r = open_run(&s, dev, true, NULL);
    assert_true(allocated == 0 && sealed == 0);
    if (rt_run_cost_new(&plan, r, &e) < 0) fail_msg("%s", e.text);
    assert_true(rt_programs_hash(rt_run_trainer(r), false, &dry_hash, &e) == RT_OK && rt_run_fitted(r)->fits);
    char name[64];
    snprintf(name, sizeof name, "%s", plan.peak_program);
    plan.peak_program = name;
    assert_true(plan.memory.total == rt_run_fitted(r)->need && plan.process > 0);
    rt_run_close(r);
    r = open_run(&t, dev, false, out);
    if (allocated != plan.memory.total)
        fail_msg("%s: %llu bytes were allocated and %llu planned", out, (unsigned long long)allocated,
                 (unsigned long long)plan.memory.total);
    if (rt_run_cost_new(&real, r, &e) < 0) fail_msg("%s", e.text);
    same_costs(&plan, &real);
    assert_int_equal(rt_programs_hash(rt_run_trainer(r), false, &real_hash, &e), RT_OK);
    assert_true(dry_hash.hi == real_hash.hi && dry_hash.lo == real_hash.lo); /* the very programs */
    rt_run_summary summary;
    if (train) {
        if (rt_run_train(r, &summary, &e) < 0) fail_msg("%s", e.text);
        assert_true(allocated == plan.memory.total); /* and nothing since */
        char path[200];
        snprintf(path, sizeof path, "%s/run/checkpoints/checkpoint-000003", path_of(out));
        if (folder_bytes(path) != plan.checkpoint)
            fail_msg("%s: %llu bytes, and %llu were planned", path, (unsigned long long)folder_bytes(path),
                     (unsigned long long)plan.checkpoint);
    }
    rt_run_close(r);
    dev->api->close(dev);
}

static void twelve_runs_allocate_what_was_planned(void **state)
{
    (void)state;
    plan_and_run("teacher", "llama", NULL, "o1", true);
    plan_and_run("q.gguf", "qwen2", NULL, "o2", false);
    plan_and_run("llama", "qwen3", NULL, "o3", false);
    plan_and_run("qwen2", "mistral", NULL, "o4", false);
    plan_and_run("qwen3", "smollm3", NULL, "o5", false);
    plan_and_run("teacher", "llama", (flags[]){ { "lora_rank", "4" }, { 0 } }, "o6", true);
    plan_and_run("teacher", "qwen2", (flags[]){ { "recompute", "block" }, { "micro_batch", "2" }, { 0 } }, "o7", false);
    plan_and_run("teacher", "qwen3", (flags[]){ { "freeze", "model.layers.0.*" }, { 0 } }, "o8", true);
    plan_and_run(NULL, "smollm3", NULL, "o9", true);
    plan_and_run("teacher", "llama", (flags[]){ { "head_chunk", "24" }, { "micro_batch", "3" }, { 0 } }, "o10", false);
    plan_and_run(NULL, "teacher", (flags[]){ { "save_dtype", "bf16" }, { 0 } }, "o11", true); /* a head of its own */
    plan_and_run("teacher", "llama",
                 (flags[]){ { "divergence", "jsd" },
                            { "lora_targets", "q,v" },
                            { "lora_rank", "2" },
                            { "recompute", "mlp:1,block:1" },
                            { "memory_limit", "1GiB" },
                            { 0 } },
                 "o12", false);
}

/* ---- limits ---- */

static int try_run(rt_settings *s, rt_dev *dev, const char *out, rt_run **r, rt_err *e)
{
    static rt_run_opts o;
    static rt_hub_env env;
    o = (rt_run_opts){ .env = &env, .dev = dev };
    put(s, "out", path_of(out));
    return rt_run_open(r, s, &o, e);
}

static uint64_t need_of(const flags *f)
{
    rt_err e = { 0 };
    rt_run_cost cost;
    rt_dev *dev = counting_device();
    rt_settings s = settings("teacher", "llama", f);
    rt_run *r = open_run(&s, dev, true, NULL);
    if (rt_run_cost_new(&cost, r, &e) < 0) fail_msg("%s", e.text);
    rt_run_close(r);
    dev->api->close(dev);
    return cost.memory.total;
}

static void a_limit_is_kept_to_the_byte(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_run *r = NULL;
    char exact[32], below[32];
    /* On the device: a teacher on disk would fit where it does not. */
    const flags fixed[] = { { "micro_batch", "8" }, { "recompute", "none" }, { "teacher_memory", "device" }, { 0 } };
    const flags resident[] = { { "teacher_memory", "device" }, { 0 } };
    uint64_t need = need_of(fixed),
             least = need_of((flags[]){ { "micro_batch", "1" }, { "recompute", "block" }, { 0 } });
    snprintf(exact, sizeof exact, "%llu", (unsigned long long)need);
    snprintf(below, sizeof below, "%llu", (unsigned long long)need - 1);
    rt_dev *dev = counting_device();
    rt_settings s = settings("teacher", "llama", fixed);
    put(&s, "memory_limit", exact);
    if (try_run(&s, dev, "exact", &r, &e) < 0) fail_msg("%s", e.text);
    assert_true(allocated == need);
    rt_run_close(r);
    /* One byte less: what the user fixed is refused, with nothing allocated and nothing left... */
    s = settings("teacher", "llama", fixed);
    put(&s, "memory_limit", below);
    allocated = 0;
    assert_int_equal(try_run(&s, dev, "below", &r, &e), RT_NOMEM);
    assert_non_null(strstr(e.text, "--memory-limit is"));
    assert_non_null(strstr(e.text, "what fits: --recompute "));
    assert_true(allocated == 0 && !rt_path_exists(path_of("below")));
    /* ...and what is free is chosen smaller, and recorded. */
    s = settings("teacher", "llama", NULL);
    put(&s, "memory_limit", below);
    if (try_run(&s, dev, "below", &r, &e) < 0) fail_msg("%s", e.text);
    assert_true(allocated < need && (s.micro_batch < 8 || strcmp(s.recompute, "none") != 0));
    assert_true(s.given[RT_SETTING_ID_micro_batch] && s.given[RT_SETTING_ID_recompute]);
    rt_run_close(r);
    /* Below the least that the loss allows. */
    snprintf(below, sizeof below, "%llu", (unsigned long long)least - 1);
    s = settings("teacher", "llama", resident);
    put(&s, "memory_limit", below);
    allocated = 0;
    assert_int_equal(try_run(&s, dev, "least", &r, &e), RT_NOMEM);
    assert_non_null(strstr(e.text, "even with --micro-batch 1 --recompute block"));
    assert_true(allocated == 0 && !rt_path_exists(path_of("least")));
    dev->api->close(dev);
}

/* ---- what is kept for backward ---- */

/* A dry run of a student of six layers with q/k norms. */
static rt_run_cost plan_deep(const flags *f, uint64_t limit, rt_fit *fit)
{
    char text[32];
    rt_err e = { 0 };
    rt_run_cost cost;
    rt_dev *dev = counting_device();
    rt_settings s = settings("teacher", "deep", f);
    snprintf(text, sizeof text, "%llu", (unsigned long long)limit);
    if (limit) put(&s, "memory_limit", text);
    rt_run *r = open_run(&s, dev, true, NULL);
    if (rt_run_cost_new(&cost, r, &e) < 0) fail_msg("%s", e.text);
    if (fit) *fit = r->fit;
    rt_run_close(r);
    dev->api->close(dev);
    return cost;
}

/* Twenty limits between every block recomputed and nothing: a mix that is sealed to what was planned, within the limit,
 * of fewer FLOPs than every block, and never slower than with less memory. */
static void between_none_and_block_there_is_a_mix(void **state)
{
    const flags none[] = { { "micro_batch", "8" }, { "recompute", "none" }, { 0 } },
                block[] = { { "micro_batch", "8" }, { "recompute", "block" }, { 0 } },
                fixed[] = { { "micro_batch", "8" }, { 0 } };
    rt_run_cost kept = plan_deep(none, 0, NULL), again = plan_deep(block, 0, NULL);
    uint64_t most = kept.memory.total, least = again.memory.total;
    double before[2] = { INFINITY, INFINITY };
    uint32_t mixes = 0;
    (void)state;
    assert_true(least < most && kept.student < again.student);
    for (uint32_t i = 0; i <= 20; i++) {
        uint64_t limit = least + (most - least) * i / 20;
        for (int free = 0; free < 2; free++) {
            rt_fit f;
            char text[RT_RECOMPUTE_TEXT];
            rt_run_cost c = plan_deep(free ? NULL : fixed, limit, &f);
            rt_recompute_text(text, &f.chosen.recompute);
            if (!f.fits || c.memory.total != f.need || f.need > limit || f.slower > before[free])
                fail_msg("limit %u: %s of %llu bytes, %g after %g", i, text, (unsigned long long)f.need, f.slower,
                         before[free]);
            before[free] = f.slower;
            if (free) continue;
            assert_true(c.student <= again.student && (i == 20 || c.student >= kept.student));
            mixes += strchr(text, ':') && c.student < again.student;
            if (i == 20) assert_string_equal(text, "none");
        }
    }
    assert_true(mixes >= 15);
    assert_true(before[0] == 0 && before[1] == 0);
}

/* What was chosen is in the record, and a resumed run has it again whatever its limit. */
static void a_mix_is_resumed(void **state)
{
    static rt_run_opts o;
    static rt_hub_env env;
    rt_err e = { 0 };
    rt_run *r = NULL;
    char limit[32], text[RT_RECOMPUTE_TEXT], was[RT_RECOMPUTE_TEXT];
    const flags none[] = { { "micro_batch", "8" }, { "recompute", "none" }, { 0 } };
    (void)state;
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)plan_deep(none, 0, NULL).memory.total - 100000);
    rt_dev *dev = counting_device();
    rt_settings s = settings("teacher", "deep", (flags[]){ { "micro_batch", "8" }, { "memory_limit", limit }, { 0 } });
    if (try_run(&s, dev, "mixed", &r, &e) < 0) fail_msg("%s", e.text);
    assert_true(allocated == r->fit.need);
    snprintf(was, sizeof was, "%s", s.recompute);
    assert_non_null(strchr(was, ':'));
    rt_run_close(r);
    rt_settings more = { 0 };
    put(&more, "memory_limit", "1GiB");
    put(&more, "out", path_of("mixed"));
    o = (rt_run_opts){ .env = &env, .dev = dev, .resume = true };
    if (rt_run_open(&r, &more, &o, &e) < 0) fail_msg("%s", e.text);
    assert_string_equal(rt_recompute_text(text, &r->fit.chosen.recompute), was);
    rt_run_close(r);
    dev->api->close(dev);
}

/* A dry run has programs and cannot train. */
static void a_plan_cannot_run(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_run_summary summary;
    rt_dev *dev = counting_device();
    rt_settings s = settings("teacher", "llama", NULL);
    rt_run *r = open_run(&s, dev, true, NULL);
    assert_int_equal(rt_run_train(r, &summary, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "sealed dry"));
    rt_run_close(r);
    char **names;
    uint32_t count;
    rt_arena a = { 0 };
    assert_int_equal(rt_dir_list(&names, &count, &a, path_of("scratch"), &e), RT_OK);
    assert_int_equal(count, 0); /* nothing is left behind */
    rt_arena_free(&a);
    dev->api->close(dev);
}

/* Every program gets a time, and every distinct op is sealed for it; nothing stays allocated. */
static void times_are_measured(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_run_cost cost;
    rt_dev *dev = counting_device();
    rt_settings s = settings("teacher", "llama", NULL);
    rt_run *r = open_run(&s, dev, true, NULL);
    if (rt_run_cost_new(&cost, r, &e) < 0 || rt_run_cost_time(&cost, r, &e) < 0) fail_msg("%s", e.text);
    const rt_plan *plans[RT_PROGRAM_MOST];
    uint32_t programs = rt_step_plan_list(rt_run_trainer(r)->plan, plans), ops = 0;
    for (uint32_t i = 0; i < programs; i++) ops += rt_exec_plan(rt_run_trainer(r)->x, i)->nops;
    assert_true(sealed > 20 && sealed < ops / 2);
    assert_true(cost.timed && cost.teacher_seconds > 0 && cost.student_seconds > 0 && cost.update_seconds > 0);
    assert_true(cost.pace.eval > 0 && cost.pace.save > 0 && cost.total > 3 * cost.pace.step);
    rt_run_close(r);

    s = settings("teacher", "llama", (flags[]){ { "sample_prompts", "none" }, { 0 } });
    r = open_run(&s, dev, true, NULL);
    if (rt_run_cost_new(&cost, r, &e) < 0 || rt_run_cost_time(&cost, r, &e) < 0) fail_msg("%s", e.text);
    assert_true(cost.pace.eval > 0); /* of the held-out rows alone */
    rt_run_close(r);
    dev->api->close(dev);
}

/* A plan from beginning to end, as text and as JSON. */
static int plan_all(void *ctx, rt_err *e)
{
    int rc;
    static rt_hub_env env;
    rt_run *r = NULL;
    rt_run_cost cost;
    rt_str text = { 0 };
    json_t *j = NULL;
    rt_settings s = settings("teacher", "llama", (flags[]){ { "memory_limit", "1700KiB" }, { 0 } });
    rt_run_opts o = { .env = &env, .dry = true, .scratch = path_of("scratch"), .dev = ctx };
    RT_TRY(rt_run_open(&r, &s, &o, e));
    RT_TRY(rt_run_cost_new(&cost, r, e));
    RT_TRY(rt_run_cost_text(&cost, r, true, &text, e));
    if (!(j = rt_run_cost_json(&cost, r))) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for JSON"));
out:
    json_decref(j);
    rt_str_free(&text);
    rt_run_close(r);
    return rc;
}

static void out_of_memory_leaves_nothing(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_dev *dev = counting_device(); /* opened with the same C library's allocator: freed by either */
    uint64_t live = rt_alloc_live();
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_allocator_set(&failing);
    uint64_t before = rt_alloc_count();
    if (plan_all(dev, &e) < 0) fail_msg("%s", e.text);
    uint64_t total = rt_alloc_count() - before;
    for (uint64_t i = 0; i < total; i += 1 + total / 100) {
        allowed = (int64_t)i;
        e = (rt_err){ 0 };
        int rc = plan_all(dev, &e);
        allowed = -1;
        if (rc != RT_OK && (rc != RT_NOMEM || !e.text[0]))
            fail_msg("allocation %d of %d: status %d, '%s'", (int)i, (int)total, rc, e.text);
        if (rt_alloc_live() != live) fail_msg("allocation %d of %d: something leaked", (int)i, (int)total);
    }
    rt_allocator_set(NULL);
    dev->api->close(dev);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(twelve_runs_allocate_what_was_planned),
        cmocka_unit_test(a_limit_is_kept_to_the_byte),
        cmocka_unit_test(between_none_and_block_there_is_a_mix),
        cmocka_unit_test(a_mix_is_resumed),
        cmocka_unit_test(a_plan_cannot_run),
        cmocka_unit_test(times_are_measured),
        cmocka_unit_test(out_of_memory_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_dir);
}
