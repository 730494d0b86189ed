/* vk_embed_bwd.comp - dtable[ids[i]] += dy[i], in order of i, so that no two workgroups write one row.
 *
 * Three steps, S2, with two words for every id in the scratch: 0 they are cleared; 1 each token tells its id that it
 * has it: the first token, and how many there are; 2 a workgroup for a token and 512 columns: that of the first one of
 * an id adds the rows of its tokens, which it looks for until it has them all. S0: dtype of dy; S1: of dtable. */
#version 460
#extension GL_GOOGLE_include_directive : require
#extension GL_EXT_control_flow_attributes : require
#define ARGS rt_embed_args
#include "vk_common.glsl"

const uint DTABLE = 0, DY = 1, IDS = 2;
const uint COLS = 4; /* of an invocation */

layout(buffer_reference, scalar, buffer_reference_align = 8) buffer OfId {
    uint first, count;
};

shared uint found[GROUP / 32];

Slot ids, work;
int id_of(uint i) { return load_i32(ids.at, i * ids.stride); }
bool is_known(int id) { return id >= 0 && uint(id) < push.a.V; }
OfId of_id(uint id) { return OfId(work.at + 8ul * id); }

void clear()
{
    for (uint64_t i = gl_GlobalInvocationID.x; i < push.a.V; i += gl_NumWorkGroups.x * GROUP) {
        of_id(uint(i)).first = ~0u;
        of_id(uint(i)).count = 0;
    }
}

void tell()
{
    for (uint64_t i = gl_GlobalInvocationID.x; i < push.a.N; i += gl_NumWorkGroups.x * GROUP) {
        int id = id_of(uint(i));
        if (!is_known(id)) continue;
        atomicMin(of_id(uint(id)).first, uint(i));
        atomicAdd(of_id(uint(id)).count, 1u);
    }
}

/* found = which of the tokens from `from` on have the id, a bit each. */
void find(int id, uint from)
{
    uint t = gl_LocalInvocationID.x;
    barrier();
    if (t < GROUP / 32) found[t] = 0;
    barrier();
    if (from + t < push.a.N && id_of(from + t) == id) atomicOr(found[t / 32], 1u << t % 32);
    barrier();
}

void add_rows(Slot dtable, Slot dy, uint i, int id, uint first)
{
    float sum[COLS];
    uint left = of_id(uint(id)).count;
    [[unroll]] for (uint c = 0; c < COLS; c++)
        sum[c] = first + c * GROUP < push.a.C ? get(dtable, uint(id), first + c * GROUP, S1) : 0.0;
    for (uint from = i; left > 0; from += GROUP) {
        find(id, from);
        for (uint w = 0; w < GROUP / 32; w++)
            for (uint bits = found[w]; bits != 0; bits &= bits - 1) {
                uint row = from + 32 * w + uint(findLSB(bits));
                left--;
                [[unroll]] for (uint c = 0; c < COLS; c++)
                    if (first + c * GROUP < push.a.C) sum[c] += get(dy, row, first + c * GROUP, S0);
            }
    }
    [[unroll]] for (uint c = 0; c < COLS; c++)
        if (first + c * GROUP < push.a.C) put(dtable, uint(id), first + c * GROUP, S1, sum[c]);
}

void add()
{
    Slot dtable = slot_of(DTABLE), dy = slot_of(DY);
    uint parts = (push.a.C + PART - 1) / PART;
    FOR_ITEMS (item, push.a.N * parts) {
        uint i = item / parts;
        int id = id_of(i);
        if (!is_known(id) || of_id(uint(id)).first != i) continue;
        add_rows(dtable, dy, i, id, item % parts * PART + gl_LocalInvocationID.x);
    }
}

void main()
{
    ids = slot_of(IDS);
    work = slot_of(WORK);
    if (S2 == 0)
        clear();
    else if (S2 == 1)
        tell();
    else
        add();
}
