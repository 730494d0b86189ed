/* vk_rows.comp - the plain row ops: add, scale, cast, fill. One element at a time, in any order.
 *
 * S0: which; S1: dtype of y; S2: of x. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rows_args
#include "vk_common.glsl"

const uint Y = 0, X = 1, B = 2;
const uint ADD = 0, SCALE = 1, CAST = 2, FILL = 3;

void main()
{
    Slot y = slot_of(Y), x = slot_of(X), b = slot_of(B);
    float factor = push.a.alpha;
    if (S0 == SCALE && has(B)) factor *= load_f32(b.at, 0);
    FOR_ELEMENTS (row, col) {
        float v = S0 == FILL ? push.a.alpha : get(x, row, col, S2);
        if (S0 == ADD) v += get(b, row, col, S2);
        if (S0 == SCALE) v *= factor;
        put(y, row, col, S1, v);
    }
}
