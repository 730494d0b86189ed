/* cuda_tune.c - GEMMs by timing: which choices are known, what was timed now, where that is kept.
 *
 * Owns: the choices of this run and those of all runs, each with its file, and the time that timing may take. The run's
 * own win, so that it resumes with the bits that it began with. Every GEMM of a program gets a choice, also where the
 * time was over: the next run then has the same. The file of all runs is read when the first choice is asked for; it is
 * written when programs are prepared and when the device is closed. A file that cannot be read or written costs the
 * time to choose again, never the run: it is told in the sentence that says what was timed. */
#include "backend/cuda/cuda_internal.h"

#include "base/file.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BUDGET = 5 }; /* seconds: a first step within 10 of a 1.5B teacher's run, 15 of a 7B one's */

void rt_cuda_tune_begin(rt_cuda_dev *d, const rt_cuda_options *o)
{
    const char *cache = rt_dev_env(o->env, "XDG_CACHE_HOME"), *home = rt_dev_env(o->env, "HOME");
    rt_cuda_tune *t = &d->tune;
    int n = 0;
    t->mode = (rt_cuda_tuning)o->tune;
    t->most = t->mode == RT_CUDA_TUNE_ALL ? INFINITY : t->mode == RT_CUDA_TUNE_ON ? BUDGET : 0;
    if (t->mode == RT_CUDA_TUNE_OFF) return;
    if (cache && cache[0] == '/')
        n = snprintf(t->path, sizeof t->path, "%s/retort/products.tsv", cache);
    else if (home)
        n = snprintf(t->path, sizeof t->path, "%s/.cache/retort/products.tsv", home);
    if (n < 0 || (size_t)n >= sizeof t->path) t->path[0] = 0;
}

double rt_cuda_tune_left(const rt_cuda_dev *d) { return d->tune.most - d->tune.seconds; }

/* What a choice holds for besides the GEMM. */
static void identify(const rt_cuda_dev *d, rt_cuda_choice *c, char gpu[128], char library[32])
{
    snprintf(gpu, 128, "%s, %u multiprocessors", d->name, d->caps.sms);
    snprintf(library, 32, "cuBLASLt %u", d->lt.version);
    c->gpu = gpu;
    c->library = library;
}

static void blame(rt_cuda_tune *t, const rt_err *e) { snprintf(t->fault, sizeof t->fault, "%.150s", e->text); }

int rt_cuda_tune_named(rt_cuda_dev *d, const char *gemm, const char **algorithm, rt_err *e)
{
    rt_cuda_tune *t = &d->tune;
    rt_err why = { 0 };
    rt_cuda_choice c;
    char gpu[128], library[32];
    *algorithm = NULL;
    if (t->path[0] && !t->read) {
        int rc = rt_cuda_tuned_read(&t->shared, t->path, &why);
        if (rc == RT_NOMEM) return rt_fail(e, rc, "%s", why.text);
        if (rc < 0) blame(t, &why);
        t->read = true;
    }
    identify(d, &c, gpu, library);
    const rt_cuda_choice *known = rt_cuda_tuned_find(&t->own, c.gpu, c.library, gemm);
    if (!known) {
        known = rt_cuda_tuned_find(&t->shared, c.gpu, c.library, gemm);
        if (known && !known->timed && t->mode == RT_CUDA_TUNE_ALL) known = NULL;
    }
    if (known) *algorithm = known->algorithm;
    return RT_OK;
}

int rt_cuda_tune_keep(rt_cuda_dev *d, const char *gemm, const char *algorithm, rt_cuda_how how, double seconds,
                      rt_err *e)
{
    int rc = RT_OK;
    rt_cuda_tune *t = &d->tune;
    rt_cuda_choice c = { .gemm = gemm, .algorithm = algorithm, .timed = how == RT_CUDA_TIMED };
    char gpu[128], library[32];
    identify(d, &c, gpu, library);
    t->known += how == RT_CUDA_CHOSEN_BEFORE;
    if (t->mode == RT_CUDA_TUNE_OFF) return RT_OK;
    if (how == RT_CUDA_CHOSEN_BEFORE) {
        const rt_cuda_choice *known = rt_cuda_tuned_find(&t->shared, c.gpu, c.library, gemm);
        c.timed = known && known->timed;
        return rt_cuda_tuned_find(&t->own, c.gpu, c.library, gemm) ? RT_OK : rt_cuda_tuned_put(&t->own, &c, e);
    }
    t->timed += how == RT_CUDA_TIMED;
    t->untimed += how == RT_CUDA_UNTIMED;
    t->seconds += seconds;
    RT_TRY(rt_cuda_tuned_put(&t->own, &c, e));
    if (t->mode == RT_CUDA_TUNE_KNOWN) return RT_OK;
    RT_TRY(rt_cuda_tuned_put(&t->shared, &c, e));
    t->fresh = true;
out:
    return rc;
}

/* Makes the folder, takes what others have put into the file in the meantime, and writes all of it. */
static int write_shared(rt_cuda_tune *t, rt_err *e)
{
    int rc;
    char folder[sizeof t->path];
    memcpy(folder, t->path, sizeof folder);
    *strrchr(folder, '/') = 0;
    RT_TRY(rt_dir_make(folder, e));
    uint32_t unreadable = t->shared.unreadable;
    RT_TRY(rt_cuda_tuned_read(&t->shared, t->path, e));
    t->shared.unreadable = unreadable; /* they were counted when the file was read first */
    RT_TRY(rt_cuda_tuned_write(&t->shared, t->path, e));
out:
    return rc;
}

void rt_cuda_tune_write(rt_cuda_dev *d)
{
    rt_cuda_tune *t = &d->tune;
    rt_err e = { 0 };
    if (!t->fresh || !t->path[0]) return;
    t->fresh = false;
    if (write_shared(t, &e) < 0) blame(t, &e);
}

void rt_cuda_tune_text(const rt_cuda_dev *d, char *out, size_t size)
{
    const rt_cuda_tune *t = &d->tune;
    uint32_t unreadable = t->own.unreadable + t->shared.unreadable;
    rt_str s = { 0 };
    out[0] = 0;
    if (t->mode == RT_CUDA_TUNE_ALL && !d->lt_handle)
        rt_str_append(&s, "--tune all has nothing to time: there is no cuBLASLt");
    if (t->timed || t->known || t->untimed)
        rt_str_printf(&s, "%u GEMMs timed in %.1f s, %u as timed before", t->timed, t->seconds, t->known);
    if (t->timed && t->path[0] && !t->fault[0]) rt_str_printf(&s, "; kept in %s", t->path);
    if (t->untimed && t->mode == RT_CUDA_TUNE_ON)
        rt_str_printf(&s, "; %u as the library chose, after %.3g s for timing (--tune all times them)", t->untimed,
                      t->most);
    if (t->untimed && t->mode != RT_CUDA_TUNE_ON) rt_str_printf(&s, "; %u as the library chose", t->untimed);
    if (unreadable) rt_str_printf(&s, "; %u lines there are no choices and were left out", unreadable);
    if (t->stale) rt_str_printf(&s, "; %u choices are none that this library offers", t->stale);
    if (t->fault[0]) rt_str_printf(&s, "; not kept: %s", t->fault);
    if (s.data) snprintf(out, size, "%s", s.data);
    rt_str_free(&s);
}

int rt_cuda_choices_read(rt_dev *dev, const char *path, rt_err *e)
{
    return rt_cuda_tuned_read(&((rt_cuda_dev *)dev)->tune.own, path, e);
}

int rt_cuda_choices_write(rt_dev *dev, const char *path, rt_err *e)
{
    const rt_cuda_tuned *own = &((rt_cuda_dev *)dev)->tune.own;
    return own->count ? rt_cuda_tuned_write(own, path, e) : RT_OK;
}
