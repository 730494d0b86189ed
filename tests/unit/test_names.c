/* test_names.c - the table of parameters: names both ways, shapes, the one order, counts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "format/config/names.h"

#include <stdio.h>
#include <string.h>

static rt_model_config config_of(const char *preset)
{
    rt_model_config c;
    const rt_preset *p = rt_preset_find(preset);
    assert_non_null(p);
    rt_preset_fill(p, &c);
    return c;
}

static void names_go_both_ways(void **state)
{
    (void)state;
    static const uint32_t layers[] = { 0, 7, 10, 999, RT_MAX_LAYERS - 1 };
    char hf[RT_NAME_BYTES], gguf[RT_NAME_BYTES];
    for (int r = 0; r < RT_ROLE_COUNT; r++) {
        for (size_t i = 0; i < sizeof layers / sizeof layers[0]; i++) {
            uint32_t a = 77, b = 77, want = rt_role_per_layer((rt_role)r) ? layers[i] : 0;
            assert_ptr_equal(rt_role_hf_name(hf, (rt_role)r, layers[i]), hf);
            assert_ptr_equal(rt_role_gguf_name(gguf, (rt_role)r, layers[i]), gguf);
            assert_int_equal(rt_role_of_hf(hf, &a), r);
            assert_int_equal(rt_role_of_gguf(gguf, &b), r);
            assert_int_equal(a, want);
            assert_int_equal(b, want);
            assert_int_equal(rt_role_of_hf(hf, NULL), r);
        }
    }
    assert_string_equal(rt_role_hf_name(hf, RT_ROLE_Q, 12), "model.layers.12.self_attn.q_proj.weight");
    assert_string_equal(rt_role_gguf_name(gguf, RT_ROLE_DOWN, 3), "blk.3.ffn_down.weight");
    assert_string_equal(rt_role_hf_name(hf, RT_ROLE_HEAD, 5), "lm_head.weight");
}

static void other_names_are_none(void **state)
{
    (void)state;
    static const char *const bad[] = { "",
                                       "model.layers.",
                                       "model.layers.0",
                                       "model.layers.0.",
                                       "model.layers.00.self_attn.q_proj.weight",
                                       "model.layers.01.self_attn.q_proj.weight",
                                       "model.layers.-1.self_attn.q_proj.weight",
                                       "model.layers.+1.self_attn.q_proj.weight",
                                       "model.layers. 1.self_attn.q_proj.weight",
                                       "model.layers.1024.self_attn.q_proj.weight",
                                       "model.layers.99999999999999999999.self_attn.q_proj.weight",
                                       "model.layers.1.self_attn.q_proj.weight2",
                                       "model.layers.1.self_attn.q_proj",
                                       "model.layers.1.model.embed_tokens.weight",
                                       "model.layers.x.self_attn.q_proj.weight",
                                       "self_attn.q_proj.weight",
                                       "model.embed_tokens.weight.weight",
                                       "blk.1.attn_q.weight",
                                       "output.weight" };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        uint32_t layer = 5;
        if (rt_role_of_hf(bad[i], &layer) != RT_ROLE_NONE) fail_msg("'%s' was taken", bad[i]);
        assert_int_equal(layer, 5);
    }
    assert_int_equal(rt_role_of_gguf("lm_head.weight", NULL), RT_ROLE_NONE);
    assert_int_equal(rt_role_of_gguf("blk.1024.attn_q.weight", NULL), RT_ROLE_NONE);
    assert_int_equal(rt_role_of_gguf("blk.0.output.weight", NULL), RT_ROLE_NONE);
}

static void shapes_follow_the_letters(void **state)
{
    (void)state;
    rt_model_config c = config_of("tiny-qwen3"); /* C 64, H 4, K 2, D 32, F 192, V 272: all different */
    static const struct {
        rt_role role;
        uint32_t rank;
        uint64_t rows, cols;
    } want[] = { { RT_ROLE_EMBED, 2, 272, 64 },   { RT_ROLE_Q, 2, 128, 64 },    { RT_ROLE_K, 2, 64, 64 },
                 { RT_ROLE_V, 2, 64, 64 },        { RT_ROLE_O, 2, 64, 128 },    { RT_ROLE_GATE, 2, 192, 64 },
                 { RT_ROLE_UP, 2, 192, 64 },      { RT_ROLE_DOWN, 2, 64, 192 }, { RT_ROLE_HEAD, 2, 272, 64 },
                 { RT_ROLE_ATTN_NORM, 1, 64, 0 }, { RT_ROLE_Q_NORM, 1, 32, 0 }, { RT_ROLE_Q_BIAS, 1, 128, 0 },
                 { RT_ROLE_K_BIAS, 1, 64, 0 },    { RT_ROLE_O_BIAS, 1, 64, 0 }, { RT_ROLE_GATE_BIAS, 1, 192, 0 },
                 { RT_ROLE_DOWN_BIAS, 1, 64, 0 } };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        uint64_t shape[2];
        assert_int_equal(rt_role_shape(&c, want[i].role, shape), want[i].rank);
        assert_int_equal(shape[0], want[i].rows);
        if (want[i].rank == 2) assert_int_equal(shape[1], want[i].cols);
    }
}

static void every_parameter_comes_once_and_in_order(void **state)
{
    (void)state;
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    for (uint32_t k = 0; k < count; k++) {
        rt_model_config c;
        rt_preset_fill(&p[k], &c);
        uint32_t n = rt_param_count(&c), layer, last_layer = 0;
        uint64_t total = 0, want;
        rt_role r, last = RT_ROLE_NONE;
        for (uint32_t i = 0; i < n; i++) {
            uint64_t shape[2];
            assert_true(rt_param_at(&c, i, &r, &layer));
            assert_true(rt_role_present(&c, r));
            uint32_t rank = rt_role_shape(&c, r, shape);
            total += shape[0] * (rank == 2 ? shape[1] : 1);
            if (i == 0) assert_int_equal(r, RT_ROLE_EMBED);
            if (i > 0 && rt_role_per_layer(r))
                assert_true(layer > last_layer || r > last); /* the same pair never comes twice */
            last = r;
            last_layer = layer;
        }
        assert_int_equal(last, c.tied ? RT_ROLE_FINAL_NORM : RT_ROLE_HEAD);
        assert_false(rt_param_at(&c, n, &r, &layer));
        assert_false(rt_param_at(&c, UINT32_MAX, &r, &layer));
        assert_true(rt_config_parameters(&c, &want));
        assert_int_equal(total, want);
    }
}

/* As the published files' metadata count them. */
static void presets_have_their_published_sizes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint64_t parameters;
    } want[] = { { "qwen2.5-0.5b", 494032768 },  { "qwen2.5-1.5b", 1543714304 }, { "qwen2.5-3b", 3085938688 },
                 { "qwen2.5-7b", 7615616512 },   { "qwen2.5-14b", 14770033664 }, { "qwen3-0.6b", 596049920 },
                 { "qwen3-1.7b", 1720574976 },   { "qwen3-4b", 4022468096 },     { "qwen3-8b", 8190735360 },
                 { "llama-3.2-1b", 1235814400 }, { "llama-3.2-3b", 3212749824 }, { "llama-3.1-8b", 8030261248 },
                 { "smollm2-135m", 134515008 },  { "smollm2-360m", 361821120 },  { "smollm2-1.7b", 1711376384 },
                 { "smollm3-3b", 3075098624 },   { "mistral-7b", 7248023552 } };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        rt_model_config c = config_of(want[i].name);
        uint64_t n;
        assert_true(rt_config_parameters(&c, &n));
        if (n != want[i].parameters)
            fail_msg("%s has %llu parameters, not %llu", want[i].name, (unsigned long long)n,
                     (unsigned long long)want[i].parameters);
    }
}

static void presets_pass_the_check(void **state)
{
    (void)state;
    uint32_t count;
    const rt_preset *p = rt_presets(&count);
    for (uint32_t k = 0; k < count; k++) {
        rt_model_config c;
        rt_err e = { 0 };
        uint64_t n;
        rt_preset_fill(&p[k], &c);
        if (rt_config_check(&c, p[k].name, &e) < 0) fail_msg("%s", e.text);
        assert_ptr_equal(rt_preset_find(p[k].name), &p[k]);
        assert_true(rt_config_parameters(&c, &n));
        if (p[k].tiny) assert_true(c.vocab == 272 && c.bos == 256 && c.eos_count == 2 && c.pad == 256);
        if (p[k].tiny && strncmp(p[k].name, "tiny", 4) == 0) assert_in_range(n, 100000, 1000000);
        if (strcmp(p[k].name, "small") == 0) assert_in_range(n, 24000000, 27000000);
    }
    for (uint32_t f = 0; rt_families[f]; f++) {
        char name[64];
        snprintf(name, sizeof name, "tiny-%s", rt_families[f]->name);
        assert_non_null(rt_preset_find(name));
        assert_ptr_equal(rt_preset_find(name)->family, rt_families[f]);
    }
    assert_null(rt_preset_find("tiny-"));
    rt_model_config smol = config_of("tiny-smollm3"), mistral = config_of("tiny-mistral");
    assert_int_equal(smol.layer_flags[3], RT_LAYER_NO_ROPE);
    assert_int_equal(smol.layer_flags[2], 0);
    assert_true(mistral.window == 32 && mistral.layer_flags[1] == RT_LAYER_WINDOW);
}

static void a_count_that_overflows_is_said(void **state)
{
    (void)state;
    rt_model_config c = config_of("tiny");
    uint64_t n;
    c.vocab = c.width = c.hidden = UINT32_MAX;
    c.layers = UINT32_MAX;
    assert_false(rt_config_parameters(&c, &n));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_go_both_ways),
        cmocka_unit_test(other_names_are_none),
        cmocka_unit_test(shapes_follow_the_letters),
        cmocka_unit_test(every_parameter_comes_once_and_in_order),
        cmocka_unit_test(presets_have_their_published_sizes),
        cmocka_unit_test(presets_pass_the_check),
        cmocka_unit_test(a_count_that_overflows_is_said),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
