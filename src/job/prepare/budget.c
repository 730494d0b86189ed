/* budget.c - see budget.h.
 *
 * A position costs in proportion to the parameters that it goes through: once forward, and when it is trained twice
 * more backward; with adapters once, since the weights have no gradients. Attention over long rows is left out: it is
 * on both sides of the share. */
#include "job/prepare/budget.h"

#include <math.h>

/* What evaluating a position costs in units of what training one does; 0: not known. */
static double relative_cost(const rt_run_facts *f, bool adapters)
{
    uint64_t parameters = 0;
    if (f->teacher && !rt_config_parameters(f->teacher, &parameters)) return 0;
    double student = (double)f->student_parameters, teacher = (double)parameters;
    for (uint32_t i = 0; i < f->other_teachers; i++) {
        if (!rt_config_parameters(f->others[i], &parameters)) return 0;
        teacher += (double)parameters;
    }
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

double rt_eval_rows_for(double room, double evaluations)
{
    double most = RT_EVALS_LEAST + RT_EVALS_BESIDES, least = 1 + RT_EVALS_BESIDES;
    double times = floor(fmin(fmax(room / RT_EVAL_ROWS_WANTED, least), most));
    if (evaluations > 0) times = evaluations + RT_EVALS_BESIDES;
    return fmax(floor(room / times), RT_EVAL_ROWS_LEAST);
}

bool rt_eval_advise(rt_str *out, double room)
{
    bool twice = room / (2 + RT_EVALS_BESIDES) >= RT_EVAL_ROWS_LEAST;
    if (!(room >= RT_EVAL_ROWS_LEAST)) return false; /* not even one row in eight times */
    rt_str_printf(out, "--eval-rows %.0f --eval-every %s", rt_eval_rows_for(room, twice ? 2 : 1),
                  twice ? "50%" : "100%");
    return true;
}
