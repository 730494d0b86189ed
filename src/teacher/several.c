/* several.c - see several.h. */
#include "teacher/several.h"

#include "base/file.h"
#include "base/str.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- a spec ---- */

enum { MOST_WEIGHT = 1000000 };

static int bad_option(const char *text, const char *option, rt_err *e)
{
    return rt_fail(
        e, RT_USAGE,
        "--teacher %s: '%s' is not an option of a teacher; the options are weight=NUMBER (above 0), data=FILE "
        "(one of --data) and prompt=FILE",
        text, option);
}

static int given_twice(const char *text, const char *option, rt_err *e)
{
    return rt_fail(e, RT_USAGE, "--teacher %s: %.*s is given twice; a teacher has one", text,
                   (int)(strchr(option, '=') - option), option);
}

static int take_option(rt_teacher_spec *s, const char *text, const char *option, rt_err *e)
{
    char *end;
    const char *value = strchr(option, '=') + 1;
    if (strncmp(option, "weight=", 7) == 0 && !s->weighted) {
        s->weighted = true;
        s->weight = strtod(value, &end);
        if (end == value || *end || !(s->weight > 0) || s->weight > MOST_WEIGHT)
            return rt_fail(e, RT_USAGE, "--teacher %s: weight=%s is not a number above 0", text, value);
        return RT_OK;
    }
    if (strncmp(option, "prompt=", 7) == 0 && *value && !s->prompt) return s->prompt = value, RT_OK;
    if (strncmp(option, "weight=", 7) == 0 || (s->prompt && strncmp(option, "prompt=", 7) == 0))
        return given_twice(text, option, e);
    if (strncmp(option, "data=", 5) != 0 || !*value) return bad_option(text, option, e);
    if (s->data_count == RT_TEACHER_NAMES)
        return rt_fail(e, RT_USAGE, "--teacher %s: data= can be given %d times at most", text, RT_TEACHER_NAMES);
    s->data[s->data_count++] = value;
    return RT_OK;
}

int rt_teacher_parse(rt_teacher_spec *out, const char *text, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    char *name = rt_arena_strdup(a, text);
    *out = (rt_teacher_spec){ .model = name, .weight = 1 };
    if (!name) return rt_no_memory(e, "a teacher");
    for (char *comma; (comma = strrchr(name, ','));) {
        if (rt_path_exists(name) || !strchr(comma, '=')) break; /* a comma of the name's own */
        RT_TRY(take_option(out, text, comma + 1, e));
        *comma = '\0';
    }
    if (!*name) RT_TRY(rt_fail(e, RT_USAGE, "--teacher %s: the model is missing; write MODEL,weight=0.3", text));
out:
    return rc;
}

int rt_teachers_parse(rt_teachers *out, const char *const *texts, uint32_t count, rt_arena *a, rt_err *e)
{
    int rc = RT_OK;
    *out = (rt_teachers){ .count = count };
    if (count > RT_TEACHERS_MOST)
        return rt_fail(e, RT_USAGE, "--teacher is given %u times, and a run has %d teachers at most", count,
                       RT_TEACHERS_MOST);
    for (uint32_t i = 0; i < count; i++) RT_TRY(rt_teacher_parse(&out->list[i], texts[i], a, e));
out:
    return rc;
}

/* ---- shares ---- */

static const char *plain(const char *path)
{
    while (path[0] == '.' && path[1] == '/') path += 2;
    return path;
}
static bool same(const char *a, const char *b) { return strcmp(plain(a), plain(b)) == 0; }

static bool names_source(const rt_teacher_spec *s, const char *source)
{
    for (uint32_t i = 0; i < s->data_count; i++)
        if (same(s->data[i], source)) return true;
    return false;
}

/* The teachers of a source, as bits. */
static uint32_t teachers_of(const rt_teachers *t, const char *source)
{
    uint32_t named = 0, others = 0;
    for (uint32_t i = 0; i < t->count; i++) {
        if (names_source(&t->list[i], source)) named |= 1u << i;
        if (!t->list[i].data_count) others |= 1u << i;
    }
    return named ? named : others;
}

static int add_group(rt_teachers *t, uint32_t served, rt_err *e)
{
    double sum = 0;
    if (t->group_count == RT_TEACHER_GROUPS)
        return rt_fail(e, RT_INVALID, "the data has more than %d groups with teachers of their own; name fewer",
                       RT_TEACHER_GROUPS);
    double *share = t->share + t->group_count * t->count;
    for (uint32_t i = 0; i < t->count; i++) sum += served >> i & 1 ? t->list[i].weight : 0;
    for (uint32_t i = 0; i < t->count; i++) share[i] = served >> i & 1 ? t->list[i].weight / sum : 0;
    t->served[t->group_count++] = served;
    return RT_OK;
}

/* Every data= is a source, and every teacher is asked about one that is trained on. */
static int check_asked(const rt_teachers *t, const char *const *names, uint32_t count, const uint32_t *groups,
                       uint32_t trained, rt_err *e)
{
    for (uint32_t i = 0; i < t->count; i++) {
        const rt_teacher_spec *s = &t->list[i];
        bool asked = false;
        for (uint32_t k = 0; k < s->data_count; k++) {
            uint32_t n = 0;
            while (n < count && !same(s->data[k], names[n])) n++;
            if (n == count)
                return rt_fail(e, RT_INVALID,
                               "--teacher %s: data=%s is not one of --data; spell it as it is there, such as "
                               "data=%s",
                               s->model, s->data[k], names[0]);
        }
        for (uint32_t n = 0; n < trained; n++) asked = asked || (t->served[groups[n]] >> i & 1);
        if (!asked)
            return rt_fail(e, RT_INVALID, "--teacher %s has no data to teach: %s; leave it out, or name its data",
                           s->model,
                           s->data_count ? "what it names is not trained on" : "other teachers name all of --data");
    }
    return RT_OK;
}

int rt_teachers_assign(rt_teachers *t, const char *const *names, uint32_t count, uint32_t trained, uint32_t *groups,
                       rt_err *e)
{
    int rc = RT_OK;
    t->group_count = 0;
    for (uint32_t n = 0; n < count; n++) {
        uint32_t served = teachers_of(t, names[n]), g = 0;
        if (!served)
            RT_TRY(rt_fail(e, RT_INVALID,
                           "%s has no teacher: every teacher names other data; give one without data=, or add data=%s",
                           names[n], names[n]));
        while (g < t->group_count && t->served[g] != served) g++;
        if (g == t->group_count) RT_TRY(add_group(t, served, e));
        groups[n] = g;
    }
    RT_TRY(check_asked(t, names, count, groups, trained, e));
out:
    return rc;
}
