/* jinja_filter_other.c - filters for single values: default, numbers, attr, tojson.
 *
 * Owns: how text becomes a number. */
#include "text/jinja/jinja_call.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int f_default(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    *out = c->self;
    if (c->self.type != RT_J_UNDEFINED && (rt_j_truth(c->self) || !rt_jarg_truth(c, 1, false))) return RT_OK;
    *out = c->a[0];
    return rt_jarg_given(c, 0) ? RT_OK : rt_jstr_literal(r, "", out);
}

static int f_attr(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jstr *name;
    int rc = rt_jarg_str(r, c, 0, &name);
    if (rc == RT_OK && !name) rc = rt_j_fail(r, "attr: the name must be str");
    if (rc < 0) return rc;
    /* Of a dict this finds methods only, never keys. */
    rt_jdict none = { 0 };
    rt_jval self = c->self;
    if (self.type != RT_J_DICT) return rt_j_getattr(r, self, name, out);
    rt_jval bare = { .type = RT_J_DICT, .d = &none };
    rc = rt_j_getattr(r, bare, name, out);
    return rc == RT_OK && out->type != RT_J_UNDEFINED ? rt_j_getattr(r, self, name, out) : rc;
}

/* ---- text to numbers ---- */

/* The text without blanks around it and without single underscores between digits, terminated; false: no number. */
static bool clean_number(const rt_jstr *s, char *buf, size_t size)
{
    size_t from, to, n = 0;
    rt_jstr_ends(s, NULL, true, true, &from, &to);
    if (from == to || to - from >= size) return false;
    for (size_t i = from; i < to; i++) {
        unsigned char c = (unsigned char)s->data[i];
        if (c >= 0x80 || c == '\0') return false;
        if (c != '_') {
            buf[n++] = (char)c;
            continue;
        }
        bool between = i > from && i + 1 < to && strchr("0123456789abcdefABCDEF", s->data[i - 1]) &&
                       strchr("0123456789abcdefABCDEF", s->data[i + 1]);
        bool behind_prefix = i == from + 2 && s->data[from] == '0' && strchr("xXoObB", s->data[i - 1]);
        if (!between && !behind_prefix) return false;
    }
    buf[n] = '\0';
    return true;
}

/* float(text), as Python reads it. */
static bool to_float(const rt_jstr *s, double *out)
{
    enum { SIZE = 512 };
    char buf[SIZE], *end;
    if (!clean_number(s, buf, SIZE)) return false;
    const char *p = buf + (*buf == '+' || *buf == '-');
    /* strtod reads more than Python does: hexadecimal, and nan with brackets. */
    if (strpbrk(p, "xXpP()")) return false;
    *out = strtod(buf, &end);
    return *end == '\0' && end != buf;
}

typedef enum parsed { PARSED, NO_NUMBER, TOO_LARGE } parsed;

/* int(text, base) */
static parsed to_int(const rt_jstr *s, int base, int64_t *out)
{
    enum { SIZE = 512 };
    char buf[SIZE];
    if ((base != 0 && base < 2) || base > 36 || !clean_number(s, buf, SIZE)) return NO_NUMBER;
    const char *p = buf;
    bool negative = *p == '-';
    p += *p == '-' || *p == '+';
    int prefix = *p == '0' ? (p[1] | 32) == 'x' ? 16 : (p[1] | 32) == 'o' ? 8 : (p[1] | 32) == 'b' ? 2 : 0 : 0;
    if (prefix && (base == prefix || base == 0)) {
        p += 2;
        base = prefix;
    } else if (base == 0) {
        base = 10;
        if (*p == '0' && strspn(p, "0") != strlen(p)) return NO_NUMBER;
    }
    if (!*p) return NO_NUMBER;
    uint64_t n = 0;
    bool large = false;
    for (; *p; p++) {
        int digit = *p >= '0' && *p <= '9'                 ? *p - '0'
                    : (*p | 32) >= 'a' && (*p | 32) <= 'z' ? (*p | 32) - 'a' + 10
                                                           : 36;
        if (digit >= base) return NO_NUMBER;
        large = large || !rt_mul_u64(n, (uint64_t)base, &n) || !rt_add_u64(n, (uint64_t)digit, &n) || n > INT64_MAX;
    }
    if (large) return TOO_LARGE;
    *out = negative ? -(int64_t)n : (int64_t)n;
    return PARSED;
}

/* int(x): false when there is no such integer; too large ones are an error. */
static int float_to_int(rt_jrun *r, double x, rt_jval *out)
{
    if (!(fabs(x) < 9223372036854775808.0)) return rt_j_fail(r, "an integer does not fit into 64 bits");
    *out = rt_jv_int((int64_t)x);
    return RT_OK;
}

static int f_int(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    int64_t i, base;
    double x;
    int rc = rt_jarg_index(r, c, 1, 10, &base);
    if (rc < 0) return rc;
    if (c->self.type == RT_J_UNDEFINED) return rt_jundef_fail(r, c->self);
    *out = rt_jarg_given(c, 0) ? c->a[0] : rt_jv_int(0);
    if (rt_jv_index(c->self, &i))
        *out = rt_jv_int(i);
    else if (c->self.type == RT_J_FLOAT && isinf(c->self.f))
        return rt_j_fail(r, "cannot convert float infinity to integer");
    else if (c->self.type == RT_J_FLOAT && !isnan(c->self.f))
        return float_to_int(r, c->self.f, out);
    else if (c->self.type == RT_J_STR) {
        parsed how = to_int(c->self.s, base < 0 || base > 99 ? 99 : (int)base, &i);
        if (how == TOO_LARGE) return rt_j_fail(r, "an integer does not fit into 64 bits");
        if (how == PARSED)
            *out = rt_jv_int(i);
        else if (to_float(c->self.s, &x) && isfinite(x))
            return float_to_int(r, x, out);
    }
    return RT_OK;
}

static int f_float(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    int64_t i;
    double x;
    if (c->self.type == RT_J_UNDEFINED) return rt_jundef_fail(r, c->self);
    *out = rt_jarg_given(c, 0) ? c->a[0] : rt_jv_float(0.0);
    if (c->self.type == RT_J_FLOAT)
        *out = c->self;
    else if (rt_jv_index(c->self, &i))
        *out = rt_jv_float((double)i);
    else if (c->self.type == RT_J_STR && to_float(c->self.s, &x))
        *out = rt_jv_float(x);
    return RT_OK;
}

/* ---- numbers ---- */

static int f_abs(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    int64_t i;
    if (c->self.type == RT_J_FLOAT) {
        *out = rt_jv_float(fabs(c->self.f));
        return RT_OK;
    }
    if (!rt_jv_index(c->self, &i)) return rt_j_fail(r, "bad operand type for abs(): '%s'", rt_jtype_name(c->self.type));
    return i < 0 ? rt_j_negate(r, rt_jv_int(i), true, out) : (*out = rt_jv_int(i), RT_OK);
}

/* round(i, -digits): to a multiple of a power of ten, halves to the even one. */
static int round_int(rt_jrun *r, int64_t i, int64_t digits, rt_jval *out)
{
    __int128 unit = 1, x = i;
    *out = rt_jv_int(0);
    if (digits > 19) return RT_OK;
    while (digits-- > 0) unit *= 10;
    __int128 rest = ((x % unit) + unit) % unit, low = x - rest;
    bool up = 2 * rest > unit || (2 * rest == unit && (low / unit) % 2 != 0);
    x = low + (up ? unit : 0);
    if (x > INT64_MAX || x < INT64_MIN) return rt_j_fail(r, "an integer does not fit into 64 bits");
    *out = rt_jv_int((int64_t)x);
    return RT_OK;
}

/* A finite float to a multiple of 10^tens: as many digits as are left of that place, rounded once, halves to even. */
static double round_tens(double x, int tens)
{
    enum { SIZE = 400 };
    char buf[SIZE];
    snprintf(buf, SIZE, "%.17e", x);
    int kept = atoi(strchr(buf, 'e') + 1) + 1 - tens; /* digits before the place */
    if (kept < 0) return copysign(0.0, x);
    if (kept > 0)
        snprintf(buf, SIZE, "%.*e", kept - 1, x);
    else
        snprintf(buf, SIZE, "%de%d", fabs(x) > 0.5 * pow(10, tens) ? 1 : 0, tens);
    return copysign(fabs(strtod(buf, NULL)), x);
}

static int round_common(rt_jrun *r, rt_jval v, int64_t digits, rt_jval *out)
{
    enum { MOST = 340 }; /* digits after the point that a double can have an influence on */
    int64_t i;
    if (rt_jv_index(v, &i)) {
        *out = rt_jv_int(i);
        return digits >= 0 ? RT_OK : round_int(r, i, digits == INT64_MIN ? INT64_MAX : -digits, out);
    }
    *out = v;
    if (!isfinite(v.f) || digits > MOST) return RT_OK;
    if (digits < 0) {
        *out = rt_jv_float(digits < -MOST ? copysign(0.0, v.f) : round_tens(v.f, (int)-digits));
        return isfinite(out->f) ? RT_OK : rt_j_fail(r, "round: the result is too large");
    }
    /* The decimal digits are exact and rounded once, halves to even, as Python does it. */
    char buf[2 * MOST + 32];
    snprintf(buf, sizeof buf, "%.*f", (int)digits, v.f);
    *out = rt_jv_float(strtod(buf, NULL));
    return RT_OK;
}

static int f_round(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    int64_t digits;
    rt_jstr *method;
    int rc = rt_jarg_index(r, c, 0, 0, &digits);
    if (rc == RT_OK) rc = rt_jarg_str(r, c, 1, &method);
    if (rc < 0) return rc;
    bool up = method && rt_jstr_is(method, "ceil"), down = method && rt_jstr_is(method, "floor");
    if (rt_jarg_given(c, 1) && !up && !down && !(method && rt_jstr_is(method, "common")))
        return rt_j_fail(r, "round: method must be common, ceil or floor");
    if (!rt_jv_is_number(c->self))
        return rt_j_fail(r, "round: type %s doesn't define __round__ method", rt_jtype_name(c->self.type));
    if (!up && !down) return round_common(r, c->self, digits, out);
    int64_t i;
    double x = rt_jv_index(c->self, &i) ? (double)i : c->self.f, unit = pow(10, (double)digits), scaled = x * unit;
    if (!isfinite(scaled))
        return rt_j_fail(r, "round: cannot convert %s to integer", isnan(scaled) ? "NaN" : "infinity");
    scaled = (up ? ceil(scaled) : floor(scaled)) / unit;
    *out = rt_jv_float(scaled == 0 ? 0.0 : scaled); /* the integer between has no minus zero */
    return RT_OK;
}

const rt_jbuiltin rt_j_other_filters[] = {
    { "default", "default_value= boolean=", f_default, 0 },
    { "d", "default_value= boolean=", f_default, 0 },
    { "attr", "name", f_attr, 0 },
    { "int", "default= base=", f_int, 0 },
    { "float", "default=", f_float, 0 },
    { "abs", "", f_abs, 0 },
    { "round", "precision= method=", f_round, 0 },
    { "tojson", "ensure_ascii= indent= separators= sort_keys=", rt_j_tojson, 0 },
    { 0 },
};
