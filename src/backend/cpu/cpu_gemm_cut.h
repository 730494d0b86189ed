/* cpu_gemm_cut.h - how a GEMM is cut into chunks: a pure function of its shape and dtypes, and of OpenBLAS's core.
 *
 * Owns: the choice between tiles (cpu_gemm.c) and row dots (cpu_gemm_dots.c), the grid of tiles, the length of a panel
 * of converted operands, the size of scratch. The number of threads appears nowhere: the sum behind an output element
 * depends on the cut alone, so it is the same for any number of threads. Nor does what becomes of a row depend on its
 * place, up to RT_GEMM_DOTS_MOST rows: the generator's promise (docs/generation.md) stands on that. */
#ifndef RT_BACKEND_CPU_CPU_GEMM_CUT_H
#define RT_BACKEND_CPU_CPU_GEMM_CUT_H

#include "backend/cpu/cpu.h"

enum {
    RT_GEMM_DOTS_M = 8,         /* so many rows of a or fewer, b stored (N,K): weights are read once, by dot products */
    RT_GEMM_DOTS_MOST = 64,     /* ... or so many, where OpenBLAS's core treats rows unlike (rt_cpu_blas_rows_alike) */
    RT_GEMM_DOTS_ELEMS = 32768, /* weights per chunk of that */
    RT_GEMM_LONG = 512,         /* a tile is at most so long along the longer side of out */
    RT_GEMM_SHORT = 1024,       /* ... and along the shorter one: not cutting that reads the larger operand once */
    RT_GEMM_SIDE = 192,         /* sides do not get shorter than this while there are RT_GEMM_FEW tiles */
    RT_GEMM_SIDE_QUANT = 128,   /* ... nor columns of quantised weights */
    RT_GEMM_SIDE_MIN = 96,
    RT_GEMM_SIDE_LEAST = 64, /* where K is so long that the tiles would be the whole work of a few threads */
    RT_GEMM_FEW = 8,
    RT_GEMM_SOME = 16,   /* where a tile is still worth handing out: less than one each would leave threads idle */
    RT_GEMM_MANY = 32,   /* for quantised weights, whose tiles are narrow */
    RT_GEMM_PANEL = 768, /* of K, where operands are converted: the panel stays in a core's own cache */
    RT_GEMM_UNIT = 16,   /* tile borders: OpenBLAS's kernels work on so many columns of c */
};

typedef struct rt_gemm_cut {
    bool dots;
    bool convert_a, convert_b; /* through f32 scratch */
    bool stage;                /* GEMMs go to scratch and are rounded from there */
    uint32_t unit_n;           /* columns of out between possible borders */
    uint32_t nm, nn;           /* grid of tiles; for dots nm is 1 and nn counts chunks */
    bool by_rows;              /* neighbouring chunks are in one row of tiles, else in one column */
    uint32_t tm, tn;           /* the largest tile */
    uint32_t panel;            /* of K at a time */
} rt_gemm_cut;

/* Where part i of `parts` begins when `size` is cut at multiples of `unit`; parts <= ceil(size / unit). */
static inline uint32_t rt_gemm_border(uint32_t size, uint32_t unit, uint32_t parts, uint32_t i)
{
    uint64_t units = ((uint64_t)size + unit - 1) / unit, at = units * i / parts * unit;
    return at < size ? (uint32_t)at : size;
}

static inline uint32_t rt_gemm_parts(uint64_t size, uint64_t each) { return (uint32_t)((size + each - 1) / each); }

/* Elements of a quantised row that can be had without those beside them (cpu_dequant.h). */
static inline uint32_t rt_gemm_quant_unit(rt_dtype d) { return rt_dtype_table[d].block_elems == 256 ? 128 : 32; }

/* Halves tiles along the side that is longer (of those that may be cut: below side_m, side_n they may not) while there
 * are fewer than `want` and they stay worth handing out: `least` multiplications each. */
static inline void rt_gemm_refine(const rt_matmul_args *g, rt_gemm_cut *t, uint32_t want, uint32_t side_m,
                                  uint32_t side_n, uint64_t least)
{
    while ((uint64_t)t->nm * t->nn < want) {
        uint32_t m = rt_gemm_parts(g->M, t->nm), n = rt_gemm_parts(g->N, t->nn);
        bool can_m = m / 2 >= side_m, can_n = n / 2 >= side_n && t->nn * 2 <= rt_gemm_parts(g->N, t->unit_n);
        if ((uint64_t)m * n / 2 * g->K < least) return;
        if (can_m && (m >= n || !can_n))
            t->nm *= 2;
        else if (can_n)
            t->nn *= 2;
        else
            return;
    }
}

/* Parts of the longer side of out: 16 where there is room, so that 2, 4, 8 or 16 threads get equal shares, else a lower
 * power of two; more where parts would be too long. */
static inline uint32_t rt_gemm_long_parts(uint32_t size)
{
    uint32_t parts = 1, least = rt_gemm_parts(size, RT_GEMM_LONG);
    while (parts < RT_GEMM_SOME && size / (2 * parts) >= RT_GEMM_SIDE) parts *= 2;
    if (least <= parts) return parts;
    return least < 64 ? (uint32_t)rt_align_up(least, least < RT_GEMM_SOME ? 8 : RT_GEMM_SOME) : least;
}

/* Tiles of out. Each reads its rows of a and its columns of b anew, so tiles are large and, where one side of out is
 * much longer, cut that side alone. */
static inline void rt_gemm_tiles(const rt_matmul_args *g, rt_gemm_cut *t, bool quant)
{
    bool tall = (g->ta ? g->M >= g->N : g->M > g->N) && !quant;
    uint32_t some = quant || (uint64_t)g->M * g->N * g->K < 1u << 30 ? RT_GEMM_FEW : RT_GEMM_SOME;
    const uint64_t small = 1u << 20, fair = 1u << 22, large = 1u << 26; /* multiplications in a tile */
    t->by_rows = g->M > g->N;
    if (quant) { /* a tile keeps all the rows it can, so that few tiles unpack the same weights */
        t->nm = rt_gemm_parts(g->M, RT_GEMM_LONG);
        t->nn = rt_gemm_parts(g->N, RT_GEMM_LONG);
        rt_gemm_refine(g, t, RT_GEMM_MANY, UINT32_MAX, RT_GEMM_SIDE_QUANT, small);
    } else {
        t->nm = tall ? rt_gemm_long_parts(g->M) : rt_gemm_parts(g->M, RT_GEMM_SHORT);
        t->nn = tall ? rt_gemm_parts(g->N, RT_GEMM_SHORT) : rt_gemm_long_parts(g->N);
    }
    rt_gemm_refine(g, t, some, RT_GEMM_SIDE, RT_GEMM_SIDE, small);
    rt_gemm_refine(g, t, RT_GEMM_FEW, RT_GEMM_SIDE_MIN, RT_GEMM_SIDE_MIN, small);
    if (!quant) {
        rt_gemm_refine(g, t, RT_GEMM_SOME, RT_GEMM_SIDE_MIN, RT_GEMM_SIDE_MIN, fair);
        rt_gemm_refine(g, t, RT_GEMM_SOME, RT_GEMM_SIDE_LEAST, RT_GEMM_SIDE_LEAST, large);
    }
    t->tm = rt_gemm_parts(rt_gemm_parts(g->M, RT_GEMM_UNIT), t->nm) * RT_GEMM_UNIT;
    t->tn = rt_gemm_parts(rt_gemm_parts(g->N, t->unit_n), t->nn) * t->unit_n;
}

static inline rt_gemm_cut rt_gemm_cut_of(const rt_matmul_args *g, rt_dtype out, rt_dtype a, rt_dtype b)
{
    rt_gemm_cut t = { .convert_a = a != RT_DTYPE_F32, .convert_b = b != RT_DTYPE_F32, .unit_n = RT_GEMM_UNIT };
    bool quant = rt_dtype_is_quant(b);
    bool scaled = a == RT_DTYPE_E4M3; /* by rows, once the sums are whole */
    t.stage = out != RT_DTYPE_F32 || g->alpha == 0 || scaled;
    t.panel = (t.convert_a || t.convert_b) && g->K > RT_GEMM_PANEL ? RT_GEMM_PANEL : g->K;
    const uint32_t few = rt_cpu_blas_rows_alike() ? RT_GEMM_DOTS_M : RT_GEMM_DOTS_MOST;
    if (g->M <= few && !g->ta && g->tb && !scaled) {
        uint32_t rows = RT_GEMM_DOTS_ELEMS / g->K / 4 * 4;
        t.dots = true;
        t.tm = g->M;
        t.tn = rows < 4 ? 4 : rows;
        t.unit_n = 4;
        t.nm = 1;
        t.nn = rt_gemm_parts(g->N, t.tn);
        return t;
    }
    if (quant && !g->tb) t.unit_n = rt_gemm_quant_unit(b);
    rt_gemm_tiles(g, &t, quant);
    return t;
}

#ifdef RT_ISA
/* cpu_gemm_dots.c: the GEMMs that the cut gives to row dots, and the scratch they need. */
void RT_CPU(matmul_dots)(const rt_cpu_ctx *c, const rt_bound_op *o, const rt_gemm_cut *cut);
uint64_t RT_CPU(work_matmul_dots)(const rt_matmul_args *g, const rt_gemm_cut *cut);
#endif

#endif
