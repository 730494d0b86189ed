/* grad_check.c - the difference engine of grad.h. */
#include "verify/grad.h"

#include "base/rng.h"

#include <math.h>
#include <stdio.h>

double rt_test_normal(uint64_t seed, uint64_t index)
{
    rt_rng4 r = rt_philox(seed, 0x6e6f726d616cull, index);
    double s = 0; /* sum of four uniforms: bounded by 3.5, which keeps exponentials tame */
    for (int i = 0; i < 4; i++) s += rt_rng_unit(r.v[i]) - 0.5;
    return s * 1.7320508075688772;
}

static uint64_t elems(rt_view v) { return (uint64_t)v.rows * v.cols; }

typedef struct engine {
    const rt_grad_problem *g;
    rt_exec *x;
    double *value[RT_GRAD_VARS];    /* inputs */
    double *analytic[RT_GRAD_VARS]; /* gradients from backward */
    double *weight[RT_GRAD_OUTS], *y[RT_GRAD_OUTS];
} engine;

static int alloc_all(engine *n, rt_err *e)
{
    const rt_grad_problem *g = n->g;
    bool ok = true;
    for (uint32_t i = 0; i < g->nvars; i++) {
        n->value[i] = rt_alloc(elems(g->var[i].x) * 8, 16);
        n->analytic[i] = rt_alloc(elems(g->var[i].x) * 8, 16);
        ok = ok && n->value[i] && n->analytic[i];
    }
    for (uint32_t i = 0; i < g->nouts; i++) {
        n->weight[i] = rt_alloc(elems(g->out[i].y) * 8, 16);
        n->y[i] = rt_alloc(elems(g->out[i].y) * 8, 16);
        ok = ok && n->weight[i] && n->y[i];
    }
    return ok ? RT_OK : rt_fail(e, RT_NOMEM, "no memory for a gradient check");
}

static int fill_all(engine *n, rt_err *e)
{
    int rc = RT_OK;
    const rt_grad_problem *g = n->g;
    for (uint32_t i = 0; i < g->nvars; i++) {
        uint64_t count = elems(g->var[i].x);
        for (uint64_t k = 0; k < count; k++)
            n->value[i][k] = rt_test_normal(g->seed + 1000 * (i + 1), k) * (g->spread > 0 ? g->spread : 1.0);
        RT_TRY(rt_exec_write(n->x, g->var[i].x, n->value[i], count * 8, e));
    }
    for (uint32_t i = 0; i < g->nouts; i++) {
        uint64_t count = elems(g->out[i].y);
        for (uint64_t k = 0; k < count; k++)
            n->weight[i][k] = g->out[i].weights ? g->out[i].weights[k] : rt_test_normal(g->seed + 77 * (i + 1), k);
        if (g->out[i].dy.buf) RT_TRY(rt_exec_write(n->x, g->out[i].dy, n->weight[i], count * 8, e));
    }
    for (uint32_t i = 0; i < g->ndata; i++)
        RT_TRY(rt_exec_write(n->x, g->data[i].v, g->data[i].data, rt_view_bytes(g->forward, g->data[i].v), e));
out:
    return rc;
}

static int loss_of(engine *n, double *loss, rt_err *e)
{
    int rc;
    RT_TRY(rt_exec_run(n->x, 0, NULL, e));
    *loss = 0;
    for (uint32_t i = 0; i < n->g->nouts; i++) {
        uint64_t count = elems(n->g->out[i].y);
        RT_TRY(rt_exec_read(n->x, n->g->out[i].y, n->y[i], count * 8, e));
        for (uint64_t k = 0; k < count; k++) *loss += n->weight[i][k] * n->y[i][k];
    }
out:
    return rc;
}

static int loss_at(engine *n, uint32_t var, uint64_t k, double value, double *loss, rt_err *e)
{
    rt_view x = n->g->var[var].x, one = { x.buf, 1, 1, x.off + k, 1 };
    int rc = rt_exec_write(n->x, one, &value, 8, e);
    return rc < 0 ? rc : loss_of(n, loss, e);
}

/* (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h */
static int difference(engine *n, uint32_t var, uint64_t k, double h, double *out, rt_err *e)
{
    int rc;
    double v = n->value[var][k], f1, f2, f3, f4, f0;
    RT_TRY(loss_at(n, var, k, v + h, &f1, e));
    RT_TRY(loss_at(n, var, k, v - h, &f2, e));
    RT_TRY(loss_at(n, var, k, v + 2 * h, &f3, e));
    RT_TRY(loss_at(n, var, k, v - 2 * h, &f4, e));
    RT_TRY(loss_at(n, var, k, v, &f0, e));
    *out = (8 * (f1 - f2) - (f3 - f4)) / (12 * h);
out:
    return rc;
}

static void note(const engine *n, rt_grad_report *r, uint32_t var, uint64_t k, double numeric, double largest)
{
    double a = n->analytic[var][k], scale = fmax(fmax(fabs(a), fabs(numeric)), 1e-3 * largest);
    double ratio = fabs(a - numeric) / (1e-6 * scale);
    r->checked++;
    if (scale == 0) return; /* a tensor whose gradient is 0 everywhere, and is */
    if (!(ratio <= r->worst)) {
        r->worst = isnan(ratio) ? INFINITY : ratio;
        snprintf(r->where, sizeof r->where, "d/d%s[%llu]: analytic %.12g, numeric %.12g", n->g->var[var].name,
                 (unsigned long long)k, a, numeric);
    }
}

static int check_var(engine *n, uint32_t var, rt_grad_report *r, rt_err *e)
{
    int rc = RT_OK;
    const rt_grad_problem *g = n->g;
    uint64_t count = elems(g->var[var].x), step = g->samples && g->samples < count ? count / g->samples : 1;
    double largest = 0;
    for (uint64_t k = 0; k < count; k++) largest = fmax(largest, fabs(n->analytic[var][k]));
    for (uint64_t k = (step - 1) / 2; k < count; k += step) {
        double numeric;
        RT_TRY(difference(n, var, k, g->h > 0 ? g->h : 1e-3, &numeric, e));
        note(n, r, var, k, numeric, largest);
    }
out:
    return rc;
}

int rt_grad_check(rt_dev *ref_double, const rt_grad_problem *g, rt_grad_report *report, rt_err *e)
{
    int rc;
    engine n = { .g = g };
    const rt_plan *plans[2] = { g->forward, g->backward };
    rt_seal_opts o = { .poison = true };
    *report = (rt_grad_report){ 0 };
    RT_TRY(rt_exec_seal(&n.x, ref_double, plans, 2, &o, e));
    RT_TRY(alloc_all(&n, e));
    RT_TRY(fill_all(&n, e));
    RT_TRY(rt_exec_run(n.x, 1, NULL, e));
    for (uint32_t i = 0; i < g->nvars; i++)
        RT_TRY(rt_exec_read(n.x, g->var[i].dx, n.analytic[i], elems(g->var[i].dx) * 8, e));
    for (uint32_t i = 0; i < g->nvars; i++) RT_TRY(check_var(&n, i, report, e));
out:
    for (uint32_t i = 0; i < g->nvars; i++) {
        rt_free(n.value[i]);
        rt_free(n.analytic[i]);
    }
    for (uint32_t i = 0; i < g->nouts; i++) {
        rt_free(n.weight[i]);
        rt_free(n.y[i]);
    }
    rt_exec_free(n.x);
    return rc;
}
