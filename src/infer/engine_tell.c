/* engine_tell.c - requests hear of their ids and end; values between the host and the engine's buffers. See engine.h.
 */
#include "infer/engine_internal.h"

#include <math.h>

static void release(rt_engine *g, rt_seat *s)
{
    const uint32_t slot = rt_seat_index(g, s);
    rt_free((void *)(uintptr_t)s->ask.stop);
    rt_pages_give_back(&g->pages, g->table + (size_t)slot * g->per_seat, g->per_seat);
    *s = (rt_seat){ .ids = s->ids };
    rt_engine_set_how(g, slot, &rt_sampling_greedy);
    g->changed = true;
    g->stats.ended++;
}

int rt_engine_tell(rt_engine *g, rt_seat *s, rt_token_event *t, rt_err *e)
{
    const rt_request ask = s->ask;
    t->request = g->told = s->name;
    g->told_slot = rt_seat_index(g, s);
    if (t->end != RT_END_NONE) release(g, s);
    int rc = ask.fn ? ask.fn(ask.ctx, t, e) : 0;
    g->told = 0;
    if (rc != 0 && t->end == RT_END_NONE && s->name == t->request) release(g, s);
    return rc < 0 ? rc : RT_OK;
}

void rt_engine_settle_steps(rt_engine *g)
{
    for (int i = 0; i < 2; i++) {
        if (g->flight[i].under_way) (void)rt_exec_wait(g->x, g->flight[i].ticket, NULL);
        g->flight[i].under_way = false;
    }
}

int rt_engine_cancel(rt_engine *g, uint64_t name, rt_err *e)
{
    rt_token_event t = { .id = UINT32_MAX, .likely.logp = NAN, .end = RT_END_CANCELLED };
    for (uint32_t i = 0; i < g->slots; i++)
        if (name && g->seat[i].name == name) {
            (void)rt_engine_tell(g, &g->seat[i], &t, e);
            if (g->stats.requests == g->stats.ended) rt_engine_settle_steps(g);
            return RT_OK;
        }
    return rt_fail(e, RT_NOT_FOUND, "there is no request %llu under way", (unsigned long long)name);
}

int rt_engine_logits(rt_engine *g, uint64_t name, float *logits, rt_err *e)
{
    int rc;
    const uint64_t bytes = rt_dtype_bytes(g->policy.logits, g->vocab);
    const rt_view row = { g->logits.buf, 1, g->vocab, g->logits.off + g->told_slot * g->logits.stride,
                          g->logits.stride };
    void *raw = NULL;
    if (rt_exec_enqueues(g->x) && !g->opts.logits)
        RT_TRY(rt_fail(e, RT_INVALID, "logits were asked for, and the engine was not sealed for them"));
    if (!name || name != g->told)
        RT_TRY(rt_fail(e, RT_NOT_FOUND, "logits were asked for outside of a request's own event"));
    if (g->policy.logits == RT_DTYPE_F32) return rt_exec_read(g->x, row, logits, bytes, e);
    if (!(raw = rt_alloc(bytes, 64))) RT_TRY(rt_no_memory(e, "logits"));
    RT_TRY(rt_exec_read(g->x, row, raw, bytes, e));
    rt_float_to_f32(logits, raw, g->policy.logits, g->vocab);
out:
    rt_free(raw);
    return rc;
}

/* ---- values ---- */

int rt_engine_write_scalars(rt_engine *g, rt_view v, const float *x, uint64_t n, rt_err *e)
{
    int rc;
    double *wide = NULL;
    if (g->policy.scalar != RT_DTYPE_F64) return rt_exec_write(g->x, v, x, n * sizeof *x, e);
    if (!(wide = rt_alloc(n * sizeof *wide, 16))) RT_TRY(rt_no_memory(e, "values in double"));
    for (uint64_t i = 0; i < n; i++) wide[i] = (double)x[i];
    RT_TRY(rt_exec_write(g->x, v, wide, n * sizeof *wide, e));
out:
    rt_free(wide);
    return rc;
}

int rt_engine_read_scalars(rt_engine *g, rt_view v, float *x, uint64_t n, rt_err *e)
{
    int rc;
    double *wide = NULL;
    if (g->policy.scalar != RT_DTYPE_F64) return rt_exec_read(g->x, v, x, n * sizeof *x, e);
    if (!(wide = rt_alloc(n * sizeof *wide, 16))) RT_TRY(rt_no_memory(e, "values in double"));
    RT_TRY(rt_exec_read(g->x, v, wide, n * sizeof *wide, e));
    for (uint64_t i = 0; i < n; i++) x[i] = (float)wide[i];
out:
    rt_free(wide);
    return rc;
}
