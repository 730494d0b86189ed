/* cuda_kd.h - parameters of kd_loss, and how a row is laid out in shared memory; for both sides. */
#ifndef RT_BACKEND_CUDA_KERNELS_CUDA_KD_H
#define RT_BACKEND_CUDA_KERNELS_CUDA_KD_H

#include "backend/cuda/kernels/cuda_args.h"

enum {
    RT_CUDA_KD_THREADS = 512, /* at most, of a block */
    RT_CUDA_KD_CLUSTER = 8,   /* at most, blocks of a row */
    RT_CUDA_KD_PACK = 8,
    RT_CUDA_KD_LINE = 8,  /* packs: slices begin at multiples, 128 bytes of 16-bit logits */
    RT_CUDA_KD_BATCH = 32 /* positions that a block makes figures of */
};

/* Which loops a loss takes; each has kernels of its own. */
enum {
    RT_CUDA_KD_CE,      /* no teacher */
    RT_CUDA_KD_LIST,    /* a top-k teacher */
    RT_CUDA_KD_FORWARD, /* forward KL */
    RT_CUDA_KD_REVERSE, /* reverse KL */
    RT_CUDA_KD_PAIR     /* D needs both distributions normalised: one more walk */
};

/* How e1, the exponential of the student at T = 1, comes from es, the one at T. */
enum {
    RT_CUDA_KD_APART,  /* not at all: it is computed by itself */
    RT_CUDA_KD_SAME,   /* T is 1, or there is no D */
    RT_CUDA_KD_SQUARE, /* T is 2 */
    RT_CUDA_KD_FOURTH  /* T is 4: the square of the square */
};

/* Of one position, as the fast walk leaves it; logarithms are for others to take. */
typedef struct rt_cuda_kd_result {
    double z1, zs, zt; /* sums of 2^(c x - K) */
    double d;          /* of a KL the sum that logarithms of the others belong to; else D */
    uint64_t rank_s[RT_CUDA_KD_CLUSTER], rank_t[RT_CUDA_KD_CLUSTER]; /* kd_rank of the most likely ids of student and
                                                                        teacher in each block; 0: none */
    float k1, s;                                                     /* K of z1; the target's logit, where it has one */
    uint32_t trained; /* 0: there is no target, and nothing else is set */
    uint32_t some;    /* Vc, less the listed ids, has a column */
    uint32_t bad;     /* a list was not sound */
    uint32_t redo;    /* the fast walk cannot say: its numbers left the range of f32 */
} rt_cuda_kd_result;

/* Of RT_CUDA_KD_BATCH positions: sums of CE, D, top1 and trained; UINT64_MAX - the first bad row, or 0. */
typedef struct rt_cuda_kd_part {
    double sum[4];
    uint64_t bad;
} rt_cuda_kd_part;

typedef struct rt_cuda_kd_params {
    rt_kd_args a;
    uint32_t form, kind; /* kind: divergence, after JSD and skewed forms at mix 0 or 1 became the KL they are */
    uint32_t blocks;     /* of a row: a cluster, or 1 */
    uint32_t packs;      /* of 8 columns that a block has of a row */
    uint32_t depth;      /* of a thread's ring: packs that are in shared memory or on their way to it */
    uint32_t keep;       /* that is all packs of a row: they stay there from walk to walk */
    uint32_t bits_at, ring_s, ring_t; /* where bitmap and rings are in shared memory */
    uint32_t how;                     /* e1 comes from es; powers in swift kernels of 16-bit logits only */
    float ct;                         /* log2(e) / T */
    uint32_t bits;                    /* Vc is not all columns, or ids are listed: there is a bitmap */
    uint32_t s_whole, t_whole;        /* full packs are aligned */
    uint32_t t_dtype;                 /* of the teacher's logits */
    rt_cuda_mat logits, teacher;      /* (N,V), (N,U) */
    rt_cuda_mat id, logp, rest;       /* top-k: (N,k), (N,k), (N,1) */
    rt_cuda_mat target;               /* (N,1) */
    rt_cuda_mat ce, div, top1;        /* (N,1) or absent */
    rt_cuda_ptr vmask, step;          /* vmask: 0 when absent */
    rt_cuda_ptr sums, fault;
    rt_cuda_ptr result; /* (N) rt_cuda_kd_result */
    rt_cuda_ptr part;   /* (N / RT_CUDA_KD_BATCH, rounded up) rt_cuda_kd_part */
    rt_cuda_ptr drawn;  /* (1) uint32_t: rows that were drawn; kd_begin makes it 0 */
    rt_cuda_ptr listed; /* (N,k) f32: student logits of the listed ids */
    uint32_t acc;       /* sums += */
    uint32_t cycles;    /* of a row, for a pack of a block's slice: by which clusters begin apart */
} rt_cuda_kd_params;

/* Shared memory of a block: a head, two records of each warp of the row, the bitmap of its columns, the rings of its
 * threads for packs of student and teacher. Bytes: */
enum { RT_CUDA_KD_HEAD = 1024, RT_CUDA_KD_RECORD = 48 };
#define RT_CUDA_KD_BITMAP(packs) (((packs) + 15u) / 16u * 16u)

#endif
