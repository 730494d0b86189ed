/* test_jinja.c - the template language: what jinja2 makes of hundreds of templates, messages, limits, memory, threads.
 *
 * The expected texts are in tests/golden/jinja.json, written by tools/gen_jinja_golden.py. `test_jinja FILE` compares
 * another such file, of generated templates say. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/mem.h"
#include "memory_case.h"
#include "text/jinja/jinja.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *golden = "tests/golden/jinja.json";
static bool generated; /* templates that nobody has looked at: a few have integers that only Python can hold */

/* ---- helpers ---- */

/* Renders text with the variables of an object; the result is freed by the caller. */
static int render(const char *text, size_t bytes, json_t *vars, const rt_jinja_limits *limits, rt_jinja_result *result,
                  rt_err *e)
{
    enum { MAX_VARS = 64 };
    rt_jinja_var list[MAX_VARS];
    rt_jinja_render_args args = { .vars = list, .now = 1721822400, .limits = limits };
    rt_jinja *t = NULL;
    int rc = rt_jinja_compile(&t, text, bytes, e);
    for (void *it = json_object_iter(vars); it && args.n_vars < MAX_VARS; it = json_object_iter_next(vars, it))
        list[args.n_vars++] = (rt_jinja_var){ .name = json_object_iter_key(it), .value = json_object_iter_value(it) };
    if (rc == RT_OK) rc = rt_jinja_render(t, &args, result, e);
    rt_jinja_free(t);
    return rc;
}

static void expect_text(const char *template, const char *vars, const char *text)
{
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    json_t *j = vars ? json_loads(vars, JSON_ALLOW_NUL, NULL) : NULL;
    if (render(template, strlen(template), j, NULL, &result, &e) < 0) fail_msg("%s: %s", template, e.text);
    assert_string_equal(result.text.data, text);
    rt_jinja_result_free(&result);
    json_decref(j);
}

static void expect_error(const char *template, int status, const char *message)
{
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    json_t *j = json_loads("{\"d\": {\"a\": 1}, \"xs\": [3, 1, 2], \"s\": \"text\"}", 0, NULL);
    int rc = render(template, strlen(template), j, NULL, &result, &e);
    if (rc != status || e.status != status) fail_msg("%s: status %d, not %d: %s", template, rc, status, e.text);
    if (!strstr(e.text, message)) fail_msg("%s: '%s' lacks '%s'", template, e.text, message);
    assert_int_equal(result.text.len, 0);
    rt_jinja_result_free(&result);
    json_decref(j);
}

/* ---- golden ---- */

/* What jinja2 renders and we refuse by name. */
static bool refused(const char *name)
{
    static const char *const names[] = { "s.encode()", "for recursive", NULL };
    for (const char *const *n = names; *n; n++)
        if (strcmp(*n, name) == 0) return true;
    return false;
}

static void check_ranges(const char *name, const json_t *wanted, const rt_jinja_result *result)
{
    if (result->n_ranges != json_array_size(wanted))
        fail_msg("%s: %u ranges, not %zu", name, result->n_ranges, json_array_size(wanted));
    for (uint32_t i = 0; i < result->n_ranges; i++) {
        const json_t *range = json_array_get(wanted, i);
        assert_int_equal(result->ranges[i].begin, json_integer_value(json_array_get(range, 0)));
        assert_int_equal(result->ranges[i].end, json_integer_value(json_array_get(range, 1)));
    }
}

static void check_case(const json_t *document, const json_t *c)
{
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    const char *name = json_string_value(json_object_get(c, "name"));
    const json_t *template = json_object_get(c, "template"), *text = json_object_get(c, "text"), *ranges;
    if (json_is_integer(template))
        template = json_array_get(json_object_get(document, "templates"), (size_t)json_integer_value(template));
    size_t vars = (size_t)json_integer_value(json_object_get(c, "vars"));
    int rc = render(json_string_value(template), json_string_length(template),
                    json_array_get(json_object_get(document, "vars"), vars), NULL, &result, &e);
    if (refused(name)) {
        assert_int_equal(rc, RT_UNSUPPORTED);
    } else if (!text) {
        if (rc >= 0) fail_msg("%s: rendered as '%s'; jinja2 fails", name, result.text.data);
    } else if (rc < 0 && (!generated || !strstr(e.text, "64 bits"))) {
        fail_msg("%s: %s", name, e.text);
    } else if (rc == RT_OK) {
        if (result.text.len != json_string_length(text) ||
            memcmp(result.text.data, json_string_value(text), result.text.len) != 0)
            fail_msg("%s:\n%s\nis not\n%s", name, result.text.data, json_string_value(text));
        /* Where a block is captured there are no ranges to compare. */
        ranges = json_object_get(c, "ranges");
        if (ranges && !result.ranges_lost) check_ranges(name, ranges, &result);
    }
    rt_jinja_result_free(&result);
}

static void as_jinja2(void **state)
{
    (void)state;
    json_error_t error;
    json_t *document = json_load_file(golden, JSON_ALLOW_NUL, &error);
    if (!document) fail_msg("%s: %s", golden, error.text);
    const json_t *cases = json_object_get(document, "cases");
    assert_true(json_array_size(cases) > 300);
    for (size_t i = 0; i < json_array_size(cases); i++) check_case(document, json_array_get(cases, i));
    json_decref(document);
}

/* ---- messages ---- */

static void messages(void **state)
{
    (void)state;
    expect_error("a\n\n{{ tools.name }}", RT_INVALID, "template line 3: 'tools' is undefined");
    expect_error("{% if d.b.c %}{% endif %}", RT_INVALID, "template line 1: 'dict object' has no attribute 'b'");
    expect_error("{{ xs[7] + 1 }}", RT_INVALID, "list object has no element 7");
    expect_error("{{ none.x + 1 }}", RT_INVALID, "'None' has no attribute 'x'");
    expect_error("\n{{ 'a' + 1 }}", RT_INVALID, "template line 2: can only concatenate str (not \"int\") to str");
    expect_error("{{ xs < s }}", RT_INVALID, "'<' not supported between instances of 'list' and 'str'");
    expect_error("{% for x in 5 %}{% endfor %}", RT_INVALID, "'int' object is not iterable");
    expect_error("{{ s|nosuch }}", RT_INVALID, "no filter named 'nosuch'");
    expect_error("{{ s is nosuch }}", RT_INVALID, "no test named 'nosuch'");
    expect_error("{{ raise_exception('Roles must alternate') }}", RT_INVALID, "template line 1: Roles must alternate");
    expect_error("{% if x %}\n{% for y in z %}", RT_INVALID, "lacks its {% endfor %}");
    expect_error("{{ s", RT_INVALID, "lacks its end '}}'");
    expect_error("{{ (1, 2 }}", RT_INVALID, "unexpected '}', expected ')'");
    expect_error("{{ 1 + }}", RT_INVALID, "expected an expression, got the end of the tag");
    expect_error("{% endif %}", RT_INVALID, "misplaced tag 'endif'");
    expect_error("{{ 9223372036854775807 + 1 }}", RT_INVALID, "64 bits");
    expect_error("{{ 9223372036854775808 }}", RT_INVALID, "64 bits");
    expect_error("{{ -9223372036854775807 - 1 - 1 }}", RT_INVALID, "64 bits");
    expect_error("{{ (-9223372036854775807 - 1) // -1 }}", RT_INVALID, "64 bits");
    expect_error("{{ 10 ** 19 }}", RT_INVALID, "64 bits");
    expect_error("{{ xs.append(4) }}", RT_INVALID, "cannot change a list");
    expect_error("{{ d.update(b=1) }}", RT_INVALID, "cannot change a list or a dict");
}

static void unsupported(void **state)
{
    (void)state;
    expect_error("{% include 'x' %}", RT_UNSUPPORTED, "the tag 'include' is not supported");
    expect_error("{% import 'x' as y %}", RT_UNSUPPORTED, "'import'");
    expect_error("{% from 'x' import y %}", RT_UNSUPPORTED, "'from'");
    expect_error("{% extends 'x' %}", RT_UNSUPPORTED, "'extends'");
    expect_error("{% block x %}{% endblock %}", RT_UNSUPPORTED, "'block'");
    expect_error("{% autoescape true %}{% endautoescape %}", RT_UNSUPPORTED, "'autoescape'");
    expect_error("{% for x in xs recursive %}{% endfor %}", RT_UNSUPPORTED, "recursive loops");
    expect_error("{% for x in xs %}{{ loop(x) }}{% endfor %}", RT_UNSUPPORTED, "recursive loops");
    expect_error("{{ s.encode() }}", RT_UNSUPPORTED, "'encode' of a str");
    expect_error("{{ s|urlize }}", RT_UNSUPPORTED, "the filter 'urlize'");
    expect_error("{{ '\\N{BULLET}' }}", RT_UNSUPPORTED, "\\N");
    /* Python prints an address for these; there is nothing to be equal to. */
    expect_error("{{ xs|map('string') }}", RT_INVALID, "add |list");
    expect_error("{{ s.upper }}", RT_INVALID, "lacks its ()");
    expect_error("{{ range }}", RT_INVALID, "lacks its ()");
}

static void bad_bytes(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_jinja *t;
    static const char *const wrong[] = { "a\xff",        "\xc3",     "\xe2\x82",
                                         "\xed\xa0\x80", "\xc0\x80", "\xf5\x80\x80\x80",
                                         "{{ '\x80' }}" };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_int_equal(rt_jinja_compile(&t, wrong[i], strlen(wrong[i]), &e), RT_INVALID);
        assert_non_null(strstr(e.text, "UTF-8"));
        assert_null(t);
    }
    expect_text("{{ s|length }}{{ s|tojson }}", "{\"s\": \"a\\u0000b\"}", "3\"a\\u0000b\"");
    assert_int_equal(rt_jinja_compile(&t, "a\0b", 3, &e), RT_OK);
    rt_jinja_free(t);
    rt_jinja_free(NULL);
    rt_jinja_result_free(NULL);
    assert_int_equal(rt_jinja_compile(&t, "{{", 2, NULL), RT_INVALID);
}

/* ---- limits ---- */

/* Of this process, so that a busy machine does not count; sanitized it is some twenty times slower. */
enum { MOST_SECONDS = 60 };
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Ends with RT_INVALID in reasonable time, whatever it asks for. */
static void expect_stopped_by(const char *template, const rt_jinja_limits *limits)
{
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    double start = cpu_seconds();
    int rc = render(template, strlen(template), NULL, limits, &result, &e);
    double took = cpu_seconds() - start;
    if (rc != RT_INVALID) fail_msg("%.200s: status %d: %s", template, rc, e.text);
    if (took > MOST_SECONDS) fail_msg("%.200s: took %.1f s", template, took);
    rt_jinja_result_free(&result);
}

static void expect_stopped(const char *template) { expect_stopped_by(template, NULL); }

static void runaways(void **state)
{
    (void)state;
    expect_stopped("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
    expect_stopped(
        "{% for a in range(99999) %}{% for b in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxx' }}{% endfor %}{% endfor %}");
    expect_stopped("{{ range(1000000000) }}");
    expect_stopped("{{ range(0, 9223372036854775807, 1) }}");
    expect_stopped(
        "{{ range(-9223372036854775807, 9223372036854775807, 9223372036854775807)|list }}{{ 'x' * 1000000000 }}");
    expect_stopped("{{ 'x' * 9223372036854775807 }}");
    expect_stopped("{{ [1] * 9223372036854775807 }}");
    expect_stopped("{{ [1] * 1000000000 }}");
    expect_stopped("{{ 'x'.center(1000000000) }}");
    expect_stopped("{{ '%1000000000d' % 1 }}");
    expect_stopped("{{ '{:>999999999}'.format(1) }}");
    expect_stopped("{{ 'x'.zfill(9223372036854775807) }}");
    expect_stopped("{{ 'a\t'.expandtabs(9223372036854775807) }}");
    expect_stopped("{{ [1]|batch(9223372036854775807, 0)|list }}");
    expect_stopped("{{ [1]|slice(9223372036854775807)|list }}");
    expect_stopped("{{ [[1]]|tojson(indent=1000000000) }}");
    expect_stopped("{{ 'a\n'|indent(1000000000) }}");
    expect_stopped("{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}");
    expect_stopped(
        "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s + ns.s %}{% endfor %}{{ ns.s }}");
    expect_stopped(
        "{% set ns = namespace(s='x') %}{% for i in range(64) %}{% set ns.s = ns.s.replace('x', 'xx') %}{% endfor %}");
    expect_stopped(
        "{% set ns = namespace(x=[]) %}{% for i in range(64) %}{% set ns.x = ns.x + ns.x + [1] %}{% endfor %}");
    expect_stopped(
        "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x }}");
    expect_stopped(
        "{% set ns = namespace(x=1) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|tojson }}");
    expect_stopped(
        "{% set ns = namespace(x=1, y=1) %}{% for i in range(9999) %}{% set ns.x = [ns.x] %}{% set ns.y = [ns.y] %}"
        "{% endfor %}{{ ns.x == ns.y }}");
    expect_stopped("{% set ns = namespace(x=1, y=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}"
                   "{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}");
    expect_stopped(
        "{% set ns = namespace(x=1) %}{% for i in range(60) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}");
    expect_stopped("{% set a = namespace() %}{% set b = namespace() %}{% set a.x = [a] %}{% set b.x = [b] %}"
                   "{% set a.x = {'k': a, 'l': a.x} %}{{ a|tojson }}");
    expect_stopped(
        "{% set ns = namespace(x=[1]) %}{% for i in range(9999) %}{% set ns.x = ns.x|map('string') %}{% endfor %}"
        "{{ ns.x|list }}");
    expect_stopped(
        "{% set a = 'a' * 4000000 %}{{ (a + 'b' + a).rfind('b' + a + 'a') }}{{ a.rfind('ba' + a[:2000000]) }}"
        "{{ a.rfind(a[:2000000] + 'b') }}");
    expect_stopped(
        "{% set a = 'a' * 3000000 %}{{ a.strip(a + 'bcd') }}{{ ('x' * 3000000 + 'y').strip('z' * 3000000 + 'x') }}");
    expect_stopped("{% set d = dict.fromkeys(range(90000)) %}{{ d }}");
    expect_stopped("{% for i in range(99999) %}{% set x = 'ab' * 9000 %}{% set y = x.upper() %}{% endfor %}");
}

static const char *const looks[] = {
    "a == b",
    "a != b",
    "a < b",
    "a <= b",
    "a > b",
    "a >= b",
    "[a] == [b]",
    "(a,) < (b,)",
    "{'k': a} == {'k': b}",
    "{a: 1} == {b: 1}",
    "a in [b ~ '']",
    "a in d",
    "d[a]",
    "d.get(a)",
    "d.keys() == e.keys()",
    "a is eq b",
    "a is lt b",
    "a is in [b]",
    "a is sameas b",
    "a is lower",
    "a is upper",
    "a.startswith(b)",
    "a.endswith(b)",
    "a.startswith(('y', b))",
    "a.removeprefix(b)",
    "a.removesuffix(b)",
    "[a].index(b)",
    "[a].count(b)",
    "(a, 1) in [(b, 1)]",
    "a.find(b)",
    "a.rfind(b)",
    "a.index(b)",
    "a.count('y')",
    "a.isalpha()",
    "a.isascii()",
    "a.isdigit()",
    "a.isspace() or a.isalnum()",
    "a.islower()",
    "a.isupper()",
    "a.istitle()",
    "a.upper()",
    "a.title()",
    "a.capitalize()",
    "a.swapcase()",
    "a.strip('x')",
    "a|trim",
    "a|upper",
    "a|lower",
    "a|title",
    "a|wordcount",
    "a|tojson",
    "a|e",
    "a|list",
    "a|reverse",
    "a|replace('y', 'z')",
    "a.replace('y', 'z')",
    "a.split()",
    "a.split('y')",
    "a.splitlines()",
    "a.partition('y')",
    "a.rpartition('y')",
    "a % ()",
    "a.format()",
    "'%s' % a",
    "'{}'.format(a)",
    "a ~ b",
    "a * 2",
    "a[1:]",
    "a[::-1]",
    "u[1:]|length",
    "u.find('y')",
    "u[-1]",
    "(u ~ '')|length",
    "u.rfind('y', 3, 400000)",
    "a|string ~ b",
    "a|truncate(9999)",
    "a|indent",
    "a.expandtabs()",
    "[a, b]|join",
    "[a, b]|sort",
    "[a, b]|unique|list",
    "[a, b]|max",
    "[a, b]|min",
    "[{'k': a}, {'k': b}]|groupby('k')|list",
    "[{'k': a}]|selectattr('k', 'eq', b)|list",
    "[a]|select('in', [b])|list",
    "[a]|map('upper')|list",
    "dict([(a, 1), (b, 2)])",
    "a.join(['x', 'y'])",
    "a|center(2000000)",
    "a.zfill(2000000)",
    "n == m",
    "n < m",
    "n in [m]",
    "(t, 1) in d",
    "t in d",
};

/* Whatever looks at all of a long text costs steps by its length: each of these, done 40000 times over a megabyte,
 * looks at 40 GB. a and b are equal but not one; u has two bytes a character. */
static void long_looks(void **state)
{
    (void)state;
    rt_str text = { 0 };
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        text.len = 0;
        rt_str_append(&text,
                      "{% set a = 'x' * 1000000 %}{% set b = 'x' * 999999 + 'x' %}{% set u = '\xc3\xa9' * 500000 %}"
                      "{% set d = {b: 1} %}{% set e = {a: 1} %}{% set n = [a] * 64 %}{% set m = [b] * 64 %}"
                      "{% set t = ((1,) * 64,) * 64 %}{% set t = ((t,) * 64,) * 64 %}"
                      "{% for i in range(200) %}{% for k in range(200) %}{% if ");
        rt_str_append(&text, looks[i]);
        rt_str_append(&text, " %}{% endif %}{% endfor %}{% endfor %}");
        expect_stopped_by(text.data, &(rt_jinja_limits){ .steps = 300000 });
    }
    rt_str_free(&text);
}

/* One thing nested n times. */
static void nested(const char *open, const char *middle, const char *close, int n)
{
    rt_str text = { 0 };
    for (int i = 0; i < n; i++) rt_str_append(&text, open);
    rt_str_append(&text, middle);
    for (int i = 0; i < n; i++) rt_str_append(&text, close);
    assert_false(text.failed);
    expect_stopped(text.data);
    rt_str_free(&text);
}

static void deep_nesting(void **state)
{
    (void)state;
    static const int depths[] = { 1000, 30000 };
    for (int i = 0; i < 2; i++) {
        int n = depths[i];
        nested("{{ (", "1", ") }}", n);
        rt_str text = { 0 };
        rt_str_append(&text, "{{ ");
        for (int k = 0; k < n; k++) rt_str_append(&text, "(");
        expect_stopped(text.data);
        text.len = 3;
        for (int k = 0; k < n; k++) rt_str_append(&text, "-");
        expect_stopped(text.data);
        text.len = 3;
        for (int k = 0; k < n; k++) rt_str_append(&text, "not ");
        rt_str_append(&text, "1 }}");
        expect_stopped(text.data);
        text.len = 3;
        for (int k = 0; k < n; k++) rt_str_append(&text, "1 if 1 else ");
        rt_str_append(&text, "1 }}");
        expect_stopped(text.data);
        text.len = 3;
        for (int k = 0; k < n; k++) rt_str_append(&text, "1 + ");
        rt_str_append(&text, "1 }}");
        expect_stopped(text.data);
        text.len = 3;
        rt_str_append(&text, "x");
        for (int k = 0; k < n; k++) rt_str_append(&text, ".a");
        rt_str_append(&text, " }}");
        expect_stopped(text.data);
        text.len = 3;
        rt_str_append(&text, "1");
        for (int k = 0; k < n; k++) rt_str_append(&text, "|string");
        rt_str_append(&text, " }}");
        expect_stopped(text.data);
        rt_str_free(&text);
        nested("{% if 1 %}", "x", "{% endif %}", n);
        nested("{% for x in [1] %}", "x", "{% endfor %}", n);
        nested("{% macro m() %}", "x", "{% endmacro %}", n);
        nested("{% set x %}", "x", "{% endset %}", n);
    }
}

static void own_limits(void **state)
{
    (void)state;
    static const struct {
        const char *template;
        rt_jinja_limits limits;
        const char *message;
    } cases[] = {
        { "{% for i in range(100) %}{% endfor %}", { .steps = 50 }, "too long" },
        { "0123456789", { .output_bytes = 9 }, "longer than a template may write" },
        { "{{ [1, 2, 3] * 1000 }}", { .memory_bytes = 4000 }, "more memory" },
        { "{{ ((((((1)))))) + (2 * (3 + (4 * 5))) }}", { .depth = 3 }, "nested too deeply" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        rt_err e = { 0 };
        rt_jinja_result result = { 0 };
        size_t n = strlen(cases[i].template);
        assert_int_equal(render(cases[i].template, n, NULL, &cases[i].limits, &result, &e), RT_INVALID);
        if (!strstr(e.text, cases[i].message)) fail_msg("'%s' lacks '%s'", e.text, cases[i].message);
        e = (rt_err){ 0 };
        assert_int_equal(render(cases[i].template, n, NULL, NULL, &result, &e), RT_OK);
        rt_jinja_result_free(&result);
    }
    /* Output exactly as long as allowed. */
    rt_jinja_result result = { 0 };
    rt_err e = { 0 };
    assert_int_equal(render("0123456789", 10, NULL, &(rt_jinja_limits){ .output_bytes = 10 }, &result, &e), RT_OK);
    assert_string_equal(result.text.data, "0123456789");
    rt_jinja_result_free(&result);
}

#define SENTENCE "some hundred characters or so, that a message may well have, over and over again until the end"

/* A long conversation that is put together in a string costs time and memory in proportion, not its square. */
static void long_strings(void **state)
{
    (void)state;
    expect_text("{% set ns = namespace(t='') %}{% for i in range(20000) %}{% set ns.t = ns.t + s %}{% endfor %}"
                "{{ ns.t|length }}",
                "{\"s\": \"" SENTENCE "\"}", "1880000");
    expect_text("{% set ns = namespace(t='') %}{% for i in range(20000) %}{% set ns.t = ns.t ~ s %}{% endfor %}"
                "{{ ns.t|length }}",
                "{\"s\": \"" SENTENCE "\"}", "1880000");
    /* An older string keeps its text although a longer one was made from it in place. */
    expect_text("{% set a = 'x' * 300 %}{% set b = a + 'b' %}{% set c = b + 'c' %}{% set d = b + 'd' %}"
                "{{ a[-2:] }}{{ b[-2:] }}{{ c[-3:] }}{{ d[-3:] }}{{ c|length }}",
                NULL, "xxxbxbcxbd302");
}

/* ---- reuse, threads, memory ---- */

static int render_again(const char *text, rt_jinja_result *result)
{
    return render(text, strlen(text), NULL, NULL, result, NULL);
}

static void result_is_reused(void **state)
{
    (void)state;
    rt_jinja_result result = { 0 };
    assert_int_equal(render_again("{% generation %}long text{% endgeneration %}", &result), RT_OK);
    assert_int_equal(result.n_ranges, 1);
    assert_int_equal(render_again("x", &result), RT_OK);
    assert_string_equal(result.text.data, "x");
    assert_int_equal(result.n_ranges, 0);
    assert_int_equal(render_again("abc{{ 1 / 0 }}", &result), RT_INVALID);
    assert_int_equal(result.text.len, 0);
    assert_string_equal(result.text.data, "");
    assert_int_equal(render_again("", &result), RT_OK);
    assert_string_equal(result.text.data, "");
    assert_false(result.ranges_lost);
    assert_int_equal(
        render_again("{% macro m() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ m() }}", &result), RT_OK);
    assert_true(result.ranges_lost);
    rt_jinja_result_free(&result);
}

static const char shared_text[] =
    "{% macro m(x) %}<{{ x|upper }}>{% endmacro %}{% set ns = namespace(n=0) %}{% for c in s %}"
    "{% set ns.n = ns.n + 1 %}{{ m(c) }}{{ 'constant ßtring'|length }}{{ loop.last }}{% endfor %}"
    "{{ ns.n }}{{ [1, 'x', 2.5]|tojson }}";

static void *render_often(void *ctx)
{
    const rt_jinja *t = ctx;
    rt_jinja_result first = { 0 }, again = { 0 };
    json_t *s = json_string("häl");
    rt_jinja_var var = { .name = "s", .value = s };
    rt_jinja_render_args args = { .vars = &var, .n_vars = 1 };
    bool same = rt_jinja_render(t, &args, &first, NULL) == RT_OK;
    for (int i = 0; i < 200 && same; i++)
        same = rt_jinja_render(t, &args, &again, NULL) == RT_OK && strcmp(first.text.data, again.text.data) == 0;
    rt_jinja_result_free(&first);
    rt_jinja_result_free(&again);
    json_decref(s);
    return same ? ctx : NULL;
}

static void threads_share_a_template(void **state)
{
    (void)state;
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    rt_err e = { 0 };
    rt_jinja *t;
    assert_int_equal(rt_jinja_compile(&t, shared_text, strlen(shared_text), &e), RT_OK);
    for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, render_often, t), 0);
    for (int i = 0; i < THREADS; i++) {
        void *same;
        assert_int_equal(pthread_join(thread[i], &same), 0);
        assert_ptr_equal(same, t);
    }
    rt_jinja_free(t);
}

static void out_of_memory(void **state)
{
    (void)state;
    static const char text[] = "{% for i in range(300) %}{% generation %}{{ 'x' * 400 }}{% endgeneration %}"
                               "{% set y = [i] * 300 %}{{ y|tojson|length }}{% endfor %}{{ 'z' * 90000 }}";
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_allocator_set(&failing);
    allowed = -1;
    uint64_t before = rt_alloc_count(), live = rt_alloc_live();
    rt_err e = { 0 };
    rt_jinja_result result = { 0 };
    assert_int_equal(render(text, strlen(text), NULL, NULL, &result, &e), RT_OK);
    assert_int_equal(result.n_ranges, 300);
    rt_jinja_result_free(&result);
    uint64_t total = rt_alloc_count() - before;
    assert_true(total > 20);
    for (uint64_t i = 0; i < total; i++) {
        allowed = (int64_t)i;
        e = (rt_err){ 0 };
        int rc = render(text, strlen(text), NULL, NULL, &result, &e);
        if (rc != RT_NOMEM || !e.text[0]) fail_msg("allocation %d: status %d, '%s'", (int)i, rc, e.text);
        rt_jinja_result_free(&result);
        if (rt_alloc_live() != live) fail_msg("allocation %d: something leaked", (int)i);
    }
    allowed = -1;
    rt_allocator_set(NULL);
}

int main(int argc, char **argv)
{
    rt_json_init();
    if (argc > 1) {
        golden = argv[1];
        generated = true;
        const struct CMUnitTest other[] = { cmocka_unit_test(as_jinja2) };
        return cmocka_run_group_tests(other, NULL, NULL);
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(as_jinja2),
        cmocka_unit_test(messages),
        cmocka_unit_test(unsupported),
        cmocka_unit_test(bad_bytes),
        cmocka_unit_test(runaways),
        cmocka_unit_test(deep_nesting),
        cmocka_unit_test(long_looks),
        cmocka_unit_test(own_limits),
        cmocka_unit_test(long_strings),
        cmocka_unit_test(result_is_reused),
        cmocka_unit_test(threads_share_a_template),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
