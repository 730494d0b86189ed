/* cuda_policy.c - see cuda_policy.h. */
#include "backend/cuda/cuda_policy.h"
#include "backend/cuda/cuda_numbers.h"

#include <string.h>

int rt_cuda_driver_branch(int cuda_version)
{
    static const struct {
        int major, branch;
    } table[] = { { 11, 520 }, { 12, 525 }, { 13, 580 } };
    int major = cuda_version / 1000;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].major >= major) return table[i].branch;
    return table[sizeof table / sizeof *table - 1].branch;
}

bool rt_cuda_driver_loads(int driver, int built, bool ptx)
{
    return ptx ? driver >= built : driver / 1000 >= built / 1000;
}

bool rt_cuda_may_overlap(uint32_t kernels_sm, int driver) { return kernels_sm >= 90 && driver >= 12030; }

rt_mem_kind rt_cuda_classify_memory(bool query_ok, int integrated)
{
    return query_ok && integrated == 1 ? RT_MEM_MANAGED : RT_MEM_DEVICE;
}

rt_mem_kind rt_cuda_memory_kind(rt_cuda_memory asked, const char *managed_memory, rt_mem_kind by_class)
{
    if (asked == RT_CUDA_MEMORY_DEVICE) return RT_MEM_DEVICE;
    if (asked == RT_CUDA_MEMORY_MANAGED) return RT_MEM_MANAGED;
    if (managed_memory && strcmp(managed_memory, "1") == 0) return RT_MEM_MANAGED;
    if (managed_memory && strcmp(managed_memory, "0") == 0) return RT_MEM_DEVICE;
    return by_class;
}

uint64_t rt_cuda_budget(rt_mem_kind by_class, uint64_t driver_free, uint64_t device_total, uint64_t system_available)
{
    if (by_class != RT_MEM_MANAGED) return driver_free;
    return system_available < device_total ? system_available : device_total;
}

uint64_t rt_cuda_head_bytes(uint32_t gpu_sm, uint64_t device_total)
{
    const uint64_t most = (uint64_t)rt_cuda_numbers_of(gpu_sm)->head_mib << 20;
    return device_total / 16 < most ? device_total / 16 : most;
}

/* cuBLASLt on an H200 at 8,192 rows (docs/speed-log.md): 1,008 to 1,270 TFLOP/s with row scales; 692 to 810 in bf16. */
double rt_cuda_fp8_cost(uint32_t gpu_sm, uint32_t code_sm, uint32_t lt_version)
{
    const bool bf16 = rt_cuda_precision(code_sm) == &rt_policy_bf16;
    return bf16 && lt_version >= 120900 ? rt_cuda_numbers_of(gpu_sm)->fp8_percent / 100.0 : 0;
}

const rt_policy *rt_cuda_precision(uint32_t sm) { return sm >= 80 ? &rt_policy_bf16 : &rt_policy_f32; }
