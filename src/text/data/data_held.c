/* data_held.c - the records that are held out, by what is in them. See data_held.h. */
#include "text/data/data_held.h"

/* The first record of a content. */
typedef struct entry {
    uint64_t key;
    const rt_shard *shard; /* null: not met yet */
    uint64_t record;
} entry;

struct rt_held {
    uint64_t seed, count;
    entry *entries; /* (count) by key */
};

/* 0 of 0, so that seed 0 chooses by the hashes themselves. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

uint64_t rt_held_key(uint64_t seed, const rt_shard *s, uint64_t record)
{
    return rt_shard_record_hash(s, record) ^ mix(seed);
}

int rt_held_new(rt_held **out, uint64_t seed, const uint64_t *keys, uint64_t count, rt_err *e)
{
    int rc = RT_OK;
    rt_held *h = rt_alloc_zero(sizeof *h, 16);
    *out = NULL;
    if (!h) RT_TRY(rt_no_memory(e, "the choice of what is held out"));
    h->seed = seed;
    h->count = count;
    h->entries = rt_alloc_zero(count * sizeof *h->entries + 1, 64);
    if (!h->entries) RT_TRY(rt_no_memory(e, "the choice of what is held out"));
    for (uint64_t i = 0; i < count; i++) h->entries[i].key = keys[i];
    *out = h;
    h = NULL;
out:
    rt_held_free(h);
    return rc;
}

static entry *find(const rt_held *h, uint64_t key)
{
    uint64_t low = 0, high = h->count;
    while (low < high) {
        uint64_t mid = low + (high - low) / 2;
        if (h->entries[mid].key < key)
            low = mid + 1;
        else
            high = mid;
    }
    return low < h->count && h->entries[low].key == key ? &h->entries[low] : NULL;
}

void rt_held_meet(rt_held *h, const rt_shard *s, uint64_t record)
{
    entry *x = find(h, rt_held_key(h->seed, s, record));
    if (!x || x->shard) return;
    x->shard = s;
    x->record = record;
}

uint64_t rt_held_count(const rt_held *h) { return h->count; }

rt_held_kind rt_held_look(const rt_held *h, const rt_shard *s, uint64_t record)
{
    const entry *x = find(h, rt_held_key(h->seed, s, record));
    if (!x) return RT_HELD_NOT;
    return x->shard == s && x->record == record ? RT_HELD_OUT : RT_HELD_COPY;
}

void rt_held_free(rt_held *h)
{
    if (!h) return;
    rt_free(h->entries);
    rt_free(h);
}
