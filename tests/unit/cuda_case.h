/* cuda_case.h - what the tests of the CUDA backend on a stand-in driver share: a device, two products. */
#ifndef RT_TESTS_UNIT_CUDA_CASE_H
#define RT_TESTS_UNIT_CUDA_CASE_H

#include "standin_case.h"

#include "backend/cuda/cuda_internal.h"
#include "exec/exec.h"
#include "op/emit.h"

#include <stdlib.h>
#include <string.h>

static const standin FRESH = { STANDIN_MACHINE };

static int fresh(void **state)
{
    (void)state;
    *s = FRESH;
    return 0;
}

static const rt_backend *cuda(void)
{
    const rt_backend *b;
    assert_int_equal(rt_backend_find("cuda", &b, NULL), RT_OK);
    return b;
}

static rt_dev *open_ok(const rt_dev_opts *o)
{
    rt_dev *d = NULL;
    rt_err e = { 0 };
    if (cuda()->open(&d, 0, o, &e) < 0) fail_msg("%s", e.text);
    return d;
}

/* ---- two products, one of them with a bias ---- */

enum { M = 24, N = 16, K = 32 }; /* M: more rows than kernels of ours for few rows take */

typedef struct fixture {
    rt_space *space;
    rt_plan *plan;
    rt_view a, w, bias, y;
} fixture;

static int record(fixture *f, rt_dtype bias, rt_err *e)
{
    int rc;
    *f = (fixture){ 0 };
    RT_TRY(rt_space_new(&f->space, e));
    f->a = rt_space_buf(f->space, RT_CLASS_INPUT, RT_DTYPE_BF16, M, K, "a");
    f->w = rt_space_buf(f->space, RT_CLASS_PARAM, RT_DTYPE_BF16, N, K, "w");
    f->bias = rt_space_buf(f->space, RT_CLASS_PARAM, bias, 1, N, "bias");
    f->y = rt_space_buf(f->space, RT_CLASS_OUTPUT, RT_DTYPE_BF16, M, N, "y");
    RT_TRY(rt_plan_new(&f->plan, f->space, "products", &rt_policy_bf16, e));
    rt_emit_matmul(f->plan, f->y, f->a, f->w, f->bias, "nt", 1.0f);
    rt_emit_matmul(f->plan, f->y, f->a, f->w, RT_NONE, "nt", 0.5f); /* += */
out:
    return rc;
}

static void forget(fixture *f)
{
    rt_plan_free(f->plan);
    rt_space_free(f->space);
}

/* A whole life: open, seal, upload, run, read, close. */
__attribute__((unused)) static int live_once(const rt_dev_opts *o, rt_err *e)
{
    int rc;
    fixture f = { 0 };
    rt_dev *d = NULL;
    rt_exec *x = NULL;
    rt_ticket t;
    uint16_t w[N * K] = { 0 }, y[M * N];
    RT_TRY(record(&f, RT_DTYPE_BF16, e));
    RT_TRY(cuda()->open(&d, 0, o, e));
    RT_TRY(rt_exec_seal(&x, d, (const rt_plan *const *)&f.plan, 1, NULL, e));
    RT_TRY(rt_exec_write(x, f.w, w, sizeof w, e));
    RT_TRY(rt_exec_run(x, 0, &t, e));
    RT_TRY(rt_exec_wait(x, t, e));
    RT_TRY(rt_exec_read(x, f.y, y, sizeof y, e));
out:
    rt_exec_free(x);
    cuda()->close(d);
    forget(&f);
    return rc;
}

#endif
