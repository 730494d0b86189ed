/* audit_run.h - `retort verify RUN`: everything about a finished run that can be worked out again from its files,
 * worked out again and compared with what the run said.
 *
 * Owns: the order of the checks, and those that open models and data again and measure. Records are held against one
 * another by evidence/audit.h. Nothing is written. */
#ifndef RT_JOB_AUDIT_RUN_H
#define RT_JOB_AUDIT_RUN_H

#include "backend/backend.h"
#include "base/watch.h"
#include "evidence/audit.h"
#include "format/model_file.h"

typedef struct rt_audit_opts {
    const rt_hub_env *env;
    rt_dev *dev; /* open; on which the models are measured again. Null: the device that the run used, else the CPU */
    const char *const *environment; /* dev null: for whatever is opened; "NAME=value", ended by null. Null: empty */
    uint32_t threads;               /* dev null: of a CPU; 0: all */
    rt_pool *pool;
    void (*report)(void *ctx, const rt_check *c); /* as each is done */
    /* Before models are measured; why: the run's own could not be used; empty: it is used, or dev was given. A second
     * time when the first did not take the models after all. May be null. */
    void (*device)(void *ctx, rt_dev *d, const char *why);
    rt_watch watch; /* of the checks under way; it is asked whether to stop while models are measured */
    void *ctx;
} rt_audit_opts;

/* path: the --out of a run, or the folder run in it. RT_OK says that all checks were made, not that they passed.
 * RT_NOT_FOUND when there is no run; RT_INVALID when it has not finished or has no manifest: there is nothing to verify
 * then. */
int rt_audit_run(const char *path, const rt_audit_opts *o, rt_audit_result *out, rt_err *e);

#endif
