/* api_model.c - models: opened, described, saved in a format. */
#include "api/api_internal.h"

#include "format/convert.h"
#include "text/tokenizer/vocab_convert.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int retort_model_load(retort_model **out, const char *model, const retort_places *places, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    retort_model *m = rt_alloc_zero(sizeof *m, 16);
    if (!out || !model) RT_TRY(rt_fail(&e, RT_USAGE, "retort_model_load: out and model are needed"));
    if (!m) RT_TRY(rt_fail(&e, RT_NOMEM, "no memory for a model"));
    RT_TRY(rt_api_places_copy(&m->places, places, &m->arena, &e));
    RT_TRY(rt_model_file_open(&m->file, model, &m->places.env, &e));
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
        facts.family = rt_family_table[c->family].name;
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

/* ---- saving ---- */

typedef struct saving {
    retort_save_options o;
    rt_arena arena;
    rt_model_text text;
    rt_convert v;
    rt_pool *pool;
} saving;

static int choose_format(rt_container *out, const char *format, const char *path, rt_err *e)
{
    *out = rt_path_ends(path, ".gguf")          ? RT_CONTAINER_GGUF
           : rt_path_ends(path, ".apr")         ? RT_CONTAINER_APR
           : rt_path_ends(path, ".safetensors") ? RT_CONTAINER_SAFETENSORS
                                                : RT_CONTAINER_HF;
    if (!format || rt_container_parse(format, out)) return RT_OK;
    return rt_fail(e, RT_USAGE, "the format is hf, safetensors, gguf or apr, not '%s'", format);
}

/* Replacing what is being read would leave nothing to go back to. */
static int refuse_itself(const rt_model_file *in, const char *path, rt_err *e)
{
    char *a = rt_alloc(2 * (size_t)PATH_MAX, 16);
    if (!a) return rt_fail(e, RT_NOMEM, "no memory for a path");
    char *b = a + PATH_MAX;
    bool there = realpath(path, b), same = there && realpath(in->path, a) && strcmp(a, b) == 0;
    for (uint32_t i = 0; there && !same && i < in->part_count; i++)
        same = realpath(in->parts[i].path, a) && strcmp(a, b) == 0;
    rt_free(a);
    return same ? rt_fail(e, RT_INVALID, "%s is the model itself; give another path", path) : RT_OK;
}

/* The tokenizer in the form that the format has. */
static int make_text(saving *s, const rt_model_file *in, rt_container to, rt_err *e)
{
    s->text = (rt_model_text){ .generation_config = in->text.generation_config, .unk = -1, .pad = -1, .eot = -1 };
    if (s->o.no_tokenizer || to == RT_CONTAINER_SAFETENSORS) return RT_OK; /* which holds none */
    return rt_model_text_for(&s->text, &in->text, to, in->config.vocab, &s->arena, NULL, e);
}

static int on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    const saving *s = ctx;
    return s->o.progress && s->o.progress(s->o.ctx, what, done, total) ? RT_INTERRUPTED : RT_OK;
}

static int save(saving *s, const rt_model_file *in, const char *path, rt_err *e)
{
    int rc;
    rt_convert_opts c = { .path = path, .shard_bytes = s->o.shard_bytes, .replace = s->o.replace != 0 };
    RT_TRY(choose_format(&c.to, s->o.format, path, e));
    if (s->o.dtype && !(c.mix = rt_mix_find(s->o.dtype)))
        RT_TRY(rt_fail(e, RT_USAGE, "the dtype '%s' is not known; it is f32, bf16, f16, q8_0, q4_k_m or the like",
                       s->o.dtype));
    RT_TRY(refuse_itself(in, path, e));
    RT_TRY(rt_model_file_check(in, e));
    RT_TRY(make_text(s, in, c.to, e));
    c.text = &s->text;
    RT_TRY(rt_convert_plan(&s->v, in, &c, e));
    RT_TRY(rt_api_pool_new(&s->pool, s->o.threads, e));
    rc = rt_convert_run(&s->v, on_progress, s, s->pool, e);
    if (rc == RT_INTERRUPTED) rt_fail(e, rc, "interrupted: %s was not written", path);
out:
    return rc;
}

int retort_model_save(const retort_model *m, const char *path, const retort_save_options *o, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    saving *s = rt_alloc_zero(sizeof *s, 16);
    if (!s) RT_TRY(rt_fail(&e, RT_NOMEM, "no memory to save a model"));
    if (!m || !path || !path[0]) RT_TRY(rt_fail(&e, RT_USAGE, "retort_model_save: a model and a path are needed"));
    RT_TRY(rt_api_take(&s->o, sizeof s->o, o, "retort_save_options", &e));
    RT_TRY(save(s, m->file, path, &e));
out:
    if (s) {
        rt_convert_free(&s->v);
        rt_pool_free(s->pool);
        rt_arena_free(&s->arena);
        rt_free(s);
    }
    return rt_api_end(rc, &e, error);
}
