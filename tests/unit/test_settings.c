/* test_settings.c - the table of settings: parsing, defaults, JSON both ways, the comparison of a resumed run. */
#include "format_case.h"

#include "settings/settings.h"

static void set(rt_settings *s, const char *name, const char *text)
{
    rt_err e = { 0 };
    rt_setting_id id = rt_setting_find(name);
    if (id == RT_SETTING_COUNT_ALL) fail_msg("no setting %s", name);
    if (rt_settings_set(s, id, text, &e) < 0) fail_msg("%s", e.text);
}

static void refused(const char *name, const char *text, const char *words)
{
    rt_settings s = { 0 };
    rt_err e = { 0 };
    rt_setting_id id = rt_setting_find(name);
    assert_int_equal(rt_settings_set(&s, id, text, &e), RT_USAGE);
    assert_says(&e, words);
    assert_false(s.given[id]);
}

static void test_table(void **state)
{
    (void)state;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const rt_setting_info *f = &rt_setting_table[i];
        char dashed[64];
        size_t n = strlen(f->field);
        memcpy(dashed, f->field, n + 1);
        for (size_t k = 0; k < n; k++)
            if (dashed[k] == '_') dashed[k] = '-';
        /* one name in two spellings; the flag is the field with dashes */
        assert_string_equal(f->flag + 2, dashed);
        assert_int_equal(rt_setting_find(f->field), i);
        assert_int_equal(rt_setting_find(f->flag), i);
        assert_int_equal(rt_setting_find(dashed), i);
        assert_true((f->kind == RT_SETTING_SWITCH) == (f->metavar == NULL));
        /* help stands alone */
        bool name = strncmp(f->help, "cuBLASLt", 8) == 0;
        if (!name && (f->help[0] < 'A' || f->help[0] > 'Z')) fail_msg("%s: '%s'", f->flag, f->help);
        assert_true(f->offset < sizeof(rt_settings));
    }
    assert_int_equal(rt_setting_find("kd-weigh"), RT_SETTING_COUNT_ALL);
    assert_int_equal(rt_setting_find("kd-weights"), RT_SETTING_COUNT_ALL);
    assert_int_equal(rt_setting_find(""), RT_SETTING_COUNT_ALL);
}

static void test_parsing(void **state)
{
    (void)state;
    rt_settings s = { 0 };
    set(&s, "teacher", "t");
    set(&s, "data", "a");
    set(&s, "data", "b,weight=0.3");
    set(&s, "lr", "3e-4");
    set(&s, "seed", "18446744073709551615");
    set(&s, "lora", "on");
    assert_string_equal(s.teacher.text[0], "t");
    assert_int_equal(s.data.count, 2);
    assert_string_equal(s.data.text[1], "b,weight=0.3");
    assert_true(s.lr == 3e-4 && s.seed == UINT64_MAX && s.lora);
    set(&s, "lora", "off");
    assert_false(s.lora);
    assert_true(s.given[RT_SETTING_ID_lora] && !s.given[RT_SETTING_ID_student]);
    refused("--lr", "fast", "--lr|number|'fast'");
    refused("--lr", "nan", "--lr");
    refused("--lr", "inf", "--lr");
    refused("--lr", "", "--lr");
    refused("--lr", "1e-4x", "--lr");
    refused("--batch", "3.5", "--batch|whole number|'3.5'");
    refused("--batch", "-1", "--batch");
    refused("--batch", " -1", "--batch");
    refused("--batch", "+1", "--batch");
    refused("--batch", "18446744073709551616", "--batch");
    refused("--batch", "", "--batch");
    refused("--merge", "maybe", "--merge|on or off|'maybe'");
}

static void test_share(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t total, want;
    } good[] = { { "12", 100, 12 },  { "5%", 100, 5 },   { "5%", 1, 1 },        { "0.1%", 100, 1 }, { "0", 100, 0 },
                 { "2.5%", 200, 5 }, { "100%", 37, 37 }, { "1000", 100, 1000 }, { "0%", 100, 0 },   { "5%", 0, 1 } };
    static const char *const bad[] = { "-1", "101%", "1.5", "5 %", "5%%", "%", "", "five", "nan", "inf", "1e30" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        rt_settings s = { 0 };
        set(&s, "warmup", good[i].text);
        uint64_t n = rt_share_of(s.warmup, good[i].total);
        if (n != good[i].want) fail_msg("%s of %d is %d", good[i].text, (int)good[i].total, (int)n);
        json_t *j = rt_settings_to_json(&s);
        assert_string_equal(json_string_value(json_object_get(j, "warmup")), good[i].text);
        json_decref(j);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) refused("--warmup", bad[i], "--warmup|whole number|5%");
}

/* Values of their own type are given like those from text, and forgotten again. */
static void test_typed(void **state)
{
    (void)state;
    rt_settings s = { 0 };
    RT_SETTINGS_PUT(&s, lr, 0.1);
    RT_SETTINGS_PUT(&s, seed, UINT64_MAX);
    RT_SETTINGS_PUT(&s, out, "o");
    RT_SETTINGS_PUT(&s, warmup, ((rt_share){ .value = 30 }));
    RT_SETTINGS_PUT(&s, held_out, ((rt_share){ 4.26667, true }));
    json_t *j = rt_settings_to_json(&s);
    char *text = json_dumps(j, JSON_REAL_PRECISION(17));
    assert_string_equal(text, "{\"out\": \"o\", \"lr\": 0.10000000000000001, \"warmup\": \"30\", \"held_out\": "
                              "\"4.26667%\", \"seed\": \"18446744073709551615\"}");
    rt_free(text);
    json_decref(j);
    rt_settings_forget(&s, RT_SETTING_ID_lr);
    rt_settings_forget(&s, RT_SETTING_ID_out);
    assert_true(!s.given[RT_SETTING_ID_lr] && s.lr == 0 && !s.out && s.given[RT_SETTING_ID_seed]);
}

/* ---- needs ---- */

static void needs(const char *name, const char *text, const char *words)
{
    rt_settings s = { 0 };
    rt_err e = { 0 };
    bool said[RT_SETTING_COUNT_ALL];
    set(&s, name, text);
    memcpy(said, s.given, sizeof said);
    assert_int_equal(rt_settings_defaults(&s, &e), RT_OK);
    assert_int_equal(rt_settings_check_needs(&s, said, &e), words ? RT_USAGE : RT_OK);
    if (words) assert_string_equal(e.text, words);
    /* with everything that anything needs, nothing is missing, but for the divergence that it is not */
    set(&s, "teacher", "t");
    set(&s, "lora", "on");
    set(&s, "schedule", "wsd");
    if (strcmp(name, "divergence") != 0) set(&s, "divergence", strcmp(name, "skew") == 0 ? "skew-reverse" : "jsd");
    assert_int_equal(rt_settings_check_needs(&s, said, &e), RT_OK);
    /* and what was not said now is not refused: an old record may hold it */
    rt_settings_forget(&s, RT_SETTING_ID_teacher);
    memset(said, 0, sizeof said);
    assert_int_equal(rt_settings_check_needs(&s, said, &e), RT_OK);
}

static void test_needs(void **state)
{
    (void)state;
    needs("control", "on", "--control needs --teacher");
    needs("kd_weight", "1", "--kd-weight needs --teacher");
    needs("temperature", "2", "--temperature needs --teacher");
    needs("teacher_batch", "4", "--teacher-batch needs --teacher");
    needs("teacher_weights", "bf16", "--teacher-weights needs --teacher");
    needs("divergence", "tv", "--divergence needs --teacher");
    needs("allow_degenerate", "on", "--allow-degenerate needs --teacher");
    needs("beta", "0.3", "--beta needs --divergence jsd");
    needs("skew", "0.3", "--skew needs --divergence skew-forward or skew-reverse");
    needs("decay", "5%", "--decay needs --schedule wsd");
    /* the default of what is chosen elsewhere is a wish where nothing was chosen */
    needs("beta", "0.5", "--beta needs --divergence jsd");
    needs("skew", "0.1", "--skew needs --divergence skew-forward or skew-reverse");
    needs("decay", "20%", "--decay needs --schedule wsd");
    needs("merge", "on", "--merge needs --lora");
    needs("lora_alpha", "8", "--lora-alpha needs --lora");
    needs("lora_targets", "q", "--lora-targets needs --lora");
    /* what asks for nothing needs nothing: defaults, and what a run without a teacher records */
    static const char *const idle[][2] = {
        { "temperature", "1.0" }, { "divergence", "forward-kl" }, { "lora_targets", "all" },
        { "merge", "off" },       { "kd_weight", "0" },           { "teacher_weights", "auto" },
        { "t2", "on" },           { "ce_weight", "1" },           { "lora_rank", "8" }
    };
    for (size_t i = 0; i < sizeof idle / sizeof *idle; i++) needs(idle[i][0], idle[i][1], NULL);
    /* beside another choice it is at rest, as in the record of a run */
    rt_settings s = { 0 };
    rt_err e = { 0 };
    set(&s, "teacher", "t");
    set(&s, "divergence", "forward-kl");
    set(&s, "beta", "0.5");
    assert_int_equal(rt_settings_check_needs(&s, s.given, &e), RT_OK);
    /* a rank is a wish for adapters */
    s = (rt_settings){ 0 };
    set(&s, "lora_rank", "8");
    set(&s, "merge", "on");
    assert_int_equal(rt_settings_defaults(&s, &e), RT_OK);
    assert_int_equal(rt_settings_check_needs(&s, s.given, &e), RT_OK);
}

static void test_rests_on(void **state)
{
    (void)state;
    uint32_t count = 0;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        bool rests = rt_setting_rests_on((rt_setting_id)i, RT_SETTING_ID_teacher);
        if (rt_setting_table[i].need == RT_NEED_TEACHER) assert_true(rests);
        count += rests;
    }
    /* by way of --divergence, too, and itself; 3 more than those that need it at once */
    assert_true(rt_setting_rests_on(RT_SETTING_ID_beta, RT_SETTING_ID_teacher));
    assert_true(rt_setting_rests_on(RT_SETTING_ID_skew, RT_SETTING_ID_teacher));
    assert_true(rt_setting_rests_on(RT_SETTING_ID_teacher, RT_SETTING_ID_teacher));
    assert_true(rt_setting_rests_on(RT_SETTING_ID_merge, RT_SETTING_ID_lora));
    assert_false(rt_setting_rests_on(RT_SETTING_ID_merge, RT_SETTING_ID_teacher));
    assert_false(rt_setting_rests_on(RT_SETTING_ID_ce_weight, RT_SETTING_ID_teacher));
    assert_int_equal(count, 13);
}

static void test_list_is_bounded(void **state)
{
    (void)state;
    rt_settings s = { 0 };
    rt_err e = { 0 };
    for (int i = 0; i < RT_SETTING_WORDS; i++) set(&s, "freeze", "x");
    assert_int_equal(rt_settings_set(&s, RT_SETTING_ID_freeze, "x", &e), RT_USAGE);
    assert_says(&e, "--freeze|64");
}

/* The defaults that the issue names; those that depend on something are left open. */
static void test_defaults(void **state)
{
    (void)state;
    rt_settings s = { 0 };
    rt_err e = { 0 };
    set(&s, "temperature", "2");
    assert_int_equal(rt_settings_defaults(&s, &e), RT_OK);
    assert_string_equal(s.divergence, "forward-kl");
    assert_true(s.temperature == 2.0 && s.alpha == 0.9 && s.weight_decay == 0.01 && s.max_grad_norm == 1.0);
    assert_string_equal(s.betas, "0.9,0.95");
    assert_string_equal(s.schedule, "cosine");
    assert_true(s.lr_floor == 0.1 && !s.given[RT_SETTING_ID_batch] && s.keep == 2 && s.seed == 0);
    assert_true(!s.given[RT_SETTING_ID_eval_every] && s.save_every.value == 10 && s.save_every.percent);
    assert_string_equal(s.save, "best");
    assert_string_equal(s.lora_targets, "all");
    assert_null(s.recompute); /* chosen to fit */
    assert_string_equal(s.t2, "on");
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const char *def = rt_setting_table[i].def;
        bool fixed = *def && strcmp(def, "auto") != 0;
        if (s.given[i] != fixed && i != RT_SETTING_ID_temperature) fail_msg("%s", rt_setting_table[i].flag);
    }
    s = (rt_settings){ 0 };
    rt_settings_defaults(&s, &e);
    assert_true(s.temperature == 1.0);
}

/* A value for every setting, so that a new one is covered too. */
static void fill_all(rt_settings *s)
{
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        static const char *const values[] = {
            [RT_SETTING_TEXT] = "a word", [RT_SETTING_LIST] = "one",    [RT_SETTING_REAL] = "0.1234567890123456",
            [RT_SETTING_COUNT] = "7",     [RT_SETTING_SHARE] = "12.5%", [RT_SETTING_SWITCH] = "on",
            [RT_SETTING_TEXTS] = "one"
        };
        set(s, rt_setting_table[i].field, values[rt_setting_table[i].kind]);
        if (rt_setting_repeats(rt_setting_table[i].kind)) set(s, rt_setting_table[i].field, "two, 2");
    }
    set(s, "seed", "18446744073709551615");
}

static void test_json_both_ways(void **state)
{
    (void)state;
    rt_settings a = { 0 }, b = { 0 };
    rt_arena arena = { 0 };
    rt_str diff = { 0 };
    rt_err e = { 0 };
    fill_all(&a);
    json_t *j = rt_settings_to_json(&a);
    assert_int_equal(json_object_size(j), RT_SETTING_COUNT_ALL);
    char *text = json_dumps(j, JSON_REAL_PRECISION(17));
    json_t *back = json_loads(text, 0, NULL);
    if (rt_settings_from_json(&b, back, &arena, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_settings_diff(&a, &b, RT_BIND_FREE, &diff), 0);
    if (diff.len) fail_msg("%s", diff.data);
    assert_true(b.seed == UINT64_MAX && b.lr == a.lr && b.freeze.count == 2);
    assert_string_equal(b.freeze.text[1], "two, 2");
    rt_free(text);
    json_decref(j);
    json_decref(back);
    /* nothing given: nothing written */
    a = (rt_settings){ 0 };
    j = rt_settings_to_json(&a);
    assert_int_equal(json_object_size(j), 0);
    json_decref(j);
    rt_arena_free(&arena);
    rt_str_free(&diff);
}

static int from_text(const char *text, rt_settings *s, rt_err *e)
{
    rt_arena a = { 0 };
    *s = (rt_settings){ 0 };
    rt_json_init();
    json_t *j = json_loads(text, 0, NULL);
    assert_non_null(j);
    int rc = rt_settings_from_json(s, j, &a, e);
    json_decref(j);
    rt_arena_free(&a);
    return rc;
}

/* Records of runs that began when --tune was a switch, and off. */
/* One teacher is a text in the record of a run, as it has always been, and several are a list; both are read. */
static void test_several_texts(void **state)
{
    (void)state;
    rt_arena arena = { 0 };
    rt_err e = { 0 };
    rt_str yaml = { 0 }, diff = { 0 };
    for (int count = 1; count < 3; count++) {
        rt_settings a = { 0 }, b = { 0 }, c = { 0 };
        set(&a, "teacher", "org/big");
        if (count > 1) set(&a, "teacher", "small,weight=0.3,data=code.jsonl");
        json_t *j = rt_settings_to_json(&a);
        assert_true(count > 1 ? json_is_array(json_object_get(j, "teacher"))
                              : json_is_string(json_object_get(j, "teacher")));
        if (rt_settings_from_json(&b, j, &arena, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(rt_settings_diff(&a, &b, RT_BIND_FREE, &diff), 0);
        if (rt_settings_to_yaml(&a, &yaml, &e) < 0) fail_msg("%s", e.text);
        if (rt_settings_from_yaml(&c, yaml.data, yaml.len, "a", &arena, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(rt_settings_diff(&a, &c, RT_BIND_FREE, &diff), 0);
        assert_int_equal(c.teacher.count, count);
        set(&c, "teacher", "another");
        assert_int_equal(rt_settings_diff(&a, &c, RT_BIND_FREE, &diff), 1);
        json_decref(j);
        rt_str_free(&yaml);
        rt_str_free(&diff);
    }
    rt_arena_free(&arena);
}

static void test_older_records(void **state)
{
    static const char *const cases[][2] = {
        { "{}", "off" }, { "{\"tune\": true}", "on" }, { "{\"tune\": false}", "off" }, { "{\"tune\": \"all\"}", "all" }
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_settings s = { 0 };
        rt_arena a = { 0 };
        rt_err e = { 0 };
        rt_json_init();
        json_t *j = json_loads(cases[i][0], 0, NULL);
        assert_int_equal(rt_settings_from_record(&s, j, &a, &e), RT_OK);
        assert_string_equal(s.tune, cases[i][1]);
        json_decref(j);
        rt_arena_free(&a);
    }
}

static void test_json_refused(void **state)
{
    (void)state;
    rt_settings s;
    rt_err e = { 0 };
    assert_int_equal(from_text("{\"kd_weigth\": 1}", &s, &e), RT_INVALID);
    assert_says(&e, "'kd_weigth'|did you mean kd_weight?");
    assert_int_equal(from_text("{\"zzzzzzzzzzzzzz\": 1}", &s, &e), RT_INVALID);
    assert_null(strstr(e.text, "mean"));
    assert_int_equal(from_text("[1]", &s, &e), RT_INVALID);
    assert_int_equal(from_text("{\"lr\": [1]}", &s, &e), RT_INVALID);
    assert_says(&e, "lr|one value");
    assert_int_equal(from_text("{\"lr\": {}}", &s, &e), RT_INVALID);
    assert_int_equal(from_text("{\"data\": [[1]]}", &s, &e), RT_INVALID);
    assert_says(&e, "data");
    static const char *const kinds[] = { "{\"batch\": 1.5}", "{\"batch\": -4}", "{\"lora\": 1}",  "{\"out\": 3}",
                                         "{\"lr\": true}",   "{\"data\": [1]}", "{\"warmup\": 3}" };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        assert_int_equal(from_text(kinds[i], &s, &e), RT_INVALID);
        assert_says(&e, " takes ");
    }
    assert_int_equal(from_text("{\"lr\": null, \"kd-weight\": 1, \"lora\": true}", &s, &e), RT_OK);
    assert_true(!s.given[RT_SETTING_ID_lr] && s.kd_weight == 1.0 && s.lora);
}

static void test_diff(void **state)
{
    (void)state;
    rt_settings was = { 0 }, now = { 0 };
    rt_str out = { 0 };
    set(&was, "lr", "1e-4");
    set(&was, "data", "a");
    set(&was, "keep", "2");
    /* what is not given now stays, and is no difference */
    assert_int_equal(rt_settings_diff(&was, &now, RT_BIND_FREE, &out), 0);
    assert_int_equal(out.len, 0);
    set(&now, "lr", "0.0001");
    assert_int_equal(rt_settings_diff(&was, &now, RT_BIND_FREE, &out), 0);
    assert_int_equal(out.len, 0);
    set(&now, "lr", "2e-4");
    set(&now, "keep", "5"); /* free */
    set(&now, "seed", "9"); /* bound, not given before */
    set(&now, "data", "a");
    set(&now, "data", "b");
    assert_int_equal(rt_settings_diff(&was, &now, RT_BIND_FREE, &out), 3);
    assert_non_null(strstr(out.data, "--lr: was 0.0001, now 0.0002"));
    assert_non_null(strstr(out.data, "--keep: was 2, now 5"));
    assert_non_null(strstr(out.data, "--seed: was not given, now 9"));
    assert_non_null(strstr(out.data, "--data: was [\"a\"], now [\"a\",\"b\"]"));
    /* what tokens are made from is told apart */
    rt_str_free(&out);
    out = (rt_str){ 0 };
    assert_int_equal(rt_settings_diff(&was, &now, RT_BIND_TOKENS, &out), 1);
    assert_string_equal(out.data, "--data: was [\"a\"], now [\"a\",\"b\"]");
    rt_str_free(&out);
}

static int print_settings(void *ctx, rt_err *e)
{
    json_t *j = rt_settings_to_json(ctx);
    if (!j) return rt_fail(e, RT_NOMEM, "no memory");
    json_decref(j);
    return RT_OK;
}

static int read_settings(void *ctx, rt_err *e)
{
    static const char *const text =
        "{\"lr\": 0.1, \"batch\": 4, \"data\": [\"a\", \"b\"], \"out\": \"o\", \"lora\": true}";
    rt_settings s = { 0 };
    rt_arena a = { 0 };
    (void)ctx;
    json_t *j = json_loads(text, 0, NULL);
    int rc = j ? rt_settings_from_json(&s, j, &a, e) : rt_fail(e, RT_NOMEM, "no memory");
    json_decref(j);
    rt_arena_free(&a);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    rt_settings s = { 0 };
    fill_all(&s);
    fail_each(print_settings, &s, 0);
    fail_each(read_settings, NULL, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_table),
        cmocka_unit_test(test_parsing),
        cmocka_unit_test(test_share),
        cmocka_unit_test(test_typed),
        cmocka_unit_test(test_needs),
        cmocka_unit_test(test_rests_on),
        cmocka_unit_test(test_list_is_bounded),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_several_texts),
        cmocka_unit_test(test_json_both_ways),
        cmocka_unit_test(test_older_records),
        cmocka_unit_test(test_json_refused),
        cmocka_unit_test(test_diff),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
