/* cache_draws.c - the record of drawn ids: which, how often, and the teacher's entropy.
 *
 *   u8    l, the low bits of an id (cache_bits.h)
 *   f32   entropy
 *   bits: n of them, for each id in their order so many zeros as it was drawn more than once, and a one, so there are
 * as many ones as ids; the low bits of each id; what is above them, unary */
#include "teacher/cache/cache_bits.h"
#include "teacher/cache/cache_internal.h"

#include <math.h>

enum { HEAD_BYTES = 5, LOW_BITS = 31 };

/* The ids that were drawn, as id << 32 | how often, by id: *sorted is in scratch (2,n). */
static int sorted_draws(const rt_cache_section *s, const int32_t *id, const float *logp, uint64_t *scratch,
                        uint64_t **sorted, uint32_t *count, rt_err *e)
{
    uint32_t n = 0, ids = 0;
    uint64_t all = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (id[i] < 0) continue;
        double drawn = exp((double)logp[i]) * s->n;
        double times = rint(drawn);
        if (!(times >= 1 && times <= s->n && fabs(drawn - times) <= 1e-4 * times))
            return rt_fail(e, RT_INVALID, "id %d has the log-probability %g, which is not a count of %u draws",
                           (int)id[i], (double)logp[i], s->n);
        all += (uint64_t)times;
        scratch[n++] = (uint64_t)(uint32_t)id[i] << 32 | (uint32_t)times;
        ids |= (uint32_t)id[i];
    }
    if (all != s->n) return rt_fail(e, RT_INVALID, "a position has %llu draws, not %u", (unsigned long long)all, s->n);
    const uint64_t *entries = *sorted = rt_sort_digits(scratch, scratch + s->n, n, 32, rt_bit_width(ids));
    for (uint32_t i = 1; i < n; i++)
        if (entries[i] >> 32 == entries[i - 1] >> 32)
            return rt_fail(e, RT_INVALID, "id %u is listed twice", (unsigned)(entries[i] >> 32));
    *count = n;
    return RT_OK;
}

int rt_cache_draws_put(const rt_cache_section *s, const rt_cache_block *b, uint32_t j, uint64_t *scratch, uint8_t *out,
                       uint32_t *bytes, rt_err *e)
{
    uint32_t count = 0;
    uint64_t before = 0;
    uint64_t *entries = scratch;
    float entropy = b->entropy[j];
    int rc = sorted_draws(s, b->id + (size_t)j * s->n, b->logp + (size_t)j * s->n, scratch, &entries, &count, e);
    if (rc < 0) return rc;
    if (!isfinite(entropy)) return rt_fail(e, RT_NONFINITE, "the entropy of a position is not finite");
    unsigned l = rt_set_low_bits(count, (uint32_t)(entries[count - 1] >> 32));
    out[0] = (uint8_t)l;
    rt_store_le(out + 1, rt_f32_bits(entropy), 4);
    rt_bits_out o = { .at = out + HEAD_BYTES };
    for (uint32_t i = 0; i < count; i++) rt_bits_put_unary(&o, (uint32_t)entries[i] - 1);
    for (uint32_t i = 0; i < count; i++) rt_bits_put(&o, (uint32_t)(entries[i] >> 32) & ((UINT32_C(1) << l) - 1), l);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t above = entries[i] >> (32 + l);
        rt_bits_put_unary(&o, above - before);
        before = above;
    }
    *bytes = (uint32_t)(rt_bits_end(&o) - out);
    return RT_OK;
}

/* How many ids n draws gave: the ones among n bits. */
static uint32_t distinct(const rt_bits_in *in, uint32_t n)
{
    uint32_t count = 0;
    for (uint32_t at = 0; at < n; at += 32)
        count += (uint32_t)__builtin_popcount(rt_bits_get(in, at, n - at < 32 ? n - at : 32));
    return count;
}

/* scratch (2,n): n - how often << 32 | id, by id. */
static void put_out(const rt_cache_section *s, uint64_t *scratch, uint32_t count, rt_cache_block *b, uint32_t j)
{
    int32_t *id = b->id + (size_t)j * s->n;
    float *logp = b->logp + (size_t)j * s->n;
    const uint64_t *entries = rt_sort_digits(scratch, scratch + s->n, count, 32, rt_bit_width(s->n));
    for (uint32_t i = 0; i < count; i++) {
        uint32_t times = s->n - (uint32_t)(entries[i] >> 32);
        id[i] = (int32_t)(uint32_t)entries[i];
        logp[i] = (float)log((double)times / s->n);
    }
    for (uint32_t i = count; i < s->n; i++) {
        id[i] = -1;
        logp[i] = 0;
    }
}

bool rt_cache_draws_get(const rt_cache_section *s, const uint8_t *record, uint64_t left, rt_cache_block *b, uint32_t j,
                        uint64_t *scratch, uint32_t *bytes)
{
    if (left < HEAD_BYTES || record[0] > LOW_BITS) return false;
    rt_bits_in in = { record + HEAD_BYTES, left - HEAD_BYTES };
    float entropy = rt_f32_from_bits((uint32_t)rt_load_le(record + 1, 4));
    unsigned l = record[0];
    if (8 * in.bytes < s->n || !isfinite(entropy) || !rt_bits_get(&in, s->n - 1, 1)) return false;
    uint32_t count = distinct(&in, s->n);
    uint64_t times_at = 0, low_at = s->n, at = low_at + (uint64_t)count * l, above = 0, zeros, before = 0;
    if (at + count > 8 * in.bytes) return false;
    for (uint32_t i = 0; i < count; i++, low_at += l) {
        if (!rt_bits_get_unary(&in, &at, &zeros)) return false;
        above += zeros;
        if (!b) continue;
        uint64_t id = above << l | rt_bits_get(&in, low_at, l);
        if (id > INT32_MAX || (i > 0 && id <= before) || !rt_bits_get_unary(&in, &times_at, &zeros)) return false;
        scratch[i] = (s->n - 1 - zeros) << 32 | id; /* the most often drawn first */
        before = id;
    }
    if (b) {
        put_out(s, scratch, count, b, j);
        b->entropy[j] = entropy;
    }
    *bytes = (uint32_t)(HEAD_BYTES + (at + 7) / 8);
    return true;
}
