/* audit.h - the records of a finished run held against one another: manifest, settings, files, log and verdict.
 *
 * Owns: the audit's state, the checks that need nothing but the files of the run, and how a check is told. What needs
 * the models and the data opened again is measured by job (audit_run.h), which also resolves the recorded settings.
 * What cannot be checked is told as such and never counts as a pass. docs/evidence.md says what this proves and what
 * not. */
#ifndef RT_EVIDENCE_AUDIT_H
#define RT_EVIDENCE_AUDIT_H

#include "base/mem.h"
#include "evidence/evidence.h"
#include "settings/settings.h"

typedef enum rt_check_outcome { RT_CHECK_PASS, RT_CHECK_FAIL, RT_CHECK_NOT_CHECKED } rt_check_outcome;
const char *rt_check_name(rt_check_outcome o); /* "pass", "fail", "not checked" */

typedef struct rt_check {
    const char *name; /* "files", "held-out after": static */
    rt_check_outcome outcome;
    char text[500]; /* what was found, for a person */
} rt_check;

/* What an audit came to. */
typedef struct rt_audit_result {
    uint32_t of[3];      /* by outcome */
    const char *claim;   /* of the run, which does not hold and by its own verdict never did; null: none. Static */
    uint32_t claimed;    /* failed checks that say no more than that */
    rt_hash128 manifest; /* the checksum of manifest.json: whoever noted it elsewhere can compare */
} rt_audit_result;

/* What the log says of one step. */
typedef struct rt_logged_step {
    rt_row_totals of;
    double ce, div, agreement;
} rt_logged_step;

/* What the recorded settings settle of the log. */
typedef struct rt_recorded {
    uint32_t steps, batch, seq_len;
    double ce_weight, kd_weight; /* kd_weight with T^2 in it */
    double max_grad_norm;
    bool save_best;
    uint32_t stop_if_worse;
    double (*rate)(const void *schedule, uint32_t step); /* of steps 1 to steps */
    const void *schedule;
} rt_recorded;

typedef struct rt_audit {
    void (*report)(void *ctx, const rt_check *c); /* as each check is done; may be null */
    void *ctx;
    /* Fills recorded from settings. RT_NOMEM ends the audit; any other fault is one of the settings. */
    int (*resolve)(struct rt_audit *v, rt_err *e);
    void *resolver; /* for it */
    rt_audit_result *result;
    rt_arena arena;
    const char *root, *run; /* OUT and OUT/run */
    json_t *manifest;
    rt_settings settings; /* of settings.json; strings in the arena */
    bool has_settings;
    rt_recorded recorded;
    rt_evidence facts;     /* from the manifest and the log */
    rt_logged_step *steps; /* (step_count) from step 1 on; rt_free */
    uint32_t step_count, step_cap;
    uint32_t same_from; /* steps after this one were made under the settings that are recorded */
} rt_audit;

/* Finds the run and reads its manifest. *usable false: a check has told why nothing else can be believed. RT_NOT_FOUND
 * when there is no run; RT_INVALID when it has not finished or has no manifest. */
int rt_audit_open(rt_audit *v, const char *path, bool *usable, rt_err *e);
void rt_audit_close(rt_audit *v);

/* Each makes its checks and tells of them; negative only when the audit cannot continue (memory). */
int rt_audit_files(rt_audit *v, rt_err *e);
int rt_audit_settings(rt_audit *v, rt_err *e); /* sets has_settings */
int rt_audit_lines(rt_audit *v, rt_err *e);
int rt_audit_verdict(rt_audit *v, rt_err *e);

/* Whether the facts of the run say of one of its claims that it does not hold. */
bool rt_audit_claim_failed(const rt_audit *v, const char *id);

/* One check is done. */
void rt_audit_tell(rt_audit *v, const char *name, rt_check_outcome o, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Problems of one check, one after another: as many as a line has room for are listed, all are counted. */
typedef struct rt_problems {
    rt_str list;
    uint32_t count;
} rt_problems;
void rt_problem_add(rt_problems *p, const char *name, const char *what);

#endif
