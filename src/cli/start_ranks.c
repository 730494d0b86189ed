/* start_ranks.c - `--devices N`: this program again as so many ranks, by the machine's mpirun, and waiting for it; with
 * --restarts again and again, resumed, where a rank has died. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* What Open MPI's mpirun is told besides: the user has said that this is root, and that so many ranks shall share this
 * machine; and a rank's threads are not nailed to one core. Others pass over them. */
static const char *const told[] = { "OMPI_MCA_rmaps_base_oversubscribe=1", "OMPI_MCA_hwloc_base_binding_policy=none",
                                    NULL };
static const char *const told_root[] = { "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", NULL };

/* Unless the user has said otherwise. */
static size_t add_told(const char **list, size_t n, const char *const *more)
{
    for (size_t i = 0; more[i]; i++) {
        char name[64];
        snprintf(name, sizeof name, "%.*s", (int)strcspn(more[i], "="), more[i]);
        if (!getenv(name)) list[n++] = more[i];
    }
    return n;
}

/* In the child: errno to the parent where mpirun cannot be run. A group of its own, so that Ctrl-C comes to the parent
 * alone; and nothing to read, which would stop a process in the background. */
static void become_mpirun(const char *const *words, const char *const *list, const sigset_t *mask, int tell)
{
    int null = open("/dev/null", O_RDONLY);
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (null >= 0) dup2(null, 0);
    sigprocmask(SIG_SETMASK, mask, NULL);
    execvpe("mpirun", (char *const *)(uintptr_t)words, (char *const *)(uintptr_t)list);
    int why = errno;
    if (write(tell, &why, sizeof why) < 0) _exit(1);
    _exit(0);
}

/* What asks this process to stop, asks rank 0 to save: mpirun passes SIGUSR1 on, and would end everybody at once where
 * it got the signal itself. A second time is meant. */
static int wait_for(pid_t child, const sigset_t *signals, bool *stopped)
{
    int status = 0;
    for (bool asked = *stopped = false; waitpid(child, &status, WNOHANG) != child;) {
        int sig = sigwaitinfo(signals, NULL);
        if (sig < 0 || sig == SIGCHLD) continue;
        kill(child, asked ? SIGTERM : SIGUSR1);
        asked = *stopped = true;
    }
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/* A rank that was killed (its host shut down, no memory left), or a device, a network or a rank that hung. What the run
 * itself is refused for would be so again. */
static bool is_worth_another(int code)
{
    return code > 128 || code == rt_status_exit(RT_DEVICE) || code == rt_status_exit(RT_NETWORK);
}

/* Returns errno, or 0 with the exit code of the ranks. */
static int run_mpirun(const char *const *words, const char *const *list, int *code, bool *stopped)
{
    int tell[2], why = 0;
    sigset_t signals, before;
    sigemptyset(&signals);
    for (const int *sig = (const int[]){ SIGINT, SIGTERM, SIGHUP, SIGCHLD, 0 }; *sig; sig++) sigaddset(&signals, *sig);
    if (pipe2(tell, O_CLOEXEC) != 0) return errno;
    sigprocmask(SIG_BLOCK, &signals, &before);
    pid_t child = fork();
    if (child == 0) become_mpirun(words, list, &before, tell[1]);
    if (child < 0) return errno;
    close(tell[1]);
    const bool failed = read(tell[0], &why, sizeof why) == (ssize_t)sizeof why;
    close(tell[0]);
    if (failed) {
        waitpid(child, NULL, 0);
        sigprocmask(SIG_SETMASK, &before, NULL);
        return why;
    }
    *code = wait_for(child, &signals, stopped);
    sigprocmask(SIG_SETMASK, &before, NULL);
    return 0;
}

/* words: with room for one more. Comes back only with what keeps mpirun from running. */
static int run_again(const char **words, size_t n, const char *const *list, uint32_t restarts)
{
    int code = 0;
    bool stopped, resumes = false;
    for (size_t i = 0; i < n; i++) resumes = resumes || strcmp(words[i], "--resume") == 0;
    for (uint32_t turn = 0;; turn++) {
        int why = run_mpirun(words, list, &code, &stopped);
        if (why) return why;
        if (stopped || turn == restarts || !is_worth_another(code)) _exit(code);
        fprintf(stderr, "the ranks have ended with exit code %d: resumed from the last checkpoint, %u of %u times\n",
                code, turn + 1, restarts);
        if (!resumes) words[n++] = "--resume";
        words[n] = NULL;
        resumes = true;
    }
}

int rt_start_ranks(uint32_t count, uint32_t restarts, char *const *argv, rt_err *e)
{
    char number_text[16], self[4096];
    size_t args = 0, vars = 0, n = 0, m = 0;
    ssize_t len = readlink("/proc/self/exe", self, sizeof self - 1);
    while (argv[args]) args++;
    while (environ[vars]) vars++;
    const char **words = rt_alloc((args + 8) * sizeof *words, 16);
    const char **list = rt_alloc((vars + 16) * sizeof *list, 16);
    if (!words || !list || len <= 0) return rt_fail(e, RT_NOMEM, "cannot name this program for mpirun");
    self[len] = 0;
    snprintf(number_text, sizeof number_text, "%u", count);
    words[n++] = "mpirun";
    words[n++] = "-n";
    words[n++] = number_text;
    words[n++] = self;
    for (size_t i = 1; i < args; i++) words[n++] = argv[i];
    words[n] = NULL;
    for (; m < vars; m++) list[m] = environ[m];
    m = add_told(list, m, told);
    if (geteuid() == 0) m = add_told(list, m, told_root);
    list[m] = NULL;
    int why = run_again(words, n, list, restarts);
    rt_free(words);
    rt_free(list);
    return rt_fail(e, RT_NO_BACKEND,
                   "--devices %u starts ranks with mpirun, and that cannot be run: %s; install Open MPI (Debian: "
                   "openmpi-bin), or leave --devices out",
                   count, strerror(why));
}
