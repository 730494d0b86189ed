/* jinja_percent.c - "%s" % x: Python's formatting after C's printf.
 *
 * Owns: the directives and where their values come from. Numbers and padding are laid out by jinja_format.c. */
#include "text/jinja/jinja_format.h"

#include <math.h>
#include <string.h>

typedef struct percent {
    rt_jrun *r;
    bool markup; /* what is put into a |safe string is escaped */
    rt_jval args;
    const rt_jval *items; /* one after another */
    uint32_t n, next;
} percent;

static int next_arg(percent *p, rt_jval *out)
{
    if (p->next == p->n) return rt_j_fail(p->r, "not enough arguments for format string");
    *out = p->items[p->next++];
    return RT_OK;
}

/* A width or precision: digits, or * for the next argument. */
static int read_number(percent *p, const rt_jstr *f, size_t *at, int64_t *out)
{
    rt_jval v;
    if (*at >= f->len || f->data[*at] != '*') {
        rt_jspec_width(f->data, f->len, at, out);
        return RT_OK;
    }
    *at += 1;
    int rc = next_arg(p, &v);
    if (rc == RT_OK && (!rt_jv_index(v, out) || *out > 100000000 || *out < -100000000))
        rc = rt_j_fail(p->r, "* wants int");
    return rc;
}

static int put_percent_number(rt_jrun *r, rt_jspec *s, rt_jval v)
{
    int64_t i;
    if (!rt_jv_is_number(v))
        return rt_j_fail(r, "%%%c format: a real number is required, not %s", s->type, rt_jtype_name(v.type));
    if (strchr("eEfFgG", s->type))
        return rt_jspec_put_float(r, s, v.type == RT_J_FLOAT ? v.f : v.type == RT_J_INT ? (double)v.i : v.b);
    if (!rt_jv_index(v, &i)) {
        if (strchr("oxX", s->type)) return rt_j_fail(r, "%%%c format: an integer is required, not float", s->type);
        if (!(fabs(v.f) < 9223372036854775808.0)) return rt_j_fail(r, "cannot convert float to integer");
        i = (int64_t)v.f;
    }
    if (s->precision >= 0) return rt_j_unsupported(r, "a precision for integers in %% is not supported");
    if (strchr("iu", s->type)) s->type = 'd';
    return rt_jspec_put_int(r, s, i);
}

static int put_percent(percent *p, rt_jspec *s, rt_jval v)
{
    rt_jrun *r = p->r;
    rt_jval text;
    size_t mark = rt_j_mark(r);
    int64_t code;
    int rc;
    switch (s->type) {
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G': return put_percent_number(r, s, v);
    case 's':
    case 'r': rc = s->type == 's' ? rt_j_put_str(r, v) : rt_j_put_repr(r, v); break;
    case 'c':
        if (v.type == RT_J_STR && rt_jstr_chars(r, v.s) == 1)
            rc = rt_j_put_str(r, v);
        else if (rt_jv_index(v, &code) && code >= 0 && code < 0x110000 && !(code >= 0xD800 && code < 0xE000))
            rc = rt_j_put_char(r, (uint32_t)code);
        else
            return rt_j_fail(r, "%%c requires int or char");
        break;
    default: return rt_j_fail(r, "unsupported format character '%c'", s->type);
    }
    if (rc == RT_OK) rc = rt_j_cut(r, mark, &text);
    bool safe = v.type == RT_J_STR && v.s->markup && s->type == 's';
    if (rc == RT_OK && p->markup && !safe) rc = rt_jstr_escape(r, text.s, &text);
    if (rc < 0) return rc;
    s->zero = false;
    if (s->type == 'c') s->precision = -1;
    if (!s->align) s->align = '>';
    return rt_jspec_put_text(r, s, text.s);
}

/* One directive, from behind the % on. */
static int put_directive(percent *p, const rt_jstr *f, size_t *at)
{
    rt_jspec s = { .width = -1, .precision = -1 };
    rt_jval v = rt_jv(RT_J_MISSING);
    int rc = RT_OK;
    if (*at < f->len && f->data[*at] == '(') {
        const char *close = memchr(f->data + *at, ')', f->len - *at);
        rt_jval key;
        rt_jpair *found;
        if (p->args.type != RT_J_DICT) return rt_j_fail(p->r, "format requires a mapping");
        if (!close) return rt_j_fail(p->r, "incomplete format key");
        rc = rt_jstr_part(p->r, f, *at + 1, (size_t)(close - f->data), &key);
        if (rc == RT_OK) rc = rt_jdict_find(p->r, p->args.d, key, &found);
        if (rc == RT_OK && !found) rc = rt_j_fail(p->r, "format key not found");
        if (rc < 0) return rc;
        v = found->value;
        *at = (size_t)(close - f->data) + 1;
    }
    for (; *at < f->len && strchr("-+ #0", f->data[*at]) && f->data[*at]; *at += 1) {
        char c = f->data[*at];
        if (c == '-')
            s.align = '<';
        else if (c == '#')
            s.alternate = true;
        else if (c == '0')
            s.zero = true;
        else if (s.sign != '+')
            s.sign = c;
    }
    if ((rc = read_number(p, f, at, &s.width)) < 0) return rc;
    if (s.width < -1) {
        s.align = '<';
        s.width = -s.width;
    }
    if (*at < f->len && f->data[*at] == '.') {
        *at += 1;
        s.precision = 0;
        if ((rc = read_number(p, f, at, &s.precision)) < 0) return rc;
        if (s.precision < 0) s.precision = 0;
    }
    while (*at < f->len && strchr("hlL", f->data[*at]) && f->data[*at]) *at += 1;
    if (*at >= f->len) return rt_j_fail(p->r, "incomplete format");
    s.type = f->data[(*at)++];
    if (s.type == '%') return rt_j_puts(p->r, "%");
    if (v.type == RT_J_MISSING && (rc = next_arg(p, &v)) < 0) return rc;
    return put_percent(p, &s, v);
}

int rt_j_percent(rt_jrun *r, const rt_jstr *f, rt_jval args, rt_jval *out)
{
    percent p = { .r = r, .markup = f->markup, .args = args, .items = &args, .n = 1 };
    if (args.type == RT_J_TUPLE) {
        p.items = args.l->items;
        p.n = args.l->n;
    }
    size_t mark = rt_j_mark(r);
    int rc = rt_j_tick(r, f->len / 64);
    for (size_t at = 0; at < f->len && rc == RT_OK;) {
        const char *sign = memchr(f->data + at, '%', f->len - at);
        size_t end = sign ? (size_t)(sign - f->data) : f->len;
        rc = rt_j_put(r, f->data + at, end - at);
        at = end + 1;
        if (rc == RT_OK && sign) rc = put_directive(&p, f, &at);
    }
    /* What could be a mapping may be left unused. */
    bool mapping =
        args.type == RT_J_DICT || args.type == RT_J_LIST || args.type == RT_J_UNDEFINED || args.type == RT_J_RANGE;
    if (rc == RT_OK && p.next < p.n && !mapping)
        rc = rt_j_fail(r, "not all arguments converted during string formatting");
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = f->markup;
    return rc;
}
