/* cuda_lt.c - see cuda_lt.h. */
#include "backend/cuda/cuda_lt.h"

#include <glob.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { LEAST_VERSION = 120000, NO_MEMORY = 3 };

static const rt_dynlib_symbol symbols[] = {
#define X(member, symbol, result, params) { #symbol, offsetof(rt_cuda_lt, member), false },
    RT_LT_LIST(X)
#undef X
};
static const char *const names[] = { "libcublasLt.so.13", "libcublasLt.so.12" };

/* Opens one file or name; refuses what is too old, or newer than the driver. */
static int try_one(rt_cuda_lt *lt, const char *name, int driver, rt_err *e)
{
    int rc;
    *lt = (rt_cuda_lt){ 0 };
    RT_TRY(rt_dynlib_open(&lt->lib, name, e));
    RT_TRY(rt_dynlib_bind(&lt->lib, lt, symbols, sizeof symbols / sizeof *symbols, e));
    lt->version = (uint32_t)lt->get_version();
    uint32_t major = lt->version / 10000, minor = lt->version / 100 % 100;
    if (lt->version < LEAST_VERSION)
        RT_TRY(rt_fail(e, RT_INVALID, "%s is cuBLASLt %u.%u; 12.0 or newer is needed", lt->lib.path, major, minor));
    if ((int)(lt->get_cudart() / 1000) > driver / 1000)
        RT_TRY(rt_fail(e, RT_INVALID, "%s is cuBLASLt %u.%u, which needs a driver for CUDA %u; this one is for %d.%d",
                       lt->lib.path, major, minor, major, driver / 1000, driver % 1000 / 10));
out:
    if (rc < 0) rt_cuda_lt_close(lt);
    return rc;
}

/* A refusal of something that is there is worth more than "no such file". */
static int attempt(rt_cuda_lt *lt, const char *name, int driver, rt_err *best)
{
    rt_err why = { 0 };
    int rc = try_one(lt, name, driver, &why);
    if (rc == RT_INVALID && best->status == RT_OK) *best = why;
    return rc;
}

/* Every match of folder/name, for both names; the newest major version first. */
static int attempt_folder(rt_cuda_lt *lt, const char *folder, int driver, rt_err *best)
{
    int rc = RT_NOT_FOUND;
    for (size_t n = 0; n < sizeof names / sizeof *names && rc < 0; n++) {
        char pattern[600];
        glob_t found = { 0 };
        snprintf(pattern, sizeof pattern, "%s/%s", folder, names[n]);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = found.gl_pathc; i > 0 && rc < 0; i--) rc = attempt(lt, found.gl_pathv[i - 1], driver, best);
        globfree(&found);
    }
    return rc;
}

/* The folders that pip makes below a prefix. */
static int attempt_python(rt_cuda_lt *lt, const char *prefix, int driver, rt_err *best)
{
    char folder[512];
    int rc = RT_NOT_FOUND;
    static const char *const kinds[] = { "site-packages", "dist-packages" };
    for (int i = 0; i < 2 && rc < 0; i++) {
        snprintf(folder, sizeof folder, "%s/lib/python3*/%s/nvidia/*/lib", prefix, kinds[i]);
        rc = attempt_folder(lt, folder, driver, best);
    }
    return rc;
}

/* The prefix of the first python3 on the PATH: an environment may be in use without being activated. */
static bool python_prefix(const char *path, char *out, size_t size)
{
    while (path && *path) {
        size_t len = strcspn(path, ":");
        char file[512];
        int n = snprintf(file, sizeof file, "%.*s/python3", (int)len, path);
        if (len > 4 && n > 0 && (size_t)n < sizeof file && memcmp(path + len - 4, "/bin", 4) == 0 &&
            access(file, X_OK) == 0)
            return snprintf(out, size, "%.*s", (int)(len - 4), path) < (int)size;
        path += len + (path[len] == ':');
    }
    return false;
}

static int look(rt_cuda_lt *lt, const char *const *env, int driver, rt_err *best)
{
    char text[512];
    const char *cuda = rt_dev_env(env, "CUDA_PATH"), *conda = rt_dev_env(env, "CONDA_PREFIX");
    const char *home = rt_dev_env(env, "HOME");
    int rc = RT_NOT_FOUND;
    for (size_t n = 0; n < sizeof names / sizeof *names && rc < 0; n++) rc = attempt(lt, names[n], driver, best);
    const char *const roots[] = { cuda ? cuda : rt_dev_env(env, "CUDA_HOME"), "/usr/local/cuda",
                                  "/usr/local/cuda-1[2-9]*", "/opt/cuda" };
    for (size_t i = 0; i < sizeof roots / sizeof *roots && rc < 0; i++) {
        if (!roots[i]) continue;
        static const char *const below[] = { "lib64", "targets/*/lib", "lib" };
        for (size_t k = 0; k < 3 && rc < 0; k++) {
            snprintf(text, sizeof text, "%s/%s", roots[i], below[k]);
            rc = attempt_folder(lt, text, driver, best);
        }
    }
    if (rc < 0 && conda) {
        snprintf(text, sizeof text, "%s/lib", conda);
        rc = attempt_folder(lt, text, driver, best);
    }
    char local[512] = "", python[512] = "";
    if (home) snprintf(local, sizeof local, "%s/.local", home);
    if (!python_prefix(rt_dev_env(env, "PATH"), python, sizeof python)) python[0] = 0;
    const char *const prefixes[] = { rt_dev_env(env, "VIRTUAL_ENV"), conda, python, local, "/usr/local", "/usr" };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && rc < 0; i++)
        if (prefixes[i] && prefixes[i][0]) rc = attempt_python(lt, prefixes[i], driver, best);
    return rc;
}

int rt_cuda_lt_open(rt_cuda_lt *lt, const rt_cuda_options *o, int driver, rt_err *e)
{
    rt_err best = { 0 };
    *lt = (rt_cuda_lt){ 0 };
    if (o->cublaslt) return try_one(lt, o->cublaslt, driver, e);
    if (look(lt, o->env, driver, &best) >= 0) return RT_OK;
    if (best.status) return rt_fail(e, RT_NOT_FOUND, "%s", best.text);
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
