/* dump.c - see dump.h. */
#include "job/run/dump.h"

#include "base/json.h"
#include "format/tensor_file.h"
#include "job/run/run_internal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct rt_dump {
    rt_run *r;
    rt_arena arena;
    uint32_t step;
    char *path, *temp;         /* temp null: nothing to remove */
    int32_t at[RT_DUMP_PICKS]; /* row * T + position of the step's rows, ascending */
    uint32_t count;
    float *student, *teacher; /* (count,V), (count, V of the teacher) */
};

uint32_t rt_dump_picks(const rt_settings *s) { return s->given[RT_SETTING_ID_dump_step] ? RT_DUMP_PICKS : 0; }

void rt_dump_missed(const rt_run *r)
{
    rt_arena a = { 0 };
    uint32_t step = (uint32_t)r->settings->dump_step;
    if (!rt_dump_picks(r->settings) || r->loop.state.step < step) return;
    char *path = rt_arena_printf(&a, "%s/dump-%06u", r->run, step);
    if (path && !rt_path_exists(path))
        rt_run_note(r, "step %u was run before it was asked for, so nothing of it is written down", step);
    rt_arena_free(&a);
}

void rt_dump_free(rt_dump *d)
{
    if (!d) return;
    if (d->temp) rt_dir_remove(d->temp);
    rt_free(d->student);
    rt_free(d->teacher);
    rt_arena_free(&d->arena);
    rt_free(d);
}

/* ---- logits ---- */

/* Trained positions, evenly over the step. */
static void choose_positions(rt_dump *d)
{
    const rt_resolved *v = &d->r->resolved;
    size_t T = v->seq_len, n = v->batch * T;
    const int32_t *target = d->r->loop.micro[0].target; /* micro-batches stand one behind the other */
    uint64_t trained = 0, met = 0;
    for (size_t k = 0; k < n; k++) trained += target[k] >= 0;
    uint64_t most = trained < RT_DUMP_PICKS ? trained : RT_DUMP_PICKS;
    for (size_t k = 0; k < n && d->count < most; k++)
        if (target[k] >= 0 && met++ == d->count * trained / most) d->at[d->count++] = (int32_t)k;
}

static int read_logits(rt_dump *d, rt_err *e)
{
    int rc = RT_OK;
    const rt_step_plan *s = d->r->trainer->plan;
    uint32_t per = s->opts.B * s->opts.T, done = 0;
    size_t V = s->student->config.vocab, W = s->teacher_logits.cols;
    float *student = rt_alloc(RT_DUMP_PICKS * V * sizeof *student, 64), *teacher = NULL;
    d->student = rt_alloc(RT_DUMP_PICKS * V * sizeof *student, 64);
    if (W) {
        teacher = rt_alloc(RT_DUMP_PICKS * W * sizeof *teacher, 64);
        d->teacher = rt_alloc(RT_DUMP_PICKS * W * sizeof *teacher, 64);
    }
    if (!student || !d->student || (W && (!teacher || !d->teacher))) RT_TRY(rt_no_memory(e, "the dump of a step"));
    for (uint32_t m = 0; m < d->r->loop.micro_count && done < d->count; m++) {
        int32_t pick[RT_DUMP_PICKS] = { 0 };
        uint32_t n = 0;
        while (done + n < d->count && (uint32_t)d->at[done + n] / per == m) {
            pick[n] = d->at[done + n] % (int32_t)per;
            n++;
        }
        if (!n) continue;
        RT_TRY(rt_trainer_logits(d->r->trainer, &d->r->loop.micro[m], pick, student, teacher, e));
        memcpy(d->student + done * V, student, n * V * sizeof *student);
        if (W) memcpy(d->teacher + done * W, teacher, n * W * sizeof *teacher);
        done += n;
    }
out:
    rt_free(student);
    rt_free(teacher);
    return rc;
}

static int logit_values(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *dst, rt_err *e)
{
    const rt_dump *d = ctx;
    (void)e;
    memcpy(dst, (i ? d->teacher : d->student) + first, n * sizeof(float));
    return RT_OK;
}

static int write_logits(rt_dump *d, rt_err *e)
{
    int rc;
    const rt_step_plan *s = d->r->trainer->plan;
    char *path = rt_path_join(&d->arena, d->temp, "logits.safetensors");
    rt_named_tensor t[2] = { { "student", RT_DTYPE_F32, 2, { d->count, s->student->config.vocab } } };
    if (!path) RT_TRY(rt_no_memory(e, "the dump of a step"));
    if (s->teacher) t[1] = (rt_named_tensor){ "teacher", RT_DTYPE_F32, 2, { d->count, s->teacher_logits.cols } };
    RT_TRY(rt_tensor_file_write(path, t, s->teacher ? 2 : 1, logit_values, d, NULL, e));
out:
    return rc;
}

int rt_dump_begin(rt_dump **out, rt_run *r, uint32_t step, rt_err *e)
{
    int rc = RT_OK;
    rt_dump *d = NULL;
    if (!r->settings->given[RT_SETTING_ID_dump_step] || r->settings->dump_step != step) return RT_OK;
    if (!(d = rt_alloc_zero(sizeof *d, 16))) RT_TRY(rt_no_memory(e, "the dump of a step"));
    d->r = r;
    d->step = step;
    if (!(d->path = rt_arena_printf(&d->arena, "%s/dump-%06u", r->run, step)))
        RT_TRY(rt_no_memory(e, "the dump of a step"));
    RT_TRY(rt_dir_temp(&d->temp, &d->arena, d->path, e));
    choose_positions(d);
    RT_TRY(read_logits(d, e));
    RT_TRY(write_logits(d, e));
    rt_output exact = r->output;
    exact.dtype = RT_DTYPE_F32;
    char *student = rt_path_join(&d->arena, d->temp, "student");
    if (!student) RT_TRY(rt_no_memory(e, "the dump of a step"));
    RT_TRY(rt_output_write(student, r->trainer, &exact, e));
    *out = d;
    d = NULL;
out:
    rt_dump_free(d);
    return rc;
}

/* ---- step.json ---- */

static int gradient_norm(rt_trainer *t, uint32_t param, float *piece, uint32_t size, double *out, rt_err *e)
{
    int rc = RT_OK;
    double sum = 0;
    for (uint64_t first = 0, all = rt_trainer_elems(t, param); first < all; first += size) {
        uint64_t n = all - first < size ? all - first : size;
        RT_TRY(rt_trainer_read_part(t, 'g', param, first, n, piece, e));
        for (uint64_t i = 0; i < n; i++) sum += (double)piece[i] * piece[i];
    }
    *out = sqrt(sum);
out:
    return rc;
}

static int gradient_norms(const rt_dump *d, json_t *out, rt_err *e)
{
    enum { PIECE = 1 << 20 };
    int rc = RT_OK;
    rt_trainer *t = d->r->trainer;
    const rt_decoder *student = t->plan->student;
    char name[RT_NAME_BYTES];
    float *piece = rt_alloc(PIECE * sizeof *piece, 64);
    if (!piece) RT_TRY(rt_no_memory(e, "the dump of a step"));
    for (uint32_t i = 0; i < student->param_count; i++) {
        double norm;
        if (!student->params[i].grad.buf) continue;
        RT_TRY(gradient_norm(t, i, piece, PIECE, &norm, e));
        if (json_object_set_new(out, rt_param_name(name, &student->params[i]), json_real(norm)) != 0)
            RT_TRY(rt_no_memory(e, "the dump of a step"));
    }
out:
    rt_free(piece);
    return rc;
}

static json_t *numbers(const int32_t *v, size_t n)
{
    json_t *a = json_array();
    for (size_t i = 0; a && i < n; i++) json_array_append_new(a, json_integer(v[i]));
    return rt_json_complete(a, n);
}

static json_t *rows_json(const rt_dump *d)
{
    const rt_batch *b = &d->r->loop.micro[0];
    size_t T = d->r->resolved.seq_len;
    json_t *rows = json_array();
    for (size_t i = 0; rows && i < d->r->resolved.batch; i++) {
        json_t *row =
            json_pack("{s:o, s:o, s:o, s:o}", "ids", numbers(b->ids + i * T, T), "position", numbers(b->pos + i * T, T),
                      "start", numbers(b->start + i * T, T), "target", numbers(b->target + i * T, T));
        json_array_append_new(rows, row);
    }
    return rt_json_complete(rows, d->r->resolved.batch);
}

static json_t *picked_json(const rt_dump *d)
{
    int32_t T = (int32_t)d->r->resolved.seq_len;
    json_t *all = json_array();
    for (uint32_t i = 0; all && i < d->count; i++)
        json_array_append_new(all, json_pack("[i, i]", d->at[i] / T, d->at[i] % T));
    return rt_json_complete(all, d->count);
}

/* The bitmap of shared ids as words of 32; null: all of them. */
static json_t *shared_json(const rt_dump *d)
{
    rt_view mask = d->r->trainer->plan->vmask;
    if (!mask.buf) return json_null();
    json_t *a = json_array();
    for (uint32_t i = 0; a && i < mask.cols; i++) json_array_append_new(a, json_integer(d->r->in->pair.mask[i]));
    return rt_json_complete(a, mask.cols);
}

static json_t *step_json(const rt_dump *d, double lr, const rt_step_result *v, json_t *norms)
{
    const rt_run *r = d->r;
    const rt_loss_opts *l = &r->resolved.loss;
    bool teacher = r->trainer->plan->teacher != NULL;
    json_t *lora = r->resolved.lora.rank
                       ? json_pack("{s:i, s:f}", "rank", (int)r->resolved.lora.rank, "alpha", r->resolved.lora.alpha)
                       : json_null();
    json_t *objective =
        json_pack("{s:s, s:f, s:f, s:f, s:f, s:b}", "divergence", r->settings->divergence, "mix", l->mix, "temperature",
                  l->temperature, "ce_weight", l->ce_weight, "kd_weight", l->kd_weight, "t2", l->t2);
    json_t *result = json_pack("{s:f, s:f, s:f, s:f, s:I}", "loss", v->loss, "ce", v->ce, "grad_norm", v->grad_norm,
                               "clip", v->clip, "trained", (json_int_t)v->trained);
    if (result && teacher) {
        json_object_set_new(result, "divergence", json_real(v->div));
        json_object_set_new(result, "agreement", json_real(v->agreement));
    }
    return json_pack("{s:i, s:I, s:f, s:f, s:b, s:o, s:o, s:o, s:o, s:O, s:o, s:o}", "version", 1, "step",
                     (json_int_t)d->step, "lr", lr, "max_grad_norm", r->resolved.max_grad_norm, "teacher", teacher,
                     "objective", objective, "lora", lora, "result", result, "shared_ids", shared_json(d),
                     "gradient_norms", norms, "logits", picked_json(d), "rows", rows_json(d));
}

/* What a dump of the same step holds; of its student too, which is removed with it. */
static bool is_own(void *ctx, const char *name)
{
    rt_dump *d = ctx;
    if (strcmp(name, "step.json") == 0 || strcmp(name, "logits.safetensors") == 0) return true;
    char *path = strcmp(name, "student/") == 0 ? rt_path_join(&d->arena, d->path, "student") : NULL;
    return path && rt_dir_holds_only(path, rt_hf_is_name, NULL);
}

int rt_dump_end(rt_dump *d, double lr, const rt_step_result *result, rt_err *e)
{
    int rc;
    char *path;
    json_t *norms = NULL;
    if (!d) return RT_OK;
    rt_json_init();
    path = rt_path_join(&d->arena, d->temp, "step.json");
    if (!path || !(norms = json_object())) RT_TRY(rt_no_memory(e, "the dump of a step"));
    RT_TRY(gradient_norms(d, norms, e));
    RT_TRY(rt_run_write_json(path, step_json(d, lr, result, norms), JSON_COMPACT | JSON_REAL_PRECISION(17), e));
    RT_TRY(rt_path_exists(d->path) ? rt_dir_replace(d->temp, d->path, is_own, d, e)
                                   : rt_dir_commit(d->temp, d->path, e));
    d->temp = NULL;
    rt_run_note(d->r, "step %u is written down in %s; tools/check_step.py computes it again", d->step, d->path);
out:
    json_decref(norms);
    return rc;
}
