/* test_quant.c - quantised blocks: exact decoding against the written format, quality and safety of the quantisers.
 *
 * The oracle reads one value at a time, from the description of the format: which byte, which bits, which scale. It
 * shares no code with the library but the f16 decoder, which test_num.c proves. */
#include "base/rng.h"
#include "num/quant_block.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { MOST = 256, BLOCKS = 256, N = BLOCKS * MOST };

/* The numbers below that have one entry per type are in this order. */
static const rt_dtype types[] = { RT_DTYPE_Q8_0, RT_DTYPE_Q4_0, RT_DTYPE_Q4_K,   RT_DTYPE_Q5_K,
                                  RT_DTYPE_Q6_K, RT_DTYPE_Q4_1, RT_DTYPE_Q5_0,   RT_DTYPE_Q5_1,
                                  RT_DTYPE_Q2_K, RT_DTYPE_Q3_K, RT_DTYPE_IQ4_NL, RT_DTYPE_IQ4_XS };
enum { TYPES = sizeof types / sizeof types[0], COARSE = 8 }; /* from COARSE on: fewer than 15 even steps */

static float input[N], output[N];
static uint8_t blocks[N * 34 / 32], again[N * 34 / 32];

static double f16_at(const uint8_t *b) { return (double)rt_f16_to_f32((uint16_t)(b[0] | b[1] << 8)); }

/* ---- the oracle ---- */

/* One stored value: value = step * q - shift, with q in bottom..top; or step * place of q. */
typedef struct stored {
    double step, shift;
    int q, bottom, top;
    bool uneven;
} stored;

static double value_at(const stored *s, int q)
{
    static const int place[] = { -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113 };
    return s->step * (s->uneven ? place[q] : q) - s->shift;
}

static void oracle_scale_min(const uint8_t *s, int j, int *scale, int *min)
{
    /* groups 0..3: low six bits of bytes j and j+4; groups 4..7: low four bits in byte j+4 (scale low nibble, min high
     * nibble), upper two in the top bits of bytes j-4 and j */
    *scale = j < 4 ? s[j] % 64 : s[j + 4] % 16 + 16 * (s[j - 4] / 64);
    *min = j < 4 ? s[j + 4] % 64 : s[j + 4] / 16 + 16 * (s[j] / 64);
}

static stored oracle_affine(const uint8_t *b, int i, const uint8_t *high, const uint8_t *nibbles)
{
    int group = i / 32, l = i % 32, scale, min;
    oracle_scale_min(b + 4, group, &scale, &min);
    int byte = nibbles[32 * (group / 2) + l];
    int q = group % 2 == 0 ? byte % 16 : byte / 16;
    if (high) q += 16 * (high[l] >> group & 1);
    return (stored){ f16_at(b) * scale, f16_at(b + 2) * min, q, 0, high ? 31 : 15, false };
}

static stored oracle_q6_k(const uint8_t *b, int i)
{
    const uint8_t *ql = b + 64 * (i / 128), *qh = b + 128 + 32 * (i / 128);
    int k = i % 128, l = k % 32, quarter = k / 32;
    static const int byte_of[] = { 0, 32, 0, 32 }, divide_by[] = { 1, 1, 16, 16 };
    int low = ql[l + byte_of[quarter]] / divide_by[quarter] % 16, top = qh[l] >> 2 * quarter & 3;
    int scale = (int8_t)b[192 + 8 * (i / 128) + l / 16 + 2 * quarter];
    return (stored){ f16_at(b + 208) * scale, 0, low + 16 * top - 32, -32, 31, false };
}

/* Nibble i of 16 bytes that hold 32, the first 16 in the low halves; and bit i of 4 bytes. */
static int nibble(const uint8_t *b, int i) { return i < 16 ? b[i] % 16 : b[i - 16] / 16; }
static int bit(const uint8_t *b, int i) { return b[i / 8] >> i % 8 & 1; }

/* Pair of bits i of 256 in 64 bytes: 128 values to 32 bytes, 32 apart in one byte. */
static int bit_pair(const uint8_t *b, int i) { return b[32 * (i / 128) + i % 32] >> 2 * (i % 128 / 32) & 3; }

static stored oracle_q3_k(const uint8_t *b, int i)
{
    const uint8_t *s = b + 96;
    int g = i / 16, low = g < 8 ? s[g] % 16 : s[g - 8] / 16, top = s[8 + g % 4] >> 2 * (g / 4) & 3;
    int q = bit_pair(b + 32, i) + 4 * (b[i % 32] >> i / 32 & 1) - 4;
    return (stored){ f16_at(b + 108) * (low + 16 * top - 32), 0, q, -4, 3, false };
}

static stored oracle_iq4_xs(const uint8_t *b, int i)
{
    int g = i / 32, low = g % 2 ? b[4 + g / 2] / 16 : b[4 + g / 2] % 16, top = (b[2] + 256 * b[3]) >> 2 * g & 3;
    return (stored){ f16_at(b) * (low + 16 * top - 32), 0, nibble(b + 8 + 16 * g, i % 32), 0, 15, true };
}

static stored oracle(rt_dtype d, const uint8_t *b, int i)
{
    switch (d) {
    case RT_DTYPE_Q4_1: return (stored){ f16_at(b), -f16_at(b + 2), nibble(b + 4, i), 0, 15, false };
    case RT_DTYPE_Q5_0: return (stored){ f16_at(b), 0, nibble(b + 6, i) + 16 * bit(b + 2, i) - 16, -16, 15, false };
    case RT_DTYPE_Q5_1:
        return (stored){ f16_at(b), -f16_at(b + 2), nibble(b + 8, i) + 16 * bit(b + 4, i), 0, 31, false };
    case RT_DTYPE_Q2_K:
        return (stored){
            f16_at(b + 80) * (b[i / 16] % 16), f16_at(b + 82) * (b[i / 16] / 16), bit_pair(b + 16, i), 0, 3, false
        };
    case RT_DTYPE_Q3_K: return oracle_q3_k(b, i);
    case RT_DTYPE_IQ4_NL: return (stored){ f16_at(b), 0, nibble(b + 2, i), 0, 15, true };
    case RT_DTYPE_IQ4_XS: return oracle_iq4_xs(b, i);
    case RT_DTYPE_Q8_0: return (stored){ f16_at(b), 0, (int8_t)b[2 + i], -127, 127, false };
    case RT_DTYPE_Q4_0: return (stored){ f16_at(b), 0, nibble(b + 2, i) - 8, -8, 7, false };
    case RT_DTYPE_Q4_K: return oracle_affine(b, i, NULL, b + 16);
    case RT_DTYPE_Q5_K: return oracle_affine(b, i, b + 16, b + 48);
    case RT_DTYPE_Q6_K: return oracle_q6_k(b, i);
    default: fail_msg("not a quantised type"); return (stored){ 0 };
    }
}

/* Every step of it is exact in double (at most 50 bits), so this is one rounding. */
static float oracle_value(rt_dtype d, const uint8_t *b, int i)
{
    stored s = oracle(d, b, i);
    return (float)value_at(&s, s.q);
}

/* ---- data ---- */

static uint32_t elems(rt_dtype d) { return rt_dtype_table[d].block_elems; }
static uint32_t bytes(rt_dtype d) { return rt_dtype_table[d].block_bytes; }

static double unit_open(uint32_t u) { return ((double)u + 0.5) / 4294967296.0; }

static void fill_gauss(double sigma)
{
    for (int i = 0; i < N; i += 2) {
        rt_rng4 r = rt_philox(5, 2, (uint64_t)i);
        double radius = sigma * sqrt(-2 * log(unit_open(r.v[0]))), angle = 6.283185307179586 * unit_open(r.v[1]);
        input[i] = (float)(radius * cos(angle));
        input[i + 1] = (float)(radius * sin(angle));
    }
}

static void fill_uniform(double low, double high)
{
    for (int i = 0; i < N; i++) input[i] = (float)(low + (high - low) * unit_open(rt_philox(5, 8, (uint64_t)i).v[0]));
}

static void fill_laplace(double sigma)
{
    for (int i = 0; i < N; i++) {
        rt_rng4 r = rt_philox(5, 3, (uint64_t)i);
        input[i] = (float)(copysign(sigma / sqrt(2), r.v[1] & 1 ? 1.0 : -1.0) * log(unit_open(r.v[0])));
    }
}

/* Bell-shaped, made of sums alone: the same bits on every machine, which log and cos do not promise. In the second half
 * blocks of 256 are in turn as they are, all positive, all negative, and of magnitudes. */
static void fill_portable(void)
{
    for (int i = 0; i < N; i++) {
        float sum = -6;
        for (uint64_t k = 0; k < 3; k++) {
            rt_rng4 r = rt_philox(5, 4 + k, (uint64_t)i);
            for (int j = 0; j < 4; j++) sum += rt_rng_unit(r.v[j]);
        }
        int kind = i < N / 2 ? 0 : i / 256 % 4;
        input[i] = kind == 0   ? sum * 0.03125f
                   : kind == 3 ? fabsf(sum) * 0.03125f
                               : (kind == 1 ? 9 + sum : sum - 9) * 0.03125f;
    }
}

static void there_and_back(rt_dtype d, uint64_t n)
{
    memset(blocks, 0xee, sizeof blocks);
    rt_quant_from_f32(blocks, input, d, n);
    for (uint64_t i = 0; i < n; i++) output[i] = NAN;
    rt_quant_to_f32(output, blocks, d, n);
}

static double relative_rmse(uint64_t n)
{
    double error = 0, power = 0;
    for (uint64_t i = 0; i < n; i++) {
        error += ((double)output[i] - (double)input[i]) * ((double)output[i] - (double)input[i]);
        power += (double)input[i] * (double)input[i];
    }
    return sqrt(error / power);
}

/* ---- decoding ---- */

static void random_blocks(rt_dtype d, uint64_t stream)
{
    uint64_t total = (uint64_t)rt_dtype_bytes(d, N);
    for (uint64_t i = 0; i < total; i += 4) {
        uint32_t v = rt_philox(9, stream, i).v[0];
        for (uint64_t k = 0; k < 4 && i + k < total; k++) blocks[i + k] = (uint8_t)(v >> 8 * k);
    }
}

/* Random bytes, so scales of both signs, subnormal, infinite and NaN occur too. */
static void test_decode_random(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        rt_dtype d = types[t];
        random_blocks(d, (uint64_t)t);
        output[N - 1] = 77;
        rt_quant_to_f32(output, blocks, d, N - elems(d));
        assert_true(output[N - 1] == 77);
        int nans = 0;
        for (int i = 0; i < N - (int)elems(d); i++) {
            float want = oracle_value(d, blocks + i / (int)elems(d) * (int)bytes(d), i % (int)elems(d));
            nans += isnan(want) != 0;
            if (isnan(want) ? !isnan(output[i]) : rt_f32_bits(want) != rt_f32_bits(output[i])) {
                fail_msg("%s value %d: want %a, got %a", rt_dtype_name(d), i, (double)want, (double)output[i]);
            }
        }
        assert_in_range(nans, 1, N / 4);
    }
}

/* Blocks whose values can be checked by eye. */
static void test_decode_by_hand(void **state)
{
    (void)state;
    float y[256];
    uint8_t q8[34] = { 0x00, 0x38, 2, 0xff, 0x80 }; /* d = 0.5 */
    rt_quant_to_f32(y, q8, RT_DTYPE_Q8_0, 32);
    assert_true(y[0] == 1 && y[1] == -0.5f && y[2] == -64 && y[3] == 0);

    uint8_t q4[18] = { 0x00, 0xbc, 0x0f, 0x90 }; /* d = -1 */
    rt_quant_to_f32(y, q4, RT_DTYPE_Q4_0, 32);
    assert_true(y[0] == -7 && y[16] == 8 && y[1] == 8 && y[17] == -1 && y[2] == 8);

    /* d = 1, dmin = 0.25; group 0: scale 3, min 8; group 5: scale 0x25, min 0x3a */
    uint8_t q4k[144] = { 0x00, 0x3c, 0x00, 0x34 };
    q4k[4] = 3;
    q4k[8] = 8;
    q4k[4 + 9] = 0x5 | 0xa << 4;
    q4k[4 + 1] = 0x2 << 6;
    q4k[4 + 5] = 0x3 << 6;
    q4k[16 + 7] = 0x0b;           /* group 0, value 7 */
    q4k[16 + 2 * 32 + 31] = 0xc1; /* groups 4 and 5, value 31 */
    rt_quant_to_f32(y, q4k, RT_DTYPE_Q4_K, 256);
    assert_true(y[0] == -2 && y[7] == 31 && y[32] == 0 && y[5 * 32] == -14.5f && y[5 * 32 + 31] == 0x25 * 12 - 14.5f);

    uint8_t q5k[176] = { 0x00, 0x3c, 0x00, 0x34 };
    memcpy(q5k + 4, q4k + 4, 12);
    memcpy(q5k + 48, q4k + 16, 128);
    q5k[16 + 31] = 1 << 5;
    rt_quant_to_f32(y, q5k, RT_DTYPE_Q5_K, 256);
    assert_true(y[7] == 31 && y[5 * 32 + 31] == 0x25 * 28 - 14.5f && y[4 * 32 + 31] == 0);

    uint8_t q6k[210] = { 0 };
    q6k[64 + 32 + 20] = 0x70;      /* second half, high nibble of byte 52: value 128 + 96 + 20 */
    q6k[128 + 32 + 20] = 0x3 << 6; /* its upper bits */
    q6k[192 + 8 + 6 + 1] = 0xfe;   /* scale -2 */
    q6k[192] = 1;
    q6k[209] = 0x40; /* d = 2 */
    rt_quant_to_f32(y, q6k, RT_DTYPE_Q6_K, 256);
    assert_true(y[128 + 96 + 20] == 2 * -2 * (55 - 32) && y[128 + 96 + 21] == 128 && y[0] == -64 && y[16] == 0);
}

static void test_decode_by_hand_more(void **state)
{
    (void)state;
    float y[256];
    uint8_t q41[20] = { 0x00, 0x38, 0x00, 0xc0, 0x21 }; /* d = 0.5, m = -2 */
    rt_quant_to_f32(y, q41, RT_DTYPE_Q4_1, 32);
    assert_true(y[0] == -1.5f && y[16] == -1 && y[1] == -2);

    uint8_t q50[22] = { 0x00, 0x40, 0x01, 0, 0, 0x80, 0x03 }; /* d = 2; fifth bits of values 0 and 31 */
    rt_quant_to_f32(y, q50, RT_DTYPE_Q5_0, 32);
    assert_true(y[0] == 2 * 3 && y[1] == -32 && y[31] == 0);

    uint8_t q51[24] = { 0x00, 0x40, 0x00, 0x3c, 0x02, 0, 0, 0, 0, 0x05 }; /* d = 2, m = 1; fifth bit of value 1 */
    rt_quant_to_f32(y, q51, RT_DTYPE_Q5_1, 32);
    assert_true(y[0] == 1 && y[1] == 2 * 21 + 1 && y[17] == 1);

    uint8_t q2k[84] = { 0 }; /* d = 1, dmin = 0.5; group 11, the second half's third 16: scale 3, min 4 */
    q2k[81] = 0x3c;
    q2k[83] = 0x38;
    q2k[11] = 0x43;
    q2k[16 + 32 + 16 + 5] = 2 << 2;
    rt_quant_to_f32(y, q2k, RT_DTYPE_Q2_K, 256);
    assert_true(y[11 * 16] == -2 && y[11 * 16 + 5] == 4 && y[10 * 16 + 5] == 0);

    uint8_t q3k[110] = { 0 }; /* d = 1; group 13: scale 0x2a - 32; all other scales -32 */
    q3k[109] = 0x3c;
    q3k[96 + 5] = 0xa << 4;
    q3k[96 + 8 + 1] = 2 << 6;
    q3k[16 + 7] = 1 << 6; /* the third bit of value 7 of the group, at 13 * 16 + 7 = 6 * 32 + 23 */
    q3k[32 + 32 + 23] = 3 << 4;
    rt_quant_to_f32(y, q3k, RT_DTYPE_Q3_K, 256);
    assert_true(y[13 * 16 + 7] == 10 * 3 && y[13 * 16] == 10 * -4 && y[0] == -32 * -4);

    uint8_t nl[18] = { 0x00, 0x3c, 0xf0 }; /* d = 1 */
    rt_quant_to_f32(y, nl, RT_DTYPE_IQ4_NL, 32);
    assert_true(y[0] == -127 && y[16] == 113 && y[1] == -127);

    uint8_t xs[136] = { 0x00, 0x3c }; /* d = 1; group 5: scale 0x31 - 32 */
    xs[3] = 3 << 2;
    xs[4 + 2] = 1 << 4;
    xs[8 + 5 * 16 + 3] = 0x98;
    rt_quant_to_f32(y, xs, RT_DTYPE_IQ4_XS, 256);
    assert_true(y[5 * 32 + 3] == 17 && y[5 * 32 + 19] == 17 * 13 && y[0] == -32 * -127);
}

static void test_scale_min_bits(void **state)
{
    (void)state;
    for (int bit = -1; bit < 96; bit++) { /* each bit alone lands in one place and nowhere else; -1: all of them */
        uint8_t s[12];
        memset(s, bit < 0 ? 0xff : 0, sizeof s);
        if (bit >= 0) s[bit / 8] = (uint8_t)(1 << bit % 8);
        int seen = 0;
        for (int j = 0; j < 8; j++) {
            uint8_t scale, min;
            int want_scale, want_min;
            rt_quant_scale_min(s, j, &scale, &min);
            oracle_scale_min(s, j, &want_scale, &want_min);
            assert_int_equal(scale, want_scale);
            assert_int_equal(min, want_min);
            seen += __builtin_popcount(scale) + __builtin_popcount(min);
        }
        assert_int_equal(seen, bit < 0 ? 96 : 1);
    }
}

/* ---- quality ---- */

/* An error far below what the type can do would mean that the test measures something else. */
static void check_error(rt_dtype d, double error, double bound)
{
    if (!(error < bound && error > bound * 0.9)) fail_msg("%s: error %.6f, bound %.6f", rt_dtype_name(d), error, bound);
}

/* The bounds are what was measured on this data plus 2 %; plain rounding between the extremes of each group would give
 * 0.078 for Q4_K on gauss. docs/quantisation.md has the comparison with another quantiser. */
static void test_error(void **state)
{
    (void)state;
    static const double gauss[TYPES] = { 0.00546, 0.0874, 0.0713, 0.0355, 0.0174, 0.0705,
                                         0.0408,  0.0344, 0.264,  0.147,  0.0748, 0.0756 };
    static const double laplace[TYPES] = { 0.00691, 0.1099, 0.0849, 0.0420, 0.0215, 0.0839,
                                           0.0525,  0.0406, 0.2932, 0.1725, 0.0872, 0.0882 };
    for (int t = 0; t < TYPES; t++) {
        for (double sigma = 1e-3; sigma < 5e4; sigma *= 200) {
            fill_gauss(sigma);
            there_and_back(types[t], N);
            double e = relative_rmse(N);
            check_error(types[t], e, gauss[t]);
            fill_laplace(sigma);
            there_and_back(types[t], N);
            e = relative_rmse(N);
            check_error(types[t], e, laplace[t]);
        }
    }
}

/* Values on one side of zero. The K types can only subtract their min, so positive values are measured from zero;
 * negative ones (Q4_K, Q5_K) have the whole range. */
static void test_error_one_sided(void **state)
{
    (void)state;
    /* measured, plus 2 % */
    static const double up[TYPES] = { 0.00294, 0.0472,  0.0225, 0.0112, 0.00994, 0.01023,
                                      0.0210,  0.00498, 0.0961, 0.0792, 0.0551,  0.0557 };
    static const double down[TYPES] = { 0.00295, 0.0472, 0.01061, 0.00545, 0.00994, 0.01024,
                                        0.0211,  0.005,  0.0436,  0.0793,  0.0553,  0.0559 };
    static const double from_zero[TYPES] = { 0.00382, 0.0605, 0.0293, 0.0143, 0.0130, 0.0271,
                                             0.0278,  0.0132, 0.1327, 0.1035, 0.0602, 0.0609 };
    for (int t = 0; t < TYPES; t++) {
        fill_uniform(1, 2);
        there_and_back(types[t], N);
        check_error(types[t], relative_rmse(N), up[t]);
        fill_uniform(-2, -1);
        there_and_back(types[t], N);
        check_error(types[t], relative_rmse(N), down[t]);
        fill_uniform(0, 1);
        there_and_back(types[t], N);
        check_error(types[t], relative_rmse(N), from_zero[t]);
    }
}

/* Given the scales in the block, no other integer would have been nearer. */
static void check_integers(rt_dtype d, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        stored s = oracle(d, blocks + i / elems(d) * bytes(d), (int)(i % elems(d)));
        double x = (double)input[i], slack = 1e-5 * fabs(s.step) + 1e-6 * fabs(x), error = fabs(value_at(&s, s.q) - x);
        assert_in_range(s.q - s.bottom, 0, s.top - s.bottom);
        bool low = s.q > s.bottom && fabs(value_at(&s, s.q - 1) - x) < error - slack;
        bool high = s.q < s.top && fabs(value_at(&s, s.q + 1) - x) < error - slack;
        if (low || high) fail_msg("%s value %d: %g is stored as %d", rt_dtype_name(d), (int)i, x, s.q);
    }
}

static void test_integers_are_nearest(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        fill_laplace(0.05);
        there_and_back(types[t], N);
        check_integers(types[t], N);
        fill_gauss(0x1p-22);
        there_and_back(types[t], N);
        check_integers(types[t], N);
    }
}

/* Q8_0: never off by more than half a step, the step never larger than needed. Q4_0: the value of largest magnitude
 * sits at -8, and what fits is off by half a step at most. */
static void test_simple_types_bounds(void **state)
{
    (void)state;
    for (double sigma = 0x1p-26; sigma < 1e5; sigma *= 9) {
        fill_gauss(sigma);
        there_and_back(RT_DTYPE_Q8_0, N);
        for (int i = 0; i < N; i++) {
            double d = f16_at(blocks + i / 32 * 34), half = d > 0 ? d / 2 : 0x1p-25;
            assert_true(fabs((double)output[i] - (double)input[i]) <= half * (1 + 1e-6));
        }
        there_and_back(RT_DTYPE_Q4_0, N);
        for (int b = 0; b < N / 32; b++) {
            double d = f16_at(blocks + b * 18), largest = 0;
            for (int i = 32 * b; i < 32 * b + 32; i++) {
                if (fabs((double)input[i]) > fabs(largest)) largest = (double)input[i];
                double off = fabs((double)output[i] - (double)input[i]);
                double steps = (double)input[i] / d <= 7.5 ? 0.5 : 1.51; /* there is no +8, and 8.5 may be asked for */
                assert_true(d == 0 ? off <= 0x1p-25 : off <= fabs(d) * steps * (1 + 1e-6));
            }
            if (sigma > 1e-3) assert_true(fabs(d * -8 - largest) <= fabs(largest) * 0x1p-11);
        }
    }
}

/* What a simple type has stored it stores again byte for byte. The K types search, and may find another scale; but the
 * second loss is well below the first. */
static void test_again(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        fill_gauss(0.5);
        there_and_back(types[t], N);
        double first = relative_rmse(N);
        memcpy(again, blocks, sizeof again);
        memcpy(input, output, sizeof input);
        there_and_back(types[t], N);
        double second = relative_rmse(N);
        if (t < 2)
            assert_memory_equal(blocks, again, sizeof again);
        else
            assert_true(second < first / 2);
    }
}

/* ---- special blocks ---- */

static void fill(float v)
{
    for (int i = 0; i < N; i++) input[i] = v;
}

static void test_zero(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        for (int k = 0; k < 4; k++) {
            static const float nothing[] = { 0.0f, -0.0f, 0x1p-149f, -0x1p-25f };
            fill(nothing[k]);
            there_and_back(types[t], 512);
            for (int i = 0; i < 512; i++) {
                stored s = oracle(types[t], blocks + i / (int)elems(types[t]) * (int)bytes(types[t]),
                                  i % (int)elems(types[t]));
                assert_true(output[i] == 0 && s.step == 0 && s.shift == 0 && s.q == (s.uneven ? 8 : 0));
            }
        }
    }
}

static void test_constant(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        for (int k = 0; k < 12; k++) {
            static const float values[] = { 1, 0.37f, 1000, 0x1p-20f, 4e5f, 0x1p-24f };
            float v = k % 2 ? -values[k / 2] : values[k / 2];
            fill(v);
            there_and_back(types[t], 512);
            /* the scale is an f16, which is a whole number of 2^-24: in a step of 63 scales and 15 integers more */
            double bound = fmax(fabs((double)v) * 0x1p-10, 0x1p-24 * 32);
            if (fabsf(v) == 0x1p-24f) bound = 0;
            for (int i = 0; i < 512; i++) {
                if (!(fabs((double)output[i] - (double)v) <= bound)) {
                    fail_msg("%s of constant %g: %g", rt_dtype_name(types[t]), (double)v, (double)output[i]);
                }
            }
        }
    }
}

/* One value a thousand times the others: it survives, nothing else grows, and blocks beside it do not notice. */
static void test_outlier(void **state)
{
    (void)state;
    for (int t = 0; t < TYPES; t++) {
        uint32_t n = elems(types[t]);
        for (uint32_t at = 0; at < n; at += 7) {
            for (int sign = -1; sign <= 1; sign += 2) {
                fill_portable();
                there_and_back(types[t], 3 * n);
                memcpy(again, blocks, sizeof again);
                input[n + at] = (float)sign * 32;
                there_and_back(types[t], 3 * n);
                assert_memory_equal(blocks, again, bytes(types[t]));
                assert_memory_equal(blocks + 2 * bytes(types[t]), again + 2 * bytes(types[t]), bytes(types[t]));
                assert_true(fabsf(output[n + at] - input[n + at]) < 0.02f * 32);
                for (uint32_t i = n; i < 2 * n; i++) assert_true(i == n + at || fabsf(output[i]) < 2.2f);
                check_integers(types[t], 3 * n);
            }
        }
    }
}

/* Whole numbers of 2^-24, the smallest step there is: stored exactly although every scale wished for is below f16. */
static void test_smallest_steps(void **state)
{
    (void)state;
    for (int t = 0; t < COARSE; t++) {
        for (int i = 0; i < 512; i++) input[i] = (float)((int)(rt_philox(1, 1, (uint64_t)i).v[0] % 15) - 7) * 0x1p-24f;
        there_and_back(types[t], 512);
        for (int i = 0; i < 512; i++) {
            if (output[i] != input[i]) {
                fail_msg("%s value %d: %a became %a", rt_dtype_name(types[t]), i, (double)input[i], (double)output[i]);
            }
        }
    }
}

/* A value half a step beyond the last integer, which rounding to even would take outside: -128 is not a Q8_0 integer.
 */
static void test_half_a_step_beyond(void **state)
{
    (void)state;
    fill(-127.5f * 0x1p-24f);
    there_and_back(RT_DTYPE_Q8_0, 32);
    assert_true(f16_at(blocks) == 0x1p-24);
    for (int i = 0; i < 32; i++) assert_int_equal((int8_t)blocks[2 + i], -127);
}

/* From where all scales are subnormal upwards; in units of 2^-24, the error is that of the steps or of the type. Not
 * the last two: their places are further apart than one unit. */
static void test_tiny(void **state)
{
    (void)state;
    static const double usual[TYPES] = { 0.00546, 0.0874, 0.0713, 0.0355, 0.0174, 0.0705,
                                         0.0408,  0.0344, 0.264,  0.147,  0.0748, 0.0756 };
    for (int t = 0; t < TYPES - 2; t++) {
        for (double sigma = 0.25; sigma < 1e5; sigma *= 4) {
            fill_gauss(sigma * 0x1p-24);
            there_and_back(types[t], N);
            double e = relative_rmse(N) * sigma, bound = sqrt(0.2887 * 0.2887 + sigma * sigma * usual[t] * usual[t]);
            /* a coarse scale costs up to 17 % more where a group's scale is one or two units */
            if (!(e < bound * 1.2))
                fail_msg("%s at %g: error %.4f, bound %.4f", rt_dtype_name(types[t]), sigma, e, bound);
        }
    }
}

/* The largest f16 is 65504: a block whose best fit needs a larger scale is lost, visibly, and no other one is. */
static void test_huge(void **state)
{
    (void)state;
    static const float fits[TYPES] = { 8.3e6f,  5.2e5f,  5.5e7f,  1.2e8f, 2.6e8f, 9.8e5f,
                                       1.04e6f, 2.02e6f, 1.95e6f, 8.3e6f, 8.3e6f, 2.6e8f };
    static const float too_large[TYPES] = { 8.4e6f,  5.3e5f,  6.3e7f, 1.3e8f, 2.8e8f, 9.9e5f,
                                            1.05e6f, 2.04e6f, 2.0e6f, 8.5e6f, 8.4e6f, 2.7e8f };
    for (int t = 0; t < TYPES; t++) {
        for (int k = 0; k < 5; k++) {
            const float lost[] = { too_large[t], 1e9f, 1.5e9f, 1e30f, 3.4e38f };
            uint32_t n = elems(types[t]);
            fill(0.25f);
            for (uint32_t i = 0; i < n; i++) input[n + i] = i % 2 ? lost[k] : lost[k] / 2;
            for (uint32_t i = 0; i < n; i++) input[2 * n + i] = i % 2 ? fits[t] : fits[t] / 2;
            there_and_back(types[t], 4 * n);
            rt_quant_from_f32(again, input + n, types[t], n); /* a lost block has nothing of the one before it */
            assert_memory_equal(again, blocks + bytes(types[t]), bytes(types[t]));
            for (uint32_t i = 0; i < n; i++) {
                assert_true(fabsf(output[i] - 0.25f) < 0.001f && fabsf(output[3 * n + i] - 0.25f) < 0.001f);
                assert_true(isnan(output[n + i]));
                assert_true(fabsf(output[2 * n + i] - input[2 * n + i]) < 0.04f * fits[t]);
            }
        }
    }
}

/* The min of Q4_K and Q5_K is a number of its own: 63 * 65504 at most, whatever the scale. */
static void test_huge_min(void **state)
{
    (void)state;
    static const rt_dtype affine[] = { RT_DTYPE_Q4_K, RT_DTYPE_Q5_K };
    for (int t = 0; t < 2; t++) {
        fill(-4.1e6f);
        for (int i = 256; i < 512; i++) input[i] = -4.3e6f;
        there_and_back(affine[t], 512);
        for (int i = 0; i < 256; i++) assert_true(fabsf(output[i] + 4.1e6f) < 4.1e3f && isnan(output[256 + i]));
    }
}

static void test_nonfinite(void **state)
{
    (void)state;
    static const float bad[] = { NAN, -NAN, INFINITY, -INFINITY };
    for (int t = 0; t < TYPES; t++) {
        uint32_t n = elems(types[t]);
        for (uint32_t at = 0; at < n; at++) {
            fill(0.5f);
            input[n + at] = bad[at % 4];
            there_and_back(types[t], 3 * n);
            for (uint32_t i = 0; i < n; i++) {
                assert_true(isnan(output[n + i]));
                assert_true(isfinite(output[i]) && isfinite(output[2 * n + i]));
            }
        }
    }
}

/* ---- determinism ---- */

static uint64_t fnv(const uint8_t *p, uint64_t n)
{
    uint64_t h = 0xcbf29ce484222325ull;
    for (uint64_t i = 0; i < n; i++) h = (h ^ p[i]) * 0x100000001b3ull;
    return h;
}

/* The bytes are the same for every compiler and processor, whether a row is quantised whole, block by block, or to an
 * odd address; and nothing is written past the end. */
static void test_same_bytes(void **state)
{
    (void)state;
    static const uint64_t golden[TYPES] = { 0x16ade5d8a52cd663ull, 0x688b7a410238a59full, 0x4144aaea48940d76ull,
                                            0xd4553e4eca99da70ull, 0x83aff0456707a2f2ull, 0x9355067a8238f872ull,
                                            0x377165cf76547cb2ull, 0xed75ecb65b517f6bull, 0x27da0b900cf2f936ull,
                                            0xd6516ea94425bd3dull, 0x8e3c20120382e279ull, 0x93a53ab6250102dbull };
    fill_portable();
    for (int t = 0; t < TYPES; t++) {
        rt_dtype d = types[t];
        uint64_t size = rt_dtype_bytes(d, N - MOST);
        memset(blocks, 0xee, sizeof blocks);
        rt_quant_from_f32(blocks, input, d, N - MOST);
        if (fnv(blocks, size) != golden[t])
            fail_msg("%s: hash 0x%016llx", rt_dtype_name(d), (unsigned long long)fnv(blocks, size));
        for (uint64_t i = size; i < sizeof blocks; i++) assert_int_equal(blocks[i], 0xee);
        for (uint64_t b = 0; b < (N - MOST) / elems(d); b++) {
            rt_quant_from_f32(again + 1 + b * bytes(d), input + b * elems(d), d, elems(d));
        }
        assert_memory_equal(blocks, again + 1, size);
    }
}

/* Every form of the search that this machine can run finds the same. */
static void test_same_search(void **state)
{
    (void)state;
    fill_portable();
    for (int t = 2; t < TYPES; t++) {
        rt_dtype d = types[t];
        for (uint32_t b = 0; b < N / 8 / elems(d); b++) {
            rt_quant_fit one, other;
            memset(&one, 0, sizeof one);
            memset(&other, 0, sizeof other);
            bool fine = rt_quant_fits_plain[d](&one, input + N / 2 + b * elems(d));
            assert_int_equal(rt_quant_fit_for(d)(&other, input + N / 2 + b * elems(d)), fine);
            assert_memory_equal(&one, &other, sizeof one);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_decode_random),
        cmocka_unit_test(test_decode_by_hand),
        cmocka_unit_test(test_decode_by_hand_more),
        cmocka_unit_test(test_scale_min_bits),
        cmocka_unit_test(test_error),
        cmocka_unit_test(test_error_one_sided),
        cmocka_unit_test(test_integers_are_nearest),
        cmocka_unit_test(test_simple_types_bounds),
        cmocka_unit_test(test_again),
        cmocka_unit_test(test_zero),
        cmocka_unit_test(test_constant),
        cmocka_unit_test(test_outlier),
        cmocka_unit_test(test_smallest_steps),
        cmocka_unit_test(test_half_a_step_beyond),
        cmocka_unit_test(test_tiny),
        cmocka_unit_test(test_huge),
        cmocka_unit_test(test_huge_min),
        cmocka_unit_test(test_nonfinite),
        cmocka_unit_test(test_same_search),
        cmocka_unit_test(test_same_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
