/* job_answers_internal.h - between job_answers.c, which has them made, and job_answers_file.c: prompts in, lines out.
 */
#ifndef RT_JOB_JOB_ANSWERS_INTERNAL_H
#define RT_JOB_JOB_ANSWERS_INTERNAL_H

#include "base/append.h"
#include "base/file.h"
#include "job/job_internal.h"
#include "text/data/data_prompt.h"

typedef struct rt_asked {
    uint64_t number;  /* of the line in its file */
    uint32_t ordinal; /* of its first sample among those of equal prompts */
    rt_hash128 hash;  /* of its ids */
} rt_asked;

/* The prompts of a file. They are read twice, first to know how many and how long they are, and never held. */
typedef struct rt_asked_list {
    const char *path;
    rt_prompt_file *file; /* of the second reading, whose next prompt is `at` */
    rt_prompt_line line;  /* the one before it */
    uint32_t at;
    rt_asked *each; /* (count) */
    uint32_t count, cap;
    uint32_t longest;    /* ids */
    uint64_t longest_at; /* the line that has them */
} rt_asked_list;
/* RT_INTERRUPTED when `tell` says so. */
int rt_asked_read(rt_asked_list *l, const rt_data_text *t, const char *path, uint32_t samples, uint32_t vocab,
                  rt_job_tell *tell, rt_err *e);
/* Prompt i, which is never below the one of the last call. record: as rt_prompt_record has it; both are the caller's.
 */
int rt_asked_ids(rt_asked_list *l, const rt_data_text *t, uint32_t i, json_t **record, rt_tok_ids *ids, rt_err *e);
void rt_asked_free(rt_asked_list *l);

/* One answer. */
typedef struct rt_given {
    uint32_t *ids; /* (count) */
    float *logps;
    uint32_t count, ids_cap, logps_cap;
    double logp; /* of all of it */
    bool stopped, ended;
} rt_given;
double rt_given_mean(const rt_given *g); /* log-probability of a token */

/* Lines of the answers of one prompt (count of them, samples numbered from 0, or `best` alone). */
int rt_given_write(rt_append *f, const rt_asked *a, const json_t *record, const rt_tokenizer *tok, const rt_given *g,
                   uint32_t count, bool best, bool logps, const char *settings, rt_err *e);
/* How many prompts of the list the file has the answers of, `lines` each, and the bytes of those: what follows may be
 * cut off, for it is the beginning of an answer, or what a power failure left of one. RT_INVALID when they are answers
 * to other prompts, were made under other settings, or are no answers. */
int rt_given_found(const char *path, rt_asked_list *l, const rt_data_text *t, uint32_t lines, const char *settings,
                   uint32_t *found, uint64_t *bytes, rt_err *e);

#endif
