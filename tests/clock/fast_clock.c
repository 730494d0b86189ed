/* fast_clock.c - a library to preload: the clock by which a process measures how long things take runs FAST_CLOCK times
 * as fast. What it says after fifteen seconds of silence is then seen after one and a half.
 *
 * Owns: CLOCK_MONOTONIC as the process reads it, from the moment at which it is loaded. The time of day, and waiting,
 * which the kernel does, are as they were. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static double begun; /* seconds */
static double factor;

__attribute__((constructor)) static void begin(void)
{
    struct timespec t;
    const char *times = getenv("FAST_CLOCK");
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &t);
    begun = (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
    factor = times ? atof(times) : 1;
}

int clock_gettime(clockid_t id, struct timespec *t)
{
    const int rc = (int)syscall(SYS_clock_gettime, id, t);
    if (rc != 0 || id != CLOCK_MONOTONIC) return rc;
    const double now = begun + factor * ((double)t->tv_sec + 1e-9 * (double)t->tv_nsec - begun);
    t->tv_sec = (time_t)now;
    t->tv_nsec = (long)(1e9 * (now - (double)t->tv_sec));
    return 0;
}
