/* tensor_file.h - a safetensors file of tensors under any names, written whole or not at all: adapters, states.
 *
 * Models go through model_write.h, which knows their names and shapes; this is for what is not a model. Reading is
 * rt_model_file_open, which takes any safetensors file. */
#ifndef RT_FORMAT_TENSOR_FILE_H
#define RT_FORMAT_TENSOR_FILE_H

#include "base/err.h"
#include "base/hash.h"
#include "num/dtype.h"

#include <stdint.h>

typedef struct rt_named_tensor {
    const char *name;
    rt_dtype dtype; /* a plain type */
    uint32_t rank;  /* 1 or 2 */
    uint64_t shape[2];
} rt_named_tensor;

/* Fills dst with elements [first, first + n) of tensor i. */
typedef int (*rt_values_fn)(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *dst, rt_err *e);

/* Tensors stand in the order given. hash: of the whole file, or null. */
int rt_tensor_file_write(const char *path, const rt_named_tensor *t, uint32_t count, rt_values_fn fn, void *ctx,
                         rt_hash128 *hash, rt_err *e);
/* How many bytes that would write. */
int rt_tensor_file_bytes(const rt_named_tensor *t, uint32_t count, uint64_t *bytes, rt_err *e);

#endif
