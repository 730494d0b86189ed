/* cuda_kd.h - parameters of kd_loss, and how a row is laid out in shared memory; for both sides. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_H

#include "backend/cuda/kernels/cuda_args.h"

enum { RT_CUDA_KD_THREADS = 512, RT_CUDA_KD_CLUSTER = 8, RT_CUDA_KD_PACK = 8 };

/* Which loops a divergence takes. */
enum {
    RT_CUDA_KD_STUDENT, /* no teacher logits */
    RT_CUDA_KD_FORWARD, /* forward KL */
    RT_CUDA_KD_REVERSE, /* reverse KL */
    RT_CUDA_KD_PAIR     /* D needs both distributions normalised: one more walk */
};

/* Of one position. */
typedef struct rt_cuda_kd_result {
    double ce, div;
    uint32_t top1, trained;
    uint32_t bad;  /* something read was not finite or out of range */
    uint32_t redo; /* the fast walk cannot say: its numbers left the range of f32 */
} rt_cuda_kd_result;

typedef struct rt_cuda_kd_params {
    rt_kd_args a;
    uint32_t form, kind;         /* kind: divergence, after JSD and skewed forms at mix 0 or 1 became the KL they are */
    uint32_t blocks;             /* of a row: a cluster, or 1 */
    uint32_t packs;              /* of 8 columns that a block has of a row */
    uint32_t keep;               /* these stay in shared memory between the walks */
    uint32_t bits;               /* Vc is not all columns, or ids are listed: there is a bitmap */
    uint32_t s_whole, t_whole;   /* full packs are aligned */
    uint32_t t_dtype;            /* of the teacher's logits */
    rt_cuda_mat logits, teacher; /* (N,V), (N,U) */
    rt_cuda_mat id, logp, rest;  /* top-k: (N,k), (N,k), (N,1) */
    rt_cuda_mat target;          /* (N,1) */
    rt_cuda_mat ce, div, top1;   /* (N,1) or absent */
    rt_cuda_ptr vmask, step;     /* vmask: 0 when absent */
    rt_cuda_ptr sums, fault;
    rt_cuda_ptr result; /* (N) rt_cuda_kd_result */
    rt_cuda_ptr listed; /* (N,k) f32: student logits of the listed ids */
    uint32_t acc;       /* sums += */
} rt_cuda_kd_params;

/* Shared memory of a block: a head of fixed size, the bitmap of its columns, its packs of student and teacher. */
enum { RT_CUDA_KD_HEAD = 4096 };
#define RT_CUDA_KD_BITMAP(packs) (((packs) + 15u) / 16u * 16u) /* bytes */

#endif
