/* hash.c - XXH3-128 by libxxhash.
 *
 * Owns: the streaming state, which lives in our own memory so that it is counted and can fail in tests. Leaves the
 * choice of what makes an identity to the callers. */
#define XXH_STATIC_LINKING_ONLY /* makes the size of XXH3_state_t known */
#include "base/hash.h"

#include "base/mem.h"

#include <inttypes.h>
#include <stdio.h>
#include <xxhash.h>

struct rt_hasher {
    XXH3_state_t state;
};

static rt_hash128 from_xxh(XXH128_hash_t h) { return (rt_hash128){ h.high64, h.low64 }; }

rt_hasher *rt_hasher_new(void)
{
    rt_hasher *h = rt_alloc_zero(sizeof *h, _Alignof(rt_hasher));
    if (h) XXH3_128bits_reset(&h->state);
    return h;
}

void rt_hasher_free(rt_hasher *h) { rt_free(h); }

void rt_hasher_add(rt_hasher *h, const void *data, size_t bytes)
{
    if (bytes > 0) XXH3_128bits_update(&h->state, data, bytes);
}

rt_hash128 rt_hasher_digest(const rt_hasher *h) { return from_xxh(XXH3_128bits_digest(&h->state)); }

rt_hash128 rt_hash(const void *data, size_t bytes) { return from_xxh(XXH3_128bits(bytes > 0 ? data : "", bytes)); }

char *rt_hash_text(char buf[33], rt_hash128 h)
{
    snprintf(buf, 33, "%016" PRIx64 "%016" PRIx64, h.hi, h.lo);
    return buf;
}
