/* job_tasks_internal.h - between the files of tasks: records (job_tasks_file.c), their ids (job_tasks_ids.c), requests
 * and results (job_tasks.c), scores and requirements (job_tasks_score.c). */
#ifndef RT_JOB_JOB_TASKS_INTERNAL_H
#define RT_JOB_JOB_TASKS_INTERNAL_H

#include "job/job_internal.h"
#include "job/speaker.h"
#include "job/tasks.h"

/* ---- records ---- */

typedef struct rt_task {
    const char *name;
    bool choices;     /* its records have choices; else an expected answer */
    uint32_t n;       /* records */
    const char *file; /* where it was seen first, */
    uint64_t line;    /* for messages */
} rt_task;

typedef struct rt_task_record {
    const char *file;
    uint64_t line;
    uint32_t task;       /* which of the set */
    rt_span question;    /* may be empty */
    rt_span delimiter;   /* between question and choice */
    const rt_span *each; /* (count) choices, or answers of which any is right */
    uint32_t count, answer;
    const char *const *stop; /* (stops) strings that end an answer */
    uint32_t stops, max_new;
} rt_task_record;

typedef struct rt_task_set {
    rt_arena arena; /* all that the others point into */
    rt_task *tasks;
    rt_task_record *records;
    uint32_t task_count, task_cap, count, cap;
    json_t *by_name; /* {name of a task: its number} */
} rt_task_set;
/* Adds the records of a file. RT_FORMAT for broken JSON, RT_INVALID for what is no task: both with file and line. */
int rt_task_set_read(rt_task_set *s, const char *path, rt_job_tell *tell, rt_err *e);
void rt_task_set_free(rt_task_set *s);

/* ---- requests ---- */

/* A question with one of its choices, or by itself. */
typedef struct rt_task_request {
    uint32_t record, choice;
    rt_tok_ids ids;
    uint32_t scored; /* the log-probabilities of ids from here on are summed; an answer: all of them */
    double logp;
    rt_str text; /* of an answer */
    bool ended;
} rt_task_request;

typedef struct rt_task_request_list {
    rt_task_request *each; /* in the order of the records */
    uint32_t count, cap;
} rt_task_request_list;
/* How a question becomes ids. */
typedef struct rt_task_text {
    const rt_speaker *speaker;
    bool chat;
    const json_t *vars;
    int64_t now;
    int32_t utc_offset;
    uint32_t context; /* of the model */
    rt_job_tell *tell;
} rt_task_text;
/* Adds the requests of record i. RT_INVALID for what this tokenizer leaves nothing of, and for a question that leaves
 * no place for an answer: it is encoded once more for each of its choices. */
int rt_task_requests_add(rt_task_request_list *l, const rt_task_text *t, const rt_task_set *s, uint32_t i, rt_err *e);
void rt_task_requests_free(rt_task_request_list *l);

/* ---- scores ---- */

/* What one model has made of every record. */
typedef struct rt_task_marks {
    bool *hit[RT_TASK_METRICS]; /* (records) meaningful for the metrics that the record's task has */
    uint32_t *chosen[RT_TASK_METRICS];
} rt_task_marks;
int rt_task_marks_make(rt_task_marks *m, rt_arena *a, uint32_t records, rt_err *e);
/* requests: those of record i, in its order. */
void rt_task_mark(rt_task_marks *m, const rt_task_set *s, uint32_t i, const rt_task_request *requests);
/* The rows of out, without scores. */
int rt_task_rows(rt_job_tasked *out, const rt_task_set *s, rt_err *e);
/* Those of model number `model`; first: of the first one. */
int rt_task_score_all(rt_job_tasked *out, const rt_task_set *s, uint32_t model, const rt_task_marks *first,
                      const rt_task_marks *m, rt_err *e);
/* RT_USAGE for what is no requirement, or speaks of no row. */
int rt_task_gates_parse(rt_job_tasked *out, const char *const *require, uint32_t count, rt_err *e);
void rt_task_gates_look(rt_job_tasked *out);
/* A line of the details: what model number `model` has made of record i. */
int rt_task_detail(rt_str *out, const rt_job_tasked *t, uint32_t model, const rt_task_set *s, uint32_t i,
                   const rt_task_request *requests, const rt_task_marks *m, rt_err *e);

#endif
