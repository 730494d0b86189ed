/* run_hashes.c - what a run reads back of its own, besides checkpoints, was hashed when it was written and is compared
 * before it counts: the logs, which a resumed run continues, and the best model, which becomes the one at the root.
 *
 * Owns: which files these are. Their hashes are kept in every checkpoint ("beside" in state.json), so that each names
 * those of its own time: {"run": {"metrics.jsonl": {"bytes", "hash"}, ...}, "best": {"model.safetensors": hash, ...}}.
 * Settings, token shards and their index carry a hash of their own. */
#include "job/run/run_internal.h"

#include "base/json.h"

#include <inttypes.h>
#include <string.h>

static int put_log(rt_run *r, json_t *logs, const char *name, rt_err *e)
{
    int rc = RT_OK;
    rt_hash128 h;
    uint64_t bytes;
    rt_arena a = { 0 };
    char *path = rt_path_join(&a, r->run, name);
    if (!path) RT_TRY(rt_no_memory(e, "a path"));
    if (!rt_path_exists(path)) goto out;
    RT_TRY(rt_file_size(path, &bytes, e));
    RT_TRY(rt_file_hash(path, &h, e));
    json_t *one = json_pack("{s:I, s:o}", "bytes", (json_int_t)bytes, "hash", rt_hash_to_json(h));
    if (json_object_set_new(logs, name, one) != 0) RT_TRY(rt_no_memory(e, "a record"));
out:
    rt_arena_free(&a);
    return rc;
}

/* What a resumed run continues; the other files of OUT/run are written anew, or are in the hash of the programs
 * (products.tsv). Event files of earlier sessions stay as their last checkpoint had them: what came after is void, and
 * may never have reached the disk. */
int rt_run_hashes_take(rt_run *r, json_t **out, rt_err *e)
{
    int rc = RT_OK;
    const char *const names[] = { "metrics.jsonl", "samples.jsonl", rt_path_base(rt_tfevents_path(r->events_file)) };
    json_t *logs = r->earlier_logs ? json_copy(r->earlier_logs) : json_object();
    *out = json_pack("{s:o, s:O*}", "run", logs, "best", r->best_files);
    if (!*out) RT_TRY(rt_no_memory(e, "a record"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) RT_TRY(put_log(r, logs, names[i], e));
out:
    return rc;
}

/* What follows the first `bytes` is of steps that are done again. */
static int check_log(const char *path, const json_t *was, const char *checkpoint, rt_err *e)
{
    int rc;
    rt_map m = { 0 };
    rt_hash128 want;
    json_int_t bytes = json_integer_value(json_object_get(was, "bytes"));
    rc = rt_map_open(&m, path, e);
    if (rc < 0 && rc != RT_NOT_FOUND) goto out;
    if (rc < 0 || bytes < 0 || m.size < (uint64_t)bytes || !rt_hash_from_json(json_object_get(was, "hash"), &want) ||
        !rt_hash_equal(want, rt_hash(m.data, (size_t)bytes)))
        RT_TRY(rt_fail(e, RT_FORMAT,
                       "%s is not what it was when %s was saved (the hash of its first %" PRIu64
                       " bytes is another); put it back, or remove this checkpoint to resume from the one before it",
                       path, checkpoint, (uint64_t)bytes));
out:
    rt_map_close(&m);
    return rc;
}

/* Of the other checkpoints, those whose record does not hold: that they are of this run cannot be told, so they stay.
 */
static int tell_damaged(rt_run *r, const char *checkpoint, rt_err *e)
{
    int rc;
    char **names;
    uint32_t count;
    char *folder = rt_arena_printf(&r->arena, "%s/..", checkpoint);
    if (!folder) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(rt_dir_list(&names, &count, &r->arena, folder, e));
    for (uint32_t i = 0; i < count; i++) {
        json_t *j = NULL;
        char *file = rt_arena_printf(&r->arena, "%s/%s/state.json", folder, names[i]);
        if (!file) RT_TRY(rt_no_memory(e, "a path"));
        if (strncmp(names[i], "checkpoint-", strlen("checkpoint-")) != 0) continue;
        if (rt_checked_json_read(&j, file, NULL) == RT_FORMAT)
            rt_run_note(r, "%s/state.json is damaged or was altered: this checkpoint is neither used nor removed",
                        names[i]);
        json_decref(j);
    }
out:
    return rc;
}

int rt_run_hashes_check(rt_run *r, const char *checkpoint, rt_err *e)
{
    int rc;
    json_t *beside = NULL, *was;
    const char *name;
    RT_TRY(rt_checkpoint_beside(&beside, checkpoint, e));
    RT_TRY(tell_damaged(r, checkpoint, e));
    if (!beside)
        rt_run_note(r,
                    "%s was written before logs and the best model were hashed: that they are as they were is not "
                    "checked",
                    rt_path_base(checkpoint));
    json_object_foreach(json_object_get(beside, "run"), name, was)
    {
        char *path = strchr(name, '/') ? NULL : rt_path_join(&r->arena, r->run, name);
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        RT_TRY(check_log(path, was, rt_path_base(checkpoint), e));
    }
    r->best_files = json_incref(json_object_get(beside, "best"));
    r->earlier_logs = json_incref(json_object_get(beside, "run"));
out:
    json_decref(beside);
    return rc;
}

/* ---- the best model ---- */

static int best_fault(const char *path, const char *what, const char *remove, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s %s; put it back, or remove %s to take the model of the last step", path, what,
                   remove);
}

/* A file that the best model did not have would be taken for one of it. */
static int refuse_others(rt_run *r, const char *folder, rt_err *e)
{
    int rc = RT_OK;
    char **names;
    uint32_t count = 0;
    if (rt_path_is_dir(folder)) RT_TRY(rt_dir_list(&names, &count, &r->arena, folder, e));
    for (uint32_t i = 0; i < count; i++)
        if (rt_hf_is_name(NULL, names[i]) && !json_object_get(r->best_files, names[i]))
            RT_TRY(rt_fail(e, RT_FORMAT, "%s/%s is not of the model that the run wrote there; remove it", folder,
                           names[i]));
out:
    return rc;
}

int rt_run_best_check(rt_run *r, const char *folder, rt_err *e)
{
    int rc;
    const char *name;
    json_t *value;
    bool there = rt_path_is_dir(folder);
    RT_TRY(refuse_others(r, folder, e));
    json_object_foreach(r->best_files, name, value)
    {
        rt_hash128 want, got;
        char *path = strchr(name, '/') ? NULL : rt_path_join(&r->arena, folder, name);
        if (path && !rt_path_exists(path)) path = rt_path_join(&r->arena, r->out, name); /* it was moved already */
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        const char *remove = there ? folder : path;
        rc = rt_file_hash(path, &got, e);
        if (rc == RT_NOT_FOUND) RT_TRY(best_fault(path, "of the best model is missing", remove, e));
        RT_TRY(rc);
        if (!rt_hash_from_json(value, &want) || !rt_hash_equal(want, got))
            RT_TRY(best_fault(path, "of the best model is damaged or was altered (its hash is another)", remove, e));
    }
out:
    return rc;
}
