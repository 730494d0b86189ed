/* cpu_comm.c - what ranks do together.
 *
 * all_reduce goes by pieces, and cuts each into a slice for every rank: slices are exchanged, each rank adds up its own
 * in the order of the ranks, and the sums are gathered. So every rank sends and receives what a ring would, every
 * element is added up once, in one order, and all ranks have the same bits. */
#include "backend/cpu/cpu_split.h"

enum { PIECE = 1 << 20 }; /* elements */

static uint64_t slice_of(uint64_t n, uint32_t ranks) { return (n + ranks - 1) / ranks; }

static uint64_t room_of(const rt_rows_args *a)
{
    uint64_t n = (uint64_t)a->N * a->C;
    return slice_of(n < PIECE ? n : PIECE, a->R) * a->R; /* floats */
}

/* sum (n): of the parts (R, n), in place of the first */
static void add_parts(float *part, uint64_t n, uint32_t ranks)
{
    for (uint32_t r = 1; r < ranks; r++) {
        const float *of = part + r * n;
        for (uint64_t i = 0; i < n; i++) part[i] += of[i];
    }
}

/* Elements [first, first + n) of x, row after row, into dense, or from it. */
static void move_piece(const rt_operand *x, uint64_t first, uint64_t n, float *dense, bool back)
{
    float *base = rt_host_ptr(x);
    for (uint64_t done = 0; done < n;) {
        uint64_t row = (first + done) / x->cols, col = (first + done) % x->cols;
        uint64_t run = x->cols - col < n - done ? x->cols - col : n - done;
        float *at = base + row * x->stride + col;
        memcpy(back ? at : dense + done, back ? dense + done : at, run * sizeof *at);
        done += run;
    }
}

/* send, recv (R, slice) */
static void reduce_piece(const rt_peers *p, const rt_operand *x, uint64_t first, uint64_t n, float *send, float *recv)
{
    uint64_t slice = slice_of(n, p->size), all = slice * p->size;
    move_piece(x, first, n, send, false);
    memset(send + n, 0, (all - n) * sizeof *send);
    p->exchange(p->ctx, send, recv, slice * sizeof *send);
    add_parts(recv, slice, p->size);
    p->gather(p->ctx, recv, send, slice * sizeof *send);
    move_piece(x, first, n, send, true);
}

uint64_t RT_CPU(work_all_reduce)(const rt_cpu_work *w)
{
    const rt_rows_args *a = &w->args->rows;
    return a->R < 2 ? 0 : 2 * room_of(a) * sizeof(float) + a->R * sizeof(rt_fault);
}
void RT_CPU(all_reduce)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_rows_args *a = &o->args.rows;
    float *send = rt_host_ptr(&o->work);
    rt_fault *fault = rt_host_ptr(&o->slot[RT_REDUCE_FAULT]);
    uint64_t n = (uint64_t)a->N * a->C;
    (void)c;
    if (a->R < 2) return;
    float *recv = send + room_of(a);
    for (uint64_t first = 0; first < n; first += PIECE)
        reduce_piece(o->peers, &o->slot[RT_REDUCE_X], first, n - first < PIECE ? n - first : PIECE, send, recv);
    if (fault) rt_peers_fault(o->peers, fault, (rt_fault *)(recv + room_of(a)));
}
