/* standin_scaled.h - the one GEMM that the stand-in does compute: that of e4m3 codes with a scale for each row, because
 * which address is whose scale is known to nothing else here. As the library has it: column-major, A transposed, sizes
 * that are multiples of 16, and nothing without scale modes. */
#ifndef RT_TESTS_CUDA_STANDIN_SCALED_H
#define RT_TESTS_CUDA_STANDIN_SCALED_H

#include "backend/cuda/libs/cuda_lt.h"
#include "num/dtype.h"

#include <math.h>

enum { STANDIN_ATTRIBUTES = 40, STANDIN_NOT_SUPPORTED = 15 };

typedef struct standin_desc {
    uint64_t set[STANDIN_ATTRIBUTES]; /* value of each attribute; 0: never set */
} standin_desc;

typedef struct standin_layout {
    int type;
    uint64_t rows, cols;
    int64_t stride;
} standin_layout;

static inline double standin_code(uint8_t c)
{
    int e = c >> 3 & 15, m = c & 7;
    double v = e ? ldexp(8 + m, e - 10) : ldexp(m, -9);
    return (c & 0x7f) == 0x7f ? (double)NAN : c & 0x80 ? -v : v;
}

/* Does the library have it? */
static inline bool standin_scaled_takes(const standin_desc *d, const standin_layout *a, const standin_layout *b,
                                        const standin_layout *out)
{
    const uint64_t *set = d->set;
    bool modes = set[RT_LT_DESC_SCALE_MODE_A] == RT_LT_SCALE_ROWS && set[RT_LT_DESC_SCALE_MODE_B] == RT_LT_SCALE_ROWS;
    bool whole = (a->rows | a->cols | b->rows | (uint64_t)a->stride | (uint64_t)b->stride) % 16 == 0;
    return modes && whole && b->type == RT_LT_E4M3 && set[RT_LT_DESC_TRANS_A] == RT_LT_TRANSPOSE &&
           !set[RT_LT_DESC_TRANS_B] && set[RT_LT_DESC_SCALE_A] && set[RT_LT_DESC_SCALE_B] &&
           (out->type == RT_LT_BF16 || out->type == RT_LT_F32) &&
           (!set[RT_LT_DESC_EPILOGUE] || set[RT_LT_DESC_BIAS_TYPE] == RT_LT_BF16);
}

/* twice: the product is rounded before something is added to it. */
static inline void standin_scaled(const standin_desc *desc, const uint8_t *a, const standin_layout *la,
                                  const uint8_t *b, const standin_layout *lb, float beta, void *out,
                                  const standin_layout *lo, bool twice)
{
    const float *sa = (const float *)(uintptr_t)desc->set[RT_LT_DESC_SCALE_A];
    const float *sb = (const float *)(uintptr_t)desc->set[RT_LT_DESC_SCALE_B];
    const uint16_t *bias = (const uint16_t *)(uintptr_t)desc->set[RT_LT_DESC_BIAS];
    bool half = lo->type == RT_LT_BF16;
    for (uint64_t j = 0; j < lo->cols; j++)
        for (uint64_t i = 0; i < lo->rows; i++) {
            uint64_t at = j * (uint64_t)lo->stride + i;
            double sum = 0, old = half ? (double)rt_bf16_to_f32(((uint16_t *)out)[at]) : (double)((float *)out)[at];
            for (uint64_t k = 0; k < la->rows; k++)
                sum += standin_code(a[i * (uint64_t)la->stride + k]) * standin_code(b[j * (uint64_t)lb->stride + k]);
            sum *= (double)sa[i] * (double)sb[j];
            if (twice) sum = (double)rt_bf16_to_f32(rt_bf16_from_f32((float)sum));
            if (desc->set[RT_LT_DESC_EPILOGUE]) sum += (double)rt_bf16_to_f32(bias[i]);
            if (beta != 0) sum += (double)beta * old;
            if (half)
                ((uint16_t *)out)[at] = rt_bf16_from_f32((float)sum);
            else
                ((float *)out)[at] = (float)sum;
        }
}

#endif
