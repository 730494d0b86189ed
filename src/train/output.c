/* output.c - see output.h. Trained parameters come from the trainer's memory, frozen ones from the file they came from,
 * so a frozen parameter is written exactly as it was read. */
#include "train/output.h"

#include "base/json.h"
#include "format/tensor_file.h"

#include <math.h>
#include <stdio.h>

/* Where rows come from while a model is written. */
typedef struct source {
    rt_trainer *t;
    const rt_output *o;
    bool merge;
    const rt_out_tensor *tensors;
    float *rows, *scratch; /* grown as needed */
    uint64_t cap;
    float *a, *b; /* of the adapter of tensor `adapter_of` */
    uint32_t adapter_of;
} source;

static int make_room(source *s, uint64_t n, rt_err *e)
{
    if (n <= s->cap) return RT_OK;
    rt_free(s->rows);
    rt_free(s->scratch);
    s->rows = rt_alloc(n * sizeof(float), 64);
    s->scratch = rt_alloc(n * sizeof(float), 64);
    s->cap = s->rows && s->scratch ? n : 0;
    return s->cap ? RT_OK : rt_fail(e, RT_NOMEM, "no memory to write a model");
}

/* Adapters stand behind the model's parameters, A and then B; the first of the two beside parameter i. */
static uint32_t adapter_beside(const rt_decoder *d, uint32_t i)
{
    for (uint32_t k = d->model_params; k < d->param_count; k += 2)
        if (d->params[k].role == d->params[i].role && d->params[k].layer == d->params[i].layer) return k;
    return UINT32_MAX;
}

static int load_adapter(source *s, uint32_t i, uint32_t k, rt_err *e)
{
    int rc;
    if (s->adapter_of == i) return RT_OK;
    rt_free(s->a);
    rt_free(s->b);
    s->a = rt_alloc(rt_trainer_elems(s->t, k) * sizeof(float), 64);
    s->b = rt_alloc(rt_trainer_elems(s->t, k + 1) * sizeof(float), 64);
    s->adapter_of = UINT32_MAX;
    if (!s->a || !s->b) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to merge an adapter"));
    RT_TRY(rt_trainer_read(s->t, 'w', k, s->a, e));
    RT_TRY(rt_trainer_read(s->t, 'w', k + 1, s->b, e));
    s->adapter_of = i;
out:
    return rc;
}

/* rows (n,C) += (alpha / rank) B[row..] A */
static void add_adapter(const source *s, float *rows, uint64_t row, uint64_t n, uint64_t C)
{
    uint32_t r = s->o->lora.rank;
    for (uint64_t i = 0; i < n; i++)
        rt_lora_add(rows + i * C, s->a, C, s->b + (row + i) * r, r, s->o->lora.alpha / r, C);
}

/* The tensor of the student's file that parameter i came from. */
static int stored_tensor(const source *s, uint32_t i, const rt_tensor **out, rt_err *e)
{
    char name[RT_NAME_BYTES];
    const rt_param *p = &s->t->plan->student->params[i];
    *out = rt_model_file_find(s->o->student, rt_role_hf_name(name, p->role, p->layer));
    return *out ? RT_OK : rt_fail(e, RT_INTERNAL, "the student's file has no %s", name);
}

/* From memory where it was trained; else from its file, as it is or with its adapter added in. */
static int fill_rows(void *ctx, uint32_t i, uint64_t row, uint64_t n, void *dst, uint32_t worker, rt_err *e)
{
    int rc;
    source *s = ctx;
    uint64_t shape[2];
    const rt_tensor *from;
    const rt_decoder *d = s->t->plan->student;
    uint32_t rank = rt_role_shape(&d->config, d->params[i].role, shape);
    uint32_t k = s->merge ? adapter_beside(d, i) : UINT32_MAX;
    uint64_t C = shape[rank - 1];
    char name[RT_NAME_BYTES];
    rt_dtype dtype = s->tensors[i].dtype;
    (void)worker;
    RT_TRY(make_room(s, n * C, e));
    bool trained = d->params[i].grad.buf;
    if (!trained) RT_TRY(stored_tensor(s, i, &from, e));
    if (trained) {
        RT_TRY(rt_trainer_read_part(s->t, 'w', i, row * C, n * C, s->rows, e));
    } else if (k != UINT32_MAX) {
        rt_tensor_to_f32(s->rows, from, row, n);
        RT_TRY(load_adapter(s, i, k, e));
        add_adapter(s, s->rows, row, n, C);
    }
    if (trained || k != UINT32_MAX)
        rt_float_from_f32(dst, s->rows, dtype, n * C);
    else
        rt_tensor_to_dtype(dst, dtype, from, row, n, s->scratch);
    rt_param_name(name, &d->params[i]);
    RT_TRY(rt_stayed_finite(dst, dtype, n * C, name, "--save-dtype", e));
out:
    return rc;
}

/* A model that is being written is finished: what stopped a run may be why it is saved. */
static int tell_written(void *ctx, uint64_t done, uint64_t total)
{
    const source *s = ctx;
    rt_watch_tell(s->t->watch, "saving the model", done, total);
    return RT_OK;
}

static void source_free(source *s)
{
    rt_free(s->rows);
    rt_free(s->scratch);
    rt_free(s->a);
    rt_free(s->b);
}

/* bytes: null to write the model, else where to count what it would take. */
static int write_model(const char *folder, rt_trainer *t, const rt_output *o, bool merge, uint64_t *bytes, rt_err *e)
{
    int rc;
    rt_pool *pool = NULL;
    rt_model_config config = t->plan->student->config;
    uint32_t n = rt_param_count(&config);
    rt_out_tensor *tensors = rt_alloc(n * sizeof *tensors, 16);
    source s = { .t = t, .o = o, .merge = merge, .tensors = tensors, .adapter_of = UINT32_MAX };
    if (!tensors) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to write %s", folder));
    for (uint32_t i = 0; i < n; i++) {
        rt_param_at(&config, i, &tensors[i].role, &tensors[i].layer);
        tensors[i].dtype = o->dtype;
    }
    config.random_init = false; /* it has learned something now */
    rt_model_out out = { .to = RT_CONTAINER_HF,
                         .path = folder,
                         .name = o->student->name,
                         .config = &config,
                         .text = o->text ? o->text : &o->student->text,
                         .tensors = tensors,
                         .tensor_count = n,
                         .replace = merge }; /* what a run that was stopped in its last moments had written */
    if (bytes) RT_TRY(rt_model_write_bytes(&out, bytes, e));
    if (bytes) goto out;
    /* A device belongs to one thread, so rows are asked for by one. */
    RT_TRY(rt_pool_new(&pool, 1, e));
    RT_TRY(rt_model_write(&out, &(rt_model_write_calls){ .rows = fill_rows, .progress = tell_written, .ctx = &s }, pool,
                          e));
out:
    source_free(&s);
    rt_pool_free(pool);
    rt_free(tensors);
    return rc;
}

/* ---- adapters ---- */

typedef struct adapter_source {
    rt_trainer *t;
    rt_dtype dtype;
} adapter_source;

static int adapter_values(void *ctx, uint32_t i, uint64_t first, uint64_t n, void *dst, rt_err *e)
{
    int rc;
    adapter_source *s = ctx;
    uint32_t param = s->t->plan->student->model_params + i;
    float *wide = NULL;
    char name[RT_NAME_BYTES];
    if (s->dtype == RT_DTYPE_F32) return rt_trainer_read_part(s->t, 'w', param, first, n, dst, e);
    if (!(wide = rt_alloc(n * sizeof *wide, 64))) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to write an adapter"));
    RT_TRY(rt_trainer_read_part(s->t, 'w', param, first, n, wide, e));
    rt_float_from_f32(dst, wide, s->dtype, n);
    rt_param_name(name, &s->t->plan->student->params[param]);
    RT_TRY(rt_stayed_finite(dst, s->dtype, n, name, "--save-dtype", e));
out:
    rt_free(wide);
    return rc;
}

static char *adapter_config(const rt_output *o)
{
    static const struct {
        rt_role role;
        const char *module;
    } modules[] = { { RT_ROLE_Q, "q_proj" },      { RT_ROLE_K, "k_proj" },       { RT_ROLE_V, "v_proj" },
                    { RT_ROLE_O, "o_proj" },      { RT_ROLE_GATE, "gate_proj" }, { RT_ROLE_UP, "up_proj" },
                    { RT_ROLE_DOWN, "down_proj" } };
    rt_json_init();
    json_t *targets = json_array();
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (o->lora.roles >> modules[i].role & 1) json_array_append_new(targets, json_string(modules[i].module));
    json_t *j = json_pack("{s:s, s:s, s:s?, s:i, s:f, s:f, s:s, s:b, s:b, s:o}", "peft_type", "LORA", "task_type",
                          "CAUSAL_LM", "base_model_name_or_path", o->base_name, "r", (int)o->lora.rank, "lora_alpha",
                          o->lora.alpha, "lora_dropout", o->lora.dropout, "bias", "none", "fan_in_fan_out", 0,
                          "inference_mode", 1, "target_modules", targets);
    char *text = rt_json_dump(j, JSON_INDENT(2));
    json_decref(j);
    return text;
}

/* bytes: as in write_model. */
static int write_adapters(const char *folder, rt_trainer *t, const rt_output *o, uint64_t *bytes, rt_err *e)
{
    int rc;
    const rt_decoder *d = t->plan->student;
    uint32_t n = d->param_count - d->model_params;
    rt_arena a = { 0 };
    adapter_source s = { t, o->dtype };
    rt_named_tensor *list = rt_arena_alloc(&a, n * sizeof *list);
    char *weights = rt_path_join(&a, folder, "adapter_model.safetensors"),
         *config = rt_path_join(&a, folder, "adapter_config.json"), name[RT_NAME_BYTES];
    char *text = adapter_config(o);
    if (!list || !weights || !config || !text) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to write %s", folder));
    for (uint32_t i = 0; i < n; i++) {
        const rt_param *p = &d->params[d->model_params + i];
        list[i] = (rt_named_tensor){ rt_arena_printf(&a, "base_model.model.%s", rt_param_name(name, p)),
                                     o->dtype,
                                     2,
                                     { p->value.rows, p->value.cols } };
        if (!list[i].name) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to write %s", folder));
    }
    if (bytes) {
        RT_TRY(rt_tensor_file_bytes(list, n, bytes, e));
        *bytes += strlen(text);
        rc = rt_model_write_text(o->text ? o->text : &o->student->text, NULL, bytes, e);
        goto out;
    }
    RT_TRY(rt_dir_make(folder, e));
    RT_TRY(rt_tensor_file_write(weights, list, n, adapter_values, &s, NULL, e));
    RT_TRY(rt_model_write_text(o->text ? o->text : &o->student->text, folder, NULL, e));
    RT_TRY(rt_file_write(config, text, strlen(text), e));
out:
    rt_free(text);
    rt_arena_free(&a);
    return rc;
}

int rt_output_write(const char *folder, rt_trainer *t, const rt_output *o, rt_err *e)
{
    return o->lora.rank ? write_adapters(folder, t, o, NULL, e) : write_model(folder, t, o, false, NULL, e);
}

int rt_output_bytes(rt_trainer *t, const rt_output *o, uint64_t *bytes, rt_err *e)
{
    return o->lora.rank ? write_adapters("", t, o, bytes, e) : write_model("", t, o, false, bytes, e);
}

int rt_output_merged(const char *folder, rt_trainer *t, const rt_output *o, rt_err *e)
{
    return write_model(folder, t, o, true, NULL, e);
}

/* ---- reading back ---- */

enum { PIECE = 1 << 20 };

/* Called with each parameter that the folder's model f was trained in, and the tensor that f has for it. */
typedef int (*param_fn)(void *ctx, rt_trainer *t, uint32_t i, const rt_model_file *f, const rt_tensor *back, rt_err *e);

static int each_written(const char *folder, rt_trainer *t, const rt_output *o, param_fn fn, void *ctx, rt_err *e)
{
    int rc;
    const rt_decoder *m = t->plan->student;
    rt_model_file *f = NULL;
    rt_arena a = { 0 };
    char name[RT_NAME_BYTES];
    const char *path = o->lora.rank ? rt_path_join(&a, folder, "adapter_model.safetensors") : folder;
    if (!path) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to read the output back"));
    RT_TRY(rt_model_file_open(&f, path, &(rt_hub_env){ 0 }, e));
    for (uint32_t i = 0; i < m->param_count; i++) {
        if (o->lora.rank ? !m->params[i].part : !m->params[i].grad.buf) continue;
        rt_param_name(name, &m->params[i]);
        char *full = rt_arena_printf(&a, "%s%s", o->lora.rank ? "base_model.model." : "", name);
        const rt_tensor *back = full ? rt_model_file_find(f, full) : NULL;
        if (!back || rt_tensor_elems(back) != rt_trainer_elems(t, i))
            RT_TRY(rt_fail(e, RT_IO, "%s was written and is not there when read back: %s", folder, name));
        RT_TRY(rt_watch_step(t->watch, "reading the model back", i, m->param_count, e));
        RT_TRY(fn(ctx, t, i, f, back, e));
        rt_model_file_done_with(f, back);
    }
out:
    rt_model_file_close(f);
    rt_arena_free(&a);
    return rc;
}

typedef struct differ {
    double sum;
    rt_dtype dtype;
    rt_output_difference *out;
} differ;

uint64_t rt_output_unequal(float *a, const float *b, rt_dtype d, uint64_t n, void *raw)
{
    uint64_t unequal = 0;
    if (d != RT_DTYPE_F32) {
        rt_float_from_f32(raw, a, d, n);
        rt_float_to_f32(a, raw, d, n);
    }
    for (uint64_t i = 0; i < n; i++) unequal += memcmp(&a[i], &b[i], sizeof *a) != 0;
    return unequal;
}

static int compare_param(void *ctx, rt_trainer *t, uint32_t i, const rt_model_file *f, const rt_tensor *back, rt_err *e)
{
    int rc = RT_OK;
    differ *k = ctx;
    uint64_t cols = rt_tensor_cols(back), rows = rt_tensor_rows(back), at_once = PIECE / cols + 1;
    float *a = rt_alloc(at_once * cols * sizeof *a, 64), *b = rt_alloc(at_once * cols * sizeof *b, 64);
    void *raw = rt_alloc(at_once * cols * sizeof *a, 64);
    if (!a || !b || !raw) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to read the output back"));
    for (uint64_t r = 0; r < rows; r += at_once) {
        uint64_t n = rows - r < at_once ? rows - r : at_once;
        RT_TRY(rt_trainer_read_part(t, 'w', i, r * cols, n * cols, a, e));
        rt_tensor_to_f32(b, back, r, n);
        for (uint64_t c = 0; c < n * cols; c++) {
            double d = fabs((double)a[c] - b[c]);
            k->sum += d * d;
            if (d > k->out->max || isnan(d)) {
                k->out->max = d;
                rt_param_name(k->out->worst, &t->plan->student->params[i]);
            }
        }
        k->out->values += n * cols;
        k->out->unequal += rt_output_unequal(a, b, k->dtype, n * cols, raw);
        rt_model_file_done_with_part(f, back, r * cols, n * cols);
    }
out:
    rt_free(a);
    rt_free(b);
    rt_free(raw);
    return rc;
}

int rt_output_read_back(const char *folder, rt_trainer *t, const rt_output *o, rt_output_difference *d, rt_err *e)
{
    *d = (rt_output_difference){ 0 };
    differ k = { .dtype = o->dtype, .out = d };
    int rc = each_written(folder, t, o, compare_param, &k, e);
    d->rmse = d->values > 0 ? sqrt(k.sum / (double)d->values) : 0;
    return rc;
}

static int reload_param(void *ctx, rt_trainer *t, uint32_t i, const rt_model_file *f, const rt_tensor *back, rt_err *e)
{
    int rc = RT_OK;
    uint64_t cols = rt_tensor_cols(back), rows = rt_tensor_rows(back), at_once = PIECE / cols + 1;
    float *a = rt_alloc(at_once * cols * sizeof *a, 64);
    (void)ctx;
    if (!a) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to load the output again"));
    for (uint64_t r = 0; r < rows; r += at_once) {
        uint64_t n = rows - r < at_once ? rows - r : at_once;
        rt_tensor_to_f32(a, back, r, n);
        RT_TRY(rt_trainer_write_part(t, 'w', i, r * cols, n * cols, a, e));
        rt_model_file_done_with_part(f, back, r * cols, n * cols);
    }
out:
    rt_free(a);
    return rc;
}

int rt_output_reload(const char *folder, rt_trainer *t, const rt_output *o, rt_err *e)
{
    return each_written(folder, t, o, reload_param, NULL, e);
}
