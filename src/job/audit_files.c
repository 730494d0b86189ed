/* audit_files.c - that every file of a run is as it was when the run ended. */
#include "job/audit_internal.h"

#include "base/json.h"
#include "evidence/manifest.h"
#include "train/checkpoint.h"

#include <inttypes.h>
#include <string.h>

static bool of_checkpoint(const char *name) { return strncmp(name, "checkpoint-", strlen("checkpoint-")) == 0; }

/* Problems one after another, as many as a line has room for. */
static void add_problem(rt_str *list, uint32_t *count, const char *name, const char *what)
{
    enum { SHOWN = 4 };
    if (++*count <= SHOWN) rt_str_printf(list, "%s%s %s", list->len ? "; " : "", name, what);
}

static int check_file(rt_verifier *v, const char *name, const json_t *hash, rt_str *bad, uint32_t *problems,
                      uint64_t *bytes, rt_err *e)
{
    rt_hash128 want, got;
    uint64_t size = 0;
    char *path = rt_path_join(&v->arena, v->root, name);
    if (!path) return rt_fail(e, RT_NOMEM, "no memory for a path");
    if (!rt_hash_from_json(hash, &want)) {
        add_problem(bad, problems, name, "has no hash in the manifest");
        return RT_OK;
    }
    int rc = rt_file_hash(path, &got, NULL);
    if (rc == RT_NOMEM) return rt_fail(e, rc, "no memory to read %s", path);
    if (rc < 0)
        add_problem(bad, problems, name, rc == RT_NOT_FOUND ? "is missing" : "cannot be read");
    else if (!rt_hash_equal(want, got))
        add_problem(bad, problems, name, "was altered");
    (void)rt_file_size(path, &size, NULL);
    *bytes += size;
    return RT_OK;
}

/* Files that must be there whatever the manifest lists: without them a run that was emptied would pass. */
static void check_listed(const json_t *files, rt_str *bad, uint32_t *problems)
{
    static const char *const needed[] = { "run/settings.json", "run/metrics.jsonl", "run/verdict.json",
                                          "run/data/train.json" };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!json_object_get(files, needed[i])) add_problem(bad, problems, needed[i], "is not in the manifest");
    if (!json_object_get(files, "config.json") && !json_object_get(files, "adapter_config.json"))
        add_problem(bad, problems, "config.json", "is not in the manifest");
}

int rt_verify_files(rt_verifier *v, rt_err *e)
{
    int rc = RT_OK;
    rt_str bad = { 0 };
    uint32_t count = 0, problems = 0;
    uint64_t bytes = 0;
    char size[32];
    json_t *files = json_object_get(v->manifest, "files"), *value;
    const char *name;
    check_listed(files, &bad, &problems);
    json_object_foreach(files, name, value)
    {
        if (of_checkpoint(name)) continue;
        count++;
        RT_TRY(check_file(v, name, value, &bad, &problems, &bytes, e));
    }
    if (problems)
        rt_verifier_tell(v, "files", RT_CHECK_FAIL, "%s%s", bad.data ? bad.data : "a file was altered",
                         problems > 4 ? "; ..." : "");
    else
        rt_verifier_tell(v, "files", RT_CHECK_PASS, "%" PRIu32 " files, %s: every byte is as the run left it", count,
                         rt_format_bytes(size, bytes));
out:
    rt_str_free(&bad);
    return rc;
}

/* The newest checkpoint counts what the log counts. */
static void compare_state(rt_verifier *v, const char *name, const rt_progress_state *s, rt_str *bad, uint32_t *problems)
{
    const rt_row_totals *l = &v->facts.lines;
    if (s->step != v->facts.steps) return;
    if (s->tokens != l->tokens || s->trained != l->trained || s->cursor.rows != l->rows)
        add_problem(bad, problems, name, "has counted other rows or tokens than the log");
}

int rt_verify_checkpoints(rt_verifier *v, rt_err *e)
{
    int rc;
    rt_str bad = { 0 };
    uint32_t names_count, count = 0, gone = 0, problems = 0;
    char **names;
    json_t *files = json_object_get(v->manifest, "files"), *value;
    const char *name;
    json_object_foreach(files, name, value) if (of_checkpoint(name))
    {
        char *path = rt_path_join(&v->arena, v->root, name);
        rt_hash128 want, got;
        if (!path) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a path"));
        if (rt_file_hash(path, &got, NULL) < 0)
            gone++;
        else if (!rt_hash_from_json(value, &want) || !rt_hash_equal(want, got))
            add_problem(&bad, &problems, name, "was altered");
    }
    RT_TRY(rt_dir_list(&names, &names_count, &v->arena, v->root, e));
    for (uint32_t i = 0; i < names_count; i++) {
        rt_progress_state s;
        rt_err why = { 0 };
        char *path = rt_path_join(&v->arena, v->root, names[i]);
        char *state = rt_arena_printf(&v->arena, "%s/state.json", names[i]);
        if (!path || !state) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a path"));
        if (!of_checkpoint(names[i]) || !rt_path_is_dir(path)) continue;
        count++;
        if (!json_object_get(files, state)) add_problem(&bad, &problems, names[i], "is not of this run");
        rc = rt_checkpoint_check(path, &s, &why);
        if (rc == RT_NOMEM) RT_TRY(rt_fail(e, rc, "%s", why.text));
        if (rc < 0)
            add_problem(&bad, &problems, names[i], "is damaged or was altered");
        else
            compare_state(v, names[i], &s, &bad, &problems);
    }
    rc = RT_OK;
    if (problems)
        rt_verifier_tell(v, "checkpoints", RT_CHECK_FAIL, "%s", bad.data ? bad.data : "one was altered");
    else if (!count)
        rt_verifier_tell(v, "checkpoints", RT_CHECK_NOT_CHECKED, "none is there any more");
    else
        rt_verifier_tell(v, "checkpoints", RT_CHECK_PASS, "%" PRIu32 " whole%s", count,
                         gone ? "; others were removed" : "");
out:
    rt_str_free(&bad);
    return rc;
}
