/* cache_topk.c - the record of a top-k position: ids as a sorted set, log-probabilities, and the mass of the rest.
 *
 *   u8    bits 0-4: l, the low bits of an id (cache_bits.h); bit 5: fewer than k ids, and how many follows
 *   [varint count]
 *   u8 scale, f32 highest, u16 rest    (exact: f32 rest)
 *   [of a section with targets: varint which, u32 id when which is 0, f32 log-probability]
 *   bits: the low bits of each id; the code of each, 10 bits (exact: 32, an f32); what is above the low bits, unary
 *
 * A code c, e = c / 256 and m = c % 256, is how far an entry lies below the highest: S ((256 + m) 2^e - 256) / 256,
 * with S = (8 + scale % 8) 2^(scale/8 - 20). So a step is S/256 near the highest and doubles where it has gone S, 3 S
 * and 7 S down. Of an entry at distance x the code is off by (x + S)/512 at most, S being the spread of the position
 * / 13.3 at most. `highest` is chosen so that what is listed and `rest` as they are read add up to 1: the error of
 * `rest`, and the mean error of the codes, moves all entries alike.
 *
 * rest: bit 15 tells that the mass listed is given, else that of the rest, whichever is smaller; e = bits 10-14, m =
 * bits 0-9: (1024 + m) 2^(e - 42), for e = 0 m 2^-41. Its relative error is 2^-11; a rest above 0 stays above 0. */
#include "teacher/cache/cache_bits.h"
#include "teacher/cache/cache_internal.h"

#include <math.h>

enum {
    LOW_BITS = 31,
    FEWER = 32,
    CODE_BITS = 10,
    CODES_TO = 4088, /* (256 + 255) 2^3: the highest code, in 256ths, and 256 */
    REST_LISTED = 0x8000,
};
#define MASS_OFF 0.01 /* of a teacher whose head is bf16 the mass adds up to 1 much better than this */

/* ---- parts of a record ---- */

static uint8_t *put_varint(uint8_t *p, uint32_t x)
{
    for (; x >= 128; x >>= 7) *p++ = (uint8_t)(x | 128);
    *p++ = (uint8_t)x;
    return p;
}

static const uint8_t *get_varint(const uint8_t *p, const uint8_t *end, uint32_t *x)
{
    *x = 0;
    for (unsigned shift = 0; p && p < end && shift < 35; shift += 7) {
        uint8_t byte = *p++;
        if (shift == 28 && byte > 15) return NULL;
        *x |= (uint32_t)(byte & 127) << shift;
        if (byte < 128) return p;
    }
    return NULL;
}

static uint8_t *put_f32(uint8_t *p, float x)
{
    rt_store_le(p, rt_f32_bits(x), 4);
    return p + 4;
}

static float get_f32(const uint8_t *p) { return rt_f32_from_bits((uint32_t)rt_load_le(p, 4)); }

static float scale_of(uint8_t code) { return ldexpf((float)(8 + code % 8), code / 8 - 20); }

/* The least scale that reaches `spread` below the highest; false: none does. */
static bool scale_code(double spread, uint8_t *code)
{
    int e;
    double v = spread * 256 / (CODES_TO - 256) * 0x1p20;
    frexp(v, &e); /* 2^(e-1) <= v < 2^e */
    e = v < 8 ? 0 : e - 4;
    double m = ceil(ldexp(v, -e)) - 8;
    double all = e * 8.0 + (m < 0 ? 0 : m);
    *code = (uint8_t)(all > 255 ? 255 : all);
    return all <= 255;
}

static uint32_t code_of(double x, double scale)
{
    double y = x / scale * 256 + 256;
    unsigned e = y < 512 ? 0 : y < 1024 ? 1 : y < 2048 ? 2 : 3;
    static const double less[] = { 1, 0.5, 0.25, 0.125 };
    uint32_t c = (e << 8) + (uint32_t)lrint(y * less[e]) - 256;
    return c < 1023 ? c : 1023;
}

/* In 256ths of the scale. */
static uint32_t distance_of(uint32_t code) { return ((256 + (code & 255)) << (code >> 8)) - 256; }

static uint32_t mass_code(double v)
{
    int e;
    frexp(v, &e);
    e = v < 0x1p-31 ? 0 : e + 31;
    return e == 0 ? (uint32_t)lrint(v * 0x1p41) : (uint32_t)(e << 10) + (uint32_t)lrint(ldexp(v, 42 - e)) - 1024;
}

/* Of one that is small. A little is not nothing: reverse KL is infinite where the teacher gives nothing. */
static uint32_t rest_code(double rest)
{
    uint32_t code = rest > 0 ? mass_code(rest) : 0;
    return code ? code : rest > 0;
}

static double mass_of(uint32_t code)
{
    uint32_t e = code >> 10 & 31, m = code & 1023;
    return e == 0 ? m * 0x1p-41 : ldexp(1024.0 + m, (int)e - 42);
}

/* ---- writing ---- */

/* The entries that are used, as id << 32 | place in the list, by id: *sorted is in scratch (2,k). */
static int sorted_entries(const rt_cache_section *s, const int32_t *id, const float *logp, float rest,
                          uint64_t *scratch, uint64_t **sorted, uint32_t *count, double *listed, rt_err *e)
{
    uint32_t n = 0, all = 0;
    *listed = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        if (id[i] < 0) continue;
        if (!isfinite(logp[i]))
            return rt_fail(e, RT_NONFINITE, "the log-probability of id %d is not finite", (int)id[i]);
        *listed += exp((double)logp[i]);
        scratch[n++] = (uint64_t)(uint32_t)id[i] << 32 | i;
        all |= (uint32_t)id[i];
    }
    if (!isfinite(rest)) return rt_fail(e, RT_NONFINITE, "the mass of the rest is not finite");
    if (!(fabs(*listed + (double)rest - 1) <= MASS_OFF) || rest < -(float)MASS_OFF)
        return rt_fail(e, RT_INVALID, "%u ids have a mass of %g and the rest %g, which do not add up to 1", n, *listed,
                       (double)rest);
    const uint64_t *entries = *sorted = rt_sort_digits(scratch, scratch + s->n, n, 32, rt_bit_width(all));
    for (uint32_t i = 1; i < n; i++)
        if (entries[i] >> 32 == entries[i - 1] >> 32)
            return rt_fail(e, RT_INVALID, "id %u is listed twice", (unsigned)(entries[i] >> 32));
    *count = n;
    return RT_OK;
}

/* Replaces the places in entries by codes. */
static int put_compact(uint64_t *entries, uint32_t count, const float *logp, float rest, double listed, uint8_t *p,
                       rt_err *e)
{
    float highest = count ? logp[(uint32_t)entries[0]] : 0, lowest = highest;
    double sum = 0;
    uint32_t mass = rest > 0.5f ? REST_LISTED | mass_code(listed < 0.5 ? listed : 0.5) : rest_code((double)rest);
    for (uint32_t i = 1; i < count; i++) {
        highest = fmaxf(highest, logp[(uint32_t)entries[i]]);
        lowest = fminf(lowest, logp[(uint32_t)entries[i]]);
    }
    if (!scale_code((double)highest - (double)lowest, p))
        return rt_fail(e, RT_INVALID,
                       "log-probabilities from %g to %g span more than 10 bits can encode; use a higher "
                       "temperature",
                       (double)lowest, (double)highest);
    double scale = (double)scale_of(*p);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t code = code_of((double)highest - (double)logp[(uint32_t)entries[i]], scale);
        entries[i] = entries[i] >> 32 << 32 | code;
        sum += exp(-scale * distance_of(code) / 256);
    }
    listed = mass & REST_LISTED ? mass_of(mass) : 1 - mass_of(mass);
    put_f32(p + 1, count && listed > 0 ? (float)log(listed / sum) : highest);
    rt_store_le(p + 5, mass, 2);
    return RT_OK;
}

static uint8_t *put_target(const rt_cache_block *b, uint32_t j, const uint64_t *entries, uint32_t count, uint8_t *p)
{
    uint32_t low = 0, high = count, id = (uint32_t)b->target[j];
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (entries[middle] >> 32 < id)
            low = middle + 1;
        else
            high = middle;
    }
    bool listed = low < count && entries[low] >> 32 == id;
    p = put_varint(p, listed ? low + 1 : 0);
    if (!listed) rt_store_le(p, id, 4);
    return put_f32(p + (listed ? 0 : 4), b->target_logp[j]);
}

static uint8_t *put_bits(const uint64_t *entries, uint32_t count, unsigned l, unsigned width, uint8_t *p)
{
    rt_bits_out o = { .at = p };
    uint64_t before = 0;
    for (uint32_t i = 0; i < count; i++) rt_bits_put(&o, (uint32_t)(entries[i] >> 32) & ((UINT32_C(1) << l) - 1), l);
    for (uint32_t i = 0; i < count; i++) rt_bits_put(&o, (uint32_t)entries[i], width);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t above = entries[i] >> (32 + l);
        rt_bits_put_unary(&o, above - before);
        before = above;
    }
    return rt_bits_end(&o);
}

int rt_cache_topk_put(const rt_cache_section *s, const rt_cache_block *b, uint32_t j, uint64_t *scratch, uint8_t *out,
                      uint32_t *bytes, rt_err *e)
{
    int rc;
    const float *logp = b->logp + (size_t)j * s->n;
    uint32_t count = 0;
    double listed;
    uint64_t *entries = scratch;
    uint8_t *p = out + 1;
    RT_TRY(sorted_entries(s, b->id + (size_t)j * s->n, logp, b->rest[j], scratch, &entries, &count, &listed, e));
    if (s->target && b->target[j] < 0) RT_TRY(rt_fail(e, RT_INVALID, "a position has no target"));
    if (s->target && !isfinite(b->target_logp[j]))
        RT_TRY(rt_fail(e, RT_NONFINITE, "the log-probability of a target is not finite"));
    unsigned l = count ? rt_set_low_bits(count, (uint32_t)(entries[count - 1] >> 32)) : 0;
    out[0] = (uint8_t)(l | (count < s->n ? FEWER : 0));
    if (count < s->n) p = put_varint(p, count);
    if (s->exact) {
        p = put_f32(p, b->rest[j]);
        for (uint32_t i = 0; i < count; i++)
            entries[i] = entries[i] >> 32 << 32 | rt_f32_bits(logp[(uint32_t)entries[i]]);
    } else {
        RT_TRY(put_compact(entries, count, logp, b->rest[j], listed, p, e));
        p += 7;
    }
    if (s->target) p = put_target(b, j, entries, count, p);
    p = put_bits(entries, count, l, s->exact ? 32 : CODE_BITS, p);
    *bytes = (uint32_t)(p - out);
out:
    return rc;
}

/* ---- reading ---- */

typedef struct head {
    unsigned l, width;
    uint32_t count, which, target;
    uint8_t scale;
    float highest, rest, target_logp;
} head;

/* What follows it; null when it is none. */
static const uint8_t *get_head(const rt_cache_section *s, const uint8_t *p, const uint8_t *end, head *h)
{
    if (p >= end || *p & 0xc0) return NULL;
    uint8_t first = *p++;
    *h = (head){ .l = first & LOW_BITS, .width = s->exact ? 32 : CODE_BITS, .count = s->n };
    if (first & FEWER) p = get_varint(p, end, &h->count);
    if (!p || h->count > s->n || end - p < (s->exact ? 4 : 7)) return NULL;
    if (s->exact) {
        h->rest = get_f32(p);
        p += 4;
    } else {
        uint32_t mass = (uint32_t)rt_load_le(p + 5, 2);
        h->scale = *p;
        h->highest = get_f32(p + 1);
        h->rest = (float)(mass & REST_LISTED ? 1 - mass_of(mass) : mass_of(mass));
        p += 7;
    }
    if (!isfinite(h->rest) || !isfinite(h->highest)) return NULL;
    if (!s->target) return p;
    p = get_varint(p, end, &h->which);
    if (!p || h->which > h->count || end - p < (h->which ? 4 : 8)) return NULL;
    if (!h->which) {
        h->target = (uint32_t)rt_load_le(p, 4);
        p += 4;
    }
    h->target_logp = get_f32(p);
    return h->target <= INT32_MAX && isfinite(h->target_logp) ? p + 4 : NULL;
}

/* Floats descending as numbers ascending, and back. */
static uint32_t descending(uint32_t bits) { return bits >> 31 ? bits : ~bits & 0x7fffffffu; }
/* Of a float; zeros are equal, whatever their sign. */
static uint32_t order_of(float x) { return descending(rt_f32_bits(x + 0.0f)); }

/* scratch (2,k): code << 32 | id, by id; the code of an exact one is the order of its f32. Where steps are smaller than
 * those of f32 numbers codes that differ may say the same: then the numbers are put in order, not the codes. */
static void put_out(const rt_cache_section *s, const head *h, uint64_t *scratch, rt_cache_block *b, uint32_t j)
{
    int32_t *id = b->id + (size_t)j * s->n;
    float *logp = b->logp + (size_t)j * s->n;
    float step = scale_of(h->scale) / 256;
    bool ordered = s->exact || fabsf(h->highest) >= step * 0x1p21f;
    for (uint32_t i = 0; ordered && !s->exact && i < h->count; i++) {
        float x = h->highest - step * (float)distance_of((uint32_t)(scratch[i] >> 32));
        scratch[i] = (uint64_t)order_of(x) << 32 | (uint32_t)scratch[i];
    }
    const uint64_t *entries = rt_sort_digits(scratch, scratch + s->n, h->count, 32, ordered ? 32 : h->width);
    for (uint32_t i = 0; i < h->count; i++) {
        uint32_t code = (uint32_t)(entries[i] >> 32);
        id[i] = (int32_t)(uint32_t)entries[i];
        logp[i] = ordered ? rt_f32_from_bits(descending(code)) : h->highest - step * (float)distance_of(code);
    }
    for (uint32_t i = h->count; i < s->n; i++) {
        id[i] = -1;
        logp[i] = 0;
    }
    b->rest[j] = h->rest;
    if (!s->target) return;
    b->target[j] = (int32_t)h->target;
    b->target_logp[j] = h->target_logp;
}

bool rt_cache_topk_get(const rt_cache_section *s, const uint8_t *record, uint64_t left, rt_cache_block *b, uint32_t j,
                       uint64_t *scratch, uint32_t *bytes)
{
    head h;
    const uint8_t *p = get_head(s, record, record + left, &h);
    if (!p) return false;
    rt_bits_in in = { p, left - (uint64_t)(p - record) };
    uint64_t low_at = 0, code_at = (uint64_t)h.count * h.l, at = code_at + (uint64_t)h.count * h.width;
    uint64_t above = 0, zeros, before = 0;
    if (at + h.count > 8 * in.bytes) return false;
    for (uint32_t i = 0; i < h.count; i++, low_at += h.l, code_at += h.width) {
        if (!rt_bits_get_unary(&in, &at, &zeros)) return false;
        above += zeros;
        if (!b) continue;
        uint64_t id = above << h.l | rt_bits_get(&in, low_at, h.l);
        uint32_t code = rt_bits_get(&in, code_at, h.width);
        if (id > INT32_MAX || (i > 0 && id <= before)) return false;
        if (s->exact && !isfinite(rt_f32_from_bits(code))) return false;
        scratch[i] = (uint64_t)(s->exact ? order_of(rt_f32_from_bits(code)) : code) << 32 | id;
        before = id;
        if (i + 1 == h.which) h.target = (uint32_t)id;
    }
    if (b) put_out(s, &h, scratch, b, j);
    *bytes = (uint32_t)((uint64_t)(p - record) + (at + 7) / 8);
    return true;
}
