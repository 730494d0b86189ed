/* speaker.c - see speaker.h. */
#include "job/speaker.h"

#include "base/json.h"
#include "base/utf8.h"
#include "infer/stop.h"
#include "job/job_internal.h"
#include "text/data/data_prompt.h"
#include "text/data/model_text.h"

#include <string.h>

struct rt_speaker {
    const rt_model_file *model;
    rt_text_source *text;
    rt_stops stops;
    rt_dev *dev; /* null until it is sealed, like engine */
    rt_engine *engine;
    rt_engine_opts opts;
    rt_answer *under_way;
};

/* An answer that is under way. */
struct rt_answer {
    rt_speaker *s;
    rt_answer_opts o;
    uint64_t name; /* the engine's */
    rt_tok_stream *stream;
    rt_stop_text stop;
    rt_str shown;                /* of this event */
    uint32_t characters, offset; /* so far, with what is held back; before its last id */
    rt_answer *before, *after;
};

int rt_speaker_new(rt_speaker **out, const rt_model_file *m, rt_err *e)
{
    int rc;
    rt_speaker *s = NULL;
    rt_json_init();
    RT_TRY(rt_model_file_check(m, e));
    if (!(s = rt_alloc_zero(sizeof *s, 16))) RT_TRY(rt_no_memory(e, "a model's text"));
    s->model = m;
    RT_TRY(rt_text_from_model(&s->text, &m->text, &m->config, m->path, e));
    s->stops = rt_stops_of(&m->config, s->text->eos, s->text->end_of_turn);
    *out = s;
    s = NULL;
out:
    rt_speaker_free(s);
    return rc;
}

void rt_speaker_free(rt_speaker *s)
{
    if (!s) return;
    rt_speaker_unseal(s);
    rt_text_close(s->text);
    rt_free(s);
}

int rt_speaker_seal(rt_speaker *s, const rt_engine_opts *o, const rt_settings *where, const char *const *env, rt_err *e)
{
    int rc;
    RT_TRY(rt_job_device_open(&s->dev, where, NULL, env, NULL, e));
    RT_TRY(rt_engine_open(&s->engine, s->dev, s->model, NULL, o, e));
    s->opts = *o;
out:
    if (rc < 0) rt_speaker_unseal(s);
    return rc;
}

rt_dev *rt_speaker_device(const rt_speaker *s) { return s->dev; }

int rt_speaker_check_sampling(const rt_sampling *s, rt_err *e) { return rt_sampling_check(s, e); }

/* ---- text ---- */

int rt_speaker_encode(const rt_speaker *s, const char *text, size_t len, bool special, rt_tok_ids *ids, rt_err *e)
{
    return rt_job_tokenizer_encode(s->text->tokenizer, text, len, special ? RT_ENCODE_SPECIAL : 0, ids, e);
}

int rt_speaker_decode(const rt_speaker *s, const uint32_t *ids, size_t count, bool special, rt_str *text, rt_err *e)
{
    return rt_tokenizer_decode(s->text->tokenizer, ids, count, special ? 0 : RT_DECODE_SKIP_SPECIAL, text, e);
}

/* Where a token begins whose push made `before` characters `after`: with it comes what was held of those before it, and
 * of its own what is no whole letter yet is held. */
static size_t begins_at(const rt_token_info *info, size_t before, size_t after)
{
    const rt_tok_text *t = info->special ? &info->text : &info->bytes;
    size_t own = 0;
    bool cut = false;
    if (t->len && ((unsigned char)t->data[0] & 0xC0) == 0x80) return before; /* of a letter that began before it */
    for (size_t at = 0; at < t->len && !cut;) {
        const size_t good = rt_utf8_valid(t->data + at, t->len - at);
        own += rt_utf8_count(t->data + at, good);
        if ((at += good) == t->len) break;
        at += rt_utf8_bad(t->data + at, t->len - at, &cut);
        own += !cut;
    }
    return after - before > own ? after - own : before;
}

int rt_speaker_show(const rt_speaker *s, const rt_tok_ids *ids, uint32_t from, rt_str *text, uint32_t *offset,
                    rt_err *e)
{
    int rc;
    rt_tok_stream *stream = NULL;
    rt_token_info info;
    size_t at = text->len, n = 0, before;
    RT_TRY(rt_tok_stream_new(&stream, s->text->tokenizer, 0, e));
    for (uint32_t i = 0; i < ids->count; i++) {
        offset[i] = (uint32_t)n;
        if (i < from || !rt_speaker_token(s, ids->ids[i], &info)) continue;
        RT_TRY(rt_tok_stream_push(stream, ids->ids[i], text, e));
        before = n;
        if (text->len > at) n += rt_utf8_count(text->data + at, text->len - at);
        offset[i] = (uint32_t)begins_at(&info, before, n);
        at = text->len;
    }
    RT_TRY(rt_tok_stream_end(stream, text, e));
out:
    rt_tok_stream_free(stream);
    return rc;
}

/* The template, and what it is given. */
static int chat_text(const rt_speaker *s, const rt_speaker_chat *c, rt_data_text *out, rt_err *e)
{
    *out = (rt_data_text){ .tok = s->text->tokenizer,
                           .tmpl = s->text->chat,
                           .special = s->text->special,
                           .extra = c->vars,
                           .now = c->now,
                           .utc_offset = c->utc_offset };
    if (out->tmpl) return RT_OK;
    return rt_fail(e, RT_INVALID, "the model has no chat template%s%s; give it a text to continue instead",
                   s->text->chat_err.text[0] ? " that can be used: " : "", s->text->chat_err.text);
}

int rt_speaker_render(const rt_speaker *s, const rt_speaker_chat *c, rt_str *text, rt_err *e)
{
    rt_data_text t;
    const int rc = chat_text(s, c, &t, e);
    return rc < 0 ? rc : rt_prompt_chat_text(&t, c->messages, c->tools, text, e);
}

int rt_speaker_converse(const rt_speaker *s, const rt_speaker_chat *c, rt_tok_ids *ids, rt_err *e)
{
    rt_data_text t;
    const int rc = chat_text(s, c, &t, e);
    return rc < 0 ? rc : rt_prompt_from_chat(&t, c->messages, c->tools, NULL, ids, e);
}

bool rt_speaker_token(const rt_speaker *s, uint32_t id, rt_token_info *out)
{
    return rt_tokenizer_token(s->text->tokenizer, id, out);
}

uint32_t rt_speaker_prefix(const rt_speaker *s)
{
    uint32_t count;
    (void)rt_tokenizer_prefix(s->text->tokenizer, &count);
    return count;
}

int64_t rt_speaker_start(const rt_speaker *s) { return s->text->bos >= 0 ? s->text->bos : s->text->eos; }

rt_span rt_speaker_template(const rt_speaker *s) { return s->model->text.chat_template; }
const json_t *rt_speaker_special(const rt_speaker *s) { return s->text->special; }

/* ---- facts ---- */

rt_speaker_facts rt_speaker_facts_of(const rt_speaker *s)
{
    rt_exec_memory m;
    rt_exec_memory_query(rt_engine_exec(s->engine), &m);
    return (rt_speaker_facts){ .slots = rt_engine_slots(s->engine),
                               .context = rt_engine_context(s->engine),
                               .vocab = rt_engine_vocab(s->engine),
                               .top = s->opts.top,
                               .device = s->dev->api->name,
                               .bytes = m.total };
}

rt_engine_stats rt_speaker_stats(const rt_speaker *s) { return rt_engine_stats_of(s->engine); }

/* ---- answers ---- */

static void answer_free(rt_answer *a)
{
    if (!a) return;
    if (a->before) a->before->after = a->after;
    if (a->after) a->after->before = a->before;
    if (a->s->under_way == a) a->s->under_way = a->after;
    rt_tok_stream_free(a->stream);
    rt_stop_text_free(&a->stop);
    rt_str_free(&a->shown);
    rt_free(a);
}

void rt_speaker_unseal(rt_speaker *s)
{
    rt_engine_free(s->engine);
    rt_job_device_close(s->dev);
    s->engine = NULL;
    s->dev = NULL;
    while (s->under_way) answer_free(s->under_way);
}

/* Text of the id that has come into shown, as far as it is certain. A row of the embedding that no token has says
 * nothing. */
static int show(rt_answer *a, const rt_token_event *t, rt_err *e)
{
    int rc = RT_OK;
    rt_token_info info;
    rt_str part = { 0 };
    const bool says = t->id != UINT32_MAX && t->end != RT_END_STOP && rt_speaker_token(a->s, t->id, &info);
    if (says) RT_TRY(rt_tok_stream_push(a->stream, t->id, &part, e));
    const uint32_t before = a->characters, after = before + (uint32_t)rt_utf8_count(part.data, part.len);
    if (t->end != RT_END_NONE) RT_TRY(rt_tok_stream_end(a->stream, &part, e));
    a->characters = before + (uint32_t)rt_utf8_count(part.data, part.len);
    a->offset = says ? (uint32_t)begins_at(&info, before, after) : a->characters;
    RT_TRY(rt_stop_text_push(&a->stop, part.data, part.len, &a->shown, e));
    if (t->end != RT_END_NONE && !a->stop.found) RT_TRY(rt_stop_text_end(&a->stop, &a->shown, e));
out:
    rt_str_free(&part);
    return rc;
}

static int on_token(void *ctx, const rt_token_event *t, rt_err *e)
{
    rt_answer *a = ctx;
    rt_answer_event told = { .token = t, .end = t->end, .stop = -1 };
    int rc = RT_OK;
    a->shown.len = 0;
    if (!t->prompt) RT_TRY(show(a, t, e));
    if (a->stop.found) {
        told.end = RT_END_STOP;
        told.stop = (int32_t)a->stop.which;
    }
    told.offset = a->offset;
    told.text = a->shown.data ? a->shown.data : "";
    told.len = a->shown.len;
    a->o.fn(a->o.ctx, &told);
    rc = told.end != RT_END_NONE;
out:
    if (rc != 0) answer_free(a);
    return rc;
}

static bool stops_of(const rt_speaker *s, const rt_answer_opts *o, uint32_t **ids, uint32_t *count)
{
    const uint32_t own = o->on ? 0 : s->stops.count;
    *count = own + o->stop_id_count;
    *ids = *count ? rt_alloc(*count * sizeof **ids, 16) : NULL;
    if (!*ids) return *count == 0;
    if (own) memcpy(*ids, s->stops.ids, own * sizeof **ids);
    if (o->stop_id_count) memcpy(*ids + own, o->stop_ids, o->stop_id_count * sizeof **ids);
    return true;
}

static rt_request request_of(const rt_answer_opts *o)
{
    return (rt_request){ .prompt = o->prompt,
                         .count = o->count,
                         .max_new = o->max_new,
                         .sampling = o->sampling,
                         .ordinal = o->ordinal,
                         .logp = o->logp,
                         .echo = o->echo,
                         .top = o->top };
}

int rt_speaker_check(const rt_speaker *s, const rt_answer_opts *o, rt_err *e)
{
    const rt_request r = request_of(o);
    return rt_engine_check(s->engine, &r, e);
}

bool rt_speaker_has_room(const rt_speaker *s, const rt_answer_opts *o)
{
    return rt_engine_has_room(s->engine, o->count, o->max_new);
}

/* The text of the prompt is passed through the stream, so that what comes after it is decoded as its continuation. */
static int join(rt_answer *a, rt_err *e)
{
    int rc = RT_OK;
    rt_token_info info;
    for (uint32_t i = 0; i < a->o.count; i++) {
        a->shown.len = 0;
        if (rt_speaker_token(a->s, a->o.prompt[i], &info))
            RT_TRY(rt_tok_stream_push(a->stream, a->o.prompt[i], &a->shown, e));
    }
out:
    return rc;
}

int rt_speaker_begin(rt_speaker *s, const rt_answer_opts *o, rt_answer **out, rt_err *e)
{
    int rc;
    uint32_t *stops = NULL;
    rt_request r = request_of(o);
    rt_answer *a = rt_alloc_zero(sizeof *a, 16);
    if (!a || !stops_of(s, o, &stops, &r.stops)) RT_TRY(rt_no_memory(e, "an answer"));
    *a = (rt_answer){ .s = s, .o = *o, .stop = { .strings = o->stop, .count = o->stops }, .after = s->under_way };
    if (s->under_way) s->under_way->before = a;
    s->under_way = a;
    RT_TRY(rt_tok_stream_new(&a->stream, s->text->tokenizer, o->special ? 0 : RT_DECODE_SKIP_SPECIAL, e));
    if (o->joined) RT_TRY(join(a, e));
    r.stop = stops;
    r.fn = on_token;
    r.ctx = a;
    RT_TRY(rt_engine_add(s->engine, &r, &a->name, e));
    *out = a;
    a = NULL;
out:
    rt_free(stops);
    if (a && a->s)
        answer_free(a);
    else
        rt_free(a);
    return rc;
}

void rt_speaker_cancel(rt_speaker *s, rt_answer *a) { (void)rt_engine_cancel(s->engine, a->name, NULL); }
uint32_t rt_speaker_busy(const rt_speaker *s) { return rt_engine_busy(s->engine); }
int rt_speaker_step(rt_speaker *s, rt_err *e) { return rt_engine_step(s->engine, e); }
