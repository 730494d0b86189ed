/* cache.c - what a cache is: the names of what is kept, cache.json and the sections in it. */
#include "base/lock.h"
#include "teacher/cache/cache_internal.h"

#include <math.h>
#include <string.h>

#define FORMAT "retort teacher cache"
#define ABOUT_NAME "cache.json"

static const char *const keep_names[RT_KEEP_KINDS] = { "topk", "draws", "hidden" };

const char *rt_keep_name(rt_keep k) { return keep_names[k]; }

/* ---- sections ---- */

static int check_section(const rt_cache_section *s, const char *path, rt_err *e)
{
    bool stored = s->dtype == RT_DTYPE_F32 || s->dtype == RT_DTYPE_BF16 || s->dtype == RT_DTYPE_F16;
    const char *fault = (unsigned)s->keep >= RT_KEEP_KINDS     ? "has an unknown kind"
                        : s->n == 0 || s->n > RT_CACHE_MOST_N  ? "has a size that is out of range"
                        : !(s->T > 0 && isfinite(s->T))        ? "has a temperature that is not above 0"
                        : s->keep == RT_KEEP_HIDDEN && !stored ? "has a dtype other than f32, bf16 and f16"
                        : s->keep != RT_KEEP_TOPK && s->target ? "has targets but is not top-k"
                        : s->keep != RT_KEEP_TOPK && s->exact  ? "is exact but is not top-k"
                                                               : NULL;
    return fault ? rt_fail(e, RT_INVALID, "%s: a section %s", path, fault) : RT_OK;
}

json_t *rt_cache_sections_to_json(const rt_cache_section *s, uint32_t count)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < count; i++) {
        json_t *x = json_pack("{s:s, s:I, s:f}", "keep", rt_keep_name(s[i].keep), "n", (json_int_t)s[i].n,
                              "temperature", (double)s[i].T);
        bool failed = !x;
        if (s[i].keep == RT_KEEP_TOPK)
            failed = failed || json_object_set_new(x, "target", json_boolean(s[i].target)) ||
                     json_object_set_new(x, "exact", json_boolean(s[i].exact));
        if (s[i].keep == RT_KEEP_HIDDEN)
            failed = failed || json_object_set_new(x, "dtype", json_string(rt_dtype_name(s[i].dtype)));
        if (failed || json_array_append_new(list, x)) {
            if (failed) json_decref(x);
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static bool section_from_json(rt_cache_section *s, const json_t *x)
{
    const char *keep = json_string_value(json_object_get(x, "keep"));
    const char *dtype = json_string_value(json_object_get(x, "dtype"));
    json_int_t n = json_integer_value(json_object_get(x, "n"));
    *s = (rt_cache_section){ .T = (float)json_number_value(json_object_get(x, "temperature")),
                             .target = json_is_true(json_object_get(x, "target")),
                             .exact = json_is_true(json_object_get(x, "exact")) };
    if (!keep || n < 1 || n > RT_CACHE_MOST_N) return false;
    s->n = (uint32_t)n;
    unsigned k = 0;
    while (k < RT_KEEP_KINDS && strcmp(keep, keep_names[k]) != 0) k++;
    s->keep = (rt_keep)k;
    return k < RT_KEEP_KINDS && (k != RT_KEEP_HIDDEN || (dtype && rt_dtype_parse(dtype, &s->dtype)));
}

int rt_cache_sections_from_json(rt_cache_section *out, uint32_t *count, const json_t *about, const char *path,
                                rt_err *e)
{
    int rc = RT_OK;
    const json_t *list = json_object_get(about, "sections");
    size_t n = json_array_size(list);
    if (n == 0 || n > RT_CACHE_SECTIONS)
        return rt_fail(e, RT_FORMAT, "%s/" ABOUT_NAME " has %zu sections, not 1 to %d", path, n, RT_CACHE_SECTIONS);
    for (size_t i = 0; i < n; i++) {
        if (!section_from_json(&out[i], json_array_get(list, i)))
            return rt_fail(e, RT_FORMAT, "%s/" ABOUT_NAME ": section %zu is not known to this retort", path, i);
        if ((rc = check_section(&out[i], path, e)) < 0) return rc;
    }
    *count = (uint32_t)n;
    return rc;
}

/* ---- cache.json ---- */

bool rt_cache_is(const char *path)
{
    rt_arena a = { 0 };
    json_t *about = NULL;
    rt_json_init();
    char *file = rt_path_join(&a, path, ABOUT_NAME);
    bool is = file && rt_json_read(&about, file, NULL) == RT_OK && json_is_object(about);
    const char *format = is ? json_string_value(json_object_get(about, "format")) : NULL;
    is = format && strcmp(format, FORMAT) == 0;
    json_decref(about);
    rt_arena_free(&a);
    return is;
}

int rt_cache_about_read(rt_cache *c, rt_err *e)
{
    rt_hash128 hash;
    char *file = rt_path_join(&c->arena, c->path, ABOUT_NAME);
    if (!file) return rt_no_memory(e, "a cache");
    if (!rt_path_exists(file)) return rt_fail(e, RT_NOT_FOUND, "%s is not a cache: it has no " ABOUT_NAME, c->path);
    int rc = rt_checked_json_read(&c->about, file, e);
    if (rc < 0) return rc;
    const char *format = json_string_value(json_object_get(c->about, "format"));
    json_int_t version = json_integer_value(json_object_get(c->about, "version"));
    if (!format || strcmp(format, FORMAT) != 0 || version < 1 ||
        !rt_hash_from_json(json_object_get(c->about, "hash"), &hash))
        return rt_fail(e, RT_FORMAT, "%s does not describe a teacher cache", file);
    if (version > RT_CACHE_VERSION)
        return rt_fail(e, RT_FORMAT, "%s has version %lld of the format, and this retort reads %d; use a newer retort",
                       file, (long long)version, RT_CACHE_VERSION);
    rt_cache_key_bytes(c->hash, &hash);
    return rt_cache_sections_from_json(c->sections, &c->section_count, c->about, c->path, e);
}

/* What may be in a folder that counts as empty: a lock, and what a killed process left of cache.json or of a folder
 * beside it. */
static bool is_nothing(void *ctx, const char *name)
{
    char plain[256]; /* a folder's name has a slash behind it */
    size_t n = strcspn(name, "/");
    (void)ctx;
    if (n >= sizeof plain) return false;
    memcpy(plain, name, n);
    plain[n] = 0;
    return rt_lock_is_name(name) || rt_name_is_temp(plain);
}

/* about with our members in front of its own. */
static int make_about(json_t **out, const json_t *about, const rt_cache_section *sections, uint32_t count, rt_err *e)
{
    static const char *const ours[] = { "format", "version", "sections", "hash" };
    json_t *list = rt_cache_sections_to_json(sections, count);
    *out = list ? json_pack("{s:s, s:i, s:s, s:o}", "format", FORMAT, "version", RT_CACHE_VERSION, "made_by", "retort",
                            "sections", list)
                : NULL;
    if (!*out) return rt_no_memory(e, ABOUT_NAME);
    for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
        if (json_object_get(about, ours[i]))
            return rt_fail(e, RT_INVALID, "the description of a cache may not have the member %s, which is reserved",
                           ours[i]);
    return about && json_object_update(*out, (json_t *)(uintptr_t)about) ? rt_no_memory(e, ABOUT_NAME) : RT_OK;
}

int rt_cache_check_empty(const char *path, rt_err *e)
{
    if (!rt_path_exists(path) || rt_dir_holds_only(path, is_nothing, NULL)) return RT_OK;
    return rt_fail(e, RT_INVALID, "%s exists and is not an empty folder%s; name another folder for the cache", path,
                   rt_path_is_dir(path) ? "" : " but a file");
}

int rt_cache_create(const char *path, const json_t *about, const rt_cache_section *sections, uint32_t count, rt_err *e)
{
    int rc = RT_OK;
    rt_arena a = { 0 };
    json_t *whole = NULL;
    char *file = rt_path_join(&a, path, ABOUT_NAME);
    if (!file) RT_TRY(rt_no_memory(e, "a cache"));
    if (count == 0 || count > RT_CACHE_SECTIONS)
        RT_TRY(rt_fail(e, RT_INVALID, "a cache has 1 to %d sections, not %u", RT_CACHE_SECTIONS, count));
    for (uint32_t i = 0; i < count; i++) RT_TRY(check_section(&sections[i], path, e));
    RT_TRY(rt_cache_check_empty(path, e));
    rt_json_init();
    RT_TRY(make_about(&whole, about, sections, count, e));
    RT_TRY(rt_dir_make(path, e));
    RT_TRY(rt_checked_json_write(file, whole, NULL, e));
out:
    json_decref(whole);
    rt_arena_free(&a);
    return rc;
}
