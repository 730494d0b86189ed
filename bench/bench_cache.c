/* bench_cache.c - what a cache of a teacher takes: bytes a position, positions a second on one core, and what its code
 * changes, over distributions near uniform and over power laws with the spread of exponents that text has.
 *
 *   build/bench_cache [FOLDER]     the folder is made and removed; by default one in /tmp
 *
 * Ids are drawn with more low ones than high ones (V u^2), as the ids of likely tokens are. */
#include "base/file.h"
#include "base/rng.h"
#include "teacher/cache/cache.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BLOCKS = 8, POSITIONS = BLOCKS * 64, K = 64, DRAWS = 50 };

typedef struct data {
    int32_t *id;                  /* (POSITIONS,n) */
    float *logp, *rest, *entropy; /* (POSITIONS,n), (POSITIONS), (POSITIONS) */
    double mean_rest, mean_distinct;
} data;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t); /* others may use the machine */
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void need(int rc, const rt_err *e)
{
    if (rc == RT_OK) return;
    fprintf(stderr, "bench_cache: %s\n", e->text);
    exit(1);
}

static double unit(uint64_t seed, uint64_t stream, uint64_t i)
{
    return ((double)rt_philox(seed, stream, i).v[0] + 0.5) / 4294967296.0;
}

/* The id of a rank at a position, other than those that are taken. */
static int32_t id_of(uint64_t position, uint32_t rank, uint32_t V, bool text, uint8_t *taken)
{
    double u = unit(position, 2, rank);
    uint32_t id = (uint32_t)(V * (text ? u * u : u));
    while (taken[id]) id = id + 1 < V ? id + 1 : 0;
    taken[id] = 1;
    return (int32_t)id;
}

/* Log-probabilities by rank: (rank + 1)^-power, or nearly equal ones. */
static double make_ranks(uint64_t position, uint32_t V, bool text, double *logp /* (V) */)
{
    double sum = 0, entropy = 0, power = 1.2 + 2.3 * unit(position, 1, 0);
    for (uint32_t r = 0; r < V; r++) {
        logp[r] = text ? -power * log(1 + r + 0.3 * unit(position, 3, r)) : -0.05 * r / V;
        sum += exp(logp[r]);
    }
    for (uint32_t r = 0; r < V; r++) {
        logp[r] -= log(sum);
        entropy -= exp(logp[r]) * logp[r];
    }
    return entropy;
}

static void make_topk(data *d, uint32_t p, uint32_t V, bool text, const double *logp, uint8_t *taken)
{
    double listed = 0;
    for (uint32_t i = 0; i < K; i++) {
        d->id[p * K + i] = id_of(p, i, V, text, taken);
        d->logp[p * K + i] = (float)logp[i];
        listed += exp(logp[i]);
    }
    d->rest[p] = (float)(1 - listed);
    d->mean_rest += (1 - listed) / POSITIONS;
}

static void make_draws(data *d, uint32_t p, uint32_t V, bool text, const double *logp, uint8_t *taken)
{
    uint32_t rank[DRAWS], times[DRAWS], n = 0;
    double *below = malloc(V * sizeof *below), sum = 0; /* the mass up to each rank */
    for (uint32_t r = 0; r < V; r++) below[r] = sum += exp(logp[r]);
    for (uint32_t i = 0; i < DRAWS; i++) {
        double u = unit(p, 4, i);
        uint32_t r = 0, j = 0;
        for (uint32_t high = V - 1; r < high;) {
            uint32_t middle = r + (high - r) / 2;
            if (below[middle] < u)
                r = middle + 1;
            else
                high = middle;
        }
        while (j < n && rank[j] != r) j++;
        if (j == n) {
            rank[n] = r;
            times[n++] = 0;
        }
        times[j]++;
    }
    for (uint32_t i = 0; i < DRAWS; i++) {
        d->id[p * DRAWS + i] = i < n ? id_of(p, rank[i], V, text, taken) : -1;
        d->logp[p * DRAWS + i] = i < n ? (float)log((double)times[i] / DRAWS) : 0;
    }
    free(below);
    d->mean_distinct += (double)n / POSITIONS;
}

static data empty(uint32_t n)
{
    return (data){ .id = malloc((size_t)POSITIONS * n * sizeof(int32_t)),
                   .logp = malloc((size_t)POSITIONS * n * sizeof(float)),
                   .rest = malloc(POSITIONS * sizeof(float)),
                   .entropy = malloc(POSITIONS * sizeof(float)) };
}

static data make(rt_keep keep, uint32_t V, bool text)
{
    data d = empty(keep == RT_KEEP_TOPK ? K : DRAWS);
    double *logp = malloc(V * sizeof *logp);
    uint8_t *taken = malloc(V);
    for (uint32_t p = 0; p < POSITIONS; p++) {
        memset(taken, 0, V);
        d.entropy[p] = (float)make_ranks(p, V, text, logp);
        if (keep == RT_KEEP_TOPK)
            make_topk(&d, p, V, text, logp, taken);
        else
            make_draws(&d, p, V, text, logp, taken);
    }
    free(logp);
    free(taken);
    return d;
}

static rt_cache_block block_of(const data *d, uint32_t b, uint32_t n)
{
    uint64_t p = (uint64_t)b * 64;
    return (rt_cache_block){ .key = rt_hash(&b, sizeof b),
                             .have = UINT64_MAX,
                             .id = d->id + p * n,
                             .logp = d->logp + p * n,
                             .rest = d->rest + p,
                             .entropy = d->entropy + p,
                             .target = d->id,
                             .target_logp = d->logp };
}

/* Errors of what is read, entry by entry, and KL of what was written to it over what is listed and the rest. */
static void compare(const data *d, const data *r, double *most, double *mean, double *kl_mean, double *kl_most)
{
    double count = 0;
    *most = *mean = *kl_mean = *kl_most = 0;
    for (uint32_t p = 0; p < POSITIONS; p++) {
        double kl = (double)d->rest[p] * log((double)d->rest[p] / (double)r->rest[p]);
        for (uint32_t i = 0; i < K; i++) {
            uint32_t j = 0;
            while (d->id[p * K + i] != r->id[p * K + j]) j++;
            double off = (double)d->logp[p * K + i] - (double)r->logp[p * K + j];
            *most = fmax(*most, fabs(off));
            *mean += fabs(off);
            kl += exp((double)d->logp[p * K + i]) * off;
            count++;
        }
        *kl_mean += kl / POSITIONS;
        *kl_most = fmax(*kl_most, kl);
    }
    *mean /= count;
}

static void measure(const char *folder, rt_cache_section s, uint32_t V, bool text)
{
    enum { TIMES = 20 };
    rt_err e = { 0 };
    rt_cache *c;
    rt_cache_writer *w;
    char command[400];
    double begin, write_s = 0, read_s = 0, most, mean, kl, kl_most;
    data d = make(s.keep, V, text), r = empty(s.n);
    for (int t = 0; t < TIMES; t++) {
        snprintf(command, sizeof command, "rm -rf '%s'", folder);
        if (system(command) != 0) exit(1);
        need(rt_cache_create(folder, NULL, &s, 1, &e), &e);
        need(rt_cache_open(&c, folder, &e), &e);
        need(rt_cache_writer_new(&w, c, 0, &e), &e);
        begin = now();
        for (uint32_t b = 0; b < BLOCKS; b++) {
            rt_cache_block x = block_of(&d, b, s.n);
            need(rt_cache_writer_add(w, &x, &e), &e);
        }
        write_s += now() - begin;
        need(rt_cache_writer_commit(w, &e), &e);
        rt_cache_writer_free(w);
        begin = now();
        for (uint32_t b = 0; b < BLOCKS; b++) {
            rt_cache_block x = block_of(&r, b, s.n);
            need(rt_cache_get(c, 0, &x.key, UINT64_MAX, &x, &e), &e);
        }
        read_s += now() - begin;
        if (t + 1 < TIMES) rt_cache_close(c);
    }
    double positions = (double)POSITIONS * TIMES;
    printf("%-5s %2u of %6u%s, %-12s %6.1f bytes a position, written %7.0f/s, read %7.0f/s", rt_keep_name(s.keep), s.n,
           V, s.exact ? " exact" : "", text ? "power laws" : "near uniform",
           (double)rt_cache_size_of(c, 0).bytes / POSITIONS, positions / write_s, positions / read_s);
    if (s.keep == RT_KEEP_TOPK) {
        compare(&d, &r, &most, &mean, &kl, &kl_most);
        printf("; mean rest %.3f; off by %.2g mean, %.2g most; KL %.2g mean, %.2g most\n", d.mean_rest, mean, most, kl,
               kl_most);
    } else {
        printf("; %.1f distinct ids\n", d.mean_distinct);
    }
    rt_cache_close(c);
    if (system(command) != 0) exit(1);
}

int main(int argc, char **argv)
{
    const char *folder = argc > 1 ? argv[1] : "/tmp/retort-bench-cache";
    rt_json_init();
    for (int text = 0; text < 2; text++)
        for (int large = 0; large < 2; large++) {
            uint32_t V = large ? 151936 : 49152;
            measure(folder, (rt_cache_section){ RT_KEEP_TOPK, K, .T = 1 }, V, text);
            measure(folder, (rt_cache_section){ RT_KEEP_DRAWS, DRAWS, .T = 1 }, V, text);
        }
    measure(folder, (rt_cache_section){ RT_KEEP_TOPK, K, .T = 1, .exact = true }, 49152, true);
    return 0;
}
