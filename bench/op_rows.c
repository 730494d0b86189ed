/* op_rows.c - see op_rows.h. */
#include "op_rows.h"

#include "exec/estimate.h"
#include "op/emit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 7, MOST_TURNS = 64, MOST_MOVES = 256, SHARED_BYTES = 1 << 20 };
void bench_die(const char *what, const rt_err *e)
{
    fflush(stdout);
    fprintf(stderr, "bench_cuda: %s%s%s\n", what, e ? ": " : "", e ? e->text : "");
    exit(1);
}

/* ---- what an op is, in words ---- */

static void describe_expansions(char *out, size_t size, const rt_plan *p, const rt_op *op, uint32_t n)
{
    size_t at = 0;
    for (uint32_t i = 0; i < n && at < size; i++) {
        rt_view x = op[i].slot[RT_ROWS_X];
        at += (size_t)snprintf(out + at, size - at, "%s%s %ux%u", i ? ", " : "", rt_dtype_name(rt_plan_dtype(p, x)),
                               x.rows, x.cols);
    }
    if (at < size) snprintf(out + at, size - at, " to %s", rt_dtype_name(rt_plan_dtype(p, op->slot[RT_ROWS_Y])));
}

/* Shape and dtypes, so that ops with the same words cost the same. */
static void describe(char *out, size_t n, const rt_plan *p, const rt_op *op)
{
    const rt_args *a = &op->args;
    rt_view y = op->slot[op->kind == RT_OP_BIAS_GRAD ? RT_BIASG_DY : 0];
    const char *type = rt_dtype_name(rt_plan_dtype(p, y)), *more = op->acc ? " +=" : "";
    char part[32] = "";
    if (y.rows > 1 && y.stride != y.cols) snprintf(part, sizeof part, " in rows of %llu", (unsigned long long)y.stride);
    switch (op->kind) {
    case RT_OP_MATMUL:
        snprintf(out, n, "%c%c %ux%ux%u %s to %s%s%s%s", a->matmul.ta ? 't' : 'n', a->matmul.tb ? 't' : 'n',
                 a->matmul.M, a->matmul.N, a->matmul.K, rt_dtype_name(rt_plan_dtype(p, op->slot[RT_MM_B])), type, part,
                 op->slot[RT_MM_BIAS].buf ? " + bias" : "", more);
        break;
    case RT_OP_MATMUL_SCALED:
        snprintf(out, n, "nt %ux%ux%u e4m3 to %s%s%s%s", a->matmul.M, a->matmul.N, a->matmul.K, type, part,
                 op->slot[RT_MMS_BIAS].buf ? " + bias" : "", more);
        break;
    case RT_OP_QUANT_ROWS:
        snprintf(out, n, "%s %ux%u to %s%s", rt_dtype_name(rt_plan_dtype(p, op->slot[RT_QROWS_X])), y.rows, y.cols,
                 type, part);
        break;
    case RT_OP_ATTN_FWD:
    case RT_OP_ATTN_BWD:
        snprintf(out, n, "%ux%u, %u/%u heads of %u %s", a->attn.B, a->attn.T, a->attn.H, a->attn.K, a->attn.D, type);
        break;
    case RT_OP_EMBED_FWD:
    case RT_OP_EMBED_BWD:
        snprintf(out, n, "%u of %ux%u %s to %s", a->embed.N, a->embed.V, a->embed.C,
                 rt_dtype_name(rt_plan_dtype(p, op->slot[RT_EMBED_TABLE])), type);
        break;
    case RT_OP_KD_LOSS:
        snprintf(out, n, "T %g, CE %g, %ux%u %s%s", (double)a->kd.T, (double)a->kd.ce_weight, y.rows, y.cols, type,
                 op->slot[RT_KD_VMASK].buf ? ", some ids" : "");
        break;
    case RT_OP_CAST:
        snprintf(out, n, "%s %ux%u to %s", rt_dtype_name(rt_plan_dtype(p, op->slot[RT_ROWS_X])), y.rows, y.cols, type);
        break;
    case RT_OP_NORM_SQ:
    case RT_OP_ADAMW: snprintf(out, n, "every parameter"); break;
    default: snprintf(out, n, "%ux%u %s%s%s", y.rows, y.cols, type, part, more);
    }
}

/* ---- sorting ---- */

static bool is_update(rt_op_kind k) { return k == RT_OP_ADAMW || k == RT_OP_NORM_SQ; }

static bool belongs(const op_row *r, const char *group, const rt_plan *from, const rt_op *op, uint32_t n)
{
    if (r->from != from || r->kind != op->kind || r->per != n || strcmp(r->group, group) != 0) return false;
    bool same = true;
    for (uint32_t i = 0; i < n; i++) same = same && rt_op_costs_same(from, &from->ops[r->ops[0] + i], from, &op[i]);
    return is_update(op->kind) || same;
}

void op_rows_add(op_rows *r, const char *group, const rt_plan *from, uint32_t index, uint32_t n)
{
    const rt_op *op = &from->ops[index];
    uint32_t i = 0;
    while (i < r->count && !belongs(&r->list[i], group, from, op, n)) i++;
    if (i == r->count) {
        if (!rt_grow((void **)&r->list, &r->cap, i + 1, sizeof *r->list)) bench_die("out of memory", NULL);
        r->list[r->count++] = (op_row){ .group = group, .kind = op->kind, .per = n, .from = from };
        if (op->kind == RT_OP_DEQUANT)
            describe_expansions(r->list[i].what, sizeof r->list[i].what, from, op, n);
        else
            describe(r->list[i].what, sizeof r->list[i].what, from, op);
    }
    op_row *row = &r->list[i];
    if (!rt_grow((void **)&row->ops, &row->cap, row->count + 1, sizeof *row->ops)) bench_die("out of memory", NULL);
    row->ops[row->count++] = index;
    for (i = 0; i < n; i++) {
        row->bytes += (double)rt_op_bytes(from, &op[i]);
        row->flops += (double)rt_op_flops(from, &op[i]);
    }
}

/* ---- the program of a row ---- */

/* Buffers and what they have become. */
typedef struct moves {
    uint32_t old[MOST_MOVES], fresh[MOST_MOVES], n;
} moves;

static uint32_t moved(moves *m, rt_plan *p, rt_view v)
{
    const rt_buffer *b = rt_plan_buffer(p, v);
    uint32_t k = 0;
    while (k < m->n && m->old[k] != v.buf) k++;
    if (k == MOST_MOVES) return v.buf;
    if (k == m->n) {
        m->old[m->n] = v.buf;
        m->fresh[m->n++] = rt_act(p, b->dtype, b->rows, b->cols, "elsewhere").buf;
    }
    return m->fresh[k];
}

/* The same op on other memory: large buffers become new ones, two views of one buffer stay so. Small results do in each
 * turn: ops that share one go on sharing it. */
static void move_elsewhere(rt_plan *p, rt_op *op, moves *turn)
{
    moves own = { .n = 0 };
    RT_FOR_SLOTS (i, op->kind) {
        rt_view *v = &op->slot[i];
        const rt_buffer *b = v->buf ? rt_plan_buffer(p, *v) : NULL;
        bool small = b && b->bytes < SHARED_BYTES;
        if (!b || b->cls == RT_CLASS_INPUT) continue;
        if (small && rt_op_access(op->kind, i, op->slot) == RT_READ) continue;
        v->buf = moved(small ? turn : &own, p, *v);
    }
}

/* Item `item` of a row of expansions: its first begins with the row that the one before ended with. What writes the
 * same bytes cannot be launched together. */
static void chain(op_row *r, rt_view *all, uint32_t item, rt_view *y)
{
    uint32_t items = r->turns * r->count, rows = y->rows;
    if (!item) *all = rt_act(r->plan, rt_plan_dtype(r->plan, *y), items * (rows - 1) + 1, y->cols, "expanded");
    *y = rt_view_rows(r->plan, *all, item * (rows - 1), rows);
}

static void record_row(op_row *r, double least)
{
    rt_err e = { 0 };
    rt_view all = RT_NONE;
    moves turn = { .n = 0 };
    r->turns = r->bytes * MOST_TURNS < least ? MOST_TURNS : 1 + (uint32_t)(least / r->bytes);
    if (rt_plan_clone_buffers(&r->plan, r->from, &e) < 0) bench_die(r->what, &e);
    for (uint32_t item = 0; item < r->turns * r->count; item++) {
        if (item % r->count == 0) turn.n = 0;
        for (uint32_t k = 0; k < r->per; k++) {
            rt_op op = r->from->ops[r->ops[item % r->count] + k];
            op.work = RT_NONE; /* seal gives it its own */
            if (item >= r->count) move_elsewhere(r->plan, &op, &turn);
            if (r->kind == RT_OP_DEQUANT && !k) chain(r, &all, item, &op.slot[RT_ROWS_Y]);
            rt_plan_append(r->plan, &op);
        }
    }
}

/* ---- all of them on a device ---- */

/* Random values wherever a row may look: products are faster on zeros than on what a step has. */
static void record_noise(op_rows *r, const rt_plan *model, uint64_t arena, rt_view source)
{
    rt_err e = { 0 };
    if (rt_plan_new(&r->noise, model->space, "noise", &model->policy, &e) < 0) bench_die("noise", &e);
    uint64_t bytes = rt_view_bytes(r->noise, source);
    rt_dtype d = rt_plan_dtype(r->noise, source);
    uint64_t at = 0;
    do rt_emit_copy(r->noise, rt_act(r->noise, d, source.rows, source.cols, "noise"), source, RT_NONE);
    while ((at += bytes) < arena);
}

rt_exec *op_rows_seal(op_rows *r, rt_dev *dev, const rt_plan *const *programs, uint32_t n, double least, rt_view noise)
{
    rt_err e = { 0 };
    rt_exec *x;
    rt_exec_memory m;
    uint32_t all = n + r->count;
    const rt_plan **plans = rt_alloc((all + 1) * sizeof *plans, 16);
    if (!plans) bench_die("out of memory", NULL);
    for (uint32_t i = 0; i < n; i++) plans[i] = programs[i];
    for (uint32_t i = 0; i < r->count; i++) {
        record_row(&r->list[i], least);
        plans[n + i] = r->list[i].plan;
    }
    r->first = n;
    if (rt_exec_seal(&x, dev, plans, all, &(rt_seal_opts){ .dry = true, .no_reuse = true }, &e) < 0)
        bench_die("rows", &e);
    rt_exec_memory_query(x, &m);
    rt_exec_free(x);
    record_noise(r, plans[0], m.by_class[RT_CLASS_ACT], noise);
    plans[all] = r->noise;
    if (rt_exec_seal(&x, dev, plans, all + 1, &(rt_seal_opts){ .no_reuse = true }, &e) < 0) bench_die("rows", &e);
    rt_free(plans);
    return x;
}

void op_rows_time(op_rows *r, rt_exec *x, uint32_t i)
{
    bench_run(x, r->first + r->count); /* noise */
    r->list[i].seconds = bench_seconds(x, r->first + i) / r->list[i].turns;
}

void op_rows_free(op_rows *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        rt_plan_free(r->list[i].plan);
        rt_free(r->list[i].ops);
    }
    rt_plan_free(r->noise);
    rt_free(r->list);
    *r = (op_rows){ 0 };
}

/* ---- the clock ---- */

double bench_run(rt_exec *x, uint32_t program)
{
    rt_err e = { 0 };
    rt_exec_timing t;
    if (rt_exec_run_timed(x, program, &t, &e) < 0 || rt_exec_wait(x, t.ticket, &e) < 0) bench_die("run", &e);
    return rt_exec_seconds(x, &t);
}

double bench_seconds(rt_exec *x, uint32_t program)
{
    double took[RUNS];
    bench_run(x, program);
    for (int i = 0; i < RUNS; i++) {
        double now = bench_run(x, program);
        int at = i;
        for (; at > 0 && took[at - 1] > now; at--) took[at] = took[at - 1];
        took[at] = now;
    }
    return took[RUNS / 2];
}
