/* stop.h - strings that end an answer, searched for in its text as it comes.
 *
 * Owns: what is held back because it may be the beginning of one. Of a string that is found nothing is ever shown. */
#ifndef RT_INFER_STOP_H
#define RT_INFER_STOP_H

#include "base/err.h"
#include "base/str.h"

#include <stdbool.h>
#include <stdint.h>

typedef struct rt_stop_text {
    const char *const *strings; /* (count) none of them empty; the caller's */
    uint32_t count;
    rt_str held;
    bool found;     /* one of them; what comes after it is not looked at */
    uint32_t which; /* it is; the first in the text */
} rt_stop_text;

/* Appends to shown what can be shown now that text (len) has come. RT_NOMEM. */
int rt_stop_text_push(rt_stop_text *s, const char *text, size_t len, rt_str *shown, rt_err *e);
/* The answer has ended: appends what was held back. */
int rt_stop_text_end(rt_stop_text *s, rt_str *shown, rt_err *e);
void rt_stop_text_free(rt_stop_text *s); /* accepts zeroes */

#endif
