/* plan_hash.c - the identity of a plan.
 *
 * Owns: the canonical form that is hashed: bytes whose order does not depend on the machine, kinds, dtypes, classes,
 * queues and those operands that are there by name, so that a new op, dtype or optional operand leaves old hashes
 * alone. Buffers are numbered in the order in which ops first touch them, so neither names nor declarations that
 * nothing uses count. Scratch (rt_op.work) is the backend's choice and enters the hash of a program, not of a plan. */
#include "op/plan_facts.h"

/* Changed whenever the form below changes. */
static const char version[] = "retort plan 2";

typedef struct canon {
    const rt_plan *p;
    rt_hasher *h;
    uint32_t *ordinal; /* (buffers of the space, then activations) 0: not met yet */
    uint32_t met;
} canon;

static void put_text(canon *c, const char *text) { rt_hasher_add(c->h, text, strlen(text) + 1); }

static void put_u32(canon *c, uint32_t x)
{
    uint8_t le[4] = { (uint8_t)x, (uint8_t)(x >> 8), (uint8_t)(x >> 16), (uint8_t)(x >> 24) };
    rt_hasher_add(c->h, le, sizeof le);
}

static void put_u64(canon *c, uint64_t x)
{
    put_u32(c, (uint32_t)x);
    put_u32(c, (uint32_t)(x >> 32));
}

static void put_view(canon *c, rt_view v)
{
    uint32_t *ordinal = &c->ordinal[v.buf & RT_ACT_BIT ? c->p->space->nbufs + (v.buf & ~RT_ACT_BIT) : v.buf - 1];
    bool first = *ordinal == 0;
    if (first) *ordinal = ++c->met;
    put_u32(c, *ordinal);
    if (first) {
        const rt_buffer *b = rt_plan_buffer(c->p, v);
        put_text(c, rt_class_name(b->cls));
        put_text(c, rt_dtype_name(b->dtype));
        put_u32(c, b->rows);
        put_u32(c, b->cols);
    }
    put_u32(c, v.rows);
    put_u32(c, v.cols);
    put_u64(c, v.off);
    put_u64(c, v.stride);
}

/* Words of an op's own struct; what lies behind it in the union is nobody's. */
static uint32_t arg_words(rt_op_kind kind)
{
    static const uint8_t words[RT_OP_COUNT] = {
#define X(kind, name, args, text) sizeof(rt_##args##_args) / sizeof(uint32_t),
        RT_OP_LIST(X)
#undef X
    };
    return words[kind];
}

static void put_op(canon *c, const rt_op *op)
{
    put_text(c, rt_op_name(op->kind));
    put_text(c, rt_queue_name(op->queue));
    put_u32(c, op->acc);
    put_u32(c, arg_words(op->kind));
    for (uint32_t i = 0; i < arg_words(op->kind); i++) put_u32(c, op->args.words[i]);
    RT_FOR_SLOTS (i, op->kind)
        if (op->slot[i].buf) {
            put_text(c, rt_op_specs[op->kind].slot[i].name);
            put_view(c, op->slot[i]);
        }
    put_text(c, "");
}

int rt_plan_hash(const rt_plan *p, rt_hash128 *out, rt_err *e)
{
    int rc;
    canon c = { .p = p };
    RT_TRY(rt_plan_status(p, e));
    c.h = rt_hasher_new();
    c.ordinal = rt_alloc_zero((p->space->nbufs + (size_t)p->nacts + 1) * sizeof *c.ordinal, 16);
    if (!c.h || !c.ordinal) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to hash plan '%s'", p->name));
    put_text(&c, version);
    put_u32(&c, p->nops);
    for (uint32_t i = 0; i < p->nops; i++) put_op(&c, &p->ops[i]);
    *out = rt_hasher_digest(c.h);
out:
    rt_free(c.ordinal);
    rt_hasher_free(c.h);
    return rc;
}
