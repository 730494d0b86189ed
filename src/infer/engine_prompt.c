/* engine_prompt.c - prompts: their next piece into the cache, and the log-probabilities of their own ids (echo). */
#include "infer/engine_internal.h"

#include <math.h>

/* Which piece comes next is a function of what is left alone, so that a prompt is always cut in the same places. */
static int piece_for(uint32_t left)
{
    return left > RT_ENGINE_LARGE - RT_ENGINE_SMALL ? RT_PIECE_LARGE : RT_PIECE_SMALL;
}

/* n ids of the prompt from position at on; the piece is filled up with the last of them, which goes nowhere. */
static int write_piece(rt_engine *g, const rt_feed *f, const rt_seat *s, uint32_t at, uint32_t n, rt_err *e)
{
    int rc;
    const uint32_t T = f->tokens.T, slot = rt_seat_index(g, s);
    const int32_t *pages = g->table + (size_t)slot * g->per_seat;
    int32_t *id = g->host, *pos = id + T, *to = pos + T, len = (int32_t)(at + T);
    for (uint32_t i = 0; i < T; i++) {
        const uint32_t p = at + i;
        id[i] = (int32_t)s->ids[i < n ? p : at + n - 1];
        pos[i] = (int32_t)p;
        to[i] = i < n ? pages[p / RT_ENGINE_PAGE] * RT_ENGINE_PAGE + (int32_t)(p % RT_ENGINE_PAGE) : -1;
    }
    RT_TRY(rt_exec_write(g->x, f->tokens.ids, id, T * sizeof *id, e));
    RT_TRY(rt_exec_write(g->x, f->tokens.pos, pos, T * sizeof *pos, e));
    RT_TRY(rt_exec_write(g->x, f->rows.to, to, T * sizeof *to, e));
    RT_TRY(rt_exec_write(g->x, f->rows.len, &len, sizeof len, e));
    RT_TRY(rt_exec_write(g->x, f->rows.table, pages, g->per_seat * sizeof *pages, e));
out:
    return rc;
}

/* Scores the n ids that come after those of the piece that has just run; in g->logps, and the likely ones. */
static int score(rt_engine *g, const rt_echo *x, const rt_seat *s, uint32_t at, uint32_t n, uint32_t T, rt_err *e)
{
    int rc;
    rt_ticket t;
    for (uint32_t i = 0; i < T; i++) g->ids[i] = i < n ? (int32_t)s->ids[at + i + 1] : -1;
    RT_TRY(rt_exec_write(g->x, x->target, g->ids, T * sizeof *g->ids, e));
    RT_TRY(rt_exec_run(g->x, g->first + x->program, &t, e));
    RT_TRY(rt_exec_wait(g->x, t, e));
    RT_TRY(rt_engine_read_scalars(g, x->ce, g->logps, T, e));
    if (!g->opts.top) goto out;
    RT_TRY(rt_exec_read(g->x, x->top_id, g->top_ids, (uint64_t)T * g->opts.top * sizeof *g->top_ids, e));
    RT_TRY(rt_engine_read_scalars(g, x->top_logp, g->top_logps, (uint64_t)T * g->opts.top, e));
out:
    return rc;
}

/* Tells of the prompt's ids at places first .. first + n - 1; logps: those of the last n rows. */
static int tell_prompt(rt_engine *g, rt_seat *s, uint32_t first, uint32_t n, rt_err *e)
{
    int rc = RT_OK;
    const uint64_t name = s->name;
    for (uint32_t i = 0; i < n && s->name == name; i++) {
        rt_token_event t = { .prompt = true, .place = first + i, .id = s->ids[first + i], .likely.logp = NAN };
        if (first + i > 0) {
            t.likely.logp = -g->logps[i];
            t.likely.rank_count = s->ask.top;
            t.likely.id = g->top_ids + (size_t)i * g->opts.top;
            t.likely.each = g->top_logps + (size_t)i * g->opts.top;
        }
        RT_TRY(rt_engine_tell(g, s, &t, e));
    }
out:
    return rc;
}

/* Is anybody's time spent while this prompt is read? If not, its last piece is waited for, so that what it took is
 * known from what its answer takes. */
static bool is_alone(const rt_engine *g, const rt_seat *s)
{
    for (uint32_t i = 0; i < g->slots; i++)
        if (&g->seat[i] != s && rt_seat_ready(&g->seat[i])) return false;
    return true;
}

int rt_engine_read_piece(rt_engine *g, rt_seat *s, rt_err *e)
{
    int rc;
    rt_ticket t;
    const uint64_t name = s->name;
    const uint32_t at = s->read, left = s->count - 1 - at;
    const int which = piece_for(left);
    const rt_feed *f = &g->piece[which];
    const uint32_t T = f->tokens.T, n = left < T ? left : T;
    RT_TRY(write_piece(g, f, s, at, n, e));
    RT_TRY(rt_exec_run(g->x, g->first + f->program, &t, e));
    if (s->ask.echo) RT_TRY(score(g, &g->echo[which], s, at, n, T, e));
    if (n == left && is_alone(g, s)) RT_TRY(rt_exec_wait(g->x, t, e));
    s->read = at + n;
    g->stats.prompt_tokens += n;
    if (!s->ask.echo) goto out;
    if (at == 0) RT_TRY(tell_prompt(g, s, 0, 1, e));
    if (s->name == name) RT_TRY(tell_prompt(g, s, at + 1, n, e));
out:
    return rc;
}
