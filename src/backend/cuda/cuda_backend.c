/* cuda_backend.c - NVIDIA GPUs as devices: probe, open, what they are, what they support.
 *
 * Owns: the order in which a device is opened and closed, and every message of a machine that cannot run this backend.
 * Leaves to others: what it can be told (cuda_options.c), memory and copies (cuda_memory.c), code (cuda_module.c),
 * programs (cuda_program.c), GEMMs (cuda_gemm.c), decisions (cuda_policy.c). */
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_policy.h"
#include "base/file.h"
#include "base/hash.h"
#include "base/sys.h"

#include <stdio.h>
#include <string.h>

extern const rt_backend rt_backend_cuda; /* for registry.c */

int rt_cuda_enter(rt_cuda_dev *d, rt_err *e)
{
    return rt_cuda_status(&d->cu, d->cu.context_set(d->context), e, "using %s", d->name);
}

/* ---- what there is ---- */

/* The driver, kernels for it, and how many GPUs it sees: RT_NO_BACKEND says what is missing. */
static int look(rt_cuda_driver *cu, rt_cuda_images *images, int *count, rt_err *e)
{
    int rc;
    *cu = (rt_cuda_driver){ 0 };
    *images = rt_cuda_images_own();
    if (images->count == 0)
        RT_TRY(rt_fail(e, RT_NO_BACKEND,
                       "the kernels were left out of this binary: it was built without nvcc; install CUDA's compiler "
                       "and run make again"));
    RT_TRY(rt_cuda_driver_open(cu, e));
    RT_TRY(rt_cuda_status(cu, cu->device_count(count), e, "counting GPUs"));
    if (*count == 0) RT_TRY(rt_fail(e, RT_NO_BACKEND, "the driver sees no NVIDIA GPU"));
    if (!rt_cuda_driver_loads(cu->version, images->built, false))
        RT_TRY(rt_fail(
            e, RT_NO_BACKEND,
            "the driver is for CUDA %d.%d and the kernels in this binary need %d.0: install driver %d or newer",
            cu->version / 1000, cu->version % 1000 / 10, images->built / 1000, rt_cuda_driver_branch(images->built)));
out:
    return rc;
}

typedef struct gpu {
    rt_cu_device device;
    char name[96], pci[16]; /* "0000:1b:00.0" */
    uint32_t sm;
    uint64_t total;
    rt_mem_kind by_class;
} gpu;

static int read_gpu(const rt_cuda_driver *cu, int index, gpu *g, rt_err *e)
{
    int rc, major = 0, minor = 0, integrated = 0;
    size_t total = 0;
    *g = (gpu){ 0 };
    RT_TRY(rt_cuda_status(cu, cu->device_get(&g->device, index), e, "GPU %d", index));
    RT_TRY(rt_cuda_status(cu, cu->device_name(g->name, sizeof g->name, g->device), e, "GPU %d", index));
    RT_TRY(rt_cuda_status(cu, cu->device_attribute(&major, RT_CU_ATTR_CAPABILITY_MAJOR, g->device), e, "%s", g->name));
    RT_TRY(rt_cuda_status(cu, cu->device_attribute(&minor, RT_CU_ATTR_CAPABILITY_MINOR, g->device), e, "%s", g->name));
    RT_TRY(rt_cuda_status(cu, cu->device_memory(&total, g->device), e, "%s", g->name));
    if (cu->device_pci(g->pci, sizeof g->pci, g->device) != RT_CU_SUCCESS) g->pci[0] = 0;
    for (char *c = g->pci; *c; c++) *c = *c >= 'A' && *c <= 'F' ? (char)(*c + 32) : *c; /* as the system writes it */
    bool known = cu->device_attribute(&integrated, RT_CU_ATTR_INTEGRATED, g->device) == RT_CU_SUCCESS;
    g->by_class = rt_cuda_classify_memory(known, integrated);
    g->sm = (uint32_t)(10 * major + minor);
    g->total = total;
out:
    return rc;
}

static int usable(const gpu *g, rt_err *e)
{
    if (g->sm >= RT_CUDA_LEAST_SM) return RT_OK;
    return rt_fail(e, RT_NO_BACKEND, "%s is sm_%u; sm_%d (Turing) or newer is needed", g->name, g->sm,
                   RT_CUDA_LEAST_SM);
}

/* "PCI 0000:1b:00.0 10de:2335, ": where it is, and what the system says is there. Empty when the driver does not say.
 */
static void pci_text(char *out, size_t size, const gpu *g)
{
    static const char *const files[] = { "vendor", "device" };
    char path[96];
    rt_str id[2] = { { 0 } };
    out[0] = 0;
    for (int i = 0; i < 2 && g->pci[0]; i++) {
        snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/%s", g->pci, files[i]);
        if (rt_file_read(path, 64, &id[i], NULL) < 0 || id[i].len < 6 || memcmp(id[i].data, "0x", 2) != 0)
            id[i].len = 0;
    }
    if (g->pci[0] && id[0].len && id[1].len)
        snprintf(out, size, "PCI %s %.4s:%.4s, ", g->pci, id[0].data + 2, id[1].data + 2);
    else if (g->pci[0])
        snprintf(out, size, "PCI %s, ", g->pci);
    rt_str_free(&id[0]);
    rt_str_free(&id[1]);
}

/* Which code it takes, and whether code of that architecture has ever run. */
static void code_text(char *out, size_t size, const rt_cuda_arch *arch)
{
    const char *proof = rt_cuda_images_proof(*arch);
    snprintf(out, size, "code %s_%u, %s, ", arch->ptx ? "ptx" : "sm", arch->sm,
             proof ? proof : "compiled and never run: retort verify --backend cuda runs it");
    if (!arch->sm) out[0] = 0;
}

typedef struct facts {
    const rt_cuda_driver *cu;
    const rt_cuda_lt *lt;
    const char *no_lt;
    rt_mem_kind memory;
    rt_cuda_arch arch; /* sm 0: not known */
} facts;

static void describe(rt_dev_info *out, const gpu *g, const facts *f)
{
    const int version = f->cu->version;
    const rt_cuda_lt *lt = f->lt;
    char pci[48], code[96];
    *out = (rt_dev_info){ .memory_total = g->total };
    snprintf(out->name, sizeof out->name, "%s", g->name);
    pci_text(pci, sizeof pci, g);
    code_text(code, sizeof code, &f->arch);
    size_t n =
        (size_t)snprintf(out->detail, sizeof out->detail, "sm_%u, %s%sdriver for CUDA %d.%d, %s memory", g->sm, pci,
                         code, version / 1000, version % 1000 / 10, f->memory == RT_MEM_MANAGED ? "managed" : "device");
    if (n >= sizeof out->detail) return;
    if (lt->lib.handle)
        snprintf(out->detail + n, sizeof out->detail - n, ", cuBLASLt %u.%u.%u: %.250s", lt->version / 10000,
                 lt->version / 100 % 100, lt->version % 100, lt->lib.path);
    else
        snprintf(out->detail + n, sizeof out->detail - n, ", no cuBLASLt, GEMMs by our own kernels: %.150s", f->no_lt);
}

static rt_mem_kind memory_kind(const rt_cuda_options *o, const gpu *g)
{
    return rt_cuda_memory_kind((rt_cuda_memory)o->memory, rt_dev_env(o->env, "MANAGED_MEMORY"), g->by_class);
}

static int probe(const rt_dev_opts *o, rt_dev_info *out, int cap, char *why)
{
    rt_cuda_driver cu;
    rt_cuda_images images;
    rt_cuda_lt lt = { 0 };
    rt_cuda_options own;
    rt_err e = { 0 }, no_lt = { 0 };
    gpu g;
    int count = 0, good = 0;
    if (look(&cu, &images, &count, &e) >= 0 && rt_cuda_options_read(&own, o, &e) >= 0) {
        if (cap > 0) rt_cuda_lt_open(&lt, &own, cu.version, &no_lt);
        for (int i = 0; i < count; i++) {
            facts f = { .cu = &cu, .lt = &lt, .no_lt = no_lt.text };
            int rc = read_gpu(&cu, i, &g, &e);
            if (rc >= 0) rc = usable(&g, &e);
            if (rc >= 0) good++;
            if (rc >= 0) rc = rt_cuda_images_choose(&images, g.sm, own.kernels, &f.arch, &e);
            if (i >= cap) continue;
            f.memory = memory_kind(&own, &g);
            describe(&out[i], &g, &f);
            if (!o || (!o->unnamed && !o->left_out)) /* nobody looks for a device to open */
                rt_cuda_ranks_probe(&own, out[i].ranks, sizeof out[i].ranks);
            out[i].memory_free = g.total; /* what is free is known once the device is open */
            if (rc < 0) snprintf(out[i].detail, sizeof out[i].detail, "not usable: %.300s", e.text);
        }
    }
    rt_cuda_lt_close(&lt);
    rt_cuda_driver_close(&cu);
    if (why) snprintf(why, 160, "%.159s", good ? "" : e.text);
    return good ? count : 0;
}

/* ---- open and close ---- */

static void close_dev(rt_dev *dev)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    if (!d) return;
    if (d->context) {
        rt_cuda_enter(d, NULL);
        if (d->stream) d->cu.stream_wait(d->stream);
        rt_cuda_tune_write(d);
        rt_cuda_gemms_free(d);
        if (d->lt_handle) d->lt.destroy(d->lt_handle);
        rt_cuda_modules_free(d);
        rt_cuda_stages_free(d);
        rt_cuda_queue_close(d);
        rt_cuda_ranks_close(d);
        if (d->stream) d->cu.stream_free(d->stream);
        d->cu.context_release(d->device);
    }
    rt_cuda_tuned_free(&d->tune.own);
    rt_cuda_tuned_free(&d->tune.shared);
    rt_cuda_lt_close(&d->lt);
    rt_cuda_driver_close(&d->cu);
    rt_free(d);
}

static int open_lt(rt_cuda_dev *d, const rt_cuda_options *o, rt_err *e)
{
    int rc;
    rt_err why = { 0 };
    if (o->cublaslt && strcmp(o->cublaslt, "none") == 0) {
        snprintf(d->no_lt, sizeof d->no_lt, "it was asked not to be used");
        return RT_OK;
    }
    rc = rt_cuda_lt_open(&d->lt, o, d->cu.version, &why);
    if (rc >= 0) return rt_cuda_lt_status(&d->lt, d->lt.create(&d->lt_handle), "starting cuBLASLt", e);
    if (o->cublaslt) return rt_fail(e, RT_NO_BACKEND, "--cublaslt %s: %s", o->cublaslt, why.text);
    snprintf(d->no_lt, sizeof d->no_lt, "%.150s", why.text);
    return RT_OK;
}

static int read_caps(rt_cuda_dev *d, rt_err *e)
{
    int rc, sms = 0, shared = 0;
    RT_TRY(
        rt_cuda_status(&d->cu, d->cu.device_attribute(&sms, RT_CU_ATTR_MULTIPROCESSORS, d->device), e, "%s", d->name));
    RT_TRY(
        rt_cuda_status(&d->cu, d->cu.device_attribute(&shared, RT_CU_ATTR_SHARED_OPTIN, d->device), e, "%s", d->name));
    d->caps = (rt_cuda_caps){ d->arch.sm, (uint32_t)sms, (uint32_t)shared, d->arch.ptx, d->cu.tensor_map != NULL };
out:
    return rc;
}

/* Whether a variable of the environment is 1. */
static bool is_on(const rt_cuda_options *o, const char *name)
{
    const char *value = rt_dev_env(o->env, name);
    return value && strcmp(value, "1") == 0;
}

static int start(rt_cuda_dev *d, const rt_cuda_options *o, rt_err *e)
{
    int rc;
    size_t left = 0, total = 0;
    RT_TRY(rt_cuda_status(&d->cu, d->cu.context_retain(&d->context, d->device), e, "starting %s", d->name));
    RT_TRY(rt_cuda_enter(d, e));
    if (!o->kernels || strcmp(o->kernels, "auto") == 0) RT_TRY(rt_cuda_arch_settle(d, e));
    RT_TRY(read_caps(d, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.stream_new(&d->stream, RT_CU_STREAM_NON_BLOCKING), e, "making a stream"));
    RT_TRY(rt_cuda_stages_new(d, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.memory_info(&left, &total), e, "asking for free memory"));
    d->context_bytes = total - left;
    RT_TRY(open_lt(d, o, e));
    if (is_on(o, "RETORT_NCCL_ALONE")) RT_TRY(rt_cuda_meet_alone(d, e));
out:
    return rc;
}

static int open_dev(rt_dev **out, int index, const rt_dev_opts *o, rt_err *e)
{
    int rc, count = 0;
    gpu g;
    rt_cuda_options own;
    *out = NULL;
    rt_cuda_dev *d = rt_alloc_zero(sizeof *d, 16);
    if (!d) return rt_fail(e, RT_NOMEM, "no memory for a device");
    d->base.api = &rt_backend_cuda;
    RT_TRY(rt_cuda_options_read(&own, o, e));
    RT_TRY(look(&d->cu, &d->images, &count, e));
    if (index < 0 || index >= count)
        RT_TRY(rt_fail(e, RT_NO_BACKEND,
                       "there is no cuda:%d here: the NVIDIA GPUs of this machine are numbered 0 to %d", index,
                       count - 1));
    RT_TRY(read_gpu(&d->cu, index, &g, e));
    RT_TRY(usable(&g, e));
    RT_TRY(rt_cuda_images_choose(&d->images, g.sm, own.kernels, &d->arch, e));
    if (!rt_cuda_driver_loads(d->cu.version, d->images.built, d->arch.ptx))
        RT_TRY(
            rt_fail(e, RT_NO_BACKEND,
                    "the driver is for CUDA %d.%d and cannot compile the PTX of CUDA %d.%d for %s: install a newer one",
                    d->cu.version / 1000, d->cu.version % 1000 / 10, d->images.built / 1000,
                    d->images.built % 1000 / 10, g.name));
    memcpy(d->name, g.name, sizeof d->name);
    memcpy(d->pci, g.pci, sizeof d->pci);
    d->device = g.device;
    d->gpu = g.sm;
    d->total = g.total;
    d->by_class = g.by_class;
    d->memory = memory_kind(&own, &g);
    d->sync = own.sync;
    d->env = own.env;
    d->nccl_asked = rt_dev_env(own.env, "RETORT_NCCL");
    d->nccl_algo = rt_dev_env(own.env, "NCCL_ALGO");
    d->hang_seconds = rt_dev_env(own.env, "RETORT_NCCL_SECONDS");
    d->fast_sums = is_on(&own, "RETORT_FP8_FAST_SUMS");
    rt_cuda_tune_begin(d, &own);
    RT_TRY(start(d, &own, e));
    *out = &d->base;
    return RT_OK;
out:
    close_dev(&d->base);
    return rc;
}

/* ---- facts of an open device ---- */

static int info(rt_dev *dev, rt_dev_info *out, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc;
    size_t left = 0, total = 0;
    rt_sys_memory system;
    gpu g = { .sm = d->gpu, .total = d->total };
    const facts f = { &d->cu, &d->lt, d->no_lt, d->memory, d->arch };
    const rt_cuda_numbers *n = rt_cuda_numbers_of(d->gpu);
    memcpy(g.name, d->name, sizeof g.name);
    memcpy(g.pci, d->pci, sizeof g.pci);
    describe(out, &g, &f);
    if (d->instead[0])
        snprintf(out->warning, sizeof out->warning, "%.120s; %s_%u is used", d->instead, d->arch.ptx ? "ptx" : "sm",
                 d->arch.sm);
    else if (d->fast_sums)
        snprintf(out->warning, sizeof out->warning,
                 "RETORT_FP8_FAST_SUMS is set: e4m3 GEMMs add up fast and less exactly; unset it to train");
    RT_TRY(rt_cuda_enter(d, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.memory_info(&left, &total), e, "asking for free memory"));
    rt_sys_memory_query(&system);
    out->memory_free = rt_cuda_budget(d->by_class, left, d->total, system.available);
    out->positions = n->positions;
    out->byte_flops = n->byte_flops;
    out->op_flops = n->op_mflops * 1e6;
    out->host_byte_flops = n->host_byte_flops;
    out->fp8_cost = rt_cuda_fp8_cost(d->gpu, d->arch.sm, d->lt_handle ? d->lt.version : 0);
    out->head_bytes = rt_cuda_head_bytes(d->gpu, d->total);
    out->context_bytes = d->context_bytes;
    out->module_bytes = d->module_bytes;
    out->modules = d->nmodules;
    out->late_loads = d->late;
    if (d->memory == RT_MEM_DEVICE && d->by_class == RT_MEM_DEVICE && total - left > d->context_bytes)
        out->taken_bytes = total - left - d->context_bytes;
    out->own_bytes = d->own_bytes;
    snprintf(out->ranks, sizeof out->ranks, "%s", rt_cuda_ranks_text(d));
    rt_cuda_tune_text(d, out->tuning, sizeof out->tuning);
out:
    return rc;
}

static const rt_policy *policy(rt_dev *dev) { return rt_cuda_precision(((rt_cuda_dev *)dev)->caps.sm); }

/* Of the kernels that this device uses and of how their work is cut. Machine code decides bits; so does the compiler
 * inside the driver for PTX. */
static void identity(rt_dev *dev, rt_str *out)
{
    const rt_cuda_dev *d = (const rt_cuda_dev *)dev;
    char hex[33];
    rt_hash128 h = { 0 };
    for (uint32_t i = 0; i < d->images.count; i++) {
        const rt_cuda_image *m = &d->images.list[i];
        if (m->sm != d->arch.sm || m->ptx != d->arch.ptx) continue;
        rt_hash128 one = rt_hash(d->images.block + m->offset, m->bytes);
        h.hi ^= one.hi;
        h.lo ^= one.lo;
    }
    rt_str_printf(out, "cuda %s sm_%u, %u multiprocessors; kernels %s_%u %s", d->name, d->gpu, d->caps.sms,
                  d->arch.ptx ? "ptx" : "sm", d->arch.sm, rt_hash_text(hex, h));
    if (d->arch.ptx) rt_str_printf(out, " compiled by a driver for CUDA %d", d->cu.version);
    h = rt_hash(rt_cuda_numbers_of(d->arch.sm), sizeof(rt_cuda_numbers));
    rt_str_printf(out, "; numbers %.8s", rt_hash_text(hex, h));
    if (d->lt_handle) rt_str_printf(out, "; cuBLASLt %u", d->lt.version);
    rt_cuda_ranks_identity(d, out);
}

static bool supports(rt_dev *dev, const rt_plan *p, const rt_op *op, rt_need *need)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    const rt_cuda_op *entry = rt_cuda_op_find(op->kind);
    *need = (rt_need){ 0 };
    RT_FOR_SLOTS (i, op->kind) {
        const rt_slot_spec *slot = &rt_op_specs[op->kind].slot[i];
        if (!op->slot[i].buf || slot->rule == RT_RULE_ANY || rt_plan_dtype(p, op->slot[i]) != RT_DTYPE_F64) continue;
        snprintf(need->why_not, sizeof need->why_not, "%s is f64: cuda computes in f32; f64 is for ref", slot->name);
        return false;
    }
    return rt_cuda_enter(d, NULL) >= 0 && entry->need(&d->caps, p, op, need);
}

const rt_backend rt_backend_cuda = {
    .name = "cuda",
    .async = true,
    .alike = true,
    .queues = true,
    .queue_times = rt_cuda_queue_times,
    .options = rt_cuda_option_table,
    .probe = probe,
    .open = open_dev,
    .close = close_dev,
    .info = info,
    .policy = policy,
    .mem_new = rt_cuda_mem_new,
    .mem_free = rt_cuda_mem_free,
    .copy = rt_cuda_mem_copy,
    .supports = supports,
    .meet = rt_cuda_meet,
    .prepare = rt_cuda_prepare,
    .seal = rt_cuda_seal,
    .run = rt_cuda_run,
    .wait = rt_cuda_wait,
    .seconds = rt_cuda_seconds,
    .prog_free = rt_cuda_prog_free,
    .identity = identity,
    .choices_write = rt_cuda_choices_write,
    .choices_read = rt_cuda_choices_read,
};
