/* test_blas_guard.c - OpenBLAS called from several threads at once gives the numbers it gives to one thread.
 *
 * Without cpu_blas_guard.c two threads share one work buffer now and then (measured: 2 to 254 wrong products among
 * 8000), and this test is red. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <cblas.h>

enum { N = 96, SIZES = 5, MAX_THREADS = 16 };
#ifdef __x86_64__
enum { CALLS = 10000 };
#else
enum { CALLS = 100 }; /* may run in an emulator */
#endif

static float a[N * N], b[N * N]; /* (N,N) */
static float expected[SIZES][N * N];

static int size_of(int i) { return N - 7 * (i % SIZES); }

/* c = a * b^T, the first n rows and columns; the rest of c stays as it is */
static void product(float *c, int n)
{
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasTrans, n, n, N, 1.0f, a, N, b, N, 0.0f, c, N);
}

static int make_inputs(void **state)
{
    (void)state;
    uint32_t x = 1;
    for (int i = 0; i < N * N; i++) {
        x = x * 1664525u + 1013904223u;
        a[i] = (float)(x >> 8) / 16777216.0f - 0.5f;
        x = x * 1664525u + 1013904223u;
        b[i] = (float)(x >> 8) / 16777216.0f - 0.5f;
    }
    memset(expected, 0, sizeof expected);
    for (int i = 0; i < SIZES; i++) product(expected[i], size_of(i));
    return 0;
}

typedef struct job {
    int first, calls;
    int wrong; /* products that differ from expected in any bit */
} job;

static void *work(void *arg)
{
    job *j = arg;
    float c[N * N];
    for (int i = 0; i < j->calls; i++) {
        memset(c, 0, sizeof c);
        product(c, size_of(j->first + i));
        j->wrong += memcmp(c, expected[(j->first + i) % SIZES], sizeof c) != 0;
    }
    return NULL;
}

static int run_threads(int threads, int calls)
{
    pthread_t ids[MAX_THREADS];
    job jobs[MAX_THREADS];
    int wrong = 0;
    for (int i = 0; i < threads; i++) {
        jobs[i] = (job){.first = i, .calls = calls};
        assert_int_equal(pthread_create(&ids[i], NULL, work, &jobs[i]), 0);
    }
    for (int i = 0; i < threads; i++) {
        assert_int_equal(pthread_join(ids[i], NULL), 0);
        wrong += jobs[i].wrong;
    }
    return wrong;
}

static void threads_do_not_disturb_each_other(void **state)
{
    (void)state;
    assert_int_equal(run_threads(2, CALLS), 0);
    assert_int_equal(run_threads(MAX_THREADS, CALLS / 16), 0);
}

/* OpenBLAS has 640 buffers; 800 threads that come and go must not use them up. */
static void ended_threads_leave_their_buffers(void **state)
{
    (void)state;
    for (int round = 0; round < 100; round++) assert_int_equal(run_threads(8, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_do_not_disturb_each_other),
        cmocka_unit_test(ended_threads_leave_their_buffers),
    };
    return cmocka_run_group_tests(tests, make_inputs, NULL);
}
