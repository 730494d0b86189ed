/* tok_gguf.h - GGUF's pre-tokenizers: the table, and which of them a tokenizer.json has. Internal to text. */
#ifndef RT_TOKENIZER_TOK_GGUF_H
#define RT_TOKENIZER_TOK_GGUF_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#include <jansson.h>

enum { RT_TOK_PRE_PATTERNS = 6 };

typedef struct rt_tok_gguf_pre {
    const char *names; /* separated and surrounded by spaces; the first is the one to write */
    bool ignore_merges, add_bos;
    const char *patterns[RT_TOK_PRE_PATTERNS]; /* matches are isolated, one pattern after another; then bytes */
} rt_tok_gguf_pre;

/* Null past the last. */
const rt_tok_gguf_pre *rt_tok_gguf_pre_at(uint32_t i);
/* Null when there is no such name. */
const rt_tok_gguf_pre *rt_tok_gguf_pre_find(const char *name);

/* root: a whole tokenizer.json that loads (vocab_pre.c). Byte-level: the name for tokenizer.ggml.pre, allocated in a;
 * RT_UNSUPPORTED names the pattern that GGUF has no name for. */
int rt_vocab_pre_bytes(const json_t *root, bool ignore_merges, const char **name, rt_arena *a, rt_str *notes,
                       rt_err *e);
/* With byte fallback: whether a space is put before a text. */
int rt_vocab_pre_spm(const json_t *root, bool *prefix_space, rt_str *notes, rt_err *e);

#endif
