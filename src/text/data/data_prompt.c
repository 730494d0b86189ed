/* data_prompt.c - see data_prompt.h. */
#include "text/data/data_prompt.h"

#include "base/json.h"
#include "text/data/data_internal.h"

#include <string.h>

/* As data begins a text: with BOS where the tokenizer adds one. */
static int continue_text(const rt_data_text *t, const char *text, size_t len, rt_str *shown, rt_tok_ids *ids, rt_err *e)
{
    int rc;
    rt_encoder *x = NULL;
    rt_encoded r = { 0 };
    RT_TRY(rt_encoder_new(&x, t, RT_LOSS_ALL, e));
    RT_TRY(rt_encoder_text(x, text, len, RT_PART_FIRST, &r, e));
    if (!rt_grow((void **)&ids->ids, &ids->cap, ids->count + r.ids.count, sizeof *ids->ids))
        RT_TRY(rt_no_memory(e, "a prompt"));
    if (r.ids.count) memcpy(ids->ids + ids->count, r.ids.ids, r.ids.count * sizeof *ids->ids);
    ids->count += r.ids.count;
    if (shown) rt_str_append_n(shown, text, len);
    if (shown && shown->failed) RT_TRY(rt_no_memory(e, "a prompt"));
out:
    rt_encoded_free(&r);
    rt_encoder_free(x);
    return rc;
}

/* Of a single question its own words are shown, else all of the conversation as the model reads it. */
static void show_chat(const json_t *messages, const rt_str *rendered, rt_str *shown)
{
    const json_t *only = json_object_get(json_array_get(messages, 0), "content");
    if (json_array_size(messages) == 1 && json_is_string(only))
        rt_str_append_n(shown, json_string_value(only), json_string_length(only));
    else
        rt_str_append_n(shown, rendered->data ? rendered->data : "", rendered->len);
}

int rt_prompt_chat_text(const rt_data_text *t, const json_t *messages, const json_t *tools, rt_str *text, rt_err *e)
{
    rt_jinja_result r = { 0 };
    const rt_chat_options o = { .add_generation_prompt = true,
                                .tools = tools,
                                .special = t->special,
                                .extra = t->extra,
                                .now = t->now,
                                .utc_offset = t->utc_offset };
    int rc = rt_chat_render(t->tmpl, messages, &o, &r, e);
    if (rc >= 0) rt_str_append_n(text, r.text.data ? r.text.data : "", r.text.len);
    if (rc >= 0 && text->failed) rc = rt_no_memory(e, "a prompt");
    rt_jinja_result_free(&r);
    return rc;
}

int rt_prompt_from_chat(const rt_data_text *t, const json_t *messages, const json_t *tools, rt_str *shown,
                        rt_tok_ids *ids, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    rt_tok_scratch *scratch = NULL;
    RT_TRY(rt_prompt_chat_text(t, messages, tools, &text, e));
    RT_TRY(rt_tok_scratch_new(&scratch, t->tok, e));
    RT_TRY(rt_tokenizer_encode(t->tok, scratch, text.data ? text.data : "", text.len, 0, ids, e));
    if (shown) show_chat(messages, &text, shown);
    if (shown && shown->failed) RT_TRY(rt_no_memory(e, "a prompt"));
out:
    rt_tok_scratch_free(scratch);
    rt_str_free(&text);
    return rc;
}

/* What stands before the assistant's last words. */
static int beginning_of(const json_t *messages, json_t **out, rt_err *e)
{
    size_t n = json_array_size(messages);
    while (n > 0) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, n - 1), "role"));
        if (!role || strcmp(role, "assistant") != 0) break;
        n--;
    }
    if (n == 0) return rt_fail(e, RT_INVALID, "a conversation in which nobody but the assistant speaks asks nothing");
    *out = json_array();
    for (size_t i = 0; i < n; i++)
        if (!*out || json_array_append(*out, json_array_get(messages, i)) < 0) return rt_no_memory(e, "a prompt");
    return RT_OK;
}

static int record_of_chat(const rt_data_text *t, const char *json, size_t len, json_t **out, rt_err *e)
{
    int rc;
    rt_record rec;
    json_t *messages = NULL;
    RT_TRY(rt_record_parse(&rec, json, len, NULL, t->tmpl != NULL, e));
    if (rec.kind != RT_RECORD_CHAT) RT_TRY(rt_fail(e, RT_INVALID, "`prompt` and `text` are texts"));
    if (!t->tmpl)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "a conversation, and the model has no chat template; name one with --chat-template FILE"));
    RT_TRY(beginning_of(rec.messages, &messages, e));
    *out = json_pack("{s:O, s:O*}", "messages", messages, "tools", rec.tools);
    if (!*out) RT_TRY(rt_no_memory(e, "a prompt"));
out:
    json_decref(messages);
    rt_record_free(&rec);
    return rc;
}

/* A record whose answer is still to be made: with an empty one it is of a known kind. *text: the record as JSON, the
 * caller's to free; null: it has its answer, or is of another kind. */
static int with_answer(json_t *j, char **text, rt_err *e)
{
    static const char *const pairs[][2] = { { "instruction", "output" },
                                            { "question", "answer" },
                                            { "prompt", "completion" } };
    *text = NULL;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        if (!json_object_get(j, pairs[i][0]) || json_object_get(j, pairs[i][1])) continue;
        bool set = json_object_set_new(j, pairs[i][1], json_string("")) == 0;
        if (!set || !(*text = rt_json_dump(j, JSON_COMPACT))) return rt_no_memory(e, "a prompt");
        return RT_OK;
    }
    return RT_OK;
}

static int record_of_json(const rt_data_text *t, const char *line, size_t len, json_t **out, rt_err *e)
{
    int rc;
    char *filled = NULL;
    json_t *j = rt_json_load(line, len, JSON_ALLOW_NUL, NULL), *text = json_object_get(j, "prompt");
    if (!j && rt_json_out_of_memory()) return rt_no_memory(e, "a prompt");
    if (!text) text = json_object_get(j, "text");
    if (json_is_string(text)) {
        *out = json_pack("{s:O}", "prompt", text);
        rc = *out ? RT_OK : rt_no_memory(e, "a prompt");
    } else {
        rc = with_answer(j, &filled, e);
        if (filled) line = filled, len = strlen(filled);
        if (rc == RT_OK) rc = record_of_chat(t, line, len, out, e); /* which also says what is wrong with it */
    }
    rt_free(filled);
    json_decref(j);
    return rc;
}

int rt_prompt_record(const rt_data_text *t, const char *line, size_t len, bool json, json_t **out, rt_err *e)
{
    *out = NULL;
    rt_json_init();
    (void)rt_json_out_of_memory();
    if (json) return record_of_json(t, line, len, out, e);
    *out = t->tmpl ? json_pack("{s:[{s:s, s:s%}]}", "messages", "role", "user", "content", line, len)
                   : json_pack("{s:s%}", "prompt", line, len);
    if (*out) return RT_OK;
    return rt_json_out_of_memory() ? rt_no_memory(e, "a prompt") : rt_fail(e, RT_INVALID, "the prompt is not UTF-8");
}

int rt_prompt_from_record(const rt_data_text *t, const json_t *record, rt_str *shown, rt_tok_ids *ids, rt_err *e)
{
    const json_t *messages = json_object_get(record, "messages"), *text = json_object_get(record, "prompt");
    if (messages) return rt_prompt_from_chat(t, messages, json_object_get(record, "tools"), shown, ids, e);
    return continue_text(t, json_string_value(text), json_string_length(text), shown, ids, e);
}

json_t *rt_prompt_answered(const json_t *record, const char *answer, size_t len)
{
    json_t *out = json_deep_copy(record), *messages = json_object_get(out, "messages");
    json_t *text = json_stringn(answer, len);
    int rc = messages ? json_array_append_new(messages, json_pack("{s:s, s:O*}", "role", "assistant", "content", text))
                      : json_object_set(out, "completion", text);
    json_decref(text);
    if (rc == 0 && text) return out;
    json_decref(out);
    return NULL;
}

static int from_either(const rt_data_text *t, const char *line, size_t len, bool json, rt_str *shown, rt_tok_ids *ids,
                       rt_err *e)
{
    int rc;
    json_t *record = NULL;
    RT_TRY(rt_prompt_record(t, line, len, json, &record, e));
    RT_TRY(rt_prompt_from_record(t, record, shown, ids, e));
out:
    json_decref(record);
    return rc;
}

int rt_prompt_from_line(const rt_data_text *t, const char *line, size_t len, rt_str *shown, rt_tok_ids *ids, rt_err *e)
{
    return from_either(t, line, len, false, shown, ids, e);
}

int rt_prompt_from_json(const rt_data_text *t, const char *json, size_t len, rt_str *shown, rt_tok_ids *ids, rt_err *e)
{
    return from_either(t, json, len, true, shown, ids, e);
}
