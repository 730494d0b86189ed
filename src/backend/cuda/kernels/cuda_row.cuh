/* cuda_row.cuh - a row of logits read by a block in packs of 16 bytes, several under way in each thread.
 *
 * Owns: which thread reads which pack, and which columns of a pack count. A pack that lies across the end of the row,
 * and every pack of a row that is not aligned, is read column by column. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ROW_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_ROW_CUH

#include "backend/cuda/kernels/cuda_common.cuh"

template <class T> struct PackedRow {
    static constexpr int W = 16 / (int)sizeof(T);     /* columns of a pack; 32 are a multiple of it */
    static constexpr uint32_t EVERY = (1u << W) - 1u; /* columns: a bit for each */
    const T *x;
    const uint32_t *vmask;    /* or null: all columns count */
    uint32_t V, packs, whole; /* whole: packs that are read in one access, from the first on */

    __device__ PackedRow(const T *row, const uint32_t *mask, uint32_t cols)
        : x(row), vmask(mask), V(cols), packs((cols + W - 1) / W), whole((uint64_t)row % 16 == 0 ? cols / W : 0)
    {
    }
    /* The columns of a pack that count. */
    __device__ uint32_t bits(uint32_t pack) const
    {
        const uint32_t v = pack * W, all = vmask ? vmask[v / 32] >> v % 32 & EVERY : EVERY;
        return pack < whole || V - v >= W ? all : all & ((1u << (V - v)) - 1u);
    }
    __device__ void read(float (&v)[W], uint32_t pack) const
    {
        if (pack < whole)
            load(v, x + (uint64_t)pack * W, Whole());
        else
            load(v, x + (uint64_t)pack * W, Part{ V - pack * W });
    }
    /* fn(pack, its columns, bits) of every `step`-th pack from `first` up to `end`, U of them read before the first is
     * used. Behind the row there are packs without columns; what is in columns that do not count is anything. */
    template <int U, class Fn> __device__ void each(uint32_t first, uint32_t end, uint32_t step, Fn &&fn) const
    {
        for (uint32_t p = first; p < end; p += U * step) {
            float v[U][W];
            uint32_t live[U];
#pragma unroll
            for (int u = 0; u < U; u++) {
                const uint32_t at = p + u * step;
                live[u] = at < packs ? bits(at) : 0;
                if (live[u]) read(v[u], at);
            }
#pragma unroll
            for (int u = 0; u < U; u++)
                if (p + u * step < end) fn(p + u * step, v[u], live[u]);
        }
    }
};

#endif
