/* gguf_build.h - GGUF files for tests, byte by byte, good or bad; opening and closing them without the rest of the
 * room.
 *
 * Owns: a builder that knows no rule of the format but its order, so that every rule can be broken. The library's own
 * writer is not used. */
#ifndef RT_TESTS_GGUF_BUILD_H
#define RT_TESTS_GGUF_BUILD_H

#include "format/gguf/gguf.h"
#include "format/model_write.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct gguf_build {
    rt_str keys, infos, data;
    uint64_t key_count, tensor_count;
    uint32_t version, alignment;
} gguf_build;

static inline gguf_build gb_new(void) { return (gguf_build){ .version = 3, .alignment = 32 }; }

static inline void gb_free(gguf_build *b)
{
    rt_str_free(&b->keys);
    rt_str_free(&b->infos);
    rt_str_free(&b->data);
}

static inline void gb_raw(rt_str *s, const void *data, size_t n) { rt_str_append_n(s, data, n); }
static inline void gb_u64(rt_str *s, uint64_t v) { gb_raw(s, &v, 8); }
static inline void gb_text(rt_str *s, const char *text)
{
    gb_u64(s, strlen(text));
    gb_raw(s, text, strlen(text));
}

static inline void gb_key(gguf_build *b, const char *key, uint32_t type, const void *value, size_t bytes)
{
    gb_text(&b->keys, key);
    gb_raw(&b->keys, &type, 4);
    gb_raw(&b->keys, value, bytes);
    b->key_count++;
}
static inline void gb_u32(gguf_build *b, const char *key, uint32_t v) { gb_key(b, key, RT_GGUF_U32, &v, 4); }
static inline void gb_f32(gguf_build *b, const char *key, float v) { gb_key(b, key, RT_GGUF_F32, &v, 4); }
static inline void gb_bool(gguf_build *b, const char *key, uint8_t v) { gb_key(b, key, RT_GGUF_BOOL, &v, 1); }
static inline void gb_string(gguf_build *b, const char *key, const char *text)
{
    gb_key(b, key, RT_GGUF_STRING, NULL, 0);
    gb_text(&b->keys, text);
}
static inline void gb_array(gguf_build *b, const char *key, uint32_t elem, uint64_t n, const void *data, size_t bytes)
{
    gb_key(b, key, RT_GGUF_ARRAY, &elem, 4);
    gb_u64(&b->keys, n);
    gb_raw(&b->keys, data, bytes);
}
static inline void gb_strings(gguf_build *b, const char *key, const char *const *list, uint32_t n)
{
    gb_array(b, key, RT_GGUF_STRING, n, NULL, 0);
    for (uint32_t i = 0; i < n; i++) gb_text(&b->keys, list[i]);
}

/* A description alone; shape is outermost first. */
static inline void gb_info(gguf_build *b, const char *name, uint32_t rank, const uint64_t *shape, uint32_t type,
                           uint64_t offset)
{
    gb_text(&b->infos, name);
    gb_raw(&b->infos, &rank, 4);
    for (uint32_t i = rank; i-- > 0;) gb_u64(&b->infos, shape[i]);
    gb_raw(&b->infos, &type, 4);
    gb_u64(&b->infos, offset);
    b->tensor_count++;
}

static inline void gb_pad(rt_str *s, uint32_t alignment)
{
    while (s->len % alignment) gb_raw(s, "", 1);
}

/* An f32 tensor: element i is first + i. */
static inline void gb_tensor(gguf_build *b, const char *name, uint64_t rows, uint64_t cols, float first)
{
    uint64_t shape[2] = { rows, cols };
    gb_info(b, name, rows ? 2 : 1, rows ? shape : shape + 1, 0, b->data.len);
    for (uint64_t i = 0; i < (rows ? rows : 1) * cols; i++) {
        float v = first + (float)i;
        gb_raw(&b->data, &v, 4);
    }
    gb_pad(&b->data, b->alignment);
}

static inline void gb_bytes(const gguf_build *b, rt_str *out)
{
    gb_raw(out, "GGUF", 4);
    gb_raw(out, &b->version, 4);
    gb_u64(out, b->tensor_count);
    gb_u64(out, b->key_count);
    gb_raw(out, b->keys.data, b->keys.len);
    gb_raw(out, b->infos.data, b->infos.len);
    if (b->tensor_count) gb_pad(out, b->alignment);
    gb_raw(out, b->data.data, b->data.len);
}

static inline void gb_write(const char *path, const void *data, size_t n)
{
    FILE *f = fopen(path, "wb");
    if (!f || fwrite(data, 1, n, f) != n || fclose(f) != 0) abort();
}

static inline void gb_save(const gguf_build *b, const char *path)
{
    rt_str s = { 0 };
    gb_bytes(b, &s);
    gb_write(path, s.data, s.len);
    rt_str_free(&s);
}

/* The keys of a small model of an architecture. */
static inline void gb_model_keys(gguf_build *b, const char *arch)
{
    static const struct {
        const char *suffix;
        uint32_t value;
    } numbers[] = { { "block_count", 1 },
                    { "context_length", 64 },
                    { "embedding_length", 8 },
                    { "feed_forward_length", 12 },
                    { "attention.head_count", 2 } };
    char key[100];
    gb_string(b, "general.architecture", arch);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        snprintf(key, sizeof key, "%s.%s", arch, numbers[i].suffix);
        gb_u32(b, key, numbers[i].value);
    }
    snprintf(key, sizeof key, "%s.attention.layer_norm_rms_epsilon", arch);
    gb_f32(b, key, 1e-5f);
}

/* Its tensors: one layer, width 8, two heads of four, hidden 12, vocabulary of 5. */
static inline void gb_model_tensors(gguf_build *b)
{
    gb_tensor(b, "token_embd.weight", 5, 8, 0);
    gb_tensor(b, "blk.0.attn_norm.weight", 0, 8, 100);
    gb_tensor(b, "blk.0.attn_q.weight", 8, 8, 200);
    gb_tensor(b, "blk.0.attn_k.weight", 8, 8, 300);
    gb_tensor(b, "blk.0.attn_v.weight", 8, 8, 400);
    gb_tensor(b, "blk.0.attn_output.weight", 8, 8, 500);
    gb_tensor(b, "blk.0.ffn_norm.weight", 0, 8, 600);
    gb_tensor(b, "blk.0.ffn_gate.weight", 12, 8, 700);
    gb_tensor(b, "blk.0.ffn_up.weight", 12, 8, 800);
    gb_tensor(b, "blk.0.ffn_down.weight", 8, 12, 900);
    gb_tensor(b, "output_norm.weight", 0, 8, 1000);
}

/* Just this room's part of opening a file. */
static inline int gb_open(rt_model_file *m, const char *path, rt_err *e)
{
    uint32_t part;
    memset(m, 0, sizeof *m);
    m->spec = m->path = path;
    int rc = rt_model_add_part(m, path, &part, e);
    return rc < 0 ? rc : rt_gguf_read(m, part, e);
}

static inline void gb_close(rt_model_file *m)
{
    for (uint32_t i = 0; i < m->part_count; i++) rt_map_close(&m->parts[i].map);
    rt_arena_free(&m->arena);
    memset(m, 0, sizeof *m);
}

static inline const rt_tensor *gb_find(const rt_model_file *m, const char *file_name)
{
    for (uint32_t i = 0; i < m->tensor_count; i++)
        if (strcmp(m->tensors[i].file_name, file_name) == 0) return &m->tensors[i];
    return NULL;
}

static inline bool gb_noted(const rt_model_file *m, const char *part)
{
    for (uint32_t i = 0; i < m->note_count; i++)
        if (strstr(m->notes[i], part)) return true;
    return false;
}

#endif
