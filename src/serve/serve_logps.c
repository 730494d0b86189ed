/* serve_logps.c - log-probabilities in a reply: as OpenAI's completions and chats have them, and prompts as vLLM has
 * them. See serve_internal.h.
 *
 * An id that is among the likely ones at its place has one number: that of the list. Its own comes from another kernel,
 * whose last digit may differ, and lm-eval compares both. */
#include "serve/serve_internal.h"

#include "base/utf8.h"

#include <math.h>
#include <string.h>

void rt_json_put_any(rt_str *out, const char *text, size_t len)
{
    rt_str whole = { 0 };
    if (!len) text = "";
    if (rt_json_put_text(out, text, len)) return;
    rt_utf8_repair(text, len, &whole);
    if (whole.failed || !rt_json_put_text(out, whole.data, whole.len)) out->failed = true;
    rt_str_free(&whole);
}

static void put_logp(rt_str *out, float logp)
{
    if (isfinite(logp))
        rt_json_put_float(out, logp);
    else
        rt_str_append(out, "null");
}

/* ---- a place ---- */

/* An id at its place, in the prompt or in the answer. */
typedef struct spot {
    uint32_t id;
    bool known;      /* its log-probability was asked for, and it is not the first of its prompt */
    uint32_t offset; /* characters of what a completion shows before it */
    float logp;
    const rt_likely_id *likely; /* (many) */
    uint32_t many;
} spot;

static spot spot_at(const rt_call *c, uint32_t i, bool prompt, uint32_t at, int32_t top)
{
    const rt_said *s = &c->each[i].said;
    const rt_ask_prompt *p = &c->ask.prompt[i / c->ask.n];
    const uint32_t place = prompt ? at : s->prompt + at;
    spot t = { .id = prompt ? p->ids.ids[at] : s->place[place].id };
    if (c->ask.echo) t.offset = prompt ? p->offset[at] : p->characters;
    if (!prompt) t.offset += s->place[place].offset;
    if (prompt && (at == 0 || at >= s->prompt)) return t;
    t.known = true;
    t.logp = s->place[place].logp;
    t.likely = s->likely + s->place[place].first;
    t.many = s->place[place].many < (uint32_t)top ? s->place[place].many : (uint32_t)top;
    for (uint32_t k = 0; k < s->place[place].many; k++)
        if (t.likely[k].id == t.id) t.logp = t.likely[k].logp;
    return t;
}

/* Of those that a completion shows: the prompt where it is echoed, then the answer. */
static spot shown_at(const rt_call *c, uint32_t i, uint32_t at)
{
    const uint32_t echoed = c->ask.echo ? c->ask.prompt[i / c->ask.n].ids.count : 0;
    return at < echoed ? spot_at(c, i, true, at, c->ask.logprobs) : spot_at(c, i, false, at - echoed, c->ask.logprobs);
}

static bool has(const spot *t, uint32_t id)
{
    for (uint32_t k = 0; k < t->many; k++)
        if (t->likely[k].id == id) return true;
    return false;
}

/* What an id is called. */
static void name_of(const rt_call *c, uint32_t id, rt_str *out)
{
    rt_token_info info;
    if (c->ask.names || !rt_speaker_token(c->who.server->speaker, id, &info)) {
        rt_str_printf(out, "token_id:%u", id);
        return;
    }
    const rt_tok_text *t = info.special ? &info.text : &info.bytes;
    rt_utf8_repair(t->data, t->len, out);
}

static void put_name(const rt_call *c, uint32_t id, rt_str *out)
{
    rt_str name = { 0 };
    name_of(c, id, &name);
    rt_json_put_any(out, name.data, name.len);
    rt_str_free(&name);
}

/* ---- completions ---- */

/* {"text": logp, ...}: of ids with equal text the likeliest. */
static void put_top(const rt_call *c, const spot *t, rt_str *out)
{
    const uint32_t n = t->many + !has(t, t->id);
    rt_str names = { 0 };
    size_t *at = rt_alloc((n + (size_t)1) * sizeof *at, 16); /* where each name begins */
    if (!at) out->failed = true;
    rt_str_append(out, "{");
    for (uint32_t k = 0; at && k < n; k++) {
        bool twice = false;
        at[k] = names.len;
        name_of(c, k < t->many ? t->likely[k].id : t->id, &names);
        const size_t len = names.len - at[k];
        for (uint32_t j = 0; j < k && !twice; j++)
            twice = at[j + 1] - at[j] == len && (!len || memcmp(names.data + at[j], names.data + at[k], len) == 0);
        at[k + 1] = names.len;
        if (twice) continue;
        rt_str_append(out, k ? "," : "");
        rt_json_put_any(out, names.data + at[k], len);
        rt_str_append(out, ":");
        put_logp(out, k < t->many ? t->likely[k].logp : t->logp);
    }
    rt_str_append(out, "}");
    if (names.failed) out->failed = true;
    rt_str_free(&names);
    rt_free(at);
}

void rt_logps_of_completion(const rt_call *c, uint32_t i, uint32_t first, uint32_t end, rt_str *out)
{
    if (c->ask.logprobs < 0) {
        rt_str_append(out, "null");
        return;
    }
    static const char *const keys[] = { "{\"tokens\":[", "],\"token_logprobs\":[", "],\"top_logprobs\":[",
                                        "],\"text_offset\":[" };
    for (int part = 0; part < 4; part++) {
        rt_str_append(out, keys[part]);
        for (uint32_t k = first; k < end; k++) {
            const spot t = shown_at(c, i, k);
            if (k > first) rt_str_append(out, ",");
            if (part == 0)
                put_name(c, t.id, out);
            else if (part < 3 && !t.known)
                rt_str_append(out, "null");
            else if (part == 1)
                put_logp(out, t.logp);
            else if (part == 2)
                put_top(c, &t, out);
            else
                rt_str_printf(out, "%u", t.offset);
        }
    }
    rt_str_append(out, "]}");
}

/* ---- chats ---- */

static void put_token(const rt_call *c, uint32_t id, float logp, rt_str *out)
{
    rt_token_info info;
    rt_str_append(out, "{\"token\":");
    put_name(c, id, out);
    rt_str_append(out, ",\"logprob\":");
    put_logp(out, logp);
    rt_str_append(out, ",\"bytes\":[");
    if (rt_speaker_token(c->who.server->speaker, id, &info)) {
        const rt_tok_text *t = info.special ? &info.text : &info.bytes;
        for (size_t k = 0; k < t->len; k++) rt_str_printf(out, k ? ",%u" : "%u", (unsigned char)t->data[k]);
    }
    rt_str_append(out, "]");
}

void rt_logps_of_chat(const rt_call *c, uint32_t i, uint32_t first, uint32_t end, rt_str *out)
{
    if (c->ask.logprobs < 0) {
        rt_str_append(out, "null");
        return;
    }
    rt_str_append(out, "{\"content\":[");
    for (uint32_t k = first; k < end; k++) {
        const spot t = spot_at(c, i, false, k, c->ask.logprobs);
        if (k > first) rt_str_append(out, ",");
        put_token(c, t.id, t.logp, out);
        rt_str_append(out, ",\"top_logprobs\":[");
        for (uint32_t j = 0; j < t.many; j++) {
            if (j) rt_str_append(out, ",");
            put_token(c, t.likely[j].id, t.likely[j].logp, out);
            rt_str_append(out, "}");
        }
        rt_str_append(out, "]}");
    }
    rt_str_append(out, "]}");
}

/* ---- prompts, by id ---- */

static void put_ranked(const rt_call *c, uint32_t id, float logp, uint32_t rank, rt_str *out)
{
    rt_str_printf(out, "\"%u\":{\"logprob\":", id);
    put_logp(out, logp);
    if (rank)
        rt_str_printf(out, ",\"rank\":%u,\"decoded_token\":", rank);
    else
        rt_str_append(out, ",\"rank\":null,\"decoded_token\":");
    put_name(c, id, out);
    rt_str_append(out, "}");
}

void rt_logps_of_prompt(const rt_call *c, uint32_t i, rt_str *out)
{
    rt_str_append(out, "[");
    for (uint32_t k = 0; k < c->ask.prompt[i / c->ask.n].ids.count; k++) {
        const spot t = spot_at(c, i, true, k, c->ask.prompt_logprobs);
        if (k) rt_str_append(out, ",");
        if (!t.known) {
            rt_str_append(out, "null");
            continue;
        }
        uint32_t rank = 0;
        for (uint32_t j = 0; j < t.many; j++)
            if (t.likely[j].id == t.id) rank = j + 1;
        rt_str_append(out, "{");
        put_ranked(c, t.id, t.logp, rank, out);
        for (uint32_t j = 0; j < t.many; j++) {
            if (t.likely[j].id == t.id) continue;
            rt_str_append(out, ",");
            put_ranked(c, t.likely[j].id, t.likely[j].logp, j + 1, out);
        }
        rt_str_append(out, "}");
    }
    rt_str_append(out, "]");
}
