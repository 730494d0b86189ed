/* cache_source.c - see cache_source.h. */
#include "teacher/cache_source.h"

#include "num/draw.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { HELD_K = 64, MOST_N = 4096 };

struct rt_cache_source {
    rt_source seam; /* first: a pointer to it is one to this */
    rt_cache *cache;
    rt_keep_plan keeps;
    double temperature;
    const rt_cache_section *sections;
    rt_cache_place *places; /* (places_cap) of a row */
    uint32_t places_cap;
    rt_cache_block block; /* room for one of any section */
    uint64_t room;        /* entries of a list in it */
};

/* ---- words and sections ---- */

static const char *const words[] = { [RT_FORM_HIDDEN] = "hidden", [RT_FORM_TOPK] = "topk", [RT_FORM_DRAWS] = "draws" };

int rt_keep_parse(rt_keep_plan *out, const char *text, uint32_t ids, rt_err *e)
{
    const char *colon = strchr(text, ':');
    size_t len = colon ? (size_t)(colon - text) : strlen(text);
    char *end = NULL;
    unsigned long long n = colon ? strtoull(colon + 1, &end, 10) : 0;
    *out = (rt_keep_plan){ .held_n = ids < HELD_K ? ids : HELD_K };
    for (int f = RT_FORM_HIDDEN; f <= RT_FORM_DRAWS; f++)
        if (strlen(words[f]) == len && strncmp(words[f], text, len) == 0) out->form = (rt_source_form)f;
    bool list = out->form == RT_FORM_TOPK || out->form == RT_FORM_DRAWS;
    const unsigned most = out->form == RT_FORM_DRAWS ? RT_DRAW_MOST : MOST_N;
    bool number = colon && colon[1] >= '0' && colon[1] <= '9' && *end == 0 && n >= 1 && n <= most;
    if (out->form == RT_FORM_LIVE || list != (colon != NULL) || (list && !number))
        return rt_fail(e, RT_USAGE,
                       "--keep is topk:K (1 to %d), draws:N (1 to %d), such as topk:64, or hidden; not '%s'", MOST_N,
                       RT_DRAW_MOST, text);
    if (list && n > ids)
        return rt_fail(e, RT_USAGE, "--keep %s is more than the %u ids that count; give fewer", text, ids);
    out->n = (uint32_t)n;
    if (out->form == RT_FORM_TOPK && out->n > out->held_n) out->held_n = out->n;
    out->exact = out->form == RT_FORM_TOPK && out->n == ids;
    if (out->form == RT_FORM_HIDDEN) out->held_n = 0;
    return RT_OK;
}

uint32_t rt_keep_sections(rt_cache_section out[RT_CACHE_SECTIONS], const rt_keep_plan *k, double temperature,
                          uint32_t width, rt_dtype act)
{
    const rt_cache_section held = {
        .keep = RT_KEEP_TOPK, .n = k->held_n, .T = 1.0f, .target = true, .exact = k->exact
    };
    if (k->form == RT_FORM_HIDDEN) {
        out[0] = (rt_cache_section){ .keep = RT_KEEP_HIDDEN, .n = width, .T = 1.0f, .dtype = act };
        return 1;
    }
    out[0] = (rt_cache_section){ .keep = k->form == RT_FORM_TOPK ? RT_KEEP_TOPK : RT_KEEP_DRAWS,
                                 .n = k->n,
                                 .exact = k->exact,
                                 .T = (float)temperature };
    if (k->blind) return 1;
    out[1] = held;
    if (temperature == 1) return 2;
    out[2] = held;
    out[2].T = (float)temperature;
    out[2].target = false;
    return 3;
}

uint32_t rt_keep_section(const rt_keep_plan *k, double temperature, rt_source_use use)
{
    if (k->form == RT_FORM_HIDDEN || k->blind) return 0;
    return use == RT_USE_HELD_LOSS && temperature == 1 ? RT_USE_HELD : (uint32_t)use;
}

rt_hash128 rt_keep_key(const rt_cache_section *c, const rt_cache_place *p, const int32_t *target)
{
    struct {
        rt_hash128 key;
        int64_t target;
    } both = { p->key, target[p->first + p->count - 1] };
    return c->target ? rt_hash(&both, sizeof both) : p->key;
}

/* ---- opening ---- */

static int fill(rt_source *seam, rt_source_use use, const rt_source_rows *rows, const rt_source_out *out, rt_err *e);

/* What the sections say that the cache is. */
static int recognise(rt_cache_source *s, const char *path, rt_err *e)
{
    uint32_t count = rt_cache_sections(s->cache, &s->sections);
    const rt_cache_section *a = s->sections, *b = a + 1;
    rt_cache_section same[RT_CACHE_SECTIONS];
    double said = json_number_value(json_object_get(rt_cache_about(s->cache), "temperature"));
    s->temperature = (float)said == a->T ? said : (double)a->T; /* 0.7, and not what f32 makes of it */
    s->keeps = (rt_keep_plan){ .n = a->keep == RT_KEEP_HIDDEN ? 0 : a->n, .exact = a->exact };
    s->keeps.form = a->keep == RT_KEEP_HIDDEN ? RT_FORM_HIDDEN : a->keep == RT_KEEP_TOPK ? RT_FORM_TOPK : RT_FORM_DRAWS;
    s->keeps.blind = count == 1 && s->keeps.form == RT_FORM_TOPK && a->T == 1;
    s->keeps.held_n = count > 1 ? b->n : s->keeps.blind ? a->n : 0;
    uint32_t want = rt_keep_sections(same, &s->keeps, s->temperature, a->n, a->dtype);
    bool alike = want == count;
    for (uint32_t i = 0; alike && i < count; i++)
        alike = s->sections[i].keep == same[i].keep && s->sections[i].n == same[i].n && s->sections[i].T == same[i].T &&
                s->sections[i].target == same[i].target && s->sections[i].exact == same[i].exact;
    if (alike) return RT_OK;
    return rt_fail(e, RT_FORMAT, "%s has sections that this version cannot use; make the cache again with retort cache",
                   path);
}

static int room_for_block(rt_cache_source *s, rt_err *e)
{
    rt_cache_block *b = &s->block;
    uint64_t n = s->keeps.n > s->keeps.held_n ? s->keeps.n : s->keeps.held_n;
    const rt_cache_section *first = s->sections;
    bool hidden = s->keeps.form == RT_FORM_HIDDEN;
    s->room = n;
    if (hidden) b->hidden = rt_alloc((size_t)rt_dtype_bytes(first->dtype, (uint64_t)RT_CACHE_BLOCK * first->n), 64);
    b->id = rt_alloc(RT_CACHE_BLOCK * (n + 1) * sizeof *b->id, 64);
    b->logp = rt_alloc(RT_CACHE_BLOCK * (n + 1) * sizeof *b->logp, 64);
    b->rest = rt_alloc(RT_CACHE_BLOCK * sizeof *b->rest, 64);
    b->entropy = rt_alloc(RT_CACHE_BLOCK * sizeof *b->entropy, 64);
    b->target = rt_alloc(RT_CACHE_BLOCK * sizeof *b->target, 64);
    b->target_logp = rt_alloc(RT_CACHE_BLOCK * sizeof *b->target_logp, 64);
    bool whole = b->id && b->logp && b->rest && b->entropy && b->target && b->target_logp && (!hidden || b->hidden);
    return whole ? RT_OK : rt_no_memory(e, "a cache");
}

int rt_cache_source_open(rt_cache_source **out, const char *path, rt_err *e)
{
    int rc;
    rt_cache_source *s = rt_alloc_zero(sizeof *s, 16);
    if (!s) RT_TRY(rt_no_memory(e, "a cache"));
    s->seam.fill = fill;
    RT_TRY(rt_cache_open(&s->cache, path, e));
    RT_TRY(recognise(s, path, e));
    RT_TRY(room_for_block(s, e));
    *out = s;
    s = NULL;
out:
    rt_cache_source_close(s);
    return rc;
}

void rt_cache_source_close(rt_cache_source *s)
{
    if (!s) return;
    rt_cache_close(s->cache);
    rt_free(s->places);
    rt_free(s->block.hidden);
    rt_free(s->block.id);
    rt_free(s->block.logp);
    rt_free(s->block.rest);
    rt_free(s->block.entropy);
    rt_free(s->block.target);
    rt_free(s->block.target_logp);
    rt_free(s);
}

rt_source *rt_cache_source_of(rt_cache_source *s) { return &s->seam; }
rt_cache *rt_cache_source_cache(const rt_cache_source *s) { return s->cache; }
const rt_keep_plan *rt_cache_source_keeps(const rt_cache_source *s) { return &s->keeps; }
double rt_cache_source_temperature(const rt_cache_source *s) { return s->temperature; }

rt_source_shape rt_cache_source_shape(const rt_cache_source *s)
{
    const rt_keep_plan *k = &s->keeps;
    return (rt_source_shape){ .form = k->form, .n = k->n, .held_n = k->held_n, .whole = k->exact, .blind = k->blind };
}

/* ---- looking ---- */

/* Where the positions of a place are looked for: in the section of the use, and, where held-out positions are kept in
 * the same way, there too, so that another choice of what is held out loses nothing. */
static uint32_t section_for(const rt_cache_source *s, rt_source_use use, const rt_cache_place *p, const int32_t *target,
                            rt_hash128 *key)
{
    uint32_t own = rt_keep_section(&s->keeps, s->temperature, use);
    const rt_cache_section *a = &s->sections[own], *b = a + 1;
    *key = rt_keep_key(a, p, target);
    bool two = use == RT_USE_TRAIN && a->keep == RT_KEEP_TOPK && !s->keeps.blind && b->n == a->n && b->T == a->T;
    if (!two || !(p->wanted & ~rt_cache_have(s->cache, own, key))) return own;
    rt_hash128 other = rt_keep_key(b, p, target);
    if (p->wanted & ~rt_cache_have(s->cache, own + 1, &other)) return own;
    *key = other;
    return own + 1;
}

/* The places of row r. */
static int places_of(rt_cache_source *s, const rt_source_rows *rows, uint32_t r, uint32_t *count, rt_err *e)
{
    uint32_t T = rows->T;
    size_t at = (size_t)r * T;
    if (s->places_cap < RT_CACHE_PLACES(T)) {
        rt_free(s->places);
        s->places = rt_alloc(RT_CACHE_PLACES(T) * sizeof *s->places, 64);
        s->places_cap = s->places ? RT_CACHE_PLACES(T) : 0;
        if (!s->places) return rt_no_memory(e, "a cache");
    }
    *count = rt_cache_places(rows->ids + at, rows->start + at, rows->target + at, T, s->places);
    return RT_OK;
}

int rt_cache_source_look(rt_cache_source *s, rt_source_use use, const rt_source_rows *rows, rt_cache_missing *m,
                         rt_err *e)
{
    int rc = RT_OK;
    uint32_t count;
    for (uint32_t r = 0; r < rows->B; r++) {
        const int32_t *start = rows->start + (size_t)r * rows->T, *target = rows->target + (size_t)r * rows->T;
        RT_TRY(places_of(s, rows, r, &count, e));
        for (uint32_t i = 0; i < count; i++) {
            const rt_cache_place *p = &s->places[i];
            rt_hash128 key;
            uint32_t section = section_for(s, use, p, target, &key);
            uint64_t lacks = p->wanted & ~rt_cache_have(s->cache, section, &key);
            m->wanted += (uint64_t)__builtin_popcountll(p->wanted);
            m->positions += (uint64_t)__builtin_popcountll(lacks);
            if ((int32_t)p->first == start[p->first]) m->first_pieces += (uint64_t)__builtin_popcountll(lacks);
        }
    }
out:
    return rc;
}

/* ---- filling ---- */

static double entropy_of(const float *logp, const int32_t *id, uint32_t n)
{
    double h = 0;
    for (uint32_t j = 0; j < n; j++)
        if (id[j] >= 0) h -= exp((double)logp[j]) * (double)logp[j];
    return h;
}

/* Position j of the block into position `to` of the rows. */
static void put_list(const rt_cache_block *b, const rt_cache_section *c, uint32_t j, const rt_source_out *out,
                     size_t to)
{
    uint32_t n = c->n;
    memcpy(out->id + to * n, b->id + (size_t)j * n, n * sizeof *out->id);
    memcpy(out->logp + to * n, b->logp + (size_t)j * n, n * sizeof *out->logp);
    bool draws = c->keep == RT_KEEP_DRAWS;
    out->rest[to] = draws ? 0 : b->rest[j];
    out->add[to] = draws ? (float)(entropy_of(b->logp + (size_t)j * n, b->id + (size_t)j * n, n) - b->entropy[j]) : 0;
    if (c->target && out->target_logp) out->target_logp[to] = b->target_logp[j];
}

static void put_hidden(const rt_cache_block *b, const rt_cache_section *c, uint32_t j, const rt_source_out *out,
                       size_t to, float *wide)
{
    size_t from_bytes = (size_t)rt_dtype_bytes(c->dtype, c->n), to_bytes = (size_t)rt_dtype_bytes(out->dtype, c->n);
    const char *from = (const char *)b->hidden + j * from_bytes;
    char *dst = (char *)out->hidden + to * to_bytes;
    if (c->dtype == out->dtype) {
        memcpy(dst, from, from_bytes);
        return;
    }
    rt_float_to_f32(wide, from, c->dtype, c->n);
    rt_float_from_f32(dst, wide, out->dtype, c->n);
}

/* target: of the row. */
static int get_block(rt_cache_source *s, rt_source_use use, const rt_cache_place *p, const int32_t *target,
                     const rt_cache_section **c, rt_err *e)
{
    rt_hash128 key;
    uint32_t section = section_for(s, use, p, target, &key);
    *c = &s->sections[section];
    if (p->wanted & ~rt_cache_have(s->cache, section, &key))
        return rt_fail(e, RT_NOT_FOUND,
                       "the cache lacks positions that the step reads, although it had them when the run "
                       "began; was it changed since?");
    return rt_cache_get(s->cache, section, &key, p->wanted, &s->block, e);
}

/* The targets that a held-out position was asked with are those that it has. */
static int check_targets(const rt_cache_source *s, const rt_cache_section *c, const rt_cache_place *p,
                         const int32_t *target, rt_err *e)
{
    uint32_t j = 0;
    for (uint32_t i = 0; c->target && i < p->count; i++) {
        if (!(p->wanted >> i & 1)) continue;
        if (s->block.target[j++] != target[i])
            return rt_fail(e, RT_INVALID,
                           "a held-out position of the cache has a different next token than the data; fill the cache "
                           "for this data (retort cache --fill)");
    }
    return RT_OK;
}

static int fill_row(rt_cache_source *s, rt_source_use use, const rt_source_rows *rows, uint32_t r, float *wide,
                    const rt_source_out *out, rt_err *e)
{
    int rc;
    uint32_t count;
    const rt_cache_section *c;
    size_t row = (size_t)r * rows->T;
    RT_TRY(places_of(s, rows, r, &count, e));
    for (uint32_t k = 0; k < count; k++) {
        const rt_cache_place *p = &s->places[k];
        uint32_t j = 0;
        RT_TRY(get_block(s, use, p, rows->target + row, &c, e));
        RT_TRY(check_targets(s, c, p, rows->target + row + p->first, e));
        for (uint32_t i = 0; i < p->count; i++) {
            if (!(p->wanted >> i & 1)) continue;
            if (c->keep == RT_KEEP_HIDDEN)
                put_hidden(&s->block, c, j++, out, row + p->first + i, wide);
            else
                put_list(&s->block, c, j++, out, row + p->first + i);
        }
    }
out:
    return rc;
}

static int fill(rt_source *seam, rt_source_use use, const rt_source_rows *rows, const rt_source_out *out, rt_err *e)
{
    int rc = RT_OK;
    rt_cache_source *s = (rt_cache_source *)seam;
    uint32_t section = rt_keep_section(&s->keeps, s->temperature, use);
    const rt_cache_section *c = &s->sections[section];
    size_t N = (size_t)rows->B * rows->T;
    float *wide = NULL;
    if (c->keep == RT_KEEP_HIDDEN) {
        memset(out->hidden, 0, (size_t)rt_dtype_bytes(out->dtype, N * c->n));
        if (!(wide = rt_alloc(c->n * sizeof *wide, 64))) RT_TRY(rt_no_memory(e, "a cache"));
    } else {
        memset(out->id, 0xff, N * c->n * sizeof *out->id);
        memset(out->logp, 0, N * c->n * sizeof *out->logp);
        memset(out->rest, 0, N * sizeof *out->rest);
        memset(out->add, 0, N * sizeof *out->add);
        for (size_t i = 0; s->keeps.blind && use == RT_USE_HELD && out->target_logp && i < N; i++)
            out->target_logp[i] = NAN;
    }
    for (uint32_t r = 0; r < rows->B; r++) RT_TRY(fill_row(s, use, rows, r, wide, out, e));
out:
    rt_free(wide);
    return rc;
}
