/* gguf_vocab.h - the vocabulary of a GGUF file, and whole files, for tests of the text room.
 *
 * Owns: nothing but convenience over format/model_file.h. */
#ifndef RT_TESTS_GGUF_VOCAB_H
#define RT_TESTS_GGUF_VOCAB_H

#include "format/model_file.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct gguf_vocab {
    rt_model_file *opened; /* what is below lives as long as this */
    rt_vocab_spec spec;
    const char *model, *pre; /* those of spec */
} gguf_vocab;

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

/* -1 when there is no such file, or it is no GGUF file with a vocabulary. */
static inline int gguf_vocab_read(gguf_vocab *v, const char *path)
{
    rt_err e = { 0 };
    rt_hub_env env = { 0 };
    memset(v, 0, sizeof *v);
    size_t len = 0;
    char *bytes = read_whole(path, &len);
    bool gguf = bytes && len >= 4 && memcmp(bytes, "GGUF", 4) == 0;
    free(bytes);
    if (!gguf) return -1;
    if (rt_model_file_open(&v->opened, path, &env, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return -1;
    }
    v->spec = v->opened->text.vocab;
    v->model = v->spec.model;
    v->pre = v->spec.pre;
    return v->opened->text.has_vocab ? 0 : -1;
}

static inline void gguf_vocab_free(gguf_vocab *v)
{
    rt_model_file_close(v->opened);
    memset(v, 0, sizeof *v);
}

#endif
