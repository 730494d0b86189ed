/* bench_cpu.c - the CPU backend's ops beside the two ceilings of this machine, measured in the same run.
 *
 * Compute: OpenBLAS's own threaded sgemm (the pthread flavour, opened at run time), same shape and transposes for
 * matmul rows, 2048 cubed for attention. Memory: a threaded copy with ordinary stores over buffers larger than the
 * last-level cache, bytes read plus bytes written. Every op runs as users run it: recorded, sealed, run. Op and ceiling
 * take turns, so that a noisy neighbour meets both; each row states the best of its turns. */
#include "backend/backend.h"
#include "base/mem.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/sys.h"
#include "exec/exec.h"
#include "num/moment.h"
#include "num/quant.h"
#include "op/emit.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { TURNS = 7 };

typedef void (*sgemm_fn)(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda,
                         const float *b, int ldb, float beta, float *c, int ldc);
static sgemm_fn sgemm;
static rt_pool *pool;
static rt_dev *dev;

static void die(const char *what, const rt_err *e)
{
    fprintf(stderr, "bench_cpu: %s%s%s\n", what, e ? ": " : "", e ? e->text : "");
    exit(1);
}

/* ---- ceilings ---- */

static float *copy_from, *copy_to;
static size_t copy_floats; /* per buffer */
enum { COPY_CHUNKS = 64 };

/* The copy itself, as wide as this machine stores: a full cache line per store may save reading the line first, and the
 * ceiling should not be lower than what the kernels can reach. A plain loop: no call of memcpy, no streaming stores. */
#define COPY_LOOP(width)                                                                                               \
    typedef float vec __attribute__((vector_size(width)));                                                             \
    const vec *f = (const vec *)(const void *)from;                                                                    \
    vec *t = (vec *)(void *)to;                                                                                        \
    for (size_t i = 0; i < n * 4 / (width); i += 4) {                                                                  \
        t[i] = f[i], t[i + 1] = f[i + 1], t[i + 2] = f[i + 2], t[i + 3] = f[i + 3];                                    \
        __asm__ volatile("" ::: "memory");                                                                             \
    }
static void copy_narrow(float *to, const float *from, size_t n) { COPY_LOOP(16) }
#if defined(__x86_64__)
__attribute__((target("avx2"))) static void copy_avx2(float *to, const float *from, size_t n) { COPY_LOOP(32) }
__attribute__((target("avx512f"))) static void copy_avx512(float *to, const float *from, size_t n) { COPY_LOOP(64) }
#endif

static void copy_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    size_t n = copy_floats / COPY_CHUNKS;
    float *to = copy_to + chunk * n;
    const float *from = copy_from + chunk * n;
    (void)ctx;
    (void)worker;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f")) {
        copy_avx512(to, from, n);
        return;
    }
    if (__builtin_cpu_supports("avx2")) {
        copy_avx2(to, from, n);
        return;
    }
#endif
    copy_narrow(to, from, n);
}
static double copy_seconds(void)
{
    double t = rt_now();
    rt_pool_run(pool, COPY_CHUNKS, copy_chunk, NULL);
    return rt_now() - t;
}

static float *ga, *gb, *gc; /* operands of the ceiling's sgemm */
enum { GEMM_BYTES = 64 << 20 };
typedef struct gemm_shape {
    uint32_t M, N, K;
    bool ta, tb;
} gemm_shape;
static void sgemm_call(gemm_shape s)
{
    sgemm(101, s.ta ? 112 : 111, s.tb ? 112 : 111, (int)s.M, (int)s.N, (int)s.K, 1.0f, ga, (int)(s.ta ? s.M : s.K), gb,
          (int)(s.tb ? s.K : s.N), 0.0f, gc, (int)s.N);
}
static double sgemm_seconds(gemm_shape s, int times)
{
    double t = rt_now();
    for (int i = 0; i < times; i++) sgemm_call(s);
    t = (rt_now() - t) / times;
    usleep(100000); /* OpenBLAS's threads spin for tens of milliseconds after a call and would take our core */
    return t;
}

/* In large pages, as the backend's own memory is: the ceilings must not pay for what the ops do not. */
static float *large(size_t bytes)
{
    enum { HUGE_PAGE = 2 << 20 };
    void *p = rt_alloc(bytes, HUGE_PAGE);
    if (!p) die("out of memory", NULL);
    madvise(p, bytes, MADV_HUGEPAGE);
    memset(p, 0, bytes);
    return p;
}

static void open_ceilings(uint32_t threads)
{
    static const char *const names[] = { "libopenblasp.so.0", "openblas-pthread/libopenblas.so.0",
                                         "/usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0",
                                         "/usr/lib/aarch64-linux-gnu/openblas-pthread/libopenblas.so.0" };
    rt_err e = { 0 };
    void *lib = NULL;
    for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++)
        lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
    if (!lib) die("OpenBLAS with threads is not installed (package libopenblas0-pthread)", NULL);
    sgemm = (sgemm_fn)(uintptr_t)dlsym(lib, "cblas_sgemm");
    void (*set_threads)(int) = (void (*)(int))(uintptr_t)dlsym(lib, "openblas_set_num_threads");
    char *(*core)(void) = (char *(*)(void))(uintptr_t)dlsym(lib, "openblas_get_corename");
    if (!sgemm || !set_threads || !core) die("this OpenBLAS lacks a function", NULL);
    set_threads((int)threads);
    if (rt_pool_new(&pool, threads, &e) < 0) die("pool", &e);
    uint64_t llc = rt_sys_llc_bytes(), bytes = llc * 4 > (256u << 20) ? llc * 4 : 256u << 20;
    copy_floats = (size_t)(bytes / 4) & ~(size_t)4095;
    copy_from = large(copy_floats * 4);
    copy_to = large(copy_floats * 4);
    ga = large(GEMM_BYTES);
    gb = large(GEMM_BYTES);
    gc = large(GEMM_BYTES);
    for (size_t i = 0; i < GEMM_BYTES / 4; i++) ga[i] = gb[i] = (float)(i % 97) * 0.01f - 0.5f;
    printf("ceilings: OpenBLAS (%s, %u threads) sgemm; copy of 2 x %zu MiB with plain stores\n", core(), threads,
           (size_t)(bytes >> 20));
}

/* ---- rows ---- */

typedef enum ceiling { BY_COPY, BY_SGEMM_SAME, BY_SGEMM_CUBE, BY_F32_ROW } ceiling;
typedef struct bench {
    char name[64];
    rt_space *space;
    rt_plan *plan;
    ceiling by;
    gemm_shape gemm;
    double target; /* per cent; 0: none */
    rt_view fresh; /* written anew before every run, outside the clock */
} bench;

static rt_view input(bench *b, rt_dtype d, uint32_t r, uint32_t c, const char *n)
{
    return rt_space_buf(b->space, RT_CLASS_INPUT, d, r, c, n);
}
static rt_view state(bench *b, rt_dtype d, uint32_t r, uint32_t c, const char *n)
{
    return rt_space_buf(b->space, RT_CLASS_STATE, d, r, c, n);
}
static rt_view output(bench *b, rt_dtype d, uint32_t r, uint32_t c, const char *n)
{
    return rt_space_buf(b->space, RT_CLASS_OUTPUT, d, r, c, n);
}

static void begin(bench *b, const char *name, double target, ceiling by)
{
    rt_err e = { 0 };
    *b = (bench){ .by = by, .target = target };
    snprintf(b->name, sizeof b->name, "%s", name);
    if (rt_space_new(&b->space, &e) < 0 || rt_plan_new(&b->plan, b->space, name, &rt_policy_f32, &e) < 0) die(name, &e);
}

/* Random data of every input: floats of order one, blocks of such floats, small integers. */
static void fill(rt_exec *x, const bench *b, uint32_t index)
{
    const rt_buffer *buf = &b->space->bufs[index];
    rt_view all = { index + 1, buf->rows, buf->cols, 0, buf->cols };
    uint64_t n = (uint64_t)buf->rows * buf->cols;
    rt_err e = { 0 };
    uint8_t *data = rt_alloc_zero(buf->bytes, 64);
    if (!data) die("out of memory", NULL);
    if (rt_dtype_is_float(buf->dtype) || rt_dtype_is_quant(buf->dtype)) {
        enum { PIECE = 1 << 16 };
        float *f = rt_alloc(PIECE * sizeof *f, 64);
        if (!f) die("out of memory", NULL);
        for (uint64_t at = 0; at < n; at += PIECE) {
            uint64_t m = n - at < PIECE ? n - at : PIECE;
            for (uint64_t i = 0; i < m; i += 4) {
                rt_rng4 r = rt_philox(index, 1, at + i);
                for (uint64_t k = 0; k < 4 && i + k < m; k++) f[i + k] = 4.0f * (rt_rng_unit(r.v[k]) - 0.5f);
            }
            if (rt_dtype_is_quant(buf->dtype))
                rt_quant_from_f32(data + rt_dtype_bytes(buf->dtype, at), f, buf->dtype, m);
            else
                rt_float_from_f32(data + rt_dtype_bytes(buf->dtype, at), f, buf->dtype, m);
        }
        rt_free(f);
    } else if (buf->dtype == RT_DTYPE_I32) {
        for (uint64_t i = 0; i < n; i++) ((int32_t *)(void *)data)[i] = (int32_t)(i % 1000);
    } else if (buf->dtype == RT_DTYPE_U8) {
        *(rt_step *)(void *)data = (rt_step){ .step = 3, .tokens = 1000, .lr = 1e-4f, .seed = 1 };
    }
    if (rt_exec_write(x, all, data, buf->bytes, &e) < 0) die(b->name, &e);
    rt_free(data);
}

static double run_times(rt_exec *x, int times)
{
    rt_err e = { 0 };
    rt_ticket t;
    double begun = rt_now();
    for (int i = 0; i < times; i++)
        if (rt_exec_run(x, 0, &t, &e) < 0 || rt_exec_wait(x, t, &e) < 0) die("run", &e);
    return (rt_now() - begun) / times;
}

/* A short op repeats until its turn lasts about ten milliseconds; so does its ceiling. In a step ops follow one
 * another, so what a sleeping core takes to wake, a millisecond on some virtual machines, is not part of an op. */
static int times_for(double seconds) { return seconds > 0.01 ? 1 : (int)(0.01 / seconds) + 1; }

static double ceiling_seconds(const bench *b, int times)
{
    gemm_shape s = b->by == BY_SGEMM_SAME ? b->gemm : (gemm_shape){ 2048, 2048, 2048, false, true };
    if (b->by == BY_COPY) return copy_seconds();
    sgemm_call(s); /* wakes its threads */
    return sgemm_seconds(s, b->by == BY_SGEMM_SAME ? times : 1);
}

static double last_f32_rate; /* of the matmul row before, for BY_F32_ROW */
static int short_of;

static const char *only = ""; /* rows whose name contains it */

static void measure(bench *b)
{
    rt_err e = { 0 };
    rt_exec *x;
    const rt_plan *plan = b->plan;
    if (rt_exec_seal(&x, dev, &plan, 1, NULL, &e) < 0) die(b->name, &e);
    for (uint32_t i = 0; i < b->space->nbufs; i++) fill(x, b, i);
    double best = 1e30, top = 1e30, work = 0, top_work = 2.0 * (double)copy_floats * 4;
    const char *unit = b->by == BY_COPY ? "GB/s" : "GFLOP/s";
    for (uint32_t i = 0; i < plan->nops; i++)
        work += (double)(b->by == BY_COPY ? rt_op_bytes(plan, &plan->ops[i]) : rt_op_flops(plan, &plan->ops[i]));
    run_times(x, 1);
    int times = b->fresh.buf ? 1 : times_for(run_times(x, 1)); /* what works in place is made anew, and runs once */
    if (b->by != BY_F32_ROW) ceiling_seconds(b, times);
    for (int i = 0; i < TURNS; i++) {
        if (b->fresh.buf)
            fill(x, b, b->fresh.buf - 1);
        else
            run_times(x, times); /* wakes our threads, as the ceiling's were */
        double t = run_times(x, times);
        if (t < best) best = t;
        if (b->by == BY_F32_ROW) continue;
        t = ceiling_seconds(b, times);
        if (t < top) top = t;
    }
    if (b->by == BY_SGEMM_CUBE) top_work = 2.0 * 2048 * 2048 * 2048;
    if (b->by == BY_SGEMM_SAME) top_work = 2.0 * b->gemm.M * b->gemm.N * b->gemm.K;
    double rate = work / best * 1e-9, ceil_rate = b->by == BY_F32_ROW ? last_f32_rate : top_work / top * 1e-9;
    double percent = 100.0 * rate / ceil_rate;
    if (b->by == BY_SGEMM_SAME) last_f32_rate = rate;
    char goal[24] = "";
    if (b->target > 0) snprintf(goal, sizeof goal, ">= %.0f %s", b->target, percent >= b->target ? "" : "SHORT");
    if (b->target > 0 && percent < b->target) short_of++;
    printf("%-44s %9.3f ms %8.1f %-7s %6.1f %% of %7.1f  %s\n", b->name, best * 1e3, rate, unit, percent, ceil_rate,
           goal);
    fflush(stdout);
    rt_exec_free(x);
}

static void finish(bench *b)
{
    if (strstr(b->name, only)) measure(b);
    rt_plan_free(b->plan);
    rt_space_free(b->space);
}

/* ---- the ops ---- */

/* x (T,K) W' (N,K), or dy W, or dy' x; weights stored as `w` */
static void matmul(uint32_t T, uint32_t N, uint32_t K, const char *trans, rt_dtype w, double target, ceiling by)
{
    bench b;
    char name[64];
    bool ta = trans[0] == 't', tb = trans[1] == 't';
    snprintf(name, sizeof name, "matmul %s %ux%ux%u %s", trans, T, N, K, rt_dtype_name(w));
    begin(&b, name, target, by);
    b.gemm = (gemm_shape){ T, N, K, ta, tb };
    rt_view a = input(&b, RT_DTYPE_F32, ta ? K : T, ta ? T : K, "a"), m = input(&b, w, tb ? N : K, tb ? K : N, "b");
    rt_emit_matmul(b.plan, output(&b, RT_DTYPE_F32, T, N, "out"), a, m, RT_NONE, trans, 1.0f);
    finish(&b);
}

static void all_matmuls(void)
{
    static const struct {
        uint32_t T, N, K;
        const char *trans;
    } rows[] = { { 512, 896, 896, "nt" },  { 512, 128, 896, "nt" },  { 512, 4864, 896, "nt" }, { 512, 896, 4864, "nt" },
                 { 512, 8192, 896, "nt" }, { 512, 896, 4864, "nn" }, { 512, 4864, 896, "nn" }, { 896, 4864, 512, "tn" },
                 { 4864, 896, 512, "tn" }, { 896, 896, 512, "tn" } };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        matmul(rows[i].T, rows[i].N, rows[i].K, rows[i].trans, RT_DTYPE_F32, 90, BY_SGEMM_SAME);
    static const rt_dtype stored[] = { RT_DTYPE_Q4_K, RT_DTYPE_Q6_K, RT_DTYPE_Q8_0, RT_DTYPE_BF16 };
    static const uint32_t wide[][2] = { { 896, 4864 }, { 8960, 1536 }, { 1536, 8960 } };
    for (int s = 0; s < 3; s++) {
        matmul(512, wide[s][0], wide[s][1], "nt", RT_DTYPE_F32, 90, BY_SGEMM_SAME);
        for (int i = 0; i < 4; i++) matmul(512, wide[s][0], wide[s][1], "nt", stored[i], i == 0 ? 80 : 0, BY_F32_ROW);
    }
}

static void attention(uint32_t T, uint32_t H, uint32_t K, uint32_t D, rt_dtype d)
{
    char name[64];
    rt_attn_shape s = { .T = T, .H = H, .K = K, .D = D };
    for (int back = 0; back < 2; back++) {
        bench b;
        snprintf(name, sizeof name, "attention %s T%u H%u K%u D%u %s", back ? "backward" : "forward", T, H, K, D,
                 rt_dtype_name(d));
        begin(&b, name, d == RT_DTYPE_F32 && D == 64 ? 50 : 0, BY_SGEMM_CUBE);
        rt_view q = input(&b, d, T, H * D, "q"), k = input(&b, d, T, K * D, "k"), v = input(&b, d, T, K * D, "v");
        if (!back) {
            rt_emit_attn_fwd(b.plan, output(&b, d, T, H * D, "o"), output(&b, RT_DTYPE_F32, T, H, "lse"), q, k, v,
                             RT_NONE, &s);
        } else {
            rt_emit_attn_bwd(b.plan, output(&b, d, T, H * D, "dq"), output(&b, d, T, K * D, "dk"),
                             output(&b, d, T, K * D, "dv"), input(&b, d, T, H * D, "do"), q, k, v,
                             input(&b, d, T, H * D, "o"), input(&b, RT_DTYPE_F32, T, H, "lse"), RT_NONE, &s);
        }
        finish(&b);
    }
}

static void rows_ops(rt_dtype d)
{
    enum { N = 40960, C = 896 };
    const rt_dtype F = RT_DTYPE_F32;
    double must = d == F ? 70 : 0;
    const char *t = rt_dtype_name(d);
    char name[64];
    bench b;
#define NAME(text) (snprintf(name, sizeof name, text " %ux%u %s", N, C, t), name)
    begin(&b, NAME("add"), must, BY_COPY);
    rt_emit_add(b.plan, output(&b, d, N, C, "y"), input(&b, d, N, C, "a"), input(&b, d, N, C, "b"));
    finish(&b);
    begin(&b, NAME("swiglu_fwd"), must, BY_COPY);
    rt_emit_swiglu_fwd(b.plan, output(&b, d, N, C, "y"), RT_NONE, input(&b, d, N, C, "g"), input(&b, d, N, C, "u"));
    finish(&b);
    begin(&b, NAME("swiglu_bwd"), must, BY_COPY);
    rt_emit_swiglu_bwd(b.plan, output(&b, d, N, C, "dg"), output(&b, d, N, C, "du"), output(&b, d, N, C, "y"),
                       input(&b, d, N, C, "dy"), input(&b, d, N, C, "g"), input(&b, d, N, C, "u"));
    finish(&b);
    begin(&b, NAME("rmsnorm_fwd"), must, BY_COPY);
    rt_emit_rmsnorm_fwd(b.plan, output(&b, d, N, C, "y"), RT_NONE, input(&b, d, N, C, "x"), input(&b, d, 1, C, "w"), 1,
                        1e-6f);
    finish(&b);
    begin(&b, NAME("rmsnorm_bwd"), must, BY_COPY);
    rt_emit_rmsnorm_bwd(b.plan, output(&b, d, N, C, "dx"), output(&b, F, 1, C, "dw"), input(&b, d, N, C, "dy"),
                        input(&b, d, N, C, "x"), input(&b, d, 1, C, "w"), 1, 1e-6f);
    finish(&b);
    begin(&b, NAME("add_rmsnorm_fwd"), must, BY_COPY);
    rt_emit_add_rmsnorm_fwd(b.plan, output(&b, d, N, C, "y"), RT_NONE, output(&b, d, N, C, "h"),
                            input(&b, d, N, C, "x"), input(&b, d, N, C, "res"), input(&b, d, 1, C, "w"), 1e-6f);
    finish(&b);
    begin(&b, NAME("rope_fwd"), 0, BY_COPY);
    rt_emit_rope_fwd(b.plan, output(&b, d, N, C, "y"), input(&b, d, N, C, "x"), input(&b, F, 1, 32, "freq"),
                     input(&b, RT_DTYPE_I32, N, 1, "pos"), 1.0f);
    finish(&b);
    for (int k = 0; k < 3; k++) {
        const rt_dtype moments = (const rt_dtype[]){ F, RT_DTYPE_BF16, RT_DTYPE_U8 }[k];
        snprintf(name, sizeof name, "adamw%s %ux%u %s", (const char *const[]){ "", ", bf16 m v", ", u8 m v" }[k], N, C,
                 t);
        begin(&b, name, k ? 0 : must, BY_COPY);
        rt_adamw_io io = { .param = state(&b, d, N, C, "p"),
                           .m = state(&b, moments, N, C, "m"),
                           .v = state(&b, moments, N, C, "v"),
                           .grad = input(&b, d, N, C, "g"),
                           .step = rt_space_buf(b.space, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step") };
        if (d != F) io.master = state(&b, F, N, C, "master");
        if (moments == RT_DTYPE_U8) io.exps = state(&b, moments, N, (uint32_t)rt_moment_exps(C), "exponents");
        rt_emit_adamw(b.plan, &io, &(rt_adamw_opts){ 0.9f, 0.95f, 1e-8f, 0.01f, 0, 0 });
        finish(&b);
    }
    begin(&b, NAME("norm_sq"), 0, BY_COPY);
    rt_emit_norm_sq(b.plan, output(&b, F, 1, 1, "out"), input(&b, d, N, C, "x"), RT_NONE, RT_NONE, 0);
    finish(&b);
#undef NAME
}

static void kd(rt_divergence div, const char *text, float T, rt_dtype d, double target)
{
    enum { N = 192, V = 151936 };
    bench b;
    char name[64];
    snprintf(name, sizeof name, "kd_loss %s T%.0f %ux%u %s", text, (double)T, N, V, rt_dtype_name(d));
    begin(&b, name, target, BY_COPY);
    rt_kd_io io = { .logits = state(&b, d, N, V, "logits"),
                    .sums = output(&b, RT_DTYPE_F32, 1, 4, "sums"),
                    .fault = state(&b, RT_DTYPE_U32, 1, 4, "fault"),
                    .target = input(&b, RT_DTYPE_I32, N, 1, "target"),
                    .step = rt_space_buf(b.space, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step"),
                    .teacher = input(&b, d, N, V, "teacher") };
    b.fresh = io.logits;
    rt_emit_kd_loss(
        b.plan, &io,
        &(rt_kd_opts){
            .divergence = div, .T = T, .mix = 0.5f, .ce_weight = 0.1f, .kd_weight = 0.9f, .t2 = true, .grad = true });
    finish(&b);
}

int main(int argc, char **argv)
{
    rt_err e = { 0 };
    const rt_backend *cpu;
    rt_dev_info info;
    char count_text[RT_DEV_COUNT_TEXT];
    uint32_t threads = rt_cpu_count();
    for (int i = 1; i < argc; i += 2) {
        bool count = strcmp(argv[i], "--threads") == 0;
        if ((!count && strcmp(argv[i], "--only") != 0) || i + 1 == argc || (count && atoi(argv[i + 1]) < 1))
            die("usage: bench_cpu [--threads N] [--only TEXT]", NULL);
        if (count)
            threads = (uint32_t)atoi(argv[i + 1]);
        else
            only = argv[i + 1];
    }
    if (rt_backend_find("cpu", &cpu, &e) < 0 ||
        cpu->open(&dev, 0, &RT_DEV_OPTIONS({ "threads", rt_dev_count(count_text, threads) }), &e) < 0 ||
        cpu->info(dev, &info, &e) < 0)
        die("cpu", &e);
    printf("%s; %s\n", info.name, info.detail);
    open_ceilings(threads);
    all_matmuls();
    attention(2048, 14, 2, 64, RT_DTYPE_F32);
    attention(2048, 14, 2, 64, RT_DTYPE_BF16);
    attention(2048, 16, 8, 128, RT_DTYPE_F32);
    rows_ops(RT_DTYPE_F32);
    rows_ops(RT_DTYPE_BF16);
    kd(RT_DIV_FORWARD_KL, "fkl", 1, RT_DTYPE_F32, 60);
    kd(RT_DIV_FORWARD_KL, "fkl", 4, RT_DTYPE_F32, 35);
    kd(RT_DIV_REVERSE_KL, "rkl", 1, RT_DTYPE_F32, 60);
    kd(RT_DIV_REVERSE_KL, "rkl", 4, RT_DTYPE_F32, 35);
    kd(RT_DIV_JSD, "jsd", 1, RT_DTYPE_F32, 0);
    kd(RT_DIV_TV, "tv", 1, RT_DTYPE_F32, 0);
    kd(RT_DIV_FORWARD_KL, "fkl", 1, RT_DTYPE_BF16, 0);
    printf("%d row%s short of the target\n", short_of, short_of == 1 ? "" : "s");
    cpu->close(dev);
    return 0;
}
