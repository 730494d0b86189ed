/* vk_matmul_few.comp - out = or += alpha a b' + bias for a few rows of a: b is read once, and that is the cost. A
 * workgroup takes 4 rows of b and up to 8 of a, an invocation every 128th column of those; the sums of all meet in a
 * fixed tree. A row of out is the same whatever the other rows hold.
 *
 * S0: dtype of a; S1: of b, which may be quantised; S2 bit 0: scales (vk_matmul_out.glsl), above it: rows of a but
 * one. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define ARGS rt_matmul_args
#include "vk_common.glsl"
#include "vk_quant.glsl"
#include "vk_matmul_out.glsl"

#define FEW ((S2 >> 1) + 1)
const uint WEIGHTS = 4, MOST = 8;

shared float tree[MOST][GROUP];

float sum[WEIGHTS][FEW];

/* The sums over the workgroup of row n of b with all of a: tree[m][0]. */
void add_up(uint n)
{
    uint t = gl_LocalInvocationID.x;
    barrier();
    [[unroll]] for (uint m = 0; m < FEW; m++) tree[m][t] = sum[n][m];
    for (uint half_of = GROUP / 2; half_of > 0; half_of /= 2) {
        barrier();
        [[unroll]] for (uint m = 0; m < FEW; m++)
            if (t < half_of) tree[m][t] += tree[m][t + half_of];
    }
    barrier();
}

void main()
{
    Slot o = slot_of(OUT), a = slot_of(A), b = slot_of(B);
    uint down = (push.a.M + FEW - 1) / FEW, across = (push.a.N + WEIGHTS - 1) / WEIGHTS, t = gl_LocalInvocationID.x;
    FOR_ITEMS (item, down * across) {
        uint m0 = item % down * FEW, n0 = item / down * WEIGHTS;
        [[unroll]] for (uint n = 0; n < WEIGHTS; n++)
            [[unroll]] for (uint m = 0; m < FEW; m++) sum[n][m] = 0;
        FOR_LANES (k, push.a.K) {
            float x[FEW];
            [[unroll]] for (uint m = 0; m < FEW; m++) x[m] = m0 + m < push.a.M ? get_value(a, m0 + m, k, S0) : 0.0;
            [[unroll]] for (uint n = 0; n < WEIGHTS; n++) {
                float w = n0 + n < push.a.N ? get_value(b, n0 + n, k, S1) : 0.0;
                [[unroll]] for (uint m = 0; m < FEW; m++) sum[n][m] += w * x[m];
            }
        }
        [[unroll]] for (uint n = 0; n < WEIGHTS; n++) {
            add_up(n);
            if (t < FEW) finish(o, m0 + t, n0 + n, tree[t][0]);
        }
    }
}
