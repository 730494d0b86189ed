/* standin.c - a stand-in for libcuda.so.1, libcublasLt.so.13 and libnccl.so.2, used by tests alone: every function that
 * the backend looks up, over host memory, with a log and a call that can be made to fail. Copies are done at once and
 * kernels do nothing, so it proves order, clean-up and messages, never numbers (but for standin_scaled.h, and sums over
 * ranks in standin_nccl.h). The libraries are this one file under three names, so that they share the log. */
#include "standin.h"
#include "standin_scaled.h"

#include "backend/cuda/libs/cuda_driver.h"
#include "backend/cuda/libs/cuda_lt.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMS = 132 };
enum {
    COUNT_UP = 2,
    FIRST_FAULT,
    TAKE_SLICE,
    PLAYED_BYTES = 24
}; /* functions that are played, and the most of their parameters */
static standin s = { STANDIN_MACHINE };

standin *standin_get(void);
standin *standin_get(void) { return &s; }

/* Counts, and fails when it is this call's turn. */
static int called(const char *name)
{
    s.calls++;
    if (s.hook) s.hook(name);
    if (s.lost) return s.fail_result;
    if (!s.fail_name || (s.fail_name[0] && strcmp(s.fail_name, name) != 0) || --s.fail_at != 0) return 0;
    s.fail_name = NULL;
    s.lost = s.sticky;
    return s.fail_result;
}

static int logged(const char *name)
{
    static const char *last;
    int result = called(name);
    if (s.log_len && last && strcmp(last, name) == 0) return result;
    last = name;
    s.log_len += (uint32_t)snprintf(s.log + s.log_len, sizeof s.log - s.log_len, "%s\n", name);
    if (s.log_len >= sizeof s.log) s.log_len = sizeof s.log - 1;
    return result;
}

#define CALL(how, name)                                                                                                \
    do {                                                                                                               \
        int result_ = how(name);                                                                                       \
        if (result_) return result_;                                                                                   \
    } while (0)

/* An object is an address with nothing behind it; freeing one that is not there would show in `live`. */
static void *object(void)
{
    static uintptr_t next = 0x1000;
    s.live++;
    return (void *)(next += 16);
}

static int drop(const char *name)
{
    s.live--;
    return called(name);
}

/* ---- the driver: prototypes from the list that the backend binds ---- */

#define X(member, symbol, params) int symbol params;
RT_CU_LIST(X)
RT_CU_OPTIONAL_LIST(X)
#undef X

int cuInit(unsigned flags)
{
    (void)flags;
    CALL(called, "cuInit");
    return s.init_result;
}
int cuDriverGetVersion(int *version)
{
    *version = s.driver_version;
    return called("cuDriverGetVersion");
}
int cuGetErrorName(int result, const char **text)
{
    *text = result == 2     ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == 700 ? "CUDA_ERROR_ILLEGAL_ADDRESS"
                            : "CUDA_ERROR_PLAYED";
    return 0;
}
int cuGetErrorString(int result, const char **text)
{
    *text = result == 2 ? "out of memory" : result == 700 ? "an illegal memory access was encountered" : "played fault";
    return 0;
}
int cuDeviceGetCount(int *count)
{
    *count = s.devices;
    return called("cuDeviceGetCount");
}
int cuDeviceGet(rt_cu_device *device, int ordinal)
{
    *device = ordinal;
    return called("cuDeviceGet");
}
int cuDeviceGetName(char *name, int size, rt_cu_device device)
{
    snprintf(name, (size_t)size, "Stand-in %d", device);
    return called("cuDeviceGetName");
}
int cuDeviceGetAttribute(int *value, int attribute, rt_cu_device device)
{
    CALL(called, "cuDeviceGetAttribute");
    int capability = device == 0 && s.first_capability ? s.first_capability : s.capability;
    switch (attribute) {
    case RT_CU_ATTR_CAPABILITY_MAJOR: *value = capability / 10; return 0;
    case RT_CU_ATTR_CAPABILITY_MINOR: *value = capability % 10; return 0;
    case RT_CU_ATTR_MULTIPROCESSORS: *value = SMS; return 0;
    case RT_CU_ATTR_SHARED_OPTIN: *value = 227 << 10; return 0;
    case RT_CU_ATTR_INTEGRATED: *value = s.integrated; return s.integrated_result;
    default: *value = 0; return 1;
    }
}
int cuDeviceGetPCIBusId(char *text, int size, rt_cu_device device)
{
    snprintf(text, (size_t)size, "FFFF:%02X:00.0", 0x1a + device); /* no such place in any machine */
    return called("cuDeviceGetPCIBusId");
}
int cuDeviceTotalMem_v2(size_t *bytes, rt_cu_device device)
{
    (void)device;
    *bytes = s.memory;
    return called("cuDeviceTotalMem_v2");
}
int cuDevicePrimaryCtxRetain(rt_cu_context *context, rt_cu_device device)
{
    (void)device;
    CALL(logged, "cuDevicePrimaryCtxRetain");
    *context = object();
    return 0;
}
int cuDevicePrimaryCtxRelease_v2(rt_cu_device device)
{
    (void)device;
    return drop("cuDevicePrimaryCtxRelease_v2");
}
int cuCtxSetCurrent(rt_cu_context context)
{
    (void)context;
    return called("cuCtxSetCurrent");
}
int cuMemGetInfo_v2(size_t *left, size_t *total)
{
    *left = s.memory - s.used;
    *total = s.memory;
    return called("cuMemGetInfo_v2");
}

/* An allocation carries its size before its first byte, and begins with what no number is; of large ones not all, which
 * would take most of the time of the tests. */
enum { HEAD = 256, POISONED = 1 << 20 };
static int allocate(rt_cu_ptr *out, size_t bytes)
{
    if (s.used + s.hidden > s.memory || bytes > s.memory - s.used - s.hidden) return RT_CU_OUT_OF_MEMORY;
    uint8_t *p = aligned_alloc(HEAD, HEAD + (bytes + HEAD - 1) / HEAD * HEAD);
    if (!p) return RT_CU_OUT_OF_MEMORY;
    memset(p + HEAD, s.clean ? 0 : 0xff, s.clean || bytes < POISONED ? bytes : POISONED);
    memcpy(p, &bytes, sizeof bytes);
    s.used += bytes;
    s.live++;
    *out = (rt_cu_ptr)(uintptr_t)(p + HEAD);
    return 0;
}
int cuMemAlloc_v2(rt_cu_ptr *out, size_t bytes)
{
    CALL(logged, "cuMemAlloc_v2");
    return allocate(out, bytes);
}
int cuMemAllocManaged(rt_cu_ptr *out, size_t bytes, unsigned flags)
{
    (void)flags;
    CALL(logged, "cuMemAllocManaged");
    return allocate(out, bytes);
}
int cuMemFree_v2(rt_cu_ptr address)
{
    size_t bytes;
    uint8_t *p = (uint8_t *)(uintptr_t)address - HEAD;
    memcpy(&bytes, p, sizeof bytes);
    s.used -= bytes;
    free(p);
    return drop("cuMemFree_v2");
}
int cuMemHostAlloc(void **out, size_t bytes, unsigned flags)
{
    (void)flags;
    CALL(called, "cuMemHostAlloc");
    *out = malloc(bytes);
    s.live++;
    return *out ? 0 : RT_CU_OUT_OF_MEMORY;
}
int cuMemFreeHost(void *p)
{
    free(p);
    return drop("cuMemFreeHost");
}
int cuMemcpyHtoDAsync_v2(rt_cu_ptr to, const void *from, size_t bytes, rt_cu_stream stream)
{
    (void)stream;
    CALL(logged, "cuMemcpyHtoDAsync_v2");
    memcpy((void *)(uintptr_t)to, from, bytes);
    return 0;
}

/* Calls of the host that graphs have: made again at each launch of theirs. */
typedef struct host_call {
    const void *graph;
    void (*fn)(void *);
    void *data;
} host_call;
static host_call host_calls[STANDIN_STEPS];
static uint32_t nhost_calls;

/* true: it was captured, and is not done now. */
static int capturing;
static bool captured(standin_step step)
{
    if (capturing && s.steps < STANDIN_STEPS) s.step[s.steps++] = step;
    return capturing;
}

/* A call of the graph that is being captured. */
static void call_later(void (*fn)(void *), void *data)
{
    if (nhost_calls < STANDIN_STEPS) host_calls[nhost_calls++] = (host_call){ NULL, fn, data };
}

int cuMemcpyAsync(rt_cu_ptr to, rt_cu_ptr from, size_t bytes, rt_cu_stream stream)
{
    CALL(logged, "cuMemcpyAsync");
    if (captured((standin_step){ 'c', stream, NULL, to, from, bytes })) return 0;
    memcpy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    s.clock += STANDIN_COPY_MS;
    return 0;
}
int cuLaunchHostFunc(rt_cu_stream stream, void (*fn)(void *), void *data)
{
    CALL(logged, "cuLaunchHostFunc");
    if (!captured((standin_step){ .what = 'h', .stream = stream })) fn(data);
    if (capturing) call_later(fn, data);
    return 0;
}
int cuStreamWaitEvent(rt_cu_stream stream, rt_cu_event event, unsigned flags)
{
    (void)flags;
    if (!captured((standin_step){ .what = 'w', .stream = stream, .event = event })) s.clock += STANDIN_WAIT_MS;
    return called("cuStreamWaitEvent");
}
int cuMemcpyDtoHAsync_v2(void *to, rt_cu_ptr from, size_t bytes, rt_cu_stream stream)
{
    (void)stream;
    CALL(logged, "cuMemcpyDtoHAsync_v2");
    memcpy(to, (const void *)(uintptr_t)from, bytes);
    return 0;
}
int cuMemsetD8Async(rt_cu_ptr at, unsigned char value, size_t bytes, rt_cu_stream stream)
{
    (void)stream;
    memset((void *)(uintptr_t)at, value, bytes);
    return called("cuMemsetD8Async");
}
int cuMemsetD2D16Async(rt_cu_ptr at, size_t pitch, unsigned short value, size_t width, size_t height,
                       rt_cu_stream stream)
{
    (void)stream;
    for (size_t row = 0; row < height; row++)
        for (size_t col = 0; col < width; col++) ((uint16_t *)(uintptr_t)(at + row * pitch))[col] = value;
    return called("cuMemsetD2D16Async");
}
int cuModuleLoadDataEx(rt_cu_module *out, const void *image, unsigned count, int *options, void **values)
{
    (void)count;
    (void)options;
    (void)values;
    CALL(logged, "cuModuleLoadDataEx");
    if (s.code_result && memcmp(image, "sass", 4) == 0) return s.code_result;
    *out = object();
    s.used += s.module_bytes;
    return 0;
}
int cuModuleUnload(rt_cu_module module)
{
    (void)module;
    s.used -= s.module_bytes;
    return drop("cuModuleUnload");
}
int cuModuleGetFunction(rt_cu_function *out, rt_cu_module module, const char *name)
{
    (void)module;
    CALL(logged, "cuModuleGetFunction");
    *out = (rt_cu_function)(uintptr_t)(strcmp(name, "count_up") == 0      ? COUNT_UP
                                       : strcmp(name, "first_fault") == 0 ? FIRST_FAULT
                                       : strcmp(name, "take_slice") == 0  ? TAKE_SLICE
                                                                          : 1);
    return 0;
}
int cuFuncGetAttribute(int *value, int attribute, rt_cu_function function)
{
    (void)attribute;
    (void)function;
    *value = 32;
    return called("cuFuncGetAttribute");
}
int cuFuncSetAttribute(rt_cu_function function, int attribute, int value)
{
    (void)function;
    (void)attribute;
    (void)value;
    return called("cuFuncSetAttribute");
}
int cuFuncIsLoaded(int *loaded, rt_cu_function function)
{
    (void)function;
    *loaded = !s.lazy;
    return called("cuFuncIsLoaded");
}
/* Of an H200, for kernels that take all registers with 1,024 threads. */
static int blocks_of_sm(size_t shared, unsigned threads)
{
    enum { SHARED = 228 << 10, RESERVED = 1 << 10, THREADS = 1024 };
    size_t most = SHARED / (shared + RESERVED);
    return (int)(most < THREADS / threads ? most : THREADS / threads);
}
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *count, rt_cu_function function, int threads, size_t shared)
{
    (void)function;
    CALL(called, "cuOccupancyMaxActiveBlocksPerMultiprocessor");
    *count = blocks_of_sm(shared, (unsigned)threads);
    return 0;
}
int cuOccupancyMaxActiveClusters(int *count, rt_cu_function function, const rt_cu_launch *how)
{
    (void)function;
    CALL(called, "cuOccupancyMaxActiveClusters");
    bool known = how->nattributes == 1 && how->attributes->id == RT_CU_LAUNCH_CLUSTER;
    *count = known ? SMS * blocks_of_sm(how->shared, how->block[0]) / (int)how->attributes->value.blocks[0] : 0;
    return 0;
}
int cuTensorMapEncodeTiled(void *out, int type, unsigned rank, void *at, const uint64_t *sizes, const uint64_t *strides,
                           const unsigned *box, const unsigned *steps, int interleave, int swizzle, int l2, int outside)
{
    (void)type, (void)sizes, (void)strides, (void)box, (void)steps, (void)interleave, (void)swizzle, (void)l2;
    (void)outside, (void)rank;
    CALL(called, "cuTensorMapEncodeTiled");
    memset(out, 0, 128);
    memcpy(out, &at, sizeof at);
    return 0;
}
int cuFuncLoad(rt_cu_function function)
{
    (void)function;
    return logged("cuFuncLoad");
}
int cuKernelGetFunction(rt_cu_function *out, void *kernel)
{
    (void)kernel;
    *out = (rt_cu_function)(uintptr_t)1;
    return called("cuKernelGetFunction");
}

#include "standin_nccl.h"

/* Most kernels do nothing. */
static void play(rt_cu_function function, void **params)
{
    void (*fn)(void *) = function == (rt_cu_function)(uintptr_t)COUNT_UP      ? play_count_up
                         : function == (rt_cu_function)(uintptr_t)FIRST_FAULT ? play_first_fault
                         : function == (rt_cu_function)(uintptr_t)TAKE_SLICE  ? play_take_slice
                                                                              : NULL;
    void *kept = fn && capturing ? malloc(PLAYED_BYTES) : NULL;
    if (kept) {
        memcpy(kept, params[0], fn == play_count_up ? sizeof(rt_cuda_count_up_params) : PLAYED_BYTES);
        call_later(fn, kept);
    } else if (fn)
        fn(params[0]);
}

/* Launches between the two ends of a capture become nodes; `nodes` counts those of the last one. */
static size_t nodes;
int cuLaunchKernelEx(const rt_cu_launch *how, rt_cu_function function, void **params, void **extra)
{
    (void)extra;
    CALL(logged, "cuLaunchKernelEx");
    s.launches++;
    captured((standin_step){ .what = 'k', .stream = how->stream });
    play(function, params);
    if (s.launched) s.launched(how, params);
    for (unsigned i = 0; i < how->nattributes; i++)
        s.overlaps += how->attributes[i].id == RT_CU_LAUNCH_OVERLAP && how->attributes[i].value.flag;
    nodes += (size_t)capturing;
    return 0;
}
int cuStreamCreate(rt_cu_stream *out, unsigned flags)
{
    (void)flags;
    CALL(called, "cuStreamCreate");
    *out = object();
    return 0;
}
int cuStreamDestroy_v2(rt_cu_stream stream)
{
    (void)stream;
    return drop("cuStreamDestroy_v2");
}
int cuStreamSynchronize(rt_cu_stream stream)
{
    (void)stream;
    return called("cuStreamSynchronize");
}
int cuStreamBeginCapture_v2(rt_cu_stream stream, int mode)
{
    (void)stream;
    (void)mode;
    CALL(logged, "cuStreamBeginCapture_v2");
    capturing = 1;
    nodes = 0;
    s.steps = 0;
    return 0;
}
int cuStreamEndCapture(rt_cu_stream stream, rt_cu_graph *out)
{
    (void)stream;
    capturing = 0;
    CALL(logged, "cuStreamEndCapture");
    *out = object();
    for (uint32_t i = 0; i < nhost_calls; i++)
        if (!host_calls[i].graph) host_calls[i].graph = *out;
    return 0;
}
/* An event is the clock when it was recorded. */
int cuEventCreate(rt_cu_event *out, unsigned flags)
{
    (void)flags;
    CALL(called, "cuEventCreate");
    *out = calloc(1, sizeof(double));
    s.live++;
    return *out ? 0 : RT_CU_OUT_OF_MEMORY;
}
int cuEventDestroy_v2(rt_cu_event event)
{
    free(event);
    return drop("cuEventDestroy_v2");
}
int cuEventRecord(rt_cu_event event, rt_cu_stream stream)
{
    captured((standin_step){ .what = 'r', .stream = stream, .event = event });
    memcpy(event, &s.clock, sizeof s.clock);
    return called("cuEventRecord");
}
int cuEventElapsedTime(float *milliseconds, rt_cu_event begin, rt_cu_event end)
{
    double first, second;
    memcpy(&first, begin, sizeof first);
    memcpy(&second, end, sizeof second);
    *milliseconds = (float)(second - first);
    return called("cuEventElapsedTime");
}
int cuEventSynchronize(rt_cu_event event)
{
    (void)event;
    return called("cuEventSynchronize");
}
int cuGraphGetNodes(rt_cu_graph graph, rt_cu_node *out, size_t *count)
{
    (void)graph;
    CALL(called, "cuGraphGetNodes");
    for (size_t i = 0; out && i < *count && i < nodes; i++) out[i] = (rt_cu_node)(uintptr_t)(i + 1);
    *count = nodes;
    return 0;
}
int cuGraphNodeGetType(rt_cu_node node, int *type)
{
    (void)node;
    *type = RT_CU_NODE_KERNEL;
    return called("cuGraphNodeGetType");
}
/* Every second node is as a library makes it: by the newer handle. */
int cuGraphKernelNodeGetParams_v2(rt_cu_node node, rt_cu_kernel_params *out)
{
    *out = (rt_cu_kernel_params){ 0 };
    if ((uintptr_t)node % 2)
        out->function = (rt_cu_function)(uintptr_t)1;
    else
        out->kernel = out;
    return called("cuGraphKernelNodeGetParams_v2");
}
int cuGraphInstantiateWithFlags(rt_cu_graph_exec *out, rt_cu_graph graph, unsigned long long flags)
{
    (void)flags;
    CALL(logged, "cuGraphInstantiateWithFlags");
    *out = object();
    for (uint32_t i = 0; i < nhost_calls; i++)
        if (host_calls[i].graph == graph) host_calls[i].graph = *out;
    return 0;
}
int cuGraphUpload(rt_cu_graph_exec graph, rt_cu_stream stream)
{
    (void)graph;
    (void)stream;
    return called("cuGraphUpload");
}
int cuGraphLaunch(rt_cu_graph_exec graph, rt_cu_stream stream)
{
    (void)stream;
    s.clock += 250;
    CALL(logged, "cuGraphLaunch");
    for (uint32_t i = 0; i < nhost_calls; i++)
        if (host_calls[i].graph == graph) host_calls[i].fn(host_calls[i].data);
    return 0;
}
int cuGraphDestroy(rt_cu_graph graph)
{
    (void)graph;
    return drop("cuGraphDestroy");
}
int cuGraphExecDestroy(rt_cu_graph_exec graph)
{
    for (uint32_t i = 0; i < nhost_calls; i++)
        if (host_calls[i].graph == graph) host_calls[i].fn = NULL, host_calls[i].graph = host_calls; /* nobody's */
    return drop("cuGraphExecDestroy");
}

/* ---- cuBLASLt ---- */

#define X(member, symbol, result, params) result symbol params;
RT_LT_LIST(X)
#undef X

size_t cublasLtGetVersion(void) { return (size_t)s.lt_version; }
size_t cublasLtGetCudartVersion(void) { return (size_t)s.lt_cudart; }
const char *cublasLtGetStatusString(int status) { return status ? "played status" : "success"; }

static int make(void **out, const char *name)
{
    CALL(called, name);
    *out = object();
    return 0;
}
int cublasLtCreate(void **handle)
{
    CALL(logged, "cublasLtCreate");
    *handle = object();
    return 0;
}
int cublasLtDestroy(void *handle)
{
    (void)handle;
    return drop("cublasLtDestroy");
}
int cublasLtMatmulDescCreate(void **desc, int compute, int scale)
{
    (void)compute;
    (void)scale;
    CALL(called, "cublasLtMatmulDescCreate");
    *desc = calloc(1, sizeof(standin_desc));
    if (!*desc) return 3;
    s.live++;
    return 0;
}
int cublasLtMatmulDescDestroy(void *desc)
{
    free(desc);
    return drop("cublasLtMatmulDescDestroy");
}
int cublasLtMatmulDescSetAttribute(void *desc, int which, const void *value, size_t bytes)
{
    if (which < 0 || which >= STANDIN_ATTRIBUTES || bytes > sizeof(uint64_t)) return 7;
    uint64_t *to = &((standin_desc *)desc)->set[which];
    *to = 0;
    memcpy(to, value, bytes);
    return called("cublasLtMatmulDescSetAttribute");
}
typedef standin_layout layout;
int cublasLtMatrixLayoutCreate(void **out, int type, uint64_t rows, uint64_t cols, int64_t stride)
{
    if (!rows || !cols || stride < (int64_t)rows) return 7; /* as the library checks it */
    CALL(called, "cublasLtMatrixLayoutCreate");
    layout *l = malloc(sizeof *l);
    if (!l) return 3;
    *l = (layout){ type, rows, cols, stride };
    s.live++;
    *out = l;
    return 0;
}
int cublasLtMatrixLayoutDestroy(void *l)
{
    free(l);
    return drop("cublasLtMatrixLayoutDestroy");
}
int cublasLtMatmulPreferenceCreate(void **pref) { return make(pref, "cublasLtMatmulPreferenceCreate"); }
int cublasLtMatmulPreferenceDestroy(void *pref)
{
    (void)pref;
    return drop("cublasLtMatmulPreferenceDestroy");
}
int cublasLtMatmulPreferenceSetAttribute(void *pref, int which, const void *value, size_t bytes)
{
    (void)pref, (void)which, (void)value, (void)bytes;
    return called("cublasLtMatmulPreferenceSetAttribute");
}
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *desc, void *a, void *b, void *c, void *d, void *pref, int count,
                                   rt_lt_choice *out, int *found)
{
    (void)handle, (void)c, (void)pref;
    CALL(logged, "cublasLtMatmulAlgoGetHeuristic");
    if (((layout *)a)->type == RT_LT_E4M3 && !standin_scaled_takes(desc, a, b, d)) return STANDIN_NOT_SUPPORTED;
    *found = s.lt_refuses ? 0 : count < 3 ? count : 3;
    for (int i = 0; i < *found; i++)
        out[i] = (rt_lt_choice){ .algo = { { (uint64_t)i } }, .work_bytes = s.lt_work[i] ? s.lt_work[i] : 4096 };
    return 0;
}
int cublasLtMatmulAlgoConfigGetAttribute(const rt_lt_algo *algo, int which, void *value, size_t bytes, size_t *written)
{
    memset(value, 0, bytes);
    if (which == RT_LT_CONFIG_ID) memcpy(value, &algo->data[0], bytes); /* a candidate's number is its id */
    *written = bytes;
    return called("cublasLtMatmulAlgoConfigGetAttribute");
}
int cublasLtMatmul(void *handle, void *desc, const void *alpha, const void *a, void *la, const void *b, void *lb,
                   const void *beta, const void *c, void *lc, void *d, void *ld, const rt_lt_algo *algo, void *work,
                   size_t work_bytes, void *stream)
{
    (void)handle, (void)alpha, (void)c, (void)lc, (void)work, (void)work_bytes;
    CALL(logged, "cublasLtMatmul");
    captured((standin_step){ .what = 'm', .stream = stream });
    nodes += (size_t)capturing;
    s.clock += s.lt_ms[algo->data[0] % 3];
    /* What the numbers that the backend tries a candidate with come to, with one rounding or with two. */
    const layout *l = ld;
    if (((layout *)la)->type == RT_LT_E4M3) {
        float factor;
        memcpy(&factor, beta, sizeof factor);
        if (!standin_scaled_takes(desc, la, lb, ld)) return STANDIN_NOT_SUPPORTED;
        s.lt_fast += ((standin_desc *)desc)->set[RT_LT_DESC_FAST_ACCUM] != 0;
        if (!capturing) standin_scaled(desc, a, la, b, lb, factor, d, ld, algo->data[0] < (uint64_t)s.lt_rounds);
        return 0;
    }
    uint16_t sum = l->type == RT_LT_BF16 ? 0x3F91 : 0x3C31, *out = d;
    if (l->type == RT_LT_F32 || capturing) return 0;
    if (algo->data[0] < (uint64_t)s.lt_rounds) sum--;
    for (uint64_t row = 0; row < l->cols; row++)
        for (uint64_t col = 0; col < l->rows; col++) out[row * (uint64_t)l->stride + col] = sum;
    return 0;
}
