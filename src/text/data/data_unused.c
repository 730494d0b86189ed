/* data_unused.c - the columns of a record that no one uses, so that a passage beside a question is not lost unseen.
 *
 * Owns: which keys each shape takes, and the sentence. Which shape a record has is data_columns.c. */
#include "text/data/data_internal.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

enum { MOST_NAMED = 6 };

static bool is_there(const void *record, const char *key)
{
    const json_t *j = json_object_get(record, key);
    return j && !json_is_null(j);
}

/* Whether a shape takes what is under a key. texts: of prompt and completion, neither is a list. */
static bool shape_takes(rt_record_shape shape, bool texts, const char *key)
{
    static const char *const keys[][5] = { [RT_SHAPE_MESSAGES] = { "messages" },
                                           [RT_SHAPE_CONVERSATIONS] = { "conversations" },
                                           [RT_SHAPE_COMPLETION] = { "prompt", "completion" },
                                           [RT_SHAPE_INSTRUCTION] = { "instruction", "input", "output", "history" },
                                           [RT_SHAPE_TEXT] = { "text" },
                                           [RT_SHAPE_QUESTION] = { "question", "answer" } };
    for (const char *const *k = keys[shape]; *k; k++)
        if (strcmp(*k, key) == 0) return true;
    bool chat = shape != RT_SHAPE_TEXT && !(shape == RT_SHAPE_COMPLETION && texts);
    return chat && (strcmp(key, "system") == 0 || strcmp(key, "tools") == 0);
}

/* Whether a column is taken under one of the keys. */
static bool is_used(const rt_columns *columns, rt_record_shape shape, bool texts, const char *column)
{
    if (!columns) return shape_takes(shape, texts, column);
    for (uint32_t i = 0; i < columns->count; i++)
        if (strcmp(columns->name[i], column) == 0 && shape_takes(shape, texts, columns->key[i])) return true;
    return false;
}

int rt_record_unused(const char *json, size_t len, const rt_columns *columns, rt_str *out, rt_err *e)
{
    int rc = RT_OK;
    json_t *taken = NULL, *all = rt_json_load(json, len, JSON_ALLOW_NUL, NULL);
    if (!all) return rt_no_memory(e, "a record"); /* it was read before */
    taken = columns ? rt_columns_take(columns, all) : json_incref(all);
    if (!taken) RT_TRY(rt_no_memory(e, "a record"));
    rt_record_shape shape = rt_record_shape_of(is_there, taken);
    const json_t *prompt = json_object_get(taken, "prompt"), *completion = json_object_get(taken, "completion");
    bool texts = !json_is_array(prompt) && !json_is_array(completion);
    for (void *it = json_object_iter(all); it; it = json_object_iter_next(all, it)) {
        const char *key = json_object_iter_key(it);
        if (shape == RT_SHAPE_NONE || !is_there(all, key) || is_used(columns, shape, texts, key)) continue;
        rt_str_append(out, key);
        rt_str_append_n(out, "\n", 1);
    }
    if (out->failed) RT_TRY(rt_no_memory(e, "a record"));
out:
    json_decref(taken);
    json_decref(all);
    return rc;
}

void rt_unused_text(const char *names, char buf[RT_UNUSED_TEXT])
{
    size_t n = 0;
    uint32_t count = 0;
    buf[0] = '\0';
    for (const char *p = names; *p; count++) {
        const char *end = strchr(p, '\n');
        size_t len = end ? (size_t)(end - p) : strlen(p);
        if (count < MOST_NAMED)
            n += (size_t)snprintf(buf + n, RT_UNUSED_TEXT - n, "%s%.*s",
                                  count ? ", " : "columns not used: ", len < 36 ? (int)len : 36, p);
        p += len + (end != NULL);
    }
    if (count > MOST_NAMED) snprintf(buf + n, RT_UNUSED_TEXT - n, " and %u more", count - MOST_NAMED);
    for (char *p = buf; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127) *p = '?';
}
