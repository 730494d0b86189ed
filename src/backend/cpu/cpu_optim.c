/* cpu_optim.c - adamw and clip. The moments, the master weights and all arithmetic are f32; the bias corrections are
 * computed once per call in double from the step number. */
#include "backend/cpu/cpu_split.h"

typedef struct adam_consts {
    float b1, b2, eps, decay, lr;
    float inv_bc1, inv_bc2; /* 1/(1 - beta^t) */
    float gscale;
} adam_consts;

/* m = b1 m + (1-b1) g; v = b2 v + (1-b2) g^2; w -= lr (mhat / (sqrt(vhat) + eps) + decay w) */
RT_INLINE vf adam_lanes(vf *m, vf *v, vf w, vf g, const adam_consts *k)
{
    g = g * vset(k->gscale);
    *m = *m * vset(k->b1) + g * vset(1.0f - k->b1);
    *v = *v * vset(k->b2) + g * g * vset(1.0f - k->b2);
    vf mhat = *m * vset(k->inv_bc1), vhat = *v * vset(k->inv_bc2);
    return w - vset(k->lr) * (mhat / (vsqrt(vhat) + vset(k->eps)) + vset(k->decay) * w);
}

/* w (n) f32: the master; p: the stored copy, or null when the master is the parameter */
RT_INLINE void adam_body(float *w, void *p, float *m, float *v, const void *g, uint64_t n, const adam_consts *k,
                         rt_dtype dp, rt_dtype dg)
{
    uint64_t i = 0;
    for (; i + VL <= n; i += VL) {
        vf vm = vload(m + i), vv = vload(v + i);
        vf r = adam_lanes(&vm, &vv, vload(w + i), vload_t(g, i, dg), k);
        vstore(m + i, vm);
        vstore(v + i, vv);
        vstore(w + i, r);
        if (p) vstore_t(p, i, r, dp);
    }
    if (i < n) {
        uint32_t t = (uint32_t)(n - i);
        vf vm = vload_n(m + i, t), vv = vload_n(v + i, t);
        vf r = adam_lanes(&vm, &vv, vload_n(w + i, t), vload_tn(g, i, t, dg), k);
        vstore_n(m + i, vm, t);
        vstore_n(v + i, vv, t);
        vstore_n(w + i, r, t);
        if (p) vstore_tn(p, i, r, t, dp);
    }
}

static void adam_span(const rt_bound_op *o, rt_cpu_span s, void *ctx)
{
    const rt_operand *param = &o->slot[RT_ADAM_PARAM], *master = &o->slot[RT_ADAM_MASTER];
    float *m = span_ptr(&o->slot[RT_ADAM_M], s), *v = span_ptr(&o->slot[RT_ADAM_V], s);
    const void *g = span_ptr(&o->slot[RT_ADAM_GRAD], s);
    float *w = span_ptr(master->mem ? master : param, s);
    void *p = master->mem ? span_ptr(param, s) : NULL;
    const adam_consts *k = ctx;
    if (p)
        RT_FOR_FLOAT(param->dtype, DP,
                     RT_FOR_FLOAT(o->slot[RT_ADAM_GRAD].dtype, DG, adam_body(w, p, m, v, g, s.n, k, DP, DG)));
    else
        RT_FOR_FLOAT(o->slot[RT_ADAM_GRAD].dtype, DG, adam_body(w, NULL, m, v, g, s.n, k, RT_DTYPE_F32, DG));
}

void RT_CPU(adamw)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const rt_adamw_args *a = &o->args.adamw;
    const rt_step *step = rt_host_ptr(&o->slot[RT_ADAM_STEP]);
    const float *gscale = rt_host_ptr(&o->slot[RT_ADAM_GSCALE]);
    const rt_fault *fault = rt_host_ptr(&o->slot[RT_ADAM_FAULT]);
    if (fault && fault->set) return;
    adam_consts k = { .b1 = a->beta1, .b2 = a->beta2, .eps = a->eps, .decay = a->weight_decay, .lr = step->lr };
    k.inv_bc1 = (float)(1.0 / (1.0 - pow(a->beta1, step->step)));
    k.inv_bc2 = (float)(1.0 / (1.0 - pow(a->beta2, step->step)));
    k.gscale = gscale ? *gscale : 1.0f;
    split_run(c, o, 5, adam_span, &k);
}
RT_CPU_NO_WORK(adamw)

void RT_CPU(clip)(const rt_cpu_ctx *c, const rt_bound_op *o)
{
    const float *nsq = rt_host_ptr(&o->slot[RT_CLIP_NSQ]);
    float *scale = rt_host_ptr(&o->slot[RT_CLIP_SCALE]), *norm = rt_host_ptr(&o->slot[RT_CLIP_NORM]);
    rt_fault *fault = rt_host_ptr(&o->slot[RT_CLIP_FAULT]);
    double n = sqrt((double)*nsq), max = o->args.clip.max_norm;
    (void)c;
    *norm = (float)n;
    if (!isfinite(n)) {
        *scale = 0.0f;
        if (fault && !fault->set)
            *fault =
                (rt_fault){ 1, ((const rt_step *)rt_host_ptr(&o->slot[RT_CLIP_STEP]))->step, o->args.clip.site, 0 };
    } else {
        *scale = max > 0 && max < n + 1e-6 ? (float)(max / (n + 1e-6)) : 1.0f;
    }
}
RT_CPU_NO_WORK(clip)
