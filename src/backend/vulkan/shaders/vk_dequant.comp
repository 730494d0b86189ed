/* vk_dequant.comp - y = values of the blocks x, rounded once. S1: dtype of y; S2: of x. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rows_args
#include "vk_common.glsl"
#include "vk_quant.glsl"

void main()
{
    Slot y = slot_of(0), x = slot_of(1);
    FOR_ELEMENTS (row, col)
        put(y, row, col, S1, get_value(x, row, col, S2));
}
