/* test_cuda_api.c - the environment that a caller of the C API gives reaches the CUDA backend, from every function that
 * opens a device: on the stand-in driver, cuBLASLt is found in CUDA's folder, choices by timing are kept where they are
 * asked to be, and memory is managed. */
#include "run_case.h"
#include "standin_case.h"

#include "../../include/retort.h"
#include "base/file.h"

#include <link.h>

static const standin FRESH = { STANDIN_MACHINE, .clean = 1 };
static retort_error err;
static char scratch[500];
static void fine(int rc)
{
    if (rc != RETORT_OK) fail_msg("status %d: %s", rc, err.text);
}

/* The same file at another place is another library, with a machine of its own that nobody has changed. */
static void copy_library(const char *to)
{
    rt_str bytes = { 0 };
    rt_err e = { 0 };
    struct link_map *map = NULL;
    void *lib = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(lib);
    assert_int_equal(dlinfo(lib, RTLD_DI_LINKMAP, &map), 0);
    if (rt_file_read(map->l_name, 64u << 20, &bytes, &e) < 0) fail_msg("%s", e.text);
    if (rt_file_write(to, bytes.data, bytes.len, &e) < 0) fail_msg("%s", e.text);
    rt_str_free(&bytes);
    dlclose(lib);
}

static int set_up(void **state)
{
    rt_err e = { 0 };
    *s = FRESH;
    if (make_test_dir(state) != 0) return -1;
    put_run_inputs();
    snprintf(scratch, sizeof scratch, "%s", in_dir("scratch"));
    return rt_dir_make(scratch, &e);
}

static bool managed(void) { return strstr(s->log, "cuMemAllocManaged") != NULL; }

/* Whether a GEMM of the plan is done by cuBLASLt. */
static bool plans_with_cublaslt(const retort_places *where)
{
    static const char *const set[][2] = { { "device", "cuda" }, { "steps", "2" },       { "batch", "4" },
                                          { "seq_len", "32" },  { "micro_batch", "2" }, { "tune", "on" } };
    retort_settings *settings;
    retort_plan *plan;
    char *text;
    fine(retort_settings_new(&settings, &err));
    fine(retort_settings_set(settings, "student", in_dir("student"), &err));
    fine(retort_settings_set(settings, "data", in_dir("text.jsonl"), &err));
    fine(retort_settings_set(settings, "out", in_dir("out"), &err));
    for (size_t i = 0; i < sizeof set / sizeof *set; i++)
        fine(retort_settings_set(settings, set[i][0], set[i][1], &err));
    fine(retort_plan_new(&plan, settings, &(retort_run_options){ .size = sizeof(retort_run_options), .places = where },
                         &err));
    fine(retort_plan_cost(plan, 1, &text, &err)); /* ops are run, so GEMMs are chosen */
    retort_text_free(text);
    fine(retort_plan_text(plan, 0, &text, &err));
    bool found = strstr(text, "cublaslt") != NULL;
    retort_text_free(text);
    retort_plan_free(plan);
    retort_settings_free(settings);
    return found;
}

/* That on the loader's path is too old. */
static void a_run_finds_the_library_where_the_environment_says(void **state)
{
    char cuda[500];
    rt_err e = { 0 };
    const char *const environment[] = { "HOME=/nowhere", cuda, NULL };
    const retort_places where = { .size = sizeof where, .scratch = scratch, .environment = environment };
    (void)state;
    s->lt_version = 111100;
    snprintf(cuda, sizeof cuda, "CUDA_PATH=%s", in_dir("cuda"));
    assert_int_equal(rt_dir_make(in_dir("cuda/lib64"), &e), RT_OK);
    copy_library(in_dir("cuda/lib64/libcublasLt.so.13"));
    assert_true(plans_with_cublaslt(&where));
}

static void a_run_keeps_choices_where_the_environment_says(void **state)
{
    char cache[500];
    const char *const environment[] = { cache, NULL };
    retort_places where = { .size = offsetof(retort_places, environment), /* an older caller's struct ends before it */
                            .scratch = scratch,
                            .environment = environment };
    (void)state;
    snprintf(cache, sizeof cache, "XDG_CACHE_HOME=%s", in_dir("cache"));
    assert_true(plans_with_cublaslt(&where));
    assert_false(rt_path_exists(in_dir("cache/retort/products.tsv")));
    where.size = sizeof where;
    assert_true(plans_with_cublaslt(&where));
    assert_true(rt_path_exists(in_dir("cache/retort/products.tsv")));
}

static retort_model *load(const char *const *env)
{
    retort_model *m;
    const retort_places where = { .size = sizeof where, .scratch = scratch, .environment = env };
    fine(retort_model_load(&m, in_dir("student"), &where, &err));
    return m;
}

/* The list is the caller's again when the model is loaded. */
static retort_model *load_and_forget(void)
{
    static char line[] = "MANAGED_MEMORY=1", as_given[] = "MANAGED_MEMORY=1";
    const char *list[] = { line, NULL };
    memcpy(line, as_given, sizeof line);
    retort_model *m = load(list);
    memset(line, '?', sizeof line - 1);
    list[0] = NULL;
    return m;
}

static void generate(const retort_model *m)
{
    retort_generator *g;
    const retort_generator_options o = { .size = sizeof o, .device = "cuda", .context = 16 };
    s->log_len = 0;
    s->log[0] = 0;
    fine(retort_generator_new(&g, m, &o, &err));
    retort_generator_free(g);
}

static void a_generator_is_told_the_environment_of_its_model(void **state)
{
    retort_model *plain = load(NULL), *told = load_and_forget();
    (void)state;
    generate(plain);
    assert_false(managed());
    generate(told);
    assert_true(managed());
    retort_model_free(plain);
    retort_model_free(told);
    assert_int_equal(s->live, 0);
}

static void evaluate(const retort_model *m)
{
    retort_evaluation v;
    const char *data = in_dir("text.jsonl");
    const retort_evaluate_options o = { .size = sizeof o, .device = "cuda", .seq_len = 32, .rows = 4 };
    s->log_len = 0;
    s->log[0] = 0;
    retort_evaluate(m, NULL, &data, 1, &o, &v, &err); /* nothing is computed, which it may say */
}

static void an_evaluation_is_told_the_environment_of_its_model(void **state)
{
    retort_model *plain = load(NULL), *told = load_and_forget();
    (void)state;
    evaluate(plain);
    assert_non_null(strstr(s->log, "cuMemAlloc_v2"));
    assert_false(managed());
    evaluate(told);
    assert_true(managed());
    retort_model_free(plain);
    retort_model_free(told);
    assert_int_equal(s->live, 0);
}

int main(void)
{
#define C(f) cmocka_unit_test_setup_teardown(f, set_up, remove_test_dir)
    const struct CMUnitTest tests[] = {
        C(a_run_finds_the_library_where_the_environment_says),
        C(a_run_keeps_choices_where_the_environment_says),
        C(a_generator_is_told_the_environment_of_its_model),
        C(an_evaluation_is_told_the_environment_of_its_model),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
