/* test_cuda_policy.c - decisions of the CUDA backend, every case: memory, budget, drivers, precision, which kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "backend/cuda/cuda_image.h"
#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_policy.h"

#include <string.h>

static void memory_is_classified_by_the_integrated_attribute(void **state)
{
    (void)state;
    assert_int_equal(rt_cuda_classify_memory(true, 1), RT_MEM_MANAGED);
    assert_int_equal(rt_cuda_classify_memory(true, 0), RT_MEM_DEVICE);
    assert_int_equal(rt_cuda_classify_memory(true, 7), RT_MEM_DEVICE); /* not an answer that the driver gives */
    assert_int_equal(rt_cuda_classify_memory(false, 1), RT_MEM_DEVICE);
    assert_int_equal(rt_cuda_classify_memory(false, 0), RT_MEM_DEVICE);
}

static void the_command_line_wins_over_the_environment_over_the_class(void **state)
{
    static const struct {
        rt_cuda_memory asked;
        const char *env;
        rt_mem_kind by_class, want;
    } table[] = {
        { RT_CUDA_MEMORY_AUTO, NULL, RT_MEM_DEVICE, RT_MEM_DEVICE },
        { RT_CUDA_MEMORY_AUTO, NULL, RT_MEM_MANAGED, RT_MEM_MANAGED },
        { RT_CUDA_MEMORY_AUTO, "1", RT_MEM_DEVICE, RT_MEM_MANAGED },
        { RT_CUDA_MEMORY_AUTO, "1", RT_MEM_MANAGED, RT_MEM_MANAGED },
        { RT_CUDA_MEMORY_AUTO, "0", RT_MEM_DEVICE, RT_MEM_DEVICE },
        { RT_CUDA_MEMORY_AUTO, "0", RT_MEM_MANAGED, RT_MEM_DEVICE },
        { RT_CUDA_MEMORY_AUTO, "", RT_MEM_MANAGED, RT_MEM_MANAGED },
        { RT_CUDA_MEMORY_AUTO, "yes", RT_MEM_DEVICE, RT_MEM_DEVICE },
        { RT_CUDA_MEMORY_AUTO, "10", RT_MEM_DEVICE, RT_MEM_DEVICE },
        { RT_CUDA_MEMORY_DEVICE, NULL, RT_MEM_MANAGED, RT_MEM_DEVICE },
        { RT_CUDA_MEMORY_DEVICE, "1", RT_MEM_MANAGED, RT_MEM_DEVICE },
        { RT_CUDA_MEMORY_MANAGED, NULL, RT_MEM_DEVICE, RT_MEM_MANAGED },
        { RT_CUDA_MEMORY_MANAGED, "0", RT_MEM_DEVICE, RT_MEM_MANAGED },
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(rt_cuda_memory_kind(table[i].asked, table[i].env, table[i].by_class), table[i].want);
}

static void shared_memory_is_budgeted_by_the_system(void **state)
{
    (void)state;
    /* the driver counts the page cache as used: 30 of 120 free, though 100 are available */
    assert_int_equal(rt_cuda_budget(RT_MEM_MANAGED, 30, 120, 100), 100);
    assert_int_equal(rt_cuda_budget(RT_MEM_MANAGED, 30, 120, 500), 120);
    assert_int_equal(rt_cuda_budget(RT_MEM_DEVICE, 30, 120, 100), 30);
    assert_int_equal(rt_cuda_budget(RT_MEM_DEVICE, 30, 120, 10), 30);
}

static void logits_take_a_small_part_of_the_memory(void **state)
{
    (void)state;
    assert_int_equal(rt_cuda_head_bytes(90, 140ull << 30), 1280ull << 20);
    assert_int_equal(rt_cuda_head_bytes(89, 24ull << 30), 1280ull << 20);
    assert_int_equal(rt_cuda_head_bytes(75, 8ull << 30), 512ull << 20);
}

static void drivers_load_what_their_major_version_built(void **state)
{
    (void)state;
    assert_true(rt_cuda_driver_loads(13000, 13000, false));
    assert_true(rt_cuda_driver_loads(13000, 13020, false)); /* machine code within a major version */
    assert_false(rt_cuda_driver_loads(13000, 13020, true)); /* PTX of a newer compiler */
    assert_true(rt_cuda_driver_loads(13020, 13000, true));
    assert_true(rt_cuda_driver_loads(13000, 12080, false));
    assert_true(rt_cuda_driver_loads(13000, 12080, true));
    assert_false(rt_cuda_driver_loads(12090, 13000, false));
    assert_false(rt_cuda_driver_loads(12090, 13000, true));
    assert_int_equal(rt_cuda_driver_branch(11080), 520);
    assert_int_equal(rt_cuda_driver_branch(12080), 525);
    assert_int_equal(rt_cuda_driver_branch(13000), 580);
    assert_int_equal(rt_cuda_driver_branch(14000), 580); /* the newest that is known */
}

static void kernels_that_wait_may_overlap(void **state)
{
    (void)state;
    assert_true(rt_cuda_may_overlap(90, 12030));
    assert_true(rt_cuda_may_overlap(121, 13000));
    assert_false(rt_cuda_may_overlap(90, 12020));
    assert_false(rt_cuda_may_overlap(89, 13000));
}

static void precision_follows_the_architecture(void **state)
{
    (void)state;
    assert_ptr_equal(rt_cuda_precision(75), &rt_policy_f32);
    assert_ptr_equal(rt_cuda_precision(80), &rt_policy_bf16);
    assert_ptr_equal(rt_cuda_precision(121), &rt_policy_bf16);
    /* e4m3 only where the library multiplies it with row scales */
    assert_true(rt_cuda_fp8_cost(90, 90, 130100) > 0.5 && rt_cuda_fp8_cost(90, 90, 120900) < 1);
    assert_true(rt_cuda_fp8_cost(90, 80, 130100) > 0.5 && rt_cuda_fp8_cost(90, 75, 130100) == 0);
    assert_true(rt_cuda_fp8_cost(90, 90, 120899) == 0 && rt_cuda_fp8_cost(90, 90, 0) == 0);
    assert_true(rt_cuda_fp8_cost(89, 90, 130100) == 0 && rt_cuda_fp8_cost(100, 90, 130100) == 0);
}

/* Every architecture has a number for everything, but for what its GPUs have not. */
static void numbers_are_by_architecture(void **state)
{
    (void)state;
    for (uint32_t sm = 75; sm < 130; sm++) {
        const rt_cuda_numbers *n = rt_cuda_numbers_of(sm);
#define X(field, older, hopper, newer, text)                                                                           \
    assert_int_equal(n->field, sm < 90 ? (older) : sm == 90 ? (hopper) : (newer));                                     \
    assert_true(n->field > 0 || strcmp(#field, "fp8_percent") == 0);
        RT_CUDA_NUMBERS(X)
#undef X
        assert_int_equal(n->fp8_percent != 0, sm == 90);
    }
}

/* ---- images ---- */

enum { IMAGES = 6 };
typedef struct block {
    rt_cuda_block head;
    rt_cuda_image list[IMAGES];
    char data[64];
} block;

static block example(void)
{
    block b = { .head = { "RTCUDA1", IMAGES, 13000 } };
    static const uint32_t sm[] = { 80, 86, 90, 75, 80, 90 }, ptx[] = { 0, 0, 0, 1, 1, 1 };
    for (uint32_t i = 0; i < IMAGES; i++) {
        strcpy(b.list[i].module, "cuda_add");
        b.list[i].sm = sm[i];
        b.list[i].ptx = ptx[i];
        b.list[i].offset = offsetof(block, data) + 8 * i;
        b.list[i].bytes = 7;
    }
    return b;
}

static void a_block_is_checked_before_it_is_used(void **state)
{
    rt_cuda_images images;
    block b = example();
    (void)state;
    assert_true(rt_cuda_images_parse(&images, &b, sizeof b));
    assert_int_equal(images.count, IMAGES);
    assert_int_equal(images.built, 13000);
    assert_false(rt_cuda_images_parse(&images, &b, 0)); /* a binary without kernels */
    assert_int_equal(images.count, 0);
    assert_false(rt_cuda_images_parse(&images, &b, sizeof b.head + 3));
    b.head.count = 1000;
    assert_false(rt_cuda_images_parse(&images, &b, sizeof b));
    b = example();
    b.list[3].bytes = sizeof b;
    assert_false(rt_cuda_images_parse(&images, &b, sizeof b));
    b = example();
    b.head.magic[2] = 'x';
    assert_false(rt_cuda_images_parse(&images, &b, sizeof b));
}

static void a_gpu_takes_the_nearest_older_kernels_of_its_generation(void **state)
{
    static const struct {
        uint32_t gpu;
        const char *kernels;
        uint32_t sm, ptx; /* sm 0: none */
    } table[] = {
        { 80, NULL, 80, 0 },    { 86, "auto", 86, 0 }, { 89, NULL, 86, 0 },   { 90, NULL, 90, 0 },
        { 75, NULL, 75, 1 },    { 120, NULL, 90, 1 },  { 90, "ptx", 90, 1 },  { 89, "ptx", 80, 1 },
        { 90, "ptx75", 75, 1 }, { 70, NULL, 0, 0 },    { 75, "ptx90", 0, 0 }, { 90, "ptx80", 80, 1 },
        { 87, NULL, 80, 1 }, /* a system on a chip: not by machine code of sm_86 */
        { 110, NULL, 90, 1 },   { 72, NULL, 0, 0 },    { 90, "ptx86", 0, 0 },
    };
    rt_cuda_images images;
    block b = example();
    rt_err e = { 0 };
    (void)state;
    assert_true(rt_cuda_images_parse(&images, &b, sizeof b));
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rt_cuda_arch a = { 0 };
        int rc = rt_cuda_images_choose(&images, table[i].gpu, table[i].kernels, &a, &e);
        assert_int_equal(rc, table[i].sm ? RT_OK : RT_NO_BACKEND);
        assert_int_equal(a.sm, table[i].sm);
        assert_int_equal(a.ptx, table[i].ptx);
    }
    assert_non_null(strstr(e.text, "sm_80 sm_86 sm_90 ptx_75 ptx_80 ptx_90")); /* what there is */
    rt_cuda_arch a;
    assert_int_equal(rt_cuda_images_choose(&images, 90, "cubin", &a, &e), RT_INVALID);
    assert_int_equal(rt_cuda_images_choose(&images, 90, "ptx7x", &a, &e), RT_INVALID);
    assert_ptr_equal(rt_cuda_images_find(&images, "cuda_add", (rt_cuda_arch){ 90, 0 }), b.data + 16);
    assert_null(rt_cuda_images_find(&images, "cuda_sub", (rt_cuda_arch){ 90, 0 }));
    assert_null(rt_cuda_images_find(&images, "cuda_add", (rt_cuda_arch){ 86, 1 }));
}

static void what_does_not_load_is_followed_by_older_ptx(void **state)
{
    rt_cuda_images images;
    block b = example();
    rt_cuda_arch a = { 86, 0 };
    (void)state;
    assert_true(rt_cuda_images_parse(&images, &b, sizeof b));
    assert_true(rt_cuda_images_after(&images, 89, a, &a));
    assert_true(a.sm == 80 && a.ptx);
    assert_true(rt_cuda_images_after(&images, 89, a, &a));
    assert_true(a.sm == 75 && a.ptx);
    assert_false(rt_cuda_images_after(&images, 89, a, &a));
    assert_true(a.sm == 75 && a.ptx);
    b.list[4].bytes = 3;
    assert_ptr_equal(rt_cuda_images_smallest(&images, (rt_cuda_arch){ 80, 1 }), &b.list[4]);
    assert_null(rt_cuda_images_smallest(&images, (rt_cuda_arch){ 86, 1 }));
}

/* Of what has run, each is what tests/gpu runs; all else was only compiled. */
static void what_was_run_is_told_from_what_was_compiled(void **state)
{
    (void)state;
    for (uint32_t ptx = 0; ptx < 2; ptx++)
        for (uint32_t sm = 60; sm < 130; sm++) {
            bool run = sm == 90 || (ptx && sm == 75);
            assert_int_equal(rt_cuda_images_proof((rt_cuda_arch){ sm, ptx }) != NULL, run);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_is_classified_by_the_integrated_attribute),
        cmocka_unit_test(the_command_line_wins_over_the_environment_over_the_class),
        cmocka_unit_test(shared_memory_is_budgeted_by_the_system),
        cmocka_unit_test(logits_take_a_small_part_of_the_memory),
        cmocka_unit_test(numbers_are_by_architecture),
        cmocka_unit_test(drivers_load_what_their_major_version_built),
        cmocka_unit_test(kernels_that_wait_may_overlap),
        cmocka_unit_test(precision_follows_the_architecture),
        cmocka_unit_test(a_block_is_checked_before_it_is_used),
        cmocka_unit_test(a_gpu_takes_the_nearest_older_kernels_of_its_generation),
        cmocka_unit_test(what_does_not_load_is_followed_by_older_ptx),
        cmocka_unit_test(what_was_run_is_told_from_what_was_compiled),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
