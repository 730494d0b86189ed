/* lower.c - from the plan as recorded to the ops that this device will run.
 *
 * An op that the backend refuses is rewritten into ops that it takes; there is one rule: an operand that it would take
 * in another dtype is dequantised or cast into scratch first. A large weight is dequantised by slices of its rows,
 * which share that scratch: they are columns of the output, or in backward a part of the sum each. Small ones that are
 * multiplied by the same operand are dequantised side by side ahead of their GEMMs, so that a backend can do it at
 * once. What no rule helps is an error that names the op, its dtypes and the backend's reason. With poison, every float
 * activation is filled with NaN after its last use, by ordinary ops, so it works on any backend. Scratch that an op
 * asks for becomes an activation that lives for that op alone. */
#include "exec/exec_internal.h"

#include <math.h>
#include <stdio.h>

static bool supported(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    *need = (rt_need){ 0 };
    return d->api->supports(d, p, op, need);
}

static int refuse(rt_dev *d, const rt_plan *p, const rt_op *op, const rt_need *need, rt_err *e)
{
    char types[128] = "";
    size_t n = 0;
    for (uint32_t i = 0; i < rt_op_slots(op->kind) && n < sizeof types - 16; i++)
        if (op->slot[i].buf)
            n += (size_t)snprintf(types + n, sizeof types - n, "%s%s", n ? ", " : "",
                                  rt_dtype_name(rt_plan_dtype(p, op->slot[i])));
    if (need->failed < 0) return rt_fail(e, need->failed, "%s", need->why_not);
    return rt_fail(e, RT_UNSUPPORTED, "plan '%s', op %u%s%s: backend %s cannot run %s(%s): %s", p->name,
                   (uint32_t)(op - p->ops), op->label[0] ? ", " : "", op->label, d->api->name, rt_op_name(op->kind),
                   types, need->why_not[0] ? need->why_not : "it has no kernel for it");
}

/* Appends ops to q that make a copy of v in another dtype, and returns it. */
static rt_view recast(rt_plan *q, const rt_op *op, rt_view v, rt_dtype to)
{
    bool packed = rt_dtype_is_quant(rt_plan_dtype(q, v));
    rt_view wide = rt_act(q, to, v.rows, v.cols, "expanded");
    rt_op make = { .kind = packed ? RT_OP_DEQUANT : RT_OP_CAST, .queue = op->queue, .label = op->label };
    make.args.rows = (rt_rows_args){ .N = v.rows, .C = v.cols };
    make.slot[RT_ROWS_Y] = wide;
    make.slot[RT_ROWS_X] = v;
    rt_plan_append(q, &make);
    return wide;
}

enum { SLICE_BYTES = 160 << 20 }; /* dequantised at a time: the matrices of a 7B model stay whole */

static bool is_wide(const rt_plan *q, rt_view v)
{
    return rt_dtype_bytes(rt_plan_dtype(q, v), 1) >= sizeof(float); /* f64 is the specification's */
}

/* Rows of the weight b of a GEMM, stored (N,K) or (K,N), that make a slice of at most SLICE_BYTES dequantised; 0: no
 * slices. Parts of a sum are added in f32, so a sum in fewer bits that is added to something cannot be cut. */
static uint32_t slice_rows(const rt_plan *q, const rt_op *op, const rt_need *need)
{
    enum { SLICE_ROWS = 256 };
    const rt_view *s = op->slot;
    if (op->kind != RT_OP_MATMUL || need->recast != 1 + RT_MM_B || op->args.matmul.ta) return 0;
    bool adds = op->acc >> RT_MM_OUT & 1;
    if (!op->args.matmul.tb && adds && !is_wide(q, s[RT_MM_OUT])) return 0;
    uint64_t row = rt_dtype_bytes(need->recast_to, s[RT_MM_B].cols), n = SLICE_BYTES / row / SLICE_ROWS * SLICE_ROWS;
    if (n == 0) n = SLICE_ROWS;
    return n < s[RT_MM_B].rows ? (uint32_t)n : 0;
}

static bool append_lowered(rt_plan *q, rt_dev *d, const rt_op *original, rt_need *first);

/* out = a b' + bias by slices of the rows of b, which are columns of out. */
static bool append_slices(rt_plan *q, rt_dev *d, const rt_op *whole, uint32_t rows, rt_need *first)
{
    bool ok = true;
    uint32_t N = whole->args.matmul.N;
    for (uint32_t at = 0; ok && at < N; at += rows) {
        rt_op op = *whole;
        uint32_t n = N - at < rows ? N - at : rows;
        op.args.matmul.N = n;
        op.slot[RT_MM_OUT] = rt_view_cols(q, op.slot[RT_MM_OUT], at, n);
        op.slot[RT_MM_B] = rt_view_rows(q, op.slot[RT_MM_B], at, n);
        if (op.slot[RT_MM_BIAS].buf) op.slot[RT_MM_BIAS] = rt_view_cols(q, op.slot[RT_MM_BIAS], at, n);
        ok = append_lowered(q, d, &op, first);
    }
    return ok;
}

/* out = a b + bias by slices of the rows of b, which are columns of a: parts of the sum, in f32. */
static bool append_parts(rt_plan *q, rt_dev *d, const rt_op *whole, uint32_t rows, rt_need *first)
{
    bool ok = true, wide = is_wide(q, whole->slot[RT_MM_OUT]);
    uint32_t K = whole->args.matmul.K;
    rt_view out = whole->slot[RT_MM_OUT], sum = wide ? out : rt_act(q, RT_DTYPE_F32, out.rows, out.cols, "sum");
    for (uint32_t at = 0; ok && at < K; at += rows) {
        rt_op op = *whole;
        uint32_t n = K - at < rows ? K - at : rows;
        op.args.matmul.K = n;
        op.slot[RT_MM_OUT] = sum;
        op.slot[RT_MM_A] = rt_view_cols(q, op.slot[RT_MM_A], at, n);
        op.slot[RT_MM_B] = rt_view_rows(q, op.slot[RT_MM_B], at, n);
        if (at) op.acc |= 1u << RT_MM_OUT;
        if (at) op.slot[RT_MM_BIAS] = RT_NONE;
        ok = append_lowered(q, d, &op, first);
    }
    if (!ok || wide) return ok;
    rt_op cast = { .kind = RT_OP_CAST, .queue = whole->queue, .label = whole->label };
    cast.args.rows = (rt_rows_args){ .N = out.rows, .C = out.cols };
    cast.slot[RT_ROWS_Y] = out;
    cast.slot[RT_ROWS_X] = sum;
    return append_lowered(q, d, &cast, first);
}

/* Appends op to q as the device takes it; false when it does not. first: what the backend said of the op as it is. */
static bool append_lowered(rt_plan *q, rt_dev *d, const rt_op *original, rt_need *first)
{
    rt_op op = *original;
    bool ok = supported(d, q, &op, first);
    rt_need need = *first;
    uint32_t rows = ok ? 0 : slice_rows(q, &op, first);
    if (rows) return (op.args.matmul.tb ? append_slices : append_parts)(q, d, &op, rows, first);
    for (uint32_t tries = 0; !ok && need.recast && tries < RT_MAX_SLOTS && !q->err.status; tries++) {
        rt_view *v = &op.slot[need.recast - 1];
        *v = recast(q, &op, *v, need.recast_to);
        ok = !q->err.status && supported(d, q, &op, &need);
    }
    if (ok) rt_plan_append(q, &op);
    if (need.failed < 0) *first = need;
    return ok;
}

/* ---- dequantising ahead ---- */

enum { AHEAD = 4 }; /* GEMMs of one operand: q, k, v */

/* Is op a GEMM whose weight is quantised, and dequantised as a whole? need: what the backend said then. */
static bool dequantises_whole(rt_plan *q, rt_dev *d, const rt_op *op, rt_need *need)
{
    if (op->kind != RT_OP_MATMUL || !rt_dtype_is_quant(rt_plan_dtype(q, op->slot[RT_MM_B]))) return false;
    return !supported(d, q, op, need) && need->recast == 1 + RT_MM_B && !slice_rows(q, op, need);
}

static bool same_view(rt_view a, rt_view b)
{
    return a.buf == b.buf && a.rows == b.rows && a.cols == b.cols && a.off == b.off && a.stride == b.stride;
}

/* ops = the next ones of p from t on that belong together; returns how many, at least 1. Several are GEMMs of one
 * operand, and their weights have been dequantised by then: no GEMM writes what is quantised, so all of that may be
 * done before the first. Together they take no more than one large weight may. */
static uint32_t take(rt_plan *q, rt_dev *d, const rt_plan *p, uint32_t t, rt_op ops[AHEAD])
{
    rt_need need[AHEAD];
    uint64_t bytes = 0;
    uint32_t n = 0;
    for (; n < AHEAD && t + n < p->nops; n++) {
        ops[n] = p->ops[t + n];
        const rt_view *s = ops[n].slot;
        if (!same_view(s[RT_MM_A], ops->slot[RT_MM_A]) || !dequantises_whole(q, d, &ops[n], &need[n])) break;
        bytes += s[RT_MM_B].rows * rt_dtype_bytes(need[n].recast_to, s[RT_MM_B].cols);
        if (bytes > SLICE_BYTES) break;
    }
    if (n < 2) return 1;
    for (uint32_t i = 0; i < n; i++) ops[i].slot[RT_MM_B] = recast(q, &ops[i], ops[i].slot[RT_MM_B], need[i].recast_to);
    return n;
}

/* After op t: NaN over every float activation whose last use it was. */
static void poison_dead(rt_plan *q, const rt_plan *p, const rt_life *life, uint32_t t)
{
    for (uint32_t i = 0; i < p->nacts; i++) {
        const rt_buffer *b = &p->acts[i];
        if (life[i].last != t || life[i].first > life[i].last || !rt_dtype_is_float(b->dtype)) continue;
        rt_op fill = { .kind = RT_OP_FILL, .queue = p->ops[t].queue, .label = "poison" };
        fill.args.rows = (rt_rows_args){ .N = b->rows, .C = b->cols, .alpha = NAN };
        fill.slot[RT_ROWS_Y] = (rt_view){ RT_ACT_BIT | i, b->rows, b->cols, 0, b->cols };
        rt_plan_append(q, &fill);
    }
}

static int poisoned(rt_plan **io, rt_err *e)
{
    int rc;
    rt_plan *p = *io, *q = NULL;
    uint32_t peak_op;
    rt_life *life = rt_alloc((p->nacts + 1) * sizeof *life, 16);
    if (!life) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for lifetimes"));
    RT_TRY(rt_plan_clone_buffers(&q, p, e));
    rt_plan_lifetimes(p, life, &peak_op);
    for (uint32_t t = 0; t < p->nops; t++) {
        rt_plan_append(q, &p->ops[t]);
        poison_dead(q, p, life, t);
    }
    RT_TRY(rt_plan_status(q, e));
    *io = q;
    q = p;
out:
    rt_free(life);
    rt_plan_free(q);
    return rc;
}

int rt_lower(rt_plan **out, rt_dev *d, const rt_plan *p, bool poison, rt_err *e)
{
    int rc;
    rt_plan *q = NULL;
    rt_need need;
    rt_op ops[AHEAD];
    RT_TRY(rt_plan_clone_buffers(&q, p, e));
    for (uint32_t t = 0, n; t < p->nops; t += n) {
        n = take(q, d, p, t, ops);
        RT_TRY(rt_plan_status(q, e));
        for (uint32_t i = 0; i < n; i++) {
            bool ok = append_lowered(q, d, &ops[i], &need);
            RT_TRY(rt_plan_status(q, e));
            if (!ok) RT_TRY(refuse(d, p, &p->ops[t + i], &need, e));
        }
    }
    RT_TRY(rt_plan_status(q, e));
    if (poison) RT_TRY(poisoned(&q, e));
    *out = q;
    q = NULL;
out:
    rt_plan_free(q);
    return rc;
}

int rt_lower_work(rt_plan *p, rt_dev *d, const char **kernel, const char **plain, rt_choice *choice, rt_err *e)
{
    enum { ROW = 4096 }; /* scratch as rows of bytes, because a column count is 32 bits */
    for (uint32_t t = 0; t < p->nops; t++) {
        rt_need need;
        if (!supported(d, p, &p->ops[t], &need)) return refuse(d, p, &p->ops[t], &need, e);
        kernel[t] = need.kernel ? need.kernel : rt_op_name(p->ops[t].kind);
        plain[t] = need.plain;
        choice[t] = need.choice;
        if (!need.work_bytes) continue;
        uint64_t rows = need.work_bytes / ROW + (need.work_bytes % ROW != 0);
        if (rows > UINT32_MAX)
            return rt_fail(e, RT_NOMEM, "op %u %s asks for %llu bytes of scratch", t, rt_op_name(p->ops[t].kind),
                           (unsigned long long)need.work_bytes);
        rt_view work = rt_act(p, RT_DTYPE_U8, (uint32_t)rows, ROW, "scratch");
        p->ops[t].work = work;
        p->ops[t].work_stays = need.work_stays;
    }
    return rt_plan_status(p, e);
}
