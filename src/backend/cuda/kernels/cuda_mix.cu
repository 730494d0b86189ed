/* cuda_mix.cu - one teacher more of a mixture, as logits.
 *
 * A block has a row: its largest logit, the sum of its exponentials, then the elements. A row whose weight is 0 is a
 * copy of y0, and its x is not read. */
#include "backend/cuda/kernels/cuda_choice.h"
#include "backend/cuda/kernels/cuda_common.cuh"

namespace
{
struct Columns {
    const char *x;
    uint32_t dtype, end;   /* columns that x and y both have */
    const uint32_t *vmask; /* or null */
    __device__ bool has(uint32_t v) const { return v < end && (!vmask || (vmask[v / 32] >> v % 32 & 1)); }
    __device__ float value(uint32_t v) const { return load_one(x, dtype, v); }
};

/* The largest logit of Vc and T (log weight - log sum of exp((x - largest) / T)); false when one is not finite. */
RT_DEVICE bool measure(const rt_mix_args &a, const Columns &c, float weight, float *max, float *shift)
{
    __shared__ float maxima[32];
    __shared__ double room[32];
    const float least = __uint_as_float(0xff800000u), inv_T = 1.0f / a.T;
    float top = least;
    double sum = 0;
    int odd = 0;
    for (uint32_t v = threadIdx.x; v < c.end; v += blockDim.x) {
        if (!c.has(v)) continue;
        const float x = c.value(v);
        odd |= (__float_as_uint(x) & 0x7f800000) == 0x7f800000;
        top = x > top ? x : top;
    }
    *max = block_max(top, maxima, least);
    if (__syncthreads_or(odd)) return false;
    for (uint32_t v = threadIdx.x; v < c.end; v += blockDim.x)
        if (c.has(v)) sum += (double)expf((c.value(v) - *max) * inv_T);
    sum = block_sum(sum, room);
    *shift = (float)(a.T * (log((double)weight) - log(sum)));
    return true;
}

template <class T> __device__ void mix(const rt_cuda_mix_params &p)
{
    const uint32_t row = blockIdx.x, size = p.dtype == RT_DTYPE_F32 ? 4 : 2;
    const float none = __uint_as_float(0x7fc00000u), inv_T = 1.0f / p.a.T;
    const float weight = p.a.w * (p.weight.at ? *element<float>(p.weight, row, 0) : 1.0f);
    const Columns c = { p.x.at + row * p.x.stride * size, p.dtype, p.a.V < p.a.U ? p.a.V : p.a.U,
                        (const uint32_t *)p.vmask };
    bool sound = weight >= 0 && weight < __uint_as_float(0x7f800000u);
    float max = 0, shift = 0;
    if (sound && weight > 0) sound = measure(p.a, c, weight, &max, &shift);
    for (uint32_t v = threadIdx.x; v < p.a.V; v += blockDim.x) {
        T *y = element<T>(p.y, row, v);
        if (!c.has(v)) {
            narrow(y, 0.0f);
            continue;
        }
        const float z0 = p.y0.at ? to_float(*element<T>(p.y0, row, v)) : RT_MIX_FLOOR;
        const bool empty = z0 <= RT_MIX_FLOOR;
        float z = empty ? RT_MIX_FLOOR : z0;
        if (weight != 0 && sound) {
            const float add = c.value(v) - max + shift;
            const float hi = z > add ? z : add, lo = z > add ? add : z; /* a NaN stays */
            z = empty ? add : hi + p.a.T * log1pf(expf((lo - hi) * inv_T));
        }
        narrow(y, !sound ? none : z < RT_MIX_FLOOR ? RT_MIX_FLOOR : z);
    }
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_CHOICE_THREADS, 1) mix_##name(const rt_cuda_mix_params p)     \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        mix<T>(p);                                                                                                     \
    }
RT_FOR_FLOATS(KERNELS)
