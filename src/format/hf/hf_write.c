/* hf_write.c - what lies in a Hugging Face directory besides its tensors.
 *
 * Owns: config.json and the index of several files. Leaves the tokenizer's files to hf_text.c, the tensors to
 * write_fill.c and the directory itself to model_write.c. */
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

int rt_hf_write_files(const rt_model_out *o, const rt_out_file *files, uint32_t count, const char *folder,
                      uint64_t *bytes, rt_err *e)
{
    int rc;
    place to = { .folder = folder };
    RT_TRY(put_config(o, &to, e));
    if (count > 1) RT_TRY(put_index(o, files, count, &to, e));
    if (o->text) RT_TRY(rt_hf_write_text(o->text, false, folder, &to.bytes, e));
out:
    if (bytes) *bytes = to.bytes;
    return rc;
}
