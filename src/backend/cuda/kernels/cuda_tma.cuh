/* cuda_tma.cuh - Hopper's copy engine: copies into shared memory that one thread asks for, and that a barrier counts in
 * bytes; device code.
 *
 * Arrived bytes are seen by whoever has waited for the barrier. What threads have read is written over by the next copy
 * after they have arrived at a barrier that the asking thread waits for. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_TMA_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_TMA_CUH

#include "backend/cuda/kernels/cuda_tensor_map.h"
#include "backend/cuda/kernels/cuda_wgmma.cuh"

/* Of the thread that has made barriers, before the others may use them: the copy engine sees them. */
RT_DEVICE void barriers_made()
{
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    copies_seen();
}
/* Arrives, and the phase ends no sooner than so many bytes have been copied for it. */
RT_DEVICE void barrier_expect(uint32_t at, uint32_t bytes)
{
    asm volatile("{ .reg .b64 t; mbarrier.arrive.expect_tx.shared::cta.b64 t, [%0], %1; }" ::"r"(at), "r"(bytes)
                 : "memory");
}
/* The box of a map that begins at column, row and batch; zeros where it reaches out of the map. */
RT_DEVICE void box_copy(uint32_t to, const rt_cuda_tensor_map &map, int column, int row, int batch, uint32_t bar)
{
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], "
                 "[%1, {%2, %3, %4}], [%5];" ::"r"(to),
                 "l"(&map), "r"(column), "r"(row), "r"(batch), "r"(bar)
                 : "memory");
}
/* A multiple of 16 bytes, both ends on 16-byte boundaries. */
RT_DEVICE void bytes_copy(uint32_t to, const void *from, uint32_t bytes, uint32_t bar)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(bar)
                 : "memory");
}

#endif
