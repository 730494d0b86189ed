/* cpu_kd_row.h - what kd_loss knows while it runs: the job, a position, where its scratch lies.
 *
 * Owns: the layout of the scratch and the way from a block of a row to its exponentials. What is done with them is in
 * cpu_kd.c, the loops over one block in cpu_kd_block.h. */
#ifndef RT_BACKEND_CPU_CPU_KD_ROW_H
#define RT_BACKEND_CPU_CPU_KD_ROW_H

#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_kd_block.h"

/* Of one position; joined in order of position when all are done. */
typedef struct kd_result {
    double ce, div;
    uint32_t top1, trained, bad;
} kd_result;

/* Offsets into the scratch of one thread. */
typedef struct kd_layout {
    uint64_t e1, es, et; /* (V) f32 rounded up to blocks; e1 one block when the logits themselves are used */
    uint64_t m, f;       /* (3,blocks) f32: references of 1, s, t; factors from them to the row's */
    uint64_t z;          /* (4,blocks) f64: z1, zs, zt, d */
    uint64_t share;      /* (blocks) u8 */
    uint64_t bits;       /* (V/32) u32: Vc without the listed ids; top-k only, as all that follows */
    uint64_t pick;       /* (k) u32: entries of the list that count */
    uint64_t logit;      /* (k) f32: their student logits */
    uint64_t q, g;       /* (k) f64: student's probability, q dD/dq */
    uint64_t bytes;
} kd_layout;

typedef struct kd_job {
    const rt_bound_op *o;
    const rt_kd_args *a;
    kd_form form;
    uint32_t kind; /* divergence, after JSD and skewed forms at mix 0 or 1 became the KL that they are */
    uint32_t blocks;
    bool in_place;               /* the student's exponentials live in the logits */
    float c1, ct;                /* log2(e), log2(e)/T */
    double ce_weight, kd_weight; /* in the loss of a position */
    double ce_slope, kd_slope;   /* in its gradient: over tokens, the latter over T */
    uint32_t tokens;
    kd_result *result; /* (N) */
    uint32_t *vc;      /* (V/32 rounded up to blocks) bitmap of Vc; null: all columns */
    uint8_t *scratch;  /* of thread 0 */
    kd_layout at;
} kd_job;

/* A position while it is worked on. Index 0: student at T 1, all columns; 1: student over Vc, in top-k form without the
 * listed ids; 2: teacher over Vc. */
typedef struct kd_row {
    const kd_job *j;
    uint8_t *s, *t; /* row of logits, of teacher logits */
    uint32_t target;
    double s_target;
    float *e1, *es, *et, *m[3], *f[3];
    double *z[4];
    uint8_t *share;                /* es of the block is e1 */
    double ref[3], lse[3], inv[3]; /* reference, log of the sum relative to it, 1 / sum */
    bool any;                      /* 1 is over at least one column */
    uint32_t best_s, best_t;       /* most likely ids of Vc; UINT32_MAX: none */
    double ce, div, total;         /* total: sum of q dD/dq */
    bool bad;
    /* top-k form */
    const int32_t *id; /* (k) */
    const float *logp; /* (k) */
    uint32_t *bits, *pick, picked;
    float *logit;
    double *q, *g;
    double rest_slope; /* gradient of the remaining ids together; each has its share of it */
} kd_row;

/* ---- scratch ---- */
static uint64_t take(uint64_t *at, uint64_t bytes)
{
    uint64_t here = *at;
    *at = rt_align_up(here + bytes, 64);
    return here;
}
static uint32_t blocks_of(uint32_t V) { return (uint32_t)(((uint64_t)V + ROW_BLOCK - 1) / ROW_BLOCK); }
static bool needs_bitmap(const rt_kd_args *a, bool vmask) { return vmask || a->k || (a->U && a->U < a->V); }

static kd_layout layout(const rt_kd_args *a, bool f32, bool vmask)
{
    uint64_t nb = blocks_of(a->V), wide = nb * ROW_BLOCK * sizeof(float), pad = rt_align_up(nb, VL);
    bool apart = (a->U || a->k) && (a->T != 1 || needs_bitmap(a, vmask));
    kd_layout l = { 0 };
    l.e1 = take(&l.bytes, f32 && a->grad ? ROW_BLOCK * sizeof(float) : wide);
    l.es = take(&l.bytes, apart ? wide : 0);
    l.et = take(&l.bytes, a->U ? wide : 0);
    l.m = take(&l.bytes, 3 * pad * sizeof(float));
    l.f = take(&l.bytes, 3 * pad * sizeof(float));
    l.z = take(&l.bytes, 4 * nb * sizeof(double));
    l.share = take(&l.bytes, nb);
    l.bits = take(&l.bytes, a->k ? nb * (ROW_BLOCK / 8) : 0);
    l.pick = take(&l.bytes, a->k * sizeof(uint32_t));
    l.logit = take(&l.bytes, a->k * sizeof(float));
    l.q = take(&l.bytes, a->k * sizeof(double));
    l.g = take(&l.bytes, a->k * sizeof(double));
    return l;
}

/* ---- blocks ---- */
static uint32_t columns(const kd_job *j, uint32_t b)
{
    uint32_t left = j->a->V - b * ROW_BLOCK;
    return left < ROW_BLOCK ? left : ROW_BLOCK;
}
static float *e1_of(const kd_row *r, uint32_t b)
{
    if (!r->j->in_place) return r->e1 + (uint64_t)b * ROW_BLOCK;
    return columns(r->j, b) == ROW_BLOCK ? (float *)(void *)r->s + (uint64_t)b * ROW_BLOCK : r->e1;
}
static float *es_of(const kd_row *r, uint32_t b) { return r->share[b] ? NULL : r->es + (uint64_t)b * ROW_BLOCK; }
static float *et_of(const kd_row *r, uint32_t b) { return r->et + (uint64_t)b * ROW_BLOCK; }

/* ---- rows ---- */
static void open_row(kd_row *r, const kd_job *j, uint32_t i, uint32_t worker)
{
    const rt_operand *slot = j->o->slot, *s = &slot[RT_KD_LOGITS], *t = &slot[RT_KD_TEACHER];
    const kd_layout *at = &j->at;
    uint8_t *w = j->scratch + worker * at->bytes;
    uint64_t pad = rt_align_up(j->blocks, VL);
    *r = (kd_row){ .j = j };
    r->s = (uint8_t *)rt_host_ptr(s) + i * s->stride * rt_dtype_table[s->dtype].block_bytes;
    if (j->a->U) r->t = (uint8_t *)rt_host_ptr(t) + i * t->stride * rt_dtype_table[t->dtype].block_bytes;
    r->e1 = (float *)(w + at->e1);
    r->es = (float *)(w + at->es);
    r->et = (float *)(w + at->et);
    for (uint32_t x = 0; x < 3; x++) r->m[x] = (float *)(w + at->m) + x * pad;
    for (uint32_t x = 0; x < 3; x++) r->f[x] = (float *)(w + at->f) + x * pad;
    for (uint32_t x = 0; x < 4; x++) r->z[x] = (double *)(w + at->z) + (uint64_t)x * j->blocks;
    r->share = w + at->share;
    if (j->a->k) {
        r->id = (const int32_t *)rt_host_ptr(&slot[RT_KD_TK_ID]) + i * slot[RT_KD_TK_ID].stride;
        r->logp = (const float *)rt_host_ptr(&slot[RT_KD_TK_LOGP]) + i * slot[RT_KD_TK_LOGP].stride;
        r->bits = (uint32_t *)(w + at->bits);
        r->pick = (uint32_t *)(w + at->pick);
        r->logit = (float *)(w + at->logit);
        r->q = (double *)(w + at->q);
        r->g = (double *)(w + at->g);
    }
}

#endif
