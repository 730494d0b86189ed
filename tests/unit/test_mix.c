/* test_mix.c - which type each tensor gets: counts as published GGUF files have them, fallbacks of odd widths, what
 * each format can hold. */
#include "format_case.h"

#include "format/model_write.h"

typedef struct mixed {
    rt_model_config c;
    rt_out_tensor *t;
    bool *fell;
    uint32_t count, fallbacks, types[RT_DTYPE_COUNT];
} mixed;

static void apply(mixed *m, const char *mix, rt_container to)
{
    rt_err e = { 0 };
    m->count = rt_param_count(&m->c);
    m->t = calloc(m->count, sizeof *m->t);
    m->fell = calloc(m->count, sizeof *m->fell);
    memset(m->types, 0, sizeof m->types);
    assert_non_null(rt_mix_find(mix));
    if (rt_mix_apply(rt_mix_find(mix), &m->c, to, m->t, m->fell, &m->fallbacks, &e) < 0) fail_msg("%s", e.text);
    uint32_t marked = 0;
    for (uint32_t i = 0; i < m->count; i++) {
        uint64_t shape[2];
        rt_role r;
        uint32_t layer;
        assert_true(rt_param_at(&m->c, i, &r, &layer));
        assert_true(m->t[i].role == r && m->t[i].layer == layer);
        assert_true(rt_container_holds(to, m->t[i].dtype));
        rt_role_shape(&m->c, r, shape);
        uint64_t cols = rt_role_shape(&m->c, r, shape) == 2 ? shape[1] : shape[0];
        assert_int_equal(cols % rt_dtype_table[m->t[i].dtype].block_elems, 0);
        m->types[m->t[i].dtype]++;
        marked += m->fell[i];
    }
    assert_int_equal(marked, m->fallbacks);
}

static void release(mixed *m)
{
    free(m->t);
    free(m->fell);
}

static void start(mixed *m, const char *preset)
{
    const rt_preset *p = rt_preset_find(preset);
    assert_non_null(p);
    rt_preset_fill(p, &m->c);
}

/* Numbers of tensors per type as llama.cpp prints them for the published files (without its rope_freqs). */
static void mixtures_are_those_of_llama_cpp(void **state)
{
    (void)state;
    static const struct {
        const char *preset, *mix;
        uint32_t f32, q4_k, q5_k, q6_k, q5_0, q5_1, q8_0;
    } want[] = { { "qwen2.5-7b", "q4_k_m", 141, 169, 0, 29, 0, 0, 0 },
                 { "llama-3.1-8b", "q4_k_m", 65, 193, 0, 33, 0, 0, 0 },
                 { "llama-3.1-8b", "q4_k_s", 65, 217, 8, 1, 0, 0, 0 },
                 { "llama-3.1-8b", "q5_k_m", 65, 0, 193, 33, 0, 0, 0 },
                 { "llama-3.1-8b", "q5_k_s", 65, 0, 225, 1, 0, 0, 0 },
                 { "mistral-7b", "q4_k_m", 65, 193, 0, 33, 0, 0, 0 },
                 { "llama-3.2-1b", "q4_k_m", 33, 96, 0, 17, 0, 0, 0 },
                 { "qwen2.5-0.5b", "q4_k_m", 121, 12, 0, 12, 132, 0, 13 },
                 { "qwen2.5-0.5b", "q5_k_m", 121, 0, 12, 12, 0, 132, 13 } };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        mixed m;
        start(&m, want[i].preset);
        apply(&m, want[i].mix, RT_CONTAINER_GGUF);
        const uint32_t have[] = { m.types[RT_DTYPE_F32],  m.types[RT_DTYPE_Q4_K], m.types[RT_DTYPE_Q5_K],
                                  m.types[RT_DTYPE_Q6_K], m.types[RT_DTYPE_Q5_0], m.types[RT_DTYPE_Q5_1],
                                  m.types[RT_DTYPE_Q8_0] };
        if (memcmp(have, &want[i].f32, sizeof have) != 0)
            fail_msg("%s %s: f32 %u q4_k %u q5_k %u q6_k %u q5_0 %u q5_1 %u q8_0 %u", want[i].preset, want[i].mix,
                     have[0], have[1], have[2], have[3], have[4], have[5], have[6]);
        release(&m);
    }
}

static rt_dtype type_of(const mixed *m, rt_role r, uint32_t layer)
{
    for (uint32_t i = 0; i < m->count; i++) {
        if (m->t[i].role == r && m->t[i].layer == layer) return m->t[i].dtype;
    }
    fail_msg("role %d of layer %u is missing", (int)r, layer);
    return RT_DTYPE_COUNT;
}

static void places_of_more_bits(void **state)
{
    (void)state;
    /* 28 layers: 0-2, every third from 5 on, and 24-27. */
    static const uint8_t more[28] = {
        1, 1, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 1, 1, 1
    };
    mixed m;
    start(&m, "qwen2.5-7b");
    apply(&m, "q4_k_m", RT_CONTAINER_GGUF);
    for (uint32_t i = 0; i < 28; i++) {
        rt_dtype want = more[i] ? RT_DTYPE_Q6_K : RT_DTYPE_Q4_K;
        assert_int_equal(type_of(&m, RT_ROLE_V, i), want);
        assert_int_equal(type_of(&m, RT_ROLE_DOWN, i), want);
        assert_int_equal(type_of(&m, RT_ROLE_K, i), RT_DTYPE_Q4_K);
    }
    assert_int_equal(type_of(&m, RT_ROLE_HEAD, 0), RT_DTYPE_Q6_K);
    assert_int_equal(type_of(&m, RT_ROLE_EMBED, 0), RT_DTYPE_Q4_K); /* separate head: the table is as the rest */
    release(&m);

    /* A tied table is the head. */
    start(&m, "llama-3.2-1b");
    apply(&m, "q4_k_m", RT_CONTAINER_GGUF);
    assert_int_equal(type_of(&m, RT_ROLE_EMBED, 0), RT_DTYPE_Q6_K);
    release(&m);

    /* 80 layers with grouped heads are a 70B model: no value projection below Q5_K. */
    start(&m, "llama-3.1-8b");
    m.c.layers = 80;
    apply(&m, "q4_k_m", RT_CONTAINER_GGUF);
    assert_int_equal(type_of(&m, RT_ROLE_V, 10), RT_DTYPE_Q5_K);
    assert_int_equal(type_of(&m, RT_ROLE_V, 12), RT_DTYPE_Q6_K);
    assert_int_equal(type_of(&m, RT_ROLE_DOWN, 10), RT_DTYPE_Q4_K);
    release(&m);
    m.c.kv_heads = m.c.heads;
    apply(&m, "q4_k_m", RT_CONTAINER_GGUF);
    assert_int_equal(type_of(&m, RT_ROLE_V, 10), RT_DTYPE_Q4_K);
    release(&m);
}

static void pure_names_and_fallbacks(void **state)
{
    (void)state;
    static const struct {
        const char *mix;
        rt_dtype wide, narrow; /* rows of 4864 and of 896 */
    } want[] = { { "q4_k", RT_DTYPE_Q4_K, RT_DTYPE_Q5_0 }, { "q5_k", RT_DTYPE_Q5_K, RT_DTYPE_Q5_1 },
                 { "q6_k", RT_DTYPE_Q6_K, RT_DTYPE_Q8_0 }, { "q8_0", RT_DTYPE_Q8_0, RT_DTYPE_Q8_0 },
                 { "q4_0", RT_DTYPE_Q4_0, RT_DTYPE_Q4_0 }, { "q4_1", RT_DTYPE_Q4_1, RT_DTYPE_Q4_1 },
                 { "q5_0", RT_DTYPE_Q5_0, RT_DTYPE_Q5_0 }, { "q5_1", RT_DTYPE_Q5_1, RT_DTYPE_Q5_1 },
                 { "F16", RT_DTYPE_F16, RT_DTYPE_F16 },    { "bf16", RT_DTYPE_BF16, RT_DTYPE_BF16 },
                 { "f32", RT_DTYPE_F32, RT_DTYPE_F32 } };
    for (size_t i = 0; i < sizeof want / sizeof want[0]; i++) {
        mixed m;
        start(&m, "qwen2.5-0.5b");
        apply(&m, want[i].mix, RT_CONTAINER_GGUF);
        assert_int_equal(type_of(&m, RT_ROLE_DOWN, 0), want[i].wide);
        assert_int_equal(type_of(&m, RT_ROLE_EMBED, 0), want[i].narrow);
        assert_int_equal(type_of(&m, RT_ROLE_Q_BIAS, 3), RT_DTYPE_F32);
        assert_int_equal(m.fallbacks, want[i].wide == want[i].narrow ? 0 : 145); /* 24 x (q k v o gate up) + table */
        release(&m);
        /* Rows of 48 fill no block at all. */
        start(&m, "tiny-llama");
        m.c.width = 48;
        apply(&m, want[i].mix, RT_CONTAINER_GGUF);
        bool quant = rt_dtype_is_quant(want[i].wide);
        assert_int_equal(type_of(&m, RT_ROLE_Q, 0), quant ? RT_DTYPE_F16 : want[i].wide);
        release(&m);
    }
}

static void safetensors_hold_plain_types(void **state)
{
    (void)state;
    static const rt_container plain[] = { RT_CONTAINER_HF, RT_CONTAINER_SAFETENSORS };
    for (size_t k = 0; k < 2; k++) {
        for (const char *const *n = rt_mix_names(); *n; n++) {
            mixed m;
            rt_err e = { 0 };
            uint32_t fallbacks;
            rt_dtype d;
            start(&m, "tiny");
            if (rt_dtype_parse(*n, &d) && !rt_dtype_is_quant(d)) {
                apply(&m, *n, plain[k]);
                assert_int_equal(m.types[d], m.count); /* vectors too */
                release(&m);
                continue;
            }
            rt_out_tensor t[64];
            assert_int_equal(rt_mix_apply(rt_mix_find(*n), &m.c, plain[k], t, NULL, &fallbacks, &e), RT_INVALID);
            assert_says(&e, *n);
            assert_says(&e, "safetensors|gguf|apr");
        }
    }
}

static void apr_holds_few_types(void **state)
{
    (void)state;
    mixed m;
    rt_err e = { 0 };
    start(&m, "qwen2.5-0.5b");
    apply(&m, "q4_k_m", RT_CONTAINER_APR);
    assert_int_equal(m.types[RT_DTYPE_Q4_K], 12);
    assert_int_equal(m.types[RT_DTYPE_Q6_K], 12);
    assert_int_equal(m.types[RT_DTYPE_BF16], 145);
    assert_int_equal(m.fallbacks, 145);
    assert_int_equal(type_of(&m, RT_ROLE_FINAL_NORM, 0), RT_DTYPE_F32);
    release(&m);
    start(&m, "llama-3.1-8b"); /* the Q5_K of q4_k_s cannot be held */
    apply(&m, "q4_k_s", RT_CONTAINER_APR);
    assert_int_equal(m.types[RT_DTYPE_BF16], 8);
    assert_int_equal(m.fallbacks, 8);
    release(&m);
    rt_out_tensor t[400];
    uint32_t fallbacks;
    assert_int_equal(rt_mix_apply(rt_mix_find("q8_0"), &m.c, RT_CONTAINER_APR, t, NULL, &fallbacks, &e), RT_INVALID);
    assert_says(&e, "apr|q8_0|q4_k|gguf");
}

static void names(void **state)
{
    (void)state;
    uint32_t n = 0;
    for (const char *const *p = rt_mix_names(); *p; p++, n++) {
        assert_non_null(rt_mix_find(*p));
        assert_string_equal(rt_mix_name(rt_mix_find(*p)), *p);
    }
    assert_int_equal(n, 15);
    assert_null(rt_mix_find("q4_k_x"));
    assert_null(rt_mix_find(""));
    assert_true(rt_container_holds(RT_CONTAINER_GGUF, RT_DTYPE_IQ4_XS));
    assert_false(rt_container_holds(RT_CONTAINER_GGUF, RT_DTYPE_U8));
    assert_true(rt_container_holds(RT_CONTAINER_HF, RT_DTYPE_I64));
    assert_false(rt_container_holds(RT_CONTAINER_APR, RT_DTYPE_Q5_K));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixtures_are_those_of_llama_cpp),
        cmocka_unit_test(places_of_more_bits),
        cmocka_unit_test(pure_names_and_fallbacks),
        cmocka_unit_test(safetensors_hold_plain_types),
        cmocka_unit_test(apr_holds_few_types),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
