/* test_launch.c - what launchers say in the environment: of Open MPI, MPICH and Slurm a rank and a size, of torchrun
 * and srun without an MPI a refusal that says what to do; half a variable, or one that is no number, is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "comm/ranks.h"

#include <string.h>

static void says(const char *const *env, const char *by, uint32_t rank, uint32_t size)
{
    rt_launch l;
    rt_err e = { 0 };
    assert_int_equal(rt_launch_read(&l, env, &e), RT_OK);
    if (by)
        assert_string_equal(l.by, by);
    else
        assert_null(l.by);
    assert_int_equal(l.rank, rank);
    assert_int_equal(l.size, size);
}
#define SAYS(by, rank, size, ...) says((const char *const[]){ __VA_ARGS__, NULL }, by, rank, size)

static void test_launchers(void **state)
{
    (void)state;
    says(NULL, NULL, 0, 1);
    SAYS(NULL, 0, 1, "HOME=/root");
    SAYS("Open MPI", 2, 3, "OMPI_COMM_WORLD_RANK=2", "OMPI_COMM_WORLD_SIZE=3");
    SAYS("Open MPI", 0, 1, "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1");
    SAYS("MPICH or Intel MPI", 1, 4, "PMI_RANK=1", "PMI_SIZE=4");
    SAYS("Slurm", 5, 8, "SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=8", "PMIX_RANK=5");
    SAYS("Slurm", 5, 8, "SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=8", "PMI_RANK=5");
    SAYS(NULL, 0, 1, "SLURM_PROCID=0", "SLURM_STEP_NUM_TASKS=1"); /* a batch script */
    SAYS(NULL, 0, 1, "SLURM_PROCID=0", "SLURM_NTASKS=8");         /* and one that has not called srun */
    SAYS("Open MPI", 0, 2, "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=2", "WORLD_SIZE=2", "RANK=0",
         "LOCAL_RANK=0");
}

static void test_half(void **state)
{
    (void)state;
    SAYS(NULL, 0, 1, "OMPI_COMM_WORLD_SIZE=3");
    SAYS(NULL, 0, 1, "OMPI_COMM_WORLD_SIZE=three", "OMPI_COMM_WORLD_RANK=0");
    SAYS(NULL, 0, 1, "OMPI_COMM_WORLD_SIZE=", "OMPI_COMM_WORLD_RANK=0");
    SAYS(NULL, 0, 1, "WORLD_SIZE=2", "RANK=0"); /* somebody else's */
    SAYS(NULL, 0, 1, "WORLD_SIZE=1", "RANK=0", "LOCAL_RANK=0");
}

static void refuses(const char *const *env, const char *text)
{
    rt_launch l;
    rt_ranks *r;
    rt_err e = { 0 };
    assert_int_equal(rt_launch_read(&l, env, &e), RT_INVALID);
    assert_non_null(strstr(e.text, text));
    e = (rt_err){ 0 };
    assert_int_equal(rt_ranks_open(&r, env, NULL, &e), RT_INVALID);
    assert_null(r);
}

static void test_refused(void **state)
{
    (void)state;
    refuses((const char *const[]){ "WORLD_SIZE=2", "RANK=1", "LOCAL_RANK=1", NULL },
            "mpirun -n 2, or give --devices 2");
    refuses((const char *const[]){ "SLURM_STEP_NUM_TASKS=3", "SLURM_PROCID=1", NULL }, "give srun --mpi=pmix");
}

/* One rank, or none that a launcher started, opens no library and has no peers. */
static void test_alone(void **state)
{
    rt_ranks *r;
    rt_err e = { 0 };
    const char *const one[] = { "OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE=1", NULL };
    (void)state;
    assert_int_equal(rt_ranks_open(&r, one, NULL, &e), RT_OK);
    assert_null(r);
    assert_null(rt_ranks_peers(r));
    assert_int_equal(rt_ranks_here(r), 1);
    rt_ranks_close(r, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers),
        cmocka_unit_test(test_half),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_alone),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
