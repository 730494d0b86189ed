/* cuda_nccl.h - NCCL, NVIDIA's library of collectives, opened at run time.
 *
 * Owns: which of those that are found (cuda_search.h) can be used, its one list of functions, the few numbers of its
 * interface that are used here (declared by ourselves; tests/structure compares them with nccl.h where there is one),
 * and its results as sentences. Leaves who calls what, and when, to cuda_comm.c. */
#ifndef RT_BACKEND_CUDA_LIBS_CUDA_NCCL_H
#define RT_BACKEND_CUDA_LIBS_CUDA_NCCL_H

#include "base/dynlib.h"

#include <stdint.h>

typedef struct rt_nccl_comm *rt_nccl_comm; /* ncclComm_t */
typedef struct rt_nccl_id {                /* ncclUniqueId */
    char bytes[128];
} rt_nccl_id;

/* Numbers of nccl.h */
enum {
    RT_NCCL_SUCCESS = 0,
    RT_NCCL_IN_PROGRESS = 7,
    RT_NCCL_BYTE = 1, /* ncclUint8 */
    RT_NCCL_F32 = 7,
    RT_NCCL_SUM = 0
};

/* member, symbol, result, parameters; count: elements of a rank's own part, but of all_reduce, which has no parts */
#define RT_NCCL_LIST(X)                                                                                                \
    X(get_version, ncclGetVersion, int, (int *version))                                                                \
    X(result_text, ncclGetErrorString, const char *, (int result))                                                     \
    X(id_new, ncclGetUniqueId, int, (rt_nccl_id * out))                                                                \
    X(join, ncclCommInitRank, int, (rt_nccl_comm * out, int ranks, rt_nccl_id id, int rank))                           \
    X(leave, ncclCommDestroy, int, (rt_nccl_comm comm))                                                                \
    X(abort, ncclCommAbort, int, (rt_nccl_comm comm))                                                                  \
    X(fault, ncclCommGetAsyncError, int, (rt_nccl_comm comm, int *result))                                             \
    X(last_text, ncclGetLastError, const char *, (rt_nccl_comm comm))                                                  \
    X(group_begin, ncclGroupStart, int, (void))                                                                        \
    X(group_end, ncclGroupEnd, int, (void))                                                                            \
    X(all_reduce, ncclAllReduce, int,                                                                                  \
      (const void *send, void *recv, size_t count, int type, int sum, rt_nccl_comm comm, void *stream))                \
    X(all_gather, ncclAllGather, int,                                                                                  \
      (const void *send, void *recv, size_t count, int type, rt_nccl_comm comm, void *stream))                         \
    X(reduce, ncclReduce, int,                                                                                         \
      (const void *send, void *recv, size_t count, int type, int sum, int root, rt_nccl_comm comm, void *stream))      \
    X(broadcast, ncclBroadcast, int,                                                                                   \
      (const void *send, void *recv, size_t count, int type, int root, rt_nccl_comm comm, void *stream))

typedef struct rt_cuda_nccl {
    rt_dynlib lib;    /* handle null: there is none */
    uint32_t version; /* 22703: 2.27.3 */
#define X(member, symbol, result, params) result(*member) params;
    RT_NCCL_LIST(X)
#undef X
} rt_cuda_nccl;

/* Looks for the library: `file` unless null, else where env says that others are. RT_NOT_FOUND says where was looked or
 * what was wrong with those that were found. */
int rt_cuda_nccl_open(rt_cuda_nccl *n, const char *file, const char *const *env, rt_err *e);
void rt_cuda_nccl_close(rt_cuda_nccl *n);
/* RT_OK, or a result of the library as RT_DEVICE with its own last word: "joining 8 ranks: unhandled system error". */
int rt_cuda_nccl_status(const rt_cuda_nccl *n, int result, const char *what, rt_err *e);

#endif
