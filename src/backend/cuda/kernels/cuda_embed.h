/* cuda_embed.h - parameters of embed, both ways. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_EMBED_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_EMBED_H

#include "backend/cuda/kernels/cuda_args.h"

enum { RT_CUDA_EMBED_PACK = 8, RT_CUDA_EMBED_PACKS = 4 }; /* packs of a lane that are under way */

typedef struct rt_cuda_embed_params {
    rt_cuda_mat y, table, ids; /* (N,C), (V,C), (N,1) */
    uint32_t N, C, V;
    uint32_t whole; /* rows of y and of the table are whole packs, and aligned */
} rt_cuda_embed_params;

/* A block of the backward; packs of its threads, and columns of a pack. */
enum { RT_CUDA_EMBED_LANES = 128, RT_CUDA_EMBED_PAIR = 2, RT_CUDA_EMBED_COLS = 4 };

/* What is known of an id: its first position and how often it occurs. */
typedef struct rt_cuda_embed_seen {
    uint32_t first, count;
} rt_cuda_embed_seen;

typedef struct rt_cuda_embed_bwd_params {
    rt_embed_args a;
    uint32_t chunks; /* blocks side by side */
    uint32_t whole;  /* packs of dtable and dy are aligned */
    uint32_t wide;   /* dtable is f32, else as dy */
    rt_cuda_mat dtable, dy, ids;
    rt_cuda_ptr seen; /* (V) rt_cuda_embed_seen */
} rt_cuda_embed_bwd_params;

#endif
