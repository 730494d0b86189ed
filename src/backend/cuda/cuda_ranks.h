/* cuda_ranks.h - the ranks of a device and the collectives that they do, for the files cuda_comm*.c and the program
 * that has them. */
#ifndef RT_BACKEND_CUDA_CUDA_RANKS_H
#define RT_BACKEND_CUDA_CUDA_RANKS_H

#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/libs/cuda_nccl.h"

#include <pthread.h>

enum { RT_CUDA_COMM_PIECE = 4 << 20 }; /* f32 that go through the host at a time */

struct rt_cuda_ranks {
    rt_cuda_dev *d;
    const rt_peers *peers; /* null: alone */
    uint32_t rank, size;
    rt_cuda_nccl nccl;
    _Atomic(rt_nccl_comm) comm; /* null: staged; or given up */
    rt_cu_stream stream;        /* of comm */
    const char *algo;           /* NCCL_ALGO */
    float *send, *recv;         /* pinned, of staging: (RT_CUDA_COMM_PIECE + size) each */
    rt_fault *faults;           /* (size) likewise */
    atomic_uint *word;          /* pinned: odd while a collective is under way (count_up) */
    char text[300];
    /* the watch */
    double seconds;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool watched, stop;
};

struct rt_cuda_collective {
    rt_op_kind kind;
    rt_cu_ptr x;
    uint64_t n;           /* elements of x, without gaps */
    uint32_t size;        /* bytes of one */
    rt_cu_ptr fault, all; /* of all_reduce; 0: none; all (ranks) rt_fault */
    rt_cu_ptr own;        /* of reduce_scatter: where this rank's slice goes; 0: it has none */
    uint64_t most;        /* elements of the largest slice */
    rt_part *part;        /* (ranks) slices of x */
};
/* By NCCL, enqueued together. */
int rt_cuda_collectives_enqueue(rt_cuda_dev *d, const rt_cuda_collective *list, uint32_t count, rt_cu_stream stream,
                                rt_err *e);
/* Through pinned memory of the host; done when it returns. */
int rt_cuda_collectives_stage(rt_cuda_dev *d, const rt_cuda_collective *list, uint32_t count, rt_err *e);

#endif
