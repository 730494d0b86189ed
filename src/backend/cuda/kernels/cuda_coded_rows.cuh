/* cuda_coded_rows.cuh - rows as e4m3 codes with a scale each: the largest magnitude of a row, its scale, its codes.
 *
 * A row belongs to a team of neighbouring threads: whole warps, or a power of two of lanes of one. A row that its team
 * holds in packs, in the type that it would be stored in, is coded out of registers. Magnitudes are compared as
 * integers: their bits are in the same order, and what is not finite is above all numbers, so the order of comparing
 * leaves no trace. Codes and scales are those of num/e4m3.h to the bit. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_CODED_ROWS_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_CODED_ROWS_CUH

#include "backend/cuda/kernels/cuda_common.cuh"

/* The largest magnitude in packs of T: of two halves at once where T has 16 bits. */
template <class T> struct Most {
    uint32_t m = 0;
    __device__ void see(const Raw<16> &r)
    {
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if constexpr (sizeof(T) == 4)
                m = max(m, r.w[i] & 0x7fffffffu);
            else
                m = __vmaxu2(m, r.w[i] & 0x7fff7fffu);
        }
    }
    __device__ void see(T x)
    {
        if constexpr (sizeof(T) == 4)
            m = max(m, __float_as_uint(x) & 0x7fffffffu);
        else
            m = __vmaxu2(m, (uint32_t)x.bits & 0x7fffu);
    }
    /* As the bits of an f32. */
    __device__ uint32_t bits() const
    {
        if constexpr (sizeof(T) == 4)
            return m;
        else
            return __float_as_uint(to_float(T{ (uint16_t)max(m >> 16, m & 0xffffu) }));
    }
};

/* Of a team of so many threads; all teams of the block call it together. room: shared, a word for each warp. */
RT_DEVICE uint32_t team_most(uint32_t m, uint32_t team, uint32_t *room)
{
    if (team < 32) return lanes_max(m, team);
    m = (uint32_t)warp_max((int32_t)m);
    if (team == 32) return m;
    const uint32_t warps = team / 32, warp = threadIdx.x / 32, first = warp / warps * warps;
    if (threadIdx.x % 32 == 0) room[warp] = m;
    __syncthreads();
    for (uint32_t w = 0; w < warps; w++) m = max(m, room[first + w]);
    return m;
}

struct Scale {
    float scale, inverse;
    bool lost;
    __device__ Scale(uint32_t most)
    {
        const uint32_t e = (most + 0x1fffffu) >> 23, field = most == 0 ? 127 : e > 9 ? e - 8 : 1;
        lost = most >= 0x7f800000u;
        scale = __uint_as_float(lost ? 0x7fc00000u : field << 23);
        inverse = __uint_as_float((254u - field) << 23); /* of a lost row nobody asks */
    }
    template <int W> __device__ Raw<W> codes(const float (&v)[W]) const
    {
        Raw<W> r;
#pragma unroll
        for (int i = 0; i < W; i += 4)
            r.w[i / 4] = lost ? 0x7f7f7f7fu
                              : e4m3_four(v[i] * inverse, v[i + 1] * inverse, v[i + 2] * inverse, v[i + 3] * inverse);
        return r;
    }
    __device__ uint8_t code(float v) const { return (uint8_t)(lost ? 0x7fu : e4m3_four(v * inverse, 0, 0, 0)); }
    template <int W> __device__ void store(uint8_t *y, const float (&v)[W], Whole) const { store_raw<W>(y, codes(v)); }
    template <int W> __device__ void store(uint8_t *y, const float (&v)[W], Part part) const
    {
#pragma unroll
        for (int i = 0; i < W; i++)
            if ((uint32_t)i < part.n) y[i] = code(v[i]);
    }
};

/* Where a row's codes go, and the thread's place in the team that has the row; taken: there is such a row. All teams of
 * the block make theirs together. */
struct CodedRow {
    const rt_cuda_mat &y, &scale;
    uint64_t row;
    uint32_t cols, lane, team;
    bool taken;
    uint32_t *room;

    /* pack[j] is number lane + j team of the row, 0 behind its end; the row is whole, aligned packs. */
    template <class T, int HOLDS> __device__ void store_held(const Raw<16> (&pack)[HOLDS]) const
    {
        constexpr int W = 16 / (int)sizeof(T);
        const uint32_t packs = taken ? cols / W : 0;
        Most<T> most;
#pragma unroll
        for (int j = 0; j < HOLDS; j++) most.see(pack[j]);
        const Scale s(team_most(most.bits(), team, room));
#pragma unroll
        for (int j = 0; j < HOLDS; j++) {
            const uint32_t k = lane + j * team;
            float v[W];
            if (k >= packs) continue;
            unpack<T, W>(v, pack[j]);
            s.store(element<uint8_t>(y, row, k * W), v, Whole());
        }
        if (taken && lane == 0) *element<float>(scale, row, 0) = s.scale;
    }
    /* make(v, c, extent, last) gives columns c.. of the row; it is called for each of them twice. */
    template <class T, class Make> __device__ void store_twice(Make make) const
    {
        constexpr int W = 16 / (int)sizeof(T);
        const uint32_t C = taken ? cols : 0;
        Most<T> most;
        float v[W];
        for (uint32_t c = lane * W; c < C; c += team * W) {
            make(v, c, Part{ C - c < W ? C - c : W }, false);
            most.see(repack<T, W>(v));
        }
        const Scale s(team_most(most.bits(), team, room));
        for (uint32_t c = lane * W; c < C; c += team * W) {
            const Part e = { C - c < W ? C - c : W };
            make(v, c, e, true);
            unpack<T, W>(v, repack<T, W>(v));
            s.store(element<uint8_t>(y, row, c), v, e);
        }
        if (taken && lane == 0) *element<float>(scale, row, 0) = s.scale;
    }
};

#endif
