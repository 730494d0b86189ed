/* cache_bits.h - bits in a record, the lowest of a byte first, and a sorted set of ids in them.
 *
 * A set of n ids is Elias-Fano's: the low `l` bits of each, and apart from them the differences of what is above, each
 * as so many zeros and a one. Both go up with the ids. l is the one that takes the fewest bits, the lowest of several.
 */
#ifndef RT_TEACHER_CACHE_CACHE_BITS_H
#define RT_TEACHER_CACHE_CACHE_BITS_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- writing ---- */

typedef struct rt_bits_out {
    uint8_t *at;
    uint64_t word;
    unsigned used; /* bits in word, below 32 */
} rt_bits_out;

/* width: at most 32; nothing is set above it. */
static inline void rt_bits_put(rt_bits_out *o, uint32_t value, unsigned width)
{
    o->word |= (uint64_t)value << o->used;
    o->used += width;
    if (o->used < 32) return;
    memcpy(o->at, &o->word, 4);
    o->at += 4;
    o->word >>= 32;
    o->used -= 32;
}

/* Zeros and a one. */
static inline void rt_bits_put_unary(rt_bits_out *o, uint64_t zeros)
{
    for (; zeros >= 31; zeros -= 31) rt_bits_put(o, 0, 31);
    rt_bits_put(o, UINT32_C(1) << zeros, (unsigned)zeros + 1);
}

/* Fills the last byte with zeros; returns what follows it. */
static inline uint8_t *rt_bits_end(rt_bits_out *o)
{
    for (; o->used > 0; o->used -= o->used < 8 ? o->used : 8) {
        *o->at++ = (uint8_t)o->word;
        o->word >>= 8;
    }
    return o->at;
}

/* ---- reading ---- */

typedef struct rt_bits_in {
    const uint8_t *data;
    uint64_t bytes;
} rt_bits_in;

/* 57 bits or more at a bit; zeros behind the end. */
static inline uint64_t rt_bits_peek(const rt_bits_in *in, uint64_t bit)
{
    uint64_t word = 0, byte = bit >> 3;
    if (byte + 8 <= in->bytes)
        memcpy(&word, in->data + byte, 8);
    else if (byte < in->bytes)
        memcpy(&word, in->data + byte, (size_t)(in->bytes - byte));
    return word >> (bit & 7);
}

static inline uint32_t rt_bits_get(const rt_bits_in *in, uint64_t bit, unsigned width)
{
    return (uint32_t)(rt_bits_peek(in, bit) & ((UINT64_C(1) << width) - 1));
}

/* Zeros up to the next one, and *bit behind that. False: there is none. */
static inline bool rt_bits_get_unary(const rt_bits_in *in, uint64_t *bit, uint64_t *zeros)
{
    uint64_t n = 0;
    for (uint64_t at = *bit; at < 8 * in->bytes;) {
        uint64_t word = rt_bits_peek(in, at);
        if (word) {
            unsigned more = (unsigned)__builtin_ctzll(word);
            *zeros = n + more;
            *bit = at + more + 1;
            return true;
        }
        n += 57 < 8 * in->bytes - at ? 57 : 8 * in->bytes - at;
        at += 57;
    }
    return false;
}

/* ---- sets ---- */

/* For n ids (at least 1) of which `last` is the highest. */
static inline unsigned rt_set_low_bits(uint32_t n, uint32_t last)
{
    unsigned best = 0;
    uint64_t least = UINT64_MAX;
    for (unsigned l = 0; l < 32; l++) {
        uint64_t bits = (uint64_t)n * l + (last >> l);
        if (bits >= least) continue;
        least = bits;
        best = l;
    }
    return best;
}

/* By the bits [from, from + width) of each, ascending; what is equal there stays in its order. v and other have room
 * for n; returns the one that holds the result. Six bits at a time: short lists have few numbers to each digit. */
static inline uint64_t *rt_sort_digits(uint64_t *v, uint64_t *other, uint32_t n, unsigned from, unsigned width)
{
    enum { DIGIT = 6 };
    for (unsigned at = from; at < from + width; at += DIGIT) {
        uint32_t begin[(1 << DIGIT) + 1] = { 0 };
        unsigned bits = from + width - at < DIGIT ? from + width - at : DIGIT;
        uint64_t mask = (UINT64_C(1) << bits) - 1;
        for (uint32_t i = 0; i < n; i++) begin[(v[i] >> at & mask) + 1]++;
        for (uint32_t d = 0; d < mask; d++) begin[d + 1] += begin[d];
        for (uint32_t i = 0; i < n; i++) other[begin[v[i] >> at & mask]++] = v[i];
        uint64_t *sorted = other;
        other = v;
        v = sorted;
    }
    return v;
}

/* The bits that x needs. */
static inline unsigned rt_bit_width(uint32_t x) { return x ? 32 - (unsigned)__builtin_clz(x) : 0; }

#endif
