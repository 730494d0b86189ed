/* tasks.h - a model measured by tasks: the likeliest of several choices, or an answer that is the expected one.
 *
 * Owns: the records of task files (docs/evaluation.md), the ids that a question and its choices become, as lm-eval has
 * them, the scores with their errors, and what is required of a score. All requests of a model are computed together
 * (speaker.h). Printing is its callers'. */
#ifndef RT_JOB_TASKS_H
#define RT_JOB_TASKS_H

#include "job/job.h"

/* name, what a person calls it */
#define RT_TASK_METRIC_LIST(X)                                                                                         \
    X(ACC, "acc")           /* the right choice has the largest log-probability */                                     \
    X(ACC_NORM, "acc_norm") /* the same for each of its characters */                                                  \
    X(EXACT, "exact_match") /* the answer is one of those expected */

typedef enum rt_task_metric {
#define X(name, text) RT_TASK_##name,
    RT_TASK_METRIC_LIST(X)
#undef X
        RT_TASK_METRICS
} rt_task_metric;
const char *rt_task_metric_name(rt_task_metric m);

typedef struct rt_job_tasks_opts {
    const char *const *models;  /* (model_count) the first is the one that is measured, the others stand beside it */
    const char *const *files;   /* (file_count) of records */
    const char *const *require; /* (require_count) "acc>=0.3", "TASK:acc>=0.3": of the first model */
    const char *const *vars;    /* (var_count) "NAME=VALUE" for the chat template */
    uint32_t model_count, file_count, require_count, var_count;
    const char *base;         /* of an adapter that is the first model; null: the one that it names */
    const char *details;      /* a new file: every record with what each model made of it, a line each; null: none */
    bool chat;                /* a question is what a user says, through the model's chat template */
    uint32_t slots;           /* requests at once; 0: RT_JOB_SLOTS */
    const rt_settings *where; /* device and threads */
    const rt_job_env *env;
    rt_job_progress_fn progress;
    void *ctx;
} rt_job_tasks_opts;

typedef struct rt_task_score {
    rt_measure value;  /* error: the sample's standard deviation over the root of n; NaN for a single record */
    rt_measure change; /* of value since the first model, record by record */
} rt_task_score;

/* A task under a metric. */
typedef struct rt_task_row {
    const char *task;
    rt_task_metric metric;
    uint32_t n;                  /* records */
    const rt_task_score *scores; /* (model_count) */
} rt_task_row;

typedef struct rt_task_model {
    const char *name; /* as it was given: a model and what became of it may have one name inside */
    uint64_t requests, prompt_tokens, answer_tokens;
    double seconds; /* with loading it */
} rt_task_model;

/* What was required, of one row. */
typedef struct rt_task_gate {
    const char *text; /* of the options' require */
    const rt_task_row *row;
    double least;
    bool holds;
} rt_task_gate;

typedef struct rt_job_tasked {
    rt_arena arena;
    rt_task_row *rows; /* (row_count) tasks in the order of the files, and of each its metrics */
    rt_task_model *models;
    rt_task_gate *gates; /* (gate_count) of each requirement every row that it speaks of */
    uint32_t row_count, model_count, gate_count;
    rt_err details; /* status: why the details are not written, though the scores are there; 0: they are */
} rt_job_tasked;
/* Every fault of a file, of a requirement and of a prompt's length is found before a model is loaded. */
int rt_job_tasks(rt_job_tasked *out, const rt_job_tasks_opts *o, rt_err *e);
/* Why the details could not be written; RT_INVALID, with the score, when a gate does not hold. */
int rt_job_tasked_check(const rt_job_tasked *t, rt_err *e);
void rt_job_tasked_free(rt_job_tasked *t); /* accepts zeroes */

#endif
