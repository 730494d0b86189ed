/* cpu_int8_rows.c - rows of packed weights times rows of 8-bit codes; see cpu_int8.h.
 *
 * Owns: the loops. Of a span of a row of b the factors are read once for all rows of a, then its codes chunk by chunk:
 * each is multiplied by those of every row of a, four to a lane in whole numbers, and scaled into an f32 sum of VL
 * lanes. Every output element has one such sum from the first span to the last, folded at the end. Compiled again with
 * RT_DOT where the ISA has instructions for sums of products of bytes. */
#include "backend/cpu/cpu_int8_unpack.h"

RT_INLINE bool is_super(rt_dtype b) { return is_affine_k(b) || b == RT_DTYPE_Q6_K; } /* blocks of a span */

enum { STRIP = 48 /* spans of a that fit the nearest cache, of all its rows together */ };

/* Chunks of a span that are written out one after another. Where vectors are taken apart each is hundreds of
 * instructions, for every number of rows and every type: all of them were 300 KiB of code and ten seconds of the
 * compiler. */
#if defined(RT_ISA_generic)
enum { UNROLL = 1 };
#else
enum { UNROLL = CHUNKS };
#endif

/* sum += what the offsets come to: lanes of f behind those that codes are scaled by. */
RT_INLINE vf add_offsets(vf sum, const vf w[FACTORS], const float *f, rt_dtype b)
{
    if (b == RT_DTYPE_Q8_0) return sum;
    if (b == RT_DTYPE_Q6_K) {
        for (int i = 0; i < FACTORS; i++) sum = vfma(w[i], vload(f + 16 + i * VL), sum);
        return sum;
    }
#if defined(RT_ISA_avx512)
    return (vf)_mm512_mask3_fmadd_ps((__m512)w[0], (__m512)vload(f), (__m512)sum, 0xff00);
#else
    for (int i = FACTORS / 2; i < FACTORS; i++) sum = vfma(w[i], vload(f + i * VL), sum);
    return sum;
#endif
}

/* sum (M) += chunk j. f: factors of b times those of a[m]. M and b are constants. */
RT_INLINE void add_chunk(vf *sum, const rt_int8_span *const *a, vf (*f)[FACTORS], const uint8_t *p, uint32_t j,
                         uint32_t have, int M, rt_dtype b)
{
    const vq q = codes_of(p, j, have, b);
#pragma GCC unroll 8
    for (int m = 0; m < M; m++) {
        const vi n = quads(q, load_codes(a[m]->c + j * CHUNK), b);
        sum[m] = vfma(__builtin_convertvector(n, vf), factor_of(f[m], j, b), sum[m]);
    }
}

/* sum (M) += span a[m] times the span of b at p: all of it, or its first blocks. whole, M and b are constants. */
RT_INLINE void add_span(vf *sum, const rt_int8_span *const *a, const uint8_t *p, bool whole, uint32_t have, int M,
                        rt_dtype b)
{
    vf w[FACTORS], f[RT_INT8_M][FACTORS];
    factors_of(w, p, have, b);
#pragma GCC unroll 8
    for (int m = 0; m < M; m++) {
        for (int i = 0; i < FACTORS; i++) f[m][i] = w[i] * vload(a[m]->f + i * VL);
        sum[m] = add_offsets(sum[m], w, a[m]->f, b);
    }
    if (!whole) {
        for (uint32_t j = 0; j * CHUNK < have * 32; j++) add_chunk(sum, a, f, p, j, have, M, b);
        return;
    }
#pragma GCC unroll UNROLL
    for (uint32_t j = 0; j < CHUNKS; j++) add_chunk(sum, a, f, p, j, RT_INT8_BLOCKS, M, b);
}

/* sum (M) += spans s0 .. s1 of the row of b at p. M and b are constants. */
RT_INLINE void add_strip(vf *sum, const rt_int8_rows *x, const rt_int8_span *const *a, const uint8_t *p, uint32_t s0,
                         uint32_t s1, int M, rt_dtype b)
{
    const uint64_t bytes = (uint64_t)rt_dtype_table[b].block_bytes * (is_super(b) ? 1 : RT_INT8_BLOCKS);
    vf t[RT_INT8_M];
    for (int i = 0; i < M; i++) t[i] = sum[i];
    for (uint32_t s = s0; s < s1; s++) {
        const rt_int8_span *at[RT_INT8_M];
        const bool whole = is_super(b) || s + 1 < x->spans || x->last == RT_INT8_BLOCKS;
        for (int m = 0; m < M; m++) at[m] = a[m] + s;
        if (whole)
            add_span(t, at, p + s * bytes, true, RT_INT8_BLOCKS, M, b);
        else
            add_span(t, at, p + s * bytes, false, x->last, M, b);
    }
    for (int i = 0; i < M; i++) sum[i] = t[i];
}

/* Rows n0 .. n1 of b one after another: the sums of several at a time would not stay in registers. All of them meet one
 * strip of a before the next. */
RT_INLINE void run_group(const rt_int8_rows *x, uint32_t m0, uint32_t n0, uint32_t n1, float *sums, int M, rt_dtype b)
{
    const rt_int8_span *a[RT_INT8_M];
    const uint32_t strip = (uint32_t)(STRIP / M);
    const int rows = (int)(n1 - n0);
    const uint8_t *p = x->b + n0 * x->step;
    vf sum[RT_INT8_GROUP * RT_INT8_M];
    for (int m = 0; m < M; m++) a[m] = x->a + (uint64_t)(m0 + (uint32_t)m) * x->spans;
    for (int i = 0; i < rows * M; i++) sum[i] = (vf){ 0 };
    for (uint32_t s0 = 0, s1; s0 < x->spans; s0 = s1) {
        s1 = x->spans - s0 < strip ? x->spans : s0 + strip;
        for (int i = 0; i < rows; i++) add_strip(sum + i * M, x, a, p + (uint64_t)i * x->step, s0, s1, M, b);
    }
    for (int i = 0; i < rows * M; i++) sums[i] = vsum(sum[i]);
}

RT_INLINE void run_type(const rt_int8_rows *x, uint32_t m0, uint32_t M, uint32_t n0, uint32_t n1, float *sums,
                        rt_dtype b)
{
    switch (M) {
    case 1: run_group(x, m0, n0, n1, sums, 1, b); break;
    case 2: run_group(x, m0, n0, n1, sums, 2, b); break;
    case 4: run_group(x, m0, n0, n1, sums, 4, b); break;
    default: run_group(x, m0, n0, n1, sums, 8, b); break;
    }
}

#if RT_DOT
#define ROWS RT_CPU(int8_rows_dot)
#else
#define ROWS RT_CPU(int8_rows)
#endif

void ROWS(const rt_int8_rows *x, uint32_t m0, uint32_t M, uint32_t n0, uint32_t n1, float *sums)
{
    switch (x->type) {
    case RT_DTYPE_Q8_0: run_type(x, m0, M, n0, n1, sums, RT_DTYPE_Q8_0); break;
    case RT_DTYPE_Q4_0: run_type(x, m0, M, n0, n1, sums, RT_DTYPE_Q4_0); break;
    case RT_DTYPE_Q4_1: run_type(x, m0, M, n0, n1, sums, RT_DTYPE_Q4_1); break;
    case RT_DTYPE_Q4_K: run_type(x, m0, M, n0, n1, sums, RT_DTYPE_Q4_K); break;
    case RT_DTYPE_Q5_K: run_type(x, m0, M, n0, n1, sums, RT_DTYPE_Q5_K); break;
    default: run_type(x, m0, M, n0, n1, sums, RT_DTYPE_Q6_K);
    }
}
