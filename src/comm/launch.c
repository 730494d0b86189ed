/* launch.c - what started this process, as its environment says. */
#include "backend/options.h"
#include "comm/ranks.h"

#include <stdlib.h>
#include <string.h>

/* A number of the environment; false: it is not there, or is none. */
static bool number(const char *const *env, const char *name, uint32_t *out)
{
    const char *text = rt_dev_env(env, name);
    char *end;
    unsigned long v = text ? strtoul(text, &end, 10) : 0;
    if (!text || end == text || *end || v > UINT32_MAX) return false;
    *out = (uint32_t)v;
    return true;
}

/* Slurm sets these for every task; only with a PMI can an MPI find the others. */
static int read_slurm(rt_launch *out, const char *const *env, rt_err *e)
{
    uint32_t tasks = 1, rank = 0, pmix;
    if (!number(env, "SLURM_STEP_NUM_TASKS", &tasks) || tasks < 2 || !number(env, "SLURM_PROCID", &rank)) return RT_OK;
    if (!number(env, "PMIX_RANK", &pmix) && !number(env, "PMI_RANK", &pmix))
        return rt_fail(e, RT_INVALID,
                       "srun has started %u tasks without an MPI, so they cannot find one another; give srun "
                       "--mpi=pmix, or --ntasks 1",
                       tasks);
    *out = (rt_launch){ "Slurm", rank, tasks };
    return RT_OK;
}

int rt_launch_read(rt_launch *out, const char *const *env, rt_err *e)
{
    uint32_t rank, size;
    *out = (rt_launch){ .size = 1 };
    if (number(env, "OMPI_COMM_WORLD_SIZE", &size) && number(env, "OMPI_COMM_WORLD_RANK", &rank))
        *out = (rt_launch){ "Open MPI", rank, size };
    else if (number(env, "PMI_SIZE", &size) && number(env, "PMI_RANK", &rank))
        *out = (rt_launch){ "MPICH or Intel MPI", rank, size };
    else {
        int rc = read_slurm(out, env, e);
        if (rc < 0) return rc;
    }
    if (!out->by && number(env, "WORLD_SIZE", &size) && size > 1 && number(env, "RANK", &rank) &&
        rt_dev_env(env, "LOCAL_RANK"))
        return rt_fail(e, RT_INVALID,
                       "torchrun has started %u processes, and retort's find one another by MPI; start them with "
                       "mpirun -n %u, or give --devices %u to one",
                       size, size, size);
    return RT_OK;
}
