/* data_rows.h - token shards as rows of a fixed length, in an order that a seed fixes and a cursor can return to.
 *
 * Owns: what of each record is used at a row length, the held-out part, the share of each source, the shuffle, packing.
 * Memory does not grow with the data: an order is a keyed permutation of record numbers, not a list of them.
 *
 * A pass (epoch) takes weight x units of each source, a unit being a record or, of a text that is longer than a row, a
 * piece of one. Units of a window of about RT_WINDOW_ROWS rows are packed by best fit, the longest first, each into one
 * row; then the rows of the window are given in an order of their own. Nothing of that depends on threads or time. */
#ifndef RT_DATA_DATA_ROWS_H
#define RT_DATA_DATA_ROWS_H

#include "text/data/data_shard.h"

#include <jansson.h>

typedef enum rt_rows_side {
    RT_SIDE_ALL,
    RT_SIDE_TRAIN, /* without the held-out part */
    RT_SIDE_HELD,  /* the held-out part alone */
} rt_rows_side;

typedef struct rt_rows_source {
    const char *name;
    rt_shard *const *shards; /* must outlive the rows */
    uint32_t count;
    double weight;  /* 0: 1 */
    uint32_t group; /* its documents carry it; what it means is the caller's */
} rt_rows_source;

/* Of a record, where a part of the data is held out. */
typedef enum rt_held_kind {
    RT_HELD_NOT,
    RT_HELD_OUT,
    RT_HELD_COPY, /* of one that is held out: on neither side */
} rt_held_kind;
typedef struct rt_held rt_held; /* data_held.h */

typedef struct rt_rows_opts {
    uint32_t seq_len; /* tokens in a row, from 2 */
    uint64_t seed;
    bool in_order;   /* no shuffle */
    bool one_each;   /* a row for every unit, padded; else packed */
    double held_out; /* share of records, by hash of their ids: equal records are on one side. With held: how many */
    const rt_held *held; /* which they are; null: by the share. Must outlive the rows */
    bool stretch;        /* of one text: its last part is held out. rt_rows_open settles it, whatever it is given */
    rt_rows_side side;
    uint64_t epochs; /* 0: no end */
    bool allow_drop; /* else more than 5 % of the records dropped is refused */
    int32_t pad;     /* id that fills a row */
} rt_rows_opts;

/* What became of the records of a source, of both sides together but for units and per_epoch. */
typedef struct rt_rows_count {
    uint64_t records;
    uint64_t split;     /* texts longer than a row, in pieces */
    uint64_t cut;       /* conversations whose last turns were dropped */
    uint64_t too_long;  /* dropped: not even the first turns fit */
    uint64_t no_target; /* dropped: nothing in them (after cutting) is trained */
    uint64_t targets;   /* of all records, as long as they are */
    uint64_t lost;      /* of those: in what was cut off or dropped */
    uint64_t held;      /* records on the held-out side */
    uint64_t copies;    /* of those, which are on neither side */
    uint64_t units;     /* of this side */
    uint64_t tokens;    /* in the units of this side */
    uint64_t trained;
    uint64_t per_epoch; /* units that one pass takes; per_epoch / units: repeats */
} rt_rows_count;
/* The counts of shards at a row length, without making rows; held_out may be 0. */
int rt_rows_survey(rt_shard *const *shards, uint32_t count, const rt_rows_opts *o, rt_rows_count *out, rt_err *e);
/* One record more. */
void rt_rows_count_record(rt_rows_count *c, const rt_shard_record *r, const rt_rows_opts *o, rt_held_kind kind);
/* RT_INVALID when more than 5 % were dropped, or nothing is left to train. */
int rt_rows_judge(const rt_rows_count *c, const char *name, const rt_rows_opts *o, rt_err *e);

typedef struct rt_rows rt_rows;
int rt_rows_open(rt_rows **out, const rt_rows_source *sources, uint32_t count, const rt_rows_opts *o, rt_err *e);
void rt_rows_close(rt_rows *r); /* accepts null */
const rt_rows_count *rt_rows_of_source(const rt_rows *r, uint32_t source);
bool rt_rows_is_stretch(const rt_rows *r); /* the held-out part is the end of the only text */

/* A document in a row. */
typedef struct rt_row_doc {
    uint32_t begin, len; /* in the row */
    uint32_t source, shard;
    uint64_t record;
    uint32_t first;  /* of the record's tokens */
    uint32_t number; /* of what the shard says that its record comes from */
    uint32_t group;  /* of its source */
} rt_row_doc;

/* One row. The caller owns the arrays, all (T) i32. They are what the ops take: ids of embed; target of kd_loss: the
 * next id where it is trained, else -1; start of attention: the first position of the document; pos of rope. Behind the
 * last document stands padding, a document of its own without targets. */
typedef struct rt_row {
    int32_t *ids, *target, *start, *pos;
    uint32_t tokens, trained; /* without padding; targets that are not -1 */
    uint64_t epoch;
    const rt_row_doc *docs; /* until the next call */
    uint32_t doc_count;
} rt_row;
/* 1: a row; 0: the last epoch is over; negative: a status. */
int rt_rows_next(rt_rows *r, rt_row *row, rt_err *e);
/* The group of every position, (T); of padding 0. */
void rt_row_groups(const rt_row *row, uint32_t T, int32_t *group);
/* How many rows a pass has: it is packed for this, without reading a token. */
int rt_rows_in_epoch(rt_rows *r, uint64_t epoch, uint64_t *rows, rt_err *e);

/* ---- parts of the data that are measured by themselves (data_parts.c) ---- */

enum { RT_PARTS_MOST = 16, RT_PART_NAME = 128 };
typedef struct rt_row_parts {
    uint32_t count; /* 0: all is one, or there are too many */
    char name[RT_PARTS_MOST][RT_PART_NAME];
    uint32_t first[RT_PARTS_MOST], files[RT_PARTS_MOST]; /* of each source; files 0: it is one part */
} rt_row_parts;
/* Every file of every source; every source where the files are too many. */
void rt_rows_parts(const rt_rows *r, rt_row_parts *p);
/* Which of them a document belongs to. */
uint32_t rt_row_part(const rt_row_parts *p, const rt_row_doc *d);

enum { RT_CURSOR_VERSION = 1, RT_WINDOW_ROWS = 64 };

/* Where rows are, exactly: the next row after rt_rows_seek is the one that would have come. Totals are since the
 * beginning: 1 - tokens / (rows * seq_len) is the share of padding. */
typedef struct rt_cursor {
    rt_hash128 data; /* of the shards, weights and options: another set-up is refused */
    uint64_t epoch, draw, row;
    uint64_t rows, tokens, trained;
} rt_cursor;
rt_cursor rt_rows_tell(const rt_rows *r);
int rt_rows_seek(rt_rows *r, const rt_cursor *c, rt_err *e);
json_t *rt_cursor_to_json(const rt_cursor *c); /* null when out of memory */
int rt_cursor_from_json(rt_cursor *c, const json_t *j, rt_err *e);

/* ---- the permutation (data_order.c) ---- */

/* The place of i among [0, n) in the order that (seed, stream) names. n from 1, i below n. */
uint64_t rt_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i);

#endif
