/* vocab.h - a tokenizer's vocabulary as plain data, as GGUF metadata has it.
 *
 * Owns: the struct that the GGUF and APR formats fill and write, and that the text room makes a tokenizer from. No
 * behaviour: how text becomes ids is text/tokenizer.h. */
#ifndef RT_FORMAT_VOCAB_H
#define RT_FORMAT_VOCAB_H

#include "base/str.h"

#include <stdint.h>

/* A piece of text that need not be terminated and may hold any byte. */
typedef rt_span rt_tok_text;

/* Of tokenizer.ggml.token_type. */
typedef enum rt_vocab_type {
    RT_VOCAB_NORMAL = 1,
    RT_VOCAB_UNKNOWN = 2,
    RT_VOCAB_CONTROL = 3,
    RT_VOCAB_USER_DEFINED = 4,
    RT_VOCAB_UNUSED = 5, /* padding of the embedding, not a token */
    RT_VOCAB_BYTE = 6,
} rt_vocab_type;

/* A vocabulary as GGUF metadata has it. Who reads one copies what is kept. */
typedef struct rt_vocab_spec {
    const char *model; /* tokenizer.ggml.model: "gpt2" or "llama" */
    const char *pre;   /* tokenizer.ggml.pre, null when absent; needed for gpt2 */
    const rt_tok_text *tokens;
    uint32_t token_count;
    const float *scores;       /* (token_count), llama */
    const int32_t *types;      /* (token_count), or null: all normal */
    const rt_tok_text *merges; /* "left right", gpt2 */
    uint32_t merge_count;
    int64_t bos, eos; /* -1: none given */
    /* -1: not given, and then what llama.cpp takes for this model */
    int add_bos, add_eos, add_space_prefix;
} rt_vocab_spec;

#endif
