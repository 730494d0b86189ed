/* moved.c - see moved.h. Tensors go by in pieces of whole rows, so that memory does not grow with the model. */
#include "job/run/moved.h"

#include <math.h>
#include <string.h>

enum { PIECE = 1 << 20 };

/* Over one tensor, or over a group: w0 before, w1 after. */
typedef struct sums {
    double before, after, product, change; /* of w0^2, w1^2, w0 w1, (w1 - w0)^2 */
    uint64_t changed;                      /* elements */
} sums;

static void add_values(sums *s, const float *w0, const float *w1, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        double a = w0[i], b = w1[i];
        s->before += a * a;
        s->after += b * b;
        s->product += a * b;
        s->change += (b - a) * (b - a);
        s->changed += a != b;
    }
}

/* Weight decay alone leaves w1 = c w0: what of w1 is not along w0 must stand out from the rounding of many steps. */
static bool beyond_decay(const sums *s)
{
    enum { ROUNDING = 100000 };
    if (s->before == 0) return s->after > 0;
    double across = s->after - s->product * s->product / s->before;
    return across > s->before / ((double)ROUNDING * ROUNDING);
}

/* t: the values before; null: an adapter, which is small and has its initial ones. */
static int compare_param(sums *s, const rt_moved_opts *o, uint32_t i, const rt_tensor *t, rt_err *e)
{
    int rc = RT_OK;
    const rt_param *p = &o->model->params[i];
    uint64_t rows = t ? rt_tensor_rows(t) : p->value.rows, cols = t ? rt_tensor_cols(t) : p->value.cols,
             at_once = t ? PIECE / cols + 1 : rows;
    float *before = rt_alloc(at_once * cols * sizeof *before, 64),
          *after = rt_alloc(at_once * cols * sizeof *after, 64);
    void *raw = rt_alloc(at_once * cols * sizeof *before, 64);
    if (!before || !after || !raw) RT_TRY(rt_no_memory(e, "comparing parameters"));
    for (uint64_t r = 0; r < rows; r += at_once) {
        uint64_t n = (rows - r < at_once ? rows - r : at_once) * cols;
        if (t)
            rt_tensor_to_f32(before, t, r, n / cols);
        else
            rt_adapter_init(before, p, i, o->seed);
        if (!o->trained[i] && o->frozen != RT_DTYPE_F32) {
            rt_float_from_f32(raw, before, o->frozen, n);
            rt_float_to_f32(before, raw, o->frozen, n);
        }
        RT_TRY(o->after(o->ctx, i, r * cols, n, after, e));
        add_values(s, before, after, n);
        if (t) rt_model_file_done_with_part(o->before, t, r * cols, n);
    }
out:
    rt_free(before);
    rt_free(after);
    rt_free(raw);
    return rc;
}

/* The group of a parameter: its name without the layer. */
static rt_moved_group *group_of(rt_moved_list *l, const rt_param *p, sums **total, sums *totals)
{
    char name[RT_NAME_BYTES];
    rt_param one = *p;
    uint32_t k = 0;
    one.layer = 0;
    rt_param_name(name, &one);
    const char *prefix = "model.layers.0.",
               *own = strncmp(name, prefix, strlen(prefix)) == 0 ? name + strlen(prefix) : name;
    while (k < l->count && strcmp(l->list[k].name, own) != 0) k++;
    if (k == l->count) {
        l->list[l->count++] = (rt_moved_group){ 0 };
        memcpy(l->list[k].name, own, strlen(own) + 1);
    }
    *total = &totals[k];
    return &l->list[k];
}

static int measure_param(rt_moved_list *out, const rt_moved_opts *o, uint32_t i, sums *totals, rt_err *e)
{
    int rc;
    sums s = { 0 }, *total;
    char name[RT_NAME_BYTES];
    const rt_param *p = &o->model->params[i];
    rt_moved_group *g = group_of(out, p, &total, totals);
    const rt_tensor *t = p->part ? NULL : rt_model_file_find(o->before, rt_param_name(name, p));
    if (!t && !p->part) RT_TRY(rt_fail(e, RT_FORMAT, "%s has no %s", o->before->name, name));
    RT_TRY(compare_param(&s, o, i, t, e));
    bool matrix = p->value.rows > 1;
    bool moved = s.changed > 0 && (!matrix || o->weight_decay == 0 || beyond_decay(&s));
    g->trained += o->trained[i];
    g->moved += o->trained[i] && moved;
    g->frozen += !o->trained[i];
    g->broken += !o->trained[i] && s.changed > 0;
    if (!o->trained[i]) return RT_OK;
    total->before += s.before;
    total->after += s.after;
    total->change += s.change;
    g->change = sqrt(total->before > 0 ? total->change / total->before : total->after);
out:
    return rc;
}

int rt_moved_measure(rt_moved_list *out, const rt_moved_opts *o, rt_err *e)
{
    int rc = RT_OK;
    sums totals[RT_MOVED_GROUPS] = { 0 };
    const rt_decoder *d = o->model;
    *out = (rt_moved_list){ 0 };
    for (uint32_t i = d->param_count > d->model_params ? d->model_params : 0; i < d->param_count; i++)
        RT_TRY(measure_param(out, o, i, totals, e));
out:
    return rc;
}
