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

/* Of each teacher the model; what is said of it stays. */
static int find_teachers(rt_run *r, rt_setting_list *l, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < l->count; i++) {
        rt_teacher_spec s;
        RT_TRY(rt_teacher_parse(&s, l->text[i], &r->arena, e));
        const char *there = find(r, s.model, false), *options = l->text[i] + strlen(s.model);
        if (there == s.model) continue;
        if (!(l->text[i] = rt_arena_printf(&r->arena, "%s%s", there, options))) RT_TRY(rt_no_memory(e, "a path"));
    }
out:
    return rc;
}

int rt_run_find_inputs(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    rt_settings *f = &r->found;
    if (r->opts->resume) RT_TRY(read_origin(r, e));
    *f = *r->settings;
    if (!r->origin || !*r->origin) return RT_OK;
    f->student = find(r, f->student, false);
    RT_TRY(find_teachers(r, &f->teacher, e));
    f->base = find(r, f->base, false);
    f->chat_template = find(r, f->chat_template, true);
    f->sample_prompts = find(r, f->sample_prompts, true);
    find_list(r, &f->data);
    find_list(r, &f->eval_data);
out:
    return rc;
}

/* Whether it is this model that is not there, which is then said. */
static bool explain(const rt_run *r, const char *flag, const char *name, rt_err *e)
{
    if (!name || rt_path_exists(name)) return false;
    bool whole = name[0] == '/';
    if (!whole && r->origin && *r->origin)
        rt_err_context(e,
                       "%.150s has %s %.100s; it is neither here nor in %.150s, where the run began; put it back, "
                       "or resume with %s NEW --override if it was moved",
                       r->settings_path, flag, name, r->origin, flag);
    else
        rt_err_context(e, "%.200s has %s %.100s%s; resume %s%s NEW --override if it was moved", r->settings_path, flag,
                       name, whole ? "" : ", relative to the folder in which the run began",
                       whole ? "with " : "from there, or with ", flag);
    return true;
}

void rt_run_explain_missing(const rt_run *r, int rc, rt_err *e)
{
    const rt_setting_list *teachers = &r->found.teacher;
    if (!r->opts->resume || rc != RT_NOT_FOUND) return;
    if (explain(r, "--student", r->found.student, e)) return;
    for (uint32_t i = 0; i < teachers->count; i++) {
        rt_arena a = { 0 };
        rt_teacher_spec s;
        bool said = rt_teacher_parse(&s, teachers->text[i], &a, NULL) >= 0 && explain(r, "--teacher", s.model, e);
        rt_arena_free(&a);
        if (said) return;
    }
    explain(r, "--base", r->found.base, e);
}
