/* large_cases.c - the large cases: one for each op whose time is that of its bytes.
 *
 * The pattern's rows are a prime number, so that an index that is off by a power of two, in elements or in bytes, comes
 * to another row of the pattern. Its columns are those that training has, or close to them, so that the same kernels
 * run. Plain sums over all rows take coarse values: of millions of equal terms the rounding errors would be equal too
 * and add up, where those of real data average out. */
#include "verify/op_case.h"

#include <stdio.h>

static bool find_signature(rt_op_kind kind, const char *text, rt_signature *room, rt_op_case *c)
{
    char buf[RT_SIGNATURE_TEXT];
    uint32_t n = rt_signature_list(kind, room);
    for (c->sig_index = 0; c->sig_index < n; c->sig_index++) {
        c->sig = room[c->sig_index];
        if (strcmp(rt_signature_text(buf, kind, &c->sig), text) == 0) return true;
    }
    return false;
}

static void add_case(rt_case_list *l, const rt_op_set *set, rt_signature *room)
{
    const rt_op_large *x = &set->large;
    const char *op = rt_op_name(set->kind);
    rt_op_case *p = rt_case_alloc(l, sizeof *p);
    char dims[80] = "";
    if (!p) return;
    *p = (rt_op_case){ .set = set, .coarse = x->coarse };
    memcpy(p->dim, x->dim, sizeof p->dim);
    memcpy(p->flag, x->flag, sizeof p->flag);
    if (!find_signature(set->kind, x->signature, room, p)) {
        rt_fail(&l->err, RT_INTERNAL, "op %s has no signature %s", op, x->signature);
        return;
    }
    if (set->fix) set->fix(p);
    for (uint32_t i = 0, n = 0; i < set->ndims; i++)
        n += (uint32_t)snprintf(dims + n, sizeof dims - n, "%s%u", i ? "x" : "", p->dim[i]);
    rt_case *c = rt_case_add(l, op, "%s/%s/%s/repeated", op, x->signature, dims);
    if (!c) return;
    p->name = c->name;
    c->quick = c->large = true;
    c->run = rt_large_case_run;
    c->data = p;
}

static void add(rt_case_list *l)
{
    rt_signature *room = rt_case_alloc(l, RT_SIGNATURES_MAX * sizeof *room);
    for (int i = 0; room && i < RT_OP_COUNT; i++)
        if (rt_op_sets[i]->large.signature) add_case(l, rt_op_sets[i], room);
}
const rt_case_family rt_family_large = { "large", add };
