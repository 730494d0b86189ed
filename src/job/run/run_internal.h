/* run_internal.h - what an open run consists of, and what each of the files named run_* does with it. */
#ifndef RT_JOB_RUN_INTERNAL_H
#define RT_JOB_RUN_INTERNAL_H

#include "base/append.h"
#include "base/lock.h"
#include "evidence/evidence.h"
#include "job/prepare/pace.h"
#include "job/run/run.h"
#include "job/run/samples.h"
#include "report/tfevents.h"
#include "train/loop.h"
#include "train/trend.h"

typedef struct rt_dump rt_dump;

/* What the first steps of a run took (run_smoke.c). */
typedef struct rt_smoke {
    double opened; /* clock when the run was opened */
    double first;  /* seconds of the first step, which also touches memory for the first time */
    bool whole;    /* this process began the run */
    uint32_t rows; /* that an evaluation of the run measures, where this process measures fewer; 0: as many */
} rt_smoke;

/* The CPU in the place of a device that has failed (run_device.c). */
typedef struct rt_run_moved {
    bool timed, slow;         /* timed: its steps are still looked at */
    uint32_t from;            /* the step that it began after, at this clock: */
    double begun, left, rest; /* seconds that were left before, and that the rest takes now */
} rt_run_moved;

struct rt_run {
    rt_arena arena;
    rt_settings *settings;
    const rt_run_opts *opts;
    rt_run_events events;
    rt_watch watch;      /* the events progress and stop, */
    rt_watch step_watch; /* and computing and stop */
    rt_inputs *in;
    rt_run_facts facts;
    rt_resolved resolved;
    rt_settings found;                 /* with the paths at which models and data were found */
    const rt_settings *own;            /* of a resumed run: as its record has them; null: a new one */
    rt_settings asked;                 /* as they were before rows were counted */
    char recompute[RT_RECOMPUTE_TEXT]; /* of the settings, as it was chosen */
    rt_fit fit;
    uint64_t free_memory;                       /* of the device, before anything was allocated */
    bool *frozen;                               /* (parameters of the student) */
    rt_dtype *student_dtypes;                   /* as stored */
    rt_dtype *teacher_dtypes[RT_WEIGHTS_KINDS]; /* by how its weights are kept; null without one */
    rt_step_other *others[RT_WEIGHTS_KINDS];    /* teachers besides that one, by the same; null: none */
    rt_trainer *trainer;
    rt_eval_set *held;
    rt_samples *samples; /* null: none */
    rt_output output;
    rt_model_text text; /* of the output */
    rt_loop loop;
    rt_dump *dump; /* of the step under way; null: it is not dumped */
    rt_pool *pool;
    const char *out, *run, *data; /* OUT, OUT/run, OUT/run/data; then files of OUT/run */
    const char *checkpoints;      /* as rt_checkpoints_of says */
    const char *metrics_path, *settings_path, *yaml_path, *plan_path, *choices_path, *manifest_path, *verdict_path,
        *report_path, *origin_path, *server_path;
    const char *origin; /* the folder in which the run began; null: not known */
    rt_lock *lock;      /* of OUT/run, from before anything is written to the end; null: OUT is temporary */
    uint32_t run_made, data_made, checkpoints_made; /* folders that this process made, and of OUT/run those above it */
    bool data_linked;                               /* OUT/run/data was made a link */
    rt_append metrics;
    rt_tfevents *events_file;    /* the same numbers for TensorBoard */
    bool fresh;                  /* nothing was in OUT when its lock was taken */
    bool temporary;              /* OUT is a folder of this process: a plan or a smoke test */
    bool changed;                /* a resumed run: settings but --out are given that are not its own */
    const rt_run_summary *ended; /* nothing is left to do: what it ended with; null else */
    bool begun;                  /* settings are written: what is in OUT can be resumed */
    rt_smoke smoke;
    rt_pace pace; /* of its parts, as measured last or else as planned; step is not kept here */
    rt_eval_result first, last;
    int64_t evaluated; /* the step of last; -1: none */
    rt_worse worse;    /* over all evaluations, those of earlier sessions too */
    bool even;         /* a model carries nothing to many positions, which was said */
    bool risen;        /* the last evaluation was worse than the first, which was said */
    rt_loss_trend losses;
    rt_source waiting;       /* the cache, which waits for what is still to be asked */
    double waited;           /* seconds */
    rt_evidence *evidence;   /* from the first step on */
    rt_run_moved moved;      /* zeroes: nothing has failed, or another GPU computes */
    char *copy_folder;       /* of the copy in memory; null: there is none */
    uint32_t copy_step;      /* what it is of; 0: nothing yet */
    json_t *identity;        /* of models, template and data, for the manifest; null: not hashed yet */
    json_t *best_files;      /* the best model so far: {name of a file: hash}; null: none, or written before hashes */
    json_t *earlier_logs;    /* of a resumed run: what its checkpoint says of the logs; null: nothing */
    json_t *root;            /* of the files in OUT and OUT/merged those that the run wrote: {name: [hash, ...]} */
    rt_hasher *metrics_hash; /* of metrics.jsonl as it was written */
};

/* A sentence for whoever listens to the run's notes. */
void rt_run_note(const rt_run *r, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- run_folder.c: whose OUT is ---- */
/* OUT, locked, and for a new run made. RT_INVALID when another process writes there, or when what is there is not ours;
 * nothing is changed then. */
int rt_run_take_folder(rt_run *r, rt_err *e);
/* Removes temporary names in the control of a run that has ended. */
void rt_run_clean_control(rt_run *r);
/* The folders of tokens and checkpoints, when the settings are written. */
int rt_run_make_folders(rt_run *r, rt_err *e);
/* Lets go of OUT; of a run that could not begin, removes what it has made. */
void rt_run_leave_folder(rt_run *r);

/* ---- run_hold.c: whether OUT is still the run's ---- */
/* Asked right before anything gets a name in OUT or loses it, and before every line of a log: RT_INVALID when OUT is
 * not this run's any more, because somebody has removed its lock, or moved or replaced the folder while the run was
 * going on. Who takes the lock then removes the temporary names that are there, so what was begun under one of them
 * before cannot be put in place. */
int rt_run_holds(const rt_run *r, rt_err *e);
/* rc, or, where something failed because OUT is somebody else's by now, that. */
int rt_run_failed(const rt_run *r, int rc, rt_err *e);

/* ---- run_files.c: what a run has on disk besides checkpoints ---- */
/* flags: of json_dumps. Takes the reference; null is one that there was no memory for. */
int rt_run_write_json(const char *path, json_t *j, size_t flags, rt_err *e);
/* Of the run in OUT; RT_FORMAT when they are not, or when they were altered and there is no --override. *checked: they
 * have a hash that holds. */
int rt_run_read_settings(rt_run *r, rt_settings *was, bool *checked, rt_err *e);
/* Settings of the run that is resumed, joined with what the user gave now. */
int rt_run_join_settings(rt_run *r, rt_err *e);
int rt_run_write_settings(rt_run *r, rt_err *e);
/* keep: bytes of metrics.jsonl that stay; the evaluations in them are those of the run so far. */
int rt_run_open_metrics(rt_run *r, uint64_t keep, rt_err *e);
int rt_run_metric(rt_run *r, json_t *line, rt_err *e); /* takes the reference */
/* Metrics, samples and events are on disk: before anything is written that counts on them. */
int rt_run_sync_logs(rt_run *r, rt_err *e);
void rt_run_close_metrics(rt_run *r);
/* The model in memory into best-NNNNNN of the checkpoints, whole or not at all. */
int rt_run_write_best(rt_run *r, rt_err *e);

/* ---- run_root.c: OUT itself, and what is somebody else's there ---- */
/* Of a run that goes on: RT_FORMAT names what is in OUT under the name of a file of a model and was not written there
 * by the run. Changes nothing. */
int rt_run_root_check(rt_run *r, rt_err *e);
/* Before the manifest of a run that had ended is begun anew: what it had written to OUT is still known as its own. */
int rt_run_root_keep(rt_run *r, rt_err *e);
/* At the end: what came there since is set aside under a name of its own, and told. Before the three that follow. */
int rt_run_root_clear(rt_run *r, rt_err *e);
/* The files of the model at the root: moved from a folder (best-NNNNNN), or, from null, the model in memory. */
int rt_run_write_root(rt_run *r, const char *from, rt_err *e);
/* With adapters: OUT/merged, the model with them added in. */
int rt_run_write_merged(rt_run *r, rt_err *e);
/* The model card; one that was edited stays, and the new one goes into OUT/run. Last of the three. */
int rt_run_put_card(rt_run *r, const rt_str *text, rt_err *e);
/* Whether the root holds a whole model. */
bool rt_run_has_root(const rt_run *r);

/* ---- run_origin.c: the folder in which the run began ---- */
/* Of a new run: the current folder, for the record. */
int rt_run_origin_write(rt_run *r, rt_err *e);
/* Sets r->found. */
int rt_run_find_inputs(rt_run *r, rt_err *e);
/* A model that a resumed run cannot find is named in its settings, not on the command line. */
void rt_run_explain_missing(const rt_run *r, int rc, rt_err *e);

/* ---- run_ended.c ---- */
/* Sets r->ended where the run, and its control where it has one, came to its end before. Changes no file of it. */
int rt_run_look_ended(rt_run *r, rt_err *e);

/* ---- run_fit.c: a run made to fit into the memory of its device ---- */
/* Before settings are resolved: what the user left free (said: what is given), and what the device is. */
int rt_run_fit_begin(rt_run *r, const bool *said, rt_err *e);
/* After: rows at a time, recomputing, the teacher's weights. */
int rt_run_fit(rt_run *r, rt_err *e);
/* Dtypes and frozen parts of its models, which no configuration changes. */
int rt_run_read_models(rt_run *r, rt_err *e);
/* The same, within what is asked. */
int rt_run_choose_fit(rt_run *r, const rt_fit_ask *ask, rt_err *e);
/* What was chosen, into the settings. */
void rt_run_keep_fit(rt_run *r);
rt_step_opts rt_run_step_opts(const rt_run *r, const rt_fit_config *c);

/* ---- run_source.c: a teacher that is a cache ---- */
/* What the settings leave open and the cache says: row length, temperature, what is held out. Before the data is read.
 * said: what is given. RT_INVALID for another temperature than the cache's. */
int rt_run_cache_settings(rt_run *r, const bool *said, rt_err *e);
/* RT_INVALID for what positions as it keeps them cannot serve. */
int rt_run_check_source(const rt_run *r, rt_err *e);
/* RT_INVALID where it lacks positions that the rest of the run will read: it says how
 * many, why that may be, and what to do. */
int rt_run_check_cache(rt_run *r, rt_err *e);

/* ---- run_supply.c: what the cache lacks is asked while the run goes on ---- */
/* The source of what the loss reads. */
rt_source *rt_run_source(rt_run *r);
/* What a step and an evaluation will read is asked from now on; with --time again, when steps are settled. */
int rt_run_supply_begin(rt_run *r, rt_err *e);
#define RT_RUN_SERVER "teacher-server.txt"
void rt_run_supply_end(rt_run *r);
/* Into OUT/run, for a resumed run. */
int rt_run_supply_keep(const rt_run *r, rt_err *e);
/* Epochs in which every unit of every source is read, from wherever one begins. */
uint64_t rt_run_epochs_of_all(const rt_inputs *in);

/* ---- run_weights.c: may the teacher be fp8 ---- */
/* Measures it on a few held-out rows where --teacher-weights is auto and the device is faster with fp8. Both teachers
 * are on the device at once, within limit bytes, and gone when it returns. Dtypes are known. */
int rt_run_measure_fp8(rt_run *r, uint64_t limit, rt_fp8 *out, rt_err *e);

/* ---- run_seal.c: programs with memory behind them, and what the device chose by timing ---- */
/* The trainer, without weights. RT_NOMEM when nothing fits that the user left free: it names what would. */
int rt_run_seal(rt_run *r, rt_err *e);
void rt_run_tell_plain(const rt_run *r); /* a note of the ops that plain kernels do */
/* Of a run that goes on: what was chosen by timing when it began, given to the device before anything is sealed. */
int rt_run_choices_read(rt_run *r, rt_err *e);
/* When everything is sealed: the choices into OUT/run/products.tsv, and a word on what was timed. */
int rt_run_choices_keep(rt_run *r, rt_err *e);

/* ---- run_ranks.c: rank 0 with the others ---- */
/* A plan may be of ranks that are not there. */
static inline uint32_t rt_run_ranks(const rt_run *r)
{
    return r->opts->peers ? r->opts->peers->size : r->opts->dry && r->opts->devices ? r->opts->devices : 1;
}
/* What a run of several ranks cannot do, when its settings are resolved. */
int rt_run_check_ranks(const rt_run *r, rt_err *e);
/* Its programs sealed by every rank, of the same binary, models and plan; else refused, before weights are read. */
int rt_run_lead(rt_run *r, const rt_step_opts *o, rt_seal_opts *seal, rt_err *e);

/* ---- run_device.c: what is said of a device, and of one that has failed ---- */
/* Before the first step: the log's line. RT_DEVICE where the run may not go on here. */
int rt_run_device_begin(rt_run *r, rt_err *e);
void rt_run_device_stepping(rt_run *r); /* a step begins */
void rt_run_device_stepped(rt_run *r, const rt_loop_step *s);
/* Whether the CPU is too slow, and the run is to stop; rc, or, where it has stopped for that, RT_DEVICE. */
bool rt_run_device_slow(const rt_run *r);
int rt_run_device_given_up(const rt_run *r, int rc, rt_err *e);

/* ---- run_copy.c: the state in host memory ---- */
/* RT_INVALID where there is no room for it. */
int rt_run_copy_begin(rt_run *r, rt_err *e);
int rt_run_copy_take(rt_run *r, rt_err *e);
/* What is newer than the checkpoints becomes one. */
void rt_run_copy_end(rt_run *r);

/* ---- run_smoke.c: the first steps time themselves ---- */
enum { RT_SMOKE_STEPS = 10 };
/* With --smoke evaluation is timed on a few rows. */
int rt_run_smoke_rows(rt_run *r, rt_err *e);
/* Seconds of an evaluation of the run, where one of the rows of this process took so long. */
double rt_run_smoke_scale(const rt_run *r, double seconds);
/* Seconds of the parts of this run when a step and an evaluation take so long; saving is tried on its disk. */
int rt_run_pace(rt_run *r, double step, double eval, rt_pace *out, rt_err *e);
/* --time: steps are timed, undone, and the settings completed with as many as fit. */
int rt_run_fit_time(rt_run *r, rt_err *e);
/* After every step; true: the run was for this alone and ends. */
void rt_run_project(rt_run *r, bool *ends);

/* ---- run_evidence.c: manifest.json and verdict.json ---- */
/* Of a run that goes on: that models and template are those that its manifest names. */
int rt_run_evidence_resume(rt_run *r, rt_err *e);
/* OUT/run/manifest.json with all that is known before the first step. */
int rt_run_evidence_begin(rt_run *r, rt_err *e);
/* After the last step, while its weights are in memory: which parameters have moved. */
int rt_run_evidence_weights(rt_run *r, rt_err *e);
/* When everything else is written: verdict.json, and the manifest completed with the hashes of all files. */
int rt_run_evidence_end(rt_run *r, rt_run_summary *s, rt_err *e);
/* Then, when its control has ended: the checksum of the control's manifest into that of the run. */
int rt_run_evidence_control(rt_run *r, rt_hash128 control, rt_run_summary *s, rt_err *e);

/* ---- run_hashes.c: what a run reads back was hashed when it was written ---- */
/* Before a checkpoint: the hashes of the logs so far and of the best model, for it to keep. *out is the caller's. */
int rt_run_hashes_take(rt_run *r, json_t **out, rt_err *e);
/* Of a run that goes on from a whole checkpoint: RT_FORMAT names the log that is not as it was then. */
int rt_run_hashes_check(rt_run *r, const char *checkpoint, rt_err *e);
/* The best model, in its folder or already at the root: RT_FORMAT names the file that is not as it was written. */
int rt_run_best_check(rt_run *r, const char *folder, rt_err *e);

/* ---- run_train.c, control.c: a run trained from where it stands to its end, and its control ---- */
/* Steps, evaluations, checkpoints; then the model at the root, measured, with its evidence and its report. */
int rt_run_train_alone(rt_run *r, rt_run_summary *out, rt_err *e);
/* Then its control, or the rest of it, drawn over the report of r. The programs of r are given back first: the two
 * never share the memory of the device. */
int rt_run_train_control(rt_run *r, rt_run_summary *out, rt_err *e);

#endif
