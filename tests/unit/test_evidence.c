/* test_evidence.c - the falsifiers: facts of a good run pass, every planted defect turns its own falsifier and no
 * other, what was not measured never passes; and the same with defects planted into runs that really go on. */
#include "run_case.h"

#include "base/json.h"
#include "evidence/evidence.h"
#include "job/run/moved.h"

#include <math.h>

/* ---- facts ---- */

static rt_eval_result measured(double ce, double kl, double agreement)
{
    return (rt_eval_result){ .ce = { ce, 0.02, 0 },
                             .div = { kl, 0.03, 0 },
                             .kl = { kl, 0.03, 0 },
                             .agreement = { agreement, 0.01, 0 },
                             .teacher_ce = { 1.0, 0.02, 0 },
                             .teacher = true,
                             .positions = 400,
                             .documents = 10 };
}

static rt_evidence good(void)
{
    rt_evidence v = { .teacher = true,
                      .ce_weight = 0.1,
                      .kd_weight = 0.9,
                      .first = measured(5, 4, 0.1),
                      .logged = measured(2, 1, 0.6),
                      .saved = measured(2, 1, 0.6),
                      .has_first = true,
                      .has_logged = true,
                      .steps = 60,
                      .saved_step = 60,
                      .student_hash = { 1, 2 },
                      .teacher_hash = { 1, 3 },
                      .vocab_measured = true,
                      .vocab_common = 259,
                      .data = { 240, 9000, 8000 },
                      .lines = { 240, 9000, 8000 },
                      .planned = 100u << 20,
                      .held = 150u << 20,
                      .difference = { .values = 1000 },
                      .saved_dtype = RT_DTYPE_F32,
                      .output_values = 1000,
                      .wanted_values = 1000 };
    v.moved = (rt_moved_list){ .count = 2,
                               .list = { { "model.embed_tokens.weight", 1, 1, 0, 0, 0.5 },
                                         { "self_attn.q_proj.bias", 4, 4, 2, 0, 0.25 } } };
    return v;
}

/* 5 % and 64 MiB more than planned is as much as may be; a byte more is too much. */
static uint64_t most_held(const rt_evidence *v) { return v->planned + v->planned / 20 + (64u << 20); }

static void good_passes(void **state)
{
    (void)state;
    rt_findings f;
    rt_evidence v = good();
    v.held = most_held(&v);
    rt_falsify(&f, &v);
    assert_int_equal(f.count, RT_FALSIFIER_COUNT);
    assert_int_equal(f.of[RT_VERDICT_PASS], RT_FALSIFIER_COUNT);
    for (uint32_t i = 0; i < f.count; i++) {
        assert_true(f.list[i].measured[0]);
        assert_true(f.list[i].claim[0]);
    }
    v.own = 100u << 20; /* on a device, with code beside what was planned */
    v.code = 40u << 20;
    v.held = 200u << 20;
    rt_falsify(&f, &v);
    assert_int_equal(f.of[RT_VERDICT_PASS], RT_FALSIFIER_COUNT);
    bool planned = false; /* the claim names what was planned */
    for (uint32_t i = 0; i < f.count; i++) planned = planned || strstr(f.list[i].measured, "100 MiB planned");
    assert_true(planned);
    v.teacher = false; /* text alone: nothing is said about a teacher */
    v.ce_weight = 1;
    rt_falsify(&f, &v);
    assert_int_equal(f.of[RT_VERDICT_PASS], f.count);
    assert_int_equal(f.count, RT_FALSIFIER_COUNT - 3);
    assert_null(finding(&f, "F-DISTILL-KD-002"));
    assert_null(finding(&f, "FT-VOCAB-ALIGN-005"));
}

#define PLANT(name, code)                                                                                              \
    static void name(rt_evidence *v) { code; }
PLANT(loss_stays, v->saved.div.mean = v->first.div.mean; v->saved.ce.mean = v->logged.ce.mean = v->first.ce.mean)
PLANT(loss_falls_too_little, v->saved.ce = v->logged.ce = v->first.ce; v->saved.div.mean = v->first.div.mean - 0.08)
PLANT(loss_is_nan, v->saved.div.mean = NAN)
PLANT(other_batches, v->saved.positions++)
PLANT(one_document, v->first.documents = v->saved.documents = 1)
PLANT(few_documents, v->first.documents = v->saved.documents = 4; v->saved.ce.paired = v->saved.div.paired = 0.01)
PLANT(loss_falls_unevenly, v->saved.ce.paired = 0.1; v->saved.div.paired = 1.7)
PLANT(nothing_before, v->has_first = false)
PLANT(agreement_stays, v->saved.agreement.mean = v->first.agreement.mean + 0.02)
PLANT(agreement_is_nan, v->saved.agreement.mean = NAN)
PLANT(same_models, v->teacher_hash = v->student_hash)
PLANT(no_divergence, v->first.kl.mean = 0)
PLANT(no_tokenizers, v->vocab_measured = false)
PLANT(nothing_common, v->vocab_common = 0)
PLANT(bias_frozen, v->moved.list[1].moved = 0)
PLANT(one_bias_frozen, v->moved.list[1].moved = 3)
PLANT(frozen_moved, v->moved.list[1].broken = 1)
PLANT(nothing_trained, v->moved.count = 0)
PLANT(change_is_nan, v->moved.list[1].change = NAN)
PLANT(one_row_as_many, v->data.trained = 8000; v->lines.trained = 250)
PLANT(rows_not_logged, v->lines.rows = 1)
PLANT(tokens_differ, v->lines.tokens--)
PLANT(all_masked, v->data.trained = v->lines.trained = 0)
PLANT(too_much_memory, v->held = 170u << 20)
PLANT(a_byte_too_much_memory, v->held = most_held(v) + 1)
PLANT(no_plan, v->planned = 0)
PLANT(memory_unknown, v->held = 0)
PLANT(device_took_too_much, v->own = v->held = 170u << 20)
PLANT(device_without_plan, v->own = v->held; v->planned = 0)
PLANT(device_is_shared, v->own = 100u << 20; v->code = 20u << 20; v->held = 190u << 20)
PLANT(empty_output, v->output_values = 0)
PLANT(short_output, v->output_values--)
PLANT(wrong_value, v->difference.unequal = 1)
PLANT(other_loss_reloaded, v->logged.ce.mean += 1e-3)
PLANT(loss_reloaded_is_nan, v->logged.ce.mean = NAN)
PLANT(not_evaluated, v->has_logged = false)

static void planted_facts(void **state)
{
    (void)state;
#define F RT_VERDICT_FAIL
#define N RT_VERDICT_NOT_MEASURED
    static const struct {
        void (*plant)(rt_evidence *v);
        const char *id;
        rt_verdict want;
        uint32_t others; /* that turn with it */
    } cases[] = {
        { loss_stays, "F-DISTILL-SMOKE-001", F, 0 },
        { loss_falls_too_little, "F-DISTILL-SMOKE-001", F, 0 },
        { loss_is_nan, "F-DISTILL-SMOKE-001", F, 0 },
        { other_batches, "F-DISTILL-SMOKE-001", F, 1 },
        { other_batches, "F-DISTILL-KD-002", F, 1 },
        { one_document, "F-DISTILL-SMOKE-001", N, 1 },
        { one_document, "F-DISTILL-KD-002", N, 1 },
        { few_documents, "F-DISTILL-SMOKE-001", N, 1 },
        { few_documents, "F-DISTILL-KD-002", N, 1 },
        { loss_falls_unevenly, "F-DISTILL-SMOKE-001", F, 0 },
        { nothing_before, "F-DISTILL-SMOKE-001", N, 2 },
        { nothing_before, "F-DISTILL-V2-001-TEACHER-DIVERGENCE", N, 2 },
        { agreement_stays, "F-DISTILL-KD-002", F, 0 },
        { agreement_is_nan, "F-DISTILL-KD-002", F, 0 },
        { same_models, "F-DISTILL-V2-001-TEACHER-DIVERGENCE", F, 0 },
        { no_divergence, "F-DISTILL-V2-001-TEACHER-DIVERGENCE", F, 0 },
        { no_tokenizers, "FT-VOCAB-ALIGN-005", N, 0 },
        { nothing_common, "FT-VOCAB-ALIGN-005", F, 0 },
        { bias_frozen, "F-RUN-MOVED-001", F, 0 },
        { one_bias_frozen, "F-RUN-MOVED-001", F, 0 },
        { frozen_moved, "F-RUN-MOVED-001", F, 0 },
        { nothing_trained, "F-RUN-MOVED-001", F, 0 },
        { change_is_nan, "F-RUN-MOVED-001", F, 0 },
        { one_row_as_many, "DBH-001", F, 0 },
        { rows_not_logged, "DBH-001", F, 0 },
        { tokens_differ, "DBH-001", F, 0 },
        { all_masked, "DBH-001", F, 0 },
        { too_much_memory, "F-PLAN-MEMORY-001", F, 0 },
        { a_byte_too_much_memory, "F-PLAN-MEMORY-001", F, 0 },
        { no_plan, "F-PLAN-MEMORY-001", F, 0 },
        { memory_unknown, "F-PLAN-MEMORY-001", N, 0 },
        { device_took_too_much, "F-PLAN-MEMORY-001", F, 0 },
        { device_without_plan, "F-PLAN-MEMORY-001", F, 0 },
        { device_is_shared, "F-PLAN-MEMORY-001", N, 0 },
        { empty_output, "F-OUTPUT-RELOAD-001", F, 0 },
        { short_output, "F-OUTPUT-RELOAD-001", F, 0 },
        { wrong_value, "F-OUTPUT-RELOAD-001", F, 0 },
        { other_loss_reloaded, "F-OUTPUT-RELOAD-001", F, 0 },
        { loss_reloaded_is_nan, "F-OUTPUT-RELOAD-001", F, 0 },
        { not_evaluated, "F-OUTPUT-RELOAD-001", N, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_findings f;
        rt_evidence v = good();
        cases[i].plant(&v);
        rt_falsify(&f, &v);
        verdict_is(&f, cases[i].id, cases[i].want);
        if (f.of[RT_VERDICT_PASS] != RT_FALSIFIER_COUNT - 1 - cases[i].others)
            fail_msg("case %d: %u pass", (int)i, f.of[RT_VERDICT_PASS]);
    }
}

/* Documents differ by more than they fell, and each of them fell: as one sees it on the closing screen by KL. */
static void judged_in_pairs(void **state)
{
    (void)state;
    rt_findings f;
    rt_evidence v = good();
    v.first.ce.error = v.first.div.error = v.saved.ce.error = v.saved.div.error = 2;
    rt_falsify(&f, &v);
    verdict_is(&f, "F-DISTILL-SMOKE-001", RT_VERDICT_FAIL);
    v.saved.ce.paired = v.saved.div.paired = v.saved.kl.paired = 0.5;
    rt_falsify(&f, &v);
    verdict_is(&f, "F-DISTILL-SMOKE-001", RT_VERDICT_PASS);
    assert_true(rt_measure_fell(v.first.kl, v.saved.kl));
}

/* bf16 rounds weights: what is too far for f32 is near enough there, and there is a limit there too. */
static void reload_tolerance(void **state)
{
    (void)state;
    rt_findings f;
    rt_evidence v = good();
    v.saved_dtype = RT_DTYPE_BF16;
    v.logged.ce.mean = v.saved.ce.mean + 0.01;
    rt_falsify(&f, &v);
    verdict_is(&f, "F-OUTPUT-RELOAD-001", RT_VERDICT_PASS);
    v.logged.ce.mean = v.saved.ce.mean + 0.05;
    rt_falsify(&f, &v);
    verdict_is(&f, "F-OUTPUT-RELOAD-001", RT_VERDICT_FAIL);
}

/* ---- JSON ---- */

static void facts_come_back(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_evidence v = good(), w = { 0 };
    rt_json_init();
    json_t *j = rt_evidence_to_json(&v);
    assert_non_null(j);
    if (rt_evidence_from_json(&w, j, &e) < 0) fail_msg("%s", e.text);
    json_t *again = rt_evidence_to_json(&w);
    assert_true(json_equal(j, again));
    assert_true(w.saved.ce.mean == v.saved.ce.mean && w.saved.ce.error == v.saved.ce.error);
    assert_memory_equal(&w.moved, &v.moved, sizeof w.moved);
    json_decref(again);
    /* Without any one of its keys it is refused, and with a key of another kind. */
    const char *key;
    json_t *value;
    json_object_foreach(j, key, value) for (int kind = 0; kind < 2; kind++)
    {
        json_t *bad = json_deep_copy(j);
        if (kind)
            json_object_set_new(bad, key, json_string("x"));
        else
            json_object_del(bad, key);
        if (rt_evidence_from_json(&w, bad, &e) != RT_FORMAT) fail_msg("without %s it was read", key);
        json_decref(bad);
    }
    json_decref(j);
}

/* The longest name that there is room for, and one letter more. */
static void names_have_room(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_evidence v = good(), w = { 0 };
    rt_json_init();
    json_t *j = rt_evidence_to_json(&v);
    json_t *owner[2] = { json_object_get(j, "output"), json_array_get(json_object_get(j, "groups"), 0) };
    const char *const key[2] = { "worst", "name" };
    const size_t room[2] = { sizeof v.difference.worst, sizeof v.moved.list[0].name };
    for (int i = 0; i < 2; i++) {
        char name[RT_NAME_BYTES + 1];
        assert_true(owner[i] && room[i] < sizeof name);
        memset(name, 'n', sizeof name);
        name[room[i] - 1] = 0;
        json_object_set_new(owner[i], key[i], json_string(name));
        if (rt_evidence_from_json(&w, j, &e) < 0) fail_msg("%s: %s", key[i], e.text);
        name[room[i] - 1] = 'n';
        name[room[i]] = 0;
        json_object_set_new(owner[i], key[i], json_string(name));
        if (rt_evidence_from_json(&w, j, &e) != RT_FORMAT) fail_msg("a %s that is too long was read", key[i]);
        name[room[i] - 1] = 0;
        json_object_set_new(owner[i], key[i], json_string(name));
    }
    json_decref(j);
}

/* Files of a run that a manifest lists: none that is hidden, changes later, or lies deeper than a run writes. */
static void files_are_listed(void **state)
{
    (void)state;
    static const char *const listed[] = { "model.safetensors", "run/metrics.jsonl", "checkpoint-000001/state.json",
                                          "run/checkpoints/checkpoint-000002/state.json", "a/b/c/d/last" };
    static const char *const others[] = { ".part",
                                          "run/log.txt",
                                          "checkpoint-000001/state.safetensors",
                                          "run/checkpoints/checkpoint-000002/state.safetensors",
                                          "a/b/c/d/e/deeper",
                                          "run/control/run/metrics.jsonl",
                                          "control/config.json" };
    rt_err e = { 0 };
    char name[64];
    rt_json_init();
    for (size_t i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "listed/%s", listed[i]);
        put_text(name, "x");
    }
    for (size_t i = 0; i < 7; i++) {
        snprintf(name, sizeof name, "listed/%s", others[i]);
        put_text(name, "x");
    }
    json_t *files = json_object();
    if (rt_manifest_files(files, in_dir("listed"), NULL, &e) < 0) fail_msg("%s", e.text);
    for (size_t i = 0; i < 5; i++)
        if (!json_object_get(files, listed[i])) fail_msg("%s is not listed", listed[i]);
    for (size_t i = 0; i < 7; i++)
        if (json_object_get(files, others[i])) fail_msg("%s is listed", others[i]);
    assert_int_equal(json_object_size(files), 5);
    json_decref(files);
    /* Outside of run/ what is not named as the run's own is somebody's. */
    put_text("listed/chat_template.jinja", "x");
    put_text("listed/mine/config.json", "x");
    json_t *own = json_pack("{s:[]}", "model.safetensors");
    files = json_object();
    if (rt_manifest_files(files, in_dir("listed"), own, &e) < 0) fail_msg("%s", e.text);
    assert_null(json_object_get(files, "chat_template.jinja"));
    assert_null(json_object_get(files, "mine/config.json"));
    assert_non_null(json_object_get(files, "model.safetensors"));
    for (size_t i = 0; i < 5; i++)
        if (strncmp(listed[i], "run/", 4) == 0) assert_non_null(json_object_get(files, listed[i]));
    json_decref(files);
    json_decref(own);
}

/* There and back, and the settings of a manifest. */
static int all_json(void *ctx, rt_err *e)
{
    int rc = RT_OK;
    rt_evidence v = good();
    static rt_findings f;
    rt_hash128 h;
    rt_falsify(&f, &v);
    json_t *facts = rt_evidence_to_json(&v), *verdict = rt_findings_to_json(&f),
           *settings = rt_manifest_settings(
               json_pack("{s:s, s:[s, s], s:f}", "student", "/a/b", "data", "/c/d,weight=2", "e", "lr", 0.5), "b",
               NULL);
    if (!facts || !verdict || !settings) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for JSON"));
    assert_string_equal(json_string_value(json_array_get(json_object_get(settings, "data"), 0)), "d,weight=2");
    assert_string_equal(json_string_value(json_object_get(settings, "student")), "b");
    assert_int_equal(json_array_size(json_object_get(facts, "groups")), 2);
    assert_int_equal(json_array_size(json_object_get(verdict, "falsifiers")), RT_FALSIFIER_COUNT);
    RT_TRY(rt_manifest_bound_hash(settings, &h, e));
    if (ctx) RT_TRY(rt_evidence_from_json(&v, facts, e));
out:
    json_decref(facts);
    json_decref(verdict);
    json_decref(settings);
    return rc;
}

static void json_without_memory(void **state)
{
    (void)state;
    enum { KEYS = 40 }; /* jansson lists what it unpacks, and can do without the list */
    int unpack = 1;
    fail_each(all_json, NULL, 0);
    fail_each(all_json, &unpack, KEYS);
}

static void lines_are_summed(void **state)
{
    (void)state;
    rt_evidence v = { .saved_step = 2 };
    const char *lines[] = { "{\"event\":\"eval\",\"step\":0,\"ce\":[5,0.1],\"positions\":7,\"documents\":2}",
                            "{\"event\":\"step\",\"step\":1,\"rows\":4,\"tokens\":30,\"trained\":20}",
                            "{\"event\":\"step\",\"step\":2,\"rows\":4,\"tokens\":31,\"trained\":21}",
                            "{\"event\":\"note\",\"rows\":9,\"tokens\":9,\"trained\":9}",
                            "{\"event\":\"eval\",\"step\":2,\"ce\":[4,null]}" };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        json_t *j = json_loads(lines[i], 0, NULL);
        rt_evidence_take_line(&v, j);
        json_decref(j);
    }
    assert_true(v.lines.rows == 8 && v.lines.tokens == 61 && v.lines.trained == 41);
    assert_true(v.has_first && v.has_logged && v.first.ce.mean == 5 && v.logged.ce.mean == 4);
    assert_true(isnan(v.logged.ce.error) && v.first.positions == 7);
}

/* ---- sealed records ---- */

static int write_and_read(void *ctx, rt_err *e)
{
    int rc;
    (void)ctx;
    json_t *j = json_pack("{s:i, s:s}", "a", 1, "b", "text"), *back = NULL;
    rt_hash128 seal;
    if (!j) RT_TRY(rt_fail(e, RT_NOMEM, "the test's own"));
    RT_TRY(rt_checked_json_write(in_dir("record.json"), j, &seal, e));
    RT_TRY(rt_checked_json_read(&back, in_dir("record.json"), e));
    assert_int_equal(json_integer_value(json_object_get(back, "a")), 1);
out:
    json_decref(j);
    json_decref(back);
    return rc;
}

static int64_t refused = -1; /* the allocation that is refused, counted from now; the ones after it are not */

static void *refuse_one(void *ctx, size_t bytes, size_t align)
{
    return refused-- == 0 ? NULL : failing_alloc(ctx, bytes, align);
}

/* A value that got no memory is left out by jansson without a word: the record is then not written. */
static void one_refused_value(void **state)
{
    (void)state;
    const rt_allocator one = { refuse_one, failing_free, NULL };
    rt_eval_result v = { .teacher = true, .positions = 5, .documents = 2 };
    int written = 0;
    rt_json_init();
    allowed = -1;
    rt_allocator_set(&one);
    for (int i = 0; i < 200; i++) {
        rt_err e = { 0 };
        refused = i;
        json_t *j = rt_eval_to_json(3, &v);
        int rc = j ? rt_checked_json_write(in_dir("one.json"), j, NULL, &e) : RT_NOMEM;
        bool met = refused < 0;
        refused = -1;
        if (!met != (rc == RT_OK)) fail_msg("allocation %d: status %d", i, rc);
        written += rc == RT_OK;
        json_decref(j);
        rt_json_forget();
    }
    rt_allocator_set(NULL);
    assert_true(written > 20 && written < 180);
}

/* What the divergence counts with: T^2 times its weight, or the weight alone. */
static void weights_of_the_loss(void **state)
{
    (void)state;
    rt_loss_opts o = { .kd_weight = 0.5, .temperature = 2.0, .t2 = true };
    assert_true(rt_loss_kd_weight(&o) == 2.0);
    o.t2 = false;
    assert_true(rt_loss_kd_weight(&o) == 0.5);
}

static void sealed_records(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_str text = { 0 };
    json_t *j;
    char *path = strdup(in_dir("record.json"));
    assert_int_equal(write_and_read(NULL, &e), RT_OK);
    assert_int_equal(rt_file_read(path, 1 << 20, &text, &e), RT_OK);
    for (size_t i = 0; i < text.len; i++) {
        text.data[i] ^= 1;
        assert_int_equal(rt_file_write(path, text.data, text.len, &e), RT_OK);
        if (rt_checked_json_read(&j, path, &e) != RT_FORMAT) fail_msg("byte %d was not missed", (int)i);
        assert_null(j);
        text.data[i] ^= 1;
    }
    for (size_t n = 0; n < text.len; n += 7) {
        assert_int_equal(rt_file_write(path, text.data, n, &e), RT_OK);
        assert_int_equal(rt_checked_json_read(&j, path, &e), RT_FORMAT);
    }
    put_text("record.json", "{\"a\":1,\"a\":2}"); /* of two answers, which one would it be? */
    assert_int_equal(rt_json_read(&j, path, &e), RT_FORMAT);
    put_text("record.json", "{\"a\":1,\"b\":2}");
    assert_int_equal(rt_json_read(&j, path, &e), RT_OK);
    json_decref(j);
    unlink(path);
    assert_int_equal(rt_checked_json_read(&j, path, &e), RT_NOT_FOUND);
    rt_str_free(&text);
    fail_each(write_and_read, NULL, 0);
    free(path);
}

/* ---- movement ---- */

typedef struct shifted {
    const rt_model_file *m;
    const rt_decoder *d;
    double scale, noise;
    uint32_t still; /* a parameter that stays as it was */
} shifted;

static int shift(void *ctx, uint32_t i, uint64_t first, uint64_t n, float *out, rt_err *e)
{
    const shifted *s = ctx;
    char name[RT_NAME_BYTES];
    const rt_tensor *t = rt_model_file_find(s->m, rt_param_name(name, &s->d->params[i]));
    uint64_t cols = rt_tensor_cols(t);
    (void)e;
    rt_tensor_to_f32(out, t, first / cols, n / cols);
    if (i == s->still) return RT_OK;
    bool matrix = s->d->params[i].value.rows > 1; /* decay is for matrices */
    for (uint64_t k = 0; k < n; k++)
        out[k] = (float)(out[k] * (matrix ? s->scale : 1.0) + s->noise * ((k * 2654435761u >> 7) % 3 - 1.0));
    return RT_OK;
}

static void decay_is_no_movement(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_model_file *m = open_model(in_dir("student"));
    rt_space *space = NULL;
    rt_decoder *d = NULL;
    assert_int_equal(rt_space_new(&space, &e), RT_OK);
    rt_decoder_opts o = { .name = "student", .policy = &rt_policy_f32, .train = true };
    assert_int_equal(rt_decoder_new(&d, space, &m->config, &o, &e), RT_OK);
    bool trained[64];
    for (uint32_t i = 0; i < d->param_count; i++) trained[i] = true;
    shifted s = { m, d, 1.0, 1e-4, UINT32_MAX };
    rt_moved_opts how = {
        .model = d, .trained = trained, .before = m, .weight_decay = 0.01, .after = shift, .ctx = &s
    };
    rt_moved_list l;
    assert_int_equal(rt_moved_measure(&l, &how, &e), RT_OK);
    for (uint32_t i = 0; i < l.count; i++) assert_true(l.list[i].trained > 0 && l.list[i].moved == l.list[i].trained);

    s.scale = 0.99; /* decay, and nothing else */
    s.noise = 0;
    assert_int_equal(rt_moved_measure(&l, &how, &e), RT_OK);
    for (uint32_t i = 0; i < l.count; i++) assert_int_equal(l.list[i].moved, 0);
    how.weight_decay = 0; /* then it is movement, by a hundredth of what was there */
    assert_int_equal(rt_moved_measure(&l, &how, &e), RT_OK);
    for (uint32_t i = 0; i < l.count; i++) {
        bool matrices = strstr(l.list[i].name, "proj.weight") || i == 0;
        assert_int_equal(l.list[i].moved, matrices ? l.list[i].trained : 0);
        assert_true(fabs(l.list[i].change - (matrices ? 0.01 : 0.0)) < 1e-6);
    }

    s.scale = 1.0; /* nothing at all, and what is trained is not rounded as what is frozen would be */
    how.frozen = RT_DTYPE_BF16;
    assert_int_equal(rt_moved_measure(&l, &how, &e), RT_OK);
    for (uint32_t i = 0; i < l.count; i++) assert_int_equal(l.list[i].moved, 0);
    how.frozen = RT_DTYPE_F32;

    how.weight_decay = 0.01; /* one tensor of a group that stands still is seen; and a frozen one that does not */
    s = (shifted){ m, d, 1.0, 1e-4, 3 };
    trained[5] = false;
    assert_int_equal(rt_moved_measure(&l, &how, &e), RT_OK);
    uint32_t missing = 0, broken = 0;
    for (uint32_t i = 0; i < l.count; i++) {
        missing += l.list[i].trained - l.list[i].moved;
        broken += l.list[i].broken;
    }
    assert_int_equal(missing, 1);
    assert_int_equal(broken, 1);
    rt_decoder_free(d);
    rt_space_free(space);
    rt_model_file_close(m);
}

/* ---- defects planted into runs ---- */

static void whole_run(void **state)
{
    (void)state;
    run_case c;
    run_begin(&c, "teacher", "student", "good");
    run_open(&c);
    run_train(&c);
    const rt_findings *f = c.summary.findings;
    assert_int_equal(f->count, RT_FALSIFIER_COUNT);
    verdict_is(f, "F-DISTILL-SMOKE-001", RT_VERDICT_PASS);
    verdict_is(f, "F-DISTILL-V2-001-TEACHER-DIVERGENCE", RT_VERDICT_PASS);
    verdict_is(f, "FT-VOCAB-ALIGN-005", RT_VERDICT_PASS);
    verdict_is(f, "F-RUN-MOVED-001", RT_VERDICT_PASS);
    verdict_is(f, "DBH-001", RT_VERDICT_PASS);
    verdict_is(f, "F-OUTPUT-RELOAD-001", RT_VERDICT_PASS);
    run_end(&c);
}

static float *biases[64]; /* as they began */

/* After every step the biases are put back: a backward that forgot them would do the same. */
static void put_biases_back(void *ctx, const rt_run_line *l)
{
    rt_err e = { 0 };
    rt_trainer *t = (*(rt_run **)ctx)->trainer;
    const rt_decoder *d = t->plan->student;
    (void)l;
    for (uint32_t i = 0; i < d->param_count; i++)
        if (biases[i]) assert_int_equal(rt_trainer_write(t, 'w', i, biases[i], &e), RT_OK);
}

static void frozen_biases(void **state)
{
    (void)state;
    rt_err e = { 0 };
    run_case c;
    run_begin(&c, "teacher", "student", "biases");
    c.events.step = put_biases_back;
    c.events.ctx = &c.run;
    run_open(&c);
    const rt_decoder *d = c.run->trainer->plan->student;
    for (uint32_t i = 0; i < d->param_count; i++) {
        char name[RT_NAME_BYTES];
        if (!strstr(rt_param_name(name, &d->params[i]), ".bias")) continue;
        biases[i] = calloc(rt_trainer_elems(c.run->trainer, i), sizeof(float));
        assert_int_equal(rt_trainer_read(c.run->trainer, 'w', i, biases[i], &e), RT_OK);
    }
    run_train(&c);
    verdict_is(c.summary.findings, "F-RUN-MOVED-001", RT_VERDICT_FAIL);
    assert_non_null(strstr(finding(c.summary.findings, "F-RUN-MOVED-001")->measured, "self_attn.q_proj.bias"));
    verdict_is(c.summary.findings, "DBH-001", RT_VERDICT_PASS);
    for (size_t i = 0; i < sizeof biases / sizeof *biases; i++) free(biases[i]), biases[i] = NULL;
    run_end(&c);
}

/* All micro-batches of a step but the first are empty: a part of the rows is trained, all of them are logged. */
static void rows_not_trained(void **state)
{
    (void)state;
    static int32_t zero[RUN_BATCH * RUN_SEQ], none[RUN_BATCH * RUN_SEQ];
    run_case c;
    run_begin(&c, "teacher", "student", "rows");
    run_open(&c);
    memset(none, 0xff, sizeof none);
    assert_true(c.run->loop.micro_count > 1);
    for (uint32_t i = 1; i < c.run->loop.micro_count; i++)
        c.run->loop.micro[i] = (rt_batch){ zero, zero, zero, none, NULL };
    run_train(&c);
    verdict_is(c.summary.findings, "DBH-001", RT_VERDICT_FAIL);
    verdict_is(c.summary.findings, "F-RUN-MOVED-001", RT_VERDICT_PASS);
    run_end(&c);
}

static void teacher_is_student(void **state)
{
    (void)state;
    run_case c;
    run_begin(&c, "student", "student", "same");
    run_set(&c, RT_SETTING_ID_allow_degenerate, "on");
    run_open(&c);
    run_train(&c);
    verdict_is(c.summary.findings, "F-DISTILL-V2-001-TEACHER-DIVERGENCE", RT_VERDICT_FAIL);
    run_end(&c);
}

static void nothing_learned(void **state)
{
    (void)state;
    run_case c;
    run_begin(&c, NULL, "student", "still");
    run_set(&c, RT_SETTING_ID_lr, "0");
    run_open(&c);
    run_train(&c);
    verdict_is(c.summary.findings, "F-DISTILL-SMOKE-001", RT_VERDICT_FAIL);
    verdict_is(c.summary.findings, "F-RUN-MOVED-001", RT_VERDICT_FAIL);
    run_end(&c);
}

/* Frozen by wish, and adapters: neither is a defect. */
static void frozen_by_wish(void **state)
{
    (void)state;
    run_case c;
    run_begin(&c, NULL, "student", "wish");
    run_set(&c, RT_SETTING_ID_freeze, "*.bias");
    run_open(&c);
    run_train(&c);
    verdict_is(c.summary.findings, "F-RUN-MOVED-001", RT_VERDICT_PASS);
    run_end(&c);
    run_begin(&c, NULL, "student", "adapters");
    run_set(&c, RT_SETTING_ID_lora_rank, "4");
    run_open(&c);
    run_train(&c);
    verdict_is(c.summary.findings, "F-RUN-MOVED-001", RT_VERDICT_PASS);
    verdict_is(c.summary.findings, "F-OUTPUT-RELOAD-001", RT_VERDICT_PASS);
    assert_non_null(strstr(finding(c.summary.findings, "F-RUN-MOVED-001")->measured, "28 tensors in 14 groups"));
    run_end(&c);
}

static int set_up(void **state)
{
    if (make_test_dir(state) != 0) return -1;
    put_run_inputs();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_passes),          cmocka_unit_test(planted_facts),
        cmocka_unit_test(judged_in_pairs),      cmocka_unit_test(reload_tolerance),
        cmocka_unit_test(facts_come_back),      cmocka_unit_test(names_have_room),
        cmocka_unit_test(files_are_listed),     cmocka_unit_test(lines_are_summed),
        cmocka_unit_test(json_without_memory),  cmocka_unit_test(one_refused_value),
        cmocka_unit_test(weights_of_the_loss),  cmocka_unit_test(sealed_records),
        cmocka_unit_test(decay_is_no_movement), cmocka_unit_test(whole_run),
        cmocka_unit_test(frozen_biases),        cmocka_unit_test(rows_not_trained),
        cmocka_unit_test(teacher_is_student),   cmocka_unit_test(nothing_learned),
        cmocka_unit_test(frozen_by_wish),
    };
    return cmocka_run_group_tests(tests, set_up, remove_test_dir);
}
