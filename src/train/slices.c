/* slices.c - see slices.h. */
#include "train/slices.h"

#include <stdlib.h>

/* The end of a row, or the beginning of a parameter, that is next to element `at` of a bucket. */
static int64_t next_to(const rt_decoder *d, uint32_t bucket, int64_t at)
{
    int64_t best = 0, end = d->bucket[bucket].grad.cols;
    for (uint32_t i = 0; i < d->param_count; i++) {
        const rt_param *p = &d->params[i];
        if (!p->grad.buf || p->bucket != bucket) continue;
        int64_t cols = p->grad.cols, begin = (int64_t)p->grad.off, row = (at - begin + cols / 2) / cols;
        row = at < begin ? 0 : row > p->grad.rows ? p->grad.rows : row;
        if (llabs(begin + row * cols - at) < llabs(best - at)) best = begin + row * cols;
    }
    return llabs(end - at) < llabs(best - at) ? end : best;
}

/* Boundary k of a bucket, for all that is in it. */
static void put_cut(rt_slices *s, const rt_decoder *d, uint32_t bucket, uint32_t k, int64_t at)
{
    for (uint32_t i = 0; i < d->param_count; i++) {
        const rt_param *p = &d->params[i];
        if (!p->grad.buf || p->bucket != bucket) continue;
        int64_t before = (at - (int64_t)p->grad.off) / p->grad.cols;
        s->cut[(size_t)i * (s->ranks + 1) + k] = at < (int64_t)p->grad.off ? 0
                                                 : before > p->grad.rows   ? p->grad.rows
                                                                           : (uint32_t)before;
    }
}

/* ahead (ranks + 1): by how much boundaries of the buckets so far lie, in all, behind where they should. */
static void cut_bucket(rt_slices *s, const rt_decoder *d, uint32_t bucket, int64_t *ahead)
{
    int64_t all = d->bucket[bucket].grad.cols, before = 0;
    rt_slice *own = &s->bucket[bucket];
    for (uint32_t k = 1; k <= s->ranks; k++) {
        int64_t even = all * k / s->ranks, want = even - ahead[k];
        int64_t at = k == s->ranks ? all : next_to(d, bucket, want < 0 ? 0 : want > all ? all : want);
        if (at < before) at = before;
        ahead[k] += at - even;
        put_cut(s, d, bucket, k, at);
        if (k == s->rank + 1) *own = (rt_slice){ (uint32_t)before, (uint32_t)(at - before), own->most };
        if (at - before > own->most) own->most = (uint32_t)(at - before);
        before = at;
    }
}

int rt_slices_new(rt_slices *s, rt_arena *a, const rt_decoder *d, uint32_t ranks, uint32_t rank, rt_err *e)
{
    *s = (rt_slices){ .ranks = ranks, .rank = rank };
    s->cut = rt_arena_alloc(a, (size_t)d->param_count * (ranks + 1) * sizeof *s->cut);
    s->bucket = rt_arena_alloc(a, d->bucket_count * sizeof *s->bucket);
    int64_t *ahead = rt_arena_alloc(a, (size_t)(ranks + 1) * sizeof *ahead);
    if (!s->cut || !s->bucket || !ahead) return rt_no_memory(e, "the slices of ranks");
    for (uint32_t i = 0; i < d->bucket_count; i++)
        if (d->bucket[i].grad.buf) cut_bucket(s, d, i, ahead);
    return RT_OK;
}
