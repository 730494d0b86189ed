/* vocab_pre.h - which of GGUF's ways to split text a tokenizer.json has. Internal to text. */
#ifndef RT_TOKENIZER_VOCAB_PRE_H
#define RT_TOKENIZER_VOCAB_PRE_H

#include "base/err.h"
#include "base/mem.h"
#include "base/str.h"

#include <jansson.h>

/* root: a whole tokenizer.json that loads. Byte-level: the name for tokenizer.ggml.pre, allocated in a; RT_UNSUPPORTED
 * names the pattern that GGUF has no name for. */
int rt_vocab_pre_bytes(const json_t *root, bool ignore_merges, const char **name, rt_arena *a, rt_str *notes,
                       rt_err *e);
/* With byte fallback: whether a space is put before a text. */
int rt_vocab_pre_spm(const json_t *root, bool *prefix_space, rt_str *notes, rt_err *e);

#endif
