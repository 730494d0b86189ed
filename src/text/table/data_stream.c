/* data_stream.c - the bytes of a data file, decompressed block by block: gzip, zstd or neither, told by content.
 *
 * Owns: zlib and zstd. The file is mapped and let go of behind the reader, so memory does not grow with the file. What
 * the bytes mean is for table_csv.c and text/data. */
#define ZSTD_STATIC_LINKING_ONLY /* for an allocator of our own */
#include "text/table/data_stream.h"

#include "base/file.h"

#include <string.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { BLOCK = 256 << 10 };

typedef enum { PLAIN, GZIP, ZSTD } compression;

struct rt_data_stream {
    char *path;
    rt_map map;
    uint64_t at, released; /* in the map: read up to, let go of up to */
    compression kind;
    z_stream z;
    bool z_open;
    ZSTD_DCtx *d;
    bool inside; /* a gzip member or zstd frame has begun and not ended */
    char *block;
};

static void *z_alloc(void *ctx, unsigned items, unsigned size)
{
    (void)ctx;
    uint64_t bytes;
    return rt_mul_u64(items, size, &bytes) ? rt_alloc_zero(bytes, 16) : NULL;
}

static void z_free(void *ctx, void *p)
{
    (void)ctx;
    rt_free(p);
}

static void *d_alloc(void *ctx, size_t size)
{
    (void)ctx;
    return rt_alloc(size, 16);
}

static bool starts(const rt_map *m, const char *magic, size_t n) { return m->size >= n && !memcmp(m->data, magic, n); }

static int open_decoder(rt_data_stream *s, rt_err *e)
{
    if (s->kind == PLAIN) return RT_OK;
    s->block = rt_alloc(BLOCK, 64);
    if (!s->block) return rt_no_memory(e, s->path);
    if (s->kind == GZIP) {
        s->z.zalloc = z_alloc;
        s->z.zfree = z_free;
        if (inflateInit2(&s->z, 15 + 16) != Z_OK) return rt_no_memory(e, s->path);
        s->z_open = true;
        return RT_OK;
    }
    s->d = ZSTD_createDCtx_advanced((ZSTD_customMem){ d_alloc, z_free, NULL });
    return s->d ? RT_OK : rt_no_memory(e, s->path);
}

int rt_data_stream_open(rt_data_stream **out, const char *path, rt_err *e)
{
    int rc;
    size_t n = strlen(path) + 1;
    rt_data_stream *s = rt_alloc_zero(sizeof *s, 64);
    *out = NULL;
    if (!s || !(s->path = rt_alloc(n, 16))) {
        rt_free(s);
        return rt_no_memory(e, path);
    }
    memcpy(s->path, path, n);
    RT_TRY(rt_map_open(&s->map, path, e));
    s->kind = starts(&s->map, "\x1f\x8b", 2) ? GZIP : starts(&s->map, "\x28\xb5\x2f\xfd", 4) ? ZSTD : PLAIN;
    RT_TRY(open_decoder(s, e));
    *out = s;
    return RT_OK;
out:
    rt_data_stream_close(s);
    return rc;
}

uint64_t rt_data_stream_at(const rt_data_stream *s) { return s ? s->at : 0; }

void rt_data_stream_close(rt_data_stream *s)
{
    if (!s) return;
    if (s->z_open) inflateEnd(&s->z);
    ZSTD_freeDCtx(s->d);
    rt_map_close(&s->map);
    rt_free(s->block);
    rt_free(s->path);
    rt_free(s);
}

static int truncated(const rt_data_stream *s, rt_err *e)
{
    return rt_fail(e, RT_FORMAT, "%s: the compressed data end too early, at byte %llu of the file; fetch it again",
                   s->path, (unsigned long long)s->at);
}

static int next_gzip(rt_data_stream *s, size_t *len, rt_err *e)
{
    s->z.next_out = (Bytef *)s->block;
    s->z.avail_out = BLOCK;
    while (s->z.avail_out == BLOCK && (s->at < s->map.size || s->inside)) {
        uint64_t left = s->map.size - s->at;
        s->z.next_in = (Bytef *)(uintptr_t)(s->map.data + s->at); /* zlib does not write there */
        s->z.avail_in = left < BLOCK ? (uInt)left : BLOCK;
        uInt before = s->z.avail_in;
        s->inside = true;
        int got = inflate(&s->z, Z_NO_FLUSH);
        s->at += before - s->z.avail_in;
        if (got == Z_MEM_ERROR) return rt_no_memory(e, s->path);
        if (got == Z_STREAM_END) {
            s->inside = false; /* another member may follow */
            inflateReset(&s->z);
        } else if (got == Z_BUF_ERROR && s->at == s->map.size) {
            return truncated(s, e);
        } else if (got != Z_OK && got != Z_BUF_ERROR) {
            return rt_fail(e, RT_FORMAT, "%s: broken gzip data near byte %llu of the file: %s; fetch it again", s->path,
                           (unsigned long long)s->at, s->z.msg ? s->z.msg : "unknown");
        }
    }
    *len = BLOCK - s->z.avail_out;
    return RT_OK;
}

static int next_zstd(rt_data_stream *s, size_t *len, rt_err *e)
{
    ZSTD_outBuffer to = { s->block, BLOCK, 0 };
    while (to.pos == 0 && (s->at < s->map.size || s->inside)) {
        uint64_t left = s->map.size - s->at;
        ZSTD_inBuffer from = { s->map.data + s->at, left < BLOCK ? (size_t)left : BLOCK, 0 };
        size_t hint = ZSTD_decompressStream(s->d, &to, &from);
        s->at += from.pos;
        if (ZSTD_isError(hint)) {
            if (ZSTD_getErrorCode(hint) == ZSTD_error_memory_allocation) return rt_no_memory(e, s->path);
            return rt_fail(e, RT_FORMAT,
                           "%s: broken zstd data near byte %llu of the file: %s; fetch it again, or "
                           "compress it without --long",
                           s->path, (unsigned long long)s->at, ZSTD_getErrorName(hint));
        }
        s->inside = hint != 0;
        if (s->inside && s->at == s->map.size && from.pos == 0 && to.pos == 0) return truncated(s, e);
    }
    *len = to.pos;
    return RT_OK;
}

int rt_data_stream_next(rt_data_stream *s, const char **data, size_t *len, rt_err *e)
{
    /* The caller is done with everything that it was given before. */
    if (s->at > s->released) {
        rt_map_done_with(&s->map, s->released, s->at - s->released);
        s->released = s->at;
    }
    if (s->kind != PLAIN) {
        *data = s->block;
        return s->kind == GZIP ? next_gzip(s, len, e) : next_zstd(s, len, e);
    }
    uint64_t left = s->map.size - s->at;
    *data = (const char *)s->map.data + s->at;
    *len = left < 4 * BLOCK ? (size_t)left : 4 * BLOCK;
    s->at += *len;
    return RT_OK;
}
