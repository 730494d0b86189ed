/* cuda_common.cuh - what every kernel of memory-bound ops is built from: packs, the elementwise walk, sums.
 *
 * Owns: how values move (16 bytes at a time where the operands allow it), the one walk over elementwise work, and
 * reductions whose order is fixed by the shape. Leaves to cuda_device.cuh what is a machine instruction. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_COMMON_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_COMMON_CUH

#include "backend/cuda/kernels/cuda_args.h"
#include "backend/cuda/kernels/cuda_device.cuh"

#define RT_EVERY_LANE 0xffffffffu

/* ---- packs ---- */

/* How many of a pack's elements exist: all, known when compiling, or n of them. */
struct Whole {
};
struct Part {
    uint32_t n;
};
/* Of n elements, as E knows it. */
RT_DEVICE Whole extent(Whole, uint32_t) { return Whole(); }
RT_DEVICE Part extent(Part, uint32_t n) { return Part{ n }; }

/* BYTES consecutive bytes, aligned to 16 or to their size. */
template <int BYTES> struct Raw {
    uint32_t w[BYTES / 4];
};
template <int BYTES> RT_DEVICE Raw<BYTES> load_raw(const void *p)
{
    Raw<BYTES> r;
    if constexpr (BYTES == 4) {
        r.w[0] = *(const uint32_t *)p;
    } else if constexpr (BYTES == 8) {
        uint2 v = *(const uint2 *)p;
        r.w[0] = v.x, r.w[1] = v.y;
    } else {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++) {
            uint4 v = ((const uint4 *)p)[i];
            r.w[4 * i] = v.x, r.w[4 * i + 1] = v.y, r.w[4 * i + 2] = v.z, r.w[4 * i + 3] = v.w;
        }
    }
    return r;
}
template <int BYTES> RT_DEVICE void store_raw(void *p, const Raw<BYTES> &r)
{
    if constexpr (BYTES == 4) {
        *(uint32_t *)p = r.w[0];
    } else if constexpr (BYTES == 8) {
        *(uint2 *)p = make_uint2(r.w[0], r.w[1]);
    } else {
#pragma unroll
        for (int i = 0; i < BYTES / 16; i++)
            ((uint4 *)p)[i] = make_uint4(r.w[4 * i], r.w[4 * i + 1], r.w[4 * i + 2], r.w[4 * i + 3]);
    }
}

template <class T, int W> RT_DEVICE void unpack(float (&v)[W], const Raw<W *(int)sizeof(T)> &r)
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        if constexpr (sizeof(T) == 4)
            v[i] = __uint_as_float(r.w[i]);
        else
            v[i] = i % 2 ? twins<T>::high(r.w[i / 2]) : twins<T>::low(r.w[i / 2]);
    }
}
template <class T, int W> RT_DEVICE Raw<W *(int)sizeof(T)> repack(const float (&v)[W])
{
    Raw<W *(int)sizeof(T)> r;
#pragma unroll
    for (int i = 0; i < W; i++) {
        if constexpr (sizeof(T) == 4)
            r.w[i] = __float_as_uint(v[i]);
        else if (i % 2 == 0)
            r.w[i / 2] = twins<T>::join(v[i], v[i + 1]);
    }
    return r;
}

/* v = W elements from p; those that do not exist are 0. */
template <class T, int W> RT_DEVICE void load(float (&v)[W], const T *p, Whole)
{
    unpack<T, W>(v, load_raw<W *(int)sizeof(T)>(p));
}
template <class T, int W> RT_DEVICE void load(float (&v)[W], const T *p, Part part)
{
#pragma unroll
    for (int i = 0; i < W; i++) v[i] = (uint32_t)i < part.n ? to_float(p[i]) : 0.0f;
}
template <class T, int W> RT_DEVICE void store(T *p, const float (&v)[W], Whole) { store_raw(p, repack<T, W>(v)); }
template <class T, int W> RT_DEVICE void store(T *p, const float (&v)[W], Part part)
{
#pragma unroll
    for (int i = 0; i < W; i++)
        if ((uint32_t)i < part.n) narrow(p + i, v[i]);
}

/* The same where the type is known only when running: elements col.. of a row. */
template <int W, class Extent>
RT_DEVICE void load_any(float (&v)[W], const char *row, uint32_t dtype, uint64_t col, Extent e)
{
    if (dtype == RT_DTYPE_F32)
        load(v, (const float *)row + col, e);
    else if (dtype == RT_DTYPE_BF16)
        load(v, (const bf16 *)row + col, e);
    else
        load(v, (const f16 *)row + col, e);
}
RT_DEVICE float load_one(const char *row, uint32_t dtype, uint64_t col)
{
    if (dtype == RT_DTYPE_F32) return ((const float *)row)[col];
    return dtype == RT_DTYPE_BF16 ? to_float(((const bf16 *)row)[col]) : to_float(((const f16 *)row)[col]);
}
RT_DEVICE void store_one(char *row, uint32_t dtype, uint64_t col, float x)
{
    if (dtype == RT_DTYPE_F32)
        ((float *)row)[col] = x;
    else if (dtype == RT_DTYPE_BF16)
        narrow((bf16 *)row + col, x);
    else
        narrow((f16 *)row + col, x);
}

template <class T> RT_DEVICE T *element(const rt_cuda_mat &m, uint64_t row, uint64_t col)
{
    return (T *)m.at + (row * m.stride + col);
}

/* ---- the elementwise walk ---- */

struct Place {
    uint64_t row, col;
    uint32_t n; /* elements of the pack; 0 behind the end */
};

template <int W> RT_DEVICE Place place_of(const rt_cuda_tile &t, uint64_t i)
{
    const uint64_t total = t.rows * t.packs;
    Place p = { 0, 0, 0 };
    if (i >= total) return p;
    if (t.rows == 1) {
        p.col = i * W;
    } else {
        p.row = total <= 0xffffffffu ? (uint32_t)i / (uint32_t)t.packs : i / t.packs; /* the short division is fast */
        p.col = (i - p.row * t.packs) * W;
    }
    p.n = t.cols - p.col < W ? (uint32_t)(t.cols - p.col) : W;
    return p;
}

/* Gives every pack of the tile to op: load(state, place, extent), then store(state, place, extent). A thread has U
 * packs under way: all their loads are issued before the first is used. The tile is that of `blocks` blocks, of which
 * this is number `block`. */
template <int W, int U, class Op>
RT_DEVICE void each_pack_of(const rt_cuda_tile &t, uint32_t block, uint32_t blocks, Op &op)
{
    const uint64_t total = t.rows * t.packs, step = (uint64_t)blocks * U * blockDim.x;
    for (uint64_t i = (uint64_t)block * U * blockDim.x + threadIdx.x; i < total; i += step) {
        Place at[U];
        typename Op::State s[U];
        bool whole = t.whole;
#pragma unroll
        for (int u = 0; u < U; u++) {
            at[u] = place_of<W>(t, i + (uint64_t)u * blockDim.x);
            whole = whole && at[u].n == W;
        }
        if (whole) {
#pragma unroll
            for (int u = 0; u < U; u++) op.load(s[u], at[u], Whole());
#pragma unroll
            for (int u = 0; u < U; u++) op.store(s[u], at[u], Whole());
            continue;
        }
#pragma unroll
        for (int u = 0; u < U; u++) {
            if (at[u].n == 0) continue;
            op.load(s[u], at[u], Part{ at[u].n });
            op.store(s[u], at[u], Part{ at[u].n });
        }
    }
}

template <int W, int U, class Op> RT_DEVICE void each_pack(const rt_cuda_tile &t, Op &op)
{
    next_may_begin();
    each_pack_of<W, U>(t, blockIdx.x, gridDim.x, op);
}

/* A launch over several tensors: which of them a block works on, the last that does not begin behind it. P has count
 * and tensor[], and each of those its first block. */
template <class P> RT_DEVICE uint32_t tensor_of(const P &p)
{
    uint32_t low = 0;
    for (uint32_t high = p.count; high - low > 1;) {
        const uint32_t middle = (low + high) / 2;
        (p.tensor[middle].first <= blockIdx.x ? low : high) = middle;
    }
    return low;
}

/* ---- sums in an order that the shape alone fixes; every thread gets the result ---- */

/* Over `width` neighbouring lanes, a power of two. All lanes of the warp take part. */
template <class R> RT_DEVICE R lanes_sum(R v, uint32_t width = 32)
{
    for (uint32_t o = width / 2; o > 0; o /= 2) v += __shfl_xor_sync(RT_EVERY_LANE, v, o);
    return v;
}
template <class R> RT_DEVICE R lanes_max(R v, uint32_t width = 32)
{
    for (uint32_t o = width / 2; o > 0; o /= 2) {
        R w = __shfl_xor_sync(RT_EVERY_LANE, v, o);
        v = w > v ? w : v;
    }
    return v;
}
/* Over the block, whole warps of it. room (32): shared; it may be used again after the next barrier. */
template <class R> RT_DEVICE R block_sum(R v, R *room)
{
    v = lanes_sum(v);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? room[threadIdx.x % 32] : R(0);
    return lanes_sum(v);
}
/* None is larger than `least` where there is nothing. */
template <class R> RT_DEVICE R block_max(R v, R *room, R least)
{
    v = lanes_max(v);
    if (threadIdx.x % 32 == 0) room[threadIdx.x / 32] = v;
    __syncthreads();
    v = threadIdx.x % 32 < blockDim.x / 32 ? room[threadIdx.x % 32] : least;
    return lanes_max(v);
}

/* One kernel for each type of A. */
#define RT_FOR_FLOATS(X) X(f32, float) X(bf16, bf16) X(f16, f16)

#endif
