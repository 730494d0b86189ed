/* place.c - placement by lifetime: largest buffer first, each at the lowest offset where it fits among those that are
 * alive with it. Deterministic, and within a few per cent of the ideal for the nested lifetimes of a training step. */
#include "exec/exec_internal.h"

#include <stdlib.h>
#include <string.h>

static bool alive_together(rt_life a, rt_life b) { return a.first <= b.last && b.first <= a.last; }

typedef struct wanted {
    const uint64_t *bytes;
    const rt_life *life;
} wanted;

/* Larger first; equal sizes in order of first use, then of number, so that the order is total. */
static int by_size(const void *a, const void *b, void *ctx)
{
    const wanted *w = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (w->bytes[x] != w->bytes[y]) return w->bytes[x] > w->bytes[y] ? -1 : 1;
    if (w->life[x].first != w->life[y].first) return w->life[x].first < w->life[y].first ? -1 : 1;
    return (x > y) - (x < y);
}

/* The lowest aligned offset >= 0 where size bytes meet none of the n placed buffers alive with `me`; these are in order
 * of their places, so what does not reach a gap, and does not leave it too small, is behind it. */
static uint64_t lowest_fit(uint32_t me, uint64_t size, const uint32_t *placed, uint32_t n, const uint64_t *place,
                           const uint64_t *bytes, const rt_life *life, uint64_t pad)
{
    uint64_t at = 0;
    for (uint32_t j = 0; j < n; j++) {
        uint32_t other = placed[j];
        uint64_t begin = place[other] - pad;
        if (begin >= at + size) break;
        if (!alive_together(life[me], life[other])) continue;
        uint64_t end = place[other] + rt_align_up(bytes[other], RT_PLACE_ALIGN) + pad;
        if (at < end) at = end;
    }
    return at;
}

/* Into the n placed ones, behind those at the same place. */
static void insert(uint32_t *placed, uint32_t n, uint32_t me, const uint64_t *place)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;
        if (place[placed[mid]] <= place[me])
            low = mid + 1;
        else
            high = mid;
    }
    memmove(placed + low + 1, placed + low, (n - low) * sizeof *placed);
    placed[low] = me;
}

uint64_t rt_place(uint64_t *place, const uint64_t *bytes, const rt_life *life, uint32_t n, uint64_t pad, bool reuse,
                  uint32_t *order)
{
    uint64_t arena = 0;
    uint32_t placed = 0; /* of the buffers before order[i], in whose entries they now stand by their places */
    for (uint32_t i = 0; i < n; i++) {
        order[i] = i;
        place[i] = UINT64_MAX;
    }
    if (n > 0) qsort_r(order, n, sizeof *order, by_size, &(wanted){ bytes, life });
    for (uint32_t i = 0; i < n; i++) {
        uint32_t b = order[i];
        if (life[b].first > life[b].last) continue;
        if (bytes[b] > UINT64_MAX / 4) return UINT64_MAX;
        uint64_t size = rt_align_up(bytes[b], RT_PLACE_ALIGN) + 2 * pad;
        uint64_t at = reuse ? lowest_fit(b, size, order, placed, place, bytes, life, pad) : arena;
        place[b] = at + pad;
        insert(order, placed++, b, place);
        if (at + size > arena) arena = at + size;
        if (arena > UINT64_MAX / 4) return UINT64_MAX;
    }
    return arena;
}
