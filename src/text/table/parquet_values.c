/* parquet_values.c - the encodings of Parquet: bytes of a page as values, one by one.
 *
 * Owns: runs, deltas, dictionaries and the plain form. Nothing is decoded ahead and nothing is allocated by a count
 * that the file gives, but for the texts of a dictionary, each of which takes four bytes of its page. */
#include "text/table/table_internal.h"

#include <string.h>

/* The bits [bit, bit + width) from p, least significant first; width at most 64, all of them before end. */
static inline uint64_t bits_at(const uint8_t *p, const uint8_t *end, uint64_t bit, uint32_t width)
{
    p += bit / 8;
    uint32_t shift = bit % 8;
    size_t left = (size_t)(end - p);
    if (width == 0) return 0;
    uint64_t x = rt_load_le(p, left < 8 ? (unsigned)left : 8) >> shift;
    if (shift + width > 64) x |= (uint64_t)p[8] << (64 - shift);
    return width == 64 ? x : x & ((1ull << width) - 1);
}

static bool take_varint(const uint8_t **p, const uint8_t *end, uint64_t *out)
{
    *out = 0;
    for (unsigned shift = 0; shift < 64 && *p < end; shift += 7) {
        uint8_t b = *(*p)++;
        *out |= (uint64_t)(b & 0x7F) << shift;
        if (b < 0x80) return true;
    }
    return false;
}

/* ---- runs ---- */

rt_pq_runs rt_pq_runs_of(const uint8_t *p, const uint8_t *end, uint32_t width)
{
    return (rt_pq_runs){ .p = p, .end = end, .width = width };
}

static bool next_run(rt_pq_runs *r)
{
    while (r->left == 0) {
        uint64_t head;
        size_t value_bytes = (r->width + 7) / 8;
        if (r->packed) r->p += r->bytes;
        r->packed = false;
        if (!take_varint(&r->p, r->end, &head)) return false;
        r->left = head >> 1;
        size_t rest = (size_t)(r->end - r->p);
        if (head & 1) {
            if (r->left > UINT32_MAX) return false;
            r->packed = true;
            r->bit = 0;
            r->bytes = r->left * r->width;
            r->left *= 8;
            /* Some writers leave out the end of the last stretch, which nobody reads. */
            if (r->bytes > rest) {
                r->bytes = rest;
                r->left = rest * 8 / r->width;
                if (r->left == 0) return false;
            }
        } else {
            if (rest < value_bytes) return false;
            r->value = (uint32_t)rt_load_le(r->p, (unsigned)value_bytes);
            r->p += value_bytes;
        }
    }
    return true;
}

bool rt_pq_runs_next(rt_pq_runs *r, uint32_t *value)
{
    if (r->left == 0 && !next_run(r)) return false;
    r->left--;
    *value = r->value;
    if (r->packed) {
        *value = (uint32_t)bits_at(r->p, r->end, r->bit, r->width);
        r->bit += r->width;
    }
    return true;
}

/* ---- deltas ---- */

static bool delta_begin(rt_pq_delta *d, const uint8_t *p, const uint8_t *end)
{
    uint64_t block, minis, first;
    *d = (rt_pq_delta){ .p = p, .end = end, .first = true };
    if (!take_varint(&d->p, end, &block) || !take_varint(&d->p, end, &minis) || !take_varint(&d->p, end, &d->left) ||
        !take_varint(&d->p, end, &first))
        return false;
    if (block == 0 || block > 1 << 20 || minis == 0 || minis > block || block % minis || block / minis % 8)
        return false;
    d->value = first >> 1 ^ (~(first & 1) + 1);
    d->mini_count = d->mini = (uint32_t)minis;
    d->mini_size = (uint32_t)(block / minis);
    return true;
}

/* The next miniblock, of the next block when this one has no more. */
static bool next_mini(rt_pq_delta *d)
{
    uint64_t x;
    if (d->mini == d->mini_count) {
        if (!take_varint(&d->p, d->end, &x) || (size_t)(d->end - d->p) < d->mini_count) return false;
        d->min_delta = x >> 1 ^ (~(x & 1) + 1);
        d->widths = d->p;
        d->p += d->mini_count;
        d->mini = 0;
    }
    d->width = d->widths[d->mini++];
    size_t bytes = (size_t)d->mini_size / 8 * d->width;
    if (d->width > 64 || bytes > (size_t)(d->end - d->p)) return false;
    d->bits = d->p;
    d->p += bytes;
    d->bit = 0;
    d->in_mini = d->mini_size;
    return true;
}

static bool delta_next(rt_pq_delta *d, uint64_t *value)
{
    if (d->left == 0) return false;
    d->left--;
    if (!d->first) {
        if (d->in_mini == 0 && !next_mini(d)) return false;
        d->value += d->min_delta + bits_at(d->bits, d->end, d->bit, d->width);
        d->bit += d->width;
        d->in_mini--;
    }
    d->first = false;
    *value = d->value;
    return true;
}

/* Where the bytes after all of its values begin. False when it is broken. */
static bool delta_end(rt_pq_delta d, const uint8_t **after)
{
    uint64_t deltas = d.left > 0 ? d.left - 1 : 0;
    while (deltas > 0) {
        if (!next_mini(&d)) return false;
        deltas -= deltas < d.mini_size ? deltas : d.mini_size;
    }
    *after = d.p;
    return true;
}

/* ---- dictionaries ---- */

static uint32_t width_of(rt_pq_type t)
{
    return t == RT_PQ_INT32 || t == RT_PQ_FLOAT ? 4 : t == RT_PQ_INT64 || t == RT_PQ_DOUBLE ? 8 : 0;
}

static bool take_text(const uint8_t **p, const uint8_t *end, rt_span *out)
{
    if (end - *p < 4) return false;
    uint64_t n = rt_load_le(*p, 4);
    if (n > (size_t)(end - *p) - 4) return false;
    *out = (rt_span){ (const char *)*p + 4, n };
    *p += 4 + n;
    return true;
}

int rt_pq_dictionary_read(rt_pq_dictionary *d, rt_pq_type type, const uint8_t *p, const uint8_t *end, uint32_t count)
{
    uint32_t width = width_of(type);
    d->count = 0;
    if ((!width && type != RT_PQ_BYTE_ARRAY) || (size_t)(end - p) / (width ? width : 4) < count) return RT_FORMAT;
    d->data = p;
    if (!width) {
        rt_span text;
        if (!rt_grow((void **)&d->texts, &d->texts_cap, count, sizeof *d->texts)) return RT_NOMEM;
        for (uint32_t i = 0; i < count; i++) {
            d->texts[i] = (uint32_t)(p - d->data); /* a page is smaller than 4 GiB */
            if (!take_text(&p, end, &text)) return RT_FORMAT;
        }
    }
    d->count = count;
    return RT_OK;
}

/* ---- values ---- */

static bool encoding_fits(int encoding, rt_pq_type type, bool has_dictionary)
{
    bool text = type == RT_PQ_BYTE_ARRAY, number = width_of(type) > 0;
    switch (encoding) {
    case RT_PQ_PLAIN: return true;
    case RT_PQ_PLAIN_DICTIONARY:
    case RT_PQ_RLE_DICTIONARY: return has_dictionary && (text || number);
    case RT_PQ_RLE: return type == RT_PQ_BOOLEAN;
    case RT_PQ_DELTA_BINARY_PACKED: return type == RT_PQ_INT32 || type == RT_PQ_INT64;
    case RT_PQ_DELTA_LENGTH_BYTE_ARRAY:
    case RT_PQ_DELTA_BYTE_ARRAY: return text;
    case RT_PQ_BYTE_STREAM_SPLIT: return number;
    default: return false;
    }
}

static bool begin_lengths(rt_pq_values *v, const uint8_t *p)
{
    return delta_begin(&v->lengths, p, v->end) && delta_end(v->lengths, &v->p);
}

static bool begin(rt_pq_values *v)
{
    size_t rest = (size_t)(v->end - v->p);
    switch (v->encoding) {
    case RT_PQ_PLAIN_DICTIONARY:
    case RT_PQ_RLE_DICTIONARY:
        if (rest == 0) return true; /* a page of nulls */
        v->runs = rt_pq_runs_of(v->p + 1, v->end, *v->p);
        return v->runs.width <= 32;
    case RT_PQ_RLE:
        if (rest < 4 || rt_load_le(v->p, 4) > rest - 4) return rest == 0;
        v->runs = rt_pq_runs_of(v->p + 4, v->p + 4 + rt_load_le(v->p, 4), 1);
        return true;
    case RT_PQ_DELTA_BINARY_PACKED: return rest == 0 || delta_begin(&v->delta, v->p, v->end);
    case RT_PQ_DELTA_LENGTH_BYTE_ARRAY: return rest == 0 || begin_lengths(v, v->p);
    case RT_PQ_DELTA_BYTE_ARRAY: {
        const uint8_t *suffixes;
        v->last.len = 0;
        if (rest == 0) return true;
        return delta_begin(&v->delta, v->p, v->end) && delta_end(v->delta, &suffixes) && begin_lengths(v, suffixes);
    }
    case RT_PQ_BYTE_STREAM_SPLIT: v->count = rest / v->width; return rest % v->width == 0;
    default: return true;
    }
}

int rt_pq_values_begin(rt_pq_values *v, const uint8_t *p, const uint8_t *end, rt_err *e)
{
    static const char *const names[] = {
        "PLAIN",          "GROUP_VAR_INT",       "PLAIN_DICTIONARY",        "RLE",
        "BIT_PACKED",     "DELTA_BINARY_PACKED", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY",
        "RLE_DICTIONARY", "BYTE_STREAM_SPLIT"
    };
    int known = sizeof names / sizeof *names;
    if (!encoding_fits(v->encoding, v->type, v->dictionary != NULL))
        return rt_fail(e, RT_UNSUPPORTED, "encoding %s (%d) is not read for this type%s",
                       v->encoding >= 0 && v->encoding < known ? names[v->encoding] : "unknown", v->encoding,
                       v->dictionary ? "" : ", or its dictionary is missing");
    v->width = width_of(v->type);
    v->p = p;
    v->end = end;
    v->at = v->count = 0;
    v->runs = (rt_pq_runs){ 0 };
    v->delta = v->lengths = (rt_pq_delta){ 0 };
    return begin(v) ? RT_OK : RT_FORMAT;
}

static int next_plain(rt_pq_values *v, rt_pq_value *out)
{
    if (v->type == RT_PQ_BYTE_ARRAY) return take_text(&v->p, v->end, &out->text) ? RT_OK : RT_FORMAT;
    if (v->type == RT_PQ_BOOLEAN) {
        if (v->at / 8 >= (size_t)(v->end - v->p)) return RT_FORMAT;
        out->bits = v->p[v->at / 8] >> v->at % 8 & 1;
        v->at++;
        return RT_OK;
    }
    if ((size_t)(v->end - v->p) < v->width) return RT_FORMAT;
    out->bits = rt_load_le(v->p, v->width);
    v->p += v->width;
    return RT_OK;
}

static int next_indexed(rt_pq_values *v, rt_pq_value *out)
{
    const rt_pq_dictionary *d = v->dictionary;
    uint32_t i;
    if (!rt_pq_runs_next(&v->runs, &i) || i >= d->count) return RT_FORMAT;
    if (v->width) {
        out->bits = rt_load_le(d->data + (size_t)i * v->width, v->width);
    } else {
        const uint8_t *p = d->data + d->texts[i];
        out->text = (rt_span){ (const char *)p + 4, rt_load_le(p, 4) };
    }
    return RT_OK;
}

/* The bytes of a text whose length is the next of the lengths. */
static int next_length(rt_pq_values *v, rt_span *out)
{
    uint64_t n;
    if (!delta_next(&v->lengths, &n) || n > (size_t)(v->end - v->p)) return RT_FORMAT;
    *out = (rt_span){ (const char *)v->p, n };
    v->p += n;
    return RT_OK;
}

static int next_prefixed(rt_pq_values *v, rt_pq_value *out)
{
    uint64_t prefix;
    rt_span suffix;
    if (!delta_next(&v->delta, &prefix) || prefix > v->last.len || next_length(v, &suffix) < 0) return RT_FORMAT;
    v->last.len = prefix;
    rt_str_append_n(&v->last, suffix.data, suffix.len);
    if (v->last.failed) return RT_NOMEM;
    out->text = (rt_span){ v->last.data, v->last.len };
    return RT_OK;
}

static int next_split(rt_pq_values *v, rt_pq_value *out)
{
    if (v->at >= v->count) return RT_FORMAT;
    out->bits = 0;
    for (uint32_t k = 0; k < v->width; k++) out->bits |= (uint64_t)v->p[k * v->count + v->at] << 8 * k;
    v->at++;
    return RT_OK;
}

int rt_pq_values_next(rt_pq_values *v, rt_pq_value *out)
{
    uint32_t flag;
    switch (v->encoding) {
    case RT_PQ_PLAIN: return next_plain(v, out);
    case RT_PQ_RLE:
        if (!rt_pq_runs_next(&v->runs, &flag)) return RT_FORMAT;
        out->bits = flag;
        return RT_OK;
    case RT_PQ_DELTA_BINARY_PACKED: return delta_next(&v->delta, &out->bits) ? RT_OK : RT_FORMAT;
    case RT_PQ_DELTA_LENGTH_BYTE_ARRAY: return next_length(v, &out->text);
    case RT_PQ_DELTA_BYTE_ARRAY: return next_prefixed(v, out);
    case RT_PQ_BYTE_STREAM_SPLIT: return next_split(v, out);
    default: return next_indexed(v, out);
    }
}
