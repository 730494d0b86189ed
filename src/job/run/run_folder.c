/* run_folder.c - whose OUT is: what a run may begin in, the lock that keeps others out, and what goes when a run could
 * not begin.
 *
 * Nothing is removed that this process did not make. A new run begins in a folder that was empty, and it is known which
 * folders mkdir made here and which files were not there before; they are removed by name, and folders by rmdir, which
 * leaves one that somebody has put something into. */
#include "job/run/run_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TRIES = 100 }; /* folders that another start, which failed, removes at the same time */

static int set_paths(rt_run *r, rt_err *e)
{
    const struct {
        const char **path, *name;
    } files[] = { { &r->data, "data" },
                  { &r->metrics_path, "metrics.jsonl" },
                  { &r->settings_path, "settings.json" },
                  { &r->yaml_path, "resolved.yaml" },
                  { &r->plan_path, "plan.txt" },
                  { &r->choices_path, "products.tsv" },
                  { &r->manifest_path, "manifest.json" },
                  { &r->verdict_path, "verdict.json" },
                  { &r->report_path, "report.html" },
                  { &r->origin_path, "began-in.txt" },
                  { &r->server_path, RT_RUN_SERVER } };
    bool all = (r->run = rt_path_join(&r->arena, r->out, "run")) != NULL;
    all = all && (r->checkpoints = rt_checkpoints_of(&r->arena, r->out)) != NULL;
    for (size_t i = 0; all && i < sizeof files / sizeof *files; i++)
        all = (*files[i].path = rt_path_join(&r->arena, r->run, files[i].name)) != NULL;
    return all ? RT_OK : rt_no_memory(e, "the folder of a run");
}

/* A plan and a smoke test leave nothing behind, so that the run itself can follow under the same name. Nobody else
 * knows the folder, so there is no lock. */
static int make_temporary(rt_run *r, rt_err *e)
{
    int rc;
    char *temp;
    RT_TRY(rt_dir_scratch(&temp, &r->arena, r->opts->scratch, "retort-plan", e));
    r->out = temp;
    r->temporary = true;
    RT_TRY(set_paths(r, e));
    RT_TRY(rt_dir_make(r->run, e));
out:
    return rc;
}

static bool is_folder(const char *path)
{
    struct stat s;
    return lstat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

/* ---- a new run ---- */

typedef struct left {
    bool lock, other;
} left;

static bool left_by_start(void *ctx, const char *name)
{
    left *l = ctx;
    *(rt_lock_is_name(name) ? &l->lock : &l->other) = true;
    return rt_lock_is_name(name) || rt_name_is_temp(name);
}

/* OUT/run is empty, or as a start leaves it that was killed before it had written its settings: the lock, which is made
 * first, and hidden names beside it. */
static bool is_killed_start(const rt_run *r)
{
    left l = { 0 };
    return rt_dir_holds_only(r->run, left_by_start, &l) && (l.lock || !l.other);
}

/* OUT is not there, is empty, or holds nothing but a start that was killed. */
static int may_begin(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    char **names;
    uint32_t count = 0;
    if (rt_path_is_dir(r->out))
        RT_TRY(rt_dir_list(&names, &count, &r->arena, r->out, e));
    else if (rt_path_exists(r->out))
        RT_TRY(rt_fail(e, RT_INVALID, "%s is a file; --out names a folder for the run and its model", r->out));
    if (!count || (count == 1 && strcmp(names[0], "run") == 0 && is_killed_start(r))) return RT_OK;
    if (!r->lock) RT_TRY(rt_lock_check(r->run, r->out, e));
    rc = rt_fail(e, RT_INVALID,
                 rt_path_exists(r->settings_path)
                     ? "%s is not empty; --resume continues the run in it, or name another --out"
                     : "%s is not empty and holds no run; it is left as it is: name another --out",
                 r->out);
out:
    return rc;
}

int rt_run_check_out(const char *out, rt_err *e)
{
    rt_run r = { .out = out };
    int rc = set_paths(&r, e);
    if (rc >= 0) rc = may_begin(&r, e);
    rt_arena_free(&r.arena);
    return rc;
}

/* Looked at before anything is made, and again when nobody else can write there any more. */
static int take_new(rt_run *r, rt_err *e)
{
    int rc = RT_NOT_FOUND;
    for (int i = 0; i < TRIES && rc == RT_NOT_FOUND; i++) {
        uint32_t made;
        RT_TRY(may_begin(r, e));
        RT_TRY(rt_dir_make_counted(r->run, &made, e));
        if (made > r->run_made) r->run_made = made;
        rc = rt_lock_take(&r->lock, r->run, r->out, e);
    }
    RT_TRY(rc);
    RT_TRY(may_begin(r, e));
    r->fresh = true;
out:
    return rc;
}

/* ---- a run that goes on ---- */

/* What was meant, with the command that resumes it. */
static int no_run(const rt_run *r, rt_arena *a, rt_err *e)
{
    const char *run = rt_run_of_path(a, r->out), *near = run ? NULL : rt_run_nearest(a, r->out);
    const char *resume = run || near ? rt_run_resume_command(a, run ? run : near) : NULL;
    if (run && resume)
        return rt_fail(e, RT_NOT_FOUND, "%s lies in the run %s; a run goes on from its newest checkpoint: %s", r->out,
                       run, resume);
    if (near && resume)
        return rt_fail(e, RT_NOT_FOUND, "%s holds no run to resume; did you mean %s? %s", r->out, rt_path_base(near),
                       resume);
    return rt_fail(e, RT_NOT_FOUND, "%s holds no run to resume; without --resume a new one begins", r->out);
}

/* The settings are read before anything is written beside them: a folder of somebody else's is not touched. */
static int take_again(rt_run *r, rt_err *e)
{
    int rc;
    bool checked;
    rt_settings *was = rt_arena_alloc(&r->arena, sizeof *was);
    if (!was) RT_TRY(rt_no_memory(e, "the folder of a run"));
    if (!rt_path_exists(r->settings_path)) RT_TRY(no_run(r, &r->arena, e));
    RT_TRY(rt_run_read_settings(r, was, &checked, e));
    RT_TRY(rt_lock_take(&r->lock, r->run, r->out, e));
out:
    return rc;
}

/* ---- beginning and end ---- */

/* Temporary names of processes that are no more; the lock of out is held. */
static void clean(const char *out, const char *run, const char *checkpoints)
{
    rt_dir_clean(out);
    rt_dir_clean(run);
    rt_dir_clean(checkpoints);
}

void rt_run_clean_control(rt_run *r)
{
    rt_lock *lock = NULL;
    char *out = rt_control_of(&r->arena, r->out), *run = out ? rt_path_join(&r->arena, out, "run") : NULL;
    const char *checkpoints = out ? rt_checkpoints_of(&r->arena, out) : NULL;
    if (!run || !checkpoints || !is_folder(run) || rt_lock_take(&lock, run, out, NULL) < 0) return;
    clean(out, run, checkpoints);
    rt_lock_free(lock, false);
}

int rt_run_take_folder(rt_run *r, rt_err *e)
{
    int rc;
    if (r->opts->dry || r->opts->smoke) return make_temporary(r, e);
    r->out = r->settings->out;
    if (!r->out || !*r->out)
        RT_TRY(rt_fail(e, RT_USAGE, "--out is missing; give a directory for the run and its model"));
    RT_TRY(set_paths(r, e));
    RT_TRY(r->opts->resume ? take_again(r, e) : take_new(r, e));
    clean(r->out, r->run, r->checkpoints);
    if (is_folder(r->data)) rt_dir_clean(r->data); /* the control's is a link: it is under the lock of its run */
out:
    return rc;
}

/* The tokens of a control are those of its run: a link, relative, so that OUT can be moved. */
static int link_data(rt_run *r, rt_err *e)
{
    if (symlink(rt_path_ends(r->out, "/run/control") ? "../../data" : "../../run/data", r->data) == 0) {
        r->data_linked = true;
        return rt_folder_sync(r->data, e);
    } else if (errno != EEXIST) {
        return rt_fail(e, RT_IO, "%s cannot be made a link to the tokens of the run: %s", r->data, strerror(errno));
    }
    return RT_OK;
}

int rt_run_make_folders(rt_run *r, rt_err *e)
{
    int rc;
    RT_TRY(rt_dir_make_counted(r->checkpoints, &r->checkpoints_made, e));
    RT_TRY(r->opts->control_of ? link_data(r, e) : rt_dir_make_counted(r->data, &r->data_made, e));
out:
    return rc;
}

/* What this process has written into OUT/run so far. The settings go last: until then the run can be resumed. */
static void undo_start(rt_run *r)
{
    char **names;
    uint32_t count = 0;
    if (r->data_linked) unlink(r->data);
    if (r->data_made && rt_dir_list(&names, &count, &r->arena, r->data, NULL) < 0) count = 0;
    for (uint32_t i = 0; i < count; i++) {
        char *path = rt_inputs_is_name(names[i]) ? rt_path_join(&r->arena, r->data, names[i]) : NULL;
        if (path) unlink(path);
    }
    rt_dir_unmake(r->data, r->data_made);
    rt_dir_unmake(r->checkpoints, r->checkpoints_made);
    unlink(r->yaml_path);
    unlink(r->origin_path);
    unlink(r->server_path);
    unlink(r->settings_path);
}

void rt_run_leave_folder(rt_run *r)
{
    if (r->temporary) { /* removing goes two levels deep */
        if (r->run) rt_dir_remove(r->run);
        rt_dir_remove(r->out);
        return;
    }
    bool undone = !r->begun && rt_run_holds(r, NULL) >= 0;
    if (r->fresh && undone) undo_start(r);
    rt_lock_free(r->lock, undone);
    if (undone && r->run_made) rt_dir_unmake(r->run, r->run_made);
}
