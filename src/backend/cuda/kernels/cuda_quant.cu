/* cuda_quant.cu - y = blocks for the values x: a warp makes one block at a time. The search is cuda_quant_fit.cuh; the
 * byte layouts of num/quant_block.h are here, each as a function from the number of a byte to its value. */
#include "backend/cuda/kernels/cuda_quant.h"
#include "backend/cuda/kernels/cuda_quant_fit.cuh"

namespace
{
/* What the largest magnitude of a block says about it; see num/quant.c. */
enum Range { FINE, ZERO, LOST };

RT_DEVICE Range range_of(const Fit *f, int n, float &magnitude)
{
    uint32_t most = 0;
    for (int i = (int)(threadIdx.x % 32); i < n; i += 32) {
        const uint32_t u = __float_as_uint(f->x[i]) & 0x7fffffffu;
        most = u > most ? u : most;
    }
    most = lanes_max(most);
    magnitude = __uint_as_float(most);
    return most <= 0x33000000u ? ZERO : most >= 0x4e800000u ? LOST : FINE;
}

RT_DEVICE bool search(Fit *f, uint32_t dtype, float most)
{
    switch (dtype) {
    case RT_DTYPE_Q8_0: return plain_block(f, most, false);
    case RT_DTYPE_Q4_0: return plain_block(f, most, true);
    case RT_DTYPE_Q2_K: return affine_block(f, 16, { 0, 3, false }, 15, true);
    case RT_DTYPE_Q4_K: return affine_block(f, 32, { 0, 15, false }, 63, false);
    case RT_DTYPE_Q5_K: return affine_block(f, 32, { 0, 31, false }, 63, false);
    case RT_DTYPE_Q3_K: return scaled_block(f, 16, { -4, 3, false }, 32, WHERE_4);
    case RT_DTYPE_Q6_K: return scaled_block(f, 16, { -32, 31, false }, 128, WHERE_32);
    case RT_DTYPE_IQ4_XS: return scaled_block(f, 32, { 0, 0, true }, 32, WHERE_IQ4);
    case RT_DTYPE_Q5_0: return scale_block(f, { -16, 15, false }, -16, WHERE_16);
    case RT_DTYPE_IQ4_NL: return scale_block(f, { 0, 0, true }, -127, WHERE_IQ4);
    case RT_DTYPE_Q4_1: return offset_block(f, { 0, 15, false });
    default: return offset_block(f, { 0, 31, false }); /* Q5_1 */
    }
}

/* ---- byte b of a block ---- */

RT_DEVICE uint32_t half_byte(uint32_t h, uint32_t b) { return h >> 8 * b & 255; }
/* Nibbles of values i and i + apart, integers counted from -zero. */
RT_DEVICE uint32_t two_nibbles(const Fit &f, uint32_t i, uint32_t apart, int zero)
{
    return ((f.q[i] + zero) & 15) | ((f.q[i + apart] + zero) & 15) << 4;
}
RT_DEVICE uint32_t fifth_byte(const Fit &f, uint32_t b, int zero)
{
    uint32_t y = 0;
    for (uint32_t i = 0; i < 8; i++) y |= (uint32_t)((f.q[8 * b + i] + zero) >> 4 & 1) << i;
    return y;
}
/* Which place p is; a block of zeros has none and takes the one nearest to zero. */
RT_DEVICE uint32_t place_index(int p)
{
    uint32_t at = 8;
    for (int i = 0; i < 16; i++)
        if (iq4_value(i) == p) at = i;
    return at;
}
RT_DEVICE uint32_t two_places(const Fit &f, uint32_t i) { return place_index(f.q[i]) | place_index(f.q[i + 16]) << 4; }
/* The twelve bytes of Q4_K's and Q5_K's pairs. */
RT_DEVICE uint32_t pair_byte(const Fit &f, uint32_t b)
{
    const uint32_t j = b % 4;
    if (b < 4) return f.scale[j] | f.scale[j + 4] >> 4 << 6;
    if (b < 8) return f.min[j] | f.min[j + 4] >> 4 << 6;
    return (f.scale[j + 4] & 15) | (f.min[j + 4] & 15) << 4;
}
/* Q4_K's and Q5_K's nibbles: 32 bytes for two groups. */
RT_DEVICE uint32_t group_nibbles(const Fit &f, uint32_t b) { return two_nibbles(f, b / 32 * 64 + b % 32, 32, 0); }
/* Q2_K's and Q3_K's pairs of bits. */
RT_DEVICE uint32_t bit_pairs(const Fit &f, uint32_t b, int zero)
{
    uint32_t y = 0;
    for (uint32_t k = 0; k < 4; k++) y |= (uint32_t)((f.q[b / 32 * 128 + 32 * k + b % 32] + zero) & 3) << 2 * k;
    return y;
}

RT_DEVICE uint32_t byte_q5_k(const Fit &f, uint32_t b)
{
    if (b >= 48) return group_nibbles(f, b - 48);
    uint32_t y = 0;
    for (uint32_t j = 0; j < 8; j++) y |= (uint32_t)(f.q[32 * j + b - 16] >> 4 & 1) << j;
    return y;
}
RT_DEVICE uint32_t byte_q6_k(const Fit &f, uint32_t b)
{
    uint32_t y = 0;
    if (b < 128) return two_nibbles(f, b / 64 * 128 + b % 64, 64, 32);
    if (b >= 208) return half_byte(f.d, b - 208);
    if (b >= 192) return (uint8_t)f.scale[b - 192];
    for (uint32_t part = 0; part < 4; part++)
        y |= (uint32_t)((f.q[(b - 128) / 32 * 128 + 32 * part + b % 32] + 32) >> 4) << 2 * part;
    return y;
}
RT_DEVICE uint32_t byte_q3_k(const Fit &f, uint32_t b)
{
    uint32_t y = 0;
    if (b < 32) {
        for (uint32_t i = 0; i < 8; i++) y |= (uint32_t)((f.q[32 * i + b] + 4) >> 2 & 1) << i;
    } else if (b < 96) {
        y = bit_pairs(f, b - 32, 4);
    } else if (b < 104) {
        y = ((f.scale[b - 96] + 32) & 15) | ((f.scale[b - 88] + 32) & 15) << 4;
    } else if (b < 108) {
        for (uint32_t k = 0; k < 4; k++) y |= (uint32_t)((f.scale[b - 104 + 4 * k] + 32) >> 4) << 2 * k;
    } else {
        y = half_byte(f.d, b - 108);
    }
    return y;
}
RT_DEVICE uint32_t byte_iq4_xs(const Fit &f, uint32_t b)
{
    uint32_t y = 0;
    if (b < 2) return half_byte(f.d, b);
    if (b >= 8) return two_places(f, (b - 8) / 16 * 32 + (b - 8) % 16);
    if (b >= 4) return ((f.scale[2 * (b - 4)] + 32) & 15) | ((f.scale[2 * (b - 4) + 1] + 32) & 15) << 4;
    for (uint32_t k = 0; k < 4; k++) y |= (uint32_t)((f.scale[4 * (b - 2) + k] + 32) >> 4) << 2 * k;
    return y;
}

RT_DEVICE uint32_t byte_of(const Fit &f, uint32_t dtype, uint32_t b)
{
    const bool d = b < 2, dm = b < 4; /* most begin with one f16 or two */
    switch (dtype) {
    case RT_DTYPE_Q8_0: return d ? half_byte(f.d, b) : (uint8_t)f.q[b - 2];
    case RT_DTYPE_Q4_0: return d ? half_byte(f.d, b) : two_nibbles(f, b - 2, 16, 8);
    case RT_DTYPE_Q4_1: return dm ? half_byte(b < 2 ? f.d : f.m, b % 2) : two_nibbles(f, b - 4, 16, 0);
    case RT_DTYPE_Q5_0: return d ? half_byte(f.d, b) : b < 6 ? fifth_byte(f, b - 2, 16) : two_nibbles(f, b - 6, 16, 16);
    case RT_DTYPE_Q5_1:
        if (dm) return half_byte(b < 2 ? f.d : f.m, b % 2);
        return b < 8 ? fifth_byte(f, b - 4, 0) : two_nibbles(f, b - 8, 16, 0);
    case RT_DTYPE_IQ4_NL: return d ? half_byte(f.d, b) : two_places(f, b - 2);
    case RT_DTYPE_IQ4_XS: return byte_iq4_xs(f, b);
    case RT_DTYPE_Q4_K:
        if (dm) return half_byte(b < 2 ? f.d : f.m, b % 2);
        return b < 16 ? pair_byte(f, b - 4) : group_nibbles(f, b - 16);
    case RT_DTYPE_Q5_K:
        if (dm) return half_byte(b < 2 ? f.d : f.m, b % 2);
        return b < 16 ? pair_byte(f, b - 4) : byte_q5_k(f, b);
    case RT_DTYPE_Q6_K: return byte_q6_k(f, b);
    case RT_DTYPE_Q2_K:
        if (b < 16) return (f.scale[b] & 15) | (f.min[b] & 15) << 4;
        return b < 80 ? bit_pairs(f, b - 16, 0) : half_byte(b < 82 ? f.d : f.m, b % 2);
    default: return byte_q3_k(f, b);
    }
}
} // namespace

extern "C" __global__ void __launch_bounds__(32 * RT_CUDA_QUANT_WARPS) quant(const rt_cuda_quant_params p)
{
    begin_kernel();
    __shared__ Fit fits[RT_CUDA_QUANT_WARPS];
    const uint32_t lane = threadIdx.x % 32, n = p.elems;
    const uint64_t block = (uint64_t)blockIdx.x * RT_CUDA_QUANT_WARPS + threadIdx.x / 32;
    Fit *f = &fits[threadIdx.x / 32];
    if (block >= p.blocks) return;
    const uint64_t row = block / p.per_row, at = block - row * p.per_row;
    const char *x = p.x.at + row * p.x.stride * (p.x_dtype == RT_DTYPE_F32 ? 4 : 2);
    for (uint32_t i = lane; i < n; i += 32) {
        f->x[i] = load_one(x, p.x_dtype, at * n + i);
        f->q[i] = 0;
    }
    if (lane < 16) f->scale[lane] = f->min[lane] = 0;
    f->d = f->m = 0;
    __syncwarp();
    float most;
    const Range range = range_of(f, (int)n, most);
    const bool fine = range == FINE && search(f, p.dtype, most);
    __syncwarp();
    if (!fine) { /* zeros, or scales that are NaN, so that the fault stays visible */
        for (uint32_t i = lane; i < n; i += 32) f->q[i] = 0;
        if (lane < 16) f->scale[lane] = f->min[lane] = 0;
        f->d = f->m = range == ZERO ? 0 : F16_NAN;
        __syncwarp();
    }
    uint8_t *y = (uint8_t *)p.y + row * p.y_step + at * p.bytes;
    for (uint32_t b = lane; b < p.bytes; b += 32) y[b] = (uint8_t)byte_of(*f, p.dtype, b);
}
