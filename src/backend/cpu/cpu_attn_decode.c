/* cpu_attn_decode.c - attention of the newest Q tokens of each sequence over its cache.
 *
 * Owns: the op attn_decode. The R = Q * H/K query rows of (sequence, kv head) share every row of the cache. The keys
 * that they see are cut into `splits` of about the same length; a chunk reads its share of keys and values once and
 * leaves maximum, sum and output of each query row as partial results, and a second job adds those up in the order of
 * splits. The number of splits depends on shapes alone and where they lie on the lengths too, so threads change nothing
 * in the result.
 *
 * Few query rows (one new token, mostly): memory is the limit, so a chunk takes all kv heads of a sequence and
 * reads whole rows of the cache; lanes run along D, since a block of lanes would be almost empty. Many (a prompt): a
 * chunk takes one kv head and a block of AT_Q query rows, with the arithmetic of the forward kernel. */
#include "backend/cpu/cpu_attn.h"

enum {
    NARROW_ROWS = 32, /* query rows of a kv head up to which lanes run along D */
    CHUNKS = 64,      /* there should at least be, where the cache is long enough */
    ROWS_MERGED = 16  /* query rows of a chunk of the second job */
};

typedef struct dec_job {
    const rt_bound_op *op;
    rt_decode_args a;
    uint32_t R, ld;
    bool narrow;
    uint32_t units, blocks, splits; /* sequences (narrow) or kv heads of all sequences; blocks of query rows of each */
    uint64_t rows;                  /* query rows: B*K*R, by sequence, kv head, head, new token */
    float *max, *sum;               /* (rows,splits) */
    float *out;                     /* (rows,splits,ld); undefined where sum is 0 */
    float *scratch;                 /* of all workers */
    uint64_t worker_floats;         /* of one */
} dec_job;

/* Where a chunk works: query rows r0 .. r0+x.n-1 of a kv head (narrow: of each), keys j0 .. j1-1. */
typedef struct dec_place {
    uint32_t seq, kv, r0, split;
    int32_t j0, j1;
    lanes x;
} dec_place;

/* ---- the shape of the work ---- */

static uint64_t narrow_floats(uint64_t R, uint64_t K, uint64_t ld)
{
    return piece_floats(AT_STEP * ld) + piece_floats(R * AT_K) + 2 * piece_floats(R * K * ld) + piece_floats(2 * R * K);
}

static uint64_t wide_floats(uint32_t D, uint64_t ld)
{
    return 2 * piece_floats(AT_K * ld) + piece_floats(AT_K * AT_Q) + piece_floats(AT_Q * ld) + piece_floats(AT_Q) +
           head_floats(D);
}

/* Fills what follows from the shapes and returns the bytes of scratch; places it when base is given. */
static uint64_t job_layout(dec_job *job, uint32_t threads, void *base)
{
    const rt_decode_args *a = &job->a;
    const uint64_t tiles = ((uint64_t)a->S + AT_K - 1) / AT_K;
    job->R = a->Q * (a->H / a->K);
    job->ld = padded(a->D);
    job->narrow = job->R <= NARROW_ROWS;
    job->units = job->narrow ? a->B : a->B * a->K;
    job->blocks = job->narrow ? 1 : (job->R + AT_Q - 1) / AT_Q;
    const uint64_t whole = (uint64_t)job->units * job->blocks, splits = (CHUNKS + whole - 1) / whole;
    job->splits = (uint32_t)(splits < tiles ? splits : tiles);
    job->rows = (uint64_t)a->B * a->K * job->R;
    job->worker_floats = job->narrow ? narrow_floats(job->R, a->K, job->ld) : wide_floats(a->D, job->ld);
    const uint64_t parts = job->rows * job->splits;
    if (base) {
        float *p = base;
        job->max = take(&p, parts);
        job->sum = take(&p, parts);
        job->out = take(&p, parts * job->ld);
        job->scratch = p;
    }
    return sizeof(float) * (2 * piece_floats(parts) + piece_floats(parts * job->ld) + threads * job->worker_floats);
}

/* Rows of the cache in use by sequence b; 0 when the operand says what cannot be. */
static uint32_t length(const dec_job *job, uint32_t b)
{
    const rt_operand *l = &job->op->slot[RT_DEC_LEN];
    int32_t n = ((const int32_t *)rt_host_ptr(l))[b * l->stride];
    return n < 0 || (uint32_t)n < job->a.Q || (uint32_t)n > job->a.S ? 0 : (uint32_t)n;
}

/* Element of q or o where query row r of a kv head begins. */
static uint64_t query_at(const dec_job *job, const rt_operand *y, uint32_t seq, uint32_t kv, uint32_t r)
{
    const rt_decode_args *a = &job->a;
    const uint64_t row = (uint64_t)seq * a->Q + r % a->Q;
    return row * y->stride + (uint64_t)(kv * (a->H / a->K) + r / a->Q) * a->D;
}

/* Where the partial results of query row r of a kv head are. */
static uint64_t part_at(const dec_job *job, const dec_place *at, uint32_t kv, uint32_t r)
{
    return (((uint64_t)at->seq * job->a.K + kv) * job->R + r) * job->splits + at->split;
}

/* The row of the cache where row j of a sequence lies. Tiles begin at multiples of AT_K, so none lies in two pages. */
static uint64_t cache_row(const dec_job *job, uint32_t seq, int32_t j)
{
    const uint32_t page = job->a.page;
    const rt_operand *t = &job->op->slot[RT_DEC_TABLE];
    if (!page) return (uint64_t)seq * job->a.S + (uint64_t)j;
    const int32_t at = ((const int32_t *)rt_host_ptr(t))[seq * t->stride + (uint32_t)j / page];
    return (uint64_t)at * page + (uint32_t)j % page;
}

/* The keys of a chunk. false: it has none. */
static bool place_chunk(const dec_job *job, uint32_t chunk, dec_place *at)
{
    const rt_decode_args *a = &job->a;
    const uint32_t unit = chunk / job->splits / job->blocks;
    at->split = chunk % job->splits;
    at->r0 = chunk / job->splits % job->blocks * AT_Q;
    at->seq = job->narrow ? unit : unit / a->K;
    at->kv = job->narrow ? 0 : unit % a->K;
    at->x.n = job->R - at->r0 < AT_Q ? job->R - at->r0 : AT_Q;
    const uint32_t len = length(job, at->seq);
    if (len == 0) return false;
    for (uint32_t i = 0; i < at->x.n; i++) {
        at->x.hi[i] = (int32_t)(len - a->Q + (at->r0 + i) % a->Q);
        at->x.lo[i] = first_key(at->x.hi[i], 0, a->window);
    }
    lanes_close(&at->x);
    const int32_t first = at->x.first / AT_K * AT_K; /* counted from the sequence's start, wherever a window begins */
    const uint64_t keys = (uint64_t)(at->x.last - first) + 1, tiles = (keys + AT_K - 1) / AT_K;
    const uint64_t t0 = tiles * at->split / job->splits * AT_K, t1 = tiles * (at->split + 1) / job->splits * AT_K;
    at->j0 = first + (int32_t)t0;
    at->j1 = first + (int32_t)(t1 < keys ? t1 : keys);
    return at->j0 < at->j1;
}

/* Asks for keys and values j0 .. j1-1 of all kv heads while others are worked on: between two tiles the processor's own
 * look-ahead ends. Inlined because gcc drops calls of a function that does nothing but this. */
RT_INLINE void ask_keys(const dec_job *job, const dec_place *at, int32_t j0, int32_t j1)
{
    for (uint32_t i = RT_DEC_KC; i <= RT_DEC_VC; i++) {
        const rt_operand *x = &job->op->slot[i];
        const uint64_t bytes = rt_dtype_bytes(x->dtype, x->cols);
        for (int32_t j = j0; j < j1 && j < at->j1; j++) {
            const char *p = rt_host_ptr(x);
            p += rt_dtype_bytes(x->dtype, cache_row(job, at->seq, j) * x->stride);
            for (uint64_t b = 0; b < bytes; b += 64) __builtin_prefetch(p + b, 0, 2);
        }
    }
}

/* ---- few query rows ---- */

/* { a0+a1, a2+a3, ..., b0+b1, ... } */
RT_INLINE vf pair_sums(vf a, vf b)
{
#if defined(RT_ISA_avx512)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
#elif defined(RT_ISA_avx2)
    return __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14) +
           __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15);
#else
    return __builtin_shufflevector(a, b, 0, 2, 4, 6) + __builtin_shufflevector(a, b, 1, 3, 5, 7);
#endif
}

/* Lane i: the sum over the lanes of x[i]. */
RT_INLINE vf lane_sums(const vf x[VL])
{
    vf y[VL / 2], z[VL / 4];
    for (int i = 0; i < VL / 2; i++) y[i] = pair_sums(x[2 * i], x[2 * i + 1]);
    for (int i = 0; i < VL / 4; i++) z[i] = pair_sums(y[2 * i], y[2 * i + 1]);
#if defined(RT_ISA_avx512)
    return pair_sums(pair_sums(z[0], z[1]), pair_sums(z[2], z[3]));
#elif defined(RT_ISA_avx2)
    return pair_sums(z[0], z[1]);
#else
    return z[0];
#endif
}

/* s (n) = q (ld) . k (n,ld), n a multiple of VL */
static void dot_rows(float *s, const float *q, const float *k, uint32_t ld, uint32_t n)
{
    for (uint32_t j = 0; j < n; j += VL, k += (uint64_t)VL * ld) {
        vf acc[VL];
        for (int i = 0; i < VL; i++) acc[i] = vset(0.0f);
        for (uint32_t c = 0; c < ld; c += VL) {
            vf x = vload(q + c);
            for (int i = 0; i < VL; i++) acc[i] = vfma(x, vload(k + (uint64_t)i * ld + c), acc[i]);
        }
        vstore(s + j, lane_sums(acc));
    }
}

typedef struct row_state {
    float max, sum;
} row_state;

/* s (n) scores of keys from j0 on become weights: -0 outside of lo .. hi. Returns by what the row's output shrinks. */
static float softmax_row(float *s, uint32_t n, int32_t j0, int32_t lo, int32_t hi, row_state *row)
{
    vi lane;
    for (int i = 0; i < VL; i++) lane[i] = j0 + i;
    vf top = vset(row->max), sum = vset(0.0f);
    for (uint32_t j = 0; j < n; j += VL) {
        vi key = lane + vi_set((int32_t)j);
        vf v = vselect((key >= vi_set(lo)) & (key <= vi_set(hi)), vload(s + j), vset(-INFINITY));
        vstore(s + j, v);
        top = vmax(top, v);
    }
    const float max = vhmax(top);
    for (uint32_t j = 0; j < n; j += VL) {
        vi key = lane + vi_set((int32_t)j);
        vf p = vexp2(vload(s + j) - vset(max));
        p = vselect((key >= vi_set(lo)) & (key <= vi_set(hi)), p, vset(-0.0f));
        vstore(s + j, p);
        sum += p;
    }
    const float shrink = vexp2(vset(row->max - max))[0];
    row->sum = row->sum * shrink + vsum(sum);
    row->max = max;
    return shrink;
}

/* What a narrow chunk works in. Keys and values are packed AT_STEP rows at a time: what is written stays in the
 * first-level cache. */
typedef struct narrow_scratch {
    float *rows;    /* (AT_STEP,ld) keys or values */
    float *s;       /* (R,AT_K) */
    float *q, *o;   /* (K*R,ld) */
    row_state *row; /* (K*R) */
} narrow_scratch;

/* The query rows of one kv head over keys j0 .. j0+n-1. */
static void narrow_step(const dec_job *job, const dec_place *at, narrow_scratch *w, uint32_t kv, int32_t j0, uint32_t n)
{
    const rt_operand *k = &job->op->slot[RT_DEC_KC], *v = &job->op->slot[RT_DEC_VC];
    const uint32_t R = job->R, D = job->a.D, ld = job->ld, wide = (uint32_t)rt_align_up(n, AT_STEP);
    const uint64_t row = cache_row(job, at->seq, j0), col = (uint64_t)kv * D;
    const float *q = w->q + (uint64_t)kv * R * ld;
    float *o = w->o + (uint64_t)kv * R * ld;
    for (uint32_t j = 0; j < n; j += AT_STEP) {
        const uint32_t m = n - j < AT_STEP ? n - j : AT_STEP;
        pack_rows(w->rows, ld, k, (row + j) * k->stride + col, m, D, 1.0f);
        memset(w->rows + (uint64_t)m * ld, 0, sizeof(float) * (AT_STEP - m) * ld);
        for (uint32_t r = 0; r < R; r++) dot_rows(w->s + r * AT_K + j, q + (uint64_t)r * ld, w->rows, ld, AT_STEP);
    }
    for (uint32_t r = 0; r < R; r++) {
        const int32_t end = j0 + (int32_t)n - 1, hi = at->x.hi[r] < end ? at->x.hi[r] : end;
        const vf f = vset(softmax_row(w->s + r * AT_K, wide, j0, at->x.lo[r], hi, &w->row[kv * R + r]));
        float *out = o + (uint64_t)r * ld;
        for (uint32_t c = 0; c < ld; c += VL) vstore(out + c, vload(out + c) * f);
    }
    for (uint32_t j = 0; j < n; j += AT_STEP) {
        const uint32_t m = n - j < AT_STEP ? n - j : AT_STEP;
        const tile_product pv = { o, ld, { w->s + j, AT_K, 1 }, { w->rows, ld }, R, ld, m, NULL };
        if (pack_rows(w->rows, ld, v, (row + j) * v->stride + col, m, D, 1.0f))
            tile_add(&pv);
        else
            tile_add_sparse(&pv, true);
    }
}

static void run_narrow(const dec_job *job, const dec_place *at, float *scratch)
{
    const uint32_t R = job->R, K = job->a.K, ld = job->ld;
    const rt_operand *x = &job->op->slot[RT_DEC_Q];
    narrow_scratch w;
    w.rows = take(&scratch, (uint64_t)AT_STEP * ld);
    w.s = take(&scratch, (uint64_t)R * AT_K);
    w.q = take(&scratch, (uint64_t)R * K * ld);
    w.o = take(&scratch, (uint64_t)R * K * ld);
    w.row = (row_state *)take(&scratch, 2ull * R * K);
    for (uint32_t r = 0; r < R * K; r++) {
        pack_rows(w.q + (uint64_t)r * ld, ld, x, query_at(job, x, at->seq, r / R, r % R), 1, job->a.D,
                  job->a.scale * AT_LOG2E);
        w.row[r] = (row_state){ .max = -FLT_MAX, .sum = 0.0f };
    }
    memset(w.o, 0, sizeof(float) * R * K * ld);
    for (int32_t j = at->j0; j < at->j1; j += AT_K) {
        const uint32_t n = at->j1 - j < AT_K ? (uint32_t)(at->j1 - j) : AT_K;
        for (uint32_t kv = 0; kv < K; kv++) {
            ask_keys(job, at, j + AT_K + (int32_t)(kv * AT_K / K), j + AT_K + (int32_t)((kv + 1) * AT_K / K));
            narrow_step(job, at, &w, kv, j, n);
        }
    }
    for (uint32_t r = 0; r < R * K; r++) {
        const uint64_t part = part_at(job, at, r / R, r % R);
        job->max[part] = w.row[r].max;
        job->sum[part] = w.row[r].sum;
        memcpy(job->out + part * ld, w.o + (uint64_t)r * ld, sizeof(float) * ld);
    }
}

/* ---- many query rows ---- */

static void run_wide(const dec_job *job, const dec_place *at, float *scratch)
{
    const uint32_t D = job->a.D, ld = job->ld;
    const lanes *x = &at->x;
    const rt_operand *q = &job->op->slot[RT_DEC_Q], *k = &job->op->slot[RT_DEC_KC], *v = &job->op->slot[RT_DEC_VC];
    key_tile t = { .ld = ld };
    t.k = take(&scratch, (uint64_t)AT_K * ld);
    t.v = take(&scratch, (uint64_t)AT_K * ld);
    float *s = take(&scratch, AT_K * AT_Q), *rows = take(&scratch, (uint64_t)AT_Q * ld);
    float *shrink = take(&scratch, AT_Q);
    head_state h = head_take(&scratch, D);
    for (uint32_t i = 0; i < x->n; i++)
        pack_rows(rows + i * ld, ld, q, query_at(job, q, at->seq, at->kv, at->r0 + i), 1, D, job->a.scale * AT_LOG2E);
    memset(rows + (uint64_t)x->n * ld, 0, sizeof(float) * (x->width - x->n) * ld);
    transpose(h.q, AT_Q, rows, ld, x->width, D);
    head_clear(&h, D);
    for (t.j0 = at->j0; t.j0 < at->j1; t.j0 += (int32_t)t.n) {
        const int32_t border = (t.j0 / AT_K + 1) * AT_K;
        tile_cut(&t, x, border < at->j1 ? border : at->j1);
        if (t.c1 == 0) continue;
        const uint64_t row = cache_row(job, at->seq, t.j0), col = (uint64_t)at->kv * D;
        t.k_finite = pack_rows(t.k, ld, k, row * k->stride + col, t.n, D, 1.0f);
        t.v_finite = pack_rows(t.v, ld, v, row * v->stride + col, t.n, D, 1.0f);
        head_step(&h, &t, x, D, s, shrink);
    }
    transpose(rows, ld, h.o, AT_Q, D, x->width);
    for (uint32_t i = 0; i < x->n; i++) {
        const uint64_t part = part_at(job, at, at->kv, at->r0 + i);
        job->max[part] = h.max[i];
        job->sum[part] = h.sum[i];
        memcpy(job->out + part * ld, rows + i * ld, sizeof(float) * ld);
    }
}

static void run_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const dec_job *job = ctx;
    dec_place at;
    float *scratch = job->scratch + worker * job->worker_floats;
    if (place_chunk(job, chunk, &at)) {
        if (job->narrow)
            run_narrow(job, &at, scratch);
        else
            run_wide(job, &at, scratch);
        return;
    }
    const uint32_t last = job->narrow ? job->a.K - 1 : at.kv;
    for (uint32_t kv = at.kv; kv <= last; kv++)
        for (uint32_t i = 0; i < at.x.n; i++) job->sum[part_at(job, &at, kv, at.r0 + i)] = 0.0f;
}

/* ---- the sum over splits ---- */

static void merge_row(const dec_job *job, uint64_t part, float *out /* (ld) */)
{
    const float *m = job->max + part, *l = job->sum + part, *o = job->out + part * job->ld;
    float max = -FLT_MAX, sum = 0.0f;
    for (uint32_t n = 0; n < job->splits; n++)
        if (l[n] != 0.0f && m[n] > max) max = m[n];
    memset(out, 0, sizeof(float) * job->ld);
    for (uint32_t n = 0; n < job->splits; n++) {
        if (l[n] == 0.0f) continue;
        const vf f = vexp2(vset(m[n] - max));
        sum += l[n] * f[0];
        for (uint32_t c = 0; c < job->ld; c += VL)
            vstore(out + c, vfma(vload(o + (uint64_t)n * job->ld + c), f, vload(out + c)));
    }
    const vf r = vset(1.0f / sum);
    for (uint32_t c = 0; c < job->ld; c += VL) vstore(out + c, vload(out + c) * r);
}

static void merge_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const dec_job *job = ctx;
    const rt_operand *o = &job->op->slot[RT_DEC_O];
    float *out = job->scratch + worker * job->worker_floats;
    const uint64_t row0 = (uint64_t)chunk * ROWS_MERGED;
    for (uint64_t row = row0; row < row0 + ROWS_MERGED && row < job->rows; row++) {
        const uint32_t head = (uint32_t)(row / job->R), r = (uint32_t)(row % job->R), seq = head / job->a.K;
        if (length(job, seq) != 0)
            merge_row(job, row * job->splits, out);
        else
            for (uint32_t c = 0; c < job->ld; c++) out[c] = NAN;
        unpack_rows(o, query_at(job, o, seq, head % job->a.K, r), 1, job->a.D, out, job->ld, 1.0f);
    }
}

void RT_CPU(attn_decode)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    dec_job job = { .op = o, .a = o->args.decode };
    job_layout(&job, c->threads, rt_host_ptr(&o->work));
    rt_pool_run(c->pool, job.units * job.blocks * job.splits, run_chunk, &job);
    rt_pool_run(c->pool, (uint32_t)((job.rows + ROWS_MERGED - 1) / ROWS_MERGED), merge_chunk, &job);
}

uint64_t RT_CPU(work_attn_decode)(const rt_cpu_work *w)
{
    dec_job job = { .a = w->args->decode };
    return job_layout(&job, w->threads, NULL);
}
