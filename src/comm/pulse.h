/* pulse.h - whether the other ranks are still there: datagrams between rank 0 and each of them, by a thread of its own.
 *
 * A rank that has ended is mpirun's business. One that is stopped, or whose host or network is gone, would leave the
 * others waiting in a collective for ever; a thread that sends and hears shows it, however long a step or an evaluation
 * takes. Who was never heard (a firewall) is not missed. Owns: the socket and the thread. */
#ifndef RT_COMM_PULSE_H
#define RT_COMM_PULSE_H

#include "backend/peers.h"
#include "base/err.h"

enum { RT_PULSE_SECONDS = 30 }; /* of silence */

typedef struct rt_pulse rt_pulse;
/* Every rank calls it. lost: in the thread, once, of a rank that was heard before. */
typedef void (*rt_pulse_lost_fn)(void *ctx, uint32_t rank);
int rt_pulse_begin(rt_pulse **out, rt_peers *p, rt_pulse_lost_fn lost, void *ctx, rt_err *e);
void rt_pulse_end(rt_pulse *u); /* accepts null */

#endif
