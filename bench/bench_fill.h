/* bench_fill.h - what benches over presets share: a device, and buffers of a space full of random values, with no file.
 */
#ifndef BENCH_BENCH_FILL_H
#define BENCH_BENCH_FILL_H

#include "exec/exec.h"
#include "format/config/config.h"

enum { BENCH_PIECE = 1 << 20 }; /* elements: a random piece is repeated as often as a buffer holds it */

/* cublaslt: null for where it is found, "none" for GEMMs of our own. Prints which it is. */
rt_dev *bench_open(const char *name, const char *cublaslt);
/* The dtypes of a preset's parameters in a mix such as q4_k_m. The caller's. */
rt_dtype *bench_mixed_dtypes(const rt_model_config *c, const char *mix);
void bench_put(rt_exec *x, rt_view v, const void *data, uint64_t bytes);
/* Everything that holds values when a program starts; states: those of the optimizer too, where no program makes them.
 */
void bench_fill_space(rt_exec *x, const rt_space *s, bool states);
/* A column of i32: ids below `below`, or with 0 the positions of rows of T. */
void bench_fill_column(rt_exec *x, rt_view v, uint32_t below, uint32_t T);
void bench_fill_step(rt_exec *x, rt_view step, rt_view fault, uint32_t tokens);
void bench_fill_bits(rt_exec *x, rt_view v);

#endif
