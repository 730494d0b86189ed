/* draw.h - the numbers of op draw: the weights of a softmax, and which of them a random number falls on, in integers.
 *
 * Owns: both definitions. From the f32 difference of two logits on everything is exact: the product below has 48 bits,
 * the rest is integers, so sums have no order and a draw has one answer on every machine.
 *
 * The weight of a logit x is 2^43 exp((x - max) / T), with an error of 2^-28 of it from the polynomial besides those of
 * f32 in the difference and in T, rounded down to a whole number. Sums of up to RT_DRAW_IDS weights fit into 64 bits.
 * Draw j of a row falls on the first id, in order of ids, whose weight and those before it add up to more than
 * r S / 2^64, rounded down: S the sum of all, r the 64 random bits of (seed, key, j). */
#ifndef RT_NUM_DRAW_H
#define RT_NUM_DRAW_H

#include "base/rng.h"

#include <math.h>

enum { RT_DRAW_IDS = 1 << 20, RT_DRAW_MOST = 1024 }; /* columns of a row and draws from it, at most */
#define RT_DRAW_ONE (UINT64_C(1) << 43)              /* the weight of the largest logit */
#define RT_DRAW_END 0x1.f8p37                        /* 63 in units of 2^-32: from there on a weight is 0 */
/* 2^x = 1 + x (a[0] + x (a[1] + ...)) for x in [0,1), in units of 2^-31 */
#define RT_DRAW_POLY 0x58b90ad8u, 0x1ebfd579u, 0x071a2445u, 0x013d0b92u, 0x0028dacau, 0x00071506u

#ifndef __cplusplus /* kernels mirror what follows */
/* log2(e) / T as f32, in units of 2^-32: its product with an f32 is exact in double. */
static inline double rt_draw_scale(float T)
{
    double c = 1.44269504088896340736 / (double)T;
    return (double)(float)(c < 0x1p127 ? c : 0x1p127) * 0x1p32;
}

/* -log2 of a weight that is `below` = max - x below the largest, in units of 2^-32. */
static inline uint64_t rt_draw_depth(float below, double scale)
{
    double q = (double)below * scale;
    return (uint64_t)llrint(q < RT_DRAW_END ? q : RT_DRAW_END);
}

static inline uint64_t rt_draw_weight(uint64_t depth)
{
    static const uint32_t a[] = { RT_DRAW_POLY };
    uint64_t x = (uint32_t)-depth, m = 0, down = (depth + UINT32_MAX) >> 32; /* depth = down - x */
    for (int i = sizeof a / sizeof *a; i-- > 0;) m = a[i] + (x * m >> 32);
    m = (UINT64_C(1) << 31) + (x * m >> 32);
    return m << 12 >> down;
}

/* The random bits of draw j: words 2 (j % 2) and the next of Philox at (seed, key, 2^32 - 1 << 32 | j / 2), a place
 * where no row of another op lies. key: the first word of the row's key below the second. */
static inline uint64_t rt_draw_bits(uint64_t seed, uint64_t key, uint32_t j)
{
    rt_rng4 r = rt_philox(seed, key, UINT64_C(0xffffffff) << 32 | j / 2);
    return (uint64_t)r.v[2 * (j % 2) + 1] << 32 | r.v[2 * (j % 2)];
}

static inline uint64_t rt_draw_mark(uint64_t bits, uint64_t sum)
{
    return (uint64_t)((unsigned __int128)bits * sum >> 64);
}

/* The logarithm of the share of an id that `count` of n draws fell on. */
static inline double rt_draw_logp(uint32_t count, uint32_t n) { return log((double)count / n); }

/* Entropy in nats of weights that add up to sum > 0; depths: the sum of weight times depth. */
static inline double rt_draw_entropy(double sum, double depths)
{
    return log(sum / (double)RT_DRAW_ONE) + depths / sum * (0.69314718055994530942 * 0x1p-32);
}
#endif

#endif
