/* signature.c - all legal signatures of an op: every slot in turn takes every dtype that its rule allows, given the
 * op's activation dtype. F64 is left out: it is the precision of the specification (copies, which look at no value,
 * take it). */
#include "verify/signature.h"

#include <stdio.h>

static const rt_dtype floats[] = { RT_DTYPE_F32, RT_DTYPE_BF16, RT_DTYPE_F16 };
static const rt_dtype moments[] = { RT_DTYPE_F32, RT_DTYPE_BF16, RT_DTYPE_U8 };
enum { FLOATS = sizeof floats / sizeof *floats };

static bool has_rule(rt_op_kind kind, uint32_t slots, rt_dtype_rule rule)
{
    for (uint32_t i = 0; i < slots; i++)
        if (rt_op_specs[kind].slot[i].rule == rule) return true;
    return false;
}

bool rt_signature_varies(rt_op_kind kind, uint32_t slot)
{
    switch ((rt_dtype_rule)rt_op_specs[kind].slot[slot].rule) {
    case RT_RULE_ACT: return !has_rule(kind, slot, RT_RULE_ACT);
    case RT_RULE_ANY: return !has_rule(kind, slot, RT_RULE_ANY);
    case RT_RULE_MOMENT: return !has_rule(kind, slot, RT_RULE_MOMENT);
    case RT_RULE_CODED:
    case RT_RULE_FLOAT:
    case RT_RULE_WEIGHT:
    case RT_RULE_GRAD:
    case RT_RULE_INT8:
    case RT_RULE_QUANT: return true;
    default: return false;
    }
}

/* Dtypes that the slot may take; `act` is the op's activation dtype, `any` that of its first slot of rule ANY or
 * MOMENT (no op has both). */
static uint32_t choices(rt_dtype_rule rule, rt_dtype act, rt_dtype any, bool first, rt_dtype *out)
{
    uint32_t n = 0;
    switch (rule) {
    case RT_RULE_ACT: out[n++] = act; break;
    case RT_RULE_CODED:
        out[n++] = act;
        out[n++] = RT_DTYPE_E4M3;
        break;
    case RT_RULE_GRAD:
        out[n++] = RT_DTYPE_F32;
        if (act != RT_DTYPE_F32) out[n++] = act;
        break;
    case RT_RULE_FLOAT:
    case RT_RULE_WEIGHT:
        for (uint32_t i = 0; i < FLOATS; i++) out[n++] = floats[i];
        break;
    case RT_RULE_F32: out[n++] = RT_DTYPE_F32; break;
    case RT_RULE_I32: out[n++] = RT_DTYPE_I32; break;
    case RT_RULE_U32: out[n++] = RT_DTYPE_U32; break;
    case RT_RULE_U8:
    case RT_RULE_STEP: out[n++] = RT_DTYPE_U8; break;
    case RT_RULE_MOMENT:
        if (!first) out[n++] = any;
        for (int i = 0; first && i < 3; i++) out[n++] = moments[i];
        break;
    case RT_RULE_ANY:
        if (!first) out[n++] = any;
        for (int d = 0; first && d < RT_DTYPE_COUNT; d++) out[n++] = (rt_dtype)d;
        break;
    case RT_RULE_E4M3: out[n++] = RT_DTYPE_E4M3; break;
    case RT_RULE_Q8_0: out[n++] = RT_DTYPE_Q8_0; break;
    case RT_RULE_INT8:
    case RT_RULE_QUANT: break;
    }
    if (rule == RT_RULE_WEIGHT || rule == RT_RULE_QUANT)
        for (int d = 0; d < RT_DTYPE_COUNT; d++)
            if (rt_dtype_is_quant((rt_dtype)d)) out[n++] = (rt_dtype)d;
    for (int d = 0; rule == RT_RULE_INT8 && d < RT_DTYPE_COUNT; d++)
        if (rt_int8_takes((rt_dtype)d)) out[n++] = (rt_dtype)d;
    return n;
}

typedef struct walk {
    rt_op_kind kind;
    uint32_t slots, n;
    rt_dtype act, any;
    rt_signature now, *out;
} walk;

static void step(walk *w, uint32_t slot)
{
    if (slot == w->slots) {
        if (w->n < RT_SIGNATURES_MAX) w->out[w->n++] = w->now;
        return;
    }
    const rt_slot_spec *s = &rt_op_specs[w->kind].slot[slot];
    bool varies = rt_signature_varies(w->kind, slot);
    rt_dtype list[RT_DTYPE_COUNT];
    uint32_t n = choices((rt_dtype_rule)s->rule, w->act, w->any, varies, list);
    for (uint32_t i = 0; i < n; i++) {
        w->now.dtype[slot] = list[i];
        if ((s->rule == RT_RULE_ANY || s->rule == RT_RULE_MOMENT) && varies) w->any = list[i];
        step(w, slot + 1);
    }
    if (s->optional && varies) {
        w->now.absent |= 1u << slot;
        w->now.dtype[slot] = RT_DTYPE_F32;
        step(w, slot + 1);
        w->now.absent &= ~(1u << slot);
    }
}

uint32_t rt_signature_list(rt_op_kind kind, rt_signature *out)
{
    walk w = { .kind = kind, .slots = rt_op_slots(kind), .out = out };
    uint32_t acts = has_rule(kind, w.slots, RT_RULE_ACT) ? FLOATS : 1;
    for (uint32_t i = 0; i < acts; i++) {
        w.act = floats[i];
        step(&w, 0);
    }
    return w.n;
}

char *rt_signature_text(char buf[RT_SIGNATURE_TEXT], rt_op_kind kind, const rt_signature *s)
{
    size_t n = 0;
    buf[0] = 0;
    for (uint32_t i = 0; i < rt_op_slots(kind) && n < RT_SIGNATURE_TEXT; i++)
        if (rt_signature_varies(kind, i))
            n += (size_t)snprintf(buf + n, RT_SIGNATURE_TEXT - n, "%s%s", n ? "." : "",
                                  s->absent >> i & 1 ? "-" : rt_dtype_name(s->dtype[i]));
    if (n == 0) snprintf(buf, RT_SIGNATURE_TEXT, "f32"); /* the one signature of an op without a choice */
    return buf;
}
