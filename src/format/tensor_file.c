/* tensor_file.c - see tensor_file.h. */
#include "format/tensor_file.h"

#include "base/file.h"
#include "format/hf/hf.h"

enum { PIECE = 1 << 20 }; /* elements at a time */

static uint64_t elems(const rt_named_tensor *t) { return t->rank == 2 ? t->shape[0] * t->shape[1] : t->shape[0]; }

static int make_head(rt_str *head, const char *path, const rt_named_tensor *t, uint32_t count, rt_err *e)
{
    uint64_t at = 0;
    rt_safetensors_head_begin(head, NULL);
    for (uint32_t i = 0; i < count; i++) {
        if (!rt_safetensors_type(t[i].dtype))
            return rt_fail(e, RT_INTERNAL, "%s: %s is %s, which safetensors does not hold", path, t[i].name,
                           rt_dtype_name(t[i].dtype));
        rt_safetensors_head_entry(head, t[i].name, t[i].dtype, t[i].rank, t[i].shape, at);
        at += rt_dtype_bytes(t[i].dtype, elems(&t[i]));
    }
    rt_safetensors_head_end(head);
    return head->failed ? rt_no_memory(e, path) : RT_OK;
}

static uint64_t data_bytes(const rt_named_tensor *t, uint32_t count)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) total += rt_dtype_bytes(t[i].dtype, elems(&t[i]));
    return total;
}

int rt_tensor_file_bytes(const rt_named_tensor *t, uint32_t count, uint64_t *bytes, rt_err *e)
{
    rt_str head = { 0 };
    int rc = make_head(&head, "a file of tensors", t, count, e);
    *bytes = head.len + data_bytes(t, count);
    rt_str_free(&head);
    return rc;
}

static int write_and_hash(rt_writer *w, rt_hasher *h, uint64_t *at, const void *data, uint64_t bytes, rt_err *e)
{
    int rc = rt_writer_put(w, *at, data, bytes, e);
    rt_hasher_add(h, data, bytes);
    *at += bytes;
    return rc;
}

int rt_tensor_file_write(const char *path, const rt_named_tensor *t, uint32_t count, rt_values_fn fn, void *ctx,
                         rt_hash128 *hash, rt_err *e)
{
    int rc;
    rt_str head = { 0 };
    rt_writer *w = NULL;
    rt_hasher *h = rt_hasher_new();
    void *piece = rt_alloc(PIECE * sizeof(double), 64);
    uint64_t at = 0;
    if (!h || !piece) RT_TRY(rt_no_memory(e, path));
    RT_TRY(make_head(&head, path, t, count, e));
    RT_TRY(rt_writer_open(&w, path, e));
    RT_TRY(rt_writer_reserve(w, head.len + data_bytes(t, count), e));
    RT_TRY(write_and_hash(w, h, &at, head.data, head.len, e));
    for (uint32_t i = 0; i < count; i++)
        for (uint64_t first = 0, all = elems(&t[i]); first < all; first += PIECE) {
            uint64_t n = all - first < PIECE ? all - first : PIECE;
            RT_TRY(fn(ctx, i, first, n, piece, e));
            RT_TRY(write_and_hash(w, h, &at, piece, rt_dtype_bytes(t[i].dtype, n), e));
        }
    RT_TRY(rt_writer_commit(w, e));
    if (hash) *hash = rt_hasher_digest(h);
out:
    rt_writer_free(w);
    rt_hasher_free(h);
    rt_free(piece);
    rt_str_free(&head);
    return rc;
}
