/* cmd_convert.c - `retort convert`, `retort merge` and `retort quantize`: their flags. What is printed is
 * convert_print.c, but for an adapter that stays one. */
#include "cli/cli.h"

#include <stdio.h>

/* What the three have in common. */
#define FLAGS_OF_ALL(o, base, json)                                                                                    \
    { "--base", RT_FLAG_TEXT, &(base), "MODEL", "base model of an adapter (default: the one that it names)" },         \
        { "--force", RT_FLAG_BOOL, &(o).replace, NULL, "replace OUT when it is there" },                               \
        { "--no-tokenizer", RT_FLAG_BOOL, &(o).no_tokenizer, NULL, "leave tokenizer and chat template out" },          \
        { "--threads", RT_FLAG_COUNT, &(o).threads, "N", "threads (default: cores this process may use)" },            \
    {                                                                                                                  \
        "--json", RT_FLAG_BOOL, &(json), NULL, "what was done, with every tensor, as JSON"                             \
    }

int rt_adapter_command(const char *spec, const char *base, const rt_job_output *o, bool json, rt_err *e)
{
    int rc;
    uint64_t bytes;
    char size[32];
    rt_job_env env = rt_cli_env(0);
    rt_model_file *in = NULL;
    env.hub.base = base;
    RT_TRY(rt_model_file_open(&in, spec, &env.hub, e));
    RT_TRY(rt_job_save_adapter(in, o, &bytes, e));
    const rt_adapter *a = in->adapter;
    if (json)
        rc = rt_print_json(json_pack("{s:o, s:o, s:s, s:i, s:i, s:I}", "input", rt_json_text(spec), "output",
                                     rt_json_text(o->path), "format", "gguf", "rank", (int)a->rank, "matrices",
                                     (int)a->matrices, "file_bytes", (json_int_t)bytes),
                           e);
    else
        rt_put("output    %s (gguf adapter), %s, rank %u over %u matrices\n", o->path, rt_format_bytes(size, bytes),
               a->rank, a->matrices);
out:
    rt_model_file_close(in);
    return rc;
}

int rt_cmd_convert(int argc, char **argv, rt_err *e)
{
    rt_job_convert_opts r = { .modelfile = true };
    rt_words words = { 0 };
    const char *base = NULL;
    bool json = false, adapter = false, help;
    const rt_flag flags[] = {
        { "--to", RT_FLAG_TEXT, &r.out.format, "FORMAT",
          "hf, gguf, apr or safetensors (default: by OUT's suffix, else hf)" },
        { "--dtype", RT_FLAG_TEXT, &r.out.dtype, "D", "f32, bf16, f16, q8_0, q4_k_m...; default: as stored" },
        { "--adapter", RT_FLAG_BOOL, &adapter, NULL,
          "write IN, a LoRA adapter, as an adapter for llama.cpp, not merged" },
        { "--shard-size", RT_FLAG_BYTES, &r.out.shard_bytes, "SIZE", "hf: a new file after this much (default: 5GB)" },
        FLAGS_OF_ALL(r.out, base, json),
        { 0 },
    };
    const rt_flag aliases[] = { { "--outtype", RT_FLAG_TEXT, &r.out.dtype, "D", NULL }, { 0 } };
    const rt_command c = {
        .name = "convert",
        .usage = "retort convert IN OUT [flags]",
        .text =
            "Writes the model IN in another format: values, configuration, tokenizer, chat template. IN is a Hugging\n"
            "Face directory, a .safetensors, .gguf or .apr file, or org/name in the local Hugging Face cache. What\n"
            "was written is read back and every value compared with what was read; only then does it get its name.\n"
            "Without --dtype values stay as they are stored. A type that the format cannot hold changes: quantised\n"
            "matrices become bf16 in hf and safetensors. Vectors are f32 in gguf and apr, as others expect them.\n"
            "Beside NAME.gguf a NAME.Modelfile is written, from which Ollama makes a model. A LoRA adapter is merged\n"
            "into its base; with --adapter OUT is a GGUF file of the adapter alone, which llama.cpp takes with --lora.",
        .example = "retort convert qwen2.5-0.5b.gguf qwen2.5-0.5b/ --dtype bf16",
        .flags = flags,
        .aliases = aliases,
        .min_words = 2,
        .max_words = 2,
        .words = &words,
        .out_word = true,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    r.out.path = words.text[1];
    if (adapter) return rt_adapter_command(words.text[0], base, &r.out, json, e);
    return rt_convert_command(words.text[0], base, &r, false, json, e);
}

int rt_cmd_merge(int argc, char **argv, rt_err *e)
{
    rt_job_convert_opts r = { .modelfile = true, .merge = true };
    rt_words words = { 0 };
    const char *base = NULL;
    bool json = false, help;
    const rt_flag flags[] = {
        { "--dtype", RT_FLAG_TEXT, &r.out.dtype, "D", "f32, bf16, f16, q8_0, q4_k_m...; default: as the base" },
        { "--to", RT_FLAG_TEXT, &r.out.format, "FORMAT",
          "hf, gguf, apr or safetensors (default: by OUT's suffix, else hf)" },
        { "--shard-size", RT_FLAG_BYTES, &r.out.shard_bytes, "SIZE", "hf: a new file after this much (default: 5GB)" },
        FLAGS_OF_ALL(r.out, base, json),
        { 0 },
    };
    const rt_command c = {
        .name = "merge",
        .usage = "retort merge ADAPTER OUT [flags]",
        .text =
            "Writes the base model of a LoRA adapter with the adapter added in: W + alpha / rank * B A, summed in f32\n"
            "and rounded once. ADAPTER is a folder as distill --lora and PEFT write it. Its base is the model that\n"
            "adapter_config.json names: a path, also relative to the adapter's folder, or org/name in the local\n"
            "Hugging Face cache; --base gives another. What was written is read back and compared, as convert does.",
        .example = "retort merge out merged --base Qwen/Qwen2.5-0.5B",
        .flags = flags,
        .min_words = 2,
        .max_words = 2,
        .words = &words,
        .out_word = true,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    r.out.path = words.text[1];
    return rt_convert_command(words.text[0], base, &r, false, json, e);
}

/* A type among the words, as llama-quantize has it: IN OUT Q4_K_M. *words is then IN and OUT. */
static int take_type(rt_words *words, const char **dtype, const rt_command *c, rt_err *e)
{
    uint32_t at = 1;
    while (at < words->count && !rt_job_dtype_find(words->text[at])) at++;
    if (at == words->count && at == 3) at = 2; /* meant as one; it is refused where types are known */
    if (at < words->count && !*dtype) {
        *dtype = words->text[at];
        words->count--;
        if (at == 1) words->text[1] = words->text[2];
    }
    if (words->count > 2)
        return rt_fail(e, RT_USAGE, "retort quantize: '%s' is one argument too many; usage: %s", words->text[2],
                       c->usage);
    if (words->count < 2)
        return rt_fail(e, RT_USAGE, "retort quantize: OUT is missing: retort quantize IN OUT.gguf --dtype %s", *dtype);
    return *dtype ? RT_OK : rt_fail(e, RT_USAGE, "retort quantize: --dtype is needed, such as --dtype q4_k_m");
}

int rt_cmd_quantize(int argc, char **argv, rt_err *e)
{
    rt_job_convert_opts r = { .out = { .other = RT_CONTAINER_GGUF }, .modelfile = true };
    rt_words words = { 0 };
    const char *base = NULL;
    bool json = false, help;
    const rt_flag flags[] = {
        { "--dtype", RT_FLAG_TEXT, &r.out.dtype, "D", "q4_k_m, q4_k, q5_k, q6_k, q8_0, q5_0, q5_1...; needed" },
        { "--to", RT_FLAG_TEXT, &r.out.format, "FORMAT", "gguf or apr (default: by OUT's suffix, else gguf)" },
        FLAGS_OF_ALL(r.out, base, json),
        { 0 },
    };
    const rt_flag aliases[] = { { "--outtype", RT_FLAG_TEXT, &r.out.dtype, "D", NULL }, { 0 } };
    const rt_command c = {
        .name = "quantize",
        .usage = "retort quantize IN OUT --dtype D [flags]",
        .text =
            "Writes the model IN with quantised matrices, as a GGUF file unless OUT says otherwise, and prints the\n"
            "error of the whole and of the first tensors, found by reading the output back; --json has every tensor.\n"
            "q4_k_m is the usual mixture of q4_k and q6_k, whose blocks have 256 weights. A matrix whose rows are no\n"
            "multiple of 256 columns falls back to a larger type with blocks of 32 (q4_k: q5_0, q5_k: q5_1, q6_k:\n"
            "q8_0); where that is so of most, q4_0 or q4_1 is smaller, and a note says by how much.",
        .example = "retort quantize Qwen/Qwen2.5-0.5B-Instruct qwen2.5-0.5b-q4_k_m.gguf --dtype q4_k_m",
        .flags = flags,
        .aliases = aliases,
        .min_words = 2,
        .max_words = 3,
        .words = &words,
        .out_word = true,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    rc = take_type(&words, &r.out.dtype, &c, e);
    if (rc < 0) return rc;
    r.out.path = words.text[1];
    return rt_convert_command(words.text[0], base, &r, true, json, e);
}
