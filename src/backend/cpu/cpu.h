/* cpu.h - the inside of the CPU backend: the device, and the signature of a kernel.
 *
 * Every kernel file cpu_<family>.c is compiled once per instruction set (RT_ISA), so each op exists as
 * rt_cpu_<op>_<isa>; one table per ISA, one choice when the device is opened. A kernel cuts its work into chunks that
 * depend on shapes alone and gives them to the pool; per-thread scratch comes from the op's `work` operand, whose size
 * the function beside the kernel (RT_CPU(work_<op>)) states. */
#ifndef RT_BACKEND_CPU_CPU_H
#define RT_BACKEND_CPU_CPU_H

#include "backend/host.h"
#include "base/pool.h"

typedef struct rt_cpu_ctx {
    rt_pool *pool;
    uint32_t threads;
    bool dot; /* the instruction set's kernels with instructions for sums of products of bytes can run here */
} rt_cpu_ctx;

typedef void (*rt_cpu_fn)(const rt_cpu_ctx *c, const rt_bound_op *o);

/* What the size of an op's scratch may depend on. It may depend on threads; results may not. */
typedef struct rt_cpu_work {
    const rt_args *args;
    rt_dtype dtype[RT_MAX_SLOTS]; /* of present slots */
    bool present[RT_MAX_SLOTS];
    uint32_t threads;
} rt_cpu_work;
typedef uint64_t (*rt_cpu_work_fn)(const rt_cpu_work *w); /* bytes */

typedef struct rt_cpu_isa {
    const char *name;
    rt_cpu_fn op[RT_OP_COUNT];
    rt_cpu_work_fn work[RT_OP_COUNT];
} rt_cpu_isa;
/* Null-terminated, best first; those this machine can run. */
const rt_cpu_isa *const *rt_cpu_isas(void);
/* Whether this machine has the instructions of RT_DOT kernels (cpu_int8_rows.c) beside those of the ISA. */
bool rt_cpu_has_dot(const rt_cpu_isa *isa);
/* What the core of OpenBLAS lacks of what this CPU has, and what to do; empty: nothing (cpu_blas_core.c). */
void rt_cpu_blas_warning(char *buf, size_t size);
/* Whether equal rows of a GEMM become equal bits wherever they stand: measured once, of the core that computes. */
bool rt_cpu_blas_rows_alike(void);

#define RT_CAT2(a, b) a##b
#define RT_CAT(a, b) RT_CAT2(a, b)
#ifdef RT_ISA
#define RT_CPU(name) RT_CAT(RT_CAT(rt_cpu_, RT_CAT(name, _)), RT_ISA)
#define X(kind, name, args, text)                                                                                      \
    void RT_CPU(name)(const rt_cpu_ctx *c, const rt_bound_op *o);                                                      \
    uint64_t RT_CPU(work_##name)(const rt_cpu_work *w);
RT_OP_LIST(X)
#undef X
/* For ops that need no scratch. */
#define RT_CPU_NO_WORK(name)                                                                                           \
    uint64_t RT_CPU(work_##name)(const rt_cpu_work *w)                                                                 \
    {                                                                                                                  \
        (void)w;                                                                                                       \
        return 0;                                                                                                      \
    }
#endif

#endif
