/* parquet_page.c - the pages of a column: checked, decompressed, and cut into levels and values.
 *
 * Owns: one page and one dictionary of each column at a time. What the levels mean is for parquet_rows.c. */
#include "text/table/table_internal.h"

#include <libdeflate.h>
#include <string.h>

int rt_pq_leaf_broken(const rt_pq_reader *r, const rt_pq_leaf *l, const char *what, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: column %s: %s, before byte %llu of the file; fetch it again", r->footer.path,
                   l->name, what, (unsigned long long)(l->p - r->footer.map.data));
}

/* Puts file and column before a message that lacks them, or makes one where there is none. */
static int explain(const rt_pq_reader *r, const rt_pq_leaf *l, int status, const char *what, rt_err *e)
{
    if (status == RT_FORMAT) return rt_pq_leaf_broken(r, l, what, e);
    if (status == RT_NOMEM) return rt_no_memory(e, r->footer.path);
    if (status < 0) rt_err_context(e, "%s: column %s", r->footer.path, l->name);
    return status;
}

int rt_pq_leaf_begin(rt_pq_reader *r, rt_pq_leaf *l, const rt_pq_chunk *c, rt_err *e)
{
    const char *path = r->footer.path, *codec = rt_pq_codec_name(c->codec);
    l->p = l->end = r->footer.map.data;
    l->left = l->page_left = 0;
    l->loaded = l->has_dictionary = false;
    if (c->values == 0) return RT_OK; /* a row group without rows may have no place */
    if (c->elsewhere)
        return rt_fail(e, RT_UNSUPPORTED, "%s: column %s lies in another file, which is not read", path, l->name);
    if (c->encrypted) return rt_fail(e, RT_UNSUPPORTED, "%s: column %s is encrypted, which is not read", path, l->name);
    if (!rt_pq_codec_known(c->codec))
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s: column %s is compressed with %s (%d), which is not read; write it with ZSTD, SNAPPY, GZIP, "
                       "BROTLI, LZ4_RAW or none",
                       path, l->name, codec ? codec : "an unknown codec", c->codec);
    if (c->type != (int)l->type) return rt_pq_leaf_broken(r, l, "its type is another than in the schema", e);
    if (c->begin < 4 || c->end > r->footer.data_end) return rt_pq_leaf_broken(r, l, "its place is not in the file", e);
    l->codec = c->codec;
    l->p = r->footer.map.data + c->begin;
    l->end = r->footer.map.data + c->end;
    l->left = c->values;
    rt_map_will_need(&r->footer.map, c->begin, c->end - c->begin);
    return RT_OK;
}

void rt_pq_leaf_free(rt_pq_leaf *l)
{
    rt_free(l->page);
    rt_free(l->dictionary_page);
    rt_free(l->dictionary.texts);
    rt_str_free(&l->values.last);
}

/* ---- bytes ---- */

static int reserve(rt_pq_reader *r, uint8_t **data, size_t *cap, size_t size, rt_err *e)
{
    if (size <= *cap && *data) return RT_OK;
    size_t wanted = size + size / 4;
    r->held += wanted - *cap;
    if (r->held > RT_PQ_HELD_LIMIT) return rt_fail(e, RT_INVALID, "its pages need more than 3 GiB of memory at once");
    rt_free(*data);
    *cap = 0;
    *data = rt_alloc(wanted + RT_PQ_SLACK, 64);
    if (!*data) return RT_NOMEM;
    *cap = wanted;
    return RT_OK;
}

/* The last in_size bytes of a page into `size` bytes; in the map itself when they are not compressed. */
static int unpack(rt_pq_reader *r, rt_pq_leaf *l, bool compressed, const uint8_t *in, size_t in_size, size_t size,
                  bool dictionary, const uint8_t **out, rt_err *e)
{
    uint8_t **to = dictionary ? &l->dictionary_page : &l->page;
    *out = in;
    if (!compressed || l->codec == 0) return in_size == size ? RT_OK : RT_FORMAT;
    if (in_size == 0 && size == 0) return RT_OK;
    int rc = reserve(r, to, dictionary ? &l->dictionary_cap : &l->page_cap, size, e);
    if (rc == RT_OK) rc = rt_pq_decompress(r->codecs, l->codec, in, in_size, *to, size, e);
    *out = *to;
    return rc;
}

/* ---- levels ---- */

static uint32_t bits_for(uint32_t most)
{
    uint32_t n = 0;
    while (most >> n) n++;
    return n;
}

/* v1: levels stand before the values, each kind with its length. */
static bool take_levels(const uint8_t **p, const uint8_t *end, uint32_t most, int encoding, rt_pq_runs *out)
{
    *out = (rt_pq_runs){ 0 };
    if (most == 0) return true;
    if (encoding != RT_PQ_RLE || end - *p < 4) return false;
    uint64_t n = rt_load_le(*p, 4);
    if (n > (size_t)(end - *p) - 4) return false;
    *out = rt_pq_runs_of(*p + 4, *p + 4 + n, bits_for(most));
    *p += 4 + n;
    return true;
}

/* ---- pages ---- */

static int begin_values(rt_pq_leaf *l, const rt_pq_page *p, const uint8_t *data, const uint8_t *end, rt_err *e)
{
    l->values.type = l->type;
    l->values.encoding = p->encoding;
    l->values.dictionary = l->has_dictionary ? &l->dictionary : NULL;
    l->page_left = p->values;
    l->left -= p->values;
    return rt_pq_values_begin(&l->values, data, end, e);
}

static int begin_v1(rt_pq_reader *r, rt_pq_leaf *l, const rt_pq_page *p, const uint8_t *in, rt_err *e)
{
    const uint8_t *data;
    int rc = unpack(r, l, true, in, p->packed, p->size, false, &data, e);
    if (rc < 0) return rc;
    const uint8_t *end = data + p->size;
    if (!take_levels(&data, end, l->max_rep, p->rep_encoding, &l->reps) ||
        !take_levels(&data, end, l->max_def, p->def_encoding, &l->defs))
        return RT_FORMAT;
    return begin_values(l, p, data, end, e);
}

static int begin_v2(rt_pq_reader *r, rt_pq_leaf *l, const rt_pq_page *p, const uint8_t *in, rt_err *e)
{
    const uint8_t *data;
    uint64_t levels = (uint64_t)p->rep_bytes + p->def_bytes;
    if (levels > p->packed || levels > p->size) return RT_FORMAT;
    int rc = unpack(r, l, p->compressed, in + levels, p->packed - levels, p->size - levels, false, &data, e);
    if (rc < 0) return rc;
    l->reps = rt_pq_runs_of(in, in + p->rep_bytes, bits_for(l->max_rep));
    l->defs = rt_pq_runs_of(in + p->rep_bytes, in + levels, bits_for(l->max_def));
    return begin_values(l, p, data, data + (p->size - levels), e);
}

static int begin_dictionary(rt_pq_reader *r, rt_pq_leaf *l, const rt_pq_page *p, const uint8_t *in, rt_err *e)
{
    const uint8_t *data;
    if (p->encoding != RT_PQ_PLAIN && p->encoding != RT_PQ_PLAIN_DICTIONARY) return RT_FORMAT;
    int rc = unpack(r, l, true, in, p->packed, p->size, true, &data, e);
    if (rc < 0) return rc;
    rc = rt_pq_dictionary_read(&l->dictionary, l->type, data, data + p->size, p->values);
    l->has_dictionary = rc == RT_OK;
    return rc;
}

static int begin_page(rt_pq_reader *r, rt_pq_leaf *l, rt_err *e)
{
    rt_pq_page p;
    if (!rt_pq_page_read(&l->p, l->end, &p)) return rt_pq_leaf_broken(r, l, "a page's header is broken", e);
    const uint8_t *in = l->p;
    l->p += p.packed;
    bool data = p.kind == RT_PQ_DATA || p.kind == RT_PQ_DATA_V2;
    if (!data && p.kind != RT_PQ_DICTIONARY) return RT_OK;
    if (p.has_crc && libdeflate_crc32(0, in, p.packed) != p.crc)
        return rt_pq_leaf_broken(r, l, "a page's checksum is another", e);
    if (p.size > RT_PQ_PAGE_LIMIT)
        return rt_fail(e, RT_INVALID, "%s: column %s: a page of %u MiB; the most is %d", r->footer.path, l->name,
                       p.size >> 20, RT_PQ_PAGE_LIMIT >> 20);
    if (data && p.values > l->left) return rt_pq_leaf_broken(r, l, "a page has more values than are left", e);
    int rc = p.kind == RT_PQ_DATA      ? begin_v1(r, l, &p, in, e)
             : p.kind == RT_PQ_DATA_V2 ? begin_v2(r, l, &p, in, e)
                                       : begin_dictionary(r, l, &p, in, e);
    return explain(r, l, rc, "a page is broken", e);
}

int rt_pq_leaf_load(rt_pq_reader *r, rt_pq_leaf *l, rt_err *e)
{
    if (l->loaded) return 1;
    while (l->page_left == 0) {
        if (l->left == 0) return 0;
        int rc = begin_page(r, l, e);
        if (rc < 0) return rc;
    }
    uint32_t rep = 0, def = 0;
    if ((l->max_rep && !rt_pq_runs_next(&l->reps, &rep)) || (l->max_def && !rt_pq_runs_next(&l->defs, &def)) ||
        rep > l->max_rep || def > l->max_def)
        return rt_pq_leaf_broken(r, l, "a page's levels are broken", e);
    l->page_left--;
    l->rep = (uint8_t)rep;
    l->def = (uint8_t)def;
    l->loaded = true;
    return 1;
}
