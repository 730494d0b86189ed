/* data_held.h - which records are held out: so many of distinct content, chosen by a seed.
 *
 * Owns: the choice. Records with equal ids are one: where it is held out, its copies are neither measured nor trained.
 * What is chosen depends on the records that a row length leaves and on the seed, never on the weights of sources. */
#ifndef RT_DATA_DATA_HELD_H
#define RT_DATA_DATA_HELD_H

#include "text/data/data_rows.h"

/* wanted records, or where it is 0 a share of those with distinct content, at least 1 and never all. o: the row length
 * and the seed. RT_INVALID when wanted are all. *out is null where fewer than two records are distinct: of one text a
 * stretch is held out (rt_rows_open). The sources' shards must outlive it. (data_held_choose.c) */
int rt_held_choose(rt_held **out, const rt_rows_source *sources, uint32_t count, const rt_rows_opts *o, uint64_t wanted,
                   double share, rt_err *e);

/* ---- what was chosen (data_held.c) ---- */

/* A record's place in the order of a seed: the lowest are held out. */
uint64_t rt_held_key(uint64_t seed, const rt_shard *s, uint64_t record);
/* The records with these keys, which are sorted and each of which is there once. */
int rt_held_new(rt_held **out, uint64_t seed, const uint64_t *keys, uint64_t count, rt_err *e);
/* A record that can be held out; the first of its content is, where that is chosen. */
void rt_held_meet(rt_held *h, const rt_shard *s, uint64_t record);
uint64_t rt_held_count(const rt_held *h);
rt_held_kind rt_held_look(const rt_held *h, const rt_shard *s, uint64_t record);
void rt_held_free(rt_held *h); /* accepts null */

#endif
