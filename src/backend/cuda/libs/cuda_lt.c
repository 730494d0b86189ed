/* cuda_lt.c - see cuda_lt.h. */
#include "backend/cuda/libs/cuda_lt.h"

#include "backend/cuda/libs/cuda_search.h"

#include <stddef.h>

enum { LEAST_VERSION = 120000, NO_MEMORY = 3 };

static const rt_dynlib_symbol symbols[] = {
#define X(member, symbol, result, params) { #symbol, offsetof(rt_cuda_lt, member), false },
    RT_LT_LIST(X)
#undef X
};
static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };

typedef struct attempt {
    rt_cuda_lt *lt;
    int driver;
} attempt;

/* Opens one file or name; refuses what is too old, or newer than the driver. */
static int try_one(void *ctx, const char *name, rt_err *e)
{
    int rc;
    const attempt *a = ctx;
    rt_cuda_lt *lt = a->lt;
    *lt = (rt_cuda_lt){ 0 };
    RT_TRY(rt_dynlib_open(&lt->lib, name, e));
    RT_TRY(rt_dynlib_bind(&lt->lib, lt, symbols, sizeof symbols / sizeof *symbols, e));
    lt->version = (uint32_t)lt->get_version();
    uint32_t major = lt->version / 10000, minor = lt->version / 100 % 100;
    if (lt->version < LEAST_VERSION)
        RT_TRY(rt_fail(e, RT_INVALID, "%s is cuBLASLt %u.%u; 12.0 or newer is needed", lt->lib.path, major, minor));
    if ((int)(lt->get_cudart() / 1000) > a->driver / 1000)
        RT_TRY(rt_fail(e, RT_INVALID, "%s is cuBLASLt %u.%u, which needs a driver for CUDA %u; this one is for %d.%d",
                       lt->lib.path, major, minor, major, a->driver / 1000, a->driver % 1000 / 10));
out:
    if (rc < 0) rt_cuda_lt_close(lt);
    return rc;
}

int rt_cuda_lt_open(rt_cuda_lt *lt, const rt_cuda_options *o, int driver, rt_err *e)
{
    attempt a = { lt, driver };
    rt_cuda_search s = { .names = names, .count = sizeof names / sizeof *names, .open = try_one, .ctx = &a };
    *lt = (rt_cuda_lt){ 0 };
    if (o->cublaslt) return try_one(&a, o->cublaslt, e);
    if (rt_cuda_search_run(&s, o->env) >= 0) return RT_OK;
    if (s.refusal.status) return rt_fail(e, RT_NOT_FOUND, "%s", s.refusal.text);
    return rt_fail(e, RT_NOT_FOUND,
                   "no libcublasLt.so.13 or .12 on the loader's path, in CUDA's, conda's or Python's folders");
}

void rt_cuda_lt_close(rt_cuda_lt *lt)
{
    rt_dynlib_close(&lt->lib);
    *lt = (rt_cuda_lt){ 0 };
}

int rt_cuda_lt_status(const rt_cuda_lt *lt, int status, const char *what, rt_err *e)
{
    if (status == 0) return RT_OK;
    const char *text = lt->status_text(status);
    return rt_fail(e, status == NO_MEMORY ? RT_NOMEM : RT_DEVICE, "%s: %s (cuBLASLt status %d)", what,
                   text ? text : "no reason given", status);
}
