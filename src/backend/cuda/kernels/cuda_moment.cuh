/* cuda_moment.cuh - moments narrower than f32, four at a time: the formats and the rounding of num/moment.h, bit for
 * bit.
 *
 * A thread has four neighbours of a row; a warp has the 128 of a block where they share an exponent. A pack without
 * elements is 0 and stores nothing. The lower half of an element's random word is m's, the upper half v's. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_MOMENT_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_MOMENT_CUH

#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_optim.h"
#include "backend/cuda/kernels/cuda_rng.cuh"
#include "num/moment.h"

static_assert(RT_MOMENT_BLOCK == 32 * RT_CUDA_ADAM_WIDTH, "a warp has a block");

/* rt_adamw_stream of op/args.h */
RT_DEVICE uint64_t stream_of(uint32_t stream, uint32_t step) { return (uint64_t)(0x80000000u | stream) << 32 | step; }

struct Moments16 {
    template <class E>
    static __device__ void load(float (&m)[4], float (&v)[4], const rt_cuda_narrow_tensor &t, Place at, E e)
    {
        ::load(m, element<bf16>(t.m, at.row, at.col), e);
        ::load(v, element<bf16>(t.v, at.row, at.col), e);
    }
    static __device__ uint32_t rounded(float x, uint32_t chance)
    {
        const uint32_t u = __float_as_uint(x);
        bf16 kept;
        if ((u & 0x7f800000u) != 0x7f800000u) return (u + chance) >> 16;
        narrow(&kept, x);
        return kept.bits;
    }
    static __device__ void put(const rt_cuda_mat &to, Place at, bool whole, const uint32_t (&h)[4])
    {
        bf16 *p = element<bf16>(to, at.row, at.col);
        if (whole) {
            store_raw(p, Raw<8>{ { h[0] | h[1] << 16, h[2] | h[3] << 16 } });
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if ((uint32_t)i < at.n) p[i].bits = (uint16_t)h[i];
    }
    static __device__ void store(const float (&m)[4], const float (&v)[4], const rt_cuda_narrow_tensor &t, Place at,
                                 bool whole, const Random &r)
    {
        uint32_t a[4], b[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            a[i] = rounded(m[i], r.v[i] & 0xffff);
            b[i] = rounded(v[i], r.v[i] >> 16);
        }
        put(t.m, at, whole, a);
        put(t.v, at, whole, b);
    }
};

struct Moments8 {
    static __device__ uint8_t *exps(const rt_cuda_narrow_tensor &t, Place at)
    {
        return element<uint8_t>(t.exps, at.row, 2 * (at.col / RT_MOMENT_BLOCK));
    }
    static __device__ uint32_t codes(const rt_cuda_mat &from, Place at, Whole)
    {
        return *(const uint32_t *)element<uint8_t>(from, at.row, at.col);
    }
    static __device__ uint32_t codes(const rt_cuda_mat &from, Place at, Part part)
    {
        const uint8_t *p = element<uint8_t>(from, at.row, at.col);
        uint32_t c = 0;
#pragma unroll
        for (int i = 0; i < 4; i++)
            if ((uint32_t)i < part.n) c |= (uint32_t)p[i] << 8 * i;
        return c;
    }
    static __device__ float value(uint32_t code, uint32_t exp)
    {
        const float quanta = code < 8 ? (float)code : __uint_as_float((129u << 23) + (code << 20));
        return quanta * __uint_as_float(exp << 23);
    }
    template <class E>
    static __device__ void load(float (&m)[4], float (&v)[4], const rt_cuda_narrow_tensor &t, Place at, E e)
    {
        const uint8_t *x = exps(t, at);
        const uint32_t a = codes(t.m, at, e), b = codes(t.v, at, e), exp_m = x[0], exp_v = x[1];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const bool there = (uint32_t)i < at.n; /* of a block that is not finite, 0 is not 0 */
            const float x_m = value(a >> 8 * i & 0x7f, exp_m);
            m[i] = there ? (a >> (8 * i + 7) & 1 ? -x_m : x_m) : 0.0f;
            v[i] = there ? value(b >> 8 * i & 0xff, exp_v) : 0.0f;
        }
    }
    /* The exponent of the warp's block. */
    static __device__ uint32_t exp_of(const float (&x)[4], uint32_t top)
    {
        uint32_t most = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) most = max(most, __float_as_uint(x[i]) & 0x7fffffffu);
        most = lanes_max(most);
        const uint32_t e = (most + 0xfffffu) >> 23;
        return most == 0 ? 0 : e >= 255 ? 255 : e <= top ? 1 : e - top;
    }
    static __device__ uint32_t code(float x, uint32_t exp, uint32_t chance)
    {
        if (exp == 0 || exp == 255) return 0;
        const float quanta = x * __uint_as_float((254 - exp) << 23);
        const uint32_t below = quanta < 8 ? 8 : 0;
        return ((__float_as_uint(quanta + (float)below) + (chance << 4 | 8)) >> 20) - (129u << 3) - below;
    }
    static __device__ void put(const rt_cuda_mat &to, Place at, bool whole, uint32_t c)
    {
        uint8_t *p = element<uint8_t>(to, at.row, at.col);
        if (whole) {
            *(uint32_t *)p = c;
            return;
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
            if ((uint32_t)i < at.n) p[i] = (uint8_t)(c >> 8 * i);
    }
    static __device__ void store(const float (&m)[4], const float (&v)[4], const rt_cuda_narrow_tensor &t, Place at,
                                 bool whole, const Random &r)
    {
        const uint32_t exp_m = exp_of(m, RT_MOMENT_M_TOP), exp_v = exp_of(v, RT_MOMENT_V_TOP);
        uint32_t a = 0, b = 0;
#pragma unroll
        for (int i = 0; i < 4; i++) {
            uint32_t c = code(fabsf(m[i]), exp_m, r.v[i] & 0xffff), d = code(v[i], exp_v, r.v[i] >> 16);
            if (c) c |= __float_as_uint(m[i]) >> 31 << 7;
            if (d == 0 && v[i] > 0 && exp_v != 255) d = 1;
            a |= c << 8 * i;
            b |= d << 8 * i;
        }
        put(t.m, at, whole, a);
        put(t.v, at, whole, b);
        if (threadIdx.x % 32 == 0) { /* every lane has read them: their maxima are in these */
            exps(t, at)[0] = (uint8_t)exp_m;
            exps(t, at)[1] = (uint8_t)exp_v;
        }
    }
};

#endif
