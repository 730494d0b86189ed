/* job_convert.c - one conversion: refuses what cannot work before a byte is written, converts, compares. See job.h. */
#include "job/job_internal.h"

#include "base/json.h"
#include "format/adapter.h"
#include "text/data/model_text.h"
#include "text/data/ollama_modelfile.h"

#include <stdlib.h>
#include <string.h>

/* Of what an adapter changes: where rounding is more, it is said. */
#define MOST_OF_CHANGE 0.1

/* list (depth): the first half of them from the front of the model, the rest from its end. What lies between is left
 * out: a student of both ends is nearer to its teacher than one of layers evenly spaced (docs/training.md). */
static int end_layers(uint32_t *list, uint32_t depth, uint32_t layers, rt_err *e)
{
    if (depth > layers) return rt_fail(e, RT_USAGE, "--depth %u: the model has %u layers", depth, layers);
    uint32_t front = depth - depth / 2;
    for (uint32_t i = 0; i < depth; i++) list[i] = i < front ? i : layers - depth + i;
    return RT_OK;
}

/* What the caller sees comes first. */
typedef struct work {
    rt_job_conversion seen;
    rt_arena arena;
    const rt_model_file *in;
    rt_model_config student;
    uint32_t layers[RT_MAX_LAYERS];
    rt_model_text text;
    rt_str modelfile;
    rt_pool *pool;
} work;

/* One that says the same is no loss. */
static bool same_text(const char *path, const rt_str *want)
{
    rt_str have = { 0 };
    bool same = rt_file_read(path, want->len, &have, NULL) >= 0 && have.len == want->len &&
                memcmp(have.data, want->data, want->len) == 0;
    rt_str_free(&have);
    return same;
}

/* The first line of the system message in a Modelfile. */
static void find_system(work *w)
{
    static const char begin[] = "\nSYSTEM \"\"\"";
    const char *at = w->modelfile.data ? strstr(w->modelfile.data, begin) : NULL;
    if (!at) return;
    at += strlen(begin);
    size_t n = strcspn(at, "\n\"");
    w->seen.system = rt_arena_printf(&w->arena, "%.*s", (int)n, at);
}

/* The Modelfile as text, and its name, before any work is done. Without a tokenizer Ollama could not use the file; with
 * one that is not understood here the weights and its bytes still convert, and a note says what is missing. */
static int prepare_modelfile(work *w, const rt_job_convert_opts *o, rt_err *e)
{
    int rc;
    rt_err why = { 0 };
    rt_text_source *text = NULL;
    rt_job_conversion *c = &w->seen;
    const rt_model_text *from = &w->in->text;
    const char *out = o->out.path;
    size_t stem = strlen(out) - (rt_path_ends(out, ".gguf") ? strlen(".gguf") : 0);
    if (!o->modelfile || c->v.opts.to != RT_CONTAINER_GGUF || o->out.no_tokenizer ||
        (!from->tokenizer_json.data && !from->has_vocab))
        return RT_OK;
    if (!(c->modelfile = rt_arena_printf(&w->arena, "%.*s.Modelfile", (int)stem, out)))
        RT_TRY(rt_no_memory(e, "a path"));
    rc = rt_text_from_model(&text, from, c->v.config, w->in->path, &why);
    if (rc >= 0) rc = rt_modelfile(&w->modelfile, rt_path_base(out), text, c->v.config, &c->family, &why);
    if (rc < 0 && rc != RT_NOMEM) {
        rt_note(&c->notes, "no Modelfile was written: %s", why.text);
        c->modelfile = NULL;
        rc = RT_OK;
        goto out;
    }
    if (rc < 0) RT_TRY(rt_fail(e, rc, "%s", why.text));
    c->chat = text->chat != NULL;
    find_system(w);
    if (!same_text(c->modelfile, &w->modelfile))
        RT_TRY(rt_job_output_allowed(c->modelfile, RT_CONTAINER_GGUF, o->out.replace, NULL, e));
out:
    rt_text_close(text);
    return rc;
}

/* llama.cpp reads a window's width in none of the architectures that are written here. */
static void note_window(rt_job_conversion *c)
{
    const rt_model_config *m = c->v.config;
    if (c->v.opts.to != RT_CONTAINER_GGUF || m->window == 0 || m->window >= m->context) return;
    rt_note(
        &c->notes,
        "llama.cpp and Ollama ignore the sliding window of %u positions: a longer text gives other logits there than "
        "in transformers; keep their context within it (-c %u, num_ctx %u)",
        m->window, m->window, m->window);
}

/* Bytes of the model in another type; 0: it cannot be said. */
static uint64_t bytes_as(work *w, const char *type)
{
    const rt_model_config *m = w->seen.v.config;
    uint32_t count = rt_param_count(m), fell = 0;
    uint64_t bytes = 0, shape[2];
    rt_out_tensor *t = rt_arena_alloc(&w->arena, count * sizeof *t);
    if (!t || rt_mix_apply(rt_mix_find(type), m, w->seen.v.opts.to, t, NULL, &fell, NULL) < 0) return 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t rank = rt_role_shape(m, t[i].role, shape);
        bytes += rt_dtype_bytes(t[i].dtype, shape[0] * (rank == 2 ? shape[1] : 1));
    }
    return bytes;
}

/* Types of blocks of 256 become larger ones where rows do not fill them; those of blocks of 32 stay what they are. */
static void note_smaller(work *w)
{
    static const char *const types[] = { "q4_0", "q4_1" };
    const rt_convert *v = &w->seen.v;
    rt_str list = { 0 };
    uint32_t quantised = 0;
    for (uint32_t i = 0; i < v->tensor_count; i++) quantised += rt_dtype_is_quant(v->tensors[i].to);
    for (size_t i = 0; i < sizeof types / sizeof *types && 2 * v->fallbacks > quantised; i++) {
        uint64_t bytes = bytes_as(w, types[i]);
        if (!bytes || bytes >= v->bytes_out) continue;
        rt_str_printf(&list, "%s %s (%.2f bits a weight)", list.len ? " or" : "", types[i],
                      8.0 * (double)bytes / (double)v->elems);
    }
    if (list.data && !list.failed)
        rt_note(&w->seen.notes,
                "most matrices fell back to a larger type: %.2f bits a weight; smaller would be --dtype%s",
                8.0 * (double)v->bytes_out / (double)v->elems, list.data);
    rt_str_free(&list);
}

static int prepare(work *w, const rt_job_convert_opts *o, rt_err *e)
{
    int rc;
    uint32_t count = o->depth;
    rt_job_conversion *c = &w->seen;
    const rt_job_output *out = &o->out;
    rt_convert_opts co = { .path = out->path, .shard_bytes = out->shard_bytes, .replace = out->replace };
    RT_TRY(rt_job_output_kind(out, out->dtype, &co.to, &co.mix, e));
    if (o->layers) RT_TRY(rt_job_layers_parse(w->layers, &count, "--layers", o->layers, e));
    RT_TRY(rt_job_output_allowed(out->path, co.to, out->replace, w->in, e));
    if (count) {
        RT_TRY(rt_model_file_check(w->in, e));
        if (o->depth) RT_TRY(end_layers(w->layers, count, w->in->config.layers, e));
        RT_TRY(rt_config_take_layers(&w->student, &w->in->config, w->layers, count, e));
        co.config = &w->student;
        co.layers = w->layers;
    }
    RT_TRY(rt_convert_plan(&c->v, w->in, &co, e));
    RT_TRY(rt_job_output_fits(out->path, c->v.bytes_out, e));
    RT_TRY(rt_job_output_text(&w->text, &w->in->text, out->no_tokenizer, co.to, c->v.config, &w->arena, &c->notes, e));
    c->v.opts.text = &w->text;
    note_window(c);
    note_smaller(w);
    RT_TRY(prepare_modelfile(w, o, e));
    RT_TRY(rt_job_pool_new(&w->pool, out->threads, e));
out:
    return rc;
}

static int on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    const rt_job_output *o = ctx;
    return o->progress && o->progress(o->ctx, what, done, total) ? RT_INTERRUPTED : RT_OK;
}

static int not_adapter(const rt_model_file *in, const char *instead, rt_err *e)
{
    return in->adapter ? RT_OK
                       : rt_fail(e, RT_INVALID, "%s is not a LoRA adapter (a folder with adapter_config.json)%s",
                                 in->path, instead);
}

int rt_job_save_adapter(const rt_model_file *in, const rt_job_output *o, uint64_t *bytes, rt_err *e)
{
    int rc;
    rt_container to;
    const rt_mix *mix;
    static const rt_dtype dtypes[] = { RT_DTYPE_F32, RT_DTYPE_F16, RT_DTYPE_BF16 };
    size_t d = 0;
    RT_TRY(not_adapter(in, ": leave --adapter out", e));
    RT_TRY(rt_job_output_kind(o, o->dtype, &to, &mix, e));
    if (to != RT_CONTAINER_GGUF)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "--adapter writes GGUF, and %s would be %s; name it NAME.gguf, or leave --adapter "
                       "out for the merged model",
                       o->path, rt_container_name(to)));
    while (o->dtype && d < 3 && strcmp(o->dtype, rt_dtype_name(dtypes[d])) != 0) d++;
    if (d == 3) RT_TRY(rt_fail(e, RT_INVALID, "--adapter takes --dtype f32, f16 or bf16, not %s", o->dtype));
    RT_TRY(rt_job_output_allowed(o->path, to, o->replace, in, e));
    RT_TRY(rt_model_file_check(in, e));
    RT_TRY(rt_adapter_write_gguf(in, o->path, dtypes[d], o->replace, bytes, e));
out:
    return rc;
}

/* Rounding may take a small adapter away: it adds less than a step of a 16-bit type. */
static void note_rounded_adapter(rt_job_conversion *c)
{
    const rt_convert *v = &c->v;
    rt_dtype to = RT_DTYPE_F32;
    for (uint32_t i = 0; i < v->tensor_count; i++)
        if (v->tensors[i].from->store == RT_STORE_MERGED) to = v->tensors[i].to;
    if (v->of_change > MOST_OF_CHANGE && rt_dtype_is_float(to))
        rt_note(&c->notes,
                "rounding to %s is %.0f %% of what the adapter changes, and so part of its effect is lost; --dtype f32 "
                "keeps all of it",
                rt_dtype_name(to), 100 * v->of_change);
}

int rt_job_convert(rt_job_conversion **out, const rt_model_file *in, const rt_job_convert_opts *o, rt_err *e)
{
    int rc;
    rt_job_output to = o->out;
    work *w = rt_alloc_zero(sizeof *w, 64);
    rt_json_init();
    rt_json_forget();
    if (!w) return rt_no_memory(e, "a conversion");
    w->in = in;
    if (o->merge) RT_TRY(not_adapter(in, ", so there is nothing to merge; retort convert writes models", e));
    RT_TRY(prepare(w, o, e));
    rc = rt_convert_run(&w->seen.v, on_progress, &to, w->pool, e);
    if (rc == RT_INTERRUPTED) rt_fail(e, rc, "interrupted: %s was not written", to.path);
    if (rc < 0) goto out;
    if (w->seen.modelfile && !same_text(w->seen.modelfile, &w->modelfile))
        RT_TRY((to.replace ? rt_file_write : rt_file_write_new)(w->seen.modelfile, w->modelfile.data, w->modelfile.len,
                                                                e));
    for (uint32_t i = 0; i < in->note_count; i++) rt_note(&w->seen.notes, "%s", in->notes[i]);
    note_rounded_adapter(&w->seen);
    *out = &w->seen;
    w = NULL;
out:
    if (w) rt_job_conversion_free(&w->seen);
    return rc;
}

void rt_job_conversion_free(rt_job_conversion *c)
{
    work *w = (work *)c;
    if (!w) return;
    rt_str_free(&w->modelfile);
    rt_convert_free(&c->v);
    rt_pool_free(w->pool);
    rt_arena_free(&w->arena);
    rt_free(w);
}
