/* mpi_open_mpi.c - Open MPI: handles are pointers, those of the world and of bytes to objects that it exports. */
#define HANDLE void *
#define WORLD(t) ((t)->world)
#define BYTE(t) ((t)->byte)
#define STATUS_IGNORE NULL
#define KIND "Open MPI"
#define CALLS rt_mpi_open_mpi
#include "comm/mpi_calls.inl"
