/* jinja_format.c - "%s" % x, "{}".format(x) and format specifications.
 *
 * Owns: Python's two ways to put values into text, for strings and numbers. Types and flags outside of these are
 * refused by name. */
#include "text/jinja/jinja_format.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- a number with sign, prefix, grouping, fill ---- */

/* Pads text (n bytes, whose first `lead` are sign and prefix) to the width. */
static int put_padded(rt_jrun *r, const rt_jspec *s, const char *text, size_t n, size_t lead, char def_align)
{
    rt_jstr whole = { .data = text, .len = (uint32_t)n, .chars = RT_J_UNCOUNTED };
    int64_t missing = s->width - (int64_t)rt_jstr_chars(r, &whole);
    char align = s->align ? s->align : s->zero ? '=' : def_align;
    uint32_t fill = s->fill ? s->fill : s->zero ? '0' : ' ';
    if (missing < 0) missing = 0;
    if ((uint64_t)missing > r->output_left) return rt_j_fail(r, "a width is too large");
    int rc = rt_j_tick(r, (uint64_t)missing);
    int64_t before = align == '>' || align == '=' ? missing : align == '^' ? missing / 2 : 0;
    if (align != '=') lead = 0;
    if (rc == RT_OK) rc = rt_j_put(r, text, lead);
    for (int64_t i = 0; i < before && rc == RT_OK; i++) rc = rt_j_put_char(r, fill);
    if (rc == RT_OK) rc = rt_j_put(r, text + lead, n - lead);
    for (int64_t i = before; i < missing && rc == RT_OK; i++) rc = rt_j_put_char(r, fill);
    return rc;
}

/* Digits of |x| in base, most significant first; returns their number. */
static size_t int_digits(char buf[72], int64_t x, uint32_t base, bool upper)
{
    uint64_t left = x < 0 ? -(uint64_t)x : (uint64_t)x;
    char back[72];
    size_t n = 0;
    do {
        back[n++] = (upper ? "0123456789ABCDEF" : "0123456789abcdef")[left % base];
        left /= base;
    } while (left > 0);
    for (size_t i = 0; i < n; i++) buf[i] = back[n - 1 - i];
    return n;
}

/* Inserts the separator between groups of digits that end at `end` in text (n bytes); returns the new n. */
static size_t group_digits(char *text, size_t n, size_t from, size_t end, char mark, size_t every)
{
    for (size_t at = end; mark && at > from + every;) {
        at -= every;
        memmove(text + at + 1, text + at, n - at);
        text[at] = mark;
        n++;
    }
    return n;
}

static size_t put_sign(char *buf, bool negative, char sign)
{
    if (negative)
        buf[0] = '-';
    else if (sign == '+' || sign == ' ')
        buf[0] = sign;
    else
        return 0;
    return 1;
}

int rt_jspec_put_int(rt_jrun *r, const rt_jspec *s, int64_t x)
{
    char buf[256];
    uint32_t base = s->type == 'b' ? 2 : s->type == 'o' ? 8 : s->type == 'x' || s->type == 'X' ? 16 : 10;
    size_t lead = put_sign(buf, x < 0, s->sign);
    if (s->alternate && base != 10) {
        buf[lead++] = '0';
        buf[lead++] = s->type;
    }
    size_t n = lead + int_digits(buf + lead, x, base, s->type == 'X');
    n = group_digits(buf, n, lead, n, s->group, base == 10 ? 3 : 4);
    return put_padded(r, s, buf, n, lead, '>');
}

/* The digits of a float for its type, without a sign. */
static size_t float_digits(char *buf, size_t size, const rt_jspec *s, double x)
{
    char type = s->type == '%' ? 'f' : s->type, format[16];
    int precision = s->precision < 0 ? 6 : (int)s->precision;
    if (s->type == '%') x *= 100;
    if (!type && s->precision < 0) return (size_t)rt_j_format_float(buf, x);
    snprintf(format, sizeof format, "%%%s.*%c", s->alternate ? "#" : "", type ? type : 'g');
    size_t n = (size_t)snprintf(buf, size, format, precision == 0 && !type ? 1 : precision, x);
    if (!type && !memchr(buf, '.', n) && !memchr(buf, 'e', n) && !memchr(buf, 'n', n)) {
        memcpy(buf + n, ".0", 3);
        n += 2;
    }
    if (s->type == '%') buf[n++] = '%';
    return n;
}

int rt_jspec_put_float(rt_jrun *r, const rt_jspec *s, double x)
{
    enum { MAX_PRECISION = 100, SIZE = 1024 };
    char buf[SIZE];
    if (s->precision > MAX_PRECISION) return rt_j_fail(r, "a precision is too large");
    size_t lead = put_sign(buf, signbit(x) && !isnan(x), s->sign);
    size_t n = lead + float_digits(buf + lead, SIZE / 2, s, fabs(x)), end = lead;
    while (end < n && buf[end] >= '0' && buf[end] <= '9') end++;
    n = group_digits(buf, n, lead, end, s->group, 3);
    return put_padded(r, s, buf, n, lead, '>');
}

int rt_jspec_put_text(rt_jrun *r, const rt_jspec *s, const rt_jstr *text)
{
    size_t n = text->len;
    rt_jstr copy = *text;
    if (s->precision >= 0 && s->precision < rt_jstr_chars(r, &copy))
        n = rt_jstr_offset(r, &copy, (uint32_t)s->precision);
    return put_padded(r, s, text->data, n, 0, '<');
}

/* ---- format specifications ---- */

bool rt_jspec_width(const char *text, size_t len, size_t *at, int64_t *out)
{
    size_t from = *at;
    int64_t n = 0;
    for (; *at < len && text[*at] >= '0' && text[*at] <= '9' && n < 100000000; *at += 1) n = n * 10 + (text[*at] - '0');
    if (*at > from) *out = n;
    return *at > from;
}

static bool is_align(char c) { return c == '<' || c == '>' || c == '=' || c == '^'; }

static int read_spec(rt_jrun *r, const char *text, size_t len, rt_jspec *s)
{
    size_t at = 0, after = 0;
    *s = (rt_jspec){ .width = -1, .precision = -1 };
    if (len > 0) {
        uint32_t first = rt_j_decode(text, len, &after);
        if (after < len && is_align(text[after])) {
            s->fill = first;
            s->align = text[after];
            at = after + 1;
        } else if (is_align(text[0])) {
            s->align = text[at++];
        }
    }
    if (at < len && strchr("+- ", text[at]) && text[at]) s->sign = text[at++];
    if (at < len && text[at] == '#') s->alternate = text[at++];
    if (at < len && text[at] == '0') s->zero = text[at++];
    rt_jspec_width(text, len, &at, &s->width);
    if (at < len && (text[at] == ',' || text[at] == '_')) s->group = text[at++];
    if (at < len && text[at] == '.') {
        at++;
        if (!rt_jspec_width(text, len, &at, &s->precision)) return rt_j_fail(r, "format specifier missing precision");
    }
    if (at < len) s->type = text[at++];
    if (at < len) return rt_j_fail(r, "invalid format specifier '%.*s'", (int)(len < 60 ? len : 60), text);
    return RT_OK;
}

static int no_such_type(rt_jrun *r, const rt_jspec *s, rt_jval v)
{
    return rt_j_fail(r, "unknown or unsupported format code '%c' for an object of type '%s'", s->type,
                     rt_jtype_name(v.type));
}

/* One value by a specification (">10", ".2f"). */
static int put_by_spec(rt_jrun *r, rt_jval v, const char *text, size_t len)
{
    rt_jspec s;
    int64_t i;
    if (len == 0) return rt_j_put_str(r, v);
    int rc = read_spec(r, text, len, &s);
    if (rc < 0) return rc;
    if (v.type == RT_J_STR) {
        if (s.type && s.type != 's') return no_such_type(r, &s, v);
        if (s.sign || s.group || s.align == '=' || s.alternate)
            return rt_j_fail(r, "sign, '=', '#' and ',' are not allowed in a string format specifier");
        if (s.zero && !s.align) s.align = '<';
        return rt_jspec_put_text(r, &s, v.s);
    }
    if (v.type == RT_J_FLOAT || (rt_jv_index(v, &i) && s.type && strchr("eEfFgG%", s.type))) {
        if (s.type && !strchr("eEfFgG%", s.type)) return no_such_type(r, &s, v);
        return rt_jspec_put_float(r, &s, v.type == RT_J_FLOAT ? v.f : (double)i);
    }
    if (!rt_jv_index(v, &i))
        return rt_j_fail(r, "unsupported format string passed to %s.__format__", rt_jtype_name(v.type));
    if (s.type && !strchr("bdoxX", s.type)) return no_such_type(r, &s, v);
    if (s.precision >= 0) return rt_j_fail(r, "precision not allowed in integer format specifier");
    if (s.group == ',' && s.type && s.type != 'd') return rt_j_fail(r, "cannot specify ',' with '%c'", s.type);
    return rt_jspec_put_int(r, &s, i);
}

/* ---- "{}".format(x) ---- */

typedef struct formatter {
    rt_jrun *r;
    bool markup; /* what is put into a |safe string is escaped */
    const rt_jargs *args;
    int64_t next; /* number of the next {} */
    bool manual;  /* {0} was used, so {} may not be */
} formatter;

static bool digits(const char *text, size_t len, int64_t *out)
{
    size_t at = 0;
    return len > 0 && rt_jspec_width(text, len, &at, out) && at == len;
}

/* The value of "0", "name", "0.attr[key]". */
static int find_value(formatter *f, const char *text, size_t len, rt_jval *out)
{
    rt_jrun *r = f->r;
    size_t at = 0;
    int64_t index;
    while (at < len && text[at] != '.' && text[at] != '[') at++;
    if (at == 0 || digits(text, at, &index)) {
        if (at == 0 ? f->manual : f->next > 0)
            return rt_j_fail(r, "cannot switch between {} and {0} in a format string");
        if (at > 0)
            f->manual = true;
        else
            index = f->next++;
        if (index >= f->args->n_pos) return rt_j_fail(r, "replacement index %lld out of range", (long long)index);
        *out = f->args->pos[index];
    } else {
        rt_jstr name = { .data = text, .len = (uint32_t)at };
        uint32_t i = 0;
        while (i < f->args->n_kw && !rt_jstr_equal(r, f->args->kw[i].name, &name)) i++;
        if (i == f->args->n_kw)
            return rt_j_fail(r, "the format string names '%.*s', which is not given", (int)at, text);
        *out = f->args->kw[i].value;
    }
    int rc = RT_OK;
    while (at < len && rc == RT_OK) {
        bool item = text[at] == '[';
        size_t from = ++at;
        rt_jval key;
        while (at < len && (item ? text[at] != ']' : text[at] != '.' && text[at] != '[')) at++;
        if (at == from || (item && at == len)) return rt_j_fail(r, "empty attribute in format string");
        rc = rt_jstr_view(r, text + from, at - from, &key);
        if (rc == RT_OK && !item) rc = rt_j_getattr(r, *out, key.s, out);
        if (rc == RT_OK && item) {
            if (digits(text + from, at - from, &index)) key = rt_jv_int(index);
            rc = rt_j_getitem(r, *out, key, out);
            at++;
            if (at < len && text[at] != '.' && text[at] != '[') return rt_j_fail(r, "only '.' or '[' may follow ']'");
        }
    }
    return rc;
}

static int put_fields(formatter *f, const char *text, size_t len, int depth);

/* One field, without its braces: name[!conversion][:spec]. */
static int put_field(formatter *f, const char *text, size_t len, int depth)
{
    rt_jrun *r = f->r;
    size_t name = 0, at;
    char conversion = 0;
    rt_jval v, spec_text;
    for (bool inside = false; name < len && (inside || (text[name] != '!' && text[name] != ':')); name++) {
        if (text[name] == '[')
            inside = true;
        else if (text[name] == ']')
            inside = false;
    }
    at = name;
    if (at < len && text[at] == '!') {
        if (at + 1 >= len) return rt_j_fail(r, "end of string while looking for conversion specifier");
        conversion = text[at + 1];
        at += 2;
        if (at < len && text[at] != ':') return rt_j_fail(r, "expected ':' after conversion specifier");
    }
    int rc = find_value(f, text, name, &v);
    size_t mark = rt_j_mark(r);
    if (rc == RT_OK && conversion) {
        if (conversion == 'r')
            rc = rt_j_put_repr(r, v);
        else if (conversion == 's')
            rc = rt_j_put_str(r, v);
        else
            rc = rt_j_fail(r, "unknown or unsupported conversion specifier '%c'", conversion);
        if (rc == RT_OK) rc = rt_j_cut(r, mark, &v);
    }
    if (rc < 0) return rc;
    if (at < len) rc = put_fields(f, text + at + 1, len - at - 1, depth + 1); /* it may hold fields itself */
    if (rc == RT_OK) rc = rt_j_cut(r, mark, &spec_text);
    bool safe = v.type == RT_J_STR && v.s->markup;
    if (rc == RT_OK && f->markup && safe && spec_text.s->len > 0)
        rc = rt_j_fail(r, "unsupported format specification for a |safe string");
    if (rc == RT_OK) rc = put_by_spec(r, v, spec_text.s->data, spec_text.s->len);
    if (rc < 0 || !f->markup || safe) return rc;
    rc = rt_j_cut(r, mark, &v);
    if (rc == RT_OK) rc = rt_jstr_escape(r, v.s, &v);
    return rc == RT_OK ? rt_j_put_str(r, v) : rc;
}

static int put_fields(formatter *f, const char *text, size_t len, int depth)
{
    int rc = RT_OK;
    if (depth > 1) return rt_j_fail(f->r, "a format string is nested too deeply");
    for (size_t at = 0; at < len && rc == RT_OK;) {
        size_t from = at;
        while (at < len && text[at] != '{' && text[at] != '}') at++;
        rc = rt_j_put(f->r, text + from, at - from);
        if (rc < 0 || at >= len) break;
        char c = text[at++];
        if (at < len && text[at] == c) {
            rc = rt_j_put(f->r, &c, 1);
            at++;
            continue;
        }
        if (c == '}') return rt_j_fail(f->r, "single '}' encountered in format string");
        size_t end = at;
        for (int open = 1; end < len; end++) {
            if (text[end] == '{')
                open++;
            else if (text[end] == '}' && --open == 0)
                break;
        }
        if (end >= len) return rt_j_fail(f->r, "expected '}' before end of string");
        rc = put_field(f, text + at, end - at, depth);
        at = end + 1;
    }
    return rc;
}

int rt_j_format(rt_jrun *r, const rt_jstr *format, const rt_jargs *args, rt_jval *out)
{
    formatter f = { .r = r, .markup = format->markup, .args = args };
    size_t mark = rt_j_mark(r);
    int rc = rt_j_tick(r, format->len / 64);
    if (rc == RT_OK) rc = put_fields(&f, format->data, format->len, 0);
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = format->markup;
    return rc;
}
