/* vk_rmsnorm.comp - rmsnorm forward: y = x r w, r = 1 / sqrt(mean(x^2) + eps) over groups of D columns; alone, or of
 * h = x + res. A workgroup takes a group.
 *
 * S0: dtype of x; S1: 1: with the residual sum; S2: 1: y is codes. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rmsnorm_args
#include "vk_common.glsl"
#include "vk_coded.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"

const uint Y = 0, SCALE = 1;
const uint H_OUT = 2, RES = 4; /* with the sum */

Slot x_at, res_at;
float input_at(uint row, uint col)
{
    float v = get(x_at, row, col, S0);
    return S1 != 0 ? v + get(res_at, row, col, S0) : v;
}

void main()
{
    Slot y = slot_of(Y), scales = slot_of(SCALE), h = slot_of(H_OUT), w = slot_of(S1 != 0 ? 5 : 3);
    uint D = push.a.D;
    x_at = slot_of(S1 != 0 ? 3 : 2);
    res_at = slot_of(RES);
    FOR_ITEMS (item, push.a.N * push.a.H) {
        uint row = item / push.a.H, first = item % push.a.H * D, most = 0;
        float sum = 0;
        FOR_LANES (d, D) {
            float v = input_at(row, first + d);
            sum += v * v;
        }
        float r = quotient(1.0, root(quotient(group_sum(sum), float(D)) + push.a.eps)), inverse = 1.0;
        if (S2 != 0) {
            FOR_LANES (d, D)
                most = max(most, magnitude_bits(rounded(input_at(row, first + d) * r * get(w, 0, d, w.dtype), S0)));
            float scale = coded_scale(group_most(most));
            inverse = coded_inverse(scale);
            if (gl_LocalInvocationID.x == 0) put(scales, row, 0, F32, scale);
        }
        FOR_LANES (d, D) {
            float v = input_at(row, first + d), z = v * r * get(w, 0, d, w.dtype);
            if (S2 != 0)
                put(y, row, first + d, E4M3, rounded(z, S0) * inverse);
            else
                put(y, row, first + d, S0, z);
            if (S1 != 0) put(h, row, first + d, S0, v);
        }
    }
}
