/* tensor.c - rows of a tensor in their canonical order, as they are stored, as f32, or in another dtype.
 *
 * Owns: the order of rows in GGUF's llama layout, and the conversions from any stored type. Leaves single values and
 * blocks to num/, and the checks of sizes to directory.c: what comes here was read and found sound. */
#include "format/tensor/tensor.h"
#include "num/apr_quant.h"
#include "num/quant.h"

#include <string.h>

enum { APR_Q4_BLOCK = 32, APR_Q4_BYTES = 18, APR_Q8_SCALE = 4, STAGE = 256, MAX_BLOCK = 256 };

uint64_t rt_tensor_elems(const rt_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i < t->rank; i++) n *= t->shape[i];
    return n;
}

uint64_t rt_tensor_cols(const rt_tensor *t) { return t->rank > 0 ? t->shape[t->rank - 1] : 1; }

uint64_t rt_tensor_rows(const rt_tensor *t)
{
    uint64_t n = 1;
    for (uint32_t i = 0; i + 1 < t->rank; i++) n *= t->shape[i];
    return n;
}

/* Within a head of D rows, canonical rows i and D/2 + i are a pair; they are stored side by side, as 2i and 2i + 1. */
uint64_t rt_swap_to_stored(uint64_t r, uint64_t rows, uint32_t heads)
{
    uint64_t D = rows / heads, half = D / 2;
    if (half == 0) return r;
    uint64_t in_head = r % D;
    return r - in_head + 2 * (in_head % half) + in_head / half;
}

uint64_t rt_swap_to_canonical(uint64_t r, uint64_t rows, uint32_t heads)
{
    uint64_t D = rows / heads, half = D / 2;
    if (half == 0) return r;
    uint64_t in_head = r % D;
    return r - in_head + in_head % 2 * half + in_head / 2;
}

uint64_t rt_tensor_stored_row(const rt_tensor *t, uint64_t r)
{
    if (t->swap_heads == 0) return r;
    return rt_swap_to_stored(r, t->rank == 1 ? t->shape[0] : rt_tensor_rows(t), t->swap_heads);
}

const void *rt_tensor_row(const rt_tensor *t, uint64_t r, uint64_t *bytes)
{
    uint64_t row_bytes = rt_dtype_bytes(t->dtype, rt_tensor_cols(t));
    if (bytes) *bytes = row_bytes;
    return t->data + rt_tensor_stored_row(t, r) * row_bytes;
}

/* ---- stored elements, by their place in the file ---- */

#define LOAD(type, name)                                                                                               \
    static type name(const uint8_t *p, uint64_t i)                                                                     \
    {                                                                                                                  \
        type v;                                                                                                        \
        memcpy(&v, p + i * sizeof v, sizeof v);                                                                        \
        return v;                                                                                                      \
    }
LOAD(int8_t, load_i8)
LOAD(int16_t, load_i16)
LOAD(int32_t, load_i32)
LOAD(uint32_t, load_u32)
LOAD(int64_t, load_i64)
#undef LOAD

int64_t rt_tensor_int(const uint8_t *p, rt_dtype d, uint64_t i)
{
    switch (d) {
    case RT_DTYPE_U8: return p[i];
    case RT_DTYPE_I8: return load_i8(p, i);
    case RT_DTYPE_I16: return load_i16(p, i);
    case RT_DTYPE_I32: return load_i32(p, i);
    case RT_DTYPE_U32: return load_u32(p, i);
    default: return load_i64(p, i);
    }
}

/* Blocks run over the whole tensor, whatever its rows are. */
static void apr_q4(float *y, const rt_tensor *t, uint64_t first, uint64_t n)
{
    float block[APR_Q4_BLOCK];
    while (n > 0) {
        const uint8_t *x = t->data + first / APR_Q4_BLOCK * APR_Q4_BYTES;
        uint64_t skip = first % APR_Q4_BLOCK, take = n - n % APR_Q4_BLOCK;
        if (skip == 0 && take > 0) {
            rt_apr_q4_to_f32(y, x, take);
        } else {
            take = APR_Q4_BLOCK - skip < n ? APR_Q4_BLOCK - skip : n;
            rt_apr_q4_to_f32(block, x, APR_Q4_BLOCK);
            memcpy(y, block + skip, take * sizeof *y);
        }
        y += take;
        first += take;
        n -= take;
    }
}

/* One scale for the whole tensor, in front of it. */
static void apr_q8(float *y, const rt_tensor *t, uint64_t first, uint64_t n)
{
    float scale;
    memcpy(&scale, t->data, sizeof scale);
    for (uint64_t i = 0; i < n; i++) y[i] = (float)load_i8(t->data + APR_Q8_SCALE, first + i) * scale;
}

void rt_lora_add(float *y, const float *a, uint64_t stride, const float *b, uint32_t rank, double scale, uint64_t n)
{
    for (uint32_t k = 0; k < rank; k++) {
        float w = (float)(scale * b[k]);
        for (uint64_t c = 0; c < n; c++) y[c] += w * a[k * stride + c];
    }
}

const rt_tensor *rt_tensor_under(const rt_tensor *t)
{
    while (t->store == RT_STORE_MERGED) t = &t->pair->under;
    return t;
}

/* What is under the adapter has rows in canonical order too, whatever the file's. */
static void merged(float *y, const rt_tensor *t, uint64_t first, uint64_t n)
{
    const rt_lora_pair *p = t->pair;
    uint64_t cols = rt_tensor_cols(t);
    rt_tensor_range_to_f32(y, &p->under, first, n);
    while (n > 0) {
        uint64_t row = first / cols, at = first % cols, take = cols - at < n ? cols - at : n;
        rt_lora_add(y, p->a + at, cols, p->b + row * p->rank, p->rank, p->scale, take);
        y += take;
        first += take;
        n -= take;
    }
}

/* Stored elements [first, first + n) as f32; both fill whole blocks of a quantised dtype. */
static void stored_to_f32(float *y, const rt_tensor *t, uint64_t first, uint64_t n)
{
    if (t->store == RT_STORE_APR_Q4) {
        apr_q4(y, t, first, n);
    } else if (t->store == RT_STORE_APR_Q8) {
        apr_q8(y, t, first, n);
    } else if (t->store == RT_STORE_MERGED) {
        merged(y, t, first, n);
    } else {
        const uint8_t *x = t->data + rt_dtype_bytes(t->dtype, first);
        switch (rt_dtype_table[t->dtype].cls) {
        case 'f': rt_float_to_f32(y, x, t->dtype, n); break;
        case 'q': rt_quant_to_f32(y, x, t->dtype, n); break;
        default:
            for (uint64_t i = 0; i < n; i++) y[i] = (float)rt_tensor_int(x, t->dtype, i);
        }
    }
}

static float stored_element(const rt_tensor *t, uint64_t i)
{
    float block[MAX_BLOCK];
    uint32_t size = t->store == RT_STORE_PLAIN ? rt_dtype_table[t->dtype].block_elems : 1;
    stored_to_f32(block, t, i / size * size, size);
    return block[i % size];
}

/* ---- canonical elements ---- */

void rt_tensor_range_to_f32(float *y, const rt_tensor *t, uint64_t first, uint64_t n)
{
    if (t->swap_heads == 0) {
        stored_to_f32(y, t, first, n);
    } else if (t->rank == 1) {
        for (uint64_t i = 0; i < n; i++) y[i] = stored_element(t, rt_tensor_stored_row(t, first + i));
    } else {
        uint64_t cols = rt_tensor_cols(t);
        while (n > 0) {
            uint64_t at = first % cols, take = cols - at < n ? cols - at : n;
            stored_to_f32(y, t, rt_tensor_stored_row(t, first / cols) * cols + at, take);
            y += take;
            first += take;
            n -= take;
        }
    }
}

void rt_tensor_to_f32(float *y, const rt_tensor *t, uint64_t row, uint64_t rows)
{
    uint64_t cols = rt_tensor_cols(t);
    rt_tensor_range_to_f32(y, t, row * cols, rows * cols);
}

/* ---- another dtype ---- */

static void copy_rows(uint8_t *dst, const rt_tensor *t, uint64_t row, uint64_t rows)
{
    uint64_t bytes = rt_dtype_bytes(t->dtype, rt_tensor_cols(t));
    if (bytes == 0 || rows == 0) return;
    if (t->swap_heads == 0) {
        memcpy(dst, t->data + row * bytes, rows * bytes);
    } else if (t->rank == 1) {
        uint64_t size = rt_dtype_bytes(t->dtype, 1);
        for (uint64_t i = 0; i < t->shape[0]; i++)
            memcpy(dst + i * size, t->data + rt_tensor_stored_row(t, i) * size, size);
    } else {
        for (uint64_t r = 0; r < rows; r++) memcpy(dst + r * bytes, rt_tensor_row(t, row + r, NULL), bytes);
    }
}

/* Types that f32 does not hold go through f64, which holds all of them but the largest I64, so that rounding to a half
 * type happens once. */
static void wide_to_float(uint8_t *dst, rt_dtype d, const rt_tensor *t, uint64_t first, uint64_t n)
{
    double stage[STAGE];
    uint64_t cols = rt_tensor_cols(t), size = rt_dtype_bytes(d, 1);
    while (n > 0) {
        uint64_t take = n < STAGE ? n : STAGE;
        for (uint64_t i = 0; i < take; i++) {
            uint64_t at = first + i;
            if (t->swap_heads != 0)
                at = t->rank == 1 ? rt_tensor_stored_row(t, at) : rt_tensor_stored_row(t, at / cols) * cols + at % cols;
            if (t->dtype == RT_DTYPE_F64)
                memcpy(&stage[i], t->data + at * sizeof(double), sizeof(double));
            else
                stage[i] = (double)rt_tensor_int(t->data, t->dtype, at);
        }
        rt_float_from_f64(dst, stage, d, take);
        dst += take * size;
        first += take;
        n -= take;
    }
}

/* Rows that are f32 in the file already, one after another and aligned; null when they are not. */
static const float *f32_in_place(const rt_tensor *t, uint64_t row)
{
    if (t->store != RT_STORE_PLAIN || t->dtype != RT_DTYPE_F32 || t->swap_heads != 0) return NULL;
    const uint8_t *x = t->data + row * rt_tensor_cols(t) * sizeof(float);
    return (uintptr_t)x % _Alignof(float) == 0 ? (const float *)(const void *)x : NULL;
}

void rt_tensor_to_dtype(void *dst, rt_dtype d, const rt_tensor *t, uint64_t row, uint64_t rows, float *scratch)
{
    uint64_t cols = rt_tensor_cols(t);
    char from = rt_dtype_table[t->dtype].cls;
    bool plain = t->store == RT_STORE_PLAIN;
    /* A swapped vector of blocks has no elements to move; reading refuses such files, so this is only for order. */
    bool whole = t->swap_heads == 0 || t->rank != 1 || rt_dtype_table[t->dtype].block_elems == 1;
    if (plain && t->dtype == d && whole) {
        copy_rows(dst, t, row, rows);
    } else if (plain && rt_dtype_is_float(d) && (t->dtype == RT_DTYPE_F64 || from == 'i')) {
        wide_to_float(dst, d, t, row * cols, rows * cols);
    } else if (d == RT_DTYPE_F32) {
        rt_tensor_to_f32(dst, t, row, rows);
    } else {
        const float *x = f32_in_place(t, row);
        if (!x) rt_tensor_to_f32(scratch, t, row, rows);
        if (!x) x = scratch;
        if (rt_dtype_is_float(d))
            rt_float_from_f32(dst, x, d, rows * cols);
        else
            rt_quant_from_f32(dst, x, d, rows * cols);
    }
}

/* Blocks of a fixed length, nearly all without any, are what compilers turn into vectors; a tensor need not be aligned.
 */
uint64_t rt_count_nonfinite(const void *p, rt_dtype d, uint64_t n)
{
    enum { BLOCK = 64 };
    const uint8_t *x = p;
    uint64_t found = 0;
    uint16_t half[BLOCK], ones = d == RT_DTYPE_F16 ? 0x7c00u : 0x7f80u;
    uint32_t full[BLOCK];
    for (uint64_t i = 0; i < n && (d == RT_DTYPE_BF16 || d == RT_DTYPE_F16); i += BLOCK) {
        uint16_t hit = 0;
        if (n - i < BLOCK) memset(half, 0, sizeof half);
        memcpy(half, x + 2 * i, 2 * (n - i < BLOCK ? n - i : BLOCK));
        for (int k = 0; k < BLOCK; k++) hit = (uint16_t)(hit | ((half[k] & ones) == ones ? 1 : 0));
        for (int k = 0; hit && k < BLOCK; k++) found += (half[k] & ones) == ones;
    }
    for (uint64_t i = 0; i < n && d == RT_DTYPE_F32; i += BLOCK) {
        uint32_t hit = 0;
        if (n - i < BLOCK) memset(full, 0, sizeof full);
        memcpy(full, x + 4 * i, 4 * (n - i < BLOCK ? n - i : BLOCK));
        for (int k = 0; k < BLOCK; k++) hit |= (full[k] & 0x7f800000u) == 0x7f800000u ? 1u : 0u;
        for (int k = 0; hit && k < BLOCK; k++) found += (full[k] & 0x7f800000u) == 0x7f800000u;
    }
    return found;
}

int rt_stayed_finite(const void *p, rt_dtype d, uint64_t n, const char *name, const char *flag, rt_err *e)
{
    uint64_t lost = rt_count_nonfinite(p, d, n);
    if (lost == 0) return RT_OK;
    return rt_fail(e, RT_NONFINITE,
                   "%llu values of %s would be infinite in %s, which ends at %s: take %s %s; nothing was kept",
                   (unsigned long long)lost, name, rt_dtype_name(d), d == RT_DTYPE_F16 ? "65504" : "3.4e38", flag,
                   d == RT_DTYPE_F16 ? "bf16 or f32" : "f32");
}
