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
