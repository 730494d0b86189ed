/* jinja_run.c - the memory, the limits and the messages of one compilation or rendering.
 *
 * Owns: what ends a runaway template. Leaves the meaning of values to the other jinja files. */
#include "text/jinja/jinja_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LARGE = 64 << 10 }; /* bytes from which an allocation goes to the arena of large ones */

static int fail(rt_jrun *r, int status, const char *format, va_list args)
{
    char text[400];
    vsnprintf(text, sizeof text, format, args);
    return rt_fail(r->e, status, "template line %u: %s", r->line, text);
}

int rt_j_fail(rt_jrun *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = fail(r, RT_INVALID, format, args);
    va_end(args);
    return rc;
}

int rt_j_unsupported(rt_jrun *r, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int rc = fail(r, RT_UNSUPPORTED, format, args);
    va_end(args);
    return rc;
}

void *rt_j_alloc(rt_jrun *r, size_t bytes)
{
    /* What the arena rounds up to is counted too. */
    uint64_t cost = rt_align_up(bytes < SIZE_MAX / 2 ? bytes + 1 : SIZE_MAX / 2, 16);
    if (cost > r->memory_left) {
        rt_j_fail(r, "it needs more memory than a template may have");
        return NULL;
    }
    void *p = rt_arena_alloc(bytes < LARGE ? &r->small : &r->large, bytes);
    if (!p) {
        rt_fail(r->e, RT_NOMEM, "template line %u: out of memory", r->line);
        return NULL;
    }
    r->memory_left -= cost;
    return p;
}

int rt_j_tick(rt_jrun *r, uint64_t steps)
{
    steps += r->seen / 64;
    r->seen %= 64;
    if (steps > r->steps_left) {
        r->steps_left = 0;
        return rt_j_fail(r, "it runs for too long (a loop without end?)");
    }
    r->steps_left -= steps;
    return RT_OK;
}

int rt_j_enter(rt_jrun *r)
{
    if (r->depth_left == 0) return rt_j_fail(r, "it is nested too deeply (a macro that calls itself?)");
    int rc = rt_j_tick(r, 1);
    if (rc == RT_OK) r->depth_left--;
    return rc;
}
