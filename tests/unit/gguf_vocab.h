/* gguf_vocab.h - the vocabulary of a GGUF file for tests: just enough of the format, for files that are known to be
 * good.
 *
 * Owns: reading tokenizer.ggml.* into an rt_vocab_spec. The library's own reader of GGUF is in the format room. */
#ifndef RT_TESTS_GGUF_VOCAB_H
#define RT_TESTS_GGUF_VOCAB_H

#include "text/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gguf_vocab {
    char *file;
    rt_vocab_spec spec;
    rt_tok_text *tokens, *merges;
    float *scores;
    int32_t *types;
    char model[64], pre[64];
} gguf_vocab;

typedef struct gguf_cursor {
    const char *p, *end;
    int bad;
} gguf_cursor;

static inline uint64_t gguf_take(gguf_cursor *c, size_t n)
{
    uint64_t v = 0;
    if ((size_t)(c->end - c->p) < n) {
        c->bad = 1;
        return 0;
    }
    memcpy(&v, c->p, n);
    c->p += n;
    return v;
}

static inline rt_tok_text gguf_string(gguf_cursor *c)
{
    size_t n = (size_t)gguf_take(c, 8);
    if ((size_t)(c->end - c->p) < n) {
        c->bad = 1;
        return (rt_tok_text){ "", 0 };
    }
    rt_tok_text s = { c->p, n };
    c->p += n;
    return s;
}

static inline size_t gguf_size(uint32_t type)
{
    static const size_t sizes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    return type < sizeof sizes / sizeof sizes[0] ? sizes[type] : 0;
}

static inline int gguf_key(rt_tok_text key, const char *name)
{
    static const char prefix[] = "tokenizer.ggml.";
    size_t n = sizeof prefix - 1;
    return key.len == n + strlen(name) && memcmp(key.data, prefix, n) == 0 &&
           memcmp(key.data + n, name, strlen(name)) == 0;
}

static inline void gguf_array(gguf_vocab *v, gguf_cursor *c, rt_tok_text key)
{
    uint32_t type = (uint32_t)gguf_take(c, 4);
    uint64_t n = gguf_take(c, 8);
    if (type == 8) {
        rt_tok_text *list = malloc((n + 1) * sizeof *list);
        for (uint64_t i = 0; i < n && !c->bad; i++) list[i] = gguf_string(c);
        if (gguf_key(key, "tokens")) {
            v->spec.tokens = v->tokens = list;
            v->spec.token_count = (uint32_t)n;
        } else if (gguf_key(key, "merges")) {
            v->spec.merges = v->merges = list;
            v->spec.merge_count = (uint32_t)n;
        } else {
            free(list);
        }
        return;
    }
    size_t bytes = n * gguf_size(type);
    if ((size_t)(c->end - c->p) < bytes) {
        c->bad = 1;
        return;
    }
    if (gguf_key(key, "scores")) {
        v->spec.scores = v->scores = malloc(bytes + 1);
        memcpy(v->scores, c->p, bytes);
    } else if (gguf_key(key, "token_type")) {
        v->spec.types = v->types = malloc(bytes + 1);
        memcpy(v->types, c->p, bytes);
    }
    c->p += bytes;
}

static inline void gguf_value(gguf_vocab *v, gguf_cursor *c, rt_tok_text key)
{
    uint32_t type = (uint32_t)gguf_take(c, 4);
    if (type == 9) {
        gguf_array(v, c, key);
    } else if (type == 8) {
        rt_tok_text s = gguf_string(c);
        if (gguf_key(key, "model")) snprintf(v->model, sizeof v->model, "%.*s", (int)s.len, s.data);
        if (gguf_key(key, "pre")) {
            snprintf(v->pre, sizeof v->pre, "%.*s", (int)s.len, s.data);
            v->spec.pre = v->pre;
        }
    } else {
        uint64_t n = gguf_take(c, gguf_size(type));
        if (gguf_key(key, "bos_token_id")) v->spec.bos = (int64_t)n;
        if (gguf_key(key, "eos_token_id")) v->spec.eos = (int64_t)n;
        if (gguf_key(key, "add_bos_token")) v->spec.add_bos = n != 0;
        if (gguf_key(key, "add_eos_token")) v->spec.add_eos = n != 0;
        if (gguf_key(key, "add_space_prefix")) v->spec.add_space_prefix = n != 0;
    }
}

/* The whole of a file, null when it is not there; *len gets its size. Free with free. */
static inline char *read_whole(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    fseek(f, 0, SEEK_END);
    long n = ftell(f);
    rewind(f);
    char *data = malloc((size_t)n + 1);
    *len = fread(data, 1, (size_t)n, f);
    data[*len] = 0;
    fclose(f);
    return data;
}

static inline int gguf_vocab_read(gguf_vocab *v, const char *path)
{
    size_t len;
    memset(v, 0, sizeof *v);
    v->spec = (rt_vocab_spec){
        .model = v->model, .bos = -1, .eos = -1, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1
    };
    v->file = read_whole(path, &len);
    if (!v->file) return -1;
    gguf_cursor c = { v->file, v->file + len, 0 };
    if (gguf_take(&c, 4) != 0x46554747) return -1;
    gguf_take(&c, 4);
    gguf_take(&c, 8);
    for (uint64_t n = gguf_take(&c, 8); n > 0 && !c.bad; n--) {
        rt_tok_text key = gguf_string(&c);
        gguf_value(v, &c, key);
    }
    /* What llama.cpp takes when the keys are missing. */
    if (strcmp(v->model, "llama") == 0 && v->spec.bos < 0) v->spec.bos = 1;
    if (strcmp(v->model, "llama") == 0 && v->spec.eos < 0) v->spec.eos = 2;
    return c.bad ? -1 : 0;
}

static inline void gguf_vocab_free(gguf_vocab *v)
{
    free(v->file);
    free(v->tokens);
    free(v->merges);
    free(v->scores);
    free(v->types);
}

#endif
