/* manifest.c - see evidence.h: the parts of a manifest that depend on files and settings alone. */
#include "evidence/evidence.h"

#include "base/file.h"
#include "base/json.h"
#include "base/lock.h"
#include "format/run_places.h"
#include "settings/settings.h"

#include <string.h>

/* ---- settings ---- */

static json_t *without_folder(const json_t *value)
{
    const char *text = json_string_value(value), *slash = text ? strrchr(text, '/') : NULL;
    return slash ? json_string(slash + 1) : json_deep_copy(value);
}

/* A setting, or null when out of memory. */
static json_t *for_record(const json_t *value)
{
    if (!json_is_array(value)) return without_folder(value);
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(value); i++)
        json_array_append_new(list, without_folder(json_array_get(value, i)));
    return rt_json_complete(list, json_array_size(value));
}

/* "dir/B,weight=0.3,data=dir/x.jsonl" without folders. */
static json_t *teacher_without_folders(const json_t *value)
{
    rt_str out = { 0 };
    const char *at = json_string_value(value);
    while (at && *at) {
        size_t n = strcspn(at, ","), key = 0, from = 0;
        for (size_t i = 0; i < n; i++)
            if (at[i] == '/')
                from = i + 1;
            else if (at[i] == '=' && !key && !from)
                key = i + 1;
        rt_str_printf(&out, "%s%.*s%.*s", out.len ? "," : "", (int)key, at, (int)(n - (from > key ? from : key)),
                      at + (from > key ? from : key));
        at += n + (at[n] == ',');
    }
    json_t *j = out.failed ? NULL : json_string(out.data ? out.data : "");
    rt_str_free(&out);
    return j;
}

static json_t *teachers_for_record(const json_t *value)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < json_array_size(value); i++)
        json_array_append_new(list, teacher_without_folders(json_array_get(value, i)));
    return rt_json_complete(list, json_array_size(value));
}

json_t *rt_manifest_settings(json_t *settings, const char *student, const char *teacher)
{
    json_t *out = settings ? json_object() : NULL, *value;
    const char *key;
    bool kept = out != NULL;
    json_t *several = json_is_array(json_object_get(settings, "teacher")) ? json_object_get(settings, "teacher") : NULL;
    json_object_foreach(settings, key, value) if (kept) kept =
        json_object_set_new(out, key, value == several ? teachers_for_record(value) : for_record(value)) == 0;
    if (kept && student) kept = json_object_set_new(out, "student", json_string(student)) == 0;
    if (kept && teacher && !several) kept = json_object_set_new(out, "teacher", json_string(teacher)) == 0;
    json_decref(settings);
    if (kept) return out;
    json_decref(out);
    return NULL;
}

int rt_manifest_bound_hash(const json_t *settings, rt_hash128 *out, rt_err *e)
{
    json_t *bound = json_object();
    bool kept = bound != NULL;
    for (int i = 0; kept && i < RT_SETTING_COUNT_ALL; i++) {
        const rt_setting_info *f = &rt_setting_table[i];
        json_t *value = json_object_get(settings, f->field);
        if (f->bind != RT_BIND_FREE && value) kept = json_object_set(bound, f->field, value) == 0;
    }
    char *text = kept ? rt_json_dump(bound, JSON_SORT_KEYS | JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(bound);
    if (!text) return rt_no_memory(e, "the settings of a manifest");
    *out = rt_hash(text, strlen(text));
    rt_free(text);
    return RT_OK;
}

void rt_manifest_suspect(const json_t *manifest, rt_evidence *v)
{
    const json_t *one;
    size_t i;
    rt_hash128 h;
    json_array_foreach(json_object_get(manifest, RT_MANIFEST_OTHERS), i, one)
    {
        bool known = rt_hash_from_json(json_object_get(one, "content_hash"), &h);
        if (known && rt_hash_equal(h, v->student_hash)) v->teacher_hash = h;
    }
}

/* ---- files ---- */

enum { DEEPEST = 4 };

static bool is_one_of(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0) return true;
    return false;
}

/* Below OUT/run and in checkpoints everything is the run's; elsewhere what it says it has written. */
static bool is_of_run(const json_t *own, const char *name, bool folder)
{
    size_t n = strcspn(name, "/");
    if (!own || (n == strlen("run") && strncmp(name, "run", n) == 0) || rt_path_of_checkpoint(name)) return true;
    return folder ? strcmp(name, "merged") == 0 : json_object_get(own, name) != NULL;
}

typedef struct listing {
    json_t *out;
    const json_t *own;
    const char *root;
    rt_arena arena;
} listing;

static int list_folder(listing *l, const char *below, int depth, rt_err *e)
{
    rt_arena *a = &l->arena;
    const char *root = l->root;
    static const char *const left_out[] = { "run/manifest.json",
                                            "run/report.html",
                                            "run/compare.html",
                                            "run/log.txt",
                                            "run/dispatch.json",
                                            "run/control",
                                            NULL };
    int rc;
    char **names;
    uint32_t count;
    bool checkpoint = rt_path_of_checkpoint(below);
    RT_TRY(rt_dir_list(&names, &count, a, *below ? rt_path_join(a, root, below) : root, e));
    for (uint32_t i = 0; i < count; i++) {
        rt_hash128 h;
        char *name = *below ? rt_path_join(a, below, names[i]) : names[i];
        char *path = name ? rt_path_join(a, root, name) : NULL;
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        /* With a dot: not finished, or not of the run. */
        if (names[i][0] == '.' || is_one_of(name, left_out) || rt_lock_is_name(names[i])) continue;
        if (strcmp(name, RT_MANIFEST_CONTROL) == 0) continue;
        if (!is_of_run(l->own, name, rt_path_is_dir(path))) continue;
        if (rt_path_is_dir(path)) {
            if (depth < DEEPEST) RT_TRY(list_folder(l, name, depth + 1, e));
            continue;
        }
        if (checkpoint && strcmp(names[i], "state.json") != 0) continue;
        RT_TRY(rt_file_hash(path, &h, e));
        if (json_object_set_new(l->out, name, rt_hash_to_json(h)) != 0)
            RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the hashes of a run, or %s is not UTF-8", path));
    }
out:
    return rc;
}

int rt_manifest_files(json_t *out, const char *root, const json_t *own, rt_err *e)
{
    listing l = { .out = out, .own = own, .root = root };
    int rc = list_folder(&l, "", 0, e);
    rt_arena_free(&l.arena);
    return rc;
}

int rt_manifest_output(rt_model_file **out, const char *root, bool adapters, rt_err *e)
{
    rt_arena a = { 0 };
    const char *path = adapters ? rt_path_join(&a, root, "adapter_model.safetensors") : root;
    int rc = path ? rt_model_file_open(out, path, &(rt_hub_env){ 0 }, e) : rt_no_memory(e, "a path");
    rt_arena_free(&a);
    return rc;
}
