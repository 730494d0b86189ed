/* ref_optim.c - AdamW and the scale that clips the gradient. Both know the fault record: one obeys it, one sets it. */
#include "backend/ref/ref.h"
#include "base/rng.h"
#include "num/moment.h"

#include <tgmath.h>

/* The moments of a row, whatever they are stored as. */
typedef struct moments {
    uint32_t dtype; /* f32: real, and not rounded; bf16: real, rounded here, so that storing them is exact; u8 */
    void *m, *v;
    uint8_t *exps; /* with u8 */
} moments;

static real moment_m(const moments *x, size_t j)
{
    if (x->dtype != RT_DTYPE_U8) return ((const real *)x->m)[j];
    return rt_moment_m_value(((const uint8_t *)x->m)[j], x->exps[2 * (j / RT_MOMENT_BLOCK)]);
}

static real moment_v(const moments *x, size_t j)
{
    if (x->dtype != RT_DTYPE_U8) return ((const real *)x->v)[j];
    return rt_moment_v_value(((const uint8_t *)x->v)[j], x->exps[2 * (j / RT_MOMENT_BLOCK) + 1]);
}

/* n new moments from column j on, all of a block; word (n): the random words of their elements */
static void store_moments(const moments *x, size_t j, const real *m, const real *v, const uint32_t *word, uint32_t n)
{
    uint32_t exp_m = 0, exp_v = 0;
    for (uint32_t i = 0; i < n && x->dtype == RT_DTYPE_U8; i++) { /* not finite: above all that is */
        uint32_t one = rt_moment_exp((float)m[i], RT_MOMENT_M_TOP);
        uint32_t two = rt_moment_exp((float)v[i], RT_MOMENT_V_TOP);
        exp_m = one > exp_m ? one : exp_m;
        exp_v = two > exp_v ? two : exp_v;
    }
    for (uint32_t i = 0; i < n; i++) {
        float m32 = (float)m[i], v32 = (float)v[i];
        switch (x->dtype) {
        case RT_DTYPE_U8:
            ((uint8_t *)x->m)[j + i] = rt_moment_m(m32, exp_m, word[i] & 0xffff);
            ((uint8_t *)x->v)[j + i] = rt_moment_v(v32, exp_v, word[i] >> 16);
            break;
        case RT_DTYPE_BF16:
            ((real *)x->m)[j + i] = rt_bf16_to_f32(rt_moment_bf16(m32, word[i] & 0xffff));
            ((real *)x->v)[j + i] = rt_bf16_to_f32(rt_moment_bf16(v32, word[i] >> 16));
            break;
        default: ((real *)x->m)[j + i] = m[i], ((real *)x->v)[j + i] = v[i];
        }
    }
    if (x->dtype != RT_DTYPE_U8) return;
    x->exps[2 * (j / RT_MOMENT_BLOCK)] = (uint8_t)exp_m;
    x->exps[2 * (j / RT_MOMENT_BLOCK) + 1] = (uint8_t)exp_v;
}

static moments row_of(const rt_ref_call *c, size_t row)
{
    const rt_adamw_args *a = &c->args->adamw;
    size_t size = a->moments == RT_DTYPE_U8 ? 1 : sizeof(real), at = row * a->C * size;
    uint8_t *exps = c->s[RT_ADAM_EXPS]; /* (N, exponents of a row) or null */
    return (moments){ a->moments, (char *)c->s[RT_ADAM_M] + at, (char *)c->s[RT_ADAM_V] + at,
                      exps ? exps + row * rt_moment_exps(a->C) : NULL };
}

static uint32_t word_of(const rt_adamw_args *a, const rt_step *step, uint32_t row, uint32_t j)
{
    uint64_t stream = rt_adamw_stream(a->stream, step->step), index = (uint64_t)(a->row + row) << 32 | j / 4;
    return a->moments == RT_DTYPE_F32 ? 0 : rt_philox(step->seed, stream, index).v[j % 4];
}

/* With t the step and g = grad gscale:
 *   m = b1 m + (1-b1) g;  v = b2 v + (1-b2) g^2
 *   w = w - lr (m / (1-b1^t) / (sqrt(v / (1-b2^t)) + eps) + weight_decay w)
 * w is the master where there is one, else the parameter; the parameter is w, rounded. The update takes m and v as they
 * are here; they are rounded afterwards, for the next step. */
void REF(adamw)(const rt_ref_call *c)
{
    const rt_adamw_args *a = &c->args->adamw;
    real *param = c->s[RT_ADAM_PARAM];         /* (N,C) */
    real *master = c->s[RT_ADAM_MASTER];       /* (N,C) or null */
    const real *grad = c->s[RT_ADAM_GRAD];     /* (N,C) */
    const real *gscale = c->s[RT_ADAM_GSCALE]; /* (1,1) or null */
    const rt_step *step = c->s[RT_ADAM_STEP];
    const rt_fault *fault = c->s[RT_ADAM_FAULT]; /* or null */
    if (fault && fault->set) return;
    real b1 = a->beta1, b2 = a->beta2, t = step->step;
    real m_left = 1 - pow(b1, t), v_left = 1 - pow(b2, t);
    for (uint32_t row = 0; row < a->N; row++) {
        moments x = row_of(c, row);
        for (uint32_t first = 0, n; first < a->C; first += n) {
            real m[RT_MOMENT_BLOCK], v[RT_MOMENT_BLOCK];
            uint32_t word[RT_MOMENT_BLOCK];
            n = a->C - first < RT_MOMENT_BLOCK ? a->C - first : RT_MOMENT_BLOCK;
            for (uint32_t k = 0, j = first; k < n; k++, j++) {
                size_t i = (size_t)row * a->C + j;
                real g = grad[i] * (gscale ? gscale[0] : 1);
                m[k] = b1 * moment_m(&x, j) + (1 - b1) * g;
                v[k] = b2 * moment_v(&x, j) + (1 - b2) * g * g;
                word[k] = word_of(a, step, row, j);
                real w = master ? master[i] : param[i];
                w -= step->lr * (m[k] / m_left / (sqrt(v[k] / v_left) + a->eps) + a->weight_decay * w);
                if (master) master[i] = w;
                param[i] = w;
            }
            store_moments(&x, first, m, v, word, n);
        }
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
