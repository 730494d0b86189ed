/* vk_common.glsl - what every shader begins with: its constants, its operands, single elements of every dtype.
 *
 * A shader defines ARGS, the struct of its op's arguments, and may define GROUP, before it includes this. Conversions
 * are done by bit operations, so that they round as num/dtype.h does on every device; so are the questions whether a
 * number is finite, which compilers may answer as they like otherwise. */
#ifndef VK_COMMON_GLSL
#define VK_COMMON_GLSL

#extension GL_EXT_buffer_reference : require
#extension GL_EXT_scalar_block_layout : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_shader_8bit_storage : require
#include "vk_args.glsl"

#ifndef GROUP
#define GROUP 128
#endif
#define PART (4 * GROUP)

layout(local_size_x = GROUP) in;
layout(constant_id = 0) const uint S0 = 0;
layout(constant_id = 1) const uint S1 = 0;
layout(constant_id = 2) const uint S2 = 0;

/* rt_dtype */
const uint F32 = 0, BF16 = 1, F16 = 2, I32 = 4, U32 = 5, U8 = 6, Q8_0 = 10, Q4_0 = 11, Q4_K = 12, Q5_K = 13, Q6_K = 14,
           Q4_1 = 15, Q5_0 = 16, Q5_1 = 17, Q2_K = 18, Q3_K = 19, IQ4_NL = 20, IQ4_XS = 21, E4M3 = 22;

layout(buffer_reference, scalar, buffer_reference_align = 4) buffer At32 {
    uint v;
};
layout(buffer_reference, scalar, buffer_reference_align = 2) buffer At16 {
    uint16_t v;
};
layout(buffer_reference, scalar, buffer_reference_align = 1) buffer At8 {
    uint8_t v;
};
/* The same where invocations of a workgroup read what others of it wrote, behind a shared_barrier. */
layout(buffer_reference, scalar, buffer_reference_align = 4) coherent buffer AtShared {
    uint v;
};
#ifdef COUNTED
#include "vk_count.glsl"
#endif
#define shared_barrier()                                                                                               \
    memoryBarrierBuffer();                                                                                             \
    barrier()

struct Slot { /* rt_vk_slot */
    uint64_t at, stride;
    uint dtype, cols;
};
const uint SLOTS = 14, WORK = 14;
layout(buffer_reference, scalar, buffer_reference_align = 8) readonly buffer Operands {
    Slot slot[SLOTS + 1];
};
layout(push_constant, scalar) uniform Pushed {
    uint64_t operands;
    uint word[4];
    ARGS a;
} push;

Slot slot_of(uint i) { return Operands(push.operands).slot[i]; }
bool adds(uint i) { return (push.word[0] >> i & 1) != 0; }
bool has(uint i) { return (push.word[1] >> i & 1) != 0; }

/* Every element (row, col) of push.word[2] rows of push.word[3], a part of a row for each workgroup at a time. */
#define FOR_ELEMENTS(row, col)                                                                                         \
    for (uint parts_ = (push.word[3] + PART - 1) / PART, item_ = gl_WorkGroupID.x; item_ < push.word[2] * parts_;      \
         item_ += gl_NumWorkGroups.x)                                                                                  \
        for (uint row = item_ / parts_, col = item_ % parts_ * PART + gl_LocalInvocationID.x,                          \
                  end_ = min(push.word[3], (item_ % parts_ + 1) * PART);                                               \
             col < end_; col += GROUP)
/* Items that the workgroups share among themselves, and what the invocations of one share. */
#define FOR_ITEMS(item, n) for (uint item = gl_WorkGroupID.x; item < (n); item += gl_NumWorkGroups.x)
#define FOR_LANES(i, n) for (uint i = gl_LocalInvocationID.x; i < (n); i += GROUP)

/* ---- numbers ---- */

const uint INF_BITS = 0x7f800000u;
#define NAN_F uintBitsToFloat(0x7fc00000u)
#define INF_F uintBitsToFloat(INF_BITS)
bool is_finite(float x) { return (floatBitsToUint(x) & INF_BITS) != INF_BITS; }
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > INF_BITS; }

float from_bf16(uint h) { return uintBitsToFloat(h << 16); }
uint to_bf16(float x)
{
    uint u = floatBitsToUint(x);
    if ((u & 0x7fffffffu) > INF_BITS) return u >> 16 | 0x40u;
    return (u + 0x7fffu + (u >> 16 & 1u)) >> 16;
}

float from_f16(uint h)
{
    uint sign = (h & 0x8000u) << 16, m = h & 0x7fffu;
    if (m >= 0x7c00u) return uintBitsToFloat(sign | INF_BITS | (m & 0x3ffu) << 13);
    if (m < 0x400u) return uintBitsToFloat(sign | floatBitsToUint(float(m) * (1.0 / 16777216.0)));
    return uintBitsToFloat(sign | ((m << 13) + 0x38000000u));
}
uint to_f16(float x)
{
    uint u = floatBitsToUint(x), sign = u >> 16 & 0x8000u;
    u &= 0x7fffffffu;
    if (u > INF_BITS) return sign | 0x7e00u;
    if (u >= 0x47800000u) return sign | 0x7c00u;
    if (u >= 0x38800000u) {
        u -= 0x38000000u;
        return sign | (u + 0xfffu + (u >> 13 & 1u)) >> 13;
    }
    uint shift = 126u - (u >> 23), m = (u & 0x7fffffu) | 0x800000u; /* units of 2^-24 */
    if (shift > 24u) return sign;
    return sign | (m + (1u << shift - 1u) - 1u + (m >> shift & 1u)) >> shift;
}

float from_e4m3(uint c)
{
    uint sign = (c & 0x80u) << 24, m = c & 0x7fu;
    if (m == 0x7fu) return NAN_F;
    if (m < 8u) return uintBitsToFloat(sign | floatBitsToUint(float(m) * (1.0 / 512.0)));
    return uintBitsToFloat(sign | ((m << 20) + (120u << 23)));
}
uint to_e4m3(float x)
{
    uint u = floatBitsToUint(x), m = u & 0x7fffffffu, sign = u >> 24 & 0x80u;
    if (m > INF_BITS) return 0x7fu;
    if (m >= 0x43e00000u) return sign | 0x7eu;
    if (m >= 0x3c800000u) return sign | (m + 0x7ffffu + (m >> 20 & 1u) - (120u << 23)) >> 20;
    uint shift = 141u - (m >> 23), w = (m & 0x7fffffu) | 0x800000u; /* units of 2^-9 */
    if (shift > 24u) return sign;
    return sign | (w + (1u << shift - 1u) - 1u + (w >> shift & 1u)) >> shift;
}

/* Element i from an address, of a dtype without blocks; and its value as it would be read back. */
float load(uint64_t at, uint64_t i, uint d)
{
    if (d == F32) return uintBitsToFloat(At32(at + 4 * i).v);
    if (d == BF16) return from_bf16(uint(At16(at + 2 * i).v));
    if (d == F16) return from_f16(uint(At16(at + 2 * i).v));
    return from_e4m3(uint(At8(at + i).v));
}
void store(uint64_t at, uint64_t i, uint d, float x)
{
    if (d == F32)
        At32(at + 4 * i).v = floatBitsToUint(x);
    else if (d == BF16)
        At16(at + 2 * i).v = uint16_t(to_bf16(x));
    else if (d == F16)
        At16(at + 2 * i).v = uint16_t(to_f16(x));
    else
        At8(at + i).v = uint8_t(to_e4m3(x));
}
float rounded(float x, uint d)
{
    if (d == BF16) return from_bf16(to_bf16(x));
    if (d == F16) return from_f16(to_f16(x));
    return x;
}

uint load_u32(uint64_t at, uint64_t i) { return At32(at + 4 * i).v; }
int load_i32(uint64_t at, uint64_t i) { return int(At32(at + 4 * i).v); }
float load_f32(uint64_t at, uint64_t i) { return uintBitsToFloat(At32(at + 4 * i).v); }
void store_u32(uint64_t at, uint64_t i, uint x) { At32(at + 4 * i).v = x; }
void store_f32(uint64_t at, uint64_t i, float x) { At32(at + 4 * i).v = floatBitsToUint(x); }
uint load_u8(uint64_t at, uint64_t i) { return uint(At8(at + i).v); }
void store_u8(uint64_t at, uint64_t i, uint x) { At8(at + i).v = uint8_t(x); }

/* Element (row, col) of an operand whose dtype is d. */
float get(Slot s, uint row, uint col, uint d) { return load(s.at, row * s.stride + col, d); }
void put(Slot s, uint row, uint col, uint d, float x) { store(s.at, row * s.stride + col, d, x); }
/* = or += */
void put_sum(Slot s, uint row, uint col, uint d, bool add, float x)
{
    put(s, row, col, d, add ? get(s, row, col, d) + x : x);
}

#endif
