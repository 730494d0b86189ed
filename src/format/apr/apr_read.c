/* apr_read.c - reads APR v2: header, index of tensors, footer.
 *
 * Owns: every check of the container. A file comes from a stranger: ranges are checked without overflow before anything
 * is read through them, and nothing is allocated by a number that the file alone vouches for. Leaves the metadata to
 * apr_meta.c and the meaning of sizes to rt_model_place_tensor. */
#include "base/json.h"
#include "base/utf8.h"
#include "format/apr/apr.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

typedef struct apr_header {
    uint16_t flags;
    uint32_t tensor_count;
    uint64_t meta, meta_size, index, data;
} apr_header;

bool rt_apr_is(const rt_map *map)
{
    return map->size >= 4 && (memcmp(map->data, "APR\0", 4) == 0 || memcmp(map->data, "APRN", 4) == 0);
}

uint32_t rt_apr_header_crc(const uint8_t header[RT_APR_HEADER])
{
    uLong crc = crc32_z(0, header, RT_APR_AT_CRC);
    return (uint32_t)crc32_z(crc, header + RT_APR_AT_REST, RT_APR_HEADER - RT_APR_AT_REST);
}

/* 8 and 9 are what old files have for 128 and 129. */
static const struct {
    uint8_t id;
    rt_dtype dtype;
    rt_store store;
} types[] = {
    { 0, RT_DTYPE_F32, RT_STORE_PLAIN },    { 1, RT_DTYPE_F16, RT_STORE_PLAIN },
    { 30, RT_DTYPE_BF16, RT_STORE_PLAIN },  { 3, RT_DTYPE_F64, RT_STORE_PLAIN },
    { 4, RT_DTYPE_I32, RT_STORE_PLAIN },    { 5, RT_DTYPE_I64, RT_STORE_PLAIN },
    { 6, RT_DTYPE_I8, RT_STORE_PLAIN },     { 7, RT_DTYPE_U8, RT_STORE_PLAIN },
    { 12, RT_DTYPE_Q4_K, RT_STORE_PLAIN },  { 14, RT_DTYPE_Q6_K, RT_STORE_PLAIN },
    { 128, RT_DTYPE_F32, RT_STORE_APR_Q4 }, { 8, RT_DTYPE_F32, RT_STORE_APR_Q4 },
    { 129, RT_DTYPE_F32, RT_STORE_APR_Q8 }, { 9, RT_DTYPE_F32, RT_STORE_APR_Q8 },
};
enum { TYPES = sizeof types / sizeof types[0] };

bool rt_apr_type_of(uint8_t id, rt_dtype *dtype, rt_store *store)
{
    for (int i = 0; i < TYPES; i++) {
        if (types[i].id != id) continue;
        *dtype = types[i].dtype;
        *store = types[i].store;
        return true;
    }
    return false;
}

bool rt_apr_id_of(rt_dtype dtype, uint8_t *id)
{
    for (int i = 0; i < TYPES; i++) {
        if (types[i].dtype != dtype || types[i].store != RT_STORE_PLAIN) continue;
        *id = types[i].id;
        return true;
    }
    return false;
}

/* ---- header ---- */

static int check_flags(const char *path, uint16_t flags, rt_err *e)
{
    static const struct {
        uint16_t flag;
        const char *what, *remedy;
    } refused[] = {
        { RT_APR_LZ4, "is marked as compressed (LZ4)", "write it again without compression" },
        { RT_APR_ZSTD, "is marked as compressed (zstd)", "write it again without compression" },
        { RT_APR_ENCRYPTED, "is encrypted", "decrypt it with the tool that wrote it" },
        { RT_APR_SHARDED, "is one shard of several", "join the shards with the tool that wrote them" },
        { RT_APR_COLUMN_MAJOR, "stores its matrices by column", "write it again by row" },
    };
    for (size_t i = 0; i < sizeof refused / sizeof refused[0]; i++)
        if (flags & refused[i].flag)
            return rt_fail(e, RT_UNSUPPORTED, "%s: the APR file %s, which is not supported; %s", path, refused[i].what,
                           refused[i].remedy);
    return RT_OK;
}

static int check_sections(const char *path, const apr_header *h, uint64_t size, rt_err *e)
{
    uint64_t meta_end;
    if (h->meta_size > RT_APR_MAX_META)
        return rt_fail(e, RT_FORMAT, "%s: the size of its metadata %llu is out of range (0 to %d)", path,
                       (unsigned long long)h->meta_size, RT_APR_MAX_META);
    if (h->meta < RT_APR_HEADER || !rt_add_u64(h->meta, h->meta_size, &meta_end) || meta_end > h->index ||
        h->index > h->data || h->data > size - RT_APR_FOOTER)
        return rt_fail(e, RT_FORMAT,
                       "%s: metadata (%llu + %llu), index (%llu) and data (%llu) are not in this order inside a file "
                       "of %llu bytes; it is cut short or damaged, copy it again",
                       path, (unsigned long long)h->meta, (unsigned long long)h->meta_size,
                       (unsigned long long)h->index, (unsigned long long)h->data, (unsigned long long)size);
    if (h->data % RT_APR_ALIGN != 0)
        return rt_fail(e, RT_FORMAT, "%s: tensor data begin at %llu, which is not a multiple of 64", path,
                       (unsigned long long)h->data);
    return RT_OK;
}

static int read_header(apr_header *h, const char *path, const rt_map *map, rt_err *e)
{
    const uint8_t *p = map->data;
    if (map->size >= 4 && memcmp(p, "APRN", 4) == 0)
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s: an APR file of version 1 (APRN), which is not supported; convert it to version 2 with the "
                       "tool that wrote it, or begin from the model it was made from",
                       path);
    if (map->size < RT_APR_HEADER + RT_APR_FOOTER)
        return rt_fail(e, RT_FORMAT, "%s: %llu bytes are too few for an APR file; it is cut short, copy it again", path,
                       (unsigned long long)map->size);
    if (memcmp(p, "APR\0", 4) != 0)
        return rt_fail(e, RT_FORMAT, "%s: not an APR file: it begins with %02x %02x %02x %02x", path, p[0], p[1], p[2],
                       p[3]);
    uint32_t stored = (uint32_t)rt_load_le(p + RT_APR_AT_CRC, 4), found = rt_apr_header_crc(p);
    if (stored != found)
        return rt_fail(e, RT_FORMAT,
                       "%s: the header's CRC is %08x, but its bytes give %08x; the file is damaged, copy it again",
                       path, stored, found);
    if (p[RT_APR_AT_MAJOR] != 2)
        return rt_fail(e, RT_UNSUPPORTED, "%s: an APR file of version %u.%u; version 2 is supported", path,
                       p[RT_APR_AT_MAJOR], p[RT_APR_AT_MINOR]);
    *h = (apr_header){ .flags = (uint16_t)rt_load_le(p + RT_APR_AT_FLAGS, 2),
                       .tensor_count = (uint32_t)rt_load_le(p + RT_APR_AT_COUNT, 4),
                       .meta = rt_load_le(p + RT_APR_AT_META, 8),
                       .meta_size = rt_load_le(p + RT_APR_AT_META_SIZE, 4),
                       .index = rt_load_le(p + RT_APR_AT_INDEX, 8),
                       .data = rt_load_le(p + RT_APR_AT_DATA, 8) };
    int rc;
    RT_TRY(check_flags(path, h->flags, e));
    RT_TRY(check_sections(path, h, map->size, e));
out:
    return rc;
}

/* ---- index ---- */

/* What is left of the index: entries are read from its front. */
typedef struct apr_cursor {
    const char *path;
    const uint8_t *p;
    uint64_t left;
    uint32_t entry;
} apr_cursor;

static int need(const apr_cursor *c, uint64_t bytes, rt_err *e)
{
    if (c->left >= bytes) return RT_OK;
    return rt_fail(e, RT_FORMAT, "%s: the index of tensors ends inside entry %u; the file is cut short or damaged",
                   c->path, c->entry);
}

static uint64_t next(apr_cursor *c, unsigned bytes)
{
    uint64_t v = rt_load_le(c->p, bytes);
    c->p += bytes;
    c->left -= bytes;
    return v;
}

/* Of a tensor's role: the name that the house gives it, where it is one that the house knows, also by GGUF's name. */
static int name_tensor(rt_model_file *m, rt_tensor *t, rt_err *e)
{
    char name[RT_NAME_BYTES];
    t->name = t->file_name;
    t->role = rt_role_of_hf(t->file_name, &t->layer);
    if (t->role != RT_ROLE_NONE) return RT_OK;
    t->role = rt_role_of_gguf(t->file_name, &t->layer);
    if (t->role == RT_ROLE_NONE) return RT_OK;
    t->name = rt_arena_strdup(&m->arena, rt_role_hf_name(name, t->role, t->layer));
    return t->name ? RT_OK : rt_no_memory(e, m->parts[0].path);
}

static int read_name(rt_model_file *m, apr_cursor *c, const char **out, rt_err *e)
{
    int rc;
    RT_TRY(need(c, 2, e));
    uint64_t len = next(c, 2);
    if (len == 0 || len > RT_APR_MAX_NAME)
        return rt_fail(e, RT_FORMAT, "%s: the name of tensor %u has %llu bytes; names have 1 to 256", c->path, c->entry,
                       (unsigned long long)len);
    RT_TRY(need(c, len, e));
    const char *text = (const char *)c->p;
    if (memchr(text, 0, len) || rt_utf8_valid(text, len) != len)
        return rt_fail(e, RT_FORMAT, "%s: the name of tensor %u is not valid UTF-8 text", c->path, c->entry);
    if (!(*out = rt_span_copy(&m->arena, text, len).data)) return rt_no_memory(e, c->path);
    c->p += len;
    c->left -= len;
out:
    return rc;
}

static int read_entry(rt_model_file *m, apr_cursor *c, uint64_t *offset, uint64_t *bytes, rt_tensor *t, rt_err *e)
{
    int rc;
    RT_TRY(read_name(m, c, &t->file_name, e));
    RT_TRY(need(c, 2, e));
    uint8_t type = (uint8_t)next(c, 1);
    t->rank = (uint32_t)next(c, 1);
    if (!rt_apr_type_of(type, &t->dtype, &t->store))
        return rt_fail(e, RT_FORMAT, "%s: tensor '%s' has type %u, which APR version 2 does not have", c->path,
                       t->file_name, type);
    if (t->rank > RT_MAX_RANK)
        return rt_fail(e, RT_FORMAT, "%s: tensor '%s' has %u dimensions; at most 8 are allowed", c->path, t->file_name,
                       t->rank);
    RT_TRY(need(c, 8 * (uint64_t)t->rank + 16, e));
    for (uint32_t i = 0; i < t->rank; i++) {
        t->shape[i] = next(c, 8);
        if (t->shape[i] == 0)
            return rt_fail(e, RT_FORMAT, "%s: tensor '%s' has a dimension of 0", c->path, t->file_name);
    }
    *offset = next(c, 8);
    *bytes = next(c, 8);
    if (*offset % RT_APR_ALIGN != 0)
        return rt_fail(e, RT_FORMAT, "%s: tensor '%s' begins at %llu of the data, which is not a multiple of 64",
                       c->path, t->file_name, (unsigned long long)*offset);
    RT_TRY(name_tensor(m, t, e));
out:
    return rc;
}

/* The last four bytes of the file are no tensor's. */
static int check_end(const char *path, const char *name, uint64_t size, uint64_t data, uint64_t offset, uint64_t bytes,
                     rt_err *e)
{
    uint64_t end;
    if (rt_add_u64(offset, bytes, &end) && rt_add_u64(end, data, &end) && end <= size - RT_APR_FOOTER) return RT_OK;
    return rt_fail(e, RT_FORMAT,
                   "%s: tensor '%s' (%llu bytes at %llu of the data) reaches past the end of the file (%llu bytes); it "
                   "is cut short, copy it again",
                   path, name, (unsigned long long)bytes, (unsigned long long)offset, (unsigned long long)size);
}

static int read_index(rt_model_file *m, uint32_t part, const apr_header *h, rt_err *e)
{
    enum { LEAST = 2 + 1 + 1 + 1 + 8 + 8 }; /* bytes of an entry */
    const rt_map *map = &m->parts[part].map;
    apr_cursor c = { m->parts[part].path, map->data + h->index, h->data - h->index, 0 };
    const char *before = "";
    uint32_t first = m->tensor_count;
    int rc = RT_OK;
    if (h->tensor_count > c.left / LEAST)
        return rt_fail(e, RT_FORMAT, "%s: %u tensors do not fit into an index of %llu bytes; the header is wrong",
                       c.path, h->tensor_count, (unsigned long long)c.left);
    for (; c.entry < h->tensor_count; c.entry++) {
        uint64_t offset = 0, bytes = 0;
        rt_tensor *t = rt_model_add_tensor(m);
        if (!t) return rt_no_memory(e, c.path);
        RT_TRY(read_entry(m, &c, &offset, &bytes, t, e));
        if (strcmp(before, t->file_name) >= 0)
            return rt_fail(e, RT_FORMAT,
                           "%s: the index of tensors is not sorted, or names one twice: '%s' follows '%s'", c.path,
                           t->file_name, before);
        before = t->file_name;
        RT_TRY(check_end(c.path, t->file_name, map->size, h->data, offset, bytes, e));
        RT_TRY(rt_model_place_tensor(m, t, part, h->data + offset, bytes, e));
    }
    rc = rt_model_check_overlap(m, first, e);
out:
    return rc;
}

/* ---- the file ---- */

static int swap_rows(rt_model_file *m, rt_err *e)
{
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        rt_tensor *t = &m->tensors[i];
        if (t->role != RT_ROLE_NONE) t->swap_heads = rt_role_swap_heads(&m->config, t->role);
        if (t->swap_heads == 0) continue;
        uint64_t rows = t->rank == 1 ? t->shape[0] : rt_tensor_rows(t);
        if (rows % (2 * (uint64_t)t->swap_heads) != 0)
            return rt_fail(e, RT_FORMAT, "%s: tensor '%s' has %llu rows, which %u heads of an even width do not divide",
                           m->parts[0].path, t->file_name, (unsigned long long)rows, t->swap_heads);
    }
    return RT_OK;
}

int rt_apr_read(rt_model_file *m, uint32_t part, rt_err *e)
{
    const char *path = m->parts[part].path;
    const uint8_t *data = m->parts[part].map.data;
    apr_header h = { 0 };
    bool adjacent = false;
    int rc;
    m->container = RT_CONTAINER_APR;
    RT_TRY(read_header(&h, path, &m->parts[part].map, e));
    RT_TRY(read_index(m, part, &h, e));
    RT_TRY(rt_apr_meta_read(m, (const char *)data + h.meta, (size_t)h.meta_size, &adjacent, e));
    if (adjacent) RT_TRY(swap_rows(m, e));
out:
    return rc;
}

/* ---- footer ---- */

enum { CRC_CHUNK = 8 << 20 };

typedef struct crc_job {
    const uint8_t *data;
    uint64_t size;
    uint32_t *crc; /* (chunks) */
} crc_job;

static void crc_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    crc_job *job = ctx;
    uint64_t begin = (uint64_t)chunk * CRC_CHUNK, left = job->size - begin;
    (void)worker;
    job->crc[chunk] = (uint32_t)crc32_z(0, job->data + begin, left < CRC_CHUNK ? (size_t)left : (size_t)CRC_CHUNK);
}

int rt_apr_check_footer(const rt_model_file *m, rt_pool *pool, rt_err *e)
{
    const rt_map *map = &m->parts[0].map;
    crc_job job = { .data = map->data, .size = map->size - RT_APR_FOOTER };
    uint64_t chunks = (job.size + CRC_CHUNK - 1) / CRC_CHUNK;
    job.crc = chunks < UINT32_MAX ? rt_alloc((size_t)chunks * sizeof *job.crc, 16) : NULL;
    if (!job.crc) return rt_no_memory(e, m->parts[0].path);
    if (pool)
        rt_pool_run(pool, (uint32_t)chunks, crc_chunk, &job);
    else
        for (uint32_t i = 0; i < chunks; i++) crc_chunk(&job, i, 0);
    uLong crc = job.crc[0];
    for (uint64_t i = 1; i < chunks; i++) {
        uint64_t left = job.size - i * CRC_CHUNK;
        crc = crc32_combine(crc, job.crc[i], (z_off_t)(left < CRC_CHUNK ? left : (uint64_t)CRC_CHUNK));
    }
    rt_free(job.crc);
    uint32_t stored = (uint32_t)rt_load_le(map->data + job.size, 4);
    if (stored == (uint32_t)crc) return RT_OK;
    return rt_fail(e, RT_FORMAT,
                   "%s: the footer's CRC is %08x, but the file's bytes give %08x; the file is damaged or was not "
                   "written to its end, copy it again",
                   m->parts[0].path, stored, (unsigned)crc);
}
