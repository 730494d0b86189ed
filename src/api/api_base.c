/* api_base.c - what every function of the API needs: structs of another age, errors, places. */
#include "api/api_internal.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>

/* The public statuses are the internal ones. */
#define X(name, value, text) _Static_assert((int)RETORT_##name == (value), "RETORT_" #name " is another status");
RT_STATUS_LIST(X)
#undef X

enum { LARGEST = 65536 };

const char *retort_version(void) { return RETORT_VERSION; }
const char *retort_status_text(int status) { return rt_status_text(status); }
void retort_text_free(char *text) { rt_free(text); }

const char *retort_device_name(uint32_t index) { return rt_job_backend_name(index); }

/* ---- structs ---- */

static size_t size_of(const void *given)
{
    uint32_t size;
    memcpy(&size, given, sizeof size);
    return size;
}

int rt_api_check(const void *given, const char *name, rt_err *e)
{
    size_t size = size_of(given);
    if (size >= sizeof(uint32_t) && size <= LARGEST) return RT_OK;
    return rt_fail(e, RT_USAGE, "%s begins with its size, and %zu cannot be it: set .size = sizeof", name, size);
}

int rt_api_take(void *ours, size_t n, const void *given, const char *name, rt_err *e)
{
    memset(ours, 0, n);
    if (!given) return RT_OK;
    int rc = rt_api_check(given, name, e);
    if (rc < 0) return rc;
    size_t size = size_of(given);
    for (size_t i = n; i < size; i++)
        if (((const char *)given)[i])
            return rt_fail(e, RT_UNSUPPORTED,
                           "%s has members that retort %s does not know; it is older than the header", name,
                           RETORT_VERSION);
    memcpy(ours, given, size < n ? size : n);
    return RT_OK;
}

int rt_api_fill(void *given, const void *ours, size_t n, const char *name, rt_err *e)
{
    const size_t head = sizeof(uint32_t);
    int rc = given ? rt_api_check(given, name, e) : rt_fail(e, RT_USAGE, "%s: there is none to fill", name);
    if (rc < 0) return rc;
    size_t size = size_of(given);
    memset((char *)given + head, 0, size - head);
    memcpy((char *)given + head, (const char *)ours + head, (size < n ? size : n) - head);
    return RT_OK;
}

int rt_api_end(int rc, const rt_err *err, retort_error *e)
{
    if (rc > 0) rc = RT_OK;
    if (!e) return rc;
    e->status = rc;
    if (rc < 0)
        snprintf(e->text, sizeof e->text, "%s", err->text[0] ? err->text : rt_status_text(rc));
    else
        e->text[0] = 0;
    return rc;
}

int rt_api_give(rt_str *s, char **text, rt_err *e)
{
    if (!s->failed && !s->data) rt_str_append(s, ""); /* nothing is a text too */
    if (s->failed || !s->data) return rt_no_memory(e, "a text");
    *text = s->data;
    *s = (rt_str){ 0 };
    return RT_OK;
}

/* ---- places ---- */

static bool copy_text(const char **out, const char *text, rt_arena *a)
{
    *out = text && text[0] ? rt_arena_strdup(a, text) : NULL;
    return *out || !text || !text[0];
}

/* A list that ends with null, and its texts; a null list is one. */
static bool copy_list(const char *const **out, const char *const *list, rt_arena *a)
{
    size_t n = 0;
    *out = NULL;
    if (!list) return true;
    while (list[n]) n++;
    const char **copy = rt_arena_alloc(a, (n + 1) * sizeof *copy);
    for (size_t i = 0; copy && i <= n; i++)
        if (!(copy[i] = list[i] ? rt_arena_strdup(a, list[i]) : NULL) && list[i]) return false;
    *out = copy;
    return copy != NULL;
}

int rt_api_env_copy(rt_job_env *out, const retort_places *given, rt_arena *a, rt_err *e)
{
    retort_places p;
    rt_json_init();
    int rc = rt_api_take(&p, sizeof p, given, "retort_places", e);
    if (rc < 0) return rc;
    out->version = RETORT_VERSION;
    if (copy_text(&out->hub.hf_hub_cache, p.hf_hub_cache, a) && copy_text(&out->hub.hf_home, p.hf_home, a) &&
        copy_text(&out->hub.xdg_cache_home, p.xdg_cache_home, a) && copy_text(&out->hub.home, p.home, a) &&
        copy_text(&out->hub.base, p.adapter_base, a) && copy_text(&out->scratch, p.scratch, a) &&
        copy_list(&out->environment, p.environment, a))
        return RT_OK;
    return rt_no_memory(e, "retort_places");
}

static retort_measure measure(rt_measure m) { return (retort_measure){ m.mean, m.error }; }

retort_evaluation rt_api_evaluation(const rt_eval_result *v)
{
    return (retort_evaluation){ .cross_entropy = measure(v->ce),
                                .divergence = measure(v->div),
                                .kl = measure(v->kl),
                                .agreement = measure(v->agreement),
                                .teacher_cross_entropy = measure(v->teacher_ce),
                                .has_teacher = v->teacher,
                                .positions = v->positions,
                                .documents = v->documents,
                                .seconds = v->seconds };
}
