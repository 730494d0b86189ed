/* cuda_attn_tile.cuh - tiles of the tensor-core attention kernels: fetched, multiplied, written; device code.
 *
 * Owns: where things lie. A tile in shared memory is rows of DP 16-bit elements (D rounded up, zeros behind D) and
 * RT_CUDA_ATTN_PAD more, so that the eight rows of a matrix load fall into different banks. A warp's MMA result s (16
 * MT,N) is s[m][n][e]: rows 16 m + l/4 + 8 (e/2), columns 8 n + 2 (l%4) + e%2 of lane l. That is also how the MMA's
 * left side wants it, so weights go from one MMA into the next without leaving registers.
 *
 * Weights (p and ds) are f32, and the limits of `retort verify` leave no room for rounding them to 16 bits. They enter
 * an MMA as the sum of two 16-bit numbers, hi + lo: 22 bits of f16, 17 of bf16. What is then missing of bf16 (2^-18)
 * cancels over many keys but not over few, so tiles at the edge of what is seen add it by a third MMA; see
 * docs/cuda-kernels.md. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_TILE_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_TILE_CUH

#include "backend/cuda/kernels/cuda_attn_dev.cuh"

enum { WARPS = RT_CUDA_ATTN_THREADS / 32 };

/* Bytes of shared memory from one row of a tile to the next. */
template <int DP> constexpr uint32_t pitch = (DP + RT_CUDA_ATTN_PAD) * 2;

RT_DEVICE int lane() { return (int)(threadIdx.x & 31); }
RT_DEVICE int warp() { return (int)(threadIdx.x >> 5); }

/* Asks for ROWS rows of D elements; zeros behind D and from row `rows` on. */
template <int ROWS, int DP>
RT_DEVICE void tile_fetch(uint32_t to, const uint16_t *from, uint64_t stride, int rows, int D)
{
    constexpr int CHUNKS = DP / 8, ACROSS = CHUNKS % 8 == 0 ? 8 : 4, DOWN = RT_CUDA_ATTN_THREADS / ACROSS;
    static_assert(ROWS % DOWN == 0 && CHUNKS % ACROSS == 0, "every thread copies as much");
    const int x = (int)threadIdx.x % ACROSS * 8;
    int r = (int)threadIdx.x / ACROSS;
    to += r * pitch<DP> + x * 2;
    from += r * stride + x;
#pragma unroll 1
    for (; r < ROWS; r += DOWN, to += DOWN * pitch<DP>, from += DOWN * stride) {
#pragma unroll
        for (int c = 0; c < DP; c += ACROSS * 8) copy_async(to + c * 2, from + c, r < rows && x + c < D);
    }
}

/* s (16 MT,N) = a b': rows of a from `a` on (this warp's), rows of b from `b` on; all are DP wide. */
template <class E, int DP, int MT, int N> RT_DEVICE void tile_scores(float (&s)[MT][N / 8][4], uint32_t a, uint32_t b)
{
    const int l = lane();
    a += (l & 15) * pitch<DP> + (l >> 4) * 16;
    b += ((l & 7) + (l >> 4) * 8) * pitch<DP> + (l >> 3 & 1) * 16;
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) s[m][n][e] = 0;
#pragma unroll 2
    for (int k = 0; k < DP; k += 16) {
        uint32_t x[MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++) load_4(x[m], a + m * 16 * pitch<DP> + k * 2);
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            uint32_t y[4];
            load_4(y, b + n * 16 * pitch<DP> + k * 2);
#pragma unroll
            for (int m = 0; m < MT; m++) {
                E::mma(s[m][2 * n], x[m], y[0], y[1]);
                E::mma(s[m][2 * n + 1], x[m], y[2], y[3]);
            }
        }
    }
}

/* acc (16 MT,DP) += elements 16 k to 16 k + 15 of w, in PARTS parts, times the 16 rows of b from `b` on. */
template <class E, int PARTS, int DP, int MT, int N>
RT_DEVICE void tile_add(float (&acc)[MT][DP / 8][4], const float (&w)[MT][N][4], int k, uint32_t b)
{
    uint32_t part[PARTS][MT][4];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            float x = w[m][2 * k + i / 2][i % 2 * 2], y = w[m][2 * k + i / 2][i % 2 * 2 + 1];
#pragma unroll
            for (int n = 0; n < PARTS; n++) {
                part[n][m][i] = E::pair(x, y);
                x -= E::first(part[n][m][i]);
                y -= E::second(part[n][m][i]);
            }
        }
    b += (lane() & 15) * pitch<DP> + (lane() >> 4) * 16;
#pragma unroll
    for (int d = 0; d < DP / 16; d++) {
        uint32_t y[4];
        load_4_turned(y, b + d * 32);
#pragma unroll
        for (int n = 0; n < PARTS; n++)
#pragma unroll
            for (int m = 0; m < MT; m++) {
                E::mma(acc[m][2 * d], part[n][m], y[0], y[1]);
                E::mma(acc[m][2 * d + 1], part[n][m], y[2], y[3]);
            }
    }
}

/* Rows of this warp, times f[m][half], rounded into device memory by way of this warp's rows of a tile at `at`, which
 * nobody else may be using. Row 0 goes to `to`; rows from `rows` on and columns from D on are left out. */
template <class E, int DP, int MT>
RT_DEVICE void tile_store(uint16_t *to, uint64_t stride, int rows, int D, const float (&acc)[MT][DP / 8][4],
                          const float (&f)[MT][2], unsigned char *at)
{
    const int l = lane();
    __syncwarp();
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int n = 0; n < DP / 8; n++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const float *x = &acc[m][n][half * 2];
                *(uint32_t *)(at + (m * 16 + l / 4 + half * 8) * pitch<DP> + n * 16 + l % 4 * 4) =
                    E::pair(x[0] * f[m][half], x[1] * f[m][half]);
            }
    __syncwarp();
    for (int c = l; c < 16 * MT * (DP / 8); c += 32) {
        const int r = c / (DP / 8), x = c % (DP / 8) * 8;
        if (r < rows && x < D) *(uint4 *)(to + r * stride + x) = *(const uint4 *)(at + r * pitch<DP> + x * 2);
    }
}

/* ---- where a block of the backward works ---- */

/* One past the last query that sees any of keys j0 .. j1 - 1. */
RT_DEVICE int end_of_queries(const rt_cuda_attn_bwd_params &p, uint64_t row0, int j0, int j1)
{
    const int T = (int)p.a.T;
    int end = T, last = -1;
    if (p.a.window && p.a.window < (uint32_t)(T - j1 + 1)) end = j1 + (int)p.a.window - 1;
    if (!p.start.at) return end;
    for (int i = j0 + lane(); i < end; i += 32)
        if (first_key(p.a, p.start, row0, i) < min(i + 1, j1)) last = i;
    return warp_max(last) + 1;
}

/* Takes kv head and part of its query heads, h0 .. h1 - 1, off the number of an item of dk and dv. group: query heads
 * of a kv head. */
template <class Item> RT_DEVICE void take_part(Item &x, const rt_cuda_attn_bwd_params &p, uint32_t &n, uint32_t group)
{
    x.kv = n % p.a.K;
    n /= p.a.K;
    x.part = n % p.parts;
    n /= p.parts;
    x.h0 = x.kv * group + x.part * p.heads;
    x.h1 = min(x.h0 + p.heads, (x.kv + 1) * group);
}

#endif
