/* vk_attn_tile.glsl - tiles of attention: 64 rows of one side against 32 of the other, forward and backward.
 *
 * A workgroup of 256 has a tile of scores, of which an invocation has rows y, y + 16, .. and columns x and x + 16.
 * Operands come through shared memory in slices of 16 columns of the head, or of 32 where they are added up under
 * weights, so its size does not depend on the head: 16 KiB, which every device has. Each slice, and each tile, is
 * added up by itself before it joins a sum, so that errors grow with their number. SLICES: of 32 columns of a head,
 * from a specialisation constant. */
#ifndef VK_ATTN_TILE_GLSL
#define VK_ATTN_TILE_GLSL

const uint ROWS = 64, COLS = 32, DEPTH = 16, WIDE = 32, OWN_ROWS = ROWS / 16, OWN_COLS = COLS / 16;
const uint SECOND = ROWS * (DEPTH + 1); /* of slices: where that of the second operand begins */

shared float slices[(ROWS + COLS) * (DEPTH + 1)], weight[ROWS * (COLS + 1)];

uint lane_x() { return gl_LocalInvocationID.x % 16; }
uint lane_y() { return gl_LocalInvocationID.x / 16; }

/* Rows of one operand that are there: of a head, from its column col. */
struct Rows {
    Slot s;
    uint row, count, col;
};

/* slices from `to` on (most, width), a float further each row, = columns d0.. of rows; 0 where there are none. */
void fetch(Rows r, uint most, uint width, uint d0, uint to)
{
    FOR_LANES (i, most * width) {
        uint k = i / width, d = i % width;
        bool inside = k < r.count && d0 + d < push.a.D;
        slices[to + k * (width + 1) + d] = inside ? get(r.s, r.row + k, r.col + d0 + d, S0) : 0.0;
    }
}

/* Products of 64 rows of a with 32 of b. */
void find_scores(Rows a, Rows b, out float score[OWN_ROWS][OWN_COLS])
{
    uint x = lane_x(), y = lane_y();
    [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
        [[unroll]] for (uint j = 0; j < OWN_COLS; j++) score[i][j] = 0;
    for (uint d0 = 0; d0 < push.a.D; d0 += DEPTH) {
        float some[OWN_ROWS][OWN_COLS];
        barrier();
        fetch(a, ROWS, DEPTH, d0, 0);
        fetch(b, COLS, DEPTH, d0, SECOND);
        barrier();
        [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
            [[unroll]] for (uint j = 0; j < OWN_COLS; j++) some[i][j] = 0;
        for (uint d = 0; d < DEPTH; d++)
            [[unroll]] for (uint j = 0; j < OWN_COLS; j++) {
                float of_b = slices[SECOND + (x + 16 * j) * (DEPTH + 1) + d];
                [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
                    some[i][j] += slices[(y + 16 * i) * (DEPTH + 1) + d] * of_b;
            }
        [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
            [[unroll]] for (uint j = 0; j < OWN_COLS; j++) score[i][j] += some[i][j];
    }
}

void put_weight(uint i, uint j, float w) { weight[(lane_y() + 16 * i) * (COLS + 1) + lane_x() + 16 * j] = w; }

/* Sums over 32 rows of b under the weights of a tile: those of slice n, columns 32 n + x and 32 n + x + 16. */
void add_weighted(Rows b, uint n, out float part[OWN_ROWS][OWN_COLS])
{
    uint x = lane_x(), y = lane_y();
    barrier();
    fetch(b, COLS, WIDE, n * WIDE, 0);
    barrier();
    [[unroll]] for (uint i = 0; i < OWN_ROWS; i++)
        [[unroll]] for (uint j = 0; j < OWN_COLS; j++) part[i][j] = 0;
    for (uint k = 0; k < COLS; k++)
        [[unroll]] for (uint i = 0; i < OWN_ROWS; i++) {
            float w = weight[(y + 16 * i) * (COLS + 1) + k];
            [[unroll]] for (uint j = 0; j < OWN_COLS; j++) part[i][j] += w * slices[k * (WIDE + 1) + x + 16 * j];
        }
}

/* The oldest position that the query of a row sees; of rows one behind the other it never falls. */
uint first_seen(Slot start, bool documents, uint row)
{
    uint i = row % push.a.T, window = push.a.window;
    int from = documents ? load_i32(start.at, row * start.stride) : 0;
    uint first = from > 0 ? uint(from) : 0;
    return window != 0 && i >= window ? max(first, i - window + 1) : first;
}

/* Tiles of a sequence. Those of a head come one after the other, so that its keys stay in a cache, long ones first. */
uint tiles() { return (push.a.T + ROWS - 1) / ROWS; }

#endif
