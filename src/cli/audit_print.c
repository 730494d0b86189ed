/* audit_print.c - `retort verify RUN`: prints each check as it is done, and on which device models were measured. */
#include "cli/cli.h"
#include "job/audit_run.h"

#include <stdio.h>

typedef struct printer {
    json_t *checks; /* with --json; null: text */
    json_t *device; /* of it */
} printer;

static void print_check(void *ctx, const rt_check *c)
{
    const printer *p = ctx;
    if (p->checks) {
        json_array_append_new(p->checks, json_pack("{s:s, s:s, s:s}", "check", c->name, "outcome",
                                                   rt_check_name(c->outcome), "text", c->text));
        return;
    }
    rt_live_hold();
    rt_put_under(31, "%-16s  %-11s  %s\n", c->name, c->outcome == RT_CHECK_FAIL ? "FAIL" : rt_check_name(c->outcome),
                 c->text);
    rt_live_release();
}

static void print_device(void *ctx, rt_dev *d, const char *why)
{
    printer *p = ctx;
    rt_dev_info info = { 0 };
    if (d->api->info(d, &info, NULL) < 0) return;
    if (p->checks) {
        json_decref(p->device);
        p->device =
            json_pack("{s:s, s:s, s:s?}", "backend", d->api->name, "name", info.name, "why", why[0] ? why : NULL);
        return;
    }
    rt_live_hold();
    rt_put_under(31, "%-16s  %-11s  %s: %s%s%s\n", "device", "", d->api->name, info.name, why[0] ? "; " : "", why);
    rt_live_release();
}

static int print_end(const rt_audit_result *v, printer *p, rt_err *e)
{
    char hash[33];
    rt_hash_text(hash, v->manifest);
    if (p->checks)
        return rt_print_json(json_pack("{s:s, s:O?, s:i, s:i, s:i, s:O}", "manifest", hash, "device", p->device,
                                       "passed", (int)v->of[RT_CHECK_PASS], "failed", (int)v->of[RT_CHECK_FAIL],
                                       "not_checked", (int)v->of[RT_CHECK_NOT_CHECKED], "checks", p->checks),
                             e);
    rt_put("%u passed, %u failed, %u not checked\n", v->of[RT_CHECK_PASS], v->of[RT_CHECK_FAIL],
           v->of[RT_CHECK_NOT_CHECKED]);
    return RT_OK;
}

/* What failed, if anything. */
static int judge(const rt_audit_result *v, const char *path, rt_err *e)
{
    uint32_t failed = v->of[RT_CHECK_FAIL], all = failed + v->of[RT_CHECK_PASS] + v->of[RT_CHECK_NOT_CHECKED];
    if (!failed) return RT_OK;
    if (failed == v->claimed)
        return rt_fail(
            e, RT_INVALID,
            "%s: the files are as the run left them, and its claim %s does not hold, as its verdict said: %u "
            "of %u checks failed",
            path, v->claim, failed, all);
    return rt_fail(e, RT_INVALID, "%s is not as the run left it: %u of %u checks failed", path, failed, all);
}

int rt_audit_command(const char *path, const char *device, uint32_t threads, bool json, rt_err *e)
{
    int rc;
    rt_dev *dev = NULL;
    rt_pool *pool = NULL;
    rt_audit_result v;
    rt_job_env env = rt_cli_env(0);
    rt_settings s = { .threads = threads };
    printer p = { .checks = json ? json_array() : NULL };
    if (device) RT_TRY(rt_settings_set(&s, RT_SETTING_ID_device, device, e));
    if (device) RT_TRY(rt_job_device_open(&dev, &s, NULL, env.environment, NULL, e));
    RT_TRY(rt_job_pool_new(&pool, threads, e));
    rt_audit_opts o = { .env = &env.hub,
                        .dev = dev,
                        .environment = env.environment,
                        .threads = threads,
                        .pool = pool,
                        .report = print_check,
                        .device = print_device,
                        .watch = { rt_live_progress, NULL },
                        .ctx = &p };
    rt_live_begin(stderr);
    rc = rt_audit_run(path, &o, &v, e);
    rt_live_end();
    RT_TRY(rc);
    RT_TRY(print_end(&v, &p, e));
    RT_TRY(judge(&v, path, e));
out:
    json_decref(p.checks);
    json_decref(p.device);
    rt_pool_free(pool);
    rt_job_device_close(dev);
    return rc;
}
