/* jinja_str_methods.c - methods of strings that change them or tell their kind: case, stripping, padding, replacing.
 *
 * Owns: those, and the helpers that filters share with them. Searching and splitting are in jinja_str_search.c. */
#include "base/utf8.h"
#include "text/jinja/jinja_call.h"
#include "text/jinja/jinja_unicode.h"

#include <string.h>

/* ---- case ---- */

static bool cased(uint32_t c) { return rt_ju_lower(c) || rt_ju_upper(c) || rt_ju_titled(c); }

/* A capital sigma at [at, after) ends a word when a letter is before it and none behind it. *seen: bytes looked at. */
static bool final_sigma(const rt_jstr *s, size_t at, size_t after, size_t *seen)
{
    size_t p = at;
    uint32_t c = 0;
    bool before = false;
    while (p > 0) {
        p = (size_t)(rt_utf8_before(s->data, s->data + p) - s->data);
        size_t q = p;
        c = rt_j_decode(s->data, s->len, &q);
        if (rt_ju_ignorable(c)) continue;
        before = cased(c);
        break;
    }
    *seen = at - p;
    if (!before) return false;
    for (p = after; p < s->len;) {
        c = rt_j_decode(s->data, s->len, &p);
        (*seen)++;
        if (!rt_ju_ignorable(c)) return !cased(c);
    }
    return true;
}

enum { SIGMA = 0x3A3, SMALL_SIGMA = 0x3C3, FINAL_SIGMA = 0x3C2 };

static int put_mapped(rt_jrun *r, uint32_t n, const uint32_t out[3])
{
    int rc = RT_OK;
    for (uint32_t i = 0; i < n && rc == RT_OK; i++) rc = rt_j_put_char(r, out[i]);
    return rc;
}

static int put_lower(rt_jrun *r, const rt_jstr *s, uint32_t c, size_t at, size_t after)
{
    uint32_t out[3] = { 0 };
    if (c != SIGMA) return put_mapped(r, rt_ju_to_lower(c, out), out);
    size_t seen;
    bool final = final_sigma(s, at, after, &seen);
    int rc = rt_j_tick(r, seen / 16);
    return rc == RT_OK ? rt_j_put_char(r, final ? FINAL_SIGMA : SMALL_SIGMA) : rc;
}

int rt_jstr_case(rt_jrun *r, const rt_jstr *s, rt_jcase mode, rt_jval *out)
{
    size_t mark = rt_j_mark(r);
    int rc = rt_j_tick(r, s->len / 4);
    bool in_word = false;
    for (size_t at = 0; at < s->len && rc == RT_OK;) {
        size_t from = at;
        uint32_t c = rt_j_decode(s->data, s->len, &at), mapped[3] = { 0 };
        rt_jcase how = mode;
        if (mode == RT_J_TITLE) how = in_word ? RT_J_LOWER : RT_J_TITLE;
        if (mode == RT_J_CAPITALIZE) how = from == 0 ? RT_J_TITLE : RT_J_LOWER;
        if (mode == RT_J_SWAPCASE) how = rt_ju_upper(c) ? RT_J_LOWER : rt_ju_lower(c) ? RT_J_UPPER : RT_J_SWAPCASE;
        if (mode == RT_J_TITLE) in_word = cased(c);
        switch (how) {
        case RT_J_LOWER: rc = put_lower(r, s, c, from, at); break;
        case RT_J_UPPER: rc = put_mapped(r, rt_ju_to_upper(c, mapped), mapped); break;
        case RT_J_TITLE: rc = put_mapped(r, rt_ju_to_title(c, mapped), mapped); break;
        case RT_J_FOLD: rc = put_mapped(r, rt_ju_fold(c, mapped), mapped); break;
        default: rc = rt_j_put_char(r, c); break;
        }
    }
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = s->markup;
    return rc;
}

int rt_j_ignore_case(rt_jrun *r, rt_jval v, rt_jval *out)
{
    if (v.type == RT_J_STR) return rt_jstr_case(r, v.s, RT_J_LOWER, out);
    *out = v;
    return RT_OK;
}

static int m_case(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    return rt_jstr_case(r, c->self.s, (rt_jcase)c->fn->how, out);
}

/* ---- stripping ---- */

static bool in_set(const rt_jstr *set, uint32_t c)
{
    if (!set) return rt_ju_space(c);
    for (size_t at = 0; at < set->len;)
        if (rt_j_decode(set->data, set->len, &at) == c) return true;
    return false;
}

void rt_jstr_ends(const rt_jstr *s, const rt_jstr *chars, bool left, bool right, size_t *from, size_t *to)
{
    *from = 0;
    *to = s->len;
    while (left && *from < *to) {
        size_t next = *from;
        if (!in_set(chars, rt_j_decode(s->data, s->len, &next))) break;
        *from = next;
    }
    while (right && *to > *from) {
        size_t at = (size_t)(rt_utf8_before(s->data + *from, s->data + *to) - s->data), next = at;
        if (!in_set(chars, rt_j_decode(s->data, s->len, &next))) break;
        *to = at;
    }
}

int rt_jstr_strip(rt_jrun *r, const rt_jstr *s, const rt_jstr *chars, bool left, bool right, rt_jval *out)
{
    size_t from, to;
    /* A long set on a long string: counted before it is done. */
    int rc = rt_j_tick(r, (1 + (chars ? (uint64_t)chars->len : 0)) * s->len / 16);
    if (rc < 0) return rc;
    rt_jstr_ends(s, chars, left, right, &from, &to);
    return rt_jstr_part(r, s, from, to, out);
}

enum { LEFT = 1, RIGHT = 2 };

static int m_strip(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jstr *chars;
    int rc = rt_jarg_str(r, c, 0, &chars);
    return rc == RT_OK ? rt_jstr_strip(r, c->self.s, chars, c->fn->how & LEFT, c->fn->how & RIGHT, out) : rc;
}

static int m_remove(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jstr *fix, *s = c->self.s;
    bool left = c->fn->how == LEFT;
    int rc = rt_jarg_str(r, c, 0, &fix);
    if (rc == RT_OK && !fix) rc = rt_j_fail(r, "%s() argument must be str", c->fn->name);
    if (rc < 0) return rc;
    r->seen += fix->len;
    bool has = fix->len <= s->len && memcmp(s->data + (left ? 0 : s->len - fix->len), fix->data, fix->len) == 0;
    return rt_jstr_part(r, s, has && left ? fix->len : 0, has && !left ? s->len - fix->len : s->len, out);
}

/* ---- replacing and joining ---- */

/* Between all characters and at both ends. */
static int replace_nothing(rt_jrun *r, const rt_jstr *s, const rt_jstr *with, int64_t count, rt_jval *out)
{
    size_t mark = rt_j_mark(r);
    int rc = RT_OK;
    for (size_t at = 0; rc == RT_OK; count--) {
        size_t from = at;
        if (count != 0) rc = rt_j_put(r, with->data, with->len);
        if (rc < 0 || at >= s->len) break;
        if (count == 0)
            at = s->len;
        else
            rt_j_decode(s->data, s->len, &at);
        rc = rt_j_put(r, s->data + from, at - from);
        if (count == 0) break;
        if (rc == RT_OK) rc = rt_j_tick(r, 1);
    }
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}

int rt_jstr_replace(rt_jrun *r, const rt_jstr *s, const rt_jstr *old, const rt_jstr *new_, int64_t count, rt_jval *out)
{
    if (count < 0) count = INT64_MAX;
    if (old->len == 0) return replace_nothing(r, s, new_, count, out);
    size_t mark = rt_j_mark(r), at = 0, found = 0;
    int rc = RT_OK;
    for (; rc == RT_OK && count > 0; count--) {
        rc = rt_jstr_find(r, s, old, at, s->len, false, &found);
        if (rc < 0 || found == SIZE_MAX) break;
        rc = rt_j_put(r, s->data + at, found - at);
        if (rc == RT_OK) rc = rt_j_put(r, new_->data, new_->len);
        if (rc == RT_OK) rc = rt_j_tick(r, 1);
        at = found + old->len;
    }
    if (rc == RT_OK) rc = rt_j_put(r, s->data + at, s->len - at);
    return rc == RT_OK ? rt_j_cut(r, mark, out) : rc;
}

static int m_replace(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jstr *old, *with;
    rt_jval safe;
    int64_t count;
    int rc = rt_jarg_str(r, c, 0, &old);
    if (rc == RT_OK) rc = rt_jarg_str(r, c, 1, &with);
    if (rc == RT_OK) rc = rt_jarg_index(r, c, 2, -1, &count);
    if (rc == RT_OK && (!old || !with)) rc = rt_j_fail(r, "replace() arguments must be str");
    if (rc == RT_OK && c->self.s->markup && !with->markup) {
        rc = rt_jstr_escape(r, with, &safe);
        if (rc == RT_OK) with = safe.s;
    }
    if (rc == RT_OK) rc = rt_jstr_replace(r, c->self.s, old, with, count, out);
    if (rc == RT_OK) out->s->markup = c->self.s->markup;
    return rc;
}

static int m_join(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    const rt_jstr *sep = c->self.s;
    rt_jlist *items;
    int rc = rt_j_to_list(r, c->a[0], &items);
    size_t mark = rt_j_mark(r);
    for (uint32_t i = 0; rc == RT_OK && i < items->n; i++) {
        rt_jval item = items->items[i];
        if (!sep->markup && item.type != RT_J_STR)
            return rt_j_fail(r, "sequence item %u: expected str instance, %s found", i, rt_jtype_name(item.type));
        if (sep->markup) rc = rt_j_str(r, item, &item);
        if (rc == RT_OK && sep->markup && !item.s->markup) rc = rt_jstr_escape(r, item.s, &item);
        if (rc == RT_OK && i > 0) rc = rt_j_put(r, sep->data, sep->len);
        if (rc == RT_OK) rc = rt_j_put(r, item.s->data, item.s->len);
        if (rc == RT_OK) rc = rt_j_tick(r, 1);
    }
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = sep->markup;
    return rc;
}

static int m_format(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return rt_j_format(r, c->self.s, c->args, out); }

/* ---- padding ---- */

int rt_jstr_pad(rt_jrun *r, const rt_jstr *s, int64_t width, const rt_jstr *fill, char align, rt_jval *out)
{
    rt_jstr copy = *s;
    int64_t missing = width - (int64_t)rt_jstr_chars(r, &copy);
    if (missing <= 0) return rt_jstr_part(r, s, 0, s->len, out);
    if ((uint64_t)missing > r->output_left) return rt_j_fail(r, "a width of %lld is too large", (long long)width);
    /* An odd blank of center() goes where Python puts it: left when the width is odd too. */
    int64_t before = align == '>' ? missing : align == '^' ? missing / 2 + (missing & width & 1) : 0;
    size_t mark = rt_j_mark(r);
    int rc = rt_j_tick(r, (uint64_t)missing / 16);
    for (int64_t i = 0; i < missing && rc == RT_OK; i++) {
        if (i == before) rc = rt_j_put(r, s->data, s->len);
        if (rc == RT_OK) rc = fill ? rt_j_put(r, fill->data, fill->len) : rt_j_put(r, " ", 1);
    }
    if (rc == RT_OK && before == missing) rc = rt_j_put(r, s->data, s->len);
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = s->markup;
    return rc;
}

static int m_pad(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    int64_t width;
    rt_jstr *fill;
    int rc = rt_jarg_index(r, c, 0, 0, &width);
    if (rc == RT_OK) rc = rt_jarg_str(r, c, 1, &fill);
    if (rc == RT_OK && rt_jarg_given(c, 1) && (!fill || rt_jstr_chars(r, fill) != 1))
        rc = rt_j_fail(r, "the fill character must be exactly one character long");
    return rc == RT_OK ? rt_jstr_pad(r, c->self.s, width, fill, (char)c->fn->how, out) : rc;
}

static int m_zfill(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    rt_jstr *s = c->self.s, zero = { .data = "0", .len = 1, .chars = 1 };
    bool sign = s->len > 0 && (s->data[0] == '-' || s->data[0] == '+');
    int64_t width;
    rt_jval digits, front;
    int rc = rt_jarg_index(r, c, 0, 0, &width);
    if (rc == RT_OK) rc = rt_jstr_part(r, s, sign, s->len, &digits);
    if (rc == RT_OK && width > INT64_MIN) rc = rt_jstr_pad(r, digits.s, width - sign, &zero, '>', out);
    if (rc < 0 || !sign) return rc;
    rc = rt_jstr_part(r, s, 0, 1, &front);
    return rc == RT_OK ? rt_jstr_concat(r, front.s, out->s, out) : rc;
}

static int m_expandtabs(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    const rt_jstr *s = c->self.s;
    int64_t tab, column = 0;
    size_t mark = rt_j_mark(r);
    int rc = rt_jarg_index(r, c, 0, 8, &tab);
    for (size_t at = 0; at < s->len && rc == RT_OK;) {
        size_t from = at;
        uint32_t ch = rt_j_decode(s->data, s->len, &at);
        if (ch == '\t') {
            for (int64_t n = tab > 0 ? tab - column % tab : 0; n > 0 && rc == RT_OK; n--, column++)
                rc = rt_j_put(r, " ", 1);
        } else {
            column = ch == '\n' || ch == '\r' ? 0 : column + 1;
            rc = rt_j_put(r, s->data + from, at - from);
        }
        if (rc == RT_OK) rc = rt_j_tick(r, 1);
    }
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = s->markup;
    return rc;
}

/* ---- kinds ---- */

static bool all(const rt_jstr *s, bool (*is)(uint32_t))
{
    for (size_t at = 0; at < s->len;)
        if (!is(rt_j_decode(s->data, s->len, &at))) return false;
    return s->len > 0;
}

static int tell(rt_jrun *r, const rt_jcall *c, bool answer, rt_jval *out)
{
    *out = rt_jv_bool(answer);
    return rt_j_tick(r, c->self.s->len / 4);
}

#define KIND_METHOD(name, is)                                                                                          \
    static int name(rt_jrun *r, const rt_jcall *c, rt_jval *out) { return tell(r, c, all(c->self.s, is), out); }
KIND_METHOD(m_isalpha, rt_ju_alpha)
KIND_METHOD(m_isalnum, rt_ju_alnum)
KIND_METHOD(m_isdecimal, rt_ju_decimal)
KIND_METHOD(m_isdigit, rt_ju_digit)
KIND_METHOD(m_isspace, rt_ju_space)

static int m_isprintable(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    return tell(r, c, c->self.s->len == 0 || all(c->self.s, rt_ju_printable), out);
}

static int m_isascii(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    return tell(r, c, rt_jstr_chars(r, c->self.s) == c->self.s->len, out);
}

static int m_isidentifier(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    const rt_jstr *s = c->self.s;
    size_t at = 0;
    bool yes = s->len > 0 && rt_ju_name_start(rt_j_decode(s->data, s->len, &at));
    while (yes && at < s->len) yes = rt_ju_name_part(rt_j_decode(s->data, s->len, &at));
    return tell(r, c, yes, out);
}

/* All letters that have a case have this one, and there is one at least. */
static int m_iscase(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    const rt_jstr *s = c->self.s;
    bool any = false, yes = true, upper = c->fn->how == RT_J_UPPER;
    for (size_t at = 0; at < s->len && yes;) {
        uint32_t ch = rt_j_decode(s->data, s->len, &at);
        yes = !rt_ju_titled(ch) && !(upper ? rt_ju_lower(ch) : rt_ju_upper(ch));
        any = any || (upper ? rt_ju_upper(ch) : rt_ju_lower(ch));
    }
    return tell(r, c, yes && any, out);
}

static int m_istitle(rt_jrun *r, const rt_jcall *c, rt_jval *out)
{
    const rt_jstr *s = c->self.s;
    bool any = false, in_word = false, yes = true;
    for (size_t at = 0; at < s->len && yes;) {
        uint32_t ch = rt_j_decode(s->data, s->len, &at);
        bool capital = rt_ju_upper(ch) || rt_ju_titled(ch), small = rt_ju_lower(ch);
        if (capital)
            yes = !in_word;
        else if (small)
            yes = in_word;
        in_word = capital || small;
        any = any || in_word;
    }
    return tell(r, c, yes && any, out);
}

const rt_jbuiltin rt_j_str_methods[] = {
    { "upper", "", m_case, RT_J_UPPER },
    { "lower", "", m_case, RT_J_LOWER },
    { "title", "", m_case, RT_J_TITLE },
    { "capitalize", "", m_case, RT_J_CAPITALIZE },
    { "swapcase", "", m_case, RT_J_SWAPCASE },
    { "casefold", "", m_case, RT_J_FOLD },
    { "strip", "chars= /", m_strip, LEFT | RIGHT },
    { "lstrip", "chars= /", m_strip, LEFT },
    { "rstrip", "chars= /", m_strip, RIGHT },
    { "removeprefix", "prefix /", m_remove, LEFT },
    { "removesuffix", "suffix /", m_remove, RIGHT },
    { "replace", "old new count= /", m_replace, 0 },
    { "join", "iterable /", m_join, 0 },
    { "format", NULL, m_format, 0 },
    { "ljust", "width fillchar= /", m_pad, '<' },
    { "rjust", "width fillchar= /", m_pad, '>' },
    { "center", "width fillchar= /", m_pad, '^' },
    { "zfill", "width /", m_zfill, 0 },
    { "expandtabs", "tabsize=", m_expandtabs, 0 },
    { "isalpha", "", m_isalpha, 0 },
    { "isalnum", "", m_isalnum, 0 },
    { "isdecimal", "", m_isdecimal, 0 },
    { "isdigit", "", m_isdigit, 0 },
    { "isspace", "", m_isspace, 0 },
    { "isprintable", "", m_isprintable, 0 },
    { "isascii", "", m_isascii, 0 },
    { "isidentifier", "", m_isidentifier, 0 },
    { "isupper", "", m_iscase, RT_J_UPPER },
    { "islower", "", m_iscase, RT_J_LOWER },
    { "istitle", "", m_istitle, 0 },
    { 0 },
};
