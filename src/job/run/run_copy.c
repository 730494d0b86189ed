/* run_copy.c - a copy of the run's state in host memory, every --keep-host-copy steps, for a device that fails between
 * two checkpoints.
 *
 * It is a checkpoint like any other, in a folder that the system keeps in memory, so nothing else knows how to read it:
 * when the run is left and it is newer than those on disk, it becomes one of them. Owns: that folder, which goes with
 * the process. A machine that fails takes it along: the newest checkpoint is for that. */
#include "job/run/run_internal.h"

#include <stdio.h>
#include <string.h>
#include <sys/statvfs.h>

static const char in_memory[] = "/dev/shm";

/* The one that is there stays until the next one is whole. */
static int check_room(rt_run *r, rt_err *e)
{
    int rc;
    uint64_t bytes;
    struct statvfs s;
    char need[32], room[32];
    RT_TRY(rt_checkpoint_bytes(r->trainer, &r->output, &bytes, e));
    uint64_t left = statvfs(in_memory, &s) == 0 ? (uint64_t)s.f_bavail * s.f_frsize : 0;
    if (left / 2 < bytes)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "--keep-host-copy needs %s of host memory, and %s has %s; leave it out, or make that larger "
                       "(docker run --shm-size)",
                       rt_format_bytes(need, 2 * bytes), in_memory, rt_format_bytes(room, left)));
out:
    return rc;
}

int rt_run_copy_begin(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    if (!r->settings->keep_host_copy || r->temporary) return RT_OK;
    RT_TRY(rt_dir_scratch(&r->copy_folder, &r->arena, in_memory, "retort-copy", e)); /* killed processes' copies go */
    RT_TRY(check_room(r, e));
    r->loop.copy_every = (uint32_t)r->settings->keep_host_copy;
out:
    return rc;
}

int rt_run_copy_take(rt_run *r, rt_err *e)
{
    int rc = rt_checkpoint_save(r->copy_folder, r->trainer, &r->output, &r->loop.state, e);
    if (rc < 0) return rc;
    r->copy_step = r->loop.state.step;
    rt_checkpoint_prune(r->copy_folder, 1);
    return rc;
}

static int copy_file(rt_arena *a, const char *from, const char *to, const char *name, rt_err *e)
{
    int rc;
    rt_map m = { 0 };
    char *source = rt_path_join(a, from, name), *target = rt_path_join(a, to, name);
    if (!source || !target) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(rt_map_open(&m, source, e));
    RT_TRY(rt_file_write(target, m.data, m.size, e));
out:
    rt_map_close(&m);
    return rc;
}

/* Whole or not at all, as every checkpoint. */
static int put_on_disk(rt_run *r, const char *from, const char *path, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    char **names, *temp = NULL;
    uint32_t count;
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_dir_list(&names, &count, &a, from, e));
    RT_TRY(rt_dir_temp(&temp, &a, path, e));
    for (uint32_t i = 0; i < count; i++) RT_TRY(copy_file(&a, from, temp, names[i], e));
    RT_TRY(rt_run_holds(r, e));
    RT_TRY(rt_dir_commit(temp, path, e));
    temp = NULL;
out:
    if (temp) rt_dir_remove(temp);
    rt_arena_free(&a);
    return rc;
}

void rt_run_copy_end(rt_run *r)
{
    rt_err e = { 0 };
    char from[600], path[4200];
    if (!r->copy_folder) return;
    snprintf(from, sizeof from, "%s/" RT_CHECKPOINT_PREFIX "%06u", r->copy_folder, r->copy_step);
    snprintf(path, sizeof path, "%s/" RT_CHECKPOINT_PREFIX "%06u", r->checkpoints, r->copy_step);
    bool newer = r->copy_step > r->loop.saved_step && !rt_path_exists(path);
    if (newer && put_on_disk(r, from, path, &e) < 0)
        rt_run_note(r, "the copy of step %u in memory could not be written to disk: %s", r->copy_step, e.text);
    else if (newer)
        rt_run_note(r, "the copy of step %u in memory is %s now", r->copy_step, path);
    rt_dir_remove(r->copy_folder);
    r->copy_folder = NULL;
}
