/* cuda_mma.cuh - the machine instructions of kernels that multiply on tensor cores, each as a function; device code.
 *
 * Owns: shared-memory addresses, asynchronous copies, matrix loads and MMAs. Every instruction that needs sm_80 is
 * behind one guard: on sm_75 these functions exist and trap, and the host never chooses the kernels that call them. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_MMA_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_MMA_CUH

#include "backend/cuda/kernels/cuda_begin.cuh"

#include <stdint.h>

#if __CUDA_ARCH__ >= 800
#define RT_SM80(...) __VA_ARGS__
#else
#define RT_SM80(...) __trap()
#endif

/* Position in shared memory, in bytes, as instructions take it. */
RT_DEVICE uint32_t shared_at(const void *p) { return (uint32_t)__cvta_generic_to_shared(p); }

/* 16 bytes, the first `bytes` of them from device memory, the others 0. Of 0 bytes nothing is read, and `from` may lie
 * outside. */
RT_DEVICE void copy_16(uint32_t to, const void *from, uint32_t bytes)
{
    RT_SM80(asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(__cvta_generic_to_global(from)),
                         "r"(bytes)
                         : "memory"));
}
/* What this thread has asked for since the last time is a group. */
RT_DEVICE void copy_group() { RT_SM80(asm volatile("cp.async.commit_group;" ::: "memory")); }
/* All groups of this thread but the last N have arrived; a barrier makes them visible to the others. */
template <int N> RT_DEVICE void copy_groups_wait()
{
    RT_SM80(asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory"));
}
/* All that this thread has asked for. */
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

/* a b + c of two values each, rounded once */
RT_DEVICE uint32_t fma_bf16(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t d = 0;
    RT_SM80(asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(d) : "r"(a), "r"(b), "r"(c)));
    return d;
}

/* d (16,8) += a (16,16) b (16,8), f32 sums. Lane l has rows l/4 and l/4 + 8, columns 2(l%4) and 2(l%4) + 1 of d. */
RT_DEVICE void mma_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    RT_SM80(asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                "{%0,%1,%2,%3};"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)));
}
RT_DEVICE void mma_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    RT_SM80(asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                "{%0,%1,%2,%3};"
                : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)));
}

/* d (16,8) += a (16,32) b (32,8) of signed bytes, exact. Lane l has of a rows l/4 and l/4 + 8, bytes 4(l%4) to
 * 4(l%4) + 3 of each half of K; of b the same of column l/4; of d what the others leave it. */
RT_DEVICE void mma_s8(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    RT_SM80(asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
                : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1)));
}

#endif
