/* run_smoke.c - the first steps of a run time themselves: what the whole will take, and how many steps fit into --time.
 *
 * A run with --time times some steps, undoes them and then is a run with --steps: its record holds the number of steps,
 * so resuming it is no special case. */
#include "job/run/run_internal.h"

#include "base/sys.h"
#include "job/prepare/budget.h"

/* Seconds of writing count files of n bytes each, as a checkpoint's are written: flushed to the disk and renamed. */
static int time_files(rt_run *r, const char *data, uint64_t n, int count, double *seconds, rt_err *e)
{
    int rc;
    char *temp = NULL, *path = rt_path_join(&r->arena, r->run, "probe");
    double begun = rt_now();
    if (!path) RT_TRY(rt_no_memory(e, "timing the disk"));
    RT_TRY(rt_dir_temp(&temp, &r->arena, path, e));
    if (!(path = rt_path_join(&r->arena, temp, "file"))) RT_TRY(rt_no_memory(e, "timing the disk"));
    for (int i = 0; i < count; i++) RT_TRY(rt_file_write(path, data, n, e));
    *seconds = rt_now() - begun;
out:
    if (temp) rt_dir_remove(temp);
    return rc;
}

/* A checkpoint: as many small files as it has, and its bytes at the rate of a larger one. Disks differ too much for a
 * constant. */
static int time_disk(rt_run *r, uint64_t bytes, double *seconds, rt_err *e)
{
    enum { FILES = 9, SMALL = 512, MOST = 16 << 20 };
    int rc;
    uint64_t n = bytes < MOST ? bytes : MOST;
    double files, piece;
    char *data = rt_alloc_zero(n > SMALL ? n : SMALL, 64);
    if (!data) RT_TRY(rt_no_memory(e, "timing the disk"));
    RT_TRY(time_files(r, data, SMALL, FILES, &files, e));
    RT_TRY(time_files(r, data, n, 1, &piece, e));
    *seconds = files + piece * (double)bytes / (double)n;
out:
    rt_free(data);
    return rc;
}

int rt_run_smoke_rows(rt_run *r, rt_err *e)
{
    uint32_t rows = rt_eval_set_rows(r->held), few = r->resolved.micro_batch;
    if (few < RT_EVAL_ROWS_LEAST) few = RT_EVAL_ROWS_LEAST;
    if (!r->opts->smoke || rows <= few) return RT_OK;
    r->smoke.rows = rows;
    rt_run_note(r, "--smoke times the evaluation on %u of its %u rows", few, rows);
    return rt_eval_set_pick(r->held, few, r->resolved.seed, e);
}

double rt_run_smoke_scale(const rt_run *r, double seconds)
{
    uint32_t B = r->resolved.micro_batch, rows = rt_eval_set_rows(r->held);
    if (!r->smoke.rows) return seconds;
    return seconds * ((r->smoke.rows + B - 1) / B) / ((rows + B - 1) / B);
}

int rt_run_pace(rt_run *r, double step, double eval, rt_pace *out, rt_err *e)
{
    int rc;
    uint64_t checkpoint, model;
    *out = (rt_pace){ .step = step, .eval = eval };
    RT_TRY(rt_checkpoint_bytes(r->trainer, &r->output, &checkpoint, e));
    RT_TRY(rt_output_bytes(r->trainer, &r->output, &model, e));
    RT_TRY(time_disk(r, checkpoint, &out->save, e));
    double one = out->save * (double)model / (double)checkpoint;
    if (r->resolved.save_best) out->best = one;
    out->finish = eval + one;
out:
    return rc;
}

/* ---- the projection ---- */

void rt_run_project(rt_run *r, bool *ends)
{
    rt_pace pace = r->pace;
    uint32_t n = r->loop.state.step, last = r->resolved.steps;
    *ends = false;
    if (n == 1) r->smoke.first = r->loop.state.seconds;
    if (!r->smoke.whole || n != (last < RT_SMOKE_STEPS ? last : RT_SMOKE_STEPS)) return;
    rt_run_projection p = { .timed = n, .steps = last, .step = r->loop.state.seconds };
    if (n > 1) p.step = (r->loop.state.seconds - r->smoke.first) / (n - 1);
    pace.step = p.step;
    p.total = rt_pace_total(&pace, 0, last, r->settings);
    p.evaluations = rt_pace_evaluations(&pace, last, r->settings);
    if (r->events.projected) r->events.projected(r->events.ctx, &p);
    *ends = r->opts->smoke;
}

/* ---- --time ---- */

/* Some steps, whose middle is taken: at most ten, and at most a twentieth of the time. */
static int time_steps(rt_run *r, double *seconds, uint32_t *count, rt_err *e)
{
    int rc;
    rt_step_result result;
    double took[RT_SMOKE_STEPS], begun = rt_now();
    uint32_t n = 0;
    rt_cursor start = rt_rows_tell(r->in->train);
    do {
        double at = rt_now();
        rt_watch_tell(&r->watch, "timing steps", n, RT_SMOKE_STEPS);
        RT_TRY(rt_loop_try(&r->loop, n + 1, 0.0, &result, e));
        took[n++] = rt_now() - at;
        if (r->events.stop && r->events.stop(r->events.ctx))
            RT_TRY(rt_fail(e, RT_INTERRUPTED, "stopped while steps were timed; --resume begins again"));
    } while (n < 2 || (n < RT_SMOKE_STEPS && rt_now() - begun < r->resolved.seconds / 20));
    *seconds = (rt_now() - begun - took[0]) / (n - 1);
    *count = n;
    /* As if they had not been: the run is bit for bit the one with so many --steps. */
    RT_TRY(rt_rows_seek(r->in->train, &start, e));
    RT_TRY(rt_inputs_load(r->in, r->trainer, r->resolved.seed, e));
    rt_trainer *t = r->trainer;
    t->teacher_seconds = t->student_seconds = t->update_seconds = 0;
out:
    return rc;
}

/* The settings again as they were asked for, with steps in the place of the time. */
static int settle_steps(rt_run *r, uint64_t steps, rt_err *e)
{
    int rc;
    rt_settings *s = r->settings;
    r->asked.eval_rows = s->eval_rows; /* those that are in memory */
    r->asked.given[RT_SETTING_ID_eval_rows] = s->given[RT_SETTING_ID_eval_rows];
    *s = r->asked;
    rt_settings_forget(s, RT_SETTING_ID_time);
    RT_SETTINGS_PUT(s, steps, steps);
    rt_run_keep_fit(r);
    r->resolved.seconds = 0;
    RT_TRY(rt_resolve_with_rows(s, &r->facts, &r->resolved, e));
    RT_TRY(rt_run_write_settings(r, e));
out:
    return rc;
}

int rt_run_fit_time(rt_run *r, rt_err *e)
{
    int rc;
    double step, limit = r->resolved.seconds;
    uint32_t timed;
    rt_pace pace;
    rt_eval_result measured;
    char one[32];
    const char *given = r->settings->time;
    RT_TRY(time_steps(r, &step, &timed, e));
    RT_TRY(rt_evaluate(r->trainer, r->held, &measured, NULL, e));
    RT_TRY(rt_run_pace(r, step, rt_run_smoke_scale(r, measured.seconds), &pace, e));
    /* A twentieth stays for what changes while it runs. */
    double left = 0.95 * (limit - (rt_now() - r->smoke.opened));
    uint64_t steps = rt_pace_steps(&pace, left, r->settings);
    if (!steps)
        RT_TRY(rt_fail(e, RT_INVALID, "--time %s is too short: one step with its evaluation and saving takes %s", given,
                       rt_format_duration(one, rt_pace_total(&pace, 0, 1, r->settings) + rt_now() - r->smoke.opened)));
    RT_TRY(settle_steps(r, steps, e));
    rt_run_note(r, "%u steps took %s each: --time %s is --steps %llu", timed, rt_format_seconds(one, step), given,
                (unsigned long long)steps);
out:
    return rc;
}
