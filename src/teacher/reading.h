/* reading.h - a teacher that reads more than the student: a prompt of its own before the documents of a batch.
 *
 * Owns: what such a teacher reads of a micro-batch, in rows of its own, and which of its positions is which of the
 * student's. Documents are told from one another by their starts. What a prompt is made of is its caller's. */
#ifndef RT_TEACHER_READING_H
#define RT_TEACHER_READING_H

#include "base/err.h"
#include "base/hash.h"

#include <stdbool.h>
#include <stdint.h>

/* A document that begins with `begin` is read with `put` in the place of its first `skip` ids; any other as it is. The
 * last of put stands for the last of what it replaces, which is no target before it. */
typedef struct rt_teacher_prompt {
    const int32_t *begin, *put;
    uint32_t begin_count, put_count;
    uint32_t skip; /* at most begin_count */
} rt_teacher_prompt;
/* Ids that a teacher reads of a row besides those of the student, at most. */
static inline uint32_t rt_prompt_extra(const rt_teacher_prompt *p)
{
    return p->put_count > p->skip ? p->put_count - p->skip : 0;
}
/* Of all that it is: equal for equal prompts. */
rt_hash128 rt_prompt_hash(const rt_teacher_prompt *p);
/* Whether a document of so many ids is read with the prompt. */
bool rt_prompt_applies(const rt_teacher_prompt *p, const int32_t *ids, uint32_t count);

/* What the student reads: (B*T) each, as in rt_batch. */
typedef struct rt_reading_of {
    const int32_t *ids, *start, *target;
    uint32_t B, T;
} rt_reading_of;

/* In passes of `rows` rows of `len` positions; arrays are (passes * rows * len). */
typedef struct rt_reading {
    uint32_t rows, len, passes;
    uint32_t cap;                 /* passes that there is room for */
    int32_t *ids, *pos, *start;   /* as a decoder reads them */
    int32_t *place;               /* which position of the student's this is; -1: none */
    uint32_t documents, prompted; /* with a target; of them those that are read with the prompt */
} rt_reading;
/* rows, len: fixed before. Documents without a target are not read, and of the others nothing after the last one; there
 * is one pass at least. RT_INVALID where a position that is trained has no counterpart, being replaced by the prompt.
 */
int rt_reading_make(rt_reading *r, const rt_teacher_prompt *p, const rt_reading_of *of, rt_err *e);
void rt_reading_free(rt_reading *r); /* accepts zeroes */

#endif
