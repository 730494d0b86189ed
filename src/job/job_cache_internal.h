/* job_cache_internal.h - a cache under way: its parts, shared by the files named job_cache*. */
#ifndef RT_JOB_JOB_CACHE_INTERNAL_H
#define RT_JOB_JOB_CACHE_INTERNAL_H

#include "job/job_internal.h"
#include "teacher/remote/http.h"
#include "teacher/remote/remote.h"
#include "teacher/remote/wire.h"
#include "teacher/says.h"

enum { RT_CACHE_BATCHES = RT_CLIENT_SLOTS };

/* Rows that the teacher reads at once, and what it says of them. */
typedef struct rt_cache_batch {
    bool held;
    uint32_t rows;
    uint64_t tokens;
    int32_t *ids;           /* (4, B*T): ids, targets, starts, positions */
    rt_cache_place *places; /* of the batch, with the rows that they are of */
    uint32_t *place_row;
    uint32_t place_count;
    int32_t *position, *target; /* (B*T) asked for, in the order of places */
    uint32_t *key;              /* (B*T,2) */
    uint32_t asked;
    rt_says_answer answer[2]; /* (B*T, the most entries): as trained on or as held out; held out at the loss's T */
    void *hidden;             /* (B*T,C) */
} rt_cache_batch;

/* A teacher that is a server: what it is, and its answers. */
typedef struct rt_cache_remote {
    rt_remote_spec spec;
    rt_remote *server;
    bool met;          /* it has said which teacher it is */
    const char *model; /* of a vLLM: its name there, */
    uint32_t context;  /* and how many tokens it reads; 0: not said */
    json_t *about;     /* what it said, or what the cache that is there says: has "teacher" */
    rt_hash128 hash;   /* of that teacher */
    uint32_t vocab, positions;
    rt_dtype act;
    const char *folder;                         /* what stands for the model */
    rt_wire_question question[RT_CLIENT_SLOTS]; /* of the batch of this number, while it is under way */
    bool under_way[RT_CLIENT_SLOTS];
} rt_cache_remote;

typedef struct rt_cache_work rt_cache_work;
struct rt_cache_work {
    const rt_job_cache_opts *o;
    rt_job_cached *out;
    rt_arena arena;
    rt_settings settings;
    const char *keep; /* "topk:64" */
    rt_keep_plan plan;
    bool there; /* --out is a cache already */
    bool fresh; /* nothing at all was under its name, and this process has made the cache */
    rt_pool *pool;
    rt_dev *dev;
    rt_inputs *in;
    rt_resolved r;
    const rt_model_file *teacher; /* of in */
    rt_pair own;                  /* of the teacher with itself, without a student */
    const rt_pair *pair;
    rt_cache_remote *remote; /* the teacher is a server; null: it is computed here */
    json_t *imported;        /* of files of another tool: the teacher, as it is known */
    const char *lent;        /* folder of a cache that stands for the model; null: the model is there */
    const uint32_t *mask;    /* (ceil(V/32)) of the teacher's ids that count; null: all */
    rt_rows *rows[2];        /* to be trained on, held out; */
    rt_batch held;           /* or these are held out, one after another */
    uint64_t most[2];        /* of each at most so many are asked for, */
    uint64_t epochs;         /* and none of an epoch behind this one */
    uint64_t skip;           /* rows to be trained on before the first that is looked for */
    uint64_t all_rows;
    char *folder; /* of token shards, removed at the end */
    rt_cache *cache;
    rt_cache_section sections[RT_CACHE_SECTIONS];
    rt_cache_writer *writer[RT_CACHE_SECTIONS];
    uint32_t section_count;
    rt_says *says;
    rt_dtype act;     /* of hidden states */
    bool host;        /* the device's memory is the host's */
    double committed; /* clock */
    uint32_t B;       /* rows of a batch */
    /* Of two one is read by the device while the other is written down; of a server's several are under way. */
    rt_cache_batch batch[RT_CACHE_BATCHES];
    uint32_t batches, turn;                /* how many; which comes next */
    rt_cache_batch *answered;              /* asked and not written down yet; null: none */
    char *packed;                          /* (64,C) of a block */
    bool (*hurry)(const rt_cache_work *w); /* somebody waits for what was answered last; null: nobody does */
    rt_job_tell tell;
};

/* ---- job_cache.c ---- */
/* Both sides are asked for, the rows that are held out first or last, and what was answered is kept, also of what
 * failed. */
int rt_cache_work_ask_all(rt_cache_work *w, bool held_first, rt_err *e);

/* ---- job_cache_folder.c: the folder ---- */
/* The cache goes again, if this process has made it and nothing but that is in it. For who is done with it: of w only
 * the settings are looked at. */
void rt_cache_work_undo(const rt_cache_work *w);
/* "--out is a cache already". */
int rt_cache_work_there(const rt_cache_work *w, rt_err *e);
/* A new one, or one that is the same in all that decides its values. */
int rt_cache_work_begin(rt_cache_work *w, rt_err *e);
/* Caches of one teacher, joined into --out. */
int rt_cache_work_join(rt_cache_work *w, rt_err *e);
/* What is in the cache at path: all of it is read. */
int rt_cache_work_look(rt_job_cached *out, const char *path, rt_job_tell *tell, rt_err *e);

/* ---- job_cache_ask.c: models, data, rows; one batch ---- */
/* Opened as the settings say. */
int rt_cache_work_inputs(rt_cache_work *w, rt_err *e);
/* The teacher's columns that count, as its head has them, into w->mask. */
int rt_cache_work_mask(rt_cache_work *w, rt_err *e);
int rt_cache_work_room(rt_cache_work *w, rt_err *e);
void rt_cache_work_free(rt_cache_work *w);
/* The places of the batch's rows, and whether some of them is not in the cache. */
bool rt_cache_work_find(rt_cache_work *w, rt_cache_batch *b);
/* The teacher's layers read it; while a device does so, what was answered before is written down; then it is asked. */
int rt_cache_work_ask(rt_cache_work *w, rt_cache_batch *b, rt_err *e);
/* Writes down what was answered last, if anything. */
int rt_cache_work_keep(rt_cache_work *w, rt_err *e);
/* What was written down is on disk; now and then, and at once where somebody waits for it. */
int rt_cache_work_commit(rt_cache_work *w, rt_err *e);
int rt_cache_work_commit_in_time(rt_cache_work *w, rt_err *e);
/* Every wanted position of the batch, place after place, with what its draws depend on: the place's key and the
 * position's number in it. */
void rt_cache_work_list(const rt_cache_work *w, rt_cache_batch *b);

/* ---- job_cache_foreign.c: files of other tools ---- */
/* As a cache. */
int rt_cache_work_import(rt_cache_work *w, rt_err *e);
/* Of a cache. */
int rt_cache_work_export(rt_cache_work *w, rt_err *e);

/* ---- job_cache_remote.c: a teacher that is a server ---- */

/* From the teacher's name, where it is an address. */
int rt_cache_remote_begin(rt_cache_work *w, rt_err *e);
void rt_cache_remote_free(rt_cache_work *w);
/* What stands for its model, from the cache that is there or else from the server: then remote's folder is set. */
int rt_cache_remote_open(rt_cache_work *w, rt_err *e);
/* What the server cannot give of what is asked for is refused. */
int rt_cache_remote_check(rt_cache_work *w, rt_err *e);
/* Unless it was asked before, which teacher it is. */
int rt_cache_remote_meet(rt_cache_work *w, rt_err *e);
/* Nothing is under way any more, and failures are forgotten: what was asked and not heard is as if it had not been. */
void rt_cache_remote_forget(rt_cache_work *w);
/* Whether something that the batch lacks is under way in another: then that one is heard first. */
bool rt_cache_remote_expects(const rt_cache_work *w, const rt_cache_batch *b);
/* The batch of this number is asked for, which nobody has asked for yet or whose answer was heard; its answer, if it is
 * under way, is waited for and written down. */
int rt_cache_remote_send(rt_cache_work *w, uint32_t batch, rt_err *e);
int rt_cache_remote_hear(rt_cache_work *w, uint32_t batch, rt_err *e);
/* All that are under way, in their order; ready: of those as far as they have been answered. */
int rt_cache_remote_hear_all(rt_cache_work *w, bool ready, rt_err *e);

/* ---- job_supply.c: what a run's cache lacks, asked beside the run ---- */
typedef struct rt_asking rt_asking;
/* name: of the teacher, as it was given; cache: where its answers are kept. Both, and env, outlive it. */
int rt_asking_new(rt_asking **out, const char *name, const char *cache, const rt_job_env *env, rt_err *e);
void rt_asking_free(rt_asking *a); /* accepts null; after the run */
rt_supply rt_asking_supply(rt_asking *a);

#endif
