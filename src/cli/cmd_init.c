/* cmd_init.c - `retort init`: a model that has learned nothing, of a preset's or a configuration's shape, or a student
 * made of a teacher's layers. */
#include "cli/cli.h"

#include <inttypes.h>
#include <stdio.h>

typedef struct request {
    rt_job_init_opts o;
    const char *from, *layers;
    uint32_t depth;
    bool list, json;
} request;

static int list_presets(bool json, rt_err *e)
{
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    json_t *list = json ? json_array() : NULL;
    rt_model_config *c = rt_alloc(sizeof *c, 64);
    if (!c) return rt_no_memory(e, "a configuration");
    for (uint32_t i = 0; i < count; i++) {
        char size[32];
        uint64_t n = 0;
        rt_preset_fill(&p[i], c);
        rt_config_parameters(c, &n);
        if (json)
            json_array_append_new(list,
                                  json_pack("{s:s, s:s, s:s, s:I, s:b}", "name", p[i].name, "family", c->family->name,
                                            "text", p[i].text, "parameters", (json_int_t)n, "tokenizer", p[i].tiny));
        else
            rt_put("%-14s %8s  %s\n", p[i].name, rt_format_params(size, n), p[i].text);
    }
    rt_free(c);
    return json ? rt_print_json(list, e) : RT_OK;
}

static int report(const rt_job_initialised *m, const request *r, rt_err *e)
{
    char a[32], b[32];
    const rt_job_init_opts *o = &r->o;
    if (r->json)
        return rt_print_json(json_pack("{s:o, s:s, s:s, s:s, s:o, s:I, s:I, s:i, s:b, s:f}", "output",
                                       rt_json_text(o->out.path), "format", rt_container_name(m->format), "family",
                                       m->family, "dtype", m->dtype, "seed", rt_json_u64(o->seed), "parameters",
                                       (json_int_t)m->parameters, "bytes", (json_int_t)m->bytes, "fallbacks",
                                       (int)m->fallbacks, "tokenizer", m->tokenizer, "seconds", m->seconds),
                             e);
    rt_put("output    %s (%s)\n", o->out.path, rt_container_name(m->format));
    rt_put("model     %s, %s parameters, random from seed %" PRIu64 "\n", m->family, rt_format_params(a, m->parameters),
           o->seed);
    rt_put("size      %s in %s", rt_format_bytes(b, m->bytes), m->dtype);
    if (m->fallbacks)
        rt_put("; %u matrices fell back to another type: their rows do not fill blocks of 256", m->fallbacks);
    rt_put("\ntokenizer %s\n",
           m->tokenizer ? o->tokenizer ? o->tokenizer : "bytes, with <|endoftext|>, <|im_start|> and <|im_end|>"
                        : "none; --tokenizer gives it one");
    for (uint32_t i = 0; i < m->notes.count; i++) rt_put("note      %s\n", m->notes.text[i]);
    rt_put("time      %.2f s\n", m->seconds);
    return RT_OK;
}

static int make_random(request *r, rt_err *e)
{
    static rt_job_initialised made;
    rt_job_env env = rt_cli_env(0);
    r->o.hub = &env.hub;
    r->o.out.progress = rt_live_progress;
    rt_interrupt_catch();
    rt_live_begin(stderr);
    int rc = rt_job_init(&made, &r->o, e);
    rt_live_end();
    return rc < 0 ? rc : report(&made, r, e);
}

/* ---- the command ---- */

static void print_next(const request *r)
{
    rt_put("next      retort distill --teacher");
    rt_print_word(r->from, "");
    rt_put(" --student");
    rt_print_word(r->o.out.path, "");
    rt_put(" --data DATA --out OUT\n");
}

static int take_layers(const request *r, rt_err *e)
{
    if (!r->layers == !r->depth)
        return rt_fail(
            e, RT_USAGE,
            "retort init: --from needs %s: --depth 6 takes the first three layers and the last three, --layers 0,2,4-7 "
            "those; retort convert takes all",
            r->layers ? "one of the two" : "--depth or --layers");
    if (r->o.tokenizer || r->o.seed)
        return rt_fail(e, RT_USAGE, "retort init: --from takes weights and tokenizer from the model: leave out %s",
                       r->o.tokenizer ? "--tokenizer" : "--seed");
    const rt_job_convert_opts o = { .out = r->o.out, .layers = r->layers, .depth = r->depth };
    int rc = rt_convert_command(r->from, NULL, &o, false, r->json, e);
    if (rc >= 0 && !r->json) print_next(r);
    return rc;
}

static int run(request *r, rt_err *e)
{
    int sources = !!r->o.preset + !!r->o.config + !!r->from;
    if (r->list) return list_presets(r->json, e);
    if (!r->o.out.path) return rt_fail(e, RT_USAGE, "retort init: the output is missing; see retort init --help");
    if (sources != 1)
        return rt_fail(e, RT_USAGE, "retort init: give one of --preset, --config and --from%s",
                       sources ? ", not several" : "; retort init --list shows the presets");
    if ((r->layers || r->depth) && !r->from)
        return rt_fail(e, RT_USAGE, "retort init: %s goes with --from", r->layers ? "--layers" : "--depth");
    return r->from ? take_layers(r, e) : make_random(r, e);
}

int rt_cmd_init(int argc, char **argv, rt_err *e)
{
    request r = { 0 };
    rt_words words = { 0 };
    bool help;
    const rt_flag flags[] = {
        { "--preset", RT_FLAG_TEXT, &r.o.preset, "NAME", "a shape by name: tiny, qwen2.5-0.5b..." },
        { "--list", RT_FLAG_BOOL, &r.list, NULL, "show the presets and do nothing" },
        { "--config", RT_FLAG_TEXT, &r.o.config, "FILE", "the shape of a config.json" },
        { "--from", RT_FLAG_TEXT, &r.from, "MODEL", "take weights and tokenizer from this model..." },
        { "--layers", RT_FLAG_TEXT, &r.layers, "LIST", "...and these of its layers: 0,2,4-7" },
        { "--depth", RT_FLAG_COUNT, &r.depth, "N", "...or so many of them: half from the front, half from the end" },
        { "--dtype", RT_FLAG_TEXT, &r.o.out.dtype, "D", "f32, bf16, q4_k_m... (default: bf16; with --from as stored)" },
        { "--seed", RT_FLAG_WHOLE, &r.o.seed, "N", "of the random weights (default: 0)" },
        { "--tokenizer", RT_FLAG_TEXT, &r.o.tokenizer, "T", "a tokenizer.json, or a model to take it from" },
        { "--no-tokenizer", RT_FLAG_BOOL, &r.o.out.no_tokenizer, NULL, "leave the tokenizer out" },
        { "--to", RT_FLAG_TEXT, &r.o.out.format, "FORMAT",
          "hf, gguf, apr or safetensors (default: by OUT's suffix, else hf)" },
        { "--force", RT_FLAG_BOOL, &r.o.out.replace, NULL, "replace OUT when it is there" },
        { "--shard-size", RT_FLAG_BYTES, &r.o.out.shard_bytes, "SIZE",
          "hf: a new file after this much (default: 5GB)" },
        { "--threads", RT_FLAG_COUNT, &r.o.out.threads, "N", "threads (default: cores this process may use)" },
        { "--json", RT_FLAG_BOOL, &r.json, NULL, "what was made, as JSON" },
        { 0 },
    };
    const rt_flag aliases[] = { { "--model", RT_FLAG_TEXT, &r.from, "MODEL", NULL },
                                { "--teacher", RT_FLAG_TEXT, &r.from, "MODEL", NULL },
                                { "--num-layers", RT_FLAG_COUNT, &r.depth, "N", NULL },
                                { "--num-hidden-layers", RT_FLAG_COUNT, &r.depth, "N", NULL },
                                { 0 } };
    const rt_command c = {
        .name = "init",
        .usage = "retort init (--preset NAME | --config FILE | --from MODEL (--depth N | --layers LIST)) OUT [flags]",
        .text =
            "Makes a model with random weights, to try and to measure without downloading any, or a student from some\n"
            "layers of a teacher. Random weights depend on the seed and the shape alone: one seed gives the same\n"
            "values in every format, and rounded ones in every dtype. Tiny presets have a tokenizer of bytes; others\n"
            "take --tokenizer. A random model says so in its configuration. --depth N takes the first half of N from\n"
            "the front of the teacher and the rest from its end: 15 of the 30 layers of SmolLM2-135M begin at a KL of\n"
            "5.1 so, and of 10.7 evenly spaced (docs/training.md).",
        .example = "retort init --from Qwen/Qwen2.5-0.5B --depth 12 student",
        .flags = flags,
        .aliases = aliases,
        .max_words = 1,
        .words = &words,
        .out_word = true,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    r.o.out.path = words.count ? words.text[0] : NULL;
    return run(&r, e);
}
