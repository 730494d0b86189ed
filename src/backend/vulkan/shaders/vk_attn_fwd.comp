/* vk_attn_fwd.comp - causal attention by document: o, and lse of every query and head. A workgroup takes 64 queries of
 * a head and passes over the keys that they see, 32 at a time: scores, the maximum of a row so far, its sums put to
 * the new maximum. Four invocations share a row of weights. S0: dtype; S1: slices of a head but one
 * (vk_attn_tile.glsl). */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define ARGS rt_attn_args
#define GROUP 256
#include "vk_common.glsl"
#define SLICES (S1 + 1)
#include "vk_attn_tile.glsl"
#include "vk_math.glsl"

const uint O = 0, LSE = 1, Q = 2, K = 3, V = 4, START = 5;
const uint QUARTER = COLS / 4; /* of a row of weights, by one invocation */

shared float quarter[GROUP], row_factor[ROWS];

float sums[SLICES][OWN_ROWS][OWN_COLS];

/* What four invocations know of their row: query, keys that it sees, largest score and sum of weights so far. */
struct Query {
    uint first, last;
    float most, total;
};

/* The weights of keys j0.. of all rows from their scores, and what their sums have to be multiplied with. */
void weigh(inout Query q, uint j0)
{
    uint t = gl_LocalInvocationID.x, at = t / 4 * (COLS + 1) + t % 4 * QUARTER, j = j0 + t % 4 * QUARTER;
    float most = -INF_F, total = 0;
    barrier();
    [[unroll]] for (uint k = 0; k < QUARTER; k++)
        if (j + k >= q.first && j + k <= q.last) most = max(most, weight[at + k]);
    quarter[t] = most;
    barrier();
    [[unroll]] for (uint k = 0; k < 4; k++) most = max(most, quarter[t / 4 * 4 + k]);
    most = max(q.most, most);
    barrier();
    [[unroll]] for (uint k = 0; k < QUARTER; k++) {
        bool seen = j + k >= q.first && j + k <= q.last;
        float p = seen ? exp_of(weight[at + k] - most) : 0.0;
        weight[at + k] = p;
        total += p;
    }
    quarter[t] = total;
    float factor = q.most == -INF_F ? 0.0 : exp_of(q.most - most); /* no sum yet: there is nothing to multiply */
    if (t % 4 == 0) row_factor[t / 4] = factor;
    barrier();
    uint row = t / 4 * 4;
    total = (quarter[row] + quarter[row + 1]) + (quarter[row + 2] + quarter[row + 3]);
    q.total = q.total * factor + total;
    q.most = most;
}

void main()
{
    Slot o = slot_of(O), lse = slot_of(LSE), start = slot_of(START);
    uint H = push.a.H, D = push.a.D, T = push.a.T, t = gl_LocalInvocationID.x, n_tiles = tiles();
    FOR_ITEMS (item, push.a.B * H * n_tiles) {
        uint h = item / n_tiles % H, i0 = (n_tiles - 1 - item % n_tiles) * ROWS, base = item / n_tiles / H * T;
        uint n = min(ROWS, T - i0), mine = base + min(i0 + t / 4, T - 1), kv = h / (H / push.a.K) * D;
        Query query = Query(first_seen(start, has(START), mine), mine - base, -INF_F, 0);
        Rows q = Rows(slot_of(Q), base + i0, n, h * D);
        [[unroll]] for (uint s = 0; s < SLICES; s++)
            [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
                [[unroll]] for (uint j = 0; j < OWN_COLS; j++) sums[s][i][j] = 0;
        for (uint j0 = first_seen(start, has(START), base + i0); j0 < i0 + n; j0 += COLS) {
            float score[OWN_ROWS][OWN_COLS], factor[OWN_ROWS];
            uint keys = min(COLS, i0 + n - j0);
            find_scores(q, Rows(slot_of(K), base + j0, keys, kv), score);
            [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
                [[unroll]] for (uint j = 0; j < OWN_COLS; j++) put_weight(i, j, push.a.scale * score[i][j]);
            weigh(query, j0);
            [[unroll]] for (uint i = 0; i < OWN_ROWS; i++) factor[i] = row_factor[lane_y() + 16 * i];
            [[unroll]] for (uint s = 0; s < SLICES; s++) {
                float part[OWN_ROWS][OWN_COLS];
                add_weighted(Rows(slot_of(V), base + j0, keys, kv), s, part);
                [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
                    [[unroll]] for (uint j = 0; j < OWN_COLS; j++)
                        sums[s][i][j] = sums[s][i][j] * factor[i] + part[i][j];
            }
        }
        barrier();
        if (t % 4 == 0) row_factor[t / 4] = query.total;
        if (t % 4 == 0 && t / 4 < n) put(lse, mine, h, F32, query.most + log_of(query.total));
        barrier();
        [[unroll]] for (uint i = 0; i < OWN_ROWS; i++) {
            uint row = lane_y() + 16 * i;
            float total = row_factor[row];
            [[unroll]] for (uint s = 0; s < SLICES; s++)
                [[unroll]] for (uint j = 0; j < OWN_COLS; j++) {
                    uint d = s * WIDE + lane_x() + 16 * j;
                    if (row < n && d < D) put(o, base + i0 + row, h * D + d, S0, quotient(sums[s][i][j], total));
                }
        }
        barrier();
    }
}
