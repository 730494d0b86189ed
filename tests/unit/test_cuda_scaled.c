/* test_cuda_scaled.c - the host side of e4m3 codes with row scales on CUDA, on a stand-in driver: which GEMMs the
 * library is given and with what, which our own kernel does, and how quant_rows and ops that make codes are launched.
 * The stand-in computes these GEMMs, so that a wrong address or layout is a wrong number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_case.h"

#include "backend/cuda/kernels/cuda_rmsnorm.h"
#include "backend/cuda/kernels/cuda_scaled.h"
#include "backend/cuda/kernels/cuda_swiglu.h"
#include "base/rng.h"
#include "num/e4m3.h"

#include <math.h>

/* One GEMM, or two that add up, of codes in wider buffers. */
typedef struct scaled {
    uint32_t M, N, K;
    uint32_t gap;       /* columns beside a and b */
    uint32_t scale_gap; /* columns beside the scales */
    rt_dtype out, bias; /* bias RT_DTYPE_COUNT: none */
    uint32_t times;
    rt_view a, b, sa, sb, bias_view, y;
    rt_space *space;
    rt_plan *plan;
} scaled;

static rt_view buffer(scaled *c, rt_class cls, rt_dtype d, uint32_t rows, uint32_t cols, uint32_t gap)
{
    rt_view v = rt_space_buf(c->space, cls, d, rows, cols + gap, "part");
    v.cols = cols;
    return v;
}

static void record_scaled(scaled *c)
{
    rt_err e = { 0 };
    assert_int_equal(rt_space_new(&c->space, &e), RT_OK);
    c->a = buffer(c, RT_CLASS_INPUT, RT_DTYPE_E4M3, c->M, c->K, c->gap);
    c->b = buffer(c, RT_CLASS_PARAM, RT_DTYPE_E4M3, c->N, c->K, c->gap);
    c->sa = buffer(c, RT_CLASS_INPUT, RT_DTYPE_F32, c->M, 1, c->scale_gap);
    c->sb = buffer(c, RT_CLASS_PARAM, RT_DTYPE_F32, c->N, 1, c->scale_gap);
    c->y = buffer(c, RT_CLASS_OUTPUT, c->out, c->M, c->N, 0);
    c->bias_view = c->bias == RT_DTYPE_COUNT ? RT_NONE : buffer(c, RT_CLASS_PARAM, c->bias, 1, c->N, 0);
    assert_int_equal(rt_plan_new(&c->plan, c->space, "scaled", &rt_policy_bf16, &e), RT_OK);
    for (uint32_t i = 0; i < c->times; i++)
        rt_emit_matmul_scaled(c->plan, c->y, c->a, c->sa, c->b, c->sb, i ? RT_NONE : c->bias_view);
    if (rt_plan_status(c->plan, &e) < 0) fail_msg("%s", e.text);
}

static void forget_scaled(scaled *c)
{
    rt_plan_free(c->plan);
    rt_space_free(c->space);
}

static float number(uint32_t stream, uint64_t i) { return (float)(int32_t)rt_philox(9, stream, i).v[0] * 0x1p-31f; }

typedef struct host {
    uint8_t *a, *b;
    float *sa, *sb;
    uint16_t bias[64];
} host;

/* Row by row, for there may be gaps. bytes: of an element */
static void put(rt_exec *x, rt_view v, const void *data, uint64_t bytes)
{
    rt_err e = { 0 };
    for (uint32_t r = 0; r < v.rows; r++) {
        rt_view row = { .buf = v.buf, .rows = 1, .cols = v.cols, .off = r * v.stride, .stride = v.cols };
        const uint8_t *from = (const uint8_t *)data + r * v.cols * bytes;
        if (rt_exec_write(x, row, from, v.cols * bytes, &e) < 0) fail_msg("%s", e.text);
    }
}

static void fill(const scaled *c, rt_exec *x, host *h)
{
    *h = (host){ malloc(c->M * c->K), malloc(c->N * c->K), malloc(c->M * 4), malloc(c->N * 4), { 0 } };
    for (uint32_t i = 0; i < c->M * c->K; i++) h->a[i] = rt_e4m3_from_f32(100 * number(1, i));
    for (uint32_t i = 0; i < c->N * c->K; i++) h->b[i] = rt_e4m3_from_f32(100 * number(2, i));
    for (uint32_t i = 0; i < c->M; i++) h->sa[i] = 0.01f + fabsf(number(3, i));
    for (uint32_t i = 0; i < c->N; i++) h->sb[i] = 0.01f + fabsf(number(4, i));
    for (uint32_t i = 0; i < c->N; i++) h->bias[i] = rt_bf16_from_f32(100 * number(5, i));
    put(x, c->a, h->a, 1);
    put(x, c->b, h->b, 1);
    put(x, c->sa, h->sa, 4);
    put(x, c->sb, h->sb, 4);
    if (c->bias == RT_DTYPE_BF16) put(x, c->bias_view, h->bias, 2);
}

static double want(const scaled *c, const host *h, uint32_t m, uint32_t n)
{
    double sum = 0;
    for (uint32_t k = 0; k < c->K; k++)
        sum += (double)rt_e4m3_to_f32(h->a[m * c->K + k]) * (double)rt_e4m3_to_f32(h->b[n * c->K + k]);
    return c->times * sum * (double)h->sa[m] * (double)h->sb[n] +
           (c->bias_view.buf ? (double)rt_bf16_to_f32(h->bias[n]) : 0);
}

static void check(const scaled *c, rt_exec *x, const host *h)
{
    rt_err e = { 0 };
    uint16_t half[64 * 64];
    float y[64 * 64];
    bool narrow = c->out == RT_DTYPE_BF16;
    uint64_t n = (uint64_t)c->M * c->N;
    if (rt_exec_read(x, c->y, narrow ? (void *)half : (void *)y, n * (narrow ? 2 : 4), &e) < 0) fail_msg("%s", e.text);
    for (uint32_t i = 0; i < n; i++) {
        double w = want(c, h, i / c->N, i % c->N), got = (double)(narrow ? rt_bf16_to_f32(half[i]) : y[i]);
        if (fabs(got - w) > fabs(w) * (narrow ? 0x1p-7 : 1e-5)) fail_msg("element %u: %g, want %g", i, got, w);
    }
}

/* What the driver loads and launches tells whose kernel does it. */
static bool own_launched;
static rt_cuda_quant_rows_params rows_params;
static struct {
    uint32_t grid, block;
} rows_launch;

static const char *const *environment; /* of devices that are opened */

static void run_scaled(scaled c, bool by_library, int rounds)
{
    const rt_dev_option sync = { "sync", "on" };
    rt_err e = { 0 };
    rt_exec *x;
    rt_ticket t;
    host h = { 0 };
    *s = FRESH;
    s->lt_rounds = rounds;
    rt_dev *d = open_ok(&(rt_dev_opts){ .option = &sync, .count = 1, .env = environment });
    record_scaled(&c);
    if (rt_exec_seal(&x, d, (const rt_plan *const *)&c.plan, 1, NULL, &e) < 0) fail_msg("%s", e.text);
    s->log_len = 0;
    s->log[0] = 0;
    fill(&c, x, &h);
    assert_int_equal(rt_exec_run(x, 0, &t, &e), RT_OK);
    assert_int_equal(rt_exec_wait(x, t, &e), RT_OK);
    assert_int_equal(strstr(s->log, "cublasLtMatmul\n") != NULL, by_library);
    own_launched = strstr(s->log, "cuLaunchKernelEx") != NULL;
    if (by_library && !own_launched) check(&c, x, &h); /* kernels of ours do nothing here */
    rt_exec_free(x);
    d->api->close(d);
    forget_scaled(&c);
    free(h.a), free(h.b), free(h.sa), free(h.sb);
    assert_int_equal(s->live, 0);
}

static const scaled plain = { .M = 48, .N = 32, .K = 64, .out = RT_DTYPE_BF16, .bias = RT_DTYPE_COUNT, .times = 1 };

static void the_library_has_scales_and_layouts(void **state)
{
    scaled c = plain;
    (void)state;
    run_scaled(c, true, 0);
    assert_false(own_launched);
    c.out = RT_DTYPE_F32;
    run_scaled(c, true, 0);
    c.gap = 16;
    run_scaled(c, true, 0);
    c = plain;
    c.M = 7; /* rows may be any number */
    run_scaled(c, true, 0);
    c.times = 2;
    run_scaled(c, true, 0);
    c = plain;
    c.bias = RT_DTYPE_BF16;
    run_scaled(c, true, 0);
    assert_false(own_launched);
}

static void what_it_does_not_take_is_ours(void **state)
{
    scaled c = plain;
    (void)state;
    c.K = 40; /* no multiple of 16 */
    run_scaled(c, false, 0);
    assert_true(own_launched);
    c = plain;
    c.N = 24;
    run_scaled(c, false, 0);
    c = plain;
    c.gap = 8; /* rows are not aligned */
    run_scaled(c, false, 0);
    c = plain;
    c.scale_gap = 3;
    run_scaled(c, false, 0);
    c = plain;
    c.out = RT_DTYPE_F16; /* the stand-in has no algorithm for it */
    run_scaled(c, false, 0);
}

/* Candidates that round before they add are passed over, by numbers that tell; what adds nothing has none to tell. */
static void a_sum_is_rounded_once(void **state)
{
    scaled c = plain;
    (void)state;
    run_scaled(c, true, 3);
    c.bias = RT_DTYPE_BF16;
    run_scaled(c, true, 2);
    run_scaled(c, false, 3);
    c = plain;
    c.times = 2;
    run_scaled(c, true, 2);
}

/* Sums are fast only where a variable asks for it, and a device says so. */
static void fast_sums_are_asked_for(void **state)
{
    static const char *const all[][2] = { { "RETORT_FP8_FAST_SUMS=1", NULL }, { "RETORT_FP8_FAST_SUMS=0", NULL } };
    (void)state;
    for (int i = 0; i < 3; i++) {
        rt_dev_info info;
        environment = i < 2 ? all[i] : NULL;
        run_scaled(plain, true, 0);
        assert_int_equal(s->lt_fast != 0, i == 0);
        rt_dev *d = open_ok(&(rt_dev_opts){ .env = environment });
        assert_int_equal(d->api->info(d, &info, NULL), RT_OK);
        assert_int_equal(strstr(info.warning, "RETORT_FP8_FAST_SUMS") != NULL, i == 0);
        d->api->close(d);
    }
    environment = NULL;
}

/* The library adds no f32 bias to an f32 output here: it is written first, by a kernel of ours. */
static void a_bias_goes_first(void **state)
{
    scaled c = plain;
    (void)state;
    c.out = c.bias = RT_DTYPE_F32;
    run_scaled(c, true, 0);
    assert_true(own_launched);
}

/* ---- quant_rows ---- */

static void launched(const struct rt_cu_launch *how, void **params)
{
    rows_launch.grid = how->grid[0];
    rows_launch.block = how->block[0];
    memcpy(&rows_params, params[0], sizeof rows_params);
}

static void launch_rows(uint32_t N_rows, uint32_t C, uint32_t gap, rt_dtype dtype)
{
    rt_err e = { 0 };
    rt_exec *x;
    scaled c = { 0 };
    *s = FRESH;
    rt_dev *d = open_ok(&RT_DEV_OPTIONS({ "sync", "on" }));
    assert_int_equal(rt_space_new(&c.space, &e), RT_OK);
    c.a = buffer(&c, RT_CLASS_OUTPUT, RT_DTYPE_E4M3, N_rows, C, 0);
    c.sa = buffer(&c, RT_CLASS_OUTPUT, RT_DTYPE_F32, N_rows, 1, 0);
    c.y = buffer(&c, RT_CLASS_INPUT, dtype, N_rows, C, gap);
    assert_int_equal(rt_plan_new(&c.plan, c.space, "rows", &rt_policy_bf16, &e), RT_OK);
    rt_emit_quant_rows(c.plan, c.a, c.sa, c.y);
    if (rt_exec_seal(&x, d, (const rt_plan *const *)&c.plan, 1, NULL, &e) < 0) fail_msg("%s", e.text);
    s->launched = launched;
    assert_int_equal(rt_exec_run(x, 0, NULL, &e), RT_OK);
    rt_exec_free(x);
    d->api->close(d);
    forget_scaled(&c);
}

/* Every row has a team, and a team keeps its row where packs are whole. */
static void rows_have_teams(void **state)
{
    static const struct {
        uint32_t C, gap;
        rt_dtype dtype;
        uint32_t team, held;
    } all[] = { { 1536, 0, RT_DTYPE_BF16, 64, 1 },    { 8960, 0, RT_DTYPE_BF16, 288, 1 },
                { 18944, 0, RT_DTYPE_BF16, 608, 1 },  { 576, 0, RT_DTYPE_F16, 32, 1 },
                { 1536, 0, RT_DTYPE_F32, 96, 1 },     { 32768, 0, RT_DTYPE_BF16, 1024, 1 },
                { 33000, 0, RT_DTYPE_BF16, 1024, 0 }, { 1537, 0, RT_DTYPE_BF16, 64, 0 },
                { 1536, 4, RT_DTYPE_BF16, 64, 0 },    { 1, 0, RT_DTYPE_F32, 32, 0 } };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        launch_rows(37, all[i].C, all[i].gap, all[i].dtype);
        uint32_t teams = rows_launch.block / rows_params.team;
        assert_int_equal(rows_params.team, all[i].team);
        assert_int_equal(rows_params.held, all[i].held);
        assert_int_equal(rows_launch.block % rows_params.team, 0);
        assert_true(rows_launch.block <= RT_CUDA_QROWS_MOST && rows_launch.grid == (37 + teams - 1) / teams);
        assert_true(rows_params.N == 37 && rows_params.C == all[i].C);
    }
}

/* ---- ops that make codes ---- */

static rt_cuda_rmsnorm_params norm_params;
static rt_cuda_coded_swiglu_params swiglu_params;

static void norm_launched(const struct rt_cu_launch *how, void **params)
{
    rows_launch.block = how->block[0];
    memcpy(&norm_params, params[0], sizeof norm_params);
}

static void swiglu_launched(const struct rt_cu_launch *how, void **params)
{
    rows_launch.grid = how->grid[0];
    rows_launch.block = how->block[0];
    memcpy(&swiglu_params, params[0], sizeof swiglu_params);
}

typedef struct coded_case {
    rt_op_kind kind;
    uint32_t C, gap; /* columns beside the codes */
    rt_dtype dtype;
    uint32_t team, held;
} coded_case;

static void launch_coded(const coded_case *k)
{
    rt_err e = { 0 };
    rt_exec *x;
    scaled c = { 0 };
    enum { ROWS = 37 };
    *s = FRESH;
    rt_dev *d = open_ok(&RT_DEV_OPTIONS({ "sync", "on" }));
    assert_int_equal(rt_space_new(&c.space, &e), RT_OK);
    c.a = buffer(&c, RT_CLASS_OUTPUT, RT_DTYPE_E4M3, ROWS, k->C, k->gap);
    c.sa = buffer(&c, RT_CLASS_OUTPUT, RT_DTYPE_F32, ROWS, 1, 0);
    rt_view in[2], h = buffer(&c, RT_CLASS_OUTPUT, k->dtype, ROWS, k->C, 0);
    rt_view w = buffer(&c, RT_CLASS_PARAM, RT_DTYPE_BF16, 1, k->C, 0);
    for (int i = 0; i < 2; i++) in[i] = buffer(&c, RT_CLASS_INPUT, k->dtype, ROWS, k->C, k->C);
    assert_int_equal(rt_plan_new(&c.plan, c.space, "codes", &rt_policy_bf16, &e), RT_OK);
    if (k->kind == RT_OP_SWIGLU_FWD)
        rt_emit_swiglu_fwd(c.plan, c.a, c.sa, in[0], in[1]);
    else if (k->kind == RT_OP_RMSNORM_FWD)
        rt_emit_rmsnorm_fwd(c.plan, c.a, c.sa, in[0], w, 1, 1e-6f);
    else
        rt_emit_add_rmsnorm_fwd(c.plan, c.a, c.sa, h, in[0], in[1], w, 1e-6f);
    if (rt_exec_seal(&x, d, (const rt_plan *const *)&c.plan, 1, NULL, &e) < 0) fail_msg("%s", e.text);
    s->launched = k->kind == RT_OP_SWIGLU_FWD ? swiglu_launched : norm_launched;
    assert_int_equal(rt_exec_run(x, 0, NULL, &e), RT_OK);
    rt_exec_free(x);
    d->api->close(d);
    forget_scaled(&c);
}

/* The codes need half the alignment that bf16 values do; where they have not even that, nothing is held. */
static void codes_are_made_by_teams(void **state)
{
    static const coded_case all[] = {
        { RT_OP_SWIGLU_FWD, 8960, 0, RT_DTYPE_BF16, 288, 1 },
        { RT_OP_SWIGLU_FWD, 576, 0, RT_DTYPE_F16, 32, 1 },
        { RT_OP_SWIGLU_FWD, 18944, 0, RT_DTYPE_BF16, 608, 1 },
        { RT_OP_SWIGLU_FWD, 33000, 0, RT_DTYPE_BF16, 1024, 0 },
        { RT_OP_SWIGLU_FWD, 8960, 8, RT_DTYPE_BF16, 288, 1 },
        { RT_OP_SWIGLU_FWD, 8960, 4, RT_DTYPE_BF16, 288, 0 },
        { RT_OP_RMSNORM_FWD, 1536, 0, RT_DTYPE_BF16, 64, 1 },
        { RT_OP_RMSNORM_FWD, 64, 0, RT_DTYPE_BF16, 8, 1 },
        { RT_OP_ADD_RMSNORM_FWD, 3584, 8, RT_DTYPE_BF16, 128, 1 },
        { RT_OP_ADD_RMSNORM_FWD, 1536, 4, RT_DTYPE_BF16, 64, 0 },
    };
    (void)state;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        bool swiglu = all[i].kind == RT_OP_SWIGLU_FWD;
        launch_coded(&all[i]);
        uint32_t team = swiglu ? swiglu_params.team : norm_params.team;
        assert_int_equal(team, all[i].team);
        assert_int_equal(swiglu ? swiglu_params.held : norm_params.held, all[i].held);
        assert_int_equal(rows_launch.block % team, 0);
        if (swiglu) {
            uint32_t teams = rows_launch.block / team;
            assert_int_equal(rows_launch.grid, (37 + teams - 1) / teams);
            assert_true(swiglu_params.F == all[i].C && swiglu_params.g.stride == 2 * all[i].C);
            assert_true(swiglu_params.scale.at && swiglu_params.y.stride == all[i].C + all[i].gap);
        } else {
            assert_true(norm_params.scale.at && norm_params.y.stride == all[i].C + all[i].gap);
            assert_int_equal(norm_params.h.at != 0, all[i].kind == RT_OP_ADD_RMSNORM_FWD);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_library_has_scales_and_layouts, fresh),
        cmocka_unit_test_setup(what_it_does_not_take_is_ours, fresh),
        cmocka_unit_test_setup(a_sum_is_rounded_once, fresh),
        cmocka_unit_test_setup(fast_sums_are_asked_for, fresh),
        cmocka_unit_test_setup(a_bias_goes_first, fresh),
        cmocka_unit_test_setup(rows_have_teams, fresh),
        cmocka_unit_test_setup(codes_are_made_by_teams, fresh),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
