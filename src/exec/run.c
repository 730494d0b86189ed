/* run.c - using a sealed set: moving bytes, running, asking what it is. Nothing here allocates but printing and
 * hashing. */
#include "exec/exec_internal.h"

#include "base/sys.h"

#include <string.h>

static int refuse_dry(rt_err *e)
{
    return rt_fail(e, RT_INVALID, "the programs were sealed dry: they have no memory and cannot run");
}

/* A device that has to be waited for and has no clock: a run is then timed with nothing else under way, so the ticket
 * of whatever was enqueued last is kept. Others are spared tickets that nobody asks for. */
static bool is_timed_by_host(const rt_exec *x) { return x->dev->api->async && !x->dev->api->seconds; }

static rt_ticket *ticket_for(rt_exec *x, rt_ticket *wanted) { return wanted || is_timed_by_host(x) ? &x->last : NULL; }

/* Enqueues it. */
static int move(rt_exec *x, rt_view v, void *data, uint64_t bytes, bool to_device, rt_ticket *t, rt_err *e)
{
    if (x->opts.dry) return refuse_dry(e);
    if (!v.buf || v.buf & RT_ACT_BIT || v.buf > x->space->nbufs)
        return rt_fail(e, RT_INVALID, "only buffers of the space can be read and written by the host");
    const rt_buffer *b = &x->space->bufs[v.buf - 1];
    if (b->cls == RT_CLASS_DISK) return rt_fail(e, RT_INTERNAL, "'%s' is in a file, and moved by no host", b->name);
    uint64_t elems = (uint64_t)v.rows * v.cols, want = rt_dtype_bytes(b->dtype, elems);
    if (v.rows > 1 && v.stride != v.cols)
        return rt_fail(e, RT_INVALID, "'%s': a view with gaps between its rows cannot be moved at once", b->name);
    if (bytes != want)
        return rt_fail(e, RT_INVALID, "'%s' (%u,%u) %s holds %llu bytes; %llu were given", b->name, v.rows, v.cols,
                       rt_dtype_name(b->dtype), (unsigned long long)want, (unsigned long long)bytes);
    if (v.off + elems > (uint64_t)b->rows * b->cols)
        return rt_fail(e, RT_INVALID, "'%s': the view ends outside the buffer", b->name);
    rt_copy c = { x->mem[b->cls], x->space_off[v.buf - 1] + rt_dtype_bytes(b->dtype, v.off), bytes, data, to_device };
    int rc = x->dev->api->copy(x->dev, &c, ticket_for(x, t), e);
    if (t) *t = x->last;
    return rc;
}

int rt_exec_write(rt_exec *x, rt_view v, const void *data, uint64_t bytes, rt_err *e)
{
    return move(x, v, (void *)(uintptr_t)data, bytes, true, NULL, e); /* a copy to the device only reads it */
}

int rt_exec_read(rt_exec *x, rt_view v, void *data, uint64_t bytes, rt_err *e)
{
    rt_ticket t;
    int rc = move(x, v, data, bytes, false, &t, e);
    return rc < 0 ? rc : x->dev->api->wait(x->dev, t, e);
}

int rt_exec_read_later(rt_exec *x, rt_view v, void *data, uint64_t bytes, rt_ticket *t, rt_err *e)
{
    int rc = move(x, v, data, bytes, false, &x->reading, e);
    if (rc >= 0 && t) *t = x->reading;
    return rc;
}

int rt_exec_run(rt_exec *x, uint32_t program, rt_ticket *t, rt_err *e)
{
    if (program >= x->nprogs) return rt_fail(e, RT_INVALID, "program %u of %u was asked for", program, x->nprogs);
    if (x->opts.dry) return refuse_dry(e);
    int rc = rt_guards_begin(x, program, e);
    if (rc < 0) return rc;
    rc = x->dev->api->run(x->dev, x->prog[program].prog, ticket_for(x, t), e);
    if (t) *t = x->last;
    return rc;
}

int rt_exec_run_timed(rt_exec *x, uint32_t program, rt_exec_timing *t, rt_err *e)
{
    int rc;
    bool waits = is_timed_by_host(x);
    if (waits) RT_TRY(rt_exec_wait(x, x->last, e)); /* what was enqueued before is not counted */
    double begun = rt_now();
    RT_TRY(rt_exec_run(x, program, &t->ticket, e));
    if (waits) RT_TRY(rt_exec_wait(x, t->ticket, e));
    t->waited = rt_now() - begun;
out:
    return rc;
}

int rt_exec_measure(rt_exec *x, uint32_t program, rt_exec_span *out, rt_err *e)
{
    int rc;
    rt_queue_times t;
    *out = (rt_exec_span){ 0 };
    if (program >= x->nprogs || x->opts.dry)
        RT_TRY(rt_fail(e, RT_INVALID, "program %u cannot be measured, of %u that may be dry", program, x->nprogs));
    if (!x->dev->api->queue_times)
        RT_TRY(rt_fail(e, RT_UNSUPPORTED, "the queues of %s do not run side by side", x->dev->api->name));
    RT_TRY(rt_guards_begin(x, program, e));
    RT_TRY(x->dev->api->queue_times(x->dev, x->prog[program].prog, &t, e));
    *out = (rt_exec_span){ .total = t.total, .compute = t.total - t.waited, .copy = t.copy };
out:
    return rc;
}

int rt_exec_wait(rt_exec *x, rt_ticket t, rt_err *e) { return x->dev->api->wait(x->dev, t, e); }

double rt_exec_seconds(const rt_exec *x, const rt_exec_timing *t)
{
    return x->dev->api->seconds ? x->dev->api->seconds(x->dev, t->ticket) : t->waited;
}

bool rt_exec_enqueues(const rt_exec *x) { return x->dev->api->async; }

void rt_exec_memory_query(const rt_exec *x, rt_exec_memory *out)
{
    *out = (rt_exec_memory){ 0 };
    for (int k = 0; k < RT_CLASS_COUNT; k++) {
        out->by_class[k] = x->bytes[k];
        if (rt_is_on_device(x, (rt_class)k)) out->total += x->bytes[k];
    }
    if (!x->host) out->host = x->bytes[RT_CLASS_HOST];
    out->disk = x->bytes[RT_CLASS_DISK];
    for (uint32_t i = 0; i < x->nprogs; i++)
        if (x->prog[i].peak > out->peak_live) {
            out->peak_live = x->prog[i].peak;
            out->peak_op = x->prog[i].peak_op;
            out->peak_program = i;
        }
}

const rt_plan *rt_exec_plan(const rt_exec *x, uint32_t program)
{
    return program < x->nprogs ? x->prog[program].plan : NULL;
}

/* Does an op of this kind have plain kernels for this reason? Reasons are texts, of which a backend may have two alike.
 */
static bool is_plain(const rt_exec *x, rt_op_kind kind, const char *why)
{
    for (uint32_t i = 0; i < x->nprogs; i++)
        for (uint32_t t = 0; t < x->prog[i].plan->nops; t++) {
            const char *text = x->prog[i].plain[t];
            if (text && x->prog[i].plan->ops[t].kind == kind && strcmp(text, why) == 0) return true;
        }
    return false;
}

static void append_plain(const rt_exec *x, const char *why, rt_str *out)
{
    uint32_t n = 0;
    for (int k = 0; k < RT_OP_COUNT; k++)
        if (is_plain(x, (rt_op_kind)k, why)) rt_str_printf(out, "%s%s", n++ ? ", " : "", rt_op_name((rt_op_kind)k));
    rt_str_printf(out, " (%s)", why);
}

void rt_exec_plain(const rt_exec *x, rt_str *out)
{
    enum { MOST = 8 };
    const char *told[MOST];
    uint32_t n = 0;
    for (uint32_t i = 0; i < x->nprogs; i++)
        for (uint32_t t = 0; t < x->prog[i].plan->nops; t++) {
            const char *why = x->prog[i].plain[t];
            bool known = !why || n == MOST;
            for (uint32_t k = 0; k < n && !known; k++) known = strcmp(told[k], why) == 0;
            if (known) continue;
            if (n) rt_str_append(out, "; ");
            append_plain(x, why, out);
            told[n++] = why;
        }
}

int rt_exec_print(const rt_exec *x, uint32_t program, rt_print format, rt_str *out, rt_err *e)
{
    int rc;
    rt_dev_info info;
    if (program >= x->nprogs) return rt_fail(e, RT_INVALID, "program %u of %u was asked for", program, x->nprogs);
    const rt_sealed *s = &x->prog[program];
    RT_TRY(x->dev->api->info(x->dev, &info, e));
    rt_plan_notes notes = { x->dev->api->name, info.name, s->kernel, s->place, s->arena };
    RT_TRY(rt_plan_print(s->plan, &notes, format, out, e));
out:
    return rc;
}

int rt_exec_hash(const rt_exec *x, uint32_t program, rt_hash128 *out, rt_err *e)
{
    int rc;
    rt_str text = { 0 };
    rt_hash128 plan;
    char hex[33];
    if (program >= x->nprogs) return rt_fail(e, RT_INVALID, "program %u of %u was asked for", program, x->nprogs);
    const rt_sealed *s = &x->prog[program];
    RT_TRY(rt_plan_hash(s->plan, &plan, e));
    rt_str_printf(&text, "%s\n%s\n", x->dev->api->name, rt_hash_text(hex, plan));
    x->dev->api->identity(x->dev, &text);
    for (uint32_t t = 0; t < s->plan->nops; t++) rt_str_printf(&text, "\n%s", s->kernel[t]);
    if (text.failed) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to hash program %u", program));
    *out = rt_hash(text.data, text.len);
out:
    rt_str_free(&text);
    return rc;
}
