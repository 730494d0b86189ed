/* vk_attn.glsl - one query against a run of keys, streaming: scores of a block of keys, the maximum so far, the sums so
 * far put to the new maximum. A workgroup has a query; an invocation a key of each block, then columns of the result.
 *
 * Scores never exist beyond a block of GROUP, and every sum has one order. */
#ifndef VK_ATTN_GLSL
#define VK_ATTN_GLSL

const uint COLUMNS = 8, D_MOST = COLUMNS * GROUP; /* columns of a head that an invocation, a workgroup has at most */

shared float query[D_MOST], weight[GROUP];

/* Where row j of a sequence lies: the shader says. */
uint row_at(uint j);

float dot_at(Slot k, uint row, uint col, uint D)
{
    float some[4] = float[](0.0, 0.0, 0.0, 0.0);
    uint d = 0;
    for (; d + 4 <= D; d += 4)
        for (uint i = 0; i < 4; i++) some[i] += query[d + i] * get(k, row, col + d + i, S0);
    for (; d < D; d++) some[d % 4] += query[d] * get(k, row, col + d, S0);
    return (some[0] + some[1]) + (some[2] + some[3]);
}

/* The oldest position that i may see. */
uint first_seen(uint i, uint window, int start)
{
    uint first = start > 0 ? uint(start) : 0;
    return window != 0 && i >= window ? max(first, i - window + 1) : first;
}

/* o (row o_row from column o_col, D) = attention of row q_row of q over rows first..last of k and v from column kv_col;
 * returns lse. */
float attend(Slot o, Slot q, uint q_row, uint q_col, Slot k, Slot v, uint kv_col, uint first, uint last, uint D,
             float scale)
{
    uint t = gl_LocalInvocationID.x;
    float sums[COLUMNS], most = -INF_F, total = 0;
    for (uint c = 0; c < COLUMNS; c++) sums[c] = 0;
    barrier();
    FOR_LANES (d, D)
        query[d] = get(q, q_row, q_col + d, S0);
    barrier();
    for (uint j0 = first; j0 <= last; j0 += GROUP) {
        bool mine = j0 + t <= last;
        float s = mine ? scale * dot_at(k, row_at(j0 + t), kv_col, D) : -INF_F;
        float above = max(most, group_max(s)), shrink = exp_of(most - above), p = mine ? exp_of(s - above) : 0.0;
        weight[t] = p;
        total = total * shrink + group_sum(p);
        uint n = min(uint(GROUP), last - j0 + 1);
        for (uint c = 0; c < COLUMNS && t + c * GROUP < D; c++) {
            float part = 0;
            for (uint j = 0; j < n; j++) part += weight[j] * get(v, row_at(j0 + j), kv_col + t + c * GROUP, S0);
            sums[c] = sums[c] * shrink + part;
        }
        most = above;
    }
    for (uint c = 0; c < COLUMNS && t + c * GROUP < D; c++)
        put(o, q_row, q_col + t + c * GROUP, S0, quotient(sums[c], total));
    return most + log_of(total);
}

#endif
