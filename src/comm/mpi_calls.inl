/* mpi_calls.inl - MPI by one ABI. Whoever includes it has defined HANDLE, the type of a handle; WORLD(t) and BYTE(t);
 * STATUS_IGNORE; KIND; and CALLS, the name of the table.
 *
 * Collectives are begun and then looked at, so that a rank that waits leaves its core to others. */
#include "comm/mpi_table.h"

#include <sched.h>
#include <time.h>

/* dlsym gives objects; a function is as long. */
#define CALL(type, f) (*(type *)(uintptr_t) & (f))
typedef int (*init_fn)(int *, char ***, int, int *);
typedef int (*plain_fn)(void);
typedef int (*abort_fn)(HANDLE, int);
typedef int (*number_fn)(HANDLE, int *);
typedef int (*bcast_fn)(void *, int, HANDLE, int, HANDLE, HANDLE *);
typedef int (*all_fn)(const void *, int, HANDLE, void *, int, HANDLE, HANDLE, HANDLE *);
typedef int (*test_fn)(HANDLE *, int *, void *);

static int init(const rt_mpi_table *t, uint32_t *rank, uint32_t *size)
{
    int given, r = 0, n = 0, rc = CALL(init_fn, t->Init_thread)(NULL, NULL, 1, &given); /* MPI_THREAD_FUNNELED */
    if (rc == 0) rc = CALL(number_fn, t->Comm_rank)(WORLD(t), &r);
    if (rc == 0) rc = CALL(number_fn, t->Comm_size)(WORLD(t), &n);
    *rank = (uint32_t)r;
    *size = (uint32_t)n;
    return rc;
}

static int finish(const rt_mpi_table *t) { return CALL(plain_fn, t->Finalize)(); }

static void end_all(const rt_mpi_table *t, int code) { CALL(abort_fn, t->Abort)(WORLD(t), code); }

/* Between two looks at whether something is done: at first again and again, then giving the core away, then asleep,
 * since another rank may be evaluating for minutes. */
static void pause_after(uint32_t looks)
{
    enum { AT_ONCE = 200, YIELDS = 2000 };
    if (looks < AT_ONCE) return;
    if (looks < YIELDS)
        sched_yield();
    else
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
}

static int wait_for(const rt_mpi_table *t, HANDLE *request)
{
    int done = 0, rc = 0;
    for (uint32_t looked = 0; rc == 0 && !done; looked++) {
        rc = CALL(test_fn, t->Test)(request, &done, STATUS_IGNORE);
        if (!done) pause_after(looked);
    }
    return rc;
}

static int give(const rt_mpi_table *t, uint32_t rank, void *data, int bytes)
{
    HANDLE request;
    int rc = CALL(bcast_fn, t->Ibcast)(data, bytes, BYTE(t), (int)rank, WORLD(t), &request);
    return rc ? rc : wait_for(t, &request);
}

static int exchange(const rt_mpi_table *t, const void *send, void *recv, int bytes)
{
    HANDLE request;
    int rc = CALL(all_fn, t->Ialltoall)(send, bytes, BYTE(t), recv, bytes, BYTE(t), WORLD(t), &request);
    return rc ? rc : wait_for(t, &request);
}

static int gather(const rt_mpi_table *t, const void *part, void *all, int bytes)
{
    HANDLE request;
    int rc = CALL(all_fn, t->Iallgather)(part, bytes, BYTE(t), all, bytes, BYTE(t), WORLD(t), &request);
    return rc ? rc : wait_for(t, &request);
}

const rt_mpi_calls CALLS = { KIND, init, finish, end_all, give, exchange, gather };
