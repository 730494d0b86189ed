/* ref_optim.c - AdamW and the scale that clips the gradient. Both know the fault record: one obeys it, one sets it. */
#include "backend/ref/ref.h"

#include <tgmath.h>

/* With t the step and g = grad gscale:
 *   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *   w = w - lr (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + weight_decay w)
 * w is the master where there is one, else the parameter; the parameter is w, rounded. */
void REF(adamw)(const rt_ref_call *c)
{
    const rt_adamw_args *a = &c->args->adamw;
    real *param = c->s[RT_ADAM_PARAM];               /* (N,C) */
    real *master = c->s[RT_ADAM_MASTER];             /* (N,C) or null */
    real *m = c->s[RT_ADAM_M], *v = c->s[RT_ADAM_V]; /* (N,C) */
    const real *grad = c->s[RT_ADAM_GRAD];           /* (N,C) */
    const real *gscale = c->s[RT_ADAM_GSCALE];       /* (1,1) or null */
    const rt_step *step = c->s[RT_ADAM_STEP];
    const rt_fault *fault = c->s[RT_ADAM_FAULT]; /* or null */
    if (fault && fault->set) return;
    real b1 = a->beta1, b2 = a->beta2, t = step->step;
    real m_left = 1 - pow(b1, t), v_left = 1 - pow(b2, t);
    size_t n = (size_t)a->N * a->C;
    for (size_t i = 0; i < n; i++) {
        real g = grad[i] * (gscale ? gscale[0] : 1);
        m[i] = b1 * m[i] + (1 - b1) * g;
        v[i] = b2 * v[i] + (1 - b2) * g * g;
        real w = master ? master[i] : param[i];
        w -= step->lr * (m[i] / m_left / (sqrt(v[i] / v_left) + a->eps) + a->weight_decay * w);
        if (master) master[i] = w;
        param[i] = w;
    }
}

/* norm = sqrt(nsq); scale = min(1, max_norm / (norm + 1e-6)), 1 without a limit. A norm that is not finite is a
 * fault, and its scale is 0. */
void REF(clip)(const rt_ref_call *c)
{
    const rt_clip_args *a = &c->args->clip;
    real *scale = c->s[RT_CLIP_SCALE], *norm = c->s[RT_CLIP_NORM]; /* (1,1) */
    const real *nsq = c->s[RT_CLIP_NSQ];                           /* (1,1) */
    rt_fault *fault = c->s[RT_CLIP_FAULT];                         /* or null */
    const rt_step *step = c->s[RT_CLIP_STEP];                      /* with fault */
    norm[0] = sqrt(nsq[0]);
    if (!isfinite(norm[0])) {
        scale[0] = 0;
        if (fault && !fault->set) *fault = (rt_fault){ 1, step->step, a->site, 0 };
        return;
    }
    scale[0] = a->max_norm > 0 ? fmin((real)1, a->max_norm / (norm[0] + (real)1e-6)) : 1;
}
