/* tok_gguf.h - the table of GGUF's pre-tokenizers, for those who convert vocabularies. Internal to text. */
#ifndef RT_TOKENIZER_TOK_GGUF_H
#define RT_TOKENIZER_TOK_GGUF_H

#include <stdbool.h>
#include <stdint.h>

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

#endif
