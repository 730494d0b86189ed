/* vk_mix.comp - y = T log([exp(y0 / T)] + w weight softmax(x / T)) over Vc; ref_mix.c has what is nothing and what is
 * unsound. A workgroup takes a row. S0: dtype of y; S1: of x. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_mix_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"

const uint Y = 0, Y0 = 1, X = 2, WEIGHT = 3, VMASK = 4;
const float FLOOR = -61440.0; /* RT_MIX_FLOOR */

Slot vmask;
bool in_vc(uint v) { return v < push.a.U && (!has(VMASK) || (load_u32(vmask.at, v / 32) >> v % 32 & 1) != 0); }

/* b + T log(exp((a - b) / T) + 1), from the larger of both */
float mixed(float a, float b)
{
    float hi = a > b ? a : b, lo = a > b ? b : a;
    return hi + push.a.T * log1p_of(exp_of(quotient(lo - hi, push.a.T)));
}

void main()
{
    Slot y = slot_of(Y), y0 = slot_of(Y0), x = slot_of(X), weights = slot_of(WEIGHT);
    vmask = slot_of(VMASK);
    FOR_ITEMS (row, push.a.N) {
        float w = push.a.w * (has(WEIGHT) ? get(weights, row, 0, F32) : 1.0), most = -INF_F, sum = 0;
        uint bad = uint(!is_finite(w) || w < 0);
        if (w > 0) {
            FOR_LANES (v, push.a.V) {
                if (!in_vc(v)) continue;
                float a = get(x, row, v, S1);
                if (!is_finite(a)) bad = 1;
                most = max(most, a);
            }
            most = group_max(most);
            FOR_LANES (v, push.a.V)
                if (in_vc(v)) sum += exp_of(quotient(get(x, row, v, S1) - most, push.a.T));
            sum = group_sum(sum);
        }
        bad = group_any(bad);
        float shift = push.a.T * (log_of(w) - log_of(sum));
        FOR_LANES (v, push.a.V) {
            float z = has(Y0) ? get(y0, row, v, S0) : FLOOR;
            bool had = !(z <= FLOOR);
            if (!had) z = FLOOR;
            if (in_vc(v) && w != 0) {
                float more = get(x, row, v, S1) - most + shift;
                z = had ? mixed(z, more) : more;
            }
            put(y, row, v, S0, !in_vc(v) ? 0.0 : bad != 0 ? NAN_F : z < FLOOR ? FLOOR : z);
        }
    }
}
