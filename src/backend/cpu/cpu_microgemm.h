/* cpu_microgemm.h - GEMMs of tiles that are already in cache: C = A B, C += A B, C = C diag(s) + A B.
 *
 * Owns: the register-tiled kernel and its loop over a tile. One element of A is broadcast against TILE_NV vectors of a
 * row of B, so the lanes run along N and no operand is ever transposed here: A is read with two strides, whichever of
 * them is 1. Leaves packing, masks and threads to the callers. The order of every sum is k = 0, 1, ... in one
 * accumulator, whatever the shape of the tile, so a result does not depend on where a tile begins. */
#ifndef RT_BACKEND_CPU_CPU_MICROGEMM_H
#define RT_BACKEND_CPU_CPU_MICROGEMM_H

#include "backend/cpu/simd.h"

/* TILE_MR x TILE_NV accumulators, and TILE_NV vectors of B beside them, have to fit the registers: 32 of them with
 * AVX-512 and NEON, 16 otherwise. */
#if defined(RT_ISA_avx512) || defined(RT_ISA_neon)
enum { TILE_MR = 4, TILE_NV = 4 };
#else
enum { TILE_MR = 4, TILE_NV = 2 };
#endif

#define RT_OUTLINE static __attribute__((noinline, unused))

typedef enum tile_mode { TILE_SET, TILE_ADD, TILE_SCALE_ADD } tile_mode;

/* One GEMM: c (M,N) =, += or scaled and += a (M,K) b (K,N). Distances are in elements. */
typedef struct tile_product {
    float *c;
    uint64_t ldc; /* from one row to the next */
    struct {
        const float *p;
        uint64_t dm, dk; /* element (m,k) is at m*dm + k*dk */
    } a;
    struct {
        const float *p;
        uint64_t ld;
    } b;
    uint32_t M, N, K; /* N a multiple of VL */
    const float *s;   /* (N) factors of the columns of c, for TILE_SCALE_ADD; null otherwise */
} tile_product;

/* mr x nv vectors of c at row m, column n. mr, nv and mode are constants where this is called. */
RT_INLINE void tile_kernel(const tile_product *t, uint32_t m, uint32_t n, uint32_t mr, uint32_t nv, tile_mode mode)
{
    const uint64_t ldc = t->ldc, dm = t->a.dm, dk = t->a.dk, ldb = t->b.ld;
    const float *a = t->a.p + m * dm, *b = t->b.p + n;
    float *c = t->c + m * ldc + n;
    const uint32_t K = t->K;
    vf acc[TILE_MR][TILE_NV];
    for (uint32_t i = 0; i < mr; i++)
        for (uint32_t j = 0; j < nv; j++) {
            acc[i][j] = mode == TILE_SET ? vset(0.0f) : vload(c + i * ldc + j * VL);
            if (mode == TILE_SCALE_ADD) acc[i][j] *= vload(t->s + n + j * VL);
        }
    for (uint32_t k = 0; k < K; k++) {
        vf bv[TILE_NV];
        for (uint32_t j = 0; j < nv; j++) bv[j] = vload(b + k * ldb + j * VL);
        for (uint32_t i = 0; i < mr; i++) {
            vf av = vset(a[i * dm + k * dk]);
            for (uint32_t j = 0; j < nv; j++) acc[i][j] = vfma(av, bv[j], acc[i][j]);
        }
    }
    for (uint32_t i = 0; i < mr; i++)
        for (uint32_t j = 0; j < nv; j++) vstore(c + i * ldc + j * VL, acc[i][j]);
}

/* All rows of a panel of nv vectors at column n. */
RT_INLINE void tile_panel(const tile_product *t, uint32_t n, uint32_t nv, tile_mode mode)
{
    uint32_t m = 0;
    for (; m + TILE_MR <= t->M; m += TILE_MR) tile_kernel(t, m, n, TILE_MR, nv, mode);
    for (; m < t->M; m++) tile_kernel(t, m, n, 1, nv, mode);
}

RT_INLINE void tile_panels(const tile_product *t, tile_mode mode)
{
    uint32_t n = 0;
    for (; n + TILE_NV * VL <= t->N; n += TILE_NV * VL) tile_panel(t, n, TILE_NV, mode);
    switch ((t->N - n) / VL) {
#if defined(RT_ISA_avx512) || defined(RT_ISA_neon)
    case 3: tile_panel(t, n, 3, mode); break;
    case 2: tile_panel(t, n, 2, mode); break;
#endif
    case 1: tile_panel(t, n, 1, mode); break;
    default: break;
    }
}

RT_OUTLINE void tile_set(const tile_product *t) { tile_panels(t, TILE_SET); }
RT_OUTLINE void tile_add(const tile_product *t) { tile_panels(t, TILE_ADD); }
RT_OUTLINE void tile_scale_add(const tile_product *t) { tile_panels(t, TILE_SCALE_ADD); }

/* As tile_add (s null) or tile_scale_add, but an absent element of one operand, written -0, contributes nothing even
 * where the other is infinite or NaN. The operand is a (in_a) or b. Slow; for tiles in which both occur. */
RT_OUTLINE void tile_add_sparse(const tile_product *t, bool in_a)
{
    for (uint32_t m = 0; m < t->M; m++)
        for (uint32_t n = 0; n < t->N; n += VL) {
            float *c = t->c + m * t->ldc + n;
            vf acc = vload(c);
            if (t->s) acc *= vload(t->s + n);
            for (uint32_t k = 0; k < t->K; k++) {
                vf a = vset(t->a.p[m * t->a.dm + k * t->a.dk]), b = vload(t->b.p + k * t->b.ld + n);
                vi absent = (vi)((vu)(in_a ? a : b) == 0x80000000u);
                acc = vselect(absent, acc, vfma(a, b, acc));
            }
            vstore(c, acc);
        }
}

#endif
