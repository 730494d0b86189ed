/* cuda_quant_rows.cu - quant_rows: the scale of each row and its e4m3 codes, of floats or of what quantised blocks
 * stand for.
 *
 * A row belongs to a team of whole warps. Where its packs are whole and at most four a thread, they are loaded once,
 * all at the same time, and kept in registers; else the team walks its row twice, the second time out of L1 or L2. Of
 * blocks a pack is eight values, decoded to f32, where they are exact. */
#include "backend/cuda/kernels/cuda_coded_rows.cuh"
#include "backend/cuda/kernels/cuda_dequant.cuh"
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

/* ---- of blocks: run k of a row are its values 8 k.. ---- */

template <class Q> RT_DEVICE void decode_run(Run &v, const rt_cuda_quant_rows_params &p, uint64_t row, uint32_t k)
{
    const uint32_t c = RT_CUDA_RUN * k;
    Q::decode(v, Stored{ (const uint8_t *)p.x.at + row * p.x_step } + c / Q::ELEMS * Q::BYTES, c % Q::ELEMS);
}

RT_DEVICE void see_run(Most<float> &most, const Run &v)
{
#pragma unroll
    for (int i = 0; i < RT_CUDA_RUN; i++) most.see(v[i]);
}

RT_DEVICE void store_run(const rt_cuda_quant_rows_params &p, const CodedRow &to, const Scale &s, const Run &v,
                         uint32_t k)
{
    uint8_t *y = element<uint8_t>(p.y, to.row, RT_CUDA_RUN * k);
    if (p.whole)
        s.store(y, v, Whole());
    else
        s.store(y, v, Part{ RT_CUDA_RUN });
}

template <class Q> RT_DEVICE void blocks(const rt_cuda_quant_rows_params &p, const CodedRow &to)
{
    const uint32_t runs = to.taken ? p.C / RT_CUDA_RUN : 0; /* rows are whole blocks */
    Most<float> most;
    Run v[HOLDS];
#pragma unroll
    for (int j = 0; j < HOLDS; j++)
        if (const uint32_t k = to.lane + j * p.team; k < runs) decode_run<Q>(v[j], p, to.row, k);
#pragma unroll
    for (int j = 0; j < HOLDS; j++)
        if (to.lane + j * p.team < runs) see_run(most, v[j]);
    for (uint32_t k = to.lane + HOLDS * p.team; k < runs; k += p.team) {
        Run more;
        decode_run<Q>(more, p, to.row, k);
        see_run(most, more);
    }
    const Scale s(team_most(most.bits(), p.team, to.room));
#pragma unroll
    for (int j = 0; j < HOLDS; j++)
        if (const uint32_t k = to.lane + j * p.team; k < runs) store_run(p, to, s, v[j], k);
    for (uint32_t k = to.lane + HOLDS * p.team; k < runs; k += p.team) {
        Run more;
        decode_run<Q>(more, p, to.row, k);
        store_run(p, to, s, more, k);
    }
    if (to.taken && to.lane == 0) *element<float>(p.scale, to.row, 0) = s.scale;
}

template <class T> RT_DEVICE void of_floats(const rt_cuda_quant_rows_params &p, const CodedRow &to)
{
    if (p.held)
        held<T>(p, to);
    else
        twice<T>(p, to);
}

RT_DEVICE void of_blocks(const rt_cuda_quant_rows_params &p, const CodedRow &to)
{
    switch (p.x_dtype) {
#define X(NAME, name, elems, size)                                                                                     \
    case RT_DTYPE_##NAME: blocks<Block<RT_DTYPE_##NAME>>(p, to); break;
        RT_FOR_QUANTS(X)
#undef X
    default: break;
    }
}
} // namespace

#define KERNEL(name, of)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_QROWS_MOST)                                                   \
        quant_rows_##name(const rt_cuda_quant_rows_params p)                                                           \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        __shared__ uint32_t room[32];                                                                                  \
        const uint32_t team = threadIdx.x / p.team, lane = threadIdx.x % p.team;                                       \
        const uint64_t row = (uint64_t)blockIdx.x * (blockDim.x / p.team) + team;                                      \
        const CodedRow to = { p.y, p.scale, row, p.C, lane, p.team, row < p.N, room };                                 \
        of(p, to);                                                                                                     \
    }
#define FLOATS(name, T) KERNEL(name, of_floats<T>)
RT_FOR_FLOATS(FLOATS)
KERNEL(packed, of_blocks)
