/* job_supply.c - a thread that asks a server for what a run is about to read. See rt_supply in job/run/run.h.
 *
 * It reads the rows of the run from the first on, in batches of the cache's size, ahead of the loop, and asks for those
 * of which something is missing: so what a cache holds in the end does not depend on when server, network or run were
 * stopped. It shares the open cache with the run: what it commits is found there.
 *
 * A server that has gone is given up after wait=SECONDS of its name; but while nobody waits for its answers that costs
 * nothing, and it is asked again when somebody does. */
#include "job/job_cache_internal.h"

#include "base/json.h"
#include "base/sys.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

static const double recently = 0.5;         /* seconds in which whoever waits says so again */
enum { LOOK_AGAIN_NANOSECONDS = 20000000 }; /* of who waits */

struct rt_asking {
    const char *name, *cache;
    const rt_job_env *env;
    rt_cache_work w;
    rt_job_cache_opts o;
    rt_job_cached out;
    bool open, started; /* the work; the thread */
    pthread_t thread;
    /* Below the lock. */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool quit, go, running;
    double waited;    /* clock of when the run waited last */
    bool told;        /* it failed while the run waited */
    uint64_t rows;    /* of training, for the next pass */
    const char *what; /* it does */
    rt_err failed;
};

/* ---- the thread ---- */

static int watch(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    rt_asking *a = ctx;
    (void)done;
    (void)total;
    pthread_mutex_lock(&a->lock);
    a->what = what;
    const bool quit = a->quit;
    pthread_mutex_unlock(&a->lock);
    return quit;
}

static bool somebody_waits(const rt_asking *a) { return rt_now() - a->waited < recently; }

static bool hurry(const rt_cache_work *w)
{
    rt_asking *a = w->tell.ctx;
    pthread_mutex_lock(&a->lock);
    const bool waits = somebody_waits(a);
    pthread_mutex_unlock(&a->lock);
    return waits;
}

/* Every row from the first on; what is there is passed over. */
static int pass(rt_asking *a, uint64_t rows, rt_err *e)
{
    int rc;
    rt_cache_work *w = &a->w;
    const rt_cursor first = { .data = rt_rows_tell(w->rows[0]).data };
    RT_TRY(rt_rows_seek(w->rows[0], &first, e));
    rt_cache_remote_forget(w);
    w->most[0] = rows;
    RT_TRY(rt_cache_work_ask_all(w, true, e));
out:
    return rc;
}

static void *work(void *arg)
{
    rt_asking *a = arg;
    pthread_mutex_lock(&a->lock);
    while (!a->quit) {
        if (!a->go) {
            pthread_cond_wait(&a->changed, &a->lock);
            continue;
        }
        const uint64_t rows = a->rows;
        rt_err e = { 0 };
        a->go = false;
        a->running = true;
        pthread_mutex_unlock(&a->lock);
        const int rc = pass(a, rows, &e);
        pthread_mutex_lock(&a->lock);
        a->running = false;
        a->told = somebody_waits(a);
        if (rc < 0 && rc != RT_INTERRUPTED) a->failed = e;
        pthread_cond_broadcast(&a->changed);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

/* ---- what it works with: the inputs of the run and its open cache ---- */

/* What the cache is of and keeps is said by itself; the server's name must not say otherwise. */
static int take_cache(rt_asking *a, rt_err *e)
{
    int rc = RT_OK;
    rt_cache_work *w = &a->w;
    const json_t *about = rt_cache_about(w->cache);
    const char *keep = json_string_value(json_object_get(about, "keep"));
    const rt_cache_section *sections;
    if (w->keep && strcmp(w->keep, keep) != 0)
        RT_TRY(rt_fail(e, RT_INVALID, "--teacher %s: %s stores %s; leave keep= out", a->name, a->cache, keep));
    w->keep = keep;
    w->settings.temperature = json_number_value(json_object_get(about, "temperature"));
    w->settings.seed = (uint64_t)json_integer_value(json_object_get(about, "seed"));
    w->B = (uint32_t)json_integer_value(json_object_get(about, "batch"));
    if (w->B < 1 || w->B > INT32_MAX / w->r.seq_len)
        RT_TRY(rt_fail(e, RT_FORMAT, "%s/cache.json has a \"batch\" that is out of range; make the cache again",
                       a->cache));
    w->section_count = rt_cache_sections(w->cache, &sections);
    memcpy(w->sections, sections, w->section_count * sizeof *sections);
    w->act = sections->dtype;
    w->remote->about = json_pack("{s:O}", "teacher", json_object_get(about, "teacher"));
    if (!w->remote->about) RT_TRY(rt_no_memory(e, "a teacher"));
out:
    return rc;
}

static int open_work(rt_asking *a, const rt_run_reads *reads, rt_err *e)
{
    int rc;
    rt_cache_work *w = &a->w;
    rt_inputs *in = reads->in;
    *w = (rt_cache_work){ .o = &a->o, .out = &a->out, .settings = *reads->settings, .there = true, .in = in };
    w->tell = (rt_job_tell){ .progress = watch, .ctx = a };
    a->open = true;
    w->settings.teacher = (rt_setting_list){ { a->name }, 1 };
    w->settings.out = a->cache;
    rt_settings_forget(&w->settings, RT_SETTING_ID_device); /* the run's own */
    w->r = *reads->resolved;
    w->teacher = in->teacher;
    w->pair = &in->pair;
    w->cache = rt_cache_source_cache(in->cache);
    w->plan = *rt_cache_source_keeps(in->cache);
    RT_TRY(rt_cache_remote_begin(w, e));
    RT_TRY(take_cache(a, e));
    RT_TRY(rt_cache_work_mask(w, e));
    RT_TRY(rt_cache_work_room(w, e));
    RT_TRY(rt_inputs_rows_again(&w->rows[0], in, reads->settings, reads->resolved, false, e));
    w->held = reads->held;
    w->most[1] = reads->held_rows;
    w->epochs = reads->epochs;
    w->skip = reads->first;
    w->hurry = hurry;
    for (uint32_t i = 0; i < w->section_count; i++) RT_TRY(rt_cache_writer_new(&w->writer[i], w->cache, i, e));
out:
    return rc;
}

/* The cache and the inputs are the run's. */
static void close_work(rt_asking *a)
{
    rt_cache_work *w = &a->w;
    if (!a->open) return;
    for (int i = 0; i < RT_CACHE_SECTIONS; i++) rt_cache_writer_free(w->writer[i]);
    rt_cache_work_free(w);
    rt_cache_remote_free(w);
    rt_rows_close(w->rows[0]);
    rt_arena_free(&w->arena);
    a->open = false;
}

/* ---- for the run ---- */

static void end(void *ctx)
{
    rt_asking *a = ctx;
    pthread_mutex_lock(&a->lock);
    a->quit = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (a->started) pthread_join(a->thread, NULL);
    a->started = false;
    close_work(a);
}

/* Only who answers is looked at here; a pass follows, or one more. */
static int begin(void *ctx, const rt_run_reads *reads, rt_err *e)
{
    int rc = RT_OK;
    rt_asking *a = ctx;
    if (!a->open) {
        RT_TRY(open_work(a, reads, e));
        RT_TRY(rt_cache_remote_meet(&a->w, e));
    }
    pthread_mutex_lock(&a->lock);
    a->rows = reads->rows;
    a->go = true;
    pthread_cond_broadcast(&a->changed);
    pthread_mutex_unlock(&a->lock);
    if (!a->started && pthread_create(&a->thread, NULL, work, a) != 0)
        RT_TRY(rt_fail(e, RT_NOMEM, "no thread could be started to ask the server"));
    a->started = true;
out:
    if (rc < 0) end(a);
    return rc;
}

static int wait_for_more(void *ctx, const rt_watch *w, rt_err *e)
{
    rt_asking *a = ctx;
    struct timespec until;
    int rc = RT_OK;
    pthread_mutex_lock(&a->lock);
    const char *what = a->what ? a->what : "waiting for the teacher's answer";
    a->waited = rt_now();
    if (a->failed.status == RT_NETWORK && !a->told) { /* nobody waited then */
        a->failed = (rt_err){ 0 };
        a->go = true;
        pthread_cond_broadcast(&a->changed);
    }
    if (a->failed.status < 0)
        rc = rt_fail(e, a->failed.status, "%s", a->failed.text);
    else if (!a->running && !a->go)
        rc = 1;
    else {
        clock_gettime(CLOCK_REALTIME, &until);
        until.tv_nsec += LOOK_AGAIN_NANOSECONDS;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&a->changed, &a->lock, &until);
    }
    pthread_mutex_unlock(&a->lock);
    if (rc != RT_OK) return rc;
    return rt_watch_step(w, strcmp(what, "running the teacher") ? what : "waiting for the teacher's answer", 0, 0, e);
}

int rt_asking_new(rt_asking **out, const char *name, const char *cache, const rt_job_env *env, rt_err *e)
{
    rt_asking *a = rt_alloc_zero(sizeof *a, _Alignof(rt_asking));
    *out = a;
    if (!a) return rt_no_memory(e, "a teacher");
    a->name = name;
    a->cache = cache;
    a->env = env;
    a->o = (rt_job_cache_opts){ .fill = true, .again = "--resume asks for the rest", .env = env };
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->changed, NULL);
    return RT_OK;
}

void rt_asking_free(rt_asking *a)
{
    if (!a) return;
    end(a);
    pthread_cond_destroy(&a->changed);
    pthread_mutex_destroy(&a->lock);
    rt_free(a);
}

rt_supply rt_asking_supply(rt_asking *a)
{
    return (rt_supply){ .name = a->name, .begin = begin, .wait = wait_for_more, .end = end, .ctx = a };
}
