/* check_dtypes.c - the dtype rules of op.h, one function per question. docs/numerics.md lists the signatures that they
 * allow, and `retort verify` has at least one case for each. */
#include "op/plan_internal.h"

#include <stdio.h>

static bool plain_float(rt_dtype d) { return d == RT_DTYPE_F32 || d == RT_DTYPE_BF16 || d == RT_DTYPE_F16; }

/* What a slot with this rule takes, when the op is (f64) or is not the double-precision specification. */
static bool rule_allows(rt_dtype_rule rule, rt_dtype d, bool f64)
{
    switch (rule) {
    case RT_RULE_ACT:
    case RT_RULE_FLOAT:
    case RT_RULE_GRAD: return f64 ? d == RT_DTYPE_F64 : plain_float(d);
    case RT_RULE_CODED: return d == RT_DTYPE_E4M3 || (f64 ? d == RT_DTYPE_F64 : plain_float(d));
    case RT_RULE_WEIGHT: return rt_dtype_is_quant(d) || (f64 ? d == RT_DTYPE_F64 : plain_float(d));
    case RT_RULE_F32: return d == (f64 ? RT_DTYPE_F64 : RT_DTYPE_F32);
    case RT_RULE_MOMENT: return f64 ? d == RT_DTYPE_F64 : d == RT_DTYPE_F32 || d == RT_DTYPE_BF16 || d == RT_DTYPE_U8;
    case RT_RULE_I32: return d == RT_DTYPE_I32;
    case RT_RULE_U32: return d == RT_DTYPE_U32;
    case RT_RULE_U8:
    case RT_RULE_STEP: return d == RT_DTYPE_U8;
    case RT_RULE_QUANT: return rt_dtype_is_quant(d);
    case RT_RULE_Q8_0: return d == RT_DTYPE_Q8_0;
    case RT_RULE_INT8: return rt_int8_takes(d);
    case RT_RULE_E4M3: return d == RT_DTYPE_E4M3;
    case RT_RULE_ANY: return true;
    }
    return false;
}

static const char *rule_text(rt_dtype_rule rule)
{
    switch (rule) {
    case RT_RULE_WEIGHT: return "f32, bf16, f16 or a quantised type";
    case RT_RULE_F32: return "f32";
    case RT_RULE_MOMENT: return "f32, bf16 or u8";
    case RT_RULE_I32: return "i32";
    case RT_RULE_U32: return "u32";
    case RT_RULE_U8: return "u8";
    case RT_RULE_STEP: return "u8 step values";
    case RT_RULE_QUANT: return "a quantised type";
    case RT_RULE_Q8_0: return "q8_0";
    case RT_RULE_INT8: return "q8_0, q4_0, q4_1, q4_k, q5_k or q6_k";
    case RT_RULE_E4M3: return "e4m3";
    case RT_RULE_CODED: return "f32, bf16, f16 or e4m3";
    default: return "f32, bf16 or f16";
    }
}

/* Is any float operand f64? Then all must be (copies, which look at no value, excepted). */
static bool is_f64(const rt_plan *p, rt_op_kind kind, const rt_view *slots)
{
    RT_FOR_SLOTS (i, kind)
        if (slots[i].buf && rt_op_specs[kind].slot[i].rule != RT_RULE_ANY && rt_plan_dtype(p, slots[i]) == RT_DTYPE_F64)
            return true;
    return false;
}

/* The first present slot with this rule, or -1. */
static int first_with(rt_op_kind kind, const rt_view *slots, rt_dtype_rule rule)
{
    RT_FOR_SLOTS (i, kind)
        if (slots[i].buf && rt_op_specs[kind].slot[i].rule == rule) return (int)i;
    return -1;
}

void rt_plan_check_dtypes(rt_plan *p, rt_op_kind kind, const rt_view *slots)
{
    const rt_op_spec *spec = &rt_op_specs[kind];
    bool f64 = is_f64(p, kind, slots);
    int act = first_with(kind, slots, RT_RULE_ACT), any = first_with(kind, slots, RT_RULE_ANY);
    int moment = first_with(kind, slots, RT_RULE_MOMENT);
    RT_FOR_SLOTS (i, kind) {
        const rt_slot_spec *s = &spec->slot[i];
        if (!slots[i].buf) continue;
        rt_dtype d = rt_plan_dtype(p, slots[i]);
        if (!rule_allows((rt_dtype_rule)s->rule, d, f64)) {
            rt_plan_fail(p, RT_INVALID, "%s: operand '%s' is %s; it takes %s%s", spec->name, s->name, rt_dtype_name(d),
                         rule_text((rt_dtype_rule)s->rule),
                         f64 ? " (f64 throughout, since another operand is f64)" : "");
            return;
        }
        int like = s->rule == RT_RULE_ACT      ? act
                   : s->rule == RT_RULE_CODED  ? (d == RT_DTYPE_E4M3 ? -1 : act)
                   : s->rule == RT_RULE_ANY    ? any
                   : s->rule == RT_RULE_MOMENT ? moment
                                               : -1;
        if (like >= 0 && d != rt_plan_dtype(p, slots[like])) {
            rt_plan_fail(p, RT_INVALID, "%s: operand '%s' is %s but '%s' is %s; they must agree", spec->name, s->name,
                         rt_dtype_name(d), spec->slot[like].name, rt_dtype_name(rt_plan_dtype(p, slots[like])));
            return;
        }
        if (s->rule == RT_RULE_GRAD && !f64 && d != RT_DTYPE_F32 && act >= 0 && d != rt_plan_dtype(p, slots[act])) {
            rt_plan_fail(p, RT_INVALID, "%s: operand '%s' is %s; it takes f32 or the dtype of '%s', %s", spec->name,
                         s->name, rt_dtype_name(d), spec->slot[act].name, rt_dtype_name(rt_plan_dtype(p, slots[act])));
            return;
        }
    }
}
