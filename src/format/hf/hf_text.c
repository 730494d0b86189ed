/* hf_text.c - the files of a tokenizer in a Hugging Face directory, of a model or of an adapter.
 *
 * Owns: that all places where a chat template may stand hold the same one: chat_template.jinja, which newer readers
 * prefer, and the key in tokenizer_config.json, all that older ones know. That file is changed in the bytes of the
 * value alone; what says the right thing already is written as it was read. */
#include "base/json.h"
#include "format/hf/hf.h"

#include <string.h>

/* ---- a place in a JSON text ---- */

typedef struct range {
    size_t begin, end; /* both 0: there is none */
} range;

static size_t skip_space(rt_span t, size_t i)
{
    while (i < t.len && (t.data[i] == ' ' || t.data[i] == '\t' || t.data[i] == '\n' || t.data[i] == '\r')) i++;
    return i;
}

/* From a quote to behind the next that is not escaped. */
static size_t skip_string(rt_span t, size_t i)
{
    for (i++; i < t.len && t.data[i] != '"'; i++)
        if (t.data[i] == '\\') i++;
    return i < t.len ? i + 1 : t.len;
}

static size_t skip_value(rt_span t, size_t i)
{
    uint32_t depth = 0;
    do {
        char c = i < t.len ? t.data[i] : 0;
        if (c == '"') {
            i = skip_string(t, i);
            continue;
        }
        if (depth == 0 && (c == ',' || c == '}' || c == ']' || c == ' ' || c == '\n' || c == '\r' || c == '\t')) break;
        depth += c == '{' || c == '[';
        depth -= (c == '}' || c == ']') && depth;
        i++;
        if (depth == 0 && (c == '}' || c == ']')) break;
    } while (i < t.len);
    return i < t.len ? i : t.len;
}

static bool is_at(rt_span t, size_t i, char c) { return i < t.len && t.data[i] == c; }

/* The value of a key of the object that begins at i; of several of one name the last, as readers take it. */
static range member(rt_span t, size_t i, const char *key)
{
    range found = { 0 };
    size_t len = strlen(key);
    if (!is_at(t, i, '{')) return found;
    for (i = skip_space(t, i + 1); is_at(t, i, '"');) {
        size_t name = i + 1, end = skip_string(t, i);
        bool is = end - name == len + 1 && memcmp(t.data + name, key, len) == 0;
        i = skip_space(t, end);
        if (!is_at(t, i, ':')) break;
        size_t value = skip_space(t, i + 1);
        i = skip_value(t, value);
        if (is) found = (range){ value, i };
        i = skip_space(t, i);
        if (is_at(t, i, ',')) i = skip_space(t, i + 1);
    }
    return found;
}

/* The template named "default" in a list of them that begins at i. */
static range default_of(rt_span t, size_t i)
{
    static const char name[] = "\"default\"";
    for (i = skip_space(t, i + 1); i < t.len && t.data[i] != ']';) {
        range r = member(t, i, "name");
        if (r.end - r.begin == sizeof name - 1 && memcmp(t.data + r.begin, name, sizeof name - 1) == 0)
            return member(t, i, "template");
        i = skip_space(t, skip_value(t, i));
        if (is_at(t, i, ',')) i = skip_space(t, i + 1);
    }
    return (range){ 0 };
}

/* Whether the string there is the text. */
static int is_text(bool *is, rt_span t, range r, rt_span text, rt_err *e)
{
    json_t *j = r.end ? rt_json_load(t.data + r.begin, r.end - r.begin, JSON_DECODE_ANY, NULL) : NULL;
    if (r.end && !j && rt_json_out_of_memory()) return rt_no_memory(e, "tokenizer_config.json");
    *is = json_is_string(j) && json_string_length(j) == text.len &&
          memcmp(json_string_value(j), text.data, text.len) == 0;
    json_decref(j);
    return RT_OK;
}

/* Appends the text with the range replaced by what is put before, the string and what is put after it. */
static int put_at(rt_str *out, rt_span t, range r, const char *before, rt_span text, const char *after, rt_err *e)
{
    rt_str_append_n(out, t.data, r.begin);
    rt_str_append(out, before);
    if (!rt_json_put_text(out, text.data, text.len))
        return rt_fail(e, RT_INVALID, "the chat template is not valid UTF-8; correct it");
    rt_str_append(out, after);
    rt_str_append_n(out, t.data + r.end, t.len - r.end);
    return out->failed ? rt_no_memory(e, "tokenizer_config.json") : RT_OK;
}

/* The same of a key that the object has not: it becomes the first. */
static int put_first(rt_str *out, rt_span t, size_t object, const char *before, rt_span text, const char *after,
                     rt_err *e)
{
    rt_str end = { 0 };
    size_t next = skip_space(t, object + 1);
    bool empty = is_at(t, next, '}') || is_at(t, next, ']');
    rt_str_printf(&end, "%s%s", after, empty ? "" : ", ");
    int rc = end.failed ? rt_no_memory(e, "tokenizer_config.json")
                        : put_at(out, t, (range){ object + 1, next }, before, text, end.data, e);
    rt_str_free(&end);
    return rc;
}

/* ---- the files ---- */

typedef struct files {
    const char *folder; /* null: they are only counted */
    uint64_t bytes;
} files;

static int put(files *to, const char *name, rt_span text, rt_err *e)
{
    rt_arena a = { 0 };
    to->bytes += text.len;
    if (!to->folder || !text.data) return RT_OK;
    char *path = rt_path_join(&a, to->folder, name);
    int rc = path ? rt_file_write(path, text.data, text.len, e) : rt_no_memory(e, name);
    rt_arena_free(&a);
    return rc;
}

static int put_side_files(const rt_model_text *text, files *to, rt_err *e)
{
    for (uint32_t i = 0; i < text->side_count; i++) {
        const rt_side_file *s = &text->side[i];
        if (!rt_hf_is_name(NULL, s->name)) /* whoever moves or replaces the directory knows every name in it */
            return rt_fail(e, RT_INVALID, "'%.96s' is no name for a file beside a model", s->name);
        int rc = put(to, s->name, s->text, e);
        if (rc < 0) return rc;
    }
    return RT_OK;
}

/* tokenizer_config.json with the template of text where it holds another one; nothing in out: as it is. file: the
 * template needs a file of its own, because the key is not there or because it had one. */
static int with_template(rt_str *out, bool *file, const rt_model_text *text, rt_err *e)
{
    int rc = RT_OK;
    bool same = false;
    rt_span t = text->tokenizer_config, tmpl = text->chat_template;
    size_t object = skip_space(t, 0);
    range key = member(t, object, "chat_template");
    bool list = key.end && t.data[key.begin] == '[', none = key.end == 0 || t.data[key.begin] == 'n';
    range at = list ? default_of(t, key.begin) : key;
    *file = false;
    if (!tmpl.data) return RT_OK;
    RT_TRY(is_text(&same, t, at, tmpl, e));
    /* A file would stand before the whole list. */
    *file = text->template_file || (!list && (text->template_new || !same));
    if (same || (none && !text->template_new)) return RT_OK;
    if (list && !at.end)
        RT_TRY(put_first(out, t, key.begin, "{\"name\": \"default\", \"template\": ", tmpl, "}", e));
    else if (at.end)
        RT_TRY(put_at(out, t, at, "", tmpl, "", e));
    else if (is_at(t, object, '{'))
        RT_TRY(put_first(out, t, object, "\"chat_template\": ", tmpl, "", e));
out:
    return rc;
}

/* Without config.json beside it transformers goes by the class that is named here: the one that takes tokenizer.json
 * as it is. */
static int with_class(rt_str *out, rt_span t, rt_err *e)
{
    static const rt_span name = { "PreTrainedTokenizerFast", sizeof "PreTrainedTokenizerFast" - 1 };
    size_t object = skip_space(t, 0);
    range key = member(t, object, "tokenizer_class");
    if (key.end && t.data[key.begin] != 'n') return RT_OK;
    if (key.end) return put_at(out, t, key, "", name, "", e);
    return is_at(t, object, '{') ? put_first(out, t, object, "\"tokenizer_class\": ", name, "", e) : RT_OK;
}

static rt_span span_of(const rt_str *s, rt_span other) { return s->len ? (rt_span){ s->data, s->len } : other; }

int rt_hf_write_text(const rt_model_text *text, bool alone, const char *folder, uint64_t *bytes, rt_err *e)
{
    int rc;
    bool file;
    rt_str changed = { 0 }, named = { 0 };
    files to = { .folder = folder };
    rt_span config = text->tokenizer_config;
    /* First, so that a name among them cannot stand for one of ours. */
    RT_TRY(put_side_files(text, &to, e));
    RT_TRY(put(&to, "generation_config.json", text->generation_config, e));
    RT_TRY(put(&to, "tokenizer.json", text->tokenizer_json, e));
    RT_TRY(with_template(&changed, &file, text, e));
    config = span_of(&changed, config);
    if (alone && text->tokenizer_json.data) {
        RT_TRY(with_class(&named, config.data ? config : (rt_span){ "{}\n", 3 }, e));
        config = span_of(&named, config);
    }
    RT_TRY(put(&to, "tokenizer_config.json", config, e));
    if (file) RT_TRY(put(&to, "chat_template.jinja", text->chat_template, e));
    if (bytes) *bytes += to.bytes;
out:
    rt_str_free(&changed);
    rt_str_free(&named);
    return rc;
}
