/* live.c - see live.h. */
#include "cli/live.h"

#include "base/err.h"
#include "base/file.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

enum { NARROWEST = 20, BAR_LEAST = 12, BAR_MOST = 34, LINE = 512 };
/* Seconds: between two looks at the line; before work is shown at all; of silence off a terminal, before work that goes
 * on is named and between two lines. */
static const double tick = 0.1, first_shown = 0.3, name_after = 5, silence = 15;
static const double step_long = 2; /* seconds after which a step is worth showing how far it is */

typedef struct work {
    char what[48]; /* empty: none */
    uint64_t done, total;
    double begun;
    bool named; /* a plain line was written of it */
} work;

/* The step that is computed, and the micro-batches of it that are done. */
typedef struct computing {
    uint32_t step, steps; /* step 0: none */
    uint32_t done, count; /* count 0: how far it is is not known */
    double begun, told;   /* told: when the last of them was done */
} computing;

static struct {
    pthread_mutex_t lock;
    pthread_t thread;
    bool running, ending;
    FILE *to;
    bool terminal, colour;
    bool answered; /* the interrupt */
    double begun, printed;
    work work;
    computing now;
    rt_live_step step; /* steps 0: none has ended yet */
    double stepped;    /* when it did */
    char resume[8192]; /* empty: nothing can be resumed; a path in it may be quoted */
    char shown[LINE];  /* what the line says; empty: it is not there */
    uint32_t shown_width;
} live = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* ---- interrupts ---- */

static volatile sig_atomic_t interrupted, line_at = -1; /* line_at: the descriptor that a line stands on */
static volatile sig_atomic_t awake;                     /* there is a thread to wake */
static sem_t wake;

static void on_signal(int sig)
{
    static const char clear[] = "\r\033[J";
    int kept = errno;
    if (interrupted) {
        if (line_at >= 0 && write(line_at, clear, sizeof clear - 1) < 0) line_at = -1;
        rt_temp_remove_all();
        signal(sig, SIG_DFL);
        raise(sig);
    }
    interrupted = 1;
    if (awake) sem_post(&wake);
    errno = kept;
}

void rt_interrupt_catch(void)
{
    static const int signals[] = { SIGINT, SIGTERM, SIGHUP, SIGXCPU };
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART }, was;
    sigemptyset(&a.sa_mask);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        if (sigaction(signals[i], NULL, &was) == 0 && was.sa_handler != SIG_IGN) sigaction(signals[i], &a, NULL);
}

void rt_interrupt_catch_user(void)
{
    struct sigaction a = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
    sigemptyset(&a.sa_mask);
    sigaction(SIGUSR1, &a, NULL);
}

static void on_each(int sig)
{
    (void)sig;
    interrupted = 1;
}

void rt_interrupt_catch_each(void)
{
    struct sigaction a = { .sa_handler = on_each }, was;
    sigemptyset(&a.sa_mask);
    if (sigaction(SIGINT, NULL, &was) == 0 && was.sa_handler != SIG_IGN) sigaction(SIGINT, &a, NULL);
}

void rt_interrupt_forget(void) { interrupted = 0; }

/* Ctrl-C is held back between the look at what is remembered and the wait: in that moment it would wake nobody. */
bool rt_interrupt_before_input(int fd)
{
    struct pollfd in = { .fd = fd, .events = POLLIN };
    sigset_t held, before;
    sigemptyset(&held);
    sigaddset(&held, SIGINT);
    pthread_sigmask(SIG_BLOCK, &held, &before);
    while (!interrupted && ppoll(&in, 1, NULL, &before) < 0 && errno == EINTR) {}
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return interrupted != 0;
}

bool rt_interrupt_wanted(void *ctx)
{
    (void)ctx;
    return interrupted != 0;
}

/* ---- the line as text ---- */

bool rt_live_terminal(FILE *to)
{
    const char *term = getenv("TERM");
    return isatty(fileno(to)) && !(term && strcmp(term, "dumb") == 0);
}

bool rt_live_colour(FILE *to)
{
    const char *no = getenv("NO_COLOR");
    return rt_live_terminal(to) && !(no && *no);
}

char *rt_live_left(char *buf, double seconds) { return rt_format_duration(buf, seconds < 1 ? 1 : seconds); }

/* A line of at most room columns that is put together from the left. Everything in it is ASCII. */
typedef struct line {
    char text[LINE];
    uint32_t len, room;
    uint32_t bar, bar_len; /* where the bar stands */
} line;

/* Two blanks and the text, whole or not at all. */
static bool put(line *l, const char *text)
{
    size_t n = strlen(text), gap = l->len ? 2 : 0;
    if (l->len + gap + n > l->room) return false;
    memset(l->text + l->len, ' ', gap);
    memcpy(l->text + l->len + gap, text, n + 1);
    l->len += (uint32_t)(gap + n);
    return true;
}

/* n columns with the blank before them: " [====>     ]". */
static void put_bar(line *l, uint32_t n, double part)
{
    uint32_t inside = n - 3, full = (uint32_t)((part > 1 ? 1 : part) * inside);
    char *at = l->text + l->len;
    memset(at, ' ', n);
    at[1] = '[';
    memset(at + 2, '=', full);
    if (full < inside) at[2 + full] = '>';
    at[n - 1] = ']';
    at[n] = '\0';
    l->bar = l->len + 2;
    l->bar_len = full;
    l->len += n;
}

/* What there is to say, the most important first; the bar stands after the first and takes the room that is left. */
static void compose(line *l, char parts[][96], uint32_t count, double part)
{
    uint32_t taken = 0, n = 0, bar = 0, least = count < 3 ? count : 3;
    for (; n < count; n++) {
        uint32_t more = (uint32_t)strlen(parts[n]) + (n ? 2 : 0);
        /* The bar comes before all that is not among the first. */
        if (n == least && part >= 0 && taken + BAR_LEAST <= l->room) bar = BAR_LEAST;
        if (taken + bar + more > l->room) break;
        taken += more;
    }
    if (!bar && part >= 0 && taken + BAR_LEAST <= l->room) bar = BAR_LEAST;
    if (bar) bar = l->room - taken < BAR_MOST ? l->room - taken : BAR_MOST;
    for (uint32_t i = 0; i < n; i++) {
        put(l, parts[i]);
        if (i == 0 && bar) put_bar(l, bar, part);
    }
}

static double work_part(void) { return live.work.total ? (double)live.work.done / (double)live.work.total : -1; }

/* Of the work alone, by how far it has come. */
static double work_left(double now)
{
    double part = work_part(), took = now - live.work.begun;
    return part > 0 && took >= 1 ? took * (1 / part - 1) : NAN;
}

/* "step 1 of 30, micro-batch 7 of 32"; room 96 */
static void put_computing(char *text)
{
    const computing *c = &live.now;
    int n = snprintf(text, 48, "step %u of %u", c->step, c->steps);
    if (c->count > 1) snprintf(text + n, 48, ", micro-batch %u of %u", c->done + 1, c->count);
}

/* Seconds of a micro-batch; NaN before the first has ended. */
static double micro_seconds(void)
{
    const computing *c = &live.now;
    return c->done ? (c->told - c->begun) / c->done : NAN;
}

/* To the end of the command: as of the last step, or, before one has ended, by the micro-batches so far. */
static double steps_left(double now)
{
    const computing *c = &live.now;
    if (!isnan(live.step.left)) return live.step.left - (now - live.stepped);
    return c->step ? micro_seconds() * c->count * (c->steps - c->step + 1) - (now - c->begun) : NAN;
}

/* Of all steps, what is done. */
static double steps_part(void)
{
    const computing *c = &live.now;
    double within = c->step && c->count ? (double)c->done / c->count : 0;
    return live.step.steps ? (live.step.step + within) / live.step.steps : -1;
}

static void compose_now(line *l, double now)
{
    char parts[5 + RT_LIVE_FIELDS][96], text[96];
    uint32_t n = 0;
    const rt_live_step *s = &live.step;
    bool working = live.work.what[0] != '\0';
    bool slow = !working && live.now.step && now - live.now.begun >= step_long;
    double part = working ? work_part() : steps_part();
    double left = s->steps ? steps_left(now) : work_left(now);
    if (working) {
        snprintf(parts[n++], sizeof *parts, "%s", live.work.what);
        if (part >= 0)
            snprintf(parts[n++], sizeof *parts, "%.0f %%", 100 * part);
        else
            snprintf(parts[n++], sizeof *parts, "%s", rt_format_duration(text, now - live.work.begun));
    }
    if (slow) put_computing(text);
    if (slow && strlen(text) <= l->room)
        snprintf(parts[n++], sizeof *parts, "%s", text);
    else if (s->steps)
        snprintf(parts[n++], sizeof *parts, "step %u/%u", s->step, s->steps);
    if (slow && isnan(left)) snprintf(parts[n++], sizeof *parts, "%s", rt_format_duration(text, now - live.now.begun));
    if (!isnan(left)) snprintf(parts[n++], sizeof *parts, "left %s", rt_live_left(text, left));
    if (interrupted) snprintf(parts[n++], sizeof *parts, "stopping");
    for (int i = 0; !working && i < RT_LIVE_FIELDS && s->fields[i][0]; i++)
        snprintf(parts[n++], sizeof *parts, "%s", s->fields[i]);
    compose(l, parts, n, part);
}

/* ---- the line on the screen ---- */

/* Asked each time, so that a window may change its size. The last column stays free: writing to it wraps. */
static uint32_t room(void)
{
    struct winsize size = { 0 };
    uint32_t width = ioctl(fileno(live.to), TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
    if (width < NARROWEST) width = NARROWEST;
    return width - 1 < LINE - 1 ? width - 1 : LINE - 1;
}

/* The cursor goes back to the beginning: where a narrower window breaks the line in two, both are after it. Nothing
 * wraps even where the window has become narrower just now. */
static void draw(double now)
{
    line l = { .room = room() };
    compose_now(&l, now);
    if (!l.len || (strcmp(l.text, live.shown) == 0 && l.room == live.shown_width)) return;
    fprintf(live.to, "\r\033[?7l%.*s%s%.*s%s%s\033[J\r\033[?7h", (int)l.bar, l.text,
            live.colour && l.bar ? "\033[32m" : "", (int)l.bar_len, l.text + l.bar,
            live.colour && l.bar ? "\033[0m" : "", l.text + l.bar + l.bar_len);
    fflush(live.to);
    memcpy(live.shown, l.text, sizeof live.shown);
    live.shown_width = l.room;
    line_at = fileno(live.to);
}

static void erase(void)
{
    if (live.shown[0]) fputs("\r\033[J", live.to);
    live.shown[0] = '\0';
    line_at = -1;
}

/* ---- off a terminal ---- */

static void say_work(double now)
{
    char text[32];
    double left = work_left(now);
    fprintf(live.to, "%s", live.work.what);
    if (work_part() >= 0) fprintf(live.to, " %.0f %%", 100 * work_part());
    if (!isnan(left))
        fprintf(live.to, ", left %s\n", rt_live_left(text, left));
    else
        fprintf(live.to, ", %s so far\n", rt_format_duration(text, now - live.work.begun));
}

static void say_step(double now)
{
    char text[96];
    double left = steps_left(now);
    if (live.now.step)
        put_computing(text);
    else
        snprintf(text, sizeof text, "step %u of %u", live.step.step + 1, live.step.steps);
    fprintf(live.to, "%s", text);
    fprintf(live.to, ", %s so far", rt_format_duration(text, now - (live.now.step ? live.now.begun : live.work.begun)));
    if (!isnan(left)) fprintf(live.to, ", left %s", rt_live_left(text, left));
    fputc('\n', live.to);
}

static void break_silence(double now)
{
    bool working = live.work.what[0] != '\0';
    bool unnamed = working && !live.work.named && now - live.work.begun >= name_after;
    if ((!unnamed && now - live.printed < silence) || (!working && !live.step.steps)) return;
    if (working)
        say_work(now);
    else
        say_step(now);
    live.work.named = true;
    live.printed = now;
    fflush(live.to);
}

/* ---- the thread ---- */

static void answer(void)
{
    char text[32];
    const computing *c = &live.now;
    live.answered = true;
    erase();
    if (live.work.what[0])
        fprintf(live.to, "stopping  still %s", live.work.what);
    else if (c->step && c->done + 1 < c->count) {
        fprintf(live.to, "stopping  when micro-batch %u of %u of step %u has ended", c->done + 1, c->count, c->step);
        double left = micro_seconds() - (rt_now() - c->told);
        if (left >= 1) fprintf(live.to, ", about %s", rt_format_duration(text, left));
    } else if (live.step.steps)
        fprintf(live.to, "stopping  when step %u has ended and is saved", live.step.step + 1);
    else
        fprintf(live.to, "stopping  soon");
    fprintf(live.to, "; Ctrl-C again ends at once\n");
    if (live.resume[0]) fprintf(live.to, "resume    %s\n", live.resume);
    fflush(live.to);
    live.printed = rt_now();
}

static void look(void)
{
    double now = rt_now();
    if (interrupted && !live.answered) answer();
    if (!live.terminal)
        break_silence(now);
    else if (live.step.steps || live.shown[0] || now - live.begun >= first_shown)
        draw(now);
}

static void *main_of_line(void *none)
{
    (void)none;
    for (bool ending = false; !ending;) {
        struct timespec until;
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += (long)(1e9 * tick);
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        sem_timedwait(&wake, &until);
        pthread_mutex_lock(&live.lock);
        ending = live.ending;
        if (!ending) look();
        pthread_mutex_unlock(&live.lock);
    }
    return NULL;
}

/* ---- what others call ---- */

int rt_live_progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    (void)ctx;
    rt_live_work(what, done, total);
    return interrupted ? RT_INTERRUPTED : RT_OK;
}

void rt_live_begin(FILE *to)
{
    live.to = to;
    live.terminal = rt_live_terminal(to);
    live.colour = rt_live_colour(to);
    live.begun = live.printed = rt_now();
    live.step = (rt_live_step){ 0 };
    live.work = (work){ 0 };
    live.now = (computing){ 0 };
    live.ending = live.answered = false;
    live.resume[0] = '\0';
    if (sem_init(&wake, 0, 0) != 0) return;
    live.running = pthread_create(&live.thread, NULL, main_of_line, NULL) == 0;
    awake = live.running;
}

void rt_live_end(void)
{
    if (!live.running) return;
    pthread_mutex_lock(&live.lock);
    live.ending = true;
    if (interrupted && !live.answered) answer();
    erase();
    fflush(live.to);
    pthread_mutex_unlock(&live.lock);
    sem_post(&wake);
    pthread_join(live.thread, NULL);
    live.running = false;
    awake = 0;
}

void rt_live_work(const char *what, uint64_t done, uint64_t total)
{
    if (!live.running) return;
    pthread_mutex_lock(&live.lock);
    if (strcmp(live.work.what, what) != 0) {
        live.work = (work){ .begun = rt_now() };
        snprintf(live.work.what, sizeof live.work.what, "%s", what);
    }
    live.now = (computing){ 0 };
    live.work.done = done;
    live.work.total = total;
    pthread_mutex_unlock(&live.lock);
}

void rt_live_computing(uint32_t step, uint32_t steps, uint32_t done, uint32_t count)
{
    if (!live.running) return;
    pthread_mutex_lock(&live.lock);
    double now = rt_now();
    if (live.now.step != step) live.now = (computing){ .step = step, .begun = now };
    live.now.steps = steps;
    live.now.done = done;
    live.now.count = count;
    live.now.told = now;
    live.work = (work){ .begun = live.now.begun };
    pthread_mutex_unlock(&live.lock);
}

void rt_live_stepped(const rt_live_step *s)
{
    if (!live.running) return;
    pthread_mutex_lock(&live.lock);
    live.step = *s;
    live.stepped = rt_now();
    live.work = (work){ .begun = live.stepped };
    live.now = (computing){ 0 };
    pthread_mutex_unlock(&live.lock);
}

void rt_live_resume(const char *command)
{
    pthread_mutex_lock(&live.lock);
    snprintf(live.resume, sizeof live.resume, "%s", command ? command : "");
    pthread_mutex_unlock(&live.lock);
}

void rt_live_hold(void)
{
    if (!live.running) return;
    pthread_mutex_lock(&live.lock);
    erase();
    fflush(live.to);
}

void rt_live_release(void)
{
    if (!live.running) return;
    fflush(stdout);
    live.printed = rt_now();
    if (live.terminal && (live.step.steps || live.work.what[0])) draw(live.printed);
    pthread_mutex_unlock(&live.lock);
}

double rt_live_silence(void) { return rt_now() - live.printed; }
