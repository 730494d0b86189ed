/* test_cuda_attn.c - the host side of attention on CUDA: which kernels an op gets, how its work is cut, how much
 * scratch it asks for. Launches are collected by a builder of this test's own; nothing is run. */
#include "backend/cuda/cuda_attn_host.h"
#include "op/emit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

extern const rt_cuda_op rt_cuda_attn_fwd, rt_cuda_attn_bwd, rt_cuda_attn_decode;

/* ---- a builder that remembers ---- */

enum { MOST = 8 };
struct rt_cuda_builder {
    rt_cuda_caps caps;
    uint32_t n;
    struct {
        char kernel[64];
        uint32_t blocks, threads, shared, bytes;
        char params[RT_CUDA_PARAM_MAX];
    } launch[MOST];
};
struct rt_mem {
    uint64_t base;
};
static struct rt_mem memory = { 0x10000 };
static rt_cuda_builder built;

const rt_cuda_caps *rt_cuda_builder_caps(const rt_cuda_builder *b) { return &b->caps; }
uint64_t rt_cuda_addr(const rt_operand *o) { return o->mem ? o->mem->base + o->off : 0; }
/* What would be asked of the driver. */
void rt_cuda_panel_map(rt_cuda_builder *b, rt_cuda_tensor_map *out, uint64_t at, uint64_t stride, uint32_t cols,
                       uint32_t T, uint32_t B)
{
    assert_true(b->caps.maps && b->caps.sm == 90 && !b->caps.ptx);
    assert_true(at % 16 == 0 && stride * 2 % 16 == 0 && cols % 64 == 0 && cols <= stride);
    *out = (rt_cuda_tensor_map){ { at, stride, cols, T, B } };
}
void rt_cuda_push(rt_cuda_builder *b, const char *module, const char *kernel, const uint32_t grid[3], uint32_t block,
                  uint32_t shared, const void *params, uint32_t bytes)
{
    assert_true(b->n < MOST);
    assert_true(bytes <= RT_CUDA_PARAM_MAX);
    assert_true(shared <= b->caps.shared_max);
    assert_true(grid[0] > 0 && grid[1] == 1 && grid[2] == 1);
    assert_true(strncmp(module, "cuda_attn_", 10) == 0);
    snprintf(b->launch[b->n].kernel, sizeof b->launch[0].kernel, "%s", kernel);
    b->launch[b->n].blocks = grid[0];
    b->launch[b->n].threads = block;
    b->launch[b->n].shared = shared;
    b->launch[b->n].bytes = bytes;
    memcpy(b->launch[b->n++].params, params, bytes);
}

/* ---- an op: recorded, asked about, turned into launches ---- */

typedef struct shape {
    rt_dtype dtype;
    uint32_t B, T, H, K, D;
    uint32_t off; /* elements before every operand */
    float scale;
    bool rounded; /* weights may be */
} shape;

static const rt_cuda_caps h200 = { 90, 132, 232448, 0, 1 }, h200_ptx = { 90, 132, 232448, 1, 1 },
                          old_driver = { 90, 132, 232448, 0, 0 };
static const rt_cuda_caps blackwell = { 100, 148, 232448, 0, 1 }, ada = { 89, 128, 101376, 0, 1 },
                          turing = { 75, 40, 65536, 0, 1 };
static rt_space *space;
static rt_plan *plan;
static rt_need need;

static int teardown(void **state)
{
    (void)state;
    rt_plan_free(plan);
    rt_space_free(space);
    plan = NULL;
    space = NULL;
    return 0;
}

/* A window of a buffer that is wider by `off` on the left. */
static rt_view window(rt_class cls, rt_dtype d, uint32_t rows, uint32_t cols, uint32_t off)
{
    rt_view v = rt_space_buf(space, cls, d, rows, cols + off, "operand");
    return rt_view_cols(plan, v, off, cols);
}

/* Records the op, asks, and emits it when the answer is yes. */
static bool ask(const rt_cuda_op *op, const rt_cuda_caps *caps)
{
    rt_err e = { 0 };
    if (rt_plan_status(plan, &e) != RT_OK) fail_msg("%s", e.text);
    const rt_op *o = &plan->ops[plan->nops - 1];
    built = (rt_cuda_builder){ .caps = *caps };
    if (!op->need(caps, plan, o, &need)) return false;
    rt_bound_op b = { .kind = o->kind, .nslots = RT_MAX_SLOTS, .args = o->args };
    for (uint32_t i = 0; i < RT_MAX_SLOTS; i++) {
        const rt_view v = o->slot[i];
        if (!v.buf) continue;
        const rt_dtype d = rt_plan_dtype(plan, v);
        b.slot[i] = (rt_operand){ .mem = &memory,
                                  .off = rt_dtype_bytes(d, v.off),
                                  .dtype = d,
                                  .rows = v.rows,
                                  .cols = v.cols,
                                  .stride = v.stride };
    }
    b.work = (rt_operand){ .mem = &memory,
                           .dtype = RT_DTYPE_U8,
                           .rows = 1,
                           .cols = (uint32_t)need.work_bytes,
                           .stride = need.work_bytes };
    op->emit(&built, &b);
    return true;
}

static void begin(rt_dtype d)
{
    teardown(NULL);
    assert_int_equal(rt_space_new(&space, NULL), RT_OK);
    assert_int_equal(rt_plan_new(&plan, space, "test", d == RT_DTYPE_F64 ? &rt_policy_f64 : &rt_policy_f32, NULL),
                     RT_OK);
}

#define IN(d, rows, cols) window(RT_CLASS_INPUT, d, rows, cols, s.off)
#define OUT(d, rows, cols) window(RT_CLASS_OUTPUT, d, rows, cols, s.off)

static bool forward(shape s, const rt_cuda_caps *caps)
{
    const uint32_t rows = s.B * s.T, wide = s.H * s.D, slim = s.K * s.D;
    const rt_dtype f = s.dtype == RT_DTYPE_F64 ? RT_DTYPE_F64 : RT_DTYPE_F32;
    const rt_attn_shape a = { s.T, s.H, s.K, s.D, 0, s.scale, 0, s.rounded };
    begin(s.dtype);
    rt_emit_attn_fwd(plan, OUT(s.dtype, rows, wide), OUT(f, rows, s.H), IN(s.dtype, rows, wide),
                     IN(s.dtype, rows, slim), IN(s.dtype, rows, slim), RT_NONE, &a);
    return ask(&rt_cuda_attn_fwd, caps);
}

static bool backward(shape s, const rt_cuda_caps *caps)
{
    const uint32_t rows = s.B * s.T, wide = s.H * s.D, slim = s.K * s.D;
    const rt_attn_shape a = { s.T, s.H, s.K, s.D, 0, s.scale, 0, s.rounded };
    begin(s.dtype);
    rt_emit_attn_bwd(plan, OUT(s.dtype, rows, wide), OUT(s.dtype, rows, slim), OUT(s.dtype, rows, slim),
                     IN(s.dtype, rows, wide), IN(s.dtype, rows, wide), IN(s.dtype, rows, slim), IN(s.dtype, rows, slim),
                     IN(s.dtype, rows, wide), IN(RT_DTYPE_F32, rows, s.H), RT_NONE, &a);
    return ask(&rt_cuda_attn_bwd, caps);
}

/* T is the rows of cache; Q new tokens. */
static bool decode(shape s, uint32_t Q, const rt_cuda_caps *caps)
{
    const rt_attn_shape a = { Q, s.H, s.K, s.D, 0, s.scale, 0, false };
    begin(s.dtype);
    rt_emit_attn_decode(plan, OUT(s.dtype, s.B * Q, s.H * s.D), IN(s.dtype, s.B * Q, s.H * s.D),
                        IN(s.dtype, s.B * s.T, s.K * s.D), IN(s.dtype, s.B * s.T, s.K * s.D), IN(RT_DTYPE_I32, s.B, 1),
                        RT_NONE, &a);
    return ask(&rt_cuda_attn_decode, caps);
}

/* The launches, in order; parts ended by null. */
static void launched(const char *const *kernels, int line)
{
    for (uint32_t i = 0; i < built.n || kernels[i]; i++) {
        if (!kernels[i] || i >= built.n || strcmp(built.launch[i].kernel, kernels[i]) != 0)
            fail_msg("line %d: launch %u is %s, expected %s", line, i, i < built.n ? built.launch[i].kernel : "missing",
                     kernels[i] ? kernels[i] : "none");
        if (!kernels[i]) return;
    }
}
#define LAUNCHED(...) launched((const char *const[]){ __VA_ARGS__, NULL }, __LINE__)

static const shape half_b = { RT_DTYPE_BF16, 16, 512, 14, 2, 64, 0, 0, false }; /* a model of half a billion weights */

static shape with(shape s, rt_dtype d, uint32_t D, uint32_t off, float scale)
{
    s.dtype = d;
    s.D = D;
    s.off = off;
    s.scale = scale;
    return s;
}

/* ---- which kernels ---- */

static void test_forward_kernels(void **state)
{
    (void)state;
    const rt_dtype bf16 = RT_DTYPE_BF16;
    static const struct {
        uint32_t D;
        const char *kernel;
    } widths[] = { { 32, "rt_attn_fwd_bf16_64" },   { 64, "rt_attn_fwd_bf16_64" },   { 72, "rt_attn_fwd_bf16_96" },
                   { 80, "rt_attn_fwd_bf16_96" },   { 104, "rt_attn_fwd_bf16_128" }, { 128, "rt_attn_fwd_bf16_128" },
                   { 136, "rt_attn_fwd_bf16_256" }, { 256, "rt_attn_fwd_bf16_256" }, { 24, "rt_attn_plain_fwd" } };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        assert_true(forward(with(half_b, bf16, widths[i].D, 0, 0), &ada));
        LAUNCHED(widths[i].kernel);
        assert_int_equal(need.work_bytes, 0);
    }
    assert_true(forward(half_b, &ada));
    assert_int_equal(built.launch[0].blocks, 16 * 14 * 4);
    assert_string_equal(need.kernel, "flash, tensor cores, width 64, 128 queries");
    assert_true(forward(with(half_b, RT_DTYPE_F16, 64, 0, 0), &ada));
    LAUNCHED("rt_attn_fwd_f16_64");
    assert_true(forward(with(half_b, RT_DTYPE_F32, 64, 0, 0), &h200));
    LAUNCHED("rt_attn_plain_fwd");
    assert_int_equal(built.launch[0].blocks, 16 * 14 * 8);
    assert_true(forward(half_b, &turing));
    LAUNCHED("rt_attn_plain_fwd");
    assert_true(forward(with(half_b, bf16, 64, 8, 0), &ada)); /* 16 bytes off: fine */
    LAUNCHED("rt_attn_fwd_bf16_64");
    assert_true(forward(with(half_b, bf16, 64, 4, 0), &h200));
    LAUNCHED("rt_attn_plain_fwd");
    assert_string_equal(need.kernel, "flash, f32, 64 queries");
    assert_true(forward(with(half_b, bf16, 64, 0, -0.1f), &h200));
    LAUNCHED("rt_attn_plain_fwd");
}

/* Machine code of sm_90, and heads that fill a tile; a block for every multiprocessor, or for every tile where those
 * are fewer. */
static void test_hopper_kernels(void **state)
{
    (void)state;
    const rt_dtype bf16 = RT_DTYPE_BF16;
    assert_true(forward(half_b, &h200));
    LAUNCHED("rt_attn_hopper_bf16_64");
    assert_int_equal(built.launch[0].blocks, 132);
    assert_int_equal(built.launch[0].threads, 512);
    assert_string_equal(need.kernel, "flash, warpgroups, width 64, 192 queries");
    assert_true(forward(with(half_b, RT_DTYPE_F16, 128, 8, 0), &h200));
    LAUNCHED("rt_attn_hopper_f16_128");
    assert_int_equal(built.launch[0].threads, 384);
    assert_true(forward((shape){ bf16, 1, 193, 7, 1, 64, 0, 0, false }, &h200));
    assert_int_equal(built.launch[0].blocks, 14);
    assert_true(forward(with(half_b, bf16, 32, 0, 0), &h200));
    LAUNCHED("rt_attn_fwd_bf16_64");
    assert_true(forward(with(half_b, bf16, 104, 0, 0), &h200));
    LAUNCHED("rt_attn_fwd_bf16_128");
    assert_true(forward(half_b, &h200_ptx));
    LAUNCHED("rt_attn_fwd_bf16_64");
    assert_true(forward(half_b, &blackwell));
    LAUNCHED("rt_attn_fwd_bf16_64");
    assert_true(backward(half_b, &h200));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_hopper_DQ_64", "rt_attn_hopper_DKV_64", "rt_attn_bwd_sum");
    assert_int_equal(built.launch[1].blocks, 132);
    assert_int_equal(built.launch[1].threads, 384);
    assert_string_equal(need.kernel, "flash, warpgroups, width 64");
    assert_true(backward(with(half_b, bf16, 128, 0, 0), &h200));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_bwd_DQ_128", "rt_attn_bwd_DKV_128", "rt_attn_bwd_sum");
    assert_true(backward(half_b, &h200_ptx));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_bwd_DQ_64", "rt_attn_bwd_DKV_64", "rt_attn_bwd_sum");
    assert_true(backward(half_b, &blackwell));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_bwd_DQ_64", "rt_attn_bwd_DKV_64", "rt_attn_bwd_sum");
}

/* Of heads `width` wide, by ops whose weights may be rounded. */
static shape rounded(uint32_t width)
{
    shape s = with(half_b, RT_DTYPE_BF16, width, 0, 0);
    s.rounded = true;
    return s;
}

/* Machine code of sm_90 has kernels that round weights, backward of heads of 128 among them; every operand that they
 * copy is described to the driver as it lies. */
static void test_rounding_kernels(void **state)
{
    (void)state;
    assert_true(forward(rounded(64), &h200));
    LAUNCHED("rt_attn_hopper_bf16_64_rounded");
    rt_cuda_attn_fwd_params f;
    memcpy(&f, built.launch[0].params, sizeof f);
    assert_int_equal(f.q_map.word[2], rounded(64).H * 64);
    assert_int_equal(f.v_map.word[2], rounded(64).K * 64);
    assert_int_equal(f.k_map.word[3], rounded(64).T);
    assert_int_equal(f.k_map.word[4], rounded(64).B);
    assert_true(backward(rounded(64), &h200));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_hopper_DQ_64_rounded", "rt_attn_hopper_DKV_64_rounded", "rt_attn_bwd_sum");
    assert_true(backward(rounded(128), &h200));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_hopper_DQ_128_rounded", "rt_attn_hopper_DKV_128_rounded",
             "rt_attn_bwd_sum");
    assert_int_equal(built.launch[1].threads, 384);
    assert_string_equal(need.kernel, "flash, warpgroups, width 128, rounded weights");
    /* others take such ops with weights in parts */
    assert_true(backward(rounded(96), &h200));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_bwd_DQ_96", "rt_attn_bwd_DKV_96", "rt_attn_bwd_sum");
    assert_true(forward(rounded(128), &ada));
    LAUNCHED("rt_attn_fwd_bf16_128");
    /* a driver that cannot describe operands to the copy engine */
    assert_true(forward(rounded(64), &old_driver));
    LAUNCHED("rt_attn_fwd_bf16_64");
    assert_true(backward(rounded(128), &old_driver));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_bwd_DQ_128", "rt_attn_bwd_DKV_128", "rt_attn_bwd_sum");
}

/* Whatever has no tensor-core kernel says why; what has one, and f32, says nothing. */
static void test_plain_kernels_say_why(void **state)
{
    const rt_dtype bf16 = RT_DTYPE_BF16, f16 = RT_DTYPE_F16, f32 = RT_DTYPE_F32;
    (void)state;
    const struct {
        bool (*op)(shape s, const rt_cuda_caps *caps);
        shape s;
        const rt_cuda_caps *caps;
        const char *why;
    } cases[] = {
        { forward, half_b, &h200, NULL },
        { backward, half_b, &ada, NULL },
        { forward, with(half_b, f16, 64, 0, 0), &h200, NULL },
        { forward, with(half_b, f32, 16, 0, 0), &h200, NULL },
        { backward, with(half_b, f32, 64, 1, 0), &h200, NULL },
        { forward, with(half_b, bf16, 16, 0, 0), &h200, "heads of fewer than 32 columns" },
        { backward, with(half_b, bf16, 24, 0, 0), &h200, "heads of fewer than 32 columns" },
        { forward, with(half_b, bf16, 64, 1, 0), &h200, "views that are not on 16-byte boundaries" },
        { backward, with(half_b, bf16, 64, 1, 0), &h200, "views that are not on 16-byte boundaries" },
        { backward, with(half_b, f16, 64, 0, 0), &h200, "f16 backward" },
        { forward, half_b, &turing, "kernels for GPUs before sm_80" },
        { backward, half_b, &turing, "kernels for GPUs before sm_80" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        assert_true(cases[i].op(cases[i].s, cases[i].caps));
        bool same = cases[i].why ? need.plain && strcmp(need.plain, cases[i].why) == 0 : !need.plain;
        if (!same) fail_msg("case %d: %s", (int)i, need.plain ? need.plain : "nothing");
    }
}

static void test_backward_kernels(void **state)
{
    (void)state;
    assert_true(backward(half_b, &ada));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_bwd_DQ_64", "rt_attn_bwd_DKV_64", "rt_attn_bwd_sum");
    assert_true(backward(with(half_b, RT_DTYPE_BF16, 256, 0, 0), &ada));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_bwd_DQ_256", "rt_attn_bwd_DK_256", "rt_attn_bwd_DV_256", "rt_attn_bwd_sum");
    assert_true(backward(with(half_b, RT_DTYPE_F16, 64, 0, 0), &h200)); /* ds leaves the range of f16 */
    LAUNCHED("rt_attn_stats_wide", "rt_attn_plain_dq", "rt_attn_plain_dkv");
    assert_true(backward(with(half_b, RT_DTYPE_F32, 64, 0, 0), &h200));
    LAUNCHED("rt_attn_stats", "rt_attn_plain_dq", "rt_attn_plain_dkv");
    assert_true(backward(with(half_b, RT_DTYPE_BF16, 64, 1, 0), &h200));
    LAUNCHED("rt_attn_stats", "rt_attn_plain_dq", "rt_attn_plain_dkv");
    assert_true(backward(half_b, &turing));
    LAUNCHED("rt_attn_stats_wide", "rt_attn_plain_dq", "rt_attn_plain_dkv");
}

static void test_decode_kernels(void **state)
{
    (void)state;
    assert_true(decode(with(half_b, RT_DTYPE_BF16, 80, 0, 0), 1, &ada));
    LAUNCHED("rt_attn_decode_bf16_128", "rt_attn_decode_join");
    assert_true(decode(with(half_b, RT_DTYPE_F16, 256, 0, 0), 3, &ada));
    LAUNCHED("rt_attn_decode_f16_256", "rt_attn_decode_join");
    assert_true(decode(half_b, 1, &turing));
    LAUNCHED("rt_attn_decode_plain", "rt_attn_decode_join");
    assert_true(decode(with(half_b, RT_DTYPE_BF16, 64, 2, 0), 1, &h200));
    LAUNCHED("rt_attn_decode_plain", "rt_attn_decode_join");
}

/* ---- how the work is cut ---- */

static rt_cuda_attn_bwd_params backward_params(void)
{
    rt_cuda_attn_bwd_params p;
    assert_int_equal(built.launch[1].bytes, sizeof p);
    memcpy(&p, built.launch[1].params, sizeof p);
    return p;
}

/* Few keys and kv heads: the query heads are cut into parts, and no head is left out or done twice. */
static void test_parts(void **state)
{
    (void)state;
    static const struct {
        const rt_cuda_caps *caps;
        uint32_t B, T, H, K, parts, heads;
    } cuts[] = { { &ada, 16, 512, 14, 2, 7, 1 },  { &ada, 32, 512, 14, 2, 4, 2 },  { &ada, 64, 2048, 14, 2, 1, 7 },
                 { &ada, 1, 128, 8, 8, 1, 1 },    { &ada, 1, 1, 9, 3, 3, 1 },      { &ada, 64, 512, 15, 3, 2, 3 },
                 { &h200, 16, 512, 14, 2, 2, 4 }, { &h200, 4, 2048, 14, 2, 2, 4 }, { &h200, 64, 2048, 14, 2, 1, 7 },
                 { &h200, 1, 130, 15, 3, 5, 1 } };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        const uint64_t rows = (uint64_t)cuts[i].B * cuts[i].T, tiles = cuts[i].B * ((cuts[i].T + 127) / 128);
        const rt_cuda_caps *caps = cuts[i].caps;
        const shape s = { RT_DTYPE_BF16, cuts[i].B, cuts[i].T, cuts[i].H, cuts[i].K, 64, 0, 0, false };
        assert_true(backward(s, caps));
        const rt_cuda_attn_bwd_params p = backward_params();
        const uint32_t group = cuts[i].H / cuts[i].K;
        const uint64_t all = tiles * cuts[i].H;
        assert_int_equal(p.parts, cuts[i].parts);
        assert_int_equal(p.heads, cuts[i].heads);
        assert_true((p.parts - 1) * p.heads < group && p.parts * p.heads >= group);
        assert_int_equal(built.launch[1].blocks, caps == &h200 && all > 132 ? 132 : all);
        assert_int_equal(built.launch[2].blocks, tiles * cuts[i].K * p.parts);
        const uint64_t stats = rt_align_up(rows * cuts[i].H * 16, 256), sums = rows * cuts[i].K * 64 * 4 * 2 * p.parts;
        assert_int_equal(need.work_bytes, stats + (p.parts > 1 ? sums : 0));
        assert_int_equal(p.sums - p.stats, stats);
        assert_int_equal(built.n, p.parts > 1 ? 4 : 3);
    }
}

/* A cut of the cache never needs more scratch than was asked for, whichever kernel takes it in the end. */
static void test_splits(void **state)
{
    (void)state;
    static const struct {
        uint32_t B, S, Q, H, K, blocks, splits;
    } cuts[] = { { 1, 4096, 1, 14, 2, 1, 64 },
                 { 8, 4096, 1, 32, 8, 1, 8 },
                 { 64, 512, 1, 14, 2, 1, 4 },
                 { 1, 100, 1, 14, 2, 1, 2 },
                 { 1, 512, 512, 14, 2, 224, 2 } };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        shape s = { RT_DTYPE_BF16, cuts[i].B, cuts[i].S, cuts[i].H, cuts[i].K, 64, 0, 0, false };
        rt_cuda_attn_decode_params p;
        assert_true(decode(s, cuts[i].Q, &h200));
        memcpy(&p, built.launch[0].params, sizeof p);
        assert_int_equal(p.blocks, cuts[i].blocks);
        assert_int_equal(p.splits, cuts[i].splits);
        assert_int_equal(built.launch[0].blocks, s.B * s.K * p.blocks * p.splits);
        for (s.off = 0; s.off < 2; s.off++) {
            assert_true(decode(s, cuts[i].Q, &h200));
            memcpy(&p, built.launch[0].params, sizeof p);
            const uint64_t rows = (uint64_t)s.B * cuts[i].Q * s.H;
            assert_true(p.outs - p.tops >= rows * p.splits * 8);
            assert_true(p.outs - p.tops + rows * p.splits * s.D * 4 <= need.work_bytes);
        }
    }
}

static void test_refusals(void **state)
{
    (void)state;
    assert_false(forward(with(half_b, RT_DTYPE_F64, 64, 0, 0), &h200));
    assert_non_null(strstr(need.why_not, "f64"));
    assert_int_equal(built.n, 0);
    assert_false(forward((shape){ RT_DTYPE_BF16, 1, 0x7fffffff, 1, 1, 64, 0, 0, false }, &h200));
    assert_non_null(strstr(need.why_not, "2147483647 positions"));
    assert_false(forward((shape){ RT_DTYPE_BF16, 1u << 30, 1, 4, 1, 64, 0, 0, false }, &h200));
    assert_non_null(strstr(need.why_not, "4294967296 blocks"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_forward_kernels, teardown),
        cmocka_unit_test_teardown(test_hopper_kernels, teardown),
        cmocka_unit_test_teardown(test_rounding_kernels, teardown),
        cmocka_unit_test_teardown(test_backward_kernels, teardown),
        cmocka_unit_test_teardown(test_plain_kernels_say_why, teardown),
        cmocka_unit_test_teardown(test_decode_kernels, teardown),
        cmocka_unit_test_teardown(test_parts, teardown),
        cmocka_unit_test_teardown(test_splits, teardown),
        cmocka_unit_test_teardown(test_refusals, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
