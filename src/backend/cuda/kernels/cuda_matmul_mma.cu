/* cuda_matmul_mma.cu - GEMMs of our own on tensor cores: bf16 or f16 operands, f32 sums, sm_80 and later.
 *
 * A block owns a tile of out, each of its warps 64 x 64 of that (mma.sync m16n8k16). Steps along K come into shared
 * memory by asynchronous copies of 16 bytes, up to three steps ahead, each into the place of one that every warp has
 * left. Matrices for the tensor cores are loaded one ahead of their MMA, also across the barrier between two steps.
 * An element is one chain of MMAs in the order of K. Operands begin and step on 16-byte boundaries; M, N, K are
 * any.
 */
#include "backend/cuda/kernels/cuda_matmul.cuh"
#include "backend/cuda/kernels/cuda_mma.cuh"

enum { STEP = RT_MMA_STEP, DEEP = STEP / 16, STAGE = RT_MMA_STAGE };
enum { WARP = 64, MS = WARP / 16, NS = WARP / 8 }; /* a warp's tile, in lines and in matrices */
enum { OUT_ROWS = 32, OUT_PITCH = WARP + 8 };      /* rows of it that pass through shared memory at once, f32 */
static_assert(DEEP % 2 == 0, "matrices take turns in two sets of registers");
static_assert(RT_MMA_THREADS / 32 * OUT_ROWS * OUT_PITCH * 4 <= 2 * STAGE, "results pass through shared memory");

/* One operand: lines are rows of op(a) or columns of op(b). A step of it is a tile of rows as they lie in memory: lines
 * where the elements of a line are neighbours (ALONG), else K. Chunks of 16 bytes are exchanged within a row, so that
 * the eight rows of a matrix load fall into different banks. */
template <bool ALONG, int LINES> struct Side {
    static constexpr int ROWS = ALONG ? LINES : STEP, COLS = ALONG ? STEP : LINES, ACROSS = COLS / 8;
    static constexpr int DOWN = RT_MMA_THREADS / ACROSS; /* rows that the block copies at a time */
    static constexpr uint32_t PITCH = COLS * 2;          /* bytes */
    static_assert(ROWS % DOWN == 0 && DOWN % 8 == 0, "a thread copies to the same place of every row that it has");

    const uint16_t *from; /* this thread's first chunk of the next step */
    uint64_t stride;
    uint32_t k, left;  /* of that chunk: its place in the step along K; lines from its own to the last (0: outside) */
    uint32_t to, lane; /* bytes in a stage: where the chunk goes; what this lane names in its first matrix load */

    static __device__ __forceinline__ uint32_t place(uint32_t row, uint32_t col)
    {
        return row * PITCH + (col / 8 ^ row % 8) * 16;
    }

    /* line_bit, k_bit: the bits of a lane's number that choose the upper eight lines, and the upper eight of K, of the
     * 16 x 16 that it loads with the others. */
    __device__ __forceinline__ Side(const rt_cuda_mat &x, uint32_t first, uint32_t lines, uint32_t k0,
                                    uint32_t warp_line, uint32_t line_bit, uint32_t k_bit)
    {
        const uint32_t row = threadIdx.x / ACROSS, col = threadIdx.x % ACROSS * 8;
        const uint32_t line = first + (ALONG ? row : col), l = threadIdx.x % 32;
        const uint32_t upper_line = l & line_bit ? 8 : 0, upper_k = l & k_bit ? 8 : 0;
        k = ALONG ? col : row;
        left = line < lines ? lines - line : 0;
        stride = x.stride;
        from = (const uint16_t *)x.at + (ALONG ? line * stride + k0 + k : (k0 + k) * stride + line);
        to = place(row, col);
        lane = ALONG ? place(warp_line + l % 8 + upper_line, upper_k) : place(l % 8 + upper_k, warp_line + upper_line);
    }

    /* Asks for the next step, in which K still has `rest` elements. */
    __device__ __forceinline__ void fetch(uint32_t stage, uint32_t rest)
    {
        const uint32_t across = ALONG ? (k < rest ? rest - k : 0) : left, bytes = min(across, 8u) * 2;
#pragma unroll
        for (uint32_t i = 0; i < ROWS; i += DOWN)
            copy_16(stage + to + i * PITCH, from + i * stride, (ALONG ? i < left : k + i < rest) ? bytes : 0);
        from += ALONG ? STEP : STEP * stride;
    }

    /* 16 lines, the i-th of this warp's, by 16 of K, the j-th of the step's. */
    __device__ __forceinline__ void load(uint32_t (&r)[4], uint32_t stage, uint32_t i, uint32_t j) const
    {
        if constexpr (ALONG)
            load_4(r, stage + (lane ^ j * 32) + i * 16 * PITCH);
        else
            load_4_turned(r, stage + (lane ^ i * 32) + j * 16 * PITCH);
    }
};

RT_DEVICE void mma(bf16, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    mma_bf16(d, a, b0, b1);
}
RT_DEVICE void mma(f16, float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1)
{
    mma_f16(d, a, b0, b1);
}

/* The oldest step that was asked for is here, and every warp has left the one before it. */
RT_DEVICE void step_wait(uint32_t stages)
{
    if (stages == 4)
        copy_groups_wait<2>();
    else if (stages == 3)
        copy_groups_wait<1>();
    else
        copy_groups_wait<0>();
    __syncthreads();
}

/* The warp's tile of sums, at (m,n) of the block's: through shared memory, so that it writes rows. */
RT_DEVICE void sums_out(const Target &t, uint32_t m, uint32_t n, const float (&sum)[MS][NS][4])
{
    const uint32_t l = threadIdx.x % 32;
    float *const pass = (float *)shared_bytes() + threadIdx.x / 32 * OUT_ROWS * OUT_PITCH;
    __syncthreads(); /* every warp has loaded its last matrices */
#pragma unroll
    for (int top = 0; top < WARP; top += OUT_ROWS) {
#pragma unroll
        for (int i = 0; i < OUT_ROWS; i += 8)
#pragma unroll
            for (int j = 0; j < NS; j++) {
                const float *x = &sum[(top + i) / 16][j][i / 8 % 2 * 2];
                *(float2 *)&pass[(i + l / 4) * OUT_PITCH + j * 8 + l % 4 * 2] = make_float2(x[0], x[1]);
            }
        __syncwarp();
        rows_out<8, OUT_ROWS, OUT_PITCH>(t, m + top, n, pass);
        __syncwarp();
    }
}

template <class T, bool TA, bool TB> RT_DEVICE void multiply(const rt_cuda_matmul_params &p)
{
    enum { OF_B = RT_MMA_M * STEP * 2, DOWN = RT_MMA_M / WARP }; /* bytes of a in a stage; warps from top to bottom */
    const Work w = work_of(p, blockIdx.x);
    const uint32_t warp = threadIdx.x / 32, wm = warp % DOWN * WARP, wn = warp / DOWN * WARP;
    const uint32_t shared = shared_at(shared_bytes()), end = shared + p.stages * STAGE;
    Side<!TA, RT_MMA_M> a(p.a, w.at.m, p.M, w.k0, wm, 8, 16);
    Side<TB, RT_MMA_N> b(p.b, w.at.n, p.N, w.k0, wn, 16, 8);
    uint32_t ask = w.k0, x[2][MS][4], y[2][NS / 2][4];
    float sum[MS][NS][4] = {};
    auto fetch = [&](uint32_t stage) {
        if (ask < w.k1) {
            a.fetch(stage, w.k1 - ask);
            b.fetch(stage + OF_B, w.k1 - ask);
        }
        ask += STEP;
        copy_group(); /* an empty one, too: groups are counted */
    };
    auto load = [&](int set, uint32_t stage, int j) {
#pragma unroll
        for (int i = 0; i < MS; i++) a.load(x[set][i], stage, i, j);
#pragma unroll
        for (int i = 0; i < NS / 2; i++) b.load(y[set][i], stage + OF_B, i, j);
    };
    for (uint32_t stage = shared; stage < end - STAGE; stage += STAGE) fetch(stage);
    step_wait(p.stages);
    uint32_t here = shared, next = end - STAGE;
    load(0, here, 0);
    for (uint32_t k = w.k0; k < w.k1; k += STEP) {
#pragma unroll
        for (int j = 0; j < DEEP; j++) {
            if (j == DEEP - 1) {
                step_wait(p.stages);
                here = here + STAGE == end ? shared : here + STAGE;
            }
            load((j + 1) % 2, here, (j + 1) % DEEP);
            if (j == 0) {
                fetch(next);
                next = next + STAGE == end ? shared : next + STAGE;
            }
#pragma unroll
            for (int m = 0; m < MS; m++)
#pragma unroll
                for (int n = 0; n < NS; n++)
                    mma(T(), sum[m][n], x[j % 2][m], y[j % 2][n / 2][n % 2 * 2], y[j % 2][n / 2][n % 2 * 2 + 1]);
        }
    }
    sums_out(target_of(p, w), wm, wn, sum);
}

#define KERNEL(name, T, TA, TB)                                                                                        \
    extern "C" __global__ void __launch_bounds__(RT_MMA_THREADS) matmul_mma_##name(const rt_cuda_matmul_params p)      \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        multiply<T, TA, TB>(p);                                                                                        \
    }
KERNEL(bf16_nn, bf16, false, false)
KERNEL(bf16_nt, bf16, false, true)
KERNEL(bf16_tn, bf16, true, false)
KERNEL(bf16_tt, bf16, true, true)
KERNEL(f16_nn, f16, false, false)
KERNEL(f16_nt, f16, false, true)
KERNEL(f16_tn, f16, true, false)
KERNEL(f16_tt, f16, true, true)
