/* samples.h - what the models say while a run goes on: a few prompts, continued at every evaluation.
 *
 *   OUT/run/samples.jsonl   a line for each text: {"step", "prompt", "who": "student" or "teacher", "text", "stopped"}
 *
 * Owns: which prompts, the texts, their file, and two rates over them. The models are those that the trainer holds in
 * memory: nothing is loaded or allocated for samples after the run was sealed. Always the most likely token, so equal
 * weights say equal things, and no number of the training depends on whether there are samples. */
#ifndef RT_JOB_SAMPLES_H
#define RT_JOB_SAMPLES_H

#include "base/append.h"
#include "base/lock.h"
#include "job/prepare/inputs.h"
#include "train/evaluate.h"

#include <jansson.h>

typedef struct rt_sample_prompt {
    rt_span text; /* for people */
    const uint32_t *ids;
    uint32_t count;
    rt_span before, teacher; /* the student's first text, and the teacher's; null data: not made yet */
} rt_sample_prompt;

/* A text that a model gave to a prompt at an evaluation. */
typedef struct rt_sample_said {
    uint32_t step;
    bool teacher, stopped; /* stopped: by the model itself */
    rt_span prompt, text;
} rt_sample_said;

typedef struct rt_samples {
    rt_arena arena;
    const rt_inputs *in; /* outlives it */
    rt_sample_prompt *prompts;
    uint32_t count, cap;
    uint32_t tokens; /* of a text, at most */
    bool from_held;  /* rt_samples_from_held is to choose the prompts */
    rt_stops student_stops, teacher_stops;
    rt_append file;
    const char *path;
    void (*said)(void *ctx, const rt_sample_said *s); /* each text as it is made; may be null */
    void *ctx;
    rt_may_write may_write;
} rt_samples;

/* The prompts of --sample-prompts FILE: a line each, or with the suffix .jsonl a record each. *out is null when there
 * are to be none, and where no tokenizer could show a text. */
int rt_samples_open(rt_samples **out, const rt_settings *s, const rt_inputs *in, int64_t now, rt_err *e);
/* Without a file: the beginnings of two held-out documents, up to what is trained of them; of plain text the first
 * words. Accepts null. */
int rt_samples_from_held(rt_samples *s, const rt_eval_set *held, rt_err *e);
void rt_samples_close(rt_samples *s); /* accepts null */
/* Positions that the longest prompt and its text need: what rt_step_opts wants. 0 for null. */
uint32_t rt_samples_context(const rt_samples *s);

/* samples.jsonl in folder; what it holds of steps after keep_to is cut off, with -1 everything. Accepts null. */
int rt_samples_begin(rt_samples *s, const char *folder, int64_t keep_to, rt_err *e);
/* The student's texts at this step, and the teacher's where they are not made yet; rates into v. Accepts null. */
int rt_samples_sync(rt_samples *s, rt_err *e); /* their file is on disk; accepts null */
int rt_samples_make(rt_samples *s, rt_trainer *t, uint32_t step, rt_eval_result *v, rt_err *e);
/* What the student in memory says now to prompt i, for the end of a run; lives as long as s. */
int rt_samples_say(rt_samples *s, rt_trainer *t, uint32_t i, rt_span *text, rt_err *e);

/* Its line of samples.jsonl; null when there is no memory, or where the text is no UTF-8. */
json_t *rt_sample_to_json(const rt_sample_said *v);

/* How many of a text's tokens lie in a run of four that the text has had before: none of "a b c d", four of
 * "a b c d a b c d". */
uint32_t rt_repeated_tokens(const uint32_t *ids, uint32_t count);

#endif
