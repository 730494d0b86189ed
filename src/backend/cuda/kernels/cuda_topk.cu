/* cuda_topk.cu - the k most likely ids of each row with their log-probabilities, and the mass of the others.
 *
 * A block has a row. The mass left over is added up from the columns that are not listed, not taken from 1. */
#include "backend/cuda/kernels/cuda_rank.cuh"

namespace
{
template <class T> __device__ void topk(const rt_cuda_topk_params &p)
{
    __shared__ uint64_t near[RT_CUDA_CHOICE_SHARED];
    __shared__ double room[32];
    const uint32_t row = blockIdx.x, k = p.a.k;
    const float none = __uint_as_float(0x7fc00000u), zero = __uint_as_float(0xff800000u); /* NaN, log 0 */
    const Columns<T> c = { element<T>(p.x, row, 0), (const uint32_t *)p.vmask, p.a.V, nullptr, 1 };
    const Chosen y = choose(c, k);
    uint64_t *keys = p.keys ? (uint64_t *)p.keys + row * p.room : near;
    rank_chosen(c, y, keys, room_for(y.n));
    const double T1 = p.a.T, top = y.n ? rank_value(keys[0]) : 0.0;
    double listed = 0, left = 0;
    for (uint32_t j = threadIdx.x; j < y.n; j += blockDim.x) listed += exp((rank_value(keys[j]) - top) / T1);
    const float first = (float)top, inv = (float)(1 / T1);
    for (uint32_t v = threadIdx.x; v < p.a.V; v += blockDim.x) {
        if (!c.has(v) || rank_key(c.value(v), v) >= y.least) continue;
        left += expf((c.value(v) - first) * inv);
    }
    listed = block_sum(listed, room);
    __syncthreads();
    left = block_sum(left, room);
    const double sum = listed + left, logs = log(sum);
    for (uint32_t j = threadIdx.x; j < k; j += blockDim.x) {
        const bool have = y.finite && j < y.n;
        *element<int32_t>(p.id, row, j) = have ? (int32_t)rank_id(keys[j]) : -1;
        *element<float>(p.logp, row, j) = have       ? (float)((rank_value(keys[j]) - top) / T1 - logs)
                                          : y.finite ? zero
                                                     : none;
    }
    if (threadIdx.x == 0) *element<float>(p.rest, row, 0) = !y.finite ? none : y.n ? (float)(left / sum) : 0.0f;
}
} // namespace

#define KERNELS(name, T)                                                                                               \
    extern "C" __global__ void __launch_bounds__(RT_CUDA_CHOICE_THREADS, 1) topk_##name(const rt_cuda_topk_params p)   \
    {                                                                                                                  \
        begin_kernel();                                                                                                \
        topk<T>(p);                                                                                                    \
    }
RT_FOR_FLOATS(KERNELS)
