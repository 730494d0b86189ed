/* vk_embed.comp - y[i] = table[ids[i]]; an id that the table has not gives a row of NaN. S1: dtype of y; S2: of the
 * table. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_embed_args
#include "vk_common.glsl"
#include "vk_quant.glsl"

const uint Y = 0, TABLE = 1, IDS = 2;

void main()
{
    Slot y = slot_of(Y), table = slot_of(TABLE), ids = slot_of(IDS);
    FOR_ELEMENTS (row, col) {
        int id = load_i32(ids.at, row * ids.stride);
        bool known = id >= 0 && uint(id) < push.a.V;
        put(y, row, col, S1, known ? get_value(table, uint(id), col, S2) : NAN_F);
    }
}
