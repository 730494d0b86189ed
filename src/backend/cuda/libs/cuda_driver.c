/* cuda_driver.c - see cuda_driver.h. */
#include "backend/cuda/libs/cuda_driver.h"

#include "backend/cuda/cuda_policy.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

static const rt_dynlib_symbol symbols[] = {
#define X(member, symbol, params) { #symbol, offsetof(rt_cuda_driver, member), false },
    RT_CU_LIST(X)
#undef X
#define X(member, symbol, params) { #symbol, offsetof(rt_cuda_driver, member), true },
        RT_CU_OPTIONAL_LIST(X)
#undef X
};

/* The loader's own path first, then where containers and WSL put it. */
static const char *const names[] = { "libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1",
                                     "/usr/lib/wsl/lib/libcuda.so.1" };

static const char *result_text(const rt_cuda_driver *cu, int result, const char *(*name))
{
    const char *text = NULL;
    *name = NULL;
    if (cu->error_name && cu->error_name(result, name) != RT_CU_SUCCESS) *name = NULL;
    if (cu->error_text && cu->error_text(result, &text) != RT_CU_SUCCESS) text = NULL;
    if (!*name) *name = "unknown result";
    return text ? text : "the driver does not say";
}

int rt_cuda_status(const rt_cuda_driver *cu, int result, rt_err *e, const char *format, ...)
{
    char what[200];
    const char *name, *text;
    va_list args;
    if (result == RT_CU_SUCCESS) return RT_OK;
    va_start(args, format);
    vsnprintf(what, sizeof what, format, args);
    va_end(args);
    text = result_text(cu, result, &name);
    return rt_fail(e, result == RT_CU_OUT_OF_MEMORY ? RT_NOMEM : RT_DEVICE, "%s: %s (%s, %d)", what, text, name,
                   result);
}

static int start(rt_cuda_driver *cu, rt_err *e)
{
    const char *name;
    int result = cu->init(0);
    if (result == RT_CU_NO_DEVICE) return rt_fail(e, RT_NO_BACKEND, "the driver sees no NVIDIA GPU");
    if (result == RT_CU_DRIVER_MISMATCH)
        return rt_fail(e, RT_NO_BACKEND,
                       "the driver's library and its kernel module are of two versions: restart the "
                       "machine after updating the driver");
    if (result == RT_CU_STUB_LIBRARY)
        return rt_fail(e, RT_NO_BACKEND, "%s is the stub that compilers link with, not a driver", cu->lib.path);
    if (result != RT_CU_SUCCESS) {
        const char *text = result_text(cu, result, &name);
        return rt_fail(e, RT_NO_BACKEND, "the driver does not start: %s (%s); does nvidia-smi work?", text, name);
    }
    if (cu->driver_version(&cu->version) != RT_CU_SUCCESS) cu->version = 0;
    return RT_OK;
}

int rt_cuda_driver_open(rt_cuda_driver *cu, rt_err *e)
{
    int rc = RT_NOT_FOUND;
    rt_err why = { 0 };
    *cu = (rt_cuda_driver){ 0 };
    for (size_t i = 0; i < sizeof names / sizeof *names && rc < 0; i++) rc = rt_dynlib_open(&cu->lib, names[i], &why);
    if (rc < 0) return rt_fail(e, RT_NO_BACKEND, "no NVIDIA driver: libcuda.so.1 is not on this machine");
    if (rt_dynlib_bind(&cu->lib, cu, symbols, sizeof symbols / sizeof *symbols, &why) < 0) {
        int version = 0;
        if (cu->driver_version) cu->driver_version(&version);
        RT_TRY(rt_fail(e, RT_NO_BACKEND, "the driver is too old (for CUDA %d.%d; %s): install driver %d or newer",
                       version / 1000, version % 1000 / 10, why.text, rt_cuda_driver_branch(RT_CUDA_LEAST_DRIVER)));
    }
    RT_TRY(start(cu, e));
    if (cu->version < RT_CUDA_LEAST_DRIVER)
        RT_TRY(rt_fail(e, RT_NO_BACKEND, "the driver is too old (for CUDA %d.%d): install driver %d or newer",
                       cu->version / 1000, cu->version % 1000 / 10, rt_cuda_driver_branch(RT_CUDA_LEAST_DRIVER)));
out:
    if (rc < 0) rt_cuda_driver_close(cu);
    return rc;
}

void rt_cuda_driver_close(rt_cuda_driver *cu)
{
    rt_dynlib_close(&cu->lib);
    *cu = (rt_cuda_driver){ 0 };
}
