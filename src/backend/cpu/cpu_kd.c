/* cpu_kd.c - the distillation loss and its gradient in place of the student's logits.
 *
 * A chunk is one position, so nothing depends on the number of threads. A row is read once from memory: the first walk
 * over its blocks (cpu_kd_block.h) leaves exponentials and sums, the row's normalisers and D follow from the blocks'
 * sums in double, the last walk turns the exponentials into the gradient, newest block first because that one is still
 * in the near cache. The divergences that need p and q normalised (JSD, skewed, total variation) take one more walk
 * between the two. The exponentials of the student live in the logits themselves where these are f32, else in scratch.
 *
 * The few columns with a part of their own, the target and a top-k teacher's ids, are computed apart in double and
 * stored last. A top-k teacher's ids are taken out of the bitmap of Vc, so that the sums are those of the remaining
 * ids: the mass left over is added up, not subtracted. */
#include "backend/cpu/cpu_kd_row.h"

uint64_t RT_CPU(work_kd_loss)(const rt_cpu_work *w)
{
    const rt_kd_args *a = &w->args->kd;
    uint64_t bytes = 0;
    take(&bytes, a->N * sizeof(kd_result));
    take(&bytes, (uint64_t)blocks_of(a->V) * (ROW_BLOCK / 8));
    return bytes + w->threads * layout(a, w->dtype[RT_KD_LOGITS] == RT_DTYPE_F32, w->present[RT_KD_VMASK]).bytes;
}

/* ---- the first walk ---- */
static void exp_block(kd_block *k, kd_form form, bool share, bool careful)
{
#define CASE(f)                                                                                                        \
    case f:                                                                                                            \
        if (share && careful) exp_loop(k, f, true, true);                                                              \
        if (share && !careful) exp_loop(k, f, true, false);                                                            \
        if (!share && careful) exp_loop(k, f, false, true);                                                            \
        if (!share && !careful) exp_loop(k, f, false, false);                                                          \
        break;
    switch (form) {
        CASE(KD_STUDENT)
        CASE(KD_FORWARD)
        CASE(KD_REVERSE)
        CASE(KD_PAIR)
    }
#undef CASE
}

/* Points k at a block: its values as f32, its part of Vc. true when all of the block is in Vc. */
static bool open_block(const kd_row *r, uint32_t b, kd_block *k, float *copy /* (2,ROW_BLOCK) */)
{
    const kd_job *j = r->j;
    const rt_dtype ds = j->o->slot[RT_KD_LOGITS].dtype, dt = j->o->slot[RT_KD_TEACHER].dtype;
    const uint64_t from = (uint64_t)b * ROW_BLOCK;
    const uint32_t *bits = j->a->k ? r->bits : j->vc;
    bool whole = true;
    k->n = columns(j, b);
    k->bits = bits ? bits + from / 32 : all_ones;
    for (uint32_t i = 0; bits && i < k->n; i += 32) {
        uint32_t want = k->n - i < 32 ? (1u << (k->n - i)) - 1 : UINT32_MAX;
        whole = whole && (k->bits[i / 32] & want) == want;
    }
    k->s = as_f32(r->s, ds, from, k->n, copy);
    k->next_s = r->s + (from + k->n) * rt_dtype_table[ds].block_bytes;
    if (j->form != KD_STUDENT) {
        uint32_t n = from >= j->a->U ? 0 : j->a->U - from < k->n ? (uint32_t)(j->a->U - from) : k->n;
        k->t = as_f32(r->t, dt, from, n, copy + ROW_BLOCK);
        k->next_t = r->t + (from + n) * rt_dtype_table[dt].block_bytes;
    }
    return whole;
}

/* The most likely id so far, from a block with maximum m; best: the largest value of earlier blocks. */
static void note_best(uint32_t *id, float *best, float m, const float *x, const kd_block *k, uint32_t b)
{
    if (!(m > *best)) return;
    uint32_t at = first_equal(x, k->bits, k->n, m);
    if (at < k->n) *id = b * ROW_BLOCK + at;
    *best = m;
}

/* The first walk. false when a value was not finite. */
static bool read_row(kd_row *r)
{
    const kd_job *j = r->j;
    const bool teacher = j->form != KD_STUDENT, alone = !j->a->U && !j->a->k;
    _Alignas(64) float copy[2 * ROW_BLOCK];
    float best_s = -INFINITY, best_t = -INFINITY;
    bool finite = true;
    r->best_s = r->best_t = UINT32_MAX;
    for (uint32_t b = 0; b < j->blocks; b++) {
        kd_block k = { .c1 = j->c1, .ct = j->ct };
        bool whole = open_block(r, b, &k, copy);
        bool fast = whole && k.n == ROW_BLOCK && (teacher ? scan_fast(&k, true) : scan_fast(&k, false));
        if (!fast) finite = (teacher ? scan_careful(&k, true) : scan_careful(&k, false)) && finite;
        note_best(&r->best_s, &best_s, k.ms, k.s, &k, b);
        if (teacher) note_best(&r->best_t, &best_t, k.mt, k.t, &k, b);
        r->share[b] = alone || (whole && j->a->T == 1);
        k.e1 = e1_of(r, b);
        k.es = es_of(r, b);
        k.et = teacher ? et_of(r, b) : NULL;
        exp_block(&k, j->form, r->share[b], !fast);
        r->m[0][b] = k.m1;
        r->m[1][b] = k.ms;
        r->m[2][b] = k.mt;
        r->z[0][b] = k.z1;
        r->z[1][b] = k.zs;
        r->z[2][b] = k.zt;
        r->z[3][b] = k.d;
    }
    return finite;
}

/* ---- joining the blocks ---- */
/* The row's reference, the factors of the blocks to it, the sum. false when no block has a column. */
static bool join(kd_row *r, uint32_t w, float c)
{
    const uint32_t nb = r->j->blocks;
    float top = -INFINITY;
    for (uint32_t b = 0; b < nb; b++) top = r->m[w][b] > top ? r->m[w][b] : top;
    r->ref[w] = top;
    if (top == -INFINITY) {
        memset(r->f[w], 0, nb * sizeof(float));
        r->lse[w] = r->inv[w] = 0;
        return false;
    }
    for (uint32_t b = 0; b < nb; b += VL)
        vstore(r->f[w] + b, exp2_careful(vload(r->m[w] + b) - vset(top), c, lanes_below(nb, b)));
    double sum = 0;
    for (uint32_t b = 0; b < nb; b++) sum += r->z[w][b] * r->f[w][b];
    r->lse[w] = log(sum);
    r->inv[w] = 1 / sum;
    return true;
}

/* How much x_s - x_t grows when the references of a block become those of the row. */
static double shift_of(const kd_row *r, uint32_t b) { return (r->m[1][b] - r->ref[1]) - (r->m[2][b] - r->ref[2]); }

/* D of forward and reverse KL from the blocks' sums of p (x_t - x_s), or q (x_s - x_t). */
static void kl_of_blocks(kd_row *r)
{
    const bool forward = r->j->form == KD_FORWARD;
    const uint32_t over = forward ? 2 : 1; /* p or q */
    double sum = 0, logs = r->lse[1] - r->lse[2];
    for (uint32_t b = 0; b < r->j->blocks; b++) {
        double f = r->f[over][b];
        if (f == 0) continue; /* too small to count, or no column of Vc: then there is no shift */
        sum += f * (r->z[3][b] + r->z[over][b] * (forward ? -shift_of(r, b) : shift_of(r, b)));
    }
    r->div = sum * r->inv[over] / r->j->a->T + (forward ? logs : -logs);
    r->total = forward ? -1 : r->div;
}

/* The walk between: D, and dD/dq in et, of the other divergences. */
static void pair_walk(kd_row *r)
{
    const kd_job *j = r->j;
    for (uint32_t b = j->blocks; b-- > 0;) {
        const float *es = r->share[b] ? e1_of(r, b) : es_of(r, b);
        float *et = et_of(r, b), mix = j->a->mix;
        float q = (float)(r->f[1][b] * r->inv[1]), p = (float)(r->f[2][b] * r->inv[2]);
        uint32_t n = columns(j, b);
        switch (j->kind) { /* a loop for each but the KLs, which do not come here */
#define X(name, word, label, title, m)                                                                                 \
    case RT_DIV_##name:                                                                                                \
        if (RT_DIV_##name > RT_DIV_REVERSE_KL) pair_loop(es, et, n, q, p, RT_DIV_##name, mix, &r->div, &r->total);     \
        break;
            RT_DIVERGENCE_LIST(X)
#undef X
        }
    }
    if (isnan(r->lse[1]) || isnan(r->lse[2])) r->div = r->total = NAN; /* the loops may lose one */
}

/* ---- a top-k teacher ---- */
/* Takes the listed ids out of Vc and keeps their logits. An id outside Vc or listed twice is a fault and left out. */
static void list_open(kd_row *r)
{
    const kd_job *j = r->j;
    const rt_dtype d = j->o->slot[RT_KD_LOGITS].dtype;
    memcpy(r->bits, j->vc, (uint64_t)j->blocks * (ROW_BLOCK / 8));
    r->picked = 0;
    for (uint32_t i = 0; i < j->a->k; i++) {
        if (r->id[i] < 0) continue;
        uint32_t v = (uint32_t)r->id[i];
        bool known = v < j->a->V && (r->bits[v / 32] >> v % 32 & 1);
        if (!known || !isfinite(r->logp[i])) r->bad = true;
        if (!known) continue;
        r->bits[v / 32] &= ~(1u << v % 32);
        r->pick[r->picked] = i;
        r->logit[r->picked++] = load_t(r->s, v, d);
    }
}

/* D over the listed ids and the rest; the slopes of both. */
static void list_terms(kd_row *r, double p_rest)
{
    const kd_job *j = r->j;
    const double T = j->a->T, mix = j->a->mix;
    double ref = r->ref[1], sum = 0, g_rest = 0, q_rest = 0;
    if (!isfinite(p_rest)) r->bad = true;
    for (uint32_t i = 0; i < r->picked; i++) ref = r->logit[i] > ref ? r->logit[i] : ref;
    double lq_rest = r->any ? (r->ref[1] - ref) / T + r->lse[1] : -INFINITY;
    sum = exp(lq_rest);
    for (uint32_t i = 0; i < r->picked; i++) sum += exp((r->logit[i] - ref) / T);
    double lse = log(sum);
    for (uint32_t i = 0; i < r->picked; i++) {
        double lq = (r->logit[i] - ref) / T - lse;
        r->div += kd_term(j->kind, mix, r->logp[r->pick[i]], lq, &r->g[i]);
        r->total += r->g[i];
        r->q[i] = exp(lq);
    }
    if (r->any) { /* with no id left a mass is only rounding */
        q_rest = exp(lq_rest - lse);
        r->div += kd_term(j->kind, mix, p_rest <= 0 ? -INFINITY : log(p_rest), lq_rest - lse, &g_rest);
        r->total += g_rest;
    }
    r->rest_slope = g_rest - q_rest * r->total;
}

/* The student's and the list's most likely ids. */
static void list_best(kd_row *r)
{
    double best = r->ref[1];
    for (uint32_t i = 0; i < r->picked; i++) {
        uint32_t v = (uint32_t)r->id[r->pick[i]];
        if (r->logit[i] < best || (r->logit[i] == best && v > r->best_s)) continue;
        best = r->logit[i];
        r->best_s = v;
    }
    for (uint32_t i = 0; i < r->j->a->k; i++) {
        if (r->id[i] < 0) continue;
        uint32_t v = (uint32_t)r->id[i];
        if (r->best_t != UINT32_MAX && (r->logp[i] < best || (r->logp[i] == best && v > r->best_t))) continue;
        best = r->logp[i];
        r->best_t = v;
    }
}

/* ---- the gradient ---- */
static void write_block(const kd_row *r, uint32_t b, float *copy /* (ROW_BLOCK) */)
{
    const kd_job *j = r->j;
    const rt_dtype d = j->o->slot[RT_KD_LOGITS].dtype;
    const uint32_t n = columns(j, b);
    const double a1 = j->ce_slope * r->f[0][b] * r->inv[0];
    const double as = j->kd_slope * r->f[1][b] * r->inv[1];
    const double at = j->a->U ? -j->kd_slope * r->f[2][b] * r->inv[2] : 0;
    const float *e1 = e1_of(r, b), *es = es_of(r, b), *et = et_of(r, b);
    float *g = d == RT_DTYPE_F32 && n == ROW_BLOCK ? (float *)(void *)r->s + (uint64_t)b * ROW_BLOCK : copy;
    if (!isfinite(as + at) || !isfinite(r->total)) { /* what D says is lost; ids outside Vc still have what CE says */
        const uint32_t *bits = j->vc ? j->vc + (uint64_t)b * (ROW_BLOCK / 32) : all_ones;
        grad_linear(g, e1, NULL, NULL, n, (float)a1, 0, 0);
        for (uint32_t i = 0; i < n; i++)
            if (bits[i / 32] >> i % 32 & 1) g[i] = NAN;
    } else if (j->form == KD_STUDENT) {
        double rest = as * r->rest_slope;
        if (es)
            grad_linear(g, e1, es, NULL, n, (float)a1, (float)rest, 0);
        else
            grad_linear(g, e1, NULL, NULL, n, (float)(a1 + rest), 0, 0);
    } else if (j->form == KD_FORWARD) {
        if (es)
            grad_linear(g, e1, es, et, n, (float)a1, (float)as, (float)at);
        else
            grad_linear(g, e1, NULL, et, n, (float)(a1 + as), 0, (float)at);
    } else {
        double x1 = as, x0 = -as * r->total;
        if (j->form == KD_REVERSE && as != 0) {
            x1 = as / j->a->T;
            x0 = as * (shift_of(r, b) / j->a->T - (r->lse[1] - r->lse[2]) - r->total);
        }
        if (es)
            grad_product(g, e1, es, et, n, (float)a1, (float)x1, (float)x0);
        else
            grad_product(g, e1, NULL, et, n, (float)a1, (float)x1, (float)x0);
    }
    if (g == copy) RT_FOR_FLOAT(d, D, narrow_loop(r->s, (uint64_t)b * ROW_BLOCK, copy, n, D));
}

/* Column v with student logit s: what CE and D together make of it. kd: its slope from D. */
static void write_column(const kd_row *r, uint32_t v, double s, double kd)
{
    const kd_job *j = r->j;
    double ce = v == r->target ? expm1(-r->ce) : exp(s - r->ref[0] - r->lse[0]);
    store_t(r->s, v, (float)(j->ce_slope * ce + j->kd_slope * kd), j->o->slot[RT_KD_LOGITS].dtype);
}

/* The slope from D at the target, when it is not a listed id. */
static double target_slope(const kd_row *r)
{
    const kd_job *j = r->j;
    const uint32_t v = r->target, *bits = j->a->k ? r->bits : j->vc;
    if ((!j->a->U && !j->a->k) || (bits && !(bits[v / 32] >> v % 32 & 1))) return 0;
    double lq = (r->s_target - r->ref[1]) / j->a->T - r->lse[1], g;
    if (j->a->k) return exp(lq) * r->rest_slope;
    double lp = (load_t(r->t, v, j->o->slot[RT_KD_TEACHER].dtype) - r->ref[2]) / j->a->T - r->lse[2];
    kd_term(j->kind, j->a->mix, lp, lq, &g);
    return g - exp(lq) * r->total;
}

static void write_row(const kd_row *r)
{
    const kd_job *j = r->j;
    _Alignas(64) float copy[ROW_BLOCK];
    bool listed = false;
    if (j->form == KD_PAIR) /* the walk between went down */
        for (uint32_t b = 0; b < j->blocks; b++) write_block(r, b, copy);
    else
        for (uint32_t b = j->blocks; b-- > 0;) write_block(r, b, copy);
    for (uint32_t i = 0; i < r->picked; i++) {
        uint32_t v = (uint32_t)r->id[r->pick[i]];
        listed = listed || v == r->target;
        write_column(r, v, r->logit[i], r->g[i] - r->q[i] * r->total);
    }
    if (r->target < j->a->V && !listed) write_column(r, r->target, r->s_target, target_slope(r));
}

/* ---- positions ---- */
static void kd_row_run(kd_row *r, uint32_t i)
{
    const kd_job *j = r->j;
    const rt_operand *slot = j->o->slot;
    r->s_target = r->target >= j->a->V ? NAN : load_t(r->s, r->target, slot[RT_KD_LOGITS].dtype);
    if (j->a->k) list_open(r);
    bool finite = read_row(r);
    join(r, 0, j->c1);
    r->ce = r->lse[0] - (r->s_target - r->ref[0]);
    r->any = join(r, 1, j->ct);
    bool both = j->a->U && join(r, 2, j->ct) && r->any;
    if (both && j->form == KD_PAIR) pair_walk(r);
    if (both && j->form != KD_PAIR) kl_of_blocks(r);
    if (j->a->k) {
        list_terms(r, ((const float *)rt_host_ptr(&slot[RT_KD_TK_REST]))[i * slot[RT_KD_TK_REST].stride]);
        list_best(r);
    }
    if (!finite && ((j->a->U && !both) || (j->a->k && !r->any)))
        r->div = r->total = NAN; /* maxima may pass over a NaN */
    if (!finite || !isfinite((float)((j->ce_weight * r->ce + j->kd_weight * r->div) / j->tokens))) r->bad = true;
    if (j->a->grad) write_row(r);
}

static void kd_chunk(void *ctx, uint32_t i, uint32_t worker)
{
    const kd_job *j = ctx;
    const rt_operand *target = &j->o->slot[RT_KD_TARGET], *s = &j->o->slot[RT_KD_LOGITS];
    int32_t id = ((const int32_t *)rt_host_ptr(target))[i * target->stride];
    kd_row r;
    open_row(&r, j, i, worker);
    if (id >= 0) {
        r.target = (uint32_t)id;
        kd_row_run(&r, i);
    } else if (j->a->grad) {
        memset(r.s, 0, (uint64_t)j->a->V * rt_dtype_table[s->dtype].block_bytes);
    }
    bool top1 = id >= 0 && r.best_t != UINT32_MAX && r.best_s == r.best_t;
    j->result[i] = (kd_result){ r.ce, r.div, top1, id >= 0, r.bad };
}

/* ---- the op ---- */
/* Which loops a divergence takes; a JSD or skewed form that is a KL becomes that one. */
static void choose(kd_job *j)
{
    const rt_kd_args *a = j->a;
    j->kind = a->divergence;
    if (a->mix == 0 && (j->kind == RT_DIV_JSD || j->kind == RT_DIV_SKEW_FKL)) j->kind = RT_DIV_FORWARD_KL;
    if ((a->mix == 0 && j->kind == RT_DIV_SKEW_RKL) || (a->mix == 1 && j->kind == RT_DIV_JSD))
        j->kind = RT_DIV_REVERSE_KL;
    j->form = !a->U                          ? KD_STUDENT
              : j->kind == RT_DIV_FORWARD_KL ? KD_FORWARD
              : j->kind == RT_DIV_REVERSE_KL ? KD_REVERSE
                                             : KD_PAIR;
}

/* Vc: the columns that both have and whose bit is set. */
static void fill_vc(uint32_t *vc, const rt_kd_args *a, const uint32_t *vmask, uint32_t blocks)
{
    uint32_t end = a->U && a->U < a->V ? a->U : a->V;
    for (uint32_t w = 0; w < blocks * (ROW_BLOCK / 32); w++) {
        uint32_t left = w >= end / 32 ? w > end / 32 ? 0 : end % 32 : 32;
        uint32_t have = left == 32 ? UINT32_MAX : (1u << left) - 1;
        vc[w] = have && vmask ? vmask[w] & have : have;
    }
}

/* Sums in order of position, in double, rounded once; the lowest bad position. */
static void finish(const kd_job *j, uint32_t step)
{
    const rt_operand *slot = j->o->slot;
    const rt_operand *ce = &slot[RT_KD_CE], *div = &slot[RT_KD_DIV], *top1 = &slot[RT_KD_TOP1];
    float *sums = rt_host_ptr(&slot[RT_KD_SUMS]); /* (1,4) += */
    double total[4] = { 0 };
    rt_fault *fault = rt_host_ptr(&slot[RT_KD_FAULT]);
    for (uint32_t i = 0; i < j->a->N; i++) {
        const kd_result *x = &j->result[i];
        total[0] += x->ce;
        total[1] += x->div;
        total[2] += x->top1;
        total[3] += x->trained;
        if (ce->mem) ((float *)rt_host_ptr(ce))[i * ce->stride] = (float)x->ce;
        if (div->mem) ((float *)rt_host_ptr(div))[i * div->stride] = (float)x->div;
        if (top1->mem) ((float *)rt_host_ptr(top1))[i * top1->stride] = (float)x->top1;
        if (x->bad && !fault->set) *fault = (rt_fault){ 1, step, j->a->site, i };
    }
    bool add = j->o->acc >> RT_KD_SUMS & 1;
    for (uint32_t x = 0; x < 4; x++) sums[x] = (float)((add ? sums[x] : 0.0) + total[x]);
}

void RT_CPU(kd_loss)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_kd_args *a = &o->args.kd;
    const bool f32 = o->slot[RT_KD_LOGITS].dtype == RT_DTYPE_F32, vmask = o->slot[RT_KD_VMASK].mem != NULL;
    rt_step step;
    memcpy(&step, rt_host_ptr(&o->slot[RT_KD_STEP]), sizeof step);
    kd_job j = { .o = o, .a = a, .blocks = blocks_of(a->V), .in_place = f32 && a->grad, .tokens = step.tokens };
    choose(&j);
    j.c1 = 0x1.715476p+0f;
    j.ct = (float)(1.44269504088896340736 / a->T);
    j.ce_weight = a->ce_weight;
    j.kd_weight = a->kd_weight * (a->t2 ? (double)a->T * a->T : 1.0);
    j.ce_slope = j.ce_weight / step.tokens;
    j.kd_slope = j.kd_weight / a->T / step.tokens;
    j.at = layout(a, f32, vmask);
    uint8_t *work = rt_host_ptr(&o->work);
    uint64_t at = 0;
    j.result = (kd_result *)(work + take(&at, a->N * sizeof(kd_result)));
    uint32_t *vc = (uint32_t *)(work + take(&at, (uint64_t)j.blocks * (ROW_BLOCK / 8)));
    j.scratch = work + at;
    if (needs_bitmap(a, vmask)) {
        fill_vc(vc, a, rt_host_ptr(&o->slot[RT_KD_VMASK]), j.blocks);
        j.vc = vc;
    }
    rt_pool_run(c->pool, a->N, kd_chunk, &j);
    finish(&j, step.step);
}
