/* cpu_dropout.c - dropout: y = or += x times 1 / (1 - p) or 0, by random words that are made where they are used.
 *
 * A random word depends on the element's row and column in the step alone (op/args.h), so how rows are cut, and among
 * how many threads, changes nothing. */
#include "backend/cpu/cpu_split.h"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

enum { SETS = 2, BLOCK = SETS * 4 * VL }; /* vectors under way, and their random words: four of a lane */

typedef struct drop_job {
    rt_step step;
    uint64_t stream;
    uint32_t below;
    float scale;
} drop_job;

typedef uint64_t vul __attribute__((vector_size(sizeof(vf))));

/* The low and the high halves of a times m, lane by lane. */
RT_INLINE void multiply(vu a, uint32_t m, vu *low, vu *high)
{
#if defined(RT_ISA_avx512)
    __m512i even = _mm512_mul_epu32((__m512i)a, _mm512_set1_epi32((int)m));
    __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64((__m512i)a, 32), _mm512_set1_epi32((int)m));
#elif defined(RT_ISA_avx2)
    __m256i even = _mm256_mul_epu32((__m256i)a, _mm256_set1_epi32((int)m));
    __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64((__m256i)a, 32), _mm256_set1_epi32((int)m));
#elif defined(RT_ISA_neon)
    uint64x2_t even = vmull_n_u32(vmovn_u64((uint64x2_t)a), m), odd = vmull_n_u32(vshrn_n_u64((uint64x2_t)a, 32), m);
#elif defined(__SSE2__)
    __m128i even = _mm_mul_epu32((__m128i)a, _mm_set1_epi32((int)m));
    __m128i odd = _mm_mul_epu32(_mm_srli_epi64((__m128i)a, 32), _mm_set1_epi32((int)m));
#else
    vul even = ((vul)a & 0xffffffffu) * m, odd = ((vul)a >> 32) * m;
#endif
    *low = (vu)(((vul)even & 0xffffffffu) | (vul)odd << 32);
    *high = (vu)((vul)even >> 32 | ((vul)odd & ~(uint64_t)0xffffffffu));
}

/* factor (BLOCK) of columns 4 group and on: rt_philox of base/rng.h, a column's words in a lane */
static void factors(float *factor, const drop_job *j, uint32_t row, uint32_t group)
{
    const vu zero = { 0 };
    vu c[SETS][4];
    uint32_t k0 = (uint32_t)j->step.seed, k1 = (uint32_t)(j->step.seed >> 32);
    for (uint32_t s = 0; s < SETS; s++) {
        c[s][0] = zero + (group + s * VL);
        for (uint32_t i = 0; i < VL; i++) c[s][0][i] += i;
        c[s][1] = zero + row;
        c[s][2] = zero + (uint32_t)j->stream;
        c[s][3] = zero + (uint32_t)(j->stream >> 32);
    }
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u)
        for (uint32_t s = 0; s < SETS; s++) {
            vu low0, high0, low1, high1;
            multiply(c[s][0], 0xD2511F53u, &low0, &high0);
            multiply(c[s][2], 0xCD9E8D57u, &low1, &high1);
            c[s][0] = high1 ^ c[s][1] ^ k0;
            c[s][1] = low1;
            c[s][2] = high0 ^ c[s][3] ^ k1;
            c[s][3] = low0;
        }
    for (uint32_t s = 0; s < SETS; s++) {
        float kept[4][VL];
        for (int k = 0; k < 4; k++) vstore(kept[k], vselect((vi)(c[s][k] >= j->below), vset(j->scale), vset(0.0f)));
        for (uint32_t i = 0; i < VL; i++)
            for (int k = 0; k < 4; k++) *factor++ = kept[k][i];
    }
}

/* n elements of one row, from column col on */
RT_INLINE void drop_row(void *y, const void *x, uint64_t from, uint32_t n, const drop_job *j, uint32_t row,
                        uint32_t col, bool acc, rt_dtype d)
{
    float factor[BLOCK];
    for (uint32_t done = 0; done < n;) {
        uint32_t skip = (col + done) % 4, end = done + BLOCK - skip < n ? done + BLOCK - skip : n;
        const float *f = factor + skip;
        factors(factor, j, row, (col + done) / 4);
        for (; done + VL <= end; done += VL, f += VL) {
            vf v = vload_t(x, from + done, d) * vload(f);
            vstore_t(y, from + done, acc ? vload_t(y, from + done, d) + v : v, d);
        }
        for (; done < end; done++, f++) {
            float v = load_t(x, from + done, d) * *f;
            store_t(y, from + done, acc ? load_t(y, from + done, d) + v : v, d);
        }
    }
}

static void drop_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    const drop_job *j = ctx;
    const uint64_t C = o->args.dropout.C, first = s.row * C + s.col; /* of a span over rows without gaps too */
    void *y = span_ptr(&o->slot[RT_DROP_Y], s);
    const void *x = span_ptr(&o->slot[RT_DROP_X], s);
    for (uint64_t done = 0; done < s.n;) {
        uint64_t row = (first + done) / C, col = (first + done) % C, n = C - col < s.n - done ? C - col : s.n - done;
        RT_FOR_FLOAT(o->slot[RT_DROP_Y].dtype, D,
                     drop_row(y, x, done, (uint32_t)n, j, j->step.row + (uint32_t)row, (uint32_t)col, o->acc & 1, D));
        done += n;
    }
}

void RT_CPU(dropout)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_dropout_args *a = &o->args.dropout;
    drop_job j = { .below = rt_dropout_below(a->p), .scale = (float)rt_dropout_scale(a->p) };
    memcpy(&j.step, rt_host_ptr(&o->slot[RT_DROP_STEP]), sizeof j.step);
    j.stream = (uint64_t)a->stream << 32 | j.step.step;
    split_run(c, o, 2, drop_span, &j);
}
RT_CPU_NO_WORK(dropout)
