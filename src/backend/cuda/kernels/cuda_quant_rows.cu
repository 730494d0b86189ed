/* cuda_quant_rows.cu - quant_rows: the scale of each row and its e4m3 codes.
 *
 * A row belongs to a team of whole warps. Where its packs are whole and at most four a thread, they are loaded once,
 * all at the same time, and kept in registers; else the team walks its row twice, the second time out of L1 or L2. */
#include "backend/cuda/kernels/cuda_coded_rows.cuh"
#include "backend/cuda/kernels/cuda_scaled.h"

namespace
{
constexpr int HOLDS = RT_CUDA_QROWS_HOLDS;

template <class T> RT_DEVICE void held(const rt_cuda_quant_rows_params &p, const CodedRow &to)
{
    constexpr int W = 16 / (int)sizeof(T);
    const uint32_t packs = to.taken ? p.C / W : 0;
    const T *from = element<T>(p.x, to.row, 0);
    Raw<16> pack[HOLDS];
#pragma unroll
    for (int j = 0; j < HOLDS; j++) {
        const uint32_t k = to.lane + j * p.team;
        pack[j] = { { 0, 0, 0, 0 } };
        if (k < packs) pack[j] = load_raw<16>(from + k * W);
    }
    to.store_held<T>(pack);
}

/* Neighbouring lanes have neighbouring elements. */
template <class T> RT_DEVICE void twice(const rt_cuda_quant_rows_params &p, const CodedRow &to)
{
    const uint32_t C = to.taken ? p.C : 0;
    const T *from = element<T>(p.x, to.row, 0);
    Most<T> most;
    for (uint32_t c = to.lane; c < C; c += p.team) most.see(from[c]);
    const Scale s(team_most(most.bits(), p.team, to.room));
    for (uint32_t c = to.lane; c < C; c += p.team) *element<uint8_t>(p.y, to.row, c) = s.code(to_float(from[c]));
    if (to.taken && to.lane == 0) *element<float>(p.scale, to.row, 0) = s.scale;
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
        const CodedRow to = { p.y, p.scale, row, p.C, lane, p.team, row < p.N, room };                                 \
        if (p.held)                                                                                                    \
            held<T>(p, to);                                                                                            \
        else                                                                                                           \
            twice<T>(p, to);                                                                                           \
    }
RT_FOR_FLOATS(KERNEL)
