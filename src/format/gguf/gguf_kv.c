/* gguf_kv.c - the header and the keys of a GGUF file: found, checked and sorted, their values left where they are.
 *
 * Owns: every byte up to the tensors' descriptions. A count is believed only after it was compared with the bytes that
 * are left, so a damaged file costs no memory. What keys mean is gguf_config.c and gguf_text.c. */
#include "format/gguf/gguf.h"

#include <stdlib.h>
#include <string.h>

#define AGAIN "the file is damaged or incomplete: download or convert it again"

static uint64_t left(const rt_gguf_cursor *c) { return (uint64_t)(c->end - c->p); }

bool rt_gguf_take(rt_gguf_cursor *c, void *out, uint64_t bytes)
{
    if (left(c) < bytes) return false;
    memcpy(out, c->p, bytes);
    c->p += bytes;
    return true;
}

bool rt_gguf_take_string(rt_gguf_cursor *c, rt_span *out)
{
    uint64_t n;
    if (!rt_gguf_take(c, &n, 8) || n > left(c)) return false;
    *out = (rt_span){ (const char *)c->p, (size_t)n };
    c->p += n;
    return true;
}

/* The place of the cursor in the file. */
static unsigned long long at(const rt_gguf *g, const rt_gguf_cursor *c)
{
    return (unsigned long long)(c->p - g->map.data);
}

/* Steps over count elements of a type; false when they do not end within the file or are nested too deep. */
static bool skip(rt_gguf_cursor *c, uint32_t type, uint64_t count, uint32_t depth)
{
    if (type >= RT_GGUF_TYPE_COUNT || depth > RT_GGUF_MAX_DEPTH) return false;
    if (rt_gguf_types[type].bytes != 0) {
        if (count > left(c) / rt_gguf_types[type].bytes) return false;
        c->p += count * rt_gguf_types[type].bytes;
        return true;
    }
    if (count > left(c) / 8) return false;
    for (uint64_t i = 0; i < count; i++) {
        rt_span s;
        uint32_t elem;
        uint64_t n;
        if (type == RT_GGUF_STRING) {
            if (!rt_gguf_take_string(c, &s)) return false;
        } else if (!rt_gguf_take(c, &elem, 4) || !rt_gguf_take(c, &n, 8) || !skip(c, elem, n, depth + 1)) {
            return false;
        }
    }
    return true;
}

static int parse_header(rt_gguf *g, rt_gguf_cursor *c, uint64_t *keys, rt_err *e)
{
    uint32_t version;
    if (left(c) < 4 || memcmp(c->p, "GGUF", 4) != 0)
        return rt_fail(e, RT_FORMAT, "%s: does not begin with 'GGUF': not a GGUF file", g->path);
    c->p += 4;
    if (!rt_gguf_take(c, &version, 4))
        return rt_fail(e, RT_FORMAT, "%s: ends after %llu bytes, within its header; " AGAIN, g->path, at(g, c));
    if (version != 0 && (version & 0xFFFF) == 0)
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s: a big-endian GGUF file; only little-endian ones are read: convert it with "
                       "gguf-py's gguf_convert_endian.py, or take the little-endian file of the same model",
                       g->path);
    if (version < 2 || version > RT_GGUF_VERSION)
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s: GGUF version %u; versions 2 and 3 are read: convert the model again with a current "
                       "convert_hf_to_gguf.py",
                       g->path, version);
    if (!rt_gguf_take(c, &g->tensor_count, 8) || !rt_gguf_take(c, keys, 8))
        return rt_fail(e, RT_FORMAT, "%s: ends after %llu bytes, within its header; " AGAIN, g->path,
                       (unsigned long long)g->map.size);
    /* The least that a key takes: a length, one letter, a type, one byte. */
    if (*keys > left(c) / 14 || *keys > RT_GGUF_MAX_KEYS)
        return rt_fail(e, RT_FORMAT, "%s: says that it has %llu keys, more than it can hold; " AGAIN, g->path,
                       (unsigned long long)*keys);
    if (g->tensor_count > left(c) / 24 || g->tensor_count > UINT32_MAX / 2)
        return rt_fail(e, RT_FORMAT, "%s: says that it has %llu tensors, more than it can hold; " AGAIN, g->path,
                       (unsigned long long)g->tensor_count);
    return RT_OK;
}

static int parse_key(rt_gguf *g, rt_gguf_cursor *c, uint32_t i, rt_err *e)
{
    unsigned long long where = at(g, c);
    uint32_t type, elem = 0;
    rt_span name;
    if (!rt_gguf_take_string(c, &name) || !rt_gguf_take(c, &type, 4))
        return rt_fail(e, RT_FORMAT, "%s: key %u at byte %llu runs past the end of the file; " AGAIN, g->path, i,
                       where);
    if (name.len == 0 || name.len > UINT16_MAX || memchr(name.data, 0, name.len))
        return rt_fail(e, RT_FORMAT, "%s: the name of key %u at byte %llu is empty, too long or not text; " AGAIN,
                       g->path, i, where);
    int shown = name.len > 100 ? 100 : (int)name.len;
    if (type >= RT_GGUF_TYPE_COUNT)
        return rt_fail(e, RT_FORMAT, "%s: key '%.*s' at byte %llu has type %u, which does not exist; " AGAIN, g->path,
                       shown, name.data, where, type);
    rt_gguf_key k = { .name = name, .type = (rt_gguf_type)type, .count = 1 };
    if (type == RT_GGUF_ARRAY) {
        if (!rt_gguf_take(c, &elem, 4) || !rt_gguf_take(c, &k.count, 8))
            return rt_fail(e, RT_FORMAT, "%s: key '%.*s' at byte %llu runs past the end of the file; " AGAIN, g->path,
                           shown, name.data, where);
        if (elem >= RT_GGUF_TYPE_COUNT)
            return rt_fail(e, RT_FORMAT,
                           "%s: key '%.*s' at byte %llu is an array of type %u, which does not exist; " AGAIN, g->path,
                           shown, name.data, where, elem);
        k.elem = (rt_gguf_type)elem;
        type = elem;
    }
    k.data = c->p;
    if (!skip(c, type, k.count, 1))
        return rt_fail(e, RT_FORMAT,
                       "%s: the value of key '%.*s' at byte %llu (%llu of %s) runs past the end of the file or is "
                       "nested too deep; " AGAIN,
                       g->path, shown, name.data, where, (unsigned long long)k.count, rt_gguf_types[type].name);
    if (!rt_grow((void **)&g->keys, &g->key_cap, i + 1, sizeof *g->keys)) return rt_no_memory(e, g->path);
    g->keys[g->key_count++] = k;
    return RT_OK;
}

static int by_name(const void *a, const void *b)
{
    return rt_gguf_compare(((const rt_gguf_key *)a)->name, ((const rt_gguf_key *)b)->name);
}

static int sort_keys(rt_gguf *g, rt_err *e)
{
    if (g->key_count > 1) qsort(g->keys, g->key_count, sizeof *g->keys, by_name);
    for (uint32_t i = 1; i < g->key_count; i++) {
        rt_span name = g->keys[i].name;
        if (rt_gguf_compare(g->keys[i - 1].name, name) == 0)
            return rt_fail(e, RT_FORMAT, "%s: key '%.*s' is there twice; convert the model again", g->path,
                           name.len > 100 ? 100 : (int)name.len, name.data);
    }
    return RT_OK;
}

static int parse_alignment(rt_gguf *g, rt_err *e)
{
    int rc;
    g->alignment = RT_GGUF_ALIGNMENT;
    RT_TRY(rt_gguf_get_u32(g, "general.alignment", &g->alignment, e));
    /* The format asks for a multiple of 8, so that every element can be read in place. */
    if (g->alignment < 8 || (g->alignment & (g->alignment - 1)) != 0)
        rc = rt_fail(e, RT_FORMAT,
                     "%s: general.alignment is %u; it must be a power of two and at least 8; convert the "
                     "model again",
                     g->path, g->alignment);
out:
    return rc;
}

int rt_gguf_parse(rt_gguf *g, const rt_map *map, const char *path, rt_err *e)
{
    int rc;
    uint64_t keys = 0;
    rt_gguf_cursor c = { map->data, map->data + map->size };
    *g = (rt_gguf){ .path = path, .map = *map };
    RT_TRY(parse_header(g, &c, &keys, e));
    for (uint32_t i = 0; i < keys; i++) RT_TRY(parse_key(g, &c, i, e));
    g->infos = at(g, &c);
    RT_TRY(sort_keys(g, e));
    RT_TRY(parse_alignment(g, e));
out:
    return rc;
}

void rt_gguf_free(rt_gguf *g)
{
    if (!g) return;
    rt_free(g->keys);
    *g = (rt_gguf){ 0 };
}

bool rt_gguf_is(const rt_map *map) { return map->size >= 4 && memcmp(map->data, "GGUF", 4) == 0; }
