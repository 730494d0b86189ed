/* identity.c - see identity.h. */
#include "job/prepare/identity.h"

/* Everything of the first file before its first tensor; null data: there is none. */
static rt_span header_of(const rt_model_file *m)
{
    if (!m->part_count) return (rt_span){ 0 };
    const rt_map *map = &m->parts[0].map;
    uint64_t least = map->size;
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const rt_tensor *t = rt_tensor_under(&m->tensors[i]);
        if (t->file == 0 && t->data >= map->data && (uint64_t)(t->data - map->data) < least)
            least = (uint64_t)(t->data - map->data);
    }
    return (rt_span){ (const char *)map->data, least };
}

static bool put(json_t *files, const char *name, rt_span text)
{
    return !text.data || json_object_set_new(files, name, rt_hash_to_json(rt_hash(text.data, text.len))) == 0;
}

static bool put_files(json_t *files, const rt_model_file *m)
{
    const rt_model_text *t = &m->text;
    bool packed = m->container == RT_CONTAINER_GGUF || m->container == RT_CONTAINER_APR;
    if (packed) return put(files, "header", header_of(m));
    bool kept = put(files, "config.json", m->config.json) && put(files, "tokenizer.json", t->tokenizer_json) &&
                put(files, "tokenizer_config.json", t->tokenizer_config) &&
                put(files, "generation_config.json", t->generation_config) &&
                put(files, "chat template", t->chat_template);
    for (uint32_t i = 0; kept && i < t->side_count; i++) kept = put(files, t->side[i].name, t->side[i].text);
    return kept;
}

int rt_identity_new(json_t **out, const rt_model_file *m, rt_pool *pool, rt_err *e)
{
    int rc;
    rt_hash128 values;
    rt_json_init();
    json_t *files = json_object();
    *out = NULL;
    RT_TRY(rt_model_content_hash(m, pool, &values, NULL, e));
    if (!files || !put_files(files, m)) RT_TRY(rt_no_memory(e, "the identity of a model"));
    *out = json_pack("{s:s, s:s, s:I, s:o, s:O}", "name", m->name, "family", m->config.family->name, "parameters",
                     (json_int_t)rt_model_file_parameters(m), "content_hash", rt_hash_to_json(values), "files", files);
    if (!*out) RT_TRY(rt_no_memory(e, "the identity of a model"));
out:
    json_decref(files);
    return rc;
}

const char *rt_identity_differs(const json_t *was, const json_t *now, bool *old)
{
    const char *name;
    json_t *value, *before = json_object_get(was, "files"), *after = json_object_get(now, "files");
    *old = !before;
    const json_t *kept = json_object_get(was, "cache"), *keeps = json_object_get(now, "cache");
    if (!json_equal(json_object_get(was, "content_hash"), json_object_get(now, "content_hash"))) return "values";
    if ((kept || keeps) && !(kept && keeps && json_equal((json_t *)(uintptr_t)kept, (json_t *)(uintptr_t)keeps)))
        return "kind of cache (--keep)";
    if (*old) return NULL;
    json_object_foreach(before, name, value) if (!json_equal(value, json_object_get(after, name))) return name;
    json_object_foreach(after, name, value) if (!json_object_get(before, name)) return name;
    return NULL;
}
