/* step_plan.h - every program of a run, recorded in one space: teacher, micro-batches, update, evaluation.
 *
 * Owns: the buffers that a run has besides the models' (tokens, step values, sums, moments) and the order of ops in
 * each program. Samples are generators of infer/, recorded beside them. It records; train/step.h seals and runs.
 * Nothing here changes from step to step. */
#ifndef RT_TRAIN_STEP_PLAN_H
#define RT_TRAIN_STEP_PLAN_H

#include "infer/generator.h"
#include "teacher/reading.h"
#include "teacher/source.h"
#include "train/loss_plan.h"
#include "train/recompute.h"
#include "train/slices.h"

/* A live teacher besides the first. */
typedef struct rt_step_other {
    const rt_model_config *config;
    const rt_dtype *dtypes; /* as stored; null: the policy's */
    rt_layer_range coded;
} rt_step_other;

/* name, in every run or only with a teacher */
#define RT_PROGRAM_LIST(X)                                                                                             \
    X(TEACHER, "teacher forward") /* the teacher's last hidden state of a micro-batch */                               \
    X(AHEAD, "teacher ahead")     /* the same of several at once */                                                    \
    X(FIRST, "first micro-batch") /* gradients = */                                                                    \
    X(NEXT, "next micro-batch")   /* gradients += */                                                                   \
    X(UPDATE, "update")           /* norm, clip, AdamW */                                                              \
    X(EVAL, "evaluation")         /* per-position values, no gradient */                                               \
    X(LOGITS, "logits")           /* of a few positions, where they are asked for */                                   \
    X(START, "start")             /* moments 0, masters from the weights */
typedef enum rt_program {
#define X(name, text) RT_PROGRAM_##name,
    RT_PROGRAM_LIST(X)
#undef X
        RT_PROGRAM_COUNT
} rt_program;
/* With those of both generators. */
enum { RT_PROGRAM_MOST = RT_PROGRAM_COUNT + 2 * RT_GENERATOR_PROGRAMS };

/* What several ranks share out, each having a slice of it: masters and moments; gradients too. Weights are whole on all
 * of them. */
typedef enum rt_zero { RT_ZERO_NONE, RT_ZERO_STATE, RT_ZERO_GRADS, RT_ZERO_COUNT } rt_zero;

typedef struct rt_step_opts {
    uint32_t B, T;       /* rows of a micro-batch, positions of a row */
    uint32_t ranks;      /* that add up their gradients in an update; 0, 1: there is one */
    uint32_t rank;       /* which of them this is: rt_trainer_open takes it from the peers */
    rt_zero zero;        /* what they share out among them; with one rank nothing */
    bool accumulate;     /* a step may have more than one micro-batch */
    uint32_t ahead;      /* micro-batches that the teacher reads at once in a step; 0, 1: each by itself */
    uint32_t chunk;      /* tokens of the head at a time; 0: chosen from the vocabulary, */
    uint64_t head_bytes; /* so that all their logits stay within this; 0: what the device says, or 64 MiB */
    rt_recompute_counts recompute;
    rt_loss_opts loss;
    double beta1, beta2, eps, weight_decay; /* decay on matrices alone */
    rt_dtype moments;                       /* of AdamW: f32, bf16 or u8; where scalars are f64, they are */
    double max_grad_norm;                   /* <= 0: the norm is measured, nothing is clipped */
    rt_policy policy;
    const rt_model_config *student, *teacher; /* teacher null: CE alone, or a source of lists */
    const rt_step_other *others;              /* (other_count) more live teachers: the mixture of all is learnt from */
    uint32_t other_count;                     /* needs `teacher`, as a live one */
    const double *shares;                     /* (groups, 1 + other_count): of each teacher in the rows of a group */
    uint32_t share_groups;                    /* as rt_batch has them */
    const rt_teacher_prompt
        *prompts[RT_TEACHERS_MOST]; /* of each live teacher; null: it reads what the student reads */
    rt_source_shape source;         /* hidden states: of `teacher` the head alone is there */
    const rt_dtype *teacher_dtypes; /* as stored; null: the policy's. Of a head alone: its own */
    rt_layer_range teacher_coded;   /* layers that are multiplied as e4m3 codes, made at every use */
    rt_class teacher_home; /* PARAM; HOST, DISK: where matrices of teachers' layers are, copied in as they are read */
    const rt_dtype *student_dtypes; /* of a student that is frozen (adapters, eval_only); else null */
    rt_layer_range student_coded;   /* of one that is not trained */
    const bool *frozen;             /* (rt_param_count of the student) or null */
    rt_lora lora;
    bool eval_only; /* nothing is trained: no gradients, no moments, no programs but the teacher's and evaluation's */
    bool vmask;     /* the divergence is over a part of the ids */
    uint32_t picks; /* positions whose logits can be asked for; 0: there is no such program */
    uint32_t sample_context; /* longest sample with its prompt; 0: the models write no samples */
} rt_step_opts;

/* State of the optimizer for one trained parameter, shaped as it, or as the rows of it that this rank owns (exps: two
 * bytes for each 128 of a row). RT_NONE: it owns none. */
typedef struct rt_moments {
    rt_view m, v;
    rt_view exps;   /* of 8-bit moments (num/moment.h); else RT_NONE */
    rt_view master; /* RT_NONE: the parameter is its own */
} rt_moments;

/* What evaluation gives for each position, (N,1). */
typedef struct rt_eval_views {
    rt_view ce, div, kl, top1, teacher_ce; /* kl: forward KL at temperature 1; div, where it is another, the loss's */
} rt_eval_views;

/* What a run has of a live teacher besides the first, which has these under names of its own. */
typedef struct rt_step_more {
    rt_decoder *decoder;
    rt_view hidden, ahead_hidden, teacher_ce;
} rt_step_more;

/* A teacher with a prompt of its own reads rows of its own, some in a pass. */
typedef struct rt_step_reading {
    rt_tokens tokens; /* B 0: it reads what the student reads */
    rt_view place;    /* (B*T of tokens,1): which position of the student each is; -1: none */
} rt_step_reading;

typedef struct rt_step_plan {
    rt_step_opts opts;
    rt_space *space;
    rt_decoder *student, *teacher; /* teacher null: none, or one that gives lists */
    rt_tokens tokens;
    rt_view target, step, fault, vmask;
    rt_view sums;            /* (1,4) of the optimizer step */
    rt_view eval_sums;       /* (1,4), not looked at: evaluation sums its positions by document on the host */
    rt_view nsq, norm, clip; /* (1,1) */
    rt_view teacher_hidden;
    rt_step_list list, held[2]; /* of positions that are trained on; of held-out ones at T 1, and at the loss's */
    rt_tokens ahead_tokens; /* of `ahead` micro-batches; their hidden states; which rows of those a micro-batch takes */
    rt_view ahead_hidden, ahead_rows;
    rt_eval_views eval;
    rt_step_more more[RT_TEACHERS_MOST - 1]; /* (opts.other_count) */
    rt_view share[RT_TEACHERS_MOST];         /* (N,1) of each of several teachers in each row */
    rt_view pick_share[RT_TEACHERS_MOST];    /* (picks,1) the same of picked positions */
    rt_step_reading reading[RT_TEACHERS_MOST];
    rt_view pick;                    /* (picks,1): which positions */
    rt_view logits, teacher_logits;  /* (picks,V), (picks, V of the teacher; of several their mixture, V) */
    rt_moments *moments;             /* (student->param_count), zero where nothing is trained */
    rt_dtype moment_dtype;           /* of all m and v */
    bool masters;                    /* weights are stored narrower than what is trained */
    rt_slices slices;                /* where ranks share the state out */
    rt_view *bucket_sum;             /* (student->bucket_count) gradients of this rank's slices, over all ranks */
    uint32_t bucket_held;            /* while backward is recorded: 1 + the bucket that is added up next; 0: none */
    rt_plan *plan[RT_PROGRAM_COUNT]; /* null where there is none; `index` counts those that are there */
    uint32_t index[RT_PROGRAM_COUNT];
    rt_generator *student_says, *teacher_says; /* over the same weights; null where there is none */
    rt_arena arena;
} rt_step_plan;

int rt_step_plan_new(rt_step_plan **out, const rt_step_opts *o, rt_err *e);
void rt_step_plan_free(rt_step_plan *s); /* accepts null */
/* Whether there is a teacher, of whatever kind. */
static inline bool rt_step_plan_distils(const rt_step_plan *s)
{
    return s->teacher || rt_source_lists(&s->opts.source);
}
/* The programs that are there, in order, then those of the generators: what rt_exec_seal takes. */
uint32_t rt_step_plan_list(const rt_step_plan *s, const rt_plan *plans[RT_PROGRAM_MOST]);
/* After sealing that list: the generators find their programs in x. */
int rt_step_plan_attach(rt_step_plan *s, rt_exec *x, rt_err *e);
/* Tokens of the head at a time whose logits, of both models, stay within room. */
uint32_t rt_head_chunk(uint32_t tokens, uint64_t token_bytes, uint64_t room);

#endif
