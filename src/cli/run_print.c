/* run_print.c - what a person sees of a run: what it is going to do, a live line, evaluations. */
#include "cli/cli.h"

#include "base/sys.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void rt_run_printer_begin(rt_run_printer *p) { *p = (rt_run_printer){ .terminal = isatty(STDOUT_FILENO) }; }

static void clear(rt_run_printer *p)
{
    if (p->dirty) printf("\r\033[K");
    p->dirty = false;
}

static void on_note(void *ctx, const char *text)
{
    clear(ctx);
    printf("note      %s\n", text);
    fflush(stdout);
}

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    rt_run_printer *p = ctx;
    double now = rt_now();
    if (!p->terminal || now - p->shown < 0.2) return;
    p->shown = now;
    p->dirty = true;
    printf("\r\033[K%s %.0f %%", what, total ? 100.0 * (double)done / (double)total : 100.0);
    fflush(stdout);
}

static void on_refused(void *ctx, const char *plan)
{
    clear(ctx);
    fputs(plan, stdout);
    fflush(stdout);
}

/* ---- before the first step ---- */

static void print_model(const char *who, const rt_model_file *m)
{
    char n[32];
    printf("%-9s %s: %s, %s parameters, %u layers, width %u\n", who, m->name, m->config.family->name,
           rt_format_params(n, rt_model_file_parameters(m)), m->config.layers, m->config.width);
}

/* What was chosen for memory's sake, and why. */
static void print_fit(const rt_fit *f)
{
    rt_str flags = { 0 };
    char need[32], limit[32];
    rt_fit_chosen(&flags, f);
    if (flags.len)
        printf("fit       %s: %s would be needed without, and %s %s\n", flags.data,
               rt_format_bytes(need, f->wanted_need),
               f->ask.limit_is == RT_FIT_REFUSED ? "the device gives no more than" : "the limit is",
               rt_format_bytes(limit, f->ask.limit));
    rt_str_free(&flags);
}

/* The teacher's weights are as stored, or dequantised once, and why. */
static void print_weights(const rt_fit *f)
{
    rt_str text = { 0 };
    rt_weights_say(&text, &f->weights);
    if (text.len) printf("weights   %s\n", text.data);
    rt_str_free(&text);
}

static uint32_t print_every(uint32_t steps) { return steps / 50 ? steps / 50 : 1; }

static void on_ready(void *ctx, const rt_run *r)
{
    rt_run_printer *p = ctx;
    const rt_inputs *in = rt_run_inputs(r);
    const rt_resolved *v = rt_run_resolved(r);
    const rt_job_programs programs = rt_job_run_programs(r);
    rt_str pair = { 0 };
    char a[32], b[32];
    clear(p);
    if (in->teacher) print_model("teacher", in->teacher);
    print_model("student", in->student);
    if (in->teacher) {
        rt_pair_describe(&in->pair, &pair);
        printf("pair      %s\n", pair.data ? pair.data : "");
        rt_str_free(&pair);
    }
    if (in->template_from) printf("template  %s\n", in->template_from);
    printf("train     %s parameters%s, ", rt_format_params(a, programs.trained), v->lora.rank ? " of adapters" : "");
    if (v->seconds > 0)
        printf("as many steps of %u rows (%u at a time) as the time allows, lr %.3g %s\n", v->batch, v->micro_batch,
               v->schedule.lr, rt_schedule_name(v->schedule.kind));
    else
        printf("%u steps of %u rows (%u at a time), lr %.3g %s, warm-up %u\n", v->steps, v->batch, v->micro_batch,
               v->schedule.lr, rt_schedule_name(v->schedule.kind), v->schedule.warmup);
    p->every = v->seconds > 0 ? 1 : print_every(v->steps);
    if (!p->plan)
        printf("memory    %s, of it %s for one micro-batch\n", rt_format_bytes(a, programs.memory),
               rt_format_bytes(b, programs.activations));
    if (!p->plan) print_fit(rt_run_fitted(r));
    if (!p->plan) print_weights(rt_run_fitted(r));
    rt_preview_print(r, p->terminal);
    fflush(stdout);
}

/* ---- while it runs ---- */

static void on_step(void *ctx, const rt_run_line *l)
{
    rt_run_printer *p = ctx;
    const rt_step_result *v = &l->result;
    char left[32], memory[32], teacher[96] = "", share[32] = "";
    double now = rt_now();
    if (p->terminal ? now - p->shown < 0.1 && l->step < l->steps : l->step % p->every != 0 && l->step != 1) return;
    p->shown = now;
    if (l->teacher_share > 0) {
        snprintf(teacher, sizeof teacher, "  div %.4f  agree %.3f", v->div, v->agreement);
        snprintf(share, sizeof share, "  teacher %.0f %%", 100 * l->teacher_share);
    }
    printf("%sstep %u/%u  loss %.4f  ce %.4f%s  lr %.2e  norm %.2f  %.0f tok/s%s  %s  left %s%s",
           p->terminal ? "\r\033[K" : "", l->step, l->steps, v->loss, v->ce, teacher, l->lr, v->grad_norm,
           l->tokens_per_second, share, rt_format_bytes(memory, l->memory), rt_format_duration(left, l->remaining),
           p->terminal ? "" : "\n");
    p->dirty = p->terminal;
    fflush(stdout);
}

static void on_projected(void *ctx, const rt_run_projection *l)
{
    rt_run_printer *p = ctx;
    char step[32], total[32];
    clear(p);
    printf("time      %s a step over %u steps; all %u with evaluations and saves: %s\n",
           rt_format_seconds(step, l->step), l->timed, l->steps, rt_format_duration(total, l->total));
    fflush(stdout);
    p->every = print_every(l->steps);
}

static void print_measure(const char *name, rt_measure m)
{
    if (isnan(m.error))
        printf("  %s %.4f", name, m.mean);
    else
        printf("  %s %.4f +- %.4f", name, m.mean, m.error);
}

static void on_evaluated(void *ctx, uint32_t step, const rt_eval_result *v, bool best)
{
    clear(ctx);
    printf("eval %-5u", step);
    print_measure("ce", v->ce);
    if (v->teacher) {
        print_measure("kl", v->kl);
        print_measure("agree", v->agreement);
        print_measure("teacher ce", v->teacher_ce);
    }
    printf("%s\n", best && step ? "  best" : "");
    fflush(stdout);
}

static void on_saved(void *ctx, const char *path)
{
    rt_run_printer *p = ctx;
    if (!p->terminal) printf("saved %s\n", path);
    fflush(stdout);
}

rt_run_events rt_run_printer_events(rt_run_printer *p)
{
    return (rt_run_events){ .note = on_note,
                            .progress = on_progress,
                            .refused = on_refused,
                            .ready = on_ready,
                            .step = on_step,
                            .projected = on_projected,
                            .evaluated = on_evaluated,
                            .saved = on_saved,
                            .stop = rt_interrupt_wanted,
                            .ctx = p };
}

void rt_run_print_summary(rt_run_printer *p, const rt_job_run *j, const rt_run_summary *s)
{
    clear(p);
    rt_run_print_end(j, s);
}
