/* step_case.h - a run of the step that is described in JSON, so that Python can describe the same one to PyTorch.
 *
 * Owns: reading the description (a "job"), weights by a formula that both languages have, and running a job on a device
 * while every number that it makes is handed to the caller by name: logits, per-position values of an evaluation, the
 * parts of the loss at each step, gradients of the first step, weights and moments after the last. Shared by
 * test_step_golden.c and tests/interop/step_cli.c; tests/interop/step_reference.py is the other side.
 *
 * A job: {"B", "T", "chunk", "block" (recompute), "micro" (per step), "lr" [one per step], "batches" [{"ids", "pos",
 * "start", "target"}], "loss" {"divergence", "mix", "temperature", "ce_weight", "kd_weight", "t2"}, "adamw" {"beta1",
 * "beta2", "eps", "weight_decay", "max_grad_norm"}, and where wanted "vmask" [words], "frozen" [names], "lora" {"rank",
 * "alpha", "targets"}, "rope" {"student" [D/2], "teacher"}}. Step s takes the batches s micro .. s micro + micro - 1,
 * counted round. With "rope" the table is checked and replaced: transformers computes it in f32, a few units of the
 * last place from ours, which would hide what a comparison in double is to show. */
#ifndef RT_TESTS_STEP_CASE_H
#define RT_TESTS_STEP_CASE_H

#include "base/json.h"
#include "train/step.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEP_MAX_N = 256, STEP_MAX_BATCHES = 8, STEP_MAX_STEPS = 16, STEP_MAX_PARAMS = 256 };

typedef struct step_case {
    rt_step_opts opts;
    rt_model_config student, teacher; /* copied by step_case_read; opts points here */
    bool frozen[STEP_MAX_PARAMS];
    uint32_t vmask[64];
    uint32_t micro, batches, steps;
    int32_t data[STEP_MAX_BATCHES][4][STEP_MAX_N]; /* ids, pos, start, target */
    double lr[STEP_MAX_STEPS];
    double rope[2][64]; /* student, teacher */
    bool has_rope[2];
} step_case;

/* Called with every result; values live until it returns. */
typedef int (*step_put)(void *ctx, const char *key, const double *values, uint64_t n, rt_err *e);
/* Weights of both models are put into a trainer that was just opened, and of one (which: 's' or 't') into an exec. */
typedef struct step_weights {
    int (*trainer)(void *ctx, rt_trainer *t, const step_case *c, rt_err *e);
    int (*model)(void *ctx, rt_exec *x, const rt_decoder *d, char which, rt_err *e);
    void *ctx;
} step_weights;

/* ---- weights by formula ---- */

/* u_i of tensor `name`: (-1/2 .. 1/2), a multiple of 2^-24, from an integer hash of name and index. */
static inline double step_unit(uint64_t seed, uint64_t i)
{
    uint64_t z = seed + (i + 1) * 0x9E3779B97F4A7C15ull;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    z ^= z >> 31;
    return (double)(z >> 40) / 16777216.0 - 0.5;
}

static inline uint64_t step_seed(const char *model, const char *name)
{
    uint64_t h = 0xCBF29CE484222325ull;
    const char *part[] = { model, "/", name };
    for (int k = 0; k < 3; k++)
        for (const char *s = part[k]; *s; s++) h = (h ^ (unsigned char)*s) * 0x100000001B3ull;
    return h;
}

/* Norms 1 + u/2, biases u/4, matrices 3u/4: exact in f32. */
static inline float step_weight(const char *name, uint64_t seed, uint64_t i)
{
    size_t len = strlen(name);
    double u = step_unit(seed, i);
    if (strstr(name, "norm")) return (float)(1.0 + 0.5 * u);
    if (len > 5 && strcmp(name + len - 5, ".bias") == 0) return (float)(0.25 * u);
    return (float)(0.75 * u);
}

/* All parameters of d, or those of its adapters alone. */
static inline int step_fill(rt_exec *x, const rt_decoder *d, const char *model, bool adapters_only, rt_err *e)
{
    int rc = RT_OK;
    char name[RT_NAME_BYTES];
    float *w = NULL;
    for (uint32_t i = adapters_only ? d->model_params : 0; i < d->param_count; i++) {
        uint64_t n = (uint64_t)d->params[i].value.rows * d->params[i].value.cols;
        uint64_t seed = step_seed(model, rt_param_name(name, &d->params[i]));
        rt_free(w);
        if (!(w = rt_alloc(n * sizeof *w, 64))) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for %s", name));
        for (uint64_t k = 0; k < n; k++) w[k] = step_weight(name, seed, k);
        RT_TRY(rt_write_param(x, d, i, w, e));
    }
out:
    rt_free(w);
    return rc;
}

/* ---- reading a job ---- */

static inline double step_number(const json_t *o, const char *key, double fallback)
{
    const json_t *v = json_object_get(o, key);
    return v ? json_number_value(v) : fallback;
}

static inline int step_read_batches(step_case *c, const json_t *job, rt_err *e)
{
    static const char *const keys[] = { "ids", "pos", "start", "target" };
    const json_t *list = json_object_get(job, "batches"), *lr = json_object_get(job, "lr");
    uint32_t N = c->opts.B * c->opts.T;
    c->batches = (uint32_t)json_array_size(list);
    c->steps = (uint32_t)json_array_size(lr);
    c->micro = (uint32_t)step_number(job, "micro", 1);
    if (!N || N > STEP_MAX_N || !c->batches || c->batches > STEP_MAX_BATCHES || c->steps > STEP_MAX_STEPS || !c->micro)
        return rt_fail(e, RT_INVALID, "the job has batches or steps of a size that this program cannot take");
    for (uint32_t s = 0; s < c->steps; s++) c->lr[s] = json_number_value(json_array_get(lr, s));
    for (uint32_t b = 0; b < c->batches; b++)
        for (int k = 0; k < 4; k++) {
            const json_t *values = json_object_get(json_array_get(list, b), keys[k]);
            if (json_array_size(values) != N)
                return rt_fail(e, RT_INVALID, "batch %u: %s: not %u values", b, keys[k], N);
            for (uint32_t i = 0; i < N; i++) c->data[b][k][i] = (int32_t)json_integer_value(json_array_get(values, i));
        }
    return RT_OK;
}

static inline int step_read_loss(step_case *c, const json_t *job, rt_err *e)
{
    static const char *const names[RT_DIV_COUNT] = {
#define X(name, word, label, title, mix) word,
        RT_DIVERGENCE_LIST(X)
#undef X
    };
    const json_t *loss = json_object_get(job, "loss"), *adamw = json_object_get(job, "adamw");
    const char *text = json_string_value(json_object_get(loss, "divergence"));
    rt_loss_opts *o = &c->opts.loss;
    int d = 0;
    while (d < RT_DIV_COUNT && (!text || strcmp(names[d], text) != 0)) d++;
    if (d == RT_DIV_COUNT) return rt_fail(e, RT_INVALID, "loss: unknown divergence");
    *o = (rt_loss_opts){ (rt_divergence)d,
                         step_number(loss, "mix", 0),
                         step_number(loss, "temperature", 1),
                         step_number(loss, "ce_weight", 0),
                         step_number(loss, "kd_weight", 0),
                         json_is_true(json_object_get(loss, "t2")) };
    c->opts.beta1 = step_number(adamw, "beta1", 0);
    c->opts.beta2 = step_number(adamw, "beta2", 0);
    c->opts.eps = step_number(adamw, "eps", 0);
    c->opts.weight_decay = step_number(adamw, "weight_decay", 0);
    c->opts.max_grad_norm = step_number(adamw, "max_grad_norm", 0);
    return RT_OK;
}

static inline int step_read_parts(step_case *c, const json_t *job, rt_err *e)
{
    static const struct {
        const char *name;
        rt_role role;
    } modules[] = { { "q_proj", RT_ROLE_Q },      { "k_proj", RT_ROLE_K },       { "v_proj", RT_ROLE_V },
                    { "o_proj", RT_ROLE_O },      { "gate_proj", RT_ROLE_GATE }, { "up_proj", RT_ROLE_UP },
                    { "down_proj", RT_ROLE_DOWN } };
    const json_t *lora = json_object_get(job, "lora"), *frozen = json_object_get(job, "frozen"), *v;
    size_t i, known = 0;
    char name[RT_NAME_BYTES];
    rt_role role;
    uint32_t layer;
    if (lora) {
        c->opts.lora.rank = (uint32_t)step_number(lora, "rank", 0);
        c->opts.lora.alpha = step_number(lora, "alpha", 0);
        json_array_foreach(json_object_get(lora, "targets"), i,
                           v) for (size_t k = 0; k < sizeof modules / sizeof *modules;
                                   k++) if (strcmp(modules[k].name, json_string_value(v)) == 0) c->opts.lora.roles |=
            1u << modules[k].role;
    }
    if (!frozen) return RT_OK;
    for (uint32_t p = 0; rt_param_at(&c->student, p, &role, &layer); p++)
        json_array_foreach(frozen, i, v) if (p < STEP_MAX_PARAMS &&
                                             strcmp(json_string_value(v), rt_role_hf_name(name, role, layer)) == 0)
            c->frozen[p] = true,
            known++;
    if (known != json_array_size(frozen)) return rt_fail(e, RT_INVALID, "frozen: a name that the student has not");
    c->opts.frozen = c->frozen;
    return RT_OK;
}

static inline void step_read_tables(step_case *c, const json_t *job)
{
    const json_t *rope = json_object_get(job, "rope"), *mask = json_object_get(job, "vmask"), *v;
    size_t i;
    c->opts.vmask = mask != NULL;
    json_array_foreach(mask, i, v) if (i < 64) c->vmask[i] = (uint32_t)json_integer_value(v);
    for (int m = 0; m < 2; m++) {
        const json_t *table = json_object_get(rope, m ? "teacher" : "student");
        c->has_rope[m] = table != NULL;
        json_array_foreach(table, i, v) if (i < 64) c->rope[m][i] = json_number_value(v);
    }
}

/* teacher: null for CE alone. policy: f64 for ref, f32 for cpu. */
static inline int step_case_read(step_case *c, const json_t *job, const rt_model_config *student,
                                 const rt_model_config *teacher, const rt_policy *policy, rt_err *e)
{
    int rc;
    memset(c, 0, sizeof *c);
    c->student = *student;
    c->opts.student = &c->student;
    if (teacher) {
        c->teacher = *teacher;
        c->opts.teacher = &c->teacher;
    }
    c->opts.policy = *policy;
    c->opts.B = (uint32_t)step_number(job, "B", 0);
    c->opts.T = (uint32_t)step_number(job, "T", 0);
    c->opts.chunk = (uint32_t)step_number(job, "chunk", 0);
    if (json_is_true(json_object_get(job, "block"))) c->opts.recompute = rt_recompute_every(RT_RECOMPUTE_BLOCK);
    RT_TRY(step_read_batches(c, job, e));
    c->opts.accumulate = c->micro > 1;
    RT_TRY(step_read_loss(c, job, e));
    RT_TRY(step_read_parts(c, job, e));
    step_read_tables(c, job);
out:
    return rc;
}

/* ---- results ---- */

/* A view of f64 or of another plain float. */
static inline int step_put_view(rt_exec *x, rt_view v, const char *key, step_put put, void *ctx, rt_err *e)
{
    int rc;
    rt_dtype d = rt_plan_dtype(rt_exec_plan(x, 0), v);
    uint64_t n = (uint64_t)v.rows * v.cols;
    void *raw = rt_alloc(rt_dtype_bytes(d, n), 64);
    double *wide = rt_alloc(n * sizeof *wide, 64);
    if (!raw || !wide) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for %s", key));
    RT_TRY(rt_exec_read(x, v, raw, rt_dtype_bytes(d, n), e));
    if (d != RT_DTYPE_F64 && d != RT_DTYPE_F32) RT_TRY(rt_fail(e, RT_INTERNAL, "%s: neither f64 nor f32", key));
    for (uint64_t i = 0; i < n; i++) wide[i] = d == RT_DTYPE_F64 ? ((double *)raw)[i] : (double)((float *)raw)[i];
    RT_TRY(put(ctx, key, wide, n, e));
out:
    rt_free(raw);
    rt_free(wide);
    return rc;
}

/* Hands out our own table and the factor on cos and sin, then puts the job's in its place. */
static inline int step_swap_rope(rt_exec *x, const rt_decoder *d, const step_case *c, char which, step_put put,
                                 void *ctx, rt_err *e)
{
    int rc;
    int m = which == 't';
    uint32_t half = d->config.head_dim / 2;
    double scale = d->rope_scale;
    float few[64];
    RT_TRY(step_put_view(x, d->freq, m ? "rope.teacher" : "rope.student", put, ctx, e));
    RT_TRY(put(ctx, m ? "rope_scale.teacher" : "rope_scale.student", &scale, 1, e));
    if (!c->has_rope[m]) return RT_OK;
    rt_dtype t = rt_plan_dtype(rt_exec_plan(x, 0), d->freq);
    for (uint32_t i = 0; i < half; i++) few[i] = (float)c->rope[m][i];
    RT_TRY(rt_exec_write(x, d->freq, t == RT_DTYPE_F64 ? (const void *)c->rope[m] : few, rt_dtype_bytes(t, half), e));
out:
    return rc;
}

static inline int step_ignore(void *ctx, const char *key, const double *values, uint64_t n, rt_err *e)
{
    (void)ctx, (void)key, (void)values, (void)n, (void)e;
    return RT_OK;
}

/* "logits.student" or "logits.teacher" of the first batch, from a forward of its own. */
static inline int step_logits(const step_case *c, rt_dev *dev, const step_weights *w, char which, step_put put,
                              void *ctx, rt_err *e)
{
    int rc;
    const rt_model_config *config = which == 't' ? &c->teacher : &c->student;
    uint32_t N = c->opts.B * c->opts.T;
    rt_space *space = NULL;
    rt_decoder *d = NULL;
    rt_plan *p = NULL;
    rt_exec *x = NULL;
    rt_ticket ticket;
    rt_decoder_opts o = { .name = "model", .policy = &c->opts.policy };
    if (which == 's') o.lora = c->opts.lora;
    RT_TRY(rt_space_new(&space, e));
    RT_TRY(rt_decoder_new(&d, space, config, &o, e));
    rt_tokens t = { .B = c->opts.B, .T = c->opts.T };
    t.ids = rt_space_buf(space, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "ids");
    t.pos = rt_space_buf(space, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "positions");
    t.start = rt_space_buf(space, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "document starts");
    rt_view logits = rt_space_buf(space, RT_CLASS_OUTPUT, c->opts.policy.logits, N, config->vocab, "logits");
    RT_TRY(rt_plan_new(&p, space, "forward", &c->opts.policy, e));
    rt_view hidden = rt_act(p, c->opts.policy.act, N, config->width, "hidden");
    rt_decoder_forward(p, d, &t, NULL, hidden);
    rt_decoder_logits(p, d, logits, hidden);
    RT_TRY(rt_plan_status(p, e));
    const rt_plan *plans[] = { p };
    RT_TRY(rt_exec_seal(&x, dev, plans, 1, &(rt_seal_opts){ .poison = true, .guards = true }, e));
    RT_TRY(w->model(w->ctx, x, d, which, e));
    RT_TRY(step_swap_rope(x, d, c, which, put, ctx, e));
    RT_TRY(rt_exec_write(x, t.ids, c->data[0][0], N * sizeof(int32_t), e));
    RT_TRY(rt_exec_write(x, t.pos, c->data[0][1], N * sizeof(int32_t), e));
    RT_TRY(rt_exec_write(x, t.start, c->data[0][2], N * sizeof(int32_t), e));
    RT_TRY(rt_exec_run(x, 0, &ticket, e));
    RT_TRY(rt_exec_wait(x, ticket, e));
    RT_TRY(rt_exec_check(x, e));
    RT_TRY(step_put_view(x, logits, which == 't' ? "logits.teacher" : "logits.student", put, ctx, e));
out:
    rt_exec_free(x);
    rt_plan_free(p);
    rt_decoder_free(d);
    rt_space_free(space);
    return rc;
}

static inline int step_put_state(rt_trainer *t, char what, step_put put, void *ctx, rt_err *e)
{
    int rc = RT_OK;
    char name[RT_NAME_BYTES], key[RT_NAME_BYTES + 16];
    const rt_decoder *d = t->plan->student;
    for (uint32_t i = 0; i < d->param_count; i++) {
        const rt_param *p = &d->params[i];
        const rt_moments *m = &t->plan->moments[i];
        if (!p->grad.buf) continue; /* frozen: it has no state, and is looked at below */
        snprintf(key, sizeof key, "%s.%s",
                 what == 'g'   ? "grad"
                 : what == 'm' ? "m"
                 : what == 'v' ? "v"
                               : "weight",
                 rt_param_name(name, p));
        rt_view v = what == 'g' ? p->grad : what == 'm' ? m->m : what == 'v' ? m->v : p->value;
        RT_TRY(step_put_view(t->x, v, key, put, ctx, e));
    }
    for (uint32_t i = 0; what == 'w' && i < d->param_count; i++) {
        if (d->params[i].grad.buf) continue;
        snprintf(key, sizeof key, "frozen.%s", rt_param_name(name, &d->params[i]));
        RT_TRY(step_put_view(t->x, d->params[i].value, key, put, ctx, e));
    }
out:
    return rc;
}

static inline rt_batch step_batch(const step_case *c, uint32_t b)
{
    b %= c->batches;
    return (rt_batch){ c->data[b][0], c->data[b][1], c->data[b][2], c->data[b][3], NULL };
}

static inline int step_eval(rt_trainer *t, const step_case *c, step_put put, void *ctx, rt_err *e)
{
    int rc;
    const rt_eval_views *v = &t->plan->eval;
    rt_batch b = step_batch(c, 0);
    RT_TRY(rt_trainer_eval(t, &b, &(rt_eval_out){ 0 }, e));
    RT_TRY(step_put_view(t->x, v->ce, "eval.ce", put, ctx, e));
    if (!t->plan->teacher) return RT_OK;
    if (v->div.buf) RT_TRY(step_put_view(t->x, v->div, "eval.div", put, ctx, e));
    RT_TRY(step_put_view(t->x, v->kl, "eval.kl", put, ctx, e));
    RT_TRY(step_put_view(t->x, v->top1, "eval.top1", put, ctx, e));
    RT_TRY(step_put_view(t->x, v->teacher_ce, "eval.teacher_ce", put, ctx, e));
out:
    return rc;
}

/* The trainer, after the last step; the caller frees it. */
static inline int step_train(rt_trainer **out, const step_case *c, rt_dev *dev, const step_weights *w, step_put put,
                             void *ctx, rt_err *e)
{
    enum { PARTS = 6 };
    static const char *const keys[PARTS] = { "step.loss",      "step.ce",        "step.div",
                                             "step.agreement", "step.grad_norm", "step.clip" };
    int rc;
    rt_trainer *t = NULL;
    double parts[PARTS][STEP_MAX_STEPS];
    RT_TRY(rt_trainer_open(&t, dev, &c->opts, &(rt_seal_opts){ .poison = true, .guards = true }, e));
    RT_TRY(w->trainer(w->ctx, t, c, e));
    RT_TRY(step_swap_rope(t->x, t->plan->student, c, 's', step_ignore, NULL, e));
    if (t->plan->teacher) RT_TRY(step_swap_rope(t->x, t->plan->teacher, c, 't', step_ignore, NULL, e));
    RT_TRY(step_eval(t, c, put, ctx, e));
    for (uint32_t s = 0; s < c->steps; s++) {
        rt_batch b[STEP_MAX_BATCHES];
        rt_step_result r;
        for (uint32_t k = 0; k < c->micro; k++) b[k] = step_batch(c, s * c->micro + k);
        RT_TRY(rt_trainer_step(t, b, c->micro, s + 1, c->lr[s], 0, &r, e));
        RT_TRY(rt_exec_check(t->x, e));
        const double values[PARTS] = { r.loss, r.ce, r.div, r.agreement, r.grad_norm, r.clip };
        for (int k = 0; k < PARTS; k++) parts[k][s] = values[k];
        if (s == 0) RT_TRY(step_put_state(t, 'g', put, ctx, e));
    }
    for (int k = 0; k < PARTS; k++) RT_TRY(put(ctx, keys[k], parts[k], c->steps, e));
    for (const char *what = "wmv"; *what; what++) RT_TRY(step_put_state(t, *what, put, ctx, e));
    *out = t;
    t = NULL;
out:
    rt_trainer_free(t);
    return rc;
}

#endif
