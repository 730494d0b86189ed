/* cuda_attn_dev.cuh - the machine instructions of the attention kernels, each as a function; device code.
 *
 * Owns: shared-memory addresses, asynchronous copies, matrix loads and products, 2^x, and the storage types. Every
 * instruction that needs sm_80 is here, behind one guard: on sm_75 these functions exist and trap, and the host
 * never chooses the kernels that call them. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_DEV_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_DEV_CUH

#include "backend/cuda/kernels/cuda_attn.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#define RT_DEVICE static __device__ __forceinline__
#if __CUDA_ARCH__ >= 800
#define RT_SM80(...) __VA_ARGS__
#else
#define RT_SM80(...) __trap()
#endif

extern __shared__ __align__(16) unsigned char rt_shared[];

/* Position in shared memory, in bytes, as instructions take it. */
RT_DEVICE uint32_t shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* 16 bytes from device memory; zeros when `in` is false (then nothing is read, and `from` may lie outside). */
RT_DEVICE void copy_async(uint32_t to, const void *from, bool in)
{
    RT_SM80(asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
                         "r"(in ? 16 : 0)
                         : "memory"));
}
/* All copies that this thread has asked for have arrived; a barrier makes them visible to the others. */
RT_DEVICE void copy_wait() { RT_SM80(asm volatile("cp.async.wait_all;" ::: "memory")); }

/* Four 8x8 matrices of 16-bit elements; lane l names row l%8 of matrix l/8. Lane l gets elements 2(l%4), 2(l%4)+1 of
 * row l/4 of each; `_turned`: of column l/4. */
RT_DEVICE void load_4(uint32_t (&r)[4], uint32_t at)
{
    RT_SM80(asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                         : "r"(at)));
}
RT_DEVICE void load_4_turned(uint32_t (&r)[4], uint32_t at)
{
    RT_SM80(asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                         : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
                         : "r"(at)));
}

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
    static __device__ __forceinline__ void product(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        RT_SM80(asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                    "{%0,%1,%2,%3};"
                    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)));
    }
};
struct rt_f16 {
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
    static __device__ __forceinline__ void product(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
    {
        RT_SM80(asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                    "{%0,%1,%2,%3};"
                    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)));
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
