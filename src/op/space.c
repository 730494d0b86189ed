/* space.c - declaring the buffers that outlive a program, and the precision policies. */
#include "op/plan_internal.h"

static const struct {
    const char *text;
} classes[RT_CLASS_COUNT] = {
#define X(name, text, keeps, defined) { text },
    RT_CLASS_LIST(X)
#undef X
};

const char *rt_class_name(rt_class c) { return classes[c].text; }

const rt_policy rt_policy_f32 = { RT_DTYPE_F32, RT_DTYPE_F32, RT_DTYPE_F32, RT_DTYPE_F32,
                                  RT_DTYPE_F32, RT_DTYPE_F32, false,        false };
const rt_policy rt_policy_bf16 = { RT_DTYPE_BF16, RT_DTYPE_BF16, RT_DTYPE_BF16, RT_DTYPE_F32,
                                   RT_DTYPE_BF16, RT_DTYPE_F32,  true,          false };
const rt_policy rt_policy_f16 = { RT_DTYPE_F16, RT_DTYPE_F16, RT_DTYPE_F16, RT_DTYPE_F32,
                                  RT_DTYPE_F16, RT_DTYPE_F32, true,         false };
const rt_policy rt_policy_f64 = { RT_DTYPE_F64, RT_DTYPE_F64, RT_DTYPE_F64, RT_DTYPE_F64,
                                  RT_DTYPE_F64, RT_DTYPE_F64, false,        false };

int rt_space_new(rt_space **out, rt_err *e)
{
    rt_space *s = rt_alloc_zero(sizeof *s, 16);
    *out = s;
    return s ? RT_OK : rt_fail(e, RT_NOMEM, "no memory for a buffer list");
}

void rt_space_free(rt_space *s)
{
    if (!s) return;
    rt_free(s->bufs);
    rt_arena_free(&s->names);
    rt_free(s);
}

int rt_space_status(const rt_space *s, rt_err *e)
{
    if (s->err.status && e) *e = s->err;
    return s->err.status;
}

int rt_buffer_init(rt_buffer *b, rt_arena *names, rt_class cls, rt_dtype dtype, uint32_t rows, uint32_t cols,
                   const char *name, rt_err *e)
{
    if (rows == 0 || cols == 0)
        return rt_fail(e, RT_INVALID, "buffer '%s' is (%u,%u): every dimension must be at least 1", name, rows, cols);
    uint32_t block = rt_dtype_table[dtype].block_elems;
    if (cols % block)
        return rt_fail(e, RT_INVALID, "buffer '%s' is (%u,%u) %s: columns must be a multiple of the block of %u", name,
                       rows, cols, rt_dtype_name(dtype), block);
    /* u32 x u32 elements of at most 8 bytes: checked, because 2^32 x 2^32 f64 would overflow */
    uint64_t bytes;
    if (!rt_mul_u64((uint64_t)rows * (cols / block), rt_dtype_table[dtype].block_bytes, &bytes) || bytes > INT64_MAX)
        return rt_fail(e, RT_INVALID, "buffer '%s' is (%u,%u) %s: its size in bytes overflows", name, rows, cols,
                       rt_dtype_name(dtype));
    char *copy = rt_arena_strdup(names, name);
    if (!copy) return rt_fail(e, RT_NOMEM, "no memory for the name of buffer '%s'", name);
    *b = (rt_buffer){ copy, cls, dtype, rows, cols, bytes };
    return RT_OK;
}

rt_view rt_space_buf(rt_space *s, rt_class cls, rt_dtype dtype, uint32_t rows, uint32_t cols, const char *name)
{
    rt_buffer b;
    if (s->err.status) return RT_NONE;
    if (cls == RT_CLASS_ACT) {
        rt_fail(&s->err, RT_INVALID, "buffer '%s': an activation belongs to a plan (rt_act), not to a space", name);
        return RT_NONE;
    }
    if (rt_buffer_init(&b, &s->names, cls, dtype, rows, cols, name, &s->err) < 0) return RT_NONE;
    if (!rt_grow((void **)&s->bufs, &s->cap, s->nbufs + 1, sizeof *s->bufs)) {
        rt_fail(&s->err, RT_NOMEM, "no memory for buffer '%s'", name);
        return RT_NONE;
    }
    s->bufs[s->nbufs++] = b;
    return (rt_view){ .buf = s->nbufs, .rows = rows, .cols = cols, .stride = cols };
}

rt_view rt_space_more(rt_space *s, rt_view *whole, rt_class cls, rt_dtype dtype, uint32_t rows, uint32_t cols,
                      const char *name)
{
    uint64_t had = whole->cols, all = had + (uint64_t)rows * cols;
    if (s->err.status) return RT_NONE;
    if (all > INT32_MAX) {
        rt_fail(&s->err, RT_INVALID, "buffer '%s' would have %llu elements in one row, and %d is the most", name,
                (unsigned long long)all, INT32_MAX);
        return RT_NONE;
    }
    if (!whole->buf) {
        *whole = rt_space_buf(s, cls, dtype, 1, (uint32_t)all, name);
    } else {
        rt_buffer *b = &s->bufs[whole->buf - 1];
        b->cols = (uint32_t)all;
        b->bytes = rt_dtype_bytes(b->dtype, all);
        whole->cols = b->cols;
        whole->stride = all;
    }
    return (rt_view){ .buf = whole->buf, .rows = rows, .cols = cols, .off = had, .stride = cols };
}
