/* cpu_attn_fwd.c - attention forward: o = softmax(scale q k') v, causal, grouped-query, by document, windowed.
 *
 * Owns: the op attn_fwd. A chunk is (row of the batch, part of the query heads of one kv head, block of AT_Q queries);
 * it walks over the tiles of keys that its queries see, once, with the running maximum and sum of each query (so there
 * is never a T x T matrix), and writes o and lse of its block. Chunks share nothing, and each sums in the order of
 * keys, so the result depends on shapes and data alone. Blocks with the most keys come first. cpu_attn.h has the
 * arithmetic. */
#include "backend/cpu/cpu_attn.h"

typedef struct fwd_job {
    const rt_bound_op *op;
    rt_attn_args a;
    head_parts parts;
    uint32_t blocks, ld;
    float *scratch;         /* of all workers */
    uint64_t worker_floats; /* of one */
} fwd_job;

/* Where a chunk works. */
typedef struct fwd_place {
    uint64_t row0; /* of the batch, in rows of the operands */
    uint32_t kv, head0, heads, i0;
} fwd_place;

typedef struct fwd_scratch {
    float *k, *v, *s, *rows, *shrink;
    head_state head[AT_HEADS];
} fwd_scratch;

static uint64_t scratch_floats(uint32_t D, uint32_t heads)
{
    uint64_t ld = padded(D);
    return 2 * piece_floats(AT_K * ld) + piece_floats(AT_K * AT_Q) + piece_floats(AT_Q * ld) + piece_floats(AT_Q) +
           heads * head_floats(D);
}

static fwd_scratch scratch_take(float *p, uint32_t D, uint32_t heads)
{
    uint64_t ld = padded(D);
    fwd_scratch w;
    w.k = take(&p, AT_K * ld);
    w.v = take(&p, AT_K * ld);
    w.s = take(&p, AT_K * AT_Q);
    w.rows = take(&p, AT_Q * ld);
    w.shrink = take(&p, AT_Q);
    for (uint32_t h = 0; h < heads; h++) w.head[h] = head_take(&p, D);
    return w;
}

static void load_queries(const fwd_job *job, const fwd_place *at, fwd_scratch *w, const lanes *x)
{
    const rt_operand *q = &job->op->slot[RT_ATTN_Q];
    const uint32_t D = job->a.D, ld = job->ld;
    for (uint32_t h = 0; h < at->heads; h++) {
        pack_rows(w->rows, ld, q, (at->row0 + at->i0) * q->stride + (at->head0 + h) * D, x->n, D,
                  job->a.scale * AT_LOG2E);
        memset(w->rows + (uint64_t)x->n * ld, 0, sizeof(float) * (x->width - x->n) * ld);
        transpose(w->head[h].q, AT_Q, w->rows, ld, x->width, D);
        head_clear(&w->head[h], D);
    }
}

static void store_results(const fwd_job *job, const fwd_place *at, fwd_scratch *w, const lanes *x)
{
    const rt_operand *o = &job->op->slot[RT_ATTN_O], *l = &job->op->slot[RT_ATTN_LSE];
    const uint32_t D = job->a.D, ld = job->ld;
    const uint64_t row = at->row0 + at->i0;
    float *lse = rt_host_ptr(l);
    for (uint32_t h = 0; h < at->heads; h++) {
        head_state *s = &w->head[h];
        for (uint32_t c = 0; c < x->width; c += VL) {
            vf sum = vload(s->sum + c), r = vset(1.0f) / sum;
            for (uint32_t d = 0; d < D; d++) vstore(s->o + d * AT_Q + c, vload(s->o + d * AT_Q + c) * r);
            vstore(s->sum + c, vfma(vload(s->max + c), vset(AT_LN2), vlog(sum)));
        }
        transpose(w->rows, ld, s->o, AT_Q, D, x->width);
        unpack_rows(o, row * o->stride + (at->head0 + h) * D, x->n, D, w->rows, ld, 1.0f);
        for (uint32_t i = 0; i < x->n; i++) lse[(row + i) * l->stride + at->head0 + h] = s->sum[i];
    }
}

static void run_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const fwd_job *job = ctx;
    const rt_attn_args *a = &job->a;
    const rt_operand *k = &job->op->slot[RT_ATTN_K], *v = &job->op->slot[RT_ATTN_V];
    const rt_operand *st = &job->op->slot[RT_ATTN_START];
    const uint32_t rows = a->B * a->K * job->parts.parts, unit = chunk % rows, group = a->H / a->K;
    const uint32_t part = unit % job->parts.parts, head = part * job->parts.heads;
    fwd_place at = { .row0 = (uint64_t)(unit / job->parts.parts / a->K) * a->T, .kv = unit / job->parts.parts % a->K };
    at.head0 = at.kv * group + head;
    at.heads = group - head < job->parts.heads ? group - head : job->parts.heads;
    at.i0 = (job->blocks - 1 - chunk / rows) * AT_Q;

    fwd_scratch w = scratch_take(job->scratch + worker * job->worker_floats, a->D, job->parts.heads);
    const int32_t *start = rt_host_ptr(st);
    lanes x;
    lanes_positions(&x, at.i0, a->T - at.i0 < AT_Q ? a->T - at.i0 : AT_Q,
                    start ? start + (at.row0 + at.i0) * st->stride : NULL, st->stride, a->window);
    load_queries(job, &at, &w, &x);
    key_tile t = { .k = w.k, .v = w.v, .ld = job->ld };
    for (t.j0 = x.first; t.j0 <= x.last; t.j0 += (int32_t)t.n) {
        const uint64_t row = at.row0 + (uint64_t)t.j0;
        tile_cut(&t, &x, x.last + 1);
        if (t.c1 == 0) continue;
        t.k_finite = pack_rows(t.k, t.ld, k, row * k->stride + at.kv * a->D, t.n, a->D, 1.0f);
        t.v_finite = pack_rows(t.v, t.ld, v, row * v->stride + at.kv * a->D, t.n, a->D, 1.0f);
        for (uint32_t h = 0; h < at.heads; h++) head_step(&w.head[h], &t, &x, a->D, w.s, w.shrink);
    }
    store_results(job, &at, &w, &x);
}

void RT_CPU(attn_fwd)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    fwd_job job = { .op = o, .a = o->args.attn, .scratch = rt_host_ptr(&o->work) };
    const rt_attn_args *a = &job.a;
    job.parts = cut_heads(a->H / a->K, a->D);
    job.blocks = (a->T + AT_Q - 1) / AT_Q;
    job.ld = padded(a->D);
    job.worker_floats = scratch_floats(a->D, job.parts.heads);
    rt_pool_run(c->pool, a->B * a->K * job.parts.parts * job.blocks, run_chunk, &job);
}

uint64_t RT_CPU(work_attn_fwd)(const rt_cpu_work *w)
{
    const rt_attn_args *a = &w->args->attn;
    return w->threads * sizeof(float) * scratch_floats(a->D, cut_heads(a->H / a->K, a->D).heads);
}
