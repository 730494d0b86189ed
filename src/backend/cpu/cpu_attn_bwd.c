/* cpu_attn_bwd.c - attention backward: dq, dk and dv (all `=`) from do, q, k, v, o and lse, in one pass over the
 * scores.
 *
 *   p = exp(scale q k' - lse)    dp = do v'    ds = p (dp - delta), delta = rowsum(do o)
 *   dv = p' do                   dk = scale ds' q                   dq = scale ds k
 *
 * Owns: the op attn_bwd. A unit is (row of the batch, kv head). The queries of a unit are cut into `pieces` of about
 * the same number of visible keys; a chunk is one piece of one unit. It takes its blocks of queries in order, each over
 * the tiles of keys that they see: five GEMMs per tile, none of them twice. dq of a block is complete when its tiles
 * are done. dk and dv are summed by the chunk, over its queries and over all heads of the group, into f32 partial sums
 * of its own, and a second job adds the partial sums of the pieces in the order of pieces. Pieces depend on shapes
 * alone, so threads change nothing in the result.
 *
 * Scratch, besides some 0.5 MiB per thread: the partial sums of as many units as give every thread four chunks (at
 * least one unit), each at most pieces * T * D * 8 bytes, about 2/3 of that without a window; pieces is 1 from
 * PIECES_MAX units on. The other units follow in waves. cpu_attn.h has the layout of a block. */
#include "backend/cpu/cpu_attn.h"

enum {
    PIECES_MAX = 32, /* so many chunks there should at least be, all units together */
    ROWS_MERGED = 64 /* keys of a chunk of the second job */
};

typedef struct piece {
    uint32_t block0, block1; /* of queries */
    uint32_t key0, keys;     /* that they may see */
    uint64_t row;            /* where its partial sums begin, in rows */
} piece;

typedef struct bwd_job {
    const rt_bound_op *op;
    rt_attn_args a;
    head_parts parts;
    piece piece[PIECES_MAX];
    uint32_t pieces, ld;
    uint64_t rows;          /* of partial sums of a unit */
    uint32_t unit0, units;  /* of this wave */
    int32_t *seen;          /* (units,pieces) first key that a piece did see */
    float *dk, *dv;         /* (units,rows,ld) partial sums; dk is short of the factor ln 2 */
    float *scratch;         /* of all workers */
    uint64_t worker_floats; /* of one */
} bwd_job;

typedef struct bwd_head {
    float *q, *d_o;        /* (AT_Q,ld) q is times scale * log2 e */
    float *qt, *dot, *dqt; /* (D,AT_Q) */
    float *lse, *delta;    /* (AT_Q) lse in units of log 2 */
    bool q_finite, do_finite;
} bwd_head;

typedef struct bwd_scratch {
    float *k, *v, *p, *ds, *rows;
    bwd_head head[AT_HEADS];
} bwd_scratch;

/* ---- the shape of the work ---- */

/* Cuts the blocks of queries; what a block costs is counted in the keys that its last query sees without documents. */
static void cut_queries(bwd_job *job)
{
    const rt_attn_args *a = &job->a;
    const uint32_t blocks = (a->T + AT_Q - 1) / AT_Q, units = a->B * a->K;
    const uint32_t reach = a->window > 0 && a->window < a->T ? a->window : a->T;
    uint64_t total = 0, done = 0;
    for (uint32_t i = 0; i < blocks; i++) total += (i + 1) * AT_Q < reach ? (i + 1) * AT_Q : reach;
    job->pieces = units >= PIECES_MAX ? 1 : (PIECES_MAX + units - 1) / units;
    if (job->pieces > blocks) job->pieces = blocks;
    job->rows = 0;
    for (uint32_t n = 0, i = 0; n < job->pieces; n++) {
        piece *p = &job->piece[n];
        p->block0 = i;
        for (; i < blocks && done * job->pieces < total * (n + 1); i++)
            done += (i + 1) * AT_Q < reach ? (i + 1) * AT_Q : reach;
        p->block1 = i;
        p->key0 = p->block0 * AT_Q < reach ? 0 : p->block0 * AT_Q - reach + 1;
        p->keys = i == p->block0 ? 0 : (i * AT_Q < a->T ? i * AT_Q : a->T) - p->key0;
        p->row = job->rows;
        job->rows += p->keys;
    }
}

static uint64_t scratch_floats(uint32_t D, uint32_t heads)
{
    const uint64_t ld = padded(D), turned = piece_floats((uint64_t)D * AT_Q);
    const uint64_t head = 2 * piece_floats(AT_Q * ld) + 3 * turned + 2 * piece_floats(AT_Q);
    return 2 * piece_floats(AT_K * ld) + 2 * piece_floats(AT_K * AT_Q) + piece_floats(AT_Q * ld) + heads * head;
}

static bwd_scratch scratch_take(float *p, uint32_t D, uint32_t heads)
{
    uint64_t ld = padded(D);
    bwd_scratch w;
    w.k = take(&p, AT_K * ld);
    w.v = take(&p, AT_K * ld);
    w.p = take(&p, AT_K * AT_Q);
    w.ds = take(&p, AT_K * AT_Q);
    w.rows = take(&p, AT_Q * ld);
    for (uint32_t h = 0; h < heads; h++) {
        bwd_head *s = &w.head[h];
        s->q = take(&p, AT_Q * ld);
        s->d_o = take(&p, AT_Q * ld);
        s->qt = take(&p, (uint64_t)D * AT_Q);
        s->dot = take(&p, (uint64_t)D * AT_Q);
        s->dqt = take(&p, (uint64_t)D * AT_Q);
        s->lse = take(&p, AT_Q);
        s->delta = take(&p, AT_Q);
    }
    return w;
}

/* Fills what follows from the shapes and returns the bytes of scratch; places it when base is given. */
static uint64_t job_layout(bwd_job *job, uint32_t threads, void *base)
{
    const rt_attn_args *a = &job->a;
    job->ld = padded(a->D);
    job->parts = cut_heads(a->H / a->K, a->D);
    cut_queries(job);
    const uint64_t wanted = (4ull * threads + job->pieces - 1) / job->pieces, all = (uint64_t)a->B * a->K;
    job->units = (uint32_t)(wanted < all ? wanted : all);
    job->worker_floats = scratch_floats(a->D, job->parts.heads);
    const uint64_t sums = piece_floats(job->units * job->rows * job->ld);
    float *p = base;
    if (base) {
        job->seen = (int32_t *)take(&p, (uint64_t)job->units * job->pieces);
        job->dk = take(&p, job->units * job->rows * job->ld);
        job->dv = take(&p, job->units * job->rows * job->ld);
        job->scratch = p;
    }
    return sizeof(float) * (piece_floats((uint64_t)job->units * job->pieces) + 2 * sums + threads * job->worker_floats);
}

/* ---- one chunk ---- */

/* Where a chunk works. */
typedef struct bwd_place {
    uint64_t row0; /* of the batch, in rows of the operands */
    uint32_t kv, head0, heads, i0;
    float *dk, *dv; /* (keys,ld) partial sums; row 0 is key0 */
    uint32_t key0;
} bwd_place;

/* x (n,ld) as (D,AT_Q); lanes not in use are 0. */
static void turn(float *xt, float *x, uint32_t ld, const lanes *l, uint32_t D)
{
    memset(x + (uint64_t)l->n * ld, 0, sizeof(float) * (l->width - l->n) * ld);
    transpose(xt, AT_Q, x, ld, l->width, D);
}

static void load_block(const bwd_job *job, const bwd_place *at, bwd_scratch *w, const lanes *x)
{
    const rt_operand *slot = job->op->slot, *l = &slot[RT_ATTNB_LSE];
    const uint32_t D = job->a.D, ld = job->ld;
    const uint64_t row = at->row0 + at->i0;
    const float *lse = rt_host_ptr(l);
    for (uint32_t h = 0; h < at->heads; h++) {
        bwd_head *s = &w->head[h];
        const uint64_t col = (uint64_t)(at->head0 + h) * D;
        s->q_finite = pack_rows(s->q, ld, &slot[RT_ATTNB_Q], row * slot[RT_ATTNB_Q].stride + col, x->n, D,
                                job->a.scale * AT_LOG2E);
        s->do_finite = pack_rows(s->d_o, ld, &slot[RT_ATTNB_DO], row * slot[RT_ATTNB_DO].stride + col, x->n, D, 1.0f);
        pack_rows(w->rows, ld, &slot[RT_ATTNB_O], row * slot[RT_ATTNB_O].stride + col, x->n, D, 1.0f);
        for (uint32_t i = 0; i < AT_Q; i++) {
            vf sum = vset(0.0f);
            for (uint32_t c = 0; i < x->n && c < ld; c += VL)
                sum = vfma(vload(s->d_o + i * ld + c), vload(w->rows + i * ld + c), sum);
            s->delta[i] = vsum(sum);
            s->lse[i] = i < x->n ? lse[(row + i) * l->stride + at->head0 + h] * AT_LOG2E : 0.0f;
        }
        turn(s->qt, s->q, ld, x, D);
        turn(s->dot, s->d_o, ld, x, D);
        memset(s->dqt, 0, sizeof(float) * D * AT_Q);
    }
}

static void store_dq(const bwd_job *job, const bwd_place *at, bwd_scratch *w, const lanes *x)
{
    const rt_operand *dq = &job->op->slot[RT_ATTNB_DQ];
    const uint32_t D = job->a.D;
    for (uint32_t h = 0; h < at->heads; h++) {
        transpose(w->rows, job->ld, w->head[h].dqt, AT_Q, D, x->width);
        unpack_rows(dq, (at->row0 + at->i0) * dq->stride + (uint64_t)(at->head0 + h) * D, x->n, D, w->rows, job->ld,
                    job->a.scale);
    }
}

/* p (t->n,AT_Q): scores become weights; ds (t->n,AT_Q): dp becomes ds. */
RT_INLINE void softmax_bwd_tile(float *p, float *ds, const bwd_head *s, const key_tile *t, const lanes *x, bool masked)
{
    for (uint32_t c = t->c0; c < t->c1; c += VL) {
        const vi lo = vi_load(x->lo + c), hi = vi_load(x->hi + c);
        const vf lse = vload(s->lse + c), delta = vload(s->delta + c);
        for (uint32_t j = 0; j < t->n; j++) {
            vf w = vexp2(vload(p + j * AT_Q + c) - lse);
            vf g = w * (vload(ds + j * AT_Q + c) - delta);
            if (masked) {
                vi seen = sees(lo, hi, t->j0 + (int32_t)j);
                w = vselect(seen, w, vset(-0.0f));
                g = vselect(seen, g + vset(0.0f), vset(-0.0f)); /* the sum turns a visible -0 into 0 */
            }
            vstore(p + j * AT_Q + c, w);
            vstore(ds + j * AT_Q + c, g);
        }
    }
}

/* c += a b; `in_a`: the weights, with what is masked, are a and not b. */
static void add_product(const tile_product *t, bool plain, bool in_a)
{
    if (plain)
        tile_add(t);
    else
        tile_add_sparse(t, in_a);
}

/* One head over one tile of keys: dqt +=, dk +=, dv +=. */
static void bwd_step(const bwd_job *job, const bwd_place *at, bwd_scratch *w, bwd_head *s, const key_tile *t,
                     const lanes *x)
{
    const uint32_t D = job->a.D, ld = job->ld, c0 = t->c0, N = t->c1 - c0;
    const uint32_t queries = (t->c1 < x->n ? t->c1 : x->n) - c0;
    const uint64_t row = (uint64_t)t->j0 - at->key0;
    float *p = w->p + c0, *ds = w->ds + c0;
    const tile_product qk = { p, AT_Q, { t->k, ld, 1 }, { s->qt + c0, AT_Q }, t->n, N, D, NULL };
    const tile_product dov = { ds, AT_Q, { t->v, ld, 1 }, { s->dot + c0, AT_Q }, t->n, N, D, NULL };
    tile_set(&qk);
    tile_set(&dov);
    if (t->masked)
        softmax_bwd_tile(w->p, w->ds, s, t, x, true);
    else
        softmax_bwd_tile(w->p, w->ds, s, t, x, false);
    const float *d_o = s->d_o + (uint64_t)c0 * ld, *q = s->q + (uint64_t)c0 * ld;
    const tile_product dv = { at->dv + row * ld, ld, { p, AT_Q, 1 }, { d_o, ld }, t->n, ld, queries, NULL };
    const tile_product dk = { at->dk + row * ld, ld, { ds, AT_Q, 1 }, { q, ld }, t->n, ld, queries, NULL };
    const tile_product dq = { s->dqt + c0, AT_Q, { t->k, 1, ld }, { ds, AT_Q }, D, N, t->n, NULL };
    add_product(&dv, !t->masked || s->do_finite, true);
    add_product(&dk, !t->masked || s->q_finite, true);
    add_product(&dq, !t->masked || t->k_finite, false);
}

/* A block of queries of some heads over all keys that it sees. */
static void run_block(const bwd_job *job, const bwd_place *at, bwd_scratch *w, const lanes *x)
{
    const rt_attn_args *a = &job->a;
    const rt_operand *k = &job->op->slot[RT_ATTNB_K], *v = &job->op->slot[RT_ATTNB_V];
    load_block(job, at, w, x);
    key_tile t = { .k = w->k, .v = w->v, .ld = job->ld };
    for (t.j0 = x->first; t.j0 <= x->last; t.j0 += (int32_t)t.n) {
        const uint64_t row = at->row0 + (uint64_t)t.j0;
        tile_cut(&t, x, x->last + 1);
        if (t.c1 == 0) continue;
        t.k_finite = pack_rows(t.k, t.ld, k, row * k->stride + (uint64_t)at->kv * a->D, t.n, a->D, 1.0f);
        t.v_finite = pack_rows(t.v, t.ld, v, row * v->stride + (uint64_t)at->kv * a->D, t.n, a->D, 1.0f);
        for (uint32_t h = 0; h < at->heads; h++) bwd_step(job, at, w, &w->head[h], &t, x);
    }
    store_dq(job, at, w, x);
}

static void piece_lanes(const bwd_job *job, uint64_t row0, uint32_t i0, lanes *x)
{
    const rt_operand *st = &job->op->slot[RT_ATTNB_START];
    const int32_t *start = rt_host_ptr(st);
    const uint32_t left = job->a.T - i0;
    lanes_positions(x, i0, left < AT_Q ? left : AT_Q, start ? start + (row0 + i0) * st->stride : NULL, st->stride,
                    job->a.window);
}

static void run_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const bwd_job *job = ctx;
    const rt_attn_args *a = &job->a;
    const uint32_t local = chunk / job->pieces, unit = job->unit0 + local, group = a->H / a->K;
    const piece *p = &job->piece[chunk % job->pieces];
    const uint64_t sums = (local * job->rows + p->row) * job->ld;
    bwd_place at = { .row0 = (uint64_t)(unit / a->K) * a->T, .kv = unit % a->K, .key0 = p->key0 };
    at.dk = job->dk + sums;
    at.dv = job->dv + sums;
    bwd_scratch w = scratch_take(job->scratch + worker * job->worker_floats, a->D, job->parts.heads);
    lanes x;
    const uint32_t end = p->key0 + p->keys;
    uint32_t first = end;
    for (uint32_t i = p->block0; i < p->block1; i++) {
        piece_lanes(job, at.row0, i * AT_Q, &x);
        if (x.first <= x.last && (uint32_t)x.first < first) first = (uint32_t)x.first;
    }
    job->seen[chunk] = (int32_t)first;
    memset(at.dk + (uint64_t)(first - p->key0) * job->ld, 0, sizeof(float) * (end - first) * job->ld);
    memset(at.dv + (uint64_t)(first - p->key0) * job->ld, 0, sizeof(float) * (end - first) * job->ld);
    for (uint32_t i = p->block0; i < p->block1; i++) {
        at.i0 = i * AT_Q;
        piece_lanes(job, at.row0, at.i0, &x);
        for (uint32_t h = 0; h < group; h += job->parts.heads) {
            at.head0 = at.kv * group + h;
            at.heads = group - h < job->parts.heads ? group - h : job->parts.heads;
            run_block(job, &at, &w, &x);
        }
    }
}

/* ---- the sum over pieces ---- */

static void merge_row(const bwd_job *job, const float *part, const int32_t *seen, uint32_t local, uint32_t j,
                      float *sum /* (ld) */)
{
    for (uint32_t c = 0; c < job->ld; c += VL) {
        vf s = vset(0.0f);
        for (uint32_t n = 0; n < job->pieces; n++) {
            const piece *p = &job->piece[n];
            if (j < (uint32_t)seen[n] || j >= p->key0 + p->keys) continue;
            s += vload(part + (local * job->rows + p->row + j - p->key0) * job->ld + c);
        }
        vstore(sum + c, s);
    }
}

static void merge_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const bwd_job *job = ctx;
    const rt_attn_args *a = &job->a;
    const rt_operand *dk = &job->op->slot[RT_ATTNB_DK], *dv = &job->op->slot[RT_ATTNB_DV];
    const uint32_t blocks = (a->T + ROWS_MERGED - 1) / ROWS_MERGED, local = chunk / blocks, unit = job->unit0 + local;
    const uint32_t j0 = chunk % blocks * ROWS_MERGED, j1 = a->T - j0 < ROWS_MERGED ? a->T : j0 + ROWS_MERGED;
    const int32_t *seen = job->seen + (uint64_t)local * job->pieces;
    float *sum = job->scratch + worker * job->worker_floats;
    for (uint32_t j = j0; j < j1; j++) {
        const uint64_t row = (uint64_t)(unit / a->K) * a->T + j, col = (uint64_t)(unit % a->K) * a->D;
        merge_row(job, job->dk, seen, local, j, sum);
        unpack_rows(dk, row * dk->stride + col, 1, a->D, sum, job->ld, AT_LN2);
        merge_row(job, job->dv, seen, local, j, sum);
        unpack_rows(dv, row * dv->stride + col, 1, a->D, sum, job->ld, 1.0f);
    }
}

void RT_CPU(attn_bwd)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    bwd_job job = { .op = o, .a = o->args.attn };
    job_layout(&job, c->threads, rt_host_ptr(&o->work));
    const uint32_t all = job.a.B * job.a.K, wave = job.units, blocks = (job.a.T + ROWS_MERGED - 1) / ROWS_MERGED;
    for (; job.unit0 < all; job.unit0 += wave) {
        job.units = all - job.unit0 < wave ? all - job.unit0 : wave;
        rt_pool_run(c->pool, job.units * job.pieces, run_chunk, &job);
        rt_pool_run(c->pool, job.units * blocks, merge_chunk, &job);
    }
}

uint64_t RT_CPU(work_attn_bwd)(const rt_cpu_work *w)
{
    bwd_job job = { .a = w->args->attn };
    return job_layout(&job, w->threads, NULL);
}
