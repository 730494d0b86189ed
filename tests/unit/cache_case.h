/* cache_case.h - for the tests of caches: a folder, positions of a teacher by kinds of distribution, blocks of them. */
#ifndef RT_TESTS_CACHE_CASE_H
#define RT_TESTS_CACHE_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "temp_folder.h"

#include "base/file.h"
#include "base/rng.h"
#include "teacher/cache/cache.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char case_root[64], case_path[100];
static rt_err case_err;

static inline void ok_(int rc, int line)
{
    if (rc < 0) fail_msg("line %d: %s", line, case_err.text);
}
#define ok(call) ok_((call), __LINE__)
#define refused(call, code_, what_)                                                                                    \
    do {                                                                                                               \
        case_err = (rt_err){ 0 };                                                                                      \
        assert_int_equal((call), (code_));                                                                             \
        if (!strstr(case_err.text, (what_))) fail_msg("line %d: %s", __LINE__, case_err.text);                         \
    } while (0)

static inline int open_case(void **state)
{
    (void)state;
    rt_json_init();
    snprintf(case_root, sizeof case_root, "%s/retort-cache-XXXXXX", temp_folder());
    if (!mkdtemp(case_root)) return -1;
    snprintf(case_path, sizeof case_path, "%s/c", case_root);
    return 0;
}

static inline void remove_all(const char *path)
{
    char command[200];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    if (system(command) != 0) fail_msg("%s", command);
}

static inline int close_case(void **state)
{
    (void)state;
    remove_all(case_root);
    return 0;
}

/* ---- distributions ---- */

typedef enum dist { DIST_NEAR_UNIFORM, DIST_RANDOM, DIST_PEAKED, DIST_REAL, DIST_EQUAL, DIST_KINDS } dist;

static inline double unit(uint64_t seed, uint64_t stream, uint64_t i)
{
    return ((double)rt_philox(seed, stream, i).v[0] + 0.5) / 4294967296.0;
}

static inline double normal(uint64_t seed, uint64_t stream, uint64_t i)
{
    rt_rng4 r = rt_philox(seed, stream, i);
    return sqrt(-2 * log(((double)r.v[0] + 0.5) / 4294967296.0)) * cos(6.283185307179586 * r.v[1] / 4294967296.0);
}

/* Log-probabilities of V ids. REAL: a power law of an exponent of its own for each seed, so that some positions are
 * nearly certain and some open, with noise, its likely ids mostly low ones. */
static inline void make_logp(dist kind, uint64_t seed, uint32_t V, double *logp /* (V) */)
{
    double max = -INFINITY, sum = 0, power = 1 + 3 * unit(seed, 7, 0);
    for (uint32_t v = 0; v < V; v++) {
        double z = normal(seed, 1, v);
        logp[v] = kind == DIST_NEAR_UNIFORM ? 0.02 * z : kind == DIST_RANDOM ? 2 * z : kind == DIST_PEAKED ? 3 * z : 0;
        if (kind == DIST_REAL) logp[v] = -power * log(1 + V * pow(unit(seed, 2, v), 2)) + 0.3 * z - 0.5 * log(1.0 + v);
    }
    if (kind == DIST_PEAKED) logp[(uint32_t)(unit(seed, 3, 0) * V)] += 12 + 30 * unit(seed, 4, 0);
    for (uint32_t v = 0; v < V; v++) max = fmax(max, logp[v]);
    for (uint32_t v = 0; v < V; v++) sum += exp(logp[v] - max);
    for (uint32_t v = 0; v < V; v++) logp[v] -= max + log(sum);
}

typedef struct ranked {
    float logp;
    int32_t id;
} ranked;

static inline int by_rank(const void *a, const void *b)
{
    const ranked *x = a, *y = b;
    if (x->logp != y->logp) return x->logp > y->logp ? -1 : 1;
    return x->id < y->id ? -1 : 1;
}

/* The k highest, in the order of op topk, and what is left. */
static inline void make_topk(const double *logp, uint32_t V, uint32_t k, int32_t *id, float *out, float *rest)
{
    ranked *all = malloc(V * sizeof *all);
    double left = 0;
    for (uint32_t v = 0; v < V; v++) all[v] = (ranked){ (float)logp[v], (int32_t)v };
    qsort(all, V, sizeof *all, by_rank);
    for (uint32_t v = V; v-- > 0;) {
        if (v >= k) left += exp(logp[all[v].id]);
        if (v >= k) continue;
        id[v] = all[v].id;
        out[v] = all[v].logp;
    }
    for (uint32_t i = V; i < k; i++) {
        id[i] = -1;
        out[i] = 0;
    }
    *rest = (float)left;
    free(all);
}

/* n draws: distinct ids, most often drawn first. */
static inline void make_draws(const double *logp, uint32_t V, uint32_t n, uint64_t seed, int32_t *id, float *out,
                              float *entropy)
{
    uint32_t *times = calloc(V, sizeof *times), count = 0;
    ranked *all = malloc(n * sizeof *all);
    double h = 0;
    for (uint32_t v = 0; v < V; v++) h -= exp(logp[v]) * logp[v];
    for (uint32_t i = 0; i < n; i++) {
        double u = unit(seed, 5, i);
        uint32_t v = 0;
        while (v + 1 < V && (u -= exp(logp[v])) > 0) v++;
        times[v]++;
    }
    for (uint32_t v = 0; v < V; v++)
        if (times[v]) all[count++] = (ranked){ (float)log((double)times[v] / n), (int32_t)v };
    qsort(all, count, sizeof *all, by_rank);
    for (uint32_t i = 0; i < n; i++) {
        id[i] = i < count ? all[i].id : -1;
        out[i] = i < count ? all[i].logp : 0;
    }
    *entropy = (float)h;
    free(times);
    free(all);
}

/* ---- blocks ---- */

/* With room for every array of 64 positions of a section. */
static inline rt_cache_block new_block(const rt_cache_section *s)
{
    size_t n = (size_t)64 * s->n;
    return (rt_cache_block){ .id = calloc(n, 4),
                             .logp = calloc(n, 4),
                             .rest = calloc(64, 4),
                             .entropy = calloc(64, 4),
                             .target = calloc(64, 4),
                             .target_logp = calloc(64, 4),
                             .hidden = calloc(n, 4) };
}

static inline void free_block(rt_cache_block *b)
{
    free(b->id);
    free(b->logp);
    free(b->rest);
    free(b->entropy);
    free(b->target);
    free(b->target_logp);
    free(b->hidden);
}

static inline rt_hash128 key_of(uint64_t seed) { return rt_hash(&seed, sizeof seed); }

/* The block of a seed: position p of it is the same whatever else is in `have`. */
static inline void fill_block(const rt_cache_section *s, dist kind, uint32_t V, uint64_t seed, uint64_t have,
                              rt_cache_block *b)
{
    double *logp = malloc(V * sizeof *logp);
    uint32_t j = 0;
    b->key = key_of(seed);
    b->have = have;
    for (uint32_t p = 0; p < 64; p++) {
        uint64_t own = seed * 64 + p;
        if (!(have >> p & 1)) continue;
        if (s->keep == RT_KEEP_HIDDEN) {
            uint8_t *row = (uint8_t *)b->hidden + j * rt_dtype_bytes(s->dtype, s->n);
            const uint64_t each = rt_dtype_bytes(s->dtype, 1);
            for (uint64_t i = 0; i < rt_dtype_bytes(s->dtype, s->n); i++) /* finite: the exponent is never all ones */
                row[i] = (uint8_t)(rt_philox(own, 6, i).v[0] & (i % each == each - 1 ? 0xbf : 0xff));
        } else {
            make_logp(kind, own, V, logp);
            if (s->keep == RT_KEEP_TOPK)
                make_topk(logp, V, s->n, b->id + j * s->n, b->logp + j * s->n, &b->rest[j]);
            else
                make_draws(logp, V, s->n, own, b->id + j * s->n, b->logp + j * s->n, &b->entropy[j]);
            b->target[j] = (int32_t)(rt_philox(own, 8, 0).v[0] % (p % 2 ? V : (V < 20 ? V : 20)));
            b->target_logp[j] = (float)logp[b->target[j]];
        }
        j++;
    }
    free(logp);
}

static inline rt_cache *new_cache(const rt_cache_section *s, uint32_t count)
{
    rt_cache *c = NULL;
    json_t *about = json_pack("{s:s}", "teacher", "a model");
    remove_all(case_path);
    ok(rt_cache_create(case_path, about, s, count, &case_err));
    json_decref(about);
    ok(rt_cache_open(&c, case_path, &case_err));
    return c;
}

static inline void reopen(rt_cache **c)
{
    rt_cache_close(*c);
    ok(rt_cache_open(c, case_path, &case_err));
}

/* One block of a seed, written by a writer of its own. */
static inline void write_one(rt_cache *c, uint32_t section, dist kind, uint32_t V, uint64_t seed, uint64_t have)
{
    const rt_cache_section *s;
    rt_cache_writer *w = NULL;
    rt_cache_sections(c, &s);
    rt_cache_block b = new_block(&s[section]);
    fill_block(&s[section], kind, V, seed, have, &b);
    ok(rt_cache_writer_new(&w, c, section, &case_err));
    ok(rt_cache_writer_add(w, &b, &case_err));
    ok(rt_cache_writer_commit(w, &case_err));
    rt_cache_writer_free(w);
    free_block(&b);
}

#endif
