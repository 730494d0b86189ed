/* cmd_inspect.c - `retort inspect`: what is known about a model. How it is shown is inspect_print.c. */
#include "cli/cli.h"

#include <stdio.h>

/* Reading a large model takes as long as the disk takes. */
static void say_that_it_takes_time(const rt_job_inspection *f)
{
    char size[32];
    if (f->bytes >= (uint64_t)1 << 30)
        rt_put_to(stderr, "hashing %s; --no-hash leaves this out\n", rt_format_bytes(size, f->bytes));
}

static int inspect(const char *spec, const char *base, bool json, bool tensors, bool no_hash, uint32_t threads,
                   rt_err *e)
{
    int rc;
    rt_job_env env = rt_cli_env(0);
    rt_model_file *m = NULL;
    rt_job_inspection f = { 0 };
    env.hub.base = base;
    RT_TRY(rt_model_file_open(&m, spec, &env.hub, e));
    RT_TRY(rt_job_inspect(&f, m, e));
    if (!no_hash) say_that_it_takes_time(&f);
    if (!no_hash) RT_TRY(rt_job_inspect_hash(&f, tensors, threads, e));
    if (json)
        rc = rt_print_json(rt_inspect_json(&f, tensors), e);
    else
        rt_inspect_print(&f, tensors);
out:
    rt_job_inspection_free(&f);
    rt_model_file_close(m);
    return rc;
}

int rt_cmd_inspect(int argc, char **argv, rt_err *e)
{
    bool json = false, tensors = false, no_hash = false, help;
    uint32_t threads = 0;
    const char *base = NULL;
    rt_words words = { 0 };
    const rt_flag flags[] = {
        { "--base", RT_FLAG_TEXT, &base, "MODEL", "base model of an adapter (default: the one that it names)" },
        { "--tensors", RT_FLAG_BOOL, &tensors, NULL, "every tensor: name, dtype, shape, bytes, hash of its values" },
        { "--no-hash", RT_FLAG_BOOL, &no_hash, NULL, "read the headers alone: no hashes, no check of an APR footer" },
        { "--threads", RT_FLAG_COUNT, &threads, "N", "threads that hash (default: cores this process may use)" },
        { "--json", RT_FLAG_BOOL, &json, NULL, "the same facts as JSON" },
        { 0 },
    };
    const rt_command c = {
        .name = "inspect",
        .usage = "retort inspect MODEL [flags]",
        .text =
            "Says what is in a model: a Hugging Face directory, a .safetensors, .gguf or .apr file, or org/name in\n"
            "the local Hugging Face cache. The file hash is that of the bytes; the content hash is that of the\n"
            "values, and is the same for the same values in another format, sharding or wider dtype. Changes nothing.",
        .example = "retort inspect model.gguf --tensors",
        .flags = flags,
        .min_words = 1,
        .max_words = 1,
        .words = &words,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    return inspect(words.text[0], base, json, tensors, no_hash, threads, e);
}
