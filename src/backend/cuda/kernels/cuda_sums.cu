/* cuda_sums.cu - bias_grad and norm_sq: partial sums by blocks, cut by shape alone, then one more launch that adds the
 * partial sums up in order, those of a whole backward pass at once. Nothing is atomic. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_sums.h"

enum {
    ROWS = 8
}; /* that a thread has under way; left alone, the compiler waits for each before it asks for the next */

/* ---- the second launch, for many ops: a block has 32 columns, and 32 threads share the rows of each ---- */

extern "C" __global__ void __launch_bounds__(RT_CUDA_COLUMNS_BLOCK)
    sum_columns(const __grid_constant__ rt_cuda_columns_params p)
{
    begin_kernel();
    constexpr uint32_t WIDE = RT_CUDA_COLUMNS_WIDE, HIGH = RT_CUDA_COLUMNS_BLOCK / WIDE;
    __shared__ float part[HIGH][WIDE];
    const rt_cuda_columns &t = p.tensor[tensor_of(p)];
    const uint32_t x = threadIdx.x % WIDE, y = threadIdx.x / WIDE, c = (blockIdx.x - t.first) * WIDE + x;
    float sum = 0.0f;
    for (uint64_t r = y; r < t.P && c < t.C; r += ROWS * HIGH) {
        float v[ROWS];
#pragma unroll
        for (int k = 0; k < ROWS; k++)
            v[k] = r + k * HIGH < t.P ? ((const float *)t.part)[(r + k * HIGH) * t.C + c] : 0.0f;
#pragma unroll
        for (int k = 0; k < ROWS; k++) sum += v[k];
    }
    part[y][x] = sum;
    __syncthreads();
    for (uint32_t half = HIGH / 2; half > 0; half /= 2) {
        if (y < half) part[y][x] += part[y + half][x];
        __syncthreads();
    }
    if (y == 0 && c < t.C) store_one(t.out, t.dtype, c, (t.acc ? load_one(t.out, t.dtype, c) : 0.0f) + part[0][x]);
}

namespace
{
/* ---- bias_grad: half a warp walks down a stripe of 16 packs, the halves of a block take rows in turn ---- */

template <class T> __device__ void bias_part(const rt_cuda_bias_params &p)
{
    constexpr int W = 16 / (int)sizeof(T), LANES = RT_CUDA_BIAS_LANES, WARPS = RT_CUDA_BIAS_BLOCK / 32;
    constexpr int WIDE = LANES * W, HIGH = RT_CUDA_BIAS_BLOCK / LANES, ROWS = RT_CUDA_BIAS_ROWS;
    __shared__ float part[WARPS][WIDE];
    const uint32_t lane = threadIdx.x % LANES, warp = threadIdx.x / 32;
    const uint32_t stripe = blockIdx.x % p.stripes, chunk = blockIdx.x / p.stripes;
    const uint64_t col = (uint64_t)stripe * WIDE + lane * W, first = (uint64_t)chunk * p.rows;
    const uint64_t end = first + p.rows < p.N ? first + p.rows : p.N;
    const uint32_t n = col >= p.C ? 0 : p.C - col < W ? (uint32_t)(p.C - col) : W;
    const bool packs = p.whole && n == W;
    float sum[W] = { 0.0f };
    uint64_t r = first + threadIdx.x / LANES;
    Raw<16> raw[ROWS];
    const auto ask = [&] {
#pragma unroll
        for (int k = 0; k < ROWS; k++)
            if (r + k * HIGH < end) raw[k] = load_raw<16>(element<T>(p.dy, r + k * HIGH, col));
    };
    const auto add = [&] {
#pragma unroll
        for (int k = 0; k < ROWS; k++) {
            float v[W];
            if (r + k * HIGH >= end) break;
            unpack<T, W>(v, raw[k]);
#pragma unroll
            for (int i = 0; i < W; i++) sum[i] += v[i];
        }
        r += ROWS * HIGH;
    };
    while (packs && r < end) {
        ask();
        add();
    }
    for (; n && r < end; r += HIGH) {
        float v[W];
        load(v, element<T>(p.dy, r, col), Part{ n });
#pragma unroll
        for (int i = 0; i < W; i++) sum[i] += v[i];
    }
#pragma unroll
    for (int i = 0; i < W; i++) {
#pragma unroll
        for (int o = LANES; o < 32; o *= 2) sum[i] += __shfl_xor_sync(RT_EVERY_LANE, sum[i], o);
        if (threadIdx.x % 32 < LANES) part[warp][i * LANES + lane] = sum[i]; /* by lanes: no two in one bank */
    }
    __syncthreads();
    for (uint32_t j = threadIdx.x; j < WIDE; j += RT_CUDA_BIAS_BLOCK) {
        uint64_t c = (uint64_t)stripe * WIDE + j % LANES * W + j / LANES;
        float all = 0.0f;
#pragma unroll
        for (int w = 0; w < WARPS; w++) all += part[w][j];
        if (c < p.C) ((float *)p.part)[(uint64_t)chunk * p.C + c] = all;
    }
}

/* ---- norm_sq: f32 over a pack, double above it ---- */

RT_DEVICE bool is_finite(float x) { return (__float_as_uint(x) & 0x7f800000) != 0x7f800000; }

template <class T> struct Squares {
    static constexpr int W = 16 / (int)sizeof(T);
    struct State {
        float x[W];
    };
    const rt_cuda_norm_tensor &t;
    double sum;
    uint32_t row;
    template <class E> __device__ void load(State &s, Place at, E e)
    {
        ::load(s.x, element<T>(t.x, at.row, at.col), e);
    }
    template <class E> __device__ void store(State &s, Place at, E)
    {
        float q = 0.0f;
#pragma unroll
        for (int i = 0; i < W; i++) q = fmaf(s.x[i], s.x[i], q);
        sum += q;
        if (is_finite(q)) return;
#pragma unroll
        for (int i = W; i-- > 0;) { /* rows of an operand without gaps were laid end to end */
            uint32_t r = t.tile.rows == 1 ? (uint32_t)((at.col + i) / t.C) : (uint32_t)at.row;
            if (!is_finite(s.x[i]) && r < row) row = r;
        }
    }
};

template <class T> __device__ void norm_part(const rt_cuda_norm_params &p)
{
    __shared__ double sums[32];
    __shared__ uint32_t rows[32];
    const rt_cuda_norm_tensor &t = p.tensor[tensor_of(p)];
    Squares<T> op = { t, 0.0, UINT32_MAX };
    each_pack_of<Squares<T>::W, RT_CUDA_NORM_PACKS>(t.tile, blockIdx.x - t.first, t.blocks, op);
    const double sum = block_sum(op.sum, sums);
    const uint32_t row = ~block_max(~op.row, rows, 0u); /* the least */
    if (threadIdx.x == 0) ((rt_cuda_norm_part *)p.part)[blockIdx.x] = { sum, row, 0 };
}

/* out = or += the sum of a tensor; the fault record keeps the first fault. */
RT_DEVICE void norm_add(const rt_cuda_norm_params &p, uint32_t i, double sum, uint32_t row)
{
    float *out = (float *)p.out;
    rt_fault *fault = (rt_fault *)p.fault;
    *out = (float)((i || p.acc ? *out : 0.0) + sum);
    if (!fault || fault->set || isfinite(sum)) return;
    fault->step = ((const rt_step *)p.step)->step;
    fault->site = p.tensor[i].site;
    fault->row = row == UINT32_MAX ? 0 : row; /* none: the sum itself overflowed */
    fault->set = 1;
}
} // namespace

/* A warp for each tensor adds up its parts; one thread then adds the tensors, in order. */
extern "C" __global__ void __launch_bounds__(RT_CUDA_NORM_FINISH)
    norm_sq_finish(const __grid_constant__ rt_cuda_norm_params p)
{
    begin_kernel();
    __shared__ double sums[RT_CUDA_NORM_RUN];
    __shared__ uint32_t rows[RT_CUDA_NORM_RUN];
    const uint32_t lane = threadIdx.x % 32;
    for (uint32_t t = threadIdx.x / 32; t < p.count; t += RT_CUDA_NORM_FINISH / 32) {
        const rt_cuda_norm_part *part = (const rt_cuda_norm_part *)p.part + p.tensor[t].first;
        double sum = 0.0;
        uint32_t row = UINT32_MAX;
        for (uint32_t i = lane; i < p.tensor[t].blocks; i += 32) {
            sum += part[i].sum;
            row = part[i].row < row ? part[i].row : row;
        }
        sum = lanes_sum(sum);
        row = ~lanes_max(~row);
        if (lane == 0) sums[t] = sum, rows[t] = row;
    }
    __syncthreads();
    if (threadIdx.x) return;
    for (uint32_t t = 0; t < p.count; t++) norm_add(p, t, sums[t], rows[t]);
}

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BIAS_BLOCK, 3) bias_grad_##name(const rt_cuda_bias_params p)  \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        bias_part<T>(p);                                                                                               \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK)                                                        \
        norm_sq_##name(const __grid_constant__ rt_cuda_norm_params p)                                                  \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        norm_part<T>(p);                                                                                               \
    }
RT_FOR_FLOATS(KERNELS)
