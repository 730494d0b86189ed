/* ref_table.c - from op kind to function, for both real types, and the scratch that each op asks for. Compiled once. */
#include "backend/ref/ref.h"

#define X(kind, name, args, text)                                                                                      \
    void rt_ref_##name##_float(const rt_ref_call *c);                                                                  \
    void rt_ref_##name##_double(const rt_ref_call *c);
RT_OP_LIST(X)
#undef X

#define X(kind, name, args, text) [RT_OP_##kind] = rt_ref_##name##_float,
const rt_ref_fn rt_ref_table_float[RT_OP_COUNT] = { RT_OP_LIST(X) };
#undef X

#define X(kind, name, args, text) [RT_OP_##kind] = rt_ref_##name##_double,
const rt_ref_fn rt_ref_table_double[RT_OP_COUNT] = { RT_OP_LIST(X) };
#undef X

/* Dimensions are 32 bits wide, so no sum below passes 64. */
uint64_t rt_ref_work(rt_op_kind kind, const rt_args *args)
{
    switch (kind) {
    case RT_OP_MATMUL_INT8:
    case RT_OP_MATMUL: return args->matmul.N + (args->matmul.tb ? (uint64_t)args->matmul.N * args->matmul.K : 0);
    case RT_OP_MATMUL_SCALED: return args->matmul.N + (uint64_t)args->matmul.N * args->matmul.K;
    case RT_OP_ATTN_FWD: return args->attn.T;
    case RT_OP_ATTN_DECODE: return args->decode.S;
    case RT_OP_KD_LOSS: {
        uint64_t V = args->kd.V, k = args->kd.k;
        return 2 * V + 3 * ((V > k ? V : k) + 1);
    }
    case RT_OP_REDUCE_SCATTER:
    case RT_OP_ALL_GATHER: /* x of every rank, and where its slice is */
        return ((uint64_t)args->slice.C + 2) * args->slice.R;
    case RT_OP_ALL_REDUCE: return ((uint64_t)args->rows.N * args->rows.C + 4) * args->rows.R; /* or fault records */
    case RT_OP_DRAW: return 3 * (uint64_t)args->draw.V;
    case RT_OP_TOPK: return args->topk.V;
    case RT_OP_SAMPLE: return 3 * (uint64_t)args->sample.V;
    default: return 0;
    }
}
