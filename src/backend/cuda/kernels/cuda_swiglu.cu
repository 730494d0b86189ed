/* cuda_swiglu.cu - y = g sigmoid(g) u and its gradients: one pass, one exponential and one quotient an element. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_swiglu.h"

namespace
{
/* s = sigmoid(g), t = 1 - s, both without cancellation and without overflow: from e = exp(-|g|) <= 1 and 1/(1+e). */
RT_DEVICE void sigmoid(float g, float &s, float &t)
{
    float e = expf(-fabsf(g)), r = 1.0f / (1.0f + e), a = e * r;
    s = g < 0.0f ? a : r;
    t = g < 0.0f ? r : a;
}

/* y of g, s = sigmoid(g) and u: the same bits from both kernels */
RT_DEVICE float activation(float g, float s, float u) { return g * s * u; }

template <class T> struct Forward {
    static constexpr int W = 16 / (int)sizeof(T);
    struct State {
        float g[W], u[W];
    };
    const rt_cuda_swiglu_params &p;
    template <class E> __device__ void load(State &x, Place at, E e)
    {
        ::load(x.g, element<T>(p.g, at.row, at.col), e);
        ::load(x.u, element<T>(p.u, at.row, at.col), e);
    }
    template <class E> __device__ void store(State &x, Place at, E e)
    {
#pragma unroll
        for (int i = 0; i < W; i++) {
            float s, t;
            sigmoid(x.g[i], s, t);
            x.u[i] = activation(x.g[i], s, x.u[i]);
        }
        ::store(element<T>(p.y, at.row, at.col), x.u, e);
    }
};

/* dg = dy u s (1 + g (1 - s)), du = dy g s, and y again. dg may be g, du may be u, y may be dy. */
template <class T> struct Backward {
    static constexpr int W = 16 / (int)sizeof(T);
    struct State {
        float dy[W], g[W], u[W];
    };
    const rt_cuda_swiglu_params &p;
    template <class E> __device__ void load(State &x, Place at, E e)
    {
        ::load(x.dy, element<T>(p.dy, at.row, at.col), e);
        ::load(x.g, element<T>(p.g, at.row, at.col), e);
        ::load(x.u, element<T>(p.u, at.row, at.col), e);
    }
    template <class E> __device__ void store(State &x, Place at, E e)
    {
#pragma unroll
        for (int i = 0; i < W; i++) {
            float s, t, dy = x.dy[i], g = x.g[i], u = x.u[i];
            sigmoid(g, s, t);
            x.g[i] = dy * u * s * (1.0f + g * t);
            x.u[i] = dy * g * s;
            x.dy[i] = activation(g, s, u);
        }
        ::store(element<T>(p.dg, at.row, at.col), x.g, e);
        ::store(element<T>(p.du, at.row, at.col), x.u, e);
        if (p.y.at) ::store(element<T>(p.y, at.row, at.col), x.dy, e);
    }
};
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) swiglu_fwd_##name(const rt_cuda_swiglu_params p)       \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        Forward<T> op = { p };                                                                                         \
        each_pack<Forward<T>::W, 1>(p.tile, op);                                                                       \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) swiglu_bwd_##name(const rt_cuda_swiglu_params p)       \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        Backward<T> op = { p };                                                                                        \
        each_pack<Backward<T>::W, 1>(p.tile, op);                                                                      \
    }
RT_FOR_FLOATS(KERNELS)
