/* job_cache_ask.c - one batch of a cache: which of it is wanted, asked of the teacher, and put into blocks. */
#include "job/job_cache_internal.h"

#include "base/sys.h"

#include <string.h>

int rt_cache_work_room(rt_cache_work *w, rt_err *e)
{
    size_t N = (size_t)w->B * w->r.seq_len, n = w->plan.n > w->plan.held_n ? w->plan.n : w->plan.held_n;
    size_t row = (size_t)rt_dtype_bytes(rt_says_dtype(w->says), w->teacher->config.width);
    bool hidden = w->plan.form == RT_FORM_HIDDEN;
    rt_says_answer *a = &w->answer;
    w->ids = rt_alloc_zero(4 * N * sizeof *w->ids, 64);
    w->places = rt_alloc(N * sizeof *w->places, 64);
    w->place_row = rt_alloc(N * sizeof *w->place_row, 64);
    w->position = rt_alloc(N * sizeof *w->position, 64);
    w->target = rt_alloc(N * sizeof *w->target, 64);
    w->key = rt_alloc(2 * N * sizeof *w->key, 64);
    bool whole = w->ids && w->places && w->place_row && w->position && w->target && w->key;
    if (hidden) {
        w->hidden = rt_alloc(N * row, 64);
        w->packed = rt_alloc(RT_CACHE_BLOCK * row, 64);
        whole = whole && w->hidden && w->packed;
    } else {
        a->id = rt_alloc(N * n * sizeof *a->id, 64);
        a->logp = rt_alloc(N * n * sizeof *a->logp, 64);
        a->rest = rt_alloc(N * sizeof *a->rest, 64);
        a->entropy = rt_alloc(N * sizeof *a->entropy, 64);
        a->target_logp = rt_alloc(N * sizeof *a->target_logp, 64);
        whole = whole && a->id && a->logp && a->rest && a->entropy && a->target_logp;
    }
    return whole ? RT_OK : rt_no_memory(e, "a batch of the teacher's answers");
}

void rt_cache_work_free(rt_cache_work *w)
{
    rt_says_answer *a = &w->answer;
    void *all[] = { w->ids,    w->places, w->place_row, w->position, w->target,  w->key,        w->hidden,
                    w->packed, a->id,     a->logp,      a->rest,     a->entropy, a->target_logp };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) rt_free(all[i]);
}

/* The uses that a side is kept for: at most two, of which the first is always there. */
static uint32_t uses_of(const rt_cache_work *w, bool held, rt_source_use use[2])
{
    use[0] = held ? RT_USE_HELD : RT_USE_TRAIN;
    use[1] = RT_USE_HELD_LOSS;
    return held && w->plan.form != RT_FORM_HIDDEN && w->settings.temperature != 1 ? 2 : 1;
}

static uint32_t section_of(const rt_cache_work *w, rt_source_use use)
{
    return rt_keep_section(&w->plan, w->settings.temperature, use);
}

static const int32_t *targets_of(const rt_cache_work *w, uint32_t row)
{
    return w->ids + (size_t)w->B * w->r.seq_len + (size_t)row * w->r.seq_len;
}

int rt_cache_work_find(rt_cache_work *w, bool held, uint32_t rows, bool *lacks, rt_err *e)
{
    uint32_t T = w->r.seq_len;
    size_t N = (size_t)w->B * T;
    rt_source_use use[2];
    uint32_t uses = uses_of(w, held, use);
    (void)e;
    *lacks = false;
    w->place_count = 0;
    for (uint32_t r = 0; r < rows; r++) {
        size_t at = (size_t)r * T;
        rt_cache_place *p = w->places + w->place_count;
        uint32_t count = rt_cache_places(w->ids + at, w->ids + 2 * N + at, w->ids + N + at, T, p);
        for (uint32_t i = 0; i < count; i++) {
            w->place_row[w->place_count + i] = r;
            for (uint32_t u = 0; u < uses; u++) {
                uint32_t section = section_of(w, use[u]);
                rt_hash128 key = rt_keep_key(&w->sections[section], &p[i], targets_of(w, r));
                *lacks = *lacks || (p[i].wanted & ~rt_cache_have(w->cache, section, &key));
            }
        }
        w->place_count += count;
    }
    return RT_OK;
}

/* Every wanted position of the batch, place after place, with what its draws depend on: the place's key and the
 * position's number in it. */
static uint32_t list_positions(rt_cache_work *w)
{
    uint32_t n = 0, T = w->r.seq_len;
    for (uint32_t k = 0; k < w->place_count; k++) {
        const rt_cache_place *p = &w->places[k];
        const int32_t *target = targets_of(w, w->place_row[k]);
        for (uint32_t i = 0; i < p->count; i++) {
            if (!(p->wanted >> i & 1)) continue;
            w->position[n] = (int32_t)(w->place_row[k] * T + p->first + i);
            w->target[n] = target[p->first + i];
            w->key[2 * n] = (uint32_t)p->key.lo + i;
            w->key[2 * n + 1] = (uint32_t)(p->key.lo >> 32) ^ (uint32_t)p->key.hi;
            n++;
        }
    }
    return n;
}

static int add_hidden(rt_cache_work *w, const rt_cache_place *p, uint32_t first, rt_err *e)
{
    size_t row = (size_t)rt_dtype_bytes(rt_says_dtype(w->says), w->teacher->config.width);
    uint32_t n = (uint32_t)__builtin_popcountll(p->wanted);
    for (uint32_t i = 0; i < n; i++)
        memcpy(w->packed + i * row, (const char *)w->hidden + (size_t)w->position[first + i] * row, row);
    const rt_cache_block b = { .key = p->key, .have = p->wanted, .hidden = w->packed };
    return rt_cache_writer_add(w->writer[0], &b, e);
}

static int add_list(rt_cache_work *w, rt_source_use use, uint32_t place, uint32_t first, rt_err *e)
{
    const rt_cache_place *p = &w->places[place];
    uint32_t section = section_of(w, use);
    const rt_cache_section *c = &w->sections[section];
    const rt_says_answer *a = &w->answer;
    const rt_cache_block b = { .key = rt_keep_key(c, p, targets_of(w, w->place_row[place])),
                               .have = p->wanted,
                               .id = a->id + (size_t)first * c->n,
                               .logp = a->logp + (size_t)first * c->n,
                               .rest = a->rest + first,
                               .entropy = a->entropy + first,
                               .target = w->target + first,
                               .target_logp = a->target_logp + first };
    return rt_cache_writer_add(w->writer[section], &b, e);
}

int rt_cache_work_ask(rt_cache_work *w, bool held, rt_err *e)
{
    int rc;
    size_t N = (size_t)w->B * w->r.seq_len;
    rt_source_use use[2];
    uint32_t uses = uses_of(w, held, use), count = list_positions(w);
    bool hidden = w->plan.form == RT_FORM_HIDDEN;
    const rt_says_asked asked = { w->position, w->target, w->key, count };
    double begun = rt_now();
    RT_TRY(rt_says_read(w->says, w->ids, w->ids + 3 * N, w->ids + 2 * N, e));
    w->out->forward += rt_now() - begun;
    if (hidden) RT_TRY(rt_says_hidden(w->says, w->hidden, e));
    for (uint32_t u = 0; u < uses; u++) {
        if (!hidden) RT_TRY(rt_says_ask(w->says, use[u], &asked, &w->answer, e));
        for (uint32_t k = 0, first = 0; k < w->place_count; k++) {
            RT_TRY(hidden ? add_hidden(w, &w->places[k], first, e) : add_list(w, use[u], k, first, e));
            first += (uint32_t)__builtin_popcountll(w->places[k].wanted);
        }
    }
out:
    return rc;
}
