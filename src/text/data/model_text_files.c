/* model_text_files.c - tokenizer.json and its neighbours, read without opening a model.
 *
 * Owns: which files are looked for beside a tokenizer.json. A model that is opened whole reads its own (format room);
 * this is for tokenizers whose model is absent or of a family that is not supported. */
#include "text/data/model_text_files.h"

#include "base/json.h"

#include <string.h>

/* The largest tokenizer.json that is known has 35 MB. */
enum { MAX_TOKENIZER = 512 << 20, MAX_OTHER = 64 << 20 };

static int read_path(rt_span *out, const char *path, uint64_t max, rt_arena *a, rt_err *e)
{
    rt_str text = { 0 };
    int rc = rt_file_read(path, max, &text, e);
    if (rc == RT_OK) {
        *out = rt_span_copy(a, text.data, text.len);
        if (!out->data) rc = rt_no_memory(e, path);
    }
    rt_str_free(&text);
    return rc;
}

static int read_optional(rt_span *out, const char *folder, const char *name, rt_arena *a, rt_err *e)
{
    char *path = rt_path_join(a, folder, name);
    if (!path) return rt_fail(e, RT_NOMEM, "out of memory for %s", name);
    return rt_path_exists(path) ? read_path(out, path, MAX_OTHER, a, e) : RT_OK;
}

const json_t *rt_text_config_template(const json_t *config)
{
    const json_t *v = json_object_get(config, "chat_template");
    if (json_is_string(v)) return v;
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *item = json_array_get(v, i);
        const char *name = json_string_value(json_object_get(item, "name"));
        if (name && strcmp(name, "default") == 0) return json_object_get(item, "template");
    }
    return NULL;
}

/* A file of its own wins over the key, as in transformers. */
static int read_template(rt_model_text *t, const char *folder, rt_arena *a, rt_err *e)
{
    json_error_t error;
    int rc;
    RT_TRY(read_optional(&t->chat_template, folder, "chat_template.jinja", a, e));
    if (t->chat_template.data || !t->tokenizer_config.data) return RT_OK;
    json_t *config = rt_json_load(t->tokenizer_config.data, t->tokenizer_config.len, JSON_ALLOW_NUL, &error);
    if (!config)
        return rt_json_out_of_memory() ? rt_fail(e, RT_NOMEM, "out of memory for tokenizer_config.json")
                                       : rt_fail(e, RT_FORMAT, "%s/tokenizer_config.json: line %d, column %d: %s",
                                                 folder, error.line, error.column, error.text);
    const json_t *v = rt_text_config_template(config);
    if (json_is_string(v)) {
        t->chat_template = rt_span_copy(a, json_string_value(v), json_string_length(v));
        if (!t->chat_template.data) rc = rt_no_memory(e, "a chat template");
    }
    json_decref(config);
out:
    return rc;
}

int rt_text_files_read(rt_model_text *t, const char *folder, const char *tokenizer, rt_arena *a, rt_err *e)
{
    rt_side_file *side;
    int rc;
    *t = (rt_model_text){ .unk = -1, .pad = -1, .eot = -1 };
    const char *path = tokenizer ? tokenizer : rt_path_join(a, folder, "tokenizer.json");
    if (!path || !(side = rt_arena_alloc(a, sizeof *side))) return rt_fail(e, RT_NOMEM, "out of memory for %s", folder);
    RT_TRY(read_path(&t->tokenizer_json, path, MAX_TOKENIZER, a, e));
    RT_TRY(read_optional(&t->tokenizer_config, folder, "tokenizer_config.json", a, e));
    RT_TRY(read_optional(&t->generation_config, folder, "generation_config.json", a, e));
    RT_TRY(read_template(t, folder, a, e));
    side->name = "special_tokens_map.json";
    RT_TRY(read_optional(&side->text, folder, side->name, a, e));
    t->side = side;
    t->side_count = side->text.data ? 1 : 0;
out:
    return rc;
}
