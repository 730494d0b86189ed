/* cuda_kd.c - launches of kd_loss: the fast walk, the careful one for the rows that it left, the sums. */
#include "backend/cuda/kernels/cuda_kd.h"

#include "backend/cuda/cuda_op.h"

enum { CLUSTER_SM = 90 }; /* the first architecture with clusters of blocks */

/* A JSD or skewed form that is a KL becomes that one. */
static uint32_t kind_of(const rt_kd_args *a)
{
    uint32_t d = a->divergence;
    if (a->mix == 0 && (d == RT_DIV_JSD || d == RT_DIV_SKEW_FKL)) return RT_DIV_FORWARD_KL;
    if ((a->mix == 0 && d == RT_DIV_SKEW_RKL) || (a->mix == 1 && d == RT_DIV_JSD)) return RT_DIV_REVERSE_KL;
    return d;
}

static uint32_t form_of(const rt_kd_args *a, uint32_t kind)
{
    if (!a->U) return RT_CUDA_KD_STUDENT;
    return kind == RT_DIV_FORWARD_KL   ? RT_CUDA_KD_FORWARD
           : kind == RT_DIV_REVERSE_KL ? RT_CUDA_KD_REVERSE
                                       : RT_CUDA_KD_PAIR;
}

static uint32_t blocks_of(const rt_cuda_caps *c) { return c->sm >= CLUSTER_SM ? RT_CUDA_KD_CLUSTER : 1; }

static uint64_t result_bytes(const rt_kd_args *a) { return (uint64_t)a->N * sizeof(rt_cuda_kd_result); }

static bool kd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_kd_args *a = &op->args.kd;
    uint64_t packs = cuda_div_up(a->V, RT_CUDA_KD_PACK);
    if (!cuda_takes(p, op, need, c->sm >= CLUSTER_SM ? "a cluster for each row" : "a block for each row")) return false;
    if (packs + RT_CUDA_KD_HEAD + 16 > c->shared_max) { /* the careful walk has a bit for each column */
        snprintf(need->why_not, sizeof need->why_not, "%u columns: their bitmap does not fit the %u bytes of a block",
                 a->V, c->shared_max);
        return false;
    }
    need->work_bytes = result_bytes(a) + (uint64_t)a->N * a->k * sizeof(float);
    return true;
}

static rt_cuda_kd_params params_of(const rt_bound_op *o)
{
    const rt_operand *s = o->slot;
    const rt_kd_args *a = &o->args.kd;
    rt_cuda_kd_params p = { .a = *a, .kind = kind_of(a) };
    p.form = form_of(a, p.kind);
    p.bits = s[RT_KD_VMASK].mem || a->k || (a->U && a->U < a->V);
    if (!a->U && !a->k) p.bits = 0; /* no D: all columns are alike */
    p.s_whole = cuda_aligned(&s[RT_KD_LOGITS], RT_CUDA_KD_PACK);
    p.t_whole = cuda_aligned(&s[RT_KD_TEACHER], RT_CUDA_KD_PACK);
    p.t_dtype = a->U ? s[RT_KD_TEACHER].dtype : RT_DTYPE_BF16;
    p.logits = cuda_mat(&s[RT_KD_LOGITS]);
    p.teacher = cuda_mat(&s[RT_KD_TEACHER]);
    p.id = cuda_mat(&s[RT_KD_TK_ID]);
    p.logp = cuda_mat(&s[RT_KD_TK_LOGP]);
    p.rest = cuda_mat(&s[RT_KD_TK_REST]);
    p.target = cuda_mat(&s[RT_KD_TARGET]);
    p.ce = cuda_mat(&s[RT_KD_CE]);
    p.div = cuda_mat(&s[RT_KD_DIV]);
    p.top1 = cuda_mat(&s[RT_KD_TOP1]);
    p.vmask = rt_cuda_addr(&s[RT_KD_VMASK]);
    p.step = rt_cuda_addr(&s[RT_KD_STEP]);
    p.sums = rt_cuda_addr(&s[RT_KD_SUMS]);
    p.fault = rt_cuda_addr(&s[RT_KD_FAULT]);
    p.result = rt_cuda_addr(&o->work);
    p.listed = p.result + result_bytes(a);
    p.acc = cuda_adds(o, RT_KD_SUMS);
    return p;
}

static const char *fast_kernel(const rt_bound_op *o, uint32_t t_size)
{
    rt_dtype d = o->slot[RT_KD_LOGITS].dtype;
    if (o->args.kd.k) return CUDA_KERNEL("kd_list", d);
    return t_size == 2 ? ((const char *const[]){ "kd_rows_f32_2", "kd_rows_bf16_2", "kd_rows_f16_2" }[d])
                       : ((const char *const[]){ "kd_rows_f32_4", "kd_rows_bf16_4", "kd_rows_f16_4" }[d]);
}

static void kd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_cuda_caps *caps = rt_cuda_builder_caps(b);
    const rt_kd_args *a = &o->args.kd;
    rt_cuda_kd_params p = params_of(o);
    uint32_t s_size = cuda_size(o->slot[RT_KD_LOGITS].dtype), t_size = cuda_size((rt_dtype)p.t_dtype);
    uint32_t packs = (uint32_t)cuda_div_up(a->V, RT_CUDA_KD_PACK);
    p.blocks = blocks_of(caps);
    p.packs = (uint32_t)cuda_div_up(packs, p.blocks);
    uint32_t fixed = RT_CUDA_KD_HEAD + RT_CUDA_KD_BITMAP(p.packs);
    uint64_t kept = (uint64_t)p.packs * RT_CUDA_KD_PACK * (s_size + (a->U ? t_size : 0));
    p.keep = fixed + kept <= caps->shared_max;
    cuda_push_1d(b, "cuda_kd", fast_kernel(o, t_size), a->N * p.blocks, RT_CUDA_KD_THREADS,
                 fixed + (p.keep ? (uint32_t)kept : 0), &p, sizeof p);
    cuda_push_1d(b, "cuda_kd_careful", CUDA_KERNEL("kd_careful", o->slot[RT_KD_LOGITS].dtype), a->N, RT_CUDA_KD_THREADS,
                 RT_CUDA_KD_BITMAP(packs), &p, sizeof p);
    cuda_push_1d(b, "cuda_kd_careful", "kd_finish", 1, RT_CUDA_BLOCK, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_kd_loss = { kd_need, kd_emit };
