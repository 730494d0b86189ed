/* test_all_reduce.c - the op that ranks do together, with threads as ranks, each on a device of its own: against the
 * sum in the order of the ranks, bit for bit on every one of them; slices that are not even, several pieces, windows;
 * and whose fault it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/exec.h"
#include "op/emit.h"
#include "thread_peers.h"

#include <stdio.h>

typedef struct sum_case {
    const char *device;
    uint32_t rows, cols, gap; /* gap: columns of the buffer besides those of the view */
    int faulty;               /* the lowest rank that has a fault, and the one after it; -1: none has */
    float *got[THREAD_RANKS]; /* (rows, cols) */
    rt_fault fault[THREAD_RANKS];
    bool failed[THREAD_RANKS];
    char why[THREAD_RANKS][200];
} sum_case;

/* Of all sizes, so that another order is another sum. */
static float value(uint32_t rank, uint64_t i)
{
    uint64_t z = (i + 1) * 0x9E3779B97F4A7C15ull + rank * 0xBF58476D1CE4E5B9ull;
    z ^= z >> 31;
    z *= 0x94D049BB133111EBull;
    return (float)((double)(z >> 40) / 16777216.0 - 0.5) * (float)(1u << (z % 24));
}

static int sum_on(rt_peers *p, sum_case *c, rt_err *e)
{
    int rc;
    const rt_backend *b;
    rt_dev *d = NULL;
    rt_space *space = NULL;
    rt_plan *plan = NULL;
    rt_exec *x = NULL;
    uint32_t wide = c->cols + c->gap;
    uint64_t n = (uint64_t)c->rows * wide;
    float *all = rt_alloc(n * sizeof *all, 64);
    rt_fault fault = { 0 };
    for (uint64_t i = 0; i < n; i++) all[i] = value(p->rank, i);
    if (c->faulty >= 0 && (p->rank == (uint32_t)c->faulty || p->rank == (uint32_t)c->faulty + 1))
        fault = (rt_fault){ 1, 7, 40 + p->rank, 9 };
    RT_TRY(rt_backend_find(c->device, &b, e));
    RT_TRY(b->open(&d, strcmp(c->device, "ref") == 0, &RT_DEV_OPTIONS({ "threads", "1" }), e)); /* ref: in float */
    RT_TRY(rt_space_new(&space, e));
    rt_view buf = rt_space_buf(space, RT_CLASS_STATE, RT_DTYPE_F32, c->rows, wide, "x");
    rt_view f = rt_space_buf(space, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault"), v = buf;
    v.cols = c->cols;
    v.off = c->gap / 2;
    RT_TRY(rt_plan_new(&plan, space, "sum", &rt_policy_f32, e));
    rt_emit_all_reduce(plan, v, f, p->size);
    rt_seal_opts o = { .guards = true, .peers = p->size > 1 ? p : NULL };
    RT_TRY(rt_exec_seal(&x, d, (const rt_plan *const *)&plan, 1, &o, e));
    RT_TRY(rt_exec_write(x, buf, all, n * sizeof *all, e));
    RT_TRY(rt_exec_write(x, f, &fault, sizeof fault, e));
    RT_TRY(rt_exec_run(x, 0, NULL, e));
    RT_TRY(rt_exec_read(x, buf, all, n * sizeof *all, e));
    RT_TRY(rt_exec_read(x, f, &c->fault[p->rank], sizeof fault, e));
    RT_TRY(rt_exec_check(x, e));
    for (uint32_t r = 0; r < c->rows; r++) { /* what lies beside the window is as it was */
        for (uint32_t k = 0; k < wide; k++)
            if ((k < v.off || k >= v.off + c->cols) &&
                all[(uint64_t)r * wide + k] != value(p->rank, (uint64_t)r * wide + k))
                RT_TRY(rt_fail(e, RT_INTERNAL, "row %u column %u was written", r, k));
        memcpy(c->got[p->rank] + (uint64_t)r * c->cols, all + (uint64_t)r * wide + v.off, c->cols * sizeof *all);
    }
out:
    rt_exec_free(x);
    rt_plan_free(plan);
    rt_space_free(space);
    if (d) d->api->close(d);
    rt_free(all);
    return rc;
}

/* Assertions jump out of a thread, so that it only says what was wrong. */
static void one_rank(rt_peers *p, void *ctx)
{
    sum_case *c = ctx;
    rt_err e = { 0 };
    c->failed[p->rank] = sum_on(p, c, &e) < 0;
    snprintf(c->why[p->rank], sizeof c->why[0], "%.199s", e.text);
}

static void sum(const char *device, uint32_t ranks, uint32_t rows, uint32_t cols, uint32_t gap, int faulty)
{
    sum_case c = { .device = device, .rows = rows, .cols = cols, .gap = gap, .faulty = faulty };
    uint64_t n = (uint64_t)rows * cols;
    for (uint32_t r = 0; r < ranks; r++) c.got[r] = rt_alloc(n * sizeof(float), 64);
    thread_world_run(ranks, one_rank, &c);
    for (uint32_t r = 0; r < ranks; r++)
        if (c.failed[r]) fail_msg("%s, rank %u of %u: %s", device, r, ranks, c.why[r]);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t at = i / cols * (cols + gap) + gap / 2 + i % cols;
        float want = value(0, at);
        for (uint32_t r = 1; r < ranks; r++) want += value(r, at);
        for (uint32_t r = 0; r < ranks; r++)
            if (memcmp(&c.got[r][i], &want, sizeof want) != 0)
                fail_msg("%s, rank %u of %u, (%u,%u) element %llu: %a, expected %a", device, r, ranks, rows, cols,
                         (unsigned long long)i, (double)c.got[r][i], (double)want);
    }
    for (uint32_t r = 0; r < ranks; r++) {
        assert_int_equal(c.fault[r].set, faulty < 0 ? 0 : 1 + faulty);
        assert_int_equal(c.fault[r].site, faulty < 0 ? 0 : 40 + faulty);
    }
    for (uint32_t r = 0; r < ranks; r++) rt_free(c.got[r]);
}

static const char *const devices[] = { "ref", "cpu" };

static void test_sums(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++)
        for (uint32_t ranks = 1; ranks <= 5; ranks++) {
            sum(devices[d], ranks, 1, 1, 0, -1); /* fewer elements than ranks */
            sum(devices[d], ranks, 1, 4, 0, -1);
            sum(devices[d], ranks, 7, 19, 0, -1); /* slices that are not even */
            sum(devices[d], ranks, 7, 19, 3, -1); /* a window */
        }
    sum("cpu", THREAD_RANKS, 13, 101, 0, -1);
}

static void test_pieces(void **state)
{
    (void)state;
    sum("cpu", 3, 1, (2u << 20) + 7, 0, -1); /* three pieces, the last one of 7 elements */
    sum("cpu", 2, 1031, 1033, 1, -1);
}

/* Of the lowest rank that has one, on all of them, and it is named. */
static void test_faults(void **state)
{
    (void)state;
    for (int d = 0; d < 2; d++)
        for (int rank = 0; rank < 3; rank++) sum(devices[d], 3, 2, 5, 0, rank);
}

/* A plan for other ranks than there are is not run. */
static void test_other_ranks(void **state)
{
    const rt_backend *b;
    rt_dev *d = NULL;
    rt_space *space = NULL;
    rt_plan *plan = NULL;
    rt_exec *x = NULL;
    rt_err e = { 0 };
    (void)state;
    assert_int_equal(rt_backend_find("cpu", &b, &e), RT_OK);
    assert_int_equal(b->open(&d, 0, NULL, &e), RT_OK);
    assert_int_equal(rt_space_new(&space, &e), RT_OK);
    rt_view v = rt_space_buf(space, RT_CLASS_STATE, RT_DTYPE_F32, 2, 3, "x");
    assert_int_equal(rt_plan_new(&plan, space, "sum", &rt_policy_f32, &e), RT_OK);
    rt_emit_all_reduce(plan, v, RT_NONE, 2);
    assert_int_equal(plan->ops[0].queue, RT_QUEUE_COMM);
    assert_int_equal(plan->queue, RT_QUEUE_COMPUTE);
    assert_int_equal(rt_exec_seal(&x, d, (const rt_plan *const *)&plan, 1, NULL, &e), RT_INTERNAL);
    assert_non_null(strstr(e.text, "2 ranks, and there are 1"));
    rt_plan_free(plan);
    rt_space_free(space);
    d->api->close(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sums),
        cmocka_unit_test(test_pieces),
        cmocka_unit_test(test_faults),
        cmocka_unit_test(test_other_ranks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
