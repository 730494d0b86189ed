/* safetensors.c - reads the header of a safetensors file into tensors.
 *
 * Owns: the header's checks, which are those of the reference implementation: a length that fits, one JSON object
 * without double keys, and tensors that cover the bytes after it exactly, without overlap, hole or rest. Leaves the
 * meaning of names and what config.json says to others; safetensors_layout.c writes.
 *
 * The file: u64 length of the header, the header, the bytes. Everything is little-endian. */
#include "base/json.h"
#include "format/hf/hf.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEADER_MAX UINT64_C(100000000)
enum { ENTRY_MAX = 64 << 10 }; /* bytes of a tensor's entry; they have some 100 */

/* One reading: the file and where its bytes begin. */
typedef struct reader {
    rt_model_file *m;
    uint32_t part;
    const char *path;
    uint64_t data_start, data_bytes;
} reader;

/* By its first byte, to see that all are covered once. */
typedef struct extent {
    uint64_t begin, end;
    const char *name;
} extent;

bool rt_safetensors_is(const rt_map *map)
{
    if (map->size < 10 || map->data[8] != '{') return false;
    uint64_t n = rt_load_le(map->data, 8);
    return n >= 2 && n <= HEADER_MAX;
}

static const struct {
    const char *name;
    rt_dtype dtype;
} types[] = {
    { "F32", RT_DTYPE_F32 }, { "BF16", RT_DTYPE_BF16 }, { "F16", RT_DTYPE_F16 }, { "F64", RT_DTYPE_F64 },
    { "I64", RT_DTYPE_I64 }, { "I32", RT_DTYPE_I32 },   { "I16", RT_DTYPE_I16 }, { "I8", RT_DTYPE_I8 },
    { "U32", RT_DTYPE_U32 }, { "U8", RT_DTYPE_U8 },     { "BOOL", RT_DTYPE_U8 },
};
enum { TYPES = sizeof types / sizeof types[0] };

const char *rt_safetensors_type(rt_dtype d)
{
    for (int i = 0; i < TYPES; i++)
        if (types[i].dtype == d) return types[i].name;
    return NULL;
}

static bool find_dtype(const char *name, rt_dtype *d)
{
    for (int i = 0; i < TYPES; i++) {
        if (strcmp(name, types[i].name) != 0) continue;
        *d = types[i].dtype;
        return true;
    }
    return false;
}

static int bad_entry(const reader *r, const char *name, const char *what, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: tensor '%.96s': %s; the header is damaged, get the file again", r->path, name,
                   what);
}

/* "dtype" and "shape". */
static int read_type(const reader *r, rt_tensor *t, json_t *entry, rt_err *e)
{
    const char *dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!dtype) return bad_entry(r, t->file_name, "no \"dtype\"", e);
    if (!find_dtype(dtype, &t->dtype))
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s: tensor '%.96s' has type %.32s, which is not supported; convert it to BF16, F16 or F32",
                       r->path, t->file_name, dtype);
    json_t *shape = json_object_get(entry, "shape");
    if (!json_is_array(shape)) return bad_entry(r, t->file_name, "no list \"shape\"", e);
    if (json_array_size(shape) > RT_MAX_RANK)
        return rt_fail(e, RT_UNSUPPORTED, "%s: tensor '%.96s' has %zu dimensions; at most %d are supported", r->path,
                       t->file_name, json_array_size(shape), RT_MAX_RANK);
    t->rank = (uint32_t)json_array_size(shape);
    for (uint32_t i = 0; i < t->rank; i++) {
        json_t *n = json_array_get(shape, i);
        if (!json_is_integer(n) || json_integer_value(n) < 0)
            return bad_entry(r, t->file_name, "\"shape\" has a number that is no size", e);
        t->shape[i] = (uint64_t)json_integer_value(n);
    }
    return RT_OK;
}

static int read_offsets(const reader *r, const char *name, json_t *entry, extent *x, rt_err *e)
{
    json_t *pair = json_object_get(entry, "data_offsets");
    json_t *begin = json_array_get(pair, 0), *end = json_array_get(pair, 1);
    if (json_array_size(pair) != 2 || !json_is_integer(begin) || !json_is_integer(end))
        return bad_entry(r, name, "\"data_offsets\" is not a pair of numbers", e);
    if (json_integer_value(begin) < 0 || json_integer_value(end) < json_integer_value(begin))
        return bad_entry(r, name, "\"data_offsets\" is not a range", e);
    *x = (extent){ (uint64_t)json_integer_value(begin), (uint64_t)json_integer_value(end), name };
    if (x->end > r->data_bytes)
        return rt_fail(e, RT_FORMAT,
                       "%s: tensor '%.96s' ends at byte %" PRIu64 " of %" PRIu64
                       " after the header; the file is cut short, get it again",
                       r->path, name, x->end, r->data_bytes);
    return RT_OK;
}

/* What is saved from a model without its head lacks "model." in front; Hugging Face loads it all the same. */
static int name_tensor(const reader *r, rt_tensor *t, const char *name, rt_err *e)
{
    char *full = rt_arena_printf(&r->m->arena, "model.%s", name);
    if (!full) return rt_no_memory(e, r->path);
    t->name = t->file_name = full + strlen("model.");
    t->role = rt_role_of_hf(t->name, &t->layer);
    if (t->role == RT_ROLE_NONE && (t->role = rt_role_of_hf(full, &t->layer)) != RT_ROLE_NONE) t->name = full;
    return RT_OK;
}

static int read_tensor(const reader *r, const char *name, json_t *entry, extent *x, rt_err *e)
{
    int rc;
    rt_tensor *t = rt_model_add_tensor(r->m);
    if (!t) return rt_no_memory(e, r->path);
    RT_TRY(name_tensor(r, t, name, e));
    RT_TRY(read_type(r, t, entry, e));
    RT_TRY(read_offsets(r, t->file_name, entry, x, e));
    RT_TRY(rt_model_place_tensor(r->m, t, r->part, r->data_start + x->begin, x->end - x->begin, e));
out:
    return rc;
}

/* A fault in the JSON at byte why->position of the header. */
static int bad_json(const reader *r, int rc, const json_error_t *why, rt_err *e)
{
    if (rc == RT_NOMEM) return rt_no_memory(e, r->path);
    return rt_fail(e, RT_FORMAT, "%s: header, byte %d: %s; the file is damaged, get it again", r->path,
                   why->position + 8, why->text);
}

static int read_metadata(const reader *r, rt_span text, size_t at, rt_span *config, rt_err *e)
{
    int rc;
    rt_span value;
    json_error_t why;
    json_t *key = NULL, *v = NULL;
    rt_json_members all = { .text = text.data, .len = text.len };
    if (*text.data != '{')
        return rt_fail(e, RT_FORMAT, "%s: \"__metadata__\" is not an object; get the file again", r->path);
    while ((rc = rt_json_member(&all, &key, &value, &why)) == 1) {
        if (*value.data == '"' && (rc = rt_json_parse_part(&all, value, &v, &why)) < 0) break;
        if (!v)
            RT_TRY(rt_fail(e, RT_FORMAT, "%s: \"__metadata__\" has a value that is not text, '%.96s'", r->path,
                           json_string_value(key)));
        if (config && strcmp(json_string_value(key), "retort.config") == 0) {
            *config = rt_span_copy(&r->m->arena, json_string_value(v), json_string_length(v));
            if (!config->data) RT_TRY(rt_no_memory(e, r->path));
        }
        json_decref(key);
        json_decref(v);
        key = v = NULL;
    }
    if (rc < 0) {
        why.position += (int)at;
        rc = bad_json(r, rc, &why, e);
    }
out:
    json_decref(key);
    json_decref(v);
    return rc;
}

static int by_begin(const void *a, const void *b)
{
    const extent *x = a, *y = b;
    if (x->begin != y->begin) return x->begin < y->begin ? -1 : 1;
    return (x->end > y->end) - (x->end < y->end);
}

static int check_cover(const reader *r, extent *x, uint32_t n, rt_err *e)
{
    uint64_t at = 0;
    if (n > 0) qsort(x, n, sizeof *x, by_begin);
    for (uint32_t i = 0; i < n; i++) {
        if (x[i].begin < at)
            return rt_fail(e, RT_FORMAT,
                           "%s: tensors '%.96s' and '%.96s' overlap; the header is damaged, get the file again",
                           r->path, x[i - 1].name, x[i].name);
        if (x[i].begin > at)
            return rt_fail(e, RT_FORMAT,
                           "%s: %" PRIu64 " bytes before tensor '%.96s' belong to no tensor; the header is damaged, "
                           "get the file again",
                           r->path, x[i].begin - at, x[i].name);
        at = x[i].end;
    }
    if (at != r->data_bytes)
        return rt_fail(e, RT_FORMAT,
                       "%s: %" PRIu64 " bytes at the end belong to no tensor; the file is damaged, get it again",
                       r->path, r->data_bytes - at);
    return RT_OK;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const extent *)a)->name, ((const extent *)b)->name);
}

static int check_names(const reader *r, extent *x, uint32_t n, rt_err *e)
{
    if (n > 0) qsort(x, n, sizeof *x, by_name);
    for (uint32_t i = 1; i < n; i++)
        if (strcmp(x[i - 1].name, x[i].name) == 0) return bad_entry(r, x[i].name, "there is a duplicate of it", e);
    return RT_OK;
}

/* One at a time: a tree of all of them takes many times the header's bytes. */
static int read_entries(const reader *r, rt_span header, rt_span *config, rt_err *e)
{
    int rc;
    uint32_t n = 0, cap = 0;
    extent *extents = NULL;
    rt_span value;
    json_error_t why;
    json_t *key = NULL, *entry = NULL;
    rt_json_members all = { .text = header.data, .len = header.len };
    while ((rc = rt_json_member(&all, &key, &value, &why)) == 1) {
        const char *name = json_string_value(key);
        if (strcmp(name, "__metadata__") == 0) {
            RT_TRY(read_metadata(r, value, (size_t)(value.data - header.data), config, e));
        } else {
            if (*value.data != '{') RT_TRY(bad_entry(r, name, "its entry is not an object", e));
            if (value.len > ENTRY_MAX) RT_TRY(bad_entry(r, name, "its entry is too long", e));
            if ((rc = rt_json_parse_part(&all, value, &entry, &why)) < 0) break;
            if (!rt_grow((void **)&extents, &cap, n + 1, sizeof *extents)) RT_TRY(rt_no_memory(e, r->path));
            RT_TRY(read_tensor(r, name, entry, &extents[n++], e));
        }
        json_decref(key);
        json_decref(entry);
        key = entry = NULL;
    }
    if (rc < 0) RT_TRY(bad_json(r, rc, &why, e));
    RT_TRY(check_names(r, extents, n, e));
    RT_TRY(check_cover(r, extents, n, e));
out:
    json_decref(key);
    json_decref(entry);
    rt_free(extents);
    return rc;
}

int rt_safetensors_read(rt_model_file *m, uint32_t part, rt_span *config, rt_err *e)
{
    const rt_map *map = &m->parts[part].map;
    reader r = { .m = m, .part = part, .path = m->parts[part].path };
    if (config) *config = (rt_span){ 0 };
    if (map->size < 8) return rt_fail(e, RT_FORMAT, "%s is too short for a safetensors file; get it again", r.path);
    uint64_t n = rt_load_le(map->data, 8);
    if (n > HEADER_MAX || n < 2)
        return rt_fail(e, RT_FORMAT,
                       "%s is not a safetensors file: its header size %" PRIu64 " is out of range (2 to %" PRIu64 ")",
                       r.path, n, HEADER_MAX);
    if (n > map->size - 8)
        return rt_fail(e, RT_FORMAT,
                       "%s: the header has %" PRIu64 " bytes, the file %" PRIu64 "; it is cut short, get it again",
                       r.path, n, map->size);
    r.data_start = 8 + n;
    r.data_bytes = map->size - r.data_start;
    /* The reference wants the brace first. */
    if (map->data[8] != '{')
        return rt_fail(e, RT_FORMAT, "%s is not a safetensors file: its header does not begin with '{'", r.path);
    return read_entries(&r, (rt_span){ (const char *)map->data + 8, (size_t)n }, config, e);
}
