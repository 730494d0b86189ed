/* test_int8.c - rows of Q8_0 times packed weights (matmul_int8): how it is recorded, what it computes, and that an
 * element has the same bits whatever stands beside it, with any number of threads, and with and without instructions
 * for sums of products of bytes.
 *
 * The kernels are called as the CPU backend calls them, on every instruction set that this machine has. */
#include "backend/cpu/cpu.h"
#include "base/rng.h"
#include "num/quant.h"

#include "emit_case.h"

#include <stdlib.h>

enum { MOST_M = 19, MOST_N = 41, MOST_K = 1536 };
static const rt_dtype packed[] = { RT_DTYPE_Q8_0, RT_DTYPE_Q4_0, RT_DTYPE_Q4_1,
                                   RT_DTYPE_Q4_K, RT_DTYPE_Q5_K, RT_DTYPE_Q6_K };
enum { PACKED = sizeof packed / sizeof *packed };

static float xs[MOST_M * MOST_K], ws[MOST_N * MOST_K];
static uint8_t a[MOST_M * MOST_K * 2], b[MOST_N * MOST_K * 2];
static _Alignas(64) uint8_t work[MOST_M * MOST_K * 4];

/* Exact products, so that what is left is the rounding of the sums over blocks. */
static void fill(rt_dtype d, uint32_t M, uint32_t N, uint32_t K)
{
    for (uint32_t i = 0; i < M * K; i++) xs[i] = (float)rt_philox(1, 2, i).v[0] / 4294967296.0f - 0.4f;
    for (uint32_t i = 0; i < N * K; i++) ws[i] = (float)rt_philox(3, 4, i).v[0] / 2147483648.0f - 1.1f;
    ws[0] = 9;
    rt_quant_from_f32(a, xs, RT_DTYPE_Q8_0, (uint64_t)M * K);
    rt_quant_from_f32(b, ws, d, (uint64_t)N * K);
    rt_quant_to_f32(xs, a, RT_DTYPE_Q8_0, (uint64_t)M * K);
    rt_quant_to_f32(ws, b, d, (uint64_t)N * K);
}

typedef struct how {
    const rt_cpu_isa *isa;
    bool dot;
    uint32_t threads;
} how;

static rt_operand operand(rt_mem *m, rt_dtype d, uint32_t rows, uint32_t cols)
{
    return (rt_operand){ .mem = m, .dtype = d, .rows = rows, .cols = cols, .stride = cols };
}

/* out (M,N) = rows m0 .. of a times rows n0 .. of b */
static void product(how h, rt_dtype d, uint32_t m0, uint32_t M, uint32_t n0, uint32_t N, uint32_t K, float *out)
{
    rt_mem mem[] = { { (uint8_t *)out, 4ull * M * N }, { a, sizeof a }, { b, sizeof b }, { work, sizeof work } };
    rt_bound_op o = { .kind = RT_OP_MATMUL_INT8, .nslots = 4, .args.matmul = { M, N, K, 0, 1, 1.0f } };
    rt_cpu_ctx c = { .threads = h.threads, .dot = h.dot };
    rt_cpu_work w = { .args = &o.args, .threads = h.threads };
    o.slot[RT_MM_OUT] = operand(&mem[0], RT_DTYPE_F32, M, N);
    o.slot[RT_MM_A] = operand(&mem[1], RT_DTYPE_Q8_0, M, K);
    o.slot[RT_MM_A].off = rt_dtype_bytes(RT_DTYPE_Q8_0, (uint64_t)m0 * K);
    o.slot[RT_MM_B] = operand(&mem[2], d, N, K);
    o.slot[RT_MM_B].off = rt_dtype_bytes(d, (uint64_t)n0 * K);
    o.work = operand(&mem[3], RT_DTYPE_U8, 1, sizeof work);
    assert_true(h.isa->work[RT_OP_MATMUL_INT8](&w) <= sizeof work);
    assert_int_equal(rt_pool_new(&c.pool, h.threads, NULL), RT_OK);
    h.isa->op[RT_OP_MATMUL_INT8](&c, &o);
    rt_pool_free(c.pool);
}

static uint32_t longest(rt_dtype d) { return rt_dtype_table[d].block_elems == 256 ? 1536 : 1504; }

static void test_is_the_sum(void **state)
{
    float out[MOST_M * MOST_N];
    (void)state;
    for (const rt_cpu_isa *const *isa = rt_cpu_isas(); *isa; isa++)
        for (int t = 0; t < PACKED; t++)
            for (uint32_t K = rt_dtype_table[packed[t]].block_elems; K <= longest(packed[t]);
                 K += rt_dtype_table[packed[t]].block_elems * (K < 700 ? 1 : 3)) {
                const uint32_t M = 3, N = 7;
                fill(packed[t], M, N, K);
                product((how){ *isa, rt_cpu_has_dot(*isa), 1 }, packed[t], 0, M, 0, N, K, out);
                for (uint32_t m = 0; m < M; m++)
                    for (uint32_t n = 0; n < N; n++) {
                        double sum = 0, xx = 0, ww = 0;
                        for (uint32_t k = 0; k < K; k++) {
                            const double x = (double)xs[m * K + k], w = (double)ws[n * K + k];
                            sum += x * w;
                            xx += x * x;
                            ww += w * w;
                        }
                        if (!(fabs((double)out[m * N + n] - sum) <= 8 * 0x1p-24 * sqrt(xx * ww)))
                            fail_msg("%s, %s, K %u, element %u,%u: %.9g, want %.9g", (*isa)->name,
                                     rt_dtype_name(packed[t]), K, m, n, (double)out[m * N + n], sum);
                    }
            }
}

static void same(const char *what, const rt_cpu_isa *isa, rt_dtype d, const float *got, const float *want, size_t n)
{
    if (memcmp(got, want, n * sizeof *got) != 0) fail_msg("%s, %s: other bits %s", isa->name, rt_dtype_name(d), what);
}

static void test_bits(void **state)
{
    float all[MOST_M * MOST_N], got[MOST_M * MOST_N];
    (void)state;
    for (const rt_cpu_isa *const *isa = rt_cpu_isas(); *isa; isa++)
        for (int t = 0; t < PACKED; t++) {
            const rt_dtype d = packed[t];
            const uint32_t M = MOST_M, N = MOST_N, K = longest(d);
            const how one = { *isa, false, 1 };
            fill(d, M, N, K);
            product(one, d, 0, M, 0, N, K, all);
            product((how){ *isa, rt_cpu_has_dot(*isa), 1 }, d, 0, M, 0, N, K, got);
            same("with sums of products of bytes", *isa, d, got, all, (size_t)M * N);
            product((how){ *isa, false, 3 }, d, 0, M, 0, N, K, got);
            same("with three threads", *isa, d, got, all, (size_t)M * N);
            for (uint32_t rows = 1; rows < 12; rows++) {
                const uint32_t m0 = M - rows;
                product(one, d, m0, rows, 0, N, K, got);
                same("with fewer rows of a", *isa, d, got, all + (size_t)m0 * N, (size_t)rows * N);
            }
            for (uint32_t n = 0; n < N; n += 5) {
                product(one, d, 2, 1, n, 1, K, got);
                same("of one row of b", *isa, d, got, all + 2 * N + n, 1);
            }
        }
}

/* The largest integers of every type, which sums of two products in 16 bits have to hold; and -128, which our quantiser
 * does not make and others do. */
static void test_extremes(void **state)
{
    float out[1];
    const uint32_t K = 256;
    (void)state;
    for (const rt_cpu_isa *const *isa = rt_cpu_isas(); *isa; isa++)
        for (int t = 0; t < PACKED; t++)
            for (int sign = -1; sign <= 1; sign += 2) {
                double sum = 0;
                for (uint32_t k = 0; k < K; k++) {
                    xs[k] = 127;
                    ws[k] = (float)sign * (k % 32 == 0 ? -1.0f : 1.0f);
                }
                rt_quant_from_f32(a, xs, RT_DTYPE_Q8_0, K);
                rt_quant_from_f32(b, ws, packed[t], K);
                if (packed[t] == RT_DTYPE_Q8_0) memset(b + 2, 0x80, 32);
                memset(a + 2, 0x80, 32);
                rt_quant_to_f32(xs, a, RT_DTYPE_Q8_0, K);
                rt_quant_to_f32(ws, b, packed[t], K);
                for (uint32_t k = 0; k < K; k++) sum += (double)xs[k] * (double)ws[k];
                for (int dot = 0; dot <= rt_cpu_has_dot(*isa); dot++) {
                    product((how){ *isa, dot, 1 }, packed[t], 0, 1, 0, 1, K, out);
                    if (!(fabs((double)out[0] - sum) <= 1e-6 * 128 * K))
                        fail_msg("%s, %s: %.9g, want %.9g", (*isa)->name, rt_dtype_name(packed[t]), (double)out[0],
                                 sum);
                }
            }
}

/* A row with a value that is not finite gives NaN, and the others what they give without it. */
static void test_not_finite(void **state)
{
    float want[2 * MOST_N], got[2 * MOST_N];
    const uint32_t K = 512, N = 9;
    (void)state;
    for (const rt_cpu_isa *const *isa = rt_cpu_isas(); *isa; isa++)
        for (int t = 0; t < PACKED; t++) {
            const how h = { *isa, rt_cpu_has_dot(*isa), 1 };
            fill(packed[t], 2, N, K);
            product(h, packed[t], 0, 2, 0, N, K, want);
            xs[300] = INFINITY;
            rt_quant_from_f32(a, xs, RT_DTYPE_Q8_0, K);
            product(h, packed[t], 0, 2, 0, N, K, got);
            for (uint32_t n = 0; n < N; n++) assert_true(isnan(got[n]));
            same("beside a row that is not finite", *isa, packed[t], got + N, want + N, N);
        }
}

static rt_view put(rt_dtype d, uint32_t rows, uint32_t cols)
{
    return rt_space_buf(space, RT_CLASS_STATE, d, rows, cols, "out");
}

static void test_recorded(void **state)
{
    (void)state;
    const rt_dtype F = RT_DTYPE_F32, B = RT_DTYPE_BF16;
    rt_view x = in(RT_DTYPE_Q8_0, 3, 256), w = in(RT_DTYPE_Q4_K, 4, 256), bias = in(B, 1, 4), y = put(B, 3, 4);
    ACCEPT(MATMUL_INT8, rt_emit_matmul_int8(plan, y, x, w, bias));
    SLOTS_ARE(y, x, w, bias);
    const rt_matmul_args *m = &last.args.matmul;
    assert_true(m->M == 3 && m->N == 4 && m->K == 256 && !m->ta && m->tb == 1 && m->alpha == 1);
    for (int t = 0; t < PACKED; t++)
        ACCEPT(MATMUL_INT8, rt_emit_matmul_int8(plan, put(F, 3, 4), x, in(packed[t], 4, 256), RT_NONE));
    REFUSE(rt_emit_matmul_int8(plan, y, x, in(RT_DTYPE_Q5_0, 4, 256), bias),
           "operand 'b' is q5_0; it takes q8_0, q4_0, q4_1, q4_k, q5_k or q6_k");
    REFUSE(rt_emit_matmul_int8(plan, y, x, in(B, 4, 256), bias), "operand 'b' is bf16");
    REFUSE(rt_emit_matmul_int8(plan, y, in(F, 3, 256), w, bias), "operand 'a' is f32; it takes q8_0");
    REFUSE(rt_emit_matmul_int8(plan, y, x, in(RT_DTYPE_Q4_K, 4, 512), bias),
           "matmul_int8: a is (3,256), so b must have 256 columns; it has 512");
    REFUSE(rt_emit_matmul_int8(plan, put(F, 4, 3), x, w, bias), "out is (4,3), expected (3,4)");
    REFUSE(rt_emit_matmul_int8(plan, y, x, w, in(B, 1, 3)), "bias is (1,3), expected (1,4)");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_is_the_sum),
        cmocka_unit_test(test_bits),
        cmocka_unit_test(test_extremes),
        cmocka_unit_test(test_not_finite),
        cmocka_unit_test_setup_teardown(test_recorded, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
