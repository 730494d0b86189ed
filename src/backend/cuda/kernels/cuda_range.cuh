/* cuda_range.cuh - from the smallest to the largest column of a row, each thread of a block its part.
 *
 * Owns: the smaller and the larger of two numbers as the machine has them, two of 16 bits at a time; NaN where one is,
 * so that a row that is not finite shows it. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_RANGE_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_RANGE_CUH

#include "backend/cuda/kernels/cuda_row.cuh"

RT_DEVICE float infinity() { return __uint_as_float(0x7f800000u); }

/* The larger and the smaller of two numbers, or of each of two values of a 16-bit type; NaN where one is. */
RT_DEVICE float number_most(float a, float b) { return a > b || a != a ? a : b; }
RT_DEVICE float number_least(float a, float b) { return a < b || a != a ? a : b; }
#define RT_TWINS_OF(name)                                                                                              \
    template <class T> RT_DEVICE uint32_t twins_##name(uint32_t a, uint32_t b)                                         \
    {                                                                                                                  \
        return twins<T>::join(number_##name(twins<T>::low(a), twins<T>::low(b)),                                       \
                              number_##name(twins<T>::high(a), twins<T>::high(b)));                                    \
    }
RT_TWINS_OF(most)
RT_TWINS_OF(least)
#if __CUDA_ARCH__ >= 800
#define RT_TWINS_BY(name, T, op)                                                                                       \
    template <> __device__ __forceinline__ uint32_t twins_##name<T>(uint32_t a, uint32_t b)                            \
    {                                                                                                                  \
        uint32_t w;                                                                                                    \
        asm(op " %0, %1, %2;" : "=r"(w) : "r"(a), "r"(b));                                                             \
        return w;                                                                                                      \
    }
RT_TWINS_BY(most, bf16, "max.NaN.bf16x2")
RT_TWINS_BY(most, f16, "max.NaN.f16x2")
RT_TWINS_BY(least, bf16, "min.NaN.bf16x2")
RT_TWINS_BY(least, f16, "min.NaN.f16x2")
#endif

/* The smallest and the largest of a thread's columns, in twins; NaN where one is. */
template <class T> struct Range {
    uint32_t low = twins<T>::join(infinity(), infinity()), high = twins<T>::join(-infinity(), -infinity());
    __device__ void take(uint32_t w) { low = twins_least<T>(low, w), high = twins_most<T>(high, w); }
    __device__ void take(float x) { take(twins<T>::join(x, x)); }
    __device__ float least() const { return number_least(twins<T>::low(low), twins<T>::high(low)); }
    __device__ float most() const { return number_most(twins<T>::low(high), twins<T>::high(high)); }
};
template <> struct Range<float> {
    float low = infinity(), high = -infinity();
    __device__ void take(float x) { low = number_least(low, x), high = number_most(high, x); }
    __device__ void take(uint32_t w) { take(__uint_as_float(w)); }
    __device__ float least() const { return low; }
    __device__ float most() const { return high; }
};

/* Of the columns of a row that a thread reads, in packs; those that do not count are left out. */
template <uint32_t THREADS, class T> RT_DEVICE Range<T> range_of(const PackedRow<T> &w)
{
    constexpr int W = PackedRow<T>::W, U = 4;
    Range<T> g;
    for (uint32_t p = threadIdx.x; p < w.packs; p += U * THREADS) {
        Raw<16> raw[U];
        bool whole = p + (U - 1) * THREADS < w.whole;
#pragma unroll
        for (uint32_t u = 0; u < U; u++) {
            whole = whole && (!w.vmask || w.bits(p + u * THREADS) == w.EVERY);
            if (whole) raw[u] = load_raw<16>(w.x + (uint64_t)(p + u * THREADS) * W);
        }
        if (whole) {
#pragma unroll
            for (int i = 0; i < 4 * U; i++) g.take(raw[i / 4].w[i % 4]);
            continue;
        }
        w.template each<1>(p, p + U * THREADS, THREADS, [&](uint32_t, float(&v)[W], uint32_t live) {
#pragma unroll
            for (int i = 0; i < W; i++)
                if (live >> i & 1) g.take(v[i]);
        });
    }
    return g;
}

#endif
