/* preview.h - what a run is going to do with its data, for a person to look at before the first step: the objective in
 * one line, what became of the records, how much of the held-out text is trained on, and two samples with their mask.
 *
 * Owns: measuring and decoding, and its JSON. The text for people is cli/preview_print.c. */
#ifndef RT_JOB_PREVIEW_H
#define RT_JOB_PREVIEW_H

#include "job/prepare/overlap.h"
#include "job/run/run.h"

enum { RT_PREVIEW_SAMPLES = 2, RT_PREVIEW_PIECES = 8 };

/* Neighbouring tokens that are all trained, or all masked. */
typedef struct rt_preview_piece {
    bool trained;
    const char *text; /* decoded; a long one is shortened in its middle. Not safe for a terminal as it is */
} rt_preview_piece;

/* The beginning of a document as the run will read it. */
typedef struct rt_preview_sample {
    rt_preview_piece pieces[RT_PREVIEW_PIECES];
    uint32_t count;
    uint32_t tokens, trained; /* of the whole document */
    uint32_t left;            /* tokens behind the last piece */
} rt_preview_sample;

/* What is held out of a source, or taken of one of --eval-data. */
typedef struct rt_preview_source {
    const char *name;
    uint64_t records;
} rt_preview_source;

typedef struct rt_preview {
    rt_arena arena;
    const char *objective; /* "loss = 0.10 CE + 0.90 KL(teacher||student), T 1, 41 % of tokens trained" */
    rt_rows_count data;    /* of all training sources together */
    rt_rows_count eval;    /* of --eval-data */
    uint64_t rows;         /* of one pass */
    uint32_t held_rows;
    uint64_t held_positions;
    /* Records that are measured, of those that are held out or that rows take of --eval-data; weights and the limit of
     * rows leave out some. 0: the end of one text is held out. */
    uint64_t held_records, held_all;
    uint64_t held_copies; /* of records that are held out: left out of training */
    rt_preview_source held_sources[RT_PARTS_MOST];
    uint32_t held_source_count; /* 0: one, or more than have room */
    /* Of a run that goes on from a checkpoint nothing below is there: it was seen when the run began. */
    bool looked;
    rt_overlap_result overlap;
    uint64_t rows_read, rows_all; /* training rows that it was measured on, of those that the run's first pass reads */
    rt_preview_sample samples[RT_PREVIEW_SAMPLES];
    uint32_t sample_count;
} rt_preview;

/* Reads training rows and puts the run back to where it was. */
int rt_preview_new(rt_preview **out, const rt_run *r, rt_err *e);
void rt_preview_free(rt_preview *p); /* accepts null */

/* So much of the held-out text is trained on that its loss says little. */
bool rt_preview_overlap_high(const rt_preview *p);
json_t *rt_preview_json(const rt_preview *p); /* null when out of memory */

#endif
