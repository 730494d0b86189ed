/* mpi_table.h - the functions of libmpi that are used, and what an ABI makes of them. For the files of this room.
 *
 * MPI fixes the names of its functions and leaves what a handle is to each implementation: Open MPI has pointers to
 * objects that it exports, MPICH and its kin have integers. So the table of functions is one, of untyped pointers, and
 * mpi_calls.inl calls them, compiled once for each kind of handle. */
#ifndef RT_COMM_MPI_TABLE_H
#define RT_COMM_MPI_TABLE_H

#include "base/dynlib.h"

#include <stdint.h>

#define RT_MPI_LIST(X)                                                                                                 \
    X(Init_thread)                                                                                                     \
    X(Finalize)                                                                                                        \
    X(Abort)                                                                                                           \
    X(Comm_rank)                                                                                                       \
    X(Comm_size)                                                                                                       \
    X(Ibcast)                                                                                                          \
    X(Ialltoall)                                                                                                       \
    X(Iallgather)                                                                                                      \
    X(Test)                                                                                                            \
    X(Get_library_version)

typedef struct rt_mpi_table {
#define X(name) void *name;
    RT_MPI_LIST(X)
#undef X
    void *world, *byte; /* Open MPI: the objects that its handles point to; null: it is not one */
} rt_mpi_table;

/* What can be done with either; each gives what the MPI function gave, 0 being success. */
typedef struct rt_mpi_calls {
    const char *kind;
    int (*init)(const rt_mpi_table *t, uint32_t *rank, uint32_t *size);
    int (*finish)(const rt_mpi_table *t);
    void (*abort)(const rt_mpi_table *t, int code);
    int (*give)(const rt_mpi_table *t, uint32_t rank, void *data, int bytes);
    int (*exchange)(const rt_mpi_table *t, const void *send, void *recv, int bytes);
    int (*gather)(const rt_mpi_table *t, const void *part, void *all, int bytes);
} rt_mpi_calls;
extern const rt_mpi_calls rt_mpi_open_mpi, rt_mpi_mpich;

#endif
