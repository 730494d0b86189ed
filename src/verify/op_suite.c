/* op_suite.c - opens the devices, selects the cases, runs them in order, counts. */
#include "verify/case.h"

#include "base/pool.h"
#include "base/str.h"
#include "base/sys.h"

#include <string.h>

/* ---- devices ---- */

static int open_device(rt_verify_env *env, const rt_backend *api, int index, uint32_t threads, rt_err *e)
{
    const rt_dev_opts *told = &env->opts->dev;
    char text[RT_DEV_COUNT_TEXT];
    rt_dev_option *all = rt_arena_alloc(&env->scratch, (told->count + 1) * sizeof *all);
    if (!all) return rt_fail(e, RT_NOMEM, "no memory for the options of a device");
    if (told->count) memcpy(all, told->option, told->count * sizeof *all);
    all[told->count] = (rt_dev_option){ "threads", rt_dev_count(text, threads) };
    const rt_dev_opts o = { .option = all, .count = told->count + 1, .env = told->env };
    int rc = api->open(&env->dev[env->ndevs], index, &o, e);
    if (rc >= 0) env->threads[env->ndevs++] = threads;
    return rc;
}

/* The results of `cpu` must not depend on the number of threads, so there are devices with several. */
static int open_cpu(rt_verify_env *env, const rt_backend *api, rt_err *e)
{
    static const uint32_t counts[] = { 1, 2, 7 };
    int rc;
    uint32_t first = env->opts->threads ? env->opts->threads : rt_cpu_count();
    RT_TRY(open_device(env, api, 0, first, e));
    for (int i = 0; i < 3; i++)
        if (counts[i] != first) RT_TRY(open_device(env, api, 0, counts[i], e));
out:
    return rc;
}

int rt_verify_env_open(rt_verify_env *env, const rt_verify_opts *o, rt_err *e)
{
    int rc;
    const rt_backend *ref, *api = o->api;
    *env = (rt_verify_env){ .opts = o };
    RT_TRY(rt_backend_find("ref", &ref, e));
    if (!api) RT_TRY(rt_backend_find(o->backend ? o->backend : "cpu", &api, e));
    RT_TRY(ref->open(&env->spec, 0, &(rt_dev_opts){ 0 }, e));
    rt_dev_info info;
    env->serial = api == ref;
    if (api == ref)
        RT_TRY(open_device(env, api, 1, 0, e)); /* in float; in double it would be compared with itself */
    else if (strcmp(api->name, "cpu") == 0)
        RT_TRY(open_cpu(env, api, e));
    else
        RT_TRY(open_device(env, api, 0, o->threads, e));
    RT_TRY(api->info(env->dev[0], &info, e));
    env->cuts_off = !info.host;
out:
    if (rc < 0) rt_verify_env_close(env);
    return rc;
}

void rt_verify_env_close(rt_verify_env *env)
{
    for (uint32_t i = 0; i < env->ndevs; i++) env->dev[i]->api->close(env->dev[i]);
    if (env->spec) env->spec->api->close(env->spec);
    rt_arena_free(&env->scratch);
    *env = (rt_verify_env){ 0 };
}

/* ---- selection ---- */

enum { MAX_OPS = 200 };

/* RT_USAGE, with the nearest name, when no case has the op. */
static int check_op(const rt_case_list *l, const rt_verify_opts *o, rt_err *e)
{
    const char *known[MAX_OPS + 1] = { 0 }, *op = o->op;
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->n; i++) {
        if (l->cases[i].large != o->large) continue;
        if (!op || strcmp(l->cases[i].op, op) == 0) return RT_OK;
        if (n < MAX_OPS && (n == 0 || strcmp(known[n - 1], l->cases[i].op) != 0)) known[n++] = l->cases[i].op;
    }
    const char *near = rt_nearest(op, known);
    return rt_fail(e, RT_USAGE, "no %scase is of op '%s'%s%s%s; --list shows all cases", o->large ? "large " : "", op,
                   near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
}

static bool is_selected(const rt_case *c, const rt_verify_opts *o)
{
    return c->large == o->large && (!o->quick || c->quick) && (!o->op || strcmp(c->op, o->op) == 0) &&
           (!o->name || strstr(c->name, o->name));
}

/* RT_USAGE when nothing is left to run. */
static int check_selection(const rt_case_list *l, const rt_verify_opts *o, rt_err *e)
{
    int rc = check_op(l, o, e);
    if (rc < 0 || !o->name) return rc;
    for (uint32_t i = 0; i < l->n; i++)
        if (is_selected(&l->cases[i], o)) return RT_OK;
    return rt_fail(e, RT_USAGE, "no case of those asked for has '%s' in its name; --list shows them", o->name);
}

int rt_verify_list(const rt_verify_opts *o, rt_verify_list_fn each, void *ctx, rt_err *e)
{
    int rc;
    rt_case_list l;
    rc = rt_case_list_all(&l, e);
    if (rc < 0) return rc;
    RT_TRY(check_selection(&l, o, e));
    for (uint32_t i = 0; i < l.n; i++)
        if (is_selected(&l.cases[i], o)) each(ctx, l.cases[i].name, l.cases[i].op);
out:
    rt_case_list_free(&l);
    return rc;
}

/* ---- running ---- */

int rt_case_run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    double start = rt_now();
    *r = (rt_case_result){ .name = c->name, .op = c->op };
    int rc = c->run(c, env, r, e);
    rt_arena_free(&env->scratch);
    if (rc < 0) rt_err_context(e, "case %s", c->name);
    r->seconds = rt_now() - start;
    return rc;
}

static void tally(rt_verify_totals *t, const rt_case_result *r)
{
    t->passed += r->outcome == RT_CASE_PASS;
    t->failed += r->outcome == RT_CASE_FAIL;
    t->unsupported += r->outcome == RT_CASE_UNSUPPORTED;
}

int rt_verify_run(const rt_verify_opts *o, rt_verify_totals *out, rt_err *e)
{
    int rc;
    double start = rt_now();
    rt_case_list l = { 0 };
    rt_verify_env env = { 0 };
    *out = (rt_verify_totals){ 0 };
    RT_TRY(rt_case_list_all(&l, e));
    RT_TRY(check_selection(&l, o, e));
    RT_TRY(rt_verify_env_open(&env, o, e));
    for (uint32_t i = 0; i < l.n; i++) {
        rt_case_result r;
        if (!is_selected(&l.cases[i], o)) continue;
        if (o->stop && o->stop(o->ctx)) RT_TRY(rt_fail(e, RT_INTERRUPTED, "stopped before case %s", l.cases[i].name));
        RT_TRY(rt_case_run(&l.cases[i], &env, &r, e));
        tally(out, &r);
        if (o->report) o->report(o->ctx, &r);
    }
out:
    rt_verify_env_close(&env);
    rt_case_list_free(&l);
    out->seconds = rt_now() - start;
    return rc;
}
