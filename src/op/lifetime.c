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

/* The activation of operand i of an op (of its scratch: RT_MAX_SLOTS); null where there is none, or it came before. */
static const rt_life *life_of(const rt_plan *p, const rt_life *life, uint32_t t, uint32_t i)
{
    const rt_op *op = &p->ops[t];
    uint32_t buf = i < RT_MAX_SLOTS ? op->slot[i].buf : op->work.buf;
    if (!(buf & RT_ACT_BIT)) return NULL;
    for (uint32_t j = 0; j < i; j++)
        if (op->slot[j].buf == buf) return NULL;
    return &life[buf & ~RT_ACT_BIT];
}

/* An activation begins to live at an op that has it, and ends at one, unless it is scratch that stays to the end. */
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
        uint64_t over = 0;
        for (uint32_t i = 0; i <= RT_MAX_SLOTS; i++) {
            const rt_life *l = life_of(p, life, t, i);
            if (!l) continue;
            uint64_t bytes = rt_align_up(p->acts[l - life].bytes, PLACE_ALIGN);
            if (l->first == t) live += bytes;
            if (l->last == t) over += bytes;
        }
        if (live > peak) {
            peak = live;
            *peak_op = t;
        }
        live -= over;
    }
    return peak;
}
