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

/* With several runs each has its part under its name. */
static void run_heading(rt_report_page *p, uint32_t i)
{
    if (p->count < 2) return;
    rt_str_append(&p->out, "<h3>");
    rt_report_put_run_name(&p->out, p, i);
    rt_str_append(&p->out, "</h3>\n");
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
    if (id != RT_SETTING_COUNT_ALL) {
        rt_str_append(s, " title=\"");
        rt_html_text(s, rt_setting_table[id].help);
        rt_str_append(s, "\"");
    }
    rt_str_append(s, ">");
    rt_html_text(s, key);
    rt_str_append(s, "</th>");
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
    static const char *const claims[] = { "claim", "text", "description", NULL };
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
    const char *id = json_string_value(json_object_get(row, "id"));
    if (id) {
        rt_str_append(s, "<code>");
        rt_html_text(s, id);
        rt_str_append(s, "</code>");
    }
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

void rt_report_put_verdict(rt_report_page *p)
{
    rt_str *s = &p->out;
    bool begun = false;
    for (uint32_t i = 0; i < p->count; i++) {
        const json_t *rows = verdict_rows(p->runs[i]->verdict);
        if (!rows) continue;
        if (!begun) rt_str_append(s, "<section id=\"verdict\">\n<h2>Verdict</h2>\n");
        begun = true;
        run_heading(p, i);
        rt_str_append(s, "<div class=\"scroll\"><table class=\"verdict\"><thead><tr><th scope=\"col\">verdict</th>"
                         "<th scope=\"col\">claim</th><th scope=\"col\">measured</th></tr></thead>\n<tbody>\n");
        for (size_t k = 0; k < json_array_size(rows); k++) verdict_row(s, json_array_get(rows, k));
        rt_str_append(s, "</tbody></table></div>\n");
    }
    if (begun) rt_str_append(s, "</section>\n");
}

/* ---- manifest ---- */

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
            rt_str_append(s, "<tr><th scope=\"row\">");
            rt_html_text(s, name.data);
            rt_str_append(s, "</th><td>");
            rt_html_value(s, value);
            rt_str_append(s, "</td></tr>\n");
        }
        rt_str_free(&name);
    }
}

void rt_report_put_manifest(rt_report_page *p)
{
    rt_str *s = &p->out;
    bool begun = false;
    for (uint32_t i = 0; i < p->count; i++) {
        if (!json_object_size(p->runs[i]->manifest)) continue;
        if (!begun) rt_str_append(s, "<section id=\"manifest\">\n<h2>Manifest</h2>\n");
        begun = true;
        run_heading(p, i);
        rt_str_append(s, "<details><summary>Models, data, binary and device, by content hash</summary>"
                         "<div class=\"scroll\"><table class=\"pairs\"><tbody>\n");
        flatten(s, p->runs[i]->manifest, "", 0);
        rt_str_append(s, "</tbody></table></div></details>\n");
    }
    if (begun) rt_str_append(s, "</section>\n");
}

/* ---- plan ---- */

void rt_report_put_plan(rt_report_page *p)
{
    rt_str *s = &p->out;
    bool begun = false;
    for (uint32_t i = 0; i < p->count; i++) {
        const rt_str *plan = &p->runs[i]->plan;
        if (!plan->len) continue;
        if (!begun) rt_str_append(s, "<section id=\"plan\">\n<h2>Plan</h2>\n");
        begun = true;
        run_heading(p, i);
        rt_str_append(s, "<details><summary>Memory, operations and time, as planned before the first step</summary>"
                         "<pre tabindex=\"0\">");
        rt_html_limited(s, plan->data, plan->len, PLAN_BYTES / p->count);
        rt_str_append(s, "</pre></details>\n");
    }
    if (begun) rt_str_append(s, "</section>\n");
}
