/* values.h - the operands of one case: buffers, windows in them, and their bytes at entry, for the tested run and for
 * the double run. Both runs see the same buffers in the same order, so a view of one is a view of the other. */
#ifndef RT_VERIFY_VALUES_H
#define RT_VERIFY_VALUES_H

#include "verify/op_case.h"

typedef struct rt_value_buf {
    const char *name;
    rt_class cls;
    uint32_t rows, cols;
    rt_dtype dtype, wide; /* as tested; in the double run: f64 for plain floats, else the same */
    uint64_t bytes, wide_bytes;
    uint8_t *init, *init_wide; /* at entry; what nothing fills is all ones, a NaN in every float type */
    bool written;              /* some output lies in it */
    uint32_t times;            /* of a sum that a large case takes over its pattern so many times; 0: once (large.c) */
} rt_value_buf;

typedef struct rt_values {
    const rt_op_case *c;
    rt_layout layout;
    rt_value_buf buf[RT_MAX_SLOTS];
    uint32_t nbufs;
    rt_view view[RT_MAX_SLOTS]; /* of each slot; RT_NONE: absent */
    double *dense[RT_MAX_SLOTS];
    rt_arena *arena; /* everything above lives here */
    uint64_t seed;   /* from the case's name */
    bool cuts_off;   /* as in rt_verify_env */
    bool failed;     /* sticky: scratch or dense values could not be had */
} rt_values;

/* Lays out and fills. */
int rt_values_make(rt_values *v, const rt_op_case *c, rt_verify_env *env, rt_err *e);
/* bytes, zeroed, until the case is over; null when out of memory, which sticks: callers may simply return. */
void *rt_values_scratch(rt_values *v, size_t bytes);
/* The values of a float or quantised slot at entry, dense (rows,cols); null when absent or out of memory. */
const double *rt_values_dense(rt_values *v, uint32_t slot);
/* One row of an i32 or u32 slot at entry; null when absent. */
const int32_t *rt_values_row(const rt_values *v, uint32_t slot, uint32_t row);
/* Replaces the values of a slot by dense ones: doubles, rounded to its dtype, for a float slot, else elements of its
 * dtype. For `prepare`. */
void rt_values_set(rt_values *v, uint32_t slot, const void *dense);
/* The double run reads this buffer's values as rounded to d: the tested device dequantises or casts it to d before its
 * op, so that is what its op is given. */
int rt_values_recast(rt_values *v, uint32_t buf, rt_dtype d, rt_err *e);
/* out (rows,cols) dense doubles = a window of a buffer's bytes, of dtype d (float or quantised). */
void rt_values_widen(double *out, const uint8_t *bytes, rt_view v, rt_dtype d);

#endif
