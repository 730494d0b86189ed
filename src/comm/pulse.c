/* pulse.c - see pulse.h. */
#include "comm/pulse.h"

#include "base/mem.h"
#include "base/sys.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BEAT_MS = 1000, ASLEEP = 5 /* seconds between two beats: this process itself was stopped, and knows nothing */ };

/* What is sent. The key is of this run, and came by MPI: who does not have it is not heard. */
typedef struct beat {
    uint64_t key;
    uint32_t rank;
} beat;

/* How the others reach rank 0. */
typedef struct meeting {
    uint64_t key;
    char host[64];
    uint16_t port; /* in the order of the network; 0: there is none */
} meeting;

struct rt_pulse {
    rt_peers *peers;
    rt_pulse_lost_fn lost;
    void *ctx;
    int fd;
    uint64_t key;
    struct sockaddr_in lead; /* of rank 0; of rank 0 itself unused */
    double *heard;           /* (size) clock; 0: never. Of a rank that is not 0 only [0] */
    int stop[2];             /* a pipe: closing its end wakes the thread */
    pthread_t thread;
};

static void send_beat(const rt_pulse *u, const struct sockaddr_in *to)
{
    const beat b = { u->key, u->peers->rank };
    if (sendto(u->fd, &b, sizeof b, MSG_DONTWAIT, (const struct sockaddr *)to, sizeof *to) < 0)
        return; /* the next one */
}

/* All that has come; rank 0 answers each. */
static void hear(rt_pulse *u)
{
    beat b;
    struct sockaddr_in from;
    socklen_t len = sizeof from;
    while (recvfrom(u->fd, &b, sizeof b, MSG_DONTWAIT, (struct sockaddr *)&from, &len) == (ssize_t)sizeof b) {
        len = sizeof from;
        if (b.key != u->key || b.rank >= u->peers->size) continue;
        u->heard[b.rank] = rt_now();
        if (u->peers->rank == 0) send_beat(u, &from);
    }
}

static void look_for_lost(const rt_pulse *u)
{
    for (uint32_t r = 0; r < u->peers->size; r++)
        if (u->heard[r] > 0 && rt_now() - u->heard[r] > RT_PULSE_SECONDS) {
            u->lost(u->ctx, r);
            return;
        }
}

static void *live(void *pulse)
{
    rt_pulse *u = pulse;
    double last = rt_now();
    if (u->peers->rank) send_beat(u, &u->lead); /* whoever is stopped from now on is missed */
    for (;;) {
        struct pollfd in[] = { { .fd = u->fd, .events = POLLIN }, { .fd = u->stop[0], .events = POLLIN } };
        (void)poll(in, 2, BEAT_MS);
        if (in[1].revents) return NULL;
        double now = rt_now();
        for (uint32_t r = 0; r < u->peers->size && now - last > ASLEEP; r++)
            if (u->heard[r] > 0) u->heard[r] = now;
        hear(u);
        if (now - last < BEAT_MS / 1000.0) continue;
        last = now;
        if (u->peers->rank) send_beat(u, &u->lead);
        look_for_lost(u);
    }
}

/* The address of rank 0's host; of one's own the loopback. False: it has no name here, and is not watched. */
static bool find_lead(rt_pulse *u, const meeting *m)
{
    char own[sizeof m->host] = "";
    struct addrinfo want = { .ai_family = AF_INET, .ai_socktype = SOCK_DGRAM }, *found = NULL;
    u->lead = (struct sockaddr_in){ .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    gethostname(own, sizeof own - 1);
    if (strcmp(own, m->host) != 0) {
        if (getaddrinfo(m->host, NULL, &want, &found) != 0) return false;
        u->lead = *(struct sockaddr_in *)(void *)found->ai_addr;
        freeaddrinfo(found);
    }
    u->lead.sin_port = m->port;
    return m->port != 0;
}

static bool open_socket(rt_pulse *u, meeting *m)
{
    struct sockaddr_in own = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY) };
    socklen_t len = sizeof own;
    u->fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (u->fd < 0 || bind(u->fd, (const struct sockaddr *)&own, sizeof own) != 0 ||
        getsockname(u->fd, (struct sockaddr *)&own, &len) != 0)
        return false;
    m->port = own.sin_port;
    return true;
}

int rt_pulse_begin(rt_pulse **out, rt_peers *p, rt_pulse_lost_fn lost, void *ctx, rt_err *e)
{
    meeting m = { 0 };
    rt_pulse *u = rt_alloc_zero(sizeof *u, 16);
    if (u) {
        *u = (rt_pulse){ .peers = p, .lost = lost, .ctx = ctx, .fd = -1, .stop = { -1, -1 } };
        u->heard = rt_alloc_zero(p->size * sizeof *u->heard, 16);
    }
    bool ready = u && u->heard && open_socket(u, &m) && pipe(u->stop) == 0;
    gethostname(m.host, sizeof m.host - 1);
    if (!ready || getrandom(&m.key, sizeof m.key, 0) != (ssize_t)sizeof m.key) m.port = 0;
    p->give(p->ctx, &m, sizeof m);
    *out = NULL;
    if (!u || !u->heard) {
        rt_pulse_end(u);
        return rt_no_memory(e, "the pulse of ranks");
    }
    u->key = m.key;
    /* Without a socket or a name nobody is watched, and the run is as good. */
    if (!ready || !m.port || (p->rank && !find_lead(u, &m)) || pthread_create(&u->thread, NULL, live, u) != 0) {
        rt_pulse_end(u);
        return RT_OK;
    }
    *out = u;
    return RT_OK;
}

static void close_fd(int fd)
{
    if (fd >= 0) close(fd);
}

void rt_pulse_end(rt_pulse *u)
{
    if (!u) return;
    close_fd(u->stop[1]);
    if (u->thread) pthread_join(u->thread, NULL);
    close_fd(u->stop[0]);
    close_fd(u->fd);
    rt_free(u->heard);
    rt_free(u);
}
