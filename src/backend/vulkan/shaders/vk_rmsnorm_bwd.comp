/* vk_rmsnorm_bwd.comp - rmsnorm backward, with r as in the forward:
 *   dx = or += r (dy w) - x r^3 mean(dy w x) [+ dres];
 *   dw = sum over groups of dy x r: here sums of parts of the groups, which vk_sums.comp adds up in order.
 *
 * A workgroup takes the groups of a part, one after the other, and an invocation the same columns of each; its sums of
 * dw lie in the scratch, where it alone comes. S0: dtype. Own words: parts, groups of each. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rmsnorm_args
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_reduce.glsl"

const uint DX = 0, DW = 1, DY = 2, X = 3, W = 4, DRES = 5;

Slot dx, dy, x, w, dres, work;

/* Group g, the first of its part or not. */
void backward(uint g, bool begins, uint64_t part)
{
    uint D = push.a.D, row = g / push.a.H, first = g % push.a.H * D;
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
        float v = get(x, row, c, S0), scaled = r * get(dy, row, c, S0);
        float slope = scaled * get(w, 0, d, w.dtype) - v * mean;
        if (has(DRES)) slope += get(dres, row, c, S0);
        put_sum(dx, row, c, S0, adds(DX), slope);
        if (!has(DW)) continue;
        float sum = scaled * v;
        if (!begins) sum += load_f32(part, d);
        store_f32(part, d, sum);
    }
}

void main()
{
    dx = slot_of(DX);
    dy = slot_of(DY);
    x = slot_of(X);
    w = slot_of(W);
    dres = slot_of(DRES);
    work = slot_of(WORK);
    uint groups = push.a.N * push.a.H;
    FOR_ITEMS (part, push.word[2]) {
        uint begin = part * push.word[3], end = min(groups, begin + push.word[3]);
        for (uint g = begin; g < end; g++) backward(g, g == begin, work.at + 4ul * part * push.a.D);
    }
}
