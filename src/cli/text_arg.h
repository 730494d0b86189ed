/* text_arg.h - the tokenizer that goes into an output: that of the input, made fit for the format, or one that the user
 * names. What could not be taken along is said in notes. */
#ifndef RT_CLI_TEXT_ARG_H
#define RT_CLI_TEXT_ARG_H

#include "format/model_file.h"

enum { RT_TEXT_NOTES = 16 };
typedef struct rt_text_notes {
    char text[RT_TEXT_NOTES][320];
    uint32_t count; /* what does not fit is left out */
} rt_text_notes;
void rt_text_note(rt_text_notes *n, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* out: what to give to the writer for an output in this format. It points into in and into a. none: only what is not
 * the tokenizer's (generation_config.json). */
int rt_text_for_output(rt_model_text *out, const rt_model_text *in, bool none, rt_container to,
                       const rt_model_config *c, rt_arena *a, rt_text_notes *notes, rt_err *e);

/* A tokenizer that the user names for a model that has none: a tokenizer.json (its tokenizer_config.json and chat
 * template are taken along where they lie beside it), or any model. */
typedef struct rt_text_arg {
    rt_model_file *model; /* null when the text came from files */
    rt_model_text text;
} rt_text_arg;
int rt_text_arg_open(rt_text_arg *s, const char *spec, const rt_hub_env *env, rt_arena *a, rt_err *e);
/* The tokenizer of the tiny presets: 256 bytes and the special ids of the configuration. */
int rt_text_arg_bytes(rt_text_arg *s, const rt_model_config *c, rt_arena *a, rt_err *e);
/* RT_INVALID when the tokenizer has ids that the model's embedding has no row for. */
int rt_text_arg_check(const rt_text_arg *s, const char *spec, const rt_model_config *c, rt_err *e);
void rt_text_arg_close(rt_text_arg *s); /* accepts zeroes */

#endif
