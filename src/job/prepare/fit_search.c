/* fit_search.c - the least time in which a run fits: rows at a time, and what each layer recomputes.
 *
 * What may be recomputed are the rungs of a ladder, each slower and smaller than the one below it. Layers are alike, so
 * the rungs are counts (train/recompute.h says which layers they mean): first the q/k norms of one layer after the
 * other, because they cost no GEMM; then MLPs and blocks, in the order of bytes for time. The last layer is recomputed
 * last of all: its backward comes at once, so only the head gains by it. For every number of rows that covers the
 * batch, and for what the teacher may read at once beside them, the lowest rung that fits is found by halving, and the
 * fastest of these is taken. Everything is asked of dry seals.
 *
 * More memory is never slower: halving gives the same or a lower rung when more rungs fit, whichever these are, and the
 * rungs and the numbers of rows do not depend on the limit. */
#include "job/prepare/fit_internal.h"

enum { WASTE = 16 }; /* at most one row of padding for so many rows of the batch */

uint32_t rt_fit_rows(uint32_t batch, uint32_t most)
{
    for (uint32_t k = 1; k < batch; k++) {
        uint32_t rows = (batch - 1) / k + 1; /* the least with which k micro-batches cover the batch */
        if (rows <= most && (uint64_t)rows * k - batch <= batch / WASTE) return rows;
    }
    return 1;
}

int rt_fit_try(const rt_fit_search *s, const rt_fit_config *c, rt_fit_need *need, bool *fits, rt_err *e)
{
    int rc = s->need(s->ctx, c, need, e);
    *fits = rc >= 0 && need->bytes <= s->ask->limit && need->host <= s->ask->host_limit;
    return rc;
}

uint32_t rt_fit_ahead(const rt_fit_search *s, uint32_t micro_batch)
{
    uint32_t micro = (s->ask->batch + micro_batch - 1) / micro_batch, ahead = s->teacher_rows / micro_batch;
    return ahead < micro ? ahead : micro;
}

/* ---- the ladder ---- */

typedef struct ladder {
    uint32_t layers; /* below the last that backward reaches */
    bool norms;      /* recomputing them saves something */
    bool mlp_first;  /* every MLP before the first block; else each layer's MLP just before its block */
    uint32_t top;    /* the highest rung */
    bool fixed;      /* there is one rung alone, */
    rt_recompute_counts only;
} ladder;

/* So many of the layers below the last at a level, and what the last has. */
static rt_recompute_counts with_last(const ladder *l, rt_recompute r, rt_recompute last)
{
    rt_recompute_counts c = { 0 };
    if (r == last) return rt_recompute_every(r);
    c.count[r] = l->layers;
    c.count[last]++;
    c.count[RT_RECOMPUTE_NONE] = 0;
    return c;
}

/* The rungs of the layers below the last. */
static uint32_t below_last(const ladder *l) { return (l->norms ? 3 : 2) * l->layers; }

static rt_recompute_counts rung(const ladder *l, uint32_t i)
{
    rt_recompute_counts c = { 0 };
    uint32_t n = l->layers, *count = c.count;
    if (l->fixed) return l->only;
    if (i > below_last(l)) {
        uint32_t last = i - below_last(l) + !l->norms;
        return with_last(l, RT_RECOMPUTE_BLOCK, (rt_recompute)last);
    }
    if (l->norms && i <= n) {
        count[RT_RECOMPUTE_NORMS] = i;
        return c;
    }
    if (l->norms) i -= n;
    count[RT_RECOMPUTE_BLOCK] = l->mlp_first ? (i > n ? i - n : 0) : i / 2;
    count[RT_RECOMPUTE_MLP] = l->mlp_first ? (i > n ? 2 * n - i : i) : i % 2;
    if (l->norms) count[RT_RECOMPUTE_NORMS] = n - count[RT_RECOMPUTE_MLP] - count[RT_RECOMPUTE_BLOCK];
    return c;
}

static int need_at(const rt_fit_search *s, rt_fit_config c, rt_recompute_counts r, rt_fit_need *out, rt_err *e)
{
    c.recompute = r;
    return s->need(s->ctx, &c, out, e);
}

/* Bytes that are spared for each unit of work. */
static double gain(const rt_fit_need *from, const rt_fit_need *to)
{
    double bytes = from->bytes > to->bytes ? (double)(from->bytes - to->bytes) : 0, work = to->work - from->work;
    return work > 0 ? bytes / work : bytes;
}

/* From what the levels need at c's rows: in which order, and where the ladder ends. */
static int build(const rt_fit_search *s, ladder *l, const rt_fit_config *c, rt_err *e)
{
    int rc;
    rt_fit_need at[RT_RECOMPUTE_LEVELS], more;
    RT_TRY(need_at(s, *c, rt_recompute_every(RT_RECOMPUTE_NONE), &at[0], e));
    if (!at[0].layers) goto out; /* backward reaches no layer: nothing is kept */
    *l = (ladder){ .layers = at[0].layers - 1 };
    for (int r = RT_RECOMPUTE_NORMS; r < RT_RECOMPUTE_LEVELS; r++)
        RT_TRY(need_at(s, *c, with_last(l, (rt_recompute)r, RT_RECOMPUTE_NONE), &at[r], e));
    l->norms = at[RT_RECOMPUTE_NORMS].bytes < at[RT_RECOMPUTE_NONE].bytes;
    const rt_fit_need *from = &at[l->norms ? RT_RECOMPUTE_NORMS : RT_RECOMPUTE_NONE];
    l->mlp_first = gain(from, &at[RT_RECOMPUTE_MLP]) >= gain(&at[RT_RECOMPUTE_MLP], &at[RT_RECOMPUTE_BLOCK]);
    l->top = below_last(l);
    for (uint32_t i = l->top + 1; i <= below_last(l) + 2 + l->norms; i++) {
        RT_TRY(need_at(s, *c, rung(l, i), &more, e));
        if (more.bytes >= at[RT_RECOMPUTE_BLOCK].bytes) continue;
        at[RT_RECOMPUTE_BLOCK] = more;
        l->top = i;
    }
out:
    return rc;
}

/* ---- the least time ---- */

/* The lowest rung that fits c's rows. The highest is known to. */
static int climb(const rt_fit_search *s, const ladder *l, rt_fit_config *c, rt_fit_need *need, rt_err *e)
{
    int rc = RT_OK;
    uint32_t below = 0, above = l->top; /* does not fit; does */
    while (above - below > 1) {
        rt_fit_config middle = *c;
        rt_fit_need less;
        bool fits;
        uint32_t i = below + (above - below) / 2;
        middle.recompute = rung(l, i);
        RT_TRY(rt_fit_try(s, &middle, &less, &fits, e));
        if (!fits) {
            below = i;
            continue;
        }
        above = i;
        *c = middle;
        *need = less;
    }
out:
    return rc;
}

/* The fastest that fits with c's rows, of the student and of the teacher, unless it cannot be faster than best. */
static int fastest(const rt_fit_search *s, const ladder *l, rt_fit_config *c, double best, rt_fit_need *need,
                   bool *fits, rt_err *e)
{
    int rc;
    c->recompute = rung(l, 0);
    RT_TRY(rt_fit_try(s, c, need, fits, e));
    if (*fits || need->work >= best || !l->top) goto out;
    c->recompute = rung(l, l->top);
    RT_TRY(rt_fit_try(s, c, need, fits, e));
    if (*fits) RT_TRY(climb(s, l, c, need, e));
out:
    return rc;
}

int rt_fit_least(const rt_fit_search *s, rt_fit_config *c, bool micro_free, bool recompute_free, rt_fit_need *need,
                 bool *fits, rt_err *e)
{
    int rc;
    ladder l = { .fixed = true, .only = c->recompute };
    RT_TRY(rt_fit_try(s, c, need, fits, e));
    if (*fits) goto out;
    if (recompute_free) RT_TRY(build(s, &l, c, e));
    uint32_t rows = c->micro_batch;
    if (micro_free) c->micro_batch = 1;
    c->recompute = rung(&l, l.top);
    RT_TRY(rt_fit_try(s, c, need, fits, e)); /* the smallest */
    for (bool more = *fits; more; rows = rt_fit_rows(s->ask->batch, rows - 1)) {
        more = micro_free && rows > 1;
        for (uint32_t ahead = rt_fit_ahead(s, rows);; ahead /= 2) {
            rt_fit_config one = *c;
            rt_fit_need of_it;
            bool ok;
            one.micro_batch = rows;
            one.ahead = ahead > 1 ? ahead : 0;
            RT_TRY(fastest(s, &l, &one, need->work, &of_it, &ok, e));
            if (ok && of_it.work < need->work) {
                *c = one;
                *need = of_it;
            }
            if (ahead <= 1) break;
        }
    }
out:
    return rc;
}
