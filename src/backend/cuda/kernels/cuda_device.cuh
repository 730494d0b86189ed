/* cuda_device.cuh - the few things that C++ cannot say to the machine: conversions, 2^x, shared memory, clusters.
 *
 * Owns: every line of inline PTX and every use of __CUDA_ARCH__ outside matrix kernels. bf16 and f16 are storage:
 * values become f32 when they are loaded and are rounded once, to nearest even, when they are stored. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_DEVICE_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_DEVICE_CUH

#include <stdint.h>

#define RT_DEVICE static __device__ __forceinline__

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

RT_DEVICE float to_float(float x) { return x; }
RT_DEVICE float to_float(bf16 x) { return __uint_as_float((uint32_t)x.bits << 16); }
RT_DEVICE float to_float(f16 x)
{
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}

RT_DEVICE void narrow(float *y, float x) { *y = x; }
RT_DEVICE void narrow(f16 *y, float x) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y->bits) : "f"(x)); }
RT_DEVICE void narrow(bf16 *y, float x)
{
#if __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y->bits) : "f"(x));
#else
    uint32_t u = __float_as_uint(x), quiet = u >> 16 | 0x40;
    y->bits = (uint16_t)((u & 0x7fffffff) > 0x7f800000 ? quiet : (u + 0x7fff + (u >> 16 & 1)) >> 16);
#endif
}

/* Two values of a 16-bit type in one word: the first is the lower half. */
template <class T> struct twins;
template <> struct twins<bf16> {
    static __device__ __forceinline__ float low(uint32_t w) { return __uint_as_float(w << 16); }
    static __device__ __forceinline__ float high(uint32_t w) { return __uint_as_float(w & 0xffff0000u); }
    static __device__ __forceinline__ uint32_t join(float a, float b)
    {
#if __CUDA_ARCH__ >= 800
        uint32_t w;
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(b), "f"(a));
        return w;
#else
        bf16 x, y;
        narrow(&x, a);
        narrow(&y, b);
        return x.bits | (uint32_t)y.bits << 16;
#endif
    }
};
template <> struct twins<f16> {
    static __device__ __forceinline__ float low(uint32_t w) { return to_float(f16{ (uint16_t)w }); }
    static __device__ __forceinline__ float high(uint32_t w) { return to_float(f16{ (uint16_t)(w >> 16) }); }
    static __device__ __forceinline__ uint32_t join(float a, float b)
    {
        f16 x, y;
        narrow(&x, a);
        narrow(&y, b);
        return x.bits | (uint32_t)y.bits << 16;
    }
};

/* 2^x, at most 2 units in the last place off; 0 below 2^-126. */
RT_DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The shared memory that a launch asks for. */
RT_DEVICE unsigned char *shared_bytes()
{
    extern __shared__ uint4 bytes[];
    return (unsigned char *)bytes;
}

/* ---- clusters: blocks that run together and read each other's shared memory; one block alone before sm_90 ---- */
#if __CUDA_ARCH__ >= 900
#define RT_CLUSTER(n) __cluster_dims__(n, 1, 1)
RT_DEVICE uint32_t cluster_rank()
{
    uint32_t r;
    asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
RT_DEVICE uint32_t cluster_size()
{
    uint32_t n;
    asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(n));
    return n;
}
/* All that was written to shared memory before is seen by the whole cluster behind it. */
RT_DEVICE void cluster_arrive()
{
    __syncwarp(); /* .aligned: the warp arrives as one */
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
RT_DEVICE void cluster_wait()
{
    __syncwarp();
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
/* y (N) = what block `rank` of the cluster has at x of its shared memory: all on their way before the first is here. */
template <int N> RT_DEVICE void cluster_read(double (&y)[N], const double *x, uint32_t rank)
{
    uint32_t at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(at)
                 : "r"((uint32_t)__cvta_generic_to_shared(x)), "r"(rank));
#pragma unroll
    for (int i = 0; i < N; i++)
        asm volatile("ld.shared::cluster.f64 %0, [%1];" : "=d"(y[i]) : "r"(at + 8 * i) : "memory");
}
#else
#define RT_CLUSTER(n)
RT_DEVICE uint32_t cluster_rank() { return 0; }
RT_DEVICE uint32_t cluster_size() { return 1; }
RT_DEVICE void cluster_arrive() {}
RT_DEVICE void cluster_wait() { __syncthreads(); }
template <int N> RT_DEVICE void cluster_read(double (&y)[N], const double *x, uint32_t rank)
{
#pragma unroll
    for (int i = 0; i < N; i++) y[i] = x[rank * 0 + i];
}
#endif

#endif
