/* cuda_args.h - the pieces that kernel parameters are made of, in plain C for both sides.
 *
 * Owns: how an operand looks to a kernel, and how elementwise work is cut. Every kernel takes one struct by value;
 * those structs are in the header of each family and begin from these pieces. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ARGS_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_ARGS_H

#include "num/dtype.h"
#include "op/args.h"

/* A device address. A pointer to the kernel, so that the compiler knows it for global memory. */
#ifdef __CUDACC__
typedef char *rt_cuda_ptr;
#else
typedef uint64_t rt_cuda_ptr;
#endif

/* Rows of an operand. */
typedef struct rt_cuda_mat {
    rt_cuda_ptr at;  /* element (0,0); 0: absent */
    uint64_t stride; /* elements */
} rt_cuda_mat;

/* Elementwise work: a row is cut into packs of a fixed number of elements, a thread takes packs. Operands without gaps
 * are one long row. */
typedef struct rt_cuda_tile {
    uint64_t rows, cols, packs; /* packs of a row; the last may be shorter */
    uint32_t whole;             /* 1: every full pack of every operand is aligned and moves in one access */
    uint32_t unused;
} rt_cuda_tile;

enum { RT_CUDA_BLOCK = 256 }; /* threads of a block where nothing else is said */

#endif
