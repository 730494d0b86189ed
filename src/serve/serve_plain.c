/* serve_plain.c - what is answered at once: the model's name, its tokenizer, health, figures. See serve_internal.h. */
#include "serve/serve_internal.h"

#include "base/sys.h"

#include <stdio.h>
#include <string.h>

static void put_model(const rt_plain *p, rt_str *out)
{
    const rt_server *s = p->server;
    rt_str_append(out, "{\"id\":");
    rt_json_put_any(out, s->o->name, strlen(s->o->name));
    rt_str_printf(out, ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"retort\",\"max_model_len\":%u}",
                  (long long)s->o->env->now, rt_speaker_facts_of(s->speaker).context);
}

int rt_plain_models(const rt_plain *p, rt_str *out, rt_refusal *why)
{
    (void)why;
    rt_str_append(out, "{\"object\":\"list\",\"data\":[");
    put_model(p, out);
    rt_str_append(out, "]}");
    return RT_OK;
}

/* Whether a part of a path is the name: clients write "%2F" for its slashes, or leave them. */
static bool is_name(const char *part, const char *name)
{
    unsigned byte;
    for (; *part && *name; part++, name++) {
        const bool coded = *part == '%' && sscanf(part + 1, "%2x", &byte) == 1;
        if ((coded ? byte : (unsigned char)*part) != (unsigned char)*name) return false;
        if (coded) part += part[2] ? 2 : 1;
    }
    return *part == *name;
}

int rt_plain_model(const rt_plain *p, rt_str *out, rt_refusal *why)
{
    const char *name = p->server->o->name;
    if (!is_name(p->rest, name))
        return rt_refuse(why, 404, "model", "the model '%.200s' is not served here; this server has '%s'", p->rest,
                         name);
    put_model(p, out);
    return RT_OK;
}

/* ---- the tokenizer ---- */

int rt_plain_tokenize(const rt_plain *p, rt_str *out, rt_refusal *why)
{
    int rc;
    json_t *body = NULL;
    rt_tok_ids ids = { 0 };
    RT_TRY(rt_ask_body(&body, p->body, p->len, why));
    rt_fields f = { body, why, false };
    RT_TRY(rt_ask_model(&p->env, &f));
    const bool special = rt_field_flag(&f, "add_special_tokens", true);
    RT_TRY(rt_ask_ids(&p->env, &f, special, &ids));
    rt_str_printf(out, "{\"count\":%u,\"max_model_len\":%u,\"tokens\":[", ids.count,
                  rt_speaker_facts_of(p->server->speaker).context);
    for (uint32_t i = 0; i < ids.count; i++) rt_str_printf(out, i ? ",%u" : "%u", ids.ids[i]);
    rt_str_append(out, "]}");
out:
    rt_free(ids.ids);
    json_decref(body);
    return rc;
}

int rt_plain_detokenize(const rt_plain *p, rt_str *out, rt_refusal *why)
{
    int rc;
    json_t *body = NULL;
    rt_tok_ids ids = { 0 };
    rt_str text = { 0 };
    rt_err e = { 0 };
    RT_TRY(rt_ask_body(&body, p->body, p->len, why));
    rt_fields f = { body, why, false };
    RT_TRY(rt_ask_model(&p->env, &f));
    const json_t *list = rt_field_of(&f, "tokens", JSON_ARRAY);
    if (!list && !f.bad) rt_field_fail(&f, "tokens", "tokens is missing");
    rt_field_ids(&f, "tokens", list, &ids);
    if (f.bad) RT_TRY(RT_INVALID);
    if (rt_speaker_decode(p->server->speaker, ids.ids, ids.count, true, &text, &e) < 0)
        RT_TRY(rt_field_fail(&f, "tokens", "%s", e.text));
    rt_str_append(out, "{\"prompt\":");
    rt_json_put_any(out, text.data, text.len);
    rt_str_append(out, "}");
out:
    rt_str_free(&text);
    rt_free(ids.ids);
    json_decref(body);
    return rc;
}

int rt_plain_tokenizer(const rt_plain *p, rt_str *out, rt_refusal *why)
{
    json_t *special = json_deep_copy(rt_speaker_special(p->server->speaker));
    const rt_span chat = rt_speaker_template(p->server->speaker);
    if (special && chat.data) json_object_set_new(special, "chat_template", json_stringn(chat.data, chat.len));
    if (special) json_object_set_new(special, "tokenizer_class", json_string("retort"));
    char *text = rt_json_dump(special, JSON_COMPACT);
    if (text) rt_str_append(out, text);
    json_decref(special);
    if (!text) return rt_refuse(why, 500, NULL, "no memory for the tokenizer");
    rt_free(text);
    return RT_OK;
}

/* ---- how it is ---- */

int rt_plain_health(const rt_plain *p, rt_str *out, rt_refusal *why)
{
    const rt_worker_state w = rt_worker_state_of(&p->server->worker);
    if (w.failed.status < 0) return rt_refuse(why, 503, NULL, "%s", w.failed.text);
    if (p->server->stopping) return rt_refuse(why, 503, NULL, "the server is shutting down");
    rt_str_append(out, "{\"status\":\"ok\"}");
    return RT_OK;
}

static const uint32_t statuses[RT_SERVE_STATUSES] = { 200, 400, 401, 404, 405, 409, 429, 500, 503, 0 };

void rt_plain_count(rt_server *s, uint32_t status)
{
    int i = 0;
    while (statuses[i] && statuses[i] != status) i++;
    s->count[i]++;
}

static void put_metric(rt_str *out, const char *name, const char *type, const char *help, double value)
{
    rt_str_printf(out, "# HELP retort_%s %s\n# TYPE retort_%s %s\nretort_%s %.17g\n", name, help, name, type, name,
                  value);
}

int rt_plain_metrics(const rt_plain *p, rt_str *out, rt_refusal *why)
{
    rt_server *s = p->server;
    const rt_worker_state w = rt_worker_state_of(&s->worker);
    const rt_engine_stats *t = &w.stats;
    (void)why;
    put_metric(out, "sequences_waiting", "gauge", "Sequences in the queue.", w.waiting);
    put_metric(out, "sequences_running", "gauge", "Sequences in slots.", w.busy);
    put_metric(out, "slots", "gauge", "Sequences that can be computed at once.", rt_speaker_facts_of(s->speaker).slots);
    put_metric(out, "cache_pages", "gauge", "Pages of the key/value cache.", t->pages);
    put_metric(out, "cache_pages_free", "gauge", "Pages of the cache that are free.", t->pages_free);
    put_metric(out, "prompt_tokens_total", "counter", "Tokens of prompts computed.", (double)t->prompt_tokens);
    put_metric(out, "answer_tokens_total", "counter", "Tokens of answers computed.", (double)t->answer_tokens);
    put_metric(out, "answer_steps_total", "counter", "Decode steps, one token for every busy slot.", (double)t->steps);
    put_metric(out, "prompt_seconds_total", "counter", "Time spent on prompts.", t->prompt_seconds);
    put_metric(out, "answer_seconds_total", "counter", "Time spent on answers.", t->answer_seconds);
    put_metric(out, "requests_cancelled_total", "counter", "Requests whose clients disconnected.",
               (double)s->cancelled);
    put_metric(out, "requests_timed_out_total", "counter", "Requests that took too long.", (double)s->timed_out);
    put_metric(out, "upload_bytes", "gauge", "Bytes of requests that come in or wait to be read.",
               (double)(s->arriving + s->unread));
    put_metric(out, "uptime_seconds", "gauge", "Seconds since the server started.", rt_now() - s->begun);
    rt_str_append(out, "# HELP retort_replies_total Replies by HTTP status.\n# TYPE retort_replies_total counter\n");
    for (int i = 0; i < RT_SERVE_STATUSES; i++) {
        char status[16] = "other";
        if (statuses[i]) snprintf(status, sizeof status, "%u", statuses[i]);
        rt_str_printf(out, "retort_replies_total{status=\"%s\"} %llu\n", status, (unsigned long long)s->count[i]);
    }
    return RT_OK;
}
