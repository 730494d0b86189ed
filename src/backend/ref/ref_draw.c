/* ref_draw.c - random draws from a teacher's distribution, as Random Sampling KD stores them.
 *
 * p = softmax(x / T) over Vc, the ids whose bit is set in vmask; what is drawn is defined in integers by num/draw.h.
 * The list of a row, with a rest of 0, is a top-k teacher: its shares count / n have the mean p, so that the gradient
 * of forward KL, which is linear in them, has the mean of the full one. The divergence has not: with H the entropy, its
 * value + H(shares) - H(p) has. Scratch: 3 V elements. */
#include "backend/ref/ref.h"

#include "num/draw.h"

#include <stdbool.h>
#include <tgmath.h>

static bool in_vc(const uint32_t *vmask, uint32_t v) { return !vmask || (vmask[v / 32] >> v % 32 & 1); }

/* The first id of Vc whose logit is not finite; -1 when there is none. */
static int32_t first_bad(const real *x /* (V) */, const uint32_t *vmask, uint32_t V)
{
    for (uint32_t v = 0; v < V; v++)
        if (in_vc(vmask, v) && !isfinite(x[v])) return (int32_t)v;
    return -1;
}

/* upto (V) = the weight of each id and of those before it */
static void add_up(uint64_t *upto, real *entropy, const real *x /* (V) */, const uint32_t *vmask, const rt_draw_args *a)
{
    real max = -(real)INFINITY, depths = 0;
    uint64_t sum = 0;
    const double scale = rt_draw_scale(a->T);
    for (uint32_t v = 0; v < a->V; v++)
        if (in_vc(vmask, v)) max = fmax(max, x[v]);
    for (uint32_t v = 0; v < a->V; v++) {
        if (in_vc(vmask, v)) {
            uint64_t depth = rt_draw_depth((float)(max - x[v]), scale), weight = rt_draw_weight(depth);
            sum += weight;
            depths += (real)weight * (real)depth;
        }
        upto[v] = sum;
    }
    *entropy = sum ? (real)rt_draw_entropy((double)sum, (double)depths) : 0;
}

static uint32_t first_above(const uint64_t *upto /* (V) */, uint32_t V, uint64_t mark)
{
    uint32_t low = 0;
    for (uint32_t high = V - 1; low < high;) {
        uint32_t middle = low + (high - low) / 2;
        if (upto[middle] > mark)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

static void draw_row(int32_t *id /* (n) */, real *logp /* (n) */, real *entropy, const real *x /* (V) */,
                     const rt_ref_call *c, size_t row)
{
    const rt_draw_args *a = &c->args->draw;
    const uint32_t *vmask = c->s[RT_DRAW_VMASK]; /* (1,ceil(V/32)) or null */
    const uint32_t *key = (const uint32_t *)c->s[RT_DRAW_KEY] + 2 * row;
    const rt_step *step = c->s[RT_DRAW_STEP];
    uint64_t *upto = c->work;                           /* (V) */
    uint32_t *count = (uint32_t *)(upto + a->V), k = 0; /* (V) */
    int32_t bad = first_bad(x, vmask, a->V);
    for (uint32_t j = 0; j < a->n; j++) {
        id[j] = -1;
        logp[j] = bad < 0 ? 0 : (real)NAN;
    }
    if (bad >= 0) {
        id[0] = bad;
        *entropy = (real)NAN;
        return;
    }
    add_up(upto, entropy, x, vmask, a);
    uint64_t sum = upto[a->V - 1];
    for (uint32_t v = 0; v < a->V; v++) count[v] = 0;
    for (uint32_t j = 0; sum && j < a->n; j++) {
        uint64_t bits = rt_draw_bits(step->seed, (uint64_t)key[1] << 32 | key[0], j);
        count[first_above(upto, a->V, rt_draw_mark(bits, sum))]++;
    }
    for (uint32_t v = 0; v < a->V; v++) {
        if (!count[v]) continue;
        id[k] = (int32_t)v;
        logp[k++] = (real)rt_draw_logp(count[v], a->n);
    }
}

void REF(draw)(const rt_ref_call *c)
{
    const rt_draw_args *a = &c->args->draw;
    int32_t *id = c->s[RT_DRAW_ID];        /* (N,n) */
    real *logp = c->s[RT_DRAW_LOGP];       /* (N,n) */
    real *entropy = c->s[RT_DRAW_ENTROPY]; /* (N,1) */
    const real *x = c->s[RT_DRAW_X];       /* (N,V) */
    for (size_t i = 0; i < a->N; i++) draw_row(id + i * a->n, logp + i * a->n, entropy + i, x + i * a->V, c, i);
}
