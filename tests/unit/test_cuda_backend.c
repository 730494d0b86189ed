/* test_cuda_backend.c - the CUDA backend on a stand-in driver: the order of seal, clean-up after every failure, and
 * what a user is told. It computes nothing: numbers are proved by `retort verify --backend cuda` on a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_case.h"

#include "backend/cuda/cuda_numbers.h"
#include "base/hash.h"

#include <stdio.h>

/* Opening fails with this status, and the message holds this text. */
static void refuses(int index, const rt_dev_opts *o, int status, const char *text)
{
    rt_dev *d = NULL;
    rt_err e = { 0 };
    assert_int_equal(cuda()->open(&d, index, o, &e), status);
    assert_null(d);
    if (!strstr(e.text, text)) fail_msg("'%s' is not in: %s", text, e.text);
    assert_int_equal(s->live, 0);
}

static const char *at(const char *name)
{
    const char *found = strstr(s->log, name);
    if (!found) fail_msg("%s was not called:\n%s", name, s->log);
    return found;
}
static const char *last(const char *name)
{
    const char *found = at(name), *next;
    while ((next = strstr(found + 1, name))) found = next;
    return found;
}

static void code_first_then_memory_then_weights(void **state)
{
    rt_err e = { 0 };
    (void)state;
    s->lt_refuses = 1; /* a module of our own has to be loaded */
    if (live_once(NULL, &e) < 0) fail_msg("%s", e.text);
    assert_true(last("cuModuleLoadDataEx") < at("cuMemAlloc_v2"));
    assert_true(last("cuMemAlloc_v2") < at("cuStreamBeginCapture_v2"));
    assert_true(last("cuGraphInstantiateWithFlags") < at("cuMemcpyHtoDAsync_v2"));
    assert_true(last("cuMemcpyHtoDAsync_v2") < at("cuGraphLaunch"));
    assert_true(last("cuLaunchKernelEx") < at("cuGraphInstantiateWithFlags")); /* a run is a graph */
    *s = FRESH;
    if (live_once(NULL, &e) < 0) fail_msg("%s", e.text);
    assert_null(strstr(s->log, "cuModuleGetFunction")); /* no products of our own where cuBLASLt is */
    /* chosen, tried, launched once on scratch, and only then what the run needs is allocated and filled */
    assert_true(at("cublasLtCreate") < at("cublasLtMatmulAlgoGetHeuristic"));
    const char *warm = strstr(last("cublasLtMatmulAlgoGetHeuristic"), "cublasLtMatmul\n");
    assert_non_null(warm);
    assert_true(last("cuMemAlloc_v2") > warm && last("cuMemAlloc_v2") < at("cuStreamBeginCapture_v2"));
    assert_true(last("cublasLtMatmul\n") < at("cuMemcpyHtoDAsync_v2"));
    assert_int_equal(s->live, 0);
    assert_int_equal(s->used, 0);
}

/* What a program was cut by is a part of its hash. */
static void the_identity_has_the_numbers(void **state)
{
    char hex[33], want[48];
    rt_str text = { 0 };
    (void)state;
    rt_dev *d = open_ok(&RT_DEV_OPTIONS({ "sync", "on" }));
    d->api->identity(d, &text);
    rt_hash_text(hex, rt_hash(rt_cuda_numbers_of(90), sizeof(rt_cuda_numbers)));
    snprintf(want, sizeof want, "; numbers %.8s", hex);
    if (!strstr(text.data, want)) fail_msg("%s has no %s", text.data, want);
    rt_str_free(&text);
    d->api->close(d);
}

/* Only kernels that wait by themselves for the one before them are launched ahead of its end. */
static void launches_overlap(void **state)
{
    static const char *const kernels[] = { "auto", "ptx75" };
    (void)state;
    for (size_t i = 0; i < 2; i++) {
        rt_err e = { 0 };
        *s = FRESH;
        s->lt_refuses = 1;
        if (live_once(&RT_DEV_OPTIONS({ "kernels", kernels[i] }), &e) < 0) fail_msg("%s", e.text);
        assert_true(s->launches > 0);
        assert_int_equal(s->overlaps, i == 0 ? s->launches : 0);
    }
}

/* Where a sum has 16 bits, candidates that round the product before adding are passed over; when none is left, our own
 * kernel does it. */
static void a_sum_is_rounded_once(void **state)
{
    (void)state;
    for (int rounds = 0; rounds < 4; rounds++) { /* of three candidates */
        rt_err e = { 0 };
        fixture f;
        rt_exec *x;
        *s = FRESH;
        s->lt_rounds = rounds;
        rt_dev *d = open_ok(NULL);
        assert_int_equal(record(&f, RT_DTYPE_BF16, &e), RT_OK);
        if (rt_exec_seal(&x, d, (const rt_plan *const *)&f.plan, 1, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(strstr(s->log, "cuModuleGetFunction") != NULL, rounds == 3);
        rt_exec_free(x);
        d->api->close(d);
        forget(&f);
        assert_int_equal(s->live, 0);
    }
}

/* Packed weights are read as they are up to so many rows, and neighbours that multiply one operand are one launch. */
static void few_rows_read_packed_weights(void **state)
{
    static const struct {
        uint32_t rows;
        bool packed;
    } want[] = { { 1, true }, { 16, true }, { 17, true }, { 64, true }, { 65, false } };
    (void)state;
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        rt_err e = { 0 };
        rt_space *space;
        rt_plan *p;
        rt_exec *x;
        *s = FRESH;
        rt_dev *d = open_ok(NULL);
        assert_int_equal(rt_space_new(&space, &e), RT_OK);
        rt_view a = rt_space_buf(space, RT_CLASS_INPUT, RT_DTYPE_BF16, want[i].rows, 512, "a");
        assert_int_equal(rt_plan_new(&p, space, "packed", &rt_policy_bf16, &e), RT_OK);
        for (int k = 0; k < 2; k++) {
            rt_view w = rt_space_buf(space, RT_CLASS_PARAM, RT_DTYPE_Q4_K, 32, 512, "w");
            rt_emit_matmul(p, rt_space_buf(space, RT_CLASS_OUTPUT, RT_DTYPE_BF16, want[i].rows, 32, "y"), a, w, RT_NONE,
                           "nt", 1.0f);
        }
        if (rt_exec_seal(&x, d, (const rt_plan *const *)&p, 1, NULL, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(rt_exec_plan(x, 0)->nops == 2, want[i].packed); /* else dequantised ahead */
        if (want[i].packed) assert_int_equal(s->launches, 1);
        rt_exec_free(x);
        d->api->close(d);
        rt_plan_free(p);
        rt_space_free(space);
        assert_int_equal(s->live, 0);
    }
}

static void nothing_is_loaded_or_allocated_after_seal(void **state)
{
    fixture f;
    rt_err e = { 0 };
    rt_exec *x;
    rt_ticket t;
    rt_dev_info info;
    uint16_t w[N * K] = { 0 };
    rt_dev *d = open_ok(NULL);
    (void)state;
    assert_int_equal(record(&f, RT_DTYPE_BF16, &e), RT_OK);
    s->lazy = 1; /* what the library loads lazily is loaded by seal */
    assert_int_equal(rt_exec_seal(&x, d, (const rt_plan *const *)&f.plan, 1, NULL, &e), RT_OK);
    assert_non_null(strstr(s->log, "cuFuncLoad"));
    uint32_t sealed = s->log_len;
    int64_t live = s->live;
    uint64_t allocated = rt_alloc_count();
    for (int i = 0; i < 200; i++) { /* more than there are events */
        assert_int_equal(rt_exec_write(x, f.w, w, sizeof w, &e), RT_OK);
        assert_int_equal(rt_exec_run(x, 0, &t, &e), RT_OK);
    }
    assert_int_equal(rt_exec_wait(x, t, &e), RT_OK);
    assert_int_equal(rt_exec_wait(x, 1, &e), RT_OK);
    assert_true(rt_exec_seconds(x, &(rt_exec_timing){ t, 9 }) == 0.25);
    assert_int_equal(rt_alloc_count(), allocated);
    assert_int_equal(s->live, live);
    assert_null(strstr(s->log + sealed, "Module"));
    assert_null(strstr(s->log + sealed, "Alloc"));
    assert_null(strstr(s->log + sealed, "Load"));
    assert_null(strstr(s->log + sealed, "Capture"));
    assert_int_equal(d->api->info(d, &info, &e), RT_OK);
    assert_int_equal(info.late_loads, 0);
    /* negative control: the count does count */
    rt_cu_function fn;
    assert_int_equal(rt_cuda_function_get((rt_cuda_dev *)d, "cuda_matmul", "matmul_f32", 0, &fn, &e), RT_OK);
    assert_int_equal(d->api->info(d, &info, &e), RT_OK);
    assert_int_equal(info.late_loads, 1);
    rt_exec_free(x);
    d->api->close(d);
    forget(&f);
    assert_int_equal(s->live, 0);
}

static void code_is_measured_and_reported(void **state)
{
    fixture f;
    rt_err e = { 0 };
    rt_exec *x;
    rt_dev_info info;
    (void)state;
    s->lt_refuses = 1;
    s->module_bytes = 3 << 20;
    rt_dev *d = open_ok(NULL);
    assert_int_equal(record(&f, RT_DTYPE_BF16, &e), RT_OK);
    assert_int_equal(rt_exec_seal(&x, d, (const rt_plan *const *)&f.plan, 1, NULL, &e), RT_OK);
    assert_int_equal(d->api->info(d, &info, &e), RT_OK);
    assert_int_equal(info.module_bytes, 3 << 20);
    assert_int_equal(info.modules, 1);
    rt_exec_free(x);
    d->api->close(d);
    /* A run that would fit, were it not for its code, is refused before anything is allocated. */
    s->memory = (3 << 20) + 512;
    s->log_len = 0;
    d = open_ok(NULL);
    assert_int_equal(rt_exec_seal(&x, d, (const rt_plan *const *)&f.plan, 1, NULL, &e), RT_NOMEM);
    assert_non_null(strstr(e.text, "the device has free 512 B"));
    assert_null(strstr(s->log, "cuMemAlloc"));
    d->api->close(d);
    forget(&f);
    assert_int_equal(s->live, 0);
}

/* Every call of every function fails in turn: an error comes back, and everything made is freed. */
static void every_failure_is_reported_and_cleaned_up(void **state)
{
    const rt_dev_opts plain = { 0 }, sync = RT_DEV_OPTIONS({ "sync", "on" });
    (void)state;
    for (int mode = 0; mode < 4; mode++) {
        uint64_t failures = 0;
        for (int n = 1;; n++) {
            rt_err e = { 0 };
            uint64_t before = rt_alloc_live();
            *s = FRESH;
            s->lt_refuses = mode / 2;
            s->fail_name = "";
            s->fail_at = n;
            s->fail_result = 719;
            int rc = live_once(mode % 2 ? &sync : &plain, &e);
            assert_int_equal(s->live, 0);
            assert_int_equal(rt_alloc_live(), before);
            bool reached = !s->fail_name;
            if (!reached && rc < 0) fail_msg("call %d was not reached: %s", n, e.text);
            if (!reached) break;
            if (rc < 0) assert_true(e.text[0] != 0);
            failures += rc < 0;
        }
        assert_true(failures > 30);
    }
}

static void a_machine_that_cannot_run_it_is_told_why(void **state)
{
    (void)state;
    s->init_result = 100;
    refuses(0, NULL, RT_NO_BACKEND, "sees no NVIDIA GPU");
    s->init_result = 803;
    refuses(0, NULL, RT_NO_BACKEND, "restart the machine");
    s->init_result = 34;
    refuses(0, NULL, RT_NO_BACKEND, "stub");
    s->init_result = 999;
    refuses(0, NULL, RT_NO_BACKEND, "does nvidia-smi work?");
    fresh(NULL);
    s->devices = 0;
    refuses(0, NULL, RT_NO_BACKEND, "sees no NVIDIA GPU");
    fresh(NULL);
    s->driver_version = 11000;
    refuses(0, NULL, RT_NO_BACKEND, "too old (for CUDA 11.0): install driver 520 or newer");
    s->driver_version = 12080;
    refuses(0, NULL, RT_NO_BACKEND,
            "the driver is for CUDA 12.8 and the kernels in this binary need 13.0: install "
            "driver 580 or newer");
    fresh(NULL);
    s->capability = 70;
    refuses(0, NULL, RT_NO_BACKEND, "Stand-in 0 is sm_70; sm_75 (Turing) or newer is needed");
    fresh(NULL);
    refuses(7, NULL, RT_NO_BACKEND, "there is no cuda:7 here: the NVIDIA GPUs of this machine are numbered 0 to 0");
    refuses(0, &RT_DEV_OPTIONS({ "kernels", "ptx80" }), RT_NO_BACKEND, "sm_90 ptx_75");
    refuses(0, &RT_DEV_OPTIONS({ "kernels", "fast" }), RT_INVALID, "'fast' is no choice of kernels");
    s->driver_version = 13000;
}

/* An image that the driver does not take is no end while there is PTX, and nobody has to guess what runs. */
static void an_image_that_does_not_load_gives_way_to_ptx(void **state)
{
    static const int unfit[] = { RT_CU_INVALID_IMAGE, RT_CU_NO_BINARY };
    rt_dev_info info;
    rt_err e = { 0 };
    (void)state;
    for (int i = 0; i < 2; i++) {
        s->code_result = unfit[i];
        rt_dev *d = open_ok(NULL);
        assert_int_equal(d->api->info(d, &info, &e), RT_OK);
        assert_non_null(strstr(info.detail, "code ptx_75, run on an H200"));
        assert_memory_equal(info.warning, "sm_90 did not load (loading the kernels of cuda_", 48);
        assert_non_null(strstr(info.warning, "; ptx_75 is used"));
        assert_ptr_equal(rt_device_policy(d), &rt_policy_f32);
        s->lt_refuses = 1;
        d->api->close(d);
        assert_int_equal(s->live, 0);
    }
    s->code_result = 719; /* not the image's fault */
    refuses(0, NULL, RT_DEVICE, "loading the kernels of cuda_");
    s->code_result = 0;
    s->fail_name = "cuModuleLoadDataEx";
    s->fail_at = 1;
    s->fail_result = RT_CU_JIT_DISABLED;
    s->capability = 87; /* which takes no machine code but its own */
    refuses(0, NULL, RT_NO_BACKEND, "CUDA_DISABLE_PTX_JIT forbids");
    rt_dev *d = open_ok(NULL);
    assert_int_equal(d->api->info(d, &info, &e), RT_OK);
    assert_non_null(strstr(info.detail, "sm_87, PCI ffff:1a:00.0, code ptx_75, run on an H200, driver for CUDA 13.0"));
    assert_string_equal(info.warning, "");
    d->api->close(d);
}

static void cublaslt_is_named_or_its_absence_explained(void **state)
{
    rt_dev_info info;
    rt_err e = { 0 };
    (void)state;
    assert_int_equal(cuda()->probe(NULL, &info, 1, NULL), 1);
    assert_non_null(strstr(info.detail, "cuBLASLt 13.1.0: "));
    assert_non_null(strstr(info.detail, "standin/libcu"));
    refuses(0, &RT_DEV_OPTIONS({ "cublaslt", "/nowhere/libcublasLt.so" }), RT_NO_BACKEND,
            "--cublaslt /nowhere/libcublasLt.so");
    s->lt_version = 111100;
    refuses(0, &RT_DEV_OPTIONS({ "cublaslt", "libcublasLt.so.13" }), RT_NO_BACKEND, "is cuBLASLt 11.11; 12.0 or newer");
    s->lt_version = 140000;
    s->lt_cudart = 14000;
    refuses(0, &RT_DEV_OPTIONS({ "cublaslt", "libcublasLt.so.13" }), RT_NO_BACKEND,
            "is cuBLASLt 14.0, which needs a driver for CUDA 14; this one is for 13.0");
    fresh(NULL);
    rt_dev *d = open_ok(&RT_DEV_OPTIONS({ "cublaslt", "none" }));
    assert_int_equal(d->api->info(d, &info, &e), RT_OK);
    assert_non_null(strstr(info.detail, "no cuBLASLt, GEMMs by our own kernels"));
    d->api->close(d);
    s->fail_name = "cublasLtCreate";
    s->fail_at = 1;
    s->fail_result = 1;
    refuses(0, NULL, RT_DEVICE, "starting cuBLASLt: played status");
}

static void memory_follows_class_and_wish(void **state)
{
    static const char *const managed[] = { "HOME=/", "MANAGED_MEMORY=1", NULL }, *const device[] = { "MANAGED_MEMORY=0",
                                                                                                     NULL };
    static const struct {
        int integrated, failed;
        const char *const *env;
        const char *asked;
        bool want_managed;
    } table[] = { { 0, 0, NULL, NULL, false },    { 1, 0, NULL, NULL, true },      { 1, 1, NULL, "auto", false },
                  { 0, 0, managed, NULL, true },  { 1, 0, device, "auto", false }, { 1, 0, managed, "device", false },
                  { 0, 0, NULL, "managed", true } };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rt_err e = { 0 };
        *s = FRESH;
        s->integrated = table[i].integrated;
        s->integrated_result = table[i].failed;
        rt_dev_opts o = RT_DEV_OPTIONS({ "device-memory", table[i].asked });
        o.env = table[i].env;
        if (live_once(&o, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(strstr(s->log, "cuMemAllocManaged") != NULL, table[i].want_managed);
        assert_int_equal(strstr(s->log, "cuMemAlloc_v2") != NULL, !table[i].want_managed);
    }
}

static void bytes_arrive_whole_and_in_order(void **state)
{
    enum { BYTES = 3 * RT_CUDA_STAGE_BYTES + 12345 };
    rt_err e = { 0 };
    rt_mem *m;
    rt_ticket t;
    (void)state;
    rt_dev *d = open_ok(NULL);
    uint8_t *from = rt_alloc(BYTES, 16), *to = rt_alloc_zero(BYTES, 16);
    for (uint32_t i = 0; i < BYTES; i++) from[i] = (uint8_t)(i * 2654435761u >> 24);
    assert_int_equal(d->api->mem_new(d, BYTES + 100, RT_MEM_DEVICE, &m, &e), RT_OK);
    rt_copy c = { m, 77, BYTES, from, true };
    assert_int_equal(d->api->copy(d, &c, &t, &e), RT_OK);
    c = (rt_copy){ m, 77, BYTES, to, false };
    assert_int_equal(d->api->copy(d, &c, &t, &e), RT_OK);
    assert_int_equal(d->api->wait(d, t, &e), RT_OK);
    assert_memory_equal(from, to, BYTES);
    c.off = 101;
    assert_int_equal(d->api->copy(d, &c, &t, &e), RT_INTERNAL);
    assert_int_equal(d->api->mem_new(d, 9ull << 30, RT_MEM_DEVICE, &(rt_mem *){ NULL }, &e), RT_NOMEM);
    assert_non_null(strstr(e.text, "allocating 9.00 GiB of device memory: out of memory"));
    d->api->mem_free(d, m);
    rt_free(from);
    rt_free(to);
    d->api->close(d);
    assert_int_equal(s->live, 0);
}

/* What was asked for is what was there then, though the stages have been used again before anybody waits. */
static void downloads_wait_in_stages(void **state)
{
    enum { COUNT = 24, BYTES = 1 << 20, TURNS = 2 * RT_CUDA_STAGES };
    rt_err e = { 0 };
    rt_mem *m;
    rt_ticket t = 0;
    (void)state;
    rt_dev *d = open_ok(NULL);
    uint8_t *from = rt_alloc(RT_CUDA_STAGE_BYTES, 16), *to = rt_alloc_zero(COUNT * BYTES, 16);
    assert_int_equal(d->api->mem_new(d, RT_CUDA_STAGE_BYTES, RT_MEM_DEVICE, &m, &e), RT_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t bytes = i % 3 == 0 ? RT_CUDA_LETTER_BYTES : BYTES - 1000 * i;
        memset(from, (int)i + 1, BYTES);
        assert_int_equal(d->api->copy(d, &(rt_copy){ m, 0, BYTES, from, true }, NULL, &e), RT_OK);
        assert_int_equal(d->api->copy(d, &(rt_copy){ m, 0, bytes, to + i * BYTES, false }, &t, &e), RT_OK);
    }
    memset(from, 255, RT_CUDA_STAGE_BYTES);
    for (uint32_t i = 0; i < TURNS; i++)
        assert_int_equal(d->api->copy(d, &(rt_copy){ m, 0, RT_CUDA_STAGE_BYTES, from, true }, NULL, &e), RT_OK);
    assert_int_equal(d->api->wait(d, t, &e), RT_OK);
    for (uint32_t i = 0; i < COUNT; i++) {
        uint32_t bytes = i % 3 == 0 ? RT_CUDA_LETTER_BYTES : BYTES - 1000 * i;
        for (uint32_t k = 0; k < BYTES; k += 63) assert_int_equal(to[i * BYTES + k], k < bytes ? i + 1 : 0);
    }
    d->api->mem_free(d, m);
    rt_free(from);
    rt_free(to);
    d->api->close(d);
    assert_int_equal(s->live, 0);
}

static void a_fault_names_its_op_when_asked(void **state)
{
    rt_err e = { 0 };
    fixture f;
    rt_exec *x;
    rt_ticket t;
    (void)state;
    for (int sync = 0; sync < 2; sync++) {
        *s = FRESH;
        rt_dev *d = open_ok(&RT_DEV_OPTIONS({ "sync", sync ? "on" : "off" }));
        assert_int_equal(record(&f, RT_DTYPE_BF16, &e), RT_OK);
        assert_int_equal(rt_exec_seal(&x, d, (const rt_plan *const *)&f.plan, 1, NULL, &e), RT_OK);
        s->fail_name = sync ? "cuStreamSynchronize" : "cuEventSynchronize";
        s->fail_at = sync ? 2 : 1; /* behind the second product */
        s->fail_result = 700;
        int rc = rt_exec_run(x, 0, &t, &e);
        if (rc >= 0) rc = rt_exec_wait(x, t, &e);
        assert_int_equal(rc, RT_DEVICE);
        assert_non_null(strstr(e.text, "illegal memory access"));
        assert_non_null(strstr(e.text, sync ? "op 1 (matmul)" : "--sync names the op"));
        rt_exec_free(x);
        d->api->close(d);
        forget(&f);
    }
    assert_int_equal(s->live, 0);
}

static void devices_have_names(void **state)
{
    rt_dev *d;
    rt_err e = { 0 };
    char why[RT_DEV_WHY];
    (void)state;
    s->devices = 2;
    assert_int_equal(rt_device_open(&d, "auto", &(rt_dev_opts){ 0 }, why, &e), RT_OK);
    assert_string_equal(d->api->name, "cuda");
    assert_string_equal(why, "");
    assert_ptr_equal(rt_device_policy(d), &rt_policy_bf16);
    d->api->close(d);
    assert_int_equal(rt_device_open(&d, "cuda:1", &(rt_dev_opts){ 0 }, NULL, &e), RT_OK);
    assert_string_equal(((rt_cuda_dev *)d)->name, "Stand-in 1");
    d->api->close(d);
    assert_int_equal(rt_device_open(&d, "cuda:2", &(rt_dev_opts){ 0 }, NULL, &e), RT_NO_BACKEND);
    assert_non_null(strstr(e.text, "numbered 0 to 1"));
    assert_int_equal(rt_device_open(&d, "cuda:", &(rt_dev_opts){ 0 }, NULL, &e), RT_USAGE);
    assert_int_equal(rt_device_open(&d, "cuda:x", &(rt_dev_opts){ 0 }, NULL, &e), RT_USAGE);
    assert_int_equal(rt_device_open(&d, "cuda:-1", &(rt_dev_opts){ 0 }, NULL, &e), RT_USAGE);
    assert_int_equal(rt_device_open(&d, "gpu", &(rt_dev_opts){ 0 }, NULL, &e), RT_NO_BACKEND);
    s->devices = 0;
    assert_int_equal(rt_device_open(&d, NULL, &RT_DEV_OPTIONS({ "threads", "1" }), why, &e), RT_OK);
    assert_string_equal(d->api->name, "cpu");
    assert_int_equal(strncmp(why, "the driver sees no NVIDIA GPU", 29), 0); /* then of Vulkan */
    assert_ptr_equal(rt_device_policy(d), &rt_policy_f32);
    d->api->close(d);
    s->devices = 1;
    s->capability = 75; /* by its PTX; bf16 has no tensor cores there */
    assert_int_equal(rt_device_open(&d, "cuda", &(rt_dev_opts){ 0 }, NULL, &e), RT_OK);
    assert_ptr_equal(rt_device_policy(d), &rt_policy_f32);
    d->api->close(d);
}

/* What cannot be used is passed over, with a word; what was asked for by an option of CUDA is not. */
static void auto_takes_what_can_be_used(void **state)
{
    const rt_dev_opts none = { 0 };
    rt_dev *d;
    rt_err e = { 0 };
    char why[RT_DEV_WHY];
    (void)state;
    s->devices = 3;
    s->first_capability = 70;
    assert_int_equal(rt_device_open(&d, "auto", &none, why, &e), RT_OK);
    assert_string_equal(((rt_cuda_dev *)d)->name, "Stand-in 1");
    assert_string_equal(why, "cuda:0 is passed over: Stand-in 0 is sm_70; sm_75 (Turing) or newer is needed");
    d->api->close(d);
    s->fail_name = "cuDevicePrimaryCtxRetain"; /* and the second is taken */
    s->fail_at = 1;
    s->fail_result = RT_CU_OUT_OF_MEMORY;
    assert_int_equal(rt_device_open(&d, NULL, &none, why, &e), RT_OK);
    assert_string_equal(((rt_cuda_dev *)d)->name, "Stand-in 2");
    assert_non_null(strstr(why, "needed; cuda:1 is passed over: starting Stand-in 1: out of memory"));
    d->api->close(d);
    s->code_result = RT_CU_NO_BINARY; /* nor PTX, by the settings of the driver */
    s->fail_name = "cuModuleLoadDataEx";
    s->fail_at = 2;
    s->fail_result = RT_CU_JIT_DISABLED;
    s->devices = 2;
    assert_int_equal(rt_device_open(&d, "auto", &RT_DEV_OPTIONS({ "threads", "1" }), why, &e), RT_OK);
    assert_string_equal(d->api->name, "cpu");
    assert_non_null(strstr(why, "cuda:1 is passed over: sm_90 did not load ("));
    assert_non_null(strstr(why, "CUDA_DISABLE_PTX_JIT"));
    d->api->close(d);
    s->code_result = 0; /* options that only CUDA takes */
    assert_int_equal(rt_device_open(&d, "auto", &RT_DEV_OPTIONS({ "kernels", "ptx60" }), why, &e), RT_NO_BACKEND);
    assert_non_null(strstr(e.text, "Stand-in 0 is sm_70"));
    s->first_capability = 0;
    assert_int_equal(rt_device_open(&d, "auto", &RT_DEV_OPTIONS({ "kernels", "ptx60" }), why, &e), RT_NO_BACKEND);
    assert_non_null(strstr(e.text, "none of which this GPU (sm_90) can run as asked for"));
    assert_int_equal(rt_device_open(&d, "auto", &RT_DEV_OPTIONS({ "kernels", "fast" }), why, &e), RT_INVALID);
    assert_int_equal(rt_device_open(&d, "cuda:1", &RT_DEV_OPTIONS({ "kernels", "ptx60" }), why, &e), RT_NO_BACKEND);
    assert_int_equal(s->live, 0);
}

/* Devices that have failed before are left alone, by name or not; from one that is named the ladder goes down. */
static void what_is_left_out_is_not_taken(void **state)
{
    rt_dev *d;
    rt_err e = { 0 };
    char why[RT_DEV_WHY];
    (void)state;
    s->devices = 3;
    const struct {
        const char *name, *left_out, *taken;
        uint32_t index;
    } cases[] = { { "auto", "cuda:0", "cuda", 1 },         { "auto", "cuda:0 cuda:1", "cuda", 2 },
                  { "auto", "cuda:10 vulkan", "cuda", 0 }, { "cuda", "cuda:0", "cuda", 1 },
                  { "cuda:1", "cuda:1", "cuda", 2 },       { "cuda:1", "", "cuda", 1 },
                  { "cuda:2", "cuda:2", "cpu", 0 },        { NULL, "cuda", "cpu", 0 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const rt_dev_opts o = { .left_out = cases[i].left_out };
        if (rt_device_open(&d, cases[i].name, &o, why, &e) < 0) fail_msg("%zu: %s", i, e.text);
        assert_string_equal(d->api->name, cases[i].taken);
        assert_int_equal(d->index, cases[i].index);
        d->api->close(d);
    }
    s->fail_name = "cuDevicePrimaryCtxRetain";
    s->fail_at = 1;
    s->fail_result = RT_CU_OUT_OF_MEMORY;
    assert_int_equal(rt_device_open(&d, "cuda:1", &(rt_dev_opts){ .left_out = "" }, why, &e), RT_OK);
    assert_int_equal(d->index, 2);
    assert_non_null(strstr(why, "cuda:1 is passed over: starting Stand-in 1"));
    d->api->close(d);
    assert_int_equal(rt_device_open(&d, NULL, &(rt_dev_opts){ .left_out = "cuda vulkan cpu ref" }, why, &e),
                     RT_NO_BACKEND);
    assert_int_equal(s->live, 0);
}

/* ---- host memory ---- */

static int64_t allocations_left;
static void *few(void *ctx, size_t bytes, size_t align)
{
    (void)ctx;
    return allocations_left-- > 0 ? aligned_alloc(align, (bytes + align - 1) / align * align) : NULL;
}
static void give(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

static void every_allocation_may_fail(void **state)
{
    static const rt_allocator failing = { few, give, NULL };
    rt_err e = { 0 };
    int rc = RT_NOMEM, n;
    (void)state;
    rt_allocator_set(&failing);
    for (n = 0; rc < 0 && n < 1000; n++) {
        allocations_left = n;
        e = (rt_err){ 0 };
        rc = live_once(NULL, &e);
        assert_true(rc >= 0 || rc == RT_NOMEM || rc == RT_NO_BACKEND);
        assert_int_equal(s->live, 0);
    }
    rt_allocator_set(NULL);
    assert_int_equal(rc, RT_OK);
    assert_true(n > 10);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, fresh)
    const struct CMUnitTest tests[] = {
        T(code_first_then_memory_then_weights),
        T(the_identity_has_the_numbers),
        T(launches_overlap),
        T(a_sum_is_rounded_once),
        T(few_rows_read_packed_weights),
        T(nothing_is_loaded_or_allocated_after_seal),
        T(code_is_measured_and_reported),
        T(every_failure_is_reported_and_cleaned_up),
        T(every_allocation_may_fail),
        T(a_machine_that_cannot_run_it_is_told_why),
        T(an_image_that_does_not_load_gives_way_to_ptx),
        T(cublaslt_is_named_or_its_absence_explained),
        T(memory_follows_class_and_wish),
        T(bytes_arrive_whole_and_in_order),
        T(downloads_wait_in_stages),
        T(a_fault_names_its_op_when_asked),
        T(devices_have_names),
        T(auto_takes_what_can_be_used),
        T(what_is_left_out_is_not_taken),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
