/* cache_key.c - the keys of blocks: a chain of hashes over the ids of a document.
 *
 * key(b) = XXH3-128 of (the 16 bytes of key(b-1), then the ids of block b as u32), both as files have them: a hash in
 * the order of its digits, ids with the lowest byte first. Before the first block stand 16 bytes of zero. A last block
 * of fewer than RT_CACHE_BLOCK ids is hashed as long as it is. */
#include "teacher/cache/cache_internal.h"

static rt_hash128 next_key(rt_hash128 before, const int32_t *ids /* (count) */, uint32_t count)
{
    uint8_t bytes[RT_CACHE_KEY_BYTES + 4 * RT_CACHE_BLOCK];
    rt_cache_key_bytes(bytes, &before);
    for (uint32_t i = 0; i < count; i++) rt_store_le(bytes + RT_CACHE_KEY_BYTES + 4 * (size_t)i, (uint32_t)ids[i], 4);
    return rt_hash(bytes, RT_CACHE_KEY_BYTES + 4 * (size_t)count);
}

uint32_t rt_cache_places(const int32_t *ids, const int32_t *start, const int32_t *target, uint32_t T,
                         rt_cache_place *places)
{
    uint32_t n = 0;
    rt_hash128 key = { 0 };
    for (uint32_t first = 0, count; first < T; first += count) {
        uint64_t wanted = 0;
        for (count = 0; count < RT_CACHE_BLOCK && first + count < T && start[first + count] == start[first]; count++)
            wanted |= (uint64_t)(target[first + count] >= 0) << count;
        key = next_key(start[first] == (int32_t)first ? (rt_hash128){ 0 } : key, ids + first, count);
        if (wanted) places[n++] = (rt_cache_place){ key, first, count, wanted };
    }
    return n;
}

void rt_cache_key_bytes(uint8_t bytes[RT_CACHE_KEY_BYTES], const rt_hash128 *key)
{
    for (int i = 0; i < 8; i++) {
        bytes[i] = (uint8_t)(key->hi >> (56 - 8 * i));
        bytes[8 + i] = (uint8_t)(key->lo >> (56 - 8 * i));
    }
}
