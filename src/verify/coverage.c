/* coverage.c - the self-check of the cases. It asks the op specifications what there is, and the laid-out cases what
 * they show; it trusts neither the generator nor the flags. */
#include "verify/op_case.h"

#include <stdio.h>

/* What the cases of one signature, or of one op, show. */
typedef struct seen {
    uint32_t kinds;                   /* rt_shape_kind */
    uint32_t flag[RT_CASE_FLAGS + 1]; /* bit v: value v; the last in use is striding */
    uint32_t adds, assigns;           /* bit i: ACCUM slot i */
    uint32_t present, absent;         /* bit i: slot i */
    uint16_t in_place[RT_MAX_SLOTS];  /* bit j: slot i in place of slot j */
    uint64_t widths;                  /* bit n: the last dimension was n < 64 */
    uint32_t cases;
} seen;

static void look(seen *s, const rt_op_case *c)
{
    rt_layout l = { 0 };
    c->set->layout(c, &l);
    s->cases++;
    s->kinds |= c->shape_kind;
    for (uint32_t f = 0; f <= c->set->nflags; f++) s->flag[f] |= 1u << rt_op_case_flag(c, f);
    RT_FOR_SLOTS (i, c->set->kind) {
        const rt_slot_layout *slot = &l.slot[i];
        if (!slot->rows) {
            s->absent |= 1u << i;
            continue;
        }
        s->present |= 1u << i;
        if (slot->in_place)
            s->in_place[i] |= (uint16_t)(1u << (slot->in_place - 1));
        else if (slot->fill)
            s->adds |= 1u << i;
        else
            s->assigns |= 1u << i;
    }
    for (uint32_t d = 0; d < c->set->ndims; d++)
        if (c->dim[d] < 64) s->widths |= UINT64_C(1) << c->dim[d];
}

static int lacking(rt_op_kind kind, const rt_signature *sig, const char *what, const char *which, rt_err *e)
{
    char text[RT_SIGNATURE_TEXT] = "any signature";
    if (sig) rt_signature_text(text, kind, sig);
    return rt_fail(e, RT_INTERNAL, "%s, %s: no case %s%s", rt_op_name(kind), text, what, which);
}

static int check_shapes(const rt_op_set *set, const rt_signature *sig, const seen *s, rt_err *e)
{
    uint32_t must = RT_SHAPE_ODD | RT_SHAPE_ONE | (set->nshapes > 1 ? RT_SHAPE_BIG : 0);
    for (uint32_t i = 0; i < set->nshapes; i++) must |= set->shapes[i].kind;
    uint32_t missing = must & ~s->kinds;
    if (!missing) return RT_OK;
    return lacking(set->kind, sig, "with ",
                   missing & RT_SHAPE_ODD   ? "an odd shape"
                   : missing & RT_SHAPE_ONE ? "a shape of 1"
                   : missing & RT_SHAPE_BIG ? "a shape of three tiles and chunks"
                                            : "a shape that its op lists",
                   e);
}

static int check_flags(const rt_op_case *any, const rt_signature *sig, const seen *s, rt_err *e)
{
    for (uint32_t f = 0; f <= any->set->nflags; f++)
        if (rt_op_case_flag_values(any, f) & ~s->flag[f])
            return lacking(any->set->kind, sig, "with some value of flag ",
                           f < any->set->nflags ? any->set->flags[f].name : "stride", e);
    return RT_OK;
}

/* The inputs that slot i may lie on, of those that have its dtype. */
static uint16_t places(rt_op_kind kind, const rt_signature *sig, uint32_t i)
{
    uint16_t alias = rt_op_specs[kind].slot[i].alias;
    RT_FOR_SLOTS (k, kind)
        if (sig->dtype[k] != sig->dtype[i]) alias &= (uint16_t) ~(1u << k);
    return alias;
}

/* Both ways of every accumulating output, and every in-place form. */
static int check_outputs(rt_op_kind kind, const rt_signature *sig, const seen *s, rt_err *e)
{
    const rt_op_spec *spec = &rt_op_specs[kind];
    RT_FOR_SLOTS (i, kind) {
        if (sig->absent >> i & 1) continue;
        bool accumulates = spec->slot[i].access == RT_ACCUM || spec->slot[i].access == RT_ACCUM_SPARSE;
        if (accumulates && !(s->adds >> i & 1)) return lacking(kind, sig, "that adds to ", spec->slot[i].name, e);
        if (accumulates && !(s->assigns >> i & 1)) return lacking(kind, sig, "that assigns ", spec->slot[i].name, e);
        if (places(kind, sig, i) & ~s->in_place[i])
            return lacking(kind, sig, "with some in-place form of ", spec->slot[i].name, e);
    }
    return RT_OK;
}

static int check_op(const rt_op_set *set, const seen *s, rt_err *e)
{
    static const uint8_t widths[] = { 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33 };
    const rt_op_spec *spec = &rt_op_specs[set->kind];
    RT_FOR_SLOTS (i, set->kind) {
        if (!(s->present >> i & 1)) return lacking(set->kind, NULL, "with operand ", spec->slot[i].name, e);
        if (spec->slot[i].optional && !(s->absent >> i & 1))
            return lacking(set->kind, NULL, "without operand ", spec->slot[i].name, e);
    }
    for (uint32_t i = 0; i < sizeof widths && set->nshapes > 1; i++) {
        char number[16];
        snprintf(number, sizeof number, "%u", widths[i]);
        /* rope has pairs, quantised types have blocks: there the width above, or none, stands for it */
        if (!(s->widths >> widths[i] & 3) && set->kind != RT_OP_QUANT && set->kind != RT_OP_DEQUANT)
            return lacking(set->kind, NULL, "of width ", number, e);
    }
    return RT_OK;
}

static int check_signature(const rt_case_list *l, const rt_op_set *set, const rt_signature *sig, uint32_t index,
                           seen *op, rt_err *e)
{
    int rc;
    seen s = { 0 };
    const rt_op_case *any = NULL;
    for (uint32_t i = 0; i < l->n; i++) {
        const rt_op_case *c = l->cases[i].data;
        if (l->cases[i].run != rt_op_case_run || c->set != set || c->sig_index != index) continue;
        any = c;
        look(&s, c);
        look(op, c);
    }
    if (!any || memcmp(&any->sig, sig, sizeof *sig) != 0) return lacking(set->kind, sig, "at all", "", e);
    RT_TRY(check_shapes(set, sig, &s, e));
    RT_TRY(check_flags(any, sig, &s, e));
    RT_TRY(check_outputs(set->kind, sig, &s, e));
out:
    return rc;
}

int rt_coverage_check(const rt_case_list *l, rt_err *e)
{
    int rc = RT_OK;
    rt_signature *sigs = rt_alloc(RT_SIGNATURES_MAX * sizeof *sigs, 16);
    if (!sigs) return rt_fail(e, RT_NOMEM, "no memory for signatures");
    for (int k = 0; k < RT_OP_COUNT; k++) {
        seen op = { 0 };
        uint32_t n = rt_signature_list((rt_op_kind)k, sigs);
        for (uint32_t i = 0; i < n; i++) RT_TRY(check_signature(l, rt_op_sets[k], &sigs[i], i, &op, e));
        RT_TRY(check_op(rt_op_sets[k], &op, e));
    }
out:
    rt_free(sigs);
    return rc;
}
