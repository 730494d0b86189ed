/* test_decoder.c - the decoder's gradients against differences in double, for every family, with adapters, with frozen
 * parts; and what must not change the numbers: recomputation, chunks of the head, joined projections, accumulation,
 * documents packed into a row, and a cache. */
#include "format_case.h"
#include "train/loss_plan.h"
#include "verify/grad.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { MAX_N = 64 };

typedef struct setup {
    rt_model_config config;
    rt_lora lora;
    bool frozen[256];
    bool no_teacher, accumulate;
    const rt_recompute *recompute; /* (layers) or null */
    uint32_t B, T, chunk;
    uint32_t cut; /* position at which the second document of a row begins; 0: none */
    const rt_dtype *dtypes;
    const rt_policy *policy;
    double h; /* of the differences: small where the loss is curved, large where a gradient is tiny; 0: 1e-3 */
} setup;

/* Everything that one problem needs. */
typedef struct problem {
    setup s;
    rt_space *space;
    rt_decoder *student, *teacher;
    rt_plan *forward, *backward, *next;
    rt_tokens tokens;
    rt_view target, step, fault, sums, teacher_hidden;
    int32_t ids[MAX_N], pos[MAX_N], start[MAX_N], targets[MAX_N];
    double freq[64];
    rt_step stepval;
    uint32_t no_fault[4];
} problem;

/* With all that the family can have, but for biases where a layer has no rope: that of k then changes no probability,
 * and its gradient is noise. */
static rt_model_config family_config(const rt_family *f)
{
    rt_model_config c = { .family = f,
                          .layers = 2,
                          .width = 10,
                          .heads = 4,
                          .kv_heads = 2,
                          .head_dim = 8,
                          .hidden = 9,
                          .vocab = 13,
                          .context = 64,
                          .qkv_bias = f->bias != RT_BIAS_NONE && !f->no_rope_every,
                          .o_bias = f->bias == RT_BIAS_KEY && !f->no_rope_every,
                          .mlp_bias = f->mlp_bias,
                          .qk_norm = f->qk_norm,
                          .tied = !f->head_dim_key,
                          .norm_eps = 1e-5,
                          .rope = { .kind = RT_ROPE_PLAIN, .theta = 100.0 },
                          .window = f->windows == RT_WINDOW_ALL ? 3 : 0,
                          .init_range = 0.02,
                          .bos = -1,
                          .pad = -1 };
    if (c.window) c.layer_flags[0] = c.layer_flags[1] = RT_LAYER_WINDOW;
    if (f->no_rope_every) c.layer_flags[1] |= RT_LAYER_NO_ROPE;
    return c;
}

static setup family_setup(const char *name)
{
    return (setup){
        .config = family_config(rt_family_find(name)), .B = 2, .T = 5, .chunk = 4, .cut = 2, .policy = &rt_policy_f64
    };
}

static const rt_loss_opts loss_opts = {
    .divergence = RT_DIV_FORWARD_KL, .temperature = 2.0, .ce_weight = 0.25, .kd_weight = 0.75, .t2 = true
};

static void fill_data(problem *m)
{
    const setup *s = &m->s;
    uint32_t N = s->B * s->T;
    float freq[64], scale;
    rt_err e = { 0 };
    m->stepval = (rt_step){ .step = 1 };
    for (uint32_t i = 0; i < N; i++) {
        uint32_t t = i % s->T, first = s->cut && t >= s->cut ? s->cut : 0;
        m->ids[i] = (int32_t)((i * 5 + 1) % s->config.vocab);
        m->start[i] = (int32_t)first;
        m->pos[i] = (int32_t)(t - first);
        m->targets[i] = i % 4 == 3 ? -1 : (int32_t)((i * 7 + 3) % s->config.vocab);
        m->stepval.tokens += m->targets[i] >= 0;
    }
    assert_int_equal(rt_rope_freqs(freq, &scale, s->config.head_dim, &s->config.rope, &e), RT_OK);
    for (uint32_t j = 0; j < s->config.head_dim / 2; j++) m->freq[j] = freq[j];
}

static void record(problem *m, rt_plan *p, bool grad)
{
    const setup *s = &m->s;
    uint32_t N = s->B * s->T;
    rt_err e = { 0 };
    rt_trace *trace = NULL;
    rt_dtype A = p->policy.act;
    rt_loss_io io = { .hidden = rt_act(p, A, N, s->config.width, "hidden"),
                      .dhidden = grad ? rt_act(p, A, N, s->config.width, "dhidden") : RT_NONE,
                      .teacher_hidden = m->teacher_hidden,
                      .target = m->target,
                      .step = m->step,
                      .fault = m->fault,
                      .sums = m->sums };
    if (grad) assert_int_equal(rt_trace_new(&trace, m->student, s->recompute, m->step, &e), RT_OK);
    rt_decoder_forward(p, m->student, &m->tokens, trace, io.hidden);
    rt_loss_record(p, m->student, s->no_teacher ? NULL : m->teacher, &io, &loss_opts, s->chunk);
    if (grad) rt_decoder_backward(p, m->student, &m->tokens, trace, io.dhidden, NULL);
    rt_trace_free(trace);
}

static void open_problem(problem *m, const setup *s)
{
    rt_err e = { 0 };
    uint32_t N = s->B * s->T;
    memset(m, 0, sizeof *m);
    m->s = *s;
    assert_true(N <= MAX_N);
    assert_int_equal(rt_space_new(&m->space, &e), RT_OK);
    rt_decoder_opts o = { .name = "student",
                          .policy = s->policy,
                          .dtypes = s->dtypes,
                          .train = true,
                          .accumulate = s->accumulate,
                          .frozen = s->frozen,
                          .lora = s->lora };
    assert_int_equal(rt_decoder_new(&m->student, m->space, &s->config, &o, &e), RT_OK);
    rt_decoder_opts to = { .name = "teacher", .policy = s->policy };
    assert_int_equal(rt_decoder_new(&m->teacher, m->space, &s->config, &to, &e), RT_OK);
    m->tokens = (rt_tokens){ .B = s->B, .T = s->T };
    m->tokens.ids = rt_space_buf(m->space, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "ids");
    m->tokens.pos = rt_space_buf(m->space, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "pos");
    m->tokens.start = rt_space_buf(m->space, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "start");
    m->target = rt_space_buf(m->space, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "target");
    m->step = rt_space_buf(m->space, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step");
    m->fault = rt_space_buf(m->space, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault");
    m->sums = rt_space_buf(m->space, RT_CLASS_OUTPUT, s->policy->scalar, 1, 4, "sums");
    m->teacher_hidden = rt_space_buf(m->space, RT_CLASS_INPUT, s->policy->act, N, s->config.width, "teacher hidden");
    fill_data(m);
    assert_int_equal(rt_plan_new(&m->forward, m->space, "forward", s->policy, &e), RT_OK);
    assert_int_equal(rt_plan_new(&m->backward, m->space, "backward", s->policy, &e), RT_OK);
    record(m, m->forward, false);
    record(m, m->backward, true);
    if (rt_plan_status(m->backward, &e) < 0 || rt_plan_status(m->forward, &e) < 0) fail_msg("%s", e.text);
}

static void close_problem(problem *m)
{
    rt_plan_free(m->forward);
    rt_plan_free(m->backward);
    rt_plan_free(m->next);
    rt_decoder_free(m->student);
    rt_decoder_free(m->teacher);
    rt_space_free(m->space);
}

static rt_dev *open_ref(void)
{
    const rt_backend *b;
    rt_dev *d = NULL;
    rt_err e = { 0 };
    assert_int_equal(rt_backend_find("ref", &b, &e), RT_OK);
    assert_int_equal(b->open(&d, 0, &(rt_dev_opts){ 0 }, &e), RT_OK);
    return d;
}

/* Fixed data, and values for what is not varied: the teacher's head and the frozen parameters. */
static void check_gradients(const setup *s, uint32_t least_vars, const char *what)
{
    static char names[128][RT_NAME_BYTES];
    static double head[4096], hidden[4096], frozen[RT_GRAD_DATA][1024];
    rt_err e = { 0 };
    problem m;
    rt_dev *ref = open_ref();
    rt_grad_report r;
    open_problem(&m, s);
    rt_grad_problem g = {
        .space = m.space, .forward = m.forward, .backward = m.backward, .seed = 77, .spread = 0.6, .h = s->h
    };
    uint32_t left = 0;
    const rt_grad_data data[] = {
        { m.student->freq, m.freq }, { m.tokens.ids, m.ids },      { m.tokens.pos, m.pos },
        { m.tokens.start, m.start }, { m.target, m.targets },      { m.step, &m.stepval },
        { m.fault, m.no_fault },     { m.teacher_hidden, hidden }, { m.teacher->params[m.teacher->head].value, head }
    };
    for (uint32_t i = 0; i < 4096; i++) head[i] = rt_test_normal(3, i), hidden[i] = rt_test_normal(4, i);
    for (uint32_t i = 0; i < 9; i++) g.data[g.ndata++] = data[i];
    for (uint32_t i = 0; i < m.student->param_count; i++) {
        rt_param *p = &m.student->params[i];
        rt_param_name(names[i], p);
        if (p->grad.buf) {
            assert_true(g.nvars < RT_GRAD_VARS);
            g.var[g.nvars++] = (rt_grad_var){ p->value, p->grad, names[i] };
        } else if (g.ndata < RT_GRAD_DATA) {
            for (uint32_t k = 0; k < 1024; k++) frozen[left][k] = 0.6 * rt_test_normal(900 + i, k);
            g.data[g.ndata++] = (rt_grad_data){ p->value, frozen[left++] };
        } else
            fail_msg("%s: too many frozen parameters for this test", what);
    }
    assert_true(g.nvars >= least_vars);
    double weights[4] = { 0.25 / m.stepval.tokens, s->no_teacher ? 0 : 0.75 * 4.0 / m.stepval.tokens, 0, 0 };
    g.out[g.nouts++] = (rt_grad_out){ m.sums, RT_NONE, weights };
    if (rt_grad_check(ref, &g, &r, &e) < 0) fail_msg("%s: %s", what, e.text);
    if (!(r.worst < 1)) fail_msg("%s: %s (%.3g of the limit)", what, r.where, r.worst);
    print_message("%s: %llu elements, worst %.2g of 1e-6\n", what, (unsigned long long)r.checked, r.worst);
    close_problem(&m);
    ref->api->close(ref);
}

static void test_families(void **state)
{
    (void)state;
    for (const rt_family *const *f = rt_families; *f; f++) {
        setup s = family_setup((*f)->name);
        check_gradients(&s, 18, (*f)->name);
    }
}

static void test_recompute(void **state)
{
    (void)state;
    setup s = family_setup("qwen3");
    static const rt_recompute every[] = { RT_RECOMPUTE_BLOCK, RT_RECOMPUTE_BLOCK },
                              mixed[] = { RT_RECOMPUTE_MLP, RT_RECOMPUTE_NORMS },
                              other[] = { RT_RECOMPUTE_NONE, RT_RECOMPUTE_BLOCK },
                              nothing[] = { RT_RECOMPUTE_NOTHING, RT_RECOMPUTE_NOTHING };
    s.recompute = nothing;
    check_gradients(&s, 18, "qwen3, nothing recomputed");
    s.recompute = every;
    check_gradients(&s, 18, "qwen3 recomputed");
    s.recompute = mixed;
    check_gradients(&s, 18, "qwen3, MLP and q/k norms recomputed");
    s.recompute = other;
    check_gradients(&s, 18, "qwen3, one layer of two recomputed");
}

static void test_no_teacher(void **state)
{
    (void)state;
    setup s = family_setup("qwen2");
    s.no_teacher = true;
    s.chunk = 10;
    check_gradients(&s, 18, "qwen2 without a teacher");
}

static void test_adapters(void **state)
{
    (void)state;
    setup s = family_setup("qwen2");
    s.config.layers = 2;
    s.lora = (rt_lora){ .rank = 3, .alpha = 5.0, .roles = RT_LORA_ROLES };
    s.h = 2e-4;
    check_gradients(&s, 28, "adapters on everything");
    s.lora.roles = 1u << RT_ROLE_Q | 1u << RT_ROLE_DOWN;
    check_gradients(&s, 8, "adapters on q and down");
}

/* Parts frozen by role and by layer: the projections of a group are then no longer joined, and backward ends early. */
static void test_frozen(void **state)
{
    (void)state;
    setup s = family_setup("llama");
    rt_role role;
    uint32_t layer, n = 0;
    for (uint32_t i = 0; rt_param_at(&s.config, i, &role, &layer); i++)
        n += s.frozen[i] = role == RT_ROLE_K || role == RT_ROLE_UP_BIAS || role == RT_ROLE_FINAL_NORM;
    assert_true(n == 5);
    s.h = 4e-4;
    check_gradients(&s, 20, "k, up's bias and the last norm frozen");
    for (uint32_t i = 0; rt_param_at(&s.config, i, &role, &layer); i++)
        s.frozen[i] = role == RT_ROLE_EMBED || (rt_role_per_layer(role) && layer == 0) || role == RT_ROLE_ATTN_NORM;
    s.h = 2e-3;
    check_gradients(&s, 12, "the embedding and the first layer frozen");
}

static uint32_t count_ops(const rt_plan *p, rt_op_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->nops; i++) n += p->ops[i].kind == kind;
    return n;
}

/* Queries and keys are rotated by one op where they lie side by side, by two where a norm moved them apart. */
static void test_rope_once(void **state)
{
    (void)state;
    static const struct {
        const char *family;
        uint32_t ops;
    } expected[] = { { "qwen2", 2 }, { "qwen3", 4 }, { "smollm3", 1 } }; /* of two layers */
    for (uint32_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        problem m;
        setup s = family_setup(expected[i].family);
        open_problem(&m, &s);
        assert_int_equal(count_ops(m.backward, RT_OP_ROPE_FWD), expected[i].ops);
        assert_int_equal(count_ops(m.backward, RT_OP_ROPE_BWD), expected[i].ops);
        close_problem(&m);
    }
}

static int make_decoder(void *ctx, rt_err *e)
{
    int rc;
    rt_space *space = NULL;
    rt_decoder *d = NULL;
    rt_decoder_opts o = { .name = "student", .policy = &rt_policy_f64, .train = true };
    RT_TRY(rt_space_new(&space, e));
    RT_TRY(rt_decoder_new(&d, space, ctx, &o, e));
out:
    rt_decoder_free(d);
    rt_space_free(space);
    return rc;
}

/* Many layers, so that no two lists of parameters share a block of memory. */
static void test_out_of_memory(void **state)
{
    (void)state;
    rt_model_config c = family_config(rt_family_find("llama"));
    c.layers = 60;
    fail_each(make_decoder, &c, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_families),      cmocka_unit_test(test_recompute), cmocka_unit_test(test_no_teacher),
        cmocka_unit_test(test_adapters),      cmocka_unit_test(test_frozen),    cmocka_unit_test(test_rope_once),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
