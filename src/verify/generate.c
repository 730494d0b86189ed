/* generate.c - from an op's set to its cases: every signature with every shape, with every vector width, and with every
 * value of every flag.
 *
 * Flags are drawn by chance from a fixed generator, so that they meet in many combinations; what a signature has not
 * seen after all its shapes is added on its small odd shape. */
#include "base/rng.h"
#include "verify/op_case.h"

#include <stdio.h>

static const uint32_t widths[] = { 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33 };
enum { TRIES = 64, STRIDE_FLAG = RT_CASE_FLAGS };

/* What the cases of one signature have shown so far: bit v of used[f] for value v of flag f; the last is striding. */
typedef struct shown {
    uint32_t used[RT_CASE_FLAGS + 1];
    uint32_t index; /* cases so far, and tries */
} shown;

static uint32_t flag_values(const rt_op_case *c, uint32_t flag)
{
    if (flag == STRIDE_FLAG) return (1u << RT_STRIDED_COUNT) - 1;
    uint32_t n = 0;
    while (n < RT_FLAG_VALUES && c->set->flags[flag].value[n]) n++;
    uint32_t all = (1u << n) - 1;
    return c->set->allowed ? all & c->set->allowed(c, flag) : all;
}

uint32_t rt_op_case_flag_values(const rt_op_case *c, uint32_t flag)
{
    return flag_values(c, flag == c->set->nflags ? STRIDE_FLAG : flag);
}

uint32_t rt_op_case_flag(const rt_op_case *c, uint32_t flag)
{
    return flag == c->set->nflags ? c->strided : c->flag[flag];
}

static void set_flag(rt_op_case *c, uint32_t flag, uint32_t value)
{
    if (flag == STRIDE_FLAG)
        c->strided = (uint8_t)value;
    else
        c->flag[flag] = (uint8_t)value;
}

/* One of the set bits of mask, by chance. */
static uint32_t draw(uint32_t mask, uint64_t seed, uint64_t index)
{
    uint32_t k = rt_philox(seed, 0x666c6167, index).v[0] % (uint32_t)__builtin_popcount(mask);
    while (k--) mask &= mask - 1;
    return (uint32_t)__builtin_ctz(mask);
}

/* Draws all flags; with `force`, from values not shown yet where there are any: of every flag, or of one only. */
static void draw_flags(rt_op_case *c, shown *s, bool force, uint32_t only)
{
    uint64_t seed = (uint64_t)c->set->kind * 1000 + c->sig_index;
    for (uint32_t f = 0; f <= STRIDE_FLAG; f++) {
        if (f >= c->set->nflags && f != STRIDE_FLAG) continue;
        uint32_t values = flag_values(c, f), missing = values & ~s->used[f];
        bool wanted = force && missing && (only == UINT32_MAX || only == f);
        uint64_t at = (uint64_t)s->index * 64 + f;
        if (!wanted && f != STRIDE_FLAG && c->set->flags[f].rare && draw(15, seed, at + 32) != 0) values &= 1;
        set_flag(c, f, draw(wanted ? missing : values, seed, at));
    }
    s->index++;
}

static void note(const rt_op_case *c, shown *s)
{
    for (uint32_t f = 0; f < c->set->nflags; f++) s->used[f] |= 1u << c->flag[f];
    s->used[STRIDE_FLAG] |= 1u << c->strided;
}

/* The first flag with a value not shown yet, or UINT32_MAX. */
static uint32_t first_missing(const rt_op_case *c, const shown *s)
{
    for (uint32_t f = 0; f <= STRIDE_FLAG; f++)
        if ((f < c->set->nflags || f == STRIDE_FLAG) && (flag_values(c, f) & ~s->used[f])) return f;
    return UINT32_MAX;
}

/* ---- names ---- */

static void append(char *buf, size_t size, const char *sep, const char *text)
{
    size_t n = strlen(buf);
    if (text[0]) snprintf(buf + n, size - n, "%s%s", n ? sep : "", text);
}

static void add_case(rt_case_list *l, const rt_op_case *from, uint32_t first)
{
    static const char *const strided[RT_STRIDED_COUNT] = { "", "strided", "strided-out", "strided-in",
                                                           "strided-aligned" };
    const rt_op_set *set = from->set;
    char sig[RT_SIGNATURE_TEXT], dims[80] = "", flags[200] = "", number[16];
    for (uint32_t i = 0; i < set->ndims; i++) {
        snprintf(number, sizeof number, "%u", from->dim[i]);
        append(dims, sizeof dims, "x", number);
    }
    for (uint32_t f = 0; f < set->nflags; f++) append(flags, sizeof flags, ",", set->flags[f].value[from->flag[f]]);
    append(flags, sizeof flags, ",", strided[from->strided]);
    rt_signature_text(sig, set->kind, &from->sig);
    const char *op = rt_op_name(set->kind);
    rt_case *c = rt_case_add(l, op, "%s/%s/%s%s%s", op, sig, dims, flags[0] ? "/" : "", flags);
    if (!c) return;
    for (uint32_t i = first; i + 1 < l->n; i++) /* rounded to blocks, two shapes may be one */
        if (strcmp(l->cases[i].name, c->name) == 0) {
            l->n--;
            return;
        }
    rt_op_case *copy = rt_case_alloc(l, sizeof *copy);
    if (!copy) return;
    *copy = *from;
    copy->name = c->name;
    c->run = rt_op_case_run;
    c->data = copy;
}

static void add_shape(rt_case_list *l, rt_op_case *c, shown *s, const rt_op_shape *shape, uint32_t first)
{
    memcpy(c->dim, shape->dim, sizeof c->dim);
    c->shape_kind = shape->kind;
    draw_flags(c, s, false, 0);
    if (c->set->fix) c->set->fix(c);
    note(c, s);
    add_case(l, c, first);
}

static void add_signature(rt_case_list *l, const rt_op_set *set, const rt_signature *sig, uint32_t index)
{
    rt_op_case c = { .set = set, .sig = *sig, .sig_index = index };
    shown s = { .index = 0 };
    uint32_t first = l->n;
    for (uint32_t i = 0; i < set->nshapes; i++) add_shape(l, &c, &s, &set->shapes[i], first);
    for (uint32_t i = 0; i < RT_COUNT(widths); i++) {
        rt_op_shape w = { .kind = RT_SHAPE_WIDTH };
        for (uint32_t d = 0; d < set->ndims; d++) w.dim[d] = widths[(i + 4 * (set->ndims - 1 - d)) % RT_COUNT(widths)];
        add_shape(l, &c, &s, &w, first);
    }
    for (uint32_t i = 0; i < TRIES; i++) {
        uint32_t f = first_missing(&c, &s);
        if (f == UINT32_MAX) break;
        memcpy(c.dim, set->shapes[0].dim, sizeof c.dim);
        c.shape_kind = set->shapes[0].kind;
        draw_flags(&c, &s, true, i % 2 ? f : UINT32_MAX); /* flags may contradict one another: then one at a time */
        if (set->fix) set->fix(&c);
        note(&c, &s);
        add_case(l, &c, first);
    }
    for (uint32_t i = 0; i < set->nmore; i++) add_shape(l, &c, &s, &set->more[i], first);
}

/* ---- the quick subset: the first case of every signature, and what shows a flag's value that those do not ---- */

static void mark_quick(rt_case_list *l, uint32_t first)
{
    uint32_t used[RT_CASE_FLAGS + 1] = { 0 }, sig = UINT32_MAX;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = first; i < l->n; i++) {
            const rt_op_case *c = l->cases[i].data;
            bool take = pass == 0 && c->sig_index != sig;
            sig = c->sig_index;
            if (c->shape_kind & (RT_SHAPE_BIG | RT_SHAPE_DEEP | RT_SHAPE_FEW)) continue;
            for (uint32_t f = 0; pass == 1 && f <= c->set->nflags; f++)
                take = take || !(used[f] >> rt_op_case_flag(c, f) & 1);
            if (!take) continue;
            l->cases[i].quick = true;
            for (uint32_t f = 0; f <= c->set->nflags; f++) used[f] |= 1u << rt_op_case_flag(c, f);
        }
}

void rt_case_list_add_set(rt_case_list *l, const rt_op_set *set)
{
    rt_signature *list = rt_case_alloc(l, RT_SIGNATURES_MAX * sizeof *list);
    uint32_t first = l->n, n = list ? rt_signature_list(set->kind, list) : 0;
    for (uint32_t i = 0; i < n; i++) add_signature(l, set, &list[i], i);
    if (l->err.status == RT_OK) mark_quick(l, first);
}
