/* cmd_export.c - `retort export`: the model of a run alone, as a folder or as a file. */
#include "cli/cli.h"

#include <stdio.h>

static int copy_folder(const char *from, rt_job_output *o, bool json, rt_err *e)
{
    int rc;
    char size[32];
    rt_job_exported x;
    rt_job_env env = rt_cli_env(0);
    o->progress = rt_live_progress;
    rt_interrupt_catch();
    rt_live_begin(stderr);
    rc = rt_job_export(&x, from, o, &env.hub, e);
    rt_live_end();
    if (rc < 0) return rc;
    const char *kind = x.adapter ? "adapter" : "model";
    if (json)
        return rt_print_json(json_pack("{s:o, s:o, s:s, s:s, s:i, s:I, s:o}", "input", rt_json_text(from), "output",
                                       rt_json_text(o->path), "format", "hf", "kind", kind, "files", (int)x.files,
                                       "file_bytes", (json_int_t)x.bytes, "notes", rt_json_notes(&x.notes)),
                             e);
    rt_put("output    %s (%s), %u files, %s, as they were\n", o->path, kind, x.files, rt_format_bytes(size, x.bytes));
    for (uint32_t i = 0; i < x.notes.count; i++) rt_put("note      %s\n", x.notes.text[i]);
    rt_put("upload    hf upload ORG/NAME");
    rt_print_word(o->path, "");
    rt_put("\n");
    return RT_OK;
}

int rt_cmd_export(int argc, char **argv, rt_err *e)
{
    rt_job_convert_opts r = { .modelfile = true };
    rt_words words = { 0 };
    const char *base = NULL;
    bool json = false, adapter = false, copies, help;
    const rt_flag flags[] = {
        { "--to", RT_FLAG_TEXT, &r.out.path, "PATH", "a folder, or NAME.gguf, NAME.apr, NAME.safetensors; needed" },
        { "--dtype", RT_FLAG_TEXT, &r.out.dtype, "D", "f32, bf16, f16, q8_0, q4_k_m...; default: as stored" },
        { "--adapter", RT_FLAG_BOOL, &adapter, NULL, "a LoRA adapter as one GGUF file for llama.cpp: not merged" },
        { "--base", RT_FLAG_TEXT, &base, "MODEL", "base model of an adapter (default: the one that it names)" },
        { "--force", RT_FLAG_BOOL, &r.out.replace, NULL, "replace PATH when it is there" },
        { "--threads", RT_FLAG_COUNT, &r.out.threads, "N", "threads (default: cores this process may use)" },
        { "--json", RT_FLAG_BOOL, &json, NULL, "what was done as JSON" },
        { 0 },
    };
    const rt_command c = {
        .name = "export",
        .usage = "retort export OUT --to PATH [flags]",
        .text = "Writes the model that a run has left in OUT, and nothing of the run: no checkpoints, no optimizer\n"
                "states, no data. To a folder its files are copied as they are, with the model card; an adapter stays\n"
                "an adapter.\n"
                "To a file, or with --dtype, it is written as retort convert writes it: an adapter is merged into its\n"
                "base then, unless --adapter is given. PATH gets its name when all of it was read back.",
        .example = "retort export out --to my-model && hf upload ORG/NAME my-model\n"
                   "retort export out --to my-model.gguf --dtype q8_0",
        .flags = flags,
        .min_words = 1,
        .max_words = 1,
        .words = &words,
    };
    int rc = rt_args_parse(&c, argc, argv, &help, e);
    if (rc < 0 || help) return rc;
    if (!r.out.path)
        return rt_fail(e, RT_USAGE, "retort export: --to is needed, a folder or a file such as %s.gguf", words.text[0]);
    if (adapter) return rt_adapter_command(words.text[0], base, &r.out, json, e);
    rc = rt_job_export_copies(&r.out, &copies, e);
    if (rc < 0) return rc;
    return copies ? copy_folder(words.text[0], &r.out, json, e)
                  : rt_convert_command(words.text[0], base, &r, false, json, e);
}
