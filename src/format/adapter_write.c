/* adapter_write.c - an adapter as a file of its own for llama.cpp. See adapter.h.
 *
 * Owns: the values. llama.cpp scales each pair by alpha / rank with one alpha for all, so what differs from that goes
 * into B; and rows of B stand in the order in which GGUF has those of the matrix. */
#include "format/adapter.h"

#include "format/gguf/gguf.h"

/* out (n) of dtype d from values (n), each multiplied. */
static int put(uint8_t *out, rt_dtype d, const float *values, double by, uint64_t n, float *scratch, const char *name,
               rt_err *e)
{
    for (uint64_t i = 0; i < n; i++) scratch[i] = (float)(by * values[i]);
    rt_float_from_f32(out, scratch, d, n);
    return rt_stayed_finite(out, d, n, name, "--dtype", e);
}

/* A and B of one matrix, at the two offsets. */
static int put_pair(rt_writer *w, const rt_model_config *c, const rt_tensor *t, rt_dtype d, double alpha,
                    const uint64_t *offset, rt_err *e)
{
    int rc;
    const rt_lora_pair *p = t->pair;
    uint64_t R = t->shape[0], C = t->shape[1], most = (R > C ? R : C) * p->rank, row = rt_dtype_bytes(d, p->rank);
    uint32_t heads = rt_role_swap_heads(c, t->role);
    double by = p->scale * p->rank / alpha;
    float *scratch = rt_alloc(most * sizeof *scratch, 64);
    uint8_t *bytes = rt_alloc(rt_dtype_bytes(d, most), 64);
    if (!scratch || !bytes) RT_TRY(rt_no_memory(e, t->name));
    RT_TRY(put(bytes, d, p->a, 1, p->rank * C, scratch, t->name, e));
    RT_TRY(rt_writer_put(w, offset[0], bytes, rt_dtype_bytes(d, p->rank * C), e));
    for (uint64_t r = 0; r < R; r++)
        RT_TRY(put(bytes + r * row, d, p->b + (heads ? rt_swap_to_canonical(r, R, heads) : r) * p->rank, by, p->rank,
                   scratch, t->name, e));
    RT_TRY(rt_writer_put(w, offset[1], bytes, R * row, e));
out:
    rt_free(scratch);
    rt_free(bytes);
    return rc;
}

int rt_adapter_write_gguf(const rt_model_file *m, const char *path, rt_dtype d, bool replace, uint64_t *bytes,
                          rt_err *e)
{
    int rc;
    rt_arena a = { 0 };
    rt_writer *w = NULL;
    rt_file_layout l = { 0 };
    uint32_t n = 0;
    double alpha = 0;
    for (uint32_t i = 0; i < m->tensor_count && alpha == 0; i++)
        if (m->tensors[i].pair && m->tensors[i].pair->of == m->adapter)
            alpha = (float)(m->tensors[i].pair->scale * m->tensors[i].pair->rank);
    RT_TRY(rt_gguf_adapter_layout(m, path, d, alpha, &a, &l, e));
    RT_TRY(rt_writer_open(&w, path, e));
    if (!replace) rt_writer_new_only(w);
    RT_TRY(rt_writer_reserve(w, l.size, e));
    RT_TRY(rt_writer_put(w, 0, l.head.data, l.head.len, e));
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const rt_tensor *t = &m->tensors[i];
        if (!t->pair || t->pair->of != m->adapter) continue;
        RT_TRY(put_pair(w, &m->config, t, d, alpha, &l.offset[2 * n++], e));
    }
    RT_TRY(rt_writer_commit(w, e));
    *bytes = l.size;
out:
    rt_writer_free(w);
    rt_str_free(&l.head);
    rt_arena_free(&a);
    return rc;
}
