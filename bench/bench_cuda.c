/* bench_cuda.c - the ops of a distillation step on a GPU, the head as one program, and the copy that they are measured
 * against, in one process.
 *
 * The ops are those of a run: its programs are recorded as train/ records them, sealed, and taken apart into rows of
 * equal ops (op_rows.h). Models have the shapes of presets and random weights; no file is read. What is asked of the
 * rates, and a step's floor beside them, is bench_gpu.py's. */
#include "bench_fill.h"
#include "op_rows.h"

#include "base/rng.h"
#include "cli/cli.h"
#include "format/model_write.h"
#include "infer/load.h"
#include "num/e4m3.h"
#include "num/quant.h"
#include "train/step_plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct step_case {
    const char *name, *teacher, *mix, *student; /* presets; mix: of the teacher's weights, null as the device wants */
    uint32_t B, T;
} step_case;

static const step_case large[] = {
    { "1.5b 16x512", "qwen2.5-1.5b", NULL, "qwen2.5-0.5b", 16, 512 },
    { "7b-q4 16x512", "qwen2.5-7b", "q4_k_m", "qwen2.5-0.5b", 16, 512 },
    { "1.5b 4x2048", "qwen2.5-1.5b", NULL, "qwen2.5-0.5b", 4, 2048 },
};
/* To try the program itself, on any device. */
static const step_case tiny[] = {
    { "1.5b 16x512", "tiny-llama", NULL, "tiny", 4, 64 },
    { "7b-q4 16x512", "tiny-llama", "q4_k_m", "tiny", 4, 64 },
    { "1.5b 4x2048", "tiny-llama", NULL, "tiny", 1, 256 },
};
enum { CASES = sizeof large / sizeof *large };

static rt_dev *dev;
/* Bytes that a row touches: eighty times the largest cache, and a millisecond, as the copy takes: starting a graph is
 * nothing beside it. */
static double least_bytes = 4e9;
static FILE *json;           /* a line for every figure; null: none is wanted */
static const char *ops = ""; /* names of the ops that are timed; none: all */
static double copy_gb;       /* GB/s, read and written */

/* Is the word one of a list with commas? All are in an empty one. */
static bool wants(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || !at[n])) return true;
    return !*list;
}

/* ---- rows ---- */

static bool is_gemm(rt_op_kind k) { return k == RT_OP_MATMUL || k == RT_OP_MATMUL_SCALED; }

static bool is_arithmetic(rt_op_kind k) { return is_gemm(k) || k == RT_OP_ATTN_FWD || k == RT_OP_ATTN_BWD; }

static void print_row(const op_row *r, const char *case_name, const char *gemm)
{
    double each = r->seconds / r->count;
    printf("%-38.38s %-16s %-40s %4u x %9.1f us", r->group, rt_op_name(r->kind), r->what, r->count, each * 1e6);
    if (is_arithmetic(r->kind))
        printf(" %6.0f TFLOP/s\n", r->flops / r->seconds * 1e-12);
    else
        printf(" %6.0f GB/s %5.1f %%\n", r->bytes / r->seconds * 1e-9, r->bytes / r->seconds * 1e-7 / copy_gb);
    fflush(stdout);
    if (!json) return;
    fprintf(
        json,
        "{\"row\": \"op\", \"case\": \"%s\", \"gemm\": \"%s\", \"group\": \"%s\", \"op\": \"%s\", \"what\": \"%s\", "
        "\"count\": %u, \"seconds\": %.9g, \"bytes\": %.9g, \"flops\": %.9g}\n",
        case_name, gemm, r->group, rt_op_name(r->kind), r->what, r->count, each, r->bytes / r->count,
        r->flops / r->count);
    fflush(json);
}

/* Rows that are bound by memory, or by arithmetic: products draw so much power that the GPU clocks down for a while, so
 * what is set against the copy comes before them, as the copy does. fault: cleared before each, for it makes an update
 * do nothing. */
static void time_rows(rt_exec *x, op_rows *rows, bool arithmetic, rt_view fault, const char *case_name,
                      const char *gemm)
{
    for (uint32_t i = 0; i < rows->count; i++) {
        if (is_arithmetic(rows->list[i].kind) != arithmetic) continue;
        bench_put(x, fault, &(rt_fault){ 0 }, sizeof(rt_fault));
        op_rows_time(rows, x, i);
        print_row(&rows->list[i], case_name, gemm);
    }
}

/* A buffer for what rows find in memory. */
static rt_view noise_buffer(rt_space *s)
{
    return rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_BF16, 8, BENCH_PIECE, "noise");
}

/* ---- a step ---- */

static rt_loss_opts loss_at(double T)
{
    return (rt_loss_opts){
        .divergence = RT_DIV_FORWARD_KL, .temperature = T, .ce_weight = 0.3, .kd_weight = 0.7, .t2 = true
    };
}

static rt_step_plan *record_step(const step_case *c, rt_model_config *teacher, rt_model_config *student)
{
    rt_err e = { 0 };
    rt_dev_info info;
    rt_step_plan *s;
    rt_preset_fill(rt_preset_find(c->teacher), teacher);
    rt_preset_fill(rt_preset_find(c->student), student);
    rt_dtype *dtypes = c->mix ? bench_mixed_dtypes(teacher, c->mix) : NULL;
    if (dev->api->info(dev, &info, &e) < 0) bench_die(c->name, &e);
    rt_step_opts o = { .B = c->B,
                       .T = c->T,
                       .head_bytes = info.head_bytes,
                       .loss = loss_at(4),
                       .beta1 = 0.9,
                       .beta2 = 0.95,
                       .eps = 1e-8,
                       .weight_decay = 0.01,
                       .max_grad_norm = 1,
                       .policy = *rt_device_policy(dev),
                       .student = student,
                       .teacher = teacher,
                       .teacher_dtypes = dtypes,
                       .vmask = teacher->vocab != student->vocab };
    if (rt_step_plan_new(&s, &o, &e) < 0) bench_die(c->name, &e);
    rt_free(dtypes);
    return s;
}

/* Which part of a step an op is; the names are those of the step's floor. */
static const char *group_of(const rt_step_plan *s, int program, const rt_op *op, bool backward)
{
    bool gemm = is_gemm(op->kind), attention = op->kind == RT_OP_ATTN_FWD || op->kind == RT_OP_ATTN_BWD;
    if (program == RT_PROGRAM_UPDATE) return "gradient norm + AdamW";
    if (op->kind == RT_OP_DEQUANT) return "teacher dequant";
    if (op->kind == RT_OP_KD_LOSS) return "head: loss kernel";
    if (strncmp(op->label, "head chunk", 10) == 0)
        return op->slot[RT_MM_A].buf == s->teacher_hidden.buf ? "head: teacher logits GEMM"
                                                              : "head: student logits, dx, dW GEMMs";
    if (program == RT_PROGRAM_TEACHER)
        return gemm        ? "teacher GEMM forward"
               : attention ? "teacher attention forward"
                           : "teacher norm, rope, swiglu, residual";
    if (backward)
        return gemm        ? "student GEMM backward"
               : attention ? "student attention backward"
                           : "student backward of the same";
    return gemm        ? "student GEMM forward"
           : attention ? "student attention forward"
                       : "student norm, rope, swiglu, residual";
}

enum { STEP_PROGRAMS = 4 }; /* that are run here; START first, for it makes the optimizer's state */
static const rt_program step_programs[STEP_PROGRAMS] = { RT_PROGRAM_START, RT_PROGRAM_TEACHER, RT_PROGRAM_FIRST,
                                                         RT_PROGRAM_UPDATE };

/* The rows of a step as this device runs it: dry is that step, lowered. */
static void collect(op_rows *rows, const rt_step_plan *s, const rt_exec *dry, bool products)
{
    for (uint32_t i = 1; i < STEP_PROGRAMS; i++) {
        const rt_plan *p = rt_exec_plan(dry, i);
        bool head = false;
        for (uint32_t t = 0; t < p->nops; t++) {
            const rt_op *op = &p->ops[t];
            bool now = strncmp(op->label, "head chunk", 10) == 0;
            head = head || now;
            if ((products && !is_gemm(op->kind)) || !wants(ops, rt_op_name(op->kind))) continue;
            uint32_t n = 1;
            while (op->kind == RT_OP_DEQUANT && t + n < p->nops && op[n].kind == op->kind) n++;
            op_rows_add(rows, group_of(s, step_programs[i], op, head && !now), p, t, n);
            t += n - 1;
        }
    }
}

static void load_step(rt_exec *x, const rt_step_plan *s)
{
    rt_err e = { 0 };
    const rt_step_opts *o = &s->opts;
    bench_fill_space(x, s->space, false);
    if (rt_load_rope(x, s->student, &e) < 0 || rt_load_rope(x, s->teacher, &e) < 0) bench_die("rope", &e);
    bench_fill_column(x, s->tokens.ids, o->student->vocab, 0);
    bench_fill_column(x, s->target, o->student->vocab, 0);
    bench_fill_column(x, s->tokens.pos, 0, o->T);
    bench_fill_column(x, s->tokens.start, 0, 0);
    if (s->vmask.buf) bench_fill_bits(x, s->vmask);
    bench_fill_step(x, s->step, s->fault, o->B * o->T);
}

static void time_programs(rt_exec *x, const rt_plan *const *programs, const char *case_name)
{
    for (uint32_t i = 1; i < STEP_PROGRAMS; i++) {
        double took = bench_seconds(x, i);
        printf("%-38s %-16s %.3f ms\n", case_name, programs[i]->name, took * 1e3);
        if (json)
            fprintf(json, "{\"row\": \"program\", \"case\": \"%s\", \"program\": \"%s\", \"seconds\": %.9g}\n",
                    case_name, programs[i]->name, took);
    }
}

/* products: only the matrix products are timed. */
static void time_step(const step_case *c, bool products, const char *gemm)
{
    rt_err e = { 0 };
    rt_exec *dry, *x;
    op_rows rows = { 0 };
    const rt_plan *programs[STEP_PROGRAMS];
    static rt_model_config teacher, student;
    rt_step_plan *s = record_step(c, &teacher, &student);
    for (int i = 0; i < STEP_PROGRAMS; i++) programs[i] = s->plan[step_programs[i]];
    if (rt_exec_seal(&dry, dev, programs, STEP_PROGRAMS, &(rt_seal_opts){ .dry = true }, &e) < 0)
        bench_die(c->name, &e);
    collect(&rows, s, dry, products);
    printf("\n%s: %u x %u tokens, products: %s\n", c->name, c->B, c->T, gemm);
    x = op_rows_seal(&rows, dev, programs, STEP_PROGRAMS, least_bytes, noise_buffer(s->space));
    load_step(x, s);
    bench_run(x, 0);
    time_rows(x, &rows, false, s->fault, c->name, gemm);
    if (!products && !*ops) time_programs(x, programs, c->name);
    time_rows(x, &rows, true, s->fault, c->name, gemm);
    rt_exec_free(x);
    op_rows_free(&rows);
    rt_exec_free(dry);
    rt_step_plan_free(s);
}

/* ---- ops that are in no step above, at its shapes ---- */

static rt_view buffer(rt_space *s, rt_dtype d, uint32_t rows, uint32_t cols)
{
    return rt_space_buf(s, RT_CLASS_STATE, d, rows, cols, "operand");
}

/* The loss at temperature 1. */
static void emit_loss(rt_plan *p, rt_space *s, uint32_t N, uint32_t V, rt_view step, rt_view fault, rt_view target)
{
    rt_dtype d = p->policy.logits;
    rt_kd_io io = { .logits = buffer(s, d, N, V),
                    .sums = buffer(s, p->policy.scalar, 1, 4),
                    .fault = fault,
                    .target = target,
                    .step = step,
                    .teacher = buffer(s, d, N, V) };
    rt_kd_opts o = {
        .divergence = RT_DIV_FORWARD_KL, .T = 1, .ce_weight = 0.3f, .kd_weight = 0.7f, .t2 = true, .grad = true
    };
    rt_emit_kd_loss(p, &io, &o);
}

/* Codes with row scales, at the shapes of the teacher's layers: q, k and v joined, o, gate and up joined, down. */
static void emit_scaled(rt_plan *p, rt_space *s, const rt_model_config *m, uint32_t N)
{
    uint32_t heads = m->heads * m->head_dim, both = 2 * m->kv_heads * m->head_dim;
    const uint32_t shape[][2] = {
        { heads + both, m->width }, { m->width, heads }, { 2 * m->hidden, m->width }, { m->width, m->hidden }
    };
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t out = shape[i][0], in = shape[i][1];
        rt_view x = buffer(s, p->policy.act, N, in), codes = buffer(s, RT_DTYPE_E4M3, N, in);
        rt_view scale = buffer(s, RT_DTYPE_F32, N, 1), w = buffer(s, RT_DTYPE_E4M3, out, in);
        rt_emit_quant_rows(p, codes, scale, x);
        rt_view y = rt_space_buf(s, RT_CLASS_OUTPUT, p->policy.act, N, out, "out");
        rt_emit_matmul_scaled(p, y, codes, scale, w, buffer(s, RT_DTYPE_F32, out, 1),
                              i ? RT_NONE : buffer(s, p->policy.act, 1, out));
    }
}

/* The ops of the teacher's layers that leave codes at once, and the same leaving values: with quant_rows above, what
 * they take the place of. */
static void emit_coded(rt_plan *p, rt_space *s, const rt_model_config *m, uint32_t N)
{
    uint32_t C = m->width, F = m->hidden;
    rt_dtype act = p->policy.act;
    rt_view x = buffer(s, act, N, C), res = buffer(s, act, N, C), w = buffer(s, act, 1, C), h = buffer(s, act, N, C);
    rt_view gate_up = buffer(s, act, N, 2 * F), scale = buffer(s, RT_DTYPE_F32, N, 1);
    rt_view g = rt_view_cols(p, gate_up, 0, F), u = rt_view_cols(p, gate_up, F, F);
    for (int codes = 0; codes < 2; codes++) {
        rt_dtype d = codes ? RT_DTYPE_E4M3 : act;
        rt_view y = buffer(s, d, N, C), scales = codes ? scale : RT_NONE;
        rt_emit_rmsnorm_fwd(p, y, scales, x, w, 1, 1e-6f);
        rt_emit_add_rmsnorm_fwd(p, y, scales, h, x, res, w, 1e-6f);
        rt_emit_swiglu_fwd(p, buffer(s, d, N, F), scales, g, u);
    }
}

static void time_others(const step_case *c)
{
    rt_err e = { 0 };
    rt_exec *dry;
    rt_space *s;
    rt_plan *p;
    op_rows rows = { 0 };
    static rt_model_config m, teacher;
    rt_policy policy = *rt_device_policy(dev);
    rt_preset_fill(rt_preset_find(c->student), &m);
    rt_preset_fill(rt_preset_find(c->teacher), &teacher);
    uint32_t N = c->B * c->T, C = m.width, chunk = N / 4;
    if (rt_space_new(&s, &e) < 0 || rt_plan_new(&p, s, "others", &policy, &e) < 0) bench_die("others", &e);
    rt_view a = buffer(s, policy.act, N, C), b = buffer(s, policy.act, N, C), y = buffer(s, policy.act, N, C);
    rt_view wide = buffer(s, RT_DTYPE_F32, N, C), one = buffer(s, policy.scalar, 1, 1);
    rt_view step = rt_space_buf(s, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step");
    rt_view fault = buffer(s, RT_DTYPE_U32, 1, 4);
    rt_view target = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, chunk, 1, "target");
    rt_emit_add(p, y, a, b);
    rt_emit_scale(p, y, a, one, 1.0f);
    rt_emit_copy(p, y, a, RT_NONE);
    rt_emit_fill(p, y, 0.5f);
    rt_emit_cast(p, wide, a);
    rt_emit_cast(p, y, wide);
    emit_loss(p, s, chunk, m.vocab, step, fault, target);
    emit_scaled(p, s, &teacher, N);
    emit_coded(p, s, &teacher, N);
    if (rt_exec_seal(&dry, dev, (const rt_plan *const[]){ p }, 1, &(rt_seal_opts){ .dry = true }, &e) < 0)
        bench_die("others", &e);
    const rt_plan *lowered = rt_exec_plan(dry, 0);
    for (uint32_t t = 0; t < lowered->nops; t++)
        if (wants(ops, rt_op_name(lowered->ops[t].kind))) op_rows_add(&rows, "other", lowered, t, 1);
    printf("\nother ops\n");
    rt_exec *x = op_rows_seal(&rows, dev, NULL, 0, least_bytes, noise_buffer(s));
    bench_fill_space(x, s, true);
    bench_fill_column(x, target, m.vocab, 0);
    bench_fill_step(x, step, fault, chunk);
    time_rows(x, &rows, false, fault, "others", "default");
    time_rows(x, &rows, true, fault, "others", "default");
    rt_exec_free(x);
    op_rows_free(&rows);
    rt_exec_free(dry);
    rt_plan_free(p);
    rt_space_free(s);
}

/* ---- the head as one program ---- */

typedef struct head_case {
    rt_model_config teacher_config, student_config;
    rt_space *space;
    rt_decoder *teacher, *student;
    rt_plan *plan;
    rt_loss_io io;
    uint32_t N, V, chunk;
} head_case;

/* Both logits, the loss, and the gradients of hidden state and head, as loss_plan.c has them in a step. The vocabulary
 * is the student's on both sides; models of one layer, for only their heads are used. */
static void record_head(head_case *h, const step_case *c)
{
    rt_err e = { 0 };
    rt_dev_info info;
    rt_policy policy = *rt_device_policy(dev);
    rt_model_config *t = &h->teacher_config, *m = &h->student_config;
    rt_loss_opts loss = loss_at(4);
    rt_preset_fill(rt_preset_find(c->teacher), t);
    rt_preset_fill(rt_preset_find(c->student), m);
    h->N = c->B * c->T;
    h->V = t->vocab = m->vocab;
    t->layers = m->layers = 1;
    rt_decoder_opts trained = { .name = "student", .policy = &policy, .train = true };
    rt_decoder_opts frozen = { .name = "teacher", .policy = &policy };
    if (rt_space_new(&h->space, &e) < 0 || rt_plan_new(&h->plan, h->space, "head", &policy, &e) < 0 ||
        rt_decoder_new(&h->student, h->space, m, &trained, &e) < 0 ||
        rt_decoder_new(&h->teacher, h->space, t, &frozen, &e) < 0 || dev->api->info(dev, &info, &e) < 0)
        bench_die("head", &e);
    rt_space *s = h->space;
    h->io = (rt_loss_io){ .hidden = buffer(s, policy.act, h->N, m->width),
                          .dhidden = rt_space_buf(s, RT_CLASS_OUTPUT, policy.act, h->N, m->width, "dhidden"),
                          .teacher_hidden = buffer(s, policy.act, h->N, t->width),
                          .target = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, h->N, 1, "target"),
                          .step = rt_space_buf(s, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step"),
                          .fault = buffer(s, RT_DTYPE_U32, 1, 4),
                          .sums = rt_space_buf(s, RT_CLASS_OUTPUT, policy.scalar, 1, 4, "sums") };
    h->chunk = rt_head_chunk(h->N, rt_dtype_bytes(policy.logits, 2 * (uint64_t)h->V),
                             info.head_bytes ? info.head_bytes : 64u << 20);
    rt_loss_record(h->plan, h->student, h->teacher, &h->io, &loss, h->chunk);
}

static void print_head(const head_case *h, double seconds, uint64_t scratch)
{
    uint32_t Ct = h->teacher_config.width, Cs = h->student_config.width;
    double flops = 2.0 * h->N * h->V * (Ct + 3.0 * Cs);
    uint64_t gradients = rt_view_bytes(h->plan, h->io.dhidden);
    gradients += rt_view_bytes(h->plan, h->student->params[h->student->head].grad);
    printf("\nhead %u/%u, %u tokens, %u ids, %u at a time: %.2f ms, %.0f TFLOP/s, scratch %.2f GB, gradients %.2f GB\n",
           Ct, Cs, h->N, h->V, h->chunk, seconds * 1e3, flops / seconds * 1e-12, (double)scratch * 1e-9,
           (double)gradients * 1e-9);
    if (json)
        fprintf(json,
                "{\"row\": \"head\", \"teacher\": %u, \"student\": %u, \"tokens\": %u, \"vocab\": %u, \"chunk\": %u, "
                "\"seconds\": %.9g, \"flops\": %.9g, \"scratch\": %.0f, \"gradients\": %.0f}\n",
                Ct, Cs, h->N, h->V, h->chunk, seconds, flops, (double)scratch, (double)gradients);
}

static void time_head(const step_case *c)
{
    rt_err e = { 0 };
    rt_exec *x;
    rt_exec_memory memory;
    static head_case h;
    record_head(&h, c);
    if (rt_exec_seal(&x, dev, (const rt_plan *const[]){ h.plan }, 1, NULL, &e) < 0) bench_die("head", &e);
    bench_fill_space(x, h.space, true);
    bench_fill_column(x, h.io.target, h.V, 0);
    bench_fill_step(x, h.io.step, h.io.fault, h.N);
    rt_exec_memory_query(x, &memory);
    print_head(&h, bench_seconds(x, 0), memory.by_class[RT_CLASS_ACT]);
    rt_exec_free(x);
    rt_plan_free(h.plan);
    rt_decoder_free(h.student);
    rt_decoder_free(h.teacher);
    rt_space_free(h.space);
}

/* ---- the copy ---- */

static void time_copy(uint32_t mebibytes)
{
    rt_err e = { 0 };
    rt_exec *x;
    rt_space *s;
    rt_plan *p;
    if (rt_space_new(&s, &e) < 0 || rt_plan_new(&p, s, "copy", &rt_policy_f32, &e) < 0) bench_die("copy", &e);
    rt_view from = buffer(s, RT_DTYPE_F32, mebibytes, 1 << 18), to = buffer(s, RT_DTYPE_F32, mebibytes, 1 << 18);
    rt_emit_copy(p, to, from, RT_NONE);
    if (rt_exec_seal(&x, dev, (const rt_plan *const[]){ p }, 1, NULL, &e) < 0) bench_die("copy", &e);
    bench_fill_space(x, s, true);
    double gb = 2.0 * mebibytes * 1048576.0 / bench_seconds(x, 0) * 1e-9;
    if (gb > copy_gb) copy_gb = gb;
    printf("\ncopy of 2 x %u MiB: %.0f GB/s, read and written\n", mebibytes, gb);
    if (json) fprintf(json, "{\"row\": \"copy\", \"gbs\": %.6g}\n", gb);
    rt_exec_free(x);
    rt_plan_free(p);
    rt_space_free(s);
}

/* ---- the program ---- */

typedef struct request {
    const char *device, *json, *only;
    bool tiny;
} request;

static request read_arguments(int argc, char **argv)
{
    static const char usage[] =
        "usage: bench_cuda [--device D] [--only WORD,...] [--ops NAME,...] [--json FILE] [--tiny]\n"
        "WORD: step, others, head, own (GEMMs by our own kernels)\n"
        "NAME: of an op, as verify --op has it";
    request r = { .device = "cuda", .only = "" };
    for (int i = 1; i < argc; i++) {
        const char **value = strcmp(argv[i], "--device") == 0 ? &r.device
                             : strcmp(argv[i], "--only") == 0 ? &r.only
                             : strcmp(argv[i], "--ops") == 0  ? &ops
                             : strcmp(argv[i], "--json") == 0 ? &r.json
                                                              : NULL;
        if (strcmp(argv[i], "--tiny") == 0)
            r.tiny = true;
        else if (value && i + 1 < argc)
            *value = argv[++i];
        else
            bench_die(usage, NULL);
    }
    return r;
}

int main(int argc, char **argv)
{
    request r = read_arguments(argc, argv);
    const step_case *cases = r.tiny ? tiny : large;
    if (r.tiny) least_bytes = 1e5;
    if (r.json && !(json = fopen(r.json, "w"))) bench_die(r.json, NULL);
    dev = bench_open(r.device, NULL);
    time_copy(r.tiny ? 16 : 2048);
    for (int i = 0; i < CASES; i++)
        if (wants(r.only, "step")) time_step(&cases[i], false, "default");
    if (wants(r.only, "others")) time_others(&cases[0]);
    time_copy(r.tiny ? 16 : 2048);
    for (int i = 0; i < 2; i++)
        if (wants(r.only, "head")) time_head(&cases[i]);
    rt_print_device_end(dev);
    rt_job_device_close(dev);
    if (wants(r.only, "own")) {
        dev = bench_open(r.device, "none");
        time_step(&cases[0], true, "own");
        rt_job_device_close(dev);
    }
    if (json && fclose(json) != 0) bench_die(r.json, NULL);
    return 0;
}
