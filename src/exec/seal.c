/* seal.c - a set of plans becomes a set of programs: lower, place, load their code, weigh against the limit, allocate,
 * resolve. The order is fixed: a run that cannot fit is refused before anything is allocated on the device, and what is
 * left to allocate from is asked for when the code is there. */
#include "exec/exec_internal.h"

#include <stdio.h>

/* Offsets of the space's buffers, each class from 0, in order of declaration: gradients lie in parameter order. */
static int place_space(rt_exec *x, rt_err *e)
{
    rt_space *s = x->space;
    uint64_t pad = x->opts.guards ? RT_GUARD_BYTES : 0;
    x->space_off = rt_alloc((s->nbufs + 1) * sizeof *x->space_off, 16);
    if (!x->space_off) return rt_fail(e, RT_NOMEM, "no memory to place %u buffers", s->nbufs);
    for (uint32_t i = 0; i < s->nbufs; i++) {
        uint64_t *end = &x->bytes[s->bufs[i].cls];
        x->space_off[i] = *end + pad;
        /* a buffer is below 2^63 bytes and the sum so far below 2^62: no overflow before the check */
        *end += rt_align_up(s->bufs[i].bytes, RT_PLACE_ALIGN) + 2 * pad;
        if (*end > UINT64_MAX / 4)
            return rt_fail(e, RT_NOMEM, "buffers of class %s exceed any memory", rt_class_name(s->bufs[i].cls));
    }
    return RT_OK;
}

static int place_program(rt_exec *x, rt_sealed *s, rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = s->plan->nacts;
    uint64_t *bytes = rt_alloc((n + 1) * sizeof *bytes, 16);
    uint32_t *order = rt_alloc((n + 1) * sizeof *order, 16);
    s->life = rt_alloc((n + 1) * sizeof *s->life, 16);
    s->place = rt_alloc((n + 1) * sizeof *s->place, 16);
    if (!bytes || !order || !s->life || !s->place) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to place %u activations", n));
    for (uint32_t i = 0; i < n; i++) bytes[i] = s->plan->acts[i].bytes;
    s->peak = rt_plan_lifetimes(s->plan, s->life, &s->peak_op);
    /* With guard bands a place is not reused: another lifetime would write over the bands. */
    s->arena = rt_place(s->place, bytes, s->life, n, x->opts.guards ? RT_GUARD_BYTES : 0,
                        !x->opts.guards && !x->opts.no_reuse, order);
    if (s->arena == UINT64_MAX)
        RT_TRY(rt_fail(e, RT_NOMEM, "plan '%s': its activations exceed any memory", s->plan->name));
    if (s->arena > x->bytes[RT_CLASS_ACT]) x->bytes[RT_CLASS_ACT] = s->arena;
out:
    rt_free(bytes);
    rt_free(order);
    return rc;
}

/* An op that ranks do together is recorded for so many; a dry seal needs none of them. */
static int check_ranks(const rt_exec *x, const rt_plan *p, rt_err *e)
{
    uint32_t ranks = x->opts.peers ? x->opts.peers->size : 1;
    for (uint32_t t = 0; t < p->nops && !x->opts.dry; t++) {
        uint32_t of = rt_op_ranks(p->ops[t].kind, &p->ops[t].args);
        if (of && of != ranks)
            return rt_fail(e, RT_INTERNAL, "plan '%s' was recorded for %u ranks, and there are %u", p->name, of, ranks);
    }
    return RT_OK;
}

static int lower_program(rt_exec *x, rt_sealed *s, const rt_plan *p, rt_err *e)
{
    int rc;
    RT_TRY(rt_plan_status(p, e));
    if (p->space != x->space) RT_TRY(rt_fail(e, RT_INVALID, "plan '%s' was recorded over another space", p->name));
    if (p->nops == 0) RT_TRY(rt_fail(e, RT_INVALID, "plan '%s' has no ops", p->name));
    RT_TRY(check_ranks(x, p, e));
    RT_TRY(rt_lower(&s->plan, x->dev, p, x->opts.poison, e));
    s->kernel = rt_alloc_zero(s->plan->nops * sizeof *s->kernel, 16);
    s->plain = rt_alloc_zero(s->plan->nops * sizeof *s->plain, 16);
    s->choice = rt_alloc_zero(s->plan->nops * sizeof *s->choice, 16);
    s->after = rt_alloc_zero(s->plan->nops * sizeof *s->after, 16);
    if (!s->kernel || !s->plain || !s->choice || !s->after)
        RT_TRY(rt_fail(e, RT_NOMEM, "no memory for %u ops", s->plan->nops));
    RT_TRY(rt_lower_work(s->plan, x->dev, s->kernel, s->plain, s->choice, e));
    RT_TRY(place_program(x, s, e));
out:
    return rc;
}

/* Refuses what cannot fit, with every class, the fullest op, and how much is missing. */
static int check_limit(rt_exec *x, rt_err *e)
{
    rt_exec_memory m;
    rt_dev_info info;
    char a[32], b[32], c[32], d[32], list[256] = "";
    size_t n = 0;
    int rc;
    RT_TRY(x->dev->api->info(x->dev, &info, e));
    uint64_t limit = x->opts.memory_limit ? x->opts.memory_limit : info.memory_free;
    rt_exec_memory_query(x, &m);
    if (m.total <= limit) return RT_OK;
    for (int k = 0; k < RT_CLASS_COUNT && n < sizeof list; k++)
        if (m.by_class[k] && rt_is_on_device(x, (rt_class)k))
            n += (size_t)snprintf(list + n, sizeof list - n, "%s%s %s", n ? ", " : "", rt_class_name((rt_class)k),
                                  rt_format_bytes(a, m.by_class[k]));
    const rt_plan *p = x->prog[m.peak_program].plan;
    const rt_op *op = &p->ops[m.peak_op];
    rc = rt_fail(
        e, RT_NOMEM,
        "needs %s of device memory (%s) but %s %s: %s too much; activations are fullest (%s) at op %u %s of plan '%s'",
        rt_format_bytes(a, m.total), list, x->opts.memory_limit ? "the limit is" : "the device has free",
        rt_format_bytes(b, limit), rt_format_bytes(c, m.total - limit), rt_format_bytes(d, m.peak_live), m.peak_op,
        rt_op_name(op->kind), p->name);
out:
    return rc;
}

static int allocate(rt_exec *x, rt_err *e)
{
    int rc = RT_OK;
    for (int k = 0; k < RT_CLASS_COUNT; k++)
        if (x->bytes[k] && k != RT_CLASS_DISK)
            RT_TRY(x->dev->api->mem_new(x->dev, x->bytes[k], k == RT_CLASS_HOST ? RT_MEM_HOST_PINNED : RT_MEM_DEVICE,
                                        &x->mem[k], e));
    if (x->opts.guards) RT_TRY(rt_guards_write(x, e));
out:
    return rc;
}

/* The ops of every program, bound, to the backend: first to load their code, later to seal. */
static int give_programs(rt_exec *x, bool prepare, rt_err *e)
{
    int rc = RT_OK;
    const rt_backend *api = x->dev->api;
    rt_bound_op *ops = NULL;
    for (uint32_t i = 0; i < x->nprogs; i++) {
        uint32_t n = x->prog[i].plan->nops;
        rt_free(ops);
        ops = rt_alloc(n * sizeof *ops, 16);
        if (!ops) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to bind %u ops", n));
        rt_bind(x, i, prepare, ops);
        RT_TRY(prepare ? api->prepare(x->dev, ops, n, e) : api->seal(x->dev, ops, n, &x->prog[i].prog, e));
    }
out:
    rt_free(ops);
    return rc;
}

int rt_exec_seal(rt_exec **out, rt_dev *d, const rt_plan *const *plans, uint32_t nplans, const rt_seal_opts *o,
                 rt_err *e)
{
    int rc;
    rt_exec *x = NULL;
    rt_dev_info info;
    *out = NULL;
    if (nplans == 0) RT_TRY(rt_fail(e, RT_INVALID, "nothing to seal: no plans"));
    x = rt_alloc_zero(sizeof *x, 16);
    if (!x) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for an executor"));
    x->dev = d;
    x->space = plans[0]->space;
    if (o) x->opts = *o;
    x->prog = rt_alloc_zero(nplans * sizeof *x->prog, 16);
    x->scratch = rt_alloc(RT_EXEC_SCRATCH, 64);
    if (!x->prog || !x->scratch) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for %u programs", nplans));
    x->nprogs = nplans;
    RT_TRY(d->api->info(d, &info, e));
    x->host = info.host;
    x->reader = (rt_reader){ rt_disk_read, x };
    for (uint32_t i = 0; i < nplans; i++) RT_TRY(lower_program(x, &x->prog[i], plans[i], e));
    RT_TRY(place_space(x, e));
    for (uint32_t i = 0; i < nplans; i++) rt_order(x, &x->prog[i], x->prog[i].after);
    if (!x->opts.dry) {
        if (d->api->prepare) RT_TRY(give_programs(x, true, e));
        RT_TRY(check_limit(x, e));
        RT_TRY(allocate(x, e));
        RT_TRY(give_programs(x, false, e));
    }
    *out = x;
    x = NULL;
out:
    rt_exec_free(x);
    return rc;
}

void rt_exec_free(rt_exec *x)
{
    if (!x) return;
    if (x->reading)
        x->dev->api->wait(x->dev, x->reading, NULL); /* nobody writes into memory that its owner frees next */
    for (uint32_t i = 0; i < x->nprogs; i++) {
        rt_sealed *s = &x->prog[i];
        x->dev->api->prog_free(x->dev, s->prog);
        rt_plan_free(s->plan);
        rt_free(s->kernel);
        rt_free(s->plain);
        rt_free(s->choice);
        rt_free(s->after);
        rt_free(s->life);
        rt_free(s->place);
    }
    for (int k = 0; k < RT_CLASS_COUNT; k++) x->dev->api->mem_free(x->dev, x->mem[k]);
    rt_free(x->prog);
    rt_free(x->space_off);
    rt_free(x->scratch);
    rt_free(x);
}
