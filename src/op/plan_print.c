/* plan_print.c - a plan as text, 120 columns wide, and the words that both printers use.
 *
 * Owns: the layout of the text, the names of scalars, accesses and queues. Every figure comes from plan_facts.h, so the
 * JSON (plan_json.c) says the same. */
#include "op/plan_facts.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    WIDTH = 118,
    INDENT = 6,
    MAX_ALIVE = 16, /* buffers at the peak that the text lists; the JSON lists all */
};

/* ---- words ---- */

const char *rt_access_text(const rt_op *op, uint32_t slot)
{
    switch (rt_op_access(op->kind, slot, op->slot)) {
    case RT_READ: return "r";
    case RT_WRITE: return "w";
    case RT_READ_WRITE: return "rw";
    case RT_ACCUM: return op->acc >> slot & 1 ? "+=" : "=";
    case RT_ACCUM_SPARSE: return "+=";
    case RT_WRITE_SPARSE: return "s";
    }
    return "?";
}

const char *rt_queue_name(rt_queue q)
{
    static const char *const names[RT_QUEUE_COUNT] = { "compute", "copy", "comm" };
    return names[q];
}

/* clang-format off */
#define WORD(member, field) (offsetof(rt_##member##_args, field) / sizeof(uint32_t))
#define DIM(member, field) {#field, WORD(member, field), false, true}
#define INT(member, field) {#field, WORD(member, field), false, false}
#define FLT(member, field) {#field, WORD(member, field), true, false}
#define END {NULL, 0, false, false}
static const rt_arg_field embed_fields[] = {DIM(embed, N), DIM(embed, V), DIM(embed, C), END};
static const rt_arg_field rmsnorm_fields[] = {
    DIM(rmsnorm, N), INT(rmsnorm, H), INT(rmsnorm, D), FLT(rmsnorm, eps), END
};
static const rt_arg_field matmul_fields[] = {
    DIM(matmul, M), DIM(matmul, N), DIM(matmul, K), INT(matmul, ta), INT(matmul, tb), FLT(matmul, alpha), END
};
static const rt_arg_field rows_fields[] = {
    DIM(rows, N), DIM(rows, C), DIM(rows, R), FLT(rows, alpha), INT(rows, site), END
};
static const rt_arg_field slice_fields[] = {
    DIM(slice, C), DIM(slice, R), DIM(slice, first), DIM(slice, count), DIM(slice, most), END
};
static const rt_arg_field rope_fields[] = {DIM(rope, N), INT(rope, H), INT(rope, D), FLT(rope, scale), END};
static const rt_arg_field attn_fields[] = {
    INT(attn, B), INT(attn, T), INT(attn, H), INT(attn, K), INT(attn, D), INT(attn, window), FLT(attn, scale),
    INT(attn, rounded), END
};
static const rt_arg_field decode_fields[] = {
    INT(decode, B), INT(decode, Q), INT(decode, S), INT(decode, H), INT(decode, K), INT(decode, D),
    INT(decode, window), FLT(decode, scale), INT(decode, page), END
};
static const rt_arg_field swiglu_fields[] = {DIM(swiglu, N), DIM(swiglu, F), END};
static const rt_arg_field kd_fields[] = {
    DIM(kd, N), DIM(kd, V), DIM(kd, U), DIM(kd, k), INT(kd, divergence), FLT(kd, T), FLT(kd, mix),
    FLT(kd, ce_weight), FLT(kd, kd_weight), INT(kd, t2), INT(kd, grad), INT(kd, site), END
};
static const rt_arg_field adamw_fields[] = {
    DIM(adamw, N), DIM(adamw, C), FLT(adamw, beta1), FLT(adamw, beta2), FLT(adamw, eps), FLT(adamw, weight_decay),
    INT(adamw, stream), INT(adamw, row), END
};
static const rt_arg_field clip_fields[] = {FLT(clip, max_norm), INT(clip, site), END};
static const rt_arg_field draw_fields[] = {DIM(draw, N), DIM(draw, V), DIM(draw, n), FLT(draw, T), END};
static const rt_arg_field mix_fields[] = {DIM(mix, N), DIM(mix, V), DIM(mix, U), FLT(mix, T), FLT(mix, w), END};
static const rt_arg_field topk_fields[] = {DIM(topk, N), DIM(topk, V), DIM(topk, k), FLT(topk, T), END};
static const rt_arg_field sample_fields[] = {DIM(sample, N), DIM(sample, V), END};
static const rt_arg_field dropout_fields[] = {
    DIM(dropout, N), DIM(dropout, C), FLT(dropout, p), INT(dropout, stream), END
};
/* clang-format on */

const rt_arg_field *rt_arg_fields(rt_op_kind kind)
{
    static const rt_arg_field *const fields[RT_OP_COUNT] = {
#define X(kind, name, args, text) args##_fields,
        RT_OP_LIST(X)
#undef X
    };
    return fields[kind];
}

bool rt_arg_used(const rt_op *op, const rt_arg_field *f)
{
    if (op->kind == RT_OP_ADAMW) return f->word < WORD(adamw, stream) || op->args.adamw.moments != RT_DTYPE_F32;
    if (rt_arg_fields(op->kind) != rows_fields) return true;
    if (f->word == WORD(rows, R)) return op->kind == RT_OP_COPY || op->kind == RT_OP_ALL_REDUCE;
    if (f->word == WORD(rows, alpha)) return op->kind == RT_OP_SCALE || op->kind == RT_OP_FILL;
    if (f->word == WORD(rows, site)) return op->kind == RT_OP_NORM_SQ;
    return true;
}

char *rt_format_f32(char *buf, float x)
{
    enum { SIZE = 32, ENOUGH = 9 }; /* nine digits tell any two floats apart */
    for (int digits = 1; digits <= ENOUGH; digits++) {
        snprintf(buf, SIZE, "%.*g", digits, (double)x);
        if (isnan(x) || strtof(buf, NULL) == x) break;
    }
    return buf;
}

/* "999", "1.50 k", "12.0 G": decimal units, three significant digits. */
static char *format_count(char *buf, uint64_t x)
{
    enum { SIZE = 32 };
    static const char units[] = "\0kMGTPE";
    uint32_t unit = 0;
    unsigned __int128 one = 1;
    /* Rounding decides the unit: 999.6 k is 1.00 M. Sixty-four bits end at 18.4 E. */
    while ((x + one / 2) / one >= 1000) unit++, one *= 1000;
    unsigned hundredths = (unsigned)(((unsigned __int128)x * 100 + one / 2) / one);
    unsigned tenths = (unsigned)(((unsigned __int128)x * 10 + one / 2) / one);
    unsigned whole = (unsigned)((x + one / 2) / one);
    if (unit == 0)
        snprintf(buf, SIZE, "%u", whole);
    else if (hundredths < 1000)
        snprintf(buf, SIZE, "%u.%02u %c", hundredths / 100, hundredths % 100, units[unit]);
    else if (tenths < 1000)
        snprintf(buf, SIZE, "%u.%u %c", tenths / 10, tenths % 10, units[unit]);
    else
        snprintf(buf, SIZE, "%u %c", whole, units[unit]);
    return buf;
}

/* ---- the ops ---- */

/* Items of one op, broken between items where the line is full. item is emptied. */
typedef struct wrapped {
    rt_str *out;
    rt_str item;
    size_t column; /* 0: nothing on the line yet */
} wrapped;

static void wrapped_flush(wrapped *w)
{
    const char *before = "; ";
    if (w->column == 0 || w->column + 2 + w->item.len > WIDTH) {
        before = w->column ? ";\n      " : "      ";
        w->column = INDENT;
    } else {
        w->column += 2;
    }
    rt_str_append(w->out, before);
    rt_str_append(w->out, w->item.data ? w->item.data : "");
    w->column += w->item.len;
    w->out->failed |= w->item.failed;
    w->item.len = 0;
}

/* "r a: x+64 (5,12:40) f32 @256". What starts at the buffer's start and has no gaps shows neither + nor stride. */
static void operand_text(rt_str *out, const rt_plan *p, const rt_plan_notes *notes, rt_view v)
{
    const rt_buffer *b = rt_plan_buffer(p, v);
    rt_str_append(out, b->name);
    if (v.off) rt_str_printf(out, "+%llu", (unsigned long long)v.off);
    rt_str_printf(out, " (%u,%u", v.rows, v.cols);
    if (v.rows > 1 && v.stride != v.cols) rt_str_printf(out, ":%llu", (unsigned long long)v.stride);
    rt_str_printf(out, ") %s", rt_dtype_name(b->dtype));
    if (!(v.buf & RT_ACT_BIT) || !notes || !notes->place) return;
    uint64_t place = notes->place[v.buf & ~RT_ACT_BIT];
    if (place != UINT64_MAX) rt_str_printf(out, " @%llu", (unsigned long long)place);
}

/* The scalars that the shapes do not tell, as one item. */
static void print_args(wrapped *w, const rt_op *op)
{
    char buf[32];
    for (const rt_arg_field *f = rt_arg_fields(op->kind); f->name; f++) {
        uint32_t word = op->args.words[f->word];
        if (f->is_dim || !rt_arg_used(op, f)) continue;
        rt_str_printf(&w->item, "%s%s=", w->item.len ? " " : "", f->name);
        if (f->is_float)
            rt_str_append(&w->item, rt_format_f32(buf, rt_f32_from_bits(word)));
        else
            rt_str_printf(&w->item, "%u", word);
    }
    if (w->item.len) wrapped_flush(w);
}

static void print_op(rt_str *out, const rt_plan *p, const rt_plan_notes *notes, uint32_t index)
{
    char bytes[32], flops[32];
    const rt_op *op = &p->ops[index];
    const rt_op_spec *spec = &rt_op_specs[op->kind];
    const char *kernel = notes && notes->kernel ? notes->kernel[index] : NULL;
    rt_str_printf(out, "%4u  %-16s %10s %8s", index, spec->name, rt_format_bytes(bytes, rt_op_bytes(p, op)),
                  format_count(flops, rt_op_flops(p, op)));
    if (kernel)
        rt_str_printf(out, "  %-32s  %s", op->label, kernel);
    else if (op->label[0])
        rt_str_printf(out, "  %s", op->label);
    rt_str_append(out, "\n");
    wrapped w = { .out = out };
    RT_FOR_SLOTS (i, op->kind) {
        if (!op->slot[i].buf) continue;
        rt_str_printf(&w.item, "%s %s: ", rt_access_text(op, i), spec->slot[i].name);
        operand_text(&w.item, p, notes, op->slot[i]);
        wrapped_flush(&w);
    }
    if (op->work.buf) {
        rt_str_append(&w.item, "scratch: ");
        operand_text(&w.item, p, notes, op->work);
        wrapped_flush(&w);
    }
    print_args(&w, op);
    if (op->queue != RT_QUEUE_COMPUTE) {
        rt_str_printf(&w.item, "queue=%s", rt_queue_name(op->queue));
        wrapped_flush(&w);
    }
    rt_str_append(out, "\n");
    rt_str_free(&w.item);
}

/* ---- the whole ---- */

static void print_head(rt_str *out, const rt_plan *p, const rt_plan_facts *f, const rt_plan_notes *notes)
{
    char bytes[32], flops[32], hash[33];
    rt_str_printf(out, "plan %s: %u ops, %s%sFLOP, %s moved\n", p->name, p->nops, format_count(flops, f->flops),
                  f->flops < 1000 ? " " : "", rt_format_bytes(bytes, f->bytes));
    if (notes && notes->backend) rt_str_printf(out, "backend %s", notes->backend);
    if (notes && notes->backend && notes->device) rt_str_printf(out, " on %s", notes->device);
    if (notes && notes->backend) rt_str_append(out, "\n");
    rt_str_printf(out, "hash %s\n\n", rt_hash_text(hash, f->hash));
    rt_str_append(out, "r read, w written, rw in place, = assigned, += added to, s some rows overwritten\n"
                       "name+first element (rows,columns:row stride if not the columns) dtype @byte in the arena\n\n");
    rt_str_printf(out, "%4s  %-16s %10s %8s  %s\n", "#", "op", "bytes", "FLOP",
                  notes && notes->kernel ? "label                             kernel" : "label");
}

static void print_classes(rt_str *out, const rt_plan_facts *f)
{
    char used[32], declared[32];
    rt_str_printf(out, "\n%-12s %8s %10s %10s %10s\n", "class", "used", "bytes", "declared", "bytes");
    for (int c = 0; c < RT_CLASS_COUNT; c++) {
        const rt_class_facts *k = &f->cls[c];
        if (k->declared == 0) continue;
        rt_str_printf(out, "%-12s %8u %10s %10u %10s\n", rt_class_name((rt_class)c), k->used,
                      rt_format_bytes(used, k->used_bytes), k->declared, rt_format_bytes(declared, k->declared_bytes));
    }
}

static void print_peak(rt_str *out, const rt_plan *p, const rt_plan_facts *f, const rt_plan_notes *notes)
{
    char bytes[32];
    if (notes && notes->arena_bytes) rt_str_printf(out, "\narena %s\n", rt_format_bytes(bytes, notes->arena_bytes));
    if (f->peak == 0) {
        rt_str_append(out, "\nno activations\n");
        return;
    }
    const rt_op *op = &p->ops[f->peak_op];
    rt_str_printf(out, "\npeak of activations %s at op %u, %s", rt_format_bytes(bytes, f->peak), f->peak_op,
                  rt_op_name(op->kind));
    if (op->label[0]) rt_str_printf(out, " (%s)", op->label);
    rt_str_printf(out, ", with %u alive:\n", f->nalive);
    for (uint32_t i = 0; i < f->nalive && i < MAX_ALIVE; i++) {
        const rt_buffer *b = &p->acts[f->alive[i]];
        rt_life life = f->life[f->alive[i]];
        rt_view v = { RT_ACT_BIT | f->alive[i], b->rows, b->cols, 0, b->cols };
        rt_str_printf(out, "%10s  ", rt_format_bytes(bytes, b->bytes));
        operand_text(out, p, notes, v);
        rt_str_printf(out, ", ops %u to %u\n", life.first, life.last);
    }
    if (f->nalive <= MAX_ALIVE) return;
    uint64_t rest = 0;
    for (uint32_t i = MAX_ALIVE; i < f->nalive; i++)
        if (!rt_add_u64(rest, p->acts[f->alive[i]].bytes, &rest)) rest = UINT64_MAX;
    rt_str_printf(out, "%10s  in %u smaller ones\n", rt_format_bytes(bytes, rest), f->nalive - MAX_ALIVE);
}

int rt_plan_print(const rt_plan *p, const rt_plan_notes *notes, rt_print format, rt_str *out, rt_err *e)
{
    int rc;
    rt_plan_facts f = { 0 };
    RT_TRY(rt_plan_facts_new(&f, p, e));
    if (format == RT_PRINT_JSON) {
        RT_TRY(rt_plan_print_json(p, &f, notes, out, e));
    } else {
        print_head(out, p, &f, notes);
        for (uint32_t i = 0; i < p->nops && !out->failed; i++) print_op(out, p, notes, i);
        print_classes(out, &f);
        print_peak(out, p, &f, notes);
        if (out->failed) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to print plan '%s'", p->name));
    }
out:
    rt_plan_facts_free(&f);
    return rc;
}
