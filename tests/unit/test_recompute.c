/* test_recompute.c - what is computed again for backward changes memory and nothing else: the same bits at every level
 * and in random mixes of them over the layers, for every family, with adapters and dropout; words and counts; which
 * layers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/rng.h"
#include "exec/exec.h"
#include "train/recompute.h"
#include "verify/block.h"

#include <stdio.h>
#include <string.h>

enum { B = 2, T = 40 }; /* longer than the window of 32 that tiny-mistral has */

static rt_dev *open_device(const char *name)
{
    rt_dev *d = NULL;
    rt_err e = { 0 };
    if (rt_device_open(&d, name, &(rt_dev_opts){ 0 }, NULL, &e) < 0) fail_msg("%s", e.text);
    return d;
}

/* All gradients, and the sums of the loss. */
static uint8_t *bits_of(rt_dev *d, const rt_block_shape *s, const rt_policy *policy, uint64_t *size)
{
    rt_err e = { 0 };
    rt_block *b = NULL;
    rt_exec *x = NULL;
    if (rt_block_new(&b, s, policy, &e) < 0) fail_msg("%s", e.text);
    const rt_plan *plan = b->step;
    if (rt_exec_seal(&x, d, &plan, 1, &(rt_seal_opts){ .poison = true }, &e) < 0) fail_msg("%s", e.text);
    if (rt_block_fill(x, b, &e) < 0 || rt_exec_run(x, 0, NULL, &e) < 0) fail_msg("%s", e.text);
    *size = rt_view_bytes(b->step, b->sums);
    for (uint32_t i = 0; i < b->decoder->param_count; i++) *size += rt_view_bytes(b->step, b->decoder->params[i].grad);
    uint8_t *all = rt_alloc(*size, 16), *at = all;
    assert_non_null(all);
    for (uint32_t i = 0; i <= b->decoder->param_count; i++) {
        rt_view v = i < b->decoder->param_count ? b->decoder->params[i].grad : b->sums;
        assert_int_equal(rt_exec_read(x, v, at, rt_view_bytes(b->step, v), &e), RT_OK);
        at += rt_view_bytes(b->step, v);
    }
    rt_exec_free(x);
    rt_block_free(b);
    return all;
}

/* Mix m: the levels alone, then random ones. */
static void mix(rt_block_shape *s, uint32_t m)
{
    for (uint32_t i = 0; i < s->config.layers; i++)
        s->recompute[i] = m <= RT_RECOMPUTE_LEVELS
                              ? (rt_recompute)(m - 1)
                              : (rt_recompute)(rt_philox(91, m, i).v[0] % (RT_RECOMPUTE_LEVELS + 1) - 1);
}

static void same_on(const char *device, const rt_policy *policy, const char *what, rt_block_shape s, uint32_t mixes)
{
    uint64_t size, other;
    rt_dev *d = open_device(device);
    mix(&s, 0);
    uint8_t *kept = bits_of(d, &s, policy, &size);
    for (uint32_t m = 1; m < mixes; m++) {
        mix(&s, m);
        uint8_t *again = bits_of(d, &s, policy, &other);
        assert_int_equal(size, other);
        if (memcmp(kept, again, size) != 0) fail_msg("%s on %s: mix %u has other bits", what, device, m);
        rt_free(again);
    }
    rt_free(kept);
    d->api->close(d);
}

/* Where storage is as wide as arithmetic. Elsewhere (bf16) a norm that is made again begins with the residual stream as
 * it was stored, and the one in forward with its sum unrounded, as docs/cuda.md says. */
static void no_level_changes_a_bit(void **state)
{
    static const char *const presets[] = { "tiny-llama", "tiny-qwen2", "tiny-qwen3", "tiny-mistral", "tiny-smollm3" };
    (void)state;
    for (int i = 0; i < 10; i++) {
        rt_block_shape s = { .B = B, .T = T, .chunk = 37, .documents = i % 3 == 0, .temperature = 1.0f };
        const rt_preset *p = rt_preset_find(presets[i / 2]);
        assert_non_null(p);
        rt_preset_fill(p, &s.config);
        assert_true(s.config.layers >= 2 && s.config.layers <= RT_BLOCK_LAYERS);
        if (i % 2) s.lora = (rt_lora){ .rank = 3, .alpha = 5, .roles = RT_LORA_ROLES, .dropout = 0.25 };
        same_on("cpu", &rt_policy_f32, presets[i / 2], s, 12);
        same_on("ref:1", &rt_policy_f32, presets[i / 2], s, 6);
        same_on("ref", &rt_policy_f64, presets[i / 2], s, 6);
    }
}

/* ---- which layers ---- */

static uint64_t peak_of(rt_block_shape *s)
{
    rt_err e = { 0 };
    rt_block *b = NULL;
    uint32_t op;
    if (rt_block_new(&b, s, &rt_policy_f32, &e) < 0) fail_msg("%s", e.text);
    rt_life *life = rt_alloc((b->step->nacts + 1) * sizeof *life, 16);
    assert_non_null(life);
    uint64_t peak = rt_plan_lifetimes(b->step, life, &op);
    rt_free(life);
    rt_block_free(b);
    return peak;
}

/* Of four layers k are recomputed: never more memory when they are the lowest, and less when the peak is in backward.
 */
static void the_lowest_layers_are_recomputed(void **state)
{
    (void)state;
    rt_block_shape s = { .B = 2, .T = 64, .chunk = 16, .temperature = 1.0f };
    s.config = (rt_model_config){ RT_BLOCK_DIMS(4, 64, 4, 2, 16, 192, 131), .qk_norm = true };
    for (rt_recompute r = RT_RECOMPUTE_NORMS; r <= RT_RECOMPUTE_BLOCK; r++) {
        uint64_t before = UINT64_MAX;
        for (uint32_t k = 0; k <= 4; k++) {
            for (uint32_t i = 0; i < 4; i++) s.recompute[i] = i < k ? r : RT_RECOMPUTE_NONE;
            uint64_t low = peak_of(&s);
            for (uint32_t i = 0; i < 4; i++) s.recompute[i] = i >= 4 - k ? r : RT_RECOMPUTE_NONE;
            uint64_t high = peak_of(&s);
            print_message("level %d, %u of 4 layers: %llu bytes, the highest instead %llu\n", (int)r, k,
                          (unsigned long long)low, (unsigned long long)high);
            assert_true(low <= high && (low < before || k == 4)); /* the last layer is needed at once: no gain */
            if (k == 1 && r >= RT_RECOMPUTE_MLP) assert_true(low < high);
            before = low;
        }
    }
}

/* ---- words ---- */

static void counts_have_one_spelling(void **state)
{
    static const struct {
        const char *text, *said;
        uint32_t norms, mlp, block;
    } good[] = { { "none", "none", 0, 0, 0 },
                 { "keep", "keep", 0, 0, 0 },
                 { "block", "block", 0, 0, RT_RECOMPUTE_ALL },
                 { "mlp", "mlp", 0, RT_RECOMPUTE_ALL, 0 },
                 { "norms", "norms", RT_RECOMPUTE_ALL, 0, 0 },
                 { "norms:10,block:14", "block:14,norms:10", 10, 0, 14 },
                 { "mlp:1", "mlp:1", 0, 1, 0 },
                 { "mlp:3,norms:2,block:1024", "block:1024,mlp:3,norms:2", 2, 3, 1024 } };
    static const char *const bad[] = { "",           "all",       "block:",     "block:0",       "block:-1",
                                       "block: 3",   "block:3,",  ",block:3",   "block:3;mlp:2", "block:3,block:2",
                                       "none:3",     "block,mlp", "block:1025", "blocks",        "block:3x",
                                       "mlp:2,none", "BLOCK" };
    rt_recompute_counts c;
    char text[RT_RECOMPUTE_TEXT];
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(rt_recompute_parse(good[i].text, &c));
        assert_int_equal(c.count[RT_RECOMPUTE_NORMS], good[i].norms);
        assert_int_equal(c.count[RT_RECOMPUTE_MLP], good[i].mlp);
        assert_int_equal(c.count[RT_RECOMPUTE_BLOCK], good[i].block);
        assert_int_equal(c.count[RT_RECOMPUTE_NONE], 0);
        assert_int_equal(rt_recompute_named(&c), good[i].norms + good[i].mlp + good[i].block);
        assert_string_equal(rt_recompute_text(text, &c), good[i].said);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (rt_recompute_parse(bad[i], &c)) fail_msg("'%s'", bad[i]);
}

static void counts_become_levels(void **state)
{
    static const rt_recompute want[] = { 0, 0, 3, 3, 3, 2, 1, 1, 0, 0 };
    rt_recompute got[10];
    rt_recompute_counts c;
    (void)state;
    assert_true(rt_recompute_parse("norms:2,mlp:1,block:3", &c));
    rt_recompute_levels(&c, 2, 10, got); /* two layers that backward does not reach */
    assert_memory_equal(got, want, sizeof want);
    c = rt_recompute_every(RT_RECOMPUTE_MLP);
    rt_recompute_levels(&c, 4, 10, got);
    for (int i = 0; i < 10; i++) assert_int_equal(got[i], i < 4 ? RT_RECOMPUTE_NONE : RT_RECOMPUTE_MLP);
    rt_recompute_levels(&c, 10, 10, got); /* it reaches none */
    for (int i = 0; i < 10; i++) assert_int_equal(got[i], RT_RECOMPUTE_NONE);
    rt_recompute_counts keep = rt_recompute_every(RT_RECOMPUTE_NOTHING);
    rt_recompute_levels(&keep, 2, 4, got);
    assert_true(got[1] == RT_RECOMPUTE_NONE && got[2] == RT_RECOMPUTE_NOTHING && got[3] == RT_RECOMPUTE_NOTHING);
    assert_true(rt_recompute_same(&c, &c) && rt_recompute_named(&c) == RT_RECOMPUTE_ALL);
    rt_recompute_counts none = rt_recompute_every(RT_RECOMPUTE_NONE);
    assert_true(!rt_recompute_same(&c, &none) && rt_recompute_named(&none) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_level_changes_a_bit),
        cmocka_unit_test(the_lowest_layers_are_recomputed),
        cmocka_unit_test(counts_have_one_spelling),
        cmocka_unit_test(counts_become_levels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
