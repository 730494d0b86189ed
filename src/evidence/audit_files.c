/* audit_files.c - that every file of a run is as it was when the run ended. */
#include "evidence/audit.h"

#include "base/file.h"
#include "base/json.h"
#include "format/run_places.h"
#include "format/tensor/model_out.h"

#include <inttypes.h>
#include <string.h>

/* Manifests of old list what of a control was there when the run had ended. */
static bool of_control(const char *name)
{
    size_t n = strlen(RT_MANIFEST_CONTROL);
    return strncmp(name, RT_MANIFEST_CONTROL, n) == 0 && name[n] == '/';
}

void rt_problem_add(rt_problems *p, const char *name, const char *what)
{
    enum { SHOWN = 4 };
    if (p->count++ < SHOWN) rt_str_printf(&p->list, "%s%s %s", p->list.len ? "; " : "", name, what);
}

static int check_file(rt_audit *v, const char *name, const json_t *hash, rt_problems *bad, uint64_t *bytes, rt_err *e)
{
    rt_hash128 want, got;
    uint64_t size = 0;
    char *path = rt_path_join(&v->arena, v->root, name);
    if (!path) return rt_no_memory(e, "a path");
    if (!rt_hash_from_json(hash, &want)) {
        rt_problem_add(bad, name, "has no hash in the manifest");
        return RT_OK;
    }
    int rc = rt_file_hash(path, &got, NULL);
    if (rc == RT_NOMEM) return rt_fail(e, rc, "no memory to read %s", path);
    if (rc < 0)
        rt_problem_add(bad, name, rc == RT_NOT_FOUND ? "is missing" : "cannot be read");
    else if (!rt_hash_equal(want, got))
        rt_problem_add(bad, name, "was altered");
    (void)rt_file_size(path, &size, NULL);
    *bytes += size;
    return RT_OK;
}

/* Files that must be there whatever the manifest lists: without them a run that was emptied would pass. */
static void check_listed(const json_t *files, rt_problems *bad)
{
    static const char *const needed[] = { "run/settings.json", "run/metrics.jsonl", "run/verdict.json",
                                          "run/data/train.json" };
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (!json_object_get(files, needed[i])) rt_problem_add(bad, needed[i], "is not in the manifest");
    if (!json_object_get(files, "config.json") && !json_object_get(files, "adapter_config.json"))
        rt_problem_add(bad, "config.json", "is not in the manifest");
}

/* What would be loaded with the model and is not of it. */
static int check_others(rt_audit *v, const json_t *files, rt_problems *bad, rt_err *e)
{
    char **names;
    uint32_t count;
    int rc = rt_dir_list(&names, &count, &v->arena, v->root, e);
    for (uint32_t i = 0; rc >= 0 && i < count; i++)
        if (rt_hf_is_name(NULL, names[i]) && !json_object_get(files, names[i]))
            rt_problem_add(bad, names[i], "is not of the run, and whoever loads the model would take it for a part");
    return rc;
}

int rt_audit_files(rt_audit *v, rt_err *e)
{
    int rc = RT_OK;
    rt_problems bad = { 0 };
    uint32_t count = 0;
    uint64_t bytes = 0;
    char size[32];
    json_t *files = json_object_get(v->manifest, "files"), *value;
    const char *name;
    check_listed(files, &bad);
    json_object_foreach(files, name, value)
    {
        if (rt_path_of_checkpoint(name) || of_control(name)) continue;
        count++;
        RT_TRY(check_file(v, name, value, &bad, &bytes, e));
    }
    RT_TRY(check_others(v, files, &bad, e));
    if (bad.count)
        rt_audit_tell(v, "files", RT_CHECK_FAIL, "%s%s", bad.list.data ? bad.list.data : "a file was altered",
                      bad.count > 4 ? "; ..." : "");
    else
        rt_audit_tell(v, "files", RT_CHECK_PASS, "%" PRIu32 " files, %s: every byte is as the run left it", count,
                      rt_format_bytes(size, bytes));
out:
    rt_str_free(&bad.list);
    return rc;
}
