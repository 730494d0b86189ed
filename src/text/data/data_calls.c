/* data_calls.c - calls of tools in a conversation, and whether its chat template prints them.
 *
 * Owns: what is said of a message that the template cannot render or whose calls it passes over. Whether something is
 * printed is found by rendering the conversation without it: the text is then another one. */
#include "text/data/data_internal.h"

#include <string.h>

static bool is_filled(const json_t *j)
{
    return json_is_array(j) ? json_array_size(j) > 0 : json_is_object(j) ? json_object_size(j) > 0 : false;
}

/* Whether the text is another one when messages or tools are these. A template that fails on them looks at them. */
static int differs(const rt_chat_template *t, const json_t *messages, const rt_chat_options *o, const rt_str *whole,
                   rt_jinja_result *spare, bool *is, rt_err *e)
{
    rt_err why = { 0 };
    int rc = rt_chat_render(t, messages, o, spare, &why);
    if (rc < 0 && rc != RT_INVALID) {
        *e = why;
        return rc;
    }
    *is = rc < 0 || spare->text.len != whole->len ||
          (whole->len && memcmp(spare->text.data, whole->data, whole->len) != 0);
    return RT_OK;
}

/* The messages without a key of message i; null when out of memory. */
static json_t *without(const json_t *messages, size_t i, const char *key)
{
    json_t *all = json_copy((json_t *)(uintptr_t)messages); /* jansson copies take no const, and change nothing */
    json_t *one = all ? json_copy(json_array_get(messages, i)) : NULL;
    if (one && json_object_del(one, key) == 0 && json_array_set(all, i, one) == 0) {
        json_decref(one);
        return all;
    }
    json_decref(one);
    json_decref(all);
    return NULL;
}

static int check_message(const rt_chat_template *t, const rt_record *rec, size_t i, const rt_chat_options *o,
                         const rt_str *whole, rt_jinja_result *spare, rt_err *e)
{
    static const char *const keys[] = { "tool_calls", "function_call" };
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        bool printed = false;
        if (!is_filled(json_object_get(json_array_get(rec->messages, i), keys[k]))) continue;
        json_t *few = without(rec->messages, i, keys[k]);
        if (!few) return rt_no_memory(e, "a record");
        int rc = differs(t, few, o, whole, spare, &printed, e);
        json_decref(few);
        if (rc < 0) return rc;
        if (!printed)
            return rt_fail(e, RT_INVALID,
                           "messages[%zu] has %s, and this chat template does not print them; --chat-template FILE "
                           "names one that does",
                           i, keys[k]);
    }
    return RT_OK;
}

int rt_calls_check(const rt_chat_template *t, const rt_record *rec, const rt_chat_options *o, const rt_str *whole,
                   rt_jinja_result *spare, rt_data_odd *odd, rt_err *e)
{
    int rc = RT_OK;
    bool printed = true;
    rt_chat_options bare = *o;
    for (size_t i = 0; i < json_array_size(rec->messages); i++) RT_TRY(check_message(t, rec, i, o, whole, spare, e));
    if (!rec->tools) return RT_OK;
    bare.tools = NULL;
    RT_TRY(differs(t, rec->messages, &bare, whole, spare, &printed, e));
    odd->tools_unprinted += !printed;
out:
    return rc;
}

int rt_calls_explain(const rt_record *rec, int rc, rt_err *e)
{
    for (size_t i = 0; rc == RT_INVALID && i < json_array_size(rec->messages); i++) {
        const json_t *m = json_array_get(rec->messages, i), *content = json_object_get(m, "content");
        const char *role = json_string_value(json_object_get(m, "role"));
        if (content && !json_is_null(content)) continue;
        rt_err was = *e;
        return rt_fail(e, RT_INVALID,
                       "messages[%zu], of role %.40s, has %s%s, and this chat template cannot render that (%.160s); "
                       "--chat-template FILE names one that can",
                       i, role ? role : "none", content ? "null as its content" : "no content",
                       json_object_get(m, "tool_calls") ? " and tool_calls" : "", was.text);
    }
    return rc;
}
