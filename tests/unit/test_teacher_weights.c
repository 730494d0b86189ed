/* test_teacher_weights.c - --teacher-weights: what auto decides and says in every case, which dtypes follow, and that a
 * matrix dequantised once to bf16 gives the bits of one that is dequantised before every GEMM. */
#include "train_case.h"

#include "job/prepare/fit.h"

#include <math.h>

/* ---- the decision ---- */

static void every_case_is_decided(void **state)
{
    static const struct {
        rt_weights_case c;
        rt_teacher_weights weights;
        const char *text;
    } table[] = {
        { { true, 1024, 4096, 4096, 300, 0 },
          RT_WEIGHTS_BF16,
          "the teacher's are dequantised to bf16 once: the run takes 4.00 KiB instead of 1.00 KiB, "
          "and a step moves 300 B "
          "less" },
        { { true, 1024, 4096, 4095, 300, 0 },
          RT_WEIGHTS_NATIVE,
          "the teacher's stay as they are stored: with bf16 the run would take 4.00 KiB, and the limit is 4.00 KiB" },
        { { true, 1024, 4096, 1 << 20, 300, 300 },
          RT_WEIGHTS_NATIVE,
          "the teacher's stay as they are stored: this device multiplies them so" },
        { { true, 1024, 4096, 1 << 20, 300, 301 }, /* bf16 that has to be widened again, as on sm_75 */
          RT_WEIGHTS_NATIVE,
          "the teacher's stay as they are stored: this device multiplies them so" },
        { { true, 4096, 1024, 4096, 300, 299 }, /* f32 on a device that casts it: bf16 is the smaller */
          RT_WEIGHTS_BF16,
          "the teacher's are dequantised to bf16 once: the run takes 1.00 KiB instead of 4.00 KiB, "
          "and a step moves 1 B "
          "less" },
        { { false, 1024, 1024, 1 << 20, 300, 300 },
          RT_WEIGHTS_NATIVE,
          "the teacher's stay as they are stored: nothing in them needs dequantising" },
        { { true, 1024, 4096, 100, 0, 0 }, /* no gain is said before no room */
          RT_WEIGHTS_NATIVE,
          "the teacher's stay as they are stored: this device multiplies them so" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rt_str text = { 0 };
        rt_weights_choice c = rt_weights_decide(&table[i].c);
        assert_int_equal(c.weights, table[i].weights);
        rt_weights_say(&text, &c);
        assert_string_equal(text.data, table[i].text);
        rt_str_free(&text);
    }
}

static void what_was_asked_for_is_said_so(void **state)
{
    (void)state;
    rt_str text = { 0 };
    rt_weights_say(&text, &(rt_weights_choice){ .weights = RT_WEIGHTS_BF16, .why = RT_WEIGHTS_UNSAID });
    assert_int_equal(text.len, 0);
    rt_weights_say(&text, &(rt_weights_choice){ .weights = RT_WEIGHTS_BF16, .why = RT_WEIGHTS_ASKED });
    assert_string_equal(text.data, "the teacher's are dequantised to bf16 once, as the settings say");
    rt_str_free(&text);
    rt_weights_say(&text, &(rt_weights_choice){ .weights = RT_WEIGHTS_FP8, .why = RT_WEIGHTS_ASKED });
    assert_string_equal(text.data, "the teacher's are quantised to fp8 once, as the settings say");
    rt_str_free(&text);
}

/* Below a tenth of the student's own, and only where both are numbers. */
static void fp8_is_taken_where_it_is_near(void **state)
{
    static const struct {
        rt_fp8 fp8;
        bool may;
        const char *taken, *not_taken; /* the end of what is said; null: that cannot be */
    } table[] = {
        { { RT_FP8_NO, 0, 1, 0 }, false, NULL, "nothing in them needs dequantising" },
        { { RT_FP8_LATER, 0, 0, 0 },
          true,
          "the teacher's are quantised to fp8 once, if that is near enough when it is measured before step 1",
          "nothing in them needs dequantising; not fp8: with it the run would take more time, or not fit" },
        { { RT_FP8_NO_ROOM, 0, 0, 0 },
          false,
          NULL,
          "nothing in them needs dequantising; not fp8: it is taken where it is measured, which does not fit beside "
          "the teacher" },
        { { RT_FP8_MEASURED, 0.0312, 0.3121, 4096 },
          true,
          "the teacher's are quantised to fp8 once: KL(bf16 || fp8) is 0.0312 on 4096 held-out positions, below a "
          "tenth of the student's 0.3121",
          "nothing in them needs dequantising; not fp8: with it the run would take more time, or not fit" },
        { { RT_FP8_MEASURED, 0.25, 2.5, 4096 }, /* not below: a tenth itself */
          false,
          NULL,
          "nothing in them needs dequantising; not fp8: KL(bf16 || fp8) is 0.2500 on 4096 held-out positions, not "
          "below a tenth of the student's 2.5000" },
        { { RT_FP8_MEASURED, NAN, 2, 1 }, false, NULL, "not below a tenth of the student's 2.0000" },
        { { RT_FP8_MEASURED, 0.01, NAN, 1 }, false, NULL, "not below a tenth of the student's nan" },
        { { RT_FP8_MEASURED, 0, 0, 1 }, false, NULL, "not below a tenth of the student's 0.0000" },
    };
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        rt_str text = { 0 };
        rt_weights_choice c = { .why = RT_WEIGHTS_SAME, .fp8 = table[i].fp8 };
        assert_int_equal(rt_fp8_may(&table[i].fp8), table[i].may);
        rt_weights_say(&text, &c);
        size_t end = strlen(table[i].not_taken);
        assert_true(text.len >= end);
        assert_string_equal(text.data + text.len - end, table[i].not_taken);
        rt_str_free(&text);
        if (!table[i].taken) continue;
        c = (rt_weights_choice){ .weights = RT_WEIGHTS_FP8, .why = RT_WEIGHTS_FASTER, .fp8 = table[i].fp8 };
        rt_weights_say(&text, &c);
        assert_string_equal(text.data, table[i].taken);
        rt_str_free(&text);
    }
}

static void words_go_both_ways(void **state)
{
    rt_teacher_weights w;
    (void)state;
    for (int i = 0; i <= RT_WEIGHTS_AUTO; i++) {
        assert_true(rt_weights_parse(rt_weights_name((rt_teacher_weights)i), &w));
        assert_int_equal(w, i);
    }
    assert_false(rt_weights_parse("f16", &w));
    assert_false(rt_weights_parse("", &w));
}

/* ---- dtypes ---- */

static void matrices_become_bf16_and_vectors_stay(void **state)
{
    enum { MOST = 256 };
    rt_dtype stored[MOST], wide[MOST];
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    rt_role role;
    uint32_t n = rt_param_count(&c), layer, matrices = 0;
    (void)state;
    assert_true(n <= MOST);
    for (uint32_t i = 0; i < n; i++) stored[i] = i % 3 ? RT_DTYPE_F32 : RT_DTYPE_F16;
    rt_weights_dtypes(wide, stored, &c, RT_WEIGHTS_BF16);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t shape[2];
        assert_true(rt_param_at(&c, i, &role, &layer));
        bool matrix = rt_role_shape(&c, role, shape) == 2;
        assert_int_equal(wide[i], matrix ? RT_DTYPE_BF16 : stored[i]);
        matrices += matrix;
    }
    assert_true(matrices > 8 && matrices < n);
    /* plain matrices are bf16 on a bf16 device anyway; packed ones nowhere */
    assert_true(rt_weights_differ(stored, &c, &rt_policy_f32));
    assert_false(rt_weights_differ(stored, &c, &rt_policy_bf16));
    assert_false(rt_weights_differ(wide, &c, &rt_policy_f32));
    stored[n - 1] = RT_DTYPE_Q4_K; /* the final norm of a tied model: a vector */
    assert_false(rt_weights_differ(stored, &c, &rt_policy_bf16));
    stored[0] = RT_DTYPE_Q4_K;
    assert_true(rt_weights_differ(stored, &c, &rt_policy_bf16));
}

static void matrices_of_layers_become_e4m3(void **state)
{
    enum { MOST = 256 };
    rt_dtype stored[MOST], coded[MOST], kept[MOST];
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    rt_role role;
    uint32_t n = rt_param_count(&c), layer, codes = 0;
    (void)state;
    c.tied = false;
    n = rt_param_count(&c);
    assert_true(n <= MOST);
    for (uint32_t i = 0; i < n; i++) stored[i] = i % 3 ? RT_DTYPE_F32 : RT_DTYPE_Q4_K;
    rt_weights_dtypes(coded, stored, &c, RT_WEIGHTS_FP8);
    rt_weights_fp8(kept, stored, &c, &(uint32_t){ 1 }, 1);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t shape[2];
        assert_true(rt_param_at(&c, i, &role, &layer));
        bool matrix = rt_role_shape(&c, role, shape) == 2, head = role == RT_ROLE_EMBED || role == RT_ROLE_HEAD;
        assert_int_equal(coded[i], !matrix ? stored[i] : head ? RT_DTYPE_BF16 : RT_DTYPE_E4M3);
        assert_int_equal(kept[i], coded[i] == RT_DTYPE_E4M3 && layer == 1 ? RT_DTYPE_BF16 : coded[i]);
        codes += coded[i] == RT_DTYPE_E4M3;
    }
    assert_int_equal(codes, 7 * c.layers);
    rt_weights_dtypes(stored, stored, &c, RT_WEIGHTS_FP8); /* in place */
    assert_memory_equal(stored, coded, n * sizeof *stored);
    /* a model of many layers keeps both ends */
    for (c.layers = 7; c.layers <= 8; c.layers++) {
        n = rt_param_count(&c);
        assert_true(n <= MOST);
        for (uint32_t i = 0; i < n; i++) stored[i] = RT_DTYPE_BF16;
        rt_weights_dtypes(coded, stored, &c, RT_WEIGHTS_FP8);
        rt_weights_fp8(kept, stored, &c, (const uint32_t[]){ 0, 7 }, c.layers == 8 ? 2 : 0);
        assert_memory_equal(coded, kept, n * sizeof *kept);
        for (uint32_t i = codes = 0; i < n; i++) codes += coded[i] == RT_DTYPE_E4M3;
        assert_int_equal(codes, 7 * (c.layers == 8 ? 6 : 7));
        /* at every use: the same layers, of what stays as it is stored */
        rt_layer_range r = rt_weights_coded(&c, RT_WEIGHTS_FP8_NATIVE), none = rt_weights_coded(&c, RT_WEIGHTS_FP8);
        assert_true(r.first == (c.layers == 8) && r.end == 7 && none.first == none.end);
        rt_weights_dtypes(coded, stored, &c, RT_WEIGHTS_FP8_NATIVE);
        assert_memory_equal(coded, stored, n * sizeof *coded);
    }
}

/* ---- bits ---- */

/* A CPU that multiplies as a GPU does: operands of one dtype, so a packed matrix is dequantised before its GEMM.
 */
static rt_backend narrow;
static bool (*real_supports)(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need);

static bool needs_one_dtype(rt_dev *d, const rt_plan *p, const rt_op *op, rt_need *need)
{
    if (op->kind == RT_OP_MATMUL && rt_plan_dtype(p, op->slot[RT_MM_B]) != rt_plan_dtype(p, op->slot[RT_MM_A])) {
        *need = (rt_need){ .recast = 1 + RT_MM_B, .recast_to = rt_plan_dtype(p, op->slot[RT_MM_A]) };
        return false;
    }
    return real_supports(d, p, op, need);
}

static const rt_policy *bf16_policy(rt_dev *d)
{
    (void)d;
    return &rt_policy_bf16;
}

static rt_dev *narrow_device(void)
{
    rt_dev *d = open_device("cpu", 1);
    narrow = *d->api;
    real_supports = narrow.supports;
    narrow.supports = needs_one_dtype;
    narrow.policy = bf16_policy;
    d->api = &narrow;
    return d;
}

/* A teacher of quantised matrices in GGUF. */
static void quantised_teacher(const char *path, const char *mix)
{
    rt_model_config c = tiny_config("tiny-llama", 9);
    c.width = 256; /* a block of Q4_K */
    c.hidden = 256;
    c.layers = 2;
    c.head_dim = 32;
    c.tied = false;
    if (!rt_path_exists(in_dir("wide"))) write_model(in_dir("wide"), &c, RT_DTYPE_F32, false);
    pack_model(in_dir("wide"), path, mix);
}

enum { B = 2, T = 16, STEPS = 3 };

/* Some steps of a student that learns from the teacher, as numbers. */
static void learn(rt_dev *d, const rt_model_file *student, const rt_model_file *teacher, const rt_dtype *dtypes,
                  rt_layer_range coded, rt_step_result out[STEPS], rt_fit_need *need)
{
    rt_err e = { 0 };
    rt_trainer *t = NULL;
    int32_t ids[B * T], pos[B * T], start[B * T] = { 0 }, target[B * T];
    rt_step_opts o = step_options(&student->config, &teacher->config, B, T);
    o.policy = *rt_device_policy(d);
    o.teacher_dtypes = dtypes;
    o.teacher_coded = coded;
    if (rt_fit_need_of(d, &o, 1, need, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_open(&t, d, &o, &(rt_seal_opts){ 0 }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(t, student, teacher, NULL, 1, &e) < 0) fail_msg("%s", e.text);
    for (uint32_t s = 0; s < STEPS; s++) {
        for (uint32_t i = 0; i < B * T; i++) {
            ids[i] = (int32_t)((i * 13 + s * 5 + i * i) % 200);
            pos[i] = (int32_t)(i % T);
        }
        for (uint32_t i = 0; i < B * T; i++) target[i] = i % T == T - 1 ? -1 : ids[i + 1];
        rt_batch b = { ids, pos, start, target, NULL };
        if (rt_trainer_step(t, &b, 1, s + 1, 1e-2, 1, &out[s], &e) < 0) fail_msg("%s", e.text);
    }
    rt_trainer_free(t);
}

/* Codes of packed values, made by the loader or before each product, of all matrices that read one input together. */
static void codes_once_or_each_time_are_the_same(rt_dev *d, const rt_model_file *student, const rt_model_file *teacher,
                                                 const rt_step_result *otherwise)
{
    rt_dtype stored[64], coded[64];
    rt_step_result once[STEPS], each[STEPS];
    rt_fit_need at_first, each_time;
    rt_err e = { 0 };
    const rt_model_config *c = &teacher->config;
    assert_int_equal(rt_load_dtypes(stored, teacher, &e), RT_OK);
    rt_weights_dtypes(coded, stored, c, RT_WEIGHTS_FP8);
    learn(d, student, teacher, coded, rt_weights_coded(c, RT_WEIGHTS_FP8), once, &at_first);
    learn(d, student, teacher, stored, rt_weights_coded(c, RT_WEIGHTS_FP8_NATIVE), each, &each_time);
    assert_memory_equal(once, each, sizeof once);
    assert_true(each_time.work > at_first.work);
    assert_true(once[0].div != otherwise[0].div);
}

/* Packed values are rounded to bf16 in either case: before each product by the device, once by the loader. Products
 * and sums are then of the same numbers. (On a GPU the products may be cut and joined in another way, and a sum taken
 * in another order; there the bits are compared by a run.) */
static void expanded_once_or_each_time_is_the_same(void **state)
{
    static const char *const mixes[] = { "q4_k_m", "q8_0" }, *const names[] = { "4.gguf", "8.gguf" };
    enum { MOST = 64 };
    rt_dtype stored[MOST], wide[MOST];
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    rt_err e = { 0 };
    (void)state;
    write_model(in_dir("student"), &c, RT_DTYPE_F32, false);
    rt_model_file *student = open_model(in_dir("student"));
    for (int i = 0; i < 2; i++) {
        const rt_layer_range none = { 0, 0 };
        rt_step_result packed[STEPS], once[STEPS], plain[STEPS];
        rt_fit_need each_time, at_first, of_cpu, of_cpu_wide;
        quantised_teacher(in_dir(names[i]), mixes[i]);
        rt_model_file *teacher = open_model(in_dir(names[i]));
        assert_true(rt_param_count(&teacher->config) <= MOST);
        assert_int_equal(rt_load_dtypes(stored, teacher, &e), RT_OK);
        rt_weights_dtypes(wide, stored, &teacher->config, RT_WEIGHTS_BF16);
        rt_dev *d = narrow_device();
        learn(d, student, teacher, stored, none, packed, &each_time);
        learn(d, student, teacher, wide, none, once, &at_first);
        assert_memory_equal(packed, once, sizeof packed);
        codes_once_or_each_time_are_the_same(d, student, teacher, packed);
        assert_true(each_time.dequant > at_first.dequant && each_time.bytes < at_first.bytes);
        /* the estimate of time has those bytes, at 8 FLOPs for each of them on a CPU, and at least one more op */
        double bytes = (double)(each_time.dequant - at_first.dequant);
        assert_true(each_time.work - at_first.work > 8 * bytes + 1e6);
        d->api->close(d);
        /* negative control: without rounding it is another teacher; and this device dequantises nothing */
        d = open_device("cpu", 1);
        learn(d, student, teacher, stored, none, packed, &of_cpu);
        learn(d, student, teacher, wide, none, plain, &of_cpu_wide);
        assert_true(packed[0].div != plain[0].div);
        assert_true(of_cpu.dequant == 0 && of_cpu_wide.dequant == 0);
        d->api->close(d);
        rt_model_file_close(teacher);
    }
    rt_model_file_close(student);
}

/* ---- an evaluation's ---- */

static void an_evaluation_chooses_too(void **state)
{
    enum { MOST = 64 };
    rt_dtype stored[MOST], got[MOST];
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    rt_weights_choice w;
    rt_err e = { 0 };
    (void)state;
    quantised_teacher(in_dir("teacher.gguf"), "q8_0");
    rt_model_file *teacher = open_model(in_dir("teacher.gguf"));
    assert_int_equal(rt_load_dtypes(stored, teacher, &e), RT_OK);
    size_t size = rt_param_count(&teacher->config) * sizeof *stored;
    rt_dev *devices[] = { narrow_device(), open_device("cpu", 1) };
    for (int i = 0; i < 2; i++) {
        rt_step_opts o = step_options(&c, &teacher->config, B, T);
        o.policy = *rt_device_policy(devices[i]);
        o.eval_only = true;
        o.teacher_dtypes = got;
        memcpy(got, stored, size);
        if (rt_fit_evaluation(devices[i], &o, RT_WEIGHTS_AUTO, got, &w, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(w.why, i == 0 ? RT_WEIGHTS_GAIN : RT_WEIGHTS_NO_GAIN);
        assert_int_equal(memcmp(got, stored, size) != 0, i == 0);
        memcpy(got, stored, size);
        if (rt_fit_evaluation(devices[i], &o, RT_WEIGHTS_NATIVE, got, &w, &e) < 0) fail_msg("%s", e.text);
        assert_memory_equal(got, stored, size);
        if (rt_fit_evaluation(devices[i], &o, RT_WEIGHTS_BF16, got, &w, &e) < 0) fail_msg("%s", e.text);
        assert_true(w.why == RT_WEIGHTS_ASKED && got[0] == RT_DTYPE_BF16);
        memcpy(got, stored, size);
        if (rt_fit_evaluation(devices[i], &o, RT_WEIGHTS_FP8, got, &w, &e) < 0) fail_msg("%s", e.text);
        assert_true(w.why == RT_WEIGHTS_ASKED && w.weights == RT_WEIGHTS_FP8 && got[0] == RT_DTYPE_BF16);
        bool any = false;
        for (uint32_t k = 0; k < rt_param_count(&teacher->config); k++) any = any || got[k] == RT_DTYPE_E4M3;
        assert_true(any);
        devices[i]->api->close(devices[i]);
    }
    rt_model_file_close(teacher);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_case_is_decided),
        cmocka_unit_test(what_was_asked_for_is_said_so),
        cmocka_unit_test(fp8_is_taken_where_it_is_near),
        cmocka_unit_test(words_go_both_ways),
        cmocka_unit_test(matrices_become_bf16_and_vectors_stay),
        cmocka_unit_test(matrices_of_layers_become_e4m3),
        cmocka_unit_test_setup_teardown(expanded_once_or_each_time_is_the_same, make_test_dir, remove_test_dir),
        cmocka_unit_test_setup_teardown(an_evaluation_chooses_too, make_test_dir, remove_test_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
