/* safetensors_layout.c - the header of a safetensors file that is to be written.
 *
 * Owns: names, types and places of the tensors, and the metadata. Leaves writing to model_write.c.
 *
 * Keys stand in the order of the parameters. Bytes do too, but wider types go first: readers such as PyTorch look at a
 * file's bytes as an array of the type, which works only where a tensor begins at a multiple of its element's size, and
 * the format has no padding between tensors. */
#include "format/format_internal.h"

#include <inttypes.h>

enum { DATA_ALIGN = 64, WIDEST = 8 };

static const char *const dtype_names[RT_DTYPE_COUNT] = {
    [RT_DTYPE_F32] = "F32", [RT_DTYPE_BF16] = "BF16", [RT_DTYPE_F16] = "F16", [RT_DTYPE_F64] = "F64",
    [RT_DTYPE_I64] = "I64", [RT_DTYPE_I32] = "I32",   [RT_DTYPE_I16] = "I16", [RT_DTYPE_I8] = "I8",
    [RT_DTYPE_U32] = "U32", [RT_DTYPE_U8] = "U8",
};

/* text (n bytes of UTF-8) as a JSON string. */
static void append_quoted(rt_str *s, const char *text, size_t n)
{
    rt_str_append(s, "\"");
    size_t from = 0;
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c >= 0x20 && c != '"' && c != '\\') continue;
        rt_str_append_n(s, text + from, i - from);
        from = i + 1;
        if (c == '\n')
            rt_str_append(s, "\\n");
        else if (c < 0x20)
            rt_str_printf(s, "\\u%04x", c);
        else
            rt_str_printf(s, "\\%c", c);
    }
    rt_str_append_n(s, text + from, n - from);
    rt_str_append(s, "\"");
}

/* What most elements of matrices are stored in. */
rt_dtype rt_out_main_dtype(const rt_model_out *o)
{
    uint64_t elems[RT_DTYPE_COUNT] = { 0 };
    rt_dtype most = RT_DTYPE_F32;
    for (uint32_t i = 0; i < o->tensor_count; i++) {
        uint64_t shape[2];
        if (rt_role_shape(o->config, o->tensors[i].role, shape) == 2) elems[o->tensors[i].dtype] += shape[0] * shape[1];
    }
    for (int d = 0; d < RT_DTYPE_COUNT; d++)
        if (elems[d] > elems[most]) most = (rt_dtype)d;
    return most;
}

static int append_metadata(const rt_model_out *o, rt_str *head, rt_err *e)
{
    rt_str_append(head, "{\"__metadata__\":{\"format\":\"pt\"");
    if (o->to == RT_CONTAINER_SAFETENSORS) {
        rt_str config = { 0 };
        int rc = rt_config_to_json(o->config, rt_out_main_dtype(o), &config, e);
        if (rc == RT_OK) {
            rt_str_append(head, ",\"retort.config\":");
            append_quoted(head, config.data ? config.data : "", config.len);
        }
        rt_str_free(&config);
        if (rc < 0) return rc;
    }
    rt_str_append(head, "}");
    return RT_OK;
}

static void append_tensor(const rt_model_out *o, uint32_t i, uint64_t begin, rt_str *head)
{
    char name[RT_NAME_BYTES];
    const rt_out_tensor *t = &o->tensors[i];
    uint64_t shape[2];
    uint32_t rank = rt_role_shape(o->config, t->role, shape);
    rt_role_hf_name(name, t->role, t->layer);
    rt_str_printf(head, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, name, dtype_names[t->dtype], shape[0]);
    if (rank == 2) rt_str_printf(head, ",%" PRIu64, shape[1]);
    rt_str_printf(head, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + rt_out_tensor_bytes(o, i));
}

int rt_safetensors_layout(const rt_model_out *o, uint32_t first, uint32_t count, rt_arena *a, rt_layout *l, rt_err *e)
{
    *l = (rt_layout){ 0 };
    l->offset = rt_arena_alloc(a, count * sizeof *l->offset);
    if (!l->offset) return rt_fail(e, RT_NOMEM, "no memory for the header of %s", o->path);
    for (uint32_t i = 0; i < count; i++) {
        if (!dtype_names[o->tensors[first + i].dtype])
            return rt_fail(e, RT_INVALID, "%s: safetensors cannot hold %s; write GGUF or choose bf16, f16 or f32",
                           o->path, rt_dtype_name(o->tensors[first + i].dtype));
    }
    for (uint32_t width = WIDEST; width > 0; width /= 2) {
        for (uint32_t i = 0; i < count; i++) {
            if (rt_dtype_table[o->tensors[first + i].dtype].block_bytes != width) continue;
            l->offset[i] = l->size;
            l->size += rt_out_tensor_bytes(o, first + i);
        }
    }
    static const char zeros[8] = { 0 };
    rt_str_append_n(&l->head, zeros, sizeof zeros);
    int rc = append_metadata(o, &l->head, e);
    for (uint32_t i = 0; i < count && rc == RT_OK; i++) append_tensor(o, first + i, l->offset[i], &l->head);
    rt_str_append(&l->head, "}");
    while (!l->head.failed && l->head.len % DATA_ALIGN != 0) rt_str_append(&l->head, " ");
    if (rc == RT_OK && l->head.failed) rc = rt_fail(e, RT_NOMEM, "no memory for the header of %s", o->path);
    if (rc < 0) {
        rt_str_free(&l->head);
        return rc;
    }
    uint64_t n = l->head.len - 8;
    for (int i = 0; i < 8; i++) l->head.data[i] = (char)(n >> 8 * i);
    for (uint32_t i = 0; i < count; i++) l->offset[i] += l->head.len;
    l->size += l->head.len;
    return RT_OK;
}
