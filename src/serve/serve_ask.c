/* serve_ask.c - a request for completions or a chat, from its JSON. See serve_ask.h. */
#include "serve/serve_ask.h"

#include "base/hash.h"
#include "base/utf8.h"

#include <string.h>

int rt_ask_body(json_t **out, const char *text, size_t len, rt_refusal *why)
{
    json_error_t at;
    *out = rt_json_load(text, len, JSON_ALLOW_NUL, &at);
    if (json_is_object(*out)) return RT_OK;
    if (*out) {
        const char *is = rt_json_type_name(*out);
        json_decref(*out);
        *out = NULL;
        return rt_refuse(why, 400, NULL, "the body is %s; it takes a JSON object", is);
    }
    if (rt_json_out_of_memory()) return rt_refuse(why, 500, NULL, "no memory to read the body");
    if (!len) return rt_refuse(why, 400, NULL, "the body is empty; it takes a JSON object");
    return rt_refuse(why, 400, NULL, "the body is not JSON: line %d, column %d: %s", at.line, at.column, at.text);
}

int rt_ask_model(const rt_ask_env *env, rt_fields *f)
{
    const json_t *j = rt_field_text(f, "model");
    if (!j || strcmp(json_string_value(j), env->name) == 0) return f->bad ? RT_INVALID : RT_OK;
    rt_field_fail(f, "model", "the model '%.200s' is not served here; this server has '%s'", json_string_value(j),
                  env->name);
    f->why->http = 404;
    return RT_INVALID;
}

/* ---- what is not followed ---- */

/* Whether a value asks for nothing. */
static bool is_neutral(const json_t *j)
{
    const json_t *type = json_object_get(j, "type");
    if (json_is_number(j)) return json_number_value(j) == 0;
    if (json_is_string(j)) return json_string_length(j) == 0 || strcmp(json_string_value(j), "none") == 0;
    if (json_is_object(j))
        return json_object_size(j) == 0 || (json_is_string(type) && strcmp(json_string_value(type), "text") == 0);
    return !json_is_true(j) && json_array_size(j) == 0;
}

/* What would change the answer, where it is asked for anything. */
static const char *const not_followed[] = { "logit_bias",
                                            "presence_penalty",
                                            "frequency_penalty",
                                            "suffix",
                                            "response_format",
                                            "guided_json",
                                            "guided_regex",
                                            "guided_choice",
                                            "guided_grammar",
                                            "min_tokens",
                                            "use_beam_search",
                                            "include_stop_str_in_output",
                                            "allowed_token_ids",
                                            "bad_words",
                                            "truncate_prompt_tokens",
                                            "functions",
                                            "function_call",
                                            "continue_final_message",
                                            "chat_template",
                                            "documents",
                                            "structured_outputs",
                                            "guided_json_object",
                                            "json_schema",
                                            "grammar",
                                            "prompt_embeds",
                                            "logits_processors",
                                            "n_predict",
                                            "audio",
                                            "prediction" };

static int refuse_others(rt_fields *f, const rt_ask *a)
{
    for (size_t i = 0; i < sizeof not_followed / sizeof *not_followed; i++) {
        const char *name = not_followed[i];
        const json_t *j = json_object_get(f->body, name);
        if (j && !is_neutral(j)) return rt_field_fail(f, name, "%s is not supported; leave it out", name);
    }
    if (!rt_field_flag(f, "add_generation_prompt", true))
        return rt_field_fail(f, "add_generation_prompt", "add_generation_prompt is always true here; leave it out");
    if (rt_field_real(f, "repeat_penalty", 1, 0, 1e9) != 1)
        return rt_field_fail(f, "repeat_penalty", "repeat_penalty is called repetition_penalty here");
    const json_t *choice = json_object_get(f->body, "tool_choice");
    if (json_is_string(choice) && strcmp(json_string_value(choice), "auto") == 0) choice = NULL;
    if (choice && !is_neutral(choice))
        return rt_field_fail(f, "tool_choice", "tool_choice takes \"auto\" or \"none\" here");
    if (rt_field_whole(f, "best_of", a->n, 1, RT_ASK_SEQUENCES) != a->n)
        return rt_field_fail(f, "best_of", "best_of is not supported; leave it out, or set it to n, which is %u", a->n);
    return f->bad ? RT_INVALID : RT_OK;
}

/* ---- prompts ---- */

static int no_memory(rt_fields *f, const char *name)
{
    f->bad = true;
    return rt_refuse(f->why, 500, name, "no memory");
}

/* Texts in parts, as clients of models with images send them, become one text. */
static int flatten(rt_fields *f, json_t *message)
{
    const json_t *parts = json_object_get(message, "content");
    rt_str text = { 0 };
    if (!json_is_array(parts)) return RT_OK;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *type = json_object_get(part, "type");
        const json_t *says = json_object_get(part, "text");
        if (!json_is_string(says) || !json_is_string(type) || strcmp(json_string_value(type), "text") != 0) {
            rt_str_free(&text);
            return rt_field_fail(f, "messages", "a message has content that is not text; only text is supported");
        }
        rt_str_append_n(&text, json_string_value(says), json_string_length(says));
    }
    const bool made = !text.failed &&
                      json_object_set_new(message, "content", json_stringn(text.data ? text.data : "", text.len)) == 0;
    rt_str_free(&text);
    return made ? RT_OK : no_memory(f, "messages");
}

/* Clients send the arguments of a tool's call as a text that is JSON; templates are written for what it says. */
static int parse_calls(rt_fields *f, json_t *message)
{
    size_t i;
    json_t *call, *calls = json_object_get(message, "tool_calls");
    if (!json_is_array(calls)) return RT_OK;
    if (json_object_set_new(message, "tool_calls", calls = json_deep_copy(calls)) < 0 || rt_json_out_of_memory())
        return no_memory(f, "messages");
    json_array_foreach(calls, i, call)
    {
        json_t *function = json_object_get(call, "function"), *text = json_object_get(function, "arguments");
        if (!json_is_string(text)) continue;
        const size_t len = json_string_length(text);
        json_t *says =
            len ? rt_json_load(json_string_value(text), len, JSON_ALLOW_NUL | JSON_DECODE_ANY, NULL) : json_object();
        if (!says && !rt_json_out_of_memory())
            return rt_field_fail(f, "messages",
                                 "the arguments of tool call %zu of a message are a text that is no JSON", i);
        if (json_object_set_new(function, "arguments", says) < 0) return no_memory(f, "messages");
    }
    return RT_OK;
}

static int conversation(rt_fields *f, const json_t *messages, json_t **out)
{
    int rc = RT_OK;
    json_t *list = json_array();
    if (!list) RT_TRY(no_memory(f, "messages"));
    if (!json_array_size(messages)) RT_TRY(rt_field_fail(f, "messages", "messages is empty; it takes a conversation"));
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const json_t *m = json_array_get(messages, i);
        json_t *copy = json_copy((json_t *)(uintptr_t)m); /* it lacks the members that got no memory */
        if (rt_json_out_of_memory()) rc = no_memory(f, "messages");
        if (rc >= 0 && !json_is_string(json_object_get(m, "role")))
            rc = rt_field_fail(f, "messages", "message %zu has no role; it takes an object with role and content", i);
        if (rc >= 0) rc = flatten(f, copy);
        if (rc >= 0) rc = parse_calls(f, copy);
        if (rc >= 0 && json_array_append(list, copy) < 0) rc = no_memory(f, "messages");
        json_decref(copy);
        RT_TRY(rc);
    }
    *out = list;
    list = NULL;
out:
    json_decref(list);
    return rc;
}

static int converse(const rt_ask_env *env, rt_fields *f, const json_t *messages, rt_tok_ids *ids)
{
    int rc;
    json_t *list = NULL;
    rt_err e = { 0 };
    RT_TRY(conversation(f, messages, &list));
    const rt_speaker_chat chat = { .messages = list,
                                   .tools = rt_field_of(f, "tools", JSON_ARRAY),
                                   .vars = rt_field_of(f, "chat_template_kwargs", JSON_OBJECT),
                                   .now = env->now,
                                   .utc_offset = env->utc_offset };
    if (f->bad) RT_TRY(RT_INVALID);
    rc = rt_speaker_converse(env->speaker, &chat, ids, &e);
    if (rc < 0) rt_field_fail(f, "messages", "%s", e.text);
out:
    json_decref(list);
    return rc;
}

static int encode(const rt_ask_env *env, rt_fields *f, const json_t *text, bool special, rt_tok_ids *ids)
{
    rt_err e = { 0 };
    int rc = rt_speaker_encode(env->speaker, json_string_value(text), json_string_length(text), special, ids, &e);
    return rc < 0 ? rt_field_fail(f, "prompt", "%s", e.text) : rc;
}

int rt_ask_ids(const rt_ask_env *env, rt_fields *f, bool special, rt_tok_ids *ids)
{
    const json_t *messages = rt_field_of(f, "messages", JSON_ARRAY);
    if (f->bad) return RT_INVALID;
    if (messages) return converse(env, f, messages, ids);
    const json_t *text = rt_field_text(f, "prompt");
    if (f->bad) return RT_INVALID;
    return text ? encode(env, f, text, special, ids) : rt_field_fail(f, "prompt", "prompt is missing");
}

static int read_prompt(rt_ask_prompt *p, const rt_ask_env *env, rt_fields *f, const json_t *j, bool special)
{
    if (json_is_array(j)) {
        rt_field_ids(f, "prompt", j, &p->ids);
        return f->bad ? RT_INVALID : RT_OK;
    }
    if (!json_is_string(j))
        return rt_field_fail(f, "prompt", "prompt holds %s; it takes a text, ids, or a list of either",
                             rt_json_type_name(j));
    return encode(env, f, j, special, &p->ids);
}

/* What is shown of a prompt: a text as it was given, ids with special ones, but for those that stand for nothing. Of a
 * text the ids that the tokenizer puts before it are no part. */
static int read_echo(rt_ask *a, rt_ask_prompt *p, const rt_ask_env *env, rt_fields *f, const json_t *j, bool special)
{
    rt_str text = { 0 };
    const bool given = json_is_string(j);
    const uint32_t before = given && special ? rt_speaker_prefix(env->speaker) : 0;
    uint32_t *offset = rt_arena_alloc(&a->arena, (p->ids.count + (size_t)1) * sizeof *offset);
    const bool made = offset && rt_speaker_show(env->speaker, &p->ids, before, &text, offset, NULL) >= 0;
    p->text = given ? rt_span_copy(&a->arena, json_string_value(j), json_string_length(j))
                    : rt_span_copy(&a->arena, text.data ? text.data : "", text.len);
    rt_str_free(&text);
    if (!made || !p->text.data) return no_memory(f, "prompt");
    p->offset = offset;
    p->characters = (uint32_t)rt_utf8_count(p->text.data, p->text.len);
    return RT_OK;
}

/* Prompts of equal ids get draws of their own. */
static int count_equal(rt_ask *a)
{
    rt_hash128 *hash = rt_arena_alloc(&a->arena, a->prompts * sizeof *hash);
    if (!hash) return RT_NOMEM;
    for (uint32_t i = 0; i < a->prompts; i++) {
        rt_ask_prompt *p = &a->prompt[i];
        hash[i] = rt_hash(p->ids.ids, p->ids.count * sizeof *p->ids.ids);
        for (uint32_t k = 0; k < i; k++) p->equal += rt_hash_equal(hash[k], hash[i]);
    }
    return RT_OK;
}

static int read_prompts(rt_ask *a, const rt_ask_env *env, rt_fields *f)
{
    int rc = RT_OK;
    const bool special = rt_field_flag(f, "add_special_tokens", true);
    const json_t *j = a->chat ? NULL : json_object_get(f->body, "prompt");
    /* A list of numbers is one prompt, a list of anything else several. */
    const bool list = json_is_array(j) && !json_is_integer(json_array_get(j, 0));
    const size_t n = list ? json_array_size(j) : 1;
    if (!a->chat && (!j || json_is_null(j))) return rt_field_fail(f, "prompt", "prompt is missing");
    if (!n || n * a->n > RT_ASK_SEQUENCES)
        return rt_field_fail(f, "prompt", "%zu prompts with n %u were asked for; 1 to %d answers are given at once", n,
                             a->n, RT_ASK_SEQUENCES);
    a->prompts = (uint32_t)n;
    a->prompt = rt_arena_alloc(&a->arena, n * sizeof *a->prompt);
    if (!a->prompt) return rt_refuse(f->why, 500, NULL, "no memory for the prompts");
    if (a->chat && !rt_field_of(f, "messages", JSON_ARRAY)) RT_TRY(rt_field_fail(f, "messages", "messages is missing"));
    if (a->chat) RT_TRY(rt_ask_ids(env, f, special, &a->prompt->ids));
    for (uint32_t i = 0; i < n && !a->chat; i++) {
        const json_t *one = list ? json_array_get(j, i) : j;
        RT_TRY(read_prompt(&a->prompt[i], env, f, one, special));
        if (a->echo) RT_TRY(read_echo(a, &a->prompt[i], env, f, one, special));
    }
    if (count_equal(a) < 0) rc = rt_refuse(f->why, 500, NULL, "no memory for the prompts");
out:
    return rc;
}

/* ---- the rest ---- */

static int read_stops(rt_ask *a, rt_fields *f)
{
    const json_t *j = json_object_get(f->body, "stop"), *ids = rt_field_of(f, "stop_token_ids", JSON_ARRAY);
    const size_t n = json_is_array(j) ? json_array_size(j) : j && !json_is_null(j);
    if (n > RT_ASK_STOPS) return rt_field_fail(f, "stop", "stop has %zu strings; the maximum is %d", n, RT_ASK_STOPS);
    if (json_array_size(ids) > RT_ASK_STOPS)
        return rt_field_fail(f, "stop_token_ids", "stop_token_ids has more than %d ids", RT_ASK_STOPS);
    if (ids) rt_field_ids(f, "stop_token_ids", ids, &a->stop_ids);
    a->stop = rt_arena_alloc(&a->arena, (n + 1) * sizeof *a->stop);
    if (!a->stop) return rt_refuse(f->why, 500, NULL, "no memory for stop strings");
    for (size_t i = 0; i < n; i++) {
        const json_t *s = json_is_array(j) ? json_array_get(j, i) : j;
        if (!json_is_string(s)) return rt_field_fail(f, "stop", "stop is neither a string nor a list of strings");
        if (strlen(json_string_value(s)) != json_string_length(s))
            return rt_field_fail(f, "stop", "a stop string contains a zero byte");
        if (!json_string_length(s)) continue;
        a->stop[a->stops] = rt_arena_strdup(&a->arena, json_string_value(s));
        if (!a->stop[a->stops++]) return rt_refuse(f->why, 500, NULL, "no memory for stop strings");
    }
    return f->bad ? RT_INVALID : RT_OK;
}

static int read_sampling(rt_ask *a, const rt_ask_env *env, rt_fields *f)
{
    const int64_t top_k = rt_field_whole(f, "top_k", 0, -1, UINT32_MAX);
    a->sampling = (rt_sampling){ .temperature = rt_field_real(f, "temperature", 1, 0, 100),
                                 .top_k = top_k < 0 ? 0 : (uint32_t)top_k,
                                 .top_p = rt_field_real(f, "top_p", 1, 0, 1),
                                 .min_p = rt_field_real(f, "min_p", 0, 0, 1),
                                 .repetition_penalty = rt_field_real(f, "repetition_penalty", 1, 1e-3, 1e3) };
    a->sampling.seed = (uint64_t)rt_field_whole(f, "seed", (int64_t)env->seed, INT64_MIN, INT64_MAX);
    if (a->sampling.top_p == 0)
        rt_field_fail(f, "top_p", "top_p is 0, which leaves nothing to sample from; it takes more than 0, up to 1");
    return f->bad ? RT_INVALID : RT_OK;
}

/* How many likely ids come with each: of completions a number, of chats a switch and a number. */
static int read_logprobs(rt_ask *a, uint32_t top, rt_fields *f)
{
    const int64_t likely = rt_field_whole(f, a->chat ? "top_logprobs" : "logprobs", -1, 0, top);
    a->logprobs = (int32_t)likely;
    if (a->chat && !rt_field_flag(f, "logprobs", false)) {
        if (likely > 0) return rt_field_fail(f, "top_logprobs", "top_logprobs needs logprobs to be true");
        a->logprobs = -1;
    } else if (a->chat && likely < 0) {
        a->logprobs = 0;
    }
    a->prompt_logprobs = (int32_t)rt_field_whole(f, "prompt_logprobs", -1, 0, top);
    if (a->stream && a->prompt_logprobs >= 0)
        return rt_field_fail(f, "prompt_logprobs", "prompt_logprobs cannot be streamed; leave out stream");
    return f->bad ? RT_INVALID : RT_OK;
}

static void read_switches(rt_ask *a, rt_fields *f)
{
    rt_fields options = { rt_field_of(f, "stream_options", JSON_OBJECT), f->why, f->bad };
    a->stream = rt_field_flag(f, "stream", false);
    a->usage = rt_field_flag(&options, "include_usage", false);
    f->bad = f->bad || options.bad;
    a->echo = rt_field_flag(f, "echo", false);
    if (a->chat && a->echo)
        rt_field_fail(f, "echo", "echo is not available for chats; use prompt_logprobs, or /v1/completions");
    a->ids = rt_field_flag(f, "return_token_ids", false);
    a->names = rt_field_flag(f, "return_tokens_as_token_ids", false);
    a->special = !rt_field_flag(f, "skip_special_tokens", true);
    a->on = rt_field_flag(f, "ignore_eos", false);
    a->n = (uint32_t)rt_field_whole(f, "n", 1, 1, 128);
}

/* Of a chat without one: as far as the context goes. */
static int read_length(rt_ask *a, const rt_speaker_facts *facts, rt_fields *f)
{
    const json_t *newer = json_object_get(f->body, "max_completion_tokens");
    const char *name = a->chat && newer && !json_is_null(newer) ? "max_completion_tokens" : "max_tokens";
    const bool scored = a->echo || a->prompt_logprobs >= 0;
    a->max_new = (uint32_t)rt_field_whole(f, name, a->chat ? facts->context : 16, 0, INT32_MAX);
    if (!f->bad && a->max_new == 0 && !scored)
        return rt_field_fail(f, name, "%s is 0, which leaves nothing to do without echo or prompt_logprobs", name);
    return f->bad ? RT_INVALID : RT_OK;
}

static int check_size(const rt_ask *a, const rt_speaker_facts *facts, rt_fields *f)
{
    uint64_t places = 0, most = 0;
    const int32_t top = a->logprobs > a->prompt_logprobs ? a->logprobs : a->prompt_logprobs;
    for (uint32_t i = 0; i < a->prompts; i++) {
        const uint64_t left = facts->context > a->prompt[i].ids.count ? facts->context - a->prompt[i].ids.count : 0;
        most = a->max_new < left ? a->max_new : left;
        places += a->n * (a->prompt[i].ids.count + most);
    }
    if (top < 0 || places * ((uint64_t)top + 1) <= RT_ASK_PLACES) return RT_OK;
    return rt_field_fail(
        f, a->logprobs >= 0 ? "logprobs" : "prompt_logprobs",
        "up to %llu log-probabilities were asked for, and a reply can hold %d; send fewer prompts at once",
        (unsigned long long)(places * ((uint64_t)top + 1)), RT_ASK_PLACES);
}

int rt_ask_read(rt_ask *a, const rt_ask_env *env, bool chat, const json_t *body, rt_refusal *why)
{
    int rc;
    rt_fields f = { body, why, false };
    const rt_speaker_facts facts = rt_speaker_facts_of(env->speaker);
    *a = (rt_ask){ .chat = chat };
    RT_TRY(rt_ask_model(env, &f));
    read_switches(a, &f);
    RT_TRY(refuse_others(&f, a));
    RT_TRY(read_sampling(a, env, &f));
    RT_TRY(read_logprobs(a, facts.top, &f));
    RT_TRY(read_length(a, &facts, &f));
    RT_TRY(read_stops(a, &f));
    RT_TRY(read_prompts(a, env, &f));
    RT_TRY(check_size(a, &facts, &f));
out:
    if (rc < 0) rt_ask_free(a);
    return rc;
}

void rt_ask_free(rt_ask *a)
{
    for (uint32_t i = 0; i < a->prompts && a->prompt; i++) rt_free(a->prompt[i].ids.ids);
    rt_free(a->stop_ids.ids);
    rt_arena_free(&a->arena);
    *a = (rt_ask){ 0 };
}
