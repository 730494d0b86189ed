/* exec_case.h - what the tests of exec share: devices, a run that must go well, and backends that are `ref` with one
 * function replaced. */
#ifndef RT_TESTS_UNIT_EXEC_CASE_H
#define RT_TESTS_UNIT_EXEC_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/exec_internal.h"

static inline const rt_backend *backend(const char *name)
{
    const rt_backend *b;
    rt_err e = { 0 };
    if (rt_backend_find(name, &b, &e) < 0) fail_msg("%s", e.text);
    return b;
}
static inline rt_dev *open_dev(const char *name, uint32_t threads)
{
    rt_dev *d = NULL;
    rt_err e = { 0 };
    char count[RT_DEV_COUNT_TEXT];
    if (backend(name)->open(&d, 0, &RT_DEV_OPTIONS({ "threads", rt_dev_count(count, threads) }), &e) < 0)
        fail_msg("%s", e.text);
    return d;
}
static inline void ok(int rc, const rt_err *e)
{
    if (rc < 0) fail_msg("%d: %s", rc, e->text);
}
static inline void run(rt_exec *x, uint32_t program)
{
    rt_err e = { 0 };
    rt_ticket t;
    ok(rt_exec_run(x, program, &t, &e), &e);
    ok(rt_exec_wait(x, t, &e), &e);
}

/* ---- fake backends: `ref` with one function replaced ---- */

static rt_backend fake;
static const rt_backend *real_api;
static inline const rt_backend *as_real(rt_dev *d)
{
    const rt_backend *f = d->api;
    d->api = real_api;
    return f;
}
static inline rt_dev *open_fake(bool (*supports)(rt_dev *, const rt_plan *, const rt_op *, rt_need *))
{
    rt_dev *d = open_dev("ref", 0);
    real_api = d->api;
    fake = *real_api;
    fake.name = "fake";
    fake.supports = supports;
    d->api = &fake;
    return d;
}
static inline void close_fake(rt_dev *d)
{
    d->api = real_api;
    d->api->close(d);
}

#endif
