/* gguf_get.c - keys of a GGUF file, found, and their values as the C types that their users want.
 *
 * Owns: conversion and its refusals. A key that is absent leaves its target alone; what is then right, the caller
 * knows. */
#include "format/gguf/gguf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const rt_gguf_value_type rt_gguf_types[RT_GGUF_TYPE_COUNT] = {
#define X(name, number, text, bytes) [number] = { text, bytes },
    RT_GGUF_TYPE_LIST(X)
#undef X
};

int rt_gguf_compare(rt_span a, rt_span b)
{
    int c = memcmp(a.data, b.data, a.len < b.len ? a.len : b.len);
    return c != 0 ? c : (a.len > b.len) - (a.len < b.len);
}

const rt_gguf_key *rt_gguf_find(const rt_gguf *g, const char *name)
{
    rt_span want = { name, strlen(name) };
    uint32_t low = 0, high = g->key_count;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        int c = rt_gguf_compare(g->keys[mid].name, want);
        if (c == 0) return &g->keys[mid];
        if (c < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return NULL;
}

static int wrong_type(const rt_gguf *g, const rt_gguf_key *k, const char *wanted, rt_err *e)
{
    bool array = k->type == RT_GGUF_ARRAY;
    return rt_fail(e, RT_FORMAT, "%s: key '%.*s' is %s%s, but must be %s; convert the model again", g->path,
                   (int)k->name.len, k->name.data, array ? "an array of " : "a ",
                   rt_gguf_types[array ? k->elem : k->type].name, wanted);
}

static int64_t signed_at(const uint8_t *p, rt_gguf_type t)
{
    unsigned bytes = rt_gguf_types[t].bytes, unused = 64 - 8 * bytes;
    return (int64_t)(rt_load_le(p, bytes) << unused) >> unused;
}

/* false when the type is not an integer; *negative values have no magnitude here. */
static bool integer_at(const uint8_t *p, rt_gguf_type t, uint64_t *out, bool *negative)
{
    *negative = false;
    switch (t) {
    case RT_GGUF_U8:
    case RT_GGUF_U16:
    case RT_GGUF_U32:
    case RT_GGUF_U64: *out = rt_load_le(p, rt_gguf_types[t].bytes); return true;
    case RT_GGUF_I8:
    case RT_GGUF_I16:
    case RT_GGUF_I32:
    case RT_GGUF_I64:
        *negative = signed_at(p, t) < 0;
        *out = *negative ? 0 : (uint64_t)signed_at(p, t);
        return true;
    default: *out = 0; return false;
    }
}

int rt_gguf_get_u32(const rt_gguf *g, const char *name, uint32_t *out, rt_err *e)
{
    const rt_gguf_key *k = rt_gguf_find(g, name);
    if (!k) return RT_OK;
    rt_gguf_type t = k->type == RT_GGUF_ARRAY ? k->elem : k->type;
    uint64_t first = 0;
    if (k->count == 0) return wrong_type(g, k, "a number", e);
    for (uint64_t i = 0; i < k->count; i++) {
        uint64_t v;
        bool negative;
        if (!integer_at(k->data + i * rt_gguf_types[t].bytes, t, &v, &negative))
            return wrong_type(g, k, "a whole number", e);
        if (negative || v > UINT32_MAX)
            return rt_fail(e, RT_FORMAT, "%s: key '%s' is out of range (0 to %u); convert the model again", g->path,
                           name, UINT32_MAX);
        if (i > 0 && v != first)
            return rt_fail(e, RT_UNSUPPORTED,
                           "%s: key '%s' is not the same for all layers (%llu in layer 0, %llu in layer %llu); models "
                           "whose layers have different shapes are not supported",
                           g->path, name, (unsigned long long)first, (unsigned long long)v, (unsigned long long)i);
        first = v;
    }
    *out = (uint32_t)first;
    return RT_OK;
}

static double shortest(float f)
{
    char text[32];
    for (int digits = 1; digits < 9; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, (double)f);
        if (strtof(text, NULL) == f) return strtod(text, NULL);
    }
    return (double)f;
}

int rt_gguf_get_f64(const rt_gguf *g, const char *name, double *out, rt_err *e)
{
    const rt_gguf_key *k = rt_gguf_find(g, name);
    if (!k) return RT_OK;
    uint64_t whole;
    bool negative;
    float f;
    if (k->type == RT_GGUF_F32) {
        memcpy(&f, k->data, 4);
        *out = shortest(f);
    } else if (k->type == RT_GGUF_F64) {
        memcpy(out, k->data, 8);
    } else if (k->type != RT_GGUF_ARRAY && integer_at(k->data, k->type, &whole, &negative)) {
        *out = negative ? (double)signed_at(k->data, k->type) : (double)whole;
    } else {
        return wrong_type(g, k, "a number", e);
    }
    return RT_OK;
}

int rt_gguf_get_bool(const rt_gguf *g, const char *name, bool *out, rt_err *e)
{
    const rt_gguf_key *k = rt_gguf_find(g, name);
    if (!k) return RT_OK;
    if (k->type != RT_GGUF_BOOL) return wrong_type(g, k, "a bool", e);
    *out = k->data[0] != 0;
    return RT_OK;
}

static rt_span string_at(const uint8_t **p)
{
    uint64_t n;
    memcpy(&n, *p, 8);
    rt_span s = { (const char *)*p + 8, (size_t)n };
    *p += 8 + n;
    return s;
}

int rt_gguf_get_string(const rt_gguf *g, const char *name, rt_span *out, rt_err *e)
{
    const rt_gguf_key *k = rt_gguf_find(g, name);
    if (!k) return RT_OK;
    if (k->type != RT_GGUF_STRING) return wrong_type(g, k, "a string", e);
    const uint8_t *p = k->data;
    *out = string_at(&p);
    return RT_OK;
}

int rt_gguf_get_strings(const rt_gguf *g, const char *name, const rt_span **out, uint32_t *count, rt_arena *a,
                        rt_err *e)
{
    const rt_gguf_key *k = rt_gguf_find(g, name);
    *count = 0;
    if (!k) return RT_OK;
    if (k->type != RT_GGUF_ARRAY || k->elem != RT_GGUF_STRING) return wrong_type(g, k, "an array of strings", e);
    if (k->count > UINT32_MAX / 2)
        return rt_fail(e, RT_FORMAT, "%s: key '%s' has too many entries; convert the model again", g->path, name);
    rt_span *list = rt_arena_alloc(a, (size_t)(k->count + 1) * sizeof *list);
    if (!list) return rt_no_memory(e, g->path);
    const uint8_t *p = k->data;
    for (uint64_t i = 0; i < k->count; i++) list[i] = string_at(&p);
    *out = list;
    *count = (uint32_t)k->count;
    return RT_OK;
}

/* A copy: arrays begin at any byte of the file. */
static int get_words(const rt_gguf *g, const char *name, bool real, const void **out, uint64_t *count, rt_arena *a,
                     rt_err *e)
{
    const rt_gguf_key *k = rt_gguf_find(g, name);
    *count = 0;
    if (!k) return RT_OK;
    if (k->type != RT_GGUF_ARRAY || (real ? k->elem != RT_GGUF_F32 : k->elem != RT_GGUF_I32 && k->elem != RT_GGUF_U32))
        return wrong_type(g, k, real ? "an array of f32" : "an array of i32", e);
    void *copy = rt_arena_alloc(a, (size_t)(k->count + 1) * 4);
    if (!copy) return rt_no_memory(e, g->path);
    memcpy(copy, k->data, (size_t)k->count * 4);
    *out = copy;
    *count = k->count;
    return RT_OK;
}

int rt_gguf_get_f32s(const rt_gguf *g, const char *name, const float **out, uint64_t *count, rt_arena *a, rt_err *e)
{
    const void *copy = NULL;
    int rc = get_words(g, name, true, &copy, count, a, e);
    *out = copy;
    return rc;
}

int rt_gguf_get_i32s(const rt_gguf *g, const char *name, const int32_t **out, uint64_t *count, rt_arena *a, rt_err *e)
{
    const void *copy = NULL;
    int rc = get_words(g, name, false, &copy, count, a, e);
    *out = copy;
    return rc;
}
