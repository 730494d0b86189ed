/* api_internal.h - shared by the files of this room: structs with sizes, errors, and what the handles are.
 *
 * The room turns retort.h into calls of the others and adds nothing of its own: no defaults that the command line does
 * not have, no state besides the handles. */
#ifndef RT_API_API_INTERNAL_H
#define RT_API_API_INTERNAL_H

#include "backend/backend.h"
#include "base/mem.h"
#include "base/str.h"
#include "format/model_file.h"
#include "job/run/run.h"

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
/* Places in ours, strings copied into a. */
typedef struct rt_api_places {
    rt_hub_env env;
    const char *scratch;
    const char *const *environment; /* of devices; null: empty */
} rt_api_places;
int rt_api_places_copy(rt_api_places *out, const retort_places *given, rt_arena *a, rt_err *e);
/* name null or "auto": the default device. */
int rt_api_device_open(rt_dev **out, const char *name, uint64_t threads, const rt_api_places *places, rt_err *e);
int rt_api_pool_new(rt_pool **out, uint64_t threads, rt_err *e);
retort_evaluation rt_api_evaluation(const rt_eval_result *v);

/* ---- the handles ---- */

struct retort_model {
    rt_arena arena;
    rt_api_places places;
    rt_model_file *file;
};

struct retort_settings {
    rt_arena arena; /* the strings */
    rt_settings settings;
};

/* A run that is open, or about to be. */
struct retort_plan {
    rt_arena arena;
    rt_settings settings;
    retort_events user;
    rt_api_places places;
    rt_run_events events;
    rt_run_opts opts;
    rt_dev *dev;
    rt_run *run;
    const rt_run *known; /* the same, also while it is being opened */
};

#endif
