/* report.h - a run, or several over each other, as one HTML page that needs nothing but itself.
 *
 * Owns: reading what a run left in its folder, and the page. What a run did not write is left out of the page; a run
 * that is still going, or was cut off, gives a page that says so.
 *
 *   metrics.jsonl   curves and held-out measures: the lines of run_loop.c
 *   settings.json   its settings, and how many steps it wants
 *   manifest.json   who and what: any object
 *   verdict.json    the falsifiers: an array, or an object with one under "falsifiers", of objects with
 *                   "id", "claim", "measured" (text, or any JSON) and "verdict" ("pass", "fail", "not measured")
 *   plan.txt        as it is
 *   samples.jsonl   one object a line: {"step": N, "prompt": "...", "who": "student" or "teacher", "text": "...",
 *                   "stopped": true or false}; the student's of its first step and of the saved model are shown
 *   bars.json       pictures of a few numbers: an array of {"title": "...", "note": "...", "log": bool,
 *                   "bars": [{"label": "...", "value": X}, ...]} */
#ifndef RT_REPORT_REPORT_H
#define RT_REPORT_REPORT_H

#include "base/err.h"
#include "format/metrics.h"

typedef struct rt_report_run rt_report_run;

/* What a run amounts to, for whoever prints. */
typedef struct rt_report_facts {
    const char *name, *folder; /* folder: that of metrics.jsonl */
    uint32_t step, steps;      /* the last that was logged; wanted, 0 when not known */
    bool finished;             /* every step is there, and an evaluation after the last; or it was stopped: */
    bool stopped;              /* --stop-if-worse ended it before its last step */
    bool going;                /* not finished, and a process holds its lock: it is not interrupted */
    bool cut;                  /* a file ends in the middle of a line, which was left out */
    uint32_t evals;
    rt_eval_result first, after;     /* where evals > 0; after: of the model as it was saved, or the last so far */
    uint32_t first_step, after_step; /* the same: it was not evaluated again yet */
    double seconds;                  /* of training */
    uint64_t tokens;                 /* positions gone through, padding not counted */
} rt_report_facts;

/* path: the --out of a run, or the folder run in it. RT_NOT_FOUND when there is no run, RT_FORMAT when a file is not
 * what it should be. */
int rt_report_run_open(rt_report_run **out, const char *path, rt_err *e);
void rt_report_run_close(rt_report_run *r); /* accepts null */
rt_report_facts rt_report_run_facts(const rt_report_run *r);

/* RT_INVALID: a file that is no such page is there. */
int rt_report_may_write(const char *out_path, rt_err *e);
/* The page, whole or not at all. The first run is the one that the others are laid over. */
int rt_report_write(const char *out_path, rt_report_run *const *runs, uint32_t count, rt_err *e);

#endif
