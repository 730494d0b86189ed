/* bench_vulkan.c - bytes and operations that the shaders of the Vulkan backend count, beside what plans say of the op.
 *
 * Owns: the ops, each in a program of its own at a shape that a cache of 4 MiB does not hold, and the comparison. The
 * shaders are the instrumented ones of tools/count_shaders.py; nothing is timed, so a software driver says as much as a
 * GPU. Bytes are those that such a cache fetches and writes back; what invocations ask for is told beside them. */
#include "bench_fill.h"
#include "op_rows.h"

#include "backend/vulkan/vk_count.h"
#include "exec/estimate.h"
#include "op/emit.h"

#include <stdio.h>
#include <stdlib.h>

static rt_plan *p;
static rt_space *s;
static rt_dtype D; /* of activations */
static rt_view ids, step, fault;
static uint32_t ids_below;
#define MOST 1.1

static rt_view buf(rt_dtype d, uint32_t rows, uint32_t cols)
{
    return rt_space_buf(s, RT_CLASS_STATE, d, rows, cols, "x");
}
static rt_view act(uint32_t rows, uint32_t cols) { return buf(D, rows, cols); }
static rt_view wide(uint32_t rows, uint32_t cols) { return buf(RT_DTYPE_F32, rows, cols); }
static rt_view some_ids(uint32_t rows, uint32_t below)
{
    ids_below = below;
    return ids = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, rows, 1, "ids");
}

enum { N = 512, C = 4096 };

static void embed_fwd(void) { rt_emit_embed_fwd(p, act(N, C), act(8 * N, C), some_ids(N, 8 * N)); }
static void embed_bwd(void) { rt_emit_embed_bwd(p, wide(8 * N, C), act(N, C), some_ids(N, 8 * N)); }
static void embed_few(void) { rt_emit_embed_bwd(p, wide(64, C), act(N, C), some_ids(N, 64)); }
static void rmsnorm_fwd(void) { rt_emit_rmsnorm_fwd(p, act(N, C), RT_NONE, act(N, C), act(1, C), 1, 1e-6f); }
static void rmsnorm_bwd(void)
{
    rt_emit_rmsnorm_bwd(p, act(N, C), wide(1, C), act(N, C), act(N, C), act(1, C), 1, 1e-6f);
}
static void add_rmsnorm_fwd(void)
{
    rt_emit_add_rmsnorm_fwd(p, act(N, C), RT_NONE, act(N, C), act(N, C), act(N, C), act(1, C), 1e-6f);
}
static void add_rmsnorm_bwd(void)
{
    rt_emit_add_rmsnorm_bwd(p, act(N, C), wide(1, C), act(N, C), act(N, C), act(1, C), act(N, C), 1e-6f);
}
static void matmul_nt(void) { rt_emit_matmul(p, act(512, 1024), act(512, 128), act(1024, 128), RT_NONE, "nt", 1); }
static void matmul_nn(void) { rt_emit_matmul(p, act(512, 1024), act(512, 128), act(128, 1024), RT_NONE, "nn", 1); }
static void matmul_tn(void) { rt_emit_matmul(p, act(512, 1024), act(128, 512), act(128, 1024), RT_NONE, "tn", 1); }
static void matmul_1(void) { rt_emit_matmul(p, act(1, 2048), act(1, C), act(2048, C), RT_NONE, "nt", 1); }
static void matmul_4(void) { rt_emit_matmul(p, act(4, 2048), act(4, C), act(2048, C), RT_NONE, "nt", 1); }
static void matmul_8(void) { rt_emit_matmul(p, act(8, 2048), act(8, C), act(2048, C), RT_NONE, "nt", 1); }
static void matmul_q8(void)
{
    rt_emit_matmul(p, act(4, 2048), act(4, C), buf(RT_DTYPE_Q8_0, 2048, C), RT_NONE, "nt", 1);
}
static void bias_grad(void) { rt_emit_bias_grad(p, wide(1, C), act(N, C)); }
static void rope(void) { rt_emit_rope_fwd(p, act(N, C), act(N, C), wide(1, 64), some_ids(N, N), 1); }

enum { T = 2048, HEADS = 2, GROUPS = 1, HEAD = 64 };
static rt_view heads(uint32_t n) { return act(T, n * HEAD); }
static const rt_attn_shape shape = { .T = T, .H = HEADS, .K = GROUPS, .D = HEAD };
static void attn_fwd(void)
{
    rt_emit_attn_fwd(p, heads(HEADS), wide(T, HEADS), heads(HEADS), heads(GROUPS), heads(GROUPS), RT_NONE, &shape);
}
static void attn_bwd(void)
{
    rt_emit_attn_bwd(p, heads(HEADS), heads(GROUPS), heads(GROUPS), heads(HEADS), heads(HEADS), heads(GROUPS),
                     heads(GROUPS), heads(HEADS), wide(T, HEADS), RT_NONE, &shape);
}
static void attn_decode(void)
{
    const rt_attn_shape one = { .T = 1, .H = HEADS, .K = GROUPS, .D = HEAD };
    rt_emit_attn_decode(p, act(16, HEADS * HEAD), act(16, HEADS * HEAD), act(16 * T, GROUPS * HEAD),
                        act(16 * T, GROUPS * HEAD), some_ids(16, 0), RT_NONE, &one);
}

static void swiglu_fwd(void) { rt_emit_swiglu_fwd(p, act(N, C), RT_NONE, act(N, C), act(N, C)); }
static void swiglu_bwd(void)
{
    rt_emit_swiglu_bwd(p, act(N, C), act(N, C), act(N, C), act(N, C), act(N, C), act(N, C));
}
static void add(void) { rt_emit_add(p, act(N, C), act(N, C), act(N, C)); }
static void scale(void) { rt_emit_scale(p, act(N, C), act(N, C), wide(1, 1), 1); }
static void cast(void) { rt_emit_cast(p, wide(N, C), act(N, C)); }
static void copy(void) { rt_emit_copy(p, act(N, C), act(N, C), RT_NONE); }
static void fill(void) { rt_emit_fill(p, act(N, C), 1); }
static void dequant(void) { rt_emit_dequant(p, act(N, C), buf(RT_DTYPE_Q4_K, N, C)); }
static void quant(void) { rt_emit_quant(p, buf(RT_DTYPE_Q8_0, N, C), act(N, C)); }
static void quant_rows(void) { rt_emit_quant_rows(p, buf(RT_DTYPE_E4M3, N, C), wide(N, 1), act(N, C)); }
static void dropout(void) { rt_emit_dropout(p, act(N, C), act(N, C), step, 0.1f, 1); }

enum { ROWS = 64, V = 32768 };
static void kd_loss(void)
{
    rt_kd_io io = { .logits = act(ROWS, V),
                    .sums = wide(1, 4),
                    .fault = fault,
                    .target = some_ids(ROWS, V),
                    .step = step,
                    .teacher = act(ROWS, V) };
    rt_emit_kd_loss(
        p, &io,
        &(rt_kd_opts){
            .divergence = RT_DIV_FORWARD_KL, .T = 2, .ce_weight = 0.5f, .kd_weight = 0.5f, .t2 = true, .grad = true });
}
static void topk_of(uint32_t k)
{
    rt_emit_topk(p, buf(RT_DTYPE_I32, ROWS, k), wide(ROWS, k), wide(ROWS, 1), act(ROWS, V), RT_NONE, 1);
}
static void topk_1(void) { topk_of(1); }
static void topk_64(void) { topk_of(64); }
static void mix_logits(void)
{
    rt_emit_mix_logits(p, act(ROWS, V), act(ROWS, V), act(ROWS, V), RT_NONE, RT_NONE, 1, 0.5f);
}
static void adamw(void)
{
    rt_adamw_io io = { .param = act(N, C), .m = wide(N, C), .v = wide(N, C), .grad = wide(N, C), .step = step };
    if (D != RT_DTYPE_F32) io.master = wide(N, C);
    rt_emit_adamw(p, &io, &(rt_adamw_opts){ 0.9f, 0.999f, 1e-8f, 0.1f, 1, 0 });
}
static void norm_sq(void) { rt_emit_norm_sq(p, wide(1, 1), wide(N, C), RT_NONE, RT_NONE, 0); }

/* Operations matter where they are many for each byte: GEMMs and attention. Its backward computes probabilities twice,
 * for want of sums that no order fixes: seven GEMMs for the plan's five. Elsewhere they are told. */
typedef struct op_case {
    const char *name;
    void (*emit)(void);
    double most_moved, most_done; /* of the plan's bytes and operations; 0: told */
} op_case;
#define CASE(f)                                                                                                        \
    {                                                                                                                  \
#f, f, MOST, 0                                                                                                 \
    }
#define DENSE(f)                                                                                                       \
    {                                                                                                                  \
#f, f, MOST, MOST                                                                                              \
    }
static const op_case cases[] = {
    CASE(embed_fwd),
    CASE(embed_bwd),
    CASE(embed_few),
    CASE(rmsnorm_fwd),
    CASE(rmsnorm_bwd),
    CASE(add_rmsnorm_fwd),
    CASE(add_rmsnorm_bwd),
    DENSE(matmul_nt),
    DENSE(matmul_nn),
    DENSE(matmul_tn),
    DENSE(matmul_1),
    DENSE(matmul_4),
    DENSE(matmul_8),
    DENSE(matmul_q8),
    CASE(bias_grad),
    CASE(rope),
    DENSE(attn_fwd),
    { "attn_bwd", attn_bwd, 1.6, 1.4 * MOST },
    DENSE(attn_decode),
    CASE(swiglu_fwd),
    CASE(swiglu_bwd),
    CASE(add),
    CASE(scale),
    CASE(cast),
    CASE(copy),
    CASE(fill),
    CASE(dequant),
    CASE(quant),
    CASE(quant_rows),
    CASE(dropout),
    CASE(kd_loss),
    CASE(topk_1),
    CASE(topk_64),
    CASE(mix_logits),
    CASE(adamw),
    CASE(norm_sq),
};

static void fill_ids(rt_exec *x)
{
    if (!ids.buf) return;
    if (ids_below || ids.rows > 16) {
        bench_fill_column(x, ids, ids_below, T);
        return;
    }
    int32_t all[16]; /* lengths of full caches */
    for (uint32_t i = 0; i < ids.rows; i++) all[i] = T;
    bench_put(x, ids, all, ids.rows * sizeof *all);
}

/* Returns whether the op moves and computes what its plan says. */
static bool compare(const op_case *c, rt_exec *x, rt_dev *dev)
{
    rt_err e = { 0 };
    rt_vk_counts n;
    double bytes = 0, flops = 0;
    const rt_plan *lowered = rt_exec_plan(x, 0);
    if (rt_vk_counters_take(dev, &n, &e) < 0) bench_die(c->name, &e);
    bench_run(x, 0);
    if (rt_vk_counters_take(dev, &n, &e) < 0) bench_die(c->name, &e);
    for (uint32_t i = 0; i < lowered->nops; i++) {
        bytes += (double)rt_op_bytes(lowered, &lowered->ops[i]);
        flops += (double)rt_op_flops(lowered, &lowered->ops[i]);
    }
    double moved = (double)(n.fetched + n.written), asked = (double)(n.loaded + n.stored);
    double done = flops > 0 ? (double)n.flops / flops : 0;
    bool good = moved <= c->most_moved * bytes && (!c->most_done || done <= c->most_done);
    printf("%-16s %-5s %9.2f %7.3f %7.2f %10.2f %7.3f  %s\n", c->name, rt_dtype_name(D), bytes / 1e6, moved / bytes,
           asked / bytes, flops / 1e6, done, good ? "" : "beyond");
    return good;
}

static bool count(const op_case *c, rt_dev *dev)
{
    rt_err e = { 0 };
    rt_exec *x;
    rt_policy policy = *rt_device_policy(dev);
    ids = RT_NONE;
    if (rt_space_new(&s, &e) < 0 || rt_plan_new(&p, s, "op", &policy, &e) < 0) bench_die(c->name, &e);
    step = rt_space_buf(s, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step");
    fault = buf(RT_DTYPE_U32, 1, 4);
    c->emit();
    if (rt_exec_seal(&x, dev, (const rt_plan *const[]){ p }, 1, &(rt_seal_opts){ .no_reuse = true }, &e) < 0)
        bench_die(c->name, &e);
    bench_fill_space(x, s, true);
    bench_fill_step(x, step, fault, N);
    fill_ids(x);
    bool good = compare(c, x, dev);
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
    return good;
}

int main(int argc, char **argv)
{
    const rt_dtype dtypes[] = { RT_DTYPE_F32, RT_DTYPE_BF16 };
    const char *only = argc > 1 ? argv[1] : NULL;
    uint32_t beyond = 0, n = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    rt_dev *dev = bench_open("vulkan", NULL);
    printf("%-16s %-5s %9s %7s %7s %10s %7s\n", "op", "", "MB", "moved", "asked", "MFLOP", "done");
    for (uint32_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t k = 0; k < sizeof dtypes / sizeof *dtypes; k++) {
            D = dtypes[k];
            if (only && !strstr(cases[i].name, only)) continue;
            n++;
            beyond += !count(&cases[i], dev);
        }
    dev->api->close(dev);
    printf("%u of %u are as near to their plans as is asked\n", n - beyond, n);
    return n && !beyond ? 0 : 1;
}
