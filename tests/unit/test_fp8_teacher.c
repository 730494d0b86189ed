/* test_fp8_teacher.c - a decoder with e4m3 weights: codes and scales as they are loaded, projections against
 * dequantised ones, what is refused; and a run whose device gains by fp8: measured, taken or not, recorded, resumed. */
#include "run_case.h"

#include "base/rng.h"
#include "model/decoder_internal.h"
#include "num/e4m3.h"

#include <math.h>

enum { MOST = 64, ROWS = 6 };

/* All matrices of the layers e4m3, the rest `plain`. */
static void coded_dtypes(rt_dtype *to, const rt_model_config *c, rt_dtype plain)
{
    uint32_t n = rt_param_count(c);
    assert_true(n <= MOST);
    for (uint32_t i = 0; i < n; i++) to[i] = plain;
    rt_weights_dtypes(to, to, c, RT_WEIGHTS_FP8);
    for (uint32_t i = 0; i < n; i++)
        if (to[i] == RT_DTYPE_BF16) to[i] = plain;
}

/* ---- loading ---- */

/* A tensor of the file as f32, whole. */
static float *values_of(const rt_model_file *m, const rt_param *p)
{
    char name[RT_NAME_BYTES];
    const rt_tensor *t = rt_model_file_find(m, rt_role_hf_name(name, p->role, p->layer));
    assert_non_null(t);
    float *x = calloc(rt_tensor_rows(t) * rt_tensor_cols(t), sizeof *x);
    rt_tensor_to_f32(x, t, 0, rt_tensor_rows(t));
    return x;
}

static rt_trainer *open_teacher(rt_dev *d, const rt_model_file *m, const rt_dtype *dtypes, const rt_policy *policy)
{
    rt_err e = { 0 };
    rt_trainer *t = NULL;
    rt_step_opts o = step_options(&m->config, &m->config, 2, 8);
    o.policy = *policy;
    o.eval_only = true;
    o.teacher_dtypes = dtypes;
    if (rt_trainer_open(&t, d, &o, &(rt_seal_opts){ 0 }, &e) < 0) fail_msg("%s", e.text);
    return t;
}

static void rows_are_loaded_as_codes_and_scales(void **state)
{
    static const char *const devices[] = { "cpu", "ref" };
    static const rt_policy *const policies[] = { &rt_policy_f32, &rt_policy_f64 }; /* scales of f64, too */
    rt_dtype dtypes[MOST];
    rt_err e = { 0 };
    rt_model_config c = tiny_config("tiny-qwen2", 1);
    (void)state;
    write_model(in_dir("model"), &c, RT_DTYPE_F32, true);
    rt_model_file *m = open_model(in_dir("model"));
    for (int k = 0; k < 2; k++) {
        coded_dtypes(dtypes, &m->config, policies[k]->weight);
        rt_dev *d = open_device(devices[k], 1);
        rt_trainer *t = open_teacher(d, m, dtypes, policies[k]);
        uint32_t coded = 0;
        if (rt_trainer_load(t, m, m, NULL, 1, &e) < 0) fail_msg("%s", e.text);
        const rt_decoder *teacher = t->plan->teacher;
        for (uint32_t i = 0; i < teacher->model_params; i++) {
            const rt_param *p = &teacher->params[i];
            uint64_t rows = p->value.rows, cols = p->value.cols;
            float *x = values_of(m, p), *got = calloc(rows * cols, sizeof *got),
                  *want = calloc(rows * cols, sizeof *got), *scale = calloc(rows, sizeof *scale);
            uint8_t *codes = calloc(rows, cols);
            memcpy(want, x, rows * cols * sizeof *x);
            assert_int_equal(p->scale.buf != 0, dtypes[i] == RT_DTYPE_E4M3);
            if (dtypes[i] == RT_DTYPE_E4M3) {
                coded++;
                rt_e4m3_rows(codes, scale, x, rows, cols);
                rt_e4m3_rows_to_f32(want, codes, scale, rows, cols);
                assert_int_not_equal(memcmp(want, x, rows * cols * sizeof *x), 0);
            }
            if (rt_read_param(t->x, teacher, i, got, &e) < 0) fail_msg("%s", e.text);
            assert_memory_equal(got, want, rows * cols * sizeof *got);
            if (dtypes[i] == RT_DTYPE_E4M3) { /* what is written comes back as what a load makes of it */
                for (uint64_t j = 0; j < rows * cols; j++) x[j] *= 3;
                rt_e4m3_rows(codes, scale, x, rows, cols);
                rt_e4m3_rows_to_f32(want, codes, scale, rows, cols);
                if (rt_write_param(t->x, teacher, i, x, &e) < 0) fail_msg("%s", e.text);
                if (rt_read_param(t->x, teacher, i, got, &e) < 0) fail_msg("%s", e.text);
                assert_memory_equal(got, want, rows * cols * sizeof *got);
            }
            free(x), free(got), free(want), free(scale), free(codes);
        }
        assert_int_equal(coded, 7 * c.layers);
        rt_trainer_free(t);
        d->api->close(d);
    }
    rt_model_file_close(m);
}

/* Makes an element of an f32 tensor of a safetensors file infinite. */
static void spoil(const char *path, const char *tensor, uint64_t element)
{
    uint64_t bytes = 0;
    const float bad = INFINITY;
    FILE *f = fopen(path, "r+b");
    assert_non_null(f);
    assert_int_equal(fread(&bytes, sizeof bytes, 1, f), 1);
    char *header = calloc(bytes + 1, 1);
    assert_int_equal(fread(header, 1, bytes, f), bytes);
    json_t *j = json_loads(header, 0, NULL);
    const json_t *at = json_array_get(json_object_get(json_object_get(j, tensor), "data_offsets"), 0);
    assert_non_null(at);
    fseek(f, (long)(sizeof bytes + bytes + (uint64_t)json_integer_value(at) + element * sizeof bad), SEEK_SET);
    fwrite(&bad, sizeof bad, 1, f);
    fclose(f);
    json_decref(j);
    free(header);
}

static void what_is_not_finite_is_named(void **state)
{
    static const char tensor[] = "model.layers.1.mlp.down_proj.weight";
    rt_dtype dtypes[MOST];
    rt_err e = { 0 };
    rt_model_config c = tiny_config("tiny-llama", 3);
    (void)state;
    write_model(in_dir("model"), &c, RT_DTYPE_F32, true);
    spoil(in_dir("model/model.safetensors"), tensor, 5 * (uint64_t)c.hidden + 7);
    rt_model_file *m = open_model(in_dir("model"));
    coded_dtypes(dtypes, &m->config, RT_DTYPE_F32);
    rt_dev *d = open_device("cpu", 1);
    rt_trainer *trainer = open_teacher(d, m, dtypes, &rt_policy_f32);
    assert_int_equal(rt_trainer_load(trainer, m, m, NULL, 1, &e), RT_NONFINITE);
    const char *want = "tensor model.layers.1.mlp.down_proj.weight has a value that is not finite at row 5, column 7";
    if (!strstr(e.text, want)) fail_msg("%s", e.text);
    rt_trainer_free(trainer);
    d->api->close(d);
    rt_model_file_close(m);
}

/* ---- projections ---- */

/* Of a layer: x is made of whole numbers up to 15, which e4m3 has, so only the weights are rounded, and the other
 * decoder has those. */
typedef struct pair {
    rt_space *space;
    rt_decoder *coded, *plain;
    rt_plan *plan;
    rt_view x[4], y[4][2];
    rt_exec *x_of;
} pair;

static void record_pair(pair *p, const rt_model_config *c, const rt_dtype *dtypes, rt_dev *d)
{
    rt_err e = { 0 };
    rt_low low[RT_LINEAR_PARTS];
    rt_decoder_opts coded = { .name = "coded", .policy = &rt_policy_f32, .dtypes = dtypes },
                    plain = { .name = "plain", .policy = &rt_policy_f32 };
    assert_int_equal(rt_space_new(&p->space, &e), RT_OK);
    if (rt_decoder_new(&p->coded, p->space, c, &coded, &e) < 0) fail_msg("%s", e.text);
    if (rt_decoder_new(&p->plain, p->space, c, &plain, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_plan_new(&p->plan, p->space, "projections", &rt_policy_f32, &e), RT_OK);
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < 2; i++) {
            const rt_decoder *of = i ? p->plain : p->coded;
            const rt_layer *l = &of->layers[1];
            const rt_linear *linear[] = { &l->qkv, &l->out, &l->gate_up, &l->down };
            uint32_t in = of->params[linear[k]->param[0]].value.cols, out = 0;
            for (uint32_t part = 0; part < linear[k]->parts; part++) out += linear[k]->cols[part];
            if (!i) p->x[k] = rt_space_buf(p->space, RT_CLASS_INPUT, RT_DTYPE_F32, ROWS, in, "x");
            p->y[k][i] = rt_space_buf(p->space, RT_CLASS_OUTPUT, RT_DTYPE_F32, ROWS, out, "y");
            const rt_fetched at = rt_linear_fetch(p->plan, of, linear[k]);
            rt_linear_forward(p->plan, of, linear[k], &at, p->y[k][i], (rt_input){ .x = p->x[k] }, RT_NONE, low);
        }
    if (rt_plan_status(p->plan, &e) < 0) fail_msg("%s", e.text);
    const rt_plan *plans[] = { p->plan };
    if (rt_exec_seal(&p->x_of, d, plans, 1, NULL, &e) < 0) fail_msg("%s", e.text);
}

/* Random weights in the one, what they became there in the other. */
static void fill_pair(pair *p)
{
    rt_err e = { 0 };
    for (uint32_t i = 0; i < p->coded->model_params; i++) {
        uint64_t n = (uint64_t)p->coded->params[i].value.rows * p->coded->params[i].value.cols;
        float *w = calloc(n, sizeof *w);
        for (uint64_t k = 0; k < n; k++) w[k] = rt_rng_unit(rt_philox(7, i, k).v[0]) - 0.5f;
        for (uint64_t k = 0; k < n / 2; k++) w[k] *= 0.01f; /* so that the scales of rows differ */
        if (rt_write_param(p->x_of, p->coded, i, w, &e) < 0) fail_msg("%s", e.text);
        if (rt_read_param(p->x_of, p->coded, i, w, &e) < 0) fail_msg("%s", e.text);
        if (rt_write_param(p->x_of, p->plain, i, w, &e) < 0) fail_msg("%s", e.text);
        free(w);
    }
    for (int k = 0; k < 4; k++) {
        uint64_t n = (uint64_t)ROWS * p->x[k].cols;
        float *x = calloc(n, sizeof *x);
        for (uint64_t i = 0; i < n; i++) x[i] = (float)((int)(rt_philox(8, (uint64_t)k, i).v[0] % 31) - 15);
        if (rt_exec_write(p->x_of, p->x[k], x, n * sizeof *x, &e) < 0) fail_msg("%s", e.text);
        free(x);
    }
}

static void compare_pair(pair *p)
{
    rt_err e = { 0 };
    if (rt_exec_run(p->x_of, 0, NULL, &e) < 0) fail_msg("%s", e.text);
    for (int k = 0; k < 4; k++) {
        uint64_t n = (uint64_t)ROWS * p->y[k][0].cols;
        float *got = calloc(n, sizeof *got), *want = calloc(n, sizeof *want), most = 0, off = 0;
        if (rt_exec_read(p->x_of, p->y[k][0], got, n * sizeof *got, &e) < 0) fail_msg("%s", e.text);
        if (rt_exec_read(p->x_of, p->y[k][1], want, n * sizeof *want, &e) < 0) fail_msg("%s", e.text);
        for (uint64_t i = 0; i < n; i++) {
            most = fmaxf(most, fabsf(want[i]));
            off = fmaxf(off, fabsf(got[i] - want[i]));
        }
        /* the same terms in f32, in another order */
        if (!(most > 1) || !(off <= most * 1e-5f)) fail_msg("projection %d: %g of %g", k, (double)off, (double)most);
        free(got), free(want);
    }
}

static void projections_are_those_of_dequantised_weights(void **state)
{
    static const char *const devices[] = { "cpu", "ref" };
    rt_dtype dtypes[MOST];
    rt_role role;
    uint32_t layer;
    (void)state;
    for (int k = 0; k < 4; k++) {
        rt_model_config c = tiny_config("tiny-qwen2", 1); /* with biases */
        rt_dev *d = open_device(devices[k % 2], 1);
        pair p = { 0 };
        coded_dtypes(dtypes, &c, RT_DTYPE_F32);
        for (uint32_t i = 0; k >= 2 && rt_param_at(&c, i, &role, &layer); i++) /* parts of two dtypes are not joined */
            if (role == RT_ROLE_K || role == RT_ROLE_UP) dtypes[i] = RT_DTYPE_F32;
        record_pair(&p, &c, dtypes, d);
        assert_int_equal(p.coded->layers[1].qkv.joined, k < 2);
        assert_int_equal(p.coded->layers[1].qkv.scale.buf != 0, k < 2);
        uint32_t quantised = 0;
        for (uint32_t i = 0; i < p.plan->nops; i++) quantised += p.plan->ops[i].kind == RT_OP_QUANT_ROWS;
        assert_int_equal(quantised, 4); /* once for each input */
        fill_pair(&p);
        compare_pair(&p);
        rt_exec_free(p.x_of);
        rt_plan_free(p.plan);
        rt_decoder_free(p.coded);
        rt_decoder_free(p.plain);
        rt_space_free(p.space);
        d->api->close(d);
    }
}

/* ---- a forward ---- */

static uint32_t ops_of(const rt_plan *p, rt_op_kind kind, bool coded)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->nops; i++) {
        const rt_op *op = &p->ops[i];
        n += op->kind == kind && (!coded || rt_plan_dtype(p, op->slot[RT_CODED_Y]) == RT_DTYPE_E4M3);
    }
    return n;
}

/* Norms and swiglu make the codes that the next GEMM reads; what attention gives is quantised apart, and so is what a
 * weight in values reads as well. Two layers, the second in e4m3, whole or but for one part of each input. */
static void norms_and_swiglu_make_codes(void **state)
{
    rt_dtype dtypes[MOST];
    rt_role role;
    uint32_t layer;
    (void)state;
    for (int mixed = 0; mixed < 2; mixed++) {
        rt_err e = { 0 };
        rt_space *s;
        rt_plan *p;
        rt_decoder *d;
        rt_model_config c = tiny_config("tiny-llama", 2);
        coded_dtypes(dtypes, &c, RT_DTYPE_F32);
        for (uint32_t i = 0; rt_param_at(&c, i, &role, &layer); i++)
            if (layer == 0 || (mixed && (role == RT_ROLE_K || role == RT_ROLE_UP))) dtypes[i] = RT_DTYPE_F32;
        rt_decoder_opts o = { .name = "teacher", .policy = &rt_policy_f32, .dtypes = dtypes };
        assert_int_equal(rt_space_new(&s, &e), RT_OK);
        if (rt_decoder_new(&d, s, &c, &o, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(rt_plan_new(&p, s, "forward", &rt_policy_f32, &e), RT_OK);
        rt_tokens t = { .B = 1,
                        .T = 4,
                        .ids = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, 4, 1, "ids"),
                        .pos = rt_space_buf(s, RT_CLASS_INPUT, RT_DTYPE_I32, 4, 1, "pos") };
        rt_decoder_forward(p, d, &t, NULL, rt_space_buf(s, RT_CLASS_OUTPUT, RT_DTYPE_F32, 4, c.width, "hidden"));
        if (rt_plan_status(p, &e) < 0) fail_msg("%s", e.text);
        assert_int_equal(ops_of(p, RT_OP_RMSNORM_FWD, true), 0);                 /* the first layer's */
        assert_int_equal(ops_of(p, RT_OP_ADD_RMSNORM_FWD, true), mixed ? 0 : 2); /* n1 and n2 of the second */
        assert_int_equal(ops_of(p, RT_OP_ADD_RMSNORM_FWD, false), 4);
        assert_int_equal(ops_of(p, RT_OP_SWIGLU_FWD, true), 1);
        assert_int_equal(ops_of(p, RT_OP_SWIGLU_FWD, false), 2);
        assert_int_equal(ops_of(p, RT_OP_QUANT_ROWS, false), mixed ? 3 : 1);
        rt_plan_free(p);
        rt_decoder_free(d);
        rt_space_free(s);
    }
}

/* ---- what is refused ---- */

static void refused(const rt_model_config *c, const rt_decoder_opts *o, const char *why)
{
    rt_err e = { 0 };
    rt_space *s = NULL;
    rt_decoder *d = NULL;
    assert_int_equal(rt_space_new(&s, &e), RT_OK);
    assert_int_equal(rt_decoder_new(&d, s, c, o, &e), RT_INVALID);
    if (!strstr(e.text, why)) fail_msg("%s", e.text);
    rt_space_free(s);
}

static void nothing_is_trained_through_e4m3(void **state)
{
    rt_dtype dtypes[MOST];
    rt_model_config c = tiny_config("tiny-llama", 1);
    bool frozen[MOST];
    (void)state;
    coded_dtypes(dtypes, &c, RT_DTYPE_F32);
    memset(frozen, true, sizeof frozen);
    rt_decoder_opts o = { .name = "student", .policy = &rt_policy_f32, .dtypes = dtypes, .train = true };
    refused(&c, &o, "nothing is trained through such weights");
    o.lora = (rt_lora){ .rank = 2, .alpha = 4, .roles = RT_LORA_ROLES };
    refused(&c, &o, "nothing is trained through such weights"); /* nor beside them */
    o.lora.rank = 0;
    o.frozen = frozen;
    refused(&c, &o, "nothing is trained through such weights");
    o.dtypes = NULL;
    o.coded.end = 1;
    refused(&c, &o, "nothing is trained through weights that are multiplied as e4m3");
    o.coded.end = 0;
    o.dtypes = dtypes;
    o.train = false;
    for (uint32_t i = 0; i < rt_param_count(&c); i++) dtypes[i] = RT_DTYPE_F32;
    dtypes[0] = RT_DTYPE_E4M3; /* the embedding */
    refused(&c, &o, "model.embed_tokens.weight cannot be e4m3");
    dtypes[0] = RT_DTYPE_F32;
    dtypes[1] = RT_DTYPE_E4M3; /* a norm */
    refused(&c, &o, "cannot be e4m3; only matrices of layers can");
}

/* ---- a run ---- */

/* A CPU that says of itself what a GPU with tensor cores for e4m3 says. */
static rt_backend gains;
static int (*real_info)(rt_dev *d, rt_dev_info *out, rt_err *e);

static int info_of_gains(rt_dev *d, rt_dev_info *out, rt_err *e)
{
    int rc = real_info(d, out, e);
    out->fp8_cost = 0.6;
    out->op_flops = 1; /* so that even the tiny teacher gains */
    out->byte_flops = 1e-9;
    return rc;
}

/* teacher: its name. Ends with the run open. */
static void open_run(run_case *c, const char *teacher, const char *out, bool resume, const char *weights,
                     const char *limit)
{
    rt_err e = { 0 };
    static const rt_hub_env env;
    if (resume) {
        *c = (run_case){ 0 };
        run_set(c, RT_SETTING_ID_out, in_dir(out));
    } else {
        run_begin(c, teacher, "student", out);
    }
    if (weights) run_set(c, RT_SETTING_ID_teacher_weights, weights);
    if (limit) run_set(c, RT_SETTING_ID_memory_limit, limit);
    c->dev = open_device("cpu", 1);
    gains = *c->dev->api;
    real_info = gains.info;
    gains.info = info_of_gains;
    c->dev->api = &gains;
    c->opts = (rt_run_opts){ .env = &env, .events = &c->events, .dev = c->dev, .version = "test", .resume = resume };
    if (rt_run_open(&c->run, &c->settings, &c->opts, &e) < 0) fail_msg("%s", e.text);
}

static void expect_choice(const run_case *c, const char *name, rt_weights_why why)
{
    const rt_weights_choice *w = &rt_run_fitted(c->run)->weights;
    rt_str text = { 0 };
    rt_weights_say(&text, w);
    if (w->why != why || strcmp(c->settings.teacher_weights, name) != 0)
        fail_msg("%s: %s", c->settings.teacher_weights, text.data);
    rt_str_free(&text);
}

static void a_run_measures_before_it_takes_fp8(void **state)
{
    run_case c;
    rt_run_summary whole;
    rt_model_config config = tiny_config("tiny-qwen2", 1);
    (void)state;
    put_run_inputs();
    /* a student that is far from its teacher: fp8 is near enough */
    open_run(&c, "teacher", "far", false, NULL, NULL);
    expect_choice(&c, "fp8", RT_WEIGHTS_FASTER);
    const rt_fp8 *f = &rt_run_fitted(c.run)->weights.fp8;
    assert_true(f->state == RT_FP8_MEASURED && f->fp8 > 0 && f->fp8 < f->student / 10 && f->positions > 100);
    double student = f->student, fp8 = f->fp8;
    run_train(&c);
    whole = c.summary;
    /* evaluation 0 is of the fp8 teacher, on other rows: about the same */
    assert_true(fabs(whole.before.kl.mean - student) < 0.2 * student);
    run_end(&c);
    open_run(&c, NULL, "far", true, NULL, NULL); /* as its settings say; it is not measured again */
    assert_string_equal(c.settings.teacher_weights, "fp8");
    run_end(&c);
    /* the same run where it is asked for */
    open_run(&c, "teacher", "asked", false, "fp8", NULL);
    expect_choice(&c, "fp8", RT_WEIGHTS_ASKED);
    assert_int_equal(rt_run_fitted(c.run)->weights.fp8.state, RT_FP8_NO);
    run_train(&c);
    assert_true(c.summary.after.kl.mean == whole.after.kl.mean && c.summary.after.ce.mean == whole.after.ce.mean);
    run_end(&c);
    /* a student that is all but its teacher: fp8 would be further off than what is left to learn */
    config.init_seed = 1;
    write_model(in_dir("twin"), &config, RT_DTYPE_BF16, false);
    open_run(&c, "twin", "near", false, NULL, NULL);
    expect_choice(&c, "native", RT_WEIGHTS_SAME);
    f = &rt_run_fitted(c.run)->weights.fp8;
    assert_true(f->state == RT_FP8_MEASURED && !rt_fp8_may(f) && f->student < student / 10 && f->fp8 < 10 * fp8);
    run_end(&c);
}

/* A packed teacher that has no room beside its run when it is quantised once: it is measured and taken packed. */
static void a_packed_teacher_needs_no_more_room(void **state)
{
    run_case c;
    char limit[32];
    (void)state;
    put_run_inputs();
    rt_model_config config = tiny_config("tiny-llama", 5);
    config.width = config.hidden = 256;
    config.head_dim = 32;
    write_model(in_dir("wide"), &config, RT_DTYPE_F32, false);
    pack_model(in_dir("wide"), in_dir("packed.gguf"), "q4_0");
    open_run(&c, "packed.gguf", "once", false, "fp8", NULL);
    uint64_t once = rt_run_fitted(c.run)->need;
    run_end(&c);
    open_run(&c, "packed.gguf", "use", false, "fp8-native", NULL);
    uint64_t use = rt_run_fitted(c.run)->need;
    expect_choice(&c, "fp8-native", RT_WEIGHTS_ASKED);
    run_end(&c);
    assert_true(use < once);
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)once - 1);
    open_run(&c, "packed.gguf", "little", false, NULL, limit);
    const rt_fp8 *f = &rt_run_fitted(c.run)->weights.fp8;
    assert_true(f->state == RT_FP8_MEASURED && rt_fp8_may(f));
    expect_choice(&c, "fp8-native", RT_WEIGHTS_FASTER);
    run_train(&c);
    run_end(&c);
    open_run(&c, NULL, "little", true, NULL, NULL);
    assert_string_equal(c.settings.teacher_weights, "fp8-native");
    run_end(&c);
}

static void what_cannot_be_measured_is_not_taken(void **state)
{
    run_case c;
    (void)state;
    put_run_inputs();
    /* a teacher beside which its student is little: twice the teacher is more than the run needs */
    rt_model_config wide = tiny_config("tiny-llama", 5);
    wide.width = wide.hidden = 256;
    wide.head_dim = 64;
    write_model(in_dir("wide"), &wide, RT_DTYPE_F32, false);
    open_run(&c, "wide", "all", false, "native", NULL);
    char limit[32];
    snprintf(limit, sizeof limit, "%llu", (unsigned long long)rt_run_fitted(c.run)->need);
    run_end(&c);
    open_run(&c, "wide", "little", false, NULL, limit);
    assert_int_equal(rt_run_fitted(c.run)->weights.fp8.state, RT_FP8_NO_ROOM);
    expect_choice(&c, "native", RT_WEIGHTS_NO_GAIN);
    run_end(&c);
    /* a plan measures nothing, and says so */
    rt_err e = { 0 };
    static const rt_hub_env env;
    run_begin(&c, "teacher", "student", "plan");
    c.dev = open_device("cpu", 1);
    c.dev->api = &gains;
    c.opts = (rt_run_opts){
        .env = &env, .events = &c.events, .dev = c.dev, .version = "test", .dry = true, .scratch = in_dir("")
    };
    if (rt_run_open(&c.run, &c.settings, &c.opts, &e) < 0) fail_msg("%s", e.text);
    assert_int_equal(rt_run_fitted(c.run)->weights.fp8.state, RT_FP8_LATER);
    expect_choice(&c, "fp8", RT_WEIGHTS_FASTER);
    run_end(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(rows_are_loaded_as_codes_and_scales, make_test_dir, remove_test_dir),
        cmocka_unit_test_setup_teardown(what_is_not_finite_is_named, make_test_dir, remove_test_dir),
        cmocka_unit_test(projections_are_those_of_dequantised_weights),
        cmocka_unit_test(norms_and_swiglu_make_codes),
        cmocka_unit_test(nothing_is_trained_through_e4m3),
        cmocka_unit_test_setup_teardown(a_run_measures_before_it_takes_fp8, make_test_dir, remove_test_dir),
        cmocka_unit_test_setup_teardown(a_packed_teacher_needs_no_more_room, make_test_dir, remove_test_dir),
        cmocka_unit_test_setup_teardown(what_cannot_be_measured_is_not_taken, make_test_dir, remove_test_dir),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
