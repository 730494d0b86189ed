/* quant_fit_avx2.c - the search for scales with eight lanes in one register: on x86-64 compiled with -mavx2 (room.mk),
 * elsewhere nothing. The search itself is quant_fit.h, and so are its results. */
#include "num/quant_block.h"

#ifdef __x86_64__
#include "num/quant_fit.h"

const rt_quant_fit_fn rt_quant_fits_avx2[RT_DTYPE_COUNT] = RT_FIT_TABLE;
#endif
