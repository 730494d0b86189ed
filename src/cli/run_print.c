/* run_print.c - what is seen of a run: what it is going to do, the live line, evaluations; where it is all printed. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- who hears what ---- */

/* A copy of standard output, which then is another descriptor. */
static int take_stdout(FILE **copy, int instead, rt_err *e)
{
    int kept;
    fflush(stdout);
    kept = instead >= 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : -1;
    if (kept < 0 || !(*copy = fdopen(kept, "w")) || dup2(instead, STDOUT_FILENO) < 0)
        return rt_fail(e, RT_IO, "standard output cannot be shared: %s", strerror(errno));
    return RT_OK;
}

int rt_run_printer_begin(rt_run_printer *p, bool json, rt_err *e)
{
    int rc = RT_OK, nowhere = -1;
    if (p->quiet) nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (json)
        rc = take_stdout(&p->json, p->quiet ? nowhere : STDERR_FILENO, e);
    else if (p->quiet)
        rc = take_stdout(&p->last, nowhere, e);
    if (nowhere >= 0) close(nowhere);
    p->live = !p->quiet && rt_live_terminal(stdout);
    if (rc >= 0 && !p->quiet) rt_live_begin(stdout);
    return rc;
}

/* retort COMMAND --resume --out OUT */
static void resume_command(const rt_run_printer *p, rt_str *text)
{
    rt_str_printf(text, "retort %s --resume --out", p->command);
    rt_str_append_word(text, p->out, "");
}

void rt_run_explain_stop(const rt_run_printer *p, rt_err *e)
{
    rt_str text = { 0 };
    rt_arena a = { 0 };
    const char *settings = p->out ? rt_path_join(&a, p->out, "run/settings.json") : NULL;
    size_t n = strlen(e->text);
    resume_command(p, &text);
    if (settings && rt_path_exists(settings))
        snprintf(e->text + n, sizeof e->text - n, "; to resume: %s", text.data ? text.data : "--resume");
    else
        snprintf(e->text + n, sizeof e->text - n, "; nothing was trained yet: the same command begins again");
    rt_str_free(&text);
    rt_arena_free(&a);
}

int rt_run_printer_end(rt_run_printer *p, int rc, rt_err *e)
{
    FILE *f = p->json ? p->json : p->last;
    rt_live_end();
    if (rc < 0) rt_run_json_error(p, rc, e);
    bool left = f && rt_reader_left(f);
    bool failed = f && (ferror(f) || fclose(f) != 0) && !left;
    p->json = p->last = NULL;
    return failed && rc >= 0 ? rt_fail(e, RT_IO, "could not write to standard output: %s", strerror(errno)) : rc;
}

/* ---- what happens ---- */

static void on_note(void *ctx, const char *text)
{
    rt_run_json_warning(ctx, text);
    rt_live_hold();
    rt_say("note", "%s", text);
    rt_live_release();
}

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    rt_run_json_progress(ctx, what, done, total);
    rt_live_work(what, done, total);
}

static void on_refused(void *ctx, const char *plan)
{
    (void)ctx;
    rt_live_hold();
    rt_put("%s", plan);
    rt_live_release();
}

void rt_run_print_device(void *printer, rt_dev *d, const char *why)
{
    rt_run_json_start(printer, d);
    rt_live_hold();
    rt_print_device(d, why);
    rt_live_release();
}

/* ---- before the first step ---- */

static void print_model(const char *who, const rt_model_file *m)
{
    char n[32];
    rt_say(who, "%s: %s, %s parameters, %u layers, width %u", m->name, m->config.family->name,
           rt_format_params(n, rt_model_file_parameters(m)), m->config.layers, m->config.width);
}

/* Of several, each with its share of the mixture. */
static void print_teachers(const rt_inputs *in)
{
    for (uint32_t i = 0; i < in->teachers.count; i++) {
        rt_str share = { 0 };
        print_model("teacher", rt_inputs_teacher(in, i));
        rt_job_teacher_share(in, i, &share);
        rt_say("", "share %s", share.data && !share.failed ? share.data : "");
        rt_str_free(&share);
    }
}

static void print_teacher(const rt_inputs *in)
{
    rt_job_cached_facts f;
    if (in->teachers.count > 1) {
        print_teachers(in);
        return;
    }
    if (!in->cache) {
        if (in->teacher) print_model("teacher", in->teacher);
        return;
    }
    rt_job_cache_facts(&f, in);
    rt_str bytes = { 0 };
    if (f.bytes > 0) rt_str_printf(&bytes, ", %.1f bytes per position", f.bytes);
    rt_say("teacher", "%s, from a cache: %s at temperature %g%s; %s", in->teacher->name, f.keep, f.temperature,
           bytes.data ? bytes.data : "", f.exact);
    rt_str_free(&bytes);
}

/* What was chosen for memory's sake, and why. */
static void print_fit(const rt_fit *f)
{
    rt_str flags = { 0 };
    char need[32], limit[32];
    rt_fit_chosen(&flags, f);
    if (flags.len)
        rt_say("fit", "%s: %s would be needed without, and %s %s; a step takes about %.2g %% more", flags.data,
               rt_format_bytes(need, f->wanted_need),
               f->ask.limit_is == RT_FIT_REFUSED ? "the device gives no more than" : "the limit is",
               rt_format_bytes(limit, f->ask.limit), 100 * f->slower);
    rt_str_free(&flags);
}

/* The teacher's weights are as stored, or dequantised once, and why. */
static void print_weights(const rt_fit *f)
{
    rt_str text = { 0 };
    rt_weights_say(&text, &f->weights);
    if (text.len) rt_say("weights", "%s", text.data);
    rt_str_free(&text);
    rt_memory_say(&text, &f->memory);
    if (text.len && f->hidden > 0)
        rt_say("streamed", "%s; %.1f %% of the transfer hidden behind computation (estimated)", text.data,
               100 * f->hidden);
    else if (text.len)
        rt_say("streamed", "%s; while one is computed the next is read ahead", text.data);
    rt_str_free(&text);
}

/* The rate, or the two that it can be. */
static void put_rate(rt_str *s, const rt_resolved *v)
{
    if (v->lr_open)
        rt_str_printf(s, "lr %.3g or %.3g (near or far, measured before step 1) %s", v->lr_near, v->lr_far,
                      rt_schedule_name(v->schedule.kind));
    else
        rt_str_printf(s, "lr %.3g %s", v->schedule.lr, rt_schedule_name(v->schedule.kind));
}

static void print_training(const rt_resolved *v, uint64_t trained)
{
    rt_str s = { 0 };
    char n[32];
    const char *rows = v->batch == 1 ? "row" : "rows";
    rt_str_printf(&s, "%s parameters%s, ", rt_format_params(n, trained), v->lora.rank ? " of adapters" : "");
    if (v->seconds > 0)
        rt_str_printf(&s, "as many steps of %u %s (%u at a time) as the time allows, ", v->batch, rows, v->micro_batch);
    else
        rt_str_printf(&s, "%u step%s of %u %s (%u at a time), ", v->steps, v->steps == 1 ? "" : "s", v->batch, rows,
                      v->micro_batch);
    put_rate(&s, v);
    if (!(v->seconds > 0)) rt_str_printf(&s, ", warm-up %u", v->schedule.warmup);
    if (v->moments != RT_DTYPE_F32)
        rt_str_printf(&s, ", AdamW moments in %s", v->moments == RT_DTYPE_BF16 ? "bf16" : "8 bits");
    rt_say("train", "%s", s.data ? s.data : "");
    rt_str_free(&s);
}

static void print_evaluation(const rt_run *r)
{
    const rt_resolved *v = rt_run_resolved(r);
    rt_str s = { 0 };
    if (v->seconds > 0) return; /* how many steps there are is not known yet */
    rt_str_append(&s, "at the start and every ");
    if (v->eval_every == 1)
        rt_str_append(&s, "step");
    else
        rt_str_printf(&s, "%u steps", v->eval_every);
    uint64_t records = rt_run_inputs(r)->counted.held;
    uint32_t rows = rt_run_held_rows(r), of = rt_run_held_of(r);
    rt_str_append(&s, ", on ");
    if (rows < of) rt_str_printf(&s, "%u of %u rows of ", rows, of);
    if (records)
        rt_str_printf(&s, "%" PRIu64 " held-out record%s", records, records == 1 ? "" : "s");
    else if (v->held_out > 0) /* the end of one text */
        rt_str_printf(&s, "the %.3g %% that is held out", 100 * v->held_out);
    else
        rt_str_append(&s, "--eval-data");
    if (v->eval_share > 0) rt_str_printf(&s, ", about %.2g %% of the run's arithmetic", 100 * v->eval_share);
    rt_say("evaluate", "%s", s.data ? s.data : "");
    rt_str_free(&s);
}

static uint32_t print_every(uint32_t steps) { return steps / 50 ? steps / 50 : 1; }

static void print_ready(const rt_run_printer *p, const rt_run *r)
{
    const rt_inputs *in = rt_run_inputs(r);
    const rt_resolved *v = rt_run_resolved(r);
    const rt_job_programs programs = rt_job_run_programs(r);
    bool plan = strcmp(p->command, "plan") == 0;
    rt_str pair = { 0 };
    char a[32], b[32];
    print_teacher(in);
    print_model("student", in->student);
    if (in->teacher) {
        rt_pair_describe(&in->pair, &pair);
        rt_say("pair", "%s", pair.data ? pair.data : "");
        rt_str_free(&pair);
    }
    if (in->template_from) rt_say("template", "%s", in->template_from);
    print_training(v, programs.trained);
    print_evaluation(r);
    if (!plan) /* there it is said elsewhere */
        rt_say("memory", "%s, of it %s for one micro-batch", rt_format_bytes(a, programs.memory),
               rt_format_bytes(b, programs.activations));
    if (!plan) print_fit(rt_run_fitted(r));
    if (!plan) print_weights(rt_run_fitted(r));
    rt_preview_print(r, rt_live_colour(stdout));
}

static void on_ready(void *ctx, const rt_run *r)
{
    rt_run_printer *p = ctx;
    const rt_resolved *v = rt_run_resolved(r);
    rt_str resume = { 0 };
    rt_run_json_plan(p, r);
    rt_live_work("", 0, 0);
    rt_live_hold();
    print_ready(p, r);
    rt_live_release();
    p->every = v->seconds > 0 ? 1 : print_every(v->steps);
    rt_live_step s = { .step = rt_run_state(r)->step, .steps = v->seconds > 0 ? 0 : v->steps, .left = NAN };
    rt_live_stepped(&s);
    resume_command(p, &resume);
    if (p->out && strcmp(p->command, "plan") != 0) rt_live_resume(resume.data);
    rt_str_free(&resume);
}

/* ---- while it runs ---- */

static void on_computing(void *ctx, const rt_run_computing *c)
{
    rt_run_json_computing(ctx, c);
    rt_live_computing(c->step, c->steps, c->done, c->count);
}

/* The most important first, for the line that is redrawn. */
static void show_step(const rt_run_line *l)
{
    const rt_step_result *v = &l->result;
    rt_live_step s = { .step = l->step, .steps = l->steps, .left = l->remaining };
    char memory[24];
    int n = 0;
    enum { SIZE = sizeof *s.fields };
    snprintf(s.fields[n++], SIZE, "loss %.4f", v->loss);
    snprintf(s.fields[n++], SIZE, "%.0f tok/s", l->tokens_per_second);
    if (l->distils) {
        snprintf(s.fields[n++], SIZE, "div %.4f", v->div);
        snprintf(s.fields[n++], SIZE, "agree %.3f", v->agreement);
        snprintf(s.fields[n++], SIZE, "ce %.4f", v->ce);
    }
    snprintf(s.fields[n++], SIZE, "lr %.2e", l->lr);
    snprintf(s.fields[n++], SIZE, "norm %.2f", v->grad_norm);
    snprintf(s.fields[n++], SIZE, "%s", rt_format_bytes(memory, l->memory));
    if (l->teacher_share > 0) snprintf(s.fields[n++], SIZE, "teacher %.0f %%", 100 * l->teacher_share);
    rt_live_stepped(&s);
}

/* A line that stays. */
static void print_step(const rt_run_line *l)
{
    const rt_step_result *v = &l->result;
    char left[32], memory[32], teacher[96] = "", share[32] = "";
    if (l->distils) snprintf(teacher, sizeof teacher, "  div %.4f  agree %.3f", v->div, v->agreement);
    if (l->teacher_share > 0) snprintf(share, sizeof share, "  teacher %.0f %%", 100 * l->teacher_share);
    rt_put("step %u/%u  loss %.4f  ce %.4f%s  lr %.2e  norm %.2f  %.0f tok/s%s  %s  left %s\n", l->step, l->steps,
           v->loss, v->ce, teacher, l->lr, v->grad_norm, l->tokens_per_second, share,
           rt_format_bytes(memory, l->memory), rt_live_left(left, l->remaining));
}

/* Every so many steps as asked for; else, where no line is redrawn, some fifty of all and one every 15 seconds. */
static bool is_due(const rt_run_printer *p, const rt_run_line *l)
{
    enum { SECONDS = 15 };
    if (p->log_every) return l->step % p->log_every == 0 || l->step == l->steps;
    return !p->live && (l->step == 1 || l->step == l->steps || l->step % p->every == 0 || rt_live_silence() > SECONDS);
}

static void on_step(void *ctx, const rt_run_line *l)
{
    rt_run_printer *p = ctx;
    if (!p->log_every || is_due(p, l)) rt_run_json_step(p, l);
    show_step(l);
    if (!is_due(p, l)) return;
    rt_live_hold();
    print_step(l);
    rt_live_release();
}

static void on_projected(void *ctx, const rt_run_projection *l)
{
    rt_run_printer *p = ctx;
    char step[32], total[32];
    rt_run_json_projection(p, l);
    rt_live_hold();
    rt_put_to(p->smoke && p->last ? p->last : stdout,
              "time      %s a step over %u steps; all %u with evaluations and saves: %s, evaluations %.0f %% of it\n",
              rt_format_seconds(step, l->step), l->timed, l->steps, rt_format_duration(total, l->total),
              100 * l->evaluations / l->total);
    rt_live_release();
    p->every = print_every(l->steps);
}

static void put_measure(rt_str *s, const char *name, rt_measure m)
{
    if (isnan(m.mean)) {
        rt_str_printf(s, "%s%s not measured", s->len ? "  " : "", name);
        return;
    }
    rt_str_printf(s, "%s%s %.4f", s->len ? "  " : "", name, m.mean);
    if (!isnan(m.error)) rt_str_printf(s, " +- %.4f", m.error);
}

static void on_said(void *ctx, const rt_sample_said *v) { rt_run_json_sample(ctx, v); }

static void on_evaluated(void *ctx, uint32_t step, const rt_eval_result *v, bool best)
{
    rt_str s = { 0 };
    char label[24];
    rt_run_json_eval(ctx, step, v, best);
    rt_live_work("", 0, 0);
    rt_live_hold();
    put_measure(&s, "ce", v->ce);
    if (v->teacher) {
        put_measure(&s, "kl", v->kl);
        put_measure(&s, "agree", v->agreement);
        put_measure(&s, "teacher ce", v->teacher_ce);
    }
    if (best && step) rt_str_append(&s, "  best");
    snprintf(label, sizeof label, "eval %-6u", step);
    rt_say(label, "%s", s.data ? s.data : "");
    rt_str_free(&s);
    rt_live_release();
}

static void on_saved(void *ctx, const char *path)
{
    const rt_run_printer *p = ctx;
    rt_run_json_checkpoint(p, path);
    rt_live_work("", 0, 0);
    if (p->live) return;
    rt_live_hold();
    rt_put("saved %s\n", path);
    rt_live_release();
}

rt_run_events rt_run_printer_events(rt_run_printer *p)
{
    return (rt_run_events){ .note = on_note,
                            .progress = on_progress,
                            .refused = on_refused,
                            .ready = on_ready,
                            .computing = on_computing,
                            .step = on_step,
                            .projected = on_projected,
                            .said = on_said,
                            .evaluated = on_evaluated,
                            .saved = on_saved,
                            .stop = rt_interrupt_wanted,
                            .ctx = p };
}

void rt_run_print_summary(rt_run_printer *p, const rt_job_run *j, const rt_run_summary *s)
{
    rt_live_end();
    rt_print_device_end(j->dev);
    if (s->ended) rt_run_print_ended(p->last ? p->last : stdout, j, s);
    if (!s->smoke && !s->ended) rt_run_print_end(j, s);
    if (!s->smoke && !s->ended && p->last) rt_run_print_saved(p->last, j, s);
    rt_run_json_end(p, j, s);
}
