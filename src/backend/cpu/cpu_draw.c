/* cpu_draw.c - random draws from a softmax over each row, and its entropy.
 *
 * A chunk is one row. One walk finds the largest logit, a second adds the weights of each block up; the marks of the
 * draws are sorted, so that one walk over the blocks meets them all, and only blocks in which one lies are weighed
 * again. Weights are the integers of num/draw.h, in vectors. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_rank.h"
#include "num/draw.h"

typedef double vd __attribute__((vector_size(sizeof(vf))));
typedef uint64_t vul __attribute__((vector_size(sizeof(vf))));
typedef int64_t vl __attribute__((vector_size(sizeof(vf))));
typedef float vhalf __attribute__((vector_size(sizeof(vf) / 2)));
enum { DL = VL / 2 };

typedef struct draw_job {
    const rt_bound_op *o;
    const rt_draw_args *a;
    const uint32_t *vmask; /* (V/32) or null */
    uint64_t seed;
    double scale;
    uint64_t *work; /* (threads,per_thread) */
    uint64_t per_thread;
} draw_job;

/* One row. */
typedef struct draw_row {
    const void *x; /* (V) */
    rt_dtype dtype;
    float max;
    uint64_t *sum; /* (blocks) of the weights in each */
} draw_row;

static uint32_t blocks_of(uint32_t V) { return (V + ROW_BLOCK - 1) / ROW_BLOCK; }
/* Scratch of a thread: the marks of the draws, the sums of the blocks. */
static uint64_t words_of(const rt_draw_args *a) { return a->n + (uint64_t)blocks_of(a->V); }
uint64_t RT_CPU(work_draw)(const rt_cpu_work *w) { return w->threads * words_of(&w->args->draw) * sizeof(uint64_t); }

/* The high halves of a times b, both below 2^32 in every lane. */
RT_INLINE vul high_half(vul a, vul b)
{
#if defined(RT_ISA_avx512)
    return (vul)_mm512_mul_epu32((__m512i)a, (__m512i)b) >> 32;
#elif defined(RT_ISA_avx2)
    return (vul)_mm256_mul_epu32((__m256i)a, (__m256i)b) >> 32;
#else
    return a * b >> 32;
#endif
}

/* rt_draw_depth and rt_draw_weight of half a vector: the weights, and the depths as numbers. */
RT_INLINE vul weigh(vhalf below, double scale, vd *depth)
{
    static const uint32_t poly[] = { RT_DRAW_POLY };
    const vul zero = { 0 };
    const vd magic = (vd)zero + 0x1.8p52, end = (vd)zero + RT_DRAW_END;
    vd q = __builtin_convertvector(below, vd) * scale;
    vl in = q < end;
    q = (vd)(((vul)q & (vul)in) | ((vul)end & ~(vul)in));
    vd t = magic - q; /* its mantissa is 2^51 - q, rounded: q has so few bits that the product may be fused */
    vul bits = (vul)t & 0xfffffffffffffu, x = bits & 0xffffffffu, m = zero;
    for (int i = sizeof poly / sizeof *poly; i-- > 0;) m = zero + poly[i] + high_half(x, m);
    m = (zero + (UINT64_C(1) << 31)) + high_half(x, m);
    *depth = magic - t;
    return m << 12 >> ((zero + 0x80000u) - (bits >> 32));
}

/* Adds up the weights of a block of x (n), those whose bit is set, and the sum of weight times depth; to (n up to whole
 * vectors): the weights, or null. */
RT_INLINE uint64_t weigh_block(const draw_job *j, float max, const float *x, const uint32_t *bits, uint32_t n,
                               double *depths, uint64_t *to)
{
    const vul to_f64 = (vul){ 0 } + (UINT64_C(0x433) << 52);
    vul sum = { 0 };
    vd part = { 0 };
    for (uint32_t i = 0; i < n; i += VL) {
        vi in = lanes_set(bits, i);
        if (n - i < VL) in &= lanes_below(n, i);
        vf below = vselect(in, vset(max) - vload(x + i), vset(INFINITY));
        for (uint32_t k = 0; k < 2; k++) {
            vhalf h;
            vd depth;
            memcpy(&h, (const float *)&below + k * DL, sizeof h);
            vul w = weigh(h, j->scale, &depth);
            sum += w;
            part += ((vd)(w | to_f64) - 0x1p52) * depth;
            if (to) memcpy(to + i + k * DL, &w, sizeof w);
        }
    }
    uint64_t all = 0;
    for (int k = 0; k < DL; k++) {
        all += sum[k];
        *depths += part[k];
    }
    return all;
}

static const uint32_t *bits_of(const draw_job *j, uint32_t block)
{
    return j->vmask ? j->vmask + (uint64_t)block * (ROW_BLOCK / 32) : all_ones;
}
/* Columns of a block as f32, and how many. */
static const float *block_of(const draw_job *j, const draw_row *r, uint32_t block, uint32_t *n, float *copy)
{
    uint32_t from = block * ROW_BLOCK;
    *n = j->a->V - from < ROW_BLOCK ? j->a->V - from : ROW_BLOCK;
    return as_f32(r->x, r->dtype, from, *n, copy);
}

/* The largest logit of Vc; false when one of them is not finite. */
static bool find_max(const draw_job *j, draw_row *r)
{
    const vi abs = (vi){ 0 } + 0x7fffffff;
    _Alignas(64) float copy[ROW_BLOCK];
    vf top = vset(-INFINITY);
    vi largest = { 0 };
    for (uint32_t b = 0, n; b < blocks_of(j->a->V); b++) {
        const float *x = block_of(j, r, b, &n, copy);
        const uint32_t *bits = bits_of(j, b);
        for (uint32_t i = 0; i < n; i += VL) {
            vi in = lanes_set(bits, i);
            if (n - i < VL) in &= lanes_below(n, i);
            vf v = vload(x + i);
            largest = vimax(largest, (vi)v & abs & in);
            top = vmax(top, vselect(in, v, vset(-INFINITY)));
        }
    }
    r->max = block_max(top);
    return block_imax(largest) < 0x7f800000;
}

static int32_t first_bad(const draw_job *j, const draw_row *r)
{
    uint32_t v = 0;
    while ((j->vmask && !(j->vmask[v / 32] >> v % 32 & 1)) || isfinite(load_t(r->x, v, r->dtype))) v++;
    return (int32_t)v;
}

/* The sums of all blocks and theirs; the entropy. */
static uint64_t add_up(const draw_job *j, const draw_row *r, float *entropy)
{
    _Alignas(64) float copy[ROW_BLOCK];
    uint64_t sum = 0;
    double depths = 0;
    for (uint32_t b = 0, n; b < blocks_of(j->a->V); b++) {
        const float *x = block_of(j, r, b, &n, copy);
        sum += r->sum[b] = weigh_block(j, r->max, x, bits_of(j, b), n, &depths, NULL);
    }
    *entropy = sum ? (float)rt_draw_entropy((double)sum, depths) : 0.0f;
    return sum;
}

/* id and logp = the ids that the marks (n), falling, lie on; returns how many. */
static uint32_t meet(const draw_job *j, const draw_row *r, const uint64_t *mark, int32_t *id, float *logp)
{
    _Alignas(64) float copy[ROW_BLOCK];
    _Alignas(64) uint64_t weight[ROW_BLOCK];
    uint64_t before = 0;
    uint32_t k = 0, b = 0, left = j->a->n, n;
    while (left > 0) {
        double depths = 0;
        for (; before + r->sum[b] <= mark[left - 1]; b++) before += r->sum[b];
        const float *x = block_of(j, r, b, &n, copy);
        weigh_block(j, r->max, x, bits_of(j, b), n, &depths, weight);
        for (uint32_t i = 0; left > 0 && i < n; i++) {
            uint32_t count = 0;
            before += weight[i];
            for (; left > 0 && mark[left - 1] < before; left--) count++;
            if (!count) continue;
            id[k] = (int32_t)(b * ROW_BLOCK + i);
            logp[k++] = (float)rt_draw_logp(count, j->a->n);
        }
        b++;
    }
    return k;
}

static void draw_chunk(void *ctx, uint32_t i, uint32_t worker)
{
    const draw_job *j = ctx;
    const uint32_t n = j->a->n;
    const rt_operand *slot = j->o->slot, *xo = &slot[RT_DRAW_X];
    int32_t *id = (int32_t *)rt_host_ptr(&slot[RT_DRAW_ID]) + i * slot[RT_DRAW_ID].stride;   /* (n) */
    float *logp = (float *)rt_host_ptr(&slot[RT_DRAW_LOGP]) + i * slot[RT_DRAW_LOGP].stride; /* (n) */
    float *entropy = (float *)rt_host_ptr(&slot[RT_DRAW_ENTROPY]) + i * slot[RT_DRAW_ENTROPY].stride;
    const uint32_t *key = (const uint32_t *)rt_host_ptr(&slot[RT_DRAW_KEY]) + i * slot[RT_DRAW_KEY].stride;
    uint64_t *mark = j->work + worker * j->per_thread;
    draw_row r = { .dtype = xo->dtype, .sum = mark + n };
    r.x = (const uint8_t *)rt_host_ptr(xo) + i * xo->stride * rt_dtype_table[xo->dtype].block_bytes;
    bool finite = find_max(j, &r);
    uint64_t sum = finite ? add_up(j, &r, entropy) : 0;
    rank_top t = { .key = mark, .n = n, .most = n + 1 };
    for (uint32_t d = 0; sum && d < n; d++)
        mark[d] = rt_draw_mark(rt_draw_bits(j->seed, (uint64_t)key[1] << 32 | key[0], d), sum);
    if (sum) rank_sort(&t);
    uint32_t k = sum ? meet(j, &r, mark, id, logp) : 0;
    if (!finite) {
        id[0] = first_bad(j, &r);
        logp[0] = *entropy = NAN;
        k = 1;
    }
    for (; k < n; k++) {
        id[k] = -1;
        logp[k] = finite ? 0.0f : NAN;
    }
}

void RT_CPU(draw)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_draw_args *a = &o->args.draw;
    rt_step step;
    memcpy(&step, rt_host_ptr(&o->slot[RT_DRAW_STEP]), sizeof step);
    draw_job j = { .o = o, .a = a, .seed = step.seed, .scale = rt_draw_scale(a->T), .per_thread = words_of(a) };
    j.vmask = rt_host_ptr(&o->slot[RT_DRAW_VMASK]);
    j.work = rt_host_ptr(&o->work);
    rt_pool_run(c->pool, a->N, draw_chunk, &j);
}
