/* api_preview.c - what a run is going to do with its data, for programs: the preview of job/preview.h as JSON. */
#include "api/api_internal.h"

#include "base/json.h"
#include "job/preview.h"

#include <jansson.h>

static json_t *sample_json(const rt_preview_sample *s)
{
    json_t *pieces = json_array();
    for (uint32_t i = 0; i < s->count; i++)
        if (json_array_append_new(
                pieces, json_pack("{s:b, s:s}", "trained", s->pieces[i].trained, "text", s->pieces[i].text)) != 0) {
            json_decref(pieces);
            return NULL;
        }
    return json_pack("{s:I, s:I, s:I, s:o}", "tokens", (json_int_t)s->tokens, "trained", (json_int_t)s->trained, "left",
                     (json_int_t)s->left, "pieces", pieces);
}

static json_t *samples_json(const rt_preview *p)
{
    json_t *all = json_array();
    for (uint32_t i = 0; i < p->sample_count; i++)
        if (json_array_append_new(all, sample_json(&p->samples[i])) != 0) {
            json_decref(all);
            return NULL;
        }
    return all;
}

static json_t *overlap_json(const rt_preview *p)
{
    const rt_overlap_result *o = &p->overlap;
    if (!p->looked) return json_null();
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:b}", "grams", (json_int_t)o->grams, "shared",
                     (json_int_t)o->shared, "texts", (json_int_t)o->texts, "touched", (json_int_t)o->touched, "one_in",
                     (json_int_t)o->one_in, "rows_read", (json_int_t)p->rows_read, "rows", (json_int_t)p->rows_all,
                     "high", rt_preview_overlap_high(p));
}

static json_t *preview_json(const rt_preview *p)
{
    const rt_rows_count *c = &p->data;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "objective", p->objective,
                     "records", (json_int_t)c->records, "rows", (json_int_t)p->rows, "trained", (json_int_t)c->trained,
                     "masked", (json_int_t)(c->tokens - c->trained), "split", (json_int_t)c->split, "shortened",
                     (json_int_t)c->cut, "dropped", (json_int_t)(c->too_long + c->no_target), "held_rows",
                     (json_int_t)p->held_rows, "held_positions", (json_int_t)p->held_positions, "overlap",
                     overlap_json(p), "samples", samples_json(p));
}

int retort_plan_preview(const retort_plan *p, char **text, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    rt_str out = { 0 };
    rt_preview *v = NULL;
    json_t *j = NULL;
    char *dumped = NULL;
    rt_json_init();
    if (!text) RT_TRY(rt_fail(&e, RT_USAGE, "retort_plan_preview: text is needed"));
    RT_TRY(rt_preview_new(&v, p->known, &e));
    j = preview_json(v);
    dumped = j ? json_dumps(j, JSON_INDENT(2)) : NULL;
    if (!dumped) RT_TRY(rt_fail(&e, RT_NOMEM, "no memory for a preview"));
    rt_str_append(&out, dumped);
    RT_TRY(rt_api_give(&out, text, &e));
out:
    rt_str_free(&out);
    rt_free(dumped);
    json_decref(j);
    rt_preview_free(v);
    return rt_api_end(rc, &e, error);
}
