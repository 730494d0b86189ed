/* vk_adamw.comp - AdamW. With t the step and g = grad gscale:
 *   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *   w = w - lr (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + weight_decay w)
 * A workgroup takes a block of 128 elements of a row, which is what moments of 8 bits share an exponent over; an
 * invocation an element of it. Powers of b are carried in two floats. Nothing is done once the fault is set.
 *
 * S0: dtype of the parameter; S1: of the gradient; S2: of the moments, which are rounded by chance: num/moment.h. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_adamw_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_random.glsl"
#include "vk_reduce.glsl"

const uint PARAM = 0, MASTER = 1, M = 2, V = 3, EXPS = 4, GRAD = 5, STEP = 6, GSCALE = 7, FAULT = 8;
const uint M_TOP = 17, V_TOP = 33;

/* 1 - b^t */
float left_of(float b, uint t)
{
    Pair power = Pair(1, 0), square = Pair(b, 0);
    for (; t > 0; t /= 2) {
        if ((t & 1) != 0) power = pair_product(power, square);
        square = pair_product(square, square);
    }
    Pair d = two_sum(1.0, -power.hi);
    return d.hi + (d.lo - power.lo);
}

/* ---- moments in 8 bits ---- */

uint exponent_of(float most, uint top)
{
    uint u = floatBitsToUint(most) & 0x7fffffffu, e = (u + 0xfffffu) >> 23;
    return u == 0 ? 0 : e >= 255 ? 255 : e <= top ? 1 : e - top;
}
float value_of(uint code, uint e)
{
    float quanta = code < 8 ? float(code) : uintBitsToFloat((129u << 23) + (code << 20));
    return quanta * uintBitsToFloat(e << 23);
}
float value_of_m(uint c, uint e) { return (c & 0x80u) != 0 ? -value_of(c & 0x7fu, e) : value_of(c, e); }
uint code_of(float x, uint e, uint chance)
{
    if (e == 0 || e == 255) return 0;
    precise float quanta = x * uintBitsToFloat((254 - e) << 23);
    uint below = quanta < 8 ? 8 : 0;
    precise float lifted = quanta + float(below);
    return ((floatBitsToUint(lifted) + (chance << 4 | 8)) >> 20) - (129u << 3) - below;
}
uint code_of_m(float x, uint e, uint chance)
{
    uint sign = floatBitsToUint(x) >> 31, code = code_of(abs(x), e, chance);
    return code != 0 ? sign << 7 | code : 0;
}
uint code_of_v(float x, uint e, uint chance)
{
    uint code = code_of(x, e, chance);
    return code == 0 && x > 0 && e != 0 && e != 255 ? 1 : code;
}

uint bf16_by_chance(float x, uint chance)
{
    return is_finite(x) ? (floatBitsToUint(x) + chance) >> 16 & 0xffffu : to_bf16(x);
}

float old_moment(Slot x, uint row, uint col, uint which)
{
    if (S2 != U8) return get(x, row, col, S2);
    Slot exps = slot_of(EXPS);
    uint e = load_u8(exps.at, row * exps.stride + 2 * (col / 128) + which), c = load_u8(x.at, row * x.stride + col);
    return which == 0 ? value_of_m(c, e) : value_of(c, e);
}

void store_moments(uint row, uint col, bool mine, float m, float v, uint chance)
{
    Slot ms = slot_of(M), vs = slot_of(V), exps = slot_of(EXPS);
    if (S2 == U8) {
        uint em = group_most(mine ? exponent_of(m, M_TOP) : 0), ev = group_most(mine ? exponent_of(v, V_TOP) : 0);
        if (mine) {
            store_u8(ms.at, row * ms.stride + col, code_of_m(m, em, chance & 0xffffu));
            store_u8(vs.at, row * vs.stride + col, code_of_v(v, ev, chance >> 16));
        }
        if (mine && col % 128 == 0) {
            store_u8(exps.at, row * exps.stride + 2 * (col / 128), em);
            store_u8(exps.at, row * exps.stride + 2 * (col / 128) + 1, ev);
        }
    } else if (mine && S2 == BF16) {
        At16(ms.at + 2 * (row * ms.stride + col)).v = uint16_t(bf16_by_chance(m, chance & 0xffffu));
        At16(vs.at + 2 * (row * vs.stride + col)).v = uint16_t(bf16_by_chance(v, chance >> 16));
    } else if (mine) {
        put(ms, row, col, F32, m);
        put(vs, row, col, F32, v);
    }
}

void main()
{
    Slot param = slot_of(PARAM), master = slot_of(MASTER), ms = slot_of(M), vs = slot_of(V), grad = slot_of(GRAD);
    Slot step = slot_of(STEP);
    if (has(FAULT) && load_u32(slot_of(FAULT).at, 0) != 0) return;
    float b1 = push.a.beta1, b2 = push.a.beta2, gscale = has(GSCALE) ? load_f32(slot_of(GSCALE).at, 0) : 1.0;
    float of_g = 1.0 - b1, of_square = 1.0 - b2;
    uint t = load_u32(step.at, STEP_NUMBER), blocks = (push.a.C + 127) / 128;
    float m_left = left_of(b1, t), v_left = left_of(b2, t), lr = load_f32(step.at, STEP_LR);
    uvec2 seed = step_seed(step), stream = uvec2(t, 0x80000000u | push.a.stream);
    FOR_ITEMS (item, push.a.N * blocks) {
        uint row = item / blocks, col = item % blocks * 128 + gl_LocalInvocationID.x, chance = 0;
        bool mine = col < push.a.C;
        float m = 0, v = 0;
        if (mine) {
            float g = get(grad, row, col, S1) * gscale;
            m = b1 * old_moment(ms, row, col, 0) + of_g * g;
            v = b2 * old_moment(vs, row, col, 1) + of_square * g * g;
            float w = has(MASTER) ? get(master, row, col, F32) : get(param, row, col, S0);
            w -= lr * (quotient(quotient(m, m_left), root(quotient(v, v_left)) + push.a.eps) + push.a.weight_decay * w);
            if (has(MASTER)) put(master, row, col, F32, w);
            put(param, row, col, S0, w);
            if (S2 != F32) chance = philox(seed, stream, uvec2(col / 4, push.a.row + row))[col % 4];
        }
        store_moments(row, col, mine, m, v, chance);
    }
}
