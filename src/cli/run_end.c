/* run_end.c - the closing screen of a run: what it measured before and after beside the teacher, whether that is an
 * improvement, one sample, and the commands to type next. */
#include "cli/cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the table ---- */

/* teacher NaN: it has no such value. */
static void row(const char *name, const char *format, double before, double after, double teacher)
{
    const double values[] = { before, after, teacher };
    char text[40];
    rt_put("%-22s", name);
    for (int i = 0; i < 3 && !isnan(values[i]); i++) {
        snprintf(text, sizeof text, format, values[i]);
        rt_put(" %10s", text);
    }
    rt_put("\n");
}

static void print_table(const rt_run_summary *s)
{
    const rt_eval_result *a = &s->before, *b = &s->saved;
    double ce = b->teacher ? b->teacher_ce.mean : NAN;
    char kl[40];
    rt_put("\n%-22s %10s %10s%s\n", "held out", "before", "after", b->teacher ? "    teacher" : "");
    row("cross-entropy", "%.4f", a->ce.mean, b->ce.mean, ce);
    if (s->control_saved.positions) row("  without the teacher", "%.4f", a->ce.mean, s->control_saved.ce.mean, NAN);
    row("perplexity", "%.4g", exp(a->ce.mean), exp(b->ce.mean), exp(ce));
    if (!b->teacher) return;
    snprintf(kl, sizeof kl, b->outcomes ? "KL, %u outcomes" : "KL(teacher||student)", b->outcomes);
    row(kl, "%.4f", a->kl.mean, b->kl.mean, NAN);
    row("top-1 agreement", "%.4f", a->agreement.mean, b->agreement.mean, NAN);
    if (b->outcomes)
        rt_put("KL is over the %u most likely ids and all others as one outcome: a lower bound of KL over all ids\n",
               b->outcomes - 1);
}

/* KL, or cross-entropy, of each source or file of the data: names last, since they may be long. */
static void print_parts(const rt_run_summary *s)
{
    const rt_eval_result *a = &s->before, *b = &s->saved;
    if (!b->part_count || a->part_count != b->part_count) return;
    rt_put("\n%10s %10s %10s  %s\n", "before", "after", "documents", b->teacher ? "KL of" : "cross-entropy of");
    for (uint32_t i = 0; i < b->part_count; i++) {
        const rt_eval_part *x = &a->parts[i], *y = &b->parts[i];
        const rt_measure *before = b->teacher ? &x->kl : &x->ce, *after = b->teacher ? &y->kl : &y->ce;
        rt_put("%10.4f %10.4f %10" PRIu64 "  %s\n", before->mean, after->mean, y->documents, y->name);
    }
}

/* By what the run is judged: KL with a teacher, else cross-entropy. */
static void print_improved(const rt_settings *settings, const rt_run_summary *s)
{
    bool teacher = s->saved.teacher;
    const char *what = teacher ? "KL" : "cross-entropy";
    const char *more = settings->eval_data.count ? "longer --eval-data" : "larger --held-out";
    rt_measure a = teacher ? s->before.kl : s->before.ce, b = teacher ? s->saved.kl : s->saved.ce;
    double two = 2 * rt_change_error(a, b);
    unsigned long long documents = s->saved.documents;
    if (documents < RT_DOCUMENTS_LEAST)
        rt_say("improved",
               "not shown: %llu held-out document%s too few to tell; %s changed by %+.4f, and a %s would tell",
               documents, documents == 1 ? " is" : "s are", what, b.mean - a.mean, more);
    else if (isnan(two))
        rt_say("improved", "not measured: there is no standard error");
    else if (rt_measure_fell(a, b))
        rt_say("improved", "yes: %s fell by %.4f, and two standard errors are %.4f", what, a.mean - b.mean, two);
    else if (rt_measure_rose(a, b))
        rt_say("improved", "no, it is worse: %s rose by %.4f, and two standard errors are %.4f; try a lower --lr", what,
               b.mean - a.mean, two);
    else
        rt_say("improved",
               "not shown: %s changed by %+.4f, less than two standard errors (%.4f); more steps, more data "
               "or a %s would tell",
               what, b.mean - a.mean, two, more);
}

/* Before the last step, because nothing was gained any more. */
static void print_stopped(const rt_run *r, const rt_run_summary *s)
{
    const rt_resolved *v = rt_run_resolved(r);
    if (s->stopped_early)
        rt_say("stopped",
               "at step %u of %u: the last %u evaluations were worse than the best by more than its standard error "
               "(--stop-if-worse)",
               rt_run_state(r)->step, v->steps, v->stop_if_worse);
}

/* Updates that are small beside the weights are lost when these are rounded. */
static void print_rounded(const rt_run *r, const rt_run_summary *s)
{
    rt_dtype dtype = rt_run_resolved(r)->save_dtype;
    rt_measure memory = s->logged.ce, files = s->saved.ce;
    double most = fmin(2 * memory.error, rt_reload_tolerance(dtype) * (1 + memory.mean));
    if (dtype == RT_DTYPE_F32 || !s->logged.positions || !(files.mean - memory.mean > most)) return;
    rt_say("saved",
           "rounding to %s undid small updates: held-out cross-entropy was %.4f in memory and is %.4f from the "
           "files; --save-dtype f32 keeps them",
           rt_dtype_name(dtype), memory.mean, files.mean);
}

/* ---- one sample ---- */

static bool is_visible(rt_span text)
{
    for (size_t i = 0; i < text.len; i++)
        if ((unsigned char)text.data[i] > ' ' && text.data[i] != 127) return true;
    return false;
}

/* In one line of at most LINE bytes, with nothing in it that a terminal would act on. */
static void print_text(const char *who, rt_span text)
{
    enum { LINE = 200 };
    if (!text.data) return;
    if (!is_visible(text)) {
        rt_put("%-9s (nothing to see)\n", who);
        return;
    }
    while (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\n') text.len--;
    size_t len = text.len;
    if (len > LINE) {
        len = LINE;
        while (len && ((unsigned char)text.data[len] & 0xC0) == 0x80) len--; /* not inside a character */
    }
    rt_put("%-9s ", who);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text.data[i];
        bool control = c < ' ' || c == 127;
        if (c == 0xC2 && i + 1 < len && (unsigned char)text.data[i + 1] < 0xA0) control = true, i++;
        rt_put("%c", control ? ' ' : c);
    }
    rt_put("%s\n", len < text.len ? " ..." : "");
}

static void print_sample(const rt_run_sample *v)
{
    if (!v->prompt.data) return;
    rt_put("\n");
    print_text("prompt", v->prompt);
    print_text("before", v->before);
    print_text("after", v->after);
    print_text("teacher", v->teacher);
}

/* ---- what it claims ---- */

/* What was claimed and does not hold, or was not measured, in plain words; what holds only as a number. */
static void print_verdict(const rt_findings *f, rt_hash128 seal, const char *out)
{
    char hash[33];
    rt_str word = { 0 };
    if (!f) return;
    rt_put("verdict: %u of %u claims hold", f->of[RT_VERDICT_PASS], f->count);
    if (f->of[RT_VERDICT_FAIL]) rt_put(", %u failed", f->of[RT_VERDICT_FAIL]);
    if (f->of[RT_VERDICT_NOT_MEASURED]) rt_put(", %u not measured", f->of[RT_VERDICT_NOT_MEASURED]);
    rt_put("\n");
    for (uint32_t i = 0; i < f->count; i++) {
        const rt_finding *k = &f->list[i];
        if (k->verdict != RT_VERDICT_PASS)
            rt_put("  %s  %s\n      measured: %s\n", k->verdict == RT_VERDICT_FAIL ? "FAILED" : "not measured",
                   k->claim, k->measured);
    }
    rt_str_append_word(&word, out, "");
    rt_say("evidence:", "%s/run/manifest.json, checksum %s; retort verify%s checks it", out, rt_hash_text(hash, seal),
           word.data ? word.data : "");
    rt_str_free(&word);
}

/* ---- what to type next ---- */

static void print_next(const rt_run *r, const char *out, bool merged)
{
    bool adapter = rt_run_resolved(r)->lora.rank > 0;
    rt_str page = { 0 };
    rt_str_append_word(&page, out, "/run/report.html");
    rt_put("\nnext      a page with curves and samples:%s", page.data ? page.data : "");
    rt_str_free(&page);
    if (adapter && !merged) {
        rt_put("\n          adapter and base as one model:\n          retort merge");
        rt_print_word(out, "");
        rt_print_word(out, "-merged");
    }
    rt_put("\n          retort generate");
    rt_print_word(out, "");
    rt_put(" %s--prompt 'Hello'", rt_run_plain_text(r) ? "--raw " : "");
    const rt_inputs *in = rt_run_inputs(r);
    if (in && in->template_from && !rt_run_plain_text(r)) {
        rt_put("\n          a conversation in the terminal:\n          retort chat");
        rt_print_word(out, "");
    }
    rt_put("\n          over HTTP, as OpenAI's API:\n          retort serve");
    rt_print_word(out, "");
    /* The model is what lies at the root: run, checkpoints and merged are folders. */
    rt_put("\n          the %s alone to the Hugging Face hub:", adapter ? "adapter" : "model");
    rt_put("\n          hf upload ORG/NAME");
    rt_print_word(out, "");
    rt_put(" . --exclude '*/*'\n          for Ollama and llama.cpp:\n          retort convert");
    rt_print_word(out, "");
    rt_print_word(out, ".gguf");
    rt_put("\n");
}

/* What resuming would need is not needed any more. */
static void print_disk(const rt_run *r, const rt_run_summary *s, const char *out)
{
    char run[32], checkpoints[32];
    rt_put("disk      %s/run takes %s", out, rt_format_bytes(run, s->run_bytes));
    if (s->checkpoint_bytes) {
        rt_put(", of it %s for checkpoints, of which the model needs none:\n          rm -r",
               rt_format_bytes(checkpoints, s->checkpoint_bytes));
        rt_print_word(rt_run_checkpoints(r), "");
        rt_put("\n          (retort verify then no longer compares the model with a checkpoint)");
    }
    rt_put("\n");
}

void rt_run_print_saved(FILE *to, const rt_job_run *j, const rt_run_summary *s)
{
    rt_put_to(to, "%s: the %s of step %u (%s), read back", j->settings.out,
              rt_run_resolved(j->run)->lora.rank ? "adapter" : "model", s->saved_step,
              s->is_best ? "the best" : "the last");
    if (s->difference.max > 0)
        rt_put_to(to, "; it differs from memory by %.2g rms, %.2g at most, which is its dtype's rounding",
                  s->difference.rmse, s->difference.max);
    rt_put_to(to, "\n");
}

/* More steps of the run where it can go on; else a new run of its model. */
static void print_further(FILE *to, const rt_job_run *j)
{
    rt_arena a = { 0 };
    char *newest = NULL;
    const char *out = j->settings.out, *command;
    if (rt_checkpoint_newest(&newest, &a, out, NULL) >= 0 && newest)
        command = rt_arena_printf(&a, "%s --override --steps %u", rt_run_resume_command(&a, out),
                                  2 * rt_run_resolved(j->run)->steps);
    else
        command = rt_run_further_command(&a, out, j->settings.teacher.text, j->settings.teacher.count);
    rt_put_to(to, "To train it further: %s\n", command ? command : "");
    rt_arena_free(&a);
}

void rt_run_print_ended(FILE *to, const rt_job_run *j, const rt_run_summary *s)
{
    const rt_run *r = j->run;
    rt_str line = { 0 };
    print_table(s);
    print_improved(&j->settings, s);
    rt_str_printf(&line, "%s: this run ended before, at step %u of %u; its %s is that of step %u. Nothing was done.\n",
                  j->settings.out, rt_run_state(r)->step, rt_run_resolved(r)->steps,
                  rt_run_resolved(r)->lora.rank ? "adapter" : "model", s->saved_step);
    rt_put_to(to, "%s", line.data ? line.data : "");
    rt_str_free(&line);
    print_further(to, j);
}

void rt_run_print_end(const rt_job_run *j, const rt_run_summary *s)
{
    const rt_run *r = j->run;
    const rt_settings *settings = &j->settings;
    print_table(s);
    print_parts(s);
    print_improved(settings, s);
    print_stopped(r, s);
    print_rounded(r, s);
    print_sample(&s->sample);
    rt_put("\n");
    rt_run_print_saved(stdout, j, s);
    print_verdict(s->findings, s->checksum, settings->out);
    print_disk(r, s, settings->out);
    print_next(r, settings->out, settings->merge);
}
