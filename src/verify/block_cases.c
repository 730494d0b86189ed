/* block_cases.c - a whole decoder with head and loss, forward and backward, on the tested backend.
 *
 * Three claims for each storage policy. The same bits from every device of the backend (1, 2 and 7 threads), from a
 * second run, and without memory reuse. And an error against double that is close to the least that this storage
 * allows: the least is measured, by running the very same plan, with the same storage, computed in double. */
#include "verify/block.h"
#include "verify/case.h"

#include <math.h>
#include <stdio.h>

typedef struct block_case {
    const rt_block_shape *shape;
    const rt_policy *policy;
} block_case;

/* What a run leaves behind: gradients of all parameters (the embedding's rows are those of the inputs), CE, D and
 * top-1 of every position, their sums; as stored, one after another, each at a multiple of 4 bytes. */
typedef struct result {
    uint8_t *bytes;
    uint64_t size;
} result;

/* Output i of a block: false past the last. */
static bool output(const rt_block *b, uint32_t i, rt_view *v, char name[RT_NAME_BYTES])
{
    uint32_t n = b->decoder->param_count;
    if (i > n + 3) return false;
    *v = i < n ? b->decoder->params[i].grad : i < n + 3 ? b->each[i - n] : b->sums;
    if (i < n)
        rt_param_name(name, &b->decoder->params[i]);
    else
        strcpy(name, i == n ? "CE" : i == n + 1 ? "divergence" : i == n + 2 ? "top-1" : "sums");
    return true;
}

static int read_all(rt_exec *x, const rt_block *b, rt_arena *memory, result *out, rt_err *e)
{
    int rc = RT_OK;
    rt_view v;
    char name[RT_NAME_BYTES];
    uint64_t at = 0;
    out->size = 0;
    for (uint32_t i = 0; output(b, i, &v, name); i++) out->size += rt_align_up(rt_view_bytes(b->step, v), 4);
    out->bytes = rt_arena_alloc(memory, out->size);
    if (!out->bytes) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the block's gradients"));
    for (uint32_t i = 0; output(b, i, &v, name); i++) {
        RT_TRY(rt_exec_read(x, v, out->bytes + at, rt_view_bytes(b->step, v), e));
        at += rt_align_up(rt_view_bytes(b->step, v), 4);
    }
out:
    return rc;
}

/* Seals, fills, runs `times`, reads. */
static int run_on(rt_dev *d, const rt_block *b, rt_seal_opts o, int times, rt_arena *memory, result *out, rt_err *e)
{
    int rc;
    rt_exec *x = NULL;
    const rt_plan *plan = b->step;
    RT_TRY(rt_exec_seal(&x, d, &plan, 1, &o, e));
    RT_TRY(rt_block_fill(x, b, e));
    for (int i = 0; i < times; i++) RT_TRY(rt_exec_run(x, 0, NULL, e));
    RT_TRY(read_all(x, b, memory, out, e));
out:
    rt_exec_free(x);
    return rc;
}

/* The same data in double: stored values widened exactly, so that only arithmetic and storage differ. */
static int spec_in_double(rt_verify_env *env, const rt_block *b, result *out, rt_err *e)
{
    int rc;
    rt_exec *x = NULL, *y = NULL;
    rt_block *wide = NULL;
    const rt_plan *plan[2];
    RT_TRY(rt_block_new(&wide, &b->shape, &rt_policy_f64, e));
    plan[0] = wide->step;
    plan[1] = b->step;
    RT_TRY(rt_exec_seal(&x, env->spec, &plan[0], 1, NULL, e));
    RT_TRY(rt_exec_seal(&y, env->spec, &plan[1], 1, NULL, e));
    RT_TRY(rt_block_fill(x, wide, e));
    RT_TRY(rt_block_fill(y, b, e));
    for (uint32_t i = 0; i < b->space->nbufs; i++) { /* the two spaces declare the same buffers in the same order */
        const rt_buffer *narrow = &b->space->bufs[i];
        uint64_t n = (uint64_t)narrow->rows * narrow->cols;
        rt_view v = { i + 1, narrow->rows, narrow->cols, 0, narrow->cols };
        if (!rt_dtype_is_float(narrow->dtype) || (narrow->cls != RT_CLASS_PARAM && narrow->cls != RT_CLASS_INPUT))
            continue;
        uint8_t *stored = rt_arena_alloc(&env->scratch, narrow->bytes);
        double *value = rt_arena_alloc(&env->scratch, n * sizeof *value);
        if (!stored || !value) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to widen the block's data"));
        RT_TRY(rt_exec_read(y, v, stored, narrow->bytes, e));
        rt_float_to_f64(value, stored, narrow->dtype, n);
        RT_TRY(rt_exec_write(x, v, value, n * sizeof *value, e));
    }
    RT_TRY(rt_exec_run(x, 0, NULL, e));
    RT_TRY(read_all(x, wide, &env->scratch, out, e));
out:
    rt_exec_free(x);
    rt_exec_free(y);
    rt_block_free(wide);
    return rc;
}

/* |got - want| / |want| in the Euclidean norm. */
static int distance(const void *got, rt_dtype d, const double *want, uint64_t n, rt_arena *memory, double *out,
                    rt_err *e)
{
    double *g = rt_arena_alloc(memory, n * sizeof *g), num = 0, den = 0;
    if (!g) return rt_fail(e, RT_NOMEM, "no memory to compare a gradient");
    rt_float_to_f64(g, got, d, n);
    for (uint64_t k = 0; k < n; k++) {
        num += (g[k] - want[k]) * (g[k] - want[k]);
        den += want[k] * want[k];
    }
    *out = den > 0 ? sqrt(num / den) : sqrt(num);
    return RT_OK;
}

/* What f32 arithmetic through some twenty ops adds to what storage alone costs: 2^-24 times the square root of the
 * longest sum (a few hundred) times the condition of the softmax chain; measured 4e-7 to 2e-6. */
static const double ARITHMETIC = 1e-5;
/* Ours and the least are two draws of the same rounding noise: the norm of one small tensor varies by tens of per cent
 * between draws, the root mean square over all tensors by a few. So the whole is held tightly and each tensor loosely;
 * a dropped or doubled term is off by orders of magnitude. */
static const double ONE_TENSOR = 2.0, ALL_TENSORS = 1.25;

static void judge(rt_case_result *r, const char *name, double ours, double least, double factor)
{
    double allowed = factor * least + ARITHMETIC;
    if (!(ours / allowed <= r->error)) r->error = isnan(ours) ? INFINITY : ours / allowed;
    if (ours <= allowed || r->outcome != RT_CASE_PASS) return;
    r->outcome = RT_CASE_FAIL;
    snprintf(r->text, sizeof r->text, "%s: error %.3g, allowed %.3g (the storage alone costs %.3g)", name, ours,
             allowed, least);
}

/* value: CE, D and top-1 (N) of every position, then the sums. A sum is one draw of its noise, which tells nothing of
 * how large the noise is: so the values are held to what storage costs, and the sums to the values. */
static void check_sums(const float *value, uint32_t N, double positions, rt_case_result *r)
{
    const float *each = value, *sums = value + 3 * (uint64_t)N;
    for (uint64_t i = 0; i < 3; i++) {
        double sum = 0;
        for (uint32_t k = 0; k < N; k++) sum += each[i * N + k];
        judge(r, "sums", fabs(sums[i] - sum) / fmax(sum, 1), 0, 0);
    }
    judge(r, "trained positions", fabs(sums[3] - positions), 0, 0);
}

static int compare(rt_verify_env *env, const rt_block *b, const result *got, const result *best, const result *want,
                   rt_case_result *r, rt_err *e)
{
    int rc = RT_OK;
    rt_view v;
    char name[RT_NAME_BYTES];
    uint64_t at = 0, at_wide = 0, at_each = 0;
    double sum_ours = 0, sum_least = 0;
    uint32_t params = b->decoder->param_count, tensors = params + 2;
    for (uint32_t i = 0; i < tensors && output(b, i, &v, name); i++) {
        if (i == params) at_each = at;
        rt_dtype d = rt_plan_dtype(b->step, v);
        uint64_t n = (uint64_t)v.rows * v.cols;
        double ours, least;
        const double *w = (const double *)(const void *)(want->bytes + at_wide);
        RT_TRY(distance(got->bytes + at, d, w, n, &env->scratch, &ours, e));
        RT_TRY(distance(best->bytes + at, d, w, n, &env->scratch, &least, e));
        judge(r, name, ours, least, ONE_TENSOR);
        sum_ours += ours * ours;
        sum_least += least * least;
        at += rt_align_up(rt_dtype_bytes(d, n), 4);
        at_wide += n * sizeof(double);
    }
    const double *last = (const double *)(const void *)(want->bytes + want->size) - 1;
    check_sums((const float *)(const void *)(got->bytes + at_each), b->shape.B * b->shape.T, *last, r);
    judge(r, "all gradients together", sqrt(sum_ours / tensors), sqrt(sum_least / tensors), ALL_TENSORS);
out:
    return rc;
}

static void same_bits(const result *a, const result *b, const char *what, rt_case_result *r)
{
    if (r->outcome != RT_CASE_PASS || memcmp(a->bytes, b->bytes, a->size) == 0) return;
    r->outcome = RT_CASE_FAIL;
    snprintf(r->text, sizeof r->text, "%s: other bits", what);
}

static int run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    int rc;
    const block_case *k = c->data;
    rt_block *b = NULL;
    result first, again, best, want;
    rt_seal_opts plain = { .memory_limit = env->opts->memory_limit }, poison = plain, apart = plain;
    poison.poison = true;
    apart.no_reuse = true;
    RT_TRY(rt_block_new(&b, k->shape, k->policy, e));
    RT_TRY(run_on(env->dev[0], b, plain, 1, &env->scratch, &first, e));
    RT_TRY(run_on(env->dev[0], b, plain, 2, &env->scratch, &again, e));
    same_bits(&first, &again, "the second run", r);
    RT_TRY(run_on(env->dev[0], b, poison, 1, &env->scratch, &again, e));
    same_bits(&first, &again, "with dead memory poisoned", r);
    RT_TRY(run_on(env->dev[0], b, apart, 1, &env->scratch, &again, e));
    same_bits(&first, &again, "without memory reuse", r);
    for (uint32_t i = 1; i < env->ndevs; i++) {
        RT_TRY(run_on(env->dev[i], b, plain, 1, &env->scratch, &again, e));
        same_bits(&first, &again, "with another number of threads", r);
    }
    RT_TRY(run_on(env->spec, b, plain, 1, &env->scratch, &best, e));
    RT_TRY(spec_in_double(env, b, &want, e));
    RT_TRY(compare(env, b, &first, &best, &want, r, e));
out:
    if (rc == RT_UNSUPPORTED && e) {
        r->outcome = RT_CASE_UNSUPPORTED;
        snprintf(r->text, sizeof r->text, "%.299s", e->text);
        rc = RT_OK;
    }
    rt_block_free(b);
    return rc;
}

static const char *recomputed(const rt_block_shape *s)
{
    for (uint32_t i = 1; i < s->config.layers; i++)
        if (s->recompute[i] != s->recompute[0]) return ",mixed";
    return s->recompute[0] ? ",recompute" : "";
}

static void add_one(rt_case_list *l, const rt_block_shape *s, const rt_policy *policy, bool quick)
{
    const rt_model_config *m = &s->config;
    rt_case *c = rt_case_add(l, "block", "block/%s/B%uT%uL%uC%uH%uK%uD%uF%uV%u%s%s%s%s%s%s%s",
                             rt_dtype_name(policy->act), s->B, s->T, m->layers, m->width, m->heads, m->kv_heads,
                             m->head_dim, m->hidden, m->vocab, m->qkv_bias || m->mlp_bias ? ",bias" : "",
                             m->qk_norm ? ",qk_norm" : "", s->documents ? ",documents" : "", m->window ? ",window" : "",
                             m->tied ? ",tied" : "", recomputed(s), s->lora.dropout > 0 ? ",dropout" : "");
    block_case *k = rt_case_alloc(l, sizeof *k);
    if (!c || !k) return;
    *k = (block_case){ s, policy };
    c->quick = quick;
    c->run = run;
    c->data = k;
}

static void add(rt_case_list *l)
{
    static const rt_policy *const policies[] = { &rt_policy_f32, &rt_policy_bf16, &rt_policy_f16 };
    static const rt_block_shape large = { .config = { RT_BLOCK_DIMS(1, 72, 6, 2, 24, 200, 611), .qkv_bias = true,
                                                      .o_bias = true, .qk_norm = true },
                                          .B = 2,
                                          .T = 150,
                                          .chunk = 128,
                                          .documents = true,
                                          .divergence = RT_DIV_FORWARD_KL,
                                          .temperature = 1.0f };
    const rt_block_shape *s;
    for (int p = 0; p < 3; p++) {
        for (uint32_t i = 0; (s = rt_block_gradient_shape(i)) != NULL; i++) add_one(l, s, policies[p], true);
        add_one(l, &large, policies[p], false);
    }
}

const rt_case_family rt_family_block = { "block", add };
