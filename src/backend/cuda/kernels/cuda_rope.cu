/* cuda_rope.cu - rotary embedding, half-split pairing: (x[j], x[j + D/2]) is rotated by pos * freq[j].
 *
 * A block has a few rows, all their heads where these are not too many, and a thread the same columns of several rows.
 * While its packs are under way the block computes the cosines and sines of its rows, once, into shared memory. The
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

/* Both halves of a pack of pairs turn by the angles whose cosines and sines are given. */
template <int W> RT_DEVICE void rotate(float (&a)[W], float (&b)[W], const float (&c)[W], const float (&s)[W])
{
#pragma unroll
    for (int i = 0; i < W; i++) {
        const float low = a[i];
        a[i] = low * c[i] - b[i] * s[i];
        b[i] = b[i] * c[i] + low * s[i];
    }
}

/* Cosines and sines of the block's rows from `first` on: (rows,half) each, both times the scale. */
RT_DEVICE void make_table(const rt_cuda_rope_params &p, uint64_t first, uint32_t rows, float *cosine, float *sine)
{
    const uint32_t half = p.a.D / 2;
    for (uint32_t i = threadIdx.x; i < rows * half; i += blockDim.x) {
        const uint32_t r = i / half;
        float c, s;
        rotation(*element<int32_t>(p.pos, first + r, 0), ((const float *)p.freq)[i - r * half], c, s);
        cosine[i] = c * p.a.scale;
        sine[i] = s * (p.back ? -p.a.scale : p.a.scale);
    }
}

template <class T> __device__ void rope(const rt_cuda_rope_params &p)
{
    constexpr uint32_t W = 16 / sizeof(T), U = RT_CUDA_ROPE_ROWS;
    const uint32_t half = p.a.D / 2, packs = (half + W - 1) / W;
    const uint64_t first = (uint64_t)(blockIdx.x / p.chunks) * p.rows;
    const uint32_t rows = p.a.N - first < p.rows ? (uint32_t)(p.a.N - first) : p.rows;
    const uint32_t above = threadIdx.x / p.lanes, k = blockIdx.x % p.chunks * p.lanes + threadIdx.x - above * p.lanes;
    const uint32_t head = k / packs, j = (k - head * packs) * W, end = head < p.a.H ? rows : 0;
    const uint64_t col = (uint64_t)head * p.a.D + j;
    float *cosine = (float *)shared_bytes(), *sine = cosine + (uint64_t)p.rows * half;
    Raw<16> low[U], high[U];
    if (p.whole) {
#pragma unroll
        for (uint32_t u = 0; u < U; u++) {
            const uint32_t r = above + u * p.side;
            if (r >= end) continue;
            const T *x = element<T>(p.x, first + r, col);
            low[u] = load_raw<16>(x);
            high[u] = load_raw<16>(x + half);
        }
    }
    make_table(p, first, rows, cosine, sine);
    __syncthreads();
#pragma unroll
    for (uint32_t u = 0; u < U; u++) {
        const uint32_t r = above + u * p.side;
        if (r >= end) continue;
        const Part e = { half - j < W ? half - j : W };
        const float *c_at = cosine + r * half + j, *s_at = sine + r * half + j;
        float a[W], b[W], c[W], s[W];
        T *y = element<T>(p.y, first + r, col);
        if (p.whole) {
            unpack<T, W>(a, low[u]);
            unpack<T, W>(b, high[u]);
            load(c, c_at, Whole());
            load(s, s_at, Whole());
            rotate(a, b, c, s);
            store(y, a, Whole());
            store(y + half, b, Whole());
        } else {
            const T *x = element<T>(p.x, first + r, col);
            load(a, x, e);
            load(b, x + half, e);
            load(c, c_at, e);
            load(s, s_at, e);
            rotate(a, b, c, s);
            store(y, a, e);
            store(y + half, b, e);
        }
    }
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) rope_##name(const rt_cuda_rope_params p)               \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        next_may_begin();                                                                                              \
        rope<T>(p);                                                                                                    \
    }
RT_FOR_FLOATS(KERNELS)
