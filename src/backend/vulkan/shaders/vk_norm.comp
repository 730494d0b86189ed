/* vk_norm.comp - the sum of squares, carried in two floats, and the scale that clips a gradient by it.
 *
 * S1: 0: a part for each workgroup into the scratch: sum (hi, lo), what is not finite (1 infinity, 2 NaN), its first
 * row; 1: out = or += the parts, added up in order; 2: clip. S0: dtype of x. A workgroup of the first step is one of
 * push.word[0] of the steps behind it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rows_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"
#include "vk_pairs.glsl"

const uint OUT = 0, X = 1, FAULT = 2, STEP = 3;

void parts()
{
    Slot x = slot_of(X), work = slot_of(WORK);
    Pair sum = Pair(0, 0);
    uint bad = 0, first = ~0u;
    FOR_ELEMENTS (row, col) {
        float v = get(x, row, col, S0);
        if (!is_finite(v)) {
            bad |= is_nan(v) ? 2 : 1;
            first = min(first, row + col / push.a.C);
        } else
            sum = pair_sum(sum, two_product(v, v));
    }
    sum = group_pairs(sum);
    bad = group_any(bad);
    first = group_least(first);
    if (gl_LocalInvocationID.x != 0) return;
    store_f32(work.at, 4 * gl_WorkGroupID.x, sum.hi);
    store_f32(work.at, 4 * gl_WorkGroupID.x + 1, sum.lo);
    store_u32(work.at, 4 * gl_WorkGroupID.x + 2, bad);
    store_u32(work.at, 4 * gl_WorkGroupID.x + 3, first);
}

void set_fault(Slot fault, Slot step, uint site, uint row)
{
    if (load_u32(fault.at, 0) != 0) return;
    store_u32(fault.at, 0, 1);
    store_u32(fault.at, 1, load_u32(step.at, 0));
    store_u32(fault.at, 2, site);
    store_u32(fault.at, 3, row);
}

void total()
{
    Slot o = slot_of(OUT), work = slot_of(WORK);
    Pair sum = Pair(0, 0);
    uint bad = 0, first = ~0u;
    FOR_LANES (i, push.word[2]) {
        sum = pair_sum(sum, Pair(load_f32(work.at, 4 * i), load_f32(work.at, 4 * i + 1)));
        bad |= load_u32(work.at, 4 * i + 2);
        first = min(first, load_u32(work.at, 4 * i + 3));
    }
    sum = group_pairs(sum);
    bad = group_any(bad);
    first = group_least(first);
    if (gl_LocalInvocationID.x != 0) return;
    if (adds(OUT)) sum = pair_add(sum, load_f32(o.at, 0));
    float v = bad > 1 ? NAN_F : bad == 1 || !is_finite(sum.hi) ? INF_F : sum.hi + sum.lo;
    store_f32(o.at, 0, v);
    if (has(FAULT) && bad != 0) set_fault(slot_of(FAULT), slot_of(STEP), push.a.site, first);
}

void main()
{
    if (S1 == 0)
        parts();
    else
        total();
}
