/* cases_attn.c - the cases of attention: forward, backward, decode.
 *
 * Big: the cpu kernels take queries and keys in tiles of 64, and query heads of one key head in parts of 4 (fewer when
 * heads are wide); these shapes have three parts and four tiles each way. Deep: at least three of the tiles that tensor
 * cores take (128 queries, at width 256 64), with windows aligned as those kernels ask for; also more tiles than a
 * large GPU has multiprocessors, where a block takes several, and a row of more tiles than such a block has room for
 * ahead. The operands o and lse of the backward are what the forward gives in double, rounded: nothing else is
 * meaningful there. */
#include "exec/exec.h"
#include "verify/tolerance.h"
#include "verify/values.h"

#include <math.h>
#include <string.h>

enum { B, T, K, G, D }; /* dimensions: batch, time, key heads, query heads per key head, head width */
enum { DOCS, WINDOW, GROUPS, SCALE, ROUNDED };

static const rt_op_flag flags[] = { RT_FLAG("documents", "", "docs"), RT_RARE("window", "", "window", "window1"),
                                    RT_FLAG("query heads per key head", "", "groups"),
                                    RT_FLAG("scale", "", "scale0.3"), RT_FLAG("weights", "", "rounded") };
static const rt_op_shape shapes[] = {
    { RT_SHAPE_ODD, { 2, 13, 1, 3, 24 } },    { RT_SHAPE_ONE, { 1, 1, 1, 1, 8 } },
    { RT_SHAPE_BIG, { 2, 211, 1, 9, 32 } },   { RT_SHAPE_BIG, { 1, 197, 2, 5, 128 } },
    { RT_SHAPE_DEEP, { 1, 300, 1, 7, 64 } },  { RT_SHAPE_DEEP, { 1, 257, 2, 3, 128 } },
    { RT_SHAPE_DEEP, { 1, 193, 1, 5, 256 } }, { RT_SHAPE_DEEP, { 1, 700, 1, 2, 64 } },
    { RT_SHAPE_DEEP, { 23, 131, 1, 6, 64 } }, { RT_SHAPE_DEEP, { 23, 131, 2, 3, 128 } },
    { RT_SHAPE_WIDTH, { 1, 67, 2, 1, 256 } }, { RT_SHAPE_WIDTH, { 1, 65, 1, 2, 64 } },
    { RT_SHAPE_WIDTH, { 1, 63, 1, 2, 80 } }
};
/* Where weights may be rounded, Hopper has kernels of its own: more of their shapes, so that each has cases of both. */
static const rt_op_shape more[] = { { RT_SHAPE_DEEP, { 1, 449, 1, 4, 64 } }, { RT_SHAPE_DEEP, { 1, 449, 1, 4, 128 } },
                                    { RT_SHAPE_DEEP, { 2, 257, 2, 2, 64 } }, { RT_SHAPE_DEEP, { 2, 257, 2, 2, 128 } } };

static uint32_t allowed(const rt_op_case *c, uint32_t flag)
{
    (void)c;
    return flag == WINDOW ? 7 : 3;
}

/* Widths are for time; the other dimensions stay small. */
static void narrow(rt_op_case *c)
{
    if (c->shape_kind == RT_SHAPE_WIDTH && c->dim[D] <= 33) {
        c->dim[B] = 1 + c->dim[B] % 2;
        c->dim[K] = 1 + c->dim[K] % 2;
        c->dim[G] = 1 + c->dim[G] % 3;
        c->dim[D] = 8 * (1 + c->dim[D] % 5);
    }
    if (!c->flag[GROUPS]) c->dim[G] = c->shape_kind == RT_SHAPE_BIG ? c->dim[G] : 1;
    if (c->flag[GROUPS] && c->dim[G] == 1) c->dim[G] = 2;
}

static void fix(rt_op_case *c)
{
    if (c->shape_kind & (RT_SHAPE_BIG | RT_SHAPE_DEEP)) c->flag[GROUPS] = 1; /* their parts of heads are the point */
    if (c->shape_kind == RT_SHAPE_DEEP && c->strided) c->strided = RT_STRIDED_ALIGNED;
    narrow(c);
}

static uint32_t window_of(const rt_op_case *c)
{
    return c->flag[WINDOW] == 2 ? 1 : c->flag[WINDOW] ? c->dim[T] / 3 + 1 : 0;
}

static rt_attn_shape shape_of(const rt_op_case *c)
{
    return (rt_attn_shape){ .T = c->dim[T],
                            .H = c->dim[K] * c->dim[G],
                            .K = c->dim[K],
                            .D = c->dim[D],
                            .window = window_of(c),
                            .scale = c->flag[SCALE] ? 0.3f : 0.0f,
                            .rounded = c->flag[ROUNDED] };
}

/* For each position the first one of its document: documents begin by chance, about five to a row. */
static void fill_starts(const rt_op_case *c, const rt_fill *f)
{
    uint32_t time = c->dim[T], every = time / 5 + 2;
    for (uint32_t i = 0; i < f->rows; i++) {
        uint32_t t = i % time;
        f->i[i] = t == 0 ? 0 : rt_fill_word(f, i) % every == 0 ? (int32_t)t : f->i[i - 1];
    }
}

static void fwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    uint32_t rows = d[B] * d[T], wide = d[K] * d[G] * d[D], slim = d[K] * d[D];
    l->slot[RT_ATTN_O] = RT_SLOT(rows, wide, NULL);
    l->slot[RT_ATTN_LSE] = RT_SLOT(rows, d[K] * d[G], NULL);
    l->slot[RT_ATTN_Q] = RT_SLOT(rows, wide, rt_fill_normal);
    l->slot[RT_ATTN_K] = RT_SLOT(rows, slim, rt_fill_normal);
    l->slot[RT_ATTN_V] = RT_SLOT(rows, slim, rt_fill_normal);
    if (c->flag[DOCS]) l->slot[RT_ATTN_START] = RT_SLOT(rows, 1, fill_starts);
}

static void fwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_attn_shape s = shape_of(c);
    rt_emit_attn_fwd(p, v[RT_ATTN_O], v[RT_ATTN_LSE], v[RT_ATTN_Q], v[RT_ATTN_K], v[RT_ATTN_V], v[RT_ATTN_START], &s);
}

static void bwd_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim;
    uint32_t rows = d[B] * d[T], wide = d[K] * d[G] * d[D], slim = d[K] * d[D];
    l->slot[RT_ATTNB_DQ] = RT_SLOT(rows, wide, NULL);
    l->slot[RT_ATTNB_DK] = RT_SLOT(rows, slim, NULL);
    l->slot[RT_ATTNB_DV] = RT_SLOT(rows, slim, NULL);
    l->slot[RT_ATTNB_DO] = RT_SLOT(rows, wide, rt_fill_normal);
    l->slot[RT_ATTNB_Q] = RT_SLOT(rows, wide, rt_fill_normal);
    l->slot[RT_ATTNB_K] = RT_SLOT(rows, slim, rt_fill_normal);
    l->slot[RT_ATTNB_V] = RT_SLOT(rows, slim, rt_fill_normal);
    l->slot[RT_ATTNB_O] = RT_SLOT(rows, wide, rt_fill_const);
    l->slot[RT_ATTNB_LSE] = RT_SLOT(rows, d[K] * d[G], rt_fill_const);
    if (c->flag[DOCS]) l->slot[RT_ATTNB_START] = RT_SLOT(rows, 1, fill_starts);
}

static void bwd_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_attn_shape s = shape_of(c);
    rt_emit_attn_bwd(p, v[RT_ATTNB_DQ], v[RT_ATTNB_DK], v[RT_ATTNB_DV], v[RT_ATTNB_DO], v[RT_ATTNB_Q], v[RT_ATTNB_K],
                     v[RT_ATTNB_V], v[RT_ATTNB_O], v[RT_ATTNB_LSE], v[RT_ATTNB_START], &s);
}

/* ---- o and lse for the backward: the forward in double ---- */

static rt_view forward_operand(rt_space *s, const rt_values *v, uint32_t slot, rt_class cls)
{
    rt_view w = v->view[slot];
    if (!w.buf) return RT_NONE;
    rt_dtype d = v->buf[w.buf - 1].dtype;
    return rt_space_buf(s, cls, rt_dtype_is_float(d) ? RT_DTYPE_F64 : d, w.rows, w.cols, v->buf[w.buf - 1].name);
}

static int run_forward(rt_values *v, rt_space *s, rt_plan *p, rt_dev *spec, double *o, double *lse, rt_err *e)
{
    static const uint32_t in[] = { RT_ATTNB_Q, RT_ATTNB_K, RT_ATTNB_V };
    int rc;
    rt_exec *x = NULL;
    rt_view q[3], start, y = forward_operand(s, v, RT_ATTNB_O, RT_CLASS_OUTPUT);
    rt_view l = forward_operand(s, v, RT_ATTNB_LSE, RT_CLASS_OUTPUT);
    rt_attn_shape shape = shape_of(v->c);
    for (int i = 0; i < 3; i++) q[i] = forward_operand(s, v, in[i], RT_CLASS_INPUT);
    start = forward_operand(s, v, RT_ATTNB_START, RT_CLASS_INPUT);
    rt_emit_attn_fwd(p, y, l, q[0], q[1], q[2], start, &shape);
    RT_TRY(rt_exec_seal(&x, spec, (const rt_plan *const *)&p, 1, NULL, e));
    for (int i = 0; i < 3; i++) {
        const double *dense = rt_values_dense(v, in[i]);
        if (!dense) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the operands of case %s", v->c->name));
        RT_TRY(rt_exec_write(x, q[i], dense, (uint64_t)q[i].rows * q[i].cols * sizeof *dense, e));
    }
    for (uint32_t i = 0; i < start.rows; i++) {
        rt_view one = { start.buf, 1, 1, i, 1 };
        RT_TRY(rt_exec_write(x, one, rt_values_row(v, RT_ATTNB_START, i), sizeof(int32_t), e));
    }
    RT_TRY(rt_exec_run(x, 0, NULL, e));
    RT_TRY(rt_exec_read(x, y, o, (uint64_t)y.rows * y.cols * sizeof *o, e));
    RT_TRY(rt_exec_read(x, l, lse, (uint64_t)l.rows * l.cols * sizeof *lse, e));
out:
    rt_exec_free(x);
    return rc;
}

static int bwd_prepare(rt_values *v, rt_verify_env *env, rt_err *e)
{
    int rc;
    rt_space *s = NULL;
    rt_plan *p = NULL;
    rt_view o = v->view[RT_ATTNB_O], l = v->view[RT_ATTNB_LSE];
    double *y = rt_values_scratch(v, (uint64_t)o.rows * o.cols * sizeof *y);
    double *lse = rt_values_scratch(v, (uint64_t)l.rows * l.cols * sizeof *lse);
    if (!y || !lse) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the operands of case %s", v->c->name));
    RT_TRY(rt_space_new(&s, e));
    RT_TRY(rt_plan_new(&p, s, "forward", &rt_policy_f64, e));
    RT_TRY(run_forward(v, s, p, env->spec, y, lse, e));
    rt_values_set(v, RT_ATTNB_O, y);
    rt_values_set(v, RT_ATTNB_LSE, lse);
out:
    rt_plan_free(p);
    rt_space_free(s);
    return rc;
}

/* ---- magnitudes ---- */


/* The sum of the products, and in *abs that of their magnitudes. */
static double dot(const double *a, const double *b, uint32_t n, double *abs)
{
    double sum = 0, all = 0;
    for (uint32_t i = 0; i < n; i++) {
        sum += a[i] * b[i];
        all += fabs(a[i] * b[i]);
    }
    *abs = all;
    return sum;
}

/* One query: p_j of the keys it sees, and how far an error of one unit in its scores carries each: 1 + scale |q| |k_j|.
 */
typedef struct query {
    const double *q, *k; /* of this head; rows of k are `step` apart */
    uint64_t step;
    uint32_t first, last;
    double scale;
} query;

/* p (last + 1), reach (last + 1); lse: as given, or NaN to find it. Returns the mean reach. */
static double weigh(const query *x, uint32_t width, double lse, double *p, double *reach)
{
    double max = -INFINITY, sum = 0, mean = 0;
    for (uint32_t j = x->first; j <= x->last; j++) {
        double all;
        p[j] = x->scale * dot(x->q, x->k + j * x->step, width, &all);
        reach[j] = 1 + fabs(x->scale) * all;
        max = fmax(max, p[j]);
    }
    for (uint32_t j = x->first; j <= x->last; j++) sum += exp(p[j] - max);
    double l = isnan(lse) ? max + log(sum) : lse;
    for (uint32_t j = x->first; j <= x->last; j++) {
        p[j] = exp(p[j] - l);
        mean += p[j] * reach[j];
    }
    return mean;
}

static uint32_t first_seen(const rt_values *v, uint32_t slot, uint32_t row, uint32_t i)
{
    const int32_t *start = rt_values_row(v, slot, row);
    uint32_t w = window_of(v->c), first = start ? (uint32_t)*start : 0;
    return w && i >= w && i - w + 1 > first ? i - w + 1 : first;
}

/* For each element of an output the sum of the squares of weights times what they are multiplied by, where weights may
 * be rounded; null: they may not, or there is no memory (v says so). */
static double *squares_of(rt_values *v, uint32_t slot)
{
    const rt_view w = v->view[slot];
    const uint64_t n = (uint64_t)w.rows * w.cols;
    const rt_dtype d = v->buf[w.buf - 1].dtype;
    if (!v->c->flag[ROUNDED] || !v->cuts_off || (d != RT_DTYPE_BF16 && d != RT_DTYPE_F16)) return NULL;
    double *x = rt_values_scratch(v, n * sizeof *x);
    if (x) memset(x, 0, n * sizeof *x);
    return x;
}

static void add_squares(rt_values *v, uint32_t slot, const double *squares, double *scale)
{
    const rt_view w = v->view[slot];
    if (!squares) return;
    for (uint64_t i = 0; i < (uint64_t)w.rows * w.cols; i++)
        scale[i] += rt_weight_rounding(v->c->set->kind, slot, v->buf[w.buf - 1].dtype, squares[i]);
}

/* o: sum of p_j reach_j |v_j|; lse: |lse| + mean reach. */
static void fwd_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t *d = v->c->dim, H = d[K] * d[G];
    const double *q = rt_values_dense(v, RT_ATTN_Q), *k = rt_values_dense(v, RT_ATTN_K),
                 *x = rt_values_dense(v, RT_ATTN_V);
    rt_attn_shape s = shape_of(v->c);
    double *p = rt_values_scratch(v, 2 * d[T] * sizeof *p), *reach = p + d[T];
    double *squares = slot == RT_ATTN_O ? squares_of(v, slot) : NULL;
    if (!q || !k || !x || !p) return;
    for (uint32_t row = 0; row < d[B] * d[T]; row++)
        for (uint32_t h = 0; h < H; h++) {
            uint32_t i = row % d[T];
            uint64_t kv = (uint64_t)(row - i) * d[K] * d[D] + h / d[G] * d[D], at = ((uint64_t)row * H + h) * d[D];
            query one = { q + at,
                          k + kv,
                          (uint64_t)d[K] * d[D],
                          first_seen(v, RT_ATTN_START, row, i),
                          i,
                          s.scale != 0 ? (double)s.scale : 1 / sqrt(d[D]) };
            double mean = weigh(&one, d[D], NAN, p, reach);
            if (slot == RT_ATTN_LSE) {
                scale[(uint64_t)row * H + h] = fabs(want[(uint64_t)row * H + h]) + mean;
                continue;
            }
            for (uint32_t j = one.first; j <= i; j++)
                for (uint32_t e = 0; e < d[D]; e++) {
                    const double part = p[j] * fabs(x[kv + j * one.step + e]);
                    scale[at + e] += (reach[j] + mean) * part;
                    if (squares) squares[at + e] += part * part;
                }
        }
    add_squares(v, slot, squares, scale);
}

/* What attn_bwd reads, dense. */
typedef struct backward {
    const double *d_o, *q, *k, *v, *o, *lse;
} backward;

/* The magnitudes of one query's parts in dq, dk or dv, and their squares where those are asked for. */
static void bwd_query(rt_values *v, const backward *in, uint32_t slot, uint32_t row, uint32_t h, double *p,
                      double *scale, double *squares)
{
    const uint32_t *d = v->c->dim, H = d[K] * d[G], i = row % d[T];
    uint64_t kv = (uint64_t)(row - i) * d[K] * d[D] + h / d[G] * d[D], at = ((uint64_t)row * H + h) * d[D];
    rt_attn_shape s = shape_of(v->c);
    double *reach = p + d[T], lse = in->lse[(uint64_t)row * H + h];
    query one = { in->q + at,
                  in->k + kv,
                  (uint64_t)d[K] * d[D],
                  first_seen(v, RT_ATTNB_START, row, i),
                  i,
                  s.scale != 0 ? (double)s.scale : 1 / sqrt(d[D]) };
    weigh(&one, d[D], lse, p, reach);
    double delta, signed_delta = dot(in->d_o + at, in->o + at, d[D], &delta);
    for (uint32_t j = one.first; j <= i; j++) {
        uint64_t key = kv + j * one.step;
        double weight = p[j] * (reach[j] + fabs(lse));
        double all, dp = dot(in->d_o + at, in->v + key, d[D], &all), ds = one.scale * p[j] * (dp - signed_delta);
        double most = slot == RT_ATTNB_DV ? weight : fabs(one.scale) * weight * (all + delta);
        double exact = slot == RT_ATTNB_DV ? p[j] : ds;
        const double *x = slot == RT_ATTNB_DQ ? in->k + key : slot == RT_ATTNB_DK ? in->q + at : in->d_o + at;
        uint64_t to = slot == RT_ATTNB_DQ ? at : key;
        for (uint32_t e = 0; e < d[D]; e++) {
            scale[to + e] += most * fabs(x[e]);
            if (squares) squares[to + e] += exact * x[e] * exact * x[e];
        }
    }
}

static void bwd_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t *d = v->c->dim;
    backward in = { rt_values_dense(v, RT_ATTNB_DO), rt_values_dense(v, RT_ATTNB_Q), rt_values_dense(v, RT_ATTNB_K),
                    rt_values_dense(v, RT_ATTNB_V),  rt_values_dense(v, RT_ATTNB_O), rt_values_dense(v, RT_ATTNB_LSE) };
    double *p = rt_values_scratch(v, 2 * d[T] * sizeof *p), *squares = squares_of(v, slot);
    (void)want;
    if (!in.d_o || !in.q || !in.k || !in.v || !in.o || !in.lse || !p) return;
    for (uint32_t row = 0; row < d[B] * d[T]; row++)
        for (uint32_t h = 0; h < d[K] * d[G]; h++) bwd_query(v, &in, slot, row, h, p, scale, squares);
    add_squares(v, slot, squares, scale);
}

#define COMMON                                                                                                         \
    .ndims = 5, RT_TABLE(shapes, shapes), RT_TABLE(more, more), RT_TABLE(flags, flags), .allowed = allowed, .fix = fix

const rt_op_set rt_op_set_attn_fwd = {
    .kind = RT_OP_ATTN_FWD, COMMON, .layout = fwd_layout, .emit = fwd_emit, .terms = fwd_terms
};
const rt_op_set rt_op_set_attn_bwd = {
    .kind = RT_OP_ATTN_BWD, COMMON, .layout = bwd_layout, .emit = bwd_emit, .prepare = bwd_prepare, .terms = bwd_terms
};

/* ---- decode ----
 *
 * Big: up to 32 query rows of a key head go one way, more the other, in blocks of 64; keys are split until there are 64
 * chunks, and the parts are joined 16 rows at a time. */

enum { DB, DQ, DS, DK, DG, DD }; /* batch, new tokens, rows of cache, key heads, query heads per key head, head width */
enum { D_WINDOW, D_GROUPS, D_LEN, D_SCALE, D_PAGED };

static const rt_op_flag decode_flags[] = { RT_RARE("window", "", "window", "window1"),
                                           RT_FLAG("query heads per key head", "", "groups"),
                                           RT_FLAG("lengths", "", "full", "stray"), RT_FLAG("scale", "", "scale0.3"),
                                           RT_FLAG("pages", "", "paged") };
static const rt_op_shape decode_shapes[] = {
    { RT_SHAPE_ODD, { 2, 3, 29, 1, 3, 24 } },     { RT_SHAPE_ONE, { 1, 1, 1, 1, 1, 8 } },
    { RT_SHAPE_BIG, { 3, 1, 2309, 4, 5, 64 } },   { RT_SHAPE_BIG, { 2, 23, 331, 1, 9, 32 } },
    { RT_SHAPE_WIDTH, { 1, 1, 131, 2, 1, 256 } }, { RT_SHAPE_WIDTH, { 3, 1, 67, 2, 4, 128 } }
};

static uint32_t decode_allowed(const rt_op_case *c, uint32_t flag)
{
    (void)c;
    return flag == D_WINDOW || flag == D_LEN ? 7 : 3;
}

static void decode_fix(rt_op_case *c)
{
    uint32_t *d = c->dim;
    if (c->shape_kind == RT_SHAPE_WIDTH && d[DD] <= 33) {
        d[DB] = 1 + d[DB] % 3;
        d[DQ] = 1 + d[DQ] % 4;
        d[DS] = d[DD] + d[DQ]; /* the last dimension runs over the widths: here for the cache */
        c->flag[D_PAGED] = 0;  /* whole pages have none of them */
        d[DK] = 1 + d[DK] % 2;
        d[DG] = 1 + d[DG] % 3;
        d[DD] = 8 * (1 + d[DD] % 5);
    }
    if (c->shape_kind == RT_SHAPE_BIG) {
        c->flag[D_GROUPS] = 1;
        if (c->flag[D_LEN] == 2) c->flag[D_LEN] = 1; /* a stray length leaves nothing to compare */
    }
    if (!c->flag[D_GROUPS]) d[DG] = 1;
    if (c->flag[D_GROUPS] && d[DG] == 1) d[DG] = 2;
    if (c->flag[D_PAGED]) d[DS] = (d[DS] + RT_CACHE_PAGE - 1) / RT_CACHE_PAGE * RT_CACHE_PAGE;
}

/* The pages of all sequences in another order. */
static uint32_t page_of(const rt_op_case *c, uint32_t seq, uint32_t i)
{
    uint32_t each = c->dim[DS] / RT_CACHE_PAGE, n = c->dim[DB] * each, at = seq * each + i;
    return n % 7 ? (at * 7 + 3) % n : n - 1 - at;
}

static void fill_table(const rt_op_case *c, const rt_fill *f)
{
    for (uint32_t r = 0; r < f->rows; r++)
        for (uint32_t i = 0; i < f->cols; i++) f->i[r * f->cols + i] = (int32_t)page_of(c, r, i);
}

/* Between Q and S, or S, or some below and above. */
static void fill_lengths(const rt_op_case *c, const rt_fill *f)
{
    uint32_t Q = c->dim[DQ], S = c->dim[DS];
    for (uint32_t i = 0; i < f->rows; i++) {
        uint32_t w = rt_fill_word(f, i), inside = Q + w % (S - Q + 1);
        f->i[i] = (int32_t)(c->flag[D_LEN] == 1 ? S : inside);
        if (c->flag[D_LEN] == 2 && i % 2 == 0) f->i[i] = w % 3 == 0 ? (int32_t)Q - 1 : w % 3 == 1 ? (int32_t)S + 1 : -5;
    }
}

static void decode_layout(const rt_op_case *c, rt_layout *l)
{
    const uint32_t *d = c->dim, wide = d[DK] * d[DG] * d[DD], slim = d[DK] * d[DD];
    l->slot[RT_DEC_O] = RT_SLOT(d[DB] * d[DQ], wide, NULL);
    l->slot[RT_DEC_Q] = RT_SLOT(d[DB] * d[DQ], wide, rt_fill_normal);
    l->slot[RT_DEC_KC] = RT_SLOT(d[DB] * d[DS], slim, rt_fill_normal);
    l->slot[RT_DEC_VC] = RT_SLOT(d[DB] * d[DS], slim, rt_fill_normal);
    l->slot[RT_DEC_LEN] = RT_SLOT(d[DB], 1, fill_lengths);
    if (c->flag[D_PAGED]) l->slot[RT_DEC_TABLE] = RT_SLOT(d[DB], d[DS] / RT_CACHE_PAGE, fill_table);
}

static rt_attn_shape decode_shape(const rt_op_case *c)
{
    const uint32_t *d = c->dim;
    return (rt_attn_shape){ d[DQ],
                            d[DK] * d[DG],
                            d[DK],
                            d[DD],
                            c->flag[D_WINDOW] == 2 ? 1
                            : c->flag[D_WINDOW]    ? d[DS] / 3 + 1
                                                   : 0,
                            c->flag[D_SCALE] ? 0.3f : 0.0f,
                            c->flag[D_PAGED] ? RT_CACHE_PAGE : 0,
                            false };
}

static void decode_emit(rt_plan *p, const rt_op_case *c, const rt_view *v)
{
    rt_attn_shape s = decode_shape(c);
    rt_emit_attn_decode(p, v[RT_DEC_O], v[RT_DEC_Q], v[RT_DEC_KC], v[RT_DEC_VC], v[RT_DEC_LEN], v[RT_DEC_TABLE], &s);
}

/* The cache of slot as it would lie without pages, (B*S,K*D). */
static const double *in_a_row(rt_values *v, uint32_t slot)
{
    const uint32_t *d = v->c->dim, each = d[DS] / RT_CACHE_PAGE;
    const uint64_t cells = (uint64_t)RT_CACHE_PAGE * d[DK] * d[DD];
    const double *x = rt_values_dense(v, slot);
    if (!v->c->flag[D_PAGED] || !x) return x;
    double *y = rt_values_scratch(v, d[DB] * each * cells * sizeof *y);
    for (uint32_t i = 0; y && i < d[DB] * each; i++)
        memcpy(y + i * cells, x + page_of(v->c, i / each, i % each) * cells, cells * sizeof *y);
    return y;
}

static void decode_terms(rt_values *v, uint32_t slot, const double *want, double *scale)
{
    const uint32_t *d = v->c->dim, H = d[DK] * d[DG];
    const double *q = rt_values_dense(v, RT_DEC_Q), *k = in_a_row(v, RT_DEC_KC), *x = in_a_row(v, RT_DEC_VC);
    rt_attn_shape s = decode_shape(v->c);
    double *p = rt_values_scratch(v, 2 * d[DS] * sizeof *p), *reach = p + d[DS];
    (void)slot;
    (void)want;
    if (!q || !k || !x || !p) return;
    for (uint32_t row = 0; row < d[DB] * d[DQ]; row++)
        for (uint32_t h = 0; h < H; h++) {
            int32_t len = *rt_values_row(v, RT_DEC_LEN, row / d[DQ]);
            if (len < (int32_t)d[DQ] || len > (int32_t)d[DS]) continue;
            uint32_t i = (uint32_t)len - d[DQ] + row % d[DQ], first = s.window && i >= s.window ? i - s.window + 1 : 0;
            uint64_t kv = (uint64_t)(row / d[DQ]) * d[DS] * d[DK] * d[DD] + h / d[DG] * d[DD];
            uint64_t at = ((uint64_t)row * H + h) * d[DD];
            query one = { q + at, k + kv, (uint64_t)d[DK] * d[DD],
                          first,  i,      s.scale != 0 ? (double)s.scale : 1 / sqrt(d[DD]) };
            double mean = weigh(&one, d[DD], NAN, p, reach);
            for (uint32_t j = first; j <= i; j++)
                for (uint32_t e = 0; e < d[DD]; e++)
                    scale[at + e] += p[j] * (reach[j] + mean) * fabs(x[kv + j * one.step + e]);
        }
}

const rt_op_set rt_op_set_attn_decode = {
    .kind = RT_OP_ATTN_DECODE,
    .ndims = 6,
    RT_TABLE(shapes, decode_shapes),
    RT_TABLE(flags, decode_flags),
    .allowed = decode_allowed,
    .fix = decode_fix,
    .layout = decode_layout,
    .emit = decode_emit,
    .terms = decode_terms,
};
