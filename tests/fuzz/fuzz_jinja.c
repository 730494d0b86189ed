/* fuzz_jinja.c - any bytes as a template, rendered with chat variables: never a crash, a hang or a leak.
 *
 * The input is a template; behind a zero byte there may be a JSON object of variables that replaces the built-in one.
 * With -DRT_FUZZ_REPLAY it has a main() of its own (replay.h). */
#include "base/mem.h"
#include "text/jinja/chat_template.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char variables[] =
    "{\"messages\": [{\"role\": \"system\", \"content\": \"Be brief\"},"
    "{\"role\": \"user\", \"content\": \"H\\u00e9 <b>\"},"
    "{\"role\": \"assistant\", \"content\": \"<think>\\nx\\n</think>\\n\\nYes\", \"tool_calls\":"
    "[{\"function\": {\"name\": \"f\", \"arguments\": {\"a\": 1, \"b\": [1.5, null, true]}}}]},"
    "{\"role\": \"tool\", \"content\": \"{}\"}],"
    "\"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"f\", \"parameters\": {\"type\": \"object\"}}}],"
    "\"add_generation_prompt\": true, \"bos_token\": \"<s>\", \"n\": 3, \"s\": \"a,b c\", \"xs\": [3, 1, 2]}";

static void render(const rt_jinja *t, json_t *vars, const rt_jinja_limits *limits)
{
    enum { MAX_VARS = 32 };
    rt_jinja_var list[MAX_VARS];
    rt_jinja_result result = { 0 };
    rt_err e = { 0 };
    uint32_t n = 0;
    for (void *it = json_object_iter(vars); it && n < MAX_VARS; it = json_object_iter_next(vars, it))
        list[n++] = (rt_jinja_var){ .name = json_object_iter_key(it), .value = json_object_iter_value(it) };
    rt_jinja_render_args args = { .vars = list, .n_vars = n, .now = 1721822400, .limits = limits };
    int rc = rt_jinja_render(t, &args, &result, &e);
    /* What is said about the result must hold. */
    if ((rc == RT_OK && (!result.text.data || strlen(result.text.data) > result.text.len)) ||
        (rc < 0 && (e.status != rc || !e.text[0] || result.text.len != 0)))
        __builtin_trap();
    size_t at = 0;
    for (uint32_t i = 0; i < result.n_ranges; i++) {
        if (result.ranges[i].begin < at || result.ranges[i].end <= result.ranges[i].begin) __builtin_trap();
        at = result.ranges[i].end;
    }
    if (at > result.text.len) __builtin_trap();
    rt_jinja_result_free(&result);
}

static void mask(const char *text, size_t bytes, const json_t *messages, const rt_jinja_limits *limits)
{
    rt_chat_template *t;
    rt_jinja_result result = { 0 };
    rt_err e = { 0 };
    rt_chat_options options = { .end_of_turn = "<|im_end|>", .limits = limits };
    if (rt_chat_template_new(&t, text, bytes, &e) == RT_OK) rt_chat_mask(t, messages, &options, &result, &e);
    rt_jinja_result_free(&result);
    rt_chat_template_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const rt_jinja_limits limits = { .steps = 200000, .output_bytes = 1 << 20, .memory_bytes = 16 << 20 };
    const char *text = (const char *)data;
    size_t bytes = size ? strnlen(text, size) : 0;
    json_t *vars = NULL;
    rt_jinja *t = NULL;
    rt_err e = { 0 };
    if (bytes < size) vars = json_loadb(text + bytes + 1, size - bytes - 1, JSON_ALLOW_NUL, NULL);
    if (!json_is_object(vars)) {
        json_decref(vars);
        vars = json_loads(variables, 0, NULL);
    }
    if (rt_jinja_compile(&t, text, bytes, &e) == RT_OK) {
        render(t, vars, &limits);
        mask(text, bytes, json_object_get(vars, "messages"), &limits);
    } else if (t || !e.text[0] || e.status >= 0) {
        __builtin_trap();
    }
    rt_jinja_free(t);
    json_decref(vars);
    return 0;
}

#ifdef RT_FUZZ_REPLAY
#include "replay.h"
#endif
