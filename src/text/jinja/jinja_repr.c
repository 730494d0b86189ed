/* jinja_repr.c - the text of values as Python writes it: str() and repr().
 *
 * Owns: quoting, numbers, containers. What has no stable text in Python (a generator, a bound method) is refused rather
 * than printed with an address. JSON is for jinja_json.c, format specifications for jinja_format.c. */
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_unicode.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Adds one to the last digit of "d.ddde+xx"; false when the carry would need another digit. */
static bool next_decimal(char *text)
{
    for (char *p = strchr(text, 'e'); p > text;) {
        if (*--p == '.') continue;
        if (*p != '9') {
            ++*p;
            return true;
        }
        *p = '0';
    }
    return false;
}

/* The shortest digits that read back as x (positive, finite): "d.ddde[+-]xx". */
static void shortest(char buf[32], double x)
{
    int exponent;
    bool power_of_two = frexp(x, &exponent) == 0.5;
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(buf, 32, "%.*e", digits - 1, x);
        if (strtod(buf, NULL) == x) return;
        /* Below a power of two doubles lie twice as close as above it: the nearest decimal may miss on that side where
         * the next one up would do. */
        char up[32];
        memcpy(up, buf, sizeof up);
        if (power_of_two && next_decimal(up) && strtod(up, NULL) == x) {
            memcpy(buf, up, sizeof up);
            return;
        }
    }
}

int rt_j_format_float(char buf[32], double x)
{
    if (isnan(x)) return snprintf(buf, 32, "nan");
    if (isinf(x)) return snprintf(buf, 32, x < 0 ? "-inf" : "inf");
    if (x == 0) return snprintf(buf, 32, signbit(x) ? "-0.0" : "0.0");
    char e[32], digits[20];
    shortest(e, fabs(x));
    int exponent = atoi(strchr(e, 'e') + 1), n = 0;
    for (const char *p = e; *p != 'e'; p++)
        if (*p != '.') digits[n++] = *p;
    while (n > 1 && digits[n - 1] == '0') n--;
    digits[n] = '\0';
    const char *sign = x < 0 ? "-" : "";
    if (exponent < -4 || exponent >= 16) {
        return snprintf(buf, 32, "%s%c%s%se%c%02d", sign, digits[0], n > 1 ? "." : "", digits + 1,
                        exponent < 0 ? '-' : '+', abs(exponent));
    }
    static const char zeros[] = "0000000000000000";
    if (exponent < 0) return snprintf(buf, 32, "%s0.%.*s%s", sign, -exponent - 1, zeros, digits);
    if (n <= exponent + 1) return snprintf(buf, 32, "%s%s%.*s.0", sign, digits, exponent + 1 - n, zeros);
    return snprintf(buf, 32, "%s%.*s.%s", sign, exponent + 1, digits, digits + exponent + 1);
}

/* ---- repr of a string ---- */

static int put_escaped(rt_jrun *r, uint32_t c, uint32_t quote)
{
    char buf[12];
    if (c == quote || c == '\\')
        snprintf(buf, sizeof buf, "\\%c", (char)c);
    else if (c == '\n')
        return rt_j_puts(r, "\\n");
    else if (c == '\r')
        return rt_j_puts(r, "\\r");
    else if (c == '\t')
        return rt_j_puts(r, "\\t");
    else if (c < 0x100)
        snprintf(buf, sizeof buf, "\\x%02x", (unsigned)c);
    else if (c < 0x10000)
        snprintf(buf, sizeof buf, "\\u%04x", (unsigned)c);
    else
        snprintf(buf, sizeof buf, "\\U%08x", (unsigned)c);
    return rt_j_puts(r, buf);
}

static int put_quoted(rt_jrun *r, const rt_jstr *s)
{
    bool has_single = s->len > 0 && memchr(s->data, '\'', s->len);
    bool has_double = s->len > 0 && memchr(s->data, '"', s->len);
    uint32_t quote = has_single && !has_double ? '"' : '\'';
    int rc = rt_j_tick(r, s->len / 64);
    if (rc == RT_OK && s->markup) rc = rt_j_puts(r, "Markup(");
    if (rc == RT_OK) rc = rt_j_put_char(r, quote);
    for (size_t at = 0; rc == RT_OK && at < s->len;) {
        uint32_t c = rt_j_decode(s->data, s->len, &at);
        rc = c == quote || c == '\\' || !rt_ju_printable(c) ? put_escaped(r, c, quote) : rt_j_put_char(r, c);
    }
    if (rc == RT_OK) rc = rt_j_put_char(r, quote);
    if (rc == RT_OK && s->markup) rc = rt_j_puts(r, ")");
    return rc;
}

/* ---- containers ---- */

static int put_items(rt_jrun *r, const rt_jval *items, uint32_t n)
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < n && rc == RT_OK; i++) {
        if (i > 0) rc = rt_j_puts(r, ", ");
        if (rc == RT_OK) rc = rt_j_put_repr(r, items[i]);
    }
    return rc;
}

static int put_list(rt_jrun *r, rt_jval v)
{
    bool tuple = v.type == RT_J_TUPLE;
    /* A namespace may hold itself. */
    if (v.l->printing) return rt_j_puts(r, tuple ? "(...)" : "[...]");
    v.l->printing = true;
    int rc = rt_j_puts(r, tuple ? "(" : "[");
    if (rc == RT_OK) rc = put_items(r, v.l->items, v.l->n);
    if (rc == RT_OK) rc = rt_j_puts(r, !tuple ? "]" : v.l->n == 1 ? ",)" : ")");
    v.l->printing = false;
    return rc;
}

static int put_dict(rt_jrun *r, rt_jdict *d)
{
    if (d->printing) return rt_j_puts(r, "{...}");
    d->printing = true;
    int rc = rt_j_puts(r, "{");
    for (uint32_t i = 0; i < d->n && rc == RT_OK; i++) {
        if (i > 0) rc = rt_j_puts(r, ", ");
        if (rc == RT_OK) rc = rt_j_put_repr(r, d->items[i].key);
        if (rc == RT_OK) rc = rt_j_puts(r, ": ");
        if (rc == RT_OK) rc = rt_j_put_repr(r, d->items[i].value);
    }
    d->printing = false;
    return rc == RT_OK ? rt_j_puts(r, "}") : rc;
}

static int put_view(rt_jrun *r, const rt_jview *view)
{
    static const char *const names[] = { "dict_keys([", "dict_values([", "dict_items([" };
    int rc = rt_j_puts(r, names[view->kind]);
    for (uint32_t i = 0; i < view->d->n && rc == RT_OK; i++) {
        rt_jval pair[] = { view->d->items[i].key, view->d->items[i].value };
        if (i > 0) rc = rt_j_puts(r, ", ");
        if (rc < 0) break;
        if (view->kind != RT_J_ITEMS) {
            rc = rt_j_put_repr(r, pair[view->kind == RT_J_VALUES]);
            continue;
        }
        rc = rt_j_puts(r, "(");
        if (rc == RT_OK) rc = put_items(r, pair, 2);
        if (rc == RT_OK) rc = rt_j_puts(r, ")");
    }
    return rc == RT_OK ? rt_j_puts(r, "])") : rc;
}

static int put_range(rt_jrun *r, const rt_jrange *range)
{
    char buf[80];
    snprintf(buf, sizeof buf, range->step == 1 ? "range(%lld, %lld)" : "range(%lld, %lld, %lld)",
             (long long)range->start, (long long)range->stop, (long long)range->step);
    return rt_j_puts(r, buf);
}

static int put_number(rt_jrun *r, rt_jval v)
{
    char buf[32];
    if (v.type == RT_J_FLOAT)
        rt_j_format_float(buf, v.f);
    else
        snprintf(buf, sizeof buf, "%lld", (long long)v.i);
    return rt_j_puts(r, buf);
}

static int put_loop(rt_jrun *r, rt_jloop *loop)
{
    char buf[64];
    rt_jval index;
    bool found;
    int64_t length;
    rt_jstr name = { .data = "index", .len = 5, .chars = 5 };
    int rc = rt_jloop_length(r, loop, &length);
    if (rc == RT_OK) rc = rt_jloop_attr(r, loop, &name, &index, &found);
    if (rc < 0) return rc;
    snprintf(buf, sizeof buf, "<LoopContext %lld/%lld>", (long long)index.i, (long long)length);
    return rt_j_puts(r, buf);
}

static int put_macro(rt_jrun *r, const rt_jmacro *macro)
{
    if (!macro->name) return rt_j_puts(r, "<Macro anonymous>");
    int rc = rt_j_puts(r, "<Macro ");
    if (rc == RT_OK) rc = put_quoted(r, macro->name);
    return rc == RT_OK ? rt_j_puts(r, ">") : rc;
}

static int put_other(rt_jrun *r, rt_jval v)
{
    switch (v.type) {
    case RT_J_LIST:
    case RT_J_TUPLE: return put_list(r, v);
    case RT_J_DICT: return put_dict(r, v.d);
    case RT_J_VIEW: return put_view(r, v.view);
    case RT_J_RANGE: return put_range(r, v.range);
    case RT_J_NAMESPACE: {
        int rc = rt_j_puts(r, "<Namespace ");
        if (rc == RT_OK) rc = put_dict(r, v.d);
        return rc == RT_OK ? rt_j_puts(r, ">") : rc;
    }
    case RT_J_LOOP: return put_loop(r, v.loop);
    case RT_J_MACRO: return put_macro(r, v.macro);
    case RT_J_ITER: return rt_j_fail(r, "the result of '%s' has no text of its own; add |list", v.iter->name);
    case RT_J_METHOD: return rt_j_fail(r, "the method '%s' is printed; it lacks its ()", v.method->fn->name);
    case RT_J_FUNCTION: return rt_j_fail(r, "the function '%s' is printed; it lacks its ()", v.fn->name);
    default: return rt_j_fail(r, "a %s has no text", rt_jtype_name(v.type));
    }
}

int rt_j_put_repr(rt_jrun *r, rt_jval v)
{
    switch (v.type) {
    case RT_J_UNDEFINED: return rt_j_puts(r, "Undefined");
    case RT_J_NONE: return rt_j_puts(r, "None");
    case RT_J_BOOL: return rt_j_puts(r, v.b ? "True" : "False");
    case RT_J_INT:
    case RT_J_FLOAT: return put_number(r, v);
    case RT_J_STR: return put_quoted(r, v.s);
    default: break;
    }
    int rc = rt_j_enter(r);
    if (rc < 0) return rc;
    rc = put_other(r, v);
    rt_j_leave(r);
    return rc;
}

int rt_j_put_str(rt_jrun *r, rt_jval v)
{
    if (v.type == RT_J_UNDEFINED) return RT_OK;
    if (v.type == RT_J_STR) return rt_j_put(r, v.s->data, v.s->len);
    return rt_j_put_repr(r, v);
}

int rt_j_str(rt_jrun *r, rt_jval v, rt_jval *out)
{
    if (v.type == RT_J_STR) {
        *out = v;
        return RT_OK;
    }
    size_t mark = rt_j_mark(r);
    int rc = rt_j_put_str(r, v);
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}
