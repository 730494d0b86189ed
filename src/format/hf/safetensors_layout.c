/* safetensors_layout.c - the header of a safetensors file that is to be written.
 *
 * Owns: names, types and places of the tensors, and the metadata. Leaves writing to model_write.c.
 *
 * Keys stand in the order of the parameters. Bytes do too, but wider types go first: readers such as PyTorch look at a
 * file's bytes as an array of the type, which works only where a tensor begins at a multiple of its element's size, and
 * the format has no padding between tensors. */
#include "base/json.h"
#include "format/hf/hf.h"

#include <inttypes.h>

enum { DATA_ALIGN = 64, WIDEST = 8 };

void rt_safetensors_head_begin(rt_str *head, const rt_str *config)
{
    rt_str_append_n(head, "\0\0\0\0\0\0\0\0", 8);
    rt_str_append(head, "{\"__metadata__\":{\"format\":\"pt\"");
    if (config) {
        rt_str_append(head, ",\"retort.config\":");
        if (!rt_json_put_text(head, config->data, config->len)) head->failed = true; /* never: jansson wrote it */
    }
    rt_str_append(head, "}");
}

void rt_safetensors_head_entry(rt_str *head, const char *name, rt_dtype d, uint32_t rank, const uint64_t *shape,
                               uint64_t begin)
{
    uint64_t bytes = rt_dtype_bytes(d, rank == 2 ? shape[0] * shape[1] : shape[0]);
    rt_str_printf(head, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%" PRIu64, name, rt_safetensors_type(d), shape[0]);
    if (rank == 2) rt_str_printf(head, ",%" PRIu64, shape[1]);
    rt_str_printf(head, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", begin, begin + bytes);
}

void rt_safetensors_head_end(rt_str *head)
{
    rt_str_append(head, "}");
    while (!head->failed && head->len % DATA_ALIGN != 0) rt_str_append(head, " ");
    if (!head->failed) rt_store_le(head->data, head->len - 8, 8);
}

static int make_head(const rt_model_out *o, uint32_t first, uint32_t count, rt_file_layout *l, rt_err *e)
{
    rt_str config = { 0 };
    bool lone = o->to == RT_CONTAINER_SAFETENSORS;
    int rc = lone ? rt_config_to_json(o->config, rt_out_main_dtype(o), &config, e) : RT_OK;
    if (rc >= 0) rt_safetensors_head_begin(&l->head, lone ? &config : NULL);
    rt_str_free(&config);
    for (uint32_t i = 0; i < count && rc >= 0; i++) {
        char name[RT_NAME_BYTES];
        const rt_out_tensor *t = &o->tensors[first + i];
        uint64_t shape[2];
        uint32_t rank = rt_role_shape(o->config, t->role, shape);
        rt_role_hf_name(name, t->role, t->layer);
        rt_safetensors_head_entry(&l->head, name, t->dtype, rank, shape, l->offset[i]);
    }
    if (rc >= 0) rt_safetensors_head_end(&l->head);
    return rc >= 0 && l->head.failed ? rt_no_memory(e, o->path) : rc;
}

int rt_safetensors_layout(const rt_model_out *o, uint32_t first, uint32_t count, rt_arena *a, rt_file_layout *l,
                          rt_err *e)
{
    *l = (rt_file_layout){ 0 };
    l->offset = rt_arena_alloc(a, count * sizeof *l->offset);
    if (!l->offset) return rt_no_memory(e, o->path);
    for (uint32_t i = 0; i < count; i++) {
        if (!rt_safetensors_type(o->tensors[first + i].dtype))
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
    int rc = make_head(o, first, count, l, e);
    if (rc < 0) {
        rt_str_free(&l->head);
        return rc;
    }
    for (uint32_t i = 0; i < count; i++) l->offset[i] += l->head.len;
    l->size += l->head.len;
    return RT_OK;
}
