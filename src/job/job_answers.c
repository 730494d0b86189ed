/* job_answers.c - answers to a file of prompts, many at once. See job.h; files are job_answers_file.c's.
 *
 * Prompts are given to the engine in their order and their answers written in it, so the file does not depend on which
 * was done first. Some prompts are under way at a time: their answers wait until it is their turn. */
#include "job/job_answers_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "job/prepare/identity.h"
#include "text/data/model_text.h"

#include <string.h>

enum { MOST_SAMPLES = 1 << 16 };

typedef struct place place;
typedef struct work work;

/* An answer that is under way, as its function is told of it. */
typedef struct one {
    work *w;
    place *at;
    rt_given given;
} one;

/* A prompt that is under way. */
struct place {
    uint32_t prompt;
    json_t *record;
    rt_tok_ids ids;
    one *each; /* (samples) */
    uint32_t added, ended;
};

struct work {
    const rt_job_answers_opts *o;
    const rt_model_file *model;
    rt_job_answered *out;
    rt_text_source *text;
    rt_data_text how;
    rt_stops stops;
    rt_asked_list asked;
    uint32_t samples, max_new, slots;
    char settings[33];
    rt_job_tell tell;
    rt_pool *pool;
    rt_append file;
    rt_dev *dev;
    rt_engine *engine;
    place *ring; /* (room) prompt p is in ring[p % room] */
    uint32_t room, oldest, next;
    rt_given *given; /* (samples) of the prompt that is written */
};

static int on_event(void *ctx, const rt_token_event *t, rt_err *e)
{
    one *x = ctx;
    rt_given *g = &x->given;
    if (t->end == RT_END_NONFINITE)
        return rt_fail(e, RT_NONFINITE, "the logits of token %u are not finite; the model is damaged", t->place);
    if (t->id != UINT32_MAX) {
        if (!rt_grow((void **)&g->ids, &g->ids_cap, g->count + 1, sizeof *g->ids) ||
            !rt_grow((void **)&g->logps, &g->logps_cap, g->count + 1, sizeof *g->logps))
            return rt_no_memory(e, "an answer");
        g->ids[g->count] = t->id;
        g->logps[g->count++] = t->likely.logp;
        g->logp += (double)t->likely.logp;
    }
    if (t->end == RT_END_NONE) return 0;
    g->stopped = t->end == RT_END_STOP;
    g->ended = true;
    x->at->ended++;
    x->w->out->answers++;
    x->w->out->stopped += g->stopped;
    return 0;
}

static void clear(work *w, place *p)
{
    json_decref(p->record);
    p->record = NULL;
    p->ids.count = p->added = p->ended = 0;
    for (uint32_t i = 0; i < w->samples; i++) {
        rt_given *g = &p->each[i].given;
        *g = (rt_given){ .ids = g->ids, .logps = g->logps, .ids_cap = g->ids_cap, .logps_cap = g->logps_cap };
    }
}

/* Prompts that are answered, as far as none before them is missing. */
static int write_done(work *w, rt_err *e)
{
    int rc = RT_OK;
    const rt_job_answers_opts *o = w->o;
    for (; w->oldest < w->next; w->oldest++) {
        place *p = &w->ring[w->oldest % w->room];
        if (p->ended < w->samples) break;
        for (uint32_t i = 0; i < w->samples; i++) w->given[i] = p->each[i].given;
        RT_TRY(rt_append_held(&w->file, e));
        RT_TRY(rt_given_write(&w->file, &w->asked.each[w->oldest], p->record, w->text->tokenizer, w->given, w->samples,
                              o->best_of, o->logps, w->settings, e));
        clear(w, p);
    }
    if (o->progress && o->progress(o->ctx, "answering", w->oldest, w->asked.count))
        RT_TRY(rt_fail(e, RT_INTERRUPTED, "interrupted after the answers to %u of %u prompts; the same command resumes",
                       w->oldest, w->asked.count));
out:
    return rc;
}

static int add_sample(work *w, place *p, rt_err *e)
{
    one *x = &p->each[p->added];
    x->w = w;
    x->at = p;
    const rt_request r = { .prompt = p->ids.ids,
                           .count = p->ids.count,
                           .max_new = w->max_new,
                           .sampling = w->o->sampling,
                           .ordinal = w->asked.each[p->prompt].ordinal + p->added++,
                           .stop = w->stops.ids,
                           .stops = w->stops.count,
                           .logp = true,
                           .fn = on_event,
                           .ctx = x };
    return rt_engine_add(w->engine, &r, NULL, e);
}

/* As many as there is room for: samples of the prompt that was begun last, then the next prompt. */
static int fill(work *w, rt_err *e)
{
    int rc = RT_OK;
    for (;;) {
        place *p = w->next > w->oldest ? &w->ring[(w->next - 1) % w->room] : NULL;
        if (!p || p->added == w->samples) {
            if (w->next == w->asked.count || w->next - w->oldest == w->room) return RT_OK;
            p = &w->ring[w->next % w->room];
            p->prompt = w->next;
            RT_TRY(rt_asked_ids(&w->asked, &w->how, w->next, &p->record, &p->ids, e));
            w->next++;
            w->out->prompt_tokens += p->ids.count;
        }
        if (!rt_engine_has_room(w->engine, p->ids.count, w->max_new)) return RT_OK;
        RT_TRY(add_sample(w, p, e));
    }
out:
    return rc;
}

/* What decides the answers besides the prompts; the model by what it is and not by where it lies. */
static int settings_hash(work *w, rt_err *e)
{
    int rc;
    const rt_job_answers_opts *o = w->o;
    const rt_sampling *s = &o->sampling;
    rt_str text = { 0 };
    json_t *model = NULL;
    char *files = NULL;
    rt_json_forget();
    RT_TRY(rt_job_pool_new(&w->pool, (uint32_t)o->where->threads, e));
    RT_TRY(rt_identity_new(&model, w->model, w->pool, e));
    json_object_del(model, "name");
    if (!(files = rt_json_dump(model, JSON_COMPACT | JSON_SORT_KEYS))) RT_TRY(rt_no_memory(e, "answers"));
    rt_str_printf(&text, "%s %.17g %u %.17g %.17g %.17g %llu max %u n %u best %d logps %d slots %u context %u", files,
                  s->temperature, s->top_k, s->top_p, s->min_p, s->repetition_penalty, (unsigned long long)s->seed,
                  w->max_new, w->samples, (int)o->best_of, (int)o->logps, w->slots, o->context);
    if (o->int8) rt_str_printf(&text, " int8");
    if (text.failed) RT_TRY(rt_no_memory(e, "answers"));
    rt_hash_text(w->settings, rt_hash(text.data, text.len));
    w->settings[16] = 0;
out:
    rt_free(files);
    json_decref(model);
    rt_str_free(&text);
    return rc;
}

/* --out, for this process alone, and what of it is answered already. */
static int claim(work *w, rt_err *e)
{
    int rc;
    uint64_t bytes;
    const rt_job_answers_opts *o = w->o;
    RT_TRY(rt_job_output_outside_runs(o->out, e));
    RT_TRY(rt_append_open_alone(&w->file, o->out, e));
    RT_TRY(rt_given_found(o->out, &w->asked, &w->how, o->best_of ? 1 : w->samples, w->settings, &w->oldest, &bytes, e));
    RT_TRY(rt_append_held(&w->file, e));
    RT_TRY(rt_append_cut(&w->file, bytes, e));
    w->next = w->oldest;
    w->out->prompts = w->asked.count;
    w->out->found = w->oldest;
out:
    return rc;
}

static int make_room(work *w, rt_err *e)
{
    w->room = 4 * w->slots;
    w->ring = rt_alloc_zero(w->room * sizeof *w->ring, 16);
    w->given = rt_alloc_zero(w->samples * sizeof *w->given, 16);
    if (!w->ring || !w->given) return rt_no_memory(e, "answers");
    for (uint32_t i = 0; i < w->room; i++)
        if (!(w->ring[i].each = rt_alloc_zero(w->samples * sizeof *w->ring[i].each, 16)))
            return rt_no_memory(e, "answers");
    return RT_OK;
}

static int check_opts(const work *w, rt_err *e)
{
    if (w->samples > MOST_SAMPLES)
        return rt_fail(e, RT_USAGE, "--samples %u is out of range (1 to %d)", w->samples, MOST_SAMPLES);
    if (w->samples > 1 && w->o->sampling.temperature == 0)
        return rt_fail(e, RT_USAGE, "--samples %u at --temperature 0 would be equal; give --temperature", w->samples);
    if (w->slots > RT_JOB_MOST_SLOTS)
        return rt_fail(e, RT_USAGE, "--slots %u is out of range (1 to %d)", w->slots, RT_JOB_MOST_SLOTS);
    if (w->o->best_of && w->samples < 2) return rt_fail(e, RT_USAGE, "--best-of needs --samples of at least 2");
    return rt_sampling_check(&w->o->sampling, e);
}

static int open_all(work *w, rt_err *e)
{
    int rc;
    const rt_job_answers_opts *o = w->o;
    const rt_model_config *c = &w->model->config;
    RT_TRY(check_opts(w, e));
    RT_TRY(rt_model_file_check(w->model, e));
    RT_TRY(rt_text_from_model(&w->text, &w->model->text, c, w->model->path, e));
    RT_TRY(rt_data_text_from(&w->how, w->text, NULL, e));
    w->how.now = o->env->now;
    w->how.utc_offset = o->env->utc_offset;
    w->stops = rt_stops_of(c, w->text->eos, w->text->end_of_turn);
    RT_TRY(rt_asked_read(&w->asked, &w->how, o->data, w->samples, c->vocab, &w->tell, e));
    const uint64_t need = (uint64_t)w->asked.longest + w->max_new, asked = o->context ? o->context : need;
    const uint32_t context = asked < c->context ? (uint32_t)asked : c->context;
    if (w->asked.longest >= context)
        RT_TRY(rt_fail(e, RT_INVALID, "%s, line %llu: the prompt has %u tokens, and the context is %u%s", o->data,
                       (unsigned long long)w->asked.longest_at, w->asked.longest, context,
                       context < c->context ? "; raise --context" : "; shorten it or leave it out"));
    RT_TRY(settings_hash(w, e));
    RT_TRY(claim(w, e));
    if (w->oldest == w->asked.count) goto out;
    RT_TRY(rt_job_device_open(&w->dev, o->where, NULL, o->env->environment, NULL, e));
    const rt_watch watch = { rt_job_tell_watch, &w->tell };
    const rt_engine_opts eo = { .slots = w->slots, .context = context, .watch = &watch, .int8 = o->int8 };
    RT_TRY(rt_engine_open(&w->engine, w->dev, w->model, NULL, &eo, e));
    RT_TRY(make_room(w, e));
out:
    return rc;
}

static void close_all(work *w)
{
    rt_append_drop(&w->file);
    rt_pool_free(w->pool);
    rt_engine_free(w->engine);
    rt_job_device_close(w->dev);
    for (uint32_t i = 0; w->ring && i < w->room; i++) {
        place *p = &w->ring[i];
        for (uint32_t k = 0; p->each && k < w->samples; k++) {
            rt_free(p->each[k].given.ids);
            rt_free(p->each[k].given.logps);
        }
        rt_free(p->each);
        rt_free(p->ids.ids);
        json_decref(p->record);
    }
    rt_free(w->ring);
    rt_free(w->given);
    rt_asked_free(&w->asked);
    rt_text_close(w->text);
}

int rt_job_answers(const rt_model_file *m, const rt_job_answers_opts *o, rt_job_answered *out, rt_err *e)
{
    int rc;
    work w = { .o = o, .model = m, .out = out, .tell = { .progress = o->progress, .ctx = o->ctx } };
    const double begun = rt_now();
    *out = (rt_job_answered){ 0 };
    w.samples = o->samples ? o->samples : 1;
    w.max_new = o->max_new ? o->max_new : 256;
    w.slots = o->slots ? o->slots : RT_JOB_SLOTS;
    RT_TRY(open_all(&w, e));
    while (w.oldest < w.asked.count) {
        RT_TRY(fill(&w, e));
        RT_TRY(rt_engine_step(w.engine, e));
        RT_TRY(write_done(&w, e));
    }
    RT_TRY(rt_append_held(&w.file, e));
    RT_TRY(rt_append_sync(&w.file, e));
out:
    if (w.engine) {
        const rt_engine_stats s = rt_engine_stats_of(w.engine);
        out->answer_tokens = s.answer_tokens;
        out->gemms = s.gemms;
        out->int8 = s.int8;
    }
    out->seconds = rt_now() - begun;
    close_all(&w);
    return rc;
}
