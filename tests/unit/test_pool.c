/* test_pool.c - the thread pool, and how many cores and how much memory the control groups leave. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/pool.h"
#include "base/procfs.h"
#include "base/sys.h"

enum { MAX_CHUNKS = 1000, MAX_THREADS = 7 };

/* Plain, not atomic, on purpose: the thread sanitizer sees a chunk that is not ordered with the caller. */
typedef struct job {
    uint32_t input; /* written before the job */
    uint32_t threads;
    uint32_t hits[MAX_CHUNKS], output[MAX_CHUNKS];
    uint32_t by_worker[MAX_THREADS * 32]; /* 128 bytes apart; only worker w touches w*32 */
    uint32_t wrong_worker;
} job;

static void job_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    job *j = ctx;
    j->hits[chunk]++;
    j->output[chunk] = j->input + chunk;
    if (worker >= j->threads)
        j->wrong_worker = worker;
    else
        j->by_worker[worker * 32]++;
}

static rt_pool *new_pool(uint32_t threads)
{
    rt_pool *p = NULL;
    rt_err e = {0};
    if (rt_pool_new(&p, threads, &e) != RT_OK) fail_msg("%s", e.text);
    assert_int_equal(rt_pool_threads(p), threads);
    return p;
}

static void run_job(rt_pool *p, job *j, uint32_t chunks, uint32_t input)
{
    memset(j, 0, sizeof *j);
    j->input = input;
    j->threads = rt_pool_threads(p);
    rt_pool_run(p, chunks, job_chunk, j);
    uint32_t sum = 0;
    for (uint32_t i = 0; i < MAX_CHUNKS; i++) {
        assert_int_equal(j->hits[i], i < chunks);
        assert_int_equal(j->output[i], i < chunks ? input + i : 0);
    }
    for (uint32_t w = 0; w < MAX_THREADS; w++) sum += j->by_worker[w * 32];
    assert_int_equal(sum, chunks);
    assert_int_equal(j->wrong_worker, 0);
}

static const uint32_t thread_counts[] = {1, 2, 7}, chunk_counts[] = {0, 1, 2, 3, 1000};
enum { THREAD_COUNTS = 3, CHUNK_COUNTS = 5 };

static void test_every_chunk_once(void **state)
{
    (void)state;
    static job j;
    uint64_t live = rt_alloc_live();
    for (int t = 0; t < THREAD_COUNTS; t++) {
        rt_pool *p = new_pool(thread_counts[t]);
        for (int c = 0; c < CHUNK_COUNTS; c++)
            for (uint32_t again = 0; again < 3; again++) run_job(p, &j, chunk_counts[c], 1000 * again + 1);
        rt_pool_free(p);
    }
    assert_int_equal(rt_alloc_live(), live);
}

static void test_many_jobs(void **state)
{
    (void)state;
    enum { JOBS = 3000 };
    static job j;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        rt_pool *p = new_pool(thread_counts[t]);
        uint64_t count = rt_alloc_count();
        for (uint32_t i = 0; i < JOBS; i++) run_job(p, &j, i % 9, i);
        for (uint32_t i = 0; i < 20; i++) {
            usleep(200); /* long enough for the workers to have gone to sleep */
            run_job(p, &j, 4, i);
        }
        assert_int_equal(rt_alloc_count(), count);
        rt_pool_free(p);
    }
}

/* Jobs that follow one another and have different functions and counts: a late worker must not mix them. */
typedef struct mixed {
    uint32_t kind, chunks, hits[8], wrong;
} mixed;

static void mixed_chunk(mixed *m, uint32_t chunk, uint32_t kind)
{
    if (m->kind != kind || chunk >= m->chunks)
        m->wrong++;
    else
        m->hits[chunk]++;
}

static void chunk_zero(void *ctx, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    mixed_chunk(ctx, chunk, 0);
}

static void chunk_one(void *ctx, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    mixed_chunk(ctx, chunk, 1);
}

static void test_jobs_do_not_mix(void **state)
{
    (void)state;
    for (int t = 1; t < THREAD_COUNTS; t++) {
        rt_pool *p = new_pool(thread_counts[t]);
        mixed m[2];
        for (uint32_t i = 0; i < 20000; i++) {
            mixed *now = &m[i & 1];
            *now = (mixed){.kind = i & 1, .chunks = 2 + i % 7};
            rt_pool_run(p, now->chunks, i & 1 ? chunk_one : chunk_zero, now);
            if (now->wrong) fail_msg("job %u ran a chunk of another", i);
            for (uint32_t c = 0; c < 8; c++) assert_int_equal(now->hits[c], c < now->chunks);
        }
        rt_pool_free(p);
    }
}

/* What one job wrote is what the next reads, on whatever thread. */
static void sum_left(void *ctx, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    uint32_t(*rows)[64] = ctx;
    uint32_t sum = 1;
    for (uint32_t i = 0; i < 64; i++) sum += rows[0][i];
    rows[1][chunk] = sum + chunk;
}

static void test_visibility(void **state)
{
    (void)state;
    rt_pool *p = new_pool(2);
    uint32_t rows[2][64] = {{0}};
    for (int step = 0; step < 500; step++) {
        uint32_t sum = 1;
        for (uint32_t i = 0; i < 64; i++) sum += rows[0][i];
        rt_pool_run(p, 64, sum_left, rows);
        for (uint32_t i = 0; i < 64; i++) assert_int_equal(rows[1][i], sum + i);
        memcpy(rows[0], rows[1], sizeof rows[0]);
    }
    rt_pool_free(p);
}

/* Chunks that wait for one another prove that there are really so many threads. */
typedef struct meeting {
    _Atomic uint32_t here;
    uint32_t wanted;
    _Atomic uint32_t late;
} meeting;

static void meet(void *ctx, uint32_t chunk, uint32_t worker)
{
    (void)chunk;
    (void)worker;
    meeting *m = ctx;
    atomic_fetch_add(&m->here, 1);
    double end = rt_now() + 20;
    while (atomic_load(&m->here) < m->wanted) {
        if (rt_now() > end) {
            atomic_fetch_add(&m->late, 1);
            return;
        }
        sched_yield();
    }
}

static void test_runs_at_the_same_time(void **state)
{
    (void)state;
    for (int t = 0; t < THREAD_COUNTS; t++) {
        rt_pool *p = new_pool(thread_counts[t]);
        for (int again = 0; again < 3; again++) {
            meeting m = {.wanted = thread_counts[t]};
            rt_pool_run(p, thread_counts[t], meet, &m);
            assert_int_equal(m.here, thread_counts[t]);
            assert_int_equal(m.late, 0);
            usleep(again * 300);
        }
        rt_pool_free(p);
    }
}

static void sleep_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    (void)worker;
    uint32_t *done = ctx;
    usleep(chunk == 0 ? 3000 : 1000);
    done[chunk] = 1;
}

/* Long enough that the caller gives up spinning and sleeps until the last chunk is done. */
static void test_caller_sleeps(void **state)
{
    (void)state;
    for (int t = 1; t < THREAD_COUNTS; t++) {
        rt_pool *p = new_pool(thread_counts[t]);
        for (int again = 0; again < 10; again++) {
            uint32_t done[5] = {0};
            rt_pool_run(p, 5, sleep_chunk, done);
            for (int i = 0; i < 5; i++) assert_int_equal(done[i], 1);
        }
        rt_pool_free(p);
    }
}

typedef struct place {
    pthread_t thread;
    uint32_t chunk, worker;
} place;

static void note_place(void *ctx, uint32_t chunk, uint32_t worker)
{
    *(place *)ctx = (place){pthread_self(), chunk, worker};
}

static void test_one_chunk_is_inline(void **state)
{
    (void)state;
    rt_pool *p = new_pool(2);
    for (int i = 0; i < 20000; i++) {
        place at = {.chunk = 9, .worker = 9};
        rt_pool_run(p, 1, note_place, &at);
        assert_true(pthread_equal(at.thread, pthread_self()));
        assert_int_equal(at.chunk, 0);
        assert_int_equal(at.worker, 0);
    }
    rt_pool_free(p);
}

static void test_new_refuses(void **state)
{
    (void)state;
    rt_pool *p = (rt_pool *)state; /* anything but null */
    rt_err e = {0};
    assert_int_equal(rt_pool_new(&p, 0, &e), RT_INVALID);
    assert_null(p);
    assert_non_null(strstr(e.text, "0 threads"));
    assert_int_equal(rt_pool_new(&p, UINT32_MAX, NULL), RT_INVALID);
    assert_null(p);
    rt_pool_free(NULL);
}

static void *countdown_alloc(void *ctx, size_t bytes, size_t align)
{
    int *left = ctx;
    void *p = NULL;
    if ((*left)-- == 0) return NULL;
    return posix_memalign(&p, align, bytes) == 0 ? p : NULL;
}

static void countdown_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static void test_new_without_memory(void **state)
{
    (void)state;
    uint64_t live = rt_alloc_live();
    for (int t = 0; t < THREAD_COUNTS; t++) {
        int failures = 0, rc = RT_NOMEM;
        while (rc != RT_OK) {
            int left = failures;
            rt_allocator_set(&(rt_allocator){countdown_alloc, countdown_free, &left});
            rt_pool *p = NULL;
            rt_err e = {0};
            rc = rt_pool_new(&p, thread_counts[t], &e);
            if (rc != RT_OK) {
                assert_int_equal(rc, RT_NOMEM);
                assert_null(p);
                assert_true(e.text[0] != '\0');
                failures++;
            }
            rt_pool_free(p);
            rt_allocator_set(NULL);
            assert_int_equal(rt_alloc_live(), live);
            assert_in_range(failures, 0, 20);
        }
        assert_in_range(failures, 1, 20); /* every allocation failed once before it worked */
    }
}

/* In a process of its own: a limit on threads that the third worker meets. Exit codes: 0 as it should be, 77 cannot be
 * tried here, else the check that failed. */
static int start_fails_half_way(void)
{
    uint64_t live = rt_alloc_live();
    if (geteuid() == 0 && setuid(64999) != 0) return 77; /* root is not limited; nobody else uses this number */
    struct rlimit old, few;
    if (getrlimit(RLIMIT_NPROC, &old) != 0) return 77;
    few = old;
    few.rlim_cur = 3; /* this thread and two more */
    if (setrlimit(RLIMIT_NPROC, &few) != 0) return 77;
    rt_pool *p = NULL;
    rt_err e = {0};
    int rc = rt_pool_new(&p, 7, &e);
    if (rc == RT_OK) return 77; /* a kernel that does not apply the limit */
    if (rc != RT_NOMEM || p) return 2;
    if (rt_alloc_live() != live) return 3;
    if (!strstr(e.text, "cannot start thread")) return 4;
    setrlimit(RLIMIT_NPROC, &old);
    if (rt_pool_new(&p, 3, NULL) != RT_OK) return 5;
    rt_pool_free(p);
    return rt_alloc_live() == live ? 0 : 6;
}

static void test_new_without_threads(void **state)
{
    (void)state;
    fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(20);
        _exit(start_fails_half_way());
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("no limit on threads can be set here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- cores and control groups ---- */

static void test_cgroup_texts(void **state)
{
    (void)state;
    assert_int_equal(rt_cgroup_v2_cpus("max 100000\n"), 0);
    assert_int_equal(rt_cgroup_v2_cpus("max"), 0);
    assert_int_equal(rt_cgroup_v2_cpus("200000 100000\n"), 2);
    assert_int_equal(rt_cgroup_v2_cpus("200000 100000"), 2);
    assert_int_equal(rt_cgroup_v2_cpus("200001 100000\n"), 3);
    assert_int_equal(rt_cgroup_v2_cpus("1000 100000\n"), 1);
    assert_int_equal(rt_cgroup_v2_cpus("150000 50000\n"), 3);
    static const char *const garbage[] = {"",
                                          "\n",
                                          " ",
                                          "x",
                                          "-1 100000",
                                          "100000",
                                          "100000 ",
                                          "100000 0",
                                          "0 100000",
                                          "100000 x",
                                          "100000 100000 100000",
                                          "100000x100000",
                                          "1e5 100000",
                                          "99999999999999999999 100000",
                                          "100000 99999999999999999999",
                                          "100000 -5",
                                          "maximum 7"};
    for (size_t i = 0; i < sizeof garbage / sizeof garbage[0]; i++) assert_int_equal(rt_cgroup_v2_cpus(garbage[i]), 0);
    assert_int_equal(rt_cgroup_v2_cpus(NULL), 0);
    assert_int_equal(rt_cgroup_v2_cpus("18446744073709551615 1"), UINT32_MAX);

    assert_int_equal(rt_cgroup_v1_cpus("-1\n", "100000\n"), 0);
    assert_int_equal(rt_cgroup_v1_cpus("400000\n", "100000\n"), 4);
    assert_int_equal(rt_cgroup_v1_cpus("50000", "100000"), 1);
    assert_int_equal(rt_cgroup_v1_cpus("110000", "100000"), 2);
    assert_int_equal(rt_cgroup_v1_cpus("400000", "0"), 0);
    assert_int_equal(rt_cgroup_v1_cpus("400000", "-1"), 0);
    assert_int_equal(rt_cgroup_v1_cpus("400000", ""), 0);
    assert_int_equal(rt_cgroup_v1_cpus("", "100000"), 0);
    assert_int_equal(rt_cgroup_v1_cpus("400000 7", "100000"), 0);
    assert_int_equal(rt_cgroup_v1_cpus("four", "100000"), 0);
    assert_int_equal(rt_cgroup_v1_cpus(NULL, "100000"), 0);
    assert_int_equal(rt_cgroup_v1_cpus("400000", NULL), 0);
    assert_int_equal(rt_cgroup_v1_cpus("18446744073709551615", "1"), UINT32_MAX);
}

/* A directory of our own that stands for /proc/self and the mounted trees. */
typedef struct fake {
    char dir[64];
} fake;

static void remove_tree(const char *path)
{
    DIR *d = opendir(path);
    if (d) {
        struct dirent *entry;
        while ((entry = readdir(d))) {
            if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0) continue;
            char inner[1024];
            snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
            remove_tree(inner);
        }
        closedir(d);
    }
    remove(path);
}

/* Makes dir/path with the text, and the directories above it; "%" in the text stands for dir. */
static void fake_file(fake *f, const char *path, const char *text)
{
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", f->dir, path);
    for (char *slash = whole + strlen(f->dir) + 1; (slash = strchr(slash, '/')); slash++) {
        *slash = '\0';
        mkdir(whole, 0700);
        *slash = '/';
    }
    FILE *out = fopen(whole, "w");
    assert_non_null(out);
    for (; *text; text++) {
        if (*text == '%')
            fputs(f->dir, out);
        else
            fputc(*text, out);
    }
    fclose(out);
}

static int fake_new(void **state)
{
    static fake f;
    strcpy(f.dir, "/tmp/retort-test-pool-XXXXXX");
    *state = &f;
    return mkdtemp(f.dir) ? 0 : -1;
}

static int fake_free(void **state)
{
    remove_tree(((fake *)*state)->dir);
    return 0;
}

static void test_cgroup_v2_tree(void **state)
{
    fake *f = *state;
    assert_int_equal(rt_cgroup_cpus(f->dir), 0); /* no files at all */
    fake_file(f, "cgroup", "0::/a/b/c\n");
    fake_file(f, "mountinfo",
              "20 1 0:1 / / rw - ext4 /dev/x rw\n"
              "31 20 0:28 / %/tree rw,nosuid shared:9 - cgroup2 cgroup2 rw,nsdelegate\n");
    assert_int_equal(rt_cgroup_cpus(f->dir), 0); /* no quota file */
    fake_file(f, "tree/a/b/c/cpu.max", "800000 100000\n");
    assert_int_equal(rt_cgroup_cpus(f->dir), 8);
    fake_file(f, "tree/a/b/cpu.max", "max 100000\n");
    fake_file(f, "tree/a/cpu.max", "250000 100000\n"); /* a parent cuts more */
    assert_int_equal(rt_cgroup_cpus(f->dir), 3);
    fake_file(f, "tree/cpu.max", "200000 100000\n"); /* in a container the root itself has a quota */
    assert_int_equal(rt_cgroup_cpus(f->dir), 2);
    fake_file(f, "tree/other/cpu.max", "100000 100000\n"); /* not ours */
    assert_int_equal(rt_cgroup_cpus(f->dir), 2);
    fake_file(f, "cgroup", "0::/\n");
    assert_int_equal(rt_cgroup_cpus(f->dir), 2);
    fake_file(f, "cgroup", "0::/../x\n"); /* outside our namespace: what is mounted is all we know */
    assert_int_equal(rt_cgroup_cpus(f->dir), 2);
    fake_file(f, "cgroup", "");
    assert_int_equal(rt_cgroup_cpus(f->dir), 0);
}

static void test_cgroup_v1_tree(void **state)
{
    fake *f = *state;
    fake_file(f, "cgroup", "5:cpuset:/z\n4:cpuacct,cpu:/docker/id/sub\n2:memory:/docker/id\n0::/u\n");
    fake_file(f, "mountinfo",
              "32 31 0:29 /docker/id %/v1\\040cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
              "33 31 0:30 /docker/id %/v1mem rw master:3 - cgroup cgroup rw,memory\n"
              "34 31 0:31 / %/unified rw - cgroup2 none rw");
    fake_file(f, "v1 cpu/cpu.cfs_quota_us", "600000\n");
    fake_file(f, "v1 cpu/cpu.cfs_period_us", "100000\n");
    assert_int_equal(rt_cgroup_cpus(f->dir), 6);
    fake_file(f, "v1 cpu/sub/cpu.cfs_quota_us", "-1\n");
    fake_file(f, "v1 cpu/sub/cpu.cfs_period_us", "100000\n");
    assert_int_equal(rt_cgroup_cpus(f->dir), 6);
    fake_file(f, "v1 cpu/sub/cpu.cfs_quota_us", "450000\n");
    assert_int_equal(rt_cgroup_cpus(f->dir), 5);
    fake_file(f, "unified/u/cpu.max", "300000 100000\n"); /* both trees at once */
    assert_int_equal(rt_cgroup_cpus(f->dir), 3);
    fake_file(f, "cgroup", "4:cpuacct,cpu:/docker/id2\n"); /* a name that only begins alike */
    assert_int_equal(rt_cgroup_cpus(f->dir), 6);           /* so the mount alone counts */
}

static void test_cgroup_garbage(void **state)
{
    fake *f = *state;
    static const char *const lines[] = {"", "\n\n", ":", "::", "0:", "0::", "0::x", "abc", "0::/a"};
    static const char *const mounts[] = {"",
                                         " - ",
                                         "1 2 3",
                                         "- cgroup2",
                                         "1 2 3 4 5 - cgroup2",
                                         "1 2 3 / - cgroup2 a b",
                                         "1 2 3 / %/nowhere - cgroup2 a rw\n",
                                         "\\040\\999 - - - -\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        for (size_t j = 0; j < sizeof mounts / sizeof mounts[0]; j++) {
            fake_file(f, "cgroup", lines[i]);
            fake_file(f, "mountinfo", mounts[j]);
            assert_int_equal(rt_cgroup_cpus(f->dir), 0);
        }
    }
    /* A line too long for the buffer is left out, its end too, and the one after it still counts. */
    enum { BUFFER = 8192 };
    char *text = malloc(BUFFER + 256);
    assert_non_null(text);
    memset(text, 'x', BUFFER);
    strcpy(text + BUFFER, "30 20 0:28 / %/bad rw - cgroup2 cgroup2 rw\n31 20 0:28 / %/tree rw - cgroup2 cgroup2 rw\n");
    fake_file(f, "cgroup", "0::/a\n");
    fake_file(f, "mountinfo", text);
    free(text);
    fake_file(f, "bad/a/cpu.max", "100000 100000\n");
    fake_file(f, "tree/a/cpu.max", "400000 100000\n");
    assert_int_equal(rt_cgroup_cpus(f->dir), 4);
}

static void test_cgroup_memory(void **state)
{
    fake *f = *state;
    rt_cgroup_memory m = rt_cgroup_memory_query(f->dir);
    assert_true(m.limit == 0 && m.room == UINT64_MAX);
    fake_file(f, "cgroup", "2:memory:/g/h\n0::/u/v\n");
    fake_file(f, "mountinfo",
              "33 31 0:30 / %/v1 rw - cgroup cgroup rw,memory\n34 31 0:31 / %/v2 rw - cgroup2 none rw\n");
    fake_file(f, "v1/memory.limit_in_bytes", "9223372036854771712\n");
    fake_file(f, "v2/u/memory.max", "max\n");
    m = rt_cgroup_memory_query(f->dir);
    assert_true(m.limit == 0 && m.room == UINT64_MAX);
    fake_file(f, "v1/g/memory.limit_in_bytes", "10000\n");
    fake_file(f, "v1/g/memory.usage_in_bytes", "9000\n");
    fake_file(f, "v1/g/memory.stat", "inactive_file 1\ntotal_inactive_file 500\n");
    m = rt_cgroup_memory_query(f->dir);
    assert_int_equal(m.limit, 10000);
    assert_int_equal(m.room, 1500);
    fake_file(f, "v2/u/v/memory.max", "20000\n"); /* the higher limit leaves less room */
    fake_file(f, "v2/u/v/memory.current", "19500\n");
    fake_file(f, "v2/u/v/memory.stat", "anon 5\ninactive_file 300\n");
    m = rt_cgroup_memory_query(f->dir);
    assert_int_equal(m.limit, 10000);
    assert_int_equal(m.room, 800);
    fake_file(f, "v2/u/v/memory.current", "99999\n"); /* over the limit: no room, not a huge one */
    assert_int_equal(rt_cgroup_memory_query(f->dir).room, 0);
}

static void test_cpu_count(void **state)
{
    (void)state;
    cpu_set_t all, one;
    uint32_t cores = rt_cpu_count();
    assert_in_range(cores, 1, 8192);
    if (sched_getaffinity(0, sizeof all, &all) != 0) skip();
    assert_in_range(cores, 1, CPU_COUNT(&all));
    CPU_ZERO(&one);
    for (int i = 0; i < CPU_SETSIZE; i++) {
        if (!CPU_ISSET(i, &all)) continue;
        CPU_SET(i, &one);
        break;
    }
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    uint32_t alone = rt_cpu_count();
    assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
    assert_int_equal(alone, 1);
    assert_int_equal(rt_cpu_count(), cores);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_chunk_once),
        cmocka_unit_test(test_many_jobs),
        cmocka_unit_test(test_jobs_do_not_mix),
        cmocka_unit_test(test_visibility),
        cmocka_unit_test(test_runs_at_the_same_time),
        cmocka_unit_test(test_caller_sleeps),
        cmocka_unit_test(test_one_chunk_is_inline),
        cmocka_unit_test(test_new_refuses),
        cmocka_unit_test(test_new_without_memory),
        cmocka_unit_test(test_new_without_threads),
        cmocka_unit_test(test_cgroup_texts),
        cmocka_unit_test_setup_teardown(test_cgroup_v2_tree, fake_new, fake_free),
        cmocka_unit_test_setup_teardown(test_cgroup_v1_tree, fake_new, fake_free),
        cmocka_unit_test_setup_teardown(test_cgroup_garbage, fake_new, fake_free),
        cmocka_unit_test_setup_teardown(test_cgroup_memory, fake_new, fake_free),
        cmocka_unit_test(test_cpu_count),
    };
    alarm(240); /* a pool that hangs is a failure, not a wait */
    return cmocka_run_group_tests(tests, NULL, NULL);
}
