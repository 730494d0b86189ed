/* source.h - where the teacher's probabilities come from, as a step sees it.
 *
 * Owns: the forms in which they can come, which losses each can serve, and the seam through which a source that is no
 * program of the run fills the buffers that the loss reads. A live teacher needs no such source: its layers are a
 * program of their own (train/step_plan.h). What a source keeps, and where, is its own room's. */
#ifndef RT_TEACHER_SOURCE_H
#define RT_TEACHER_SOURCE_H

#include "base/err.h"
#include "num/dtype.h"
#include "op/args.h"

typedef enum rt_source_form {
    RT_FORM_LIVE,   /* the teacher's layers run in the step, or there is no teacher: exact */
    RT_FORM_HIDDEN, /* its last hidden states; its head runs in the step: exact for every divergence */
    RT_FORM_TOPK,   /* its k likeliest ids and the mass of the rest: D over k + 1 outcomes, which is no more than D */
    RT_FORM_DRAWS   /* ids drawn from it: forward KL alone, without bias */
} rt_source_form;
const char *rt_source_form_name(rt_source_form f); /* "live", "hidden states", "top-k", "draws" */

/* What the programs of a run are recorded for. Zeroes: a live teacher, or none. Held-out positions come as top-k where
 * those that are trained on are top-k or draws, else as these. */
typedef struct rt_source_shape {
    rt_source_form form;
    uint32_t n;      /* entries of a position that is trained on: k, or draws */
    uint32_t held_n; /* k of one that is held out */
    bool whole;      /* the lists are of all ids */
    bool blind;      /* of held-out targets nothing is known but what lists say: no cross-entropy of the teacher */
} rt_source_shape;
/* Whether lists of ids take the place of the teacher's logits. */
static inline bool rt_source_lists(const rt_source_shape *s)
{
    return s->form == RT_FORM_TOPK || s->form == RT_FORM_DRAWS;
}
/* RT_INVALID where positions in this form cannot serve the divergence: it says which forms could. */
int rt_source_check(rt_source_form f, rt_divergence d, double mix, rt_err *e);

typedef enum rt_source_use {
    RT_USE_TRAIN,    /* positions to be trained on, at the temperature of the loss */
    RT_USE_HELD,     /* held out, at temperature 1 */
    RT_USE_HELD_LOSS /* held out, at the temperature of the loss */
} rt_source_use;

/* Rows as the teacher reads them, (B*T) each: as in rt_batch. */
typedef struct rt_source_rows {
    const int32_t *ids, *start, *target;
    uint32_t B, T;
} rt_source_rows;

/* Where it goes. Of positions without a target nothing is written but unused entries. */
typedef struct rt_source_out {
    int32_t *id;        /* (B*T,n) lists: -1 is an unused entry */
    float *logp;        /* (B*T,n) */
    float *rest;        /* (B*T) the mass that is not listed */
    float *add;         /* (B*T) draws: what is to be added to D, which no student changes; top-k: 0 */
    float *target_logp; /* (B*T) RT_USE_HELD: log-probability of each target; NaN: not known */
    void *hidden;       /* (B*T,C) hidden states, */
    rt_dtype dtype;     /* in this dtype */
} rt_source_out;

typedef struct rt_source rt_source;
struct rt_source {
    /* RT_NOT_FOUND where something is missing, which whoever opened the source has looked for before. */
    int (*fill)(rt_source *s, rt_source_use use, const rt_source_rows *rows, const rt_source_out *out, rt_err *e);
};

#endif
