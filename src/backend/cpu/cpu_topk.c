/* cpu_topk.c - the k most likely ids of each row with their log-probabilities, and the mass of the others.
 *
 * A chunk is one row. One walk picks the ids (cpu_rank.h) and so knows the largest logit; they are then taken out of
 * the bitmap of Vc, and a second walk, from the near cache, adds up the others: the mass left over is summed, not
 * subtracted. Each block is summed relative to its own maximum, so no mass is lost to underflow, however small. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_rank.h"

typedef struct topk_job {
    const rt_bound_op *o;
    const rt_topk_args *a;
    const uint32_t *vmask; /* (V/32) or null */
    uint32_t words;        /* of a bitmap, whole blocks */
    uint8_t *work;
    uint64_t per_thread;
} topk_job;

static uint32_t bitmap_words(uint32_t V)
{
    return (uint32_t)(((uint64_t)V + ROW_BLOCK - 1) / ROW_BLOCK * (ROW_BLOCK / 32));
}
/* Scratch of a thread: k keys, a bitmap. */
static uint64_t thread_bytes(const rt_topk_args *a)
{
    return rt_align_up(a->k * sizeof(uint64_t), 64) + rt_align_up(bitmap_words(a->V) * sizeof(uint32_t), 64);
}
uint64_t RT_CPU(work_topk)(const rt_cpu_work *w) { return w->threads * thread_bytes(&w->args->topk); }

/* bits (words) = Vc: ids below V whose bit is set in vmask. */
static void fill_bits(uint32_t *bits, const topk_job *j)
{
    const uint32_t V = j->a->V;
    memset(bits, 0, j->words * sizeof *bits);
    for (uint32_t w = 0; w < V / 32; w++) bits[w] = j->vmask ? j->vmask[w] : UINT32_MAX;
    if (V % 32) bits[V / 32] = (j->vmask ? j->vmask[V / 32] : UINT32_MAX) & ((1u << V % 32) - 1);
}

/* sum of exp((x - *m)/T) over the columns of x (n) whose bit is set, *m the largest of them; 0 when there is none */
static double block_mass(const float *x, const uint32_t *bits, uint32_t n, float c, float *m)
{
    vf top = vset(-INFINITY), sum = { 0 };
    for (uint32_t i = 0; i < n; i += VL) top = vmax(top, vselect(lanes_set(bits, i), vload(x + i), vset(-INFINITY)));
    *m = block_max(top);
    if (*m == -INFINITY) return 0;
    for (uint32_t i = 0; i < n; i += 16 * VL) { /* a part in f32, few additions deep */
        vf part = { 0 };
        for (uint32_t k = i; k < n && k < i + 16 * VL; k += VL)
            part += exp2_careful(vload(x + k) - vset(*m), c, lanes_set(bits, k));
        sum += part;
    }
    return block_sum(sum);
}

/* The mass of the columns that are left in bits, relative to exp(top/T). */
static double rest_mass(const topk_job *j, const void *x, const uint32_t *bits, float top)
{
    const rt_dtype d = j->o->slot[RT_TOPK_X].dtype;
    _Alignas(64) float copy[ROW_BLOCK];
    float c = (float)(1.44269504088896340736 / j->a->T), m;
    double sum = 0;
    for (uint64_t from = 0; from < j->a->V; from += ROW_BLOCK) {
        uint32_t n = j->a->V - from < ROW_BLOCK ? (uint32_t)(j->a->V - from) : ROW_BLOCK;
        double part = block_mass(as_f32(x, d, from, n, copy), bits + from / 32, n, c, &m);
        if (part > 0) sum += part * exp(((double)m - top) / j->a->T);
    }
    return sum;
}

static void topk_chunk(void *ctx, uint32_t i, uint32_t worker)
{
    const topk_job *j = ctx;
    const rt_topk_args *a = j->a;
    const rt_operand *slot = j->o->slot, *xo = &slot[RT_TOPK_X];
    const uint8_t *x = (const uint8_t *)rt_host_ptr(xo) + i * xo->stride * rt_dtype_table[xo->dtype].block_bytes;
    int32_t *id = (int32_t *)rt_host_ptr(&slot[RT_TOPK_ID]) + i * slot[RT_TOPK_ID].stride;   /* (k) */
    float *logp = (float *)rt_host_ptr(&slot[RT_TOPK_LOGP]) + i * slot[RT_TOPK_LOGP].stride; /* (k) */
    float *rest = (float *)rt_host_ptr(&slot[RT_TOPK_REST]) + i * slot[RT_TOPK_REST].stride;
    rank_top t = { .key = (uint64_t *)(j->work + worker * j->per_thread), .most = a->k };
    uint32_t *bits = (uint32_t *)((uint8_t *)t.key + rt_align_up(a->k * sizeof(uint64_t), 64));
    _Alignas(64) float copy[ROW_BLOCK];
    fill_bits(bits, j);
    for (uint64_t from = 0; from < a->V; from += ROW_BLOCK) {
        uint32_t n = a->V - from < ROW_BLOCK ? (uint32_t)(a->V - from) : ROW_BLOCK;
        rank_block(&t, as_f32(x, xo->dtype, from, n, copy), bits + from / 32, n, (uint32_t)from);
    }
    bool finite = rank_finite(&t);
    if (finite) rank_sort(&t);
    double top = t.n ? rank_value(t.key[0]) : 0, listed = 0, left = 0;
    for (uint32_t e = 0; finite && e < t.n; e++) {
        uint32_t v = rank_id(t.key[e]);
        bits[v / 32] &= ~(1u << v % 32);
        listed += exp((rank_value(t.key[e]) - top) / a->T);
    }
    if (finite && t.n == a->k) left = rest_mass(j, x, bits, (float)top);
    double sum = listed + left, lse = log(sum);
    for (uint32_t e = 0; e < a->k; e++) {
        bool have = finite && e < t.n;
        id[e] = have ? (int32_t)rank_id(t.key[e]) : -1;
        logp[e] = have ? (float)((rank_value(t.key[e]) - top) / a->T - lse) : finite ? -INFINITY : NAN;
    }
    *rest = !finite ? NAN : t.n ? (float)(left / sum) : 0.0f;
}

void RT_CPU(topk)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_topk_args *a = &o->args.topk;
    topk_job j = { .o = o, .a = a, .words = bitmap_words(a->V), .per_thread = thread_bytes(a) };
    j.vmask = rt_host_ptr(&o->slot[RT_TOPK_VMASK]);
    j.work = rt_host_ptr(&o->work);
    rt_pool_run(c->pool, a->N, topk_chunk, &j);
}
