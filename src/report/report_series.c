/* report_series.c - the curves as numbers for the page's script, thinned where there are more than a screen can show.
 *
 * Every stretch of a long curve keeps its lowest, its highest and its last value, each at its own step, so that a spike
 * of one step in ten thousand is still drawn, and as high as it was. */
#include "report/report_internal.h"

#include <inttypes.h>
#include <math.h>

/* Points of one curve, and of all curves together, which bounds the page. */
enum { CURVE_POINTS = 1200, PAGE_POINTS = 36000, LEAST_BUCKETS = 20, KNOTS = 256 };

#define X(id, key) #key,
const char *const rt_report_series_keys[] = { RT_REPORT_SERIES_LIST(X) };
const char *const rt_report_held_keys[] = { RT_REPORT_HELD_LIST(X) };
#undef X

uint32_t rt_report_buckets(uint32_t runs)
{
    uint32_t points = PAGE_POINTS / RT_SERIES_COUNT / (runs ? runs : 1);
    if (points > CURVE_POINTS) points = CURVE_POINTS;
    return points / 3 > LEAST_BUCKETS ? points / 3 : LEAST_BUCKETS;
}

static uint32_t bucket_begin(uint32_t n, uint32_t b, uint32_t buckets) { return (uint32_t)((uint64_t)n * b / buckets); }

static double at(const double *v, size_t stride, uint32_t i) { return *(const double *)((const char *)v + stride * i); }

uint32_t rt_report_thin(const double *v, size_t stride, uint32_t n, uint32_t buckets, uint32_t *keep)
{
    uint32_t kept = 0;
    bool all = n <= 3 * (uint64_t)buckets;
    for (uint32_t b = 0, count = all ? n : buckets; b < count; b++) {
        uint32_t begin = all ? b : bucket_begin(n, b, count);
        uint32_t end = all ? b + 1 : bucket_begin(n, b + 1, count);
        uint32_t low = end, high = end, last = end;
        for (uint32_t i = begin; i < end; i++) {
            double x = at(v, stride, i);
            if (!isfinite(x)) continue;
            if (low == end || x < at(v, stride, low)) low = i;
            if (high == end || x > at(v, stride, high)) high = i;
            last = i;
        }
        if (last == end) continue;
        /* The last comes after both, or is one of them. */
        uint32_t early = low < high ? low : high, late = low < high ? high : low;
        keep[kept++] = early;
        if (late != early) keep[kept++] = late;
        if (last != late) keep[kept++] = last;
    }
    return kept;
}

/* JSON has no NaN; six digits are more than a screen shows. */
static void put_number(rt_str *s, double v)
{
    if (isfinite(v))
        rt_str_printf(s, "%.6g", v);
    else
        rt_str_append(s, "null");
}

static void put_series(rt_str *s, const rt_report_run *r, rt_report_series which, const uint32_t *keep, uint32_t kept)
{
    rt_str_append(s, "[[");
    for (uint32_t i = 0; i < kept; i++) rt_str_printf(s, "%s%u", i ? "," : "", r->steps[keep[i]].step);
    rt_str_append(s, "],[");
    for (uint32_t i = 0; i < kept; i++) {
        if (i) rt_str_append(s, ",");
        put_number(s, r->steps[keep[i]].value[which]);
    }
    rt_str_append(s, "]");
}

/* The mean of every stretch, at its middle, for the smooth line: extremes would pull it. */
static void put_means(rt_str *s, const rt_report_run *r, rt_report_series which, uint32_t buckets)
{
    rt_str xs = { 0 }, ys = { 0 };
    for (uint32_t b = 0; b < buckets; b++) {
        uint32_t begin = bucket_begin(r->step_count, b, buckets), end = bucket_begin(r->step_count, b + 1, buckets);
        double sum = 0;
        uint32_t n = 0;
        for (uint32_t i = begin; i < end; i++) {
            if (!isfinite(r->steps[i].value[which])) continue;
            sum += r->steps[i].value[which];
            n++;
        }
        if (!n) continue;
        rt_str_printf(&xs, "%s%u", xs.len ? "," : "", r->steps[begin + (end - begin) / 2].step);
        if (ys.len) rt_str_append(&ys, ",");
        put_number(&ys, sum / n);
    }
    if (xs.failed || ys.failed) s->failed = true;
    rt_str_printf(s, ",[%s],[%s]", xs.data ? xs.data : "", ys.data ? ys.data : "");
    rt_str_free(&xs);
    rt_str_free(&ys);
}

/* Tokens and seconds at some steps: the script draws straight lines between them to put a step on another axis. */
static void put_knots(rt_str *s, const rt_report_run *r)
{
    uint32_t n = r->step_count, count = n < KNOTS ? n : KNOTS;
    rt_str_append(s, "\"knots\":[[0,0,0]");
    for (uint32_t k = 0; k < count; k++) {
        const rt_report_step *p = &r->steps[count > 1 ? (uint32_t)((uint64_t)k * (n - 1) / (count - 1)) : 0];
        rt_str_printf(s, ",[%u,%" PRIu64 ",%.6g]", p->step, p->tokens, p->seconds);
    }
    rt_str_append(s, "]");
}

static void put_held(rt_str *s, const rt_report_run *r)
{
    bool any = false;
    rt_str_append(s, "\"held\":{");
    for (int h = 0; h < RT_HELD_COUNT; h++) {
        bool first = true;
        for (uint32_t i = 0; i < r->eval_count; i++) {
            rt_measure m = r->evals[i].value[h];
            if (!isfinite(m.mean)) continue;
            if (first) rt_str_printf(s, "%s\"%s\":[", any ? "," : "", rt_report_held_keys[h]);
            rt_str_printf(s, "%s[%u,", first ? "" : ",", r->evals[i].step);
            put_number(s, m.mean);
            rt_str_append(s, ",");
            put_number(s, m.error);
            rt_str_append(s, "]");
            first = false;
            any = true;
        }
        if (!first) rt_str_append(s, "]");
    }
    rt_str_append(s, "}");
}

static void put_run(rt_report_page *p, const rt_report_run *r, uint32_t *keep)
{
    rt_str *s = &p->out;
    uint32_t buckets = rt_report_buckets(p->count);
    bool any = false, thinned = r->step_count > 3 * (uint64_t)buckets;
    rt_str_append(s, "{\"name\":");
    rt_html_json_string(s, r->name);
    rt_str_append(s, ",");
    put_knots(s, r);
    rt_str_append(s, ",");
    put_held(s, r);
    rt_str_append(s, ",\"train\":{");
    for (int i = 0; i < RT_SERIES_COUNT && r->step_count; i++) {
        uint32_t kept = rt_report_thin(&r->steps[0].value[i], sizeof *r->steps, r->step_count, buckets, keep);
        if (!kept) continue;
        rt_str_printf(s, "%s\"%s\":", any ? "," : "", rt_report_series_keys[i]);
        put_series(s, r, (rt_report_series)i, keep, kept);
        if (thinned) put_means(s, r, (rt_report_series)i, buckets);
        rt_str_append(s, "]");
        any = true;
    }
    rt_str_append(s, "}}");
}

void rt_report_put_data(rt_report_page *p)
{
    rt_str *s = &p->out;
    uint32_t *keep = rt_alloc(3 * (size_t)rt_report_buckets(p->count) * sizeof *keep, 16);
    if (!keep) {
        s->failed = true;
        return;
    }
    rt_str_append(s, "{\"runs\":[");
    for (uint32_t i = 0; i < p->count; i++) {
        if (i) rt_str_append(s, ",\n");
        put_run(p, p->runs[i], keep);
    }
    rt_str_append(s, "]}");
    rt_free(keep);
}
