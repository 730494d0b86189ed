/* test_cuda_comm.c - what ranks do together on the CUDA backend, on a stand-in for the driver and NCCL, with processes
 * as ranks: which way is taken and that all take the same, sums in the order of the ranks through the captured graph
 * and through the host, what comes before what, and what becomes of a rank that hangs or of any call that fails. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "cuda_case.h"
#include "process_peers.h"

#include <stdio.h>

enum { ROWS = 37, COLS = 1024, ELEMS = ROWS * COLS };

/* a and b are computed and added up over ranks, a with the fault; then something reads both. */
typedef struct sums {
    rt_dev *d;
    rt_space *s;
    rt_plan *p;
    rt_exec *exec;
    rt_view in, a, b, out, fault;
    rt_view x, own, w; /* x is added up by slices, twice into own; then w is gathered by slices */
} sums;

/* Slices that are not even; the last rank has none. */
enum { SLICED = 9001 };
static rt_slice slice_of(uint32_t rank, uint32_t ranks)
{
    uint32_t first = (uint32_t)((uint64_t)SLICED * rank * rank / ((uint64_t)(ranks - 1) * (ranks - 1)));
    uint32_t end = (uint32_t)((uint64_t)SLICED * (rank + 1) * (rank + 1) / ((uint64_t)(ranks - 1) * (ranks - 1)));
    if (rank + 1 == ranks) first = end = SLICED;
    return (rt_slice){ first, end - first, SLICED };
}

static int record_sums(sums *c, const rt_peers *p, uint32_t ranks, bool apart, rt_err *e)
{
    int rc;
    RT_TRY(rt_space_new(&c->s, e));
    rt_view *const all[] = { &c->in, &c->a, &c->b, &c->out };
    for (int i = 0; i < 4; i++) *all[i] = rt_space_buf(c->s, RT_CLASS_STATE, RT_DTYPE_F32, ROWS, COLS, "x");
    c->fault = rt_space_buf(c->s, RT_CLASS_STATE, RT_DTYPE_U32, 1, 4, "fault");
    RT_TRY(rt_plan_new(&c->p, c->s, "sums", &rt_policy_f32, e));
    rt_emit_add(c->p, c->a, c->in, c->in);
    if (apart) rt_emit_all_reduce(c->p, c->a, c->fault, ranks);
    rt_emit_add(c->p, c->b, c->in, c->in);
    if (!apart) rt_emit_all_reduce(c->p, c->a, c->fault, ranks);
    rt_emit_all_reduce(c->p, c->b, RT_NONE, ranks);
    rt_emit_add(c->p, c->out, c->a, c->b);
    if (!p) return rc;
    const rt_slice mine = slice_of(p->rank, p->size);
    c->x = rt_space_buf(c->s, RT_CLASS_STATE, RT_DTYPE_F32, 1, SLICED, "x");
    c->w = rt_space_buf(c->s, RT_CLASS_STATE, RT_DTYPE_BF16, 1, SLICED, "w");
    if (mine.count) c->own = rt_space_buf(c->s, RT_CLASS_STATE, RT_DTYPE_F32, 1, mine.count, "own");
    for (int i = 0; i < 2; i++) rt_emit_reduce_scatter(c->p, c->own, c->x, mine, ranks);
    rt_emit_all_gather(c->p, c->w, mine, ranks);
out:
    return rc;
}

static void close_sums(sums *c)
{
    rt_exec_free(c->exec);
    rt_plan_free(c->p);
    rt_space_free(c->s);
    if (c->d) c->d->api->close(c->d);
}

static int seal_sums(sums *c, const rt_peers *p, int index, const rt_dev_opts *o, bool apart, rt_err *e)
{
    int rc;
    *c = (sums){ 0 };
    RT_TRY(record_sums(c, p, p ? p->size : 1, apart, e));
    RT_TRY(cuda()->open(&c->d, index, o, e));
    if (p) RT_TRY(cuda()->meet(c->d, p, e));
    rt_seal_opts seal = { .peers = (rt_peers *)(uintptr_t)p };
    RT_TRY(rt_exec_seal(&c->exec, c->d, (const rt_plan *const *)&c->p, 1, &seal, e));
out:
    return rc;
}

/* Of all sizes, so that another order is another sum. */
static float value(uint32_t rank, uint32_t i)
{
    uint32_t z = (i + 1) * 2654435761u + rank * 40503u;
    z ^= z >> 15;
    return ((float)(z % 65536) - 32768.0f) * (float)(1u << z % 20);
}

/* ---- ranks ---- */

enum { NOBODY = -1 };
typedef struct world {
    int gpus, lacks, absent,
        fails; /* lacks: the rank without NCCL; absent: that never comes; fails: that cannot join */
    int fault; /* the first rank with one */
    bool sync;
    const char *says; /* of the device, when it is sealed, or of the refusal */
} world;
static const world PLAIN = { .gpus = PROCESS_RANKS, .lacks = NOBODY, .absent = NOBODY, .fault = NOBODY };

static int check_sum(sums *c, rt_view v, uint32_t offset, uint32_t ranks, rt_err *e)
{
    static float got[ELEMS];
    int rc = rt_exec_read(c->exec, v, got, sizeof got, e);
    for (uint32_t i = 0; i < ELEMS && rc >= 0; i++) {
        float want = value(0, i + offset);
        for (uint32_t r = 1; r < ranks; r++) want += value(r, i + offset);
        if (memcmp(&got[i], &want, sizeof want) != 0)
            rc = rt_fail(e, RT_INTERNAL, "element %u is %a, expected %a", i, (double)got[i], (double)want);
    }
    return rc;
}

/* What has to be in own, and in w, after the program has run once; own began with 0. */
static int check_slices(sums *c, const rt_peers *p, uint32_t turn, rt_err *e)
{
    int rc = RT_OK;
    static float own[SLICED];
    static uint16_t w[SLICED];
    const rt_slice mine = slice_of(p->rank, p->size);
    if (mine.count) RT_TRY(rt_exec_read(c->exec, c->own, own, mine.count * sizeof *own, e));
    RT_TRY(rt_exec_read(c->exec, c->w, w, sizeof w, e));
    for (uint32_t i = 0; i < mine.count; i++) {
        float want = value(0, mine.first + i + turn);
        for (uint32_t r = 1; r < p->size; r++) want += value(r, mine.first + i + turn);
        want += want;
        if (memcmp(&own[i], &want, sizeof want) != 0)
            RT_TRY(
                rt_fail(e, RT_INTERNAL, "element %u of the slice is %a, expected %a", i, (double)own[i], (double)want));
    }
    for (uint32_t r = 0; r < p->size; r++)
        for (uint32_t i = slice_of(r, p->size).first; i < slice_of(r, p->size).first + slice_of(r, p->size).count; i++)
            if (w[i] != (uint16_t)(i * 31 + r + turn))
                RT_TRY(rt_fail(e, RT_INTERNAL, "element %u was not gathered", i));
out:
    return rc;
}

static int write_slices(sums *c, const rt_peers *p, uint32_t turn, rt_err *e)
{
    int rc;
    static float x[SLICED];
    static uint16_t w[SLICED];
    for (uint32_t i = 0; i < SLICED; i++) x[i] = value(p->rank, i + turn);
    for (uint32_t i = 0; i < SLICED; i++) w[i] = (uint16_t)(i * 31 + p->rank + turn);
    RT_TRY(rt_exec_write(c->exec, c->x, x, sizeof x, e));
    const rt_slice mine = slice_of(p->rank, p->size);
    memset(x, 0, sizeof x);
    if (mine.count) RT_TRY(rt_exec_write(c->exec, c->own, x, mine.count * sizeof *x, e));
    RT_TRY(rt_exec_write(c->exec, c->w, w, sizeof w, e));
out:
    return rc;
}

static int run_sums(sums *c, const rt_peers *p, const world *w, rt_err *e)
{
    int rc;
    static float x[ELEMS];
    rt_ticket t;
    rt_fault fault = { 0 };
    if (w->fault != NOBODY && (int)p->rank >= w->fault) fault = (rt_fault){ 1, 7, 40 + p->rank, 9 };
    for (uint32_t turn = 0; turn < 2; turn++) { /* again, with other numbers */
        for (uint32_t i = 0; i < ELEMS; i++) x[i] = value(p->rank, i + turn);
        RT_TRY(rt_exec_write(c->exec, c->a, x, sizeof x, e));
        for (uint32_t i = 0; i < ELEMS; i++) x[i] = value(p->rank, i + turn + 99);
        RT_TRY(rt_exec_write(c->exec, c->b, x, sizeof x, e));
        RT_TRY(rt_exec_write(c->exec, c->fault, &fault, sizeof fault, e));
        RT_TRY(write_slices(c, p, turn, e));
        RT_TRY(rt_exec_run(c->exec, 0, &t, e));
        RT_TRY(rt_exec_wait(c->exec, t, e));
        RT_TRY(check_slices(c, p, turn, e));
        RT_TRY(check_sum(c, c->a, turn, p->size, e));
        RT_TRY(check_sum(c, c->b, turn + 99, p->size, e));
        rt_fault got;
        RT_TRY(rt_exec_read(c->exec, c->fault, &got, sizeof got, e));
        uint32_t set = w->fault == NOBODY ? 0 : 1 + (uint32_t)w->fault;
        if (got.set != set || (set && got.site != 40 + (uint32_t)w->fault))
            RT_TRY(rt_fail(e, RT_INTERNAL, "the fault is %u at %u, expected %u", got.set, got.site, set));
    }
out:
    return rc;
}

/* Everything that a rank does in its life; whoever is absent makes the others wait. */
static void live_as_rank(rt_peers *p, void *ctx, char why[400])
{
    sums c = { 0 };
    rt_err e = { 0 };
    rt_dev_info info;
    const world *w = ctx;
    const char *own[] = { w->absent == NOBODY ? "A=b" : "RETORT_NCCL_SECONDS=3",
                          (int)p->rank == w->lacks ? "RETORT_NCCL=none" : "A=b", NULL };
    const rt_dev_option sync = { "sync", w->sync ? "on" : NULL };
    const rt_dev_opts o = { .option = &sync, .count = 1, .env = own };
    *s = FRESH;
    s->devices = w->gpus;
    int rc = seal_sums(&c, p, (int)p->rank % w->gpus, &o, true, &e);
    if (rc >= 0) rc = cuda()->info(c.d, &info, &e);
    if (rc >= 0 && !strstr(info.ranks, w->says)) rc = rt_fail(&e, RT_INTERNAL, "it says: %s", info.ranks);
    if (rc >= 0 && info.late_loads) rc = rt_fail(&e, RT_INTERNAL, "something was loaded late");
    s->nccl_absent = (int)p->rank == w->absent;
    if (rc >= 0 && w->absent == NOBODY)
        rc = run_sums(&c, p, w, &e);
    else if (rc >= 0) {
        rt_ticket t;
        rc = rt_exec_run(c.exec, 0, &t, &e);
        if (rc >= 0) rc = rt_exec_wait(c.exec, t, &e);
        if ((int)p->rank == w->absent) /* nothing tells it */
            rc = rc < 0 ? rc : RT_OK;
        else if (rc != RT_DEVICE || !strstr(e.text, "a sum over ranks on Stand-in") || s->nccl_aborts != 1)
            rc = rt_fail(&e, RT_INTERNAL, "nothing was said of a sum that never ends");
        else
            rc = RT_OK;
        p->torn = true;
    }
    close_sums(&c);
    if (rc >= 0 && s->live) rc = rt_fail(&e, RT_INTERNAL, "%d objects are left", (int)s->live);
    if (rc < 0) snprintf(why, 400, "%.399s", e.text);
}

static void live(uint32_t ranks, world w)
{
    const char *why = process_world_run(ranks, live_as_rank, &w);
    if (why) fail_msg("%s", why);
}

static void nccl_adds_up_in_the_graph(void **state)
{
    (void)state;
    world w = PLAIN;
    w.says = "sums over ranks by NCCL 2.28.9, Ring";
    live(2, w);
    live(8, w);
    w.fault = 1;
    live(3, w);
    w.sync = true;
    live(3, w);
}

/* Where one rank has no NCCL, or two share a GPU, all go through the host; the sums are the same. */
static void the_host_adds_up_elsewhere(void **state)
{
    (void)state;
    world w = PLAIN;
    w.lacks = 2;
    w.says = "go through the host, where no kernel hides them: rank 2 on its host has no NCCL: RETORT_NCCL=none";
    live(3, w);
    w = PLAIN;
    w.gpus = 2;
    w.fault = 2;
    w.says = "ranks 0 and 2 on its host share a GPU";
    live(4, w);
    w.sync = true;
    live(4, w);
}

/* A rank that never comes: the others give the communicator up, and say so. */
static void a_sum_that_never_ends_is_given_up(void **state)
{
    (void)state;
    world w = PLAIN;
    w.absent = 1;
    w.says = "by NCCL";
    live(3, w);
}

/* ---- order ---- */

typedef struct seen {
    uint64_t before[64]; /* of each kernel or collective, those that are done before it, as bits */
    char what[64];
    const void *stream[64], *main_stream;
    uint64_t at_end;
    uint32_t n;
} seen;

typedef struct done_by {
    const void *who;
    uint64_t done;
} done_by;

static done_by *clock_for(done_by *list, uint32_t n, const void *who)
{
    uint32_t i = 0;
    while (i + 1 < n && list[i].who && list[i].who != who) i++;
    list[i].who = who;
    return &list[i];
}

static seen look(void)
{
    seen o = { 0 };
    done_by stream[4] = { 0 }, event[32] = { 0 };
    for (uint32_t i = 0; i < s->steps; i++) {
        const standin_step *t = &s->step[i];
        done_by *now = clock_for(stream, 4, t->stream);
        if (t->what == 'r') {
            if (!o.main_stream) o.main_stream = t->stream;
            clock_for(event, 32, t->event)->done = now->done;
        } else if (t->what == 'w')
            now->done |= clock_for(event, 32, t->event)->done;
        else if (t->what != 'h') {
            o.before[o.n] = now->done;
            o.what[o.n] = t->what;
            o.stream[o.n] = t->stream;
            now->done |= 1ull << o.n++;
        }
    }
    o.at_end = clock_for(stream, 4, o.main_stream)->done;
    return o;
}

/* The k-th kernel of the compute queue, or collective. */
static uint32_t find(const seen *o, char what, uint32_t k)
{
    for (uint32_t i = 0; i < o->n; i++)
        if (o->what[i] == what && (what == 'n' || o->stream[i] == o->main_stream) && k-- == 0) return i;
    fail_msg("there is no such launch");
    return 0;
}

static bool comes_before(const seen *o, uint32_t a, uint32_t b) { return o->before[b] >> a & 1; }

static const char *const alone[] = { "RETORT_NCCL_ALONE=1", NULL };
static const rt_dev_opts ALONE = { .env = alone };

static void sums_wait_for_what_they_add_up_and_for_nothing_else(void **state)
{
    (void)state;
    sums c;
    rt_err e = { 0 };
    if (seal_sums(&c, NULL, 0, &ALONE, true, &e) < 0) fail_msg("%s", e.text);
    const char *warm = strstr(s->log, "ncclAllReduce"), *capture = strstr(s->log, "cuStreamBeginCapture_v2");
    assert_true(warm && capture && warm < capture); /* each collective has run before one is captured */
    assert_true(strstr(s->log, "ncclAllGather") < capture);
    seen o = look();
    uint32_t a = find(&o, 'k', 0), b = find(&o, 'k', 1), last = find(&o, 'k', 2);
    uint32_t sum_a = find(&o, 'n', 0), sum_b = find(&o, 'n', 2);
    assert_ptr_not_equal(o.stream[sum_a], o.main_stream);
    assert_true(comes_before(&o, a, sum_a) && comes_before(&o, b, sum_b) && comes_before(&o, sum_a, sum_b));
    assert_true(comes_before(&o, sum_a, last) && comes_before(&o, sum_b, last));
    assert_false(comes_before(&o, sum_a, b)); /* b is computed while a is added up */
    assert_true(o.at_end == (1ull << o.n) - 1);
    for (uint32_t i = 0; i < s->steps; i++)
        if (s->step[i].what == 'w') s->step[i].what = 'h'; /* the negative control */
    o = look();
    assert_false(comes_before(&o, a, sum_a));
    close_sums(&c);
    assert_int_equal(s->live, 0);
    /* Neighbours are one group. */
    if (seal_sums(&c, NULL, 0, &ALONE, false, &e) < 0) fail_msg("%s", e.text);
    o = look();
    assert_int_equal(find(&o, 'n', 2), find(&o, 'n', 0) + 2);
    close_sums(&c);
    assert_int_equal(s->live, 0);
}

/* ---- faults ---- */

/* What the communicator says by itself is told by whoever waits. */
static void a_fault_of_the_library_is_told(void **state)
{
    (void)state;
    sums c;
    rt_ticket t;
    rt_err e = { 0 };
    if (seal_sums(&c, NULL, 0, &ALONE, true, &e) < 0) fail_msg("%s", e.text);
    s->nccl_fault = 6;
    for (int i = 0; i < 3000 && !s->nccl_aborts; i++) nanosleep(&(struct timespec){ .tv_nsec = 10000000 }, NULL);
    assert_int_equal(s->nccl_aborts, 1);
    int rc = rt_exec_run(c.exec, 0, &t, &e);
    if (rc >= 0) rc = rt_exec_wait(c.exec, t, &e);
    assert_int_equal(rc, RT_DEVICE);
    assert_non_null(strstr(e.text, "a sum over ranks on Stand-in 0 failed: played result (NCCL result 6"));
    close_sums(&c);
    assert_int_equal(s->live, 0);
}

static void any_call_may_fail(void **state)
{
    static const char *const names[] = { "ncclGetVersion", "ncclGetUniqueId", "ncclCommInitRank", "ncclAllReduce",
                                         "ncclAllGather",  "ncclGroupStart",  "ncclGroupEnd",     "cuMemHostAlloc",
                                         "cuStreamCreate", "cuEventCreate",   "cuEventRecord",    "cuStreamWaitEvent" };
    (void)state;
    uint32_t tried = 0;
    for (size_t k = 0; k < sizeof names / sizeof *names; k++)
        for (int at = 1; at <= 8; at++) {
            sums c = { 0 };
            rt_err e = { 0 };
            *s = FRESH;
            s->fail_name = names[k];
            s->fail_at = at;
            s->fail_result = 3;
            int rc = seal_sums(&c, NULL, 0, &ALONE, true, &e);
            tried += s->fail_name == NULL;
            if (rc >= 0 && s->fail_name == NULL) fail_msg("%s failed and nothing was said", names[k]);
            s->fail_name = NULL;
            close_sums(&c);
            if (s->live) fail_msg("%s failed for the %d. time and %d objects are left", names[k], at, (int)s->live);
        }
    assert_true(tried > 20);
}

/* A library that is too old is not used, and a plan of ranks that never met is none. */
static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    sums c;
    rt_err e = { 0 };
    Dl_info lib;
    char file[600];
    s->nccl_version = 21500;
    assert_true(dladdr((void *)(uintptr_t)s, &lib) != 0);
    snprintf(file, sizeof file, "RETORT_NCCL=%s", lib.dli_fname);
    const rt_dev_opts old = { .env = (const char *const[]){ file, alone[0], NULL } };
    assert_int_equal(seal_sums(&c, NULL, 0, &old, true, &e), RT_INVALID);
    assert_non_null(strstr(e.text, "is NCCL 2.15; 2.18 or newer is needed"));
    close_sums(&c);
    *s = FRESH;
    rt_dev_info info;
    char why[160];
    assert_int_equal(cuda()->probe(NULL, &info, 1, why), 1);
    assert_non_null(strstr(info.ranks, "NCCL 2.28.9"));
    assert_non_null(strstr(info.ranks, "never run on two GPUs"));
    c = (sums){ .d = open_ok(NULL) };
    assert_int_equal(record_sums(&c, NULL, 2, true, &e), RT_OK);
    rt_peers two = { .size = 2 };
    rt_seal_opts o = { .peers = &two };
    assert_int_equal(rt_exec_seal(&c.exec, c.d, (const rt_plan *const *)&c.p, 1, &o, &e), RT_INTERNAL);
    assert_non_null(strstr(e.text, "have not met"));
    close_sums(&c);
    assert_int_equal(s->live, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(nccl_adds_up_in_the_graph, fresh),
        cmocka_unit_test_setup(the_host_adds_up_elsewhere, fresh),
        cmocka_unit_test_setup(a_sum_that_never_ends_is_given_up, fresh),
        cmocka_unit_test_setup(sums_wait_for_what_they_add_up_and_for_nothing_else, fresh),
        cmocka_unit_test_setup(a_fault_of_the_library_is_told, fresh),
        cmocka_unit_test_setup(any_call_may_fail, fresh),
        cmocka_unit_test_setup(what_cannot_be_is_refused, fresh),
    };
    return cmocka_run_group_tests(tests, find_standin, NULL);
}
