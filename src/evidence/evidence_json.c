/* evidence_json.c - the facts of a run and the findings on them, as JSON and back. See evidence.h. */
#include "evidence/evidence.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

json_t *rt_json_complete(json_t *list, size_t count)
{
    if (json_array_size(list) == count) return list;
    json_decref(list);
    return NULL;
}

json_t *rt_findings_to_json(const rt_findings *f)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < f->count; i++) {
        const rt_finding *k = &f->list[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "id", k->id, "claim", k->claim, "measured",
                                              k->measured, "verdict", rt_verdict_name(k->verdict)));
    }
    return json_pack("{s:o}", "falsifiers", rt_json_complete(list, f->count));
}

static json_t *groups_to_json(const rt_moved_list *l)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < l->count; i++) {
        const rt_moved_group *g = &l->list[i];
        json_array_append_new(list,
                              json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "name", g->name, "trained",
                                        (json_int_t)g->trained, "moved", (json_int_t)g->moved, "frozen",
                                        (json_int_t)g->frozen, "broken", (json_int_t)g->broken, "change", g->change));
    }
    return rt_json_complete(list, l->count);
}

json_t *rt_evidence_to_json(const rt_evidence *v)
{
    const rt_output_difference *d = &v->difference;
    json_t *saved = rt_eval_to_json(v->saved_step, &v->saved), *groups = groups_to_json(&v->moved);
    if (!saved || !groups) {
        json_decref(saved);
        json_decref(groups);
        return NULL;
    }
    json_object_del(saved, "event");
    json_t *j =
        json_pack("{s:I, s:o, s:{s:b, s:I, s:I}, s:o, s:{s:I, s:I, s:I}, s:{s:I, s:I}, s:{s:s, s:I, s:I, s:I, s:I, "
                  "s:f, s:f, s:s}}",
                  "steps", (json_int_t)v->steps, "saved", saved, "vocabulary", "measured", v->vocab_measured, "common",
                  (json_int_t)v->vocab_common, "special", (json_int_t)v->vocab_special, "groups", groups, "rows",
                  "rows", (json_int_t)v->data.rows, "tokens", (json_int_t)v->data.tokens, "trained",
                  (json_int_t)v->data.trained, "memory", "planned", (json_int_t)v->planned, "held", (json_int_t)v->held,
                  "output", "dtype", rt_dtype_name(v->saved_dtype), "values", (json_int_t)v->output_values, "wanted",
                  (json_int_t)v->wanted_values, "compared", (json_int_t)d->values, "unequal", (json_int_t)d->unequal,
                  "rms", d->rmse, "max", d->max, "worst", d->worst);
    bool kept = j != NULL;
    json_t *memory = json_object_get(j, "memory");
    if (kept && v->own)
        kept = json_object_set_new(memory, "code", json_integer((json_int_t)v->code)) == 0 &&
               json_object_set_new(memory, "own", json_integer((json_int_t)v->own)) == 0;
    if (kept && v->stopped_of)
        kept = json_object_set_new(
                   j, "stopped", json_pack("{s:s, s:I}", "why", "stop_if_worse", "of", (json_int_t)v->stopped_of)) == 0;
    if (kept) return j;
    json_decref(j);
    return NULL;
}

/* ---- back ---- */

static int groups_from_json(rt_moved_list *l, const json_t *j, rt_err *e)
{
    *l = (rt_moved_list){ 0 };
    if (!json_is_array(j) || json_array_size(j) > RT_MOVED_GROUPS) goto bad;
    for (size_t i = 0; i < json_array_size(j); i++) {
        rt_moved_group *g = &l->list[l->count++];
        json_int_t trained = 0, moved = 0, frozen = 0, broken = 0;
        const char *name = NULL;
        if (json_unpack(json_array_get(j, i), "{s:s, s:I, s:I, s:I, s:I, s:F}", "name", &name, "trained", &trained,
                        "moved", &moved, "frozen", &frozen, "broken", &broken, "change", &g->change) != 0 ||
            strlen(name) >= sizeof g->name)
            goto bad;
        snprintf(g->name, sizeof g->name, "%s", name);
        g->trained = (uint32_t)trained;
        g->moved = (uint32_t)moved;
        g->frozen = (uint32_t)frozen;
        g->broken = (uint32_t)broken;
    }
    return RT_OK;
bad:
    return rt_fail(e, RT_FORMAT, "manifest.json: the groups of parameters are not what a run writes");
}

static int output_from_json(rt_evidence *v, const json_t *j, rt_err *e)
{
    rt_output_difference *d = &v->difference;
    json_int_t values = 0, wanted = 0, compared = 0, unequal = 0;
    const char *dtype = NULL, *worst = NULL;
    if (json_unpack((json_t *)(uintptr_t)j, "{s:s, s:I, s:I, s:I, s:I, s:F, s:F, s:s}", "dtype", &dtype, "values",
                    &values, "wanted", &wanted, "compared", &compared, "unequal", &unequal, "rms", &d->rmse, "max",
                    &d->max, "worst", &worst) != 0 ||
        !rt_dtype_parse(dtype, &v->saved_dtype) || strlen(worst) >= sizeof d->worst)
        return rt_fail(e, RT_FORMAT, "manifest.json: what it says of the output is not what a run writes");
    memcpy(d->worst, worst, strlen(worst) + 1);
    v->output_values = (uint64_t)values;
    v->wanted_values = (uint64_t)wanted;
    d->values = (uint64_t)compared;
    d->unequal = (uint64_t)unequal;
    return RT_OK;
}

int rt_evidence_from_json(rt_evidence *v, const json_t *j, rt_err *e)
{
    int rc, measured = 0;
    json_int_t steps = 0, at = 0, common = 0, special = 0, rows = 0, tokens = 0, trained = 0, planned = 0, held = 0;
    json_t *saved = NULL, *groups = NULL, *output = NULL;
    (void)rt_json_out_of_memory();
    if (json_unpack((json_t *)(uintptr_t)j, "{s:I, s:o, s:{s:b, s:I, s:I}, s:o, s:{s:I, s:I, s:I}, s:{s:I, s:I}, s:o}",
                    "steps", &steps, "saved", &saved, "vocabulary", "measured", &measured, "common", &common, "special",
                    &special, "groups", &groups, "rows", "rows", &rows, "tokens", &tokens, "trained", &trained,
                    "memory", "planned", &planned, "held", &held, "output", &output) != 0 ||
        json_unpack(saved, "{s:I}", "step", &at) != 0)
        RT_TRY(rt_fail(e, RT_FORMAT, "manifest.json: what was measured is not what a run writes"));
    v->steps = (uint32_t)steps;
    v->stopped_of = (uint32_t)rt_line_count(json_object_get(j, "stopped"), "of");
    v->saved_step = (uint32_t)at;
    v->saved = rt_eval_read(saved);
    v->vocab_measured = measured != 0;
    v->vocab_common = (uint32_t)common;
    v->vocab_special = (uint32_t)special;
    v->data = (rt_row_totals){ (uint64_t)rows, (uint64_t)tokens, (uint64_t)trained };
    v->planned = (uint64_t)planned;
    v->held = (uint64_t)held;
    v->code = rt_line_count(json_object_get(j, "memory"), "code");
    v->own = rt_line_count(json_object_get(j, "memory"), "own");
    RT_TRY(groups_from_json(&v->moved, groups, e));
    RT_TRY(output_from_json(v, output, e));
out:
    /* unpacking takes memory, and jansson does not tell that from a wrong kind */
    if (rc == RT_FORMAT && rt_json_out_of_memory()) rc = rt_no_memory(e, "a manifest");
    return rc;
}

/* ---- from the other files ---- */

uint64_t rt_line_count(const json_t *line, const char *key)
{
    json_int_t n = json_integer_value(json_object_get(line, key));
    return n > 0 ? (uint64_t)n : 0;
}

void rt_evidence_take_line(rt_evidence *v, const json_t *line)
{
    rt_eval_result r;
    uint64_t step = rt_line_count(line, "step");
    const char *event = json_string_value(json_object_get(line, "event"));
    if (event && strcmp(event, "step") == 0) {
        v->lines.rows += rt_line_count(line, "rows");
        v->lines.tokens += rt_line_count(line, "tokens");
        v->lines.trained += rt_line_count(line, "trained");
    }
    if (!rt_eval_from_line(line, &r)) return;
    if (step == 0) v->first = r;
    v->has_first = v->has_first || step == 0;
    if (step == v->saved_step) v->logged = r;
    v->has_logged = v->has_logged || step == v->saved_step;
}
