/* cache_code.c - records: one position each, in a code of its kind; hidden states are rows as they are. */
#include "teacher/cache/cache_internal.h"

#include <string.h>

uint64_t rt_cache_record_most(const rt_cache_section *s)
{
    /* Ids as a sorted set take at most 32 bits each (cache_set.h), log-probabilities 32, counts n bits together. */
    if (s->keep == RT_KEEP_HIDDEN) return rt_dtype_bytes(s->dtype, s->n);
    return 64 + 8 * (uint64_t)s->n + s->n / 8;
}

/* Floats of f32, bf16 or f16, whose exponent is all ones where they are not finite. */
static bool all_finite(const uint8_t *row, rt_dtype d, uint32_t n)
{
    const uint32_t wide = 0x7f800000;
    const uint16_t half = d == RT_DTYPE_BF16 ? 0x7f80 : 0x7c00;
    bool bad = false;
    for (uint32_t i = 0, x; d == RT_DTYPE_F32 && i < n; i++) {
        memcpy(&x, row + (size_t)4 * i, 4);
        bad |= (x & wide) == wide;
    }
    for (uint32_t i = 0; d != RT_DTYPE_F32 && i < n; i++) {
        uint16_t x;
        memcpy(&x, row + (size_t)2 * i, 2);
        bad |= (x & half) == half;
    }
    return !bad;
}

static int hidden_put(const rt_cache_section *s, const rt_cache_block *b, uint32_t j, uint8_t *out, uint32_t *bytes,
                      rt_err *e)
{
    *bytes = (uint32_t)rt_dtype_bytes(s->dtype, s->n);
    const uint8_t *row = (const uint8_t *)b->hidden + (size_t)j * *bytes;
    if (!all_finite(row, s->dtype, s->n))
        return rt_fail(e, RT_NONFINITE, "a hidden state of the teacher is not finite; the model is damaged");
    memcpy(out, row, *bytes);
    return RT_OK;
}

static bool hidden_get(const rt_cache_section *s, const uint8_t *record, uint64_t left, rt_cache_block *b, uint32_t j,
                       uint32_t *bytes)
{
    *bytes = (uint32_t)rt_dtype_bytes(s->dtype, s->n);
    if (left < *bytes) return false;
    if (b) memcpy((uint8_t *)b->hidden + (size_t)j * *bytes, record, *bytes);
    return true;
}

int rt_cache_record_put(const rt_cache_section *s, const rt_cache_block *b, uint32_t j, uint64_t *scratch, uint8_t *out,
                        uint32_t *bytes, rt_err *e)
{
    switch (s->keep) {
    case RT_KEEP_TOPK: return rt_cache_topk_put(s, b, j, scratch, out, bytes, e);
    case RT_KEEP_DRAWS: return rt_cache_draws_put(s, b, j, scratch, out, bytes, e);
    default: return hidden_put(s, b, j, out, bytes, e);
    }
}

bool rt_cache_record_get(const rt_cache_section *s, const uint8_t *record, uint64_t left, rt_cache_block *b, uint32_t j,
                         uint64_t *scratch, uint32_t *bytes)
{
    switch (s->keep) {
    case RT_KEEP_TOPK: return rt_cache_topk_get(s, record, left, b, j, scratch, bytes);
    case RT_KEEP_DRAWS: return rt_cache_draws_get(s, record, left, b, j, scratch, bytes);
    default: return hidden_get(s, record, left, b, j, bytes);
    }
}

bool rt_cache_records_cut(const rt_cache_section *s, const uint8_t *block, uint32_t bytes, uint64_t have,
                          uint64_t wanted, uint8_t *out, uint32_t *out_bytes)
{
    uint32_t at = 0, n, used = 0;
    for (uint64_t left = have; left; left &= left - 1) {
        if (!rt_cache_record_get(s, block + at, bytes - at, NULL, 0, NULL, &n)) return false;
        if (wanted & left & -left) {
            memcpy(out + used, block + at, n);
            used += n;
        }
        at += n;
    }
    *out_bytes = used;
    return at == bytes;
}

uint32_t rt_cache_check(const uint8_t *block, uint32_t bytes) { return (uint32_t)rt_hash(block, bytes).lo; }
