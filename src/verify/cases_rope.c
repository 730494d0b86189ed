/* cases_rope.c - the cases of rope, both ways.
 *
 * Big: a chunk of the cpu kernels is about 16384 elements in whole rows. Positions go far: the angle must not lose its
 * fraction at long context. */
#include "num/rope_freq.h"
#include "verify/values.h"

#include <math.h>

enum { N, H, D }; /* dimensions; D is even */
enum { HEADS, IN_PLACE, SCALED, FAR };

static const rt_op_flag flags[] = { RT_FLAG("heads", "", "heads"), RT_FLAG("in place", "", "in-place"),
                                    RT_FLAG("frequencies", "", "yarn", "llama3"),
                                    RT_FLAG("positions", "", "far", "behind") };
static const rt_op_shape shapes[] = { { RT_SHAPE_ODD, { 7, 3, 22 } },
                                      { RT_SHAPE_ONE, { 1, 1, 2 } },
                                      { RT_SHAPE_BIG, { 137, 3, 130 } },
                                      { RT_SHAPE_BIG, { 137, 3, 128 } } };

static uint32_t allowed(const rt_op_case *c, uint32_t flag)
{
    (void)c;
    return flag >= SCALED ? 7 : 3;
}

static void fix(rt_op_case *c)
{
    if (!c->flag[HEADS]) c->dim[H] = 1;
    if (c->flag[HEADS] && c->dim[H] == 1) c->dim[H] = 2;
    c->dim[D] += c->dim[D] % 2;
}

static const rt_rope_scaling scalings[] = {
    { .kind = RT_ROPE_PLAIN, .theta = 10000 },
    { .kind = RT_ROPE_YARN, .theta = 1000000, .factor = 4, .original_context = 32768 },
    { .kind = RT_ROPE_LLAMA3, .theta = 500000, .factor = 8, .low_freq = 1, .high_freq = 4, .original_context = 8192 },
};

static float frequencies(const rt_op_case *c, float *freq)
{
    float scale = 1;
    rt_rope_freqs(freq, &scale, c->dim[D], &scalings[c->flag[SCALED]], NULL);
    return scale;
}

enum { HALF_MAX = 128 }; /* no shape here is wider */

static void fill_freq(const rt_op_case *c, const rt_fill *f)
{
    float freq[HALF_MAX];
    frequencies(c, freq);
    for (uint32_t i = 0; i < f->cols; i++) f->x[i] = (double)freq[i];
}

static void layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim, wide = d[H] * d[D];
    double first = c->flag[FAR] == 1 ? 1000000 : c->flag[FAR] == 2 ? -50 : 0;
    l->slot[RT_ROPE_Y] = RT_SLOT(d[N], wide, NULL, .in_place = c->flag[IN_PLACE] ? 1 + RT_ROPE_X : 0);
    l->slot[RT_ROPE_X] = RT_SLOT(d[N], wide, rt_fill_normal);
    l->slot[RT_ROPE_FREQ] = RT_SLOT(1, d[D] / 2, fill_freq);
    l->slot[RT_ROPE_POS] = RT_SLOT(d[N], 1, rt_fill_positions, first, c->flag[FAR] == 1 ? 7919 : 1);
}

static void emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    float freq[HALF_MAX], scale = frequencies(c, freq);
    (c->set->kind == RT_OP_ROPE_FWD ? rt_emit_rope_fwd : rt_emit_rope_bwd)(p, v[RT_ROPE_Y], v[RT_ROPE_X],
                                                                           v[RT_ROPE_FREQ], v[RT_ROPE_POS], scale);
}

/* the length of the pair, times the factor on cos and sin */
static void terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t *d = v->c->dim, half = d[D] / 2;
    const double *x = rt_values_dense(v, RT_ROPE_X);
    float freq[HALF_MAX], factor = frequencies(v->c, freq);
    (void)slot;
    (void)want;
    for (uint64_t g = 0; g < (uint64_t)d[N] * d[H] && x; g++)
        for (uint32_t j = 0; j < half; j++) {
            uint64_t lo = g * d[D] + j, hi = lo + half;
            scale[lo] = scale[hi] = hypot(x[lo], x[hi]) * (double)factor;
        }
}

/* `ref` in float forms the angle in float, and so has its error. */
static double angle_squared(const rt_op_case *c)
{
    double last = c->flag[FAR] == 1 ? 1000000 + 7919.0 * c->dim[N] : 50 + c->dim[N];
    return last * last;
}

#define COMMON                                                                                                         \
    .ndims = 3, RT_TABLE(shapes, shapes), RT_TABLE(flags, flags), .allowed = allowed, .fix = fix, .layout = layout,    \
    .emit = emit, .terms = terms, .serial_terms = angle_squared,                                                       \
    .large = { .signature = "bf16", .dim = { 61, 12, 128 }, .flag = { [HEADS] = 1 } }

const rt_op_set rt_op_set_rope_fwd = { .kind = RT_OP_ROPE_FWD, COMMON };
const rt_op_set rt_op_set_rope_bwd = { .kind = RT_OP_ROPE_BWD, COMMON };
