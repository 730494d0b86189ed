/* vk_quantise.comp - y = blocks for the values x: a workgroup makes one block at a time, to the bits of num/quant.c.
 * The search is vk_quant_fit.glsl; the byte layouts of num/quant_block.h are here, each as a function from the number
 * of a byte to its value. S1: dtype of y; that of x is no constant: there is little to load and much to compile. */
#version 460
#extension GL_GOOGLE_include_directive : require
#define ARGS rt_rows_args
#define GROUP 32
#include "vk_common.glsl"
#include "vk_math.glsl"
#include "vk_quant.glsl"
#include "vk_reduce.glsl"
#include "vk_quant_fit.glsl"

const uint Y = 0, X = 1;
const uint FINE = 0, ZERO = 1, LOST = 2; /* what the largest magnitude of a block says about it */

/* Q8_0, Q4_0: value = d * q, plain rounding of x / d. */
bool plain_block(float most)
{
    bool four = S1 == Q4_0;
    uint t = gl_LocalInvocationID.x;
    fit_d = scale_for(most, four ? 8.0 : 127.0);
    if (fit_d >= F16_INF) return false;
    if (four) { /* the integers reach -8 but not 8: the first of the largest values takes the longer side */
        uint first = group_least(abs(fit_x[t]) == most ? t : 32);
        if (fit_x[first] > 0) fit_d |= 0x8000u;
    }
    float v = round8(quotient(fit_x[t], from_f16(fit_d))), bottom = four ? -8.0 : -127.0, top = four ? 7.0 : 127.0;
    fit_q[t] = int(v < bottom ? bottom : v > top ? top : v);
    return true;
}

/* Each search is called in one place: a driver has less to compile. */
bool search(float most)
{
    bool uneven = S1 == IQ4_XS || S1 == IQ4_NL;
    if (S1 == Q2_K || S1 == Q4_K || S1 == Q5_K) {
        Grid k = Grid(0, S1 == Q2_K ? 3 : S1 == Q4_K ? 15 : 31, false);
        return affine_block(S1 == Q2_K ? 16 : 32, k, S1 == Q2_K ? 15 : 63, S1 == Q2_K);
    }
    if (S1 == Q3_K || S1 == Q6_K || S1 == IQ4_XS) {
        Grid k = S1 == Q3_K ? Grid(-4, 3, false) : Grid(-32, 31, uneven);
        return scaled_block(S1 == IQ4_XS ? 32 : 16, k, S1 == Q6_K ? 128 : 32,
                            S1 == Q3_K ? WHERE_4 : S1 == Q6_K ? WHERE_32 : WHERE_IQ4);
    }
    if (S1 == Q5_0 || uneven)
        return scale_block(Grid(-16, 15, uneven), uneven ? -127 : -16, uneven ? WHERE_IQ4 : WHERE_16);
    if (S1 == Q4_1 || S1 == Q5_1) return offset_block(Grid(0, S1 == Q4_1 ? 15 : 31, false));
    return plain_block(most);
}

/* ---- byte b of a block ---- */

uint half_byte(uint h, uint b) { return h >> 8 * b & 255; }
/* d, then m */
uint head_byte(uint b) { return half_byte(b < 2 ? fit_d : fit_m, b % 2); }
/* Nibbles of values i and i + apart, integers counted from -zero. */
uint two_nibbles(uint i, uint apart, int zero)
{
    return uint(fit_q[i] + zero & 15) | uint(fit_q[i + apart] + zero & 15) << 4;
}
uint fifth_byte(uint b, int zero)
{
    uint y = 0;
    for (uint i = 0; i < 8; i++) y |= uint(fit_q[8 * b + i] + zero >> 4 & 1) << i;
    return y;
}
/* Which place p is; a block of zeros has none and takes the one nearest to zero. */
uint place_index(int p)
{
    uint at = 8;
    for (uint i = 0; i < 16; i++)
        if (int(iq4_place(i)) == p) at = i;
    return at;
}
uint two_places(uint i) { return place_index(fit_q[i]) | place_index(fit_q[i + 16]) << 4; }
/* The twelve bytes of Q4_K's and Q5_K's pairs. */
uint pair_byte(uint b)
{
    uint j = b % 4, s = uint(fit_scale_of[j]), m = uint(fit_min_of[j]), s4 = uint(fit_scale_of[j + 4]),
         m4 = uint(fit_min_of[j + 4]);
    return b < 4 ? s | s4 >> 4 << 6 : b < 8 ? m | m4 >> 4 << 6 : (s4 & 15) | (m4 & 15) << 4;
}
/* Q4_K's and Q5_K's nibbles: 32 bytes for two groups. */
uint group_nibbles(uint b) { return two_nibbles(b / 32 * 64 + b % 32, 32, 0); }
/* Q2_K's and Q3_K's pairs of bits. */
uint bit_pairs(uint b, int zero)
{
    uint y = 0;
    for (uint k = 0; k < 4; k++) y |= uint(fit_q[b / 32 * 128 + 32 * k + b % 32] + zero & 3) << 2 * k;
    return y;
}
uint factor(uint j, int zero) { return uint(fit_scale_of[j] + zero); }

uint byte_q5_k(uint b)
{
    if (b >= 48) return group_nibbles(b - 48);
    uint y = 0;
    for (uint j = 0; j < 8; j++) y |= uint(fit_q[32 * j + b - 16] >> 4 & 1) << j;
    return y;
}
uint byte_q6_k(uint b)
{
    uint y = 0;
    if (b < 128) return two_nibbles(b / 64 * 128 + b % 64, 64, 32);
    if (b >= 208) return half_byte(fit_d, b - 208);
    if (b >= 192) return factor(b - 192, 0) & 255;
    for (uint part = 0; part < 4; part++)
        y |= uint(fit_q[(b - 128) / 32 * 128 + 32 * part + b % 32] + 32 >> 4) << 2 * part;
    return y;
}
uint byte_q3_k(uint b)
{
    uint y = 0;
    if (b >= 108) return half_byte(fit_d, b - 108);
    if (b >= 32 && b < 96) return bit_pairs(b - 32, 4);
    if (b >= 96 && b < 104) return (factor(b - 96, 32) & 15) | (factor(b - 88, 32) & 15) << 4;
    if (b < 32)
        for (uint i = 0; i < 8; i++) y |= uint(fit_q[32 * i + b] + 4 >> 2 & 1) << i;
    else
        for (uint k = 0; k < 4; k++) y |= (factor(b - 104 + 4 * k, 32) >> 4) << 2 * k;
    return y;
}
uint byte_iq4_xs(uint b)
{
    uint y = 0;
    if (b < 2) return half_byte(fit_d, b);
    if (b >= 8) return two_places((b - 8) / 16 * 32 + (b - 8) % 16);
    if (b >= 4) return (factor(2 * (b - 4), 32) & 15) | (factor(2 * (b - 4) + 1, 32) & 15) << 4;
    for (uint k = 0; k < 4; k++) y |= (factor(4 * (b - 2) + k, 32) >> 4) << 2 * k;
    return y;
}

uint byte_of(uint b)
{
    switch (S1) {
    case Q8_0: return b < 2 ? half_byte(fit_d, b) : uint(fit_q[b - 2]) & 255;
    case Q4_0: return b < 2 ? half_byte(fit_d, b) : two_nibbles(b - 2, 16, 8);
    case Q4_1: return b < 4 ? head_byte(b) : two_nibbles(b - 4, 16, 0);
    case Q5_0: return b < 2 ? half_byte(fit_d, b) : b < 6 ? fifth_byte(b - 2, 16) : two_nibbles(b - 6, 16, 16);
    case Q5_1: return b < 4 ? head_byte(b) : b < 8 ? fifth_byte(b - 4, 0) : two_nibbles(b - 8, 16, 0);
    case IQ4_NL: return b < 2 ? half_byte(fit_d, b) : two_places(b - 2);
    case IQ4_XS: return byte_iq4_xs(b);
    case Q4_K: return b < 4 ? head_byte(b) : b < 16 ? pair_byte(b - 4) : group_nibbles(b - 16);
    case Q5_K: return b < 4 ? head_byte(b) : b < 16 ? pair_byte(b - 4) : byte_q5_k(b);
    case Q6_K: return byte_q6_k(b);
    case Q2_K:
        if (b < 16) return uint(fit_scale_of[b] & 15) | uint(fit_min_of[b] & 15) << 4;
        return b < 80 ? bit_pairs(b - 16, 0) : head_byte(b - 80);
    default: return byte_q3_k(b);
    }
}

/* Everything is 0 but the scales, which are NaN where a fault has to stay visible. */
void empty(uint n, uint scales)
{
    FOR_LANES (i, n)
        fit_q[i] = 0;
    FOR_LANES (i, 16)
        fit_scale_of[i] = fit_min_of[i] = 0;
    fit_d = fit_m = scales;
}

void main()
{
    Slot y = slot_of(Y), x = slot_of(X);
    uint n = block_elems(S1), blocks = push.a.C / n;
    FOR_ITEMS (item, push.a.N * blocks) {
        uint row = item / blocks, at = item % blocks, most = 0;
        barrier();
        FOR_LANES (i, n) {
            fit_x[i] = get(x, row, at * n + i, x.dtype);
            most = max(most, floatBitsToUint(fit_x[i]) & 0x7fffffffu);
        }
        empty(n, 0);
        most = group_most(most);
        uint range = most <= 0x33000000u ? ZERO : most >= 0x4e800000u ? LOST : FINE;
        bool fine = range == FINE && search(uintBitsToFloat(most));
        barrier();
        if (!fine) empty(n, range == ZERO ? 0 : F16_NAN);
        barrier();
        uint64_t to = y.at + (row * (y.stride / n) + at) * block_bytes(S1);
        FOR_LANES (b, block_bytes(S1))
            store_u8(to, b, byte_of(b));
    }
}
