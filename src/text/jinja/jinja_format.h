/* jinja_format.h - a format specification and the values it lays out. Between jinja_format.c and jinja_percent.c. */
#ifndef RT_JINJA_JINJA_FORMAT_H
#define RT_JINJA_JINJA_FORMAT_H

#include "text/jinja/jinja_call.h"

typedef struct rt_jspec {
    uint32_t fill;
    char align; /* < > = ^, 0: that of the type */
    char sign;  /* + - blank */
    bool alternate, zero;
    char group;               /* , _ or 0 */
    int64_t width, precision; /* -1: not given */
    char type;                /* 0: not given */
} rt_jspec;

/* Each appends to the scratch. */
int rt_jspec_put_int(rt_jrun *r, const rt_jspec *s, int64_t x);
int rt_jspec_put_float(rt_jrun *r, const rt_jspec *s, double x);
int rt_jspec_put_text(rt_jrun *r, const rt_jspec *s, const rt_jstr *text);
/* Digits at text[*at], which moves behind them; false (and *out as it was) when there are none. */
bool rt_jspec_width(const char *text, size_t len, size_t *at, int64_t *out);

#endif
