/* run_case.h - for tests of whole runs: two tiny models, a text, a run into a folder with few flags. */
#ifndef RT_TESTS_RUN_CASE_H
#define RT_TESTS_RUN_CASE_H

#include "job/run/run_internal.h"
#include "train_case.h"

enum { RUN_STEPS = 12, RUN_SEQ = 32, RUN_BATCH = 4 };

/* Texts in which every next letter follows from the one before it, so that there is something to learn. */
static inline void put_run_texts(const char *name, uint32_t records)
{
    rt_str s = { 0 };
    for (uint32_t i = 0; i < records; i++) {
        rt_str_append(&s, "{\"text\": \"");
        for (uint32_t k = 0; k < 20 + i % 5; k++) rt_str_printf(&s, "%c", 'a' + (int)((i * i + k * 5) % 26));
        rt_str_append(&s, "\"}\n");
    }
    put_file(name, s.data, s.len);
    rt_str_free(&s);
}

/* Models "student" and "teacher", the text "text.jsonl", in the test's folder. */
static inline void put_run_inputs(void)
{
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    write_model(in_dir("student"), &c, RT_DTYPE_F32, false);
    c = tiny_config("tiny-llama", 2);
    write_model(in_dir("teacher"), &c, RT_DTYPE_F32, false);
    put_run_texts("text.jsonl", 96);
}

typedef struct run_case {
    rt_settings settings;
    rt_run_events events;
    rt_run_opts opts;
    rt_arena arena;
    rt_dev *dev;
    rt_run *run;
    rt_run_summary summary;
} run_case;

static inline void run_set(run_case *c, rt_setting_id id, const char *text)
{
    rt_err e = { 0 };
    char *copy = rt_arena_strdup(&c->arena, text);
    assert_non_null(copy);
    if (rt_settings_set(&c->settings, id, copy, &e) < 0) fail_msg("%s", e.text);
}

/* Settings only; more may be set before run_open. teacher null: none. */
static inline void run_begin(run_case *c, const char *teacher, const char *student, const char *out)
{
    *c = (run_case){ 0 };
    if (teacher) run_set(c, RT_SETTING_ID_teacher, in_dir(teacher));
    run_set(c, RT_SETTING_ID_student, in_dir(student));
    run_set(c, RT_SETTING_ID_data, in_dir("text.jsonl"));
    run_set(c, RT_SETTING_ID_out, in_dir(out));
    run_set(c, RT_SETTING_ID_steps, "12");
    run_set(c, RT_SETTING_ID_batch, "4");
    run_set(c, RT_SETTING_ID_micro_batch, "2");
    run_set(c, RT_SETTING_ID_seq_len, "32");
    run_set(c, RT_SETTING_ID_lr, "0.01");
    run_set(c, RT_SETTING_ID_threads, "1");
    run_set(c, RT_SETTING_ID_eval_every, "6");
    run_set(c, RT_SETTING_ID_save_every, "6");
}

static inline void run_open(run_case *c)
{
    rt_err e = { 0 };
    static const rt_hub_env env;
    c->dev = open_device("cpu", 1);
    c->opts.env = &env;
    c->opts.events = &c->events;
    c->opts.dev = c->dev;
    c->opts.version = "test";
    if (rt_run_open(&c->run, &c->settings, &c->opts, &e) < 0) fail_msg("%s", e.text);
}

static inline void run_train(run_case *c)
{
    rt_err e = { 0 };
    if (rt_run_train(c->run, &c->summary, &e) < 0) fail_msg("%s", e.text);
}

static inline void run_end(run_case *c)
{
    rt_run_close(c->run);
    c->dev->api->close(c->dev);
    rt_arena_free(&c->arena);
}

static inline const rt_finding *finding(const rt_findings *f, const char *id)
{
    for (uint32_t i = 0; i < f->count; i++)
        if (strcmp(f->list[i].id, id) == 0) return &f->list[i];
    return NULL;
}

static inline void verdict_is(const rt_findings *f, const char *id, rt_verdict want)
{
    const rt_finding *k = finding(f, id);
    if (!k)
        fail_msg("%s was not judged", id);
    else if (k->verdict != want)
        fail_msg("%s: %s, not %s: %s", id, rt_verdict_name(k->verdict), rt_verdict_name(want), k->measured);
}

#endif
