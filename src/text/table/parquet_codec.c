/* parquet_codec.c - pages decompressed: snappy by a decoder of our own, the others by their libraries.
 *
 * Owns: libdeflate, zstd, LZ4 and brotli as Parquet uses them, one whole page at a time into a buffer of the size that
 * its header says; for whole buffers libdeflate is twice as fast as zlib. The library of snappy is C++ and would bring
 * the run-time library of that into the binary. */
#define ZSTD_STATIC_LINKING_ONLY /* for an allocator of our own */
#include "text/table/table_internal.h"

#include <brotli/decode.h>
#include <libdeflate.h>
#include <lz4.h>
#include <pthread.h>
#include <string.h>
#include <zstd.h>
#include <zstd_errors.h>

enum { UNCOMPRESSED, SNAPPY, GZIP, LZO, BROTLI, LZ4, ZSTD, LZ4_RAW, CODECS };

struct rt_pq_codecs {
    struct libdeflate_decompressor *g;
    ZSTD_DCtx *d;
};

int rt_pq_codecs_new(rt_pq_codecs **out, rt_err *e)
{
    *out = rt_alloc_zero(sizeof **out, 64);
    return *out ? RT_OK : rt_no_memory(e, "a decompressor");
}

void rt_pq_codecs_free(rt_pq_codecs *c)
{
    if (!c) return;
    if (c->g) libdeflate_free_decompressor(c->g);
    ZSTD_freeDCtx(c->d);
    rt_free(c);
}

const char *rt_pq_codec_name(int codec)
{
    static const char *const names[CODECS] = { "UNCOMPRESSED", "SNAPPY", "GZIP", "LZO",
                                               "BROTLI",       "LZ4",    "ZSTD", "LZ4_RAW" };
    return codec >= 0 && codec < CODECS ? names[codec] : NULL;
}

bool rt_pq_codec_known(int codec) { return codec >= 0 && codec < CODECS && codec != LZO && codec != LZ4; }

/* ---- memory ---- */

static void *some(void *ctx, size_t bytes)
{
    (void)ctx;
    return rt_alloc(bytes, 16);
}

static void *plain_some(size_t bytes) { return rt_alloc(bytes, 16); }

static void back(void *ctx, void *p)
{
    (void)ctx;
    rt_free(p);
}

/* ---- snappy ---- */

/* Copies n bytes, at most 64, from `distance` before `to`, which may overlap with what is written. Up to 15 bytes more
 * are written, which are overwritten later or lie in the slack. */
static void copy_back(uint8_t *to, size_t distance, size_t n)
{
    const uint8_t *from = to - distance;
    if (distance >= 8) {
        for (size_t i = 0; i < n; i += 16) {
            memcpy(to + i, from + i, 8);
            memcpy(to + i + 8, from + i + 8, 8);
        }
    } else {
        for (size_t i = 0; i < n; i++) to[i] = from[i];
    }
}

/* Length and distance of the copy whose tag byte is `tag` and whose other bytes begin at *in. False: they are missing.
 */
static bool take_copy(uint8_t tag, const uint8_t **in, const uint8_t *end, size_t *n, size_t *distance)
{
    const uint8_t *p = *in;
    size_t bytes = (tag & 3) == 3 ? 4 : tag & 3;
    if ((size_t)(end - p) < bytes) return false;
    *in += bytes;
    *n = (tag >> 2) + 1;
    if (bytes == 1) {
        *n = (tag >> 2 & 7) + 4;
        *distance = (size_t)(tag >> 5) << 8 | p[0];
    } else {
        *distance = p[0] | (size_t)p[1] << 8;
        if (bytes == 4) *distance |= (size_t)p[2] << 16 | (size_t)p[3] << 24;
    }
    return true;
}

static bool take_literal(uint8_t tag, const uint8_t **in, const uint8_t *end, size_t *n)
{
    *n = (tag >> 2) + 1;
    if (*n <= 60) return true;
    unsigned bytes = (unsigned)*n - 60;
    if ((size_t)(end - *in) < bytes) return false;
    *n = rt_load_le(*in, bytes) + 1;
    *in += bytes;
    return true;
}

static bool snappy(const uint8_t *in, size_t in_size, uint8_t *out, size_t size)
{
    const uint8_t *end = in + in_size;
    uint8_t *to = out, *out_end = out + size;
    uint64_t told = 0;
    for (unsigned shift = 0;; shift += 7) {
        if (in == end || shift > 28) return false;
        told |= (uint64_t)(*in & 0x7F) << shift;
        if (*in++ < 0x80) break;
    }
    if (told != size) return false;
    while (in < end) {
        uint8_t tag = *in++;
        size_t n, distance, left = (size_t)(out_end - to);
        if ((tag & 3) == 0) {
            if (!take_literal(tag, &in, end, &n) || n > left || n > (size_t)(end - in)) return false;
            if (n <= 16 && end - in >= 16) /* what is copied too much is overwritten, or lies in the slack */
                memcpy(to, in, 16);
            else
                memcpy(to, in, n);
            in += n;
        } else {
            if (!take_copy(tag, &in, end, &n, &distance) || n > left) return false;
            if (distance == 0 || distance > (size_t)(to - out)) return false;
            copy_back(to, distance, n);
        }
        to += n;
    }
    return to == out_end;
}

/* ---- the others ---- */

static void set_allocator(void) { libdeflate_set_memory_allocator(plain_some, rt_free); }

static int gzip(rt_pq_codecs *c, const uint8_t *in, size_t in_size, uint8_t *out, size_t size, rt_err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_allocator);
    if (!c->g) c->g = libdeflate_alloc_decompressor();
    if (!c->g) return rt_no_memory(e, "a decompressor");
    do { /* one member after another */
        size_t taken, given;
        if (libdeflate_gzip_decompress_ex(c->g, in, in_size, out, size, &taken, &given) != LIBDEFLATE_SUCCESS)
            return RT_FORMAT;
        in += taken;
        in_size -= taken;
        out += given;
        size -= given;
    } while (in_size > 0);
    return size == 0 ? RT_OK : RT_FORMAT;
}

static int zstd(rt_pq_codecs *c, const uint8_t *in, size_t in_size, uint8_t *out, size_t size, rt_err *e)
{
    if (!c->d) c->d = ZSTD_createDCtx_advanced((ZSTD_customMem){ some, back, NULL });
    if (!c->d) return rt_no_memory(e, "a decompressor");
    size_t got = ZSTD_decompressDCtx(c->d, out, size, in, in_size);
    if (ZSTD_getErrorCode(got) == ZSTD_error_memory_allocation) return rt_no_memory(e, "a decompressor");
    return got == size ? RT_OK : RT_FORMAT;
}

static int brotli(const uint8_t *in, size_t in_size, uint8_t *out, size_t size, rt_err *e)
{
    BrotliDecoderState *s = BrotliDecoderCreateInstance(some, back, NULL);
    if (!s) return rt_no_memory(e, "a decompressor");
    size_t left = size;
    BrotliDecoderResult got = BrotliDecoderDecompressStream(s, &in_size, &in, &left, &out, NULL);
    BrotliDecoderErrorCode why = BrotliDecoderGetErrorCode(s);
    BrotliDecoderDestroyInstance(s);
    if (got == BROTLI_DECODER_RESULT_SUCCESS && left == 0 && in_size == 0) return RT_OK;
    bool memory = why <= BROTLI_DECODER_ERROR_ALLOC_CONTEXT_MODES && why >= BROTLI_DECODER_ERROR_ALLOC_BLOCK_TYPE_TREES;
    return got == BROTLI_DECODER_RESULT_ERROR && memory ? rt_no_memory(e, "a decompressor") : RT_FORMAT;
}

int rt_pq_decompress(rt_pq_codecs *c, int codec, const uint8_t *in, size_t in_size, uint8_t *out, size_t size,
                     rt_err *e)
{
    bool ok;
    switch (codec) {
    case SNAPPY: ok = snappy(in, in_size, out, size); break;
    case LZ4_RAW: ok = LZ4_decompress_safe((const char *)in, (char *)out, (int)in_size, (int)size) == (int)size; break;
    case GZIP: return gzip(c, in, in_size, out, size, e);
    case ZSTD: return zstd(c, in, in_size, out, size, e);
    case BROTLI: return brotli(in, in_size, out, size, e);
    default:
        ok = in_size == size;
        if (ok && size) memcpy(out, in, size);
    }
    return ok ? RT_OK : RT_FORMAT;
}
