/* cuda_rmsnorm_bwd.cu - rmsnorm backward, plain, per head, and with the gradient of the residual.
 *
 * A group of D columns belongs to a team of threads: some lanes of a warp where D is short, whole warps where it is
 * long. A thread has the same columns of all groups of its team, so it keeps their weight and the sums of their weight
 * gradient in registers: a pack, and a team takes a few groups at a time. They come to shared memory while those before
 * them are worked on, and each thread reads what it fetched itself. In very long groups a thread has several packs, and
 * reads them twice instead. Sums over the warps of a team meet in shared memory too, at a barrier of the team's own.
 * A block adds up the weight gradients of its teams, sum_columns of cuda_sums.cu those of the blocks.
 * A thread reads what it writes before it does, so dx may lie on an input. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_rmsnorm.h"

namespace
{
/* Sums of S values, a power of two, over a warp: lane i has that of value i / (32 / S). */
template <int S> RT_DEVICE float fold(float (&v)[S])
{
    uint32_t o = 16;
#pragma unroll
    for (int n = S / 2; n > 0; n /= 2, o /= 2) {
        const bool up = threadIdx.x & o;
#pragma unroll
        for (int i = 0; i < n; i++) {
            const float away = up ? v[i] : v[i + n];
            v[i] = (up ? v[i + n] : v[i]) + __shfl_xor_sync(RT_EVERY_LANE, away, o);
        }
    }
#pragma unroll
    for (; o > 0; o /= 2) v[0] += __shfl_xor_sync(RT_EVERY_LANE, v[0], o);
    return v[0];
}

/* Where the sums of warps meet: a team's slots are a multiple of four, those that it does not use are 0, and it takes
 * the two halves in turn, so that a sum has one barrier. */
template <int S> struct Room {
    float slot[2][32][S];
};

/* Of the first element of a group. */
struct Spot {
    uint32_t row, col;
};

/* dx = r dy w - x r^3 mean(dy w x) [+ dres, with ADD] [+ dx];  dw = sum over groups of dy x r */
template <class T, bool ADD, int PACKS, class E> struct Backward {
    static constexpr int W = 16 / (int)sizeof(T), R = PACKS == 1 ? RT_CUDA_NORM_GROUPS : 1, S = 2 * R;
    static constexpr int OPERANDS = ADD ? 3 : 2; /* x, dy, dres */
    const rt_cuda_rmsnorm_params &p;
    const uint32_t groups, team, lane;
    const uint32_t ring; /* where this thread's fetched packs are: (stages, OPERANDS, R, threads) */
    const float share;   /* of a column in a mean */
    float w[W];          /* of the only pack, or of the one at hand */
    float sum[PACKS][W];

    __device__ Backward(const rt_cuda_rmsnorm_params &params)
        : p(params), groups(p.a.N * p.a.H), team(threadIdx.x / p.team), lane(threadIdx.x - team * p.team),
          ring(shared_place(shared_bytes()) + threadIdx.x * 16), share(1.0f / (float)p.a.D), w(), sum()
    {
    }
    __device__ uint32_t column(int k) const { return (lane + k * p.team) * W; }
    /* of the thread's pack k, elements that exist */
    __device__ uint32_t length(int k) const
    {
        const uint32_t c = column(k);
        return c < p.a.D ? most(E(), p.a.D - c) : 0;
    }
    __device__ static uint32_t most(Whole, uint32_t) { return W; }
    __device__ static uint32_t most(Part, uint32_t left) { return left < W ? left : W; }
    __device__ Spot spot(uint32_t group) const
    {
        if (p.a.H == 1) return { group, 0 };
        const uint32_t row = group / p.a.H;
        return { row, (group - row * p.a.H) * p.a.D };
    }
    __device__ T *find(const rt_cuda_mat &m, Spot at, int k) const
    {
        return (T *)m.at + ((uint64_t)at.row * (uint32_t)m.stride + (at.col + column(k))); /* a row: below 2^32 */
    }
    __device__ const rt_cuda_mat &operand(int o) const { return o == 0 ? p.x : o == 1 ? p.dy : p.res; }

    /* ---- what a thread has under way ---- */

    __device__ uint32_t place(uint32_t stage, int o, int j) const
    {
        return ring + ((stage * OPERANDS + o) * R + j) * RT_CUDA_NORM_BLOCK * 16;
    }
    __device__ void fetch(uint32_t stage, uint32_t first)
    {
        const uint32_t n = length(0);
#pragma unroll
        for (int j = 0; j < R; j++) {
            if (n == 0 || first + j >= groups) continue;
            const Spot at = spot(first + j);
#pragma unroll
            for (int o = 0; o < OPERANDS; o++) fetch_pack(place(stage, o, j), find(operand(o), at, 0), extent(E(), n));
        }
        fetch_close();
    }
    __device__ static void fetch_pack(uint32_t to, const T *from, Whole) { fetch_async<16>(to, from); }
    __device__ static void fetch_pack(uint32_t to, const T *from, Part e)
    {
        float v[W];
        load(v, from, e);
        const Raw<16> raw = repack<T>(v);
#pragma unroll
        for (int i = 0; i < 4; i++) shared_store(to + 4 * i, raw.w[i]);
    }
    /* v = pack k of operand o, of group j of those at hand */
    __device__ void get(float (&v)[W], uint32_t stage, int o, uint32_t first, int j, int k) const
    {
        if constexpr (PACKS == 1) {
            Raw<16> raw;
            shared_load<16>(raw.w, place(stage, o, j));
            unpack<T, W>(v, raw);
        } else {
            load(v, find(operand(o), spot(first + j), k), extent(E(), length(k)));
        }
    }
    __device__ void load_weight(int k)
    {
        const uint32_t n = length(k);
        if (n) load_any(w, p.w, p.w_dtype, column(k), extent(E(), n));
    }

    /* ---- a few groups ---- */

    /* v: squares of x, and dot of dy w and x, of each group, over the thread's columns */
    __device__ void add_up(float (&v)[S], uint32_t stage, uint32_t first)
    {
#pragma unroll
        for (int s = 0; s < S; s++) v[s] = 0.0f;
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            if (length(k) == 0 || first >= groups) continue;
            if constexpr (PACKS > 1) load_weight(k);
#pragma unroll
            for (int j = 0; j < R; j++) { /* what is summed for a group that does not exist is never used */
                float x[W], dy[W];
                get(x, stage, 0, first, j, k);
                get(dy, stage, 1, first, j, k);
#pragma unroll
                for (int i = 0; i < W; i++) {
                    v[2 * j] = fmaf(x[i], x[i], v[2 * j]);
                    v[2 * j + 1] = fmaf(dy[i] * w[i], x[i], v[2 * j + 1]);
                }
            }
        }
    }
    __device__ void finish(float squares, float dot, float &r, float &back) const
    {
        r = __frsqrt_rn(fmaf(squares, share, p.a.eps));
        back = dot * share * (r * r) * r;
    }
    /* r and the factor of x, of each group, for all threads of the team */
    __device__ void join(float (&v)[S], float (&r)[R], float (&back)[R], float (*slot)[S])
    {
        if (p.team <= 32) {
#pragma unroll
            for (uint32_t o = 16; o > 0; o /= 2) {
                if (o >= p.team) continue;
#pragma unroll
                for (int s = 0; s < S; s++) v[s] += __shfl_xor_sync(RT_EVERY_LANE, v[s], o);
            }
#pragma unroll
            for (int j = 0; j < R; j++) finish(v[2 * j], v[2 * j + 1], r[j], back[j]);
            return;
        }
        const uint32_t at = threadIdx.x % 32, fours = (p.team + 127) / 128;
        const float all = fold(v);
        slot += team * fours * 4;
        if (at % (32 / S) == 0) slot[lane / 32][at / (32 / S)] = all;
        barrier_of(team + 1, p.team);
        float squares = 0.0f, dot = 0.0f, own_r, own_back; /* of group at % R */
#pragma unroll 1
        for (uint32_t f = 0; f < fours; f++, slot += 4)
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float2 one = ((const float2 *)slot[i])[at % R];
                squares += one.x, dot += one.y;
            }
        finish(squares, dot, own_r, own_back);
#pragma unroll
        for (int j = 0; j < R; j++) {
            r[j] = __shfl_sync(RT_EVERY_LANE, own_r, j);
            back[j] = __shfl_sync(RT_EVERY_LANE, own_back, j);
        }
    }
    __device__ void write(uint32_t stage, uint32_t first, int j, int k, float r, float back)
    {
        float x[W], dy[W], res[W];
        get(x, stage, 0, first, j, k);
        get(dy, stage, 1, first, j, k);
        if constexpr (ADD) get(res, stage, 2, first, j, k);
#pragma unroll
        for (int i = 0; i < W; i++) {
            const float dr = dy[i] * r;
            sum[k][i] = fmaf(dr, x[i], sum[k][i]);
            x[i] = fmaf(-back, x[i], ADD ? fmaf(dr, w[i], res[i]) : dr * w[i]);
        }
        T *to = find(p.dx, spot(first + j), k);
        if (p.acc) {
            load(res, to, extent(E(), length(k)));
#pragma unroll
            for (int i = 0; i < W; i++) x[i] += res[i];
        }
        store(to, x, extent(E(), length(k)));
    }

    /* ---- all of them ---- */

    __device__ void run(Room<S> &room)
    {
        const uint32_t teams = blockDim.x / p.team, step = gridDim.x * teams * R, ahead = p.stages - 1;
        uint32_t base = blockIdx.x * teams * R, first = base + team * R, turn = 0;
        if (PACKS == 1 && ahead) fetch(0, first);
        if (PACKS == 1) load_weight(0);
        for (uint32_t i = threadIdx.x; i < sizeof room / sizeof(float); i += blockDim.x)
            (&room.slot[0][0][0])[i] = 0.0f;
        __syncthreads();
        /* all teams of a block go round as often: lanes of several may be one warp */
        for (; base < groups; base += step, first += step, turn ^= 1) {
            const uint32_t stage = turn & ahead;
            float v[S], r[R], back[R];
            if constexpr (PACKS == 1) {
                fetch(stage ^ ahead, first + ahead * step);
                if (ahead)
                    fetch_wait(1);
                else
                    fetch_wait(0);
            }
            add_up(v, stage, first);
            join(v, r, back, room.slot[turn]);
#pragma unroll
            for (int k = 0; k < PACKS; k++) {
                if (length(k) == 0) continue;
                if constexpr (PACKS > 1) load_weight(k);
#pragma unroll
                for (int j = 0; j < R; j++)
                    if (first + j < groups) write(stage, first, j, k, r[j], back[j]);
            }
        }
    }
    /* The teams' sums of one block, in order, to its row of part. */
    __device__ void join_teams()
    {
        const uint32_t D = p.a.D, packs = (D + W - 1) / W, teams = blockDim.x / p.team;
        float *part = (float *)p.part + (uint64_t)blockIdx.x * D;
        float4 *to = (float4 *)shared_bytes(); /* (teams, quarters of a pack, packs): neighbours use all banks */
        __syncthreads();
#pragma unroll
        for (int k = 0; k < PACKS; k++) {
            const uint32_t n = length(k);
            if (n == 0) continue;
            if (teams == 1) {
                store(part + column(k), sum[k], Part{ n });
                continue;
            }
            float4 *at = to + team * packs * (W / 4) + lane + k * p.team;
#pragma unroll
            for (int i = 0; i < W; i += 4)
                at[i / 4 * packs] = make_float4(sum[k][i], sum[k][i + 1], sum[k][i + 2], sum[k][i + 3]);
        }
        if (teams == 1) return;
        __syncthreads();
        for (uint32_t q = threadIdx.x; q < packs * (W / 4); q += blockDim.x) {
            const uint32_t c = W == 4 || q < packs ? q * W : (q - packs) * W + 4;
            float4 all = to[q];
            for (uint32_t t = 1; t < teams; t++) {
                const float4 one = to[t * packs * (W / 4) + q];
                all.x += one.x, all.y += one.y, all.z += one.z, all.w += one.w;
            }
            const float v[4] = { all.x, all.y, all.z, all.w };
            if (c < D) store(part + c, v, Part{ D - c < 4 ? D - c : 4 });
        }
    }
};

template <class T, bool ADD, int PACKS, class E> __device__ void backward(const rt_cuda_rmsnorm_params &p)
{
    using B = Backward<T, ADD, PACKS, E>;
    __shared__ Room<B::S> room;
    B b(p);
    b.run(room);
    if (!p.part) return;
    next_may_begin(); /* sum_columns, few blocks */
    b.join_teams();
}
} // namespace

/* Two blocks of 512 threads fill a multiprocessor; of very long groups one. */
#define KERNEL(prefix, op, name, T, ADD, PACKS, E, blocks)                                                             \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_NORM_BLOCK, blocks)                                           \
        prefix##op##_bwd_##name(const rt_cuda_rmsnorm_params p)                                                        \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        backward<T, ADD, PACKS, E>(p);                                                                                 \
    }
#define KERNELS_OF(op, name, T, ADD)                                                                                   \
    KERNEL(, op, name, T, ADD, 1, Whole, 2)                                                                            \
    KERNEL(odd_, op, name, T, ADD, 1, Part, 2)                                                                         \
    KERNEL(long_, op, name, T, ADD, RT_CUDA_NORM_LONG, Whole, 1)                                                       \
    KERNEL(long_odd_, op, name, T, ADD, RT_CUDA_NORM_LONG, Part, 1)
#define KERNELS(name, T) KERNELS_OF(rmsnorm, name, T, false) KERNELS_OF(add_rmsnorm, name, T, true)
RT_FOR_FLOATS(KERNELS)
