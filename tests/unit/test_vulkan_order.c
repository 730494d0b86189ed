/* test_vulkan_order.c - which ops of a Vulkan program have a barrier before them, and what is believed of a file of
 * compiled pipelines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include(<vulkan/vulkan_core.h>)
#include "backend/vulkan/vk_cache.h"
#include "backend/vulkan/vk_order.h"

#include <string.h>

/* ---- barriers ---- */

static rt_mem *memory(uint32_t i) { return (rt_mem *)(uintptr_t)(16 * (i + 1)); }

/* y = a + b: rows of 8 floats from byte offsets of one allocation */
static rt_bound_op add(rt_mem *m, uint64_t y, uint64_t a, uint64_t b)
{
    rt_bound_op o = { .kind = RT_OP_ADD, .nslots = 3 };
    const uint64_t off[] = { y, a, b };
    for (uint32_t i = 0; i < 3; i++)
        o.slot[i] = (rt_operand){ .mem = m, .off = off[i], .dtype = RT_DTYPE_F32, .rows = 1, .cols = 8, .stride = 8 };
    return o;
}

static bool barrier_before(rt_vk_order *w, rt_bound_op o)
{
    bool barrier;
    assert_int_equal(rt_vk_order_op(w, &o, &barrier), RT_OK);
    return barrier;
}

static void a_barrier_is_where_bytes_meet_and_one_writes(void **state)
{
    rt_vk_order w = { 0 };
    rt_mem *m = memory(0);
    (void)state;
    assert_false(barrier_before(&w, add(m, 0, 320, 352)));
    assert_false(barrier_before(&w, add(m, 32, 320, 352)));        /* both read the same, and write their own */
    assert_false(barrier_before(&w, add(memory(1), 0, 320, 352))); /* of another allocation */
    assert_true(barrier_before(&w, add(m, 64, 32, 352)));          /* read after write */
    assert_false(barrier_before(&w, add(m, 96, 0, 352)));          /* that write was before the last barrier */
    assert_true(barrier_before(&w, add(m, 348, 128, 160)));        /* write after read, four bytes of it */
    assert_true(barrier_before(&w, add(m, 348, 128, 160)));        /* write after write */
    rt_vk_order_free(&w);
}

static void gaps_between_rows_and_scratch_count(void **state)
{
    rt_vk_order w = { 0 };
    rt_bound_op o = add(memory(0), 0, 1024, 1024);
    (void)state;
    o.slot[0].rows = 2;
    o.slot[0].stride = 16;
    o.work = (rt_operand){ .mem = memory(2), .dtype = RT_DTYPE_U8, .rows = 1, .cols = 64, .stride = 64 };
    assert_false(barrier_before(&w, o));
    assert_true(barrier_before(&w, add(memory(0), 48, 1024, 1024))); /* in the gap: it is taken for written */
    assert_false(barrier_before(&w, add(memory(2), 64, 128, 160)));
    assert_false(barrier_before(&w, add(memory(0), 96, 1024, 1024)));
    rt_vk_order_free(&w);
    assert_false(barrier_before(&w, o));
    assert_true(barrier_before(&w, add(memory(2), 32, 128, 160))); /* scratch of the one before */
    rt_vk_order_free(&w);
}

/* ---- the file of pipelines ---- */

static const rt_vk_driver_id mine = { 0x1002, 0x73bf, { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 0xff } };

/* What a driver with this name would give. */
static rt_str file_of(rt_vk_driver_id id)
{
    struct {
        VkPipelineCacheHeaderVersionOne head;
        char more[100];
    } data = { .head = { .headerSize = sizeof data.head,
                         .headerVersion = VK_PIPELINE_CACHE_HEADER_VERSION_ONE,
                         .vendorID = id.vendor,
                         .deviceID = id.device } };
    rt_str file = { 0 };
    memcpy(data.head.pipelineCacheUUID, id.uuid, sizeof id.uuid);
    memset(data.more, 7, sizeof data.more);
    assert_int_equal(rt_vk_cache_make(&file, &data, sizeof data), RT_OK);
    return file;
}
static bool is_taken(const rt_str *file, uint64_t bytes)
{
    uint64_t n;
    return rt_vk_cache_take(file->data, bytes, &mine, &n) != NULL;
}

static void a_file_of_this_driver_comes_back_whole(void **state)
{
    rt_str file = file_of(mine);
    uint64_t bytes;
    const uint8_t *data = rt_vk_cache_take(file.data, file.len, &mine, &bytes);
    (void)state;
    assert_non_null(data);
    assert_int_equal(bytes, sizeof(VkPipelineCacheHeaderVersionOne) + 100);
    assert_int_equal(data[bytes - 1], 7);
    rt_str_free(&file);
}

static void no_other_file_reaches_the_driver(void **state)
{
    rt_vk_driver_id other[3] = { mine, mine, mine };
    rt_str file = file_of(mine);
    (void)state;
    other[0].vendor++;
    other[1].device++;
    other[2].uuid[15]--;
    for (int i = 0; i < 3; i++) {
        rt_str of_other = file_of(other[i]);
        assert_false(is_taken(&of_other, of_other.len));
        rt_str_free(&of_other);
    }
    for (uint64_t n = 0; n < file.len; n++) assert_false(is_taken(&file, n));
    for (uint64_t i = 0; i < file.len; i++) {
        file.data[i] ^= 1;
        assert_false(is_taken(&file, file.len));
        file.data[i] ^= 1;
    }
    assert_true(is_taken(&file, file.len));
    rt_str_free(&file);
}

static void the_file_lies_below_the_cache_of_the_user(void **state)
{
    char path[128];
    (void)state;
    rt_vk_cache_path(path, sizeof path, "/c", "/h", &mine);
    assert_string_equal(path, "/c/retort/vulkan-0102030405060708090a0b0c0d0e0fff.bin");
    rt_vk_cache_path(path, sizeof path, "not/absolute", "/h", &mine);
    assert_string_equal(path, "/h/.cache/retort/vulkan-0102030405060708090a0b0c0d0e0fff.bin");
    rt_vk_cache_path(path, sizeof path, NULL, NULL, &mine);
    assert_string_equal(path, "");
    rt_vk_cache_path(path, 40, "/c", NULL, &mine); /* a path that is cut is none */
    assert_string_equal(path, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_barrier_is_where_bytes_meet_and_one_writes),
        cmocka_unit_test(gaps_between_rows_and_scratch_count),
        cmocka_unit_test(a_file_of_this_driver_comes_back_whole),
        cmocka_unit_test(no_other_file_reaches_the_driver),
        cmocka_unit_test(the_file_lies_below_the_cache_of_the_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
int main(void) { return 0; } /* test_vulkan_policy.c says what such a binary says */
#endif
