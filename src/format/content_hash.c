/* content_hash.c - identity of a model: of its files' bytes, and of its values whatever they are stored in.
 *
 * Owns: the definition below, which docs/content-hash.md repeats for others. Leaves reading rows to tensor.c.
 *
 * The content hash. All integers are little-endian, all hashes XXH3-128 with seed 0, a digest inside another hash is
 * its 16 bytes in the canonical (big-endian) form, which is also the order of its hex digits.
 *
 *   values   of a tensor, in canonical row order (the order of Hugging Face), as f32. Types of up to 16 bits, quantised
 *            blocks and F32 are f32 exactly. F64 and integers of 32 and 64 bits are taken as f32 when every value of
 * the tensor is one (the same bits come back); otherwise all values of the tensor as f64 ('d') or i64 ('i'). segment
 * 2^22 consecutive values, the last one shorter: its hash is over the values' bytes. tensor   hash over:
 * "retort.tensor.1\n", kind ('f', 'd' or 'i'), u32 length of the name, the canonical name, u32 rank, rank x u64 shape,
 * u64 number of segments, the segments' digests in order. model    hash over: "retort.content.1\n", u64 number of
 * tensors, the tensors' digests sorted by name (bytes).
 *
 * Segments do not depend on threads or files, so neither does the hash; they are what cores work on, largest first. */
#include "format/model_file.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define SEGMENT (UINT64_C(1) << 22)
enum { STAGE = 16 << 10, DIGEST = 16 }; /* values converted at a time: they stay in the first caches */

typedef struct segment {
    uint32_t tensor;
    bool exact; /* all values are f32 exactly */
    uint64_t first, count;
    rt_hash128 narrow, wide; /* over f32; over f64 or i64, of types that may need them */
} segment;

typedef struct job {
    const rt_model_file *m;
    segment *segments; /* those of a tensor in order, tensors in the file's order */
    uint32_t *order;   /* largest first */
    uint32_t count;
    atomic_bool no_memory;
} job;

static void put_digest(uint8_t out[DIGEST], rt_hash128 h)
{
    for (int i = 0; i < 8; i++) {
        out[i] = (uint8_t)(h.hi >> (56 - 8 * i));
        out[8 + i] = (uint8_t)(h.lo >> (56 - 8 * i));
    }
}

static void add_le(rt_hasher *h, uint64_t v, unsigned bytes)
{
    uint8_t b[8];
    rt_store_le(b, v, bytes);
    rt_hasher_add(h, b, bytes);
}

static void add_digest(rt_hasher *h, rt_hash128 d)
{
    uint8_t b[DIGEST];
    put_digest(b, d);
    rt_hasher_add(h, b, sizeof b);
}

static void add_text(rt_hasher *h, const char *text) { rt_hasher_add(h, text, strlen(text)); }

/* The type may hold values that are no f32. */
static bool is_wide(const rt_tensor *t)
{
    return t->store == RT_STORE_PLAIN && (t->dtype == RT_DTYPE_F64 || t->dtype == RT_DTYPE_I64 ||
                                          t->dtype == RT_DTYPE_I32 || t->dtype == RT_DTYPE_U32);
}

/* ---- segments ---- */

static bool hash_narrow(segment *s, const rt_tensor *t)
{
    if (t->store == RT_STORE_PLAIN && t->dtype == RT_DTYPE_F32 && t->swap_heads == 0) {
        s->narrow = rt_hash(t->data + s->first * sizeof(float), s->count * sizeof(float));
        return true;
    }
    rt_hasher *h = rt_hasher_new();
    float *stage = h ? rt_alloc(STAGE * sizeof *stage, 64) : NULL;
    for (uint64_t at = 0; stage && at < s->count; at += STAGE) {
        uint64_t n = s->count - at < STAGE ? s->count - at : STAGE;
        rt_tensor_range_to_f32(stage, t, s->first + at, n);
        rt_hasher_add(h, stage, n * sizeof *stage);
    }
    if (stage) s->narrow = rt_hasher_digest(h);
    rt_free(stage);
    rt_hasher_free(h);
    return stage != NULL;
}

/* Value i (canonical) as the eight bytes of its wide kind and as f32; whether they are the same. */
static bool wide_value(const rt_tensor *t, uint64_t i, uint64_t *wide, float *narrow)
{
    uint64_t cols = rt_tensor_cols(t), at = i;
    if (t->swap_heads != 0)
        at = t->rank == 1 ? rt_tensor_stored_row(t, i) : rt_tensor_stored_row(t, i / cols) * cols + i % cols;
    if (t->dtype == RT_DTYPE_F64) {
        double v, back;
        memcpy(&v, t->data + at * sizeof v, sizeof v);
        *narrow = (float)v;
        back = (double)*narrow;
        memcpy(wide, &v, sizeof v);
        return memcmp(&back, &v, sizeof v) == 0;
    }
    int64_t v = rt_tensor_int(t->data, t->dtype, at);
    memcpy(wide, &v, sizeof v);
    *narrow = (float)v;
    /* 2^63 is the one f32 that an i64 may round to and not come back from. */
    return *narrow < 0x1p63f && (int64_t)*narrow == v;
}

static bool hash_wide(segment *s, const rt_tensor *t)
{
    enum { N = STAGE / 4 };
    rt_hasher *narrow = rt_hasher_new(), *wide = rt_hasher_new();
    uint64_t *values = rt_alloc(N * sizeof *values, 64);
    float *floats = rt_alloc(N * sizeof *floats, 64);
    bool ok = narrow && wide && values && floats;
    s->exact = true;
    for (uint64_t at = 0; ok && at < s->count; at += N) {
        uint64_t n = s->count - at < N ? s->count - at : N;
        for (uint64_t i = 0; i < n; i++)
            if (!wide_value(t, s->first + at + i, &values[i], &floats[i])) s->exact = false;
        rt_hasher_add(narrow, floats, n * sizeof *floats);
        rt_hasher_add(wide, values, n * sizeof *values);
    }
    if (ok) {
        s->narrow = rt_hasher_digest(narrow);
        s->wide = rt_hasher_digest(wide);
    }
    rt_free(floats);
    rt_free(values);
    rt_hasher_free(wide);
    rt_hasher_free(narrow);
    return ok;
}

static void hash_segment(void *ctx, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    job *j = ctx;
    segment *s = &j->segments[j->order[chunk]];
    const rt_tensor *t = &j->m->tensors[s->tensor];
    s->exact = true;
    if (!(is_wide(t) ? hash_wide(s, t) : hash_narrow(s, t))) atomic_store(&j->no_memory, true);
    rt_model_file_done_with_part(j->m, t, s->first, s->count);
}

/* ---- tensors and the model ---- */

static rt_hash128 tensor_hash(rt_hasher *h, const rt_tensor *t, const segment *s, uint64_t count)
{
    bool exact = true;
    for (uint64_t i = 0; i < count; i++) exact &= s[i].exact;
    const char *kind = exact ? "f" : t->dtype == RT_DTYPE_F64 ? "d" : "i";
    add_text(h, "retort.tensor.1\n");
    add_text(h, kind);
    add_le(h, (uint32_t)strlen(t->name), 4);
    add_text(h, t->name);
    add_le(h, t->rank, 4);
    for (uint32_t i = 0; i < t->rank; i++) add_le(h, t->shape[i], 8);
    add_le(h, count, 8);
    for (uint64_t i = 0; i < count; i++) add_digest(h, exact ? s[i].narrow : s[i].wide);
    return rt_hasher_digest(h);
}

static int combine(const job *j, rt_hash128 *out, rt_hash128 *each, rt_err *e)
{
    const rt_model_file *m = j->m;
    rt_hasher *model = rt_hasher_new();
    bool ok = model != NULL;
    if (ok) {
        add_text(model, "retort.content.1\n");
        add_le(model, m->tensor_count, 8);
    }
    uint32_t first = 0, end = 0;
    for (uint32_t i = 0; ok && i < m->tensor_count; i++, first = end) {
        rt_hasher *h = rt_hasher_new();
        ok = h != NULL;
        while (end < j->count && j->segments[end].tensor == i) end++;
        if (ok) {
            const segment *s = end > first ? &j->segments[first] : NULL;
            rt_hash128 digest = tensor_hash(h, &m->tensors[i], s, end - first);
            add_digest(model, digest);
            if (each) each[i] = digest;
        }
        rt_hasher_free(h);
    }
    if (ok) *out = rt_hasher_digest(model);
    rt_hasher_free(model);
    return ok ? RT_OK : rt_no_memory(e, m->path);
}

static int larger_first(const void *a, const void *b, void *ctx)
{
    const job *j = ctx;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint64_t n = j->segments[x].count, m = j->segments[y].count;
    if (n != m) return n > m ? -1 : 1;
    return (x > y) - (x < y);
}

/* The segments of all tensors; an empty tensor has none. */
static int cut(job *j, rt_err *e)
{
    const rt_model_file *m = j->m;
    uint64_t count = 0;
    for (uint32_t i = 0; i < m->tensor_count; i++) count += (rt_tensor_elems(&m->tensors[i]) + SEGMENT - 1) / SEGMENT;
    if (count > UINT32_MAX) return rt_fail(e, RT_INVALID, "%s is too large to hash", m->path);
    if (count == 0) return RT_OK;
    j->segments = rt_alloc_zero(count * sizeof *j->segments, 64);
    j->order = rt_alloc(count * sizeof *j->order, 64);
    if (!j->segments || !j->order) return rt_no_memory(e, m->path);
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        uint64_t elems = rt_tensor_elems(&m->tensors[i]);
        for (uint64_t at = 0; at < elems; at += SEGMENT) {
            uint64_t n = elems - at < SEGMENT ? elems - at : SEGMENT;
            j->order[j->count] = j->count;
            j->segments[j->count++] = (segment){ .tensor = i, .first = at, .count = n };
        }
    }
    qsort_r(j->order, j->count, sizeof *j->order, larger_first, j);
    return RT_OK;
}

int rt_model_content_hash(const rt_model_file *m, rt_pool *pool, rt_hash128 *out, rt_hash128 *each, rt_err *e)
{
    int rc;
    job j = { .m = m };
    RT_TRY(cut(&j, e));
    rt_pool_run(pool, j.count, hash_segment, &j);
    rt_model_file_done_with_all(m);
    if (atomic_load(&j.no_memory))
        rc = rt_no_memory(e, m->path);
    else
        rc = combine(&j, out, each, e);
out:
    rt_free(j.order);
    rt_free(j.segments);
    return rc;
}

/* ---- files ---- */

typedef struct file_job {
    const rt_model_file *m;
    uint8_t (*digests)[DIGEST]; /* one per part */
    rt_hash128 only;            /* of the first part */
} file_job;

static void hash_part(void *ctx, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    file_job *j = ctx;
    const rt_map *map = &j->m->parts[chunk].map;
    rt_hash128 h = rt_hash(map->data, map->size);
    put_digest(j->digests[chunk], h);
    if (chunk == 0) j->only = h;
}

int rt_model_file_hash(const rt_model_file *m, rt_pool *pool, rt_hash128 *out, rt_err *e)
{
    file_job j = { .m = m };
    if (m->part_count == 0) {
        *out = rt_hash("", 0);
        return RT_OK;
    }
    j.digests = rt_alloc(m->part_count * sizeof *j.digests, 16);
    if (!j.digests) return rt_no_memory(e, m->path);
    rt_pool_run(pool, m->part_count, hash_part, &j);
    rt_model_file_done_with_all(m);
    *out = m->part_count == 1 ? j.only : rt_hash(j.digests, m->part_count * sizeof *j.digests);
    rt_free(j.digests);
    return RT_OK;
}
