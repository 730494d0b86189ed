/* jinja_str.c - strings: UTF-8 in and out, parts, search, joining, and the scratch in which text is made.
 *
 * Owns: bytes and code points. Leaves letters and their case to jinja_unicode.c, and Python's text of values to
 * jinja_repr.c. */
#include "base/utf8.h"
#include "text/jinja/jinja_value.h"

#include <string.h>

/* ---- UTF-8 ---- */

uint32_t rt_j_decode(const char *data, size_t len, size_t *at)
{
    const unsigned char *p = (const unsigned char *)data + *at;
    size_t left = len - *at;
    uint32_t c = p[0], extra = c < 0x80 ? 0 : c < 0xE0 ? 1 : c < 0xF0 ? 2 : 3;
    if (extra >= left || (c >= 0x80 && c < 0xC0)) {
        *at += 1;
        return 0xFFFD;
    }
    if (extra > 0) c &= 0x3Fu >> extra;
    for (uint32_t i = 1; i <= extra; i++) c = c << 6 | (p[i] & 0x3Fu);
    *at += extra + 1;
    return c;
}

static uint32_t count_chars(const char *data, size_t len)
{
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)data[i] & 0xC0) != 0x80;
    return n;
}

/* ---- making ---- */

int rt_jstr_view(rt_jrun *r, const char *data, size_t len, rt_jval *out)
{
    if (len > INT32_MAX) return rt_j_fail(r, "a string of %zu bytes is too long", len);
    rt_jstr *s = rt_j_alloc(r, sizeof *s);
    if (!s) return rt_j_status(r);
    *s = (rt_jstr){ .data = data, .len = (uint32_t)len, .chars = RT_J_UNCOUNTED };
    *out = rt_jv_str(s);
    return RT_OK;
}

int rt_jstr_literal(rt_jrun *r, const char *terminated, rt_jval *out)
{
    return rt_jstr_view(r, terminated, strlen(terminated), out);
}

int rt_jstr_part(rt_jrun *r, const rt_jstr *s, size_t from, size_t to, rt_jval *out)
{
    int rc = rt_jstr_view(r, s->data + from, to - from, out);
    if (rc < 0) return rc;
    out->s->markup = s->markup;
    if (s->chars == s->len) out->s->chars = out->s->len;
    return RT_OK;
}

uint32_t rt_jstr_chars(rt_jrun *r, rt_jstr *s)
{
    if (s->chars == RT_J_UNCOUNTED) r->seen += s->len;
    if (s->chars == RT_J_UNCOUNTED) s->chars = count_chars(s->data, s->len);
    return s->chars;
}

bool rt_jstr_equal(rt_jrun *r, const rt_jstr *a, const rt_jstr *b)
{
    if (a->len == b->len && a->data != b->data) r->seen += a->len;
    return a->len == b->len && (a->data == b->data || memcmp(a->data, b->data, a->len) == 0);
}

bool rt_jstr_is(const rt_jstr *s, const char *terminated)
{
    return strlen(terminated) == s->len && memcmp(s->data, terminated, s->len) == 0;
}

int rt_jstr_order(rt_jrun *r, const rt_jstr *a, const rt_jstr *b)
{
    uint32_t n = a->len < b->len ? a->len : b->len;
    r->seen += n;
    int order = n ? memcmp(a->data, b->data, n) : 0; /* the order of UTF-8 bytes is that of code points */
    return order ? order : (a->len > b->len) - (a->len < b->len);
}

size_t rt_jstr_offset(rt_jrun *r, const rt_jstr *s, uint32_t index)
{
    if (s->chars == s->len) return index;
    size_t at = 0;
    r->seen += index;
    for (; index > 0 && at < s->len; index--) rt_j_decode(s->data, s->len, &at);
    return at;
}

/* Compares as it goes back, and counts: on text made for it this is quadratic. */
static int find_last(rt_jrun *r, const rt_jstr *s, const rt_jstr *needle, size_t from, size_t to, size_t *at)
{
    uint64_t work = 0;
    *at = SIZE_MAX;
    for (size_t p = to - needle->len + 1; p-- > from && *at == SIZE_MAX;) {
        uint32_t same = 0;
        while (same < needle->len && s->data[p + same] == needle->data[same]) same++;
        if (same == needle->len) *at = p;
        work += same + 1;
        if (work > 4096) {
            int rc = rt_j_tick(r, work / 64);
            if (rc < 0) return rc;
            work = 0;
        }
    }
    return rt_j_tick(r, work / 64);
}

/* In windows of some length: a search for one of many matches must not look at (or, sanitized, check) all that follows.
 */
static int find_first(rt_jrun *r, const rt_jstr *s, const rt_jstr *needle, size_t from, size_t to, size_t *at)
{
    enum { WINDOW = 4096 };
    size_t step = needle->len < WINDOW / 4 ? WINDOW : (size_t)4 * needle->len;
    *at = SIZE_MAX;
    for (size_t p = from; to - p >= needle->len; p += step) {
        size_t left = to - p, size = left < step + needle->len - 1 ? left : step + needle->len - 1;
        const char *found = memmem(s->data + p, size, needle->data, needle->len);
        if (found) *at = (size_t)(found - s->data);
        int rc = rt_j_tick(r, (found ? *at - p + needle->len : size) / 64);
        if (rc < 0 || found) return rc;
        if (left <= step) break;
    }
    return RT_OK;
}

int rt_jstr_find(rt_jrun *r, const rt_jstr *s, const rt_jstr *needle, size_t from, size_t to, bool last, size_t *at)
{
    *at = SIZE_MAX;
    if (from > to || needle->len > to - from) return RT_OK;
    if (needle->len == 0) {
        *at = last ? to : from;
        return RT_OK;
    }
    return last ? find_last(r, s, needle, from, to, at) : find_first(r, s, needle, from, to, at);
}

/* ---- joining ---- */

enum { CAT_MIN = 256 }; /* shorter results are copied: they would only take the room of a long one */

static int concat(rt_jrun *r, const rt_jstr *a, const rt_jstr *b, rt_jval *out)
{
    size_t len = (size_t)a->len + b->len;
    if (len > r->output_left) return rt_j_fail(r, "a string of %zu bytes is too long", len);
    const char *data = a->data;
    bool in_place = len >= CAT_MIN && a->len > 0 && a->data + a->len == r->cat_end && b->len <= r->cat_room;
    int rc = rt_j_tick(r, (in_place ? b->len : len) / 256);
    if (rc < 0) return rc;
    if (in_place) {
        memcpy(r->cat_end, b->data, b->len);
    } else {
        size_t room = len >= CAT_MIN ? len : 0;
        char *copy = rt_j_alloc(r, len + room);
        if (!copy) return rt_j_status(r);
        if (a->len > 0) memcpy(copy, a->data, a->len);
        if (b->len > 0) memcpy(copy + a->len, b->data, b->len);
        data = copy;
        if (room == 0) return rt_jstr_view(r, data, len, out);
        r->cat_end = copy + a->len;
        r->cat_room = room + b->len;
    }
    r->cat_end += b->len;
    r->cat_room -= b->len;
    return rt_jstr_view(r, data, len, out);
}

int rt_jstr_concat(rt_jrun *r, const rt_jstr *a, const rt_jstr *b, rt_jval *out)
{
    bool markup = a->markup || b->markup;
    rt_jval safe;
    int rc = RT_OK;
    if (markup && !a->markup) {
        if ((rc = rt_jstr_escape(r, a, &safe)) < 0) return rc;
        a = safe.s;
    }
    if (markup && !b->markup) {
        if ((rc = rt_jstr_escape(r, b, &safe)) < 0) return rc;
        b = safe.s;
    }
    if ((rc = concat(r, a, b, out)) < 0) return rc;
    out->s->markup = markup;
    return RT_OK;
}

int rt_jstr_repeat(rt_jrun *r, const rt_jstr *s, int64_t times, rt_jval *out)
{
    uint64_t bytes = 0;
    if (times > 0 && (!rt_mul_u64((uint64_t)times, s->len, &bytes) || bytes > r->output_left))
        return rt_j_fail(r, "a string repeated %lld times is too long", (long long)times);
    int rc = rt_j_tick(r, bytes / 256);
    if (rc < 0) return rc;
    char *data = rt_j_alloc(r, (size_t)bytes);
    if (!data) return rt_j_status(r);
    for (uint64_t at = 0; at < bytes; at += s->len) memcpy(data + at, s->data, s->len);
    if ((rc = rt_jstr_view(r, data, (size_t)bytes, out)) == RT_OK) out->s->markup = s->markup;
    return rc;
}

int rt_jstr_escape(rt_jrun *r, const rt_jstr *s, rt_jval *out)
{
    size_t mark = rt_j_mark(r);
    int rc = rt_j_tick(r, s->len / 64);
    for (size_t i = 0, from = 0; rc == RT_OK && i <= s->len; i++) {
        const char *entity = NULL;
        switch (i < s->len ? s->data[i] : 0) {
        case '&': entity = "&amp;"; break;
        case '<': entity = "&lt;"; break;
        case '>': entity = "&gt;"; break;
        case '\'': entity = "&#39;"; break;
        case '"': entity = "&#34;"; break;
        default:
            if (i < s->len) continue;
        }
        rc = rt_j_put(r, s->data + from, i - from);
        if (rc == RT_OK && entity) rc = rt_j_puts(r, entity);
        from = i + 1;
    }
    if (rc == RT_OK) rc = rt_j_cut(r, mark, out);
    if (rc == RT_OK) out->s->markup = true;
    return rc;
}

/* ---- scratch ---- */

size_t rt_j_mark(const rt_jrun *r) { return r->out->len; }

int rt_j_put(rt_jrun *r, const char *data, size_t len)
{
    if (len > r->output_left) return rt_j_fail(r, "its text is longer than a template may write");
    rt_str_append_n(r->out, data, len);
    if (r->out->failed) return rt_fail(r->e, RT_NOMEM, "template line %u: out of memory", r->line);
    r->output_left -= len;
    return RT_OK;
}

int rt_j_puts(rt_jrun *r, const char *terminated) { return rt_j_put(r, terminated, strlen(terminated)); }

int rt_j_put_char(rt_jrun *r, uint32_t c)
{
    char buf[4];
    return rt_j_put(r, buf, rt_utf8_put(c, buf));
}

int rt_j_cut(rt_jrun *r, size_t mark, rt_jval *out)
{
    size_t len = r->out->len - mark;
    char *data = rt_j_alloc(r, len);
    if (!data) return rt_j_status(r);
    if (len > 0) memcpy(data, r->out->data + mark, len);
    r->out->len = mark;
    if (r->out->data) r->out->data[mark] = '\0';
    r->output_left += len;
    return rt_jstr_view(r, data, len, out);
}
