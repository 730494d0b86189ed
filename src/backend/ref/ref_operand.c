/* ref_operand.c - gathers operands of any dtype and row stride into dense arrays, and scatters them back.
 *
 * Owns: all conversion of this backend. Leaves what is gathered and when to ref_backend.c. Nothing is allocated:
 * blocks go through a buffer on the stack that holds one block of the largest kind. */
#include "backend/ref/ref_operand.h"

#include "base/mem.h"
#include "num/quant.h"

enum { RUN = 256 }; /* a multiple of every block */

static uint64_t real_bytes(bool wide) { return wide ? sizeof(double) : sizeof(float); }

static bool is_real(rt_dtype d, bool raw)
{
    return !raw && (rt_dtype_is_float(d) || rt_dtype_is_quant(d) || d == RT_DTYPE_E4M3);
}

/* Bytes of one dense row of cols elements. */
static uint64_t row_bytes(rt_dtype d, uint64_t cols, bool raw, bool wide)
{
    return is_real(d, raw) ? cols * real_bytes(wide) : rt_dtype_bytes(d, cols);
}

bool rt_ref_dense_bytes(rt_dtype d, uint64_t rows, uint64_t cols, bool raw, bool wide, uint64_t *out)
{
    return rt_mul_u64(rows, row_bytes(d, cols, raw, wide), out);
}

static void quant_to_real(void *y, const uint8_t *x, rt_dtype d, uint64_t n, bool wide)
{
    float run[RUN];
    for (uint64_t done = 0, take; done < n; done += take) {
        take = n - done < RUN ? n - done : RUN;
        rt_quant_to_f32(run, x + rt_dtype_bytes(d, done), d, take);
        if (wide)
            rt_float_to_f64((double *)y + done, run, RT_DTYPE_F32, take);
        else
            rt_float_to_f32((float *)y + done, run, RT_DTYPE_F32, take);
    }
}

static void quant_from_real(uint8_t *y, const void *x, rt_dtype d, uint64_t n, bool wide)
{
    float run[RUN];
    for (uint64_t done = 0, take; done < n; done += take) {
        take = n - done < RUN ? n - done : RUN;
        if (wide)
            rt_float_from_f64(run, (const double *)x + done, RT_DTYPE_F32, take);
        else
            rt_float_from_f32(run, (const float *)x + done, RT_DTYPE_F32, take);
        rt_quant_from_f32(y + rt_dtype_bytes(d, done), run, d, take);
    }
}

static void gather_row(void *dense, const uint8_t *row, rt_dtype d, uint64_t cols, bool raw, bool wide)
{
    if (!is_real(d, raw))
        memcpy(dense, row, rt_dtype_bytes(d, cols));
    else if (rt_dtype_is_quant(d))
        quant_to_real(dense, row, d, cols, wide);
    else if (wide)
        rt_float_to_f64(dense, row, d, cols);
    else
        rt_float_to_f32(dense, row, d, cols);
}

static void scatter_row(uint8_t *row, const void *dense, rt_dtype d, uint64_t cols, bool raw, bool wide)
{
    if (!is_real(d, raw))
        memcpy(row, dense, rt_dtype_bytes(d, cols));
    else if (rt_dtype_is_quant(d))
        quant_from_real(row, dense, d, cols, wide);
    else if (wide)
        rt_float_from_f64(row, dense, d, cols);
    else
        rt_float_from_f32(row, dense, d, cols);
}

void rt_ref_gather(void *dense, const rt_operand *o, bool raw, bool wide)
{
    const uint8_t *from = rt_host_ptr(o);
    uint64_t step = row_bytes(o->dtype, o->cols, raw, wide), stride = rt_dtype_bytes(o->dtype, o->stride);
    for (uint64_t i = 0; i < o->rows; i++)
        gather_row((uint8_t *)dense + i * step, from + i * stride, o->dtype, o->cols, raw, wide);
}

void rt_ref_scatter(const rt_operand *o, const void *dense, bool raw, bool wide)
{
    uint8_t *to = rt_host_ptr(o);
    uint64_t step = row_bytes(o->dtype, o->cols, raw, wide), stride = rt_dtype_bytes(o->dtype, o->stride);
    for (uint64_t i = 0; i < o->rows; i++)
        scatter_row(to + i * stride, (const uint8_t *)dense + i * step, o->dtype, o->cols, raw, wide);
}

void rt_ref_round(void *dense, rt_dtype d, uint64_t n, bool wide)
{
    double run[RUN]; /* of elements as large as any float's */
    for (uint64_t done = 0, take; done < n; done += take) {
        void *at = (uint8_t *)dense + done * real_bytes(wide);
        take = n - done < RUN ? n - done : RUN;
        scatter_row((uint8_t *)run, at, d, take, false, wide);
        gather_row(at, (const uint8_t *)run, d, take, false, wide);
    }
}
