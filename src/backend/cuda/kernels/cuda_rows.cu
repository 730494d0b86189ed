/* cuda_rows.cu - add, scale, cast, fill, copy: one pass, packs of 16 bytes. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_rows.h"

namespace
{
/* y = a + b. y may be a or b: a thread reads a pack before it writes it. */
template <class T> struct Add {
    static constexpr int W = 16 / (int)sizeof(T);
    struct State {
        float a[W], b[W];
    };
    const rt_cuda_rows_params &p;
    template <class E> __device__ void load(State &s, Place at, E e)
    {
        ::load(s.a, element<T>(p.x, at.row, at.col), e);
        ::load(s.b, element<T>(p.b, at.row, at.col), e);
    }
    template <class E> __device__ void store(State &s, Place at, E e)
    {
#pragma unroll
        for (int i = 0; i < W; i++) s.a[i] += s.b[i];
        ::store(element<T>(p.y, at.row, at.col), s.a, e);
    }
};

/* y = factor x */
template <class T> struct Scale {
    static constexpr int W = 16 / (int)sizeof(T);
    struct State {
        float x[W];
    };
    const rt_cuda_rows_params &p;
    float factor;
    template <class E> __device__ void load(State &s, Place at, E e)
    {
        ::load(s.x, element<T>(p.x, at.row, at.col), e);
    }
    template <class E> __device__ void store(State &s, Place at, E e)
    {
#pragma unroll
        for (int i = 0; i < W; i++) s.x[i] *= factor;
        ::store(element<T>(p.y, at.row, at.col), s.x, e);
    }
};

/* y = x in another type. A thread stores 16 bytes at a time: of a longer pack neighbours would store by halves of
 * sectors. */
template <class TY, class TX> struct Cast {
    static constexpr int W = 16 / (int)sizeof(TY);
    struct State {
        float x[W];
    };
    const rt_cuda_rows_params &p;
    template <class E> __device__ void load(State &s, Place at, E e)
    {
        ::load(s.x, element<TX>(p.x, at.row, at.col), e);
    }
    template <class E> __device__ void store(State &s, Place at, E e)
    {
        ::store(element<TY>(p.y, at.row, at.col), s.x, e);
    }
};

/* y = alpha */
template <class T> struct Fill {
    static constexpr int W = 16 / (int)sizeof(T);
    struct State {
    };
    const rt_cuda_rows_params &p;
    template <class E> __device__ void load(State &, Place, E) {}
    template <class E> __device__ void store(State &, Place at, E e)
    {
        float v[W];
#pragma unroll
        for (int i = 0; i < W; i++) v[i] = p.alpha;
        ::store(element<T>(p.y, at.row, at.col), v, e);
    }
};

/* y = x, units of U */
template <class Unit> struct Copy {
    struct State {
        Unit x;
    };
    const rt_cuda_copy_params &p;
    template <class E> __device__ void load(State &s, Place at, E) { s.x = *element<Unit>(p.x, at.row, at.col); }
    template <class E> __device__ void store(State &s, Place at, E) { *element<Unit>(p.y, at.row, at.col) = s.x; }
};

/* y[rows[i]] = x[i], one block for each row of x. Of rows with the same index the last one wins: a row that a later one
 * replaces is not written at all, so the order in which blocks run does not matter. */
template <class Unit> __device__ void scatter(const rt_cuda_scatter_params &p)
{
    const uint32_t i = blockIdx.x;
    const int32_t to = *element<int32_t>(p.rows, i, 0);
    if (to < 0 || (uint32_t)to >= p.R) return;
    int replaced = 0;
    for (uint64_t j = (uint64_t)i + 1 + threadIdx.x; j < p.N; j += blockDim.x)
        replaced |= *element<int32_t>(p.rows, j, 0) == to;
    if (__syncthreads_or(replaced)) return;
    for (uint64_t k = threadIdx.x; k < p.units; k += blockDim.x)
        *element<Unit>(p.y, (uint32_t)to, k) = *element<Unit>(p.x, i, k);
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) add_##name(const rt_cuda_rows_params p)                \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        Add<T> op = { p };                                                                                             \
        each_pack<Add<T>::W, RT_CUDA_ROWS_PACKS>(p.tile, op);                                                          \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) scale_##name(const rt_cuda_rows_params p)              \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        Scale<T> op = { p, p.s ? p.alpha * *(const float *)p.s : p.alpha };                                            \
        each_pack<Scale<T>::W, RT_CUDA_ROWS_PACKS>(p.tile, op);                                                        \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) fill_##name(const rt_cuda_rows_params p)               \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        Fill<T> op = { p };                                                                                            \
        each_pack<Fill<T>::W, RT_CUDA_ROWS_PACKS>(p.tile, op);                                                         \
    }
RT_FOR_FLOATS(KERNELS)

#define CAST(to, TY, from, TX)                                                                                         \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) cast_##to##_##from(const rt_cuda_rows_params p)        \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        Cast<TY, TX> op = { p };                                                                                       \
        each_pack<Cast<TY, TX>::W, RT_CUDA_CAST_PACKS(sizeof(TY))>(p.tile, op);                                        \
    }
#define CASTS(to, TY) CAST(to, TY, f32, float) CAST(to, TY, bf16, bf16) CAST(to, TY, f16, f16)
RT_FOR_FLOATS(CASTS)

#define COPIES(bytes, Unit)                                                                                            \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) copy_##bytes(const rt_cuda_copy_params p)              \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        Copy<Unit> op = { p };                                                                                         \
        each_pack<1, RT_CUDA_ROWS_PACKS>(p.tile, op);                                                                  \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) scatter_##bytes(const rt_cuda_scatter_params p)        \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        scatter<Unit>(p);                                                                                              \
    }
COPIES(1, uint8_t)
COPIES(2, uint16_t)
COPIES(4, uint32_t)
COPIES(16, uint4)
