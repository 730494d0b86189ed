/* cuda_image.h - the kernels inside this binary: for each module, machine code for some GPUs and PTX for others.
 *
 * Owns: the form of the embedded block (tools/pack_kernels.py writes it) and which of its images suits a GPU. Leaves
 * to cuda_module.c: loading. */
#ifndef RT_BACKEND_CUDA_IMAGE_H
#define RT_BACKEND_CUDA_IMAGE_H

#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The block: this header, `count` records, then the images, each aligned to 64 and ending in a zero. Little-endian. */
typedef struct rt_cuda_block {
    char magic[8];  /* "RTCUDA1" */
    uint32_t count; /* records */
    int32_t built;  /* CUDA version of the compiler, 13000 */
} rt_cuda_block;

typedef struct rt_cuda_image {
    char module[48];
    uint32_t sm, ptx;       /* ptx 1: text that the driver compiles; 0: machine code */
    uint64_t offset, bytes; /* from the start of the block */
} rt_cuda_image;

typedef struct rt_cuda_images {
    const uint8_t *block;
    const rt_cuda_image *list;
    uint32_t count;
    int built;
} rt_cuda_images;

/* Those of this binary. None (count 0) when it was built without CUDA's compiler. */
rt_cuda_images rt_cuda_images_own(void);
/* Reads a block; false when it is not one. */
bool rt_cuda_images_parse(rt_cuda_images *out, const void *block, size_t bytes);

/* Which architecture of images a GPU takes. */
typedef struct rt_cuda_arch {
    uint32_t sm, ptx;
} rt_cuda_arch;
/* Machine code of the GPU's own generation that is not newer than it; else the newest PTX that it can run. A GPU of a
 * system on a chip (Jetson) takes machine code of its own architecture alone. kernels: null or "auto": so; "ptx": PTX;
 * "ptx75": PTX of that architecture. RT_INVALID: no such word; RT_NO_BACKEND: this binary has nothing for the GPU. */
int rt_cuda_images_choose(const rt_cuda_images *all, uint32_t gpu, const char *kernels, rt_cuda_arch *out, rt_err *e);
/* What the GPU takes when `last` does not load: the newest PTX that was not tried; false when none is left. */
bool rt_cuda_images_after(const rt_cuda_images *all, uint32_t gpu, rt_cuda_arch last, rt_cuda_arch *out);
/* Has code of this architecture ever run, and where? "run on an H200"; null: it was only compiled. */
const char *rt_cuda_images_proof(rt_cuda_arch arch);
/* The smallest image of an architecture; null when there is none. */
const rt_cuda_image *rt_cuda_images_smallest(const rt_cuda_images *all, rt_cuda_arch arch);
/* Null when the binary has none. */
const void *rt_cuda_images_find(const rt_cuda_images *all, const char *module, rt_cuda_arch arch);
/* "sm_80 sm_90 and PTX 75" into text. */
void rt_cuda_images_text(const rt_cuda_images *all, char *text, size_t size);

#endif
