/* feed.c - see feed.h. A read brings the pages in first, in one call of the system that fails where touching them would
 * end the process; then the same rows of the next layer are asked for, which the system reads while this one is
 * computed. Pages that were read no longer count as this process's memory, and stay in the system's cache. */
#include "infer/feed.h"

enum { PIECE_VALUES = 1 << 20 }; /* that are converted at a time */

typedef struct source {
    const rt_tensor *tensor;
    rt_view value;
    rt_dtype dtype;
    uint32_t next; /* the same of the next layer, or of the first */
} source;

struct rt_disk_feed {
    rt_disk_feed *next; /* of another model of the same programs */
    const rt_model_file *model;
    source *list;
    uint32_t count;
    float *scratch; /* null: every tensor is stored as it is used */
};

/* Of a swapped tensor rows lie elsewhere: all of it. */
static void range_of(const source *s, uint64_t row, uint64_t rows, uint64_t *first, uint64_t *count)
{
    uint64_t cols = rt_tensor_cols(s->tensor);
    bool all = s->tensor->swap_heads != 0;
    *first = all ? 0 : row * cols;
    *count = all ? rt_tensor_elems(s->tensor) : rows * cols;
}

static int read_rows(rt_disk_feed *f, const source *s, uint64_t row, uint64_t rows, uint8_t *to, rt_err *e)
{
    int rc;
    uint64_t first, count, cols = rt_tensor_cols(s->tensor), step = rows;
    range_of(s, row, rows, &first, &count);
    RT_TRY(rt_model_file_bring(f->model, s->tensor, first, count, e));
    rt_model_file_will_need(f->model, f->list[s->next].tensor, first, count);
    if (s->tensor->dtype != s->dtype) step = cols < PIECE_VALUES ? PIECE_VALUES / cols : 1;
    for (uint64_t at = 0; at < rows; at += step) {
        uint64_t n = rows - at < step ? rows - at : step;
        rt_tensor_to_dtype(to + at * rt_dtype_bytes(s->dtype, cols), s->dtype, s->tensor, row + at, n, f->scratch);
    }
    rt_model_file_done_with_part(f->model, s->tensor, first, count);
out:
    return rc;
}

/* Rows of v, which may be parts of several parameters of one model. */
static int serve(void *ctx, rt_view v, void *to, rt_err *e)
{
    int rc = RT_OK;
    uint64_t begin = v.off / v.stride, end = begin + v.rows;
    for (rt_disk_feed *f = ctx; f; f = f->next)
        for (uint32_t i = 0; i < f->count; i++) {
            const source *s = &f->list[i];
            uint64_t own = s->value.off / s->value.stride;
            if (s->value.buf != v.buf || own >= end || own + s->value.rows <= begin) continue;
            uint64_t from = own > begin ? own : begin, last = own + s->value.rows < end ? own + s->value.rows : end;
            uint8_t *at = (uint8_t *)to + (from - begin) * rt_dtype_bytes(s->dtype, v.cols);
            RT_TRY(read_rows(f, s, from - own, last - from, at, e));
        }
out:
    return rc;
}

/* The parameters of d that are read from files, into list; null: they are counted. */
static uint32_t collect(const rt_exec *x, const rt_decoder *d, const rt_model_file *m, source *list)
{
    char name[RT_NAME_BYTES];
    uint32_t n = 0;
    const rt_plan *p = rt_exec_plan(x, 0);
    for (uint32_t i = 0; i < d->model_params; i++) {
        const rt_param *q = &d->params[i];
        if (rt_plan_buffer(p, q->value)->cls != RT_CLASS_DISK) continue;
        const rt_tensor *t = rt_model_file_find(m, rt_role_hf_name(name, q->role, q->layer));
        if (list) list[n] = (source){ .tensor = t, .value = q->value, .dtype = rt_plan_dtype(p, q->value), .next = n };
        n++;
    }
    return n;
}

static void find_next(source *list, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        const rt_tensor *t = list[i].tensor;
        for (uint32_t k = 0; k < n; k++)
            if (list[k].tensor->role == t->role && list[k].tensor->layer == (t->layer + 1)) list[i].next = k;
        for (uint32_t k = 0; k < n && list[i].next == i; k++)
            if (list[k].tensor->role == t->role) list[i].next = k;
    }
}

static int check_sources(const rt_disk_feed *f, bool *converts, rt_err *e)
{
    for (uint32_t i = 0; i < f->count; i++) {
        const source *s = &f->list[i];
        if (!s->tensor)
            return rt_fail(e, RT_FORMAT, "%s: a matrix of a layer is missing; download the model again",
                           f->model->spec);
        bool floats = rt_dtype_is_float(s->tensor->dtype) && rt_dtype_is_float(s->dtype);
        if (s->tensor->store != RT_STORE_PLAIN || (s->tensor->dtype != s->dtype && !floats))
            return rt_fail(
                e, RT_UNSUPPORTED,
                "%s: %s is not stored as %s, and weights that are read from disk at every pass are not converted; use "
                "--teacher-memory host, or convert the model first (retort convert)",
                f->model->spec, s->tensor->name, rt_dtype_name(s->dtype));
        *converts = *converts || s->tensor->dtype != s->dtype;
    }
    return RT_OK;
}

int rt_disk_feed_add(rt_disk_feed **io, rt_exec *x, const rt_decoder *d, const rt_model_file *m, rt_err *e)
{
    int rc;
    bool converts = false;
    uint64_t cols = 0;
    uint32_t n = collect(x, d, m, NULL);
    rt_disk_feed *f = NULL;
    if (!n) return RT_OK;
    f = rt_alloc_zero(sizeof *f, 16);
    if (f) f->list = rt_alloc(n * sizeof *f->list, 16);
    if (!f || !f->list) RT_TRY(rt_no_memory(e, "a teacher on disk"));
    f->model = m;
    f->count = collect(x, d, m, f->list);
    RT_TRY(check_sources(f, &converts, e));
    find_next(f->list, n);
    for (uint32_t i = 0; i < n; i++) cols = f->list[i].value.cols > cols ? f->list[i].value.cols : cols;
    if (converts) f->scratch = rt_alloc((cols > PIECE_VALUES ? cols : PIECE_VALUES) * sizeof *f->scratch, 64);
    if (converts && !f->scratch) RT_TRY(rt_no_memory(e, "a teacher on disk"));
    f->next = *io;
    *io = f;
    rt_exec_serve(x, serve, f);
    return RT_OK;
out:
    rt_disk_feed_free(f);
    return rc;
}

void rt_disk_feed_free(rt_disk_feed *f)
{
    while (f) {
        rt_disk_feed *next = f->next;
        rt_free(f->list);
        rt_free(f->scratch);
        rt_free(f);
        f = next;
    }
}
