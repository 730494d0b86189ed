/* plan_json.c - a plan as JSON: the facts of the text printer with exact figures, keys in a fixed order.
 *
 * Owns: the key names. Sizes are bytes, offsets and strides of views are elements,
 * arena offsets are bytes; what is not known (a kernel before seal) is absent rather than null. */
#include "base/json.h"
#include "op/plan_facts.h"

#include <jansson.h>
#include <math.h>

/* ---- building: jansson takes the reference even when it fails, so nothing leaks; `failed` sticks ---- */

typedef struct builder {
    const rt_plan *p;
    const rt_plan_facts *f;
    const rt_plan_notes *notes;
    bool failed;
} builder;

static void put(builder *b, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0) b->failed = true;
}

static void put_uint(builder *b, json_t *object, const char *key, uint64_t x)
{
    put(b, object, key, json_integer((json_int_t)(x > INT64_MAX ? INT64_MAX : x)));
}

static void put_text(builder *b, json_t *object, const char *key, const char *text)
{
    put(b, object, key, json_string(text));
}

static void append(builder *b, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0) b->failed = true;
}

/* Through its shortest decimal form, so that a reader sees 1e-06 as the text printer shows it. */
static json_t *json_f32(float x)
{
    char buf[32];
    rt_format_f32(buf, x);
    return isfinite(x) ? json_real(strtod(buf, NULL)) : json_string(buf);
}

static void put_place(builder *b, json_t *object, uint32_t act)
{
    if (!b->notes || !b->notes->place || b->notes->place[act] == UINT64_MAX) return;
    put_uint(b, object, "arena_offset", b->notes->place[act]);
}

/* ---- the parts ---- */

static json_t *operand(builder *b, const char *slot, const char *access, rt_view v)
{
    json_t *o = json_object();
    const rt_buffer *buf = rt_plan_buffer(b->p, v);
    put_text(b, o, "slot", slot);
    put_text(b, o, "access", access);
    put_text(b, o, "buffer", buf->name);
    put_text(b, o, "class", rt_class_name(buf->cls));
    put_text(b, o, "dtype", rt_dtype_name(buf->dtype));
    put_uint(b, o, "rows", v.rows);
    put_uint(b, o, "cols", v.cols);
    put_uint(b, o, "offset", v.off);
    put_uint(b, o, "stride", v.stride);
    if (v.buf & RT_ACT_BIT) put_place(b, o, v.buf & ~RT_ACT_BIT);
    return o;
}

static json_t *args(builder *b, const rt_op *op)
{
    json_t *o = json_object();
    for (const rt_arg_field *f = rt_arg_fields(op->kind); f->name; f++) {
        uint32_t word = op->args.words[f->word];
        if (!rt_arg_used(op, f)) continue;
        if (f->is_float)
            put(b, o, f->name, json_f32(rt_f32_from_bits(word)));
        else
            put_uint(b, o, f->name, word);
    }
    return o;
}

static json_t *one_op(builder *b, uint32_t index)
{
    const rt_op *op = &b->p->ops[index];
    const rt_op_spec *spec = &rt_op_specs[op->kind];
    json_t *o = json_object(), *operands = json_array();
    put_uint(b, o, "index", index);
    put_text(b, o, "op", spec->name);
    put_text(b, o, "label", op->label);
    put_text(b, o, "queue", rt_queue_name(op->queue));
    put_uint(b, o, "bytes", rt_op_bytes(b->p, op));
    put_uint(b, o, "flops", rt_op_flops(b->p, op));
    if (b->notes && b->notes->kernel && b->notes->kernel[index]) put_text(b, o, "kernel", b->notes->kernel[index]);
    RT_FOR_SLOTS (i, op->kind)
        if (op->slot[i].buf) append(b, operands, operand(b, spec->slot[i].name, rt_access_text(op, i), op->slot[i]));
    put(b, o, "operands", operands);
    if (op->work.buf) put(b, o, "scratch", operand(b, "work", "w", op->work));
    put(b, o, "args", args(b, op));
    return o;
}

static json_t *classes(builder *b)
{
    json_t *list = json_array();
    for (int c = 0; c < RT_CLASS_COUNT; c++) {
        const rt_class_facts *k = &b->f->cls[c];
        if (k->declared == 0) continue;
        json_t *o = json_object();
        put_text(b, o, "class", rt_class_name((rt_class)c));
        put_uint(b, o, "used", k->used);
        put_uint(b, o, "used_bytes", k->used_bytes);
        put_uint(b, o, "declared", k->declared);
        put_uint(b, o, "declared_bytes", k->declared_bytes);
        append(b, list, o);
    }
    return list;
}

static json_t *peak(builder *b)
{
    const rt_plan_facts *f = b->f;
    json_t *o = json_object(), *alive = json_array();
    put_uint(b, o, "bytes", f->peak);
    if (f->peak) {
        put_uint(b, o, "index", f->peak_op);
        put_text(b, o, "op", rt_op_name(b->p->ops[f->peak_op].kind));
        put_text(b, o, "label", b->p->ops[f->peak_op].label);
    }
    for (uint32_t i = 0; i < f->nalive; i++) {
        const rt_buffer *buf = &b->p->acts[f->alive[i]];
        json_t *a = json_object();
        put_text(b, a, "buffer", buf->name);
        put_text(b, a, "dtype", rt_dtype_name(buf->dtype));
        put_uint(b, a, "rows", buf->rows);
        put_uint(b, a, "cols", buf->cols);
        put_uint(b, a, "bytes", buf->bytes);
        put_uint(b, a, "first_op", f->life[f->alive[i]].first);
        put_uint(b, a, "last_op", f->life[f->alive[i]].last);
        put_place(b, a, f->alive[i]);
        append(b, alive, a);
    }
    put(b, o, "alive", alive);
    return o;
}

static json_t *whole(builder *b)
{
    char hash[33];
    json_t *root = json_object(), *ops = json_array();
    put_text(b, root, "plan", b->p->name);
    put_text(b, root, "hash", rt_hash_text(hash, b->f->hash));
    if (b->notes && b->notes->backend) put_text(b, root, "backend", b->notes->backend);
    if (b->notes && b->notes->device) put_text(b, root, "device", b->notes->device);
    put_uint(b, root, "flops", b->f->flops);
    put_uint(b, root, "bytes", b->f->bytes);
    put(b, root, "classes", classes(b));
    put(b, root, "peak", peak(b));
    if (b->notes && b->notes->arena_bytes) put_uint(b, root, "arena_bytes", b->notes->arena_bytes);
    for (uint32_t i = 0; i < b->p->nops && !b->failed; i++) append(b, ops, one_op(b, i));
    put(b, root, "ops", ops);
    return root;
}

static int write_text(const char *text, size_t bytes, void *ctx)
{
    rt_str *out = ctx;
    rt_str_append_n(out, text, bytes);
    return out->failed ? -1 : 0;
}

int rt_plan_print_json(const rt_plan *p, const rt_plan_facts *f, const rt_plan_notes *notes, rt_str *out, rt_err *e)
{
    int rc = RT_OK;
    builder b = { p, f, notes, false };
    rt_json_init();
    rt_json_out_of_memory(); /* forget what happened before */
    json_t *root = whole(&b);
    if (!b.failed && json_dump_callback(root, write_text, out, JSON_INDENT(1) | JSON_REAL_PRECISION(9)) != 0)
        b.failed = true;
    if (!b.failed) rt_str_append(out, "\n");
    if (rt_json_out_of_memory() || out->failed)
        rc = rt_fail(e, RT_NOMEM, "no memory to print plan '%s'", p->name);
    else if (b.failed)
        rc = rt_fail(e, RT_INVALID, "plan '%s': a name or a label is not UTF-8, so it cannot be written as JSON",
                     p->name);
    json_decref(root);
    return rc;
}
