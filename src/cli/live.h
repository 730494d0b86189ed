/* live.h - the live line: what a command is doing, redrawn in place on a terminal by a thread of its own; elsewhere a
 * plain line wherever it would be silent for long.
 *
 * Owns: the line, its width, colours, the thread, and interrupts, which that thread answers at once, whatever the rest
 * of the process is busy with. There is one line, as there is one terminal. What others print stands above it: between
 * rt_live_hold and rt_live_release. */
#ifndef RT_CLI_LIVE_H
#define RT_CLI_LIVE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* From now on an interrupt (Ctrl-C, SIGTERM, SIGHUP) is remembered and not obeyed at once; a second one is. One that
 * was ignored when the process began, as under nohup, stays ignored. */
void rt_interrupt_catch(void);
/* SIGUSR1 too: what mpirun passes on to its ranks, and batch systems send before their time is over. */
void rt_interrupt_catch_user(void);
/* The same of Ctrl-C alone, however often, for who goes on after it: it cuts the reading of a line short, and is
 * remembered until it is forgotten. */
void rt_interrupt_catch_each(void);
void rt_interrupt_forget(void);
/* Waits for input of the descriptor; true: an interrupt came first, or had come before. */
bool rt_interrupt_before_input(int fd);
bool rt_interrupt_wanted(void *ctx); /* ctx is not looked at: it fits the callbacks that ask */

/* Whether to may be given colours and a line that is redrawn: a terminal that is not dumb. */
bool rt_live_terminal(FILE *to);
bool rt_live_colour(FILE *to); /* and NO_COLOR is not set */

void rt_live_begin(FILE *to);
/* The line goes. Accepts that there is none. */
void rt_live_end(void);

/* Work besides steps is under way; what: "evaluating", copied; empty: it has ended. total 0: how much there is to do is
 * not known. */
void rt_live_work(const char *what, uint64_t done, uint64_t total);
/* The same as an rt_job_progress_fn: RT_INTERRUPTED when the user wants to stop. ctx is not looked at. */
int rt_live_progress(void *ctx, const char *what, uint64_t done, uint64_t total);

/* A step is being computed, of which so many micro-batches are done; count 0: how far it is is not known. */
void rt_live_computing(uint32_t step, uint32_t steps, uint32_t done, uint32_t count);

/* A step has ended; steps 0: how many there are is not known. */
enum { RT_LIVE_FIELDS = 10 };
typedef struct rt_live_step {
    uint32_t step, steps;
    double left;                     /* seconds to the end of the command; NaN: not known */
    char fields[RT_LIVE_FIELDS][32]; /* "loss 2.1034", the most important first; as many as fit are shown */
} rt_live_step;
void rt_live_stepped(const rt_live_step *s);
/* What to type to resume what is interrupted, copied; null: nothing is there to resume. */
void rt_live_resume(const char *command);

/* Whoever prints has the terminal for itself in between. Without a line they do nothing. */
void rt_live_hold(void);
void rt_live_release(void);
/* Seconds since something was printed. */
double rt_live_silence(void);

/* Seconds that are still to go, for a person: never 0:00. buf needs 32 bytes; returns buf. */
char *rt_live_left(char *buf, double seconds);

#endif
