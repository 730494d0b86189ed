/* test_step_golden.c - the step against PyTorch, from files: tests/golden/steps/, written by tools/gen_step_golden.py.
 *
 * Each file is run on `ref` in double and held to 1e-9, and on `cpu` in f32 and held to 1e-5 for logits and 1e-4 for
 * the rest. Of a result the file has its largest magnitude, its norm, the product with a fixed vector and a few
 * elements. The configurations are as transformers writes them; the weights are a formula (step_case.h). */
#include "step_case.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/file.h"

#define FOLDER "tests/golden/steps/"

/* ---- weights ---- */

static int fill_trainer(void *ctx, rt_trainer *t, const step_case *c, rt_err *e)
{
    static const float zero[1 << 12];
    static const uint32_t none[4];
    int rc;
    const rt_step_plan *s = t->plan;
    (void)ctx;
    RT_TRY(step_fill(t->x, s->student, "student", false, e));
    RT_TRY(rt_load_rope(t->x, s->student, e));
    if (s->teacher) {
        RT_TRY(step_fill(t->x, s->teacher, "teacher", false, e));
        RT_TRY(rt_load_rope(t->x, s->teacher, e));
    }
    for (uint32_t i = 0; i < s->student->param_count; i++) {
        if (!s->student->params[i].grad.buf) continue;
        assert_true(rt_trainer_elems(t, i) <= sizeof zero / sizeof *zero);
        RT_TRY(rt_trainer_write(t, 'm', i, zero, e));
        RT_TRY(rt_trainer_write(t, 'v', i, zero, e));
    }
    RT_TRY(rt_exec_write(t->x, s->fault, none, sizeof none, e));
    if (s->vmask.buf) RT_TRY(rt_exec_write(t->x, s->vmask, c->vmask, s->vmask.cols * sizeof *c->vmask, e));
out:
    return rc;
}

static int fill_model(void *ctx, rt_exec *x, const rt_decoder *d, char which, rt_err *e)
{
    int rc;
    (void)ctx;
    RT_TRY(step_fill(x, d, which == 't' ? "teacher" : "student", false, e));
    RT_TRY(rt_load_rope(x, d, e));
out:
    return rc;
}

/* ---- comparing ---- */

typedef struct verdict {
    const char *file;
    const json_t *expected;
    const step_case *c;
    bool exact;
    uint32_t compared;
    double rope;  /* the table's error over its limit: how f32 was rounded, and no more */
    double worst; /* the same of all the rest */
    char where[200];
} verdict;

static void note(verdict *v, const char *key, const char *what, double error, double limit)
{
    double share = error == 0 ? 0 : error / limit; /* a limit of 0: nothing may differ */
    if (share <= v->worst) return;
    v->worst = isnan(share) ? INFINITY : share;
    snprintf(v->where, sizeof v->where, "%s: %s: %s differs by %.3g, the limit is %.3g", v->file, key, what, error,
             limit);
}

/* The table is ours until a job's takes its place; transformers computes it in f32. */
static void compare_rope(verdict *v, const char *key, const double *values, uint64_t n)
{
    const double *table = v->c->rope[strcmp(key, "rope.teacher") == 0];
    for (uint64_t i = 0; i < n; i++) v->rope = fmax(v->rope, fabs(values[i] / table[i] - 1) / (4 * 0x1p-24));
}

static void compare_summary(verdict *v, const char *key, const json_t *want, const double *x, uint64_t n)
{
    const json_t *at = json_object_get(want, "at");
    double max = step_number(want, "max", -1), norm = step_number(want, "norm", -1), squares = 0, dot = 0, apart = 0;
    uint64_t seed = step_seed("dot", "");
    size_t k, samples = json_array_size(at);
    const json_t *value;
    for (uint64_t i = 0; i < n; i++) {
        squares += x[i] * x[i];
        dot += x[i] * step_unit(seed, i);
    }
    json_array_foreach(at, k, value)
    {
        double d = x[(k * 2654435761ull + 12345) % n] - json_number_value(value);
        if (v->exact) note(v, key, "an element", fabs(d), 1e-9 * max);
        apart += d * d;
    }
    double limit = v->exact ? 1e-9 : strncmp(key, "logits.", 7) == 0 ? 1e-5 : 1e-4;
    if (!v->exact) note(v, key, "the elements", sqrt(apart), limit * norm * sqrt((double)samples / (double)n));
    note(v, key, "the norm", fabs(sqrt(squares) - norm), limit * norm);
    note(v, key, "the product", fabs(dot - step_number(want, "dot", INFINITY)), limit * norm);
}

static int compare(void *ctx, const char *key, const double *values, uint64_t n, rt_err *e)
{
    verdict *v = ctx;
    const json_t *want = json_object_get(v->expected, key);
    if (strcmp(key, "rope.student") == 0 || strcmp(key, "rope.teacher") == 0) {
        compare_rope(v, key, values, n);
        return RT_OK;
    }
    if (strncmp(key, "frozen.", 7) == 0) { /* by formula still */
        uint64_t seed = step_seed("student", key + 7);
        for (uint64_t i = 0; i < n; i++) note(v, key, "a weight", fabs(values[i] - step_weight(key + 7, seed, i)), 0);
        return RT_OK;
    }
    if (!want) return rt_fail(e, RT_INTERNAL, "%s has nothing about %s", v->file, key);
    if ((uint64_t)step_number(want, "n", 0) != n)
        return rt_fail(e, RT_INTERNAL, "%s: %s has %llu values", v->file, key, (unsigned long long)n);
    v->compared++;
    compare_summary(v, key, want, values, n);
    return RT_OK;
}

/* ---- running ---- */

static void read_config(rt_model_config *c, const json_t *object, rt_arena *a)
{
    rt_err e = { 0 };
    char *text = json_dumps(object, 0);
    assert_non_null(text);
    if (rt_config_from_json(c, text, strlen(text), "config.json", a, &e) < 0) fail_msg("%s", e.text);
    rt_free(text);
}

/* isa: null for the best that there is. false: this machine has not got it. */
static bool open_device(rt_dev **d, const char *backend, const char *isa)
{
    const rt_backend *b;
    rt_err e = { 0 };
    assert_int_equal(rt_backend_find(backend, &b, &e), RT_OK);
    int rc = b->open(d, 0, &RT_DEV_OPTIONS({ "threads", "2" }, { "isa", isa }), &e);
    if (rc < 0 && !isa) fail_msg("%s: %s", backend, e.text);
    return rc >= 0;
}

static void run_file(const char *name, const char *backend, const char *isa)
{
    static step_case c;
    static rt_model_config student, teacher;
    char path[128];
    json_error_t at;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    rt_dev *d = NULL;
    rt_trainer *t = NULL;
    if (!open_device(&d, backend, isa)) return;
    snprintf(path, sizeof path, FOLDER "%s", name);
    json_t *document = json_load_file(path, 0, &at);
    if (!document) fail_msg("%s: %s", path, at.text);
    const json_t *job = json_object_get(document, "job"), *has = json_object_get(document, "teacher");
    bool taught = json_is_object(has), exact = strcmp(backend, "ref") == 0;
    read_config(&student, json_object_get(document, "student"), &a);
    if (taught) read_config(&teacher, has, &a);
    if (step_case_read(&c, job, &student, taught ? &teacher : NULL, exact ? &rt_policy_f64 : &rt_policy_f32, &e) < 0)
        fail_msg("%s: %s", path, e.text);
    verdict v = { .file = name, .expected = json_object_get(document, "expected"), .c = &c, .exact = exact };
    step_weights w = { fill_trainer, fill_model, NULL };
    int rc = step_logits(&c, d, &w, 's', compare, &v, &e);
    if (rc >= 0 && taught) rc = step_logits(&c, d, &w, 't', compare, &v, &e);
    if (rc >= 0) rc = step_train(&t, &c, d, &w, compare, &v, &e);
    if (rc < 0) fail_msg("%s on %s: %s", name, backend, e.text);
    if (!(v.rope < 1)) fail_msg("%s on %s: the rope table differs", name, backend);
    if (!(v.worst < 1)) fail_msg("on %s: %s", backend, v.where);
    assert_int_equal(v.compared, json_object_size(v.expected)); /* nothing was left out */
    print_message("%s on %s%s%s: %u results, at worst %.2g of the limit (%s)\n", name, backend, isa ? " " : "",
                  isa ? isa : "", v.compared, v.worst, v.where);
    rt_trainer_free(t);
    d->api->close(d);
    json_decref(document);
    rt_arena_free(&a);
}

/* Every file of the folder. */
static void run_files(const char *backend, const char *isa)
{
    char **files;
    uint32_t count;
    rt_err e = { 0 };
    rt_arena a = { 0 };
    if (rt_dir_list(&files, &count, &a, FOLDER, &e) < 0) fail_msg("%s", e.text);
    assert_true(count >= 13);
    for (uint32_t i = 0; i < count; i++) run_file(files[i], backend, isa);
    rt_arena_free(&a);
}

static void test_ref(void **state)
{
    (void)state;
    run_files("ref", NULL);
}

static void test_cpu(void **state)
{
    (void)state;
    static const char *const isas[] = { NULL, "generic", "avx2", "avx512", "neon" };
    for (size_t k = 0; k < sizeof isas / sizeof *isas; k++) run_files("cpu", isas[k]);
}

/* The comparison itself: what is a little off must show. */
static void test_control(void **state)
{
    (void)state;
    double x[] = { 1, 2, 3 }, norm = sqrt(14), dot = 0;
    for (uint64_t i = 0; i < 3; i++) dot += x[i] * step_unit(step_seed("dot", ""), i);
    json_t *want = json_pack("{s:i, s:f, s:f, s:f, s:[f]}", "n", 3, "max", 3.0, "norm", norm, "dot", dot, "at", x[0]);
    verdict v = { .file = "control", .exact = true };
    compare_summary(&v, "weight.x", want, x, 3);
    assert_true(v.worst < 1e-3);
    x[1] += 1e-8;
    compare_summary(&v, "weight.x", want, x, 3);
    assert_true(v.worst > 1);
    v = (verdict){ .file = "control" };
    compare_summary(&v, "weight.x", want, x, 3);
    assert_true(v.worst < 1);
    x[1] += 1e-3;
    compare_summary(&v, "weight.x", want, x, 3);
    assert_true(v.worst > 1);
    json_decref(want);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(test_ref), cmocka_unit_test(test_cpu),
                                        cmocka_unit_test(test_control) };
    rt_json_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
