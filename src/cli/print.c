/* print.c - standard output and input: JSON, numbers and names for people, text that a terminal may be shown. */
#include "cli/cli.h"

#include "base/json.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

int rt_print_json(json_t *j, rt_err *e)
{
    char *text = rt_json_dump(j, JSON_INDENT(2));
    int rc = text ? RT_OK : rt_no_memory(e, "JSON");
    if (text && puts(text) == EOF) rc = rt_stdout_close(e);
    rt_free(text);
    json_decref(j);
    return rc;
}

bool rt_reader_left(FILE *f)
{
    struct pollfd end = { .fd = fileno(f), .events = POLLOUT };
    return poll(&end, 1, 0) == 1 && (end.revents & POLLERR);
}

uint32_t rt_terminal_width(FILE *to)
{
    enum { NARROWEST = 40 };
    struct winsize size;
    if (!isatty(fileno(to)) || ioctl(fileno(to), TIOCGWINSZ, &size) != 0 || !size.ws_col) return 0;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

/* Characters; colours take no column. */
static uint32_t columns_of(const char *text, size_t len)
{
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++) {
        if (text[i] == '\033')
            while (i + 1 < len && text[i] != 'm') i++;
        else
            n += ((unsigned char)text[i] & 0xC0) != 0x80;
    }
    return n;
}

/* The line that is being printed to a terminal, until it is whole. */
static struct {
    FILE *to;
    rt_str text;
    bool whole; /* it holds a command to copy */
} line;

enum { LABEL = 10, FAR = 24 };

/* Where the text of "label     text", "a longer label    text" or "  text" begins. */
static uint32_t indent_of(const char *text)
{
    size_t len = strlen(text), lead = strspn(text, " ");
    if (lead) return lead <= FAR ? (uint32_t)lead : LABEL;
    if (len > LABEL && text[LABEL - 1] == ' ' && text[LABEL] != ' ') return LABEL;
    const char *gap = strstr(text, "  ");
    size_t at = gap ? (size_t)(gap - text) + strspn(gap, " ") : 0;
    return at && at <= FAR ? (uint32_t)at : LABEL;
}

/* Word by word; one that is wider than the line stands there whole, and so does a command at the end of a sentence. */
static void put_wrapped(FILE *to, const char *text, uint32_t indent, uint32_t width)
{
    uint32_t at = 0;
    size_t lead = strspn(text, " ");
    if (columns_of(text, strlen(text)) < width) indent = 0;
    fprintf(to, "%.*s", (int)lead, text);
    at = (uint32_t)lead;
    for (const char *word = text + lead; *word;) {
        size_t len = strcspn(word, " "), gap = strspn(word + len, " ");
        uint32_t columns = columns_of(word, len);
        bool command = word > text + 2 && word[-2] == ':' && strncmp(word, "retort ", 7) == 0;
        if (indent && at > indent && (at + columns >= width || command)) {
            fprintf(to, "\n%*s", (int)indent, "");
            at = indent;
        }
        if (indent && command) {
            fputs(word, to);
            break;
        }
        /* the gap is written with the word that follows on the same line */
        const char *next = word + len + gap;
        bool fits = !indent || at + columns + gap + columns_of(next, strcspn(next, " ")) < width || at <= indent;
        fprintf(to, "%.*s%*s", (int)len, word, *next && fits ? (int)gap : 0, "");
        at += columns + (uint32_t)gap;
        word = next;
    }
    fputc('\n', to);
}

static void put_line(uint32_t indent)
{
    const char *text = line.text.data ? line.text.data : "";
    uint32_t width = rt_terminal_width(line.to);
    if (line.whole || !width)
        fprintf(line.to, "%s\n", text);
    else
        put_wrapped(line.to, text, indent ? indent : indent_of(text), width);
    line.whole = false;
    rt_str_free(&line.text);
}

static void print_text(FILE *to, uint32_t indent, const char *text)
{
    if (line.text.len && line.to != to) put_line(0);
    line.to = to;
    for (size_t len; *text; text += len + (text[len] == '\n')) {
        len = strcspn(text, "\n");
        rt_str_append_n(&line.text, text, len);
        if (text[len] == '\n') put_line(indent);
    }
}

/* Names in a text come from files and from the command line, and a terminal obeys control characters: they are tamed,
 * except in text that has colours of our own, whose parts were made visible one by one. */
static void print_args(FILE *to, uint32_t indent, bool tame, const char *format, va_list args)
{
    rt_str text = { 0 };
    rt_str_vprintf(&text, format, args);
    if (tame && text.data) rt_text_tame(text.data);
    if (rt_terminal_width(to))
        print_text(to, indent, text.data ? text.data : "");
    else
        fputs(text.data ? text.data : "", to);
    rt_str_free(&text);
}

void rt_put(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_args(stdout, 0, true, format, args);
    va_end(args);
}

void rt_put_coloured(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_args(stdout, 0, false, format, args);
    va_end(args);
}

void rt_put_to(FILE *to, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_args(to, 0, true, format, args);
    va_end(args);
}

void rt_put_under(uint32_t column, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    print_args(stdout, column, true, format, args);
    va_end(args);
}

void rt_say(const char *label, const char *format, ...)
{
    rt_str text = { 0 };
    va_list args;
    va_start(args, format);
    rt_str_vprintf(&text, format, args);
    va_end(args);
    rt_put_under(LABEL, "%-9s %s\n", label, text.data ? text.data : "");
    rt_str_free(&text);
}

int rt_stdout_close(rt_err *e)
{
    if (line.text.len) put_line(0);
    if ((fflush(stdout) == EOF || ferror(stdout)) && !rt_reader_left(stdout))
        return rt_fail(e, RT_IO, "could not write to standard output: %s", strerror(errno));
    return RT_OK;
}

json_t *rt_json_text(const char *text)
{
    if (!text) return json_null();
    json_t *j = json_string(text);
    if (j) return j;
    rt_str s = { 0 };
    for (const char *p = text; *p; p++) rt_str_append_n(&s, (unsigned char)*p < 128 ? p : "?", 1);
    j = s.failed ? NULL : json_string(s.data ? s.data : "");
    rt_str_free(&s);
    return j;
}

json_t *rt_json_u64(uint64_t v)
{
    char digits[24];
    if (v <= INT64_MAX) return json_integer((json_int_t)v);
    snprintf(digits, sizeof digits, "%" PRIu64, v);
    return json_string(digits);
}

json_t *rt_json_notes(const rt_notes *n)
{
    json_t *list = json_array();
    for (uint32_t i = 0; i < n->count; i++) json_array_append_new(list, rt_json_text(n->text[i]));
    return list;
}

json_t *rt_json_measure(rt_measure m)
{
    if (isnan(m.mean)) return json_null();
    return json_pack("{s:f, s:o}", "mean", m.mean, "error", isnan(m.error) ? json_null() : json_real(m.error));
}

char *rt_format_params(char *buf, uint64_t n)
{
    if (n >= 1000000000)
        snprintf(buf, 32, "%.2f B", (double)n / 1e9);
    else if (n >= 10000000)
        snprintf(buf, 32, "%.0f M", (double)n / 1e6);
    else if (n >= 1000000)
        snprintf(buf, 32, "%.2f M", (double)n / 1e6);
    else
        snprintf(buf, 32, "%" PRIu64, n);
    return buf;
}

void rt_print_word(const char *path, const char *more)
{
    rt_str text = { 0 };
    rt_str_append_word(&text, path, more);
    rt_put("%s", text.data ? text.data : "");
    line.whole = line.text.len > 0;
    rt_str_free(&text);
}

void rt_visible_append(rt_str *out, const char *text, size_t len, bool one_line)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        bool c1 = c == 0xC2 && i + 1 < len && ((unsigned char)text[i + 1] & 0xE0) == 0x80;
        if (c1)
            rt_str_printf(out, "\\x%02x", (unsigned char)text[++i]);
        else if (one_line && (c == '\n' || c == '\t'))
            rt_str_append(out, c == '\n' ? "\\n" : "\\t");
        else if ((c < ' ' && c != '\n' && c != '\t') || c == 127)
            rt_str_printf(out, "\\x%02x", c);
        else
            rt_str_append_n(out, &text[i], 1);
    }
}

int rt_read_input(rt_str *out, rt_err *e)
{
    enum { MOST = 1 << 30 };
    char block[1 << 16];
    for (size_t n; (n = fread(block, 1, sizeof block, stdin)) > 0;) {
        rt_str_append_n(out, block, n);
        if (out->failed) return rt_no_memory(e, "standard input");
        if (out->len > MOST) return rt_fail(e, RT_INVALID, "more than 1 GiB on standard input");
    }
    if (ferror(stdin)) return rt_fail(e, RT_IO, "could not read standard input: %s", strerror(errno));
    return RT_OK;
}
