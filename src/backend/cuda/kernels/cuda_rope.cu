/* cuda_rope.cu - rotary embedding, half-split pairing: (x[j], x[j + D/2]) is rotated by pos * freq[j].
 *
 * A block has a few rows. It computes their cosines and sines once, into shared memory, and all heads use them. The
 * angle is formed and reduced to a quarter turn in double, because pos * freq loses all its fraction in f32 at long
 * context; the polynomials after that are f32. Backward is the rotation by the opposite angle. */
#include "backend/cuda/kernels/cuda_common.cuh"
#include "backend/cuda/kernels/cuda_rope.h"

namespace
{
/* cosine and sine of pos*freq, each below 1.5 units in the last place */
RT_DEVICE void rotation(int32_t pos, float freq, float &cosine, float &sine)
{
    const double two_over_pi = 0x1.45f306dc9c883p-1, pio2_hi = 0x1.921fb54400000p+0, pio2_lo = 0x1.0b4611a626331p-34;
    const double angle = (double)pos * freq, q = rint(angle * two_over_pi);
    const float r = (float)((angle - q * pio2_hi) - q * pio2_lo), z = r * r;
    const uint32_t quarter = (uint32_t)(int64_t)q;
    float s = -0x1.a01a02p-13f + z * 0x1.71de3ap-19f; /* -1/5040, 1/362880 */
    s = r + r * z * (-0x1.555556p-3f + z * (0x1.111112p-7f + z * s));
    float c = 0x1.a01a02p-16f + z * -0x1.27e4fcp-22f; /* 1/40320, -1/3628800 */
    c = 1.0f + z * (-0.5f + z * (0x1.555556p-5f + z * (-0x1.6c16c2p-10f + z * c)));
    cosine = quarter & 1 ? s : c;
    sine = quarter & 1 ? c : s;
    if (quarter + 1 & 2) cosine = -cosine; /* in quarters 1 and 2 */
    if (quarter & 2) sine = -sine;
}

template <class T, class E>
RT_DEVICE void rotate(T *y, const T *x, const float *cosine, const float *sine, uint32_t half, E e)
{
    constexpr int W = 16 / (int)sizeof(T);
    float a[W], b[W], c[W], s[W];
    load(a, x, e);
    load(b, x + half, e);
    load(c, cosine, e);
    load(s, sine, e);
#pragma unroll
    for (int i = 0; i < W; i++) {
        const float low = a[i];
        a[i] = low * c[i] - b[i] * s[i];
        b[i] = b[i] * c[i] + low * s[i];
    }
    store(y, a, e);
    store(y + half, b, e);
}

template <class T> __device__ void rope(const rt_cuda_rope_params &p)
{
    constexpr uint32_t W = 16 / sizeof(T);
    const uint32_t half = p.a.D / 2, packs = (half + W - 1) / W, per_row = p.a.H * packs;
    const uint64_t first = (uint64_t)blockIdx.x * p.rows;
    const uint32_t rows = p.a.N - first < p.rows ? (uint32_t)(p.a.N - first) : p.rows;
    float *cosine = (float *)shared_bytes(), *sine = cosine + (uint64_t)p.rows * half; /* (rows,half) each */
    for (uint32_t i = threadIdx.x; i < rows * half; i += blockDim.x) {
        float c, s;
        rotation(*element<int32_t>(p.pos, first + i / half, 0), ((const float *)p.freq)[i % half], c, s);
        cosine[i] = c * p.a.scale;
        sine[i] = s * (p.back ? -p.a.scale : p.a.scale);
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < rows * per_row; i += blockDim.x) {
        const uint32_t r = i / per_row, k = i % per_row, j = k % packs * W, at = r * half + j;
        const uint64_t col = (uint64_t)(k / packs) * p.a.D + j;
        const T *x = element<T>(p.x, first + r, col);
        T *y = element<T>(p.y, first + r, col);
        if (p.whole)
            rotate(y, x, cosine + at, sine + at, half, Whole());
        else
            rotate(y, x, cosine + at, sine + at, half, Part{ half - j < W ? half - j : W });
    }
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) rope_##name(const rt_cuda_rope_params p) { rope<T>(p); }
RT_FOR_FLOATS(KERNELS)
