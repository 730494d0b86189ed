/* cuda_dropout.cu - dropout: one pass, packs of 16 bytes. Random words are made where they are used, four at a time. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_dropout.h"
#include "backend/cuda/kernels/cuda_rng.cuh"

namespace
{
template <class T> struct Dropout {
    static constexpr int W = 16 / (int)sizeof(T); /* a multiple of four, so that a pack begins with a first word */
    struct State {
        float x[W], y[W];
    };
    const rt_cuda_dropout_params &p;
    uint64_t seed, stream;
    uint32_t row;
    template <class E> __device__ void load(State &s, Place at, E e)
    {
        ::load(s.x, element<T>(p.x, at.row, at.col), e);
        if (p.acc) ::load(s.y, element<T>(p.y, at.row, at.col), e);
    }
    template <class E> __device__ void store(State &s, Place at, E e)
    {
        const uint64_t index = (uint64_t)(row + (uint32_t)at.row) << 32 | (uint32_t)(at.col / 4);
#pragma unroll
        for (int g = 0; g < W / 4; g++) {
            const Random r = philox(seed, stream, index + (uint32_t)g);
#pragma unroll
            for (int i = 0; i < 4; i++) s.x[4 * g + i] *= r.v[i] >= p.below ? p.scale : 0.0f;
        }
        if (p.acc) {
#pragma unroll
            for (int i = 0; i < W; i++) s.x[i] += s.y[i];
        }
        ::store(element<T>(p.y, at.row, at.col), s.x, e);
    }
};
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) dropout_##name(const rt_cuda_dropout_params p)         \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        const rt_step *step = (const rt_step *)p.step;                                                                 \
        Dropout<T> op = { p, step->seed, (uint64_t)p.stream << 32 | step->step, step->row };                           \
        each_pack<Dropout<T>::W, 1>(p.tile, op);                                                                       \
    }
RT_FOR_FLOATS(KERNELS)
