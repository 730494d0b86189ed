/* cpu_gemm_int8.c - matmul_int8: out (M,N) = or += a (M,K) b' (N,K) + bias, a in Q8_0, b packed.
 *
 * Owns: rows of a as the kernels read them, chunks of rows of b, the epilogue. A chunk is a run of rows of b and meets
 * all rows of a, 8 at a time. Leaves the sums to cpu_int8_rows.c.
 *
 * A chunk takes some two microseconds, and b comes from memory. So each thread takes chunks that follow one another,
 * from a run of its own until that is done, then from the others': what it reads ahead of time is what it reads next.
 */
#include "backend/cpu/cpu_gemm_cut.h"
#include "backend/cpu/cpu_int8_unpack.h"

#include <stdatomic.h>

enum {
    RUNS = 64,                           /* at most; more threads share them */
    CHUNK_MOST = 4 * RT_GEMM_DOTS_ELEMS, /* weights of a chunk, where there are SOME such chunks: claiming one costs */
    SOME = 16,
};

/* Chunks of a run that were taken, in a cache line of its own. */
typedef struct run {
    _Alignas(64) _Atomic uint32_t taken;
} run;

typedef struct job {
    const rt_bound_op *o;
    const rt_matmul_args *g;
    rt_int8_rows x;
    rt_int8_span *spans; /* (M, x.spans): the same as x.a */
    rt_int8_fn rows;
    uint32_t chunks, runs;
    run run[RUNS];
} job;

static uint32_t spans_of(const rt_matmul_args *g)
{
    return (uint32_t)(((uint64_t)g->K + RT_INT8_SPAN - 1) / RT_INT8_SPAN);
}

uint64_t RT_CPU(work_matmul_int8)(const rt_cpu_work *w)
{
    const rt_matmul_args *g = &w->args->matmul;
    return (uint64_t)g->M * spans_of(g) * sizeof(rt_int8_span);
}

/* Block i of a span. */
static void lay_block(rt_int8_span *s, uint32_t i, const uint8_t *q8, rt_dtype b)
{
    static const float offset[RT_DTYPE_COUNT] = { /* what sums of codes are multiplied by, besides their scale */
                                                  [RT_DTYPE_Q4_0] = -8,
                                                  [RT_DTYPE_Q4_1] = 1,
                                                  [RT_DTYPE_Q4_K] = -1,
                                                  [RT_DTYPE_Q5_K] = -1,
                                                  [RT_DTYPE_Q6_K] = -32
    };
    const float d = load_f16(q8), times = offset[b];
    const int8_t *c = (const int8_t *)(q8 + 2);
    int sum[2] = { 0 };
    memcpy(s->c + 32 * int8_place(i, b), c, 32);
    for (int k = 0; k < 16; k++) {
        sum[0] += c[k];
        sum[1] += c[16 + k];
    }
    if (b == RT_DTYPE_Q6_K) {
        for (int h = 0; h < 2; h++) {
            s->f[2 * i + (uint32_t)h] = d;
            s->f[16 + 2 * i + (uint32_t)h] = d * (times * (float)sum[h]);
        }
        return;
    }
    s->f[i] = d;
    s->f[8 + i] = d * (times * (float)(sum[0] + sum[1]));
}

static void lay_row(void *ctx, uint32_t m, uint32_t worker)
{
    const job *j = ctx;
    const rt_operand *a = &j->o->slot[RT_MM_A];
    const uint8_t *row = (const uint8_t *)rt_host_ptr(a) + m * row_bytes(a->dtype, a->stride);
    rt_int8_span *s = j->spans + (uint64_t)m * j->x.spans;
    (void)worker;
    memset(s + j->x.spans - 1, 0, sizeof *s);
    for (uint32_t i = 0; i < j->g->K / 32; i++)
        lay_block(s + i / RT_INT8_BLOCKS, i % RT_INT8_BLOCKS, row + (uint64_t)i * BYTES_Q8_0, j->x.type);
}

static void finish(const job *j, const float *sums, uint32_t m0, uint32_t M, uint32_t n0, uint32_t n1)
{
    const rt_operand *out = &j->o->slot[RT_MM_OUT], *bias = &j->o->slot[RT_MM_BIAS];
    const uint64_t step = row_bytes(out->dtype, out->stride);
    uint8_t *row = (uint8_t *)rt_host_ptr(out) + m0 * step;
    for (uint32_t m = 0; m < M; m++, row += step)
        for (uint32_t n = n0; n < n1; n++) {
            float v = sums[(n - n0) * M + m];
            if (bias->mem) v += load_t(rt_host_ptr(bias), n, bias->dtype);
            if (j->o->acc & 1u << RT_MM_OUT) v += load_t(row, n, out->dtype);
            store_t(row, n, v, out->dtype);
        }
}

/* As many calls as there are chunks find one each: a run that is done stays done. */
static uint32_t take_chunk(job *j, uint32_t worker)
{
    for (uint32_t k = 0; k < j->runs; k++) {
        const uint32_t i = (worker + k) % j->runs, begin = rt_gemm_border(j->chunks, 1, j->runs, i);
        const uint32_t chunk = begin + atomic_fetch_add_explicit(&j->run[i].taken, 1, memory_order_relaxed);
        if (chunk < rt_gemm_border(j->chunks, 1, j->runs, i + 1)) return chunk;
    }
    return j->chunks; /* never */
}

static void run_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    job *j = ctx;
    chunk = take_chunk(j, worker);
    uint32_t n0 = rt_gemm_border(j->g->N, 4, j->chunks, chunk), end = rt_gemm_border(j->g->N, 4, j->chunks, chunk + 1);
    float sums[RT_INT8_GROUP * RT_INT8_M];
    for (uint32_t n1; n0 < end; n0 = n1) { /* these rows of b stay in a near cache for all rows of a */
        n1 = end - n0 < RT_INT8_GROUP ? end : n0 + RT_INT8_GROUP;
        for (uint32_t m = 0, M; m < j->g->M; m += M) {
            const uint32_t left = j->g->M - m;
            M = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
            j->rows(&j->x, m, M, n0, n1, sums);
            finish(j, sums, m, M, n0, n1);
        }
    }
}

static rt_int8_fn rows_of(const rt_cpu_ctx *c)
{
#if RT_HAVE_DOT
    if (c->dot) return RT_CPU(int8_rows_dot);
#endif
    (void)c;
    return RT_CPU(int8_rows);
}

void RT_CPU(matmul_int8)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_operand *b = &o->slot[RT_MM_B];
    job j = { .o = o, .g = &o->args.matmul, .spans = rt_host_ptr(&o->work), .rows = rows_of(c) };
    const uint64_t share = (uint64_t)j.g->N * j.g->K / SOME, least = share > CHUNK_MOST ? CHUNK_MOST : share;
    const uint64_t elems = least < RT_GEMM_DOTS_ELEMS ? RT_GEMM_DOTS_ELEMS : least;
    const uint32_t rows = (uint32_t)(elems / j.g->K / 4 * 4), threads = rt_pool_threads(c->pool);
    j.chunks = rt_gemm_parts(j.g->N, rows < 4 ? 4 : rows);
    j.runs = threads < RUNS ? threads : RUNS;
    if (j.runs > j.chunks) j.runs = j.chunks;
    j.x = (rt_int8_rows){ .a = j.spans, .spans = spans_of(j.g), .b = rt_host_ptr(b), .type = b->dtype };
    j.x.last = j.g->K / 32 - (j.x.spans - 1) * RT_INT8_BLOCKS;
    j.x.step = row_bytes(b->dtype, b->stride);
    rt_pool_run(c->pool, j.g->M, lay_row, &j);
    rt_pool_run(c->pool, j.chunks, run_chunk, &j);
}
