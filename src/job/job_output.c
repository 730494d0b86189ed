/* job_output.c - an output model before any work is done: its format and dtype, the reasons to refuse it, and the
 * tokenizer that goes into it. See job_internal.h. */
#include "job/job_internal.h"

#include "base/json.h"
#include "base/lock.h"
#include "text/data/model_text_files.h"
#include "text/tokenizer/vocab_convert.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

/* ---- format and dtype ---- */

static const char *const known[] = { ".gguf", ".safetensors", ".apr", NULL };

static const char *suffix_of(const char *path)
{
    const char *dot = strrchr(rt_path_base(path), '.');
    return dot && dot > rt_path_base(path) ? dot : NULL;
}

/* A suffix of letters alone, such as .ggfu or .bin, is a format that is misspelt or not known; .5b of qwen2.5-0.5b and
 * .v2 are parts of a folder's name. What is there already, or has a slash at its end, is meant as a folder. */
static bool has_strange_suffix(const char *path)
{
    const char *suffix = suffix_of(path);
    size_t n = suffix ? strlen(suffix + 1) : 0;
    for (int i = 0; suffix && known[i]; i++)
        if (rt_path_ends(suffix, known[i])) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalpha((unsigned char)suffix[1 + i])) return false;
    return n > 0 && !rt_path_is_dir(path);
}

static int strange_suffix(const rt_job_output *o, rt_err *e)
{
    const char *suffix = suffix_of(o->path), *near = rt_nearest(suffix, known);
    bool folder = o->other == RT_CONTAINER_HF;
    return rt_fail(e, RT_USAGE, "%s: no format has the suffix %s (.gguf, .safetensors and .apr have theirs)%s%s%s; %s",
                   o->path, suffix, near ? ", did you mean " : "", near ? near : "", near ? "?" : "",
                   folder ? "for a folder of that name put a slash at its end"
                          : "--to gives a file of any name a format");
}

static int find_format(rt_container *out, const rt_job_output *o, rt_err *e)
{
    static const char *const names[] = { "hf", "safetensors", "gguf", "apr", NULL };
    *out = rt_path_ends(o->path, ".gguf")          ? RT_CONTAINER_GGUF
           : rt_path_ends(o->path, ".apr")         ? RT_CONTAINER_APR
           : rt_path_ends(o->path, ".safetensors") ? RT_CONTAINER_SAFETENSORS
                                                   : o->other;
    if (!o->format && has_strange_suffix(o->path)) return strange_suffix(o, e);
    if (!o->format || rt_container_parse(o->format, out)) return RT_OK;
    const char *near = rt_nearest(o->format, names);
    return rt_fail(e, RT_USAGE, "--to takes hf, safetensors, gguf or apr, not '%s'%s%s%s", o->format,
                   near ? "; did you mean " : "", near ? near : "", near ? "?" : "");
}

static int find_mix(const rt_mix **out, const char *name, rt_err *e)
{
    rt_str list = { 0 };
    *out = rt_mix_find(name);
    if (*out) return RT_OK;
    for (const char *const *n = rt_mix_names(); *n; n++) rt_str_printf(&list, "%s%s", list.len ? " " : "", *n);
    const char *near = rt_nearest(name, rt_mix_names());
    rt_fail(e, RT_USAGE, "--dtype '%s' is not known%s%s%s; it is one of: %s", name, near ? "; did you mean " : "",
            near ? near : "", near ? "?" : "", list.data ? list.data : "");
    rt_str_free(&list);
    return RT_USAGE;
}

int rt_job_output_kind(const rt_job_output *o, const char *dtype, rt_container *to, const rt_mix **mix, rt_err *e)
{
    int rc = find_format(to, o, e);
    *mix = NULL;
    return rc < 0 || !dtype ? rc : find_mix(mix, dtype, e);
}

/* ---- reasons to refuse ---- */

/* Whether inner is outer or lies below it; both exist. */
static bool lies_in(const char *inner, const char *outer)
{
    char a[PATH_MAX], b[PATH_MAX];
    if (!realpath(inner, a) || !realpath(outer, b)) return false;
    size_t n = strlen(b);
    return strncmp(a, b, n) == 0 && (a[n] == 0 || a[n] == '/');
}

static int same_as_input(const char *path, const rt_model_file *in, rt_err *e)
{
    bool hit = lies_in(in->path, path);
    for (uint32_t i = 0; !hit && i < in->part_count; i++) hit = lies_in(in->parts[i].path, path);
    if (!hit) return RT_OK;
    return rt_fail(e, RT_INVALID,
                   "%s holds the input: it cannot be replaced by what is made from it; give another output", path);
}

/* An empty directory may always be filled. Whether what is in it may go is for the writer to say: only a model may. */
static int directory_allowed(const char *path, rt_err *e)
{
    rt_arena a = { 0 };
    char **names;
    uint32_t count = 0;
    int rc = rt_dir_list(&names, &count, &a, path, e);
    if (rc >= 0 && count) rc = rt_fail(e, RT_INVALID, "%s is there already; --force replaces it", path);
    rt_arena_free(&a);
    return rc;
}

/* ---- runs ---- */

static bool has_in_run(const char *out, const char *name)
{
    char path[PATH_MAX];
    return (size_t)snprintf(path, sizeof path, "%s/run/%s", out, name) < sizeof path && rt_path_exists(path);
}

/* Runs of older versions have no lock's file. */
static bool is_run(const char *out)
{
    return has_in_run(out, "retort.lock") || (has_in_run(out, "settings.json") && has_in_run(out, "metrics.jsonl"));
}

/* real: a path without links. The runs in whose OUT it lies. */
static int check_above(const char *path, const char *real, rt_err *e)
{
    char out[PATH_MAX], run[PATH_MAX];
    snprintf(out, sizeof out, "%s", real);
    for (;;) {
        size_t n = (size_t)snprintf(run, sizeof run, "%s/run", out);
        bool inside = n < sizeof run && strncmp(real, run, n) == 0 && (real[n] == 0 || real[n] == '/');
        int rc = n < sizeof run && is_run(out) ? rt_lock_check(run, out, e) : RT_OK;
        if (rc >= 0 && inside && is_run(out))
            rc = rt_fail(e, RT_INVALID, "%s lies in %s, where only the run itself writes: name another place", path,
                         run);
        if (rc < 0) return rc;
        char *slash = strrchr(out, '/');
        if (!slash || slash == out) return RT_OK;
        *slash = 0;
    }
}

/* The nearest of path and the folders above it that is there. */
static int check_nearest(const char *path, const char *from, rt_err *e)
{
    char at[PATH_MAX], real[PATH_MAX];
    if ((size_t)snprintf(at, sizeof at, "%s", *from ? from : ".") >= sizeof at)
        return rt_fail(e, RT_INVALID, "the output's name is too long");
    while (!realpath(at, real)) {
        char *slash = strrchr(at, '/');
        if (slash == at || strcmp(at, ".") == 0) return RT_OK;
        if (slash)
            *slash = 0;
        else
            strcpy(at, ".");
    }
    return check_above(path, real, e);
}

int rt_job_output_outside_runs(const char *path, rt_err *e)
{
    char folder[PATH_MAX];
    int rc = check_nearest(path, path, e);
    if (rc < 0) return rc;
    /* A link is replaced where it is, not where it leads. */
    snprintf(folder, sizeof folder, "%.*s", (int)(rt_path_base(path) - path), path);
    return check_nearest(path, folder, e);
}

int rt_job_output_allowed(const char *path, rt_container to, bool replace, const rt_model_file *in, rt_err *e)
{
    struct stat st;
    int rc = RT_OK;
    if (!path[0]) return rt_fail(e, RT_USAGE, "the output has an empty path");
    rc = rt_job_output_outside_runs(path, e);
    if (rc < 0) return rc;
    if (stat(path, &st) != 0) return RT_OK;
    if (in) rc = same_as_input(path, in, e);
    if (rc < 0) return rc;
    if (S_ISDIR(st.st_mode) && to != RT_CONTAINER_HF)
        return rt_fail(e, RT_INVALID, "%s is a directory, and %s is one file: give a file name", path,
                       rt_container_name(to));
    if (S_ISDIR(st.st_mode)) return replace ? RT_OK : directory_allowed(path, e);
    if (to == RT_CONTAINER_HF && S_ISREG(st.st_mode))
        return rt_fail(e, RT_INVALID, "%s is a file, and a Hugging Face output is a directory: give another name",
                       path);
    if (!S_ISREG(st.st_mode)) return rt_fail(e, RT_INVALID, "%s is not an ordinary file: not replaced", path);
    return replace ? RT_OK : rt_fail(e, RT_INVALID, "%s is there already; --force replaces it", path);
}

int rt_job_output_fits(const char *path, uint64_t bytes, rt_err *e)
{
    char folder[PATH_MAX], need[32], room[32];
    struct statvfs fs;
    /* The nearest folder above that exists; folders in between are made later, on the same file system. */
    if (strlen(path) >= sizeof folder) return rt_fail(e, RT_INVALID, "the output's name is too long");
    strcpy(folder, path);
    while (statvfs(folder, &fs) != 0) {
        char *slash = strrchr(folder, '/');
        if (errno != ENOENT && errno != ENOTDIR) return rt_fail(e, RT_IO, "%s: %s", folder, strerror(errno));
        if (slash == folder)
            strcpy(folder, "/");
        else if (slash)
            *slash = 0;
        else
            strcpy(folder, ".");
    }
    uint64_t free_bytes = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (free_bytes >= bytes) return RT_OK;
    return rt_fail(e, RT_IO, "%s needs %s, and its file system has %s free: make room, or choose a smaller --dtype",
                   path, rt_format_bytes(need, bytes), rt_format_bytes(room, free_bytes));
}

/* ---- the tokenizer ---- */

/* A sentence per line. */
static void add_notes(rt_notes *n, const rt_str *lines)
{
    for (const char *p = lines->data; p && *p;) {
        size_t len = strcspn(p, "\n");
        if (len) rt_note(n, "%.*s", (int)len, p);
        p += len + (p[len] == '\n');
    }
}

int rt_job_output_text(rt_model_text *out, const rt_model_text *in, bool none, rt_container to,
                       const rt_model_config *c, rt_arena *a, rt_notes *notes, rt_err *e)
{
    rt_str lost = { 0 };
    bool has = in->tokenizer_json.data || in->has_vocab;
    *out = (rt_model_text){ .generation_config = in->generation_config, .unk = -1, .pad = -1, .eot = -1 };
    if (none || (!has && !in->chat_template.data && in->side_count == 0)) return RT_OK;
    if (to == RT_CONTAINER_SAFETENSORS) {
        rt_note(notes, "a .safetensors file holds no tokenizer: it is left out; --to hf takes it along");
        return RT_OK;
    }
    int rc = rt_model_text_for(out, in, to, c->vocab, a, &lost, e);
    if (rc == RT_UNSUPPORTED) rt_err_context(e, "--no-tokenizer would leave the tokenizer out");
    if (rc >= 0 && lost.failed) rc = rt_no_memory(e, "what is said about the tokenizer");
    if (rc >= 0) add_notes(notes, &lost);
    rt_str_free(&lost);
    return rc;
}

/* ---- tokenizers that are named ---- */

static bool has_tokenizer_json(const char *folder, rt_arena *a)
{
    char *path = rt_path_join(a, folder, "tokenizer.json");
    return path && rt_path_exists(path);
}

/* The folder of a file, in a; null when out of memory. */
static char *folder_of(const char *path, rt_arena *a)
{
    size_t len = (size_t)(rt_path_base(path) - path);
    return len ? rt_arena_printf(a, "%.*s", (int)len, path) : rt_arena_strdup(a, ".");
}

int rt_job_tokenizer_open(rt_job_tokenizer *s, const char *spec, const rt_hub_env *hub, rt_arena *a, rt_err *e)
{
    if (rt_path_is_dir(spec) && has_tokenizer_json(spec, a)) return rt_text_files_read(&s->text, spec, NULL, a, e);
    if (rt_path_ends(spec, ".json")) {
        char *folder = folder_of(spec, a);
        if (!folder) return rt_no_memory(e, "a path");
        return rt_text_files_read(&s->text, folder, spec, a, e);
    }
    int rc = rt_model_file_open(&s->model, spec, hub, e);
    if (rc < 0) return rc;
    s->text = s->model->text;
    if (s->text.tokenizer_json.data || s->text.has_vocab) return RT_OK;
    return rt_fail(e, RT_NOT_FOUND, "%s has no tokenizer; give a tokenizer.json or another model", spec);
}

static int keep(rt_span *out, rt_str *text, rt_arena *a, rt_err *e)
{
    char *copy = text->failed || !text->data ? NULL : rt_arena_alloc(a, text->len + 1);
    if (copy) memcpy(copy, text->data, text->len);
    *out = (rt_span){ copy, copy ? text->len : 0 };
    rt_str_free(text);
    return copy ? RT_OK : rt_no_memory(e, "a tokenizer");
}

/* The template of tokenizer_config.json also by itself, for formats that keep it apart. */
static int take_template(rt_model_text *t, rt_arena *a, rt_err *e)
{
    json_t *config = rt_json_load(t->tokenizer_config.data, t->tokenizer_config.len, 0, NULL);
    const char *text = json_string_value(rt_text_config_template(config));
    char *copy = text ? rt_arena_strdup(a, text) : NULL;
    json_decref(config);
    if (!copy) return rt_no_memory(e, "a chat template");
    t->chat_template = (rt_span){ copy, strlen(copy) };
    return RT_OK;
}

int rt_job_tokenizer_bytes(rt_job_tokenizer *s, const rt_model_config *c, rt_arena *a, rt_err *e)
{
    rt_str json = { 0 }, config = { 0 };
    int rc;
    s->text = (rt_model_text){ .unk = -1, .pad = -1, .eot = -1 };
    RT_TRY(rt_byte_tokenizer_json(&json, c->vocab, e));
    RT_TRY(keep(&s->text.tokenizer_json, &json, a, e));
    RT_TRY(rt_byte_tokenizer_config(&config, e));
    RT_TRY(keep(&s->text.tokenizer_config, &config, a, e));
    RT_TRY(take_template(&s->text, a, e));
out:
    rt_str_free(&json);
    rt_str_free(&config);
    return rc;
}

int rt_job_tokenizer_check(const rt_job_tokenizer *s, const char *spec, const rt_model_config *c, rt_err *e)
{
    rt_tokenizer *t = NULL;
    int rc = rt_model_tokenizer(&t, &s->text, e);
    if (rc >= 0 && rt_tokenizer_size(t) > c->vocab)
        rc = rt_fail(e, RT_INVALID,
                     "%s has ids up to %u, and the model's embedding has %u rows: take another of the two", spec,
                     rt_tokenizer_size(t) - 1, c->vocab);
    rt_tokenizer_free(t);
    return rc;
}
