/* cmd_distill.c - `retort distill`, `retort train` and `retort plan`: the settings' table as flags, a device, a run. */
#include "cli/cli.h"
#include "cli/device_arg.h"
#include "cli/model_arg.h"
#include "cli/progress.h"
#include "cli/run_print.h"
#include "cli/version.h"

#include "job/device.h"
#include "job/run/run_cost.h"
#include "settings/settings_yaml.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef enum kind { DISTILL, TRAIN, PLAN } kind; /* a plan takes a teacher and does without one */

/* What a run without a teacher has no use for. */
static bool needs_teacher(rt_setting_id id)
{
    switch (id) {
    case RT_SETTING_ID_teacher:
    case RT_SETTING_ID_teacher_batch:
    case RT_SETTING_ID_teacher_weights:
    case RT_SETTING_ID_divergence:
    case RT_SETTING_ID_beta:
    case RT_SETTING_ID_skew:
    case RT_SETTING_ID_temperature:
    case RT_SETTING_ID_alpha:
    case RT_SETTING_ID_kd_weight:
    case RT_SETTING_ID_ce_weight:
    case RT_SETTING_ID_t2:
    case RT_SETTING_ID_control:
    case RT_SETTING_ID_allow_degenerate: return true;
    default: return false;
    }
}

/* Flags as words, so that settings.h alone knows what a value may be. */
typedef struct flag_values {
    rt_words words[RT_SETTING_COUNT_ALL];
    bool on[RT_SETTING_COUNT_ALL];
    bool resume, override, fit, smoke;
    bool json, ops; /* of a plan */
    const char *config;
    rt_flag flags[RT_SETTING_COUNT_ALL + 6];
    char help[RT_SETTING_COUNT_ALL][200];
} flag_values;

static void make_flags(flag_values *v, kind k)
{
    uint32_t n = 0;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const rt_setting_info *f = &rt_setting_table[i];
        if (k == TRAIN && needs_teacher((rt_setting_id)i)) continue;
        bool show = *f->def && strcmp(f->def, "auto") != 0;
        snprintf(v->help[i], sizeof v->help[i], "%s%s%s%s", f->help, show ? " (" : "", show ? f->def : "",
                 show ? ")" : "");
        v->flags[n++] = (rt_flag){ f->flag, f->kind == RT_SETTING_SWITCH ? RT_FLAG_BOOL : RT_FLAG_LIST,
                                   f->kind == RT_SETTING_SWITCH ? (void *)&v->on[i] : (void *)&v->words[i], f->metavar,
                                   v->help[i] };
    }
    v->flags[n++] = (rt_flag){ "--config", RT_FLAG_TEXT, &v->config, "FILE",
                               "settings from a YAML file, by the names of the flags; the command line wins" };
    v->flags[n++] = (rt_flag){ "--fit", RT_FLAG_BOOL, &v->fit, NULL,
                               "choose --micro-batch, --recompute and --teacher-weights to fit; so it is where they "
                               "are not given, and with --resume they are chosen again" };
    if (k == PLAN) {
        v->flags[n++] = (rt_flag){ "--ops", RT_FLAG_BOOL, &v->ops, NULL, "also list every op of every program" };
        v->flags[n++] = (rt_flag){ "--json", RT_FLAG_BOOL, &v->json, NULL, "print the facts as JSON" };
        return;
    }
    v->flags[n++] = (rt_flag){ "--smoke", RT_FLAG_BOOL, &v->smoke, NULL,
                               "time ten steps, say how long the run would take, leave nothing behind" };
    v->flags[n++] = (rt_flag){ "--resume", RT_FLAG_BOOL, &v->resume, NULL, "go on with the run in --out" };
    v->flags[n++] = (rt_flag){ "--override", RT_FLAG_BOOL, &v->override, NULL,
                               "with --resume: take the settings given now where they differ" };
}

static int take_settings(rt_settings *s, const flag_values *v, const char *command, rt_err *e)
{
    int rc = RT_OK;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const rt_words *w = &v->words[i];
        if (v->on[i]) RT_TRY(rt_settings_set(s, (rt_setting_id)i, "on", e));
        if (w->count > 1 && rt_setting_table[i].kind != RT_SETTING_LIST)
            RT_TRY(rt_fail(e, RT_USAGE, "%s is given twice", rt_setting_table[i].flag));
        for (uint32_t k = 0; k < w->count; k++) RT_TRY(rt_settings_set(s, (rt_setting_id)i, w->text[k], e));
    }
out:
    if (rc < 0) rt_err_context(e, "retort %s", command);
    return rc;
}

/* A resumed run stays on its device, unless another one is named now. A file that cannot be read is told of when the
 * run is opened. */
static const char *device_of_run(const rt_settings *s, rt_arena *a)
{
    char *path = s->out ? rt_arena_printf(a, "%s/run/settings.json", s->out) : NULL;
    json_t *j = path ? json_load_file(path, 0, NULL) : NULL;
    const char *name = json_string_value(json_object_get(j, "device"));
    if (name) name = rt_arena_strdup(a, name);
    json_decref(j);
    return name;
}

/* The file's settings, with those of the command line over them. Strings live in a. */
static int take_config(rt_settings *s, const char *path, kind k, bool quiet, rt_arena *a, rt_err *e)
{
    static rt_settings file;
    rt_settings_aliases used = { 0 };
    int rc = rt_settings_from_yaml_file(&file, path, a, &used, e);
    if (rc < 0) return rc;
    for (uint32_t i = 0; !quiet && i < used.count; i++) printf("config    %s\n", used.items[i].text);
    for (int i = 0; k == TRAIN && i < RT_SETTING_COUNT_ALL; i++)
        if (file.given[i] && needs_teacher((rt_setting_id)i))
            return rt_fail(e, RT_INVALID, "%s: %s needs a teacher; retort distill has one", path,
                           rt_setting_table[i].field);
    rt_settings_overlay(&file, s);
    *s = file;
    return RT_OK;
}

static int open_device(rt_dev **out, const rt_settings *s, const flag_values *v, rt_err *e)
{
    rt_arena a = { 0 };
    rt_dev_opts o;
    const char *name = s->given[RT_SETTING_ID_device] ? s->device : v->resume ? device_of_run(s, &a) : NULL;
    int rc = rt_settings_device(&o, s, &a, e);
    if (rc >= 0) rc = rt_device_arg_open(out, name, &o, !v->json, e);
    rt_arena_free(&a);
    return rc;
}

static int run(rt_settings *s, const flag_values *v, rt_err *e)
{
    int rc;
    rt_dev *dev = NULL;
    rt_run *r = NULL;
    rt_run_summary summary;
    rt_run_printer printer;
    rt_hub_env env = rt_hub_env_get();
    rt_run_printer_begin(&printer);
    rt_run_events events = rt_run_printer_events(&printer);
    RT_TRY(open_device(&dev, s, v, e));
    rt_run_opts o = { .env = &env,
                      .events = &events,
                      .resume = v->resume,
                      .override = v->override,
                      .fit = v->fit,
                      .smoke = v->smoke,
                      .scratch = getenv("TMPDIR"),
                      .now = (int64_t)time(NULL),
                      .dev = dev,
                      .version = RT_VERSION,
                      .build = RT_BUILD_ID };
    rt_interrupt_catch();
    RT_TRY(rt_run_open(&r, s, &o, e));
    RT_TRY(rt_run_train(r, &summary, e));
    rt_device_arg_end(dev);
    if (!summary.smoke) rt_run_print_summary(&printer, r, &summary, s);
out:
    if (rc < 0 && printer.dirty) printf("\n");
    rt_run_close(r);
    if (dev) dev->api->close(dev);
    return rc;
}

/* What it would be, and nothing of it done. */
static int plan(rt_settings *s, const flag_values *v, rt_err *e)
{
    int rc;
    rt_dev *dev = NULL;
    rt_run *r = NULL;
    rt_run_cost cost;
    rt_run_printer printer;
    rt_str text = { 0 };
    rt_hub_env env = rt_hub_env_get();
    rt_run_printer_begin(&printer);
    printer.plan = true;
    rt_run_events events = rt_run_printer_events(&printer);
    if (v->json) events = (rt_run_events){ .stop = events.stop, .ctx = events.ctx };
    RT_TRY(open_device(&dev, s, v, e));
    rt_run_opts o = { .env = &env,
                      .events = &events,
                      .fit = v->fit,
                      .dry = true,
                      .scratch = getenv("TMPDIR"),
                      .now = (int64_t)time(NULL),
                      .dev = dev,
                      .version = RT_VERSION };
    rt_interrupt_catch();
    RT_TRY(rt_run_open(&r, s, &o, e));
    RT_TRY(rt_run_cost_new(&cost, r, e));
    RT_TRY(rt_run_cost_time(&cost, r, e));
    if (v->json) {
        RT_TRY(rt_print_json(rt_run_cost_json(&cost, r), e));
    } else {
        RT_TRY(rt_run_cost_text(&cost, r, v->ops, &text, e));
        fputs(text.data, stdout);
    }
    if (!rt_run_fitted(r)->fits) rc = rt_fail(e, RT_NOMEM, "the run does not fit");
out:
    rt_str_free(&text);
    rt_run_close(r);
    if (dev) dev->api->close(dev);
    return rc;
}

static int command(const char *name, kind k, const char *usage, const char *text, const char *example, int argc,
                   char **argv, rt_err *e)
{
    static flag_values v;
    static rt_settings s;
    rt_arena arena = { 0 };
    bool help;
    make_flags(&v, k);
    const rt_command c = { .name = name, .usage = usage, .text = text, .example = example, .flags = v.flags };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    RT_TRY(take_settings(&s, &v, name, e));
    if (v.config) RT_TRY(take_config(&s, v.config, k, v.json, &arena, e));
    if (v.override && !v.resume)
        RT_TRY(rt_fail(e, RT_USAGE,
                       "retort %s: --override changes the settings of a run that goes on; it needs --resume", name));
    if (k == DISTILL && !v.resume && !s.teacher)
        RT_TRY(rt_fail(e, RT_USAGE, "retort distill: --teacher is missing; retort train learns without one"));
    if (v.smoke && v.resume)
        RT_TRY(rt_fail(e, RT_USAGE, "--smoke times a new run, and --resume goes on with one; give one of them"));
    RT_TRY(k == PLAN ? plan(&s, &v, e) : run(&s, &v, e));
out:
    rt_arena_free(&arena);
    return rc;
}

int rt_cmd_distill(int argc, char **argv, rt_err *e)
{
    return command(
        "distill", DISTILL, "retort distill --teacher T --student S --data D --out O [flags]",
        "Trains the student to give the teacher's probabilities, on every trained position of the data, and\n"
        "writes it to O as a model that other tools load. The run can be stopped with Ctrl-C and resumed to\n"
        "the same bits with --resume.",
        "retort distill --teacher Qwen/Qwen2.5-7B --student Qwen/Qwen2.5-0.5B --data chats.jsonl --out out", argc, argv,
        e);
}

int rt_cmd_train(int argc, char **argv, rt_err *e)
{
    return command("train", TRAIN, "retort train --student S --data D --out O [flags]",
                   "Trains a model on text alone: the same loop as distill, with cross-entropy as its loss.",
                   "retort train --student out --data more.jsonl --out better", argc, argv, e);
}

int rt_cmd_plan(int argc, char **argv, rt_err *e)
{
    return command(
        "plan", PLAN, "retort plan [--teacher T] --student S --data D [flags]",
        "Says what a run with these flags would cost before it begins: memory and the op where it is highest,\n"
        "arithmetic, time from rates measured on this machine, disk, and whether it fits. Nothing is trained,\n"
        "no weights are loaded and nothing is left behind; what a run allocates is what its plan says. Exits\n"
        "with 13 when the run does not fit.",
        "retort plan --teacher Qwen/Qwen2.5-7B --student Qwen/Qwen2.5-0.5B --data chats.jsonl --memory-limit 22GiB",
        argc, argv, e);
}
