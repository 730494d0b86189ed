/* gguf_layout.c - the bytes of a GGUF output before its tensors, and where each tensor begins.
 *
 * Owns: version 3, the tensors' descriptions, and what GGUF cannot say of a configuration, which is refused. Tensors
 * follow one another in the order of their descriptions, each on a multiple of the alignment: ggml accepts no other. */
#include "format/gguf/gguf.h"

#include <stdio.h>
#include <string.h>

/* llama.cpp would load such a file and compute something else, or refuse its tensors. */
static int check(const rt_model_out *o, rt_err *e)
{
    const rt_model_config *c = o->config;
    const rt_family *f = c->family;
    if (c->rope.kind == RT_ROPE_LLAMA3 && !f->gguf_rope_freqs)
        return rt_fail(e, RT_UNSUPPORTED, "%s: GGUF has no llama3 rope scaling in the family %s; write another format",
                       o->path, f->name);
    if (f->bias == RT_BIAS_KEY && !f->gguf_biases && (c->qkv_bias || c->o_bias || c->mlp_bias))
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s: llama.cpp has no biases in the family %s and refuses such a file; write another format",
                       o->path, f->name);
    for (uint32_t i = 0; i < c->layers && f->no_rope_every; i++) {
        bool rope = !(c->layer_flags[i] & RT_LAYER_NO_ROPE);
        if (rope == ((i + 1) % f->no_rope_every != 0)) continue;
        return rt_fail(e, RT_UNSUPPORTED,
                       "%s: in GGUF each %uth layer of the family %s is without rope, but here layer %u %s; write "
                       "another format",
                       o->path, f->no_rope_every, f->name, i, rope ? "has rope" : "is too");
    }
    return RT_OK;
}

static void put_info(rt_str *s, const char *name, uint32_t rank, const uint64_t *shape, rt_dtype d, uint64_t offset)
{
    uint64_t n = strlen(name);
    uint32_t type = (uint32_t)rt_gguf_number_of(d);
    rt_gguf_append(s, &n, 8);
    rt_gguf_append(s, name, (size_t)n);
    rt_gguf_append(s, &rank, 4);
    for (uint32_t i = rank; i-- > 0;) rt_gguf_append(s, &shape[i], 8);
    rt_gguf_append(s, &type, 4);
    rt_gguf_append(s, &offset, 8);
}

/* Offsets are relative to the end of the head until the head is complete. */
static int put_infos(const rt_model_out *o, rt_file_layout *l, uint64_t *end, rt_err *e)
{
    uint64_t at = 0;
    for (uint32_t i = 0; i < o->tensor_count; i++) {
        char name[RT_NAME_BYTES];
        const rt_out_tensor *t = &o->tensors[i];
        rt_tensor shaped = { .dtype = t->dtype, .store = RT_STORE_PLAIN };
        uint64_t bytes;
        shaped.rank = rt_role_shape(o->config, t->role, shaped.shape);
        rt_role_gguf_name(name, t->role, t->layer);
        if (rt_gguf_number_of(t->dtype) < 0 || !rt_tensor_expected_bytes(&shaped, &bytes) ||
            bytes > UINT64_MAX / 4 - at)
            return rt_fail(e, RT_INVALID, "%s: GGUF does not hold tensor '%s' as %s; choose another dtype", o->path,
                           name, rt_dtype_name(t->dtype));
        put_info(&l->head, name, shaped.rank, shaped.shape, t->dtype, at);
        l->offset[i] = at;
        at = rt_align_up(at + bytes, RT_GGUF_ALIGNMENT);
    }
    *end = at;
    return RT_OK;
}

static int put_factors(const rt_model_out *o, rt_file_layout *l, uint64_t *end, rt_arena *a, rt_err *e)
{
    const rt_model_config *c = o->config;
    uint64_t n = c->head_dim / 2;
    if (c->rope.kind != RT_ROPE_LLAMA3) return RT_OK;
    float *factors = rt_arena_alloc(a, (size_t)n * sizeof *factors);
    if (!factors) return rt_no_memory(e, o->path);
    rt_gguf_rope_factors(factors, c->head_dim, &c->rope);
    rt_str_append_n(&l->extra, (const char *)factors, (size_t)n * sizeof *factors);
    put_info(&l->head, RT_GGUF_ROPE_FREQS, 1, &n, RT_DTYPE_F32, *end);
    l->extra_offset = *end;
    *end = rt_align_up(*end + n * sizeof *factors, RT_GGUF_ALIGNMENT);
    return RT_OK;
}

/* The beginning of every file; counts are those of tensors and keys, put right by end_head. */
static void begin_head(rt_str *head)
{
    uint32_t version = RT_GGUF_VERSION;
    uint64_t counts[2] = { 0 };
    rt_gguf_append(head, "GGUF", 4);
    rt_gguf_append(head, &version, 4);
    rt_gguf_append(head, counts, sizeof counts);
}

static int end_head(rt_file_layout *l, uint64_t tensors, uint64_t keys, const char *path, rt_err *e)
{
    static const char zeroes[RT_GGUF_ALIGNMENT];
    uint64_t counts[2] = { tensors, keys };
    rt_gguf_append(&l->head, zeroes, (size_t)(rt_align_up(l->head.len, RT_GGUF_ALIGNMENT) - l->head.len));
    if (l->head.failed || l->extra.failed) return rt_no_memory(e, path);
    memcpy(l->head.data + 8, counts, sizeof counts);
    return RT_OK;
}

int rt_gguf_adapter_layout(const rt_model_file *m, const char *path, rt_dtype d, double alpha, rt_arena *a,
                           rt_file_layout *l, rt_err *e)
{
    int rc;
    uint32_t n = 0;
    uint64_t keys, end = 0;
    *l = (rt_file_layout){ .offset = rt_arena_alloc(a, 2 * m->adapter->matrices * sizeof *l->offset) };
    if (!l->offset) RT_TRY(rt_no_memory(e, path));
    begin_head(&l->head);
    rt_gguf_write_adapter_keys(m, alpha, &l->head, &keys);
    for (uint32_t i = 0; i < m->tensor_count; i++) {
        const rt_tensor *t = &m->tensors[i];
        char weight[RT_NAME_BYTES], name[RT_NAME_BYTES + 8];
        if (!t->pair || t->pair->of != m->adapter) continue;
        rt_role_gguf_name(weight, t->role, t->layer);
        const uint64_t shapes[2][2] = { { t->pair->rank, t->shape[1] }, { t->shape[0], t->pair->rank } };
        for (int k = 0; k < 2; k++) {
            snprintf(name, sizeof name, "%s.lora_%c", weight, "ab"[k]);
            put_info(&l->head, name, 2, shapes[k], d, end);
            l->offset[n++] = end;
            end = rt_align_up(end + rt_dtype_bytes(d, shapes[k][0] * shapes[k][1]), RT_GGUF_ALIGNMENT);
        }
    }
    RT_TRY(end_head(l, n, keys, path, e));
    for (uint32_t i = 0; i < n; i++) l->offset[i] += l->head.len;
    l->size = l->head.len + end;
out:
    return rc;
}

int rt_gguf_layout(const rt_model_out *o, rt_arena *a, rt_file_layout *l, rt_err *e)
{
    int rc;
    uint64_t keys, end = 0;
    *l = (rt_file_layout){ 0 };
    RT_TRY(check(o, e));
    l->offset = rt_arena_alloc(a, o->tensor_count * sizeof *l->offset);
    if (!l->offset) return rt_no_memory(e, o->path);
    begin_head(&l->head);
    RT_TRY(rt_gguf_write_keys(o, &l->head, &keys, e));
    RT_TRY(put_infos(o, l, &end, e));
    RT_TRY(put_factors(o, l, &end, a, e));
    RT_TRY(end_head(l, o->tensor_count + (o->config->rope.kind == RT_ROPE_LLAMA3), keys, o->path, e));
    for (uint32_t i = 0; i < o->tensor_count; i++) l->offset[i] += l->head.len;
    l->extra_offset = l->extra.len ? l->extra_offset + l->head.len : 0;
    l->size = l->head.len + end;
out:
    return rc;
}
