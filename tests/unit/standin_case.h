/* standin_case.h - finding the stand-in for the driver, and kernels for it; for programs that run the CUDA backend. */
#ifndef RT_TESTS_UNIT_STANDIN_CASE_H
#define RT_TESTS_UNIT_STANDIN_CASE_H

#include "../cuda/standin.h"

#include <dlfcn.h>
#include <string.h>

/* Kernels of the program alone, so that tests are the same with and without nvcc: the block of cuda_image.h with every
 * module as machine code for sm_90, and the plain products as PTX for sm_75. Nobody runs them. */
#define TEXT_OF(x) #x
#define NUMBER(x) TEXT_OF(x)
/* clang-format off */
__asm__(".section .rodata\n"
        ".balign 64\n"
        ".globl rt_embed_cuda_kernels, rt_embed_cuda_kernels_end\n"
        "rt_embed_cuda_kernels:\n"
        ".asciz \"RTCUDA1\"\n"
        ".4byte 1 + " NUMBER(RT_CUDA_MODULE_COUNT) ", 13000\n"
        ".irp module," RT_CUDA_MODULES "\n"
        "7: .ascii \"\\module\"\n .org 7b + 48\n .4byte 90, 0\n .8byte 8f - rt_embed_cuda_kernels, 4\n"
        ".endr\n"
        "7: .ascii \"cuda_matmul\"\n .org 7b + 48\n .4byte 75, 1\n .8byte 9f - rt_embed_cuda_kernels, 4\n"
        "8: .asciz \"sass\"\n .balign 8\n"
        "9: .asciz \"ptx.\"\n .balign 8\n"
        "rt_embed_cuda_kernels_end:\n"
        ".zero 1\n"
        ".text\n");
/* clang-format on */

static standin *s;

static inline int find_standin(void **state)
{
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = lib ? dlsym(lib, "standin_get") : NULL;
    standin_get_fn get;
    (void)state;
    if (!symbol) return -1; /* a real driver, or none: these tests are about the stand-in */
    memcpy(&get, &symbol, sizeof get);
    s = get();
    return 0;
}

#endif
