/* cuda_rmsnorm.cu - rmsnorm forward and backward, plain, per head and with the residual sum fused.
 *
 * A group of D columns belongs to a team of threads: some lanes of a warp where D is short, a whole block where it is
 * long. Where the packs of a group are whole and at most four a thread, they are loaded once, all at the same time, and
 * kept in registers; else the team walks its group twice, the second time out of L1. Each thread sees the same columns
 * both times, so outputs may lie on inputs. The weight gradient is summed by each block over the groups it had, in
 * registers, then over the blocks by sum_columns of cuda_sums.cu. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_rmsnorm.h"

namespace
{
/* The sum over a team; all threads of the block call it together. */
RT_DEVICE float team_sum(float v, uint32_t team, float *room)
{
    if (team <= 32) return lanes_sum(v, team);
    v = block_sum(v, room);
    __syncthreads(); /* room is used again */
    return v;
}

RT_DEVICE float inverse_rms(float squares, const rt_rmsnorm_args &a)
{
    return 1.0f / sqrtf(squares / (float)a.D + a.eps);
}

/* Where a thread is: its group, and its place in the team that has the group. */
struct Seat {
    uint64_t row, col; /* of the group's first element */
    uint32_t lane;
    bool taken; /* there is such a group */
    __device__ Seat(const rt_cuda_rmsnorm_params &p, uint64_t first)
    {
        const uint64_t g = first + threadIdx.x / p.team;
        row = g / p.a.H;
        col = (g - row * p.a.H) * p.a.D;
        lane = threadIdx.x % p.team;
        taken = g < (uint64_t)p.a.N * p.a.H;
    }
};

/* Packs of a thread, as loaded; those behind the end of the group are 0. */
template <class T> struct Held {
    static constexpr int W = 16 / (int)sizeof(T);
    Raw<16> pack[RT_CUDA_NORM_HOLDS];
    __device__ void load(const rt_cuda_mat &m, const Seat &at, const rt_cuda_rmsnorm_params &p)
    {
#pragma unroll
        for (int j = 0; j < RT_CUDA_NORM_HOLDS; j++) {
            const uint32_t c = (at.lane + j * p.team) * W;
            pack[j] = { { 0, 0, 0, 0 } };
            if (m.at && at.taken && c < p.a.D) pack[j] = load_raw<16>(element<T>(m, at.row, at.col + c));
        }
    }
};

/* y = x r w; with a residual h = x + res, and y is made from that sum before it is rounded into h. */
template <class T> struct Forward {
    static constexpr int W = 16 / (int)sizeof(T);
    const rt_cuda_rmsnorm_params &p;
    Seat at;
    float squares, r;

    __device__ void add_up(float (&v)[W], const float (&res)[W])
    {
#pragma unroll
        for (int i = 0; i < W; i++) v[i] += res[i];
#pragma unroll
        for (int i = 0; i < W; i++) squares = fmaf(v[i], v[i], squares);
    }
    template <class E> __device__ void write(float (&v)[W], uint32_t c, E e)
    {
        float w[W];
        load_any(w, p.w, p.w_dtype, c, e);
        if (p.res.at) store(element<T>(p.h, at.row, at.col + c), v, e);
#pragma unroll
        for (int i = 0; i < W; i++) v[i] = v[i] * r * w[i];
        store(element<T>(p.y, at.row, at.col + c), v, e);
    }
    __device__ void run_held(float *room)
    {
        Held<T> x, res;
        x.load(p.x, at, p);
        res.load(p.res, at, p);
#pragma unroll
        for (int j = 0; j < RT_CUDA_NORM_HOLDS; j++) {
            float v[W], s[W];
            unpack<T, W>(v, x.pack[j]);
            unpack<T, W>(s, res.pack[j]);
            add_up(v, s);
        }
        r = inverse_rms(team_sum(squares, p.team, room), p.a);
#pragma unroll
        for (int j = 0; j < RT_CUDA_NORM_HOLDS; j++) {
            const uint32_t c = (at.lane + j * p.team) * W;
            float v[W], s[W];
            if (!at.taken || c >= p.a.D) continue;
            unpack<T, W>(v, x.pack[j]);
            unpack<T, W>(s, res.pack[j]);
#pragma unroll
            for (int i = 0; i < W; i++) v[i] += s[i];
            write(v, c, Whole());
        }
    }
    /* v = x + res from column c on */
    __device__ void load_sum(float (&v)[W], float (&s)[W], uint32_t c, Part e)
    {
#pragma unroll
        for (int i = 0; i < W; i++) s[i] = 0.0f;
        load(v, element<T>(p.x, at.row, at.col + c), e);
        if (p.res.at) load(s, element<T>(p.res, at.row, at.col + c), e);
    }
    __device__ void run_twice(float *room)
    {
        const uint32_t D = at.taken ? p.a.D : 0, step = p.team * W;
        float v[W], s[W];
        for (uint32_t c = at.lane * W; c < D; c += step) {
            load_sum(v, s, c, Part{ D - c < W ? D - c : W });
            add_up(v, s);
        }
        r = inverse_rms(team_sum(squares, p.team, room), p.a);
        for (uint32_t c = at.lane * W; c < D; c += step) {
            Part e = { D - c < W ? D - c : W };
            load_sum(v, s, c, e);
#pragma unroll
            for (int i = 0; i < W; i++) v[i] += s[i];
            write(v, c, e);
        }
    }
};

template <class T> __device__ void forward(const rt_cuda_rmsnorm_params &p)
{
    __shared__ float room[32];
    Forward<T> f = { p, Seat(p, (uint64_t)blockIdx.x * (blockDim.x / p.team)), 0.0f, 0.0f };
    if (p.held)
        f.run_held(room);
    else
        f.run_twice(room);
}

/* The teams' sums of one block, in order, to its row of part. */
template <int W> RT_DEVICE void join_teams(const rt_cuda_rmsnorm_params &p, const float (&sum)[RT_CUDA_NORM_HOLDS][W])
{
    const uint32_t D = p.a.D, lane = threadIdx.x % p.team, mine = threadIdx.x / p.team, teams = blockDim.x / p.team;
    float *part = (float *)p.part + (uint64_t)blockIdx.x * D;
    float *to = teams == 1 ? part : (float *)shared_bytes() + (uint64_t)mine * D;
#pragma unroll
    for (int j = 0; j < RT_CUDA_NORM_HOLDS; j++) {
        const uint32_t c = (lane + j * p.team) * W;
#pragma unroll
        for (int i = 0; i < W; i++)
            if (c + i < D) to[c + i] = sum[j][i];
    }
    if (teams == 1) return;
    __syncthreads();
    for (uint32_t c = threadIdx.x; c < D; c += blockDim.x) {
        float all = 0.0f;
        for (uint32_t t = 0; t < teams; t++) all += ((const float *)shared_bytes())[t * D + c];
        part[c] = all;
    }
}

/* dx = r dy w - x r^3 mean(dy w x) [+ dres] [+ dx];  dw = sum over groups of dy x r */
template <class T> struct Backward {
    static constexpr int W = 16 / (int)sizeof(T);
    const rt_cuda_rmsnorm_params &p;
    Seat at;
    float squares, dot, r, back;

    __device__ void add_up(const float (&x)[W], const float (&dy)[W], const float (&w)[W])
    {
#pragma unroll
        for (int i = 0; i < W; i++) {
            squares = fmaf(x[i], x[i], squares);
            dot = fmaf(dy[i] * w[i], x[i], dot);
        }
    }
    __device__ void join(float *room)
    {
        r = inverse_rms(team_sum(squares, p.team, room), p.a);
        back = team_sum(dot, p.team, room) / (float)p.a.D * r * r * r;
    }
    /* res: the gradient that reaches h from elsewhere, or 0 */
    template <class E>
    __device__ void write(float (&x)[W], const float (&dy)[W], const float (&res)[W], float (&sum)[W], uint32_t c, E e)
    {
        float w[W], old[W];
        load_any(w, p.w, p.w_dtype, c, e);
#pragma unroll
        for (int i = 0; i < W; i++) {
            sum[i] = fmaf(dy[i] * r, x[i], sum[i]);
            x[i] = dy[i] * w[i] * r - x[i] * back + res[i];
        }
        if (p.acc) {
            load(old, element<T>(p.dx, at.row, at.col + c), e);
#pragma unroll
            for (int i = 0; i < W; i++) x[i] += old[i];
        }
        store(element<T>(p.dx, at.row, at.col + c), x, e);
    }
    __device__ void run_held(float *room, float (&sum)[RT_CUDA_NORM_HOLDS][W])
    {
        Held<T> x, dy, res;
        x.load(p.x, at, p);
        dy.load(p.dy, at, p);
        res.load(p.res, at, p);
#pragma unroll
        for (int j = 0; j < RT_CUDA_NORM_HOLDS; j++) {
            const uint32_t c = (at.lane + j * p.team) * W;
            float v[W], d[W], w[W];
            if (c >= p.a.D) continue;
            unpack<T, W>(v, x.pack[j]);
            unpack<T, W>(d, dy.pack[j]);
            load_any(w, p.w, p.w_dtype, c, Whole());
            add_up(v, d, w);
        }
        join(room);
#pragma unroll
        for (int j = 0; j < RT_CUDA_NORM_HOLDS; j++) {
            const uint32_t c = (at.lane + j * p.team) * W;
            float v[W], d[W], s[W];
            if (!at.taken || c >= p.a.D) continue;
            unpack<T, W>(v, x.pack[j]);
            unpack<T, W>(d, dy.pack[j]);
            unpack<T, W>(s, res.pack[j]);
            write(v, d, s, sum[j], c, Whole());
        }
    }
    __device__ void run_twice(float *room, float (&sum)[RT_CUDA_NORM_HOLDS][W])
    {
        const uint32_t D = at.taken ? p.a.D : 0;
        float x[W], dy[W], other[W];
#pragma unroll
        for (int j = 0; j < RT_CUDA_NORM_HOLDS; j++) {
            const uint32_t c = (at.lane + j * p.team) * W;
            if (c >= D) continue;
            Part e = { D - c < W ? D - c : W };
            load(x, element<T>(p.x, at.row, at.col + c), e);
            load(dy, element<T>(p.dy, at.row, at.col + c), e);
            load_any(other, p.w, p.w_dtype, c, e);
            add_up(x, dy, other);
        }
        join(room);
#pragma unroll
        for (int j = 0; j < RT_CUDA_NORM_HOLDS; j++) {
            const uint32_t c = (at.lane + j * p.team) * W;
            if (c >= D) continue;
            Part e = { D - c < W ? D - c : W };
            load(x, element<T>(p.x, at.row, at.col + c), e);
            load(dy, element<T>(p.dy, at.row, at.col + c), e);
#pragma unroll
            for (int i = 0; i < W; i++) other[i] = 0.0f;
            if (p.res.at) load(other, element<T>(p.res, at.row, at.col + c), e);
            write(x, dy, other, sum[j], c, e);
        }
    }
};

template <class T> __device__ void backward(const rt_cuda_rmsnorm_params &p)
{
    constexpr int W = 16 / (int)sizeof(T);
    __shared__ float room[32];
    const uint64_t groups = (uint64_t)p.a.N * p.a.H, teams = blockDim.x / p.team;
    float sum[RT_CUDA_NORM_HOLDS][W] = { { 0.0f } };
    for (uint64_t first = blockIdx.x * teams; first < groups; first += gridDim.x * teams) {
        Backward<T> b = { p, Seat(p, first), 0.0f, 0.0f, 0.0f, 0.0f };
        if (p.held)
            b.run_held(room, sum);
        else
            b.run_twice(room, sum);
    }
    if (p.part) join_teams(p, sum);
}
} // namespace

/* A forward block is 256 threads; a backward one is as long as its team needs. */
#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK, 4) rmsnorm_fwd_##name(const rt_cuda_rmsnorm_params p)  \
    {                                                                                                                  \
        forward<T>(p);                                                                                                 \
    }                                                                                                                  \
    extern "C" __global__ void __launch_bounds__(512) rmsnorm_bwd_##name(const rt_cuda_rmsnorm_params p)               \
    {                                                                                                                  \
        backward<T>(p);                                                                                                \
    }
RT_FOR_FLOATS(KERNELS)
