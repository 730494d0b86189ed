/* engine.c - requests: taken, stepped, told of their ids, ended. See engine.h; the programs are engine_record.c's,
 * prompts engine_prompt.c's. */
#include "infer/engine_internal.h"

#include "base/hash.h"
#include "base/sys.h"

#include <math.h>
#include <string.h>

uint32_t rt_engine_slots(const rt_engine *g) { return g->slots; }
uint32_t rt_engine_context(const rt_engine *g) { return g->context; }
uint32_t rt_engine_vocab(const rt_engine *g) { return g->vocab; }
rt_exec *rt_engine_exec(const rt_engine *g) { return g->x; }

rt_engine_stats rt_engine_stats_of(const rt_engine *g)
{
    rt_engine_stats s = g->stats;
    s.pages = g->pages.count;
    s.pages_free = g->pages.left;
    s.page = RT_ENGINE_PAGE;
    return s;
}

uint32_t rt_engine_busy(const rt_engine *g)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < g->slots; i++) n += g->seat[i].name != 0;
    return n;
}

/* ---- taking ---- */

static uint32_t pages_of(const rt_engine *g, uint32_t count, uint32_t max_new)
{
    uint64_t positions = (uint64_t)count + max_new;
    if (positions > g->context) positions = g->context;
    return (uint32_t)((positions + RT_ENGINE_PAGE - 1) / RT_ENGINE_PAGE);
}

static rt_seat *free_seat(const rt_engine *g)
{
    for (uint32_t i = 0; i < g->slots; i++)
        if (!g->seat[i].name) return &g->seat[i];
    return NULL;
}

bool rt_engine_has_room(const rt_engine *g, uint32_t count, uint32_t max_new)
{
    return free_seat(g) && pages_of(g, count, max_new) <= g->pages.left;
}

int rt_engine_check(const rt_engine *g, const rt_request *r, rt_err *e)
{
    if (r->count == 0) return rt_fail(e, RT_INVALID, "the prompt is empty; there is nothing to continue");
    if (r->count >= g->context + (r->max_new == 0))
        return rt_fail(e, RT_INVALID, "the prompt has %u tokens, and the context is %u; %s", r->count, g->context,
                       g->context < g->model->config.context ? "raise --context" : "it is the model's own");
    if (pages_of(g, r->count, r->max_new) > g->pages.count)
        return rt_fail(e, RT_INVALID,
                       "a prompt of %u tokens and an answer of up to %u need %u pages of the cache, which "
                       "has %u; make it larger",
                       r->count, r->max_new, pages_of(g, r->count, r->max_new), g->pages.count);
    for (uint32_t i = 0; i < r->count; i++)
        if (r->prompt[i] >= g->vocab)
            return rt_fail(e, RT_INVALID, "id %u of the prompt is outside the model's vocabulary of %u", r->prompt[i],
                           g->vocab);
    if (r->top > g->opts.top)
        return rt_fail(e, RT_INVALID, "%u likely ids per token were asked for, and the engine was sealed for %u",
                       r->top, g->opts.top);
    if (r->echo && !g->opts.echo)
        return rt_fail(e, RT_INVALID,
                       "log-probabilities of the prompt were asked for, and the engine was not sealed for them");
    return rt_sampling_check(&r->sampling, e);
}

/* Where the draws of a request begin among the random numbers of `sample`. */
static uint64_t first_key(const rt_request *r)
{
    const rt_hash128 prompt = rt_hash(r->prompt, r->count * sizeof *r->prompt);
    const uint64_t words[] = { r->sampling.seed, r->ordinal, prompt.hi, prompt.lo };
    return rt_hash(words, sizeof words).lo;
}

int rt_engine_add(rt_engine *g, const rt_request *r, uint64_t *name, rt_err *e)
{
    int rc;
    uint32_t *stop = NULL;
    RT_TRY(rt_engine_check(g, r, e));
    if (!rt_engine_has_room(g, r->count, r->max_new))
        RT_TRY(rt_fail(e, RT_INVALID, "all %u slots are busy, or the cache is full", g->slots));
    rt_seat *s = free_seat(g);
    const uint32_t slot = rt_seat_index(g, s);
    if (r->stops && !(stop = rt_alloc(r->stops * sizeof *stop, 16))) RT_TRY(rt_no_memory(e, "the ids that end a text"));
    if (stop) memcpy(stop, r->stop, r->stops * sizeof *stop);
    rt_pages_take(&g->pages, g->table + (size_t)slot * g->per_seat, pages_of(g, r->count, r->max_new), g->per_seat);
    memcpy(s->ids, r->prompt, r->count * sizeof *s->ids);
    *s = (rt_seat){ .name = ++g->named, .ask = *r, .ids = s->ids, .count = r->count, .key = first_key(r) };
    s->ask.prompt = s->ids;
    s->ask.stop = stop;
    stop = NULL;
    rt_engine_set_how(g, slot, &r->sampling);
    g->changed = true;
    g->stats.requests++;
    if (name) *name = s->name;
out:
    rt_free(stop);
    return rc;
}

/* ---- a token of every answer ---- */

/* The row of the cache where position at of a slot lies. */
static int32_t cache_row(const rt_engine *g, uint32_t slot, uint32_t at)
{
    return g->table[(size_t)slot * g->per_seat + at / RT_ENGINE_PAGE] * RT_ENGINE_PAGE + (int32_t)(at % RT_ENGINE_PAGE);
}

/* Places of the token program; returns how many slots have a part in it. A slot without one reads page 0 and writes
 * nothing. What a request was asked to make in all is known, so no step is begun beyond that. */
static uint32_t fill_feed(rt_engine *g, rt_flight *f)
{
    const uint32_t N = g->slots;
    int32_t *pos = g->host, *to = pos + N, *len = to + N;
    uint32_t busy = 0;
    f->top = false;
    for (uint32_t i = 0; i < N; i++) {
        rt_seat *s = &g->seat[i];
        const uint32_t made = s->made + s->ahead, at = s->count - 1 + made;
        const bool ready = rt_seat_ready(s) && made < s->ask.max_new && at < g->context;
        const uint64_t key = s->key + made;
        f->name[i] = ready ? s->name : 0;
        busy += ready;
        f->top = f->top || (ready && s->ask.top);
        pos[i] = ready ? (int32_t)at : 0;
        to[i] = ready ? cache_row(g, i, at) : -1;
        len[i] = ready ? (int32_t)at + 1 : 1;
        g->keys[2 * i] = (uint32_t)key;
        g->keys[2 * i + 1] = (uint32_t)(key >> 32);
    }
    return busy;
}

/* Of answers that begin: the last id of their prompt, which the token program finds where it left the others, and the
 * ids that were seen. Not before: a slot without a part in a step draws an id too. */
static int write_beginning(rt_engine *g, const rt_flight *f, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < g->slots; i++) {
        const rt_seat *s = &g->seat[i];
        const rt_view ids = g->token.tokens.ids, id = { ids.buf, 1, 1, ids.off + i * ids.stride, ids.stride };
        const rt_view row = { g->seen.buf, 1, g->words, g->seen.off + i * g->seen.stride, g->seen.stride };
        if (!f->name[i] || s->made || s->ahead) continue;
        RT_TRY(rt_exec_write(g->x, id, &s->ids[s->count - 1], sizeof *s->ids, e));
        if (s->ask.sampling.repetition_penalty == 1.0) continue;
        memset(g->bits, 0, g->words * sizeof *g->bits);
        for (uint32_t k = 0; k < s->count; k++) g->bits[s->ids[k] / 32] |= 1u << s->ids[k] % 32;
        RT_TRY(rt_exec_write(g->x, row, g->bits, g->words * sizeof *g->bits, e));
    }
out:
    return rc;
}

static int write_feed(rt_engine *g, const rt_flight *f, rt_err *e)
{
    int rc;
    const uint64_t N = g->slots;
    RT_TRY(rt_exec_write(g->x, g->places, g->host, 3 * N * sizeof *g->host, e));
    RT_TRY(rt_exec_write(g->x, g->key, g->keys, 2 * N * sizeof *g->keys, e));
    RT_TRY(write_beginning(g, f, e));
    if (!g->changed) goto out;
    RT_TRY(rt_exec_write(g->x, g->token.rows.table, g->table, N * g->per_seat * sizeof *g->table, e));
    RT_TRY(rt_engine_write_scalars(g, g->how, g->hows, N * RT_HOW_COLS, e));
    g->changed = false;
out:
    return rc;
}

static int scalars_later(rt_engine *g, rt_view v, float *x, uint64_t n, rt_ticket *t, rt_err *e)
{
    if (g->policy.scalar == RT_DTYPE_F64) return rt_engine_read_scalars(g, v, x, n, e);
    return rt_exec_read_later(g->x, v, x, n * sizeof *x, t, e);
}

/* Enqueues a step of answers and the way back of what it says; nothing where no answer wants one. */
static int begin_step(rt_engine *g, rt_flight *f, rt_err *e)
{
    int rc;
    const uint64_t N = g->slots;
    const uint32_t busy = fill_feed(g, f);
    if (!busy) return RT_OK;
    RT_TRY(write_feed(g, f, e));
    RT_TRY(rt_exec_run(g->x, g->first + g->token.program, &f->ticket, e));
    if (f->top) RT_TRY(rt_exec_run(g->x, g->first + g->top_program, &f->ticket, e));
    RT_TRY(rt_exec_read_later(g->x, g->token.tokens.ids, f->ids, N * sizeof *f->ids, &f->ticket, e));
    RT_TRY(scalars_later(g, g->logp, f->logps, N, &f->ticket, e));
    if (f->top) {
        RT_TRY(rt_exec_read_later(g->x, g->top_id, f->top_ids, N * g->opts.top * sizeof *f->top_ids, &f->ticket, e));
        RT_TRY(scalars_later(g, g->top_logp, f->top_logps, N * g->opts.top, &f->ticket, e));
    }
    for (uint32_t i = 0; i < N; i++) g->seat[i].ahead += f->name[i] != 0;
    f->under_way = true;
    g->stats.steps++;
    g->stats.rows += busy;
out:
    return rc;
}

static rt_end end_after(const rt_engine *g, const rt_seat *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->ask.stops; i++)
        if (s->ask.stop[i] == id) return RT_END_STOP;
    return s->made == s->ask.max_new || s->count - 1 + s->made >= g->context ? RT_END_LENGTH : RT_END_NONE;
}

static int take_token(rt_engine *g, rt_seat *s, const rt_flight *f, rt_err *e)
{
    const uint32_t slot = rt_seat_index(g, s);
    const int32_t got = f->ids[slot];
    rt_token_event t = { .place = s->made, .id = UINT32_MAX, .likely.logp = NAN, .end = RT_END_NONFINITE };
    s->ahead--;
    if (got < 0 || (uint32_t)got >= g->vocab) return rt_engine_tell(g, s, &t, e);
    t.id = s->ids[s->count + s->made++] = (uint32_t)got;
    g->stats.answer_tokens++;
    t.end = end_after(g, s, t.id);
    if (s->ask.logp || s->ask.top) t.likely.logp = f->logps[slot];
    t.likely.rank_count = s->ask.top;
    t.likely.id = f->top_ids + (size_t)slot * g->opts.top;
    t.likely.each = f->top_logps + (size_t)slot * g->opts.top;
    return rt_engine_tell(g, s, &t, e);
}

/* Whoever has left meanwhile, and whoever came in its place, has no part in it. When a function's status ends this,
 * what is left is told in the next step. */
static int tell_step(rt_engine *g, rt_flight *f, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < g->slots; i++) {
        rt_seat *s = &g->seat[i];
        const bool has = f->name[i] && s->name == f->name[i];
        f->name[i] = 0;
        if (has) RT_TRY(take_token(g, s, f, e));
    }
    f->under_way = false;
out:
    return rc;
}

/* Begins a step and tells of the one before, or where steps are not enqueued of this one. */
static int step_tokens(rt_engine *g, rt_err *e)
{
    int rc = RT_OK;
    const double begun = rt_now();
    const bool ahead = rt_exec_enqueues(g->x) && !g->opts.logits;
    rt_flight *next = &g->flight[g->turn ^= 1], *last = &g->flight[ahead ? g->turn ^ 1 : g->turn];
    if (next->under_way) RT_TRY(tell_step(g, next, e));
    RT_TRY(begin_step(g, next, e));
    if (last->under_way) RT_TRY(rt_exec_wait(g->x, last->ticket, e));
    g->stats.answer_seconds += rt_now() - begun;
    if (last->under_way) RT_TRY(tell_step(g, last, e));
out:
    if (!rt_engine_busy(g)) rt_engine_settle_steps(g);
    return rc;
}

/* A request of which only the prompt was wanted ends when that is read. */
static int end_prompts(rt_engine *g, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < g->slots; i++) {
        rt_seat *s = &g->seat[i];
        rt_token_event t = { .id = UINT32_MAX, .likely.logp = NAN, .end = RT_END_LENGTH };
        if (rt_seat_ready(s) && s->ask.max_new == 0) RT_TRY(rt_engine_tell(g, s, &t, e));
    }
out:
    return rc;
}

/* Pieces of the oldest prompts. Where they are only enqueued and several prompts are not read, some more: a slot
 * without an answer under way costs a step as much as one with. */
static int read_prompts(rt_engine *g, rt_err *e)
{
    int rc = RT_OK;
    uint32_t readers = 0;
    for (uint32_t i = 0; i < g->slots; i++) readers += g->seat[i].name && !rt_seat_ready(&g->seat[i]);
    const uint32_t most = rt_exec_enqueues(g->x) ? RT_ENGINE_PIECES : 1;
    for (uint32_t i = 0, n = 1; n && i < readers && i < most; i += n) RT_TRY(rt_engine_read_pieces(g, &n, e));
out:
    return rc;
}

int rt_engine_step(rt_engine *g, rt_err *e)
{
    int rc;
    const double begun = rt_now();
    RT_TRY(read_prompts(g, e));
    g->stats.prompt_seconds += rt_now() - begun;
    RT_TRY(end_prompts(g, e));
    RT_TRY(step_tokens(g, e));
out:
    return rc;
}
