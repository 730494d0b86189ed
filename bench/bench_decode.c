/* bench_decode.c - generation on a GPU: each op of a step of answers and of a piece of a prompt beside its floor, the
 * programs, and requests through the engine, with models that have the shapes of presets and random weights.
 *
 * The floor of an op is the larger of two times: its bytes (weights as they are stored, the cache up to its length in
 * the middle of an answer) at the rate of a copy, and its FLOPs at the best rate of a GEMM of as many rows, 128 at
 * least, both measured in this process. What a device does besides (dequantising, parts of sums) has none. */
#include "bench_fill.h"
#include "op_rows.h"

#include "base/sys.h"
#include "cli/cli.h"
#include "infer/engine_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct decode_case {
    const char *name, *preset, *mix; /* mix: of the weights, null as the device wants */
    uint32_t slots, prompt, answer;
} decode_case;

static const decode_case large[] = {
    { "1.5b-256", "qwen2.5-1.5b", NULL, 256, 256, 512 }, { "7b-q4-64", "qwen2.5-7b", "q4_k_m", 64, 256, 256 },
    { "1.5b-1", "qwen2.5-1.5b", NULL, 1, 256, 512 },     { "7b-q4-1", "qwen2.5-7b", "q4_k_m", 1, 256, 256 },
    { "1.5b-64", "qwen2.5-1.5b", NULL, 64, 256, 256 },   { "7b-q4-8", "qwen2.5-7b", "q4_k_m", 8, 256, 256 },
};
/* To try the program itself, on any device. */
static const decode_case tiny[] = {
    { "tiny-4", "tiny-qwen2", NULL, 4, 40, 8 },
    { "tiny-q4-1", "tiny-llama", "q4_k_m", 1, 40, 8 },
};

static rt_dev *dev;
static double copy_rate; /* bytes a second */
static bool is_tiny, rows_wanted = true;

static double bytes_of(const rt_plan *p, rt_view v) { return v.buf ? (double)rt_view_bytes(p, v) : 0; }

/* ---- ceilings ---- */

static rt_view buffer(rt_space *s, rt_dtype d, uint32_t rows, uint32_t cols)
{
    return rt_space_buf(s, RT_CLASS_STATE, d, rows, cols, "operand");
}

static double seconds_of(rt_plan *p, rt_space *s)
{
    rt_err e = { 0 };
    rt_exec *x;
    if (rt_exec_seal(&x, dev, (const rt_plan *const[]){ p }, 1, NULL, &e) < 0) bench_die("a ceiling", &e);
    bench_fill_space(x, s, true);
    const double took = bench_seconds(x, 0);
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
    return took;
}

static void measure_copy(void)
{
    rt_err e = { 0 };
    rt_space *s;
    rt_plan *p;
    const uint32_t mebibytes = is_tiny ? 16 : 2048;
    if (rt_space_new(&s, &e) < 0 || rt_plan_new(&p, s, "copy", &rt_policy_f32, &e) < 0) bench_die("copy", &e);
    rt_view from = buffer(s, RT_DTYPE_F32, mebibytes, 1 << 18), to = buffer(s, RT_DTYPE_F32, mebibytes, 1 << 18);
    rt_emit_copy(p, to, from, RT_NONE);
    copy_rate = 2.0 * mebibytes * 1048576.0 / seconds_of(p, s);
    printf("copy: %.0f GB/s, read and written\n", copy_rate * 1e-9);
}

/* FLOP/s of bf16 GEMMs of M rows, one after the other, by one weight (n,k). */
static double rate_of(uint32_t M, uint32_t n, uint32_t k)
{
    enum { TIMES = 32 };
    rt_err e = { 0 };
    rt_space *s;
    rt_plan *p;
    if (rt_space_new(&s, &e) < 0 || rt_plan_new(&p, s, "gemm", rt_device_policy(dev), &e) < 0) bench_die("gemm", &e);
    const rt_dtype d = p->policy.act;
    rt_view a = buffer(s, d, M, k), b = buffer(s, d, n, k), y = buffer(s, d, M, n);
    for (int t = 0; t < TIMES; t++) rt_emit_matmul(p, y, a, b, RT_NONE, "nt", 1.0f);
    return 2.0 * M * n * k * TIMES / seconds_of(p, s);
}

/* The best of a weight that stays in the cache and of larger ones. */
static double gemm_rate(uint32_t M)
{
    enum { LEAST = 128 };
    static const uint32_t sizes[][2] = { { 4096, 4096 }, { 8192, 8192 }, { 32768, 4096 } };
    static struct {
        uint32_t M;
        double rate;
    } known[16];
    uint32_t i = 0;
    if (M < LEAST) M = LEAST;
    while (known[i].M && known[i].M != M) i++;
    if (known[i].M) return known[i].rate;
    known[i].M = M;
    for (uint32_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        const double rate = is_tiny ? rate_of(M, 64, 128) : rate_of(M, sizes[k][0], sizes[k][1]);
        if (rate > known[i].rate) known[i].rate = rate;
    }
    printf("GEMM of %u rows: %.0f TFLOP/s\n", M, known[i].rate * 1e-12);
    return known[i].rate;
}

/* ---- floors ---- */

/* Keys of a sequence: of a row of the token program in the middle of its answer, of a piece in the middle of a prompt.
 */
static double op_floor(const rt_plan *p, const rt_op *op, double keys)
{
    const rt_view *s = op->slot;
    double bytes = (double)rt_op_bytes(p, op), seconds;
    if (op->kind == RT_OP_ATTN_DECODE) {
        const rt_decode_args *a = &op->args.decode;
        const double width = (double)rt_dtype_bytes(rt_plan_dtype(p, s[RT_DEC_KC]), 1) * a->K * a->D;
        return (2 * a->B * keys * width + 2 * bytes_of(p, s[RT_DEC_Q])) / copy_rate;
    }
    if (op->kind == RT_OP_COPY) bytes = 2 * bytes_of(p, s[RT_ROWS_X]);
    if (op->kind == RT_OP_EMBED_FWD) bytes = 2 * bytes_of(p, s[RT_EMBED_Y]);
    if (op->kind == RT_OP_SAMPLE) bytes = bytes_of(p, s[RT_SAMPLE_X]);
    seconds = bytes / copy_rate;
    if (op->kind != RT_OP_MATMUL) return seconds;
    const double product = 2.0 * op->args.matmul.M * op->args.matmul.N * op->args.matmul.K;
    return product / gemm_rate(op->args.matmul.M) > seconds ? product / gemm_rate(op->args.matmul.M) : seconds;
}

enum { GEMM, HEAD, ATTENTION, CACHE, OTHER, SAMPLE, CLASSES };
static const char *const class_names[CLASSES] = { "GEMMs of layers",   "GEMM of the head",   "attention",
                                                  "keys to the cache", "norm, rope, swiglu", "sample" };

static int class_of(const rt_plan *p, const rt_op *op)
{
    switch (op->kind) {
    case RT_OP_DEQUANT:
    case RT_OP_MATMUL: return strcmp(op->label, "head") == 0 ? HEAD : GEMM;
    case RT_OP_ATTN_DECODE: return ATTENTION;
    case RT_OP_COPY: return CACHE;
    case RT_OP_SAMPLE: return SAMPLE;
    default: (void)p; return OTHER;
    }
}

static double plan_floor(const rt_plan *p, double keys, double *by_class)
{
    double all = 0;
    for (uint32_t i = 0; i < p->nops; i++) {
        const double f = op_floor(p, &p->ops[i], keys);
        if (by_class) by_class[class_of(p, &p->ops[i])] += f;
        all += f;
    }
    return all;
}

/* ---- a case ---- */

typedef struct bench {
    const decode_case *c;
    rt_model_config config;
    rt_space *space;
    rt_decoder *model;
    rt_engine *engine;
    const rt_plan *plans[RT_ENGINE_PROGRAMS];
    uint32_t programs;
    rt_view noise;
} bench;

static void record(bench *b, const decode_case *c)
{
    rt_err e = { 0 };
    static rt_policy policy;
    policy = *rt_device_policy(dev);
    b->c = c;
    rt_preset_fill(rt_preset_find(c->preset), &b->config);
    rt_dtype *dtypes = c->mix ? bench_mixed_dtypes(&b->config, c->mix) : NULL;
    rt_decoder_opts o = { .name = "model", .policy = &policy, .dtypes = dtypes };
    rt_engine_opts how = { .slots = c->slots, .context = c->prompt + c->answer };
    how.prompts = rt_engine_prompts(dev, &how);
    if (rt_space_new(&b->space, &e) < 0 || rt_decoder_new(&b->model, b->space, &b->config, &o, &e) < 0 ||
        rt_engine_record(&b->engine, b->space, b->model, &policy, &how, &e) < 0)
        bench_die(c->name, &e);
    rt_free(dtypes);
    b->noise = rt_space_buf(b->space, RT_CLASS_INPUT, RT_DTYPE_BF16, 8, BENCH_PIECE, "noise");
    b->programs = rt_engine_plans(b->engine, b->plans);
}

static void forget(bench *b)
{
    rt_engine_free(b->engine);
    rt_decoder_free(b->model);
    rt_space_free(b->space);
}

/* The second piece of each of the first prompts. */
static void fill_pieces(bench *b, rt_exec *x, const int32_t *table)
{
    enum { ROWS = RT_ENGINE_LARGE * RT_ENGINE_PIECES };
    const rt_engine *g = b->engine;
    const rt_feed *f = &g->piece[RT_PIECE_LARGE];
    const uint32_t rows = f->tokens.B * RT_ENGINE_LARGE;
    int32_t pos[ROWS], to[ROWS], len[RT_ENGINE_PIECES];
    for (uint32_t i = 0; i < rows; i++) {
        const uint32_t prompt = i / RT_ENGINE_LARGE, at = RT_ENGINE_LARGE + i % RT_ENGINE_LARGE;
        pos[i] = (int32_t)at;
        to[i] = table[prompt * g->per_seat + at / RT_ENGINE_PAGE] * RT_ENGINE_PAGE + (int32_t)(at % RT_ENGINE_PAGE);
        len[prompt] = 2 * RT_ENGINE_LARGE;
    }
    bench_put(x, f->rows.table, table, (uint64_t)f->tokens.B * g->per_seat * sizeof *table);
    bench_put(x, f->rows.to, to, rows * sizeof *to);
    bench_put(x, f->rows.len, len, f->tokens.B * sizeof *len);
    bench_put(x, f->tokens.pos, pos, rows * sizeof *pos);
    bench_fill_column(x, f->tokens.ids, b->config.vocab, 0);
}

/* Every slot in the middle of its answer. */
static void fill_places(bench *b, rt_exec *x)
{
    rt_engine *g = b->engine;
    const uint32_t N = g->slots, at = b->c->prompt + b->c->answer / 2, pages = at / RT_ENGINE_PAGE + 1;
    int32_t *places = rt_alloc_zero(3 * N * sizeof *places, 64);
    int32_t *table = rt_alloc_zero((uint64_t)N * g->per_seat * sizeof *table, 64);
    float *hows = rt_alloc_zero((uint64_t)N * RT_HOW_COLS * sizeof *hows, 64);
    if (!places || !table || !hows) bench_die("out of memory", NULL);
    for (uint32_t i = 0; i < N; i++) {
        for (uint32_t k = 0; k < pages; k++) table[i * g->per_seat + k] = (int32_t)(1 + i * pages + k);
        places[i] = (int32_t)at;
        places[N + i] = table[i * g->per_seat + at / RT_ENGINE_PAGE] * RT_ENGINE_PAGE + (int32_t)(at % RT_ENGINE_PAGE);
        places[2 * N + i] = (int32_t)at + 1;
        hows[i * RT_HOW_COLS + RT_HOW_TOP_P] = hows[i * RT_HOW_COLS + RT_HOW_PENALTY] = 1;
    }
    bench_put(x, g->places, places, 3 * N * sizeof *places);
    bench_put(x, g->token.rows.table, table, (uint64_t)N * g->per_seat * sizeof *table);
    bench_put(x, g->how, hows, (uint64_t)N * RT_HOW_COLS * sizeof *hows);
    fill_pieces(b, x, table);
    bench_fill_column(x, g->token.tokens.ids, b->config.vocab, 0);
    rt_free(places);
    rt_free(table);
    rt_free(hows);
}

static void load(bench *b, rt_exec *x)
{
    rt_err e = { 0 };
    bench_fill_space(x, b->space, true);
    if (rt_load_rope(x, b->model, &e) < 0) bench_die("rope", &e);
    fill_places(b, x);
}

static void print_class(const char *name, double took, double least)
{
    printf("  %-20s %9.1f us, floor %8.1f us: %5.1f %%\n", name, took * 1e6, least * 1e6, 100 * least / took);
}

/* The ops of the token program as rows, and what they add up to by class. */
static void time_rows(const decode_case *c)
{
    rt_err e = { 0 };
    rt_exec *dry, *x;
    bench b = { 0 };
    op_rows rows = { 0 };
    double took[CLASSES] = { 0 }, least[CLASSES] = { 0 };
    record(&b, c);
    if (rt_exec_seal(&dry, dev, b.plans, b.programs, &(rt_seal_opts){ .dry = true }, &e) < 0) bench_die(c->name, &e);
    const rt_plan *p = rt_exec_plan(dry, b.engine->token.program);
    for (uint32_t t = 0, n; t < p->nops; t += n) {
        n = 1;
        while (p->ops[t].kind == RT_OP_DEQUANT && t + n < p->nops && p->ops[t + n].kind == RT_OP_DEQUANT) n++;
        op_rows_add(&rows, class_names[class_of(p, &p->ops[t])], p, t, n);
    }
    x = op_rows_seal(&rows, dev, b.plans, b.programs, is_tiny ? 1e5 : c->slots > 64 ? 3e8 : 2e9, b.noise);
    load(&b, x);
    for (uint32_t i = 0; i < rows.count; i++) {
        op_rows_time(&rows, x, i);
        const op_row *r = &rows.list[i];
        printf("  %-20s %-14s %-38.38s %4u x %8.2f us\n", r->group, rt_op_name(r->kind), r->what, r->count,
               r->seconds / r->count * 1e6);
        took[class_of(p, &p->ops[r->ops[0]])] += r->seconds;
    }
    plan_floor(b.plans[b.engine->token.program], c->prompt + c->answer / 2.0, least);
    for (int i = 0; i < CLASSES; i++) print_class(class_names[i], took[i], least[i]);
    rt_exec_free(x);
    op_rows_free(&rows);
    rt_exec_free(dry);
    forget(&b);
}

static int hear(void *ctx, const rt_token_event *t, rt_err *e)
{
    (void)e;
    *(uint32_t *)ctx += t->id != UINT32_MAX;
    return 0;
}

/* One request a slot, all at once. Seconds until the last id. */
static double generate(bench *b)
{
    rt_err e = { 0 };
    const decode_case *c = b->c;
    uint32_t heard = 0, *prompt = rt_alloc(c->prompt * sizeof *prompt, 64);
    if (!prompt) bench_die("out of memory", NULL);
    const double begun = rt_now();
    for (uint32_t i = 0; i < c->slots; i++) {
        for (uint32_t k = 0; k < c->prompt; k++) prompt[k] = (i * 977 + k * 31) % b->config.vocab;
        rt_request r = { .prompt = prompt,
                         .count = c->prompt,
                         .max_new = c->answer,
                         .sampling = rt_sampling_greedy,
                         .fn = hear,
                         .ctx = &heard };
        if (rt_engine_add(b->engine, &r, NULL, &e) < 0) bench_die("add", &e);
    }
    while (rt_engine_busy(b->engine))
        if (rt_engine_step(b->engine, &e) < 0) bench_die("step", &e);
    const double took = rt_now() - begun;
    if (heard != c->slots * c->answer)
        printf("  only %u ids of %u: a logit is not finite\n", heard, c->slots * c->answer);
    rt_free(prompt);
    return took;
}

static void time_whole(const decode_case *c)
{
    rt_err e = { 0 };
    rt_exec *x;
    bench b = { 0 };
    record(&b, c);
    if (rt_exec_seal(&x, dev, b.plans, b.programs, NULL, &e) < 0) bench_die(c->name, &e);
    load(&b, x);
    const rt_feed *piece = &b.engine->piece[RT_PIECE_LARGE];
    const double step = bench_seconds(x, b.engine->token.program), read = bench_seconds(x, piece->program);
    const double keys = c->prompt + c->answer / 2.0;
    const double step_floor = plan_floor(b.plans[b.engine->token.program], keys, NULL);
    const double read_floor = plan_floor(b.plans[piece->program], c->prompt / 2.0, NULL);
    const double pieces = (double)c->prompt / RT_ENGINE_LARGE / piece->tokens.B * c->slots;
    print_class("step of answers", step, step_floor);
    print_class(piece->tokens.B > 1 ? "piece of prompts" : "piece of a prompt", read, read_floor);
    if (rt_engine_attach(b.engine, x, 0, &e) < 0) bench_die(c->name, &e);
    generate(&b);
    const rt_engine_stats before = rt_engine_stats_of(b.engine);
    const double whole = generate(&b), least = c->answer * step_floor + pieces * read_floor;
    const rt_engine_stats after = rt_engine_stats_of(b.engine);
    print_class("all requests", whole, least);
    printf("  %.0f tokens/s of answers in all, %llu steps\n", c->slots * c->answer / whole,
           (unsigned long long)(after.steps - before.steps));
    rt_engine_free(b.engine);
    b.engine = NULL;
    rt_exec_free(x);
    forget(&b);
}

int main(int argc, char **argv)
{
    const char *device = "cuda", *only = "";
    for (int i = 1; i < argc; i++) {
        const char **value = strcmp(argv[i], "--device") == 0 ? &device : strcmp(argv[i], "--only") == 0 ? &only : NULL;
        if (strcmp(argv[i], "--tiny") == 0)
            is_tiny = true;
        else if (strcmp(argv[i], "--no-rows") == 0)
            rows_wanted = false;
        else if (value && i + 1 < argc)
            *value = argv[++i];
        else
            bench_die("usage: bench_decode [--device D] [--only CASE] [--no-rows] [--tiny]", NULL);
    }
    const decode_case *cases = is_tiny ? tiny : large;
    const uint32_t count = is_tiny ? sizeof tiny / sizeof *tiny : sizeof large / sizeof *large;
    dev = bench_open(device, NULL);
    measure_copy();
    for (uint32_t i = 0; i < count; i++) {
        if (*only && strcmp(only, cases[i].name) != 0) continue;
        printf("\n%s: %s%s%s, %u slots, prompts of %u, answers of %u\n", cases[i].name, cases[i].preset,
               cases[i].mix ? " " : "", cases[i].mix ? cases[i].mix : "", cases[i].slots, cases[i].prompt,
               cases[i].answer);
        time_whole(&cases[i]);
        if (rows_wanted) time_rows(&cases[i]);
        fflush(stdout);
    }
    rt_job_device_close(dev);
    return 0;
}
