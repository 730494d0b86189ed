/* cuda_swiglu.cu - y = g sigmoid(g) u and its gradients: one pass, one exponential and one quotient an element.
 *
 * y as e4m3 codes (scale = that of the row, codes = y / scale, y as it would be stored): a row belongs to a team of
 * whole warps, four packs of g and of u a thread, all asked for at once. y, rounded to T, stays in registers between
 * the search for the row's largest and the codes. Rows that are not whole packs, or longer than 1,024 threads hold, are
 * made twice. */
#include "backend/cuda/kernels/cuda_coded_rows.cuh"
#include "backend/cuda/kernels/cuda_swiglu.h"

namespace
{
/* 1 / d of d from 1 to 2, within an ulp: the unit's own reciprocal and a step of Newton's, without the cases of a
 * quotient that do not occur. A NaN stays one. */
RT_DEVICE float reciprocal(float d)
{
    float r;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(d));
    return fmaf(r, fmaf(-d, r, 1.0f), r);
}

/* s = sigmoid(g), t = 1 - s, both without cancellation and without overflow: from e = exp(-|g|) <= 1 and 1/(1+e). */
RT_DEVICE void sigmoid(float g, float &s, float &t)
{
    float e = expf(-fabsf(g)), r = reciprocal(1.0f + e), a = e * r;
    s = g < 0.0f ? a : r;
    t = g < 0.0f ? r : a;
}

/* y of g, s = sigmoid(g) and u: the same bits from both kernels */
RT_DEVICE float activation(float g, float s, float u) { return g * s * u; }

/* u = y */
template <int W> RT_DEVICE void activate(const float (&g)[W], float (&u)[W])
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        float s, t;
        sigmoid(g[i], s, t);
        u[i] = activation(g[i], s, u[i]);
    }
}

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
        activate(x.g, x.u);
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

template <class T> RT_DEVICE void coded_held(const rt_cuda_coded_swiglu_params &p, const CodedRow &to)
{
    constexpr int W = 16 / (int)sizeof(T), HOLDS = RT_CUDA_SWIGLU_HOLDS;
    const uint32_t packs = to.taken ? p.F / W : 0;
    const T *from_g = element<T>(p.g, to.row, 0), *from_u = element<T>(p.u, to.row, 0);
    Raw<16> g[HOLDS], u[HOLDS];
#pragma unroll
    for (int j = 0; j < HOLDS; j++) {
        const uint32_t k = to.lane + j * p.team;
        g[j] = u[j] = { { 0, 0, 0, 0 } };
        if (k >= packs) continue;
        g[j] = load_raw<16>(from_g + k * W);
        u[j] = load_raw<16>(from_u + k * W);
    }
#pragma unroll
    for (int j = 0; j < HOLDS; j++) {
        float a[W], b[W];
        unpack<T, W>(a, g[j]);
        unpack<T, W>(b, u[j]);
        activate(a, b);
        g[j] = repack<T, W>(b);
    }
    to.store_held<T>(g);
}

template <class T> RT_DEVICE void coded_twice(const rt_cuda_coded_swiglu_params &p, const CodedRow &to)
{
    constexpr int W = 16 / (int)sizeof(T);
    to.store_twice<T>([&](float(&y)[W], uint32_t c, Part e, bool) {
        float g[W];
        load(g, element<T>(p.g, to.row, c), e);
        load(y, element<T>(p.u, to.row, c), e);
        activate(g, y);
    });
}
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
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_SWIGLU_MOST)                                                  \
        coded_swiglu_fwd_##name(const rt_cuda_coded_swiglu_params p)                                                   \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        __shared__ uint32_t tops[32];                                                                                  \
        const uint32_t team = threadIdx.x / p.team, lane = threadIdx.x % p.team;                                       \
        const uint64_t row = (uint64_t)blockIdx.x * (blockDim.x / p.team) + team;                                      \
        const CodedRow to = { p.y, p.scale, row, p.F, lane, p.team, row < p.N, tops };                                 \
        if (p.held)                                                                                                    \
            coded_held<T>(p, to);                                                                                      \
        else                                                                                                           \
            coded_twice<T>(p, to);                                                                                     \
    }
RT_FOR_FLOATS(KERNELS)
