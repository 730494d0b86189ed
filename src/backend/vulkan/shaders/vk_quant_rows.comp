/* vk_quant_rows.comp - y = x / scale as e4m3 codes, a scale for each row; a workgroup takes a row. S0: dtype of x. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rows_args
#include "vk_common.glsl"
#include "vk_coded.glsl"
#include "vk_reduce.glsl"

const uint Y = 0, SCALE = 1, X = 2;

void main()
{
    Slot y = slot_of(Y), scales = slot_of(SCALE), x = slot_of(X);
    FOR_ITEMS (row, push.a.N) {
        uint most = 0;
        FOR_LANES (col, push.a.C)
            most = max(most, magnitude_bits(get(x, row, col, S0)));
        float scale = coded_scale(group_most(most)), inverse = coded_inverse(scale);
        FOR_LANES (col, push.a.C)
            put(y, row, col, E4M3, get(x, row, col, S0) * inverse);
        if (gl_LocalInvocationID.x == 0) put(scales, row, 0, F32, scale);
    }
}
