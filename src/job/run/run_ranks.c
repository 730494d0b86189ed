/* run_ranks.c - a run of several ranks: what rank 0 tells the others of its programs, and what they do with it.
 *
 * Rank 0 alone has a folder, data and a log. The others open the models by the paths that rank 0 has found, seal the
 * same programs and then follow (train/follow.h). Before a weight is read all of them compare the binary and the kind
 * of device, then programs and models, and what differs is refused with the rank's name. */
#include "job/run/run_internal.h"

#include "base/json.h"
#include "job/prepare/identity.h"
#include "job/run/dump.h"
#include "train/follow.h"

#include <stdio.h>
#include <string.h>

/* What programs follow from, as it lies in memory: the ranks are of one binary, which is looked at first. */
typedef struct opening {
    rt_hash128 binary;
    rt_resolved resolved;
    rt_fit_config chosen;
    double share[RT_TEACHER_GROUPS * RT_TEACHERS_MOST];
    uint32_t groups;
    uint32_t settings; /* bytes of JSON that follow */
} opening;

/* What a rank says to that. */
typedef struct answer {
    int32_t status;
    char backend[16]; /* of its device */
    rt_hash128 programs, models;
    char text[400];
} answer;

int rt_run_check_ranks(const rt_run *r, rt_err *e)
{
    const rt_peers *p = r->opts->peers;
    if (!p) return RT_OK;
    if (p->size > RT_STEP_RANKS)
        return rt_fail(e, RT_INVALID, "%u ranks were started, and a run has at most %d", p->size, RT_STEP_RANKS);
    if (r->resolved.batch < p->size)
        return rt_fail(e, RT_INVALID, "--batch %u is less than one row for each of %u ranks; raise it, or start fewer",
                       r->resolved.batch, p->size);
    if (rt_dump_picks(r->settings))
        return rt_fail(e, RT_INVALID, "--dump-step is of a run with one rank, and there are %u; leave it out", p->size);
    if (rt_inputs_prompted(r->in))
        return rt_fail(e, RT_INVALID, "prompt= is of a run with one rank, and there are %u; leave it out", p->size);
    return RT_OK;
}

/* ---- what is compared ---- */

/* Under whatever name a rank has found it. */
static int put_identity(json_t *list, json_t *one, rt_err *e)
{
    json_object_del(one, "name");
    return json_array_append_new(list, one) == 0 ? RT_OK : rt_no_memory(e, "the identity of a model");
}

static int hash_models(const rt_run *r, rt_hash128 *out, rt_err *e)
{
    int rc;
    json_t *one, *list = json_array();
    char *text = NULL;
    if (!list) RT_TRY(rt_no_memory(e, "the identity of a model"));
    RT_TRY(rt_identity_new(&one, r->in->student, r->pool, e));
    RT_TRY(put_identity(list, one, e));
    if (r->in->teacher) {
        RT_TRY(rt_inputs_teacher_identity(&one, r->in, r->pool, e));
        RT_TRY(put_identity(list, one, e));
    }
    for (uint32_t i = 1; i < r->in->teachers.count; i++) {
        RT_TRY(rt_inputs_other_identity(&one, r->in, i, r->pool, e));
        RT_TRY(put_identity(list, one, e));
    }
    if (!(text = rt_json_dump(list, JSON_SORT_KEYS))) RT_TRY(rt_no_memory(e, "the identity of a model"));
    *out = rt_hash(text, strlen(text));
out:
    rt_free(text);
    json_decref(list);
    return rc;
}

/* The device of this rank, and its programs once it has some, with whatever went wrong before; why: of that. */
static answer answer_of(const rt_run *r, int rc, rt_err *why)
{
    answer a = { 0 };
    if (rc >= 0) snprintf(a.backend, sizeof a.backend, "%s", r->opts->dev->api->name);
    if (rc >= 0 && !r->trainer) return a;
    if (rc >= 0) rc = rt_programs_hash(r->trainer, true, &a.programs, why);
    if (rc >= 0) rc = hash_models(r, &a.models, why);
    a.status = rc < 0 ? rc : RT_OK;
    if (rc < 0) snprintf(a.text, sizeof a.text, "%.399s", why->text);
    return a;
}

static const char *host_of(const rt_peers *p, uint32_t rank) { return p->host ? p->host[rank] : "its host"; }

static int judge(const rt_peers *p, const answer *all, rt_err *e)
{
    for (uint32_t i = 0; i < p->size; i++) {
        const answer *a = &all[i];
        if (a->status < 0 && i == 0) return rt_fail(e, a->status, "%s", a->text);
        if (a->status < 0) return rt_fail(e, a->status, "rank %u on %s: %s", i, host_of(p, i), a->text);
        if (strcmp(a->backend, all[0].backend) != 0)
            return rt_fail(e, RT_INVALID,
                           "rank %u on %s computes on %s, and rank 0 on %s; name what all have (--device), or leave "
                           "that host out",
                           i, host_of(p, i), a->backend, all[0].backend);
        if (!rt_hash_equal(a->models, all[0].models))
            return rt_fail(e, RT_INVALID,
                           "rank %u on %s has another student or teacher under the names that rank 0 has them by; give "
                           "every host the same files",
                           i, host_of(p, i));
        if (!rt_hash_equal(a->programs, all[0].programs))
            return rt_fail(e, RT_INVALID,
                           "rank %u on %s has other programs than rank 0: another CPU or library; name what both have "
                           "(--isa), or leave that host out",
                           i, host_of(p, i));
    }
    return RT_OK;
}

/* The same verdict on every rank. */
static int agree(const rt_run *r, int rc, rt_err *why, rt_err *e)
{
    rt_peers *p = r->opts->peers;
    answer own = answer_of(r, rc, why), *all = rt_alloc(p->size * sizeof *all, 16);
    if (!all) {
        p->torn = true;
        return rt_no_memory(e, "the answers of ranks");
    }
    p->gather(p->ctx, &own, all, sizeof own);
    rc = judge(p, all, e);
    rt_free(all);
    return rc;
}

/* Whether all have the binary and a device, of one kind; then the devices find one another. */
static int meet(const rt_run *r, int rc, rt_err *why, rt_err *e)
{
    rt_dev *d = r->opts->dev;
    RT_TRY(agree(r, rc, why, e));
    if (d->api->meet) RT_TRY(d->api->meet(d, r->opts->peers, e));
out:
    return rc;
}

/* Nobody is told: all have come to the same. */
static void drop_trainer(rt_run *r)
{
    if (r->trainer) r->trainer->peers = NULL;
    rt_trainer_free(r->trainer);
    r->trainer = NULL;
}

/* ---- rank 0 ---- */

static int tell_opening(rt_run *r, rt_err *e)
{
    int rc;
    rt_peers *p = r->opts->peers;
    const rt_teachers *t = &r->in->teachers;
    opening o = { .resolved = r->resolved, .chosen = r->fit.chosen, .groups = t->group_count };
    json_t *j = rt_settings_to_json(&r->found);
    char *text = j ? rt_json_dump(j, JSON_COMPACT) : NULL;
    memcpy(o.share, t->share, sizeof o.share);
    if (!text) RT_TRY(rt_no_memory(e, "the settings of ranks"));
    RT_TRY(rt_file_hash("/proc/self/exe", &o.binary, e));
    o.settings = (uint32_t)strlen(text) + 1;
    rt_word_say(p, &(rt_word){ .kind = RT_WORD_OPEN });
    p->give(p->ctx, &o, sizeof o);
    p->give(p->ctx, text, o.settings);
out:
    rt_free(text);
    json_decref(j);
    return rc;
}

static int note_ranks(rt_run *r, rt_err *e)
{
    rt_dev_info info;
    const rt_peers *p = r->opts->peers;
    uint32_t hosts = 0;
    for (uint32_t i = 0, k; p->host && i < p->size; i++) {
        for (k = 0; strcmp(p->host[k], p->host[i]) != 0;) k++;
        hosts += k == i;
    }
    if (r->opts->control_of) return RT_OK;
    int rc = r->opts->dev->api->info(r->opts->dev, &info, e);
    if (rc >= 0 && info.ranks[0]) rt_run_note(r, "%s", info.ranks);
    if (rc >= 0)
        rt_run_note(r,
                    "%u ranks on %u host%s: each has %u rows of a step or fewer, and gradients are added up in their "
                    "order",
                    p->size, hosts, hosts == 1 ? "" : "s", rt_rank_rows(r->resolved.batch, p->size));
    return rc;
}

int rt_run_lead(rt_run *r, const rt_step_opts *o, rt_seal_opts *seal, rt_err *e)
{
    int rc;
    rt_err why = { 0 };
    RT_TRY(tell_opening(r, e));
    seal->peers = r->opts->peers;
    RT_TRY(meet(r, RT_OK, NULL, e));
    rc = agree(r, rt_trainer_open(&r->trainer, r->opts->dev, o, seal, &why), &why, e);
    if (rc < 0) drop_trainer(r);
    RT_TRY(rc);
    RT_TRY(note_ranks(r, e));
out:
    return rc;
}

/* ---- the others ---- */

typedef struct follower {
    const rt_follow_opts *o;
    rt_dev *dev;
    rt_run run; /* as much of it as programs need */
    rt_run_opts opts;
    rt_settings settings;
} follower;

static void close_programs(follower *f)
{
    rt_run *r = &f->run;
    drop_trainer(r);
    rt_inputs_close(r->in);
    rt_pool_free(r->pool);
    rt_arena_free(&r->arena);
    *r = (rt_run){ 0 };
}

static int take_settings(follower *f, const char *text, rt_err *e)
{
    rt_run *r = &f->run;
    f->settings = (rt_settings){ 0 }; /* a control has fewer than its run */
    json_t *j = rt_json_load(text, strlen(text), 0, NULL);
    int rc = j ? rt_settings_from_record(&f->settings, j, &r->arena, e) : rt_no_memory(e, "the settings of rank 0");
    json_decref(j);
    return rc;
}

static int open_device(follower *f, const opening *o, const char *text, rt_err *e)
{
    int rc;
    rt_hash128 own;
    rt_run *r = &f->run;
    const rt_follow_opts *given = f->o;
    f->opts = (rt_run_opts){ .env = given->env, .dev = f->dev, .peers = given->peers, .now = given->now };
    r->opts = &f->opts;
    RT_TRY(rt_file_hash("/proc/self/exe", &own, e));
    if (!rt_hash_equal(own, o->binary))
        RT_TRY(rt_fail(e, RT_INVALID, "this is another retort than rank 0's; copy one binary to every host"));
    RT_TRY(take_settings(f, text, e));
    if (!f->dev) RT_TRY(given->device(given->ctx, &f->settings, &f->dev, e));
    f->opts.dev = f->dev;
out:
    return rc;
}

static int open_programs(follower *f, const opening *o, rt_err *e)
{
    int rc;
    rt_run *r = &f->run;
    const rt_follow_opts *given = f->o;
    r->settings = &f->settings;
    r->resolved = o->resolved;
    r->fit.chosen = o->chosen;
    RT_TRY(rt_pool_new(&r->pool, 1, e));
    const rt_inputs_opts in = { .env = given->env, .pool = r->pool, .now = given->now };
    RT_TRY(rt_inputs_open(&r->in, r->settings, &in, e));
    memcpy(r->in->teachers.share, o->share, sizeof o->share);
    r->in->teachers.group_count = o->groups;
    RT_TRY(rt_run_read_models(r, e));
    rt_step_opts step = rt_run_step_opts(r, &o->chosen);
    rt_seal_opts seal = { .peers = given->peers };
    RT_TRY(rt_trainer_open(&r->trainer, f->dev, &step, &seal, e));
    if (r->in->cache) r->trainer->source = rt_cache_source_of(r->in->cache);
out:
    return rc;
}

/* What rank 0 says of its programs, and an answer. A refusal is rank 0's to report. */
static int hear_opening(follower *f, rt_err *e)
{
    rt_err why = { 0 }, verdict = { 0 };
    rt_peers *p = f->o->peers;
    opening *o = rt_alloc(sizeof *o, 16);
    char *text = NULL;
    int rc = RT_OK;
    if (!o) RT_TRY(rt_no_memory(e, "the programs of rank 0"));
    p->give(p->ctx, o, sizeof *o);
    if (!(text = rt_alloc(o->settings, 1))) RT_TRY(rt_no_memory(e, "the programs of rank 0"));
    p->give(p->ctx, text, o->settings);
    rc = open_device(f, o, text, &why);
    rc = meet(&f->run, rc, &why, &verdict);
    if (rc >= 0) {
        rc = open_programs(f, o, &why);
        rc = agree(&f->run, rc, &why, &verdict);
    }
    if (rc < 0) close_programs(f);
    rc = RT_OK;
out:
    rt_free(text);
    rt_free(o);
    return rc;
}

int rt_run_follow(const rt_follow_opts *o, rt_err *e)
{
    int rc = RT_OK;
    rt_word w = { 0 };
    follower *f = rt_alloc_zero(sizeof *f, 16);
    if (!f) RT_TRY(rt_no_memory(e, "a rank"));
    f->o = o;
    rt_json_init();
    for (rt_word_hear(o->peers, &w); w.kind != RT_WORD_END; rt_word_hear(o->peers, &w)) {
        rt_run *r = &f->run;
        switch (w.kind) {
        case RT_WORD_OPEN: RT_TRY(hear_opening(f, e)); break;
        case RT_WORD_CLOSE: close_programs(f); break;
        case RT_WORD_LOAD: RT_TRY(rt_inputs_load(r->in, r->trainer, w.seed, e)); break;
        default: RT_TRY(rt_trainer_follow(r->trainer, &w, e));
        }
    }
out:
    if (f) close_programs(f);
    rt_free(f);
    return rc;
}
