/* evaluate.h - the same batches measured again and again: mean and standard error over documents of what matters.
 *
 * Owns: the held-out rows in memory, and the sums. A document's positions are not independent, so errors are over
 * documents: with s_d the sum and n_d the count of document d, mean = sum s / sum n, and its standard error is
 * sqrt(D / (D - 1) sum (s_d - mean n_d)^2) / sum n. The error of a change is the same of what each s_d changed by. */
#ifndef RT_TRAIN_EVALUATE_H
#define RT_TRAIN_EVALUATE_H

#include "base/str.h"
#include "format/metrics.h"
#include "text/data/data_rows.h"
#include "text/tokenizer/tokenizer.h"
#include "train/step.h"

enum { RT_EVAL_MOST_ROWS = 1000 }; /* that a run evaluates on */
typedef struct rt_eval_set rt_eval_set;
/* Up to most rows (0: all) of T tokens, read to their end, in batches of B. RT_INVALID when nothing in them is a
 * target. */
int rt_eval_set_new(rt_eval_set **out, rt_rows *rows, uint32_t B, uint32_t T, uint32_t most, rt_err *e);
void rt_eval_set_free(rt_eval_set *s); /* accepts null */
/* Leaves at most so many rows, in their order: one of each document, by the seed, before a second of any. */
int rt_eval_set_pick(rt_eval_set *s, uint32_t rows, uint64_t seed, rt_err *e);
uint32_t rt_eval_set_of(const rt_eval_set *s); /* rows that it had before */
/* Batches of fewer rows than it was made with. */
void rt_eval_set_batch(rt_eval_set *s, uint32_t B);
uint32_t rt_eval_set_rows(const rt_eval_set *s);
uint64_t rt_eval_set_positions(const rt_eval_set *s);
uint64_t rt_eval_set_records(const rt_eval_set *s); /* that any of its documents is of */
/* The names of those sources or files of the data that none of its rows has anything of, with commas. */
void rt_eval_set_absent(const rt_eval_set *s, rt_str *names);
/* All rows, one after another: (rows * T) each. */
rt_batch rt_eval_set_all(const rt_eval_set *s);
/* From now on the probability of this word (text/tokenizer/tok_word.h) is measured too, at the places where it stands
 * and all of its ids are targets. RT_INVALID when there is no such place. */
int rt_eval_set_word(rt_eval_set *s, const rt_tokenizer *t, const char *word, rt_err *e);
/* Whether every target is an id of the mask (bits below rows); else the first that is not. */
bool rt_eval_set_within(const rt_eval_set *s, const uint32_t *mask, uint32_t rows, int32_t *bad);
/* Whether every input and target is below rows, as an embedding needs it; else the first that is not. */
bool rt_eval_set_below(const rt_eval_set *s, uint32_t rows, int32_t *bad);

/* Documents, or pieces of them, sorted by where they come from; i counts from 0. */
typedef struct rt_eval_document {
    const int32_t *ids, *target; /* (len) */
    uint32_t len;
    bool begins; /* with the first token of its record */
} rt_eval_document;
uint32_t rt_eval_set_documents(const rt_eval_set *s);
void rt_eval_set_document(const rt_eval_set *s, uint32_t i, rt_eval_document *out);

/* kl_each (rt_eval_set_positions) or null: forward KL of every position, in order. */
int rt_evaluate(rt_trainer *t, rt_eval_set *s, rt_eval_result *out, float *kl_each, rt_err *e);

/* Where a model carries nothing to 1 % of the positions or more, a sentence about it; else nothing. student, teacher:
 * as the user calls them. */
void rt_eval_say_even(rt_str *out, const rt_eval_result *v, const char *student, const char *teacher);

/* From now on measures have the error of their difference from the evaluation that was made last. False: there are more
 * documents than that is done for. */
enum { RT_EVAL_PAIRS_MOST = 4096 };
bool rt_eval_set_rebase(rt_eval_set *s);
/* That evaluation by document, as a line of metrics.jsonl: {"event": "documents", "step": 0, "sums": {"ce": [...],
 * ...}}; null when out of memory. */
json_t *rt_eval_base_json(const rt_eval_set *s);
/* The way back. False: it is another line, or of other documents. */
bool rt_eval_base_take_line(rt_eval_set *s, const json_t *line);

#endif
