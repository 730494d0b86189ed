/* job_tasks.c - tasks given to one model after another. See tasks.h.
 *
 * Files are read once. Then every model is opened and its requests are made, so that what cannot be measured is known
 * before a weight is loaded; then each is loaded, asked and let go, so that one at a time takes memory of the device.
 * The requests of a model are given to it in their order, as many at once as there is room for. */
#include "job/job_tasks_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "job/prepare/inputs.h"

#include <math.h>
#include <string.h>

/* A model with its requests. */
typedef struct part {
    rt_model_file *model;
    rt_speaker *speaker;
    rt_task_request_list requests;
    uint32_t context; /* the longest of them needs it */
} part;

typedef struct work {
    const rt_job_tasks_opts *o;
    rt_job_tasked *out;
    rt_task_set set;
    part *parts; /* (model_count) */
    json_t *vars;
    rt_task_marks first; /* of the first model */
    rt_str details;
    rt_job_tell tell;
} work;

/* ---- before anything is computed ---- */

/* An answer has to have a place after its prompt, and goes as far as the context does. */
static int check_length(const work *w, part *p, const rt_task_request *q, rt_err *e)
{
    const rt_task_record *r = &w->set.records[q->record];
    const uint32_t most = p->model->config.context, own = q->ids.count + (r->max_new != 0);
    const uint64_t need = (uint64_t)q->ids.count + r->max_new;
    const uint32_t takes = need < most ? (uint32_t)need : most;
    if (own > most)
        return rt_fail(e, RT_INVALID, "%s has %u tokens, and the model's context is %u; shorten it or leave it out",
                       r->max_new ? "the prompt" : "the question with a choice", q->ids.count, most);
    if (takes > p->context) p->context = takes;
    return RT_OK;
}

static int make_requests(work *w, part *p, rt_err *e)
{
    int rc = RT_OK;
    const rt_task_text text = { .speaker = p->speaker,
                                .chat = w->o->chat,
                                .vars = w->vars,
                                .now = w->o->env->now,
                                .utc_offset = w->o->env->utc_offset,
                                .context = p->model->config.context,
                                .tell = &w->tell };
    w->tell.what = "tokenizing";
    w->tell.total = w->set.count;
    for (uint32_t i = 0; i < w->set.count; i++) {
        uint32_t from = p->requests.count;
        rc = rt_task_requests_add(&p->requests, &text, &w->set, i, e);
        for (; rc >= 0 && from < p->requests.count; from++) rc = check_length(w, p, &p->requests.each[from], e);
        if (rc < 0)
            rt_err_context(e, "%s, line %llu", w->set.records[i].file, (unsigned long long)w->set.records[i].line);
        RT_TRY(rc);
        w->tell.done = i + 1;
        if (rt_job_tell_stop(&w->tell)) RT_TRY(rt_fail(e, RT_INTERRUPTED, "interrupted while reading the tasks"));
    }
out:
    return rc;
}

static int open_model(work *w, uint32_t i, rt_err *e)
{
    int rc;
    part *p = &w->parts[i];
    rt_hub_env hub = w->o->env->hub;
    hub.base = i ? NULL : w->o->base;
    RT_TRY(rt_model_file_open(&p->model, w->o->models[i], &hub, e));
    rc = rt_speaker_new(&p->speaker, p->model, e);
    if (rc >= 0 && w->o->chat && !rt_speaker_template(p->speaker).data)
        rc = rt_fail(e, RT_INVALID, "--chat needs a chat template, and the model has none; leave --chat out");
    if (rc >= 0) rc = make_requests(w, p, e);
    if (rc < 0 && w->o->model_count > 1) rt_err_context(e, "%s", w->o->models[i]);
    RT_TRY(rc);
    w->out->models[i] =
        (rt_task_model){ .name = rt_arena_strdup(&w->out->arena, w->o->models[i]), .requests = p->requests.count };
    if (!w->out->models[i].name) RT_TRY(rt_no_memory(e, "tasks"));
out:
    return rc;
}

/* Written at the end of hours, so whether it can be is found out before them. */
static int check_details(const char *path, rt_err *e)
{
    rt_writer *probe;
    if (rt_path_exists(path)) return rt_fail(e, RT_INVALID, "%s already exists; give another --details", path);
    int rc = rt_job_output_outside_runs(path, e);
    if (rc >= 0 && (rc = rt_writer_open(&probe, path, e)) >= 0) rt_writer_free(probe);
    return rc;
}

static int open_all(work *w, rt_err *e)
{
    int rc;
    const rt_job_tasks_opts *o = w->o;
    if (o->slots > RT_JOB_MOST_SLOTS)
        RT_TRY(rt_fail(e, RT_USAGE, "--slots %u is out of range (1 to %d)", o->slots, RT_JOB_MOST_SLOTS));
    if (o->details) RT_TRY(check_details(o->details, e));
    if (o->var_count) RT_TRY(rt_template_vars(&w->vars, o->vars, o->var_count, e));
    for (uint32_t i = 0; i < o->file_count; i++) RT_TRY(rt_task_set_read(&w->set, o->files[i], &w->tell, e));
    w->out->model_count = o->model_count;
    w->out->models = rt_arena_alloc(&w->out->arena, o->model_count * sizeof *w->out->models);
    w->parts = rt_alloc_zero(o->model_count * sizeof *w->parts, 16);
    if (!w->out->models || !w->parts) RT_TRY(rt_no_memory(e, "tasks"));
    RT_TRY(rt_task_rows(w->out, &w->set, e));
    RT_TRY(rt_task_gates_parse(w->out, o->require, o->require_count, e));
    RT_TRY(rt_task_marks_make(&w->first, &w->set.arena, w->set.count, e));
    for (uint32_t i = 0; i < o->model_count; i++) RT_TRY(open_model(w, i, e));
out:
    return rc;
}

/* ---- computing ---- */

static void on_answer(void *ctx, const rt_answer_event *a)
{
    rt_task_request *q = ctx;
    const rt_token_event *t = a->token;
    if (t->prompt && t->place >= q->scored) q->logp += (double)t->likely.logp;
    if (!t->prompt && t->id != UINT32_MAX) q->logp += (double)t->likely.logp;
    rt_str_append_n(&q->text, a->text, a->len);
    if (a->end == RT_END_NONFINITE) q->logp = NAN;
    q->ended = q->ended || a->end != RT_END_NONE;
}

static rt_answer_opts asking(const work *w, rt_task_request *q)
{
    const rt_task_record *r = &w->set.records[q->record];
    return (rt_answer_opts){ .prompt = q->ids.ids,
                             .count = q->ids.count,
                             .max_new = r->max_new,
                             .sampling = rt_sampling_greedy,
                             .stop = r->stop,
                             .stops = r->stops,
                             .joined = !w->o->chat,
                             .logp = r->max_new != 0,
                             .echo = r->max_new == 0,
                             .fn = on_answer,
                             .ctx = q };
}

/* All requests of a model, until they have ended. */
static int ask_all(work *w, part *p, uint64_t before, uint64_t total, rt_err *e)
{
    int rc = RT_OK;
    rt_answer *a;
    const uint32_t count = p->requests.count;
    for (uint32_t next = 0; next < count || rt_speaker_busy(p->speaker);) {
        for (; next < count; next++) {
            const rt_answer_opts o = asking(w, &p->requests.each[next]);
            if (!rt_speaker_has_room(p->speaker, &o)) break;
            RT_TRY(rt_speaker_begin(p->speaker, &o, &a, e));
        }
        RT_TRY(rt_speaker_step(p->speaker, e));
        const uint32_t done = next - rt_speaker_busy(p->speaker);
        if (rt_job_tell_watch(&w->tell, "answering", before + done, total))
            RT_TRY(rt_fail(e, RT_INTERRUPTED, "interrupted after %llu of %llu requests",
                           (unsigned long long)(before + done), (unsigned long long)total));
    }
out:
    return rc;
}

static int check_finite(const work *w, const part *p, rt_err *e)
{
    for (uint32_t i = 0; i < p->requests.count; i++) {
        const rt_task_request *q = &p->requests.each[i];
        const rt_task_record *r = &w->set.records[q->record];
        if (q->text.failed) return rt_no_memory(e, "an answer");
        if (!isfinite(q->logp))
            return rt_fail(e, RT_NONFINITE, "%s, line %llu: a log-probability is not finite; the model is damaged",
                           r->file, (unsigned long long)r->line);
    }
    return RT_OK;
}

/* What it said becomes scores, and lines of the details. */
static int judge(work *w, uint32_t model, rt_err *e)
{
    int rc = RT_OK;
    const part *p = &w->parts[model];
    const rt_task_request *q = p->requests.each;
    rt_arena arena = { 0 };
    rt_task_marks own = { 0 }, *m = model ? &own : &w->first;
    if (model) RT_TRY(rt_task_marks_make(&own, &arena, w->set.count, e));
    for (uint32_t i = 0; i < w->set.count; i++) {
        rt_task_mark(m, &w->set, i, q);
        if (w->o->details) RT_TRY(rt_task_detail(&w->details, w->out, model, &w->set, i, q, m, e));
        q += w->set.tasks[w->set.records[i].task].choices ? w->set.records[i].count : 1;
    }
    RT_TRY(rt_task_score_all(w->out, &w->set, model, &w->first, m, e));
out:
    rt_arena_free(&arena);
    return rc;
}

static int measure(work *w, uint32_t i, uint64_t before, uint64_t total, rt_err *e)
{
    int rc;
    const rt_job_tasks_opts *o = w->o;
    part *p = &w->parts[i];
    rt_task_model *m = &w->out->models[i];
    const double begun = rt_now();
    bool echo = false;
    for (uint32_t k = 0; k < p->requests.count; k++) {
        echo = echo || !w->set.records[p->requests.each[k].record].max_new;
        m->prompt_tokens += p->requests.each[k].ids.count;
    }
    const uint32_t asked = o->slots ? o->slots : RT_JOB_SLOTS;
    const rt_watch watch = { rt_job_tell_watch, &w->tell };
    const rt_engine_opts eo = { .slots = asked < p->requests.count ? asked : p->requests.count,
                                .context = p->context,
                                .echo = echo,
                                .watch = &watch };
    RT_TRY(rt_speaker_seal(p->speaker, &eo, o->where, o->env->environment, e));
    RT_TRY(ask_all(w, p, before, total, e));
    m->answer_tokens = rt_speaker_stats(p->speaker).answer_tokens;
    RT_TRY(check_finite(w, p, e));
    RT_TRY(judge(w, i, e));
    m->seconds = rt_now() - begun;
out:
    rt_speaker_unseal(p->speaker);
    if (rc < 0 && o->model_count > 1) rt_err_context(e, "%s", m->name);
    return rc;
}

static void part_close(part *p)
{
    rt_task_requests_free(&p->requests);
    rt_speaker_free(p->speaker);
    rt_model_file_close(p->model);
    *p = (part){ 0 };
}

int rt_job_tasks(rt_job_tasked *out, const rt_job_tasks_opts *o, rt_err *e)
{
    int rc;
    uint64_t total = 0, before = 0;
    work w = { .o = o, .out = out, .tell = { .progress = o->progress, .ctx = o->ctx } };
    *out = (rt_job_tasked){ 0 };
    rt_json_init();
    RT_TRY(open_all(&w, e));
    for (uint32_t i = 0; i < o->model_count; i++) total += w.parts[i].requests.count;
    for (uint32_t i = 0; i < o->model_count; i++) {
        RT_TRY(measure(&w, i, before, total, e));
        before += w.parts[i].requests.count;
        part_close(&w.parts[i]);
    }
    rt_task_gates_look(out);
    if (o->details) rt_file_write_new(o->details, w.details.data, w.details.len, &out->details);
out:
    for (uint32_t i = 0; w.parts && i < o->model_count; i++) part_close(&w.parts[i]);
    rt_free(w.parts);
    json_decref(w.vars);
    rt_str_free(&w.details);
    rt_task_set_free(&w.set);
    if (rc < 0) rt_job_tasked_free(out);
    return rc;
}

void rt_job_tasked_free(rt_job_tasked *t)
{
    rt_arena_free(&t->arena);
    *t = (rt_job_tasked){ 0 };
}
