/* print.c - standard output and input: JSON, numbers and names for people, text that a terminal may be shown. */
#include "cli/cli.h"

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
    int rc = j ? RT_OK : rt_no_memory(e, "JSON");
    if (j && (json_dumpf(j, stdout, JSON_INDENT(2)) < 0 || putchar('\n') == EOF)) rc = rt_stdout_close(e);
    json_decref(j);
    return rc;
}

bool rt_reader_left(FILE *f)
{
    struct pollfd end = { .fd = fileno(f), .events = POLLOUT };
    return poll(&end, 1, 0) == 1 && (end.revents & POLLERR);
}

int rt_stdout_close(rt_err *e)
{
    if ((fflush(stdout) == EOF || ferror(stdout)) && !rt_reader_left(stdout))
        return rt_fail(e, RT_IO, "could not write to standard output: %s", strerror(errno));
    return RT_OK;
}

/* Columns to fill; 0: no terminal, where lines stay whole. */
static uint32_t terminal_width(void)
{
    enum { NARROWEST = 40 };
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col) return 0;
    return size.ws_col < NARROWEST ? NARROWEST : size.ws_col;
}

static uint32_t columns_of(const char *text, size_t len)
{
    uint32_t n = 0;
    for (size_t i = 0; i < len; i++) n += ((unsigned char)text[i] & 0xC0) != 0x80;
    return n;
}

void rt_say(const char *label, const char *format, ...)
{
    enum { LABEL = 10 };
    rt_str text = { 0 };
    va_list args;
    va_start(args, format);
    rt_str_vprintf(&text, format, args);
    va_end(args);
    uint32_t width = terminal_width(), at = LABEL;
    printf("%-9s", label);
    /* Word by word; one that is wider than the line stands there whole. */
    for (const char *word = text.data ? text.data : ""; *word;) {
        size_t len = strcspn(word, " "), gap = strspn(word + len, " ");
        uint32_t columns = columns_of(word, len);
        if (width && at > LABEL && at + columns >= width) {
            printf("\n%*s", LABEL - 1, "");
            at = LABEL;
        }
        printf(" %.*s", (int)len, word);
        for (size_t i = 1; i < gap; i++) putchar(' ');
        at += columns + (uint32_t)gap;
        word += len + gap;
    }
    printf("\n");
    rt_str_free(&text);
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
    fputs(text.data ? text.data : "", stdout);
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
