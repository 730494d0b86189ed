/* run_seal.c - the programs of what was chosen, with memory behind them; and what happens when there is not enough.
 *
 * Owns: refusing a run that cannot fit, with its plan and what would; and going down to the next smaller fit when the
 * device refuses memory that its own figures had promised. What the user has fixed is never changed: then there is no
 * smaller one. Nothing of a refused run is left in OUT. */
#include "job/run/run_internal.h"

#include "job/run/run_cost.h"

enum { REFUSED_SHARE = 16 };

static int open_chosen(rt_run *r, bool dry, rt_err *e)
{
    rt_step_opts o = rt_run_step_opts(r, &r->fit.chosen);
    rt_seal_opts seal = { .memory_limit = r->fit.ask.limit, .dry = dry };
    int rc = r->opts->peers && !dry ? rt_run_lead(r, &o, &seal, e)
                                    : rt_trainer_open(&r->trainer, r->opts->dev, &o, &seal, e);
    if (rc >= 0) r->trainer->watch = &r->watch;
    if (rc >= 0 && r->in->cache) r->trainer->source = rt_run_source(r);
    if (rc >= 0) r->trainer->step_watch = &r->step_watch;
    return rc;
}

/* The page that `retort plan` has, without times, of what was chosen. */
static int show_plan(rt_run *r, rt_err *e)
{
    int rc;
    rt_run_cost cost;
    rt_str text = { 0 };
    if (!r->events.refused) return RT_OK;
    RT_TRY(open_chosen(r, true, e));
    RT_TRY(rt_run_cost_new(&cost, r, e));
    RT_TRY(rt_run_cost_text(&cost, r, false, &text, e));
    r->events.refused(r->events.ctx, text.data);
out:
    rt_trainer_free(r->trainer);
    r->trainer = NULL;
    rt_str_free(&text);
    return rc;
}

static int refuse_host(const rt_fit *f, rt_err *e)
{
    char need[32], room[32];
    return rt_fail(e, RT_NOMEM,
                   "the teacher's layers need %s of host memory, and %s is available; use --teacher-memory disk "
                   "or auto",
                   rt_format_bytes(need, f->host), rt_format_bytes(room, f->ask.host_limit));
}

static int refuse(rt_run *r, rt_err *e)
{
    static const char *const gives[] = { [RT_FIT_FREE] = "the device can give",
                                         [RT_FIT_GIVEN] = "--memory-limit is",
                                         [RT_FIT_REFUSED] = "the device gives no more than" };
    int rc;
    const rt_fit *f = &r->fit;
    rt_str smallest = { 0 }, offers = { 0 };
    char need[32], limit[32];
    RT_TRY(show_plan(r, e));
    if (rt_fit_lacks_host(f)) return refuse_host(f, e);
    rt_fit_chosen(&smallest, f);
    rt_fit_offers(&offers, f);
    rc = rt_fail(e, RT_NOMEM, "the run allocates %s%s%s, and %s %s; what fits: %s", rt_format_bytes(need, f->need),
                 smallest.len ? " even with " : "", smallest.len ? smallest.data : "", gives[f->ask.limit_is],
                 rt_format_bytes(limit, f->ask.limit), offers.data ? offers.data : "");
out:
    rt_str_free(&smallest);
    rt_str_free(&offers);
    return rc;
}

static void tell(const rt_run *r, uint64_t refused, const rt_err *why)
{
    char was[32], now[32];
    rt_str flags = { 0 };
    rt_fit_chosen(&flags, &r->fit);
    rt_run_note(r, "the device refused the %s of this plan (%.150s); now %s%s%s", rt_format_bytes(was, refused),
                why->text, rt_format_bytes(now, r->fit.need), flags.len ? " with " : "", flags.len ? flags.data : "");
    rt_str_free(&flags);
}

/* After the device has refused what was chosen, because of `why`: the next smaller. */
static int choose_smaller(rt_run *r, const rt_err *why, rt_err *e)
{
    int rc;
    rt_dev_info info;
    rt_fit_ask ask = r->fit.ask;
    uint64_t refused = r->fit.need;
    r->fit.refused = true;
    RT_TRY(show_plan(r, e));
    RT_TRY(r->opts->dev->api->info(r->opts->dev, &info, e));
    ask.limit = rt_fit_budget(info.memory_free);
    /* What it says is free is not: less than was refused, and so much less that a handful of trials come to the end. */
    uint64_t less = refused - refused / REFUSED_SHARE - 1;
    if (ask.limit > less) ask.limit = less;
    ask.limit_is = RT_FIT_REFUSED;
    if (ask.memory_free && r->fit.chosen.memory == RT_TEACHER_HOST)
        ask.host_limit = 0; /* it may be the host that has refused to pin it */
    RT_TRY(rt_run_choose_fit(r, &ask, e));
    if (r->fit.fits) tell(r, refused, why);
out:
    return rc;
}

int rt_run_seal(rt_run *r, rt_err *e)
{
    int rc;
    if (r->opts->dry) return open_chosen(r, true, e);
    while (r->fit.fits) {
        rt_err why = { 0 };
        rc = open_chosen(r, false, &why);
        if (rc != RT_NOMEM) {
            if (e) *e = why;
            return rc;
        }
        RT_TRY(choose_smaller(r, &why, e));
    }
    return refuse(r, e);
out:
    return rc;
}

/* Once, before the first step: what is slower than it could be, whatever the figures of others say. */
void rt_run_tell_plain(const rt_run *r)
{
    rt_str text = { 0 };
    if (r->opts->control_of) return; /* it has the shapes of its run */
    rt_exec_plain(r->trainer->x, &text);
    if (text.len && !text.failed) rt_run_note(r, "done by plain kernels, which are slower: %s", text.data);
    rt_str_free(&text);
}

/* ---- what the device chose by timing, kept with the run ---- */

/* Whoever resumes the run gets the same choices, and the same bits, wherever the device keeps them for other runs. */
int rt_run_choices_read(rt_run *r, rt_err *e)
{
    rt_dev *d = r->opts->dev;
    return r->opts->resume && d->api->choices_read ? d->api->choices_read(d, r->choices_path, e) : RT_OK;
}

int rt_run_choices_keep(rt_run *r, rt_err *e)
{
    int rc;
    rt_dev *d = r->opts->dev;
    rt_dev_info info;
    RT_TRY(d->api->info(d, &info, e));
    if (*info.tuning && !r->opts->control_of) rt_run_note(r, "%s", info.tuning);
    if (!r->temporary && d->api->choices_write) RT_TRY(d->api->choices_write(d, r->choices_path, e));
out:
    return rc;
}
