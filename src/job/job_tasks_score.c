/* job_tasks_score.c - which answers are right, scores with their errors, and what is required of them. See
 * job_tasks_internal.h. */
#include "job/job_tasks_internal.h"

#include "base/json.h"
#include "base/utf8.h"
#include "text/jinja/jinja_unicode.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char *const metric_names[] = {
#define X(name, text) text,
    RT_TASK_METRIC_LIST(X)
#undef X
        NULL
};

const char *rt_task_metric_name(rt_task_metric m) { return metric_names[m]; }

static bool has_metric(const rt_task *t, rt_task_metric m) { return t->choices == (m != RT_TASK_EXACT); }

/* ---- one record ---- */

int rt_task_marks_make(rt_task_marks *m, rt_arena *a, uint32_t records, rt_err *e)
{
    for (int i = 0; i < RT_TASK_METRICS; i++) {
        m->hit[i] = rt_arena_alloc(a, records * sizeof *m->hit[i]);
        m->chosen[i] = rt_arena_alloc(a, records * sizeof *m->chosen[i]);
        if (!m->hit[i] || !m->chosen[i]) return rt_no_memory(e, "scores");
    }
    return RT_OK;
}

static double characters(const rt_span *s) { return (double)rt_utf8_count(s->data, s->len); }

/* Without the white space at both ends. */
static rt_span trimmed(const char *text, size_t len)
{
    uint32_t bytes;
    const char *end = text + len;
    while (text < end && rt_ju_space(rt_utf8_get(text, &bytes))) text += bytes;
    while (text < end) {
        const char *last = rt_utf8_before(text, end);
        if (!rt_ju_space(rt_utf8_get(last, &bytes))) break;
        end = last;
    }
    return (rt_span){ text, (size_t)(end - text) };
}

static uint32_t match(const rt_task_record *r, const rt_task_request *q)
{
    const rt_span said = trimmed(q->text.data ? q->text.data : "", q->text.len);
    for (uint32_t i = 0; i < r->count; i++) {
        const rt_span right = trimmed(r->each[i].data, r->each[i].len);
        if (right.len == said.len && memcmp(right.data, said.data, said.len) == 0) return i;
    }
    return UINT32_MAX;
}

void rt_task_mark(rt_task_marks *m, const rt_task_set *s, uint32_t i, const rt_task_request *requests)
{
    const rt_task_record *r = &s->records[i];
    if (!s->tasks[r->task].choices) {
        m->chosen[RT_TASK_EXACT][i] = match(r, requests);
        m->hit[RT_TASK_EXACT][i] = m->chosen[RT_TASK_EXACT][i] != UINT32_MAX;
        return;
    }
    uint32_t best = 0, norm = 0;
    for (uint32_t k = 1; k < r->count; k++) {
        if (requests[k].logp > requests[best].logp) best = k;
        if (requests[k].logp / characters(&r->each[k]) > requests[norm].logp / characters(&r->each[norm])) norm = k;
    }
    m->chosen[RT_TASK_ACC][i] = best;
    m->chosen[RT_TASK_ACC_NORM][i] = norm;
    m->hit[RT_TASK_ACC][i] = best == r->answer;
    m->hit[RT_TASK_ACC_NORM][i] = norm == r->answer;
}

/* ---- all of them ---- */

int rt_task_rows(rt_job_tasked *out, const rt_task_set *s, rt_err *e)
{
    out->rows = rt_arena_alloc(&out->arena, RT_TASK_METRICS * (size_t)s->task_count * sizeof *out->rows);
    if (!out->rows) return rt_no_memory(e, "scores");
    for (uint32_t t = 0; t < s->task_count; t++)
        for (int m = 0; m < RT_TASK_METRICS; m++) {
            if (!has_metric(&s->tasks[t], (rt_task_metric)m)) continue;
            const rt_task_row row = { .task = rt_arena_strdup(&out->arena, s->tasks[t].name),
                                      .metric = (rt_task_metric)m,
                                      .n = s->tasks[t].n,
                                      .scores = rt_arena_alloc(&out->arena, out->model_count * sizeof *row.scores) };
            if (!row.task || !row.scores) return rt_no_memory(e, "scores");
            out->rows[out->row_count++] = row;
        }
    return RT_OK;
}

/* Of n numbers -1, 0, 1, whose sum and sum of squares these are. */
static rt_measure measure_of(int64_t sum, int64_t squares, uint32_t n)
{
    const double mean = (double)sum / n, spread = (double)squares - (double)sum * mean;
    return (rt_measure){ .mean = mean, .error = n > 1 ? sqrt(fmax(spread, 0) / (n - 1.0) / n) : NAN };
}

/* Of one row. */
typedef struct tally {
    int64_t hits, change, changed;
} tally;

/* Once over the records: every one may be of a task of its own. */
static void count_hits(tally *all, const uint32_t *row_of, const rt_job_tasked *out, const rt_task_set *s,
                       const rt_task_marks *first, const rt_task_marks *m)
{
    for (uint32_t i = 0; i < s->count; i++) {
        const uint32_t task = s->records[i].task;
        for (uint32_t k = row_of[task]; k < row_of[task + 1]; k++) {
            const rt_task_metric metric = out->rows[k].metric;
            const int hit = m->hit[metric][i], was = first->hit[metric][i];
            all[k].hits += hit;
            all[k].change += hit - was;
            all[k].changed += hit != was;
        }
    }
}

int rt_task_score_all(rt_job_tasked *out, const rt_task_set *s, uint32_t model, const rt_task_marks *first,
                      const rt_task_marks *m, rt_err *e)
{
    int rc = RT_OK;
    tally *all = rt_alloc_zero(out->row_count * sizeof *all, 16);
    uint32_t *row_of = rt_alloc_zero((s->task_count + (size_t)1) * sizeof *row_of, 16);
    if (!all || !row_of) RT_TRY(rt_no_memory(e, "scores"));
    for (uint32_t t = 0; t < s->task_count; t++)
        for (int k = 0; k < RT_TASK_METRICS; k++)
            row_of[t + 1] = (k ? row_of[t + 1] : row_of[t]) + has_metric(&s->tasks[t], (rt_task_metric)k);
    count_hits(all, row_of, out, s, first, m);
    for (uint32_t k = 0; k < out->row_count; k++) {
        const rt_task_row *row = &out->rows[k];
        ((rt_task_score *)row->scores)[model] =
            (rt_task_score){ .value = measure_of(all[k].hits, all[k].hits, row->n),
                             .change = measure_of(all[k].change, all[k].changed, row->n) };
    }
out:
    rt_free(all);
    rt_free(row_of);
    return rc;
}

/* ---- requirements ---- */

static int gate_fail(const char *text, const char *what, rt_err *e)
{
    return rt_fail(e, RT_USAGE, "--require '%s': %s; write it as acc>=0.3 or TASK:acc>=0.3", text, what);
}

static int gate_parse(rt_job_tasked *out, const char *text, rt_err *e)
{
    const char *sign = strstr(text, ">="), *colon = sign ? memchr(text, ':', (size_t)(sign - text)) : NULL;
    const char *name = colon ? colon + 1 : text;
    if (!sign) return gate_fail(text, "it has no >=", e);
    int m = 0;
    const size_t len = (size_t)(sign - name);
    while (m < RT_TASK_METRICS && !(strlen(metric_names[m]) == len && memcmp(metric_names[m], name, len) == 0)) m++;
    if (m == RT_TASK_METRICS) return gate_fail(text, "the metrics are acc, acc_norm and exact_match", e);
    char *end;
    const double least = strtod(sign + 2, &end);
    if (end == sign + 2 || *end || !(least >= 0 && least <= 1))
        return gate_fail(text, "the score is not a number from 0 to 1", e);
    const uint32_t before = out->gate_count;
    for (uint32_t i = 0; i < out->row_count; i++) {
        const rt_task_row *r = &out->rows[i];
        const bool named =
            !colon || (strlen(r->task) == (size_t)(colon - text) && memcmp(r->task, text, (size_t)(colon - text)) == 0);
        if (!named || (int)r->metric != m) continue;
        out->gates[out->gate_count++] = (rt_task_gate){ .text = text, .row = r, .least = least };
    }
    if (out->gate_count > before) return RT_OK;
    return rt_fail(e, RT_USAGE, "--require '%s': no such task in the files has %s", text, metric_names[m]);
}

int rt_task_gates_parse(rt_job_tasked *out, const char *const *require, uint32_t count, rt_err *e)
{
    int rc = RT_OK;
    if (!count) return RT_OK;
    out->gates = rt_arena_alloc(&out->arena, (size_t)count * out->row_count * sizeof *out->gates);
    if (!out->gates) return rt_no_memory(e, "requirements");
    for (uint32_t i = 0; i < count; i++) RT_TRY(gate_parse(out, require[i], e));
out:
    return rc;
}

void rt_task_gates_look(rt_job_tasked *out)
{
    for (uint32_t i = 0; i < out->gate_count; i++)
        out->gates[i].holds = out->gates[i].row->scores[0].value.mean >= out->gates[i].least;
}

int rt_job_tasked_check(const rt_job_tasked *t, rt_err *e)
{
    uint32_t failed = 0;
    const rt_task_gate *first = NULL;
    if (t->details.status < 0) {
        if (e) *e = t->details;
        return t->details.status;
    }
    for (uint32_t i = 0; i < t->gate_count; i++) {
        if (t->gates[i].holds) continue;
        if (!failed++) first = &t->gates[i];
    }
    if (!failed) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "%u of %u requirements %s not met: %s of %s is %.4f, and --require '%s' asks for more", failed,
                   t->gate_count, failed == 1 ? "is" : "are", metric_names[first->row->metric], first->row->task,
                   first->row->scores[0].value.mean, first->text);
}

/* ---- details ---- */

static json_t *detail_of_choices(const rt_task_record *r, uint32_t i, const rt_task_request *q, const rt_task_marks *m)
{
    json_t *logps = json_array(), *tokens = json_array();
    for (uint32_t k = 0; k < r->count; k++) {
        json_array_append_new(logps, json_real(q[k].logp));
        json_array_append_new(tokens, json_integer(q[k].ids.count - q[k].scored));
    }
    return json_pack("{s:i, s:i, s:i, s:o, s:o}", "answer", (int)r->answer, "chosen", (int)m->chosen[RT_TASK_ACC][i],
                     "chosen_norm", (int)m->chosen[RT_TASK_ACC_NORM][i], "logps", logps, "tokens", tokens);
}

int rt_task_detail(rt_str *out, const rt_job_tasked *t, uint32_t model, const rt_task_set *s, uint32_t i,
                   const rt_task_request *requests, const rt_task_marks *m, rt_err *e)
{
    const rt_task_record *r = &s->records[i];
    const char *said = requests->text.data ? requests->text.data : "";
    json_t *j = s->tasks[r->task].choices ? detail_of_choices(r, i, requests, m)
                                          : json_pack("{s:s%, s:b, s:f}", "said", said, requests->text.len, "right",
                                                      (int)m->hit[RT_TASK_EXACT][i], "logp", requests->logp);
    json_t *line = json_pack("{s:s, s:I, s:s, s:s}", "file", r->file, "line", (json_int_t)r->line, "task",
                             s->tasks[r->task].name, "model", t->models[model].name);
    const bool whole = j && line && json_object_update(line, j) == 0;
    char *text = whole ? rt_json_dump(line, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    if (text) rt_str_printf(out, "%s\n", text);
    const bool made = text && !out->failed;
    rt_free(text);
    json_decref(j);
    json_decref(line);
    return made ? RT_OK : rt_no_memory(e, "the details");
}
