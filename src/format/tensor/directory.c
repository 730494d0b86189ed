/* directory.c - what every reader does: map a file, append a tensor, check where its bytes are.
 *
 * Owns: the growing arrays of an opened model and the one check of a tensor's range and size. Leaves the headers to the
 * formats' readers, and names, order and configuration to model_file.c. */
#include "format/tensor/directory.h"
#include "num/apr_quant.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_ROOM = 8 };

const rt_model_text rt_no_text = {
    .vocab = { .bos = -1, .eos = -1, .add_bos = -1, .add_eos = -1, .add_space_prefix = -1 },
    .unk = -1,
    .pad = -1,
    .eot = -1
};

/* A tensor has fewer elements than this: sizes in any type then stay below 2^63. */
#define MAX_ELEMS (UINT64_C(1) << 59)

/* Room for one more in an array of the arena that holds count elements: its capacity is the next power of two, so it is
 * full exactly when count is one. Null when out of memory. */
static void *room_for_one(rt_arena *a, const void *items, uint32_t count, size_t size)
{
    if (count > 0 && (count < FIRST_ROOM || (count & (count - 1)) != 0)) return (void *)(uintptr_t)items;
    uint64_t bytes, cap = count ? 2 * (uint64_t)count : FIRST_ROOM;
    if (cap > UINT32_MAX || !rt_mul_u64(cap, size, &bytes) || bytes > PTRDIFF_MAX) return NULL;
    void *bigger = rt_arena_alloc(a, (size_t)bytes);
    if (bigger && count > 0) memcpy(bigger, items, count * size);
    return bigger;
}

int rt_model_add_part(rt_model_file *m, const char *path, uint32_t *part, rt_err *e)
{
    rt_model_part *parts = room_for_one(&m->arena, m->parts, m->part_count, sizeof *parts);
    char *name = rt_arena_strdup(&m->arena, path);
    if (!parts || !name) return rt_no_memory(e, path);
    m->parts = parts;
    rt_model_part *p = &parts[m->part_count];
    *p = (rt_model_part){ .path = name };
    int rc = rt_map_open(&p->map, path, e);
    if (rc == RT_OK) *part = m->part_count++;
    return rc;
}

rt_tensor *rt_model_add_tensor(rt_model_file *m)
{
    rt_tensor *tensors = room_for_one(&m->arena, m->tensors, m->tensor_count, sizeof *tensors);
    if (!tensors) return NULL;
    m->tensors = tensors;
    rt_tensor *t = &tensors[m->tensor_count++];
    *t = (rt_tensor){ .role = RT_ROLE_NONE };
    return t;
}

void rt_model_note(rt_model_file *m, const char *format, ...)
{
    char text[500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char **notes = room_for_one(&m->arena, (const void *)m->notes, m->note_count, sizeof *notes);
    char *kept = rt_arena_strdup(&m->arena, rt_text_tame(text));
    if (!notes || !kept) return;
    notes[m->note_count++] = kept;
    m->notes = notes;
}

/* Elements and columns; a dimension of zero must not hide an overflow of the others. */
static bool count_elems(const rt_tensor *t, uint64_t *elems, uint64_t *cols)
{
    uint64_t n = 1;
    bool none = false;
    for (uint32_t i = 0; i < t->rank; i++) {
        if (t->shape[i] == 0) none = true;
        if (t->shape[i] != 0 && (!rt_mul_u64(n, t->shape[i], &n) || n >= MAX_ELEMS)) return false;
    }
    *cols = t->rank > 0 ? t->shape[t->rank - 1] : 1;
    *elems = none ? 0 : n;
    return true;
}

bool rt_tensor_expected_bytes(const rt_tensor *t, uint64_t *bytes)
{
    uint64_t elems, cols;
    if (t->rank > RT_MAX_RANK || !count_elems(t, &elems, &cols)) return false;
    switch (t->store) {
    case RT_STORE_PLAIN:
        if (cols % rt_dtype_table[t->dtype].block_elems != 0) return false;
        *bytes = rt_dtype_bytes(t->dtype, elems);
        return true;
    case RT_STORE_APR_Q4: *bytes = rt_apr_q4_bytes(elems); return true;
    case RT_STORE_APR_Q8: *bytes = rt_apr_q8_bytes(elems); return true;
    case RT_STORE_MERGED: break; /* no file has it */
    }
    return false;
}

/* "[2, 3]" into buf; cut with dots when it is long. */
static const char *shape_text(char *buf, size_t size, const rt_tensor *t)
{
    size_t n = (size_t)snprintf(buf, size, "[");
    for (uint32_t i = 0; i < t->rank && i < RT_MAX_RANK && n < size; i++)
        n += (size_t)snprintf(buf + n, size - n, "%s%" PRIu64, i ? ", " : "", t->shape[i]);
    if (n < size) snprintf(buf + n, size - n, "]");
    return buf;
}

int rt_model_place_tensor(rt_model_file *m, rt_tensor *t, uint32_t part, uint64_t offset, uint64_t bytes, rt_err *e)
{
    char shape[128];
    const rt_model_part *p = &m->parts[part];
    const char *name = t->file_name ? t->file_name : t->name;
    uint64_t expected;
    shape_text(shape, sizeof shape, t);
    if (!rt_tensor_expected_bytes(t, &expected)) {
        uint64_t elems, cols;
        if (t->rank > RT_MAX_RANK || !count_elems(t, &elems, &cols))
            return rt_fail(e, RT_FORMAT, "%s: tensor '%.96s' has the impossible shape %s; get the file again", p->path,
                           name, shape);
        return rt_fail(e, RT_FORMAT, "%s: tensor '%.96s' %s: rows of %" PRIu64 " do not fill whole %s blocks of %u",
                       p->path, name, shape, cols, rt_dtype_name(t->dtype), rt_dtype_table[t->dtype].block_elems);
    }
    if (bytes != expected)
        return rt_fail(e, RT_FORMAT,
                       "%s: tensor '%.96s' %s of %s takes %" PRIu64 " bytes, but the file gives it %" PRIu64
                       "; the file is damaged, get it again",
                       p->path, name, shape, rt_dtype_name(t->dtype), expected, bytes);
    if (offset > p->map.size || bytes > p->map.size - offset)
        return rt_fail(e, RT_FORMAT,
                       "%s: tensor '%.96s' lies at bytes %" PRIu64 " + %" PRIu64 ", past the end of the file (%" PRIu64
                       "); the file is cut short, get it again",
                       p->path, name, offset, bytes, p->map.size);
    t->data = p->map.data + offset;
    t->bytes = bytes;
    t->file = part;
    return RT_OK;
}

static int by_place(const void *a, const void *b)
{
    const rt_tensor *x = *(const rt_tensor *const *)a, *y = *(const rt_tensor *const *)b;
    if (x->data != y->data) return x->data < y->data ? -1 : 1;
    return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

int rt_model_check_overlap(const rt_model_file *m, uint32_t first, rt_err *e)
{
    uint32_t n = m->tensor_count - first;
    int rc = RT_OK;
    if (n < 2) return RT_OK;
    const rt_tensor **t = rt_alloc(n * sizeof *t, 16);
    if (!t) return rt_no_memory(e, m->path);
    for (uint32_t i = 0; i < n; i++) t[i] = &m->tensors[first + i];
    qsort(t, n, sizeof *t, by_place);
    for (uint32_t i = 1; i < n && rc == RT_OK; i++)
        if (t[i - 1]->data + t[i - 1]->bytes > t[i]->data)
            rc = rt_fail(e, RT_FORMAT, "%s: tensors '%.90s' and '%.90s' overlap; the file is damaged, get it again",
                         m->parts[t[i]->file].path, t[i - 1]->file_name, t[i]->file_name);
    rt_free(t);
    return rc;
}
