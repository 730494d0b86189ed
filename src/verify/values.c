/* values.c - makes the operands of a case: declares buffers by access and layout, cuts windows, fills, rounds, widens.
 *
 * A value is made as a double, rounded to the tested dtype, and widened from there, so the two runs see the same
 * numbers. Quantised operands are random blocks with sensible scales, not quantised values: every bit pattern occurs.
 */
#include "verify/values.h"

#include "base/hash.h"
#include "base/rng.h"
#include "num/quant.h"

#include <math.h>
#include <string.h>

static const rt_op_spec *spec_of(const rt_op_case *c) { return &rt_op_specs[c->set->kind]; }

static int no_memory(const rt_values *v, rt_err *e)
{
    return rt_fail(e, RT_NOMEM, "no memory for the operands of case %s", v->c->name);
}

/* ---- layout ---- */

static bool is_window(const rt_values *v, uint32_t slot, rt_access access)
{
    uint8_t s = v->c->strided;
    if (spec_of(v->c)->slot[slot].rule == RT_RULE_STEP) return false; /* a struct, aligned as one */
    if (s == RT_STRIDED_ALIGNED && v->layout.slot[slot].compact) return false;
    return s == RT_STRIDED || s == RT_STRIDED_ALIGNED || (s == RT_STRIDED_OUT && access != RT_READ) ||
           (s == RT_STRIDED_IN && access == RT_READ);
}

/* What is defined when the program starts: INPUT for what is only read, STATE for what is also written. */
static rt_class class_of(const rt_values *v, uint32_t slot, rt_access access)
{
    if (spec_of(v->c)->slot[slot].rule == RT_RULE_STEP) return RT_CLASS_STEP;
    if (access == RT_READ) return RT_CLASS_INPUT;
    return v->layout.slot[slot].fill ? RT_CLASS_STATE : RT_CLASS_OUTPUT;
}

static void declare(rt_values *v, uint32_t slot)
{
    const rt_slot_layout *l = &v->layout.slot[slot];
    rt_access access = (rt_access)spec_of(v->c)->slot[slot].access;
    rt_dtype d = v->c->sig.dtype[slot];
    rt_value_buf *b = &v->buf[v->nbufs++];
    *b = (rt_value_buf){ .name = spec_of(v->c)->slot[slot].name,
                         .cls = class_of(v, slot, access),
                         .rows = l->rows,
                         .cols = l->cols,
                         .dtype = d,
                         .wide = rt_dtype_is_float(d) ? RT_DTYPE_F64 : d };
    rt_view *w = &v->view[slot];
    *w = (rt_view){ .buf = v->nbufs, .rows = l->rows, .cols = l->cols, .stride = l->cols };
    if (is_window(v, slot, access)) { /* odd offsets, or aligned ones, and different ones for the operands of an op */
        uint32_t block = rt_dtype_table[d].block_elems;
        uint32_t aligned = RT_ALIGNED_ELEMS * (d == RT_DTYPE_E4M3 ? 2 : 1);
        uint32_t unit = v->c->strided == RT_STRIDED_ALIGNED && block < aligned ? aligned : block;
        uint32_t left = unit * (1 + slot % 3), right = unit * (1 + slot % 2);
        b->cols = (left + b->cols + right + unit - 1) / unit * unit;
        w->off = left;
        w->stride = b->cols;
    }
}

/* Outputs that are done in place share the view of their input. */
static void lay_out(rt_values *v)
{
    uint32_t n = rt_op_slots(v->c->set->kind);
    v->c->set->layout(v->c, &v->layout);
    for (uint32_t i = 0; i < n; i++)
        if (v->layout.slot[i].rows && !v->layout.slot[i].in_place) declare(v, i);
    for (uint32_t i = 0; i < n; i++)
        if (v->layout.slot[i].rows && v->layout.slot[i].in_place) v->view[i] = v->view[v->layout.slot[i].in_place - 1];
    for (uint32_t i = 0; i < n; i++)
        if (v->view[i].buf && spec_of(v->c)->slot[i].access != RT_READ) v->buf[v->view[i].buf - 1].written = true;
}

/* ---- bytes ---- */

static uint8_t *row_at(uint8_t *bytes, rt_view w, rt_dtype d, uint32_t row)
{
    return bytes + rt_dtype_bytes(d, w.off + row * w.stride);
}

/* One row of dense source into the window, `size` bytes per element; floats are rounded. */
static void put_rows(rt_value_buf *b, rt_view w, const void *dense)
{
    bool real = rt_dtype_is_float(b->dtype);
    uint64_t row_bytes = real ? w.cols * sizeof(double) : rt_dtype_bytes(b->dtype, w.cols);
    for (uint32_t r = 0; r < w.rows; r++) {
        const uint8_t *from = (const uint8_t *)dense + r * row_bytes;
        uint8_t *to = row_at(b->init, w, b->dtype, r);
        if (real)
            rt_float_from_f64(to, (const double *)(const void *)from, b->dtype, w.cols);
        else
            memcpy(to, from, row_bytes);
    }
}

static void put_f16(uint8_t *p, double x)
{
    uint16_t h = rt_f16_from_f32((float)x);
    memcpy(p, &h, 2);
}

/* Scales that give values of about 1: any block is legal, most would be huge. */
static void set_scales(uint8_t *block, rt_dtype d, uint32_t word)
{
    double u = 0.5 + (word & 0xffff) / 65536.0, sign = word >> 31 ? -1 : 1;
    switch (d) {
    case RT_DTYPE_Q8_0: put_f16(block, sign * u / 64); break;
    case RT_DTYPE_Q4_0: put_f16(block, sign * u / 4); break;
    case RT_DTYPE_Q5_0: put_f16(block, sign * u / 8); break;
    case RT_DTYPE_IQ4_NL: put_f16(block, sign * u / 64); break;
    case RT_DTYPE_Q3_K: put_f16(block + 108, sign * u / 50); break;
    case RT_DTYPE_Q6_K: put_f16(block + 208, sign * u / 1500); break;
    case RT_DTYPE_IQ4_XS: put_f16(block, sign * u / 1200); break;
    case RT_DTYPE_Q4_1: /* scale and what is added */
    case RT_DTYPE_Q5_1:
        put_f16(block, sign * u / (d == RT_DTYPE_Q4_1 ? 7 : 14));
        put_f16(block + 2, -sign * (1.5 - u));
        break;
    case RT_DTYPE_Q2_K:
        put_f16(block + 80, u / 12);
        put_f16(block + 82, (1.5 - u) / 8);
        break;
    default: /* Q4_K, Q5_K: scale and minimum */
        put_f16(block, u / (d == RT_DTYPE_Q4_K ? 400 : 800));
        put_f16(block + 2, (1.5 - u) / 60);
        break;
    }
}

static void random_blocks(rt_value_buf *b, rt_view w, const rt_fill *f)
{
    uint64_t size = rt_dtype_table[b->dtype].block_bytes, per_row = w.cols / rt_dtype_table[b->dtype].block_elems;
    uint64_t words = (size + 15) / 16;
    for (uint32_t r = 0; r < w.rows; r++)
        for (uint64_t k = 0; k < per_row; k++) {
            uint8_t *block = row_at(b->init, w, b->dtype, r) + k * size;
            uint64_t at = (r * per_row + k) * (words + 1);
            for (uint64_t i = 0; i < words; i++) {
                rt_rng4 four = rt_philox(f->seed, f->stream, at + i);
                uint64_t left = size - 16 * i;
                memcpy(block + 16 * i, four.v, left < 16 ? left : 16);
            }
            set_scales(block, b->dtype, rt_philox(f->seed, f->stream, at + words).v[0]);
        }
}

static int fill_slot(rt_values *v, uint32_t slot, rt_err *e)
{
    const rt_slot_layout *l = &v->layout.slot[slot];
    rt_view w = v->view[slot];
    if (!w.buf || !l->fill || l->in_place) return RT_OK;
    rt_value_buf *b = &v->buf[w.buf - 1];
    rt_fill f = { .rows = l->rows, .cols = l->cols, .p = l->p, .q = l->q, .seed = v->seed, .stream = slot };
    if (rt_dtype_is_quant(b->dtype)) {
        random_blocks(b, w, &f);
        return RT_OK;
    }
    uint64_t n = (uint64_t)l->rows * l->cols;
    void *dense = rt_alloc(n * (rt_dtype_is_float(b->dtype) ? sizeof(double) : rt_dtype_bytes(b->dtype, 1)), 64);
    if (!dense) return no_memory(v, e);
    f.x = dense;
    f.i = dense;
    f.b = dense;
    l->fill(v->c, &f);
    for (uint64_t i = 0; v->c->coarse && rt_dtype_is_float(b->dtype) && i < n; i++) f.x[i] = rint(4 * f.x[i]) / 4;
    put_rows(b, w, dense);
    rt_free(dense);
    return RT_OK;
}

static int allocate(rt_values *v, rt_err *e)
{
    for (uint32_t i = 0; i < v->nbufs; i++) {
        rt_value_buf *b = &v->buf[i];
        uint64_t n = (uint64_t)b->rows * b->cols;
        b->bytes = rt_dtype_bytes(b->dtype, n);
        b->wide_bytes = rt_dtype_bytes(b->wide, n);
        b->init = rt_arena_alloc(v->arena, b->bytes);
        b->init_wide = b->wide == b->dtype ? b->init : rt_arena_alloc(v->arena, b->wide_bytes);
        if (!b->init || !b->init_wide) return no_memory(v, e);
        memset(b->init, 0xff, b->bytes);
    }
    return RT_OK;
}

int rt_values_make(rt_values *v, const rt_op_case *c, rt_verify_env *env, rt_err *e)
{
    int rc;
    *v = (rt_values){ .c = c, .arena = &env->scratch, .seed = rt_hash(c->name, strlen(c->name)).lo };
    v->cuts_off = env->cuts_off;
    lay_out(v);
    RT_TRY(allocate(v, e));
    RT_FOR_SLOTS (i, c->set->kind) RT_TRY(fill_slot(v, i, e));
    if (c->set->prepare) RT_TRY(c->set->prepare(v, env, e));
    for (uint32_t i = 0; i < v->nbufs; i++) {
        rt_value_buf *b = &v->buf[i];
        if (b->init_wide != b->init && rt_dtype_is_float(b->dtype))
            rt_float_to_f64((double *)(void *)b->init_wide, b->init, b->dtype, (uint64_t)b->rows * b->cols);
    }
out:
    return rc;
}

/* ---- reading and replacing ---- */

void rt_values_widen(double *out, const uint8_t *bytes, rt_view w, rt_dtype d)
{
    float run[256]; /* a multiple of every block */
    for (uint32_t r = 0; r < w.rows; r++, out += w.cols) {
        const uint8_t *from = bytes + rt_dtype_bytes(d, w.off + r * w.stride);
        if (!rt_dtype_is_quant(d)) {
            rt_float_to_f64(out, from, d, w.cols);
            continue;
        }
        for (uint32_t c = 0; c < w.cols; c += RT_COUNT(run)) {
            uint32_t n = w.cols - c < RT_COUNT(run) ? w.cols - c : RT_COUNT(run);
            rt_quant_to_f32(run, from + rt_dtype_bytes(d, c), d, n);
            rt_float_to_f64(out + c, run, RT_DTYPE_F32, n);
        }
    }
}

void *rt_values_scratch(rt_values *v, size_t bytes)
{
    void *p = rt_arena_alloc(v->arena, bytes);
    if (!p) v->failed = true;
    return p;
}

const double *rt_values_dense(rt_values *v, uint32_t slot)
{
    rt_view w = v->view[slot];
    if (!w.buf) return NULL;
    if (!v->dense[slot]) {
        const rt_value_buf *b = &v->buf[w.buf - 1];
        v->dense[slot] = rt_values_scratch(v, (uint64_t)w.rows * w.cols * sizeof(double));
        if (v->dense[slot]) rt_values_widen(v->dense[slot], b->init, w, b->dtype);
    }
    return v->dense[slot];
}

const int32_t *rt_values_row(const rt_values *v, uint32_t slot, uint32_t row)
{
    rt_view w = v->view[slot];
    if (!w.buf) return NULL;
    const rt_value_buf *b = &v->buf[w.buf - 1];
    return (const int32_t *)(const void *)row_at(b->init, w, b->dtype, row);
}

void rt_values_set(rt_values *v, uint32_t slot, const void *dense)
{
    put_rows(&v->buf[v->view[slot].buf - 1], v->view[slot], dense);
    v->dense[slot] = NULL;
}

int rt_values_recast(rt_values *v, uint32_t buf, rt_dtype d, rt_err *e)
{
    rt_value_buf *b = &v->buf[buf];
    uint64_t n = (uint64_t)b->rows * b->cols;
    rt_view all = { .rows = b->rows, .cols = b->cols, .stride = b->cols };
    uint8_t *rounded = rt_arena_alloc(v->arena, rt_dtype_bytes(d, n));
    double *wide = rt_arena_alloc(v->arena, n * sizeof *wide);
    if (!rounded || !wide) return no_memory(v, e);
    rt_values_widen(wide, b->init, all, b->dtype);
    rt_float_from_f64(rounded, wide, d, n);
    rt_float_to_f64(wide, rounded, d, n);
    b->wide = RT_DTYPE_F64;
    b->wide_bytes = n * sizeof *wide;
    b->init_wide = (uint8_t *)wide;
    return RT_OK;
}
