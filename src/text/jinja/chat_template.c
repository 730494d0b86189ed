/* chat_template.c - the variables of a chat, and assistant masks by difference.
 *
 * Owns: what apply_chat_template passes to a template. Leaves the language to jinja.c. */
#include "text/jinja/chat_template.h"

#include "base/mem.h"

#include <string.h>

struct rt_chat_template {
    rt_jinja *jinja;
    rt_str source;
};

int rt_chat_template_new(rt_chat_template **out, const char *text, size_t bytes, rt_err *e)
{
    *out = NULL;
    rt_chat_template *t = rt_alloc_zero(sizeof *t, 16);
    if (!t) return rt_fail(e, RT_NOMEM, "out of memory for a chat template");
    int rc = rt_jinja_compile(&t->jinja, text, bytes, e);
    rt_str_append_n(&t->source, text, bytes);
    if (rc >= 0 && t->source.failed) rc = rt_fail(e, RT_NOMEM, "out of memory for a chat template");
    if (rc < 0) {
        rt_chat_template_free(t);
        return rc;
    }
    *out = t;
    return RT_OK;
}

void rt_chat_template_free(rt_chat_template *t)
{
    if (!t) return;
    rt_jinja_free(t->jinja);
    rt_str_free(&t->source);
    rt_free(t);
}

bool rt_chat_template_has_generation(const rt_chat_template *t) { return rt_jinja_has_generation(t->jinja); }

bool rt_chat_template_mentions(const rt_chat_template *t, const char *word)
{
    size_t n = strlen(word), len = t->source.len;
    const char *s = t->source.data;
    for (size_t i = 0; n && i + n + 2 <= len; i++)
        if ((s[i] == '\'' || s[i] == '"') && s[i + n + 1] == s[i] && memcmp(s + i + 1, word, n) == 0) return true;
    return false;
}

/* ---- variables ---- */

enum { OWN_VARS = 4 };

static int check_object(const json_t *j, const char *what, rt_err *e)
{
    static const char *const own[OWN_VARS] = { "messages", "tools", "documents", "add_generation_prompt" };
    if (!j) return RT_OK;
    if (!json_is_object(j)) return rt_fail(e, RT_INVALID, "%s of a chat template must be a JSON object", what);
    for (int i = 0; i < OWN_VARS; i++)
        if (json_object_get(j, own[i]))
            return rt_fail(e, RT_INVALID, "%s of a chat template cannot set '%s', which is the conversation's own",
                           what, own[i]);
    return RT_OK;
}

static uint32_t add_object(rt_jinja_var *vars, uint32_t n, const json_t *j)
{
    json_t *object = (json_t *)(uintptr_t)j; /* jansson's iterators take no const, and change nothing */
    for (void *it = object ? json_object_iter(object) : NULL; it; it = json_object_iter_next(object, it))
        vars[n++] = (rt_jinja_var){ .name = json_object_iter_key(it), .value = json_object_iter_value(it) };
    return n;
}

/* Renders messages[:head]. */
static int render_head(const rt_chat_template *t, const json_t *messages, size_t head, bool prompt,
                       const rt_chat_options *o, rt_jinja_result *result, rt_err *e)
{
    int rc;
    size_t n = OWN_VARS + json_object_size(o->special) + json_object_size(o->extra);
    rt_jinja_var *vars = NULL;
    RT_TRY(check_object(o->special, "the special tokens", e));
    RT_TRY(check_object(o->extra, "the extra variables", e));
    if (n > UINT32_MAX / 2 || !(vars = rt_alloc_zero(n * sizeof *vars, 16)))
        RT_TRY(rt_fail(e, RT_NOMEM, "out of memory for the variables of a chat template"));
    /* json_null() and its like are shared and not counted, so nothing has to be released. */
    vars[0] = (rt_jinja_var){ .name = "messages", .value = messages, .cut = true, .head = head };
    vars[1] = (rt_jinja_var){ .name = "tools", .value = o->tools ? o->tools : json_null() };
    vars[2] = (rt_jinja_var){ .name = "documents", .value = o->documents ? o->documents : json_null() };
    vars[3] = (rt_jinja_var){ .name = "add_generation_prompt", .value = prompt ? json_true() : json_false() };
    uint32_t used = add_object(vars, OWN_VARS, o->special);
    used = add_object(vars, used, o->extra);
    rt_jinja_render_args args = {
        .vars = vars, .n_vars = used, .now = o->now, .utc_offset = o->utc_offset, .limits = o->limits
    };
    rc = rt_jinja_render(t->jinja, &args, result, e);
    if (rc < 0) rt_err_context(e, "chat template");
out:
    rt_free(vars);
    return rc;
}

static int check_messages(const json_t *messages, rt_err *e)
{
    if (!json_is_array(messages)) return rt_fail(e, RT_INVALID, "the messages of a chat must be a JSON array");
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (!json_is_object(json_array_get(messages, i)))
            return rt_fail(e, RT_INVALID, "message %zu of a chat is not a JSON object", i);
    return RT_OK;
}

int rt_chat_render(const rt_chat_template *t, const json_t *messages, const rt_chat_options *o, rt_jinja_result *result,
                   rt_err *e)
{
    int rc = check_messages(messages, e);
    if (rc < 0) return rc;
    return render_head(t, messages, json_array_size(messages), o->add_generation_prompt, o, result, e);
}

/* ---- masks ---- */

static bool begins_with(const rt_str *whole, const rt_str *part)
{
    return part->len <= whole->len && memcmp(whole->data, part->data, part->len) == 0;
}

static bool is_assistant(const json_t *message)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    return role && strcmp(role, "assistant") == 0;
}

/* The end of a turn text[begin, end) without the white space behind the mark that closes it. */
static size_t turn_end(const char *text, size_t begin, size_t end, const char *mark)
{
    size_t n = mark ? strlen(mark) : 0, stop = end;
    if (n == 0) return end;
    while (stop > begin && strchr(" \t\r\n", text[stop - 1]) && text[stop - 1]) stop--;
    return stop - begin >= n && memcmp(text + stop - n, mark, n) == 0 ? stop : end;
}

static int add_range(rt_jinja_result *result, size_t begin, size_t end, rt_err *e)
{
    if (begin == end) return RT_OK;
    if (!rt_grow((void **)&result->ranges, &result->cap_ranges, result->n_ranges + 1, sizeof *result->ranges))
        return rt_fail(e, RT_NOMEM, "out of memory for an assistant mask");
    result->ranges[result->n_ranges++] = (rt_text_range){ begin, end };
    return RT_OK;
}

static int refuse(rt_err *e, size_t i, const char *why)
{
    return rt_fail(e, RT_INVALID,
                   "no assistant mask for message %zu: %s; give a template with {%% generation %%} blocks with "
                   "--chat-template",
                   i, why);
}

/* The mask of message i, where the whole text is in result already. */
static int mask_turn(const rt_chat_template *t, const json_t *messages, size_t i, const rt_chat_options *o,
                     rt_jinja_result *before, rt_jinja_result *after, rt_jinja_result *result, rt_err *e)
{
    int rc = render_head(t, messages, i, true, o, before, e);
    if (rc == RT_OK) rc = render_head(t, messages, i + 1, false, o, after, e);
    if (rc < 0) {
        rt_err_context(e, "assistant mask of message %zu", i);
        return rc;
    }
    if (!begins_with(&after->text, &before->text))
        return refuse(e, i, "the conversation up to it is not rendered the same once it is there");
    if (!begins_with(&result->text, &after->text))
        return refuse(e, i, "it is rendered otherwise once messages follow (the template drops reasoning?)");
    size_t begin = before->text.len, end = after->text.len;
    return add_range(result, begin, turn_end(result->text.data, begin, end, o->end_of_turn), e);
}

int rt_chat_mask(const rt_chat_template *t, const json_t *messages, const rt_chat_options *o, rt_jinja_result *result,
                 rt_err *e)
{
    int rc;
    rt_jinja_result before = { 0 }, after = { 0 };
    RT_TRY(check_messages(messages, e));
    RT_TRY(render_head(t, messages, json_array_size(messages), false, o, result, e));
    if (rt_jinja_has_generation(t->jinja)) {
        if (result->ranges_lost)
            RT_TRY(
                rt_fail(e, RT_INVALID,
                        "no assistant mask: the chat template has a {%% generation %%} block inside a macro, a block "
                        "set or a filter block; give one without that with --chat-template"));
        goto out;
    }
    for (size_t i = 0; i < json_array_size(messages); i++)
        if (is_assistant(json_array_get(messages, i))) RT_TRY(mask_turn(t, messages, i, o, &before, &after, result, e));
out:
    if (rc < 0) result->n_ranges = 0;
    rt_jinja_result_free(&before);
    rt_jinja_result_free(&after);
    return rc;
}
