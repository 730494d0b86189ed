/* op_spec.c - the slots of every op, as op.h describes them in words: name, access, dtype rule, what may be absent,
 * what may be done in place. Backends, the recorder and the verifier all read this one table. */
#include "op/plan.h"

#define R(n, r)                                                                                                        \
    {                                                                                                                  \
#n, RT_READ, RT_RULE_##r, 0, 0                                                                                 \
    }
#define R_OPT(n, r)                                                                                                    \
    {                                                                                                                  \
#n, RT_READ, RT_RULE_##r, 1, 0                                                                                 \
    }
#define W(n, r)                                                                                                        \
    {                                                                                                                  \
#n, RT_WRITE, RT_RULE_##r, 0, 0                                                                                \
    }
#define W_OPT(n, r)                                                                                                    \
    {                                                                                                                  \
#n, RT_WRITE, RT_RULE_##r, 1, 0                                                                                \
    }
#define W_ON(n, r, alias)                                                                                              \
    {                                                                                                                  \
#n, RT_WRITE, RT_RULE_##r, 0, alias                                                                            \
    }
#define W_OPT_ON(n, r, alias)                                                                                          \
    {                                                                                                                  \
#n, RT_WRITE, RT_RULE_##r, 1, alias                                                                            \
    }
#define RW(n, r)                                                                                                       \
    {                                                                                                                  \
#n, RT_READ_WRITE, RT_RULE_##r, 0, 0                                                                           \
    }
#define RW_OPT(n, r)                                                                                                   \
    {                                                                                                                  \
#n, RT_READ_WRITE, RT_RULE_##r, 1, 0                                                                           \
    }
#define ACC(n, r)                                                                                                      \
    {                                                                                                                  \
#n, RT_ACCUM, RT_RULE_##r, 0, 0                                                                                \
    }
#define ACC_OPT(n, r)                                                                                                  \
    {                                                                                                                  \
#n, RT_ACCUM, RT_RULE_##r, 1, 0                                                                                \
    }
#define ACC_ON(n, r, alias)                                                                                            \
    {                                                                                                                  \
#n, RT_ACCUM, RT_RULE_##r, 0, alias                                                                            \
    }
#define BIT(slot) (uint16_t)(1u << (slot))

#define SLOTS(...)                                                                                                     \
    {                                                                                                                  \
        sizeof((rt_slot_spec[]){ __VA_ARGS__ }) / sizeof(rt_slot_spec), { __VA_ARGS__ }                                \
    }

static const struct {
    uint32_t n;
    rt_slot_spec slot[RT_MAX_SLOTS];
} slots[RT_OP_COUNT] = {
    [RT_OP_EMBED_FWD] = SLOTS(W(y, ACT), R(table, WEIGHT), R(ids, I32)),
    [RT_OP_EMBED_BWD] = SLOTS({ "dtable", RT_ACCUM_SPARSE, RT_RULE_GRAD, 0, 0 }, R(dy, ACT), R(ids, I32)),
    [RT_OP_RMSNORM_FWD] = SLOTS(W_ON(y, CODED, BIT(RT_RMS_X)), W_OPT(scale, F32), R(x, ACT), R(w, FLOAT)),
    [RT_OP_RMSNORM_BWD] = SLOTS(ACC(dx, ACT), ACC_OPT(dw, GRAD), R(dy, ACT), R(x, ACT), R(w, FLOAT)),
    [RT_OP_ADD_RMSNORM_FWD] = SLOTS(W(y, CODED), W_OPT(scale, F32), W_ON(h, ACT, BIT(RT_ARMS_X) | BIT(RT_ARMS_RES)),
                                    R(x, ACT), R(res, ACT), R(w, FLOAT)),
    [RT_OP_ADD_RMSNORM_BWD] =
        SLOTS(ACC_ON(dx, ACT, BIT(RT_RMSB_DRES)), ACC_OPT(dw, GRAD), R(dy, ACT), R(h, ACT), R(w, FLOAT), R(dres, ACT)),
    [RT_OP_MATMUL] = SLOTS(ACC(out, GRAD), R(a, ACT), R(b, WEIGHT), R_OPT(bias, FLOAT)),
    [RT_OP_BIAS_GRAD] = SLOTS(ACC(db, GRAD), R(dy, ACT)),
    [RT_OP_ROPE_FWD] = SLOTS(W_ON(y, ACT, BIT(RT_ROPE_X)), R(x, ACT), R(freq, F32), R(pos, I32)),
    [RT_OP_ROPE_BWD] = SLOTS(W_ON(dx, ACT, BIT(RT_ROPE_X)), R(dy, ACT), R(freq, F32), R(pos, I32)),
    [RT_OP_ATTN_FWD] = SLOTS(W(o, ACT), W(lse, F32), R(q, ACT), R(k, ACT), R(v, ACT), R_OPT(start, I32)),
    [RT_OP_ATTN_BWD] = SLOTS(W(dq, ACT), W(dk, ACT), W(dv, ACT), R(do, ACT), R(q, ACT), R(k, ACT), R(v, ACT), R(o, ACT),
                             R(lse, F32), R_OPT(start, I32)),
    [RT_OP_ATTN_DECODE] = SLOTS(W(o, ACT), R(q, ACT), R(kc, ACT), R(vc, ACT), R(len, I32), R_OPT(table, I32)),
    [RT_OP_SWIGLU_FWD] = SLOTS(W_ON(y, CODED, BIT(RT_GLU_G) | BIT(RT_GLU_U)), W_OPT(scale, F32), R(g, ACT), R(u, ACT)),
    [RT_OP_SWIGLU_BWD] = SLOTS(W_ON(dg, ACT, BIT(RT_GLUB_G)), W_ON(du, ACT, BIT(RT_GLUB_U)),
                               W_OPT_ON(y, ACT, BIT(RT_GLUB_DY)), R(dy, ACT), R(g, ACT), R(u, ACT)),
    [RT_OP_ADD] = SLOTS(W_ON(y, ACT, BIT(RT_ROWS_X) | BIT(RT_ROWS_B)), R(a, ACT), R(b, ACT)),
    [RT_OP_SCALE] = SLOTS(W_ON(y, ACT, BIT(RT_ROWS_X)), R(x, ACT), R_OPT(s, F32)),
    [RT_OP_CAST] = SLOTS(W(y, FLOAT), R(x, FLOAT)),
    [RT_OP_COPY] = SLOTS(W(y, ANY), R(x, ANY), R_OPT(rows, I32)),
    [RT_OP_FILL] = SLOTS(W(y, FLOAT)),
    [RT_OP_DEQUANT] = SLOTS(W(y, FLOAT), R(x, QUANT)),
    [RT_OP_QUANT] = SLOTS(W(y, QUANT), R(x, FLOAT)),
    [RT_OP_QUANT_ROWS] = SLOTS(W(y, E4M3), W(scale, F32), R(x, WEIGHT)),
    [RT_OP_MATMUL_SCALED] = SLOTS(ACC(out, FLOAT), R(a, E4M3), R(b, E4M3), R(sa, F32), R(sb, F32), R_OPT(bias, FLOAT)),
    [RT_OP_KD_LOSS] = SLOTS(RW(logits, ACT), ACC(sums, F32), W_OPT(ce, F32), W_OPT(div, F32), W_OPT(top1, F32),
                            RW(fault, U32), R(target, I32), R(step, STEP), R_OPT(teacher, FLOAT), R_OPT(tk_id, I32),
                            R_OPT(tk_logp, F32), R_OPT(tk_rest, F32), R_OPT(vmask, U32)),
    [RT_OP_ADAMW] = SLOTS(RW(param, FLOAT), RW_OPT(master, F32), RW(m, MOMENT), RW(v, MOMENT), RW_OPT(exps, U8),
                          R(grad, FLOAT), R(step, STEP), R_OPT(gscale, F32), R_OPT(fault, U32)),
    [RT_OP_NORM_SQ] = SLOTS(ACC(out, F32), R(x, FLOAT), RW_OPT(fault, U32), R_OPT(step, STEP)),
    [RT_OP_CLIP] = SLOTS(W(scale, F32), W(norm, F32), R(nsq, F32), RW_OPT(fault, U32), R_OPT(step, STEP)),
    [RT_OP_MIX_LOGITS] =
        SLOTS(W_ON(y, ACT, BIT(RT_MIX_Y0)), R_OPT(y0, ACT), R(x, FLOAT), R_OPT(weight, F32), R_OPT(vmask, U32)),
    [RT_OP_DRAW] =
        SLOTS(W(id, I32), W(logp, F32), W(entropy, F32), R(x, ACT), R_OPT(vmask, U32), R(key, U32), R(step, STEP)),
    [RT_OP_TOPK] = SLOTS(W(id, I32), W(logp, F32), W(rest, F32), R(x, ACT), R_OPT(vmask, U32)),
    [RT_OP_SAMPLE] = SLOTS(W(id, I32), W_OPT(logp, F32), RW_OPT(seen, U32), R(x, ACT), R(key, U32), R(how, F32)),
    [RT_OP_MATMUL_INT8] = SLOTS(ACC(out, FLOAT), R(a, Q8_0), R(b, INT8), R_OPT(bias, FLOAT)),
    [RT_OP_ALL_REDUCE] = SLOTS(RW(x, F32), RW_OPT(fault, U32)),
    [RT_OP_REDUCE_SCATTER] = SLOTS(ACC_OPT(own, F32), R(x, F32)),
    [RT_OP_ALL_GATHER] = SLOTS(RW(x, FLOAT)),
    [RT_OP_DROPOUT] = SLOTS(ACC(y, ACT), R(x, ACT), R(step, STEP)),
};

#define X(kind, name, args, text) { #name, text, slots[RT_OP_##kind].slot },
const rt_op_spec rt_op_specs[RT_OP_COUNT] = { RT_OP_LIST(X) };
#undef X

rt_access rt_op_access(rt_op_kind kind, uint32_t slot, const rt_view *views)
{
    if (kind == RT_OP_COPY && slot == RT_ROWS_Y && views[RT_ROWS_B].buf) return RT_WRITE_SPARSE;
    return (rt_access)slots[kind].slot[slot].access;
}

uint32_t rt_op_slots(rt_op_kind kind) { return slots[kind].n; }

uint32_t rt_op_ranks(rt_op_kind kind, const rt_args *args)
{
    if (kind == RT_OP_ALL_REDUCE) return args->rows.R;
    return kind == RT_OP_REDUCE_SCATTER || kind == RT_OP_ALL_GATHER ? args->slice.R : 0;
}

bool rt_op_find(const char *name, rt_op_kind *out)
{
    for (int k = 0; k < RT_OP_COUNT; k++)
        if (strcmp(rt_op_specs[k].name, name) == 0) {
            *out = (rt_op_kind)k;
            return true;
        }
    return false;
}
