/* pool.c - the thread pool.
 *
 * Owns: the workers, how a job is published, claimed chunk by chunk and waited for. Leaves cutting the work to the
 * caller and counting cores to cpu_count.c.
 *
 * How a job goes. The caller writes the job, then `claim` = (job number, chunks left), then `epoch` = job number, and
 * works too. Anyone who lowers the count in `claim` by one owns a chunk. Whoever finds it at zero subtracts what it ran
 * from `pending`; the caller returns when `pending` is zero. Workers that come late find nothing left and are not
 * waited for, so a worker that gets no core delays nobody.
 *
 * Why a late worker cannot mix two jobs. It reads `claim`, then the job, then exchanges `claim`. The exchange succeeds
 * only if `claim` still has the same job number and the same count above zero; a chunk of that job was then unclaimed
 * all the while, so the caller was still inside it and the job was not being rewritten. (A worker would have to be held
 * up between two instructions for exactly 2^32 jobs to be fooled.)
 *
 * Waiting is a short spin, then a longer one that yields, then a futex. A step is hundreds of jobs of a tenth of a
 * millisecond each, and waking fifteen threads one by one takes as long as such a job; yielding leaves the core to
 * whoever else has work. With more threads than cores a spinning thread only keeps a working one from running, so there
 * is no spin then. */
#include "base/pool.h"

#include "base/mem.h"
#include "base/sys.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    LINE = 128, /* two cache lines: processors fetch them in pairs */
    THREADS_MAX = 4096,
    SPIN_BATCH = 32, /* pauses between two looks at the clock */
};
#define SPIN_SECONDS 20e-6 /* without a system call */
#define YIELD_SECONDS 1e-3 /* with one; longer than the tail of a job */

_Static_assert(sizeof(_Atomic uint32_t) == 4, "a futex is 32 bits wide");

typedef struct worker {
    rt_pool *pool;
    pthread_t thread;
    uint32_t index; /* 1 .. threads-1; the caller is 0 */
} worker;

struct rt_pool {
    uint32_t threads, started; /* started: worker threads that exist */
    bool spin;
    worker *workers;

    /* The job. Atomic because a late worker may read it while the next one is written; it then does not use it. */
    _Alignas(LINE) _Atomic(rt_chunk_fn) fn;
    _Atomic(void *) ctx;
    _Atomic uint32_t chunks;

    _Alignas(LINE) _Atomic uint64_t claim; /* job number << 32 | chunks not yet claimed */
    _Alignas(LINE) _Atomic uint32_t epoch; /* number of the last job; idle workers wait for it to change */
    _Atomic bool stop;
    _Alignas(LINE) _Atomic uint32_t sleepers; /* workers asleep on epoch, or about to be */
    _Alignas(LINE) _Atomic uint32_t pending;  /* chunks not yet known to be done; the caller waits for 0 */
    _Atomic bool caller_asleep;
};

static void futex_wait(_Atomic uint32_t *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(_Atomic uint32_t *word, uint32_t threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield" ::: "memory");
#else
    atomic_signal_fence(memory_order_seq_cst);
#endif
}

/* Spins until *word is (same: is no longer) value. false when the time was up first. */
static bool spin_until(_Atomic uint32_t *word, uint32_t value, bool same)
{
    double begun = 0;
    for (;;) {
        for (int i = 0; i < SPIN_BATCH; i++) {
            if ((atomic_load_explicit(word, memory_order_acquire) == value) == same) return true;
            pause_cpu();
        }
        double now = rt_now();
        if (begun == 0) begun = now;
        if (now >= begun + YIELD_SECONDS) return false;
        if (now >= begun + SPIN_SECONDS) sched_yield();
    }
}

/* Claims and runs chunks until none is left; returns how many it ran. */
static uint32_t run_chunks(rt_pool *p, uint32_t index)
{
    uint32_t ran = 0;
    uint64_t claim = atomic_load_explicit(&p->claim, memory_order_acquire);
    while ((uint32_t)claim != 0) {
        rt_chunk_fn fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
        void *ctx = atomic_load_explicit(&p->ctx, memory_order_relaxed);
        uint32_t chunks = atomic_load_explicit(&p->chunks, memory_order_relaxed);
        if (!atomic_compare_exchange_weak_explicit(&p->claim, &claim, claim - 1, memory_order_acq_rel,
                                                   memory_order_acquire))
            continue;
        fn(ctx, chunks - (uint32_t)claim, index); /* counting up, as memory is laid out */
        ran++;
        claim = atomic_load_explicit(&p->claim, memory_order_acquire);
    }
    return ran;
}

/* Waits until epoch is no longer seen; returns it. */
static uint32_t wait_for_job(rt_pool *p, uint32_t seen)
{
    if (p->spin && spin_until(&p->epoch, seen, false)) return atomic_load_explicit(&p->epoch, memory_order_acquire);
    /* Sequentially consistent, as in publish: either the caller sees this sleeper, or this sees the new epoch. */
    atomic_fetch_add(&p->sleepers, 1);
    uint32_t now;
    while ((now = atomic_load(&p->epoch)) == seen) futex_wait(&p->epoch, seen);
    atomic_fetch_sub(&p->sleepers, 1);
    return now;
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    rt_pool *p = w->pool;
    for (uint32_t seen = 0;;) {
        seen = wait_for_job(p, seen);
        if (atomic_load_explicit(&p->stop, memory_order_relaxed)) return NULL;
        uint32_t ran = run_chunks(p, w->index);
        /* Sequentially consistent, as in wait_until_done: either this sees the sleeping caller, or it sees 0. */
        if (ran > 0 && atomic_fetch_sub(&p->pending, ran) == ran && atomic_load(&p->caller_asleep))
            futex_wake(&p->pending, 1);
    }
}

/* Makes a new epoch known and wakes as many sleepers as are missing to have helpers workers awake. */
static void publish(rt_pool *p, uint32_t helpers)
{
    atomic_fetch_add(&p->epoch, 1);
    uint32_t asleep = atomic_load(&p->sleepers), awake = p->started > asleep ? p->started - asleep : 0;
    if (asleep > 0 && helpers > awake) futex_wake(&p->epoch, helpers - awake);
}

static void wait_until_done(rt_pool *p)
{
    if (p->spin && spin_until(&p->pending, 0, true)) return;
    atomic_store(&p->caller_asleep, true);
    uint32_t left;
    while ((left = atomic_load(&p->pending)) != 0) futex_wait(&p->pending, left);
    atomic_store_explicit(&p->caller_asleep, false, memory_order_relaxed);
}

void rt_pool_run(rt_pool *p, uint32_t chunks, rt_chunk_fn fn, void *ctx)
{
    if (p->threads == 1 || chunks <= 1) {
        for (uint32_t i = 0; i < chunks; i++) fn(ctx, i, 0);
        return;
    }
    uint64_t job = atomic_load_explicit(&p->epoch, memory_order_relaxed) + 1u;
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->ctx, ctx, memory_order_relaxed);
    atomic_store_explicit(&p->chunks, chunks, memory_order_relaxed);
    atomic_store_explicit(&p->pending, chunks, memory_order_relaxed);
    atomic_store_explicit(&p->claim, job << 32 | chunks, memory_order_release);
    publish(p, chunks - 1 < p->started ? chunks - 1 : p->started);
    uint32_t ran = run_chunks(p, 0);
    if (atomic_fetch_sub(&p->pending, ran) != ran) wait_until_done(p);
}

uint32_t rt_pool_threads(const rt_pool *p) { return p->threads; }

void rt_pool_free(rt_pool *p)
{
    if (!p) return;
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->epoch, 1);
    futex_wake(&p->epoch, INT_MAX);
    for (uint32_t i = 0; i < p->started; i++) pthread_join(p->workers[i].thread, NULL);
    rt_free(p->workers);
    rt_free(p);
}

/* Workers take no signals: a handler runs on a thread of the program, never inside a chunk of another. */
static int start_workers(rt_pool *p)
{
    sigset_t all, before;
    int failed = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (failed == 0 && p->started < p->threads - 1) {
        worker *w = &p->workers[p->started];
        w->pool = p;
        w->index = p->started + 1;
        failed = pthread_create(&w->thread, NULL, worker_main, w);
        if (failed == 0) p->started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

int rt_pool_new(rt_pool **out, uint32_t threads, rt_err *e)
{
    *out = NULL;
    if (threads < 1 || threads > THREADS_MAX)
        return rt_fail(e, RT_INVALID, "a pool of %u threads is not possible; ask for 1 to %d", threads, THREADS_MAX);
    rt_pool *p = rt_alloc_zero(sizeof *p, LINE);
    if (!p) return rt_fail(e, RT_NOMEM, "no memory for a pool of %u threads", threads);
    p->threads = threads;
    p->spin = threads <= rt_cpu_count();
    if (threads > 1) {
        p->workers = rt_alloc_zero((threads - 1) * sizeof *p->workers, LINE);
        int failed = p->workers ? start_workers(p) : ENOMEM;
        if (failed != 0) {
            int rc = rt_fail(e, RT_NOMEM, "cannot start thread %u of %u: %s; ask for fewer threads", p->started + 2,
                             threads, strerror(failed));
            rt_pool_free(p);
            return rc;
        }
    }
    *out = p;
    return RT_OK;
}
