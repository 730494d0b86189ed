/* cpu_embed.c - rows of a table by id, and their gradient.
 *
 * y[i] = table[ids[i]]: chunks are runs of tokens.
 * dtable[ids[i]] += dy[i], in order of i: chunks are runs of columns, and each goes through all tokens. Before that,
 * tokens with the same id are chained, so that a row of dtable is read once, summed in f32 and rounded once, however
 * often its id occurs. Nothing is atomic: a column belongs to one chunk, and the order of its sum is that of the
 * tokens. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/cpu_dequant.h"

enum { STRIP = 256, FWD_ELEMS = 16384, BWD_COLS = 64, NONE = -1 };

/* ---- forward ---- */

typedef struct gather {
    const rt_bound_op *o;
    uint32_t per; /* tokens in a chunk */
} gather;

RT_INLINE void gather_row(void *y, const void *x, rt_dtype dx, uint32_t C, rt_dtype d)
{
    float strip[STRIP];
    for (uint32_t c0 = 0; c0 < C; c0 += STRIP) {
        uint32_t n = C - c0 < STRIP ? C - c0 : STRIP, i = 0;
        widen_run(strip, x, dx, c0, n);
        for (; i + VL <= n; i += VL) vstore_t(y, c0 + i, vload(strip + i), d);
        if (i < n) vstore_tn(y, c0 + i, vload_n(strip + i, n - i), n - i, d);
    }
}

static void gather_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const gather *g = ctx;
    const rt_embed_args *e = &g->o->args.embed;
    const rt_operand *y = &g->o->slot[RT_EMBED_Y], *table = &g->o->slot[RT_EMBED_TABLE],
                     *ids = &g->o->slot[RT_EMBED_IDS];
    uint64_t y_step = row_bytes(y->dtype, y->stride), t_step = row_bytes(table->dtype, table->stride);
    uint64_t end = (uint64_t)(chunk + 1) * g->per < e->N ? (uint64_t)(chunk + 1) * g->per : e->N;
    (void)worker;
    for (uint64_t i = (uint64_t)chunk * g->per; i < end; i++) {
        int32_t id = ((const int32_t *)rt_host_ptr(ids))[i * ids->stride];
        uint8_t *row = (uint8_t *)rt_host_ptr(y) + i * y_step;
        const uint8_t *from = (const uint8_t *)rt_host_ptr(table) + (id < 0 ? 0 : (uint64_t)id) * t_step;
        if (id < 0 || (uint32_t)id >= e->V) {
            for (uint32_t c = 0; c < e->C; c++) store_t(row, c, NAN, y->dtype);
        } else if (table->dtype == y->dtype) {
            memcpy(row, from, rt_dtype_bytes(y->dtype, e->C));
        } else {
            RT_FOR_FLOAT(y->dtype, D, gather_row(row, from, table->dtype, e->C, D));
        }
    }
}

RT_CPU_NO_WORK(embed_fwd)

void RT_CPU(embed_fwd)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_embed_args *e = &o->args.embed;
    gather g = { o, FWD_ELEMS / e->C < 1 ? 1 : FWD_ELEMS / e->C };
    rt_pool_run(c->pool, (uint32_t)(((uint64_t)e->N + g.per - 1) / g.per), gather_chunk, &g);
}

/* ---- backward ---- */

/* Scratch: next[i] is the next token with the id of token i or NONE; first[i] is 1 when none before it has that id;
 * slot is an open hash from id to the last token seen with it, at least half empty. */
typedef struct scatter {
    const rt_bound_op *o;
    int32_t *next;  /* (N) */
    int32_t *slot;  /* (slots) */
    uint8_t *first; /* (N) */
    uint32_t bits;  /* slots = 2^bits */
} scatter;

static uint32_t hash_bits(uint32_t N)
{
    uint32_t bits = 4;
    while (1ull << bits < 2 * (uint64_t)N) bits++;
    return bits;
}

uint64_t RT_CPU(work_embed_bwd)(const rt_cpu_work *w)
{
    uint64_t N = w->args->embed.N;
    return (N + (1ull << hash_bits(w->args->embed.N))) * sizeof(int32_t) + N;
}

static void chain(const scatter *s)
{
    const rt_embed_args *e = &s->o->args.embed;
    const rt_operand *ids = &s->o->slot[RT_EMBED_BIDS];
    const int32_t *id = rt_host_ptr(ids);
    uint64_t mask = (1ull << s->bits) - 1;
    for (uint64_t i = 0; i <= mask; i++) s->slot[i] = NONE;
    for (uint32_t i = 0; i < e->N; i++) {
        int32_t want = id[i * ids->stride];
        s->next[i] = NONE;
        s->first[i] = 0;
        if (want < 0 || (uint32_t)want >= e->V) continue;
        uint64_t at = (uint32_t)want * 0x9e3779b97f4a7c15ull >> (64 - s->bits);
        while (s->slot[at] != NONE && id[(uint64_t)s->slot[at] * ids->stride] != want) at = (at + 1) & mask;
        if (s->slot[at] == NONE)
            s->first[i] = 1;
        else
            s->next[s->slot[at]] = (int32_t)i;
        s->slot[at] = (int32_t)i;
    }
}

/* y (n) += sum over the chain that begins at token i of columns c0 .. c0 + n of dy */
RT_INLINE void sum_chain(const scatter *s, void *y, const uint8_t *dy, uint64_t step, uint32_t i, uint32_t c0,
                         uint32_t n, rt_dtype d, rt_dtype ddy)
{
    for (uint32_t j = 0; j < n; j += VL) {
        uint32_t left = n - j < VL ? n - j : VL;
        vf v = left == VL ? vload_t(y, c0 + j, d) : vload_tn(y, c0 + j, left, d);
        for (int32_t t = (int32_t)i; t != NONE; t = s->next[t]) {
            const uint8_t *row = dy + (uint64_t)t * step;
            v += left == VL ? vload_t(row, c0 + j, ddy) : vload_tn(row, c0 + j, left, ddy);
        }
        if (left == VL)
            vstore_t(y, c0 + j, v, d);
        else
            vstore_tn(y, c0 + j, v, left, d);
    }
}

static void scatter_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const scatter *s = ctx;
    const rt_embed_args *e = &s->o->args.embed;
    const rt_operand *y = &s->o->slot[RT_EMBED_DTABLE], *dy = &s->o->slot[RT_EMBED_DY],
                     *ids = &s->o->slot[RT_EMBED_BIDS];
    uint64_t y_step = row_bytes(y->dtype, y->stride), dy_step = row_bytes(dy->dtype, dy->stride);
    const uint8_t *from = rt_host_ptr(dy);
    uint32_t c0 = chunk * BWD_COLS, n = e->C - c0 < BWD_COLS ? e->C - c0 : BWD_COLS;
    (void)worker;
    for (uint32_t i = 0; i < e->N; i++) {
        if (!s->first[i]) continue;
        uint64_t id = (uint64_t)((const int32_t *)rt_host_ptr(ids))[i * ids->stride];
        uint8_t *row = (uint8_t *)rt_host_ptr(y) + id * y_step;
        if (y->dtype == dy->dtype) /* dtable is f32 or as dy */
            RT_FOR_FLOAT(y->dtype, D, sum_chain(s, row, from, dy_step, i, c0, n, D, D));
        else
            RT_FOR_FLOAT(dy->dtype, D, sum_chain(s, row, from, dy_step, i, c0, n, RT_DTYPE_F32, D));
    }
}

void RT_CPU(embed_bwd)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_embed_args *e = &o->args.embed;
    scatter s = { .o = o, .next = rt_host_ptr(&o->work), .bits = hash_bits(e->N) };
    s.slot = s.next + e->N;
    s.first = (uint8_t *)(s.slot + (1ull << s.bits));
    chain(&s);
    rt_pool_run(c->pool, (uint32_t)(((uint64_t)e->C + BWD_COLS - 1) / BWD_COLS), scatter_chunk, &s);
}
