/* lifetime.c - when each activation is alive, and how much is alive at once. */
#include "op/plan.h"

enum { PLACE_ALIGN = 256 }; /* as placed, so that the peak is what an ideal placement would need */

/* From op `from` on, or longer, to op `to`, or longer. */
static void touch(rt_life *life, rt_view v, uint32_t from, uint32_t to)
{
    if (!(v.buf & RT_ACT_BIT)) return;
    rt_life *l = &life[v.buf & ~RT_ACT_BIT];
    if (l->first > from) l->first = from;
    if (l->last < to) l->last = to;
}

uint64_t rt_plan_lifetimes(const rt_plan *p, rt_life *life, uint32_t *peak_op)
{
    uint64_t live = 0, peak = 0;
    *peak_op = 0;
    for (uint32_t i = 0; i < p->nacts; i++) life[i] = (rt_life){ UINT32_MAX, 0 };
    for (uint32_t t = 0; t < p->nops; t++) {
        for (uint32_t i = 0; i < RT_MAX_SLOTS; i++) touch(life, p->ops[t].slot[i], t, t);
        touch(life, p->ops[t].work, t, p->ops[t].work_stays ? p->nops - 1 : t);
    }
    for (uint32_t t = 0; t < p->nops; t++) {
        live = 0;
        for (uint32_t i = 0; i < p->nacts; i++)
            if (life[i].first <= t && t <= life[i].last) live += rt_align_up(p->acts[i].bytes, PLACE_ALIGN);
        if (live > peak) {
            peak = live;
            *peak_op = t;
        }
    }
    return peak;
}
