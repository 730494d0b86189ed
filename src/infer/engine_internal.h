/* engine_internal.h - the inside of an engine, for engine.c (requests and steps) and engine_record.c (programs). */
#ifndef RT_INFER_ENGINE_INTERNAL_H
#define RT_INFER_ENGINE_INTERNAL_H

#include "infer/engine.h"
#include "infer/pages.h"

enum {
    RT_ENGINE_PAGE = RT_CACHE_PAGE,
    RT_ENGINE_LARGE = 128, /* positions of a piece of a prompt */
    RT_ENGINE_SMALL = 32,
    RT_ENGINE_HEAD = 32, /* rows of logits of an echo at a time */
    RT_ENGINE_PIECES = 8 /* of prompts, most before a step of answers, on a device that is enqueued to */
};
enum { RT_PIECE_LARGE, RT_PIECE_SMALL, RT_PIECES };

/* The inputs of a program that takes T tokens of each of B sequences. */
typedef struct rt_feed {
    rt_tokens tokens;
    rt_kv_rows rows;
    rt_plan *plan;
    uint32_t program; /* from engine.first */
} rt_feed;

/* The log-probabilities of the ids that come after the rows of a piece. */
typedef struct rt_echo {
    rt_view hidden; /* (T,C) what the piece leaves */
    rt_view target, ce, sums, fault, step;
    rt_view top_id, top_logp, rest; /* (T,top) where there are any */
    rt_plan *plan;
    uint32_t program;
} rt_echo;

/* One request, in its slot. */
typedef struct rt_seat {
    uint64_t name;  /* 0: nobody sits here */
    rt_request ask; /* prompt and stop are copies */
    uint32_t *ids;  /* (context + 1) prompt and answer; the last id needs no place in the cache */
    uint32_t count, made;
    uint32_t read;  /* of the prompt, in the cache; all but its last id, when it is done */
    uint32_t ahead; /* ids that are being made, in the steps under way */
    uint64_t key;   /* of its first draw */
} rt_seat;

/* A step of answers that is under way, and what will be told of it. */
typedef struct rt_flight {
    bool under_way, top;
    rt_ticket ticket;
    uint64_t *name; /* (slots) who has a part in it; 0: nobody */
    int32_t *ids;   /* (slots) */
    float *logps;   /* (slots) */
    int32_t *top_ids;
    float *top_logps; /* (slots,top) */
} rt_flight;

struct rt_engine {
    rt_engine_opts opts;
    rt_policy policy;
    uint32_t slots, context, vocab, words; /* words: of a row of seen */
    uint32_t per_seat;                     /* pages of a row of the table */
    rt_space *space;
    rt_decoder *model;
    bool owner; /* of space, model and x */
    rt_kv_cache cache;
    rt_feed piece[RT_PIECES], token;
    rt_echo echo[RT_PIECES];
    rt_view logits, logp, seen, key, how; /* ids are those of the token program's tokens: it replaces them */
    rt_view places; /* (3 slots,1) the token program's positions, cache rows and lengths, side by side */
    rt_view top_id, top_logp, rest;
    rt_plan *top;
    uint32_t top_program, programs;
    rt_exec *x;
    uint32_t first;

    rt_arena arena; /* what follows */
    rt_seat *seat;  /* (slots) */
    rt_pages pages;
    int32_t *table;       /* (slots,per_seat) */
    int32_t *host;        /* (most rows of a feed, 4) ids, positions, rows, lengths */
    int32_t *piece_table; /* (prompts,per_seat) */
    uint32_t *keys;       /* (slots,2) */
    float *hows;          /* (slots,RT_HOW_COLS) */
    uint32_t *bits;       /* (words) */
    /* Of the prompt's ids, where a piece is echoed: */
    int32_t *ids; /* (most rows of a piece) */
    float *logps; /* the same */
    int32_t *top_ids;
    float *top_logps;    /* (rows,top) */
    rt_flight flight[2]; /* while one is told of, the next is computed */
    uint32_t turn;       /* of the last that was begun */
    uint64_t named;      /* the last name that was given */
    uint64_t told;       /* whose function was called last, */
    uint32_t told_slot;  /* and where it sat */
    bool changed;        /* table and hows are not on the device yet */
    rt_engine_stats stats;
};

/* engine_record.c: in the space and over the model that g has. */
int rt_engine_record_all(rt_engine *g, rt_err *e);
static inline uint32_t rt_piece_rows(int piece) { return piece == RT_PIECE_LARGE ? RT_ENGINE_LARGE : RT_ENGINE_SMALL; }

/* engine_prompt.c: the next pieces of the oldest prompts that are not read, as many as are read at once, and the echo
 * of one. Returns in count how many there were, or a failure. */
int rt_engine_read_pieces(rt_engine *g, uint32_t *count, rt_err *e);

/* engine_tell.c: steps that were begun for nothing are waited for, since what they say is on its way to the engine's
 * memory. So none is under way when no request is, and the device may go before the engine does. */
void rt_engine_settle_steps(rt_engine *g);

/* sampling.c: how a slot chooses; not on the device before the next step. */
void rt_engine_set_how(rt_engine *g, uint32_t slot, const rt_sampling *s);
/* engine_tell.c. Tells the request, and frees its place when that is its end. Status of the function. */
int rt_engine_tell(rt_engine *g, rt_seat *s, rt_token_event *t, rt_err *e);
/* Values of the policy's scalar dtype, to and from f32. */
int rt_engine_write_scalars(rt_engine *g, rt_view v, const float *x, uint64_t n, rt_err *e);
int rt_engine_read_scalars(rt_engine *g, rt_view v, float *x, uint64_t n, rt_err *e);
/* Its prompt is read, all but the last id. */
static inline bool rt_seat_ready(const rt_seat *s) { return s->name && s->read + 1 == s->count; }
static inline uint32_t rt_seat_index(const rt_engine *g, const rt_seat *s) { return (uint32_t)(s - g->seat); }

#endif
