/* cuda_begin.cuh - how every kernel begins: behind the one before it. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_BEGIN_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_BEGIN_CUH

#define RT_DEVICE static __device__ __forceinline__

/* The first line of every kernel. From sm_90 on its blocks are set up while the kernel before it ends, and wait here
 * until that one has ended and what it wrote is seen (cuda_program.c asks for that). PTX promises nothing of what is
 * read or written before this. */
RT_DEVICE void begin_kernel()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The next kernel may be set up as soon as all blocks of this one have begun (this comes behind begin_kernel());
 * without this, when they have ended. For kernels of many short blocks. Behind one of few long blocks the next one's
 * would settle unevenly: add_rmsnorm_bwd was 6 % slower so. */
RT_DEVICE void next_may_begin()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;");
#endif
}

#endif
