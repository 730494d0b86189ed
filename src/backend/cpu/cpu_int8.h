/* cpu_int8.h - what the two halves of matmul_int8 share: rows of a as the kernels read them, and the kernels.
 *
 * A row is laid out in spans of 256 elements. Whatever the type of b, in a block of it w = scale q - offset with whole
 * q, so that the sum over a block of 32 of w a is (scale s) sum(q c) - (offset s) sum(c), where a = s c. What stands in
 * the first brackets is multiplied here with what comes with the weights, and sums of c are made once for all rows of
 * b. cpu_gemm_int8.c lays rows out and writes the results; cpu_int8_rows.c multiplies. That one is compiled a second
 * time where an ISA has instructions for sums of four products of bytes: whole numbers are exact, so bits are equal. */
#ifndef RT_BACKEND_CPU_CPU_INT8_H
#define RT_BACKEND_CPU_CPU_INT8_H

#include "backend/cpu/cpu.h"

enum {
    RT_INT8_SPAN = 256,
    RT_INT8_BLOCKS = 8, /* of 32 in a span */
    RT_INT8_M = 8,      /* rows of a at the same time, at most */
    RT_INT8_GROUP = 16, /* rows of b that meet a strip of a one after another */
};

/* f: for Q6_K, of each 16 elements: s; then -32 s sum(c). Of the other types, of each 32: s, then sum(c) s times what
 * the type's offset is multiplied by; 16 more unused. c: in the order in which the ISA unpacks b. Behind the end of the
 * row all is 0. */
typedef struct rt_int8_span {
    float f[32];
    int8_t c[RT_INT8_SPAN];
} rt_int8_span;

typedef struct rt_int8_rows {
    const rt_int8_span *a; /* (M,spans) */
    uint32_t spans;
    uint32_t last; /* blocks of 32 in the last span */
    const uint8_t *b;
    uint64_t step; /* bytes from one row of b to the next */
    rt_dtype type; /* of b */
} rt_int8_rows;

/* sums (n1 - n0, M) = rows n0 .. n1 of b (at most RT_INT8_GROUP) times rows m0 .. m0 + M of a: 8, 4, 2 or 1 of them.
 * What becomes of an element does not depend on which others are asked for. */
typedef void (*rt_int8_fn)(const rt_int8_rows *x, uint32_t m0, uint32_t M, uint32_t n0, uint32_t n1, float *sums);
#ifdef RT_ISA
void RT_CPU(int8_rows)(const rt_int8_rows *x, uint32_t m0, uint32_t M, uint32_t n0, uint32_t n1, float *sums);
void RT_CPU(int8_rows_dot)(const rt_int8_rows *x, uint32_t m0, uint32_t M, uint32_t n0, uint32_t n1, float *sums);
#endif

#endif
