/* dtype.h - the element types of the house: names, sizes, block shapes, conversion of single values.
 *
 * Owns: the list of dtypes. A dtype is stored in blocks: 1 element for plain types, 32 or 256 along a row for the
 * quantised ones (GGML layouts, see quant.h). Pure functions; nothing is allocated. */
#ifndef RT_NUM_DTYPE_H
#define RT_NUM_DTYPE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* name, text, elements per block, bytes per block, class: f float, q quantised, i integer, c codes that mean something
 * only with a scale of their row (e4m3.h) */
#define RT_DTYPE_LIST(X)                                                                                               \
    X(F32, "f32", 1, 4, 'f')                                                                                           \
    X(BF16, "bf16", 1, 2, 'f')                                                                                         \
    X(F16, "f16", 1, 2, 'f')                                                                                           \
    X(F64, "f64", 1, 8, 'f') /* `ref` only: the precision of the specification */                                      \
    X(I32, "i32", 1, 4, 'i')                                                                                           \
    X(U32, "u32", 1, 4, 'i')                                                                                           \
    X(U8, "u8", 1, 1, 'i')                                                                                             \
    X(I8, "i8", 1, 1, 'i')                                                                                             \
    X(I16, "i16", 1, 2, 'i')                                                                                           \
    X(I64, "i64", 1, 8, 'i')                                                                                           \
    X(Q8_0, "q8_0", 32, 34, 'q')                                                                                       \
    X(Q4_0, "q4_0", 32, 18, 'q')                                                                                       \
    X(Q4_K, "q4_k", 256, 144, 'q')                                                                                     \
    X(Q5_K, "q5_k", 256, 176, 'q')                                                                                     \
    X(Q6_K, "q6_k", 256, 210, 'q')                                                                                     \
    X(Q4_1, "q4_1", 32, 20, 'q')                                                                                       \
    X(Q5_0, "q5_0", 32, 22, 'q')                                                                                       \
    X(Q5_1, "q5_1", 32, 24, 'q')                                                                                       \
    X(Q2_K, "q2_k", 256, 84, 'q')                                                                                      \
    X(Q3_K, "q3_k", 256, 110, 'q')                                                                                     \
    X(IQ4_NL, "iq4_nl", 32, 18, 'q')                                                                                   \
    X(IQ4_XS, "iq4_xs", 256, 136, 'q')                                                                                 \
    X(E4M3, "e4m3", 1, 1, 'c')

typedef enum rt_dtype {
#define X(name, text, block, bytes, cls) RT_DTYPE_##name,
    RT_DTYPE_LIST(X)
#undef X
        RT_DTYPE_COUNT
} rt_dtype;

typedef struct rt_dtype_info {
    const char *name;
    uint32_t block_elems, block_bytes;
    char cls; /* 'f', 'q', 'i' or 'c' */
} rt_dtype_info;

extern const rt_dtype_info rt_dtype_table[RT_DTYPE_COUNT];

static inline const char *rt_dtype_name(rt_dtype d) { return rt_dtype_table[d].name; }
static inline bool rt_dtype_is_float(rt_dtype d) { return rt_dtype_table[d].cls == 'f'; }
static inline bool rt_dtype_is_quant(rt_dtype d) { return rt_dtype_table[d].cls == 'q'; }
/* By name, case-insensitive; false when there is none. */
bool rt_dtype_parse(const char *name, rt_dtype *out);
/* Bytes of n consecutive elements; n must be a multiple of the block. */
static inline uint64_t rt_dtype_bytes(rt_dtype d, uint64_t n)
{
    return n / rt_dtype_table[d].block_elems * rt_dtype_table[d].block_bytes;
}

/* ---- single values; rounding is to nearest, ties to even; NaN stays NaN, overflow becomes infinity ---- */
static inline uint32_t rt_f32_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, 4);
    return u;
}
static inline float rt_f32_from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, 4);
    return x;
}
static inline float rt_bf16_to_f32(uint16_t h) { return rt_f32_from_bits((uint32_t)h << 16); }
static inline uint16_t rt_bf16_from_f32(float x)
{
    uint32_t u = rt_f32_bits(x);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)((u >> 16) | 0x40u); /* quiet NaN */
    return (uint16_t)((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
}
float rt_f16_to_f32(uint16_t h);
uint16_t rt_f16_from_f32(float x);

/* ---- runs of n elements of a plain float dtype (F32, BF16, F16, F64), or of E4M3 as rt_e4m3_* has single ones ---- */
void rt_float_to_f64(double *y /* (n) */, const void *x /* (n) d */, rt_dtype d, uint64_t n);
void rt_float_to_f32(float *y /* (n) */, const void *x /* (n) d */, rt_dtype d, uint64_t n);
void rt_float_from_f64(void *y /* (n) d */, const double *x /* (n) */, rt_dtype d, uint64_t n); /* rounded once */
void rt_float_from_f32(void *y /* (n) d */, const float *x /* (n) */, rt_dtype d, uint64_t n);

#endif
