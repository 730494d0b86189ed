/* run_origin.c - the folder in which a run began: OUT/run/began-in.txt, and models and files found from another one.
 *
 * Settings keep the words that the user gave. A relative path of them that is not there from the current folder is
 * looked for from that of the record; hashes decide whether it is what the run began with. A run of an older version
 * has no record. */
#include "job/run/run_internal.h"

#include <limits.h>
#include <string.h>
#include <unistd.h>

int rt_run_origin_write(rt_run *r, rt_err *e)
{
    char here[PATH_MAX];
    const rt_run *of = r->opts->control_of;
    if (r->opts->resume) return RT_OK;
    if (!of && !getcwd(here, sizeof here - 1)) return RT_OK; /* it was removed, or cannot be named */
    r->origin = rt_arena_strdup(&r->arena, of ? (of->origin ? of->origin : "") : here);
    if (!r->origin) return rt_no_memory(e, "a path");
    return r->temporary || !*r->origin ? RT_OK : rt_file_write(r->origin_path, r->origin, strlen(r->origin), e);
}

static int read_origin(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    rt_str text = { 0 };
    if (!rt_path_exists(r->origin_path)) return RT_OK;
    RT_TRY(rt_file_read(r->origin_path, PATH_MAX, &text, e));
    if (text.len && text.data[0] == '/' && !(r->origin = rt_arena_strdup(&r->arena, text.data)))
        RT_TRY(rt_no_memory(e, "a path"));
out:
    rt_str_free(&text);
    return rc;
}

/* path, or the same from where the run began, if it is there and not here. */
static const char *find(rt_run *r, const char *path, bool file)
{
    if (!path || path[0] == '/' || rt_path_exists(path)) return path;
    const char *there = rt_path_join(&r->arena, r->origin, path);
    return there && rt_path_exists(there) && !(file && rt_path_is_dir(there)) ? there : path;
}

static void find_list(rt_run *r, rt_setting_list *l)
{
    for (uint32_t i = 0; i < l->count; i++) l->text[i] = find(r, l->text[i], false);
}

int rt_run_find_inputs(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    rt_settings *f = &r->found;
    if (r->opts->resume) RT_TRY(read_origin(r, e));
    *f = *r->settings;
    if (!r->origin || !*r->origin) return RT_OK;
    f->student = find(r, f->student, false);
    f->teacher = find(r, f->teacher, false);
    f->base = find(r, f->base, false);
    f->chat_template = find(r, f->chat_template, true);
    f->sample_prompts = find(r, f->sample_prompts, true);
    find_list(r, &f->data);
    find_list(r, &f->eval_data);
out:
    return rc;
}

void rt_run_explain_missing(const rt_run *r, int rc, rt_err *e)
{
    static const rt_setting_id models[] = { RT_SETTING_ID_student, RT_SETTING_ID_teacher, RT_SETTING_ID_base };
    const char *const names[] = { r->found.student, r->found.teacher, r->found.base };
    for (int i = 0; r->opts->resume && rc == RT_NOT_FOUND && i < 3; i++) {
        if (!names[i] || rt_path_exists(names[i])) continue;
        const char *flag = rt_setting_table[models[i]].flag;
        bool whole = names[i][0] == '/';
        if (!whole && r->origin && *r->origin)
            rt_err_context(e,
                           "%.150s has %s %.100s; it is neither here nor in %.150s, where the run began; put it back, "
                           "or resume with %s NEW --override if it was moved",
                           r->settings_path, flag, names[i], r->origin, flag);
        else
            rt_err_context(e, "%.200s has %s %.100s%s; resume %s%s NEW --override if it was moved", r->settings_path,
                           flag, names[i], whole ? "" : ", relative to the folder in which the run began",
                           whole ? "with " : "from there, or with ", flag);
        return;
    }
}
