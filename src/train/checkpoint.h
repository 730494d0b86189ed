/* checkpoint.h - a run at a step, on disk: the model as others load it, and all that going on to the bit needs.
 *
 *   checkpoint-000500/  config.json, model.safetensors, tokenizer files (or adapter_model.safetensors)   the model
 *                       state.safetensors   weights (masters), m and v of every trained parameter, f32
 *                       state.json          step, data cursor, best so far, hashes of the files, the programs' hash
 *
 * Which folder they lie in is format/run_places.h.
 * Owns: writing all of it under a temporary name, making it durable and renaming it; checking every byte before it is
 * used again; which checkpoints are kept. */
#ifndef RT_TRAIN_CHECKPOINT_H
#define RT_TRAIN_CHECKPOINT_H

#include "format/run_places.h"
#include "train/evaluate.h"
#include "train/output.h"

/* What a checkpoint knows besides weights. */
typedef struct rt_progress_state {
    uint32_t step; /* optimizer steps done */
    rt_cursor cursor;
    uint64_t tokens, trained; /* positions gone through, and of them trained */
    double seconds;           /* of training so far, all sessions */
    uint64_t metrics_bytes;   /* metrics.jsonl up to here belongs to this checkpoint */
    double best;              /* lowest measure so far; NaN: none */
    uint32_t best_step;
    rt_hash128 programs; /* of all programs: another one may give other bits */
    json_t *beside;      /* what is known of files that are not in the checkpoint, for rt_checkpoint_beside; borrowed;
                            null: nothing, and always when it was read */
} rt_progress_state;

/* folder/checkpoint-NNNNNN. An existing one of that step is replaced; RT_INVALID when what is there is not of a run, or
 * holds files that are not. */
int rt_checkpoint_save(const char *folder, rt_trainer *t, const rt_output *model, const rt_progress_state *s,
                       rt_err *e);
/* How many bytes a checkpoint takes, without state.json, which is a few hundred. The trainer may be sealed dry. */
int rt_checkpoint_bytes(rt_trainer *t, const rt_output *model, uint64_t *bytes, rt_err *e);
/* Reads state.json and compares the hash of every file: RT_FORMAT names the one that is damaged and what to do. */
int rt_checkpoint_check(const char *path, rt_progress_state *s, rt_err *e);
/* What `beside` was when a whole checkpoint was saved; null: nothing. *out is the caller's. */
int rt_checkpoint_beside(json_t **out, const char *path, rt_err *e);
/* {"model.safetensors": "hash", ...} of every file that is in a folder, but for state.json. */
int rt_folder_hashes(json_t *out, const char *folder, rt_err *e);
/* Weights and moments into a trainer, after rt_checkpoint_check. RT_INVALID when it is of another model. */
int rt_checkpoint_load(const char *path, rt_trainer *t, rt_err *e);
/* Removes all but the newest `keep`, never the newest; and of the best models those that no checkpoint that is kept
 * could name. Folders that only have such a name, or that hold other files too, are not looked at. */
void rt_checkpoint_prune(const char *folder, uint32_t keep);
/* folder/best-NNNNNN: the model of that step, which was the best so far. */
char *rt_best_path(rt_arena *a, const char *folder, uint32_t step);
void rt_best_remove(const char *folder); /* all of them */
/* Over all programs of the step; those of samples decide no bit of it. of_all: without those that say which slice is a
 * rank's own, so that all ranks have the same. */
int rt_programs_hash(const rt_trainer *t, bool of_all, rt_hash128 *out, rt_err *e);

#endif
