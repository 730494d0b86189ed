/* cpu_swiglu.c - swiglu forward and backward: y = g sigmoid(g) u. One pass, one exp and one division per element. A y
 * that is codes is made by rows: each is written to scratch, as it would be stored, and coded there. */
#include "backend/cpu/cpu_codes.h"
#include "backend/cpu/cpu_split.h"

/* s = sigmoid(g), t = 1 - s, both without cancellation and without overflow: from e = exp(-|g|) <= 1 and 1/(1+e). */
RT_INLINE void vsigmoid(vf *s, vf *t, vf g)
{
    vf e = vexp(vmin(g, -g)), r = vset(1.0f) / (vset(1.0f) + e), a = e * r;
    vi negative = g < vset(0.0f);
    *s = vselect(negative, a, r);
    *t = vselect(negative, r, a);
}
/* y of g, s = sigmoid(g) and u: the same bits from forward and from backward */
RT_INLINE vf activation(vf g, vf s, vf u) { return g * s * u; }
RT_INLINE vf vswiglu(vf g, vf u)
{
    vf s, t;
    vsigmoid(&s, &t, g);
    return activation(g, s, u);
}

RT_INLINE void fwd_body(void *y, const void *g, const void *u, uint64_t n, rt_dtype d)
{
    uint64_t i = 0;
    for (; i + VL <= n; i += VL) vstore_t(y, i, vswiglu(vload_t(g, i, d), vload_t(u, i, d)), d);
    if (i < n) {
        uint32_t k = (uint32_t)(n - i);
        vstore_tn(y, i, vswiglu(vload_tn(g, i, k, d), vload_tn(u, i, k, d)), k, d);
    }
}
static void fwd_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    void *y = span_ptr(&o->slot[RT_GLU_Y], s);
    const void *g = span_ptr(&o->slot[RT_GLU_G], s), *u = span_ptr(&o->slot[RT_GLU_U], s);
    (void)ctx;
    RT_FOR_FLOAT(o->slot[RT_GLU_Y].dtype, D, fwd_body(y, g, u, s.n, D));
}

/* A chunk is some rows. */
static uint64_t coded_rows_per(const rt_swiglu_args *a) { return RT_SPLIT_ELEMS / a->F + 1; }

static void coded_chunk(void *ctx, uint32_t chunk, uint32_t worker)
{
    const rt_bound_op *o = ctx;
    const rt_swiglu_args *a = &o->args.swiglu;
    rt_dtype d = o->slot[RT_GLU_G].dtype;
    uint8_t *own = (uint8_t *)rt_host_ptr(&o->work) + worker * own_row_bytes(true, d, a->F);
    uint64_t per = coded_rows_per(a), end = (chunk + 1) * per < a->N ? (chunk + 1) * per : a->N;
    for (uint64_t r = chunk * per; r < end; r++) {
        rt_cpu_span s = { r, 0, a->F };
        const void *g = span_ptr(&o->slot[RT_GLU_G], s), *u = span_ptr(&o->slot[RT_GLU_U], s);
        RT_FOR_FLOAT(d, D, fwd_body(own, g, u, a->F, D));
        code_own_row(o, r, own, d);
    }
}

void RT_CPU(swiglu_fwd)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    uint64_t per = coded_rows_per(&o->args.swiglu);
    if (o->slot[RT_GLU_SCALE].mem)
        rt_pool_run(c->pool, (uint32_t)((o->args.swiglu.N + per - 1) / per), coded_chunk, (void *)(uintptr_t)o);
    else
        split_run(c, o, 4, fwd_span, NULL);
}
uint64_t RT_CPU(work_swiglu_fwd)(const rt_cpu_work *w)
{
    return w->threads * own_row_bytes(w->present[RT_GLU_SCALE], w->dtype[RT_GLU_G], w->args->swiglu.F);
}

typedef struct glu_bwd {
    void *dg, *du, *y; /* y null: not asked for */
    const void *dy, *g, *u;
} glu_bwd;

/* dg = dy u s (1 + g (1 - s)), du = dy g s, with s = sigmoid(g); y as forward has it */
RT_INLINE void bwd_lanes(vf *dg, vf *du, vf *y, vf dy, vf g, vf u)
{
    vf s, t;
    vsigmoid(&s, &t, g);
    *du = dy * g * s;
    *dg = dy * u * s * (vset(1.0f) + g * t);
    *y = activation(g, s, u);
}
RT_INLINE void bwd_body(const glu_bwd *b, uint64_t n, bool with_y, rt_dtype d)
{
    vf dg, du, y;
    uint64_t i = 0;
    for (; i + VL <= n; i += VL) {
        bwd_lanes(&dg, &du, &y, vload_t(b->dy, i, d), vload_t(b->g, i, d), vload_t(b->u, i, d));
        vstore_t(b->dg, i, dg, d);
        vstore_t(b->du, i, du, d);
        if (with_y) vstore_t(b->y, i, y, d);
    }
    if (i < n) {
        uint32_t k = (uint32_t)(n - i);
        bwd_lanes(&dg, &du, &y, vload_tn(b->dy, i, k, d), vload_tn(b->g, i, k, d), vload_tn(b->u, i, k, d));
        vstore_tn(b->dg, i, dg, k, d);
        vstore_tn(b->du, i, du, k, d);
        if (with_y) vstore_tn(b->y, i, y, k, d);
    }
}
static void bwd_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    const rt_operand *y = &o->slot[RT_GLUB_Y];
    glu_bwd b = { .dg = span_ptr(&o->slot[RT_GLUB_DG], s),
                  .du = span_ptr(&o->slot[RT_GLUB_DU], s),
                  .y = y->mem ? span_ptr(y, s) : NULL,
                  .dy = span_ptr(&o->slot[RT_GLUB_DY], s),
                  .g = span_ptr(&o->slot[RT_GLUB_G], s),
                  .u = span_ptr(&o->slot[RT_GLUB_U], s) };
    (void)ctx;
    if (b.y)
        RT_FOR_FLOAT(o->slot[RT_GLUB_DG].dtype, D, bwd_body(&b, s.n, true, D));
    else
        RT_FOR_FLOAT(o->slot[RT_GLUB_DG].dtype, D, bwd_body(&b, s.n, false, D));
}
void RT_CPU(swiglu_bwd)(const rt_cpu_ctx *c, const rt_bound_op *o) { split_run(c, o, 6, bwd_span, NULL); }
RT_CPU_NO_WORK(swiglu_bwd)
