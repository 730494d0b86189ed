/* eval_tasks.c - `retort eval --tasks`: the table of scores, of one model or of several beside one another. */
#include "base/json.h"
#include "cli/cli.h"
#include "job/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- JSON ---- */

static json_t *real_or_null(double x) { return isnan(x) ? json_null() : json_real(x); }

static json_t *row_json(const rt_task_row *r, uint32_t models)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < models; i++) {
        const rt_task_score *s = &r->scores[i];
        json_t *one = json_pack("{s:f, s:o}", "value", s->value.mean, "stderr", real_or_null(s->value.error));
        if (one && i) {
            json_object_set_new(one, "change", json_real(s->change.mean));
            json_object_set_new(one, "change_stderr", real_or_null(s->change.error));
        }
        json_array_append_new(list, one);
    }
    return json_pack("{s:o, s:I, s:s, s:o}", "task", rt_json_text(r->task), "n", (json_int_t)r->n, "metric",
                     rt_task_metric_name(r->metric), "scores", list);
}

static json_t *models_json(const rt_job_tasked *t)
{
    json_t *list = json_array();
    for (uint32_t i = 0; list && i < t->model_count; i++) {
        const rt_task_model *m = &t->models[i];
        json_array_append_new(list, json_pack("{s:o, s:I, s:I, s:I, s:f}", "model", rt_json_text(m->name), "requests",
                                              (json_int_t)m->requests, "prompt_tokens", (json_int_t)m->prompt_tokens,
                                              "answer_tokens", (json_int_t)m->answer_tokens, "seconds", m->seconds));
    }
    return list;
}

static int print_json(const rt_job_tasked *t, rt_err *e)
{
    json_t *rows = json_array(), *gates = json_array();
    for (uint32_t i = 0; rows && i < t->row_count; i++)
        json_array_append_new(rows, row_json(&t->rows[i], t->model_count));
    for (uint32_t i = 0; gates && i < t->gate_count; i++)
        json_array_append_new(gates, json_pack("{s:s, s:o, s:f, s:b}", "require", t->gates[i].text, "task",
                                               rt_json_text(t->gates[i].row->task), "value",
                                               t->gates[i].row->scores[0].value.mean, "holds", (int)t->gates[i].holds));
    return rt_print_json(json_pack("{s:o, s:o, s:o}", "models", models_json(t), "results", rows, "require", gates), e);
}

/* ---- text ---- */

static void put_error(double x)
{
    if (isnan(x))
        rt_put("  %6s", "-");
    else
        rt_put("  %6.4f", x);
}

/* In bytes: a column of names beyond ASCII is wider than it need be. */
static int name_width(const rt_job_tasked *t)
{
    size_t width = strlen("task");
    for (uint32_t i = 0; i < t->row_count; i++)
        if (strlen(t->rows[i].task) > width) width = strlen(t->rows[i].task);
    return (int)(width < 40 ? width : 40);
}

static void print_one(const rt_job_tasked *t)
{
    const int width = name_width(t);
    rt_put("%-*s  %7s  %-11s  %6s  %6s\n", width, "task", "records", "metric", "value", "stderr");
    for (uint32_t i = 0; i < t->row_count; i++) {
        const rt_task_row *r = &t->rows[i];
        rt_put("%-*s  %7u  %-11s  %6.4f", width, r->task, r->n, rt_task_metric_name(r->metric),
               r->scores[0].value.mean);
        put_error(r->scores[0].value.error);
        rt_put("\n");
    }
}

/* The models of a row below one another: names may be long, and there may be many. */
static void print_several(const rt_job_tasked *t)
{
    for (uint32_t i = 0; i < t->row_count; i++) {
        const rt_task_row *r = &t->rows[i];
        if (!i || strcmp(t->rows[i - 1].task, r->task) != 0) {
            rt_put("%s%s, %u record%s\n", i ? "\n" : "", r->task, r->n, r->n == 1 ? "" : "s");
            rt_put("  %-11s  %6s  %6s  %7s  %6s  model\n", "metric", "value", "stderr", "change", "stderr");
        }
        for (uint32_t k = 0; k < t->model_count; k++) {
            const rt_task_score *s = &r->scores[k];
            rt_put("  %-11s  %6.4f", k ? "" : rt_task_metric_name(r->metric), s->value.mean);
            put_error(s->value.error);
            if (k)
                rt_put("  %+7.4f", s->change.mean);
            else
                rt_put("  %7s  %6s", "", "");
            if (k) put_error(s->change.error);
            rt_put("  %s\n", t->models[k].name);
        }
    }
}

static void print_gates(const rt_job_tasked *t)
{
    for (uint32_t i = 0; i < t->gate_count; i++) {
        const rt_task_gate *g = &t->gates[i];
        rt_put("%s%s: %s, %.4f in %s\n", i ? "" : "\n", g->text, g->holds ? "met" : "NOT met",
               g->row->scores[0].value.mean, g->row->task);
    }
}

static void print_text(const rt_job_tasked *t)
{
    uint64_t tokens = 0;
    double seconds = 0;
    if (t->model_count == 1)
        print_one(t);
    else
        print_several(t);
    print_gates(t);
    for (uint32_t i = 0; i < t->model_count; i++) {
        tokens += t->models[i].prompt_tokens + t->models[i].answer_tokens;
        seconds += t->models[i].seconds;
    }
    rt_put_to(stderr, "%llu requests%s, %llu tokens in %.1f s\n", (unsigned long long)t->models[0].requests,
              t->model_count > 1 ? " of each model" : "", (unsigned long long)tokens, seconds);
}

int rt_tasks_command(const rt_job_evaluate_opts *o, const rt_tasks_flags *t, bool json, rt_err *e)
{
    int rc = RT_OK;
    rt_settings where = { .threads = o->threads };
    rt_job_env env = rt_cli_env(0);
    rt_job_tasked made = { 0 };
    const char *models[RT_MAX_WORDS + 1] = { o->model };
    memcpy(models + 1, t->beside.text, t->beside.count * sizeof *models);
    const rt_job_tasks_opts to = { .models = models,
                                   .files = t->files.text,
                                   .require = t->require.text,
                                   .vars = o->template_vars,
                                   .model_count = t->beside.count + 1,
                                   .file_count = t->files.count,
                                   .require_count = t->require.count,
                                   .var_count = o->var_count,
                                   .base = o->base,
                                   .details = t->details,
                                   .chat = t->chat,
                                   .slots = t->slots,
                                   .where = &where,
                                   .env = &env,
                                   .progress = rt_live_progress };
    if (o->device) RT_TRY(rt_settings_set(&where, RT_SETTING_ID_device, o->device, e));
    rt_interrupt_catch();
    rt_live_begin(stderr);
    rc = rt_job_tasks(&made, &to, e);
    rt_live_end();
    RT_TRY(rc);
    if (json)
        RT_TRY(print_json(&made, e));
    else
        print_text(&made);
    RT_TRY(rt_job_tasked_check(&made, e));
out:
    rt_job_tasked_free(&made);
    return rc;
}
