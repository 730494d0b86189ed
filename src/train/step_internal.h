/* step_internal.h - shared by step.c, which runs programs, and the files of what it writes before and reads after them.
 */
#ifndef RT_TRAIN_STEP_INTERNAL_H
#define RT_TRAIN_STEP_INTERNAL_H

#include "train/step.h"

/* All of a view of plain floats as f32, one way or the other. */
int rt_step_move(rt_trainer *t, rt_view v, float *read_to, const float *write_from, rt_err *e);

/* Micro-batches of this rank's own, and the update; v: step values, tokens counted over all ranks. row: rows of the
 * step before them. */
int rt_step_begin(rt_trainer *t, const rt_batch *micro, uint32_t count, uint32_t row, const rt_step *v, rt_err *e);
/* ---- several ranks (lead.c) ---- */
enum { RT_BATCH_ARRAYS = 5 }; /* of a rt_batch */
/* Room for the rows of a step of all ranks, `micro` micro-batches each: RT_BATCH_ARRAYS of (ranks * micro, B * T). Its
 * size does not change in a run. Null: no memory. */
int32_t *rt_step_rows(rt_trainer *t, uint32_t micro, rt_err *e);
rt_batch rt_step_rows_at(const rt_trainer *t, int32_t *rows, uint32_t micro, uint32_t i); /* micro-batch i of it */
/* Rank 0 tells the others of a step, whose micro-batches are those of all ranks. */
int rt_step_lead(rt_trainer *t, const rt_batch *micro, uint32_t count, const rt_step *v, rt_err *e);

/* What ranks share out, brought together by all of them: data (n), of which each shows what it owns. */
int rt_step_show(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, void *data, rt_err *e);

/* ---- several teachers (step_teachers.c) ---- */
/* Which share each teacher has of each position; nothing where there are not several. */
int rt_step_write_shares(rt_trainer *t, const rt_batch *b, rt_err *e);
int rt_step_write_picked_shares(rt_trainer *t, const rt_batch *b, const int32_t *pick, rt_err *e);
/* The cross-entropy of the mixture; ce is the first teacher's. */
int rt_step_mix_ce(rt_trainer *t, const rt_batch *b, float *ce, rt_err *e);
/* Rows of teachers that have prompts. What is never put in its place, because nothing of it is trained, is 0. */
int rt_step_reading_new(rt_trainer *t, bool sealed, rt_err *e);
/* A pass of what teacher k reads, after rt_trainer_passes; after its last one that again. */
int rt_step_write_reading(rt_trainer *t, uint32_t k, uint32_t pass, rt_err *e);

#endif
