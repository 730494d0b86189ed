/* bench_text.c - how fast a tokenizer encodes a file of documents, for bench/bench_text.py.
 *
 *   bench_text TOKENIZER.json TEXT THREADS ROUNDS
 *
 * TEXT holds documents, each ended by a zero byte. Encodes them all once to warm up, then as often as asked for; prints
 * "SECONDS CPU_SECONDS" for each round, the first one included, and at last "ids COUNT SUM" of the last round. CPU
 * seconds are those of all threads: where others use the machine too, they tell what the threads cost one another. */
#include "base/mem.h"
#include "base/pool.h"
#include "base/sys.h"
#include "text/tokenizer/tokenizer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MAX_THREADS = 64, CHUNK = 16 /* documents */ };

typedef struct bench {
    const rt_tokenizer *t;
    rt_tok_text *documents;
    uint32_t count;
    struct worker {
        _Alignas(128) rt_tok_scratch *scratch;
        rt_tok_ids ids;
        uint64_t ids_count, ids_sum;
        bool failed;
    } workers[MAX_THREADS];
} bench;

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_text: %s: %s\n", what, why);
    exit(1);
}

static char *read_whole(const char *path, size_t *len)
{
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0) die(path, "cannot be read");
    *len = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*len + 1);
    if (!text || fread(text, 1, *len, f) != *len) die(path, "cannot be read");
    text[*len] = 0;
    fclose(f);
    return text;
}

static void encode_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    bench *b = ctx;
    struct worker *w = &b->workers[worker];
    uint32_t end = (chunk + 1) * CHUNK < b->count ? (chunk + 1) * CHUNK : b->count;
    rt_err e = { 0 };
    for (uint32_t i = chunk * CHUNK; i < end; i++) {
        w->ids.count = 0;
        if (rt_tokenizer_encode(b->t, w->scratch, b->documents[i].data, b->documents[i].len, 0, &w->ids, &e) < 0)
            w->failed = true;
        w->ids_count += w->ids.count;
        for (uint32_t k = 0; k < w->ids.count; k++) w->ids_sum += w->ids.ids[k];
    }
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void run_round(bench *b, rt_pool *pool)
{
    for (uint32_t i = 0; i < rt_pool_threads(pool); i++) b->workers[i].ids_count = b->workers[i].ids_sum = 0;
    double start = rt_now(), cpu_start = cpu_seconds();
    rt_pool_run(pool, (b->count + CHUNK - 1) / CHUNK, encode_chunk, b);
    printf("%.6f %.6f\n", rt_now() - start, cpu_seconds() - cpu_start);
}

static void cut(bench *b, char *text, size_t len)
{
    uint32_t n = 0;
    for (char *p = text; p < text + len; p += strlen(p) + 1) n++;
    b->documents = malloc((n + 1) * sizeof *b->documents);
    if (!b->documents) die("documents", "out of memory");
    for (char *p = text; p < text + len; p += strlen(p) + 1) b->documents[b->count++] = (rt_tok_text){ p, strlen(p) };
}

int main(int argc, char **argv)
{
    static bench b;
    rt_err e = { 0 };
    rt_tokenizer *t = NULL;
    rt_pool *pool = NULL;
    size_t len;
    if (argc != 5) die("usage", "bench_text TOKENIZER.json TEXT THREADS ROUNDS");
    uint32_t threads = (uint32_t)atoi(argv[3]);
    if (threads < 1 || threads > MAX_THREADS) die(argv[3], "threads are 1 to 64");
    char *json = read_whole(argv[1], &len);
    if (rt_tokenizer_from_json(&t, json, len, &e) < 0) die(argv[1], e.text);
    b.t = t;
    free(json);
    char *text = read_whole(argv[2], &len);
    cut(&b, text, len);
    for (uint32_t i = 0; i < threads; i++)
        if (rt_tok_scratch_new(&b.workers[i].scratch, t, &e) < 0) die("scratch", e.text);
    if (rt_pool_new(&pool, threads, &e) < 0) die("threads", e.text);
    for (int round = 0; round <= atoi(argv[4]); round++) run_round(&b, pool);
    uint64_t count = 0, sum = 0;
    for (uint32_t i = 0; i < threads; i++) {
        struct worker *w = &b.workers[i];
        if (w->failed) die("encode", "a document failed");
        count += w->ids_count;
        sum += w->ids_sum;
        rt_tok_scratch_free(w->scratch);
        rt_free(w->ids.ids);
    }
    printf("ids %llu %llu\n", (unsigned long long)count, (unsigned long long)sum);
    rt_pool_free(pool);
    rt_tokenizer_free(t);
    free(b.documents);
    free(text);
    return 0;
}
