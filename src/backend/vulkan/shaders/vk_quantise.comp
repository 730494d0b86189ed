/* vk_quantise.comp - y = blocks for the values x, of the two types that are plain rounding: q8_0, q4_0, to the bits of
 * num/quant_0.c. An invocation makes a block. S0: dtype of x; S1: of y. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rows_args
#include "vk_common.glsl"
#include "vk_math.glsl"

const uint Y = 0, X = 1;
const uint BLOCK = 32, NAN_F16 = 0x7e00u, INF_F16 = 0x7c00u;

Slot x;
uint row, first;
float value(uint i) { return get(x, row, first + i, S0); }

/* The f16 scale for which `reach` comes to `steps` steps: the nearest, or the next where that leaves reach outside. */
uint scale_for(float reach, float steps)
{
    uint h = to_f16(quotient(reach, steps));
    return h < INF_F16 && reach > (steps + 0.5) * from_f16(h) ? h + 1 : h;
}
int round_within(float t, int bottom, int top)
{
    precise float n = (t + 12582912.0) - 12582912.0; /* 1.5 2^23: to whole numbers, ties to even */
    return clamp(int(n), bottom, top);
}

void put_block(uint64_t at)
{
    uint most = 0, place = 0, h = 0;
    for (uint i = 0; i < BLOCK; i++) {
        uint m = floatBitsToUint(value(i)) & 0x7fffffffu;
        if (m <= most) continue;
        most = m;
        place = i;
    }
    bool fine = most > 0x33000000u && most < 0x4e800000u;
    if (fine) h = scale_for(uintBitsToFloat(most), S1 == Q8_0 ? 127.0 : 8.0);
    if (most >= 0x4e800000u || h >= INF_F16) {
        h = NAN_F16;
        fine = false;
    }
    if (fine && S1 == Q4_0 && value(place) > 0) h |= 0x8000u; /* the largest value takes the longer side */
    At16(at).v = uint16_t(h);
    float d = from_f16(h);
    if (S1 == Q8_0)
        for (uint i = 0; i < BLOCK; i++)
            store_u8(at + 2, i, fine ? uint(round_within(quotient(value(i), d), -127, 127)) & 255u : 0);
    else
        for (uint i = 0; i < BLOCK / 2; i++) {
            uint low = fine ? uint(round_within(quotient(value(i), d), -8, 7) + 8) : 8;
            uint high = fine ? uint(round_within(quotient(value(i + 16), d), -8, 7) + 8) : 8;
            store_u8(at + 2, i, low | high << 4);
        }
}

void main()
{
    Slot y = slot_of(Y);
    uint blocks = push.a.C / BLOCK, bytes = S1 == Q8_0 ? 34 : 18;
    x = slot_of(X);
    for (uint64_t i = gl_GlobalInvocationID.x; i < uint64_t(push.a.N) * blocks; i += gl_NumWorkGroups.x * GROUP) {
        row = uint(i / blocks);
        first = uint(i % blocks) * BLOCK;
        put_block(y.at + (row * (y.stride / BLOCK) + first / BLOCK) * bytes);
    }
}
