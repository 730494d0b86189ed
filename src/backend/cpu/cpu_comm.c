/* cpu_comm.c - what ranks do together.
 *
 * all_reduce goes by pieces, and cuts each into a slice for every rank (rt_peers_sum). reduce_scatter and all_gather
 * are its two halves, with slices that ranks own: of so many elements of every slice at a time, short ones filled up
 * with zeros. */
#include "backend/cpu/cpu_split.h"

enum { PIECE = 1 << 20 }; /* elements */

static uint64_t slice_of(uint64_t n, uint32_t ranks) { return (n + ranks - 1) / ranks; }

static uint64_t room_of(const rt_rows_args *a)
{
    uint64_t n = (uint64_t)a->N * a->C;
    return slice_of(n < PIECE ? n : PIECE, a->R) * a->R; /* floats */
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
    rt_peers_sum(p, send, recv, slice);
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

/* ---- slices that ranks own ---- */

/* Elements of each slice at a time. */
static uint64_t piece_of(const rt_slice_args *a)
{
    uint64_t most = PIECE / a->R + 1;
    return a->most < most ? a->most : most;
}

/* Elements of a slice from `done` on, of a piece at most. */
static uint64_t left_of(const rt_part *p, uint64_t done, uint64_t piece)
{
    uint64_t left = p->count > done ? p->count - done : 0;
    return left < piece ? left : piece;
}

/* n elements of a piece, and zeros behind them. */
static void fill_piece(void *to, const void *from, uint64_t n, uint64_t piece, uint64_t size)
{
    memcpy(to, from, n * size);
    memset((uint8_t *)to + n * size, 0, (piece - n) * size);
}

uint64_t RT_CPU(work_reduce_scatter)(const rt_cpu_work *w)
{
    const rt_slice_args *a = &w->args->slice;
    return a->R < 2 ? 0 : a->R * (2 * piece_of(a) * sizeof(float) + sizeof(rt_part));
}
void RT_CPU(reduce_scatter)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_slice_args *a = &o->args.slice;
    const float *x = rt_host_ptr(&o->slot[RT_SCATTER_X]);
    float *own = rt_host_ptr(&o->slot[RT_SCATTER_OWN]), *send = rt_host_ptr(&o->work);
    bool adds = o->acc >> RT_SCATTER_OWN & 1;
    uint64_t piece = piece_of(a);
    float *recv = send + a->R * piece;
    rt_part *part = (rt_part *)(recv + a->R * piece), mine = { a->first, a->count };
    (void)c;
    if (a->R > 1) rt_peers_slices(o->peers, a, part);
    for (uint64_t done = 0; done < a->most; done += piece) {
        uint64_t n = left_of(&mine, done, piece);
        const float *sum = x + a->first + done;
        for (uint32_t r = 0; a->R > 1 && r < a->R; r++)
            fill_piece(send + r * piece, x + part[r].first + done, left_of(&part[r], done, piece), piece, sizeof *x);
        if (a->R > 1) {
            o->peers->exchange(o->peers->ctx, send, recv, piece * sizeof *send);
            rt_peers_add(recv, piece, a->R);
            sum = recv;
        }
        for (uint64_t i = 0; i < n; i++) own[done + i] = adds ? own[done + i] + sum[i] : sum[i];
    }
}

uint64_t RT_CPU(work_all_gather)(const rt_cpu_work *w)
{
    const rt_slice_args *a = &w->args->slice;
    return a->R < 2 ? 0 : (a->R + 1) * piece_of(a) * sizeof(float) + a->R * sizeof(rt_part);
}
void RT_CPU(all_gather)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_slice_args *a = &o->args.slice;
    const rt_peers *p = o->peers;
    const rt_part mine = { a->first, a->count };
    uint64_t size = rt_dtype_bytes(o->slot[RT_GATHER_X].dtype, 1), piece = piece_of(a);
    uint8_t *x = rt_host_ptr(&o->slot[RT_GATHER_X]), *send = rt_host_ptr(&o->work),
            *recv = send + piece * sizeof(float);
    rt_part *part = (rt_part *)(recv + a->R * piece * sizeof(float));
    (void)c;
    if (a->R < 2) return;
    rt_peers_slices(p, a, part);
    for (uint64_t done = 0; done < a->most; done += piece) {
        fill_piece(send, x + (a->first + done) * size, left_of(&mine, done, piece), piece, size);
        p->gather(p->ctx, send, recv, piece * size);
        for (uint32_t r = 0; r < a->R; r++)
            memcpy(x + (part[r].first + done) * size, recv + r * piece * size, left_of(&part[r], done, piece) * size);
    }
}
