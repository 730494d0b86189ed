/* vocab_convert.h - one vocabulary in its two forms: tokenizer.json, and the plain lists of GGUF and APR.
 *
 * Owns: both directions, and the small byte-level tokenizer of models that have none of their own. Ids survive. What
 * the other form cannot say is refused by name (RT_UNSUPPORTED), so that the caller may leave the tokenizer out, or,
 * where every other tool loses it too, said in a note. */
#ifndef RT_TOKENIZER_VOCAB_CONVERT_H
#define RT_TOKENIZER_VOCAB_CONVERT_H

#include "format/model_file.h"
#include "text/tokenizer/tokenizer.h"

/* tokenizer.json as lists by id, allocated in a. vocab: rows of the model's embedding; ids without a token up to it are
 * UNUSED "[PADn]"; 0: only as many as there are tokens. bos and eos are those that the post-processor adds, else -1.
 * notes: a sentence and a newline for each thing that is lost; may be null. */
int rt_vocab_from_json(rt_vocab_spec *out, rt_arena *a, rt_span tokenizer_json, uint32_t vocab, rt_str *notes,
                       rt_err *e);

/* Appends a tokenizer.json that gives the same ids. */
int rt_vocab_to_json(const rt_vocab_spec *v, rt_str *json, rt_err *e);
/* Appends the tokenizer_config.json that goes with it: bos_token and the like, chat_template. */
int rt_vocab_to_config(const rt_model_text *t, rt_str *json, rt_err *e);

/* What t must hold to be written as container `to`, in *out: vocabulary and ids for GGUF and APR, tokenizer.json and
 * tokenizer_config.json for Hugging Face, made from the other form where absent. New parts are allocated in a, the
 * others are t's own. A model without a tokenizer stays without; for APR one that lists cannot say stays a
 * tokenizer.json alone, with a note. */
int rt_model_text_for(rt_model_text *out, const rt_model_text *t, rt_container to, uint32_t vocab, rt_arena *a,
                      rt_str *notes, rt_err *e);

/* Of tiny presets: 256 byte-level tokens, each with its byte as id, then <|endoftext|> 256, <|im_start|> 257 and
 * <|im_end|> 258. RT_INVALID when the model's vocabulary has no room for them. */
enum { RT_BYTE_TOKENS = 259 };
int rt_byte_tokenizer_json(rt_str *out, uint32_t vocab, rt_err *e);
/* Its tokenizer_config.json, with a ChatML template that marks what the assistant wrote; <|im_end|> is the eos. */
int rt_byte_tokenizer_config(rt_str *out, rt_err *e);

#endif
