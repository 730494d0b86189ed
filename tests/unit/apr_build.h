/* apr_build.h - APR v2 files put together by hand, independently of the library's writer, for tests and fuzzing. */
#ifndef RT_TESTS_APR_BUILD_H
#define RT_TESTS_APR_BUILD_H

#include <stdint.h>
#include <string.h>

#include <zlib.h>

enum { APR_ROOM = 1 << 16 };

typedef struct apr_build_tensor {
    const char *name;
    uint8_t type;
    uint8_t rank;
    uint64_t shape[8];
    const void *data;
    uint64_t bytes;
} apr_build_tensor;

typedef struct apr_build {
    uint8_t bytes[APR_ROOM];
    size_t size, index, data; /* where these begin */
} apr_build;

static inline void apr_put(uint8_t *p, uint64_t v, unsigned n)
{
    for (unsigned i = 0; i < n; i++) p[i] = (uint8_t)(v >> 8 * i);
}

static inline void apr_add(apr_build *b, const void *data, size_t n)
{
    memcpy(b->bytes + b->size, data, n);
    b->size += n;
}

static inline void apr_add_number(apr_build *b, uint64_t v, unsigned n)
{
    apr_put(b->bytes + b->size, v, n);
    b->size += n;
}

static inline void apr_pad(apr_build *b) { b->size = (b->size + 63) / 64 * 64; }

/* The header's CRC, and when the file is whole the footer's. */
static inline void apr_fix_header(uint8_t *p)
{
    uLong crc = crc32(crc32(0, p, 40), p + 44, 20);
    apr_put(p + 40, crc, 4);
}

static inline void apr_fix_footer(uint8_t *p, size_t size) { apr_put(p + size - 4, crc32(0, p, (uInt)(size - 4)), 4); }

static inline void apr_make(apr_build *b, const char *meta, const apr_build_tensor *t, uint32_t count)
{
    uint64_t offset = 0;
    memset(b, 0, sizeof *b);
    b->size = 64;
    apr_add(b, meta, strlen(meta));
    apr_pad(b);
    b->index = b->size;
    for (uint32_t i = 0; i < count; i++) {
        apr_add_number(b, strlen(t[i].name), 2);
        apr_add(b, t[i].name, strlen(t[i].name));
        apr_add_number(b, t[i].type, 1);
        apr_add_number(b, t[i].rank, 1);
        for (int d = 0; d < t[i].rank; d++) apr_add_number(b, t[i].shape[d], 8);
        apr_add_number(b, offset, 8);
        apr_add_number(b, t[i].bytes, 8);
        offset += (t[i].bytes + 63) / 64 * 64;
    }
    apr_pad(b);
    b->data = b->size;
    for (uint32_t i = 0; i < count; i++) {
        if (t[i].data) memcpy(b->bytes + b->size, t[i].data, t[i].bytes);
        b->size += t[i].bytes;
        apr_pad(b);
    }
    memcpy(b->bytes, "APR\0\2\0", 6);
    apr_put(b->bytes + 6, 0x400, 2);
    apr_put(b->bytes + 8, count, 4);
    apr_put(b->bytes + 12, 64, 8);
    apr_put(b->bytes + 20, strlen(meta), 4);
    apr_put(b->bytes + 24, b->index, 8);
    apr_put(b->bytes + 32, b->data, 8);
    apr_fix_header(b->bytes);
    b->size += 4;
    apr_fix_footer(b->bytes, b->size);
}

#endif
