/* test_init.c - random weights: the table of quantiles against erfc, draws against the plain Philox, whole models that
 * are the same in every format, with any number of threads and in every dtype but for rounding, and layers taken out of
 * a configuration. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "base/rng.h"
#include "format/convert.h"
#include "format/init_random.h"
#include "memory_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];

static int set_up(void **state)
{
    (void)state;
    rt_json_init();
    snprintf(folder, sizeof folder, "/tmp/retort-test-XXXXXX");
    return mkdtemp(folder) ? 0 : -1;
}
static int tear_down(void **state)
{
    (void)state;
    rt_dir_remove(folder);
    return 0;
}

static char *path_of(const char *name)
{
    static char path[8][128];
    static int next;
    char *p = path[next++ % 8];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* ---- numbers ---- */

static void quantiles_are_those_of_the_normal_distribution(void **state)
{
    (void)state;
    float *q = malloc(RT_NORMAL_VALUES * sizeof *q);
    rt_normal_quantiles(q);
    double squares = 0;
    for (int i = 0; i < RT_NORMAL_VALUES; i++) {
        double want = (i + 0.5) / RT_NORMAL_VALUES, low = want < 0.5 ? want : 1 - want;
        double got = 0.5 * erfc(fabs((double)q[i]) / sqrt(2.0));
        /* f32 rounds x by 6e-8 of itself, which moves the tail by x density(x) dx; a few times that is allowed */
        double x = fabs((double)q[i]), density = exp(-x * x / 2) / sqrt(2 * 3.14159265358979323846);
        if (fabs(got - low) > density * x * 1.3e-7 + 1e-15) fail_msg("quantile %d: %.9g", i, (double)q[i]);
        if (i && !(q[i] > q[i - 1])) fail_msg("quantile %d does not rise", i);
        if (q[i] != -q[RT_NORMAL_VALUES - 1 - i]) fail_msg("quantile %d is not mirrored", i);
        squares += (double)q[i] * q[i];
    }
    assert_true(fabs(squares / RT_NORMAL_VALUES - 0.99998) < 1e-5);
    assert_true(q[RT_NORMAL_VALUES - 1] > 4.32f && q[RT_NORMAL_VALUES - 1] < 4.33f);
    free(q);
}

static void draws_are_those_of_philox(void **state)
{
    (void)state;
    float *q = malloc(RT_NORMAL_VALUES * sizeof *q), y[300];
    rt_normal_quantiles(q);
    static const uint64_t starts[] = {
        0, 1, 7, 8, 63, 64, 65, 1000, ((uint64_t)1 << 35) - 3, 8 * (((uint64_t)1 << 32) - 1)
    };
    static const uint64_t lengths[] = { 1, 2, 8, 63, 64, 65, 128, 300 };
    for (size_t a = 0; a < sizeof starts / sizeof *starts; a++)
        for (size_t b = 0; b < sizeof lengths / sizeof *lengths; b++) {
            rt_normal_fill(y, lengths[b], q, 0.02f, 0x123456789abcdefu, 5, starts[a]);
            for (uint64_t i = 0; i < lengths[b]; i++) {
                uint64_t element = starts[a] + i;
                rt_rng4 r = rt_philox(0x123456789abcdefu, 5, element / 8);
                uint32_t word = r.v[element % 8 / 2], bits = element % 2 ? word >> 16 : word & 0xffff;
                if (y[i] != q[bits] * 0.02f) fail_msg("element %llu", (unsigned long long)element);
            }
        }
    free(q);
}

/* Mean, variance, skewness and kurtosis of a million values, each within five standard errors; and no correlation with
 * the neighbour, the next counter, or another stream. */
static void draws_look_normal(void **state)
{
    (void)state;
    enum { N = 1 << 20 };
    float *q = malloc(RT_NORMAL_VALUES * sizeof *q), *x = malloc(N * sizeof *x), *other = malloc(N * sizeof *other);
    double m[5] = { 0 }, lag[4] = { 0 };
    rt_normal_quantiles(q);
    rt_normal_fill(x, N, q, 1.0f, 1, 0, 0);
    rt_normal_fill(other, N, q, 1.0f, 1, 1, 0);
    for (int i = 0; i < N; i++) {
        double p = 1;
        for (int k = 1; k <= 4; k++) m[k] += (p *= x[i]) / N;
        lag[0] += (double)x[i] * x[(i + 1) % N] / N;
        lag[1] += (double)x[i] * x[(i + 8) % N] / N;
        lag[2] += (double)x[i] * x[(i + 64) % N] / N;
        lag[3] += (double)x[i] * other[i] / N;
    }
    double five = 5 / sqrt(N);
    assert_true(fabs(m[1]) < five);
    assert_true(fabs(m[2] - 1) < five * sqrt(2.0) + 3e-5);
    assert_true(fabs(m[3]) < five * sqrt(15.0));
    assert_true(fabs(m[4] - 3) < five * sqrt(96.0) + 2e-3);
    for (int k = 0; k < 4; k++) assert_true(fabs(lag[k]) < five);
    free(q);
    free(x);
    free(other);
}

/* ---- models ---- */

static void fill_config(rt_model_config *c, const char *preset, uint64_t seed)
{
    const rt_preset *p = rt_preset_find(preset);
    if (!p) fail_msg("no preset %s", preset);
    rt_preset_fill(p, c);
    c->random_init = true;
    c->init_seed = seed;
}

static int make(const rt_model_config *c, rt_container to, const char *dtype, const char *path, uint32_t threads,
                rt_err *e)
{
    int rc;
    rt_pool *pool = NULL;
    rt_init_opts opts = { 0 };
    uint32_t count = rt_param_count(c), fallbacks;
    rt_out_tensor *t = rt_alloc_zero(count * sizeof *t, 16);
    if (!t) return rt_fail(e, RT_NOMEM, "no memory");
    rt_model_out o = {
        .to = to, .path = path, .name = "t", .config = c, .tensors = t, .tensor_count = count, .replace = true
    };
    RT_TRY(rt_pool_new(&pool, threads, e));
    RT_TRY(rt_mix_apply(rt_mix_find(dtype), c, to, t, NULL, &fallbacks, e));
    RT_TRY(rt_init_random(&o, &opts, pool, e));
out:
    rt_pool_free(pool);
    rt_free(t);
    return rc;
}

static rt_model_file *open_model(const char *path)
{
    rt_model_file *m = NULL;
    rt_err e = { 0 };
    const rt_hub_env env = { 0 };
    if (rt_model_file_open(&m, path, &env, &e) < 0) fail_msg("%s", e.text);
    return m;
}

static rt_hash128 content_hash(const char *path)
{
    rt_model_file *m = open_model(path);
    rt_pool *pool = NULL;
    rt_err e = { 0 };
    rt_hash128 h = { 0, 0 };
    if (rt_pool_new(&pool, 2, &e) < 0 || rt_model_content_hash(m, pool, &h, NULL, &e) < 0) fail_msg("%s", e.text);
    rt_pool_free(pool);
    rt_model_file_close(m);
    return h;
}

static rt_hash128 made_hash(const rt_model_config *c, rt_container to, const char *dtype, const char *name,
                            uint32_t threads)
{
    rt_err e = { 0 };
    if (make(c, to, dtype, path_of(name), threads, &e) < 0) fail_msg("%s", e.text);
    return content_hash(path_of(name));
}

static bool equal(rt_hash128 a, rt_hash128 b) { return a.hi == b.hi && a.lo == b.lo; }

static void one_seed_is_one_model(void **state)
{
    (void)state;
    static rt_model_config c;
    for (size_t i = 0; rt_families[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "tiny-%s", rt_families[i]->name);
        fill_config(&c, name, 7);
        rt_hash128 hf = made_hash(&c, RT_CONTAINER_HF, "f32", "hf", 2);
        assert_true(equal(hf, made_hash(&c, RT_CONTAINER_GGUF, "f32", "a.gguf", 1)));
        assert_true(equal(hf, made_hash(&c, RT_CONTAINER_APR, "f32", "a.apr", 3)));
        assert_true(equal(hf, made_hash(&c, RT_CONTAINER_SAFETENSORS, "f32", "a.safetensors", 2)));
        rt_hash128 narrow = made_hash(&c, RT_CONTAINER_HF, "bf16", "hf", 1);
        assert_false(equal(hf, narrow));
        assert_true(equal(narrow, made_hash(&c, RT_CONTAINER_GGUF, "bf16", "a.gguf", 2)));
        fill_config(&c, name, 8);
        assert_false(equal(hf, made_hash(&c, RT_CONTAINER_HF, "f32", "hf", 2)));
    }
}

static void values_and_marks(void **state)
{
    (void)state;
    static rt_model_config c;
    rt_err e = { 0 };
    float *q = malloc(RT_NORMAL_VALUES * sizeof *q), *x = malloc(sizeof *x * 272 * 64),
          *y = malloc(sizeof *y * 272 * 64);
    rt_normal_quantiles(q);
    fill_config(&c, "tiny-qwen2", 3);
    c.init_range = 0.5;
    if (make(&c, RT_CONTAINER_HF, "bf16", path_of("v"), 2, &e) < 0) fail_msg("%s", e.text);
    rt_model_file *m = open_model(path_of("v"));
    assert_true(m->config.random_init);
    assert_int_equal(m->config.init_seed, 3);
    for (uint32_t i = 0; i < rt_param_count(&c); i++) {
        char name[RT_NAME_BYTES];
        rt_role role;
        uint32_t layer;
        rt_param_at(&c, i, &role, &layer);
        const rt_tensor *t = rt_model_file_find(m, rt_role_hf_name(name, role, layer));
        assert_non_null(t);
        uint64_t n = rt_tensor_elems(t);
        rt_tensor_to_f32(x, t, 0, rt_tensor_rows(t));
        rt_normal_fill(y, n, q, 0.5f, 3, i, 0);
        for (uint64_t k = 0; k < n; k++) {
            float want = strstr(name, "norm")   ? 1.0f
                         : strstr(name, "bias") ? 0.0f
                                                : rt_bf16_to_f32(rt_bf16_from_f32(y[k]));
            if (x[k] != want)
                fail_msg("%s[%llu]: %g, expected %g", name, (unsigned long long)k, (double)x[k], (double)want);
        }
    }
    rt_model_file_close(m);
    free(q);
    free(x);
    free(y);
}

static void layers_are_taken(void **state)
{
    (void)state;
    static rt_model_config c, student;
    rt_err e = { 0 };
    fill_config(&c, "smollm3-3b", 0);
    const uint32_t layers[] = { 0, 3, 4, 7, 35 };
    c.window = 128;
    c.layer_flags[4] |= RT_LAYER_WINDOW;
    assert_int_equal(rt_config_take_layers(&student, &c, layers, 5, &e), RT_OK);
    assert_int_equal(student.layers, 5);
    const uint8_t want[] = { 0, RT_LAYER_NO_ROPE, RT_LAYER_WINDOW, RT_LAYER_NO_ROPE, RT_LAYER_NO_ROPE, 0 };
    assert_memory_equal(student.layer_flags, want, sizeof want);
    assert_int_equal(student.window, 128);
    assert_int_equal(rt_config_take_layers(&student, &c, layers, 2, &e), RT_OK);
    assert_int_equal(student.window, 0); /* no layer has one any more */
    const uint32_t missing[] = { 0, 36 }, falling[] = { 2, 1 }, twice[] = { 1, 1 };
    assert_int_equal(rt_config_take_layers(&student, &c, missing, 2, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "no layer 36"));
    assert_non_null(strstr(e.text, "0 to 35"));
    assert_int_equal(rt_config_take_layers(&student, &c, falling, 2, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "rising order"));
    assert_int_equal(rt_config_take_layers(&student, &c, twice, 2, &e), RT_INVALID);
    assert_int_equal(rt_config_take_layers(&student, &c, layers, 0, &e), RT_INVALID);
}

static int stop_at_once(void *ctx, uint64_t done, uint64_t total)
{
    (void)ctx, (void)done, (void)total;
    return RT_INTERRUPTED;
}

static void an_interrupt_leaves_nothing(void **state)
{
    (void)state;
    static rt_model_config c;
    rt_err e = { 0 };
    rt_pool *pool = NULL;
    rt_arena a = { 0 };
    char **names, *inner = path_of("inner");
    uint32_t count;
    fill_config(&c, "tiny", 1);
    assert_int_equal(rt_dir_make(inner, &e), RT_OK);
    rt_out_tensor *t = calloc(rt_param_count(&c), sizeof *t);
    assert_int_equal(rt_pool_new(&pool, 2, &e), RT_OK);
    const rt_container kinds[] = { RT_CONTAINER_HF, RT_CONTAINER_GGUF, RT_CONTAINER_APR, RT_CONTAINER_SAFETENSORS };
    for (int i = 0; i < 4; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/stopped", inner);
        assert_int_equal(rt_mix_apply(rt_mix_find("f32"), &c, kinds[i], t, NULL, &count, &e), RT_OK);
        rt_model_out o = {
            .to = kinds[i], .path = path, .name = "t", .config = &c, .tensors = t, .tensor_count = rt_param_count(&c)
        };
        rt_init_opts opts = { .progress = stop_at_once };
        assert_int_equal(rt_init_random(&o, &opts, pool, &e), RT_INTERRUPTED);
        assert_int_equal(rt_dir_list(&names, &count, &a, inner, &e), RT_OK);
        if (count) fail_msg("%s: %s is left", rt_container_name(kinds[i]), names[0]);
    }
    rt_arena_free(&a);
    rt_pool_free(pool);
    free(t);
}

/* ---- memory ---- */

/* Once an allocation is refused all that follow are, so that what is lost silently shows. */
static void every_allocation_fails(void **state)
{
    (void)state;
    static rt_model_config c;
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    fill_config(&c, "tiny-llama", 1);
    rt_allocator_set(&failing);
    for (int kind = 0; kind < 2; kind++) {
        rt_container to = kind ? RT_CONTAINER_GGUF : RT_CONTAINER_HF;
        rt_err e = { 0 };
        allowed = -1;
        uint64_t before = rt_alloc_count();
        if (make(&c, to, "bf16", path_of(kind ? "oom.gguf" : "oom"), 2, &e) < 0) fail_msg("%s", e.text);
        uint64_t total = rt_alloc_count() - before;
        for (uint64_t i = 0; i < total; i += i < 40 ? 1 : 7) {
            e = (rt_err){ 0 };
            allowed = (int64_t)i;
            int rc = make(&c, to, "bf16", path_of(kind ? "oom.gguf" : "oom"), 2, &e);
            if (rc != RT_NOMEM)
                fail_msg("allocation %llu of %llu: status %d, '%s'", (unsigned long long)i, (unsigned long long)total,
                         rc, e.text);
            if (rt_alloc_live() != 0) fail_msg("allocation %llu: a leak", (unsigned long long)i);
        }
        allowed = -1;
    }
    rt_allocator_set(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_those_of_the_normal_distribution),
        cmocka_unit_test(draws_are_those_of_philox),
        cmocka_unit_test(draws_look_normal),
        cmocka_unit_test(one_seed_is_one_model),
        cmocka_unit_test(values_and_marks),
        cmocka_unit_test(layers_are_taken),
        cmocka_unit_test(an_interrupt_leaves_nothing),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
