/* data_record.c - the shape of a record by its keys: plain text, prompt and completion, or a conversation.
 *
 * Owns: which keys make which kind, and conversations of every spelling as the `messages` that templates know. What the
 * tokens are is for data_encode.c. */
#include "text/data/data_internal.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

const char *rt_record_kind_name(rt_record_kind k)
{
    return k == RT_RECORD_TEXT ? "text" : k == RT_RECORD_COMPLETION ? "completion" : "chat";
}

const char *const rt_record_keys[] = { "messages", "conversations", "tools",   "prompt", "completion", "instruction",
                                       "input",    "output",        "history", "system", "text" };
const uint32_t rt_record_key_count = sizeof rt_record_keys / sizeof *rt_record_keys;

/* The keys of an object, as far as they fit, with nothing in them that a terminal would act on. */
static void list_keys(const json_t *j, char *buf, size_t size)
{
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterators take no const, and change nothing */
    size_t n = 0;
    buf[0] = '\0';
    for (void *it = json_object_iter(object); it && n + 4 < size; it = json_object_iter_next(object, it)) {
        int got = snprintf(buf + n, size - n, "%s%.40s", n ? ", " : "", json_object_iter_key(it));
        n = got < 0 || n + (size_t)got >= size ? size - 1 : n + (size_t)got;
    }
    if (!buf[0]) snprintf(buf, size, "none");
    for (char *p = buf; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127) *p = '?';
}

static const char *type_name(const json_t *j)
{
    switch (json_typeof(j)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "a list";
    case JSON_STRING: return "a text";
    case JSON_NULL: return "null";
    case JSON_TRUE:
    case JSON_FALSE: return "true or false";
    default: return "a number";
    }
}

static int take_text(const json_t *root, const char *key, const char **text, size_t *len, rt_err *e)
{
    const json_t *j = json_object_get(root, key);
    if (!json_is_string(j))
        return rt_fail(e, RT_INVALID, "`%s` is %s and should be a text%s", key, j ? type_name(j) : "missing",
                       json_is_array(j) ? "; a conversation goes under `messages`" : "");
    *text = json_string_value(j);
    *len = json_string_length(j);
    return RT_OK;
}

/* ---- conversations ---- */

/* Adds {"role": role, "content": content}; content is borrowed. */
static int add_message(json_t *messages, const char *role, json_t *content, rt_err *e)
{
    json_t *m = json_object();
    if (!m || json_object_set_new(m, "role", json_string(role)) < 0 || json_object_set(m, "content", content) < 0 ||
        json_array_append(messages, m) < 0) {
        json_decref(m);
        return rt_no_memory(e, "a record");
    }
    json_decref(m);
    return RT_OK;
}

static const char *role_of(const char *from)
{
    static const char *const roles[][2] = { { "human", "user" },    { "user", "user" },
                                            { "gpt", "assistant" }, { "assistant", "assistant" },
                                            { "system", "system" }, { "tool", "tool" } };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(from, roles[i][0]) == 0) return roles[i][1];
    return NULL;
}

static int check_messages(const json_t *messages, rt_err *e)
{
    size_t n = json_array_size(messages);
    if (!json_is_array(messages))
        return rt_fail(e, RT_INVALID, "`messages` is %s and should be a list", type_name(messages));
    if (n == 0) return rt_fail(e, RT_INVALID, "`messages` is empty");
    for (size_t i = 0; i < n; i++) {
        const json_t *m = json_array_get(messages, i);
        if (!json_is_string(json_object_get(m, "role")))
            return rt_fail(e, RT_INVALID, "`messages[%zu]` has no `role`", i);
    }
    return RT_OK;
}

/* A `system` beside the turns, as some tools write it, before them. */
static int add_system(const json_t *root, json_t *messages, rt_err *e)
{
    json_t *system = json_object_get(root, "system");
    if (!json_is_string(system) || json_string_length(system) == 0) return RT_OK;
    return add_message(messages, "system", system, e);
}

static int from_sharegpt(const json_t *root, const json_t *turns, json_t *messages, rt_err *e)
{
    int rc = RT_OK;
    if (!json_is_array(turns))
        return rt_fail(e, RT_INVALID, "`conversations` is %s and should be a list", type_name(turns));
    if (json_array_size(turns) == 0) return rt_fail(e, RT_INVALID, "`conversations` is empty");
    const char *first = json_string_value(json_object_get(json_array_get(turns, 0), "from"));
    if (!first || strcmp(first, "system") != 0) RT_TRY(add_system(root, messages, e));
    for (size_t i = 0; i < json_array_size(turns); i++) {
        json_t *turn = json_array_get(turns, i), *value = json_object_get(turn, "value");
        const char *from = json_string_value(json_object_get(turn, "from"));
        if (!from && json_is_string(json_object_get(turn, "role"))) {
            if (json_array_append(messages, turn) < 0) return rt_no_memory(e, "a record");
            continue;
        }
        if (!from || !value) return rt_fail(e, RT_INVALID, "`conversations[%zu]` lacks `from` or `value`", i);
        const char *role = role_of(from);
        if (!role)
            return rt_fail(e, RT_INVALID,
                           "`conversations[%zu]` is from '%.40s'; known are human, user, gpt, assistant, "
                           "system and tool",
                           i, from);
        RT_TRY(add_message(messages, role, value, e));
    }
out:
    return rc;
}

static int from_history(const json_t *history, json_t *messages, rt_err *e)
{
    int rc = RT_OK;
    for (size_t i = 0; i < json_array_size(history); i++) {
        const json_t *pair = json_array_get(history, i);
        json_t *asked = json_array_get(pair, 0), *said = json_array_get(pair, 1);
        if (!json_is_string(asked) || !json_is_string(said))
            return rt_fail(e, RT_INVALID, "`history[%zu]` is not a pair of texts", i);
        RT_TRY(add_message(messages, "user", asked, e));
        RT_TRY(add_message(messages, "assistant", said, e));
    }
out:
    return rc;
}

/* instruction, and input below it when there is one, is what the user says. */
static int from_instruction(const json_t *root, json_t *messages, rt_err *e)
{
    const char *ask, *more = "", *answer;
    size_t ask_len, more_len = 0, answer_len;
    json_t *user = NULL, *input = json_object_get(root, "input");
    rt_str both = { 0 };
    int rc;
    RT_TRY(take_text(root, "instruction", &ask, &ask_len, e));
    RT_TRY(take_text(root, "output", &answer, &answer_len, e));
    if (input && !json_is_null(input)) RT_TRY(take_text(root, "input", &more, &more_len, e));
    rt_str_append_n(&both, ask, ask_len);
    if (ask_len && more_len) rt_str_append_n(&both, "\n\n", 2);
    rt_str_append_n(&both, more, more_len);
    user = both.failed ? NULL : json_stringn(both.data ? both.data : "", both.len);
    if (!user) RT_TRY(rt_no_memory(e, "a record"));
    RT_TRY(add_system(root, messages, e));
    RT_TRY(from_history(json_object_get(root, "history"), messages, e));
    RT_TRY(add_message(messages, "user", user, e));
    RT_TRY(add_message(messages, "assistant", json_object_get(root, "output"), e));
out:
    json_decref(user);
    rt_str_free(&both);
    return rc;
}

/* Tools may come as a list or, as some sets store them, as its JSON text. */
static int take_tools(rt_record *r, rt_err *e)
{
    json_t *tools = json_object_get(r->root, "tools");
    if (!tools || json_is_null(tools)) return RT_OK;
    if (json_is_string(tools)) {
        if (json_string_length(tools) == 0) return RT_OK;
        r->tools = rt_json_load(json_string_value(tools), json_string_length(tools), JSON_ALLOW_NUL, NULL);
        if (!r->tools && rt_json_out_of_memory()) return rt_no_memory(e, "a record");
    } else {
        r->tools = json_incref(tools);
    }
    if (!json_is_array(r->tools)) return rt_fail(e, RT_INVALID, "`tools` is not a list");
    if (json_array_size(r->tools) == 0) {
        json_decref(r->tools);
        r->tools = NULL;
    }
    return RT_OK;
}

static int take_chat(rt_record *r, rt_err *e)
{
    json_t *messages = json_object_get(r->root, "messages"), *turns = json_object_get(r->root, "conversations");
    int rc = take_tools(r, e);
    if (rc < 0) return rc;
    r->kind = RT_RECORD_CHAT;
    if (messages) {
        r->messages = json_incref(messages);
    } else {
        r->messages = json_array();
        if (!r->messages) return rt_no_memory(e, "a record");
        rc = turns ? from_sharegpt(r->root, turns, r->messages, e) : from_instruction(r->root, r->messages, e);
        if (rc < 0) return rc;
    }
    return check_messages(r->messages, e);
}

/* ---- kinds ---- */

static int take_shape(rt_record *r, rt_err *e)
{
    const json_t *j = r->root;
    int rc = RT_OK;
    if (json_object_get(j, "messages") || json_object_get(j, "conversations")) return take_chat(r, e);
    if (json_object_get(j, "prompt") && json_object_get(j, "completion")) {
        r->kind = RT_RECORD_COMPLETION;
        RT_TRY(take_text(j, "prompt", &r->prompt, &r->prompt_len, e));
        RT_TRY(take_text(j, "completion", &r->completion, &r->completion_len, e));
        return RT_OK;
    }
    if (json_object_get(j, "instruction") && json_object_get(j, "output")) return take_chat(r, e);
    if (json_object_get(j, "text")) {
        r->kind = RT_RECORD_TEXT;
        return take_text(j, "text", &r->text, &r->text_len, e);
    }
    char keys[200];
    list_keys(j, keys, sizeof keys);
    return rt_fail(e, RT_INVALID,
                   "a record with the keys %s is of no known kind; known are `text`; `prompt` and "
                   "`completion`; `messages`; `conversations`; `instruction`, `input` and `output`",
                   keys);
out:
    return rc;
}

int rt_record_parse(rt_record *out, const char *json, size_t len, rt_err *e)
{
    json_error_t error;
    *out = (rt_record){ 0 };
    out->root = rt_json_load(json, len, JSON_ALLOW_NUL, &error);
    if (!out->root) {
        if (rt_json_out_of_memory()) return rt_no_memory(e, "a record");
        return rt_fail(e, RT_FORMAT, "broken JSON at column %d: %s", error.column, error.text);
    }
    int rc = json_is_object(out->root)
                 ? take_shape(out, e)
                 : rt_fail(e, RT_INVALID, "%s where a record (a JSON object) should be", type_name(out->root));
    if (rc < 0) rt_record_free(out);
    return rc;
}

void rt_record_free(rt_record *r)
{
    json_decref(r->messages);
    json_decref(r->tools);
    json_decref(r->root);
    *r = (rt_record){ 0 };
}
