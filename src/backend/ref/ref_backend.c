/* ref_backend.c - the reference as a backend: two devices, one that computes in double and one in float.
 *
 * Owns: the devices, and the driver that lays an op's dense copies out in its scratch, gathers, calls the function
 * of ref_table.c and scatters. Leaves conversion to ref_operand.c and memory to host.c. It supports every op that
 * records; it is slow on purpose, has no thread but the caller's, and allocates nothing after seal. */
#include "backend/ref/ref.h"
#include "backend/ref/ref_operand.h"
#include "base/mem.h"
#include "base/sys.h"

#include <stdio.h>
#include <string.h>
#ifdef __GLIBC__
#include <gnu/libc-version.h>
#endif

enum { DEVICES = 2, DENSE_ALIGN = 64, CANARY_BYTE = 0xC3 };

typedef struct ref_dev {
    rt_dev base;
    bool wide; /* computes in double */
    rt_ticket ticket;
} ref_dev;

struct rt_prog {
    uint32_t nops;
    rt_bound_op ops[];
};

extern const rt_backend rt_backend_ref;

/* ---- devices ---- */

static void describe(rt_dev_info *out, bool wide)
{
    rt_sys_memory m;
    rt_sys_memory_query(&m);
    *out = (rt_dev_info){ .memory_total = m.total, .memory_free = m.available, .host = true };
    snprintf(out->name, sizeof out->name, "ref %s", wide ? "f64" : "f32");
    snprintf(out->detail, sizeof out->detail, "the specification in plain C, computed in %s, one thread",
             wide ? "double" : "float");
}

static int ref_probe(const rt_dev_opts *o, rt_dev_info *out, int cap, char *why)
{
    (void)o;
    (void)why;
    for (int i = 0; i < DEVICES && i < cap; i++) describe(&out[i], i == 0);
    return DEVICES;
}

static int ref_open(rt_dev **out, int index, const rt_dev_opts *o, rt_err *e)
{
    (void)o;
    *out = NULL;
    if (index < 0 || index >= DEVICES)
        return rt_fail(e, RT_NOT_FOUND, "backend ref has no device %d; it has 0 (f64) and 1 (f32)", index);
    ref_dev *d = rt_alloc_zero(sizeof *d, 0);
    if (!d) return rt_fail(e, RT_NOMEM, "cannot open device %d of backend ref: out of memory", index);
    d->base.api = &rt_backend_ref;
    d->wide = index == 0;
    *out = &d->base;
    return RT_OK;
}

static void ref_close(rt_dev *d) { rt_free(d); }

static int ref_info(rt_dev *d, rt_dev_info *out, rt_err *e)
{
    (void)e;
    describe(out, ((ref_dev *)d)->wide);
    return RT_OK;
}

static int ref_copy(rt_dev *d, const rt_copy *c, rt_ticket *t, rt_err *e)
{
    int rc = rt_host_copy(d, c, NULL, e);
    if (rc == RT_OK && t) *t = ++((ref_dev *)d)->ticket;
    return rc;
}

/* Besides the plan, only the mathematics library decides bits: the sources are compiled without contraction. */
static void ref_identity(rt_dev *d, rt_str *out)
{
    rt_str_printf(out, "ref %s", ((ref_dev *)d)->wide ? "f64" : "f32");
#ifdef __GLIBC__
    rt_str_printf(out, ", glibc %s", gnu_get_libc_version());
#endif
}

/* ---- scratch: the dense copies of all operands, then what the op asks for; a canary follows each ---- */

static bool slot_is_raw(rt_op_kind kind, uint32_t slot) { return rt_op_specs[kind].slot[slot].rule == RT_RULE_ANY; }

/* A part with its canary: at least one byte, up to the next boundary. */
static uint64_t part_bytes(uint64_t bytes) { return rt_align_up(bytes + 1, DENSE_ALIGN); }

/* Adds the size of one part to *total. */
static bool add_part(uint64_t *total, uint64_t bytes)
{
    return bytes <= UINT64_MAX - 2 * DENSE_ALIGN && rt_add_u64(*total, part_bytes(bytes), total);
}

static bool add_slot(uint64_t *total, rt_op_kind kind, uint32_t slot, rt_dtype dtype, uint32_t rows, uint32_t cols,
                     bool wide)
{
    uint64_t bytes;
    return rt_ref_dense_bytes(dtype, rows, cols, slot_is_raw(kind, slot), wide, &bytes) && add_part(total, bytes);
}

static bool add_work(uint64_t *total, rt_op_kind kind, const rt_args *args, bool wide)
{
    uint64_t bytes;
    return rt_mul_u64(rt_ref_work(kind, args), wide ? sizeof(double) : sizeof(float), &bytes) && add_part(total, bytes);
}

static bool ref_supports(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    bool wide = ((ref_dev *)d)->wide, fits = true;
    *need = (rt_need){ .kernel = wide ? "plain loops, f64" : "plain loops, f32" };
    for (uint32_t i = 0; fits && i < RT_MAX_SLOTS; i++) {
        const rt_view *v = &op->slot[i];
        if (v->buf) fits = add_slot(&need->work_bytes, op->kind, i, rt_plan_dtype(p, *v), v->rows, v->cols, wide);
    }
    fits = fits && add_work(&need->work_bytes, op->kind, &op->args, wide);
    if (!fits) snprintf(need->why_not, sizeof need->why_not, "dense copies of its operands pass 64-bit sizes");
    return fits;
}

static bool bound_work(const rt_bound_op *o, bool wide, uint64_t *total)
{
    *total = 0;
    for (uint32_t i = 0; i < o->nslots; i++) {
        const rt_operand *s = &o->slot[i];
        if (s->mem && !add_slot(total, o->kind, i, s->dtype, s->rows, s->cols, wide)) return false;
    }
    return add_work(total, o->kind, &o->args, wide);
}

/* ---- programs ---- */

static int ref_seal(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    uint64_t bytes;
    *out = NULL;
    for (uint32_t i = 0; i < nops; i++) {
        uint64_t room = ops[i].work.mem ? (uint64_t)ops[i].work.rows * ops[i].work.cols : 0;
        if (!bound_work(&ops[i], ((ref_dev *)d)->wide, &bytes) || bytes > room)
            return rt_fail(e, RT_INTERNAL,
                           "op %u, %s: the reference needs more scratch than the %llu bytes it was given", i,
                           rt_op_name(ops[i].kind), (unsigned long long)room);
    }
    rt_prog *g = NULL;
    if (rt_mul_u64(nops, sizeof *ops, &bytes) && rt_add_u64(bytes, sizeof *g, &bytes) && bytes <= SIZE_MAX)
        g = rt_alloc((size_t)bytes, 0);
    if (!g) return rt_fail(e, RT_NOMEM, "cannot seal a program of %u ops: out of memory", nops);
    g->nops = nops;
    if (nops) memcpy(g->ops, ops, nops * sizeof *ops);
    *out = g;
    return RT_OK;
}

static void ref_prog_free(rt_dev *d, rt_prog *g)
{
    (void)d;
    rt_free(g);
}

static bool is_copy_by_rows(const rt_bound_op *o) { return o->kind == RT_OP_COPY && o->slot[RT_ROWS_B].mem; }

/* Does the op need what the slot holds? Else it arrives zeroed (ACCUM that assigns) or undefined (WRITE). */
static bool is_loaded(const rt_bound_op *o, uint32_t slot)
{
    switch ((rt_access)rt_op_specs[o->kind].slot[slot].access) {
    case RT_WRITE: return slot == RT_ROWS_Y && is_copy_by_rows(o);
    case RT_ACCUM: return o->acc >> slot & 1;
    default: return true;
    }
}

/* The parts of an op's scratch: one per slot, and the work area. */
typedef struct parts {
    uint8_t *at[RT_MAX_SLOTS + 1];
    uint64_t bytes[RT_MAX_SLOTS + 1];
} parts;

static void lay_out(const rt_bound_op *o, bool wide, parts *p)
{
    uint8_t *at = rt_host_ptr(&o->work);
    *p = (parts){ 0 };
    for (uint32_t i = 0; i <= o->nslots; i++) {
        const rt_operand *s = &o->slot[i];
        if (i == o->nslots)
            p->bytes[i] = rt_ref_work(o->kind, &o->args) * (wide ? sizeof(double) : sizeof(float));
        else if (s->mem)
            rt_ref_dense_bytes(s->dtype, s->rows, s->cols, slot_is_raw(o->kind, i), wide, &p->bytes[i]);
        else
            continue;
        p->at[i] = at;
        at += part_bytes(p->bytes[i]);
        memset(p->at[i] + p->bytes[i], CANARY_BYTE, (size_t)(at - p->at[i] - p->bytes[i]));
    }
}

/* The first slot behind which something was written, nslots for the work area, -1 for none. */
static int touched_canary(const rt_bound_op *o, const parts *p)
{
    for (uint32_t i = 0; i <= o->nslots; i++)
        for (uint64_t k = p->bytes[i]; p->at[i] && k < part_bytes(p->bytes[i]); k++)
            if (p->at[i][k] != CANARY_BYTE) return (int)i;
    return -1;
}

/* The dtype of the operands whose dtype is the op's A. */
static rt_dtype act_dtype(const rt_bound_op *o)
{
    for (uint32_t i = 0; i < o->nslots; i++)
        if (o->slot[i].mem && rt_op_specs[o->kind].slot[i].rule == RT_RULE_ACT) return o->slot[i].dtype;
    return RT_DTYPE_F64;
}

/* Where y is codes: the op and quant_rows one after the other, y stored as A in between. */
static void code_rows(const rt_bound_op *o, const rt_ref_call *c, bool wide)
{
    const rt_operand *y = &o->slot[RT_CODED_Y];
    rt_args args = { .rows = { .N = y->rows, .C = y->cols } };
    rt_ref_call rows = { .args = &args };
    rows.s[RT_QROWS_Y] = rows.s[RT_QROWS_X] = c->s[RT_CODED_Y];
    rows.s[RT_QROWS_SCALE] = c->s[RT_CODED_SCALE];
    rt_ref_round(c->s[RT_CODED_Y], act_dtype(o), (uint64_t)y->rows * y->cols, wide);
    (wide ? rt_ref_table_double : rt_ref_table_float)[RT_OP_QUANT_ROWS](&rows);
}

/* Returns what touched_canary says. */
static int run_op(const rt_bound_op *o, bool wide)
{
    rt_args args = o->args;
    rt_ref_call call = { .args = &args, .peers = o->peers };
    parts p;
    lay_out(o, wide, &p);
    for (uint32_t i = 0; i < o->nslots; i++) {
        if (!p.at[i]) continue;
        call.s[i] = p.at[i];
        if (is_loaded(o, i))
            rt_ref_gather(call.s[i], &o->slot[i], slot_is_raw(o->kind, i), wide);
        else if (rt_op_specs[o->kind].slot[i].access == RT_ACCUM)
            memset(call.s[i], 0, p.bytes[i]);
    }
    call.work = p.at[o->nslots];
    if (o->kind == RT_OP_COPY) { /* raw elements: see ref_rows.c */
        const rt_dtype_info *info = &rt_dtype_table[o->slot[RT_ROWS_X].dtype];
        args.rows.C /= info->block_elems;
        args.rows.site = info->block_bytes;
    }
    (wide ? rt_ref_table_double : rt_ref_table_float)[o->kind](&call);
    if (rt_op_codes(o->kind) && call.s[RT_CODED_SCALE]) code_rows(o, &call, wide);
    for (uint32_t i = 0; i < o->nslots; i++)
        if (o->slot[i].mem && rt_op_specs[o->kind].slot[i].access != RT_READ)
            rt_ref_scatter(&o->slot[i], call.s[i], slot_is_raw(o->kind, i), wide);
    return touched_canary(o, &p);
}

static int ref_run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e)
{
    ref_dev *r = (ref_dev *)d;
    for (uint32_t i = 0; i < g->nops; i++) {
        const rt_bound_op *o = &g->ops[i];
        if (rt_host_fetches(o)) {
            int rc = rt_host_fetch(o, e);
            if (rc < 0) return rc;
            continue;
        }
        int slot = run_op(o, r->wide);
        if (slot >= 0)
            return rt_fail(e, RT_INTERNAL, "op %u, %s: the reference wrote behind its copy of '%s'", i,
                           rt_op_name(o->kind),
                           slot < (int)o->nslots ? rt_op_specs[o->kind].slot[slot].name : "scratch");
    }
    r->ticket++;
    if (t) *t = r->ticket;
    return RT_OK;
}

const rt_backend rt_backend_ref = {
    .name = "ref",
    .probe = ref_probe,
    .open = ref_open,
    .close = ref_close,
    .info = ref_info,
    .mem_new = rt_host_mem_new,
    .mem_free = rt_host_mem_free,
    .copy = ref_copy,
    .supports = ref_supports,
    .seal = ref_seal,
    .run = ref_run,
    .wait = rt_host_wait,
    .prog_free = ref_prog_free,
    .identity = ref_identity,
};
