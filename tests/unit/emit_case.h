/* emit_case.h - shared by test_emit.c and test_emit_loss.c: a call is tried on a plan of its own and must be recorded
 * as op.h says (ACCEPT, SLOTS_ARE) or refused with a message that has given parts in it (REFUSE). */
#ifndef RT_TEST_EMIT_CASE_H
#define RT_TEST_EMIT_CASE_H

#include "op/emit.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

/* Every buffer lives in the space, so that each call can be tried on a plan of its own. */
static rt_space *space;
static rt_plan *plan;
static rt_op last; /* the last op of the plan that was accepted */

static inline int setup(void **state)
{
    (void)state;
    return rt_space_new(&space, NULL);
}

static inline int teardown(void **state)
{
    (void)state;
    rt_plan_free(plan);
    plan = NULL;
    rt_space_free(space);
    space = NULL;
    return 0;
}

static inline void fresh_plan(void)
{
    rt_plan_free(plan);
    assert_int_equal(rt_plan_new(&plan, space, "test", &rt_policy_f32, NULL), RT_OK);
}

static inline void accepted(rt_op_kind kind, const char *call, int line)
{
    rt_err e = { 0 };
    if (rt_plan_status(plan, &e) != RT_OK) fail_msg("line %d: %s was refused: %s", line, call, e.text);
    if (plan->nops == 0) fail_msg("line %d: %s recorded nothing", line, call);
    last = plan->ops[plan->nops - 1];
    if (last.kind != kind) fail_msg("line %d: %s recorded %s", line, call, rt_op_name(last.kind));
}

/* parts: what the message must contain, ended by null */
static inline void refused(const char *const *parts, const char *call, int line)
{
    rt_err e = { 0 };
    int status = rt_plan_status(plan, &e);
    if (status != RT_INVALID) fail_msg("line %d: %s ended with %s", line, call, rt_status_name(status));
    if (plan->nops != 0) fail_msg("line %d: %s was refused and recorded", line, call);
    for (; *parts; parts++)
        if (!strstr(e.text, *parts)) fail_msg("line %d: \"%s\" is not in \"%s\"", line, *parts, e.text);
}

/* The operands are where op.h says, and nothing else is there. */
static inline void slots_are(const rt_view *views, uint32_t n, int line)
{
    if (n != rt_op_slots(last.kind)) fail_msg("line %d: %u views for %u slots", line, n, rt_op_slots(last.kind));
    for (uint32_t i = 0; i < RT_MAX_SLOTS; i++) {
        rt_view want = i < n ? views[i] : RT_NONE, got = last.slot[i];
        if (got.buf != want.buf || got.rows != want.rows || got.cols != want.cols)
            fail_msg("line %d: slot %u of %s is another view", line, i, rt_op_name(last.kind));
    }
}

#define ACCEPT(kind, call)                                                                                             \
    do {                                                                                                               \
        fresh_plan();                                                                                                  \
        call;                                                                                                          \
        accepted(RT_OP_##kind, #call, __LINE__);                                                                       \
    } while (0)
#define REFUSE(call, ...)                                                                                              \
    do {                                                                                                               \
        fresh_plan();                                                                                                  \
        call;                                                                                                          \
        refused((const char *const[]){ __VA_ARGS__, NULL }, #call, __LINE__);                                          \
    } while (0)

#define SLOTS_ARE(...)                                                                                                 \
    slots_are((const rt_view[]){ __VA_ARGS__ }, sizeof((const rt_view[]){ __VA_ARGS__ }) / sizeof(rt_view), __LINE__)

static inline rt_view in(rt_dtype d, uint32_t rows, uint32_t cols)
{
    rt_view v = rt_space_buf(space, RT_CLASS_INPUT, d, rows, cols, "in");
    if (!v.buf) fail_msg("%s", space->err.text);
    return v;
}

static inline rt_view f32(uint32_t rows, uint32_t cols) { return in(RT_DTYPE_F32, rows, cols); }

static inline rt_view i32(uint32_t rows, uint32_t cols) { return in(RT_DTYPE_I32, rows, cols); }

/* Not written before: what is recorded on it assigns. */
static inline rt_view out(uint32_t rows, uint32_t cols)
{
    return rt_space_buf(space, RT_CLASS_OUTPUT, RT_DTYPE_F32, rows, cols, "out");
}

static inline rt_view out_i32(uint32_t rows, uint32_t cols)
{
    return rt_space_buf(space, RT_CLASS_OUTPUT, RT_DTYPE_I32, rows, cols, "out");
}

static inline rt_view step_buf(void)
{
    return rt_space_buf(space, RT_CLASS_STEP, RT_DTYPE_U8, 1, sizeof(rt_step), "step");
}

static inline rt_view fault_buf(void) { return rt_space_buf(space, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault"); }

#endif
