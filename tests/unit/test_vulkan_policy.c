/* test_vulkan_policy.c - decisions of the Vulkan backend, every case: what a device must have, memory, budget; and the
 * block of shaders. No driver is asked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#if __has_include(<vulkan/vulkan_core.h>)
#include "backend/vulkan/vk_image.h"
#include "backend/vulkan/vk_policy.h"

#include <string.h>

static const rt_vk_features enough = { .api = VK_API_VERSION_1_2,
                                       .address = true,
                                       .timeline = true,
                                       .int64 = true,
                                       .storage16 = true,
                                       .storage8 = true,
                                       .scalar = true,
                                       .push_bytes = 128,
                                       .threads = 256,
                                       .shared = 16384 };

static void a_device_is_refused_for_what_it_lacks(void **state)
{
    (void)state;
    assert_null(rt_vk_lacks(&enough));
#define WITHOUT(member, value, word)                                                                                   \
    do {                                                                                                               \
        rt_vk_features f = enough;                                                                                     \
        f.member = value;                                                                                              \
        assert_non_null(rt_vk_lacks(&f));                                                                              \
        assert_non_null(strstr(rt_vk_lacks(&f), word));                                                                \
    } while (0)
    WITHOUT(api, VK_API_VERSION_1_1, "1.2");
    WITHOUT(address, false, "bufferDeviceAddress");
    WITHOUT(timeline, false, "timelineSemaphore");
    WITHOUT(int64, false, "shaderInt64");
    WITHOUT(storage16, false, "storageBuffer16BitAccess");
    WITHOUT(storage8, false, "storageBuffer8BitAccess");
    WITHOUT(scalar, false, "scalarBlockLayout");
    WITHOUT(push_bytes, 127, "push constants");
    WITHOUT(threads, 128, "invocations");
    WITHOUT(shared, 8192, "16 KiB");
#undef WITHOUT
}

static void memory_is_classified_by_the_kind_of_device(void **state)
{
    (void)state;
    assert_int_equal(rt_vk_classify_memory(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU), RT_MEM_DEVICE);
    assert_int_equal(rt_vk_classify_memory(VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU), RT_MEM_DEVICE);
    assert_int_equal(rt_vk_classify_memory(VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU), RT_MEM_MANAGED);
    assert_int_equal(rt_vk_classify_memory(VK_PHYSICAL_DEVICE_TYPE_CPU), RT_MEM_MANAGED);
}

static void the_command_line_wins_over_the_environment_over_the_class(void **state)
{
    static const struct {
        rt_vk_memory asked;
        const char *env;
        rt_mem_kind by_class, want;
    } table[] = {
        { RT_VK_MEMORY_AUTO, NULL, RT_MEM_DEVICE, RT_MEM_DEVICE },
        { RT_VK_MEMORY_AUTO, NULL, RT_MEM_MANAGED, RT_MEM_MANAGED },
        { RT_VK_MEMORY_AUTO, "1", RT_MEM_DEVICE, RT_MEM_MANAGED },
        { RT_VK_MEMORY_AUTO, "0", RT_MEM_MANAGED, RT_MEM_DEVICE },
        { RT_VK_MEMORY_AUTO, "yes", RT_MEM_DEVICE, RT_MEM_DEVICE },
        { RT_VK_MEMORY_DEVICE, "1", RT_MEM_MANAGED, RT_MEM_DEVICE },
        { RT_VK_MEMORY_MANAGED, "0", RT_MEM_DEVICE, RT_MEM_MANAGED },
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        assert_int_equal(rt_vk_memory_kind(table[i].asked, table[i].env, table[i].by_class), table[i].want);
}

static void a_kind_of_memory_takes_the_type_that_suits_it(void **state)
{
    const VkMemoryPropertyFlags local = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
                                host = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
                                cached = VK_MEMORY_PROPERTY_HOST_CACHED_BIT;
    /* a discrete GPU with a window into its memory, whose types come in an awkward order */
    const VkPhysicalDeviceMemoryProperties p = {
        .memoryTypeCount = 4, .memoryTypes = { { host, 1 }, { local | host, 0 }, { local, 0 }, { host | cached, 1 } }
    };
    const VkPhysicalDeviceMemoryProperties shared = { .memoryTypeCount = 1, .memoryTypes = { { local | host, 0 } } };
    (void)state;
    assert_int_equal(rt_vk_memory_type(&p, 15, RT_MEM_DEVICE), 2);
    assert_int_equal(rt_vk_memory_type(&p, 15, RT_MEM_MANAGED), 1);
    assert_int_equal(rt_vk_memory_type(&p, 15, RT_MEM_HOST_PINNED), 3);
    assert_int_equal(rt_vk_memory_type(&p, 3, RT_MEM_DEVICE), 1);
    assert_int_equal(rt_vk_memory_type(&p, 1, RT_MEM_DEVICE), VK_MAX_MEMORY_TYPES);
    assert_int_equal(rt_vk_memory_type(&p, 4, RT_MEM_HOST_PINNED), VK_MAX_MEMORY_TYPES);
    assert_int_equal(rt_vk_memory_type(&shared, 1, RT_MEM_DEVICE), 0);
    assert_int_equal(rt_vk_memory_type(&shared, 1, RT_MEM_MANAGED), 0);
    assert_int_equal(rt_vk_memory_type(&shared, 1, RT_MEM_HOST_PINNED), 0);
}

static void a_budget_is_the_least_that_anybody_says(void **state)
{
    (void)state;
    assert_int_equal(rt_vk_budget(RT_MEM_DEVICE, 100, 0, 10), 100); /* the driver does not say */
    assert_int_equal(rt_vk_budget(RT_MEM_DEVICE, 100, 60, 10), 60);
    assert_int_equal(rt_vk_budget(RT_MEM_DEVICE, 100, 200, 10), 100);
    assert_int_equal(rt_vk_budget(RT_MEM_MANAGED, 100, 60, 10), 10);
    assert_int_equal(rt_vk_budget(RT_MEM_MANAGED, 100, 60, 500), 60);
}

static void a_software_device_is_not_given_loops_that_it_would_end(void **state)
{
    (void)state;
    assert_false(rt_vk_ends_loops(VK_PHYSICAL_DEVICE_TYPE_CPU, 65535));
    assert_true(rt_vk_ends_loops(VK_PHYSICAL_DEVICE_TYPE_CPU, 65536));
    assert_false(rt_vk_ends_loops(VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU, UINT64_MAX));
}

static void a_block_of_shaders_is_read_or_refused(void **state)
{
    struct {
        rt_vk_block head;
        rt_vk_image list[2];
        uint32_t code[8];
    } b = { { "RTSPIRV", 2, 0 }, { { "vk_one", 128, 16 }, { "vk_two", 144, 16 } }, { 1, 2, 3, 4, 5, 6, 7, 8 } };
    rt_vk_images all;
    (void)state;
    assert_true(rt_vk_images_parse(&all, &b, sizeof b));
    assert_ptr_equal(rt_vk_images_find(&all, "vk_two"), &b.list[1]);
    assert_null(rt_vk_images_find(&all, "vk_three"));
    assert_false(rt_vk_images_parse(&all, &b, sizeof b.head - 1));
    assert_false(rt_vk_images_parse(&all, &b, sizeof b.head + sizeof b.list - 1));
    b.list[1].bytes = sizeof b;
    assert_false(rt_vk_images_parse(&all, &b, sizeof b));
    b.list[1].bytes = 15;
    assert_false(rt_vk_images_parse(&all, &b, sizeof b));
    b.list[1].bytes = 16;
    b.head.magic[0] = 'X';
    assert_false(rt_vk_images_parse(&all, &b, sizeof b));
    assert_int_equal(all.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_device_is_refused_for_what_it_lacks),
        cmocka_unit_test(memory_is_classified_by_the_kind_of_device),
        cmocka_unit_test(the_command_line_wins_over_the_environment_over_the_class),
        cmocka_unit_test(a_kind_of_memory_takes_the_type_that_suits_it),
        cmocka_unit_test(a_budget_is_the_least_that_anybody_says),
        cmocka_unit_test(a_software_device_is_not_given_loops_that_it_would_end),
        cmocka_unit_test(a_block_of_shaders_is_read_or_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#else
#include "backend/backend.h"

#include <string.h>

static void without_headers_there_is_no_device_and_a_reason(void **state)
{
    const rt_backend *b = NULL;
    char why[160] = "";
    rt_dev *d = NULL;
    rt_err e = { 0 };
    (void)state;
    assert_int_equal(rt_backend_find("vulkan", &b, &e), RT_OK);
    assert_int_equal(b->probe(NULL, NULL, 0, why), 0);
    assert_non_null(strstr(why, "headers"));
    assert_int_equal(b->open(&d, 0, NULL, &e), RT_NO_BACKEND);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(without_headers_there_is_no_device_and_a_reason) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
#endif
