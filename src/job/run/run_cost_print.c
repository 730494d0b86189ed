/* run_cost_print.c - what a run will cost, as a page and as JSON. See run_cost.h. */
#include "job/run/run_cost.h"

#include "job/run/run_internal.h"

#include <stdio.h>

/* "12.3 TFLOP" */
static char *format_flops(char *buf, double flops)
{
    static const char *const units[] = { "", "K", "M", "G", "T", "P", "E" };
    int i = 0;
    for (; flops >= 999.5 && i < 6; i++) flops /= 1000;
    snprintf(buf, 32, "%.3g %sFLOP", flops, units[i]);
    return buf;
}

static void print_weights(const rt_weights_choice *w, rt_str *out)
{
    if (w->why == RT_WEIGHTS_UNSAID) return;
    rt_str_append(out, "weights   ");
    rt_weights_say(out, w);
    rt_str_append(out, "\n");
}

/* Where the teacher's layers are, when they are not on the device, why, and what bringing them there costs. */
static void print_streamed(const rt_run_cost *c, const rt_run *r, rt_str *out)
{
    char a[32];
    const rt_exec_memory *m = &c->memory;
    uint64_t away = m->by_class[RT_CLASS_HOST] + m->by_class[RT_CLASS_DISK];
    if (!away) return;
    rt_str_append(out, "streamed  ");
    rt_memory_say(out, &r->fit.memory);
    rt_str_printf(out, "\n          %12s  copied in for every pass of %u positions, ", rt_format_bytes(a, away),
                  c->pass);
    if (r->opts->dev->api->queues)
        rt_str_printf(out, "%.1f %% of the transfer hidden behind computation, by %s\n", 100 * c->hidden,
                      c->timed ? "the times of its ops" : "arithmetic");
    else
        rt_str_append(out, "the next layer is read ahead while one is computed\n");
}

/* "block of 14 layers, norms of 10 recomputed for backward" */
static void print_recompute(const rt_recompute_counts *c, double again, rt_str *out)
{
    static const char *const names[RT_RECOMPUTE_LEVELS] = { NULL, "q/k norms", "MLP", "block" };
    const char *before = "";
    for (int r = RT_RECOMPUTE_LEVELS; --r > 0;) {
        if (!c->count[r]) continue;
        rt_str_printf(out, "%s%s of ", before, names[r]);
        if (c->count[r] == RT_RECOMPUTE_ALL)
            rt_str_append(out, "every layer");
        else
            rt_str_printf(out, "%u layer%s", c->count[r], c->count[r] == 1 ? "" : "s");
        before = ", ";
    }
    if (*before)
        rt_str_printf(out, " recomputed for backward, about %.2g %% more of a step\n", 100 * again);
    else
        rt_str_append(out, c->keep ? "nothing recomputed, norms and activations kept\n" : "nothing recomputed\n");
}

static void print_memory(const rt_run_cost *c, rt_str *out)
{
    char a[32];
    const rt_exec_memory *m = &c->memory;
    rt_str_printf(out, "memory    %s on the device\n", rt_format_bytes(a, m->total));
    for (int k = 0; k < RT_CLASS_COUNT; k++)
        if (m->by_class[k])
            rt_str_printf(out, "          %12s  %s%s%s\n", rt_format_bytes(a, m->by_class[k]),
                          rt_class_name((rt_class)k), k == RT_CLASS_ACT ? "s of one micro-batch" : "s",
                          (k == RT_CLASS_HOST && m->host) || k == RT_CLASS_DISK ? ", not on the device" : "");
    rt_str_printf(out, "          fullest at op %u of '%s': %s%s%s, %s of activations alive\n", m->peak_op,
                  c->peak_program, c->peak_op, c->peak_label[0] ? ", " : "", c->peak_label,
                  rt_format_bytes(a, m->peak_live));
    if (c->process)
        rt_str_printf(out, "          %12s  of the process besides: texts, tokenizers, rows\n",
                      rt_format_bytes(a, c->process));
}

static uint64_t weights_of(const rt_trainer *t, const rt_decoder *d)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < d->model_params; i++) {
        rt_view v = d->params[i].value;
        bytes += rt_dtype_bytes(rt_plan_dtype(rt_exec_plan(t->x, 0), v), (uint64_t)v.rows * v.cols);
    }
    return bytes;
}

static const rt_decoder *teacher_of(const rt_trainer *t, uint32_t i)
{
    return i ? t->plan->more[i - 1].decoder : t->plan->teacher;
}

/* Each of several teachers has its weights in memory; what it needs while it computes the next has after it. */
static void print_teachers(const rt_run *r, rt_str *out)
{
    char a[32];
    uint32_t n = r->in->teachers.count;
    if (n < 2) return;
    rt_str_printf(out, "teachers  %u, whose forwards share their activations\n", n);
    for (uint32_t i = 0; i < n; i++) {
        rt_str_printf(out, "          %12s  weights of %s, share ",
                      rt_format_bytes(a, weights_of(r->trainer, teacher_of(r->trainer, i))),
                      rt_inputs_teacher(r->in, i)->name);
        rt_inputs_shares(r->in, i, out);
        rt_str_append(out, "\n");
    }
}

static void print_work(const rt_run_cost *c, rt_str *out)
{
    char a[32], b[32];
    double flops = (double)c->teacher + (double)c->student + (double)c->update;
    rt_str_printf(out, "step      %s", format_flops(a, flops));
    if (c->timed)
        rt_str_printf(out, ", about %s (%s/s)", rt_format_seconds(b, c->pace.step),
                      format_flops(a, flops / c->pace.step));
    rt_str_append(out, "\n");
    const struct {
        const char *name;
        uint64_t flops;
        double seconds;
    } parts[] = { { "teacher", c->teacher, c->teacher_seconds },
                  { "student", c->student, c->student_seconds },
                  { "update", c->update, c->update_seconds } };
    for (int i = 0; i < 3; i++) {
        if (!parts[i].flops) continue;
        rt_str_printf(out, "          %12s  %s", format_flops(a, (double)parts[i].flops), parts[i].name);
        if (c->timed) rt_str_printf(out, ", %s", rt_format_seconds(b, parts[i].seconds));
        rt_str_append(out, "\n");
    }
}

static void print_time(const rt_run_cost *c, const rt_run *r, rt_str *out)
{
    char a[32], b[32], d[32];
    const rt_resolved *v = &r->resolved;
    if (!c->timed) return;
    rt_str_printf(out, "time      %s", rt_format_duration(a, c->total));
    if (v->seconds > 0)
        rt_str_printf(out, " of --time %s", r->settings->time);
    else
        rt_str_printf(out, " for %u steps", v->steps);
    rt_str_printf(out, "; an evaluation takes %s, all of them %.0f %%; a checkpoint %s\n",
                  rt_format_seconds(b, c->pace.eval), c->total > 0 ? 100 * c->evaluations / c->total : 0.0,
                  rt_format_seconds(d, c->pace.save));
}

static void print_verdict(const rt_run *r, rt_str *out)
{
    const rt_fit *f = &r->fit;
    static const char *const from[] = { [RT_FIT_FREE] = "what the device has free less a margin",
                                        [RT_FIT_GIVEN] = "as given",
                                        [RT_FIT_REFUSED] = "since the device refused more" };
    char a[32], b[32];
    rt_str_printf(out, "limit     %s, %s\n", rt_format_bytes(a, f->ask.limit), from[f->ask.limit_is]);
    rt_str flags = { 0 };
    rt_fit_chosen(&flags, f);
    if (f->refused) rt_str_append(out, "verdict   fits by the device's figures, and the device refused it\n");
    if (f->fits && !f->refused && !flags.len) rt_str_append(out, "verdict   fits\n");
    if (f->fits && !f->refused && flags.len)
        rt_str_printf(
            out, "verdict   fits with %s, chosen because %s would be needed without; a step takes about %.2g %% more\n",
            flags.data, rt_format_bytes(b, f->wanted_need), 100 * f->slower);
    if (rt_fit_lacks_host(f))
        rt_str_printf(out,
                      "verdict   does not fit: %s too much for the host's memory; --teacher-memory disk needs none\n",
                      rt_format_bytes(b, f->host - f->ask.host_limit));
    else if (!f->fits) {
        rt_str_printf(out, "verdict   does not fit%s%s: %s too much\n", flags.len ? ", even with " : "",
                      flags.len ? flags.data : "", rt_format_bytes(b, f->need - f->ask.limit));
        rt_str_append(out, "would fit ");
        rt_fit_offers(out, f);
        rt_str_append(out, "\n");
    }
    rt_str_free(&flags);
}

int rt_run_cost_text(const rt_run_cost *c, const rt_run *r, bool ops, rt_str *out, rt_err *e)
{
    int rc = RT_OK;
    char a[32], b[32];
    const rt_resolved *v = &r->resolved;
    const rt_plan *plans[RT_PROGRAM_MOST];
    uint32_t programs = rt_step_plan_list(r->trainer->plan, plans);
    rt_str_printf(out, "batch     %u row%s of %u positions, %u at a time, ", v->batch, v->batch == 1 ? "" : "s",
                  v->seq_len, v->micro_batch);
    print_recompute(&v->recompute, r->fit.again, out);
    print_weights(&r->fit.weights, out);
    print_streamed(c, r, out);
    print_memory(c, out);
    print_teachers(r, out);
    print_work(c, out);
    print_time(c, r, out);
    rt_str_printf(out, "disk      %s a checkpoint, %s at most\n", rt_format_bytes(a, c->checkpoint),
                  rt_format_bytes(b, c->disk));
    print_verdict(r, out);
    for (uint32_t i = 0; ops && i < programs; i++) {
        rt_str_append(out, "\n");
        RT_TRY(rt_exec_print(r->trainer->x, i, RT_PRINT_TEXT, out, e));
    }
    if (out->failed) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to print a plan"));
out:
    return rc;
}

/* ---- JSON ---- */

static json_t *config_json(const rt_fit_config *c, uint64_t need)
{
    char recompute[RT_RECOMPUTE_TEXT];
    return json_pack("{s:I, s:s, s:I, s:I, s:I, s:s, s:s, s:I}", "micro_batch", (json_int_t)c->micro_batch, "recompute",
                     rt_recompute_text(recompute, &c->recompute), "head_chunk", (json_int_t)c->head_chunk, "seq_len",
                     (json_int_t)c->seq_len, "lora_rank", (json_int_t)c->lora_rank, "teacher_weights",
                     rt_weights_name(c->weights), "teacher_memory", rt_teacher_memory_name(c->memory), "memory",
                     (json_int_t)need);
}

static json_t *memory_json(const rt_run_cost *c)
{
    const rt_exec_memory *m = &c->memory;
    json_t *classes = json_object();
    for (int k = 0; k < RT_CLASS_COUNT; k++)
        json_object_set_new(classes, rt_class_name((rt_class)k), json_integer((json_int_t)m->by_class[k]));
    return json_pack("{s:I, s:o, s:{s:s, s:I, s:s, s:s, s:I}, s:I}", "total", (json_int_t)m->total, "classes", classes,
                     "peak", "program", c->peak_program, "op", (json_int_t)m->peak_op, "kind", c->peak_op, "label",
                     c->peak_label, "bytes", (json_int_t)m->peak_live, "process", (json_int_t)c->process);
}

static json_t *fit_json(const rt_fit *f)
{
    json_t *offers = json_array();
    for (uint32_t i = 0; i < f->nearest_count; i++)
        json_array_append_new(offers, config_json(&f->nearest[i], f->nearest_need[i]));
    rt_str why = { 0 };
    rt_weights_say(&why, &f->weights);
    json_t *j = json_pack("{s:b, s:I, s:o, s:o, s:o, s:s?, s:f, s:f}", "fits", f->fits, "limit",
                          (json_int_t)f->ask.limit, "wanted", config_json(&f->ask.wanted, f->wanted_need), "chosen",
                          config_json(&f->chosen, f->need), "would_fit", offers, "teacher_weights",
                          why.len ? why.data : NULL, "slower", f->slower, "recomputing", f->again);
    rt_str_free(&why);
    return j;
}

/* null: all of the teacher that is computed is on the device. */
static json_t *transfer_json(const rt_run_cost *c, const rt_run *r)
{
    const rt_exec_memory *m = &c->memory;
    uint64_t away = m->by_class[RT_CLASS_HOST] + m->by_class[RT_CLASS_DISK];
    rt_str why = { 0 };
    if (!away) return json_null();
    rt_memory_say(&why, &r->fit.memory);
    json_t *j = json_pack("{s:s, s:I, s:I, s:o, s:s?}", "memory", rt_teacher_memory_name(r->fit.chosen.memory), "bytes",
                          (json_int_t)away, "positions", (json_int_t)c->pass, "hidden",
                          r->opts->dev->api->queues ? json_real(c->hidden) : json_null(), "why", why.data);
    rt_str_free(&why);
    return j;
}

/* Which ops plain kernels do, and why; null: none. */
static json_t *plain_json(const rt_run *r)
{
    rt_str text = { 0 };
    rt_exec_plain(r->trainer->x, &text);
    json_t *j = text.len && !text.failed ? json_string(text.data) : json_null();
    rt_str_free(&text);
    return j;
}

static json_t *teachers_json(const rt_run *r)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < r->in->teachers.count; i++) {
        rt_str share = { 0 };
        rt_inputs_shares(r->in, i, &share);
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "name", rt_inputs_teacher(r->in, i)->name, "weights",
                                              (json_int_t)weights_of(r->trainer, teacher_of(r->trainer, i)), "share",
                                              share.data && !share.failed ? share.data : ""));
        rt_str_free(&share);
    }
    return list;
}

json_t *rt_run_cost_json(const rt_run_cost *c, const rt_run *r)
{
    const rt_resolved *v = &r->resolved;
    json_t *j = json_pack("{s:{s:I, s:I, s:I, s:I}, s:o, s:{s:I, s:I, s:I}, s:{s:I, s:I, s:I}, s:o}", "batch", "rows",
                          (json_int_t)v->batch, "micro_batch", (json_int_t)v->micro_batch, "seq_len",
                          (json_int_t)v->seq_len, "steps", (json_int_t)(v->seconds > 0 ? 0 : v->steps), "memory",
                          memory_json(c), "flops", "teacher", (json_int_t)c->teacher, "student", (json_int_t)c->student,
                          "update", (json_int_t)c->update, "disk", "checkpoint", (json_int_t)c->checkpoint, "model",
                          (json_int_t)c->model, "most", (json_int_t)c->disk, "fit", fit_json(&r->fit));
    if (j)
        json_object_set_new(j, "lr",
                            v->lr_open ? json_pack("{s:f, s:f}", "near", v->lr_near, "far", v->lr_far)
                                       : json_real(v->schedule.lr));
    if (j) json_object_set_new(j, "plain_kernels", plain_json(r));
    if (j) json_object_set_new(j, "transfer", transfer_json(c, r));
    if (j && r->in->teachers.count > 1) json_object_set_new(j, "teachers", teachers_json(r));
    if (!j || !c->timed) return j;
    json_object_set_new(j, "seconds",
                        json_pack("{s:f, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "step", c->pace.step, "teacher",
                                  c->teacher_seconds, "student", c->student_seconds, "update", c->update_seconds,
                                  "evaluation", c->pace.eval, "evaluations", c->evaluations, "checkpoint", c->pace.save,
                                  "run", c->total));
    return j;
}
