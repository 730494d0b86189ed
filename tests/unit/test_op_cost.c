/* test_op_cost.c - the arithmetic and the bytes of every op, against numbers worked out by hand or by counting. */
#include "op/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static rt_space *space;
static rt_plan *plan;

static int setup(void **state)
{
    (void)state;
    return rt_space_new(&space, NULL) < 0 || rt_plan_new(&plan, space, "cost", &rt_policy_f32, NULL) < 0;
}

static int teardown(void **state)
{
    (void)state;
    rt_plan_free(plan);
    rt_space_free(space);
    return 0;
}

static rt_view in(rt_dtype d, uint32_t rows, uint32_t cols)
{
    return rt_space_buf(space, RT_CLASS_INPUT, d, rows, cols, "in");
}

static rt_view f32(uint32_t rows, uint32_t cols) { return in(RT_DTYPE_F32, rows, cols); }

static rt_view bf16(uint32_t rows, uint32_t cols) { return in(RT_DTYPE_BF16, rows, cols); }

static rt_view i32(uint32_t rows, uint32_t cols) { return in(RT_DTYPE_I32, rows, cols); }

/* Nothing wrote it before: an accumulating op assigns it. */
static rt_view out(rt_dtype d, uint32_t rows, uint32_t cols)
{
    return rt_space_buf(space, RT_CLASS_GRAD, d, rows, cols, "out");
}

static void check(uint64_t flops, uint64_t bytes, int line)
{
    rt_err e = { 0 };
    if (rt_plan_status(plan, &e) != RT_OK) fail_msg("line %d: %s", line, e.text);
    const rt_op *op = &plan->ops[plan->nops - 1];
    uint64_t f = rt_op_flops(plan, op), b = rt_op_bytes(plan, op);
    if (f != flops || b != bytes)
        fail_msg("line %d: %s has %llu FLOP, %llu bytes; expected %llu, %llu", line, rt_op_name(op->kind),
                 (unsigned long long)f, (unsigned long long)b, (unsigned long long)flops, (unsigned long long)bytes);
}

/* The last op that the call recorded */
#define COST(flops, bytes, call)                                                                                       \
    do {                                                                                                               \
        call;                                                                                                          \
        check(flops, bytes, __LINE__);                                                                                 \
    } while (0)

static void test_layers(void **state)
{
    (void)state;
    const rt_dtype F = RT_DTYPE_F32, H = RT_DTYPE_BF16;
    rt_view none = RT_NONE, x = f32(5, 12), w = f32(1, 12), ids = i32(5, 1);
    /* gathers count the rows that they touch: 5 of 11, but never more than there are */
    COST(0, 4 * (60 + 60 + 5), rt_emit_embed_fwd(plan, out(F, 5, 12), f32(11, 12), ids));
    COST(0, 4 * (60 + 24 + 5), rt_emit_embed_fwd(plan, out(F, 5, 12), f32(2, 12), ids));
    COST(2 * 5 * 64, 4 * 5 * 64 + 5 * 2 * 34 + 20,
         rt_emit_embed_fwd(plan, out(F, 5, 64), in(RT_DTYPE_Q8_0, 11, 64), ids));
    COST(60, 4 * (2 * 60 + 60 + 5), rt_emit_embed_bwd(plan, out(F, 11, 12), x, ids));
    COST(4 * 60, 4 * (60 + 60 + 12), rt_emit_rmsnorm_fwd(plan, out(F, 5, 12), RT_NONE, x, w, 1, 1));
    COST(4 * 60, 4 * (60 + 60 + 4), rt_emit_rmsnorm_fwd(plan, out(F, 5, 12), RT_NONE, x, f32(1, 4), 3, 1));
    rt_view dx = out(F, 5, 12), dw = out(F, 1, 12), dy = f32(5, 12), half = bf16(5, 12);
    COST(11 * 60, 4 * (60 + 12 + 60 + 60 + 12), rt_emit_rmsnorm_bwd(plan, dx, dw, dy, x, w, 1, 1));
    COST(11 * 60, 4 * (120 + 24 + 60 + 60 + 12), rt_emit_rmsnorm_bwd(plan, dx, dw, dy, x, w, 1, 1)); /* += */
    COST(8 * 60, 4 * (120 + 60 + 60 + 12), rt_emit_rmsnorm_bwd(plan, dx, none, dy, x, w, 1, 1));
    COST(5 * 60, 2 * 60 * 4 + 4 * 12,
         rt_emit_add_rmsnorm_fwd(plan, out(H, 5, 12), RT_NONE, out(H, 5, 12), half, bf16(5, 12), w, 1));
    COST(12 * 60, 4 * (4 * 60 + 12 + 12),
         rt_emit_add_rmsnorm_bwd(plan, out(F, 5, 12), out(F, 1, 12), dy, x, w, f32(5, 12), 1));
    COST(9 * 60, 4 * (4 * 60 + 12), rt_emit_add_rmsnorm_bwd(plan, out(F, 5, 12), none, dy, x, w, f32(5, 12), 1));
    rt_view o = out(F, 5, 7);
    COST(2 * 5 * 7 * 12, 4 * 35 + 2 * 60 + 4 * 84 + 4 * 7,
         rt_emit_matmul(plan, o, half, f32(12, 7), f32(1, 7), "nn", 1));
    COST(2 * 5 * 7 * 12, 8 * 35 + 4 * 60 + 4 * 84, rt_emit_matmul(plan, o, f32(12, 5), f32(7, 12), none, "tt", 1));
    COST(2 * 5 * 7 * 32, 8 * 35 + 4 * 5 * 32 + 7 * 18,
         rt_emit_matmul(plan, o, f32(5, 32), in(RT_DTYPE_Q4_0, 7, 32), none, "nt", 1));
    COST(60, 4 * (12 + 60), rt_emit_bias_grad(plan, out(F, 1, 12), x));
    COST(3 * 60, 4 * (60 + 60 + 2 + 5), rt_emit_rope_fwd(plan, out(F, 5, 12), x, f32(1, 2), ids, 1));
    COST(3 * 60, 4 * (60 + 60 + 2 + 5), rt_emit_rope_bwd(plan, x, x, f32(1, 2), ids, 1)); /* in place */
    COST(5 * 60, 4 * 3 * 60, rt_emit_swiglu_fwd(plan, out(F, 5, 12), RT_NONE, x, dy));
    COST(10 * 60, 4 * 5 * 60, rt_emit_swiglu_bwd(plan, out(F, 5, 12), out(F, 5, 12), none, f32(5, 12), x, dy));
    COST(11 * 60, 4 * 6 * 60, rt_emit_swiglu_bwd(plan, out(F, 5, 12), out(F, 5, 12), out(F, 5, 12), f32(5, 12), x, dy));
}

/* Visible pairs one by one: position i of T sees j <= i with i - j < window. */
static uint64_t pairs(uint32_t first, uint32_t end, uint32_t window)
{
    uint64_t n = 0;
    for (uint32_t i = first; i < end; i++)
        for (uint32_t j = 0; j <= i; j++) n += window == 0 || i - j < window;
    return n;
}

static void test_attention(void **state)
{
    (void)state;
    const rt_dtype F = RT_DTYPE_F32;
    rt_view none = RT_NONE, q = f32(12, 32), k = f32(12, 16), v = f32(12, 16), lse = f32(12, 4);
    rt_view kc = f32(30, 16), vc = f32(30, 16), len = i32(3, 1), nq = f32(6, 32);
    assert_int_equal(pairs(0, 6, 0), 21);
    for (uint32_t window = 0; window <= 12; window++) {
        const rt_attn_shape s = { .T = 6, .H = 4, .K = 2, .D = 8, .window = window };
        uint64_t n = 2 * 4 * pairs(0, 6, window);
        COST(4 * 8 * n, 4 * (12 * 32 * 2 + 12 * 16 * 2 + 12 * 4),
             rt_emit_attn_fwd(plan, out(F, 12, 32), out(F, 12, 4), q, k, v, none, &s));
        COST(10 * 8 * n, 4 * (12 * 32 * 4 + 12 * 16 * 4 + 12 * 4 + 12),
             rt_emit_attn_bwd(plan, out(F, 12, 32), out(F, 12, 16), out(F, 12, 16), f32(12, 32), q, k, v, f32(12, 32),
                              lse, i32(12, 1), &s));
        const rt_attn_shape two = { .T = 2, .H = 4, .K = 2, .D = 8, .window = window };
        uint32_t rows = window && window + 1 < 10 ? window + 1 : 10; /* of each cache that two queries see */
        COST(4 * 8 * 3 * 4 * pairs(8, 10, window), 4 * (6 * 32 * 2 + 3 * rows * 16 * 2 + 3),
             rt_emit_attn_decode(plan, out(F, 6, 32), nq, kc, vc, len, none, &two));
    }
}

static void test_rows(void **state)
{
    (void)state;
    const rt_dtype F = RT_DTYPE_F32, Q = RT_DTYPE_Q4_K;
    rt_view x = f32(5, 12), none = RT_NONE;
    COST(60, 4 * 180, rt_emit_add(plan, out(F, 5, 12), x, f32(5, 12)));
    COST(60, 4 * 121, rt_emit_scale(plan, out(F, 5, 12), x, f32(1, 1), 2));
    COST(0, 2 * 60 + 4 * 60, rt_emit_cast(plan, out(RT_DTYPE_BF16, 5, 12), x));
    COST(0, 4 * 120, rt_emit_copy(plan, out(F, 5, 12), x, none));
    COST(0, 4 * 125, rt_emit_copy(plan, f32(50, 12), x, i32(5, 1)));
    COST(0, 4 * (36 + 60 + 5), rt_emit_copy(plan, f32(3, 12), x, i32(5, 1)));
    COST(0, 4 * 60, rt_emit_fill(plan, out(F, 5, 12), 1));
    COST(2 * 512, 4 * 512 + 288, rt_emit_dequant(plan, out(F, 1, 512), in(Q, 1, 512)));
    COST(4 * 512, 4 * 512 + 288, rt_emit_quant(plan, out(Q, 1, 512), f32(1, 512)));
    COST(2 * 60, 4 * 61, rt_emit_norm_sq(plan, out(F, 1, 1), x, none, none, 0));
    COST(4, 4 * 3, rt_emit_clip(plan, out(F, 1, 1), out(F, 1, 1), f32(1, 1), none, none, 1, 0));
    /* a part of a row counts its own columns, not the gaps */
    rt_view wide = f32(5, 100);
    COST(0, 4 * 2 * 15, rt_emit_copy(plan, out(F, 5, 3), rt_view_cols(plan, wide, 7, 3), none));
}

static void test_loss_and_update(void **state)
{
    (void)state;
    const rt_dtype F = RT_DTYPE_F32;
    rt_view step = rt_space_buf(space, RT_CLASS_STEP, RT_DTYPE_U8, 1, 64, "step"), none = RT_NONE;
    rt_kd_io io = { .logits = bf16(5, 40),
                    .sums = out(F, 1, 4),
                    .fault = rt_space_buf(space, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault"),
                    .target = i32(5, 1),
                    .step = step };
    rt_kd_opts o = { .T = 1, .ce_weight = 1 };
    uint64_t small = 2 * 16 + 4 * 5 + 64; /* fault, targets, step */
    COST(5 * 4 * 40, 2 * 200 + 16 + small, rt_emit_kd_loss(plan, &io, &o));
    o.grad = true; /* logits are written too; sums have a value by now and are read */
    COST(5 * 6 * 40, 4 * 200 + 32 + small, rt_emit_kd_loss(plan, &io, &o));
    o.kd_weight = 1;
    io.teacher = f32(5, 48);
    io.vmask = in(RT_DTYPE_U32, 1, 2);
    COST(5 * (12 * 40 + 8 * 48), 4 * 200 + 32 + small + 4 * 240 + 8, rt_emit_kd_loss(plan, &io, &o));
    io.teacher = io.vmask = none;
    io.tk_id = i32(5, 3);
    io.tk_logp = f32(5, 3);
    io.tk_rest = f32(5, 1);
    COST(5 * (12 * 40 + 4 * 3), 4 * 200 + 32 + small + 4 * 35, rt_emit_kd_loss(plan, &io, &o));
    COST(5 * 5 * 40, 2 * 200 + 4 * 35,
         rt_emit_topk(plan, out(RT_DTYPE_I32, 5, 3), out(F, 5, 3), out(F, 5, 1), bf16(5, 40), none, 1));
    COST(5 * 5 * 40, 2 * 400, rt_emit_mix_logits(plan, out(RT_DTYPE_BF16, 5, 40), none, bf16(5, 40), none, none, 1, 1));
    COST(5 * 5 * 48 + 5 * 4 * 40, 2 * 400 + 4 * (5 * 48 + 5 + 2),
         rt_emit_mix_logits(plan, out(RT_DTYPE_BF16, 5, 40), bf16(5, 40), f32(5, 48), f32(5, 1), in(RT_DTYPE_U32, 1, 2),
                            1, 1));
    COST(5 * 7 * 40, 2 * 200 + 4 * 35 + 4 * 10 + 64,
         rt_emit_draw(plan, out(RT_DTYPE_I32, 5, 3), out(F, 5, 3), out(F, 5, 1), bf16(5, 40), none,
                      in(RT_DTYPE_U32, 5, 2), step, 1));
    COST(5 * 5 * 40, 2 * 200 + 4 * 5 + 8 * 5 + 20 * 5,
         rt_emit_sample(plan, out(RT_DTYPE_I32, 5, 1), RT_NONE, RT_NONE, bf16(5, 40), in(RT_DTYPE_U32, 5, 2),
                        f32(5, RT_HOW_COLS)));
    const rt_adamw_opts a = { .eps = 1 };
    rt_view m = f32(5, 12), v = f32(5, 12), g = f32(5, 12);
    rt_adamw_io adam = { .param = f32(5, 12), .m = m, .v = v, .grad = g, .step = step };
    COST(16 * 60, 4 * 60 * 7 + 64, rt_emit_adamw(plan, &adam, &a));
    adam.param = bf16(5, 12);
    adam.master = f32(5, 12); /* with it the parameter is written and not read */
    COST(16 * 60, 2 * 60 + 4 * 60 * 7 + 64, rt_emit_adamw(plan, &adam, &a));
    adam.m = out(RT_DTYPE_U8, 5, 12);
    adam.v = out(RT_DTYPE_U8, 5, 12);
    adam.exps = out(RT_DTYPE_U8, 5, 2);
    rt_plan_assume_defined(plan, adam.m);
    rt_plan_assume_defined(plan, adam.v);
    rt_plan_assume_defined(plan, adam.exps);
    COST(16 * 60, 2 * 60 + 4 * 60 * 3 + 2 * 2 * 60 + 2 * 10 + 64, rt_emit_adamw(plan, &adam, &a));
}

/* Sizes that no machine has do not wrap round to small numbers. */
static void test_saturation(void **state)
{
    (void)state;
    rt_view a = bf16(INT32_MAX, 1u << 29), b = bf16(INT32_MAX, 1u << 29), o = out(RT_DTYPE_BF16, INT32_MAX, INT32_MAX);
    rt_emit_matmul(plan, o, a, b, RT_NONE, "nt", 1);
    assert_int_equal(rt_plan_status(plan, NULL), RT_OK);
    assert_true(rt_op_flops(plan, &plan->ops[0]) == UINT64_MAX);
    assert_true(rt_op_bytes(plan, &plan->ops[0]) ==
                2 * ((uint64_t)INT32_MAX * INT32_MAX + 2 * (uint64_t)INT32_MAX * (1u << 29)));
    rt_emit_matmul(plan, o, a, b, RT_NONE, "nt", 1);
    assert_true(rt_op_bytes(plan, &plan->ops[1]) > rt_op_bytes(plan, &plan->ops[0]));
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_layers), TEST(test_attention), TEST(test_rows), TEST(test_loss_and_update), TEST(test_saturation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
