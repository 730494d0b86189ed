/* jinja_ops.c - arithmetic, and what + * % mean for strings and lists.
 *
 * Owns: Python's rules for numbers with one exception: integers have 64 bits, and what does not fit is an error. */
#include "text/jinja/jinja_call.h"

#include <math.h>
#include <string.h>

static const char *const signs[] = { "+", "-", "*", "/", "//", "%", "** or pow()" };

static int too_large(rt_jrun *r) { return rt_j_fail(r, "an integer does not fit into 64 bits"); }

static double to_double(rt_jval v) { return v.type == RT_J_FLOAT ? v.f : v.type == RT_J_BOOL ? v.b : (double)v.i; }

/* Towards minus infinity; the remainder has the sign of b. */
static int64_t floor_div(int64_t a, int64_t b) { return a / b - ((a % b != 0) && ((a < 0) != (b < 0))); }

static double float_mod(double a, double b)
{
    double m = fmod(a, b);
    if (m == 0) return copysign(0.0, b);
    return (m < 0) != (b < 0) ? m + b : m;
}

static double float_floor_div(double a, double b)
{
    /* As Python does it: from the remainder, so that a == b * (a // b) + a % b as nearly as can be. */
    double mod = fmod(a, b), div = (a - mod) / b;
    if (mod != 0 && (mod < 0) != (b < 0)) div -= 1.0;
    if (div == 0) return copysign(0.0, a / b);
    double whole = floor(div);
    return div - whole > 0.5 ? whole + 1.0 : whole;
}

static double int_div(int64_t a, int64_t b)
{
    /* Integers that a double cannot hold are divided in long double. That rounds twice, so beyond 2^53 the last bit may
     * differ from Python's. */
    if (a > -(INT64_C(1) << 53) && a < (INT64_C(1) << 53) && b > -(INT64_C(1) << 53) && b < (INT64_C(1) << 53))
        return (double)a / (double)b;
    return (double)((long double)a / (long double)b);
}

static int int_pow(rt_jrun *r, int64_t base, int64_t exponent, rt_jval *out)
{
    if (exponent < 0) {
        if (base == 0) return rt_j_fail(r, "0.0 cannot be raised to a negative power");
        *out = rt_jv_float(pow((double)base, (double)exponent));
        return RT_OK;
    }
    int64_t result = 1;
    while (exponent > 0) {
        if ((exponent & 1) && __builtin_mul_overflow(result, base, &result)) return too_large(r);
        exponent >>= 1;
        if (exponent > 0 && __builtin_mul_overflow(base, base, &base)) return too_large(r);
    }
    *out = rt_jv_int(result);
    return RT_OK;
}

static int int_binary(rt_jrun *r, rt_jop op, int64_t a, int64_t b, rt_jval *out)
{
    int64_t result;
    bool overflow = false;
    if (b == 0 && (op == RT_J_DIV || op == RT_J_FLOORDIV || op == RT_J_MOD))
        return rt_j_fail(r, op == RT_J_DIV ? "division by zero" : "integer division or modulo by zero");
    switch (op) {
    case RT_J_ADD: overflow = __builtin_add_overflow(a, b, &result); break;
    case RT_J_SUB: overflow = __builtin_sub_overflow(a, b, &result); break;
    case RT_J_MUL: overflow = __builtin_mul_overflow(a, b, &result); break;
    case RT_J_DIV: *out = rt_jv_float(int_div(a, b)); return RT_OK;
    case RT_J_FLOORDIV:
    case RT_J_MOD:
        if (b == -1) { /* INT64_MIN / -1 traps */
            if (op == RT_J_FLOORDIV)
                overflow = __builtin_sub_overflow((int64_t)0, a, &result);
            else
                result = 0;
            break;
        }
        result = floor_div(a, b);
        if (op == RT_J_MOD) result = a - result * b;
        break;
    default: return int_pow(r, a, b, out);
    }
    if (overflow) return too_large(r);
    *out = rt_jv_int(result);
    return RT_OK;
}

static int float_binary(rt_jrun *r, rt_jop op, double a, double b, rt_jval *out)
{
    double result = 0;
    if (b == 0 && (op == RT_J_DIV || op == RT_J_FLOORDIV || op == RT_J_MOD))
        return rt_j_fail(r, op == RT_J_DIV ? "float division by zero" : "float floor division or modulo by zero");
    switch (op) {
    case RT_J_ADD: result = a + b; break;
    case RT_J_SUB: result = a - b; break;
    case RT_J_MUL: result = a * b; break;
    case RT_J_DIV: result = a / b; break;
    case RT_J_FLOORDIV: result = float_floor_div(a, b); break;
    case RT_J_MOD: result = float_mod(a, b); break;
    default:
        if (a == 0 && b < 0) return rt_j_fail(r, "0.0 cannot be raised to a negative power");
        if (a < 0 && isfinite(a) && isfinite(b) && b != floor(b))
            return rt_j_unsupported(r, "a power of a negative number with a broken exponent is not supported");
        result = pow(a, b);
        if (isinf(result) && isfinite(a) && isfinite(b)) return rt_j_fail(r, "numerical result out of range");
        break;
    }
    *out = rt_jv_float(result);
    return RT_OK;
}

/* ---- lists ---- */

static int add_lists(rt_jrun *r, rt_jval a, rt_jval b, rt_jval *out)
{
    rt_jlist *l;
    uint64_t n = (uint64_t)a.l->n + b.l->n;
    int rc = rt_j_tick(r, n / 16);
    if (rc == RT_OK && n > INT32_MAX) rc = rt_j_fail(r, "a list is too long");
    if (rc == RT_OK) rc = rt_jlist_new(r, (uint32_t)n, &l);
    if (rc < 0) return rc;
    if (a.l->n > 0) memcpy(l->items, a.l->items, a.l->n * sizeof *l->items);
    if (b.l->n > 0) memcpy(l->items + a.l->n, b.l->items, b.l->n * sizeof *l->items);
    l->n = (uint32_t)n;
    *out = rt_jv_list(a.type, l);
    return RT_OK;
}

static int repeat_list(rt_jrun *r, rt_jval v, int64_t times, rt_jval *out)
{
    rt_jlist *l;
    uint64_t n = 0;
    if (times > 0 && (!rt_mul_u64((uint64_t)times, v.l->n, &n) || n > INT32_MAX))
        return rt_j_fail(r, "a list repeated %lld times is too long", (long long)times);
    int rc = rt_j_tick(r, n / 16);
    if (rc == RT_OK) rc = rt_jlist_new(r, (uint32_t)n, &l);
    if (rc < 0) return rc;
    while (l->n < n) {
        memcpy(l->items + l->n, v.l->items, v.l->n * sizeof *l->items);
        l->n += v.l->n;
    }
    *out = rt_jv_list(v.type, l);
    return RT_OK;
}

static int multiply(rt_jrun *r, rt_jval v, int64_t times, rt_jval *out)
{
    return v.type == RT_J_STR ? rt_jstr_repeat(r, v.s, times, out) : repeat_list(r, v, times, out);
}

static bool repeatable(rt_jval v) { return v.type == RT_J_STR || rt_jv_is_list(v); }

int rt_j_binary(rt_jrun *r, rt_jop op, rt_jval a, rt_jval b, rt_jval *out)
{
    int64_t i, k;
    if (rt_jv_is_number(a) && rt_jv_is_number(b)) {
        if (rt_jv_index(a, &i) && rt_jv_index(b, &k)) return int_binary(r, op, i, k, out);
        return float_binary(r, op, to_double(a), to_double(b), out);
    }
    /* "%s" % x comes before the error of an undefined x: it prints it. */
    if (op == RT_J_MOD && a.type == RT_J_STR) return rt_j_percent(r, a.s, b, out);
    if (a.type == RT_J_UNDEFINED) return rt_jundef_fail(r, a);
    if (b.type == RT_J_UNDEFINED) return rt_jundef_fail(r, b);
    if (op == RT_J_ADD && a.type == RT_J_STR && b.type == RT_J_STR) return rt_jstr_concat(r, a.s, b.s, out);
    if (op == RT_J_ADD && rt_jv_is_list(a) && a.type == b.type) return add_lists(r, a, b, out);
    if (op == RT_J_MUL && repeatable(a) && rt_jv_index(b, &i)) return multiply(r, a, i, out);
    if (op == RT_J_MUL && repeatable(b) && rt_jv_index(a, &i)) return multiply(r, b, i, out);
    if (a.type == RT_J_VIEW && b.type == RT_J_VIEW && op == RT_J_SUB)
        return rt_j_unsupported(r, "the difference of dict views is not supported");
    if (op == RT_J_ADD && a.type == RT_J_STR)
        return rt_j_fail(r, "can only concatenate str (not \"%s\") to str", rt_jtype_name(b.type));
    return rt_j_fail(r, "unsupported operand type(s) for %s: '%s' and '%s'", signs[op], rt_jtype_name(a.type),
                     rt_jtype_name(b.type));
}

int rt_j_negate(rt_jrun *r, rt_jval v, bool minus, rt_jval *out)
{
    int64_t i;
    if (v.type == RT_J_UNDEFINED) return rt_jundef_fail(r, v);
    if (v.type == RT_J_FLOAT) {
        *out = rt_jv_float(minus ? -v.f : v.f);
        return RT_OK;
    }
    if (!rt_jv_index(v, &i))
        return rt_j_fail(r, "bad operand type for unary %c: '%s'", minus ? '-' : '+', rt_jtype_name(v.type));
    if (minus && i == INT64_MIN) return too_large(r);
    *out = rt_jv_int(minus ? -i : i);
    return RT_OK;
}
