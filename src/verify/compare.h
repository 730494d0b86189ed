/* compare.h - one output against the double-precision one. Pure: numbers in, verdict out. */
#ifndef RT_VERIFY_COMPARE_H
#define RT_VERIFY_COMPARE_H

#include "num/dtype.h"

#include <stddef.h>

/* In place of a scale, where the op promises less than a number: nothing at all, or only that what is not finite does
 * not look finite (rows that the non-finite flag speaks of). */
#define RT_SCALE_ANY (-1.0)
#define RT_SCALE_FINITENESS (-2.0)

typedef struct rt_compare {
    const double *got, *want; /* (rows,cols); got has been stored as dtype */
    const double *scale;      /* (rows,cols) */
    uint32_t rows, cols;
    rt_dtype dtype;
    double limit, rms; /* in units of u scale, see tolerance.h */
} rt_compare;

typedef struct rt_verdict {
    double error;     /* the worst, as a part of what is allowed; above 1 is a failure, infinite for NaN and the like */
    double rms_error; /* the same for the sum of squares */
    uint32_t row, col; /* of the worst element */
    double got, want, allowed;
} rt_verdict;

/* true: within the tolerance. */
bool rt_compare_floats(const rt_compare *c, rt_verdict *v);
/* Half a unit in the last place of dtype at x, subnormals included; 0 for f64. */
double rt_half_ulp(double x, rt_dtype d);
/* "row 3, column 5: got 1.5, want 1, allowed 1e-6", or what the sum of squares says. */
void rt_verdict_text(const rt_verdict *v, char *buf, size_t size);

#endif
