/* fuzz_ask.c - any bytes as the body of a request to the server, as completions, chats and texts to be tokenized.
 *
 * The first byte chooses which, the second which of jansson's values gets no memory (0: all do). The model's text is a
 * stand-in of one id for each byte. With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "serve/serve_ask.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(int ok)
{
    if (!ok) __builtin_trap();
}

/* ---- memory ---- */

static int64_t refused = -1; /* the allocation that is refused, counted from now; the ones after it are not */

static void *refuse_one(void *ctx, size_t bytes, size_t align)
{
    void *p = NULL;
    (void)ctx;
    if (refused >= 0 && refused-- == 0) return NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes) == 0 ? p : NULL;
}

static void free_one(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* ---- a model's text ---- */

enum { BEGIN = 256, CONTEXT = 300, TOP = 7 };

rt_speaker_facts rt_speaker_facts_of(const rt_speaker *s)
{
    (void)s;
    return (rt_speaker_facts){ .slots = 2, .context = CONTEXT, .vocab = BEGIN + 1, .top = TOP, .device = "none" };
}

uint32_t rt_speaker_prefix(const rt_speaker *s) { return s ? 0 : 1; }

int rt_speaker_encode(const rt_speaker *s, const char *text, size_t len, bool special, rt_tok_ids *ids, rt_err *e)
{
    (void)s;
    if (!rt_grow((void **)&ids->ids, &ids->cap, ids->count + (uint32_t)len + 1, sizeof *ids->ids))
        return rt_no_memory(e, "ids");
    if (special) ids->ids[ids->count++] = BEGIN;
    for (size_t i = 0; i < len; i++) ids->ids[ids->count++] = (uint8_t)text[i];
    return RT_OK;
}

int rt_speaker_show(const rt_speaker *s, const rt_tok_ids *ids, uint32_t from, rt_str *text, uint32_t *offset,
                    rt_err *e)
{
    (void)s;
    require(from <= ids->count);
    for (uint32_t i = 0; i < ids->count; i++) {
        offset[i] = i < from ? 0 : i - from;
        if (i >= from) rt_str_append(text, "x");
    }
    return text->failed ? rt_no_memory(e, "a text") : RT_OK;
}

/* What comes here is whole: every message is an object with a role, and texts in parts have become one. */
int rt_speaker_converse(const rt_speaker *s, const rt_speaker_chat *c, rt_tok_ids *ids, rt_err *e)
{
    require(json_array_size(c->messages) > 0);
    for (size_t i = 0; i < json_array_size(c->messages); i++) {
        const json_t *m = json_array_get(c->messages, i);
        require(json_is_object(m) && json_is_string(json_object_get(m, "role")));
        require(!json_is_array(json_object_get(m, "content")));
    }
    require(!c->tools || json_is_array(c->tools));
    require(!c->vars || json_is_object(c->vars));
    return rt_speaker_encode(s, "chat", 4, true, ids, e);
}

/* ---- one body ---- */

static void check_refusal(const rt_refusal *why)
{
    require(why->err.text[0] && (why->http == 400 || why->http == 404 || why->http == 500));
}

/* What is accepted can be answered without looking again. */
static void check_ask(const rt_ask *a)
{
    const rt_sampling *s = &a->sampling;
    require(a->n >= 1 && a->prompts >= 1 && (uint64_t)a->prompts * a->n <= RT_ASK_SEQUENCES);
    require(s->temperature >= 0 && isfinite(s->temperature) && s->top_p > 0 && s->top_p <= 1);
    require(s->min_p >= 0 && s->min_p <= 1 && s->repetition_penalty > 0 && isfinite(s->repetition_penalty));
    require(a->logprobs <= TOP && a->prompt_logprobs <= TOP && a->logprobs >= -1 && a->prompt_logprobs >= -1);
    require(a->stops <= RT_ASK_STOPS && a->stop_ids.count <= RT_ASK_STOPS);
    require(a->max_new > 0 || a->echo || a->prompt_logprobs >= 0);
    for (uint32_t i = 0; i < a->stops; i++) require(a->stop[i][0]);
    for (uint32_t i = 0; i < a->prompts; i++) {
        const rt_ask_prompt *p = &a->prompt[i];
        require(p->equal <= i && (!p->text.data || p->offset));
    }
}

static void use_tokenize(const rt_ask_env *env, json_t *body)
{
    rt_refusal why = { 0 };
    rt_tok_ids ids = { 0 }, tokens = { 0 };
    rt_fields f = { body, &why, false };
    int rc = rt_ask_model(env, &f);
    const bool special = rt_field_flag(&f, "add_special_tokens", true);
    if (rc >= 0) rc = rt_ask_ids(env, &f, special, &ids);
    if (rc < 0) check_refusal(&why);
    why = (rt_refusal){ 0 };
    f.bad = false;
    rt_field_ids(&f, "tokens", rt_field_of(&f, "tokens", JSON_ARRAY), &tokens);
    if (f.bad) check_refusal(&why);
    rt_free(ids.ids);
    rt_free(tokens.ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int ready;
    static const rt_allocator with_refusals = { refuse_one, free_one, NULL };
    const rt_ask_env env = { .name = "m", .seed = 7, .now = 1700000000 };
    rt_refusal why = { 0 };
    rt_ask ask = { 0 };
    json_t *body = NULL;
    if (!ready++) {
        rt_json_init();
        rt_allocator_set(&with_refusals);
    }
    if (size < 2) return 0;
    const uint64_t live = rt_alloc_live();
    rt_json_forget();
    refused = (int64_t)data[1] - 1;
    if (rt_ask_body(&body, (const char *)data + 2, size - 2, &why) < 0)
        check_refusal(&why);
    else if (data[0] % 3 == 2)
        use_tokenize(&env, body);
    else if (rt_ask_read(&ask, &env, data[0] % 3, body, &why) < 0)
        check_refusal(&why);
    else
        check_ask(&ask);
    refused = -1;
    rt_ask_free(&ask);
    json_decref(body);
    require(rt_alloc_live() == live);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
