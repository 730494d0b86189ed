/* data_order.c - a permutation that is computed and not stored.
 *
 * A Feistel network over the least even number of bits that holds n, keyed by (seed, stream), is a permutation of
 * 2^bits numbers. What it sends outside [0, n) is sent through again until it is inside, which leaves a permutation of
 * [0, n): less than four turns on average. */
#include "text/data/data_rows.h"

#include "base/rng.h"

enum { ROUNDS = 6 };

uint64_t rt_permute(uint64_t seed, uint64_t stream, uint64_t n, uint64_t i)
{
    if (n < 2) return 0;
    unsigned half = 1;
    while (half < 32 && (n - 1) >> (2 * half)) half++;
    uint64_t mask = (1ull << half) - 1;
    do {
        uint64_t left = i >> half, right = i & mask;
        for (uint64_t round = 0; round < ROUNDS; round++) {
            rt_rng4 f = rt_philox(seed, stream, right | round << 56);
            uint64_t mixed = left ^ ((uint64_t)f.v[0] & mask);
            left = right;
            right = mixed;
        }
        i = left << half | right;
    } while (i >= n);
    return i;
}
