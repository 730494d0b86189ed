/* jinja_cli.c - renders templates for tests/interop/test_jinja.py: one JSON object a line in, one a line out.
 *
 *   {"template": ..., "now": ..., "vars": {...}}                     -> the template with these variables
 *   {"template": ..., "now": ..., "messages": [...], "special": {...}, "extra": {...}, "tools": ..., "documents": ...,
 *    "add_generation_prompt": ...}                                   -> as a conversation
 *   {"text": ..., "ranges": [[begin, end], ...], "lost": ...} or {"error": ..., "status": ...}   <- */
#include "base/json.h"
#include "text/jinja/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int render(const char *text, size_t bytes, json_t *q, rt_jinja_result *result, rt_err *e)
{
    enum { MAX_VARS = 64 };
    json_t *vars = json_object_get(q, "vars");
    rt_jinja_var list[MAX_VARS];
    rt_jinja_render_args args = { .vars = list, .now = json_integer_value(json_object_get(q, "now")) };
    rt_jinja *t = NULL;
    int rc = rt_jinja_compile(&t, text, bytes, e);
    for (void *it = json_object_iter(vars); it && args.n_vars < MAX_VARS; it = json_object_iter_next(vars, it))
        list[args.n_vars++] = (rt_jinja_var){ .name = json_object_iter_key(it), .value = json_object_iter_value(it) };
    if (rc == RT_OK) rc = rt_jinja_render(t, &args, result, e);
    rt_jinja_free(t);
    return rc;
}

static int chat(const char *text, size_t bytes, const json_t *q, rt_jinja_result *result, rt_err *e)
{
    rt_chat_options o = { .add_generation_prompt = json_is_true(json_object_get(q, "add_generation_prompt")),
                          .tools = json_object_get(q, "tools"),
                          .documents = json_object_get(q, "documents"),
                          .special = json_object_get(q, "special"),
                          .extra = json_object_get(q, "extra"),
                          .now = json_integer_value(json_object_get(q, "now")) };
    rt_chat_template *t = NULL;
    if (json_is_null(o.tools)) o.tools = NULL;
    if (json_is_null(o.documents)) o.documents = NULL;
    int rc = rt_chat_template_new(&t, text, bytes, e);
    if (rc == RT_OK) rc = rt_chat_render(t, json_object_get(q, "messages"), &o, result, e);
    rt_chat_template_free(t);
    return rc;
}

static json_t *answer(int rc, const rt_jinja_result *result, const rt_err *e)
{
    if (rc < 0) return json_pack("{s:s, s:i}", "error", e->text, "status", rc);
    json_t *ranges = json_array();
    for (uint32_t i = 0; i < result->n_ranges; i++)
        json_array_append_new(
            ranges, json_pack("[I, I]", (json_int_t)result->ranges[i].begin, (json_int_t)result->ranges[i].end));
    return json_pack("{s:o, s:o, s:b}", "text",
                     json_stringn(result->text.data ? result->text.data : "", result->text.len), "ranges", ranges,
                     "lost", result->ranges_lost);
}

int main(void)
{
    char *line = NULL;
    size_t cap = 0;
    rt_jinja_result result = { 0 };
    rt_json_init();
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        rt_err e = { 0 };
        json_error_t fault;
        json_t *q = json_loadb(line, (size_t)n, JSON_ALLOW_NUL, &fault);
        if (!q) {
            fprintf(stderr, "jinja_cli: %s\n", fault.text);
            return 1;
        }
        const json_t *template = json_object_get(q, "template");
        const char *text = json_string_value(template);
        size_t bytes = json_string_length(template);
        int rc =
            json_object_get(q, "messages") ? chat(text, bytes, q, &result, &e) : render(text, bytes, q, &result, &e);
        json_t *a = answer(rc, &result, &e);
        if (!a || json_dumpf(a, stdout, JSON_COMPACT) < 0) return 1;
        putchar('\n');
        fflush(stdout);
        json_decref(a);
        json_decref(q);
    }
    rt_jinja_result_free(&result);
    free(line);
    return 0;
}
