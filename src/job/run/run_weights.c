/* run_weights.c - may the teacher be fp8: measured before a run is made to fit, on a few of its held-out rows.
 *
 * An evaluation with the fp8 teacher in the student's place gives KL(teacher || fp8 teacher), one with the student the
 * figure that it is compared with (teacher/teacher_weights.h). The teacher of both is as it is stored, which a device
 * that gains by fp8 multiplies as bf16. */
#include "job/run/run_internal.h"

#include <math.h>

enum { POSITIONS = 8192, LEAST_ROWS = 4 }; /* enough to tell a tenth; a moment on a device that gains by fp8 */

/* KL from the teacher as it is stored of a model in the student's place; not a number where one of the two is at fault:
 * the run says which when it evaluates. */
static int measure_one(rt_run *r, const rt_model_file *m, const rt_dtype *dtypes, rt_layer_range coded,
                       rt_eval_set *set, uint64_t limit, double *kl, rt_err *e)
{
    int rc;
    const rt_inputs *in = r->in;
    rt_trainer *t = NULL;
    rt_eval_result result = { 0 };
    const rt_step_opts o = { .B = rt_eval_set_rows(set),
                             .T = r->resolved.seq_len,
                             .loss = { .divergence = RT_DIV_FORWARD_KL, .temperature = 1, .ce_weight = 1 },
                             .policy = *rt_device_policy(r->opts->dev),
                             .student = &m->config,
                             .teacher = &in->teacher->config,
                             .student_dtypes = dtypes,
                             .student_coded = coded,
                             .teacher_dtypes = r->teacher_dtypes[RT_WEIGHTS_NATIVE],
                             .eval_only = true,
                             .vmask = m == in->student && in->pair.masked };
    RT_TRY(rt_trainer_open(&t, r->opts->dev, &o, &(rt_seal_opts){ .memory_limit = limit }, e));
    t->watch = &r->watch;
    RT_TRY(rt_trainer_load(t, m, in->teacher, in->pair.mask, r->resolved.seed, e));
    rc = rt_evaluate(t, set, &result, NULL, e);
    *kl = rc == RT_NONFINITE ? NAN : result.kl.mean;
    if (rc == RT_NONFINITE) rc = RT_OK;
out:
    rt_trainer_free(t);
    return rc;
}

/* The rows that the run evaluates on, or some of them. */
static int open_rows(rt_run *r, rt_eval_set **out, rt_err *e)
{
    int rc;
    const rt_resolved *v = &r->resolved;
    uint32_t rows = POSITIONS / v->seq_len;
    const rt_cursor begin = { .data = rt_rows_tell(r->in->held).data };
    RT_TRY(rt_rows_seek(r->in->held, &begin, e));
    RT_TRY(rt_eval_set_new(out, r->in->held, 1, v->seq_len, RT_EVAL_MOST_ROWS, e));
    RT_TRY(rt_eval_set_pick(*out, v->eval_rows, v->seed, e));
    RT_TRY(rt_eval_set_pick(*out, rows > LEAST_ROWS ? rows : LEAST_ROWS, v->seed, e));
    rt_eval_set_batch(*out, rt_eval_set_rows(*out)); /* one batch */
out:
    return rc;
}

/* RT_NOMEM where they do not fit beside one another. */
static int measure(rt_run *r, uint64_t limit, rt_fp8 *out, rt_err *e)
{
    int rc;
    rt_eval_set *set = NULL;
    const rt_model_config *c = &r->in->teacher->config;
    const rt_dtype *stored = r->teacher_dtypes[RT_WEIGHTS_NATIVE];
    bool packed = rt_weights_differ(stored, c, rt_device_policy(r->opts->dev));
    rt_teacher_weights w = packed ? RT_WEIGHTS_FP8_NATIVE : RT_WEIGHTS_FP8; /* the same codes; the smaller */
    RT_TRY(open_rows(r, &set, e));
    RT_TRY(measure_one(r, r->in->teacher, r->teacher_dtypes[w], rt_weights_coded(c, w), set, limit, &out->fp8, e));
    RT_TRY(measure_one(r, r->in->student, r->student_dtypes, (rt_layer_range){ 0 }, set, limit, &out->student, e));
    out->positions = rt_eval_set_positions(set);
out:
    rt_eval_set_free(set);
    return rc;
}

int rt_run_measure_fp8(rt_run *r, uint64_t limit, rt_fp8 *out, rt_err *e)
{
    int rc;
    rt_dev_info info;
    rt_err why = { 0 };
    *out = (rt_fp8){ .state = RT_FP8_NO };
    RT_TRY(r->opts->dev->api->info(r->opts->dev, &info, e));
    if (!rt_inputs_teacher_speaks(r->in)) return RT_OK; /* how far off a mixture is in fp8 nobody has measured */
    if (r->resolved.teacher_weights != RT_WEIGHTS_AUTO || r->resolved.teacher_memory == RT_TEACHER_DISK ||
        !(info.fp8_cost > 0))
        return RT_OK;
    out->state = RT_FP8_LATER;
    if (r->opts->dry) return RT_OK;
    RT_TRY(rt_watch_step(&r->watch, "measuring an fp8 teacher", 0, 0, e));
    rc = measure(r, limit, out, &why);
    out->state = rc == RT_NOMEM ? RT_FP8_NO_ROOM : RT_FP8_MEASURED;
    if (rc == RT_NOMEM) return RT_OK;
    if (rc < 0 && e) *e = why;
out:
    return rc;
}
