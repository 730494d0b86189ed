/* harness.c - runs one case of one op: on `ref` in double, on the tested backend twice, on it with other numbers of
 * threads; and checks what came back.
 *
 * In order: every output against double (compare.c); no input changed, nothing between the rows of a strided output;
 * guard bands; codes that an op makes at once against those of two ops; the same bits in the second run; the same bits
 * for every number of threads. The first that fails is told. */
#include "verify/harness.h"

#include "exec/exec.h"
#include "verify/compare.h"
#include "verify/tolerance.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>

/* One recording of the case's op. */
typedef struct recording {
    rt_space *space;
    rt_plan *plan;
} recording;

void rt_case_fail(rt_case_result *r, const char *format, ...)
{
    va_list args;
    if (r->outcome != RT_CASE_PASS) return;
    r->outcome = RT_CASE_FAIL;
    va_start(args, format);
    vsnprintf(r->text, sizeof r->text, format, args);
    va_end(args);
}

static void forget(recording *k)
{
    rt_plan_free(k->plan);
    rt_space_free(k->space);
    *k = (recording){ 0 };
}

/* The op's A */
static rt_dtype act_dtype(const rt_op_case *c)
{
    uint32_t i = 0;
    while (rt_op_specs[c->set->kind].slot[i].rule != RT_RULE_ACT) i++;
    return c->sig.dtype[i];
}

static int record(recording *k, const rt_values *v, bool wide, rt_err *e)
{
    int rc;
    RT_TRY(rt_space_new(&k->space, e));
    for (uint32_t i = 0; i < v->nbufs; i++) {
        const rt_value_buf *b = &v->buf[i];
        rt_space_buf(k->space, b->cls, wide ? b->wide : b->dtype, b->rows, b->cols, b->name);
    }
    RT_TRY(rt_plan_new(&k->plan, k->space, v->c->name, wide ? &rt_policy_f64 : &rt_policy_f32, e));
    v->c->set->emit(k->plan, v->c, v->view);
out:
    return rc;
}

/* The same where y is codes, by two ops: the case's own, of which y is a float, and quant_rows. */
static int record_apart(recording *k, const rt_values *v, rt_err *e)
{
    int rc;
    const rt_view *w = v->view;
    rt_view views[RT_MAX_SLOTS];
    RT_TRY(rt_space_new(&k->space, e));
    for (uint32_t i = 0; i < v->nbufs; i++)
        rt_space_buf(k->space, v->buf[i].cls, v->buf[i].dtype, v->buf[i].rows, v->buf[i].cols, v->buf[i].name);
    RT_TRY(rt_plan_new(&k->plan, k->space, v->c->name, &rt_policy_f32, e));
    memcpy(views, w, sizeof views);
    views[RT_CODED_Y] = rt_act(k->plan, act_dtype(v->c), w[RT_CODED_Y].rows, w[RT_CODED_Y].cols, "y");
    views[RT_CODED_SCALE] = RT_NONE;
    v->c->set->emit(k->plan, v->c, views);
    rt_emit_quant_rows(k->plan, w[RT_CODED_Y], w[RT_CODED_SCALE], views[RT_CODED_Y]);
out:
    return rc;
}

static rt_view whole(const rt_value_buf *b, uint32_t i)
{
    return (rt_view){ .buf = i + 1, .rows = b->rows, .cols = b->cols, .stride = b->cols };
}

static int write_all(rt_exec *x, const rt_values *v, bool wide, bool written_only, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < v->nbufs; i++) {
        const rt_value_buf *b = &v->buf[i];
        if (written_only && !b->written) continue;
        RT_TRY(rt_exec_write(x, whole(b, i), wide ? b->init_wide : b->init, wide ? b->wide_bytes : b->bytes, e));
    }
out:
    return rc;
}

static int read_all(rt_exec *x, const rt_values *v, bool wide, bool written_only, rt_after *a, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < v->nbufs; i++) {
        const rt_value_buf *b = &v->buf[i];
        uint64_t bytes = wide ? b->wide_bytes : b->bytes;
        if (written_only && !b->written) continue;
        if (!a->buf[i]) a->buf[i] = rt_arena_alloc(v->arena, bytes); /* the next run reads into the same place */
        if (!a->buf[i]) RT_TRY(rt_fail(e, RT_NOMEM, "no memory for the results of case %s", v->c->name));
        RT_TRY(rt_exec_read(x, whole(b, i), a->buf[i], bytes, e));
    }
out:
    return rc;
}

static int run_once(rt_exec *x, rt_err *e)
{
    int rc;
    rt_ticket t;
    RT_TRY(rt_exec_run(x, 0, &t, e));
    RT_TRY(rt_exec_wait(x, t, e));
out:
    return rc;
}

/* ---- checks ---- */

static int no_memory(const rt_values *v, rt_err *e)
{
    return rt_fail(e, RT_NOMEM, "no memory to compare case %s", v->c->name);
}

static const char *slot_name(const rt_values *v, uint32_t slot) { return rt_op_specs[v->c->set->kind].slot[slot].name; }

static void check_bits(rt_values *v, uint32_t slot, const uint8_t *got, const uint8_t *want, double slack,
                       rt_case_result *r)
{
    rt_view w = v->view[slot];
    rt_dtype d = v->buf[w.buf - 1].dtype;
    uint64_t size = rt_dtype_table[d].block_bytes;
    for (uint32_t row = 0; row < w.rows; row++)
        for (uint32_t col = 0; col < w.cols; col += rt_dtype_table[d].block_elems) {
            uint64_t at = rt_dtype_bytes(d, w.off + row * w.stride + col);
            int32_t g = 0, k = 0;
            if (memcmp(got + at, want + at, size) == 0) continue;
            memcpy(&g, got + at, size < 4 ? size : 4);
            memcpy(&k, want + at, size < 4 ? size : 4);
            if (slack > 0 && v->c->set->accepts && v->c->set->accepts(v, row, g, slack)) continue;
            r->error = RT_CASE_BEYOND;
            rt_case_fail(r, "output '%s', row %u, column %u: %s%d, want %d", slot_name(v, slot), row, col,
                         rt_dtype_is_quant(d) ? "a block that differs, its first bytes are " : "got ", g, k);
            return;
        }
}

/* What `ref` in float is allowed besides; see tolerance.h. */
static double serial_of(const rt_values *v, const rt_verify_env *env, const rt_tolerance *t)
{
    double (*terms)(const rt_op_case *c) = v->c->set->serial_terms;
    return env->serial ? t->serial * sqrt(terms ? terms(v->c) : 1) : 0;
}

static double cut_off_of(const rt_values *v, const rt_verify_env *env)
{
    if (!env->cuts_off || v->c->set->kind != RT_OP_MATMUL) return 0;
    rt_dtype a = v->buf[v->view[RT_MM_A].buf - 1].dtype;
    return a == RT_DTYPE_BF16 || a == RT_DTYPE_F16 ? RT_CUT_OFF_RMS : 0;
}

/* An output that is rounded by chance: want and slack in x, as its op says. */
static int check_chance(rt_values *v, const rt_verify_env *env, uint32_t slot, const rt_after *got,
                        const rt_after *want, const rt_tolerance *t, rt_case_result *r, rt_err *e)
{
    rt_view w = v->view[slot];
    uint64_t n = (uint64_t)w.rows * w.cols;
    char text[RT_ROUNDS_TEXT];
    double *x = rt_values_scratch(v, 2 * n * sizeof *x), limit = t->limit + serial_of(v, env, t);
    if (!x) return no_memory(v, e);
    rt_values_widen(x, want->buf[w.buf - 1], w, RT_DTYPE_F64);
    for (uint64_t i = 0; i < n; i++) x[n + i] = fabs(x[i]);
    if (t->scale == RT_SCALE_TERMS) v->c->set->terms(v, slot, x, x + n);
    if (v->failed) return no_memory(v, e);
    for (uint64_t i = 0; i < n; i++) x[n + i] = limit * RT_ROUNDING_UNIT * x[n + i] + RT_UNDERFLOW;
    if (v->c->set->rounds(v, slot, got->buf, x, x + n, text)) return RT_OK;
    r->error = RT_CASE_BEYOND;
    rt_case_fail(r, "output '%s', %s", slot_name(v, slot), text);
    return RT_OK;
}

static int check_output(rt_values *v, const rt_verify_env *env, uint32_t slot, const rt_after *got,
                        const rt_after *want, rt_case_result *r, rt_err *e)
{
    rt_view w = v->view[slot],
            from = v->view[v->layout.slot[slot].want_from ? v->layout.slot[slot].want_from - 1u : slot];
    const rt_value_buf *b = &v->buf[w.buf - 1];
    const rt_tolerance *t = rt_tolerance_find(v->c->set->kind, slot);
    uint64_t n = (uint64_t)w.rows * w.cols;
    uint32_t times = b->times ? b->times : 1;
    if (!t) {
        rt_case_fail(r, "output '%s' has no tolerance", slot_name(v, slot));
        return RT_OK;
    }
    if (rt_case_codes(v->c) && slot <= RT_CODED_SCALE) return RT_OK; /* run_apart compares them */
    if (v->c->set->by_chance && v->c->set->by_chance(v->c, slot))
        return t->scale == RT_SCALE_EXACT ? RT_OK : check_chance(v, env, slot, got, want, t, r, e);
    if (!rt_dtype_is_float(b->dtype)) {
        double slack = (t->limit + serial_of(v, env, t)) * RT_ROUNDING_UNIT;
        check_bits(v, slot, got->buf[w.buf - 1], want->buf[w.buf - 1], slack, r);
        return v->failed ? no_memory(v, e) : RT_OK;
    }
    double *x = rt_values_scratch(v, 3 * n * sizeof(double));
    if (!x) return no_memory(v, e);
    rt_compare c = { .got = x,
                     .want = x + n,
                     .scale = x + 2 * n,
                     .rows = w.rows,
                     .cols = w.cols,
                     .dtype = b->dtype,
                     .limit = t->limit + serial_of(v, env, t),
                     .rms = t->rms + serial_of(v, env, t) + cut_off_of(v, env) };
    rt_verdict verdict;
    char text[200];
    rt_values_widen(x, got->buf[w.buf - 1], w, b->dtype);
    rt_values_widen(x + n, want->buf[from.buf - 1], from, b->wide);
    if (t->scale == RT_SCALE_TERMS)
        v->c->set->terms(v, slot, x + n, x + 2 * n);
    else
        for (uint64_t i = 0; i < n; i++) x[2 * n + i] = fabs(x[n + i]);
    if (v->failed) return no_memory(v, e);
    for (uint64_t i = 0; times > 1 && i < n; i++) {
        x[n + i] *= times;
        if (x[2 * n + i] > 0) x[2 * n + i] *= times;
    }
    bool ok = rt_compare_floats(&c, &verdict);
    r->error = fmax(r->error, fmin(fmax(verdict.error, verdict.rms_error), RT_CASE_BEYOND));
    if (ok) return RT_OK;
    rt_verdict_text(&verdict, text, sizeof text);
    rt_case_fail(r, "output '%s', %s", slot_name(v, slot), text);
    return RT_OK;
}

/* Everything outside the windows of outputs is as it was. */
static void check_untouched(const rt_values *v, const rt_after *got, rt_case_result *r)
{
    for (uint32_t i = 0; i < v->nbufs; i++) {
        const rt_value_buf *b = &v->buf[i];
        if (!b->written) {
            if (memcmp(got->buf[i], b->init, b->bytes) != 0) rt_case_fail(r, "input '%s' was changed", b->name);
            continue;
        }
        rt_view w = { 0 };
        for (uint32_t s = 0; s < RT_MAX_SLOTS; s++)
            if (v->view[s].buf == i + 1) w = v->view[s];
        uint64_t end = w.off + w.cols; /* columns of the window are off .. end of every row */
        for (uint32_t row = 0; row < b->rows; row++) {
            uint64_t row0 = (uint64_t)row * b->cols, left = rt_dtype_bytes(b->dtype, row0);
            uint64_t from = rt_dtype_bytes(b->dtype, row0 + w.off), to = rt_dtype_bytes(b->dtype, row0 + end);
            uint64_t right = rt_dtype_bytes(b->dtype, row0 + b->cols);
            if (memcmp(got->buf[i] + left, b->init + left, from - left) != 0 ||
                memcmp(got->buf[i] + to, b->init + to, right - to) != 0)
                rt_case_fail(r, "output '%s': something was written beside its row %u", b->name, row);
        }
    }
}

int rt_case_check(rt_values *v, const rt_verify_env *env, const rt_after *got, const rt_after *want, rt_case_result *r,
                  rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < rt_op_slots(v->c->set->kind) && r->outcome == RT_CASE_PASS; i++)
        if (v->view[i].buf && rt_op_specs[v->c->set->kind].slot[i].access != RT_READ)
            RT_TRY(check_output(v, env, i, got, want, r, e));
    if (r->outcome == RT_CASE_PASS) check_untouched(v, got, r);
out:
    return rc;
}

static void check_same(const rt_values *v, const rt_after *one, const rt_after *two, const char *what,
                       rt_case_result *r)
{
    for (uint32_t i = 0; i < v->nbufs; i++) {
        const rt_value_buf *b = &v->buf[i];
        uint64_t at = 0, bytes = rt_dtype_table[b->dtype].block_bytes;
        if (!b->written || memcmp(one->buf[i], two->buf[i], b->bytes) == 0) continue;
        while (memcmp(one->buf[i] + at, two->buf[i] + at, bytes) == 0) at += bytes;
        uint64_t elem = at / bytes * rt_dtype_table[b->dtype].block_elems;
        r->error = RT_CASE_BEYOND;
        rt_case_fail(r, "output '%s' is not the same bits %s: first at row %u, column %u of its buffer", b->name, what,
                     (uint32_t)(elem / b->cols), (uint32_t)(elem % b->cols));
    }
}

/* ---- runs ---- */

int rt_case_judge(int rc, const rt_err *why, rt_case_result *r, rt_err *e)
{
    if (rc >= 0) return RT_OK;
    if (rc == RT_UNSUPPORTED) {
        r->outcome = RT_CASE_UNSUPPORTED;
        snprintf(r->text, sizeof r->text, "%.*s", (int)sizeof r->text - 1, why->text);
        return RT_OK;
    }
    if (rc == RT_INVALID || rc == RT_INTERNAL) {
        rt_case_fail(r, "%.*s", (int)sizeof r->text - 1, why->text);
        return RT_OK;
    }
    return rt_fail(e, rc, "%s", why->text);
}

int rt_case_run_double(const rt_values *v, rt_verify_env *env, rt_after *want, rt_case_result *r, rt_err *e)
{
    int rc;
    recording k = { 0 };
    rt_exec *x = NULL;
    rt_err why = { 0 };
    RT_TRY(record(&k, v, true, &why));
    RT_TRY(rt_exec_seal(&x, env->spec, (const rt_plan *const *)&k.plan, 1, NULL, &why));
    RT_TRY(write_all(x, v, true, false, &why));
    RT_TRY(run_once(x, &why));
    RT_TRY(read_all(x, v, true, true, want, &why));
out:
    rt_exec_free(x);
    forget(&k);
    if (rc < 0) {
        rt_err_context(&why, "in double");
        if (rc == RT_UNSUPPORTED) rc = RT_INTERNAL; /* the specification has to know every op */
    }
    return rt_case_judge(rc, &why, r, e);
}

/* Written, run, checked for guards, read. fresh: nothing is on the device yet, else outputs alone are written again.
 * first: inputs are read back as well. */
static int run_device(const rt_values *v, rt_exec *x, bool fresh, bool first, rt_after *got, rt_case_result *r,
                      rt_err *e)
{
    int rc;
    rt_err why = { 0 };
    RT_TRY(write_all(x, v, false, !fresh, &why));
    RT_TRY(run_once(x, &why));
    RT_TRY(rt_exec_check(x, &why));
    RT_TRY(read_all(x, v, false, !first, got, &why));
out:
    return rt_case_judge(rc, &why, r, e);
}

static int seal_on(rt_exec **x, rt_dev *d, const recording *k, const rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    rt_err why = { 0 };
    rt_seal_opts o = { .memory_limit = env->opts->memory_limit, .poison = true, .guards = true };
    int rc = rt_exec_seal(x, d, (const rt_plan *const *)&k->plan, 1, &o, &why);
    return rt_case_judge(rc, &why, r, e);
}

int rt_case_follow_lowering(rt_values *v, const rt_plan *p, rt_err *e)
{
    int rc = RT_OK;
    for (uint32_t t = 0; t < p->nops; t++) {
        const rt_op *op = &p->ops[t];
        if (op->kind != RT_OP_DEQUANT && op->kind != RT_OP_CAST) continue;
        rt_view to = op->slot[RT_ROWS_Y], from = op->slot[RT_ROWS_X];
        if (to.buf & RT_ACT_BIT && !(from.buf & RT_ACT_BIT))
            RT_TRY(rt_values_recast(v, from.buf - 1, rt_plan_dtype(p, to), e));
    }
out:
    return rc;
}

/* x again, then every other device: the same bits as the first run. */
static int run_again(const rt_values *v, rt_exec *first_exec, const recording *k, rt_verify_env *env,
                     const rt_after *first, rt_case_result *r, rt_err *e)
{
    int rc;
    rt_after got = { 0 };
    RT_TRY(run_device(v, first_exec, false, false, &got, r, e));
    if (r->outcome == RT_CASE_PASS) check_same(v, first, &got, "in a second run", r);
    for (uint32_t i = 1; i < env->ndevs && r->outcome == RT_CASE_PASS; i++) {
        rt_exec *x = NULL;
        char what[80];
        rc = seal_on(&x, env->dev[i], k, env, r, e);
        if (rc >= 0 && x) rc = run_device(v, x, true, false, &got, r, e);
        rt_exec_free(x);
        if (rc < 0) break;
        snprintf(what, sizeof what, "with %u threads and with %u", env->threads[0], env->threads[i]);
        if (r->outcome == RT_CASE_PASS) check_same(v, first, &got, what, r);
    }
out:
    return rc;
}

/* Codes that the op makes at once: the bits of the op and quant_rows one after the other. */
static int run_apart(const rt_values *v, rt_verify_env *env, const rt_after *first, rt_case_result *r, rt_err *e)
{
    int rc;
    recording k = { 0 };
    rt_exec *x = NULL;
    rt_after got = { 0 };
    RT_TRY(record_apart(&k, v, e));
    RT_TRY(seal_on(&x, env->dev[0], &k, env, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(run_device(v, x, true, false, &got, r, e));
    if (r->outcome == RT_CASE_PASS) check_same(v, first, &got, "by two ops, quant_rows the second", r);
out:
    rt_exec_free(x);
    forget(&k);
    return rc;
}

int rt_op_case_run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    int rc;
    rt_values v;
    recording k = { 0 };
    rt_exec *x = NULL;
    rt_after want = { 0 }, got = { 0 };
    RT_TRY(rt_values_make(&v, c->data, env, e));
    RT_TRY(record(&k, &v, false, e));
    RT_TRY(seal_on(&x, env->dev[0], &k, env, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(rt_case_follow_lowering(&v, rt_exec_plan(x, 0), e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(rt_case_run_double(&v, env, &want, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(run_device(&v, x, true, true, &got, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(rt_case_check(&v, env, &got, &want, r, e));
    if (r->outcome == RT_CASE_PASS && rt_case_codes(c->data)) RT_TRY(run_apart(&v, env, &got, r, e));
    if (r->outcome == RT_CASE_PASS) RT_TRY(run_again(&v, x, &k, env, &got, r, e));
out:
    rt_exec_free(x);
    forget(&k);
    return rc;
}
