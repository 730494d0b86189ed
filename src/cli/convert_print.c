/* convert_print.c - a conversion for the commands: progress, and what it did, as text and as JSON: sizes, dtypes, what
 * fell back, the error of each tensor and of the whole. The keys of the JSON stay as they are. */
#include "cli/cli.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *dtype_asked(const rt_convert *v) { return v->opts.mix ? rt_mix_name(v->opts.mix) : "as stored"; }

static double bits_per_weight(const rt_convert *v)
{
    return v->elems ? 8.0 * (double)v->bytes_out / (double)v->elems : 0;
}

/* ---- text ---- */

/* Of a name that is too wide its end, which tells it from others. */
static const char *name_end(const char *name, int width)
{
    int n = (int)strlen(name);
    return n > width ? name + n - width : name;
}

/* The first few, and how many more there are. all: also those that stay as they are. */
static void print_table(const rt_convert *v, bool all)
{
    enum { FEW = 6 };
    char name[RT_NAME_BYTES];
    int width = 6;
    int rows = 0;
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        int n = (int)strlen(rt_role_hf_name(name, v->tensors[i].role, v->tensors[i].layer));
        if (n > width) width = n;
    }
    int columns = (int)rt_terminal_width(stdout);
    if (columns && width > columns - 37) width = columns - 37 > 6 ? columns - 37 : 6;
    rt_put("%-*s %-6s %-6s %10s %10s\n", width, "tensor", "from", "to", "rmse", "max error");
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        const rt_convert_tensor *t = &v->tensors[i];
        if ((!all && t->same && !t->fell && !t->nonfinite) || ++rows > FEW) continue;
        rt_put("%-*s %-6s %-6s ", width, name_end(rt_role_hf_name(name, t->role, t->layer), width),
               rt_job_dtype_name(t->from), rt_dtype_name(t->to));
        if (t->same)
            rt_put("%10s %10s", "same", "same");
        else
            rt_put("%10.3e %10.3e", rt_convert_rmse(t), t->max_error);
        if (t->fell) rt_put("  fell back: rows of %" PRIu64 " columns", rt_tensor_cols(t->from));
        if (t->nonfinite) rt_put("  %" PRIu64 " not finite", t->nonfinite);
        rt_put("\n");
    }
    if (rows > FEW) rt_put("... and %d more; --json has them all\n", rows - FEW);
}

static void print_types(const rt_convert *v)
{
    uint32_t count[RT_DTYPE_COUNT] = { 0 };
    uint64_t bytes[RT_DTYPE_COUNT] = { 0 };
    const char *comma = "";
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        count[v->tensors[i].to]++;
        bytes[v->tensors[i].to] += v->tensors[i].bytes;
    }
    rt_put("dtypes    %s:", dtype_asked(v));
    for (uint32_t d = 0; d < RT_DTYPE_COUNT; d++) {
        if (!count[d]) continue;
        rt_put("%s %s %u tensor%s (%.1f %%)", comma, rt_dtype_name((rt_dtype)d), count[d], count[d] == 1 ? "" : "s",
               100.0 * (double)bytes[d] / (double)v->bytes_out);
        comma = ",";
    }
    rt_put("\n");
    if (v->dequantised)
        rt_put("          %u quantised matrices became bf16: %s has no such type\n", v->dequantised,
               rt_container_name(v->opts.to));
    if (v->fallbacks)
        rt_put("          %u fell back to another type: their rows do not fill blocks of 256\n", v->fallbacks);
}

/* The lines that start the file elsewhere. */
static void print_modelfile(const char *out, const rt_job_conversion *m)
{
    char name[64] = "";
    size_t n = 0;
    if (!m->modelfile) return;
    rt_put("ollama    %s", m->modelfile);
    if (m->family)
        rt_put(", with the %s template\n", m->family);
    else
        rt_put("; %s\n", m->chat
                             ? "its chat is up to the template inside the GGUF file, which is of no family known here"
                             : "the model has no chat template and continues text");
    if (m->system) rt_put("          with SYSTEM, from the chat template: %s\n", m->system);
    for (const char *p = rt_path_base(out); *p && strcmp(p, ".gguf") != 0 && n + 1 < sizeof name; p++)
        name[n++] = isalnum((unsigned char)*p) || strchr("._-", *p) ? (char)tolower((unsigned char)*p) : '-';
    if (name[0] == '-') name[0] = 'm'; /* a name, not a flag */
    name[n] = 0;
    rt_put("run it    ollama create %s -f", name);
    rt_print_word(m->modelfile, "");
    rt_put(" && ollama run %s\n          llama-cli -m", name);
    rt_print_word(out, "");
    rt_put("\n");
}

/* Which layer became which: "0-3 <- 0-3, 4 <- 9, 5-7 <- 12-20 by 4". */
static void print_layers(const rt_convert *v)
{
    const uint32_t *from = v->opts.layers, n = v->config->layers;
    if (!from) return;
    rt_put("layers    student <- teacher:");
    for (uint32_t i = 0, last; i < n; i = last + 1) {
        uint32_t by = i + 1 < n && from[i + 1] > from[i] ? from[i + 1] - from[i] : 0;
        for (last = i; by && last + 1 < n && from[last + 1] == from[last] + by;) last++;
        if (by > 1 && last < i + 2) last = i; /* two alone are no stride */
        rt_put("%s %u", i ? "," : "", i);
        if (last > i) rt_put("-%u", last);
        rt_put(" <- %u", from[i]);
        if (last > i) rt_put("-%u", from[last]);
        if (last > i && by > 1) rt_put(" by %u", by);
    }
    rt_put("\n");
    if (n == 1 && from[0])
        rt_put("note      one layer, number %u counted from 0; --depth %u takes so many, --layers 0,2,4-7 a list\n",
               from[0], from[0]);
}

/* Where the name does not say whether it is a file or a folder. */
static const char *what_of(const char *out, rt_container to)
{
    if (to == RT_CONTAINER_HF) return rt_path_ends(out, "/") ? "" : ": a folder";
    return rt_path_ends(out, ".gguf") || rt_path_ends(out, ".apr") || rt_path_ends(out, ".safetensors") ? ""
                                                                                                        : ": a file";
}

static void print_text(const rt_job_conversion *c, const char *out, bool quantise)
{
    char a[32], b[32];
    const rt_convert *v = &c->v;
    bool table = quantise || v->same < v->tensor_count || v->fallbacks || v->nonfinite;
    if (table) print_table(v, quantise);
    rt_put("output    %s (%s%s), %s%s\n", out, rt_container_name(v->opts.to), what_of(out, v->opts.to),
           rt_format_bytes(a, v->file_bytes), table ? "" : ", every value exactly as it was");
    rt_put("size      %s -> %s, %.2f bits per weight\n", rt_format_bytes(a, v->bytes_in),
           rt_format_bytes(b, v->bytes_out), bits_per_weight(v));
    print_types(v);
    print_layers(v);
    if (table)
        rt_put("error     rmse %.3e, max %.3e, relative %.3g %% where something changed; %u of %u tensors exact\n",
               v->rmse, v->max_error, 100 * v->relative, v->same, v->tensor_count);
    if (v->of_change > 0) rt_put("adapter   rounding is %.3g %% of what it changes\n", 100 * v->of_change);
    if (v->nonfinite) rt_put("note      %" PRIu64 " values of the input are infinite or NaN\n", v->nonfinite);
    for (uint32_t i = 0; i < c->notes.count; i++) rt_put("note      %s\n", c->notes.text[i]);
    print_modelfile(out, c);
    rt_put("time      %.2f s writing, %.2f s reading back and comparing\n", v->write_seconds, v->compare_seconds);
}

/* ---- JSON ---- */

static json_t *tensors_json(const rt_convert *v)
{
    char name[RT_NAME_BYTES];
    json_t *list = json_array();
    for (uint32_t i = 0; i < v->tensor_count; i++) {
        const rt_convert_tensor *t = &v->tensors[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:b, s:I, s:I, s:b, s:f, s:f, s:I}", "name",
                                              rt_role_hf_name(name, t->role, t->layer), "from",
                                              rt_job_dtype_name(t->from), "to", rt_dtype_name(t->to), "fallback",
                                              t->fell, "elements", (json_int_t)t->elems, "bytes", (json_int_t)t->bytes,
                                              "same", t->same, "rmse", rt_convert_rmse(t), "max_error", t->max_error,
                                              "nonfinite", (json_int_t)t->nonfinite));
    }
    return list;
}

static json_t *to_json(const rt_job_conversion *c, const char *in, const char *out)
{
    const rt_convert *v = &c->v;
    return json_pack("{s:o, s:o, s:s, s:s, s:I, s:I, s:I, s:I, s:f, s:i, s:i, s:i, s:f, s:f, s:f, s:f, s:I, s:f, s:f, "
                     "s:o, s:o, s:o}",
                     "input", rt_json_text(in), "output", rt_json_text(out), "format", rt_container_name(v->opts.to),
                     "dtype", dtype_asked(v), "parameters", (json_int_t)v->elems, "bytes_in", (json_int_t)v->bytes_in,
                     "bytes_out", (json_int_t)v->bytes_out, "file_bytes", (json_int_t)v->file_bytes, "bits_per_weight",
                     bits_per_weight(v), "same", (int)v->same, "fallbacks", (int)v->fallbacks, "dequantised",
                     (int)v->dequantised, "rmse", v->rmse, "max_error", v->max_error, "relative_error", v->relative,
                     "error_of_change", v->of_change, "nonfinite", (json_int_t)v->nonfinite, "seconds_writing",
                     v->write_seconds, "seconds_comparing", v->compare_seconds, "notes", rt_json_notes(&c->notes),
                     "modelfile", rt_json_text(c->modelfile), "tensors", tensors_json(v));
}

int rt_convert_command(const char *spec, const char *base, const rt_job_convert_opts *given, bool quantise, bool json,
                       rt_err *e)
{
    int rc;
    rt_job_env env = rt_cli_env(0);
    rt_job_convert_opts o = *given;
    rt_model_file *in = NULL;
    rt_job_conversion *c = NULL;
    env.hub.base = base;
    RT_TRY(rt_model_file_open(&in, spec, &env.hub, e));
    o.out.progress = rt_live_progress;
    rt_interrupt_catch();
    rt_live_begin(stderr);
    rc = rt_job_convert(&c, in, &o, e);
    rt_live_end();
    if (rc < 0) goto out;
    if (json)
        RT_TRY(rt_print_json(to_json(c, spec, o.out.path), e));
    else
        print_text(c, o.out.path, quantise);
out:
    rt_job_conversion_free(c);
    rt_model_file_close(in);
    return rc;
}
