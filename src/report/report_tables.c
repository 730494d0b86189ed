/* report_tables.c - what the page says in tables: settings, verdict, manifest; and the plan's text. */
#include "report/report_internal.h"

#include "settings/settings.h"

#include <string.h>

enum { PLAN_BYTES = 64 << 10, VALUE_DEPTH = 8 };

void rt_report_put_run_name(rt_str *s, const rt_report_page *p, uint32_t i)
{
    if (p->count > 1) rt_str_printf(s, "<i class=\"chip c%u\"></i>", i % 8);
    rt_html_text(s, p->runs[i]->name);
}

void rt_report_put_section(rt_report_page *p, const char *id, const char *title, bool (*has)(const rt_report_run *r),
                           void (*part)(rt_report_page *p, const rt_report_run *r), const char *end)
{
    rt_str *s = &p->out;
    bool begun = false;
    for (uint32_t i = 0; i < p->count; i++) {
        if (!has(p->runs[i])) continue;
        if (!begun) rt_str_printf(s, "<section id=\"%s\">\n<h2>%s</h2>\n", id, title);
        begun = true;
        if (p->count > 1) {
            rt_str_append(s, "<h3>");
            rt_report_put_run_name(s, p, i);
            rt_str_append(s, "</h3>\n");
        }
        part(p, p->runs[i]);
    }
    if (begun) rt_str_printf(s, "%s</section>\n", end);
}

/* ---- settings ---- */

static bool differs(const rt_report_page *p, const char *key)
{
    for (uint32_t i = 1; i < p->count; i++) {
        const json_t *a = json_object_get(p->runs[0]->settings, key), *b = json_object_get(p->runs[i]->settings, key);
        if ((!a) != (!b) || (a && !json_equal(a, b))) return true;
    }
    return false;
}

static void settings_row(rt_report_page *p, const char *key)
{
    rt_str *s = &p->out;
    rt_setting_id id = rt_setting_find(key);
    rt_str_printf(s, "<tr%s><th scope=\"row\"", differs(p, key) ? " class=\"differs\"" : "");
    if (id != RT_SETTING_COUNT_ALL) rt_html_between(s, " title=\"", rt_setting_table[id].help, "\"");
    rt_html_between(s, ">", key, "</th>");
    for (uint32_t i = 0; i < p->count; i++) {
        const json_t *v = json_object_get(p->runs[i]->settings, key);
        rt_str_append(s, "<td>");
        if (v)
            rt_html_value(s, v);
        else
            rt_str_append(s, "<span class=\"none\">&ndash;</span>");
        rt_str_append(s, "</td>");
    }
    rt_str_append(s, "</tr>\n");
}

static bool seen_before(const rt_report_page *p, uint32_t run, const char *key)
{
    for (uint32_t i = 0; i < run; i++)
        if (json_object_get(p->runs[i]->settings, key)) return true;
    return false;
}

/* Every key that any run has, in the order of their first appearance: those that differ, or those that do not. */
static void settings_rows(rt_report_page *p, bool only_different)
{
    const char *key;
    json_t *value;
    for (uint32_t i = 0; i < p->count; i++) {
        json_object_foreach(p->runs[i]->settings, key, value)
        {
            if (!seen_before(p, i, key) && differs(p, key) == only_different) settings_row(p, key);
        }
    }
}

void rt_report_put_settings(rt_report_page *p)
{
    rt_str *s = &p->out;
    bool any = false;
    for (uint32_t i = 0; i < p->count; i++) any = any || json_object_size(p->runs[i]->settings);
    if (!any) return;
    rt_str_append(s, "<section id=\"settings\">\n<h2>Settings</h2>\n");
    if (p->count > 1) rt_str_append(s, "<p class=\"note\">What differs between the runs comes first.</p>\n");
    rt_str_printf(s, "<div class=\"%s\"><table class=\"pairs\">\n",
                  p->count > 1 || json_object_size(p->runs[0]->settings) < 8 ? "scroll" : "columns");
    if (p->count > 1) {
        rt_str_append(s, "<thead><tr><th scope=\"col\">setting</th>");
        for (uint32_t i = 0; i < p->count; i++) {
            rt_str_append(s, "<th scope=\"col\">");
            rt_report_put_run_name(s, p, i);
            rt_str_append(s, "</th>");
        }
        rt_str_append(s, "</tr></thead>\n");
    }
    rt_str_append(s, "<tbody>\n");
    if (p->count > 1) settings_rows(p, true);
    settings_rows(p, false);
    rt_str_append(s, "</tbody></table></div>\n</section>\n");
}

/* ---- verdict ---- */

static const json_t *first_of(const json_t *object, const char *const *keys)
{
    for (; *keys; keys++)
        if (json_object_get(object, *keys)) return json_object_get(object, *keys);
    return NULL;
}

/* Anything that is not a plain pass or fail was not measured: never shown as a pass. */
static void verdict_row(rt_str *s, const json_t *row)
{
    static const char *const verdicts[] = { "verdict", "outcome", "status", "result", NULL };
    static const char *const claims[] = { "claim", "text", "description", "id", NULL };
    const char *word = json_string_value(first_of(row, verdicts));
    bool pass = word && strcmp(word, "pass") == 0, fail = word && strcmp(word, "fail") == 0;
    rt_str_printf(s, "<tr class=\"%s\"><td><b class=\"mark\">%s</b></td><td>",
                  pass   ? "pass"
                  : fail ? "fail"
                         : "unmeasured",
                  pass   ? "&#10003; pass"
                  : fail ? "&#10007; fail"
                         : "&ndash; not measured");
    rt_html_value(s, first_of(row, claims));
    rt_str_append(s, "</td><td>");
    rt_html_value(s, json_object_get(row, "measured"));
    rt_str_append(s, "</td></tr>\n");
}

static const json_t *verdict_rows(const json_t *verdict)
{
    static const char *const keys[] = { "falsifiers", "claims", "verdicts", NULL };
    const json_t *rows = json_is_array(verdict) ? verdict : first_of(verdict, keys);
    return json_array_size(rows) ? rows : NULL;
}

static bool has_verdict(const rt_report_run *r) { return verdict_rows(r->verdict) != NULL; }

static void verdict_of_run(rt_report_page *p, const rt_report_run *r)
{
    rt_str *s = &p->out;
    const json_t *rows = verdict_rows(r->verdict);
    rt_str_append(s, "<div class=\"scroll\"><table class=\"verdict\"><thead><tr><th scope=\"col\">verdict</th>"
                     "<th scope=\"col\">claim</th><th scope=\"col\">measured</th></tr></thead>\n<tbody>\n");
    for (size_t k = 0; k < json_array_size(rows); k++) verdict_row(s, json_array_get(rows, k));
    rt_str_append(s, "</tbody></table></div>\n");
}

void rt_report_put_verdict(rt_report_page *p)
{
    rt_report_put_section(p, "verdict", "Verdict", has_verdict, verdict_of_run, "");
}

/* ---- manifest ---- */

static const char *name_of(const json_t *files, size_t i)
{
    const char *name = json_string_value(json_object_get(json_array_get(files, i), "name"));
    return name ? name : "unnamed";
}

/* Many files in a few words, in place: how many, how large, the first of them. */
static void shorten(json_t *v)
{
    enum { FILES = 3 };
    const char *key;
    json_t *one, *list = json_object_get(v, "files");
    size_t i, n = json_array_size(list);
    for (i = 0; i < json_array_size(v); i++) shorten(json_array_get(v, i));
    json_object_foreach(v, key, one) shorten(one);
    if (n <= FILES) return;
    char bytes[32];
    uint64_t sum = 0;
    for (i = 0; i < n; i++) sum += (uint64_t)json_integer_value(json_object_get(json_array_get(list, i), "bytes"));
    json_t *text = json_sprintf("%zu of together %s, the first %s, %s, %s; manifest.json has all", n,
                                rt_format_bytes(bytes, sum), name_of(list, 0), name_of(list, 1), name_of(list, 2));
    json_object_set_new(v, "files", text);
}

/* Objects in objects become keys with dots. */
static void flatten(rt_str *s, const json_t *object, const char *prefix, int depth)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)object, key, value)
    {
        rt_str name = { 0 };
        rt_str_printf(&name, "%s%s%s", prefix, *prefix ? "." : "", key);
        if (name.failed) {
            s->failed = true;
        } else if (json_object_size(value) && depth < VALUE_DEPTH) {
            flatten(s, value, name.data, depth + 1);
        } else {
            rt_html_between(s, "<tr><th scope=\"row\">", name.data, "</th><td>");
            json_t *copy = json_deep_copy(value);
            shorten(copy);
            s->failed = s->failed || !copy;
            rt_html_value(s, copy);
            json_decref(copy);
            rt_str_append(s, "</td></tr>\n");
        }
        rt_str_free(&name);
    }
}

static bool has_manifest(const rt_report_run *r) { return json_object_size(r->manifest) > 0; }

/* Which device computed from which step on, where one has failed. */
static void put_devices(rt_str *s, const json_t *sessions)
{
    bool failed = false;
    for (size_t i = 0; i < json_array_size(sessions); i++)
        failed = failed || json_object_get(json_array_get(sessions, i), "in_place_of");
    for (size_t i = 0; failed && i < json_array_size(sessions); i++) {
        const json_t *one = json_array_get(sessions, i), *device = json_object_get(one, "device");
        const char *why = json_string_value(json_object_get(one, "in_place_of"));
        rt_str_printf(
            s, "<p class=\"note\">After step %lld: ", (long long)json_integer_value(json_object_get(one, "from_step")));
        rt_html_text(s, json_string_value(json_object_get(device, "name")));
        rt_html_between(s, " (", json_string_value(json_object_get(device, "backend")), ")");
        if (why) rt_html_between(s, ", in the place of ", why, "");
        rt_str_append(s, "</p>\n");
    }
}

static void manifest_of_run(rt_report_page *p, const rt_report_run *r)
{
    put_devices(&p->out, json_object_get(r->manifest, "sessions"));
    rt_str_append(&p->out, "<details><summary>Models, data, binary and device, by content hash</summary>"
                           "<div class=\"scroll\"><table class=\"pairs\"><tbody>\n");
    flatten(&p->out, r->manifest, "", 0);
    rt_str_append(&p->out, "</tbody></table></div></details>\n");
}

void rt_report_put_manifest(rt_report_page *p)
{
    rt_report_put_section(p, "manifest", "Manifest", has_manifest, manifest_of_run, "");
}

/* ---- plan ---- */

static bool has_plan(const rt_report_run *r) { return r->plan.len > 0; }

static void plan_of_run(rt_report_page *p, const rt_report_run *r)
{
    rt_str_append(&p->out, "<details><summary>Memory, operations and time, as planned before the first step</summary>"
                           "<pre tabindex=\"0\">");
    rt_html_limited(&p->out, r->plan.data, r->plan.len, PLAN_BYTES / p->count);
    rt_str_append(&p->out, "</pre></details>\n");
}

void rt_report_put_plan(rt_report_page *p) { rt_report_put_section(p, "plan", "Plan", has_plan, plan_of_run, ""); }
