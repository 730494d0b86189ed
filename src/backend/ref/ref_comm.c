/* ref_comm.c - what ranks do together. Each has a copy of its own of every operand; what the others have comes from
 * the peers. */
#include "backend/ref/ref.h"

/* all (R, N*C) in c->work: x of every rank. Summed in their order, so that all ranks get the same bits. */
static void sum_ranks(const rt_ref_call *c, real *x, size_t n)
{
    real *all = c->work;
    c->peers->gather(c->peers->ctx, x, all, n * sizeof *x);
    for (size_t i = 0; i < n; i++) {
        real sum = all[i];
        for (uint32_t r = 1; r < c->peers->size; r++) sum += all[r * n + i];
        x[i] = sum;
    }
}

void REF(all_reduce)(const rt_ref_call *c)
{
    const rt_rows_args *a = &c->args->rows;
    rt_fault *fault = c->s[RT_REDUCE_FAULT]; /* or null */
    if (!c->peers) return;
    sum_ranks(c, c->s[RT_REDUCE_X], (size_t)a->N * a->C);
    if (fault) rt_peers_fault(c->peers, fault, c->work);
}

/* all (R, C) in c->work: x of every rank; returns where their slices are, behind it. */
static const rt_part *gather_ranks(const rt_ref_call *c, const real *x)
{
    const rt_slice_args *a = &c->args->slice;
    real *all = c->work;
    rt_part *part = (rt_part *)(all + (size_t)a->R * a->C);
    c->peers->gather(c->peers->ctx, x, all, a->C * sizeof *x);
    rt_peers_slices(c->peers, a, part);
    return part;
}

void REF(reduce_scatter)(const rt_ref_call *c)
{
    const rt_slice_args *a = &c->args->slice;
    const real *x = c->s[RT_SCATTER_X], *all = c->work;
    real *own = c->s[RT_SCATTER_OWN];
    if (c->peers)
        (void)gather_ranks(c, x);
    else
        all = x;
    for (size_t i = 0; i < a->count; i++) {
        real sum = all[a->first + i];
        for (uint32_t r = 1; c->peers && r < a->R; r++) sum += all[(size_t)r * a->C + a->first + i];
        own[i] += sum;
    }
}

void REF(all_gather)(const rt_ref_call *c)
{
    const rt_slice_args *a = &c->args->slice;
    real *x = c->s[RT_GATHER_X], *all = c->work;
    if (!c->peers) return;
    const rt_part *part = gather_ranks(c, x);
    for (uint32_t r = 0; r < a->R; r++)
        for (size_t i = part[r].first; i < (size_t)part[r].first + part[r].count; i++) x[i] = all[(size_t)r * a->C + i];
}
