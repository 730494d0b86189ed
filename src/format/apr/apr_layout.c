/* apr_layout.c - the bytes of an APR v2 output before its tensors, and where each tensor goes.
 *
 * Owns: header, index, alignment. Tensors lie in the order in which they are given, so that writing goes from front to
 * back; the index is sorted by name, as readers demand. Leaves the metadata to apr_meta_write.c, and filling the file
 * and its footer to model_write.c. */
#include "format/apr/apr.h"

#include <stdlib.h>
#include <string.h>

typedef struct entry {
    char name[RT_NAME_BYTES];
    uint8_t type;
    uint32_t rank;
    uint64_t shape[2], offset, bytes; /* offset in the data */
} entry;

static void append_le(rt_str *s, uint64_t value, unsigned bytes)
{
    char buf[8];
    rt_store_le(buf, value, bytes);
    rt_str_append_n(s, buf, bytes);
}

static void pad(rt_str *s)
{
    static const char zeroes[RT_APR_ALIGN];
    rt_str_append_n(s, zeroes, (size_t)(rt_align_up(s->len, RT_APR_ALIGN) - s->len));
}

static int by_name(const void *a, const void *b)
{
    const entry *const *x = a, *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static int fill_entries(const rt_model_out *o, entry *entries, uint64_t *size, bool *quantized, rt_err *e)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < o->tensor_count; i++) {
        const rt_out_tensor *t = &o->tensors[i];
        entry *n = &entries[i];
        uint64_t shape[2] = { 1, 1 };
        n->rank = rt_role_shape(o->config, t->role, shape);
        memcpy(n->shape, shape, sizeof shape);
        rt_role_hf_name(n->name, t->role, t->layer);
        if (!rt_apr_id_of(t->dtype, &n->type))
            return rt_fail(e, RT_INVALID,
                           "%s: an APR file cannot hold %s as %s; it holds f32, f16, bf16, q4_k and q6_k: choose "
                           "another --dtype or another format",
                           o->path, n->name, rt_dtype_name(t->dtype));
        uint64_t cols = shape[n->rank - 1], elements;
        if (cols % rt_dtype_table[t->dtype].block_elems != 0)
            return rt_fail(e, RT_INVALID, "%s: rows of %s have %llu elements, which do not fill whole blocks of %s",
                           o->path, n->name, (unsigned long long)cols, rt_dtype_name(t->dtype));
        if (!rt_mul_u64(n->rank == 2 ? shape[0] : 1, cols, &elements) || elements > UINT64_MAX / 16)
            return rt_fail(e, RT_INVALID, "%s: tensor %s is too large", o->path, n->name);
        n->bytes = rt_dtype_bytes(t->dtype, elements);
        n->offset = at;
        if (!rt_add_u64(at, n->bytes, &at) || at > UINT64_MAX / 2)
            return rt_fail(e, RT_INVALID, "%s: the tensors together are too large", o->path);
        at = rt_align_up(at, RT_APR_ALIGN);
        *quantized = *quantized || rt_dtype_is_quant(t->dtype);
    }
    *size = at;
    return RT_OK;
}

static void append_index(rt_str *s, entry *const *sorted, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const entry *n = sorted[i];
        size_t len = strlen(n->name);
        append_le(s, len, 2);
        rt_str_append_n(s, n->name, len);
        append_le(s, n->type, 1);
        append_le(s, n->rank, 1);
        for (uint32_t d = 0; d < n->rank; d++) append_le(s, n->shape[d], 8);
        append_le(s, n->offset, 8);
        append_le(s, n->bytes, 8);
    }
    pad(s);
}

static void fill_header(uint8_t h[RT_APR_HEADER], uint16_t flags, uint32_t count, uint64_t meta_size, uint64_t index,
                        uint64_t data)
{
    memset(h, 0, RT_APR_HEADER);
    memcpy(h, "APR", 4);
    h[RT_APR_AT_MAJOR] = 2;
    rt_store_le(h + RT_APR_AT_FLAGS, flags, 2);
    rt_store_le(h + RT_APR_AT_COUNT, count, 4);
    rt_store_le(h + RT_APR_AT_META, RT_APR_HEADER, 8);
    rt_store_le(h + RT_APR_AT_META_SIZE, meta_size, 4);
    rt_store_le(h + RT_APR_AT_INDEX, index, 8);
    rt_store_le(h + RT_APR_AT_DATA, data, 8);
    rt_store_le(h + RT_APR_AT_CRC, rt_apr_header_crc(h), 4);
}

int rt_apr_layout(const rt_model_out *o, rt_arena *a, rt_file_layout *l, rt_err *e)
{
    uint8_t header[RT_APR_HEADER] = { 0 };
    uint32_t count = o->tensor_count;
    uint64_t data_size = 0;
    bool quantized = false, vocab = false;
    int rc;
    entry *entries = rt_arena_alloc(a, (size_t)count * sizeof *entries + 1);
    entry **sorted = rt_arena_alloc(a, (size_t)count * sizeof *sorted + 1);
    l->offset = rt_arena_alloc(a, (size_t)count * sizeof *l->offset + 1);
    if (!entries || !sorted || !l->offset) return rt_no_memory(e, o->path);
    RT_TRY(fill_entries(o, entries, &data_size, &quantized, e));
    for (uint32_t i = 0; i < count; i++) sorted[i] = &entries[i];
    qsort(sorted, count, sizeof *sorted, by_name);
    rt_str meta = { 0 };
    rc = rt_apr_meta_write(o, &meta, &vocab, e);
    size_t meta_size = meta.len;
    if (rc == RT_OK) {
        rt_str_append_n(&l->head, (const char *)header, sizeof header);
        rt_str_append_n(&l->head, meta.data, meta.len);
    }
    rt_str_free(&meta);
    if (rc < 0) goto out;
    pad(&l->head);
    uint64_t index = l->head.len;
    append_index(&l->head, sorted, count);
    if (l->head.failed) RT_TRY(rt_no_memory(e, o->path));
    uint16_t flags = (uint16_t)(RT_APR_ROW_MAJOR | (vocab ? RT_APR_HAS_VOCAB : 0) | (quantized ? RT_APR_QUANTIZED : 0));
    fill_header(header, flags, count, meta_size, index, l->head.len);
    memcpy(l->head.data, header, sizeof header);
    for (uint32_t i = 0; i < count; i++) l->offset[i] = l->head.len + entries[i].offset;
    l->size = l->head.len + data_size;
    l->footer_crc = true;
out:
    return rc;
}
