/* cuda_begin.cuh - how every kernel begins: behind the one before it. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_BEGIN_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_BEGIN_CUH

#define RT_DEVICE static __device__ __forceinline__

/* The first line of every kernel. From sm_90 on its blocks are set up while the kernel before it ends, and wait here
 * until that one has ended and what it wrote is seen (cuda_program.c asks for that). Nothing written by another kernel
 * may be read, and nothing at all written, before this; begin_early() is the one exception. */
RT_DEVICE void begin_kernel()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* The first line, instead, of a kernel that does something before it calls begin_kernel(). It may read what the launch
 * directly ahead does not write, and write what that one does not touch, for all others have ended: a kernel lets the
 * next begin only behind its own begin_kernel(). It has to read from L2: a line in L1 may be older. */
RT_DEVICE void begin_early() {}

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
