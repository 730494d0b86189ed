/* job_cache_ask.c - what a cache is made of: models, data and rows; and one batch of them: which of it is wanted, asked
 * of the teacher, and put into blocks. */
#include "job/job_cache_internal.h"

#include "base/sys.h"

#include <string.h>

/* What a kill loses was computed for nothing; what is asked of a server may have been paid for. */
enum { COMMIT_SECONDS = 20, REMOTE_COMMIT_SECONDS = 3 };

/* ---- models, data, rows ---- */

/* Without a student the teacher reads the data by itself, and every id that it defines counts. */
int rt_cache_work_inputs(rt_cache_work *w, rt_err *e)
{
    int rc;
    rt_settings s = w->settings;
    rt_run_facts facts;
    const rt_job_env *env = w->o->env;
    rt_inputs_opts io = { .env = &env->hub,
                          .pool = w->pool,
                          .now = env->now,
                          .stop = rt_job_tell_stop,
                          .progress = rt_job_tell_progress,
                          .ctx = &w->tell,
                          .folder = w->folder };
    bool alone = !s.student;
    if (w->remote) w->lent = w->remote->folder;
    if (w->lent) s.teacher.text[0] = io.part = w->lent;
    if (alone) s.student = s.teacher.text[0], s.teacher.count = 0;
    RT_TRY(rt_inputs_open(&w->in, &s, &io, e));
    w->teacher = alone ? w->in->student : w->in->teacher;
    RT_TRY(rt_inputs_data(w->in, &s, &io, e));
    RT_TRY(rt_inputs_facts(w->in, &facts, e));
    RT_TRY(rt_resolve_before_rows(&s, &facts, &w->r, e));
    RT_TRY(rt_inputs_rows(w->in, &s, &w->r, &facts, e));
    RT_TRY(rt_inputs_rows_once(&w->rows[0], w->in, &s, &w->r, false, e));
    RT_TRY(rt_inputs_rows_once(&w->rows[1], w->in, &s, &w->r, true, e));
    if (w->remote && !alone)
        RT_TRY(rt_inputs_refuse_identity(w->in, json_object_get(w->remote->about, "teacher"), &s, w->pool, e));
    s.teacher = w->settings.teacher;
    s.student = w->settings.student;
    w->settings = s; /* resolved */
    w->out->notes = w->in->notes;
    const rt_tokenizer *t = w->in->text ? w->in->text->tokenizer : NULL;
    if (alone)
        RT_TRY(rt_pair_check(&w->own, t, w->teacher->config.vocab, t, w->teacher->config.vocab, (uint32_t)s.vocab, e));
    w->pair = alone ? &w->own : &w->in->pair;
out:
    return rc;
}

/* The teacher's columns that count, as its head has them. */
int rt_cache_work_mask(rt_cache_work *w, rt_err *e)
{
    uint32_t V = w->teacher->config.vocab;
    if (w->pair->common == V) return RT_OK;
    uint32_t *mask = rt_arena_alloc(&w->arena, (V + 31) / 32 * sizeof *mask);
    if (!mask) return rt_no_memory(e, "the ids that count");
    for (uint32_t i = 0; i < (V + 31) / 32; i++) mask[i] = 0;
    for (uint32_t id = 0; id < V; id++)
        if (rt_pair_has(w->pair, id)) mask[id / 32] |= 1u << (id % 32);
    w->mask = mask;
    return RT_OK;
}

/* ---- a batch ---- */

/* The uses that a side is kept for: at most two, of which the first is always there. */
static uint32_t uses_of(const rt_cache_work *w, bool held, rt_source_use use[2])
{
    use[0] = held ? RT_USE_HELD : RT_USE_TRAIN;
    use[1] = RT_USE_HELD_LOSS;
    return held && w->plan.form != RT_FORM_HIDDEN && w->settings.temperature != 1 ? 2 : 1;
}

static bool answer_room(rt_says_answer *a, size_t N, size_t n)
{
    a->id = rt_alloc(N * n * sizeof *a->id, 64);
    a->logp = rt_alloc(N * n * sizeof *a->logp, 64);
    a->rest = rt_alloc(N * sizeof *a->rest, 64);
    a->entropy = rt_alloc(N * sizeof *a->entropy, 64);
    a->target_logp = rt_alloc(N * sizeof *a->target_logp, 64);
    return a->id && a->logp && a->rest && a->entropy && a->target_logp;
}

static bool batch_room(const rt_cache_work *w, rt_cache_batch *b)
{
    size_t N = (size_t)w->B * w->r.seq_len, n = w->plan.n > w->plan.held_n ? w->plan.n : w->plan.held_n;
    rt_source_use use[2];
    b->ids = rt_alloc_zero(4 * N * sizeof *b->ids, 64);
    b->places = rt_alloc(N * sizeof *b->places, 64);
    b->place_row = rt_alloc(N * sizeof *b->place_row, 64);
    b->position = rt_alloc(N * sizeof *b->position, 64);
    b->target = rt_alloc(N * sizeof *b->target, 64);
    b->key = rt_alloc(2 * N * sizeof *b->key, 64);
    bool whole = b->ids && b->places && b->place_row && b->position && b->target && b->key;
    if (w->plan.form == RT_FORM_HIDDEN) {
        b->hidden = rt_alloc(N * rt_dtype_bytes(w->act, w->teacher->config.width), 64);
        return whole && b->hidden;
    }
    for (uint32_t u = 0; u < uses_of(w, true, use); u++) whole = whole && answer_room(&b->answer[u], N, n);
    return whole;
}

int rt_cache_work_room(rt_cache_work *w, rt_err *e)
{
    size_t row = (size_t)rt_dtype_bytes(w->act, w->teacher->config.width);
    bool whole = true;
    w->batches = w->remote ? w->remote->spec.requests : 2;
    for (uint32_t i = 0; i < w->batches; i++) whole = whole && batch_room(w, &w->batch[i]);
    w->packed = rt_alloc(RT_CACHE_BLOCK * row, 64);
    return whole && w->packed ? RT_OK : rt_no_memory(e, "batches of the teacher's rows");
}

void rt_cache_work_free(rt_cache_work *w)
{
    for (rt_cache_batch *b = w->batch; b < w->batch + RT_CACHE_BATCHES; b++) {
        void *all[] = { b->ids, b->places, b->place_row, b->position, b->target, b->key, b->hidden };
        for (size_t i = 0; i < sizeof all / sizeof *all; i++) rt_free(all[i]);
        for (rt_says_answer *a = b->answer; a < b->answer + 2; a++) {
            void *lists[] = { a->id, a->logp, a->rest, a->entropy, a->target_logp };
            for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) rt_free(lists[i]);
        }
    }
    rt_free(w->packed);
}

static uint32_t section_of(const rt_cache_work *w, rt_source_use use)
{
    return rt_keep_section(&w->plan, w->settings.temperature, use);
}

static const int32_t *targets_of(const rt_cache_work *w, const rt_cache_batch *b, uint32_t row)
{
    return b->ids + (size_t)w->B * w->r.seq_len + (size_t)row * w->r.seq_len;
}

bool rt_cache_work_find(rt_cache_work *w, rt_cache_batch *b)
{
    uint32_t T = w->r.seq_len;
    size_t N = (size_t)w->B * T;
    rt_source_use use[2];
    uint32_t uses = uses_of(w, b->held, use);
    bool lacks = false;
    b->place_count = 0;
    for (uint32_t r = 0; r < b->rows; r++) {
        size_t at = (size_t)r * T;
        rt_cache_place *p = b->places + b->place_count;
        uint32_t count = rt_cache_places(b->ids + at, b->ids + 2 * N + at, b->ids + N + at, T, p);
        for (uint32_t i = 0; i < count; i++) {
            b->place_row[b->place_count + i] = r;
            for (uint32_t u = 0; u < uses; u++) {
                uint32_t section = section_of(w, use[u]);
                rt_hash128 key = rt_keep_key(&w->sections[section], &p[i], targets_of(w, b, r));
                lacks = lacks || (p[i].wanted & ~rt_cache_writer_have(w->writer[section], &key));
            }
        }
        b->place_count += count;
    }
    return lacks;
}

void rt_cache_work_list(const rt_cache_work *w, rt_cache_batch *b)
{
    uint32_t n = 0, T = w->r.seq_len;
    for (uint32_t k = 0; k < b->place_count; k++) {
        const rt_cache_place *p = &b->places[k];
        const int32_t *target = targets_of(w, b, b->place_row[k]);
        for (uint32_t i = 0; i < p->count; i++) {
            if (!(p->wanted >> i & 1)) continue;
            b->position[n] = (int32_t)(b->place_row[k] * T + p->first + i);
            b->target[n] = target[p->first + i];
            b->key[2 * n] = (uint32_t)p->key.lo + i;
            b->key[2 * n + 1] = (uint32_t)(p->key.lo >> 32) ^ (uint32_t)p->key.hi;
            n++;
        }
    }
    b->asked = n;
}

static int add_hidden(rt_cache_work *w, const rt_cache_batch *b, const rt_cache_place *p, uint32_t first, rt_err *e)
{
    size_t row = (size_t)rt_dtype_bytes(w->act, w->teacher->config.width);
    uint32_t n = (uint32_t)__builtin_popcountll(p->wanted);
    for (uint32_t i = 0; i < n; i++)
        memcpy(w->packed + i * row, (const char *)b->hidden + (size_t)b->position[first + i] * row, row);
    const rt_cache_block block = { .key = p->key, .have = p->wanted, .hidden = w->packed };
    return rt_cache_writer_add(w->writer[0], &block, e);
}

static int add_list(rt_cache_work *w, const rt_cache_batch *b, uint32_t section, const rt_says_answer *a,
                    uint32_t place, uint32_t first, rt_err *e)
{
    const rt_cache_place *p = &b->places[place];
    const rt_cache_section *c = &w->sections[section];
    const rt_cache_block block = { .key = rt_keep_key(c, p, targets_of(w, b, b->place_row[place])),
                                   .have = p->wanted,
                                   .id = a->id + (size_t)first * c->n,
                                   .logp = a->logp + (size_t)first * c->n,
                                   .rest = a->rest + first,
                                   .entropy = a->entropy + first,
                                   .target = b->target + first,
                                   .target_logp = a->target_logp + first };
    return rt_cache_writer_add(w->writer[section], &block, e);
}

int rt_cache_work_keep(rt_cache_work *w, rt_err *e)
{
    int rc = RT_OK;
    rt_source_use use[2];
    const rt_cache_batch *b = w->answered;
    w->answered = NULL;
    if (!b) return RT_OK;
    if (w->says) RT_TRY(rt_says_hear(w->says, e));
    for (uint32_t u = 0; u < uses_of(w, b->held, use); u++)
        for (uint32_t k = 0, first = 0; k < b->place_count; k++) {
            RT_TRY(b->hidden ? add_hidden(w, b, &b->places[k], first, e)
                             : add_list(w, b, section_of(w, use[u]), &b->answer[u], k, first, e));
            first += (uint32_t)__builtin_popcountll(b->places[k].wanted);
        }
    w->out->computed += b->rows;
    w->out->tokens += b->tokens;
out:
    return rc;
}

int rt_cache_work_commit(rt_cache_work *w, rt_err *e)
{
    int rc = RT_OK;
    for (int i = 0; i < RT_CACHE_SECTIONS; i++)
        if (w->writer[i]) RT_TRY(rt_cache_writer_commit(w->writer[i], e));
    w->committed = rt_now();
out:
    return rc;
}

int rt_cache_work_commit_in_time(rt_cache_work *w, rt_err *e)
{
    const double most = w->remote ? REMOTE_COMMIT_SECONDS : COMMIT_SECONDS;
    return rt_now() - w->committed > most || (w->hurry && w->hurry(w)) ? rt_cache_work_commit(w, e) : RT_OK;
}

int rt_cache_work_ask(rt_cache_work *w, rt_cache_batch *b, rt_err *e)
{
    int rc;
    size_t N = (size_t)w->B * w->r.seq_len;
    rt_source_use use[2];
    RT_TRY(rt_says_read(w->says, b->ids, b->ids + 3 * N, b->ids + 2 * N, e));
    RT_TRY(rt_cache_work_keep(w, e));
    rt_cache_work_list(w, b);
    const rt_says_asked asked = { b->position, b->target, b->key, b->asked };
    if (b->hidden)
        RT_TRY(rt_says_hidden(w->says, b->hidden, e));
    else
        for (uint32_t u = 0; u < uses_of(w, b->held, use); u++)
            RT_TRY(rt_says_ask(w->says, use[u], &asked, &b->answer[u], e));
    w->answered = b;
out:
    return rc;
}
