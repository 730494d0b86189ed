/* tok_json.h - members of tokenizer.json with their place in the file, for the tok_json*.c files.
 *
 * Owns: the getters, whose messages say what was expected and where, and the readers of the parts. */
#ifndef RT_TOKENIZER_TOK_JSON_H
#define RT_TOKENIZER_TOK_JSON_H

#include "text/tokenizer/tok_internal.h"

#include <jansson.h>

/* A value and its place: "pre_tokenizer.pretokenizers[1].pattern". */
typedef struct rt_tok_json {
    const json_t *value; /* null: absent */
    char path[160];
} rt_tok_json;

rt_tok_json rt_tok_json_member(const rt_tok_json *object, const char *key);
rt_tok_json rt_tok_json_item(const rt_tok_json *array, size_t index);
/* Absent and null are the same. */
bool rt_tok_json_none(const rt_tok_json *v);
/* RT_FORMAT "path: expected a string". */
int rt_tok_json_string(const rt_tok_json *v, rt_tok_text *out, rt_err *e);
int rt_tok_json_bool(const rt_tok_json *object, const char *key, bool *out, rt_err *e);
/* A boolean that may be absent or null. */
int rt_tok_json_bool_or(const rt_tok_json *object, const char *key, bool fallback, bool *out, rt_err *e);
int rt_tok_json_uint(const rt_tok_json *v, uint32_t *out, rt_err *e);
int rt_tok_json_array(const rt_tok_json *v, size_t *count, rt_err *e);
int rt_tok_json_object(const rt_tok_json *v, rt_err *e);
/* The member "type" of an object. */
int rt_tok_json_type(const rt_tok_json *object, rt_tok_text *out, rt_err *e);
bool rt_tok_json_is(rt_tok_text text, const char *word);
/* RT_UNSUPPORTED: names the type and the path. */
int rt_tok_json_unknown(const rt_tok_json *object, rt_tok_text type, const char *what, rt_err *e);

int rt_tok_json_model(rt_tokenizer *t, const rt_tok_json *v, rt_err *e);
/* Each may be null in the file. depth counts nested sequences. */
int rt_tok_json_normalizer(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e);
int rt_tok_json_pre_tokenizer(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e);
int rt_tok_json_decoder(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e);
int rt_tok_json_post_processor(rt_tokenizer *t, const rt_tok_json *v, unsigned depth, rt_err *e);
/* "pattern": {"String": ...} or {"Regex": ...}. */
int rt_tok_json_pattern(rt_tokenizer *t, const rt_tok_json *object, bool matchers, rt_tok_pattern *out, rt_err *e);

#endif
