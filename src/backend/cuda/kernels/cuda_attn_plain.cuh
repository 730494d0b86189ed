/* cuda_attn_plain.cuh - attention in f32 on ordinary cores: a tile of 64 rows against tiles of 64 others; device code.
 *
 * Owns: the pieces of cuda_attn_plain.cu and of the wide form of cuda_attn_decode.cu. They take every D, every storage
 * type and every alignment. Threads are 16 by 16: thread (ty,tx) has rows 4 ty to 4 ty + 3 of a tile, of scores the
 * columns tx, tx + 16, tx + 32, tx + 48, and of a slice of D the columns 2 tx and 2 tx + 1. Operands pass through
 * shared memory in slices of 32 columns, so that its size does not depend on D. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_PLAIN_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_PLAIN_CUH

#include "backend/cuda/kernels/cuda_attn_dev.cuh"

enum {
    TILE = RT_CUDA_ATTN_PLAIN_TILE,
    SLICE = RT_CUDA_ATTN_PLAIN_SLICE,
    SLICES = 256 / SLICE, /* of the widest head */
    PITCH = SLICE + RT_CUDA_ATTN_PLAIN_PAD,
    WEIGHTS = TILE + RT_CUDA_ATTN_PLAIN_PAD
};

RT_DEVICE int thread_x() { return (int)(threadIdx.x & 15); }
RT_DEVICE int thread_y() { return (int)(threadIdx.x >> 4); }

/* Shared memory: two slices and one or two tiles of weights. */
struct plain_shared {
    float *a, *b; /* (TILE,PITCH) */
    float *w, *x; /* (TILE,WEIGHTS) */
};
RT_DEVICE plain_shared plain_begin()
{
    float *p = (float *)rt_shared;
    return { p, p + TILE * PITCH, p + 2 * TILE * PITCH, p + 2 * TILE * PITCH + TILE * WEIGHTS };
}

/* to (TILE,PITCH) = columns d0 to d0 + SLICE - 1 of rows 0 to rows - 1, which begin at elements at(row); else 0. */
template <class At> RT_DEVICE void slice_fetch(float *to, uint64_t from, At at, int rows, int d0, int D, uint32_t dtype)
{
#pragma unroll 4
    for (int c = (int)threadIdx.x; c < TILE * SLICE; c += RT_CUDA_ATTN_PLAIN_THREADS) {
        const int r = c / SLICE, d = d0 + c % SLICE;
        to[r * PITCH + c % SLICE] = r < rows && d < D ? load_any((const void *)from, at(r) + d, dtype) : 0.0f;
    }
}

/* s += a b' over one slice */
RT_DEVICE void slice_scores(float (&s)[4][4], const float *a, const float *b)
{
#pragma unroll 2
    for (int d = 0; d < SLICE; d += 4) {
        float4 x[4], y[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = *(const float4 *)(a + (thread_y() * 4 + i) * PITCH + d);
            y[i] = *(const float4 *)(b + (thread_x() + i * 16) * PITCH + d);
        }
#pragma unroll
        for (int i = 0; i < 4; i++)
#pragma unroll
            for (int j = 0; j < 4; j++) {
                s[i][j] = fmaf(x[i].x, y[j].x, s[i][j]);
                s[i][j] = fmaf(x[i].y, y[j].y, s[i][j]);
                s[i][j] = fmaf(x[i].z, y[j].z, s[i][j]);
                s[i][j] = fmaf(x[i].w, y[j].w, s[i][j]);
            }
    }
}

/* acc += w b over one slice */
RT_DEVICE void slice_add(float (&acc)[4][2], const float *w, const float *b)
{
#pragma unroll 2
    for (int k = 0; k < TILE; k += 4) {
        float4 x[4];
        float2 y[4];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            x[i] = *(const float4 *)(w + (thread_y() * 4 + i) * WEIGHTS + k);
            y[i] = *(const float2 *)(b + (k + i) * PITCH + thread_x() * 2);
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const float f[4] = { x[i].x, x[i].y, x[i].z, x[i].w };
#pragma unroll
            for (int j = 0; j < 4; j++) {
                acc[i][0] = fmaf(f[j], y[j].x, acc[i][0]);
                acc[i][1] = fmaf(f[j], y[j].y, acc[i][1]);
            }
        }
    }
}

/* s = rows of a, times rows of b, over all of D; a barrier comes first, so shared memory may be in use before. */
template <class AtA, class AtB>
RT_DEVICE void plain_scores(float (&s)[4][4], const plain_shared &m, uint64_t a, AtA a_at, int a_rows, uint64_t b,
                            AtB b_at, int b_rows, int D, uint32_t dtype)
{
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) s[i][j] = 0;
    for (int d0 = 0; d0 < D; d0 += SLICE) {
        __syncthreads();
        slice_fetch(m.a, a, a_at, a_rows, d0, D, dtype);
        slice_fetch(m.b, b, b_at, b_rows, d0, D, dtype);
        __syncthreads();
        slice_scores(s, m.a, m.b);
    }
}

/* acc = f acc + w b, over all of D; a barrier comes first. */
template <class At>
RT_DEVICE void plain_add(float (&acc)[SLICES][4][2], const float (&f)[4], const plain_shared &m, const float *w,
                         uint64_t b, At b_at, int b_rows, int D, uint32_t dtype)
{
#pragma unroll
    for (int n = 0; n < SLICES; n++)
        if (n * SLICE < D) {
            __syncthreads();
            slice_fetch(m.b, b, b_at, b_rows, n * SLICE, D, dtype);
            __syncthreads();
#pragma unroll
            for (int i = 0; i < 4; i++) {
                acc[n][i][0] *= f[i];
                acc[n][i][1] *= f[i];
            }
            slice_add(acc[n], w, m.b);
        }
}

RT_DEVICE void plain_clear(float (&acc)[SLICES][4][2])
{
#pragma unroll
    for (int n = 0; n < SLICES; n++)
#pragma unroll
        for (int i = 0; i < 4; i++) acc[n][i][0] = acc[n][i][1] = 0;
}

/* ---- forward: queries against keys ---- */

struct plain_queries {
    float o[SLICES][4][2]; /* not yet divided by sum */
    float top[4], sum[4];  /* largest score in units of log 2, sum of weights; the same in all threads of a row */
    int lo[4], hi[4];      /* keys that a row sees; none when lo > hi */
};

RT_DEVICE void plain_queries_begin(plain_queries &w)
{
    plain_clear(w.o);
#pragma unroll
    for (int i = 0; i < 4; i++) {
        w.top[i] = -INFINITY;
        w.sum[i] = 0;
    }
}

/* Scores of keys from j0 on become weights in m.w; shrink is by what earlier sums and outputs are multiplied. */
RT_DEVICE void plain_soften(float (&s)[4][4], plain_queries &w, float (&shrink)[4], float *to, int j0, float scale2)
{
#pragma unroll
    for (int i = 0; i < 4; i++) {
        float top = w.top[i], sum = 0;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int key = j0 + thread_x() + j * 16;
            s[i][j] = key < w.lo[i] || key > w.hi[i] ? -INFINITY : s[i][j] * scale2;
            top = fmaxf(top, s[i][j]);
        }
        for (int k = 1; k < 16; k *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, k));
        const float base = top == -INFINITY ? 0.0f : top; /* nothing seen yet */
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const float p = power_2(s[i][j] - base);
            to[(thread_y() * 4 + i) * WEIGHTS + thread_x() + j * 16] = p;
            sum += p;
        }
        for (int k = 1; k < 16; k *= 2) sum += __shfl_xor_sync(~0u, sum, k);
        shrink[i] = power_2(w.top[i] - base);
        w.sum[i] = fmaf(w.sum[i], shrink[i], sum);
        w.top[i] = top;
    }
}

/* Rows of q against keys j0 to j1 - 1, whose rows of k and v begin at elements k_at(j) and v_at(j). */
template <class AtQ, class AtK, class AtV>
RT_DEVICE void plain_attend(plain_queries &w, uint64_t q, AtQ q_at, int rows, uint64_t k, AtK k_at, uint64_t v,
                            AtV v_at, int j0, int j1, int D, float scale2, uint32_t dtype)
{
    const plain_shared m = plain_begin();
    for (; j0 < j1; j0 += TILE) {
        const int keys = min((int)TILE, j1 - j0);
        float s[4][4], shrink[4];
        plain_scores(
            s, m, q, q_at, rows, k, [=](int r) { return k_at(j0 + r); }, keys, D, dtype);
        plain_soften(s, w, shrink, m.w, j0, scale2);
        plain_add(
            w.o, shrink, m, m.w, v, [=](int r) { return v_at(j0 + r); }, keys, D, dtype);
    }
}

#endif
