/* vk_attn_fwd.comp - causal attention by document: o, and lse of every query and head. A workgroup takes a query of a
 * head; vk_attn.glsl says how. S0: dtype. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_attn_args
#define GROUP 64
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"
#include "vk_attn.glsl"

const uint O = 0, LSE = 1, Q = 2, K = 3, V = 4, START = 5;

uint sequence; /* its first row */
uint row_at(uint j) { return sequence + j; }

void main()
{
    Slot o = slot_of(O), lse = slot_of(LSE), q = slot_of(Q), k = slot_of(K), v = slot_of(V), start = slot_of(START);
    uint H = push.a.H, D = push.a.D, share = H / push.a.K;
    FOR_ITEMS (item, push.a.B * push.a.T * H) {
        uint row = item / H, h = item % H, i = row % push.a.T;
        sequence = row - i;
        uint first = first_seen(i, push.a.window, has(START) ? load_i32(start.at, row * start.stride) : 0);
        float l = attend(o, q, row, h * D, k, v, h / share * D, first, i, D, push.a.scale);
        if (gl_LocalInvocationID.x == 0) put(lse, row, h, F32, l);
    }
}
