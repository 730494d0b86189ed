/* test_generator.c - generation with a cache against the whole sequence computed again without one: every family,
 * prompts around the block of 128, sliding windows and layers without rope, penalties, sampling, and how it ends. In
 * f32, on the device that ENGINE_DEVICE names. */
#include "train_case.h"

#include "infer/generator.h"

#include <math.h>

enum { LONG = 320, NEW = 12, V = 272 };

static rt_dev *dev;

static int set_up(void **state)
{
    const char *name = getenv("ENGINE_DEVICE");
    dev = open_device(name ? name : "cpu", 2);
    return make_test_dir(state);
}

static int tear_down(void **state)
{
    dev->api->close(dev);
    return remove_test_dir(state);
}

/* ---- the whole sequence at once ---- */

typedef struct plain {
    rt_space *space;
    rt_decoder *d;
    rt_plan *p;
    rt_exec *x;
    rt_tokens t;
    rt_view logits;
    float *values; /* (LONG,V) */
} plain;

static void plain_open(plain *k, const rt_model_file *m)
{
    rt_err e = { 0 };
    rt_policy policy = rt_policy_f32;
    rt_decoder_opts o = { .name = "model", .policy = &policy };
    assert_int_equal(rt_space_new(&k->space, &e), RT_OK);
    assert_int_equal(rt_decoder_new(&k->d, k->space, &m->config, &o, &e), RT_OK);
    k->t = (rt_tokens){ .B = 1, .T = LONG };
    k->t.ids = rt_space_buf(k->space, RT_CLASS_INPUT, RT_DTYPE_I32, LONG, 1, "ids");
    k->t.pos = rt_space_buf(k->space, RT_CLASS_INPUT, RT_DTYPE_I32, LONG, 1, "positions");
    k->logits = rt_space_buf(k->space, RT_CLASS_OUTPUT, RT_DTYPE_F32, LONG, V, "logits");
    assert_int_equal(rt_plan_new(&k->p, k->space, "forward", &policy, &e), RT_OK);
    rt_view hidden = rt_act(k->p, RT_DTYPE_F32, LONG, m->config.width, "hidden");
    rt_decoder_forward(k->p, k->d, &k->t, NULL, hidden);
    rt_decoder_logits(k->p, k->d, k->logits, hidden);
    const rt_plan *plans[] = { k->p };
    if (rt_exec_seal(&k->x, dev, plans, 1, &(rt_seal_opts){ 0 }, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_load_weights(k->x, k->d, m, NULL, &e), RT_OK);
    k->values = malloc((size_t)LONG * V * sizeof(float));
}

static void plain_close(plain *k)
{
    rt_exec_free(k->x);
    rt_plan_free(k->p);
    rt_decoder_free(k->d);
    rt_space_free(k->space);
    free(k->values);
}

static void plain_run(plain *k, const uint32_t *ids, uint32_t n)
{
    int32_t id[LONG], pos[LONG];
    rt_err e = { 0 };
    rt_ticket t;
    assert_true(n <= LONG);
    for (uint32_t i = 0; i < LONG; i++) id[i] = i < n ? (int32_t)ids[i] : 0, pos[i] = (int32_t)i;
    assert_int_equal(rt_exec_write(k->x, k->t.ids, id, sizeof id, &e), RT_OK);
    assert_int_equal(rt_exec_write(k->x, k->t.pos, pos, sizeof pos, &e), RT_OK);
    assert_int_equal(rt_exec_run(k->x, 0, &t, &e), RT_OK);
    assert_int_equal(rt_exec_wait(k->x, t, &e), RT_OK);
    assert_int_equal(rt_exec_read(k->x, k->logits, k->values, (uint64_t)LONG * V * sizeof(float), &e), RT_OK);
}

/* ---- generation ---- */

typedef struct text {
    rt_generator *g;
    uint32_t ids[LONG + NEW], count, prompt;
    float logits[NEW][V]; /* behind which each new id was chosen */
    int answer;           /* of the callback, after `answer_at` ids */
    uint32_t answer_at;
} text;

static int on_token(void *ctx, uint32_t id, rt_err *e)
{
    text *k = ctx;
    uint32_t made = k->count - k->prompt;
    if (made < NEW) assert_int_equal(rt_generator_logits(k->g, k->logits[made], e), RT_OK);
    assert_true(k->count < LONG + NEW);
    k->ids[k->count++] = id;
    if (k->answer && made + 1 == k->answer_at) return k->answer < 0 ? rt_fail(e, k->answer, "enough") : k->answer;
    return RT_OK;
}

static void put_prompt(text *k, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) k->ids[i] = (i * 37 + i * i * 5 + n) % 259;
    k->count = k->prompt = n;
}

static rt_generate_stats generate(text *k, uint32_t prompt, uint32_t most)
{
    rt_err e = { 0 };
    rt_generate_stats s;
    put_prompt(k, prompt);
    uint32_t copy[LONG];
    memcpy(copy, k->ids, prompt * sizeof *copy);
    if (rt_generator_run(k->g, copy, prompt, most, on_token, k, &s, &e) < 0) fail_msg("%s", e.text);
    assert_true(s.prompt == prompt && s.made == k->count - prompt);
    return s;
}

static rt_generator *open_generator(const rt_model_file *m, rt_generate_opts o)
{
    rt_err e = { 0 };
    rt_generator *g = NULL;
    if (rt_generator_open(&g, dev, m, &rt_policy_f32, &o, &e) < 0) fail_msg("%s", e.text);
    return g;
}

static uint32_t largest(const float *x)
{
    uint32_t best = 0;
    for (uint32_t i = 1; i < V; i++)
        if (x[i] > x[best]) best = i;
    return best;
}

/* The logits behind every new id are those of the whole sequence, up to the rounding of another order of sums. */
static void compare(const text *k, const plain *p, const char *what)
{
    for (uint32_t i = 0; i < k->count - k->prompt; i++) {
        const float *want = p->values + (size_t)(k->prompt + i - 1) * V, *got = k->logits[i];
        double diff = 0, norm = 0;
        for (uint32_t v = 0; v < V; v++) {
            diff += ((double)want[v] - got[v]) * ((double)want[v] - got[v]);
            norm += (double)want[v] * want[v];
        }
        if (!(norm > 0) || sqrt(diff / norm) > 2e-6)
            fail_msg("%s, prompt of %u, token %u: logits differ by %.2g", what, k->prompt, i, sqrt(diff / norm));
        if (k->ids[k->prompt + i] != largest(want)) fail_msg("%s, prompt of %u, token %u", what, k->prompt, i);
    }
}

static void test_against_forward(void **state)
{
    (void)state;
    static const uint32_t prompts[] = { 1, 2, 30, 127, 128, 129, 130, 257, 300 };
    static text k;
    for (size_t f = 0; rt_families[f]; f++) {
        char name[64];
        snprintf(name, sizeof name, "tiny-%s", rt_families[f]->name);
        rt_model_file *m = preset_model(name);
        plain p = { 0 };
        plain_open(&p, m);
        rt_generate_opts o = rt_generate_defaults;
        o.context = LONG;
        k.g = open_generator(m, o);
        uint32_t different = 0;
        for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) { /* one generator: the cache is forgotten */
            rt_generate_stats s = generate(&k, prompts[i], NEW);
            assert_int_equal(s.made, NEW);
            plain_run(&p, k.ids, k.count);
            compare(&k, &p, name);
            for (uint32_t t = 1; t < NEW; t++) different += k.ids[k.prompt + t] != k.ids[k.prompt];
        }
        assert_true(different > 9); /* not one id for ever, which would prove nothing */
        rt_generator_free(k.g);
        plain_close(&p);
        rt_model_file_close(m);
    }
}

/* The window is one: the same weights without it say something else, once the prompt is longer. */
static void test_window_matters(void **state)
{
    (void)state;
    static text k, w;
    rt_model_file *m = preset_model("tiny-mistral");
    rt_generate_opts o = rt_generate_defaults;
    o.context = LONG;
    w.g = open_generator(m, o);
    assert_true(m->config.window == 32);
    for (uint32_t i = 0; i < m->config.layers; i++) m->config.layer_flags[i] &= (uint8_t)~RT_LAYER_WINDOW;
    m->config.window = 0;
    k.g = open_generator(m, o);
    generate(&w, 20, 1);
    generate(&k, 20, 1);
    assert_memory_equal(w.logits[0], k.logits[0], sizeof w.logits[0]);
    generate(&w, 100, 1);
    generate(&k, 100, 1);
    assert_memory_not_equal(w.logits[0], k.logits[0], sizeof w.logits[0]);
    rt_generator_free(k.g);
    rt_generator_free(w.g);
    rt_model_file_close(m);
}

static void test_penalty(void **state)
{
    (void)state;
    static text k, no;
    rt_model_file *m = preset_model("tiny-qwen2");
    plain p = { 0 };
    plain_open(&p, m);
    rt_generate_opts o = rt_generate_defaults;
    o.context = LONG;
    no.g = open_generator(m, o);
    o.sampling.repetition_penalty = 6.0;
    k.g = open_generator(m, o);
    generate(&no, 40, NEW);
    for (int again = 0; again < 2; again++) { /* what was seen is forgotten too */
        generate(&k, 40, NEW);
        plain_run(&p, k.ids, k.count);
        for (uint32_t i = 0; i < NEW; i++) {
            float want[V];
            memcpy(want, p.values + (size_t)(k.prompt + i - 1) * V, sizeof want);
            for (uint32_t v = 0; v < V; v++)
                if (fabsf(want[v] - k.logits[i][v]) > 1e-4f) fail_msg("token %u, id %u", i, v);
            bool seen[V] = { false };
            for (uint32_t t = 0; t < k.prompt + i; t++) seen[k.ids[t]] = true;
            for (uint32_t v = 0; v < V; v++)
                if (seen[v]) want[v] = want[v] < 0 ? want[v] * 6.0f : want[v] / 6.0f;
            assert_int_equal(k.ids[k.prompt + i], largest(want));
        }
    }
    assert_memory_not_equal(no.ids + 40, k.ids + 40, NEW * sizeof *k.ids);
    rt_generator_free(k.g);
    rt_generator_free(no.g);
    plain_close(&p);
    rt_model_file_close(m);
}

static void sampled(text *k, const rt_model_file *m, double temperature, uint32_t top_k, double top_p, uint64_t seed)
{
    rt_generate_opts o = { .context = LONG,
                           .sampling = { .temperature = temperature,
                                         .top_k = top_k,
                                         .top_p = top_p,
                                         .repetition_penalty = 1,
                                         .seed = seed } };
    k->g = open_generator(m, o);
    generate(k, 20, NEW);
}

static void test_sampling(void **state)
{
    (void)state;
    static text greedy, a, b;
    rt_model_file *m = preset_model("tiny-qwen3");
    const size_t bytes = (20 + NEW) * sizeof *a.ids;
    sampled(&greedy, m, 0, 0, 1, 1);
    sampled(&a, m, 1.5, 0, 1, 7);
    sampled(&b, m, 1.5, 0, 1, 7);
    assert_memory_equal(a.ids, b.ids, bytes); /* a seed is a text */
    generate(&b, 20, NEW);
    assert_memory_equal(a.ids, b.ids, bytes);
    assert_memory_not_equal(a.ids, greedy.ids, bytes);
    rt_generator_free(b.g);
    sampled(&b, m, 1.5, 0, 1, 8);
    assert_memory_not_equal(a.ids, b.ids, bytes);
    rt_generator_free(b.g);
    sampled(&b, m, 1.5, 1, 1, 8); /* one to choose from */
    assert_memory_equal(greedy.ids, b.ids, bytes);
    rt_generator_free(b.g);
    sampled(&b, m, 1.5, 0, 1e-6, 8);
    assert_memory_equal(greedy.ids, b.ids, bytes);
    rt_generator_free(b.g);
    sampled(&b, m, 1.5, 3, 1, 8); /* among the three most likely */
    for (uint32_t i = 0; i < NEW; i++) {
        uint32_t above = 0;
        for (uint32_t v = 0; v < V; v++) above += b.logits[i][v] > b.logits[i][b.ids[20 + i]];
        assert_true(above < 3);
    }
    rt_generator_free(a.g);
    rt_generator_free(b.g);
    rt_generator_free(greedy.g);
    rt_model_file_close(m);
}

/* Quantised weights stay as they are stored, and give the text of the values they stand for. */
static void test_stored_dtypes(void **state)
{
    (void)state;
    static text k;
    rt_model_config c = tiny_config("tiny-llama", 4);
    write_model(in_dir("bf16"), &c, RT_DTYPE_BF16, true);
    rt_model_file *m = open_model(in_dir("bf16"));
    plain p = { 0 };
    plain_open(&p, m); /* widened to f32 */
    rt_generate_opts o = rt_generate_defaults;
    o.context = LONG;
    k.g = open_generator(m, o);
    generate(&k, 50, NEW);
    plain_run(&p, k.ids, k.count);
    compare(&k, &p, "bf16");
    rt_generator_free(k.g);
    plain_close(&p);
    rt_model_file_close(m);
}

static void test_ends(void **state)
{
    (void)state;
    static text k;
    rt_err e = { 0 };
    rt_generate_stats s;
    rt_model_file *m = preset_model("tiny-qwen2");
    rt_generate_opts o = rt_generate_defaults;
    o.context = 24;
    k.g = open_generator(m, o);
    assert_int_equal(rt_generator_context(k.g), 24);
    assert_int_equal(generate(&k, 20, 100).made, 5); /* the context is full: the last id needs no place in it */
    assert_int_equal(generate(&k, 20, 0).made, 0);
    k.answer = 1;
    k.answer_at = 3;
    assert_int_equal(generate(&k, 4, 100).made, 3);
    k.answer = RT_IO;
    put_prompt(&k, 4);
    assert_int_equal(rt_generator_run(k.g, k.ids, 4, 100, on_token, &k, &s, &e), RT_IO);
    assert_says(&e, "enough");
    k.answer = 0;
    uint32_t bad[24] = { 1, 272 };
    assert_int_equal(rt_generator_run(k.g, bad, 0, 4, on_token, &k, NULL, &e), RT_INVALID);
    assert_says(&e, "empty");
    assert_int_equal(rt_generator_run(k.g, bad, 24, 4, on_token, &k, NULL, &e), RT_INVALID);
    assert_says(&e, "24|--context");
    assert_int_equal(rt_generator_run(k.g, bad, 2, 4, on_token, &k, NULL, &e), RT_INVALID);
    assert_says(&e, "272|vocabulary");
    rt_generator_free(k.g);
    rt_generator_free(NULL);
    o.context = 0;
    k.g = open_generator(m, o);
    assert_int_equal(rt_generator_context(k.g), 512); /* the model's own */
    rt_generator_free(k.g);
    rt_model_file_close(m);
}

static int open_all(void *ctx, rt_err *e)
{
    int rc;
    rt_dev *d = NULL;
    rt_model_file *m = NULL;
    rt_generator *g = NULL;
    const rt_backend *b;
    rt_generate_opts o = rt_generate_defaults;
    o.context = 8;
    o.sampling.repetition_penalty = 1.1;
    RT_TRY(rt_backend_find("ref", &b, e));
    RT_TRY(b->open(&d, 0, &RT_DEV_OPTIONS({ "threads", "1" }), e));
    RT_TRY(rt_model_file_open(&m, ctx, &(rt_hub_env){ 0 }, e));
    RT_TRY(rt_generator_open(&g, d, m, NULL, &o, e));
out:
    rt_generator_free(g);
    rt_model_file_close(m);
    if (d) d->api->close(d);
    return rc;
}

static void test_out_of_memory(void **state)
{
    (void)state;
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    char path[512];
    c.layers = 1;
    snprintf(path, sizeof path, "%s", in_dir("one-layer"));
    write_model(path, &c, RT_DTYPE_F32, true);
    dev->api->close(dev);
    fail_each(open_all, path, 0);
    dev = open_device("cpu", 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_forward), cmocka_unit_test(test_window_matters), cmocka_unit_test(test_penalty),
        cmocka_unit_test(test_sampling),        cmocka_unit_test(test_stored_dtypes),  cmocka_unit_test(test_ends),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
