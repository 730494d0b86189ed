/* vk_attn_bwd.comp - gradients of attention, with p_ij = exp(scale q_i.k_j - lse_i), delta_i = do_i.o_i:
 *   ds_ij = p_ij (do_i.v_j - delta_i);  dq_i = scale sum_j ds_ij k_j;
 *   dk_j = scale sum_i ds_ij q_i;  dv_j = sum_i p_ij do_i, over the queries of all heads that share key head of j.
 *
 * Three steps, S1: 0 delta of every query and head into the scratch; 1 dq, a workgroup for 64 queries of a head; 2 dk
 * and dv, a workgroup for 64 keys of a key head. p is computed again in both, so no sum meets another's. S0: dtype;
 * S2: slices of a head but one (vk_attn_tile.glsl). */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define ARGS rt_attn_args
#define GROUP 256
#include "vk_common.glsl"
#define SLICES (S2 + 1)
#include "vk_attn_tile.glsl"
#include "vk_math.glsl"

const uint DQ = 0, DK = 1, DV = 2, DO = 3, Q = 4, K = 5, V = 6, O = 7, LSE = 8, START = 9;

shared float of_lse[ROWS], of_delta[ROWS]; /* of the queries of a tile */
shared uint of_first[ROWS];

float sum_a[SLICES][OWN_ROWS][OWN_COLS], sum_b[SLICES][OWN_ROWS][OWN_COLS];

uint first_of(uint row) { return first_seen(slot_of(START), has(START), row); }

/* Sixteen invocations have a query of a head. */
void deltas()
{
    Slot d_o = slot_of(DO), o = slot_of(O), work = slot_of(WORK);
    uint n = push.a.B * push.a.T * push.a.H, t = gl_LocalInvocationID.x;
    for (uint first = gl_WorkGroupID.x * 16; first < n; first += gl_NumWorkGroups.x * 16) {
        uint item = first + lane_y(), row = item / push.a.H, col = item % push.a.H * push.a.D;
        float sum = 0;
        for (uint d = lane_x(); item < n && d < push.a.D; d += 16)
            sum += get(d_o, row, col + d, S0) * get(o, row, col + d, S0);
        barrier();
        slices[t] = sum;
        for (uint k = 8; k > 0; k /= 2) {
            barrier();
            if (t % 16 < k) slices[t] += slices[t + k];
        }
        if (t % 16 == 0 && item < n) store_f32(work.at, item, slices[t]);
    }
}

void clear()
{
    [[unroll]] for (uint s = 0; s < SLICES; s++)
        [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
            [[unroll]] for (uint j = 0; j < OWN_COLS; j++) sum_a[s][i][j] = sum_b[s][i][j] = 0;
}

/* What is known of queries row.. of head h. */
void share_queries(uint row, uint n, uint h)
{
    Slot lse = slot_of(LSE), work = slot_of(WORK);
    barrier();
    FOR_LANES (i, n) {
        of_first[i] = first_of(row + i);
        of_lse[i] = get(lse, row + i, h, F32);
        of_delta[i] = load_f32(work.at, uint64_t(row + i) * push.a.H + h);
    }
}

float p_of(float score, uint i) { return exp_of(push.a.scale * score - of_lse[i]); }

void queries()
{
    Slot dq = slot_of(DQ);
    uint H = push.a.H, D = push.a.D, T = push.a.T, n_tiles = tiles();
    FOR_ITEMS (item, push.a.B * H * n_tiles) {
        uint h = item / n_tiles % H, i0 = (n_tiles - 1 - item % n_tiles) * ROWS, base = item / n_tiles / H * T;
        uint n = min(ROWS, T - i0), kv = h / (H / push.a.K) * D;
        Rows q = Rows(slot_of(Q), base + i0, n, h * D), d_o = Rows(slot_of(DO), base + i0, n, h * D);
        clear();
        share_queries(base + i0, n, h);
        for (uint j0 = first_of(base + i0); j0 < i0 + n; j0 += COLS) {
            float score[OWN_ROWS][OWN_COLS], slope[OWN_ROWS][OWN_COLS];
            uint keys = min(COLS, i0 + n - j0);
            Rows k = Rows(slot_of(K), base + j0, keys, kv);
            find_scores(q, k, score);
            find_scores(d_o, Rows(slot_of(V), base + j0, keys, kv), slope);
            [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
                [[unroll]] for (uint c = 0; c < OWN_COLS; c++) {
                    uint row = lane_y() + 16 * i, j = j0 + lane_x() + 16 * c;
                    bool seen = row < n && j >= of_first[row] && j <= i0 + row;
                    put_weight(i, c, seen ? p_of(score[i][c], row) * (slope[i][c] - of_delta[row]) : 0.0);
                }
            [[unroll]] for (uint s = 0; s < SLICES; s++) {
                float part[OWN_ROWS][OWN_COLS];
                add_weighted(k, s, part);
                [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
                    [[unroll]] for (uint j = 0; j < OWN_COLS; j++) sum_a[s][i][j] += part[i][j];
            }
        }
        [[unroll]] for (uint s = 0; s < SLICES; s++)
            [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
                [[unroll]] for (uint j = 0; j < OWN_COLS; j++) {
                    uint row = lane_y() + 16 * i, d = s * WIDE + lane_x() + 16 * j;
                    if (row < n && d < D) put(dq, base + i0 + row, h * D + d, S0, push.a.scale * sum_a[s][i][j]);
                }
    }
}

/* The queries of one head that see keys j0..: their parts of dk and dv. */
void one_head(Rows k, Rows v, uint base, uint j0, uint h)
{
    uint D = push.a.D, end = push.a.T, last = j0 + k.count - 1;
    if (push.a.window != 0) end = min(end, last + push.a.window);
    for (uint i0 = j0; i0 < end && first_of(base + i0) <= last; i0 += COLS) { /* what follows begins no earlier */
        float score[OWN_ROWS][OWN_COLS], slope[OWN_ROWS][OWN_COLS], part[OWN_ROWS][OWN_COLS];
        uint n = min(COLS, end - i0);
        Rows q = Rows(slot_of(Q), base + i0, n, h * D), d_o = Rows(slot_of(DO), base + i0, n, h * D);
        share_queries(base + i0, n, h);
        find_scores(k, q, score);
        find_scores(v, d_o, slope);
        [[unroll]] for (uint r = 0; r < OWN_ROWS; r++)
            [[unroll]] for (uint c = 0; c < OWN_COLS; c++) {
                uint i = lane_x() + 16 * c, j = j0 + lane_y() + 16 * r;
                bool seen = i < n && j <= last && j >= of_first[i] && j <= i0 + i;
                float p = seen ? p_of(score[r][c], i) : 0.0;
                put_weight(r, c, p);
                score[r][c] = seen ? p * (slope[r][c] - of_delta[i]) : 0.0;
            }
        [[unroll]] for (uint s = 0; s < SLICES; s++) {
            add_weighted(d_o, s, part);
            [[unroll]] for (uint r = 0; r < OWN_ROWS; r++)
                [[unroll]] for (uint c = 0; c < OWN_COLS; c++) sum_b[s][r][c] += part[r][c];
        }
        barrier();
        [[unroll]] for (uint r = 0; r < OWN_ROWS; r++)
            [[unroll]] for (uint c = 0; c < OWN_COLS; c++) put_weight(r, c, score[r][c]);
        [[unroll]] for (uint s = 0; s < SLICES; s++) {
            add_weighted(q, s, part);
            [[unroll]] for (uint r = 0; r < OWN_ROWS; r++)
                [[unroll]] for (uint c = 0; c < OWN_COLS; c++) sum_a[s][r][c] += part[r][c];
        }
    }
}

void keys()
{
    Slot dk = slot_of(DK), dv = slot_of(DV);
    uint D = push.a.D, T = push.a.T, heads = push.a.H / push.a.K, n_tiles = tiles();
    FOR_ITEMS (item, push.a.B * push.a.K * n_tiles) {
        uint head = item / n_tiles % push.a.K, j0 = item % n_tiles * ROWS, base = item / n_tiles / push.a.K * T;
        uint n = min(ROWS, T - j0);
        Rows k = Rows(slot_of(K), base + j0, n, head * D), v = Rows(slot_of(V), base + j0, n, head * D);
        clear();
        for (uint h = head * heads; h < (head + 1) * heads; h++) one_head(k, v, base, j0, h);
        [[unroll]] for (uint s = 0; s < SLICES; s++)
            [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
                [[unroll]] for (uint j = 0; j < OWN_COLS; j++) {
                    uint row = lane_y() + 16 * i, d = s * WIDE + lane_x() + 16 * j;
                    if (row >= n || d >= D) continue;
                    put(dk, base + j0 + row, head * D + d, S0, push.a.scale * sum_a[s][i][j]);
                    put(dv, base + j0 + row, head * D + d, S0, sum_b[s][i][j]);
                }
    }
}

void main()
{
    if (S1 == 0)
        deltas();
    else if (S1 == 1)
        queries();
    else
        keys();
}
