/* cpu_backend.c - the CPU as a device: probe, open, what it supports, sealed programs, running them.
 *
 * Owns: the device (a pool of threads and one table of kernels), the program (bound ops beside the functions that run
 * them), the identity of both. Leaves to others: memory and copies (host.c), which instruction sets there are
 * (cpu_dispatch.c), the kernels. Everything runs on the calling thread and the pool, so a ticket is done when given. */
#include "backend/cpu/cpu_gemm_cut.h"
#include "backend/cpu/cpu_texts.h"

#include "base/sys.h"

#include <cblas.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>

extern const rt_backend rt_backend_cpu; /* for registry.c */

enum { THREADS_MAX = 1024, CPU_NAME = 64 };

/* What it can be told. */
typedef struct cpu_options {
    uint32_t threads; /* 0: the cores that this process may use */
    const char *isa;  /* null: the best that this machine has; else a name of cpu_dispatch.c */
} cpu_options;

static const rt_dev_option_info option_table[] = {
    { "--threads", RT_DEV_OPTION_COUNT, offsetof(cpu_options, threads), NULL, "N",
      "CPU threads (default: cores this process may use)" },
    { "--isa", RT_DEV_OPTION_TEXT, offsetof(cpu_options, isa), NULL, "ISA",
      "CPU instruction set (default: the best here; see retort doctor)" },
    { 0 },
};

typedef struct cpu_dev {
    rt_dev base;
    rt_cpu_ctx ctx;
    const rt_cpu_isa *isa;
    const rt_cpu_texts *texts;
    char name[CPU_NAME];
} cpu_dev;

typedef struct cpu_step {
    rt_cpu_fn fn;
    rt_bound_op op;
} cpu_step;

struct rt_prog {
    cpu_step *steps; /* null when there are none */
    uint32_t nsteps;
};

/* ---- facts ---- */

static void fill_info(rt_dev_info *out, const char *cpu, uint32_t threads, const rt_cpu_isa *isa)
{
    rt_sys_memory memory;
    rt_sys_memory_query(&memory);
    *out = (rt_dev_info){ .memory_total = memory.total, .memory_free = memory.available, .host = true };
    snprintf(out->name, sizeof out->name, "%s, %u thread%s, %s", cpu, threads, threads == 1 ? "" : "s", isa->name);
    snprintf(out->detail, sizeof out->detail, "%s, core %s", openblas_get_config(), openblas_get_corename());
    rt_cpu_blas_warning(out->warning, sizeof out->warning);
}

static int probe(const rt_dev_opts *o, rt_dev_info *out, int cap, char *why)
{
    (void)o;
    if (why) why[0] = 0;
    char cpu[CPU_NAME];
    rt_sys_cpu_name(cpu, sizeof cpu);
    if (cap > 0) fill_info(out, cpu, rt_cpu_count(), rt_cpu_isas()[0]);
    return 1;
}

static int info(rt_dev *d, rt_dev_info *out, rt_err *e)
{
    const cpu_dev *c = (const cpu_dev *)d;
    (void)e;
    fill_info(out, c->name, c->ctx.threads, c->isa);
    return RT_OK;
}

/* The compiler is named because it decides where a multiplication and an addition become one instruction. */
static void identity(rt_dev *d, rt_str *out)
{
    const cpu_dev *c = (const cpu_dev *)d;
    rt_str_printf(out, "cpu %s; %s; core %s; compiled by %s", c->isa->name, openblas_get_config(),
                  openblas_get_corename(), __VERSION__);
}

/* ---- open ---- */

#if RT_BLAS_ARCHIVE
/* OpenBLAS takes a work buffer at a thread's first GEMM (cpu_blas_guard.c keeps it for the thread). That would be an
 * allocation inside run, so every thread of the pool takes its buffer here. */
void *blas_memory_alloc(int position);
void blas_memory_free(void *buffer);

#define BLAS_BUFFER ((size_t)130 << 20) /* bytes of address space; a little more than OpenBLAS asks for on x86-64 */

typedef struct warm_up {
    pthread_barrier_t all_here;
    pthread_mutex_t one_by_one;
    uint32_t failed;
} warm_up;

static void warm_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    warm_up *w = ctx;
    (void)chunk;
    (void)worker;
    pthread_barrier_wait(&w->all_here); /* nobody takes a second chunk before everybody has one */
    pthread_mutex_lock(&w->one_by_one);
    /* Where address space is limited OpenBLAS would try for ever, so ask first. After one failure nobody asks: OpenBLAS
     * prints when its table of buffers is full. */
    void *room = MAP_FAILED, *buffer = NULL;
    if (w->failed == 0)
        room = mmap(NULL, BLAS_BUFFER, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (room != MAP_FAILED) {
        munmap(room, BLAS_BUFFER);
        buffer = blas_memory_alloc(0);
    }
    if (buffer)
        blas_memory_free(buffer);
    else
        w->failed++;
    pthread_mutex_unlock(&w->one_by_one);
}

static int warm(rt_pool *pool, rt_err *e)
{
    uint32_t threads = rt_pool_threads(pool);
    warm_up w = { .one_by_one = PTHREAD_MUTEX_INITIALIZER };
    if (pthread_barrier_init(&w.all_here, NULL, threads) != 0)
        return rt_fail(e, RT_NOMEM, "cannot start %u threads together; ask for fewer threads", threads);
    rt_pool_run(pool, threads, warm_chunk, &w);
    pthread_barrier_destroy(&w.all_here);
    if (w.failed > 0)
        return rt_fail(e, RT_NOMEM,
                       "no work buffer of OpenBLAS for %u of %u threads; ask for fewer threads, or raise the "
                       "limit of address space (ulimit -v)",
                       w.failed, threads);
    return RT_OK;
}
#else
static int warm(rt_pool *pool, rt_err *e)
{
    (void)pool;
    (void)e;
    openblas_set_num_threads(1);
    return RT_OK;
}
#endif

static int find_isa(const char *name, const rt_cpu_isa **out, rt_err *e)
{
    const rt_cpu_isa *const *list = rt_cpu_isas();
    char known[64] = "";
    size_t len = 0;
    for (uint32_t i = 0; list[i]; i++) {
        if (!name || strcmp(list[i]->name, name) == 0) {
            *out = list[i];
            return RT_OK;
        }
        len += (size_t)snprintf(known + len, sizeof known - len, "%s%s", i ? ", " : "", list[i]->name);
    }
    return rt_fail(e, RT_NO_BACKEND, "instruction set '%s' is not built or cannot run on this processor; it has: %s",
                   name, known);
}

static void close_dev(rt_dev *d)
{
    cpu_dev *c = (cpu_dev *)d;
    if (!c) return;
    rt_pool_free(c->ctx.pool);
    rt_free(c);
}

static int open_dev(rt_dev **out, int index, const rt_dev_opts *o, rt_err *e)
{
    int rc;
    cpu_dev *c = NULL;
    const rt_cpu_isa *isa = NULL;
    cpu_options own = { 0 };
    *out = NULL;
    if (index != 0) return rt_fail(e, RT_NO_BACKEND, "cpu has one device, number 0; %d was asked for", index);
    RT_TRY(rt_dev_options_read(&own, option_table, o, e));
    if (own.threads > THREADS_MAX)
        return rt_fail(e, RT_INVALID, "%u threads are too many; ask for 1 to %d", own.threads, THREADS_MAX);
    if (!own.threads) own.threads = rt_cpu_count() < THREADS_MAX ? rt_cpu_count() : THREADS_MAX;
    RT_TRY(find_isa(own.isa, &isa, e));
    c = rt_alloc_zero(sizeof *c, 16);
    if (!c) return rt_fail(e, RT_NOMEM, "no memory for the cpu device");
    c->base.api = &rt_backend_cpu;
    c->isa = isa;
    c->texts = rt_cpu_isa_texts(isa);
    rt_sys_cpu_name(c->name, sizeof c->name);
    c->ctx.threads = own.threads;
    c->ctx.dot = rt_cpu_has_dot(isa);
    RT_TRY(rt_pool_new(&c->ctx.pool, own.threads, e));
    RT_TRY(warm(c->ctx.pool, e));
    *out = &c->base;
    return RT_OK;
out:
    close_dev((rt_dev *)c);
    return rc;
}

/* ---- what is supported ---- */

/* sgemm counts in int. Strides of operands that are converted first are free. */
static bool matmul_fits(const rt_cpu_work *w, const rt_op *op, char why[160])
{
    if (op->args.matmul.K > INT_MAX) {
        snprintf(why, 160, "K is %u; sgemm takes at most %d", op->args.matmul.K, INT_MAX);
        return false;
    }
    for (uint32_t i = RT_MM_OUT; i <= RT_MM_B; i++) {
        if (w->dtype[i] == RT_DTYPE_F32 && op->slot[i].stride > INT_MAX) {
            snprintf(why, 160, "%s has rows %llu elements apart; sgemm takes at most %d",
                     rt_op_specs[op->kind].slot[i].name, (unsigned long long)op->slot[i].stride, INT_MAX);
            return false;
        }
    }
    return true;
}

static const char *kernel_text(const cpu_dev *c, const rt_cpu_work *w, rt_op_kind kind)
{
    if (kind != RT_OP_MATMUL) return c->texts->op[kind];
    rt_dtype b = w->dtype[RT_MM_B];
    rt_gemm_cut cut = rt_gemm_cut_of(&w->args->matmul, w->dtype[RT_MM_OUT], w->dtype[RT_MM_A], b);
    return cut.dots ? c->texts->dots[b] : c->texts->tiles[b];
}

static bool supports(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const cpu_dev *c = (const cpu_dev *)d;
    rt_cpu_work w = { .args = &op->args, .threads = c->ctx.threads };
    *need = (rt_need){ 0 };
    RT_FOR_SLOTS (i, op->kind) {
        w.present[i] = op->slot[i].buf != 0;
        if (!w.present[i]) continue;
        w.dtype[i] = rt_plan_dtype(p, op->slot[i]);
        if (w.dtype[i] == RT_DTYPE_F64 && rt_op_specs[op->kind].slot[i].rule != RT_RULE_ANY) { /* bits may be copied */
            snprintf(need->why_not, sizeof need->why_not, "%s is f64: cpu computes in f32; f64 is for ref",
                     rt_op_specs[op->kind].slot[i].name);
            return false;
        }
    }
    if (op->kind == RT_OP_MATMUL && !matmul_fits(&w, op, need->why_not)) return false;
    if (op->kind == RT_OP_EMBED_BWD && op->args.embed.N > INT_MAX) {
        snprintf(need->why_not, sizeof need->why_not, "%u tokens; at most %d are possible", op->args.embed.N, INT_MAX);
        return false;
    }
    need->work_bytes = c->isa->work[op->kind](&w);
    need->kernel = kernel_text(c, &w, op->kind);
    return true;
}

/* ---- programs ---- */

static void prog_free(rt_dev *d, rt_prog *g)
{
    (void)d;
    if (!g) return;
    rt_free(g->steps);
    rt_free(g);
}

/* The scratch that `supports` asked for must have arrived: a kernel would write past a smaller one. */
static int check_work(const cpu_dev *c, const rt_bound_op *op, uint32_t i, rt_err *e)
{
    rt_cpu_work w = { .args = &op->args, .threads = c->ctx.threads };
    for (uint32_t s = 0; s < op->nslots; s++) {
        w.present[s] = op->slot[s].mem != NULL;
        w.dtype[s] = op->slot[s].dtype;
    }
    uint64_t need = c->isa->work[op->kind](&w), have = op->work.mem ? op->work.mem->bytes - op->work.off : 0;
    if (have >= need) return RT_OK;
    return rt_fail(e, RT_INTERNAL, "op %u (%s) needs %llu bytes of scratch and was given %llu", i, rt_op_name(op->kind),
                   (unsigned long long)need, (unsigned long long)have);
}

static int seal(rt_dev *d, const rt_bound_op *ops, uint32_t nops, rt_prog **out, rt_err *e)
{
    const cpu_dev *c = (const cpu_dev *)d;
    int rc;
    uint64_t bytes;
    *out = NULL;
    rt_prog *g = rt_alloc_zero(sizeof *g, 16);
    if (g && nops > 0 && rt_mul_u64(nops, sizeof *g->steps, &bytes)) g->steps = rt_alloc(bytes, 16);
    if (!g || (nops > 0 && !g->steps)) {
        prog_free(d, g);
        return rt_fail(e, RT_NOMEM, "no memory for a program of %u ops", nops);
    }
    g->nsteps = nops;
    for (uint32_t i = 0; i < nops; i++) {
        RT_TRY(check_work(c, &ops[i], i, e));
        g->steps[i] = (cpu_step){ c->isa->op[ops[i].kind], ops[i] };
    }
    *out = g;
    return RT_OK;
out:
    prog_free(d, g);
    return rc;
}

static int run(rt_dev *d, rt_prog *g, rt_ticket *t, rt_err *e)
{
    const cpu_dev *c = (const cpu_dev *)d;
    int rc = RT_OK;
    for (uint32_t i = 0; i < g->nsteps; i++) {
        const rt_bound_op *op = &g->steps[i].op;
        if (rt_host_fetches(op))
            RT_TRY(rt_host_fetch(op, e));
        else
            g->steps[i].fn(&c->ctx, op);
    }
    if (t) *t = 0;
out:
    return rc;
}

const rt_backend rt_backend_cpu = {
    .name = "cpu",
    .options = option_table,
    .probe = probe,
    .open = open_dev,
    .close = close_dev,
    .info = info,
    .mem_new = rt_host_mem_new,
    .mem_free = rt_host_mem_free,
    .copy = rt_host_copy,
    .supports = supports,
    .seal = seal,
    .run = run,
    .wait = rt_host_wait,
    .prog_free = prog_free,
    .identity = identity,
};
