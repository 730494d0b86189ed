/* cuda_comm_ops.c - the ops that ranks do together: all_reduce, reduce_scatter, all_gather.
 *
 * Owns: what NCCL is asked for each, and the same through pinned memory of the host. By NCCL ops that follow one
 * another are one group: as few kernels as the library can make of them. Slices that ranks own are not of one size, so
 * their sums are a reduction to each owner, and gathering them is a broadcast from each; where slices lie is asked of
 * the other ranks once, when a program is sealed. */
#include "backend/cuda/cuda_op.h"
#include "backend/cuda/cuda_ranks.h"
#include "backend/cuda/kernels/cuda_comm.h"

static rt_cu_ptr at(const rt_cuda_collective *c, uint64_t element) { return c->x + element * c->size; }
static void *pointer(rt_cu_ptr p) { return (void *)(uintptr_t)p; }

/* ---- by NCCL ---- */

static int enqueue_sum(const rt_cuda_ranks *r, const rt_cuda_collective *c, rt_nccl_comm comm, void *stream)
{
    const rt_cuda_nccl *n = &r->nccl;
    int result = n->all_reduce(pointer(c->x), pointer(c->x), c->n, RT_NCCL_F32, RT_NCCL_SUM, comm, stream);
    if (result != RT_NCCL_SUCCESS || !c->fault) return result;
    return n->all_gather(pointer(c->fault), pointer(c->all), sizeof(rt_fault), RT_NCCL_BYTE, comm, stream);
}

static int enqueue_slices(const rt_cuda_ranks *r, const rt_cuda_collective *c, rt_nccl_comm comm, void *stream)
{
    const rt_cuda_nccl *n = &r->nccl;
    int result = RT_NCCL_SUCCESS;
    for (uint32_t i = 0; i < r->size && result == RT_NCCL_SUCCESS; i++) {
        void *slice = pointer(at(c, c->part[i].first));
        if (!c->part[i].count) continue;
        if (c->kind == RT_OP_REDUCE_SCATTER)
            result = n->reduce(slice, i == r->rank ? pointer(c->own) : NULL, c->part[i].count, RT_NCCL_F32, RT_NCCL_SUM,
                               (int)i, comm, stream);
        else
            result =
                n->broadcast(slice, slice, (uint64_t)c->part[i].count * c->size, RT_NCCL_BYTE, (int)i, comm, stream);
    }
    return result;
}

int rt_cuda_collectives_enqueue(rt_cuda_dev *d, const rt_cuda_collective *list, uint32_t count, rt_cu_stream stream,
                                rt_err *e)
{
    int rc;
    rt_cuda_ranks *r = d->ranks;
    const rt_nccl_comm comm = atomic_load(&r->comm);
    static const char what[] = "adding up over ranks";
    if (!comm) return rt_fail(e, RT_DEVICE, "the ranks are not together any more");
    RT_TRY(rt_cuda_nccl_status(&r->nccl, r->nccl.group_begin(), what, e));
    for (uint32_t i = 0; i < count && rc >= 0; i++) {
        const rt_cuda_collective *c = &list[i];
        int result = c->kind == RT_OP_ALL_REDUCE ? enqueue_sum(r, c, comm, stream) : enqueue_slices(r, c, comm, stream);
        rc = rt_cuda_nccl_status(&r->nccl, result, what, e);
    }
    /* The group ends whatever happened; the first error is the one to tell. */
    int ended = r->nccl.group_end();
    if (rc >= 0) rc = rt_cuda_nccl_status(&r->nccl, ended, what, e);
out:
    return rc;
}

/* ---- through the host: a piece is back on the device before the memory it came from is filled again ---- */

static int download(rt_cuda_dev *d, void *to, rt_cu_ptr from, uint64_t bytes, rt_err *e)
{
    return bytes
               ? rt_cuda_status(&d->cu, d->cu.copy_to_host(to, from, bytes, d->stream), e, "downloading for the ranks")
               : RT_OK;
}

static int upload(rt_cuda_dev *d, rt_cu_ptr to, const void *from, uint64_t bytes, rt_err *e)
{
    return bytes
               ? rt_cuda_status(&d->cu, d->cu.copy_to_device(to, from, bytes, d->stream), e, "uploading for the ranks")
               : RT_OK;
}

static int settle(rt_cuda_dev *d, rt_err *e)
{
    return rt_cuda_status(&d->cu, d->cu.stream_wait(d->stream), e, "copying for the ranks");
}

static int stage_fault(rt_cuda_ranks *r, rt_cu_ptr fault, rt_err *e)
{
    int rc;
    rt_fault f;
    RT_TRY(download(r->d, r->faults, fault, sizeof f, e));
    RT_TRY(settle(r->d, e));
    f = *r->faults;
    rt_peers_fault(r->peers, &f, r->faults);
    *r->faults = f;
    RT_TRY(upload(r->d, fault, r->faults, sizeof f, e));
    RT_TRY(settle(r->d, e));
out:
    return rc;
}

static int stage_sum(rt_cuda_ranks *r, const rt_cuda_collective *c, rt_err *e)
{
    int rc = RT_OK;
    for (uint64_t done = 0; done < c->n; done += RT_CUDA_COMM_PIECE) {
        const uint64_t n = c->n - done < RT_CUDA_COMM_PIECE ? c->n - done : RT_CUDA_COMM_PIECE;
        const uint64_t slice = cuda_div_up(n, r->size);
        RT_TRY(download(r->d, r->send, at(c, done), n * sizeof(float), e));
        RT_TRY(settle(r->d, e));
        memset(r->send + n, 0, (slice * r->size - n) * sizeof(float));
        rt_peers_sum(r->peers, r->send, r->recv, slice);
        RT_TRY(upload(r->d, at(c, done), r->send, n * sizeof(float), e));
        RT_TRY(settle(r->d, e));
    }
    if (c->fault) RT_TRY(stage_fault(r, c->fault, e));
out:
    return rc;
}

/* Elements of each slice at a time. */
static uint64_t piece_of(const rt_cuda_ranks *r, const rt_cuda_collective *c)
{
    const uint64_t room = RT_CUDA_COMM_PIECE / r->size;
    return c->most < room ? c->most : room;
}

/* Elements of a slice from `done` on, of a piece at most. */
static uint64_t left_of(const rt_part *p, uint64_t done, uint64_t piece)
{
    const uint64_t left = p->count > done ? p->count - done : 0;
    return left < piece ? left : piece;
}

static int stage_scatter(rt_cuda_ranks *r, const rt_cuda_collective *c, rt_err *e)
{
    int rc = RT_OK;
    const uint64_t piece = piece_of(r, c);
    for (uint64_t done = 0; done < c->most; done += piece) {
        memset(r->send, 0, piece * r->size * sizeof(float));
        for (uint32_t i = 0; i < r->size; i++)
            RT_TRY(download(r->d, r->send + i * piece, at(c, c->part[i].first + done),
                            left_of(&c->part[i], done, piece) * sizeof(float), e));
        RT_TRY(settle(r->d, e));
        r->peers->exchange(r->peers->ctx, r->send, r->recv, piece * sizeof(float));
        rt_peers_add(r->recv, piece, r->size);
        RT_TRY(upload(r->d, c->own + done * sizeof(float), r->recv,
                      left_of(&c->part[r->rank], done, piece) * sizeof(float), e));
        RT_TRY(settle(r->d, e));
    }
out:
    return rc;
}

static int stage_gather(rt_cuda_ranks *r, const rt_cuda_collective *c, rt_err *e)
{
    int rc = RT_OK;
    const uint64_t piece = piece_of(r, c);
    uint8_t *all = (uint8_t *)r->recv;
    for (uint64_t done = 0; done < c->most; done += piece) {
        RT_TRY(download(r->d, r->send, at(c, c->part[r->rank].first + done),
                        left_of(&c->part[r->rank], done, piece) * c->size, e));
        RT_TRY(settle(r->d, e));
        r->peers->gather(r->peers->ctx, r->send, all, piece * c->size);
        for (uint32_t i = 0; i < r->size; i++)
            RT_TRY(upload(r->d, at(c, c->part[i].first + done), all + i * piece * c->size,
                          left_of(&c->part[i], done, piece) * c->size, e));
        RT_TRY(settle(r->d, e));
    }
out:
    return rc;
}

int rt_cuda_collectives_stage(rt_cuda_dev *d, const rt_cuda_collective *list, uint32_t count, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < count; i++) switch (list[i].kind) {
        case RT_OP_ALL_REDUCE: RT_TRY(stage_sum(d->ranks, &list[i], e)); break;
        case RT_OP_REDUCE_SCATTER: RT_TRY(stage_scatter(d->ranks, &list[i], e)); break;
        default: RT_TRY(stage_gather(d->ranks, &list[i], e));
        }
out:
    return rc;
}

/* ---- what they need ---- */

static bool takes(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_cuda_dev *d = rt_cuda_dev_of(c);
    return cuda_takes(p, op, need,
                      !d->ranks                 ? "NCCL or the host"
                      : rt_cuda_ranks_staged(d) ? "through the host"
                                                : "NCCL");
}

static bool reduce_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_view *x = &op->slot[RT_REDUCE_X];
    if (!takes(c, p, op, need)) return false;
    if (op->slot[RT_REDUCE_FAULT].buf) need->work_bytes = op->args.rows.R * sizeof(rt_fault);
    if (op->args.rows.R < 2 || x->rows == 1 || x->stride == x->cols) return true;
    snprintf(need->why_not, sizeof need->why_not, "sums over ranks are of pieces without gaps");
    return false;
}

/* A slice that something is added to comes into scratch. */
static bool scatter_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (!takes(c, p, op, need)) return false;
    if (op->args.slice.R > 1 && op->acc >> RT_SCATTER_OWN & 1) need->work_bytes = op->args.slice.count * sizeof(float);
    return true;
}

/* ---- launches ---- */

/* Whether the op goes to the ranks: false where there is one, or something was wrong. */
static bool is_shared(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_cuda_dev *d = rt_cuda_builder_dev(b);
    const uint32_t R = rt_op_ranks(o->kind, &o->args);
    if (R > 1 && !d->ranks)
        rt_cuda_builder_fail(b, RT_INTERNAL, "the ranks of this program have not met");
    else if (R > 1 && d->ranks->size != R)
        rt_cuda_builder_fail(b, RT_INTERNAL, "another number of ranks has met than this program is of");
    else
        return d->ranks != NULL && d->ranks->size == R;
    return false;
}

static void push_mark(rt_cuda_builder *b)
{
    const rt_cuda_dev *d = rt_cuda_builder_dev(b);
    const rt_cuda_count_up_params p = { (rt_cu_ptr)(uintptr_t)d->ranks->word };
    if (!rt_cuda_ranks_staged(d)) cuda_push_1d(b, "cuda_comm", "count_up", 1, 1, 0, &p, sizeof p);
}

static void push_together(rt_cuda_builder *b, const rt_cuda_collective *list, uint32_t n)
{
    push_mark(b);
    rt_cuda_push_collectives(b, list, n);
    rt_cuda_took(b, n);
    for (uint32_t i = 0; i < n && !rt_cuda_ranks_staged(rt_cuda_builder_dev(b)); i++) {
        if (!list[i].fault) continue;
        const rt_cuda_first_fault_params p = { list[i].all, list[i].fault, rt_cuda_builder_dev(b)->ranks->size };
        cuda_push_1d(b, "cuda_comm", "first_fault", 1, 32, 0, &p, sizeof p);
    }
    push_mark(b);
}

enum { MOST = 256 }; /* collectives of a group */

static uint32_t group_of(const rt_cuda_builder *b)
{
    return rt_cuda_neighbours(b) < MOST ? rt_cuda_neighbours(b) : MOST;
}

static void reduce_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    rt_cuda_collective list[MOST];
    const uint32_t n = group_of(b);
    if (!is_shared(b, o)) return;
    for (uint32_t i = 0; i < n; i++) {
        const rt_operand *x = &o[i].slot[RT_REDUCE_X], *fault = &o[i].slot[RT_REDUCE_FAULT];
        if (x->rows > 1 && x->stride != x->cols) return; /* of one rank */
        list[i] = (rt_cuda_collective){ .kind = o->kind,
                                        .x = rt_cuda_addr(x),
                                        .n = (uint64_t)x->rows * x->cols,
                                        .size = sizeof(float),
                                        .fault = fault->mem ? rt_cuda_addr(fault) : 0,
                                        .all = fault->mem ? rt_cuda_addr(&o[i].work) : 0 };
    }
    push_together(b, list, n);
}

/* Where slices lie, as every rank says of its own; while memory is only promised, nobody is asked. Null: no memory. */
static rt_part *parts_of(rt_cuda_builder *b, const rt_bound_op *o, const rt_operand *x)
{
    const rt_cuda_ranks *r = rt_cuda_builder_dev(b)->ranks;
    rt_part *part = rt_alloc_zero(r->size * sizeof *part, 16);
    if (!part)
        rt_cuda_builder_fail(b, RT_NOMEM, "no memory for the slices of ranks");
    else if (!r->peers)
        part[0] = (rt_part){ o->args.slice.first, o->args.slice.count };
    else if (x->mem != RT_MEM_PROMISED)
        rt_peers_slices(r->peers, &o->args.slice, part);
    return part;
}

static void slices_push(rt_cuda_builder *b, const rt_bound_op *o, uint32_t n, int slot, bool sums)
{
    rt_cuda_collective list[MOST];
    for (uint32_t i = 0; i < n; i++) {
        const rt_operand *x = &o[i].slot[slot], *own = sums ? &o[i].slot[RT_SCATTER_OWN] : NULL;
        const bool adds = sums && cuda_adds(&o[i], RT_SCATTER_OWN);
        list[i] = (rt_cuda_collective){ .kind = o->kind,
                                        .x = rt_cuda_addr(x),
                                        .n = x->cols,
                                        .size = cuda_size(x->dtype),
                                        .own = !sums || !own->mem ? 0 : rt_cuda_addr(adds ? &o[i].work : own),
                                        .most = o[i].args.slice.most,
                                        .part = parts_of(b, &o[i], x) };
    }
    push_together(b, list, n);
}

static void push_take(rt_cuda_builder *b, const rt_bound_op *o, rt_cu_ptr from)
{
    const rt_operand *own = &o->slot[RT_SCATTER_OWN];
    const rt_cuda_take_slice_params p = { rt_cuda_addr(own), from, own->cols, cuda_adds(o, RT_SCATTER_OWN) };
    const uint32_t blocks = (uint32_t)cuda_div_up(own->cols, RT_CUDA_BLOCK);
    if (own->mem) cuda_push_1d(b, "cuda_comm", "take_slice", blocks, RT_CUDA_BLOCK, 0, &p, sizeof p);
}

static void scatter_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const uint32_t n = group_of(b);
    if (!is_shared(b, o)) {
        push_take(b, o, rt_cuda_addr(&o->slot[RT_SCATTER_X]) + o->args.slice.first * sizeof(float));
        return;
    }
    slices_push(b, o, n, RT_SCATTER_X, true);
    for (uint32_t i = 0; i < n; i++)
        if (o[i].args.slice.R > 1 && cuda_adds(&o[i], RT_SCATTER_OWN)) push_take(b, &o[i], rt_cuda_addr(&o[i].work));
}

static void gather_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    if (is_shared(b, o)) slices_push(b, o, group_of(b), RT_GATHER_X, false);
}

const rt_cuda_op rt_cuda_all_reduce = { reduce_need, reduce_emit };
const rt_cuda_op rt_cuda_reduce_scatter = { scatter_need, scatter_emit };
const rt_cuda_op rt_cuda_all_gather = { takes, gather_emit };
