/* data_turns.c - the turns of a conversation: who speaks in them, and which of them are trained.
 *
 * Owns: the roles that templates know, the words that sets have for them, and the keys by which OpenAI (`weight`) and
 * axolotl (`train`, `training`) leave a turn of the assistant untrained. */
#include "text/data/data_internal.h"

#include <string.h>
#include <strings.h>

/* ---- who speaks ---- */

const char *rt_role_of(const char *from)
{
    static const char *const roles[][2] = {
        { "human", "user" },          { "user", "user" },         { "prompter", "user" },   { "gpt", "assistant" },
        { "assistant", "assistant" }, { "chatgpt", "assistant" }, { "model", "assistant" }, { "bot", "assistant" },
        { "system", "system" },       { "tool", "tool" },         { "function", "tool" },   { "observation", "tool" }
    };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcasecmp(from, roles[i][0]) == 0) return roles[i][1];
    return NULL;
}

/* Roles that templates know, as they are. */
static bool is_role(const char *role)
{
    static const char *const roles[] = { "system", "user", "assistant", "tool", "developer", "function" };
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strcmp(role, roles[i]) == 0) return true;
    return false;
}

int rt_turn_set_role(json_t *message, rt_err *e)
{
    const char *said = json_string_value(json_object_get(message, "role")), *role = rt_role_of(said);
    if (is_role(said) || !role) return RT_OK;
    if (strcmp(role, "tool") == 0) return RT_OK; /* templates differ in what they call it: GLM's know `observation` */
    return json_object_set_new(message, "role", json_string(role)) < 0 ? rt_no_memory(e, "a record") : RT_OK;
}

int rt_turns_check_roles(const json_t *messages, const rt_chat_template *t, rt_err *e)
{
    for (size_t i = 0; i < json_array_size(messages); i++) {
        const char *role = json_string_value(json_object_get(json_array_get(messages, i), "role"));
        if (!role || is_role(role) || rt_chat_template_mentions(t, role)) continue;
        return rt_fail(e, RT_INVALID,
                       "messages[%zu] is of role '%.40s', which this chat template does not know; known are system, "
                       "user, assistant, tool, developer and function, and human, prompter, gpt, chatgpt, model and "
                       "bot for them",
                       i, role);
    }
    return RT_OK;
}

/* ---- what is trained ---- */

static int bad_value(const char *key, size_t i, const char *name, const char *known, rt_err *e)
{
    return rt_fail(e, RT_INVALID, "`%s[%zu].%s` is neither %s, and nothing else is known of it", key, i, name, known);
}

/* A turn that says nothing is trained. */
static int is_trained(const json_t *turn, const char *key, size_t i, bool *trained, rt_err *e)
{
    static const char *const names[] = { "train", "training" };
    const json_t *weight = json_object_get(turn, "weight");
    *trained = true;
    if (weight && !json_is_null(weight)) {
        double w = json_is_number(weight) ? json_number_value(weight) : -1;
        if (w != 0 && w != 1) return bad_value(key, i, "weight", "0 (not trained) nor 1", e);
        *trained = w == 1;
    }
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const json_t *value = json_object_get(turn, names[k]);
        if (!value || json_is_null(value)) continue;
        if (!json_is_boolean(value)) return bad_value(key, i, names[k], "false (not trained) nor true", e);
        *trained = *trained && json_is_true(value);
    }
    return RT_OK;
}

static bool is_assistant(const json_t *turn)
{
    const char *who = json_string_value(json_object_get(turn, "role"));
    if (!who) who = json_string_value(json_object_get(turn, "from"));
    const char *role = who ? rt_role_of(who) : NULL;
    return role && strcmp(role, "assistant") == 0;
}

int rt_turns_trained(rt_record *r, const json_t *list, const char *key, bool asked, rt_err *e)
{
    int rc = RT_OK;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *turn = json_array_get(list, i);
        bool trained;
        RT_TRY(is_trained(turn, key, i, &trained, e));
        if (!is_assistant(turn)) continue;
        if (!rt_grow((void **)&r->trained, &r->turn_cap, r->turn_count + 1, sizeof *r->trained))
            return rt_no_memory(e, "a record");
        r->trained[r->turn_count++] = trained && !asked;
        r->some_untrained = r->some_untrained || !trained || asked;
    }
out:
    return rc;
}

uint32_t rt_turns_empty(const rt_record *r)
{
    uint32_t turn = 0, empty = 0;
    for (size_t i = 0; i < json_array_size(r->messages); i++) {
        const json_t *m = json_array_get(r->messages, i), *content = json_object_get(m, "content");
        if (!is_assistant(m)) continue;
        bool trained = turn >= r->turn_count || r->trained[turn];
        bool calls = json_array_size(json_object_get(m, "tool_calls")) > 0 ||
                     json_is_object(json_object_get(m, "function_call"));
        empty += trained && !calls && json_is_string(content) && json_string_length(content) == 0;
        turn++;
    }
    return empty;
}
