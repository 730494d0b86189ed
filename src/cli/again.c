/* again.c - this program executed again, by the command that has ended: a run whose device has failed goes on in a new
 * process (job/run/ladder.h).
 *
 * Owns: its words, what it is told in the environment, and what it must not inherit: descriptors, but for the standard
 * ones as they were when the command began, and blocked signals. The process stays the same one for whoever started it.
 */
#include "base/file.h"
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char resume[] = "--resume";
static char *words[RT_MAX_WORDS * 4]; /* the last two are for --resume and the end */
static int count;

void rt_again_keep(const char *command, int argc, char **argv)
{
    static char program[] = "retort";
    enum { MOST = sizeof words / sizeof *words - 2 };
    count = argc + 2 <= MOST ? 2 : 0; /* too many: it ends with its error */
    words[0] = program;
    words[1] = (char *)(uintptr_t)command;
    for (int i = 0; count && i < argc; i++) words[count++] = argv[i];
}

static bool has_resume(void)
{
    for (int i = 2; i < count; i++)
        if (strcmp(words[i], resume) == 0) return true;
    return false;
}

/* Whatever was opened is closed, and signals are heard again. */
static void leave_nothing(const rt_run_printer *p)
{
    enum { FIRST = 3, MOST = 65536 };
    sigset_t none;
    FILE *kept = p->json ? p->json : p->last; /* standard output as it was */
    if (kept) dup2(fileno(kept), STDOUT_FILENO);
    long limit = sysconf(_SC_OPEN_MAX);
    for (int fd = FIRST; fd < (limit > 0 && limit < MOST ? limit : MOST); fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
    sigemptyset(&none);
    pthread_sigmask(SIG_SETMASK, &none, NULL);
}

void rt_again(rt_run_printer *p, const rt_job_again *next)
{
    if (!next->wanted || !count) return;
    if (setenv(RT_LADDER_VARIABLE, next->failed.data, 1) != 0) return;
    rt_run_json_again(p, next->text);
    rt_live_hold();
    rt_say("device", "%s", next->text);
    rt_live_release();
    rt_live_end();
    fflush(NULL);
    rt_temp_remove_all();
    if (next->resume && !has_resume()) words[count++] = (char *)(uintptr_t)resume;
    words[count] = NULL;
    leave_nothing(p);
    execv("/proc/self/exe", words);
    rt_put_to(stderr, "the program cannot be executed again: %s\n", strerror(errno));
}

/* The main thread waits for the device, and would for ever. */
void rt_again_hung(void *printer, const rt_job_again *next, int rc, rt_err *e)
{
    if (!rt_interrupt_wanted(NULL)) rt_again(printer, next);
    rt_run_json_error(printer, rc, e);
    fprintf(stderr, "%s\n", e->text);
    fflush(NULL);
    rt_temp_remove_all();
    _exit(rt_status_exit(rc));
}
