/* run_root.c - OUT itself: the model that a run puts there, its card and OUT/merged; and what is somebody else's.
 *
 * Owns: OUT/run/root.json, {"files": {"config.json": [hash, ...], "merged/config.json": [...]}}: what the run has
 * written or is about to write there. It is on disk before a name in OUT changes, so that of every file there it can be
 * told whether the run wrote it; anything else under such a name is somebody's, and is never replaced. When a run has
 * ended, each file has one hash: that of the bytes in OUT. */
#include "job/run/run_internal.h"

#include "base/json.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char card_name[] = "README.md";
static const char merged_name[] = "merged";

bool rt_run_has_root(const rt_run *r)
{
    rt_arena a = { 0 };
    char *model = rt_path_join(&a, r->out, "config.json"), *adapter = rt_path_join(&a, r->out, "adapter_config.json");
    bool has = model && adapter && (rt_path_exists(model) || rt_path_exists(adapter));
    rt_arena_free(&a);
    return has;
}

/* ---- what the run wrote ---- */

static bool has_hash(const json_t *list, rt_hash128 h)
{
    rt_hash128 one;
    for (size_t i = 0; i < json_array_size(list); i++)
        if (rt_hash_from_json(json_array_get(list, i), &one) && rt_hash_equal(one, h)) return true;
    return false;
}

/* One more hash that a file may have. */
static int add_hash(json_t *files, const char *name, rt_hash128 h, rt_err *e)
{
    json_t *list = json_object_get(files, name);
    if (!list) {
        if (json_object_set_new(files, name, json_array()) != 0) return rt_no_memory(e, "a record");
        list = json_object_get(files, name);
    }
    if (has_hash(list, h)) return RT_OK;
    return json_array_append_new(list, rt_hash_to_json(h)) == 0 ? RT_OK : rt_no_memory(e, "a record");
}

/* from: {name: hash} or {name: [hash, ...]}, of which those in OUT itself and in OUT/merged count. */
static int add_all(json_t *files, const json_t *from, rt_err *e)
{
    int rc = RT_OK;
    const char *name;
    json_t *value;
    rt_hash128 h;
    json_object_foreach((json_t *)(uintptr_t)from, name, value)
    {
        if (strchr(name, '/') && strncmp(name, "merged/", strlen("merged/")) != 0) continue;
        for (size_t i = 0; i < json_array_size(value); i++)
            if (rt_hash_from_json(json_array_get(value, i), &h)) RT_TRY(add_hash(files, name, h, e));
        if (rt_hash_from_json(value, &h)) RT_TRY(add_hash(files, name, h, e));
    }
out:
    return rc;
}

static char *journal_path(rt_run *r) { return rt_path_join(&r->arena, r->run, "root.json"); }

static int add_journal(rt_run *r, json_t *files, rt_err *e)
{
    json_t *j = NULL;
    char *path = journal_path(r);
    int rc = path ? RT_OK : rt_no_memory(e, "a path");
    if (rc < 0 || !rt_path_exists(path)) return rc;
    rc = rt_checked_json_read(&j, path, e);
    if (rc == RT_FORMAT)
        rt_fail(e, rc,
                "%s is damaged or was altered (its hash is another), so it is not known which files in %s are of the "
                "run; put it back, or remove it and move the model in %s away",
                path, r->out, r->out);
    if (rc >= 0) rc = add_all(files, json_object_get(j, "files"), e);
    json_decref(j);
    return rc;
}

/* Of a run that ended under a version without root.json. */
static int add_manifest(rt_run *r, json_t *files, rt_err *e)
{
    int rc = RT_OK;
    json_t *j = NULL;
    if (rt_path_exists(r->manifest_path) && rt_checked_json_read(&j, r->manifest_path, NULL) >= 0 &&
        json_is_true(json_object_get(j, "finished")))
        rc = add_all(files, json_object_get(j, "files"), e);
    json_decref(j);
    return rc;
}

/* A model that a checkpoint holds, or the best one that it names: a run of such a version was stopped while it moved it
 * to OUT. */
static int add_checkpoints(rt_run *r, json_t *files, rt_err *e)
{
    int rc = RT_OK;
    char **names;
    uint32_t count = 0;
    if (rt_path_is_dir(r->checkpoints)) RT_TRY(rt_dir_list(&names, &count, &r->arena, r->checkpoints, e));
    for (uint32_t i = 0; i < count; i++) {
        json_t *j = NULL;
        char *path = rt_arena_printf(&r->arena, "%s/%s/state.json", r->checkpoints, names[i]);
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        if (!rt_path_of_checkpoint(names[i]) || rt_checked_json_read(&j, path, NULL) < 0) continue;
        rc = add_all(files, json_object_get(j, "files"), e);
        if (rc >= 0) rc = add_all(files, json_object_get(json_object_get(j, "beside"), "best"), e);
        json_decref(j);
        RT_TRY(rc);
    }
out:
    return rc;
}

/* Every hash that a file of the run in OUT may have: {name: [hash, ...]}. */
static int written_by_run(rt_run *r, json_t **out, rt_err *e)
{
    int rc;
    json_t *files = json_object();
    if (!files) RT_TRY(rt_no_memory(e, "a record"));
    RT_TRY(add_journal(r, files, e));
    RT_TRY(add_manifest(r, files, e));
    RT_TRY(add_checkpoints(r, files, e));
    RT_TRY(add_all(files, r->best_files, e));
    *out = files;
    files = NULL;
out:
    json_decref(files);
    return rc;
}

/* r->root to disk. */
static int write_journal(rt_run *r, rt_err *e)
{
    char *path = journal_path(r);
    json_t *j = json_pack("{s:i, s:O}", "version", 1, "files", r->root);
    int rc = rt_run_holds(r, e); /* whatever goes to OUT is announced here first */
    if (rc >= 0) rc = path && j ? rt_checked_json_write(path, j, NULL, e) : rt_no_memory(e, "a record");
    json_decref(j);
    return rc;
}

/* ---- what is there ---- */

static bool is_there(const char *path, mode_t *kind)
{
    struct stat s;
    if (lstat(path, &s) != 0) return false;
    *kind = s.st_mode & S_IFMT;
    return true;
}

typedef struct look {
    rt_run *r;
    json_t *written; /* by the run */
    json_t *present; /* of that what is there: {name: [hash]} */
    rt_str others;   /* "config.json, merged/notes": what is there and is not of the run */
    int (*other)(rt_run *r, const char *name, rt_err *e); /* called with each of the others in OUT; may be null */
} look;

/* *own: the run wrote it, with these bytes. */
static int look_at(look *l, const char *name, bool *own, rt_err *e)
{
    int rc = RT_OK;
    mode_t kind;
    rt_hash128 h;
    char *path = rt_path_join(&l->r->arena, l->r->out, name);
    *own = true;
    if (!path) return rt_no_memory(e, "a path");
    if (!is_there(path, &kind)) return RT_OK;
    const json_t *known = json_object_get(l->written, name);
    *own = kind == S_IFREG && known;
    if (*own) RT_TRY(rt_file_hash(path, &h, e));
    if (*own) *own = has_hash(known, h);
    if (*own) RT_TRY(add_hash(l->present, name, h, e));
    if (!*own) rt_str_printf(&l->others, "%s%s", l->others.len ? ", " : "", name);
out:
    return rc;
}

/* OUT/merged, which is replaced as a whole. */
static int look_at_merged(look *l, rt_err *e)
{
    int rc = RT_OK;
    mode_t kind;
    char **names, *folder = rt_path_join(&l->r->arena, l->r->out, merged_name);
    uint32_t count = 0;
    bool all = true, own;
    if (!folder) return rt_no_memory(e, "a path");
    if (!l->r->settings->merge || !l->r->settings->lora_rank || !is_there(folder, &kind)) return RT_OK;
    if (kind == S_IFDIR) RT_TRY(rt_dir_list(&names, &count, &l->r->arena, folder, e));
    for (uint32_t i = 0; i < count; i++) {
        char *name = rt_path_join(&l->r->arena, merged_name, names[i]);
        if (!name) RT_TRY(rt_no_memory(e, "a path"));
        RT_TRY(look_at(l, name, &own, e));
        all &= own;
    }
    if (kind != S_IFDIR) rt_str_printf(&l->others, "%smerged", l->others.len ? ", " : "");
    if ((!all || kind != S_IFDIR) && l->other) RT_TRY(l->other(l->r, merged_name, e));
out:
    return rc;
}

/* Every name in OUT that a model has: what is not of the run goes into others. The card is the user's if he edited it.
 */
static int look_around(look *l, rt_err *e)
{
    int rc;
    char **names;
    uint32_t count;
    bool own;
    l->present = json_object();
    if (!l->present) RT_TRY(rt_no_memory(e, "a record"));
    RT_TRY(written_by_run(l->r, &l->written, e));
    RT_TRY(rt_dir_list(&names, &count, &l->r->arena, l->r->out, e));
    for (uint32_t i = 0; i < count; i++) {
        size_t len = l->others.len;
        bool card = strcmp(names[i], card_name) == 0;
        if (!card && !rt_hf_is_name(NULL, names[i])) continue;
        RT_TRY(look_at(l, names[i], &own, e));
        if (!own && card) l->others.len = len;
        if (!own && !card && l->other) RT_TRY(l->other(l->r, names[i], e));
    }
    RT_TRY(look_at_merged(l, e));
    if (l->others.failed) RT_TRY(rt_no_memory(e, "a list of names"));
    json_decref(l->r->root);
    l->r->root = json_incref(l->present);
out:
    return rc;
}

static void look_done(look *l)
{
    json_decref(l->written);
    json_decref(l->present);
    rt_str_free(&l->others);
}

int rt_run_root_check(rt_run *r, rt_err *e)
{
    int rc;
    look l = { .r = r };
    RT_TRY(look_around(&l, e));
    if (l.others.len)
        RT_TRY(rt_fail(e, RT_FORMAT,
                       "in %s there is %.*s, which this run did not write, or which was altered since: the model of "
                       "the run goes there, and nothing of yours is replaced; move it away and resume again",
                       r->out, (int)l.others.len, l.others.data));
out:
    look_done(&l);
    return rc;
}

int rt_run_root_keep(rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    bool known = true;
    const char *name;
    json_t *value, *journal = json_object();
    rt_hash128 h;
    if (!journal) RT_TRY(rt_no_memory(e, "a record"));
    RT_TRY(add_journal(r, journal, e));
    json_object_foreach(r->root, name, value) known =
        known && rt_hash_from_json(json_array_get(value, 0), &h) && has_hash(json_object_get(journal, name), h);
    if (!known) RT_TRY(write_journal(r, e));
out:
    json_decref(journal);
    return rc;
}

/* ---- writing ---- */

/* Under the first name that is free: config.json.yours-1. */
static int set_aside(rt_run *r, const char *name, rt_err *e)
{
    int code = EEXIST;
    char *path = rt_path_join(&r->arena, r->out, name), *aside = NULL;
    mode_t kind;
    for (int i = 1; path && code == EEXIST && i < 1000; i++) {
        aside = rt_arena_printf(&r->arena, "%s.yours-%d", path, i);
        if (!aside) break;
        if (is_there(aside, &kind)) continue;
        code = renameat2(AT_FDCWD, path, AT_FDCWD, aside, RENAME_NOREPLACE) == 0 ? 0 : errno;
        if (code == EINVAL || code == ENOSYS || code == ENOTSUP) code = rename(path, aside) == 0 ? 0 : errno;
    }
    if (!path || !aside) return rt_no_memory(e, "a path");
    if (code) return rt_fail(e, RT_IO, "%s cannot become %s: %s", path, aside, strerror(code));
    rt_run_note(r, "%s came into %s while the run went on and is not of it: it is now called %s", name, r->out,
                rt_path_base(aside));
    return rt_folder_sync(path, e);
}

int rt_run_root_clear(rt_run *r, rt_err *e)
{
    look l = { .r = r, .other = set_aside };
    int rc = look_around(&l, e);
    look_done(&l);
    return rc;
}

/* Without it nobody takes a folder for a model, or for an adapter. */
static bool is_last_file(const char *name)
{
    return strcmp(name, "config.json") == 0 || strcmp(name, "adapter_config.json") == 0;
}

/* The hashes of what is about to be in OUT, under names that begin with `below`: on disk, beside what is there now. */
static int announce(rt_run *r, const char *below, const json_t *hashes, rt_err *e)
{
    int rc = RT_OK;
    rt_hash128 h;
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)hashes, name, value)
    {
        char *full = rt_arena_printf(&r->arena, "%s%s", below, name);
        if (!full) RT_TRY(rt_no_memory(e, "a path"));
        if (rt_hash_from_json(value, &h)) RT_TRY(add_hash(r->root, full, h, e));
    }
    RT_TRY(write_journal(r, e));
out:
    return rc;
}

/* They are there now: what was there before is forgotten. */
static int settle(rt_run *r, const char *below, const json_t *hashes, rt_err *e)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)hashes, name, value)
    {
        char *full = rt_arena_printf(&r->arena, "%s%s", below, name);
        if (!full || json_object_set_new(r->root, full, json_pack("[O]", value)) != 0)
            return rt_no_memory(e, "a record");
    }
    return RT_OK;
}

/* One file to OUT. One of ours is replaced; what has come there since it was looked at is set aside. */
static int move_file(rt_run *r, const char *from, const char *name, rt_err *e)
{
    int rc = RT_OK, code = 0;
    char *to = rt_path_join(&r->arena, r->out, name);
    bool replaces = json_array_size(json_object_get(r->root, name)) > 1;
    if (!to) return rt_no_memory(e, "the files of a run");
    if ((rc = rt_run_holds(r, e)) < 0) return rc;
    if (!replaces && renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0) return RT_OK;
    if (!replaces && errno == EEXIST) {
        look l = { .r = r, .written = r->root, .present = json_object() };
        bool own = false;
        rc = l.present ? look_at(&l, name, &own, e) : rt_no_memory(e, "a record");
        if (rc >= 0 && !own) rc = set_aside(r, name, e);
        json_decref(l.present);
        rt_str_free(&l.others);
    }
    if (rc >= 0 && rename(from, to) != 0) code = errno;
    return code ? rt_fail(e, RT_IO, "%s cannot become %s: %s", from, to, strerror(code)) : rc;
}

/* Moves the files of a model to the root, that one last, so that a model is there only when it is whole. Can be done
 * again after it was stopped half-way: the folder goes last of all, unless somebody has put something else into it. */
static int move_up(rt_run *r, const char *folder, const json_t *hashes, rt_err *e)
{
    int rc;
    char **names, *beside = rt_path_join(&r->arena, r->out, "config.json");
    uint32_t count;
    RT_TRY(announce(r, "", hashes, e));
    RT_TRY(rt_dir_list(&names, &count, &r->arena, folder, e));
    if (!beside) RT_TRY(rt_no_memory(e, "the files of a run"));
    for (int last = 0; last < 2; last++) {
        for (uint32_t i = 0; i < count; i++) {
            if (!json_object_get(hashes, names[i]) || is_last_file(names[i]) != (last == 1)) continue;
            char *from = rt_path_join(&r->arena, folder, names[i]);
            if (!from) RT_TRY(rt_no_memory(e, "the files of a run"));
            RT_TRY(move_file(r, from, names[i], e));
        }
        RT_TRY(rt_folder_sync(beside, e));
    }
    RT_TRY(settle(r, "", hashes, e));
    /* Whoever finds the run ended finds no name of it left. */
    if (rmdir(folder) == 0) RT_TRY(rt_folder_sync(folder, e));
out:
    return rc;
}

/* {name: hash} of the files of a model in a folder. */
static int model_hashes(json_t **out, rt_arena *a, const char *folder, rt_err *e)
{
    int rc;
    char **names;
    uint32_t count;
    rt_hash128 h;
    *out = json_object();
    if (!*out) RT_TRY(rt_no_memory(e, "a record"));
    RT_TRY(rt_dir_list(&names, &count, a, folder, e));
    for (uint32_t i = 0; i < count; i++) {
        char *path = rt_path_join(a, folder, names[i]);
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        if (!rt_hf_is_name(NULL, names[i])) continue;
        RT_TRY(rt_file_hash(path, &h, e));
        if (json_object_set_new(*out, names[i], rt_hash_to_json(h)) != 0) RT_TRY(rt_no_memory(e, "a record"));
    }
out:
    return rc;
}

int rt_run_write_root(rt_run *r, const char *from, rt_err *e)
{
    int rc;
    json_t *hashes = NULL;
    char *temp = NULL, *name = rt_path_join(&r->arena, r->out, "root");
    if (!name) RT_TRY(rt_no_memory(e, "the files of a run"));
    if (!from) {
        RT_TRY(rt_dir_temp(&temp, &r->arena, name, e));
        RT_TRY(rt_output_write(temp, r->trainer, &r->output, e));
    }
    if (from && r->best_files)
        hashes = json_incref(r->best_files); /* they were compared */
    else
        RT_TRY(model_hashes(&hashes, &r->arena, from ? from : temp, e));
    RT_TRY(move_up(r, from ? from : temp, hashes, e));
    temp = NULL;
out:
    if (temp) rt_dir_remove(temp);
    json_decref(hashes);
    return rc;
}

/* Made whole below a temporary name, so that its hashes are known before it is in OUT. */
int rt_run_write_merged(rt_run *r, rt_err *e)
{
    int rc;
    json_t *hashes = NULL;
    char *path = rt_path_join(&r->arena, r->out, merged_name), *temp = NULL, *model;
    if (!path) RT_TRY(rt_no_memory(e, "the files of a run"));
    RT_TRY(rt_dir_temp(&temp, &r->arena, path, e));
    if (!(model = rt_path_join(&r->arena, temp, merged_name))) RT_TRY(rt_no_memory(e, "the files of a run"));
    RT_TRY(rt_output_merged(model, r->trainer, &r->output, e));
    RT_TRY(model_hashes(&hashes, &r->arena, model, e));
    RT_TRY(announce(r, "merged/", hashes, e));
    RT_TRY(rt_path_exists(path) ? rt_dir_replace(model, path, rt_hf_is_name, NULL, e) : rt_dir_commit(model, path, e));
    RT_TRY(settle(r, "merged/", hashes, e));
out:
    if (temp) rt_dir_remove(temp);
    json_decref(hashes);
    return rc;
}

int rt_run_put_card(rt_run *r, const rt_str *text, rt_err *e)
{
    int rc;
    bool own = false;
    look l = { .r = r, .written = r->root, .present = json_object() };
    json_t *hashes = json_pack("{s:o}", card_name, rt_hash_to_json(rt_hash(text->data, text->len)));
    char *path = rt_path_join(&r->arena, r->out, card_name), *instead = rt_path_join(&r->arena, r->run, card_name);
    if (!hashes || !l.present || !path || !instead) RT_TRY(rt_no_memory(e, "the model card"));
    RT_TRY(look_at(&l, card_name, &own, e));
    if (own) {
        RT_TRY(announce(r, "", hashes, e));
        RT_TRY(rt_file_write(path, text->data, text->len, e));
        RT_TRY(settle(r, "", hashes, e));
    } else {
        json_object_del(r->root, card_name);
        RT_TRY(rt_file_write(instead, text->data, text->len, e));
        rt_run_note(r, "%s is not as the run wrote it and stays as it is; the card of this run is %s", path, instead);
    }
    RT_TRY(write_journal(r, e));
out:
    json_decref(l.present);
    rt_str_free(&l.others);
    json_decref(hashes);
    return rc;
}
