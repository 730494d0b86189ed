/* audit.h - `retort verify RUN`: everything about a finished run that can be worked out again from its files,
 * worked out again and compared with what the run said.
 *
 * Owns: the checks and their order. It writes nothing. What cannot be checked (a teacher that has moved, a checkpoint
 * that was removed) is told as such and never counts as a pass. docs/evidence.md says what this proves and what not. */
#ifndef RT_JOB_AUDIT_H
#define RT_JOB_AUDIT_H

#include "backend/backend.h"
#include "format/model_file.h"

typedef enum rt_check_outcome { RT_CHECK_PASS, RT_CHECK_FAIL, RT_CHECK_NOT_CHECKED } rt_check_outcome;
const char *rt_check_name(rt_check_outcome o); /* "pass", "fail", "not checked" */

typedef struct rt_run_check {
    const char *name; /* "files", "held-out after": static */
    rt_check_outcome outcome;
    char text[500]; /* what was found, for a person */
} rt_run_check;

typedef struct rt_run_verify_opts {
    const rt_hub_env *env;
    rt_dev *dev; /* open; on which the models are measured again */
    rt_pool *pool;
    void (*report)(void *ctx, const rt_run_check *c); /* as each is done */
    void *ctx;
} rt_run_verify_opts;

typedef struct rt_run_verified {
    uint32_t of[3];      /* by outcome */
    rt_hash128 manifest; /* the seal of manifest.json: whoever noted it elsewhere can compare */
} rt_run_verified;

/* path: the --out of a run, or the folder run in it. RT_OK says that all checks were made, not that they passed.
 * RT_NOT_FOUND when there is no run; RT_INVALID when it has not finished or has no manifest: there is nothing to verify
 * then. */
int rt_run_verify(const char *path, const rt_run_verify_opts *o, rt_run_verified *out, rt_err *e);

#endif
