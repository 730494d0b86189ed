/* data_record.c - a record: plain text, prompt and completion, or a conversation.
 *
 * Owns: what is under the keys, and conversations of every spelling as the `messages` that templates know. Which keys
 * make which shape is data_columns.c, what the tokens are data_encode.c. */
#include "text/data/data_internal.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

const char *rt_record_kind_name(rt_record_kind k)
{
    return k == RT_RECORD_TEXT ? "text" : k == RT_RECORD_COMPLETION ? "completion" : "chat";
}

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
                       json_is_array(j) ? "; messages go under `messages`, or under both `prompt` and `completion`"
                                        : "");
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

/* A content in parts, as OpenAI's API takes it, becomes their text: templates of texts know no parts. */
static int join_parts(json_t *message, size_t number, rt_err *e)
{
    int rc = RT_OK;
    rt_str all = { 0 };
    const json_t *parts = json_object_get(message, "content");
    if (!json_is_array(parts)) return RT_OK;
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const json_t *part = json_array_get(parts, i), *text = json_object_get(part, "text");
        const char *type = json_string_value(json_object_get(part, "type"));
        if (!type || strcmp(type, "text") != 0 || !json_is_string(text))
            RT_TRY(
                rt_fail(e, RT_INVALID,
                        "`messages[%zu].content[%zu]` is of type '%.40s', and only {\"type\": \"text\", \"text\": ...} "
                        "is read",
                        number, i, type ? type : "none"));
        rt_str_append_n(&all, json_string_value(text), json_string_length(text));
    }
    json_t *joined = all.failed ? NULL : json_stringn(all.data ? all.data : "", all.len);
    if (json_object_set_new(message, "content", joined) < 0) RT_TRY(rt_no_memory(e, "a record"));
out:
    rt_str_free(&all);
    return rc;
}

static int check_messages(json_t *messages, rt_err *e)
{
    size_t n = json_array_size(messages);
    if (!json_is_array(messages))
        return rt_fail(e, RT_INVALID, "`messages` is %s and should be a list", type_name(messages));
    if (n == 0) return rt_fail(e, RT_INVALID, "`messages` is empty");
    for (size_t i = 0; i < n; i++) {
        json_t *m = json_array_get(messages, i);
        if (!json_is_string(json_object_get(m, "role")))
            return rt_fail(e, RT_INVALID, "`messages[%zu]` has no `role`", i);
        int rc = rt_turn_set_role(m, e);
        if (rc >= 0) rc = join_parts(m, i, e);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

/* The text of a system message that a list of turns begins with; null: it begins otherwise. */
static const json_t *own_system(const json_t *turns)
{
    const json_t *first = json_array_get(turns, 0), *content = json_object_get(first, "content");
    const char *who = json_string_value(json_object_get(first, "role"));
    if (!who) who = json_string_value(json_object_get(first, "from"));
    const char *role = who ? rt_role_of(who) : NULL;
    if (!role || strcmp(role, "system") != 0) return NULL;
    return content ? content : json_object_get(first, "value");
}

static bool has_system(const json_t *root)
{
    const json_t *system = json_object_get(root, "system");
    return system && !json_is_null(system) && !(json_is_string(system) && json_string_length(system) == 0);
}

/* A `system` beside the turns, as some tools write it, before them. turns: those of the record; null: none. */
static int add_system(const json_t *root, const json_t *turns, json_t *messages, rt_err *e)
{
    json_t *system = json_object_get(root, "system");
    const json_t *own = own_system(turns);
    if (!has_system(root)) return RT_OK;
    if (!json_is_string(system))
        return rt_fail(e, RT_INVALID, "`system` is %s and should be a text", type_name(system));
    if (own && json_equal(own, system)) return RT_OK;
    if (own)
        return rt_fail(e, RT_INVALID,
                       "`system` stands beside turns that begin with another system message; which of the two is meant "
                       "cannot be told: remove one");
    return add_message(messages, "system", system, e);
}

static int from_sharegpt(const json_t *root, const char *key, json_t *messages, rt_err *e)
{
    int rc = RT_OK;
    const json_t *turns = json_object_get(root, key);
    if (!json_is_array(turns)) return rt_fail(e, RT_INVALID, "`%s` is %s and should be a list", key, type_name(turns));
    if (json_array_size(turns) == 0) return rt_fail(e, RT_INVALID, "`%s` is empty", key);
    RT_TRY(add_system(root, turns, messages, e));
    for (size_t i = 0; i < json_array_size(turns); i++) {
        json_t *turn = json_array_get(turns, i), *value = json_object_get(turn, "value");
        const char *from = json_string_value(json_object_get(turn, "from"));
        if (!from && json_is_string(json_object_get(turn, "role"))) {
            if (json_array_append(messages, turn) < 0) return rt_no_memory(e, "a record");
            continue;
        }
        if (!from || !value) return rt_fail(e, RT_INVALID, "`%s[%zu]` lacks `from` or `value`", key, i);
        const char *role = rt_role_of(from);
        if (!role) return rt_fail(e, RT_INVALID, "`%s[%zu]` is from '%.40s'; " RT_ROLES_KNOWN, key, i, from);
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
    RT_TRY(add_system(root, NULL, messages, e));
    RT_TRY(from_history(json_object_get(root, "history"), messages, e));
    RT_TRY(add_message(messages, "user", user, e));
    RT_TRY(add_message(messages, "assistant", json_object_get(root, "output"), e));
out:
    json_decref(user);
    rt_str_free(&both);
    return rc;
}

/* A question and its answer, or a side of prompt and completion that is a text and not messages. */
static int add_text(const json_t *root, const char *key, const char *role, json_t *messages, rt_err *e)
{
    const char *text;
    size_t len;
    int rc = take_text(root, key, &text, &len, e);
    return rc < 0 ? rc : add_message(messages, role, json_object_get(root, key), e);
}

static int from_question(const json_t *root, json_t *messages, rt_err *e)
{
    int rc;
    RT_TRY(add_system(root, NULL, messages, e));
    RT_TRY(add_text(root, "question", "user", messages, e));
    RT_TRY(add_text(root, "answer", "assistant", messages, e));
out:
    return rc;
}

/* Prompt and completion as messages; what the assistant says in the prompt is not trained. */
static int from_two_lists(rt_record *r, rt_err *e)
{
    static const char *const keys[] = { "prompt", "completion" };
    int rc = add_system(r->root, json_object_get(r->root, "prompt"), r->messages, e);
    if (rc < 0) return rc;
    for (int k = 0; k < 2; k++) {
        json_t *side = json_object_get(r->root, keys[k]);
        if (!json_is_array(side)) {
            rc = add_text(r->root, keys[k], k ? "assistant" : "user", r->messages, e);
            if (rc < 0) return rc;
        }
        for (size_t i = 0; i < json_array_size(side); i++) {
            json_t *m = json_array_get(side, i);
            const char *role = json_string_value(json_object_get(m, "role"));
            if (!role) return rt_fail(e, RT_INVALID, "`%s[%zu]` has no `role`", keys[k], i);
            if (json_array_append(r->messages, m) < 0) return rt_no_memory(e, "a record");
        }
        rc = rt_turns_trained(r, side, keys[k], k == 0, e);
        if (rc < 0) return rc;
    }
    return RT_OK;
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

/* `messages` as they are, behind a `system` that stands beside them. */
static int from_messages(const json_t *root, json_t *messages, rt_err *e)
{
    json_t *turns = json_object_get(root, "messages");
    int rc = add_system(root, turns, messages, e);
    if (rc >= 0 && json_array_extend(messages, turns) < 0) rc = rt_no_memory(e, "a record");
    return rc;
}

static int take_chat(rt_record *r, rt_record_shape shape, rt_err *e)
{
    json_t *messages = json_object_get(r->root, "messages");
    int rc = take_tools(r, e);
    if (rc < 0) return rc;
    r->kind = RT_RECORD_CHAT;
    bool known = shape == RT_SHAPE_MESSAGES && !json_object_get(json_array_get(messages, 0), "from");
    bool as_it_is = known && (!json_is_array(messages) || !has_system(r->root));
    r->messages = as_it_is ? json_incref(messages) : json_array();
    if (!r->messages) return rt_no_memory(e, "a record");
    switch (shape) {
    case RT_SHAPE_MESSAGES:
        if (!as_it_is && known) rc = from_messages(r->root, r->messages, e);
        if (!known) rc = from_sharegpt(r->root, "messages", r->messages, e);
        break;
    case RT_SHAPE_CONVERSATIONS: rc = from_sharegpt(r->root, "conversations", r->messages, e); break;
    case RT_SHAPE_COMPLETION: rc = from_two_lists(r, e); break;
    case RT_SHAPE_QUESTION: rc = from_question(r->root, r->messages, e); break;
    default: rc = from_instruction(r->root, r->messages, e); break;
    }
    if (rc >= 0) rc = check_messages(r->messages, e);
    if (rc >= 0 && (shape == RT_SHAPE_MESSAGES || shape == RT_SHAPE_CONVERSATIONS)) {
        const char *key = shape == RT_SHAPE_MESSAGES ? "messages" : "conversations";
        rc = rt_turns_trained(r, json_object_get(r->root, key), key, false, e);
    }
    return rc;
}

/* ---- kinds ---- */

static bool has_key(const void *record, const char *key)
{
    const json_t *j = json_object_get(record, key);
    return j && !json_is_null(j); /* a table has every column in every row */
}

static bool has_null(const void *record, const char *key) { return json_object_get(record, key) != NULL; }

/* chat: turns can be made of its columns. */
static int no_shape(const json_t *record, const rt_columns *columns, bool chat, rt_err *e)
{
    char keys[160];
    list_keys(record, keys, sizeof keys);
    for (uint32_t i = 0; columns && i < columns->count; i++)
        if (!has_key(record, columns->name[i]))
            return rt_fail(e, RT_INVALID, "a record has no '%.80s', which --columns names; what was read of it is %s",
                           columns->name[i], keys);
    return rt_fail(e, RT_INVALID,
                   "a record with the columns %s is of no known kind; known are `text`; `prompt` and `completion`; "
                   "`messages`; `conversations`; `instruction` and `output`; `question` and `answer`; --columns "
                   "%s names others",
                   keys, chat ? "question=COLUMN,answer=COLUMN" : "prompt=COLUMN,completion=COLUMN");
}

/* Texts have no place for a system message that --columns names. */
static int refuse_system(const rt_record *r, const rt_columns *columns, rt_err *e)
{
    if (!columns || !has_system(r->root)) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "--columns names a system, and %s has no place for it; what takes one is messages, conversations, "
                   "instruction and output, question and answer, and prompt and completion as lists of messages",
                   r->kind == RT_RECORD_TEXT ? "a text" : "a prompt and completion of texts");
}

static int take_shape(rt_record *r, rt_record_shape shape, const rt_columns *columns, rt_err *e)
{
    const json_t *j = r->root, *prompt = json_object_get(j, "prompt"), *completion = json_object_get(j, "completion");
    int rc;
    if (shape == RT_SHAPE_TEXT) {
        r->kind = RT_RECORD_TEXT;
        RT_TRY(refuse_system(r, columns, e));
        return take_text(j, "text", &r->text, &r->text_len, e);
    }
    if (shape != RT_SHAPE_COMPLETION || json_is_array(prompt) || json_is_array(completion))
        return take_chat(r, shape, e);
    r->kind = RT_RECORD_COMPLETION;
    RT_TRY(refuse_system(r, columns, e));
    RT_TRY(take_text(j, "prompt", &r->prompt, &r->prompt_len, e));
    RT_TRY(take_text(j, "completion", &r->completion, &r->completion_len, e));
out:
    return rc;
}

int rt_record_parse(rt_record *out, const char *json, size_t len, const rt_columns *columns, bool chat, rt_err *e)
{
    int rc = RT_OK;
    json_error_t error;
    *out = (rt_record){ 0 };
    json_t *all = rt_json_load(json, len, JSON_ALLOW_NUL, &error);
    if (!all) {
        if (rt_json_out_of_memory()) return rt_no_memory(e, "a record");
        if (json_error_code(&error) == json_error_invalid_utf8)
            return rt_fail(e, RT_FORMAT, "the record is not UTF-8 (%s); " RT_TO_UTF8, error.text);
        return rt_fail(e, RT_FORMAT, "broken JSON at column %d: %s", error.column, error.text);
    }
    if (!json_is_object(all))
        RT_TRY(rt_fail(e, RT_INVALID, "%s where a record (a JSON object) should be", type_name(all)));
    out->root = columns ? rt_columns_take(columns, all) : json_incref(all);
    if (!out->root) RT_TRY(rt_no_memory(e, "a record"));
    if (columns) RT_TRY(rt_columns_rename_turns(columns, out->root, e));
    rt_record_shape shape = rt_record_shape_of(has_key, out->root);
    if (shape == RT_SHAPE_NONE) shape = rt_record_shape_of(has_null, out->root); /* what is null is then said of it */
    if (shape == RT_SHAPE_NONE) RT_TRY(no_shape(all, columns, chat, e));
    RT_TRY(take_shape(out, shape, columns, e));
out:
    json_decref(all);
    if (rc < 0) rt_record_free(out);
    return rc;
}

void rt_record_free(rt_record *r)
{
    rt_free(r->trained);
    json_decref(r->messages);
    json_decref(r->tools);
    json_decref(r->root);
    *r = (rt_record){ 0 };
}
