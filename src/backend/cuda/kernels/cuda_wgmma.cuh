/* cuda_wgmma.cuh - what Hopper alone has (sm_90a): MMAs of a warpgroup, barriers that count, registers that move;
 * device code.
 *
 * Owns: the instructions, each as a function, and where matrices lie for them. A matrix in shared memory is panels of
 * 64 columns of 16-bit elements: rows of 128 bytes, one behind the other, in which the eight chunks of 16 bytes are
 * exchanged by the number of the row (chunk c of row r lies at c ^ r%8). Panels begin on 1,024 bytes. The same panel
 * serves as b' (its rows are columns of b: `rows`) and as b (`turned`).
 *
 * They run beside the program that has begun them: their registers, sums and left sides, may not be touched from
 * wgmma_fence() to the wgmma_wait() that ends their group. What threads wrote to shared memory is seen by them
 * behind copies_seen() and a barrier. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_WGMMA_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_WGMMA_CUH

#include "backend/cuda/kernels/cuda_begin.cuh"

#include <stdint.h>

#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define RT_SM90A(...) __VA_ARGS__
#else
#define RT_SM90A(...) __trap()
#endif

enum { RT_PANEL = 64, RT_PANEL_ROW = 128 }; /* columns; bytes */

/* ---- barriers in shared memory: a phase ends when `count` have arrived ---- */

RT_DEVICE void barrier_make(uint32_t at, uint32_t count)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(at), "r"(count) : "memory");
}
RT_DEVICE void barrier_arrive(uint32_t at)
{
    asm volatile("{ .reg .b64 t; mbarrier.arrive.shared::cta.b64 t, [%0]; }" ::"r"(at) : "memory");
}
/* Has the phase of this parity ended? Waits a while for it. */
RT_DEVICE bool barrier_over(uint32_t at, uint32_t parity)
{
    uint32_t over;
    asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(over)
                 : "r"(at), "r"(parity)
                 : "memory");
    return over;
}
RT_DEVICE void barrier_wait(uint32_t at, uint32_t parity)
{
    while (!barrier_over(at, parity)) {}
}
/* What this thread has written to shared memory is seen by MMAs after the next barrier. */
RT_DEVICE void copies_seen() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

/* ---- registers: a warpgroup gives some back, others take them ---- */

/* A block of `take` warpgroups and one more begins with an equal share of 65,536 for each thread, in eights; can the
 * one keep `kept` and the others have `taken`? */
RT_DEVICE constexpr bool registers_suffice(int take, int kept, int taken)
{
    return kept + take * taken <= 65536 / (128 * (take + 1)) / 8 * 8 * (take + 1);
}

template <int N> RT_DEVICE void registers_give() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N)); }
template <int N> RT_DEVICE void registers_take() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N)); }

/* ---- MMAs ---- */

RT_DEVICE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/* What was begun since the last time is a group. */
RT_DEVICE void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
/* All groups but the last N have ended. */
template <int N> RT_DEVICE void wgmma_wait()
{
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

/* The compiler must keep these registers as they are up to here, and read them anew. */
template <int N> RT_DEVICE void hold(float (&x)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++) asm volatile("" : "+f"(x[n][0]), "+f"(x[n][1]), "+f"(x[n][2]), "+f"(x[n][3])::"memory");
}
template <int N> RT_DEVICE void hold(uint32_t (&x)[N][4])
{
#pragma unroll
    for (int n = 0; n < N; n++) asm volatile("" : "+r"(x[n][0]), "+r"(x[n][1]), "+r"(x[n][2]), "+r"(x[n][3])::"memory");
}

/* Where a side of an MMA lies: the low word, to which 1 may be added for every 16 bytes further on. across: bytes
 * from a panel to the next, which only a turned side of several has. Eight rows are 1,024 bytes from the next eight. */
RT_DEVICE uint32_t side(uint32_t at, uint32_t across)
{
    return __shfl_sync(~0u, at >> 4 | across >> 4 << 16, 0); /* one register for the warp */
}
RT_DEVICE uint64_t side_at(uint32_t low) { return (uint64_t)(1u << 30 | 1024 >> 4) << 32 | low; }

/* d (64,N) (+)= a (64,16) b (16,N) of a warpgroup: warp w of it has rows 16 w to 16 w + 15 of d and a, as in
 * cuda_mma.cuh: d[n][e] is row l/4 + 8 (e/2), column 8 n + 2 (l%4) + e%2 of lane l. add 0: d is overwritten. turned:
 * b lies as it is, 16 rows of N columns; otherwise as N rows of 16 columns. */
#define R4(d, n) "+f"(d[n][0]), "+f"(d[n][1]), "+f"(d[n][2]), "+f"(d[n][3])
#define R32(d, n)                                                                                                      \
    R4(d, n), R4(d, n + 1), R4(d, n + 2), R4(d, n + 3), R4(d, n + 4), R4(d, n + 5), R4(d, n + 6), R4(d, n + 7)
#define N0 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,"
#define N1 "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define N2 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47,"
#define N3 "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define PRODUCT_64(type)                                                                                               \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %37, 0;\n"                                                            \
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32." type "." type " {" N0 N1 "}, {%32,%33,%34,%35}, %36, "  \
                 "p, 1, 1, %38; }"                                                                                     \
                 : R32(d, 0)                                                                                           \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TURNED))
#define PRODUCT_128(type)                                                                                              \
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %69, 0;\n"                                                            \
                 "wgmma.mma_async.sync.aligned.m64n128k16.f32." type "." type " {" N0 N1 N2 N3                         \
                 "}, {%64,%65,%66,%67}, %68, p, 1, 1, %70; }"                                                          \
                 : R32(d, 0), R32(d, 8)                                                                                \
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(add), "n"(TURNED))

template <class E, bool TURNED> RT_DEVICE void wgmma(float (&d)[8][4], const uint32_t (&a)[4], uint64_t b, int add)
{
    if (E::is_bf16)
        PRODUCT_64("bf16");
    else
        PRODUCT_64("f16");
}
template <class E, bool TURNED> RT_DEVICE void wgmma(float (&d)[16][4], const uint32_t (&a)[4], uint64_t b, int add)
{
    if (E::is_bf16)
        PRODUCT_128("bf16");
    else
        PRODUCT_128("f16");
}
/* The left side is 64 rows of a panel, too. */
template <class E> RT_DEVICE void wgmma_panels(float (&d)[8][4], uint64_t a, uint64_t b, int add)
{
    static_assert(E::is_bf16, "there is no other yet");
    asm volatile("{ .reg .pred p; setp.ne.b32 p, %34, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" N0 N1 "}, %32, %33, p, 1, 1, 0, 0; }"
                 : R32(d, 0)
                 : "l"(a), "l"(b), "r"(add));
}
#undef PRODUCT_64
#undef PRODUCT_128
#undef N0
#undef N1
#undef N2
#undef N3
#undef R4
#undef R32

#endif
