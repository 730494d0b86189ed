/* vk_clip.comp - norm = sqrt(nsq); scale = min(1, max_norm / (norm + 1e-6)), 1 without a limit. A norm that is not
 * finite is a fault, and its scale is 0. One invocation does it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_clip_args
#include "vk_common.glsl"
#include "vk_math.glsl"

const uint SCALE = 0, NORM = 1, NSQ = 2, FAULT = 3, STEP = 4;

void main()
{
    if (gl_GlobalInvocationID.x != 0) return;
    Slot scale = slot_of(SCALE), norm = slot_of(NORM), fault = slot_of(FAULT), step = slot_of(STEP);
    float nsq = load_f32(slot_of(NSQ).at, 0), v = is_finite(nsq) && nsq >= 0 ? root(nsq) : nsq < 0 ? NAN_F : nsq;
    store_f32(norm.at, 0, v);
    float by = push.a.max_norm > 0 ? min(1.0, quotient(push.a.max_norm, v + 1e-6)) : 1.0;
    store_f32(scale.at, 0, is_finite(v) ? by : 0.0);
    if (is_finite(v) || !has(FAULT) || load_u32(fault.at, 0) != 0) return;
    store_u32(fault.at, 0, 1);
    store_u32(fault.at, 1, load_u32(step.at, 0));
    store_u32(fault.at, 2, push.a.site);
    store_u32(fault.at, 3, 0);
}
