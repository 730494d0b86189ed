/* job_cache_internal.h - a cache under way: its parts, shared by the files named job_cache*. */
#ifndef RT_JOB_JOB_CACHE_INTERNAL_H
#define RT_JOB_JOB_CACHE_INTERNAL_H

#include "job/job_internal.h"
#include "teacher/says.h"

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

typedef struct rt_cache_work {
    const rt_job_cache_opts *o;
    rt_job_cached *out;
    rt_arena arena;
    rt_settings settings;
    const char *keep; /* "topk:64" */
    rt_keep_plan plan;
    bool there; /* --out is a cache already */
    rt_pool *pool;
    rt_dev *dev;
    rt_inputs *in;
    rt_resolved r;
    const rt_model_file *teacher; /* of in */
    rt_pair own;                  /* of the teacher with itself, without a student */
    const rt_pair *pair;
    const uint32_t *mask; /* (ceil(V/32)) of the teacher's ids that count; null: all */
    rt_rows *rows[2];     /* to be trained on, held out */
    uint64_t all_rows;
    char *folder; /* of token shards, removed at the end */
    rt_cache *cache;
    rt_cache_section sections[RT_CACHE_SECTIONS];
    rt_cache_writer *writer[RT_CACHE_SECTIONS];
    uint32_t section_count;
    rt_says *says;
    bool host;        /* the device's memory is the host's */
    double committed; /* clock */
    uint32_t B;              /* rows of a batch */
    rt_cache_batch batch[2]; /* one is read by the device while the other is written down */
    uint32_t turn;           /* of the two, which comes next */
    rt_cache_batch *answered; /* asked and not written down yet; null: none */
    char *packed;            /* (64,C) of a block */
    rt_job_tell tell;
} rt_cache_work;

/* ---- job_cache_folder.c: the folder ---- */
/* "--out is a cache already". */
int rt_cache_work_there(const rt_cache_work *w, rt_err *e);
/* A new one, or one that is the same in all that decides its values. */
int rt_cache_work_begin(rt_cache_work *w, rt_err *e);
/* Caches of one teacher, joined into --out. */
int rt_cache_work_join(rt_cache_work *w, rt_err *e);
/* What is in the cache at path: all of it is read. */
int rt_cache_work_look(rt_job_cached *out, const char *path, rt_job_tell *tell, rt_err *e);

/* ---- job_cache_ask.c: one batch ---- */
int rt_cache_work_room(rt_cache_work *w, rt_err *e);
void rt_cache_work_free(rt_cache_work *w);
/* The places of the batch's rows, and whether some of them is not in the cache. */
bool rt_cache_work_find(rt_cache_work *w, rt_cache_batch *b);
/* The teacher's layers read it; while a device does so, what was answered before is written down; then it is asked. */
int rt_cache_work_ask(rt_cache_work *w, rt_cache_batch *b, rt_err *e);
/* Writes down what was answered last, if anything. */
int rt_cache_work_keep(rt_cache_work *w, rt_err *e);

#endif
