/* vk_attn_bwd.comp - gradients of attention, with p_ij = exp(scale q_i.k_j - lse_i), delta_i = do_i.o_i:
 *   ds_ij = p_ij (do_i.v_j - delta_i);  dq_i = scale sum_j ds_ij k_j;
 *   dk_j = scale sum_i ds_ij q_i;  dv_j = sum_i p_ij do_i, over the queries of all heads that share key head of j.
 *
 * Three steps, S1: 0 delta of every query and head into the scratch; 1 dq, a workgroup for a query of a head; 2 dk and
 * dv, a workgroup for a key of a key head. An invocation has one partner of a block, then columns. p is computed again
 * in both, so no sum meets another's. S0: dtype. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_attn_args
#define GROUP 64
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"

const uint DQ = 0, DK = 1, DV = 2, DO = 3, Q = 4, K = 5, V = 6, O = 7, LSE = 8, START = 9;
const uint COLUMNS = 8, D_MOST = COLUMNS * GROUP;

shared float mine_a[D_MOST], mine_b[D_MOST], weight_a[GROUP], weight_b[GROUP];

uint first_of(uint row)
{
    Slot start = slot_of(START);
    uint i = row % push.a.T, window = push.a.window;
    int from = has(START) ? load_i32(start.at, row * start.stride) : 0;
    uint first = from > 0 ? uint(from) : 0;
    return window != 0 && i >= window ? max(first, i - window + 1) : first;
}

float dot_with_a(Slot x, uint row, uint col)
{
    float some[2] = float[](0.0, 0.0);
    for (uint d = 0; d < push.a.D; d++) some[d % 2] += mine_a[d] * get(x, row, col + d, S0);
    return some[0] + some[1];
}
float dot_with_b(Slot x, uint row, uint col)
{
    float some[2] = float[](0.0, 0.0);
    for (uint d = 0; d < push.a.D; d++) some[d % 2] += mine_b[d] * get(x, row, col + d, S0);
    return some[0] + some[1];
}

void deltas()
{
    Slot d_o = slot_of(DO), o = slot_of(O), work = slot_of(WORK);
    FOR_ITEMS (item, push.a.B * push.a.T * push.a.H) {
        uint row = item / push.a.H, col = item % push.a.H * push.a.D;
        float sum = 0;
        FOR_LANES (d, push.a.D)
            sum += get(d_o, row, col + d, S0) * get(o, row, col + d, S0);
        sum = group_sum(sum);
        if (gl_LocalInvocationID.x == 0) store_f32(work.at, item, sum);
    }
}

/* Rows of two operands that all invocations need. */
void share(Slot a, uint a_row, uint a_col, Slot b, uint b_row, uint b_col)
{
    barrier();
    FOR_LANES (d, push.a.D) {
        mine_a[d] = get(a, a_row, a_col + d, S0);
        mine_b[d] = get(b, b_row, b_col + d, S0);
    }
    barrier();
}

void queries()
{
    Slot dq = slot_of(DQ), k = slot_of(K), v = slot_of(V), lse = slot_of(LSE), work = slot_of(WORK);
    uint H = push.a.H, D = push.a.D, t = gl_LocalInvocationID.x;
    FOR_ITEMS (item, push.a.B * push.a.T * H) {
        uint row = item / H, h = item % H, kv = h / (H / push.a.K) * D, i = row % push.a.T, base = row - i;
        float sums[COLUMNS], l = get(lse, row, h, F32), delta = load_f32(work.at, item);
        for (uint c = 0; c < COLUMNS; c++) sums[c] = 0;
        share(slot_of(Q), row, h * D, slot_of(DO), row, h * D);
        for (uint j0 = first_of(row); j0 <= i; j0 += GROUP) {
            uint n = min(uint(GROUP), i - j0 + 1);
            float ds = 0;
            if (t < n) {
                float p = exp_of(push.a.scale * dot_with_a(k, base + j0 + t, kv) - l);
                ds = p * (dot_with_b(v, base + j0 + t, kv) - delta);
            }
            barrier();
            weight_a[t] = ds;
            barrier();
            for (uint c = 0; c < COLUMNS && t + c * GROUP < D; c++) {
                float part = 0;
                for (uint j = 0; j < n; j++) part += weight_a[j] * get(k, base + j0 + j, kv + t + c * GROUP, S0);
                sums[c] += part;
            }
        }
        for (uint c = 0; c < COLUMNS && t + c * GROUP < D; c++)
            put(dq, row, h * D + t + c * GROUP, S0, push.a.scale * sums[c]);
    }
}

/* The queries of one head that see key j: their parts of dk and dv. */
void one_head(uint base, uint j, uint h, inout float sk[COLUMNS], inout float sv[COLUMNS])
{
    Slot q = slot_of(Q), d_o = slot_of(DO), lse = slot_of(LSE), work = slot_of(WORK);
    uint D = push.a.D, t = gl_LocalInvocationID.x, end = push.a.T;
    if (push.a.window != 0) end = min(end, j + push.a.window);
    for (uint i0 = j; i0 < end; i0 += GROUP) {
        uint n = min(uint(GROUP), end - i0), row = base + i0 + t;
        float p = 0, ds = 0;
        if (first_of(base + i0) > j) break; /* what follows begins no earlier */
        if (t < n && first_of(row) <= j) {
            p = exp_of(push.a.scale * dot_with_a(q, row, h * D) - get(lse, row, h, F32));
            ds = p * (dot_with_b(d_o, row, h * D) - load_f32(work.at, uint64_t(row) * push.a.H + h));
        }
        barrier();
        weight_a[t] = ds;
        weight_b[t] = p;
        barrier();
        for (uint c = 0; c < COLUMNS && t + c * GROUP < D; c++) {
            float part_k = 0, part_v = 0;
            for (uint i = 0; i < n; i++) {
                part_k += weight_a[i] * get(q, base + i0 + i, h * D + t + c * GROUP, S0);
                part_v += weight_b[i] * get(d_o, base + i0 + i, h * D + t + c * GROUP, S0);
            }
            sk[c] += part_k;
            sv[c] += part_v;
        }
    }
}

void keys()
{
    Slot dk = slot_of(DK), dv = slot_of(DV);
    uint D = push.a.D, heads = push.a.H / push.a.K, t = gl_LocalInvocationID.x;
    FOR_ITEMS (item, push.a.B * push.a.T * push.a.K) {
        uint row = item / push.a.K, head = item % push.a.K, j = row % push.a.T;
        float sk[COLUMNS], sv[COLUMNS];
        for (uint c = 0; c < COLUMNS; c++) sk[c] = sv[c] = 0;
        share(slot_of(K), row, head * D, slot_of(V), row, head * D);
        for (uint h = head * heads; h < (head + 1) * heads; h++) one_head(row - j, j, h, sk, sv);
        for (uint c = 0; c < COLUMNS && t + c * GROUP < D; c++) {
            put(dk, row, head * D + t + c * GROUP, S0, push.a.scale * sk[c]);
            put(dv, row, head * D + t + c * GROUP, S0, sv[c]);
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
