/* cuda_rmsnorm.cu - rmsnorm forward, plain, per head and with the residual sum fused; y as values or as e4m3 codes.
 *
 * A group of D columns belongs to a team of threads: some lanes of a warp where D is short, several warps where it is
 * long. Where the packs of a group are whole and at most four a thread, they are loaded once, all at the same time, and
 * kept in registers, and a block keeps the weight in shared memory; else the team walks its group twice, the second
 * time out of L1. Each thread sees the same columns both times, so outputs may lie on inputs.
 *
 * y as codes (scale = that of the row, codes = y / scale, y as it would be stored): the same sum, in the same order. A
 * team that holds its row puts y in the place of x, finds the row's largest and stores codes out of registers: 1 byte
 * is written where 2 were, and none is read again. Else it walks its row a third time, and stores nothing before that.
 */
#include "backend/cuda/kernels/cuda_coded_rows.cuh"
#include "backend/cuda/kernels/cuda_rmsnorm.h"

namespace
{
constexpr int HOLDS = RT_CUDA_NORM_HOLDS;

/* n / team, which is a power of two */
RT_DEVICE uint32_t by_team(uint32_t n, uint32_t team) { return n >> (31 - __clz((int)team)); }

/* Where a thread is: its group, and its place in the team that has the group. */
struct Seat {
    uint64_t row, col; /* of the group's first element */
    uint32_t team, lane;
    bool taken; /* there is such a group */
    __device__ Seat(const rt_cuda_rmsnorm_params &p, uint64_t first)
    {
        const uint64_t groups = (uint64_t)p.a.N * p.a.H;
        team = by_team(threadIdx.x, p.team);
        lane = threadIdx.x & (p.team - 1);
        row = first + team;
        col = 0;
        taken = row < groups;
        if (p.a.H == 1) return;
        const uint64_t g = row;
        row = groups <= UINT32_MAX ? (uint32_t)g / p.a.H : g / p.a.H; /* the short division is fast */
        col = (g - row * p.a.H) * p.a.D;
    }
};

/* The sums of S values over a team, for all of its threads; all teams of the block call it together. room: shared, for
 * every warp of the block; it may be used again behind the next sum, which takes another. */
template <int S> RT_DEVICE void team_sum(float (&v)[S], uint32_t threads, uint32_t team, float (*room)[S])
{
#pragma unroll
    for (uint32_t o = 16; o > 0; o /= 2) {
        if (o >= threads) continue;
#pragma unroll
        for (int s = 0; s < S; s++) v[s] += __shfl_xor_sync(RT_EVERY_LANE, v[s], o);
    }
    if (threads <= 32) return;
    const uint32_t warps = threads / 32;
    if (threadIdx.x % 32 == 0)
#pragma unroll
        for (int s = 0; s < S; s++) room[threadIdx.x / 32][s] = v[s];
    __syncthreads();
#pragma unroll
    for (int s = 0; s < S; s++) v[s] = 0.0f;
#pragma unroll 1
    for (uint32_t w = 0; w < warps; w++)
#pragma unroll
        for (int s = 0; s < S; s++) v[s] += room[team * warps + w][s];
}

RT_DEVICE float inverse_rms(float squares, const rt_rmsnorm_args &a)
{
    return 1.0f / sqrtf(squares / (float)a.D + a.eps);
}

/* ---- packs of f32 in shared memory, quarter by quarter of 16 bytes: neighbouring lanes use all banks ---- */

template <int W> RT_DEVICE void put_shared(float4 *to, uint32_t packs, uint32_t k, const float (&v)[W])
{
#pragma unroll
    for (int i = 0; i < W; i += 4) to[i / 4 * packs + k] = make_float4(v[i], v[i + 1], v[i + 2], v[i + 3]);
}
template <int W> RT_DEVICE void get_shared(float (&v)[W], const float4 *from, uint32_t packs, uint32_t k)
{
#pragma unroll
    for (int i = 0; i < W; i += 4) {
        const float4 q = from[i / 4 * packs + k];
        v[i] = q.x, v[i + 1] = q.y, v[i + 2] = q.z, v[i + 3] = q.w;
    }
}

/* The weight to shared memory, for held groups; a barrier must follow. */
template <int W> RT_DEVICE void put_weight(const rt_cuda_rmsnorm_params &p)
{
    const uint32_t packs = p.a.D / W;
    for (uint32_t k = threadIdx.x; k < packs; k += blockDim.x) {
        float w[W];
        load_any(w, p.w, p.w_dtype, k * W, Whole());
        put_shared((float4 *)shared_bytes(), packs, k, w);
    }
}

/* Packs of a thread, as loaded; those behind the end of the group are 0. */
template <class T> struct Held {
    static constexpr int W = 16 / (int)sizeof(T);
    Raw<16> pack[HOLDS];
    __device__ void load(const rt_cuda_mat &m, const Seat &at, const rt_cuda_rmsnorm_params &p)
    {
        const T *from = element<T>(m, at.row, at.col);
        const uint32_t packs = at.taken ? p.a.D / W : 0;
#pragma unroll
        for (int j = 0; j < HOLDS; j++) {
            const uint32_t k = at.lane + j * p.team;
            pack[j] = { { 0, 0, 0, 0 } };
            if (k < packs) pack[j] = load_raw<16>(from + k * W);
        }
    }
};

/* y = x r w; ADD: h = x + res, and y is made from that sum before it is rounded into h. CODED: y is codes. */
template <class T, bool ADD, bool CODED> struct Forward {
    static constexpr int W = 16 / (int)sizeof(T);
    const rt_cuda_rmsnorm_params &p;
    Seat at;
    float squares[1], r;

    __device__ void add_up(const float (&v)[W])
    {
#pragma unroll
        for (int i = 0; i < W; i++) squares[0] = fmaf(v[i], v[i], squares[0]);
    }
    __device__ void join(float (*room)[1])
    {
        team_sum(squares, p.team, at.team, room);
        r = inverse_rms(squares[0], p.a);
    }
    /* v, the sum, becomes y; h is written. */
    template <class E> __device__ void make(float (&v)[W], const float (&w)[W], uint32_t c, E e, bool write_h)
    {
        if constexpr (ADD)
            if (write_h) store(element<T>(p.h, at.row, at.col + c), v, e);
#pragma unroll
        for (int i = 0; i < W; i++) v[i] = v[i] * r * w[i];
    }
    template <class E> __device__ void write(float (&v)[W], const float (&w)[W], uint32_t c, E e)
    {
        make(v, w, c, e, true);
        store(element<T>(p.y, at.row, at.col + c), v, e);
    }
    __device__ CodedRow codes(uint32_t *tops)
    {
        return { p.y, p.scale, at.row, p.a.D, at.lane, p.team, at.taken, tops };
    }
    __device__ void run_held(float (*room)[1], uint32_t *tops)
    {
        const uint32_t packs = p.a.D / W;
        Held<T> x, res;
        x.load(p.x, at, p);
        if constexpr (ADD) res.load(p.res, at, p);
        put_weight<W>(p); /* while they are under way */
        __syncthreads();
#pragma unroll
        for (int j = 0; j < HOLDS; j++) {
            float v[W];
            sum_of(v, x.pack[j], res.pack[j]);
            add_up(v);
        }
        join(room);
#pragma unroll
        for (int j = 0; j < HOLDS; j++) {
            const uint32_t k = at.lane + j * p.team;
            float v[W], w[W];
            if (!at.taken || k >= packs) continue;
            sum_of(v, x.pack[j], res.pack[j]);
            get_shared(w, (const float4 *)shared_bytes(), packs, k);
            if constexpr (CODED) {
                make(v, w, k * W, Whole(), true);
                x.pack[j] = repack<T, W>(v);
            } else {
                write(v, w, k * W, Whole());
            }
        }
        if constexpr (CODED) codes(tops).template store_held<T>(x.pack);
    }
    /* v = x + res */
    __device__ void sum_of(float (&v)[W], const Raw<16> &x, const Raw<16> &res)
    {
        unpack<T, W>(v, x);
        if constexpr (ADD) {
            float s[W];
            unpack<T, W>(s, res);
#pragma unroll
            for (int i = 0; i < W; i++) v[i] += s[i];
        }
    }
    __device__ void load_sum(float (&v)[W], uint32_t c, Part e)
    {
        load(v, element<T>(p.x, at.row, at.col + c), e);
        if constexpr (ADD) {
            float s[W];
            load(s, element<T>(p.res, at.row, at.col + c), e);
#pragma unroll
            for (int i = 0; i < W; i++) v[i] += s[i];
        }
    }
    __device__ void run_twice(float (*room)[1], uint32_t *tops)
    {
        const uint32_t D = at.taken ? p.a.D : 0, step = p.team * W;
        float v[W], w[W];
        for (uint32_t c = at.lane * W; c < D; c += step) {
            load_sum(v, c, Part{ D - c < W ? D - c : W });
            add_up(v);
        }
        join(room);
        if constexpr (CODED)
            codes(tops).template store_twice<T>([&](float(&y)[W], uint32_t c, Part e, bool last) {
                load_sum(y, c, e);
                load_any(w, p.w, p.w_dtype, c, e);
                make(y, w, c, e, last);
            });
        else
            for (uint32_t c = at.lane * W; c < D; c += step) {
                Part e = { D - c < W ? D - c : W };
                load_sum(v, c, e);
                load_any(w, p.w, p.w_dtype, c, e);
                write(v, w, c, e);
            }
    }
};

template <class T, bool ADD, bool CODED> __device__ void forward(const rt_cuda_rmsnorm_params &p)
{
    __shared__ float room[32][1];
    __shared__ uint32_t tops[CODED ? 32 : 1];
    Forward<T, ADD, CODED> f = { p, Seat(p, (uint64_t)blockIdx.x * by_team(blockDim.x, p.team)), { 0.0f }, 0.0f };
    if (p.held)
        f.run_held(room, tops);
    else
        f.run_twice(room, tops);
}
} // namespace

#define KERNELS_OF(op, name, T, ADD, CODED)                                                                            \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK, 4) op##_##name(const rt_cuda_rmsnorm_params p)         \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        forward<T, ADD, CODED>(p);                                                                                     \
    }
#define KERNELS(name, T)                                                                                               \
    KERNELS_OF(rmsnorm_fwd, name, T, false, false)                                                                     \
    KERNELS_OF(add_rmsnorm_fwd, name, T, true, false)                                                                  \
    KERNELS_OF(coded_rmsnorm_fwd, name, T, false, true)                                                                \
    KERNELS_OF(coded_add_rmsnorm_fwd, name, T, true, true)
RT_FOR_FLOATS(KERNELS)
