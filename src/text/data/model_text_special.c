/* model_text_special.c - the special tokens of a model, as templates see them and as ids.
 *
 * Owns: tokenizer_config.json and special_tokens_map.json, whose values are strings or objects with their content, and
 * the keys of GGUF and APR for models that have neither. A token that is named but not in the vocabulary is kept for
 * templates, as transformers does, and has no id. */
#include "text/data/model_text_files.h"

#include "base/json.h"

#include <string.h>

static const char *const names[] = { "bos_token", "eos_token", "unk_token", "sep_token",
                                     "pad_token", "cls_token", "mask_token" };
enum { NAMES = sizeof names / sizeof names[0] };

/* "<s>", or {"content": "<s>", ...}; null otherwise. */
static const json_t *spelling(const json_t *v)
{
    const json_t *text = json_is_object(v) ? json_object_get(v, "content") : v;
    return json_is_string(text) && json_string_length(text) > 0 ? text : NULL;
}

static bool put(json_t *special, const char *key, const json_t *text)
{
    if (!text || json_object_get(special, key)) return true;
    return json_object_set_new(special, key, json_stringn(json_string_value(text), json_string_length(text))) == 0;
}

static bool put_additional(json_t *special, const json_t *list)
{
    if (json_array_size(list) == 0 || json_object_get(special, "additional_special_tokens")) return true;
    json_t *out = json_array();
    if (!out || json_object_set_new(special, "additional_special_tokens", out) != 0) return false;
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *text = spelling(json_array_get(list, i));
        if (text && json_array_append_new(out, json_stringn(json_string_value(text), json_string_length(text))) != 0)
            return false;
    }
    return true;
}

/* Tokens of the model's own, such as "image_token"; not those that are the conversation's. */
static bool put_extra(json_t *special, const json_t *extra)
{
    static const char *const own[] = { "messages", "tools", "documents", "add_generation_prompt" };
    json_t *object = (json_t *)(uintptr_t)extra; /* jansson's iterators take no const, and change nothing */
    for (void *it = json_is_object(extra) ? json_object_iter(object) : NULL; it;
         it = json_object_iter_next(object, it)) {
        const char *key = json_object_iter_key(it);
        bool taken = false;
        for (int i = 0; i < 4; i++) taken = taken || strcmp(key, own[i]) == 0;
        if (!taken && !put(special, key, spelling(json_object_iter_value(it)))) return false;
    }
    return true;
}

static int from_json(json_t *special, rt_span text, const char *where, rt_err *e)
{
    json_error_t error;
    if (!text.data) return RT_OK;
    json_t *root = rt_json_load(text.data, text.len, JSON_ALLOW_NUL, &error);
    if (!root)
        return rt_json_out_of_memory()
                   ? rt_no_memory(e, "special tokens")
                   : rt_fail(e, RT_FORMAT, "%s: line %d, column %d: %s", where, error.line, error.column, error.text);
    bool ok = true;
    for (int i = 0; i < NAMES && ok; i++) ok = put(special, names[i], spelling(json_object_get(root, names[i])));
    ok = ok && put_additional(special, json_object_get(root, "additional_special_tokens"));
    ok = ok && put_extra(special, json_object_get(root, "extra_special_tokens"));
    json_decref(root);
    return ok ? RT_OK : rt_no_memory(e, "special tokens");
}

static bool put_id(json_t *special, const rt_tokenizer *t, const char *key, int64_t id)
{
    rt_token_info info;
    if (id < 0 || id > UINT32_MAX || json_object_get(special, key)) return true;
    if (!rt_tokenizer_token(t, (uint32_t)id, &info)) return true;
    return json_object_set_new(special, key, json_stringn(info.text.data, info.text.len)) == 0;
}

/* The id of the token that special has under key, else what the file says outright. */
static int64_t id_of(const rt_text_source *s, const char *key, int64_t said)
{
    const json_t *v = json_object_get(s->special, key);
    int64_t id = v ? rt_tokenizer_find(s->tokenizer, json_string_value(v), json_string_length(v)) : -1;
    rt_token_info info;
    if (id >= 0) return id;
    return said >= 0 && said <= UINT32_MAX && rt_tokenizer_token(s->tokenizer, (uint32_t)said, &info) ? said : -1;
}

/* eos_token_id of generation_config.json: a number, or the first of a list. */
static int generation_eos(rt_span text, int64_t *eos, rt_err *e)
{
    *eos = -1;
    if (!text.data) return RT_OK;
    json_t *root = rt_json_load(text.data, text.len, JSON_ALLOW_NUL, NULL);
    if (!root && rt_json_out_of_memory()) return rt_no_memory(e, "special tokens");
    const json_t *v = json_object_get(root, "eos_token_id");
    if (json_is_array(v)) v = json_array_get(v, 0);
    if (json_is_integer(v)) *eos = json_integer_value(v);
    json_decref(root);
    return RT_OK;
}

static int64_t first_of(int64_t a, int64_t b) { return a >= 0 ? a : b; }

int rt_text_special(rt_text_source *s, const rt_model_text *t, const rt_model_config *c, rt_err *e)
{
    const rt_vocab_spec none = { .bos = -1, .eos = -1 }, *v = t->has_vocab ? &t->vocab : &none;
    int64_t eos;
    uint32_t before;
    const uint32_t *prefix = rt_tokenizer_prefix(s->tokenizer, &before);
    int rc;
    s->special = json_object();
    if (!s->special) return rt_no_memory(e, "special tokens");
    RT_TRY(from_json(s->special, t->tokenizer_config, "tokenizer_config.json", e));
    for (uint32_t i = 0; i < t->side_count; i++)
        if (strcmp(t->side[i].name, "special_tokens_map.json") == 0)
            RT_TRY(from_json(s->special, t->side[i].text, t->side[i].name, e));
    if (!put_id(s->special, s->tokenizer, "bos_token", v->bos) ||
        !put_id(s->special, s->tokenizer, "eos_token", v->eos) ||
        (t->has_vocab && (!put_id(s->special, s->tokenizer, "unk_token", t->unk) ||
                          !put_id(s->special, s->tokenizer, "pad_token", t->pad))))
        RT_TRY(rt_no_memory(e, "special tokens"));
    RT_TRY(generation_eos(t->generation_config, &eos, e));
    if (c && c->eos_count > 0) eos = first_of(eos, c->eos[0]);
    s->bos = id_of(s, "bos_token", first_of(first_of(v->bos, before ? (int64_t)prefix[0] : -1), c ? c->bos : -1));
    s->eos = id_of(s, "eos_token", first_of(v->eos, eos));
    s->pad = id_of(s, "pad_token", first_of(t->has_vocab ? t->pad : -1, c ? c->pad : -1));
    s->unk = id_of(s, "unk_token", t->has_vocab ? t->unk : -1);
out:
    return rc;
}
