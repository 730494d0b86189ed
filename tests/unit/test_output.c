/* test_output.c - the model that a run leaves: it loads again and is what was in memory after rounding, frozen tensors
 * are the bytes they were, adapters have PEFT's names and merged ones are W + s B A. */
#include "train_case.h"

#include "num/quant.h"
#include "train/output.h"

#include <jansson.h>
#include <math.h>

enum { T = 16, B = 2, MOST = 1 << 16 };

static rt_dev *dev;

static int set_up(void **state)
{
    dev = open_device("cpu", 1);
    return make_test_dir(state);
}

static int tear_down(void **state)
{
    dev->api->close(dev);
    return remove_test_dir(state);
}

typedef struct trained {
    rt_model_config config;
    rt_model_file *file;
    rt_trainer *t;
    rt_output o;
} trained;

/* A student that has made three steps. */
static void begin(trained *k, const char *name, rt_dtype stored, rt_dtype saved, const bool *frozen, rt_lora lora)
{
    rt_err e = { 0 };
    rt_dtype dtypes[64];
    k->config = tiny_config("tiny-qwen2", 3);
    if (!rt_path_exists(in_dir(name))) write_model(in_dir(name), &k->config, stored, false);
    k->file = open_model(in_dir(name));
    k->config = k->file->config;
    rt_step_opts o = step_options(&k->config, NULL, B, T);
    assert_int_equal(rt_load_dtypes(dtypes, k->file, &e), RT_OK);
    o.loss.ce_weight = 1;
    o.frozen = frozen;
    o.lora = lora;
    o.student_dtypes = lora.rank ? dtypes : NULL;
    k->t = NULL;
    if (rt_trainer_open(&k->t, dev, &o, &(rt_seal_opts){ 0 }, &e) < 0) fail_msg("%s", e.text);
    if (rt_trainer_load(k->t, k->file, NULL, NULL, 5, &e) < 0) fail_msg("%s", e.text);
    train_some(k->t, 1, 3);
    k->o = (rt_output){ .student = k->file, .dtype = saved, .lora = lora, .base_name = "org/base" };
}

static void end(trained *k)
{
    rt_trainer_free(k->t);
    rt_model_file_close(k->file);
}

static float round_to(float x, rt_dtype d)
{
    uint8_t raw[4];
    float y;
    rt_float_from_f32(raw, &x, d, 1);
    rt_float_to_f32(&y, raw, d, 1);
    return y;
}

static void whole_model(rt_dtype saved)
{
    static float memory[MOST], back[MOST];
    trained k;
    rt_err e = { 0 };
    rt_output_difference diff;
    char out[512], name[RT_NAME_BYTES];
    begin(&k, "f32", RT_DTYPE_F32, saved, NULL, (rt_lora){ 0 });
    snprintf(out, sizeof out, "%s", in_dir(rt_dtype_name(saved)));
    snprintf(out + strlen(out), 8, "-out");
    if (rt_output_write(out, k.t, &k.o, &e) < 0) fail_msg("%s", e.text);
    rt_model_file *m = open_model(out);
    if (rt_model_file_check(m, &e) < 0) fail_msg("%s", e.text);
    assert_false(m->config.random_init); /* it has learned something */
    assert_true(m->text.tokenizer_json.data && m->text.tokenizer_config.data);
    assert_int_equal(m->text.tokenizer_json.len, k.file->text.tokenizer_json.len);
    double sum = 0, count = 0, max = 0;
    uint32_t moved = 0;
    for (uint32_t i = 0; i < k.t->plan->student->param_count; i++) {
        const rt_param *p = &k.t->plan->student->params[i];
        const rt_tensor *now = rt_model_file_find(m, rt_param_name(name, p)), *was = rt_model_file_find(k.file, name);
        uint64_t n = rt_trainer_elems(k.t, i);
        assert_non_null(now);
        assert_int_equal(now->dtype, saved);
        assert_int_equal(now->rank, was->rank);
        assert_memory_equal(now->shape, was->shape, now->rank * sizeof *now->shape);
        assert_true(n <= MOST && rt_tensor_elems(now) == n);
        assert_int_equal(rt_trainer_read(k.t, 'w', i, memory, &e), RT_OK);
        rt_tensor_to_f32(back, now, 0, rt_tensor_rows(now));
        for (uint64_t x = 0; x < n; x++) {
            if (back[x] != round_to(memory[x], saved)) fail_msg("%s[%d]", name, (int)x);
            double d = fabs((double)back[x] - memory[x]);
            sum += d * d, count++, max = d > max ? d : max;
        }
        rt_tensor_to_f32(back, was, 0, rt_tensor_rows(was));
        moved += memcmp(back, memory, n * sizeof *back) != 0;
    }
    assert_int_equal(moved, k.t->plan->student->param_count); /* every parameter was trained */
    if (rt_output_read_back(out, k.t, &k.o, &diff, &e) < 0) fail_msg("%s", e.text);
    assert_true(diff.max == max && fabs(diff.rmse - sqrt(sum / count)) <= 1e-9 * diff.rmse);
    assert_true((saved == RT_DTYPE_F32) == (max == 0));
    /* and in the place of what was in memory */
    if (rt_output_reload(out, k.t, &k.o, &e) < 0) fail_msg("%s", e.text);
    if (rt_output_read_back(out, k.t, &k.o, &diff, &e) < 0) fail_msg("%s", e.text);
    assert_true(diff.max == 0 && diff.rmse == 0);
    rt_model_file_close(m);
    end(&k);
}

static void test_whole_model(void **state)
{
    (void)state;
    whole_model(RT_DTYPE_F32);
    whole_model(RT_DTYPE_BF16);
    whole_model(RT_DTYPE_F16);
}

/* What the trained part differs by is seen, and where. */
static void test_difference_is_seen(void **state)
{
    (void)state;
    static float w[MOST];
    trained k;
    rt_err e = { 0 };
    rt_output_difference diff;
    begin(&k, "f32", RT_DTYPE_F32, RT_DTYPE_F32, NULL, (rt_lora){ 0 });
    uint64_t live = rt_alloc_live();
    if (rt_output_write(in_dir("seen"), k.t, &k.o, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_alloc_live(), live); /* nothing is kept behind */
    uint32_t i = k.t->plan->student->layers[1].down.param[0];
    assert_int_equal(rt_trainer_read(k.t, 'w', i, w, &e), RT_OK);
    w[7] += 0.5f;
    assert_int_equal(rt_trainer_write(k.t, 'w', i, w, &e), RT_OK);
    assert_int_equal(rt_output_read_back(in_dir("seen"), k.t, &k.o, &diff, &e), RT_OK);
    assert_true(fabs(diff.max - 0.5) < 1e-6);
    assert_string_equal(diff.worst, "model.layers.1.mlp.down_proj.weight");
    /* never over what is there */
    assert_int_equal(rt_output_write(in_dir("seen"), k.t, &k.o, &e), RT_INVALID);
    end(&k);
}

static void test_frozen(void **state)
{
    (void)state;
    bool frozen[64] = { 0 };
    trained k;
    rt_err e = { 0 };
    char name[RT_NAME_BYTES];
    rt_role role;
    uint32_t layer, same = 0, other = 0;
    rt_model_config c = tiny_config("tiny-qwen2", 3);
    for (uint32_t i = 0; rt_param_at(&c, i, &role, &layer); i++) frozen[i] = role == RT_ROLE_EMBED || layer == 1;
    begin(&k, "bf16", RT_DTYPE_BF16, RT_DTYPE_BF16, frozen, (rt_lora){ 0 });
    if (rt_output_write(in_dir("frozen"), k.t, &k.o, &e) < 0) fail_msg("%s", e.text);
    rt_model_file *m = open_model(in_dir("frozen"));
    for (uint32_t i = 0; rt_param_at(&c, i, &role, &layer); i++) {
        const rt_tensor *was = rt_model_file_find(k.file, rt_role_hf_name(name, role, layer)),
                        *now = rt_model_file_find(m, name);
        assert_true(was->bytes == now->bytes && was->dtype == now->dtype);
        bool equal = memcmp(was->data, now->data, was->bytes) == 0;
        if (frozen[i] && !equal) fail_msg("%s is frozen and has changed", name);
        equal ? same++ : other++;
    }
    assert_true(same >= 13 && other > 5);
    rt_model_file_close(m);
    end(&k);
}

/* ---- adapters ---- */

static void test_adapters(void **state)
{
    (void)state;
    static float memory[MOST], back[MOST];
    trained k;
    rt_err e = { 0 };
    rt_lora lora = { 4, 12.0, 1u << RT_ROLE_Q | 1u << RT_ROLE_DOWN, 0 };
    begin(&k, "bf16", RT_DTYPE_BF16, RT_DTYPE_F32, NULL, lora);
    if (rt_output_write(in_dir("peft"), k.t, &k.o, &e) < 0) fail_msg("%s", e.text);
    rt_model_file *m = open_model(in_dir("peft/adapter_model.safetensors"));
    const rt_decoder *d = k.t->plan->student;
    assert_int_equal(m->tensor_count, 2 * 2 * 2); /* layers, roles, halves */
    static const struct {
        const char *name;
        uint64_t rows, cols;
    } want[] = { { "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight", 4, 32 },
                 { "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight", 32, 4 },
                 { "base_model.model.model.layers.1.mlp.down_proj.lora_A.weight", 4, 48 },
                 { "base_model.model.model.layers.1.mlp.down_proj.lora_B.weight", 32, 4 } };
    for (int i = 0; i < 4; i++) {
        const rt_tensor *t = rt_model_file_find(m, want[i].name);
        if (!t) fail_msg("no %s", want[i].name);
        assert_true(t->rank == 2 && t->shape[0] == want[i].rows && t->shape[1] == want[i].cols);
    }
    for (uint32_t i = d->model_params; i < d->param_count; i++) {
        char name[RT_NAME_BYTES], full[RT_NAME_BYTES + 20];
        snprintf(full, sizeof full, "base_model.model.%s", rt_param_name(name, &d->params[i]));
        const rt_tensor *t = rt_model_file_find(m, full);
        assert_non_null(t);
        assert_int_equal(rt_trainer_read(k.t, 'w', i, memory, &e), RT_OK);
        rt_tensor_to_f32(back, t, 0, rt_tensor_rows(t));
        assert_memory_equal(memory, back, rt_trainer_elems(k.t, i) * sizeof *back);
        double sum = 0;
        for (uint64_t x = 0; x < rt_trainer_elems(k.t, i); x++) sum += fabs((double)memory[x]);
        assert_true(sum > 0); /* B was zero before the first step */
    }
    rt_model_file_close(m);
    json_t *j = json_load_file(in_dir("peft/adapter_config.json"), 0, NULL);
    assert_int_equal(json_integer_value(json_object_get(j, "r")), 4);
    assert_true(json_number_value(json_object_get(j, "lora_alpha")) == 12.0);
    assert_true(json_is_number(json_object_get(j, "lora_dropout")));
    assert_true(json_number_value(json_object_get(j, "lora_dropout")) == 0.0);
    assert_string_equal(json_string_value(json_object_get(j, "peft_type")), "LORA");
    assert_string_equal(json_string_value(json_object_get(j, "task_type")), "CAUSAL_LM");
    assert_string_equal(json_string_value(json_object_get(j, "base_model_name_or_path")), "org/base");
    assert_string_equal(json_string_value(json_object_get(j, "bias")), "none");
    const json_t *targets = json_object_get(j, "target_modules");
    assert_int_equal(json_array_size(targets), 2);
    assert_string_equal(json_string_value(json_array_get(targets, 0)), "q_proj");
    assert_string_equal(json_string_value(json_array_get(targets, 1)), "down_proj");
    json_decref(j);
    end(&k);
}

/* The model that stands at `base`, with adapters on all projections: merged is W + alpha / r B A. */
static void merged_of(const char *base, const char *out, rt_dtype stored)
{
    static float w[MOST], a[MOST], b[MOST], got[MOST];
    trained k;
    rt_err e = { 0 };
    char name[RT_NAME_BYTES];
    rt_lora lora = { 4, 12.0, RT_LORA_ROLES, 0 };
    uint32_t merged = 0;
    begin(&k, base, stored, RT_DTYPE_F32, NULL, lora);
    if (rt_output_merged(in_dir(out), k.t, &k.o, &e) < 0) fail_msg("%s", e.text);
    rt_model_file *m = open_model(in_dir(out));
    if (rt_model_file_check(m, &e) < 0) fail_msg("%s", e.text);
    const rt_decoder *d = k.t->plan->student;
    for (uint32_t i = 0; i < d->model_params; i++) {
        const rt_tensor *was = rt_model_file_find(k.file, rt_param_name(name, &d->params[i])),
                        *now = rt_model_file_find(m, name);
        uint64_t rows = rt_tensor_rows(was), cols = rt_tensor_cols(was);
        uint32_t h = d->model_params;
        while (h < d->param_count &&
               (d->params[h].role != d->params[i].role || d->params[h].layer != d->params[i].layer))
            h += 2;
        rt_tensor_to_f32(w, was, 0, rows);
        rt_tensor_to_f32(got, now, 0, rows);
        if (h >= d->param_count) {
            assert_memory_equal(w, got, rows * cols * sizeof *w);
            continue;
        }
        merged++;
        assert_int_equal(rt_trainer_read(k.t, 'w', h, a, &e), RT_OK);
        assert_int_equal(rt_trainer_read(k.t, 'w', h + 1, b, &e), RT_OK);
        double moved = 0;
        for (uint64_t r = 0; r < rows; r++)
            for (uint64_t c = 0; c < cols; c++) {
                double add = 0, size = fabs((double)w[r * cols + c]);
                for (uint32_t x = 0; x < 4; x++) add += 3.0 * b[r * 4 + x] * a[x * cols + c];
                for (uint32_t x = 0; x < 4; x++) size += fabs(3.0 * b[r * 4 + x] * a[x * cols + c]);
                if (fabs(got[r * cols + c] - (w[r * cols + c] + add)) > 1e-6 * size) fail_msg("%s", name);
                moved += fabs(add);
            }
        assert_true(moved > 0);
    }
    assert_int_equal(merged, 14);
    rt_model_file_close(m);
    end(&k);
}

static void write_quantised(const char *path)
{
    rt_err e = { 0 };
    rt_pool *pool = NULL;
    rt_model_config c = tiny_config("tiny-qwen2", 3);
    c.hidden = 64; /* rows of whole blocks */
    rt_out_tensor t[64];
    uint64_t shape[2];
    uint32_t n = rt_param_count(&c);
    for (uint32_t i = 0; i < n; i++) {
        rt_param_at(&c, i, &t[i].role, &t[i].layer);
        t[i].dtype = rt_role_shape(&c, t[i].role, shape) == 2 ? RT_DTYPE_Q8_0 : RT_DTYPE_F32;
    }
    assert_int_equal(rt_pool_new(&pool, 1, &e), RT_OK);
    rt_model_out o = {
        .to = RT_CONTAINER_GGUF, .path = path, .name = "q", .config = &c, .tensors = t, .tensor_count = n
    };
    if (rt_init_random(&o, &(rt_init_opts){ 0 }, pool, &e) < 0) fail_msg("%s", e.text);
    rt_pool_free(pool);
}

static void test_merged(void **state)
{
    (void)state;
    merged_of("bf16", "merged", RT_DTYPE_BF16);
    write_quantised(in_dir("q8.gguf"));
    merged_of("q8.gguf", "merged-q8", RT_DTYPE_Q8_0);
}

/* Adapters of a folder put back into memory, as the end of a run does with its best. */
static void test_adapters_reloaded(void **state)
{
    (void)state;
    trained k;
    rt_err e = { 0 };
    rt_output_difference diff;
    rt_lora lora = { 4, 12.0, RT_LORA_ROLES, 0 };
    begin(&k, "bf16", RT_DTYPE_BF16, RT_DTYPE_BF16, NULL, lora);
    if (rt_output_write(in_dir("again"), k.t, &k.o, &e) < 0) fail_msg("%s", e.text);
    train_some(k.t, 4, 1);
    assert_int_equal(rt_output_read_back(in_dir("again"), k.t, &k.o, &diff, &e), RT_OK);
    assert_true(diff.max > 1e-4); /* another step away */
    assert_int_equal(rt_output_reload(in_dir("again"), k.t, &k.o, &e), RT_OK);
    assert_int_equal(rt_output_read_back(in_dir("again"), k.t, &k.o, &diff, &e), RT_OK);
    assert_true(diff.max == 0);
    end(&k);
}

static int write_both(void *ctx, rt_err *e)
{
    trained *k = ctx;
    int rc = rt_output_write(in_dir("oom"), k->t, &k->o, e);
    return rc < 0 ? rc : rt_output_merged(in_dir("oom-merged"), k->t, &k->o, e);
}

static void test_out_of_memory(void **state)
{
    (void)state;
    trained k;
    rt_lora lora = { 4, 12.0, 1u << RT_ROLE_Q, 0 };
    begin(&k, "bf16", RT_DTYPE_BF16, RT_DTYPE_BF16, NULL, lora);
    fail_each(write_both, &k, 0);
    end(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_model),   cmocka_unit_test(test_difference_is_seen),
        cmocka_unit_test(test_frozen),        cmocka_unit_test(test_adapters),
        cmocka_unit_test(test_merged),        cmocka_unit_test(test_adapters_reloaded),
        cmocka_unit_test(test_out_of_memory),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
