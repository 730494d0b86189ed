/* cuda_tuned.h - algorithms that were chosen by timing, kept from one run to the next.
 *
 * Owns: a list and its file, a line for each choice: GPU, library, gemm and algorithm between tabs, and a fifth field,
 * "not timed", where the library's first was taken untimed; '#' begins a comment. A choice holds for the very GPU,
 * library and GEMM that it was made for, so a file may serve several. Lines that are no choice are counted and left
 * out. What is in the list stays when a file is read. Leaves to cuda_gemm.c: what a choice means. */
#ifndef RT_BACKEND_CUDA_TUNED_H
#define RT_BACKEND_CUDA_TUNED_H

#include "base/err.h"
#include "base/mem.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct rt_cuda_choice {
    const char *gpu, *library, *gemm, *algorithm;
    bool timed; /* it was the fastest; else the library's first, for want of time */
} rt_cuda_choice;

typedef struct rt_cuda_tuned {
    rt_arena arena; /* all texts */
    rt_cuda_choice *list;
    uint32_t count, cap;
    uint32_t unreadable; /* lines that were left out */
} rt_cuda_tuned;

/* Adds what the file has and the list has not. A file that is not there has nothing. */
int rt_cuda_tuned_read(rt_cuda_tuned *t, const char *path, rt_err *e);
/* The list in the place of the file. */
int rt_cuda_tuned_write(const rt_cuda_tuned *t, const char *path, rt_err *e);
/* Null when there is none. */
rt_cuda_choice *rt_cuda_tuned_find(const rt_cuda_tuned *t, const char *gpu, const char *library, const char *gemm);
/* Adds a choice, or changes the one that is there. */
int rt_cuda_tuned_put(rt_cuda_tuned *t, const rt_cuda_choice *c, rt_err *e);
void rt_cuda_tuned_free(rt_cuda_tuned *t); /* leaves an empty list */

#endif
