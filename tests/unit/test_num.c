/* test_num.c - dtypes by name, conversion between float types, rope frequency tables.
 *
 * The oracle for rounding works on numbers, not on bits: a double is scaled so that the target's last place is one,
 * rounded by rint, and scaled back. The golden rope tables come from transformers' own code (see rope_golden.py). */
#include "base/rng.h"
#include "num/dtype.h"
#include "num/rope_freq.h"

#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

#include "rope_golden.h"

/* ---- the oracle ---- */

typedef struct half_kind {
    rt_dtype dtype;
    int bits;       /* of the significand, the leading one included */
    int least;      /* exponent of the smallest subnormal */
    double largest; /* finite */
    uint16_t exponent_mask;
} half_kind;

static const half_kind f16 = {RT_DTYPE_F16, 11, -24, 65504.0, 0x7c00};
static const half_kind bf16 = {RT_DTYPE_BF16, 8, -133, 0x1.fep127, 0x7f80};

static double oracle_decode(const half_kind *k, uint16_t h)
{
    int mantissa_bits = k->bits - 1;
    int exponent = (h & 0x7fff) >> mantissa_bits, mantissa = h & ((1 << mantissa_bits) - 1);
    double sign = h & 0x8000 ? -1 : 1;
    if (exponent == k->exponent_mask >> mantissa_bits) return mantissa ? (double)NAN : sign * (double)INFINITY;
    if (exponent == 0) return sign * ldexp(mantissa, k->least);
    return sign * ldexp(mantissa + (1 << mantissa_bits), k->least + exponent - 1);
}

/* x rounded to the type, as a number. */
static double oracle_round(const half_kind *k, double x)
{
    if (x == 0 || !isfinite(x)) return x;
    int exponent;
    frexp(x, &exponent); /* |x| in [2^(exponent-1), 2^exponent) */
    int last = exponent - k->bits > k->least ? exponent - k->bits : k->least;
    double r = ldexp(rint(ldexp(x, -last)), last);
    return fabs(r) > k->largest ? copysign((double)INFINITY, x) : r;
}

static bool same(double a, double b) { return isnan(a) ? isnan(b) : a == b && signbit(a) == signbit(b); }

static uint16_t from_f32(const half_kind *k, float x)
{
    uint16_t one = k->dtype == RT_DTYPE_F16 ? rt_f16_from_f32(x) : rt_bf16_from_f32(x), run;
    rt_float_from_f32(&run, &x, k->dtype, 1);
    assert_int_equal(one, run);
    return one;
}

static uint16_t from_f64(const half_kind *k, double x)
{
    uint16_t h;
    rt_float_from_f64(&h, &x, k->dtype, 1);
    return h;
}

static void check_f32(const half_kind *k, float x)
{
    double want = oracle_round(k, (double)x), got = oracle_decode(k, from_f32(k, x));
    if (!same(want, got)) fail_msg("%s(%a): want %a, got %a", rt_dtype_name(k->dtype), (double)x, want, got);
}

static void check_f64(const half_kind *k, double x)
{
    double want = oracle_round(k, x), got = oracle_decode(k, from_f64(k, x));
    if (!same(want, got)) fail_msg("%s(%a) from f64: want %a, got %a", rt_dtype_name(k->dtype), x, want, got);
}

/* ---- dtypes ---- */

static void test_dtype_table(void **state)
{
    (void)state;
    static const struct {
        rt_dtype d;
        const char *name;
        uint32_t elems, bytes;
        char cls;
    } want[] = {
        {RT_DTYPE_F32, "f32", 1, 4, 'f'},       {RT_DTYPE_BF16, "bf16", 1, 2, 'f'},
        {RT_DTYPE_F16, "f16", 1, 2, 'f'},       {RT_DTYPE_F64, "f64", 1, 8, 'f'},
        {RT_DTYPE_I32, "i32", 1, 4, 'i'},       {RT_DTYPE_U32, "u32", 1, 4, 'i'},
        {RT_DTYPE_U8, "u8", 1, 1, 'i'},         {RT_DTYPE_Q8_0, "q8_0", 32, 34, 'q'},
        {RT_DTYPE_Q4_0, "q4_0", 32, 18, 'q'},   {RT_DTYPE_Q4_K, "q4_k", 256, 144, 'q'},
        {RT_DTYPE_Q5_K, "q5_k", 256, 176, 'q'}, {RT_DTYPE_Q6_K, "q6_k", 256, 210, 'q'},
        {RT_DTYPE_I8, "i8", 1, 1, 'i'},         {RT_DTYPE_I16, "i16", 1, 2, 'i'},
        {RT_DTYPE_I64, "i64", 1, 8, 'i'},       {RT_DTYPE_Q4_1, "q4_1", 32, 20, 'q'},
        {RT_DTYPE_Q5_0, "q5_0", 32, 22, 'q'},   {RT_DTYPE_Q5_1, "q5_1", 32, 24, 'q'},
        {RT_DTYPE_Q2_K, "q2_k", 256, 84, 'q'},  {RT_DTYPE_Q3_K, "q3_k", 256, 110, 'q'},
        {RT_DTYPE_IQ4_NL, "iq4_nl", 32, 18, 'q'}, {RT_DTYPE_IQ4_XS, "iq4_xs", 256, 136, 'q'},
        {RT_DTYPE_E4M3, "e4m3", 1, 1, 'c'},
    };
    assert_int_equal(sizeof want / sizeof want[0], RT_DTYPE_COUNT);
    for (int i = 0; i < RT_DTYPE_COUNT; i++) {
        rt_dtype d = want[i].d, parsed = RT_DTYPE_COUNT;
        assert_string_equal(rt_dtype_name(d), want[i].name);
        assert_int_equal(rt_dtype_table[d].block_elems, want[i].elems);
        assert_int_equal(rt_dtype_table[d].block_bytes, want[i].bytes);
        assert_int_equal(rt_dtype_is_float(d), want[i].cls == 'f');
        assert_int_equal(rt_dtype_is_quant(d), want[i].cls == 'q');
        assert_int_equal(rt_dtype_bytes(d, 256 * 5), 256 * 5 / want[i].elems * want[i].bytes);
        assert_true(rt_dtype_parse(want[i].name, &parsed));
        assert_int_equal(parsed, d);
    }
}

static void test_dtype_parse(void **state)
{
    (void)state;
    rt_dtype d = RT_DTYPE_U8;
    assert_true(rt_dtype_parse("Q4_K", &d));
    assert_int_equal(d, RT_DTYPE_Q4_K);
    assert_true(rt_dtype_parse("bF16", &d));
    assert_int_equal(d, RT_DTYPE_BF16);
    static const char *const wrong[] = {"", "f", "f3", "f322", "bf16 ", " f32", "q4", "q4-k", "F3\x12"};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) assert_false(rt_dtype_parse(wrong[i], &d));
    assert_false(rt_dtype_parse(NULL, &d));
    assert_int_equal(d, RT_DTYPE_BF16); /* untouched */
}

/* ---- conversion ---- */

static void every_half(const half_kind *k)
{
    for (uint32_t u = 0; u < 65536; u++) {
        uint16_t h = (uint16_t)u;
        float x = k->dtype == RT_DTYPE_F16 ? rt_f16_to_f32(h) : rt_bf16_to_f32(h), run;
        double wide, want = oracle_decode(k, h);
        rt_float_to_f32(&run, &h, k->dtype, 1);
        rt_float_to_f64(&wide, &h, k->dtype, 1);
        assert_true(same((double)x, want) && same((double)run, want) && same(wide, want));
        if (isnan(want)) { /* stays a NaN of its sign, made quiet, through every path */
            uint16_t quiet = k->dtype == RT_DTYPE_F16 ? 0x0200 : 0x0040;
            assert_int_equal(from_f32(k, x), h | quiet);
            assert_true(isnan(oracle_decode(k, from_f64(k, wide))));
        } else {
            assert_int_equal(from_f32(k, x), h);
            assert_int_equal(from_f64(k, (double)x), h);
        }
    }
}

static void test_f16_every_value(void **state)
{
    (void)state;
    every_half(&f16);
}

static void test_bf16_every_value(void **state)
{
    (void)state;
    every_half(&bf16);
}

/* The middle between neighbours, and the nearest numbers on both sides of it. In double the neighbours of the middle
 * collapse onto it in f32: a conversion by way of f32 rounds them to even and is wrong for half of them. */
static void every_middle(const half_kind *k)
{
    int wrong_by_two_steps = 0;
    for (uint16_t h = 0; h < k->exponent_mask; h++) {
        double a = oracle_decode(k, h), b = oracle_decode(k, (uint16_t)(h + 1));
        if (h + 1 == k->exponent_mask) b = ldexp(1, k->dtype == RT_DTYPE_F16 ? 16 : 128); /* where infinity begins */
        double middle = (a + b) / 2;
        for (int sign = -1; sign <= 1; sign += 2) {
            double m = sign * middle;
            double near[] = {m, nextafter(m, 0), nextafter(m, sign * (double)INFINITY),
                             sign * (a + (b - a) * 0.49999999), sign * (a + (b - a) * 0.50000001)};
            for (size_t i = 0; i < sizeof near / sizeof near[0]; i++) {
                check_f64(k, near[i]);
                wrong_by_two_steps += !same(oracle_round(k, near[i]), oracle_round(k, (double)(float)near[i]));
            }
            check_f32(k, (float)m);
            check_f32(k, nextafterf((float)m, 0));
            check_f32(k, nextafterf((float)m, (float)sign * INFINITY));
        }
    }
    assert_true(wrong_by_two_steps > k->exponent_mask); /* the cases are the ones they claim to be */
}

static void test_f16_middles(void **state)
{
    (void)state;
    every_middle(&f16);
}

static void test_bf16_middles(void **state)
{
    (void)state;
    every_middle(&bf16);
}

static void test_edges(void **state)
{
    (void)state;
    static const double edge[] = {
        0.0,
        65504,
        65519.9999,
        65520,
        65520.0001,
        65535,
        65536,
        1e5,
        FLT_MAX,
        FLT_MIN,
        0x1p-24,
        0x1p-25,
        0x1.8p-25,
        0x1p-26,
        0x1p-133,
        0x1p-134,
        0x1p-149,
        0x1p-150,
        DBL_MIN,
        DBL_MAX,
        0x1p-1074,
        0x1.ffp127,
        0x1.fefffep127,
        0x1.feffffffffffp127,
        0x1.ff0000000001p127,
        0x1p128,
        INFINITY,
        0x1p-14,
        0x1.ffcp-15,
        0x1.ffep-15,
        0x1.ffdffffp-15,
        0x1p-126,
        0x1.fcp-127,
        0x1.fep-127,
        0x1.0000000000001p-134,
    };
    for (size_t i = 0; i < sizeof edge / sizeof edge[0]; i++) {
        for (int sign = -1; sign <= 1; sign += 2) {
            check_f64(&f16, sign * edge[i]);
            check_f64(&bf16, sign * edge[i]);
            check_f32(&f16, (float)(sign * edge[i]));
            check_f32(&bf16, (float)(sign * edge[i]));
        }
    }
    /* Known bits, so that decoder and encoder cannot be wrong together. */
    assert_int_equal(rt_f16_from_f32(1.0f), 0x3c00);
    assert_int_equal(rt_f16_from_f32(-2.0f), 0xc000);
    assert_int_equal(rt_f16_from_f32(65504.0f), 0x7bff);
    assert_int_equal(rt_f16_from_f32(1e30f), 0x7c00);
    assert_int_equal(rt_f16_from_f32(0x1p-24f), 0x0001);
    assert_int_equal(rt_bf16_from_f32(1.0f), 0x3f80);
    assert_int_equal(rt_bf16_from_f32(3.4028235e38f), 0x7f80);
    assert_int_equal(rt_bf16_from_f32(-0.0f), 0x8000);
}

static void test_random_bits(void **state)
{
    (void)state;
    for (uint64_t i = 0; i < 500000; i++) {
        rt_rng4 r = rt_philox(11, 1, i);
        for (int j = 0; j < 4; j++) {
            float x = rt_f32_from_bits(r.v[j]);
            check_f32(&bf16, x);
            check_f32(&f16, x);
            /* most patterns are far outside f16: bring the exponent to 2^-27 .. 2^17 */
            uint32_t e = 100 + (r.v[j] >> 23 & 255) % 45;
            check_f32(&f16, rt_f32_from_bits((r.v[j] & 0x807fffffu) | e << 23));
        }
        uint64_t u = (uint64_t)r.v[0] << 32 | r.v[1];
        double x;
        uint64_t e16 = 1023 - 27 + r.v[2] % 45, eb = 1023 - 136 + r.v[3] % 266;
        uint64_t bits = (u & 0x800fffffffffffffull) | e16 << 52;
        memcpy(&x, &bits, 8);
        check_f64(&f16, x);
        bits = (u & 0x800fffffffffffffull) | eb << 52;
        memcpy(&x, &bits, 8);
        check_f64(&bf16, x);
        memcpy(&x, &u, 8);
        check_f64(&f16, x);
        check_f64(&bf16, x);
    }
}

/* Runs of every type, from and to odd addresses, with a guard after the last element. */
static void test_runs(void **state)
{
    (void)state;
    static const rt_dtype types[] = {RT_DTYPE_F32, RT_DTYPE_BF16, RT_DTYPE_F16, RT_DTYPE_F64};
    enum { N = 37 };
    double x64[N], y64[N + 1];
    float x32[N], y32[N + 1];
    for (int i = 0; i < N; i++) { /* exact in every type */
        x64[i] = (double)(i - 18) / 8;
        x32[i] = (float)x64[i];
    }
    for (size_t t = 0; t < 4; t++) {
        for (uint64_t n = 0; n <= N; n += n < 9 ? 1 : 7) {
            unsigned char raw[8 * (N + 1) + 1];
            size_t used = rt_dtype_bytes(types[t], n);
            for (int from64 = 0; from64 < 2; from64++) {
                memset(raw, 0xa5, sizeof raw);
                if (from64)
                    rt_float_from_f64(raw + 1, x64, types[t], n);
                else
                    rt_float_from_f32(raw + 1, x32, types[t], n);
                for (size_t i = 1 + used; i < sizeof raw; i++) assert_int_equal(raw[i], 0xa5);
                y64[n] = 77;
                y32[n] = 77;
                rt_float_to_f64(y64, raw + 1, types[t], n);
                rt_float_to_f32(y32, raw + 1, types[t], n);
                for (uint64_t i = 0; i < n; i++) assert_true(y64[i] == x64[i] && y32[i] == x32[i]);
                assert_true(y64[n] == 77 && y32[n] == 77);
            }
        }
    }
    rt_float_to_f32(NULL, NULL, RT_DTYPE_F32, 0);
    rt_float_from_f64(NULL, NULL, RT_DTYPE_F64, 0);
}

/* A run converts eight at a time, by other code than a single value: the same bits, NaNs included, for every half value
 * and for every upper half of an f32 with lower halves around the places where rounding turns. */
static void test_runs_equal_singles(void **state)
{
    (void)state;
    static const uint16_t lower[] = { 0,      1,      0x0800, 0x0fff, 0x1000, 0x1001, 0x2000, 0x2fff,
                                      0x3000, 0x3001, 0x7fff, 0x8000, 0x8001, 0xf000, 0xffff };
    enum { ALL = 65536 };
    static uint16_t halves[ALL], back[ALL];
    static float wide[ALL];
    for (uint32_t h = 0; h < ALL; h++) halves[h] = (uint16_t)h;
    rt_float_to_f32(wide, halves, RT_DTYPE_F16, ALL);
    for (uint32_t h = 0; h < ALL; h++)
        assert_int_equal(rt_f32_bits(wide[h]), rt_f32_bits(rt_f16_to_f32((uint16_t)h)));
    rt_float_to_f32(wide, halves, RT_DTYPE_BF16, ALL);
    for (uint32_t h = 0; h < ALL; h++) assert_int_equal(rt_f32_bits(wide[h]), h << 16);
    for (size_t k = 0; k < sizeof lower / sizeof lower[0]; k++) {
        for (uint32_t h = 0; h < ALL; h++) wide[h] = rt_f32_from_bits(h << 16 | lower[k]);
        rt_float_from_f32(back, wide, RT_DTYPE_F16, ALL);
        for (uint32_t h = 0; h < ALL; h++) assert_int_equal(back[h], rt_f16_from_f32(wide[h]));
        rt_float_from_f32(back, wide, RT_DTYPE_BF16, ALL);
        for (uint32_t h = 0; h < ALL; h++) assert_int_equal(back[h], rt_bf16_from_f32(wide[h]));
    }
}

static void test_f64_to_f32(void **state)
{
    (void)state;
    static const double x[] = {1.0 / 3, 1e300, -1e-300, 0x1.000001p0, 0x1.000003p0, 0x1p-149, 0x1.8p-150, -0.0};
    for (size_t i = 0; i < sizeof x / sizeof x[0]; i++) {
        float from, to;
        rt_float_from_f64(&from, &x[i], RT_DTYPE_F32, 1);
        rt_float_to_f32(&to, &x[i], RT_DTYPE_F64, 1);
        assert_int_equal(rt_f32_bits(from), rt_f32_bits((float)x[i]));
        assert_int_equal(rt_f32_bits(to), rt_f32_bits((float)x[i]));
    }
}

/* ---- rope ---- */

static void test_rope_golden(void **state)
{
    (void)state;
    /* transformers works in f32, in units of 2^-24: the power is off by up to two, the reciprocal, the division and our
     * own last rounding by one each, and the llama3 blend, whose smooth factor cancels, by one more. Seen: 4.7. */
    const double tolerance = 6 * 0x1p-24;
    for (size_t c = 0; c < sizeof golden_rope / sizeof golden_rope[0]; c++) {
        const struct golden_rope *g = &golden_rope[c];
        float freq[65], scale = 0;
        rt_err e = {0};
        freq[g->D / 2] = 77;
        assert_int_equal(rt_rope_freqs(freq, &scale, g->D, &g->s, &e), RT_OK);
        for (uint32_t i = 0; i < g->D / 2; i++) {
            double want = (double)g->freq[i], off = fabs((double)freq[i] - want) / want;
            if (!(off <= tolerance))
                fail_msg("%s pair %u: want %.9g, got %.9g (off by %.2g)", g->name, i, want, (double)freq[i], off);
        }
        assert_true(freq[g->D / 2] == 77);
        assert_true(fabs((double)scale - g->scale) <= 0x1p-24 * g->scale);
    }
}

static void test_rope_yarn_defaults(void **state)
{
    (void)state;
    rt_rope_scaling s = {.kind = RT_ROPE_YARN, .theta = 10000, .factor = 8, .original_context = 4096};
    float a[32], b[32], scale;
    assert_int_equal(rt_rope_freqs(a, &scale, 64, &s, NULL), RT_OK);
    s.beta_fast = 32;
    s.beta_slow = 1;
    s.mscale = 0.5; /* alone it does not count */
    assert_int_equal(rt_rope_freqs(b, &scale, 64, &s, NULL), RT_OK);
    assert_memory_equal(a, b, sizeof a);
    assert_true(fabs((double)scale - (0.1 * log(8) + 1)) < 1e-7);
    s.mscale_all_dim = 0.5;
    assert_int_equal(rt_rope_freqs(b, &scale, 64, &s, NULL), RT_OK);
    assert_true(scale == 1.0f);
    s.attention_factor = 1.5;
    assert_int_equal(rt_rope_freqs(b, &scale, 64, &s, NULL), RT_OK);
    assert_true(scale == 1.5f);
}

static void refused(uint32_t D, rt_rope_scaling s, const char *word)
{
    float freq[8], scale;
    rt_err e = {0};
    assert_int_equal(rt_rope_freqs(freq, &scale, D, &s, &e), RT_INVALID);
    if (!strstr(e.text, word)) fail_msg("the message does not say %s: %s", word, e.text);
    assert_int_equal(rt_rope_freqs(freq, &scale, D, &s, NULL), RT_INVALID);
}

static void test_rope_refusals(void **state)
{
    (void)state;
    const rt_rope_scaling plain = {.kind = RT_ROPE_PLAIN, .theta = 10000};
    const rt_rope_scaling llama3 = {
        .kind = RT_ROPE_LLAMA3, .theta = 10000, .factor = 8, .low_freq = 1, .high_freq = 4, .original_context = 8192};
    const rt_rope_scaling yarn = {.kind = RT_ROPE_YARN, .theta = 10000, .factor = 8, .original_context = 8192};
    rt_rope_scaling s;
    refused(0, plain, "head width");
    refused(7, plain, "head width");
#define BAD(base, field, value, word) (s = (base), s.field = (value), refused(8, s, word))
    BAD(plain, theta, 0, "theta");
    BAD(plain, theta, (double)NAN, "theta");
    BAD(plain, theta, (double)INFINITY, "theta");
    BAD(plain, kind, RT_ROPE_LINEAR, "factor");
    BAD(llama3, factor, -1, "factor");
    BAD(llama3, original_context, 0, "original_max_position_embeddings");
    BAD(llama3, low_freq, 0, "low_freq_factor");
    BAD(llama3, high_freq, 1, "high_freq_factor");
    BAD(llama3, kind, (rt_rope_kind)99, "99");
    BAD(yarn, theta, 1, "theta");
    BAD(yarn, beta_fast, -1, "beta_fast");
    BAD(yarn, beta_slow, -1, "beta_slow");
    BAD(yarn, attention_factor, -1, "attention_factor");
    BAD(yarn, mscale, -1, "mscale");
    BAD(yarn, mscale_all_dim, -1, "mscale_all_dim");
#undef BAD
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dtype_table),
        cmocka_unit_test(test_dtype_parse),
        cmocka_unit_test(test_f16_every_value),
        cmocka_unit_test(test_bf16_every_value),
        cmocka_unit_test(test_f16_middles),
        cmocka_unit_test(test_bf16_middles),
        cmocka_unit_test(test_edges),
        cmocka_unit_test(test_random_bits),
        cmocka_unit_test(test_runs),
        cmocka_unit_test(test_runs_equal_singles),
        cmocka_unit_test(test_f64_to_f32),
        cmocka_unit_test(test_rope_golden),
        cmocka_unit_test(test_rope_yarn_defaults),
        cmocka_unit_test(test_rope_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
