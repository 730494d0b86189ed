/* progress.c - interrupts, and how far a long command is. See cli.h. */
#include "cli/cli.h"

#include "base/sys.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile sig_atomic_t interrupted;
static void on_signal(int sig)
{
    (void)sig;
    interrupted = 1;
}

void rt_interrupt_catch(void)
{
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    sigaction(SIGHUP, &a, NULL);
}

bool rt_interrupt_wanted(void *ctx)
{
    (void)ctx;
    return interrupted != 0;
}

void rt_progress_begin(rt_progress *p) { *p = (rt_progress){ .start = rt_now(), .terminal = isatty(STDERR_FILENO) }; }

static void show(rt_progress *p, uint64_t done, uint64_t total, double now)
{
    double part = total ? (double)done / (double)total : 1, left = part > 0 ? (now - p->start) * (1 / part - 1) : 0;
    if (p->terminal) {
        fprintf(stderr, "\r%s %5.1f %%, %.0f s left   ", p->what, 100 * part, left);
        fflush(stderr);
        p->dirty = true;
    } else if ((int)(10 * part) > p->tenth) {
        p->tenth = (int)(10 * part);
        fprintf(stderr, "%s %d %%, %.0f s\n", p->what, 10 * p->tenth, now - p->start);
    }
}

int rt_progress_step(void *progress, const char *what, uint64_t done, uint64_t total)
{
    rt_progress *p = progress;
    double now = rt_now();
    if (strcmp(p->what, what) != 0) {
        snprintf(p->what, sizeof p->what, "%s", what);
        if (p->dirty) p->shown = 0;
        p->start = now;
        p->tenth = 0;
    }
    if (now - p->start >= 1 && (!p->terminal || now - p->shown >= 0.1)) {
        show(p, done, total, now);
        p->shown = now;
    }
    return interrupted ? RT_INTERRUPTED : RT_OK;
}

void rt_progress_end(rt_progress *p)
{
    if (p->dirty) fprintf(stderr, "\r%60s\r", "");
    p->dirty = false;
}
