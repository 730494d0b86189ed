/* cpu_gemm_dots.c - matmul of few rows by stored rows: out (M,N) = or += alpha a (M,K) b' (N,K) + bias.
 *
 * Owns: the GEMMs of decoding, where every weight is used for a few tokens only and memory is the limit; packing
 * weights for sgemm would cost more than the arithmetic. A chunk is a run of rows of b. Each output element is one sum
 * over K, VL lanes wide from the first element to the last, folded at the end: nothing in it depends on how rows are
 * grouped. More than 8 rows of a (cpu_gemm_cut.h says when) are taken 8 at a time. */
#include "backend/cpu/cpu_dequant.h"
#include "backend/cpu/cpu_gemm_cut.h"

enum {
    UNPACK = 256, /* elements of a quantised row unpacked at a time, where that goes through memory */
    STRIP = 512,  /* elements of M rows of a that fit the nearest cache */
    GROUP = 16,   /* rows of b that meet a strip one after another; a multiple of ROWS */
    ROWS = 4,     /* rows of b at the same time, at most */
};

typedef struct dots {
    const rt_bound_op *o;
    const rt_matmul_args *g;
    const rt_gemm_cut *cut;
    const float *a[RT_GEMM_DOTS_MOST]; /* each (K) */
} dots;

static uint64_t a_pitch(const rt_matmul_args *g) { return rt_align_up(g->K, 16); }

uint64_t RT_CPU(work_matmul_dots)(const rt_matmul_args *g, const rt_gemm_cut *cut)
{
    return cut->convert_a ? g->M * a_pitch(g) * sizeof(float) : 0;
}

/* sum[r][m] += w[r] . a[m], element k0 .. k0 + n of a, element 0 .. n of w; R, M and d are constants. */
RT_INLINE void dot(vf *sum, const float *const *a, uint64_t k0, const void *const *w, uint64_t n, int R, int M,
                   rt_dtype d)
{
    vf s[ROWS * RT_GEMM_DOTS_M], v[ROWS];
    uint64_t i = 0;
    for (int j = 0; j < R * M; j++) s[j] = sum[j];
    for (; i + VL <= n; i += VL) {
        for (int r = 0; r < R; r++) v[r] = vload_t(w[r], i, d);
        for (int m = 0; m < M; m++) {
            vf u = vload(a[m] + k0 + i);
            for (int r = 0; r < R; r++) s[r * M + m] = vfma(v[r], u, s[r * M + m]);
        }
    }
    if (i < n) {
        uint32_t left = (uint32_t)(n - i);
        for (int r = 0; r < R; r++) v[r] = vload_tn(w[r], i, left, d);
        for (int m = 0; m < M; m++) {
            vf u = vload_n(a[m] + k0 + i, left);
            for (int r = 0; r < R; r++) s[r * M + m] = vfma(v[r], u, s[r * M + m]);
        }
    }
    for (int j = 0; j < R * M; j++) sum[j] = s[j];
}

/* sum (R,M) += rows p of b by rows of a, over elements k0 .. k0 + n. quant: of the quantised dtype b; else d is the
 * dtype, a constant. */
RT_INLINE void dot_rows(vf *sum, const float *const *a, const uint8_t *const *p, uint64_t k0, uint64_t n, int R, int M,
                        rt_dtype d, bool quant, rt_dtype b)
{
    const void *w[ROWS];
    _Alignas(64) float strip[ROWS][UNPACK + 16]; /* rows do not fall on the same cache sets */
    for (int r = 0; r < R; r++) {
        if (quant) dequant_run(strip[r], p[r], b, k0, n);
        w[r] = quant ? (const void *)strip[r] : p[r] + k0 * (d == RT_DTYPE_F32 ? 4 : 2);
    }
    dot(sum, a, k0, w, n, R, M, d);
}

/* The types that are unpacked in registers; bits are those of the others' way. */
#define FOR_PACKED(X) X(Q8_0) X(Q4_0) X(Q4_1) X(Q4_K) X(Q5_K) X(Q6_K)
RT_INLINE uint32_t packed_unit(rt_dtype b)
{
    return b == RT_DTYPE_Q8_0 || b == RT_DTYPE_Q4_0 || b == RT_DTYPE_Q4_1 ? 32 : HALF;
}

/* y (packed_unit) = elements k on of a row. b is a constant. */
RT_INLINE void unpack(float *y, const uint8_t *row, uint64_t k, rt_dtype b)
{
    const int half = (int)(k / HALF % 2);
    switch (b) {
    case RT_DTYPE_Q8_0: dequant_q8_0(y, row + k / 32 * BYTES_Q8_0); break;
    case RT_DTYPE_Q4_0: dequant_q4_0(y, row + k / 32 * BYTES_Q4_0); break;
    case RT_DTYPE_Q4_1: dequant_offset(y, row + k / 32 * BYTES_Q4_1, false); break;
    case RT_DTYPE_Q4_K: dequant_affine(y, row + k / 256 * BYTES_Q4_K, half, false); break;
    case RT_DTYPE_Q5_K: dequant_affine(y, row + k / 256 * BYTES_Q5_K, half, true); break;
    default: dequant_q6_k(y, row + k / 256 * BYTES_Q6_K, half); break;
    }
}

/* sum (R,M) += rows p of b by rows of a, over elements k0 .. k0 + n, a unit of each row after the other: what is
 * unpacked need not leave the registers. b, R and M are constants. */
RT_INLINE void dot_packed(vf *sum, const float *const *a, const uint8_t *const *p, uint64_t k0, uint64_t n, int R,
                          int M, rt_dtype b)
{
    const uint32_t unit = packed_unit(b);
    vf s[ROWS * RT_GEMM_DOTS_M];
    for (int j = 0; j < R * M; j++) s[j] = sum[j];
    for (uint64_t k = k0; k < k0 + n; k += unit)
        for (int r = 0; r < R; r++) {
            _Alignas(64) float w[HALF];
            unpack(w, p[r], k, b);
#pragma GCC unroll 8
            for (uint32_t i = 0; i < unit; i += VL)
                for (int m = 0; m < M; m++) s[r * M + m] = vfma(vload(w + i), vload(a[m] + k + i), s[r * M + m]);
        }
    for (int j = 0; j < R * M; j++) sum[j] = s[j];
}

static void finish(const dots *x, const vf *sum, uint32_t m0, uint32_t n0, int R, int M)
{
    const rt_operand *out = &x->o->slot[RT_MM_OUT], *bias = &x->o->slot[RT_MM_BIAS];
    uint64_t step = row_bytes(out->dtype, out->stride);
    uint8_t *row = (uint8_t *)rt_host_ptr(out) + m0 * step;
    for (int m = 0; m < M; m++, row += step) {
        for (int r = 0; r < R; r++) {
            float v = vsum(sum[r * M + m]) * x->g->alpha;
            if (bias->mem) v += load_t(rt_host_ptr(bias), n0 + (uint32_t)r, bias->dtype);
            if (x->o->acc & 1u << RT_MM_OUT) v += load_t(row, n0 + (uint32_t)r, out->dtype);
            store_t(row, n0 + (uint32_t)r, v, out->dtype);
        }
    }
}

/* How the rows of b are read. */
typedef enum way { WAY_FLOAT, WAY_STRIP, WAY_PACKED } way;

/* Rows m0 .. m0 + M of a by rows n0 .. n1 of b (at most GROUP), R at a time: R * M sums stay in registers. All rows
 * meet one strip of a before the next strip, so that M rows of a are read from the nearest cache; one or two rows of a
 * are there anyway. Where fewer than R are left, the last one is taken again. M, R, d and w are constants; d is the
 * dtype, but f32 with WAY_STRIP. */
RT_INLINE void run_group(const dots *x, uint32_t m0, uint32_t n0, uint32_t n1, int M, int R, rt_dtype d, way w)
{
    const float *const *a = x->a + m0;
    const rt_operand *b = &x->o->slot[RT_MM_B];
    const bool strips = w == WAY_STRIP;
    uint64_t step = row_bytes(b->dtype, b->stride), K = x->g->K, most = strips ? UNPACK : M > 2 ? STRIP : K;
    const uint8_t *first = (const uint8_t *)rt_host_ptr(b) + n0 * step, *p[ROWS];
    vf sum[GROUP * RT_GEMM_DOTS_M];
    int rows = (int)(n1 - n0);
    for (int j = 0; j < GROUP * M; j++) sum[j] = (vf){ 0 };
    for (uint64_t k0 = 0; k0 < K; k0 += most) {
        uint64_t n = K - k0 < most ? K - k0 : most;
        for (int i = 0; i < rows; i += R) {
            for (int r = 0; r < R; r++) p[r] = first + (uint64_t)(i + r < rows ? i + r : rows - 1) * step;
            if (w == WAY_PACKED)
                dot_packed(sum + i * M, a, p, k0, n, R, M, d);
            else
                dot_rows(sum + i * M, a, p, k0, n, R, M, d, strips, b->dtype);
        }
    }
    finish(x, sum, m0, n0, rows, M);
}

/* Rows n0 .. n1 of b (at most GROUP) stay in a near cache for all rows of a, which are taken by eights, fours, twos:
 * every number of them would be twice the code. */
RT_INLINE void run_rows(const dots *x, uint32_t n0, uint32_t n1, rt_dtype d, way w)
{
    for (uint32_t m = 0, M; m < x->g->M; m += M) {
        const uint32_t left = x->g->M - m;
        M = left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1;
        switch (M) {
        case 1: run_group(x, m, n0, n1, 1, 4, d, w); break;
        case 2: run_group(x, m, n0, n1, 2, 4, d, w); break;
        case 4: run_group(x, m, n0, n1, 4, 2, d, w); break;
        default: run_group(x, m, n0, n1, 8, 2, d, w); break;
        }
    }
}

RT_INLINE void run_all(const dots *x, uint32_t n0, uint32_t n1, rt_dtype d, way w)
{
    for (uint32_t end; n0 < n1; n0 = end) {
        end = n1 - n0 < GROUP ? n1 : n0 + GROUP;
        run_rows(x, n0, end, d, w);
    }
}

static void run_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const dots *x = ctx;
    const rt_gemm_cut *t = x->cut;
    uint32_t n0 = rt_gemm_border(x->g->N, t->unit_n, t->nn, chunk);
    uint32_t n1 = rt_gemm_border(x->g->N, t->unit_n, t->nn, chunk + 1);
    rt_dtype d = x->o->slot[RT_MM_B].dtype;
    (void)worker;
    switch (d) {
#define PACKED(kind)                                                                                                   \
    case RT_DTYPE_##kind: run_all(x, n0, n1, RT_DTYPE_##kind, WAY_PACKED); break;
        FOR_PACKED(PACKED)
#undef PACKED
    default:
        if (rt_dtype_is_quant(d))
            run_all(x, n0, n1, RT_DTYPE_F32, WAY_STRIP);
        else
            RT_FOR_FLOAT(d, D, run_all(x, n0, n1, D, WAY_FLOAT));
    }
}

void RT_CPU(matmul_dots)(const rt_cpu_ctx *c, const rt_bound_op *o, const rt_gemm_cut *cut)
{
    dots x = { .o = o, .g = &o->args.matmul, .cut = cut };
    const rt_operand *a = &o->slot[RT_MM_A];
    const uint8_t *row = rt_host_ptr(a);
    float *scratch = rt_host_ptr(&o->work);
    for (uint32_t m = 0; m < x.g->M; m++, row += row_bytes(a->dtype, a->stride)) {
        x.a[m] = (const float *)row;
        if (!cut->convert_a) continue;
        widen_run(scratch + m * a_pitch(x.g), row, a->dtype, 0, x.g->K);
        x.a[m] = scratch + m * a_pitch(x.g);
    }
    rt_pool_run(c->pool, cut->nn, run_chunk, &x);
}
