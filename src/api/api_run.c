/* api_run.c - a run: settings to an open run, its events to the caller's, trained or only planned. */
#include "api/api_internal.h"
#include "job/device.h"

#include <jansson.h>
#include <string.h>

/* ---- events ---- */

static void on_note(void *ctx, const char *text)
{
    const retort_plan *p = ctx;
    if (p->user.note) p->user.note(p->user.ctx, text);
}

static void on_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    const retort_plan *p = ctx;
    if (p->user.progress) p->user.progress(p->user.ctx, what, done, total);
}

static void on_ready(void *ctx, const rt_run *r)
{
    retort_plan *p = ctx;
    p->known = r;
    if (p->user.ready) p->user.ready(p->user.ctx, p);
}

static void on_step(void *ctx, const rt_run_line *l)
{
    const retort_plan *p = ctx;
    if (!p->user.step) return;
    const retort_step s = { .step = l->step,
                            .steps = l->steps,
                            .loss = l->result.loss,
                            .cross_entropy = l->result.ce,
                            .divergence = l->result.div,
                            .agreement = l->result.agreement,
                            .grad_norm = l->result.grad_norm,
                            .clip = l->result.clip,
                            .lr = l->lr,
                            .tokens_per_second = l->tokens_per_second,
                            .teacher_share = l->teacher_share,
                            .seconds = l->seconds,
                            .remaining = l->remaining,
                            .trained = l->result.trained,
                            .memory = l->memory };
    p->user.step(p->user.ctx, &s);
}

static void on_evaluated(void *ctx, uint32_t step, const rt_eval_result *v, bool best)
{
    const retort_plan *p = ctx;
    if (!p->user.evaluated) return;
    const retort_evaluation out = rt_api_evaluation(v);
    p->user.evaluated(p->user.ctx, step, &out, best);
}

static void on_saved(void *ctx, const char *path)
{
    const retort_plan *p = ctx;
    if (p->user.saved) p->user.saved(p->user.ctx, path);
}

static bool on_stop(void *ctx)
{
    const retort_plan *p = ctx;
    return p->user.stop && p->user.stop(p->user.ctx) != 0;
}

/* ---- opening ---- */

/* A resumed run stays on its device, unless another one is named now. A file that cannot be read is told of when the
 * run is opened. */
static const char *device_of(retort_plan *p)
{
    const rt_settings *s = &p->settings;
    rt_str text = { 0 };
    if (s->given[RT_SETTING_ID_device]) return s->device;
    if (!p->opts.resume || !s->out) return NULL;
    char *path = rt_arena_printf(&p->arena, "%s/run/settings.json", s->out);
    json_t *j = path && rt_file_read(path, 4u << 20, &text, NULL) >= 0
                    ? json_loadb(text.data ? text.data : "", text.len, 0, NULL)
                    : NULL;
    const char *name = json_string_value(json_object_get(j, "device"));
    if (name) name = rt_arena_strdup(&p->arena, name);
    json_decref(j);
    rt_str_free(&text);
    return name;
}

/* Everything but the run itself. */
static int prepare(retort_plan *p, const retort_settings *s, const retort_run_options *given, rt_err *e)
{
    int rc;
    retort_run_options o;
    if (!s) RT_TRY(rt_fail(e, RT_USAGE, "settings are needed"));
    RT_TRY(rt_api_take(&o, sizeof o, given, "retort_run_options", e));
    RT_TRY(rt_api_take(&p->user, sizeof p->user, o.events, "retort_events", e));
    RT_TRY(rt_api_places_copy(&p->places, o.places, &p->arena, e));
    p->settings = s->settings;
    p->events = (rt_run_events){ .note = on_note,
                                 .progress = on_progress,
                                 .ready = on_ready,
                                 .step = on_step,
                                 .evaluated = on_evaluated,
                                 .saved = on_saved,
                                 .stop = on_stop,
                                 .ctx = p };
    p->opts = (rt_run_opts){ .env = &p->places.env,
                             .events = &p->events,
                             .resume = o.resume != 0,
                             .override = o.override_bound != 0,
                             .now = o.now,
                             .version = RETORT_VERSION };
out:
    return rc;
}

static int open_run(retort_plan *p, rt_err *e)
{
    int rc;
    rt_dev_opts o;
    RT_TRY(rt_settings_device(&o, &p->settings, &p->arena, e));
    o.env = p->places.environment;
    RT_TRY(rt_device_open(&p->dev, device_of(p), &o, NULL, e));
    p->opts.dev = p->dev;
    RT_TRY(rt_run_open(&p->run, &p->settings, &p->opts, e));
    p->known = p->run;
out:
    return rc;
}

void retort_plan_free(retort_plan *p)
{
    if (!p) return;
    rt_run_close(p->run);
    if (p->dev) p->dev->api->close(p->dev);
    rt_arena_free(&p->arena);
    rt_free(p);
}

int retort_plan_new(retort_plan **out, const retort_settings *s, const retort_run_options *o, retort_error *error)
{
    int rc;
    rt_err e = { 0 };
    retort_plan *p = rt_alloc_zero(sizeof *p, 16);
    if (!out) RT_TRY(rt_fail(&e, RT_USAGE, "retort_plan_new: out is needed"));
    if (!p) RT_TRY(rt_fail(&e, RT_NOMEM, "no memory for a plan"));
    RT_TRY(prepare(p, s, o, &e));
    if (p->opts.resume) RT_TRY(rt_fail(&e, RT_USAGE, "a plan is of a new run; leave resume out"));
    p->opts.dry = true;
    p->opts.scratch = p->places.scratch;
    RT_TRY(open_run(p, &e));
    *out = p;
    p = NULL;
out:
    retort_plan_free(p);
    return rt_api_end(rc, &e, error);
}

/* ---- training ---- */

static retort_summary summary_of(const rt_run_summary *v)
{
    return (retort_summary){ .saved_step = v->saved_step,
                             .is_best = v->is_best,
                             .before = rt_api_evaluation(&v->before),
                             .after = rt_api_evaluation(&v->after),
                             .saved = rt_api_evaluation(&v->saved),
                             .rounding_rmse = v->difference.rmse,
                             .rounding_max = v->difference.max,
                             .control_after = rt_api_evaluation(&v->control_after),
                             .control_saved = rt_api_evaluation(&v->control_saved) };
}

static int train(const retort_settings *s, const retort_run_options *o, bool teacher, retort_summary *out, rt_err *e)
{
    int rc;
    rt_run_summary summary;
    retort_plan *p = rt_alloc_zero(sizeof *p, 16);
    if (!p) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for a run"));
    if (out) RT_TRY(rt_api_check(out, "retort_summary", e)); /* before hours are spent */
    RT_TRY(prepare(p, s, o, e));
    if (teacher && !p->opts.resume && !p->settings.teacher)
        RT_TRY(rt_fail(e, RT_USAGE, "the setting teacher is missing; retort_train learns without one"));
    if (!teacher && p->settings.teacher)
        RT_TRY(rt_fail(e, RT_USAGE, "retort_train learns without a teacher, and one is set; use retort_distill"));
    RT_TRY(open_run(p, e));
    RT_TRY(rt_run_train(p->run, &summary, e));
    if (out) {
        const retort_summary v = summary_of(&summary);
        RT_TRY(rt_api_fill(out, &v, sizeof v, "retort_summary", e));
    }
out:
    retort_plan_free(p);
    return rc;
}

int retort_distill(const retort_settings *s, const retort_run_options *o, retort_summary *out, retort_error *error)
{
    rt_err e = { 0 };
    return rt_api_end(train(s, o, true, out, &e), &e, error);
}

int retort_train(const retort_settings *s, const retort_run_options *o, retort_summary *out, retort_error *error)
{
    rt_err e = { 0 };
    return rt_api_end(train(s, o, false, out, &e), &e, error);
}
