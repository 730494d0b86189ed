/* test_convert.c - conversions: values that survive every format, the dtype of each tensor, errors against sums made
 * here, values that are not finite, layers taken out, interrupts, damaged input, and memory that runs out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/json.h"
#include "format/convert.h"
#include "format/init_random.h"
#include "memory_case.h"
#include "num/quant.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char folder[64];
static rt_pool *pool;

static int set_up(void **state)
{
    rt_err e = { 0 };
    (void)state;
    rt_json_init();
    snprintf(folder, sizeof folder, "/tmp/retort-test-XXXXXX");
    return mkdtemp(folder) && rt_pool_new(&pool, 2, &e) >= 0 ? 0 : -1;
}
static int tear_down(void **state)
{
    (void)state;
    rt_pool_free(pool);
    rt_dir_remove(folder);
    return 0;
}

static char *path_of(const char *name)
{
    static char path[16][160];
    static int next;
    char *p = path[next++ % 16];
    snprintf(p, sizeof path[0], "%s/%s", folder, name);
    return p;
}

/* ---- models to convert ---- */

/* Values that no format changes by itself: every tensor gets numbers of its own, vectors too. */
typedef struct source {
    const rt_model_config *c;
    const rt_out_tensor *t;
    float scale;
    int64_t odd;     /* element of every matrix that gets odd_value; -1: none */
    float odd_value; /* NaN, 1e6... */
} source;

static float value_of(const source *s, uint32_t i, uint64_t k, bool matrix)
{
    if (matrix && s->odd >= 0 && k == (uint64_t)s->odd) return s->odd_value;
    double x = sin(0.37 * (double)(k + 1) + (double)i) + 0.25 * sin(0.011 * (double)k * (double)(i + 3));
    return (float)(x * (double)s->scale);
}

static int source_rows(void *ctx, uint32_t i, uint64_t row, uint64_t rows, void *dst, uint32_t worker, rt_err *e)
{
    const source *s = ctx;
    uint64_t shape[2];
    uint32_t rank = rt_role_shape(s->c, s->t[i].role, shape);
    uint64_t cols = rank == 2 ? shape[1] : shape[0];
    (void)worker, (void)e;
    float *x = malloc(rows * cols * sizeof *x);
    for (uint64_t k = 0; k < rows * cols; k++) x[k] = value_of(s, i, row * cols + k, rank == 2);
    if (rt_dtype_is_quant(s->t[i].dtype))
        rt_quant_from_f32(dst, x, s->t[i].dtype, rows * cols);
    else
        rt_float_from_f32(dst, x, s->t[i].dtype, rows * cols);
    free(x);
    return RT_OK;
}

static void write_model(const rt_model_config *c, rt_container to, const char *dtype, const char *path, source s)
{
    rt_err e = { 0 };
    uint32_t count = rt_param_count(c), fallbacks;
    rt_out_tensor *t = calloc(count, sizeof *t);
    if (rt_mix_apply(rt_mix_find(dtype), c, to, t, NULL, &fallbacks, &e) < 0) fail_msg("%s", e.text);
    s.c = c;
    s.t = t;
    rt_model_out o = {
        .to = to, .path = path, .name = "t", .config = c, .tensors = t, .tensor_count = count, .replace = true
    };
    rt_model_write_calls calls = { .rows = source_rows, .ctx = &s };
    if (rt_model_write(&o, &calls, pool, &e) < 0) fail_msg("%s", e.text);
    free(t);
}

static const source plain = { .scale = 0.05f, .odd = -1 };

static rt_model_config *preset(const char *name)
{
    static rt_model_config c;
    const rt_preset *p = rt_preset_find(name);
    if (!p) fail_msg("no preset %s", name);
    rt_preset_fill(p, &c);
    return &c;
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
    rt_err e = { 0 };
    rt_hash128 h = { 0, 0 };
    if (rt_model_content_hash(m, pool, &h, NULL, &e) < 0) fail_msg("%s", e.text);
    rt_model_file_close(m);
    return h;
}

/* Plans and runs; v is to be freed when the answer is RT_OK. */
static int convert(rt_convert *v, const rt_model_file *in, rt_container to, const char *dtype, const char *path,
                   rt_pool *on, rt_err *e)
{
    rt_convert_opts o = { .to = to, .path = path, .mix = dtype ? rt_mix_find(dtype) : NULL, .replace = true };
    *v = (rt_convert){ 0 };
    int rc = rt_convert_plan(v, in, &o, e);
    if (rc >= 0) rc = rt_convert_run(v, NULL, NULL, on, e);
    if (rc < 0) rt_convert_free(v);
    return rc;
}

static void convert_path(rt_convert *v, const char *in, rt_container to, const char *dtype, const char *path)
{
    rt_err e = { 0 };
    rt_model_file *m = open_model(in);
    if (convert(v, m, to, dtype, path, pool, &e) < 0) fail_msg("%s", e.text);
    rt_model_file_close(m); /* only sums are looked at afterwards */
}

/* ---- values survive ---- */

static void every_family_through_every_format(void **state)
{
    (void)state;
    static const char *const dtypes[] = { "f32", "f16", "bf16" };
    static const rt_container kinds[] = { RT_CONTAINER_GGUF, RT_CONTAINER_APR, RT_CONTAINER_SAFETENSORS };
    rt_convert v;
    for (size_t p = 0; rt_families[p]; p++)
        for (size_t d = 0; d < 3; d++) {
            char name[64], *a = path_of("a"), *b = path_of("b"), *c = path_of("c");
            snprintf(name, sizeof name, "tiny-%s", rt_families[p]->name);
            write_model(preset(name), RT_CONTAINER_HF, dtypes[d], a, plain);
            rt_hash128 want = content_hash(a);
            for (size_t k = 0; k < 3; k++) {
                convert_path(&v, a, kinds[k], NULL, b);
                assert_int_equal(v.same, v.tensor_count);
                assert_true(v.rmse == 0 && v.max_error == 0 && v.nonfinite == 0);
                rt_convert_free(&v);
                rt_hash128 there = content_hash(b);
                convert_path(&v, b, RT_CONTAINER_HF, NULL, c);
                rt_convert_free(&v);
                rt_hash128 back = content_hash(c);
                assert_true(there.hi == want.hi && there.lo == want.lo);
                assert_true(back.hi == want.hi && back.lo == want.lo);
                unlink(b);
            }
        }
}

static rt_dtype type_in(const char *path, const char *name)
{
    rt_model_file *m = open_model(path);
    const rt_tensor *t = rt_model_file_find(m, name);
    assert_non_null(t);
    rt_dtype d = t->dtype;
    rt_model_file_close(m);
    return d;
}

#define NORM "model.layers.0.input_layernorm.weight"
#define GATE "model.layers.1.mlp.gate_proj.weight"

static void dtypes_when_none_is_named(void **state)
{
    (void)state;
    rt_convert v;
    write_model(preset("tiny-qwen2"), RT_CONTAINER_HF, "bf16", path_of("d"), plain);
    convert_path(&v, path_of("d"), RT_CONTAINER_GGUF, NULL, path_of("d.gguf"));
    rt_convert_free(&v);
    assert_int_equal(type_in(path_of("d.gguf"), NORM), RT_DTYPE_F32);
    assert_int_equal(type_in(path_of("d.gguf"), GATE), RT_DTYPE_BF16);
    /* Norms that were bf16 are again; norms that need f32 stay f32. */
    convert_path(&v, path_of("d.gguf"), RT_CONTAINER_HF, NULL, path_of("e"));
    rt_convert_free(&v);
    assert_int_equal(type_in(path_of("e"), NORM), RT_DTYPE_BF16);
    write_model(preset("tiny-qwen2"), RT_CONTAINER_GGUF, "q8_0", path_of("q.gguf"),
                (source){ .scale = 0.05f, .odd = -1 });
    convert_path(&v, path_of("q.gguf"), RT_CONTAINER_HF, NULL, path_of("f"));
    assert_int_equal(v.dequantised, 15);
    rt_convert_free(&v);
    assert_int_equal(type_in(path_of("f"), GATE), RT_DTYPE_BF16);
    assert_int_equal(type_in(path_of("f"), NORM), RT_DTYPE_F32);
    /* Quantised blocks stay as they are where the format has them. */
    convert_path(&v, path_of("q.gguf"), RT_CONTAINER_GGUF, NULL, path_of("q2.gguf"));
    assert_int_equal(v.same, v.tensor_count);
    rt_convert_free(&v);
    assert_int_equal(type_in(path_of("q2.gguf"), GATE), RT_DTYPE_Q8_0);
}

/* ---- errors ---- */

static void errors_are_those_of_the_values(void **state)
{
    (void)state;
    static rt_model_config c;
    rt_convert v;
    rt_err e = { 0 };
    c = *preset("tiny-llama");
    c.width = 256;
    c.head_dim = 64;
    write_model(&c, RT_CONTAINER_HF, "f32", path_of("x"), plain);
    static const char *const dtypes[] = { "q4_k_m", "q8_0", "f16", "bf16" };
    for (size_t d = 0; d < 4; d++) {
        rt_model_file *a = open_model(path_of("x"));
        if (convert(&v, a, RT_CONTAINER_GGUF, dtypes[d], path_of("x.gguf"), pool, &e) < 0) fail_msg("%s", e.text);
        rt_model_file *b = open_model(path_of("x.gguf"));
        double all = 0, most = 0, changed_errors = 0, changed_values = 0;
        for (uint32_t i = 0; i < v.tensor_count; i++) {
            char name[RT_NAME_BYTES];
            const rt_convert_tensor *t = &v.tensors[i];
            const rt_tensor *tb = rt_model_file_find(b, rt_role_hf_name(name, t->role, t->layer));
            uint64_t n = t->elems;
            float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
            double squares = 0, values = 0, max = 0;
            bool same = true;
            rt_tensor_to_f32(x, t->from, 0, rt_tensor_rows(t->from));
            rt_tensor_to_f32(y, tb, 0, rt_tensor_rows(tb));
            for (uint64_t k = 0; k < n; k++) {
                double off = (double)y[k] - (double)x[k];
                squares += off * off;
                values += (double)x[k] * x[k];
                max = fabs(off) > max ? fabs(off) : max;
                same = same && rt_f32_bits(x[k]) == rt_f32_bits(y[k]);
            }
            assert_int_equal(t->same, same);
            assert_true(t->max_error == max);
            assert_true(fabs(rt_convert_rmse(t) - sqrt(squares / (double)n)) <= 1e-12 * sqrt(squares / (double)n));
            all += squares;
            most = max > most ? max : most;
            changed_errors += same ? 0 : squares;
            changed_values += same ? 0 : values;
            free(x);
            free(y);
        }
        assert_true(most > 0 && v.max_error == most);
        assert_true(fabs(v.rmse / sqrt(all / (double)v.elems) - 1) < 1e-12);
        assert_true(fabs(v.relative / sqrt(changed_errors / changed_values) - 1) < 1e-12);
        rt_model_file_close(b);
        rt_convert_free(&v);
        rt_model_file_close(a);
    }
}

static void figures_do_not_depend_on_threads(void **state)
{
    (void)state;
    static rt_model_config c;
    rt_convert v;
    rt_err e = { 0 };
    double rmse[3], relative[3];
    uint64_t hash[3];
    c = *preset("tiny-llama");
    c.vocab = 9000; /* more than one chunk of work */
    c.width = 256;
    c.head_dim = 64;
    write_model(&c, RT_CONTAINER_HF, "f32", path_of("n"), plain);
    rt_model_file *m = open_model(path_of("n"));
    for (uint32_t n = 0; n < 3; n++) {
        rt_pool *on = NULL;
        rt_map map;
        assert_int_equal(rt_pool_new(&on, n == 2 ? 7 : n + 1, &e), RT_OK);
        if (convert(&v, m, RT_CONTAINER_GGUF, "q4_k_m", path_of("n.gguf"), on, &e) < 0) fail_msg("%s", e.text);
        rmse[n] = v.rmse;
        relative[n] = v.relative;
        assert_int_equal(rt_map_open(&map, path_of("n.gguf"), &e), RT_OK);
        hash[n] = rt_hash(map.data, map.size).lo;
        rt_map_close(&map);
        rt_convert_free(&v);
        rt_pool_free(on);
    }
    rt_model_file_close(m);
    assert_true(rmse[0] == rmse[1] && rmse[0] == rmse[2] && relative[0] == relative[2]);
    assert_true(hash[0] == hash[1] && hash[0] == hash[2]);
}

static void what_is_not_finite(void **state)
{
    (void)state;
    rt_convert v;
    rt_err e = { 0 };
    const rt_model_config *c = preset("tiny-llama");
    /* Beyond f16: refused with the tensor's name, and nothing is left. */
    write_model(c, RT_CONTAINER_HF, "bf16", path_of("large"), (source){ .scale = 1, .odd = 5, .odd_value = 1e6f });
    rt_model_file *m = open_model(path_of("large"));
    assert_int_equal(convert(&v, m, RT_CONTAINER_GGUF, "f16", path_of("large.gguf"), pool, &e), RT_NONFINITE);
    assert_non_null(strstr(e.text, "model.embed_tokens.weight"));
    assert_non_null(strstr(e.text, "--dtype bf16"));
    assert_false(rt_path_exists(path_of("large.gguf")));
    rt_model_file_close(m);
    /* NaN in the input: kept and counted where each value has its own place... */
    write_model(c, RT_CONTAINER_HF, "bf16", path_of("nan"), (source){ .scale = 1, .odd = 70, .odd_value = NAN });
    m = open_model(path_of("nan"));
    static const struct {
        rt_container to;
        const char *dtype;
    } kept[] = { { RT_CONTAINER_HF, NULL },
                 { RT_CONTAINER_GGUF, NULL },
                 { RT_CONTAINER_GGUF, "f32" },
                 { RT_CONTAINER_APR, "f16" } };
    for (size_t i = 0; i < 4; i++) {
        char *path = path_of(i ? "nan.file" : "nan.hf");
        if (convert(&v, m, kept[i].to, kept[i].dtype, path, pool, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(v.nonfinite, 16);
        assert_int_equal(v.lost, 0);
        if (i < 3) assert_int_equal(v.same, v.tensor_count);
        rt_convert_free(&v);
        unlink(path);
    }
    /* ...and refused where it would take its neighbours along. */
    assert_int_equal(convert(&v, m, RT_CONTAINER_GGUF, "q8_0", path_of("nan.gguf"), pool, &e), RT_NONFINITE);
    assert_non_null(strstr(e.text, "not finite"));
    rt_model_file_close(m);
}

/* ---- layers ---- */

static void layers_of_a_teacher(void **state)
{
    (void)state;
    static rt_model_config student;
    rt_convert v = { 0 };
    rt_err e = { 0 };
    const uint32_t layers[] = { 1, 3 };
    write_model(preset("tiny-smollm3"), RT_CONTAINER_HF, "bf16", path_of("teacher"), plain);
    rt_model_file *m = open_model(path_of("teacher"));
    assert_int_equal(rt_config_take_layers(&student, &m->config, layers, 2, &e), RT_OK);
    rt_convert_opts o = { .to = RT_CONTAINER_APR, .path = path_of("s.apr"), .config = &student, .layers = layers };
    if (rt_convert_plan(&v, m, &o, &e) < 0 || rt_convert_run(&v, NULL, NULL, pool, &e) < 0) fail_msg("%s", e.text);
    rt_model_file *s = open_model(path_of("s.apr"));
    assert_int_equal(s->config.layers, 2);
    assert_int_equal(s->config.layer_flags[0], 0);
    assert_int_equal(s->config.layer_flags[1], RT_LAYER_NO_ROPE);
    for (uint32_t i = 0; i < 2; i++)
        for (int r = 0; r < RT_ROLE_COUNT; r++) {
            char name[RT_NAME_BYTES];
            if (!rt_role_per_layer(r) || !rt_role_present(&student, r)) continue;
            const rt_tensor *a = rt_model_file_find(m, rt_role_hf_name(name, r, layers[i]));
            const rt_tensor *b = rt_model_file_find(s, rt_role_hf_name(name, r, i));
            uint64_t n = rt_tensor_elems(a);
            float *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
            rt_tensor_to_f32(x, a, 0, rt_tensor_rows(a));
            rt_tensor_to_f32(y, b, 0, rt_tensor_rows(b));
            assert_memory_equal(x, y, n * sizeof *x);
            free(x);
            free(y);
        }
    rt_model_file_close(s);
    rt_convert_free(&v);
    rt_model_file_close(m);
}

/* ---- what goes wrong ---- */

typedef struct stopper {
    const char *at;
    int calls;
} stopper;
static int stop(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    stopper *s = ctx;
    (void)done, (void)total;
    s->calls++;
    return strcmp(what, s->at) == 0 ? RT_INTERRUPTED : RT_OK;
}

static void an_interrupt_leaves_nothing(void **state)
{
    (void)state;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    char **names;
    uint32_t count;
    static const char *const at[] = { "writing", "comparing" };
    write_model(preset("tiny"), RT_CONTAINER_HF, "bf16", path_of("in"), plain);
    rt_model_file *m = open_model(path_of("in"));
    assert_int_equal(rt_dir_make(path_of("inner"), &e), RT_OK);
    for (int i = 0; i < 8; i++) {
        rt_convert v = { 0 };
        rt_convert_opts o = { .to = (rt_container)(i / 2), .path = path_of("inner/stopped") };
        stopper s = { .at = at[i % 2] };
        assert_int_equal(rt_convert_plan(&v, m, &o, &e), RT_OK);
        assert_int_equal(rt_convert_run(&v, stop, &s, pool, &e), RT_INTERRUPTED);
        assert_true(s.calls > 0);
        rt_convert_free(&v);
        assert_int_equal(rt_dir_list(&names, &count, &a, path_of("inner"), &e), RT_OK);
        if (count) fail_msg("%s, %s: %s is left", rt_container_name(o.to), s.at, names[0]);
    }
    rt_model_file_close(m);
    rt_arena_free(&a);
}

static void a_damaged_apr_is_not_passed_on(void **state)
{
    (void)state;
    rt_convert v;
    rt_err e = { 0 };
    write_model(preset("tiny"), RT_CONTAINER_APR, "bf16", path_of("bad.apr"), plain);
    FILE *f = fopen(path_of("bad.apr"), "r+b");
    fseek(f, -2000, SEEK_END);
    int byte = fgetc(f);
    fseek(f, -2000, SEEK_END);
    fputc(byte ^ 1, f);
    fclose(f);
    rt_model_file *m = open_model(path_of("bad.apr"));
    assert_int_equal(convert(&v, m, RT_CONTAINER_GGUF, NULL, path_of("bad.gguf"), pool, &e), RT_FORMAT);
    assert_non_null(strstr(e.text, "bad.apr"));
    assert_non_null(strstr(e.text, "CRC"));
    assert_false(rt_path_exists(path_of("bad.gguf")));
    rt_model_file_close(m);
}

/* A comparison that finds nothing proves nothing: a value of the output is changed under its eyes. */
static int spoil(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    bool *spoiled = ctx;
    rt_arena a = { 0 };
    char **names;
    uint32_t count;
    rt_err e = { 0 };
    if (strcmp(what, "writing") != 0 || done != total || *spoiled) return RT_OK;
    if (rt_dir_list(&names, &count, &a, path_of("spoiled"), &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(count, 1);
    char path[400];
    snprintf(path, sizeof path, "%s/%s", path_of("spoiled"), names[0]);
    FILE *f = fopen(path, "r+b");
    fseek(f, -64, SEEK_END);
    fputc(0x7a, f);
    fclose(f);
    rt_arena_free(&a);
    *spoiled = true;
    return RT_OK;
}

static void a_wrong_value_is_found(void **state)
{
    (void)state;
    rt_convert v = { 0 };
    rt_err e = { 0 };
    bool spoiled = false;
    write_model(preset("tiny-llama"), RT_CONTAINER_HF, "bf16", path_of("good"), plain);
    assert_int_equal(rt_dir_make(path_of("spoiled"), &e), RT_OK);
    rt_model_file *m = open_model(path_of("good"));
    rt_convert_opts o = { .to = RT_CONTAINER_SAFETENSORS, .path = path_of("spoiled/x.safetensors") };
    assert_int_equal(rt_convert_plan(&v, m, &o, &e), RT_OK);
    assert_int_equal(rt_convert_run(&v, spoil, &spoiled, pool, &e), RT_IO);
    assert_true(spoiled);
    assert_non_null(strstr(e.text, "not what was written"));
    assert_false(rt_path_exists(path_of("spoiled/x.safetensors")));
    rt_convert_free(&v);
    rt_model_file_close(m);
}

/* ---- memory ---- */

static int whole_life(rt_container to, const char *in, const char *out, rt_err *e)
{
    int rc;
    rt_model_file *m = NULL;
    rt_pool *own = NULL;
    rt_convert v = { 0 };
    const rt_hub_env env = { 0 };
    RT_TRY(rt_pool_new(&own, 2, e));
    RT_TRY(rt_model_file_open(&m, in, &env, e));
    RT_TRY(convert(&v, m, to, NULL, out, own, e));
    rt_convert_free(&v);
out:
    rt_model_file_close(m);
    rt_pool_free(own);
    return rc;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    const rt_allocator failing = { failing_alloc, failing_free, NULL };
    write_model(preset("tiny-llama"), RT_CONTAINER_HF, "bf16", path_of("mem"), plain);
    rt_pool_free(pool); /* the allocator changes only while nothing is allocated */
    pool = NULL;
    rt_allocator_set(&failing);
    for (int kind = 0; kind < 2; kind++) {
        rt_container to = kind ? RT_CONTAINER_GGUF : RT_CONTAINER_HF;
        char in[160], out[160];
        snprintf(in, sizeof in, "%s", path_of("mem"));
        snprintf(out, sizeof out, "%s", path_of(kind ? "mem.gguf" : "mem.hf"));
        rt_err e = { 0 };
        allowed = -1;
        uint64_t before = rt_alloc_count();
        if (whole_life(to, in, out, &e) < 0) fail_msg("%s", e.text);
        uint64_t total = rt_alloc_count() - before;
        assert_true(total > 20);
        for (uint64_t i = 0; i < total; i += i < 60 ? 1 : 11) {
            e = (rt_err){ 0 };
            allowed = (int64_t)i;
            int rc = whole_life(to, in, out, &e);
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
        cmocka_unit_test(every_family_through_every_format),
        cmocka_unit_test(dtypes_when_none_is_named),
        cmocka_unit_test(errors_are_those_of_the_values),
        cmocka_unit_test(figures_do_not_depend_on_threads),
        cmocka_unit_test(what_is_not_finite),
        cmocka_unit_test(layers_of_a_teacher),
        cmocka_unit_test(an_interrupt_leaves_nothing),
        cmocka_unit_test(a_damaged_apr_is_not_passed_on),
        cmocka_unit_test(a_wrong_value_is_found),
        cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
