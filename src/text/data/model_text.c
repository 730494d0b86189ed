/* model_text.c - see model_text.h.
 *
 * Owns: opening by spec, and the order in which ids are looked for: tokenizer_config.json, special_tokens_map.json, the
 * GGUF or APR keys, generation_config.json, the model's configuration. Leaves reading files beside a tokenizer.json to
 * model_text_files.c and special tokens to model_text_special.c. */
#include "text/data/model_text.h"

#include "base/json.h"
#include "text/data/model_text_files.h"

#include <string.h>

/* ---- the end of a turn ---- */

/* Of text behind what the assistant said: the first token, white space left out, if it is special. */
static int first_special(const rt_text_source *s, const char *text, size_t len, int64_t *out, rt_err *e)
{
    rt_tok_scratch *scratch = NULL;
    rt_tok_ids ids = { 0 };
    rt_token_info info;
    size_t skip = 0;
    int rc;
    while (skip < len && strchr(" \t\r\n", text[skip])) skip++;
    RT_TRY(rt_tok_scratch_new(&scratch, s->tokenizer, e));
    RT_TRY(rt_tokenizer_encode(s->tokenizer, scratch, text + skip, len - skip, 0, &ids, e));
    if (ids.count > 0 && rt_tokenizer_token(s->tokenizer, ids.ids[0], &info) && (info.special || info.added))
        *out = ids.ids[0];
out:
    rt_free(ids.ids);
    rt_tok_scratch_free(scratch);
    return rc;
}

/* Where the last `word` in text ends; 0 when it is not there. */
static size_t end_of_last(const rt_str *text, const char *word)
{
    size_t n = strlen(word);
    for (size_t i = text->len; i >= n && text->data; i--)
        if (memcmp(text->data + i - n, word, n) == 0) return i;
    return 0;
}

/* Renders one turn and looks at what follows the assistant's words. A template that cannot do it (it raises an
 * exception, or leaves the words out) gives no answer. */
static int find_end_of_turn(rt_text_source *s, rt_err *e)
{
    static const char answer[] = "Qvzx";
    rt_jinja_result result = { 0 };
    rt_err why = { 0 };
    rt_chat_options o = { .special = s->special };
    json_t *chat =
        json_pack("[{s:s,s:s},{s:s,s:s}]", "role", "user", "content", "Hwyj", "role", "assistant", "content", answer);
    int rc = chat ? RT_OK : rt_fail(e, RT_NOMEM, "out of memory for a chat template");
    if (rc == RT_OK) {
        int status = rt_chat_render(s->chat, chat, &o, &result, &why);
        size_t at = status == RT_OK ? end_of_last(&result.text, answer) : 0;
        if (status == RT_NOMEM) rc = rt_fail(e, RT_NOMEM, "%s", why.text);
        if (at > 0) rc = first_special(s, result.text.data + at, result.text.len - at, &s->end_of_turn, e);
    }
    rt_jinja_result_free(&result);
    json_decref(chat);
    return rc;
}

static int set_end_of_turn(rt_text_source *s, const rt_model_text *t, rt_err *e)
{
    rt_token_info info;
    int rc = RT_OK;
    s->end_of_turn = -1;
    if (s->chat) RT_TRY(find_end_of_turn(s, e));
    if (s->end_of_turn < 0 && t->has_vocab) s->end_of_turn = t->eot;
    if (s->end_of_turn < 0) s->end_of_turn = s->eos;
    if (s->end_of_turn < 0) return RT_OK;
    if (s->end_of_turn > UINT32_MAX || !rt_tokenizer_token(s->tokenizer, (uint32_t)s->end_of_turn, &info)) {
        s->end_of_turn = -1;
        return RT_OK;
    }
    s->end_of_turn_text = rt_span_copy(&s->arena, info.text.data, info.text.len).data;
    if (!s->end_of_turn_text) rc = rt_no_memory(e, "special tokens");
out:
    return rc;
}

/* ---- opening ---- */

static rt_text_source *new_source(rt_err *e)
{
    rt_json_init();
    rt_text_source *s = rt_alloc_zero(sizeof *s, 16);
    if (!s) rt_fail(e, RT_NOMEM, "out of memory for a tokenizer");
    return s;
}

static int fill(rt_text_source *s, const rt_model_text *t, const rt_model_config *c, rt_err *e)
{
    int rc;
    RT_TRY(rt_model_tokenizer(&s->tokenizer, t, e));
    RT_TRY(rt_text_special(s, t, c, e));
    if (t->chat_template.data && t->chat_template.len > 0) {
        rc = rt_chat_template_new(&s->chat, t->chat_template.data, t->chat_template.len, &s->chat_err);
        if (rc == RT_NOMEM) RT_TRY(rt_fail(e, RT_NOMEM, "%s", s->chat_err.text));
    }
    RT_TRY(set_end_of_turn(s, t, e));
out:
    if (rc < 0) rt_err_context(e, "%s", s->path);
    return rc;
}

int rt_text_from_model(rt_text_source **out, const rt_model_text *t, const rt_model_config *c, const char *path,
                       rt_err *e)
{
    *out = NULL;
    rt_text_source *s = new_source(e);
    if (!s) return RT_NOMEM;
    int rc = RT_OK;
    s->path = rt_arena_strdup(&s->arena, path);
    if (!s->path) RT_TRY(rt_fail(e, RT_NOMEM, "out of memory for a tokenizer"));
    RT_TRY(fill(s, t, c, e));
    *out = s;
    return RT_OK;
out:
    rt_text_close(s);
    return rc;
}

/* JSON begins with a brace; a .safetensors has one too, but as its ninth byte. */
static int is_json_file(const char *path, bool *json, rt_err *e)
{
    rt_map map = { 0 };
    *json = rt_path_ends(path, ".json");
    if (*json) return RT_OK;
    int rc = rt_map_open(&map, path, e);
    if (rc < 0) return rc;
    uint64_t at = 0;
    while (at < map.size && at < 4096 && memchr(" \t\r\n", map.data[at], 4)) at++;
    *json = at < map.size && map.data[at] == '{' && !(map.size > 8 && map.data[8] == '{');
    rt_map_close(&map);
    return RT_OK;
}

static int folder_of(const char *path, rt_arena *a, const char **out, rt_err *e)
{
    const char *base = rt_path_base(path);
    size_t len = base > path ? (size_t)(base - path) - 1 : 0;
    char *folder = rt_arena_alloc(a, len + 2);
    if (!folder) return rt_fail(e, RT_NOMEM, "out of memory for the path of %s", path);
    memcpy(folder, path, len);
    if (len == 0) folder[0] = base > path ? '/' : '.';
    *out = folder;
    return RT_OK;
}

/* spec as a folder with a tokenizer.json in it, or as a tokenizer.json; *folder stays null when it is neither. */
static int find_files(rt_text_source *s, const char *spec, const rt_hub_env *env, const char **folder,
                      const char **tokenizer, rt_err *e)
{
    const char *dir = NULL;
    bool json = false;
    int rc = RT_OK;
    if (rt_path_is_dir(spec)) {
        dir = spec;
    } else if (rt_path_exists(spec)) {
        RT_TRY(is_json_file(spec, &json, e));
        if (!json) return RT_OK;
        *tokenizer = spec;
        return folder_of(spec, &s->arena, folder, e);
    } else {
        /* What is not there is for rt_model_file_open to say. */
        char *snapshot = NULL;
        rt_err why = { 0 };
        rc = rt_hub_find(&snapshot, &s->arena, "models", spec, env, &why);
        if (rc == RT_NOMEM) return rt_fail(e, RT_NOMEM, "%s", why.text);
        if (rc < 0) return RT_OK;
        dir = snapshot;
    }
    char *path = rt_path_join(&s->arena, dir, "tokenizer.json");
    if (!path) RT_TRY(rt_fail(e, RT_NOMEM, "out of memory for the path of %s", spec));
    if (rt_path_exists(path)) *folder = dir;
out:
    return rc;
}

static int open_files(rt_text_source *s, const char *spec, const char *folder, const char *tokenizer, rt_err *e)
{
    rt_model_text t;
    int rc;
    s->path = rt_arena_strdup(&s->arena, tokenizer ? tokenizer : folder);
    if (!s->path) return rt_fail(e, RT_NOMEM, "out of memory for the path of %s", spec);
    RT_TRY(rt_text_files_read(&t, folder, tokenizer, &s->arena, e));
    RT_TRY(fill(s, &t, NULL, e));
out:
    return rc;
}

static int open_model(rt_text_source *s, const char *spec, const rt_hub_env *env, rt_err *e)
{
    int rc;
    RT_TRY(rt_model_file_open(&s->model, spec, env, e));
    s->path = s->model->path ? s->model->path : s->model->spec;
    RT_TRY(fill(s, &s->model->text, s->model->has_config ? &s->model->config : NULL, e));
out:
    return rc;
}

int rt_text_open(rt_text_source **out, const char *spec, const rt_hub_env *env, rt_err *e)
{
    const char *folder = NULL, *tokenizer = NULL;
    *out = NULL;
    rt_text_source *s = new_source(e);
    if (!s) return RT_NOMEM;
    int rc;
    RT_TRY(find_files(s, spec, env, &folder, &tokenizer, e));
    if (folder)
        RT_TRY(open_files(s, spec, folder, tokenizer, e));
    else
        RT_TRY(open_model(s, spec, env, e));
    *out = s;
    return RT_OK;
out:
    rt_text_close(s);
    return rc;
}

void rt_text_close(rt_text_source *s)
{
    if (!s) return;
    rt_tokenizer_free(s->tokenizer);
    rt_chat_template_free(s->chat);
    json_decref(s->special);
    rt_model_file_close(s->model);
    rt_arena_free(&s->arena);
    rt_free(s);
}

bool rt_stops_has(const rt_stops *s, uint32_t id)
{
    for (uint32_t i = 0; i < s->count; i++)
        if (s->ids[i] == id) return true;
    return false;
}

static void add_stop(rt_stops *s, int64_t id)
{
    if (id >= 0 && id <= UINT32_MAX && !rt_stops_has(s, (uint32_t)id)) s->ids[s->count++] = (uint32_t)id;
}

rt_stops rt_stops_of(const rt_model_config *c, int64_t eos, int64_t end_of_turn)
{
    rt_stops s = { .count = 0 };
    for (uint32_t i = 0; i < c->eos_count; i++) add_stop(&s, c->eos[i]);
    add_stop(&s, eos);
    add_stop(&s, end_of_turn);
    return s;
}
