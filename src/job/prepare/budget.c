/* budget.c - see budget.h.
 *
 * A position costs in proportion to the parameters that it goes through: once forward, and when it is trained twice
 * more backward; with adapters once, since the weights have no gradients. Attention over long rows is left out: it is
 * on both sides of the share. */
#include "job/prepare/budget.h"

/* What evaluating a position costs in units of what training one does; 0: not known. */
static double relative_cost(const rt_run_facts *f, bool adapters)
{
    uint64_t parameters = 0;
    if (f->teacher && !rt_config_parameters(f->teacher, &parameters)) return 0;
    double student = (double)f->student_parameters, teacher = (double)parameters;
    if (student == 0) return 0;
    return (teacher + student) / (teacher + (adapters ? 2 : 3) * student);
}

double rt_eval_share(const rt_run_facts *f, bool adapters, rt_run_positions n, double evaluations)
{
    double evaluated = evaluations * n.held * relative_cost(f, adapters);
    return evaluated > 0 ? evaluated / (evaluated + n.trained) : 0;
}

double rt_eval_room(const rt_run_facts *f, bool adapters, double trained)
{
    double cost = relative_cost(f, adapters);
    return cost > 0 ? RT_EVAL_BUDGET / (1 - RT_EVAL_BUDGET) * trained / cost : 0;
}
