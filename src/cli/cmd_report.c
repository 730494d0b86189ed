/* cmd_report.c - `retort report`: a run, or several over each other, as one HTML page. */
#include "cli/cli.h"

#include "base/file.h"
#include "job/run/run_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct options {
    const char *out;
    bool json;
} options;

typedef struct state {
    rt_arena arena;
    rt_report_run *runs[RT_MAX_WORDS];
    uint32_t count;
    const char *path;
    uint64_t bytes;
} state;

static json_t *eval_json(uint32_t step, const rt_eval_result *v)
{
    json_t *j = json_pack("{s:I, s:o}", "step", (json_int_t)step, "cross_entropy", rt_json_measure(v->ce));
    if (!j || !v->teacher) return j;
    json_object_set_new(j, "forward_kl", rt_json_measure(v->kl));
    json_object_set_new(j, "agreement", rt_json_measure(v->agreement));
    json_object_set_new(j, "teacher_cross_entropy", rt_json_measure(v->teacher_ce));
    return j;
}

static int print_json(const state *s, rt_err *e)
{
    json_t *runs = json_array();
    for (uint32_t i = 0; i < s->count; i++) {
        rt_report_facts f = rt_report_run_facts(s->runs[i]);
        json_t *j =
            json_pack("{s:s, s:s, s:I, s:I, s:b, s:b, s:I, s:I, s:f}", "name", f.name, "folder", f.folder, "step",
                      (json_int_t)f.step, "steps", (json_int_t)f.steps, "finished", f.finished, "cut", f.cut,
                      "evaluations", (json_int_t)f.evals, "tokens", (json_int_t)f.tokens, "seconds", f.seconds);
        if (j && f.evals) {
            json_object_set_new(j, "before", eval_json(f.first_step, &f.first));
            json_object_set_new(j, "after",
                                f.after_step > f.first_step ? eval_json(f.after_step, &f.after) : json_null());
        }
        json_array_append_new(runs, j);
    }
    return rt_print_json(json_pack("{s:s, s:I, s:o}", "report", s->path, "bytes", (json_int_t)s->bytes, "runs", runs),
                         e);
}

static void print_text(const state *s)
{
    char size[32];
    for (uint32_t i = 0; i < s->count; i++) {
        rt_report_facts f = rt_report_run_facts(s->runs[i]);
        rt_put("%-20s step %u", f.name, f.step);
        if (f.steps) rt_put(" of %u", f.steps);
        rt_put("%s", f.stopped    ? ", stopped early"
                     : f.finished ? ", finished"
                     : f.going    ? ": still going"
                                  : ": interrupted");
        if (f.evals && f.after_step == f.first_step)
            rt_put(", held-out CE %.4f, not evaluated again yet", f.first.ce.mean);
        else if (f.evals)
            rt_put(", held-out CE %.4f -> %.4f", f.first.ce.mean, f.after.ce.mean);
        if (f.evals && f.after.teacher && !isnan(f.after.teacher_ce.mean))
            rt_put(" (teacher %.4f)", f.after.teacher_ce.mean);
        rt_put("%s\n", f.cut ? "; a file ends in the middle of a line, which is left out" : "");
    }
    rt_put("report               %s, %s\n", s->path, rt_format_bytes(size, s->bytes));
}

static int write_report(const options *o, const rt_words *words, rt_err *e)
{
    int rc;
    static state s;
    for (uint32_t i = 0; i < words->count; i++) {
        RT_TRY(rt_report_run_open(&s.runs[i], words->text[i], e));
        s.count++;
    }
    if (words->count == 1) { /* a run alone is shown with its control */
        RT_TRY(rt_control_report(&s.runs[1], rt_report_run_facts(s.runs[0]).folder, e));
        s.count += s.runs[1] != NULL;
    }
    s.path = o->out ? o->out
                    : rt_path_join(&s.arena, rt_report_run_facts(s.runs[0]).folder,
                                   words->count > 1 ? "compare.html" : "report.html");
    if (!s.path) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(rt_report_may_write(s.path, e));
    RT_TRY(rt_report_write(s.path, s.runs, s.count, e));
    RT_TRY(rt_file_size(s.path, &s.bytes, e));
    if (o->json)
        RT_TRY(print_json(&s, e));
    else
        print_text(&s);
out:
    for (uint32_t i = 0; i < s.count; i++) rt_report_run_close(s.runs[i]);
    rt_arena_free(&s.arena);
    return rc;
}

int rt_cmd_report(int argc, char **argv, rt_err *e)
{
    static options o;
    static rt_words words;
    bool help;
    const rt_flag flags[] = {
        { "--out", RT_FLAG_TEXT, &o.out, "FILE",
          "where the page goes (run/report.html; of several runs, "
          "run/compare.html of the first)" },
        { "--json", RT_FLAG_BOOL, &o.json, NULL, "what was read, as JSON; the page is written all the same" },
        { 0 },
    };
    const rt_flag aliases[] = { { "-o", RT_FLAG_TEXT, &o.out, "FILE", NULL }, { 0 } };
    const rt_command c = {
        .name = "report",
        .usage = "retort report RUN [RUN2 ...] [--out FILE] [--json]",
        .text =
            "Writes one page with everything about a run: curves, held-out measures, samples, settings, plan and\n"
            "verdict. It needs no network and no other file. With several runs their curves lie over each other.\n"
            "A run is the --out of distill or train; it may still be going. A run with a --control is shown with it.",
        .example = "retort report out\n  retort report out control --out compare.html",
        .flags = flags,
        .aliases = aliases,
        .min_words = 1,
        .max_words = RT_MAX_WORDS,
        .words = &words,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    return write_report(&o, &words, e);
}
