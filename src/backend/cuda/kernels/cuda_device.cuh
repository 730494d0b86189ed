/* cuda_device.cuh - the few things that C++ cannot say to the machine: conversions, 2^x, copies, clusters.
 *
 * Owns: every line of inline PTX and every use of __CUDA_ARCH__ outside matrix kernels. bf16 and f16 are storage:
 * values become f32 when they are loaded and are rounded once, to nearest even, when they are stored. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_DEVICE_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_DEVICE_CUH

#include "backend/cuda/kernels/cuda_begin.cuh"

#include <stdint.h>

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

RT_DEVICE float to_float(float x) { return x; }
/* What a multiprocessor holds: a bound on launches that asks for all of it leaves no fewer registers than that needs.
 */
#if __CUDA_ARCH__ < 800
#define RT_SM_THREADS 1024
#elif __CUDA_ARCH__ == 800 || (__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100)
#define RT_SM_THREADS 2048
#else
#define RT_SM_THREADS 1536
#endif

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

/* The larger of each of two values of a 16-bit type; of a NaN and a number the number. */
template <class T> RT_DEVICE uint32_t twins_max(uint32_t a, uint32_t b)
{
    return twins<T>::join(fmaxf(twins<T>::low(a), twins<T>::low(b)), fmaxf(twins<T>::high(a), twins<T>::high(b)));
}
#if __CUDA_ARCH__ >= 800
template <> __device__ __forceinline__ uint32_t twins_max<bf16>(uint32_t a, uint32_t b)
{
    uint32_t w;
    asm("max.bf16x2 %0, %1, %2;" : "=r"(w) : "r"(a), "r"(b));
    return w;
}
template <> __device__ __forceinline__ uint32_t twins_max<f16>(uint32_t a, uint32_t b)
{
    uint32_t w;
    asm("max.f16x2 %0, %1, %2;" : "=r"(w) : "r"(a), "r"(b));
    return w;
}
#endif

/* ---- e4m3 (num/e4m3.h) ---- */

RT_DEVICE float e4m3_to_float(uint32_t code)
{
    const uint32_t magnitude = code & 0x7fu; /* as it stands in an f32, 2^120 times too small */
    const float v = __uint_as_float(magnitude << 20) * 0x1p120f;
    return __uint_as_float((magnitude == 0x7fu ? 0x7fc00000u : __float_as_uint(v)) | (code & 0x80u) << 24);
}

/* Two numbers as codes, the first in the lower byte: to nearest even, 448 at most. */
RT_DEVICE uint32_t e4m3_two(float a, float b)
{
#if __CUDA_ARCH__ >= 890
    uint16_t two;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(two) : "f"(b), "f"(a));
    return two;
#else
    uint32_t two = 0;
    const float x[2] = { a, b };
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const uint32_t u = __float_as_uint(x[i]), m = u & 0x7fffffffu;
        const uint32_t normal = (m + 0x7ffffu + (m >> 20 & 1u) - (120u << 23)) >> 20;
        const uint32_t subnormal = __float_as_uint(__uint_as_float(m) + 16384.0f) - 0x46800000u;
        const uint32_t code = m > 0x7f800000u    ? 0x7fu
                              : m >= 0x43e00000u ? 0x7eu
                              : m >= 0x3c800000u ? normal
                                                 : subnormal;
        two |= (code | (u >> 24 & 0x80u)) << 8 * i;
    }
    return two;
#endif
}
RT_DEVICE uint32_t e4m3_four(float a, float b, float c, float d) { return e4m3_two(a, b) | e4m3_two(c, d) << 16; }

/* The largest of a warp, its sum, all its bits: in every lane. */
RT_DEVICE int32_t warp_max(int32_t x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(0xffffffffu, x);
#else
    for (uint32_t o = 16; o > 0; o /= 2) x = max(x, __shfl_xor_sync(0xffffffffu, x, o));
    return x;
#endif
}
RT_DEVICE uint32_t warp_add(uint32_t x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(0xffffffffu, x);
#else
    for (uint32_t o = 16; o > 0; o /= 2) x += __shfl_xor_sync(0xffffffffu, x, o);
    return x;
#endif
}
RT_DEVICE uint32_t warp_or(uint32_t x)
{
#if __CUDA_ARCH__ >= 800
    return __reduce_or_sync(0xffffffffu, x);
#else
    for (uint32_t o = 16; o > 0; o /= 2) x |= __shfl_xor_sync(0xffffffffu, x, o);
    return x;
#endif
}
/* Of numbers: their bits, those of negative ones turned over, are in the same order. */
RT_DEVICE float warp_max(float x)
{
    const int32_t i = __float_as_int(x), top = warp_max(i ^ (i >> 31 & 0x7fffffff));
    return __int_as_float(top ^ (top >> 31 & 0x7fffffff));
}

/* 2^x, at most 2 units in the last place off; 0 below 2^-126. */
RT_DEVICE float exp2_fast(float x)
{
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* 1 / x, 1 unit in the last place off; 0 from 2^126 on. */
RT_DEVICE float reciprocal_fast(float x)
{
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

RT_DEVICE float log2_fast(float x)
{
    float y;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

/* A barrier of some whole warps of a block, `threads` together. id: 1 to 15; 0 is that of the block. */
RT_DEVICE void barrier_of(uint32_t id, uint32_t threads)
{
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

/* The shared memory that a launch asks for. */
RT_DEVICE unsigned char *shared_bytes()
{
    extern __shared__ uint4 bytes[];
    return (unsigned char *)bytes;
}

/* Where p is in shared memory, in bytes, as instructions take it; a number that the compiler keeps, and does not find
 * again wherever it is used. */
RT_DEVICE uint32_t shared_place(const void *p)
{
    uint32_t at;
    asm volatile("mov.u32 %0, %1;" : "=r"(at) : "r"((uint32_t)__cvta_generic_to_shared(p)));
    return at;
}
/* BYTES, a multiple of 16, from there. */
template <int BYTES> RT_DEVICE void shared_load(uint32_t (&w)[BYTES / 4], uint32_t at)
{
#pragma unroll
    for (int i = 0; i < BYTES; i += 16)
        asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                     : "=r"(w[i / 4]), "=r"(w[i / 4 + 1]), "=r"(w[i / 4 + 2]), "=r"(w[i / 4 + 3])
                     : "r"(at + i)
                     : "memory");
}
RT_DEVICE void shared_store(uint32_t at, uint32_t x)
{
    asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(x) : "memory");
}
RT_DEVICE void shared_store(uint32_t at, uint16_t x)
{
    asm volatile("st.shared.u16 [%0], %1;" ::"r"(at), "h"(x) : "memory");
}

/* What lies there is on its way to L2. Nothing is read: it may be written before it is. */
RT_DEVICE void expect_soon(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(p)));
}

/* ---- copies into shared memory that go on while the thread does other things; before sm_80 it waits for each ---- */

/* BYTES, a multiple of 16, to shared place `to`; both sides aligned to 16. */
template <int BYTES> RT_DEVICE void fetch_async(uint32_t to, const void *from)
{
#pragma unroll
    for (int i = 0; i < BYTES; i += 16) {
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to + i), "l"(__cvta_generic_to_global(from) + i)
                     : "memory");
#else
        const uint4 x = *(const uint4 *)((const char *)from + i);
        asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to + i), "r"(x.x), "r"(x.y), "r"(x.z), "r"(x.w)
                     : "memory");
#endif
    }
}
/* Ends a batch of them. */
RT_DEVICE void fetch_close()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}
/* All batches of this thread but the last `left` have arrived; where left is above 4, all but 4. */
RT_DEVICE void fetch_wait(uint32_t left)
{
#if __CUDA_ARCH__ >= 800
    if (left == 0)
        asm volatile("cp.async.wait_group 0;" ::: "memory");
    else if (left == 1)
        asm volatile("cp.async.wait_group 1;" ::: "memory");
    else if (left == 2)
        asm volatile("cp.async.wait_group 2;" ::: "memory");
    else if (left == 3)
        asm volatile("cp.async.wait_group 3;" ::: "memory");
    else
        asm volatile("cp.async.wait_group 4;" ::: "memory");
#else
    (void)left;
#endif
}

/* ---- clusters: blocks that run together and write to each other's shared memory; one block alone before sm_90 ----
 *
 * Mail is words that a block writes into the shared memory of another. A box counts the bytes that have come: whoever
 * waits for it sees them, and nothing else has to be in order. A box is used for one exchange after the other. */
#if __CUDA_ARCH__ >= 900
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
/* A barrier of all threads of the cluster, for all that was written before, wherever: it waits for that to get there.
 */
RT_DEVICE void cluster_sync()
{
    __syncwarp(); /* .aligned: the warp arrives as one */
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::
                     : "memory");
}
RT_DEVICE uint32_t cluster_place(const void *p, uint32_t rank)
{
    uint32_t at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_place(p)), "r"(rank));
    return at;
}
/* By one thread, before a cluster_sync. */
RT_DEVICE void mail_begin(uint64_t *box)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\n"
                 "fence.mbarrier_init.release.cluster;" ::"r"(shared_place(box))
                 : "memory");
}
/* w (N words, a multiple of 4) to where `to` and `box` are in block `rank`. */
template <int N> RT_DEVICE void mail_send(void *to, uint64_t *box, const uint32_t (&w)[N], uint32_t rank)
{
    const uint32_t at = cluster_place(to, rank), there = cluster_place(box, rank);
#pragma unroll
    for (int i = 0; i < N; i += 4)
        asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
                         at + 4 * i),
                     "r"(w[i]), "r"(w[i + 1]), "r"(w[i + 2]), "r"(w[i + 3]), "r"(there)
                     : "memory");
}
/* By every thread of the block when it has sent what it has: mail is on its way. */
RT_DEVICE void mail_sent() {}
/* By one warp: all the mail of this block has come. turn: how often the box was waited for before. */
RT_DEVICE void mail_wait(uint64_t *box, uint32_t turn, uint32_t bytes)
{
    const uint32_t at = shared_place(box);
    uint32_t come = 0;
    if (threadIdx.x % 32 == 0)
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at), "r"(bytes) : "memory");
    while (!come)
        asm volatile("{\n.reg .pred p;\n"
                     "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 p, [%1], %2;\n"
                     "selp.u32 %0, 1, 0, p;\n}"
                     : "=r"(come)
                     : "r"(at), "r"(turn & 1)
                     : "memory");
}
#else
RT_DEVICE uint32_t cluster_rank() { return 0; }
RT_DEVICE uint32_t cluster_size() { return 1; }
RT_DEVICE void cluster_sync() { __syncthreads(); }
RT_DEVICE void mail_begin(uint64_t *) {}
template <int N> RT_DEVICE void mail_send(void *to, uint64_t *, const uint32_t (&w)[N], uint32_t)
{
#pragma unroll
    for (int i = 0; i < N; i++) ((uint32_t *)to)[i] = w[i];
}
RT_DEVICE void mail_sent() { __syncthreads(); }
RT_DEVICE void mail_wait(uint64_t *, uint32_t, uint32_t) {}
#endif

#endif
