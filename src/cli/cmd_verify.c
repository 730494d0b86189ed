/* cmd_verify.c - `retort verify`: runs the op cases on this machine and prints what failed and the totals. With the
 * name of a run that run is checked instead (audit_print.c). */
#include "cli/cli.h"
#include "verify/verify.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MAX_REASONS = 32 };
enum { KEPT_BYTES = 1 << 28 };

/* What is kept of a run while it goes on: one line per op, and the reasons for what was not supported. */
typedef struct summary {
    bool json, progress;
    json_t *cases; /* with --json */
    char op[32];   /* the op whose cases are being counted */
    rt_verify_totals of_op;
    double worst;
    uint32_t done;
    struct {
        char text[300];
        uint32_t count;
    } reason[MAX_REASONS];
} summary;

static const char *outcome_text(rt_case_outcome o)
{
    return o == RT_CASE_PASS ? "pass" : o == RT_CASE_FAIL ? "FAIL" : "unsupported";
}

static void clear_progress(const summary *s)
{
    if (s->progress) fprintf(stderr, "\r%60s\r", "");
}

static void print_op_line(summary *s)
{
    if (!s->op[0] || s->json) return;
    clear_progress(s);
    rt_put("%-16s %5u passed %5u failed %5u unsupported   worst %3.0f %% of what is allowed   %6.2f s\n", s->op,
           s->of_op.passed, s->of_op.failed, s->of_op.unsupported, 100.0 * s->worst, s->of_op.seconds);
}

/* The same reason for many cases is told once, so what names the case is left out. */
static void count_reason(summary *s, const char *text)
{
    const char *backend = strstr(text, "backend ");
    if (backend) text = backend;
    for (int i = 0; i < MAX_REASONS; i++) {
        if (s->reason[i].count && strncmp(s->reason[i].text, text, sizeof s->reason[i].text - 1) != 0) continue;
        snprintf(s->reason[i].text, sizeof s->reason[i].text, "%s", text);
        s->reason[i].count++;
        return;
    }
}

static void on_result(void *ctx, const rt_case_result *r)
{
    summary *s = ctx;
    if (strcmp(s->op, r->op) != 0) {
        print_op_line(s);
        s->of_op = (rt_verify_totals){ 0 };
        s->worst = 0;
        snprintf(s->op, sizeof s->op, "%s", r->op);
    }
    if (r->outcome == RT_CASE_PASS) s->of_op.passed++;
    if (r->outcome == RT_CASE_FAIL) s->of_op.failed++;
    if (r->outcome == RT_CASE_UNSUPPORTED) {
        s->of_op.unsupported++;
        count_reason(s, r->text);
    }
    s->of_op.seconds += r->seconds;
    if (r->error > s->worst) s->worst = r->error;
    s->done++;
    if (s->json) {
        json_array_append_new(s->cases, json_pack("{s:s, s:s, s:s, s:f, s:s, s:f}", "name", r->name, "op", r->op,
                                                  "outcome", outcome_text(r->outcome), "error", r->error, "text",
                                                  r->text, "seconds", r->seconds));
    } else if (r->outcome == RT_CASE_FAIL) {
        clear_progress(s);
        rt_put("FAIL %s\n     %s\n", r->name, r->text);
    }
    if (s->progress) fprintf(stderr, "\r%u cases, %.40s", s->done, r->op);
}

static void print_name(void *ctx, const char *name, const char *op)
{
    json_t *list = ctx;
    if (list)
        json_array_append_new(list, json_pack("{s:s, s:s}", "name", name, "op", op));
    else
        puts(name);
}

static int list_cases(const rt_verify_opts *o, bool json, rt_err *e)
{
    json_t *list = json ? json_array() : NULL;
    int rc = rt_verify_list(o, print_name, list, e);
    if (rc < 0) {
        json_decref(list);
        return rc;
    }
    return json ? rt_print_json(list, e) : RT_OK;
}

static int finish(summary *s, const rt_verify_opts *o, const rt_verify_totals *t, rt_err *e)
{
    if (s->json) {
        json_t *j = json_pack("{s:s, s:b, s:b, s:i, s:i, s:i, s:f, s:O}", "backend", o->backend, "quick", o->quick,
                              "large", o->large, "passed", (int)t->passed, "failed", (int)t->failed, "unsupported",
                              (int)t->unsupported, "seconds", t->seconds, "cases", s->cases);
        int rc = rt_print_json(j, e);
        if (rc < 0) return rc;
    } else {
        print_op_line(s);
        for (int i = 0; i < MAX_REASONS && s->reason[i].count; i++)
            rt_put("unsupported, %u case%s: %s\n", s->reason[i].count, s->reason[i].count == 1 ? "" : "s",
                   s->reason[i].text);
        rt_put("backend %s, %u unsupported, %.1f s\n%u passed, %u failed\n", o->backend, t->unsupported, t->seconds,
               t->passed, t->failed);
    }
    if (t->failed)
        return rt_fail(e, RT_INTERNAL, "%u case%s failed on backend %s: do not train with it on this machine",
                       t->failed, t->failed == 1 ? "" : "s", o->backend);
    return RT_OK;
}

static int run_cases(rt_verify_opts *o, bool json, rt_err *e)
{
    summary s = { .json = json, .progress = !json && isatty(STDERR_FILENO), .cases = json ? json_array() : NULL };
    rt_verify_totals t = { 0 };
    o->report = on_result;
    o->stop = rt_interrupt_wanted;
    o->ctx = &s;
    rt_interrupt_catch();
    /* Every case takes and gives back buffers of megabytes: kept by the process, they need not be cleared again by the
     * kernel for each. */
    mallopt(M_MMAP_THRESHOLD, KEPT_BYTES);
    mallopt(M_TRIM_THRESHOLD, KEPT_BYTES);
    int rc = rt_verify_run(o, &t, e);
    clear_progress(&s);
    if (rc >= 0)
        rc = finish(&s, o, &t, e);
    else if (!json && s.done > 0)
        rt_put("stopped: %u passed, %u failed so far\n", t.passed, t.failed);
    json_decref(s.cases);
    return rc;
}

/* Of what was given, the first that has no meaning for a run. */
static const char *for_cases(const rt_verify_opts *o, const char *isa, bool list)
{
    return o->op             ? "--op"
           : o->name         ? "--case"
           : o->quick        ? "--quick"
           : o->large        ? "--large"
           : isa             ? "--isa"
           : o->memory_limit ? "--memory-limit"
           : list            ? "--list"
                             : NULL;
}

int rt_cmd_verify(int argc, char **argv, rt_err *e)
{
    rt_job_env env = rt_cli_env(0);
    rt_verify_opts o = { 0 };
    rt_words words = { 0 };
    const char *device = NULL, *isa = NULL, *kernels = NULL, *cublaslt = NULL;
    bool json = false, list = false, sync = false, help;
    const rt_flag flags[] = {
        { "--backend", RT_FLAG_TEXT, &o.backend, "B", "which backend to prove: cpu (default), cuda, vulkan or ref" },
        { "--op", RT_FLAG_TEXT, &o.op, "NAME", "only the cases of this op" },
        { "--case", RT_FLAG_TEXT, &o.name, "TEXT", "only cases with this in their names, as --list prints them" },
        { "--quick", RT_FLAG_BOOL, &o.quick, NULL, "one odd shape per op and dtype signature, every flag once" },
        { "--large", RT_FLAG_BOOL, &o.large, NULL, "instead: cases of more than 2^31 elements, where memory allows" },
        { "--device", RT_FLAG_TEXT, &device, "D",
          "with RUN: device to measure on, e.g. cpu, cuda:1 (default: the one that the run used)" },
        rt_device_flag("threads", &o.threads),
        rt_device_flag("isa", &isa),
        { "--memory-limit", RT_FLAG_BYTES, &o.memory_limit, "SIZE", "device memory that a case may use, e.g. 2GiB" },
        rt_device_flag("kernels", &kernels),
        rt_device_flag("cublaslt", &cublaslt),
        rt_device_flag("sync", &sync),
        { "--list", RT_FLAG_BOOL, &list, NULL, "print the names of the cases and run nothing" },
        { "--json", RT_FLAG_BOOL, &json, NULL, "every case with its outcome, as JSON" },
        { 0 },
    };
    const rt_command c = {
        .name = "verify",
        .usage = "retort verify [RUN] [flags]",
        .text =
            "Runs every op on this machine, forward and backward, for every dtype, shape and flag that the plan\n"
            "recorder allows, and compares with the same op in double precision. Each case also runs twice and, on\n"
            "cpu, with 1, 2 and 7 threads: all must agree to the bit. Exit code 0 when nothing failed, 1 when a case\n"
            "failed. With --large each memory-bound op runs once on more elements than a 32-bit index counts.\n\n"
            "With RUN, the --out of a finished run, checks that run instead: every file against the manifest's\n"
            "hashes, the log line by line, and both models measured again on the held-out text, on the device that\n"
            "the run used, or on the CPU where that is not there. It writes nothing. Exit code 0 when nothing failed,\n"
            "5 when something did. Takes --device, --threads and --json.",
        .example = "retort verify --backend cpu --op matmul\n  retort verify out\n  retort verify out --device cpu",
        .flags = flags,
        .max_words = 1,
        .words = &words,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    if (words.count) {
        const char *alone = for_cases(&o, isa, list);
        if (alone) return rt_fail(e, RT_USAGE, "%s is for the cases of ops, and %s is a run", alone, words.text[0]);
        return rt_audit_command(words.text[0], device ? device : o.backend, o.threads, json, e);
    }
    if (device) return rt_fail(e, RT_USAGE, "--device is for a run; --backend names the backend whose ops are proved");
    if (!o.backend) o.backend = "cpu";
    const rt_dev_option given[] = {
        { "isa", isa }, { "kernels", kernels }, { "cublaslt", cublaslt }, { "sync", sync ? "on" : NULL }
    };
    o.dev = (rt_dev_opts){ .option = given, .count = sizeof given / sizeof *given, .env = env.environment };
    return list ? list_cases(&o, json, e) : run_cases(&o, json, e);
}
