/* engine_prompt.c - prompts: their next piece into the cache, and the log-probabilities of their own ids (echo). */
#include "infer/engine_internal.h"

#include <math.h>
#include <string.h>

/* Which piece comes next is a function of what is left alone, so that a prompt is always cut in the same places. */
static int piece_for(uint32_t left)
{
    return left > RT_ENGINE_LARGE - RT_ENGINE_SMALL ? RT_PIECE_LARGE : RT_PIECE_SMALL;
}

/* The part of a prompt that is read: n ids from position at on. */
typedef struct part {
    rt_seat *seat; /* null: nobody's, which reads page 0 and writes nothing */
    uint32_t at, n;
} part;

/* Rows b T.. of a program's inputs. A piece is filled up with its last id, which goes nowhere. */
static void fill_part(const rt_engine *g, const rt_feed *f, const part *x, uint32_t b, int32_t *len)
{
    const uint32_t T = f->tokens.T, rows = f->tokens.B * T;
    int32_t *id = g->host + b * T, *pos = id + rows, *to = pos + rows, *pages = g->piece_table + b * g->per_seat;
    const rt_seat *s = x->seat;
    *len = (int32_t)(x->at + T);
    memset(pages, 0, g->per_seat * sizeof *pages);
    if (s) memcpy(pages, g->table + (size_t)rt_seat_index(g, s) * g->per_seat, g->per_seat * sizeof *pages);
    for (uint32_t i = 0; i < T; i++) {
        const uint32_t p = x->at + i;
        id[i] = s ? (int32_t)s->ids[i < x->n ? p : x->at + x->n - 1] : 0;
        pos[i] = (int32_t)p;
        to[i] = i < x->n ? pages[p / RT_ENGINE_PAGE] * RT_ENGINE_PAGE + (int32_t)(p % RT_ENGINE_PAGE) : -1;
    }
}

/* parts: as many as the program takes. */
static int write_parts(rt_engine *g, const rt_feed *f, const part *parts, rt_err *e)
{
    int rc;
    const uint64_t B = f->tokens.B, rows = B * f->tokens.T;
    int32_t len[RT_ENGINE_PIECES];
    for (uint32_t b = 0; b < B; b++) fill_part(g, f, &parts[b], b, &len[b]);
    RT_TRY(rt_exec_write(g->x, f->tokens.ids, g->host, rows * sizeof *g->host, e));
    RT_TRY(rt_exec_write(g->x, f->tokens.pos, g->host + rows, rows * sizeof *g->host, e));
    RT_TRY(rt_exec_write(g->x, f->rows.to, g->host + 2 * rows, rows * sizeof *g->host, e));
    RT_TRY(rt_exec_write(g->x, f->rows.len, len, B * sizeof *len, e));
    RT_TRY(rt_exec_write(g->x, f->rows.table, g->piece_table, B * g->per_seat * sizeof *g->piece_table, e));
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

/* Is anybody's time spent while prompts are read? If not, the last piece of one is waited for, so that what it took is
 * known from what its answer takes. */
static bool is_alone(const rt_engine *g)
{
    for (uint32_t i = 0; i < g->slots; i++)
        if (rt_seat_ready(&g->seat[i])) return false;
    return true;
}

static uint32_t left_of(const rt_seat *s) { return s->count - 1 - s->read; }

/* The oldest request after the one named `after` whose prompt is not read; null when there is none. */
static rt_seat *next_reader(const rt_engine *g, uint64_t after)
{
    rt_seat *best = NULL;
    for (uint32_t i = 0; i < g->slots; i++) {
        rt_seat *s = &g->seat[i];
        if (s->name > after && !rt_seat_ready(s) && (!best || s->name < best->name)) best = s;
    }
    return best;
}

/* The oldest prompt, and others whose next piece is as long; returns how many. */
static uint32_t find_parts(const rt_engine *g, part parts[RT_ENGINE_PIECES], int *which)
{
    uint32_t n = 0;
    for (rt_seat *s = next_reader(g, 0); s && n < g->opts.prompts; s = next_reader(g, s->name)) {
        const uint32_t left = left_of(s), T = rt_piece_rows(piece_for(left));
        if (n == 0) *which = piece_for(left);
        if (piece_for(left) == *which) parts[n++] = (part){ s, s->read, left < T ? left : T };
    }
    return n;
}

static int echo(rt_engine *g, const part *x, int which, rt_err *e)
{
    int rc;
    rt_seat *s = x->seat;
    const uint64_t name = s->name;
    RT_TRY(score(g, &g->echo[which], s, x->at, x->n, rt_piece_rows(which), e));
    s->read += x->n;
    if (x->at == 0) RT_TRY(tell_prompt(g, s, 0, 1, e));
    if (s->name == name) RT_TRY(tell_prompt(g, s, x->at + 1, x->n, e));
out:
    return rc;
}

int rt_engine_read_pieces(rt_engine *g, uint32_t *count, rt_err *e)
{
    int rc = RT_OK, which = 0;
    rt_ticket t;
    part parts[RT_ENGINE_PIECES] = { 0 };
    const bool alone = is_alone(g);
    bool last = false;
    const uint32_t n = *count = find_parts(g, parts, &which);
    const rt_feed *f = &g->piece[which];
    if (!n) return RT_OK;
    RT_TRY(write_parts(g, f, parts, e));
    RT_TRY(rt_exec_run(g->x, g->first + f->program, &t, e));
    for (uint32_t i = 0; i < n; i++) {
        last = last || parts[i].n == left_of(parts[i].seat);
        g->stats.prompt_tokens += parts[i].n;
    }
    if (last && alone) RT_TRY(rt_exec_wait(g->x, t, e));
    if (parts[0].seat->ask.echo) return echo(g, &parts[0], which, e);
    for (uint32_t i = 0; i < n; i++) parts[i].seat->read += parts[i].n;
out:
    return rc;
}
