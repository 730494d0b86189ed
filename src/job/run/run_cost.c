/* run_cost.c - see run_cost.h: the figures. */
#include "job/run/run_cost.h"

#include "base/sys.h"
#include "exec/estimate.h"
#include "job/run/run_internal.h"
#include "train/follow.h"

static uint64_t program_flops(const rt_trainer *t, rt_program which)
{
    uint64_t sum = 0;
    if (!t->plan->plan[which]) return 0;
    const rt_plan *p = rt_exec_plan(t->x, t->plan->index[which]);
    for (uint32_t i = 0; i < p->nops; i++) sum += rt_op_flops(p, &p->ops[i]);
    return sum;
}

/* A step is the first micro-batch, the others, the update; the teacher runs before each. */
static void count_flops(rt_run_cost *c, const rt_run *r)
{
    uint64_t more = (r->resolved.batch - 1) / r->resolved.micro_batch;
    c->teacher = (more + 1) * program_flops(r->trainer, RT_PROGRAM_TEACHER);
    c->student = program_flops(r->trainer, RT_PROGRAM_FIRST) + more * program_flops(r->trainer, RT_PROGRAM_NEXT);
    c->update = program_flops(r->trainer, RT_PROGRAM_UPDATE);
}

static int count_disk(rt_run_cost *c, const rt_run *r, rt_err *e)
{
    int rc;
    uint32_t keep = r->resolved.keep ? r->resolved.keep : 1;
    RT_TRY(rt_checkpoint_bytes(r->trainer, &r->output, &c->checkpoint, e));
    RT_TRY(rt_output_bytes(r->trainer, &r->output, &c->model, e));
    c->disk = c->checkpoint * ((uint64_t)keep + 1) + c->model * (r->resolved.save_best ? 2 : 1);
out:
    return rc;
}

/* What the process holds while nothing of the run is allocated. */
static void count_process(rt_run_cost *c, const rt_run *r)
{
    if (r->opts->dry) c->process = rt_sys_process_memory();
}

/* The program in which the teacher reads a step. */
static rt_program teacher_program(const rt_trainer *t)
{
    return t->plan->plan[RT_PROGRAM_AHEAD] ? RT_PROGRAM_AHEAD : RT_PROGRAM_TEACHER;
}

static void count_transfer(rt_run_cost *c, const rt_run *r)
{
    const rt_trainer *t = r->trainer;
    rt_program which = teacher_program(t);
    if (!t->plan->plan[which]) return;
    c->hidden = r->fit.hidden;
    c->pass = t->plan->opts.B * t->plan->opts.T * (which == RT_PROGRAM_AHEAD ? t->plan->opts.ahead : 1);
}

/* ---- time ---- */

/* The rows of the first step, so that documents and masks are those of the data. */
static int read_first_rows(rt_run *r, double *seconds, rt_err *e)
{
    int rc;
    uint64_t tokens;
    rt_cursor start = rt_rows_tell(r->in->train);
    double begun = rt_now();
    RT_TRY(rt_loop_read(&r->loop, &tokens, e));
    *seconds = rt_now() - begun;
    RT_TRY(rt_rows_seek(r->in->train, &start, e));
out:
    return rc;
}

/* What of the teacher's and the student's time is of one rank. */
static double share_of_rank(const rt_run *r)
{
    const uint32_t rows = rt_rank_rows(r->resolved.batch, rt_run_ranks(r)), B = r->resolved.micro_batch;
    return (double)((rows + B - 1) / B) / r->loop.micro_count;
}

static double seconds_of(const rt_trainer *t, rt_program which, const rt_exec_span *programs)
{
    return t->plan->plan[which] ? programs[t->plan->index[which]].total : 0;
}

/* What the student says at an evaluation: each prompt once, then a token at a time. */
static double seconds_of_samples(const rt_run *r, const rt_exec_span *programs)
{
    const rt_step_plan *p = r->trainer->plan;
    const rt_plan *all[RT_PROGRAM_MOST];
    uint32_t generators = (p->student_says != NULL) + (p->teacher_says != NULL);
    const rt_exec_span *g = programs + rt_step_plan_list(p, all) - generators * RT_GENERATOR_PROGRAMS;
    return p->student_says ? r->samples->count * (g[0].total + r->samples->tokens * (g[1].total + g[2].total)) : 0;
}

/* Of several teachers each is asked about every position: one that is not asked costs the mixture nothing. */
static int know_shares(rt_run *r, rt_known *known, uint32_t *count, rt_err *e)
{
    const rt_step_plan *s = r->trainer->plan;
    uint32_t positions = s->opts.B * s->opts.T;
    if (!s->opts.other_count) return RT_OK;
    float *ones = rt_arena_alloc(&r->arena, positions * sizeof *ones);
    if (!ones) return rt_no_memory(e, "the time of a step");
    for (uint32_t i = 0; i < positions; i++) ones[i] = 1;
    for (uint32_t k = 0; k <= s->opts.other_count; k++) known[(*count)++] = (rt_known){ s->share[k], ones };
    return RT_OK;
}

int rt_run_cost_time(rt_run_cost *c, rt_run *r, rt_err *e)
{
    int rc;
    const rt_trainer *t = r->trainer;
    const rt_step_plan *s = t->plan;
    const rt_batch *b = &r->loop.micro[0];
    rt_exec_span programs[RT_PROGRAM_MOST];
    rt_known known[5 + RT_TEACHERS_MOST] = {
        { s->tokens.ids, b->ids }, { s->tokens.pos, b->pos }, { s->tokens.start, b->start }, { s->target, b->target }
    };
    uint32_t count = 4;
    if (s->vmask.buf) known[count++] = (rt_known){ s->vmask, r->in->pair.mask };
    RT_TRY(know_shares(r, known, &count, e));
    RT_TRY(read_first_rows(r, &c->rows_seconds, e));
    RT_TRY(rt_exec_estimate(t->x, known, count, programs, e));
    if (c->pass) c->hidden = rt_exec_hidden(&programs[s->index[teacher_program(t)]]);
    uint32_t n = r->loop.micro_count, passes = 0;
    for (uint32_t i = 0, one; i < n; i++, passes += one)
        if (!(one = rt_trainer_passes(r->trainer, &r->loop.micro[i], e)))
            return e && e->status < 0 ? e->status : RT_INVALID;
    uint32_t ahead = r->fit.chosen.ahead;
    c->teacher_seconds = ahead > 1 ? (n + ahead - 1) / ahead * seconds_of(t, RT_PROGRAM_AHEAD, programs)
                                   : passes * seconds_of(t, RT_PROGRAM_TEACHER, programs);
    c->student_seconds = seconds_of(t, RT_PROGRAM_FIRST, programs) + (n - 1) * seconds_of(t, RT_PROGRAM_NEXT, programs);
    c->update_seconds = seconds_of(t, RT_PROGRAM_UPDATE, programs);
    if (rt_run_ranks(r) > 1) c->teacher_seconds *= share_of_rank(r);
    if (rt_run_ranks(r) > 1) c->student_seconds *= share_of_rank(r);
    uint32_t batches = (rt_eval_set_rows(r->held) + r->resolved.micro_batch - 1) / r->resolved.micro_batch;
    double eval = batches * (seconds_of(t, RT_PROGRAM_TEACHER, programs) + seconds_of(t, RT_PROGRAM_EVAL, programs));
    eval += seconds_of_samples(r, programs);
    RT_TRY(rt_run_pace(r, c->teacher_seconds + c->student_seconds + c->update_seconds + c->rows_seconds, eval, &c->pace,
                       e));
    uint64_t steps =
        r->resolved.seconds > 0 ? rt_pace_steps(&c->pace, r->resolved.seconds, r->settings) : r->resolved.steps;
    c->total = steps ? rt_pace_total(&c->pace, 0, steps, r->settings) : 0;
    c->evaluations = steps ? rt_pace_evaluations(&c->pace, steps, r->settings) : 0;
    c->timed = true;
    count_process(c, r); /* what the device's libraries keep is there now */
out:
    return rc;
}

int rt_run_measure_transfer(rt_run *r, rt_err *e)
{
    int rc;
    char a[32], b[32], c[32], d[32];
    double read;
    rt_exec_span span;
    rt_exec_memory m;
    rt_exec_memory_query(r->trainer->x, &m);
    uint64_t away = m.by_class[RT_CLASS_HOST] + m.by_class[RT_CLASS_DISK];
    if (!away || !r->opts->dev->api->queues) return RT_OK;
    RT_TRY(read_first_rows(r, &read, e));
    rc = rt_trainer_measure_teacher(r->trainer, r->loop.micro, r->loop.micro_count, &span, e);
    if (rc == RT_UNSUPPORTED) return RT_OK;
    RT_TRY(rc);
    rt_run_note(r,
                "%.1f %% of copying %s for a pass of the teacher is hidden, as measured: of its %s, %s are spent "
                "copying, and %s waiting for copies",
                100 * rt_exec_hidden(&span), rt_format_bytes(a, away), rt_format_seconds(b, span.total),
                rt_format_seconds(c, span.copy), rt_format_seconds(d, span.total - span.compute));
out:
    return rc;
}

/* ---- several ranks ---- */

static void count_traffic(rt_run_placement *out, const rt_trainer *t, rt_program which, uint32_t runs)
{
    if (!t->plan->plan[which] || !runs) return;
    const rt_plan *p = rt_exec_plan(t->x, t->plan->index[which]);
    for (uint32_t i = 0; i < p->nops; i++) {
        const rt_op *op = &p->ops[i];
        const int slot = op->kind == RT_OP_REDUCE_SCATTER ? RT_SCATTER_X : RT_REDUCE_X;
        if (op->queue != RT_QUEUE_COMM) continue;
        out->calls += runs;
        if (op->kind == RT_OP_ALL_GATHER)
            out->gathered += runs * (double)rt_view_bytes(p, op->slot[RT_GATHER_X]);
        else
            out->summed += runs * (double)rt_view_bytes(p, op->slot[slot]);
    }
}

/* As they would be sealed, for rank 0, which has a slice as large as any. */
static int place_ranks(rt_run_cost *c, const rt_run *r, rt_err *e)
{
    int rc = RT_OK;
    rt_trainer *t = NULL;
    const rt_seal_opts dry = { .dry = true };
    for (int z = 0; z < RT_ZERO_COUNT && rt_run_ranks(r) > 1; z++) {
        rt_step_opts o = rt_run_step_opts(r, &r->fit.chosen);
        o.zero = (rt_zero)z;
        RT_TRY(rt_trainer_open(&t, r->opts->dev, &o, &dry, e));
        rt_exec_memory_query(t->x, &c->placement[z].memory);
        const uint32_t micro = (rt_rank_rows(r->resolved.batch, o.ranks) + o.B - 1) / o.B;
        count_traffic(&c->placement[z], t, RT_PROGRAM_FIRST, 1);
        count_traffic(&c->placement[z], t, RT_PROGRAM_NEXT, micro - 1);
        count_traffic(&c->placement[z], t, RT_PROGRAM_UPDATE, 1);
        rt_trainer_free(t);
    }
out:
    return rc;
}

int rt_run_cost_new(rt_run_cost *out, const rt_run *r, rt_err *e)
{
    int rc;
    *out = (rt_run_cost){ 0 };
    rt_exec_memory_query(r->trainer->x, &out->memory);
    const rt_plan *p = rt_exec_plan(r->trainer->x, out->memory.peak_program);
    const rt_op *op = &p->ops[out->memory.peak_op];
    out->peak_program = p->name;
    out->peak_op = rt_op_name(op->kind);
    out->peak_label = op->label;
    count_flops(out, r);
    count_transfer(out, r);
    RT_TRY(count_disk(out, r, e));
    RT_TRY(place_ranks(out, r, e));
    count_process(out, r);
out:
    return rc;
}

int rt_run_write_plan(rt_run *r, rt_err *e)
{
    int rc;
    rt_run_cost cost;
    rt_str text = { 0 };
    RT_TRY(rt_run_cost_new(&cost, r, e));
    RT_TRY(rt_run_cost_text(&cost, r, true, &text, e));
    RT_TRY(rt_file_write(r->plan_path, text.data, text.len, e));
out:
    rt_str_free(&text);
    return rc;
}
