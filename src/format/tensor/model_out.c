/* model_out.c - see model_out.h: what follows from the description of an output alone. */
#include "format/tensor/model_out.h"

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
