/* audit_weights.c - the weights of a run: that the root holds the model of the manifest, that this is what the
 * last checkpoint has in memory's precision, and that every group of parameters has moved by what was said. */
#include "job/audit_internal.h"

#include "base/json.h"
#include "format/run_places.h"
#include "job/run/moved.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* The values after the last step: trained ones from the checkpoint, frozen ones from the root. */
typedef struct weights {
    const rt_audit *v;
    rt_model_file *state; /* state.safetensors of the last checkpoint; null: not there */
    const rt_model_file *output;
    rt_space *space;
    rt_decoder *model;
    bool *trained; /* (model->param_count) */
} weights;

static const rt_tensor *tensor_of(const weights *w, const rt_model_file *m, const char *prefix, uint32_t i)
{
    char name[RT_NAME_BYTES], full[RT_NAME_BYTES + 32];
    const rt_param *p = &w->model->params[i];
    snprintf(full, sizeof full, "%s%s", prefix, rt_param_name(name, p));
    const rt_tensor *t = rt_model_file_find(m, full);
    return t && rt_tensor_elems(t) == (uint64_t)p->value.rows * p->value.cols ? t : NULL;
}

static const rt_tensor *trained_tensor(const weights *w, uint32_t i) { return tensor_of(w, w->state, "w.", i); }
static const rt_tensor *output_tensor(const weights *w, uint32_t i)
{
    return tensor_of(w, w->output, w->model->lora.rank ? "base_model.model." : "", i);
}

static int read_after(void *ctx, uint32_t i, uint64_t first, uint64_t n, float *out, rt_err *e)
{
    const weights *w = ctx;
    const rt_tensor *t = w->trained[i] ? trained_tensor(w, i) : output_tensor(w, i);
    char name[RT_NAME_BYTES];
    if (!t)
        return rt_fail(e, RT_FORMAT, "%s has no %s of its shape", w->trained[i] ? "the last checkpoint" : "the output",
                       rt_param_name(name, &w->model->params[i]));
    uint64_t cols = rt_tensor_cols(t);
    rt_tensor_to_f32(out, t, first / cols, n / cols);
    return RT_OK;
}

static int open_weights(weights *w, const rt_again *a, rt_err *e)
{
    int rc;
    rt_audit *v = (rt_audit *)(uintptr_t)w->v;
    const rt_model_config *c = a->in ? &a->in->student->config : &a->output->config;
    const char *folder = rt_checkpoints_of(&v->arena, v->root);
    char *path = folder ? rt_arena_printf(&v->arena, "%s/" RT_CHECKPOINT_PREFIX "%06" PRIu32 "/state.safetensors",
                                          folder, v->facts.steps)
                        : NULL;
    bool *frozen = rt_arena_alloc(&v->arena, rt_param_count(c) * sizeof *frozen);
    if (!path || !frozen) RT_TRY(rt_no_memory(e, "a model"));
    if (!rt_path_exists(path) || c->layers == 0) return RT_OK; /* adapters alone do not say what they stand beside */
    RT_TRY(rt_model_file_open(&w->state, path, &(rt_hub_env){ 0 }, e));
    RT_TRY(rt_resolve_freeze(&v->settings.freeze, c, frozen, e));
    RT_TRY(rt_space_new(&w->space, e));
    rt_decoder_opts o = {
        .name = "student", .policy = &rt_policy_f32, .train = true, .frozen = frozen, .lora = a->recorded.lora
    };
    RT_TRY(rt_decoder_new(&w->model, w->space, c, &o, e));
    w->trained = rt_arena_alloc(&v->arena, w->model->param_count * sizeof *w->trained);
    if (!w->trained) RT_TRY(rt_no_memory(e, "a model"));
    for (uint32_t i = 0; i < w->model->param_count; i++) w->trained[i] = w->model->params[i].grad.buf != 0;
out:
    return rc;
}

static void close_weights(weights *w)
{
    rt_model_file_close(w->state);
    rt_decoder_free(w->model);
    rt_space_free(w->space);
}

/* How many values of the root are not the checkpoint's, rounded to the saved dtype. */
static int count_unequal(const weights *w, uint32_t i, uint64_t *unequal, rt_err *e)
{
    enum { PIECE = 1 << 20 };
    int rc = RT_OK;
    const rt_tensor *from = trained_tensor(w, i), *to = output_tensor(w, i);
    if (!from || !to) return rt_fail(e, RT_FORMAT, "a tensor of the last checkpoint or of the output is missing");
    uint64_t rows = rt_tensor_rows(from), cols = rt_tensor_cols(from), at_once = PIECE / cols + 1;
    float *x = rt_alloc(at_once * cols * sizeof *x, 64), *y = rt_alloc(at_once * cols * sizeof *y, 64);
    void *raw = rt_alloc(at_once * cols * sizeof *x, 64);
    if (!x || !y || !raw) RT_TRY(rt_fail(e, RT_NOMEM, "no memory to compare parameters"));
    for (uint64_t r = 0; r < rows; r += at_once) {
        uint64_t n = rows - r < at_once ? rows - r : at_once;
        rt_tensor_to_f32(x, from, r, n);
        rt_tensor_to_f32(y, to, r, n);
        *unequal += rt_output_unequal(x, y, w->v->facts.saved_dtype, n * cols, raw);
    }
    rt_model_file_done_with(w->state, from);
    rt_model_file_done_with(w->output, to);
out:
    rt_free(x);
    rt_free(y);
    rt_free(raw);
    return rc;
}

static int check_output(rt_audit *v, const rt_again *a, const weights *w, rt_hash128 got, rt_err *e)
{
    int rc = RT_OK;
    rt_hash128 want;
    char text[33];
    uint64_t unequal = 0, values = rt_model_file_parameters(w->output);
    bool compare = w->state && v->facts.saved_step == v->facts.steps;
    const json_t *recorded = json_object_get(json_object_get(v->manifest, "output"), "content_hash");
    for (uint32_t i = 0; compare && i < w->model->param_count; i++) {
        rt_watch_tell(&a->opts->watch, "comparing the weights", i, w->model->param_count);
        if (w->trained[i]) RT_TRY(count_unequal(w, i, &unequal, e));
    }
    if (!rt_hash_from_json(recorded, &want) || !rt_hash_equal(want, got) || values != v->facts.output_values)
        rt_audit_tell(v, "output", RT_CHECK_FAIL, "the model at the root is not the one that the manifest names");
    else if (unequal)
        rt_audit_tell(v, "output", RT_CHECK_FAIL,
                      "%" PRIu64 " values at the root are not those of the last checkpoint rounded to %s", unequal,
                      rt_dtype_name(v->facts.saved_dtype));
    else
        rt_audit_tell(v, "output", RT_CHECK_PASS, "%" PRIu64 " values, %s%s", values, rt_hash_text(text, got),
                      compare ? "; the trained ones are the last checkpoint's, rounded"
                              : "; not compared with a checkpoint");
out:
    return rc;
}

static bool same_groups(const rt_moved_list *a, const rt_moved_list *b)
{
    if (a->count != b->count) return false;
    for (uint32_t i = 0; i < a->count; i++) {
        const rt_moved_group *x = &a->list[i], *y = &b->list[i];
        if (strcmp(x->name, y->name) != 0 || x->trained != y->trained || x->moved != y->moved ||
            x->frozen != y->frozen || x->broken != y->broken ||
            !(fabs(x->change - y->change) <= 1e-9 * (1 + fabs(x->change))))
            return false;
    }
    return true;
}

static int check_moved(rt_audit *v, const rt_again *a, weights *w, rt_err *e)
{
    int rc;
    rt_moved_list now;
    if (!w->state || !a->student || !a->in) {
        rt_audit_tell(v, "parameters moved", RT_CHECK_NOT_CHECKED, "it needs %s",
                      a->student ? "the checkpoint of the last step" : "the student that the run began with");
        return RT_OK;
    }
    rt_moved_opts o = { .model = w->model,
                        .trained = w->trained,
                        .before = a->in->student,
                        .seed = a->recorded.seed,
                        .weight_decay = a->recorded.weight_decay,
                        .frozen = v->facts.saved_dtype,
                        .after = read_after,
                        .ctx = w };
    RT_TRY(rt_moved_measure(&now, &o, e));
    if (same_groups(&v->facts.moved, &now))
        rt_audit_tell(v, "parameters moved", RT_CHECK_PASS,
                      "%" PRIu32 " groups, from the student to the last checkpoint, by what was measured", now.count);
    else
        rt_audit_tell(v, "parameters moved", RT_CHECK_FAIL,
                      "student and last checkpoint do not differ by what the manifest says was measured");
out:
    return rc;
}

int rt_audit_weights(rt_audit *v, rt_again *a, rt_err *e)
{
    rt_err why = { 0 };
    rt_hash128 h;
    weights w = { .v = v };
    int rc = rt_manifest_output(&a->output, v->root, a->recorded.lora.rank > 0, &why);
    if (rc >= 0) rc = rt_model_content_hash(a->output, a->opts->pool, &h, NULL, &why);
    if (rc >= 0) {
        w.output = a->output;
        rc = open_weights(&w, a, &why);
    }
    if (rc >= 0) rc = check_output(v, a, &w, h, &why);
    if (rc >= 0) rc = check_moved(v, a, &w, &why);
    if (rc < 0 && rc != RT_NOMEM) rt_audit_tell(v, "output", RT_CHECK_FAIL, "%s", why.text);
    close_weights(&w);
    return rc == RT_NOMEM ? rt_fail(e, rc, "%s", why.text) : RT_OK;
}
