/* model_arg.c - see model_arg.h. */
#include "cli/model_arg.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

static const char *variable(const char *name)
{
    const char *value = getenv(name);
    return value && value[0] ? value : NULL;
}

rt_hub_env rt_hub_env_get(void)
{
    return (rt_hub_env){ variable("HF_HUB_CACHE"), variable("HF_HOME"), variable("XDG_CACHE_HOME"), variable("HOME") };
}

int rt_output_format(rt_container *out, const char *to, const char *path, rt_container other, rt_err *e)
{
    static const char *const names[] = { "hf", "safetensors", "gguf", "apr", NULL };
    *out = rt_path_ends(path, ".gguf")          ? RT_CONTAINER_GGUF
           : rt_path_ends(path, ".apr")         ? RT_CONTAINER_APR
           : rt_path_ends(path, ".safetensors") ? RT_CONTAINER_SAFETENSORS
                                                : other;
    if (!to || rt_container_parse(to, out)) return RT_OK;
    const char *near = rt_nearest(to, names);
    return rt_fail(e, RT_USAGE, "--to takes hf, safetensors, gguf or apr, not '%s'%s%s%s", to,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

int rt_mix_arg(const rt_mix **out, const char *command, const char *name, rt_err *e)
{
    rt_str list = { 0 };
    *out = rt_mix_find(name);
    if (*out) return RT_OK;
    for (const char *const *n = rt_mix_names(); *n; n++) rt_str_printf(&list, "%s%s", list.len ? " " : "", *n);
    const char *near = rt_nearest(name, rt_mix_names());
    rt_fail(e, RT_USAGE, "retort %s: --dtype '%s' is not known%s%s%s; it is one of: %s", command, name,
            near ? "; did you mean " : "", near ? near : "", near ? "?" : "", list.data ? list.data : "");
    rt_str_free(&list);
    return RT_USAGE;
}

/* ---- reasons to refuse ---- */

/* Whether inner is outer or lies below it; both exist. */
static bool lies_in(const char *inner, const char *outer)
{
    char a[PATH_MAX], b[PATH_MAX];
    if (!realpath(inner, a) || !realpath(outer, b)) return false;
    size_t n = strlen(b);
    return strncmp(a, b, n) == 0 && (a[n] == 0 || a[n] == '/');
}

static int same_as_input(const char *path, const rt_model_file *in, rt_err *e)
{
    bool hit = lies_in(in->path, path);
    for (uint32_t i = 0; !hit && i < in->part_count; i++) hit = lies_in(in->parts[i].path, path);
    if (!hit) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "%s holds the input: it cannot be replaced by what is made from it; give another output", path);
}

/* An empty directory may always be filled. Whether what is in it may go is for the writer to say: only a model may. */
static int directory_allowed(const char *path, rt_err *e)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count = 0;
    int rc = rt_dir_list(&names, &count, &a, path, e);
    if (rc >= 0 && count) rc = rt_fail(e, RT_INVALID, "%s is there already; --force replaces it", path);
    rt_arena_free(&a);
    return rc;
}

int rt_output_allowed(const char *path, rt_container to, bool force, const rt_model_file *in, rt_err *e)
{
    struct stat st;
    int rc = RT_OK;
    if (!path[0]) return rt_fail(e, RT_USAGE, "the output has an empty name");
    if (stat(path, &st) != 0) return RT_OK;
    if (in) rc = same_as_input(path, in, e);
    if (rc < 0) return rc;
    if (S_ISDIR(st.st_mode) && to != RT_CONTAINER_HF)
        return rt_fail(e, RT_INVALID, "%s is a directory, and %s is one file: give a file name", path,
                       rt_container_name(to));
    if (S_ISDIR(st.st_mode)) return force ? RT_OK : directory_allowed(path, e);
    if (to == RT_CONTAINER_HF && S_ISREG(st.st_mode))
        return rt_fail(e, RT_INVALID, "%s is a file, and a Hugging Face output is a directory: give another name",
                       path);
    if (!S_ISREG(st.st_mode)) return rt_fail(e, RT_INVALID, "%s is not an ordinary file: not replaced", path);
    return force ? RT_OK : rt_fail(e, RT_INVALID, "%s is there already; --force replaces it", path);
}

int rt_output_fits(const char *path, uint64_t bytes, rt_err *e)
{
    char folder[PATH_MAX], need[32], room[32];
    struct statvfs fs;
    /* The nearest folder above that exists; folders in between are made later, on the same file system. */
    if (strlen(path) >= sizeof folder) return rt_fail(e, RT_INVALID, "the output's name is too long");
    strcpy(folder, path);
    while (statvfs(folder, &fs) != 0) {
        char *slash = strrchr(folder, '/');
        if (errno != ENOENT && errno != ENOTDIR) return rt_fail(e, RT_IO, "%s: %s", folder, strerror(errno));
        if (slash == folder)
            strcpy(folder, "/");
        else if (slash)
            *slash = 0;
        else
            strcpy(folder, ".");
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes >= bytes) return RT_OK;
    return rt_fail(e, RT_IO, "%s needs %s, and its file system has %s free: make room, or choose a smaller --dtype",
                   path, rt_format_bytes(need, bytes), rt_format_bytes(room, free_bytes));
}

char *rt_format_params(char *buf, uint64_t n)
{
    if (n >= 1000000000)
        snprintf(buf, 32, "%.2f B", (double)n / 1e9);
    else if (n >= 10000000)
        snprintf(buf, 32, "%.0f M", (double)n / 1e6);
    else if (n >= 1000000)
        snprintf(buf, 32, "%.2f M", (double)n / 1e6);
    else
        snprintf(buf, 32, "%" PRIu64, n);
    return buf;
}

int rt_pool_for(rt_pool **out, uint32_t threads, rt_err *e)
{
    return rt_pool_new(out, threads ? threads : rt_cpu_count(), e);
}

json_t *rt_json_text(const char *text)
{
    if (!text) return json_null();
    json_t *j = json_string(text);
    if (j) return j;
    rt_str s = { 0 };
    for (const char *p = text; *p; p++) rt_str_append_n(&s, (unsigned char)*p < 128 ? p : "?", 1);
    j = s.failed ? NULL : json_string(s.data ? s.data : "");
    rt_str_free(&s);
    return j;
}

json_t *rt_json_u64(uint64_t v)
{
    char digits[24];
    if (v <= INT64_MAX) return json_integer((json_int_t)v);
    snprintf(digits, sizeof digits, "%" PRIu64, v);
    return json_string(digits);
}

void rt_print_word(const char *path, const char *more)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-+=:,@%";
    size_t len = strlen(path);
    while (len > 1 && path[len - 1] == '/') len--;
    if (len && strspn(path, plain) >= len && strspn(more, plain) == strlen(more)) {
        printf(" %.*s%s", (int)len, path, more);
        return;
    }
    printf(" '");
    for (size_t i = 0; i < len; i++) {
        if (path[i] == '\'')
            printf("'\\''");
        else
            putchar(path[i]);
    }
    printf("%s'", more);
}
