/* convert_run.c - carries out one conversion for the commands: refuses what cannot work before any byte is written,
 * shows progress, reports. */
#include "cli/convert_run.h"

#include "cli/cli.h"
#include "cli/model_arg.h"
#include "cli/progress.h"
#include "cli/text_arg.h"
#include "format/init_random.h"
#include "text/data/model_text.h"
#include "text/data/ollama_modelfile.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int bad_layers(const char *text, rt_err *e)
{
    return rt_fail(e, RT_USAGE, "--layers takes numbers and ranges such as 0,2,4-7, not '%s'", text);
}

/* list (RT_MAX_LAYERS) from "0,2,4-7". */
static int parse_layers(uint32_t *list, uint32_t *count, const char *text, rt_err *e)
{
    const char *p = text;
    char *end;
    *count = 0;
    for (;;) {
        unsigned long first = strtoul(p, &end, 10), last = first;
        if (end == p || p[0] < '0' || p[0] > '9') return bad_layers(text, e);
        if (*end == '-') {
            p = end + 1;
            last = strtoul(p, &end, 10);
            if (end == p || p[0] < '0' || p[0] > '9' || last < first) return bad_layers(text, e);
        }
        if (last >= RT_MAX_LAYERS || last - first >= RT_MAX_LAYERS - *count)
            return rt_fail(e, RT_USAGE, "--layers %s: no model has so many layers", text);
        for (unsigned long i = first; i <= last; i++) list[(*count)++] = (uint32_t)i;
        if (*end == 0) return RT_OK;
        if (*end != ',') return bad_layers(text, e);
        p = end + 1;
    }
}

/* What is large or lives as long as a conversion. */
typedef struct state {
    rt_arena arena;
    rt_model_file *in;
    rt_model_config student;
    uint32_t layers[RT_MAX_LAYERS];
    rt_model_text text;
    rt_convert_opts opts;
    rt_convert v;
    rt_pool *pool;
    rt_text_notes notes;
    rt_convert_modelfile modelfile;
} state;

/* One that says the same is no loss. */
static bool same_text(const char *path, const rt_str *want)
{
    rt_str have = { 0 };
    bool same = rt_file_read(path, want->len, &have, NULL) >= 0 && have.len == want->len &&
                memcmp(have.data, want->data, want->len) == 0;
    rt_str_free(&have);
    return same;
}

/* The Modelfile as text, and its name, before any work is done. Without a tokenizer Ollama could not use the file; with
 * one that is not understood here the weights and its bytes still convert, and a note says what is missing. */
static int prepare_modelfile(state *s, const rt_convert_request *r, rt_err *e)
{
    int rc;
    rt_err why = { 0 };
    rt_text_source *text = NULL;
    rt_convert_modelfile *m = &s->modelfile;
    const rt_model_text *from = &s->in->text;
    size_t stem = strlen(r->out) - (rt_path_ends(r->out, ".gguf") ? strlen(".gguf") : 0);
    if (!r->modelfile || s->opts.to != RT_CONTAINER_GGUF || r->no_tokenizer ||
        (!from->tokenizer_json.data && !from->has_vocab))
        return RT_OK;
    if (!(m->path = rt_arena_printf(&s->arena, "%.*s.Modelfile", (int)stem, r->out)))
        RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a path"));
    rc = rt_text_from_model(&text, from, s->v.config, s->in->path, &why);
    if (rc < 0 && rc != RT_NOMEM) {
        rt_text_note(&s->notes, "no Modelfile was written: %s", why.text);
        m->path = NULL;
        return RT_OK;
    }
    if (rc < 0) RT_TRY(rt_fail(e, rc, "%s", why.text));
    RT_TRY(rt_modelfile(&m->text, rt_path_base(r->out), text, s->v.config, &m->family, e));
    m->chat = text->chat != NULL;
    if (!same_text(m->path, &m->text)) RT_TRY(rt_output_allowed(m->path, RT_CONTAINER_GGUF, r->force, NULL, e));
out:
    rt_text_close(text);
    return rc;
}

static int prepare(state *s, const rt_convert_request *r, rt_err *e)
{
    int rc;
    uint32_t count = 0;
    const rt_hub_env env = rt_hub_env_get();
    RT_TRY(rt_output_format(&s->opts.to, r->to, r->out, r->other, e));
    if (r->dtype) RT_TRY(rt_mix_arg(&s->opts.mix, r->command, r->dtype, e));
    if (r->layers) RT_TRY(parse_layers(s->layers, &count, r->layers, e));
    RT_TRY(rt_model_file_open(&s->in, r->in, &env, e));
    RT_TRY(rt_output_allowed(r->out, s->opts.to, r->force, s->in, e));
    if (r->layers) {
        RT_TRY(rt_model_file_check(s->in, e));
        RT_TRY(rt_config_take_layers(&s->student, &s->in->config, s->layers, count, e));
        s->opts.config = &s->student;
        s->opts.layers = s->layers;
    }
    s->opts.path = r->out;
    s->opts.shard_bytes = r->shard_bytes;
    s->opts.replace = r->force;
    RT_TRY(rt_convert_plan(&s->v, s->in, &s->opts, e));
    RT_TRY(rt_output_fits(r->out, s->v.bytes_out, e));
    RT_TRY(
        rt_text_for_output(&s->text, &s->in->text, r->no_tokenizer, s->opts.to, s->v.config, &s->arena, &s->notes, e));
    s->v.opts.text = &s->text;
    RT_TRY(prepare_modelfile(s, r, e));
    RT_TRY(rt_pool_for(&s->pool, r->threads, e));
out:
    return rc;
}

int rt_convert_command(const rt_convert_request *r, rt_err *e)
{
    int rc;
    rt_progress progress;
    state *s = rt_alloc_zero(sizeof *s, 64);
    if (!s) return rt_fail(e, RT_NOMEM, "no memory to convert %s", r->in);
    RT_TRY(prepare(s, r, e));
    rt_interrupt_catch();
    rt_progress_begin(&progress);
    rc = rt_convert_run(&s->v, rt_progress_step, &progress, s->pool, e);
    rt_progress_end(&progress);
    if (rc == RT_INTERRUPTED) rt_fail(e, rc, "interrupted: %s was not written", r->out);
    if (rc < 0) goto out;
    if (s->modelfile.path) RT_TRY(rt_file_write(s->modelfile.path, s->modelfile.text.data, s->modelfile.text.len, e));
    for (uint32_t i = 0; i < s->in->note_count; i++) rt_text_note(&s->notes, "%s", s->in->notes[i]);
    if (r->json)
        rc = rt_print_json(rt_convert_json(&s->v, r, &s->modelfile, &s->notes), e);
    else
        rt_convert_print(&s->v, r, &s->modelfile, &s->notes);
out:
    rt_str_free(&s->modelfile.text);
    rt_convert_free(&s->v);
    rt_model_file_close(s->in);
    rt_pool_free(s->pool);
    rt_arena_free(&s->arena);
    rt_free(s);
    return rc;
}
