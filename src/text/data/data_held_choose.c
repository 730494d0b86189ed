/* data_held_choose.c - how many records are held out, and which. See data_held.h.
 *
 * Every record that rows take is looked at twice: once for the keys of all, 8 bytes each until the choice is made, and
 * once for where the chosen ones stand. */
#include "text/data/data_held.h"

#include <math.h>
#include <stdlib.h>

/* The keys of all records, once each; or the choice, whose records are looked for. */
typedef struct work {
    const rt_rows_opts *o;
    uint64_t *keys;
    uint64_t count;
    rt_held *held;
} work;

/* Whether rows of this length take anything of it. */
static bool is_used(const rt_shard *s, uint64_t record, const rt_rows_opts *o)
{
    const rt_rows_opts all = { .seq_len = o->seq_len };
    rt_rows_count c = { 0 };
    rt_shard_record r;
    rt_shard_get(s, record, &r);
    rt_rows_count_record(&c, &r, &all, RT_HELD_NOT);
    return c.units > 0;
}

static void each_used(work *w, const rt_rows_source *sources, uint32_t count,
                      void (*fn)(work *w, const rt_shard *s, uint64_t record))
{
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < sources[i].count; k++) {
            const rt_shard *s = sources[i].shards[k];
            for (uint64_t n = rt_shard_about(s)->records, record = 0; record < n; record++)
                if (is_used(s, record, w->o)) fn(w, s, record);
        }
}

static void put_key(work *w, const rt_shard *s, uint64_t record)
{
    w->keys[w->count++] = rt_held_key(w->o->seed, s, record);
}

static void meet(work *w, const rt_shard *s, uint64_t record) { rt_held_meet(w->held, s, record); }

static int by_key(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void sort_unique(work *w)
{
    uint64_t n = 0;
    if (w->count) qsort(w->keys, w->count, sizeof *w->keys, by_key);
    for (uint64_t i = 0; i < w->count; i++)
        if (n == 0 || w->keys[n - 1] != w->keys[i]) w->keys[n++] = w->keys[i];
    w->count = n;
}

static int how_many(uint64_t *n, const work *w, uint64_t wanted, double share, rt_err *e)
{
    if (wanted >= w->count)
        return rt_fail(e, RT_INVALID,
                       "--held-out %llu: the data has %llu records of distinct content that rows of %u tokens take, "
                       "and one must be left to train; hold out fewer, or name a file with --eval-data",
                       (unsigned long long)wanted, (unsigned long long)w->count, w->o->seq_len);
    *n = wanted ? wanted : (uint64_t)llround(share * (double)w->count);
    if (*n < 1) *n = 1;
    if (*n > w->count - 1) *n = w->count - 1;
    return RT_OK;
}

int rt_held_choose(rt_held **out, const rt_rows_source *sources, uint32_t count, const rt_rows_opts *o, uint64_t wanted,
                   double share, rt_err *e)
{
    int rc = RT_OK;
    uint64_t records = 0, n = 0;
    work w = { .o = o };
    *out = NULL;
    for (uint32_t i = 0; i < count; i++)
        for (uint32_t k = 0; k < sources[i].count; k++) records += rt_shard_about(sources[i].shards[k])->records;
    w.keys = rt_alloc((records + 1) * sizeof *w.keys, 64);
    if (!w.keys) RT_TRY(rt_no_memory(e, "the choice of what is held out"));
    each_used(&w, sources, count, put_key);
    sort_unique(&w);
    if (w.count < 2) goto out;
    RT_TRY(how_many(&n, &w, wanted, share, e));
    RT_TRY(rt_held_new(&w.held, o->seed, w.keys, n, e));
    each_used(&w, sources, count, meet);
    *out = w.held;
out:
    rt_free(w.keys);
    return rc;
}
