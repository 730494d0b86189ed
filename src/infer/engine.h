/* engine.h - text of many requests at once: a model, a fixed number of slots, and a key/value cache in pages.
 *
 * Owns: the programs (pieces of prompts, one new token of every slot), the cache and who has which page of it, the
 * schedule, the random numbers, log-probabilities. Ids go in and come out: text, stop strings (stop.h) and chat
 * templates are the caller's, and so is a queue: a request is taken when rt_engine_has_room says so.
 *
 * For one number of slots the ids and log-probabilities of a request do not depend, to the bit, on what else is there,
 * on its slot or on when it came: docs/generation.md says why. One thread at a time; nothing is allocated on the device
 * after it is sealed.
 *
 *     while (there is work) {
 *         while (something waits && rt_engine_has_room(g, prompt_count, max_new)) rt_engine_add(g, &request, &name, e);
 *         rt_engine_step(g, e);        // calls the requests' functions
 *     } */
#ifndef RT_INFER_ENGINE_H
#define RT_INFER_ENGINE_H

#include "infer/load.h"

/* What is sealed. */
typedef struct rt_engine_opts {
    uint32_t slots;     /* requests at once; 0: 1 */
    uint32_t context;   /* the longest prompt and answer together, up to the model's own limit; 0: that, at most 4096 */
    uint64_t positions; /* of the cache, of all requests together; 0: slots * context */
    uint32_t top;       /* most likely ids that a request may ask for, for every token; 0: none, and no memory for it */
    bool echo;          /* requests may ask for the log-probabilities of their prompt */
    const rt_watch *watch; /* of loading weights, looked at by rt_engine_open alone; null: nobody's */
    bool int8;             /* GEMMs of new tokens read activations in 8 bits where weights are packed; prompts do not */
    bool logits;           /* rt_engine_logits will be asked, so no step is begun before the last has been told of */
    uint32_t prompts; /* of so many a piece is read at once, without echo; 0: as rt_engine_prompts, where a device is */
} rt_engine_opts;

/* How many prompts are read at once where nothing else is asked for: one, or on a device that is enqueued to an eighth
 * of the slots, eight at most, since its GEMMs want more rows than one prompt has. */
uint32_t rt_engine_prompts(const rt_dev *d, const rt_engine_opts *o);

typedef struct rt_engine rt_engine;
/* Declares cache and inputs in s and records the programs over a model that is declared there. Space and model are the
 * caller's and outlive it. policy: null for f32. */
int rt_engine_record(rt_engine **out, rt_space *s, rt_decoder *model, const rt_policy *policy, const rt_engine_opts *o,
                     rt_err *e);
enum { RT_ENGINE_PROGRAMS = 6 };
/* Fills plans and returns how many there are, at most RT_ENGINE_PROGRAMS. */
uint32_t rt_engine_plans(const rt_engine *g, const rt_plan *plans[RT_ENGINE_PROGRAMS]);
/* The programs as sealed, the first of them at this index of x, which outlives the engine. Clears the cache. */
int rt_engine_attach(rt_engine *g, rt_exec *x, uint32_t first, rt_err *e);

/* A model from its file, with memory of its own. The device must outlive it; the file may be closed. policy: null for
 * the device's. */
int rt_engine_open(rt_engine **out, rt_dev *d, const rt_model_file *m, const rt_policy *policy, const rt_engine_opts *o,
                   rt_err *e);
void rt_engine_free(rt_engine *g); /* accepts null; requests that are under way end without a word */
uint32_t rt_engine_slots(const rt_engine *g);
uint32_t rt_engine_context(const rt_engine *g);
uint32_t rt_engine_vocab(const rt_engine *g);
rt_exec *rt_engine_exec(const rt_engine *g); /* for memory and hashes */

/* How an id is chosen (docs/numerics.md, sample). */
typedef struct rt_sampling {
    double temperature;        /* 0: always the most likely id */
    uint32_t top_k;            /* 0: no limit */
    double top_p;              /* 1: no limit */
    double min_p;              /* ids less likely than this share of the likeliest are left out; 0: none */
    double repetition_penalty; /* 1: none; as transformers: logits of ids of prompt and answer, divided or multiplied */
    uint64_t seed;
} rt_sampling;
extern const rt_sampling rt_sampling_greedy;
/* RT_USAGE with the name of the flag that is out of range. */
int rt_sampling_check(const rt_sampling *s, rt_err *e);

typedef enum rt_end {
    RT_END_NONE,      /* it goes on */
    RT_END_STOP,      /* the last id is one of stop, or the caller's function said so */
    RT_END_LENGTH,    /* max_new ids, or the context is full */
    RT_END_CANCELLED, /* by rt_engine_cancel */
    RT_END_NONFINITE  /* a logit is not finite: the model is damaged */
} rt_end;

/* Log-probabilities are the model's own: at temperature 1, before any penalty or limit. */
typedef struct rt_likely {
    float logp;          /* of the id; NAN where it was not asked for, and for the first id of a prompt */
    uint32_t rank_count; /* of id and each below */
    const int32_t *id;   /* (rank_count) the most likely ids there, best first */
    const float *each;   /* (rank_count) theirs */
} rt_likely;

/* What a request is told. Pointers are good until the function returns. */
typedef struct rt_token_event {
    uint64_t request;
    bool prompt;    /* the id is the prompt's at this place (echo); else it is the answer's */
    uint32_t place; /* from 0 in the prompt, from 0 in the answer */
    uint32_t id;    /* UINT32_MAX: an end without another id (cancelled, not finite, max_new 0) */
    rt_likely likely;
    rt_end end; /* other than NONE: this is the last word about the request, whose place is free again */
} rt_token_event;
/* A positive answer ends the request after this id (it is told nothing more), a negative one is a status and ends
 * rt_engine_step. It may cancel and add requests of the same engine. */
typedef int (*rt_token_event_fn)(void *ctx, const rt_token_event *t, rt_err *e);

typedef struct rt_request {
    const uint32_t *prompt; /* (count) copied */
    uint32_t count, max_new;
    rt_sampling sampling;
    uint32_t ordinal;     /* among requests of equal prompt and seed: each has draws of its own */
    const uint32_t *stop; /* (stops) ids that end the answer; copied */
    uint32_t stops;
    bool logp;    /* log-probabilities of the answer's ids */
    bool echo;    /* log-probabilities of the prompt's ids, told before the answer */
    uint32_t top; /* most likely ids with each of those */
    rt_token_event_fn fn;
    void *ctx;
} rt_request;

/* RT_INVALID for what can never be taken: no prompt, too long for the context or the cache, ids out of range, what was
 * not sealed for. Reads nothing that changes: any thread may ask, at any time. */
int rt_engine_check(const rt_engine *g, const rt_request *r, rt_err *e);
/* Whether a request of so many ids can be taken now: a slot is free, and pages for all that it may come to. */
bool rt_engine_has_room(const rt_engine *g, uint32_t count, uint32_t max_new);
/* RT_INVALID where rt_engine_check says so, and where there is no room now. name: what events and rt_engine_cancel call
 * it; never 0. */
int rt_engine_add(rt_engine *g, const rt_request *r, uint64_t *name, rt_err *e);
/* At once, and its function hears RT_END_CANCELLED, whose answer is not looked at. RT_NOT_FOUND when it has ended. */
int rt_engine_cancel(rt_engine *g, uint64_t name, rt_err *e);
uint32_t rt_engine_busy(const rt_engine *g); /* requests under way */
/* Pieces of the oldest prompts that are not yet read, and the next id of every answer. On a device that is enqueued to,
 * the ids that are told are those of the step before: the next one is begun first, from ids that are on the device, so
 * an answer that ends by an id or by its function costs a step of its slot that nobody hears of. Nothing under way:
 * nothing. */
int rt_engine_step(rt_engine *g, rt_err *e);

typedef struct rt_engine_stats {
    uint64_t requests, ended;
    uint64_t prompt_tokens, answer_tokens; /* computed so far */
    uint64_t steps, rows;                  /* steps of answers, and answers in them: rows / steps are busy on average */
    double prompt_seconds, answer_seconds;
    uint32_t pages, pages_free, page; /* of the cache; positions of a page */
    uint32_t gemms, int8;             /* of a new token; those of them whose activations are in 8 bits */
} rt_engine_stats;
rt_engine_stats rt_engine_stats_of(const rt_engine *g);

/* The logits behind the last id of a request's last event, (V) f32, while its function is told of it, of an engine that
 * was sealed for it. For tests. */
int rt_engine_logits(rt_engine *g, uint64_t name, float *logits, rt_err *e);

#endif
