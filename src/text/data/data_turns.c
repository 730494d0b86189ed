/* data_turns.c - the turns of a conversation: which of them are trained.
 *
 * Owns: the keys by which OpenAI (`weight`) and axolotl (`train`, `training`) leave a turn of the assistant untrained. */
#include "text/data/data_internal.h"

#include <string.h>

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
