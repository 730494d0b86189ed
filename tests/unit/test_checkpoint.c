/* test_checkpoint.c - a run on disk: what is saved comes back to the bit, moments included, and training goes on as if
 * nothing had happened; a flipped byte in any file is found; the right ones are kept; one of another model is refused.
 */
#include "train_case.h"

#include "base/json.h"
#include "train/checkpoint.h"

#include <dirent.h>
#include <math.h>
#include <unistd.h>

enum { T = 16, B = 2 };

static rt_model_config student;
static rt_model_file *file;
static rt_dev *dev;

static int set_up(void **state)
{
    if (make_test_dir(state) != 0) return -1;
    student = tiny_config("tiny-qwen2", 1);
    write_model(in_dir("s"), &student, RT_DTYPE_F32, false);
    file = open_model(in_dir("s"));
    dev = open_device("cpu", 1);
    return 0;
}

static int tear_down(void **state)
{
    rt_model_file_close(file);
    dev->api->close(dev);
    return remove_test_dir(state);
}

static rt_dtype moments; /* of trainers from here on */

static rt_trainer *new_trainer(uint32_t lora_rank, const bool *frozen)
{
    rt_err e = { 0 };
    rt_trainer *t = NULL;
    rt_step_opts o = step_options(&student, NULL, B, T);
    o.loss.ce_weight = 1;
    o.lora = (rt_lora){ lora_rank, 8.0, lora_rank ? (uint32_t)RT_LORA_ROLES : 0, 0 };
    o.frozen = frozen;
    o.moments = moments;
    if (rt_trainer_open(&t, dev, &o, &(rt_seal_opts){ 0 }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, file, NULL, NULL, 5, &e) < 0) fail_msg("%s", e.text);
    return t;
}

static rt_output output(uint32_t lora_rank)
{
    return (rt_output){ .student = file,
                        .dtype = RT_DTYPE_BF16,
                        .lora = { lora_rank, 8.0, lora_rank ? (uint32_t)RT_LORA_ROLES : 0, 0 },
                        .base_name = "tiny" };
}

static rt_progress_state progress(uint32_t step)
{
    return (rt_progress_state){ .step = step,
                                .cursor = { .data = { 1, 0xfedcba9876543210u },
                                            .epoch = 1,
                                            .draw = 77,
                                            .row = 3,
                                            .rows = 1000,
                                            .tokens = 1ull << 40,
                                            .trained = 12345 },
                                .tokens = (1ull << 53) + 1,
                                .trained = 12345,
                                .seconds = 0.1 + 0.2,
                                .metrics_bytes = 4711,
                                .best = 1.0 / 3.0,
                                .best_step = 2,
                                .programs = { 0xffffffffffffffffu, 3 } };
}

static void save(const char *folder, rt_trainer *t, uint32_t lora_rank, uint32_t step)
{
    rt_err e = { 0 };
    rt_output o = output(lora_rank);
    rt_progress_state s = progress(step);
    if (rt_checkpoint_save(folder, t, &o, &s, &e) < 0) fail_msg("%s", e.text);
}

static void assert_same(rt_trainer *a, rt_trainer *b, const char *kinds)
{
    static float x[1 << 16], y[1 << 16];
    rt_err e = { 0 };
    uint32_t seen = 0;
    char name[RT_NAME_BYTES];
    for (uint32_t i = 0; i < a->plan->student->param_count; i++) {
        if (!a->plan->student->params[i].grad.buf) continue;
        uint64_t n = rt_trainer_elems(a, i);
        assert_true(n <= 1 << 16);
        for (const char *k = kinds; *k; k++, seen++) {
            assert_int_equal(rt_trainer_read(a, *k, i, x, &e), RT_OK);
            assert_int_equal(rt_trainer_read(b, *k, i, y, &e), RT_OK);
            if (memcmp(x, y, n * sizeof *x) != 0)
                fail_msg("%c of %s differs", *k, rt_param_name(name, &a->plan->student->params[i]));
        }
    }
    assert_true(seen > 0);
}

/* The same bytes of all that a checkpoint keeps. */
static void assert_same_state(rt_trainer *a, rt_trainer *b)
{
    static uint8_t x[1 << 18], y[1 << 18];
    rt_err e = { 0 };
    uint32_t seen = 0;
    for (uint32_t i = 0; i < a->plan->student->param_count; i++)
        for (const char *k = "wmvs"; *k && a->plan->student->params[i].grad.buf; k++) {
            uint64_t n = rt_trainer_state_elems(a, *k, i), bytes;
            if (!n) continue;
            bytes = rt_dtype_bytes(rt_trainer_state_dtype(a, *k, i), n);
            assert_true(bytes <= sizeof x);
            assert_int_equal(rt_trainer_read_state(a, *k, i, 0, n, x, &e), RT_OK);
            assert_int_equal(rt_trainer_read_state(b, *k, i, 0, n, y, &e), RT_OK);
            assert_memory_equal(x, y, bytes);
            seen |= 1u << (*k - 'a');
        }
    assert_int_equal(seen >> ('s' - 'a') & 1, moments == RT_DTYPE_U8);
}

/* Saved after three steps and loaded into a trainer of its own, both go on alike. */
static void round_trip(const char *folder, uint32_t lora_rank, const bool *frozen)
{
    rt_err e = { 0 };
    rt_arena arena = { 0 };
    char *path;
    rt_progress_state s, want = progress(3);
    rt_trainer *a = new_trainer(lora_rank, frozen), *b = new_trainer(lora_rank, frozen);
    train_some(a, 1, 3);
    if (rt_dir_make(folder, &e) < 0) fail_msg("%s", e.text);
    save(folder, a, lora_rank, 3);
    assert_int_equal(rt_checkpoint_newest(&path, &arena, folder, &e), RT_OK);
    assert_string_equal(rt_path_base(path), "checkpoint-000003");
    if (rt_checkpoint_check(path, &s, &e) < 0) fail_msg("%s", e.text);
    assert_true(s.step == 3 && s.tokens == want.tokens && s.trained == want.trained && s.best_step == 2);
    assert_true(s.seconds == want.seconds && s.best == want.best && s.metrics_bytes == 4711);
    assert_memory_equal(&s.cursor, &want.cursor, sizeof s.cursor);
    assert_memory_equal(&s.programs, &want.programs, sizeof s.programs);
    if (rt_checkpoint_load(path, b, &e) < 0) fail_msg("%s", e.text);
    assert_same_state(a, b);
    train_some(a, 4, 2);
    train_some(b, 4, 2);
    assert_same_state(a, b);
    assert_same(a, b, "wg");
    rt_trainer_free(a);
    rt_trainer_free(b);
    rt_arena_free(&arena);
}

static void test_round_trip(void **state)
{
    (void)state;
    bool frozen[64] = { true }; /* the embedding, and with it the head */
    char folder[512];
    snprintf(folder, sizeof folder, "%s", in_dir("plain"));
    round_trip(folder, 0, NULL);
    snprintf(folder, sizeof folder, "%s", in_dir("frozen"));
    round_trip(folder, 0, frozen);
    snprintf(folder, sizeof folder, "%s", in_dir("lora"));
    round_trip(folder, 4, NULL);
}

/* Moments narrower than f32, with what they share; and a checkpoint of another optimizer is refused by name. */
static void test_narrow(void **state)
{
    static const rt_dtype narrow[] = { RT_DTYPE_BF16, RT_DTYPE_U8 };
    (void)state;
    char folder[512];
    for (int k = 0; k < 2; k++)
        for (uint32_t rank = 0; rank <= 4; rank += 4) {
            rt_err e = { 0 };
            char name[64];
            snprintf(name, sizeof name, "narrow%d-%u", k, rank);
            snprintf(folder, sizeof folder, "%s", in_dir(name));
            moments = narrow[k];
            round_trip(folder, rank, NULL);
            snprintf(name + strlen(name), sizeof name - strlen(name), "/checkpoint-000003");
            for (int other = 0; other < 2; other++) {
                moments = other ? narrow[!k] : RT_DTYPE_F32;
                rt_trainer *t = new_trainer(rank, NULL);
                assert_int_equal(rt_checkpoint_load(in_dir(name), t, &e), RT_INVALID);
                assert_non_null(strstr(e.text, "resume with the --optimizer that it began with"));
                assert_non_null(strstr(e.text, rt_dtype_name(narrow[k])));
                rt_trainer_free(t);
            }
            moments = RT_DTYPE_F32;
        }
}

/* No evaluation yet: best is absent, and stays so. */
static void test_no_best(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_trainer *t = new_trainer(4, NULL);
    rt_output o = output(4);
    rt_progress_state s = progress(1), back;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", in_dir("nobest"));
    s.best = NAN;
    rt_dir_make(folder, &e);
    if (rt_checkpoint_save(folder, t, &o, &s, &e) < 0) fail_msg("%s", e.text);
    if (rt_checkpoint_check(in_dir("nobest/checkpoint-000001"), &back, &e) < 0) fail_msg("%s", e.text);
    assert_true(isnan(back.best));
    rt_trainer_free(t);
}

static void flip(const char *path, long at)
{
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fseek(f, at, at < 0 ? SEEK_END : SEEK_SET), 0);
    int c = fgetc(f);
    assert_int_not_equal(c, EOF);
    fseek(f, -1, SEEK_CUR);
    fputc(c ^ 1, f);
    fclose(f);
}

/* One byte of every file, at its beginning, in its middle and at its end. */
static void test_flipped_byte(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_arena arena = { 0 };
    rt_progress_state s;
    rt_trainer *t = new_trainer(0, NULL);
    char folder[512], path[512], file_path[1100], **names;
    uint32_t count;
    snprintf(folder, sizeof folder, "%s", in_dir("flip"));
    snprintf(path, sizeof path, "%s", in_dir("flip/checkpoint-000003"));
    rt_dir_make(folder, &e);
    save(folder, t, 0, 3);
    assert_int_equal(rt_dir_list(&names, &count, &arena, path, &e), RT_OK);
    assert_true(count >= 5); /* config, model, tokenizer, the state and its record */
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size;
        snprintf(file_path, sizeof file_path, "%s/%s", path, names[i]);
        assert_int_equal(rt_file_size(file_path, &size, &e), RT_OK);
        long places[] = { 0, (long)size / 3, (long)size / 2, -2, -1 };
        for (int k = 0; k < 5; k++) {
            flip(file_path, places[k]);
            e = (rt_err){ 0 };
            if (rt_checkpoint_check(path, &s, &e) != RT_FORMAT)
                fail_msg("%s, byte %ld: status %d, '%s'", names[i], places[k], e.status, e.text);
            assert_says(&e, names[i]);
            assert_says(&e, "checkpoint-000003|remove this checkpoint");
            flip(file_path, places[k]);
        }
        if (rt_checkpoint_check(path, &s, &e) < 0) fail_msg("%s", e.text);
    }
    /* and every byte of the record, which is small */
    snprintf(file_path, sizeof file_path, "%s/state.json", path);
    uint64_t size;
    assert_int_equal(rt_file_size(file_path, &size, &e), RT_OK);
    for (uint64_t k = 0; k < size; k++) {
        flip(file_path, (long)k);
        if (rt_checkpoint_check(path, &s, &e) != RT_FORMAT) fail_msg("state.json, byte %d was not missed", (int)k);
        flip(file_path, (long)k);
    }
    for (uint32_t i = 0; i < count; i++) { /* a file that is gone */
        char aside[1200];
        snprintf(file_path, sizeof file_path, "%s/%s", path, names[i]);
        snprintf(aside, sizeof aside, "%s.aside", file_path);
        assert_int_equal(rename(file_path, aside), 0);
        assert_int_equal(rt_checkpoint_check(path, &s, &e), RT_FORMAT);
        assert_says(&e, names[i]);
        assert_says(&e, "missing|remove this checkpoint");
        assert_int_equal(rename(aside, file_path), 0);
    }
    rt_trainer_free(t);
    rt_arena_free(&arena);
}

static void test_of_another_model(void **state)
{
    (void)state;
    rt_err e = { 0 };
    bool frozen[64] = { true };
    char folder[512];
    snprintf(folder, sizeof folder, "%s", in_dir("other"));
    rt_dir_make(folder, &e);
    rt_trainer *a = new_trainer(4, NULL), *b = new_trainer(8, NULL), *c = new_trainer(0, NULL);
    rt_trainer *d = new_trainer(0, frozen);
    save(folder, a, 4, 1);
    assert_int_equal(rt_checkpoint_load(in_dir("other/checkpoint-000001"), b, &e), RT_INVALID); /* another rank */
    assert_says(&e, "checkpoint-000001|lora_A|another model");
    assert_int_equal(rt_checkpoint_load(in_dir("other/checkpoint-000001"), c, &e), RT_INVALID);
    assert_says(&e, "tensors|another model");
    save(folder, c, 0, 2);
    assert_int_equal(rt_checkpoint_load(in_dir("other/checkpoint-000002"), d, &e), RT_INVALID); /* less is trained */
    rt_trainer_free(a);
    rt_trainer_free(b);
    rt_trainer_free(c);
    rt_trainer_free(d);
}

static void expect_kept(const char *folder, const char *want)
{
    rt_arena a = { 0 };
    rt_err e = { 0 };
    char **names, got[200] = "";
    uint32_t count;
    assert_int_equal(rt_dir_list(&names, &count, &a, folder, &e), RT_OK);
    for (uint32_t i = 0; i < count; i++) {
        strcat(got, i ? " " : "");
        strcat(got, strncmp(names[i], "checkpoint-", 11) == 0 ? names[i] + 11 : names[i]);
    }
    assert_string_equal(got, want);
    rt_arena_free(&a);
}

/* As a run leaves one, as far as who removes it looks: a record that lists the files beside it. */
static void make_one(const char *folder, uint32_t step)
{
    rt_err e = { 0 };
    char path[200];
    snprintf(path, sizeof path, "%s/checkpoint-%06u/x", folder, step);
    put_text(path, "1");
    snprintf(path, sizeof path, "%s/checkpoint-%06u/state.json", folder, step);
    json_t *j = json_pack("{s:{s:s}}", "files", "x", "1");
    if (rt_checked_json_write(in_dir(path), j, NULL, &e) < 0) fail_msg("%s", e.text);
    json_decref(j);
}

static void make_some(void)
{
    make_one("keep", 1);
    make_one("keep", 20);
    make_one("keep", 300);
    make_one("keep", 1000000); /* by number, not by spelling */
    put_text("keep/checkpoint-notes/x", "1");
    put_text("keep/run/x", "1");
}

static void test_prune(void **state)
{
    (void)state;
    char folder[512];
    rt_arena a = { 0 };
    rt_err e = { 0 };
    char *path;
    snprintf(folder, sizeof folder, "%s", in_dir("keep"));
    make_some();
    assert_int_equal(rt_checkpoint_newest(&path, &a, folder, &e), RT_OK);
    assert_string_equal(rt_path_base(path), "checkpoint-1000000");
    rt_checkpoint_prune(folder, 9);
    expect_kept(folder, "000001 000020 000300 1000000 notes run");
    rt_checkpoint_prune(folder, 3);
    expect_kept(folder, "000020 000300 1000000 notes run");
    make_some();
    rt_checkpoint_prune(folder, 0); /* never the newest */
    expect_kept(folder, "1000000 notes run");
    rt_checkpoint_prune(in_dir("no such folder"), 1);
    assert_int_equal(rt_checkpoint_newest(&path, &a, in_dir("keep/run"), &e), RT_OK);
    assert_null(path);
    assert_int_equal(rt_checkpoint_newest(&path, &a, in_dir("no such folder"), &e), RT_OK);
    assert_null(path);
    rt_arena_free(&a);
}

/* The best of every checkpoint that is kept stays, and those that came after the last of them. */
static void test_prune_best(void **state)
{
    (void)state;
    static const uint32_t best[] = { 5, 15, 25, 40, 50 };
    rt_arena a = { 0 };
    rt_err e = { 0 };
    char folder[512];
    snprintf(folder, sizeof folder, "%s", in_dir("bests"));
    assert_int_equal(rt_dir_make(folder, &e), RT_OK);
    for (size_t i = 0; i < 5; i++) assert_int_equal(rt_dir_make(rt_best_path(&a, folder, best[i]), &e), RT_OK);
    rt_checkpoint_prune(folder, 2); /* no checkpoint yet: nothing is known to be needless */
    for (size_t i = 0; i < 5; i++) assert_true(rt_path_is_dir(rt_best_path(&a, folder, best[i])));
    make_one("bests", 10);
    make_one("bests", 30);
    make_one("bests", 45);
    rt_checkpoint_prune(folder, 2); /* 30, whose best is 25, and 45, whose best is 40 */
    for (size_t i = 0; i < 5; i++) assert_int_equal(rt_path_is_dir(rt_best_path(&a, folder, best[i])), best[i] >= 25);
    rt_best_remove(folder);
    for (size_t i = 0; i < 5; i++) assert_false(rt_path_is_dir(rt_best_path(&a, folder, best[i])));
    assert_true(rt_path_is_dir(in_dir("bests/checkpoint-000045")));
    rt_best_remove(in_dir("no such folder"));
    rt_arena_free(&a);
}

/* What only has the name of one, or holds somebody else's file as well, is neither counted nor removed. */
static void test_prune_foreign(void **state)
{
    (void)state;
    char folder[512];
    snprintf(folder, sizeof folder, "%s", in_dir("alien"));
    for (uint32_t step = 10; step < 60; step += 10) make_one("alien", step);
    put_text("alien/checkpoint-000020/notes.txt", "mine");
    put_text("alien/checkpoint-000030/state.json", "{\"files\": {\"x\": \"1\"}}"); /* no checksum */
    put_text("alien/checkpoint-000005/model.safetensors", "mine");
    put_text("alien/best-000007/config.json/notes", "mine"); /* a folder under a file's name */
    make_one("alien", 8);
    assert_int_equal(unlink(in_dir("alien/checkpoint-000008/x")), 0);
    put_text("alien/checkpoint-000008/x/notes", "mine");
    put_text("alien/checkpoint-7/x", "mine"); /* spelt as no run does */
    put_text("alien/best-000008/config.json", "{}");
    put_text("alien/best-000009/notes.txt", "mine");
    put_text("alien/best-000009/config.json", "{}");
    put_text("alien/best-9/config.json", "mine");
    assert_int_equal(symlink(in_dir("alien/checkpoint-000040"), in_dir("alien/checkpoint-000001")), 0);
    assert_int_equal(symlink(in_dir("alien/best-9"), in_dir("alien/best-000002")), 0);
    rt_checkpoint_prune(folder, 1); /* of 10, 40 and 50, the last */
    rt_best_remove(folder);
    expect_kept(folder, "best-000002 best-000007 best-000009 best-9 000001 000005 000008 000020 000030 000050 7");
    assert_true(rt_path_exists(in_dir("alien/checkpoint-000020/notes.txt")));
    assert_true(rt_path_exists(in_dir("alien/best-000009/config.json")));
    assert_true(rt_path_exists(in_dir("alien/best-000007/config.json/notes")));
    assert_true(rt_path_exists(in_dir("alien/checkpoint-000008/x/notes")));
}

/* A save that fails half-way leaves the earlier one of that step as it was, and nothing else. */
static void test_failed_save(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_progress_state s = progress(3), back;
    rt_output o = output(0);
    rt_trainer *t = new_trainer(0, NULL);
    char folder[512], path[512];
    snprintf(folder, sizeof folder, "%s", in_dir("failed"));
    snprintf(path, sizeof path, "%s", in_dir("failed/checkpoint-000003"));
    rt_dir_make(folder, &e);
    save(folder, t, 0, 3);
    put_text("failed/checkpoint-000003/extra", "not hashed"); /* marks the first of the two */
    const rt_side_file side = { "../outside", { "x", 1 } };   /* refused, after tensors and state were written */
    rt_model_text text = file->text;
    text.side = &side;
    text.side_count = 1;
    o.text = &text;
    assert_int_equal(rt_checkpoint_save(folder, t, &o, &s, &e), RT_INVALID);
    expect_kept(folder, "000003");
    if (rt_checkpoint_check(path, &back, &e) < 0) fail_msg("%s", e.text);
    assert_true(rt_path_exists(in_dir("failed/checkpoint-000003/extra")));
    /* the file is not of a run: it is not removed with the folder */
    o.text = NULL;
    assert_int_equal(rt_checkpoint_save(folder, t, &o, &s, &e), RT_INVALID);
    assert_says(&e, "checkpoint-000003|move it away");
    expect_kept(folder, "000003");
    assert_true(rt_path_exists(in_dir("failed/checkpoint-000003/extra")));
    /* without it, a save that works takes its place */
    assert_int_equal(unlink(in_dir("failed/checkpoint-000003/extra")), 0);
    put_text("failed/checkpoint-000003/config.json", "{}"); /* marks the first of the two */
    save(folder, t, 0, 3);
    if (rt_checkpoint_check(path, &back, &e) < 0) fail_msg("%s", e.text);
    expect_kept(folder, "000003");
    rt_trainer_free(t);
}

static void test_programs_hash(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_hash128 a, b, c;
    rt_trainer *x = new_trainer(0, NULL), *y = new_trainer(0, NULL), *z = new_trainer(4, NULL);
    assert_int_equal(rt_programs_hash(x, false, &a, &e), RT_OK);
    assert_int_equal(rt_programs_hash(y, false, &b, &e), RT_OK);
    assert_int_equal(rt_programs_hash(z, false, &c, &e), RT_OK);
    assert_true(a.hi == b.hi && a.lo == b.lo);
    assert_true(a.hi != c.hi && a.lo != c.lo);
    rt_trainer_free(x);
    rt_trainer_free(y);
    rt_trainer_free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip),       cmocka_unit_test(test_narrow),
        cmocka_unit_test(test_no_best),          cmocka_unit_test(test_flipped_byte),
        cmocka_unit_test(test_of_another_model), cmocka_unit_test(test_prune),
        cmocka_unit_test(test_failed_save),      cmocka_unit_test(test_programs_hash),
        cmocka_unit_test(test_prune_best),       cmocka_unit_test(test_prune_foreign),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
