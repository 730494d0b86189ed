/* report_samples.c - texts side by side, and the bars of a few numbers. */
#include "report/report_internal.h"

#include <math.h>
#include <string.h>

/* Of the page's size: texts share SAMPLE_BYTES, and none has more than TEXT_BYTES. */
enum { PROMPTS = 24, TEXT_BYTES = 4000, PROMPT_BYTES = 2000, SAMPLE_BYTES = 220 << 10, BARS = 24 };

static bool same(rt_span a, rt_span b) { return a.len == b.len && memcmp(a.data, b.data, a.len) == 0; }

/* ---- which samples ---- */

/* The first that a run has of this prompt, or the last up to the model that was saved; of two of one step the later.
 */
static const rt_report_sample *find(const rt_report_run *r, rt_span prompt, bool teacher, bool last)
{
    const rt_report_sample *found = NULL;
    for (uint32_t i = 0; i < r->sample_count; i++) {
        const rt_report_sample *s = &r->samples[i];
        if (s->teacher != teacher || s->step > r->saved || !same(s->prompt, prompt)) continue;
        if (!found || (last ? s->step >= found->step : s->step < found->step)) found = s;
    }
    return found;
}

/* Prompts in the order of their first appearance; returns how many there are, also beyond most. */
static uint32_t list_prompts(const rt_report_page *p, rt_span *out, uint32_t most)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < p->count; i++)
        for (uint32_t k = 0; k < p->runs[i]->sample_count; k++) {
            rt_span prompt = p->runs[i]->samples[k].prompt;
            bool known = false;
            for (uint32_t j = 0; j < count && j < most && !known; j++) known = same(out[j], prompt);
            if (known) continue;
            if (count == most) return most + 1;
            out[count++] = prompt;
        }
    return count;
}

/* ---- cells ---- */

static void put_cell(rt_report_page *p, const char *who, const char *colour, const rt_report_sample *v, size_t max)
{
    rt_str *s = &p->out;
    rt_str_append(s, "<div class=\"cell\"><h4>");
    if (colour) rt_str_printf(s, "<i class=\"chip %s\"></i>", colour);
    rt_html_text(s, who);
    if (!v->teacher) rt_str_printf(s, " <span class=\"quiet\">step %u</span>", v->step);
    rt_str_printf(s, "<span class=\"stop\">%s</span></h4><p class=\"text\">",
                  v->stopped ? "stopped by itself" : "reached --sample-tokens");
    rt_html_limited(s, v->text.data, v->text.len, max);
    rt_str_append(s, v->text.len ? "</p></div>\n" : "<span class=\"none\">(nothing)</span></p></div>\n");
}

static bool teacher_said_before(const rt_report_page *p, uint32_t run, const rt_report_sample *t)
{
    for (uint32_t i = 0; i < run; i++) {
        const rt_report_sample *other = find(p->runs[i], t->prompt, true, true);
        if (other && same(other->text, t->text)) return true;
    }
    return false;
}

static void put_prompt(rt_report_page *p, rt_span prompt, size_t max)
{
    rt_str *s = &p->out;
    char colour[16];
    rt_str_append(s, "<article class=\"sample\"><p class=\"prompt\">");
    rt_html_limited(s, prompt.data, prompt.len, max < PROMPT_BYTES ? max : PROMPT_BYTES);
    rt_str_append(s, "</p><div class=\"cells\">\n");
    for (uint32_t i = 0; i < p->count; i++) {
        const rt_report_sample *first = find(p->runs[i], prompt, false, false),
                               *last = find(p->runs[i], prompt, false, true);
        snprintf(colour, sizeof colour, "c%u", i % 8);
        if (p->count == 1 && first && first->step != last->step) put_cell(p, "Student before", NULL, first, max);
        if (last)
            put_cell(p,
                     p->count > 1 ? p->runs[i]->name
                     : last->step ? "Student after"
                                  : "Student before",
                     p->count > 1 ? colour : NULL, last, max);
    }
    for (uint32_t i = 0; i < p->count; i++) {
        const rt_report_sample *t = find(p->runs[i], prompt, true, true);
        if (t && !teacher_said_before(p, i, t)) put_cell(p, "Teacher", NULL, t, max);
    }
    rt_str_append(s, "</div></article>\n");
}

void rt_report_put_samples(rt_report_page *p)
{
    rt_str *s = &p->out;
    rt_span prompts[PROMPTS];
    uint32_t all = list_prompts(p, prompts, PROMPTS), count = all < PROMPTS ? all : PROMPTS;
    if (!count) return;
    size_t max = SAMPLE_BYTES / (count * (size_t)(p->count + 3));
    if (max > TEXT_BYTES) max = TEXT_BYTES;
    rt_str_append(s, "<section id=\"samples\">\n<h2>Samples</h2>\n<p class=\"note\">The prompt, then what each model "
                     "wrote after it.");
    if (all > count) rt_str_printf(s, " The first %u prompts are shown.", count);
    rt_str_append(s, "</p>\n");
    for (uint32_t i = 0; i < count; i++) put_prompt(p, prompts[i], max);
    rt_str_append(s, "</section>\n");
}

/* ---- bars ---- */

/* Share of the width, from 0 to 1. On a logarithmic scale the least value still has a tenth. */
static double bar_share(double v, double least, double most, bool log)
{
    if (!(v > 0) || !(most > 0)) return 0;
    if (!log || least >= most) return v / most;
    return 0.1 + 0.9 * (log10(v) - log10(least)) / (log10(most) - log10(least));
}

/* A bar that is named like a run has its colour; the others are grey, or all alike where there is none. */
static const char *bar_colour(const rt_report_page *p, const json_t *bars, size_t i)
{
    static const char *const colours[8] = { "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7" };
    bool any = false;
    for (size_t k = 0; k < json_array_size(bars); k++) {
        const char *label = json_string_value(json_object_get(json_array_get(bars, k), "label"));
        for (uint32_t r = 0; label && r < p->count; r++) {
            if (strcmp(label, p->runs[r]->name) != 0) continue;
            any = true;
            if (k == i) return colours[r % 8];
        }
    }
    return any ? "c7" : "c0";
}

static void put_picture(rt_report_page *p, const json_t *picture)
{
    rt_str *s = &p->out;
    const json_t *bars = json_object_get(picture, "bars"), *note = json_object_get(picture, "note");
    size_t count = json_array_size(bars);
    bool log = json_is_true(json_object_get(picture, "log"));
    double least = INFINITY, most = 0;
    if (count > BARS) count = BARS;
    for (size_t i = 0; i < count; i++) {
        double v = json_number_value(json_object_get(json_array_get(bars, i), "value"));
        if (v > 0 && v < least) least = v;
        if (v > most) most = v;
    }
    rt_str_append(s, "<figure class=\"panel bars\"><figcaption><h3>");
    rt_html_value(s, json_object_get(picture, "title"));
    rt_str_append(s, "</h3>");
    if (note || log) {
        rt_str_append(s, "<p class=\"note\">");
        if (note) rt_html_value(s, note);
        if (log) rt_str_append(s, note ? " Logarithmic scale." : "Logarithmic scale.");
        rt_str_append(s, "</p>");
    }
    rt_str_append(s, "</figcaption><dl>\n");
    for (size_t i = 0; i < count; i++) {
        const json_t *bar = json_array_get(bars, i);
        double v = json_number_value(json_object_get(bar, "value"));
        rt_str_append(s, "<dt>");
        rt_html_value(s, json_object_get(bar, "label"));
        rt_str_printf(s, "</dt><dd><i class=\"bar %s\" style=\"--share:%.4f\"></i><span>%.3g</span></dd>\n",
                      bar_colour(p, bars, i), bar_share(v, least, most, log), v);
    }
    rt_str_append(s, "</dl></figure>\n");
}

void rt_report_put_bars(rt_report_page *p)
{
    for (uint32_t i = 0; i < p->count; i++)
        for (size_t k = 0; k < json_array_size(p->runs[i]->bars); k++)
            put_picture(p, json_array_get(p->runs[i]->bars, k));
}
