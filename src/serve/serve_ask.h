/* serve_ask.h - what a client asks for: the JSON of a request as fields, and why it is refused.
 *
 * Owns: names, types and limits of the fields. A field that would change the answer and that is not known to be
 * followed is refused by name; others that are not known are passed over, as clients send many. */
#ifndef RT_SERVE_SERVE_ASK_H
#define RT_SERVE_SERVE_ASK_H

#include "base/json.h"
#include "job/speaker.h"

/* A refusal in HTTP's words. */
typedef struct rt_refusal {
    uint32_t http;     /* 400, 404, ... */
    const char *param; /* the field that is at fault; null: none */
    rt_err err;
} rt_refusal;
/* Fills why and returns RT_INVALID. */
int rt_refuse(rt_refusal *why, uint32_t http, const char *param, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fields of an object (serve_fields.c). The first that is wrong is kept in why; null is as good as absent. */
typedef struct rt_fields {
    const json_t *body;
    rt_refusal *why;
    bool bad;
} rt_fields;
bool rt_field_flag(rt_fields *f, const char *name, bool otherwise);
int64_t rt_field_whole(rt_fields *f, const char *name, int64_t otherwise, int64_t least, int64_t most);
double rt_field_real(rt_fields *f, const char *name, double otherwise, double least, double most);
const json_t *rt_field_text(rt_fields *f, const char *name);
/* A value of this type; null where it is absent. */
const json_t *rt_field_of(rt_fields *f, const char *name, json_type type);
/* A list of ids below 2^32, appended. */
void rt_field_ids(rt_fields *f, const char *name, const json_t *list, rt_tok_ids *out);
int rt_field_fail(rt_fields *f, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
const char *rt_json_type_name(const json_t *j); /* "a string" */

enum {
    RT_ASK_SEQUENCES = 1024, /* prompts times n of one request */
    RT_ASK_STOPS = 64,       /* stop strings, or ids */
    RT_ASK_PLACES = 16 << 20 /* log-probabilities that one reply may hold */
};

typedef struct rt_ask_prompt {
    rt_tok_ids ids;
    rt_span text;           /* what is echoed; data null: nothing is */
    uint32_t characters;    /* of text */
    const uint32_t *offset; /* (ids) characters of it before each */
    uint32_t equal;         /* prompts of equal ids before it in the request */
} rt_ask_prompt;

typedef struct rt_ask {
    rt_arena arena; /* of texts and lists */
    bool chat;
    bool stream, usage; /* usage: a last event with the counts */
    bool echo;
    bool ids, names;                   /* return_token_ids; return_tokens_as_token_ids */
    bool special, on;                  /* as in rt_answer_opts */
    int32_t logprobs, prompt_logprobs; /* likely ids with each; -1: none are asked for */
    uint32_t n, max_new;
    rt_sampling sampling;
    const char **stop; /* (stops) */
    rt_tok_ids stop_ids;
    uint32_t stops;
    rt_ask_prompt *prompt; /* (prompts) */
    uint32_t prompts;
} rt_ask;

/* What a request is read with. */
typedef struct rt_ask_env {
    const rt_speaker *speaker;
    const char *name; /* of the model */
    uint64_t seed;    /* where the request has none */
    int64_t now;
    int32_t utc_offset;
} rt_ask_env;
/* The body of a request as an object; *out is the caller's. */
int rt_ask_body(json_t **out, const char *text, size_t len, rt_refusal *why);
/* a: zeroes; what was refused is freed all the same. Nothing of it points into the body, whose tree is many times the
 * text and need not wait with the request. */
int rt_ask_read(rt_ask *a, const rt_ask_env *env, bool chat, const json_t *body, rt_refusal *why);
void rt_ask_free(rt_ask *a); /* accepts zeroes */
/* The ids of `prompt`, a text, or of `messages`, a conversation, as /tokenize has them too. */
int rt_ask_ids(const rt_ask_env *env, rt_fields *f, bool special, rt_tok_ids *ids);
/* RT_INVALID where `model` is another than the one that is served. */
int rt_ask_model(const rt_ask_env *env, rt_fields *f);

#endif
