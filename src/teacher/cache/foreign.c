/* foreign.c - documents of other tools as positions of a cache, and back. */
#include "teacher/cache/foreign_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LEAST_LOGP (-100.0f)
#define MASS_MOST 1.01 /* of f16 log-probabilities */

static void *array(size_t count, size_t size) { return rt_alloc_zero(count * size, 16); }

int rt_foreign_doc_new(rt_foreign_doc *d, uint32_t tokens, uint32_t k, rt_err *e)
{
    *d = (rt_foreign_doc){ .tokens = tokens, .k = k };
    if (tokens == 0 || tokens > RT_FOREIGN_MOST_TOKENS || k == 0 || k > RT_FOREIGN_MOST_K ||
        (uint64_t)tokens * k > RT_FOREIGN_MOST_ENTRIES)
        return rt_fail(e, RT_FORMAT, "a document of %u tokens with %u ids each is out of range (%d, %d)", tokens, k,
                       RT_FOREIGN_MOST_TOKENS, RT_FOREIGN_MOST_K);
    size_t n = (size_t)tokens * k;
    d->ids = array(tokens, sizeof *d->ids);
    d->id = array(n, sizeof *d->id);
    d->logp = array(n, sizeof *d->logp);
    d->rest = array(tokens, sizeof *d->rest);
    if (!d->ids || !d->id || !d->logp || !d->rest) {
        rt_foreign_doc_free(d);
        return rt_no_memory(e, "a document");
    }
    for (size_t i = 0; i < n; i++) d->id[i] = -1;
    return RT_OK;
}

void rt_foreign_doc_free(rt_foreign_doc *d)
{
    rt_free(d->ids);
    rt_free(d->id);
    rt_free(d->logp);
    rt_free(d->rest);
    *d = (rt_foreign_doc){ 0 };
}

static int highest_first(const void *a, const void *b)
{
    const rt_foreign_entry *x = a, *y = b;
    if (x->logp != y->logp) return x->logp > y->logp ? -1 : 1;
    return (x->id > y->id) - (x->id < y->id);
}

int rt_foreign_set(rt_foreign_doc *d, uint32_t p, rt_foreign_entry *entries, uint32_t count, rt_err *e)
{
    double mass = 0;
    uint32_t n = 0;
    if (count > 1) qsort(entries, count, sizeof *entries, highest_first);
    for (; n < d->k && n < count && entries[n].logp >= LEAST_LOGP; n++) {
        if (entries[n].id < 0) return rt_fail(e, RT_FORMAT, "position %u has a negative id", p);
        d->id[(size_t)p * d->k + n] = entries[n].id;
        d->logp[(size_t)p * d->k + n] = entries[n].logp;
        mass += exp((double)entries[n].logp);
    }
    if (!(mass <= MASS_MOST)) return rt_fail(e, RT_FORMAT, "the probabilities of position %u add up to %g", p, mass);
    d->rest[p] = mass < 1 ? (float)(1 - mass) : 0;
    return RT_OK;
}

/* ---- documents and caches ---- */

/* The blocks of a document, of the positions in `wanted` alone: all, or those of which something is said. */
static int make_places(const rt_foreign_doc *d, bool all, rt_cache_place **places, uint32_t *count, rt_err *e)
{
    int rc = RT_OK;
    int32_t *start = array(d->tokens, sizeof *start), *target = array(d->tokens, sizeof *target);
    *places = rt_alloc(RT_CACHE_PLACES((size_t)d->tokens) * sizeof **places, 16);
    if (!start || !target || !*places) rc = rt_no_memory(e, "the blocks of a document");
    for (uint32_t p = 0; rc == RT_OK && p < d->tokens; p++) target[p] = all || d->id[(size_t)p * d->k] >= 0 ? 0 : -1;
    if (rc == RT_OK) *count = rt_cache_places(d->ids, start, target, d->tokens, *places);
    rt_free(start);
    rt_free(target);
    return rc;
}

/* Room for the top-k positions of a block. */
static int new_block(rt_cache_block *b, uint32_t n, rt_err *e)
{
    *b = (rt_cache_block){ .id = array((size_t)RT_CACHE_BLOCK * n, sizeof *b->id),
                           .logp = array((size_t)RT_CACHE_BLOCK * n, sizeof *b->logp),
                           .rest = array(RT_CACHE_BLOCK, sizeof *b->rest),
                           .target = array(RT_CACHE_BLOCK, sizeof *b->target),
                           .target_logp = array(RT_CACHE_BLOCK, sizeof *b->target_logp) };
    return b->id && b->logp && b->rest && b->target && b->target_logp ? RT_OK : rt_no_memory(e, "a block");
}

static void free_block(rt_cache_block *b)
{
    rt_free(b->id);
    rt_free(b->logp);
    rt_free(b->rest);
    rt_free(b->target);
    rt_free(b->target_logp);
}

int rt_foreign_put(rt_cache_writer *w, const rt_cache_section *s, const rt_foreign_doc *d, rt_err *e)
{
    int rc;
    rt_cache_place *places = NULL;
    rt_cache_block b = { 0 };
    uint32_t count = 0;
    if (s->keep != RT_KEEP_TOPK || s->target || s->n < d->k)
        return rt_fail(e, RT_INVALID,
                       "top-%u positions of another tool go into a top-k section without targets, of that k or more",
                       d->k);
    RT_TRY(new_block(&b, s->n, e));
    RT_TRY(make_places(d, false, &places, &count, e));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t j = 0;
        b.key = places[i].key;
        b.have = places[i].wanted;
        for (uint64_t left = b.have; left; left &= left - 1, j++) {
            size_t p = places[i].first + (uint32_t)__builtin_ctzll(left), to = (size_t)j * s->n;
            memcpy(b.id + to, d->id + p * d->k, d->k * sizeof *b.id);
            memcpy(b.logp + to, d->logp + p * d->k, d->k * sizeof *b.logp);
            for (uint32_t k = d->k; k < s->n; k++) b.id[to + k] = -1;
            b.rest[j] = d->rest[p];
        }
        RT_TRY(rt_cache_writer_add(w, &b, e));
    }
out:
    free_block(&b);
    rt_free(places);
    return rc;
}

int rt_foreign_take(const rt_cache *c, uint32_t section, rt_foreign_doc *d, rt_err *e)
{
    int rc;
    const rt_cache_section *s;
    rt_cache_place *places = NULL;
    rt_cache_block b = { 0 };
    uint32_t count = 0;
    if (section >= rt_cache_sections(c, &s) || s[section].keep != RT_KEEP_TOPK || s[section].n != d->k)
        return rt_fail(e, RT_INVALID, "only a top-%u section can be written for other tools", d->k);
    RT_TRY(new_block(&b, d->k, e));
    RT_TRY(make_places(d, true, &places, &count, e));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t have = rt_cache_have(c, section, &places[i].key) & places[i].wanted;
        uint32_t j = 0;
        if (!have) continue;
        RT_TRY(rt_cache_get(c, section, &places[i].key, have, &b, e));
        for (uint64_t left = have; left; left &= left - 1, j++) {
            size_t p = places[i].first + (uint32_t)__builtin_ctzll(left);
            memcpy(d->id + p * d->k, b.id + (size_t)j * d->k, d->k * sizeof *b.id);
            memcpy(d->logp + p * d->k, b.logp + (size_t)j * d->k, d->k * sizeof *b.logp);
            d->rest[p] = b.rest[j];
        }
    }
out:
    free_block(&b);
    rt_free(places);
    return rc;
}
