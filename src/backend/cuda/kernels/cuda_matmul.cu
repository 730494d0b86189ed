/* cuda_matmul.cu - GEMMs of our own on ordinary cores: for what has no other way, and true f32 everywhere.
 *
 * Any strides and alignment, f32, bf16 or f16; products and sums in f32. A block of 256 threads owns a tile of 128 x
 * 128, a thread 8 x 8 of it: four corners of 4 x 4, 64 apart. Steps of 8 along K are fetched into registers while the
 * step before them is multiplied out of shared memory. Every element is one chain of additions in the order of K. */
#include "backend/cuda/kernels/cuda_matmul.cuh"

enum {
    TILE = RT_MATMUL_TILE,
    STEP = RT_MATMUL_STEP,
    PITCH = TILE + 4
}; /* pitch: the writes below meet no bank twice */

enum { CORNER_ROWS = 16, CORNER = 32 }; /* of out that a warp has together in each of its four corners */
static_assert(RT_MATMUL_THREADS / 32 * CORNER_ROWS * CORNER <= 2 * STEP * PITCH * 2, "they pass through the steps");

typedef float Step[STEP][PITCH]; /* [k][line], lines being rows of op(a) or columns of op(b) */

/* Where a thread's four elements of a step lie. along: the elements of a line are neighbours in memory. */
struct Four {
    uint32_t line, k;
};
RT_DEVICE Four four_of(bool along)
{
    if (along) return Four{ threadIdx.x / 2, threadIdx.x % 2 * 4 };
    return Four{ threadIdx.x % 32 * 4, threadIdx.x / 32 };
}

template <class T>
RT_DEVICE void fetch(float (&v)[4], const rt_cuda_mat &x, bool along, bool packs, uint32_t line0, uint32_t lines,
                     uint32_t k0, uint32_t k1)
{
    const Four f = four_of(along);
    const uint32_t line = line0 + f.line, k = k0 + f.k;
    const uint32_t left = line < lines && k < k1 ? (along ? k1 - k : lines - line) : 0;
    const T *from = along ? element<T>(x, line, k) : element<T>(x, k, line);
    if (packs && left >= 4)
        load(v, from, Whole());
    else
        load(v, from, Part{ left });
}

RT_DEVICE void put(Step &s, const float (&v)[4], bool along)
{
    const Four f = four_of(along);
    if (!along) {
        *(float4 *)&s[f.k][f.line] = make_float4(v[0], v[1], v[2], v[3]);
        return;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) s[f.k + i][f.line] = v[i];
}

RT_DEVICE void read_eight(float (&v)[8], const float *s)
{
    const float4 x = *(const float4 *)s, y = *(const float4 *)(s + 64);
    v[0] = x.x, v[1] = x.y, v[2] = x.z, v[3] = x.w;
    v[4] = y.x, v[5] = y.y, v[6] = y.z, v[7] = y.w;
}

template <class T> RT_DEVICE void multiply(const rt_cuda_matmul_params &p)
{
    __shared__ __align__(16) Step steps[4];
    Step *const a = steps, *const b = steps + 2;
    const Work w = work_of(p, blockIdx.x);
    const uint32_t m0 = w.at.m, n0 = w.at.n, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const uint32_t row = (lane / 8 + warp / 2 * 4) * 4, col = (lane % 8 + warp % 2 * 8) * 4;
    float sum[8][8] = {}, va[4], vb[4];
    int now = 0;
    fetch<T>(va, p.a, !p.ta, p.packs_a, m0, p.M, w.k0, w.k1);
    fetch<T>(vb, p.b, p.tb, p.packs_b, n0, p.N, w.k0, w.k1);
    put(a[0], va, !p.ta);
    put(b[0], vb, p.tb);
    __syncthreads();
    for (uint32_t k = w.k0; k < w.k1; k += STEP, now ^= 1) {
        const bool more = w.k1 - k > STEP;
        if (more) {
            fetch<T>(va, p.a, !p.ta, p.packs_a, m0, p.M, k + STEP, w.k1);
            fetch<T>(vb, p.b, p.tb, p.packs_b, n0, p.N, k + STEP, w.k1);
        }
#pragma unroll
        for (int i = 0; i < STEP; i++) {
            float x[8], y[8];
            read_eight(x, &a[now][i][row]);
            read_eight(y, &b[now][i][col]);
#pragma unroll
            for (int r = 0; r < 8; r++)
#pragma unroll
                for (int c = 0; c < 8; c++) sum[r][c] = fmaf(x[r], y[c], sum[r][c]);
        }
        if (!more) break;
        put(a[now ^ 1], va, !p.ta);
        put(b[now ^ 1], vb, p.tb);
        __syncthreads();
    }
    const Target t = target_of(p, w);
    /* Corner by corner through shared memory, so that a warp writes rows. */
    float *const pass = &a[0][0][0] + warp * CORNER_ROWS * CORNER;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const int r = i / 2 * 4, c = i % 2 * 4;
#pragma unroll
        for (int k = 0; k < 4; k++)
            *(float4 *)&pass[(lane / 8 * 4 + k) * CORNER + lane % 8 * 4] =
                make_float4(sum[r + k][c], sum[r + k][c + 1], sum[r + k][c + 2], sum[r + k][c + 3]);
        __syncwarp();
        rows_out<4, CORNER_ROWS, CORNER>(t, warp / 2 * 16 + i / 2 * 64, warp % 2 * 32 + i % 2 * 64, pass);
        __syncwarp();
    }
}

#define KERNEL(name, T)                                                                                                \
    extern "C" __global__ void __launch_bounds__(RT_MATMUL_THREADS, 2) matmul_##name(const rt_cuda_matmul_params p)    \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        multiply<T>(p);                                                                                                \
    }
RT_FOR_FLOATS(KERNEL)
