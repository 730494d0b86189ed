/* test_plan_print.c - what a plan says of itself: costs of every op, the text, the JSON, the hash. */
#include "op/emit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>
#include <jansson.h>

/* ---- a small plan in variants ---- */

typedef struct variant {
    uint32_t rows;    /* of x */
    rt_dtype weight;  /* of the head */
    float eps;        /* of the norm */
    bool grads_there; /* gradients of an earlier micro-batch: += where the sample has = */
    bool swapped;     /* two ops that do not depend on one another */
    bool shifted;     /* a view that begins elsewhere */
    bool spare;       /* a buffer that nothing uses */
    rt_class x_class;
    rt_queue queue;    /* of the last op */
    const char *label; /* of the first op */
    const char *name;  /* of x and of the plan */
    const rt_policy *policy;
} variant;

static const variant sample = { .rows = 5,
                                .weight = RT_DTYPE_F32,
                                .eps = 1e-6f,
                                .x_class = RT_CLASS_INPUT,
                                .label = "layer 0 norm",
                                .name = "x",
                                .policy = &rt_policy_f32 };

typedef struct built {
    rt_space *space;
    rt_plan *plan;
} built;

static void free_built(built *b)
{
    rt_plan_free(b->plan);
    rt_space_free(b->space);
    *b = (built){ 0 };
}

static void record(built *b, const variant *v)
{
    rt_space *s = b->space;
    rt_plan *p = b->plan;
    const rt_dtype f32 = RT_DTYPE_F32;
    if (v->spare) rt_space_buf(s, RT_CLASS_PARAM, f32, 3, 3, "spare");
    rt_view x = rt_space_buf(s, v->x_class, f32, v->rows, 12, v->name);
    rt_view w = rt_space_buf(s, RT_CLASS_PARAM, f32, 1, 12, "norm.weight");
    rt_view head = rt_space_buf(s, RT_CLASS_PARAM, v->weight, 40, 12, "head.weight");
    rt_view dw = rt_space_buf(s, RT_CLASS_GRAD, f32, 1, 12, "norm.weight.grad");
    rt_view dhead = rt_space_buf(s, RT_CLASS_GRAD, f32, 40, 12, "head.weight.grad");
    rt_kd_io io = { .sums = rt_space_buf(s, RT_CLASS_OUTPUT, f32, 1, 4, "sums"),
                    .fault = rt_space_buf(s, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault"),
                    .target = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, v->rows, 1, "target"),
                    .step = rt_space_buf(s, RT_CLASS_STEP, RT_DTYPE_U8, 1, 64, "step"),
                    .teacher = rt_space_buf(s, RT_CLASS_INPUT, f32, v->rows, 40, "teacher") };
    rt_view n = rt_act(p, f32, v->rows, 12, "n"), dn = rt_act(p, f32, v->rows, 12, "dn");
    rt_view dx = rt_act(p, f32, v->rows, 12, "dx");
    io.logits = rt_act(p, f32, v->rows, 40, "logits");
    if (v->grads_there) rt_plan_assume_defined(p, dhead);
    rt_plan_label(p, "%s", v->label);
    rt_emit_rmsnorm_fwd(p, n, RT_NONE, x, w, 1, v->eps);
    rt_plan_label(p, "head");
    rt_emit_matmul(p, io.logits, n, head, RT_NONE, "nt", 1);
    rt_emit_kd_loss(p, &io,
                    &(rt_kd_opts){ .T = 4, .ce_weight = 0.1f, .kd_weight = 0.9f, .t2 = true, .grad = true, .site = 1 });
    rt_plan_label(p, "head backward");
    if (v->swapped) rt_emit_matmul(p, dn, io.logits, head, RT_NONE, "nn", 1);
    uint32_t cut = v->shifted ? 3 : 2;
    rt_emit_matmul(p, dhead, rt_view_rows(p, io.logits, 0, cut), rt_view_rows(p, n, 0, cut), RT_NONE, "tn", 1);
    rt_emit_matmul(p, dhead, rt_view_rows(p, io.logits, v->rows - cut, cut), rt_view_rows(p, n, v->rows - cut, cut),
                   RT_NONE, "tn", 1);
    if (!v->swapped) rt_emit_matmul(p, dn, io.logits, head, RT_NONE, "nn", 1);
    rt_plan_label(p, "%s", "");
    rt_plan_queue(p, v->queue);
    rt_emit_rmsnorm_bwd(p, dx, dw, dn, x, w, 1, v->eps);
}

static built build(const variant *v)
{
    built b = { 0 };
    rt_err e = { 0 };
    assert_int_equal(rt_space_new(&b.space, &e), RT_OK);
    assert_int_equal(rt_plan_new(&b.plan, b.space, v->name, v->policy, &e), RT_OK);
    record(&b, v);
    if (rt_plan_status(b.plan, &e) != RT_OK) fail_msg("%s", e.text);
    return b;
}

/* Notes as seal gives them: one op without a kernel, scratch for one op. */
static const char *const kernels[] = {
    "rows avx512", "sgemm tiles 512x512", "kd rows", NULL, NULL, NULL, "rows avx512"
};
static const uint64_t places[] = { 0, 256, 512, 768, UINT64_MAX };
static const rt_plan_notes notes = { "cpu", "test device, 2 threads", kernels, places, 1792 };

static void print(const rt_plan *p, const rt_plan_notes *with, rt_print format, rt_str *out)
{
    rt_err e = { 0 };
    if (rt_plan_print(p, with, format, out, &e) != RT_OK) fail_msg("%s", e.text);
}

/* ---- text ---- */

/* clang-format off */
static const char golden[] =
    "plan x: 7 ops, 18.3 kFLOP, 16.0 KiB moved\n"
    "backend cpu on test device, 2 threads\n"
    "hash 1f67580faabcee541f0e9c09f76464c4\n"
    "\n"
    "r read, w written, rw in place, = assigned, += added to, s some rows overwritten\n"
    "name+first element (rows,columns:row stride if not the columns) dtype @byte in the arena\n"
    "\n"
    "   #  op                    bytes     FLOP  label                             kernel\n"
    "   0  rmsnorm_fwd           528 B      240  layer 0 norm                      rows avx512\n"
    "      w y: n (5,12) f32 @0; r x: x (5,12) f32; r w: norm.weight (1,12) f32; H=1 D=12 eps=1e-06\n"
    "   1  matmul             2.89 KiB   4.80 k  head                              sgemm tiles 512x512\n"
    "      = out: logits (5,40) f32 @768; r a: n (5,12) f32 @0; r b: head.weight (40,12) f32; ta=0 tb=1 alpha=1\n"
    "   2  kd_loss            2.47 KiB   4.00 k  head                              kd rows\n"
    "      rw logits: logits (5,40) f32 @768; = sums: sums (1,4) f32; "
    "rw fault: fault (1,4) u32; r target: target (5,1) i32;\n"
    "      r step: step (1,64) u8; r teacher: teacher (5,40) f32;\n"
    "      divergence=0 T=4 mix=0 ce_weight=0.1 kd_weight=0.9 t2=1 grad=1 site=1\n"
    "   3  matmul             2.28 KiB   1.92 k  head backward\n"
    "      = out: head.weight.grad (40,12) f32; r a: logits (2,40) f32 @768; r b: n (2,12) f32 @0; ta=1 tb=0 alpha=1\n"
    "   4  matmul             4.16 KiB   1.92 k  head backward\n"
    "      += out: head.weight.grad (40,12) f32; r a: logits+120 (2,40) f32 @768; r b: n+36 (2,12) f32 @0;\n"
    "      ta=1 tb=0 alpha=1\n"
    "   5  matmul             2.89 KiB   4.80 k  head backward\n"
    "      = out: dn (5,12) f32 @256; r a: logits (5,40) f32 @768; r b: head.weight (40,12) f32; ta=0 tb=0 alpha=1\n"
    "   6  rmsnorm_bwd           816 B      660                                    rows avx512\n"
    "      = dx: dx (5,12) f32 @512; = dw: norm.weight.grad (1,12) f32; r dy: dn (5,12) f32 @256; r x: x (5,12) f32;\n"
    "      r w: norm.weight (1,12) f32; H=1 D=12 eps=1e-06\n"
    "\n"
    "class            used      bytes   declared      bytes\n"
    "parameter           2   1.92 KiB          2   1.92 KiB\n"
    "gradient            2   1.92 KiB          2   1.92 KiB\n"
    "state               1       16 B          1       16 B\n"
    "step value          1       64 B          1       64 B\n"
    "input               3   1.04 KiB          3   1.04 KiB\n"
    "output              1       16 B          1       16 B\n"
    "activation          4   1.48 KiB          5   1.68 KiB\n"
    "\n"
    "arena 1.75 KiB\n"
    "\n"
    "peak of activations 1.25 KiB at op 1, matmul (head), with 2 alive:\n"
    "     800 B  logits (5,40) f32 @768, ops 1 to 5\n"
    "     240 B  n (5,12) f32 @0, ops 0 to 4\n";
/* clang-format on */

static void test_text(void **state)
{
    (void)state;
    built b = build(&sample);
    rt_act(b.plan, RT_DTYPE_F32, 7, 7, "never used");
    rt_str out = { 0 };
    print(b.plan, &notes, RT_PRINT_TEXT, &out);
    assert_string_equal(out.data, golden);
    rt_str_free(&out);
    free_built(&b);
}

static void expect_text(const rt_plan *p, const rt_plan_notes *with, const char *const *parts)
{
    rt_str out = { 0 };
    print(p, with, RT_PRINT_TEXT, &out);
    for (; *parts; parts++)
        if (!strstr(out.data, *parts)) fail_msg("\"%s\" is not in:\n%s", *parts, out.data);
    rt_str_free(&out);
}

#define EXPECT_TEXT(p, with, ...) expect_text(p, with, (const char *const[]){ __VA_ARGS__, NULL })

/* What the golden text does not have: parts of rows, sparse writes, scratch, other queues, numbers of every kind. */
static void test_text_rest(void **state)
{
    (void)state;
    rt_err e = { 0 };
    built b = { 0 };
    assert_int_equal(rt_space_new(&b.space, &e), RT_OK);
    assert_int_equal(rt_plan_new(&b.plan, b.space, "rest", &rt_policy_f32, &e), RT_OK);
    EXPECT_TEXT(b.plan, NULL, "plan rest: 0 ops, 0 FLOP, 0 B moved\n", "\nno activations\n");
    rt_view x = rt_space_buf(b.space, RT_CLASS_INPUT, RT_DTYPE_F32, 3, 4, "x");
    rt_view cache = rt_space_buf(b.space, RT_CLASS_STATE, RT_DTYPE_F32, 9, 10, "cache");
    rt_view rows = rt_space_buf(b.space, RT_CLASS_INPUT, RT_DTYPE_I32, 3, 1, "rows");
    rt_view table = rt_space_buf(b.space, RT_CLASS_GRAD, RT_DTYPE_F32, 8, 4, "table");
    rt_plan_queue(b.plan, RT_QUEUE_COPY);
    rt_emit_copy(b.plan, rt_view_cols(b.plan, cache, 6, 4), x, rows);
    rt_plan_queue(b.plan, RT_QUEUE_COMPUTE);
    rt_emit_embed_bwd(b.plan, table, x, rows);
    rt_emit_fill(b.plan, x, -INFINITY);
    rt_emit_scale(b.plan, x, x, RT_NONE, 0.1f);
    rt_view corner = rt_view_rows(b.plan, rt_view_cols(b.plan, cache, 6, 4), 8, 1);
    rt_emit_scale(b.plan, corner, corner, RT_NONE, 0.123456789f);
    rt_view dw = rt_view_rows(b.plan, table, 7, 1),
            dx = rt_space_buf(b.space, RT_CLASS_OUTPUT, RT_DTYPE_F32, 3, 4, "dx");
    rt_emit_rmsnorm_bwd(b.plan, dx, dw, x, x, corner, 1, 1);
    assert_int_equal(rt_plan_status(b.plan, &e), RT_OK);
    EXPECT_TEXT(b.plan, NULL, "      s y: cache+6 (9,4:10) f32; r x: x (3,4) f32; r rows: rows (3,1) i32; queue=copy\n",
                "fill                  128 B        0\n      w y: table (8,4) f32; alpha=0\n",
                "      += dtable: table (8,4) f32; r dy: x (3,4) f32; r ids: rows (3,1) i32\n",
                "      w y: x (3,4) f32; alpha=-inf\n", "      w y: x (3,4) f32; r x: x (3,4) f32; alpha=0.1\n",
                "      w y: cache+86 (1,4) f32; r x: cache+86 (1,4) f32; alpha=0.12345679\n",
                "      = dx: dx (3,4) f32; += dw: table+28 (1,4) f32; r dy: x (3,4) f32;");
    /* scratch as seal sets it, and more buffers alive than the text lists */
    rt_view act[20];
    for (int i = 0; i < 20; i++) {
        char name[16];
        snprintf(name, sizeof name, "act%d", i);
        act[i] = rt_act(b.plan, RT_DTYPE_F32, 1, 64 * (1 + (uint32_t)i % 18), name);
        rt_emit_fill(b.plan, act[i], 1);
    }
    uint32_t last = b.plan->nops;
    for (int i = 0; i < 20; i++) rt_emit_scale(b.plan, act[i], act[i], RT_NONE, 2);
    b.plan->ops[last].work = rt_act(b.plan, RT_DTYPE_U8, 1, 9000, "work");
    assert_int_equal(rt_plan_status(b.plan, &e), RT_OK);
    EXPECT_TEXT(b.plan, NULL, "; scratch: work (1,9000) u8; alpha=2\n",
                "peak of activations 52.5 KiB at op 27, scale, with 21 alive:\n"
                "  8.79 KiB  work (1,9000) u8, ops 27 to 27\n"
                "  4.50 KiB  act17 (1,1152) f32, ops 24 to 44\n"
                "  4.25 KiB  act16 (1,1088) f32, ops 23 to 43\n",
                "  1.00 KiB  act3 (1,256) f32, ops 10 to 30\n"
                "  2.25 KiB  in 5 smaller ones\n");
    free_built(&b);
}

/* FLOP counts on both sides of every change of digits and of unit; nothing is allocated for such shapes. */
static void test_counts(void **state)
{
    (void)state;
    static const struct {
        uint32_t columns, rows;
        const char *text;
    } counts[] = {
        { 999, 1, "      999\n" },
        { 1000, 1, "   1.00 k\n" },
        { 1005, 1, "   1.01 k\n" },
        { 9994, 1, "   9.99 k\n" },
        { 9995, 1, "   10.0 k\n" },
        { 99949, 1, "   99.9 k\n" },
        { 99950, 1, "    100 k\n" },
        { 999499, 1, "    999 k\n" },
        { 999500, 1, "   1.00 M\n" },
        { 12345678, 1, "   12.3 M\n" },
        { 1000000, 1000, "   1.00 G\n" },
        { 1000000, 1500000, "   1.50 T\n" },
        { 2000000000, 2000000, "   4.00 P\n" },
        { 1000000000, 1850000000, "   1.85 E\n" },
    };
    rt_err e = { 0 };
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        built b = { 0 };
        assert_int_equal(rt_space_new(&b.space, &e), RT_OK);
        assert_int_equal(rt_plan_new(&b.plan, b.space, "count", &rt_policy_f32, &e), RT_OK);
        rt_view dy = rt_space_buf(b.space, RT_CLASS_INPUT, RT_DTYPE_BF16, counts[i].rows, counts[i].columns, "dy");
        rt_emit_bias_grad(b.plan, rt_space_buf(b.space, RT_CLASS_GRAD, RT_DTYPE_F32, 1, counts[i].columns, "db"), dy);
        EXPECT_TEXT(b.plan, NULL, counts[i].text,
                    i == 0   ? " 1 ops, 999 FLOP,"
                    : i == 1 ? " 1 ops, 1.00 kFLOP,"
                             : "FLOP,");
        free_built(&b);
    }
    /* a sum that saturated */
    built b = { 0 };
    assert_int_equal(rt_space_new(&b.space, &e), RT_OK);
    assert_int_equal(rt_plan_new(&b.plan, b.space, "huge", &rt_policy_f32, &e), RT_OK);
    rt_view a = rt_space_buf(b.space, RT_CLASS_INPUT, RT_DTYPE_BF16, 2000000000, 2000000000, "a");
    rt_view out = rt_space_buf(b.space, RT_CLASS_GRAD, RT_DTYPE_BF16, 2000000000, 2000000000, "out");
    rt_emit_matmul(b.plan, out, a, a, RT_NONE, "nn", 1);
    EXPECT_TEXT(b.plan, NULL, "plan huge: 1 ops, 18.4 EFLOP, 16.0 EiB moved\n", "   18.4 E\n");
    free_built(&b);
}

static void test_failed_plan(void **state)
{
    (void)state;
    built b = build(&sample);
    rt_err e = { 0 };
    rt_str out = { 0 };
    rt_hash128 h;
    rt_plan_fail(b.plan, RT_UNSUPPORTED, "told before");
    assert_int_equal(rt_plan_print(b.plan, NULL, RT_PRINT_TEXT, &out, &e), RT_UNSUPPORTED);
    assert_non_null(strstr(e.text, "told before"));
    assert_int_equal(rt_plan_print(b.plan, NULL, RT_PRINT_JSON, &out, &e), RT_UNSUPPORTED);
    assert_int_equal(rt_plan_hash(b.plan, &h, &e), RT_UNSUPPORTED);
    assert_null(out.data);
    free_built(&b);
}

/* ---- JSON ---- */

static uint64_t integer(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_integer(v)) fail_msg("no number '%s'", key);
    return (uint64_t)json_integer_value(v);
}

static const char *text(const json_t *o, const char *key)
{
    const json_t *v = json_object_get(o, key);
    if (!json_is_string(v)) fail_msg("no text '%s'", key);
    return json_string_value(v);
}

static json_t *print_json(const rt_plan *p, const rt_plan_notes *with)
{
    rt_str out = { 0 };
    json_error_t err;
    print(p, with, RT_PRINT_JSON, &out);
    assert_int_equal(out.data[out.len - 1], '\n');
    json_t *root = json_loads(out.data, JSON_REJECT_DUPLICATES, &err);
    if (!root) fail_msg("line %d: %s", err.line, err.text);
    rt_str_free(&out);
    return root;
}

static void check_keys(const json_t *o, const char *const *keys)
{
    for (void *at = json_object_iter((json_t *)o); at; at = json_object_iter_next((json_t *)o, at)) {
        if (!*keys) fail_msg("key '%s' too many", json_object_iter_key(at));
        assert_string_equal(json_object_iter_key(at), *keys++);
    }
    if (*keys) fail_msg("no key '%s'", *keys);
}

#define CHECK_KEYS(o, ...) check_keys(o, (const char *const[]){ __VA_ARGS__, NULL })

/* "240" or "4.80 k", by another way than the printer's */
static void count_text(char *buf, uint64_t x)
{
    if (x < 1000)
        snprintf(buf, 32, "%u", (unsigned)x);
    else
        snprintf(buf, 32, "%.*f k", x < 9995 ? 2 : x < 99950 ? 1 : 0, (double)x / 1000);
}

/* Every figure of the JSON is in the golden text, and sums are sums. */
static void check_ops(const json_t *ops, uint64_t *flops, uint64_t *bytes)
{
    const json_t *o;
    size_t i;
    json_array_foreach(ops, i, o)
    {
        char line[256], count[32], size[32];
        assert_int_equal(integer(o, "index"), i);
        count_text(count, integer(o, "flops"));
        snprintf(line, sizeof line, "\n%4u  %-16s %10s %8s", (unsigned)i, text(o, "op"),
                 rt_format_bytes(size, integer(o, "bytes")), count);
        if (!strstr(golden, line)) fail_msg("\"%s\" is not in the text", line);
        *flops += integer(o, "flops");
        *bytes += integer(o, "bytes");
        const json_t *v, *operands = json_object_get(o, "operands");
        size_t j;
        json_array_foreach(operands, j, v)
        {
            char first[32] = "";
            if (integer(v, "offset")) snprintf(first, sizeof first, "+%u", (unsigned)integer(v, "offset"));
            snprintf(line, sizeof line, "%s %s: %s%s (%u,%u) %s", text(v, "access"), text(v, "slot"), text(v, "buffer"),
                     first, (unsigned)integer(v, "rows"), (unsigned)integer(v, "cols"), text(v, "dtype"));
            if (!strstr(golden, line)) fail_msg("\"%s\" is not in the text", line);
        }
    }
}

static void check_classes(const json_t *classes)
{
    const json_t *c;
    size_t i;
    assert_int_equal(json_array_size(classes), 7);
    json_array_foreach(classes, i, c)
    {
        char line[160], used[32], declared[32];
        CHECK_KEYS(c, "class", "used", "used_bytes", "declared", "declared_bytes");
        snprintf(line, sizeof line, "\n%-12s %8u %10s %10u %10s\n", text(c, "class"), (unsigned)integer(c, "used"),
                 rt_format_bytes(used, integer(c, "used_bytes")), (unsigned)integer(c, "declared"),
                 rt_format_bytes(declared, integer(c, "declared_bytes")));
        if (!strstr(golden, line)) fail_msg("\"%s\" is not in the text", line);
    }
}

static void test_json(void **state)
{
    (void)state;
    built b = build(&sample);
    rt_act(b.plan, RT_DTYPE_F32, 7, 7, "never used");
    json_t *root = print_json(b.plan, &notes);
    CHECK_KEYS(root, "plan", "hash", "backend", "device", "flops", "bytes", "classes", "peak", "arena_bytes", "ops");
    assert_string_equal(text(root, "plan"), "x");
    assert_string_equal(text(root, "backend"), "cpu");
    assert_string_equal(text(root, "device"), "test device, 2 threads");
    assert_non_null(strstr(golden, text(root, "hash")));
    assert_int_equal(integer(root, "arena_bytes"), 1792);
    const json_t *ops = json_object_get(root, "ops"), *peak = json_object_get(root, "peak");
    uint64_t flops = 0, bytes = 0, alive = 0;
    assert_int_equal(json_array_size(ops), 7);
    check_ops(ops, &flops, &bytes);
    assert_int_equal(integer(root, "flops"), flops);
    assert_int_equal(integer(root, "bytes"), bytes);
    check_classes(json_object_get(root, "classes"));
    CHECK_KEYS(peak, "bytes", "index", "op", "label", "alive");
    assert_int_equal(integer(peak, "index"), 1);
    assert_string_equal(text(peak, "label"), "head");
    const json_t *a;
    size_t i;
    json_array_foreach(json_object_get(peak, "alive"), i, a) alive += rt_align_up(integer(a, "bytes"), 256);
    assert_int_equal(i, 2);
    assert_int_equal(integer(peak, "bytes"), alive);
    a = json_array_get(json_object_get(peak, "alive"), 0);
    CHECK_KEYS(a, "buffer", "dtype", "rows", "cols", "bytes", "first_op", "last_op", "arena_offset");
    assert_string_equal(text(a, "buffer"), "logits");
    assert_int_equal(integer(a, "first_op"), 1);
    assert_int_equal(integer(a, "last_op"), 5);
    assert_int_equal(integer(a, "arena_offset"), 768);
    json_decref(root);
    free_built(&b);
}

static void test_json_op(void **state)
{
    (void)state;
    built b = build(&sample);
    b.plan->ops[4].work = rt_act(b.plan, RT_DTYPE_U8, 1, 64, "work");
    b.plan->ops[4].args.matmul.alpha = NAN;
    json_t *root = print_json(b.plan, &notes);
    const json_t *kd = json_array_get(json_object_get(root, "ops"), 2), *args = json_object_get(kd, "args");
    CHECK_KEYS(kd, "index", "op", "label", "queue", "bytes", "flops", "kernel", "operands", "args");
    assert_string_equal(text(kd, "queue"), "compute");
    assert_string_equal(text(kd, "kernel"), "kd rows");
    CHECK_KEYS(args, "N", "V", "U", "k", "divergence", "T", "mix", "ce_weight", "kd_weight", "t2", "grad", "site");
    assert_int_equal(integer(args, "U"), 40);
    assert_true(json_real_value(json_object_get(args, "ce_weight")) == 0.1); /* not 0.100000001 */
    const json_t *mm = json_array_get(json_object_get(root, "ops"), 4);
    CHECK_KEYS(mm, "index", "op", "label", "queue", "bytes", "flops", "operands", "scratch", "args");
    assert_string_equal(text(json_object_get(mm, "args"), "alpha"), "nan");
    const json_t *a = json_array_get(json_object_get(mm, "operands"), 1);
    CHECK_KEYS(a, "slot", "access", "buffer", "class", "dtype", "rows", "cols", "offset", "stride", "arena_offset");
    assert_int_equal(integer(a, "offset"), 120);
    assert_int_equal(integer(a, "stride"), 40);
    assert_int_equal(integer(a, "arena_offset"), 768);
    assert_string_equal(text(a, "class"), "activation");
    CHECK_KEYS(json_array_get(json_object_get(mm, "operands"), 0), "slot", "access", "buffer", "class", "dtype", "rows",
               "cols", "offset", "stride");
    json_decref(root);
    /* before seal there are no kernels, no places, no device */
    root = print_json(b.plan, NULL);
    CHECK_KEYS(root, "plan", "hash", "flops", "bytes", "classes", "peak", "ops");
    kd = json_array_get(json_object_get(root, "ops"), 2);
    CHECK_KEYS(kd, "index", "op", "label", "queue", "bytes", "flops", "operands", "args");
    CHECK_KEYS(json_array_get(json_object_get(kd, "operands"), 0), "slot", "access", "buffer", "class", "dtype", "rows",
               "cols", "offset", "stride");
    json_decref(root);
    free_built(&b);
}

static void test_json_not_utf8(void **state)
{
    (void)state;
    variant v = sample;
    v.label = "layer \xff";
    built b = build(&v);
    rt_err e = { 0 };
    rt_str out = { 0 };
    uint64_t live = rt_alloc_live();
    assert_int_equal(rt_plan_print(b.plan, NULL, RT_PRINT_JSON, &out, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "not UTF-8"));
    rt_str_free(&out);
    assert_int_equal(rt_alloc_live(), live);
    free_built(&b);
}

/* ---- hash ---- */

static void hash_of(const variant *v, char hash[33])
{
    built b = build(v);
    rt_hash128 h;
    rt_err e = { 0 };
    if (rt_plan_hash(b.plan, &h, &e) != RT_OK) fail_msg("%s", e.text);
    rt_hash_text(hash, h);
    free_built(&b);
}

/* Pinned: checkpoints hold this number. If it changes, the version of the form that is hashed changes with it. */
static const char pinned[] = "1f67580faabcee541f0e9c09f76464c4";

static void test_hash_stable(void **state)
{
    (void)state;
    char hash[33];
    variant v = sample;
    hash_of(&v, hash);
    assert_string_equal(hash, pinned);
    v.label = "elsewhere";
    v.name = "another name";
    v.spare = true;
    v.policy = &rt_policy_bf16; /* it decides dtypes of what it creates; here it creates nothing */
    hash_of(&v, hash);
    assert_string_equal(hash, pinned);
    /* scratch is the backend's */
    built b = build(&sample);
    b.plan->ops[1].work = rt_act(b.plan, RT_DTYPE_U8, 1, 64, "work");
    rt_hash128 h;
    assert_int_equal(rt_plan_hash(b.plan, &h, NULL), RT_OK);
    assert_string_equal(rt_hash_text(hash, h), pinned);
    /* what lies behind an op's own arguments is nobody's */
    b.plan->ops[1].args.words[31] = 7;
    assert_int_equal(rt_plan_hash(b.plan, &h, NULL), RT_OK);
    assert_string_equal(rt_hash_text(hash, h), pinned);
    free_built(&b);
}

static void test_hash_changes(void **state)
{
    (void)state;
    enum { CHANGES = 8 };
    char hash[CHANGES + 1][33];
    memcpy(hash[CHANGES], pinned, sizeof pinned);
    variant v[CHANGES];
    for (int i = 0; i < CHANGES; i++) v[i] = sample;
    v[0].rows = 6;
    v[1].weight = RT_DTYPE_BF16;
    v[2].eps = 1e-5f;
    v[3].grads_there = true;
    v[4].swapped = true;
    v[5].shifted = true;
    v[6].x_class = RT_CLASS_STATE;
    v[7].queue = RT_QUEUE_COPY;
    for (int i = 0; i < CHANGES; i++) hash_of(&v[i], hash[i]);
    for (int i = 0; i <= CHANGES; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(hash[i], hash[j]) == 0) fail_msg("variants %d and %d have one hash", j, i);
    /* each part of a view, of an argument struct and of a buffer counts by itself */
    built b = build(&sample);
    rt_op *op = &b.plan->ops[4];
    rt_op kept = *op;
    rt_buffer kept_act = b.plan->acts[0];
    char now[33];
    rt_hash128 h;
    for (int i = 0; i < 10; i++) {
        *op = kept;
        b.plan->acts[0] = kept_act;
        if (i == 0) op->slot[RT_MM_A].rows++;
        if (i == 1) op->slot[RT_MM_A].cols++;
        if (i == 2) op->slot[RT_MM_A].off++;
        if (i == 3) op->slot[RT_MM_A].stride++;
        if (i == 4) op->slot[RT_MM_A].off += UINT64_C(1) << 32;
        if (i == 5) op->slot[RT_MM_A] = RT_NONE;
        if (i == 6) op->args.matmul.tb ^= 1;
        if (i == 7) b.plan->acts[0].cols++;
        if (i == 8) b.plan->acts[0].rows++;
        if (i == 9) b.plan->nops--;
        assert_int_equal(rt_plan_hash(b.plan, &h, NULL), RT_OK);
        if (strcmp(rt_hash_text(now, h), pinned) == 0) fail_msg("change %d leaves the hash as it was", i);
    }
    free_built(&b);
}

/* ---- memory ---- */

typedef struct failing {
    long left; /* allocations until the one that fails; negative: none fails */
} failing;

static void *failing_alloc(void *ctx, size_t bytes, size_t align)
{
    failing *f = ctx;
    void *p = NULL;
    if (f->left >= 0 && f->left-- == 0) return NULL;
    return posix_memalign(&p, align, bytes) == 0 ? p : NULL;
}

static void failing_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* Fails each allocation of a call in turn; the call must say so and leave nothing behind. */
static void fail_each(failing *f, const rt_plan *p, int what)
{
    uint64_t live = rt_alloc_live();
    for (long n = 0; n < 100000; n++) {
        rt_err e = { 0 };
        rt_str out = { 0 };
        rt_hash128 h;
        f->left = n;
        int rc = what == 2 ? rt_plan_hash(p, &h, &e) : rt_plan_print(p, &notes, (rt_print)what, &out, &e);
        bool hit = f->left < 0;
        f->left = -1;
        rt_str_free(&out);
        assert_int_equal(rt_alloc_live(), live);
        if (!hit) {
            assert_int_equal(rc, RT_OK);
            assert_true(n > 1);
            return;
        }
        assert_int_equal(rc, RT_NOMEM);
        assert_int_equal(e.status, RT_NOMEM);
    }
    fail_msg("no end of allocations");
}

static void test_out_of_memory(void **state)
{
    (void)state;
    failing f = { -1 };
    rt_allocator_set(&(rt_allocator){ failing_alloc, failing_free, &f });
    built b = build(&sample);
    fail_each(&f, b.plan, RT_PRINT_TEXT);
    fail_each(&f, b.plan, RT_PRINT_JSON);
    fail_each(&f, b.plan, 2);
    free_built(&b);
    rt_allocator_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),          cmocka_unit_test(test_text_rest),   cmocka_unit_test(test_counts),
        cmocka_unit_test(test_failed_plan),   cmocka_unit_test(test_json),        cmocka_unit_test(test_json_op),
        cmocka_unit_test(test_json_not_utf8), cmocka_unit_test(test_hash_stable), cmocka_unit_test(test_hash_changes),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
