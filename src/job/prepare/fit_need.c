/* fit_need.c - what a configuration needs of a device, from a dry seal: bytes, and time as arithmetic has it. */
#include "job/prepare/fit.h"

#include "base/sys.h"

#include <string.h>

/* How often a program runs in one optimizer step of so many micro-batches; in an evaluation of one. */
static uint64_t runs_of(const rt_step_plan *s, rt_program which, uint32_t micro)
{
    uint32_t ahead = s->plan[RT_PROGRAM_AHEAD] ? s->opts.ahead : 0;
    switch (which) {
    case RT_PROGRAM_TEACHER: return ahead ? 0 : micro;
    case RT_PROGRAM_AHEAD: return ahead ? (micro + ahead - 1) / ahead : 0;
    case RT_PROGRAM_FIRST:
    case RT_PROGRAM_UPDATE: return !s->opts.eval_only;
    case RT_PROGRAM_NEXT: return micro - 1;
    case RT_PROGRAM_EVAL: return s->opts.eval_only;
    default: return 0;
    }
}

/* What seal puts before a GEMM whose operand the device would not take as it is. */
static uint64_t dequantising(const rt_plan *p)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < p->nops; i++)
        if (p->ops[i].kind == RT_OP_DEQUANT || p->ops[i].kind == RT_OP_CAST) bytes += rt_op_bytes(p, &p->ops[i]);
    return bytes;
}

/* A FLOP of such an op in FLOPs of a GEMM: attention has half the rate, e4m3 what the device says. */
static double flop_cost(rt_op_kind kind, const rt_dev_info *d)
{
    if (kind == RT_OP_ATTN_FWD || kind == RT_OP_ATTN_BWD) return 2;
    return kind == RT_OP_MATMUL_SCALED && d->fp8_cost > 0 ? d->fp8_cost : 1;
}

/* FLOPs, and what moves bytes and begins an op in the FLOPs that a GEMM has in that time. It compares plans of one
 * device and is the same on every day; how long they take is measured elsewhere (exec/estimate.h). A file is taken to
 * be as fast as memory: what has been read once is there, where there is room for it. */
static double work_of(const rt_plan *p, const rt_op *op, const rt_dev_info *d)
{
    enum { CPU_BYTE_FLOPS = 8, CPU_OP_FLOPS = 1000000 };
    double byte = d->byte_flops > 0 ? d->byte_flops : CPU_BYTE_FLOPS;
    double begin = d->op_flops > 0 ? d->op_flops : CPU_OP_FLOPS;
    if (op->queue == RT_QUEUE_COPY && d->host_byte_flops > 0)
        return begin + d->host_byte_flops * (double)rt_view_bytes(p, op->slot[RT_ROWS_X]);
    return begin + flop_cost(op->kind, d) * (double)rt_op_flops(p, op) + byte * (double)rt_op_bytes(p, op);
}

static int span_of(const rt_dev_info *d, const rt_exec *x, uint32_t program, rt_exec_span *out, rt_err *e)
{
    const rt_plan *p = rt_exec_plan(x, program);
    double *work = rt_alloc(p->nops * sizeof *work, 16);
    if (!work) return rt_no_memory(e, "a plan");
    for (uint32_t i = 0; i < p->nops; i++) work[i] = work_of(p, &p->ops[i], d);
    *out = rt_exec_span_of(x, program, work);
    rt_free(work);
    return RT_OK;
}

int rt_fit_need_of(rt_dev *d, const rt_step_opts *o, uint32_t micro, rt_fit_need *out, rt_err *e)
{
    int rc;
    rt_exec_memory m;
    rt_dev_info info;
    rt_trainer *t = NULL;
    *out = (rt_fit_need){ .hidden = 1 };
    RT_TRY(d->api->info(d, &info, e));
    RT_TRY(rt_trainer_open(&t, d, o, &(rt_seal_opts){ .dry = true }, e));
    rt_exec_memory_query(t->x, &m);
    out->bytes = m.total;
    out->host = m.host;
    out->layers = o->student->layers - t->plan->student->lowest;
    for (int i = 0; i < RT_PROGRAM_COUNT; i++) {
        if (!t->plan->plan[i]) continue;
        const rt_plan *p = rt_exec_plan(t->x, t->plan->index[i]);
        uint64_t runs = runs_of(t->plan, (rt_program)i, micro);
        rt_exec_span span;
        RT_TRY(span_of(&info, t->x, t->plan->index[i], &span, e));
        if (i == RT_PROGRAM_TEACHER || i == RT_PROGRAM_AHEAD) out->hidden = rt_exec_hidden(&span);
        out->dequant += runs * dequantising(p);
        out->work += (double)runs * span.total;
    }
out:
    rt_trainer_free(t);
    return rc;
}

/* Both plans, and what the device may give. */
static int compare(rt_dev *d, const rt_step_opts *o, const rt_dtype *stored, rt_weights_case *c, rt_err *e)
{
    int rc;
    rt_step_opts native = *o;
    rt_fit_need a, b;
    rt_dev_info info;
    native.teacher_dtypes = stored;
    RT_TRY(rt_fit_need_of(d, &native, 1, &a, e));
    RT_TRY(rt_fit_need_of(d, o, 1, &b, e));
    RT_TRY(d->api->info(d, &info, e));
    *c = (rt_weights_case){ true, a.bytes, b.bytes, rt_fit_budget(info.memory_free), a.dequant, b.dequant };
out:
    return rc;
}

int rt_fit_evaluation(rt_dev *d, rt_step_opts *o, rt_teacher_weights asked, rt_dtype *dtypes, rt_weights_choice *out,
                      rt_err *e)
{
    int rc = RT_OK;
    uint32_t n = rt_param_count(o->teacher);
    rt_weights_case c = { .differ = rt_weights_differ(dtypes, o->teacher, &o->policy) };
    rt_dtype *stored = rt_alloc(n * sizeof *stored, 16);
    if (!stored) RT_TRY(rt_no_memory(e, "a model"));
    memcpy(stored, dtypes, n * sizeof *stored);
    *out = (rt_weights_choice){ .weights = asked, .why = RT_WEIGHTS_ASKED };
    if (asked == RT_WEIGHTS_AUTO) {
        rt_weights_dtypes(dtypes, stored, o->teacher, RT_WEIGHTS_BF16);
        if (c.differ) RT_TRY(compare(d, o, stored, &c, e));
        *out = rt_weights_decide(&c);
    }
    rt_weights_dtypes(dtypes, stored, o->teacher, out->weights);
    o->teacher_coded = rt_weights_coded(o->teacher, out->weights);
out:
    rt_free(stored);
    return rc;
}

int rt_fit_evaluation_memory(rt_dev *d, rt_step_opts *o, bool stored, rt_memory_choice *out, rt_err *e)
{
    int rc;
    rt_fit_need need;
    rt_dev_info info;
    rt_sys_memory system;
    RT_TRY(d->api->info(d, &info, e));
    RT_TRY(rt_fit_need_of(d, o, 1, &need, e));
    rt_sys_memory_query(&system);
    *out = (rt_memory_choice){ .why = RT_MEMORY_FITS,
                               .device = need.bytes,
                               .limit = rt_fit_budget(info.memory_free),
                               .host_limit = info.host ? 0 : rt_fit_budget(system.available) };
    for (int m = RT_TEACHER_HOST; need.bytes > out->limit && m <= RT_TEACHER_DISK; m++) {
        rt_step_opts away = *o;
        rt_fit_need of_it;
        away.teacher_home = rt_teacher_memory_class((rt_teacher_memory)m);
        if (m == RT_TEACHER_HOST ? info.host : !stored) continue;
        RT_TRY(rt_fit_need_of(d, &away, 1, &of_it, e));
        if (m == RT_TEACHER_HOST) out->host = of_it.host;
        if (of_it.bytes > out->limit || of_it.host > out->host_limit) continue;
        o->teacher_home = away.teacher_home;
        out->memory = (rt_teacher_memory)m;
        out->why = m == RT_TEACHER_HOST ? RT_MEMORY_NO_ROOM : RT_MEMORY_NO_HOST;
        break;
    }
out:
    return rc;
}
