/* ref.h - the executable specification: every op as a pure function over dense arrays of one real type.
 *
 * The files ref_<family>.c are compiled twice, for float and for double. A driver (ref_backend.c) gathers each operand,
 * whatever its dtype and stride, into a dense array of `real` (integers into int32/uint32 as they are), calls the op,
 * and scatters the outputs back, rounding once. So the functions here read like the formulas and nothing else.
 * ACCUM slots arrive loaded when their acc bit is set, and zeroed when not: the op always adds.
 * Aliasing never matters: inputs were copied. Nor do codes: an op that may leave its y as codes gives y, and the driver
 * has quant_rows make codes of it. */
#ifndef RT_BACKEND_REF_REF_H
#define RT_BACKEND_REF_REF_H

#include "backend/peers.h"
#include "op/args.h"
#include "op/op.h"

#include <stddef.h>
#include <stdint.h>

typedef struct rt_ref_call {
    const rt_args *args;
    void *s[RT_MAX_SLOTS]; /* dense (rows,cols): real where values are, integers as stored; null: absent */
    void *work;            /* as many bytes as the op's work function asked for */
    const rt_peers *peers; /* null: there is one rank */
} rt_ref_call;
typedef void (*rt_ref_fn)(const rt_ref_call *c);

/* One table per real type; no slot is empty. */
extern const rt_ref_fn rt_ref_table_float[RT_OP_COUNT], rt_ref_table_double[RT_OP_COUNT];
/* Extra scratch of an op in elements of the real type (0 for most). */
uint64_t rt_ref_work(rt_op_kind kind, const rt_args *args);

#if defined(RT_REAL_FLOAT)
typedef float real;
#define REF(name) rt_ref_##name##_float
#elif defined(RT_REAL_DOUBLE)
typedef double real;
#define REF(name) rt_ref_##name##_double
#endif

#ifdef REF
#define X(kind, name, args, text) void REF(name)(const rt_ref_call *c);
RT_OP_LIST(X)
#undef X
#endif

#endif
