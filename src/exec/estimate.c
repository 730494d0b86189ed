/* estimate.c - see estimate.h. */
#include "exec/estimate.h"

#include "base/sys.h"
#include "exec/exec_internal.h"

#include <string.h>

enum { MOST_RUNS = 64, LEAST_RUNS = 3, LEAST_EDGE = 512 };
static const double ENOUGH_SECONDS = 0.01, MOST_SECONDS = 0.2; /* of runs of one op */
static const double FIRST_WORK = 5e8;      /* flops, or bytes, of the first piece of an op that is cut */
static const double SHORT_SECONDS = 0.004; /* a piece that took less says little about the whole: four times as much */

/* One distinct op: the first of its kind, and how often each program has it. */
typedef struct sample {
    const rt_plan *plan;
    const rt_op *op;
    double seconds;
} sample;

/* ---- which ops are the same ---- */

static bool same_view(const rt_plan *p, rt_view a, const rt_plan *q, rt_view b)
{
    if (!a.buf || !b.buf) return !a.buf && !b.buf;
    return a.rows == b.rows && a.cols == b.cols && a.stride == b.stride && rt_plan_dtype(p, a) == rt_plan_dtype(q, b);
}

/* Arguments that name a place in the model and not a cost. */
static rt_args costs_of(const rt_op *op)
{
    rt_args a = op->args;
    if (op->kind == RT_OP_KD_LOSS) a.kd.site = 0;
    if (op->kind == RT_OP_NORM_SQ) a.rows.site = 0;
    return a;
}

bool rt_op_costs_same(const rt_plan *p, const rt_op *a, const rt_plan *q, const rt_op *b)
{
    rt_args x = costs_of(a), y = costs_of(b);
    if (a->kind != b->kind || a->queue != b->queue || a->acc != b->acc || memcmp(&x, &y, sizeof x) != 0) return false;
    RT_FOR_SLOTS (i, a->kind)
        if (!same_view(p, a->slot[i], q, b->slot[i])) return false;
    return true;
}

/* ---- a piece of an op ---- */

/* The most of an op's work that is timed: arithmetic, or bytes where it has none to speak of. */
static double work_of(const rt_plan *p, const rt_op *op)
{
    uint64_t flops = rt_op_flops(p, op), bytes = rt_op_bytes(p, op);
    return (double)(flops > bytes ? flops : bytes);
}

static uint32_t cut_edge(uint32_t edge, double share)
{
    double n = edge * share;
    if (n < LEAST_EDGE) n = LEAST_EDGE;
    return n < edge ? (uint32_t)n / 32 * 32 : edge;
}

/* The longest edges first, none below what keeps every core busy. Quantised rows stay whole: they lie in blocks. */
static void cut_edges(rt_matmul_args *a, bool packed, double share)
{
    uint32_t *edges[3] = { &a->M, a->tb ? &a->N : &a->K, a->tb ? &a->K : &a->N };
    int count = packed ? 2 : 3;
    for (int round = 0; round < count && share < 1; round++) {
        uint32_t *longest = edges[0];
        for (int i = 1; i < count; i++)
            if (*edges[i] > *longest) longest = edges[i];
        uint32_t cut = cut_edge(*longest, share);
        share *= (double)*longest / cut;
        *longest = cut;
    }
}

static void cut_product(const rt_plan *p, rt_op *op, double share)
{
    rt_matmul_args *a = &op->args.matmul;
    cut_edges(a, rt_dtype_is_quant(rt_plan_dtype(p, op->slot[RT_MM_B])), share);
    rt_view *out = &op->slot[RT_MM_OUT], *l = &op->slot[RT_MM_A], *r = &op->slot[RT_MM_B], *b = &op->slot[RT_MM_BIAS];
    *out = (rt_view){ out->buf, a->M, a->N, 0, a->N };
    *l = a->ta ? (rt_view){ l->buf, a->K, a->M, 0, a->M } : (rt_view){ l->buf, a->M, a->K, 0, a->K };
    *r = a->tb ? (rt_view){ r->buf, a->N, a->K, 0, a->K } : (rt_view){ r->buf, a->K, a->N, 0, a->N };
    if (b->buf) *b = (rt_view){ b->buf, 1, a->N, 0, a->N };
}

static void cut_scaled(rt_op *op, double share)
{
    rt_matmul_args *a = &op->args.matmul;
    rt_view *s = op->slot;
    cut_edges(a, false, share);
    s[RT_MMS_OUT] = (rt_view){ s[RT_MMS_OUT].buf, a->M, a->N, 0, a->N };
    s[RT_MMS_A] = (rt_view){ s[RT_MMS_A].buf, a->M, a->K, 0, a->K };
    s[RT_MMS_B] = (rt_view){ s[RT_MMS_B].buf, a->N, a->K, 0, a->K };
    s[RT_MMS_SA] = (rt_view){ s[RT_MMS_SA].buf, a->M, 1, 0, 1 };
    s[RT_MMS_SB] = (rt_view){ s[RT_MMS_SB].buf, a->N, 1, 0, 1 };
    if (s[RT_MMS_BIAS].buf) s[RT_MMS_BIAS] = (rt_view){ s[RT_MMS_BIAS].buf, 1, a->N, 0, a->N };
}

/* Fewer rows: every operand that has as many as the op is cut with it. For attention first sequences, then positions.
 */
static void cut_rows(rt_op *op, double share)
{
    uint32_t rows, fewer;
    if (op->kind == RT_OP_ATTN_FWD || op->kind == RT_OP_ATTN_BWD) {
        rt_attn_args *a = &op->args.attn;
        rows = a->B * a->T;
        uint32_t B = (uint32_t)(a->B * share);
        share = B ? 1 : share * a->B;
        a->B = B ? B : 1;
        while (share < 0.5 && a->T >= 2 * LEAST_EDGE) {
            a->T /= 2;
            share *= 4;
        }
        fewer = a->B * a->T;
    } else {
        rows = op->args.words[0]; /* N, in every struct of rows */
        fewer = cut_edge(rows, share);
        op->args.words[0] = fewer;
    }
    RT_FOR_SLOTS (i, op->kind)
        if (op->slot[i].buf && op->slot[i].rows == rows) op->slot[i].rows = fewer;
}

static void cut(const rt_plan *p, rt_op *op, double share)
{
    if (op->kind == RT_OP_CLIP || op->kind == RT_OP_ATTN_DECODE) return; /* no rows that are their work */
    if (op->kind == RT_OP_MATMUL || op->kind == RT_OP_MATMUL_INT8)
        cut_product(p, op, share);
    else if (op->kind == RT_OP_MATMUL_SCALED)
        cut_scaled(op, share);
    else
        cut_rows(op, share);
}

/* ---- timing one op ---- */

/* One op over buffers of its own. */
typedef struct bench {
    rt_space *space;
    rt_plan *plan;
    rt_exec *x;
} bench;

static void bench_free(bench *b)
{
    rt_exec_free(b->x);
    rt_plan_free(b->plan);
    rt_space_free(b->space);
}

static const rt_known *known_of(const rt_known *known, uint32_t count, rt_view v)
{
    for (uint32_t i = 0; i < count; i++)
        if (known[i].v.buf == v.buf) return &known[i];
    return NULL;
}

/* Each operand gets a buffer as large as its view reaches; state, because it is defined and outlives the program. What
 * is away is in the host's memory, a file too: what has been read once is there. */
static int bench_new(bench *b, rt_dev *d, const rt_plan *p, const rt_op *op, rt_err *e)
{
    int rc;
    rt_op own = *op;
    own.work = RT_NONE;
    RT_TRY(rt_space_new(&b->space, e));
    RT_TRY(rt_plan_new(&b->plan, b->space, "one op", &p->policy, e));
    RT_FOR_SLOTS (i, op->kind) {
        rt_view v = op->slot[i];
        if (!v.buf) continue;
        uint32_t cols = v.rows == 1 ? v.cols : (uint32_t)v.stride;
        rt_class cls = rt_class_is_away(rt_plan_buffer(p, v)->cls) ? RT_CLASS_HOST : RT_CLASS_STATE;
        own.slot[i] = rt_space_buf(b->space, cls, rt_plan_dtype(p, v), v.rows, cols, "operand");
        own.slot[i].cols = v.cols;
    }
    rt_plan_append(b->plan, &own);
    const rt_plan *plans[] = { b->plan };
    RT_TRY(rt_exec_seal(&b->x, d, plans, 1, NULL, e));
out:
    return rc;
}

/* What a slot holds: what is known of it, a step that divides by one token, or zero. */
static int fill_slot(const bench *b, uint32_t index, const rt_op *op, uint32_t slot, const rt_known *k, uint8_t *piece,
                     uint64_t room, rt_err *e)
{
    int rc = RT_OK;
    const rt_buffer *buf = &b->space->bufs[index];
    uint64_t all = (uint64_t)buf->rows * buf->cols, block = rt_dtype_table[buf->dtype].block_elems;
    uint64_t at_once = room / rt_dtype_table[buf->dtype].block_bytes * block;
    rt_step step = { .step = 1, .tokens = 1 };
    for (uint64_t first = 0; first < all; first += at_once) {
        uint64_t n = all - first < at_once ? all - first : at_once, bytes = rt_dtype_bytes(buf->dtype, n);
        memset(piece, 0, bytes);
        for (uint64_t i = 0; k && i < n; i++) {
            /* A chunk of the head stands for all of them: its positions are taken from the whole batch. */
            uint64_t at = first + i, whole = (uint64_t)k->v.rows * k->v.cols;
            uint64_t from = op->kind == RT_OP_KD_LOSS ? at * whole / all : op->slot[slot].off + at;
            memcpy(piece + 4 * i, (const uint8_t *)k->data + 4 * from, 4);
        }
        if (buf->dtype == RT_DTYPE_U8 && bytes == sizeof step) memcpy(piece, &step, sizeof step);
        rt_view v = { index + 1, 1, (uint32_t)n, first, n };
        RT_TRY(rt_exec_write(b->x, v, piece, bytes, e));
    }
out:
    return rc;
}

static int fill_operands(const bench *b, const rt_op *op, const rt_known *known, uint32_t count, rt_err *e)
{
    enum { PIECE = 1 << 20 };
    int rc = RT_OK;
    uint32_t index = 0;
    uint8_t *piece = rt_alloc(PIECE, 64);
    if (!piece) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to time an op"));
    RT_FOR_SLOTS (i, op->kind)
        if (op->slot[i].buf) RT_TRY(fill_slot(b, index++, op, i, known_of(known, count, op->slot[i]), piece, PIECE, e));
out:
    rt_free(piece);
    return rc;
}

/* What all runs took, and what they would have taken had each been a typical one of its op: on a machine that does
 * other work too the first is more, because now and then a run is kept waiting. So is a step. */
typedef struct pressure {
    double took, typical;
} pressure;

/* The middle of some runs, after one that is not counted unless it says enough by itself. */
static int time_runs(rt_exec *x, double *seconds, pressure *all, rt_err *e)
{
    int rc, n = 0;
    double took[MOST_RUNS], sum = 0;
    for (int i = -1; n < MOST_RUNS && (n < LEAST_RUNS || sum < ENOUGH_SECONDS) && sum < MOST_SECONDS; i++) {
        rt_ticket t;
        double begun = rt_now();
        RT_TRY(rt_exec_run(x, 0, &t, e));
        RT_TRY(rt_exec_wait(x, t, e));
        double now = rt_now() - begun;
        if (i < 0 && now < ENOUGH_SECONDS) continue;
        sum += now;
        int at = n++;
        for (; at > 0 && took[at - 1] > now; at--) took[at] = took[at - 1];
        took[at] = now;
    }
    *seconds = n % 2 ? took[n / 2] : (took[n / 2 - 1] + took[n / 2]) / 2;
    all->took += sum;
    all->typical += n * *seconds;
    rc = RT_OK;
out:
    return rc;
}

static int time_op(rt_dev *d, const rt_plan *p, const rt_op *op, const rt_known *known, uint32_t count, double *seconds,
                   pressure *all, rt_err *e)
{
    bench b = { 0 };
    int rc;
    RT_TRY(bench_new(&b, d, p, op, e));
    RT_TRY(fill_operands(&b, op, known, count, e));
    RT_TRY(time_runs(b.x, seconds, all, e));
out:
    bench_free(&b);
    return rc;
}

static int time_sample(rt_dev *d, sample *s, const rt_known *known, uint32_t count, pressure *all, rt_err *e)
{
    int rc;
    double whole = work_of(s->plan, s->op), most = FIRST_WORK;
    for (;; most *= 4) {
        rt_op op = *s->op;
        if (whole > most) cut(s->plan, &op, most / whole);
        RT_TRY(time_op(d, s->plan, &op, known, count, &s->seconds, all, e));
        double part = work_of(s->plan, &op) / whole; /* 1 for an op that cannot be cut */
        if (part < 1 && s->seconds < SHORT_SECONDS) continue;
        s->seconds /= part;
        return RT_OK;
    }
out:
    return rc;
}

/* What has been timed so far. */
typedef struct samples {
    sample *list;
    uint32_t n, cap;
    pressure all;
} samples;

/* of_op (nops) = seconds of each op of program i. */
static int time_program(const rt_exec *x, uint32_t i, samples *s, const rt_known *known, uint32_t count, double *of_op,
                        rt_err *e)
{
    int rc = RT_OK;
    const rt_plan *p = x->prog[i].plan;
    for (uint32_t t = 0; t < p->nops; t++) {
        uint32_t k = 0;
        of_op[t] = 0;
        if (p->ops[t].queue == RT_QUEUE_COMM) continue; /* nobody is there to do it with */
        while (k < s->n && !rt_op_costs_same(s->list[k].plan, s->list[k].op, p, &p->ops[t])) k++;
        if (k == s->n) {
            if (!rt_grow((void **)&s->list, &s->cap, s->n + 1, sizeof *s->list))
                RT_TRY(rt_fail(e, RT_NOMEM, "no memory to time %u ops", s->n + 1));
            s->list[s->n++] = (sample){ p, &p->ops[t], 0 };
            RT_TRY(time_sample(x->dev, &s->list[k], known, count, &s->all, e));
        }
        of_op[t] = s->list[k].seconds;
    }
out:
    return rc;
}

int rt_exec_estimate(const rt_exec *x, const rt_known *known, uint32_t count, rt_exec_span *spans, rt_err *e)
{
    int rc = RT_OK;
    samples s = { 0 };
    double *of_op = NULL;
    for (uint32_t i = 0; i < x->nprogs; i++) {
        rt_free(of_op);
        of_op = rt_alloc(x->prog[i].plan->nops * sizeof *of_op, 16);
        if (!of_op) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to time %u ops", x->prog[i].plan->nops));
        RT_TRY(time_program(x, i, &s, known, count, of_op, e));
        spans[i] = rt_exec_span_of(x, i, of_op);
    }
    for (uint32_t i = 0; i < x->nprogs && s.all.typical > 0; i++) {
        double slower = s.all.took / s.all.typical;
        spans[i] = (rt_exec_span){ spans[i].total * slower, spans[i].compute * slower, spans[i].copy * slower };
    }
out:
    rt_free(of_op);
    rt_free(s.list);
    return rc;
}
