/* standin_nccl.h - the part of the stand-in that plays NCCL: communicators among processes (or of one), whose sums are
 * taken in the order of the ranks through shared memory, when the graph that captured them is launched. Included by
 * standin.c alone. */
#ifndef RT_TESTS_CUDA_STANDIN_NCCL_H
#define RT_TESTS_CUDA_STANDIN_NCCL_H

#include "backend/cuda/kernels/cuda_comm.h"
#include "backend/cuda/libs/cuda_nccl.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { NCCL_RANKS = 8, NCCL_PIECE = 1 << 16 /* bytes */, NCCL_SYSTEM_ERROR = 2 };

typedef struct nccl_meeting {
    atomic_uint arrived;
    _Alignas(64) char part[NCCL_RANKS][NCCL_PIECE];
} nccl_meeting;

struct rt_nccl_comm {
    nccl_meeting *all;
    uint32_t rank, size;
    atomic_bool aborted;
};

typedef enum nccl_kind { NCCL_ALL_REDUCE, NCCL_REDUCE, NCCL_BROADCAST, NCCL_ALL_GATHER } nccl_kind;
typedef struct nccl_work {
    nccl_kind kind;
    int root;
    const char *send;
    char *recv;
    size_t bytes;
    rt_nccl_comm comm;
} nccl_work;

#define X(member, symbol, result, params) result symbol params;
RT_NCCL_LIST(X)
#undef X

/* False: somebody gave up. */
static bool nccl_meet(rt_nccl_comm c)
{
    uint32_t turn = atomic_fetch_add(&c->all->arrived, 1) / c->size + 1;
    while (atomic_load(&c->all->arrived) < turn * c->size) {
        if (atomic_load(&c->aborted)) return false;
        nanosleep(&(struct timespec){ .tv_nsec = 20000 }, NULL);
    }
    return true;
}

/* A piece, which every rank has shown. */
static void nccl_take(const nccl_work *w, size_t at, size_t n)
{
    nccl_meeting *all = w->comm->all;
    if (w->kind == NCCL_BROADCAST) memcpy(w->recv + at, all->part[w->root], n);
    for (uint32_t r = 0; r < w->comm->size && w->kind == NCCL_ALL_GATHER; r++)
        memcpy(w->recv + r * w->bytes + at, all->part[r], n);
    if (w->kind > NCCL_REDUCE || (w->kind == NCCL_REDUCE && (uint32_t)w->root != w->comm->rank)) return;
    for (size_t i = 0; i < n / sizeof(float); i++) {
        float sum = ((float *)(void *)all->part[0])[i];
        for (uint32_t r = 1; r < w->comm->size; r++) sum += ((float *)(void *)all->part[r])[i];
        memcpy(w->recv + at + i * sizeof sum, &sum, sizeof sum);
    }
}

static void nccl_do(void *work)
{
    const nccl_work *w = work;
    rt_nccl_comm c = w->comm;
    if (s.nccl_absent) return; /* this rank never comes */
    for (size_t at = 0; at < w->bytes; at += NCCL_PIECE) {
        size_t n = w->bytes - at < NCCL_PIECE ? w->bytes - at : NCCL_PIECE;
        memcpy(c->all->part[c->rank], w->send + at, n);
        if (!nccl_meet(c)) return;
        nccl_take(w, at, n);
        if (!nccl_meet(c)) return;
    }
}

static int nccl_enqueue(const char *name, nccl_work w, void *stream)
{
    CALL(logged, name);
    nccl_work *kept = malloc(sizeof *kept);
    if (!kept) return NCCL_SYSTEM_ERROR;
    *kept = w;
    bool later = captured(
        (standin_step){ 'n', stream, NULL, (uint64_t)(uintptr_t)w.recv, (uint64_t)(uintptr_t)w.send, w.bytes });
    if (later)
        call_later(nccl_do, kept);
    else {
        nccl_do(kept);
        free(kept);
    }
    return 0;
}

int ncclGetVersion(int *version)
{
    *version = s.nccl_version;
    return called("ncclGetVersion");
}
const char *ncclGetErrorString(int result) { return result ? "played result" : "no error"; }
const char *ncclGetLastError(rt_nccl_comm comm)
{
    (void)comm;
    return "";
}
int ncclGetUniqueId(rt_nccl_id *out)
{
    static int count;
    CALL(logged, "ncclGetUniqueId");
    *out = (rt_nccl_id){ { 0 } };
    snprintf(out->bytes, sizeof out->bytes, "/retort-standin-%d-%d", (int)getpid(), count++);
    int fd = shm_open(out->bytes, O_CREAT | O_EXCL | O_RDWR, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(nccl_meeting)) != 0) return NCCL_SYSTEM_ERROR;
    close(fd);
    return 0;
}
int ncclCommInitRank(rt_nccl_comm *out, int ranks, rt_nccl_id id, int rank)
{
    int result = logged("ncclCommInitRank");
    if (result) shm_unlink(id.bytes);
    if (result) return result;
    int fd = shm_open(id.bytes, O_RDWR, 0);
    void *all = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(nccl_meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    rt_nccl_comm c = calloc(1, sizeof *c);
    if (all == MAP_FAILED || !c) return NCCL_SYSTEM_ERROR;
    close(fd);
    *c = (struct rt_nccl_comm){ .all = all, .rank = (uint32_t)rank, .size = (uint32_t)ranks };
    nccl_meet(c);
    if (rank == 0) shm_unlink(id.bytes);
    s.live++;
    *out = c;
    return 0;
}
int ncclCommDestroy(rt_nccl_comm comm)
{
    munmap(comm->all, sizeof *comm->all);
    free(comm);
    s.live--;
    return logged("ncclCommDestroy");
}
/* From any thread; what still waits sees it, so the communicator stays. */
int ncclCommAbort(rt_nccl_comm comm)
{
    atomic_store(&comm->aborted, true);
    s.nccl_aborts++;
    s.live--;
    return called("ncclCommAbort");
}
int ncclCommGetAsyncError(rt_nccl_comm comm, int *result)
{
    (void)comm;
    *result = s.nccl_fault;
    return 0;
}
int ncclGroupStart(void) { return called("ncclGroupStart"); }
int ncclGroupEnd(void) { return called("ncclGroupEnd"); }
int ncclAllReduce(const void *send, void *recv, size_t count, int type, int sum, rt_nccl_comm comm, void *stream)
{
    if (type != RT_NCCL_F32 || sum != RT_NCCL_SUM) return NCCL_SYSTEM_ERROR;
    return nccl_enqueue("ncclAllReduce", (nccl_work){ NCCL_ALL_REDUCE, 0, send, recv, 4 * count, comm }, stream);
}
int ncclReduce(const void *send, void *recv, size_t count, int type, int sum, int root, rt_nccl_comm comm, void *stream)
{
    if (type != RT_NCCL_F32 || sum != RT_NCCL_SUM) return NCCL_SYSTEM_ERROR;
    return nccl_enqueue("ncclReduce", (nccl_work){ NCCL_REDUCE, root, send, recv, 4 * count, comm }, stream);
}
int ncclBroadcast(const void *send, void *recv, size_t count, int type, int root, rt_nccl_comm comm, void *stream)
{
    if (type != RT_NCCL_BYTE) return NCCL_SYSTEM_ERROR;
    return nccl_enqueue("ncclBroadcast", (nccl_work){ NCCL_BROADCAST, root, send, recv, count, comm }, stream);
}
int ncclAllGather(const void *send, void *recv, size_t count, int type, rt_nccl_comm comm, void *stream)
{
    if (type != RT_NCCL_BYTE) return NCCL_SYSTEM_ERROR;
    return nccl_enqueue("ncclAllGather", (nccl_work){ NCCL_ALL_GATHER, 0, send, recv, count, comm }, stream);
}

/* ---- the kernels of cuda_comm.cu, which are played: a watch looks at one, and ranks at the others ---- */

static void play_count_up(void *params)
{
    rt_cuda_count_up_params p;
    memcpy(&p, params, sizeof p);
    atomic_fetch_add((atomic_uint *)(uintptr_t)p.word, 1);
}

static void play_first_fault(void *params)
{
    rt_cuda_first_fault_params p;
    memcpy(&p, params, sizeof p);
    const rt_fault *all = (const rt_fault *)(uintptr_t)p.all;
    rt_fault *out = (rt_fault *)(uintptr_t)p.out;
    for (uint32_t r = p.R; r-- > 0;)
        if (all[r].set) {
            *out = all[r];
            if (out->set == 1) out->set = 1 + r;
        }
}

static void play_take_slice(void *params)
{
    rt_cuda_take_slice_params p;
    memcpy(&p, params, sizeof p);
    float *own = (float *)(uintptr_t)p.own;
    for (uint32_t i = 0; i < p.n; i++) {
        float x = ((const float *)(uintptr_t)p.from)[i];
        own[i] = p.acc ? own[i] + x : x;
    }
}

#endif
