/* data_columns.c - which columns of the data are what: "prompt=question,completion=answer".
 *
 * Owns: the keys that make a record, the shapes they make, columns of other names in their place. What is in them is
 * for data_record.c, who speaks in a turn for data_turns.c. */
#include "text/data/data_internal.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

const char *const rt_record_keys[] = { "messages",    "conversations", "tools",  "prompt",  "completion",
                                       "instruction", "input",         "output", "history", "system",
                                       "text",        "question",      "answer" };
const uint32_t rt_record_key_count = sizeof rt_record_keys / sizeof *rt_record_keys;
_Static_assert(sizeof rt_record_keys / sizeof *rt_record_keys <= RT_COLUMNS_MOST, "every key has a place");

/* In the order in which they are looked for: turns win over a text that was made of them. */
static const struct {
    rt_record_shape shape;
    const char *first, *second; /* second null: it is enough */
} shapes[] = { { RT_SHAPE_MESSAGES, "messages", NULL },
               { RT_SHAPE_CONVERSATIONS, "conversations", NULL },
               { RT_SHAPE_COMPLETION, "prompt", "completion" },
               { RT_SHAPE_INSTRUCTION, "instruction", "output" },
               { RT_SHAPE_TEXT, "text", NULL },
               { RT_SHAPE_QUESTION, "question", "answer" } };

rt_record_shape rt_record_shape_of(bool (*has)(const void *ctx, const char *key), const void *ctx)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        if (has(ctx, shapes[i].first) && (!shapes[i].second || has(ctx, shapes[i].second))) return shapes[i].shape;
    return RT_SHAPE_NONE;
}

static bool is_named(const void *ctx, const char *key)
{
    const rt_columns *c = ctx;
    for (uint32_t i = 0; i < c->count; i++)
        if (strcmp(c->key[i], key) == 0) return true;
    return false;
}

static int unknown_key(const char *key, rt_err *e)
{
    char known[200] = "";
    for (uint32_t i = 0; i < rt_record_key_count; i++) {
        size_t n = strlen(known);
        snprintf(known + n, sizeof known - n, "%s%s", i ? ", " : "", rt_record_keys[i]);
    }
    return rt_fail(e, RT_USAGE, "--columns knows no '%.40s'; what a column can be is %s, and of turns role and content",
                   key, known);
}

/* One KEY=COLUMN; pair is cut apart. */
static int add_column(rt_columns *c, char *pair, const char *text, rt_err *e)
{
    char *eq = strchr(pair, '=');
    uint32_t k = 0;
    if (!eq || eq == pair || !eq[1])
        return rt_fail(e, RT_USAGE,
                       "--columns takes KEY=COLUMN pairs, such as prompt=question,completion=answer, not '%s'", text);
    *eq = '\0';
    const char **of_turns = strcmp(pair, "role") == 0 ? &c->role : strcmp(pair, "content") == 0 ? &c->content : NULL;
    if (of_turns && *of_turns) return rt_fail(e, RT_USAGE, "--columns names %s twice", pair);
    if (of_turns) return *of_turns = eq + 1, RT_OK;
    while (k < rt_record_key_count && strcmp(rt_record_keys[k], pair) != 0) k++;
    if (k == rt_record_key_count) return unknown_key(pair, e);
    if (is_named(c, pair)) return rt_fail(e, RT_USAGE, "--columns names %s twice", pair);
    c->key[c->count] = rt_record_keys[k];
    c->name[c->count++] = eq + 1;
    return RT_OK;
}

int rt_columns_parse(rt_columns *out, rt_arena *a, const char *text, rt_err *e)
{
    int rc = RT_OK;
    char *next = rt_arena_strdup(a, text);
    *out = (rt_columns){ 0 };
    if (!next) return rt_no_memory(e, "the names of columns");
    while (next) {
        char *pair = next;
        next = strchr(pair, ',');
        if (next) *next++ = '\0';
        RT_TRY(add_column(out, pair, text, e));
    }
    if (rt_record_shape_of(is_named, out) == RT_SHAPE_NONE)
        RT_TRY(rt_fail(e, RT_USAGE,
                       "--columns %s names no whole record; that is text, messages or conversations, or prompt and "
                       "completion, instruction and output, question and answer",
                       text));
    if ((out->role || out->content) && !is_named(out, "messages") && !is_named(out, "conversations"))
        RT_TRY(rt_fail(e, RT_USAGE,
                       "--columns %s names the role or content of turns, and not what holds the turns; add "
                       "messages=COLUMN",
                       text));
out:
    return rc;
}

/* ---- turns ---- */

/* name of a turn under key. */
static int rename_one(json_t *turn, const char *key, const char *name, rt_err *e)
{
    json_t *value = json_object_get(turn, name);
    if (strcmp(key, name) == 0) return RT_OK;
    if (json_object_set(turn, key, value) < 0 || json_object_del(turn, name) < 0) return rt_no_memory(e, "a record");
    return RT_OK;
}

static int rename_turn(const rt_columns *c, json_t *turn, const char *where, size_t i, rt_err *e)
{
    int rc = RT_OK;
    const char *names[] = { c->role, c->content };
    for (int k = 0; k < 2; k++)
        if (names[k] && !json_object_get(turn, names[k]))
            return rt_fail(e, RT_INVALID, "`%s[%zu]` has no '%.40s', which --columns names as its %s", where, i,
                           names[k], k ? "content" : "role");
    if (c->role) {
        const char *said = json_string_value(json_object_get(turn, c->role)), *role = said ? rt_role_of(said) : NULL;
        if (!role)
            return rt_fail(e, RT_INVALID, "`%s[%zu]` is from '%.40s'; " RT_ROLES_KNOWN, where, i,
                           said ? said : "no text");
        RT_TRY(rename_one(turn, "role", c->role, e));
        if (json_object_set_new(turn, "role", json_string(role)) < 0) RT_TRY(rt_no_memory(e, "a record"));
    }
    if (c->content) RT_TRY(rename_one(turn, "content", c->content, e));
out:
    return rc;
}

int rt_columns_rename_turns(const rt_columns *c, json_t *taken, rt_err *e)
{
    static const char *const keys[] = { "messages", "conversations" };
    int rc = RT_OK;
    if (!c->role && !c->content) return RT_OK;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++) {
        json_t *turns = json_object_get(taken, keys[k]);
        for (size_t i = 0; i < json_array_size(turns); i++)
            RT_TRY(rename_turn(c, json_array_get(turns, i), keys[k], i, e));
    }
out:
    return rc;
}

json_t *rt_columns_take(const rt_columns *c, const json_t *record)
{
    json_t *taken = json_object();
    for (uint32_t i = 0; taken && i < c->count; i++) {
        json_t *value = json_object_get(record, c->name[i]);
        if (value && json_object_set(taken, c->key[i], value) < 0) {
            json_decref(taken);
            return NULL;
        }
    }
    return taken;
}
