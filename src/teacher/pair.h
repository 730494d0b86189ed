/* pair.h - whether a teacher and a student speak of the same ids, proven id by id.
 *
 * Owns: Vc, the ids that both tokenizers define with the same bytes (DESIGN section 5), as a bitmap; the list of
 * special ids that differ and are left out of it; the refusal of anything else. Rows of an embedding that no tokenizer
 * defines are padding and outside Vc on both sides. */
#ifndef RT_TEACHER_PAIR_H
#define RT_TEACHER_PAIR_H

#include "base/hash.h"
#include "base/mem.h"
#include "text/tokenizer/tokenizer.h"

enum { RT_PAIR_LISTED = 64 };

typedef struct rt_pair {
    uint32_t student_rows, teacher_rows; /* of the embeddings */
    uint32_t common;                     /* ids in Vc */
    uint32_t *mask;                      /* (ceil(student_rows / 32)) bits; rt_pair_free frees it */
    bool masked;   /* some id of the student or of the teacher is outside Vc: the loss needs the mask */
    bool measured; /* both have tokenizers, which were compared; else `vocab` was believed */
    uint32_t special[RT_PAIR_LISTED]; /* the first special ids that one side alone defines, or that differ */
    uint32_t special_count;           /* of all of them */
    uint32_t student_padding, teacher_padding;
} rt_pair;

/* Tokenizers null where a model has none; then vocab must say how many ids are in use (RT_INVALID without it), and must
 * not contradict the tokenizer that is there. RT_INVALID with the first ids that differ and their spellings. */
int rt_pair_check(rt_pair *out, const rt_tokenizer *student, uint32_t student_rows, const rt_tokenizer *teacher,
                  uint32_t teacher_rows, uint32_t vocab, rt_err *e);
void rt_pair_free(rt_pair *p); /* accepts null */
static inline bool rt_pair_has(const rt_pair *p, uint32_t id)
{
    return id < p->student_rows && (p->mask[id / 32] >> (id % 32) & 1);
}
/* Of the ids in Vc alone: equal for equal ids, however long the embeddings are. */
rt_hash128 rt_pair_hash(const rt_pair *p);
/* One line for a person: "151665 ids in common, 271 and 399 rows of padding left out". */
void rt_pair_describe(const rt_pair *p, rt_str *out);

#endif
