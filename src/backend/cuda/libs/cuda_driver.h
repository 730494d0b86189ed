/* cuda_driver.h - NVIDIA's driver library, opened at run time.
 *
 * Owns: the one list of its functions, the few types and numbers of its interface that are needed here (declared by
 * ourselves, so that host code is compiled without any header of CUDA; tests/structure compares them with cuda.h where
 * there is one), and turning its results into statuses and sentences. Leaves to the rest of the room: every use. */
#ifndef RT_BACKEND_CUDA_LIBS_CUDA_DRIVER_H
#define RT_BACKEND_CUDA_LIBS_CUDA_DRIVER_H

#include "base/dynlib.h"
#include "base/err.h"

#include <stdint.h>

typedef int rt_cu_device;
typedef uint64_t rt_cu_ptr; /* an address on the device */
typedef struct rt_cu_context *rt_cu_context;
typedef struct rt_cu_module *rt_cu_module;
typedef struct rt_cu_function *rt_cu_function;
typedef struct rt_cu_stream *rt_cu_stream;
typedef struct rt_cu_event *rt_cu_event;
typedef struct rt_cu_graph *rt_cu_graph;
typedef struct rt_cu_graph_exec *rt_cu_graph_exec;
typedef struct rt_cu_node *rt_cu_node;

/* What a kernel node of a captured graph launches (CUDA_KERNEL_NODE_PARAMS_v2). */
typedef struct rt_cu_kernel_params {
    rt_cu_function function;
    unsigned grid[3], block[3], shared;
    void **params, **extra;
    void *kernel, *context; /* kernel: where a library used the newer handle, and function is null */
} rt_cu_kernel_params;

/* One property of a launch (CUlaunchAttribute). */
typedef struct rt_cu_launch_attribute {
    int id, pad;
    union {
        int flag;
        unsigned blocks[3];
        char bytes[64];
    } value;
} rt_cu_launch_attribute;

/* How a kernel is launched (CUlaunchConfig). */
typedef struct rt_cu_launch {
    unsigned grid[3], block[3], shared;
    rt_cu_stream stream;
    rt_cu_launch_attribute *attributes;
    unsigned nattributes;
} rt_cu_launch;

/* Results */
enum {
    RT_CU_SUCCESS = 0,
    RT_CU_OUT_OF_MEMORY = 2,
    RT_CU_STUB_LIBRARY = 34,
    RT_CU_NO_DEVICE = 100,
    RT_CU_INVALID_IMAGE = 200,
    RT_CU_NO_BINARY = 209,
    RT_CU_INVALID_PTX = 218,
    RT_CU_NO_JIT_COMPILER = 221,
    RT_CU_UNSUPPORTED_PTX = 222,
    RT_CU_JIT_DISABLED = 223,
    RT_CU_DRIVER_MISMATCH = 803
};
/* Device attributes */
enum {
    RT_CU_ATTR_MULTIPROCESSORS = 16,
    RT_CU_ATTR_INTEGRATED = 18,
    RT_CU_ATTR_CAPABILITY_MAJOR = 75,
    RT_CU_ATTR_CAPABILITY_MINOR = 76,
    RT_CU_ATTR_SHARED_OPTIN = 97
};
/* Flags and choices */
enum {
    RT_CU_FUNC_REGISTERS = 4,
    RT_CU_FUNC_SHARED_DYNAMIC = 8,
    RT_CU_STREAM_NON_BLOCKING = 1,
    RT_CU_EVENT_NO_TIMING = 2,
    RT_CU_ATTACH_GLOBAL = 1,
    RT_CU_CAPTURE_THREAD_LOCAL = 1,
    RT_CU_NODE_KERNEL = 0,
    RT_CU_LAUNCH_CLUSTER = 4, /* blocks of a cluster */
    RT_CU_LAUNCH_OVERLAP = 6, /* a kernel's blocks are set up before the one ahead of it has ended */
    RT_CU_MAP_BF16 = 9, /* of a tensor map: type, swizzle of 128 bytes, sectors that L2 fetches (256 bytes) */
    RT_CU_MAP_SWIZZLE_128 = 3,
    RT_CU_MAP_L2_256 = 3,
    RT_CU_JIT_ERROR_LOG = 5,
    RT_CU_JIT_ERROR_LOG_BYTES = 6
};

/* member, symbol, parameters */
#define RT_CU_LIST(X)                                                                                                  \
    X(init, cuInit, (unsigned flags))                                                                                  \
    X(driver_version, cuDriverGetVersion, (int *version))                                                              \
    X(error_name, cuGetErrorName, (int result, const char **text))                                                     \
    X(error_text, cuGetErrorString, (int result, const char **text))                                                   \
    X(device_count, cuDeviceGetCount, (int *count))                                                                    \
    X(device_get, cuDeviceGet, (rt_cu_device * device, int ordinal))                                                   \
    X(device_name, cuDeviceGetName, (char *name, int size, rt_cu_device device))                                       \
    X(device_attribute, cuDeviceGetAttribute, (int *value, int attribute, rt_cu_device device))                        \
    X(device_pci, cuDeviceGetPCIBusId, (char *text, int size, rt_cu_device device))                                    \
    X(device_memory, cuDeviceTotalMem_v2, (size_t * bytes, rt_cu_device device))                                       \
    X(context_retain, cuDevicePrimaryCtxRetain, (rt_cu_context * context, rt_cu_device device))                        \
    X(context_release, cuDevicePrimaryCtxRelease_v2, (rt_cu_device device))                                            \
    X(context_set, cuCtxSetCurrent, (rt_cu_context context))                                                           \
    X(memory_info, cuMemGetInfo_v2, (size_t * free, size_t * total))                                                   \
    X(mem_alloc, cuMemAlloc_v2, (rt_cu_ptr * out, size_t bytes))                                                       \
    X(mem_alloc_managed, cuMemAllocManaged, (rt_cu_ptr * out, size_t bytes, unsigned flags))                           \
    X(mem_free, cuMemFree_v2, (rt_cu_ptr address))                                                                     \
    X(host_alloc, cuMemHostAlloc, (void **out, size_t bytes, unsigned flags))                                          \
    X(host_free, cuMemFreeHost, (void *p))                                                                             \
    X(copy_to_device, cuMemcpyHtoDAsync_v2, (rt_cu_ptr to, const void *from, size_t bytes, rt_cu_stream stream))       \
    X(copy, cuMemcpyAsync, (rt_cu_ptr to, rt_cu_ptr from, size_t bytes, rt_cu_stream stream))                          \
    X(copy_to_host, cuMemcpyDtoHAsync_v2, (void *to, rt_cu_ptr from, size_t bytes, rt_cu_stream stream))               \
    X(fill_bytes, cuMemsetD8Async, (rt_cu_ptr at, unsigned char value, size_t bytes, rt_cu_stream stream))             \
    X(fill_halves, cuMemsetD2D16Async,                                                                                 \
      (rt_cu_ptr at, size_t pitch, unsigned short value, size_t width, size_t height, rt_cu_stream stream))            \
    X(module_load, cuModuleLoadDataEx,                                                                                 \
      (rt_cu_module * out, const void *image, unsigned count, int *options, void **values))                            \
    X(module_unload, cuModuleUnload, (rt_cu_module module))                                                            \
    X(module_function, cuModuleGetFunction, (rt_cu_function * out, rt_cu_module module, const char *name))             \
    X(function_get, cuFuncGetAttribute, (int *value, int attribute, rt_cu_function function))                          \
    X(function_set, cuFuncSetAttribute, (rt_cu_function function, int attribute, int value))                           \
    X(launch, cuLaunchKernelEx, (const rt_cu_launch *how, rt_cu_function function, void **params, void **extra))       \
    X(stream_new, cuStreamCreate, (rt_cu_stream * out, unsigned flags))                                                \
    X(stream_free, cuStreamDestroy_v2, (rt_cu_stream stream))                                                          \
    X(stream_wait, cuStreamSynchronize, (rt_cu_stream stream))                                                         \
    X(stream_after, cuStreamWaitEvent, (rt_cu_stream stream, rt_cu_event event, unsigned flags))                       \
    X(call_host, cuLaunchHostFunc, (rt_cu_stream stream, void (*fn)(void *), void *data))                              \
    X(capture_begin, cuStreamBeginCapture_v2, (rt_cu_stream stream, int mode))                                         \
    X(capture_end, cuStreamEndCapture, (rt_cu_stream stream, rt_cu_graph * out))                                       \
    X(event_new, cuEventCreate, (rt_cu_event * out, unsigned flags))                                                   \
    X(event_free, cuEventDestroy_v2, (rt_cu_event event))                                                              \
    X(event_record, cuEventRecord, (rt_cu_event event, rt_cu_stream stream))                                           \
    X(event_elapsed, cuEventElapsedTime, (float *milliseconds, rt_cu_event begin, rt_cu_event end))                    \
    X(event_wait, cuEventSynchronize, (rt_cu_event event))                                                             \
    X(graph_nodes, cuGraphGetNodes, (rt_cu_graph graph, rt_cu_node * nodes, size_t * count))                           \
    X(node_type, cuGraphNodeGetType, (rt_cu_node node, int *type))                                                     \
    X(graph_instantiate, cuGraphInstantiateWithFlags,                                                                  \
      (rt_cu_graph_exec * out, rt_cu_graph graph, unsigned long long flags))                                           \
    X(graph_upload, cuGraphUpload, (rt_cu_graph_exec graph, rt_cu_stream stream))                                      \
    X(graph_launch, cuGraphLaunch, (rt_cu_graph_exec graph, rt_cu_stream stream))                                      \
    X(graph_free, cuGraphDestroy, (rt_cu_graph graph))                                                                 \
    X(graph_exec_free, cuGraphExecDestroy, (rt_cu_graph_exec graph))

/* Newer than the oldest driver that is accepted; null where the driver has none. */
#define RT_CU_OPTIONAL_LIST(X)                                                                                         \
    X(function_loaded, cuFuncIsLoaded, (int *loaded, rt_cu_function function))                                         \
    X(function_load, cuFuncLoad, (rt_cu_function function))                                                            \
    X(kernel_function, cuKernelGetFunction, (rt_cu_function * out, void *kernel))                                      \
    X(kernel_node, cuGraphKernelNodeGetParams_v2, (rt_cu_node node, rt_cu_kernel_params * out))                        \
    X(max_blocks, cuOccupancyMaxActiveBlocksPerMultiprocessor,                                                         \
      (int *count, rt_cu_function function, int threads, size_t shared))                                               \
    X(max_clusters, cuOccupancyMaxActiveClusters, (int *count, rt_cu_function function, const rt_cu_launch *how))      \
    X(tensor_map, cuTensorMapEncodeTiled,                                                                              \
      (void *out, int type, unsigned rank, void *at, const uint64_t *sizes, const uint64_t *strides,                   \
       const unsigned *box, const unsigned *steps, int interleave, int swizzle, int l2, int outside))

typedef struct rt_cuda_driver {
    rt_dynlib lib;
    int version; /* 13000: CUDA 13.0 is the newest that it runs */
#define X(member, symbol, params) int(*member) params;
    RT_CU_LIST(X) RT_CU_OPTIONAL_LIST(X)
#undef X
} rt_cuda_driver;

/* Opens the library and starts it. RT_NO_BACKEND, with what to do, when there is none, when it does not start, or when
 * it is older than what the interface above needs. */
int rt_cuda_driver_open(rt_cuda_driver *cu, rt_err *e);
void rt_cuda_driver_close(rt_cuda_driver *cu);

/* RT_OK, or result as a status with a sentence: "cuMemAlloc of 2.00 GiB: out of memory (CUDA_ERROR_OUT_OF_MEMORY)".
 * Memory is RT_NOMEM, everything else RT_DEVICE. */
int rt_cuda_status(const rt_cuda_driver *cu, int result, rt_err *e, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

#endif
