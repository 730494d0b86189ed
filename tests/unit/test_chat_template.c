/* test_chat_template.c - conversations: their variables, and which part the assistant wrote.
 *
 * The templates have the shape of those that models ship; they are in tests/golden/templates, and what jinja2 makes of
 * them is compared in test_jinja.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "memory_case.h"
#include "text/jinja/chat_template.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- helpers ---- */

static rt_chat_template *from_text(const char *text)
{
    rt_chat_template *t;
    rt_err e = { 0 };
    if (rt_chat_template_new(&t, text, strlen(text), &e) < 0) fail_msg("%s", e.text);
    return t;
}

static rt_chat_template *from_file(const char *name)
{
    char path[256], text[16384];
    snprintf(path, sizeof path, "tests/golden/templates/%s", name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s: cannot be opened", path);
    size_t n = fread(text, 1, sizeof text, f);
    fclose(f);
    assert_true(n > 0 && n < sizeof text);
    text[n] = '\0';
    return from_text(text);
}

static json_t *parse(const char *text)
{
    json_error_t error;
    json_t *j = json_loads(text, 0, &error);
    if (!j) fail_msg("%s: %s", text, error.text);
    return j;
}

/* The masked parts, each in brackets. */
static void expect_mask(rt_chat_template *t, const char *messages, const rt_chat_options *o, const char *masked)
{
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    rt_str parts = { 0 };
    json_t *j = parse(messages);
    if (rt_chat_mask(t, j, o, &result, &e) < 0) fail_msg("%s: %s", messages, e.text);
    rt_str_append(&parts, "");
    for (uint32_t i = 0; i < result.n_ranges; i++) {
        size_t begin = result.ranges[i].begin, end = result.ranges[i].end;
        assert_true(begin < end && end <= result.text.len);
        rt_str_printf(&parts, "[%.*s]", (int)(end - begin), result.text.data + begin);
    }
    assert_string_equal(parts.data, masked);
    rt_str_free(&parts);
    rt_jinja_result_free(&result);
    json_decref(j);
}

static void expect_refused(rt_chat_template *t, const char *messages, const rt_chat_options *o, const char *message)
{
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    json_t *j = parse(messages);
    assert_int_equal(rt_chat_mask(t, j, o, &result, &e), RT_INVALID);
    if (!strstr(e.text, message)) fail_msg("'%s' lacks '%s'", e.text, message);
    assert_int_equal(result.n_ranges, 0);
    rt_jinja_result_free(&result);
    json_decref(j);
}

static void expect_text(rt_chat_template *t, const char *messages, const rt_chat_options *o, const char *text)
{
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    json_t *j = parse(messages);
    if (rt_chat_render(t, j, o, &result, &e) < 0) fail_msg("%s: %s", messages, e.text);
    assert_string_equal(result.text.data, text);
    rt_jinja_result_free(&result);
    json_decref(j);
}

#define USER(text) "{\"role\": \"user\", \"content\": \"" text "\"}"
#define SYSTEM(text) "{\"role\": \"system\", \"content\": \"" text "\"}"
#define ASSISTANT(text) "{\"role\": \"assistant\", \"content\": \"" text "\"}"
#define TOOL(text) "{\"role\": \"tool\", \"content\": \"" text "\"}"

/* ---- variables ---- */

static void variables(void **state)
{
    (void)state;
    rt_chat_template *t =
        from_text("{{ tools is none }}{{ documents is none }}{{ add_generation_prompt }}{{ bos_token }}"
                  "{{ enable_thinking }}{{ messages|length }}{{ messages[0].content }}");
    json_t *special = parse("{\"bos_token\": \"<s>\", \"enable_thinking\": \"special\"}");
    json_t *extra = parse("{\"enable_thinking\": false}"), *tools = parse("[1]");
    rt_chat_options o = { 0 };
    expect_text(t, "[" USER("é") "]", &o, "TrueTrueFalse1é");
    o.add_generation_prompt = true;
    o.special = special;
    expect_text(t, "[" USER("é") "]", &o, "TrueTrueTrue<s>special1é");
    o.extra = extra;
    o.tools = tools;
    o.documents = tools;
    expect_text(t, "[" USER("é") "," USER("x") "]", &o, "FalseFalseTrue<s>False2é");
    rt_chat_template_free(t);
    json_decref(special);
    json_decref(extra);
    json_decref(tools);
}

static void wrong_arguments(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    rt_chat_template *t = from_text("{{ messages }}"), *none = t;
    json_t *object = parse("{}"), *numbers = parse("[1]"), *list = parse("[]"), *own = parse("{\"messages\": 1}");
    rt_chat_options o = { 0 };
    assert_int_equal(rt_chat_render(t, object, &o, &result, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "JSON array"));
    assert_int_equal(rt_chat_mask(t, NULL, &o, &result, &e), RT_INVALID);
    assert_int_equal(rt_chat_mask(t, numbers, &o, &result, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "message 0"));
    o.extra = list;
    assert_int_equal(rt_chat_render(t, list, &o, &result, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "extra variables"));
    o.extra = own;
    assert_int_equal(rt_chat_render(t, list, &o, &result, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "'messages'"));
    assert_int_equal(rt_chat_template_new(&none, "{% if %}", 8, &e), RT_INVALID);
    assert_null(none);
    rt_chat_template_free(none);
    rt_chat_template_free(t);
    rt_jinja_result_free(&result);
    json_decref(object);
    json_decref(numbers);
    json_decref(list);
    json_decref(own);
}

static void the_day_is_given(void **state)
{
    (void)state;
    rt_chat_template *t = from_text("{{ strftime_now('%d %b %Y %H:%M') }}");
    rt_chat_options o = { .now = 1735689599 }; /* the last second of 2024, in UTC */
    expect_text(t, "[]", &o, "31 Dec 2024 23:59");
    o.utc_offset = 3600;
    expect_text(t, "[]", &o, "01 Jan 2025 00:59");
    o = (rt_chat_options){ .now = -86400, .utc_offset = -3600 };
    expect_text(t, "[]", &o, "30 Dec 1969 23:00");
    rt_chat_template_free(t);
}

/* ---- masks ---- */

static void mask_by_difference(void **state)
{
    (void)state;
    rt_chat_options plain = { 0 }, trimmed = { .end_of_turn = "<|im_end|>" };
    rt_chat_template *t = from_file("chatml_tools.jinja");
    assert_false(rt_chat_template_has_generation(t));
    const char *talk =
        "[" SYSTEM("Be brief") "," USER("Hi") "," ASSISTANT("Hello!") "," USER("Why?") "," ASSISTANT("Because é") "]";
    expect_mask(t, talk, &plain, "[Hello!<|im_end|>\n][Because é<|im_end|>\n]");
    expect_mask(t, talk, &trimmed, "[Hello!<|im_end|>][Because é<|im_end|>]");
    /* What is not at the end of the turn, or not in it, is left as it is. */
    expect_mask(t, talk, &(rt_chat_options){ .end_of_turn = "Hello!" }, "[Hello!<|im_end|>\n][Because é<|im_end|>\n]");
    expect_mask(t, talk, &(rt_chat_options){ .end_of_turn = "" }, "[Hello!<|im_end|>\n][Because é<|im_end|>\n]");
    expect_mask(t, "[" USER("Hi") "]", &plain, "");
    /* The prompt of the caller has no say: the mask is of the conversation as it is. */
    expect_mask(t, talk, &(rt_chat_options){ .add_generation_prompt = true, .end_of_turn = "<|im_end|>" },
                "[Hello!<|im_end|>][Because é<|im_end|>]");
    /* A turn that calls a function is the assistant's too. */
    expect_mask(t,
                "[" USER("Hi") ",{\"role\": \"assistant\", \"content\": \"\", \"tool_calls\": [{\"name\": \"f\", "
                               "\"arguments\": {}}]}," TOOL("1") "," ASSISTANT("ok") "]",
                &trimmed, "[<call>\n{\"name\": \"f\", \"arguments\": {}}\n</call><|im_end|>][ok<|im_end|>]");
    expect_mask(t, "[" USER("Hi") "," TOOL("1") "," TOOL("2") "," ASSISTANT("ok") "," ASSISTANT("more") "]", &trimmed,
                "[ok<|im_end|>][more<|im_end|>]");
    rt_chat_template_free(t);

    t = from_file("headers.jinja");
    expect_mask(t, talk, &(rt_chat_options){ .end_of_turn = "<|end_of_turn|>" },
                "[Hello!<|end_of_turn|>][Because é<|end_of_turn|>]");
    rt_chat_template_free(t);
}

static void mask_of_dropped_reasoning(void **state)
{
    (void)state;
    rt_chat_options o = { .end_of_turn = "<|im_end|>" };
    rt_chat_template *t = from_file("chatml_thinking.jinja");
    expect_mask(t, "[" USER("1+1?") "," ASSISTANT("<think>\\nEasy.\\n</think>\\n\\n2") "]", &o,
                "[<think>\nEasy.\n</think>\n\n2<|im_end|>]");
    expect_mask(t, "[" USER("1+1?") "," ASSISTANT("2") "]", &o, "[<think>\n\n</think>\n\n2<|im_end|>]");
    /* With a second question the first answer loses its reasoning, so there is nothing to train on as it was. */
    expect_refused(t, "[" USER("1+1?") "," ASSISTANT("2") "," USER("2+2?") "," ASSISTANT("4") "]", &o, "message 1");
    expect_refused(t, "[" USER("1+1?") "," ASSISTANT("2") "," USER("2+2?") "]", &o, "--chat-template");
    rt_chat_template_free(t);
}

static void mask_when_the_past_changes(void **state)
{
    (void)state;
    /* The last message is closed in another way once there is a next one. */
    rt_chat_template *t = from_text("{% for m in messages %}<{{ m.content }}{{ '.' if loop.last else ',' }}{% endfor %}"
                                    "{% if add_generation_prompt %}>{% endif %}");
    expect_refused(t, "[" USER("a") "," ASSISTANT("b") "]", &(rt_chat_options){ 0 }, "message 1");
    rt_chat_template_free(t);
    /* A template that fails on part of a conversation cannot be asked. */
    t = from_file("alternating.jinja");
    json_t *special = parse("{\"bos_token\": \"<s>\", \"eos_token\": \"</s>\"}");
    rt_chat_options o = { .special = special };
    expect_mask(t, "[" USER("a") "," ASSISTANT("b") "," USER("c") "," ASSISTANT("d") "]", &o, "[ b</s>][ d</s>]");
    expect_refused(t, "[" ASSISTANT("b") "]", &o, "must alternate");
    rt_chat_template_free(t);
    t = from_text("{{ messages[0].content }}{% for m in messages[1:] %}{{ m.content }}{% endfor %}"
                  "{{ raise_exception('too short') if messages|length == 1 }}");
    expect_refused(t, "[" USER("a") "," ASSISTANT("b") "]", &o, "assistant mask of message 1");
    rt_chat_template_free(t);
    json_decref(special);
}

static void mask_by_generation(void **state)
{
    (void)state;
    rt_chat_options o = { .now = 1721822400 };
    rt_chat_template *t = from_file("modes.jinja");
    assert_true(rt_chat_template_has_generation(t));
    const char *talk =
        "[" SYSTEM("x") "," USER("Hi") "," ASSISTANT("\\nHello!") "," USER("Why?") "," ASSISTANT("é") "]";
    expect_mask(t, talk, &o, "[Hello!<|im_end|>][é<|im_end|>]");
    json_t *extra = parse("{\"enable_thinking\": false}");
    o.extra = extra;
    expect_mask(t, talk, &o, "[<think>\n\n</think>\nHello!<|im_end|>][<think>\n\n</think>\né<|im_end|>]");
    rt_chat_template_free(t);
    json_decref(extra);

    t = from_text("{% macro m(x) %}{% generation %}{{ x }}{% endgeneration %}{% endmacro %}"
                  "{% for x in messages %}{{ m(x.content) }}{% endfor %}");
    expect_refused(t, talk, &(rt_chat_options){ 0 }, "inside a macro");
    rt_chat_template_free(t);
}

/* ---- memory ---- */

static int whole_life(const json_t *messages, rt_err *e)
{
    static const char text[] = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}"
                               "{% if add_generation_prompt %}<assistant>{% endif %}";
    rt_chat_template *t;
    rt_jinja_result result = { 0 };
    int rc = rt_chat_template_new(&t, text, strlen(text), e);
    if (rc == RT_OK) rc = rt_chat_mask(t, messages, &(rt_chat_options){ 0 }, &result, e);
    if (rc == RT_OK && result.n_ranges != 1) rc = RT_INTERNAL;
    rt_jinja_result_free(&result);
    rt_chat_template_free(t);
    return rc;
}

static void out_of_memory(void **state)
{
    (void)state;
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_allocator_set(&failing);
    allowed = -1;
    json_t *messages = parse("[" USER("a") "," ASSISTANT("b") "]");
    uint64_t before = rt_alloc_count(), live = rt_alloc_live();
    rt_err e = { 0 };
    assert_int_equal(whole_life(messages, &e), RT_OK);
    uint64_t total = rt_alloc_count() - before;
    for (uint64_t i = 0; i < total; i++) {
        allowed = (int64_t)i;
        e = (rt_err){ 0 };
        int rc = whole_life(messages, &e);
        if (rc != RT_NOMEM || !e.text[0]) fail_msg("allocation %d: status %d, '%s'", (int)i, rc, e.text);
        if (rt_alloc_live() != live) fail_msg("allocation %d: something leaked", (int)i);
    }
    allowed = -1;
    json_decref(messages);
    rt_allocator_set(NULL);
}

int main(void)
{
    rt_json_init();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(variables),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(the_day_is_given),
        cmocka_unit_test(mask_by_difference),
        cmocka_unit_test(mask_of_dropped_reasoning),
        cmocka_unit_test(mask_when_the_past_changes),
        cmocka_unit_test(mask_by_generation),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
