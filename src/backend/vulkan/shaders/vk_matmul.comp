/* vk_matmul.comp - out = or += alpha op(a) op(b) + bias, f32 sums. A workgroup takes tiles of 64 by 64, an invocation
 * 4 by 4 of them in registers; K goes through shared memory 16 at a time, and each sixteen are added up by themselves
 * before they join the sum, so that its error grows with K / 16. b may be quantised: its values are taken out of the
 * blocks on the way into shared memory.
 *
 * S0: dtype of a; S1: of b; S2: 1: scales (vk_matmul_out.glsl). */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define ARGS rt_matmul_args
#define GROUP 256
#include "vk_common.glsl"
#include "vk_quant.glsl"
#include "vk_matmul_out.glsl"

const uint TILE = 64, DEPTH = 16, OWN = 4, SIDE = TILE / OWN;
const uint BAND = 8; /* tiles one below the other, which come before those beside them: what they read stays cached */

shared float a_tile[DEPTH][TILE + 1], b_tile[DEPTH][TILE + 1];

/* Neighbours in memory go to neighbouring invocations. */
void fetch(Slot a, Slot b, uint m0, uint n0, uint k0)
{
    FOR_LANES (i, TILE * DEPTH) {
        uint k = push.a.ta != 0 ? i / TILE : i % DEPTH, m = push.a.ta != 0 ? i % TILE : i / DEPTH;
        bool inside = m0 + m < push.a.M && k0 + k < push.a.K;
        uint row = push.a.ta != 0 ? k0 + k : m0 + m, col = push.a.ta != 0 ? m0 + m : k0 + k;
        a_tile[k][m] = inside ? get_value(a, row, col, S0) : 0.0;
    }
    FOR_LANES (i, TILE * DEPTH) {
        uint k = push.a.tb == 0 ? i / TILE : i % DEPTH, n = push.a.tb == 0 ? i % TILE : i / DEPTH;
        bool inside = n0 + n < push.a.N && k0 + k < push.a.K;
        uint row = push.a.tb == 0 ? k0 + k : n0 + n, col = push.a.tb == 0 ? n0 + n : k0 + k;
        b_tile[k][n] = inside ? get_value(b, row, col, S1) : 0.0;
    }
}

void main()
{
    Slot o = slot_of(OUT), a = slot_of(A), b = slot_of(B);
    uint across = (push.a.N + TILE - 1) / TILE, down = (push.a.M + TILE - 1) / TILE;
    uint tm = gl_LocalInvocationID.x / SIDE, tn = gl_LocalInvocationID.x % SIDE;
    FOR_ITEMS (item, across * down) {
        uint band = item / (BAND * across) * BAND, of_band = item % (BAND * across), height = min(BAND, down - band);
        uint m0 = (band + of_band % height) * TILE, n0 = of_band / height * TILE;
        float sum[OWN][OWN];
        [[unroll]] for (uint i = 0; i < OWN; i++)
            [[unroll]] for (uint j = 0; j < OWN; j++) sum[i][j] = 0;
        for (uint k0 = 0; k0 < push.a.K; k0 += DEPTH) {
            float some[OWN][OWN];
            [[unroll]] for (uint i = 0; i < OWN; i++)
                [[unroll]] for (uint j = 0; j < OWN; j++) some[i][j] = 0;
            barrier();
            fetch(a, b, m0, n0, k0);
            barrier();
            [[unroll]] for (uint k = 0; k < DEPTH; k++) {
                float x[OWN], y[OWN];
                [[unroll]] for (uint i = 0; i < OWN; i++) {
                    x[i] = a_tile[k][tm + SIDE * i];
                    y[i] = b_tile[k][tn + SIDE * i];
                }
                [[unroll]] for (uint i = 0; i < OWN; i++)
                    [[unroll]] for (uint j = 0; j < OWN; j++) some[i][j] += x[i] * y[j];
            }
            [[unroll]] for (uint i = 0; i < OWN; i++)
                [[unroll]] for (uint j = 0; j < OWN; j++) sum[i][j] += some[i][j];
        }
        [[unroll]] for (uint i = 0; i < OWN; i++)
            [[unroll]] for (uint j = 0; j < OWN; j++) finish(o, m0 + tm + SIDE * i, n0 + tn + SIDE * j, sum[i][j]);
    }
}
