/* speaker.h - a model that gives many answers at once: its text, its engine, and the way from one to the other.
 *
 * Owns: tokenizer, chat template and stop ids of a model, the engine that computes with it (infer/engine.h), and of
 * each answer the text: whole characters, and nothing of a stop string. Leaves queues, threads and formats to its
 * callers. Whoever calls rt_speaker_seal calls what comes after it here too, one call at a time; what stands before it
 * may be called by any thread at any time, and so may rt_speaker_check and rt_speaker_facts_of once it is sealed. */
#ifndef RT_JOB_SPEAKER_H
#define RT_JOB_SPEAKER_H

#include "job/job.h"

typedef struct rt_speaker rt_speaker;

/* The text of the model, which outlives it; no device yet. */
int rt_speaker_new(rt_speaker **out, const rt_model_file *m, rt_err *e);
void rt_speaker_free(rt_speaker *s); /* accepts null; after rt_speaker_unseal where it was sealed */

/* ---- text ---- */

/* Appends the ids of a text. special: with what the tokenizer puts around it. */
int rt_speaker_encode(const rt_speaker *s, const char *text, size_t len, bool special, rt_tok_ids *ids, rt_err *e);
/* Appends the text of ids. special: that of special tokens too. RT_INVALID for an id that is not defined. */
int rt_speaker_decode(const rt_speaker *s, const uint32_t *ids, size_t count, bool special, rt_str *text, rt_err *e);
/* Appends the text of ids with that of special tokens, but for the first `from` of them and for those that are not
 * defined. offset[i]: characters of it before id i. */
int rt_speaker_show(const rt_speaker *s, const rt_tok_ids *ids, uint32_t from, rt_str *text, uint32_t *offset,
                    rt_err *e);
typedef struct rt_speaker_chat {
    const json_t *messages;     /* a list */
    const json_t *tools, *vars; /* a list, and an object of variables for the template; null: none */
    int64_t now;                /* for templates that print a date */
    int32_t utc_offset;
} rt_speaker_chat;
/* Appends the text of a conversation up to where the assistant speaks, or its ids. RT_INVALID where the model has no
 * template. */
int rt_speaker_render(const rt_speaker *s, const rt_speaker_chat *c, rt_str *text, rt_err *e);
int rt_speaker_converse(const rt_speaker *s, const rt_speaker_chat *c, rt_tok_ids *ids, rt_err *e);
/* What an id stands for; false when it is not defined. */
bool rt_speaker_token(const rt_speaker *s, uint32_t id, rt_token_info *out);
/* How many ids the tokenizer puts before a text. */
uint32_t rt_speaker_prefix(const rt_speaker *s);
/* The id before a text that nothing stands before: BOS, else EOS; -1: there is neither. */
int64_t rt_speaker_start(const rt_speaker *s);
rt_span rt_speaker_template(const rt_speaker *s); /* its source; data null: there is none */
/* bos_token, eos_token and the like, by their names. */
const json_t *rt_speaker_special(const rt_speaker *s);

/* ---- answers ---- */

/* RT_USAGE for what cannot be sampled with, by the flag's name. */
int rt_speaker_check_sampling(const rt_sampling *s, rt_err *e);
/* On the device of the settings device and threads. */
int rt_speaker_seal(rt_speaker *s, const rt_engine_opts *o, const rt_settings *where, const char *const *env,
                    rt_err *e);
/* The device that it is sealed on. */
rt_dev *rt_speaker_device(const rt_speaker *s);
/* Engine and device go, and with them answers that are under way. */
void rt_speaker_unseal(rt_speaker *s);

typedef struct rt_speaker_facts {
    uint32_t slots, context, vocab, top;
    const char *device; /* "cpu" */
    uint64_t bytes;     /* memory of the device: weights, cache, and all else */
} rt_speaker_facts;
rt_speaker_facts rt_speaker_facts_of(const rt_speaker *s);
rt_engine_stats rt_speaker_stats(const rt_speaker *s);

/* What an answer is told: an id, and the text that is certain with it. Pointers are good until the function returns. */
typedef struct rt_answer_event {
    const rt_token_event *token; /* of the engine; its end is not looked at */
    const char *text;            /* (len) */
    size_t len;
    uint32_t offset; /* characters of the answer before its id, held back or not */
    rt_end end;      /* other than NONE: the last word about it */
    int32_t stop;    /* which of the stop strings ended it; -1: none */
} rt_answer_event;
typedef void (*rt_answer_fn)(void *ctx, const rt_answer_event *a);

typedef struct rt_answer_opts {
    const uint32_t *prompt; /* (count) copied */
    uint32_t count, max_new;
    rt_sampling sampling;
    uint32_t ordinal;         /* as in rt_request, like logp, echo and top */
    const char *const *stop;  /* (stops) strings that end it; the caller's until it has ended */
    const uint32_t *stop_ids; /* (stop_id_count) that end it besides the model's own; copied */
    uint32_t stops, stop_id_count, top;
    bool on;      /* the model's own stop ids do not end it */
    bool special; /* the text of special tokens is shown */
    bool joined;  /* the text goes on from the prompt's: a first token may begin with a space */
    bool logp, echo;
    rt_answer_fn fn;
    void *ctx;
} rt_answer_opts;

typedef struct rt_answer rt_answer;
/* RT_INVALID for what can never be answered: the prompt's length, ids out of range, more than was sealed for. */
int rt_speaker_check(const rt_speaker *s, const rt_answer_opts *o, rt_err *e);
/* Whether it can begin now: a slot and pages of the cache are free. */
bool rt_speaker_has_room(const rt_speaker *s, const rt_answer_opts *o);
/* *out is good until its end has been told. */
int rt_speaker_begin(rt_speaker *s, const rt_answer_opts *o, rt_answer **out, rt_err *e);
void rt_speaker_cancel(rt_speaker *s, rt_answer *a); /* tells RT_END_CANCELLED before it returns */
uint32_t rt_speaker_busy(const rt_speaker *s);       /* answers under way */
int rt_speaker_step(rt_speaker *s, rt_err *e);       /* as rt_engine_step */

#endif
