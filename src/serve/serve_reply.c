/* serve_reply.c - the JSON of replies, whole and as events of a stream. See serve_internal.h; what comes in is
 * serve_ask.c's. */
#include "serve/serve_internal.h"

#include <string.h>

static uint32_t echoed(const rt_call *c, uint32_t i) { return c->ask.echo ? c->ask.prompt[i / c->ask.n].ids.count : 0; }
static uint32_t made(const rt_call *c, uint32_t i) { return c->each[i].said.count - c->each[i].said.prompt; }

/* ---- parts ---- */

static void put_head(const rt_call *c, const char *object, rt_str *out)
{
    rt_str_printf(out, "{\"id\":\"%s\",\"object\":\"%s\",\"created\":%lld,\"model\":", c->id, object,
                  (long long)c->created);
    rt_json_put_any(out, c->who.server->o->name, strlen(c->who.server->o->name));
}

static void put_ids(const char *key, const uint32_t *ids, uint32_t n, rt_str *out)
{
    rt_str_printf(out, ",\"%s\":[", key);
    for (uint32_t k = 0; k < n; k++) rt_str_printf(out, k ? ",%u" : "%u", ids[k]);
    rt_str_append(out, "]");
}

static void put_prompt_ids(const rt_call *c, uint32_t i, rt_str *out)
{
    const rt_tok_ids *ids = &c->ask.prompt[i / c->ask.n].ids;
    put_ids("prompt_token_ids", ids->ids, ids->count, out);
}

static void put_answer_ids(const rt_call *c, uint32_t i, uint32_t first, uint32_t end, rt_str *out)
{
    const rt_said *s = &c->each[i].said;
    rt_str_append(out, ",\"token_ids\":[");
    for (uint32_t k = first; k < end; k++) rt_str_printf(out, k > first ? ",%u" : "%u", s->place[s->prompt + k].id);
    rt_str_append(out, "]");
}

static void put_end(const rt_call *c, uint32_t i, rt_str *out)
{
    const rt_said *s = &c->each[i].said;
    const uint32_t last = s->count > s->prompt ? s->place[s->count - 1].id : UINT32_MAX;
    if (s->end == RT_END_NONE) {
        rt_str_append(out, ",\"finish_reason\":null");
        return;
    }
    rt_str_printf(out, ",\"finish_reason\":\"%s\",\"stop_reason\":", s->end == RT_END_STOP ? "stop" : "length");
    if (s->end == RT_END_STOP && s->stop >= 0) {
        rt_json_put_any(out, c->ask.stop[s->stop], strlen(c->ask.stop[s->stop]));
        return;
    }
    for (uint32_t k = 0; s->end == RT_END_STOP && k < c->ask.stop_ids.count; k++)
        if (c->ask.stop_ids.ids[k] == last) {
            rt_str_printf(out, "%u", last);
            return;
        }
    rt_str_append(out, "null");
}

static void put_usage(const rt_call *c, rt_str *out)
{
    unsigned long long prompt = 0, answer = 0;
    for (uint32_t i = 0; i < c->ask.prompts; i++) prompt += c->ask.prompt[i].ids.count;
    for (uint32_t i = 0; i < c->count; i++) answer += made(c, i);
    rt_str_printf(out, "\"usage\":{\"prompt_tokens\":%llu,\"completion_tokens\":%llu,\"total_tokens\":%llu}", prompt,
                  answer, prompt + answer);
}

/* The text of a choice: what it echoes when it begins, and bytes first to the end of what is known of the answer. */
static void put_text(const rt_call *c, uint32_t i, bool begins, size_t first, rt_str *out)
{
    const rt_str *said = &c->each[i].said.text;
    rt_str text = { 0 };
    const rt_span *prompt = &c->ask.prompt[i / c->ask.n].text;
    if (begins && c->ask.echo) rt_str_append_n(&text, prompt->data, prompt->len);
    if (said->len > first) rt_str_append_n(&text, said->data + first, said->len - first);
    if (text.failed) out->failed = true;
    rt_json_put_any(out, text.data, text.len);
    rt_str_free(&text);
}

/* ---- a whole reply ---- */

static void put_choice(const rt_call *c, uint32_t i, rt_str *out)
{
    const uint32_t n = made(c, i);
    rt_str_printf(out, "{\"index\":%u,", i);
    if (c->ask.chat) {
        rt_str_append(out, "\"message\":{\"role\":\"assistant\",\"content\":");
        put_text(c, i, true, 0, out);
        rt_str_append(out, "},\"logprobs\":");
        rt_logps_of_chat(c, i, 0, n, out);
    } else {
        rt_str_append(out, "\"text\":");
        put_text(c, i, true, 0, out);
        rt_str_append(out, ",\"logprobs\":");
        rt_logps_of_completion(c, i, 0, echoed(c, i) + n, out);
    }
    put_end(c, i, out);
    if (c->ask.ids) put_answer_ids(c, i, 0, n, out);
    if (c->ask.ids && !c->ask.chat) put_prompt_ids(c, i, out);
    if (c->ask.prompt_logprobs >= 0 && !c->ask.chat) {
        rt_str_append(out, ",\"prompt_logprobs\":");
        rt_logps_of_prompt(c, i, out);
    }
    rt_str_append(out, "}");
}

void rt_reply_whole(const rt_call *c, rt_str *out)
{
    put_head(c, c->ask.chat ? "chat.completion" : "text_completion", out);
    rt_str_append(out, ",\"choices\":[");
    for (uint32_t i = 0; i < c->count; i++) {
        if (i) rt_str_append(out, ",");
        put_choice(c, i, out);
    }
    rt_str_append(out, "],");
    put_usage(c, out);
    if (c->ask.ids && c->ask.chat) put_prompt_ids(c, 0, out);
    if (c->ask.prompt_logprobs >= 0 && c->ask.chat) {
        rt_str_append(out, ",\"prompt_logprobs\":");
        rt_logps_of_prompt(c, 0, out);
    }
    rt_str_append(out, "}");
}

/* ---- a stream ---- */

static void begin_event(const rt_call *c, rt_str *out)
{
    rt_str_append(out, "data: ");
    put_head(c, c->ask.chat ? "chat.completion.chunk" : "text_completion", out);
    rt_str_append(out, ",\"choices\":[");
}

void rt_reply_first(const rt_call *c, rt_str *out)
{
    for (uint32_t i = 0; c->ask.chat && i < c->count; i++) {
        begin_event(c, out);
        rt_str_printf(out,
                      "{\"index\":%u,\"delta\":{\"role\":\"assistant\",\"content\":\"\"},\"logprobs\":null,"
                      "\"finish_reason\":null}]",
                      i);
        if (c->ask.ids) put_prompt_ids(c, i, out);
        rt_str_append(out, "}\n\n");
    }
}

void rt_reply_next(const rt_call *c, uint32_t i, rt_str *out)
{
    const rt_said *s = &c->each[i].said;
    const uint32_t all = echoed(c, i) + made(c, i), sent = c->sent[i];
    const bool begins = sent == 0 && c->written[i] == 0 && !c->ask.chat;
    const bool places = all > sent && (c->ask.logprobs >= 0 || c->ask.ids);
    if (c->over[i] || (!places && s->text.len == c->written[i] && s->end == RT_END_NONE)) return;
    begin_event(c, out);
    rt_str_printf(out, c->ask.chat ? "{\"index\":%u,\"delta\":{\"content\":" : "{\"index\":%u,\"text\":", i);
    put_text(c, i, begins, c->written[i], out);
    rt_str_append(out, c->ask.chat ? "},\"logprobs\":" : ",\"logprobs\":");
    if (all == sent)
        rt_str_append(out, "null");
    else if (c->ask.chat)
        rt_logps_of_chat(c, i, sent, all, out);
    else
        rt_logps_of_completion(c, i, sent, all, out);
    put_end(c, i, out);
    if (c->ask.ids) {
        const uint32_t from = sent > echoed(c, i) ? sent - echoed(c, i) : 0;
        put_answer_ids(c, i, from, made(c, i), out);
        if (begins) put_prompt_ids(c, i, out);
    }
    rt_str_append(out, "}]}\n\n");
    c->sent[i] = all;
    c->written[i] = (uint32_t)s->text.len;
    c->over[i] = s->end != RT_END_NONE;
}

void rt_reply_last(const rt_call *c, rt_str *out)
{
    if (c->ask.usage) {
        begin_event(c, out);
        rt_str_append(out, "],");
        put_usage(c, out);
        rt_str_append(out, "}\n\n");
    }
    rt_str_append(out, "data: [DONE]\n\n");
}

void rt_reply_error(const rt_refusal *why, rt_str *out)
{
    const char *type = why->http == 401   ? "authentication_error"
                       : why->http == 429 ? "rate_limit_error"
                       : why->http >= 500 ? "server_error"
                                          : "invalid_request_error";
    rt_str_append(out, "{\"error\":{\"message\":");
    rt_json_put_any(out, why->err.text, strlen(why->err.text));
    rt_str_printf(out, ",\"type\":\"%s\",\"param\":", type);
    if (why->param)
        rt_str_printf(out, "\"%s\"", why->param);
    else
        rt_str_append(out, "null");
    rt_str_printf(out, ",\"code\":%u}}", why->http);
}
