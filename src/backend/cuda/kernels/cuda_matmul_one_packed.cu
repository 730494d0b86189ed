/* cuda_matmul_one_packed.cu - out = alpha a b' + bias of one row, weights b packed.
 *
 * What is multiplied is whole numbers: the codes of the weights, as they are, and a as three digits of 8 bits. Of each
 * 256 elements the largest magnitude gives a power of two, in whose units the others are rounded to 23 bits, so what
 * is lost of an element is 2^-23 of the largest. The digits are three columns of an MMA of bytes, which a row of a
 * would leave empty; its sums are exact, and each is scaled once. So a weight costs little more than the mask that
 * takes it out of its word.
 *
 * The columns of an MMA are the digits of two groups of weights (see RT_FEW_GROUP), columns 0 to 2 and 4 to 6, where
 * the other group's digits are zeros; so a lane scales one group of two. Where codes have a zero and no m, sums begin
 * with those of a times the zero. A block has a run of weight rows, 16 at a time, as many as any other but for 16; its
 * warps have as many chunks of them each as any other but for one, and go from one 16 rows to the next in the middle
 * where that falls.
 *
 * Why deterministic: the cut follows from shapes and the number of multiprocessors; sums of warps that had chunks of
 * the same rows are added in order. */
#include "backend/cuda/kernels/cuda_matmul_one.h"
#include "backend/cuda/kernels/cuda_matmul_packed.cuh"

namespace
{
template <class Q> constexpr int STAGES = RT_ONE_STAGES(Q::BYTES);
template <class Q> constexpr int PAIRS = GROUPS<Q> / 2;

/* a in shared memory. */
struct Digits {
    unsigned char *planes; /* (K / 32, 3, 32) the highest digits first */
    int *begin;            /* (pairs of groups, 8) what sums begin with */
    float *sums, *scale;   /* of a group; of a chunk */
};
template <class Q> RT_DEVICE Digits digits_at(unsigned char *at, uint32_t chunks)
{
    Digits x;
    x.planes = at;
    x.begin = (int *)(at + chunks * (CHUNK * RT_ONE_DIGITS));
    x.sums = (float *)(x.begin + chunks * PAIRS<Q> * 8);
    x.scale = x.sums + chunks * GROUPS<Q>;
    return x;
}

/* Bytes b, b + 4 of two words, twice. */
RT_DEVICE uint32_t column(uint32_t a, uint32_t b, uint32_t c, uint32_t d, int byte)
{
    const uint32_t pick = 0x40 + byte * 0x11;
    return __byte_perm(__byte_perm(a, b, pick), __byte_perm(c, d, pick), 0x5410);
}

/* Eight elements of a chunk, whose largest magnitude is below 2 of `unit`: their digits, and the sums of those. */
RT_DEVICE void cut_pack(uint2 (&plane)[RT_ONE_DIGITS], int (&sum)[RT_ONE_DIGITS], const uint4 &v, float times)
{
    const uint32_t w[4] = { v.x, v.y, v.z, v.w };
    uint32_t y[8];
#pragma unroll
    for (int i = 0; i < 8; i++) { /* bytes of 0.. to digits of -128.. */
        const float x = i % 2 ? twins<bf16>::high(w[i / 2]) : twins<bf16>::low(w[i / 2]);
        y[i] = ((uint32_t)__float2int_rn(x * times) + 0x808080u) ^ 0x808080u;
    }
#pragma unroll
    for (int k = 0; k < RT_ONE_DIGITS; k++) {
        const int byte = RT_ONE_DIGITS - 1 - k;
        plane[k] = make_uint2(column(y[0], y[1], y[2], y[3], byte), column(y[4], y[5], y[6], y[7], byte));
        sum[k] = __dp4a((int)plane[k].x, 0x01010101, __dp4a((int)plane[k].y, 0x01010101, 0));
    }
}

/* All of a, a chunk a warp at a time. A chunk that is not finite becomes NaN. */
template <class Q> RT_DEVICE void take_a(const Digits &x, const char *a, uint32_t K, uint32_t chunks)
{
    enum { LANES = GROUP<Q> / 8, LEAST = 64 }; /* LEAST: the exponent below which units stay as they are */
    const uint32_t lane = threadIdx.x % 32;
    const auto load = [&](uint32_t chunk) {
        const uint32_t k = chunk * CHUNK + lane * 8;
        return k < K ? *(const uint4 *)(a + k * 2) : make_uint4(0, 0, 0, 0);
    };
    const uint32_t step = blockDim.x / 32;
    uint4 next[2] = { load(threadIdx.x / 32), load(threadIdx.x / 32 + step) };
    for (uint32_t chunk = threadIdx.x / 32; chunk < chunks; chunk += step) {
        const uint4 v = next[0];
        next[0] = next[1];
        next[1] = load(chunk + 2 * step);
        const uint32_t w[4] = { v.x, v.y, v.z, v.w };
        uint32_t top = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) top = max(top, max(w[i] & 0x7fff, w[i] >> 16 & 0x7fff));
        const uint32_t high = lanes_max(top) >> 7, exponent = max(high, (uint32_t)LEAST);
        const float times = __uint_as_float((254 + 21 - exponent) << 23);
        const float unit = __uint_as_float(high == 255 ? 0x7fc00000u : (exponent - 21) << 23);
        uint2 plane[RT_ONE_DIGITS];
        int sum[RT_ONE_DIGITS];
        cut_pack(plane, sum, v, times);
#pragma unroll
        for (int d = 0; d < RT_ONE_DIGITS; d++) {
            *(uint2 *)(x.planes + chunk * (CHUNK * RT_ONE_DIGITS) + lane / 4 * 96 + d * 32 + lane % 4 * 8) = plane[d];
            sum[d] = lanes_sum(sum[d], LANES);
        }
        if (lane == 0) x.scale[chunk] = unit;
        if (lane % LANES) continue;
        const uint32_t group = chunk * GROUPS<Q> + lane / LANES;
        const int zero = -(int)Q::ZERO;
        const int4 begin = make_int4(zero * sum[0], zero * sum[1], zero * sum[2], 0);
        if (Q::KIND == PLAIN) *(int4 *)(x.begin + group * 4) = begin;
        if (Q::KIND == AFFINE) x.sums[group] = (float)(sum[0] * 65536 + sum[1] * 256 + sum[2]) * unit;
    }
}

/* acc (rows l/4 and l/4 + 8) += a chunk; lanes 4 i to 4 i + 3 have a part each. */
template <class Q>
RT_DEVICE void add_chunk(float (&acc)[2], const unsigned char *const (&row)[2], const float2 *factors, const Digits &x,
                         uint32_t chunk)
{
    const uint32_t lane = threadIdx.x % 32, g = lane / 4, t = lane % 4, digit = min(g % 4, 2u);
    const uint32_t first = g < 3 ? ~0u : 0, second = g > 3 && g < 7 ? ~0u : 0; /* columns of the two groups */
    const uint32_t mine = t < 2 ? first : second;
    const unsigned char *const from = x.planes + chunk * (CHUNK * RT_ONE_DIGITS) + digit * 32 + t * 8;
    const float2 *const f = factors + g * (GROUPS<Q> + 1);
    float sum[2] = {};
#pragma unroll
    for (int i = 0; i < PAIRS<Q>; i++) {
        int2 start = make_int2(0, 0);
        if (Q::KIND == PLAIN) start = *(const int2 *)(x.begin + (chunk * PAIRS<Q> + i) * 8 + t * 2);
        int c[4] = { start.x, start.y, start.x, start.y };
#pragma unroll
        for (int s = 0; s < GROUP<Q> / 16; s++) { /* of 32 elements: a group, or two */
            const int run = i * (GROUP<Q> / 16) + s;
            uint32_t a[4];
#pragma unroll
            for (int r = 0; r < 2; r++) {
                Codes v;
                decode<Q>(v, row[r], run * 32 + t * 8);
                a[r] = Q::KIND == WIDE ? v.q.w[0] ^ 0x80808080u : v.q.w[0];
                a[r + 2] = Q::KIND == WIDE ? v.q.w[1] ^ 0x80808080u : v.q.w[1];
            }
            const int at = GROUP<Q> == 32 ? i * 2 : run;
            const uint2 b = *(const uint2 *)(from + (GROUP<Q> == 32 ? at + (int)(g / 4) : at) * 96);
            const uint32_t mask = GROUP<Q> == 16 ? mine : s ? second : first;
            mma_s8(c, a, b.x & mask, b.y & mask);
        }
#pragma unroll
        for (int r = 0; r < 2; r++)
            sum[r] = fmaf(f[r * 8 * (GROUPS<Q> + 1) + 2 * i + t / 2].x, (float)(c[2 * r] * 256 + c[2 * r + 1]), sum[r]);
    }
    const float scale = x.scale[chunk] * (t % 2 ? 0x1p-8f : 0x1p8f); /* of the lowest digit; of the others */
#pragma unroll
    for (int r = 0; r < 2; r++) {
        acc[r] = fmaf(sum[r], scale, acc[r]);
        if constexpr (Q::KIND == AFFINE) {
#pragma unroll
            for (uint32_t k = 0; k < GROUPS<Q> / 4; k++) {
                const uint32_t group = t * (GROUPS<Q> / 4) + k;
                acc[r] = fmaf(f[r * 8 * (GROUPS<Q> + 1) + group].y, x.sums[chunk * GROUPS<Q> + group], acc[r]);
            }
        }
    }
}

/* The work of a block: chunks of its 16s of weight rows, one 16 after another, dealt to its warps in runs. */
struct Deal {
    uint32_t first, groups, chunks, warps, units; /* groups: of 16 rows, from `first` on */

    __device__ __forceinline__ Deal(const rt_cuda_few_params &p, const rt_cuda_few_tensor &t)
    {
        const uint64_t block = blockIdx.x - t.first, all = (t.N + 15) / 16;
        first = (uint32_t)(all * block / t.blocks);
        groups = (uint32_t)(all * (block + 1) / t.blocks) - first;
        chunks = (p.K + CHUNK - 1) / CHUNK;
        units = groups * chunks;
        warps = min(blockDim.x / 32, units);
    }
    __device__ __forceinline__ uint32_t begin(uint32_t warp) const
    {
        return (uint32_t)((uint64_t)units * min(warp, warps) / warps);
    }
    __device__ __forceinline__ uint32_t warp_of(uint32_t unit) const
    {
        return (uint32_t)(((uint64_t)(unit + 1) * warps - 1) / units);
    }
};

template <class Q> RT_DEVICE void expect_weights(const rt_cuda_few_params &p)
{
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Deal d(p, t);
    const uint32_t unit = d.begin(threadIdx.x / 32);
    if (unit >= d.units) return;
    weight_rows(t, (d.first + unit / d.chunks) * 16).expect(unit % d.chunks, 1, STAGES<Q> - 1, Q::BYTES);
}

/* The weights of a warp's units, one after another. */
template <class Q> struct Walk {
    uint64_t step;                /* from a row to the next, */
    uint64_t jump;                /* and from the last chunk of 16 rows to the first of the next */
    const char *row;              /* what this lane copies: of row l / 2, in the unit that is fetched next; */
    uint32_t chunk, chunks, left; /* that unit's; rows from that one on */
    uint32_t row_bytes;

    __device__ __forceinline__ Walk(const rt_cuda_few_params &p, const rt_cuda_few_tensor &t, const Deal &d,
                                    uint32_t unit)
    {
        const uint32_t n = (d.first + unit / d.chunks) * 16 + threadIdx.x % 32 / 2;
        step = t.b_step;
        row_bytes = (uint32_t)t.b_row;
        chunks = d.chunks;
        chunk = unit % chunks;
        jump = 16 * step - (uint64_t)(chunks - 1) * Q::BYTES;
        row = t.b + n * step + chunk * Q::BYTES;
        left = t.N - min(t.N, n);
    }
    __device__ __forceinline__ void fetch(uint32_t to)
    {
        uint32_t size = left ? Q::BYTES : 0;
        if (Q::ELEMS < CHUNK) size = left ? min(size, row_bytes - chunk * Q::BYTES) : 0;
        Rows<Q>::copy_row(to + threadIdx.x % 32 / 2 * PITCH<Q>, row, size);
        if (++chunk < chunks) {
            row += Q::BYTES;
        } else {
            row += jump;
            chunk = 0;
            left -= min(left, 16u);
        }
    }
};

/* Shared memory: stages and factors of each warp, a, (groups,p.split,16) sums of warps that had chunks of a group. */
template <class Q> RT_DEVICE void one(const rt_cuda_few_params &p)
{
    enum { STAGE = 16 * PITCH<Q>, MINE = RT_ONE_WARP_BYTES(Q::DTYPE, Q::BYTES) };
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const Deal d(p, t);
    const uint32_t warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, split = p.split;
    unsigned char *const stages = shared_bytes() + warp * MINE, *const behind = shared_bytes() + blockDim.x / 32 * MINE;
    float2 *const factors = (float2 *)(stages + STAGES<Q> * STAGE);
    const Digits x = digits_at<Q>(behind, d.chunks);
    float *const sums = (float *)(behind + d.chunks * RT_ONE_CHUNK_BYTES(Q::DTYPE));
    const uint32_t begin = d.begin(warp), end = d.begin(warp + 1), place = shared_at(stages);
    Walk<Q> walk(p, t, d, begin);
    /* low bits of where rows l / 2 and l / 4 begin, and from row l / 4 to row l / 4 + 8 */
    const uint32_t step = (uint32_t)walk.step, jump = (uint32_t)walk.jump, eight = 8 * step;
    uint32_t copied = (uint32_t)(uint64_t)walk.row, used = copied + (g - lane / 2) * step;
    uint32_t group = begin / d.chunks, chunk = walk.chunk, now = 0, next = STAGES<Q> - 1;
    float acc[2] = {};
    next_may_begin();
#pragma unroll
    for (uint32_t s = 0; s < STAGES<Q> - 1; s++) {
        if (begin + s < end) walk.fetch(place + s * STAGE);
        copy_group();
    }
    take_a<Q>(x, p.a.at, p.K, d.chunks);
    __syncthreads();
#pragma unroll 1
    for (uint32_t unit = begin; unit < end; unit++) {
        const unsigned char *const stage = stages + now * STAGE;
        const unsigned char *const row[2] = { stage + g * PITCH<Q> + (used & 31),
                                              stage + (g + 8) * PITCH<Q> + (used + eight & 31) };
        copy_groups_wait<STAGES<Q> - 2>();
        __syncwarp(); /* the chunk is here for all lanes, and none reads the one before */
        if (unit + STAGES<Q> - 1 < end) walk.fetch(place + next * STAGE);
        copy_group();
        unpack_row<Q, 0>(factors, stage + lane / 2 * PITCH<Q> + (copied & 31));
        add_chunk<Q>(acc, row, factors, x, chunk);
        __syncwarp(); /* factors are free again */
        now = now + 1 == STAGES<Q> ? 0 : now + 1;
        next = next + 1 == STAGES<Q> ? 0 : next + 1;
        const bool last = ++chunk == d.chunks;
        copied += last ? jump : Q::BYTES;
        used += last ? jump : Q::BYTES;
        if (!last && unit + 1 < end) continue;
#pragma unroll
        for (int r = 0; r < 2; r++) {
            const float sum = lanes_sum(acc[r], 4);
            const uint32_t part = group * split + warp - d.warp_of(group * d.chunks);
            if (lane % 4 == 0) sums[part * 16 + g + 8 * r] = sum;
            acc[r] = 0;
        }
        chunk = 0;
        group++;
    }
    copy_wait();
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < d.groups * 16; i += blockDim.x) {
        const uint32_t n = d.first * 16 + i, of = i / 16;
        const uint32_t parts = d.warp_of((of + 1) * d.chunks - 1) - d.warp_of(of * d.chunks) + 1;
        float sum = 0;
        if (n >= t.N) continue;
        for (uint32_t k = 0; k < parts; k++) sum += sums[(of * split + k) * 16 + i % 16];
        few_store(t, 0, n, sum);
    }
}
} // namespace

#define KERNELS(NAME, name, elems, size)                                                                               \
    extern "C" __global__ void __launch_bounds__(32 * RT_ONE_WARPS, 1)                                                 \
        matmul_one_##name(const __grid_constant__ rt_cuda_few_params p)                                                \
    {                                                                                                                  \
        expect_weights<NAME>(p);                                                                                       \
        begin_kernel();                                                                                                \
        one<NAME>(p);                                                                                                  \
    }
RT_FOR_QUANTS(KERNELS)
