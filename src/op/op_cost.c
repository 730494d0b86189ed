/* op_cost.c - what an op costs whatever the backend: arithmetic, and bytes that must move; and the sums of a plan.
 *
 * Owns: the FLOP conventions, stated per op below. They are the least that the formula asks for: a multiply, an add, a
 * compare, a divide, a root or an exponential counts 1; what a kernel recomputes is not counted. Bytes are those of a
 * perfect cache: each operand read once and written once. Everything saturates instead of wrapping. */
#include "op/plan_facts.h"

#include <stdlib.h>

static uint64_t mul(uint64_t a, uint64_t b)
{
    uint64_t out = UINT64_MAX;
    rt_mul_u64(a, b, &out);
    return out;
}

static uint64_t add(uint64_t a, uint64_t b)
{
    uint64_t out = UINT64_MAX;
    rt_add_u64(a, b, &out);
    return out;
}

static uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* n is a number of positions, below 2^31, so this does not wrap. */
static uint64_t triangle(uint64_t n) { return n * (n + 1) / 2; }

/* Sum over i in [first, first + count) of min(i + 1, window): the keys that causal queries see from there on. */
static uint64_t causal_pairs(uint64_t first, uint64_t count, uint64_t window)
{
    uint64_t end = first + count;
    window = window == 0 ? end : min_u64(window, end);
    uint64_t flat = end - (window > first ? window : first); /* queries that see a whole window */
    return add(triangle(window) - triangle(min_u64(window, first)), mul(flat, window));
}

/* ---- arithmetic ---- */

/* Documents inside a row are data, so attention counts the whole causal triangle (cut by the window). */
static uint64_t attn_flops(const rt_attn_args *a, uint64_t per_pair)
{
    uint64_t heads = mul(a->B, a->H);
    return mul(mul(causal_pairs(0, a->T, a->window), heads), per_pair * a->D);
}

/* Lengths are data, so decode counts a full cache. */
static uint64_t decode_flops(const rt_decode_args *a)
{
    uint64_t heads = mul(a->B, a->H);
    return mul(mul(causal_pairs(a->S - a->Q, a->Q, a->window), heads), 4 * (uint64_t)a->D);
}

/* A softmax is 4 per column: maximum, subtract, exponential, sum. CE: one over V, and 2 per column of gradient. The
 * divergence: one over the student's columns with its 2 of gradient, one over the teacher's columns (full logits), and
 * 4 per teacher entry for the divergence itself. */
static uint64_t kd_flops(const rt_kd_args *a)
{
    uint64_t per_softmax = 4 + (a->grad ? 2 : 0), row = per_softmax * a->V;
    if (a->U) row += per_softmax * a->V + 8 * (uint64_t)a->U;
    if (a->k) row += per_softmax * a->V + 4 * (uint64_t)a->k;
    return mul(row, a->N);
}

/* What quant_rows counts, where the op makes codes at once. */
static uint64_t coding(const rt_op *op) { return op->slot[RT_CODED_SCALE].buf ? 2 : 0; }

static bool quant_embed(const rt_plan *p, const rt_op *op)
{
    return rt_dtype_is_quant(rt_plan_dtype(p, op->slot[RT_EMBED_TABLE]));
}

uint64_t rt_op_flops(const rt_plan *p, const rt_op *op)
{
    const rt_args *a = &op->args;
    uint64_t norm = mul(mul(a->rmsnorm.N, a->rmsnorm.H), a->rmsnorm.D), rows = mul(a->rows.N, a->rows.C);
    bool with_dw = op->slot[RT_RMSB_DW].buf != 0;
    switch (op->kind) {
    case RT_OP_EMBED_FWD: return quant_embed(p, op) ? mul(mul(a->embed.N, a->embed.C), 2) : 0; /* as dequant */
    case RT_OP_EMBED_BWD: return mul(a->embed.N, a->embed.C);
    case RT_OP_RMSNORM_FWD: return mul(norm, 4 + coding(op));       /* square, sum, two products */
    case RT_OP_ADD_RMSNORM_FWD: return mul(norm, 5 + coding(op));   /* and the residual */
    case RT_OP_RMSNORM_BWD: return mul(norm, with_dw ? 11 : 8);     /* sum of x^2: 2, of dy w x: 3, dx: 3; dw: 3 */
    case RT_OP_ADD_RMSNORM_BWD: return mul(norm, with_dw ? 12 : 9); /* and the residual */
    case RT_OP_MATMUL_INT8:
    case RT_OP_MATMUL_SCALED: /* and two products for an element of out, which are nothing beside it */
    case RT_OP_MATMUL: return mul(mul(mul(a->matmul.M, a->matmul.N), a->matmul.K), 2);
    case RT_OP_BIAS_GRAD: return rows;
    case RT_OP_ROPE_FWD:
    case RT_OP_ROPE_BWD: return mul(mul(mul(a->rope.N, a->rope.H), a->rope.D), 3); /* 4 products, 2 sums per pair */
    case RT_OP_ATTN_FWD: return attn_flops(&a->attn, 4);                           /* q k', p v */
    case RT_OP_ATTN_BWD: return attn_flops(&a->attn, 10); /* q k' again, do v', p' do, ds k, ds' q */
    case RT_OP_ATTN_DECODE: return decode_flops(&a->decode);
    case RT_OP_SWIGLU_FWD: return mul(mul(a->swiglu.N, a->swiglu.F), 5 + coding(op)); /* sigmoid: 3, two products */
    case RT_OP_SWIGLU_BWD: /* sigmoid: 3, its slope: 4, dg: 2, du: 1; y: 1, of du's two products */
        return mul(mul(a->swiglu.N, a->swiglu.F), op->slot[RT_GLUB_Y].buf ? 11 : 10);
    case RT_OP_ADD:
    case RT_OP_SCALE: return rows;
    case RT_OP_CAST:
    case RT_OP_COPY:
    case RT_OP_FILL: return 0;
    case RT_OP_DEQUANT: return mul(rows, 2);    /* scale, offset */
    case RT_OP_QUANT: return mul(rows, 4);      /* extremes of the block: 2, scale, round */
    case RT_OP_QUANT_ROWS: return mul(rows, 2); /* the largest, the quotient */
    case RT_OP_KD_LOSS: return kd_flops(&a->kd);
    case RT_OP_ADAMW: /* m: 3, v: 4, corrections: 2, root, eps, divide: 3, decay: 2, step: 2; rounding is integers */
        return mul(mul(a->adamw.N, a->adamw.C), 16);
    case RT_OP_NORM_SQ: return mul(rows, 2);
    case RT_OP_ALL_REDUCE: return rows; /* each rank adds up the slice that is its own, of all R */
    case RT_OP_REDUCE_SCATTER: return mul(a->slice.count, a->slice.R);
    case RT_OP_ALL_GATHER: return 0;
    case RT_OP_CLIP: return 4; /* root, add, divide, minimum */
    case RT_OP_MIX_LOGITS:     /* softmax: 4, and its logarithm: 1; with y0 an exponential, a sum, a logarithm, a sum */
        return add(mul(mul(a->mix.N, a->mix.U), 5), op->slot[RT_MIX_Y0].buf ? mul(mul(a->mix.N, a->mix.V), 4) : 0);
    case RT_OP_DRAW: /* as topk, and the sum of the entropy; two logarithms and searches are nothing beside it */
        return mul(mul(a->draw.N, a->draw.V), 7);
    case RT_OP_TOPK: return mul(mul(a->topk.N, a->topk.V), 5); /* divided by T: 1, softmax: 4 */
    case RT_OP_SAMPLE: return mul(mul(a->sample.N, a->sample.V), 5);
    case RT_OP_DROPOUT: return mul(a->dropout.N, a->dropout.C); /* random words are integers */
    case RT_OP_COUNT: break;
    }
    return 0;
}

/* ---- bytes ---- */

/* Rows of a slot that the op touches, when they are not all: ids and row indices may repeat, so never more than there
 * are; a decode step with a window looks at the tail of the cache. */
static uint64_t rows_touched(const rt_op *op, uint32_t slot)
{
    const rt_args *a = &op->args;
    uint64_t rows = op->slot[slot].rows;
    if (op->kind == RT_OP_EMBED_FWD && slot == RT_EMBED_TABLE) return min_u64(rows, a->embed.N);
    if (op->kind == RT_OP_EMBED_BWD && slot == RT_EMBED_DTABLE) return min_u64(rows, a->embed.N);
    if (op->kind == RT_OP_COPY && slot == RT_ROWS_Y && a->rows.R) return min_u64(rows, a->rows.N);
    if (op->kind == RT_OP_ATTN_DECODE && (slot == RT_DEC_KC || slot == RT_DEC_VC) && a->decode.window)
        return min_u64(rows, mul(a->decode.B, min_u64(a->decode.S, (uint64_t)a->decode.window + a->decode.Q - 1)));
    return rows;
}

/* How often the elements of a slot cross the memory bus. */
static uint32_t passes(const rt_op *op, uint32_t slot)
{
    if (op->kind == RT_OP_KD_LOSS && slot == RT_KD_LOGITS && !op->args.kd.grad) return 1;           /* read only */
    if (op->kind == RT_OP_ADAMW && slot == RT_ADAM_PARAM && op->slot[RT_ADAM_MASTER].buf) return 1; /* written only */
    switch (rt_op_access(op->kind, slot, op->slot)) {
    case RT_READ_WRITE:
    case RT_ACCUM_SPARSE: return 2;
    case RT_ACCUM: return op->acc >> slot & 1 ? 2 : 1;
    default: return 1;
    }
}

uint64_t rt_op_bytes(const rt_plan *p, const rt_op *op)
{
    uint64_t bytes = 0;
    RT_FOR_SLOTS (i, op->kind) {
        rt_view v = op->slot[i];
        if (!v.buf) continue;
        uint64_t row = rt_dtype_bytes(rt_plan_dtype(p, v), v.cols);
        bytes = add(bytes, mul(mul(row, rows_touched(op, i)), passes(op, i)));
    }
    return bytes;
}

/* ---- a whole plan ---- */

static void count_declared(rt_plan_facts *f, const rt_buffer *bufs, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        rt_class_facts *c = &f->cls[bufs[i].cls];
        c->declared++;
        c->declared_bytes = add(c->declared_bytes, bufs[i].bytes);
    }
}

/* seen (buffers of the space, then activations) */
static void count_use(rt_plan_facts *f, const rt_plan *p, rt_view v, bool *seen)
{
    if (!v.buf) return;
    const rt_buffer *b = rt_plan_buffer(p, v);
    bool *mark = &seen[v.buf & RT_ACT_BIT ? p->space->nbufs + (v.buf & ~RT_ACT_BIT) : v.buf - 1];
    if (*mark) return;
    *mark = true;
    f->cls[b->cls].used++;
    f->cls[b->cls].used_bytes = add(f->cls[b->cls].used_bytes, b->bytes);
}

/* Largest first; by index where they are equal, so that there is one order. */
static int by_bytes(const void *a, const void *b, void *acts)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    uint64_t n = ((const rt_buffer *)acts)[x].bytes, m = ((const rt_buffer *)acts)[y].bytes;
    return n != m ? (n > m ? -1 : 1) : (x > y) - (x < y);
}

int rt_plan_facts_new(rt_plan_facts *out, const rt_plan *p, rt_err *e)
{
    int rc;
    bool *seen = NULL;
    rt_plan_facts f = { 0 };
    RT_TRY(rt_plan_status(p, e));
    RT_TRY(rt_plan_hash(p, &f.hash, e));
    f.life = rt_alloc((p->nacts + (size_t)1) * sizeof *f.life, 16); /* never of no size, which gives null */
    f.alive = rt_alloc((p->nacts + (size_t)1) * sizeof *f.alive, 16);
    seen = rt_alloc_zero(p->space->nbufs + (size_t)p->nacts + 1, 16);
    if (!f.life || !f.alive || !seen) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to print plan '%s'", p->name));
    count_declared(&f, p->space->bufs, p->space->nbufs);
    count_declared(&f, p->acts, p->nacts);
    for (uint32_t t = 0; t < p->nops; t++) {
        f.flops = add(f.flops, rt_op_flops(p, &p->ops[t]));
        f.bytes = add(f.bytes, rt_op_bytes(p, &p->ops[t]));
        for (uint32_t i = 0; i < RT_MAX_SLOTS; i++) count_use(&f, p, p->ops[t].slot[i], seen);
        count_use(&f, p, p->ops[t].work, seen);
    }
    f.peak = rt_plan_lifetimes(p, f.life, &f.peak_op);
    for (uint32_t i = 0; f.peak && i < p->nacts; i++)
        if (f.life[i].first <= f.peak_op && f.peak_op <= f.life[i].last) f.alive[f.nalive++] = i;
    qsort_r(f.alive, f.nalive, sizeof *f.alive, by_bytes, p->acts);
    *out = f;
    f = (rt_plan_facts){ 0 };
out:
    rt_free(seen);
    rt_plan_facts_free(&f);
    return rc;
}

void rt_plan_facts_free(rt_plan_facts *f)
{
    if (!f) return;
    rt_free(f->life);
    rt_free(f->alive);
    *f = (rt_plan_facts){ 0 };
}
