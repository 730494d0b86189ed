/* cuda_attn_dev.cuh - what the attention kernels share: 2^x, the storage types, what a query sees; device code.
 *
 * Leaves to cuda_mma.cuh: copies, matrix loads and MMAs, which need sm_80 as the pairs here do. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_DEV_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_DEV_CUH

#include "backend/cuda/kernels/cuda_attn.h"
#include "backend/cuda/kernels/cuda_mma.cuh"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

extern __shared__ __align__(16) unsigned char rt_shared[];

/* 16 bytes from device memory; zeros when `in` is false (then nothing is read, and `from` may lie outside). */
RT_DEVICE void copy_async(uint32_t to, const void *from, bool in) { copy_16(to, from, in ? 16 : 0); }

/* 2^x within 2^-22; 0 below 2^-126. */
RT_DEVICE float power_2(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* The two 16-bit storage types: pairs of values in a word, and d (16,8) += a (16,16) b (16,8). Weights of the forward
 * are at most 1; f16 ends at 2^-24, so they are multiplied by `lift` there. `parts` of a weight are needed at the edge
 * of what is seen (cuda_attn_tile.cuh). */
struct rt_bf16 {
    static constexpr bool is_bf16 = true;
    static constexpr int parts = 3;
    static constexpr float lift = 1;
    static __device__ __forceinline__ uint32_t pair(float first, float second)
    {
        uint32_t r = 0;
        RT_SM80(asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first)));
        return r;
    }
    static __device__ __forceinline__ float first(uint32_t pair) { return __uint_as_float(pair << 16); }
    static __device__ __forceinline__ float second(uint32_t pair) { return __uint_as_float(pair & 0xffff0000u); }
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        mma_bf16(d, a, b0, b1);
    }
};
struct rt_f16 {
    static constexpr bool is_bf16 = false;
    static constexpr int parts = 2;
    static constexpr float lift = 16384;
    static __device__ __forceinline__ uint32_t pair(float first, float second)
    {
        uint32_t r = 0;
        RT_SM80(asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first)));
        return r;
    }
    static __device__ __forceinline__ float first(uint32_t pair)
    {
        return __half2float(__ushort_as_half((unsigned short)pair));
    }
    static __device__ __forceinline__ float second(uint32_t pair)
    {
        return __half2float(__ushort_as_half((unsigned short)(pair >> 16)));
    }
    static __device__ __forceinline__ void mma(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        mma_f16(d, a, b0, b1);
    }
};

/* Element i of a matrix of any of the storage types. */
RT_DEVICE float load_any(const void *p, uint64_t i, uint32_t dtype)
{
    if (dtype == RT_CUDA_ATTN_F32) return ((const float *)p)[i];
    if (dtype == RT_CUDA_ATTN_BF16) return __bfloat162float(((const __nv_bfloat16 *)p)[i]);
    return __half2float(((const __half *)p)[i]);
}
RT_DEVICE void store_any(void *p, uint64_t i, float x, uint32_t dtype)
{
    if (dtype == RT_CUDA_ATTN_F32)
        ((float *)p)[i] = x;
    else if (dtype == RT_CUDA_ATTN_BF16)
        ((__nv_bfloat16 *)p)[i] = __float2bfloat16_rn(x);
    else
        ((__half *)p)[i] = __float2half_rn(x);
}

/* The first key that position i of a row sees; none (INT32_MAX) behind the end of the row. */
RT_DEVICE int first_key(const rt_attn_args &a, const rt_cuda_attn_mat &start, uint64_t row0, int i)
{
    if (i >= (int)a.T) return INT32_MAX;
    int lo = a.window && (uint32_t)i >= a.window ? i - (int)a.window + 1 : 0;
    if (start.at) lo = max(lo, ((const int32_t *)start.at)[(row0 + i) * start.stride]);
    return lo;
}

RT_DEVICE int warp_min(int x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(~0u, x);
#else
    for (int k = 16; k > 0; k /= 2) x = min(x, __shfl_xor_sync(~0u, x, k));
    return x;
#endif
}
RT_DEVICE int warp_max(int x) { return ~warp_min(~x); }

#endif
