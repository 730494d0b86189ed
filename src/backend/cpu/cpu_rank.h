/* cpu_rank.h - the best columns of a row in order: larger value first, ties by lower id.
 *
 * Owns: the order as one integer per column, a heap that keeps the best of what it was shown, the vector loop that
 * shows it a block. A row is shown in order of ids, so a value equal to the worst one kept comes after it and is passed
 * over; most vectors cost one comparison. */
#ifndef RT_BACKEND_CPU_CPU_RANK_H
#define RT_BACKEND_CPU_CPU_RANK_H

#include "backend/cpu/cpu_softmax.h"

/* A larger key ranks first. Both zeros are one value. */
RT_INLINE uint64_t rank_key(float x, uint32_t id)
{
    uint32_t u = rt_f32_bits(x + 0.0f);
    u = u >> 31 ? ~u : u | 0x80000000u;
    return (uint64_t)u << 32 | (uint32_t)~id;
}
RT_INLINE uint32_t rank_id(uint64_t key) { return ~(uint32_t)key; }
RT_INLINE float rank_value(uint64_t key)
{
    uint32_t u = (uint32_t)(key >> 32);
    return rt_f32_from_bits(u >> 31 ? u & 0x7fffffffu : ~u);
}

typedef struct rank_top {
    uint64_t *key; /* (most) a heap with the least at its root once it is full, else in the order shown */
    uint32_t n, most;
    float least;     /* value at the root when full */
    int32_t largest; /* the largest absolute value that was shown, as an integer */
} rank_top;

RT_INLINE void rank_sink(uint64_t *key, uint32_t root, uint32_t n)
{
    const uint64_t held = key[root];
    for (uint32_t child; (child = 2 * root + 1) < n && child > root; root = child) {
        if (child + 1 < n) child += key[child + 1] < key[child]; /* no branch: it would be a guess */
        if (held <= key[child]) break;
        key[root] = key[child];
    }
    key[root] = held;
}
RT_INLINE void rank_heap(uint64_t *key, uint32_t n)
{
    for (uint32_t root = n / 2; root-- > 0;) rank_sink(key, root, n);
}
/* The best first. */
static inline void rank_sort(rank_top *t)
{
    if (t->n < t->most) rank_heap(t->key, t->n);
    for (uint32_t end = t->n; end-- > 1;) {
        uint64_t least = t->key[0];
        t->key[0] = t->key[end];
        t->key[end] = least;
        rank_sink(t->key, 0, end);
    }
}

RT_INLINE void rank_show(rank_top *t, float x, uint32_t id)
{
    if (t->n < t->most) {
        t->key[t->n++] = rank_key(x, id);
        if (t->n < t->most) return;
        rank_heap(t->key, t->n);
    } else {
        if (!(x > t->least)) return;
        t->key[0] = rank_key(x, id);
        rank_sink(t->key, 0, t->n);
    }
    t->least = rank_value(t->key[0]);
}

/* Bit k: lane k of x is above y. */
RT_INLINE uint32_t lanes_above(vf x, float y)
{
#if defined(RT_ISA_avx512)
    return _mm512_cmp_ps_mask((__m512)x, _mm512_set1_ps(y), _CMP_GT_OQ);
#elif defined(RT_ISA_avx2)
    return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps((__m256)x, _mm256_set1_ps(y), _CMP_GT_OQ));
#else
    uint32_t m = 0;
    for (int k = 0; k < VL; k++) m |= (uint32_t)(x[k] > y) << k;
    return m;
#endif
}

/* Columns of x (n) whose bit is set, with ids from `first`; x is readable up to a multiple of VL. */
static inline void rank_block(rank_top *t, const float *x, const uint32_t *bits, uint32_t n, uint32_t first)
{
    const vi abs = (vi){ 0 } + 0x7fffffff;
    vi largest = { 0 };
    for (uint32_t i = 0; i < n; i += VL) {
        uint32_t in = bits[i / 32] >> i % 32 & ((1u << VL) - 1);
        if (n - i < VL) in &= (1u << (n - i)) - 1;
        vf v = vload(x + i);
        vi lanes = lanes_set(bits, i);
        if (n - i < VL) lanes &= lanes_below(n, i);
        largest = vimax(largest, (vi)v & abs & lanes);
        if (t->n == t->most) in &= lanes_above(v, t->least);
        for (; in; in &= in - 1) {
            uint32_t k = (uint32_t)__builtin_ctz(in);
            rank_show(t, x[i + k], first + i + k);
        }
    }
    int32_t block = block_imax(largest);
    t->largest = block > t->largest ? block : t->largest;
}
/* Was everything shown finite? */
RT_INLINE bool rank_finite(const rank_top *t) { return t->largest < 0x7f800000; }

#endif
