/* run_supply.c - a teacher's cache that is filled while the run goes on: the step waits for what it is about to read.
 *
 * Owns: waiting, what is to be asked and in which order, and the server's name for a run that is resumed. Who asks is
 * the caller's (rt_supply). A step that waits has changed nothing: it is given up like any other. */
#include "job/run/run_internal.h"

#include "base/sys.h"

#include <stddef.h>
#include <string.h>

enum { NAME_BYTES = 8192 };

/* ---- waiting ---- */

/* Positions that the source would not find. */
static int lacks(rt_run *r, rt_source_use use, const rt_source_rows *rows, uint64_t *positions, rt_err *e)
{
    rt_cache_missing m = { 0 };
    int rc = rt_cache_source_look(r->in->cache, use, rows, &m, e);
    *positions = m.positions;
    return rc;
}

static int fill_waiting(rt_source *s, rt_source_use use, const rt_source_rows *rows, const rt_source_out *out,
                        rt_err *e)
{
    int rc;
    uint64_t missing;
    rt_run *r = (rt_run *)(void *)((char *)s - offsetof(rt_run, waiting));
    rt_source *cache = rt_cache_source_of(r->in->cache);
    const rt_supply *from = r->opts->supply;
    double begun = rt_now();
    bool over = false;
    RT_TRY(lacks(r, use, rows, &missing, e));
    for (; missing && !over; r->waited += rt_now() - begun, begun = rt_now()) {
        RT_TRY(from->wait(from->ctx, &r->watch, e));
        over = rc == 1;
        RT_TRY(lacks(r, use, rows, &missing, e));
    }
    RT_TRY(cache->fill(cache, use, rows, out, e));
out:
    return rc;
}

rt_source *rt_run_source(rt_run *r)
{
    if (!r->opts->supply) return rt_cache_source_of(r->in->cache);
    r->waiting.fill = fill_waiting;
    return &r->waiting;
}

/* ---- what is asked ---- */

/* A source's units come in passes. */
uint64_t rt_run_epochs_of_all(const rt_inputs *in)
{
    uint64_t most = 1;
    for (uint32_t i = 0; i < in->train_count; i++) {
        const rt_rows_count *n = rt_rows_of_source(in->train, i);
        uint64_t pass = n->per_epoch ? (n->units + n->per_epoch - 1) / n->per_epoch : 1;
        if (pass > most) most = pass;
    }
    return 2 * most;
}

int rt_run_supply_begin(rt_run *r, rt_err *e)
{
    const rt_supply *s = r->opts->supply;
    if (!s) return RT_OK;
    const rt_cursor *at = &r->loop.state.cursor;
    const uint64_t steps = r->resolved.seconds > 0 ? RT_SMOKE_STEPS : r->resolved.steps;
    const rt_run_reads reads = { .in = r->in,
                                 .settings = r->settings,
                                 .resolved = &r->resolved,
                                 .first = at->rows,
                                 .rows = steps * r->resolved.batch,
                                 .epochs = at->epoch + rt_run_epochs_of_all(r->in),
                                 .held = rt_eval_set_all(r->held),
                                 .held_rows = rt_eval_set_rows(r->held) };
    return s->begin(s->ctx, &reads, e);
}

void rt_run_supply_end(rt_run *r)
{
    if (r->opts->supply) r->opts->supply->end(r->opts->supply->ctx);
    if (r->waited >= 1) rt_run_note(r, "the run waited %.0f s for what the teacher says", r->waited);
    r->waited = 0;
}

/* ---- the server's name ---- */

int rt_run_supply_keep(const rt_run *r, rt_err *e)
{
    const rt_supply *s = r->opts->supply;
    if (!s || !s->name || r->temporary) return RT_OK;
    return rt_file_write(r->server_path, s->name, strlen(s->name), e);
}

int rt_run_server(char **name, const char *out, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    rt_str text = { 0 };
    char *path = out ? rt_arena_printf(a, "%s/run/" RT_RUN_SERVER, out) : NULL;
    *name = NULL;
    if (out && !path) RT_TRY(rt_no_memory(e, "a path"));
    if (!path || !rt_path_exists(path)) goto out;
    RT_TRY(rt_file_read(path, NAME_BYTES, &text, e));
    if (text.len && !(*name = rt_arena_strdup(a, text.data))) RT_TRY(rt_no_memory(e, "a server's name"));
out:
    rt_str_free(&text);
    return rc;
}
