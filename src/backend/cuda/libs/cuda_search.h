/* cuda_search.h - where CUDA, conda and pip put NVIDIA's libraries.
 *
 * Owns: the places, in their order, and which refusal is told when nothing can be used. What makes a library usable is
 * its own adapter's to say. */
#ifndef RT_BACKEND_CUDA_LIBS_CUDA_SEARCH_H
#define RT_BACKEND_CUDA_LIBS_CUDA_SEARCH_H

#include "base/err.h"

#include <stdint.h>

typedef struct rt_cuda_search {
    const char *const *names; /* (count) of the library, the newest first */
    uint32_t count;
    /* Opens one file or name. RT_INVALID: it is there, and cannot be used; e says why. */
    int (*open)(void *ctx, const char *name, rt_err *e);
    void *ctx;
    rt_err refusal; /* of the first that was there; which is worth more than "no such file" */
} rt_cuda_search;

/* The loader's own path, CUDA's, conda's and Python's folders as env says. RT_NOT_FOUND: nothing was opened. */
int rt_cuda_search_run(rt_cuda_search *s, const char *const *env);

#endif
