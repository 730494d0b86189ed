/* output.h - the student as a model that others load: a Hugging Face directory, or an adapter as PEFT lays it out.
 *
 * Owns: which files, in which dtype, with whose tokenizer and chat template, and reading it back. Values come from a
 * trainer's memory. */
#ifndef RT_TRAIN_OUTPUT_H
#define RT_TRAIN_OUTPUT_H

#include "format/metrics.h"
#include "format/model_write.h"
#include "train/step.h"

/* What the output has besides weights; all of it outlives the calls. */
typedef struct rt_output {
    const rt_model_file *student; /* what was trained: configuration, tokenizer */
    const rt_model_text *text;    /* the tokenizer and template to write; null: the student's */
    rt_dtype dtype;
    rt_lora lora;
    const char *base_name; /* adapters: the model they stand beside, by its name on a hub, else by its path from / on */
} rt_output;

/* The whole model into folder, which must not exist or be empty; with adapters, the adapters alone, and
 * what they were trained with for text. */
int rt_output_write(const char *folder, rt_trainer *t, const rt_output *o, rt_err *e);
/* How many bytes rt_output_write would write. The trainer may be sealed dry. */
int rt_output_bytes(rt_trainer *t, const rt_output *o, uint64_t *bytes, rt_err *e);
/* With adapters: the model with them added in. */
int rt_output_merged(const char *folder, rt_trainer *t, const rt_output *o, rt_err *e);
/* Puts what the folder holds into the trainer's memory, in the place of what was there: trained parameters only, and
 * with adapters those alone, also into a trainer that only evaluates. */
int rt_output_reload(const char *folder, rt_trainer *t, const rt_output *o, rt_err *e);
/* How far the folder is from the memory, over all trained parameters. */
int rt_output_read_back(const char *folder, rt_trainer *t, const rt_output *o, rt_output_difference *d, rt_err *e);
/* How many of a (n), rounded to d, are not b; a is rounded in place. raw: room for n of d. */
uint64_t rt_output_unequal(float *a, const float *b, rt_dtype d, uint64_t n, void *raw);

#endif
