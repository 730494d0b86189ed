/* resolve.h - settings made definite: every "auto" from the models and the data, every word and share as a number.
 *
 * Owns: the defaults that depend on something, each with its reason in docs/training.md, and the checks that numbers
 * make sense together. Pure: from facts to numbers; files are opened elsewhere. */
#ifndef RT_JOB_RESOLVE_H
#define RT_JOB_RESOLVE_H

#include "format/config/config.h"
#include "format/metrics.h"
#include "settings/settings.h"
#include "teacher/teacher_memory.h"
#include "teacher/teacher_weights.h"
#include "train/schedule.h"
#include "train/step_plan.h"

enum { RT_BATCH = 32 }; /* rows of a step, unless another number is given or the data is too small */

/* What defaults depend on. */
typedef struct rt_run_facts {
    const rt_model_config *student, *teacher;            /* teacher null: `train` */
    const rt_model_config *others[RT_TEACHERS_MOST - 1]; /* teachers besides that one */
    uint32_t other_teachers;
    uint32_t prompt[RT_TEACHERS_MOST]; /* ids that each teacher reads besides those of a row */
    uint64_t student_parameters;
    rt_dtype student_dtype;  /* what most of it is stored in */
    uint64_t records;        /* of the data */
    uint64_t tokens;         /* of the data; 0: not known */
    uint64_t eval_tokens;    /* of --eval-data, as weighted: what one evaluation reads */
    uint32_t length99;       /* tokens that 99 % of the records do not exceed; 0: not known yet */
    uint64_t rows_per_epoch; /* 0: not known yet */
    uint32_t positions;      /* of a micro-batch that keep the device busy; 0: what a CPU needs */
    uint32_t sharing;        /* ranks among which the optimizer's state can be shared out; 0, 1: it cannot */
    bool old;                /* a run that was trained before there was --eval-rows: it measures all rows */
} rt_run_facts;

typedef struct rt_resolved {
    rt_loss_opts loss;
    rt_schedule schedule;
    bool lr_open; /* the rate goes by the first evaluation: rt_resolve_rate; until then the schedule's is near */
    double lr_near, lr_far; /* the two that it can be */
    rt_dtype moments;       /* of the optimizer */
    double beta1, beta2, eps, weight_decay, max_grad_norm;
    uint32_t batch, micro_batch, seq_len, steps;
    uint32_t teacher_batch;             /* rows that the teacher should read at once */
    rt_teacher_weights teacher_weights; /* AUTO until the run is made to fit */
    rt_teacher_memory teacher_memory;   /* likewise */
    uint32_t eval_every, save_every, keep;
    double held_out;       /* share of records; 0: a file is given */
    uint64_t held_records; /* as a number; 0: the share was given */
    bool held_chosen;      /* by us, not by --held-out or --eval-data */
    uint32_t eval_rows;    /* that an evaluation measures at most */
    double eval_share;     /* of the run's arithmetic that its evaluations are; 0: not known */
    double eval_room;      /* rows that all evaluations together may measure; 0: not known */
    uint32_t stop_if_worse;
    rt_lora lora;
    rt_recompute_counts recompute;
    uint32_t head_chunk;
    uint32_t zero; /* rt_zero; with one rank nothing is shared out, whatever it is */
    rt_dtype save_dtype;
    bool save_best;
    uint64_t memory_limit;    /* bytes; 0: what the device has free */
    double seconds;           /* of --time; steps are then settled by the run (run_smoke.c); 0: not given */
    uint64_t seed, held_seed; /* held_seed: of what is held out */
} rt_resolved;

/* In two parts, because rows need a length and a held-out share before they can be counted: before_rows settles what
 * data needs (loss, seq_len, held_out, lora), with_rows the rest (steps, rates, intervals). Each writes what it settled
 * back into s, so that the record of the run is complete. What a setting needs of the others is
 * settings.h's. RT_INVALID or RT_USAGE names the flag, its value and what it may be. */
int rt_resolve_before_rows(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e);
int rt_resolve_with_rows(rt_settings *s, const rt_run_facts *f, rt_resolved *r, rt_err *e);

/* Where lr_open: the class of the student and its rate, into s and r, by what was measured before step 1. */
void rt_resolve_rate(rt_settings *s, const rt_run_facts *f, rt_resolved *r, const rt_eval_result *first);

/* Which parameters of the student the patterns freeze: frozen (rt_param_count). A pattern that matches nothing is
 * RT_INVALID with the nearest name. */
int rt_resolve_freeze(const rt_setting_list *patterns, const rt_model_config *c, bool *frozen, rt_err *e);

#endif
