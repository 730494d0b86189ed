/* audit.c - see audit.h: finding the run, its manifest, its settings, its verdict. */
#include "evidence/audit.h"

#include "base/file.h"
#include "base/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const outcomes[] = { "pass", "fail", "not checked" };
const char *rt_check_name(rt_check_outcome o) { return outcomes[o]; }

void rt_audit_tell(rt_audit *v, const char *name, rt_check_outcome o, const char *format, ...)
{
    rt_check c = { .name = name, .outcome = o };
    va_list args;
    va_start(args, format);
    vsnprintf(c.text, sizeof c.text, format, args);
    va_end(args);
    v->result->of[o]++;
    if (v->report) v->report(v->ctx, &c);
}

/* ---- finding it ---- */

static bool has(rt_audit *v, const char *folder, const char *name)
{
    char *path = rt_path_join(&v->arena, folder, name);
    return path && rt_path_exists(path);
}

static int find_run(rt_audit *v, const char *path, rt_err *e)
{
    char *text = rt_arena_strdup(&v->arena, path);
    if (!text) return rt_no_memory(e, "a path");
    for (size_t n = strlen(text); n > 1 && text[n - 1] == '/'; n--) text[n - 1] = 0;
    if (!rt_path_exists(text)) return rt_fail(e, RT_NOT_FOUND, "%s is not there; name the --out of a run", path);
    if (!rt_path_is_dir(text)) return rt_fail(e, RT_FORMAT, "%s is a file; name the --out of a run", path);
    bool inside = !has(v, text, "run/settings.json") && !has(v, text, "run/manifest.json") &&
                  (has(v, text, "settings.json") || has(v, text, "manifest.json"));
    v->root = inside ? rt_path_join(&v->arena, text, "..") : text;
    v->run = inside ? text : rt_path_join(&v->arena, text, "run");
    if (!v->root || !v->run) return rt_no_memory(e, "a path");
    if (!rt_path_is_dir(v->run)) return rt_fail(e, RT_NOT_FOUND, "%s holds no run; name the --out of one", path);
    return RT_OK;
}

/* ---- the manifest ---- */

static int not_finished(rt_audit *v, const char *path, rt_err *e)
{
    const char *command = json_string_value(json_object_get(v->manifest, "command"));
    return rt_fail(
        e, RT_INVALID,
        "%s has not finished, so there is nothing to verify yet: it is still going, or was stopped, and then "
        "retort %s --resume --out %s resumes it",
        path, command ? command : "distill", rt_shell_word(&v->arena, v->root));
}

/* RT_FORMAT is told as a failed check: nothing else can be believed then. */
static int read_manifest(rt_audit *v, const char *path, bool *usable, rt_err *e)
{
    int rc;
    rt_err why = { 0 };
    char *file = rt_path_join(&v->arena, v->run, "manifest.json");
    *usable = false;
    if (!file) return rt_no_memory(e, "a path");
    rc = rt_checked_json_read(&v->manifest, file, &why);
    if (rc == RT_NOT_FOUND)
        return rt_fail(e, RT_INVALID,
                       "%s has no manifest.json: it was removed, or the run never came to its first step", path);
    if (rc == RT_FORMAT) {
        rt_audit_tell(v, "manifest", RT_CHECK_FAIL, "%s; nothing can be checked against it", why.text);
        return RT_OK;
    }
    if (rc < 0) return rt_fail(e, rc, "%s", why.text);
    const char *format = json_string_value(json_object_get(v->manifest, "format"));
    if (!format || strcmp(format, RT_MANIFEST_FORMAT) != 0)
        return rt_fail(e, RT_UNSUPPORTED, "%s is of another version of retort (%s)", file, format ? format : "unnamed");
    if (!json_is_true(json_object_get(v->manifest, "finished"))) return not_finished(v, path, e);
    rt_hash_from_json(json_object_get(v->manifest, "hash"), &v->result->manifest);
    *usable = true;
    return RT_OK;
}

/* Facts that the log and the models are then compared with. */
static int read_facts(rt_audit *v, bool *usable, rt_err *e)
{
    rt_err why = { 0 };
    char text[33];
    const json_t *m = v->manifest, *teacher = json_object_get(m, "teacher");
    *usable =
        rt_evidence_from_json(&v->facts, json_object_get(m, "measured"), &why) >= 0 &&
        rt_hash_from_json(json_object_get(json_object_get(m, "student"), "content_hash"), &v->facts.student_hash) &&
        (!teacher || rt_hash_from_json(json_object_get(teacher, "content_hash"), &v->facts.teacher_hash));
    v->facts.teacher = teacher != NULL;
    rt_manifest_suspect(m, &v->facts);
    if (why.status == RT_NOMEM) return rt_fail(e, RT_NOMEM, "%s", why.text);
    if (*usable)
        rt_audit_tell(v, "manifest", RT_CHECK_PASS, "its own hash holds: %s", rt_hash_text(text, v->result->manifest));
    else
        rt_audit_tell(v, "manifest", RT_CHECK_FAIL, "%s",
                      why.status < 0 ? why.text : "manifest.json: a hash is not one");
    return RT_OK;
}

/* ---- settings ---- */

/* From which step on all sessions had the settings that are recorded. */
static void find_same_from(rt_audit *v)
{
    const json_t *list = json_object_get(v->manifest, "sessions");
    size_t n = json_array_size(list);
    rt_hash128 last, one;
    for (size_t i = n; i-- > 0;) {
        const json_t *s = json_array_get(list, i);
        bool known = rt_hash_from_json(json_object_get(s, "settings_hash"), i == n - 1 ? &last : &one);
        if (!known || (i < n - 1 && !rt_hash_equal(last, one))) return;
        v->same_from = (uint32_t)json_integer_value(json_object_get(s, "from_step"));
    }
}

static int compare_settings(rt_audit *v, const json_t *settings, bool *same, rt_err *e)
{
    int rc = RT_OK;
    rt_hash128 bound, recorded;
    const json_t *m = v->manifest, *sessions = json_object_get(m, "sessions"),
                 *last = json_array_get(sessions, json_array_size(sessions) - 1);
    json_t *now = rt_manifest_settings(json_deep_copy(settings),
                                       json_string_value(json_object_get(json_object_get(m, "student"), "name")),
                                       json_string_value(json_object_get(json_object_get(m, "teacher"), "name")));
    if (!now) RT_TRY(rt_no_memory(e, "settings"));
    RT_TRY(rt_manifest_bound_hash(now, &bound, e));
    *same = json_equal(now, json_object_get(m, "settings")) &&
            json_integer_value(json_object_get(m, "seed")) == (json_int_t)v->settings.seed &&
            rt_hash_from_json(json_object_get(last, "settings_hash"), &recorded) && rt_hash_equal(bound, recorded);
out:
    json_decref(now);
    return rc;
}

int rt_audit_settings(rt_audit *v, rt_err *e)
{
    int rc;
    bool same = false;
    rt_err why = { 0 };
    json_t *j = NULL;
    char *path = rt_path_join(&v->arena, v->run, "settings.json");
    if (!path) RT_TRY(rt_no_memory(e, "a path"));
    bool checked;
    rc = rt_checked_json_read_old(&j, &checked, path, &why);
    if (rc >= 0) rc = rt_settings_from_json(&v->settings, j, &v->arena, &why);
    if (rc >= 0) rc = rt_settings_defaults(&v->settings, &why); /* what the version that began the run did not have */
    if (rc >= 0) rc = v->resolve(v, &why);
    if (rc == RT_NOMEM) RT_TRY(rt_fail(e, rc, "%s", why.text));
    if (rc < 0) {
        rt_audit_tell(v, "settings", RT_CHECK_FAIL, "%s", why.text);
        rc = RT_OK;
        goto out;
    }
    v->has_settings = true;
    v->facts.ce_weight = v->recorded.ce_weight;
    v->facts.kd_weight = v->recorded.kd_weight;
    find_same_from(v);
    RT_TRY(compare_settings(v, j, &same, e));
    rt_audit_tell(v, "settings", same ? RT_CHECK_PASS : RT_CHECK_FAIL,
                  same ? "settings.json says what the manifest says"
                       : "settings.json says something else than the manifest");
out:
    json_decref(j);
    return rc;
}

/* ---- the verdict ---- */

bool rt_audit_claim_failed(const rt_audit *v, const char *id)
{
    rt_findings f;
    rt_falsify(&f, &v->facts);
    for (uint32_t i = 0; i < f.count; i++)
        if (strcmp(f.list[i].id, id) == 0) return f.list[i].verdict == RT_VERDICT_FAIL;
    return false;
}

int rt_audit_verdict(rt_audit *v, rt_err *e)
{
    int rc;
    rt_findings f;
    json_t *stored = NULL, *now = NULL;
    char *path = rt_path_join(&v->arena, v->run, "verdict.json");
    rt_falsify(&f, &v->facts);
    now = rt_findings_to_json(&f);
    if (!path || !now) RT_TRY(rt_no_memory(e, "a verdict"));
    rc = rt_json_read(&stored, path, e);
    if (rc == RT_NOMEM) goto out;
    if (json_equal(stored, now))
        rt_audit_tell(v, "verdict", RT_CHECK_PASS,
                      "judged again from the log and what was measured, all %" PRIu32 " claims come out the same: "
                      "%" PRIu32 " pass, %" PRIu32 " fail, %" PRIu32 " not measured",
                      f.count, f.of[RT_VERDICT_PASS], f.of[RT_VERDICT_FAIL], f.of[RT_VERDICT_NOT_MEASURED]);
    else {
        const json_t *list = json_object_get(stored, "falsifiers");
        uint32_t i = 0;
        while (i < f.count &&
               json_equal(json_array_get(list, i), json_array_get(json_object_get(now, "falsifiers"), i)))
            i++;
        rt_audit_tell(v, "verdict", RT_CHECK_FAIL,
                      "verdict.json is not what the log and the measurements say, first where it says that %s",
                      i < f.count ? f.list[i].claim : "it ends");
    }
    rc = RT_OK;
out:
    json_decref(stored);
    json_decref(now);
    return rc;
}

int rt_audit_open(rt_audit *v, const char *path, bool *usable, rt_err *e)
{
    int rc;
    *usable = false;
    rt_json_init();
    RT_TRY(find_run(v, path, e));
    RT_TRY(read_manifest(v, path, usable, e));
    if (*usable) RT_TRY(read_facts(v, usable, e));
out:
    return rc;
}

void rt_audit_close(rt_audit *v)
{
    json_decref(v->manifest);
    rt_free(v->steps);
    rt_arena_free(&v->arena);
}
