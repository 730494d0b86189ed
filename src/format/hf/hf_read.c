/* hf_read.c - reads a Hugging Face model directory: its configuration, its tokenizer's files, its safetensors.
 *
 * Owns: which files belong to a model, the index of shards. Leaves the bytes of a safetensors file to safetensors.c and
 * the meaning of config.json to config_json.c. */
#include "base/json.h"
#include "format/hf/hf.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_BYTES (UINT64_C(1) << 28) /* no file of text is larger */

/* The file's text in the arena, ended by a zero; null data when there is no such file. */
static int read_text(rt_model_file *m, const char *folder, const char *name, rt_span *out, rt_err *e)
{
    rt_map map = { 0 };
    *out = (rt_span){ 0 };
    char *path = rt_path_join(&m->arena, folder, name);
    if (!path) return rt_no_memory(e, folder);
    if (!rt_path_exists(path)) return RT_OK;
    int rc = rt_map_open(&map, path, e);
    if (rc < 0) return rc;
    if (map.size > TEXT_BYTES) {
        rc = rt_fail(e, RT_FORMAT, "%s is larger than 256 MiB, the limit for a file of text; get the file again", path);
    } else {
        *out = rt_span_copy(&m->arena, (const char *)map.data, (size_t)map.size);
        if (!out->data) rc = rt_no_memory(e, path);
    }
    rt_map_close(&map);
    return rc;
}

static int parse(json_t **out, rt_span text, const char *folder, const char *name, size_t flags, rt_err *e)
{
    json_error_t at;
    *out = rt_json_load(text.data, text.len, flags, &at);
    if (json_is_object(*out)) return RT_OK;
    if (*out) {
        json_decref(*out);
        *out = NULL;
        return rt_fail(e, RT_FORMAT, "%s/%s must hold one JSON object; get the file again", folder, name);
    }
    if (rt_json_out_of_memory()) return rt_no_memory(e, name);
    return rt_fail(e, RT_FORMAT, "%s/%s: line %d, column %d: not valid JSON: %s; get the file again", folder, name,
                   at.line, at.column, at.text);
}

/* ---- text ---- */

/* The template inside tokenizer_config.json: a string, or a list of named ones, of which "default" is taken. */
static const json_t *find_template(rt_model_file *m, const json_t *v, bool *bad)
{
    size_t i;
    const json_t *item;
    *bad = false;
    if (!v || json_is_null(v) || json_is_string(v)) return json_is_string(v) ? v : NULL;
    json_array_foreach(v, i, item)
    {
        const char *name = json_string_value(json_object_get(item, "name"));
        const json_t *text = json_object_get(item, "template");
        *bad = *bad || !name || !json_is_string(text);
        if (!*bad && strcmp(name, "default") == 0) return text;
    }
    *bad = *bad || !json_is_array(v);
    if (!*bad && json_array_size(v) > 0)
        rt_model_note(m, "tokenizer_config.json has %zu chat templates, but none is named \"default\"; none is used",
                      json_array_size(v));
    return NULL;
}

static int read_template(rt_model_file *m, const char *folder, rt_err *e)
{
    int rc = RT_OK;
    json_t *root = NULL;
    bool bad;
    RT_TRY(read_text(m, folder, "chat_template.jinja", &m->text.chat_template, e));
    m->text.template_file = m->text.chat_template.data != NULL;
    if (m->text.chat_template.data || !m->text.tokenizer_config.data) return RT_OK;
    /* Numbers beyond 64 bits occur there: model_max_length is often 1e30. */
    RT_TRY(parse(&root, m->text.tokenizer_config, folder, "tokenizer_config.json", JSON_DECODE_INT_AS_REAL, e));
    const json_t *text = find_template(m, json_object_get(root, "chat_template"), &bad);
    if (bad) {
        rc = rt_fail(e, RT_FORMAT,
                     "%s/tokenizer_config.json: \"chat_template\" must be a string or a list of objects with \"name\" "
                     "and \"template\": correct it",
                     folder);
    } else if (text) {
        m->text.chat_template = rt_span_copy(&m->arena, json_string_value(text), json_string_length(text));
        if (!m->text.chat_template.data) rc = rt_no_memory(e, folder);
    }
out:
    json_decref(root);
    return rc;
}

static int read_side(rt_model_file *m, const char *folder, rt_err *e)
{
    rt_side_file *side = rt_arena_alloc(&m->arena, RT_SIDE_MAX * sizeof *side);
    uint32_t count = 0;
    if (!side) return rt_no_memory(e, folder);
    for (int i = 0; i < RT_SIDE_MAX; i++) {
        side[count].name = rt_side_names[i];
        int rc = read_text(m, folder, rt_side_names[i], &side[count].text, e);
        if (rc < 0) return rc;
        if (side[count].text.data) count++;
    }
    m->text.side = side;
    m->text.side_count = count;
    return RT_OK;
}

/* transformers notes where it loaded the model from. */
static int read_hub(rt_model_file *m, rt_span config, const char *folder, rt_err *e)
{
    json_t *root = NULL;
    int rc;
    RT_TRY(parse(&root, config, folder, "config.json", JSON_DECODE_INT_AS_REAL, e));
    const json_t *said = json_object_get(root, "_name_or_path");
    RT_TRY(rt_model_said_hub(m, (rt_span){ json_string_value(said), json_string_length(said) }, e));
out:
    json_decref(root);
    return rc;
}

int rt_hf_read_side_files(rt_model_file *m, const char *folder, rt_err *e)
{
    int rc = RT_OK;
    rt_span config = { 0 };
    if (!m->has_config) RT_TRY(read_text(m, folder, "config.json", &config, e));
    if (config.data) {
        char *path = rt_path_join(&m->arena, folder, "config.json");
        if (!path) return rt_no_memory(e, folder);
        RT_TRY(rt_config_from_json(&m->config, config.data, config.len, path, &m->arena, e));
        RT_TRY(read_hub(m, config, folder, e));
        m->has_config = true;
    }
    RT_TRY(read_text(m, folder, "tokenizer.json", &m->text.tokenizer_json, e));
    RT_TRY(read_text(m, folder, "tokenizer_config.json", &m->text.tokenizer_config, e));
    RT_TRY(read_text(m, folder, "generation_config.json", &m->text.generation_config, e));
    RT_TRY(read_template(m, folder, e));
    RT_TRY(read_side(m, folder, e));
out:
    return rc;
}

/* ---- weights ---- */

static int read_one(rt_model_file *m, const char *folder, const char *name, rt_err *e)
{
    int rc;
    uint32_t part;
    char *path = rt_path_join(&m->arena, folder, name);
    if (!path) return rt_no_memory(e, folder);
    RT_TRY(rt_model_add_part(m, path, &part, e));
    RT_TRY(rt_safetensors_read(m, part, NULL, e));
out:
    return rc;
}

static bool plain_name(const char *name) { return *name && !strchr(name, '/') && !strstr(name, ".."); }

/* Whether the tensors that the shards hold are exactly those that the index names, each in its file. */
static int check_index(const rt_model_file *m, const char *folder, const json_t *map, rt_err *e)
{
    const char *key;
    json_t *value;
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const rt_tensor *t = &m->tensors[i];
        const char *file = rt_path_base(m->parts[t->file].path);
        const char *said = json_string_value(json_object_get(map, t->file_name));
        if (!said || strcmp(said, file) != 0)
            return rt_fail(e, RT_FORMAT,
                           "%s: tensor '%.96s' is in %s, but " RT_HF_INDEX
                           " %s%.96s; the files do not belong together, get "
                           "them again",
                           folder, t->file_name, file, said ? "says it is in " : "does not name it", said ? said : "");
    }
    if (json_object_size(map) == m->tensor_count) return RT_OK;
    json_object_foreach((json_t *)map, key, value)
    {
        bool found = false;
        for (uint32_t i = 0; i < m->tensor_count && !found; i++) found = strcmp(m->tensors[i].file_name, key) == 0;
        if (!found)
            return rt_fail(e, RT_FORMAT,
                           "%s: " RT_HF_INDEX " names tensor '%.96s' in %.96s, which does not hold it; get the "
                           "files again",
                           folder, key, json_string_value(value));
    }
    return rt_fail(e, RT_FORMAT, "%s: " RT_HF_INDEX " and the shards do not agree; get the files again", folder);
}

static int read_shards(rt_model_file *m, const char *folder, const json_t *map, rt_err *e)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)map, key, value)
    {
        const char *file = json_string_value(value);
        bool have = false;
        if (!file || !plain_name(file))
            return rt_fail(e, RT_FORMAT,
                           "%s: " RT_HF_INDEX " gives tensor '%.96s' no plain file name; get the file again", folder,
                           key);
        for (uint32_t i = 0; i < m->part_count && !have; i++) have = strcmp(rt_path_base(m->parts[i].path), file) == 0;
        if (have) continue;
        int rc = read_one(m, folder, file, e);
        if (rc == RT_NOT_FOUND)
            return rt_fail(e, RT_NOT_FOUND, "%s: the shard %.96s, which " RT_HF_INDEX " names, is missing; get it",
                           folder, file);
        if (rc < 0) return rc;
    }
    return check_index(m, folder, map, e);
}

static int read_index(rt_model_file *m, const char *folder, rt_err *e)
{
    int rc;
    rt_span text;
    json_t *root = NULL;
    RT_TRY(read_text(m, folder, RT_HF_INDEX, &text, e));
    RT_TRY(parse(&root, text, folder, RT_HF_INDEX, JSON_REJECT_DUPLICATES, e));
    const json_t *map = json_object_get(root, "weight_map");
    if (!json_is_object(map) || json_object_size(map) == 0)
        rc = rt_fail(e, RT_FORMAT, "%s/" RT_HF_INDEX " has no \"weight_map\"; get the file again", folder);
    else
        rc = read_shards(m, folder, map, e);
out:
    json_decref(root);
    return rc;
}

static bool has(char *const *names, uint32_t count, const char *name)
{
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) return true;
    }
    return false;
}

/* The first name that ends so, and how many do. */
static const char *first_ending(char *const *names, uint32_t count, const char *suffix, uint32_t *n)
{
    const char *first = NULL;
    *n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (!rt_path_ends(names[i], suffix)) continue;
        if (!first) first = names[i];
        *n += 1;
    }
    return first;
}

/* There are no weights that can be read: says what there is instead. */
static int no_weights(const char *folder, char *const *names, uint32_t count, rt_err *e)
{
    uint32_t n;
    const char *other = first_ending(names, count, ".gguf", &n);
    if (!other) other = first_ending(names, count, ".apr", &n);
    if (other)
        return rt_fail(e, RT_NOT_FOUND, "%s holds no safetensors, but %s: name that file instead of the folder", folder,
                       other);
    other = first_ending(names, count, ".bin", &n);
    if (!other) other = first_ending(names, count, ".pth", &n);
    if (other)
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s holds its weights as %s, which is not read: convert it to safetensors, for example with "
                       "python -c \"from transformers import AutoModelForCausalLM as M; "
                       "M.from_pretrained('IN').save_pretrained('OUT')\"",
                       folder, other);
    return rt_fail(e, RT_NOT_FOUND, "%s holds no weights: there is no *.safetensors file in it", folder);
}

static int read_weights(rt_model_file *m, const char *folder, char *const *names, uint32_t count, rt_err *e)
{
    uint32_t n;
    if (has(names, count, "model.safetensors")) return read_one(m, folder, "model.safetensors", e);
    if (has(names, count, RT_HF_INDEX)) return read_index(m, folder, e);
    const char *only = first_ending(names, count, ".safetensors", &n);
    if (n == 1) return read_one(m, folder, only, e);
    if (n == 0) return no_weights(folder, names, count, e);
    return rt_fail(e, RT_INVALID,
                   "%s holds %u safetensors files and no " RT_HF_INDEX ": name one of them (%s, ...) or get the index",
                   folder, n, only);
}

int rt_hf_read(rt_model_file *m, const char *folder, rt_err *e)
{
    int rc;
    char **names;
    uint32_t count;
    RT_TRY(rt_dir_list(&names, &count, &m->arena, folder, e));
    m->container = RT_CONTAINER_HF;
    if (!has(names, count, "config.json")) {
        uint32_t n;
        bool weights = first_ending(names, count, ".safetensors", &n) != NULL;
        if (!weights) return no_weights(folder, names, count, e);
        return rt_fail(e, RT_NOT_FOUND, "%s has no config.json, so it is not a model's folder: get the file", folder);
    }
    RT_TRY(rt_hf_read_side_files(m, folder, e));
    RT_TRY(read_weights(m, folder, names, count, e));
out:
    return rc;
}
