/* api_internal.h - shared by the files of this room: structs with sizes, errors, and what the handles are.
 *
 * The room turns retort.h into calls of job/job.h and adds nothing of its own: no rules and no defaults that the
 * command line does not have, no state besides the handles. */
#ifndef RT_API_API_INTERNAL_H
#define RT_API_API_INTERNAL_H

#include "job/job.h"

#include <retort.h>

/* ---- api_base.c ---- */

/* RT_USAGE for a size that cannot be. */
int rt_api_check(const void *given, const char *name, rt_err *e);
/* Copies an options struct of whatever size into one of ours, n bytes; given null: zeroes. RT_USAGE for a size that
 * cannot be, RT_UNSUPPORTED where the caller sets members that this library does not know. */
int rt_api_take(void *ours, size_t n, const void *given, const char *name, rt_err *e);
/* The other way: fills what the caller's struct has room for; its size stays. */
int rt_api_fill(void *given, const void *ours, size_t n, const char *name, rt_err *e);
/* The end of every function: status and message to the caller. */
int rt_api_end(int rc, const rt_err *err, retort_error *e);
/* The text of s becomes the caller's; s is empty afterwards. */
int rt_api_give(rt_str *s, char **text, rt_err *e);
/* What a job is given of the process, from the caller's places; strings copied into a. */
int rt_api_env_copy(rt_job_env *out, const retort_places *given, rt_arena *a, rt_err *e);
retort_evaluation rt_api_evaluation(const rt_eval_result *v);

/* ---- the handles ---- */

struct retort_model {
    rt_arena arena;
    rt_job_env env;
    rt_model_file *file;
};

struct retort_settings {
    rt_arena arena; /* the strings */
    rt_settings settings;
};

/* A run that is open, or about to be. */
struct retort_plan {
    rt_arena arena;
    retort_events user;
    rt_job_env env;
    rt_run_events events;
    rt_job_run_opts opts;
    rt_job_run job;
    const rt_run *known; /* the run, also while it is being opened */
};

#endif
