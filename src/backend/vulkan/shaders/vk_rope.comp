/* vk_rope.comp - rotary embedding, half-split pairing: in each head the pair (j, j + D/2) turns by pos freq[j],
 * backward by the opposite angle. An invocation has a pair of columns, in all heads of a row, which share cosine and
 * sine.
 *
 * S0: dtype; S1: 1: backward. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rope_args
#include "vk_common.glsl"
#include "vk_math.glsl"

const uint Y = 0, X = 1, FREQ = 2, POS = 3;

void main()
{
    Slot y = slot_of(Y), x = slot_of(X), freq = slot_of(FREQ), pos = slot_of(POS);
    uint half_of = push.a.D / 2;
    FOR_ELEMENTS (row, j) {
        vec2 cs = rotation(load_i32(pos.at, row * pos.stride), load_f32(freq.at, j)) * push.a.scale;
        if (S1 != 0) cs.y = -cs.y;
        for (uint h = 0; h < push.a.H; h++) {
            uint lo = h * push.a.D + j, hi = lo + half_of;
            float a = get(x, row, lo, S0), b = get(x, row, hi, S0);
            put(y, row, lo, S0, a * cs.x - b * cs.y);
            put(y, row, hi, S0, b * cs.x + a * cs.y);
        }
    }
}
