/* run_places.c - see run_places.h. */
#include "format/run_places.h"

#include "base/json.h"
#include "base/str.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool rt_step_of_name(const char *name, const char *prefix, uint32_t *step)
{
    char same[32];
    size_t n = strlen(prefix);
    if (strncmp(name, prefix, n) != 0) return false;
    unsigned long v = strtoul(name + n, NULL, 10);
    *step = (uint32_t)v;
    snprintf(same, sizeof same, "%s%06u", prefix, *step);
    return v <= UINT32_MAX && strcmp(name, same) == 0;
}

/* The newest of a kind in a folder that may be missing. */
static int newest_in(char **path, rt_arena *a, const char *folder, const char *prefix, rt_err *e)
{
    int rc = RT_OK;
    char **names;
    uint32_t count = 0, step, newest = 0;
    *path = NULL;
    if (rt_path_is_dir(folder)) RT_TRY(rt_dir_list(&names, &count, a, folder, e));
    for (uint32_t i = 0; i < count; i++) {
        if (!rt_step_of_name(names[i], prefix, &step) || (*path && step <= newest)) continue;
        newest = step;
        *path = rt_path_join(a, folder, names[i]);
        if (!*path) RT_TRY(rt_no_memory(e, "a path"));
    }
out:
    return rc;
}

const char *rt_checkpoints_of(rt_arena *a, const char *out)
{
    static const char *const kinds[] = { RT_CHECKPOINT_PREFIX, RT_BEST_PREFIX };
    char *older, *folder = rt_path_join(a, out, RT_CHECKPOINTS);
    if (!folder || rt_path_is_dir(folder)) return folder;
    for (int i = 0; i < 2; i++)
        if (newest_in(&older, a, out, kinds[i], NULL) == RT_OK && older) return out;
    return folder;
}

int rt_checkpoint_newest(char **path, rt_arena *a, const char *out, rt_err *e)
{
    const char *folder = rt_checkpoints_of(a, out);
    return folder ? newest_in(path, a, folder, RT_CHECKPOINT_PREFIX, e) : rt_no_memory(e, "a path");
}

bool rt_path_of_checkpoint(const char *name)
{
    size_t n = strlen(RT_CHECKPOINTS "/");
    if (strncmp(name, RT_CHECKPOINTS "/", n) == 0) name += n;
    return strncmp(name, RT_CHECKPOINT_PREFIX, strlen(RT_CHECKPOINT_PREFIX)) == 0;
}

char *rt_control_of(rt_arena *a, const char *out)
{
    char *here = rt_path_join(a, out, "run/control"), *older = rt_path_join(a, out, "control");
    char *begun = older ? rt_path_join(a, older, "run") : NULL;
    if (!here || !begun) return NULL;
    return rt_path_is_dir(begun) && !rt_path_is_dir(here) ? older : here;
}

/* ---- which run a path belongs to ---- */

static const char settings_name[] = "run/settings.json";

static bool is_run(rt_arena *a, const char *folder)
{
    const char *settings = rt_path_join(a, folder, settings_name);
    return settings && rt_path_exists(settings);
}

/* The folder that holds path; "." for a plain name, null above "/" and where only dots are left. */
static char *folder_of(rt_arena *a, const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    while (n && path[n - 1] != '/') n--;
    while (n > 1 && path[n - 1] == '/') n--;
    return n ? rt_arena_printf(a, "%.*s", (int)n, path) : rt_arena_printf(a, ".");
}

char *rt_run_of_path(rt_arena *a, const char *path)
{
    enum { LEVELS = 3 }; /* OUT/run/checkpoints/checkpoint-NNNNNN */
    char *at = rt_arena_strdup(a, path);
    for (int i = 0; at && i <= LEVELS; i++) {
        if (is_run(a, at)) return at;
        if (strcmp(at, ".") == 0 || strcmp(at, "/") == 0) return NULL;
        at = folder_of(a, at);
    }
    return NULL;
}

char *rt_run_nearest(rt_arena *a, const char *path)
{
    char **names, *folder = folder_of(a, path), *own = rt_arena_strdup(a, path);
    uint32_t count, runs = 0;
    for (size_t n = own ? strlen(own) : 0; n > 1 && own[n - 1] == '/'; n--) own[n - 1] = 0;
    if (!folder || !own || rt_dir_list(&names, &count, a, folder, NULL) < 0) return NULL;
    const char **list = rt_arena_alloc(a, (count + 1) * sizeof *list);
    for (uint32_t i = 0; list && i < count; i++) {
        char *one = rt_path_join(a, folder, names[i]);
        if (one && is_run(a, one)) list[runs++] = names[i];
    }
    if (list) list[runs] = NULL;
    const char *near = list ? rt_nearest(rt_path_base(own), list) : NULL;
    if (!near) return NULL;
    return strchr(own, '/') ? rt_path_join(a, folder, near) : rt_arena_strdup(a, near);
}

const char *rt_run_command(const char *out)
{
    json_t *j = NULL;
    rt_arena a = { 0 };
    const char *path = rt_path_join(&a, out, settings_name);
    bool train = path && rt_json_read(&j, path, NULL) >= 0 && !json_is_string(json_object_get(j, "teacher")) &&
                 !json_is_array(json_object_get(j, "teacher"));
    json_decref(j);
    rt_arena_free(&a);
    return train ? "train" : "distill";
}

char *rt_run_resume_command(rt_arena *a, const char *out)
{
    return rt_arena_printf(a, "retort %s --resume --out %s", rt_run_command(out), rt_shell_word(a, out));
}

char *rt_run_further_command(rt_arena *a, const char *out, const char *const *teachers, uint32_t count)
{
    const char *flags = "";
    for (uint32_t i = 0; flags && i < count; i++)
        flags = rt_arena_printf(a, "%s --teacher %s", flags, rt_shell_word(a, teachers[i]));
    return flags ? rt_arena_printf(a, "retort %s%s --student %s --data DATA --out NEW", count ? "distill" : "train",
                                   flags, rt_shell_word(a, out))
                 : NULL;
}
