/* data_rows_internal.h - units: what of a record goes into a row. Between data_units.c and data_rows.c. */
#ifndef RT_DATA_DATA_ROWS_INTERNAL_H
#define RT_DATA_DATA_ROWS_INTERNAL_H

#include "text/data/data_rows.h"

typedef struct rt_unit {
    uint32_t shard;
    uint64_t record;
    uint32_t first, len; /* of the record's tokens */
    uint32_t end;        /* of those of them that this side has */
} rt_unit;

enum { RT_UNITS_STEP = 64 }; /* records between two marks */

/* The units of a source: numbered, found by number through sparse marks. */
typedef struct rt_units {
    rt_rows_source source;
    rt_rows_opts o;
    uint64_t *marks;       /* units before every RT_UNITS_STEP-th record */
    uint64_t *shard_first; /* (count + 1) records before each shard */
    uint64_t records;
    rt_rows_count n;
} rt_units;

/* Settles held_out and stretch, the same for both sides of the same data: the share is raised or lowered where chance
 * would leave a side without a record, so that of few records the one with the lowest hash is held out; where all
 * records are one text, a stretch of it is. */
void rt_rows_settle(const rt_rows_source *sources, uint32_t count, rt_rows_opts *o);
int rt_units_open(rt_units *u, const rt_rows_source *s, const rt_rows_opts *o, rt_err *e);
void rt_units_close(rt_units *u);
void rt_units_parts(const rt_units *sources, uint32_t count, rt_row_parts *out); /* data_parts.c */
rt_unit rt_units_find(const rt_units *u, uint64_t unit);                         /* unit below u->n.units */

#endif
