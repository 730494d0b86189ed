/* vk_dropout.comp - y = or += x / (1 - p) where an element is kept, 0 x where it is dropped; op/args.h says which are.
 * S0: dtype. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_dropout_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_random.glsl"

const uint Y = 0, X = 1, STEP = 2;

void main()
{
    Slot y = slot_of(Y), x = slot_of(X), step = slot_of(STEP);
    uvec2 seed = step_seed(step), stream = uvec2(load_u32(step.at, STEP_NUMBER), push.a.stream);
    uint below = uint(push.a.p * 4294967296.0), first = load_u32(step.at, STEP_ROW);
    Pair left = two_sum(1.0, -push.a.p);
    float once = 1.0 / left.hi, scale = once - once * (left.lo / left.hi);
    FOR_ELEMENTS (row, col) {
        bool kept = philox(seed, stream, uvec2(col / 4, first + row))[col % 4] >= below;
        put_sum(y, row, col, S0, adds(Y), (kept ? scale : 0.0) * get(x, row, col, S0));
    }
}
