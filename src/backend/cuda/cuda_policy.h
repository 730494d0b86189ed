/* cuda_policy.h - decisions of this backend as pure functions: which memory, how much of it, which driver, which GPU.
 *
 * Nothing here calls the driver or keeps state, so every case can be tested on any machine. */
#ifndef RT_BACKEND_CUDA_POLICY_H
#define RT_BACKEND_CUDA_POLICY_H

#include "backend/backend.h"
#include "backend/cuda/cuda_options.h"

enum {
    RT_CUDA_LEAST_DRIVER = 11080, /* cuLaunchKernelEx, the newest function that must be there */
    RT_CUDA_LEAST_SM = 75
};

/* Time of a GEMM in e4m3 with row scales beside one in bf16, where tensor cores do it: cuBLASLt has it on sm_90 alone,
 * from its version 12.9 (120900) on. 0 elsewhere, where our own kernel does it, and where the code in use computes in
 * f32, which nobody chose to have a teacher in fp8. lt_version 0: there is no cuBLASLt. */
double rt_cuda_fp8_cost(uint32_t gpu_sm, uint32_t code_sm, uint32_t lt_version);

/* A driver branch that runs this CUDA version (in the form 12040): 580 for 13.x. */
int rt_cuda_driver_branch(int cuda_version);
/* Can a driver for CUDA `driver` load machine code that CUDA `built` compiled? Within a major version it can. PTX needs
 * a driver that is no older than its compiler. */
bool rt_cuda_driver_loads(int driver, int built, bool ptx);

/* May a kernel's blocks be set up while the kernel before it ends? Those compiled for sm_90 and later wait for it by
 * themselves (begin_kernel of cuda_begin.cuh). Drivers before CUDA 12.3 do not keep this in a graph. */
bool rt_cuda_may_overlap(uint32_t kernels_sm, int driver);

/* Memory of a device: managed where it shares the system's memory (the driver's INTEGRATED attribute), device memory
 * elsewhere. A query that failed means device memory. */
rt_mem_kind rt_cuda_classify_memory(bool query_ok, int integrated);
/* What is used: as asked for on the command line; else as the environment's MANAGED_MEMORY says ("1", "0"; anything
 * else says nothing); else by class. */
rt_mem_kind rt_cuda_memory_kind(rt_cuda_memory asked, const char *managed_memory, rt_mem_kind by_class);
/* Bytes that a run may take. Where memory is shared, the driver counts the system's page cache as used; what the system
 * calls available is right there, but never more than the device has. */
uint64_t rt_cuda_budget(rt_mem_kind by_class, uint64_t driver_free, uint64_t device_total, uint64_t system_available);

/* Logits that exist at once: what the architecture asks for, and not more than a sixteenth of the memory. */
uint64_t rt_cuda_head_bytes(uint32_t gpu_sm, uint64_t device_total);

/* Storage dtypes: bf16 where there are tensor cores for it, else f32. */
const rt_policy *rt_cuda_precision(uint32_t sm);

#endif
