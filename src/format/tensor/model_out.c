/* model_out.c - see model_out.h: what follows from the description of an output alone. */
#include "format/tensor/model_out.h"

#include <stdio.h>
#include <string.h>

uint64_t rt_out_tensor_bytes(const rt_model_out *o, uint32_t i)
{
    uint64_t shape[2];
    uint32_t rank = rt_role_shape(o->config, o->tensors[i].role, shape);
    return rt_dtype_bytes(o->tensors[i].dtype, rank == 2 ? shape[0] * shape[1] : shape[0]);
}

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

const char *const rt_side_names[RT_SIDE_MAX] = { "special_tokens_map.json", "vocab.json", "merges.txt",
                                                 "added_tokens.json", "tokenizer.model" };

bool rt_hf_is_name(void *ctx, const char *name)
{
    static const char *const own[] = { "config.json",         "generation_config.json",    "tokenizer.json",
                                       "chat_template.jinja", "tokenizer_config.json",     "model.safetensors",
                                       "adapter_config.json", "adapter_model.safetensors", RT_HF_INDEX };
    unsigned part, of;
    int end = 0;
    (void)ctx;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (strcmp(name, own[i]) == 0) return true;
    for (int i = 0; i < RT_SIDE_MAX; i++)
        if (strcmp(name, rt_side_names[i]) == 0) return true;
    return sscanf(name, "model-%5u-of-%5u.safetensors%n", &part, &of, &end) == 2 && end > 0 && !name[end];
}
