/* cuda_optim.cu - adamw and clip. Master weights and arithmetic are f32; bias corrections are double, once per block,
 * from the step number in device memory. Moments are f32 or, rounded by chance, bf16 or 8-bit codes: num/moment.h. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_moment.cuh"
#include "backend/cuda/kernels/cuda_optim.h"
#include "backend/cuda/kernels/cuda_rng.cuh"

namespace
{
/* b^t by squaring: its relative error, t 2^-53, is far below that of the f32 that it becomes. */
RT_DEVICE double power(double b, uint32_t t)
{
    double r = 1.0;
    for (; t; t /= 2, b *= b)
        if (t & 1) r *= b;
    return r;
}

/* m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2;  w -= lr / (1-b1^t) m / (sqrt(v / (1-b2^t)) + eps) + lr decay w */
template <class TP, class TG> struct Adam {
    static constexpr int W = RT_CUDA_ADAM_WIDTH;
    struct State {
        float m[W], v[W], w[W], g[W];
    };
    const rt_cuda_adam_params &p;
    const rt_cuda_adam_tensor &t;
    float gscale, lr_m, lr_decay, v_left; /* lr / (1-b1^t), lr decay, 1 / (1-b2^t): each rounded once */
    template <class E> __device__ void load(State &s, Place at, E e)
    {
        ::load(s.m, element<float>(t.m, at.row, at.col), e);
        ::load(s.v, element<float>(t.v, at.row, at.col), e);
        ::load(s.g, element<TG>(t.grad, at.row, at.col), e);
        ::load(s.w, element<float>(t.master.at ? t.master : t.param, at.row, at.col), e);
    }
    template <class E> __device__ void store(State &s, Place at, E e)
    {
#pragma unroll
        for (int i = 0; i < W; i++) {
            float g = s.g[i] * gscale;
            s.m[i] = p.beta1 * s.m[i] + (1.0f - p.beta1) * g;
            s.v[i] = p.beta2 * s.v[i] + (1.0f - p.beta2) * g * g;
            s.w[i] -= fmaf(lr_decay, s.w[i], lr_m * s.m[i] / (sqrtf(s.v[i] * v_left) + p.eps));
        }
        ::store(element<float>(t.m, at.row, at.col), s.m, e);
        ::store(element<float>(t.v, at.row, at.col), s.v, e);
        if (t.master.at) ::store(element<float>(t.master, at.row, at.col), s.w, e);
        ::store(element<TP>(t.param, at.row, at.col), s.w, e);
    }
};

/* left[0] = lr / (1-b1^t), left[1] = 1 / (1-b2^t): shared. */
template <class P> RT_DEVICE void corrections(float (&left)[2], const P &p, const rt_step *step)
{
    if (threadIdx.x % 32 == 0 && threadIdx.x < 64) { /* two warps, one correction each */
        double beta = threadIdx.x ? p.beta2 : p.beta1, over = threadIdx.x ? 1.0 : step->lr;
        left[threadIdx.x / 32] = (float)(over / (1.0 - power(beta, step->step)));
    }
    __syncthreads();
}

template <class TP, class TG> __device__ void adam(const rt_cuda_adam_params &p)
{
    __shared__ float left[2];
    const rt_step *step = (const rt_step *)p.step;
    const rt_cuda_adam_tensor &t = p.tensor[tensor_of(p)];
    if (p.fault && ((const rt_fault *)p.fault)->set) return;
    corrections(left, p, step);
    Adam<TP, TG> op = { p, t, p.gscale ? *(const float *)p.gscale : 1.0f, left[0], step->lr * t.decay, left[1] };
    each_pack_of<RT_CUDA_ADAM_WIDTH, RT_CUDA_ADAM_PACKS>(t.tile, blockIdx.x - t.first, t.blocks, op);
}
/* ---- moments narrower than f32 ---- */

/* A thread has a pack of four elements of a row, and the one random word of each. M: how moments are stored. */
template <class M, class TP, class TG> struct Narrow {
    static constexpr int W = RT_CUDA_ADAM_WIDTH;
    struct State {
        float m[W], v[W], w[W], g[W];
    };
    const rt_cuda_narrow_params &p;
    const rt_cuda_narrow_tensor &t;
    uint64_t seed, stream;
    float gscale, lr_m, lr_decay, v_left;
    template <class E> __device__ void load(State &s, Place at, E e)
    {
        M::load(s.m, s.v, t, at, e);
        ::load(s.g, element<TG>(t.grad, at.row, at.col), e);
        ::load(s.w, element<float>(t.master.at ? t.master : t.param, at.row, at.col), e);
    }
    __device__ void update(State &s)
    {
#pragma unroll
        for (int i = 0; i < W; i++) {
            float g = s.g[i] * gscale;
            s.m[i] = p.beta1 * s.m[i] + (1.0f - p.beta1) * g;
            s.v[i] = p.beta2 * s.v[i] + (1.0f - p.beta2) * g * g;
            s.w[i] -= fmaf(lr_decay, s.w[i], lr_m * s.m[i] / (sqrtf(s.v[i] * v_left) + p.eps));
        }
    }
    template <class E> __device__ void store(State &s, Place at, E e)
    {
        if (t.master.at) ::store(element<float>(t.master, at.row, at.col), s.w, e);
        ::store(element<TP>(t.param, at.row, at.col), s.w, e);
    }
    __device__ Random words(Place at)
    {
        return philox(seed, stream, (uint64_t)(t.row + (uint32_t)at.row) << 32 | (uint32_t)(at.col / W));
    }
};

/* Packs behind the end of a row have no element, but their lanes take part in what a block does together: a warp has
 * the packs of one block, so all of its lanes go round as often. */
template <class M, class TP, class TG> __device__ void adam_narrow(const rt_cuda_narrow_params &p)
{
    constexpr int W = RT_CUDA_ADAM_WIDTH, U = RT_CUDA_ADAM_PACKS;
    typedef Narrow<M, TP, TG> Op;
    __shared__ float left[2];
    const rt_step *step = (const rt_step *)p.step;
    const rt_cuda_narrow_tensor &t = p.tensor[tensor_of(p)];
    if (p.fault && ((const rt_fault *)p.fault)->set) return;
    corrections(left, p, step);
    Op op = { p,
              t,
              step->seed,
              stream_of(t.stream, step->step),
              p.gscale ? *(const float *)p.gscale : 1.0f,
              left[0],
              step->lr * t.decay,
              left[1] };
    const uint64_t total = t.tile.rows * t.tile.packs, stride = (uint64_t)t.blocks * U * blockDim.x;
    for (uint64_t i = (uint64_t)(blockIdx.x - t.first) * U * blockDim.x + threadIdx.x; i < total; i += stride) {
        Place at[U];
        typename Op::State s[U];
#pragma unroll
        for (int u = 0; u < U; u++) {
            at[u] = place_of<W>(t.tile, i + (uint64_t)u * blockDim.x);
            if (at[u].col >= t.tile.cols) at[u].n = 0;
            if (t.tile.whole && at[u].n == W)
                op.load(s[u], at[u], Whole());
            else
                op.load(s[u], at[u], Part{ at[u].n });
        }
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (i + (uint64_t)u * blockDim.x >= total) continue; /* whole warps where a warp has a block */
            op.update(s[u]);
            if (t.tile.whole && at[u].n == W) {
                op.store(s[u], at[u], Whole());
            } else {
                op.store(s[u], at[u], Part{ at[u].n });
            }
            M::store(s[u].m, s[u].v, t, at[u], t.tile.whole && at[u].n == W, op.words(at[u]));
        }
    }
}
} // namespace

#define ADAM(to, TP, from, TG)                                                                                         \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK)                                                        \
        adamw_##to##_##from(const __grid_constant__ rt_cuda_adam_params p)                                             \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        adam<TP, TG>(p);                                                                                               \
    }
#define ADAMS(to, TP) ADAM(to, TP, f32, float) ADAM(to, TP, bf16, bf16) ADAM(to, TP, f16, f16)
RT_FOR_FLOATS(ADAMS)

#define NARROW(name, M, to, TP, from, TG)                                                                              \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK)                                                        \
        adamw_##name##_##to##_##from(const __grid_constant__ rt_cuda_narrow_params p)                                  \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        adam_narrow<M, TP, TG>(p);                                                                                     \
    }
#define NARROWS(to, TP)                                                                                                \
    NARROW(bf16, Moments16, to, TP, f32, float)                                                                        \
    NARROW(bf16, Moments16, to, TP, bf16, bf16)                                                                        \
    NARROW(bf16, Moments16, to, TP, f16, f16)                                                                          \
    NARROW(u8, Moments8, to, TP, f32, float)                                                                           \
    NARROW(u8, Moments8, to, TP, bf16, bf16)                                                                           \
    NARROW(u8, Moments8, to, TP, f16, f16)
RT_FOR_FLOATS(NARROWS)

/* norm = sqrt(nsq); scale = min(1, max_norm / (norm + 1e-6)), 1 without a limit; not finite: 0, and a fault. */
extern "C" __global__ void clip(const rt_cuda_clip_params p)
{
    begin_kernel();
    if (threadIdx.x) return;
    double n = sqrt((double)*(const float *)p.nsq), max = p.max_norm;
    rt_fault *fault = (rt_fault *)p.fault;
    *(float *)p.norm = (float)n;
    if (isfinite(n)) {
        *(float *)p.scale = max > 0 && max < n + 1e-6 ? (float)(max / (n + 1e-6)) : 1.0f;
        return;
    }
    *(float *)p.scale = 0.0f;
    if (!fault || fault->set) return;
    fault->step = ((const rt_step *)p.step)->step;
    fault->site = p.site;
    fault->row = 0;
    fault->set = 1;
}
