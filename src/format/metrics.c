/* metrics.c - see metrics.h. */
#include "format/metrics.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

double rt_change_error(rt_measure a, rt_measure b)
{
    return b.paired > 0 ? b.paired : sqrt(a.error * a.error + b.error * b.error);
}
bool rt_measure_fell(rt_measure a, rt_measure b) { return b.mean < a.mean - 2.0 * rt_change_error(a, b); }
bool rt_measure_rose(rt_measure a, rt_measure b) { return b.mean > a.mean + 2.0 * rt_change_error(a, b); }

rt_measure rt_eval_judged(const rt_eval_result *v) { return v->teacher ? v->kl : v->ce; }

void rt_worse_take(rt_worse *w, rt_measure now)
{
    double error = isnan(w->best.error) ? 0.0 : w->best.error;
    w->in_row = w->count++ && now.mean > w->best.mean + error ? w->in_row + 1 : 0;
    if (w->count == 1 || now.mean < w->best.mean) w->best = now;
}

/* null: not measured */
static json_t *measure_json(rt_measure m)
{
    if (isnan(m.mean)) return json_null();
    json_t *j = json_pack("[f, o]", m.mean, isnan(m.error) ? json_null() : json_real(m.error));
    if (j && m.paired > 0) json_array_append_new(j, json_real(m.paired));
    return j;
}

static json_t *part_json(const rt_eval_part *p, bool teacher)
{
    json_t *j = json_pack("{s:s, s:I, s:I, s:o}", "name", p->name, "positions", (json_int_t)p->positions, "documents",
                          (json_int_t)p->documents, "ce", measure_json(p->ce));
    if (!j || !teacher) return j;
    json_object_set_new(j, "forward_kl", measure_json(p->kl));
    json_object_set_new(j, "agreement", measure_json(p->agreement));
    json_object_set_new(j, "teacher_ce", measure_json(p->teacher_ce));
    return j;
}

json_t *rt_eval_parts_json(const rt_eval_result *v)
{
    json_t *all = json_array();
    for (uint32_t i = 0; all && i < v->part_count; i++) json_array_append_new(all, part_json(&v->parts[i], v->teacher));
    return all;
}

json_t *rt_eval_to_json(uint32_t step, const rt_eval_result *v)
{
    json_t *j = json_pack("{s:s, s:I, s:o, s:I, s:I, s:f}", "event", "eval", "step", (json_int_t)step, "ce",
                          measure_json(v->ce), "positions", (json_int_t)v->positions, "documents",
                          (json_int_t)v->documents, "seconds", v->seconds);
    if (j && v->sampled) {
        json_object_set_new(j, "stop_rate", json_real(v->stop_rate));
        json_object_set_new(j, "repetition_rate", json_real(v->repetition_rate));
    }
    if (j && v->part_count) json_object_set_new(j, "parts", rt_eval_parts_json(v));
    if (!j || !v->teacher) return j;
    json_object_set_new(j, "divergence", measure_json(v->div));
    json_object_set_new(j, "forward_kl", measure_json(v->kl));
    json_object_set_new(j, "agreement", measure_json(v->agreement));
    json_object_set_new(j, "teacher_ce", measure_json(v->teacher_ce));
    if (v->outcomes) json_object_set_new(j, "outcomes", json_integer(v->outcomes));
    return j;
}

static rt_measure measure_from(const json_t *j)
{
    const json_t *error = json_array_get(j, 1);
    if (!json_is_array(j)) return (rt_measure){ NAN, NAN, 0 };
    return (rt_measure){ json_number_value(json_array_get(j, 0)),
                         json_is_number(error) ? json_number_value(error) : NAN,
                         json_number_value(json_array_get(j, 2)) };
}

static void read_parts(rt_eval_result *v, const json_t *all)
{
    for (size_t i = 0; i < json_array_size(all) && v->part_count < RT_EVAL_PARTS; i++) {
        const json_t *j = json_array_get(all, i);
        const char *name = json_string_value(json_object_get(j, "name"));
        rt_eval_part *p = &v->parts[v->part_count++];
        p->positions = (uint64_t)json_integer_value(json_object_get(j, "positions"));
        p->documents = (uint64_t)json_integer_value(json_object_get(j, "documents"));
        p->ce = measure_from(json_object_get(j, "ce"));
        p->kl = measure_from(json_object_get(j, "forward_kl"));
        p->agreement = measure_from(json_object_get(j, "agreement"));
        p->teacher_ce = measure_from(json_object_get(j, "teacher_ce"));
        snprintf(p->name, sizeof p->name, "%s", name ? name : "");
    }
}

rt_eval_result rt_eval_read(const json_t *j)
{
    rt_eval_result v = { .ce = measure_from(json_object_get(j, "ce")),
                         .div = measure_from(json_object_get(j, "divergence")),
                         .kl = measure_from(json_object_get(j, "forward_kl")),
                         .agreement = measure_from(json_object_get(j, "agreement")),
                         .teacher_ce = measure_from(json_object_get(j, "teacher_ce")),
                         .teacher = json_object_get(j, "forward_kl") != NULL,
                         .outcomes = (uint32_t)json_integer_value(json_object_get(j, "outcomes")),
                         .sampled = json_object_get(j, "stop_rate") != NULL,
                         .stop_rate = json_number_value(json_object_get(j, "stop_rate")),
                         .repetition_rate = json_number_value(json_object_get(j, "repetition_rate")),
                         .positions = (uint64_t)json_integer_value(json_object_get(j, "positions")),
                         .documents = (uint64_t)json_integer_value(json_object_get(j, "documents")) };
    read_parts(&v, json_object_get(j, "parts"));
    return v;
}

bool rt_eval_from_line(const json_t *j, rt_eval_result *v)
{
    const char *event = json_string_value(json_object_get(j, "event"));
    if (!event || strcmp(event, "eval") != 0) return false;
    *v = rt_eval_read(j);
    return true;
}
