/* test_emit_loss.c - the emitters of loss, sampling and update, as test_emit.c does it for the others. */
#include "emit_case.h"

/* ---- loss ---- */

/* N 5, V 40, teacher of the same size, everything that is optional with full logits */
static rt_kd_io kd_full(void)
{
    return (rt_kd_io){ .logits = f32(5, 40),
                       .sums = out(1, 4),
                       .ce = out(5, 1),
                       .div = out(5, 1),
                       .top1 = out(5, 1),
                       .fault = fault_buf(),
                       .target = i32(5, 1),
                       .step = step_buf(),
                       .teacher = f32(5, 40) };
}

static rt_kd_io kd_topk(void)
{
    rt_kd_io io = kd_full();
    io.teacher = RT_NONE;
    io.tk_id = i32(5, 3);
    io.tk_logp = f32(5, 3);
    io.tk_rest = f32(5, 1);
    return io;
}

#define KD_DEFAULTS                                                                                                    \
    .divergence = RT_DIV_JSD, .T = 2, .mix = 0.5f, .ce_weight = 0.25f, .kd_weight = 0.75f, .t2 = true, .grad = true,   \
    .site = 9

static void test_kd_loss(void **state)
{
    (void)state;
    const rt_kd_opts o = { KD_DEFAULTS };
    rt_kd_io io = kd_full();
    ACCEPT(KD_LOSS, rt_emit_kd_loss(plan, &io, &o));
    const rt_kd_args *a = &last.args.kd;
    assert_int_equal(a->N, 5);
    assert_int_equal(a->V, 40);
    assert_int_equal(a->U, 40);
    assert_int_equal(a->k, 0);
    assert_int_equal(a->divergence, RT_DIV_JSD);
    assert_true(a->T == 2 && a->mix == 0.5f && a->ce_weight == 0.25f && a->kd_weight == 0.75f);
    assert_int_equal(a->t2, 1);
    assert_int_equal(a->grad, 1);
    assert_int_equal(a->site, 9);
    SLOTS_ARE(io.logits, io.sums, io.ce, io.div, io.top1, io.fault, io.target, io.step, io.teacher, RT_NONE, RT_NONE,
              RT_NONE, RT_NONE);
    io.ce = io.div = io.top1 = RT_NONE;
    ACCEPT(KD_LOSS, rt_emit_kd_loss(plan, &io, &o));
    io.teacher = f32(5, 48);
    io.vmask = in(RT_DTYPE_U32, 1, 2);
    ACCEPT(KD_LOSS, rt_emit_kd_loss(plan, &io, &o));
    assert_int_equal(last.args.kd.U, 48);
    assert_int_equal(last.slot[RT_KD_VMASK].buf, io.vmask.buf);
    io = kd_topk();
    ACCEPT(KD_LOSS, rt_emit_kd_loss(plan, &io, &(rt_kd_opts){ .T = 1, .kd_weight = 1 }));
    SLOTS_ARE(io.logits, io.sums, io.ce, io.div, io.top1, io.fault, io.target, io.step, RT_NONE, io.tk_id, io.tk_logp,
              io.tk_rest, RT_NONE);
    assert_int_equal(last.args.kd.U, 0);
    assert_int_equal(last.args.kd.k, 3);
    assert_int_equal(last.args.kd.t2, 0);
    assert_int_equal(last.args.kd.grad, 0);
    /* cross-entropy alone */
    io = kd_full();
    io.teacher = RT_NONE;
    ACCEPT(KD_LOSS, rt_emit_kd_loss(plan, &io, &(rt_kd_opts){ .T = 1, .ce_weight = 1 }));
    assert_int_equal(last.args.kd.U, 0);
    assert_int_equal(last.args.kd.k, 0);
}

static void refuse_kd_option(const rt_kd_opts *o, const char *const *parts, int line)
{
    rt_kd_io io = kd_full();
    fresh_plan();
    rt_emit_kd_loss(plan, &io, o);
    refused(parts, "kd_loss option", line);
}

static void test_kd_options(void **state)
{
    (void)state;
    rt_kd_opts o;
#define REFUSE_OPT(change, ...)                                                                                        \
    do {                                                                                                               \
        o = (rt_kd_opts){ KD_DEFAULTS };                                                                               \
        change;                                                                                                        \
        refuse_kd_option(&o, (const char *const[]){ __VA_ARGS__, NULL }, __LINE__);                                    \
    } while (0)
    REFUSE_OPT(o.divergence = RT_DIV_COUNT, "kd_loss: divergence is ", "expected 0 to ");
    REFUSE_OPT(o.divergence = (rt_divergence)-1, "kd_loss: divergence is 4294967295");
    REFUSE_OPT(o.T = 0, "kd_loss: T is 0");
    REFUSE_OPT(o.T = -1, "kd_loss: T is -1");
    REFUSE_OPT(o.T = NAN, "kd_loss: T is nan");
    REFUSE_OPT(o.T = INFINITY, "kd_loss: T is inf");
    REFUSE_OPT(o.mix = -0.25f, "kd_loss: mix is -0.25, expected 0 <= mix <= 1");
    REFUSE_OPT(o.mix = 1.5f, "kd_loss: mix is 1.5, expected 0 <= mix <= 1");
    REFUSE_OPT(o.mix = NAN, "kd_loss: mix is nan");
    REFUSE_OPT((o.divergence = RT_DIV_SKEW_FKL, o.mix = 1), "kd_loss: mix is 1, expected 0 <= mix < 1");
    REFUSE_OPT((o.divergence = RT_DIV_SKEW_RKL, o.mix = 1), "kd_loss: mix is 1, expected 0 <= mix < 1");
    REFUSE_OPT((o.divergence = RT_DIV_SKEW_RKL, o.mix = -1), "kd_loss: mix is -1, expected 0 <= mix < 1");
    REFUSE_OPT(o.ce_weight = -1, "kd_loss: ce_weight is -1");
    REFUSE_OPT(o.ce_weight = NAN, "kd_loss: ce_weight is nan");
    REFUSE_OPT(o.kd_weight = -2, "kd_loss: kd_weight is -2");
    REFUSE_OPT(o.kd_weight = INFINITY, "kd_loss: kd_weight is inf");
    REFUSE_OPT(o.ce_weight = o.kd_weight = 0, "kd_loss: ce_weight and kd_weight are both 0");
    rt_kd_io io = kd_full();
    ACCEPT(KD_LOSS,
           rt_emit_kd_loss(plan, &io, &(rt_kd_opts){ .T = 1, .mix = 1, .divergence = RT_DIV_JSD, .kd_weight = 1 }));
    ACCEPT(KD_LOSS, rt_emit_kd_loss(plan, &io, &(rt_kd_opts){ .T = 1, .divergence = RT_DIV_SKEW_FKL, .kd_weight = 1 }));
}

static void test_kd_operands(void **state)
{
    (void)state;
    const rt_kd_opts o = { KD_DEFAULTS };
    rt_kd_io io;
#define REFUSE_IO(from, change, ...)                                                                                   \
    do {                                                                                                               \
        io = from();                                                                                                   \
        change;                                                                                                        \
        REFUSE(rt_emit_kd_loss(plan, &io, &o), __VA_ARGS__);                                                           \
    } while (0)
    REFUSE_IO(kd_full, io.logits = RT_NONE, "kd_loss: logits is missing");
    REFUSE_IO(kd_full, io.fault = RT_NONE, "kd_loss: fault is missing");
    REFUSE_IO(kd_full, io.step = RT_NONE, "kd_loss: step is missing");
    REFUSE_IO(kd_full, io.target = RT_NONE, "kd_loss: target is missing");
    REFUSE_IO(kd_full, io.sums = out(1, 3), "kd_loss: sums is (1,3), expected (1,4)");
    REFUSE_IO(kd_full, io.ce = out(4, 1), "kd_loss: ce is (4,1), expected (5,1)");
    REFUSE_IO(kd_full, io.div = out(5, 2), "kd_loss: div is (5,2), expected (5,1)");
    REFUSE_IO(kd_full, io.top1 = out(1, 5), "kd_loss: top1 is (1,5), expected (5,1)");
    REFUSE_IO(kd_full, io.target = i32(6, 1), "kd_loss: target is (6,1), expected (5,1)");
    REFUSE_IO(kd_full, io.fault = in(RT_DTYPE_U32, 1, 3), "kd_loss: fault is (1,3), expected (1,4)");
    REFUSE_IO(kd_full, io.step = in(RT_DTYPE_U8, 1, 63), "kd_loss: step is (1,63), expected (1,64)");
    REFUSE_IO(kd_full, io.teacher = RT_NONE, "kd_loss: kd_weight is 0.75 without a teacher");
    REFUSE_IO(kd_full, io.teacher = f32(4, 40), "kd_loss: teacher is (4,40), expected (5,40)");
    REFUSE_IO(kd_full, io.teacher = f32(5, 48), "kd_loss: teacher is (5,48)", "logits is (5,40)", "vmask");
    REFUSE_IO(kd_full, io.vmask = in(RT_DTYPE_U32, 1, 1), "kd_loss: vmask is (1,1), expected (1,2)");
    REFUSE_IO(kd_full, io.vmask = in(RT_DTYPE_U32, 1, 3), "kd_loss: vmask is (1,3), expected (1,2)");
    REFUSE_IO(kd_full, io.tk_id = i32(5, 3), "kd_loss: teacher is given", "tk_id");
    REFUSE_IO(kd_full, io.tk_rest = f32(5, 1), "kd_loss: teacher is given", "tk_rest");
    REFUSE_IO(kd_topk, io.tk_id = RT_NONE, "kd_loss: tk_id is missing");
    REFUSE_IO(kd_topk, io.tk_logp = RT_NONE, "kd_loss: tk_logp is missing");
    REFUSE_IO(kd_topk, io.tk_rest = RT_NONE, "kd_loss: tk_rest is missing");
    REFUSE_IO(kd_topk, io.tk_id = i32(4, 3), "kd_loss: tk_id is (4,3), expected (5,3)");
    REFUSE_IO(kd_topk, io.tk_logp = f32(5, 2), "kd_loss: tk_logp is (5,2), expected (5,3)");
    REFUSE_IO(kd_topk, io.tk_rest = f32(5, 2), "kd_loss: tk_rest is (5,2), expected (5,1)");
    REFUSE_IO(kd_topk, (io.tk_id = i32(5, 41), io.tk_logp = f32(5, 41)), "kd_loss: tk_id is (5,41)", "40 columns");
}

static void test_topk(void **state)
{
    (void)state;
    rt_view id = out_i32(5, 3), logp = out(5, 3), rest = out(5, 1), x = f32(5, 33), mask = in(RT_DTYPE_U32, 1, 2);
    ACCEPT(TOPK, rt_emit_topk(plan, id, logp, rest, x, mask, 2));
    SLOTS_ARE(id, logp, rest, x, mask);
    assert_int_equal(last.args.topk.N, 5);
    assert_int_equal(last.args.topk.V, 33);
    assert_int_equal(last.args.topk.k, 3);
    assert_true(last.args.topk.T == 2);
    ACCEPT(TOPK, rt_emit_topk(plan, out_i32(5, 33), out(5, 33), rest, x, RT_NONE, 2)); /* k = V */
    REFUSE(rt_emit_topk(plan, out_i32(5, 34), out(5, 34), rest, x, mask, 2), "topk: id is (5,34)", "33 columns");
    REFUSE(rt_emit_topk(plan, out_i32(4, 3), logp, rest, x, mask, 2), "topk: id is (4,3), expected (5,3)");
    REFUSE(rt_emit_topk(plan, id, out(5, 4), rest, x, mask, 2), "topk: logp is (5,4), expected (5,3)");
    REFUSE(rt_emit_topk(plan, id, logp, out(5, 2), x, mask, 2), "topk: rest is (5,2), expected (5,1)");
    REFUSE(rt_emit_topk(plan, id, logp, rest, x, in(RT_DTYPE_U32, 1, 1), 2), "topk: vmask is (1,1), expected (1,2)");
    ACCEPT(TOPK, rt_emit_topk(plan, id, logp, rest, f32(5, 64), mask, 2)); /* 64 ids fill two words */
    REFUSE(rt_emit_topk(plan, id, logp, rest, f32(5, 65), mask, 2), "topk: vmask is (1,2), expected (1,3)");
    REFUSE(rt_emit_topk(plan, id, logp, rest, x, mask, 0), "topk: T is 0");
    REFUSE(rt_emit_topk(plan, id, logp, rest, x, mask, -INFINITY), "topk: T is -inf");
}

static void test_mix_logits(void **state)
{
    (void)state;
    rt_view y = out(5, 33), y0 = f32(5, 33), x = f32(5, 40), w = f32(5, 1), mask = in(RT_DTYPE_U32, 1, 2);
    ACCEPT(MIX_LOGITS, rt_emit_mix_logits(plan, y, y0, x, w, mask, 2, 0.25f));
    SLOTS_ARE(y, y0, x, w, mask);
    assert_int_equal(last.args.mix.N, 5);
    assert_int_equal(last.args.mix.V, 33);
    assert_int_equal(last.args.mix.U, 40);
    assert_true(last.args.mix.T == 2 && last.args.mix.w == 0.25f);
    ACCEPT(MIX_LOGITS, rt_emit_mix_logits(plan, y, RT_NONE, f32(5, 33), RT_NONE, RT_NONE, 2, 1));
    REFUSE(rt_emit_mix_logits(plan, y, y0, x, w, RT_NONE, 2, 1), "mix_logits: x is (5,40) and y is (5,33)",
           "need vmask");
    REFUSE(rt_emit_mix_logits(plan, y, f32(5, 32), x, w, mask, 2, 1), "mix_logits: y0 is (5,32), expected (5,33)");
    REFUSE(rt_emit_mix_logits(plan, y, y0, f32(4, 40), w, mask, 2, 1), "mix_logits: x is (4,40), expected (5,40)");
    REFUSE(rt_emit_mix_logits(plan, y, y0, x, f32(5, 2), mask, 2, 1), "mix_logits: weight is (5,2), expected (5,1)");
    REFUSE(rt_emit_mix_logits(plan, y, y0, x, w, in(RT_DTYPE_U32, 1, 1), 2, 1), "mix_logits: vmask is (1,1)");
    REFUSE(rt_emit_mix_logits(plan, y, y0, x, w, mask, 0, 1), "mix_logits: T is 0");
    REFUSE(rt_emit_mix_logits(plan, y, y0, x, w, mask, 1, 0), "mix_logits: w is 0");
    REFUSE(rt_emit_mix_logits(plan, y, y0, x, w, mask, 1, INFINITY), "mix_logits: w is inf");
}

static void test_draw(void **state)
{
    (void)state;
    rt_view id = out_i32(5, 50), logp = out(5, 50), nats = out(5, 1), x = f32(5, 33), mask = in(RT_DTYPE_U32, 1, 2);
    rt_view key = in(RT_DTYPE_U32, 5, 2), step = step_buf();
    ACCEPT(DRAW, rt_emit_draw(plan, id, logp, nats, x, mask, key, step, 2)); /* more draws than ids */
    SLOTS_ARE(id, logp, nats, x, mask, key, step);
    assert_int_equal(last.args.draw.N, 5);
    assert_int_equal(last.args.draw.V, 33);
    assert_int_equal(last.args.draw.n, 50);
    assert_true(last.args.draw.T == 2);
    ACCEPT(DRAW, rt_emit_draw(plan, out_i32(5, 1024), out(5, 1024), nats, x, RT_NONE, key, step, 2));
    REFUSE(rt_emit_draw(plan, out_i32(5, 1025), out(5, 1025), nats, x, mask, key, step, 2), "draw: id is (5,1025)",
           "at most 1024 draws");
    REFUSE(rt_emit_draw(plan, id, logp, nats, f32(5, (1 << 20) + 1), RT_NONE, key, step, 2), "draw: x is (5,1048577)",
           "at most 1048576 columns");
    REFUSE(rt_emit_draw(plan, out_i32(4, 50), logp, nats, x, mask, key, step, 2),
           "draw: id is (4,50), expected (5,50)");
    REFUSE(rt_emit_draw(plan, id, out(5, 4), nats, x, mask, key, step, 2), "draw: logp is (5,4), expected (5,50)");
    REFUSE(rt_emit_draw(plan, id, logp, out(5, 2), x, mask, key, step, 2), "draw: entropy is (5,2), expected (5,1)");
    REFUSE(rt_emit_draw(plan, id, logp, nats, x, in(RT_DTYPE_U32, 1, 1), key, step, 2), "draw: vmask is (1,1)");
    REFUSE(rt_emit_draw(plan, id, logp, nats, x, mask, in(RT_DTYPE_U32, 5, 1), step, 2), "draw: key is (5,1)");
    REFUSE(rt_emit_draw(plan, id, logp, nats, x, mask, key, in(RT_DTYPE_U8, 1, 16), 2), "draw: step is (1,16)");
    REFUSE(rt_emit_draw(plan, id, logp, nats, x, mask, key, step, 0), "draw: T is 0");
}

static void test_sample(void **state)
{
    (void)state;
    rt_view id = out_i32(5, 1), logp = out(5, 1), seen = in(RT_DTYPE_U32, 5, 2), x = f32(5, 33);
    rt_view key = in(RT_DTYPE_U32, 5, 2), how = f32(5, RT_HOW_COLS);
    ACCEPT(SAMPLE, rt_emit_sample(plan, id, logp, seen, x, key, how));
    SLOTS_ARE(id, logp, seen, x, key, how);
    assert_int_equal(last.args.sample.N, 5);
    assert_int_equal(last.args.sample.V, 33);
    ACCEPT(SAMPLE, rt_emit_sample(plan, id, RT_NONE, RT_NONE, x, key, how));
    REFUSE(rt_emit_sample(plan, out_i32(4, 1), logp, seen, x, key, how), "sample: id is (4,1), expected (5,1)");
    REFUSE(rt_emit_sample(plan, id, out(5, 2), seen, x, key, how), "sample: logp is (5,2), expected (5,1)");
    REFUSE(rt_emit_sample(plan, id, logp, in(RT_DTYPE_U32, 5, 1), x, key, how),
           "sample: seen is (5,1), expected (5,2)");
    REFUSE(rt_emit_sample(plan, id, logp, seen, x, in(RT_DTYPE_U32, 5, 1), how),
           "sample: key is (5,1), expected (5,2)");
    REFUSE(rt_emit_sample(plan, id, logp, seen, x, key, f32(5, 4)), "sample: how is (5,4), expected (5,5)");
}

/* ---- update ---- */

static void emit_adamw(rt_plan *p, rt_view param, rt_view master, rt_view m, rt_view v, rt_view grad,
                       rt_view step_values, rt_view gscale, rt_view fault, const rt_adamw_opts *o)
{
    rt_emit_adamw(p, &(rt_adamw_io){ param, master, m, v, RT_NONE, grad, step_values, gscale, fault }, o);
}

static void test_adamw(void **state)
{
    (void)state;
    const rt_adamw_opts o = { .beta1 = 0.5f, .beta2 = 0.75f, .eps = 1e-8f, .weight_decay = 0.125f };
    rt_adamw_opts bad;
    rt_view param = f32(5, 7), half = in(RT_DTYPE_BF16, 5, 7), master = f32(5, 7), m = f32(5, 7), v = f32(5, 7);
    rt_view grad = f32(5, 7), step = step_buf(), gscale = f32(1, 1), fault = fault_buf(), none = RT_NONE;
    ACCEPT(ADAMW, emit_adamw(plan, param, none, m, v, grad, step, gscale, fault, &o));
    SLOTS_ARE(param, none, m, v, none, grad, step, gscale, fault);
    assert_int_equal(last.args.adamw.N, 5);
    assert_int_equal(last.args.adamw.C, 7);
    assert_true(last.args.adamw.beta1 == 0.5f && last.args.adamw.beta2 == 0.75f);
    assert_true(last.args.adamw.eps == 1e-8f && last.args.adamw.weight_decay == 0.125f);
    ACCEPT(ADAMW, emit_adamw(plan, half, master, m, v, grad, step, none, none, &o));
    SLOTS_ARE(half, master, m, v, none, grad, step, none, none);
    rt_view d = in(RT_DTYPE_F64, 5, 7), dm = in(RT_DTYPE_F64, 5, 7), dv = in(RT_DTYPE_F64, 5, 7);
    ACCEPT(ADAMW, emit_adamw(plan, d, none, dm, dv, in(RT_DTYPE_F64, 5, 7), step, none, none, &o));
    REFUSE(emit_adamw(plan, param, master, m, v, grad, step, gscale, fault, &o), "adamw: master is given",
           "param is f32");
    REFUSE(emit_adamw(plan, half, none, m, v, grad, step, gscale, fault, &o), "adamw: master is missing",
           "param is bf16");
    REFUSE(emit_adamw(plan, half, f32(5, 6), m, v, grad, step, gscale, fault, &o),
           "adamw: master is (5,6), expected (5,7)");
    REFUSE(emit_adamw(plan, param, none, f32(4, 7), v, grad, step, gscale, fault, &o),
           "adamw: m is (4,7), expected (5,7)");
    REFUSE(emit_adamw(plan, param, none, m, f32(7, 5), grad, step, gscale, fault, &o),
           "adamw: v is (7,5), expected (5,7)");
    REFUSE(emit_adamw(plan, param, none, m, v, f32(1, 35), step, gscale, fault, &o),
           "adamw: grad is (1,35), expected (5,7)");
    REFUSE(emit_adamw(plan, param, none, m, v, grad, in(RT_DTYPE_U8, 2, 64), gscale, fault, &o),
           "adamw: step is (2,64), expected (1,64)");
    REFUSE(emit_adamw(plan, param, none, m, v, grad, step, f32(1, 7), fault, &o),
           "adamw: gscale is (1,7), expected (1,1)");
    REFUSE(emit_adamw(plan, param, none, m, v, grad, step, gscale, in(RT_DTYPE_U32, 2, 4), &o),
           "adamw: fault is (2,4), expected (1,4)");
#define REFUSE_ADAMW(field, value, text)                                                                               \
    do {                                                                                                               \
        bad = o;                                                                                                       \
        bad.field = value;                                                                                             \
        REFUSE(emit_adamw(plan, param, none, m, v, grad, step, gscale, fault, &bad), text);                            \
    } while (0)
    REFUSE_ADAMW(beta1, 1, "adamw: beta1 is 1, expected 0 <= beta1 < 1");
    REFUSE_ADAMW(beta1, -0.5f, "adamw: beta1 is -0.5");
    REFUSE_ADAMW(beta2, 1.5f, "adamw: beta2 is 1.5, expected 0 <= beta2 < 1");
    REFUSE_ADAMW(beta2, NAN, "adamw: beta2 is nan");
    REFUSE_ADAMW(eps, 0, "adamw: eps is 0");
    REFUSE_ADAMW(eps, INFINITY, "adamw: eps is inf");
    REFUSE_ADAMW(weight_decay, -1, "adamw: weight_decay is -1");
    REFUSE_ADAMW(weight_decay, NAN, "adamw: weight_decay is nan");
}

/* Moments narrower than f32: both alike, and codes of 8 bits with their exponents. */
static void test_adamw_narrow(void **state)
{
    (void)state;
    const rt_adamw_opts o = { .beta1 = 0.5f, .beta2 = 0.75f, .eps = 1e-8f, .stream = 3, .row = 11 };
    rt_adamw_io io = { .param = f32(5, 129), .grad = f32(5, 129), .step = step_buf() };
    io.m = f32(5, 129);
    io.v = f32(5, 129);
    ACCEPT(ADAMW, rt_emit_adamw(plan, &io, &o));
    assert_int_equal(last.args.adamw.moments, RT_DTYPE_F32);
    assert_int_equal(last.args.adamw.stream + last.args.adamw.row, 0); /* nothing is rounded by chance */
    io.v = in(RT_DTYPE_BF16, 5, 129);
    REFUSE(rt_emit_adamw(plan, &io, &o), "adamw: operand 'v' is bf16 but 'm' is f32; they must agree");
    io.m = in(RT_DTYPE_BF16, 5, 129);
    ACCEPT(ADAMW, rt_emit_adamw(plan, &io, &o));
    assert_int_equal(last.args.adamw.moments, RT_DTYPE_BF16);
    assert_int_equal(last.args.adamw.stream, 3);
    assert_int_equal(last.args.adamw.row, 11);
    io.exps = in(RT_DTYPE_U8, 5, 4);
    REFUSE(rt_emit_adamw(plan, &io, &o), "adamw: exps is given, but m is bf16");
    io.m = in(RT_DTYPE_U8, 5, 129);
    io.v = in(RT_DTYPE_U8, 5, 129);
    ACCEPT(ADAMW, rt_emit_adamw(plan, &io, &o));
    assert_int_equal(last.args.adamw.moments, RT_DTYPE_U8);
    io.exps = in(RT_DTYPE_U8, 5, 2);
    REFUSE(rt_emit_adamw(plan, &io, &o), "adamw: exps is (5,2), expected (5,4)");
    io.exps = RT_NONE;
    REFUSE(rt_emit_adamw(plan, &io, &o), "adamw: exps is missing");
    io.m = in(RT_DTYPE_F16, 5, 129);
    io.v = in(RT_DTYPE_F16, 5, 129);
    REFUSE(rt_emit_adamw(plan, &io, &o), "adamw: operand 'm' is f16; it takes f32, bf16 or u8");
}

static void test_norm_and_clip(void **state)
{
    (void)state;
    rt_view nsq = out(1, 1), x = f32(5, 7), fault = fault_buf(), step = step_buf(), none = RT_NONE, bad = f32(1, 2);
    ACCEPT(NORM_SQ, rt_emit_norm_sq(plan, nsq, x, fault, step, 4));
    SLOTS_ARE(nsq, x, fault, step);
    assert_int_equal(last.args.rows.N, 5);
    assert_int_equal(last.args.rows.C, 7);
    assert_int_equal(last.args.rows.site, 4);
    ACCEPT(NORM_SQ, rt_emit_norm_sq(plan, nsq, x, none, none, 0));
    REFUSE(rt_emit_norm_sq(plan, bad, x, none, none, 0), "norm_sq: out is (1,2), expected (1,1)");
    REFUSE(rt_emit_norm_sq(plan, nsq, x, fault, none, 0), "norm_sq: fault is given without step");
    REFUSE(rt_emit_norm_sq(plan, nsq, x, none, step, 0), "norm_sq: step is given without fault");
    REFUSE(rt_emit_norm_sq(plan, nsq, x, in(RT_DTYPE_U32, 4, 1), step, 0), "norm_sq: fault is (4,1), expected (1,4)");
    REFUSE(rt_emit_norm_sq(plan, nsq, x, fault, in(RT_DTYPE_U8, 64, 1), 0), "norm_sq: step is (64,1), expected (1,64)");

    rt_view scale = out(1, 1), norm = out(1, 1), sum = f32(1, 1);
    ACCEPT(CLIP, rt_emit_clip(plan, scale, norm, sum, fault, step, 1.5f, 3));
    SLOTS_ARE(scale, norm, sum, fault, step);
    assert_true(last.args.clip.max_norm == 1.5f);
    assert_int_equal(last.args.clip.site, 3);
    ACCEPT(CLIP, rt_emit_clip(plan, scale, norm, sum, none, none, -1, 0)); /* measures only */
    REFUSE(rt_emit_clip(plan, out(1, 2), norm, sum, none, none, 1, 0), "clip: scale is (1,2), expected (1,1)");
    REFUSE(rt_emit_clip(plan, scale, out(2, 1), sum, none, none, 1, 0), "clip: norm is (2,1), expected (1,1)");
    REFUSE(rt_emit_clip(plan, scale, norm, bad, none, none, 1, 0), "clip: nsq is (1,2), expected (1,1)");
    REFUSE(rt_emit_clip(plan, scale, norm, sum, fault, none, 1, 0), "clip: fault is given without step");
    REFUSE(rt_emit_clip(plan, scale, norm, sum, none, step, 1, 0), "clip: step is given without fault");
    REFUSE(rt_emit_clip(plan, scale, norm, sum, none, none, NAN, 0), "clip: max_norm is nan");
    REFUSE(rt_emit_clip(plan, scale, norm, sum, none, none, INFINITY, 0), "clip: max_norm is inf");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_kd_loss),      TEST(test_kd_options),    TEST(test_kd_operands), TEST(test_topk),
        TEST(test_draw),         TEST(test_mix_logits),    TEST(test_sample),      TEST(test_adamw),
        TEST(test_adamw_narrow), TEST(test_norm_and_clip),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
