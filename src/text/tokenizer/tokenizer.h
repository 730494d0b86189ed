/* tokenizer.h - text to token ids and back, to the same ids as the Hugging Face `tokenizers` package (tokenizer.json)
 * and llama.cpp (GGUF vocabularies).
 *
 * Owns: BPE models, byte-level and with byte fallback, SentencePiece vocabularies with scores, and what stands around
 * them: added tokens, normalizers, pre-tokenizers, post-processors, decoders. A component that is not known is refused
 * with RT_UNSUPPORTED and its place in the file. Leaves reading files to its callers, and which id has which role in a
 * model (end of turn, padding) to those who read tokenizer_config.json or the GGUF keys.
 *
 * `truncation` and `padding` of a tokenizer.json are not applied: they belong to a call, not to the mapping. A GGUF
 * vocabulary carries no normalizer, and none is applied, as in llama.cpp.
 *
 * Threads: a tokenizer does not change once made and may be used by any number of threads at once; each brings its own
 * scratch. */
#ifndef RT_TOKENIZER_TOKENIZER_H
#define RT_TOKENIZER_TOKENIZER_H

#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "format/model_file.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rt_tokenizer rt_tokenizer;

/* text is a whole tokenizer.json. */
int rt_tokenizer_from_json(rt_tokenizer **out, const char *text, size_t len, rt_err *e);
int rt_tokenizer_from_vocab(rt_tokenizer **out, const rt_vocab_spec *spec, rt_err *e);
/* Of a model: from its tokenizer.json, else from its vocabulary. RT_NOT_FOUND when it has neither. */
int rt_model_tokenizer(rt_tokenizer **out, const rt_model_text *t, rt_err *e);
void rt_tokenizer_free(rt_tokenizer *t); /* accepts null */

/* What one thread needs to encode with t: buffers and a bounded cache of words. */
typedef struct rt_tok_scratch rt_tok_scratch;
int rt_tok_scratch_new(rt_tok_scratch **out, const rt_tokenizer *t, rt_err *e);
void rt_tok_scratch_free(rt_tok_scratch *s); /* accepts null */

/* A growing array of ids; begin with zeroes, free ids with rt_free. */
typedef struct rt_tok_ids {
    uint32_t *ids;
    uint32_t count, cap;
} rt_tok_ids;

enum {
    RT_ENCODE_SPECIAL = 1, /* add what the post-processor adds: BOS, EOS */
    RT_ENCODE_PLAIN = 2,   /* text that spells a special token is text */
};
/* Appends the ids of text. Invalid UTF-8 is taken as Python's errors="replace" takes it. s was made for t. On failure
 * out is as it was. */
int rt_tokenizer_encode(const rt_tokenizer *t, rt_tok_scratch *s, const char *text, size_t len, unsigned flags,
                        rt_tok_ids *out, rt_err *e);

enum { RT_DECODE_SKIP_SPECIAL = 1 };
/* Appends the text of ids; valid UTF-8. An id that is not defined is an error (RT_INVALID) that names it. */
int rt_tokenizer_decode(const rt_tokenizer *t, const uint32_t *ids, size_t count, unsigned flags, rt_str *out,
                        rt_err *e);

/* The same id by id. What is appended is always whole characters; what cannot be decided yet waits for the next id or
 * for the end. All parts together are what rt_tokenizer_decode gives, but for runs of byte-fallback tokens that are not
 * valid UTF-8: there the characters that were complete have been given already. */
typedef struct rt_tok_stream rt_tok_stream;
int rt_tok_stream_new(rt_tok_stream **out, const rt_tokenizer *t, unsigned flags, rt_err *e);
int rt_tok_stream_push(rt_tok_stream *s, uint32_t id, rt_str *out, rt_err *e);
int rt_tok_stream_end(rt_tok_stream *s, rt_str *out, rt_err *e); /* gives the rest; the stream begins anew */
void rt_tok_stream_free(rt_tok_stream *s);                       /* accepts null */

/* Ids are below this; there may be holes. */
uint32_t rt_tokenizer_size(const rt_tokenizer *t);

typedef struct rt_token_info {
    rt_tok_text text;  /* as the vocabulary spells it */
    rt_tok_text bytes; /* what it stands for: "\xC4\xA0the" is " the", "<0x0A>" is a newline */
    bool special;      /* left out by RT_DECODE_SKIP_SPECIAL */
    bool added;        /* found in the text before the model sees it */
} rt_token_info;
/* false when the id is not defined: outside, a hole, or padding. */
bool rt_tokenizer_token(const rt_tokenizer *t, uint32_t id, rt_token_info *out);
/* The id that the vocabulary, with the added tokens, gives this spelling; -1 when it has none. */
int64_t rt_tokenizer_find(const rt_tokenizer *t, const char *text, size_t len);
/* The ids that RT_ENCODE_SPECIAL puts before and after a text. */
const uint32_t *rt_tokenizer_prefix(const rt_tokenizer *t, uint32_t *count);
const uint32_t *rt_tokenizer_suffix(const rt_tokenizer *t, uint32_t *count);

/* Identity: for each id that is defined whether it is special, and its bytes. Equal for one vocabulary in
 * tokenizer.json and in GGUF. */
rt_hash128 rt_tokenizer_hash(const rt_tokenizer *t);
/* One line for a person: "BPE, byte-level, 151643 tokens, 22 added (14 special)". */
void rt_tokenizer_describe(const rt_tokenizer *t, rt_str *out);

#endif
