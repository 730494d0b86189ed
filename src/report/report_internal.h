/* report_internal.h - shared by the files of the report: report_data.c (reading a run), report_series.c (curves),
 * report_page.c (the page and its measures), report_tables.c (settings, verdict), report_samples.c (texts, bars),
 * report_text.c (escaping). */
#ifndef RT_REPORT_REPORT_INTERNAL_H
#define RT_REPORT_REPORT_INTERNAL_H

#include "base/mem.h"
#include "base/str.h"
#include "report/report.h"

#include <jansson.h>
#include <stdio.h>

/* The curves of training, and the key that each has in metrics.jsonl ("speed" is worked out). */
#define RT_REPORT_SERIES_LIST(X)                                                                                       \
    X(LOSS, loss)                                                                                                      \
    X(CE, ce)                                                                                                          \
    X(DIVERGENCE, divergence)                                                                                          \
    X(AGREEMENT, agreement)                                                                                            \
    X(LR, lr)                                                                                                          \
    X(GRAD_NORM, grad_norm)                                                                                            \
    X(SPEED, speed)
typedef enum rt_report_series {
#define X(id, key) RT_SERIES_##id,
    RT_REPORT_SERIES_LIST(X)
#undef X
        RT_SERIES_COUNT
} rt_report_series;

/* The same of evaluations; each is [mean, error] or a number. */
#define RT_REPORT_HELD_LIST(X)                                                                                         \
    X(CE, ce)                                                                                                          \
    X(KL, forward_kl)                                                                                                  \
    X(DIVERGENCE, divergence)                                                                                          \
    X(AGREEMENT, agreement)                                                                                            \
    X(TEACHER_CE, teacher_ce)                                                                                          \
    X(STOP_RATE, stop_rate)                                                                                            \
    X(REPETITION, repetition_rate)
typedef enum rt_report_held {
#define X(id, key) RT_HELD_##id,
    RT_REPORT_HELD_LIST(X)
#undef X
        RT_HELD_COUNT
} rt_report_held;

typedef struct rt_report_step {
    uint32_t step;
    uint64_t tokens;               /* so far */
    double seconds;                /* so far */
    double value[RT_SERIES_COUNT]; /* NaN: not there */
} rt_report_step;

typedef struct rt_report_eval {
    uint32_t step;
    uint64_t positions, documents;
    uint32_t outcomes;               /* that KL is over; 0: all */
    rt_measure value[RT_HELD_COUNT]; /* mean NaN: not there */
    json_t *parts;                   /* the same measures of each part of the data; or null */
} rt_report_eval;

typedef struct rt_report_sample {
    uint32_t step;
    bool teacher, stopped;
    rt_span prompt, text;
} rt_report_sample;

struct rt_report_run {
    rt_arena arena;
    const char *name, *folder;
    rt_report_step *steps;
    rt_report_eval *evals;
    rt_report_sample *samples;
    uint32_t step_count, step_cap, eval_count, eval_cap, sample_count, sample_cap;
    uint32_t wanted;    /* steps; 0: not known */
    uint32_t saved;     /* step of the model that a run left which has ended; UINT32_MAX: still going */
    uint32_t after;     /* the last evaluation up to that step */
    bool measured;      /* that model was loaded again from its files and measured: */
    rt_report_eval end; /* what was found */
    json_t *settings, *manifest, *verdict, *bars;
    rt_str plan;
    bool cut;
    int64_t written; /* when metrics.jsonl was, seconds since 1970; 0: there is none */
};

typedef struct rt_report_page {
    rt_report_run *const *runs;
    uint32_t count;
    rt_str out;
} rt_report_page;

/* ---- report_data.c ---- */
/* What a run came to: its model as it was saved, else the last evaluation up to that; null: none since the first. */
const rt_report_eval *rt_report_after(const rt_report_run *r);
rt_measure rt_report_measure(const json_t *v); /* mean NaN: not there */

/* ---- report_text.c ---- */
/* Appends text as HTML or as a JSON string that may stand inside <script>; what is no UTF-8 becomes U+FFFD, and control
 * characters are shown. */
void rt_html_text(rt_str *s, const char *text); /* null: nothing */
/* The same between two pieces of HTML. */
void rt_html_between(rt_str *s, const char *before, const char *text, const char *after);
void rt_html_json_string(rt_str *s, const char *text);
/* The same, but at most max bytes of it, with a remark when there were more. */
void rt_html_limited(rt_str *s, const char *text, size_t len, size_t max);
/* Any JSON value in one line, without quotes, brackets and braces; a dash for null and for nothing. */
void rt_html_value(rt_str *s, const json_t *v);
/* "1,234,567"; "3 min 20 s"; "2026-02-03 04:05 UTC". */
void rt_html_count(rt_str *s, uint64_t n);
char *rt_html_grouped(char *buf, uint64_t n); /* the same into 32 bytes; returns buf */
void rt_html_duration(rt_str *s, double seconds);
void rt_html_time(rt_str *s, int64_t unix_time);

/* ---- report_series.c ---- */
extern const char *const rt_report_series_keys[RT_SERIES_COUNT], *const rt_report_held_keys[RT_HELD_COUNT];
/* The object that the page's script draws from. */
void rt_report_put_data(rt_report_page *p);
/* Bucketing, for curves with more points than a screen has columns: of every stretch the lowest, the highest and the
 * last value stay, in order. Writes the chosen places of v (n), NaN left out, to keep (3 per bucket, n at most) and
 * returns how many. */
uint32_t rt_report_thin(const double *v, size_t stride, uint32_t n, uint32_t buckets, uint32_t *keep);
/* How many stretches a curve gets when so many runs are drawn. */
uint32_t rt_report_buckets(uint32_t runs);

/* ---- report_tables.c ---- */
void rt_report_put_settings(rt_report_page *p);
void rt_report_put_verdict(rt_report_page *p);
void rt_report_put_manifest(rt_report_page *p);
void rt_report_put_plan(rt_report_page *p);
/* The chip with a run's colour and its name. */
void rt_report_put_run_name(rt_str *s, const rt_report_page *p, uint32_t i);
/* A section with a part for each run that has one, under the run's name where there are several, then its end; where no
 * run has one, nothing. */
void rt_report_put_section(rt_report_page *p, const char *id, const char *title, bool (*has)(const rt_report_run *r),
                           void (*part)(rt_report_page *p, const rt_report_run *r), const char *end);

/* ---- report_samples.c ---- */
void rt_report_put_samples(rt_report_page *p);
void rt_report_put_bars(rt_report_page *p);

#endif
