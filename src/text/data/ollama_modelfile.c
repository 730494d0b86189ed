/* ollama_modelfile.c - see modelfile.h. */
#include "text/data/ollama_modelfile.h"

#include "base/json.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

/* What stands around the words of a turn. */
typedef struct turn {
    const char *before, *after;
} turn;

typedef struct family {
    const char *name;
    turn system, user, assistant;
    bool system_in_user; /* system text stands inside the first user's turn, before the words */
    const char *answer;  /* what the answer follows */
} family;

static const family families[] = {
    { "ChatML",
      { "<|im_start|>system\n", "<|im_end|>\n" },
      { "<|im_start|>user\n", "<|im_end|>\n" },
      { "<|im_start|>assistant\n", "<|im_end|>\n" },
      false,
      "<|im_start|>assistant\n" },
    { "Llama 3",
      { "<|start_header_id|>system<|end_header_id|>\n\n", "<|eot_id|>" },
      { "<|start_header_id|>user<|end_header_id|>\n\n", "<|eot_id|>" },
      { "<|start_header_id|>assistant<|end_header_id|>\n\n", "<|eot_id|>" },
      false,
      "<|start_header_id|>assistant<|end_header_id|>\n\n" },
    { "Mistral", { "", "\n\n" }, { "[INST] ", " [/INST]" }, { " ", "</s>" }, true, "" },
    { "Mistral", { "", "\n\n" }, { "[INST] ", " [/INST]" }, { "", "</s>" }, true, "" },
    { "Mistral", { "", "\n\n" }, { "[INST] ", "[/INST]" }, { " ", "</s>" }, true, "" },
    { "Mistral", { "", "\n\n" }, { "[INST]", "[/INST]" }, { "", "</s>" }, true, "" },
};

/* What every template is asked to render. */
static const char system_words[] = "SYSTEM", first_words[] = "FIRST", answer_words[] = "ANSWER", last_words[] = "LAST";

/* The conversation as the family writes it. */
static void expected(rt_str *s, const family *f, bool system)
{
    if (system && !f->system_in_user) rt_str_printf(s, "%s%s%s", f->system.before, system_words, f->system.after);
    rt_str_append(s, f->user.before);
    if (system && f->system_in_user) rt_str_printf(s, "%s%s%s", f->system.before, system_words, f->system.after);
    rt_str_printf(s, "%s%s", first_words, f->user.after);
    rt_str_printf(s, "%s%s%s", f->assistant.before, answer_words, f->assistant.after);
    rt_str_printf(s, "%s%s%s%s", f->user.before, last_words, f->user.after, f->answer);
}

static json_t *conversation(bool system)
{
    json_t *j = json_pack("[{s:s, s:s}, {s:s, s:s}, {s:s, s:s}]", "role", "user", "content", first_words, "role",
                          "assistant", "content", answer_words, "role", "user", "content", last_words);
    if (j && system &&
        json_array_insert_new(j, 0, json_pack("{s:s, s:s}", "role", "system", "content", system_words)) != 0) {
        json_decref(j);
        return NULL;
    }
    return j;
}

/* What the model's template makes of the conversation; empty when the template refuses it. */
static int rendered(rt_str *out, const rt_text_source *t, bool system, rt_err *e)
{
    int rc;
    rt_jinja_result r = { 0 };
    rt_chat_options o = { .add_generation_prompt = true, .special = t->special };
    json_t *j = conversation(system);
    if (!j) RT_TRY(rt_no_memory(e, "a Modelfile"));
    rc = rt_chat_render(t->chat, j, &o, &r, e);
    if (rc == RT_INVALID) rc = RT_OK;
    RT_TRY(rc);
    rt_str_append_n(out, r.text.data ? r.text.data : "", r.text.len);
    if (out->failed) RT_TRY(rt_no_memory(e, "a Modelfile"));
out:
    rt_jinja_result_free(&r);
    json_decref(j);
    return rc;
}

/* The text without BOS, which is put before it when it is tokenized. */
static rt_span without_bos(const rt_str *s, const rt_text_source *t)
{
    const char *bos = json_string_value(json_object_get(t->special, "bos_token"));
    size_t skip = bos && s->len && strncmp(s->data, bos, strlen(bos)) == 0 ? strlen(bos) : 0;
    return (rt_span){ s->data + skip, s->len - skip };
}

static bool same(rt_span a, const rt_str *b) { return a.len == b->len && memcmp(a.data, b->data, a.len) == 0; }

/* Templates may put a system text of their own where none is given: what they write is then that turn and what was
 * expected. */
static bool plain_matches(const family *f, rt_span got, const rt_str *want, rt_span *own_system)
{
    size_t before = strlen(f->system.before), after = strlen(f->system.after), extra;
    *own_system = (rt_span){ 0 };
    if (same(got, want)) return true;
    if (f->system_in_user || got.len <= want->len + before + after) return false;
    extra = got.len - want->len;
    if (memcmp(got.data, f->system.before, before) != 0 ||
        memcmp(got.data + extra - after, f->system.after, after) != 0 ||
        memcmp(got.data + extra, want->data, want->len) != 0)
        return false;
    *own_system = (rt_span){ got.data + before, extra - before - after };
    return true;
}

typedef struct match {
    const family *family; /* null: none */
    bool system;          /* the template takes a system text */
    rt_span own_system;   /* of `plain` */
    rt_str plain;
} match;

/* full, plain: the conversation with a system text and without. */
static int match_families(match *m, rt_span full, rt_span plain, rt_err *e)
{
    int rc = RT_OK;
    rt_str want = { 0 }, want_full = { 0 };
    for (size_t i = 0; i < sizeof families / sizeof *families && !m->family && plain.len; i++) {
        const family *f = &families[i];
        want.len = want_full.len = 0;
        expected(&want, f, false);
        expected(&want_full, f, true);
        if (want.failed || want_full.failed) RT_TRY(rt_no_memory(e, "a Modelfile"));
        if (!plain_matches(f, plain, &want, &m->own_system) || (full.len && !same(full, &want_full))) continue;
        if (m->own_system.data && memmem(m->own_system.data, m->own_system.len, "\"\"\"", 3)) continue;
        m->family = f;
        m->system = full.len > 0;
    }
out:
    rt_str_free(&want);
    rt_str_free(&want_full);
    return rc;
}

/* A text may begin with the BOS token as a part of its first turn (SmolLM2: <|im_start|>), so it is taken as it is
 * first. */
static int find_family(match *m, const rt_text_source *t, rt_err *e)
{
    int rc = RT_OK;
    rt_str full = { 0 };
    if (!t->chat) return RT_OK;
    RT_TRY(rendered(&full, t, true, e));
    RT_TRY(rendered(&m->plain, t, false, e));
    RT_TRY(match_families(m, (rt_span){ full.data, full.len }, (rt_span){ m->plain.data, m->plain.len }, e));
    if (!m->family) RT_TRY(match_families(m, without_bos(&full, t), without_bos(&m->plain, t), e));
out:
    rt_str_free(&full);
    return rc;
}

/* ---- the file ---- */

/* Ollama runs it once for each turn, and up to .Response for the answer that is to come. */
static void put_template(rt_str *s, const match *m)
{
    const family *f = m->family;
    rt_str_append(s, "TEMPLATE \"\"\"");
    if (m->system && !f->system_in_user)
        rt_str_printf(s, "{{ if .System }}%s{{ .System }}%s{{ end }}", f->system.before, f->system.after);
    rt_str_printf(s, "{{ if .Prompt }}%s", f->user.before);
    if (m->system && f->system_in_user)
        rt_str_printf(s, "{{ if .System }}%s{{ .System }}%s{{ end }}", f->system.before, f->system.after);
    rt_str_printf(s, "{{ .Prompt }}%s{{ end }}%s{{ .Response }}%s\"\"\"\n", f->user.after, f->answer,
                  f->assistant.after);
    if (m->own_system.data) {
        rt_str_append(s, "SYSTEM \"\"\"");
        rt_str_append_n(s, m->own_system.data, m->own_system.len);
        rt_str_append(s, "\"\"\"\n");
    }
}

static bool has(rt_span s, const char *what) { return memmem(s.data, s.len, what, strlen(what)) != NULL; }

/* Ollama takes a value as ended at the first line break before which its quotes are closed, and knows no escapes: of a
 * text with both a line break and three quotes the rest could be read as lines of the Modelfile. */
static int put_quoted(rt_str *s, rt_span text, const char *what, rt_err *e)
{
    bool quotes = has(text, "\""), breaks = has(text, "\n") || has(text, "\r");
    if ((breaks && has(text, "\"\"\"")) || memchr(text.data, 0, text.len) ||
        rt_utf8_valid(text.data, text.len) != text.len)
        return rt_fail(e, RT_UNSUPPORTED, "a Modelfile cannot hold the text of %s", what);
    const char *mark = quotes || breaks ? "\"\"\"" : "\"";
    rt_str_append(s, mark);
    rt_str_append_n(s, text.data, text.len);
    rt_str_append(s, mark);
    return RT_OK;
}

static int put_stop(rt_str *s, const rt_text_source *t, uint32_t id, rt_err *e)
{
    char what[32];
    rt_token_info info;
    if (!rt_tokenizer_token(t->tokenizer, id, &info) || !info.text.len) return RT_OK;
    snprintf(what, sizeof what, "stop token %u", id);
    rt_str_append(s, "PARAMETER stop ");
    int rc = put_quoted(s, info.text, what, e);
    rt_str_append(s, "\n");
    return rc;
}

/* Without quotes a value ends at its line, without the blanks at its end. */
static int put_from(rt_str *s, const char *file, rt_err *e)
{
    int rc = RT_OK;
    rt_str path = { 0 };
    rt_str_printf(&path, "./%s", file);
    if (path.failed) RT_TRY(rt_no_memory(e, "a Modelfile"));
    rt_str_append(s, "FROM ");
    if (strpbrk(file, "\n\r") || strchr(" \t", path.data[path.len - 1]))
        RT_TRY(put_quoted(s, (rt_span){ path.data, path.len }, "the file's name", e));
    else
        rt_str_append_n(s, path.data, path.len);
    rt_str_append(s, "\n");
out:
    rt_str_free(&path);
    return rc;
}

int rt_modelfile(rt_str *out, const char *file, const rt_text_source *text, const rt_model_config *c,
                 const char **known, rt_err *e)
{
    int rc;
    match m = { 0 };
    const rt_stops stops = rt_stops_of(c, text->eos, text->end_of_turn);
    rt_json_init();
    RT_TRY(find_family(&m, text, e));
    *known = m.family ? m.family->name : NULL;
    RT_TRY(put_from(out, file, e));
    if (m.family)
        put_template(out, &m);
    else
        rt_str_append(out, text->chat ? "# The chat template is the one inside the GGUF file.\n"
                                      : "# The model has no chat template: it continues what it is given.\n");
    for (uint32_t i = 0; i < stops.count; i++) RT_TRY(put_stop(out, text, stops.ids[i], e));
    if (out->failed) RT_TRY(rt_no_memory(e, "a Modelfile"));
out:
    rt_str_free(&m.plain);
    return rc;
}
