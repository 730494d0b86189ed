/* vk_copy.comp - y = x, or y[rows[i]] = x[i], whatever the elements are: units of 4, 2 or 1 bytes.
 *
 * S0: bytes of a unit; S1: 1: by rows. Strides and columns count units. Of rows with one destination the last one
 * writes: an earlier one looks for it among those behind it. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rows_args
#include "vk_common.glsl"

const uint Y = 0, X = 1, ROWS = 2;

/* The row of y that row i of x goes to; -1: none. */
int place_of(uint i)
{
    Slot rows = slot_of(ROWS);
    int to = load_i32(rows.at, i * rows.stride);
    if (to < 0 || uint(to) >= push.a.R) return -1;
    for (uint k = i + 1; k < push.a.N; k++)
        if (load_i32(rows.at, k * rows.stride) == to) return -1;
    return to;
}

void main()
{
    Slot y = slot_of(Y), x = slot_of(X);
    uint held = ~0u;
    int to = 0;
    FOR_ELEMENTS (row, col) {
        if (row != held) to = S1 != 0 ? place_of(row) : int(row);
        held = row;
        uint64_t from_at = row * x.stride + col, to_at = uint(to) * y.stride + col;
        if (to < 0) continue;
        if (S0 == 4)
            At32(y.at + 4 * to_at).v = At32(x.at + 4 * from_at).v;
        else if (S0 == 2)
            At16(y.at + 2 * to_at).v = At16(x.at + 2 * from_at).v;
        else
            At8(y.at + to_at).v = At8(x.at + from_at).v;
    }
}
