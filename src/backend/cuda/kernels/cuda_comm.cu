/* cuda_comm.cu - what ranks need besides a collective: whose fault it is, and a mark that the host can see. */
#include "backend/cuda/kernels/cuda_comm.h"
#include "backend/cuda/kernels/cuda_common.cuh"

/* A fault of any rank becomes that of all: of the first that has one, which is then named in it. One warp. */
extern "C" __global__ void first_fault(const rt_cuda_first_fault_params p)
{
    begin_kernel();
    const rt_fault *all = (const rt_fault *)p.all;
    uint32_t first = p.R;
    for (uint32_t r = threadIdx.x; r < p.R; r += 32)
        if (all[r].set && r < first) first = r;
    for (int i = 16; i; i /= 2) {
        const uint32_t other = __shfl_xor_sync(0xffffffffu, first, i);
        if (other < first) first = other;
    }
    if (threadIdx.x || first == p.R) return;
    rt_fault *out = (rt_fault *)p.out;
    *out = all[first];
    if (out->set == 1) out->set = 1 + first; // else it was named before
}

/* own = or += from */
extern "C" __global__ void __launch_bounds__(RT_CUDA_BLOCK) take_slice(const rt_cuda_take_slice_params p)
{
    begin_kernel();
    const uint32_t i = blockIdx.x * RT_CUDA_BLOCK + threadIdx.x;
    if (i >= p.n) return;
    float *own = (float *)p.own;
    const float x = ((const float *)p.from)[i];
    own[i] = p.acc ? own[i] + x : x;
}

/* One thread; only this stream writes the word. */
extern "C" __global__ void count_up(const rt_cuda_count_up_params p)
{
    begin_kernel();
    volatile uint32_t *word = (volatile uint32_t *)p.word;
    *word = *word + 1;
    __threadfence_system();
}
