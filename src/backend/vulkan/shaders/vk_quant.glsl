/* vk_quant.glsl - one value of a quantised block: the layouts of num/quant_block.h.
 *
 * Scales times small integers are exact in f32 and only the last operation rounds, so the values are those of
 * num/quant_*.c to the bit, whatever a compiler merges. Blocks have even sizes: any lies on a multiple of 2. */
#ifndef VK_QUANT_GLSL
#define VK_QUANT_GLSL

bool is_quant(uint d) { return d >= Q8_0 && d <= IQ4_XS; }
uint block_elems(uint d)
{
    return d == Q4_K || d == Q5_K || d == Q6_K || d == Q2_K || d == Q3_K || d == IQ4_XS ? 256 : 32;
}
uint block_bytes(uint d)
{
    switch (d) {
    case Q8_0: return 34;
    case Q4_1: return 20;
    case Q5_0: return 22;
    case Q5_1: return 24;
    case Q4_K: return 144;
    case Q5_K: return 176;
    case Q6_K: return 210;
    case Q2_K: return 84;
    case Q3_K: return 110;
    case IQ4_XS: return 136;
    default: return 18; /* q4_0, iq4_nl */
    }
}

uint byte_at(uint64_t p) { return uint(At8(p).v); }
uint half_at(uint64_t p) { return uint(At16(p).v); }
float f16_at(uint64_t p) { return from_f16(half_at(p)); }
int signed_byte(uint b) { return int(b << 24) >> 24; }
/* Blocks of 32: low nibbles are the first sixteen values, high ones the others. */
uint nibble(uint64_t q, uint e) { return byte_at(q + e % 16) >> e / 16 * 4 & 15; }
uint fifth_bit(uint64_t high, uint e) { return (half_at(high + e / 16 * 2) >> e % 16 & 1) << 4; }
/* The place on the value axis that four bits name: -127 -104 -83 -65, -49 -35 -22 -10, 1 13 25 38, 53 69 89 113. */
float iq4_place(uint q)
{
    const uint place[4] = uint[](0x3f2d1801u, 0x766a5d4fu, 0xa6998d81u, 0xf1d9c5b5u); /* each plus 128 */
    return float(int(place[q / 4] >> q % 4 * 8 & 255) - 128);
}

/* q4_k and q5_k: scale and min of group g, 6 bits each, of twelve bytes. */
uvec2 scale_min(uint64_t s, uint g)
{
    if (g < 4) return uvec2(byte_at(s + g) & 63, byte_at(s + g + 4) & 63);
    uint low = byte_at(s + g + 4);
    return uvec2((low & 15) | byte_at(s + g - 4) >> 6 << 4, low >> 4 | byte_at(s + g) >> 6 << 4);
}
float affine(uint64_t b, uint g, uint q)
{
    uvec2 f = scale_min(b + 4, g);
    return f16_at(b) * float(f.x) * float(q) - f16_at(b + 2) * float(f.y);
}
/* Scale g of q3_k in 0..63. */
uint scale_q3(uint64_t s, uint g)
{
    return (byte_at(s + g % 8) >> g / 8 * 4 & 15) | (byte_at(s + 8 + g % 4) >> g / 4 * 2 & 3) << 4;
}

float q6_k(uint64_t b, uint e)
{
    uint half_of = e / 128, part = e % 128 / 32, l = e % 32;
    uint low = byte_at(b + 64 * half_of + (part & 1) * 32 + l) >> part / 2 * 4 & 15;
    uint high = byte_at(b + 128 + 32 * half_of + l) >> 2 * part & 3;
    return f16_at(b + 208) * float(signed_byte(byte_at(b + 192 + e / 16))) * float(int(low | high << 4) - 32);
}
float iq4_xs(uint64_t b, uint e)
{
    uint g = e / 32;
    int scale = int((byte_at(b + 4 + g / 2) >> 4 * (g % 2) & 15) | (half_at(b + 2) >> 2 * g & 3) << 4);
    return f16_at(b) * float(scale - 32) * iq4_place(nibble(b + 8 + 16 * g, e % 32));
}
float q2_k(uint64_t b, uint e)
{
    uint s = byte_at(b + e / 16), q = byte_at(b + 16 + e / 128 * 32 + e % 32) >> e % 128 / 32 * 2 & 3;
    return f16_at(b + 80) * float(s & 15) * float(q) - f16_at(b + 82) * float(s >> 4);
}
float q3_k(uint64_t b, uint e)
{
    uint q = byte_at(b + 32 + e / 128 * 32 + e % 32) >> e % 128 / 32 * 2 & 3;
    uint high = byte_at(b + e % 32) >> e / 32 & 1;
    return f16_at(b + 108) * float(int(scale_q3(b + 96, e / 16)) - 32) * float(int(q | high << 2) - 4);
}

/* Value e of the block at b. */
float block_value(uint64_t b, uint e, uint d)
{
    switch (d) {
    case Q8_0: return f16_at(b) * float(signed_byte(byte_at(b + 2 + e)));
    case Q4_0: return f16_at(b) * float(int(nibble(b + 2, e)) - 8);
    case Q4_1: return f16_at(b) * float(nibble(b + 4, e)) + f16_at(b + 2);
    case Q5_0: return f16_at(b) * float(int(nibble(b + 6, e) | fifth_bit(b + 2, e)) - 16);
    case Q5_1: return f16_at(b) * float(nibble(b + 8, e) | fifth_bit(b + 4, e)) + f16_at(b + 2);
    case Q4_K: return affine(b, e / 32, byte_at(b + 16 + e / 64 * 32 + e % 32) >> e / 32 % 2 * 4 & 15);
    case Q5_K:
        return affine(b, e / 32, (byte_at(b + 48 + e / 64 * 32 + e % 32) >> e / 32 % 2 * 4 & 15) |
                                     (byte_at(b + 16 + e % 32) >> e / 32 & 1) << 4);
    case Q6_K: return q6_k(b, e);
    case Q2_K: return q2_k(b, e);
    case Q3_K: return q3_k(b, e);
    case IQ4_XS: return iq4_xs(b, e);
    default: return f16_at(b) * iq4_place(nibble(b + 2, e));
    }
}

/* Element (row, col) of an operand of any dtype that has values. */
float get_value(Slot s, uint row, uint col, uint d)
{
    if (!is_quant(d)) return get(s, row, col, d);
    uint n = block_elems(d);
    return block_value(s.at + (row * (s.stride / n) + col / n) * block_bytes(d), col % n, d);
}

#endif
