/* cuda_matmul_packed_many.cu - out = alpha a b' + bias of 17 to some hundred rows, weights b packed.
 *
 * A block has 256 weight rows or fewer, 16 a warp, and up to 64 rows of a, whose chunks of K come into shared memory
 * for all warps. Of each chunk a warp sums the groups of 8 rows of a, and finds the sums of the others. K is cut into
 * parts where tiles alone would leave multiprocessors idle; matmul_few_join adds them in order. */
#include "backend/cuda/kernels/cuda_matmul_packed.cuh"

namespace
{
enum { X_PITCH = RT_MANY_PITCH };
template <class Q> constexpr uint32_t WARPS = RT_MANY_WARPS(Q::DTYPE, Q::BYTES);

/* A chunk of the rows of a, zeros behind M and K; all threads take part. */
template <int COLUMNS> RT_DEVICE void fetch_x(uint32_t to, const rt_cuda_few_params &p, uint32_t m0, uint32_t chunk)
{
    enum { PACKS = CHUNK / 8 };
    const uint32_t pack = threadIdx.x % PACKS, k = chunk * CHUNK + pack * 8;
    const char *from = p.a.at + (m0 * p.a.stride + k) * 2;
    for (uint32_t r = threadIdx.x / PACKS; r < COLUMNS; r += blockDim.x / PACKS)
        copy_16(to + r * X_PITCH + pack * 16, from + r * p.a.stride * 2, m0 + r < p.M && k < p.K ? 16 : 0);
}

/* sums (GROUPS,8 NT) of the groups of x; warp w has rows 8 w.. */
template <class Q, int NT> RT_DEVICE void sum_groups(float *sums, const unsigned char *x)
{
    const uint32_t lane = threadIdx.x % 32, n = threadIdx.x / 32;
    if (n >= NT) return;
#pragma unroll
    for (uint32_t j = 0; j < CHUNK / 32; j++) {
        float s[2][4] = {};
        sum_x<Q>(s[0], s[1], load_x<Q>(x + (n * 8 + lane / 4) * X_PITCH + j * 64));
        if (lane >= 4) continue; /* all rows of the result are alike */
#pragma unroll
        for (uint32_t i = 0; i < 32 / GROUP<Q>; i++)
            *(float2 *)(sums + (j * (32 / GROUP<Q>)+i) * (8 * NT) + n * 8 + lane * 2) = make_float2(s[i][0], s[i][1]);
    }
}

template <class Q, int NT>
RT_DEVICE void multiply(float (&acc)[NT][4], const unsigned char *const (&row)[2], const float2 *factors,
                        const unsigned char *x, const float *sums)
{
    const uint32_t lane = threadIdx.x % 32, g = lane / 4;
#pragma unroll 1
    for (uint32_t j = 0; j < CHUNK / 32; j++) {
        uint32_t a[2][4];
#pragma unroll
        for (int i = 0; i < 2; i++) load_codes<Q>(a, row[i], j * 32, i);
#pragma unroll
        for (uint32_t s = 0; s < 32 / GROUP<Q>; s++) {
            const uint32_t group = j * (32 / GROUP<Q>)+s;
            const float2 f[2] = { factors[g * (GROUPS<Q> + 1) + group], factors[(g + 8) * (GROUPS<Q> + 1) + group] };
#pragma unroll
            for (uint32_t n = 0; n < NT; n++) {
                const unsigned char *const at = x + (n * 8 + g) * X_PITCH + j * 64;
                float y[4] = {};
                float2 sum = {};
                if constexpr (GROUP<Q> == 32) {
                    const uint4 b = load_x<Q>(at);
                    mma_bf16(y, a[0], b.x, b.y);
                    mma_bf16(y, a[1], b.z, b.w);
                } else {
                    const uint2 b = *(const uint2 *)(at + s * 32 + lane % 4 * 8);
                    mma_bf16(y, a[s], b.x, b.y);
                }
                if constexpr (Q::KIND == AFFINE)
                    sum = *(const float2 *)(sums + group * (8 * NT) + n * 8 + lane % 4 * 2);
                add_group<Q>(acc[n], y, sum.x, sum.y, f);
            }
        }
    }
}

/* Sums as they are, of a part; else out. */
template <int NT>
RT_DEVICE void put(const float (&acc)[NT][4], const rt_cuda_few_params &p, const rt_cuda_few_tensor &t, uint32_t n0,
                   uint32_t m0, uint32_t part)
{
    const uint32_t lane = threadIdx.x % 32;
    float *const sums = (float *)t.sums + (uint64_t)part * p.M * t.N;
#pragma unroll
    for (uint32_t n = 0; n < NT; n++)
#pragma unroll
        for (uint32_t e = 0; e < 4; e++) {
            const uint32_t row = n0 + lane / 4 + e / 2 * 8, m = m0 + n * 8 + lane % 4 * 2 + e % 2;
            if (row >= t.N || m >= p.M) continue;
            if (p.split > 1)
                sums[(uint64_t)m * t.N + row] = acc[n][e];
            else
                few_store(t, m, row, acc[n][e]);
        }
}

template <class Q, int NT> RT_DEVICE void many(const rt_cuda_few_params &p)
{
    enum { COLUMNS = 8 * NT, STAGE = 16 * PITCH<Q>, X_STAGE = COLUMNS * X_PITCH };
    enum { MINE = RT_FEW_WARP_BYTES(Q::DTYPE, Q::BYTES, RT_MANY_STAGES) };
    const rt_cuda_few_tensor &t = p.tensor[tensor_of(p)];
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, block = blockIdx.x - t.first;
    const uint32_t m0 = block % p.tiles_m * COLUMNS, part = block / p.tiles_m % p.split;
    const uint32_t n0 = block / p.tiles_m / p.split * (16 * WARPS<Q>)+warp * 16;
    const uint32_t chunks = (p.K + CHUNK - 1) / CHUNK;
    const uint32_t first = (uint32_t)((uint64_t)chunks * part / p.split);
    const uint32_t end = (uint32_t)((uint64_t)chunks * (part + 1) / p.split);
    unsigned char *const stages = shared_bytes() + warp * MINE, *const x = shared_bytes() + WARPS<Q> * MINE;
    float2 *const factors = (float2 *)(stages + RT_MANY_STAGES * STAGE);
    float *const sums = (float *)(x + 2 * X_STAGE);
    const Rows<Q> weights = { weight_rows(t, n0) };
    float acc[NT][4] = {};
    next_may_begin();
    weights.fetch(shared_at(stages), first);
    fetch_x<COLUMNS>(shared_at(x), p, m0, first);
    copy_group();
#pragma unroll 1
    for (uint32_t chunk = first, now = 0; chunk < end; chunk++, now ^= 1) {
        copy_wait();
        __syncthreads(); /* the chunk is here, and nobody reads the one before */
        if (chunk + 1 < end) {
            weights.fetch(shared_at(stages) + (now ^ 1) * STAGE, chunk + 1);
            fetch_x<COLUMNS>(shared_at(x) + (now ^ 1) * X_STAGE, p, m0, chunk + 1);
        }
        copy_group();
        const unsigned char *const stage = stages + now * STAGE, *const mine = x + now * X_STAGE;
        const unsigned char *const row[2] = { stage + g * PITCH<Q> + weights.skew(g, chunk),
                                              stage + (g + 8) * PITCH<Q> + weights.skew(g + 8, chunk) };
        if constexpr (Q::KIND == AFFINE) sum_groups<Q, NT>(sums, mine);
        unpack_factors<Q>(factors, stage, weights, chunk);
        if constexpr (Q::KIND == AFFINE) __syncthreads(); /* sums are there */
        multiply<Q, NT>(acc, row, factors, mine, sums);
    }
    put<NT>(acc, p, t, n0, m0, part);
}
} // namespace

#define KERNEL(name, Q, NT)                                                                                            \
    extern "C" __global__ void __launch_bounds__(32 * WARPS<Q>, 1)                                                     \
        matmul_many_##name(const __grid_constant__ rt_cuda_few_params p)                                               \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        many<Q, NT>(p);                                                                                                \
    }
#define KERNELS(NAME, name, elems, size) KERNEL(name##_32, NAME, 4) KERNEL(name##_64, NAME, 8)
RT_FOR_QUANTS(KERNELS)
