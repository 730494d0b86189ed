/* mpi_mpich.c - MPICH and what shares its ABI (Intel MPI, MVAPICH, Cray): handles are integers. */
#define HANDLE int
#define WORLD(t) ((void)(t), 0x44000000)
#define BYTE(t) ((void)(t), 0x4c00010d)
#define STATUS_IGNORE ((void *)1)
#define KIND "MPICH"
#define CALLS rt_mpi_mpich
#include "comm/mpi_calls.inl"
