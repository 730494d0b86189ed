/* cuda_quant_rows.cu - quant_rows: the scale of each row and its e4m3 codes.
 *
 * A row belongs to a team of whole warps. Where its packs are whole and at most four a thread, they are loaded once,
 * all at the same time, and kept in registers; else the team walks its row twice, the second time out of L1 or L2.
 * Magnitudes are compared as integers: their bits are in the same order, and what is not finite is above all numbers,
 * so the order of comparing does not matter. Codes and scales are those of num/e4m3.h to the bit. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_scaled.h"

namespace
{
constexpr int HOLDS = RT_CUDA_QROWS_HOLDS;

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

/* Of a team; all teams of the block call it together. */
RT_DEVICE uint32_t team_most(uint32_t m, uint32_t team, uint32_t *room)
{
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
};

template <class T> RT_DEVICE void held(const rt_cuda_quant_rows_params &p, uint64_t row, uint32_t lane, uint32_t *room)
{
    constexpr int W = 16 / (int)sizeof(T);
    const bool taken = row < p.N;
    const uint32_t packs = taken ? p.C / W : 0;
    const T *from = element<T>(p.x, row, 0);
    Raw<16> pack[HOLDS];
    Most<T> most;
#pragma unroll
    for (int j = 0; j < HOLDS; j++) {
        const uint32_t k = lane + j * p.team;
        pack[j] = { { 0, 0, 0, 0 } };
        if (k < packs) pack[j] = load_raw<16>(from + k * W);
    }
#pragma unroll
    for (int j = 0; j < HOLDS; j++) most.see(pack[j]);
    const Scale s(team_most(most.bits(), p.team, room));
#pragma unroll
    for (int j = 0; j < HOLDS; j++) {
        const uint32_t k = lane + j * p.team;
        float v[W];
        if (k >= packs) continue;
        unpack<T, W>(v, pack[j]);
        store_raw<W>(element<uint8_t>(p.y, row, k * W), s.codes(v));
    }
    if (taken && lane == 0) *element<float>(p.scale, row, 0) = s.scale;
}

template <class T> RT_DEVICE void twice(const rt_cuda_quant_rows_params &p, uint64_t row, uint32_t lane, uint32_t *room)
{
    const bool taken = row < p.N;
    const uint32_t C = taken ? p.C : 0;
    const T *from = element<T>(p.x, row, 0);
    Most<T> most;
    for (uint32_t c = lane; c < C; c += p.team) most.see(from[c]);
    const Scale s(team_most(most.bits(), p.team, room));
    for (uint32_t c = lane; c < C; c += p.team) *element<uint8_t>(p.y, row, c) = s.code(to_float(from[c]));
    if (taken && lane == 0) *element<float>(p.scale, row, 0) = s.scale;
}
} // namespace

#define KERNEL(name, T)                                                                                                \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_QROWS_MOST)                                                   \
        quant_rows_##name(const rt_cuda_quant_rows_params p)                                                           \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        __shared__ uint32_t room[32];                                                                                  \
        const uint32_t team = threadIdx.x / p.team, lane = threadIdx.x % p.team;                                       \
        const uint64_t row = (uint64_t)blockIdx.x * (blockDim.x / p.team) + team;                                      \
        if (p.held)                                                                                                    \
            held<T>(p, row, lane, room);                                                                               \
        else                                                                                                           \
            twice<T>(p, row, lane, room);                                                                              \
    }
RT_FOR_FLOATS(KERNEL)
