/* cuda_matmul_few.cuh - what GEMMs of few rows share: whose weights are whose, their way into shared memory, and what
 * becomes of the sums; device code.
 *
 * The weights are read once, and that is the cost, so they are the left operand of an MMA, 16 rows of them, and the
 * rows of a its columns, 8 at a time. A warp has its weight rows to itself: it copies a chunk of K of each into stages
 * of its own, and up to 16 rows of a it waits for nobody. Where there are fewer weight rows than keep a GPU busy, the
 * warps of a block share them and have every split-th chunk each.
 *
 * Why deterministic: how K is split follows from the shape of the weight and the number of multiprocessors; sums of
 * the warps are added in order. A row of out is the same whatever the other rows hold, and however many there are. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_FEW_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_MATMUL_FEW_CUH

#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_matmul_few.h"
#include "backend/cuda/kernels/cuda_mma.cuh"

/* Where a warp works. */
struct Place_of_warp {
    uint32_t n0, m0; /* first weight row, first row of a */
    uint32_t part;   /* of K: chunks part, part + split, .. */
};
template <int COLUMNS> RT_DEVICE Place_of_warp few_place(const rt_cuda_few_params &p, const rt_cuda_few_tensor &t)
{
    const uint32_t block = blockIdx.x - t.first, warp = threadIdx.x / 32;
    const uint32_t team = block / p.tiles_m * (RT_FEW_WARPS / p.split) + warp / p.split;
    return Place_of_warp{ team * 16, block % p.tiles_m * COLUMNS, warp % p.split };
}

/* Weight rows of a warp as stages take them. expect() asks for what the first stages will hold to come to L2, before it
 * is known that what it is multiplied with is there: nothing is read. */
struct Weight_rows {
    const char *at; /* row n0 */
    uint64_t step;
    uint32_t rows, row_bytes; /* rows that exist */

    __device__ __forceinline__ void expect(uint32_t part, uint32_t split, uint32_t stages, uint32_t bytes) const
    {
        for (uint32_t i = threadIdx.x % 32; i < 16 * stages; i += 32) {
            const uint32_t row = i % 16, first = (part + i / 16 * split) * bytes;
            if (row >= rows || first >= row_bytes) continue;
            const char *from = at + row * step + first;
            expect_soon(from);
            if (first + bytes <= row_bytes) expect_soon(from + bytes - 1);
        }
    }
};
RT_DEVICE Weight_rows weight_rows(const rt_cuda_few_tensor &t, uint32_t n0)
{
    return Weight_rows{ t.b + n0 * t.b_step, t.b_step, t.N - min(t.N, n0), (uint32_t)t.b_row };
}

/* Of 16 bits: a chunk of a row is 128 bytes, on a multiple of 16, and eight lanes copy it. */
struct Word_rows : Weight_rows {
    static constexpr int BYTES = RT_FEW_CHUNK_16 * 2;
    __device__ __forceinline__ void fetch(uint32_t to, uint32_t chunk) const
    {
        const uint32_t lane = threadIdx.x % 32, row = lane / 8, first = chunk * BYTES + lane % 8 * 16;
        const uint32_t bytes = first < row_bytes ? min(16u, row_bytes - first) : 0;
        const char *from = at + row * step + first;
        to += row * BYTES + (lane % 8 ^ row % 2 * 4) * 16;
#pragma unroll
        for (uint32_t u = 0; u < 4; u++)
            copy_16(to + u * 4 * BYTES, from + u * 4 * step, row + u * 4 < rows ? bytes : 0);
    }
};

/* Packed: chunks of BYTES_, which begin anywhere and are copied from the multiple of 32 before, where a sector of
 * memory begins, by two lanes a row. A row begins in a stage as far behind a multiple of 32 as in memory, PITCH bytes
 * from the one before. WHOLE: a row has no part of a chunk. */
template <int BYTES_, int COPIES, int PITCH, bool WHOLE> struct Packed_rows : Weight_rows {
    static constexpr int BYTES = BYTES_;
    __device__ __forceinline__ uint32_t skew(uint32_t row, uint32_t chunk) const
    {
        return (uint32_t)((uint64_t)at + row * step + chunk * BYTES) & 31;
    }
    __device__ __forceinline__ void fetch(uint32_t to, uint32_t chunk) const
    {
        const uint32_t row = threadIdx.x % 32 / 2, first = chunk * BYTES;
        uint32_t size = row < rows ? BYTES : 0;
        if (!WHOLE && size) size = first < row_bytes ? min((uint32_t)BYTES, row_bytes - first) : 0;
        copy_row(to + row * PITCH, at + row * step + first, size);
    }
    /* Of a row its chunk at `from`, where so many bytes exist; odd lanes have every other 16. */
    static __device__ __forceinline__ void copy_row(uint32_t to, const char *from, uint32_t size)
    {
        const uint32_t j = threadIdx.x % 2, before = (uint32_t)(uint64_t)from & 31, end = size ? size + before : 0;
        from = from - before + 16 * j;
        to += 16 * j;
#pragma unroll
        for (uint32_t u = 0; u < COPIES / 2; u++) {
            const uint32_t begin = 16 * (2 * u + j);
            const bool inner = WHOLE && 32 * u + 32 <= BYTES;
            copy_16(to + 32 * u, from + 32 * u, inner ? (size ? 16 : 0) : end > begin ? min(16u, end - begin) : 0);
        }
    }
};

/* The chunks of a warp, one after the other: work(chunk, place in shared memory). STAGES are on their way at a time. */
template <int STAGES, int STAGE, class W, class Work>
RT_DEVICE void few_walk(const W &weights, uint32_t place, uint32_t part, uint32_t split, uint32_t chunks, Work &work)
{
#pragma unroll
    for (int s = 0; s < STAGES - 1; s++) {
        if (part + s * split < chunks) weights.fetch(place + s * STAGE, part + s * split);
        copy_group();
    }
    uint32_t now = 0, next = STAGES - 1;
#pragma unroll 1
    for (uint32_t chunk = part; chunk < chunks; chunk += split) {
        const uint32_t ahead = chunk + (STAGES - 1) * split;
        copy_groups_wait<STAGES - 2>();
        __syncwarp(); /* the chunk is here for all lanes, and none reads the one before */
        if (ahead < chunks) weights.fetch(place + next * STAGE, ahead);
        copy_group();
        work(chunk, now * STAGE);
        now = now + 1 == STAGES ? 0 : now + 1;
        next = next + 1 == STAGES ? 0 : next + 1;
    }
    copy_wait();
}

/* out from a sum */
RT_DEVICE void few_store(const rt_cuda_few_tensor &t, uint32_t m, uint32_t n, float sum)
{
    const uint64_t at = m * t.out.stride + n;
    float y = t.alpha * sum;
    if (t.bias) y += load_one(t.bias, t.bias_type, n);
    if (t.acc) y += load_one(t.out.at, t.out_type, at);
    store_one(t.out.at, t.out_type, at, y);
}

/* acc (16 weight rows, 8 rows of a each) of every warp to shared memory, warps that share weight rows added in order,
 * and out. room: (warps, 8 NT, 20) f32. */
template <int NT>
RT_DEVICE void few_out(const float (&acc)[NT][4], const rt_cuda_few_params &p, const rt_cuda_few_tensor &t,
                       const Place_of_warp &w, float *room)
{
    enum { ROWS = 16, COLUMNS = 8 * NT, PITCH = ROWS + 4, EACH = COLUMNS * PITCH };
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float *mine = room + warp * EACH + lane % 4 * 2 * PITCH + lane / 4;
    __syncthreads(); /* nobody reads the stages any more */
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) mine[(n * 8 + e % 2) * PITCH + e / 2 * 8] = acc[n][e];
    __syncthreads();
    const uint32_t rows = p.M - w.m0 < COLUMNS ? p.M - w.m0 : COLUMNS;
    const float *from = room + warp / p.split * p.split * EACH;
    for (uint32_t i = w.part * 32 + lane; i < rows * ROWS; i += 32 * p.split) {
        const uint32_t m = i / ROWS, n = i % ROWS;
        if (w.n0 + n >= t.N) continue;
        float sum = from[m * PITCH + n];
        for (uint32_t s = 1; s < p.split; s++) sum += from[s * EACH + m * PITCH + n];
        few_store(t, w.m0 + m, w.n0 + n, sum);
    }
}

#endif
