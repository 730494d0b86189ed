/* api_model.c - models: opened, described, saved in a format. */
#include "api/api_internal.h"

int retort_model_load(retort_model **out, const char *model, const retort_places *places, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    retort_model *m = rt_alloc_zero(sizeof *m, 16);
    if (!out || !model) RT_TRY(rt_fail(&e, RT_USAGE, "retort_model_load: out and model are needed"));
    if (!m) RT_TRY(rt_no_memory(&e, "a model"));
    RT_TRY(rt_api_env_copy(&m->env, places, &m->arena, &e));
    RT_TRY(rt_model_file_open(&m->file, model, &m->env.hub, &e));
    *out = m;
    m = NULL;
out:
    retort_model_free(m);
    return rt_api_end(rc, &e, error);
}

void retort_model_free(retort_model *m)
{
    if (!m) return;
    rt_model_file_close(m->file);
    rt_arena_free(&m->arena);
    rt_free(m);
}

int retort_model_describe(const retort_model *m, retort_model_facts *out, retort_error *error)
{
    rt_err e = { 0 };
    if (!m) return rt_api_end(rt_fail(&e, RT_USAGE, "retort_model_describe: a model is needed"), &e, error);
    const rt_model_file *f = m->file;
    const rt_model_config *c = &f->config;
    retort_model_facts facts = { .name = f->name,
                                 .path = f->path,
                                 .format = rt_container_name(f->container),
                                 .parameters = rt_model_file_parameters(f),
                                 .tensors = f->tensor_count,
                                 .has_tokenizer = f->text.tokenizer_json.data || f->text.has_vocab,
                                 .has_chat_template = f->text.chat_template.data != NULL };
    if (f->has_config) {
        facts.family = c->family->name;
        facts.layers = c->layers;
        facts.width = c->width;
        facts.heads = c->heads;
        facts.kv_heads = c->kv_heads;
        facts.head_dim = c->head_dim;
        facts.hidden = c->hidden;
        facts.vocab = c->vocab;
        facts.context = c->context;
    }
    for (uint32_t i = 0; i < f->part_count; i++) facts.bytes += f->parts[i].map.size;
    return rt_api_end(rt_api_fill(out, &facts, sizeof facts, "retort_model_facts", &e), &e, error);
}

int retort_model_save(const retort_model *m, const char *path, const retort_save_options *given, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    retort_save_options o;
    rt_job_conversion *done = NULL;
    uint64_t bytes;
    if (!m || !path) RT_TRY(rt_fail(&e, RT_USAGE, "retort_model_save: a model and a path are needed"));
    RT_TRY(rt_api_take(&o, sizeof o, given, "retort_save_options", &e));
    const rt_job_convert_opts c = { .out = { .path = path,
                                             .format = o.format,
                                             .dtype = o.dtype,
                                             .shard_bytes = o.shard_bytes,
                                             .threads = o.threads,
                                             .replace = o.replace != 0,
                                             .no_tokenizer = o.no_tokenizer != 0,
                                             .progress = o.progress,
                                             .ctx = o.ctx },
                                    .modelfile = o.modelfile != 0 };
    RT_TRY(o.adapter ? rt_job_save_adapter(m->file, &c.out, &bytes, &e) : rt_job_convert(&done, m->file, &c, &e));
out:
    rt_job_conversion_free(done);
    return rt_api_end(rc, &e, error);
}
