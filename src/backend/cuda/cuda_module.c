/* cuda_module.c - modules and functions of the embedded kernels, loaded when a program that uses them is prepared.
 *
 * Owns: the one place where code is loaded onto the device, and the count of what was loaded too late. A function is
 * loaded for good here: drivers that load lazily are told to do it now. */
#include "backend/cuda/cuda_internal.h"

#include <stdio.h>
#include <string.h>

static void count_late(rt_cuda_dev *d)
{
    if (d->sealed) d->late++;
}

/* *unfit: it is the image that the driver does not take; another one may do. */
static int load_image(rt_cuda_dev *d, const char *name, const void *image, rt_cu_module *out, bool *unfit, rt_err *e)
{
    char log[300] = "";
    int options[] = { RT_CU_JIT_ERROR_LOG, RT_CU_JIT_ERROR_LOG_BYTES };
    void *values[] = { log, (void *)(uintptr_t)sizeof log };
    int result = d->cu.module_load(out, image, 2, options, values);
    *unfit = result == RT_CU_INVALID_IMAGE || result == RT_CU_NO_BINARY || result == RT_CU_INVALID_PTX ||
             result == RT_CU_NO_JIT_COMPILER || result == RT_CU_UNSUPPORTED_PTX || result == RT_CU_JIT_DISABLED;
    if (result == RT_CU_JIT_DISABLED)
        return rt_fail(e, RT_NO_BACKEND, "kernels of %s are PTX and CUDA_DISABLE_PTX_JIT forbids to compile them",
                       name);
    log[sizeof log - 1] = 0;
    return rt_cuda_status(&d->cu, result, e, "loading the kernels of %s for %s_%u%s%s", name,
                          d->arch.ptx ? "ptx" : "sm", d->arch.sm, log[0] ? ": " : "", log);
}

static int load(rt_cuda_dev *d, const char *name, rt_cu_module *out, rt_err *e)
{
    bool unfit;
    const void *image = rt_cuda_images_find(&d->images, name, d->arch);
    if (!image)
        return rt_fail(e, RT_NO_BACKEND, "this binary has no kernels of %s for %s_%u; build it again", name,
                       d->arch.ptx ? "ptx" : "sm", d->arch.sm);
    int rc = load_image(d, name, image, out, &unfit, e);
    count_late(d);
    return rc;
}

int rt_cuda_arch_settle(rt_cuda_dev *d, rt_err *e)
{
    for (;;) {
        rt_err why = { 0 };
        bool unfit = false;
        char name[sizeof((rt_cuda_image *)0)->module + 1] = "";
        rt_cu_module module;
        const rt_cuda_arch tried = d->arch;
        const rt_cuda_image *m = rt_cuda_images_smallest(&d->images, tried); /* there is one: it was chosen */
        memcpy(name, m->module, sizeof m->module);
        int rc = load_image(d, name, d->images.block + m->offset, &module, &unfit, &why);
        if (rc >= 0) {
            d->cu.module_unload(module);
            return RT_OK;
        }
        if (!unfit || !rt_cuda_images_after(&d->images, d->gpu, tried, &d->arch))
            return rt_fail(e, unfit ? RT_NO_BACKEND : rc, "%s%s%s", d->instead, d->instead[0] ? "; " : "", why.text);
        snprintf(d->instead, sizeof d->instead, "%s_%u did not load (%.100s)", tried.ptx ? "ptx" : "sm", tried.sm,
                 why.text);
    }
}

static int module_get(rt_cuda_dev *d, const char *name, rt_cu_module *out, rt_err *e)
{
    for (uint32_t i = 0; i < d->nmodules; i++)
        if (strcmp(d->modules[i].name, name) == 0) {
            *out = d->modules[i].handle;
            return RT_OK;
        }
    if (!rt_grow((void **)&d->modules, &d->modules_cap, d->nmodules + 1, sizeof *d->modules))
        return rt_fail(e, RT_NOMEM, "no memory for a list of modules");
    int rc = load(d, name, out, e);
    if (rc >= 0) d->modules[d->nmodules++] = (rt_cuda_module){ name, *out };
    return rc;
}

/* More dynamic shared memory than the default must be allowed by name. */
static int allow_shared(rt_cuda_dev *d, rt_cuda_function *f, uint32_t shared, rt_err *e)
{
    enum { DEFAULT_SHARED = 48 << 10 };
    if (shared <= f->shared) return RT_OK;
    f->shared = shared;
    if (shared <= DEFAULT_SHARED) return RT_OK;
    return rt_cuda_status(&d->cu, d->cu.function_set(f->handle, RT_CU_FUNC_SHARED_DYNAMIC, (int)shared), e,
                          "%s with %u bytes of shared memory", f->name, shared);
}

static int function_load(rt_cuda_dev *d, const char *module, const char *name, rt_cu_function *out, rt_err *e)
{
    int rc, registers;
    rt_cu_module m;
    RT_TRY(module_get(d, module, &m, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.module_function(out, m, name), e, "finding kernel %s in %s", name, module));
    /* Asking for its registers makes an older driver load it too. */
    int result =
        d->cu.function_load ? d->cu.function_load(*out) : d->cu.function_get(&registers, RT_CU_FUNC_REGISTERS, *out);
    RT_TRY(rt_cuda_status(&d->cu, result, e, "loading kernel %s", name));
out:
    return rc;
}

int rt_cuda_function_get(rt_cuda_dev *d, const char *module, const char *name, uint32_t shared, rt_cu_function *out,
                         rt_err *e)
{
    int rc;
    for (uint32_t i = 0; i < d->nfunctions; i++) {
        rt_cuda_function *f = &d->functions[i];
        if (strcmp(f->name, name) != 0 || strcmp(f->module, module) != 0) continue;
        *out = f->handle;
        return allow_shared(d, f, shared, e);
    }
    if (!rt_grow((void **)&d->functions, &d->functions_cap, d->nfunctions + 1, sizeof *d->functions))
        return rt_fail(e, RT_NOMEM, "no memory for a list of kernels");
    rt_cuda_function *f = &d->functions[d->nfunctions];
    *f = (rt_cuda_function){ module, name, NULL, 0 };
    RT_TRY(function_load(d, module, name, &f->handle, e));
    RT_TRY(allow_shared(d, f, shared, e));
    d->nfunctions++;
    *out = f->handle;
out:
    return rc;
}

void rt_cuda_modules_free(rt_cuda_dev *d)
{
    for (uint32_t i = 0; i < d->nmodules; i++) d->cu.module_unload(d->modules[i].handle);
    rt_free(d->modules);
    rt_free(d->functions);
}
