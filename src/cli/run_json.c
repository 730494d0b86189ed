/* run_json.c - a run for programs: its events as JSON, one a line, as docs/terminal.md lists them. */
#include "cli/cli.h"

#include <math.h>
#include <string.h>
#include <time.h>

/* Writes {"event": name, "time": now} with all of j, which it takes. An event that there is no memory for, or that
 * holds text that is no UTF-8, is left out; whether the stream took the others is asked at the end. */
static void emit(const rt_run_printer *p, const char *name, json_t *j)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    json_t *all =
        json_pack("{s:s, s:f}", "event", name, "time", (double)t.tv_sec + 1e-3 * (double)(t.tv_nsec / 1000000));
    if (all && j && json_object_update_missing(all, j) == 0) {
        json_dumpf(all, p->json, JSON_COMPACT | JSON_REAL_PRECISION(15));
        fputc('\n', p->json);
        fflush(p->json);
    }
    json_decref(all);
    json_decref(j);
}

/* Null for what is not finite, which JSON cannot say. */
static json_t *number(double v) { return isfinite(v) ? json_real(v) : json_null(); }

static json_t *model(const rt_model_file *m)
{
    return m ? json_pack("{s:o, s:s, s:I}", "name", rt_json_text(m->name), "family", m->config.family->name,
                         "parameters", (json_int_t)rt_model_file_parameters(m))
             : json_null();
}

void rt_run_json_start(const rt_run_printer *p, rt_dev *d)
{
    rt_dev_info info = { 0 };
    if (!p->json || d->api->info(d, &info, NULL) < 0) return;
    emit(p, "start",
         json_pack("{s:s, s:s, s:s?, s:o, s:b, s:{s:s, s:s}}", "command", p->command, "version", rt_cli_version,
                   "build", rt_cli_build, "out", rt_json_text(p->out), "resumed", p->resumed, "device", "backend",
                   d->api->name, "name", info.name));
}

static double clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void rt_run_json_progress(rt_run_printer *p, const char *what, uint64_t done, uint64_t total)
{
    if (!p->json) return;
    double now = clock_now();
    bool begins = !p->what || strcmp(p->what, what) != 0;
    if (!begins && now - p->told < 1) return;
    p->what = what;
    p->told = now;
    if (begins && total) return; /* it may be over at once */
    emit(p, "progress",
         json_pack("{s:s, s:o, s:o}", "what", what, "done", rt_json_u64(done), "total",
                   total ? rt_json_u64(total) : json_null()));
}

/* When training begins, and then within steps that take long. */
void rt_run_json_computing(rt_run_printer *p, const rt_run_computing *c)
{
    enum { SECONDS = 5 };
    static const char what[] = "training";
    if (!p->json) return;
    double now = clock_now();
    if (p->what == what && now - p->told < SECONDS) return;
    p->what = what;
    p->told = now;
    emit(p, "progress",
         json_pack("{s:s, s:I, s:I, s:I, s:o}", "what", what, "step", (json_int_t)c->step, "steps",
                   (json_int_t)c->steps, "done", (json_int_t)c->done, "total",
                   c->count ? json_integer(c->count) : json_null()));
}

void rt_run_json_warning(const rt_run_printer *p, const char *text)
{
    if (p->json) emit(p, "warning", json_pack("{s:o}", "text", rt_json_text(text)));
}

void rt_run_json_again(const rt_run_printer *p, const char *text)
{
    if (p->json) emit(p, "device_failed", json_pack("{s:o}", "text", rt_json_text(text)));
}

/* Each of several, and its share as a person reads it. */
static json_t *teachers(const rt_inputs *in)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < in->teachers.count; i++) {
        rt_str share = { 0 };
        json_t *one = model(rt_inputs_teacher(in, i));
        rt_job_teacher_share(in, i, &share);
        json_object_set_new(one, "share", rt_json_text(share.data ? share.data : ""));
        json_array_append_new(list, one);
        rt_str_free(&share);
    }
    return list;
}

void rt_run_json_plan(const rt_run_printer *p, const rt_run *r)
{
    if (!p->json) return;
    const rt_inputs *in = rt_run_inputs(r);
    const rt_resolved *v = rt_run_resolved(r);
    const rt_job_programs m = rt_job_run_programs(r);
    json_t *j =
        json_pack("{s:o, s:o, s:I, s:o, s:I, s:I, s:I, s:o, s:s, s:I, s:I, s:I, s:I}", "teacher", model(in->teacher),
                  "student", model(in->student), "from_step", (json_int_t)rt_run_state(r)->step, "steps",
                  v->seconds > 0 ? json_null() : json_integer(v->steps), "batch", (json_int_t)v->batch, "micro_batch",
                  (json_int_t)v->micro_batch, "seq_len", (json_int_t)v->seq_len, "lr",
                  v->lr_open ? json_null() : json_real(v->schedule.lr), "schedule", rt_schedule_name(v->schedule.kind),
                  "trained_parameters", (json_int_t)m.trained, "held_out_rows", (json_int_t)rt_run_held_rows(r),
                  "memory", (json_int_t)m.memory, "activations", (json_int_t)m.activations);
    if (j && in->teachers.count > 1) json_object_set_new(j, "teachers", teachers(in));
    emit(p, "plan", j);
}

void rt_run_json_step(rt_run_printer *p, const rt_run_line *l)
{
    const rt_step_result *v = &l->result;
    if (!p->json) return;
    p->told = clock_now();
    json_t *j =
        json_pack("{s:I, s:I, s:o, s:o, s:f, s:o, s:o, s:I, s:f, s:f, s:f, s:I}", "step", (json_int_t)l->step, "steps",
                  (json_int_t)l->steps, "loss", number(v->loss), "ce", number(v->ce), "lr", l->lr, "grad_norm",
                  number(v->grad_norm), "clip", number(v->clip), "trained", (json_int_t)v->trained, "tokens_per_second",
                  l->tokens_per_second, "seconds", l->seconds, "left", l->remaining, "memory", (json_int_t)l->memory);
    if (j && l->distils) {
        json_object_set_new(j, "divergence", number(v->div));
        json_object_set_new(j, "agreement", number(v->agreement));
        json_object_set_new(j, "teacher_share", json_real(l->teacher_share));
    }
    emit(p, "step", j);
}

void rt_run_json_projection(const rt_run_printer *p, const rt_run_projection *l)
{
    if (!p->json) return;
    emit(p, "projection",
         json_pack("{s:I, s:I, s:f, s:f, s:f}", "timed", (json_int_t)l->timed, "steps", (json_int_t)l->steps,
                   "step_seconds", l->step, "evaluation_seconds", l->evaluations, "total_seconds", l->total));
}

void rt_run_json_eval(const rt_run_printer *p, uint32_t step, const rt_eval_result *v, bool best)
{
    if (!p->json) return;
    json_t *j = rt_eval_to_json(step, v);
    if (j) json_object_set_new(j, "best", json_boolean(best));
    emit(p, "eval", j);
}

void rt_run_json_sample(const rt_run_printer *p, const rt_sample_said *v)
{
    if (p->json) emit(p, "sample", rt_sample_to_json(v));
}

void rt_run_json_checkpoint(const rt_run_printer *p, const char *path)
{
    if (p->json) emit(p, "checkpoint", json_pack("{s:o}", "path", rt_json_text(path)));
}

static json_t *verdict(const rt_findings *f)
{
    return f ? json_pack("{s:I, s:I, s:I, s:I}", "claims", (json_int_t)f->count, "held",
                         (json_int_t)f->of[RT_VERDICT_PASS], "failed", (json_int_t)f->of[RT_VERDICT_FAIL],
                         "not_measured", (json_int_t)f->of[RT_VERDICT_NOT_MEASURED])
             : json_null();
}

void rt_run_json_end(const rt_run_printer *p, const rt_job_run *j, const rt_run_summary *s)
{
    char hash[33];
    if (!p->json) return;
    if (s->smoke) {
        emit(p, "end", json_pack("{s:b, s:i}", "smoke", 1, "exit_code", 0));
        return;
    }
    emit(p, "saved",
         json_pack("{s:o, s:s, s:I, s:b}", "path", rt_json_text(j->settings.out), "kind",
                   rt_run_resolved(j->run)->lora.rank ? "adapter" : "model", "step", (json_int_t)s->saved_step, "best",
                   s->is_best));
    emit(p, "end",
         json_pack("{s:b, s:o, s:o, s:b, s:o, s:s, s:i}", "ended_before", s->ended, "before",
                   rt_eval_to_json(0, &s->before), "after", rt_eval_to_json(s->saved_step, &s->saved), "stopped_early",
                   s->stopped_early, "verdict", verdict(s->findings), "manifest", rt_hash_text(hash, s->checksum),
                   "exit_code", 0));
}

void rt_run_json_error(const rt_run_printer *p, int rc, const rt_err *e)
{
    if (!p->json) return;
    emit(p, "error",
         json_pack("{s:s, s:o, s:i}", "status", rt_status_text(rc), "text",
                   rt_json_text(e->text[0] ? e->text : rt_status_text(rc)), "exit_code", rt_status_exit(rc)));
}
