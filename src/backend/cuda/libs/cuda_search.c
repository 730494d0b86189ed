/* cuda_search.c - see cuda_search.h. */
#include "backend/cuda/libs/cuda_search.h"

#include "backend/options.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int attempt(rt_cuda_search *s, const char *name)
{
    rt_err why = { 0 };
    int rc = s->open(s->ctx, name, &why);
    if (rc == RT_INVALID && s->refusal.status == RT_OK) s->refusal = why;
    return rc;
}

/* Every match of folder/name, for all names; the newest major version first. */
static int attempt_folder(rt_cuda_search *s, const char *folder)
{
    int rc = RT_NOT_FOUND;
    for (uint32_t n = 0; n < s->count && rc < 0; n++) {
        char pattern[600];
        glob_t found = { 0 };
        snprintf(pattern, sizeof pattern, "%s/%s", folder, s->names[n]);
        if (glob(pattern, 0, NULL, &found) == 0)
            for (size_t i = found.gl_pathc; i > 0 && rc < 0; i--) rc = attempt(s, found.gl_pathv[i - 1]);
        globfree(&found);
    }
    return rc;
}

/* The folders that pip makes below a prefix. */
static int attempt_python(rt_cuda_search *s, const char *prefix)
{
    char folder[512];
    int rc = RT_NOT_FOUND;
    static const char *const kinds[] = { "site-packages", "dist-packages" };
    for (int i = 0; i < 2 && rc < 0; i++) {
        snprintf(folder, sizeof folder, "%s/lib/python3*/%s/nvidia/*/lib", prefix, kinds[i]);
        rc = attempt_folder(s, folder);
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

int rt_cuda_search_run(rt_cuda_search *s, const char *const *env)
{
    char text[512];
    const char *cuda = rt_dev_env(env, "CUDA_PATH"), *conda = rt_dev_env(env, "CONDA_PREFIX");
    const char *home = rt_dev_env(env, "HOME");
    int rc = RT_NOT_FOUND;
    for (uint32_t n = 0; n < s->count && rc < 0; n++) rc = attempt(s, s->names[n]);
    const char *const roots[] = { cuda ? cuda : rt_dev_env(env, "CUDA_HOME"), "/usr/local/cuda",
                                  "/usr/local/cuda-1[2-9]*", "/opt/cuda" };
    for (size_t i = 0; i < sizeof roots / sizeof *roots && rc < 0; i++) {
        if (!roots[i]) continue;
        static const char *const below[] = { "lib64", "targets/*/lib", "lib" };
        for (size_t k = 0; k < 3 && rc < 0; k++) {
            snprintf(text, sizeof text, "%s/%s", roots[i], below[k]);
            rc = attempt_folder(s, text);
        }
    }
    if (rc < 0 && conda) {
        snprintf(text, sizeof text, "%s/lib", conda);
        rc = attempt_folder(s, text);
    }
    char local[512] = "", python[512] = "";
    if (home) snprintf(local, sizeof local, "%s/.local", home);
    if (!python_prefix(rt_dev_env(env, "PATH"), python, sizeof python)) python[0] = 0;
    const char *const prefixes[] = { rt_dev_env(env, "VIRTUAL_ENV"), conda, python, local, "/usr/local", "/usr" };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes && rc < 0; i++)
        if (prefixes[i] && prefixes[i][0]) rc = attempt_python(s, prefixes[i]);
    return rc < 0 ? RT_NOT_FOUND : RT_OK;
}
