/* vk_rmsnorm_bwd.comp - rmsnorm backward, with r as in the forward:
 *   dx = or += r (dy w) - x r^3 mean(dy w x) [+ dres], a workgroup takes a group;
 *   dw = sum over groups of dy x r: here sums of parts of the groups, which vk_sums.comp adds up in order.
 *
 * S0: dtype; S1: 0: dx, and r of each group into the scratch; 1: parts of dw behind them. Own words: parts, groups of
 * each. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rmsnorm_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"

const uint DX = 0, DW = 1, DY = 2, X = 3, W = 4, DRES = 5;

void gradient_of_x()
{
    Slot dx = slot_of(DX), dy = slot_of(DY), x = slot_of(X), w = slot_of(W), dres = slot_of(DRES), work = slot_of(WORK);
    uint D = push.a.D;
    FOR_ITEMS (item, push.a.N * push.a.H) {
        uint row = item / push.a.H, first = item % push.a.H * D;
        float squares = 0, dots = 0;
        FOR_LANES (d, D) {
            float v = get(x, row, first + d, S0);
            squares += v * v;
            dots += get(dy, row, first + d, S0) * get(w, 0, d, w.dtype) * v;
        }
        float r = quotient(1.0, root(quotient(group_sum(squares), float(D)) + push.a.eps));
        float mean = quotient(group_sum(dots), float(D)) * r * r * r;
        FOR_LANES (d, D) {
            uint c = first + d;
            float g = r * get(dy, row, c, S0) * get(w, 0, d, w.dtype) - get(x, row, c, S0) * mean;
            if (has(DRES)) g += get(dres, row, c, S0);
            put_sum(dx, row, c, S0, adds(DX), g);
        }
        if (has(DW) && gl_LocalInvocationID.x == 0) store_f32(work.at, item, r);
    }
}

void parts_of_dw()
{
    Slot dy = slot_of(DY), x = slot_of(X), work = slot_of(WORK);
    uint D = push.a.D, groups = push.a.N * push.a.H, strips = (D + GROUP - 1) / GROUP;
    FOR_ITEMS (item, push.word[2] * strips) {
        uint part = item / strips, d = item % strips * GROUP + gl_LocalInvocationID.x;
        uint end = min(groups, (part + 1) * push.word[3]);
        if (d >= D) continue;
        float sum = 0;
        for (uint g = part * push.word[3]; g < end; g++) {
            uint row = g / push.a.H, c = g % push.a.H * D + d;
            sum += get(dy, row, c, S0) * get(x, row, c, S0) * load_f32(work.at, g);
        }
        store_f32(work.at, groups + uint64_t(part) * D + d, sum);
    }
}

void main()
{
    if (S1 == 0)
        gradient_of_x();
    else
        parts_of_dw();
}
