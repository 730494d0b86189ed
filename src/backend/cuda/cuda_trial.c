/* cuda_trial.c - a GEMM tried on scratch before any program has it: does a candidate of the library round a sum
 * once, and how long does it take?
 *
 * Rounding: where the output has 16 bits and something is added to the result, some of the library's kernels round the
 * product first (seen in 13.1). Numbers that tell are laid out, and the result is read back. Time: on numbers by
 * chance, since GEMMs of zeros are faster than others; a few launches together, the best of three times. */
#include "backend/cuda/cuda_internal.h"

#include <string.h>

/* ---- sizes ---- */

static uint64_t extent(uint64_t rows, uint64_t cols, uint64_t stride, uint32_t dtype)
{
    return ((rows - 1) * stride + cols) * rt_dtype_bytes((rt_dtype)dtype, 1);
}

/* Bytes that the operands reach over. */
static uint64_t reach_a(const rt_cuda_gemm_key *k)
{
    return extent(k->ta ? k->K : k->M, k->ta ? k->M : k->K, k->stride_a, k->type);
}
static uint64_t reach_b(const rt_cuda_gemm_key *k)
{
    return extent(k->tb ? k->N : k->K, k->tb ? k->K : k->N, k->stride_b, k->type);
}
static uint64_t reach_out(const rt_cuda_gemm_key *k) { return extent(k->M, k->N, k->stride_out, k->out_type); }

/* Of each of the two columns of scales that codes have. */
static uint64_t scale_bytes(const rt_cuda_gemm_key *k)
{
    return k->type == RT_DTYPE_E4M3 ? 4 * (uint64_t)(k->M > k->N ? k->M : k->N) : 0;
}

uint64_t rt_cuda_gemm_reach(const rt_cuda_gemm_key *k)
{
    uint64_t most = reach_out(k), a = reach_a(k), b = reach_b(k);
    if (a > most) most = a;
    if (b > most) most = b;
    if (scale_bytes(k) > most) most = scale_bytes(k);
    return rt_align_up(most, 256);
}

/* ---- scratch ---- */

int rt_cuda_trial_open(rt_cuda_trial *t, rt_cuda_dev *d, const rt_cuda_gemm_key *k, uint64_t work_bytes, rt_err *e)
{
    int rc;
    uint64_t b = rt_align_up(reach_a(k), 256), out = b + rt_align_up(reach_b(k), 256);
    uint64_t bias = out + rt_align_up(reach_out(k), 256), scale_a = bias + rt_align_up(4 * (uint64_t)k->N, 256);
    uint64_t scale_b = scale_a + rt_align_up(scale_bytes(k), 256), work = scale_b + rt_align_up(scale_bytes(k), 256);
    *t = (rt_cuda_trial){ .d = d, .key = k, .out = out };
    RT_TRY(rt_cuda_mem_new(&d->base, work + work_bytes, RT_MEM_DEVICE, &t->mem, e));
    rt_cu_ptr at = t->mem->addr;
    t->io = (rt_cuda_gemm_io){ at, at + b, at + out, at + bias, at + work, 1.0f, at + scale_a, at + scale_b };
    for (int i = 0; i < 2; i++) RT_TRY(rt_cuda_status(&d->cu, d->cu.event_new(&t->event[i], 0), e, "making an event"));
out:
    return rc;
}

void rt_cuda_trial_close(rt_cuda_trial *t)
{
    if (!t->d) return;
    for (int i = 0; i < 2; i++)
        if (t->event[i]) t->d->cu.event_free(t->event[i]);
    rt_cuda_mem_free(&t->d->base, t->mem);
    *t = (rt_cuda_trial){ 0 };
}

/* ---- rounding once ---- */

/* a b, half a unit above a number of 16 bits whose last bit is 0, plus that half unit, is the next number. Rounded
 * before the addition, the half unit is lost twice, both times to the even number. Of codes a and b are the scales, as
 * f32 whose lower halves are 0. */
typedef struct telling {
    uint16_t a, b, half, sum;
    uint16_t scale_a, scale_b; /* upper halves */
} telling;
/* (1 + 2^-4)^2, 2^-8, 1 + 2^-3 + 2^-7 */
static const telling telling_bf16 = { 0x3F88, 0x3F88, 0x3B80, 0x3F91, 0x3F88, 0x3F88 };
/* (1 + 2^-5)(1 + 2^-6), 2^-11 */
static const telling telling_f16 = { 0x3C20, 0x3C10, 0x1000, 0x3C31, 0x3F84, 0x3F82 };

/* 1 in the first column of rows of codes, which come in pairs here, and what their scales are. */
static int lay_out_codes(rt_cuda_trial *t, const telling *n)
{
    enum { ONE = 0x38 };
    const rt_cuda_driver *cu = &t->d->cu;
    const rt_cuda_gemm_key *k = t->key;
    const rt_cuda_gemm_io *io = &t->io;
    rt_cu_stream s = t->d->stream;
    int result = cu->fill_halves(io->a, k->stride_a, ONE, 1, k->M, s);
    if (!result) result = cu->fill_halves(io->b, k->stride_b, ONE, 1, k->N, s);
    if (!result) result = cu->fill_bytes(io->scale_a, 0, scale_bytes(k), s);
    if (!result) result = cu->fill_bytes(io->scale_b, 0, scale_bytes(k), s);
    if (!result) result = cu->fill_halves(io->scale_a + 2, 4, n->scale_a, 1, k->M, s);
    if (!result) result = cu->fill_halves(io->scale_b + 2, 4, n->scale_b, 1, k->N, s);
    return result;
}

static int lay_out_halves(rt_cuda_trial *t, const telling *n)
{
    const rt_cuda_gemm_key *k = t->key;
    rt_cu_stream s = t->d->stream;
    int result = t->d->cu.fill_halves(t->io.a, 2 * k->stride_a, n->a, k->ta ? k->M : 1, k->ta ? 1 : k->M, s);
    if (result) return result;
    return t->d->cu.fill_halves(t->io.b, 2 * k->stride_b, n->b, k->tb ? 1 : k->N, k->tb ? k->N : 1, s);
}

/* Column 0 of op(a) and row 0 of op(b) are set, so that every element of the GEMM is one term; and what is added. */
static int lay_out(rt_cuda_trial *t, const telling *n, rt_err *e)
{
    const rt_cuda_driver *cu = &t->d->cu;
    const rt_cuda_gemm_key *k = t->key;
    const rt_cuda_gemm_io *io = &t->io;
    rt_cu_stream s = t->d->stream;
    int result = cu->fill_bytes(io->a, 0, reach_a(k), s);
    if (!result) result = cu->fill_bytes(io->b, 0, reach_b(k), s);
    if (!result) result = k->type == RT_DTYPE_E4M3 ? lay_out_codes(t, n) : lay_out_halves(t, n);
    if (!result) result = cu->fill_halves(io->out, 2 * k->stride_out, k->acc ? n->half : 0, k->N, k->M, s);
    if (!result) result = cu->fill_halves(io->bias, 2 * (size_t)k->N, n->half, k->N, 1, s);
    return rt_cuda_status(cu, result, e, "filling scratch");
}

/* The first and the last row of the output. */
static int read_rows(rt_cuda_trial *t, uint16_t want, bool *right, rt_err *e)
{
    int rc = RT_OK;
    const rt_cuda_gemm_key *k = t->key;
    uint64_t bytes = 2 * (uint64_t)k->N;
    uint16_t *row = rt_alloc(bytes, 16);
    if (!row) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to try a GEMM"));
    for (int last = 0; last < 2; last++) {
        rt_copy c = { t->mem, t->out + (last ? 2 * (k->M - 1) * k->stride_out : 0), bytes, row, false };
        RT_TRY(rt_cuda_mem_copy(&t->d->base, &c, NULL, e));
        for (uint32_t i = 0; i < k->N; i++) *right = *right && row[i] == want;
    }
out:
    rt_free(row);
    return rc;
}

int rt_cuda_trial_rounds_once(rt_cuda_trial *t, const rt_cuda_gemm *g, bool *right, rt_err *e)
{
    int rc;
    const telling *n = t->key->out_type == RT_DTYPE_BF16 ? &telling_bf16 : &telling_f16;
    *right = true;
    RT_TRY(lay_out(t, n, e));
    RT_TRY(rt_cuda_gemm_run(t->d, g, &t->io, e));
    RT_TRY(read_rows(t, n->sum, right, e));
out:
    return rc;
}

/* ---- time ---- */

/* a and b: numbers of 16 bits between 1/2 and 2 of either sign, also as the upper halves of f32; or codes of such
 * numbers. The rest: 0. */
int rt_cuda_trial_fill(rt_cuda_trial *t, rt_err *e)
{
    enum { PIECE = 1 << 20 };
    int rc = RT_OK;
    uint32_t seed = 1;
    bool codes = t->key->type == RT_DTYPE_E4M3;
    uint16_t *piece = rt_alloc(PIECE, 16);
    if (!piece) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to time a GEMM"));
    for (uint32_t i = 0; i < PIECE / 2; i++) {
        seed = seed * 1664525 + 1013904223;
        piece[i] = (uint16_t)(codes ? (seed >> 16 & 0x8f8f) | 0x3030 : (seed >> 16 & 0x80ff) | 0x3f00);
    }
    for (uint64_t at = 0; at < t->out; at += PIECE) {
        rt_copy c = { t->mem, at, t->out - at < PIECE ? t->out - at : PIECE, piece, true };
        RT_TRY(rt_cuda_mem_copy(&t->d->base, &c, NULL, e));
    }
    int result = t->d->cu.fill_bytes(t->io.out, 0, t->mem->bytes - t->out, t->d->stream);
    RT_TRY(rt_cuda_status(&t->d->cu, result, e, "filling scratch"));
out:
    rt_free(piece);
    return rc;
}

/* Seconds of n launches together. */
static int measure(rt_cuda_trial *t, const rt_cuda_gemm *g, uint32_t n, double *seconds, rt_err *e)
{
    int rc;
    float ms = 0;
    const rt_cuda_driver *cu = &t->d->cu;
    RT_TRY(rt_cuda_status(cu, cu->event_record(t->event[0], t->d->stream), e, "recording an event"));
    for (uint32_t i = 0; i < n; i++) RT_TRY(rt_cuda_gemm_run(t->d, g, &t->io, e));
    RT_TRY(rt_cuda_status(cu, cu->event_record(t->event[1], t->d->stream), e, "recording an event"));
    RT_TRY(rt_cuda_status(cu, cu->event_wait(t->event[1]), e, "timing a GEMM"));
    RT_TRY(rt_cuda_status(cu, cu->event_elapsed(&ms, t->event[0], t->event[1]), e, "timing a GEMM"));
    *seconds = ms / 1000.0;
out:
    return rc;
}

int rt_cuda_trial_time(rt_cuda_trial *t, const rt_cuda_gemm *g, double worth, double *seconds, rt_err *e)
{
    enum { TURNS = 3, MOST = 20 };
    const double turn = 1e-3; /* seconds of launches in a turn, where one is shorter */
    int rc;
    double once, all;
    RT_TRY(measure(t, g, 1, &once, e)); /* loads its kernel */
    RT_TRY(measure(t, g, 1, &once, e));
    *seconds = once;
    if (once > 1.5 * worth) return RT_OK;
    uint32_t n = once > turn ? 1 : once * MOST < turn ? MOST : (uint32_t)(turn / once);
    for (int i = 0; i < TURNS; i++) {
        RT_TRY(measure(t, g, n, &all, e));
        if (i == 0 || all / n < *seconds) *seconds = all / n;
    }
out:
    return rc;
}
