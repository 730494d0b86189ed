/* foreign.h - what other tools write of a teacher, read and written: axolotl's and vLLM's JSON lines, surogate's .kd.
 *
 * Each gives documents: token ids, and for positions the likely ids with log-probabilities. None has the mass of the
 * rest: it is 1 minus what is listed. None tells its temperature: that is the caller's to know. docs/teacher-cache.md
 * has the fields, and where they were looked up.
 *
 * Owns: these formats, and the way from a document to positions of a cache and back. */
#ifndef RT_TEACHER_CACHE_FOREIGN_H
#define RT_TEACHER_CACHE_FOREIGN_H

#include "base/str.h"
#include "teacher/cache/cache.h"

enum { RT_FOREIGN_MOST_K = 1024, RT_FOREIGN_MOST_TOKENS = 1 << 24, RT_FOREIGN_MOST_ENTRIES = 1 << 28 /* 2 GiB */ };

typedef struct rt_foreign_doc {
    uint32_t tokens, k;
    int32_t *ids; /* (tokens) */
    /* What is said after each token, of the next. (tokens,k) as in rt_cache_block; a position whose ids are all -1 is
     * one of which nothing is said. rest: (tokens) */
    int32_t *id;
    float *logp, *rest;
} rt_foreign_doc;
/* Nothing is said of any position; ids are zeros. */
int rt_foreign_doc_new(rt_foreign_doc *d, uint32_t tokens, uint32_t k, rt_err *e);
void rt_foreign_doc_free(rt_foreign_doc *d); /* accepts zeroes; leaves zeroes */

/* ---- and caches (foreign.c) ---- */

/* Every position of d of which something is said. The section is a top-k one without targets, of at least d->k. */
int rt_foreign_put(rt_cache_writer *w, const rt_cache_section *s, const rt_foreign_doc *d, rt_err *e);
/* Every position of d, by its ids, that the cache has; d->k is the section's. */
int rt_foreign_take(const rt_cache *c, uint32_t section, rt_foreign_doc *d, rt_err *e);

/* ---- JSON lines (foreign_jsonl.c) ---- */

typedef enum rt_foreign_lines {
    RT_FOREIGN_AXOLOTL, /* "logprobs", ids of the text in "input_ids" */
    RT_FOREIGN_VLLM,    /* "prompt_logprobs" and "prompt_token_ids", also within the only element of "choices" */
} rt_foreign_lines;

/* One line as a document, of each position the k highest. ids (tokens): the text's, where the line does not have them;
 * null: it must. RT_FORMAT. *out is the caller's to free. */
int rt_foreign_line_read(rt_foreign_doc *out, rt_foreign_lines kind, const char *line, size_t len, const int32_t *ids,
                         uint32_t tokens, uint32_t k, rt_err *e);
/* Appends a line. The rest is lost: whoever reads it has 1 minus what is listed. */
void rt_foreign_line_write(rt_str *out, rt_foreign_lines kind, const rt_foreign_doc *d);

/* ---- surogate's .kd beside its token shard (foreign_kd.c) ---- */

typedef struct rt_foreign_kd rt_foreign_kd;
/* window: the sequence length of the capture, at whose multiples the teacher began anew; 0: at documents alone. */
int rt_foreign_kd_open(rt_foreign_kd **out, const char *shard, const char *kd, uint32_t window, rt_err *e);
uint32_t rt_foreign_kd_k(const rt_foreign_kd *f);
/* 1 with the next document (position ids that begin again, or a window), which is the caller's to free; 0 at the end.
 */
int rt_foreign_kd_next(rt_foreign_kd *f, rt_foreign_doc *d, rt_err *e);
void rt_foreign_kd_close(rt_foreign_kd *f); /* accepts null */
/* Both files, of documents with one k. hash: up to 16 characters, which surogate compares with its .tokenize_hash.
 * Log-probabilities are rounded to f16, and rest is lost. */
int rt_foreign_kd_write(const char *shard, const char *kd, const rt_foreign_doc *docs, uint32_t count, uint32_t vocab,
                        const char *hash, rt_err *e);

#endif
