/* cuda_attn.h - what the attention kernels are told: one struct per op, plain C, shared by cuda_attn*.c and the
 * kernels.
 *
 * Scores are kept in units of log 2 (scale2 = scale log2 e), so that every exponential is 2^x. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_H

#include "backend/cuda/kernels/cuda_tensor_map.h"
#include "op/args.h"

enum { RT_CUDA_ATTN_F32, RT_CUDA_ATTN_BF16, RT_CUDA_ATTN_F16 }; /* storage of the A operands */

/* The tensor-core kernels (cuda_attn_fwd.cu, cuda_attn_bwd.cu): four warps, each with MT times 16 rows of the tile that
 * the block owns; the other side comes in tiles, too. */
enum { RT_CUDA_ATTN_THREADS = 128, RT_CUDA_ATTN_FWD_KEYS = 64 };
/* Those of Hopper: warpgroups of 64 rows; the other side comes 64 rows at a time. Bytes of shared memory of a block of
 * the forward (cuda_attn_hopper.cu) with so many warpgroups that compute, and of the backward (cuda_attn_hopper_bwd.cu)
 * with two. */
enum { RT_CUDA_ATTN_HOPPER_GROUP = 128, RT_CUDA_ATTN_HOPPER_ROWS = 64 }; /* threads and rows of one */
#define RT_CUDA_ATTN_HOPPER_SHARED(D, groups) (133120 + (groups) * (256 * (D) + 1280))
#define RT_CUDA_ATTN_HOPPER_BWD_SHARED(D) ((D) == 64 ? 194560 : 223488)
/* The plain kernels (cuda_attn_plain.cu): f32 on ordinary cores, tiles of 64 by 64, D in slices of 32. */
enum { RT_CUDA_ATTN_PLAIN_THREADS = 256, RT_CUDA_ATTN_PLAIN_TILE = 64, RT_CUDA_ATTN_PLAIN_SLICE = 32 };
/* Rows of shared memory are this many elements longer than what they hold: no two of eight rows in the same banks. In
 * tiles of queries the backward keeps the stat of a row there. */
enum { RT_CUDA_ATTN_PAD = 8, RT_CUDA_ATTN_PLAIN_PAD = 4 };

typedef struct rt_cuda_attn_mat { /* a matrix in device memory */
    uint64_t at;                  /* address of element (0,0); 0: absent */
    uint64_t stride;              /* elements */
} rt_cuda_attn_mat;

typedef struct rt_cuda_attn_fwd_params {
    rt_cuda_tensor_map q_map, k_map, v_map; /* for Hopper's kernels alone: (B,T,columns) in boxes of 64 by 64 */
    rt_attn_args a;
    uint32_t dtype;
    float scale2;
    rt_cuda_attn_mat o, lse, q, k, v, start;
} rt_cuda_attn_fwd_params;

/* What the backward wants to know about query t of head h of row b, at (b H + h) T + t. */
typedef struct rt_cuda_attn_stat {
    float lse2;  /* lse in units of log 2 */
    float delta; /* do.o */
    int32_t lo;  /* the first key that it sees; the last one is t */
    uint32_t unused;
} rt_cuda_attn_stat;

typedef struct rt_cuda_attn_bwd_params {
    rt_cuda_tensor_map q_map, k_map, v_map, do_map; /* as of the forward */
    rt_attn_args a;
    uint32_t dtype;
    float scale2;
    uint32_t parts, heads; /* the query heads of a kv head, cut into parts of `heads` (the last may have fewer) */
    rt_cuda_attn_mat dq, dk, dv, d_o, q, k, v, o, lse, start;
    uint64_t stats; /* (B,H,T) rt_cuda_attn_stat */
    uint64_t sums;  /* (2,parts,B*T,K*D) f32: dk, then dv, of every part; absent when there is one */
} rt_cuda_attn_bwd_params;

/* Decode: R = Q H/K query rows of a kv head, row r being token r % Q of head r / Q of its group. */
enum { RT_CUDA_ATTN_DECODE_ROWS = 16, RT_CUDA_ATTN_DECODE_KEYS = 64 }; /* of a block on tensor cores; of its tile */

typedef struct rt_cuda_attn_decode_params {
    rt_decode_args a;
    uint32_t dtype;
    float scale2;
    uint32_t splits, blocks; /* of the keys that a block of query rows sees; blocks of query rows of a kv head */
    rt_cuda_attn_mat o, q, kc, vc, len, table; /* table: with pages alone */
    uint64_t tops; /* (B*K*R,splits) pairs of f32: the largest score in units of log 2, the sum of weights */
    uint64_t outs; /* (B*K*R,splits,D) f32: weighted values, not divided by the sum */
} rt_cuda_attn_decode_params;

#endif
