/* cuda_dequant.cu - y = values of the blocks x. Blocks have odd sizes, so a tile's bytes come to shared memory in
 * 16-byte accesses first, whatever they begin with; then each thread decodes sixteen values at a time. */
#include "backend/cuda/kernels/cuda_dequant.cuh"
#include "backend/cuda/kernels/cuda_dequant.h"

namespace
{
/* stage (bytes behind the same remainder by 16) = bytes at x */
RT_DEVICE uint8_t *stage_bytes(const uint8_t *x, uint32_t bytes, uint8_t *stage)
{
    const uint32_t lead = (uint32_t)((uintptr_t)x & 15), head = lead ? 16 - lead : 0;
    const uint32_t front = head < bytes ? head : bytes, body = (bytes - front) / 16, tail = front + body * 16;
    uint8_t *to = stage + lead;
    for (uint32_t i = threadIdx.x; i < body; i += blockDim.x)
        *(uint4 *)(to + front + 16 * i) = *(const uint4 *)(x + front + 16 * i);
    for (uint32_t i = 2 * threadIdx.x; i < front; i += 2 * blockDim.x)
        *(uint16_t *)(to + i) = *(const uint16_t *)(x + i);
    for (uint32_t i = tail + 2 * threadIdx.x; i < bytes; i += 2 * blockDim.x)
        *(uint16_t *)(to + i) = *(const uint16_t *)(x + i);
    return to;
}

template <class T> RT_DEVICE void put(const rt_cuda_dequant_params &p, uint64_t row, uint64_t col, const Run &v)
{
    T *y = element<T>(p.y, row, col);
    if (p.whole)
        store(y, v, Whole());
    else
        store(y, v, Part{ RT_CUDA_RUN });
}
} // namespace

#define X(NAME, name, elems, size)                                                                                     \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) dequant_##name(const rt_cuda_dequant_params p)         \
    {                                                                                                                  \
        __shared__ uint4 room[RT_CUDA_DEQUANT_BYTES / 16 + 2];                                                         \
        const uint64_t row = blockIdx.x / p.tiles, first = (blockIdx.x - row * p.tiles) * RT_CUDA_DEQUANT_TILE;        \
        const uint32_t n = p.cols - first < RT_CUDA_DEQUANT_TILE ? p.cols - first : RT_CUDA_DEQUANT_TILE;              \
        const uint8_t *x = (const uint8_t *)p.x + row * p.x_step + first / elems * size;                               \
        const Staged at = { stage_bytes(x, n / elems * size, (uint8_t *)room) };                                       \
        __syncthreads();                                                                                               \
        for (uint32_t e = RT_CUDA_RUN * threadIdx.x; e < n; e += RT_CUDA_RUN * RT_CUDA_BLOCK) {                        \
            Run v;                                                                                                     \
            decode_##name(v, at + e / elems * size, e % elems);                                                        \
            if (p.y_dtype == RT_DTYPE_BF16)                                                                            \
                put<bf16>(p, row, first + e, v);                                                                       \
            else if (p.y_dtype == RT_DTYPE_F16)                                                                        \
                put<f16>(p, row, first + e, v);                                                                        \
            else                                                                                                       \
                put<float>(p, row, first + e, v);                                                                      \
        }                                                                                                              \
    }
RT_FOR_QUANTS(X)
#undef X
