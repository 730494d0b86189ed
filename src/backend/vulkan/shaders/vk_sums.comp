/* vk_sums.comp - sums over rows, in two steps of a fixed order: parts of the rows into the scratch, then the parts.
 *
 * S1: 0: parts (P,C) of dy (N,C), whose dtype is S0; 1: out (1,C) = or += the parts, out being slot S2. Own words: P;
 * rows of a part, or the place of the parts in the scratch. An invocation takes a column. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rows_args
#include "vk_common.glsl"

const uint DB = 0, DY = 1;

void parts()
{
    Slot dy = slot_of(DY), work = slot_of(WORK);
    uint C = push.a.C, strips = (C + GROUP - 1) / GROUP;
    FOR_ITEMS (item, push.word[2] * strips) {
        uint part = item / strips, c = item % strips * GROUP + gl_LocalInvocationID.x;
        uint end = min(push.a.N, (part + 1) * push.word[3]);
        if (c >= C) continue;
        float sum = 0;
        for (uint row = part * push.word[3]; row < end; row++) sum += get(dy, row, c, S0);
        store_f32(work.at, uint64_t(part) * C + c, sum);
    }
}

void total()
{
    Slot db = slot_of(S2), work = slot_of(WORK);
    uint C = db.cols, strips = (C + GROUP - 1) / GROUP;
    FOR_ITEMS (item, strips) {
        uint c = item * GROUP + gl_LocalInvocationID.x;
        if (c >= C) continue;
        float sum = 0;
        for (uint part = 0; part < push.word[2]; part++)
            sum += load_f32(work.at, push.word[3] + uint64_t(part) * C + c);
        put_sum(db, 0, c, db.dtype, adds(S2), sum);
    }
}

void main()
{
    if (S1 == 0)
        parts();
    else
        total();
}
