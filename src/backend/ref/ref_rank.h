/* ref_rank.h - ids in order of their values, for topk and sample. For files compiled per real type. */
#ifndef RT_BACKEND_REF_REF_RANK_H
#define RT_BACKEND_REF_REF_RANK_H

#include "backend/ref/ref.h"

#include <stdbool.h>

/* Does a come before b: larger value first, then lower id? A total order when no value is NaN. */
static inline bool ranks_before(const real *x, int32_t a, int32_t b) { return x[a] != x[b] ? x[a] > x[b] : a < b; }

/* Lets the id at `root` sink until none below it in the heap of n ranks after it. */
static inline void sink(int32_t *id, size_t root, size_t n, const real *x)
{
    for (size_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && ranks_before(x, id[child], id[child + 1])) child++;
        if (ranks_before(x, id[child], id[root])) return;
        int32_t held = id[root];
        id[root] = id[child];
        id[child] = held;
    }
}

/* id (n): indices into x, distinct, put in order. Heapsort: it needs no memory, and the C library's sort may take
 * some. */
static inline void rank_ids(int32_t *id, size_t n, const real *x)
{
    for (size_t root = n / 2; root-- > 0;) sink(id, root, n, x);
    for (size_t end = n; end-- > 1;) {
        int32_t last = id[0];
        id[0] = id[end];
        id[end] = last;
        sink(id, 0, end, x);
    }
}

#endif
