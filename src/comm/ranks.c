/* ranks.c - libmpi opened, and the peers over it. See ranks.h. */
#include "comm/ranks.h"

#include "base/mem.h"
#include "comm/mpi_table.h"
#include "comm/pulse.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOST = 64, VERSION = 8192 /* as the standard allows */ };

struct rt_ranks {
    rt_peers peers;
    rt_dynlib lib;
    rt_mpi_table table;
    const rt_mpi_calls *calls;
    char version[80];
    char (*host)[HOST]; /* (size) */
    const char **host_list;
    uint32_t here, place;
    rt_pulse *pulse; /* null: nobody is watched */
    rt_ranks_lost_fn lost;
};

/* ---- the library ---- */

static const rt_dynlib_symbol symbols[] = {
#define X(name) { "MPI_" #name, offsetof(rt_mpi_table, name), false },
    RT_MPI_LIST(X)
#undef X
        { "ompi_mpi_comm_world", offsetof(rt_mpi_table, world), true },
    { "ompi_mpi_byte", offsetof(rt_mpi_table, byte), true },
};

/* The names under which Open MPI, and MPICH and its kin, are found. */
static const char *const open_mpi[] = { "libmpi.so.40", NULL };
static const char *const mpich[] = { "libmpi.so.12", "libmpich.so.12", NULL };

static void name_version(rt_ranks *r)
{
    static char text[VERSION];
    int len = 0;
    (*(int (**)(char *, int *))(uintptr_t)&r->table.Get_library_version)(text, &len);
    snprintf(r->version, sizeof r->version, "%.*s", (int)strcspn(text, ",\n"), text);
}

static int open_one(rt_ranks *r, const char *name, rt_err *e)
{
    int rc;
    RT_TRY(rt_dynlib_open(&r->lib, name, e));
    RT_TRY(rt_dynlib_bind(&r->lib, &r->table, symbols, sizeof symbols / sizeof *symbols, e));
    r->calls = r->table.world && r->table.byte ? &rt_mpi_open_mpi : &rt_mpi_mpich;
    name_version(r);
out:
    if (rc < 0) rt_dynlib_close(&r->lib);
    return rc;
}

static bool open_of(rt_ranks *r, const char *const *names, rt_err *e)
{
    for (; *names; names++)
        if (open_one(r, *names, e) >= 0) return true;
    return false;
}

/* by: the launcher, which says whose library it has to be; null: whichever is here. */
static int open_library(rt_ranks *r, const char *by, rt_err *e)
{
    rt_err why = { 0 }, other = { 0 };
    bool is_open = by && strcmp(by, "Open MPI") == 0, is_mpich = by && strncmp(by, "MPICH", 5) == 0;
    if (!is_mpich && open_of(r, open_mpi, &why)) return RT_OK;
    if (!is_open && open_of(r, mpich, is_mpich ? &why : &other)) return RT_OK;
    if (open_of(r, is_open ? mpich : open_mpi, &other))
        return rt_fail(e, RT_NO_BACKEND,
                       "the ranks were started by the launcher of %s, and the MPI that is here is %s: two different "
                       "MPIs; start them with the mpirun of the one, or install the other's library",
                       by, r->version);
    return rt_fail(e, RT_NO_BACKEND, "%s%s%s libmpi cannot be opened: %.200s; install Open MPI (Debian: libopenmpi3)",
                   by ? "the ranks were started by " : "", by ? by : "", by ? ", and" : "", why.text);
}

void rt_ranks_probe(char *text, uint32_t size)
{
    rt_ranks r = { 0 };
    rt_err e = { 0 };
    if (open_library(&r, NULL, &e) < 0)
        snprintf(text, size, "not found: %s; one process runs all the same", e.text);
    else
        snprintf(text, size, "%s (%s)", r.version, r.lib.path);
    rt_dynlib_close(&r.lib);
}

/* ---- peers ---- */

/* MPI's own handler of errors has said what is wrong and ended the process; where an MPI comes back with one all the
 * same, nothing is right any more. */
static void check(const rt_ranks *r, int failed)
{
    enum { EXIT_DEVICE = 8 };
    if (failed) r->calls->abort(&r->table, EXIT_DEVICE);
}

static void give_from(void *ctx, uint32_t rank, void *data, uint64_t bytes)
{
    enum { MOST = 1 << 30 };
    rt_ranks *r = ctx;
    for (uint64_t done = 0; done < bytes;) {
        uint64_t n = bytes - done < MOST ? bytes - done : MOST;
        check(r, r->calls->give(&r->table, rank, (char *)data + done, (int)n));
        done += n;
    }
}

static void give(void *ctx, void *data, uint64_t bytes) { give_from(ctx, 0, data, bytes); }

/* Parts are those of a piece of a tensor: far below what an int counts. */
static void exchange(void *ctx, const void *send, void *recv, uint64_t bytes)
{
    rt_ranks *r = ctx;
    check(r, bytes > INT_MAX || r->calls->exchange(&r->table, send, recv, (int)bytes));
}

static void gather(void *ctx, const void *part, void *all, uint64_t bytes)
{
    rt_ranks *r = ctx;
    check(r, bytes > INT_MAX || r->calls->gather(&r->table, part, all, (int)bytes));
}

static int learn_hosts(rt_ranks *r, rt_err *e)
{
    char own[HOST] = "";
    gethostname(own, sizeof own - 1);
    r->host = rt_alloc_zero(r->peers.size * sizeof *r->host, 16);
    r->host_list = rt_alloc_zero(r->peers.size * sizeof *r->host_list, 16);
    if (!r->host || !r->host_list) return rt_no_memory(e, "the names of hosts");
    gather(r, own, r->host, sizeof own);
    for (uint32_t i = 0; i < r->peers.size; i++) {
        r->host_list[i] = r->host[i];
        r->here += strcmp(r->host[i], own) == 0;
        r->place += i < r->peers.rank && strcmp(r->host[i], own) == 0;
    }
    r->peers.host = r->host_list;
    return RT_OK;
}

static void tell_lost(void *ctx, uint32_t rank)
{
    char text[200];
    const rt_ranks *r = ctx;
    snprintf(
        text, sizeof text,
        "rank %u on %s: nothing was heard of it for %d s, so all ranks are ended; the last checkpoint is good, and "
        "--resume goes on from it",
        rank, r->host[rank], RT_PULSE_SECONDS);
    r->lost(text);
}

static void end_all(void *ctx, const char *sentence) { ((const rt_ranks *)ctx)->lost(sentence); }

static int join(rt_ranks *r, const rt_launch *l, rt_err *e)
{
    if (r->calls->init(&r->table, &r->peers.rank, &r->peers.size))
        return rt_fail(e, RT_DEVICE, "%s cannot begin; what it says stands above", r->version);
    if (r->peers.size != l->size) {
        uint32_t seen = r->peers.size;
        r->calls->finish(&r->table);
        return rt_fail(e, RT_NO_BACKEND,
                       "%s has started %u ranks and %s sees %u: two different MPIs; start them with the mpirun of the "
                       "one that is here (%s)",
                       l->by, l->size, r->version, seen, r->lib.path);
    }
    r->peers.ctx = r;
    r->peers.give = give;
    r->peers.give_from = give_from;
    r->peers.exchange = exchange;
    r->peers.gather = gather;
    r->peers.lost = end_all;
    int rc = learn_hosts(r, e);
    return rc < 0 ? rc : rt_pulse_begin(&r->pulse, &r->peers, tell_lost, r, e);
}

static void forget(rt_ranks *r)
{
    if (!r) return;
    rt_dynlib_close(&r->lib);
    rt_free(r->host);
    rt_free(r->host_list);
    rt_free(r);
}

int rt_ranks_open(rt_ranks **out, const char *const *env, rt_ranks_lost_fn lost, rt_err *e)
{
    int rc;
    rt_launch l;
    rt_ranks *r = NULL;
    *out = NULL;
    RT_TRY(rt_launch_read(&l, env, e));
    if (l.size < 2) return RT_OK;
    r = rt_alloc_zero(sizeof *r, 16);
    if (!r) RT_TRY(rt_no_memory(e, "ranks"));
    r->lost = lost;
    RT_TRY(open_library(r, l.by, e));
    RT_TRY(join(r, &l, e));
    *out = r;
    r = NULL;
out:
    forget(r);
    return rc;
}

rt_peers *rt_ranks_peers(rt_ranks *r) { return r ? &r->peers : NULL; }
uint32_t rt_ranks_here(const rt_ranks *r) { return r ? r->here : 1; }
uint32_t rt_ranks_place(const rt_ranks *r) { return r ? r->place : 0; }
const char *rt_ranks_library(const rt_ranks *r) { return r->version; }

void rt_ranks_close(rt_ranks *r, int exit_code)
{
    if (!r) return;
    rt_pulse_end(r->pulse);
    if (r->peers.torn) r->calls->abort(&r->table, exit_code);
    r->calls->finish(&r->table);
    forget(r);
}
