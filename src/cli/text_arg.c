/* text_arg.c - see text_arg.h. */
#include "cli/text_arg.h"

#include "text/data/model_text.h"
#include "text/data/model_text_files.h"
#include "text/tokenizer/vocab_convert.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void rt_text_note(rt_text_notes *n, const char *format, ...)
{
    va_list args;
    if (n->count == RT_TEXT_NOTES) return;
    va_start(args, format);
    vsnprintf(n->text[n->count++], sizeof n->text[0], format, args);
    va_end(args);
}

/* A sentence per line. */
static void add_notes(rt_text_notes *n, const rt_str *lines)
{
    for (const char *p = lines->data; p && *p;) {
        size_t len = strcspn(p, "\n");
        if (len) rt_text_note(n, "%.*s", (int)len, p);
        p += len + (p[len] == '\n');
    }
}

int rt_text_for_output(rt_model_text *out, const rt_model_text *in, bool none, rt_container to,
                       const rt_model_config *c, rt_arena *a, rt_text_notes *notes, rt_err *e)
{
    rt_str lost = { 0 };
    bool has = in->tokenizer_json.data || in->has_vocab;
    *out = (rt_model_text){ .generation_config = in->generation_config, .unk = -1, .pad = -1, .eot = -1 };
    if (none || (!has && !in->chat_template.data && in->side_count == 0)) return RT_OK;
    if (to == RT_CONTAINER_SAFETENSORS) {
        rt_text_note(notes, "a .safetensors file holds no tokenizer: it is left out; --to hf takes it along");
        return RT_OK;
    }
    int rc = rt_model_text_for(out, in, to, c->vocab, a, &lost, e);
    if (rc == RT_UNSUPPORTED) rt_err_context(e, "--no-tokenizer would leave the tokenizer out");
    if (rc >= 0 && lost.failed) rc = rt_fail(e, RT_NOMEM, "no memory for what is said about the tokenizer");
    if (rc >= 0) add_notes(notes, &lost);
    rt_str_free(&lost);
    return rc;
}

/* ---- tokenizers that the user names ---- */

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

int rt_text_arg_open(rt_text_arg *s, const char *spec, const rt_hub_env *env, rt_arena *a, rt_err *e)
{
    if (rt_path_is_dir(spec) && has_tokenizer_json(spec, a)) return rt_text_files_read(&s->text, spec, NULL, a, e);
    if (rt_path_ends(spec, ".json")) {
        char *folder = folder_of(spec, a);
        if (!folder) return rt_fail(e, RT_NOMEM, "no memory for a path");
        return rt_text_files_read(&s->text, folder, spec, a, e);
    }
    int rc = rt_model_file_open(&s->model, spec, env, e);
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
    return copy ? RT_OK : rt_fail(e, RT_NOMEM, "no memory for a tokenizer");
}

/* The template of tokenizer_config.json also by itself, for formats that keep it apart. */
static int take_template(rt_model_text *t, rt_arena *a, rt_err *e)
{
    json_t *config = json_loadb(t->tokenizer_config.data, t->tokenizer_config.len, 0, NULL);
    const char *text = json_string_value(rt_text_config_template(config));
    char *copy = text ? rt_arena_strdup(a, text) : NULL;
    json_decref(config);
    if (!copy) return rt_fail(e, RT_NOMEM, "no memory for a chat template");
    t->chat_template = (rt_span){ copy, strlen(copy) };
    return RT_OK;
}

int rt_text_arg_bytes(rt_text_arg *s, const rt_model_config *c, rt_arena *a, rt_err *e)
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

int rt_text_arg_check(const rt_text_arg *s, const char *spec, const rt_model_config *c, rt_err *e)
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

void rt_text_arg_close(rt_text_arg *s) { rt_model_file_close(s->model); }
