/* ranks.h - the processes of one run: who this one is, and how it reaches the others.
 *
 * Owns: what launchers say in the environment, libmpi (opened at run time; a machine without it runs one process as
 * ever), and the peers that a backend and the loop use. It knows no model and no step: train/follow.h says what ranks
 * tell one another. Whoever opens ranks hands over the environment as a list. */
#ifndef RT_COMM_RANKS_H
#define RT_COMM_RANKS_H

#include "backend/peers.h"
#include "base/err.h"

typedef struct rt_ranks rt_ranks;

/* What launched this process, as its environment says; size 1: nothing did, or for one rank. */
typedef struct rt_launch {
    const char *by; /* "Open MPI", "MPICH or Intel MPI", "Slurm"; null: nothing */
    uint32_t rank, size;
} rt_launch;
/* RT_INVALID for a launcher without an MPI: torchrun, or srun with --mpi=none. */
int rt_launch_read(rt_launch *out, const char *const *env, rt_err *e);

/* Of a rank that nothing is heard of any more, a sentence; in a thread of its own. It ends the process. */
typedef void (*rt_ranks_lost_fn)(const char *sentence);
/* Joins the ranks that were launched together; *out null: there is one, and no library was opened. RT_NO_BACKEND when
 * there is no libmpi, or only one that is not the launcher's. Once in a process. */
int rt_ranks_open(rt_ranks **out, const char *const *env, rt_ranks_lost_fn lost, rt_err *e);
rt_peers *rt_ranks_peers(rt_ranks *r);           /* null for null */
uint32_t rt_ranks_here(const rt_ranks *r);       /* how many are on this host; 1 for null */
uint32_t rt_ranks_place(const rt_ranks *r);      /* of these, how many come before this one */
const char *rt_ranks_library(const rt_ranks *r); /* "Open MPI v4.1.4", as it calls itself */
/* Leaves them: together, when every rank comes here; where torn, by ending all of them with this exit code. Accepts
 * null. */
void rt_ranks_close(rt_ranks *r, int exit_code);

/* For `doctor`: a sentence about the libmpi that would be opened, or why none is. */
void rt_ranks_probe(char *text, uint32_t size);

#endif
