/* audit_lines.c - that metrics.jsonl is a log that this run can have written: every step once and in order, rates
 * as scheduled, losses that are the sum of their parts, one teacher on one set of batches, the best where it is said to
 * be. */
#include "evidence/audit.h"

#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct reader {
    rt_audit *v;
    uint32_t line, evals, last_eval;
    bool moved; /* the next evaluation is the first of another device */
    rt_eval_result first;
    double best;
    uint32_t best_step;
    rt_worse worse;
    bool bad;
    char why[400]; /* the first fault */
} reader;

static void fault(reader *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void fault(reader *r, const char *format, ...)
{
    char text[300];
    va_list args;
    if (r->bad) return;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(r->why, sizeof r->why, "metrics.jsonl, line %" PRIu32 ": %s", r->line, text);
    r->bad = true;
}

/* Doubles that were computed by the same expression: the last digits may go with the compiler. */
static bool same(double a, double b) { return fabs(a - b) <= 1e-12 * (fabs(a) + fabs(b)); }

static double number(const json_t *j, const char *key)
{
    const json_t *value = json_object_get(j, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

/* The device clips in single precision. */
static void check_clip(reader *r, double norm, double clip)
{
    double most = r->v->recorded.max_grad_norm, want = most > 0 ? fmin(1.0, most / (norm + 1e-6)) : 1.0;
    if (!(fabs(clip - want) <= 1e-5 * want)) fault(r, "a gradient of norm %g was not scaled by %g", norm, clip);
}

static int check_step(reader *r, const json_t *j, rt_err *e)
{
    rt_audit *v = r->v;
    const rt_recorded *s = &v->recorded;
    uint32_t step = v->step_count + 1;
    double ce = number(j, "ce"), div = number(j, "divergence"), loss = number(j, "loss");
    rt_logged_step one = { { rt_line_count(j, "rows"), rt_line_count(j, "tokens"), rt_line_count(j, "trained") },
                           ce,
                           div,
                           number(j, "agreement") };
    if (rt_line_count(j, "step") != step)
        fault(r, "step %" PRIu64 " stands where step %" PRIu32 " should", rt_line_count(j, "step"), step);
    if (!rt_grow((void **)&v->steps, &v->step_cap, step, sizeof *v->steps))
        return rt_fail(e, RT_NOMEM, "no memory for %" PRIu32 " steps", step);
    v->steps[v->step_count++] = one;
    if (one.of.trained == 0 || one.of.trained > one.of.tokens || one.of.tokens > one.of.rows * s->seq_len)
        fault(r, "%" PRIu64 " trained of %" PRIu64 " tokens in %" PRIu64 " rows cannot be", one.of.trained,
              one.of.tokens, one.of.rows);
    if (!(number(j, "seconds") >= 0)) fault(r, "no time");
    if (v->facts.teacher && !(one.agreement >= 0 && one.agreement <= 1)) fault(r, "agreement is no share");
    if (step <= v->same_from) return RT_OK;
    double parts = v->facts.ce_weight * ce + (v->facts.teacher ? v->facts.kd_weight * div : 0);
    if (!same(loss, parts)) fault(r, "the loss %.17g is not the sum of its parts, %.17g", loss, parts);
    if (step <= s->steps && !same(number(j, "lr"), s->rate(s->schedule, step)))
        fault(r, "the rate %.17g is not the schedule's", number(j, "lr"));
    if (one.of.rows != s->batch) fault(r, "%" PRIu64 " rows, and a step has %" PRIu32, one.of.rows, s->batch);
    check_clip(r, number(j, "grad_norm"), number(j, "clip"));
    return RT_OK;
}

/* moved: measured on another device, whose activations may have fewer bits. */
static bool same_teacher(rt_measure a, rt_measure b, bool moved)
{
    if (isnan(a.mean) || isnan(b.mean)) return isnan(a.mean) && isnan(b.mean); /* not measured */
    return fabs(a.mean - b.mean) <= (moved ? 1e-2 : 1e-4) * (1 + fabs(a.mean));
}

/* A device that computes from here on in the place of one that has failed: the manifest has a session of it. */
static void check_device(reader *r, const json_t *j)
{
    const rt_audit *v = r->v;
    const json_t *sessions = json_object_get(v->manifest, "sessions"), *failed = json_object_get(j, "failed");
    bool found = false;
    for (size_t i = 0; i < json_array_size(sessions); i++) {
        const json_t *s = json_array_get(sessions, i);
        found =
            found ||
            (rt_line_count(s, "from_step") == v->step_count && json_equal(json_object_get(s, "in_place_of"), failed) &&
             json_equal(json_object_get(json_object_get(s, "device"), "name"), json_object_get(j, "name")));
    }
    if (rt_line_count(j, "step") != v->step_count) fault(r, "a device of another step");
    if (!found) fault(r, "the manifest has no session of this device");
    r->moved = true;
}

static void check_eval(reader *r, const json_t *j)
{
    rt_audit *v = r->v;
    rt_eval_result one = rt_eval_read(j);
    uint32_t step = (uint32_t)rt_line_count(j, "step");
    double value = rt_eval_judged(&one).mean;
    if (step != v->step_count) fault(r, "an evaluation of step %" PRIu32 " after step %" PRIu32, step, v->step_count);
    if (r->evals && step <= r->last_eval) fault(r, "step %" PRIu32 " was evaluated already", step);
    if (one.teacher != v->facts.teacher) fault(r, "an evaluation %s a teacher", one.teacher ? "with" : "without");
    if (!(one.ce.mean >= 0) || (one.teacher && !(one.agreement.mean >= 0 && one.agreement.mean <= 1)))
        fault(r, "measures that cannot be");
    if (r->evals++ == 0) r->first = one;
    if (one.positions != r->first.positions || one.documents != r->first.documents)
        fault(r, "other batches than in the first evaluation");
    if (one.teacher && !same_teacher(r->first.teacher_ce, one.teacher_ce, r->moved))
        fault(r, "the teacher's cross-entropy is not what it was");
    if (r->moved) r->first.teacher_ce = one.teacher_ce;
    r->moved = false;
    r->last_eval = step;
    rt_worse_take(&r->worse, rt_eval_judged(&one));
    if (step > 0 && (r->best_step == 0 || value < r->best)) {
        r->best = value;
        r->best_step = step;
    }
}

static void check_end(reader *r)
{
    const rt_audit *v = r->v;
    const rt_evidence *f = &v->facts;
    uint32_t patience = v->recorded.stop_if_worse;
    bool stopped = f->stopped_of && patience && r->worse.in_row >= patience;
    if (v->step_count != f->steps || (v->step_count != v->recorded.steps && !stopped))
        fault(r, "the log ends at step %" PRIu32 ", the run at %" PRIu32, v->step_count, v->recorded.steps);
    if (!r->evals || r->last_eval != v->step_count) fault(r, "no evaluation after the last step");
    /* Before the first step the student may be better than ever after: then the last is saved. */
    bool from_start = f->has_first && r->best >= (f->teacher ? f->first.kl.mean : f->first.ce.mean);
    uint32_t saved = v->recorded.save_best && !from_start ? r->best_step : v->step_count;
    /* --save may have been another in an earlier session, and then no best was kept. */
    bool changed = json_array_size(json_object_get(v->manifest, "sessions")) > 1 && f->saved_step == v->step_count;
    if (f->saved_step != saved && !changed)
        fault(r, "the model at the root is of step %" PRIu32 ", and %" PRIu32 " would be the one to save",
              f->saved_step, saved);
}

static int read_line(reader *r, const char *text, size_t n, rt_err *e)
{
    int rc = RT_OK;
    (void)rt_json_out_of_memory();
    json_t *j = rt_json_load(text, n, JSON_REJECT_DUPLICATES, NULL);
    const char *event = json_string_value(json_object_get(j, "event"));
    r->line++;
    if (!j && rt_json_out_of_memory()) RT_TRY(rt_no_memory(e, "the log"));
    if (!event)
        fault(r, "not a line of a log");
    else if (strcmp(event, "step") == 0)
        RT_TRY(check_step(r, j, e));
    else if (strcmp(event, "eval") == 0)
        check_eval(r, j);
    else if (strcmp(event, "device") == 0)
        check_device(r, j);
    rt_evidence_take_line(&r->v->facts, j);
out:
    json_decref(j);
    return rc;
}

int rt_audit_lines(rt_audit *v, rt_err *e)
{
    int rc = RT_OK;
    rt_map m = { 0 };
    rt_err why = { 0 };
    reader r = { .v = v };
    char *path = rt_path_join(&v->arena, v->run, "metrics.jsonl");
    if (!path) RT_TRY(rt_no_memory(e, "a path"));
    if (rt_map_open(&m, path, &why) < 0) {
        rt_audit_tell(v, "metrics", RT_CHECK_FAIL, "%s", why.text);
        return RT_OK;
    }
    const char *at = (const char *)m.data, *end = at + m.size;
    while (at < end) {
        const char *stop = memchr(at, '\n', (size_t)(end - at));
        if (!stop) fault(&r, "the file ends in the middle of a line");
        if (!stop) break;
        RT_TRY(read_line(&r, at, (size_t)(stop - at), e));
        at = stop + 1;
    }
    check_end(&r);
    if (r.bad)
        rt_audit_tell(v, "metrics", RT_CHECK_FAIL, "%s", r.why);
    else
        rt_audit_tell(v, "metrics", RT_CHECK_PASS,
                      "%" PRIu32 " steps and %" PRIu32 " evaluations: in order, rates as scheduled, losses the sum of "
                      "their parts%s",
                      v->step_count, r.evals,
                      v->same_from ? " (since the settings were changed in a resumed run)" : "");
out:
    rt_map_close(&m);
    return rc;
}
