/* memory_case.h - for tests: an allocator that fails on demand, and every allocation of some work failing in turn. */
#ifndef RT_TESTS_MEMORY_CASE_H
#define RT_TESTS_MEMORY_CASE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/json.h"
#include "base/mem.h"

#include <stdatomic.h>
#include <stdlib.h>

static _Atomic int64_t allowed = -1; /* allocations until the one that fails; negative: all are allowed */

static inline void *failing_alloc(void *ctx, size_t bytes, size_t align)
{
    (void)ctx;
    if (allowed == 0) return NULL;
    if (allowed > 0) allowed--;
    void *p = NULL;
    return posix_memalign(&p, align < sizeof(void *) ? sizeof(void *) : align, bytes) == 0 ? p : NULL;
}

static inline void failing_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* Runs work until no allocation fails: each failure must be RT_NOMEM with a message and leave nothing behind. work
 * answers its status; `optional` allocations may be lost without one (a note for a person). step: only every so many,
 * where one turn takes long. */
static inline void fail_every(uint64_t step, int (*work)(void *ctx, rt_err *e), void *ctx, int optional)
{
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_err e = { 0 };
    rt_json_init();
    rt_json_forget();
    rt_allocator_set(&failing);
    allowed = -1;
    uint64_t before = rt_alloc_count(), live = rt_alloc_live();
    if (work(ctx, &e) < 0) fail_msg("without failures: %s", e.text);
    uint64_t total = rt_alloc_count() - before;
    assert_true(total > 0);
    for (uint64_t i = 0; i < total; i += step) {
        allowed = (int64_t)i;
        e = (rt_err){ 0 };
        int rc = work(ctx, &e);
        allowed = -1;
        if (rc == RT_OK && optional-- > 0) continue;
        if (rc != RT_NOMEM || !e.text[0])
            fail_msg("allocation %d of %d: status %d, '%s'", (int)i, (int)total, rc, e.text);
        if (rt_alloc_live() != live) fail_msg("allocation %d: %d blocks leaked", (int)i, (int)(rt_alloc_live() - live));
    }
    rt_allocator_set(NULL);
}

static inline void fail_each(int (*work)(void *ctx, rt_err *e), void *ctx, int optional)
{
    fail_every(1, work, ctx, optional);
}

#endif
