/* test_oom.c - every allocation fails in turn, in open, record, seal, run, read, print, hash and close: no crash, no
 * leak, and an error that says so. JSON, with its thousands of small allocations, has such a loop in test_plan_print.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "exec/exec.h"
#include "memory_case.h"
#include "verify/block.h"

#include <stdlib.h>

/* The life of an engine from beginning to end. */
static int whole_life(const char *backend, const rt_policy *policy, rt_seal_opts o, rt_err *e)
{
    static const rt_block_shape shape = { .config = { .layers = 1,
                                                      .width = 8,
                                                      .heads = 2,
                                                      .kv_heads = 1,
                                                      .head_dim = 8,
                                                      .hidden = 5,
                                                      .vocab = 9,
                                                      .qkv_bias = true,
                                                      .o_bias = true,
                                                      .qk_norm = true },
                                          .B = 1,
                                          .T = 3,
                                          .chunk = 3,
                                          .documents = true,
                                          .divergence = RT_DIV_JSD,
                                          .temperature = 2.0f,
                                          .mix = 0.5f };
    int rc;
    const rt_backend *api;
    rt_dev *d = NULL;
    rt_block *b = NULL;
    rt_exec *x = NULL;
    rt_str text = { 0 };
    rt_hash128 hash;
    rt_ticket t;
    uint8_t sums[32];
    RT_TRY(rt_backend_find(backend, &api, e));
    RT_TRY(api->open(&d, 0, &RT_DEV_OPTIONS({ "threads", "2" }), e));
    RT_TRY(rt_block_new(&b, &shape, policy, e));
    const rt_plan *plans[] = { b->step, b->eval };
    RT_TRY(rt_exec_seal(&x, d, plans, 2, &o, e));
    RT_TRY(rt_block_fill(x, b, e));
    RT_TRY(rt_exec_run(x, 0, &t, e));
    RT_TRY(rt_exec_wait(x, t, e));
    RT_TRY(rt_exec_read(x, b->sums, sums, rt_view_bytes(b->step, b->sums), e));
    RT_TRY(rt_exec_print(x, 0, RT_PRINT_TEXT, &text, e));
    RT_TRY(rt_exec_hash(x, 0, &hash, e));
out:
    rt_str_free(&text);
    rt_exec_free(x);
    rt_block_free(b);
    if (d) d->api->close(d);
    return rc;
}

static void fail_each_of(const char *backend, const rt_policy *policy, rt_seal_opts o)
{
    rt_err e = { 0 };
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    rt_allocator_set(&failing);
    allowed = -1;
    uint64_t before = rt_alloc_count();
    if (whole_life(backend, policy, o, &e) < 0) fail_msg("%s", e.text);
    uint64_t total = rt_alloc_count() - before;
    assert_true(total > 50);
    for (uint64_t i = 0; i < total; i++) {
        allowed = (int64_t)i;
        e = (rt_err){ 0 };
        int rc = whole_life(backend, policy, o, &e);
        if (rc != RT_NOMEM)
            fail_msg("%s: allocation %llu of %llu: status %d, '%s'", backend, (unsigned long long)i,
                     (unsigned long long)total, rc, e.text);
        if (!e.text[0]) fail_msg("%s: allocation %llu: no message", backend, (unsigned long long)i);
        if (rt_alloc_live() != 0)
            fail_msg("%s: allocation %llu: %llu blocks leaked", backend, (unsigned long long)i,
                     (unsigned long long)rt_alloc_live());
    }
    allowed = -1;
    rt_allocator_set(NULL);
}

static void cpu(void **state)
{
    (void)state;
    fail_each_of("cpu", &rt_policy_bf16, (rt_seal_opts){ 0 });
}
static void cpu_with_aids(void **state)
{
    (void)state;
    fail_each_of("cpu", &rt_policy_f32, (rt_seal_opts){ .poison = true, .guards = true });
}
static void ref(void **state)
{
    (void)state;
    fail_each_of("ref", &rt_policy_f64, (rt_seal_opts){ .poison = true });
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(cpu), cmocka_unit_test(cpu_with_aids), cmocka_unit_test(ref) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
