/* cmd_init.c - `retort init`: a model that has learned nothing, of a preset's or a configuration's shape, or a student
 * made of a teacher's layers. */
#include "base/sys.h"
#include "cli/cli.h"
#include "cli/convert_run.h"
#include "cli/model_arg.h"
#include "cli/progress.h"
#include "cli/text_arg.h"
#include "format/init_random.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

enum { MAX_PRESETS = 64, MAX_CONFIG = 16 << 20 };

typedef struct request {
    const char *preset, *config, *from, *layers, *dtype, *to, *tokenizer, *out;
    uint64_t seed, shard_bytes;
    uint32_t threads;
    bool force, no_tokenizer, list, json;
} request;

/* What is large or lives as long as the command. */
typedef struct state {
    rt_arena arena;
    const rt_preset *preset; /* null with --config */
    rt_model_config config;
    const rt_mix *mix;
    rt_out_tensor *tensors;
    rt_model_out out;
    rt_text_arg source;
    rt_model_text text;
    rt_text_notes notes;
    uint64_t parameters, bytes;
    uint32_t fallbacks;
    double seconds;
    rt_pool *pool;
} state;

/* ---- presets ---- */

static int list_presets(bool json, rt_err *e)
{
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    json_t *list = json ? json_array() : NULL;
    rt_model_config *c = rt_alloc(sizeof *c, 64);
    if (!c) return rt_fail(e, RT_NOMEM, "no memory for a configuration");
    for (uint32_t i = 0; i < count; i++) {
        char size[32];
        uint64_t n = 0;
        p[i].fill(c);
        rt_config_parameters(c, &n);
        if (json)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:I, s:b}", "name", p[i].name, "family",
                                                  rt_family_table[c->family].name, "text", p[i].text, "parameters",
                                                  (json_int_t)n, "tokenizer", p[i].tiny));
        else
            printf("%-14s %8s  %s\n", p[i].name, rt_format_params(size, n), p[i].text);
    }
    rt_free(c);
    return json ? rt_print_json(list, e) : RT_OK;
}

static int find_preset(state *s, const char *name, rt_err *e)
{
    const char *names[MAX_PRESETS + 1] = { 0 };
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    s->preset = rt_preset_find(name);
    if (s->preset) {
        s->preset->fill(&s->config);
        return RT_OK;
    }
    for (uint32_t i = 0; i < count && i < MAX_PRESETS; i++) names[i] = p[i].name;
    const char *near = rt_nearest(name, names);
    return rt_fail(e, RT_USAGE, "retort init: there is no preset '%s'%s%s%s; retort init --list shows them", name,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int read_config(state *s, const char *path, rt_err *e)
{
    rt_str text = { 0 };
    int rc;
    if (rt_path_is_dir(path)) path = rt_path_join(&s->arena, path, "config.json");
    if (!path) return rt_fail(e, RT_NOMEM, "no memory for a path");
    RT_TRY(rt_file_read(path, MAX_CONFIG, &text, e));
    RT_TRY(rt_config_from_json(&s->config, text.data ? text.data : "", text.len, path, &s->arena, e));
out:
    rt_str_free(&text);
    return rc;
}

/* ---- random weights ---- */

static int choose_types(state *s, rt_err *e)
{
    uint32_t count = rt_param_count(&s->config);
    s->tensors = rt_arena_alloc(&s->arena, count * sizeof *s->tensors);
    if (!s->tensors) return rt_fail(e, RT_NOMEM, "no memory for %u tensors", count);
    int rc = rt_mix_apply(s->mix, &s->config, s->out.to, s->tensors, NULL, &s->fallbacks, e);
    if (rc < 0) return rc;
    s->out.tensors = s->tensors;
    s->out.tensor_count = count;
    for (uint32_t i = 0; i < count; i++) {
        uint64_t shape[2], n;
        uint32_t rank = rt_role_shape(&s->config, s->tensors[i].role, shape);
        n = shape[0] * (rank == 2 ? shape[1] : 1);
        s->parameters += n;
        s->bytes += rt_dtype_bytes(s->tensors[i].dtype, n);
    }
    return RT_OK;
}

static int prepare(state *s, const request *r, rt_err *e)
{
    int rc;
    const rt_hub_env env = rt_hub_env_get();
    RT_TRY(rt_output_format(&s->out.to, r->to, r->out, RT_CONTAINER_HF, e));
    RT_TRY(rt_mix_arg(&s->mix, "init", r->dtype ? r->dtype : "bf16", e));
    RT_TRY(r->preset ? find_preset(s, r->preset, e) : read_config(s, r->config, e));
    s->config.random_init = true;
    s->config.init_seed = r->seed;
    RT_TRY(rt_config_check(&s->config, r->preset ? r->preset : r->config, e));
    RT_TRY(rt_output_allowed(r->out, s->out.to, r->force, NULL, e));
    RT_TRY(choose_types(s, e));
    RT_TRY(rt_output_fits(r->out, s->bytes, e));
    bool bytes = s->preset && s->preset->tiny && !r->tokenizer;
    if (r->tokenizer) RT_TRY(rt_text_arg_open(&s->source, r->tokenizer, &env, &s->arena, e));
    if (bytes) RT_TRY(rt_text_arg_bytes(&s->source, &s->config, &s->arena, e));
    if (r->tokenizer) RT_TRY(rt_text_arg_check(&s->source, r->tokenizer, &s->config, e));
    RT_TRY(
        rt_text_for_output(&s->text, &s->source.text, r->no_tokenizer, s->out.to, &s->config, &s->arena, &s->notes, e));
    s->out.path = r->out;
    s->out.name = r->preset ? r->preset : rt_path_base(r->out);
    s->out.config = &s->config;
    s->out.text = &s->text;
    s->out.shard_bytes = r->shard_bytes;
    s->out.replace = r->force;
    RT_TRY(rt_pool_for(&s->pool, r->threads, e));
out:
    return rc;
}

static int on_progress(void *ctx, uint64_t done, uint64_t total)
{
    return rt_progress_step(ctx, "writing", done, total);
}

static int report(const state *s, const request *r, rt_err *e)
{
    char a[32], b[32];
    bool tokenizer = s->text.tokenizer_json.data || s->text.has_vocab;
    if (r->json)
        return rt_print_json(json_pack("{s:o, s:s, s:s, s:s, s:o, s:I, s:I, s:i, s:b, s:f}", "output",
                                       rt_json_text(r->out), "format", rt_container_name(s->out.to), "family",
                                       rt_family_table[s->config.family].name, "dtype", rt_mix_name(s->mix), "seed",
                                       rt_json_u64(r->seed), "parameters", (json_int_t)s->parameters, "bytes",
                                       (json_int_t)s->bytes, "fallbacks", (int)s->fallbacks, "tokenizer", tokenizer,
                                       "seconds", s->seconds),
                             e);
    printf("output    %s (%s)\n", r->out, rt_container_name(s->out.to));
    printf("model     %s, %s parameters, random from seed %" PRIu64 "\n", rt_family_table[s->config.family].name,
           rt_format_params(a, s->parameters), r->seed);
    printf("size      %s in %s", rt_format_bytes(b, s->bytes), rt_mix_name(s->mix));
    if (s->fallbacks)
        printf("; %u matrices fell back to another type: their rows do not fill blocks of 256", s->fallbacks);
    printf("\ntokenizer %s\n",
           tokenizer ? r->tokenizer ? r->tokenizer : "bytes, with <|endoftext|>, <|im_start|> and <|im_end|>"
                     : "none; --tokenizer gives it one");
    for (uint32_t i = 0; i < s->notes.count; i++) printf("note      %s\n", s->notes.text[i]);
    printf("time      %.2f s\n", s->seconds);
    return RT_OK;
}

static int make_random(const request *r, rt_err *e)
{
    int rc;
    rt_progress progress;
    state *s = rt_alloc_zero(sizeof *s, 64);
    if (!s) return rt_fail(e, RT_NOMEM, "no memory to make %s", r->out);
    RT_TRY(prepare(s, r, e));
    rt_interrupt_catch();
    rt_progress_begin(&progress);
    double start = rt_now();
    const rt_init_opts opts = { on_progress, &progress };
    rc = rt_init_random(&s->out, &opts, s->pool, e);
    s->seconds = rt_now() - start;
    rt_progress_end(&progress);
    if (rc == RT_INTERRUPTED) rt_fail(e, rc, "interrupted: %s was not written", r->out);
    if (rc >= 0) rc = report(s, r, e);
out:
    rt_text_arg_close(&s->source);
    rt_pool_free(s->pool);
    rt_arena_free(&s->arena);
    rt_free(s);
    return rc;
}

/* ---- the command ---- */

static int take_layers(const request *r, rt_err *e)
{
    if (!r->layers)
        return rt_fail(e, RT_USAGE,
                       "retort init: --from needs --layers, such as --layers 0,2,4; retort convert takes all");
    if (r->tokenizer || r->seed)
        return rt_fail(e, RT_USAGE, "retort init: --from takes weights and tokenizer from the model: leave out %s",
                       r->tokenizer ? "--tokenizer" : "--seed");
    const rt_convert_request c = {
        .command = "init",
        .in = r->from,
        .out = r->out,
        .to = r->to,
        .dtype = r->dtype,
        .other = RT_CONTAINER_HF,
        .layers = r->layers,
        .shard_bytes = r->shard_bytes,
        .threads = r->threads,
        .force = r->force,
        .no_tokenizer = r->no_tokenizer,
        .json = r->json,
    };
    return rt_convert_command(&c, e);
}

static int run(const request *r, rt_err *e)
{
    int sources = !!r->preset + !!r->config + !!r->from;
    if (r->list) return list_presets(r->json, e);
    if (!r->out) return rt_fail(e, RT_USAGE, "retort init: the output is missing; see retort init --help");
    if (sources != 1)
        return rt_fail(e, RT_USAGE, "retort init: give one of --preset, --config and --from%s",
                       sources ? ", not several" : "; retort init --list shows the presets");
    if (r->layers && !r->from) return rt_fail(e, RT_USAGE, "retort init: --layers goes with --from");
    return r->from ? take_layers(r, e) : make_random(r, e);
}

int rt_cmd_init(int argc, char **argv, rt_err *e)
{
    request r = { 0 };
    rt_words words = { 0 };
    bool help;
    const rt_flag flags[] = {
        { "--preset", RT_FLAG_TEXT, &r.preset, "NAME", "a shape by name: tiny, qwen2.5-0.5b..." },
        { "--list", RT_FLAG_BOOL, &r.list, NULL, "show the presets and do nothing" },
        { "--config", RT_FLAG_TEXT, &r.config, "FILE", "the shape of a config.json" },
        { "--from", RT_FLAG_TEXT, &r.from, "MODEL", "take weights and tokenizer from this model..." },
        { "--layers", RT_FLAG_TEXT, &r.layers, "LIST", "...and these of its layers: 0,2,4-7" },
        { "--dtype", RT_FLAG_TEXT, &r.dtype, "D", "f32, bf16, q4_k_m... (default: bf16; with --from as stored)" },
        { "--seed", RT_FLAG_WHOLE, &r.seed, "N", "of the random weights (default: 0)" },
        { "--tokenizer", RT_FLAG_TEXT, &r.tokenizer, "T", "a tokenizer.json, or a model to take it from" },
        { "--no-tokenizer", RT_FLAG_BOOL, &r.no_tokenizer, NULL, "leave the tokenizer out" },
        { "--to", RT_FLAG_TEXT, &r.to, "FORMAT", "hf, gguf, apr or safetensors (default: by OUT's suffix, else hf)" },
        { "--force", RT_FLAG_BOOL, &r.force, NULL, "replace OUT when it is there" },
        { "--shard-size", RT_FLAG_BYTES, &r.shard_bytes, "SIZE", "hf: a new file after this much (default: 5GB)" },
        { "--threads", RT_FLAG_COUNT, &r.threads, "N", "threads (default: cores this process may use)" },
        { "--json", RT_FLAG_BOOL, &r.json, NULL, "what was made, as JSON" },
        { 0 },
    };
    const rt_command c = {
        .name = "init",
        .usage = "retort init (--preset NAME | --config FILE | --from MODEL --layers LIST) OUT [flags]",
        .text =
            "Makes a model with random weights, to try and to measure without downloading any, or a student from some\n"
            "layers of a teacher. The weights depend on the seed and the shape alone: one seed gives the same values\n"
            "in every format, and rounded ones in every dtype. Tiny presets have a tokenizer of bytes; others take\n"
            "--tokenizer. A random model says so in its configuration.",
        .example = "retort init --preset qwen2.5-7b --dtype q4_k_m random-7b.gguf",
        .flags = flags,
        .max_words = 1,
        .words = &words,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    r.out = words.count ? words.text[0] : NULL;
    return run(&r, e);
}
