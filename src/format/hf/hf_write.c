/* hf_write.c - what lies in a Hugging Face directory besides its tensors.
 *
 * Owns: config.json, the index of several files, and the tokenizer's files. Leaves the tensors to write_fill.c and the
 * directory itself to model_write.c. */
#include "base/json.h"
#include "format/hf/hf.h"

#include <inttypes.h>
#include <jansson.h>
#include <string.h>

/* Where the files go. */
typedef struct place {
    const char *folder; /* null: they are only counted */
    uint64_t bytes;
} place;

static int put_text(place *to, const char *name, const char *data, size_t len, rt_err *e)
{
    rt_arena a = { 0 };
    to->bytes += len;
    if (!to->folder) return RT_OK;
    char *path = rt_path_join(&a, to->folder, name);
    int rc = path ? rt_file_write(path, data, len, e) : rt_no_memory(e, name);
    rt_arena_free(&a);
    return rc;
}

static int put_span(place *to, const char *name, rt_span text, rt_err *e)
{
    return text.data ? put_text(to, name, text.data, text.len, e) : RT_OK;
}

static int put_str(place *to, const char *name, rt_str *text, rt_err *e)
{
    int rc = text->failed ? rt_no_memory(e, name) : put_text(to, name, text->data ? text->data : "", text->len, e);
    rt_str_free(text);
    return rc;
}

static int put_config(const rt_model_out *o, place *to, rt_err *e)
{
    rt_str text = { 0 };
    int rc = rt_config_to_json(o->config, rt_out_main_dtype(o), &text, e);
    if (rc < 0)
        rt_str_free(&text);
    else
        rc = put_str(to, "config.json", &text, e);
    return rc;
}

/* Which file holds which tensor. */
static int put_index(const rt_model_out *o, const rt_out_file *files, uint32_t count, place *to, rt_err *e)
{
    rt_str s = { 0 };
    char name[RT_NAME_BYTES];
    uint64_t total = 0;
    for (uint32_t i = 0; i < o->tensor_count; i++) total += rt_out_tensor_bytes(o, i);
    rt_str_printf(&s, "{\n  \"metadata\": {\n    \"total_size\": %" PRIu64 "\n  },\n  \"weight_map\": {\n", total);
    for (uint32_t f = 0; f < count; f++) {
        for (uint32_t i = files[f].first; i < files[f].first + files[f].count; i++) {
            const char *comma = i + 1 < o->tensor_count ? "," : "";
            rt_role_hf_name(name, o->tensors[i].role, o->tensors[i].layer);
            rt_str_printf(&s, "    \"%s\": \"%s\"%s\n", name, rt_path_base(files[f].path), comma);
        }
    }
    rt_str_append(&s, "  }\n}\n");
    return put_str(to, RT_HF_INDEX, &s, e);
}

/* Whether tokenizer_config.json holds the template already: the same text, or a list of templates. A file of its own
 * wins over what is in there, so a template that came from elsewhere gets one. */
static int has_template(const rt_model_text *text, bool *has, rt_err *e)
{
    *has = false;
    if (!text->tokenizer_config.data) return RT_OK;
    json_t *root = rt_json_load(text->tokenizer_config.data, text->tokenizer_config.len, 0, NULL);
    if (!root && rt_json_out_of_memory()) return rt_no_memory(e, "tokenizer_config.json");
    json_t *inside = json_object_get(root, "chat_template");
    if (json_is_string(inside))
        *has = json_string_length(inside) == text->chat_template.len &&
               memcmp(json_string_value(inside), text->chat_template.data, text->chat_template.len) == 0;
    else
        *has = json_is_array(inside);
    json_decref(root);
    return RT_OK;
}

static int put_side_files(const rt_model_text *text, place *to, rt_err *e)
{
    for (uint32_t i = 0; i < text->side_count; i++) {
        const rt_side_file *s = &text->side[i];
        if (!rt_hf_is_name(NULL, s->name)) /* whoever moves or replaces the directory knows every name in it */
            return rt_fail(e, RT_INVALID, "'%.96s' is no name for a file beside a model", s->name);
        int rc = put_span(to, s->name, s->text, e);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

int rt_hf_write_files(const rt_model_out *o, const rt_out_file *files, uint32_t count, const char *folder,
                      uint64_t *bytes, rt_err *e)
{
    int rc;
    bool inside;
    const rt_model_text *text = o->text;
    place to = { .folder = folder };
    RT_TRY(put_config(o, &to, e));
    if (count > 1) RT_TRY(put_index(o, files, count, &to, e));
    if (!text) goto out;
    /* First, so that a name among them cannot stand for one of ours. */
    RT_TRY(put_side_files(text, &to, e));
    RT_TRY(put_span(&to, "generation_config.json", text->generation_config, e));
    RT_TRY(put_span(&to, "tokenizer.json", text->tokenizer_json, e));
    RT_TRY(put_span(&to, "tokenizer_config.json", text->tokenizer_config, e));
    if (!text->chat_template.data) goto out;
    RT_TRY(has_template(text, &inside, e));
    if (!inside) rc = put_span(&to, "chat_template.jinja", text->chat_template, e);
out:
    if (bytes) *bytes = to.bytes;
    return rc;
}
