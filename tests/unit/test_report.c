/* test_report.c - reports of runs that are whole, going, cut off, hostile, long or broken. The browser looks at the
 * page in tests/browser. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/file.h"
#include "base/json.h"
#include "memory_case.h"
#include "report/report_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static rt_arena arena;

static int set_up(void **state)
{
    (void)state;
    rt_json_init();
    snprintf(folder, sizeof folder, "/tmp/retort-test-report-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}

/* Runs are three levels deep. */
static int tear_down(void **state)
{
    (void)state;
    char **names;
    uint32_t count;
    if (rt_dir_list(&names, &count, &arena, folder, NULL) >= 0)
        for (uint32_t i = 0; i < count; i++) rt_dir_remove(rt_path_join(&arena, folder, names[i]));
    rt_dir_remove(folder);
    bool left = rt_path_exists(folder);
    rt_arena_free(&arena);
    return left ? -1 : 0;
}

/* ---- making runs ---- */

static const char *out_of(const char *run)
{
    char *path = rt_path_join(&arena, folder, run);
    assert_non_null(path);
    return path;
}

static const char *file_of(const char *run, const char *name)
{
    char *path = rt_arena_printf(&arena, "%s/%s/run/%s", folder, run, name);
    assert_non_null(path);
    return path;
}

static void put_file(const char *run, const char *name, const char *text)
{
    rt_err e = { 0 };
    if (rt_dir_make(rt_arena_printf(&arena, "%s/%s/run", folder, run), &e) < 0 ||
        rt_file_write(file_of(run, name), text, strlen(text), &e) < 0)
        fail_msg("%s", e.text);
}

static void put_metrics(const char *run, uint32_t steps, uint32_t spike)
{
    rt_str s = { 0 };
    for (uint32_t i = 0; i <= steps; i++) {
        if (i)
            rt_str_printf(&s,
                          "{\"event\":\"step\",\"step\":%u,\"loss\":%.17g,\"ce\":%.17g,\"divergence\":%.17g,"
                          "\"agreement\":%.17g,\"lr\":0.001,\"grad_norm\":1.25,\"tokens\":100,\"seconds\":0.5}\n",
                          i, i == spike ? 77.125 : 2 + 1.0 / i, 3.0 / i, 0.5 / i, 1 - 1.0 / (i + 1));
        if (i % (steps / 2 ? steps / 2 : 1) == 0)
            rt_str_printf(&s,
                          "{\"event\":\"eval\",\"step\":%u,\"ce\":[%.17g,0.01],\"forward_kl\":[%.17g,0.02],"
                          "\"divergence\":[0.75,0.01],\"agreement\":[0.25,0.01],\"teacher_ce\":[1.5,0.01],"
                          "\"positions\":1234567,\"documents\":50}\n",
                          i, 4.0 - (double)i / steps, 2.0 - (double)i / steps);
    }
    assert_false(s.failed);
    put_file(run, "metrics.jsonl", s.data);
    rt_str_free(&s);
}

/* The page of some runs. */
static char *page_of(const char *const *runs, uint32_t count)
{
    rt_err e = { 0 };
    rt_report_run *open[16] = { 0 };
    rt_str text = { 0 };
    char *path = rt_path_join(&arena, folder, "page.html");
    for (uint32_t i = 0; i < count; i++)
        if (rt_report_run_open(&open[i], out_of(runs[i]), &e) < 0) fail_msg("%s", e.text);
    if (rt_report_write(path, open, count, &e) < 0) fail_msg("%s", e.text);
    for (uint32_t i = 0; i < count; i++) rt_report_run_close(open[i]);
    assert_int_equal(rt_file_read(path, 1 << 24, &text, NULL), RT_OK);
    char *copy = rt_arena_strdup(&arena, text.data);
    assert_non_null(copy);
    rt_str_free(&text);
    return copy;
}

static char *page(const char *run) { return page_of(&run, 1); }

/* The numbers in the page. */
static json_t *data_of(const char *html)
{
    const char *begin = strstr(html, "id=\"data\">"), *end = begin ? strstr(begin, "</script>") : NULL;
    assert_non_null(end);
    json_error_t where;
    begin += strlen("id=\"data\">");
    json_t *j = json_loadb(begin, (size_t)(end - begin), 0, &where);
    if (!j) fail_msg("the page's numbers: %s", where.text);
    return j;
}

static void has(const char *html, const char *text)
{
    if (!strstr(html, text)) fail_msg("the page lacks: %s", text);
}
static void lacks(const char *html, const char *text)
{
    const char *at = strstr(html, text);
    if (at) fail_msg("the page has: %.80s", at);
}

static void refused(const char *path, int status, const char *a, const char *b)
{
    rt_err e = { 0 };
    rt_report_run *r;
    int rc = rt_report_run_open(&r, path, &e);
    assert_null(r);
    if (rc != status || !strstr(e.text, a) || !strstr(e.text, b)) fail_msg("status %d, '%s'", rc, e.text);
}

/* ---- tests ---- */

static void whole(void **state)
{
    (void)state;
    put_metrics("whole", 40, 0);
    put_file(
        "whole", "settings.json",
        "{\"teacher\":\"/models/big-one\",\"student\":\"org/small\",\"steps\":40,\"lr\":0.1,\"data\":[\"a\",\"b\"]}");
    const char *html = page("whole");
    lacks(html, "{{");
    lacks(html, "NaN");
    lacks(html, "not finished");
    has(html, "<title>whole &middot;");
    has(html, "teacher <b>big-one</b>");
    has(html, "student <b>small</b>");
    has(html, "40 steps, 4,000 tokens in 20.0 s");
    has(html, "1,234,567 positions in 50 held-out documents");
    has(html, ">4.0000 <span class=\"error\">&plusmn;&#8239;0.0100</span>");
    has(html, "-1.0000 <span class=\"word\">fell</span>");
    has(html, "<td>a, b</td>");
    has(html, "<td>0.1</td>");
    has(html, "Best at step 40.");
    /* What the run did not write is not there. */
    lacks(html, "<h2>Samples");
    lacks(html, "<h2>Verdict");
    lacks(html, "<h2>Plan");
    lacks(html, "<h2>Manifest");
    lacks(html, "stretches");
    json_t *j = data_of(html), *run = json_array_get(json_object_get(j, "runs"), 0);
    assert_string_equal(json_string_value(json_object_get(run, "name")), "whole");
    const json_t *loss = json_object_get(json_object_get(run, "train"), "loss");
    assert_int_equal(json_array_size(loss), 2);
    assert_int_equal(json_array_size(json_array_get(loss, 0)), 40);
    assert_true(json_number_value(json_array_get(json_array_get(loss, 1), 0)) == 3.0);
    assert_int_equal(json_array_size(json_object_get(json_object_get(run, "held"), "ce")), 3);
    assert_int_equal(json_array_size(json_object_get(run, "knots")), 41);
    json_decref(j);
}

/* The model that is there at the end is the best, here of step 20 of 40: that is what "after" means. */
static void saved_before_the_end(void **state)
{
    (void)state;
    put_metrics("best", 40, 0);
    put_file("best", "samples.jsonl",
             "{\"step\":0,\"prompt\":\"p\",\"who\":\"student\",\"text\":\"at 0\",\"stopped\":true}\n"
             "{\"step\":20,\"prompt\":\"p\",\"who\":\"student\",\"text\":\"at 20\",\"stopped\":true}\n"
             "{\"step\":40,\"prompt\":\"p\",\"who\":\"student\",\"text\":\"at 40\",\"stopped\":true}\n");
    put_file("best", "settings.json", "{\"steps\":40}");
    has(page("best"), "after <span class=\"quiet\">step 40</span>"); /* not yet known */
    put_file("best", "manifest.json", "{\"finished\":true,\"output\":{\"step\":20,\"best\":true}}");
    const char *html = page("best");
    has(html, "after <span class=\"quiet\">step 20</span>");
    has(html, "-0.5000 <span class=\"word\">fell</span>");
    has(html, "Student after <span class=\"quiet\">step 20</span>");
    lacks(html, "at 40");
    rt_err e = { 0 };
    rt_report_run *r;
    if (rt_report_run_open(&r, out_of("best"), &e) < 0) fail_msg("%s", e.text);
    rt_report_facts f = rt_report_run_facts(r);
    assert_true(f.finished && f.after_step == 20 && f.after.ce.mean == 3.5);
    rt_report_run_close(r);
}

/* Rounding to the saved dtype moves what was logged: "after" is what is in the files, as on the closing screen. */
static void saved_as_rounded(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_report_run *r;
    put_metrics("rounded", 40, 0);
    put_file("rounded", "settings.json", "{\"steps\":40}");
    put_file("rounded", "manifest.json",
             "{\"finished\":true,\"output\":{\"step\":40},\"measured\":{\"saved\":{\"ce\":[3.0451,0.01,0.02],"
             "\"positions\":77,\"documents\":9}}}");
    const char *html = page("rounded");
    has(html, "<td data-label=\"after\">3.0451");
    has(html, "77 positions in 9 held-out documents");
    has(html, "After is the saved model, loaded again from its files.");
    if (rt_report_run_open(&r, out_of("rounded"), &e) < 0) fail_msg("%s", e.text);
    rt_report_facts f = rt_report_run_facts(r);
    assert_true(f.after.ce.mean == 3.0451 && f.after.ce.paired == 0.02 && f.after_step == 40);
    rt_report_run_close(r);
}

/* Between the first evaluation and the second there is no "after". */
static void not_evaluated_again(void **state)
{
    (void)state;
    put_file("once", "metrics.jsonl",
             "{\"event\":\"eval\",\"step\":0,\"ce\":[8.5804,0.1],\"positions\":10,\"documents\":5}\n"
             "{\"event\":\"documents\",\"step\":0,\"sums\":{\"ce\":[1,2]}}\n"
             "{\"event\":\"step\",\"step\":1,\"loss\":8,\"ce\":8,\"tokens\":10,\"seconds\":1}\n");
    const char *html = page("once");
    has(html, "<td data-label=\"before\">8.5804");
    lacks(html, "<td data-label=\"after\">8.5804");
    has(html, "after <span class=\"quiet\">not evaluated again yet</span>");
}

/* A manifest of very many files is not a page of them. */
static void many_files(void **state)
{
    (void)state;
    rt_str s = { 0 };
    put_metrics("files", 4, 0);
    rt_str_append(&s, "{\"data\":{\"train\":[{\"name\":\"d\",\"shards\":[{\"name\":\"train-00.tokens\",\"files\":[");
    for (int i = 0; i < 150; i++)
        rt_str_printf(&s, "%s{\"name\":\"f%03d.txt\",\"bytes\":1024,\"hash\":\"x\"}", i ? "," : "", i);
    rt_str_append(&s, "]}]}]}}");
    put_file("files", "manifest.json", s.data);
    rt_str_free(&s);
    const char *html = page("files");
    has(html, "train-00.tokens, files 150 of together 150 KiB, the first f000.txt, f001.txt, f002.txt; manifest.json "
              "has all");
    lacks(html, "f003.txt");
}

/* OUT and OUT/run are the same run; a trailing slash and a dot too. */
static void names(void **state)
{
    (void)state;
    put_metrics("named", 4, 0);
    const char *paths[] = { out_of("named"), rt_arena_printf(&arena, "%s/named/run", folder),
                            rt_arena_printf(&arena, "%s/named/", folder),
                            rt_arena_printf(&arena, "%s/named/run/.", folder) };
    for (int i = 0; i < 4; i++) {
        rt_err e = { 0 };
        rt_report_run *r;
        if (rt_report_run_open(&r, paths[i], &e) < 0) fail_msg("%s", e.text);
        rt_report_facts f = rt_report_run_facts(r);
        assert_string_equal(f.name, "named");
        assert_true(f.step == 4 && f.steps == 0 && !f.finished && f.evals == 3 && f.tokens == 400);
        assert_true(f.after.teacher && f.after.ce.mean == 3.0 && f.first.ce.mean == 4.0 && f.after_step == 4);
        rt_report_run_close(r);
    }
}

/* Bars as wide as their values say; on a logarithmic scale from a tenth on. */
static void bars(void **state)
{
    (void)state;
    put_metrics("bars", 4, 0);
    put_file("bars", "bars.json",
             "[{\"title\":\"plain\",\"bars\":[{\"label\":\"a\",\"value\":0.1},{\"label\":\"b\",\"value\":0.4},"
             "{\"label\":\"c\",\"value\":0}]},"
             "{\"title\":\"log\",\"log\":true,\"bars\":[{\"label\":\"a\",\"value\":0.0001},"
             "{\"label\":\"b\",\"value\":0.01},{\"label\":\"c\",\"value\":1}]}]");
    const char *html = page("bars");
    has(html, "--share:0.2500\"></i><span>0.1<");
    has(html, "--share:1.0000\"></i><span>0.4<");
    has(html, "--share:0.0000\"></i><span>0<");
    has(html, "--share:0.1000\"></i><span>0.0001<");
    has(html, "--share:0.5500\"></i><span>0.01<");
    has(html, "--share:1.0000\"></i><span>1<");
}

/* What was measured at one end only has not changed. */
static void half_measured(void **state)
{
    (void)state;
    put_file("half", "metrics.jsonl",
             "{\"event\":\"eval\",\"step\":0,\"ce\":[3.5,0.1]}\n"
             "{\"event\":\"step\",\"step\":1,\"loss\":2.5,\"ce\":1.5,\"tokens\":10,\"seconds\":0.5}\n"
             "{\"event\":\"eval\",\"step\":1,\"ce\":[2.5,0.1],\"forward_kl\":[0.5,0.1]}\n");
    const char *html = page("half");
    has(html, "<td class=\"none\" data-label=\"change\">");
    lacks(html, "nan");
}

/* Nothing that a run holds becomes markup, or ends the script's data. */
static void hostile(void **state)
{
    (void)state;
    static const char name[] = "a'<b>&\"\xff<script>"; /* a folder's name: any bytes but the slash */
    put_metrics(name, 4, 0);
    put_file(name, "settings.json",
             "{\"student\":\"<script>alert(1)</script>\",\"<i>key</i>\":\"</td><script>x</script>\"}");
    put_file(name, "samples.jsonl",
             "{\"step\":0,\"prompt\":\"<img src=x onerror=alert(1)>\",\"who\":\"student\","
             "\"text\":\"</p></article><script>alert(2)</script>\",\"stopped\":false}\n"
             "{\"step\":4,\"prompt\":\"<img src=x onerror=alert(1)>\",\"who\":\"student\","
             "\"text\":\"bell \\u0007 nul \\u0000 \\u2028\",\"stopped\":true}\n");
    put_file(name, "plan.txt", "</pre><script>plan</script> \xc3\x28");
    put_file(name, "manifest.json", "{\"<u>\":{\"<s>\":\"<script>m</script>\"}}");
    put_file(name, "verdict.json",
             "[{\"id\":\"<script>i\",\"claim\":\"<script>c\",\"measured\":\"<script>v\",\"verdict\":\"<script>\"}]");
    put_file(name, "bars.json",
             "[{\"title\":\"<script>t\",\"note\":\"<script>n\",\"bars\":[{\"label\":\"<script>l\",\"value\":1}]}]");
    const char *html = page(name);
    int scripts = 0;
    for (const char *p = html; (p = strstr(p, "<script")); p++) scripts++;
    assert_int_equal(scripts, 2); /* the page's own */
    lacks(html, "<img");
    lacks(html, "<i>key");
    lacks(html, "<u>");
    has(html, "&lt;script&gt;alert(2)&lt;/script&gt;");
    has(html, "bell \xe2\x90\x87 nul \xe2\x90\x80 "); /* the pictures of the control characters */
    has(html, "&lt;u&gt;.&lt;s&gt;");
    assert_true(rt_path_exists(file_of(name, "plan.txt")));
    json_t *j = data_of(html);
    assert_string_equal(json_string_value(json_object_get(json_array_get(json_object_get(j, "runs"), 0), "name")),
                        "a'<b>&\"\xef\xbf\xbd<script>");
    json_decref(j);
}

/* The page fetches nothing. */
static void alone(void **state)
{
    (void)state;
    put_metrics("offline", 4, 0);
    const char *html = page("offline");
    for (const char *p = html; (p = strstr(p, "://")); p++)
        if (strncmp(p, "://www.w3.org/2000/svg\"", 23) != 0) fail_msg("an address: %.60s", p - 8);
    lacks(html, " src=");
    lacks(html, "@import");
    lacks(html, "url(");
    has(html, "default-src 'none'");
}

static void long_run(void **state)
{
    (void)state;
    put_metrics("long", 10000, 4321);
    put_file("long", "settings.json", "{\"steps\":10000}");
    const char *html = page("long");
    assert_true(strlen(html) < 1000000);
    has(html, "10,000 steps are drawn as 400 stretches");
    json_t *j = data_of(html);
    const json_t *train = json_object_get(json_array_get(json_object_get(j, "runs"), 0), "train");
    const json_t *loss = json_object_get(train, "loss"), *x = json_array_get(loss, 0), *y = json_array_get(loss, 1);
    bool spike = false;
    assert_true(json_array_size(x) == json_array_size(y) && json_array_size(x) <= 1200);
    for (size_t i = 0; i < json_array_size(x); i++) {
        json_int_t step = json_integer_value(json_array_get(x, i));
        assert_true(!i || step > json_integer_value(json_array_get(x, i - 1)));
        spike = spike || (step == 4321 && json_number_value(json_array_get(y, i)) == 77.125);
    }
    assert_true(spike);
    assert_int_equal(json_integer_value(json_array_get(x, 0)), 1);
    assert_int_equal(json_integer_value(json_array_get(x, json_array_size(x) - 1)), 10000);
    assert_int_equal(json_array_size(json_array_get(loss, 2)), 400);
    assert_int_equal(json_array_size(json_array_get(loss, 3)), 400);
    json_decref(j);
    /* Sixteen of them are still below a megabyte. */
    const char *runs[16];
    for (int i = 0; i < 16; i++) runs[i] = "long";
    assert_true(strlen(page_of(runs, 16)) < 1000000);
}

static void thinning(void **state)
{
    (void)state;
    uint32_t keep[64];
    double v[60];
    for (int i = 0; i < 60; i++) v[i] = i % 7;
    assert_int_equal(rt_report_thin(v, sizeof *v, 12, 4, keep), 12); /* few: all */
    v[3] = NAN;
    assert_int_equal(rt_report_thin(v, sizeof *v, 12, 4, keep), 11);
    assert_int_equal(keep[3], 4);
    for (int i = 0; i < 60; i++) v[i] = 1;
    v[17] = 9;
    v[13] = -9;
    v[41] = INFINITY; /* not drawn, and not a highest value */
    uint32_t n = rt_report_thin(v, sizeof *v, 60, 4, keep);
    /* Of 0-14: 13 lowest, 0 highest, 14 last; of 15-29: 15 and 17 and 29; of 30-44: 30, 44; of 45-59: 45, 59 */
    const uint32_t want[] = { 0, 13, 14, 15, 17, 29, 30, 44, 45, 59 };
    assert_int_equal(n, sizeof want / sizeof *want);
    assert_memory_equal(keep, want, sizeof want);
    for (int i = 0; i < 60; i++) v[i] = NAN;
    assert_int_equal(rt_report_thin(v, sizeof *v, 60, 4, keep), 0);
    assert_int_equal(rt_report_thin(v, sizeof *v, 0, 4, keep), 0);
    /* Whatever the number of runs, what is kept fits where it goes. */
    for (uint32_t runs = 0; runs < 300; runs++) assert_true(rt_report_buckets(runs) >= 20);
}

/* Going, or cut off at any byte: a page, and it says so. */
static void unfinished(void **state)
{
    (void)state;
    rt_str text = { 0 };
    put_metrics("cut", 4, 0);
    assert_int_equal(rt_file_read(file_of("cut", "metrics.jsonl"), 1 << 20, &text, NULL), RT_OK);
    put_file("cut", "settings.json", "{\"steps\":8}");
    const char *html = page("cut");
    has(html, "Step 4 of 8: the run was interrupted; --resume continues it.");
    lacks(html, "middle of a line");
    for (size_t n = 0; n < text.len; n += n < 300 ? 1 : 37) {
        rt_report_run *r;
        rt_err e = { 0 };
        assert_int_equal(rt_file_write(file_of("cut", "metrics.jsonl"), text.data, n, NULL), RT_OK);
        if (rt_report_run_open(&r, out_of("cut"), &e) < 0) fail_msg("%zu bytes: %s", n, e.text);
        assert_int_equal(rt_report_run_facts(r).cut, n && text.data[n - 1] != '\n');
        assert_false(rt_report_run_facts(r).finished);
        rt_report_run_close(r);
    }
    html = page("cut");
    has(html, "A file ends in the middle of a line; that line is left out.");
    /* After a power cut a line may be whole in length and hold nothing. */
    put_file("cut", "metrics.jsonl", "{\"event\":\"step\",\"step\":1,\"loss\":1}\n\x01\x01\x01\n");
    has(page("cut"), "middle of a line");
    /* Only begun: settings, and not a line. */
    put_file("begun", "settings.json", "{\"steps\":8,\"student\":\"s\"}");
    has(page("begun"), "Step 0 of 8: the run was interrupted");
    put_file("begun", "metrics.jsonl", "");
    has(page("begun"), "Step 0 of 8");
    rt_str_free(&text);
}

/* A run without a teacher, and one with numbers that are not there. */
static void sparse(void **state)
{
    (void)state;
    put_file("sparse", "metrics.jsonl",
             "{\"event\":\"eval\",\"step\":0,\"ce\":[3.5,null],\"positions\":9,\"documents\":1}\n"
             "{\"event\":\"step\",\"step\":1,\"loss\":null,\"seconds\":0}\n"
             "{\"event\":\"later-invention\",\"step\":\"x\"}\n"
             "{\"event\":\"step\",\"step\":2,\"loss\":2.5}\n");
    put_file("sparse", "settings.json", "{\"student\":\"s\",\"steps\":2}");
    const char *html = page("sparse");
    has(html, "trained on text alone");
    has(html, "not finished"); /* no evaluation after the last step */
    lacks(html, "KL(teacher &#8214;");
    json_t *j = data_of(html);
    const json_t *train = json_object_get(json_array_get(json_object_get(j, "runs"), 0), "train");
    assert_int_equal(json_object_size(train), 1);
    assert_int_equal(json_array_size(json_array_get(json_object_get(train, "loss"), 0)), 1);
    json_decref(j);
}

static void verdicts(void **state)
{
    (void)state;
    put_metrics("judged", 4, 0);
    put_file(
        "judged", "verdict.json",
        "{\"falsifiers\":[{\"id\":\"F-1\",\"claim\":\"one\",\"measured\":{\"a\":1,\"b\":[2,3]},\"verdict\":\"pass\"},"
        "{\"id\":\"F-2\",\"claim\":\"two\",\"measured\":0.5,\"verdict\":\"fail\"},"
        "{\"id\":\"F-3\",\"claim\":\"three\",\"measured\":null,\"verdict\":\"not measured\"},"
        "{\"id\":\"F-4\",\"claim\":\"four\",\"verdict\":\"Passed\"},{\"id\":\"F-5\",\"verdict\":true},7]}");
    const char *html = page("judged");
    int pass = 0, fail = 0, unmeasured = 0;
    for (const char *p = html; (p = strstr(p, "<tr class=\"pass\">")); p++) pass++;
    for (const char *p = html; (p = strstr(p, "<tr class=\"fail\">")); p++) fail++;
    for (const char *p = html; (p = strstr(p, "<tr class=\"unmeasured\">")); p++) unmeasured++;
    assert_true(pass == 1 && fail == 1 && unmeasured == 4);
    has(html, "a 1, b 2, 3");
}

static void samples(void **state)
{
    (void)state;
    put_metrics("told", 4, 0);
    put_metrics("untold", 4, 0);
    put_file("told", "samples.jsonl",
             "{\"step\":0,\"prompt\":\"P1\",\"who\":\"student\",\"text\":\"at-zero\",\"stopped\":false}\n"
             "{\"step\":2,\"prompt\":\"P1\",\"who\":\"student\",\"text\":\"between\",\"stopped\":false}\n"
             "{\"step\":4,\"prompt\":\"P1\",\"who\":\"student\",\"text\":\"at-four\",\"stopped\":true}\n"
             "{\"step\":0,\"prompt\":\"P1\",\"who\":\"teacher\",\"text\":\"wisdom\",\"stopped\":true}\n");
    put_file("untold", "samples.jsonl",
             "{\"step\":4,\"prompt\":\"P1\",\"who\":\"student\",\"text\":\"other-four\",\"stopped\":true}\n"
             "{\"step\":4,\"prompt\":\"P1\",\"who\":\"teacher\",\"text\":\"wisdom\",\"stopped\":true}\n");
    const char *html = page("told");
    has(html, "at-zero");
    has(html, "at-four");
    has(html, "wisdom");
    lacks(html, "between");
    /* Two runs: what both became, and the teacher once. */
    const char *both[] = { "told", "untold" };
    html = page_of(both, 2);
    lacks(html, "at-zero");
    has(html, "at-four");
    has(html, "other-four");
    const char *teacher = strstr(html, "wisdom");
    assert_non_null(teacher);
    assert_null(strstr(teacher + 1, "wisdom"));
    /* A text of a megabyte, fifty prompts: the page stays small and says what it left out. */
    rt_str s = { 0 };
    for (int i = 0; i < 50; i++) {
        rt_str_printf(&s, "{\"step\":0,\"prompt\":\"prompt %d\",\"who\":\"student\",\"stopped\":false,\"text\":\"", i);
        for (int k = 0; k < 20000; k++) rt_str_append(&s, "\xc3\xa9");
        rt_str_append(&s, "\"}\n");
    }
    put_file("told", "samples.jsonl", s.data);
    rt_str_free(&s);
    html = page("told");
    assert_true(strlen(html) < 500000);
    has(html, "The first 24 prompts are shown.");
    has(html, "more bytes</span>");
}

static void comparison(void **state)
{
    (void)state;
    put_metrics("one", 4, 0);
    put_metrics("two", 4, 0);
    put_file("one", "settings.json", "{\"steps\":4,\"lr\":0.1,\"seed\":1}");
    put_file("two", "settings.json", "{\"steps\":4,\"lr\":0.2,\"seed\":1,\"alpha\":0.5}");
    const char *both[] = { "one", "two" }, *html = page_of(both, 2);
    has(html, "<h1>one and two</h1>");
    const char *lr = strstr(html, ">lr</th><td>0.1</td><td>0.2</td>"), *seed = strstr(html, ">seed</th>"),
               *alpha = strstr(html, ">alpha</th><td><span class=\"none\">&ndash;</span></td><td>0.5</td>");
    assert_true(lr && seed && alpha && lr < seed && alpha < seed);
    const char *six[] = { "one", "two", "one", "two", "one", "two" };
    has(page_of(six, 3), "<h1>one, two and one</h1>");
    has(page_of(six, 6), "<h1>one, two, one, two and 2 more</h1>");
}

static void broken(void **state)
{
    (void)state;
    put_metrics("broken", 4, 0);
    put_file("broken", "metrics.jsonl",
             "{\"event\":\"step\",\"step\":1}\n{\"event\":\n{\"event\":\"step\",\"step\":2}\n");
    refused(out_of("broken"), RT_FORMAT, "metrics.jsonl, line 2", "remove the line");
    put_file("broken", "metrics.jsonl", "{\"event\":\"step\",\"step\":5}\n{\"event\":\"step\",\"step\":5}\n");
    refused(out_of("broken"), RT_FORMAT, "metrics.jsonl, line 2", "step 5 comes after step 5");
    put_file("broken", "metrics.jsonl", "{\"event\":\"step\",\"step\":-1}\n");
    refused(out_of("broken"), RT_FORMAT, "line 1", "\"step\"");
    put_file("broken", "metrics.jsonl", "[1]\n[2]\n");
    refused(out_of("broken"), RT_FORMAT, "line 1", "not a JSON object");
    put_metrics("broken", 4, 0);
    put_file("broken", "settings.json", "{\"steps\":\n\n8");
    refused(out_of("broken"), RT_FORMAT, "settings.json, line 3", "move it away");
    put_file("broken", "settings.json", "[]");
    put_file("broken", "samples.jsonl", "{\"step\":0,\"prompt\":\"p\",\"who\":\"nobody\",\"text\":\"t\"}\n{}\n");
    refused(out_of("broken"), RT_FORMAT, "samples.jsonl, line 1", "student or teacher");
    /* No run at all. */
    refused(rt_path_join(&arena, folder, "nowhere"), RT_NOT_FOUND, "nowhere", "--out");
    refused(file_of("broken", "metrics.jsonl"), RT_FORMAT, "metrics.jsonl", "folder");
    const char *empty = rt_path_join(&arena, folder, "empty");
    assert_int_equal(rt_dir_make(empty, NULL), RT_OK);
    refused(empty, RT_NOT_FOUND, "empty", "run/metrics.jsonl");
    if (geteuid() != 0) {
        assert_int_equal(chmod(empty, 0), 0);
        refused(empty, RT_IO, "empty", "permission");
        assert_int_equal(chmod(empty, 0700), 0);
    }
}

static void unwritable(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_report_run *r;
    put_metrics("kept", 4, 0);
    assert_int_equal(rt_report_run_open(&r, out_of("kept"), &e), RT_OK);
    assert_true(rt_report_write(rt_arena_printf(&arena, "%s/no/such/page.html", folder), &r, 1, &e) < 0);
    assert_non_null(strstr(e.text, "/no/such"));
    assert_int_equal(rt_report_write(out_of("kept"), &r, 1, &e), RT_INVALID); /* a directory */
    assert_int_equal(rt_report_write("x.html", &r, 0, &e), RT_INVALID);
    rt_report_run_close(r);
    rt_report_run_close(NULL);
}

/* ---- every allocation fails in turn ---- */

static int whole_life(const char *run, const char *out, rt_err *e)
{
    int rc;
    rt_report_run *r = NULL;
    RT_TRY(rt_report_run_open(&r, run, e));
    rt_report_run *runs[2] = { r, r };
    RT_TRY(rt_report_write(out, runs, 2, e));
out:
    rt_report_run_close(r);
    return rc;
}

static void out_of_memory(void **state)
{
    (void)state;
    rt_err e = { 0 };
    char run[128], out[128];
    /* Long numbers and texts: jansson 2.14 asserts, or passes over bytes, when memory ends in the middle of one of more
     * than 15 characters; base/json.c keeps it from that. */
    put_file("poor", "metrics.jsonl",
             "{\"event\":\"eval\",\"step\":0,\"ce\":[3.4999999999999999123,0.1],"
             "\"forward_kl\":[0.5,0.1]}\n"
             "{\"event\":\"step\",\"step\":1,\"loss\":2.500000000000000000000000000000000001,"
             "\"ce\":1.5,\"tokens\":10,\"seconds\":0.5}\n"
             "{\"event\":\"step\",\"step\":2,\"loss\":2.25,\"ce\":1.25,\"tokens\":10,\"seconds\":0.5}\n"
             "{\"event\":\"eval\",\"step\":2,\"ce\":[2.5,0.1],\"forward_kl\":[0.25,0.1]}\n");
    put_file("poor", "settings.json",
             "{\"steps\":2,\"data\":[\"a name that is longer than sixteen\"],\"lr\":0.25000000000000000001}");
    put_file("poor", "samples.jsonl",
             "{\"step\":0,\"prompt\":\"p\",\"who\":\"teacher\",\"text\":\"t\",\"stopped\":true}\n");
    put_file("poor", "verdict.json", "[{\"id\":\"F\",\"claim\":\"c\",\"measured\":{\"x\":1.5},\"verdict\":\"pass\"}]");
    put_file("poor", "manifest.json", "{\"a\":{\"b\":1}}");
    put_file("poor", "bars.json", "[{\"title\":\"t\",\"bars\":[{\"label\":\"l\",\"value\":1}]}]");
    put_file("poor", "plan.txt", "plan");
    snprintf(run, sizeof run, "%s/poor", folder);
    snprintf(out, sizeof out, "%s/poor.html", folder);
    rt_arena_free(&arena);
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_allocator_set(&failing);
    uint64_t before = rt_alloc_count();
    if (whole_life(run, out, &e) < 0) fail_msg("%s", e.text);
    uint64_t total = rt_alloc_count() - before, live = rt_alloc_live();
    assert_true(total > 100);
    assert_int_equal(unlink(out), 0);
    for (uint64_t i = 0; i < total; i++) {
        e = (rt_err){ 0 };
        allowed = (int64_t)i;
        int rc = whole_life(run, out, &e);
        allowed = -1;
        if (rc != RT_NOMEM || !e.text[0])
            fail_msg("allocation %d of %d: status %d '%s'", (int)i, (int)total, rc, e.text);
        if (rt_alloc_live() != live) fail_msg("allocation %d: leaked", (int)i);
        if (rt_path_exists(out)) fail_msg("allocation %d: a page", (int)i);
    }
    rt_allocator_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole),
        cmocka_unit_test(saved_before_the_end),
        cmocka_unit_test(saved_as_rounded),
        cmocka_unit_test(not_evaluated_again),
        cmocka_unit_test(many_files),
        cmocka_unit_test(names),
        cmocka_unit_test(bars),
        cmocka_unit_test(half_measured),
        cmocka_unit_test(hostile),
        cmocka_unit_test(alone),
        cmocka_unit_test(long_run),
        cmocka_unit_test(thinning),
        cmocka_unit_test(unfinished),
        cmocka_unit_test(sparse),
        cmocka_unit_test(verdicts),
        cmocka_unit_test(samples),
        cmocka_unit_test(comparison),
        cmocka_unit_test(broken),
        cmocka_unit_test(unwritable),
        cmocka_unit_test(out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
