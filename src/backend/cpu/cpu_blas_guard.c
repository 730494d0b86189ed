/* cpu_blas_guard.c - makes it safe to call OpenBLAS from several threads at once.
 *
 * Owns: the work buffers of OpenBLAS's GEMM. Leaves to others: the calls themselves.
 *
 * The serial flavour of OpenBLAS as Debian and Ubuntu build it (SINGLE_THREADED, no USE_LOCKING) takes its work buffer
 * from a shared table by an unguarded test and set. Two threads that ask at the same moment get the same buffer, and
 * both GEMMs are wrong: up to one call in twenty with 2 threads and GEMMs of 96 x 96 x 96. With more than 128
 * calls at once the table overflows, and giving back an overflow entry crashes.
 *
 * With the archive, the linker (--wrap, see the Makefile) sends its calls of blas_memory_alloc and blas_memory_free
 * here. A thread keeps the buffer it was first given; when the thread ends, the next new thread inherits it. OpenBLAS
 * is asked only when no buffer is left over, one thread at a time, and is never given one back: its table then grows
 * to the largest number of threads alive together, and no further. It also means no lock and no foreign cache lines in
 * the steady state.
 * With a shared library its inside is out of reach, so one call at a time is let in: right, and slow. */
#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#if RT_BLAS_ARCHIVE

/* OpenBLAS has 128 places in its table and 512 more in the overflow table. */
#define MAX_BUFFERS 640

void *__real_blas_memory_alloc(int position);
void *__wrap_blas_memory_alloc(int position);
void __wrap_blas_memory_free(void *buffer);

static void *left_over[MAX_BUFFERS]; /* buffers of threads that have ended; under lock */
static int left_over_count;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int have_key; /* written once, inside key_once */

static void give_back(void *buffer)
{
    pthread_mutex_lock(&lock);
    if (left_over_count < MAX_BUFFERS) left_over[left_over_count++] = buffer;
    pthread_mutex_unlock(&lock);
}

static void *take(int position)
{
    pthread_mutex_lock(&lock);
    void *buffer = left_over_count > 0 ? left_over[--left_over_count] : __real_blas_memory_alloc(position);
    pthread_mutex_unlock(&lock);
    return buffer;
}

static void make_key(void) { have_key = pthread_key_create(&key, give_back) == 0; }

static __thread void *mine;
static __thread int mine_in_use;

void *__wrap_blas_memory_alloc(int position)
{
    if (mine_in_use) return take(position); /* a routine that wants a second buffer; sgemm does not */
    if (!mine) {
        pthread_once(&key_once, make_key);
        mine = take(position);
        /* Without a key the buffer is not inherited: the table grows, the numbers stay right. */
        if (have_key && mine) pthread_setspecific(key, mine);
    }
    mine_in_use = 1;
    return mine;
}

void __wrap_blas_memory_free(void *buffer)
{
    if (buffer == mine)
        mine_in_use = 0;
    else
        give_back(buffer);
}

#else

#include <cblas.h>

void __real_cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, blasint m, blasint n,
                        blasint k, float alpha, const float *a, blasint lda, const float *b, blasint ldb, float beta,
                        float *c, blasint ldc);
void __wrap_cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, blasint m, blasint n,
                        blasint k, float alpha, const float *a, blasint lda, const float *b, blasint ldb, float beta,
                        float *c, blasint ldc);

void __wrap_cblas_sgemm(enum CBLAS_ORDER order, enum CBLAS_TRANSPOSE ta, enum CBLAS_TRANSPOSE tb, blasint m, blasint n,
                        blasint k, float alpha, const float *a, blasint lda, const float *b, blasint ldb, float beta,
                        float *c, blasint ldc)
{
    pthread_mutex_lock(&lock);
    __real_cblas_sgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    pthread_mutex_unlock(&lock);
}

#endif
