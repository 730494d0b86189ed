/* model_text.h - all that a model has for text, from whatever the user named: tokenizer, chat template, special tokens,
 * and which id ends a text or a turn.
 *
 * Owns: the places where each is looked for, and what counts where two of them differ. Weights are not needed: a
 * directory, a tokenizer.json or a GGUF with a vocabulary only will do. */
#ifndef RT_DATA_MODEL_TEXT_H
#define RT_DATA_MODEL_TEXT_H

#include "format/model_file.h"
#include "text/jinja/chat_template.h"
#include "text/tokenizer/tokenizer.h"

typedef struct rt_text_source {
    rt_arena arena;
    const char *path; /* what was opened */
    rt_tokenizer *tokenizer;
    rt_chat_template *chat; /* null when there is none, or none that can be run: then chat_err says why */
    rt_err chat_err;        /* RT_OK otherwise */
    /* What templates see: bos_token, eos_token, unk_token, pad_token and so on as strings, additional_special_tokens as
     * a list. Never null. */
    json_t *special;
    int64_t bos, eos, pad, unk; /* -1: none */
    /* The id that ends what the assistant says under this template: the special token that the template puts behind it;
     * where there is no template, or it puts none there, the GGUF key's, else eos. -1 when there is none of them. */
    int64_t end_of_turn;
    const char *end_of_turn_text; /* its spelling; null when there is none */
    rt_model_file *model;         /* where one was opened for it; null otherwise */
} rt_text_source;

/* spec: a model as rt_model_file_open takes it, a tokenizer.json, or a directory or org/name that holds at least a
 * tokenizer.json. */
int rt_text_open(rt_text_source **out, const char *spec, const rt_hub_env *env, rt_err *e);
/* The same of a model that is open already, which must stay so. c may be null. */
int rt_text_from_model(rt_text_source **out, const rt_model_text *t, const rt_model_config *c, const char *path,
                       rt_err *e);
void rt_text_close(rt_text_source *s); /* accepts null */

/* The ids that end what a model says, each once. */
typedef struct rt_stops {
    uint32_t ids[RT_MAX_EOS + 2];
    uint32_t count;
} rt_stops;
/* Those of the configuration, and the ids that end a text and a turn; -1: none. */
rt_stops rt_stops_of(const rt_model_config *c, int64_t eos, int64_t end_of_turn);
bool rt_stops_has(const rt_stops *s, uint32_t id);

#endif
