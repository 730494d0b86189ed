/* process.c - what the process is given by whoever starts it, and the signals that would end it without a word.
 *
 * Owns: descriptors that are closed, SIGPIPE, SIGXFSZ and SIGBUS, and that no signal but SIGKILL leaves temporary
 * files. Leaves what a command does when it is asked to stop to live.c. */
#include "base/file.h"
#include "cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* A file that is opened gets the first free descriptor: without this, metrics would be what standard output is, and
 * lines for people would go into them. */
static void open_standard(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", O_RDWR) != fd) _exit(rt_status_exit(RT_IO));
}

static const char *hex(const char *p, uintptr_t *out)
{
    *out = 0;
    for (;; p++) {
        int digit = *p >= '0' && *p <= '9' ? *p - '0' : *p >= 'a' && *p <= 'f' ? *p - 'a' + 10 : -1;
        if (digit < 0) return p;
        *out = *out << 4 | (uintptr_t)digit;
    }
}

/* Of a line of /proc/self/maps: the file's name, when the address lies in it; else null. */
static const char *file_of(const char *line, uintptr_t at)
{
    uintptr_t begin, end;
    const char *p = hex(line, &begin);
    if (*p != '-') return NULL;
    hex(p + 1, &end);
    return at >= begin && at < end ? strchr(line, '/') : NULL;
}

/* The file that is mapped at an address, into name; "a file" when that is not known. */
static void find_mapped(char *name, size_t size, uintptr_t at)
{
    char line[5000], c;
    size_t n = 0;
    const char *found = NULL;
    int fd = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    while (fd >= 0 && !found && read(fd, &c, 1) == 1) {
        if (c != '\n' && n + 1 < sizeof line) line[n++] = c;
        if (c != '\n') continue;
        line[n] = 0;
        n = 0;
        found = file_of(line, at);
    }
    if (fd >= 0) close(fd);
    snprintf(name, size, "%s", found ? found : "a file");
}

/* Somebody has shortened a file that is mapped, or its disk cannot be read. The thread was reading it, so it holds no
 * lock of the C library, and what removes the temporary files may use that. */
static void on_bus(int sig, siginfo_t *info, void *context)
{
    static volatile sig_atomic_t entered;
    char name[4200], text[4400];
    (void)context;
    if (entered || info->si_code <= 0) { /* not ours to explain */
        signal(sig, SIG_DFL);
        raise(sig);
        return;
    }
    entered = 1;
    find_mapped(name, sizeof name, (uintptr_t)info->si_addr);
    int n = snprintf(text, sizeof text,
                     "cannot read %s any more: it became shorter while it was in use, or its disk has failed; the "
                     "output is not complete\n",
                     rt_text_tame(name));
    if (n > 0 && write(2, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1) < 0) n = 0;
    rt_temp_remove_all();
    _exit(rt_status_exit(RT_IO));
}

/* Ends as it would have ended without this. */
static void on_end(int sig)
{
    rt_temp_remove_all();
    signal(sig, SIG_DFL);
    raise(sig);
}

/* Every signal that ends a process and may be caught, but those that somebody had ignored or that a sanitizer catches.
 */
static void catch_ends(void)
{
    static const int signals[] = { SIGHUP,    SIGINT,  SIGQUIT, SIGTERM, SIGALRM, SIGUSR1, SIGUSR2,
                                   SIGVTALRM, SIGPROF, SIGXCPU, SIGPOLL, SIGPWR,  SIGTRAP, SIGSTKFLT,
                                   SIGABRT,   SIGFPE,  SIGILL,  SIGSEGV, SIGSYS };
    struct sigaction end = { .sa_handler = on_end }, was;
    sigfillset(&end.sa_mask);
    for (int i = 0, n = sizeof signals / sizeof *signals; i < n + SIGRTMAX - SIGRTMIN + 1; i++) {
        int sig = i < n ? signals[i] : SIGRTMIN + i - n;
        if (sigaction(sig, NULL, &was) == 0 && was.sa_handler == SIG_DFL) sigaction(sig, &end, NULL);
    }
}

void rt_process_begin(void)
{
    struct sigaction bus = { .sa_sigaction = on_bus, .sa_flags = SA_SIGINFO };
    open_standard();
    signal(SIGPIPE, SIG_IGN); /* a run whose reader left, as `| head` does, still ends well */
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow further is an error like a full disk, and told as one */
    sigemptyset(&bus.sa_mask);
    sigaction(SIGBUS, &bus, NULL);
    catch_ends();
}
