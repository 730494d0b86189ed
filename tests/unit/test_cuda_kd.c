/* test_cuda_kd.c - how kd_loss cuts rows for a GPU with clusters of blocks: into how many slices, for which shared
 * memory, on a stand-in driver that counts as an H200 does. That any cut computes the loss is proved by `retort verify`
 * on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "standin_case.h"

#include "backend/cuda/libs/cuda_driver.h"
#include "backend/cuda/kernels/cuda_kd.h"
#include "exec/exec.h"
#include "op/emit.h"

/* The launch over rows is the second of the op, behind the one that clears its count. */
typedef struct launch {
    uint32_t count, blocks, cluster, clusters, threads, shared;
    rt_cuda_kd_params p;
} launch;
static launch seen;

static void note(const rt_cu_launch *how, void **params)
{
    if (seen.count++ != 1) return;
    memcpy(&seen.p, params[0], sizeof seen.p);
    seen.blocks = how->grid[0], seen.threads = how->block[0], seen.shared = how->shared;
    for (unsigned i = 0; i < how->nattributes; i++)
        if (how->attributes[i].id == RT_CU_LAUNCH_CLUSTER) seen.cluster = how->attributes[i].value.blocks[0];
}

/* A loss over N rows of V logits of student and teacher, sealed. */
static const launch *sealed(uint32_t N, uint32_t V, rt_dtype d, bool some_ids)
{
    rt_err e = { 0 };
    rt_space *sp;
    rt_plan *p;
    rt_exec *x;
    rt_dev *dev;
    const rt_backend *cuda;
    assert_int_equal(rt_backend_find("cuda", &cuda, NULL), RT_OK);
    if (cuda->open(&dev, 0, NULL, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_space_new(&sp, &e), RT_OK);
    rt_kd_io io = { .logits = rt_space_buf(sp, RT_CLASS_STATE, d, N, V, "logits"),
                    .teacher = rt_space_buf(sp, RT_CLASS_STATE, d, N, V, "teacher"),
                    .sums = rt_space_buf(sp, RT_CLASS_OUTPUT, RT_DTYPE_F32, 1, 4, "sums"),
                    .fault = rt_space_buf(sp, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault"),
                    .target = rt_space_buf(sp, RT_CLASS_INPUT, RT_DTYPE_I32, N, 1, "target"),
                    .step = rt_space_buf(sp, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step") };
    if (some_ids) io.vmask = rt_space_buf(sp, RT_CLASS_STATE, RT_DTYPE_U32, 1, (V + 31) / 32, "ids");
    rt_kd_opts o = { .divergence = RT_DIV_FORWARD_KL, .T = 4, .ce_weight = 1, .kd_weight = 1, .grad = true };
    assert_int_equal(rt_plan_new(&p, sp, "loss", d == RT_DTYPE_F32 ? &rt_policy_f32 : &rt_policy_bf16, &e), RT_OK);
    rt_emit_kd_loss(p, &io, &o);
    seen = (launch){ 0 };
    s->launched = note;
    if (rt_exec_seal(&x, dev, (const rt_plan *const *)&p, 1, NULL, &e) < 0) fail_msg("%s", e.text);
    s->launched = NULL;
    assert_int_equal(seen.count, 4); /* count, rows, figures, sums */
    assert_true(seen.p.drawn >= seen.p.part + seen.p.a.N / RT_CUDA_KD_BATCH * sizeof(rt_cuda_kd_part));
    assert_int_equal(seen.p.listed - seen.p.drawn, 16);
    assert_int_equal(seen.cluster, seen.p.blocks);
    assert_int_equal(seen.blocks % seen.cluster, 0);
    seen.clusters = seen.blocks / seen.cluster;
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(sp);
    dev->api->close(dev);
    assert_int_equal(s->live, 0);
    return &seen;
}

/* V logits of each in bf16, 4 V bytes of shared memory for a row; 132 multiprocessors with 228 KiB. */
static void most_rows_are_under_way(void **test)
{
    static const struct {
        uint32_t V, blocks, clusters;
    } rows[] = { { 1000, 2, 1056 }, { 8000, 2, 132 },  { 16000, 2, 132 }, { 32000, 2, 132 },
                 { 128256, 5, 52 }, { 151936, 6, 44 }, { 201088, 8, 33 }, { 262144, 5, 26 } };
    (void)test;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const launch *l = sealed(4096, rows[i].V, RT_DTYPE_BF16, false);
        if (l->p.blocks != rows[i].blocks || l->clusters != rows[i].clusters)
            fail_msg("%u columns: %u clusters of %u blocks, not %u of %u", rows[i].V, l->clusters, l->p.blocks,
                     rows[i].clusters, rows[i].blocks);
        assert_true(l->p.keep);
        assert_true(l->p.packs * l->p.blocks * RT_CUDA_KD_PACK >= rows[i].V);
        assert_true(l->shared <= 227 << 10);
        assert_int_equal(l->threads, rows[i].V > 4096 ? RT_CUDA_KD_THREADS : 64); /* as many as have packs */
    }
}

static void a_bitmap_takes_room(void **test)
{
    (void)test;
    assert_int_equal(sealed(64, 151936, RT_DTYPE_BF16, true)->p.blocks,
                     6); /* 896 bytes a block are left where two fit */
    assert_int_equal(sealed(64, 154000, RT_DTYPE_BF16, false)->p.blocks, 6);
    assert_int_equal(sealed(64, 154000, RT_DTYPE_BF16, true)->p.blocks, 3); /* one on a multiprocessor then */
}

/* Rows are cut in the same way however many there are: the cut is seen in the last bits of sums. */
static void how_many_rows_there_are_has_no_part_in_it(void **test)
{
    static const uint32_t N[] = { 1, 2, 40, 5000 };
    (void)test;
    for (size_t i = 0; i < sizeof N / sizeof *N; i++) {
        const launch *l = sealed(N[i], 151936, RT_DTYPE_BF16, false);
        assert_int_equal(l->p.blocks, 6);
        assert_int_equal(l->clusters, N[i] < 44 ? N[i] : 44);
    }
}

/* A row that no cluster can hold is read twice, by as many blocks as there may be. */
static void a_row_too_long_to_stay(void **test)
{
    (void)test;
    assert_true(sealed(16, 430000, RT_DTYPE_BF16, false)->p.keep);
    assert_int_equal(seen.p.blocks, 8);
    assert_false(sealed(16, 445000, RT_DTYPE_BF16, false)->p.keep);
    assert_int_equal(seen.p.blocks, 8);
    assert_true(sealed(16, 215000, RT_DTYPE_F32, false)->p.keep);
    assert_false(sealed(16, 225000, RT_DTYPE_F32, false)->p.keep);
}

/* Then there are two blocks on a multiprocessor, as many of a row as may be, with something to do for every thread. */
static void fail_to_count(const char *name)
{
    if (strcmp(name, "cuOccupancyMaxActiveClusters") == 0) s->fail_name = name, s->fail_at = 1, s->fail_result = 1;
}
static void a_driver_that_cannot_say(void **test)
{
    (void)test;
    s->hook = fail_to_count;
    assert_int_equal(sealed(4096, 151936, RT_DTYPE_BF16, false)->p.blocks, 8);
    assert_int_equal(seen.clusters, 33);
    assert_int_equal(sealed(4096, 8000, RT_DTYPE_BF16, false)->p.blocks, 2);
    assert_int_equal(seen.clusters, 132);
    s->hook = NULL;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(most_rows_are_under_way),
        cmocka_unit_test(a_bitmap_takes_room),
        cmocka_unit_test(how_many_rows_there_are_has_no_part_in_it),
        cmocka_unit_test(a_row_too_long_to_stay),
        cmocka_unit_test(a_driver_that_cannot_say),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
