/* job_init.c - a model that has learned nothing, of a preset's or a configuration's shape. See job.h. */
#include "job/job_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "format/init_random.h"

enum { MAX_PRESETS = 64, MAX_CONFIG = 16 << 20 };

/* What is large or lives as long as the job. */
typedef struct work {
    rt_arena arena;
    const rt_job_init_opts *o;
    rt_job_initialised *made;
    const rt_preset *preset; /* null with a config.json */
    rt_model_config config;
    const rt_mix *mix;
    rt_out_tensor *tensors;
    rt_model_out out;
    rt_job_tokenizer source;
    rt_model_text text;
    rt_pool *pool;
} work;

/* ---- the shape ---- */

static int find_preset(work *w, const char *name, rt_err *e)
{
    const char *names[MAX_PRESETS + 1] = { 0 };
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    w->preset = rt_preset_find(name);
    if (w->preset) {
        rt_preset_fill(w->preset, &w->config);
        return RT_OK;
    }
    for (uint32_t i = 0; i < count && i < MAX_PRESETS; i++) names[i] = p[i].name;
    const char *near = rt_nearest(name, names);
    return rt_fail(e, RT_USAGE, "there is no preset '%s'%s%s%s; retort init --list shows them", name,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int read_config(work *w, const char *path, rt_err *e)
{
    rt_str text = { 0 };
    int rc;
    if (rt_path_is_dir(path)) path = rt_path_join(&w->arena, path, "config.json");
    if (!path) return rt_no_memory(e, "a path");
    RT_TRY(rt_file_read(path, MAX_CONFIG, &text, e));
    RT_TRY(rt_config_from_json(&w->config, text.data ? text.data : "", text.len, path, &w->arena, e));
out:
    rt_str_free(&text);
    return rc;
}

/* The dtype of every tensor, and what all take. */
static int choose_types(work *w, rt_err *e)
{
    uint32_t count = rt_param_count(&w->config);
    w->tensors = rt_arena_alloc(&w->arena, count * sizeof *w->tensors);
    if (!w->tensors) return rt_no_memory(e, "the tensors of a model");
    int rc = rt_mix_apply(w->mix, &w->config, w->out.to, w->tensors, NULL, &w->made->fallbacks, e);
    if (rc < 0) return rc;
    w->out.tensors = w->tensors;
    w->out.tensor_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t shape[2], n;
        uint32_t rank = rt_role_shape(&w->config, w->tensors[i].role, shape);
        n = shape[0] * (rank == 2 ? shape[1] : 1);
        w->made->parameters += n;
        w->made->bytes += rt_dtype_bytes(w->tensors[i].dtype, n);
    }
    return RT_OK;
}

static int prepare(work *w, rt_err *e)
{
    int rc;
    const rt_job_init_opts *o = w->o;
    const rt_job_output *out = &o->out;
    const char *shape = o->preset ? o->preset : o->config;
    RT_TRY(rt_job_output_kind(out, out->dtype ? out->dtype : "bf16", &w->out.to, &w->mix, e));
    RT_TRY(o->preset ? find_preset(w, o->preset, e) : read_config(w, o->config, e));
    w->config.random_init = true;
    w->config.init_seed = o->seed;
    RT_TRY(rt_config_check(&w->config, shape, e));
    RT_TRY(rt_job_output_allowed(out->path, w->out.to, out->replace, NULL, e));
    RT_TRY(choose_types(w, e));
    RT_TRY(rt_job_output_fits(out->path, w->made->bytes, e));
    if (o->tokenizer) {
        RT_TRY(rt_job_tokenizer_open(&w->source, o->tokenizer, o->hub, &w->arena, e));
        RT_TRY(rt_job_tokenizer_check(&w->source, o->tokenizer, &w->config, e));
    } else if (w->preset && w->preset->tiny) {
        RT_TRY(rt_job_tokenizer_bytes(&w->source, &w->config, &w->arena, e));
    }
    RT_TRY(rt_job_output_text(&w->text, &w->source.text, out->no_tokenizer, w->out.to, &w->config, &w->arena,
                              &w->made->notes, e));
    w->out.path = out->path;
    w->out.name = o->preset ? o->preset : rt_path_base(out->path);
    w->out.config = &w->config;
    w->out.text = &w->text;
    w->out.shard_bytes = out->shard_bytes;
    w->out.replace = out->replace;
    RT_TRY(rt_job_pool_new(&w->pool, out->threads, e));
out:
    return rc;
}

static int on_progress(void *ctx, uint64_t done, uint64_t total)
{
    const rt_job_output *o = ctx;
    return o->progress && o->progress(o->ctx, "writing", done, total) ? RT_INTERRUPTED : RT_OK;
}

int rt_job_init(rt_job_initialised *made, const rt_job_init_opts *o, rt_err *e)
{
    int rc;
    rt_job_output to = o->out;
    work *w = rt_alloc_zero(sizeof *w, 64);
    rt_json_init();
    rt_json_forget();
    if (!w) return rt_no_memory(e, "a model");
    *made = (rt_job_initialised){ 0 };
    w->o = o;
    w->made = made;
    RT_TRY(prepare(w, e));
    double start = rt_now();
    rc = rt_init_random(&w->out, &(rt_init_opts){ on_progress, &to }, w->pool, e);
    if (rc == RT_INTERRUPTED) rt_fail(e, rc, "interrupted: %s was not written", to.path);
    made->seconds = rt_now() - start;
    made->format = w->out.to;
    made->family = w->config.family->name;
    made->dtype = rt_mix_name(w->mix);
    made->tokenizer = w->text.tokenizer_json.data || w->text.has_vocab;
out:
    rt_model_file_close(w->source.model);
    rt_pool_free(w->pool);
    rt_arena_free(&w->arena);
    rt_free(w);
    return rc;
}
