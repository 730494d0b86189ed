/* cuda_attn_split.cuh - how the cache is cut among the blocks of attn_decode; device code.
 *
 * Owns: where a block works, what its query rows see, and where it leaves its part of the result. The cut follows from
 * shapes and lengths alone. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_SPLIT_CUH
#define RT_BACKEND_CUDA_KERNELS_CUDA_ATTN_SPLIT_CUH

#include "backend/cuda/kernels/cuda_attn_dev.cuh"

struct split_block {
    uint32_t unit, seq, kv, split; /* unit: seq K + kv */
    int r0, rows;                  /* query rows */
    int len;                       /* rows of cache in use; 0: the operand says what cannot be */
    int j0, j1;                    /* keys of this block; none when j0 >= j1 */
};

/* Rows of the cache in use by a sequence. */
RT_DEVICE int cache_length(const rt_cuda_attn_decode_params &p, uint32_t seq)
{
    const int n = ((const int32_t *)p.len.at)[seq * p.len.stride];
    return n < (int)p.a.Q || n > (int)p.a.S ? 0 : n;
}

/* The first and the last key that token n of the newest Q sees. */
RT_DEVICE int last_seen(const rt_decode_args &a, int len, int n) { return len - (int)a.Q + n; }
RT_DEVICE int first_seen(const rt_decode_args &a, int last)
{
    return a.window && (uint32_t)last >= a.window ? last - (int)a.window + 1 : 0;
}

/* The row of the cache where row j of a sequence lies. Tiles begin at multiples of their keys, so none lies in two
 * pages. */
RT_DEVICE uint64_t cache_row(const rt_cuda_attn_decode_params &p, uint32_t seq, int j)
{
    const uint32_t page = p.a.page;
    if (!page) return (uint64_t)seq * p.a.S + j;
    return (uint64_t)((const int32_t *)p.table.at)[seq * p.table.stride + j / page] * page + j % page;
}

/* Keys are dealt to the splits in whole tiles of `keys`, counted from the sequence's start. */
RT_DEVICE split_block split_place(const rt_cuda_attn_decode_params &p, int rows, int keys)
{
    const int R = (int)(p.a.Q * (p.a.H / p.a.K)), Q = (int)p.a.Q;
    const uint32_t n = blockIdx.x / p.splits;
    split_block b;
    b.split = blockIdx.x % p.splits;
    b.unit = n / p.blocks;
    b.seq = b.unit / p.a.K;
    b.kv = b.unit % p.a.K;
    b.r0 = (int)(n % p.blocks) * rows;
    b.rows = min(rows, R - b.r0);
    b.len = cache_length(p, b.seq);
    b.j0 = b.j1 = 0;
    if (b.len == 0) return b;
    /* rows of a block are consecutive tokens of a head, or reach into the next one */
    const bool wraps = b.r0 / Q != (b.r0 + b.rows - 1) / Q;
    const int first = first_seen(p.a, last_seen(p.a, b.len, wraps ? 0 : b.r0 % Q)) / keys * keys;
    const int last = last_seen(p.a, b.len, wraps ? Q - 1 : (b.r0 + b.rows - 1) % Q);
    const uint64_t tiles = (uint64_t)(last - first + keys) / keys;
    b.j0 = first + (int)(tiles * b.split / p.splits) * keys;
    b.j1 = min(first + (int)(tiles * (b.split + 1) / p.splits) * keys, last + 1);
    return b;
}

/* Element of q or o where query row r of the block's kv head begins. */
RT_DEVICE uint64_t query_at(const rt_cuda_attn_decode_params &p, const rt_cuda_attn_mat &m, uint32_t seq, uint32_t kv,
                            int r)
{
    const uint32_t group = p.a.H / p.a.K;
    return ((uint64_t)seq * p.a.Q + r % p.a.Q) * m.stride + (uint64_t)(kv * group + r / p.a.Q) * p.a.D;
}

/* Where the part of query row r of the block goes. */
RT_DEVICE uint64_t part_at(const rt_cuda_attn_decode_params &p, const split_block &b, int r)
{
    return ((uint64_t)b.unit * (p.a.Q * (p.a.H / p.a.K)) + b.r0 + r) * p.splits + b.split;
}

#endif
