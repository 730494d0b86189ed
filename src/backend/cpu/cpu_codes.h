/* cpu_codes.h - a row as e4m3 codes with its scale: quant_rows, and ops that make codes of their own rows.
 *
 * Such an op leaves each row as it would store it in a row of scratch that a worker has, and codes that. */
#ifndef RT_BACKEND_CPU_CPU_CODES_H
#define RT_BACKEND_CPU_CPU_CODES_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_dequant.h"
#include "base/mem.h"
#include "num/e4m3.h"

/* codes (n), scale (1) = of row (n), of dtype d. Walked for its scale, and again for its codes. */
static inline __attribute__((unused)) void code_row(uint8_t *codes, float *scale, const void *row, rt_dtype d,
                                                    uint64_t n)
{
    enum { STRIP_OF_CODES = 1024 };
    float strip[STRIP_OF_CODES];
    uint32_t most = 0;
    for (uint64_t c0 = 0, take; c0 < n; c0 += take) {
        take = n - c0 < STRIP_OF_CODES ? n - c0 : STRIP_OF_CODES;
        widen_run(strip, row, d, c0, take);
        most = rt_e4m3_most(strip, take, most);
    }
    *scale = rt_e4m3_scale(most);
    for (uint64_t c0 = 0, take; c0 < n; c0 += take) {
        take = n - c0 < STRIP_OF_CODES ? n - c0 : STRIP_OF_CODES;
        widen_run(strip, row, d, c0, take);
        rt_e4m3_codes(codes + c0, strip, take, rt_e4m3_inverse(*scale));
    }
}

/* Row `row` of the op's y and scale = the codes of what lies in `from`, of dtype d. */
static inline __attribute__((unused)) void code_own_row(const rt_bound_op *o, uint64_t row, const void *from,
                                                        rt_dtype d)
{
    const rt_operand *y = &o->slot[RT_CODED_Y], *scale = &o->slot[RT_CODED_SCALE];
    code_row((uint8_t *)rt_host_ptr(y) + row * y->stride, (float *)rt_host_ptr(scale) + row * scale->stride, from, d,
             y->cols);
}

/* Bytes of a worker's row of n values of d, in whole cache lines; 0 where y is no codes. */
RT_INLINE uint64_t own_row_bytes(bool codes, rt_dtype d, uint64_t n)
{
    return codes ? rt_align_up(rt_dtype_bytes(d, n), 64) : 0;
}

#endif
