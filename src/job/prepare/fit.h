/* fit.h - how a run is made to fit into memory: rows at a time and what each layer recomputes, never the loss.
 *
 * Owns: which configurations are tried and which is taken, what is tried when nothing fits, and the sentences that say
 * so. Choosing is pure: what a configuration needs is asked through a function, which for a run is a dry seal on its
 * device (rt_fit_need_of) and for the tests a formula, and the limit is a number. */
#ifndef RT_JOB_FIT_H
#define RT_JOB_FIT_H

#include "base/err.h"
#include "base/str.h"
#include "teacher/teacher_memory.h"
#include "teacher/teacher_weights.h"
#include "train/step.h"

#include <stdbool.h>
#include <stdint.h>

/* What memory depends on and a person can change. */
typedef struct rt_fit_config {
    uint32_t micro_batch; /* rows at a time: the same loss */
    rt_recompute_counts recompute;
    uint32_t head_chunk;        /* 0: as the vocabulary wants it */
    uint32_t seq_len;           /* another run from here on */
    uint32_t lora_rank;         /* 0: no adapters */
    uint32_t ahead;             /* micro-batches that the teacher reads at once; 0, 1: each by itself */
    rt_teacher_weights weights; /* definite */
    rt_teacher_memory memory;   /* definite */
} rt_fit_config;

/* Where a limit comes from. */
typedef enum rt_fit_limit {
    RT_FIT_FREE,   /* what the device has free, less a margin */
    RT_FIT_GIVEN,  /* --memory-limit */
    RT_FIT_REFUSED /* the device refused what its free memory had promised: less than that */
} rt_fit_limit;

typedef struct rt_fit_ask {
    rt_fit_config wanted; /* micro_batch: the most that pays on the device; recompute: none */
    uint32_t batch;
    bool micro_free, recompute_free; /* not said by the user */
    bool lora_free;                  /* adapters could be offered */
    uint32_t teacher_rows;           /* that the teacher should read at once, where that fits; 0: as the student */
    bool teacher;                    /* there is one */
    bool weights_free;               /* its weights are native in what is wanted, and may be bf16, */
    bool weights_differ;             /* where the two are not the same, */
    rt_fp8 fp8;                      /* or fp8, where that may be taken */
    bool memory_free;                /* they may be beside the device where nothing else fits, */
    bool host;                       /* whose memory is the host's: then they may be on disk */
    bool rows_free;                  /* teacher_rows were not said: beside the device all of a step are better */
    uint64_t host_limit;             /* bytes of the host beside the device */
    uint64_t limit;                  /* bytes */
    rt_fit_limit limit_is;
} rt_fit_ask;

/* What a configuration allocates, what a step of it reads and writes to dequantise and cast operands, and what it
 * takes. */
typedef struct rt_fit_need {
    uint64_t bytes, dequant;
    uint64_t host;   /* of the host's memory, beside the device */
    double hidden;   /* the share of the transfer of the teacher's layers that a pass of it hides; 1: there is none */
    double work;     /* of a step, in FLOPs: bytes and ops for what they are worth on the device */
    uint32_t layers; /* of the student that backward reaches: those that can be recomputed */
} rt_fit_need;
typedef int (*rt_fit_need_fn)(void *ctx, const rt_fit_config *c, rt_fit_need *out, rt_err *e);

enum { RT_FIT_NEAREST = 3 };
typedef struct rt_fit {
    rt_fit_ask ask;
    bool fits;
    bool refused;         /* and yet the device has refused it */
    rt_fit_config chosen; /* when nothing fits: the smallest of what was asked for */
    uint64_t need;        /* of it */
    uint64_t host;        /* of the host's memory, beside the device */
    double work;          /* of it, by estimate */
    uint64_t wanted_need;
    double slower;                         /* share of a step's time by estimate: more than what was wanted takes, */
    double again;                          /* and for recomputing alone */
    double hidden;                         /* as in rt_fit_need; 0 where the device's queues are one */
    rt_weights_choice weights;             /* of the teacher, and why */
    rt_memory_choice memory;               /* likewise */
    rt_fit_config nearest[RT_FIT_NEAREST]; /* when nothing fits: what would, least change first */
    uint64_t nearest_need[RT_FIT_NEAREST];
    uint32_t nearest_count;
} rt_fit;

/* The largest micro-batch of at most `most` rows that covers the batch with next to no rows of padding. */
uint32_t rt_fit_rows(uint32_t batch, uint32_t most);
/* What may be allocated of memory that is free: the rest is for the process itself and for others. */
uint64_t rt_fit_budget(uint64_t free_bytes);

/* What is wanted where it fits; else rows and recomputing that take the least time by estimate (fit_search.c); then
 * rows of the teacher; then its weights dequantised; last, norms and activations kept, if all that was chosen still
 * fits. Where the teacher may be fp8, the same with that, and of these what takes less time. Where nothing fits with
 * the teacher on the device, all that again with its layers in the host's memory, then on disk. What the user has fixed
 * stays. */
int rt_fit_choose(rt_fit *out, const rt_fit_ask *ask, rt_fit_need_fn need, void *ctx, rt_err *e);
/* "--micro-batch 2 --recompute block": what was chosen for memory's sake; empty when it is what was wanted. */
void rt_fit_chosen(rt_str *out, const rt_fit *f);
/* Whether it is the host, and not the device, that has no room for what was chosen. */
static inline bool rt_fit_lacks_host(const rt_fit *f)
{
    return !f->fits && f->need <= f->ask.limit && f->host > f->ask.host_limit;
}
/* "--seq-len 512 (1.9 GiB), or --lora (1.2 GiB)", or that nothing does. What is free is not said: it is chosen anew. */
void rt_fit_offers(rt_str *out, const rt_fit *f);

/* What programs with these options need, from a dry seal of them. micro: micro-batches of a step (of an evaluation: 1).
 * Nothing is allocated on the device. */
int rt_fit_need_of(rt_dev *d, const rt_step_opts *o, uint32_t micro, rt_fit_need *out, rt_err *e);
/* The teacher's weights of an evaluation, of which nothing else is chosen. o->teacher_dtypes points to dtypes, which
 * are as stored and become what was chosen. asked AUTO: bf16 where the device has room and it saves something. */
int rt_fit_evaluation(rt_dev *d, rt_step_opts *o, rt_teacher_weights asked, rt_dtype *dtypes, rt_weights_choice *out,
                      rt_err *e);
/* Where the teacher's layers of an evaluation are: on the device where it has room; else o->teacher_home is set.
 * stored: they are as the files have them. */
int rt_fit_evaluation_memory(rt_dev *d, rt_step_opts *o, bool stored, rt_memory_choice *out, rt_err *e);

#endif
