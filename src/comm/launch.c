/* launch.c - what started this process, and starting others: the environment of launchers, and mpirun. */
#include "backend/options.h"
#include "base/mem.h"
#include "base/str.h"
#include "comm/ranks.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* ---- starting ranks ---- */

/* What Open MPI's mpirun is told besides: the user has said that this is root, and that so many ranks shall share this
 * machine; a rank's threads are not nailed to one core; and after Ctrl-C a step may end and be saved. Others pass over
 * them. */
static const char *const told[] = { "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none",
                                    "OMPI_MCA_odls_base_sigkill_timeout=20", NULL };
static const char *const told_root[] = { "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL };

/* Unless the user has said otherwise. */
static size_t add_told(const char **list, size_t n, const char *const *more, const char *const *env)
{
    for (size_t i = 0; more[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(more[i], "="), more[i]);
        if (!rt_dev_env(env, name)) list[n++] = more[i];
    }
    return n;
}

int rt_ranks_start(uint32_t count, char *const *argv, const char *const *env, rt_err *e)
{
    char number_text[16], self[4096];
    size_t args = 0, vars = 0, n = 0, m = 0;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    while (argv[args]) args++;
    while (env && env[vars]) vars++;
    const char **words = rt_alloc((args + 8) * sizeof *words, 16);
    const char **list = rt_alloc((vars + 16) * sizeof *list, 16);
    if (!words || !list || len <= 0) return rt_fail(e, RT_NOMEM, "cannot name this program for mpirun");
    self[len] = 0;
    snprintf(number_text, sizeof number_text, "%u", count);
    words[n++] = "mpirun";
    words[n++] = "-n";
    words[n++] = number_text;
    words[n++] = self;
    for (size_t i = 1; i < args; i++) words[n++] = argv[i];
    words[n] = NULL;
    for (; m < vars; m++) list[m] = env[m];
    m = add_told(list, m, told, env);
    if (geteuid() == 0) m = add_told(list, m, told_root, env);
    list[m] = NULL;
    execvpe("mpirun", (char *const *)(uintptr_t)words, (char *const *)(uintptr_t)list);
    int why = errno;
    rt_free(words);
    rt_free(list);
    return rt_fail(e, RT_NO_BACKEND,
                   "--devices %u starts ranks with mpirun, and that cannot be run: %s; install Open MPI (Debian: "
                   "openmpi-bin), or leave --devices out",
                   count, strerror(why));
}
