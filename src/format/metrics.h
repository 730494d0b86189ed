/* metrics.h - what is measured of a run, as plain numbers, and an evaluation as the line of metrics.jsonl that it is.
 *
 * Owns: the structs that training fills and that evidence and reports read, and that line in both directions. Measuring
 * is done in train; what a number means for a claim is said in evidence. */
#ifndef RT_FORMAT_METRICS_H
#define RT_FORMAT_METRICS_H

#include "format/config/names.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

typedef struct rt_measure {
    double mean, error; /* error is NaN for a single document */
    double paired;      /* error of its difference from the first evaluation, document by document; 0: not known */
} rt_measure;

/* The same measures of one source or file of the data. */
enum { RT_EVAL_PARTS = 16, RT_EVAL_NAME = 128 };
typedef struct rt_eval_part {
    char name[RT_EVAL_NAME];
    uint64_t positions, documents;
    rt_measure ce, kl, agreement, teacher_ce;
} rt_eval_part;

typedef struct rt_eval_result {
    rt_measure ce;          /* the student's, at temperature 1 */
    rt_measure div;         /* the divergence that is trained */
    rt_measure kl;          /* forward KL at temperature 1, so that runs compare */
    rt_measure agreement;   /* share of positions with the same first choice */
    rt_measure teacher_ce;  /* the floor that CE falls towards; NaN: not measured, of lists that another tool made */
    bool teacher;           /* without one only ce is there */
    uint32_t outcomes;      /* that div and kl are over where the teacher lists some ids: one more than these, and they
                               are lower bounds; 0: all */
    bool sampled;           /* samples were made: */
    double stop_rate;       /* share of them that ended by themselves */
    double repetition_rate; /* share of their tokens that lie in four in a row which the text has had before */
    uint64_t positions, documents;
    uint64_t even, teacher_even; /* positions where every id is as likely as any other; in no record */
    rt_measure word;             /* probability of the set's word where it stands, all of its ids together */
    rt_measure teacher_word;     /* the teacher's */
    uint64_t places;             /* where it stands; 0: the set has no word */
    double seconds;
    uint32_t part_count; /* 0: the data is one part, or has too many */
    rt_eval_part parts[RT_EVAL_PARTS];
} rt_eval_result;

/* With fewer documents a mean that has not changed looks changed too often: two standard errors of 5 documents are
 * passed to one side by chance once in 17 times, of 2 once in 7. */
enum { RT_DOCUMENTS_LEAST = 5 };
/* The standard error of b - a, where a is the first evaluation: paired where that is known, for the documents are the
 * same; else as of two draws. */
double rt_change_error(rt_measure a, rt_measure b);
/* b is lower than a by more than two of it; higher likewise. */
bool rt_measure_fell(rt_measure a, rt_measure b);
bool rt_measure_rose(rt_measure a, rt_measure b);

/* By what a run is judged: forward KL with a teacher, else CE. Lower is better. */
rt_measure rt_eval_judged(const rt_eval_result *v);
/* Evaluations since the best: begins as {0}. */
typedef struct rt_worse {
    rt_measure best;
    uint32_t count;  /* evaluations taken */
    uint32_t in_row; /* the last so many were above the best by more than its standard error */
} rt_worse;
void rt_worse_take(rt_worse *w, rt_measure now);

/* {"event": "eval", "step": ..., "ce": [mean, error, paired where it is known], ...}; null when out of memory. */
json_t *rt_eval_to_json(uint32_t step, const rt_eval_result *v);
/* [{"name": ..., "ce": ...}]: the parts alone. */
json_t *rt_eval_parts_json(const rt_eval_result *v);
/* The way back; what is not there is 0. */
rt_eval_result rt_eval_read(const json_t *j);
/* The same of a line of metrics.jsonl; false when it is another. */
bool rt_eval_from_line(const json_t *j, rt_eval_result *v);

/* The largest and the mean difference between what is in memory and what the folder holds, over all trained
 * parameters; rounding to the saved dtype is what it should be. */
typedef struct rt_output_difference {
    double rmse, max;
    uint64_t values, unequal; /* read back; of them those that are not the memory's rounded to the saved dtype */
    char worst[RT_NAME_BYTES];
} rt_output_difference;

#endif
