/* step.h - the step: sealed programs, fed with rows, giving losses; one optimizer step or one evaluation at a time.
 *
 * Owns: the sealed run, what the host writes before a program and reads after it, and turning a fault record into a
 * sentence. It knows no files, no schedule and no data set: rows come as arrays, the learning rate as a number. */
#ifndef RT_TRAIN_STEP_H
#define RT_TRAIN_STEP_H

#include "exec/exec.h"
#include "infer/feed.h"
#include "infer/load.h"
#include "train/step_plan.h"

/* An adapter before its first step, as PEFT has it: A uniform in +-1/sqrt(in), B zero. w: all of parameter `index`. */
void rt_adapter_init(float *w, const rt_param *p, uint32_t index, uint64_t seed);

/* One micro-batch on the host, (B*T) each, row after row. A row that is not there is all padding: ids 0, targets -1.
 * group: which teachers each position is asked of, and with which shares (rt_step_opts); null: 0, all alike. */
typedef struct rt_batch {
    const int32_t *ids, *pos, *start, *target, *group;
} rt_batch;
/* Positions whose target is not negative. */
uint32_t rt_batch_trained(const rt_batch *b, uint32_t positions);

/* A few scalars as the device stores them. */
typedef union rt_scalars {
    float f32[4];
    double f64[4];
} rt_scalars;

/* A step that was begun: the device fills the first four, in order, when it has come so far. */
typedef struct rt_step_begun {
    rt_fault fault;
    rt_scalars sums, norm, clip;
    rt_ticket ticket;                       /* of the last of them */
    uint32_t step, tokens, micro, readings; /* readings: runs of the teacher's program */
    double add;                           /* to the sum of the divergence: what a source says that no student changes */
    rt_exec_timing ran[RT_PROGRAM_COUNT]; /* one run of each */
} rt_step_begun;
enum { RT_STEPS_BEGUN = 2, RT_STEP_RANKS = 4096 /* at most */ };

typedef struct rt_trainer {
    rt_step_plan *plan;
    rt_exec *x;
    double teacher_seconds, student_seconds, update_seconds;
    rt_step_begun begun[RT_STEPS_BEGUN]; /* step i at i % RT_STEPS_BEGUN */
    uint64_t begin_count, end_count;     /* steps */
    int32_t *rows; /* (B*T) scratch: which rows of the teacher's output a micro-batch takes; null: not needed */
    rt_reading reading[RT_TEACHERS_MOST]; /* what teachers with prompts read of a micro-batch */
    float *shares;         /* scratch of one of several teachers, for positions or picks; null: there are not several */
    rt_source *source;     /* of a plan whose teacher is none of its programs; set by whoever opened it. Null: such a
                              teacher's measures mean nothing */
    rt_disk_feed *feed;    /* of a teacher that is read from disk; else null */
    rt_source_out served;  /* its rows, before they are written */
    const rt_watch *watch; /* of loading, evaluating and saving; set by whoever opened it, null: nobody's */
    /* Of the micro-batches of a step, where the device does not run by itself: told before each, and when it is to stop
     * the step is given up with RT_INTERRUPTED, before any weight has changed. Null: nobody's. */
    const rt_watch *step_watch;
    rt_peers *peers;     /* the ranks that make its steps together (follow.h), of the seal options; null: none */
    uint32_t rank_batch; /* rows of a step of all ranks; set by whoever leads them */
    int32_t *rank_rows;  /* (rank_cap) those of a step, on their way */
    uint64_t rank_cap;
} rt_trainer;

int rt_trainer_open(rt_trainer **out, rt_dev *d, const rt_step_opts *o, const rt_seal_opts *seal, rt_err *e);
void rt_trainer_free(rt_trainer *t); /* accepts null */
/* Weights of both models; a teacher that is read from disk stays open as long as t. Moments 0, masters from the
 * weights, adapters: A uniform in +-1/sqrt(in), B 0. teacher null where the plan has none. vmask (ceil(V/32)) words,
 * when the plan has one. Teachers besides the first are loaded one by one, index from 0. */
int rt_trainer_load(rt_trainer *t, const rt_model_file *student, const rt_model_file *teacher, const uint32_t *vmask,
                    uint64_t seed, rt_err *e);
int rt_trainer_load_other(rt_trainer *t, uint32_t index, const rt_model_file *teacher, rt_err *e);

typedef struct rt_step_result {
    double loss, ce, div;   /* averages over the trained positions; loss as weighted */
    double agreement;       /* share of positions where both models' first choice is the same */
    double grad_norm, clip; /* before clipping; the factor that was applied */
    uint64_t trained;       /* positions, as the device counted them */
} rt_step_result;
/* step counts from 1. RT_INVALID when nothing is trained in these micro-batches; RT_NONFINITE says what was not finite
 * and where: the weights are then those before this step. RT_INTERNAL when the device counted other positions than the
 * host. A teacher that is a source is asked for the rows of each micro-batch before it is enqueued. */
int rt_trainer_step(rt_trainer *t, const rt_batch *micro, uint32_t count, uint32_t step, double lr, uint64_t seed,
                    rt_step_result *out, rt_err *e);
/* The same in two parts, so that a device that runs by itself need not stand still while the host looks at a result:
 * begin enqueues a step, and its rows may then be reused; end waits for the oldest that was begun. Up to RT_STEPS_BEGUN
 * may be under way. Once a step has found something not finite, no later one changes a weight. */
int rt_trainer_begin(rt_trainer *t, const rt_batch *micro, uint32_t count, uint32_t step, double lr, uint64_t seed,
                     rt_err *e);
int rt_trainer_end(rt_trainer *t, rt_step_result *out, rt_err *e);

/* With several ranks, rank 0's step is theirs too: micro has as many micro-batches for each, rank after rank. */

/* How often the teacher's program runs for a micro-batch: more than once where prompts of teachers' own take more rows
 * than there are; 0: e says why it cannot be read. */
uint32_t rt_trainer_passes(rt_trainer *t, const rt_batch *b, rt_err *e);

/* (B*T) each, for positions with a target; others are 0. teacher_ce of several: of the mixture, each one's probability
 * of the target weighted with its share. Arrays may be null. Without a teacher only ce is filled. div
 * and kl of a teacher that gives lists are those over its lists' outcomes. */
typedef struct rt_eval_out {
    float *ce, *div, *kl, *top1, *teacher_ce;
} rt_eval_out;
int rt_trainer_eval(rt_trainer *t, const rt_batch *b, const rt_eval_out *out, rt_err *e);

/* How long the teacher's pass takes over the first of these micro-batches (count) while its layers are copied in beside
 * it. To be asked between steps, since what they need of the teacher is read again. RT_UNSUPPORTED as rt_exec_measure.
 */
int rt_trainer_measure_teacher(rt_trainer *t, const rt_batch *micro, uint32_t count, rt_exec_span *out, rt_err *e);

/* Logits of the positions pick (plan->opts.picks) of a batch, as f32: student (picks,V), teacher (picks, its V; of
 * several their mixture at the loss's temperature, V) or null. For plans that have picks. */
int rt_trainer_logits(rt_trainer *t, const rt_batch *b, const int32_t *pick, float *student, float *teacher, rt_err *e);

/* What a checkpoint keeps of parameter i: 'w' weight or master, 'm', 'v', and 's' the exponents of 8-bit moments; in
 * their own dtype (f64 as f32). Elements 0: it has none. Where ranks share it out, rank 0 reads all of it, and the
 * others answer (follow.h); each writes what it owns. rt_trainer_put_state: rank 0's, and all write it. */
rt_dtype rt_trainer_state_dtype(const rt_trainer *t, char what, uint32_t param);
uint64_t rt_trainer_state_elems(const rt_trainer *t, char what, uint32_t param);
int rt_trainer_read_state(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, void *out, rt_err *e);
int rt_trainer_write_state(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, const void *in,
                           rt_err *e);

int rt_trainer_put_state(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, const void *in,
                         rt_err *e);

/* Raw access: what = 'w' weight or master, 'm', 'v' (no codes of 8 bits), 'g' gradient, of parameter i; as f32. */
uint64_t rt_trainer_elems(const rt_trainer *t, uint32_t param);
int rt_trainer_read(rt_trainer *t, char what, uint32_t param, float *out, rt_err *e);
int rt_trainer_write(rt_trainer *t, char what, uint32_t param, const float *in, rt_err *e);
/* Elements [first, first + n) of it. */
int rt_trainer_read_part(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, float *out, rt_err *e);
int rt_trainer_write_part(rt_trainer *t, char what, uint32_t param, uint64_t first, uint64_t n, const float *in,
                          rt_err *e);

#endif
