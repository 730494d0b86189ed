/* grad_cases.c - the gradient problems as cases. They test the specification itself, so they run on `ref` in double
 * whatever backend is being verified: a backend that matches `ref` then has the right derivative. */
#include "verify/block.h"
#include "verify/case.h"

#include <stdio.h>

typedef struct grad_case {
    const char *name; /* of grad_ops.c; null: the block */
    uint32_t variant;
} grad_case;

static int run(const rt_case *c, rt_verify_env *env, rt_case_result *r, rt_err *e)
{
    const grad_case *g = c->data;
    rt_grad_report report;
    int rc = g->name ? rt_grad_op_check(env->spec, g->name, g->variant, &report, e)
                     : rt_block_gradient_check(env->spec, rt_block_gradient_shape(g->variant),
                                               env->opts->quick ? 12 : 0, &report, e);
    if (rc < 0) return rc;
    r->error = report.worst;
    if (!(report.worst <= 1.0) || report.checked == 0) {
        r->outcome = RT_CASE_FAIL;
        snprintf(r->text, sizeof r->text, "%s", report.checked ? report.where : "nothing was differenced");
    }
    return RT_OK;
}

static void add_one(rt_case_list *l, const char *name, uint32_t variant)
{
    rt_case *c = rt_case_add(l, "grad", "grad/%s/%u", name ? name : "block", variant);
    grad_case *g = rt_case_alloc(l, sizeof *g);
    if (!c || !g) return;
    *g = (grad_case){ name, variant };
    c->quick = variant < 8 || variant % 8 == 0;
    c->run = run;
    c->data = g;
}

static void add(rt_case_list *l)
{
    const char *name;
    uint32_t variant;
    for (uint32_t i = 0; rt_grad_op(i, &name, &variant); i++) add_one(l, name, variant);
    for (uint32_t i = 0; rt_block_gradient_shape(i); i++) add_one(l, NULL, i);
}

const rt_case_family rt_family_grad = { "grad", add };
