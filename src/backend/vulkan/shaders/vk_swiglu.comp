/* vk_swiglu.comp - y = g sigmoid(g) u, and its gradients. With s = sigmoid(g):
 *   dg = dy u (s + g s (1 - s)), du = dy g s, and y again where it is asked for.
 *
 * S0: dtype of all; S1: 0 forward, 1 backward, 2 forward into codes, for which a workgroup takes a row. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_swiglu_args
#include "vk_common.glsl"
#include "vk_coded.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"

const uint Y = 0, SCALE = 1, G = 2, U = 3;                /* forward */
const uint DG = 0, DU = 1, Y_AGAIN = 2, DY = 3, BG = 4, BU = 5; /* backward */

float sigmoid(float x) { return quotient(1.0, 1.0 + exp_of(-x)); }
float gated(float g, float u) { return g * sigmoid(g) * u; }

void forward()
{
    Slot y = slot_of(Y), g = slot_of(G), u = slot_of(U);
    FOR_ELEMENTS (row, col)
        put(y, row, col, S0, gated(get(g, row, col, S0), get(u, row, col, S0)));
}

/* sigmoid(x), and 1 - sigmoid(x) without its cancellation */
vec2 both_sigmoids(float x)
{
    float t = exp_of(-abs(x)), d = quotient(1.0, 1.0 + t);
    return x < 0 ? vec2(t * d, d) : vec2(d, t * d);
}

void backward()
{
    Slot dg = slot_of(DG), du = slot_of(DU), y = slot_of(Y_AGAIN), dy = slot_of(DY), g = slot_of(BG), u = slot_of(BU);
    FOR_ELEMENTS (row, col) {
        float gv = get(g, row, col, S0), uv = get(u, row, col, S0), d = get(dy, row, col, S0);
        vec2 s = both_sigmoids(gv);
        float gated_one = gv * s.x;
        put(dg, row, col, S0, d * uv * (s.x + gated_one * s.y));
        put(du, row, col, S0, d * gated_one);
        if (has(Y_AGAIN)) put(y, row, col, S0, gated_one * uv);
    }
}

void coded()
{
    Slot y = slot_of(Y), scales = slot_of(SCALE), g = slot_of(G), u = slot_of(U);
    FOR_ITEMS (row, push.a.N) {
        uint most = 0;
        FOR_LANES (col, push.a.F)
            most = max(most, magnitude_bits(rounded(gated(get(g, row, col, S0), get(u, row, col, S0)), S0)));
        float scale = coded_scale(group_most(most)), inverse = coded_inverse(scale);
        FOR_LANES (col, push.a.F)
            put(y, row, col, E4M3, rounded(gated(get(g, row, col, S0), get(u, row, col, S0)), S0) * inverse);
        if (gl_LocalInvocationID.x == 0) put(scales, row, 0, F32, scale);
    }
}

void main()
{
    if (S1 == 0)
        forward();
    else if (S1 == 1)
        backward();
    else
        coded();
}
