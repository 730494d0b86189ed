/* cuda_matmul_own.c - see cuda_matmul_own.h. The kernels are kernels/cuda_matmul*.cu. */
#include "backend/cuda/cuda_matmul_own.h"
#include "backend/cuda/cuda_internal.h"
#include "backend/cuda/cuda_numbers.h"
#include "backend/cuda/cuda_op.h"
#include "backend/cuda/kernels/cuda_matmul.h"
#include "backend/cuda/kernels/cuda_scaled.h"

/* ---- which kernel ---- */

static bool on_16_bytes(const rt_cuda_side *s) { return s->align >= 16 && s->stride * 2 % 16 == 0; }

/* Steps that tensor cores have in shared memory; 0: ordinary cores do it. */
static uint32_t stages_of(const rt_cuda_caps *c, const rt_cuda_side *s)
{
    uint32_t n = c->shared_max / RT_MMA_STAGE;
    if (c->sm < 80 || n < 2 || s[RT_MM_A].dtype == RT_DTYPE_F32) return 0;
    if (!on_16_bytes(&s[RT_MM_A]) || !on_16_bytes(&s[RT_MM_B])) return 0;
    return n < RT_MMA_MOST_STAGES ? n : RT_MMA_MOST_STAGES;
}

/* ---- how the work is cut ---- */

/* Blocks run in waves, as many at a time as the device has room for. Tiles that are left over for a last wave are cut
 * along K where the parts fill their waves better. Costs are counted in elements of K of a whole wave. */
static void cut(const rt_cuda_caps *c, const rt_matmul_args *m, rt_cuda_own *o)
{
    const rt_cuda_numbers *n = rt_cuda_numbers_of(c->sm);
    uint64_t tiles = (uint64_t)o->tiles_m * o->tiles_n, wave = c->sms * (o->stages ? 1 : 2), left = tiles % wave;
    uint64_t least = (uint64_t)m->K + n->mma_block;
    o->parts = 1;
    o->part_K = m->K;
    for (uint32_t most = 2; left && most <= n->mma_parts && most <= m->K / n->mma_part_K; most++) {
        uint64_t part = rt_align_up(cuda_div_up(m->K, most), RT_MMA_STEP), parts = cuda_div_up(m->K, part);
        uint64_t waves = cuda_div_up(left * parts, wave);
        uint64_t cost = waves * (part + n->mma_block) + left * parts * n->mma_sums + n->mma_launch;
        if (cost >= least) continue;
        least = cost;
        o->parts = (uint32_t)parts;
        o->part_K = (uint32_t)part;
    }
    if (o->parts == 1) left = 0;
    o->whole = (uint32_t)(tiles - left);
    o->blocks = o->whole + left * o->parts;
    o->work_bytes = left * o->parts * o->tile_m * o->tile_n * sizeof(float);
}

rt_cuda_own rt_cuda_own_choose(const rt_cuda_caps *c, const rt_matmul_args *m, const rt_cuda_side *s)
{
    rt_cuda_own o = { .text = "own tiles 128x128", .tile_m = RT_MATMUL_TILE, .tile_n = RT_MATMUL_TILE };
    o.stages = stages_of(c, s);
    if (o.stages) {
        o.text = "own tiles 256x128, tensor cores";
        o.tile_m = RT_MMA_M;
        o.tile_n = RT_MMA_N;
    }
    if (!o.stages && s[RT_MM_A].dtype != RT_DTYPE_F32)
        o.plain = c->sm < 80 ? "kernels for GPUs before sm_80" : "views that are not on 16-byte boundaries";
    o.tiles_m = (uint32_t)cuda_div_up(m->M, o.tile_m);
    o.tiles_n = (uint32_t)cuda_div_up(m->N, o.tile_n);
    cut(c, m, &o);
    return o;
}

/* ---- launches ---- */

enum { W = RT_MATMUL_PACK };

static const char *mma_kernel(const rt_matmul_args *m, rt_dtype d)
{
    static const char *const bf16[] = { "matmul_mma_bf16_nn", "matmul_mma_bf16_nt", "matmul_mma_bf16_tn",
                                        "matmul_mma_bf16_tt" };
    static const char *const f16[] = { "matmul_mma_f16_nn", "matmul_mma_f16_nt", "matmul_mma_f16_tn",
                                       "matmul_mma_f16_tt" };
    return (d == RT_DTYPE_BF16 ? bf16 : f16)[2 * (m->ta != 0) + (m->tb != 0)];
}

static rt_cuda_matmul_params params_of(const rt_bound_op *op, const rt_cuda_own *o)
{
    const rt_matmul_args *m = &op->args.matmul;
    const rt_operand *out = &op->slot[RT_MM_OUT], *a = &op->slot[RT_MM_A], *b = &op->slot[RT_MM_B],
                     *bias = &op->slot[RT_MM_BIAS];
    return (rt_cuda_matmul_params){ .a = cuda_mat(a),
                                    .b = cuda_mat(b),
                                    .out = cuda_mat(out),
                                    .bias = rt_cuda_addr(bias),
                                    .sums = o->work_bytes ? rt_cuda_addr(&op->work) : 0,
                                    .M = m->M,
                                    .N = m->N,
                                    .K = m->K,
                                    .ta = m->ta,
                                    .tb = m->tb,
                                    .acc = cuda_adds(op, RT_MM_OUT),
                                    .out_type = out->dtype,
                                    .bias_type = bias->dtype,
                                    .packs_a = cuda_aligned(a, 4),
                                    .packs_b = cuda_aligned(b, 4),
                                    .packs_out = cuda_aligned(out, W) && cuda_aligned(bias, W),
                                    .tile_m = o->tile_m,
                                    .tile_n = o->tile_n,
                                    .tiles_m = o->tiles_m,
                                    .tiles_n = o->tiles_n,
                                    .whole = o->whole,
                                    .parts = o->parts,
                                    .part_K = o->part_K,
                                    .stages = o->stages,
                                    .alpha = m->alpha };
}

void rt_cuda_own_push(rt_cuda_builder *b, const rt_bound_op *op, const rt_cuda_own *o)
{
    rt_cuda_matmul_params p = params_of(op, o);
    rt_dtype type = op->slot[RT_MM_A].dtype;
    uint64_t joins = ((uint64_t)o->tiles_m * o->tiles_n - o->whole) * o->tile_m * o->tile_n / W / RT_CUDA_BLOCK;
    if (o->blocks > RT_CUDA_GRID_MAX) {
        rt_cuda_builder_fail(b, RT_UNSUPPORTED, "the GEMM has more tiles than a launch has blocks");
        return;
    }
    if (o->stages)
        cuda_push_1d(b, "cuda_matmul_mma", mma_kernel(&op->args.matmul, type), (uint32_t)o->blocks, RT_MMA_THREADS,
                     o->stages * RT_MMA_STAGE, &p, sizeof p);
    else
        cuda_push_1d(b, "cuda_matmul", CUDA_KERNEL("matmul", type), (uint32_t)o->blocks, RT_MATMUL_THREADS, 0, &p,
                     sizeof p);
    if (joins) cuda_push_1d(b, "cuda_matmul_join", "matmul_join", (uint32_t)joins, RT_CUDA_BLOCK, 0, &p, sizeof p);
}

void rt_cuda_own_scaled_push(rt_cuda_builder *b, const rt_bound_op *o)
{
    const rt_matmul_args *m = &o->args.matmul;
    const rt_operand *bias = &o->slot[RT_MMS_BIAS], *x = &o->slot[RT_MMS_A], *w = &o->slot[RT_MMS_B];
    rt_cuda_scaled_params p = { .out = cuda_mat(&o->slot[RT_MMS_OUT]),
                                .a = cuda_mat(x),
                                .b = cuda_mat(w),
                                .sa = cuda_mat(&o->slot[RT_MMS_SA]),
                                .sb = cuda_mat(&o->slot[RT_MMS_SB]),
                                .bias = rt_cuda_addr(bias),
                                .M = m->M,
                                .N = m->N,
                                .K = m->K,
                                .acc = cuda_adds(o, RT_MMS_OUT),
                                .out_type = o->slot[RT_MMS_OUT].dtype,
                                .bias_type = bias->dtype,
                                .packs = cuda_aligned(x, 4) && cuda_aligned(w, 4),
                                .tiles_n = (uint32_t)cuda_div_up(m->N, RT_SCALED_TILE) };
    uint64_t blocks = p.tiles_n * cuda_div_up(m->M, RT_SCALED_TILE);
    if (blocks > RT_CUDA_GRID_MAX) {
        rt_cuda_builder_fail(b, RT_UNSUPPORTED, "the GEMM has more tiles than a launch has blocks");
        return;
    }
    cuda_push_1d(b, "cuda_matmul_scaled", "matmul_scaled", (uint32_t)blocks, RT_CUDA_BLOCK, 0, &p, sizeof p);
}

void rt_cuda_bias_push(rt_cuda_builder *b, const rt_operand *out, const rt_operand *bias)
{
    rt_cuda_bias_params p = { .out = cuda_mat(out),
                              .bias = rt_cuda_addr(bias),
                              .M = out->rows,
                              .N = out->cols,
                              .out_type = out->dtype,
                              .bias_type = bias->dtype };
    uint64_t n = cuda_div_up((uint64_t)p.M * p.N, RT_CUDA_BLOCK);
    cuda_push_1d(b, "cuda_matmul_join", "matmul_bias", n < 65536 ? (uint32_t)n : 65536, RT_CUDA_BLOCK, 0, &p, sizeof p);
}
