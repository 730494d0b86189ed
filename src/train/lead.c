/* lead.c - what rank 0 says, and the rows of a step on their way to the others. See follow.h. */
#include "train/follow.h"

#include "train/step_internal.h"

#include <string.h>

void rt_word_say(rt_peers *p, const rt_word *w)
{
    rt_word copy = *w;
    p->give(p->ctx, &copy, sizeof copy);
}

void rt_word_hear(rt_peers *p, rt_word *w) { p->give(p->ctx, w, sizeof *w); }

/* ---- the rows of a step ---- */

int32_t *rt_step_rows(rt_trainer *t, uint32_t micro, rt_err *e)
{
    uint64_t n = (uint64_t)RT_BATCH_ARRAYS * micro * t->peers->size * t->plan->opts.B * t->plan->opts.T;
    if (n > t->rank_cap) {
        rt_free(t->rank_rows);
        t->rank_rows = rt_alloc(n * sizeof *t->rank_rows, 64);
        t->rank_cap = t->rank_rows ? n : 0;
        if (!t->rank_rows) (void)rt_no_memory(e, "the rows of a step");
    }
    return t->rank_rows;
}

rt_batch rt_step_rows_at(const rt_trainer *t, int32_t *rows, uint32_t micro, uint32_t i)
{
    size_t N = (size_t)t->plan->opts.B * t->plan->opts.T, all = N * micro * t->peers->size;
    int32_t *at = rows + i * N;
    return (rt_batch){ at, at + all, at + 2 * all, at + 3 * all, at + 4 * all };
}

int rt_step_lead(rt_trainer *t, const rt_batch *micro, uint32_t count, const rt_step *v, rt_err *e)
{
    rt_peers *p = t->peers;
    size_t n = (size_t)t->plan->opts.B * t->plan->opts.T;
    if (count % p->size) return rt_fail(e, RT_INTERNAL, "%u micro-batches for %u ranks", count, p->size);
    uint32_t own = count / p->size;
    int32_t *rows = rt_step_rows(t, own, e);
    if (!rows) return RT_NOMEM;
    for (uint32_t i = 0; i < count; i++) {
        rt_batch to = rt_step_rows_at(t, rows, own, i);
        const int32_t *const from[RT_BATCH_ARRAYS] = { micro[i].ids, micro[i].pos, micro[i].start, micro[i].target,
                                                       micro[i].group };
        const int32_t *const into[RT_BATCH_ARRAYS] = { to.ids, to.pos, to.start, to.target, to.group };
        for (int k = 0; k < RT_BATCH_ARRAYS; k++) {
            int32_t *at = (int32_t *)(uintptr_t)into[k];
            if (from[k])
                memcpy(at, from[k], n * sizeof *at);
            else
                memset(at, 0, n * sizeof *at);
        }
    }
    rt_word_say(p, &(rt_word){ .kind = RT_WORD_STEP,
                               .step = v->step,
                               .tokens = v->tokens,
                               .micro = own,
                               .row = { t->rank_batch, p->size },
                               .seed = v->seed,
                               .lr = (double)v->lr });
    p->give(p->ctx, rows, RT_BATCH_ARRAYS * n * count * sizeof *rows);
    return RT_OK;
}
