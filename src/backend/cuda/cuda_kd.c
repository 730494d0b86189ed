/* cuda_kd.c - launches of kd_loss: a count of rows is cleared, the fast walk over all rows, their figures (with the
 * rows that it left), the sums. */
#include "backend/cuda/kernels/cuda_kd.h"

#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_op.h"

enum {
    CLUSTER_SM = 90,        /* the first architecture with clusters of blocks */
    LEAST_SHARED = 8 << 10, /* of a block, besides the bitmap */
    DRAWN_BYTES = 16        /* of the count of rows, which is aligned as what follows it */
};

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
    if (a->k) return RT_CUDA_KD_LIST;
    if (!a->U) return RT_CUDA_KD_CE;
    return kind == RT_DIV_FORWARD_KL   ? RT_CUDA_KD_FORWARD
           : kind == RT_DIV_REVERSE_KL ? RT_CUDA_KD_REVERSE
                                       : RT_CUDA_KD_PAIR;
}

static uint32_t packs_of(const rt_kd_args *a) { return (uint32_t)cuda_div_up(a->V, RT_CUDA_KD_PACK); }

static uint64_t result_bytes(const rt_kd_args *a) { return (uint64_t)a->N * sizeof(rt_cuda_kd_result); }

static uint32_t batches(const rt_kd_args *a) { return (uint32_t)cuda_div_up(a->N, RT_CUDA_KD_BATCH); }

static uint64_t part_bytes(const rt_kd_args *a) { return batches(a) * sizeof(rt_cuda_kd_part); }

static bool kd_need(const rt_cuda_caps *c, const rt_plan *p, const rt_op *op, rt_need *need)
{
    const rt_kd_args *a = &op->args.kd;
    if (!cuda_takes(p, op, need, c->sm >= CLUSTER_SM ? "a cluster for each row" : "a block for each row")) return false;
    if (packs_of(a) + LEAST_SHARED > c->shared_max) { /* there is a bit for each column */
        snprintf(need->why_not, sizeof need->why_not, "%u columns: their bitmap does not fit the %u bytes of a block",
                 a->V, c->shared_max);
        return false;
    }
    need->work_bytes = result_bytes(a) + part_bytes(a) + DRAWN_BYTES + (uint64_t)a->N * a->k * sizeof(float);
    return true;
}

static rt_cuda_kd_params params_of(const rt_bound_op *o)
{
    const rt_operand *s = o->slot;
    const rt_kd_args *a = &o->args.kd;
    const double log2e = 1.4426950408889634;
    rt_cuda_kd_params p = { .a = *a, .kind = kind_of(a) };
    p.form = form_of(a, p.kind);
    p.how = a->T == 1.0f || (!a->U && !a->k) ? RT_CUDA_KD_SAME : RT_CUDA_KD_APART;
    p.ct = (float)(log2e / (p.how ? 1.0 : (double)a->T));
    p.bits = s[RT_KD_VMASK].mem || a->k || (a->U && a->U < a->V);
    if (p.form == RT_CUDA_KD_CE) p.bits = 0; /* all columns are alike */
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
    p.part = p.result + result_bytes(a);
    p.drawn = p.part + part_bytes(a);
    p.listed = p.drawn + DRAWN_BYTES;
    p.acc = cuda_adds(o, RT_KD_SUMS);
    return p;
}

/* Swift kernels take logits of one dtype in whole, aligned packs that stay in shared memory. */
static bool is_swift(const rt_cuda_kd_params *p, rt_dtype d)
{
    return p->keep && !p->a.k && p->s_whole && p->t_whole && p->a.V % RT_CUDA_KD_PACK == 0 &&
           p->a.U % RT_CUDA_KD_PACK == 0 && (!p->a.U || p->t_dtype == d);
}

static const char *rows_kernel(const rt_cuda_kd_params *p, rt_dtype d)
{
    const bool swift = is_swift(p, d);
    switch (p->form) {
    case RT_CUDA_KD_CE: return swift ? CUDA_KERNEL("swift_kd_ce", d) : CUDA_KERNEL("kd_ce", d);
    case RT_CUDA_KD_FORWARD: return swift ? CUDA_KERNEL("swift_kd_forward", d) : CUDA_KERNEL("kd_forward", d);
    case RT_CUDA_KD_REVERSE: return swift ? CUDA_KERNEL("swift_kd_reverse", d) : CUDA_KERNEL("kd_reverse", d);
    case RT_CUDA_KD_PAIR: return swift ? CUDA_KERNEL("swift_kd_pair", d) : CUDA_KERNEL("kd_pair", d);
    default: return CUDA_KERNEL("kd_list", d);
    }
}

/* How the kernel over rows is launched. */
typedef struct layout {
    uint32_t threads, shared, clusters;
} layout;

/* What the rings of so many threads have room for; places of what lies before them. */
static uint64_t ring_room(const rt_cuda_caps *caps, rt_cuda_kd_params *p, uint32_t threads)
{
    p->bits_at = RT_CUDA_KD_HEAD + 2 * RT_CUDA_KD_RECORD * p->blocks * (threads / 32);
    p->ring_s = (uint32_t)rt_align_up(p->bits_at + (p->bits ? RT_CUDA_KD_BITMAP(p->packs) : 0), 128);
    return caps->shared_max - p->ring_s;
}

/* A row is cut into so many slices. All packs stay where they fit, and swift kernels count on a whole block then: 512
 * threads are 2 to 4 % faster than 480 on an H200, which would do it in as many turns. Otherwise, in whole warps, as
 * few threads as do it in as many. */
static layout cut(const rt_cuda_caps *caps, rt_cuda_kd_params *p, rt_dtype d, uint32_t blocks)
{
    enum { DEPTH = 4 }; /* where the packs of a row do not fit */
    const uint32_t s_bytes = RT_CUDA_KD_PACK * cuda_size(d);
    const uint32_t t_bytes = p->a.U ? RT_CUDA_KD_PACK * cuda_size((rt_dtype)p->t_dtype) : 0, pack = s_bytes + t_bytes;
    p->blocks = blocks;
    p->packs = (uint32_t)cuda_div_up(packs_of(&p->a), blocks * RT_CUDA_KD_LINE) * RT_CUDA_KD_LINE;
    uint32_t turns = (uint32_t)cuda_div_up(p->packs, RT_CUDA_KD_THREADS);
    uint32_t fewest = (uint32_t)(cuda_div_up(cuda_div_up(p->packs, turns), 32) * 32);
    uint64_t places = cuda_div_up(p->packs, 32) * 32;
    layout r = { .threads = turns > 1 ? RT_CUDA_KD_THREADS : fewest };
    p->depth = turns;
    p->keep = places * pack <= ring_room(caps, p, r.threads);
    if (!p->keep) {
        for (r.threads = fewest;; r.threads -= 32) {
            uint64_t depth = ring_room(caps, p, r.threads) / pack / r.threads;
            p->depth = (uint32_t)(depth < DEPTH ? depth : DEPTH);
            if (p->depth) break;
        }
        places = p->depth * r.threads;
    }
    p->ring_t = p->ring_s + (uint32_t)places * s_bytes;
    r.shared = p->ring_t + (uint32_t)places * t_bytes;
    return r;
}

/* Cuts rows so that most of them are under way at once, and stay in shared memory; of equals into most slices. That was
 * the fastest of the sizes tried on an H200 at each of eight vocabularies (docs/speed-log.md). There are as many
 * clusters as may run together: one that came late would begin its two rows when the others are done. How many rows
 * there are has no part in the choice: it would be seen in the last bits of their sums. */
static layout lay_out(rt_cuda_builder *b, rt_cuda_kd_params *p, rt_dtype d)
{
    const rt_cuda_caps *caps = rt_cuda_builder_caps(b);
    const uint64_t worth = cuda_div_up(packs_of(&p->a), RT_CUDA_KD_THREADS); /* slices with a pack for every thread */
    const bool alone = caps->sm < CLUSTER_SM;
    const uint32_t least = alone ? 1 : 2; /* in a cluster of one, compute-sanitizer says, nobody may write to anybody */
    uint32_t largest = alone ? 1 : RT_CUDA_KD_CLUSTER;
    if (worth < largest) largest = worth > least ? (uint32_t)worth : least;
    uint32_t best = largest, most = 0;
    layout r;
    for (uint32_t blocks = largest; blocks >= least; blocks--) {
        r = cut(caps, p, d, blocks);
        if (!p->keep && blocks < largest) break; /* nor do larger slices stay */
        uint32_t clusters = rt_cuda_at_once(b, "cuda_kd", rows_kernel(p, d), blocks, r.threads, r.shared);
        if (clusters > most) most = clusters, best = blocks;
        if (!most) break; /* the driver cannot say */
    }
    r = cut(caps, p, d, best);
    if (!most) most = (uint32_t)cuda_div_up((uint64_t)caps->sms * rt_cuda_numbers_of(caps->sm)->kd_blocks, best);
    r.clusters = most < p->a.N ? most : p->a.N;
    return r;
}

static void kd_emit(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_kd_args *a = &o->args.kd;
    rt_cuda_kd_params p = params_of(o);
    rt_dtype d = o->slot[RT_KD_LOGITS].dtype;
    layout r = lay_out(b, &p, d);
    p.cycles = rt_cuda_numbers_of(rt_cuda_builder_caps(b)->sm)->kd_cycles;
    if (!p.how && is_swift(&p, d) && cuda_size(d) == 2)
        p.how = a->T == 2.0f ? RT_CUDA_KD_SQUARE : a->T == 4.0f ? RT_CUDA_KD_FOURTH : RT_CUDA_KD_APART;
    cuda_push_1d(b, "cuda_kd_careful", "kd_begin", 1, 32, 0, &p, sizeof p);
    rt_cuda_push_clusters(b, "cuda_kd", rows_kernel(&p, d), r.clusters, p.blocks, r.threads, r.shared, &p, sizeof p);
    cuda_push_1d(b, "cuda_kd_careful", CUDA_KERNEL("kd_figures", d), batches(a), RT_CUDA_KD_THREADS,
                 RT_CUDA_KD_BITMAP(packs_of(a)), &p, sizeof p);
    cuda_push_1d(b, "cuda_kd_careful", "kd_finish", 1, RT_CUDA_BLOCK, 0, &p, sizeof p);
}

const rt_cuda_op rt_cuda_kd_loss = { kd_need, kd_emit };
