/* quant_fit.c - the search for scales in plain C, and the choice of the one that this machine runs fastest.
 *
 * Owns: nothing but the choice; the search itself is quant_fit.h. */
#include "num/quant_fit.h"

const rt_quant_fit_fn rt_quant_fits_plain[RT_DTYPE_COUNT] = RT_FIT_TABLE;

rt_quant_fit_fn rt_quant_fit_for(rt_dtype d)
{
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2")) return rt_quant_fits_avx2[d];
#endif
    return rt_quant_fits_plain[d];
}

rt_quant_range rt_quant_fit_block(rt_quant_fit_fn fit, rt_quant_fit *y, const float *x, int n)
{
    float magnitude;
    rt_quant_range range = rt_quant_range_of(x, n, &magnitude);
    if (range == RT_QUANT_FINE && fit(y, x)) return RT_QUANT_FINE;
    memset(y, 0, sizeof *y);
    return range == RT_QUANT_FINE ? RT_QUANT_LOST : range;
}
