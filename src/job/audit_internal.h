/* audit_internal.h - shared by audit.c (records and their order), audit_files.c (bytes),
 * audit_lines.c (metrics) and audit_models.c (models and data). */
#ifndef RT_JOB_AUDIT_INTERNAL_H
#define RT_JOB_AUDIT_INTERNAL_H

#include "evidence/evidence.h"
#include "job/audit.h"
#include "job/inputs.h"

/* What the log says of one step. */
typedef struct rt_logged_step {
    rt_row_totals of;
    double ce, div, agreement;
} rt_logged_step;

typedef struct rt_verifier {
    const rt_run_verify_opts *opts;
    rt_run_verified *out;
    rt_arena arena;
    const char *root, *run; /* OUT and OUT/run */
    json_t *manifest;
    rt_settings settings; /* of settings.json; strings in the arena */
    bool has_settings;
    rt_resolved resolved;  /* from them alone */
    rt_evidence facts;     /* from the manifest and the log */
    rt_logged_step *steps; /* (step_count) from step 1 on; rt_free */
    uint32_t step_count, step_cap;
    uint32_t same_from; /* steps after this one were made under the settings that are recorded */
} rt_verifier;

/* What of a run could be opened again. */
typedef struct rt_again {
    rt_settings settings;
    rt_inputs *in;         /* models and data; null: not even the output could be opened */
    bool student, teacher; /* found again, with the values that the run began with */
    bool data;             /* shards and rows, as they were */
    rt_resolved resolved;  /* with the data's facts */
    rt_model_file *output; /* the root; null: cannot be opened */
    rt_trainer *trainer;   /* evaluation alone */
    rt_eval_set *held;
    int32_t *rows; /* (4, padded batch, T): of the first step */
    uint32_t micro_count;
} rt_again;

/* One check is done. */
void rt_verifier_tell(rt_verifier *v, const char *name, rt_check_outcome o, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* The same from an error: not checked when it is about something that is not there, else failed. */
void rt_verifier_tell_error(rt_verifier *v, const char *name, const rt_err *why);

/* Each makes its checks and tells of them; negative only when it could not go on (memory). */
int rt_verify_files(rt_verifier *v, rt_err *e);
int rt_verify_checkpoints(rt_verifier *v, rt_err *e);
int rt_verify_lines(rt_verifier *v, rt_err *e);
int rt_verify_again(rt_verifier *v, rt_err *e);
/* The files at the root and, where it is still there, the last checkpoint: same values, and moved as was said. */
int rt_verify_weights(rt_verifier *v, rt_again *a, rt_err *e);

#endif
