/* several.h - the teachers of one run: what each --teacher says, and which share each of them has of which data.
 *
 * Owns: the words of a --teacher (MODEL,weight=W,data=FILE,prompt=FILE) and the table of shares that follows from all
 * of them. It opens no model. A source of the data is asked of the teachers that name it, or, where none does, of those
 * that name no data; sources with the same teachers are a group. Rows carry groups, and the loss takes shares by row.
 */
#ifndef RT_TEACHER_SEVERAL_H
#define RT_TEACHER_SEVERAL_H

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

enum { RT_TEACHERS_MOST = 8, RT_TEACHER_NAMES = 16, RT_TEACHER_GROUPS = 64 };

typedef struct rt_teacher_spec {
    const char *model;                  /* without its options */
    double weight;                      /* 1 where none is given */
    bool weighted;                      /* one is given */
    const char *data[RT_TEACHER_NAMES]; /* sources that it is asked about; none: all that no teacher names */
    uint32_t data_count;
    const char *prompt; /* file of a prompt that it reads before conversations; null: none */
} rt_teacher_spec;

typedef struct rt_teachers {
    rt_teacher_spec list[RT_TEACHERS_MOST];
    uint32_t count;
    uint32_t served[RT_TEACHER_GROUPS];                 /* of each group: the teachers, as bits */
    double share[RT_TEACHER_GROUPS * RT_TEACHERS_MOST]; /* (group_count, count): adds up to 1 in each group */
    uint32_t group_count;                               /* 0 before rt_teachers_assign */
} rt_teachers;

/* One spec, its parts in a. RT_USAGE for an option that there is none of, or one that is out of range. */
int rt_teacher_parse(rt_teacher_spec *out, const char *text, rt_arena *a, rt_err *e);
/* All of them; RT_USAGE where they are too many. */
int rt_teachers_parse(rt_teachers *out, const char *const *texts, uint32_t count, rt_arena *a, rt_err *e);
/* groups (count) = the group of each source, by their names as the user gave them; of the first `trained` a teacher
 * must have one. RT_INVALID for a source that no teacher is asked about, a teacher that is asked about none, and data=
 * that names no source. */
int rt_teachers_assign(rt_teachers *t, const char *const *names, uint32_t count, uint32_t trained, uint32_t *groups,
                       rt_err *e);
/* Of a teacher in a group; 0: it is not asked. */
static inline double rt_teachers_share(const rt_teachers *t, uint32_t group, uint32_t teacher)
{
    return t->share[group * t->count + teacher];
}

#endif
