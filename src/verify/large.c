/* large.c - runs a case of more than 2^31 elements: where indices of 32 bits end, and byte offsets with them.
 *
 * That is too much to compute in double. So the case is a small one, its pattern, whose rows are repeated on the
 * device, by copies of what is there already, until there are enough. The pattern alone runs in double. What these ops
 * make of a row depends on that row alone, so every repetition must come out as the first one does; a sum over all rows
 * is as many times the pattern's. In order:
 *
 * - the first repetition and the sums, against double, as in any case;
 * - the repetitions around 2^31 elements and around 2^31, 2^32 and 2^33 bytes of every operand, some by chance, and the
 *   last ones, inputs too: the same bits as the first, or at least as close to double;
 * - all of it: the sum of squares of each output, which was NaN before, so nothing may have been left out;
 * - guard bands, and the same bits in a second run. */
#include "base/rng.h"
#include "exec/exec.h"
#include "verify/compare.h"
#include "verify/harness.h"
#include "verify/tolerance.h"

#include <stdio.h>

enum { PLACES = 64, BY_CHANCE = 4 };
enum { REPEAT, OP, SQUARES, PROGRAMS };

typedef struct large {
    rt_values v; /* of the pattern */
    rt_op_case whole;
    uint32_t repeats;
    bool repeated[RT_MAX_SLOTS]; /* by buffer; the others are as small as in the pattern */
    rt_space *space;
    rt_plan *plan[PROGRAMS];
    uint32_t nplans;
    rt_view square[RT_MAX_SLOTS]; /* the sum of squares of a buffer; RT_NONE: it has none */
    rt_exec *x;
    uint32_t place[PLACES], nplaces; /* repetitions that are looked at besides the first */
    rt_hash128 seen[PLACES];         /* in the first run */
    rt_after want, first, other;
} large;

static void forget(large *g)
{
    rt_exec_free(g->x);
    for (int i = 0; i < PROGRAMS; i++) rt_plan_free(g->plan[i]);
    rt_space_free(g->space);
}

/* ---- how large ---- */

static uint64_t elements_of(const rt_value_buf *b) { return (uint64_t)b->rows * b->cols; }

/* Buffers whose rows grow with the op's are repeated; what the op writes into the others is a sum over all rows. */
static int scale_up(large *g, uint64_t elements, rt_err *e)
{
    rt_layout l = { 0 };
    uint64_t largest = 0;
    g->whole = *g->v.c;
    g->whole.dim[0] *= 2;
    g->whole.set->layout(&g->whole, &l);
    for (uint32_t s = 0; s < rt_op_slots(g->whole.set->kind); s++) {
        rt_view w = g->v.view[s];
        if (!w.buf || l.slot[s].rows == g->v.layout.slot[s].rows) continue;
        const rt_value_buf *b = &g->v.buf[w.buf - 1];
        g->repeated[w.buf - 1] = true;
        if (elements_of(b) > largest) largest = elements_of(b);
    }
    uint64_t repeats = elements / largest + 2, rows = repeats * g->v.c->dim[0]; /* never the pattern alone */
    if (rows > UINT32_MAX)
        return rt_fail(e, RT_INVALID, "case %s: %llu rows are more than a buffer has", g->v.c->name,
                       (unsigned long long)rows);
    g->repeats = (uint32_t)repeats;
    g->whole.dim[0] = (uint32_t)rows;
    for (uint32_t i = 0; i < g->v.nbufs; i++)
        if (!g->repeated[i] && rt_dtype_is_float(g->v.buf[i].dtype)) g->v.buf[i].times = g->repeats;
    return RT_OK;
}

static void add_place(large *g, uint64_t at)
{
    if (at == 0 || at >= g->repeats || g->nplaces == PLACES) return;
    for (uint32_t i = 0; i < g->nplaces; i++)
        if (g->place[i] == at) return;
    g->place[g->nplaces++] = (uint32_t)at;
}

static void choose_places(large *g)
{
    for (uint32_t k = 1; k <= 2; k++) add_place(g, g->repeats - k);
    add_place(g, 1);
    add_place(g, g->repeats / 2);
    for (uint32_t k = 0; k < BY_CHANCE; k++) add_place(g, rt_philox(g->v.seed, 0x6c61726765, k).v[0] % g->repeats);
    for (uint32_t i = 0; i < g->v.nbufs; i++) {
        if (!g->repeated[i]) continue;
        uint64_t bytes = g->v.buf[i].bytes, elements = elements_of(&g->v.buf[i]);
        uint64_t border[] = { (UINT64_C(1) << 31) / elements, (UINT64_C(1) << 31) / bytes, (UINT64_C(1) << 32) / bytes,
                              (UINT64_C(1) << 33) / bytes };
        for (uint32_t k = 0; k < RT_COUNT(border); k++)
            for (uint64_t d = 0; d < 3; d++) add_place(g, border[k] + d - 1); /* the one before, it, the next */
    }
}

/* ---- recording ---- */

static uint32_t rows_of(const large *g, uint32_t buf)
{
    return g->v.buf[buf].rows * (g->repeated[buf] ? g->repeats : 1);
}

static rt_view part(const large *g, uint32_t buf, uint32_t first, uint32_t rows)
{
    uint32_t cols = g->v.buf[buf].cols;
    return (rt_view){ .buf = buf + 1, .rows = rows, .cols = cols, .off = (uint64_t)first * cols, .stride = cols };
}

static void record_repeat(large *g, rt_plan *p)
{
    for (uint32_t i = 0; i < g->v.nbufs; i++) {
        uint32_t done = g->v.buf[i].rows, all = rows_of(g, i);
        if (done < all) rt_plan_assume_defined(p, part(g, i, 0, all));
        while (done < all) {
            uint32_t n = done < all - done ? done : all - done;
            rt_emit_copy(p, part(g, i, done, n), part(g, i, 0, n), RT_NONE);
            done += n;
        }
    }
}

static void record_op(large *g, rt_plan *p)
{
    rt_view view[RT_MAX_SLOTS] = { { 0 } };
    for (uint32_t s = 0; s < RT_MAX_SLOTS; s++)
        if (g->v.view[s].buf) view[s] = part(g, g->v.view[s].buf - 1, 0, rows_of(g, g->v.view[s].buf - 1));
    g->whole.set->emit(p, &g->whole, view);
}

static void record_squares(large *g, rt_plan *p)
{
    for (uint32_t i = 0; i < g->v.nbufs; i++) {
        if (!g->square[i].buf) continue;
        rt_view all = part(g, i, 0, rows_of(g, i));
        rt_plan_assume_defined(p, all);
        rt_emit_norm_sq(p, g->square[i], all, RT_NONE, RT_NONE, 0);
    }
}

static int record(large *g, rt_err *e)
{
    static void (*const steps[PROGRAMS])(large * g, rt_plan * p) = { record_repeat, record_op, record_squares };
    static const char *const names[PROGRAMS] = { "repeat", "op", "squares" };
    int rc;
    RT_TRY(rt_space_new(&g->space, e));
    for (uint32_t i = 0; i < g->v.nbufs; i++) {
        const rt_value_buf *b = &g->v.buf[i];
        rt_space_buf(g->space, b->cls, b->dtype, rows_of(g, i), b->cols, b->name);
    }
    g->nplans = SQUARES;
    for (uint32_t i = 0; i < g->v.nbufs; i++) {
        if (!g->repeated[i] || !g->v.buf[i].written || !rt_dtype_is_float(g->v.buf[i].dtype)) continue;
        g->square[i] = rt_space_buf(g->space, RT_CLASS_OUTPUT, RT_DTYPE_F32, 1, 1, "sum of squares");
        g->nplans = PROGRAMS;
    }
    for (uint32_t k = 0; k < g->nplans; k++) {
        RT_TRY(rt_plan_new(&g->plan[k], g->space, names[k], &rt_policy_f32, e));
        steps[k](g, g->plan[k]);
    }
out:
    return rc;
}

/* ---- running ---- */

static int no_memory(const large *g, rt_err *e)
{
    return rt_fail(e, RT_NOMEM, "no memory for the results of case %s", g->v.c->name);
}

static int allocate(large *g, rt_err *e)
{
    for (uint32_t i = 0; i < g->v.nbufs; i++) {
        g->first.buf[i] = rt_arena_alloc(g->v.arena, g->v.buf[i].bytes);
        g->other.buf[i] = g->repeated[i] ? rt_arena_alloc(g->v.arena, g->v.buf[i].bytes) : g->first.buf[i];
        if (!g->first.buf[i] || !g->other.buf[i]) return no_memory(g, e);
    }
    return RT_OK;
}

/* What does not fit is no failure of the op. */
static int seal(large *g, rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    rt_err why = { 0 };
    rt_seal_opts o = { .memory_limit = env->opts->memory_limit, .guards = true };
    int rc = rt_exec_seal(&g->x, env->dev[0], (const rt_plan *const *)g->plan, g->nplans, &o, &why);
    return rt_case_judge(rc == RT_NOMEM ? RT_UNSUPPORTED : rc, &why, r, e);
}

static int run(large *g, rt_case_result *r, rt_err *e)
{
    int rc = RT_OK;
    rt_err why = { 0 };
    for (uint32_t i = 0; i < g->v.nbufs; i++)
        RT_TRY(rt_exec_write(g->x, part(g, i, 0, g->v.buf[i].rows), g->v.buf[i].init, g->v.buf[i].bytes, &why));
    for (uint32_t k = 0; k < g->nplans; k++) RT_TRY(rt_exec_run(g->x, k, NULL, &why));
    RT_TRY(rt_exec_check(g->x, &why));
out:
    return rt_case_judge(rc, &why, r, e);
}

/* The repetition `at` of all that is repeated; with the first, also what is not. */
static int read_place(large *g, uint32_t at, rt_after *to, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < g->v.nbufs; i++) {
        const rt_value_buf *b = &g->v.buf[i];
        if (at && !g->repeated[i]) continue;
        RT_TRY(rt_exec_read(g->x, part(g, i, at * b->rows, b->rows), to->buf[i], b->bytes, e));
    }
out:
    return rc;
}

static rt_hash128 hash_of(const large *g, const rt_after *a)
{
    rt_hash128 each[RT_MAX_SLOTS] = { { 0 } };
    for (uint32_t i = 0; i < g->v.nbufs; i++) each[i] = rt_hash(a->buf[i], g->v.buf[i].bytes);
    return rt_hash(each, sizeof each);
}

/* ---- checks ---- */

static bool same(rt_hash128 a, rt_hash128 b) { return a.hi == b.hi && a.lo == b.lo; }

static int check_place(large *g, uint32_t at, rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    int rc = rt_case_check(&g->v, env, &g->other, &g->want, r, e);
    if (rc >= 0 && r->outcome == RT_CASE_FAIL) {
        char text[sizeof r->text];
        memcpy(text, r->text, sizeof text);
        snprintf(r->text, sizeof r->text, "from row %llu on, repetition %u of %u: %.220s",
                 (unsigned long long)at * g->v.c->dim[0], at, g->repeats, text);
    }
    return rc;
}

/* As many times what the first repetition has, to the tolerance of norm_sq. */
static int check_squares(large *g, rt_case_result *r, rt_err *e)
{
    const rt_tolerance *t = rt_tolerance_find(RT_OP_NORM_SQ, RT_NSQ_OUT);
    for (uint32_t i = 0; i < g->v.nbufs; i++) {
        const rt_value_buf *b = &g->v.buf[i];
        uint64_t n = elements_of(b);
        double got, want = 0, *x;
        float sum;
        char text[200];
        if (!g->square[i].buf) continue;
        int rc = rt_exec_read(g->x, g->square[i], &sum, sizeof sum, e);
        if (rc < 0) return rc;
        x = rt_values_scratch(&g->v, n * sizeof *x);
        if (!x) return no_memory(g, e);
        rt_values_widen(x, g->first.buf[i], part(g, i, 0, b->rows), b->dtype);
        for (uint64_t k = 0; k < n; k++) want += x[k] * x[k];
        want *= g->repeats;
        got = (double)sum;
        rt_compare c = { &got, &want, &want, 1, 1, RT_DTYPE_F32, t->limit, t->rms };
        rt_verdict v;
        if (rt_compare_floats(&c, &v)) continue;
        rt_verdict_text(&v, text, sizeof text);
        r->error = RT_CASE_BEYOND;
        rt_case_fail(r, "the sum of squares of all of output '%s': %s", b->name, text);
    }
    return RT_OK;
}

static int check_first_run(large *g, rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    int rc;
    RT_TRY(read_place(g, 0, &g->first, e));
    RT_TRY(rt_case_check(&g->v, env, &g->first, &g->want, r, e));
    rt_hash128 first = hash_of(g, &g->first);
    for (uint32_t k = 0; k < g->nplaces && r->outcome == RT_CASE_PASS; k++) {
        RT_TRY(read_place(g, g->place[k], &g->other, e));
        g->seen[k] = hash_of(g, &g->other);
        if (!same(g->seen[k], first)) RT_TRY(check_place(g, g->place[k], env, r, e));
    }
    if (r->outcome == RT_CASE_PASS) RT_TRY(check_squares(g, r, e));
out:
    return rc;
}

static int check_second_run(large *g, rt_case_result *r, rt_err *e)
{
    int rc;
    rt_hash128 before = hash_of(g, &g->first);
    RT_TRY(read_place(g, 0, &g->first, e));
    bool ok = same(before, hash_of(g, &g->first));
    for (uint32_t k = 0; k < g->nplaces && ok; k++) {
        RT_TRY(read_place(g, g->place[k], &g->other, e));
        ok = same(g->seen[k], hash_of(g, &g->other));
    }
    if (ok) return RT_OK;
    r->error = RT_CASE_BEYOND;
    rt_case_fail(r, "outputs are not the same bits in a second run");
out:
    return rc;
}

int rt_large_case_run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    int rc;
    large g = { 0 };
    uint64_t elements = env->opts->elements ? env->opts->elements : UINT64_C(1) << 31;
    if (env->serial) {
        r->outcome = RT_CASE_UNSUPPORTED;
        snprintf(r->text, sizeof r->text, "backend ref in float adds up one by one: no sum over so many rows holds");
        return RT_OK;
    }
    RT_TRY(rt_values_make(&g.v, c->data, env, e));
    RT_TRY(scale_up(&g, elements, e));
    choose_places(&g);
    RT_TRY(record(&g, e));
    RT_TRY(seal(&g, env, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(rt_case_follow_lowering(&g.v, rt_exec_plan(g.x, OP), e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(rt_case_run_double(&g.v, env, &g.want, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(allocate(&g, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(run(&g, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(check_first_run(&g, env, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(run(&g, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(check_second_run(&g, r, e));
out:
    forget(&g);
    return rc;
}
