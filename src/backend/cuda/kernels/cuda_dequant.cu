/* cuda_dequant.cu - y = values of the blocks x, or of the rows of x that ids name. A lane decodes eight values at a
 * time, which are sixteen bytes of a 16-bit y, and its neighbour the next eight: a warp reads and writes whole lines.
 * Blocks have odd sizes, but a turn of a warp is a whole number of them, so a lane meets the same place of a block in
 * each of its turns, and addresses are those of the first turn and a constant. */
#include "backend/cuda/kernels/cuda_dequant.cuh"
#include "backend/cuda/kernels/cuda_dequant.h"

namespace
{
enum { TURN = 32 * RT_CUDA_RUN }; /* values of a warp's turn */

/* The tile of this block. */
struct Tile {
    uint64_t from;  /* row of x */
    uint64_t first; /* column */
    uint32_t row;   /* of y */
    uint32_t left;  /* columns; no more than a block has */
    bool known;     /* the id is one of x; if not, `from` is some row, and y is NaN */
};

RT_DEVICE Tile tile_of(const rt_cuda_dequant_tensor &t)
{
    const uint32_t block = blockIdx.x - t.first, size = RT_CUDA_DEQUANT_THREAD * blockDim.x;
    Tile a;
    a.row = block < t.tiles ? 0 : block / t.tiles;
    a.first = (uint64_t)(block - a.row * t.tiles) * size;
    a.left = t.cols - a.first < size ? (uint32_t)(t.cols - a.first) : size;
    a.from = a.row;
    a.known = true;
    if (t.ids.at) {
        const int32_t id = *element<int32_t>(t.ids, a.row, 0);
        a.known = id >= 0 && (uint32_t)id < t.V;
        a.from = a.known ? id : 0;
    }
    return a;
}

/* N turns: all are loaded before the first is stored. Q: a Block. */
template <class Q, class T, int N> RT_DEVICE void turns(T *y, Stored x, uint32_t e, bool known, bool whole)
{
    Run v[N];
#pragma unroll
    for (int i = 0; i < N; i++) Q::decode(v[i], x + i * (TURN / Q::ELEMS * Q::BYTES), e);
#pragma unroll
    for (int i = 0; i < N; i++) {
#pragma unroll
        for (int k = 0; k < RT_CUDA_RUN; k++) v[i][k] = known ? v[i][k] : __uint_as_float(0x7fc00000u); /* NaN */
        if (whole)
            store(y + i * TURN, v[i], Whole());
        else
            store(y + i * TURN, v[i], Part{ RT_CUDA_RUN });
    }
}

template <class Q, class T> RT_DEVICE void dequantise(const rt_cuda_dequant_tensor &t, const Tile &a)
{
    const uint32_t run = RT_CUDA_RUN * (threadIdx.x % 32), at = threadIdx.x / 32 * (2 * TURN) + run;
    const Stored x = { (const uint8_t *)t.x + (a.from * t.x_step + a.first / Q::ELEMS * Q::BYTES) +
                       at / Q::ELEMS * Q::BYTES };
    T *y = element<T>(t.y, a.row, a.first) + at;
    if (at + TURN < a.left) /* rows are whole blocks, and so whole runs */
        turns<Q, T, 2>(y, x, run % Q::ELEMS, a.known, t.whole);
    else if (at < a.left)
        turns<Q, T, 1>(y, x, run % Q::ELEMS, a.known, t.whole);
}

/* The type is looked at once for a block, so neighbours may have different ones. */
template <class T> RT_DEVICE void dequantise_any(const rt_cuda_dequant_params &p)
{
    const rt_cuda_dequant_tensor &t = p.tensor[tensor_of(p)];
    const Tile a = tile_of(t);
    switch (t.x_dtype) {
#define X(NAME, name, elems, size)                                                                                     \
    case RT_DTYPE_##NAME: dequantise<Block<RT_DTYPE_##NAME>, T>(t, a); break;
        RT_FOR_QUANTS(X)
#undef X
    default: break;
    }
}
} // namespace

#define KERNEL(name, T)                                                                                                \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK, RT_SM_THREADS / RT_CUDA_BLOCK)                         \
        dequant_##name(const __grid_constant__ rt_cuda_dequant_params p)                                               \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        dequantise_any<T>(p);                                                                                          \
    }
RT_FOR_FLOATS(KERNEL)
