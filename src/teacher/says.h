/* says.h - what a teacher says of rows: its forward and its head as programs of their own, for whoever writes it down.
 *
 * Owns: the programs and the order in which they run: the layers read whole micro-batches, then the head is asked for
 * the positions that are wanted, some at a time, so that a masked prompt costs no vocabulary. Which positions those
 * are, and what becomes of the answers, is the caller's. */
#ifndef RT_TEACHER_SAYS_H
#define RT_TEACHER_SAYS_H

#include "infer/feed.h"
#include "infer/load.h"
#include "teacher/source.h"

typedef struct rt_says_opts {
    uint32_t B, T;       /* rows, positions of a row */
    rt_source_form form; /* of positions that are trained on: HIDDEN, TOPK, DRAWS */
    uint32_t n;          /* k or draws */
    uint32_t held_n;     /* k of held-out ones, which are asked for at temperature 1 and at `temperature`; not HIDDEN */
    double temperature;
    uint64_t seed;          /* of draws */
    const rt_dtype *dtypes; /* of the teacher's parameters */
    rt_layer_range coded;   /* layers of it that are multiplied as e4m3 codes, made at every use */
    rt_class home;          /* of the matrices of its layers: PARAM, HOST, DISK; m stays open for the last */
    const uint32_t *vmask;  /* (ceil(V/32)) words: the ids that count; null: all */
    uint64_t head_bytes;    /* of logits at a time; 0: what the device says */
} rt_says_opts;

typedef struct rt_says rt_says;
int rt_says_open(rt_says **out, rt_dev *d, const rt_model_file *m, const rt_says_opts *o, const rt_watch *watch,
                 rt_err *e);
void rt_says_free(rt_says *s); /* accepts null */
const rt_exec *rt_says_exec(const rt_says *s);

/* The layers over (B*T) positions; pos: within each document. Only enqueued, where a device enqueues: what was read
 * before has to have been asked for. */
int rt_says_read(rt_says *s, const int32_t *ids, const int32_t *pos, const int32_t *start, rt_err *e);
/* The hidden states of what was read last, (B*T,C) in the dtype of activations. */
int rt_says_hidden(rt_says *s, void *hidden, rt_err *e);
rt_dtype rt_says_dtype(const rt_says *s);
/* Seconds of the device so far, of what has been heard: in the layers, in the head and what is chosen from it. */
void rt_says_seconds(const rt_says *s, double *layers, double *head);

/* Of positions (count) of what was read last, any number of them. */
typedef struct rt_says_asked {
    const int32_t *position, *target; /* (count) */
    const uint32_t *key;              /* (count,2) of draws: what they depend on besides the seed */
    uint32_t count;
} rt_says_asked;
typedef struct rt_says_answer {
    int32_t *id;        /* (count,n); draws: unused entries are -1 */
    float *logp;        /* (count,n) */
    float *rest;        /* (count) top-k */
    float *entropy;     /* (count) draws */
    float *target_logp; /* (count) over all ids, at temperature 1; held-out positions at temperature 1 alone */
} rt_says_answer;
/* use: as of a source. Only enqueued as well: the answer is there when rt_says_hear has returned, and room for it has
 * to stay until then; what is read next may be enqueued meanwhile, so that a device need not wait. */
int rt_says_ask(rt_says *s, rt_source_use use, const rt_says_asked *a, const rt_says_answer *out, rt_err *e);
/* All that was asked has been answered. RT_NONFINITE: a number of the teacher's is not finite. */
int rt_says_hear(rt_says *s, rt_err *e);

#endif
