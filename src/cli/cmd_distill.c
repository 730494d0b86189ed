/* cmd_distill.c - `retort distill`, `retort train` and `retort plan`: the settings' table as flags, a device, a run. */
#include "base/file.h"
#include "cli/cli.h"
#include "job/run/run_cost.h"
#include "settings/settings.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Flags as words, so that settings.h alone knows what a value may be. */
typedef struct flag_values {
    rt_words words[RT_SETTING_COUNT_ALL];
    bool on[RT_SETTING_COUNT_ALL];
    rt_job_run_opts o;
    bool json, ops; /* ops: of a plan */
    bool quiet;
    uint32_t log_every, devices, restarts;
    const char *config;
    rt_flag flags[RT_SETTING_COUNT_ALL + 11];
    rt_words alias[RT_SETTINGS_NOTES]; /* by index, as other tools' names are */
    rt_flag aliases[RT_SETTINGS_NOTES];
    char alias_name[RT_SETTINGS_NOTES][56];
    char help[RT_SETTING_COUNT_ALL][200];
} flag_values;

static void make_aliases(flag_values *v)
{
    for (uint32_t i = 0; rt_settings_alias_name(i); i++) {
        snprintf(v->alias_name[i], sizeof v->alias_name[i], "--%s", rt_settings_alias_name(i));
        v->aliases[i] = (rt_flag){ v->alias_name[i], RT_FLAG_MANY, &v->alias[i], NULL, NULL };
    }
}

static void make_flags(flag_values *v, rt_job_kind k)
{
    uint32_t n = 0;
    make_aliases(v);
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const rt_setting_info *f = &rt_setting_table[i];
        if (k == RT_JOB_TRAIN && rt_setting_rests_on((rt_setting_id)i, RT_SETTING_ID_teacher)) continue;
        bool show = *f->def && strcmp(f->def, "auto") != 0;
        snprintf(v->help[i], sizeof v->help[i], "%s%s%s%s", f->help, show ? " (" : "", show ? f->def : "",
                 show ? ")" : "");
        v->flags[n++] = (rt_flag){ f->flag, f->kind == RT_SETTING_SWITCH ? RT_FLAG_BOOL : RT_FLAG_LIST,
                                   f->kind == RT_SETTING_SWITCH ? (void *)&v->on[i] : (void *)&v->words[i], f->metavar,
                                   v->help[i] };
    }
    v->flags[n++] = (rt_flag){
        "--config", RT_FLAG_TEXT, &v->config, "FILE",
        "Settings file in YAML, by the names of the flags or of TRL, axolotl and others; the command line wins"
    };
    v->flags[n++] = (rt_flag){ "--fit", RT_FLAG_BOOL, &v->o.fit, NULL,
                               "Fit to memory: --micro-batch, --recompute, --teacher-weights and --teacher-memory "
                               "chosen again" };
    if (k == RT_JOB_PLAN) {
        v->flags[n++] = (rt_flag){ "--devices", RT_FLAG_COUNT, &v->devices, "N",
                                   "Ranks of the run: what each of them needs, sends and takes (1)" };
        v->flags[n++] = (rt_flag){ "--ops", RT_FLAG_BOOL, &v->ops, NULL, "Ops of every program, listed as well" };
        v->flags[n++] = (rt_flag){ "--json", RT_FLAG_BOOL, &v->json, NULL, "JSON instead of text" };
        return;
    }
    v->flags[n++] = (rt_flag){ "--smoke", RT_FLAG_BOOL, &v->o.smoke, NULL,
                               "Smoke test: ten steps are timed, the run is projected, nothing is left behind" };
    v->flags[n++] = (rt_flag){ "--resume", RT_FLAG_BOOL, &v->o.resume, NULL,
                               "Resumed run: the one in --out, with the settings that it began with" };
    v->flags[n++] = (rt_flag){ "--override", RT_FLAG_BOOL, &v->o.override, NULL,
                               "Overridden settings: with --resume, those given now instead of the run's" };
    v->flags[n++] = (rt_flag){ "--devices", RT_FLAG_COUNT, &v->devices, "N",
                               "Ranks on this machine, started with its mpirun; each has a part of every batch (1)" };
    v->flags[n++] = (rt_flag){ "--restarts", RT_FLAG_COUNT, &v->restarts, "N",
                               "With --devices: resumed by itself so often, after a rank has died or hung (0)" };
    v->flags[n++] = (rt_flag){ "--log-every", RT_FLAG_COUNT, &v->log_every, "N",
                               "Steps between two printed lines (off a terminal some 50 in all, at least every 15 s)" };
    v->flags[n++] =
        (rt_flag){ "--quiet", RT_FLAG_BOOL, &v->quiet, NULL, "Quiet run: errors and the last line are printed" };
    v->flags[n++] = (rt_flag){ "--json", RT_FLAG_BOOL, &v->json, NULL,
                               "JSON events, one a line, on standard output; the rest goes to standard error" };
}

/* What other tools' names were taken for; or all that is wrong with them, where that is more than one line. */
static void print_notes(const rt_settings_notes *notes, const char *from, int rc)
{
    for (uint32_t i = 0; i < notes->count && (rc >= 0 || notes->count > 1); i++)
        rt_put_to(rc < 0 ? stderr : stdout, "%s%s\n", rc < 0 ? "" : from, notes->items[i].text);
}

static int end_notes(const rt_settings_notes *notes, const char *where, bool quiet, int rc, rt_err *e)
{
    rt_live_hold();
    if (rc < 0 || !quiet) print_notes(notes, where ? "config    " : "flags     ", rc);
    rt_live_release();
    if (rc < 0 && notes->count > 1)
        rc = rt_fail(e, rc, "%s: %u names or values are wrong", where ? where : "the command line", notes->count);
    return rc;
}

/* Of Hugging Face: a checkpoint's folder, or true for the newest. */
static int refuse_checkpoint(const flag_values *v, const char *command, rt_err *e)
{
    for (uint32_t i = 0; rt_settings_alias_name(i); i++) {
        const rt_words *w = &v->alias[i];
        if (!w->count || strcmp(rt_settings_alias_name(i), "resume_from_checkpoint") != 0) continue;
        if (rt_path_is_dir(w->text[0])) return rt_guess_resume(command, true, w->text[0], e);
    }
    return RT_OK;
}

static uint32_t flag_words(const flag_values *v, rt_setting_word *words)
{
    static const char *const on[] = { "on" };
    uint32_t n = 0;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++) {
        const rt_words *w = &v->words[i];
        if (v->on[i]) words[n++] = (rt_setting_word){ rt_setting_table[i].flag, on, 1 };
        if (w->count) words[n++] = (rt_setting_word){ rt_setting_table[i].flag, w->text, w->count };
    }
    for (uint32_t i = 0; rt_settings_alias_name(i); i++)
        if (v->alias[i].given) words[n++] = (rt_setting_word){ v->alias_name[i], v->alias[i].text, v->alias[i].count };
    return n;
}

/* The flags over the file, where there is one. Strings live in a. */
static int take_settings(rt_settings *s, const flag_values *v, const char *command, bool quiet, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    static rt_setting_word words[RT_SETTING_COUNT_ALL + RT_SETTINGS_NOTES];
    static rt_settings_notes flags, file;
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++)
        if (v->words[i].count > 1 && !rt_setting_repeats(rt_setting_table[i].kind))
            RT_TRY(rt_fail(e, RT_USAGE, "%s is given twice", rt_setting_table[i].flag));
    rc = refuse_checkpoint(v, command, e);
    if (rc < 0) return rc;
    rc = rt_settings_from_both(s, words, flag_words(v, words), v->config, a, &flags, &file, e);
    if (rc >= 0) {
        rc = rt_job_run_check(s, &v->o, e); /* before all that is told of the names */
        if (rc < 0) return rc;
    }
    if (rc < 0 && (flags.count || rc == RT_USAGE)) {
        RT_TRY(end_notes(&flags, NULL, quiet, rc, e));
    } else {
        if (rc >= 0) (void)end_notes(&flags, NULL, quiet, rc, e);
        return v->config ? end_notes(&file, v->config, quiet, rc, e) : rc;
    }
out:
    if (rc < 0) rt_err_context(e, "retort %s", command);
    return rc;
}

static int run(rt_job_run *j, rt_run_printer *p, rt_err *e)
{
    rt_run_summary summary;
    int rc = rt_job_run_train(j, &summary, e);
    if (rc >= 0) rt_run_print_summary(p, j, &summary);
    return rc;
}

/* What was asked for and is no default, by the names of settings; whichever name or file said it. */
static json_t *asked_json(const rt_settings *s)
{
    json_t *all = rt_settings_to_json(s);
    for (int i = 0; i < RT_SETTING_COUNT_ALL; i++)
        if (!rt_settings_asks(s, (rt_setting_id)i)) json_object_del(all, rt_setting_table[i].field);
    return all;
}

static void print_asked(const rt_settings *s)
{
    const char *name;
    json_t *value, *all = asked_json(s);
    rt_str text = { 0 };
    json_object_foreach(all, name, value)
    {
        char *word =
            json_is_string(value)
                ? NULL
                : json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
        rt_str_printf(&text, "%s%s %s", text.len ? ", " : "", name, word ? word : json_string_value(value));
        rt_free(word);
    }
    if (text.len && !text.failed) rt_say("settings", "%s", text.data);
    rt_str_free(&text);
    json_decref(all);
}

/* What it would be, and nothing of it done. */
static int plan(const rt_job_run *j, const rt_settings *s, const flag_values *v, rt_err *e)
{
    int rc;
    rt_run_cost cost;
    rt_str text = { 0 };
    RT_TRY(rt_run_cost_new(&cost, j->run, e));
    RT_TRY(rt_run_cost_time(&cost, j->run, e));
    rt_live_end();
    if (v->json) {
        json_t *all = rt_run_cost_json(&cost, j->run);
        if (all) json_object_set_new(all, "settings", asked_json(s));
        RT_TRY(rt_print_json(all, e));
    } else {
        RT_TRY(rt_run_cost_text(&cost, j->run, v->ops, &text, e));
        rt_put("%s", text.data);
    }
    if (!rt_run_fitted(j->run)->fits) rc = rt_fail(e, RT_NOMEM, "the run does not fit");
out:
    rt_str_free(&text);
    return rc;
}

static int open_and_run(const rt_settings *s, flag_values *v, rt_job_kind k, rt_run_printer *p, rt_err *e)
{
    int rc;
    static rt_job_run j;
    rt_job_env env = rt_cli_env(0);
    rt_run_events events = rt_run_printer_events(p);
    if (k == RT_JOB_PLAN && v->json) events = (rt_run_events){ .stop = events.stop, .ctx = events.ctx };
    v->o.env = &env;
    v->o.events = &events;
    v->o.hung = rt_again_hung;
    if (k != RT_JOB_PLAN || !v->json) v->o.device = rt_run_print_device;
    rt_interrupt_catch();
    if (k == RT_JOB_PLAN && !v->json) print_asked(s);
    RT_TRY(rt_job_run_open(&j, s, &v->o, e));
    RT_TRY(k == RT_JOB_PLAN ? plan(&j, s, v, e) : run(&j, p, e));
out:
    if (j.next.wanted && !rt_interrupt_wanted(NULL)) {
        rt_job_run_abandon(&j);
        rt_again(p, &j.next);
    }
    rt_job_run_close(&j);
    if (rc == RT_INTERRUPTED && k != RT_JOB_PLAN && !v->o.smoke) rt_run_explain_stop(p, e);
    return rc;
}

/* Flags that cannot be parsed: whoever asked for events hears of it in one. */
static void explain_refusal(rt_job_kind k, int argc, char **argv, int rc, const rt_err *e)
{
    const rt_run_printer p = { .json = stdout };
    for (int i = 0; k != RT_JOB_PLAN && i < argc; i++)
        if (strcmp(argv[i], "--json") == 0) {
            rt_run_json_error(&p, rc, e);
            return;
        }
}

/* ---- several ranks ---- */

static bool is_flag(const char *word, const char *flag, bool *joined)
{
    const size_t n = strlen(flag);
    *joined = strncmp(word, flag, n) == 0 && word[n] == '=';
    return *joined || strcmp(word, flag) == 0;
}

/* This program again, as so many ranks: with the same arguments but for --devices and --restarts. */
static int start_ranks(const char *name, const flag_values *v, int argc, char **argv, rt_err *e)
{
    char *words[RT_MAX_WORDS * 4] = { "retort", (char *)(uintptr_t)name };
    size_t n = 2, most = sizeof words / sizeof *words - 2; /* --resume may follow */
    for (int i = 0; i < argc; i++) {
        bool joined;
        if (n == most) return rt_fail(e, RT_USAGE, "retort %s: too many words to start ranks with", name);
        if (is_flag(argv[i], "--devices", &joined) || is_flag(argv[i], "--restarts", &joined))
            i += !joined;
        else
            words[n++] = argv[i];
    }
    fflush(stdout);
    return rt_start_ranks(v->devices, v->o.smoke ? 0 : v->restarts, words, e);
}

static int check_devices(const flag_values *v, const rt_ranks *ranks, rt_err *e)
{
    uint32_t size = rt_job_ranks_size(ranks);
    if (v->restarts && (ranks || v->devices < 2))
        return rt_fail(e, RT_USAGE,
                       "--restarts needs --devices: another launcher has to start ranks again by itself "
                       "(docs/clusters.md)");
    if (!v->devices || !ranks || v->devices == size) return RT_OK;
    return rt_fail(e, RT_USAGE, "--devices %u, and a launcher has started %u ranks; leave --devices out", v->devices,
                   size);
}

/* The main thread waits for that rank, and would for ever. */
static void end_lost(const char *sentence)
{
    fprintf(stderr, "%s\n", sentence);
    rt_temp_remove_all();
    _exit(rt_status_exit(RT_DEVICE));
}

static int lead(const char *name, rt_job_kind k, const char *usage, const char *text, const char *example, int argc,
                char **argv, rt_ranks *ranks, rt_err *e);

/* Rank 0, or the only one, is the command; the others follow it and print nothing but what ends them. */
static int command(const char *name, rt_job_kind k, const char *usage, const char *text, const char *example, int argc,
                   char **argv, rt_err *e)
{
    int rc = RT_OK;
    rt_ranks *ranks = NULL;
    rt_job_env env = rt_cli_env(0);
    if (k != RT_JOB_PLAN) rc = rt_job_ranks_open(&ranks, env.environment, end_lost, e);
    if (rc < 0) return rc;
    if (ranks) rt_interrupt_catch_user();
    if (rt_job_ranks_rank(ranks)) {
        rt_interrupt_catch(); /* rank 0 hears of it too, and says when to end */
        rc = rt_job_ranks_follow(ranks, &env, e);
    } else {
        rc = lead(name, k, usage, text, example, argc, argv, ranks, e);
    }
    if (rt_job_ranks_torn(ranks)) fprintf(stderr, "%s\n", e->text); /* what closes them does not come back */
    rt_job_ranks_close(ranks, rc);
    return rc;
}

static int lead(const char *name, rt_job_kind k, const char *usage, const char *text, const char *example, int argc,
                char **argv, rt_ranks *ranks, rt_err *e)
{
    static flag_values v;
    static rt_settings s;
    rt_arena arena = { 0 };
    bool help;
    make_flags(&v, k);
    const rt_command c = {
        .name = name, .usage = usage, .text = text, .example = example, .flags = v.flags, .aliases = v.aliases
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0) explain_refusal(k, argc, argv, rc, e);
    if (rc < 0 || help) return rc;
    if ((rc = check_devices(&v, ranks, e)) < 0) return rc;
    if (k == RT_JOB_PLAN) v.o.devices = v.devices;
    if (k != RT_JOB_PLAN && v.devices > 1 && !ranks) return start_ranks(name, &v, argc, argv, e);
    v.o.ranks = ranks;
    rt_run_printer p = {
        .command = name, .resumed = v.o.resume, .smoke = v.o.smoke, .log_every = v.log_every, .quiet = v.quiet
    };
    const bool silent = k == RT_JOB_PLAN && v.json;
    v.o.kind = k;
    rt_again_keep(name, argc, argv);
    if (!silent) RT_TRY(rt_run_printer_begin(&p, v.json, e));
    RT_TRY(take_settings(&s, &v, name, silent, &arena, e));
    p.out = v.o.smoke ? NULL : s.out;
    RT_TRY(open_and_run(&s, &v, k, &p, e));
out:
    rt_arena_free(&arena);
    return rt_run_printer_end(&p, rc, e);
}

int rt_cmd_distill(int argc, char **argv, rt_err *e)
{
    return command(
        "distill", RT_JOB_DISTILL, "retort distill --teacher T --student S --data D --out O [flags]",
        "Trains the student to match the teacher's probabilities, on every trained position of the data, and\n"
        "writes it to O as a model that other tools load. The run can be stopped with Ctrl-C and resumed to\n"
        "the same bits with --resume.",
        "retort distill --teacher Qwen/Qwen2.5-7B --student Qwen/Qwen2.5-0.5B --data chats.jsonl --out out", argc, argv,
        e);
}

int rt_cmd_train(int argc, char **argv, rt_err *e)
{
    return command("train", RT_JOB_TRAIN, "retort train --student S --data D --out O [flags]",
                   "Trains a model on text alone: the same loop as distill, with cross-entropy as its loss.",
                   "retort train --student out --data more.jsonl --out better", argc, argv, e);
}

int rt_cmd_plan(int argc, char **argv, rt_err *e)
{
    return command(
        "plan", RT_JOB_PLAN, "retort plan [--teacher T] --student S --data D [flags]",
        "Says what a run with these flags would cost before it begins: memory and the op where it is highest,\n"
        "arithmetic, time from rates measured on this machine, disk, and whether it fits. Nothing is trained,\n"
        "no weights are loaded and nothing is left behind; what a run allocates is what its plan says. Exits\n"
        "with 13 when the run does not fit.",
        "retort plan --teacher Qwen/Qwen2.5-7B --student Qwen/Qwen2.5-0.5B --data chats.jsonl --memory-limit 22GiB",
        argc, argv, e);
}
