/* model_text_files.h - the files of a Hugging Face directory that concern text, and the special tokens in them.
 * Internal to text. */
#ifndef RT_DATA_MODEL_TEXT_FILES_H
#define RT_DATA_MODEL_TEXT_FILES_H

#include "text/data/model_text.h"

#include <jansson.h>

/* Fills t from the files in folder, each where present; tokenizer: the path of tokenizer.json, or null to take that of
 * the folder, which then must be there (RT_NOT_FOUND). */
int rt_text_files_read(rt_model_text *t, const char *folder, const char *tokenizer, rt_arena *a, rt_err *e);
/* The template in a tokenizer_config.json: a string, or of a list the one named "default"; null when there is none. */
const json_t *rt_text_config_template(const json_t *config);
/* Sets special, bos, eos, pad, unk of s, whose tokenizer is there (model_text_special.c). c may be null. */
int rt_text_special(rt_text_source *s, const rt_model_text *t, const rt_model_config *c, rt_err *e);

#endif
