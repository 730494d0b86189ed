/* run.h - a whole run: from settings to a model on disk, resumable at any moment.
 *
 *   OUT/                   the model that was trained, as others load it, with its card README.md
 *   OUT/run/               settings.json, resolved.yaml, plan.txt, metrics.jsonl, samples.jsonl,
 *                          events.out.tfevents.*, report.html, data/, manifest.json, verdict.json,
 *                          products.tsv (on a GPU), began-in.txt (the folder in which the run began),
 *                          teacher-server.txt (the server that is asked what the teacher says)
 *   OUT/run/checkpoints/   checkpoint-NNNNNN/ to resume from; best-NNNNNN/, the best so far, model only
 *   OUT/run/control/       with --control: a run of its own, of the same student without the teacher
 *
 * Older runs have the last two in OUT and keep them there (format/run_places.h).
 *
 * Owns: the order of things, and what is on disk when. It prints nothing: whoever started it hears of everything
 * through rt_run_events. */
#ifndef RT_JOB_RUN_H
#define RT_JOB_RUN_H

#include "evidence/evidence.h"
#include "job/prepare/fit.h"
#include "job/run/samples.h"
#include "train/checkpoint.h"

typedef struct rt_run_line {
    uint32_t step, steps;
    rt_step_result result;
    double lr;
    double tokens_per_second; /* positions, padding not counted, over the last steps */
    bool distils;             /* there is a teacher: result has its divergence and agreement */
    double teacher_share;     /* of the time */
    double seconds;           /* of training so far */
    double remaining;         /* expected to the end of the command, with evaluations, samples and saves */
    uint64_t memory;          /* bytes that the run has allocated on its device */
} rt_run_line;

/* The whole run, projected when its first steps have been timed. */
typedef struct rt_run_projection {
    uint32_t timed, steps; /* steps that were timed, steps of the run */
    double step;           /* seconds of one */
    double total;          /* seconds of training, evaluations and saves from the first step to the end */
    double evaluations;    /* of it, with their samples */
} rt_run_projection;

/* The step that is being computed. */
typedef struct rt_run_computing {
    uint32_t step, steps;
    uint32_t done, count; /* micro-batches; count 0: how far it is is not known */
} rt_run_computing;

typedef struct rt_run rt_run;

/* Any of them may be null. */
typedef struct rt_run_events {
    void (*note)(void *ctx, const char *text);
    /* What is under way besides steps: "tokenizing", "evaluating". what is a static text; total 0: how much there is to
     * do is not known. It lasts until the next event. */
    void (*progress)(void *ctx, const char *what, uint64_t done, uint64_t total);
    void (*refused)(void *ctx, const char *plan); /* the page of a plan that does not fit, or that the device refused */
    void (*ready)(void *ctx, const rt_run *r);    /* everything is known, nothing has run */
    /* A step is begun, or has come further; it lasts until the next event. */
    void (*computing)(void *ctx, const rt_run_computing *c);
    void (*step)(void *ctx, const rt_run_line *l);
    void (*projected)(void *ctx, const rt_run_projection *p); /* once, after the first steps of a new run */
    void (*said)(void *ctx, const rt_sample_said *s);
    void (*evaluated)(void *ctx, uint32_t step, const rt_eval_result *v, bool best);
    void (*saved)(void *ctx, const char *path);
    /* Asked after every step, on a CPU before every micro-batch of one, and in all other work that takes long: finish
     * or give up what is under way, save and end with RT_INTERRUPTED. */
    bool (*stop)(void *ctx);
    void *ctx;
} rt_run_events;

/* What a run reads of its teacher's cache: rows of the data from the first to the last that it trains on, and rows that
 * are held out. */
typedef struct rt_run_reads {
    rt_inputs *in; /* outlives the supply */
    const rt_settings *settings;
    const rt_resolved *resolved;
    uint64_t first, rows; /* of training: those before `first` were read already */
    uint64_t epochs;      /* what none of the rows up to the end of this epoch has is in none */
    rt_batch held;        /* those that are held out, one after another; they outlive the supply */
    uint32_t held_rows;
} rt_run_reads;

/* Who brings what the teacher's cache lacks, while the run goes on. */
typedef struct rt_supply {
    const char *name; /* of the teacher, as it was given: for a run that is resumed; null: it is not kept */
    const char *url;  /* for messages */
    /* From now on what the reads lack is asked for, those that are held out first. Fails where nobody answers, or
     * another teacher does. May be called again, for more rows. */
    int (*begin)(void *ctx, const rt_run_reads *reads, rt_err *e);
    /* Until there is more in the cache, or for a moment. 1: no more will come. */
    int (*wait)(void *ctx, const rt_watch *watch, rt_err *e);
    void (*end)(void *ctx); /* nothing is asked any more; what was answered is kept. At any time, also twice */
    void *ctx;
} rt_supply;

/* What is known of the device of a run besides what it says itself (job/run/ladder.h). */
typedef struct rt_run_device {
    char name[48];           /* "vulkan:0" */
    const char *passed_over; /* why others were; empty: none was */
    const char *failed;      /* of the one that this process takes the place of, "cuda:0 failed after ..."; or null */
    bool asked;              /* to go on elsewhere, however long it takes where nobody can tell */
} rt_run_device;

typedef struct rt_run_opts {
    const rt_hub_env *env;
    const rt_run_events *events;
    bool resume, override;
    bool fit;                /* rows at a time and recomputing are chosen again, also in a resumed run */
    bool dry;                /* everything is known and nothing allocated: for plans; it cannot train */
    bool unasked;            /* of a plan: what the teacher's cache lacks is still to be asked */
    const rt_supply *supply; /* null: the teacher's cache has all that the run will read, or it is refused */
    bool smoke;              /* ends when the first steps have been timed */
    const char *scratch;     /* dry or smoke: where a folder is made for the while, in the place of the setting out */
    int64_t now;             /* seconds since 1970, for templates that print a date */
    rt_dev *dev;             /* open; outlives the run */
    uint32_t devices;        /* of a dry run: the ranks that it would have; 0: one */
    rt_peers *peers;         /* of rank 0: the others, who follow (rt_run_follow); null: it is alone */
    const char *version, *build; /* of the program, for the manifest; null: not known */
    const rt_run_device *device; /* how it came to its device; null: not known */
    const rt_run *control_of;    /* for control.c: the run that this one is the control of; its tokenizer goes along */
} rt_run_opts;

/* One prompt, and what was said to it; null data: there are no samples, or no teacher. */
typedef struct rt_run_sample {
    rt_span prompt, before, after, teacher; /* after: by the model at the root */
} rt_run_sample;

/* What a run ended with. Texts live as long as the run. */
typedef struct rt_run_summary {
    rt_eval_result before, after, saved; /* saved: of the model at the root, loaded again from its files */
    bool ended;                          /* it had ended before and nothing was done: the rest is from its record */
    bool smoke;                          /* it ended after the steps that were timed: nothing else is set */
    uint32_t saved_step;                 /* which step the model at the root is of */
    bool is_best;
    bool stopped_early;    /* by --stop-if-worse */
    rt_eval_result logged; /* of saved_step, as it was in memory then; 0 positions: that step has no evaluation */
    rt_eval_result control_after, control_saved; /* with --control: of the run in OUT/run/control; else 0 positions */
    rt_output_difference difference;             /* rounding of the saved dtype */
    const rt_findings *findings;                 /* the run's claims, judged; lives as long as the run */
    rt_hash128 checksum;                         /* of manifest.json */
    rt_run_sample sample;
    uint64_t run_bytes, checkpoint_bytes; /* on disk: OUT/run, its control with it; the checkpoints of this run */
} rt_run_summary;

/* s: as given by the user, defaults not yet filled in; it is completed with what was resolved. */
int rt_run_open(rt_run **out, rt_settings *s, const rt_run_opts *o, rt_err *e);
/* Where the teacher of the run in OUT is asked, in a; null: it is no server, or not known. */
int rt_run_server(char **name, const char *out, rt_arena *a, rt_err *e);
/* RT_INVALID where no new run may begin. */
int rt_run_check_out(const char *out, rt_err *e);
int rt_run_train(rt_run *r, rt_run_summary *out, rt_err *e);
void rt_run_close(rt_run *r); /* accepts null */

/* ---- a rank that is not 0 (run_ranks.c) ---- */

typedef struct rt_follow_opts {
    rt_peers *peers;
    const rt_hub_env *env;
    int64_t now;
    /* The device, when rank 0 has said with which settings; once. It outlives the call. */
    int (*device)(void *ctx, const rt_settings *s, rt_dev **out, rt_err *e);
    void *ctx;
} rt_follow_opts;
/* Does what rank 0 says until that has ended. An error is this rank's own, and the others wait for it. */
int rt_run_follow(const rt_follow_opts *o, rt_err *e);

/* For whoever prints. */
const rt_inputs *rt_run_inputs(const rt_run *r);
const rt_resolved *rt_run_resolved(const rt_run *r);
const rt_run_facts *rt_run_known(const rt_run *r);
const rt_trainer *rt_run_trainer(const rt_run *r); /* null when its control has been trained */
const rt_fit *rt_run_fitted(const rt_run *r);
const rt_progress_state *rt_run_state(const rt_run *r); /* of a resumed run: where it goes on */
uint32_t rt_run_held_rows(const rt_run *r);             /* that are measured */
uint32_t rt_run_held_of(const rt_run *r);               /* of so many, at most 1,000 */
bool rt_run_plain_text(const rt_run *r); /* no chats and no completions were in what it tokenized; not known: false */
const rt_eval_set *rt_run_held(const rt_run *r);
const char *rt_run_checkpoints(const rt_run *r); /* their folder; OUT itself for an older run */

/* The process ends here as if it were killed, but for what is newer in memory than on disk, which is written, and that
 * OUT is free. Also in another thread, while the one that trains waits for a device and will never come back. */
void rt_run_abandon(rt_run *r);

#endif
