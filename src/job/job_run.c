/* job_run.c - a run from its settings: what may be asked of it, its device, its ranks, and what it has sealed. The run
 * itself is run.h. */
#include "job/job_cache_internal.h"

#include "base/json.h"
#include "base/sys.h"
#include "comm/ranks.h"
#include "teacher/remote/remote.h"
#include "train/follow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int rt_job_run_check(const rt_settings *s, const rt_job_run_opts *o, rt_err *e)
{
    if (o->override && !o->resume) return rt_fail(e, RT_USAGE, "--override needs --resume");
    if (o->smoke && o->resume) return rt_fail(e, RT_USAGE, "--smoke and --resume exclude one another; give one");
    if (o->kind == RT_JOB_PLAN && o->resume) return rt_fail(e, RT_USAGE, "a plan is of a new run; leave resume out");
    if (o->kind == RT_JOB_DISTILL && !o->resume && !s->teacher.count)
        return rt_fail(e, RT_USAGE, "retort distill needs --teacher; retort train learns without one");
    for (int i = 0; o->kind == RT_JOB_TRAIN && i < RT_SETTING_COUNT_ALL; i++)
        if (rt_setting_rests_on((rt_setting_id)i, RT_SETTING_ID_teacher) && rt_settings_asks(s, (rt_setting_id)i))
            return rt_fail(e, RT_INVALID, "retort train has no teacher; leave %s out, or use retort distill",
                           rt_setting_table[i].flag);
    return RT_OK;
}

void rt_job_teacher_share(const rt_inputs *in, uint32_t teacher, rt_str *out) { rt_inputs_shares(in, teacher, out); }

/* CPU threads of a rank, unless they are given: its share of a host that it has with others. */
static void share_threads(const rt_ranks *r, rt_settings *s)
{
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    uint32_t here = rt_ranks_here(r), own = rt_cpu_count(), share = online > 0 ? (uint32_t)online / here : 1;
    if (here < 2 || s->given[RT_SETTING_ID_threads]) return;
    if (share < 1) share = 1;
    RT_SETTINGS_PUT(s, threads, own < share ? own : share);
}

/* With the device's own default where nothing is said: a run times what it will launch for days, a plan times nothing
 * that it is not told to, and a resumed run has its record. */
static rt_settings for_device(const rt_settings *s, const rt_job_run_opts *o)
{
    rt_settings d = *s;
    if (!o->resume && !d.given[RT_SETTING_ID_tune])
        RT_SETTINGS_PUT(&d, tune, o->kind == RT_JOB_PLAN ? "known" : rt_setting_table[RT_SETTING_ID_tune].def);
    share_threads(o->ranks, &d);
    return d;
}

/* ---- a teacher that is a server ---- */

/* What it will say is asked into a cache, and the run reads that. The cache lies beside the run, not in it: what was
 * paid for outlives a run that is thrown away, and serves the next. A run that is resumed, verified or evaluated knows
 * the cache alone. */

static int progress(void *ctx, const char *what, uint64_t done, uint64_t total)
{
    const rt_run_events *v = ctx;
    if (v && v->progress) v->progress(v->ctx, what, done, total);
    return v && v->stop && v->stop(v->ctx);
}

static void tell(const rt_job_run_opts *o, const char *text)
{
    if (o->events && o->events->note) o->events->note(o->events->ctx, text);
}

/* "OUT.teacher", unless the teacher's name says another. */
static int place_of(char **out, const rt_remote_spec *t, const rt_settings *s, rt_arena *a, rt_err *e)
{
    if (!t->cache && (!s->out || !*s->out))
        return rt_fail(e, RT_USAGE, "--out is missing; give a directory for the run and its model");
    size_t n = t->cache ? 0 : strlen(s->out);
    while (n > 1 && s->out[n - 1] == '/') n--;
    *out = t->cache ? rt_arena_strdup(a, t->cache) : rt_arena_printf(a, "%.*s.teacher", (int)n, s->out);
    return *out ? RT_OK : rt_no_memory(e, "a path");
}

static int check_server(const rt_remote_spec *t, const rt_settings *s, const rt_job_run_opts *o, const char *place,
                        rt_err *e)
{
    const char *d = s->given[RT_SETTING_ID_divergence] ? s->divergence : "forward-kl";
    if (t->keep && strncmp(t->keep, "draws", 5) == 0 && strcmp(d, "forward-kl") != 0)
        return rt_fail(e, RT_INVALID,
                       "--divergence %s: draws serve forward-kl alone; ask for keep=topk:64 or keep=hidden", d);
    if (o->smoke && !rt_cache_is(place))
        return rt_fail(e, RT_INVALID,
                       "--smoke asks a server nothing, and %s is no cache yet; make it with retort cache --teacher %s",
                       place, t->url);
    return o->kind == RT_JOB_DISTILL && !o->smoke ? rt_run_check_out(s->out, e) : RT_OK;
}

/* The cache is made where there is none, or looked at whether it is what is asked for; it is filled while the run goes
 * on. */
static int begin_cache(const rt_settings *s, const rt_remote_spec *t, const rt_job_run_opts *o, const char *place,
                       rt_err *e)
{
    int rc;
    rt_job_cached made = { 0 };
    rt_settings c = *s;
    rt_settings_forget(&c, RT_SETTING_ID_device);
    rt_settings_forget(&c, RT_SETTING_ID_seed); /* of the run's order; a cache serves any */
    if (t->keep && strcmp(t->keep, "hidden") == 0) rt_settings_forget(&c, RT_SETTING_ID_temperature); /* serve any */
    RT_SETTINGS_PUT(&c, out, place);
    const rt_job_cache_opts co = { .settings = &c,
                                   .fill = rt_cache_is(place),
                                   .begin = true,
                                   .env = o->env,
                                   .progress = progress,
                                   .ctx = (void *)(uintptr_t)o->events };
    RT_TRY(rt_job_cache(&made, &co, e));
    for (uint32_t i = 0; i < made.notes.count; i++) tell(o, made.notes.text[i]);
out:
    rt_job_cached_free(&made);
    return rc;
}

/* Who asks it while the run goes on. A name with a password in it is not kept. */
static int make_supply(rt_job_run *j, const rt_job_run_opts *o, const char *name, const char *url, const char *place,
                       rt_err *e)
{
    int rc;
    RT_TRY(rt_asking_new(&j->asking, name, place, o->env, e));
    j->supply = rt_asking_supply(j->asking);
    j->supply.url = url;
    if (strchr(url, '@')) j->supply.name = NULL;
    j->opts.supply = &j->supply;
out:
    return rc;
}

/* Whoever is asked row by row is asked by one process. */
static int refuse_ranks(const rt_job_run_opts *o, const char *url, rt_err *e)
{
    if (!o->ranks) return RT_OK;
    return rt_fail(
        e, RT_INVALID,
        "--teacher %s: a server is asked by a run of one rank; fill a cache first (retort cache --teacher URL) "
        "and give that as the teacher",
        url);
}

/* Of a run that is resumed and whose teacher is not given: the server that it had. Its cache is in the record. */
static int take_server_of(rt_job_run *j, const rt_job_run_opts *o, rt_err *e)
{
    int rc = RT_OK;
    char *name, *place = NULL;
    rt_remote_spec t;
    RT_TRY(rt_run_server(&name, j->settings.out, &j->arena, e));
    if (!name) goto out;
    RT_TRY(rt_remote_spec_parse(&t, name, &j->arena, e));
    RT_TRY(refuse_ranks(o, t.url, e));
    RT_TRY(place_of(&place, &t, &j->settings, &j->arena, e));
    RT_TRY(make_supply(j, o, name, t.url, place, e));
out:
    return rc;
}

static int take_server(rt_job_run *j, const rt_job_run_opts *o, rt_err *e)
{
    int rc = RT_OK;
    rt_remote_spec t;
    rt_settings *s = &j->settings;
    char *place = NULL;
    uint32_t servers = 0;
    for (uint32_t i = 0; i < s->teacher.count; i++) servers += rt_remote_is(s->teacher.text[i]);
    if (o->resume && !s->teacher.count) return take_server_of(j, o, e);
    if (!servers) return RT_OK;
    if (s->teacher.count > 1)
        return rt_fail(e, RT_INVALID,
                       "--teacher %s: a server is the only teacher of a run or none; of several each is computed in "
                       "the step",
                       s->teacher.text[0]);
    RT_TRY(rt_remote_spec_parse(&t, s->teacher.text[0], &j->arena, e));
    RT_TRY(refuse_ranks(o, t.url, e));
    const bool plan = o->kind == RT_JOB_PLAN;
    if (!plan || s->out || t.cache) RT_TRY(place_of(&place, &t, s, &j->arena, e));
    if (!o->resume && !plan) RT_TRY(check_server(&t, s, o, place, e));
    if (plan && !(place && rt_cache_is(place))) {
        RT_TRY(rt_dir_scratch(&j->folder, &j->arena, o->env->scratch, "retort-remote", e));
        place = j->folder;
        RT_TRY(begin_cache(s, &t, o, place, e));
    }
    if (!plan && !o->smoke) {
        if (!o->resume) RT_TRY(begin_cache(s, &t, o, place, e));
        RT_TRY(make_supply(j, o, s->teacher.text[0], t.url, place, e));
    }
    j->opts.unasked = plan;
    s->teacher.text[0] = place;
    rt_settings_forget(s, RT_SETTING_ID_teacher_batch); /* of what was asked, not of the run */
out:
    return rc;
}

/* ---- its device, and what follows when that fails (ladder.h) ---- */

/* --resume goes on with what is on disk, of a run that leaves something there. */
static bool is_resumable(const rt_job_run *j)
{
    const rt_job_run_opts *o = j->asked;
    rt_arena a = { 0 };
    char *path = j->settings.out ? rt_path_join(&a, j->settings.out, "run/settings.json") : NULL;
    bool there = o->kind != RT_JOB_PLAN && !o->smoke && path && rt_path_exists(path);
    rt_arena_free(&a);
    return there;
}

/* What is decided stays: it may hang again while it is closed. */
static void decide(rt_job_run *j, int rc, const rt_err *e)
{
    uint32_t step = j->run ? rt_run_state(j->run)->step : 0;
    if (!j->asked->hung || j->next.wanted || !j->dev) return;
    rt_ladder_decide(&j->next, &j->ladder, j->dev, rc, e, step, is_resumable(j));
}

static void on_hung(void *ctx, double seconds)
{
    rt_job_run *j = ctx;
    rt_err e = { 0 };
    int rc = rt_fail(&e, RT_DEVICE, "it has not answered for %.3g s (--device-timeout)", seconds);
    decide(j, rc, &e);
    rt_err_context(&e, "%s", j->ladder.device);
    rt_job_run_abandon(j);
    j->asked->hung(j->asked->events ? j->asked->events->ctx : NULL, &j->next, rc, &e);
}

/* Until a step has been timed; while programs are made for it, whatever else is said. */
enum { UNTIMED_SECONDS = 600 };

static int open_device(rt_job_run *j, const rt_job_run_opts *o, rt_err *e)
{
    int rc;
    rt_str left_out = { 0 };
    const rt_settings device = for_device(&j->settings, o), *was = NULL;
    if (o->resume) was = rt_job_settings_of_run(&device, &j->arena);
    const rt_settings *s = was ? was : &device;
    RT_TRY(rt_ladder_begin(&j->ladder, s, o->ranks, o->env->environment, e));
    rt_ladder_left_out(&j->ladder, &left_out);
    if (o->ranks && !j->ladder.named) rt_str_append(&left_out, "vulkan"); /* it adds nothing up over ranks */
    if (j->ladder.failed) rt_str_append(&left_out, "");
    if (left_out.failed) RT_TRY(rt_no_memory(e, "the devices that have failed"));
    RT_TRY(rt_job_device_open(&j->dev, s, left_out.data, o->env->environment, j->passed_over, e));
    RT_TRY(rt_ladder_take(&j->ladder, j->dev, e));
    if (o->hung && !o->ranks && !j->ladder.host) {
        rt_dev *d = j->dev;
        j->dev = NULL;
        RT_TRY(rt_dev_watch(&j->dev, d, on_hung, j, e));
        rt_dev_allow(j->dev, UNTIMED_SECONDS);
    }
    j->device = (rt_run_device){ .passed_over = j->passed_over,
                                 .failed = j->ladder.newest,
                                 .asked = s->given[RT_SETTING_ID_on_device_failure] };
    snprintf(j->device.name, sizeof j->device.name, "%s", j->ladder.device);
    if (o->device) o->device(o->events ? o->events->ctx : NULL, j->dev, j->passed_over);
out:
    rt_str_free(&left_out);
    return rc;
}

/* ---- a run ---- */

int rt_job_run_open(rt_job_run *j, const rt_settings *s, const rt_job_run_opts *o, rt_err *e)
{
    int rc;
    rt_json_init();
    rt_json_forget();
    j->asked = o;
    RT_TRY(rt_job_run_check(s, o, e));
    j->settings = *s;
    RT_TRY(take_server(j, o, e));
    RT_TRY(open_device(j, o, e));
    j->opts = (rt_run_opts){ .env = &o->env->hub,
                             .unasked = j->opts.unasked,
                             .supply = j->opts.supply,
                             .events = o->events,
                             .resume = o->resume,
                             .override = o->override,
                             .fit = o->fit,
                             .dry = o->kind == RT_JOB_PLAN,
                             .devices = o->devices,
                             .smoke = o->smoke,
                             .scratch = o->env->scratch,
                             .now = o->env->now,
                             .dev = j->dev,
                             .device = &j->device,
                             .peers = rt_ranks_peers(o->ranks),
                             .version = o->env->version,
                             .build = o->env->build };
    RT_TRY(rt_run_open(&j->run, &j->settings, &j->opts, e));
    j->ladder.begun = true;
    rt_dev_forgive(j->dev);
    if (j->settings.given[RT_SETTING_ID_device_timeout]) rt_dev_allow(j->dev, j->settings.device_timeout);
out:
    if (rc < 0) {
        if (e) decide(j, rc, e);
        rt_job_run_close(j);
    }
    return rc;
}

int rt_job_run_train(rt_job_run *j, rt_run_summary *out, rt_err *e)
{
    int rc = rt_run_train(j->run, out, e);
    if (rc < 0) decide(j, rc, e);
    return rc;
}

void rt_job_run_abandon(rt_job_run *j)
{
    if (j->run) rt_run_abandon(j->run);
}

void rt_job_run_close(rt_job_run *j)
{
    rt_run *r = j->run;
    rt_run_close(r);
    j->run = NULL;
    rt_asking_free(j->asking);
    rt_job_device_close(j->dev);
    j->asking = NULL;
    j->dev = NULL;
    if (j->folder) rt_dir_remove(j->folder);
    j->folder = NULL;
    rt_arena_free(&j->arena);
}

/* ---- its programs ---- */

rt_job_programs rt_job_run_programs(const rt_run *r)
{
    const rt_trainer *t = rt_run_trainer(r);
    const rt_plan *plans[RT_PROGRAM_MOST];
    rt_exec_memory m;
    rt_exec_memory_query(t->x, &m);
    return (rt_job_programs){ .count = rt_step_plan_list(t->plan, plans),
                              .memory = m.total,
                              .activations = m.by_class[RT_CLASS_ACT],
                              .trained = rt_decoder_trained(t->plan->student) };
}

static int check_program(const rt_run *r, uint32_t program, rt_err *e)
{
    const rt_plan *plans[RT_PROGRAM_MOST];
    uint32_t n = rt_step_plan_list(rt_run_trainer(r)->plan, plans);
    return program < n ? RT_OK : rt_fail(e, RT_NOT_FOUND, "there is no program %u; the plan has %u", program, n);
}

int rt_job_run_program(const rt_run *r, uint32_t program, rt_job_program *out, rt_err *e)
{
    int rc = check_program(r, program, e);
    if (rc < 0) return rc;
    const rt_plan *plan = rt_exec_plan(rt_run_trainer(r)->x, program);
    *out = (rt_job_program){ .name = plan->name, .ops = plan->nops };
    for (uint32_t i = 0; i < plan->nops; i++) {
        out->flops += rt_op_flops(plan, &plan->ops[i]);
        out->bytes += rt_op_bytes(plan, &plan->ops[i]);
    }
    return RT_OK;
}

int rt_job_run_program_print(const rt_run *r, uint32_t program, bool json, rt_str *out, rt_err *e)
{
    int rc = check_program(r, program, e);
    return rc < 0 ? rc : rt_exec_print(rt_run_trainer(r)->x, program, json ? RT_PRINT_JSON : RT_PRINT_TEXT, out, e);
}

/* ---- several ranks ---- */

int rt_job_ranks_open(rt_ranks **out, const char *const *environment, rt_job_lost_fn lost, rt_err *e)
{
    return rt_ranks_open(out, environment, lost, e);
}

uint32_t rt_job_ranks_rank(const rt_ranks *r) { return r ? rt_ranks_peers((rt_ranks *)(uintptr_t)r)->rank : 0; }
uint32_t rt_job_ranks_size(const rt_ranks *r) { return r ? rt_ranks_peers((rt_ranks *)(uintptr_t)r)->size : 1; }
bool rt_job_ranks_torn(const rt_ranks *r) { return r && rt_ranks_peers((rt_ranks *)(uintptr_t)r)->torn; }
void rt_job_ranks_probe(char *text, uint32_t size) { rt_ranks_probe(text, size); }

typedef struct place {
    const rt_ranks *ranks;
    const rt_job_env *env;
    rt_dev *dev;
} place;

static int open_of_rank(void *ctx, const rt_settings *s, rt_dev **out, rt_err *e)
{
    place *p = ctx;
    char why[RT_JOB_WHY];
    char name[32];
    rt_settings own = *s;
    const bool named = own.given[RT_SETTING_ID_device] && strcmp(own.device, "auto") != 0;
    share_threads(p->ranks, &own);
    const rt_dev_opts o = { .env = p->env->environment };
    const char *device = rt_device_of_rank(named ? own.device : NULL, &o, rt_ranks_place(p->ranks), name);
    const bool numbered = device == name;
    if (numbered) RT_SETTINGS_PUT(&own, device, name);
    int rc = rt_job_device_open(&p->dev, &own, named || numbered ? NULL : "vulkan", p->env->environment, why, e);
    if (rc >= 0) *out = p->dev;
    return rc;
}

int rt_job_ranks_follow(rt_ranks *r, const rt_job_env *env, rt_err *e)
{
    place p = { .ranks = r, .env = env };
    rt_peers *peers = rt_ranks_peers(r);
    const rt_follow_opts o = { .peers = peers, .env = &env->hub, .now = env->now, .device = open_of_rank, .ctx = &p };
    int rc = rt_run_follow(&o, e);
    if (rc < 0) {
        peers->torn = true;
        rt_err_context(e, "rank %u on %s", peers->rank, peers->host[peers->rank]);
    }
    rt_job_device_close(p.dev);
    return rc;
}

void rt_job_ranks_close(rt_ranks *r, int rc)
{
    rt_peers *p = rt_ranks_peers(r);
    if (p && p->rank == 0 && !p->torn) rt_word_say(p, &(rt_word){ .kind = RT_WORD_END });
    rt_ranks_close(r, rt_status_exit(rc < 0 ? rc : RT_INTERNAL));
}
