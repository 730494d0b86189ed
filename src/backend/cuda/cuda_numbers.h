/* cuda_numbers.h - the numbers of the host files that were found by measuring: one table, a column for each range of
 * architectures.
 *
 * Owns: how work is cut and what planners are told. What a cut is decides bits, so the hash of the column in use is a
 * part of a program's (identity). Leaves to kernels what they are compiled with, to cuda_policy.h what is a rule and no
 * number. */
#ifndef RT_BACKEND_CUDA_CUDA_NUMBERS_H
#define RT_BACKEND_CUDA_CUDA_NUMBERS_H

#include <stdint.h>

/* field; below sm_90, on sm_90, above; what it is. The one in the middle was measured, on an H200. The others are its
 * figures, except what a GPU has not, until somebody measures there. */
#define RT_CUDA_NUMBERS(X)                                                                                             \
    X(attn_bwd_blocks, 1024, 1024, 1024, "blocks of dk and dv that query heads are cut into parts for")                \
    X(attn_bwd_hopper, 256, 256, 256, "the same of Hopper's kernels, which have a multiprocessor to themselves")       \
    X(decode_blocks, 512, 512, 512, "blocks of attn_decode that the cache is cut into splits for")                     \
    X(decode_keys, 64, 64, 64, "keys that a split has at least: a tile")                                               \
    X(norm_bwd_blocks, 256, 256, 256, "most blocks of rmsnorm_bwd: each leaves a partial weight gradient")             \
    X(bias_blocks, 264, 264, 264, "blocks of bias_grad, each with a partial sum; twice as many were slower")           \
    X(kd_blocks, 2, 2, 2, "of kd_loss on a multiprocessor, where the driver cannot say")                               \
    X(kd_cycles, 6, 6, 6, "of a row of kd_loss, for a pack of a block's slice")                                        \
    X(mma_parts, 16, 16, 16, "most parts that a tile of our own GEMM is cut into along K")                             \
    X(mma_part_K, 512, 512, 512, "of K that a part has at least; costs, here and below, are counted in elements of K") \
    X(mma_block, 192, 192, 192, "what a block of it costs besides")                                                    \
    X(mma_sums, 5, 5, 5, "the sums of a part, written and read")                                                       \
    X(mma_launch, 200, 200, 200, "one more launch")                                                                    \
    X(few_rows, 16, 16, 16, "most rows of a GEMM that kernels for few rows do, weights of 16 bits;")                   \
    X(few_packed, 64, 64, 64, "packed ones, which would otherwise be dequantised first")                               \
    X(few_warps, 16, 16, 16, "of theirs on a multiprocessor, for which K is split")                                    \
    X(few_round, 6, 6, 6, "what a round of them costs besides, in quarters of a chunk of K")                           \
    X(positions, 8192, 8192, 8192, "of a micro-batch: GEMMs are at their full rate")                                   \
    X(head_mib, 1280, 1280, 1280, "MiB of logits that exist at once: enough for GEMMs of full rate")                   \
    X(byte_flops, 170, 170, 170, "FLOPs in the time of a byte: 680 TFLOP/s in bf16 GEMMs, 4.0 TB/s")                   \
    X(host_byte_flops, 12600, 12600, 12600, "those in the time of a byte from the host: 54 GB/s, pinned")              \
    X(op_mflops, 1360, 1360, 1360, "MFLOPs in the time that an op takes to begin: 2 us")                               \
    X(fp8_percent, 0, 65, 0, "time of a GEMM of e4m3 with row scales, of one in bf16; 0: the library has none")

typedef struct rt_cuda_numbers {
#define X(field, older, hopper, newer, text) uint32_t field; /* text */
    RT_CUDA_NUMBERS(X)
#undef X
} rt_cuda_numbers;

/* The column of an architecture: that of the kernels in use for cuts, of the GPU for what planners are told. */
static inline const rt_cuda_numbers *rt_cuda_numbers_of(uint32_t sm)
{
    static const rt_cuda_numbers columns[] = {
#define X(field, older, hopper, newer, text) .field = (older),
        { RT_CUDA_NUMBERS(X) },
#undef X
#define X(field, older, hopper, newer, text) .field = (hopper),
        { RT_CUDA_NUMBERS(X) },
#undef X
#define X(field, older, hopper, newer, text) .field = (newer),
        { RT_CUDA_NUMBERS(X) },
#undef X
    };
    return &columns[sm < 90 ? 0 : sm == 90 ? 1 : 2];
}

#endif
