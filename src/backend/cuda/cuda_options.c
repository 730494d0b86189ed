/* cuda_options.c - see cuda_options.h. */
#include "backend/cuda/cuda_options.h"

#include <string.h>

static const char *const memories[] = {
    [RT_CUDA_MEMORY_AUTO] = "auto", [RT_CUDA_MEMORY_DEVICE] = "device", [RT_CUDA_MEMORY_MANAGED] = "managed", NULL
};

static const char *const tunings[] = { [RT_CUDA_TUNE_OFF] = "off",
                                       [RT_CUDA_TUNE_KNOWN] = "known",
                                       [RT_CUDA_TUNE_ON] = "on",
                                       [RT_CUDA_TUNE_ALL] = "all",
                                       NULL };

#define AT(member) offsetof(rt_cuda_options, member)
const rt_dev_option_info rt_cuda_option_table[] = {
    { "--device-memory", RT_DEV_OPTION_CHOICE, AT(memory), memories, "M", "CUDA memory: auto, device or managed" },
    { "--kernels", RT_DEV_OPTION_TEXT, AT(kernels), NULL, "K",
      "CUDA kernels: auto; ptx, ptx75 or ptx80: the embedded PTX" },
    { "--cublaslt", RT_DEV_OPTION_TEXT, AT(cublaslt), NULL, "FILE",
      "cuBLASLt library; none: GEMMs by our own kernels" },
    { "--tune", RT_DEV_OPTION_CHOICE, AT(tune), tunings, "T", "CUDA GEMM algorithms by timing: off, known, on or all" },
    { "--sync", RT_DEV_OPTION_SWITCH, AT(sync), NULL, NULL, "CUDA ops one by one, so that a fault names its op" },
    { 0 },
};

int rt_cuda_options_read(rt_cuda_options *out, const rt_dev_opts *o, rt_err *e)
{
    *out = (rt_cuda_options){ .env = o ? o->env : NULL };
    int rc = rt_dev_options_read(out, rt_cuda_option_table, o, e);
    if (out->cublaslt && strcmp(out->cublaslt, "auto") == 0) out->cublaslt = NULL;
    return rc;
}
