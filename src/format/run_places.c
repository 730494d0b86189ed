/* run_places.c - see run_places.h. */
#include "format/run_places.h"

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
