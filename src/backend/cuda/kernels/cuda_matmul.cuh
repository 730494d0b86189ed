/* cuda_matmul.cuh - what GEMMs on ordinary and on tensor cores share: the order of tiles, and what becomes of a sum;
 * device code.
 *
 * out = alpha sum + bias, or += , rounded once. Of a tile that is cut, a block leaves the sums of its part of K in f32
 * and matmul_join adds the parts in their order: no atomics, and the cut follows from the shape and the device alone.
 */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_CUH

#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_matmul.h"

/* Where a tile begins. Blocks that run together share what they read: they go down BAND tiles of a column before they
 * go right. */
struct Corner {
    uint32_t m, n;
};
RT_DEVICE Corner corner_of(const rt_cuda_matmul_params &p, uint32_t tile)
{
    enum { BAND = 8 };
    const uint32_t first = tile / (BAND * p.tiles_n) * BAND, rest = tile % (BAND * p.tiles_n);
    const uint32_t high = min(p.tiles_m - first, (uint32_t)BAND);
    return Corner{ (first + rest % high) * p.tile_m, rest / high * p.tile_n };
}

/* What a block has to do: a tile, and from where to where of K. */
struct Work {
    Corner at;
    uint32_t k0, k1;
    uint32_t part; /* 1 + its number among the parts of all tiles that are cut; 0: the tile is whole */
};
RT_DEVICE Work work_of(const rt_cuda_matmul_params &p, uint32_t block)
{
    if (block < p.whole) return Work{ corner_of(p, block), 0, p.K, 0 };
    const uint32_t i = block - p.whole, k0 = i % p.parts * p.part_K;
    return Work{ corner_of(p, p.whole + i / p.parts), k0, min(p.K, k0 + p.part_K), 1 + i };
}

/* Where sums go: to y = alpha sum + bias, or += , of any type; sums of a part as they are. */
struct Target {
    rt_cuda_mat y;
    rt_cuda_ptr bias;
    Corner at; /* of the tile in y */
    uint32_t M, N, type, bias_type, acc, packs;
    float alpha;
};
RT_DEVICE Target target_of(const rt_cuda_matmul_params &p, Corner at)
{
    return Target{ p.out, p.bias, at, p.M, p.N, p.out_type, p.bias_type, p.acc, p.packs_out, p.alpha };
}
RT_DEVICE Target target_of(const rt_cuda_matmul_params &p, const Work &w)
{
    if (!w.part) return target_of(p, w.at);
    const rt_cuda_mat sums = { p.sums + (uint64_t)(w.part - 1) * p.tile_m * p.tile_n * 4, p.tile_n };
    return Target{ sums, 0, { 0, 0 }, p.tile_m, p.tile_n, RT_DTYPE_F32, 0, 0, 1, 1 };
}

/* v = elements n .. of the bias; 0 where there is none. */
template <int W> RT_DEVICE void bias_load(float (&v)[W], const Target &t, uint32_t n)
{
#pragma unroll
    for (int i = 0; i < W; i++) v[i] = 0;
    if (t.bias && n < t.N) load_any(v, t.bias, t.bias_type, n, Part{ t.N - n });
}

/* U packs of sums below one another, `down` rows apart, to (m,n) and below it. All that is read is on its way before
 * the first is used. */
template <class T, int U, int W>
RT_DEVICE void packs_out(const Target &t, uint32_t m, uint32_t n, uint32_t down, const float (&v)[U][W],
                         const float (&bias)[W])
{
    T *const at = element<T>(t.y, m, n);
    float old[U][W] = {};
    if (t.acc) {
#pragma unroll
        for (int u = 0; u < U; u++) load(old[u], at + u * down * t.y.stride, Whole());
    }
#pragma unroll
    for (int u = 0; u < U; u++) {
        float y[W];
#pragma unroll
        for (int i = 0; i < W; i++) y[i] = t.alpha * v[u][i] + bias[i] + old[u][i];
        store(at + u * down * t.y.stride, y, Whole());
    }
}
template <class T> RT_DEVICE void one_out(const Target &t, uint32_t m, uint32_t n, float v, float bias)
{
    T *const at = element<T>(t.y, m, n);
    narrow(at, t.alpha * v + bias + (t.acc ? to_float(*at) : 0.0f));
}

/* Rows of 8 W sums that this warp has in shared memory, PITCH apart, to (m,n) of the tile and below it. */
template <class T, int W, int ROWS, int PITCH>
RT_DEVICE void rows_out_as(const Target &t, uint32_t m, uint32_t n, const float *from)
{
    enum { U = 4, DOWN = 4 }; /* eight lanes have a row, the warp four rows */
    const uint32_t row = threadIdx.x % 32 / 8, col = threadIdx.x % 8 * W;
    float bias[W];
    m += t.at.m;
    n += t.at.n;
    bias_load(bias, t, n + col);
    if (t.packs && n + 8 * W <= t.N && m + ROWS <= t.M) {
#pragma unroll 1
        for (uint32_t r = row; r < ROWS; r += U * DOWN) {
            float v[U][W];
#pragma unroll
            for (int u = 0; u < U; u++) load(v[u], from + (r + u * DOWN) * PITCH + col, Whole());
            packs_out<T>(t, m + r, n + col, DOWN, v, bias);
        }
        return;
    }
#pragma unroll 1
    for (uint32_t r = row; r < ROWS && m + r < t.M; r += DOWN)
#pragma unroll
        for (int i = 0; i < W; i++)
            if (n + col + i < t.N) one_out<T>(t, m + r, n + col + i, from[r * PITCH + col + i], bias[i]);
}
template <int W, int ROWS, int PITCH>
RT_DEVICE void rows_out(const Target &t, uint32_t m, uint32_t n, const float *from)
{
    if (t.type == RT_DTYPE_F32)
        rows_out_as<float, W, ROWS, PITCH>(t, m, n, from);
    else if (t.type == RT_DTYPE_BF16)
        rows_out_as<bf16, W, ROWS, PITCH>(t, m, n, from);
    else
        rows_out_as<f16, W, ROWS, PITCH>(t, m, n, from);
}

#endif
