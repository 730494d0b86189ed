/* run_fit.c - a run made to fit: the limit from settings and device, what a configuration needs from a dry seal, what
 * was chosen back into the settings. The order in which things are tried is fit.h's. */
#include "job/run/run_internal.h"

#include "base/sys.h"
#include "job/run/dump.h"
#include "train/follow.h"

int rt_run_fit_begin(rt_run *r, const bool *said, rt_err *e)
{
    rt_settings *s = r->settings;
    rt_dev_info info;
    const rt_setting_id fitted[] = { RT_SETTING_ID_micro_batch, RT_SETTING_ID_recompute, RT_SETTING_ID_teacher_weights,
                                     RT_SETTING_ID_teacher_memory, RT_SETTING_ID_teacher_batch };
    /* What was chosen for a device that has failed is chosen again for this one: all of them, as in a new run. */
    bool moved = r->opts->device && r->opts->device->failed;
    size_t count = moved ? 5 : r->opts->fit ? 4 : 0;
    for (size_t i = 0; i < count; i++)
        if (!said[fitted[i]]) rt_settings_forget(s, fitted[i]);
    r->fit.ask.micro_free = !s->given[RT_SETTING_ID_micro_batch];
    r->fit.ask.recompute_free = !s->given[RT_SETTING_ID_recompute];
    int rc = r->opts->dev->api->info(r->opts->dev, &info, e);
    r->facts.positions = info.positions;
    r->facts.sharing = info.host ? rt_run_ranks(r) : 1; /* over NCCL nothing was shared out on real GPUs yet */
    r->free_memory = info.memory_free;
    return rc;
}

int rt_run_read_models(rt_run *r, rt_err *e)
{
    int rc;
    const rt_inputs *in = r->in;
    r->frozen = rt_arena_alloc(&r->arena, rt_param_count(&in->student->config) * sizeof *r->frozen);
    if (!r->frozen) RT_TRY(rt_no_memory(e, "a run"));
    RT_TRY(rt_resolve_freeze(&r->settings->freeze, &in->student->config, r->frozen, e));
    RT_TRY(rt_inputs_dtypes(&r->student_dtypes, in->student, &r->arena, e));
    RT_TRY(rt_inputs_teacher_dtypes(&r->teacher_dtypes[RT_WEIGHTS_NATIVE], in, &r->arena, e));
    if (!rt_inputs_live(in)) return RT_OK;
    for (int w = 0; w < RT_WEIGHTS_KINDS; w++) {
        rt_dtype **to = &r->teacher_dtypes[w];
        RT_TRY(rt_inputs_dtypes(to, in->teacher, &r->arena, e));
        rt_weights_dtypes(*to, *to, &in->teacher->config, (rt_teacher_weights)w);
        RT_TRY(rt_inputs_others(&r->others[w], in, (rt_teacher_weights)w, &r->arena, e));
    }
out:
    return rc;
}

rt_step_opts rt_run_step_opts(const rt_run *r, const rt_fit_config *c)
{
    const rt_resolved *v = &r->resolved;
    const rt_inputs *in = r->in;
    rt_lora lora = v->lora;
    if (c->lora_rank && !lora.rank) lora = (rt_lora){ .rank = c->lora_rank, .alpha = 1, .roles = RT_LORA_ROLES };
    rt_step_opts o = { .B = c->micro_batch,
                       .T = c->seq_len,
                       .ranks = rt_run_ranks(r),
                       .zero = (rt_zero)v->zero,
                       .accumulate = c->micro_batch < rt_rank_rows(v->batch, rt_run_ranks(r)),
                       .ahead = c->ahead,
                       .chunk = c->head_chunk,
                       .recompute = c->recompute,
                       .loss = v->loss,
                       .beta1 = v->beta1,
                       .beta2 = v->beta2,
                       .eps = v->eps,
                       .weight_decay = v->weight_decay,
                       .moments = v->moments,
                       .max_grad_norm = v->max_grad_norm,
                       .policy = *rt_device_policy(r->opts->dev),
                       .student = &in->student->config,
                       .student_dtypes = lora.rank ? r->student_dtypes : NULL,
                       .frozen = r->frozen,
                       .lora = lora,
                       .picks = rt_dump_picks(r->settings),
                       .sample_context = rt_samples_context(r->samples) };
    rt_inputs_put_teacher(in, r->teacher_dtypes[c->weights], c->weights, r->others[c->weights], &o);
    o.teacher_home = rt_teacher_memory_class(c->memory);
    return o;
}

static int need_of(void *ctx, const rt_fit_config *c, rt_fit_need *out, rt_err *e)
{
    const rt_run *r = ctx;
    rt_step_opts o = rt_run_step_opts(r, c);
    return rt_fit_need_of(r->opts->dev, &o, (rt_rank_rows(r->resolved.batch, rt_run_ranks(r)) - 1) / c->micro_batch + 1,
                          out, e);
}

void rt_run_keep_fit(rt_run *r)
{
    const rt_fit_config *c = &r->fit.chosen;
    rt_settings *s = r->settings;
    r->resolved.micro_batch = c->micro_batch;
    rt_eval_set_batch(r->held, c->micro_batch);
    r->resolved.recompute = c->recompute;
    RT_SETTINGS_PUT(s, micro_batch, c->micro_batch);
    r->resolved.teacher_batch = c->micro_batch * (c->ahead ? c->ahead : 1);
    if (rt_inputs_live(r->in)) {
        RT_SETTINGS_PUT(s, teacher_batch, r->resolved.teacher_batch);
        RT_SETTINGS_PUT(s, teacher_weights, rt_weights_name(c->weights));
        RT_SETTINGS_PUT(s, teacher_memory, rt_teacher_memory_name(c->memory));
    }
    RT_SETTINGS_PUT(s, recompute, rt_recompute_text(r->recompute, &c->recompute));
}

int rt_run_choose_fit(rt_run *r, const rt_fit_ask *ask, rt_err *e)
{
    int rc = rt_fit_choose(&r->fit, ask, need_of, r, e);
    if (rc >= 0) rt_run_keep_fit(r);
    return rc;
}

/* Where its layers may be. */
static int ask_for_memory(rt_run *r, rt_fit_ask *ask, rt_err *e)
{
    int rc;
    rt_dev_info info;
    rt_sys_memory system;
    rt_teacher_memory wanted = r->resolved.teacher_memory;
    RT_TRY(r->opts->dev->api->info(r->opts->dev, &info, e));
    if (wanted == RT_TEACHER_HOST && info.host)
        RT_TRY(rt_fail(e, RT_INVALID,
                       "--teacher-memory host needs a device with memory of its own, and %s uses the host's; use "
                       "device, or disk for a teacher that is larger than memory",
                       r->opts->dev->api->name));
    rt_sys_memory_query(&system);
    ask->host = info.host;
    ask->host_limit = info.host ? 0 : rt_fit_budget(system.available);
    ask->rows_free = !r->settings->given[RT_SETTING_ID_teacher_batch] && !rt_inputs_prompted(r->in);
    ask->memory_free = wanted == RT_TEACHER_AUTO;
    if (!ask->memory_free) ask->wanted.memory = wanted;
out:
    return rc;
}

static int ask_for_teacher(rt_run *r, rt_fit_ask *ask, rt_err *e)
{
    int rc;
    const rt_resolved *v = &r->resolved;
    const rt_policy *policy = rt_device_policy(r->opts->dev);
    ask->teacher = true;
    ask->teacher_rows = rt_inputs_prompted(r->in) ? 0 : v->teacher_batch;
    ask->weights_free = v->teacher_weights == RT_WEIGHTS_AUTO;
    ask->weights_differ = rt_weights_differ(r->teacher_dtypes[RT_WEIGHTS_NATIVE], &r->in->teacher->config, policy);
    for (uint32_t i = 0; i + 1 < r->in->teachers.count; i++) {
        const rt_step_other *t = &r->others[RT_WEIGHTS_NATIVE][i];
        ask->weights_differ = ask->weights_differ || rt_weights_differ(t->dtypes, t->config, policy);
    }
    if (!ask->weights_free) ask->wanted.weights = v->teacher_weights;
    RT_TRY(ask_for_memory(r, ask, e));
    return rt_run_measure_fp8(r, ask->limit, &ask->fp8, e);
out:
    return rc;
}

int rt_run_fit(rt_run *r, rt_err *e)
{
    int rc;
    const rt_resolved *v = &r->resolved;
    rt_fit_ask ask = r->fit.ask;
    uint32_t rows = rt_rank_rows(v->batch, rt_run_ranks(r)); /* of a step, of one rank */
    ask.wanted = (rt_fit_config){ .micro_batch = v->micro_batch < rows ? v->micro_batch : rows,
                                  .recompute = v->recompute,
                                  .head_chunk = v->head_chunk,
                                  .seq_len = v->seq_len,
                                  .lora_rank = v->lora.rank };
    ask.batch = rows;
    ask.lora_free = !v->lora.rank && !r->settings->freeze.count;
    ask.limit = v->memory_limit ? v->memory_limit : rt_fit_budget(r->free_memory);
    ask.limit_is = v->memory_limit ? RT_FIT_GIVEN : RT_FIT_FREE;
    RT_TRY(rt_run_read_models(r, e));
    if (rt_inputs_live(r->in)) RT_TRY(ask_for_teacher(r, &ask, e));
    RT_TRY(rt_run_choose_fit(r, &ask, e));
out:
    return rc;
}
