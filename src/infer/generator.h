/* generator.h - one text at a time: an engine of one slot (infer/engine.h), asked and waited for.
 *
 * rt_generator_open is all of it for a model on disk. A run that holds the model in memory records the programs beside
 * its own, seals all together and attaches the generator to them: it speaks with the weights that are being trained. */
#ifndef RT_INFER_GENERATOR_H
#define RT_INFER_GENERATOR_H

#include "infer/engine.h"

typedef struct rt_generate_opts {
    uint32_t context; /* the longest prompt and answer together; 0: the model's own limit, at most 4096 */
    rt_sampling sampling;
    const rt_watch *watch; /* of loading weights, looked at by rt_generator_open alone; null: nobody's */
    bool int8;             /* as in rt_engine_opts */
} rt_generate_opts;
extern const rt_generate_opts rt_generate_defaults; /* greedy */

typedef struct rt_generator rt_generator;
enum { RT_GENERATOR_PROGRAMS = 3 };
/* Declares cache and inputs in s and records the programs over a model that is declared there. Space and model are the
 * caller's and outlive it. */
int rt_generator_record(rt_generator **out, rt_space *s, rt_decoder *model, const rt_policy *policy,
                        const rt_generate_opts *o, rt_err *e);
void rt_generator_plans(const rt_generator *g, const rt_plan *plans[RT_GENERATOR_PROGRAMS]);
/* The programs as sealed, the first of them at this index of x, which outlives the generator. Clears the cache. */
int rt_generator_attach(rt_generator *g, rt_exec *x, uint32_t first, rt_err *e);

/* A model from its file, with memory of its own. */
/* The device must outlive it; the file may be closed. policy: null for the device's. */
int rt_generator_open(rt_generator **out, rt_dev *d, const rt_model_file *m, const rt_policy *policy,
                      const rt_generate_opts *o, rt_err *e);
void rt_generator_free(rt_generator *g); /* accepts null */
uint32_t rt_generator_context(const rt_generator *g);

/* Called with each new id; a positive answer ends the text after it, a negative one is a status. */
typedef int (*rt_token_fn)(void *ctx, uint32_t id, rt_err *e);
typedef struct rt_generate_stats {
    uint32_t prompt, made;
    double prompt_seconds, made_seconds;
    uint32_t gemms, int8; /* as in rt_engine_stats */
} rt_generate_stats;
/* Begins anew: the cache is forgotten. Ends when fn says so, after max_new ids, or when the context is full. */
int rt_generator_run(rt_generator *g, const uint32_t *prompt, uint32_t count, uint32_t max_new, rt_token_fn fn,
                     void *ctx, rt_generate_stats *stats, rt_err *e);
/* The logits behind the last id, (V) f32, while fn is called with it. For tests. */
int rt_generator_logits(rt_generator *g, float *logits, rt_err *e);

#endif
