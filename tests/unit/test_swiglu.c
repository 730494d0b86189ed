/* test_swiglu.c - the activation that swiglu's backward gives again: to forward's bits on every backend of the host,
 * and asked for only where something reads it. */
#include "exec_case.h"
#include "num/dtype.h"
#include "op/emit.h"
#include "train/step_plan.h"

#include <string.h>

enum { N = 7, F = 1003, ALL = N * F }; /* three vectors of every width, and a rest */

/* g from -20 to 20: both sides of the sigmoid, and where it saturates */
static void values(float *x, uint32_t seed, float scale)
{
    for (uint32_t i = 0; i < ALL; i++) {
        seed = seed * 1664525u + 1013904223u;
        x[i] = ((float)(seed >> 8) / (float)(1 << 23) - 1) * scale;
    }
}

static rt_view buffer(rt_space *s, rt_dtype d, const char *name)
{
    return rt_space_buf(s, RT_CLASS_STATE, d, N, F, name);
}

static void write(rt_exec *x, rt_view v, rt_dtype d, uint32_t seed, float scale)
{
    static float f32[ALL], raw[ALL];
    rt_err e = { 0 };
    values(f32, seed, scale);
    rt_float_from_f32(raw, f32, d, ALL);
    ok(rt_exec_write(x, v, raw, rt_dtype_bytes(d, ALL), &e), &e);
}

static void same_bits_on(rt_dev *dev, rt_dtype d)
{
    static float forward[ALL], backward[ALL];
    rt_policy policy = rt_policy_f32;
    rt_space *s;
    rt_plan *p;
    rt_exec *x;
    rt_err e = { 0 };
    policy.act = d;
    ok(rt_space_new(&s, &e), &e);
    rt_view g = buffer(s, d, "g"), u = buffer(s, d, "u"), dy = buffer(s, d, "dy"), y = buffer(s, d, "y");
    ok(rt_plan_new(&p, s, "both", &policy, &e), &e);
    rt_emit_swiglu_fwd(p, y, RT_NONE, g, u);
    rt_emit_swiglu_bwd(p, g, u, dy, dy, g, u);
    ok(rt_exec_seal(&x, dev, (const rt_plan *const *)&p, 1, NULL, &e), &e);
    write(x, g, d, 1, 20);
    write(x, u, d, 2, 3);
    write(x, dy, d, 3, 1);
    run(x, 0);
    uint64_t bytes = rt_dtype_bytes(d, ALL);
    ok(rt_exec_read(x, y, forward, bytes, &e), &e);
    ok(rt_exec_read(x, dy, backward, bytes, &e), &e);
    assert_memory_equal(forward, backward, bytes);
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
}

static void test_bits_of_forward(void **state)
{
    static const rt_dtype types[] = { RT_DTYPE_F32, RT_DTYPE_BF16, RT_DTYPE_F16 };
    static const char *const names[] = { "ref", "cpu" };
    (void)state;
    for (int b = 0; b < 2; b++) {
        rt_dev *dev = open_dev(names[b], 1);
        for (int i = 0; i < 3; i++) same_bits_on(dev, types[i]);
        dev->api->close(dev);
    }
}

/* ---- the ops that a step records ---- */

enum { LAYERS = 2 };

typedef struct counts {
    uint32_t forward, backward, with_y;
} counts;

static counts count(const bool *frozen, rt_lora lora, rt_recompute recompute)
{
    rt_err e = { 0 };
    rt_step_plan *s;
    counts n = { 0 };
    rt_model_config c = { .layers = LAYERS,
                          .width = 16,
                          .heads = 2,
                          .kv_heads = 1,
                          .head_dim = 8,
                          .hidden = 24,
                          .vocab = 31,
                          .context = 8,
                          .norm_eps = 1e-5,
                          .rope = { .kind = RT_ROPE_PLAIN, .theta = 100.0 } };
    rt_step_opts o = { .B = 2,
                       .T = 8,
                       .recompute = rt_recompute_every(recompute),
                       .loss = { .ce_weight = 1, .temperature = 1 },
                       .policy = rt_policy_f32,
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .eps = 1e-8,
                       .student = &c,
                       .frozen = frozen,
                       .lora = lora };
    ok(rt_step_plan_new(&s, &o, &e), &e);
    const rt_plan *p = s->plan[RT_PROGRAM_FIRST];
    for (uint32_t i = 0; i < p->nops; i++) {
        n.forward += p->ops[i].kind == RT_OP_SWIGLU_FWD;
        n.backward += p->ops[i].kind == RT_OP_SWIGLU_BWD;
        n.with_y += p->ops[i].kind == RT_OP_SWIGLU_BWD && p->ops[i].slot[RT_GLUB_Y].buf != 0;
    }
    rt_step_plan_free(s);
    return n;
}

static void test_never_forward_again(void **state)
{
    bool frozen[64] = { 0 };
    rt_role role;
    uint32_t layer;
    rt_model_config c = { .layers = LAYERS, .width = 16, .heads = 2, .kv_heads = 1, .head_dim = 8, .hidden = 24 };
    rt_lora down = { .rank = 2, .alpha = 4, .roles = 1u << RT_ROLE_DOWN }, q = { 2, 4, .roles = 1u << RT_ROLE_Q };
    (void)state;
    for (uint32_t i = 0; rt_param_at(&c, i, &role, &layer); i++) frozen[i] = role == RT_ROLE_DOWN;
    for (rt_recompute r = RT_RECOMPUTE_NOTHING; r <= RT_RECOMPUTE_BLOCK; r++) {
        uint32_t again = r == RT_RECOMPUTE_NOTHING ? 0 : LAYERS; /* else it was kept */
        counts all = count(NULL, (rt_lora){ 0 }, r), none = count(frozen, (rt_lora){ 0 }, r);
        counts adapted = count(NULL, down, r), elsewhere = count(NULL, q, r);
        assert_int_equal(all.forward, LAYERS);
        assert_int_equal(all.backward, LAYERS);
        assert_int_equal(all.with_y, again);
        assert_int_equal(none.forward, LAYERS);
        assert_int_equal(none.with_y, 0);
        assert_int_equal(adapted.with_y, again);
        assert_int_equal(elsewhere.backward, LAYERS);
        assert_int_equal(elsewhere.with_y, 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_bits_of_forward),
                                        cmocka_unit_test(test_never_forward_again) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
