/* report_page.c - the page: report.html with its marks {{NAME}} filled in, and the measures at its top. */
#include "report/report_internal.h"

#include "base/file.h"

#include <limits.h>
#include <math.h>
#include <string.h>

/* report.html, put into the binary by the Makefile. */
extern const char rt_embed_report_html[], rt_embed_report_html_end[];

/* ---- head ---- */

static void put_title(rt_report_page *p)
{
    rt_str *s = &p->out;
    for (uint32_t i = 0; i < p->count && i < 4; i++) {
        if (i) rt_str_append(s, i + 1 == p->count ? " and " : ", ");
        rt_html_text(s, p->runs[i]->name);
    }
    if (p->count > 4) rt_str_printf(s, " and %u more", p->count - 4);
}

static const char *setting_text(const rt_report_run *r, const char *key)
{
    return json_string_value(json_object_get(r->settings, key));
}

/* MODEL,weight=0.3,data=FILE: the name of the model, and of the rest names too. */
static void put_teacher(rt_str *s, const char *spec, const char *before)
{
    const char *options = spec ? strchr(spec, ',') : NULL;
    while (options && strncmp(options, ",weight=", 8) != 0 && strncmp(options, ",data=", 6) != 0)
        options = strchr(options + 1, ',');
    rt_str name = { 0 };
    rt_str_printf(&name, "%.*s", options ? (int)(options - spec) : INT_MAX, spec ? spec : "");
    rt_html_between(s, before, rt_path_base(name.data && !name.failed ? name.data : ""), "</b>");
    rt_str_free(&name);
    for (const char *at = options; at && *at;) { /* ",data=dir/x.jsonl" */
        size_t n = strcspn(at + 1, ",");
        const char *eq = memchr(at + 1, '=', n), *value = eq ? eq + 1 : at + 1;
        rt_str one = { 0 };
        rt_str_printf(&one, "%.*s", (int)(at + 1 + n - value), value);
        rt_str_printf(s, "%s%s", at == options ? " (" : ", ", strncmp(at, ",weight=", 8) == 0 ? "weight " : "");
        rt_html_between(s, "", rt_path_base(one.data && !one.failed ? one.data : ""), at[n + 1] ? "" : ")");
        rt_str_free(&one);
        at += n + 1;
    }
}

/* "teacher -> student": names, not the places where they lay. */
static void put_models(rt_str *s, const rt_report_run *r)
{
    const json_t *teacher = json_object_get(r->settings, "teacher"), *one;
    const char *student = setting_text(r, "student");
    size_t i;
    if (!student) return;
    rt_str_append(s, "<p class=\"models\">");
    if (json_is_string(teacher)) put_teacher(s, json_string_value(teacher), "teacher <b>");
    json_array_foreach((json_t *)(uintptr_t)teacher, i, one)
        put_teacher(s, json_string_value(one), i ? " + <b>" : "teachers <b>");
    if (teacher) rt_str_append(s, " <span aria-hidden=\"true\">&rarr;</span> ");
    rt_html_between(s, "student <b>", rt_path_base(student),
                    teacher ? "</b></p>\n" : "</b>, trained on text alone</p>\n");
}

static void put_state(rt_str *s, const rt_report_run *r)
{
    char at[32], of[32];
    rt_report_facts f = rt_report_run_facts(r);
    rt_html_grouped(at, f.step);
    rt_str_printf(s, "<p class=\"state\"><b class=\"badge %s\">%s</b> ", f.finished ? "done" : "open",
                  f.finished ? "finished" : "not finished");
    if (!f.step && !f.steps)
        rt_str_append(s, "No step was logged.");
    else if (!f.steps)
        rt_str_printf(s, "Step %s; how many were wanted is not recorded.", at);
    else if (f.stopped)
        rt_str_printf(s,
                      "%s of %s steps: --stop-if-worse ended the run, since the last evaluations were worse than "
                      "the best;",
                      at, rt_html_grouped(of, f.steps));
    else if (f.finished)
        rt_str_printf(s, "%s steps,", at);
    else
        rt_str_printf(s, "Step %s of %s: the run %s.", at, rt_html_grouped(of, f.steps),
                      f.going ? "is still going" : "was interrupted; --resume continues it");
    if (f.step) {
        rt_str_append(s, " ");
        rt_html_count(s, f.tokens);
        rt_str_append(s, " tokens in ");
        rt_html_duration(s, f.seconds);
        rt_str_append(s, " of training.");
    }
    if (r->written) {
        rt_str_append(s, " Last line written ");
        rt_html_time(s, r->written);
        rt_str_append(s, ".");
    }
    if (f.cut) rt_str_append(s, " A file ends in the middle of a line; that line is left out.");
    rt_str_append(s, "</p>\n");
}

static void put_head(rt_report_page *p)
{
    rt_str *s = &p->out;
    for (uint32_t i = 0; i < p->count; i++) {
        rt_str_append(s, "<div class=\"run\">");
        if (p->count > 1) {
            rt_str_append(s, "<h2>");
            rt_report_put_run_name(s, p, i);
            rt_str_append(s, "</h2>\n");
        }
        put_models(s, p->runs[i]);
        put_state(s, p->runs[i]);
        rt_str_append(s, "</div>\n");
    }
}

/* ---- held-out measures ---- */

/* label: what a narrow screen shows above the value, where there is no head row. */
static void put_none(rt_str *s, const char *label)
{
    rt_str_printf(s, "<td class=\"none\" data-label=\"%s\">&ndash;</td>", label);
}

static void put_measure(rt_str *s, const char *label, rt_measure m, bool percent)
{
    double k = percent ? 100 : 1;
    if (isnan(m.mean)) {
        put_none(s, label);
        return;
    }
    rt_str_printf(s, "<td data-label=\"%s\">", label);
    rt_str_printf(s, percent ? "%.1f&#8239;%%" : "%.4f", k * m.mean);
    if (!isnan(m.error))
        rt_str_printf(s,
                      percent ? " <span class=\"error\">&plusmn;&#8239;%.1f</span>"
                              : " <span class=\"error\">&plusmn;&#8239;%.4f</span>",
                      k * m.error);
    rt_str_append(s, "</td>");
}

/* good: -1 lower is better, +1 higher is. Only a change of more than two standard errors is called one. */
static void put_change(rt_str *s, rt_measure a, rt_measure b, uint64_t documents, int good, bool percent)
{
    if (isnan(a.mean) || isnan(b.mean)) {
        put_none(s, "change");
        return;
    }
    bool few = documents && documents < RT_DOCUMENTS_LEAST, known = !few && !isnan(a.error) && !isnan(b.error),
         fell = known && rt_measure_fell(a, b), rose = known && rt_measure_rose(a, b);
    bool better = good < 0 ? fell : rose, worse = good < 0 ? rose : fell;
    rt_str_printf(
        s, percent ? "<td data-label=\"change\" class=\"%s\">%+.1f" : "<td data-label=\"change\" class=\"%s\">%+.4f",
        better  ? "better"
        : worse ? "worse"
                : "same",
        (percent ? 100 : 1) * (b.mean - a.mean));
    rt_str_printf(s, " <span class=\"word\">%s</span></td>",
                  fell    ? "fell"
                  : rose  ? "rose"
                  : known ? "not significant"
                  : few   ? "too few documents to tell"
                          : "n/a");
}

static void measure_row(rt_str *s, const rt_report_run *r, const char *name, rt_report_held which, int good,
                        rt_measure teacher)
{
    const rt_report_eval *first = &r->evals[0], *after = rt_report_after(r);
    bool percent = which == RT_HELD_AGREEMENT || which == RT_HELD_STOP_RATE || which == RT_HELD_REPETITION;
    const rt_measure none = { NAN, NAN, 0 };
    rt_measure a = first->value[which], b = after ? after->value[which] : none;
    if (isnan(a.mean) && isnan(b.mean)) return;
    rt_str_printf(s, "<tr><th scope=\"row\">%s</th>", name);
    put_measure(s, "before", a, percent);
    put_measure(s, "after", b, percent);
    put_change(s, a, b, after ? after->documents : 0, good, percent);
    put_measure(s, "teacher", teacher, percent);
    rt_str_append(s, "</tr>\n");
}

static rt_measure perplexity(rt_measure m) { return (rt_measure){ exp(m.mean), exp(m.mean) * m.error, 0 }; }

static void perplexity_row(rt_str *s, const rt_report_run *r, rt_measure teacher)
{
    const rt_report_eval *after = rt_report_after(r);
    const rt_measure none = { NAN, NAN, 0 };
    rt_measure v[3] = { perplexity(r->evals[0].value[RT_HELD_CE]), after ? perplexity(after->value[RT_HELD_CE]) : none,
                        perplexity(teacher) };
    static const char *const labels[3] = { "before", "after", "teacher" };
    rt_str_append(s, "<tr><th scope=\"row\">perplexity</th>");
    for (int i = 0; i < 3; i++) {
        if (i == 2) rt_str_append(s, "<td></td>");
        if (isnan(v[i].mean))
            put_none(s, labels[i]);
        else
            rt_str_printf(s, "<td data-label=\"%s\">%.4g</td>", labels[i], v[i].mean);
    }
    rt_str_append(s, "</tr>\n");
}

static uint32_t best_step(const rt_report_run *r)
{
    uint32_t best = 0;
    bool kl = !isnan(r->evals[r->eval_count - 1].value[RT_HELD_KL].mean);
    rt_report_held which = kl ? RT_HELD_KL : RT_HELD_CE;
    for (uint32_t i = 1; i < r->eval_count; i++)
        if (r->evals[i].value[which].mean < r->evals[best].value[which].mean) best = i;
    return r->evals[best].step;
}

static const json_t *part_named(const json_t *parts, const char *name)
{
    for (size_t i = 0; i < json_array_size(parts); i++) {
        const char *other = json_string_value(json_object_get(json_array_get(parts, i), "name"));
        if (other && strcmp(other, name) == 0) return json_array_get(parts, i);
    }
    return NULL;
}

/* By what the run is judged, of each source or file of the data. */
static void put_parts(rt_str *s, const rt_report_eval *first, const rt_report_eval *after)
{
    bool kl = !isnan(after->value[RT_HELD_KL].mean);
    const char *key = rt_report_held_keys[kl ? RT_HELD_KL : RT_HELD_CE];
    if (json_array_size(after->parts) == 0) return;
    rt_str_printf(s,
                  "<div class=\"scroll\"><table class=\"measures\" id=\"parts\"><thead><tr>"
                  "<th scope=\"col\">%s of</th><th scope=\"col\">before</th><th scope=\"col\">after</th>"
                  "<th scope=\"col\">change</th><th scope=\"col\">documents</th></tr></thead>\n<tbody>\n",
                  kl ? "KL(teacher &#8214; student)" : "cross-entropy");
    for (size_t i = 0; i < json_array_size(after->parts); i++) {
        const json_t *part = json_array_get(after->parts, i);
        const char *name = json_string_value(json_object_get(part, "name"));
        if (!name) continue;
        rt_measure a = rt_report_measure(json_object_get(part_named(first->parts, name), key)),
                   b = rt_report_measure(json_object_get(part, key));
        rt_html_between(s, "<tr><th scope=\"row\">", name, "</th>");
        put_measure(s, "before", a, false);
        put_measure(s, "after", b, false);
        put_change(s, a, b, (uint64_t)json_integer_value(json_object_get(part, "documents")), -1, false);
        rt_str_append(s, "<td data-label=\"documents\">");
        rt_html_value(s, json_object_get(part, "documents"));
        rt_str_append(s, "</td></tr>\n");
    }
    rt_str_append(s, "</tbody></table></div>\n");
}

static bool has_held(const rt_report_run *r) { return r->eval_count > 0; }

static void held_of_run(rt_report_page *p, const rt_report_run *r)
{
    rt_str *s = &p->out;
    const rt_measure none = { NAN, NAN, 0 };
    char a[32], b[32], kl[96] = "KL(teacher &#8214; student)";
    const rt_report_eval *first = &r->evals[0], *after = rt_report_after(r), *last = after ? after : first;
    rt_measure teacher = last->value[RT_HELD_TEACHER_CE];
    rt_str when = { 0 };
    rt_str_append(&when, after ? "step " : "not evaluated again yet");
    if (after) rt_str_append(&when, rt_html_grouped(b, after->step));
    rt_str_printf(s,
                  "<div class=\"scroll\"><table class=\"measures\"><thead><tr><th scope=\"col\">measure</th>"
                  "<th scope=\"col\">before <span class=\"quiet\">step %s</span></th>"
                  "<th scope=\"col\">after <span class=\"quiet\">%s</span></th>"
                  "<th scope=\"col\">change</th><th scope=\"col\">teacher</th></tr></thead>\n<tbody>\n",
                  rt_html_grouped(a, first->step), when.data ? when.data : "");
    s->failed = s->failed || when.failed;
    rt_str_free(&when);
    measure_row(s, r, "cross-entropy", RT_HELD_CE, -1, teacher);
    perplexity_row(s, r, teacher);
    if (last->outcomes)
        snprintf(kl, sizeof kl, "KL(teacher &#8214; student) over %u outcomes, a lower bound", last->outcomes);
    measure_row(s, r, kl, RT_HELD_KL, -1, none);
    /* Often the same: forward KL at temperature 1. */
    if (first->value[RT_HELD_DIVERGENCE].mean != first->value[RT_HELD_KL].mean)
        measure_row(s, r, "divergence that is trained", RT_HELD_DIVERGENCE, -1, none);
    measure_row(s, r, "top-1 agreement", RT_HELD_AGREEMENT, 1, none);
    measure_row(s, r, "stopped by itself", RT_HELD_STOP_RATE, 1, none);
    measure_row(s, r, "repetition", RT_HELD_REPETITION, -1, none);
    rt_str_append(s, "</tbody></table></div>\n");
    if (after) put_parts(s, first, after);
    rt_str_append(s, "<p class=\"note\">");
    rt_html_count(s, last->positions);
    rt_str_append(s, " positions in ");
    rt_html_count(s, last->documents);
    rt_str_printf(s, " held-out documents, the same at every evaluation. Best at step %s.%s</p>\n",
                  rt_html_grouped(a, best_step(r)),
                  r->measured ? " After is the saved model, loaded again from its files." : "");
}

static void put_held(rt_report_page *p)
{
    rt_report_put_section(p, "held-out", "Held out", has_held, held_of_run,
                          "<p class=\"note\">&plusmn; is one standard error over documents. <i>Fell</i> and "
                          "<i>rose</i> mean by more than two of the change, document by document.</p>\n");
}

/* ---- the page ---- */

static void put_thinned(rt_report_page *p)
{
    uint32_t buckets = rt_report_buckets(p->count), longest = 0;
    for (uint32_t i = 0; i < p->count; i++)
        if (p->runs[i]->step_count > longest) longest = p->runs[i]->step_count;
    if (longest <= 3 * buckets) return;
    rt_str_append(&p->out, "<p class=\"note\">");
    rt_html_count(&p->out, longest);
    rt_str_printf(&p->out,
                  " steps are drawn as %u stretches; of each the lowest, the highest and the last value are kept, so "
                  "spikes are as high as they were.</p>\n",
                  buckets);
}

static const struct {
    const char *name;
    void (*put)(rt_report_page *p);
} parts[] = {
    { "title", put_title },
    { "head", put_head },
    { "held", put_held },
    { "bars", rt_report_put_bars },
    { "thinned", put_thinned },
    { "samples", rt_report_put_samples },
    { "verdict", rt_report_put_verdict },
    { "settings", rt_report_put_settings },
    { "manifest", rt_report_put_manifest },
    { "plan", rt_report_put_plan },
    { "data", rt_report_put_data },
};

static int fill(rt_report_page *p, rt_err *e)
{
    const char *at = rt_embed_report_html, *end = rt_embed_report_html_end;
    for (const char *mark; (mark = memmem(at, (size_t)(end - at), "{{", 2)) != NULL;) {
        const char *close = memmem(mark, (size_t)(end - mark), "}}", 2);
        size_t len = close ? (size_t)(close - mark) - 2 : 0, i = 0, count = sizeof parts / sizeof *parts;
        while (i < count && (strlen(parts[i].name) != len || memcmp(parts[i].name, mark + 2, len) != 0)) i++;
        if (!close || i == count)
            return rt_fail(e, RT_INTERNAL, "report.html has a mark that is not known: %.20s", mark);
        rt_str_append_n(&p->out, at, (size_t)(mark - at));
        parts[i].put(p);
        at = close + 2;
    }
    rt_str_append_n(&p->out, at, (size_t)(end - at));
    return p->out.failed ? rt_no_memory(e, "a report") : RT_OK;
}

int rt_report_may_write(const char *out_path, rt_err *e)
{
    static const char mark[] = "content=\"retort report\"";
    enum { HEAD = 1024 };
    rt_map map;
    if (!rt_path_exists(out_path)) return RT_OK;
    int rc = rt_map_open(&map, out_path, e);
    if (rc < 0) return rc;
    bool own = !map.size || memmem(map.data, map.size < HEAD ? map.size : HEAD, mark, sizeof mark - 1);
    rt_map_close(&map);
    return own ? RT_OK
               : rt_fail(e, RT_INVALID, "%s exists and is not a page of retort report; name another --out", out_path);
}

int rt_report_write(const char *out_path, rt_report_run *const *runs, uint32_t count, rt_err *e)
{
    int rc;
    rt_report_page p = { .runs = runs, .count = count };
    if (!count) RT_TRY(rt_fail(e, RT_INVALID, "a report is of one run at least"));
    RT_TRY(fill(&p, e));
    RT_TRY(rt_file_write(out_path, p.out.data, p.out.len, e));
out:
    rt_str_free(&p.out);
    return rc;
}
