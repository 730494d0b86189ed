/* foreign_internal.h - what readers of other tools' formats share. */
#ifndef RT_TEACHER_CACHE_FOREIGN_INTERNAL_H
#define RT_TEACHER_CACHE_FOREIGN_INTERNAL_H

#include "teacher/cache/foreign.h"

/* An entry of a position that is being read. */
typedef struct rt_foreign_entry {
    float logp;
    int32_t id;
} rt_foreign_entry;
/* The d->k highest of the entries (sorted here) become position p, and rest what is left. Entries below e^-100 are what
 * a mask has left and are passed over. RT_FORMAT when their mass is above 1. */
int rt_foreign_set(rt_foreign_doc *d, uint32_t p, rt_foreign_entry *entries, uint32_t count, rt_err *e);

#endif
