/* region.h - which part of a buffer has been written: a set of disjoint rectangles in the buffer's own grid.
 *
 * Exact by element and so by byte range. A view maps to rectangles whatever its stride; most map to one. */
#ifndef RT_OP_REGION_H
#define RT_OP_REGION_H

#include "op/plan.h"

typedef struct rt_rect {
    uint32_t r0, r1, c0, c1; /* rows [r0,r1), columns [c0,c1) */
} rt_rect;

struct rt_region {
    rt_rect *rect;
    uint32_t n, cap;
};

/* A list of rectangles that grows; freed with rt_region_free. Also used for "what is left". */
void rt_region_free(rt_region *g);
/* Appends the rectangles of a view of buffer b (in bounds). false: out of memory. */
bool rt_region_of_view(rt_region *out, const rt_buffer *b, rt_view v);
/* left = what of `want` is not in `have`. false: out of memory. left is emptied first. */
bool rt_region_subtract(rt_region *left, const rt_region *want, const rt_region *have);
/* have |= add. false: out of memory. */
bool rt_region_add(rt_region *have, const rt_region *add);
bool rt_region_overlap(const rt_region *a, const rt_region *b);
uint64_t rt_region_elems(const rt_region *g); /* of disjoint rectangles */

#endif
