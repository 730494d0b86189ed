/* vk_kd_sums.comp - sums = or += the figures of all positions, and the fault of the first that is unsound. One
 * workgroup, behind vk_kd.comp. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_kd_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"
#include "vk_pairs.glsl"

const uint SUMS = 1, FAULT = 5, STEP = 7;

void main()
{
    Slot sums = slot_of(SUMS), fault = slot_of(FAULT), work = slot_of(WORK);
    uint first = ~0u;
    if (gl_WorkGroupID.x != 0) return;
    for (uint i = 0; i < 4; i++) {
        Pair sum = Pair(0, 0);
        float plain = 0; /* what is not finite comes out of it */
        FOR_LANES (row, push.a.N) {
            float v = load_f32(work.at, 8ul * row + i);
            sum = pair_add(sum, v);
            plain += v;
            if (load_u32(work.at, 8ul * row + 4) != 0) first = min(first, row);
        }
        sum = group_pairs(sum);
        plain = group_sum(plain);
        if (gl_LocalInvocationID.x != 0) continue;
        if (adds(SUMS)) {
            plain += load_f32(sums.at, i);
            sum = pair_add(sum, load_f32(sums.at, i));
        }
        store_f32(sums.at, i, is_finite(plain) ? sum.hi + sum.lo : plain);
    }
    first = group_least(first);
    if (gl_LocalInvocationID.x != 0 || first == ~0u || load_u32(fault.at, 0) != 0) return;
    store_u32(fault.at, 0, 1);
    store_u32(fault.at, 1, load_u32(slot_of(STEP).at, 0));
    store_u32(fault.at, 2, push.a.site);
    store_u32(fault.at, 3, first);
}
