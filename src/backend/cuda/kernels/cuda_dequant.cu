/* cuda_dequant.cu - y = values of the blocks x. A thread decodes eight values at a time, which are sixteen bytes of a
 * 16-bit y, and its neighbour the next eight: a warp reads and writes whole lines. Blocks have odd sizes, but a turn of
 * the thread block is a whole number of them, so a thread meets the same place of a block in each of its turns, and
 * addresses are those of the first turn and a constant. */
#include "backend/cuda/kernels/cuda_dequant.cuh"
#include "backend/cuda/kernels/cuda_dequant.h"

namespace
{
enum { TURN = RT_CUDA_RUN * RT_CUDA_BLOCK, TURNS = RT_CUDA_DEQUANT_TILE / TURN };

/* Q: decode, and how many values (ELEMS) and bytes (BYTES) a block has. */
template <class Q, class T> RT_DEVICE void expand(const rt_cuda_dequant_params &p)
{
    const uint32_t row = p.tiles == gridDim.x ? 0 : blockIdx.x / p.tiles;
    const uint64_t first = (uint64_t)(blockIdx.x - row * p.tiles) * RT_CUDA_DEQUANT_TILE, left = p.cols - first;
    const uint32_t at = RT_CUDA_RUN * threadIdx.x, e = at % Q::ELEMS; /* of a turn */
    const Stored x = { (const uint8_t *)p.x + (row * p.x_step + first / Q::ELEMS * Q::BYTES) +
                       at / Q::ELEMS * Q::BYTES };
    T *y = element<T>(p.y, row, first) + at;
    if (p.whole && left >= RT_CUDA_DEQUANT_TILE) {
        Run v[TURNS];
#pragma unroll
        for (int i = 0; i < TURNS; i++) Q::decode(v[i], x + i * (TURN / Q::ELEMS * Q::BYTES), e);
#pragma unroll
        for (int i = 0; i < TURNS; i++) store(y + i * TURN, v[i], Whole());
        return;
    }
#pragma unroll 1
    for (int i = 0; i < TURNS && at + i * TURN < left; i++) { /* rows are whole blocks, and so whole runs */
        Run v;
        Q::decode(v, x + i * (TURN / Q::ELEMS * Q::BYTES), e);
        store(y + i * TURN, v, Part{ RT_CUDA_RUN });
    }
}
} // namespace

#define X(NAME, name, elems, size)                                                                                     \
    namespace                                                                                                          \
    {                                                                                                                  \
    struct NAME {                                                                                                      \
        static constexpr uint32_t ELEMS = elems, BYTES = size;                                                         \
        static __device__ void decode(Run &v, Stored b, uint32_t e) { decode_##name(v, b, e); }                        \
    };                                                                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) dequant_##name(const rt_cuda_dequant_params p)         \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        if (p.y_dtype == RT_DTYPE_BF16)                                                                                \
            expand<NAME, bf16>(p);                                                                                     \
        else if (p.y_dtype == RT_DTYPE_F16)                                                                            \
            expand<NAME, f16>(p);                                                                                      \
        else                                                                                                           \
            expand<NAME, float>(p);                                                                                    \
    }
RT_FOR_QUANTS(X)
#undef X
