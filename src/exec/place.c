/* place.c - placement by lifetime: largest buffer first, each at the lowest offset where it fits among those that are
 * alive with it. Deterministic, and within a few per cent of the ideal for the nested lifetimes of a training step. */
#include "exec/exec_internal.h"

static bool alive_together(rt_life a, rt_life b) { return a.first <= b.last && b.first <= a.last; }

/* Larger first; equal sizes in order of first use, then of number, so that the order is total. */
static bool before(uint32_t a, uint32_t b, const uint64_t *bytes, const rt_life *life)
{
    if (bytes[a] != bytes[b]) return bytes[a] > bytes[b];
    if (life[a].first != life[b].first) return life[a].first < life[b].first;
    return a < b;
}

/* Heap sort: n can be thousands, and the C library's qsort takes no context. */
static void sift(uint32_t *o, uint32_t root, uint32_t n, const uint64_t *bytes, const rt_life *life)
{
    for (uint32_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && before(o[child], o[child + 1], bytes, life)) child++;
        if (!before(o[root], o[child], bytes, life)) return;
        uint32_t t = o[root];
        o[root] = o[child];
        o[child] = t;
    }
}

static void order_by_size(uint32_t *o, uint32_t n, const uint64_t *bytes, const rt_life *life)
{
    for (uint32_t i = 0; i < n; i++) o[i] = i;
    for (uint32_t i = n / 2; i-- > 0;) sift(o, i, n, bytes, life);
    for (uint32_t i = n; i-- > 1;) {
        uint32_t t = o[0];
        o[0] = o[i];
        o[i] = t;
        sift(o, 0, i, bytes, life);
    }
}

/* The lowest aligned offset >= 0 where size bytes meet none of the first n placed buffers alive with `me`. */
static uint64_t lowest_fit(uint32_t me, uint64_t size, const uint32_t *o, uint32_t n, const uint64_t *place,
                           const uint64_t *bytes, const rt_life *life, uint64_t pad)
{
    uint64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t j = 0; j < n; j++) {
            uint32_t other = o[j];
            if (place[other] == UINT64_MAX || !alive_together(life[me], life[other])) continue;
            uint64_t begin = place[other] - pad, end = place[other] + rt_align_up(bytes[other], RT_PLACE_ALIGN) + pad;
            if (at < end && begin < at + size) {
                at = end;
                moved = true;
            }
        }
    }
    return at;
}

uint64_t rt_place(uint64_t *place, const uint64_t *bytes, const rt_life *life, uint32_t n, uint64_t pad, bool reuse,
                  uint32_t *order)
{
    uint64_t arena = 0;
    order_by_size(order, n, bytes, life);
    for (uint32_t i = 0; i < n; i++) place[i] = UINT64_MAX;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t b = order[i];
        if (life[b].first > life[b].last) continue;
        if (bytes[b] > UINT64_MAX / 4) return UINT64_MAX;
        uint64_t size = rt_align_up(bytes[b], RT_PLACE_ALIGN) + 2 * pad;
        uint64_t at = reuse ? lowest_fit(b, size, order, i, place, bytes, life, pad) : arena;
        place[b] = at + pad;
        if (at + size > arena) arena = at + size;
        if (arena > UINT64_MAX / 4) return UINT64_MAX;
    }
    return arena;
}
