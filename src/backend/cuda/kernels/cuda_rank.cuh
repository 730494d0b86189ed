/* cuda_rank.cuh - the best columns of a row in order: larger value first, ties by lower id. A block has a row.
 *
 * Owns: the order as one integer per column, the selection of the best ones digit by digit, sorting. Counts are
 * integers and what is gathered is sorted, so the order of atomics leaves no trace. The row is read a few times, from
 * L2. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_RANK_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_RANK_CUH

#include "backend/cuda/kernels/cuda_choice.h"
#include "backend/cuda/kernels/cuda_common.cuh"

/* A larger key ranks first; no two columns have the same. Both zeros are one value. */
RT_DEVICE uint64_t rank_key(float x, uint32_t id)
{
    uint32_t u = __float_as_uint(x + 0.0f);
    u = u >> 31 ? ~u : u | 0x80000000u;
    return (uint64_t)u << 32 | (uint32_t)~id;
}
RT_DEVICE uint32_t rank_id(uint64_t key) { return ~(uint32_t)key; }
RT_DEVICE float rank_value(uint64_t key)
{
    const uint32_t u = (uint32_t)(key >> 32);
    return __uint_as_float(u >> 31 ? u & 0x7fffffffu : ~u);
}

/* The columns of a row that may be chosen. */
template <class T> struct Columns {
    const T *x;
    const uint32_t *vmask; /* or null */
    uint32_t V;
    const uint32_t *seen; /* ids whose values are penalised, or null */
    float penalty;
    __device__ bool has(uint32_t v) const { return !vmask || (vmask[v / 32] >> v % 32 & 1); }
    __device__ float value(uint32_t v) const { return penalised(to_float(x[v]), v); }
    __device__ float penalised(float y, uint32_t v) const
    {
        if (!seen || !(seen[v / 32] >> v % 32 & 1)) return y;
        return y > 0 ? y / penalty : y * penalty;
    }
};

struct Chosen {
    uint64_t least; /* a column is taken when its key is not below this */
    uint32_t n;     /* how many are */
    bool finite;    /* is every value that may be chosen? */
};

/* From the count of each digit: the digit of the left-th largest key, how many keys have larger ones, how many it. By
 * the first warp, eight digits a lane, the largest first. */
struct Digit {
    uint32_t digit, above, same, all;
};
RT_DEVICE void find_digit(const uint32_t *count /* (256) */, uint32_t depth, bool first, Digit *out)
{
    const uint32_t lane = threadIdx.x;
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 8; i++) sum += count[255 - 8 * lane - i];
    uint32_t upto = sum;
    for (uint32_t o = 1; o < 32; o *= 2) {
        const uint32_t other = __shfl_up_sync(RT_EVERY_LANE, upto, o);
        if (lane >= o) upto += other;
    }
    const uint32_t all = __shfl_sync(RT_EVERY_LANE, upto, 31), left = first && all < depth ? all : depth;
    uint32_t above = upto - sum;
    if (left == 0 && lane == 0) *out = { 0, 0, 0, all };
    if (!(above < left && left <= upto)) return;
    uint32_t d = 255 - 8 * lane;
    for (; above + count[d] < left; d--) above += count[d];
    *out = { d, above, count[d], all };
}

/* Which are the best `depth` columns, depth >= 1. All threads of the block get the answer. */
template <class T> RT_DEVICE Chosen choose(const Columns<T> &c, uint32_t depth)
{
    __shared__ uint32_t count[256];
    __shared__ Digit found;
    Chosen y = { 0, 0, true };
    uint64_t mask = 0;
    uint32_t left = depth;
    int odd = 0;
    for (int shift = 56; shift >= 0; shift -= 8) {
        if (shift < 32 && shift >= 8 && (c.V - 1) >> shift == 0) { /* ids have no such digit: its bits are all set */
            y.least |= (uint64_t)255 << shift;
            mask |= (uint64_t)255 << shift;
            continue;
        }
        for (uint32_t i = threadIdx.x; i < 256; i += blockDim.x) count[i] = 0;
        __syncthreads();
        for (uint32_t v = threadIdx.x; v < c.V; v += blockDim.x) {
            if (!c.has(v)) continue;
            const float x = c.value(v);
            const uint64_t key = rank_key(x, v);
            odd |= (__float_as_uint(x) & 0x7f800000) == 0x7f800000;
            if ((key & mask) == y.least) atomicAdd(&count[key >> shift & 255], 1u);
        }
        __syncthreads();
        if (threadIdx.x < 32) find_digit(count, left, shift == 56, &found);
        __syncthreads();
        const Digit d = found;
        if (shift == 56) {
            y.n = left = d.all < depth ? d.all : depth;
            if (left == 0) break;
        }
        left -= d.above;
        y.least |= (uint64_t)d.digit << shift;
        mask |= (uint64_t)255 << shift;
        if (left == d.same) break; /* all with this digit are taken: lower ones decide nothing */
        __syncthreads();
    }
    y.finite = !__syncthreads_or(odd);
    return y;
}

/* keys (room) = those of the chosen columns, the largest first; 0 behind them. room: a power of two, at least n. */
template <class T> RT_DEVICE void rank_chosen(const Columns<T> &c, const Chosen &y, uint64_t *keys, uint32_t room)
{
    __shared__ uint32_t n;
    if (threadIdx.x == 0) n = 0;
    for (uint32_t i = threadIdx.x; i < room; i += blockDim.x) keys[i] = 0;
    __syncthreads();
    for (uint32_t v = threadIdx.x; v < c.V; v += blockDim.x) {
        if (!c.has(v)) continue;
        const uint64_t key = rank_key(c.value(v), v);
        if (key >= y.least && y.n) keys[atomicAdd(&n, 1u)] = key;
    }
    __syncthreads();
    for (uint32_t size = 2; size <= room; size *= 2) { /* bitonic: rising and falling runs are merged in turn */
        for (uint32_t apart = size / 2; apart > 0; apart /= 2) {
            for (uint32_t i = threadIdx.x; i < room / 2; i += blockDim.x) {
                const uint32_t low = i / apart * 2 * apart + i % apart, high = low + apart;
                const uint64_t a = keys[low], b = keys[high];
                if ((a < b) == ((low & size) == 0)) keys[low] = b, keys[high] = a;
            }
            __syncthreads();
        }
    }
}

RT_DEVICE uint32_t room_for(uint32_t n)
{
    uint32_t room = 2;
    while (room < n) room *= 2;
    return room;
}

#endif
