/* guard.c - the debugging aids of a sealed program: guard bands around every buffer, and an arena that starts as NaN.
 * Both go through the seam's copy, so they work for any backend; neither allocates. */
#include "exec/exec_internal.h"

#include <string.h>

static int put(rt_exec *x, rt_mem *mem, uint64_t off, uint64_t bytes, rt_err *e)
{
    rt_ticket t = 0;
    int rc = RT_OK;
    while (bytes && rc >= 0) {
        uint64_t n = bytes < RT_EXEC_SCRATCH ? bytes : RT_EXEC_SCRATCH;
        rt_copy c = { mem, off, n, x->scratch, true };
        rc = x->dev->api->copy(x->dev, &c, &t, e);
        off += n;
        bytes -= n;
    }
    return rc < 0 ? rc : x->dev->api->wait(x->dev, t, e);
}

typedef int (*band_fn)(rt_exec *x, rt_mem *mem, uint64_t off, const rt_buffer *b, rt_err *e);

/* Calls fn for the band before and after each buffer of the space. */
static int space_bands(rt_exec *x, band_fn fn, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < x->space->nbufs; i++) {
        const rt_buffer *b = &x->space->bufs[i];
        if (b->cls == RT_CLASS_DISK) continue;
        RT_TRY(fn(x, x->mem[b->cls], x->space_off[i] - RT_GUARD_BYTES, b, e));
        RT_TRY(fn(x, x->mem[b->cls], x->space_off[i] + b->bytes, b, e));
    }
out:
    return rc;
}

/* The same for the activations of one program. Programs share the arena, so each tramples the others' bands: they are
 * there only from the start of the program's run to the start of the next. */
static int arena_bands(rt_exec *x, uint32_t program, band_fn fn, rt_err *e)
{
    int rc = RT_OK;
    const rt_sealed *s = &x->prog[program];
    for (uint32_t i = 0; i < s->plan->nacts; i++) {
        const rt_buffer *b = &s->plan->acts[i];
        if (s->place[i] == UINT64_MAX) continue;
        RT_TRY(fn(x, x->mem[RT_CLASS_ACT], s->place[i] - RT_GUARD_BYTES, b, e));
        RT_TRY(fn(x, x->mem[RT_CLASS_ACT], s->place[i] + b->bytes, b, e));
    }
out:
    return rc;
}

static int write_band(rt_exec *x, rt_mem *mem, uint64_t off, const rt_buffer *b, rt_err *e)
{
    (void)b;
    return put(x, mem, off, RT_GUARD_BYTES, e);
}

static int check_band(rt_exec *x, rt_mem *mem, uint64_t off, const rt_buffer *b, rt_err *e)
{
    int rc;
    rt_ticket t;
    rt_copy c = { mem, off, RT_GUARD_BYTES, x->scratch, false };
    RT_TRY(x->dev->api->copy(x->dev, &c, &t, e));
    RT_TRY(x->dev->api->wait(x->dev, t, e));
    for (int i = 0; i < RT_GUARD_BYTES; i++)
        if (x->scratch[i] != RT_GUARD_BYTE)
            return rt_fail(e, RT_INTERNAL, "an op wrote outside buffer '%s' (%u,%u) %s: guard byte %d is 0x%02x",
                           b->name, b->rows, b->cols, rt_dtype_name(b->dtype), i, x->scratch[i]);
out:
    return rc;
}

int rt_guards_write(rt_exec *x, rt_err *e)
{
    memset(x->scratch, RT_GUARD_BYTE, RT_EXEC_SCRATCH);
    return space_bands(x, write_band, e);
}

int rt_exec_check(rt_exec *x, rt_err *e)
{
    int rc;
    if (!x->opts.guards || x->opts.dry) return rt_fail(e, RT_INVALID, "sealed without guard bands: nothing to check");
    RT_TRY(space_bands(x, check_band, e));
    if (x->running) RT_TRY(arena_bands(x, x->running - 1, check_band, e));
out:
    return rc;
}

static int poison_arena(rt_exec *x, rt_err *e)
{
    if (!x->mem[RT_CLASS_ACT]) return RT_OK;
    memset(x->scratch, 0xff, RT_EXEC_SCRATCH); /* NaN in every float type */
    return put(x, x->mem[RT_CLASS_ACT], 0, x->bytes[RT_CLASS_ACT], e);
}

int rt_guards_begin(rt_exec *x, uint32_t program, rt_err *e)
{
    int rc = RT_OK;
    if (x->opts.guards && x->running) RT_TRY(rt_exec_check(x, e)); /* nobody may have asked since it ran */
    if (x->opts.poison) RT_TRY(poison_arena(x, e));
    if (x->opts.guards) {
        memset(x->scratch, RT_GUARD_BYTE, RT_EXEC_SCRATCH);
        RT_TRY(arena_bands(x, program, write_band, e));
    }
    x->running = program + 1;
out:
    return rc;
}
