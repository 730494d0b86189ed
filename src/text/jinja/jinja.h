/* jinja.h - a template compiled once and rendered many times: the Jinja that models ship, bounded in time and memory.
 *
 * Owns: the language as transformers' apply_chat_template runs it: an immutable sandbox with trim_blocks and
 * lstrip_blocks, break and continue, `generation` blocks, raise_exception, strftime_now, and tojson as json.dumps.
 * Which variables a chat has is for chat_template.h. A template reads no file and no environment. What is not supported
 * is refused by name (RT_UNSUPPORTED); a fault of the template or a limit that it hits is RT_INVALID with the line.
 *
 * A compiled template does not change, so any number of threads may render it at once. */
#ifndef RT_JINJA_JINJA_H
#define RT_JINJA_JINJA_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct rt_jinja rt_jinja;

/* A template comes from a stranger: these end it, whatever it does. 0 in a field: the default. */
typedef struct rt_jinja_limits {
    uint64_t steps;        /* nodes evaluated and items walked; 10 million */
    uint64_t output_bytes; /* text, and any string on the way to it; 64 MiB */
    uint64_t memory_bytes; /* values made while rendering; 256 MiB */
    uint32_t depth;        /* nested evaluation and calls of macros; 600 */
} rt_jinja_limits;

/* text need not be terminated; it is copied. */
int rt_jinja_compile(rt_jinja **out, const char *text, size_t bytes, rt_err *e);
void rt_jinja_free(rt_jinja *t); /* accepts null */
/* Whether the template has a `generation` block anywhere. */
bool rt_jinja_has_generation(const rt_jinja *t);

typedef struct rt_jinja_var {
    const char *name;
    const json_t *value; /* null: the variable is not defined. Not changed; must live until render returns. */
    bool cut;            /* of an array, only the first `head` items */
    size_t head;
} rt_jinja_var;

/* Bytes [begin, end) of the rendered text. */
typedef struct rt_text_range {
    size_t begin, end;
} rt_text_range;

typedef struct rt_jinja_render_args {
    const rt_jinja_var *vars; /* of two with one name, the later wins */
    uint32_t n_vars;
    /* strftime_now prints this moment: seconds since 1970 in UTC, and what the local clock adds to it. */
    int64_t now;
    int32_t utc_offset;
    const rt_jinja_limits *limits; /* may be null */
} rt_jinja_render_args;

typedef struct rt_jinja_result {
    rt_str text;
    rt_text_range *ranges; /* outermost `generation` blocks, in order; a block that printed nothing is left out */
    uint32_t n_ranges, cap_ranges;
    /* A generation block ran inside a macro, a block set or a filter block: what became of its text is not known, so
     * the ranges are not the whole truth. */
    bool ranges_lost;
} rt_jinja_result;

/* result must be empty ({0}) or from an earlier call, whose memory is then reused. On failure its text is empty. */
int rt_jinja_render(const rt_jinja *t, const rt_jinja_render_args *args, rt_jinja_result *result, rt_err *e);
void rt_jinja_result_free(rt_jinja_result *r); /* accepts null; leaves an empty result */

#endif
