/* cache_source.h - a cache as a source of what the loss reads.
 *
 * Owns: which section of a cache answers which use, the search for what is missing, the values on their way from blocks
 * to rows. The bytes are teacher/cache/cache.h's; who makes a cache is job's. */
#ifndef RT_TEACHER_CACHE_SOURCE_H
#define RT_TEACHER_CACHE_SOURCE_H

#include "teacher/cache/cache.h"
#include "teacher/source.h"

/* What a cache keeps, by word: "topk:64", "draws:50", "hidden". */
typedef struct rt_keep_plan {
    rt_source_form form;
    uint32_t n;      /* k or draws; 0 of hidden states */
    uint32_t held_n; /* k of held-out positions */
    bool exact;      /* lists of all ids: not rounded */
    bool blind;      /* lists of another tool, for any use: temperature 1, without log-probabilities of targets */
} rt_keep_plan;
/* RT_USAGE for what is no such word. ids: those that count, which bound n. */
int rt_keep_parse(rt_keep_plan *out, const char *text, uint32_t ids, rt_err *e);
/* The sections of a cache that keeps that at a temperature, in order; returns how many. width: of hidden states. */
uint32_t rt_keep_sections(rt_cache_section out[RT_CACHE_SECTIONS], const rt_keep_plan *k, double temperature,
                          uint32_t width, rt_dtype act);
/* Which of a cache's sections is for this use. */
uint32_t rt_keep_section(const rt_keep_plan *k, double temperature, rt_source_use use);

/* The key under which a section has a place of a row with these targets (T). Where a section keeps targets the one of
 * the block's last position belongs to it: documents that begin alike may go on with different tokens. */
rt_hash128 rt_keep_key(const rt_cache_section *c, const rt_cache_place *p, const int32_t *target);

typedef struct rt_cache_source rt_cache_source;
int rt_cache_source_open(rt_cache_source **out, const char *path, rt_err *e);
void rt_cache_source_close(rt_cache_source *s); /* accepts null */
rt_source *rt_cache_source_of(rt_cache_source *s);
rt_cache *rt_cache_source_cache(const rt_cache_source *s);
const rt_keep_plan *rt_cache_source_keeps(const rt_cache_source *s);
double rt_cache_source_temperature(const rt_cache_source *s);
rt_source_shape rt_cache_source_shape(const rt_cache_source *s);

/* What of rows is not there. */
typedef struct rt_cache_missing {
    uint64_t positions, wanted; /* missing, of so many with a target */
    uint64_t first_pieces;      /* of those missing: in blocks that begin a document */
} rt_cache_missing;
/* Adds to m what a use would not find. */
int rt_cache_source_look(rt_cache_source *s, rt_source_use use, const rt_source_rows *rows, rt_cache_missing *m,
                         rt_err *e);

#endif
