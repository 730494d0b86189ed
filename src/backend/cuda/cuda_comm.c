/* cuda_comm.c - what ranks do together: by NCCL in the captured graphs, or through the host.
 *
 * Owns: which of the two it is, settled once, before a program is sealed and by all ranks together; the communicator,
 * and the thread that ends it when a collective hangs. Leaves the ops to cuda_comm_ops.c. */
#include "backend/cuda/cuda_ranks.h"

#include "base/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
    WARM = 1 << 20,     /* f32 of the sum that is tried before any is captured: every channel has a part */
    HANG_SECONDS = 40,  /* that one collective may take, among ranks that all make the same step */
    GRACE_SECONDS = 10, /* that this process has to end by itself when a collective was given up */
    LOOK_MS = 200
};

/* ---- the watch: a collective that never ends leaves the GPU, and whoever waits for it, waiting ---- */

static double hang_seconds(const rt_cuda_dev *d)
{
    const char *text = d->hang_seconds;
    double s = text ? strtod(text, NULL) : 0;
    return s > 0 ? s : HANG_SECONDS;
}

/* fault: of the library; else it has waited so long. */
static void give_up(rt_cuda_ranks *r, int fault, double waited)
{
    rt_err why = { 0 };
    char what[200];
    rt_nccl_comm comm = atomic_exchange(&r->comm, NULL);
    snprintf(what, sizeof what, "rank %u%s%s: a sum over ranks on %s %s", r->rank,
             r->peers && r->peers->host ? " on " : "", r->peers && r->peers->host ? r->peers->host[r->rank] : "",
             r->d->name, fault ? "failed" : "does not end");
    if (fault)
        rt_cuda_nccl_status(&r->nccl, fault, what, &why);
    else
        rt_fail(&why, RT_DEVICE, "%s: it has taken %.0f s, so another rank, its GPU or the network hangs", what,
                waited);
    rt_cuda_aside_fail(r->d, &why);
    if (comm) r->nccl.abort(comm); /* the kernel that waits ends, and so does whoever waits for it */
}

/* Between two looks; true: it is to stop. */
static bool sleep_until_stopped(rt_cuda_ranks *r)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += LOOK_MS * 1000000l;
    if (until.tv_nsec >= 1000000000l) until = (struct timespec){ until.tv_sec + 1, until.tv_nsec - 1000000000l };
    pthread_mutex_lock(&r->lock);
    if (!r->stop) pthread_cond_timedwait(&r->wake, &r->lock, &until);
    bool stop = r->stop;
    pthread_mutex_unlock(&r->lock);
    return stop;
}

static int fault_of(rt_cuda_ranks *r)
{
    int fault = RT_NCCL_SUCCESS;
    rt_nccl_comm comm = atomic_load(&r->comm);
    if (!comm || r->nccl.fault(comm, &fault) != RT_NCCL_SUCCESS || fault == RT_NCCL_IN_PROGRESS) return 0;
    return fault;
}

static void *watch(void *ranks)
{
    rt_cuda_ranks *r = ranks;
    uint32_t seen = 0;
    bool given_up = false;
    double since = rt_now();
    while (!sleep_until_stopped(r)) {
        const uint32_t now = atomic_load(r->word);
        const double at = rt_now();
        if (now != seen && !given_up) since = at;
        seen = now;
        if (given_up) {
            if (r->peers && r->peers->lost && at - since > GRACE_SECONDS)
                r->peers->lost(r->peers->ctx, r->d->aside_err.text);
            continue;
        }
        const int fault = fault_of(r);
        if (!fault && !(now % 2 && at - since > r->seconds)) continue;
        give_up(r, fault, at - since);
        given_up = true;
        since = at;
    }
    return NULL;
}

static int begin_watch(rt_cuda_ranks *r, rt_err *e)
{
    r->seconds = hang_seconds(r->d);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->wake, NULL);
    if (pthread_create(&r->thread, NULL, watch, r) != 0)
        return rt_fail(e, RT_NOMEM, "the thread that watches the ranks cannot be started");
    r->watched = true;
    return RT_OK;
}

static void end_watch(rt_cuda_ranks *r)
{
    if (!r->watched) return;
    pthread_mutex_lock(&r->lock);
    r->stop = true;
    pthread_cond_signal(&r->wake);
    pthread_mutex_unlock(&r->lock);
    pthread_join(r->thread, NULL);
    pthread_cond_destroy(&r->wake);
    pthread_mutex_destroy(&r->lock);
    r->watched = false;
}

/* ---- who is there ---- */

/* What a rank has for the others to know. */
typedef struct place {
    uint32_t version; /* of NCCL; 0: none */
    char gpu[16];     /* where it is on its host; empty: the driver does not say */
    char why[120];    /* of no NCCL */
} place;

static const char *host_of(const rt_peers *p, uint32_t rank) { return p->host ? p->host[rank] : "its host"; }

/* Why these ranks cannot use NCCL; empty: they can. */
static void object_to(char *out, size_t size, const rt_peers *p, const place *all)
{
    out[0] = 0;
    for (uint32_t i = 0; i < p->size && !out[0]; i++) {
        if (!all[i].version)
            snprintf(out, size, "rank %u on %s has no NCCL: %.100s", i, host_of(p, i), all[i].why);
        else if (all[i].version != all[0].version)
            snprintf(out, size, "rank %u on %s has NCCL %u and rank 0 %u", i, host_of(p, i), all[i].version,
                     all[0].version);
        for (uint32_t k = 0; k < i && !out[0]; k++)
            if (all[i].gpu[0] && strcmp(all[i].gpu, all[k].gpu) == 0 && strcmp(host_of(p, i), host_of(p, k)) == 0)
                snprintf(out, size, "ranks %u and %u on %s share a GPU", k, i, host_of(p, i));
    }
}

static const char *version_text(char out[24], uint32_t version)
{
    snprintf(out, 24, "%u.%u.%u", version / 10000, version / 100 % 100, version % 100);
    return out;
}

/* The library, unless it is asked not to be used. Why there is none: in e. */
static int open_nccl(rt_cuda_nccl *n, const char *asked, const char *const *env, rt_err *e)
{
    *n = (rt_cuda_nccl){ 0 };
    if (asked && strcmp(asked, "none") == 0) return rt_fail(e, RT_NOT_FOUND, "RETORT_NCCL=none");
    return rt_cuda_nccl_open(n, asked, env, e);
}

/* ---- a communicator ---- */

static int nccl_ok(const rt_cuda_ranks *r, int result, const char *what, rt_err *e)
{
    return rt_cuda_nccl_status(&r->nccl, result, what, e);
}

/* Rank 0 makes the name of it, and all join. Of several algorithms a ring is the one whose sums are always taken in one
 * order; whoever names another has it in the program's hash. */
static int join(rt_cuda_ranks *r, rt_err *e)
{
    int rc;
    struct {
        int result;
        rt_nccl_id id;
    } begun = { 0 };
    rt_nccl_comm comm = NULL;
    if (setenv("NCCL_ALGO", r->algo, 1) != 0) RT_TRY(rt_no_memory(e, "NCCL_ALGO"));
    if (r->rank == 0) begun.result = r->nccl.id_new(&begun.id);
    if (r->peers) r->peers->give(r->peers->ctx, &begun, sizeof begun);
    RT_TRY(nccl_ok(r, begun.result, "beginning a communicator", e));
    RT_TRY(nccl_ok(r, r->nccl.join(&comm, (int)r->size, begun.id, (int)r->rank), "joining the other GPUs", e));
    atomic_store(&r->comm, comm);
    RT_TRY(rt_cuda_status(&r->d->cu, r->d->cu.stream_new(&r->stream, RT_CU_STREAM_NON_BLOCKING), e, "making a stream"));
out:
    return rc;
}

/* Each collective once: whatever the library loads, allocates or connects at their first use, it does now. */
static int warm(rt_cuda_ranks *r, rt_err *e)
{
    int rc;
    rt_cuda_dev *d = r->d;
    rt_cu_ptr x = 0;
    rt_part *part = rt_alloc(r->size * sizeof *part, 16);
    if (!part) return rt_no_memory(e, "the slices of ranks");
    const uint64_t bytes = WARM * sizeof(float) + (r->size + 1) * sizeof(rt_fault);
    RT_TRY(rt_cuda_status(&d->cu, d->cu.mem_alloc(&x, bytes), e, "allocating what is tried"));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.fill_bytes(x, 0, bytes, r->stream), e, "clearing what is tried"));
    rt_cuda_collective c[3] = { { .kind = RT_OP_ALL_REDUCE, .n = WARM },
                                { .kind = RT_OP_REDUCE_SCATTER },
                                { .kind = RT_OP_ALL_GATHER } };
    for (uint32_t i = 0; i < r->size; i++) part[i] = (rt_part){ i * (WARM / r->size), WARM / r->size };
    for (int i = 0; i < 3; i++) {
        c[i].x = x;
        c[i].size = sizeof(float);
        c[i].part = part;
        c[i].own = x + part[r->rank].first * sizeof(float);
    }
    c[0].fault = x + WARM * sizeof(float);
    c[0].all = c[0].fault + sizeof(rt_fault);
    for (int i = 0; i < 3; i++) RT_TRY(rt_cuda_collectives_enqueue(d, &c[i], 1, r->stream, e));
    RT_TRY(rt_cuda_status(&d->cu, d->cu.stream_wait(r->stream), e, "adding up over ranks"));
    RT_TRY(rt_cuda_aside_status(d, e));
out:
    if (x) d->cu.mem_free(x);
    rt_free(part);
    return rc;
}

static int open_comm(rt_cuda_ranks *r, rt_err *e)
{
    int rc;
    void *host = NULL;
    RT_TRY(rt_cuda_status(&r->d->cu, r->d->cu.host_alloc(&host, sizeof *r->word, 0), e, "pinning a word"));
    r->word = host;
    atomic_store(r->word, 1); /* joining may hang too */
    RT_TRY(begin_watch(r, e));
    RT_TRY(join(r, e));
    RT_TRY(warm(r, e));
    atomic_store(r->word, 0);
out:
    return rc;
}

static int open_stage(rt_cuda_ranks *r, rt_err *e)
{
    int rc;
    void *host = NULL;
    const uint64_t half = (RT_CUDA_COMM_PIECE + (uint64_t)r->size) * sizeof(float);
    RT_TRY(rt_cuda_status(&r->d->cu, r->d->cu.host_alloc(&host, 2 * half + r->size * sizeof *r->faults, 0), e,
                          "pinning host memory for sums over ranks"));
    r->send = host;
    r->recv = r->send + half / sizeof(float);
    r->faults = (rt_fault *)(void *)(r->recv + half / sizeof(float));
out:
    return rc;
}

/* Whether every rank has come so far: the same answer on all. */
static int agree(const rt_peers *p, int own, rt_err *e)
{
    struct {
        int rc;
        char text[300];
    } mine = { own, "" }, *all = rt_alloc(p->size * sizeof *all, 16);
    if (!all) return rt_no_memory(e, "the answers of ranks");
    if (own < 0 && e) snprintf(mine.text, sizeof mine.text, "%.299s", e->text);
    p->gather(p->ctx, &mine, all, sizeof mine);
    int rc = RT_OK;
    for (uint32_t i = 0; i < p->size && rc >= 0; i++)
        if (all[i].rc < 0) rc = rt_fail(e, all[i].rc, "rank %u on %s: %s", i, host_of(p, i), all[i].text);
    rt_free(all);
    return rc;
}

static rt_cuda_ranks *ranks_new(rt_cuda_dev *d, const rt_peers *p)
{
    rt_cuda_ranks *r = rt_alloc_zero(sizeof *r, 16);
    if (!r) return NULL;
    *r = (rt_cuda_ranks){ .d = d, .peers = p, .size = p ? p->size : 1, .rank = p ? p->rank : 0 };
    r->algo = d->nccl_algo ? d->nccl_algo : "Ring";
    return r;
}

/* Its memory is not that of another program. */
static uint64_t free_now(const rt_cuda_dev *d)
{
    size_t left = 0, total = 0;
    return d->cu.memory_info(&left, &total) == RT_CU_SUCCESS ? left : 0;
}

int rt_cuda_meet(rt_dev *dev, const rt_peers *p, rt_err *e)
{
    rt_cuda_dev *d = (rt_cuda_dev *)dev;
    int rc = RT_OK;
    rt_err why = { 0 };
    place own = { 0 }, *all = NULL;
    char version[24];
    if (d->ranks || p->size < 2) return RT_OK;
    const uint64_t before = rt_cuda_enter(d, e) < 0 ? 0 : free_now(d);
    rt_cuda_ranks *r = d->ranks = ranks_new(d, p);
    all = rt_alloc(p->size * sizeof *all, 16);
    if (!r || !all) RT_TRY(rt_no_memory(e, "the other ranks"));
    if (open_nccl(&r->nccl, d->nccl_asked, d->env, &why) >= 0) own.version = r->nccl.version;
    snprintf(own.why, sizeof own.why, "%.119s", why.text);
    memcpy(own.gpu, d->pci, sizeof own.gpu);
    p->gather(p->ctx, &own, all, sizeof own);
    object_to(r->text, sizeof r->text, p, all);
    const bool staged = r->text[0];
    rc = staged ? open_stage(r, e) : open_comm(r, e);
    RT_TRY(agree(p, rc, e));
    if (staged) {
        char reason[200];
        snprintf(reason, sizeof reason, "%.199s", r->text);
        snprintf(r->text, sizeof r->text, "sums over ranks go through the host, where no kernel hides them: %s",
                 reason);
    } else
        snprintf(r->text, sizeof r->text, "sums over ranks by NCCL %s, %s", version_text(version, r->nccl.version),
                 r->algo);
    const uint64_t after = free_now(d);
    if (before > after) d->context_bytes += before - after;
out:
    rt_free(all);
    return rc;
}

int rt_cuda_meet_alone(rt_cuda_dev *d, rt_err *e)
{
    int rc;
    rt_cuda_ranks *r = d->ranks = ranks_new(d, NULL);
    if (!r) return rt_no_memory(e, "a communicator");
    RT_TRY(open_nccl(&r->nccl, d->nccl_asked, d->env, e));
    RT_TRY(open_comm(r, e));
out:
    return rc;
}

void rt_cuda_ranks_close(rt_cuda_dev *d)
{
    rt_cuda_ranks *r = d->ranks;
    if (!r) return;
    end_watch(r);
    rt_nccl_comm comm = atomic_load(&r->comm);
    if (comm && r->peers && r->peers->torn)
        r->nccl.abort(comm); /* what is not whole any more waits for nobody */
    else if (comm)
        r->nccl.leave(comm);
    if (r->stream) d->cu.stream_free(r->stream);
    if (r->send) d->cu.host_free(r->send);
    if (r->word) d->cu.host_free(r->word);
    rt_cuda_nccl_close(&r->nccl);
    rt_free(r);
    d->ranks = NULL;
}

rt_cu_stream rt_cuda_ranks_stream(const rt_cuda_dev *d) { return d->ranks->stream; }
bool rt_cuda_ranks_staged(const rt_cuda_dev *d) { return d->ranks && !d->ranks->stream; }
const char *rt_cuda_ranks_text(const rt_cuda_dev *d) { return d->ranks ? d->ranks->text : ""; }

void rt_cuda_ranks_identity(const rt_cuda_dev *d, rt_str *out)
{
    if (d->ranks && d->ranks->stream) rt_str_printf(out, "; NCCL %u %s", d->ranks->nccl.version, d->ranks->algo);
}

void rt_cuda_ranks_probe(const rt_cuda_options *o, char *out, size_t size)
{
    rt_cuda_nccl n;
    rt_err why = { 0 };
    char version[24];
    if (open_nccl(&n, rt_dev_env(o->env, "RETORT_NCCL"), o->env, &why) < 0)
        snprintf(out, size, "no NCCL, so sums over ranks go through the host: %.150s", why.text);
    else
        snprintf(out, size, "NCCL %s (%.150s) for several ranks; never run on two GPUs",
                 version_text(version, n.version), n.lib.path);
    rt_cuda_nccl_close(&n);
}
