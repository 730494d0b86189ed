/* job_export.c - the model of a run, or of any folder, alone: its files copied as they are, without the run's. See
 * job.h. What is to be another format or dtype is job_convert.c. */
#include "job/job_internal.h"

#include "base/json.h"
#include "report/model_card.h"

#include <string.h>

/* What a model's folder has besides what rt_model_write writes. */
static bool is_exported(void *ctx, const char *name)
{
    static const char *const more[] = { "README.md", "LICENSE", "LICENSE.txt", "NOTICE" };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (strcmp(name, more[i]) == 0) return true;
    return rt_hf_is_name(ctx, name);
}

typedef struct work {
    rt_arena arena;
    const char *from;
    char **names; /* (count) */
    uint32_t count;
    rt_str card; /* README.md of a model that has none */
    rt_job_exported *out;
} work;

static bool has_file(const work *w, const char *name)
{
    for (uint32_t i = 0; i < w->count; i++)
        if (strcmp(w->names[i], name) == 0) return true;
    return false;
}

static int put_card(work *w, const char *folder, rt_err *e)
{
    char *path = rt_path_join(&w->arena, folder, "README.md");
    return path ? rt_file_write(path, w->card.data, w->card.len, e) : rt_no_memory(e, "a path");
}

/* The files, and that they are a whole model or adapter. The base of an adapter need not be here. */
static int look(work *w, const rt_hub_env *hub, rt_err *e)
{
    int rc;
    uint32_t count = 0;
    char *config = rt_path_join(&w->arena, w->from, "adapter_config.json"),
         *weights = rt_path_join(&w->arena, w->from, "adapter_model.safetensors"),
         *whole = rt_path_join(&w->arena, w->from, "config.json");
    rt_model_file *m = NULL;
    if (!config || !weights || !whole) RT_TRY(rt_no_memory(e, "a path"));
    if (!rt_path_exists(w->from))
        RT_TRY(rt_fail(e, RT_NOT_FOUND, "%s is not there; name the --out of a run, or a model's folder", w->from));
    if (!rt_path_is_dir(w->from))
        RT_TRY(rt_fail(e, RT_INVALID, "%s is a file; retort convert writes it as another", w->from));
    w->out->adapter = rt_path_exists(config) && !rt_path_exists(whole);
    RT_TRY(rt_model_file_open(&m, w->out->adapter ? weights : w->from, hub, e));
    if (!w->out->adapter) RT_TRY(rt_model_file_check(m, e));
    RT_TRY(rt_dir_list(&w->names, &count, &w->arena, w->from, e));
    for (uint32_t i = 0; i < count; i++) {
        uint64_t size = 0;
        char *path = rt_path_join(&w->arena, w->from, w->names[i]);
        if (!path) RT_TRY(rt_no_memory(e, "a path"));
        if (!is_exported(NULL, w->names[i]) || rt_path_is_dir(path)) continue;
        RT_TRY(rt_file_size(path, &size, e));
        w->out->bytes += size;
        w->names[w->count++] = w->names[i];
    }
    if (!w->out->adapter && !has_file(w, "README.md")) {
        rt_model_card_plain(&w->card, &(rt_card){ .student = m->name,
                                                  .hub = m->hub,
                                                  .from_random = m->config.random_init,
                                                  .tokenizer = m->text.tokenizer_json.data != NULL,
                                                  .chat = m->text.chat_template.data != NULL });
        if (w->card.failed) RT_TRY(rt_no_memory(e, "the model card"));
    }
    w->out->files = w->count + (w->card.len > 0);
    w->out->bytes += w->card.len;
out:
    rt_model_file_close(m);
    return rc;
}

static int copy(work *w, const char *name, const char *to, rt_err *e)
{
    int rc;
    rt_map map = { 0 };
    rt_hash128 was, is;
    char *source = rt_path_join(&w->arena, w->from, name), *target = rt_path_join(&w->arena, to, name);
    if (!source || !target) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(rt_map_open(&map, source, e));
    RT_TRY(rt_file_write(target, map.data, map.size, e));
    RT_TRY(rt_file_hash(source, &was, e));
    RT_TRY(rt_file_hash(target, &is, e));
    if (!rt_hash_equal(was, is)) RT_TRY(rt_fail(e, RT_IO, "%s was copied and reads back as something else", target));
out:
    rt_map_close(&map);
    return rc;
}

/* An adapter is of use elsewhere where its base is found there. */
static int note_base(work *w, rt_err *e)
{
    int rc;
    json_t *j = NULL;
    char *path = rt_path_join(&w->arena, w->from, "adapter_config.json");
    if (!path) RT_TRY(rt_no_memory(e, "a path"));
    RT_TRY(rt_json_read(&j, path, e));
    const char *base = json_string_value(json_object_get(j, "base_model_name_or_path"));
    if (base && *base == '/')
        rt_note(&w->out->notes,
                "adapter_config.json names its base by a path of this machine, %s; write its id on the hub "
                "there before it is uploaded",
                base);
out:
    json_decref(j);
    return rc;
}

int rt_job_export_copies(const rt_job_output *o, bool *copies, rt_err *e)
{
    rt_container to;
    const rt_mix *mix;
    int rc = rt_job_output_kind(o, o->dtype, &to, &mix, e);
    *copies = rc >= 0 && to == RT_CONTAINER_HF && !mix;
    return rc;
}

int rt_job_export(rt_job_exported *out, const char *from, const rt_job_output *o, const rt_hub_env *hub, rt_err *e)
{
    int rc;
    char *temp = NULL;
    work w = { .from = from, .out = out };
    rt_model_file in = { .path = from };
    *out = (rt_job_exported){ 0 };
    rt_json_init();
    rt_json_forget();
    RT_TRY(look(&w, hub, e));
    RT_TRY(rt_job_output_allowed(o->path, RT_CONTAINER_HF, o->replace, &in, e));
    RT_TRY(rt_job_output_fits(o->path, out->bytes, e));
    RT_TRY(rt_dir_temp(&temp, &w.arena, o->path, e));
    for (uint32_t i = 0; i < w.count; i++) {
        if (o->progress && o->progress(o->ctx, "copying", i, w.count))
            RT_TRY(rt_fail(e, RT_INTERRUPTED, "interrupted: %s was not written", o->path));
        RT_TRY(copy(&w, w.names[i], temp, e));
    }
    if (w.card.len) RT_TRY(put_card(&w, temp, e));
    if (w.card.len) rt_note(&out->notes, "README.md, the model card, is new: the model had none");
    if (out->adapter) RT_TRY(note_base(&w, e));
    RT_TRY(o->replace && rt_path_exists(o->path) ? rt_dir_replace(temp, o->path, is_exported, NULL, e)
                                                 : rt_dir_commit(temp, o->path, e));
    temp = NULL;
out:
    if (temp) rt_dir_remove(temp);
    rt_str_free(&w.card);
    rt_arena_free(&w.arena);
    return rc;
}
