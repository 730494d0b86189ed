/* test_all_reduce.c - the op that ranks do together, with threads as ranks, each on a device of its own: against the
 * sum in the order of the ranks, bit for bit on every one of them; slices that are not even, several pieces, windows;
 * and whose fault it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rank_device.h"

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

static int sum_on(rt_peers *p, sum_case *c, rt_err *e)
{
    int rc;
    rank_device r = { 0 };
    uint32_t wide = c->cols + c->gap;
    uint64_t n = (uint64_t)c->rows * wide;
    float *all = rt_alloc(n * sizeof *all, 64);
    rt_fault fault = { 0 };
    for (uint64_t i = 0; i < n; i++) all[i] = rank_value(p->rank, i);
    if (c->faulty >= 0 && (p->rank == (uint32_t)c->faulty || p->rank == (uint32_t)c->faulty + 1))
        fault = (rt_fault){ 1, 7, 40 + p->rank, 9 };
    RT_TRY(rank_device_open(&r, c->device, e));
    rt_view buf = rt_space_buf(r.space, RT_CLASS_STATE, RT_DTYPE_F32, c->rows, wide, "x");
    rt_view f = rt_space_buf(r.space, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault"), v = buf;
    v.cols = c->cols;
    v.off = c->gap / 2;
    rt_view again = rt_space_buf(r.space, RT_CLASS_INPUT, RT_DTYPE_F32, 1, 1, "again");
    rt_emit_all_reduce(r.plan, v, f, p->size);
    rt_emit_all_reduce(r.plan, again, f, p->size); /* a fault that has been named keeps its name */
    RT_TRY(rank_device_seal(&r, p, e));
    RT_TRY(rt_exec_write(r.x, buf, all, n * sizeof *all, e));
    RT_TRY(rt_exec_write(r.x, f, &fault, sizeof fault, e));
    RT_TRY(rt_exec_run(r.x, 0, NULL, e));
    RT_TRY(rt_exec_read(r.x, buf, all, n * sizeof *all, e));
    RT_TRY(rt_exec_read(r.x, f, &c->fault[p->rank], sizeof fault, e));
    RT_TRY(rt_exec_check(r.x, e));
    for (uint32_t row = 0; row < c->rows; row++) { /* what lies beside the window is as it was */
        for (uint32_t k = 0; k < wide; k++)
            if ((k < v.off || k >= v.off + c->cols) &&
                all[(uint64_t)row * wide + k] != rank_value(p->rank, (uint64_t)row * wide + k))
                RT_TRY(rt_fail(e, RT_INTERNAL, "row %u column %u was written", row, k));
        memcpy(c->got[p->rank] + (uint64_t)row * c->cols, all + (uint64_t)row * wide + v.off, c->cols * sizeof *all);
    }
out:
    rank_device_close(&r);
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
        float want = rank_value(0, at);
        for (uint32_t r = 1; r < ranks; r++) want += rank_value(r, at);
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
    rank_device r;
    rt_err e = { 0 };
    (void)state;
    assert_int_equal(rank_device_open(&r, "cpu", &e), RT_OK);
    rt_view v = rt_space_buf(r.space, RT_CLASS_STATE, RT_DTYPE_F32, 2, 3, "x");
    rt_emit_all_reduce(r.plan, v, RT_NONE, 2);
    assert_int_equal(r.plan->ops[0].queue, RT_QUEUE_COMM);
    assert_int_equal(r.plan->queue, RT_QUEUE_COMPUTE);
    assert_int_equal(rank_device_seal(&r, &(rt_peers){ .size = 1 }, &e), RT_INTERNAL);
    assert_non_null(strstr(e.text, "2 ranks, and there are 1"));
    rank_device_close(&r);
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
