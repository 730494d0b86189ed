/* cuda_tune.c - GEMMs by timing: which choices are known, what was timed now, where that is kept.
 *
 * Owns: the list of a device and its two files. The file for later runs is read when the first choice is asked for,
 * after the file of a resumed run, which therefore wins; it is written when programs are prepared and when the
 * device is closed. A file that cannot be read or written costs the time to choose again, never the run: it is told in
 * the sentence that says what was timed. */
#include "backend/cuda/cuda_internal.h"

#include "base/file.h"

#include <stdio.h>
#include <string.h>

void rt_cuda_tune_begin(rt_cuda_dev *d, const rt_cuda_options *o)
{
    const char *cache = rt_dev_env(o->env, "XDG_CACHE_HOME"), *home = rt_dev_env(o->env, "HOME");
    rt_cuda_tune *t = &d->tune;
    int n = 0;
    t->on = o->tune;
    if (!t->on) return;
    if (cache && cache[0] == '/')
        n = snprintf(t->path, sizeof t->path, "%s/retort/products.tsv", cache);
    else if (home)
        n = snprintf(t->path, sizeof t->path, "%s/.cache/retort/products.tsv", home);
    if (n < 0 || (size_t)n >= sizeof t->path) t->path[0] = 0;
}

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
    if (t->on && !t->read && t->path[0]) {
        int rc = rt_cuda_tuned_read(&t->list, t->path, &why);
        if (rc == RT_NOMEM) return rt_fail(e, rc, "%s", why.text);
        if (rc < 0) blame(t, &why);
        t->read = true;
    }
    identify(d, &c, gpu, library);
    const rt_cuda_choice *known = rt_cuda_tuned_find(&t->list, c.gpu, c.library, gemm);
    if (known) *algorithm = known->algorithm;
    return RT_OK;
}

int rt_cuda_tune_keep(rt_cuda_dev *d, const char *gemm, const char *algorithm, double seconds, rt_err *e)
{
    rt_cuda_tune *t = &d->tune;
    rt_cuda_choice c = { .gemm = gemm, .algorithm = algorithm };
    char gpu[128], library[32];
    identify(d, &c, gpu, library);
    rt_cuda_choice *known = rt_cuda_tuned_find(&t->list, c.gpu, c.library, gemm);
    if (known && algorithm && strcmp(known->algorithm, algorithm) == 0) {
        t->known += !known->used;
        known->used = true;
        return RT_OK;
    }
    t->stale += known != NULL;
    if (!t->on || !algorithm) return RT_OK;
    t->timed++;
    t->seconds += seconds;
    t->fresh = true;
    return rt_cuda_tuned_put(&t->list, &c, e);
}

/* Makes the folder, takes what others have put into the file in the meantime, and writes all of it. */
static int write_shared(rt_cuda_tune *t, rt_err *e)
{
    int rc;
    char folder[sizeof t->path];
    memcpy(folder, t->path, sizeof folder);
    *strrchr(folder, '/') = 0;
    RT_TRY(rt_dir_make(folder, e));
    uint32_t unreadable = t->list.unreadable;
    RT_TRY(rt_cuda_tuned_read(&t->list, t->path, e));
    t->list.unreadable = unreadable; /* they were counted when the file was read first */
    RT_TRY(rt_cuda_tuned_write(&t->list, t->path, false, e));
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
    rt_str s = { 0 };
    out[0] = 0;
    if (t->on && !d->lt_handle) rt_str_append(&s, "--tune has nothing to time: there is no cuBLASLt");
    if (t->timed || t->known)
        rt_str_printf(&s, "%u GEMMs timed in %.1f s, %u as timed before", t->timed, t->seconds, t->known);
    if (t->timed && t->path[0] && !t->fault[0]) rt_str_printf(&s, "; kept in %s", t->path);
    if (t->list.unreadable) rt_str_printf(&s, "; %u lines there are no choices and were left out", t->list.unreadable);
    if (t->stale) rt_str_printf(&s, "; %u choices are none that this library offers", t->stale);
    if (t->fault[0]) rt_str_printf(&s, "; not kept: %s", t->fault);
    if (s.data) snprintf(out, size, "%s", s.data);
    rt_str_free(&s);
}

int rt_cuda_choices_read(rt_dev *dev, const char *path, rt_err *e)
{
    return rt_cuda_tuned_read(&((rt_cuda_dev *)dev)->tune.list, path, e);
}

int rt_cuda_choices_write(rt_dev *dev, const char *path, rt_err *e)
{
    const rt_cuda_tuned *list = &((rt_cuda_dev *)dev)->tune.list;
    bool any = false;
    for (uint32_t i = 0; i < list->count; i++) any = any || list->list[i].used;
    return any ? rt_cuda_tuned_write(list, path, true, e) : RT_OK;
}
