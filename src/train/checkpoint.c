/* checkpoint.c - see checkpoint.h. */
#include "train/checkpoint.h"

#include "base/json.h"
#include "format/tensor_file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char prefix[] = RT_CHECKPOINT_PREFIX;
static const char best_prefix[] = RT_BEST_PREFIX;
static const char kinds[] = "wmvs"; /* rt_trainer_state_elems; the last only with moments of 8 bits */

/* Which slice is whose is in the program. */
static bool has_slices(const rt_plan *p)
{
    for (uint32_t t = 0; t < p->nops; t++)
        if (p->ops[t].kind == RT_OP_REDUCE_SCATTER || p->ops[t].kind == RT_OP_ALL_GATHER) return true;
    return false;
}

int rt_programs_hash(const rt_trainer *t, bool of_all, rt_hash128 *out, rt_err *e)
{
    int rc = RT_OK;
    rt_hash128 each[RT_PROGRAM_LOGITS] = { 0 }; /* those before it decide the curve; it only looks */
    for (int i = 0; i < RT_PROGRAM_LOGITS; i++)
        if (t->plan->plan[i] && !(of_all && has_slices(t->plan->plan[i])))
            RT_TRY(rt_exec_hash(t->x, t->plan->index[i], &each[i], e));
    *out = rt_hash(each, sizeof each);
out:
    return rc;
}

/* ---- the state file ---- */

typedef struct state_list {
    rt_trainer *t;
    rt_named_tensor *list;
    uint32_t *param; /* (count): entry i is of parameter param[i] */
    char *kind;      /* (count), and of this kind */
    uint32_t count;
} state_list;

/* "w.model.norm.weight", "m...", "v..." (and "s...") of every trained parameter. */
static int make_list(state_list *l, rt_trainer *t, rt_arena *a, rt_err *e)
{
    const rt_decoder *d = t->plan->student;
    char name[RT_NAME_BYTES];
    *l = (state_list){ .t = t };
    l->list = rt_arena_alloc(a, strlen(kinds) * (size_t)d->param_count * sizeof *l->list);
    l->param = rt_arena_alloc(a, strlen(kinds) * (size_t)d->param_count * sizeof *l->param);
    l->kind = rt_arena_alloc(a, strlen(kinds) * (size_t)d->param_count);
    if (!l->list || !l->param || !l->kind) return rt_no_memory(e, "a checkpoint");
    for (uint32_t i = 0; i < d->param_count; i++)
        for (const char *k = kinds; *k && d->params[i].grad.buf; k++) {
            const rt_param *p = &d->params[i];
            uint64_t elems = rt_trainer_state_elems(t, *k, i), rows = p->value.rows;
            if (!elems) continue;
            rt_param_name(name, p);
            l->list[l->count] = (rt_named_tensor){
                rt_arena_printf(a, "%c.%s", *k, name), rt_trainer_state_dtype(t, *k, i), 2, { rows, elems / rows }
            };
            if (!l->list[l->count].name) return rt_no_memory(e, "a checkpoint");
            l->kind[l->count] = *k;
            l->param[l->count++] = i;
        }
    return RT_OK;
}

static int state_values(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *dst, rt_err *e)
{
    state_list *l = ctx;
    rt_watch_tell(l->t->watch, "saving the checkpoint", i, l->count);
    return rt_trainer_read_state(l->t, l->kind[i], l->param[i], first, n, dst, e);
}

/* ---- state.json ---- */

int rt_folder_hashes(json_t *out, const char *folder, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    char **names;
    uint32_t count;
    RT_TRY(rt_dir_list(&names, &count, &a, folder, e));
    for (uint32_t i = 0; i < count; i++) {
        rt_hash128 h;
        char *path = rt_path_join(&a, folder, names[i]);
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        if (strcmp(names[i], "state.json") == 0) continue;
        RT_TRY(rt_file_hash(path, &h, e));
        if (json_object_set_new(out, names[i], rt_hash_to_json(h)) != 0) RT_TRY(rt_no_memory(e, "a record"));
    }
out:
    rt_arena_free(&a);
    return rc;
}

static int write_record(const char *folder, const rt_progress_state *s, rt_arena *a, rt_err *e)
{
    int rc;
    char *path = rt_path_join(a, folder, "state.json");
    rt_json_init();
    json_t *files = json_object(), *j = NULL;
    if (!files || !path) RT_TRY(rt_no_memory(e, "a record"));
    RT_TRY(rt_folder_hashes(files, folder, e));
    j = json_pack("{s:i, s:I, s:o, s:I, s:I, s:f, s:I, s:o?, s:I, s:o, s:O}", "version", 1, "step", (json_int_t)s->step,
                  "cursor", rt_cursor_to_json(&s->cursor), "tokens", (json_int_t)s->tokens, "trained",
                  (json_int_t)s->trained, "seconds", s->seconds, "metrics_bytes", (json_int_t)s->metrics_bytes, "best",
                  isnan(s->best) ? NULL : json_real(s->best), "best_step", (json_int_t)s->best_step, "programs",
                  rt_hash_to_json(s->programs), "files", files);
    if (!j || (s->beside && json_object_set(j, "beside", s->beside) != 0)) RT_TRY(rt_no_memory(e, "a record"));
    RT_TRY(rt_checked_json_write(path, j, NULL, e));
out:
    json_decref(j);
    json_decref(files);
    return rc;
}

/* ---- whose folder it is ---- */

/* What state.json lists of a folder, for in_record; null when it is no checkpoint. */
static json_t *record_of(rt_arena *a, const char *path)
{
    json_t *j = NULL, *files = NULL;
    char *file = rt_path_join(a, path, "state.json");
    if (file && rt_checked_json_read(&j, file, NULL) >= 0) files = json_incref(json_object_get(j, "files"));
    json_decref(j);
    return files;
}

static bool in_record(void *files, const char *name)
{
    return strcmp(name, "state.json") == 0 || json_object_get(files, name) != NULL;
}

/* Written by a run, with nothing of anybody else's in it: it may be removed. */
static bool is_own(rt_arena *a, const char *path, const char *kind)
{
    if (kind == best_prefix) return rt_dir_holds_only(path, rt_hf_is_name, NULL);
    json_t *files = record_of(a, path);
    bool own = files && rt_dir_holds_only(path, in_record, files);
    json_decref(files);
    return own;
}

/* ---- saving ---- */

/* Of the same step: one of ours goes, anything else stays and is said. */
static int put_in_place(rt_arena *a, const char *temp, const char *path, rt_err *e)
{
    if (!rt_path_exists(path)) return rt_dir_commit(temp, path, e);
    json_t *files = record_of(a, path);
    int rc = rt_dir_replace(temp, path, in_record, files, e);
    json_decref(files);
    return rc;
}

int rt_checkpoint_save(const char *folder, rt_trainer *t, const rt_output *model, const rt_progress_state *s, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    state_list l;
    char *temp = NULL, *state, *path = rt_arena_printf(&a, "%s/%s%06u", folder, prefix, s->step);
    if (!path) RT_TRY(rt_no_memory(e, "a checkpoint"));
    RT_TRY(make_list(&l, t, &a, e));
    RT_TRY(rt_dir_temp(&temp, &a, path, e));
    RT_TRY(rt_output_write(temp, t, model, e));
    state = rt_path_join(&a, temp, "state.safetensors");
    if (!state) RT_TRY(rt_no_memory(e, "a checkpoint"));
    RT_TRY(rt_tensor_file_write(state, l.list, l.count, state_values, &l, NULL, e));
    RT_TRY(write_record(temp, s, &a, e));
    RT_TRY(put_in_place(&a, temp, path, e));
    temp = NULL;
out:
    if (temp) rt_dir_remove(temp);
    rt_arena_free(&a);
    return rc;
}

int rt_checkpoint_bytes(rt_trainer *t, const rt_output *model, uint64_t *bytes, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    state_list l;
    uint64_t state = 0;
    RT_TRY(make_list(&l, t, &a, e));
    RT_TRY(rt_output_bytes(t, model, bytes, e));
    RT_TRY(rt_tensor_file_bytes(l.list, l.count, &state, e));
    *bytes += state;
out:
    rt_arena_free(&a);
    return rc;
}

/* ---- finding and reading ---- */

static int damaged(const char *path, const char *what, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: %s; remove this checkpoint to resume from the one before it", path, what);
}

static int read_record(const char *path, const json_t *j, rt_progress_state *s, rt_err *e)
{
    int rc;
    json_int_t version = 0, step = 0, tokens = 0, trained = 0, bytes = 0, best_step = 0;
    json_t *cursor = NULL, *programs = NULL, *best = json_object_get(j, "best");
    if (json_unpack((json_t *)(uintptr_t)j, "{s:I, s:I, s:o, s:I, s:I, s:F, s:I, s:I, s:o}", "version", &version,
                    "step", &step, "cursor", &cursor, "tokens", &tokens, "trained", &trained, "seconds", &s->seconds,
                    "metrics_bytes", &bytes, "best_step", &best_step, "programs", &programs) != 0 ||
        step < 0 || step > UINT32_MAX || !rt_hash_from_json(programs, &s->programs))
        return damaged(path, "state.json is not what a checkpoint has", e);
    if (version != 1) return rt_fail(e, RT_UNSUPPORTED, "%s was written by a newer retort", path);
    RT_TRY(rt_cursor_from_json(&s->cursor, cursor, e));
    s->step = (uint32_t)step;
    s->tokens = (uint64_t)tokens;
    s->trained = (uint64_t)trained;
    s->metrics_bytes = (uint64_t)bytes;
    s->best_step = (uint32_t)best_step;
    s->best = json_is_number(best) ? json_number_value(best) : NAN;
out:
    return rc;
}

static int check_files(const char *path, const json_t *files, rt_arena *a, rt_err *e)
{
    const char *name;
    json_t *value;
    if (!json_is_object(files) || json_object_size(files) == 0) return damaged(path, "state.json names no files", e);
    json_object_foreach((json_t *)(uintptr_t)files, name, value)
    {
        rt_hash128 want, got;
        char *file = rt_path_join(a, path, name);
        if (!file) return rt_no_memory(e, "a path");
        if (strchr(name, '/') || !rt_hash_from_json(value, &want))
            return damaged(path, "state.json is not what a checkpoint has", e);
        int rc = rt_file_hash(file, &got, e);
        if (rc == RT_NOT_FOUND) return damaged(path, rt_arena_printf(a, "%s is missing", name), e);
        if (rc < 0) return rc;
        if (!rt_hash_equal(want, got))
            return damaged(path, rt_arena_printf(a, "%s is damaged (its hash is another)", name), e);
    }
    return RT_OK;
}

int rt_checkpoint_check(const char *path, rt_progress_state *s, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    json_t *j = NULL;
    char *file = rt_path_join(&a, path, "state.json");
    *s = (rt_progress_state){ 0 };
    if (!file) RT_TRY(rt_no_memory(e, "a path"));
    rc = rt_checked_json_read(&j, file, e);
    if (rc == RT_NOT_FOUND) RT_TRY(damaged(path, "state.json is missing", e));
    if (rc == RT_FORMAT) RT_TRY(damaged(path, "state.json is damaged (its hash is another)", e));
    RT_TRY(rc);
    RT_TRY(read_record(path, j, s, e));
    RT_TRY(check_files(path, json_object_get(j, "files"), &a, e));
out:
    json_decref(j);
    rt_arena_free(&a);
    return rc;
}

int rt_checkpoint_beside(json_t **out, const char *path, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    json_t *j = NULL;
    char *file = rt_path_join(&a, path, "state.json");
    *out = NULL;
    if (!file) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(rt_checked_json_read(&j, file, e));
    *out = json_incref(json_object_get(j, "beside"));
out:
    json_decref(j);
    rt_arena_free(&a);
    return rc;
}

static int load_tensor(state_list *l, uint32_t i, const rt_tensor *from, rt_err *e)
{
    enum { PIECE = 1 << 20 };
    int rc = RT_OK;
    uint64_t all = rt_trainer_state_elems(l->t, l->kind[i], l->param[i]);
    for (uint64_t first = 0; first < all; first += PIECE) {
        uint64_t n = all - first < PIECE ? all - first : PIECE;
        const void *values = (const uint8_t *)from->data + rt_dtype_bytes(from->dtype, first);
        RT_TRY(rt_trainer_put_state(l->t, l->kind[i], l->param[i], first, n, values, e));
    }
out:
    return rc;
}

/* Moments in another dtype are those of another --optimizer, and are not converted. */
static int check_moments(const char *path, const rt_model_file *f, const state_list *l, rt_err *e)
{
    for (uint32_t i = 0; i < l->count; i++) {
        const rt_tensor *from = l->kind[i] == 'w' ? NULL : rt_model_file_find(f, l->list[i].name);
        if (from && from->dtype != l->list[i].dtype)
            return rt_fail(e, RT_INVALID,
                           "%s has moments in %s and this run has %s: resume with the --optimizer that it began with",
                           path, rt_dtype_name(from->dtype), rt_dtype_name(l->list[i].dtype));
    }
    return RT_OK;
}

int rt_checkpoint_load(const char *path, rt_trainer *t, rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    rt_model_file *f = NULL;
    state_list l;
    char *state = rt_path_join(&a, path, "state.safetensors");
    if (!state) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(make_list(&l, t, &a, e));
    RT_TRY(rt_model_file_open(&f, state, &(rt_hub_env){ 0 }, e));
    RT_TRY(check_moments(path, f, &l, e));
    if (f->tensor_count != l.count)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "%s holds %u tensors and this run trains %u: it is of another model or other settings", path,
                       f->tensor_count, l.count));
    for (uint32_t i = 0; i < l.count; i++) {
        const rt_tensor *from = rt_model_file_find(f, l.list[i].name);
        uint64_t elems = rt_trainer_state_elems(t, l.kind[i], l.param[i]);
        if (!from || from->dtype != l.list[i].dtype || rt_tensor_elems(from) != elems)
            RT_TRY(rt_fail(e, RT_INVALID, "%s has no %s of this shape: it is of another model or other settings", path,
                           l.list[i].name));
        RT_TRY(load_tensor(&l, i, from, e));
        rt_model_file_done_with(f, from);
    }
out:
    rt_model_file_close(f);
    rt_arena_free(&a);
    return rc;
}

static int newest_first(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? 1 : x > y ? -1 : 0;
}

/* Under a hidden name first, which is certain before a file goes: whoever is killed half-way, or loses power, leaves no
 * checkpoint that lacks files. */
static void remove_checkpoint(rt_arena *a, const char *path)
{
    char *aside;
    if (rt_dir_temp(&aside, a, path, NULL) < 0) return;
    if (rename(path, aside) != 0)
        rmdir(aside);
    else if (rt_folder_sync(path, NULL) >= 0)
        rt_dir_remove(aside);
}

/* Steps of a run's own folders of a kind, newest first; null without memory. */
static uint32_t *steps_of(const char *folder, char *const *names, uint32_t count, const char *kind, uint32_t *n,
                          rt_arena *a)
{
    uint32_t *steps = rt_arena_alloc(a, (size_t)count * sizeof *steps + 1);
    *n = 0;
    for (uint32_t i = 0; steps && i < count; i++) {
        char *path = rt_step_of_name(names[i], kind, &steps[*n]) ? rt_path_join(a, folder, names[i]) : NULL;
        *n += path && is_own(a, path, kind);
    }
    if (steps) qsort(steps, *n, sizeof *steps, newest_first);
    return steps;
}

static void remove_from(const char *folder, const char *kind, const uint32_t *steps, uint32_t first, uint32_t n,
                        rt_arena *a)
{
    for (uint32_t i = first; i < n; i++) {
        char *path = rt_arena_printf(a, "%s/%s%06u", folder, kind, steps[i]);
        if (path) remove_checkpoint(a, path);
    }
}

void rt_checkpoint_prune(const char *folder, uint32_t keep)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count, n, nbest, first = 0;
    if (rt_dir_list(&names, &count, &a, folder, NULL) < 0) return;
    uint32_t *steps = steps_of(folder, names, count, prefix, &n, &a);
    uint32_t *best = steps_of(folder, names, count, best_prefix, &nbest, &a);
    if (keep == 0) keep = 1;
    if (keep > n) keep = n;
    if (steps && best && n > 0) {
        remove_from(folder, prefix, steps, keep, n, &a);
        /* Any checkpoint that is kept may be gone on from, and wants the best of its own time. */
        while (first < nbest && best[first] > steps[keep - 1]) first++;
        remove_from(folder, best_prefix, best, first + 1, nbest, &a);
    }
    rt_arena_free(&a);
}

char *rt_best_path(rt_arena *a, const char *folder, uint32_t step)
{
    return rt_arena_printf(a, "%s/%s%06u", folder, best_prefix, step);
}

void rt_best_remove(const char *folder)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count, n;
    if (rt_dir_list(&names, &count, &a, folder, NULL) < 0) return;
    uint32_t *steps = steps_of(folder, names, count, best_prefix, &n, &a);
    if (steps) remove_from(folder, best_prefix, steps, 0, n, &a);
    rt_arena_free(&a);
}
