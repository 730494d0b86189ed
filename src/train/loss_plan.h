/* loss_plan.h - head and loss of a training batch, recorded, chunk by chunk.
 *
 * Owns: the chunks. Logits of teacher and student exist for `chunk` tokens at a time; kd_loss turns the student's into
 * their gradient in place, and two matmuls take that to the hidden state and to the head (docs/design.md, section 5).
 * Logits of a whole batch never exist here; the few positions of --dump-step and the samples have programs of their
 * own. What the loss is, is kd_loss; what a step is, is step_plan.h. */
#ifndef RT_TRAIN_LOSS_PLAN_H
#define RT_TRAIN_LOSS_PLAN_H

#include "model/decoder.h"
#include "teacher/several.h"

typedef struct rt_loss_opts {
    rt_divergence divergence;
    double mix;         /* beta of JSD, lambda of the skewed forms */
    double temperature; /* of the divergence */
    double ce_weight, kd_weight;
    bool t2; /* the divergence is weighted with T^2 besides */
} rt_loss_opts;
static inline double rt_loss_kd_weight(const rt_loss_opts *o) /* T^2 in it */
{
    return o->kd_weight * (o->t2 ? o->temperature * o->temperature : 1.0);
}

/* A teacher that gives a few ids of each position instead of its logits, as kd_loss takes them. */
typedef struct rt_step_list {
    rt_view id, logp; /* (N,n) */
    rt_view rest;     /* (N,1) */
} rt_step_list;

/* Several teachers: the mixture of their probabilities is learnt from. */
typedef struct rt_loss_one {
    const rt_decoder *decoder;
    rt_view hidden; /* (N,C of it), normed */
    rt_view share;  /* (N,1) of this teacher in each row; all of them add up to 1 where the row has a target */
} rt_loss_one;
typedef struct rt_loss_mix {
    rt_loss_one of[RT_TEACHERS_MOST];
    uint32_t count;
} rt_loss_mix;

typedef struct rt_loss_io {
    rt_view hidden;         /* (N,C) of the student, normed */
    rt_view dhidden;        /* (N,C) = its gradient; RT_NONE: values only */
    rt_view teacher_hidden; /* (N,C of the teacher), normed; RT_NONE: no teacher, or one that gives lists */
    const rt_loss_mix *mix; /* several teachers, in the place of one; null: there is one, or none */
    rt_step_list list;      /* (N,n): the teacher as a list of ids; RT_NONE: it has logits, or there is none */
    rt_view target, step, fault;
    rt_view sums;          /* (1,4) +=: CE, D, top-1 agreements, positions */
    rt_view ce, div, top1; /* (N,1) per position, or RT_NONE */
    rt_view vmask;         /* ids that both vocabularies define; RT_NONE: all, and the sizes are equal */
} rt_loss_io;

/* The fault record names where a number was not finite: a chunk of the head (RT_SITE_HEAD + its index; the row counts
 * within it), or a gradient (RT_SITE_GRAD + the parameter's index). */
enum { RT_SITE_HEAD = 0x1000, RT_SITE_GRAD = 0x100000, RT_SITE_NORM = 0x2000000 };

/* Logits of one teacher more into a mixture at temperature T: mix is RT_NONE before the first, then what this gave.
 * (n, vocabulary of the student), in the policy's scalars: a mixture in 16 bits would be another one. */
rt_view rt_loss_mixed(rt_plan *p, rt_view mix, rt_view logits, rt_view share, rt_view vmask, uint32_t vocab, double T);

/* teacher: null for CE alone, or where it gives a list or there are several. chunk: tokens at a time, at least 1; the
 * last chunk may be shorter. */
void rt_loss_record(rt_plan *p, const rt_decoder *student, const rt_decoder *teacher, const rt_loss_io *io,
                    const rt_loss_opts *o, uint32_t chunk);

#endif
