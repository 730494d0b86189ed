/* audit_checkpoints.c - that the checkpoints which are still there are whole, of this run, and count what the log
 * counts. */
#include "job/audit_internal.h"

#include "base/file.h"
#include "base/json.h"
#include "train/checkpoint.h"

#include <inttypes.h>
#include <string.h>

/* The newest checkpoint counts what the log counts. */
static void compare_state(rt_audit *v, const char *name, const rt_progress_state *s, rt_problems *bad)
{
    const rt_row_totals *l = &v->facts.lines;
    if (s->step != v->facts.steps) return;
    if (s->tokens != l->tokens || s->trained != l->trained || s->cursor.rows != l->rows)
        rt_problem_add(bad, name, "has counted other rows or tokens than the log");
}

/* Which file, from what rt_checkpoint_check says: "PATH: what is wrong; what to do". */
static const char *damage(rt_err *why, const char *path)
{
    size_t n = strlen(path);
    char *end = strchr(why->text, ';');
    if (end) *end = 0;
    return strncmp(why->text, path, n) == 0 && why->text[n] == ':' ? why->text + n : "is damaged or was altered";
}

int rt_audit_checkpoints(rt_audit *v, rt_err *e)
{
    int rc;
    rt_problems bad = { 0 };
    uint32_t names_count = 0, count = 0, gone = 0;
    char **names;
    json_t *files = json_object_get(v->manifest, "files"), *value;
    const char *name;
    json_object_foreach(files, name, value) if (rt_path_of_checkpoint(name))
    {
        char *path = rt_path_join(&v->arena, v->root, name);
        rt_hash128 want, got;
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        if (rt_file_hash(path, &got, NULL) < 0)
            gone++;
        else if (!rt_hash_from_json(value, &want) || !rt_hash_equal(want, got))
            rt_problem_add(&bad, name, "was altered");
    }
    const char *folder = rt_checkpoints_of(&v->arena, v->root);
    if (!folder) RT_TRY(rt_no_memory(e, "a path"));
    if (rt_path_is_dir(folder)) RT_TRY(rt_dir_list(&names, &names_count, &v->arena, folder, e));
    for (uint32_t i = 0; i < names_count; i++) {
        rt_progress_state s;
        rt_err why = { 0 };
        char *path = rt_path_join(&v->arena, folder, names[i]);
        char *state =
            rt_arena_printf(&v->arena, "%s%s/state.json", folder == v->root ? "" : RT_CHECKPOINTS "/", names[i]);
        if (!path || !state) RT_TRY(rt_no_memory(e, "a path"));
        if (!rt_path_of_checkpoint(names[i]) || !rt_path_is_dir(path)) continue;
        count++;
        if (!json_object_get(files, state)) rt_problem_add(&bad, names[i], "is not of this run");
        rc = rt_checkpoint_check(path, &s, &why);
        if (rc == RT_NOMEM) RT_TRY(rt_fail(e, rc, "%s", why.text));
        if (rc < 0)
            rt_problem_add(&bad, names[i], damage(&why, path));
        else
            compare_state(v, names[i], &s, &bad);
    }
    rc = RT_OK;
    if (bad.count)
        rt_audit_tell(v, "checkpoints", RT_CHECK_FAIL, "%s", bad.list.data ? bad.list.data : "one was altered");
    else if (!count)
        rt_audit_tell(v, "checkpoints", RT_CHECK_NOT_CHECKED,
                      "none is there any more: the model cannot be compared with what was trained");
    else
        rt_audit_tell(v, "checkpoints", RT_CHECK_PASS, "%" PRIu32 " whole%s", count,
                      gone ? "; others were removed" : "");
out:
    rt_str_free(&bad.list);
    return rc;
}
