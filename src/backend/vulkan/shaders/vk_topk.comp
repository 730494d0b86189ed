/* vk_topk.comp - the k most likely ids of a row with their log-probabilities at temperature T over Vc, and the mass
 * that is left. A workgroup takes a row and finds the ids one after the other: each is the first, in order of value
 * and then id, behind the one before it. S0: dtype of x. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_topk_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"

const uint ID = 0, LOGP = 1, REST = 2, X = 3, VMASK = 4;

Slot x, vmask;
bool in_vc(uint v) { return !has(VMASK) || (load_u32(vmask.at, v / 32) >> v % 32 & 1) != 0; }

/* Does (a, v) come behind (b, w)? */
bool behind(float a, uint v, float b, uint w) { return a != b ? a < b : v > w; }

/* The first behind (last, id); ~0 when there is none. */
uint next_id(uint row, inout float last, uint id, bool any)
{
    float most = -INF_F;
    uint least = ~0u;
    FOR_LANES (v, push.a.V)
        if (in_vc(v) && (any || behind(get(x, row, v, S0), v, last, id))) most = max(most, get(x, row, v, S0));
    most = group_max(most);
    FOR_LANES (v, push.a.V)
        if (in_vc(v) && get(x, row, v, S0) == most && (any || behind(most, v, last, id))) least = min(least, v);
    last = most;
    return group_least(least);
}

void main()
{
    Slot ids = slot_of(ID), logps = slot_of(LOGP), rests = slot_of(REST);
    float inverse_T = quotient(1.0, push.a.T);
    x = slot_of(X);
    vmask = slot_of(VMASK);
    FOR_ITEMS (row, push.a.N) {
        uint bad = 0, id = 0, t = gl_LocalInvocationID.x;
        FOR_LANES (v, push.a.V)
            if (in_vc(v) && !is_finite(get(x, row, v, S0))) bad = 1;
        bad = group_any(bad);
        float last = 0, most = 0, sum = 0, left = 0;
        for (uint j = 0; j < push.a.k; j++) {
            if (bad == 0 && id != ~0u) id = next_id(row, last, id, j == 0);
            if (j == 0 && bad == 0) {
                most = last;
                FOR_LANES (v, push.a.V)
                    if (in_vc(v)) sum += exp_of((get(x, row, v, S0) - most) * inverse_T);
                sum = group_sum(sum);
            }
            bool none = bad != 0 || id == ~0u;
            if (t != 0) continue;
            store_u32(ids.at, row * ids.stride + j, none ? ~0u : id);
            put(logps, row, j, F32, bad != 0 ? NAN_F : none ? -INF_F : (last - most) * inverse_T - log_of(sum));
        }
        FOR_LANES (v, push.a.V)
            if (bad == 0 && id != ~0u && in_vc(v) && behind(get(x, row, v, S0), v, last, id))
                left += exp_of((get(x, row, v, S0) - most) * inverse_T);
        left = group_sum(left);
        if (t == 0) put(rests, row, 0, F32, bad != 0 ? NAN_F : sum == 0 ? 0.0 : quotient(left, sum));
    }
}
