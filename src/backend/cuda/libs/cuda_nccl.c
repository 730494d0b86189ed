/* cuda_nccl.c - see cuda_nccl.h. */
#include "backend/cuda/libs/cuda_nccl.h"

#include "backend/cuda/libs/cuda_search.h"

#include <stddef.h>

enum { LEAST_VERSION = 21800 }; /* of 2023: what CUDA 12 began with; ncclGetLastError, and capture of groups */

static const rt_dynlib_symbol symbols[] = {
#define X(member, symbol, result, params) { #symbol, offsetof(rt_cuda_nccl, member), false },
    RT_NCCL_LIST(X)
#undef X
};
static const char *const names[] = { "libnccl.so.2" };

static int try_one(void *nccl, const char *name, rt_err *e)
{
    int rc, version = 0;
    rt_cuda_nccl *n = nccl;
    *n = (rt_cuda_nccl){ 0 };
    RT_TRY(rt_dynlib_open(&n->lib, name, e));
    RT_TRY(rt_dynlib_bind(&n->lib, n, symbols, sizeof symbols / sizeof *symbols, e));
    RT_TRY(rt_cuda_nccl_status(n, n->get_version(&version), "asking NCCL for its version", e));
    n->version = (uint32_t)version;
    if (version < LEAST_VERSION)
        RT_TRY(rt_fail(e, RT_INVALID, "%s is NCCL %d.%d; 2.18 or newer is needed", n->lib.path, version / 10000,
                       version / 100 % 100));
out:
    if (rc < 0) rt_cuda_nccl_close(n);
    return rc;
}

int rt_cuda_nccl_open(rt_cuda_nccl *n, const char *file, const char *const *env, rt_err *e)
{
    rt_cuda_search s = { .names = names, .count = sizeof names / sizeof *names, .open = try_one, .ctx = n };
    *n = (rt_cuda_nccl){ 0 };
    if (file) return try_one(n, file, e);
    if (rt_cuda_search_run(&s, env) >= 0) return RT_OK;
    if (s.refusal.status) return rt_fail(e, RT_NOT_FOUND, "%s", s.refusal.text);
    return rt_fail(e, RT_NOT_FOUND, "no libnccl.so.2 on the loader's path, in CUDA's, conda's or Python's folders");
}

void rt_cuda_nccl_close(rt_cuda_nccl *n)
{
    rt_dynlib_close(&n->lib);
    *n = (rt_cuda_nccl){ 0 };
}

int rt_cuda_nccl_status(const rt_cuda_nccl *n, int result, const char *what, rt_err *e)
{
    if (result == RT_NCCL_SUCCESS) return RT_OK;
    const char *text = n->result_text(result), *more = n->last_text(NULL);
    return rt_fail(e, RT_DEVICE, "%s: %s (NCCL result %d%s%.200s)", what, text ? text : "no reason given", result,
                   more && *more ? "; " : "", more ? more : "");
}
