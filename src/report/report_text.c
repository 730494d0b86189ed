/* report_text.c - text that goes into the page. Everything that did not come from us passes through here. */
#include "report/report_internal.h"

#include "base/json.h"
#include "base/utf8.h"

#include <inttypes.h>
#include <string.h>
#include <time.h>

typedef enum kind { AS_HTML, AS_JSON } kind;

static void put_char(rt_str *s, kind k, uint32_t cp, const char *bytes, uint32_t len)
{
    if (cp < 32 && cp != '\n' && cp != '\t') {
        rt_str_append_cp(s, 0x2400 + cp); /* the picture of the control character */
    } else if (cp >= 0x7f && cp < 0xa0) {
        rt_str_append_cp(s, 0xfffd);
    } else if (k == AS_HTML) {
        switch (cp) {
        case '<': rt_str_append(s, "&lt;"); break;
        case '>': rt_str_append(s, "&gt;"); break;
        case '&': rt_str_append(s, "&amp;"); break;
        case '"': rt_str_append(s, "&quot;"); break;
        case '\'': rt_str_append(s, "&#39;"); break;
        default: rt_str_append_n(s, bytes, len);
        }
    } else if (cp < 32 || strchr("<>&\"'\\", (int)cp) || cp == 0x2028 || cp == 0x2029) {
        rt_str_printf(s, "\\u%04x", cp);
    } else {
        rt_str_append_n(s, bytes, len);
    }
}

/* max: bytes of text that are taken at most, to the end of a character. Returns how many were. */
static size_t put(rt_str *s, kind k, const char *text, size_t len, size_t max)
{
    size_t at = 0;
    while (at < len && at < max) {
        size_t good = rt_utf8_valid(text + at, len - at);
        for (size_t end = at + good; at < end && at < max;) {
            uint32_t n, cp = rt_utf8_get(text + at, &n);
            put_char(s, k, cp, text + at, n);
            at += n;
        }
        if (at < len && at < max) {
            bool cut;
            at += rt_utf8_bad(text + at, len - at, &cut);
            rt_str_append(s, "\xef\xbf\xbd");
        }
    }
    return at < len ? at : len;
}

static void put_html(rt_str *s, const char *text, size_t len) { (void)put(s, AS_HTML, text, len, SIZE_MAX); }

void rt_html_text(rt_str *s, const char *text)
{
    if (text) put_html(s, text, strlen(text));
}

void rt_html_between(rt_str *s, const char *before, const char *text, const char *after)
{
    rt_str_append(s, before);
    rt_html_text(s, text);
    rt_str_append(s, after);
}

void rt_html_json_string(rt_str *s, const char *text)
{
    rt_str_append(s, "\"");
    (void)put(s, AS_JSON, text, strlen(text), SIZE_MAX);
    rt_str_append(s, "\"");
}

void rt_html_limited(rt_str *s, const char *text, size_t len, size_t max)
{
    size_t taken = put(s, AS_HTML, text, len, max);
    if (taken == len) return;
    rt_str_append(s, "<span class=\"more\">&hellip; ");
    rt_html_count(s, len - taken);
    rt_str_append(s, " more bytes</span>");
}

void rt_html_value(rt_str *s, const json_t *v)
{
    if (json_is_string(v)) {
        put_html(s, json_string_value(v), json_string_length(v));
        return;
    }
    if (json_is_array(v)) { /* lists of words read better without brackets */
        for (size_t i = 0; i < json_array_size(v); i++) {
            if (i) rt_str_append(s, ", ");
            rt_html_value(s, json_array_get(v, i));
        }
        return;
    }
    if (json_is_object(v)) {
        const char *key, *between = "";
        json_t *value;
        json_object_foreach((json_t *)v, key, value)
        {
            rt_str_append(s, between);
            rt_html_text(s, key);
            rt_str_append(s, " ");
            rt_html_value(s, value);
            between = ", ";
        }
        return;
    }
    if (!v || json_is_null(v)) {
        rt_str_append(s, "<span class=\"none\">&ndash;</span>");
        return;
    }
    /* 12 digits: 0.1 stays 0.1. */
    char *text = rt_json_dump(v, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
    if (text)
        rt_html_text(s, text);
    else
        s->failed = true;
    rt_free(text);
}

char *rt_html_grouped(char *buf, uint64_t n)
{
    char digits[24], *to = buf;
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0) *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return buf;
}

void rt_html_count(rt_str *s, uint64_t n)
{
    char buf[32];
    rt_str_append(s, rt_html_grouped(buf, n));
}

void rt_html_duration(rt_str *s, double seconds)
{
    uint64_t t = seconds > 0 && seconds < 1e15 ? (uint64_t)(seconds + 0.5) : 0;
    if (t < 60 && seconds < 59.95)
        rt_str_printf(s, "%.1f s", seconds > 0 ? seconds : 0.0);
    else if (t < 3600)
        rt_str_printf(s, "%" PRIu64 " min %" PRIu64 " s", t / 60, t % 60);
    else
        rt_str_printf(s, "%" PRIu64 " h %" PRIu64 " min", t / 3600, t / 60 % 60);
}

void rt_html_time(rt_str *s, int64_t unix_time)
{
    struct tm tm;
    char buf[64];
    time_t t = (time_t)unix_time;
    if (gmtime_r(&t, &tm) && strftime(buf, sizeof buf, "%Y-%m-%d %H:%M UTC", &tm)) rt_str_append(s, buf);
}
