/* ops.c - the sets of all ops in the order of op.h, and the list of all cases. An op without a set does not link. */
#include "verify/op_case.h"

#include <stdarg.h>
#include <stdio.h>

#define X(kind, name, args, text) [RT_OP_##kind] = &rt_op_set_##name,
const rt_op_set *const rt_op_sets[RT_OP_COUNT] = { RT_OP_LIST(X) };
#undef X

static void add_ops(rt_case_list *l)
{
    for (int k = 0; k < RT_OP_COUNT; k++) rt_case_list_add_set(l, rt_op_sets[k]);
}
const rt_case_family rt_family_ops = { "ops", add_ops };

rt_case *rt_case_add(rt_case_list *l, const char *op, const char *format, ...)
{
    char name[300];
    va_list args;
    if (l->err.status) return NULL;
    va_start(args, format);
    vsnprintf(name, sizeof name, format, args);
    va_end(args);
    char *copy = rt_arena_strdup(&l->memory, name);
    if (!copy || !rt_grow((void **)&l->cases, &l->cap, l->n + 1, sizeof *l->cases)) {
        rt_fail(&l->err, RT_NOMEM, "no memory for the list of cases");
        return NULL;
    }
    l->cases[l->n] = (rt_case){ .name = copy, .op = op };
    return &l->cases[l->n++];
}

void *rt_case_alloc(rt_case_list *l, size_t bytes)
{
    void *p = l->err.status ? NULL : rt_arena_alloc(&l->memory, bytes);
    if (!p && !l->err.status) rt_fail(&l->err, RT_NOMEM, "no memory for the list of cases");
    return p;
}

int rt_case_list_all(rt_case_list *out, rt_err *e)
{
#define X(name) &rt_family_##name,
    static const rt_case_family *const families[] = { RT_CASE_FAMILY_LIST(X) };
#undef X
    *out = (rt_case_list){ 0 };
    for (uint32_t i = 0; i < RT_COUNT(families); i++) families[i]->add(out);
    if (out->err.status == RT_OK) return RT_OK;
    int rc = rt_fail(e, out->err.status, "%s", out->err.text);
    rt_case_list_free(out);
    return rc;
}

void rt_case_list_free(rt_case_list *l)
{
    rt_free(l->cases);
    rt_arena_free(&l->memory);
    *l = (rt_case_list){ 0 };
}
