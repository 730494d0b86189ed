/* vk_attn_decode.comp - the newest Q tokens of each sequence over its cache, in rows or in pages. A workgroup takes a
 * query of a head; vk_attn.glsl says how. S0: dtype. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_decode_args
#define GROUP 64
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"
#include "vk_attn.glsl"

const uint O = 0, Q = 1, KC = 2, VC = 3, LEN = 4, TABLE = 5;

uint sequence;
Slot table;
uint row_at(uint j)
{
    if (!has(TABLE)) return sequence * push.a.S + j;
    return uint(load_i32(table.at, sequence * table.stride + j / push.a.page)) * push.a.page + j % push.a.page;
}

void main()
{
    Slot o = slot_of(O), q = slot_of(Q), k = slot_of(KC), v = slot_of(VC), lens = slot_of(LEN);
    uint H = push.a.H, D = push.a.D, share = H / push.a.K;
    table = slot_of(TABLE);
    FOR_ITEMS (item, push.a.B * push.a.Q * H) {
        uint row = item / H, h = item % H;
        sequence = row / push.a.Q;
        int len = load_i32(lens.at, sequence * lens.stride);
        if (len < 0 || uint(len) < push.a.Q || uint(len) > push.a.S) {
            FOR_LANES (d, D)
                put(o, row, h * D + d, S0, NAN_F);
            continue;
        }
        uint i = uint(len) - push.a.Q + row % push.a.Q;
        attend(o, q, row, h * D, k, v, h / share * D, first_seen(i, push.a.window, 0), i, D, push.a.scale);
    }
}
