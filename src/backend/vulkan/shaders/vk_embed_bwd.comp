/* vk_embed_bwd.comp - dtable[ids[i]] += dy[i]. A workgroup takes a token; the first one with an id adds up the rows of
 * all tokens that have it, in order, so that no two workgroups write one row. S0: dtype of dy; S1: of dtable. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_embed_args
#include "vk_common.glsl"
#include "vk_reduce.glsl"

const uint DTABLE = 0, DY = 1, IDS = 2;
const uint COLS = 4; /* of an invocation at a time */

void add_rows(Slot dtable, Slot dy, Slot ids, uint i, int id, uint first)
{
    float sum[COLS];
    for (uint c = 0; c < COLS; c++) sum[c] = 0;
    for (uint k = i; k < push.a.N; k++) {
        if (load_i32(ids.at, k * ids.stride) != id) continue;
        for (uint c = 0; c < COLS; c++)
            if (first + c * GROUP < push.a.C) sum[c] += get(dy, k, first + c * GROUP, S0);
    }
    for (uint c = 0; c < COLS; c++)
        if (first + c * GROUP < push.a.C) put_sum(dtable, uint(id), first + c * GROUP, S1, true, sum[c]);
}

void main()
{
    Slot dtable = slot_of(DTABLE), dy = slot_of(DY), ids = slot_of(IDS);
    FOR_ITEMS (i, push.a.N) {
        int id = load_i32(ids.at, i * ids.stride);
        uint before = 0;
        FOR_LANES (k, i)
            before |= uint(load_i32(ids.at, k * ids.stride) == id);
        before = group_any(before);
        if (id < 0 || uint(id) >= push.a.V || before != 0) continue;
        for (uint first = gl_LocalInvocationID.x; first < push.a.C; first += COLS * GROUP)
            add_rows(dtable, dy, ids, i, id, first);
    }
}
