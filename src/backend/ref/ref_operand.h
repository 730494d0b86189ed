/* ref_operand.h - operands as the op functions want them: dense, and of one real type. Internal to this backend. */
#ifndef RT_BACKEND_REF_REF_OPERAND_H
#define RT_BACKEND_REF_REF_OPERAND_H

#include "backend/host.h"

#include <stdbool.h>

/* Bytes of the dense copy of an operand. `raw` slots (rule ANY) keep their elements or blocks as they are; floats,
 * quantised values and e4m3 codes become double (wide) or float. false when the size passes 64 bits. */
bool rt_ref_dense_bytes(rt_dtype d, uint64_t rows, uint64_t cols, bool raw, bool wide, uint64_t *out);

/* dense = operand, exactly (double into float excepted, which rounds once). */
void rt_ref_gather(void *dense, const rt_operand *o, bool raw, bool wide);
/* dense (n) = what reading it back would give, had it been stored as d, a plain float. */
void rt_ref_round(void *dense, rt_dtype d, uint64_t n, bool wide);
/* operand = dense, rounded once. Into blocks by way of f32, which is what the quantisers take. */
void rt_ref_scatter(const rt_operand *o, const void *dense, bool raw, bool wide);

#endif
